"""Zero-knowledge tokens: coins that nobody sees but their owners, and a proof of each transition (decision 130)."""
