"""The clock of the core counts the time for which the event loop ran, and no other."""

from __future__ import annotations

import asyncio

from rota.engine.clock import BEAT_MS, SLACK_MS, RunTime
from rota.engine.loop import Engine
from rota.machine.effects import Effect
from rota.machine.events import Tick
from rota.machine.tables import Event
from tests.ledger.chains import in_loop


class Machine:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now_ms = 1_000

    def __call__(self) -> int:
        return self.now_ms


@in_loop
async def test_clock_stands_still_while_the_event_loop_does_not_run() -> None:
    machine = Machine()
    clock = RunTime(machine)
    clock.start()
    machine.now_ms += BEAT_MS + SLACK_MS
    assert clock.now_ms() == machine.now_ms
    # The process gets no processor for an hour: messages in its sockets are read before a peer is judged silent.
    machine.now_ms += 3_600_000
    assert clock.now_ms() == 1_000 + BEAT_MS + SLACK_MS
    clock.beat()
    assert clock.now_ms() == 1_000 + BEAT_MS + SLACK_MS
    machine.now_ms += BEAT_MS
    assert clock.now_ms() == 1_000 + 2 * BEAT_MS + SLACK_MS
    clock.stop()


@in_loop
async def test_clock_never_goes_back_and_counts_short_delays() -> None:
    machine = Machine()
    clock = RunTime(machine)
    clock.start()
    seen = []
    for delay_ms in (0, 10, SLACK_MS, 2 * SLACK_MS, 10_000, 1, 0):
        machine.now_ms += BEAT_MS + delay_ms
        seen.append(clock.now_ms())
        clock.beat()
        seen.append(clock.now_ms())
    clock.stop()
    seen.append(clock.now_ms())
    assert seen == sorted(seen)
    assert clock.lost_ms == SLACK_MS + 10_000 - SLACK_MS


class Core:
    """Notes when it is stepped."""

    def __init__(self) -> None:
        self.times_ms: list[int] = []

    def start(self) -> list[Effect]:
        return []

    def step(self, now_ms: int, _: Event) -> list[Effect]:
        self.times_ms.append(now_ms)
        return []

    def next_deadline_ms(self) -> int | None:
        return None


@in_loop
async def test_core_is_stepped_by_a_clock_that_a_stalled_event_loop_does_not_advance() -> None:
    machine, core = Machine(), Core()
    engine = Engine(lambda _: None, lambda _: None, RunTime(machine))
    engine.start(core)  # type: ignore[arg-type]  # as much of a core as an engine needs
    machine.now_ms += 60_000
    engine.tell(Tick())
    await asyncio.sleep(0)
    engine.stop()
    assert core.times_ms == [1_000 + BEAT_MS + SLACK_MS]
