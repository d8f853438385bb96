"""The node among others: peers, registries and domains."""
