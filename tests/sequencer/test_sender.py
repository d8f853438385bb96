"""The sender: whom it delegates to, when it moves, and what it holds others to (protocol §4.3, §4.4, §5).

In all of this A sends, and at height 400 B leads, C follows, and A itself comes last.
"""

from __future__ import annotations

import pytest

from rota.machine.effects import IntentAccepted, Persist, ReplyToUser, ReportReceipt, SendMessage
from rota.machine.events import ConnectionLost, ConnectionMade, IntentSubmitted, StopRequested, Tick
from rota.model.blocks import LedgerOutcome, LedgerStatus
from rota.model.config import Config
from rota.model.types import (
    Contract,
    DelegationNumber,
    HeartbeatNumber,
    Mode,
    NodeName,
    Outcome,
    Receipt,
    RequestId,
    Rotation,
    Tried,
)
from rota.node.explanation import explain_at_sender
from rota.sequencer.coordinator_events import EndorserFollowsAnother
from rota.sequencer.effects import VerifySignature
from rota.sequencer.events import BlocksRemoved, LedgerBack, LedgerLost, OutcomesFinal, SignatureVerified
from rota.sequencer.sender import State
from rota.sequencer.sender_base import REDIRECTS_AT_ONCE_MAX
from rota.sequencer.sender_transaction import SenderTransaction
from rota.sequencer.sender_transaction import State as TransactionState
from rota.sequencer.sent_intent import Restored
from rota.sequencer.sequencer import StoredContract
from rota.wire.messages import (
    Answer,
    CoordinatorHeartbeat,
    CoordinatorState,
    Delegation,
    DelegationAccepted,
    DelegationCommand,
    DelegationRejected,
    DispatchConfirmationError,
    DispatchConfirmationRequest,
    DispatchConfirmationResponse,
    DispatchItem,
    ErrorCode,
    IntentAnswer,
    IntentError,
    ListedIntent,
    Rejection,
    Startup,
    StartupAcknowledgement,
    SubmittedIntent,
    TransactionDispatched,
    TransactionReverted,
)
from tests.sequencer.kit import (
    ADDRESS,
    GENESIS_S,
    A,
    B,
    Bench,
    C,
    D,
    contract,
    digest_of,
    intent,
    intent_id,
    permission_of,
    transition,
)

HEIGHT = 400
WHERE_A_LEADS = 300
WHERE_C_LEADS = 700
EMPTY = StoredContract()
DEFAULTS = Config()
ALL_THREE = contract()
WITHOUT_US = contract(B, C)
STRICT = contract(rotation=Rotation.STRICT)
NEVER = HeartbeatNumber(0, 0)


def bench_of_sender(
    *names: str,
    of: Contract = ALL_THREE,
    config: Config = DEFAULTS,
    stored: StoredContract = EMPTY,
    height: int = HEIGHT,
) -> Bench:
    """A's sequencer at a height where B leads, with these intents of its users; with a store it is its second life."""
    bench = Bench(of=of, config=config, stored=stored, incarnation=1 if stored is EMPTY else 2, height=height)
    bench.tell(Tick())
    for name in names:
        bench.submit(name)
    return bench


def accepted_bench(*names: str, of: Contract = ALL_THREE, config: Config = DEFAULTS) -> Bench:
    """B, which sends heartbeats, has accepted these intents one after the other."""
    bench = bench_of_sender(of=of, config=config)
    beat(bench, B, 1)
    for name in names:
        bench.submit(name)
        accept(bench, B, at=HeartbeatNumber(1, 1))
    bench.forget()
    return bench


def commands(bench: Bench, to: NodeName) -> list[DelegationCommand]:
    return bench.said(DelegationCommand, to)


def delegated_to(bench: Bench, to: NodeName) -> list[bytes]:
    """The intents of the latest command to a node."""
    return [delegation.intent.id for delegation in commands(bench, to)[-1].delegations]


def told(bench: Bench) -> list[NodeName]:
    """Who got commands, in order, repeats included."""
    return [
        effect.peer
        for effect in bench.effects
        if isinstance(effect, SendMessage) and isinstance(effect.envelope.body, DelegationCommand)
    ]


def accept(
    bench: Bench,
    peer: NodeName,
    answer: Answer = Answer.ACCEPTED,
    at: HeartbeatNumber = NEVER,
    reason: str = "",
    life: int = 1,
) -> None:
    """A node answers our open command, every intent alike."""
    command = bench.sequencer.sender.command
    assert command is not None
    answers = tuple(IntentAnswer(one, answer, reason) for one in command.intents)
    bench.hear(peer, DelegationAccepted(command.command_id, answers, at), height=HEIGHT, life=life)


def reject(
    bench: Bench,
    peer: NodeName,
    rejection: Rejection,
    active: NodeName | None = None,
    number: HeartbeatNumber = NEVER,
    observed_height: int = HEIGHT,
) -> None:
    """A node rejects our open command."""
    command = bench.sequencer.sender.command
    assert command is not None
    rejected = DelegationRejected(command.command_id, rejection, HEIGHT, observed_height, active, 0, number)
    bench.hear(peer, rejected, height=observed_height)


def redirect(bench: Bench, peer: NodeName, to: NodeName | None, number: HeartbeatNumber = NEVER) -> None:
    reject(bench, peer, Rejection.NOT_PREFERRED_COORDINATOR, to, number)


def beat(
    bench: Bench,
    peer: NodeName,
    sequence: int,
    *names: str,
    state: CoordinatorState = CoordinatorState.ACTIVE,
    successor: NodeName | None = None,
    life: int = 1,
) -> None:
    """A coordinator's heartbeat, which lists these intents of ours."""
    listed = tuple(ListedIntent(intent_id(name), "Pooled") for name in names)
    number = HeartbeatNumber(life, sequence)
    bench.hear(peer, CoordinatorHeartbeat(number, state, listed, successor), height=HEIGHT, life=life)


def timers_set(bench: Bench) -> list[str]:
    """What the sender itself waits for; the node's Startup notices are not its business."""
    timers, sender = bench.sequencer.context.timers, bench.sequencer.sender
    return [kind for kind in ("heartbeat", "repeat", "retry", "timeout") if timers.is_set(sender, kind)]


def doing(bench: Bench) -> State:
    """The sender's own state."""
    state = bench.sequencer.sender.state
    assert isinstance(state, State)
    return state


def transaction(bench: Bench, name: str) -> SenderTransaction:
    return bench.sequencer.sender.transactions[intent_id(name)]


def outcome(name: str, status: LedgerStatus = LedgerStatus.COMMITTED) -> LedgerOutcome:
    leaf = transition(name).leaf
    return LedgerOutcome(intent_id(name), leaf, digest_of(leaf), status, "input spent")


def confirm(bench: Bench, name: str) -> None:
    """The intent is on the chain for good."""
    bench.signed(transition(name))
    bench.block(HEIGHT + 1, outcome(name))
    bench.tell(OutcomesFinal(GENESIS_S, (outcome(name),)))


def restored(name: str, *, permitted_to: NodeName | None = None) -> StoredContract:
    """The store of a node that went down with this intent under way."""
    permission = None
    if permitted_to is not None:
        permission = permission_of(DelegationNumber(1, 1), permitted_to, transition(name))
    return StoredContract((Restored(intent(name), permission=permission),))


def permit(bench: Bench, name: str) -> None:
    """After a restart of ours the delegate asks for the leaf of before, and gets its permission."""
    made = transition(name)
    item = DispatchItem(intent_id(name), DelegationNumber(1, 1), made.leaf, made.signature, made.valid_until_s, made)
    machine = transaction(bench, name)
    assert machine.delegate is not None
    bench.hear(machine.delegate, DispatchConfirmationRequest(RequestId(1, 90), digest_of(made.leaf), (item,)))
    [asked] = bench.take(VerifySignature)
    bench.tell(SignatureVerified(asked.request_id, asked.intent, is_ours=True))
    bench.take(Persist)
    assert machine.state is TransactionState.PREPARED


# Intents come in.


def test_intent_is_recorded_answered_and_delegated_in_one_step_with_the_record_first() -> None:
    bench = bench_of_sender()
    bench.forget()
    effects = bench.tell(IntentSubmitted("user", intent("A-1")))
    assert effects[0] == Persist(ADDRESS, (IntentAccepted(intent("A-1")),))
    assert [each for each in effects if isinstance(each, Persist)] == effects[:1]
    assert ReplyToUser("user", intent_id("A-1")) in effects
    assert bench.take(ReplyToUser) == [ReplyToUser("user", intent_id("A-1"))]
    (command,) = commands(bench, B)
    assert command.delegations == (Delegation(intent("A-1").as_delegated(), DelegationNumber(1, 1)),)
    assert any(isinstance(each, SendMessage) and each.envelope.body == command for each in effects)


def test_first_intent_goes_to_the_leader_of_the_range_with_nobody_tried() -> None:
    bench = bench_of_sender("A-1")
    (command,) = commands(bench, B)
    assert command.tried == ()
    assert told(bench) == [B]
    assert doing(bench) is State.SENDING


def test_what_comes_while_a_command_is_open_makes_the_next_one_bigger() -> None:
    bench = bench_of_sender("A-1", "A-2", "A-3")
    assert len(commands(bench, B)) == 1
    accept(bench, B)
    assert delegated_to(bench, B) == [intent_id("A-2"), intent_id("A-3")]


def test_command_holds_no_more_than_its_limit_and_the_rest_follows_its_answer() -> None:
    bench = bench_of_sender("A-1", "A-2", "A-3", "A-4", config=Config(delegation_batch_max=2))
    accept(bench, B)
    assert delegated_to(bench, B) == [intent_id("A-2"), intent_id("A-3")]
    accept(bench, B)
    assert delegated_to(bench, B) == [intent_id("A-4")]


def test_intent_of_a_sender_mode_contract_is_coordinated_by_its_own_node() -> None:
    bench = bench_of_sender("A-1", of=contract(mode=Mode.SENDER))
    assert told(bench) == []
    assert transaction(bench, "A-1").delegate == A
    assert transaction(bench, "A-1").state is not TransactionState.PENDING


def test_intent_of_a_static_contract_goes_to_its_one_node() -> None:
    bench = bench_of_sender("A-1", of=contract(C, mode=Mode.STATIC))
    assert told(bench) == [C]


# A command is repeated until it is answered.


def test_command_is_repeated_word_for_word_every_quarter_of_a_second() -> None:
    bench = bench_of_sender("A-1")
    bench.wait(249)
    assert len(commands(bench, B)) == 1
    bench.wait(1)
    first, second = commands(bench, B)
    assert second == first
    bench.wait(250)
    assert len(commands(bench, B)) == 3


def test_accepted_command_is_not_repeated_and_its_intents_are_delegated() -> None:
    bench = bench_of_sender("A-1")
    accept(bench, B)
    bench.forget()
    assert transaction(bench, "A-1").state is TransactionState.DELEGATED
    bench.wait(700)
    assert told(bench) == []


def test_copy_of_an_answer_changes_nothing() -> None:
    bench = bench_of_sender("A-1")
    command = bench.sequencer.sender.command
    assert command is not None
    accept(bench, B)
    bench.forget()
    bench.hear(B, DelegationAccepted(command.command_id, (IntentAnswer(intent_id("A-1"), Answer.REJECTED),), NEVER))
    bench.hear(B, DelegationRejected(command.command_id, Rejection.NO_LEDGER))
    assert transaction(bench, "A-1").state is TransactionState.DELEGATED
    assert told(bench) == []


def test_rejected_command_is_not_repeated() -> None:
    bench = bench_of_sender("A-1", of=WITHOUT_US)
    reject(bench, B, Rejection.MISMATCHED_BLOCK_HEIGHT, observed_height=500)
    bench.forget()
    bench.wait(4_999)
    assert told(bench) == []


@pytest.mark.parametrize("peer", [B, C])
def test_answer_to_another_command_or_of_another_node_changes_nothing(peer: NodeName) -> None:
    bench = bench_of_sender("A-1")
    command = bench.sequencer.sender.command
    assert command is not None
    other = command.command_id if peer == C else RequestId(1, 999)
    bench.hear(peer, DelegationAccepted(other, (IntentAnswer(intent_id("A-1"), Answer.ACCEPTED),), NEVER))
    assert transaction(bench, "A-1").state is TransactionState.PENDING
    bench.hear(peer, DelegationRejected(other, Rejection.NO_LEDGER))
    bench.hear(peer, DelegationRejected(other, Rejection.MISMATCHED_BLOCK_HEIGHT, HEIGHT, 900))
    bench.hear(peer, DelegationRejected(other, Rejection.NOT_PREFERRED_COORDINATOR, active=C))
    assert told(bench) == [B]
    assert bench.sequencer.sender.command is command


def test_answer_for_an_intent_that_is_with_another_delegate_does_not_count() -> None:
    bench = bench_of_sender(stored=restored("A-1", permitted_to=B))
    accept(bench, B)
    permit(bench, "A-1")
    bench.tell(ConnectionLost(B))
    bench.submit("A-2")
    command = bench.sequencer.sender.command
    assert command is not None
    assert delegated_to(bench, C) == [intent_id("A-2")]
    answers = tuple(IntentAnswer(intent_id(name), Answer.REJECTED, "no") for name in ("A-1", "A-2", "A-9"))
    bench.hear(C, DelegationAccepted(command.command_id, answers, NEVER))
    assert transaction(bench, "A-1").state is TransactionState.PREPARED
    assert [transaction(bench, name).dropped_count for name in ("A-1", "A-2")] == [0, 1]


def test_repeated_command_leaves_out_what_has_ended_meanwhile() -> None:
    bench = bench_of_sender("A-0", "A-1", "A-2", "A-3")
    accept(bench, B)
    confirm(bench, "A-1")
    machine = transaction(bench, "A-2")
    bench.signed(transition("A-2"))
    bench.block(HEIGHT + 1, outcome("A-2"))
    assert machine.state is TransactionState.CONFIRMED
    bench.wait(250)
    assert delegated_to(bench, B) == [intent_id("A-3")]


# Whoever does not answer is unavailable.


def test_delegate_that_does_not_answer_in_time_is_unavailable_and_the_next_one_is_told_so() -> None:
    bench = bench_of_sender("A-1")
    bench.wait(999)
    assert commands(bench, C) == []
    bench.wait(1)
    (command,) = commands(bench, C)
    assert command.tried == (Tried(B, NEVER),)
    assert command.delegations[0].number == DelegationNumber(1, 2)


def test_tried_names_the_greatest_heartbeat_number_that_was_seen() -> None:
    bench = accepted_bench("A-1")
    beat(bench, B, 7, "A-1", life=3)
    bench.tell(ConnectionLost(B))
    assert commands(bench, C)[-1].tried == (Tried(B, HeartbeatNumber(3, 7)),)


def test_late_acceptance_makes_its_node_available_again() -> None:
    bench = bench_of_sender("A-1")
    command = bench.sequencer.sender.command
    assert command is not None
    bench.wait(1_000)
    assert not bench.sequencer.sender.is_available(B)
    bench.hear(B, DelegationAccepted(command.command_id, (IntentAnswer(intent_id("A-1"), Answer.ACCEPTED),), NEVER))
    assert bench.sequencer.sender.is_available(B)
    assert transaction(bench, "A-1").delegate == C, "whoever is late does not get it back by that"
    bench.wait(250)
    assert commands(bench, C)[-1].tried == ()


def test_tried_lists_neither_the_delegate_nor_whom_it_could_reach() -> None:
    bench = bench_of_sender("A-1", of=contract(A, B, C, D))
    leader, second, third, _ = bench.sequencer.context.ranking(4)
    bench.tell(ConnectionLost(leader))
    bench.tell(ConnectionLost(third))
    assert commands(bench, second)[-1].tried == (Tried(leader, NEVER),)
    bench.wait(250)
    assert commands(bench, second)[-1].tried == (Tried(leader, NEVER), Tried(third, NEVER))


def test_node_is_unavailable_for_its_time_to_live_and_no_longer() -> None:
    bench = bench_of_sender("A-1")
    bench.wait(1_000)
    accept(bench, C)
    confirm(bench, "A-1")
    bench.wait(59_999)
    bench.forget()
    bench.submit("A-2")
    assert told(bench) == [C]
    accept(bench, C)
    confirm(bench, "A-2")
    bench.wait(1)
    bench.submit("A-3")
    assert told(bench) == [C, B]


@pytest.mark.parametrize("sign", ["heartbeat", "startup", "connection"])
def test_node_that_is_heard_of_is_available_again(sign: str) -> None:
    bench = bench_of_sender("A-1")
    bench.wait(1_000)
    accept(bench, C)
    confirm(bench, "A-1")
    assert not bench.sequencer.sender.is_available(B)
    if sign == "heartbeat":
        beat(bench, B, 1, state=CoordinatorState.CLOSING)
    elif sign == "startup":
        bench.hear(B, Startup(RequestId(2, 1)), life=2)
    else:
        bench.tell(ConnectionMade(B))
    assert doing(bench) is State.IDLE
    bench.forget()
    bench.submit("A-2")
    assert told(bench) == [B]


def test_when_nobody_answers_the_walk_starts_again_from_the_first() -> None:
    bench = bench_of_sender("A-1", of=contract(B, C, rotation=Rotation.STRICT))
    bench.wait(2_000)
    assert bench.sequencer.sender.command is None
    explanation = explain_at_sender(bench.sequencer, intent_id("A-1"))
    assert explanation is not None
    assert explanation.waits_for == "its delegation to be accepted (no member of the committee can be reached)"
    bench.forget()
    bench.wait(749)
    assert told(bench) == []
    bench.wait(252)
    assert told(bench)[0] == B
    assert commands(bench, B)[0].tried == ()
    assert commands(bench, B)[0].delegations[0].number == DelegationNumber(1, 3)


def test_pauses_between_walks_grow_by_half_up_to_two_seconds() -> None:
    bench = bench_of_sender(of=WITHOUT_US)
    bench.tell(ConnectionLost(B))
    bench.tell(ConnectionLost(C))
    bench.submit("A-1")
    pauses = []
    for _ in range(5):
        since_ms = bench.now_ms
        while not told(bench):
            assert bench.now_ms < 60_000
            bench.wait(1)
        pauses.append(bench.now_ms - since_ms)
        bench.wait(1_000)
        assert set(told(bench)) == {B}
        bench.forget()
    for pause, most in zip(pauses, (1_000, 1_500, 2_000, 2_000, 2_000), strict=True):
        assert most * 3 // 4 <= pause <= most
    assert len(set(pauses[2:])) > 1, "no two senders are to walk in step"


def test_walk_begins_with_whom_there_is_a_connection_to() -> None:
    bench = bench_of_sender(of=WITHOUT_US)
    bench.tell(ConnectionLost(B))
    bench.hear(C, StartupAcknowledgement(RequestId(1, 1)), no_ledger=True)
    bench.submit("A-1")
    assert told(bench) == []
    bench.wait(1_000)
    assert set(told(bench)) == {C}


def test_sticky_walk_starts_again_from_the_first_when_nobody_answers() -> None:
    bench = bench_of_sender("A-1", of=WITHOUT_US)
    bench.wait(2_000)
    bench.forget()
    bench.wait(1_001)
    assert told(bench)[0] == B


def test_new_intents_do_not_hurry_a_walk_that_pauses() -> None:
    bench = bench_of_sender(of=WITHOUT_US)
    bench.tell(ConnectionLost(B))
    bench.tell(ConnectionLost(C))
    bench.submit("A-1")
    due_ms = bench.sequencer.next_deadline_ms()
    bench.wait(500)
    bench.submit("A-2")
    assert bench.sequencer.next_deadline_ms() == due_ms


def test_acceptance_makes_the_next_pause_short_again() -> None:
    bench = bench_of_sender("A-1", of=WITHOUT_US)
    for _ in range(6):
        redirect(bench, B, None)
        due_ms = bench.sequencer.next_deadline_ms()
        assert due_ms is not None
        bench.wait(due_ms - bench.now_ms)
    accept(bench, B)
    bench.submit("A-2")
    bench.forget()
    redirect(bench, B, None)
    bench.wait(250)
    assert told(bench) == [B]


# Heartbeats that are owed, and those that are not.


@pytest.mark.parametrize("of", [contract(B, mode=Mode.STATIC), WITHOUT_US])
def test_sender_without_intents_delegates_at_once_to_a_coordinator_that_it_has_not_heard_for_long(of: Contract) -> None:
    bench = accepted_bench("A-1", of=of)
    beat(bench, B, 2, "A-1")
    confirm(bench, "A-1")
    bench.wait(60_000)
    assert doing(bench) is State.IDLE
    bench.forget()
    bench.submit("A-2")
    assert told(bench) == [B]


def test_coordinator_that_holds_our_intent_and_goes_quiet_is_left() -> None:
    bench = accepted_bench("A-1", of=WITHOUT_US)
    beat(bench, B, 2, "A-1")
    bench.wait(DEFAULTS.silence_ms + 1)
    assert C in told(bench)


# Connections.


def test_lost_connection_moves_every_undispatched_intent_at_once() -> None:
    bench = accepted_bench("A-1", "A-2")
    bench.tell(ConnectionLost(B))
    assert delegated_to(bench, C) == [intent_id("A-1"), intent_id("A-2")]
    assert transaction(bench, "A-1").state is TransactionState.PENDING


def test_lost_connection_of_another_node_moves_nobody() -> None:
    bench = accepted_bench("A-1")
    bench.tell(ConnectionLost(C))
    assert told(bench) == []
    assert transaction(bench, "A-1").state is TransactionState.DELEGATED


def test_new_connection_is_used_at_once_when_nobody_could_be_reached() -> None:
    bench = bench_of_sender(of=WITHOUT_US)
    bench.tell(ConnectionLost(B))
    bench.tell(ConnectionLost(C))
    bench.submit("A-1")
    assert told(bench) == []
    bench.tell(ConnectionMade(C))
    assert told(bench) == [C]
    assert commands(bench, C)[0].tried == (Tried(B, NEVER),)


def test_own_ledger_that_is_back_makes_our_own_node_available_again() -> None:
    bench = bench_of_sender("A-1", of=contract(mode=Mode.SENDER), config=Config(delegation_backoff_max_ms=600_000))
    bench.tell(LedgerLost())
    bench.submit("A-2")
    assert transaction(bench, "A-2").state is TransactionState.PENDING
    assert transaction(bench, "A-2").delegate is None
    bench.sequencer.sender.unavailable[A] = 60_000
    bench.tell(LedgerBack())
    assert bench.sequencer.sender.is_available(A)


# Heartbeats and leases.


def test_what_its_user_asks_for_is_not_told_to_a_coordinator() -> None:
    bench = bench_of_sender()
    bench.submit("A-1", b"pay 5 to bob", idempotency_key="order 7")
    [told] = commands(bench, B)[0].delegations
    assert told.intent == intent("A-1", b"")


def test_overdue_heartbeat_makes_the_sender_delegate_again_to_the_same_node_with_the_same_number() -> None:
    bench = accepted_bench("A-1")
    bench.wait(749)
    assert told(bench) == []
    bench.wait(1)
    (command,) = commands(bench, B)
    assert command.delegations == (Delegation(intent("A-1").as_delegated(), DelegationNumber(1, 1)),)
    assert transaction(bench, "A-1").state is TransactionState.DELEGATED
    accept(bench, B, Answer.HELD)
    bench.forget()
    bench.wait(749)
    assert told(bench) == []


def test_heartbeat_in_time_makes_the_test_unnecessary() -> None:
    bench = accepted_bench("A-1")
    for sequence in range(2, 20):
        bench.wait(700)
        beat(bench, B, sequence, "A-1")
    assert told(bench) == []


def test_test_of_a_quiet_delegate_is_no_bigger_than_a_command() -> None:
    bench = accepted_bench("A-1", "A-2", "A-3", config=Config(delegation_batch_max=2))
    bench.wait(750)
    assert delegated_to(bench, B) == [intent_id("A-1"), intent_id("A-2")]


def test_open_command_is_test_enough_of_a_quiet_delegate() -> None:
    bench = accepted_bench("A-1")
    bench.wait(600)
    bench.submit("A-2")
    bench.forget()
    bench.wait(150)
    assert told(bench) == []
    bench.wait(100)
    assert delegated_to(bench, B) == [intent_id("A-2")]


def test_silent_delegate_is_left_when_its_heartbeats_are_missing() -> None:
    bench = accepted_bench("A-1")
    bench.wait(1_499)
    assert commands(bench, C) == []
    bench.wait(1)
    (command,) = commands(bench, C)
    assert command.tried == (Tried(B, HeartbeatNumber(1, 1)),)
    assert command.delegations[0].number == DelegationNumber(1, 2)


def test_delegate_that_never_sent_a_heartbeat_is_left_when_the_test_times_out() -> None:
    bench = bench_of_sender("A-1")
    accept(bench, B)
    bench.forget()
    bench.wait(750 + 999)
    assert set(told(bench)) == {B}
    bench.wait(1)
    assert told(bench)[-1] == C


def test_delegate_that_came_back_with_a_new_life_gets_a_new_number() -> None:
    bench = accepted_bench("A-1")
    beat(bench, B, 1, "A-1", life=2)
    bench.wait(750)
    assert commands(bench, B)[-1].delegations[0].number == DelegationNumber(1, 2)


def test_life_of_the_delegate_that_counts_is_the_one_that_accepted() -> None:
    bench = bench_of_sender("A-1")
    accept(bench, B)
    bench.forget()
    beat(bench, B, 1, "A-1", life=2)
    bench.wait(750)
    assert commands(bench, B)[-1].delegations[0].number == DelegationNumber(1, 2)


def test_newer_heartbeat_that_lacks_an_intent_makes_it_delegated_again_with_the_same_number() -> None:
    bench = accepted_bench("A-1", "A-2")
    beat(bench, B, 2, "A-2")
    assert transaction(bench, "A-1").state is TransactionState.PENDING
    assert transaction(bench, "A-2").state is TransactionState.DELEGATED
    assert commands(bench, B)[-1].delegations == (Delegation(intent("A-1").as_delegated(), DelegationNumber(1, 1)),)


def test_heartbeat_of_before_the_acceptance_need_not_list_the_intent() -> None:
    bench = bench_of_sender("A-1")
    accept(bench, B, at=HeartbeatNumber(1, 5))
    bench.forget()
    beat(bench, B, 5)
    assert transaction(bench, "A-1").state is TransactionState.DELEGATED
    beat(bench, B, 6)
    assert transaction(bench, "A-1").state is TransactionState.PENDING


def test_repeated_heartbeat_changes_nothing() -> None:
    bench = accepted_bench("A-1")
    beat(bench, B, 3, "A-1")
    beat(bench, B, 3)
    beat(bench, B, 2)
    assert transaction(bench, "A-1").state is TransactionState.DELEGATED


def test_heartbeat_says_nothing_of_what_is_with_another_delegate() -> None:
    bench = bench_of_sender(stored=restored("A-1", permitted_to=B))
    accept(bench, B)
    permit(bench, "A-1")
    bench.tell(ConnectionLost(B))
    bench.submit("A-2")
    reject(bench, C, Rejection.MISMATCHED_BLOCK_HEIGHT, observed_height=500)
    bench.block(HEIGHT + 1, outcome("A-1", LedgerStatus.SKIPPED))
    assert transaction(bench, "A-1").state is TransactionState.DELEGATED
    beat(bench, C, 1)
    assert transaction(bench, "A-1").state is TransactionState.DELEGATED


def test_lease_that_nothing_renews_runs_out() -> None:
    bench = bench_of_sender("A-1")
    accept(bench, B, at=HeartbeatNumber(1, 50))
    bench.forget()
    for sequence in range(1, 6):
        bench.wait(250)
        beat(bench, B, sequence)
        beat(bench, C, sequence, "A-1")
    bench.wait(249)
    assert told(bench) == []
    beat(bench, B, 6)
    bench.wait(800)
    assert told(bench)[0] == B
    assert "lease" in transaction(bench, "A-1").reason


def test_heartbeat_that_lists_an_intent_renews_its_lease() -> None:
    bench = bench_of_sender("A-1")
    accept(bench, B, at=HeartbeatNumber(1, 50))
    bench.forget()
    for sequence in range(1, 20):
        bench.wait(250)
        beat(bench, B, sequence, "A-1")
    assert told(bench) == []
    assert transaction(bench, "A-1").state is TransactionState.DELEGATED


def test_our_own_coordinator_is_a_delegate_too_and_is_never_overdue() -> None:
    bench = bench_of_sender("A-1", height=WHERE_A_LEADS, of=contract(A))
    assert transaction(bench, "A-1").delegate == A
    assert transaction(bench, "A-1").state is not TransactionState.PENDING
    number = transaction(bench, "A-1").number
    bench.wait(20_000)
    assert transaction(bench, "A-1").state is not TransactionState.PENDING
    assert transaction(bench, "A-1").number == number


# Which coordinator.


def test_sticky_sender_follows_the_live_coordinator_whoever_leads_the_range() -> None:
    bench = bench_of_sender()
    beat(bench, C, 1)
    bench.submit("A-1")
    assert told(bench) == [C]


def test_strict_sender_delegates_to_the_leader_whoever_is_live() -> None:
    bench = bench_of_sender(of=STRICT)
    beat(bench, C, 1)
    bench.submit("A-1")
    assert told(bench) == [B]


def test_sticky_sender_moves_to_a_live_one_that_outranks_its_delegate() -> None:
    bench = bench_of_sender()
    beat(bench, C, 1)
    bench.submit("A-1")
    accept(bench, C)
    beat(bench, B, 1)
    assert told(bench) == [C, B]
    assert commands(bench, B)[0].delegations[0].number == DelegationNumber(1, 2)


def test_sticky_sender_stays_when_one_of_lower_rank_is_live() -> None:
    bench = accepted_bench("A-1")
    beat(bench, C, 1, "A-1")
    assert told(bench) == []
    assert transaction(bench, "A-1").delegate == B


@pytest.mark.parametrize("state", [CoordinatorState.FLUSH, CoordinatorState.CLOSING])
def test_delegate_that_closes_is_left_for_the_successor_that_it_names(state: CoordinatorState) -> None:
    bench = bench_of_sender(of=contract(A, B, C, D))
    beat(bench, B, 1)
    bench.submit("A-1")
    beat(bench, B, 2, state=state, successor=C)
    assert bench.sequencer.context.ranking(4)[0] == D, "it is not by its rank that the successor is chosen"
    assert told(bench) == [B, C]
    assert delegated_to(bench, C) == [intent_id("A-1")]


def test_delegate_is_not_left_for_the_successor_that_it_named_before_it_was_chosen() -> None:
    """`rota simulate --seed 40055 --minutes 0.5`: the sender delegated to two nodes at once, and both were active."""
    bench = bench_of_sender()
    beat(bench, B, 1, state=CoordinatorState.CLOSING, successor=C)
    bench.submit("A-1")
    bench.submit("A-2")
    assert told(bench) == [B]
    beat(bench, B, 2, state=CoordinatorState.CLOSING, successor=C)
    assert told(bench) == [B, C], "now it leaves"


def test_successor_keeps_what_the_closing_delegate_had_accepted() -> None:
    bench = accepted_bench("A-1", "A-2", of=contract(A, B, C, D))
    beat(bench, B, 2, "A-1", "A-2", state=CoordinatorState.CLOSING, successor=C)
    assert told(bench) == [C]
    assert delegated_to(bench, C) == [intent_id("A-1"), intent_id("A-2")]


def test_successor_that_cannot_be_reached_is_not_followed() -> None:
    bench = accepted_bench("A-1", of=contract(A, B, C, D))
    bench.tell(ConnectionLost(C))
    beat(bench, B, 2, "A-1", state=CoordinatorState.CLOSING, successor=C)
    assert told(bench) == [D]


def test_delegate_that_closes_without_a_successor_is_judged_by_the_ranking() -> None:
    bench = accepted_bench("A-1", of=contract(A, B, C, D))
    beat(bench, B, 2, "A-1", state=CoordinatorState.CLOSING)
    assert told(bench) == [D]


def test_leader_that_closes_without_a_successor_keeps_what_it_has() -> None:
    bench = accepted_bench("A-1")
    beat(bench, B, 2, state=CoordinatorState.CLOSING)
    assert told(bench) == []
    assert transaction(bench, "A-1").state is TransactionState.DELEGATED


def test_strict_sender_delegates_to_the_new_leader_when_the_range_changes() -> None:
    bench = accepted_bench("A-1", of=STRICT)
    bench.block(HEIGHT + 1)
    assert told(bench) == []
    bench.block(WHERE_C_LEADS)
    assert told(bench) == [C]
    assert commands(bench, C)[0].delegations[0].number == DelegationNumber(1, 2)


def test_sticky_sender_stays_where_it_is_when_the_range_changes() -> None:
    bench = accepted_bench("A-1")
    bench.block(WHERE_C_LEADS)
    assert told(bench) == []


def test_startup_of_the_leader_makes_a_strict_sender_move_to_it() -> None:
    bench = bench_of_sender("A-1", of=STRICT)
    bench.wait(1_000)
    accept(bench, C)
    bench.forget()
    bench.hear(B, Startup(RequestId(2, 1)), height=HEIGHT, life=2)
    assert bench.said(StartupAcknowledgement, B) == [StartupAcknowledgement(RequestId(2, 1))]
    assert told(bench) == [B]
    assert commands(bench, B)[0].tried == ()


def test_startup_of_the_leader_leaves_a_sticky_sender_where_it_is() -> None:
    bench = bench_of_sender("A-1")
    bench.wait(1_000)
    accept(bench, C)
    beat(bench, C, 1, "A-1")
    bench.forget()
    bench.hear(B, Startup(RequestId(2, 1)), height=HEIGHT, life=2)
    beat(bench, C, 2, "A-1")
    assert told(bench) == []
    assert bench.sequencer.sender.is_available(B)


def test_coordinator_that_stops_moves_its_own_sender_at_once_to_the_successor() -> None:
    bench = bench_of_sender("A-1", height=WHERE_A_LEADS)
    assert transaction(bench, "A-1").delegate == A
    bench.tell(StopRequested())
    assert told(bench) == [C]
    assert delegated_to(bench, C) == [intent_id("A-1")]


def test_sender_does_not_choose_its_own_node_while_that_has_stepped_down() -> None:
    bench = bench_of_sender("A-1", height=WHERE_A_LEADS)
    bench.tell(ConnectionLost(C))
    bench.sequencer.coordinator.handle(EndorserFollowsAnother(B, C))
    bench.tell(Tick())
    assert told(bench) == [B]
    assert commands(bench, B)[0].tried == (Tried(A, bench.sequencer.coordinator.number), Tried(C, NEVER))
    bench.wait(9_999)
    assert not bench.sequencer.sender.is_available(A)
    bench.wait(1)
    assert bench.sequencer.sender.is_available(A)


# Rejections.


def test_redirect_is_followed_with_a_new_number() -> None:
    bench = bench_of_sender("A-1")
    redirect(bench, B, C, HeartbeatNumber(1, 3))
    (command,) = commands(bench, C)
    assert command.delegations[0].number == DelegationNumber(1, 2)
    assert command.tried == ()


def test_redirect_that_was_followed_is_kept_when_the_next_intent_comes() -> None:
    bench = bench_of_sender("A-1")
    redirect(bench, B, C, HeartbeatNumber(1, 3))
    accept(bench, C)
    bench.submit("A-2")
    assert told(bench) == [B, C, C]
    assert delegated_to(bench, C) == [intent_id("A-2")]


def test_what_a_redirect_told_of_a_node_is_listed_when_that_node_does_not_answer() -> None:
    bench = bench_of_sender("A-1")
    redirect(bench, B, C, HeartbeatNumber(1, 3))
    bench.forget()
    bench.wait(1_000)
    assert commands(bench, B)[0].tried == (Tried(C, HeartbeatNumber(1, 3)),)


def test_redirect_to_an_unavailable_node_is_followed_only_with_a_greater_heartbeat_number() -> None:
    bench = bench_of_sender("A-1")
    redirect(bench, B, C, HeartbeatNumber(1, 3))
    bench.wait(1_000)
    bench.forget()
    redirect(bench, B, C, HeartbeatNumber(1, 3))
    assert told(bench) == []
    bench.wait(250)
    assert told(bench) == [B]
    redirect(bench, B, C, HeartbeatNumber(1, 4))
    assert told(bench) == [B, C]


def test_redirect_to_a_silent_node_is_followed_only_if_more_is_known_of_it_than_here() -> None:
    bench = bench_of_sender()
    beat(bench, C, 8, state=CoordinatorState.CLOSING)
    bench.tell(ConnectionLost(C))
    bench.submit("A-1")
    bench.forget()
    redirect(bench, B, C, HeartbeatNumber(1, 8))
    assert told(bench) == []
    bench.wait(250)
    redirect(bench, B, C, HeartbeatNumber(1, 9))
    assert told(bench) == [B, C]
    assert commands(bench, C)[0].tried == (), "who is asked is not listed, whatever we think of it"


def test_members_that_name_one_another_get_a_bounded_number_of_delegations() -> None:
    bench = bench_of_sender("A-1")
    for _ in range(50):
        asked = told(bench)[-1]
        if bench.sequencer.sender.command is not None:
            redirect(bench, asked, C if asked == B else B)
        bench.wait(1)
    assert len(told(bench)) == 1 + REDIRECTS_AT_ONCE_MAX
    bench.wait(250)
    assert len(told(bench)) == 2 + REDIRECTS_AT_ONCE_MAX, "and then it goes on"


@pytest.mark.parametrize("named", [None, B, D])
def test_redirect_to_nobody_to_its_author_or_to_a_stranger_is_tried_again_later(named: NodeName | None) -> None:
    bench = bench_of_sender("A-1")
    bench.forget()
    redirect(bench, B, named, HeartbeatNumber(9, 9))
    assert told(bench) == []
    bench.wait(187)
    assert told(bench) == []
    bench.wait(63)
    assert told(bench) == [B]
    assert commands(bench, B)[0].delegations[0].number == DelegationNumber(1, 1)


def test_sender_that_is_behind_waits_until_its_index_is_there() -> None:
    bench = bench_of_sender("A-1")
    reject(bench, B, Rejection.MISMATCHED_BLOCK_HEIGHT, observed_height=500)
    bench.submit("A-2")
    bench.forget()
    bench.wait(4_999)
    bench.block(499)
    assert told(bench) == []
    explanation = explain_at_sender(bench.sequencer, intent_id("A-1"))
    assert explanation is not None
    assert explanation.waits_for == "its delegation to be accepted (our index must reach height 500)"
    bench.block(500)
    assert delegated_to(bench, B) == [intent_id("A-1"), intent_id("A-2")]
    bench.forget()
    bench.wait(250)
    bench.block(501)
    assert told(bench) == [B], "the range is awaited no longer"


def test_delegate_that_is_behind_is_asked_again_after_growing_pauses() -> None:
    bench = bench_of_sender("A-1")
    pauses = []
    for _ in range(3):
        reject(bench, B, Rejection.MISMATCHED_BLOCK_HEIGHT, observed_height=399)
        since_ms = bench.now_ms
        bench.forget()
        while not told(bench):
            bench.wait(1)
        pauses.append(bench.now_ms - since_ms)
    assert told(bench) == [B]
    for pause, most in zip(pauses, (250, 375, 562), strict=True):
        assert most * 3 // 4 <= pause <= most


def test_delegate_that_stays_behind_for_twice_the_timeout_counts_as_tried() -> None:
    bench = bench_of_sender("A-1")
    while not commands(bench, C):
        assert bench.now_ms < 10_000
        if bench.sequencer.sender.command is not None:
            reject(bench, B, Rejection.MISMATCHED_BLOCK_HEIGHT, observed_height=399)
        if not commands(bench, C):
            bench.wait(10)
    assert 2_000 <= bench.now_ms < 4_000
    assert commands(bench, C)[0].tried == (Tried(B, NEVER),)
    assert not bench.sequencer.sender.is_available(B)


def test_delegate_that_was_behind_once_is_given_its_time_again_after_it_accepted() -> None:
    bench = bench_of_sender("A-1")
    reject(bench, B, Rejection.MISMATCHED_BLOCK_HEIGHT, observed_height=399)
    bench.wait(250)
    accept(bench, B)
    for sequence in range(1, 10):
        bench.wait(500)
        beat(bench, B, sequence, "A-1")
    bench.submit("A-2")
    bench.forget()
    reject(bench, B, Rejection.MISMATCHED_BLOCK_HEIGHT, observed_height=399)
    bench.wait(250)
    assert told(bench) == [B]


def test_next_delegate_that_is_behind_has_a_time_of_its_own() -> None:
    bench = bench_of_sender("A-1", of=WITHOUT_US, config=Config(delegation_timeout_ms=100))
    reject(bench, B, Rejection.MISMATCHED_BLOCK_HEIGHT, observed_height=399)
    bench.wait(250)
    bench.tell(ConnectionLost(B))
    bench.forget()
    reject(bench, C, Rejection.MISMATCHED_BLOCK_HEIGHT, observed_height=399)
    assert bench.sequencer.sender.is_available(C)


def test_delegate_without_a_ledger_counts_as_tried() -> None:
    bench = bench_of_sender("A-1")
    reject(bench, B, Rejection.NO_LEDGER)
    assert commands(bench, C)[0].tried == (Tried(B, NEVER),)


def test_delegate_that_does_not_allow_it_is_asked_again_later() -> None:
    bench = bench_of_sender("A-1")
    reject(bench, B, Rejection.NOT_ALLOWED)
    bench.forget()
    bench.wait(250)
    assert told(bench) == [B]
    explanation = explain_at_sender(bench.sequencer, intent_id("A-1"))
    assert explanation is not None
    assert explanation.waits_for == "its delegation to be accepted (B answered NotAllowed)"


def test_new_intents_do_not_hurry_a_delegate_that_is_to_be_asked_again_later() -> None:
    bench = bench_of_sender("A-1")
    reject(bench, B, Rejection.NOT_ALLOWED)
    bench.forget()
    bench.submit("A-2")
    assert told(bench) == []
    bench.wait(250)
    assert delegated_to(bench, B) == [intent_id("A-1"), intent_id("A-2")]


def test_explanation_forgets_a_rejection_once_the_delegate_accepts() -> None:
    bench = bench_of_sender("A-1")
    reject(bench, B, Rejection.NOT_ALLOWED)
    bench.wait(250)
    bench.submit("A-2")
    accept(bench, B)
    explanation = explain_at_sender(bench.sequencer, intent_id("A-2"))
    assert explanation is not None
    assert explanation.waits_for == "its delegation to be accepted"


# Answers per intent.


def test_what_the_delegate_has_no_room_for_is_offered_again_at_its_next_heartbeat() -> None:
    bench = bench_of_sender("A-1", "A-2", "A-3")
    accept(bench, B)
    command = bench.sequencer.sender.command
    assert command is not None
    answers = (IntentAnswer(intent_id("A-2"), Answer.ACCEPTED), IntentAnswer(intent_id("A-3"), Answer.FULL))
    bench.hear(B, DelegationAccepted(command.command_id, answers, NEVER))
    assert transaction(bench, "A-2").state is TransactionState.DELEGATED
    assert transaction(bench, "A-3").state is TransactionState.PENDING
    explanation = explain_at_sender(bench.sequencer, intent_id("A-3"))
    assert explanation is not None
    assert explanation.waits_for == "its delegation to be accepted (B has no room for more)"
    bench.submit("A-4")
    bench.forget()
    bench.wait(300)
    assert told(bench) == []
    beat(bench, B, 1, "A-1", "A-2")
    assert delegated_to(bench, B) == [intent_id("A-3"), intent_id("A-4")]


def test_delegate_without_room_that_has_nothing_of_ours_to_list_is_asked_again_in_a_while() -> None:
    """Outside the committee it sends us heartbeats only while it holds an intent of ours."""
    bench = bench_of_sender("A-1", of=WITHOUT_US)
    accept(bench, B, Answer.FULL)
    bench.forget()
    bench.wait(999)
    assert told(bench) == []
    bench.wait(1)
    assert delegated_to(bench, B) == [intent_id("A-1")]


def test_room_at_another_delegate_is_not_doubted() -> None:
    bench = bench_of_sender("A-1", "A-2")
    accept(bench, B)
    accept(bench, B, Answer.FULL)
    bench.tell(ConnectionLost(B))
    assert set(delegated_to(bench, C)) == {intent_id("A-1"), intent_id("A-2")}


@pytest.mark.parametrize("answer", [Answer.DISPATCHED, Answer.CONFIRMED])
def test_intent_that_the_delegate_has_dispatched_is_held_for_its_submitter(answer: Answer) -> None:
    bench = bench_of_sender(stored=restored("A-1", permitted_to=B))
    accept(bench, B, answer)
    assert transaction(bench, "A-1").state is TransactionState.DISPATCHED
    bench.forget()
    bench.wait(3_999)
    assert told(bench) == []


def test_dispatched_means_nothing_for_an_intent_that_was_never_permitted() -> None:
    bench = bench_of_sender("A-1")
    accept(bench, B, Answer.DISPATCHED)
    assert transaction(bench, "A-1").state is TransactionState.DELEGATED


# Idle, Observing, Sending.


def test_idle_sender_observes_a_live_coordinator_and_no_other() -> None:
    bench = bench_of_sender()
    beat(bench, B, 1, state=CoordinatorState.CLOSING)
    assert doing(bench) is State.IDLE
    beat(bench, B, 2)
    assert doing(bench) is State.OBSERVING


def test_observing_sender_is_idle_when_the_heartbeats_stop() -> None:
    bench = bench_of_sender()
    beat(bench, B, 1)
    bench.wait(1_000)
    beat(bench, B, 2)
    bench.wait(1_500)
    assert doing(bench) is State.OBSERVING
    bench.wait(1)
    assert doing(bench) is State.IDLE


def test_observing_sender_goes_on_while_anything_is_heard_of_the_coordinator() -> None:
    bench = bench_of_sender()
    beat(bench, B, 1)
    bench.wait(100)
    beat(bench, B, 2)
    bench.wait(900)
    bench.hear(B, StartupAcknowledgement(RequestId(1, 1)))
    bench.wait(601)
    assert doing(bench) is State.OBSERVING
    bench.wait(3_000)
    assert doing(bench) is State.IDLE


def test_observing_sender_is_idle_when_the_coordinator_has_closed() -> None:
    bench = bench_of_sender()
    beat(bench, B, 1)
    beat(bench, B, 2, state=CoordinatorState.CLOSING)
    bench.wait(1_501)
    assert doing(bench) is State.IDLE


def test_sender_with_nothing_left_rests_and_sets_no_timers() -> None:
    bench = bench_of_sender("A-1")
    accept(bench, B)
    bench.submit("A-2")
    confirm(bench, "A-1")
    assert doing(bench) is State.SENDING
    confirm(bench, "A-2")
    assert doing(bench) is State.IDLE
    assert bench.sequencer.sender.delegate is None
    assert timers_set(bench) == []


def test_sender_rests_when_all_that_is_left_ends_in_one_block() -> None:
    bench = bench_of_sender("A-1")
    accept(bench, B)
    bench.submit("A-2")
    bench.signed(transition("A-1"), transition("A-2"))
    bench.block(HEIGHT + 1, outcome("A-1"), outcome("A-2"))
    assert doing(bench) is State.IDLE


def test_sender_with_nothing_left_observes_the_coordinator_that_is_live() -> None:
    bench = accepted_bench("A-1")
    confirm(bench, "A-1")
    assert doing(bench) is State.OBSERVING
    bench.wait(1_501)
    assert doing(bench) is State.IDLE


def test_sender_at_rest_ends_its_retries() -> None:
    bench = bench_of_sender("A-1", of=WITHOUT_US)
    redirect(bench, B, None)
    assert timers_set(bench) == ["retry"]
    confirm(bench, "A-1")
    assert timers_set(bench) == []


def test_sender_that_rested_chooses_anew() -> None:
    bench = accepted_bench("A-1", of=STRICT)
    confirm(bench, "A-1")
    bench.block(WHERE_C_LEADS)
    assert told(bench) == []
    bench.submit("A-2")
    assert told(bench) == [C]


# Permission requests, dispatches and outcomes reach the intents that they are for.


def test_permission_for_an_unknown_intent_is_refused() -> None:
    bench = bench_of_sender()
    made = transition("A-9")
    item = DispatchItem(made.intent, DelegationNumber(1, 1), made.leaf, made.signature, made.valid_until_s)
    bench.hear(B, DispatchConfirmationRequest(RequestId(1, 5), digest_of(made.leaf), (item,)))
    error = IntentError(intent_id("A-9"), ErrorCode.UNKNOWN_INTENT)
    assert bench.said(DispatchConfirmationError, B) == [DispatchConfirmationError(RequestId(1, 5), (error,))]
    assert bench.said(DispatchConfirmationResponse) == []


def test_answers_to_one_request_travel_together_and_those_to_another_apart() -> None:
    bench = bench_of_sender()
    for counter, names in ((5, ("A-8", "A-9")), (6, ("A-7",))):
        made = [transition(name) for name in names]
        items = tuple(
            DispatchItem(one.intent, DelegationNumber(1, 1), one.leaf, one.signature, one.valid_until_s) for one in made
        )
        bench.hear(B, DispatchConfirmationRequest(RequestId(1, counter), digest_of(made[0].leaf), items))
    errors = [[error.intent for error in message.errors] for message in bench.said(DispatchConfirmationError, B)]
    assert errors == [[intent_id("A-8"), intent_id("A-9")], [intent_id("A-7")]]


def test_dispatch_counts_only_when_the_permitted_delegate_tells_of_it() -> None:
    bench = bench_of_sender(stored=restored("A-1", permitted_to=B))
    leaf = transition("A-1").leaf
    listed = (
        SubmittedIntent(intent_id("A-1"), leaf, "0xb", 7, 0),
        SubmittedIntent(intent_id("A-9"), leaf, "0xb", 7, 0),
    )
    bench.hear(C, TransactionDispatched(digest_of(leaf), listed))
    assert transaction(bench, "A-1").state is TransactionState.PENDING
    bench.hear(B, TransactionDispatched(digest_of(leaf), listed))
    assert transaction(bench, "A-1").state is TransactionState.SEQUENCED
    assert transaction(bench, "A-1").signer_and_nonce == ("0xb", 7)
    states = [state for _, state in transaction(bench, "A-1").history]
    assert states == [TransactionState.PENDING, TransactionState.DISPATCHED, TransactionState.SEQUENCED]


def test_intent_without_permission_is_not_taken_for_dispatched() -> None:
    bench = bench_of_sender("A-1")
    accept(bench, B)
    leaf = transition("A-1").leaf
    bench.hear(B, TransactionDispatched(digest_of(leaf), (SubmittedIntent(intent_id("A-1"), leaf, "0xb", 7, 1),)))
    assert transaction(bench, "A-1").state is TransactionState.DELEGATED


@pytest.mark.parametrize(("peer", "counter"), [(C, 1), (B, 0), (B, 2)])
def test_intent_is_given_up_by_nobody_but_its_delegate_under_its_number(peer: NodeName, counter: int) -> None:
    bench = accepted_bench("A-1")
    leaf = transition("A-1").leaf
    bench.hear(peer, TransactionReverted(intent_id("A-1"), DelegationNumber(1, counter), leaf, "no"))
    bench.hear(B, TransactionReverted(intent_id("A-9"), DelegationNumber(1, 1), leaf, "no"))
    assert transaction(bench, "A-1").state is TransactionState.DELEGATED
    bench.hear(B, TransactionReverted(intent_id("A-1"), DelegationNumber(1, 1), leaf, "no"))
    assert transaction(bench, "A-1").state is TransactionState.PENDING


def test_outcomes_of_others_change_nothing_here() -> None:
    bench = accepted_bench("A-1")
    foreign = outcome("B-1")
    bench.block(HEIGHT + 1, foreign, outcome("B-2", LedgerStatus.SKIPPED))
    bench.tell(OutcomesFinal(GENESIS_S, (foreign,)))
    bench.tell(BlocksRemoved(HEIGHT, (foreign,)))
    assert transaction(bench, "A-1").state is TransactionState.DELEGATED
    assert bench.take(ReportReceipt) == []


@pytest.mark.parametrize("status", [LedgerStatus.SKIPPED, LedgerStatus.REVERTED])
def test_only_a_committed_outcome_is_undone_or_becomes_final(status: LedgerStatus) -> None:
    bench = accepted_bench("A-1")
    bench.signed(transition("A-1"))
    bench.block(HEIGHT + 1, outcome("A-1"))
    bench.tell(OutcomesFinal(GENESIS_S, (outcome("A-1", status),)))
    bench.tell(BlocksRemoved(HEIGHT, (outcome("A-1", status),)))
    assert transaction(bench, "A-1").state is TransactionState.CONFIRMED


def test_what_the_ledger_skipped_at_an_earlier_delegate_comes_to_the_current_one_with_its_count() -> None:
    bench = bench_of_sender(stored=restored("A-1", permitted_to=B))
    accept(bench, B)
    permit(bench, "A-1")
    bench.tell(ConnectionLost(B))
    bench.submit("A-2")
    accept(bench, C)
    bench.forget()
    bench.block(HEIGHT + 1, outcome("A-1", LedgerStatus.SKIPPED))
    (command,) = commands(bench, C)
    assert command.delegations == (Delegation(intent("A-1").as_delegated(), DelegationNumber(2, 2), revert_count=1),)


def test_restarted_sender_delegates_what_it_finds_in_its_store_with_a_number_of_its_new_life() -> None:
    bench = bench_of_sender(stored=restored("A-1"))
    assert commands(bench, B)[0].delegations[0].number == DelegationNumber(2, 1)


def test_end_of_an_intent_of_another_contract_reaches_its_dependents_and_no_other_intent() -> None:
    bench = bench_of_sender()
    bench.submit("A-2", depends_on=(intent_id("X-1"),))
    bench.submit("A-3", depends_on=(intent_id("X-2"),))
    assert told(bench) == []
    bench.sequencer.sender.dependency_ended(intent_id("X-1"), Outcome.CONFIRMED)
    bench.tell(Tick())
    assert delegated_to(bench, B) == [intent_id("A-2")]
    dependent = transaction(bench, "A-3")
    bench.sequencer.sender.dependency_ended(intent_id("X-2"), Outcome.REVERTED)
    assert dependent.state is TransactionState.REVERTED
    assert transaction(bench, "A-2").state is TransactionState.PENDING
    bench.tell(Tick())
    receipt = Receipt(intent_id("A-3"), Outcome.REVERTED, f"depends on {intent_id('X-2').hex()}, which was reverted")
    assert bench.take(ReportReceipt) == [ReportReceipt(receipt)]
    assert list(bench.sequencer.sender.transactions) == [intent_id("A-2")]


def test_delegate_that_has_room_again_is_not_asked_on_a_timer() -> None:
    bench = bench_of_sender("A-1", of=WITHOUT_US)
    accept(bench, B, Answer.FULL)
    timers, sender = bench.sequencer.context.timers, bench.sequencer.sender
    assert timers.is_set(sender, "room")
    beat(bench, B, 1, "A-1")
    assert not sender.is_full
    assert not timers.is_set(sender, "room")
