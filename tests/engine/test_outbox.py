"""Nothing leaves before the writes that were ordered before it."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from rota.engine import outbox as outbox_module
from rota.engine.outbox import Outbox
from rota.machine.effects import Effect, Persist, ReplyToUser, SendMessage
from rota.model.types import ContractAddress, IntentId, NodeName, RequestId
from rota.node.effects import NodeStarted
from rota.wire.messages import Envelope, Startup

CONTRACT = ContractAddress("0x" + "11" * 20)


def write(number: int) -> Persist:
    return Persist(CONTRACT, (NodeStarted(number),))


def reply(name: str) -> ReplyToUser:
    return ReplyToUser(name, IntentId(bytes(16)))


def message() -> SendMessage:
    body = Startup(RequestId(1, 1))
    return SendMessage(NodeName("B"), Envelope(CONTRACT, RequestId(1, 1), 1, 0, body))


@dataclass
class Bench:
    """An outbox whose effects are noted in the order in which they leave."""

    left: list[str] = field(default_factory=list)
    ordered: list[int] = field(default_factory=list)
    now_s: float = 0.0

    def __post_init__(self) -> None:
        self.outbox = Outbox(self.perform, lambda: self.now_s)

    def perform(self, effect: Effect) -> None:
        match effect:
            case Persist(_, (NodeStarted(number),)):
                self.ordered.append(number)
            case ReplyToUser(name):
                self.left.append(name)
            case _:
                self.left.append(type(effect).__name__)


def test_effects_without_a_write_leave_at_once() -> None:
    bench = Bench()
    bench.outbox.put([reply("a"), reply("b")])
    assert bench.left == ["a", "b"]


def test_effects_wait_for_the_write_before_them() -> None:
    bench = Bench()
    bench.outbox.put([reply("before"), write(1), reply("behind")])
    assert bench.left == ["before"]
    assert bench.outbox.writes_open == 1
    bench.outbox.take_written(1)
    assert bench.left == ["before", "behind"]
    assert len(bench.outbox) == bench.outbox.writes_open == 0


def test_writes_are_ordered_when_they_come_and_later_steps_wait_for_earlier_writes() -> None:
    bench = Bench()
    bench.outbox.put([write(1), reply("a")])
    bench.outbox.put([write(2), reply("b")])
    bench.outbox.put([reply("c")])
    assert bench.ordered == [1, 2]
    bench.outbox.take_written(1)
    assert bench.left == ["a"]
    bench.outbox.take_written(1)
    assert bench.left == ["a", "b", "c"]


def test_writes_that_share_a_transaction_release_all_effects_behind_them() -> None:
    bench = Bench()
    bench.outbox.put([write(1), reply("a"), write(2), reply("b")])
    bench.outbox.put([write(3), reply("c")])
    bench.outbox.take_written(2)
    assert bench.left == ["a", "b"]


def test_outbox_is_stalled_when_the_store_takes_no_write_for_a_second() -> None:
    bench = Bench()
    bench.outbox.put([write(1)])
    stalled = []
    for now_s, is_ordered, durable in (
        (0.9, True, 0),
        (1.0, False, 0),
        (1.0, False, 1),
        (1.9, False, 0),
        (2.0, False, 0),
    ):
        bench.now_s = now_s
        bench.outbox.put([write(2)] if is_ordered else [])
        if durable:
            bench.outbox.take_written(durable)
        stalled.append(bench.outbox.is_stalled)
    assert stalled == [False, True, False, False, True]
    bench.outbox.take_written(1)
    assert bench.outbox.is_stalled is False


def test_messages_that_pile_up_behind_a_write_are_lost_and_counted_and_nothing_else_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(outbox_module, "WAITING_MAX", 3)
    bench = Bench()
    bench.outbox.put([write(1)])
    for _ in range(4):
        bench.outbox.put([message()])
    bench.outbox.put([reply("a")])
    assert bench.outbox.messages_dropped == 2
    bench.outbox.take_written(1)
    assert bench.left == ["SendMessage", "SendMessage", "a"]


def test_what_follows_from_an_effect_leaves_behind_those_that_wait() -> None:
    left: list[str] = []

    def perform(effect: Effect) -> None:
        assert isinstance(effect, ReplyToUser)
        left.append(effect.reply_to)
        if effect.reply_to == "a":
            outbox.put([reply("follows")])

    outbox = Outbox(perform)
    outbox.put([reply("a"), reply("b")])
    assert left == ["a", "b", "follows"]


def test_call_comes_when_the_writes_that_were_ordered_before_it_are_durable() -> None:
    bench = Bench()
    bench.outbox.after_writes(lambda: bench.left.append("nothing to wait for"))
    bench.outbox.put([write(1), write(2)])
    bench.outbox.after_writes(lambda: bench.left.append("called"))
    bench.outbox.put([write(3), reply("behind")])
    bench.outbox.take_written(1)
    assert bench.left == ["nothing to wait for"]
    bench.outbox.take_written(1)
    assert bench.left == ["nothing to wait for", "called"]
    bench.outbox.take_written(1)
    assert bench.left[-1] == "behind"
