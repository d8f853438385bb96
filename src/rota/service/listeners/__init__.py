"""Listeners of receipts, events and messages: durable, in batches, from where they last acknowledged."""
