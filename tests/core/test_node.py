"""A whole node: its life and number, its users' intents, its nonces, and whom each event concerns."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TypeVar

import pytest

from rota.config import Config
from rota.core.effects import (
    AssembleIntents,
    CheckRound,
    DispatchRound,
    Effect,
    IntentAccepted,
    IntentFinalised,
    NodeStarted,
    Persist,
    Record,
    ReplyToUser,
    ReportReceipt,
    RoundDispatch,
    SendMessage,
    SignTransition,
    SubmitTransaction,
)
from rota.core.events import (
    AssemblyFinished,
    CancelRequested,
    ChainBlockIndexed,
    ChainBlocksRemoved,
    ChainOutcomesFinal,
    ConnectionLost,
    ConnectionMade,
    ForContract,
    IntentSubmitted,
    LedgerBack,
    LedgerLost,
    LedgerOutcome,
    LedgerStatus,
    MessageReceived,
    Persisted,
    PersistFailed,
    RoundChecked,
    Tick,
    TransactionSent,
    TransitionSigned,
)
from rota.core.machine import Event
from rota.core.node import SUBMITTER, Node, StoredNode
from rota.core.sequencer import StoredContract
from rota.core.states.coordinator_transaction import State as CoordinatorSide
from rota.core.states.sender_transaction import Restored
from rota.core.states.sender_transaction import State as SenderSide
from rota.digests import core_of, domain_separator, leaf_of, round_digest
from rota.messages import (
    Answer,
    AssembleRequest,
    AssembleResponse,
    AssemblyOutcome,
    AssemblyResult,
    Delegation,
    DelegationAccepted,
    DelegationCommand,
    DispatchConfirmationRequest,
    DispatchConfirmationResponse,
    Envelope,
    Handover,
    HandoverReason,
    HandoverRequest,
    Message,
    SubmitterHeartbeat,
)
from rota.types import (
    Contract,
    ContractAddress,
    DelegationNumber,
    HeartbeatNumber,
    Intent,
    IntentId,
    Leaf,
    Mode,
    NodeName,
    Outcome,
    Party,
    Receipt,
    RequestId,
    Transition,
)
from tests.core.kit import ADDRESS, GENESIS_S, A, B, contract, intent_id

OTHER = ContractAddress("0x" + "22" * 20)
NOWHERE = ContractAddress("0x" + "33" * 20)
OURS = replace(contract(A, mode=Mode.STATIC), address=ADDRESS)
THEIRS = replace(OURS, address=OTHER)
A1, A2, B1 = intent_id("A-1"), intent_id("A-2"), intent_id("B-1")
CONFIG = Config()

EffectType = TypeVar("EffectType", bound=Effect)
MessageType = TypeVar("MessageType", bound=Message)
RecordType = TypeVar("RecordType", bound=Record)


def intent(name: str, of: ContractAddress = ADDRESS, *, key: str = "", depends_on: tuple[IntentId, ...] = ()) -> Intent:
    """An intent of a@ the node that its name begins with."""
    return Intent(intent_id(name), of, Party(f"a@{name[0]}"), b"", depends_on, idempotency_key=key)


def transition(intent: IntentId, of: ContractAddress = ADDRESS) -> Transition:
    """What the domain makes of an intent: nothing spent, nothing made, one leaf."""
    leaf = leaf_of(core_of(domain_separator(OURS.chain_id, of), intent))
    return Transition(intent, leaf, valid_until_s=GENESIS_S + CONFIG.validity_s)


def order(*intents: IntentId, of: ContractAddress = ADDRESS, sender: NodeName = A) -> DispatchRound:
    """A round of these intents as the store would remember it."""
    members = tuple(transition(each, of) for each in intents)
    leaves = tuple(member.leaf for member in members)
    digest = round_digest(domain_separator(OURS.chain_id, of), leaves, GENESIS_S + CONFIG.validity_s)
    return DispatchRound(of, digest, leaves, members, tuple(sender for _ in intents), (), GENESIS_S + CONFIG.validity_s)


@dataclass
class NodeBench:
    """One node A with its domain, signer and disk; the disk may be slow or fail for a kind of record."""

    contracts: tuple[Contract, ...] = (OURS, THEIRS)
    stored: StoredNode = field(default_factory=lambda: StoredNode(chain_time_s=GENESIS_S))
    now_ms: int = 0
    slow: tuple[type[Record], ...] = ()
    failing: tuple[type[Record], ...] = ()
    seen: list[Effect] = field(default_factory=list)
    writes: list[Persist] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.node = Node(A, self.contracts, CONFIG, self.now_ms, self.stored)
        self.message_count = 0
        self.perform(self.node.start())

    def tell(self, event: Event) -> None:
        """One step of the node, and all that follows from it."""
        self.perform(self.node.step(self.now_ms, event))

    def perform(self, effects: list[Effect]) -> None:
        for effect in effects:
            self.seen.append(effect)
            for event in self.results_of(effect):
                self.tell(event)

    def results_of(self, effect: Effect) -> list[Event]:
        match effect:
            case Persist(_, token, records):
                if isinstance(records[0], self.slow):
                    self.writes.append(effect)
                    return []
                return [PersistFailed(token, "") if isinstance(records[0], self.failing) else Persisted(token)]
            case SendMessage(peer, envelope) if peer == A:
                return [MessageReceived(A, envelope)]
            case AssembleIntents(of, request_id, intents):
                made = AssemblyOutcome.ASSEMBLED
                return [
                    ForContract(of, AssemblyFinished(request_id, each.id, made, transition(each.id, of)))
                    for each in intents
                ]
            case SignTransition(of, request_id, each):
                return [ForContract(of, TransitionSigned(request_id, each, b"signed"))]
            case CheckRound(of, peer, request_id):
                return [ForContract(of, RoundChecked(peer, request_id, b"signature"))]
            case _:
                return []

    def finish_write(self, *, succeeded: bool = True) -> None:
        """The oldest write that the slow disk holds ends."""
        token = self.writes.pop(0).token
        self.tell(Persisted(token) if succeeded else PersistFailed(token, ""))

    def submit(self, name: str, of: ContractAddress = ADDRESS, **options: object) -> list[ReplyToUser]:
        """A user's intent; what the user was told at once."""
        known = len(self.all(ReplyToUser))
        self.tell(ForContract(of, IntentSubmitted(name, intent(name, of, **options))))  # type: ignore[arg-type]
        return self.all(ReplyToUser)[known:]

    def wait(self, ms: int) -> None:
        end_ms = self.now_ms + ms
        while (due_ms := self.node.next_deadline_ms()) is not None and due_ms <= end_ms:
            self.now_ms = max(self.now_ms, due_ms)
            self.tell(Tick())
        self.now_ms = end_ms

    def hear(self, peer: NodeName, body: Message, of: ContractAddress = ADDRESS) -> None:
        self.message_count += 1
        self.tell(MessageReceived(peer, Envelope(of, RequestId(1, self.message_count), 1, 0, body)))

    def settle(
        self, *intents: IntentId, of: ContractAddress = ADDRESS, status: LedgerStatus = LedgerStatus.COMMITTED
    ) -> None:
        """The next block holds these intents, each in a round of its own, and is final."""
        outcomes = tuple((of, outcome(each, of, status)) for each in intents)
        self.tell(ChainBlockIndexed(self.node.height + 1, GENESIS_S, outcomes))
        self.tell(ChainOutcomesFinal(GENESIS_S, outcomes))

    def all(self, kind: type[EffectType]) -> list[EffectType]:
        return [effect for effect in self.seen if isinstance(effect, kind)]

    def records(self, kind: type[RecordType]) -> list[RecordType]:
        return [record for write in self.all(Persist) for record in write.records if isinstance(record, kind)]

    def said(self, kind: type[MessageType], to: NodeName) -> list[MessageType]:
        return [
            sent.envelope.body
            for sent in self.all(SendMessage)
            if sent.peer == to and isinstance(sent.envelope.body, kind)
        ]

    def nonces_sent(self) -> list[int]:
        return [submit.dispatch.nonce for submit in self.all(SubmitTransaction)]

    def rounds_sent(self) -> list[tuple[ContractAddress, int]]:
        return [(submit.dispatch.round.contract, submit.dispatch.nonce) for submit in self.all(SubmitTransaction)]

    def sender_state(self, of: IntentId, address: ContractAddress = ADDRESS) -> object:
        return self.node.sequencers[address].sender.transactions[of].state

    def receipts(self) -> list[tuple[IntentId, Outcome]]:
        return [(report.receipt.intent, report.receipt.outcome) for report in self.all(ReportReceipt)]


def outcome(
    of: IntentId, address: ContractAddress = ADDRESS, status: LedgerStatus = LedgerStatus.COMMITTED
) -> LedgerOutcome:
    return LedgerOutcome(of, transition(of, address).leaf, order(of, of=address).digest, status)


def restarted(*dispatches: RoundDispatch, next_nonce: int = 0, **options: object) -> NodeBench:
    stored = StoredNode(1, dispatches=dispatches, next_nonce=next_nonce, chain_time_s=GENESIS_S)
    return NodeBench(stored=stored, **options)  # type: ignore[arg-type]


def dispatch_of_b(bench: NodeBench) -> None:
    """B's intent goes all its way to a dispatch of this node."""
    bench.hear(B, DelegationCommand(RequestId(1, 1), (Delegation(intent("B-1"), DelegationNumber(1, 1)),)))
    assembly = bench.said(AssembleRequest, B)[-1]
    signed = replace(transition(B1), signature=b"signed")
    result = AssemblyResult(B1, AssemblyOutcome.ASSEMBLED, DelegationNumber(1, 1), signed)
    bench.hear(B, AssembleResponse(assembly.request_id, (result,)))
    permission = bench.said(DispatchConfirmationRequest, B)[-1]
    bench.hear(B, DispatchConfirmationResponse(permission.request_id, (B1,)))


# A new life.


def test_first_effect_makes_the_new_incarnation_durable() -> None:
    node = Node(A, (OURS,), CONFIG, 0, StoredNode(incarnation=6))
    first, *others = node.start()
    assert first == Persist(SUBMITTER, 1, (NodeStarted(7),))
    assert others == []


def test_incarnation_goes_before_what_the_last_life_left_to_be_done() -> None:
    intents = StoredContract((Restored(intent("A-1")),))
    stored = StoredNode(1, {ADDRESS: intents}, (RoundDispatch(order(A2), "A", 0),), next_nonce=1)
    node = Node(A, (contract(B),), CONFIG, 0, stored)
    kinds = [type(effect) for effect in node.start()]
    assert kinds[0] is Persist
    assert SubmitTransaction in kinds
    assert SendMessage in kinds


def test_every_message_bears_the_new_incarnation() -> None:
    node = Node(A, (contract(B),), CONFIG, 0, StoredNode(4, {ADDRESS: StoredContract((Restored(intent("A-1")),))}))
    sent = [effect.envelope for effect in node.start() if isinstance(effect, SendMessage)]
    assert [(envelope.incarnation, type(envelope.body)) for envelope in sent] == [(5, DelegationCommand)]


def test_node_without_a_durable_incarnation_must_not_run() -> None:
    node = Node(A, (OURS,), CONFIG, 0, StoredNode())
    node.start()
    with pytest.raises(AssertionError, match="a node without an incarnation must not run"):
        node.step(0, PersistFailed(1, "disk full"))


def test_idle_node_has_no_deadline() -> None:
    assert NodeBench().node.next_deadline_ms() is None


# An intent's way through a node that is alone.


def test_intent_goes_all_its_way_to_a_receipt() -> None:
    bench = NodeBench()
    assert bench.submit("A-1") == [ReplyToUser("A-1", A1)]
    assert bench.nonces_sent() == [0]
    bench.tell(TransactionSent(0))
    assert bench.node.sequencers[ADDRESS].coordinator.transactions[A1].state is CoordinatorSide.SUBMITTED
    bench.settle(A1)
    assert bench.all(ReportReceipt) == [ReportReceipt(Receipt(A1, Outcome.CONFIRMED, leaf=Leaf(transition(A1).leaf)))]


def test_receipt_waits_for_no_write_of_the_same_step() -> None:
    """It rests on what is durable already, and is told once: a write that fails must not take it away."""
    ending = StoredContract((Restored(intent("A-2"), is_cancelled=True),))
    confirmed = StoredContract((Restored(intent("A-1", OTHER)),))
    stored = StoredNode(contracts={ADDRESS: ending, OTHER: confirmed}, chain_time_s=GENESIS_S)
    bench = NodeBench(stored=stored)
    committed = ((OTHER, outcome(A1, OTHER)),)
    time_s = GENESIS_S + CONFIG.validity_s + 1
    bench.tell(ChainBlockIndexed(1, time_s, committed))
    effects = bench.node.step(0, ChainOutcomesFinal(time_s, committed))
    kinds = [type(effect) for effect in effects if isinstance(effect, Persist | ReportReceipt)]
    assert kinds == [ReportReceipt, Persist]


def test_each_write_has_a_token_of_its_own_across_contracts() -> None:
    bench = NodeBench()
    bench.submit("A-1")
    bench.submit("A-2", OTHER)
    tokens = [write.token for write in bench.all(Persist)]
    assert tokens == sorted(set(tokens))
    assert {write.contract for write in bench.all(Persist)} == {SUBMITTER, ADDRESS, OTHER}


def test_transaction_that_was_sent_but_is_not_ours_changes_nothing() -> None:
    bench = NodeBench()
    bench.submit("A-1")
    assert bench.node.step(0, TransactionSent(99)) == []
    assert bench.node.sequencers[ADDRESS].coordinator.transactions[A1].state is CoordinatorSide.DISPATCHED


# What is refused before it gets an id.


def test_intent_for_a_contract_that_is_not_known_is_refused() -> None:
    bench = NodeBench()
    (reply,) = bench.submit("A-1", NOWHERE)
    assert reply.error == f"contract: {NOWHERE} is not known to A"
    assert bench.records(IntentAccepted) == []


@pytest.mark.parametrize("party", ["a@B", "a@AA", "A", "a@node@B"])
def test_intent_of_another_node_party_is_refused(party: str) -> None:
    bench = NodeBench()
    foreign = replace(intent("A-1"), sender=Party(party))
    bench.tell(ForContract(ADDRESS, IntentSubmitted("user", foreign)))
    assert bench.all(ReplyToUser) == [ReplyToUser("user", A1, f"from: {party} is not a party of A")]
    assert bench.records(IntentAccepted) == []


def test_intent_that_depends_on_something_unknown_is_refused() -> None:
    bench = NodeBench()
    (reply,) = bench.submit("A-1", depends_on=(A2,))
    assert reply.error == f"dependsOn: {A2.hex()} is not an intent of A"
    assert bench.records(IntentAccepted) == []


def test_refused_intent_leaves_its_idempotency_key_free() -> None:
    bench = NodeBench()
    bench.submit("A-1", key="once", depends_on=(B1,))
    assert bench.submit("A-2", key="once") == [ReplyToUser("A-2", A2)]


# Idempotency keys.


def test_repeated_key_gets_the_existing_id_and_nothing_happens() -> None:
    bench = NodeBench()
    bench.submit("A-1", key="once")
    assert bench.submit("A-2", key="once") == [ReplyToUser("A-2", A1)]
    assert [record.intent.id for record in bench.records(IntentAccepted)] == [A1]


def test_repeated_key_counts_across_contracts_and_before_everything_else() -> None:
    bench = NodeBench()
    bench.submit("A-1", key="once")
    assert bench.submit("A-2", OTHER, key="once") == [ReplyToUser("A-2", A1)]
    assert bench.submit("A-2", NOWHERE, key="once") == [ReplyToUser("A-2", A1)]


def test_intents_without_a_key_are_all_different() -> None:
    bench = NodeBench()
    assert bench.submit("A-1") == [ReplyToUser("A-1", A1)]
    assert bench.submit("A-2") == [ReplyToUser("A-2", A2)]


def test_key_that_is_repeated_while_it_is_being_written_is_to_be_tried_again() -> None:
    bench = NodeBench(slow=(IntentAccepted,))
    bench.submit("A-1", key="once")
    error = "idempotencyKey: an intent with this key is being accepted; try again"
    assert bench.submit("A-2", key="once") == [ReplyToUser("A-2", A1, error)]
    bench.finish_write()
    assert bench.submit("A-2", key="once") == [ReplyToUser("A-2", A1)]
    assert [record.intent.id for record in bench.records(IntentAccepted)] == [A1]


def test_write_that_failed_frees_the_key() -> None:
    bench = NodeBench(slow=(IntentAccepted,))
    bench.submit("A-1", key="once")
    bench.finish_write(succeeded=False)
    assert bench.all(ReplyToUser)[-1] == ReplyToUser("A-1", A1, "the intent could not be written; try again")
    assert bench.submit("A-2", key="once") == [ReplyToUser("A-2", A2)]


def test_write_that_failed_frees_no_other_key() -> None:
    bench = NodeBench(slow=(IntentAccepted,))
    bench.submit("A-1", key="one")
    bench.submit("A-2", OTHER, key="other")
    bench.finish_write(succeeded=False)
    bench.finish_write()
    assert bench.submit("A-3", key="other") == [ReplyToUser("A-3", A2)]


def test_error_about_a_durable_intent_does_not_free_its_key() -> None:
    bench = NodeBench()
    bench.submit("A-1", key="once")
    bench.tell(ForContract(ADDRESS, CancelRequested("user", A1)))
    assert bench.all(ReplyToUser)[-1].error
    assert bench.submit("A-2", key="once") == [ReplyToUser("A-2", A1)]


def test_keys_survive_a_restart() -> None:
    bench = NodeBench(stored=StoredNode(1, keys={"once": A1}))
    assert bench.submit("A-2", key="once") == [ReplyToUser("A-2", A1)]


# Dependencies.


def test_intent_waits_for_one_of_another_contract_and_goes_when_that_is_confirmed() -> None:
    bench = NodeBench()
    bench.submit("A-1")
    bench.submit("A-2", OTHER, depends_on=(A1,))
    assert bench.sender_state(A2, OTHER) is SenderSide.PENDING
    assert bench.nonces_sent() == [0]
    bench.settle(A1)
    assert bench.nonces_sent() == [0, 1]
    bench.settle(A2, of=OTHER)
    assert bench.receipts() == [(A1, Outcome.CONFIRMED), (A2, Outcome.CONFIRMED)]


def test_intent_does_not_go_before_what_it_depends_on_is_final() -> None:
    bench = NodeBench()
    bench.submit("A-1")
    bench.submit("A-2", OTHER, depends_on=(A1,))
    bench.tell(ChainBlockIndexed(1, GENESIS_S, ((ADDRESS, outcome(A1)),)))
    assert bench.sender_state(A2, OTHER) is SenderSide.PENDING


def test_intent_reverts_with_the_one_of_another_contract_that_it_depends_on() -> None:
    bench = NodeBench(contracts=(contract(B), THEIRS))
    bench.submit("A-1")
    bench.submit("A-2", OTHER, depends_on=(A1,))
    bench.tell(ForContract(ADDRESS, CancelRequested("user", A1)))
    assert bench.receipts() == [(A1, Outcome.REVERTED), (A2, Outcome.REVERTED)]
    reason = bench.all(ReportReceipt)[-1].receipt.reason
    assert reason == f"depends on {A1.hex()}, which was reverted"
    assert bench.nonces_sent() == []


def test_dependency_that_is_confirmed_already_holds_nobody_up() -> None:
    bench = NodeBench()
    bench.submit("A-1")
    bench.settle(A1)
    bench.submit("A-2", OTHER, depends_on=(A1,))
    assert bench.nonces_sent() == [0, 1]


def test_dependency_that_is_reverted_already_reverts() -> None:
    bench = NodeBench(stored=StoredNode(1, outcomes={A1: Outcome.REVERTED}))
    bench.submit("A-2", depends_on=(A1,))
    assert bench.receipts() == [(A2, Outcome.REVERTED)]


def test_dependency_that_ends_while_its_dependent_is_being_written_holds_nobody_up() -> None:
    bench = NodeBench()
    bench.submit("A-1")
    bench.slow = (IntentAccepted,)
    bench.submit("A-2", OTHER, depends_on=(A1,))
    bench.settle(A1)
    assert bench.nonces_sent() == [0]
    bench.finish_write()
    assert bench.nonces_sent() == [0, 1]


def test_dependency_that_reverts_while_its_dependent_is_being_written_reverts_it() -> None:
    bench = NodeBench(contracts=(contract(B), THEIRS))
    bench.submit("A-1")
    bench.slow = (IntentAccepted,)
    bench.submit("A-2", OTHER, depends_on=(A1,))
    bench.tell(ForContract(ADDRESS, CancelRequested("user", A1)))
    bench.finish_write()
    assert bench.receipts() == [(A1, Outcome.REVERTED), (A2, Outcome.REVERTED)]


def test_dependent_that_was_not_written_hears_of_nothing() -> None:
    bench = NodeBench()
    bench.submit("A-1")
    bench.slow = (IntentAccepted,)
    bench.submit("A-2", OTHER, depends_on=(A1,))
    bench.settle(A1)
    bench.finish_write(succeeded=False)
    assert bench.nonces_sent() == [0]
    assert bench.receipts() == [(A1, Outcome.CONFIRMED)]


def test_restored_intent_knows_the_outcomes_of_before_the_restart() -> None:
    restored = StoredContract((Restored(intent("A-2", OTHER, depends_on=(A1,))),))
    stored = StoredNode(1, {OTHER: restored}, outcomes={A1: Outcome.CONFIRMED}, chain_time_s=GENESIS_S)
    assert NodeBench(stored=stored).nonces_sent() == [0]


def test_restored_intent_waits_for_one_that_is_restored_with_it() -> None:
    first = StoredContract((Restored(intent("A-1")),))
    second = StoredContract((Restored(intent("A-2", OTHER, depends_on=(A1,))),))
    bench = NodeBench(stored=StoredNode(1, {ADDRESS: first, OTHER: second}, chain_time_s=GENESIS_S))
    assert bench.nonces_sent() == [0]
    bench.settle(A1)
    assert bench.nonces_sent() == [0, 1]


# Nonces and dispatches.


def test_dispatch_is_durable_before_it_is_sent_or_told() -> None:
    bench = NodeBench(slow=(RoundDispatch,))
    bench.submit("A-1")
    assert [record.nonce for record in bench.records(RoundDispatch)] == [0]
    assert bench.nonces_sent() == []
    assert bench.sender_state(A1) is SenderSide.PREPARED
    bench.finish_write()
    assert bench.nonces_sent() == [0]
    assert bench.sender_state(A1) is SenderSide.SEQUENCED


def test_one_dispatch_of_the_node_is_written_at_a_time() -> None:
    bench = NodeBench(slow=(RoundDispatch,))
    bench.submit("A-1")
    bench.submit("A-2", OTHER)
    assert len(bench.writes) == 1
    bench.finish_write()
    assert len(bench.writes) == 1
    bench.finish_write()
    assert [(record.round.contract, record.nonce) for record in bench.records(RoundDispatch)] == [
        (ADDRESS, 0),
        (OTHER, 1),
    ]


def test_nonces_stay_gapless_when_a_dispatch_write_fails() -> None:
    bench = NodeBench(slow=(RoundDispatch,))
    bench.submit("A-1")
    bench.submit("A-2", OTHER)
    bench.finish_write(succeeded=False)
    bench.finish_write()
    assert [(sent.dispatch.round.contract, sent.dispatch.nonce) for sent in bench.all(SubmitTransaction)] == [
        (OTHER, 0)
    ]
    bench.wait(CONFIG.retry_backoff_ms)
    bench.finish_write()
    assert [(sent.dispatch.round.contract, sent.dispatch.nonce) for sent in bench.all(SubmitTransaction)] == [
        (OTHER, 0),
        (ADDRESS, 1),
    ]


def test_dispatch_write_that_fails_is_told_to_nobody_and_tried_again() -> None:
    bench = NodeBench(failing=(RoundDispatch,))
    bench.submit("A-1")
    assert bench.nonces_sent() == []
    assert bench.sender_state(A1) is SenderSide.PREPARED
    bench.failing = ()
    bench.wait(CONFIG.retry_backoff_ms)
    assert bench.nonces_sent() == [0]


def test_nonces_go_on_where_the_last_life_stopped() -> None:
    bench = restarted(next_nonce=12)
    bench.submit("A-1")
    assert bench.nonces_sent() == [12]


# Submitter heartbeats and sending again.


def test_sender_hears_every_heartbeat_of_its_dispatched_intent_until_it_has_its_outcome() -> None:
    bench = NodeBench()
    dispatch_of_b(bench)
    bench.wait(CONFIG.heartbeat_ms - 1)
    assert bench.said(SubmitterHeartbeat, B) == []
    bench.wait(1)
    (first,) = bench.said(SubmitterHeartbeat, B)
    assert [(each.intent, each.signer, each.nonce) for each in first.intents] == [(B1, "A", 0)]
    bench.wait(CONFIG.heartbeat_ms)
    assert [each.number for each in bench.said(SubmitterHeartbeat, B)] == [HeartbeatNumber(1, 1), HeartbeatNumber(1, 2)]
    bench.settle(B1)
    bench.wait(10 * CONFIG.heartbeat_ms)
    assert len(bench.said(SubmitterHeartbeat, B)) == 2
    assert bench.node.next_heartbeat_ms is None


def test_submitter_heartbeat_bears_contract_height_and_incarnation() -> None:
    bench = restarted(RoundDispatch(order(B1, sender=B), "A", 0), next_nonce=1)
    bench.tell(ChainBlockIndexed(17, GENESIS_S))
    bench.wait(CONFIG.heartbeat_ms)
    (envelope,) = [
        sent.envelope for sent in bench.all(SendMessage) if isinstance(sent.envelope.body, SubmitterHeartbeat)
    ]
    assert (envelope.contract, envelope.height, envelope.incarnation, envelope.no_ledger) == (ADDRESS, 17, 2, False)


def test_submitter_heartbeats_have_message_ids_of_their_own() -> None:
    bench = NodeBench()
    dispatch_of_b(bench)
    bench.wait(5 * CONFIG.heartbeat_ms)
    ids = [sent.envelope.message_id for sent in bench.all(SendMessage)]
    assert len(set(ids)) == len(ids)


def test_our_own_sender_hears_it_without_a_wire() -> None:
    bench = NodeBench()
    bench.submit("A-1")
    bench.tell(TransactionSent(0))
    assert bench.sender_state(A1) is SenderSide.SEQUENCED
    bench.wait(CONFIG.heartbeat_ms)
    assert bench.sender_state(A1) is SenderSide.SUBMITTED
    assert bench.said(SubmitterHeartbeat, A) == []


def test_what_the_chain_has_not_taken_is_sent_again_with_every_heartbeat() -> None:
    bench = NodeBench()
    bench.submit("A-1")
    bench.wait(2 * CONFIG.heartbeat_ms)
    assert bench.nonces_sent() == [0, 0, 0]
    assert len({sent.dispatch for sent in bench.all(SubmitTransaction)}) == 1


def test_what_the_chain_has_taken_is_sent_again_only_on_silence() -> None:
    bench = NodeBench()
    bench.submit("A-1")
    bench.tell(TransactionSent(0))
    bench.wait(CONFIG.resubmit_ms - 1)
    assert bench.nonces_sent() == [0]
    bench.wait(1)
    assert bench.nonces_sent() == [0, 0]


def test_without_a_ledger_nothing_is_listed_and_nothing_sent_until_it_is_back() -> None:
    bench = NodeBench()
    dispatch_of_b(bench)
    bench.tell(LedgerLost())
    bench.wait(4 * CONFIG.heartbeat_ms)
    assert bench.said(SubmitterHeartbeat, B) == []
    assert bench.nonces_sent() == [0]
    bench.tell(LedgerBack())
    bench.wait(CONFIG.heartbeat_ms)
    assert len(bench.said(SubmitterHeartbeat, B)) == 1
    assert bench.nonces_sent() == [0, 0]


def test_heartbeats_begin_again_with_the_next_dispatch() -> None:
    bench = NodeBench()
    bench.submit("A-1")
    bench.settle(A1)
    bench.wait(20 * CONFIG.heartbeat_ms)
    dispatch_of_b(bench)
    bench.wait(CONFIG.heartbeat_ms)
    assert len(bench.said(SubmitterHeartbeat, B)) == 1


# Restart with dispatches.


def test_restored_dispatches_are_submitted_and_listed_again() -> None:
    bench = restarted(RoundDispatch(order(B1, sender=B), "A", 4), next_nonce=5)
    assert bench.nonces_sent() == [4]
    bench.wait(CONFIG.heartbeat_ms)
    (heartbeat,) = bench.said(SubmitterHeartbeat, B)
    assert [(each.intent, each.leaf, each.nonce) for each in heartbeat.intents] == [(B1, transition(B1).leaf, 4)]
    assert heartbeat.number == HeartbeatNumber(2, 1)
    bench.settle(B1)
    bench.wait(4 * CONFIG.heartbeat_ms)
    assert len(bench.said(SubmitterHeartbeat, B)) == 1


def test_restored_dispatch_is_known_to_its_own_contract_only() -> None:
    bench = restarted(RoundDispatch(order(B1, sender=B), "A", 0), next_nonce=1)
    command = DelegationCommand(RequestId(1, 1), (Delegation(intent("B-1"), DelegationNumber(1, 1)),))
    bench.hear(B, command)
    bench.hear(B, command, OTHER)
    answers = [accepted.answers[0].answer for accepted in bench.said(DelegationAccepted, B)]
    assert answers == [Answer.DISPATCHED, Answer.ACCEPTED]


def test_restored_dispatch_is_handed_over_as_a_flush_point() -> None:
    bench = restarted(RoundDispatch(order(B1, sender=B), "A", 0), next_nonce=1, contracts=(contract(A, B),))
    bench.hear(B, HandoverRequest(RequestId(1, 1), HandoverReason.OUTRANKS))
    (handover,) = bench.said(Handover, B)
    assert [(handed.point.digest, handed.point.intent, handed.leaf) for handed in handover.points] == [
        (order(B1).digest, B1, transition(B1).leaf)
    ]


# Blocks and reorganisations.


def test_every_contract_hears_of_the_height_and_only_its_own_outcomes() -> None:
    bench = NodeBench()
    bench.submit("A-1")
    bench.submit("A-2", OTHER)
    bench.tell(ChainBlockIndexed(9, GENESIS_S + 5, ((OTHER, outcome(A2, OTHER)),)))
    contexts = [sequencer.context for sequencer in bench.node.sequencers.values()]
    assert [(context.height, context.chain_time_s) for context in contexts] == [(9, GENESIS_S + 5)] * 2
    assert bench.sender_state(A1) is SenderSide.SEQUENCED
    assert bench.sender_state(A2, OTHER) is SenderSide.CONFIRMED
    assert not bench.node.sequencers[ADDRESS].coordinator.outcomes.is_committed(A2)


def test_outcome_of_a_contract_that_is_not_ours_is_ignored() -> None:
    bench = NodeBench()
    bench.submit("A-1")
    bench.tell(ChainBlockIndexed(1, GENESIS_S, ((NOWHERE, outcome(A1)),)))
    assert bench.sender_state(A1) is SenderSide.SEQUENCED


def test_reorganisation_reaches_the_contract_whose_outcome_it_took() -> None:
    bench = NodeBench()
    bench.submit("A-1")
    bench.submit("A-2", OTHER)
    both = ((ADDRESS, outcome(A1)), (OTHER, outcome(A2, OTHER)))
    bench.tell(ChainBlockIndexed(9, GENESIS_S, both))
    bench.tell(ChainBlocksRemoved(8, both[:1]))
    assert bench.node.height == 8
    assert bench.node.sequencers[ADDRESS].context.height == 8
    assert bench.sender_state(A1) is SenderSide.SUBMITTED
    assert bench.sender_state(A2, OTHER) is SenderSide.CONFIRMED


@pytest.mark.parametrize("taken", [(), ((ADDRESS, outcome(A1)),)], ids=["empty blocks", "an outcome of one contract"])
def test_every_contract_hears_of_the_height_that_a_reorganisation_leaves(
    taken: tuple[tuple[ContractAddress, LedgerOutcome], ...],
) -> None:
    bench = NodeBench()
    bench.tell(ChainBlockIndexed(9, GENESIS_S))
    bench.tell(ChainBlocksRemoved(8, taken))
    bench.tell(ConnectionMade(B))
    assert [sequencer.context.height for sequencer in bench.node.sequencers.values()] == [8, 8]


def test_dispatch_whose_outcome_a_reorganisation_took_is_sent_and_listed_again() -> None:
    bench = NodeBench()
    dispatch_of_b(bench)
    bench.tell(TransactionSent(0))
    bench.tell(ChainBlockIndexed(1, GENESIS_S, ((ADDRESS, outcome(B1)),)))
    bench.wait(2 * CONFIG.heartbeat_ms)
    assert bench.said(SubmitterHeartbeat, B) == []
    bench.tell(ChainBlocksRemoved(0, ((ADDRESS, outcome(B1)),)))
    bench.wait(CONFIG.heartbeat_ms)
    assert len(bench.said(SubmitterHeartbeat, B)) == 1
    assert bench.nonces_sent() == [0, 0]


@pytest.mark.parametrize(
    "event",
    [ChainBlocksRemoved(0, ((NOWHERE, outcome(A1)),)), ChainOutcomesFinal(GENESIS_S, ((NOWHERE, outcome(A1)),))],
    ids=["removed", "final"],
)
def test_chain_event_of_a_contract_that_is_not_ours_touches_nobody(event: Event) -> None:
    bench = NodeBench()
    bench.submit("A-1")
    bench.tell(ChainBlockIndexed(1, GENESIS_S, ((ADDRESS, outcome(A1)),)))
    bench.tell(event)
    assert bench.sender_state(A1) is SenderSide.CONFIRMED


def test_idle_contract_hears_where_the_chain_stands_when_something_concerns_it() -> None:
    bench = NodeBench()
    bench.submit("A-1")
    bench.tell(ChainBlockIndexed(9, GENESIS_S + 5))
    busy, idle = (bench.node.sequencers[address].context for address in (ADDRESS, OTHER))
    assert (busy.height, idle.height) == (9, 0)
    bench.submit("A-2", OTHER)
    assert (idle.height, idle.chain_time_s) == (9, GENESIS_S + 5)


def test_idle_contracts_have_no_deadline_and_busy_ones_their_own() -> None:
    bench = NodeBench()
    assert bench.node.next_deadline_ms() is None
    bench.submit("A-1")
    own = bench.node.sequencers[ADDRESS].next_deadline_ms()
    assert own is not None
    assert bench.node.next_deadline_ms() == own


def test_time_of_a_final_block_without_outcomes_reaches_every_contract() -> None:
    bench = NodeBench()
    bench.tell(ChainOutcomesFinal(GENESIS_S + 9, ()))
    bench.tell(ConnectionMade(B))
    times = [sequencer.sender.final_time_s for sequencer in bench.node.sequencers.values()]
    assert times == [GENESIS_S + 9] * 2


def test_receipts_are_reported_only_for_the_outcomes_that_are_final() -> None:
    bench = NodeBench()
    bench.submit("A-1")
    bench.submit("A-2", OTHER)
    both = ((ADDRESS, outcome(A1)), (OTHER, outcome(A2, OTHER)))
    bench.tell(ChainBlockIndexed(9, GENESIS_S, both))
    assert bench.receipts() == []
    bench.tell(ChainOutcomesFinal(GENESIS_S, both[1:]))
    assert bench.receipts() == [(A2, Outcome.CONFIRMED)]


# Whom an event concerns.


def test_event_of_a_contract_that_is_not_known_is_ignored() -> None:
    bench = NodeBench()
    assert bench.node.step(0, ForContract(NOWHERE, TransitionSigned(RequestId(1, 1), A1, b""))) == []


def test_message_of_a_contract_that_is_not_known_is_ignored() -> None:
    bench = NodeBench()
    seen = len(bench.seen)
    bench.hear(B, HandoverRequest(RequestId(1, 1), HandoverReason.TRIED), NOWHERE)
    assert len(bench.seen) == seen


def test_message_reaches_its_own_contract_only() -> None:
    bench = NodeBench(contracts=(contract(A, B), replace(contract(A, B), address=OTHER)))
    bench.hear(B, HandoverRequest(RequestId(1, 1), HandoverReason.TRIED), OTHER)
    assert [sent.envelope.contract for sent in bench.all(SendMessage)] == [OTHER]


def test_event_of_one_contract_reaches_that_one_only() -> None:
    bench = NodeBench()
    bench.submit("A-1")
    bench.tell(ForContract(OTHER, CancelRequested("user", A1)))
    assert bench.all(ReplyToUser)[-1].error == "there is no such intent under way at this node"


def test_connection_and_ledger_concern_every_contract() -> None:
    bench = NodeBench()
    bench.tell(ConnectionLost(B))
    bench.tell(LedgerLost())
    for sequencer in bench.node.sequencers.values():
        assert sequencer.observer.is_silent(B)
        assert not sequencer.context.has_ledger
    assert not bench.node.has_ledger


def test_next_deadline_is_the_earliest_of_all_contracts_and_of_the_submitter() -> None:
    bench = NodeBench(contracts=(OURS, replace(contract(B), address=OTHER)))
    dispatch_of_b(bench)
    assert bench.node.next_deadline_ms() == CONFIG.heartbeat_ms
    bench.wait(400)
    bench.submit("A-2", OTHER)
    assert bench.node.next_deadline_ms() == CONFIG.heartbeat_ms
    bench.wait(100)
    assert bench.node.next_deadline_ms() == 400 + CONFIG.delegation_repeat_ms


# Where is my transaction?


def test_coordinator_word_is_preferred_when_it_is_here() -> None:
    bench = NodeBench(slow=(RoundDispatch,))
    bench.submit("A-1")
    found = bench.node.explain(A1)
    assert (found.state, found.waits_for, found.who) == ("Ready_For_Dispatch", "its round to be dispatched", (A,))


def test_sender_explains_what_is_elsewhere() -> None:
    bench = NodeBench(contracts=(THEIRS, contract(B)))
    bench.submit("A-1")
    found = bench.node.explain(A1)
    assert (found.state, found.waits_for, found.who) == ("Pending", "its delegation to be accepted", (B,))


def test_what_is_final_is_explained_by_its_outcome() -> None:
    bench = NodeBench(stored=StoredNode(1, outcomes={A2: Outcome.REVERTED}, chain_time_s=GENESIS_S))
    bench.submit("A-1")
    bench.settle(A1)
    bench.wait(CONFIG.heartbeat_ms)
    assert bench.node.explain(A1).state == "confirmed"
    assert bench.node.explain(A2).state == "reverted"


def test_what_nobody_knows_is_unknown() -> None:
    assert NodeBench().node.explain(A1).state == "unknown"


def test_receipt_that_was_not_written_is_not_an_outcome_yet() -> None:
    bench = NodeBench(contracts=(contract(B), THEIRS), slow=(IntentFinalised,))
    bench.submit("A-1")
    bench.submit("A-2", OTHER, depends_on=(A1,))
    bench.tell(ForContract(ADDRESS, CancelRequested("user", A1)))
    assert bench.node.explain(A1).waits_for == "its receipt to be written (cancelled)"
    assert bench.sender_state(A2, OTHER) is SenderSide.PENDING
    bench.finish_write()
    assert bench.node.explain(A1).state == "reverted"


def test_cancel_of_an_intent_that_is_being_written_does_not_free_its_key() -> None:
    bench = NodeBench(slow=(IntentAccepted,))
    bench.submit("A-1", key="once")
    (reply,) = bench.submit("A-2", key="once")
    bench.tell(ForContract(ADDRESS, CancelRequested("user", reply.intent)))
    bench.finish_write()
    assert bench.submit("A-2", key="once") == [ReplyToUser("A-2", A1)]


def test_what_has_ended_at_the_coordinator_is_explained_by_its_sender() -> None:
    bench = NodeBench()
    bench.submit("A-1")
    bench.tell(ChainBlockIndexed(1, GENESIS_S, ((ADDRESS, outcome(A1)),)))
    assert bench.node.explain(A1).waits_for == "its block to become final"


def test_reported_outcome_is_explained_even_before_the_coordinator_forgets_it() -> None:
    bench = NodeBench()
    bench.submit("A-1")
    bench.settle(A1)
    assert bench.node.explain(A1).state == "confirmed"


def test_restored_dispatch_of_a_contract_that_is_not_known_does_not_stop_the_node() -> None:
    bench = restarted(RoundDispatch(order(A1, of=NOWHERE), "A", 0), next_nonce=1)
    bench.tell(TransactionSent(0))
    bench.wait(CONFIG.heartbeat_ms)
    assert bench.node.submitter.submissions[0].submission_count == 1


def test_transaction_that_was_never_sent_has_no_age() -> None:
    bench = NodeBench(now_ms=1_000_000)
    dispatch_of_b(bench)
    bench.wait(CONFIG.heartbeat_ms)
    assert bench.said(SubmitterHeartbeat, B)[0].intents[0].submitted_age_ms == 0
