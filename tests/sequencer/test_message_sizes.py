"""No message outgrows a frame, however large the states are and however many are under way (protocol §6)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.chain.effects import RoundDispatch
from rota.chain.events import Objection, TransactionRefused
from rota.exchange.distribution import parts_of
from rota.machine.effects import Effect, ReplyToUser, SendMessage
from rota.machine.events import IntentSubmitted
from rota.model.config import Config
from rota.model.digests import core_of, leaf_of, state_commitment
from rota.model.types import Digest, FlushPoint, HeartbeatNumber, Leaf, NodeName, RequestId, State, StateId, Transition
from rota.node.events import ForContract
from rota.node.explanation import explain_at_coordinator
from rota.sequencer.assembly import flaw_of_size
from rota.sequencer.events import AssemblyFinished, TransitionSigned
from rota.sequencer.graph import SNAPSHOT_STATES_MAX, Graph
from rota.sequencer.handover import POINTS_MAX, handover_of
from rota.sequencer.held_intent import State as TransactionState
from rota.sequencer.kept import SNAPSHOT_LOCKS_MAX
from rota.wire import Frame, decode_frame, encode_frame
from rota.wire.messages import (
    SUBMITTED_LISTED_MAX,
    Answer,
    AssembleRequest,
    AssembleResponse,
    AssemblyOutcome,
    AssemblyResult,
    DelegationAccepted,
    DelegationCommand,
    DispatchConfirmationError,
    DispatchConfirmationRequest,
    EndorsementRequest,
    EndorserSignature,
    Envelope,
    ErrorCode,
    HandedOver,
    HandedRound,
    Handover,
    IntentAnswer,
    IntentError,
    Message,
    StateDistribution,
    SubmitterHeartbeat,
)
from rota.wire.sizes import intent_bytes, transition_bytes
from tests.node.node_bench import NodeBench, order, restarted
from tests.sequencer.coordinator_bench import CoordinatorBench, active, handed_of, name_of, settled
from tests.sequencer.kit import ADDRESS, GENESIS_S, SEPARATOR, A, B, Bench, C, contract, digest_of, intent, intent_id
from tests.sequencer.test_assembly import HEIGHT, ask, bench_with

CONFIG = Config()
MEBIBYTE = 1_048_576
LARGEST = CONFIG.transition_bytes_max
REQUEST = RequestId(1, 1)


def fits(*bodies: Message) -> bool:
    """Each of these messages is read in a frame of its own."""
    frames = (encode_frame([Envelope(ADDRESS, REQUEST, 1, 1, body)]) for body in bodies)
    return all(isinstance(decode_frame(frame), Frame) for frame in frames)


def all_fit(effects: Iterable[Effect]) -> bool:
    return fits(*(effect.envelope.body for effect in effects if isinstance(effect, SendMessage)))


def making(
    name: str, *contents: bytes, inputs: tuple[StateId, ...] = (), seen_by: tuple[NodeName, ...] = (A, B, C)
) -> Transition:
    """A transition that makes these states; its leaf is right."""
    commitments = tuple(state_commitment(content) for content in contents)
    leaf = leaf_of(core_of(SEPARATOR, intent_id(name), inputs=inputs, outputs=commitments))
    made = tuple(
        State(StateId(leaf, number), commitment, seen_by, content)
        for number, (commitment, content) in enumerate(zip(commitments, contents, strict=True))
    )
    return Transition(intent_id(name), leaf, inputs, (), made, (), GENESIS_S + 600, b"signed")


def sized(name: str, size: int, **options: object) -> Transition:
    """A transition of that size, or the smallest that there is."""
    least = transition_bytes(making(name, b"", **options))  # type: ignore[arg-type]
    made = making(name, bytes(max(0, size - least)), **options)  # type: ignore[arg-type]
    assert transition_bytes(made) == max(size, least)
    return made


def states(count: int) -> tuple[StateId, ...]:
    return tuple(StateId(Leaf(number.to_bytes(32, "big")), number % 15) for number in range(count))


# At assembly.


def test_transition_with_states_that_no_message_holds_is_reverted_with_its_reason() -> None:
    assert flaw_of_size(sized("A-1", LARGEST), contract(), CONFIG) == ""
    flaw = flaw_of_size(sized("A-1", LARGEST + 1), contract(), CONFIG)
    assert flaw.startswith(f"too large: it takes {LARGEST + 1} bytes with the states that it makes, ")


def test_answer_to_a_slot_goes_in_as_many_messages_as_it_takes() -> None:
    names = [f"A-{number}" for number in range(1, 6)]
    bench = bench_with(*names)
    ask(bench, B, 10, *names)
    for name in names:
        made = replace(sized(name, LARGEST), signature=b"")
        bench.tell(AssemblyFinished(RequestId(1, 10), intent_id(name), AssemblyOutcome.ASSEMBLED, made))
        bench.tell(TransitionSigned(RequestId(1, 10), intent_id(name), b"s" * 256))
    told = bench.said(AssembleResponse, B)
    assert [len(response.results) for response in told] == [2, 2, 1]
    assert [name_of(result.intent) for response in told for result in response.results] == names
    assert fits(*told)


def test_coordinator_drops_what_is_larger_than_it_can_pass_on() -> None:
    bench = active()
    bench.delegate("B-1", "B-2")
    bench.assemble(sized("B-1", LARGEST), sized("B-2", LARGEST + 1))
    assert bench.state_of("B-1") is TransactionState.ENDORSEMENT_GATHERING
    assert bench.state_of("B-2") is None


def answer_in_parts(bench: CoordinatorBench, made: list[Transition]) -> AssembleRequest:
    """The slot's sender answers with one transition in each message."""
    [(peer, request)] = bench.asked(AssembleRequest)
    number = bench.transaction(name_of(request.intents[0])).number
    wanted = {transition.intent: transition for transition in made}
    for asked in request.intents:
        result = AssemblyResult(asked, AssemblyOutcome.ASSEMBLED, number, wanted[asked])
        bench.hear(peer, AssembleResponse(request.request_id, (result,)))
    return request


def test_sender_whose_answers_are_large_gets_shorter_slots_until_they_are_small_again() -> None:
    bench = active()
    size_max = bench.coordinator.slots.size_max
    large = [sized(f"B-{number}", LARGEST // 2) for number in range(8)]
    bench.delegate(*(name_of(each.intent) for each in large))
    answer_in_parts(bench, large)
    assert size_max(B) == 8 * CONFIG.message_bytes_max // sum(transition_bytes(each) for each in large)
    bench.coordinator.slots.sizes[C] = 5
    bench.delegate("C-1")
    bench.sign()
    bench.permit()
    for written in bench.write_rounds():
        bench.block(1, *(bench.outcome(each) for each in written.transitions))
    bench.sign()
    bench.permit()
    for written in bench.write_rounds():
        bench.block(2, *(bench.outcome(each) for each in written.transitions))
    bench.wait(CONFIG.heartbeat_ms)
    answer_in_parts(bench, [sized("C-1", 0)])
    assert size_max(C) == 10


# The snapshot.


def test_nothing_more_is_assembled_while_what_is_under_way_fills_a_message() -> None:
    bench = active()
    large = [handed_of(sized(f"B-{number}", LARGEST)) for number in range(4)]
    for each in large:
        bench.coordinator.graph.place_foreign(each, GENESIS_S + 600)
    bench.delegate("C-1")
    assert bench.asked(AssembleRequest) == []
    assert bench.state_of("C-1") is TransactionState.POOLED
    explained = explain_at_coordinator(bench.sequencer, intent_id("C-1"))
    assert explained is not None
    assert explained.waits_for == "what is under way to have its outcome: it fills a message"
    bench.block(1, *(settled(each) for each in large))
    [(peer, request)] = bench.asked(AssembleRequest)
    assert (peer, request.snapshot.states) == (C, ())


def test_snapshot_fits_to_its_last_byte_state_and_lock() -> None:
    graph = Graph()
    made = sized("A-1", LARGEST)
    graph.place(made)
    size = transition_bytes(made) - transition_bytes(replace(made, outputs=()))
    assert graph.fits_snapshot(size)
    assert not graph.fits_snapshot(size - 1)
    graph.remove(made.leaf)
    assert graph.fits_snapshot(0)


@pytest.mark.parametrize("extra", [0, 1])
def test_snapshot_has_its_number_of_locks_and_states(extra: int) -> None:
    locking, offering = Graph(), Graph()
    locks = states(SNAPSHOT_LOCKS_MAX + extra)
    point = FlushPoint(Digest(bytes(32)), intent_id("A-1"))
    locking.place_foreign(HandedOver(point, Transition(point.intent, Leaf(b"l" * 32), locks)), 900)
    many = tuple(State(state, bytes(32), (), b"") for state in states(SNAPSHOT_STATES_MAX + extra))
    offering.place_foreign(HandedOver(point, Transition(point.intent, Leaf(b"l" * 32), outputs=many)), 900)
    for graph in (locking, offering):
        assert graph.fits_snapshot(CONFIG.message_bytes_max) is (extra == 0)
        assert fits(AssembleRequest(REQUEST, (intent_id("A-1"),) * 64, graph.snapshot(A)))


# Rounds.


def test_round_takes_what_one_message_holds_and_the_rest_goes_into_the_next() -> None:
    bench = active()
    large = [sized(f"B-{number}", LARGEST) for number in range(3)]
    bench.delegate(*(name_of(each.intent) for each in large))
    bench.assemble(*large)
    asked = bench.asked(EndorsementRequest, C)
    assert [len(request.transitions) for _, request in asked] == [2, 1]
    assert fits(*(request for _, request in asked))


SIZES = st.lists(st.sampled_from([0, 1_000, 100_000, LARGEST // 3, LARGEST // 2, LARGEST - 1, LARGEST]), max_size=7)


@settings(max_examples=12, deadline=None)
@given(SIZES, st.booleans())
def test_every_message_of_a_coordinator_fits_a_frame(given: list[int], is_chain: bool) -> None:
    """From delegation to dispatch and hand-over, whatever the sizes, side by side or each on the one before."""
    bench = active()
    made: list[Transition] = []
    for number, size in enumerate(given):
        inputs = (made[-1].outputs[0].id,) if made and is_chain else ()
        made.append(sized(f"B-{number}", size, inputs=inputs))
    if made:
        bench.delegate(*(name_of(each.intent) for each in made))
        answer_in_parts(bench, made)
    bench.delegate("C-1")
    assert all_fit(bench.effects)
    for _ in given:
        bench.sign()
        for _, request in bench.asked(DispatchConfirmationRequest):
            errors = tuple(IntentError(item.intent, ErrorCode.STATES_MISSING) for item in request.items)
            bench.hear(B, DispatchConfirmationError(request.request_id, errors))
        assert all_fit(bench.effects)
        bench.permit()
        assert fits(
            *(distributed for written in bench.write_rounds() for distributed in _distributed(written.transitions))
        )
    bench.block(400)
    bench.ask_to_yield(B)
    assert bench.said(Handover, B)
    assert all_fit(bench.effects)


def _distributed(transitions: tuple[Transition, ...]) -> list[StateDistribution]:
    return [StateDistribution(digest_of(part[0].leaf), part) for part in parts_of(transitions)]


# Hand-over.


def point(number: int, locks: int, size: int) -> HandedOver:
    """One of a hand-over; a hundred are in one round."""
    leaf = Leaf(number.to_bytes(32, "big"))
    made = State(StateId(leaf, 0), bytes(32), (A, B, C), bytes(size))
    intent = intent_id(str(number))
    digest = Digest((number // 100).to_bytes(32, "big"))
    return HandedOver(FlushPoint(digest, intent), Transition(intent, leaf, states(locks), (), (made,)))


def rounds_of(points: list[HandedOver]) -> dict[Digest, HandedRound]:
    signatures = tuple(EndorserSignature(node, bytes(64)) for node in (A, B, C))
    return {each.point.digest: HandedRound((Leaf(bytes(32)),) * 100, 1, signatures) for each in points}


@pytest.mark.slow
@settings(max_examples=12, deadline=None)
@given(
    st.sampled_from([0, 3, 40, POINTS_MAX + 1]),
    st.sampled_from([0, 2, 15]),
    st.sampled_from([0, 1_000, MEBIBYTE - 2_000]),
)
def test_hand_over_fits_a_frame_and_names_every_point_that_it_can(count: int, locks: int, size: int) -> None:
    small = bytes(min(size, 3 * MEBIBYTE // max(1, count)))
    points = [point(number, locks, len(small)) for number in range(count)]
    told = handover_of(REQUEST, points, rounds_of(points), CONFIG.message_bytes_max)
    assert fits(told)
    assert [each.point for each in told.points] == [each.point for each in points[: len(told.points)]]
    assert len(told.points) == count or count > POINTS_MAX
    assert all(each.transition.inputs == states(locks) for each in told.points)
    assert len(told.rounds) >= len({each.point.digest for each in told.points})


def test_contents_are_left_out_of_a_hand_over_before_points_are() -> None:
    points = [point(number, 1, MEBIBYTE - 8_000) for number in range(5)]
    told = handover_of(REQUEST, points, rounds_of(points), CONFIG.message_bytes_max)
    contents = [each.transition.outputs[0].content for each in told.points]
    assert [content is not None for content in contents] == [True, True, True, False, False]


def test_point_whose_round_is_not_known_any_more_is_not_handed_over() -> None:
    points = [point(number, 1, 10) for number in (0, 100)]
    rounds = rounds_of(points[:1])
    told = handover_of(REQUEST, points, rounds, CONFIG.message_bytes_max)
    assert told == Handover(REQUEST, tuple(points[:1]), tuple(rounds.values()))


# Intents.


def test_intent_that_is_too_large_is_refused_before_it_gets_an_id() -> None:
    bench = NodeBench()
    fine = CONFIG.intent_bytes_max - intent_bytes(intent("A-1", b""))
    bench.tell(ForContract(ADDRESS, IntentSubmitted("first", intent("A-1", bytes(fine)))))
    bench.tell(ForContract(ADDRESS, IntentSubmitted("second", intent("A-2", bytes(fine + 1)))))
    [first, second] = bench.all(ReplyToUser)
    assert first.error == ""
    limit = CONFIG.intent_bytes_max
    size = f"payload and parties take {limit + 1} bytes, and an intent has at most {limit}"
    assert (second.field, second.error) == ("data", f"is too large: {size}")


def test_large_intents_are_delegated_in_several_commands() -> None:
    bench = Bench(height=HEIGHT)
    for number in range(5):
        bench.submit(f"A-{number}", bytes(MEBIBYTE - 1_000))
    counts: list[int] = []
    while len(counts) < 5 and (commands := bench.said(DelegationCommand, B)):
        assert fits(*commands)
        counts.append(len(commands[-1].delegations))
        bench.forget()
        answers = tuple(IntentAnswer(each.intent.id, Answer.ACCEPTED) for each in commands[-1].delegations)
        accepted = DelegationAccepted(commands[-1].command_id, answers, HeartbeatNumber(1, 1))
        bench.hear(B, accepted, height=HEIGHT)
    assert counts == [1, 3, 1]


def test_submitter_lists_many_intents_in_several_heartbeats_of_one_number() -> None:
    dispatches = tuple(
        RoundDispatch(order(*(intent_id(f"B-{nonce}-{number}") for number in range(200)), sender=B), "A", nonce)
        for nonce in range(3)
    )
    bench = restarted(*dispatches, next_nonce=3)
    reason = "é" * 4_096
    for nonce in range(3):
        bench.tell(TransactionRefused(nonce, Objection.OTHER, reason))
    bench.wait(CONFIG.heartbeat_ms)
    told = bench.said(SubmitterHeartbeat, B)
    assert [len(heartbeat.intents) for heartbeat in told] == [SUBMITTED_LISTED_MAX, 600 - SUBMITTED_LISTED_MAX]
    assert len({heartbeat.number for heartbeat in told}) == 1
    assert fits(*told)
