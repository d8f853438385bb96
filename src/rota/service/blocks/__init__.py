"""Blocks, transactions and events of the base ledger."""
