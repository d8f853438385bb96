"""Submitting transactions: read, checked, accepted once, and refused under overload."""
