"""Operators' queries to a node: status, health, its own settings."""
