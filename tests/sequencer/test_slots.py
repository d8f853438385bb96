"""Assembly slots: turns, order, repeats, lost turns, and answers that do not count (protocol §4.2, §7)."""

from __future__ import annotations

import pytest

from rota.machine.events import ConnectionLost, ConnectionMade
from rota.model.blocks import LedgerStatus
from rota.model.config import Config
from rota.model.types import DelegationNumber, HeartbeatNumber, Mode, NodeName, RequestId, Transition, Tried
from rota.sequencer.held_intent import State
from rota.sequencer.signers import ENDORSED_ENOUGH
from rota.wire.messages import (
    AssembleError,
    AssembleRequest,
    AssembleResponse,
    AssemblyOutcome,
    AssemblyResult,
    EndorsementRequest,
    ErrorCode,
    HandoverReason,
    IntentError,
)
from tests.sequencer.coordinator_bench import (
    CoordinatorBench,
    active,
    endorsed_by_others,
    handed,
    name_of,
    parked,
    restarted,
    settled,
)
from tests.sequencer.kit import A, B, C, contract, intent_id, remade, transition

NUMBER = DelegationNumber(1, 1)


def open_slot(bench: CoordinatorBench) -> tuple[NodeName, AssembleRequest]:
    """The one assemble request that is out; it is then no longer among the effects."""
    [asked] = bench.asked(AssembleRequest)
    return asked


def names(request: AssembleRequest) -> list[str]:
    """The intents of a slot, in order."""
    return [name_of(intent) for intent in request.intents]


def assembled(made: Transition, number: DelegationNumber = NUMBER) -> AssemblyResult:
    """A result of the slot."""
    return AssemblyResult(made.intent, AssemblyOutcome.ASSEMBLED, number, made)


def answer(bench: CoordinatorBench, *results: AssemblyResult) -> AssembleRequest:
    """The slot's sender answers with these results only."""
    peer, request = open_slot(bench)
    bench.hear(peer, AssembleResponse(request.request_id, results))
    return request


# Turns and order.


def test_slot_holds_the_intents_of_one_sender_in_the_order_of_their_delegation() -> None:
    bench = active()
    bench.delegate("B-2", "B-1", "B-3")
    peer, request = open_slot(bench)
    assert (peer, names(request)) == (B, ["B-2", "B-1", "B-3"])


def test_slot_holds_no_more_than_its_maximum() -> None:
    bench = active(config=Config(assembly_slot_max=2))
    bench.delegate("B-1", "B-2", "B-3")
    assert names(bench.assemble()) == ["B-1", "B-2"]
    assert names(bench.assemble()) == ["B-3"]


def test_one_slot_is_open_at_a_time() -> None:
    bench = active()
    bench.delegate("B-1")
    bench.delegate("C-1")
    assert open_slot(bench)[0] == B
    assert bench.state_of("C-1") is State.POOLED


def test_senders_that_both_wait_take_turns() -> None:
    bench = active(config=Config(assembly_slot_max=1))
    bench.delegate("B-0", "B-1", "B-2", "B-3")
    bench.delegate("C-1", "C-2")
    bench.assemble()
    assert [names(bench.assemble())[0] for _ in range(5)] == ["C-1", "B-1", "C-2", "B-2", "B-3"]


def test_next_slot_is_assembled_on_the_last_ones_states_while_that_is_being_endorsed() -> None:
    bench = active()
    bench.coordinator.signers.endorsed[B] = ENDORSED_ENOUGH
    bench.delegate("B-1")
    bench.delegate("C-1")
    made = transition("B-1", transition("X-1").outputs[0].id)
    first = bench.assemble(made)
    assert first.snapshot.states == ()
    assert bench.said(EndorsementRequest, B)
    _, second = open_slot(bench)
    assert second.snapshot.states == made.outputs
    assert second.snapshot.locks == made.inputs


def test_follower_waits_blocked_until_its_predecessor_had_its_first_assembly() -> None:
    bench = active(config=Config(assembly_slot_max=1))
    bench.delegate("B-1", "B-2")
    assert bench.state_of("B-2") is State.PREASSEMBLY_BLOCKED
    bench.assemble()
    assert bench.state_of("B-2") is State.ASSEMBLING


@pytest.mark.parametrize("outcome", [AssemblyOutcome.PARKED, AssemblyOutcome.REVERTED])
def test_predecessor_that_parks_or_reverts_lets_its_follower_go(outcome: AssemblyOutcome) -> None:
    bench = active(config=Config(assembly_slot_max=1))
    bench.delegate("B-1", "B-2")
    answer(bench, AssemblyResult(intent_id("B-1"), outcome, NUMBER))
    assert names(open_slot(bench)[1]) == ["B-2"]


def test_predecessor_that_is_refused_by_its_sender_lets_its_follower_go() -> None:
    bench = active(config=Config(assembly_slot_max=1))
    bench.delegate("B-1", "B-2")
    peer, request = open_slot(bench)
    error = IntentError(intent_id("B-1"), ErrorCode.NOT_CURRENT_DELEGATE)
    bench.hear(peer, AssembleError(request.request_id, (error,)))
    assert bench.state_of("B-1") is None
    assert names(open_slot(bench)[1]) == ["B-2"]


def test_follower_of_one_in_the_middle_of_its_assembly_still_waits_for_it() -> None:
    bench = active()
    bench.delegate("B-1")
    bench.delegate("B-2")
    assert bench.state_of("B-2") is State.PREASSEMBLY_BLOCKED
    bench.assemble()
    assert names(open_slot(bench)[1]) == ["B-2"]


def test_intents_of_another_sender_wait_for_nobody() -> None:
    bench = active()
    bench.delegate("B-1")
    bench.delegate("C-1")
    assert bench.state_of("C-1") is State.POOLED


def test_one_that_comes_back_for_a_second_assembly_blocks_no_newcomer() -> None:
    bench = active(config=Config(assembly_slot_max=1))
    made = transition("B-1")
    bench.bring(State.DISPATCHED, made)
    bench.delegate("C-1")
    bench.block(1, bench.outcome(made, LedgerStatus.SKIPPED, is_contention=True))
    bench.delegate("B-2")
    assert bench.state_of("B-1") is State.POOLED
    assert bench.state_of("B-2") is State.POOLED


def unusable_twice(bench: CoordinatorBench, made: Transition) -> None:
    """Its sender answers twice with what is locked; the second time it has to wait."""
    for _ in range(2):
        peer, request = open_slot(bench)
        followers = [parked(name) for name in names(request) if intent_id(name) != made.intent]
        bench.hear(peer, AssembleResponse(request.request_id, (assembled(made), *followers)))


def locked() -> tuple[CoordinatorBench, Transition]:
    """A state is locked, and a transition of B-1 wants to spend it."""
    bench = active(config=Config(assembly_slot_max=1))
    spent = transition("X-1").outputs[0].id
    bench.bring(State.ENDORSEMENT_GATHERING, transition("C-1", spent))
    return bench, transition("B-1", spent)


def test_follower_waits_while_its_unassembled_predecessor_backs_off() -> None:
    bench, conflicting = locked()
    bench.delegate("B-1", "B-2")
    unusable_twice(bench, conflicting)
    assert bench.asked(AssembleRequest) == []
    assert bench.state_of("B-2") is State.PREASSEMBLY_BLOCKED
    bench.wait(500)
    assert names(open_slot(bench)[1]) == ["B-1"]


# A sender that does not answer.


def test_request_is_repeated_with_the_same_id() -> None:
    bench = active()
    bench.delegate("B-1")
    bench.wait(1_000)
    asked = bench.asked(AssembleRequest)
    assert len(asked) == 2
    assert asked[0] == asked[1]
    assert bench.transaction("B-1").request_count == 1


def test_sender_that_does_not_answer_loses_its_turn_and_holds_nobody_up() -> None:
    bench = active()
    bench.delegate("B-1")
    bench.delegate("C-1")
    bench.wait(1_999)
    assert bench.asked(AssembleRequest, C) == []
    bench.wait(1)
    assert bench.state_of("B-1") is State.POOLED
    assert len(bench.asked(AssembleRequest, C)) == 1


def test_strangers_that_let_every_slot_time_out_leave_every_second_one_to_proven_senders() -> None:
    """Forty nodes that were only registered; B had a transition committed here."""
    bench = active(of=contract(A, mode=Mode.STATIC, endorsers=(C,)))
    bench.sequencer.context.proven.note(B)
    for number in range(40):
        bench.delegate(f"N{number}-1")
    asked: dict[RequestId, NodeName] = {}
    for number in range(10):
        bench.delegate(f"B-{number + 1}")
        for _ in range(2):
            for peer, request in bench.asked(AssembleRequest):
                asked[request.request_id] = peer
                if peer == B:
                    results = tuple(assembled(transition(name_of(each))) for each in request.intents)
                    bench.hear(B, AssembleResponse(request.request_id, results))
        bench.wait(bench.config.assemble_timeout_ms)
    senders = list(asked.values())
    assert senders.count(B) == 9
    assert len(set(senders)) == 11, "the others have their turns too"


def test_sender_that_lost_its_turn_comes_back_with_a_new_request_after_a_backoff() -> None:
    bench = active()
    bench.delegate("B-1", "B-2")
    _, first = open_slot(bench)
    bench.wait(2_000)
    bench.asked(AssembleRequest)
    assert bench.state_of("B-2") is State.PREASSEMBLY_BLOCKED
    bench.wait(186)
    assert bench.asked(AssembleRequest) == []
    bench.wait(250 - 186)
    _, second = open_slot(bench)
    assert second.request_id > first.request_id
    assert second.intents == first.intents[:1], "and with half as many, in case there were too many"


def lose_turns(bench: CoordinatorBench, count: int) -> int:
    """Let the sender be silent on purpose for some turns; how long the last backoff was."""
    waited_ms = 0
    for _ in range(count):
        bench.wait(bench.config.assemble_timeout_ms)
        bench.asked(AssembleRequest)
        waited_ms = 0
        while not bench.said(AssembleRequest):
            bench.wait(1)
            waited_ms += 1
    return waited_ms


def test_backoff_of_lost_turns_grows_and_an_answer_ends_it() -> None:
    bench = active()
    bench.delegate("B-1")
    assert lose_turns(bench, 1) <= 250
    assert 750 <= lose_turns(bench, 2) <= 1_000
    bench.assemble()
    bench.delegate("B-2")
    assert lose_turns(bench, 1) <= 250


def test_answer_to_a_lost_turn_changes_nothing() -> None:
    bench = active()
    bench.delegate("B-1")
    peer, request = open_slot(bench)
    bench.wait(2_000)
    bench.hear(peer, AssembleResponse(request.request_id, (assembled(transition("B-1")),)))
    assert bench.state_of("B-1") is State.POOLED


def test_silent_sender_is_passed_over_until_it_is_back() -> None:
    bench = active(config=Config(assembly_slot_max=1))
    bench.delegate("B-1", "B-2", "B-3")
    bench.delegate("C-1")
    bench.tell(ConnectionLost(C))
    assert [names(bench.assemble())[0] for _ in range(2)] == ["B-1", "B-2"]
    assert bench.state_of("C-1") is State.POOLED
    bench.tell(ConnectionMade(C))
    assert [names(bench.assemble())[0] for _ in range(2)] == ["B-3", "C-1"]


def test_sender_that_lists_itself_as_tried_is_asked_all_the_same() -> None:
    bench = active()
    bench.delegate("B-1", tried=(Tried(B, HeartbeatNumber(9, 9)),))
    assert open_slot(bench)[0] == B


def test_sender_whose_word_ends_its_silence_is_asked_at_once() -> None:
    bench = active()
    bench.delegate("B-1")
    bench.tell(ConnectionLost(B))
    bench.wait(10_000)
    assert bench.state_of("B-1") is State.POOLED
    bench.forget()
    bench.delegate("B-1", number=2)
    assert open_slot(bench)[0] == B


# Answers that do not count.


def test_answer_of_another_node_changes_nothing() -> None:
    bench = active()
    bench.delegate("B-1")
    _, request = open_slot(bench)
    bench.hear(C, AssembleResponse(request.request_id, (assembled(transition("B-1")),)))
    bench.hear(C, AssembleError(request.request_id, (IntentError(intent_id("B-1"), ErrorCode.UNKNOWN_INTENT),)))
    assert bench.state_of("B-1") is State.ASSEMBLING


def test_answer_to_another_request_changes_nothing() -> None:
    bench = active()
    bench.delegate("B-1")
    stale = RequestId(0, 1)
    bench.hear(B, AssembleResponse(stale, (assembled(transition("B-1")),)))
    bench.hear(B, AssembleError(stale, (IntentError(intent_id("B-1"), ErrorCode.UNKNOWN_INTENT),)))
    assert bench.state_of("B-1") is State.ASSEMBLING


def test_second_copy_of_an_answer_changes_nothing() -> None:
    bench = active()
    bench.delegate("B-1", "B-2")
    peer, request = open_slot(bench)
    half = AssembleResponse(request.request_id, (assembled(transition("B-1")),))
    bench.hear(peer, half)
    bench.hear(peer, half)
    bench.hear(peer, AssembleResponse(request.request_id, (assembled(transition("B-1", version=1)),)))
    assert bench.transaction("B-1").leaf == transition("B-1").leaf
    assert bench.state_of("B-2") is State.ASSEMBLING


def test_answer_about_an_intent_that_is_not_in_the_slot_changes_nothing() -> None:
    bench = active()
    bench.delegate("B-1")
    bench.delegate("C-1")
    peer, request = open_slot(bench)
    bench.hear(peer, AssembleResponse(request.request_id, (assembled(transition("C-1")),)))
    bench.hear(peer, AssembleError(request.request_id, (IntentError(intent_id("C-1"), ErrorCode.UNKNOWN_INTENT),)))
    assert bench.state_of("C-1") is State.POOLED
    assert bench.state_of("B-1") is State.ASSEMBLING


def test_answer_after_we_stepped_aside_changes_nothing() -> None:
    bench = active()
    bench.delegate("B-1")
    peer, request = open_slot(bench)
    bench.ask_to_yield(C, HandoverReason.TRIED)
    bench.hear(peer, AssembleResponse(request.request_id, (assembled(transition("B-1")),)))
    assert not bench.coordinator.transactions
    assert bench.coordinator.graph.placed == {}
    assert bench.asked(EndorsementRequest) == []


# Answers in part, and wrong ones.


def test_slot_stays_open_until_every_intent_is_answered() -> None:
    bench = active()
    bench.delegate("B-1", "B-2", "B-3")
    bench.delegate("C-1")
    peer, request = open_slot(bench)
    bench.hear(peer, AssembleResponse(request.request_id, (assembled(transition("B-1")), parked("B-3"))))
    assert bench.asked(AssembleRequest) == []
    error = IntentError(intent_id("B-2"), ErrorCode.FAILED)
    bench.hear(peer, AssembleError(request.request_id, (error,)))
    assert open_slot(bench)[0] == C


def test_what_was_answered_before_the_turn_was_lost_stays() -> None:
    bench = active()
    bench.delegate("B-1", "B-2")
    answer(bench, assembled(transition("B-1")))
    bench.wait(2_000)
    assert bench.state_of("B-1") is State.ENDORSEMENT_GATHERING
    assert bench.state_of("B-2") is State.POOLED


def test_slot_whose_last_intent_leaves_is_over() -> None:
    bench = active()
    bench.delegate("B-1")
    bench.delegate("C-1")
    open_slot(bench)
    bench.block(1, settled(handed("B-1")))
    assert bench.state_of("B-1") is State.CONFIRMED
    assert open_slot(bench)[0] == C


def test_intent_that_leaves_a_slot_of_several_is_no_longer_waited_for() -> None:
    bench = active()
    bench.delegate("B-1", "B-2")
    peer, request = open_slot(bench)
    bench.block(1, settled(handed("B-1")))
    bench.delegate("C-1")
    assert bench.asked(AssembleRequest) == []
    bench.hear(peer, AssembleResponse(request.request_id, (assembled(transition("B-2")),)))
    assert bench.state_of("B-2") is State.ENDORSEMENT_GATHERING
    assert open_slot(bench)[0] == C


@pytest.mark.parametrize("wrong", [None, transition("B-9")])
def test_assembly_without_a_transition_of_that_intent_is_an_error_and_the_intent_leaves(
    wrong: Transition | None,
) -> None:
    bench = active()
    bench.delegate("B-1")
    answer(bench, AssemblyResult(intent_id("B-1"), AssemblyOutcome.ASSEMBLED, NUMBER, wrong))
    assert bench.state_of("B-1") is None
    assert bench.coordinator.graph.placed == {}


def test_assembly_that_spends_what_is_locked_goes_back_to_the_pool_and_is_asked_again_at_once() -> None:
    bench, conflicting = locked()
    bench.delegate("B-1")
    answer(bench, assembled(conflicting))
    assert conflicting.leaf not in bench.coordinator.graph.placed
    assert names(open_slot(bench)[1]) == ["B-1"]


def test_assembly_that_is_unusable_again_and_again_comes_back_more_and_more_slowly() -> None:
    bench, conflicting = locked()
    bench.delegate("B-1")
    unusable_twice(bench, conflicting)
    waits = []
    for _ in range(2):
        waited_ms = 0
        while not bench.said(AssembleRequest):
            bench.wait(1)
            waited_ms += 1
        waits.append(waited_ms)
        answer(bench, assembled(conflicting))
    assert 375 <= waits[0] <= 500 < waits[1] <= 1_000


def test_usable_assembly_ends_the_backoff_of_unusable_ones() -> None:
    bench, conflicting = locked()
    bench.delegate("B-1")
    answer(bench, assembled(conflicting))
    answer(bench, assembled(transition("B-1")))
    assert bench.transaction("B-1").unusable_count == 0


def test_what_was_assembled_on_an_unusable_one_in_the_same_slot_is_unusable_too() -> None:
    bench = active()
    spent = transition("X-1").outputs[0].id
    bench.bring(State.ENDORSEMENT_GATHERING, transition("C-1", spent))
    bad = transition("B-1", spent)
    on_top = transition("B-2", bad.outputs[0].id)
    reader = remade(transition("B-3"), reads=(on_top.outputs[0].id,))
    bench.delegate("B-1", "B-2", "B-3", "B-4")
    bench.assemble(bad, on_top, reader)
    assert bench.state_of("B-4") is State.ENDORSEMENT_GATHERING
    assert names(open_slot(bench)[1]) == ["B-1", "B-2", "B-3"]
    assert set(bench.coordinator.graph.placed) == {transition("C-1", spent).leaf, transition("B-4").leaf}


def test_what_was_assembled_on_something_that_went_meanwhile_is_unusable() -> None:
    point = handed("B-1")
    bench = restarted(point)
    bench.delegate("C-1")
    peer, request = open_slot(bench)
    assert request.snapshot.states == point.transition.outputs
    bench.block(1, settled(point, LedgerStatus.SKIPPED))
    bench.hear(
        peer, AssembleResponse(request.request_id, (assembled(transition("C-1", point.transition.outputs[0].id)),))
    )
    assert bench.coordinator.graph.placed == {}
    assert names(open_slot(bench)[1]) == ["C-1"]


def test_what_went_before_the_slot_began_is_not_held_against_it() -> None:
    bench = active(of=endorsed_by_others(endorsers=(B,)))
    first = transition("B-1")
    bench.bring(State.ENDORSEMENT_GATHERING, first)
    bench.refuse(B, "B-1")
    assert bench.coordinator.graph.placed == {}
    bench.wait(250)
    bench.assemble(first)
    assert bench.state_of("B-1") is State.ENDORSEMENT_GATHERING


def test_follower_that_is_unusable_before_its_predecessor_is_answered_is_blocked_again() -> None:
    bench = active()
    spent = transition("X-1").outputs[0].id
    bench.bring(State.ENDORSEMENT_GATHERING, transition("C-1", spent))
    bench.delegate("B-1", "B-2")
    peer, request = open_slot(bench)
    bench.hear(peer, AssembleResponse(request.request_id, (assembled(transition("B-2", spent)),)))
    assert bench.state_of("B-2") is State.PREASSEMBLY_BLOCKED
    bench.hear(peer, AssembleResponse(request.request_id, (assembled(transition("B-1")),)))
    assert names(open_slot(bench)[1]) == ["B-2"]


def test_greater_delegation_number_of_an_assembly_is_taken_over() -> None:
    bench = active()
    bench.delegate("B-1")
    answer(bench, assembled(transition("B-1"), DelegationNumber(1, 5)))
    assert bench.transaction("B-1").number == DelegationNumber(1, 5)


def test_lower_delegation_number_of_an_assembly_changes_nothing() -> None:
    bench = active()
    bench.delegate("B-1", number=7)
    answer(bench, assembled(transition("B-1"), DelegationNumber(1, 5)))
    assert bench.transaction("B-1").number == DelegationNumber(1, 7)


# How many a slot holds: as many as its sender assembles in `slot_ms_max`.


def take_slot(bench: CoordinatorBench, took_ms: int) -> int:
    """The slot's sender parks all of it and says how long that took; how many there were."""
    peer, request = open_slot(bench)
    results = tuple(parked(name) for name in names(request))
    bench.hear(peer, AssembleResponse(request.request_id, results, took_ms))
    return len(results)


def many_of_b(config: Config, count: int = 40) -> CoordinatorBench:
    bench = active(config=config)
    bench.delegate(*(f"B-{number}" for number in range(count)))
    return bench


def test_slot_of_a_slow_sender_is_as_long_as_it_assembles_in_the_time_of_one() -> None:
    bench = many_of_b(Config(assembly_slot_max=8, slot_ms_max=500))
    assert [take_slot(bench, took_ms) for took_ms in (1_000, 500, 500)] == [8, 4, 4]


def test_slot_is_never_shorter_than_one() -> None:
    bench = many_of_b(Config(assembly_slot_max=8, slot_ms_max=500))
    assert [take_slot(bench, took_ms) for took_ms in (1_000_000, 501, 10_000)] == [8, 1, 1]


def test_slot_of_a_sender_that_is_quick_again_grows_back_to_its_maximum() -> None:
    bench = many_of_b(Config(assembly_slot_max=8, slot_ms_max=500))
    assert [take_slot(bench, took_ms) for took_ms in (4_000, 250, 250, 250, 0)] == [8, 1, 2, 4, 8]
    assert bench.coordinator.slots.sizes == {}, "what is as ever is not kept"


def test_slot_of_a_sender_that_is_neither_slow_nor_quick_stays_as_long_as_it_is() -> None:
    bench = many_of_b(Config(assembly_slot_max=8, slot_ms_max=500))
    assert [take_slot(bench, took_ms) for took_ms in (1_000, 251, 499, 251)] == [8, 4, 4, 4]


def test_slow_sender_shortens_nobody_elses_slots() -> None:
    bench = many_of_b(Config(assembly_slot_max=2, slot_ms_max=500), count=4)
    bench.delegate("C-1", "C-2")
    assert take_slot(bench, 5_000) == 2
    peer, request = open_slot(bench)
    assert (peer, names(request)) == (C, ["C-1", "C-2"])


def test_sender_that_does_not_answer_is_asked_for_fewer_and_fewer() -> None:
    bench = many_of_b(Config(assembly_slot_max=4), count=4)
    sizes = []
    for _ in range(4):
        while not (asked := bench.asked(AssembleRequest)):
            bench.wait(250)
        sizes.append(len(asked[0][1].intents))
        bench.wait(2_000)
        bench.asked(AssembleRequest)
    assert sizes == [4, 2, 1, 1]


def test_slot_whose_answer_is_just_as_large_as_a_message_may_be_does_not_shorten_the_next() -> None:
    bench = many_of_b(Config(assembly_slot_max=2), count=4)
    open_slot(bench)
    slots, limit_bytes = bench.coordinator.slots, bench.config.message_bytes_max
    slots._note_pace(0, limit_bytes)
    assert slots.sizes == {}
    slots._note_pace(0, 1)
    assert slots.sizes == {B: 1}


def test_sender_that_takes_no_longer_than_a_slot_may_comes_back_at_once() -> None:
    bench = many_of_b(Config(assembly_slot_max=2, slot_ms_max=500), count=4)
    bench.delegate("C-1")
    peer, request = open_slot(bench)
    bench.wait(500)
    bench.hear(peer, AssembleResponse(request.request_id, tuple(parked(name) for name in names(request)), 500))
    assert bench.coordinator.slots.not_before_ms == {}
