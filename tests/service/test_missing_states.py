"""Contracts that lack states are asked for while it helps, and a few times in vain."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from rota.machine.tables import Event
from rota.model.types import ContractAddress, Leaf
from rota.node.events import StatesWanted
from rota.service.contracts.missing_states import CONTRACTS_A_LOOK_MAX, IN_VAIN_MAX, SETTLED_BLOCKS, MissingStates

ONE, TWO = ContractAddress("0x" + "11" * 20), ContractAddress("0x" + "22" * 20)


@dataclass
class Lacking:
    """A store of which only one question is asked."""

    leaves: dict[ContractAddress, tuple[Leaf, ...]] = field(default_factory=dict)
    asked_until: list[int] = field(default_factory=list)

    async def leaves_without_states(self, contract: ContractAddress, last: int, limit: int) -> tuple[Leaf, ...]:
        self.asked_until.append(last)
        return self.leaves.get(contract, ())[:limit]


def test_asking_goes_on_while_it_helps_and_ends_when_it_does_not() -> None:
    async def story() -> None:
        store = Lacking({ONE: (Leaf(b"a"), Leaf(b"b"))})
        told: list[Event] = []
        kept: Callable[[], Any] = lambda: store  # noqa: E731  # a store that is asked one thing
        missing = MissingStates(kept, lambda: (ONE, TWO), lambda: 100, told.append)
        assert await missing.lacking() == ((ONE, 0),)
        await missing.ask(ONE)
        assert told == [StatesWanted(ONE, (Leaf(b"a"), Leaf(b"b")))]
        assert set(store.asked_until) == {100 - SETTLED_BLOCKS}
        store.leaves[ONE] = (Leaf(b"b"),)
        for count in range(1, IN_VAIN_MAX + 2):
            assert await missing.lacking() == ((ONE, count),)
            await missing.ask(ONE)
        assert await missing.lacking() == (), "it is somebody else's"
        store.leaves[ONE] = (Leaf(b"b"), Leaf(b"c"))
        assert await missing.lacking() == ((ONE, IN_VAIN_MAX + 2),), "something else is missing now"
        store.leaves[ONE] = ()
        assert await missing.lacking() == ()

    asyncio.run(story())


def test_a_look_goes_through_some_contracts_and_the_next_one_goes_on() -> None:
    async def story() -> None:
        every = tuple(ContractAddress(f"0x{number:040x}") for number in range(CONTRACTS_A_LOOK_MAX + 3))
        store = Lacking({address: (Leaf(b"a"),) for address in every})
        told: list[Event] = []
        kept: Callable[[], Any] = lambda: store  # noqa: E731  # as above
        missing = MissingStates(kept, lambda: every, lambda: 100, told.append)
        looks = [[address for address, _ in await missing.lacking()] for _ in range(3)]
        assert tuple(looks[0] + looks[1]) == every
        assert looks[2] == looks[0]
        assert await missing.lacking(every[-1]) == ((every[-1], 0),)

    asyncio.run(story())


def test_a_young_chain_lacks_nothing_yet() -> None:
    async def story() -> None:
        store = Lacking({ONE: (Leaf(b"a"),)})
        kept: Callable[[], Any] = lambda: store  # noqa: E731  # as above
        told: list[Event] = []
        missing = MissingStates(kept, lambda: (ONE,), lambda: SETTLED_BLOCKS, told.append)
        assert await missing.lacking() == ()

    asyncio.run(story())
