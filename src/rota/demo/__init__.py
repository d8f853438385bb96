"""The demonstration: a fail-over on several nodes of the real core, shown so that a newcomer can follow it."""
