"""What became of transactions: receipts, states, prepared transitions, and who holds them."""
