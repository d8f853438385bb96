"""The judgement of the hostile soak: it holds where nothing is wrong, and names each criterion that fails."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from rota.model.types import NodeName
from tests.cluster.hostile import HONEST, Phase, Sample, changes_of, criteria, table

SECONDS = 60
ALONE, BESIDE = "alone", "beside the stranger"


def phase(name: str, per_s: float = 30.0, memory_mib: float = 0.0, disk_mib: float = 0.02) -> Phase:
    """A minute with a sample a second, in which memory and disk grow by so much a second."""
    samples = {node: [Sample(150 + at * memory_mib, 5 + at * disk_mib) for at in range(SECONDS)] for node in HONEST}
    return Phase(name, 0.0, SECONDS, SECONDS, int(per_s * SECONDS), [0.5], samples)


def failed(hostile: Phase, alone: Phase | None = None, open_count: int = 0, failovers: int = 0) -> list[str]:
    changes = {ALONE: 1, hostile.name: failovers}
    judged = [*criteria(alone or phase(ALONE), hostile, open_count, changes, {ALONE: 0, hostile.name: 3})]
    assert table(judged).count("**fails**") == sum(not each.holds for each in judged)
    return [each.name for each in judged if not each.holds]


def test_network_that_withstands_the_stranger_holds() -> None:
    assert failed(phase(BESIDE, per_s=25.0, memory_mib=0.2)) == []


@pytest.mark.parametrize(
    ("hostile", "open_count", "failovers", "names"),
    [
        (phase("slow", per_s=20.0), 0, 0, ["transactions confirmed a second"]),
        (phase("deposed"), 0, 1, ["fail-overs"]),
        (phase("leaking", memory_mib=2.0), 0, 0, [f"memory of {each}, first and last third" for each in HONEST]),
        (phase("hoarding", disk_mib=1.0), 0, 0, ["disk of all nodes, growth for a transaction"]),
        (phase("forgetting"), 3, 0, ["accepted transactions that did not end"]),
    ],
    ids=lambda each: each.name if isinstance(each, Phase) else "",
)
def test_each_failure_is_named(hostile: Phase, open_count: int, failovers: int, names: list[str]) -> None:
    assert failed(hostile, open_count=open_count, failovers=failovers) == names


def test_network_that_did_nothing_before_does_not_hold() -> None:
    assert failed(phase(BESIDE, per_s=0.0), phase(ALONE, per_s=0.0)) == ["transactions confirmed a second"]


def test_coordinator_that_moves_to_another_node_takes_no_more_disk() -> None:
    alone, beside = phase(ALONE), phase(BESIDE)
    for of, coordinator in ((alone, HONEST[0]), (beside, HONEST[1])):
        of.samples[coordinator] = [Sample(150, 5 + at * 0.08) for at in range(SECONDS)]
    assert failed(beside, alone) == []


def test_changes_are_counted_by_kind_within_a_phase_as_the_node_saw_that_saw_most() -> None:
    def change(at_s: float, kind: str) -> dict[str, str]:
        return {"at": datetime.fromtimestamp(at_s, UTC).isoformat().replace("+00:00", "Z"), "kind": kind}

    leaders = {
        NodeName("node1"): [change(5, "seen"), change(12, "hand-over"), change(30, "fail-over")],
        NodeName("node2"): [change(13, "fail-over"), change(14, "fail-over"), change(20, "fail-over")],
        NodeName("node3"): [],
    }
    assert changes_of("fail-over", leaders, 10, 20) == 2
    assert changes_of("hand-over", leaders, 10, 20) == 1
    assert changes_of("fail-over", leaders, 20, 40) == 1
    assert changes_of("hand-over", leaders, 20, 40) == 0
