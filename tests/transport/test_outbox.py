"""What waits for one peer: in order, bounded, and the right message goes when it is full."""

from __future__ import annotations

import inspect
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.model.types import DelegationNumber, HeartbeatNumber, IntentId, Leaf, NodeName, RequestId, State, StateId
from rota.transport.allowance import PAUSE_MAX_MS, Allowance, reading_of_all
from rota.transport.outbox import REPEATABLE, Outbox
from rota.transport.settings import TransportSettings
from rota.wire import messages
from rota.wire.codec import Frame, decode_frame, encode_frame
from rota.wire.limits import Limits
from rota.wire.messages import (
    AssembleRequest,
    CoordinatorHeartbeat,
    CoordinatorState,
    DelegationCommand,
    Reply,
    Snapshot,
    Startup,
    StartupAcknowledgement,
    TransactionReverted,
)
from tests.transport.kit import SETTINGS, envelope


def beat(number: int) -> messages.Envelope:
    return envelope(number, CoordinatorHeartbeat(HeartbeatNumber(1, number), CoordinatorState.ACTIVE))


def answer(number: int) -> messages.Envelope:
    return envelope(number, StartupAcknowledgement(RequestId(1, number)))


def notice(number: int, size: int) -> messages.Envelope:
    body = TransactionReverted(IntentId(b"i" * 16), DelegationNumber(1, 1), Leaf(b"l" * 32), "r" * size)
    return envelope(number, body)


def taken(outbox: Outbox, now_ms: int = 0) -> list[list[int]]:
    """The numbers in each frame."""
    frames = []
    while frame := outbox.take_frame(now_ms):
        read = decode_frame(frame)
        assert isinstance(read, Frame)
        frames.append([found.message_id.counter for found in read.envelopes])
    return frames


@given(st.lists(st.integers(0, 3_000), min_size=1, max_size=20))
def test_a_frame_is_byte_for_byte_what_the_codec_writes(sizes: list[int]) -> None:
    outbox = Outbox(SETTINGS)
    envelopes = [notice(number, size) for number, size in enumerate(sizes)]
    for each in envelopes:
        assert outbox.put(0, each) == ""
    assert outbox.take_frame(0) == encode_frame(envelopes)
    assert outbox.take_frame(0) is None
    assert (len(outbox), outbox.size_bytes) == (0, 0)


def test_a_full_queue_drops_the_oldest_that_is_repeated_and_keeps_answers() -> None:
    outbox = Outbox(replace(SETTINGS, queue_messages_max=4))
    for each in (answer(1), beat(2), answer(3), beat(4), answer(5), answer(6)):
        outbox.put(0, each)
    assert taken(outbox) == [[1, 3, 5, 6]]
    assert outbox.dropped_full == 2


def test_a_queue_full_of_answers_drops_the_oldest() -> None:
    outbox = Outbox(replace(SETTINGS, queue_messages_max=2))
    for number in range(5):
        outbox.put(0, answer(number))
    assert taken(outbox) == [[3, 4]]
    assert outbox.dropped_full == 3


def test_a_queue_is_bounded_in_bytes_too() -> None:
    limits = Limits(frame_bytes_max=10_000)
    settings = replace(SETTINGS, limits=limits, frame_bytes_wanted=10_000, queue_bytes_max=10_000)
    outbox = Outbox(settings)
    for number in range(10):
        outbox.put(0, notice(number, 3_000))
        assert outbox.size_bytes <= 10_000
    assert taken(outbox) == [[7, 8, 9]]


def test_what_has_waited_too_long_is_not_said() -> None:
    outbox = Outbox(replace(SETTINGS, queue_age_max_ms=100))
    outbox.put(0, answer(1))
    outbox.put(50, answer(2))
    assert taken(outbox, now_ms=150) == [[2]]
    assert outbox.dropped_stale == 1
    outbox.put(200, answer(3))
    outbox.put(500, answer(4))
    assert len(outbox) == 1


def test_a_busy_turn_is_cut_into_frames_that_every_peer_takes() -> None:
    outbox = Outbox(SETTINGS)
    for number in range(10_000):
        outbox.put(0, envelope(number))
    frames = taken(outbox)
    assert [number for frame in frames for number in frame] == list(range(10_000))
    assert max(map(len, frames)) <= SETTINGS.limits.frame_envelopes_max


def test_a_big_message_travels_alone() -> None:
    outbox = Outbox(replace(SETTINGS, frame_bytes_wanted=5_000))
    for each in (notice(1, 10), notice(2, 3_900), notice(3, 3_900), notice(4, 10)):
        outbox.put(0, each)
    assert taken(outbox) == [[1, 2], [3, 4]]


def test_a_message_that_no_frame_can_hold_is_refused_and_counted() -> None:
    outbox = Outbox(replace(SETTINGS, limits=Limits(frame_bytes_max=1_000), frame_bytes_wanted=1_000))
    assert outbox.put(0, notice(1, 3_000)).endswith("and a frame at most 1000")
    assert (len(outbox), outbox.dropped_too_large) == (0, 1)


def test_a_message_with_too_many_fields_is_refused() -> None:
    limits = Limits(frame_fields_max=100)
    outbox = Outbox(replace(SETTINGS, limits=limits, frame_bytes_wanted=200))
    body = CoordinatorHeartbeat(
        HeartbeatNumber(1, 1),
        CoordinatorState.ACTIVE,
        tuple(messages.ListedIntent(IntentId(bytes([number]) * 16), "Pooled") for number in range(200)),
    )
    assert outbox.put(0, envelope(1, body))
    assert outbox.dropped_too_large == 1


def test_what_is_repeatable_is_all_that_is_neither_an_answer_nor_sent_once() -> None:
    kinds = {
        kind
        for _, kind in inspect.getmembers(messages, inspect.isclass)
        if issubclass(kind, messages.Message) and kind not in (messages.Message, Reply)
    }
    answers = {kind for kind in kinds if issubclass(kind, Reply) or kind.__name__.endswith("Acknowledgement")}
    once = {
        messages.TransactionDispatched,
        messages.TransactionReverted,
        messages.ContractTakenIn,
        messages.DeploymentWithdrawn,
    }
    assert set(REPEATABLE) == kinds - answers - once
    assert {DelegationCommand, Startup} <= set(REPEATABLE)


@pytest.mark.parametrize("limit", ["frames_per_s_max", "bytes_per_s_max"])
def test_an_allowance_fills_again_at_its_rate(limit: str) -> None:
    most = {"bytes_per_s_max": 4 * 1024 * 1024}.get(limit, 10)
    allowance = Allowance(replace(SETTINGS, **{limit: most}))  # type: ignore[arg-type]

    def spend(now_ms: int, amount: int) -> str:
        if limit == "bytes_per_s_max":
            return allowance.take_part(now_ms, amount)
        return next((flaw for _ in range(amount) if (flaw := allowance.take_part(now_ms, 1))), "")

    assert spend(0, 2 * most) == ""
    assert spend(500, most // 2) == ""
    assert f"more than {most} " in spend(500, 1)


def test_reading_pauses_after_more_items_than_a_peer_may_send() -> None:
    allowance = Allowance(replace(SETTINGS, items_per_s_max=50_000))
    assert allowance.pause_ms(0, 1, 2 * 50_000, 0) == 0
    assert allowance.pause_ms(100, 1, 5_000, 0) == 0
    assert allowance.pause_ms(100, 1, 25_000, 0) == 500
    assert allowance.pause_ms(600, 1, 1, 0) == 1
    assert allowance.pause_ms(10_000, 1, 0, 0) == 0


def test_snapshots_of_a_busy_coordinator_do_not_pause_its_reader() -> None:
    """50 payments a second on a chain with a block every 5 seconds: 50 slots, each on what is under way."""
    locks = tuple(StateId(Leaf(number.to_bytes(32, "big")), 0) for number in range(350))
    states = tuple(State(lock, bytes(32), (NodeName("A"), NodeName("B"))) for lock in locks * 2)
    slot = AssembleRequest(RequestId(1, 1), (IntentId(bytes(16)),), Snapshot(locks, states))
    frame = decode_frame(encode_frame((envelope(1, slot),)))
    assert isinstance(frame, Frame)
    allowance = Allowance(TransportSettings())
    pauses = [allowance.pause_ms(now_ms, 1, frame.items, 5_000) for now_ms in range(0, 20_000, 20)]
    assert set(pauses) == {0}


def test_reading_pauses_after_more_messages_than_a_peer_may_send() -> None:
    allowance = Allowance(replace(SETTINGS, envelopes_per_s_max=5_000))
    assert allowance.pause_ms(0, 2 * 5_000, 0, 0) == 0
    assert allowance.pause_ms(0, 1_000, 0, 0) == 200
    assert allowance.pause_ms(0, 20_000, 0, 0) == PAUSE_MAX_MS, "its pongs do not wait for longer"
    assert allowance.pause_ms(60_000, 10, 0, 0) == 0
    assert (allowance.received_messages, allowance.received_at_ms) == (31_010, 60_000)


def test_reading_pauses_after_more_processor_time_than_a_peer_may_use() -> None:
    allowance = Allowance(replace(SETTINGS, reading_ms_per_s_max=400))
    assert allowance.pause_ms(0, 1, 0, 800_000) == 0
    assert allowance.pause_ms(0, 1, 0, 40_000) == 100
    assert allowance.pause_ms(100, 1, 0, 0) == 0


def test_peers_that_use_much_processor_time_together_are_slowed_down_and_no_other() -> None:
    settings = replace(SETTINGS, reading_ms_per_s_max=400)
    reading = reading_of_all(settings)
    liars, honest = [Allowance(settings, reading) for _ in range(3)], Allowance(settings, reading)
    for liar in liars:
        assert liar.pause_ms(0, 1, 0, 400_000) == 0
    assert [liar.pause_ms(0, 1, 0, 60_000) > 0 for liar in liars] == [True, True, True]
    assert honest.pause_ms(0, 1, 0, 10_000) == 0
