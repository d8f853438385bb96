"""Contracts that are not deployed yet, pure: own users' deployments, others' proposals, and look-ups of parties."""
