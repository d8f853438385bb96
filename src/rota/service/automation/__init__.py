"""Triggers that every member attempts, without a leader."""
