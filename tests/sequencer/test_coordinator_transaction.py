"""An intent at its coordinator: every way forward, back and out, and what changes nothing (protocol §4.2)."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from rota.machine.effects import DispatchRound, Effect, SendMessage
from rota.machine.events import ConnectionLost, ConnectionMade
from rota.machine.tables import Event
from rota.model.blocks import LedgerOutcome, LedgerStatus
from rota.model.config import Config
from rota.model.types import DelegationNumber, Digest, Leaf, Transition
from rota.node.explanation import explain_at_coordinator
from rota.sequencer.coordinator_transaction import TABLE
from rota.sequencer.coordinator_transaction_events import (
    Abandoned,
    AssembleTimeout,
    Collected,
    ConfirmationUndone,
    DependencyReady,
    DependencyReverted,
    DispatchConfirmationRejected,
    DispatchConfirmed,
    Endorsed,
    EndorsedRejected,
    StateTimeout,
    ValidityEnded,
)
from rota.sequencer.events import BlockIndexed, BlocksRemoved, RoundSubmitted
from rota.sequencer.held_intent import GONE, State
from rota.wire.messages import (
    Answer,
    AssembleError,
    AssembleRequest,
    AssembleResponse,
    AssemblyOutcome,
    AssemblyResult,
    CoordinatorHeartbeat,
    DelegationAccepted,
    DispatchConfirmationError,
    DispatchConfirmationRequest,
    EndorsementRequest,
    EndorsementResponse,
    EndorserSignature,
    ErrorCode,
    IntentError,
    TransactionReverted,
)
from tests.sequencer.coordinator_bench import (
    CoordinatorBench,
    active,
    endorsed_by_others,
    hand_over,
    handed_of,
    name_of,
    refusal_by,
    restarted,
)
from tests.sequencer.kit import GENESIS_S, B, C, digest_of, intent_id, remade, transition

OTHER_LEAF = Leaf(b"o" * 32)


def chain(*names: str) -> list[Transition]:
    """Transitions of these intents, each on top of the one before."""
    found: list[Transition] = []
    for name in names:
        found.append(transition(name, *(state.id for made in found[-1:] for state in made.outputs)))
    return found


def refuse_permission(bench: CoordinatorBench, code: ErrorCode, *names: str) -> None:
    """The senders refuse permission for these intents."""
    for peer, request in bench.asked(DispatchConfirmationRequest):
        errors = tuple(IntentError(item.intent, code) for item in request.items if name_of(item.intent) in names)
        bench.hear(peer, DispatchConfirmationError(request.request_id, errors))


def asked_names(bench: CoordinatorBench) -> list[str]:
    """The intents of the one slot that was asked for."""
    [(_, request)] = bench.asked(AssembleRequest)
    return [name_of(intent) for intent in request.intents]


def other_version(name: str, status: LedgerStatus) -> LedgerOutcome:
    """An outcome of a version that is not under way here."""
    return LedgerOutcome(intent_id(name), OTHER_LEAF, digest_of(OTHER_LEAF), status)


def two_rounds(bench: CoordinatorBench, first: Transition, second: Transition) -> None:
    """Two intents of B, the second on top of the first, each in a round of its own; nobody has signed."""
    bench.bring(State.ENDORSEMENT_GATHERING, first)
    bench.bring(State.ENDORSEMENT_GATHERING, second)


def sign_round_of(bench: CoordinatorBench, name: str) -> None:
    """The endorsers sign the round that an intent is in; what they were asked of others stays."""
    opened = bench.transaction(name).round
    assert opened is not None
    others = [effect for effect in bench.effects if not _asks_about(effect, opened.digest)]
    bench.effects = [effect for effect in bench.effects if _asks_about(effect, opened.digest)]
    bench.sign()
    bench.effects = others + bench.effects


def _asks_about(effect: Effect, digest: Digest) -> bool:
    body = effect.envelope.body if isinstance(effect, SendMessage) else None
    return isinstance(body, EndorsementRequest) and body.digest == digest


# The way forward.


def test_intent_goes_from_the_pool_to_the_chain_and_is_then_forgotten() -> None:
    bench = active()
    made = transition("B-1")
    bench.delegate("B-1")
    assert bench.state_of("B-1") is State.ASSEMBLING
    bench.assemble(made)
    assert bench.state_of("B-1") is State.ENDORSEMENT_GATHERING
    bench.sign()
    assert bench.state_of("B-1") is State.CONFIRMING_DISPATCH
    bench.permit()
    assert bench.state_of("B-1") is State.READY_FOR_DISPATCH
    [dispatch] = bench.write_rounds()
    assert bench.state_of("B-1") is State.DISPATCHED
    bench.tell(RoundSubmitted(dispatch.digest, 1))
    assert bench.state_of("B-1") is State.SUBMITTED
    bench.tell(RoundSubmitted(dispatch.digest, 2))
    assert bench.transaction("B-1").submission_count == 2
    bench.block(1, bench.outcome(made))
    assert bench.state_of("B-1") is State.CONFIRMED
    assert bench.coordinator.graph.placed == {}
    bench.wait(500)
    assert bench.state_of("B-1") is None


def test_greater_number_is_taken_over_and_a_lower_one_is_not() -> None:
    bench = active()
    bench.delegate("B-1", number=3, revert_count=1)
    bench.delegate("B-1", number=2, revert_count=2)
    held = bench.transaction("B-1")
    assert (held.number, held.revert_count) == (DelegationNumber(1, 3), 1)
    bench.delegate("B-1", number=4, revert_count=2)
    assert (held.number, held.revert_count) == (DelegationNumber(1, 4), 2)
    bench.delegate("B-1", number=5, revert_count=0)
    assert held.revert_count == 2


def test_permission_is_asked_under_the_number_that_was_taken_over() -> None:
    bench = active()
    bench.delegate("B-1", number=1)
    bench.assemble()
    bench.delegate("B-1", number=6)
    bench.sign()
    [(_, request)] = bench.asked(DispatchConfirmationRequest)
    assert [item.number for item in request.items] == [DelegationNumber(1, 6)]


def test_one_on_top_of_another_rounds_member_is_blocked_until_that_is_ready() -> None:
    bench = active()
    first, second = chain("B-1", "B-2")
    two_rounds(bench, first, second)
    sign_round_of(bench, "B-2")
    assert bench.state_of("B-2") is State.BLOCKED
    sign_round_of(bench, "B-1")
    assert bench.state_of("B-2") is State.BLOCKED
    assert [len(r.items) for r in bench.said(DispatchConfirmationRequest, B)] == [1]
    bench.permit()
    assert bench.state_of("B-2") is State.CONFIRMING_DISPATCH


def test_blocked_one_stays_while_another_that_it_stands_on_is_not_ready() -> None:
    bench = active(config=Config(rounds_open_max=3))
    one, other = transition("B-1"), transition("C-1")
    third = transition("B-2", one.outputs[0].id, other.outputs[0].id)
    for each in (one, other, third):
        bench.bring(State.ENDORSEMENT_GATHERING, each)
    bench.sign()
    bench.permit("B-1")
    assert bench.state_of("B-1") is State.READY_FOR_DISPATCH
    assert bench.state_of("B-2") is State.BLOCKED


def test_blocked_one_looks_at_its_dependencies_again_at_the_state_timeout() -> None:
    bench = active()
    first, second = chain("B-1", "B-2")
    two_rounds(bench, first, second)
    bench.sign()
    bench.wait(3_000)
    assert bench.state_of("B-2") is State.BLOCKED
    bench.block(1, bench.outcome(first))
    assert bench.state_of("B-2") is State.BLOCKED
    bench.wait(6_999)
    assert bench.state_of("B-2") is State.BLOCKED
    bench.wait(1)
    assert bench.state_of("B-2") is State.CONFIRMING_DISPATCH


def test_blocked_one_whose_maker_is_not_endorsed_goes_on_waiting_past_the_state_timeout() -> None:
    bench = active()
    two_rounds(bench, *chain("B-1", "B-2"))
    for peer, request in bench.asked(EndorsementRequest):
        if request.transitions[0].intent == intent_id("B-2"):
            bench.hear(peer, EndorsementResponse(request.request_id, request.digest, f"by {peer}".encode()))
    bench.wait(25_000)
    assert bench.state_of("B-1") is State.ENDORSEMENT_GATHERING
    assert bench.state_of("B-2") is State.BLOCKED


def test_one_on_top_of_a_member_of_its_own_round_is_not_blocked() -> None:
    bench = active()
    bench.bring(State.CONFIRMING_DISPATCH, *chain("B-1", "B-2"))
    assert bench.state_of("B-2") is State.CONFIRMING_DISPATCH


# Assembly that leads elsewhere.


def test_parked_intent_leaves_the_coordinator_and_its_heartbeats() -> None:
    bench = active()
    bench.delegate("B-1")
    [(peer, request)] = bench.asked(AssembleRequest)
    parked = AssemblyResult(intent_id("B-1"), AssemblyOutcome.PARKED, DelegationNumber(1, 1), reason="later")
    bench.hear(peer, AssembleResponse(request.request_id, (parked,)))
    bench.forget()
    bench.wait(500)
    assert bench.state_of("B-1") is None
    assert [beat.intents for beat in bench.said(CoordinatorHeartbeat, B)] == [()]


def test_reverted_assembly_ends_with_its_reason_and_is_left_to_its_sender() -> None:
    bench = active()
    bench.delegate("B-1")
    [(peer, request)] = bench.asked(AssembleRequest)
    reverted = AssemblyResult(intent_id("B-1"), AssemblyOutcome.REVERTED, DelegationNumber(1, 1), reason="no money")
    bench.hear(peer, AssembleResponse(request.request_id, (reverted,)))
    assert bench.state_of("B-1") is State.REVERTED
    assert bench.transaction("B-1").reason == "no money"
    assert bench.said(TransactionReverted) == []


# Endorsement that is refused.


def test_refused_transition_is_assembled_on_a_fresh_snapshot() -> None:
    bench = active()
    bench.bring(State.ENDORSEMENT_GATHERING, transition("B-1"))
    bench.refuse(B, "B-1")
    assert bench.coordinator.graph.placed == {}
    assert bench.said(AssembleRequest) == [], "not at once"
    bench.wait(250)
    assert asked_names(bench) == ["B-1"]
    assert bench.transaction("B-1").reason == "B refuses B-1"


def test_transition_that_is_refused_too_often_goes_back_to_its_sender_with_the_reason() -> None:
    bench = active(config=Config(endorse_retry_max=3))
    bench.delegate("B-1")
    versions = [transition("B-1", version=version) for version in range(3)]
    for number, made in enumerate(versions):
        assert bench.state_of("B-1") is State.ASSEMBLING
        bench.assemble(made)
        bench.asked(EndorsementRequest, C)
        bench.refuse(B, "B-1")
        bench.wait(250 << number)
    assert bench.state_of("B-1") is State.REVERTED
    evidence = (EndorserSignature(B, refusal_by(B)),)
    assert bench.said(TransactionReverted, B) == [
        TransactionReverted(intent_id("B-1"), DelegationNumber(1, 1), versions[-1].leaf, "B refuses B-1", evidence)
    ]
    assert bench.coordinator.graph.placed == {}


@pytest.mark.parametrize("code", [ErrorCode.FAILED, ErrorCode.CANCELLED])
def test_refused_intent_of_which_its_sender_signs_no_other_version_goes_back_with_the_refusals(code: ErrorCode) -> None:
    """`rota simulate --seed 302 --minutes 0.5 --domain deployments`: its sender never got the refusals that end it."""
    bench = active()
    bench.delegate("B-1")
    made = transition("B-1")
    bench.assemble(made)
    bench.asked(EndorsementRequest, C)
    bench.refuse(B, "B-1")
    bench.wait(250)
    assert bench.state_of("B-1") is State.ASSEMBLING
    request = bench.said(AssembleRequest, B)[-1]
    bench.hear(B, AssembleError(request.request_id, (IntentError(intent_id("B-1"), code),)))
    evidence = (EndorserSignature(B, refusal_by(B)),)
    told = TransactionReverted(intent_id("B-1"), DelegationNumber(1, 1), made.leaf, "B refuses B-1", evidence)
    is_told = code is ErrorCode.FAILED
    assert bench.said(TransactionReverted, B) == ([told] if is_told else [])
    assert bench.state_of("B-1") is (State.REVERTED if is_told else None)


def test_what_stands_on_a_refused_transition_is_reset_last_to_first_and_each_waits_for_its_maker() -> None:
    bench = active()
    bench.bring(State.ENDORSEMENT_GATHERING, *chain("B-1", "B-2", "B-3"), transition("B-4"))
    bench.refuse(B, "B-1")
    bench.wait(250)
    assert asked_names(bench) == ["B-1", "B-2", "B-3"]
    # A maker that had been reset before its user would no longer be found, and the user would not wait for it.
    assert [bench.transaction(name).waits_for for name in ("B-1", "B-2", "B-3")] == [
        (),
        (intent_id("B-1"),),
        (intent_id("B-2"),),
    ]
    assert bench.state_of("B-4") is State.ENDORSEMENT_GATHERING


def test_one_that_waits_for_two_makers_goes_only_when_both_are_assembled_again() -> None:
    bench = active(config=Config(assembly_slot_max=1, rounds_open_max=1), of=endorsed_by_others(endorsers=(B,)))
    root = transition("B-1")
    one, other = (remade(transition(name), reads=(root.outputs[0].id,)) for name in ("B-2", "B-3"))
    top = transition("B-4", one.outputs[0].id, other.outputs[0].id)
    for each in (root, one, other, top):
        bench.bring(State.ENDORSEMENT_GATHERING, each)
    bench.refuse(B, "B-1")
    assert bench.transaction("B-4").waits_for == (one.intent, other.intent)
    bench.wait(250)
    assert [name_of(bench.assemble(root, one).intents[0]) for _ in range(2)] == ["B-1", "B-2"]
    assert bench.transaction("B-4").waits_for == (other.intent,)
    assert bench.state_of("B-4") is State.PREASSEMBLY_BLOCKED
    bench.assemble(other)
    assert asked_names(bench) == ["B-4"]


def _digest(bench: CoordinatorBench, name: str) -> Digest:
    opened = bench.transaction(name).round
    assert opened is not None
    return opened.digest


def test_one_that_waits_for_a_maker_is_let_go_when_that_maker_leaves_for_good() -> None:
    bench = active(config=Config(assembly_slot_max=1), of=endorsed_by_others(endorsers=(B,)))
    one = transition("B-1")
    bench.bring(State.ENDORSEMENT_GATHERING, one)
    bench.bring(State.ENDORSEMENT_GATHERING, transition("C-1", one.outputs[0].id))
    bench.effects = [e for e in bench.effects if not _asks_about(e, _digest(bench, "C-1"))]
    bench.refuse(B, "B-1")
    assert bench.state_of("C-1") is State.PREASSEMBLY_BLOCKED
    bench.wait(250)
    [(peer, request)] = bench.asked(AssembleRequest)
    parked = AssemblyResult(intent_id("B-1"), AssemblyOutcome.PARKED, DelegationNumber(1, 1))
    bench.hear(peer, AssembleResponse(request.request_id, (parked,)))
    assert asked_names(bench) == ["C-1"]


def test_one_that_no_longer_waits_is_not_told_twice() -> None:
    bench = active(config=Config(assembly_slot_max=1))
    bench.delegate("B-1", "B-2")
    follower = bench.transaction("B-2")
    assert follower.waits_for == (intent_id("B-1"),)
    follower.waits_for = ()
    bench.assemble()
    assert bench.state_of("B-1") is State.ENDORSEMENT_GATHERING
    assert bench.state_of("B-2") is State.ASSEMBLING


# Permission that is refused or does not come.


def test_refused_permission_makes_the_intent_leave_with_what_stands_on_it() -> None:
    bench = active()
    first, second = chain("B-1", "B-2")
    bench.bring(State.CONFIRMING_DISPATCH, first, second, transition("B-3"))
    refuse_permission(bench, ErrorCode.STALE_DELEGATION, "B-1")
    assert bench.state_of("B-1") is None
    assert bench.state_of("B-2") is State.ASSEMBLING
    assert bench.state_of("B-3") is State.CONFIRMING_DISPATCH
    assert set(bench.coordinator.graph.placed) == {transition("B-3").leaf}


def test_ready_member_leaves_its_round_with_its_maker_whose_permission_is_refused() -> None:
    bench = active()
    bench.bring(State.CONFIRMING_DISPATCH, *chain("B-1", "B-2"))
    [request] = bench.said(DispatchConfirmationRequest, B)
    bench.permit("B-2")
    assert bench.state_of("B-2") is State.READY_FOR_DISPATCH
    error = IntentError(intent_id("B-1"), ErrorCode.CANCELLED)
    bench.hear(B, DispatchConfirmationError(request.request_id, (error,)))
    assert bench.take(DispatchRound) == []
    assert asked_names(bench) == ["B-2"]


def test_ready_member_waits_for_its_maker_that_comes_back() -> None:
    bench = active()
    first, second = chain("B-1", "B-2")
    bench.bring(State.CONFIRMING_DISPATCH, replace(first, valid_until_s=GENESIS_S + 10), second)
    bench.permit("B-2")
    assert bench.state_of("B-2") is State.READY_FOR_DISPATCH
    bench.delegate("C-1")
    bench.block(1, time_s=GENESIS_S + 11)
    assert bench.state_of("B-1") is State.POOLED
    assert bench.state_of("B-2") is State.PREASSEMBLY_BLOCKED
    assert bench.transaction("B-2").waits_for == (first.intent,)


def test_sender_that_lost_the_states_is_asked_again_with_them_under_a_new_id() -> None:
    bench = active()
    made = transition("B-1")
    bench.bring(State.CONFIRMING_DISPATCH, made)
    [(peer, first)] = bench.asked(DispatchConfirmationRequest)
    assert first.items[0].transition is None
    error = IntentError(intent_id("B-1"), ErrorCode.STATES_MISSING)
    bench.hear(peer, DispatchConfirmationError(first.request_id, (error,)))
    [(_, second)] = bench.asked(DispatchConfirmationRequest)
    assert second.request_id > first.request_id
    assert second.items[0].transition == made
    assert bench.state_of("B-1") is State.CONFIRMING_DISPATCH


def test_one_that_asked_for_its_states_leaves_with_its_maker_and_is_not_asked_again() -> None:
    bench = active()
    bench.bring(State.CONFIRMING_DISPATCH, *chain("B-1", "B-2"))
    [(peer, request)] = bench.asked(DispatchConfirmationRequest)
    errors = (
        IntentError(intent_id("B-2"), ErrorCode.STATES_MISSING),
        IntentError(intent_id("B-1"), ErrorCode.CANCELLED),
    )
    bench.hear(peer, DispatchConfirmationError(request.request_id, errors))
    assert bench.asked(DispatchConfirmationRequest) == []
    assert asked_names(bench) == ["B-2"]


def test_permission_is_asked_again_until_the_permission_timeout_and_is_then_not_awaited_any_more() -> None:
    bench = active()
    first, second = chain("B-1", "C-1")
    bench.bring(State.CONFIRMING_DISPATCH, first)
    bench.bring(State.ENDORSEMENT_GATHERING, second)
    bench.forget()
    bench.wait(3_999)
    assert bench.state_of("B-1") is State.CONFIRMING_DISPATCH
    requests = bench.said(DispatchConfirmationRequest, B)
    assert len(requests) == 3
    assert len(set(requests)) == 1
    assert bench.transaction("B-1").request_count == 3
    bench.tell(ConnectionLost(B))
    bench.wait(1)
    assert bench.state_of("B-1") is State.POOLED
    assert bench.coordinator.graph.placed == {}
    assert bench.coordinator.permissions.open == {}


def test_what_stood_on_a_silent_senders_transition_does_not_wait_for_that_sender() -> None:
    bench = active()
    first, second = chain("B-1", "C-1")
    bench.bring(State.CONFIRMING_DISPATCH, first)
    bench.bring(State.ENDORSEMENT_GATHERING, second)
    bench.tell(ConnectionLost(B))
    bench.wait(4_000)
    assert asked_names(bench) == ["C-1"]


def test_time_for_a_permission_begins_when_it_is_asked_for() -> None:
    bench = active()
    bench.bring(State.ENDORSEMENT_GATHERING, transition("B-1"))
    bench.wait(9_000)
    bench.sign()
    bench.tell(ConnectionLost(B))
    bench.wait(3_999)
    assert bench.state_of("B-1") is State.CONFIRMING_DISPATCH
    bench.wait(1)
    assert bench.state_of("B-1") is State.POOLED


@pytest.mark.parametrize("state", [State.READY_FOR_DISPATCH, State.DISPATCHED])
def test_nothing_times_out_past_the_point_of_no_return(state: State) -> None:
    bench = active()
    bench.bring(state, transition("B-1"))
    bench.tell(ConnectionLost(B))
    bench.wait(120_000)
    assert bench.state_of("B-1") is state


# What the ledger says.


def ledger_says(bench: CoordinatorBench, made: Transition, **more: object) -> None:
    """The version under way fails on the chain."""
    bench.block(1, bench.outcome(made, LedgerStatus.SKIPPED, **more))


def test_retryable_failure_is_counted_and_retried_after_a_backoff() -> None:
    bench = active()
    made = transition("B-1")
    bench.bring(State.DISPATCHED, made)
    bench.forget()
    ledger_says(bench, made, reason="out of gas")
    held = bench.transaction("B-1")
    assert bench.state_of("B-1") is State.POOLED
    assert (held.revert_count, held.reason) == (1, "out of gas")
    assert bench.asked(AssembleRequest) == []
    bench.wait(250)
    assert asked_names(bench) == ["B-1"]


def test_backoff_of_ledger_failures_grows_with_the_count_that_travels() -> None:
    bench = active()
    made = transition("B-1")
    bench.delegate("B-1", revert_count=2)
    bench.wait(500)
    bench.assemble(made)
    bench.sign()
    bench.permit()
    bench.write_rounds()
    ledger_says(bench, made)
    bench.forget()
    bench.wait(749)
    assert bench.asked(AssembleRequest) == []
    bench.wait(251)
    assert asked_names(bench) == ["B-1"]


def test_failure_after_the_last_retry_is_told_to_the_sender_with_the_ledgers_reason() -> None:
    bench = active()
    made = transition("B-1")
    bench.delegate("B-1", revert_count=3)
    bench.wait(1_000)
    bench.assemble(made)
    bench.sign()
    bench.permit()
    bench.write_rounds()
    ledger_says(bench, made, reason="out of gas")
    assert bench.state_of("B-1") is State.REVERTED
    assert [(r.leaf, r.reason) for r in bench.said(TransactionReverted, B)] == [(made.leaf, "out of gas")]
    assert bench.coordinator.graph.placed == {}


def test_first_failure_is_told_to_the_sender_where_no_retry_is_allowed() -> None:
    bench = active(config=Config(revert_retry_max=0))
    made = transition("B-1")
    bench.bring(State.DISPATCHED, made)
    ledger_says(bench, made)
    assert bench.state_of("B-1") is State.REVERTED


def revert_whole(bench: CoordinatorBench, version: int) -> None:
    """The transaction of a round that holds this version of B-1 alone reverts."""
    made = transition("B-1", version=version)
    bench.assemble(made)
    bench.sign()
    bench.permit()
    bench.write_rounds()
    bench.block(1, bench.outcome(made, LedgerStatus.REVERTED, reason="expired"))


def test_revert_of_a_whole_transaction_is_retried_however_often_and_paced_by_pauses_of_its_sender() -> None:
    bench = active()
    bench.delegate("B-1")
    waits_ms = []
    for version in range(8):
        revert_whole(bench, version)
        assert (bench.state_of("B-1"), bench.transaction("B-1").revert_count) == (State.POOLED, 0)
        bench.forget()
        waits_ms.append(0)
        while not bench.said(AssembleRequest, B):
            bench.forget()
            bench.wait(200)
            waits_ms[-1] += 200
    assert bench.said(TransactionReverted) == []
    assert 200 <= waits_ms[0] < 1_000, "once may be an accident"
    assert all(later >= 2 * wait for wait, later in pairwise(waits_ms[1:7])), waits_ms
    assert max(waits_ms) <= bench.sequencer.context.config.probation_max_ms
    revert_whole(bench, 8)
    assert bench.coordinator.probation.has(B), "its rounds are its own"
    found = explain_at_coordinator(bench.sequencer, intent_id("B-1"))
    assert found is not None
    assert found.waits_for == "the end of a pause: the chain skipped or reverted what B sent (expired)"


def test_contention_is_not_counted_and_is_retried_at_once_even_after_the_last_retry() -> None:
    bench = active()
    made = transition("B-1")
    bench.delegate("B-1", revert_count=3)
    bench.wait(1_000)
    bench.assemble(made)
    bench.sign()
    bench.permit()
    bench.write_rounds()
    bench.block(1, bench.outcome(made, LedgerStatus.SKIPPED, is_contention=True, reason="spent"))
    held = bench.transaction("B-1")
    assert (held.revert_count, held.reason) == (3, "spent")
    assert asked_names(bench) == ["B-1"]
    assert bench.said(TransactionReverted) == []


@pytest.mark.parametrize(
    "state", [State.ENDORSEMENT_GATHERING, State.CONFIRMING_DISPATCH, State.READY_FOR_DISPATCH, State.DISPATCHED]
)
def test_commit_of_another_version_confirms_in_every_state_and_voids_ours(state: State) -> None:
    bench = active()
    first, second = chain("B-1", "B-2")
    bench.bring(state, first)
    bench.delegate("B-2")
    bench.assemble(second)
    bench.block(1, other_version("B-1", LedgerStatus.COMMITTED))
    assert bench.state_of("B-1") is State.CONFIRMED
    assert bench.state_of("B-2") is State.ASSEMBLING
    assert bench.coordinator.graph.placed == {}
    assert bench.coordinator.rounds.rounds == {}


def test_commit_confirms_an_intent_that_is_still_in_the_pool() -> None:
    bench = active()
    bench.delegate("C-1")
    bench.delegate("B-1")
    bench.block(1, other_version("B-1", LedgerStatus.COMMITTED))
    assert bench.state_of("B-1") is State.CONFIRMED


def test_commit_of_our_version_leaves_what_stands_on_it() -> None:
    bench = active()
    first, second = chain("B-1", "B-2")
    bench.bring(State.DISPATCHED, first)
    bench.bring(State.ENDORSEMENT_GATHERING, second)
    bench.block(1, bench.outcome(first))
    assert bench.state_of("B-2") is State.ENDORSEMENT_GATHERING
    bench.sign()
    assert bench.state_of("B-2") is State.CONFIRMING_DISPATCH


@pytest.mark.parametrize("state", [State.ENDORSEMENT_GATHERING, State.DISPATCHED])
def test_failure_of_another_version_changes_nothing(state: State) -> None:
    bench = active()
    bench.bring(state, transition("B-1"))
    bench.block(1, other_version("B-1", LedgerStatus.REVERTED))
    assert bench.state_of("B-1") is state
    assert bench.transaction("B-1").revert_count == 0


def test_failure_of_an_older_version_while_it_is_assembled_anew_changes_nothing() -> None:
    bench = active()
    bench.delegate("B-1")
    bench.block(1, other_version("B-1", LedgerStatus.REVERTED))
    assert bench.state_of("B-1") is State.ASSEMBLING


def test_what_stands_on_a_failed_dispatch_is_reset_and_waits_for_it() -> None:
    bench = active(config=Config(assembly_slot_max=1))
    first, second = chain("B-1", "B-2")
    bench.bring(State.DISPATCHED, first)
    bench.bring(State.CONFIRMING_DISPATCH, second)
    ledger_says(bench, first)
    assert bench.state_of("B-2") is State.PREASSEMBLY_BLOCKED
    bench.forget()
    bench.wait(250)
    assert asked_names(bench) == ["B-1"]


def test_dispatched_user_of_a_failed_dispatch_waits_for_the_ledger_and_is_built_upon_no_more() -> None:
    bench = active()
    first, second = chain("B-1", "B-2")
    bench.bring(State.DISPATCHED, first)
    bench.bring(State.DISPATCHED, second)
    ledger_says(bench, first)
    assert bench.state_of("B-2") is State.DISPATCHED
    bench.wait(250)
    [(_, request)] = bench.asked(AssembleRequest)
    assert request.snapshot.states == ()
    assert request.snapshot.locks == second.inputs


# Reorganisation.


def test_confirmed_dispatch_of_a_removed_block_is_submitted_again_with_its_locks() -> None:
    bench = active()
    made = transition("B-1", transition("X-1").outputs[0].id)
    bench.bring(State.DISPATCHED, made)
    outcome = bench.outcome(made)
    bench.block(1, outcome)
    bench.tell(BlocksRemoved(0, (outcome,)))
    assert bench.state_of("B-1") is State.SUBMITTED
    assert bench.coordinator.graph.snapshot(B).locks == made.inputs
    bench.block(1, outcome)
    assert bench.state_of("B-1") is State.CONFIRMED


def test_what_was_assembled_on_a_confirmed_dispatch_of_a_removed_block_is_reset() -> None:
    bench = active()
    first, second = chain("B-1", "B-2")
    bench.bring(State.DISPATCHED, first)
    outcome = bench.outcome(first)
    bench.block(1, outcome)
    bench.bring(State.ENDORSEMENT_GATHERING, second)
    bench.tell(BlocksRemoved(0, (outcome,)))
    assert asked_names(bench) == ["B-2"]


def test_what_stands_on_a_dispatch_of_before_a_restart_does_not_wait_for_its_assembly() -> None:
    """A reorganisation takes back what that dispatch stands on; nobody here will assemble it again."""
    first, second, third = chain("B-1", "B-2", "B-3")
    bench = restarted(handed_of(second))
    bench.bring(State.ENDORSEMENT_GATHERING, third)
    committed = LedgerOutcome(first.intent, first.leaf, digest_of(first.leaf), LedgerStatus.COMMITTED)
    bench.tell(BlocksRemoved(0, (committed,)))
    assert asked_names(bench) == ["B-3"]


def test_who_stands_on_a_foreign_version_of_an_intent_begins_anew_when_ours_is_assembled() -> None:
    """Ours would stand on those who stand on the foreign one: they would wait for one another for ever."""
    foreign = transition("B-3", version=1)
    bench = active()
    bench.beat(C)
    hand_over(bench, handed_of(foreign), peer=C)
    first = transition("B-1", foreign.outputs[0].id)
    second = transition("B-2", first.outputs[0].id)
    bench.bring(State.ENDORSEMENT_GATHERING, first, second)
    bench.delegate("B-3")
    assert asked_names(bench) == ["B-3"]
    assert bench.state_of("B-1") is State.POOLED
    assert bench.state_of("B-2") is State.PREASSEMBLY_BLOCKED
    assert foreign.leaf not in bench.coordinator.graph.placed


def test_nothing_is_built_any_more_on_a_foreign_version_that_the_ledger_did_not_have() -> None:
    """Its transaction failed as a whole, of which only its submitter hears; who stood on it was skipped for ever."""
    foreign = transition("C-3", version=1)
    bench = active()
    bench.beat(C)
    hand_over(bench, handed_of(foreign), peer=C)
    first = transition("B-1", foreign.outputs[0].id)
    bench.bring(State.SUBMITTED, first)
    bench.block(1, bench.outcome(first, LedgerStatus.SKIPPED, reason="state not available", is_contention=True))
    assert foreign.leaf not in bench.coordinator.graph.placed
    [(_, again)] = bench.asked(AssembleRequest)
    assert foreign.outputs[0] not in again.snapshot.states


def test_what_was_handed_over_holds_nothing_when_the_ledger_takes_it_no_longer() -> None:
    spent = transition("X-1").outputs[0].id
    foreign = transition("C-3", spent)
    bench = active()
    bench.beat(C)
    hand_over(bench, handed_of(foreign), peer=C)
    until_s = GENESIS_S + 600
    bench.tell(BlockIndexed(1, until_s))
    assert foreign.leaf in bench.coordinator.graph.placed
    bench.tell(BlockIndexed(2, until_s + 1))
    assert bench.coordinator.graph.foreign() == ()


def test_other_version_of_a_removed_block_makes_the_intent_leave() -> None:
    bench = active()
    bench.bring(State.ENDORSEMENT_GATHERING, transition("B-1"))
    outcome = other_version("B-1", LedgerStatus.COMMITTED)
    bench.block(1, outcome)
    bench.tell(BlocksRemoved(0, (outcome,)))
    assert bench.state_of("B-1") is None


# Validity.


def test_version_that_is_valid_no_longer_is_assembled_anew_after_what_stands_on_it() -> None:
    bench = active()
    first, second = chain("B-1", "B-2")
    bench.bring(State.ENDORSEMENT_GATHERING, replace(first, valid_until_s=GENESIS_S + 10))
    bench.bring(State.ENDORSEMENT_GATHERING, second)
    bench.block(1, time_s=GENESIS_S + 10)
    assert bench.state_of("B-1") is State.ENDORSEMENT_GATHERING
    bench.block(2, time_s=GENESIS_S + 11)
    assert asked_names(bench) == ["B-1", "B-2"]


def test_permitted_version_that_was_not_given_to_the_submitter_expires_too() -> None:
    bench = active()
    one, other = transition("B-1", valid_until_s=GENESIS_S + 10), transition("B-2")
    bench.bring(State.CONFIRMING_DISPATCH, one, other)
    bench.permit("B-1")
    assert bench.state_of("B-1") is State.READY_FOR_DISPATCH
    bench.block(2, time_s=GENESIS_S + 11)
    assert asked_names(bench) == ["B-1", "B-2"]


@pytest.mark.parametrize("state", [State.READY_FOR_DISPATCH, State.DISPATCHED])
def test_version_on_its_way_to_the_disk_does_not_expire(state: State) -> None:
    bench = active()
    bench.bring(state, transition("B-1", valid_until_s=GENESIS_S + 10))
    bench.block(2, time_s=GENESIS_S + 11)
    bench.transaction("B-1").handle(ValidityEnded())
    assert bench.state_of("B-1") is state


def test_version_on_its_way_to_the_disk_is_not_taken_back_with_what_it_stood_on() -> None:
    bench = active()
    bench.bring(State.READY_FOR_DISPATCH, transition("B-1"))
    bench.transaction("B-1").handle(DependencyReverted(intent_id("B-0")))
    assert bench.state_of("B-1") is State.READY_FOR_DISPATCH


def test_unassembled_intent_has_nothing_that_expires() -> None:
    bench = active()
    bench.delegate("B-1")
    bench.block(2, time_s=GENESIS_S + 10_000)
    assert bench.state_of("B-1") is State.ASSEMBLING


# What changes nothing.


LATE: tuple[tuple[Event, tuple[State, ...]], ...] = (
    (AssembleTimeout(), tuple(state for state in State if state is not State.ASSEMBLING)),
    (Endorsed(), tuple(state for state in State if state is not State.ENDORSEMENT_GATHERING)),
    (EndorsedRejected("no"), tuple(state for state in State if state is not State.ENDORSEMENT_GATHERING)),
    (DispatchConfirmed(), tuple(state for state in State if state is not State.CONFIRMING_DISPATCH)),
    (
        DispatchConfirmationRejected(ErrorCode.CANCELLED),
        tuple(state for state in State if state is not State.CONFIRMING_DISPATCH),
    ),
    (DependencyReady(), tuple(state for state in State if state is not State.BLOCKED)),
    (Collected(), tuple(state for state in State if state is not State.READY_FOR_DISPATCH)),
    (ConfirmationUndone(OTHER_LEAF), tuple(state for state in State if state is not State.CONFIRMED)),
    (StateTimeout(), tuple(state for state in State if state not in (State.BLOCKED, State.CONFIRMING_DISPATCH))),
    (Abandoned(), (*GONE.states, State.INITIAL, State.READY_FOR_DISPATCH, State.DISPATCHED, State.SUBMITTED)),
)


@pytest.mark.parametrize(("event", "states"), LATE, ids=lambda value: type(value).__name__)
def test_late_event_changes_nothing(event: Event, states: tuple[State, ...]) -> None:
    bench = active()
    bench.delegate("B-1")
    transaction = bench.transaction("B-1")
    bench.effects.clear()
    for state in states:
        transaction.state = state
        assert TABLE.row_for(transaction, event) is None
        transaction.handle(event)
        assert transaction.state is state
    assert bench.effects == []


def test_blocked_has_a_timer() -> None:
    bench = active()
    bench.bring(State.ENDORSEMENT_GATHERING, transition("B-1"))
    transaction = bench.transaction("B-1")
    transaction.enter(State.BLOCKED)
    assert bench.sequencer.context.timers.is_set(transaction, "state")
    transaction.enter(State.POOLED)
    assert not bench.sequencer.context.timers.is_set(transaction, "state")


def test_only_an_assembled_transaction_has_a_leaf() -> None:
    bench = active()
    bench.delegate("B-1")
    with pytest.raises(AssertionError, match="assembled"):
        _ = bench.transaction("B-1").leaf


@pytest.mark.parametrize("is_follower", [False, True])
def test_intent_that_comes_with_failures_of_another_coordinator_goes_on_backing_off(is_follower: bool) -> None:
    bench = active()
    if is_follower:
        bench.delegate("B-0")
    bench.delegate("B-1", revert_count=2)
    if is_follower:
        bench.assemble()
    bench.wait(374)
    assert bench.asked(AssembleRequest) == []
    bench.wait(500 - 374)
    assert asked_names(bench) == ["B-1"]


def test_intent_that_comes_without_failures_is_asked_at_once() -> None:
    bench = active()
    bench.delegate("B-1", revert_count=0)
    assert asked_names(bench) == ["B-1"]


def test_intent_of_a_silent_sender_is_asked_again_as_soon_as_that_is_back() -> None:
    bench = active()
    bench.delegate("B-1")
    bench.tell(ConnectionLost(B))
    bench.wait(3_000)
    assert bench.state_of("B-1") is State.POOLED
    bench.forget()
    bench.tell(ConnectionMade(B))
    assert asked_names(bench) == ["B-1"]


def test_intent_that_was_given_up_is_answered_with_the_reason_for_some_heartbeats() -> None:
    bench = active(config=Config(endorse_retry_max=1, closing_heartbeats=3))
    bench.bring(State.ENDORSEMENT_GATHERING, transition("B-1"))
    bench.refuse(B, "B-1")
    assert bench.state_of("B-1") is State.REVERTED
    bench.wait(1_500)
    bench.delegate("B-1", number=2)
    answer = bench.said(DelegationAccepted, B)[-1].answers[0]
    assert (answer.answer, answer.reason) == (Answer.REJECTED, "B refuses B-1")
    bench.wait(500)
    assert bench.state_of("B-1") is None


def test_one_that_waits_for_two_makers_waits_for_the_other_when_one_leaves_for_good() -> None:
    bench = active(config=Config(assembly_slot_max=1, rounds_open_max=1), of=endorsed_by_others(endorsers=(B,)))
    root = transition("B-1")
    one, other = (remade(transition(name), reads=(root.outputs[0].id,)) for name in ("B-2", "B-3"))
    for each in (root, one, other, transition("B-4", one.outputs[0].id, other.outputs[0].id)):
        bench.bring(State.ENDORSEMENT_GATHERING, each)
    bench.refuse(B, "B-1")
    bench.wait(250)
    bench.assemble(root)
    [(peer, request)] = bench.asked(AssembleRequest)
    parked = AssemblyResult(one.intent, AssemblyOutcome.PARKED, DelegationNumber(1, 1))
    bench.hear(peer, AssembleResponse(request.request_id, (parked,)))
    assert bench.transaction("B-4").waits_for == (other.intent,)
    assert bench.state_of("B-4") is State.PREASSEMBLY_BLOCKED


def test_what_stood_on_one_that_left_for_good_waits_in_the_pool_for_nobody() -> None:
    bench = active()
    bench.bring(State.CONFIRMING_DISPATCH, *chain("B-1", "B-2"))
    bench.delegate("C-1")
    refuse_permission(bench, ErrorCode.CANCELLED, "B-1")
    assert bench.state_of("B-2") is State.POOLED


def test_intent_that_is_forgotten_leaves_no_timer_behind() -> None:
    bench = active()
    bench.bring(State.ENDORSEMENT_GATHERING, transition("B-1"))
    held = bench.transaction("B-1")
    held.handle(Abandoned())
    assert not bench.sequencer.context.timers.is_set(held, "state")
