"""A seeded world with clock, network, disks and ledger, which runs whole networks of the real core."""
