"""The base ledger: what Rota says to an Ethereum chain and reads from it, and a chain of its own."""
