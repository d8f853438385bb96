"""Runs the core in an event loop: events in, effects out, and the answers of domain, signer and key store."""
