"""One member cannot stop the others: bare leaves, probation, rounds apart (protocol §7)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rota.machine.context import Ids
from rota.machine.effects import DispatchRound
from rota.machine.events import Tick
from rota.model.config import Config
from rota.model.types import DelegationNumber, Leaf, NodeName, StateId, Transition
from rota.sequencer.context import Context
from rota.sequencer.held_intent import State
from rota.sequencer.probation import PERMITTED_MAX, PERMITTED_PER_REFUSED, SENDERS_MAX, Probation
from rota.wire.messages import (
    AssembleRequest,
    AssembleResponse,
    AssemblyOutcome,
    AssemblyResult,
    DispatchConfirmationError,
    DispatchConfirmationRequest,
    EndorsementError,
    EndorsementRequest,
    EndorsementResponse,
    ErrorCode,
    IntentError,
    Rejection,
)
from tests.sequencer.coordinator_bench import CoordinatorBench, active, endorsed_by_others, handed, name_of, settled
from tests.sequencer.kit import GENESIS_S, A, B, C, D, contract, intent_id, transition

CONFIG = Config()
UNKNOWN = StateId(Leaf(b"u" * 32), 0)
NOTARISED = endorsed_by_others(endorsers=(C,))
SHORT_S = GENESIS_S + CONFIG.validity_s // 2 - 1


def shared_round(*made: Transition, config: Config = CONFIG) -> CoordinatorBench:
    """These transitions, of whatever senders, are in one round of a contract with a notary, which has been asked."""
    bench = active(of=NOTARISED, config=replace(config, rounds_open_max=1))
    bench.bring(State.ENDORSEMENT_GATHERING, transition("C-0"))
    for each in made:
        bench.delegate(name_of(each.intent))
        bench.assemble(each)
    bench.sign()
    bench.permit("C-0")
    bench.write_rounds()
    return bench


def rounds(bench: CoordinatorBench) -> list[tuple[NodeName | None, list[str]]]:
    """The rounds that are open: whose own they are, and their members."""
    opened = bench.coordinator.rounds.rounds.values()
    return [(each.apart, [name_of(intent) for intent in each.members]) for each in opened]


def on_probation(sender: NodeName = B, **options: object) -> CoordinatorBench:
    """An active coordinator that has found this sender at fault."""
    bench = active(of=NOTARISED, **options)
    bench.coordinator.isolate(sender)
    return bench


def say_missing(bench: CoordinatorBench, endorser: NodeName, *leaves: Leaf) -> None:
    """An endorser lacks what these leaves made, in every round that it was asked about."""
    for _, asked in bench.asked(EndorsementRequest, endorser):
        bench.hear(endorser, EndorsementError(asked.request_id, Rejection.MISSING_STATES, missing=leaves))


# Permission.


def test_sender_that_withholds_permission_for_16_intents_does_not_stop_the_others() -> None:
    """The attack: sixteen rounds of a sender that never permits were all that a coordinator had under way."""
    bench = active(of=NOTARISED)
    for number in range(CONFIG.dispatch_ahead_max):
        bench.bring(State.CONFIRMING_DISPATCH, transition(f"B-{number}"))
    bench.bring(State.ENDORSEMENT_GATHERING, transition("C-1"))
    bench.wait(CONFIG.permission_timeout_ms)
    bench.sign()
    bench.permit("C-1")
    assert [name_of(each.intent) for order in bench.write_rounds() for each in order.transitions] == ["C-1"]


def test_round_goes_without_the_member_that_is_not_permitted_and_its_signatures_stay_good() -> None:
    withheld, other = transition("B-1"), transition("C-1")
    bench = shared_round(withheld, other)
    bench.sign()
    bench.permit("C-1")
    assert bench.take(DispatchRound) == []
    bench.wait(CONFIG.permission_timeout_ms)
    [order] = bench.take(DispatchRound)
    assert (order.leaves, order.transitions) == ((withheld.leaf, other.leaf), (other,))
    assert order.signatures == ((C, b"by C"),)
    assert bench.state_of("B-1") is State.ASSEMBLING


def test_what_stands_on_a_withheld_transition_is_reset_and_does_not_wait_for_it() -> None:
    withheld = transition("B-1")
    user, other = transition("C-1", withheld.outputs[0].id), transition("C-2")
    bench = shared_round(withheld, user, other)
    bench.sign()
    bench.permit("C-1", "C-2")
    bench.forget()
    bench.wait(CONFIG.permission_timeout_ms)
    [order] = bench.take(DispatchRound)
    assert order.transitions == (other,)
    assert [name_of(intent) for _, request in bench.asked(AssembleRequest, C) for intent in request.intents] == ["C-1"]


def test_bare_leaf_that_is_committed_all_the_same_confirms_the_intent() -> None:
    withheld = transition("B-1")
    bench = shared_round(withheld, transition("C-1"))
    bench.sign()
    bench.permit("C-1")
    committed = bench.outcome(withheld)
    bench.wait(CONFIG.permission_timeout_ms)
    bench.assemble(transition("B-1", version=1))
    bench.block(1, committed)
    assert bench.state_of("B-1") is State.CONFIRMED


def test_all_that_a_withholding_sender_has_in_shared_rounds_leaves_at_once() -> None:
    """Else it could answer one request at a time, each as late as it may: round after round would wait for it."""
    bench = active(of=NOTARISED)
    made = [transition("B-1")]
    for number in range(2, 5):
        made.append(transition(f"B-{number}", made[-1].outputs[0].id))
    for each in made:
        bench.bring(State.ENDORSEMENT_GATHERING, each)
        bench.sign()
    assert [bench.state_of(f"B-{number}") for number in range(1, 5)] == [
        State.CONFIRMING_DISPATCH,
        *[State.BLOCKED] * 3,
    ]
    bench.wait(CONFIG.permission_timeout_ms)
    assert rounds(bench) == []


def test_sender_that_permits_late_is_on_probation_and_what_it_permitted_goes() -> None:
    bench = active(of=NOTARISED)
    bench.bring(State.CONFIRMING_DISPATCH, transition("B-1"))
    bench.wait(CONFIG.permission_timeout_ms // 2 - 1)
    bench.permit()
    assert not bench.coordinator.probation.has(B)
    bench.bring(State.CONFIRMING_DISPATCH, transition("B-2"))
    bench.wait(CONFIG.permission_timeout_ms // 2)
    bench.permit()
    assert bench.coordinator.probation.has(B)
    assert bench.state_of("B-2") is State.READY_FOR_DISPATCH


def test_to_ask_for_the_states_gives_a_sender_no_more_time_and_is_granted_once() -> None:
    bench = active(of=NOTARISED)
    bench.bring(State.CONFIRMING_DISPATCH, transition("B-1"))
    bench.wait(CONFIG.permission_timeout_ms - 1)
    [request, *_] = bench.asked(DispatchConfirmationRequest)
    lacking = (IntentError(intent_id("B-1"), ErrorCode.STATES_MISSING),)
    bench.hear(B, DispatchConfirmationError(request[1].request_id, lacking))
    [(_, again)] = bench.asked(DispatchConfirmationRequest)
    bench.hear(B, DispatchConfirmationError(again.request_id, lacking))
    assert bench.asked(DispatchConfirmationRequest) == []
    assert bench.state_of("B-1") is None


def test_states_that_are_asked_for_do_not_renew_the_time() -> None:
    bench = active(of=NOTARISED)
    bench.bring(State.CONFIRMING_DISPATCH, transition("B-1"))
    bench.wait(CONFIG.permission_timeout_ms - 1)
    [request, *_] = bench.asked(DispatchConfirmationRequest)
    lacking = (IntentError(intent_id("B-1"), ErrorCode.STATES_MISSING),)
    bench.hear(B, DispatchConfirmationError(request[1].request_id, lacking))
    bench.wait(1)
    assert bench.coordinator.probation.has(B)
    assert bench.coordinator.permissions.open == {}


def refuse_permission(bench: CoordinatorBench, name: str) -> None:
    bench.bring(State.CONFIRMING_DISPATCH, transition(name))
    [(_, request)] = bench.asked(DispatchConfirmationRequest)
    errors = (IntentError(intent_id(name), ErrorCode.CANCELLED),)
    bench.hear(B, DispatchConfirmationError(request.request_id, errors))


def test_sender_that_refuses_permission_too_often_is_on_probation() -> None:
    bench = active(of=NOTARISED)
    refuse_permission(bench, "B-1")
    assert not bench.coordinator.probation.has(B)
    refuse_permission(bench, "B-2")
    assert bench.coordinator.probation.has(B)


def test_sender_may_refuse_permission_for_some_of_many() -> None:
    bench = active(of=NOTARISED)
    refuse_permission(bench, "B-1")
    bench.bring(State.READY_FOR_DISPATCH, *(transition(f"B-9{number}") for number in range(PERMITTED_PER_REFUSED)))
    refuse_permission(bench, "B-2")
    assert not bench.coordinator.probation.has(B)


# Rounds apart.


def test_sender_on_probation_shares_no_round_and_its_rounds_count_against_nobody() -> None:
    bench = on_probation(config=Config(rounds_open_max=1, dispatch_ahead_max=1))
    for number in range(3):
        bench.bring(State.ENDORSEMENT_GATHERING, transition(f"B-{number}"))
    bench.bring(State.ENDORSEMENT_GATHERING, transition("C-1"))
    assert rounds(bench) == [(B, ["B-0"]), (B, ["B-1"]), (None, ["C-1"])]


def test_rounds_of_a_sender_on_probation_are_few_and_the_rest_goes_together() -> None:
    bench = on_probation()
    for number in range(5):
        bench.bring(State.ENDORSEMENT_GATHERING, transition(f"B-{number}"))
    bench.sign()
    bench.permit()
    written = bench.write_rounds()
    bench.block(1, *(bench.outcome(each) for order in written for each in order.transitions))
    assert rounds(bench) == [(B, ["B-2", "B-3", "B-4"])]


def test_rounds_apart_and_those_of_before_a_restart_are_bounded_together() -> None:
    bench = on_probation()
    config = bench.config
    everything = config.dispatch_ahead_max + config.apart_rounds_max * 3
    points = [handed(f"A-{number}") for number in range(everything)]
    bench.coordinator.restored.update((point.transition.leaf, point) for point in points)
    bench.bring(State.ENDORSEMENT_GATHERING, transition("B-1"))
    assert rounds(bench) == []
    bench.block(1, settled(points[0]))
    assert rounds(bench) == [(B, ["B-1"])]


def test_nothing_is_built_on_a_sender_on_probation_before_it_is_dispatched() -> None:
    bench = on_probation()
    made = transition("B-1")
    bench.bring(State.READY_FOR_DISPATCH, made)
    bench.delegate("C-1")
    [(_, request)] = bench.asked(AssembleRequest)
    assert request.snapshot.states == ()
    bench.hear(C, AssembleResponse(request.request_id, (result(transition("C-1")),)))
    bench.write_rounds()
    bench.delegate("C-2")
    [(_, request)] = bench.asked(AssembleRequest)
    assert made.outputs[0] in request.snapshot.states


def result(made: Transition) -> AssemblyResult:
    return AssemblyResult(made.intent, AssemblyOutcome.ASSEMBLED, DelegationNumber(1, 1), made)


def test_sender_on_probation_builds_on_itself_and_what_it_spent_is_not_shown() -> None:
    bench = on_probation()
    first = transition("B-1")
    second = transition("B-2", first.outputs[0].id)
    bench.bring(State.DISPATCHED, first, second)
    assert rounds(bench) == [(B, ["B-1", "B-2"])]
    bench.delegate("C-1")
    [(_, request)] = bench.asked(AssembleRequest)
    assert request.snapshot.states == second.outputs


def test_what_stands_on_what_is_apart_goes_apart_too() -> None:
    bench = on_probation(config=Config(apart_rounds_max=1))
    bench.delegate("B-1", "B-2")
    [(_, request)] = bench.asked(AssembleRequest)
    first = transition("B-1")
    bench.hear(B, AssembleResponse(request.request_id, (result(first),)))
    bench.coordinator.probation.standings.clear()
    bench.hear(B, AssembleResponse(request.request_id, (result(transition("B-2", first.outputs[0].id)),)))
    assert rounds(bench) == [(B, ["B-1"])]
    assert bench.transaction("B-2").is_apart


def test_fault_takes_what_is_being_endorsed_out_of_its_shared_round_and_resets_what_others_built_on_it() -> None:
    made = transition("B-1")
    bench = shared_round(made, transition("C-1", made.outputs[0].id), transition("C-2"))
    bench.coordinator.isolate(B)
    bench.coordinator.isolate(B)
    bench.tell(Tick())
    assert rounds(bench)[1:] == [(None, ["C-2"]), (B, ["B-1"])]
    assert bench.state_of("C-1") is State.ASSEMBLING


def test_fault_takes_what_awaits_a_round_out_of_the_shared_ones() -> None:
    bench = active(of=NOTARISED, config=Config(rounds_open_max=1))
    for name in ("C-0", "B-1", "C-1"):
        bench.bring(State.ENDORSEMENT_GATHERING, transition(name))
    bench.coordinator.isolate(B)
    bench.tell(Tick())
    assert rounds(bench) == [(None, ["C-0"]), (B, ["B-1"])]


def test_refused_sender_is_on_probation() -> None:
    bench = active(of=NOTARISED)
    bench.bring(State.ENDORSEMENT_GATHERING, transition("B-1"))
    bench.refuse(C, "B-1")
    bench.wait(CONFIG.retry_backoff_ms)
    bench.assemble(transition("B-1", version=1))
    assert rounds(bench) == [(B, ["B-1"])]


def test_sender_whose_transition_endorsers_cannot_judge_does_not_hold_up_the_next_round_too() -> None:
    """Its node does not tell them the verifier of its party: each waits five seconds for it, in every round."""
    bench = shared_round(transition("B-1"), transition("C-1"))
    bench.fail_on(C, "B-1")
    assert rounds(bench)[1:] == [(None, ["C-1"]), (B, ["B-1"])]
    bench.bring(State.ENDORSEMENT_GATHERING, transition("B-2"))
    bench.bring(State.ENDORSEMENT_GATHERING, transition("C-2"))
    bench.sign()
    assert rounds(bench)[1:] == [(None, ["C-1"]), (B, ["B-1"]), (B, ["B-2"]), (None, ["C-2"])]


def test_endorser_that_fails_on_all_senders_of_a_round_puts_none_on_probation() -> None:
    bench = shared_round(transition("B-1"), transition("C-1"))
    bench.fail_on(C, "B-1", "C-1")
    assert not bench.coordinator.probation.standings
    assert rounds(bench)[1:] == [(B, ["B-1"]), (C, ["C-1"])]


def test_sender_that_is_refused_for_good_is_on_probation() -> None:
    bench = active(of=NOTARISED, config=Config(endorse_retry_max=1))
    bench.bring(State.ENDORSEMENT_GATHERING, transition("B-1"))
    bench.refuse(C, "B-1")
    assert bench.coordinator.probation.has(B)


# States that nobody knows.


def test_transition_with_an_input_that_nobody_knows_does_not_freeze_its_round() -> None:
    bench = shared_round(transition("B-1", UNKNOWN), transition("C-1"))
    say_missing(bench, C, UNKNOWN.leaf)
    assert rounds(bench)[1:] == [(None, ["B-1", "C-1"])]
    bench.wait(CONFIG.request_timeout_ms)
    say_missing(bench, C, UNKNOWN.leaf)
    assert rounds(bench)[1:] == [(None, ["C-1"]), (B, ["B-1"])]
    assert bench.coordinator.probation.has(B)
    assert not bench.coordinator.probation.has(C)
    bench.sign()
    bench.permit("C-1")
    assert [name_of(each.intent) for order in bench.write_rounds() for each in order.transitions] == ["C-1"]


def test_endorser_that_finds_the_state_in_time_separates_nobody() -> None:
    bench = shared_round(transition("B-1", UNKNOWN), transition("C-1"))
    say_missing(bench, C, UNKNOWN.leaf)
    bench.wait(CONFIG.request_timeout_ms)
    bench.sign()
    assert bench.state_of("B-1") is State.CONFIRMING_DISPATCH
    assert not bench.coordinator.probation.has(B)


def test_endorsers_that_can_be_spared_separate_nobody_by_what_they_say_they_lack() -> None:
    bench = active(of=contract(A, B, C, endorsers=(B, C, D), threshold=2))
    bench.bring(State.ENDORSEMENT_GATHERING, transition("B-1", UNKNOWN))
    for _ in range(5):
        say_missing(bench, D, UNKNOWN.leaf)
        bench.wait(CONFIG.request_timeout_ms)
    assert rounds(bench) == [(None, ["B-1"])]
    bench.sign(B, C)
    assert bench.state_of("B-1") is State.CONFIRMING_DISPATCH


def test_state_that_no_member_names_separates_the_senders_without_a_fault() -> None:
    bench = shared_round(transition("B-1"), transition("C-1"))
    for _ in range(2):
        say_missing(bench, C, UNKNOWN.leaf)
        bench.wait(CONFIG.request_timeout_ms)
    assert rounds(bench)[1:] == [(B, ["B-1"]), (C, ["C-1"])]
    assert bench.coordinator.probation.standings == {}


def test_sender_whose_one_transition_is_stuck_goes_on_with_the_others() -> None:
    bench = on_probation(config=Config(apart_rounds_max=1))
    bench.bring(State.ENDORSEMENT_GATHERING, transition("B-1"), transition("B-2", UNKNOWN), transition("B-3"))
    for _ in range(2):
        say_missing(bench, C, UNKNOWN.leaf)
        bench.wait(CONFIG.request_timeout_ms)
    assert rounds(bench) == [(B, ["B-1"])]
    bench.sign()
    bench.permit()
    bench.write_rounds()
    bench.block(1, bench.outcome(transition("B-1")))
    assert rounds(bench) == [(B, ["B-2"])]
    for _ in range(2):
        say_missing(bench, C, UNKNOWN.leaf)
        bench.wait(CONFIG.request_timeout_ms)
    assert bench.state_of("B-2") is State.ASSEMBLING
    assert bench.transaction("B-2").refused_count == 0
    assert rounds(bench) == [(B, ["B-3"])]


# Bounds.


def test_short_bound_expires_nobody_else() -> None:
    bench = shared_round(transition("C-1"), transition("B-1", valid_until_s=SHORT_S), transition("C-2"))
    assert rounds(bench)[1:] == [(B, ["B-1"]), (None, ["C-1", "C-2"])]
    assert bench.coordinator.probation.has(B)


def test_half_of_the_validity_is_enough() -> None:
    bench = shared_round(transition("C-1"), transition("B-1", valid_until_s=SHORT_S + 1))
    assert rounds(bench)[1:] == [(None, ["C-1", "B-1"])]


def test_bound_that_became_short_while_it_waited_goes_apart_without_a_fault() -> None:
    bench = active(of=NOTARISED, config=Config(rounds_open_max=1))
    first = transition("B-1")
    for made in (transition("C-0"), first, transition("B-2", first.outputs[0].id)):
        bench.bring(State.ENDORSEMENT_GATHERING, made)
    bench.block(1, time_s=GENESIS_S + CONFIG.validity_s // 2 + 1)
    bench.sign()
    assert rounds(bench) == [(None, ["C-0"]), (B, ["B-1"])]
    assert bench.state_of("B-2") is State.ASSEMBLING
    assert bench.coordinator.probation.standings == {}


# What is false.


@pytest.mark.parametrize("flaw", ["leaf", "content", "id", "intent"])
def test_transition_that_is_not_what_its_leaf_says_joins_no_round(flaw: str) -> None:
    made = transition("B-1")
    [state] = made.outputs
    false = {
        "leaf": replace(made, inputs=(UNKNOWN,)),
        "content": replace(made, outputs=(replace(state, content=b"false"),)),
        "id": replace(made, outputs=(replace(state, id=StateId(made.leaf, 1)),)),
        "intent": transition("B-2"),
    }[flaw]
    bench = active(of=NOTARISED)
    bench.delegate("B-1")
    [(_, request)] = bench.asked(AssembleRequest)
    answer = AssemblyResult(intent_id("B-1"), AssemblyOutcome.ASSEMBLED, DelegationNumber(1, 1), false)
    bench.hear(B, AssembleResponse(request.request_id, (answer,)))
    assert bench.state_of("B-1") is None
    assert bench.coordinator.probation.has(B)


# Endorsers.


def test_endorser_that_never_answers_delays_nothing_while_it_can_be_spared() -> None:
    bench = active(of=contract(A, B, C, endorsers=(B, C, D), threshold=2))
    for number in range(4):
        bench.bring(State.ENDORSEMENT_GATHERING, transition(f"B-{number}"))
        bench.sign(B, C)
        bench.permit()
        bench.write_rounds()
        assert bench.state_of(f"B-{number}") is State.DISPATCHED


def test_signature_of_a_round_apart_is_the_same_as_any() -> None:
    bench = on_probation()
    bench.bring(State.ENDORSEMENT_GATHERING, transition("B-1"))
    [(_, asked)] = bench.asked(EndorsementRequest, C)
    bench.hear(C, EndorsementResponse(asked.request_id, asked.digest, b"by C"))
    assert bench.state_of("B-1") is State.CONFIRMING_DISPATCH


# The standing of a sender.


def probation() -> Probation:
    return Probation(Context(A, Ids(1), contract(), Config(probation_ms=10, probation_max_ms=35)))


def lengths(standing: Probation, *faults_at_ms: int) -> list[int]:
    found = []
    for now_ms in faults_at_ms:
        standing.context.now_ms = now_ms
        standing.note_fault(B)
        found.append(standing.standings[B].until_ms - now_ms)
    return found


def test_probation_ends() -> None:
    standing = probation()
    lengths(standing, 100)
    for now_ms, is_on in ((109, True), (110, False)):
        standing.context.now_ms = now_ms
        assert standing.has(B) is is_on
    assert not standing.has(C)


def test_fault_during_a_probation_begins_it_anew() -> None:
    assert lengths(probation(), 0, 5, 9) == [10, 10, 10]


def test_fault_after_a_probation_doubles_it_up_to_the_longest() -> None:
    assert lengths(probation(), 0, 10, 30, 65) == [10, 20, 35, 35]


@pytest.mark.parametrize(("clean_ms", "length_ms"), [(0, 35), (19, 35), (20, 20), (29, 20), (30, 10), (10_000, 10)])
def test_clean_time_halves_the_next_probation(clean_ms: int, length_ms: int) -> None:
    assert lengths(probation(), 0, 10, 30 + clean_ms) == [10, 20, length_ms]


def test_what_is_remembered_of_senders_is_bounded() -> None:
    standing = probation()
    for number in range(SENDERS_MAX + 1):
        standing.note_fault(NodeName(str(number)))
        standing.is_too_much(NodeName(str(number)))
    assert len(standing.standings) == len(standing.permitting) == SENDERS_MAX
    assert NodeName("0") not in standing.standings


def test_refusals_are_forgotten_after_many_permissions() -> None:
    standing = probation()
    assert not standing.is_too_much(B)
    for _ in range(PERMITTED_MAX):
        standing.note_permitted(B)
    assert standing.permitting == {}
    standing.note_permitted(B)
    assert not standing.is_too_much(B)
    assert standing.is_too_much(B)
