"""Reads that wait for a position: bounded in time and number, and never answered from before it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from rota.machine.tables import Event
from rota.model.types import BlockHash, Leaf, NodeName
from rota.node.events import StatesWanted
from rota.ports import Unavailable
from rota.rpc import errors
from rota.rpc.credentials import CALLER, Caller
from rota.service.interface import PositionView
from rota.service.positions import waiting as positions
from rota.service.positions.waiting import ReadPositions
from tests.service.test_holdings import Stored, made
from tests.service.test_mail import CONTRACT, NODE2
from tests.store.kit import NODE, in_loop

CHAIN = BlockHash(b"\7" * 32)


def hash_of(height: int) -> BlockHash:
    return BlockHash(bytes([height]) * 32)


class Reads:
    """A node whose index is at `height` and keeps the blocks from 5 on."""

    def __init__(self) -> None:
        self.height = 10
        self.store = Stored()
        self.wanted: list[Event] = []
        self.headers = 0
        self.committed: list[tuple[int, Leaf]] = []
        self.is_writing = False
        self.after_write: list[Callable[[], None]] = []
        self.positions = ReadPositions(
            NODE,
            self.store,  # type: ignore[arg-type]
            lambda: CHAIN,
            lambda: self.height,
            lambda height: hash_of(height) if 5 <= height <= self.height else None,
            self.header,
            self.wanted.append,
            lambda height, _, leaf: (height, leaf) in self.committed,
            self.after_writes,
        )

    def after_writes(self, call: Callable[[], None]) -> None:
        if self.is_writing:
            self.after_write.append(call)
        else:
            call()

    async def header(self, number: int) -> BlockHash | None:
        self.headers += 1
        return hash_of(number) if number <= self.height else None

    async def reach(self, *places: PositionView) -> None:
        await self.positions.reach(places)


@in_loop
async def test_position_is_reached_when_the_block_comes() -> None:
    reads = Reads()
    waiting = asyncio.ensure_future(reads.reach(PositionView(11, hash_of(11))))
    await asyncio.sleep(0)
    assert not waiting.done()
    reads.height = 11
    await waiting
    await reads.reach(PositionView(10, hash_of(10), chain=CHAIN))


@in_loop
async def test_position_is_reached_when_the_store_has_the_block_too() -> None:
    """The index has a block before its write is durable, and the caller reads from the store."""
    reads = Reads()
    reads.is_writing = True
    waiting = asyncio.ensure_future(reads.reach(PositionView(10, hash_of(10), chain=CHAIN)))
    while not reads.after_write:
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not waiting.done()
    reads.after_write.pop()()
    await waiting


@in_loop
async def test_position_on_another_fork_or_chain_is_refused() -> None:
    reads = Reads()
    with pytest.raises(
        errors.Rejected, match=r"^blockHash: must be that of block 10 on this node's chain, which is 0x0a"
    ):
        await reads.reach(PositionView(10, hash_of(9)))
    with pytest.raises(errors.Rejected, match=r"^chain: must be this node's chain"):
        await reads.reach(PositionView(10, hash_of(10), chain=hash_of(1)))
    # An old block is compared with the chain's, once if it is there.
    await reads.reach(PositionView(3, hash_of(3)))
    await reads.reach(PositionView(3, hash_of(3)))
    assert reads.headers == 1
    with pytest.raises(errors.Rejected, match=r"^blockHash: "):
        await reads.reach(PositionView(3, hash_of(4)))


@in_loop
async def test_read_waits_for_states_of_this_node_and_asks_for_them_once() -> None:
    reads = Reads()
    transition = made(1, NODE, NODE2)
    place = PositionView(10, hash_of(10), 0, CHAIN, CONTRACT, transition.leaf, (NODE, NODE2))
    reads.committed = [(10, transition.leaf)]
    waiting = asyncio.ensure_future(reads.reach(place))
    while reads.store.looks < 2:
        await asyncio.sleep(0)
    assert not waiting.done()
    assert reads.wanted == [StatesWanted(CONTRACT, (transition.leaf,))]
    reads.store.transitions = [transition.as_seen_by(NodeName("node9"))]
    looks = reads.store.looks
    while reads.store.looks < looks + 2:
        await asyncio.sleep(0)
    assert not waiting.done()
    reads.store.transitions = [transition]
    await waiting
    looks = reads.store.looks
    await reads.reach(place)
    assert reads.store.looks == looks
    # Whoever is not named waits for no states.
    await reads.reach(PositionView(10, hash_of(10), 0, CHAIN, CONTRACT, made(2).leaf, (NODE2,)))


@in_loop
async def test_read_that_waits_too_long_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(positions, "READ_WAIT_S", 0.01)
    reads = Reads()
    with pytest.raises(errors.NotReached, match=r"^node1 still lacks block 99 after 0.01 s; its index is at block 10"):
        await reads.reach(PositionView(99, hash_of(99)))
    place = PositionView(10, hash_of(10), 0, None, CONTRACT, made(1).leaf, (NODE,))
    with pytest.raises(errors.NotReached, match="still lacks the private states that block 10 committed"):
        await reads.reach(place)
    assert reads.wanted == [], "no peer is asked for what the block did not commit"


@in_loop
async def test_one_caller_leaves_room_for_the_others() -> None:
    reads = Reads()
    greedy, modest = (Caller(name, frozenset()) for name in ("greedy", "modest"))
    far = PositionView(2**62, hash_of(1))
    CALLER.set(greedy)
    waiting = [asyncio.ensure_future(reads.reach(far)) for _ in range(positions.WAITING_MAX)]
    await asyncio.sleep(0)
    with pytest.raises(Unavailable, match="128 reads wait"):
        await reads.reach(PositionView(10, hash_of(10)))
    CALLER.set(modest)
    await reads.reach(PositionView(10, hash_of(10)))
    for each in waiting:
        each.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    CALLER.set(greedy)
    await reads.reach(PositionView(10, hash_of(10)))


@in_loop
async def test_reads_that_wait_are_bounded() -> None:
    reads = Reads()
    far = PositionView(2**62, hash_of(1))
    waiting = [asyncio.ensure_future(reads.reach(far)) for _ in range(positions.WAITING_MAX)]
    await asyncio.sleep(0)
    with pytest.raises(Unavailable, match="256 reads wait"):
        await reads.reach(far)
    for each in waiting:
        each.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    await reads.reach(PositionView(10, hash_of(10)))
