"""Chained transactions: what other private contracts decide about and carry out."""
