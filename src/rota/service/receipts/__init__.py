"""Outcomes of transactions: receipts, states, prepared transitions, and the nodes that hold them."""
