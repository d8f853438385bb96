"""What the machines of one contract share: ids, envelopes, durable records, and delays that grow."""

from __future__ import annotations

import pytest

from rota.machine.context import BACKOFF_STEPS_MAX, Ids
from rota.machine.effects import Persist, SendMessage
from rota.model.config import Config
from rota.model.types import IntentId, NodeName, RequestId
from rota.sequencer.context import Context
from rota.sequencer.effects import IntentResumed
from rota.wire.messages import StartupAcknowledgement
from tests.sequencer.kit import ADDRESS, A, B, contract, intent_id

JITTER = 1 / 4


def context(node: NodeName = A, incarnation: int = 1) -> Context:
    return Context(node, Ids(incarnation), contract(), Config(), now_ms=7, height=142)


def record(name: str) -> IntentResumed:
    return IntentResumed(IntentId(intent_id(name)))


# Ids and envelopes.


def test_ids_grow_and_a_later_life_has_the_greater_ones() -> None:
    first = context()
    ids = [first.next_id() for _ in range(3)]
    assert ids == [RequestId(1, 1), RequestId(1, 2), RequestId(1, 3)]
    assert context(incarnation=2).next_id() > ids[-1]


def test_message_carries_what_every_message_says_of_its_author() -> None:
    of = context(incarnation=4)
    body = StartupAcknowledgement(RequestId(9, 9))
    of.send(B, body)
    (sent,) = of.take_effects()
    assert isinstance(sent, SendMessage)
    assert sent.peer == B
    envelope = sent.envelope
    assert (envelope.contract, envelope.body, envelope.correlation_id) == (ADDRESS, body, RequestId(9, 9))
    assert (envelope.incarnation, envelope.height, envelope.no_ledger) == (4, 142, False)


def test_each_sending_has_a_message_id_of_its_own() -> None:
    of = context()
    body = StartupAcknowledgement(RequestId(9, 9))
    of.send(B, body)
    of.send(B, body)
    one, other = (effect.envelope.message_id for effect in of.take_effects() if isinstance(effect, SendMessage))
    assert one < other


def test_message_without_a_ledger_says_so() -> None:
    of = context()
    of.has_ledger = False
    of.send(B, StartupAcknowledgement(RequestId(9, 9)))
    (sent,) = of.take_effects()
    assert isinstance(sent, SendMessage)
    assert sent.envelope.no_ledger


def test_range_is_that_of_the_index() -> None:
    assert context().block_range == 1


# Persist before send.


def test_records_of_a_step_are_written_together_and_before_all_else() -> None:
    of = context()
    of.send(B, StartupAcknowledgement(RequestId(9, 9)))
    of.persist(record("A-1"))
    of.persist(record("A-2"))
    first, second = of.take_effects()
    assert first == Persist(ADDRESS, (record("A-1"), record("A-2")))
    assert isinstance(second, SendMessage)


def test_next_step_has_records_of_its_own() -> None:
    of = context()
    of.persist(record("A-1"))
    of.take_effects()
    of.persist(record("A-2"))
    assert of.take_effects() == [Persist(ADDRESS, (record("A-2"),))]


def test_step_without_records_writes_nothing() -> None:
    of = context()
    of.send(B, StartupAcknowledgement(RequestId(9, 9)))
    assert [type(effect) for effect in of.take_effects()] == [SendMessage]
    assert of.take_effects() == []


# Delays.


def test_deadline_lies_ahead_of_now() -> None:
    assert context().after(250) == 257


@pytest.mark.parametrize(
    ("attempt", "growth", "full_ms"), [(0, 2.0, 250), (1, 2.0, 500), (3, 2.0, 2_000), (1, 1.5, 375)]
)
def test_backoff_grows_with_each_attempt_and_loses_at_most_a_quarter(attempt: int, growth: float, full_ms: int) -> None:
    of = context()
    for _ in range(100):
        assert full_ms * (1 - JITTER) <= of.backoff_ms(attempt, 250, 10_000, growth) <= full_ms


def test_backoff_is_capped() -> None:
    of = context()
    delays = [of.backoff_ms(attempt, 250, 10_000) for attempt in (6, 20, BACKOFF_STEPS_MAX, 1_000_000)]
    assert all(10_000 * (1 - JITTER) <= delay_ms <= 10_000 for delay_ms in delays)


def test_backoff_is_jittered_from_call_to_call_and_from_node_to_node() -> None:
    of = context()
    assert len({of.backoff_ms(0, 1_000, 10_000) for _ in range(20)}) > 10
    firsts = {context(NodeName(f"node{number}")).backoff_ms(0, 1_000, 10_000) for number in range(20)}
    assert len(firsts) > 10
    lives = {context(incarnation=number).backoff_ms(0, 1_000, 10_000) for number in range(1, 21)}
    assert len(lives) > 10


def test_backoff_is_the_same_for_the_same_node_life_and_count() -> None:
    one, other = context(), context()
    assert [one.backoff_ms(2, 250, 10_000) for _ in range(5)] == [other.backoff_ms(2, 250, 10_000) for _ in range(5)]
