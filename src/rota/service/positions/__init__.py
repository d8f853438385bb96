"""Reads that wait until this node has seen as much of the ledger as their caller."""
