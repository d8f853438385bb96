"""The asyncio node: composes the core with its adapters, performs effects, feeds events, recovers, stops."""
