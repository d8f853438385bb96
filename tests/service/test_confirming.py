"""A node acts in a contract of a peer when each node that the contract names as endorser has confirmed it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from typing import cast

import pytest

from rota.machine.effects import SendMessage
from rota.machine.events import MessageReceived, Tick
from rota.model.types import Contract, ContractAddress, IntentId, KnownContract, NodeName, RequestId
from rota.ports import Store, Unavailable
from rota.service.contracts import confirming as confirming_module
from rota.service.contracts.confirming import (
    BEGUN_OF_PEER_MAX,
    CONTRACTS_A_LOOK,
    HEARD_S,
    LOOK_S,
    PAUSE_MAX_S,
    Confirming,
)
from rota.wire.messages import Envelope, GenesisRequest, GenesisResponse, Message, StateRequest
from tests.ledger.chains import in_loop

A, B, C, D = map(NodeName, "ABCD")
ADDRESS = ContractAddress("0x" + "11" * 20)
ID = IntentId(b"deployment 1....")
NUMBER = RequestId(1, 1)
KNOWN = KnownContract(Contract(ADDRESS, (A, B, C), (A, B, C), 2), ID, (ADDRESS,) * 3, b"genesis").told_by(C)
RIGHT = GenesisResponse(NUMBER, ID, b"genesis")


@dataclass
class Bench:
    """Node A, its store, and what it sends."""

    stored: KnownContract | None = KNOWN
    is_away: bool = False
    now_s: float = 0.0
    sent: list[SendMessage] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.confirming = Confirming(A, cast(Store, self), self.sent.append, lambda: (1, 7), lambda: self.now_s)

    async def contract(self, _: ContractAddress) -> KnownContract | None:
        return self.stored

    async def add_contract(self, known: KnownContract) -> None:
        if self.is_away:
            raise Unavailable("the disk is failing")
        self.stored = known

    def hear(self, peer: NodeName, body: Message, contract: ContractAddress = ADDRESS) -> bool:
        return self.confirming.take(MessageReceived(peer, Envelope(contract, NUMBER, 1, 1, body)))

    def asked(self) -> list[NodeName]:
        self.confirming.ask_due()
        asked, self.sent[:] = [each.peer for each in self.sent], []
        return asked


def test_word_of_the_teller_counts_for_its_own_address() -> None:
    assert KNOWN.unconfirmed == (A, B)
    assert (KNOWN.source, KNOWN.told_by(D).unconfirmed) == (C, (A, B, C))


@in_loop
async def test_contract_is_acted_in_when_all_other_endorsers_have_shown_its_genesis() -> None:
    bench = Bench()
    bench.confirming.add(KNOWN.told_by(D))
    assert bench.asked() == [B, C]
    assert bench.hear(B, RIGHT)
    assert bench.hear(D, StateRequest(()))
    assert bench.confirming.has(ADDRESS)
    assert bench.hear(C, RIGHT)
    await bench.confirming.confirmed(ADDRESS)
    assert not bench.confirming.has(ADDRESS)
    assert bench.stored is not None
    assert bench.stored.unconfirmed == ()
    assert not bench.hear(D, StateRequest(()))
    await bench.confirming.require(ADDRESS)
    await bench.confirming.confirmed(ADDRESS)
    bench.now_s += PAUSE_MAX_S
    assert bench.asked() == []


@in_loop
async def test_questions_for_the_genesis_are_answered_meanwhile_and_other_contracts_go_on() -> None:
    bench = Bench()
    bench.confirming.add(KNOWN)
    assert not bench.hear(B, GenesisRequest(NUMBER))
    assert not bench.hear(B, StateRequest(()), ContractAddress("0x" + "22" * 20))
    assert not bench.confirming.take(Tick())


@pytest.mark.parametrize(
    ("peer", "answer"),
    [
        (C, RIGHT),
        (D, RIGHT),
        (B, replace(RIGHT, genesis=b"another")),
        (B, replace(RIGHT, deployment=IntentId(bytes(16)))),
    ],
)
@in_loop
async def test_answer_of_another_node_or_about_another_contract_confirms_nothing(
    peer: NodeName, answer: GenesisResponse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(confirming_module, "WAIT_S", 0.01)
    bench = Bench()
    bench.confirming.add(KNOWN)
    assert bench.hear(peer, answer)
    with pytest.raises(Unavailable, match="names B as endorsers, which have not confirmed that they are"):
        await bench.confirming.require(ADDRESS)


@in_loop
async def test_endorsers_are_asked_more_and_more_rarely_and_few_contracts_at_a_time() -> None:
    bench = Bench()
    for number in range(CONTRACTS_A_LOOK + 1):
        address = ContractAddress(f"0x{number:040x}")
        bench.confirming.add(replace(KNOWN, contract=replace(KNOWN.contract, address=address)))
    assert (len(bench.asked()), len(bench.asked())) == (CONTRACTS_A_LOOK, 1)
    rounds = 0
    while bench.now_s < 10 * PAUSE_MAX_S:
        bench.now_s += 0.05
        rounds += len(bench.asked())
    assert rounds <= 25 * (CONTRACTS_A_LOOK + 1)


def contract_number(number: int) -> KnownContract:
    return replace(KNOWN, contract=replace(KNOWN.contract, address=ContractAddress(f"0x{number:040x}")))


@in_loop
async def test_peer_cannot_have_an_endorser_asked_about_many_contracts() -> None:
    bench = Bench()
    for number in range(BEGUN_OF_PEER_MAX + 3):
        bench.confirming.add(contract_number(number))
    asked = [each for _ in range(9) for each in bench.asked()]
    assert len(asked) == BEGUN_OF_PEER_MAX
    # Contracts of another peer do not wait behind these.
    bench.confirming.add(contract_number(100).told_by(B))
    assert bench.asked() == [C]
    # When one is confirmed, the latest of those that wait is asked about.
    assert bench.hear(B, RIGHT, contract_number(0).contract.address)
    await bench.confirming.confirmed(contract_number(0).contract.address)
    assert bench.asked() == [B]
    # A user who names one does not wait behind the others.
    last = contract_number(BEGUN_OF_PEER_MAX).contract.address
    waiting = asyncio.create_task(bench.confirming.require(last))
    await asyncio.sleep(0)
    assert bench.asked() == [B]
    assert bench.hear(B, RIGHT, last)
    await waiting


def contracts_asked_about(bench: Bench, seconds: float) -> list[ContractAddress]:
    """In this time, one for each question."""
    asked: list[ContractAddress] = []
    until_s = bench.now_s + seconds
    while bench.now_s < until_s:
        bench.confirming.ask_due()
        asked += [each.envelope.contract for each in bench.sent]
        bench.sent.clear()
        bench.now_s += LOOK_S
    return asked


@in_loop
async def test_contracts_that_are_never_confirmed_keep_no_other_of_the_peer_that_listed_them_waiting() -> None:
    bench = Bench()
    for number in range(3 * BEGUN_OF_PEER_MAX):
        bench.confirming.add(contract_number(number))
    contracts_asked_about(bench, 2.0)
    honest = contract_number(100)
    bench.confirming.add(honest)
    assert honest.contract.address in contracts_asked_about(bench, 8.0)
    every = {contract_number(number).contract.address for number in range(3 * BEGUN_OF_PEER_MAX)}
    assert every <= {*contracts_asked_about(bench, 60.0)}, "in the end all have been asked about"


@in_loop
async def test_contracts_that_are_never_confirmed_are_asked_about_the_more_rarely_the_more_they_are() -> None:
    bench = Bench()
    for number in range(8 * BEGUN_OF_PEER_MAX):
        bench.confirming.add(contract_number(number))
    contracts_asked_about(bench, 30 * PAUSE_MAX_S)
    asked = contracts_asked_about(bench, 10 * PAUSE_MAX_S)
    assert len(asked) <= 10 * BEGUN_OF_PEER_MAX
    # A user who names one of them does not wait so long.
    waiting = [asyncio.create_task(bench.confirming.require(contract_number(0).contract.address)) for _ in range(2)]
    await asyncio.sleep(0)
    assert [each.peer for each in bench.sent] == [B]
    assert bench.hear(B, RIGHT, contract_number(0).contract.address)
    await asyncio.gather(*waiting)


@in_loop
async def test_endorser_whose_message_is_dropped_is_asked_and_no_other() -> None:
    bench = Bench()
    bench.confirming.add(KNOWN.told_by(D))
    assert bench.asked() == [B, C]
    for _ in range(3):
        assert bench.hear(B, StateRequest(()))
        assert bench.hear(D, StateRequest(()))
    assert bench.asked() == [B]
    bench.now_s += HEARD_S
    bench.confirming._due.clear()
    assert bench.hear(B, StateRequest(()))
    assert bench.asked() == [B]


@in_loop
async def test_contract_that_waits_and_is_added_by_an_operator_waits_no_longer() -> None:
    bench = Bench()
    for number in range(BEGUN_OF_PEER_MAX + 1):
        bench.confirming.add(contract_number(number))
    bench.confirming.add(replace(contract_number(BEGUN_OF_PEER_MAX), unconfirmed=()))
    assert len([each for _ in range(9) for each in bench.asked()]) == BEGUN_OF_PEER_MAX
    assert not bench.confirming.has(contract_number(BEGUN_OF_PEER_MAX).contract.address)


@in_loop
async def test_contract_that_an_operator_adds_is_confirmed() -> None:
    bench = Bench()
    bench.confirming.add(KNOWN)
    bench.confirming.add(KNOWN)
    waiting = asyncio.create_task(bench.confirming.require(ADDRESS))
    await asyncio.sleep(0)
    bench.confirming.add(replace(KNOWN, unconfirmed=()))
    await waiting
    bench.confirming.add(replace(KNOWN, unconfirmed=(A,)))
    assert not bench.confirming.has(ADDRESS)


@in_loop
async def test_contract_that_is_being_taken_in_is_confirmed_after_that() -> None:
    bench = Bench()
    bench.confirming.add(KNOWN)
    async with bench.confirming.turn:
        bench.hear(B, RIGHT)
        await asyncio.sleep(0.001)
        assert bench.confirming.has(ADDRESS)
        bench.stored = replace(KNOWN, taken_in_at=9)
    await bench.confirming.confirmed(ADDRESS)
    assert bench.stored == replace(KNOWN, taken_in_at=9, unconfirmed=())


@pytest.mark.parametrize("bench", [Bench(is_away=True), Bench(stored=None)])
@in_loop
async def test_confirmation_that_is_not_written_counts_until_the_next_start(bench: Bench) -> None:
    bench.confirming.add(KNOWN)
    bench.hear(B, RIGHT)
    await bench.confirming.confirmed(ADDRESS)
    assert bench.stored in (KNOWN, None)
    await bench.confirming.close()


class Counting(Confirming):
    """Counts its looks."""

    looks = 0

    def ask_due(self) -> None:
        self.looks += 1
        super().ask_due()


@in_loop
async def test_node_sleeps_while_no_contract_is_to_be_confirmed_and_asks_as_soon_as_one_is() -> None:
    bench = Bench()
    confirming = Counting(A, cast(Store, bench), bench.sent.append, lambda: (1, 7), lambda: bench.now_s)
    running = asyncio.create_task(confirming.run())
    await asyncio.sleep(3 * LOOK_S)
    assert confirming.looks == 1
    confirming.add(KNOWN)
    while not bench.sent:
        await asyncio.sleep(0)
    assert [each.peer for each in bench.sent] == [B]
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
