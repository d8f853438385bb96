"""Reads that wait until this node has seen what their caller has."""
