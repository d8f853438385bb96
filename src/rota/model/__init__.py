"""Values that all packages share: ids, contracts, intents, states, transitions, blocks, genesis, digests, settings."""
