"""Benchmarks: what Rota costs on this machine. `rota bench` runs them; docs/performance.md says how to read them."""
