"""Signals end a command in good order, once; sent for real, to this process."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from rota.cli.interruption import SIGNALS, Signals, interruptible
from tests import bounds


@pytest.fixture(autouse=True)
def handlers_as_before() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def send(number: signal.Signals) -> None:
    os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", SIGNALS)
def test_what_was_begun_is_put_away_whole_though_the_user_is_impatient(number: signal.Signals) -> None:
    put_away: list[str] = []

    async def work(_: Signals) -> None:
        try:
            send(number)
            await asyncio.Event().wait()
        finally:
            send(number)
            # The second one is heard in these turns of the loop.
            for _turn in range(5):
                await asyncio.sleep(0)
            put_away.append("all of it")

    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    with pytest.raises(KeyboardInterrupt):
        asyncio.run(interruptible(work))
    assert put_away == ["all of it"]


def test_who_waits_for_a_signal_goes_on_after_it() -> None:
    async def work(signals: Signals) -> str:
        asyncio.get_running_loop().call_soon(send, signal.SIGINT)
        await signals.wait()
        return "the end"

    assert asyncio.run(interruptible(work)) == "the end"


def test_who_was_started_by_nohup_outlives_its_terminal() -> None:
    async def work(_: Signals) -> str:
        send(signal.SIGHUP)
        for _turn in range(5):
            await asyncio.sleep(0)
        return "the end"

    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    assert asyncio.run(interruptible(work)) == "the end"


def test_cancellation_by_others_is_none_of_the_user_s() -> None:
    async def work(_: Signals) -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(interruptible(work))


# Raises what Ctrl-C raises in the middle of an import, where a signal of ours would come at no certain time.
INTERRUPTED_IMPORT = """
import sys
from importlib.abc import MetaPathFinder

class Interrupting(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == sys.argv[1]:
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupting())
from rota.__main__ import run
run()
"""


IMPORTED_MODULES = """
import json, sys
before = set(sys.modules)
import rota.__main__
print(json.dumps(sorted(set(sys.modules) - before)))
"""


@pytest.mark.parametrize("module", ["rota.cli.main", "click", "click.core"])
def test_interrupt_while_the_command_is_imported_ends_it_quietly(module: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_IMPORT, module],
        capture_output=True,
        text=True,
        timeout=bounds.WAIT_S,
        check=False,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "")


def test_command_begins_where_nothing_is_imported() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    assert project["project"]["scripts"] == {"rota": "rota.__main__:run"}
    told = subprocess.run(
        [sys.executable, "-c", IMPORTED_MODULES], capture_output=True, text=True, timeout=bounds.WAIT_S, check=True
    )
    assert json.loads(told.stdout) == ["rota", "rota.__main__", "rota.extras"]
