"""No sender takes what all need: places, bytes, locks and states by sender (protocol §7)."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

import pytest

from rota.model.config import Config
from rota.model.types import Contract, DelegationNumber, Leaf, Mode, NodeName, RequestId, StateId, Transition
from rota.node.explanation import explain_at_coordinator
from rota.sequencer import quotas
from rota.sequencer.coordinator import REDIRECTS_MAX
from rota.sequencer.graph import SNAPSHOT_STATES_MAX
from rota.sequencer.held_intent import State
from rota.sequencer.kept import SNAPSHOT_LOCKS_MAX
from rota.sequencer.shares import PROVEN_MAX, SENDERS_RECKONED, Proven, Shares
from rota.sequencer.signers import ENDORSED_ENOUGH
from rota.wire.messages import (
    Answer,
    AssembleRequest,
    AssembleResponse,
    AssemblyOutcome,
    AssemblyResult,
    Delegation,
    DelegationCommand,
)
from tests.sequencer.coordinator_bench import (
    CoordinatorBench,
    active,
    answers,
    endorsed_by_others,
    handed,
    name_of,
    parked,
)
from tests.sequencer.kit import A, B, C, contract, intent, intent_id, transition
from tests.sequencer.test_message_sizes import making, sized

NOTARISED = endorsed_by_others(endorsers=(C,))


# Shares.


@pytest.mark.parametrize(
    ("of", "most"),
    [
        (contract(A, B, C), 7_000),
        (contract(A, mode=Mode.SENDER), 12_000),
        (contract(A, mode=Mode.STATIC), 6_000 + 3_000 // SENDERS_RECKONED),
    ],
)
def test_sender_that_is_alone_gets_all_but_the_shares_of_others(of: Contract, most: int) -> None:
    shares = Shares(of, proven(B))
    shares.take(B, most if of.mode is not Mode.RING else 8_000)
    assert not shares.has_room(B, 1, 12_000)
    shares.give_back(B, 1)
    assert shares.has_room(B, 1, 12_000)


def test_others_always_get_their_shares_and_all_of_it_together_is_never_too_much() -> None:
    shares = Shares(contract(A, B, C), proven())
    for sender in (A, B, C):
        while shares.has_room(sender, 7, 120):
            shares.take(sender, 7)
    assert shares.held == {A: 77, B: 21, C: 21}
    assert not shares.has_room(A, 1, 119)
    assert shares.total == 119


def test_everybody_has_a_place_where_there_are_hardly_more_than_senders() -> None:
    """Seed 39: of six places half was divided among five senders, nobody had a share, and one that floods had all."""
    shares = Shares(contract(A, B, C), proven())
    for sender in (C, B, A):
        while shares.has_room(sender, 1, 4):
            shares.take(sender, 1)
    assert shares.held == {C: 2, B: 1, A: 1}


def proven(*senders: NodeName) -> Proven:
    known = Proven(A)
    for sender in senders:
        known.note(sender)
    return known


def fill(shares: Shares, sender: NodeName, amount: int, most: int) -> int:
    """A sender takes as much as it can; how much that is."""
    while shares.has_room(sender, amount, most):
        shares.take(sender, amount)
    return shares.held.get(sender, 0)


def test_newcomers_to_a_contract_for_anybody_have_room_beside_a_proven_sender_that_takes_all_it_can() -> None:
    shares = Shares(contract(A, mode=Mode.STATIC), proven(B))
    assert fill(shares, B, 1, 1_280) == 640 + 20
    for number in range(SENDERS_RECKONED):
        assert fill(shares, NodeName(str(number)), 10, 1_280) == 20
    assert fill(shares, NodeName("one more"), 1, 1_280) == 0


def test_stranger_that_is_alone_gets_a_quarter_and_its_share() -> None:
    shares = Shares(contract(A, mode=Mode.STATIC), proven())
    assert fill(shares, B, 1, 1_280) == 320 + 20


def test_stranger_becomes_proven_with_what_it_holds() -> None:
    known = proven()
    shares = Shares(contract(A, mode=Mode.STATIC), known)
    assert fill(shares, B, 1, 1_280) == 340
    known.note(B)
    assert fill(shares, B, 1, 1_280) == 660


@pytest.mark.parametrize("mode", [Mode.STATIC, Mode.SENDER])
@pytest.mark.parametrize("count", [16, 64, 1_000])
def test_strangers_that_collude_do_not_shut_out_a_proven_sender(count: int, mode: Mode) -> None:
    shares = Shares(contract(A, mode=mode), proven(B), is_endorsers=True)
    for number in range(count):
        fill(shares, NodeName(f"colluder-{number}"), 1, 4_096)
    assert shares.total <= 2_048
    assert fill(shares, B, 1, 4_096) >= 1_024


@pytest.mark.parametrize("count", [16, 64])
def test_proven_senders_that_collude_leave_another_one_its_share(count: int) -> None:
    colluders = [NodeName(f"colluder-{number}") for number in range(count)]
    shares = Shares(contract(A, mode=Mode.STATIC), proven(B, *colluders))
    for sender in (*colluders, *(NodeName(f"stranger-{number}") for number in range(count))):
        fill(shares, sender, 1, 4_096)
    assert fill(shares, B, 1, 4_096) == 1_024 // (count + 2)


@pytest.mark.parametrize("most", [1, 2, 3, 6, 17])
def test_sender_gets_something_of_a_small_resource(most: int) -> None:
    assert fill(Shares(contract(A, mode=Mode.STATIC), proven()), B, 1, most) >= 1
    assert Shares(contract(A, mode=Mode.STATIC), proven()).has_room(B, most, most)


@pytest.mark.parametrize("most", [4, 6, 12, 40])
def test_sender_that_floods_leaves_every_other_its_first_place_of_a_small_resource(most: int) -> None:
    """Seeds 20331 and 20386: shares were smaller than one place, and a stranger that floods had all."""
    shares = Shares(contract(A, mode=Mode.STATIC), proven())
    fill(shares, C, 1, most)
    assert shares.has_room(B, 1, most)
    shares.take(B, 1)
    if most > 6:
        assert shares.has_room(NodeName("another"), 1, most)


def test_proven_senders_are_remembered_up_to_a_number_and_the_node_itself_always() -> None:
    known = proven(*(NodeName(str(number)) for number in range(PROVEN_MAX)), A)
    assert len(known.senders) == PROVEN_MAX
    assert A in known.senders
    assert NodeName("0") not in known.senders
    known.note(NodeName("1"))
    known.note(NodeName("new"))
    assert NodeName("1") in known.senders
    assert NodeName("2") not in known.senders


# Places.


def test_one_sender_does_not_take_all_places() -> None:
    bench = active(config=Config(in_flight_max=12))
    bench.delegate(*(f"B-{number}" for number in range(12)))
    assert answers(bench, B) == [Answer.ACCEPTED] * 8 + [Answer.FULL] * 4
    bench.delegate("C-1", "C-2", "C-3")
    assert answers(bench, C) == [Answer.ACCEPTED] * 2 + [Answer.FULL]
    [(peer, request)] = bench.asked(AssembleRequest)
    bench.hear(peer, AssembleResponse(request.request_id, (parked("B-0"),)))
    bench.delegate("B-9")
    assert answers(bench, B) == [Answer.ACCEPTED]


@pytest.mark.parametrize("count", [16, 64])
def test_colluding_strangers_do_not_take_the_places_of_a_sender_that_made_progress(count: int) -> None:
    bench = active(of=contract(A, mode=Mode.STATIC, endorsers=(C,)), config=Config(in_flight_max=256))
    made = transition("B-1")
    bench.bring(State.ENDORSEMENT_GATHERING, made)
    bench.sign()
    bench.permit()
    bench.write_rounds()
    bench.block(1, bench.outcome(made))
    bench.wait(bench.config.heartbeat_ms)
    for number in range(count):
        bench.delegate(*(f"N{number}-{each}" for each in range(160)))
    assert 64 <= bench.coordinator.quotas.places.total <= 128
    bench.delegate(*(f"B-{number}" for number in range(2, 66)))
    assert answers(bench, B) == [Answer.ACCEPTED] * 64


def test_what_a_user_asks_for_is_not_kept() -> None:
    bench = active()
    wordy = intent("B-1", b"x" * 1_000, parties=(intent("C-1").sender,), depends_on=(intent_id("B-0"),))
    delegation = Delegation(wordy, DelegationNumber(1, 1))
    bench.hear(B, DelegationCommand(RequestId(1, 1), (delegation,)))
    kept = bench.transaction("B-1").intent
    assert kept == replace(wordy, payload=b"", parties=(), depends_on=())


# Transitions.


def test_one_sender_does_not_take_all_memory() -> None:
    made = [sized(f"B-{number}", 10_000) for number in range(3)]
    bench = active(of=NOTARISED, config=Config(held_bytes_max=36_000))
    bench.bring(State.ENDORSEMENT_GATHERING, *made)
    assert bench.state_of("B-2") is State.ASSEMBLING
    assert bench.coordinator.quotas.held_bytes.held == {B: 20_000}
    bench.asked(AssembleRequest)
    bench.wait(bench.config.assemble_timeout_ms)
    bench.delegate("C-1")
    [(_, request)] = bench.asked(AssembleRequest, C)
    other = sized("C-1", 6_000)
    answer = AssemblyResult(other.intent, AssemblyOutcome.ASSEMBLED, DelegationNumber(1, 1), other)
    bench.hear(C, AssembleResponse(request.request_id, (answer,)))
    assert bench.state_of("C-1") is State.ENDORSEMENT_GATHERING


def test_memory_is_given_back_when_a_version_is_dropped_and_when_it_is_over() -> None:
    bench = active(of=NOTARISED)
    held = bench.coordinator.quotas.held_bytes
    made = transition("B-1")
    bench.bring(State.ENDORSEMENT_GATHERING, made)
    size_bytes = bench.transaction("B-1").size_bytes
    assert held.held == {B: size_bytes}
    bench.refuse(C, "B-1")
    assert held.held == {}
    bench.wait(bench.config.retry_backoff_ms)
    bench.assemble(made)
    bench.sign()
    bench.permit()
    bench.write_rounds()
    bench.block(1, bench.outcome(made))
    bench.wait(bench.config.heartbeat_ms)
    assert (held.held, held.total, bench.coordinator.quotas.places.held) == ({}, 0, {})


def flood(bench: CoordinatorBench, *made: Transition) -> None:
    """B assembles these, slot after slot, until it is not asked any more."""
    by_intent = {each.intent: each for each in made}
    bench.delegate(*(name_of(each.intent) for each in made))
    while asked := bench.asked(AssembleRequest, B):
        results = tuple(
            AssemblyResult(intent, AssemblyOutcome.ASSEMBLED, DelegationNumber(1, 1), by_intent[intent])
            for intent in asked[-1][1].intents
        )
        bench.hear(B, AssembleResponse(asked[-1][1].request_id, results))


def test_one_sender_does_not_take_all_locks() -> None:
    bench = active(of=NOTARISED)
    bench.coordinator.signers.endorsed[B] = ENDORSED_ENOUGH
    bench.coordinator.graph.place_foreign(handed("A-1"), 10**9)
    spent = (StateId(Leaf(number.to_bytes(32, "big")), 0) for number in range(SNAPSHOT_LOCKS_MAX))
    flood(bench, *(transition(f"B-{number}", *islice(spent, 15)) for number in range(256)))
    share = SNAPSHOT_LOCKS_MAX // 6
    assert bench.coordinator.graph.lock_count == (SNAPSHOT_LOCKS_MAX - 2 * share) // 15 * 15
    bench.wait(bench.config.retry_backoff_max_ms)
    bench.asked(AssembleRequest)
    bench.wait(bench.config.assemble_timeout_ms)
    bench.delegate("C-1")
    [(_, request)] = bench.asked(AssembleRequest, C)
    other = transition("C-1", *(StateId(Leaf(b"c" * 32), number) for number in range(15)))
    answer = AssemblyResult(other.intent, AssemblyOutcome.ASSEMBLED, DelegationNumber(1, 1), other)
    bench.hear(C, AssembleResponse(request.request_id, (answer,)))
    assert bench.state_of("C-1") is State.ENDORSEMENT_GATHERING


def test_one_sender_does_not_fill_the_snapshot_with_its_states() -> None:
    """The attack: three large transitions on the way, and nothing of anybody was assembled any more."""
    bench = active(of=NOTARISED)
    for number in range(4):
        bench.bring(State.ENDORSEMENT_GATHERING, sized(f"B-{number}", bench.config.transition_bytes_max))
    assert bench.coordinator.has_room_for_a_slot
    bench.delegate("C-1")
    [(_, request)] = bench.asked(AssembleRequest, C)
    assert len(request.snapshot.states) == 2


def test_many_small_states_do_not_fill_the_snapshot_either() -> None:
    bench = active(of=NOTARISED)
    bench.coordinator.graph.place_foreign(handed("A-1"), 10**9)
    flood(bench, *(making(f"B-{number}", *(b"",) * 15) for number in range(256)))
    assert bench.coordinator.has_room_for_a_slot
    bench.delegate("C-1")
    [(_, request)] = bench.asked(AssembleRequest, C)
    share = SNAPSHOT_STATES_MAX // 6
    assert len(request.snapshot.states) == (SNAPSHOT_STATES_MAX - 2 * share) // 15 * 15 + 1


def test_states_of_a_sender_on_probation_that_have_no_room_stay_hidden_when_they_are_dispatched() -> None:
    bench = active(of=NOTARISED)
    largest = bench.config.transition_bytes_max
    for number in range(2):
        bench.bring(State.ENDORSEMENT_GATHERING, sized(f"B-{number}", largest))
    bench.sign()
    bench.permit()
    bench.write_rounds()
    bench.coordinator.isolate(B)
    bench.bring(State.DISPATCHED, sized("B-2", largest))
    bench.delegate("C-1")
    [(_, request)] = bench.asked(AssembleRequest, C)
    assert len(request.snapshot.states) == 2


# Slots.


def test_results_that_were_not_asked_for_are_not_even_measured() -> None:
    bench = active(config=Config(slot_ms_max=500))
    bench.delegate("B-1", "B-2")
    [(_, request)] = bench.asked(AssembleRequest)
    unasked = [sized(f"B-9{number}", bench.config.transition_bytes_max) for number in range(4)]
    results = tuple(
        AssemblyResult(made.intent, AssemblyOutcome.ASSEMBLED, DelegationNumber(1, 1), made)
        for made in (*unasked, transition("B-1"), transition("B-2"))
    )
    bench.hear(B, AssembleResponse(request.request_id, results))
    assert bench.coordinator.slots.sizes == {}
    assert bench.coordinator.quotas.held_bytes.total < bench.config.transition_bytes_max


def test_second_result_for_the_same_intent_in_one_answer_changes_nothing() -> None:
    bench = active()
    bench.delegate("B-1")
    [(_, request)] = bench.asked(AssembleRequest)
    results = tuple(
        AssemblyResult(intent_id("B-1"), AssemblyOutcome.ASSEMBLED, DelegationNumber(1, 1), made)
        for made in (transition("B-1"), transition("B-1", version=1))
    )
    bench.hear(B, AssembleResponse(request.request_id, results))
    assert bench.transaction("B-1").transition == transition("B-1")


def test_senders_that_were_redirected_are_remembered_up_to_a_number() -> None:
    bench = CoordinatorBench(B, of=contract(A, mode=Mode.STATIC, endorsers=(A,)))
    for number in range(REDIRECTS_MAX + 1):
        bench.delegate(f"N{number}-1")
    assert len(bench.coordinator.redirects) == REDIRECTS_MAX
    assert NodeName("N0") not in bench.coordinator.redirects


def slow_slot(bench: CoordinatorBench, ms: int, count: int) -> None:
    """B takes so long for a slot, and says that it took no time."""
    [(_, request)] = bench.asked(AssembleRequest, B)
    bench.wait(ms)
    results = tuple(
        AssemblyResult(asked, AssemblyOutcome.PARKED, DelegationNumber(1, 1)) for asked in request.intents[:count]
    )
    bench.asked(AssembleRequest)
    bench.hear(B, AssembleResponse(request.request_id, results))


def test_sender_that_answers_slowly_gets_no_more_time_than_the_others() -> None:
    bench = active(config=Config(assembly_slot_max=1))
    bench.delegate("B-1", "B-2")
    bench.delegate("C-1", "C-2")
    slow_slot(bench, 1_500, 1)
    [(_, request)] = bench.asked(AssembleRequest, C)
    bench.hear(C, AssembleResponse(request.request_id, (parked("C-1"),)))
    [(peer, request)] = bench.asked(AssembleRequest)
    assert peer == C
    bench.hear(C, AssembleResponse(request.request_id, (parked("C-2"),)))
    bench.wait(1_499)
    assert bench.asked(AssembleRequest) == []
    bench.wait(1)
    assert [peer for peer, _ in bench.asked(AssembleRequest)] == [B]


def test_slow_sender_that_is_alone_does_not_wait() -> None:
    bench = active(config=Config(assembly_slot_max=1))
    bench.delegate("B-1", "B-2")
    slow_slot(bench, 1_500, 1)
    assert [peer for peer, _ in bench.asked(AssembleRequest)] == [B]


def test_history_of_an_intent_at_its_coordinator_is_bounded() -> None:
    bench = active(of=NOTARISED, config=Config(history_max=2))
    bench.bring(State.ENDORSEMENT_GATHERING, transition("B-1"))
    assert len(bench.transaction("B-1").history) == 2


def test_no_more_is_assembled_than_rounds_can_hold_and_each_sender_has_its_share(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every transition under way is in the snapshot of each further slot: under overload a network did less."""
    monkeypatch.setattr(quotas, "ASSEMBLED_SPARE", 2)
    config = Config(round_max=2, dispatch_ahead_max=1, rounds_open_max=1, assembly_slot_max=1)
    bench = active(config=config, of=NOTARISED)
    assert bench.coordinator.quotas.assembled_max == 6
    flood(bench, *(transition(f"B-{number}") for number in range(8)))
    taken = bench.coordinator.quotas.assembled
    assert taken.held == {B: 4}
    assert not bench.coordinator.quotas.may_assemble(B)
    assert bench.state_of("B-4") is State.POOLED
    explained = explain_at_coordinator(bench.sequencer, intent_id("B-4"))
    assert explained is not None
    assert explained.waits_for == "transitions under way to end: no more are assembled before"
    # A sender that has its share left is asked all the same.
    bench.delegate("C-1")
    assert bench.asked(AssembleRequest, C)


def test_waiting_intents_are_assembled_when_those_under_way_have_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quotas, "ASSEMBLED_SPARE", 0)
    config = Config(round_max=1, dispatch_ahead_max=1, rounds_open_max=1, assembly_slot_max=1)
    bench = active(config=config, of=NOTARISED)
    made = transition("B-1")
    bench.bring(State.DISPATCHED, made)
    bench.bring(State.ENDORSEMENT_GATHERING, transition("B-2"))
    bench.delegate("B-3")
    assert not bench.asked(AssembleRequest, B)
    bench.block(1, bench.outcome(made))
    assert [request.intents for _, request in bench.asked(AssembleRequest, B)] == [(intent_id("B-3"),)]
    # A block that is taken back brings its transitions back, also beyond the bound.
    assert bench.coordinator.quotas.assembled.held == {B: 1}
    bench.coordinator.transactions[made.intent].count_as_assembled(True)
    bench.coordinator.transactions[made.intent].count_as_assembled(True)
    assert bench.coordinator.quotas.assembled.held == {B: 2}
