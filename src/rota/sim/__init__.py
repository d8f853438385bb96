"""A seeded world: clock, network, disk, ledger. It runs whole networks of the real core."""
