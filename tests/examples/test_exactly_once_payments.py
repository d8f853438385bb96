"""The payment run of examples/exactly-once-payments, killed in the middle again and again."""

from __future__ import annotations

import asyncio
import csv
import sys
from asyncio.subprocess import PIPE
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from rota.localnet.local import LocalNetwork, Plan
from rota.model.types import NodeName

EXAMPLE = Path(__file__).parents[2] / "examples" / "exactly-once-payments"
NODE = NodeName("node1")
RUNS_MAX = 20


async def run_once(network: LocalNetwork, contract: str, payments: Path, kill_after: int | None) -> list[str]:
    """What it says until it is killed with SIGKILL, or until its end."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(EXAMPLE / "pay.py"),
        str(payments),
        *("--node", network.nodes[NODE].client.url, "--contract", contract, "--from", "treasury"),
        stdout=PIPE,
    )
    assert process.stdout is not None
    told: list[str] = []
    while kill_after is None or len(told) < kill_after:
        line = await process.stdout.readline()
        if not line:
            break
        told.append(line.decode().strip())
    if process.returncode is None and kill_after is not None:
        process.kill()
    await process.communicate()
    return told


async def paid_in_full(folder: Path) -> tuple[int, list[Any], list[list[str]]]:
    async with LocalNetwork(Plan(home=folder / "network", names=(NODE,))) as network:
        await network.start(NODE)
        node = network.nodes[NODE]
        made = await network.create_contract("noto", {"notary": "treasury@node1", "notaryMode": "basic"})
        mint = {"to": "treasury@node1", "amount": 5_000, "data": "0x"}
        minted = await node.client.send(made.address, "mint", mint, sender="treasury")
        await minted
        payments = folder / "payments.csv"
        payments.write_bytes((EXAMPLE / "payments.csv").read_bytes())
        rows = list(csv.reader(payments.read_text().splitlines()))
        kills = 0
        for kills in range(RUNS_MAX):
            told = await run_once(network, made.address, payments, kill_after=kills + 1)
            if len(told) == len(rows):
                break
            if kills == 2:
                # The node too, while a payment is under way.
                await node.kill()
                await network.start(NODE)
        told = await run_once(network, made.address, payments, kill_after=None)
        assert all(line.endswith("succeeded") for line in told)
        found: list[Any] = []
        after, end = 0, int(str(await node.client.ask("cmd_completionEnd")))
        while after < end:
            page: Any = await node.client.ask("cmd_completions", ["treasury"], after, "payments", None, 0)
            found += page["completions"]
            after = page["checkpoint"]
        return kills, found, rows


@pytest.mark.slow
def test_a_payment_run_that_is_killed_again_and_again_pays_everybody_once(tmp_path: Path) -> None:
    kills, completions, rows = asyncio.run(paid_in_full(tmp_path))
    assert kills >= 3
    happened = Counter(each["commandId"] for each in completions if "failure" not in each)
    assert happened == {payment: 1 for payment, _, _ in rows}
