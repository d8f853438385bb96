"""How a node asks for private states that it missed: all of them, of all who may have them, and not for ever."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import cast

import pytest

from rota.machine.tables import Event
from rota.model.blocks import ChainBlock, LedgerOutcome, LedgerStatus
from rota.model.types import BlockHash, Contract, ContractAddress, Digest, IntentId, KnownContract, Leaf, NodeName
from rota.node.events import RoundsMadeUp, StatesWanted
from rota.ports import Store, WriteInDoubt
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
    rounds: tuple[ChainBlock, ...] = ()
    indexed: frozenset[int] = frozenset()
    written: list[int] = field(default_factory=list)
    made_up: list[RoundsMadeUp] = field(default_factory=list)
    final_height: int = KNOWN.taken_in_at
    failures: list[Exception] = field(default_factory=list)
    is_confirmed: bool = True
    complete: list[ContractAddress] = field(default_factory=list)

    def tell(self, event: Event) -> None:
        if isinstance(event, RoundsMadeUp):
            self.made_up.append(event)
            return
        assert isinstance(event, StatesWanted)
        self.asked.append(len(event.leaves))
        if self.are_there:
            self.lacking = [each for each in self.lacking if each not in self.ours or each not in event.leaves]

    async def leaves_without_states(self, _: ContractAddress, last: int, limit: int, skip: int) -> tuple[Leaf, ...]:
        assert last == KNOWN.taken_in_at
        return tuple(self.lacking[skip : skip + limit])

    async def heights_with_outcomes(self, _: ContractAddress, first: int, last: int) -> frozenset[int]:
        return frozenset(height for height in self.indexed if first <= height <= last)

    async def rounds_of(self, _: ContractAddress, first: int, last: int) -> tuple[ChainBlock, ...]:
        return tuple(block for block in self.rounds if first <= block.height <= last)

    async def make_up(self, blocks: Sequence[ChainBlock]) -> None:
        self.written.extend(block.height for block in blocks)
        self.indexed |= {block.height for block in blocks}
        if self.failures:
            raise self.failures.pop()

    async def confirmed(self, _: ContractAddress) -> None:
        while not self.is_confirmed:
            await asyncio.sleep(0)

    def arrears(self) -> Arrears:
        return Arrears(
            cast(Store, self),
            self.rounds_of,
            lambda: self.final_height,
            self.tell,
            lambda _: self.are_there,
            self.confirmed,
            self.note_rounds,
        )

    async def note_rounds(self, contract: ContractAddress) -> None:
        self.complete.append(contract)


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


def block(height: int, *leaves: Leaf) -> ChainBlock:
    outcomes = tuple(
        (ADDRESS, LedgerOutcome(IntentId(each[-16:]), each, Digest(each), LedgerStatus.COMMITTED)) for each in leaves
    )
    return ChainBlock(height, BlockHash(bytes(32)), BlockHash(bytes(32)), height, outcomes)


@in_loop
async def test_rounds_that_the_index_lacks_are_written_once_and_told() -> None:
    peers = Peers([], set(), rounds=(block(3, leaf(3)), block(5, leaf(5), leaf(6))), indexed=frozenset({3}))
    await made_up(peers.arrears())
    assert peers.written == [5]
    assert [outcome.leaf for event in peers.made_up for outcome in event.outcomes] == [leaf(5), leaf(6)]
    await made_up(peers.arrears())
    assert peers.written == [5]


@in_loop
async def test_round_without_an_outcome_is_nothing_that_the_index_lacks() -> None:
    peers = Peers([], set(), rounds=(block(3),))
    await made_up(peers.arrears())
    assert (peers.written, peers.made_up) == ([], [])


@in_loop
async def test_rounds_are_made_up_for_when_all_blocks_that_were_missed_are_final() -> None:
    peers = Peers([], set(), rounds=(block(3, leaf(3)),), final_height=KNOWN.taken_in_at - 1)
    arrears = peers.arrears()
    arrears.make_up_for(KNOWN)
    await asyncio.sleep(0.001)
    assert peers.written == []
    peers.final_height += 1
    while arrears.open_count:
        await asyncio.sleep(0)
    assert peers.written == [3]


@in_loop
async def test_contract_that_its_endorsers_have_not_confirmed_is_not_looked_at() -> None:
    peers = Peers([leaf(1)], {leaf(1)}, rounds=(block(3, leaf(3)),), is_confirmed=False)
    arrears = peers.arrears()
    arrears.make_up_for(KNOWN)
    await asyncio.sleep(0.001)
    assert (peers.written, peers.asked) == ([], [])
    peers.is_confirmed = True
    while arrears.open_count:
        await asyncio.sleep(0)
    assert peers.written == [3]


@in_loop
async def test_contract_is_behind_until_its_rounds_are_there_and_they_are_looked_for_once() -> None:
    peers = Peers([leaf(1)], {leaf(1)}, rounds=(block(3, leaf(3)),), is_confirmed=False)
    arrears = peers.arrears()
    arrears.expect(ADDRESS)
    assert arrears.is_behind(ADDRESS)
    arrears.make_up_for(KNOWN)
    await asyncio.sleep(0.001)
    assert arrears.is_behind(ADDRESS)
    peers.is_confirmed = True
    while arrears.open_count:
        await asyncio.sleep(0)
    assert not arrears.is_behind(ADDRESS)
    assert (peers.written, peers.complete) == ([3], [ADDRESS])
    # After the next start.
    again = replace(peers, lacking=[leaf(1)], rounds=(block(4, leaf(4)),))
    arrears = again.arrears()
    arrears.make_up_for(replace(KNOWN, has_rounds=True))
    assert not arrears.is_behind(ADDRESS)
    while arrears.open_count:
        await asyncio.sleep(0)
    assert (again.written, again.lacking) == ([3], []), "states are asked for again"


@in_loop
async def test_contract_that_was_taken_in_with_its_deployment_is_not_behind() -> None:
    arrears = Peers([], set()).arrears()
    arrears.expect(ADDRESS)
    arrears.make_up_for(replace(KNOWN, taken_in_at=KNOWN.deployed_at))
    assert (arrears.is_behind(ADDRESS), arrears.open_count) == (False, 0)


@in_loop
async def test_no_genesis_is_in_memory_while_a_contract_waits_to_be_confirmed() -> None:
    held: list[bytes] = []

    class Watched(Arrears):
        async def _make_up_for(self, known: KnownContract) -> None:
            held.append(known.genesis)

    peers = Peers([], set())
    arrears = Watched(
        cast(Store, peers), peers.rounds_of, lambda: 9, peers.tell, lambda _: True, peers.confirmed, peers.note_rounds
    )
    arrears.make_up_for(replace(KNOWN, genesis=bytes(16_384)))
    while arrears.open_count:
        await asyncio.sleep(0)
    assert held == [b""]


@in_loop
async def test_rounds_of_which_it_is_not_known_whether_they_were_written_are_told_and_not_written_twice() -> None:
    peers = Peers([], set(), rounds=(block(3, leaf(3)),), failures=[WriteInDoubt("no answer")])
    await made_up(peers.arrears())
    assert (peers.written, len(peers.made_up)) == ([3], 1)


@in_loop
async def test_contracts_of_one_peer_are_looked_at_one_at_a_time_and_hold_up_no_other() -> None:
    looked_at: list[ContractAddress] = []
    may_end = asyncio.Event()

    async def rounds_of(contract: ContractAddress, _first: int, _last: int) -> tuple[ChainBlock, ...]:
        looked_at.append(contract)
        await may_end.wait()
        return ()

    peers = Peers([], set())
    arrears = Arrears(
        cast(Store, peers), rounds_of, lambda: 9, peers.tell, lambda _: True, peers.confirmed, peers.note_rounds
    )
    addresses = [ContractAddress(f"0x{number:040x}") for number in range(4)]
    sources = (NodeName("B"), NodeName("B"), NodeName("B"), NodeName("C"))
    for address, source in zip(addresses, sources, strict=True):
        arrears.make_up_for(replace(KNOWN, contract=replace(KNOWN.contract, address=address), source=source))
    await asyncio.sleep(0.001)
    assert looked_at == [addresses[0], addresses[3]]
    may_end.set()
    while arrears.open_count:
        await asyncio.sleep(0)
    assert sorted(looked_at) == addresses
