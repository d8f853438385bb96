"""A computation in steps: the event loop goes on when a slice is used up, and not more often."""

from __future__ import annotations

import asyncio
from collections.abc import Generator

import pytest

from rota.ports.time_slice import SLICE_S, in_slices
from tests.store.kit import in_loop

STEPS = 12


@pytest.mark.parametrize(("step_s", "turns"), [(2 * SLICE_S, STEPS), (SLICE_S / 3.5, STEPS // 4), (0.0, 0)])
@in_loop
async def test_event_loop_goes_on_once_in_a_slice(step_s: float, turns: int) -> None:
    now_s = 0.0
    at_steps: list[int] = []

    def others(step: int) -> None:
        at_steps.append(step)

    def computing() -> Generator[None, None, str]:
        nonlocal now_s
        for step in range(STEPS):
            now_s += step_s
            if len(at_steps) == len(waiting):
                waiting.append(asyncio.get_running_loop().call_soon(others, step))
            yield
        return "computed"

    waiting: list[asyncio.Handle] = []
    assert await in_slices(computing(), lambda: now_s) == "computed"
    assert len(at_steps) == turns


@in_loop
async def test_error_of_a_step_is_raised() -> None:
    def computing() -> Generator[None, None, str]:
        yield
        raise ValueError("in a step")

    with pytest.raises(ValueError, match="in a step"):
        await in_slices(computing())
