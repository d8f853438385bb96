"""The synthetic domain, alone and in the simulator."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from rota.hosting import UserCall
from rota.testing import Workload, findings, simulate
from rota.testing.synthetic import Synthetic
from rota.types import NodeName, Party


def calls(random: Random, nodes: tuple[NodeName, ...]) -> Iterator[UserCall]:
    """Every function now and then."""
    while True:
        user = Party(f"user@{random.choice(nodes)}")
        payee = f"user@{random.choice(nodes)}"
        name = random.choice(("x", "y"))
        yield random.choice(
            (
                UserCall(user, "spend", {"names": [name], "data": "0x01"}),
                UserCall(user, "spend", {"names": ["x", "y"]}),
                UserCall(user, "look", {"name": name}),
                UserCall(user, "mint", {"data": "0x02"}),
                UserCall(user, "pay", {"to": payee}),
                UserCall(user, "revert"),
                UserCall(user, "refuse"),
                UserCall(user, "spend", {"names": []}),
            )
        )


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["ring", "static", "sender"])
def test_it_holds_under_faults(mode: str) -> None:
    workload = Workload(Party("user@A"), {"members": ["user@A", "user@B", "user@C"], "mode": mode}, calls)
    reports = simulate(Synthetic(), workload, seeds=range(3), minutes=0.2)
    assert findings(reports) == []
    assert all(report.confirmed > 20 and report.reverted and report.refused for report in reports)
