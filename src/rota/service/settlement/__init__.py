"""Transactions of several contracts that happen together or not at all."""
