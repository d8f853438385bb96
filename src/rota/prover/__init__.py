"""Zero-knowledge proofs: the protocol, the keys, and the worker processes that make proofs."""
