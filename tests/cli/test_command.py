"""`rota command` at a node in a process of its own."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from rota.cli.main import main
from rota.localnet.local import LocalNetwork, Plan
from rota.model.types import NodeName

NODE = NodeName("node1")


def rota(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["command", *arguments])


def used(url: str, contract: str, folder: Path) -> None:
    """All of it, as an operator types it."""
    node = ("--node", url)
    own = (*node, "--application", "payroll", "--act-as", "alice")
    transaction = json.dumps({"type": "private", "to": contract, "function": "mint"})
    journal = ("--journal", str(folder / "journal"))
    submit = ("submit", *own, *journal, "--command-id", "salary 5", "--transaction", transaction)
    first = rota(*submit)
    assert (first.exit_code, first.output) == (0, "succeeded: it happened once, at offset 1\n")
    # The journal of another day does not know of it; the node does.
    again = rota(*submit[:-6], "--journal", str(folder / "another"), *submit[-4:], "--within", "60", "--json")
    assert (again.exit_code, json.loads(again.output)["completionOffset"]) == (0, 1)
    once_more = rota(*submit[:-6], "--journal", str(folder / "a third"), *submit[-4:])
    assert once_more.exit_code == 0
    assert once_more.output.startswith("succeeded: it was done before, at offset 1, on 20")
    # The same command id for another transaction is a conflict, with whatever journal.
    other = json.dumps({"type": "private", "to": contract, "function": "spend"})
    for name, reason in (("journal", "the journal has this change"), ("a fourth", "for another transaction")):
        used_id = ("submit", *own, "--journal", str(folder / name), "--command-id", "salary 5", "--transaction", other)
        conflict = rota(*used_id)
        assert conflict.exit_code == 1
        assert "ALREADY_EXISTS / COMMAND_ID_USED" in conflict.output
        assert reason in conflict.output
    failing = json.dumps({"type": "private", "to": contract, "function": "revert"})
    failed = rota("submit", *own, *journal, "--command-id", "salary 6", "--transaction", failing)
    assert failed.exit_code == 1
    assert "failed: FAILED_PRECONDITION / TRANSACTION_REVERTED" in failed.output
    lines = rota("completions", *own).output.splitlines()
    assert [line.split()[0] for line in lines] == ["1", "2"]
    assert lines[0].endswith("OK")
    told = [json.loads(line) for line in rota("completions", *own, "--after", "1", "--json").output.splitlines()]
    assert [each["commandId"] for each in told] == ["salary 6"]
    assert rota("end", *node).output == "2\n"
    assert json.loads(rota("end", *node, "--json").output) == {"end": 2}
    assert rota("configuration", *node).output == "maximum deduplication duration: 604800s\n"
    pruned = rota("prune", *node, "--up-to", "1")
    assert pruned.exit_code == 1
    assert "UNSAFE_TO_PRUNE" in pruned.output
    assert "safe_offset: 0" in pruned.output
    assert rota("completions", *own, "--after", "9").exit_code == 0
    wrong = rota("submit", *own, *journal, "--command-id", "x", "--transaction", "[]")
    assert wrong.exit_code == 2


@pytest.mark.slow
def test_commands_are_submitted_followed_and_pruned(tmp_path: Path) -> None:
    async def run() -> None:
        async with LocalNetwork(Plan(home=tmp_path / "network", names=(NODE,))) as network:
            await network.start(NODE)
            made = await network.create_contract("synthetic", {"members": ["alice@node1"]})
            await asyncio.to_thread(used, network.nodes[NODE].client.url, made.address, tmp_path)

    asyncio.run(run())


def test_a_node_that_is_not_there_is_told_in_a_line() -> None:
    result = rota("end", "--node", "http://127.0.0.1:1")
    assert result.exit_code == 1
    assert result.output.startswith("Error: UNAVAILABLE / UNREACHABLE")
