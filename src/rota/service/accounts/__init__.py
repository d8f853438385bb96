"""The submitting accounts of a node: which contracts have their own, and which accounts cannot pay."""
