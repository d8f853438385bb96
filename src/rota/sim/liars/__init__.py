"""Dishonest nodes of the simulated world: which nodes lie, what they record, and what they send and commit.

A liar runs the real core. Each message of its core passes through its strategies, which change it, drop it or add
others. All liars share one notebook of the messages that any of them sent or received, and each has a chain account.
"""
