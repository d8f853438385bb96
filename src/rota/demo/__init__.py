"""The demonstration: a fail-over on several nodes of the real core, told so that a newcomer can follow it."""
