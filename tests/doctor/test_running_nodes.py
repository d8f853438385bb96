"""`rota doctor` on nodes that run."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from rota.doctor import Means, Report, Status, examine
from rota.localnet.local import LocalNetwork, Plan
from rota.model.types import NodeName

ONE, OTHER = NodeName("node1"), NodeName("node2")


def found(report: Report) -> dict[str, tuple[Status, str]]:
    return {each.name: (each.status, each.found) for each in report.findings}


@pytest.mark.slow
def test_a_running_node_is_asked_and_its_peers_are_looked_at(tmp_path: Path) -> None:
    async def run() -> None:
        async with LocalNetwork(Plan(home=tmp_path / "network", names=(ONE, OTHER))) as network:
            await network.start(ONE, OTHER)
            rpc = network.nodes[ONE].addresses["rpc"].removeprefix("http://")
            well = found(await examine(network.nodes[ONE].folder, Means(block_wait_s=0)))
            assert {name for name, (status, _) in well.items() if status is Status.FAILED} == set()
            assert well["node"] == (Status.OK, f"it runs and is ready, at {rpc}")
            assert well["ports"] == (Status.SKIPPED, "the node runs: they are its own")
            assert well["endpoint"][0] is well["peer node2"][0] is well["integrity"][0] is Status.OK
            await network.nodes[OTHER].stop()
            alone = found(await examine(network.nodes[ONE].folder, Means(block_wait_s=0)))
            assert alone["peer node2"][0] is Status.FAILED
            await network.nodes[ONE].stop()
            stopped = found(await examine(network.nodes[ONE].folder, Means(block_wait_s=0)))
            assert stopped["node"][1].startswith("it does not run")
            assert stopped["rpc.port"] == (Status.OK, f"{rpc} is free")
            assert stopped["database"][0] is Status.OK

    asyncio.run(run())
