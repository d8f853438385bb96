"""Processes of a network end with whoever started them, whatever happens to it; and the commands that start them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from rota.bench.failover import figures_of
from rota.network.children import ROTA

pytestmark = pytest.mark.slow

WAIT_S = 60


@contextmanager
def started(home: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A `rota` command all of whose files are under a folder of the test's."""
    environment = {**os.environ, "TMPDIR": str(home), "HOME": str(home)}
    with subprocess.Popen(
        [*ROTA, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()


def read_until(process: subprocess.Popen[str], text: str) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        if text in line:
            return
    assert process.stderr is not None
    raise AssertionError(f"it ended without saying {text!r}: {process.stderr.read()}")


def relatives(home: Path) -> list[int]:
    """All processes that were started with this folder for a home."""
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if entry.name.isdecimal() and str(home).encode() in (entry / "environ").read_bytes():
                found.append(int(entry.name))
    return found


def until(holds: Callable[[], bool]) -> None:
    """The test's own time limit bounds it."""
    while not holds():
        pass


@pytest.mark.parametrize("moment", ["are started", "node3 runs as process", "coordinates", "kill -9"])
def test_interrupted_demonstration_says_so_in_one_line_and_leaves_nothing(tmp_path: Path, moment: str) -> None:
    with started(tmp_path, "demo", "--port", "0") as process:
        read_until(process, moment)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=WAIT_S)
    assert (process.returncode, errors) == (130, "Interrupted: stopped by Ctrl-C.\n")
    assert relatives(tmp_path) == []
    assert list(tmp_path.glob("rota-demo-*")) == []


def test_demonstration_that_is_terminated_leaves_nothing(tmp_path: Path) -> None:
    with started(tmp_path, "demo", "--port", "0") as process:
        read_until(process, "node2 runs as process")
        process.terminate()
        process.communicate(timeout=WAIT_S)
    assert process.returncode == 130
    assert relatives(tmp_path) == []
    assert list(tmp_path.glob("rota-demo-*")) == []


def test_demonstration_that_is_killed_leaves_nothing_running(tmp_path: Path) -> None:
    with started(tmp_path, "demo", "--port", "0") as process:
        read_until(process, "node3 runs as process")
        assert len(relatives(tmp_path)) >= 5
        process.kill()
    until(lambda: relatives(tmp_path) == [])


def test_demonstration_ends_with_0_when_everything_was_confirmed_once(tmp_path: Path) -> None:
    with started(tmp_path, "demo", "--once", "--json") as process:
        output, errors = process.communicate(timeout=2 * WAIT_S)
    assert (process.returncode, errors) == (0, "")
    summary = json.loads(output)
    assert summary["problems"] == []
    assert summary["confirmed"] == summary["intents"] > 0
    assert len(summary["take_overs_ms"]) == 1
    assert len(summary["coordinators"]) >= 2
    assert relatives(tmp_path) == []


def test_failover_of_processes_is_measured(tmp_path: Path) -> None:
    with started(tmp_path, "bench", "failover", "--runs", "1", "--fault", "kill", "--json") as process:
        output, _ = process.communicate(timeout=2 * WAIT_S)
    assert process.returncode == 0
    (figures,) = json.loads(output).values()
    assert figures["runs"] == 1
    assert 0 < figures["p50_ms"] == figures["p95_ms"] == figures["max_ms"]
    assert relatives(tmp_path) == []


def test_memory_and_start_of_a_node_are_measured(tmp_path: Path) -> None:
    sizes = ("--transactions", "200", "--final", "300", "--pending", "20")
    with started(tmp_path, "bench", "node", *sizes, "--json") as process:
        output, errors = process.communicate(timeout=2 * WAIT_S)
    assert process.returncode == 0, errors
    found = json.loads(output)
    assert (found["memory"]["transactions"], found["memory"]["early_transactions"]) == (200, 20)
    assert set(found["memory"]["early_mib"]) == set(found["memory"]["late_mib"]) == {"node1", "node2", "node3"}
    assert found["memory"]["growth"] > 0
    assert (found["start"]["final_count"], found["start"]["pending_count"]) == (300, 20)
    assert 0 < found["start"]["ready_ms"] <= found["start"]["settled_ms"]
    assert relatives(tmp_path) == []


def test_percentiles_are_of_the_nearest_rank() -> None:
    figures = figures_of(list(range(1, 21)))
    assert (figures.runs, figures.p50_ms, figures.p95_ms, figures.max_ms) == (20, 10, 19, 20)
    assert figures_of([7]).p95_ms == 7
