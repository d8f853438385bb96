"""Listeners of receipts, events and messages: durable, in batches, from the last acknowledged position."""
