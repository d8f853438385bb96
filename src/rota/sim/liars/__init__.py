"""Nodes of the simulated world that lie: who they are, what they remember, what they say and what they commit.

A liar runs the real core. What the core says passes its strategies, which change it, drop it or add to it; liars
share one notebook with everything that any of them ever heard, and an account on the chain each.
"""
