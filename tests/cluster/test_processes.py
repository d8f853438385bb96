"""Figures that are taken of networks of processes, by the commands that take them; nothing is left of those."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rota.bench.failover import figures_of
from tests.cluster.commands import WAIT_S, relatives, started

pytestmark = pytest.mark.slow


@pytest.mark.nightly
def test_failover_of_processes_is_measured(tmp_path: Path) -> None:
    with started(tmp_path, "bench", "failover", "--runs", "1", "--fault", "kill", "--json") as process:
        output, _ = process.communicate(timeout=WAIT_S)
    assert process.returncode == 0
    (figures,) = json.loads(output).values()
    assert figures["runs"] == 1
    assert 0 < figures["p50_ms"] == figures["p95_ms"] == figures["max_ms"]
    assert relatives(tmp_path) == []


@pytest.mark.nightly
def test_memory_and_start_of_a_node_are_measured(tmp_path: Path) -> None:
    sizes = ("--transactions", "200", "--final", "300", "--pending", "20")
    with started(tmp_path, "bench", "node", *sizes, "--json") as process:
        output, errors = process.communicate(timeout=WAIT_S)
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
