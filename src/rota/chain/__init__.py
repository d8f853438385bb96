"""The base ledger, pure: the index of blocks, the submitter of rounds, and users' public transactions."""
