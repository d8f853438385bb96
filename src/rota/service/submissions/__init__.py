"""Submitting transactions: what is asked for, checked, accepted once and refused when too much waits."""
