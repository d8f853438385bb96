"""The base ledger: Rota's interface to an Ethereum chain, and an embedded chain of its own."""
