"""The judgement of the hostile soak: it holds where nothing is wrong, and names each thing that is."""

from __future__ import annotations

import pytest

from tests.cluster.hostile import HONEST, Phase, Sample, flaws

SECONDS = 60


def phase(
    name: str, per_s: float = 30.0, memory_mib: float = 0.0, disk_mib: float = 0.02, moves_at: int = SECONDS
) -> Phase:
    """A minute with a sample a second, in which memory and disk grow by so much a second."""
    samples = {
        node: [
            Sample(150 + at * memory_mib, 5 + at * disk_mib, "node1" if at < moves_at else "node2")
            for at in range(SECONDS)
        ]
        for node in HONEST
    }
    return Phase(name, SECONDS, int(per_s * SECONDS), [0.5], samples)


def test_network_that_is_not_impressed_holds() -> None:
    assert [*flaws(phase("alone"), phase("beside the stranger", per_s=25.0, memory_mib=0.2), 0)] == []


@pytest.mark.parametrize(
    ("hostile", "open_count", "told"),
    [
        (phase("slow", per_s=20.0), 0, "honest throughput fell to 0.67"),
        (phase("deposed", moves_at=50), 0, "the coordinator changed: ['node1', 'node2']"),
        (phase("leaking", memory_mib=2.0), 0, "node1: memory grew from 169 to 249 MiB"),
        (phase("hoarding", disk_mib=1.0), 0, "node1: its disk grew by 59.0 MiB"),
        (phase("forgetting"), 3, "3 transactions that nodes accepted have not ended"),
    ],
    ids=lambda each: each.name if isinstance(each, Phase) else "",
)
def test_each_failure_is_named(hostile: Phase, open_count: int, told: str) -> None:
    found = [*flaws(phase("alone"), hostile, open_count)]
    assert any(told in each for each in found), found


def test_network_that_did_nothing_before_does_not_hold() -> None:
    assert [*flaws(phase("alone", per_s=0.0), phase("beside the stranger", per_s=0.0), 0)]
