"""`rota contract create` and `add`, against real processes."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from rota.cli.main import main
from rota.ledger.embedded.accounts import DEVELOPMENT_ACCOUNTS
from rota.localnet.chains import CHAIN_ID
from rota.localnet.local import LocalNetwork, Plan
from rota.model.types import NodeName

pytestmark = pytest.mark.slow

NODE1, NODE2 = NodeName("node1"), NodeName("node2")
MEMBERS = json.dumps({"members": ["alice@node1", "alice@node2"]})


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ("contract", *arguments), prog_name="rota")


def create(network: LocalNetwork, key: Path, *arguments: str, constructor: str = MEMBERS) -> Result:
    ledger = ("--ledger", network.ledger.url, "--factory", network.factory, "--key-file", str(key))
    return run("create", "--domain", "synthetic", "--constructor", constructor, *ledger, *arguments, "--json")


def node_options(network: LocalNetwork, *names: NodeName) -> list[str]:
    return [part for name in names for part in ("--node", network.nodes[name].client.url)]


def key_file(home: Path) -> Path:
    file = home / "payer.key"
    file.write_text(DEVELOPMENT_ACCOUNTS[3].secret.hex() + "\n")
    file.chmod(0o600)
    return file


async def in_thread(work: object, *arguments: object, **named: object) -> Result:
    assert callable(work)
    result = await asyncio.to_thread(lambda: work(*arguments, **named))
    assert isinstance(result, Result)
    return result


def test_contract_is_brought_to_its_nodes_and_later_to_one_that_was_away(tmp_path: Path) -> None:
    async def story() -> None:
        async with LocalNetwork(Plan(home=tmp_path / "network", names=(NODE1, NODE2))) as network:
            await network.start(NODE1, NODE2)
            key = key_file(tmp_path)
            both = node_options(network, NODE1, NODE2)
            made = await in_thread(create, network, key, *both)
            assert made.exit_code == 0, made.stderr
            told = json.loads(made.stdout)
            assert (told["domain"], told["nodes"], told["missing"]) == ("synthetic", ["node1", "node2"], {})
            client = network.nodes[NODE1].client
            sent = await client.send(told["contract"], "mint", sender="alice", key="once")
            again = await client.send(told["contract"], "mint", sender="alice", key="once")
            assert again.id == sent.id
            assert (await sent).success

            added = await in_thread(
                run, "add", "--deployment", told["deployment"], "--genesis", told["genesis"], *both, "--json"
            )
            assert added.exit_code == 0, added.stderr
            assert json.loads(added.stdout)["contract"] == told["contract"]
            await refuse_what_is_wrong(network, key, both)

    asyncio.run(story())


async def refuse_what_is_wrong(network: LocalNetwork, key: Path, both: list[str]) -> None:
    lacking = await in_thread(create, network, key, *node_options(network, NODE1))
    assert (lacking.exit_code, lacking.stdout) == (1, "")
    assert "node2: has a part in the contract, and is not among the nodes: give its URL with --node." in lacking.stderr
    wrong = await in_thread(create, network, key, *both, constructor='{"members": []}')
    assert (wrong.exit_code, wrong.stdout) == (1, "")
    assert "--constructor: members: must be 1 to 16 parties" in wrong.stderr
    key.write_text("not a key\n")
    unreadable = await in_thread(create, network, key, *both)
    assert unreadable.exit_code == 1
    assert "must hold a private key as 64 hex digits" in unreadable.stderr
    assert "not a key" not in unreadable.stderr
    key.chmod(0o644)
    assert (await in_thread(create, network, key, *both)).exit_code == 1
    away = await in_thread(create, network, key_file(key.parent), "--node", "http://127.0.0.1:1")
    assert away.exit_code == 1
    assert away.stderr.startswith("Error: http://127.0.0.1:1: ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(("create", "--domain", "noto"), "Missing option"), (("add", "--deployment", "no-uuid"), "is not a valid UUID")],
)
def test_wrong_use_exits_with_2(arguments: tuple[str, ...], message: str) -> None:
    result = run(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr


def test_chain_of_local_networks_is_the_development_chain() -> None:
    assert CHAIN_ID == 31_337
