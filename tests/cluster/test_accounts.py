"""Submitting accounts by contract, in real processes: payers on the chain, a kill, and funding."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from rota.cli.main import main
from rota.keys.names import submitter_key
from rota.keys.secp256k1 import PrivateKey
from rota.ledger.embedded.accounts import DEVELOPMENT_ACCOUNTS
from rota.ledger.embedded.settings import WEI_PER_ETHER
from rota.localnet.chains import RunningChain
from rota.localnet.local import LocalNetwork, LocalNode, Plan
from rota.model.types import ContractAddress, NodeName
from tests.bounds import WAIT_S
from tests.cli.kit import chain_process

pytestmark = pytest.mark.slow

NODE1, NODE2 = NodeName("node1"), NodeName("node2")
NAMES = (NODE1, NODE2)
MEMBERS = {"members": [f"alice@{name}" for name in NAMES]}
SENT = 12


async def calls_to(network: LocalNetwork, contract: ContractAddress) -> list[dict[str, Any]]:
    """The transactions of the chain that call a contract, in their order."""
    height = int(str(await network.ledger.call("eth_blockNumber")), 16)
    blocks: list[Any] = [await network.ledger.call("eth_getBlockByNumber", hex(at), True) for at in range(height + 1)]
    return [each for block in blocks for each in block["transactions"] if each["to"] == contract]


def own_account(node: LocalNode, contract: ContractAddress) -> str:
    return node.keys.signer.address_of(submitter_key(contract))


async def until(holds: Any) -> Any:  # noqa: ANN401
    async with asyncio.timeout(WAIT_S):
        while not (found := await holds()):
            await asyncio.sleep(0.1)
    return found


def rota(*arguments: str) -> str:
    result = CliRunner().invoke(main, arguments, prog_name="rota")
    assert result.exit_code == 0, result.output
    return result.stdout


def test_contracts_on_a_chain_with_free_gas_have_payers_of_their_own_that_survive_a_kill(tmp_path: Path) -> None:
    async def story() -> None:
        async with LocalNetwork(Plan(home=tmp_path / "network", names=NAMES)) as network:
            await network.start(*NAMES)
            made = [(await network.create_contract("synthetic", MEMBERS)).address for _ in range(2)]
            sent = []
            for place in range(SENT):
                for contract in made:
                    sent.append(
                        await network.nodes[NODE2].client.send(
                            contract, "mint", sender="alice", key=f"{place}{contract}"
                        )
                    )
                if place == SENT // 2:
                    await network.nodes[NODE1].kill()
            await network.nodes[NODE1].start()
            async with asyncio.timeout(WAIT_S):
                assert all([(await each).success for each in sent])
            by_account: dict[str, list[dict[str, Any]]] = defaultdict(list)
            for contract in made:
                own = {own_account(node, contract) for node in network.nodes.values()}
                calls = await calls_to(network, contract)
                assert {each["from"] for each in calls} <= own
                for each in calls:
                    by_account[each["from"]].append(each)
            assert len(by_account) >= len(made), "no account pays for two contracts"
            for calls in by_account.values():
                assert [int(each["nonce"], 16) for each in calls] == list(range(len(calls)))
                assert len({each["input"] for each in calls}) == len(calls), "no round was sent under two nonces"

    asyncio.run(story())


def test_account_of_a_contract_on_a_chain_with_fees_is_named_until_one_command_has_funded_it(tmp_path: Path) -> None:
    async def story(url: str) -> None:
        chain = RunningChain(url, PrivateKey(DEVELOPMENT_ACCOUNTS[0].secret), WEI_PER_ETHER)
        async with LocalNetwork(Plan(home=tmp_path / "network", names=(NODE1,), chain=chain)) as network:
            await network.start(NODE1)
            node = network.nodes[NODE1]
            contract = (await network.create_contract("synthetic", {"members": ["alice@node1"]})).address
            assert (await (await node.client.send(contract, "mint", sender="alice"))).success
            assert {each["from"] for each in await calls_to(network, contract)} == {node.keys.submitter}

            choose = ("contract", "account", contract, "own", "--node", node.client.url, "--json")
            chosen = json.loads(await asyncio.to_thread(rota, *choose))
            own = own_account(node, contract)
            assert [(each["address"], each["paying"], each["short"]) for each in chosen] == [(own, True, True)]
            waiting = await node.client.send(contract, "mint", sender="alice")

            async def warnings() -> list[str]:
                status: Any = await node.client.ask("node_status")
                return [each for each in status["warnings"] if each.startswith("funds: ")]

            (warning,) = await until(warnings)
            assert own in warning
            assert "`rota ledger fund FOLDER --contracts`" in warning
            password = ("--password-file", str(node.folder / "password"))
            fund = ("ledger", "fund", str(node.folder), *password, "--contracts", "--json")
            dry = json.loads(await asyncio.to_thread(rota, *fund, "--dry-run"))
            assert [(each["address"], each["paid"]) for each in dry["accounts"]] == [(own, False)]
            paid = json.loads(await asyncio.to_thread(rota, *fund))
            assert [(each["address"], each["paid"]) for each in paid["accounts"]] == [(own, True)]
            async with asyncio.timeout(WAIT_S):
                assert (await waiting).success
            assert {each["from"] for each in await calls_to(network, contract)} == {node.keys.submitter, own}

            async def is_quiet() -> bool:
                return not await warnings()

            assert await until(is_quiet)

    with chain_process() as process:
        asyncio.run(story(process.url))
