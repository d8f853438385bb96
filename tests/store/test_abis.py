"""ABIs are kept once, and their entries are found by what stands on the chain; the same on both databases."""

from __future__ import annotations

import msgspec

from rota.abi.codec import entries_of, hash_of
from rota.domains.queries import Query
from tests.store.kit import Make, Opened, in_loop

ABI = entries_of(
    [
        {"type": "constructor", "inputs": []},
        {"type": "function", "name": "set", "inputs": [{"name": "x", "type": "uint256"}]},
        {"type": "event", "name": "Changed", "inputs": [{"name": "x", "type": "uint256", "indexed": True}]},
        {"type": "event", "name": "Hidden", "anonymous": True, "inputs": []},
        {"type": "error", "name": "TooLarge", "inputs": []},
    ],
    "abi",
)
OTHER = entries_of([{"type": "function", "name": "set", "inputs": [{"name": "y", "type": "uint256"}]}], "abi")


@in_loop
async def test_abi_and_its_entries_are_found(make: Make) -> None:
    opened = await Opened(await make()).start(())
    abis = opened.store.abis
    try:
        assert await abis.add(ABI) == await abis.add(ABI) == hash_of(ABI)
        await abis.add(OTHER)
        stored = await abis.get(hash_of(ABI))
        assert stored is not None
        assert entries_of(msgspec.json.decode(stored.written), "abi") == ABI
        assert await abis.get(b"\0" * 32) is None
        set_, changed, hidden, too_large = ABI[1:]
        assert set(await abis.entries("function", set_.selector)) == {set_, OTHER[0]}
        assert await abis.entries("event", changed.topic) == (changed,)
        assert await abis.entries("error", too_large.selector) == (too_large,)
        assert await abis.entries("event", hidden.topic) == ()
        wanted = Query.parse({"eq": [{"field": "hash", "value": "0x" + hash_of(OTHER).hex()}]})
        assert [found.hash for found in await abis.find(wanted)] == [hash_of(OTHER)]
        assert len(await abis.find(Query.parse({"limit": 1}))) == 1
    finally:
        await opened.store.close()
