"""Nothing leaves before the write that governs it, whatever order the store answers in."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from rota.engine import outbox as outbox_module
from rota.engine.outbox import Outbox
from rota.machine.effects import Effect, Persist, ReplyToUser, SendMessage
from rota.machine.events import Persisted, PersistFailed
from rota.model.types import ContractAddress, IntentId, NodeName, RequestId
from rota.node.effects import NodeStarted
from rota.wire.messages import Envelope, Startup

CONTRACT = ContractAddress("0x" + "11" * 20)


def write(token: int) -> Persist:
    return Persist(CONTRACT, token, (NodeStarted(1),))


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

    def __post_init__(self) -> None:
        self.outbox = Outbox(self.perform, self.tell)

    def perform(self, effect: Effect) -> None:
        match effect:
            case Persist(_, token):
                self.ordered.append(token)
            case ReplyToUser(name):
                self.left.append(name)
            case _:
                self.left.append(type(effect).__name__)

    def tell(self, result: Persisted | PersistFailed) -> None:
        self.left.append(f"{'written' if isinstance(result, Persisted) else 'failed'} {result.token}")


def test_effects_without_a_write_leave_at_once() -> None:
    bench = Bench()
    bench.outbox.put([reply("a"), reply("b")])
    assert bench.left == ["a", "b"]


def test_effects_wait_for_the_write_before_them_and_the_core_is_told_behind_them() -> None:
    bench = Bench()
    bench.outbox.put([reply("before"), write(1), reply("behind")])
    assert bench.left == ["before"]
    bench.outbox.take_result(Persisted(1))
    assert bench.left == ["before", "behind", "written 1"]
    assert len(bench.outbox) == 0


def test_writes_are_ordered_when_they_come_and_later_steps_wait_for_earlier_writes() -> None:
    bench = Bench()
    bench.outbox.put([write(1), reply("a")])
    bench.outbox.put([write(2), reply("b")])
    bench.outbox.put([reply("c")])
    assert bench.ordered == [1, 2]
    bench.outbox.take_result(Persisted(2))
    assert bench.left == []
    bench.outbox.take_result(Persisted(1))
    assert bench.left == ["a", "written 1", "b", "written 2", "c"]


def test_failed_write_takes_what_it_governs_with_it_and_nothing_else() -> None:
    bench = Bench()
    bench.outbox.put([write(1), reply("a"), write(2), reply("b")])
    bench.outbox.put([reply("c")])
    bench.outbox.take_result(PersistFailed(1, "disk full"))
    assert bench.left == ["failed 1"]
    bench.outbox.take_result(Persisted(2))
    assert bench.left == ["failed 1", "b", "written 2", "c"]


def test_messages_that_pile_up_behind_a_write_are_lost_and_counted_and_nothing_else_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(outbox_module, "WAITING_MAX", 3)
    bench = Bench()
    bench.outbox.put([write(1)])
    for _ in range(4):
        bench.outbox.put([message()])
    bench.outbox.put([reply("a")])
    assert bench.outbox.messages_dropped == 3
    bench.outbox.take_result(Persisted(1))
    assert bench.left == ["written 1", "SendMessage", "a"]


def test_what_follows_from_an_effect_leaves_behind_those_that_wait() -> None:
    left: list[str] = []

    def perform(effect: Effect) -> None:
        assert isinstance(effect, ReplyToUser)
        left.append(effect.reply_to)
        if effect.reply_to == "a":
            outbox.put([reply("follows")])

    outbox = Outbox(perform, lambda _: None)
    outbox.put([reply("a"), reply("b")])
    assert left == ["a", "b", "follows"]
