"""The measure of how long the event loop was held."""

import asyncio
import time

import pytest

from rota.server.loop_watch import HOLD_MAX_S, LOOK_S, SPAN_S, LoopWatch
from tests.server.kit import asynchronous, served


class Clocks:
    """The time of day and the processor's, which pass when they are told to."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.processor_s = 1.0

    def pass_by(self, seconds: float, processor_s: float) -> None:
        self.now_s += seconds
        self.processor_s += processor_s


@asynchronous
async def test_hold_is_the_lateness_that_the_own_thread_used() -> None:
    clocks = Clocks()
    watch = LoopWatch(lambda: clocks.now_s, lambda: clocks.processor_s)
    watch.start()
    clocks.pass_by(LOOK_S, 0.001)
    watch.look()
    assert watch.longest_s == 0
    clocks.pass_by(LOOK_S + 0.3, 0.25)
    watch.look()
    assert watch.longest_s == pytest.approx(0.25)
    # Another process had the processor: this loop was not held.
    clocks.pass_by(LOOK_S + 5, 0.01)
    watch.look()
    assert watch.longest_s == pytest.approx(0.25)
    assert watch.holds_total == 1
    watch.stop()


@asynchronous
async def test_longest_hold_is_forgotten_after_two_spans() -> None:
    clocks = Clocks()
    watch = LoopWatch(lambda: clocks.now_s, lambda: clocks.processor_s)
    watch.start()
    clocks.pass_by(LOOK_S + 1, 1)
    watch.look()
    for expected in (1, 0):
        clocks.pass_by(SPAN_S, 0)
        watch.look()
        assert watch.longest_s == pytest.approx(expected)
    watch.stop()


@asynchronous
async def test_entrance_reports_holds_of_its_loop() -> None:
    async with served() as to:
        watch = to.entrance.loop_watch
        held_from_s = time.thread_time()
        while time.thread_time() < held_from_s + 2 * HOLD_MAX_S:
            pass
        while not watch.holds_total:
            await asyncio.sleep(0)
        _, figures = await to.get("/metrics")
        assert "rota_loop_holds_total 1.0" in figures
        assert "rota_loop_hold_longest_seconds 0." in figures
