"""Contracts that others have and this node lacks: whom it asks, whom it believes, and what strangers can make it do."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from rota.directory.acquaintance_events import AcquisitionEnded, ContractsListed, ContractsSifted, GenesisFound
from rota.directory.effects import AcquireContract, FindGenesis, ListContracts, SiftContracts
from rota.machine.effects import Effect, SendMessage
from rota.machine.events import ConnectionLost, ConnectionMade
from rota.machine.tables import Event
from rota.model.genesis import Genesis, encode_genesis
from rota.model.types import (
    NO_CONTRACT,
    Contract,
    ContractAddress,
    KnownContract,
    Leaf,
    Mode,
    NodeName,
    Party,
    RequestId,
)
from rota.node import acquaintance as acquaintance_module
from rota.node.acquaintance import (
    ACQUISITION_MS,
    ASKED_A_WINDOW_MAX,
    ASKED_OF_PEER_MAX,
    BUSY_MS,
    FIRST,
    LISTED_A_WINDOW_MAX,
    MISTRUST_MS,
    PARDONS_MAX,
    REFUSED_MS,
    SERVED_A_WINDOW_MAX,
    SERVED_BYTES_A_WINDOW_MAX,
    TRIES_MAX,
)
from rota.node.effects import LoadContract
from rota.node.events import StatesWanted
from rota.wire.messages import (
    CONTRACTS_LISTED_MAX,
    ContractsRequest,
    ContractsResponse,
    GenesisRequest,
    GenesisResponse,
    Startup,
    Verdict,
)
from tests.directory.deployment_bench import GENESIS, ID, MADE, STATIC, D
from tests.node.node_bench import CONFIG, NodeBench
from tests.sequencer.kit import A, B, C

FACTORY = ContractAddress("0x" + "fa" * 20)
GENESIS_BYTES = encode_genesis(GENESIS)
ASKED = RequestId(5, 6)
STARTUP = Startup(RequestId(1, 1))


def address(number: int) -> ContractAddress:
    return ContractAddress(f"0x{number:040x}")


@dataclass
class Bench(NodeBench):
    """Node A without contracts. What it lacks of a list is what it was told, and the chain says what a test says."""

    contracts: tuple[Contract, ...] = ()
    factory: ContractAddress = FACTORY
    lacks_all: bool = True

    def computed(self, effect: Effect) -> list[Event]:
        if isinstance(effect, SiftContracts):
            return [ContractsSifted(effect.peer, effect.contracts if self.lacks_all else ())]
        return super().computed(effect)

    def asked(self, peer: NodeName) -> list[ContractAddress]:
        """The contracts whose genesis a peer was asked for."""
        return [contract for contract, _ in self.questions(peer)]

    def questions(self, peer: NodeName) -> list[tuple[ContractAddress, GenesisRequest]]:
        return [
            (sent.envelope.contract, sent.envelope.body)
            for sent in self.all(SendMessage)
            if sent.peer == peer and isinstance(sent.envelope.body, GenesisRequest)
        ]

    def answer(self, peer: NodeName, contract: ContractAddress = MADE) -> None:
        """A peer answers what it was asked last about a contract."""
        question = [question for of, question in self.questions(peer) if of == contract][-1]
        self.hear(peer, GenesisResponse(question.request_id, ID, GENESIS_BYTES), contract)

    def list(self, peer: NodeName, *contracts: ContractAddress) -> None:
        """A peer answers with the contracts that it has for us."""
        self.hear(peer, ContractsResponse(self.said(ContractsRequest, peer)[-1].request_id, contracts), NO_CONTRACT)

    def end(self, peer: NodeName, verdict: Verdict, contract: ContractAddress = MADE, is_false: bool = False) -> None:
        self.tell(AcquisitionEnded(contract, peer, verdict, is_false))

    @property
    def counts(self) -> tuple[int, int, int, int]:
        known = self.node.acquaintance
        return known.asked_count, known.given_count, known.acquired_count, known.refused_count


def learned() -> Bench:
    """B has told the genesis of a contract, and the chain is being asked."""
    bench = Bench()
    bench.hear(B, STARTUP, MADE)
    bench.answer(B)
    return bench


# Who speaks of a contract.


def test_author_of_a_message_of_an_unknown_contract_is_asked_what_it_is() -> None:
    bench = Bench()
    bench.hear(B, STARTUP, MADE)
    assert (bench.asked(B), bench.counts) == ([MADE], (1, 0, 0, 0))


def test_without_a_factory_nobody_is_asked_because_nothing_could_be_believed() -> None:
    bench = Bench(factory=NO_CONTRACT)
    bench.tell(ConnectionMade(B))
    bench.hear(B, STARTUP, MADE)
    assert (bench.asked(B), bench.said(ContractsRequest, B)) == ([], [])


def test_one_peer_is_asked_at_a_time_and_the_next_when_it_has_not_answered() -> None:
    bench = Bench()
    for peer in (B, B, C):
        bench.hear(peer, STARTUP, MADE)
    assert (bench.asked(B), bench.asked(C)) == ([MADE], [])
    bench.wait(CONFIG.request_timeout_ms)
    assert (bench.asked(B), bench.asked(C)) == ([MADE], [MADE])
    bench.wait(CONFIG.request_timeout_ms)
    assert bench.node.acquaintance.is_idle
    bench.hear(B, STARTUP, MADE)
    assert bench.asked(B) == [MADE, MADE]


def test_chain_is_asked_about_the_genesis_that_the_asked_peer_tells() -> None:
    bench = learned()
    assert bench.all(AcquireContract) == [AcquireContract(MADE, B, ID, GENESIS_BYTES)]
    bench.answer(B)
    assert len(bench.all(AcquireContract)) == 1
    bench.end(B, Verdict.ACCEPTED)
    assert (bench.counts, bench.node.acquaintance.is_idle) == ((1, 0, 1, 0), True)


def test_genesis_that_nobody_asked_for_is_not_looked_at() -> None:
    bench = Bench()
    bench.hear(B, GenesisResponse(ASKED, ID, GENESIS_BYTES), MADE)
    bench.hear(B, STARTUP, MADE)
    bench.hear(B, GenesisResponse(ASKED, ID, GENESIS_BYTES), MADE)
    question = bench.questions(B)[0][1]
    bench.hear(C, GenesisResponse(question.request_id, ID, GENESIS_BYTES), MADE)
    assert bench.all(AcquireContract) == []


def test_contract_that_is_taken_in_after_long_counts_and_changes_nothing_else() -> None:
    bench = learned()
    bench.wait(ACQUISITION_MS)
    bench.end(B, Verdict.ACCEPTED)
    bench.hear(C, STARTUP, MADE)
    bench.end(B, Verdict.REFUSED)
    assert (bench.counts, bench.asked(C)) == ((2, 0, 1, 0), [MADE])


def test_contract_that_is_not_for_us_is_not_asked_of_that_peer_again_for_long() -> None:
    bench = learned()
    bench.end(B, Verdict.REFUSED)
    bench.hear(B, STARTUP, MADE)
    bench.hear(B, STARTUP, address(1))
    assert (bench.asked(B), bench.counts[3]) == ([MADE, address(1)], 1)
    bench.hear(C, STARTUP, MADE)
    assert bench.asked(C) == [MADE]
    bench.wait(REFUSED_MS)
    bench.hear(B, STARTUP, MADE)
    assert bench.asked(B)[-1] == MADE


def test_peer_that_tells_what_the_chain_does_not_say_is_asked_nothing_for_a_while() -> None:
    bench = learned()
    bench.end(B, Verdict.REFUSED, is_false=True)
    bench.hear(B, STARTUP, address(1))
    assert bench.asked(B) == [MADE]
    bench.wait(MISTRUST_MS)
    bench.hear(B, STARTUP, address(1))
    assert bench.asked(B) == [MADE, address(1)]


def test_peer_is_asked_again_when_the_chain_did_not_answer() -> None:
    bench = learned()
    bench.end(B, Verdict.BUSY)
    bench.hear(B, STARTUP, MADE)
    assert bench.asked(B) == [MADE]
    bench.wait(BUSY_MS)
    bench.hear(B, STARTUP, MADE)
    assert bench.asked(B) == [MADE, MADE]


# Lists.


def test_peer_that_is_there_is_asked_which_contracts_it_has_for_us() -> None:
    bench = Bench()
    bench.tell(ConnectionMade(B))
    [question] = bench.said(ContractsRequest, B)
    assert question.after == FIRST
    bench.list(B, address(1), address(2))
    assert bench.asked(B) == [address(1), address(2)]
    bench.answer(B, address(1))
    bench.end(B, Verdict.ACCEPTED, address(1))
    bench.answer(B, address(2))
    bench.end(B, Verdict.ACCEPTED, address(2))
    assert bench.node.acquaintance.is_idle
    assert len(bench.said(ContractsRequest, B)) == 1


def test_contracts_that_we_have_are_not_asked_for() -> None:
    bench = Bench(lacks_all=False)
    bench.tell(ConnectionMade(B))
    bench.list(B, address(1))
    assert (bench.asked(B), bench.node.acquaintance.is_idle) == ([], True)


def test_peer_that_has_nothing_for_us_is_asked_no_more() -> None:
    bench = Bench()
    bench.tell(ConnectionMade(B))
    bench.list(B)
    bench.wait(60_000)
    assert (len(bench.said(ContractsRequest, B)), bench.all(SiftContracts)) == (1, [])


def test_list_is_asked_for_a_few_times_and_an_answer_to_an_older_question_means_nothing() -> None:
    bench = Bench()
    bench.tell(ConnectionMade(B))
    bench.hear(B, ContractsResponse(ASKED, (address(1),)), NO_CONTRACT)
    bench.wait(120_000)
    assert len(bench.said(ContractsRequest, B)) == TRIES_MAX
    assert len({question.request_id for question in bench.said(ContractsRequest, B)}) == 1
    bench.list(B, address(1))
    assert (bench.all(SiftContracts), bench.node.acquaintance.is_idle) == ([], True)


def test_long_list_is_asked_for_in_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(lacks_all=False)
    bench.tell(ConnectionMade(B))
    page = tuple(address(number) for number in range(1, CONTRACTS_LISTED_MAX + 1))
    bench.list(B, *page)
    assert [question.after for question in bench.said(ContractsRequest, B)] == [FIRST, page[-1]]
    monkeypatch.setattr(acquaintance_module, "PAGES_MAX", 2)
    bench.list(B, *(address(number) for number in range(2_000, 2_000 + CONTRACTS_LISTED_MAX)))
    assert len(bench.said(ContractsRequest, B)) == 2


def test_list_that_goes_backwards_is_a_lie() -> None:
    bench = Bench()
    bench.tell(ConnectionMade(B))
    bench.list(B, address(2), address(1))
    bench.hear(B, STARTUP, MADE)
    assert (bench.all(SiftContracts), bench.asked(B)) == ([], [])


def test_few_are_asked_for_at_a_time_and_the_rest_as_answers_come() -> None:
    bench = Bench()
    bench.tell(ConnectionMade(B))
    listed = tuple(address(number) for number in range(1, ASKED_OF_PEER_MAX + 3))
    bench.list(B, *listed)
    assert bench.asked(B) == list(listed[:ASKED_OF_PEER_MAX])
    bench.answer(B, listed[0])
    bench.end(B, Verdict.ACCEPTED, listed[0])
    assert bench.asked(B) == list(listed[: ASKED_OF_PEER_MAX + 1])


def test_contract_on_a_list_is_asked_for_a_few_times_and_of_others_who_have_it() -> None:
    bench = Bench()
    for peer in (B, C):
        bench.tell(ConnectionMade(peer))
        bench.list(peer, MADE)
    assert (bench.asked(B), bench.asked(C)) == ([MADE], [])
    bench.wait(60_000)
    assert bench.asked(B).count(MADE) == bench.asked(C).count(MADE) == TRIES_MAX
    assert bench.node.acquaintance.is_idle


def test_contract_that_one_peer_told_is_wanted_of_nobody_else() -> None:
    bench = Bench()
    for peer in (B, C):
        bench.tell(ConnectionMade(peer))
        bench.list(peer, MADE)
    bench.answer(B)
    bench.end(B, Verdict.ACCEPTED)
    assert (bench.asked(C), bench.node.acquaintance.is_idle) == ([], True)


def test_contract_on_a_list_is_asked_for_again_when_the_chain_is_back() -> None:
    bench = Bench()
    bench.tell(ConnectionMade(B))
    bench.list(B, MADE)
    bench.answer(B)
    bench.end(B, Verdict.BUSY)
    assert bench.asked(B) == [MADE]
    bench.wait(BUSY_MS)
    assert bench.asked(B) == [MADE, MADE]


def test_peer_that_is_gone_is_asked_nothing_and_what_the_chain_is_asked_goes_on() -> None:
    bench = Bench()
    bench.tell(ConnectionMade(B))
    bench.list(B, address(1), MADE)
    bench.answer(B)
    bench.tell(ConnectionLost(B))
    assert list(bench.node.acquaintance.asked) == [MADE]
    bench.wait(60_000)
    assert bench.asked(B) == [address(1), MADE]
    bench.tell(ConnectionMade(B))
    assert len(bench.said(ContractsRequest, B)) == 2


def test_list_that_is_due_when_its_peer_has_lied_is_not_asked_for() -> None:
    bench = Bench()
    bench.hear(B, STARTUP, MADE)
    bench.answer(B)
    bench.tell(ConnectionMade(B))
    bench.end(B, Verdict.REFUSED, is_false=True)
    bench.wait(MISTRUST_MS - 1)
    assert len(bench.said(ContractsRequest, B)) == 1
    bench.wait(1)
    assert len(bench.said(ContractsRequest, B)) == 2


def test_contract_whose_deployment_the_chain_had_taken_back_is_asked_for_again() -> None:
    """Seeds 201207 and 203766: the chain stood still without the block, and has it now; no message names it."""
    bench = Bench()
    bench.tell(ConnectionMade(B))
    bench.list(B, MADE)
    bench.answer(B)
    bench.end(B, Verdict.REFUSED, is_false=True)
    bench.wait(MISTRUST_MS)
    bench.list(B, MADE)
    assert bench.asked(B) == [MADE, MADE]
    bench.answer(B)
    bench.end(B, Verdict.ACCEPTED)
    assert bench.node.acquaintance.is_idle


def test_peer_whose_connection_is_made_again_while_it_is_mistrusted_is_asked_for_its_list_later() -> None:
    bench = learned()
    bench.end(B, Verdict.REFUSED, is_false=True)
    bench.tell(ConnectionLost(B))
    bench.tell(ConnectionMade(B))
    assert bench.said(ContractsRequest, B) == []
    bench.wait(MISTRUST_MS)
    assert len(bench.said(ContractsRequest, B)) == 1


def test_peer_whose_contract_is_never_on_the_chain_is_asked_for_few_lists() -> None:
    bench = Bench()
    bench.tell(ConnectionMade(B))
    for _ in range(PARDONS_MAX + 3):
        if len(bench.said(ContractsRequest, B)) > len(bench.asked(B)):
            bench.list(B, MADE)
            bench.answer(B)
            bench.end(B, Verdict.REFUSED, is_false=True)
        bench.wait(MISTRUST_MS)
    assert len(bench.said(ContractsRequest, B)) == len(bench.asked(B)) == PARDONS_MAX + 1
    assert bench.node.acquaintance.is_idle


# Strangers.


def test_peer_that_names_many_contracts_is_asked_about_few_of_them() -> None:
    bench = Bench()
    for number in range(1, 1_000):
        bench.hear(B, STARTUP, address(number))
    assert len(bench.asked(B)) == ASKED_OF_PEER_MAX
    bench.hear(C, STARTUP, address(2_000))
    assert bench.asked(C) == [address(2_000)]


def test_peers_together_make_us_ask_only_so_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acquaintance_module, "ASKED_MAX", 2)
    bench = Bench()
    for number, peer in enumerate((B, C, D), 1):
        bench.hear(peer, STARTUP, address(number))
    assert (bench.asked(C), bench.asked(D)) == ([address(2)], [])


def test_peers_that_never_answer_keep_no_other_from_being_asked_for_a_contract() -> None:
    """The attack: who speaks of a contract all the time and never answers is asked again before anybody else."""
    bench = Bench()
    bench.hear(B, STARTUP, MADE)
    bench.hear(C, STARTUP, MADE)
    for _ in range(2):
        for liar in (B, D, B):
            bench.hear(liar, STARTUP, MADE)
        bench.wait(CONFIG.request_timeout_ms)
    assert bench.asked(C) == [MADE]


def test_peers_that_never_answer_keep_nobody_from_being_asked_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """The attack: eight nodes name eight contracts each, that do not exist, and again when the time is up."""
    monkeypatch.setattr(acquaintance_module, "ASKED_MAX", 2)
    bench = Bench()
    for number, liar in enumerate((B, C), 1):
        bench.hear(liar, STARTUP, address(number))
    bench.tell(ConnectionMade(D))
    bench.list(D, MADE)
    for number, liar in enumerate((B, C), 3):
        bench.hear(liar, STARTUP, address(number))
    assert bench.asked(D) == []
    bench.wait(CONFIG.request_timeout_ms)
    assert (bench.asked(D), bench.asked(B)[1:]) == ([MADE], [address(3)])
    bench.answer(D)
    bench.end(D, Verdict.ACCEPTED)
    assert bench.asked(C)[1:] == [address(4)]


def test_line_of_those_who_are_to_be_asked_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acquaintance_module, "ASKED_MAX", 1)
    bench, known = Bench(), None
    bench.hear(B, STARTUP, MADE)
    for number in range(1, 3 * ASKED_OF_PEER_MAX):
        bench.hear(C, STARTUP, address(number))
    known = bench.node.acquaintance
    assert len(known.line) == len(known.peers[C].waiting) == ASKED_OF_PEER_MAX
    monkeypatch.setattr(acquaintance_module, "WAITING_MAX", ASKED_OF_PEER_MAX)
    bench.hear(D, STARTUP, MADE)
    assert (len(known.line), list(known.peers[D].waiting)) == (ASKED_OF_PEER_MAX, [])
    monkeypatch.setattr(acquaintance_module, "PEERS_KEPT_MAX", 1)
    known._forget_one()
    assert list(known.peers) == [B, C], "something is expected of these"
    bench.tell(ConnectionLost(C))
    assert known.line == {}


def test_contract_that_is_acquired_is_asked_of_nobody_in_line_and_their_lists_go_on() -> None:
    bench = Bench()
    page = (*(address(number) for number in range(1, CONTRACTS_LISTED_MAX)), MADE)
    bench.hear(B, STARTUP, MADE)
    bench.lacks_all = False
    bench.tell(ConnectionMade(C))
    bench.list(C, *page)
    bench.tell(ContractsSifted(C, (MADE,)))
    bench.hear(D, STARTUP, MADE)
    bench.answer(B)
    bench.end(B, Verdict.ACCEPTED)
    assert (bench.asked(C), bench.asked(D), bench.node.acquaintance.line) == ([], [], {})
    assert [question.after for question in bench.said(ContractsRequest, C)] == [FIRST, MADE]


def test_peer_that_answers_at_once_is_asked_only_so_often() -> None:
    bench = Bench()
    for number in range(1, 3 * ASKED_A_WINDOW_MAX):
        bench.hear(B, STARTUP, address(number))
        if len(bench.asked(B)) == number:
            bench.answer(B, address(number))
            bench.end(B, Verdict.REFUSED, address(number))
    assert len(bench.asked(B)) == ASKED_A_WINDOW_MAX
    bench.wait(1_000)
    bench.hear(B, STARTUP, address(5_000))
    assert bench.asked(B)[-1] == address(5_000)


def test_what_is_remembered_of_refusals_and_peers_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acquaintance_module, "REFUSED_KEPT_MAX", 2)
    monkeypatch.setattr(acquaintance_module, "PEERS_KEPT_MAX", 2)
    bench = Bench()
    for number, peer in enumerate((B, C, D), 1):
        bench.hear(peer, STARTUP, address(number))
        bench.answer(peer, address(number))
        bench.end(peer, Verdict.REFUSED, address(number))
    known = bench.node.acquaintance
    assert (list(known.refused), list(known.peers)) == ([(C, address(2)), (D, address(3))], [C, D])
    bench.hear(C, STARTUP, address(4))
    bench.hear(D, STARTUP, address(5))
    bench.hear(B, STARTUP, address(6))
    assert list(known.peers) == [C, D, B]


# What others ask.


def given(bench: Bench, peer: NodeName, genesis: Genesis) -> list[GenesisResponse]:
    """What a peer is told that asks for a contract of ours."""
    bench.hear(peer, GenesisRequest(ASKED), MADE)
    assert bench.all(FindGenesis)[-1] == FindGenesis(MADE, peer, ASKED)
    bench.tell(GenesisFound(peer, ASKED, KnownContract(genesis.contract(MADE), ID, (), encode_genesis(genesis))))
    return bench.said(GenesisResponse, peer)


def test_genesis_of_a_ring_is_told_to_the_nodes_that_it_names_and_to_nobody_else() -> None:
    bench = Bench()
    assert given(bench, C, GENESIS) == [GenesisResponse(ASKED, ID, GENESIS_BYTES)]
    assert given(bench, D, GENESIS) == []
    assert bench.counts[1] == 1


def test_genesis_of_a_token_is_told_to_every_node() -> None:
    assert given(Bench(), D, STATIC) == [GenesisResponse(ASKED, ID, encode_genesis(STATIC))]


def test_contract_without_a_genesis_cannot_be_told() -> None:
    bench = Bench()
    bench.tell(GenesisFound(B, ASKED, KnownContract(GENESIS.contract(MADE), ID, ())))
    assert bench.said(GenesisResponse, B) == []


def test_peer_is_told_which_contracts_it_may_have() -> None:
    bench = Bench()
    bench.hear(B, ContractsRequest(ASKED, FIRST), NO_CONTRACT)
    assert bench.all(ListContracts) == [ListContracts(B, ASKED, FIRST)]
    bench.tell(ContractsListed(B, ASKED, (MADE,)))
    assert bench.said(ContractsResponse, B) == [ContractsResponse(ASKED, (MADE,))]
    assert bench.all(SendMessage)[-1].envelope.correlation_id == ASKED


def test_peer_that_asks_too_often_is_not_answered() -> None:
    bench = Bench()
    for _ in range(2 * SERVED_A_WINDOW_MAX):
        bench.hear(B, GenesisRequest(ASKED), MADE)
        bench.hear(B, ContractsRequest(ASKED, FIRST), NO_CONTRACT)
    assert len(bench.all(FindGenesis)) == SERVED_A_WINDOW_MAX
    assert len(bench.all(ListContracts)) == LISTED_A_WINDOW_MAX
    bench.wait(1_000)
    bench.hear(B, GenesisRequest(ASKED), MADE)
    assert bench.all(FindGenesis)[-1].peer == B


def test_peer_that_asks_for_a_large_genesis_again_and_again_gets_bounded_bytes() -> None:
    """A question takes a few bytes, and to decode and send the answer takes a thousand times as much."""
    members = tuple(Party(f"party-{number}@{B}") for number in range(20_000))
    large = encode_genesis(replace(GENESIS, mode=Mode.SENDER, members=members))
    known = KnownContract(GENESIS.contract(MADE), ID, (), large)
    bench = Bench()
    for _ in range(2):
        bench.seen.clear()
        for _ in range(SERVED_A_WINDOW_MAX):
            bench.tell(GenesisFound(B, ASKED, known))
        assert len(bench.said(GenesisResponse, B)) == SERVED_BYTES_A_WINDOW_MAX // len(large) > 1
        bench.hear(B, GenesisRequest(ASKED), MADE)
        assert bench.all(FindGenesis) == [], "the store is not asked for what would not be sent"
        bench.tell(GenesisFound(C, ASKED, known))
        assert len(bench.said(GenesisResponse, C)) == 1
        bench.wait(1_000)
    bench.hear(B, GenesisRequest(ASKED), MADE)
    assert len(bench.all(FindGenesis)) == 1


def test_contract_whose_states_are_wanted_is_loaded_to_be_asked_for_later() -> None:
    bench = Bench()
    bench.tell(StatesWanted(MADE, (Leaf(bytes(32)),)))
    assert bench.all(LoadContract) == [LoadContract(MADE)]
    assert bench.node.name == A


def test_contract_that_a_peer_may_not_give_is_wanted_of_it_no_more() -> None:
    bench = learned()
    known = bench.node.acquaintance
    known._known(B).wanted[MADE] = 0
    bench.end(B, Verdict.REFUSED)
    assert MADE not in known._known(B).wanted


def test_list_that_came_is_not_waited_for() -> None:
    bench = Bench()
    bench.tell(ConnectionMade(B))
    known = bench.node.acquaintance
    assert known.timers.is_set(known, f"list {B}")
    bench.list(B)
    assert not known.timers.is_set(known, f"list {B}")


def test_list_of_a_peer_that_is_gone_is_not_waited_for() -> None:
    bench = Bench()
    bench.tell(ConnectionMade(B))
    bench.tell(ConnectionLost(B))
    known = bench.node.acquaintance
    assert not known.timers.is_set(known, f"list {B}")
