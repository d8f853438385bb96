"""Real processes: `kill -9` of a node before everything that its office does or is told, and commands that go on."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import sys
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from rota.client import Client, ClientError, Refused
from rota.localnet.children import Child
from rota.localnet.local import LocalNetwork, LocalNode, Plan
from rota.model.types import ContractAddress, NodeName
from tests.store.kit import ANSWER_TIMEOUT_S

NODE = NodeName("node1")
KILLED_NODE = Path(__file__).with_name("killed_node.py")
LOOK_S = 0.02


class KillingNetwork(LocalNetwork):
    """Its node kills itself at a given point; at 0 it never does."""

    last = 0

    async def launch(self, node: LocalNode) -> tuple[Child, dict[str, object]]:
        arguments = (sys.executable, str(KILLED_NODE), str(node.folder), str(self.last), str(self.count_file))
        child = await self.children.start(node.name, arguments, node.log)
        told: dict[str, object] = json.loads(await child.line_with('"rpc"'))
        return child, told

    @property
    def count_file(self) -> Path:
        return self.plan.home / "moments"

    @property
    def moments(self) -> int:
        return int(self.count_file.read_text()) if self.count_file.exists() else 0


def command(contract: ContractAddress, command_id: str, submission_id: str) -> dict[str, object]:
    transaction = {"type": "private", "to": contract, "function": "mint"}
    return {
        "applicationId": "shop",
        "commandId": command_id,
        "actAs": ["alice"],
        "submissionId": submission_id,
        "transaction": transaction,
    }


async def submitted(client: Client, contract: ContractAddress, run: int, attempt: str) -> set[str]:
    """One is acknowledged and one waited for; the submissions that the node has promised a completion of."""
    promised = set()
    for number, method in ((1, "cmd_submit"), (2, "cmd_submitAndWait")):
        submission_id = f"{run} {attempt} {number}"
        try:
            await client.ask(method, command(contract, f"{run}/pay {number}", submission_id))
            promised.add(submission_id)
        except Refused as refused:
            if refused.details["errorId"] not in ("DUPLICATE_COMMAND", "SUBMISSION_ALREADY_IN_FLIGHT"):
                raise
        except ClientError:
            continue
    return promised


async def completions(client: Client) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    after, end = 0, int(str(await client.ask("cmd_completionEnd")))
    while after < end:
        page: Any = await client.ask("cmd_completions", ["alice"], after, "shop", None, 0)
        found += page["completions"]
        after = page["checkpoint"]
    return found


async def settled(network: KillingNetwork, contract: ContractAddress, run: int) -> None:
    """Until each of the run's changes has happened; a client that was left without an answer submits again."""
    client = network.nodes[NODE].client
    for attempt in range(ANSWER_TIMEOUT_S * 50):
        happened = Counter(each["commandId"] for each in await completions(client) if "failure" not in each)
        if happened[f"{run}/pay 1"] and happened[f"{run}/pay 2"]:
            return
        await submitted(client, contract, run, f"again {attempt}")
        await asyncio.sleep(LOOK_S)
    raise AssertionError(f"run {run}: not everything has happened")


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("step", [4, pytest.param(1, marks=pytest.mark.nightly)])
def test_a_node_that_is_killed_at_any_point_does_every_command_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], step: int
) -> None:
    killed, moments = asyncio.run(_kill_at_points(tmp_path / "network", step))
    assert moments > 15
    assert killed >= (moments - 5) // step
    with capsys.disabled():
        print(f"\n`kill -9` of a node: killed at {killed} of {moments} points")


async def _kill_at_points(home: Path, step: int) -> tuple[int, int]:
    """Kill a node at every point, or at each of so many; returns how often it was killed, and the points."""
    async with KillingNetwork(Plan(home=home, names=(NODE,))) as network:
        node = network.nodes[NODE]
        await network.start(NODE)
        made = await network.create_contract("synthetic", {"members": ["alice@node1"]})
        before = network.moments
        promised = await submitted(node.client, made.address, 0, "first")
        await settled(network, made.address, 0)
        moments = network.moments - before
        await node.kill()
        killed = 0
        runs = range(1, moments + 1, step)
        for run in runs:
            network.last = run
            network.count_file.unlink(missing_ok=True)
            await network.start(NODE)
            promised |= await submitted(node.client, made.address, run, "first")
            if node.is_running:
                # What was acknowledged may still be under way when the point comes.
                for _ in range(100):
                    if network.moments >= run or not node.is_running:
                        break
                    await asyncio.sleep(LOOK_S)
            if network.moments >= run:
                await node.child.ended()
                killed += 1
            else:
                await node.kill()
            network.last = 0
            await network.start(NODE)
            await settled(network, made.address, run)
            await node.kill()
        await network.start(NODE)
        await _check(network, promised, (0, *runs))
        return killed, moments


async def _check(network: KillingNetwork, promised: set[str], runs: tuple[int, ...]) -> None:
    found = await completions(network.nodes[NODE].client)
    assert [each["offset"] for each in found] == list(range(1, len(found) + 1))
    happened = Counter(each["commandId"] for each in found if "failure" not in each)
    assert happened == {f"{run}/pay {number}": 1 for run in runs for number in (1, 2)}
    told = Counter(each["submissionId"] for each in found)
    assert max(told.values()) == 1
    assert promised <= set(told)
    await network.stop()
    with closing(sqlite3.connect(network.nodes[NODE].folder / "rota.db")) as database:
        (in_flight,) = database.execute("SELECT COUNT(*) FROM commands_in_flight").fetchone()
        (intents,) = database.execute("SELECT COUNT(*) FROM submissions WHERE idempotency_key IS NOT NULL").fetchone()
    assert in_flight == 0
    assert intents == sum("transactionId" in each for each in found)
