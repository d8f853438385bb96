"""The submitting accounts of a node: which contract has one of its own, and which cannot pay."""
