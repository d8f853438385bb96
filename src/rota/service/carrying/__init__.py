"""Chained transactions: other private contracts decide about them and carry them out."""
