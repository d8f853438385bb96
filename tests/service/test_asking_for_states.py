"""How a node asks for private states that it missed: all of them, of all who may have them, and not for ever."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import cast

import pytest

from rota.machine.tables import Event
from rota.model.types import Contract, ContractAddress, IntentId, KnownContract, Leaf, NodeName
from rota.node.events import StatesWanted
from rota.ports import Store
from rota.service.contracts import arrears as arrears_module
from rota.service.contracts.arrears import IN_VAIN_MAX, LEAVES_MAX, Arrears
from tests.ledger.chains import in_loop

ADDRESS = ContractAddress("0x" + "11" * 20)
KNOWN = KnownContract(Contract(ADDRESS, (NodeName("A"),), (), 0), IntentId(bytes(16)), (), b"", 1, 9)


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LOOK_S", "RETRY_S", "RETRY_MAX_S", "PAGE_S"):
        monkeypatch.setattr(arrears_module, name, 0.0001)
    monkeypatch.setattr(arrears_module, "SETTLED_WITHIN_S", 0.01)


def leaf(number: int) -> Leaf:
    return Leaf(number.to_bytes(32, "big"))


@dataclass
class Peers:
    """What a node lacks, and peers that send what is for it as soon as they are asked and there."""

    lacking: list[Leaf]
    ours: set[Leaf]
    are_there: bool = True
    asked: list[int] = field(default_factory=list)
    begun_again: list[int] = field(default_factory=list)
    rounds: frozenset[int] = frozenset()
    is_settled: bool = True

    def tell(self, event: Event) -> None:
        assert isinstance(event, StatesWanted)
        self.asked.append(len(event.leaves))
        if self.are_there:
            self.lacking = [each for each in self.lacking if each not in self.ours or each not in event.leaves]

    async def leaves_without_states(self, _: ContractAddress, last: int, limit: int, skip: int) -> tuple[Leaf, ...]:
        assert last == KNOWN.taken_in_at
        return tuple(self.lacking[skip : skip + limit])

    async def heights_with_outcomes(self, *_: object) -> frozenset[int]:
        return frozenset()

    async def heights_of_rounds(self, *_: object) -> frozenset[int]:
        return self.rounds

    def arrears(self) -> Arrears:
        return Arrears(
            cast(Store, self),
            self.heights_of_rounds,
            lambda: 9,
            self.tell,
            self.begun_again.append,
            lambda _: self.are_there,
            lambda: self.is_settled,
        )


async def made_up(arrears: Arrears) -> None:
    arrears.make_up_for(KNOWN)
    while arrears.open_count:
        await asyncio.sleep(0)


@in_loop
async def test_every_leaf_is_asked_for_however_many_of_others_come_before_it() -> None:
    ours = leaf(2 * LEAVES_MAX)
    peers = Peers([leaf(number) for number in range(2 * LEAVES_MAX + 1)], {ours})
    await made_up(peers.arrears())
    assert ours not in peers.lacking
    assert peers.asked[:3] == [LEAVES_MAX, LEAVES_MAX, 1]


@in_loop
async def test_what_is_somebody_elses_is_not_asked_for_for_ever() -> None:
    peers = Peers([leaf(1)], set())
    await made_up(peers.arrears())
    assert len(peers.asked) == IN_VAIN_MAX + 1


@in_loop
async def test_it_goes_on_until_all_who_may_have_them_have_been_there() -> None:
    peers = Peers([leaf(1)], {leaf(1)}, are_there=False)
    arrears = peers.arrears()
    arrears.make_up_for(KNOWN)
    while len(peers.asked) < 3 * IN_VAIN_MAX:
        await asyncio.sleep(0)
    peers.are_there = True
    while arrears.open_count:
        await asyncio.sleep(0)
    assert peers.lacking == []


@in_loop
async def test_new_life_begins_when_no_other_contract_is_on_its_way() -> None:
    peers = Peers([], set(), rounds=frozenset({3}), is_settled=False)
    arrears = peers.arrears()
    arrears.make_up_for(KNOWN)
    await asyncio.sleep(0.001)
    assert peers.begun_again == []
    peers.is_settled = True
    while arrears.open_count:
        await asyncio.sleep(0)
    assert (peers.begun_again, peers.asked) == ([KNOWN.deployed_at], [])
