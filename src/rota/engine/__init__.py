"""Runs the core in an event loop: events in, effects out, and the services that answer for domain, signer and keys."""
