"""Benchmarks: the cost of Rota on this machine. `rota bench` runs them; docs/performance.md explains the figures."""
