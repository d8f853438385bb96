"""Prepared transitions at their coordinator and at its endorsers (protocol §4.2, §5).

A leads, B and C endorse, and B sends.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from rota.machine.effects import DispatchRound, Effect, Persist, Record, SendMessage, TransitionPrepared
from rota.machine.events import ConnectionLost, Tick
from rota.model.blocks import LedgerOutcome, LedgerStatus
from rota.model.config import Config
from rota.model.types import (
    DelegationNumber,
    Digest,
    KeptStates,
    NodeName,
    Party,
    RequestId,
    StateId,
    SubmitMode,
    Transition,
)
from rota.node.explanation import explain_at_coordinator
from rota.sequencer.coordinator_transaction_events import Abandoned
from rota.sequencer.effects import CheckRound, PreparedAcknowledged, PreparedEndorsed, VerifyEndorsement
from rota.sequencer.events import BlockIndexed, BlocksRemoved, EndorsementVerified, OutcomesFinal, RoundChecked
from rota.sequencer.held_intent import State
from rota.sequencer.sequencer import StoredContract
from rota.wire.messages import (
    Answer,
    AssembleRequest,
    AssembleResponse,
    AssemblyOutcome,
    AssemblyResult,
    CoordinatorHeartbeat,
    CoordinatorState,
    DispatchConfirmationRequest,
    EndorsementRequest,
    EndorserSignature,
    Handover,
    HandoverReason,
    HandoverRequest,
    ListedIntent,
    PreparedTransaction,
    PreparedTransactionAcknowledgement,
)
from tests.sequencer.coordinator_bench import CoordinatorBench, active, answers, handed, name_of
from tests.sequencer.kit import (
    ADDRESS,
    GENESIS_S,
    A,
    B,
    Bench,
    C,
    digest_of,
    intent_id,
    prepared_transition,
    transition,
    void_transition,
)
from tests.sequencer.test_endorser import request, responses

PREPARED_UNTIL_S = GENESIS_S + 900
INPUT = StateId(transition("X-1").leaf, 0)
MADE = prepared_transition("B-1", INPUT)
KEPT = KeptStates(MADE.intent, MADE.leaf, (INPUT,), PREPARED_UNTIL_S)
EXTERNAL = SubmitMode.EXTERNAL


def gathering(*others: Transition, made: Transition = MADE) -> CoordinatorBench:
    """An external intent is assembled, and the endorsers are asked."""
    bench = active()
    bench.delegate(*(name_of(each.intent) for each in (made, *others)), submit_mode=EXTERNAL)
    bench.assemble(made, *others)
    return bench


def preparing() -> CoordinatorBench:
    """It is endorsed and recorded, and its sender has it."""
    bench = gathering()
    bench.sign()
    assert bench.state_of("B-1") is State.PREPARED
    return bench


def prepared() -> CoordinatorBench:
    """The same, and its record is forgotten."""
    bench = preparing()
    bench.take(Persist)
    return bench


def issued() -> CoordinatorBench:
    """Its sender has acknowledged it."""
    bench = prepared()
    acknowledge(bench)
    bench.take(Persist)
    return bench


def acknowledge(bench: Bench, peer: NodeName = B) -> None:
    bench.hear(peer, PreparedTransactionAcknowledgement(MADE.intent, MADE.leaf))


def message() -> PreparedTransaction:
    """What its sender gets."""
    signatures = (EndorserSignature(B, b"by B"), EndorserSignature(C, b"by C"))
    return PreparedTransaction(
        digest_of(MADE.leaf, valid_until_s=PREPARED_UNTIL_S), (MADE.leaf,), PREPARED_UNTIL_S, signatures, MADE
    )


def records(bench: Bench) -> list[Record]:
    return [record for effect in bench.effects if isinstance(effect, Persist) for record in effect.records]


SENDER = Party("a@B")


def committed(made: Transition = MADE, status: LedgerStatus = LedgerStatus.COMMITTED) -> LedgerOutcome:
    return LedgerOutcome(made.intent, made.leaf, digest_of(made.leaf), status)


def restarted(*, is_acknowledged: bool = False) -> CoordinatorBench:
    """The coordinator's node, restarted with a prepared transition on its disk."""
    record = TransitionPrepared(B, message(), SENDER)
    stored = StoredContract(unacknowledged=() if is_acknowledged else (record,), kept=(KEPT,))
    bench = CoordinatorBench(A, incarnation=2, stored=stored)
    bench.tell(Tick())
    return bench


# Preparing.


def test_endorsed_external_transition_is_recorded_and_sent_in_one_step_with_the_record_first() -> None:
    bench = gathering()
    bench.verifies = False
    bench.sign()
    effects: list[Effect] = []
    for asked in bench.take(VerifyEndorsement):
        assert records(bench) == []
        effects = bench.tell(EndorsementVerified(asked.peer, asked.digest, asked.signature, is_valid=True))
    assert bench.state_of("B-1") is State.PREPARED
    assert effects[0] == Persist(ADDRESS, (TransitionPrepared(B, message(), SENDER),))
    sent = [each for each in effects if isinstance(each, SendMessage)]
    assert [each.peer for each in sent if each.envelope.body == message()] == [B]
    assert records(bench) == [TransitionPrepared(B, message(), SENDER)]


def test_no_permission_is_asked_and_nothing_is_dispatched() -> None:
    bench = issued()
    assert bench.said(DispatchConfirmationRequest) == []
    assert bench.take(DispatchRound) == []
    assert bench.coordinator.rounds.rounds == {}


def test_sender_gets_no_bytes_that_it_may_not_see() -> None:
    secret = replace(MADE.outputs[0], distribution=(A,))
    bench = gathering(made=replace(MADE, outputs=(secret,)))
    bench.sign()
    (sent,) = bench.said(PreparedTransaction, B)
    assert sent.transition.outputs[0].content is None


def test_prepared_transition_is_sent_until_it_is_acknowledged_later_each_time() -> None:
    bench = prepared()
    bench.wait(20_000)
    assert 4 <= len(bench.said(PreparedTransaction, B)) <= 6
    assert bench.transaction("B-1").request_count >= 3
    acknowledge(bench)
    assert records(bench) == [PreparedAcknowledged(MADE.intent, MADE.leaf)]
    assert bench.state_of("B-1") is None
    bench.forget()
    bench.wait(60_000)
    assert bench.said(PreparedTransaction) == []


@pytest.mark.parametrize("way", [gathering, issued])
def test_acknowledgement_counts_once_and_only_of_what_was_sent(way: Callable[[], CoordinatorBench]) -> None:
    bench = way()
    bench.take(Persist)
    acknowledge(bench)
    assert records(bench) == []


def test_acknowledgement_of_somebody_else_does_not_count() -> None:
    bench = prepared()
    acknowledge(bench, C)
    assert records(bench) == []


def test_copies_of_an_acknowledgement_are_recorded_once() -> None:
    bench = prepared()
    acknowledge(bench)
    assert bench.coordinator.issuing.open == {}
    assert bench.state_of("B-1") is None
    acknowledge(bench)
    assert records(bench) == [PreparedAcknowledged(MADE.intent, MADE.leaf)]


def test_acknowledgement_after_the_end_of_the_validity_changes_nothing() -> None:
    bench = prepared()
    bench.tell(OutcomesFinal(PREPARED_UNTIL_S + 1, ()))
    assert bench.state_of("B-1") is None
    assert bench.coordinator.issuing.open == {}
    acknowledge(bench)
    assert records(bench) == []
    assert bench.coordinator.issuing.open == {}


def test_end_of_the_validity_after_the_acknowledgement_changes_nothing() -> None:
    bench = issued()
    bench.forget()
    bench.tell(OutcomesFinal(PREPARED_UNTIL_S + 1, ()))
    assert records(bench) == []
    assert bench.coordinator.issuing.open == {}


def test_prepared_transition_whose_transaction_was_abandoned_is_sent_and_kept_for_all_the_same() -> None:
    bench = prepared()
    bench.transaction("B-1").handle(Abandoned())
    bench.forget()
    bench.wait(bench.config.request_timeout_ms)
    assert bench.said(PreparedTransaction, B) == [message()]
    assert MADE.leaf in bench.sequencer.kept.standing
    acknowledge(bench)
    assert records(bench) == [PreparedAcknowledged(MADE.intent, MADE.leaf)]
    assert bench.coordinator.issuing.open == {}
    assert MADE.leaf in bench.sequencer.kept.standing, "somebody may commit it"


def test_external_intents_share_no_round_with_others() -> None:
    bench = active(config=Config(rounds_open_max=1))
    bench.bring(State.ENDORSEMENT_GATHERING, transition("B-0"))
    modes = {"B-1": EXTERNAL, "B-2": SubmitMode.AUTO, "B-3": EXTERNAL, "B-4": EXTERNAL}
    for name, mode in modes.items():
        bench.delegate(name, submit_mode=mode)
        bench.assemble(prepared_transition(name) if name in ("B-1", "B-4") else transition(name))
    rounds = []
    for _ in range(4):
        (asked,) = bench.said(EndorsementRequest, B)
        rounds.append(([name_of(each.intent) for each in asked.transitions], asked.valid_until_s))
        bench.sign()
    minutes_later_s = GENESIS_S + 600
    assert rounds == [
        (["B-0"], minutes_later_s),
        (["B-1", "B-4"], PREPARED_UNTIL_S),
        (["B-2"], minutes_later_s),
        (["B-3"], minutes_later_s),
    ]


def test_prepared_transition_of_an_intent_that_is_for_our_submitter_is_not_used() -> None:
    bench = active()
    bench.delegate("B-1")
    bench.assemble(MADE)
    assert bench.coordinator.graph.placed == {}
    assert bench.said(EndorsementRequest) == []


# What it stands on, and what stands on it.


def test_external_transition_waits_until_what_it_stands_on_is_dispatched() -> None:
    bench = active()
    first = transition("B-1")
    bench.bring(State.ENDORSEMENT_GATHERING, first)
    bench.delegate("B-2", submit_mode=EXTERNAL)
    bench.assemble(prepared_transition("B-2", first.outputs[0].id))
    bench.sign()
    assert bench.state_of("B-2") is State.BLOCKED
    found = explain_at_coordinator(bench.sequencer, intent_id("B-2"))
    assert found is not None
    assert found.waits_for == "what it stands on to be dispatched"
    bench.permit()
    assert bench.state_of("B-1") is State.READY_FOR_DISPATCH
    assert bench.state_of("B-2") is State.BLOCKED
    bench.write_rounds()
    assert bench.state_of("B-2") is State.PREPARED


def test_external_transition_looks_again_at_the_state_timeout() -> None:
    bench = active()
    first = transition("B-1")
    bench.bring(State.ENDORSEMENT_GATHERING, first)
    bench.delegate("B-2", submit_mode=EXTERNAL)
    bench.assemble(prepared_transition("B-2", first.outputs[0].id))
    bench.sign()
    bench.block(1, committed(first))
    assert bench.state_of("B-2") is State.BLOCKED
    bench.wait(10_000)
    assert bench.state_of("B-2") is State.PREPARED


def test_external_transition_may_stand_on_what_another_coordinator_dispatched() -> None:
    bench = active()
    point = handed("C-1")
    bench.coordinator.graph.place_foreign(point, 900)
    bench.delegate("B-2", submit_mode=EXTERNAL)
    bench.assemble(prepared_transition("B-2", point.transition.outputs[0].id))
    bench.sign()
    assert bench.state_of("B-2") is State.PREPARED


def test_nothing_is_built_on_an_external_transition_in_its_slot_or_later() -> None:
    on_top = transition("B-2", MADE.outputs[0].id)
    bench = gathering(on_top)
    assert bench.state_of("B-2") is State.ASSEMBLING
    ((_, again),) = bench.asked(AssembleRequest)
    assert again.intents == (intent_id("B-2"),)
    assert MADE.outputs[0] not in again.snapshot.states
    assert INPUT in again.snapshot.locks


def test_foreign_dispatch_on_top_of_ours_is_told_nothing() -> None:
    bench = active()
    made = transition("B-1")
    bench.bring(State.CONFIRMING_DISPATCH, made)
    bench.coordinator.graph.place_foreign(handed("C-9", made.outputs[0].id), 900)
    bench.permit()
    assert bench.state_of("B-1") is State.READY_FOR_DISPATCH


# What is kept.


def locks(bench: CoordinatorBench, name: str = "C-7") -> tuple[StateId, ...]:
    """What an intent must leave alone when it is assembled now."""
    bench.asked(AssembleRequest)
    bench.delegate(name)
    ((_, asked),) = bench.asked(AssembleRequest)
    return asked.snapshot.locks


@pytest.mark.parametrize("way", [preparing, prepared, issued])
def test_what_it_spends_is_kept_for_it(way: Callable[[], CoordinatorBench]) -> None:
    bench = way()
    assert locks(bench) == (INPUT,)
    bench.hear(C, bench_answer(bench, transition("C-7", INPUT)))
    assert bench.state_of("C-7") in (State.POOLED, State.ASSEMBLING), "it conflicts"


def bench_answer(bench: CoordinatorBench, made: Transition) -> AssembleResponse:
    slot = bench.coordinator.slots.slot
    assert slot is not None
    result = AssemblyResult(made.intent, AssemblyOutcome.ASSEMBLED, DelegationNumber(1, 1), made)
    return AssembleResponse(slot.request.request_id, (result,))


def test_another_version_of_the_intent_may_spend_it() -> None:
    bench = issued()
    bench.delegate("B-1", submit_mode=EXTERNAL, number=2)
    assert answers(bench, B) == [Answer.ACCEPTED]
    ((_, asked),) = bench.asked(AssembleRequest)
    assert asked.snapshot.locks == ()
    bench.hear(B, bench_answer(bench, prepared_transition("B-1", INPUT, version=1)))
    assert bench.state_of("B-1") is State.ENDORSEMENT_GATHERING


def test_it_is_free_when_the_intent_is_on_the_chain_and_kept_again_when_that_is_undone() -> None:
    bench = issued()
    bench.block(1, committed())
    assert locks(bench) == ()
    bench.hear(C, bench_answer(bench, transition("C-7", INPUT)))
    assert bench.state_of("C-7") is State.ENDORSEMENT_GATHERING
    bench.tell(BlocksRemoved(0, (committed(),)))
    assert MADE.leaf in bench.sequencer.kept.standing
    bench.tell(OutcomesFinal(GENESIS_S, (committed(),)))
    assert MADE.leaf not in bench.sequencer.kept.standing


def test_it_is_free_when_its_validity_has_passed_in_a_final_block() -> None:
    bench = issued()
    bench.tell(OutcomesFinal(PREPARED_UNTIL_S + 1, ()))
    assert locks(bench) == ()


def test_expired_transition_is_no_longer_sent() -> None:
    bench = prepared()
    bench.block(1, time_s=PREPARED_UNTIL_S + 1)
    assert bench.state_of("B-1") is State.PREPARED
    bench.tell(OutcomesFinal(PREPARED_UNTIL_S + 1, ()))
    assert bench.state_of("B-1") is None
    bench.forget()
    bench.wait(60_000)
    assert bench.said(PreparedTransaction) == []


# What becomes of its transaction meanwhile.


def test_prepared_transition_that_is_committed_is_confirmed_here_too() -> None:
    bench = prepared()
    bench.block(1, committed(status=LedgerStatus.SKIPPED))
    assert bench.state_of("B-1") is State.PREPARED
    bench.block(2, committed())
    assert bench.state_of("B-1") is State.CONFIRMED
    bench.tell(BlocksRemoved(1, (committed(),)))
    assert bench.state_of("B-1") is None, "the issuing goes on with it"
    bench.forget()
    bench.wait(10_000)
    assert bench.said(PreparedTransaction, B)


def test_delegating_it_again_changes_nothing_but_its_number() -> None:
    bench = prepared()
    bench.delegate("B-1", submit_mode=EXTERNAL, number=2)
    assert answers(bench, B) == [Answer.HELD]
    assert bench.state_of("B-1") is State.PREPARED
    assert bench.transaction("B-1").number.counter == 2


def test_sender_that_voids_it_has_it_assembled_anew_while_the_prepared_one_goes_its_way() -> None:
    bench = prepared()
    bench.delegate("B-1", submit_mode=EXTERNAL, number=2, is_voiding=True)
    bench.assemble(void_transition("B-1"))
    acknowledge(bench)
    assert bench.state_of("B-1") is State.ENDORSEMENT_GATHERING
    assert MADE.leaf in bench.sequencer.kept.standing
    bench.sign()
    bench.permit()
    (order,) = bench.write_rounds()
    bench.block(1, LedgerOutcome(MADE.intent, order.leaves[0], order.digest, LedgerStatus.COMMITTED))
    assert MADE.leaf not in bench.sequencer.kept.standing


def test_prepared_intent_is_explained() -> None:
    found = explain_at_coordinator(prepared().sequencer, MADE.intent)
    assert found is not None
    assert (found.waits_for, found.who) == ("its sender to acknowledge the prepared transition", (B,))


def test_silent_senders_prepared_intent_leaves_the_memory_and_is_sent_all_the_same() -> None:
    bench = prepared()
    bench.tell(ConnectionLost(B))
    bench.wait(61_000)
    assert bench.state_of("B-1") is None
    assert MADE.leaf in bench.coordinator.issuing.open


# After the coordinator stepped down, and after a restart.


def test_issuing_goes_on_after_the_coordinator_stepped_down() -> None:
    bench = prepared()
    bench.ask_to_yield(C, HandoverReason.TRIED)
    assert bench.state_of("B-1") is None
    bench.forget()
    bench.wait(2_000)
    assert bench.said(PreparedTransaction, B)
    acknowledge(bench)
    assert bench.coordinator.issuing.open == {}


def is_awake(bench: Bench) -> bool:
    return bench.sequencer.is_awake


def test_restarted_node_sends_what_was_not_acknowledged_and_keeps_its_states() -> None:
    bench = restarted()
    assert bench.said(PreparedTransaction, B) == [message()]
    assert is_awake(bench)
    acknowledge(bench)
    assert not is_awake(bench)
    assert locks(bench) == (INPUT,)


def test_restarted_node_sends_nothing_that_was_acknowledged() -> None:
    bench = restarted(is_acknowledged=True)
    assert bench.said(PreparedTransaction) == []
    assert locks(bench) == (INPUT,)


def test_intent_whose_prepared_transition_is_on_its_way_is_held_and_listed() -> None:
    bench = restarted()
    bench.delegate("B-1", submit_mode=EXTERNAL)
    assert answers(bench, B) == [Answer.HELD]
    assert bench.coordinator.transactions == {}
    assert bench.said(CoordinatorHeartbeat, B)[-1].intents == (ListedIntent(MADE.intent, "Prepared"),)


def test_intent_whose_sender_voids_it_is_not_held_for_what_is_on_its_way() -> None:
    bench = restarted()
    bench.delegate("B-1", submit_mode=EXTERNAL, is_voiding=True)
    assert answers(bench, B) == [Answer.ACCEPTED]


def test_restarted_coordinator_does_not_wait_for_flush_points_that_its_own_index_has_settled() -> None:
    point = handed("A-1")
    settled = LedgerOutcome(point.point.intent, point.transition.leaf, point.point.digest, LedgerStatus.COMMITTED)
    bench = CoordinatorBench(B, incarnation=2, height=400, stored=StoredContract(indexed=(settled,)))
    bench.beat(A)
    bench.delegate("C-1")
    request_ = bench.said(HandoverRequest, A)[-1]
    bench.hear(A, Handover(request_.request_id, (point,)), height=400)
    assert bench.state() is CoordinatorState.ACTIVE
    assert bench.coordinator.graph.foreign() == ()


# At an endorser.


def endorsing(**options: object) -> Bench:
    """C is asked for a prepared transition, and the domain has nothing against it."""
    bench = Bench(**{"node": C, **options})  # type: ignore[arg-type]
    bench.hear(A, request(MADE, valid_until_s=PREPARED_UNTIL_S))
    bench.judge(A, RequestId(1, 1), b"signature")
    return bench


def test_states_that_an_endorser_keeps_are_recorded_in_the_step_that_answers() -> None:
    bench = Bench(node=C)
    bench.hear(A, request(MADE, valid_until_s=PREPARED_UNTIL_S))
    bench.forget()
    bench.judge(A, RequestId(1, 1), b"signature")
    assert bench.effects[0] == Persist(ADDRESS, (PreparedEndorsed((KEPT,)),))
    assert [answer.signature for answer in responses(bench)] == [b"signature"]


def test_endorser_answers_a_copy_of_the_request_without_a_second_record() -> None:
    bench = endorsing()
    bench.forget()
    bench.hear(A, request(MADE, valid_until_s=PREPARED_UNTIL_S))
    assert [answer.signature for answer in responses(bench)] == [b"signature"]
    assert records(bench) == []
    assert bench.take(CheckRound) == []


def test_second_round_of_the_same_states_is_signed_without_a_second_record() -> None:
    bench = endorsing()
    bench.forget()
    bench.hear(A, request(MADE, valid_until_s=PREPARED_UNTIL_S, request_id=RequestId(1, 2)))
    bench.judge(A, RequestId(1, 2), b"signature")
    assert [answer.signature for answer in responses(bench)] == [b"signature"]
    assert records(bench) == []
    assert MADE.leaf in bench.sequencer.kept.signed


@pytest.mark.parametrize("is_restarted", [False, True])
def test_other_intents_that_spend_its_states_are_refused_across_restarts(is_restarted: bool) -> None:
    bench = Bench(node=C, stored=StoredContract(endorsed=(KEPT,))) if is_restarted else endorsing()
    bench.forget()
    bench.hear(A, request(transition("B-9", INPUT), request_id=RequestId(1, 2)))
    (answer,) = responses(bench)
    assert [refusal.reason for refusal in answer.refusals] == ["a state is kept for a prepared transition"]
    assert bench.take(CheckRound) == []


def test_other_versions_of_its_intent_are_checked_as_ever() -> None:
    bench = endorsing()
    bench.forget()
    bench.hear(A, request(prepared_transition("B-1", INPUT, version=1), request_id=RequestId(1, 2)))
    assert len(bench.take(CheckRound)) == 1


def test_what_was_signed_away_while_the_domain_was_judging_is_refused() -> None:
    bench = Bench(node=C)
    bench.hear(A, request(transition("B-9", INPUT), request_id=RequestId(1, 2)))
    bench.hear(A, request(MADE, valid_until_s=PREPARED_UNTIL_S))
    bench.judge(A, RequestId(1, 1), b"signature")
    bench.forget()
    bench.judge(A, RequestId(1, 2), b"signature")
    (answer,) = responses(bench)
    assert answer.signature == b""
    assert [refusal.intent for refusal in answer.refusals] == [intent_id("B-9")]


def test_verdict_on_a_harmless_round_keeps_no_states_for_a_prepared_one_under_the_same_id() -> None:
    """The second round comes when a lost check would be repeated, and before the verdict on the first."""
    bench = Bench(node=C)
    harmless = request(transition("B-9"))
    bench.hear(A, harmless)
    bench.wait(bench.config.request_timeout_ms)
    bench.hear(A, request(MADE, valid_until_s=PREPARED_UNTIL_S))
    assert [check.digest for check in bench.take(CheckRound)] == [harmless.digest]
    bench.tell(RoundChecked(A, RequestId(1, 1), b"signature", digest=harmless.digest))
    assert records(bench) == []
    assert [answer.digest for answer in responses(bench)] == [harmless.digest]


def test_signature_of_a_prepared_round_does_not_leave_for_another_round_under_the_same_id() -> None:
    """Else it would leave, and nothing would be kept."""
    bench = Bench(node=C)
    made = request(MADE, valid_until_s=PREPARED_UNTIL_S)
    bench.hear(A, made)
    bench.wait(bench.config.request_timeout_ms)
    bench.hear(A, request(transition("B-9")))
    [check] = bench.take(CheckRound)
    assert responses(bench) == []
    bench.tell(RoundChecked(A, RequestId(1, 1), b"signature", digest=check.digest))
    assert [(answer.digest, answer.signature) for answer in responses(bench)] == [(made.digest, b"signature")]
    assert records(bench) == [PreparedEndorsed((KEPT,))]


@pytest.mark.parametrize("digest", [request(transition("B-9")).digest, b""], ids=["another", "none"])
def test_verdict_that_names_another_round_signs_nothing(digest: Digest) -> None:
    bench = Bench(node=C)
    bench.hear(A, request(MADE, valid_until_s=PREPARED_UNTIL_S))
    bench.tell(RoundChecked(A, RequestId(1, 1), b"signature", digest=digest))
    assert (records(bench), responses(bench)) == ([], [])
    bench.judge(A, RequestId(1, 1), b"signature")
    assert records(bench) == [PreparedEndorsed((KEPT,))]


def test_prepared_transition_may_be_valid_for_a_day_and_no_other() -> None:
    for made, is_fine in ((MADE, True), (replace(transition("B-1"), valid_until_s=PREPARED_UNTIL_S), False)):
        bench = Bench(node=C)
        bench.hear(A, request(made, valid_until_s=PREPARED_UNTIL_S))
        assert bool(bench.take(CheckRound)) is is_fine


def test_endorser_lets_go_when_the_intent_has_its_outcome_or_the_validity_is_over() -> None:
    for events in (
        (BlockIndexed(1, GENESIS_S, (committed(),)),),
        (OutcomesFinal(GENESIS_S, (committed(),)),),
        (OutcomesFinal(PREPARED_UNTIL_S + 1, ()),),
    ):
        bench = endorsing()
        bench.forget()
        for event in events:
            bench.tell(event)
        bench.hear(A, request(transition("B-9", INPUT), request_id=RequestId(1, 2)))
        assert len(bench.take(CheckRound)) == 1


def test_coordinator_of_the_same_node_leaves_alone_what_its_endorser_signed_away() -> None:
    bench = CoordinatorBench(A, stored=StoredContract(endorsed=(KEPT,)))
    assert locks(bench) == (INPUT,)
