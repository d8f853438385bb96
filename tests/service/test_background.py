"""Tasks in the background, and who learns that one of them failed."""

from __future__ import annotations

import asyncio
from typing import Any

from rota.ports import Background
from tests.store.kit import in_loop


async def fail() -> None:
    raise KeyError("x")


@in_loop
async def test_failure_of_a_task_goes_to_its_owner() -> None:
    failures: list[BaseException] = []
    background = Background("owner", failures.append)
    background.begin(fail())
    while background:
        await asyncio.sleep(0)
    assert [repr(each) for each in failures] == ["KeyError('x')"]


@in_loop
async def test_failure_without_an_owner_goes_to_the_loop() -> None:
    told: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
    background = Background("owner")
    background.begin(fail())
    while background:
        await asyncio.sleep(0)
    assert [each["message"] for each in told] == ["owner: a background task failed"]


@in_loop
async def test_closing_waits_until_tasks_have_ended_and_tells_of_no_failure() -> None:
    failures: list[BaseException] = []
    ended = asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    background = Background("owner", failures.append)
    background.begin(work())
    await asyncio.sleep(0)
    await background.close()
    assert ended.is_set()
    assert not background
    assert failures == []
