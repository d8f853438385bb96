"""Triggers that every member attempts and nobody leads."""
