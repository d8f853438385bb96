"""Ethereum's ABI: from and to JSON, and decoded at a bounded cost."""
