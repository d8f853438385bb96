"""Contracts that are to come, pure: deployments of own users, proposals of others, and look-ups of parties."""
