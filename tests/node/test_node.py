"""A whole node: its life and number, its users' intents, and whom each event concerns."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rota.chain.effects import FetchBlocks, RoundDispatch, SignDispatch, SubmitTransaction
from rota.chain.events import HeadSeen, TransactionSent
from rota.chain.submitters import StoredAccount
from rota.machine.effects import (
    Effect,
    IntentAccepted,
    IntentFinalised,
    Persist,
    ReplyToUser,
    ReportReceipt,
    SendMessage,
)
from rota.machine.events import CancelRequested, ConnectionLost, ConnectionMade, IntentSubmitted, StopRequested
from rota.model.types import (
    SHARED_ACCOUNT,
    BlockHash,
    Contract,
    ContractAddress,
    Digest,
    HeartbeatNumber,
    IntentId,
    Leaf,
    Mode,
    Outcome,
    Party,
    Receipt,
    RequestId,
)
from rota.node.effects import LoadContract, LookUpIntents, NodeStarted
from rota.node.events import ForContract, IntentsLookedUp, PublicTransactionEnded
from rota.node.node import OWN, Node
from rota.node.stored import StoredNode
from rota.sequencer.events import BlockIndexed, LedgerBack, LedgerLost, TransitionSigned
from rota.sequencer.held_intent import State as CoordinatorSide
from rota.sequencer.sender_transaction import State as SenderSide
from rota.sequencer.sent_intent import Restored
from rota.sequencer.sequencer import StoredContract
from rota.sim.disk import Disk
from rota.wire.messages import (
    CoordinatorHeartbeat,
    CoordinatorState,
    DelegationCommand,
    HandoverReason,
    HandoverRequest,
    Message,
    Startup,
    StateDistributionAcknowledgement,
    StateRequest,
    SubmitterHeartbeat,
)
from tests.node.node_bench import (
    A1,
    A2,
    B1,
    CONFIG,
    NOWHERE,
    OTHER,
    OURS,
    START,
    THEIRS,
    NodeBench,
    dispatch_of_b,
    intent,
    mined,
    order,
    outcome,
    restarted,
    transition,
)
from tests.sequencer.kit import ADDRESS, GENESIS_S, A, B, C, contract, intent_id

DEEP = replace(CONFIG, confirmations=2)

# A new life.


def test_first_effect_records_the_new_incarnation() -> None:
    node = Node(A, (OURS,), CONFIG, 0, StoredNode(incarnation=6))
    first, *others = node.start()
    assert first == Persist(OWN, (NodeStarted(7),))
    assert others == []


def new_life(stored: StoredNode, contracts: tuple[Contract, ...]) -> tuple[Node, list[Effect]]:
    """A new life whose index stands where the chain does, and what it asked for at its start."""
    node = Node(A, contracts, CONFIG, 0, replace(stored, blocks=(START,)))
    return node, node.start()


def test_incarnation_goes_before_what_the_last_life_left_to_be_done() -> None:
    stored = StoredNode(1, {}, (RoundDispatch(order(A2), "A", 0),), accounts={SHARED_ACCOUNT: StoredAccount(1)})
    _, effects = new_life(stored, (contract(B),))
    assert [type(effect) for effect in effects] == [Persist, SubmitTransaction]


def test_every_message_bears_the_new_incarnation_and_intents_go_on_when_the_index_has_caught_up() -> None:
    intents = StoredContract((Restored(intent("A-1")),))
    node, effects = new_life(StoredNode(4, {ADDRESS: intents}), (contract(B),))
    assert [type(effect) for effect in effects] == [Persist]
    late = node.step(0, HeadSeen(1, BlockHash(b"1" * 32)))
    assert [type(effect) for effect in late] == [FetchBlocks]
    sent = [each.envelope for each in node.step(0, HeadSeen(0, START.hash)) if isinstance(each, SendMessage)]
    assert [(envelope.incarnation, type(envelope.body)) for envelope in sent] == [(5, DelegationCommand)]


def test_idle_node_waits_for_nothing_but_the_ledger() -> None:
    assert NodeBench().node.next_deadline_ms() == CONFIG.ledger_grace_ms


# An intent's way through a node that is alone.


def test_intent_goes_all_its_way_to_a_receipt() -> None:
    bench = NodeBench()
    assert bench.submit("A-1") == [ReplyToUser("A-1", A1)]
    assert bench.nonces_sent() == [0]
    bench.tell(TransactionSent(0))
    assert bench.sequencer().coordinator.transactions[A1].state is CoordinatorSide.SUBMITTED
    bench.settle(A1)
    assert bench.all(ReportReceipt) == [ReportReceipt(Receipt(A1, Outcome.CONFIRMED, leaf=Leaf(transition(A1).leaf)))]


def test_records_are_written_under_the_contract_that_they_concern() -> None:
    bench = NodeBench()
    bench.submit("A-1")
    bench.submit("A-2", OTHER)
    accepted = [(write.contract, each.intent.id) for write in bench.all(Persist) for each in accepted_in(write)]
    assert accepted == [(ADDRESS, A1), (OTHER, A2)]
    assert {write.contract for write in bench.all(Persist)} == {OWN, ADDRESS, OTHER}


def accepted_in(write: Persist) -> list[IntentAccepted]:
    return [record for record in write.records if isinstance(record, IntentAccepted)]


def test_record_reply_and_delegation_of_an_intent_come_from_one_step_with_the_record_first() -> None:
    bench = NodeBench(contracts=(contract(B),))
    effects = bench.node.step(0, ForContract(ADDRESS, IntentSubmitted("user", intent("A-1"))))
    record, reply, sent = effects
    assert record == Persist(ADDRESS, (IntentAccepted(intent("A-1")),))
    assert reply == ReplyToUser("user", A1)
    assert isinstance(sent, SendMessage)
    assert (sent.peer, type(sent.envelope.body)) == (B, DelegationCommand)


def test_intent_that_a_crash_kept_from_the_disk_was_not_answered() -> None:
    bench = NodeBench(contracts=(contract(B),), crashes_before=(IntentAccepted,))
    assert bench.submit("A-1", key="once") == []
    assert bench.said(DelegationCommand, B) == []
    bench.restart()
    assert bench.submit("A-2", key="once") == [ReplyToUser("A-2", A2)]


def test_transaction_that_was_sent_but_is_not_ours_changes_nothing() -> None:
    bench = NodeBench()
    bench.submit("A-1")
    assert bench.node.step(0, TransactionSent(99)) == []
    assert bench.sequencer().coordinator.transactions[A1].state is CoordinatorSide.DISPATCHED


# What is refused before it gets an id.


def test_intent_for_a_contract_that_is_not_known_is_refused() -> None:
    bench = NodeBench()
    (reply,) = bench.submit("A-1", NOWHERE)
    assert (reply.field, reply.error) == ("to", f"{NOWHERE} is not known to A")
    assert bench.records(IntentAccepted) == []


@pytest.mark.parametrize("party", ["a@B", "a@AA", "A", "a@node@B"])
def test_intent_of_another_node_party_is_refused(party: str) -> None:
    bench = NodeBench()
    foreign = replace(intent("A-1"), sender=Party(party))
    bench.tell(ForContract(ADDRESS, IntentSubmitted("user", foreign)))
    assert bench.all(ReplyToUser) == [ReplyToUser("user", A1, f"{party} is not a party of A", field="from")]
    assert bench.records(IntentAccepted) == []


def test_intent_that_depends_on_something_unknown_is_refused() -> None:
    bench = NodeBench()
    (reply,) = bench.submit("A-1", depends_on=(A2,))
    assert (reply.field, reply.error) == ("dependsOn", f"{A2.hex()} is not an intent of A")
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


def loading(**options: object) -> NodeBench:
    """A node whose other contract is being loaded."""
    bench = NodeBench(contracts=(OURS,), known=(THEIRS,), silent=(LoadContract,))
    bench.submit("A-2", OTHER, **options)
    assert bench.all(LoadContract) == [LoadContract(OTHER)]
    return bench


def test_key_that_is_repeated_while_its_contract_is_loaded_is_to_be_tried_again() -> None:
    bench = loading(key="once")
    error = "an intent with this key is being accepted; try again"
    assert bench.submit("A-1", key="once") == [ReplyToUser("A-1", A2, error, is_temporary=True, field="idempotencyKey")]
    bench.tell(bench.loaded(OTHER))
    assert bench.submit("A-1", key="once") == [ReplyToUser("A-1", A2)]
    assert bench.accepted() == [A2]


def test_repeated_key_gets_the_id_as_soon_as_the_first_is_accepted() -> None:
    bench = NodeBench(silent=(LookUpIntents,))
    bench.submit("A-1", key="once")
    bench.submit("A-2", key="once")
    first, second = bench.all(LookUpIntents)
    bench.tell(IntentsLookedUp(first.token))
    bench.tell(IntentsLookedUp(second.token))
    assert bench.all(ReplyToUser) == [ReplyToUser("A-1", A1), ReplyToUser("A-2", A1)]
    assert bench.accepted() == [A1]


def test_intent_that_is_refused_after_its_look_up_frees_its_key() -> None:
    bench = NodeBench()
    (reply,) = bench.submit("A-1", NOWHERE, key="once")
    assert reply == ReplyToUser("A-1", A1, f"{NOWHERE} is not known to A", field="to")
    assert bench.submit("A-2", key="once") == [ReplyToUser("A-2", A2)]


def test_intent_that_is_refused_frees_no_other_key() -> None:
    bench = NodeBench(silent=(LoadContract,))
    bench.submit("A-1", NOWHERE, key="one")
    bench.submit("A-2", OTHER, key="other")
    bench.tell(bench.loaded(NOWHERE))
    assert bench.all(ReplyToUser)[-1].error == f"{NOWHERE} is not known to A"
    assert bench.submit("A-3", key="other") == [ReplyToUser("A-3", A2)]


def test_error_about_an_accepted_intent_does_not_free_its_key() -> None:
    bench = NodeBench()
    bench.submit("A-1", key="once")
    bench.tell(ForContract(ADDRESS, CancelRequested("user", A1)))
    assert bench.all(ReplyToUser)[-1].error
    assert bench.submit("A-2", key="once") == [ReplyToUser("A-2", A1)]


def test_keys_survive_a_restart() -> None:
    bench = NodeBench()
    bench.submit("A-1", key="once")
    bench.restart()
    assert bench.submit("A-2", key="once") == [ReplyToUser("A-2", A1)]


def test_answer_of_the_store_that_comes_twice_changes_nothing() -> None:
    bench = NodeBench()
    bench.submit("A-1", key="once")
    (asked,) = bench.all(LookUpIntents)
    assert bench.node.step(0, IntentsLookedUp(asked.token, None, (), ())) == []


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
    bench = NodeBench(config=DEEP)
    bench.submit("A-1")
    bench.submit("A-2", OTHER, depends_on=(A1,))
    bench.block((ADDRESS, outcome(A1)), mined=[mined(0)])
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


def test_intent_that_ends_with_its_dependency_is_recorded_answered_and_reported_in_one_step() -> None:
    bench = NodeBench(contracts=(contract(B),), silent=(LookUpIntents,))
    bench.submit("A-1")
    bench.tell(ForContract(ADDRESS, CancelRequested("user", A1)))
    bench.submit("A-2", depends_on=(A1,))
    (asked,) = bench.all(LookUpIntents)
    effects = bench.node.step(0, IntentsLookedUp(asked.token, outcomes=((A1, Outcome.REVERTED),)))
    receipt = Receipt(A2, Outcome.REVERTED, f"depends on {A1.hex()}, which was reverted")
    records = (IntentAccepted(intent("A-2", depends_on=(A1,))), IntentFinalised(receipt))
    assert effects == [Persist(ADDRESS, records), ReplyToUser("A-2", A2), ReportReceipt(receipt)]


def test_dependency_that_is_confirmed_already_holds_nobody_up() -> None:
    bench = NodeBench()
    bench.submit("A-1")
    bench.settle(A1)
    bench.submit("A-2", OTHER, depends_on=(A1,))
    assert bench.nonces_sent() == [0, 1]


def test_dependents_are_noted_until_what_they_depend_on_has_ended() -> None:
    bench = NodeBench()
    bench.submit("A-1")
    bench.submit("A-2", OTHER, depends_on=(A1,))
    assert bench.node.dependencies.dependents == {A1: {OTHER: None}}
    bench.settle(A1)
    bench.submit("A-3", OTHER, depends_on=(A1,))
    assert bench.node.dependencies.dependents == {}


def test_dependents_of_what_ended_in_an_earlier_life_are_not_noted_for_ever() -> None:
    bench = NodeBench(contracts=(contract(B), THEIRS))
    bench.submit("A-1")
    bench.tell(ForContract(ADDRESS, CancelRequested("user", A1)))
    bench.restart()
    bench.submit("A-2", OTHER, depends_on=(A1,))
    assert bench.node.dependencies.dependents == {}


def test_dependency_that_is_reverted_already_reverts() -> None:
    bench = NodeBench(contracts=(contract(B), THEIRS))
    bench.submit("A-1")
    bench.tell(ForContract(ADDRESS, CancelRequested("user", A1)))
    bench.restart()
    bench.submit("A-2", OTHER, depends_on=(A1,))
    assert bench.receipts() == [(A1, Outcome.REVERTED), (A2, Outcome.REVERTED)]


def _with_public(monkeypatch: pytest.MonkeyPatch, public: IntentId) -> NodeBench:
    """The store knows a public transaction of this node that has not ended."""
    look_up = Disk.look_up
    monkeypatch.setattr(Disk, "look_up", lambda *asked: replace(look_up(*asked), unfinished=(public,)))
    return NodeBench()


def test_private_intent_waits_for_a_public_transaction_to_succeed(monkeypatch: pytest.MonkeyPatch) -> None:
    public = intent_id("public")
    bench = _with_public(monkeypatch, public)
    bench.submit("A-1", depends_on=(public,))
    assert bench.nonces_sent() == []
    bench.tell(PublicTransactionEnded(public, Outcome.CONFIRMED))
    assert bench.nonces_sent() == [0]
    assert bench.node.dependencies.dependents == {}


def test_private_intent_reverts_with_a_public_transaction_that_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    public = intent_id("public")
    bench = _with_public(monkeypatch, public)
    bench.submit("A-1", depends_on=(public,))
    bench.tell(PublicTransactionEnded(public, Outcome.REVERTED))
    assert bench.receipts() == [(A1, Outcome.REVERTED)]


def test_public_transaction_that_ends_while_the_contract_of_its_dependent_is_loaded_holds_nobody_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    public = intent_id("public")
    _with_public(monkeypatch, public)
    bench = loading(depends_on=(public,))
    bench.tell(PublicTransactionEnded(public, Outcome.CONFIRMED))
    bench.tell(bench.loaded(OTHER))
    assert bench.nonces_sent() == [0]
    assert bench.node.dependencies.dependents == {}


def dependent_that_waits_to_be_loaded(*contracts: Contract, of: ContractAddress = OTHER) -> NodeBench:
    """A-2 depends on A-1 and belongs to a contract that is being loaded."""
    bench = NodeBench(contracts=contracts, known=(THEIRS,), silent=(LoadContract,))
    bench.submit("A-1")
    bench.submit("A-2", of, depends_on=(A1,))
    assert bench.accepted() == [A1]
    return bench


def test_dependency_that_ends_while_the_contract_of_its_dependent_is_loaded_holds_nobody_up() -> None:
    bench = dependent_that_waits_to_be_loaded(OURS)
    bench.settle(A1)
    assert bench.nonces_sent() == [0]
    bench.tell(bench.loaded(OTHER))
    assert bench.nonces_sent() == [0, 1]


def test_dependency_that_reverts_while_the_contract_of_its_dependent_is_loaded_reverts_it() -> None:
    bench = dependent_that_waits_to_be_loaded(contract(B))
    bench.tell(ForContract(ADDRESS, CancelRequested("user", A1)))
    bench.tell(bench.loaded(OTHER))
    assert bench.receipts() == [(A1, Outcome.REVERTED), (A2, Outcome.REVERTED)]


def test_dependent_that_is_refused_receives_nothing() -> None:
    bench = dependent_that_waits_to_be_loaded(OURS, of=NOWHERE)
    bench.tell(bench.loaded(NOWHERE))
    assert bench.all(ReplyToUser)[-1].error == f"{NOWHERE} is not known to A"
    bench.settle(A1)
    assert bench.nonces_sent() == [0]
    assert bench.receipts() == [(A1, Outcome.CONFIRMED)]
    assert bench.node.dependencies.dependents == {}


def test_restored_intent_knows_the_outcomes_of_before_the_restart() -> None:
    dependent = Restored(intent("A-2", OTHER, depends_on=(A1,)))
    restored = StoredContract((dependent,), outcomes=((A1, Outcome.CONFIRMED),))
    stored = StoredNode(1, {OTHER: restored}, blocks=(START,))
    assert NodeBench(stored=stored).nonces_sent() == [0]


def test_restored_intent_waits_for_one_that_is_restored_with_it() -> None:
    first = StoredContract((Restored(intent("A-1")),))
    second = StoredContract((Restored(intent("A-2", OTHER, depends_on=(A1,))),))
    bench = NodeBench(stored=StoredNode(1, {ADDRESS: first, OTHER: second}, blocks=(START,)))
    assert bench.nonces_sent() == [0]
    bench.settle(A1)
    assert bench.nonces_sent() == [0, 1]


# Whom an event concerns.


def test_event_of_a_contract_that_is_not_known_is_ignored() -> None:
    bench = NodeBench()
    assert bench.node.step(0, ForContract(NOWHERE, TransitionSigned(RequestId(1, 1), A1, b""))) == []


def test_message_of_a_contract_that_is_not_known_is_ignored_once_the_store_has_said_so() -> None:
    bench = NodeBench()
    seen = len(bench.seen)
    bench.hear(B, HandoverRequest(RequestId(1, 1), HandoverReason.TRIED), NOWHERE)
    assert bench.seen[seen:] == [LoadContract(NOWHERE)]


def test_message_reaches_its_own_contract_only() -> None:
    bench = NodeBench(contracts=(contract(A, B), replace(contract(A, B), address=OTHER)))
    bench.hear(B, HandoverRequest(RequestId(1, 1), HandoverReason.TRIED), OTHER)
    assert [sent.envelope.contract for sent in bench.all(SendMessage)] == [OTHER]


def test_event_of_one_contract_reaches_that_one_only() -> None:
    bench = NodeBench()
    bench.submit("A-1")
    bench.tell(ForContract(OTHER, CancelRequested("user", A1)))
    assert bench.all(ReplyToUser)[-1].error == "there is no such intent under way at this node"


def test_connection_and_ledger_concern_every_contract_that_is_awake_and_the_others_when_they_wake() -> None:
    bench = NodeBench()
    bench.submit("A-1")
    bench.tell(ConnectionLost(B))
    bench.tell(LedgerLost())
    awake, asleep = bench.sequencer(), bench.sequencer(OTHER)
    assert (awake.observer.is_silent(B), awake.context.has_ledger) == (True, False)
    assert (asleep.observer.is_silent(B), asleep.context.has_ledger) == (False, True)
    bench.submit("A-2", OTHER)
    assert (asleep.observer.is_silent(B), asleep.context.has_ledger) == (True, False)
    assert not bench.node.has_ledger


def test_sleeping_contract_makes_up_for_a_connection_and_a_ledger_that_are_back() -> None:
    bench = NodeBench()
    bench.tell(ConnectionLost(B))
    bench.tell(LedgerLost())
    bench.hear(C, Startup(RequestId(1, 1)), OTHER)
    woken = bench.sequencer(OTHER)
    assert (woken.observer.is_silent(B), woken.context.has_ledger) == (True, False)
    bench.tell(ConnectionMade(B))
    bench.tell(LedgerBack())
    bench.hear(C, Startup(RequestId(1, 2)), OTHER)
    assert (woken.observer.is_silent(B), woken.context.has_ledger) == (False, True)


def test_sleeping_contract_hears_of_a_connection_that_was_lost_and_came_back_meanwhile() -> None:
    """Its next activity is answered with Startup (protocol §4.4), also when the connection was lost once more since."""
    bench = NodeBench(contracts=(contract(A, B, C),))
    startup = bench.sequencer().startup
    startup.is_armed = False
    bench.tell(ConnectionMade(B))
    bench.hear(C, Startup(RequestId(1, 1)))
    assert not startup.is_armed
    bench.tell(ConnectionLost(B))
    bench.tell(ConnectionMade(B))
    bench.tell(ConnectionLost(B))
    bench.hear(C, Startup(RequestId(1, 2)))
    assert bench.sequencer().startup.is_armed
    assert bench.sequencer().observer.is_silent(B)


def test_contract_that_comes_into_memory_has_missed_no_return() -> None:
    bench = NodeBench(contracts=(), known=(contract(A, B, C),))
    bench.tell(ConnectionLost(B))
    bench.tell(ConnectionMade(B))
    bench.hear(C, Startup(RequestId(1, 1)))
    assert bench.sequencer().return_count == 1


def test_contract_that_said_it_has_no_ledger_says_that_it_is_back_though_nothing_is_under_way() -> None:
    bench = NodeBench(contracts=(contract(A, B), replace(contract(A, B), address=OTHER)))
    bench.tell(LedgerLost())
    bench.hear(B, Startup(RequestId(1, 1)))
    assert not bench.sequencer().is_awake
    bench.tell(LedgerBack())
    told = [sent.envelope for sent in bench.all(SendMessage) if isinstance(sent.envelope.body, Startup)]
    assert [(envelope.contract, envelope.no_ledger) for envelope in told][-1] == (ADDRESS, False)


def test_what_a_node_does_not_know_is_our_own_error() -> None:
    with pytest.raises(AssertionError, match="a node does not know BlockIndexed"):
        NodeBench().tell(BlockIndexed(1, GENESIS_S))


def test_graceful_stop_reaches_who_is_awake() -> None:
    bench = NodeBench(contracts=(contract(A, mode=Mode.STATIC), THEIRS))
    bench.submit("A-1")
    bench.settle(A1)
    bench.tell(StopRequested())
    assert bench.sequencer().coordinator.state is CoordinatorState.CLOSING
    assert bench.sequencer(OTHER).coordinator.state is CoordinatorState.IDLE


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
    bench = NodeBench(silent=(SignDispatch,))
    bench.submit("A-1")
    found = bench.node.explain(A1)
    assert (found.state, found.waits_for, found.who) == ("Ready_For_Dispatch", "its round to be dispatched", (A,))


def test_sender_explains_what_is_elsewhere() -> None:
    bench = NodeBench(contracts=(THEIRS, contract(B)))
    bench.submit("A-1")
    found = bench.node.explain(A1)
    assert (found.state, found.waits_for, found.who) == ("Pending", "its delegation to be accepted", (B,))


def test_what_is_final_is_explained_by_its_outcome() -> None:
    bench = NodeBench(contracts=(OURS, replace(contract(B), address=OTHER)))
    bench.submit("A-1")
    bench.settle(A1)
    bench.submit("A-2", OTHER)
    bench.tell(ForContract(OTHER, CancelRequested("user", A2)))
    bench.wait(CONFIG.heartbeat_ms)
    assert bench.node.explain(A1).state == "confirmed"
    assert bench.node.explain(A2).state == "reverted"


def test_what_nobody_knows_is_unknown() -> None:
    assert NodeBench().node.explain(A1).state == "unknown"


def test_receipt_is_an_outcome_in_the_step_that_records_it() -> None:
    bench = NodeBench(contracts=(contract(B), THEIRS))
    bench.submit("A-1")
    bench.submit("A-2", OTHER, depends_on=(A1,))
    effects = bench.node.step(0, ForContract(ADDRESS, CancelRequested("user", A1)))
    assert [record.receipt.intent for record in finalised_in(effects)] == [A1, A2]
    assert [effect.receipt.intent for effect in effects if isinstance(effect, ReportReceipt)] == [A1, A2]
    assert [bench.node.explain(each).state for each in (A1, A2)] == ["reverted", "reverted"]
    for each in (A1, A2):
        (record,) = [number for number, effect in enumerate(effects) if each in ended_by(effect)]
        (report,) = [number for number, effect in enumerate(effects) if each in reported_by(effect)]
        assert record < report, "a receipt is reported behind its record"


def finalised_in(effects: list[Effect]) -> list[IntentFinalised]:
    records = [record for effect in effects if isinstance(effect, Persist) for record in effect.records]
    return [record for record in records if isinstance(record, IntentFinalised)]


def ended_by(effect: Effect) -> list[IntentId]:
    return [record.receipt.intent for record in finalised_in([effect])]


def reported_by(effect: Effect) -> list[IntentId]:
    return [effect.receipt.intent] if isinstance(effect, ReportReceipt) else []


def test_receipt_that_a_crash_kept_from_the_disk_was_not_reported() -> None:
    bench = NodeBench(contracts=(contract(B),), crashes_before=(IntentFinalised,))
    bench.submit("A-1")
    bench.tell(ForContract(ADDRESS, CancelRequested("user", A1)))
    assert (bench.receipts(), bench.all(ReplyToUser)) == ([], [ReplyToUser("A-1", A1)])
    bench.restart()
    assert bench.sender_state(A1) is SenderSide.PENDING


def test_cancel_of_an_intent_whose_contract_is_loaded_does_not_free_its_key() -> None:
    bench = loading(key="once")
    (reply,) = bench.submit("A-1", key="once")
    bench.tell(ForContract(OTHER, CancelRequested("user", reply.intent)))
    bench.tell(bench.loaded(OTHER))
    assert bench.submit("A-1", key="once") == [ReplyToUser("A-1", A2)]


def test_what_has_ended_at_the_coordinator_is_explained_by_its_sender() -> None:
    bench = NodeBench(config=DEEP)
    bench.submit("A-1")
    bench.block((ADDRESS, outcome(A1)), mined=[mined(0)])
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
    assert bench.node.submitters.shared.submissions[0].submission_count == 1


def test_transaction_that_was_never_sent_has_no_age() -> None:
    bench = NodeBench(now_ms=1_000_000)
    dispatch_of_b(bench)
    bench.wait(CONFIG.heartbeat_ms)
    assert bench.said(SubmitterHeartbeat, B)[0].intents[0].submitted_age_ms == 0


# Signs of life.


@pytest.mark.parametrize(
    "body", [StateRequest((Leaf(bytes(32)),)), StateDistributionAcknowledgement(Digest(bytes(32)))]
)
def test_message_that_the_node_takes_is_a_sign_of_life_for_its_contract(body: Message) -> None:
    """Privacy groups in the simulator, seed 0: a coordinator that delivered states counted as silent."""
    bench = NodeBench(contracts=(contract(A, B, C),))
    bench.hear(B, CoordinatorHeartbeat(HeartbeatNumber(1, 1), CoordinatorState.ACTIVE, ()))
    bench.wait(CONFIG.silence_ms - 1)
    bench.hear(B, body)
    bench.wait(1)
    observer = bench.sequencer().observer
    assert not observer.is_silent(B)
    bench.wait(CONFIG.silence_ms)
    assert observer.is_silent(B)
    bench.hear(B, body)
    assert not observer.is_silent(B), "any message ends silence"


def test_message_that_the_node_takes_loads_no_contract() -> None:
    bench = NodeBench(contracts=(), known=(OURS,))
    bench.hear(B, StateRequest((Leaf(bytes(32)),)))
    assert ADDRESS not in bench.node.sequencers.loaded
