"""Contracts that users deploy come to all their nodes, once, whoever is away, killed or in the way."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from rota.ledger.bindings import deploy_endorsed
from rota.ledger.deployments import find_deployment
from rota.ledger.hexadecimal import data
from rota.model.config import Config
from rota.model.genesis import genesis_hash
from rota.model.types import ContractAddress, IntentId, Mode, NodeName, Outcome, SequencingChoice, SubmitMode
from rota.ports import Unavailable
from rota.rpc.errors import ErrorCode, Rejected
from rota.service.interface import Explanation
from tests.ledger.chains import in_loop
from tests.service.kit import ALICE, Network, network, send

NODE1, NODE2, NODE3 = ALL = tuple(map(NodeName, ("node1", "node2", "node3")))
MEMBERS = tuple(f"{ALICE}@{name}" for name in ALL)
SYNTHETIC = {"members": list(MEMBERS), "threshold": 2}
NOTO = {"name": "Coin", "symbol": "COIN", "notary": f"notary@{NODE2}", "notaryMode": "basic"}


async def receipt_of(nodes: Network, name: NodeName, intent: IntentId) -> ContractAddress:
    """The contract that a deployment made, as its user is told, in whatever life of the node."""
    while (shown := await nodes.processes[name].facade.receipt(intent)) is None:
        await asyncio.sleep(0.01)
    assert shown.success, shown.failure_message
    assert shown.contract is not None
    return shown.contract


async def until_told(nodes: Network, name: NodeName, intent: IntentId, state: str) -> Explanation:
    """Until `seq_explain` says so."""
    while True:
        told = await nodes.processes[name].facade.explain(intent)
        assert told is not None
        if told.state == state:
            return told
        await asyncio.sleep(0.005)


async def assert_confirmed(nodes: Network, name: NodeName, contract: ContractAddress, function: str = "spend") -> None:
    receipt = await nodes.final(name, await nodes.submit(name, contract, function))
    assert receipt.outcome is Outcome.CONFIRMED, receipt.reason


def has(nodes: Network, name: NodeName, contract: ContractAddress) -> bool:
    return nodes.processes[name].running.contracts.known(contract) is not None


# The usual way.


@in_loop
async def test_contract_is_at_all_its_nodes_when_there_is_a_receipt(tmp_path: Path) -> None:
    async with network(tmp_path, *ALL) as nodes:
        await nodes.start(*ALL)
        deployment = await nodes.deploy(NODE1, "synthetic", SYNTHETIC, idempotency_key="once")
        contract = await receipt_of(nodes, NODE1, deployment)
        assert all(has(nodes, name, contract) for name in ALL)
        for name in ALL:
            await assert_confirmed(nodes, name, contract)
        facade = nodes.processes[NODE1].facade
        shown = await facade.receipt(deployment)
        assert shown is not None
        on_chain = await find_deployment(nodes.client, nodes.factory, deployment)
        assert on_chain is not None
        assert (shown.contract, shown.block_number) == (on_chain.deployment.contract, on_chain.height)
        assert (shown.domain, shown.source) == ("synthetic", nodes.factory)
        accepted = await facade.transaction(deployment)
        assert accepted is not None
        assert (accepted.domain, accepted.to, accepted.sender) == ("synthetic", None, f"{ALICE}@{NODE1}")
        told = await facade.explain(deployment)
        assert told is not None
        assert (told.state, told.contract) == ("confirmed", contract)
        with pytest.raises(Rejected, match="PD012220") as caught:
            await nodes.deploy(NODE1, "synthetic", SYNTHETIC, idempotency_key="once")
        assert caught.value.code is ErrorCode.KEY_USED


@in_loop
async def test_token_is_deployed_with_its_notary_and_used_from_every_node(tmp_path: Path) -> None:
    async with network(tmp_path, *ALL) as nodes:
        await nodes.start(*ALL)
        await nodes.until(lambda: len(nodes.processes[NODE1].running.engine.core.deployments.connected) == 2)
        contract = await receipt_of(nodes, NODE1, await nodes.deploy(NODE1, "noto", NOTO))
        # node3 has no part in the genesis; anybody may hold a token, so it was invited.
        assert all(has(nodes, name, contract) for name in ALL)
        minted = {"to": f"{ALICE}@{NODE3}", "amount": 100, "data": "0x"}
        intent = await nodes.submit(NODE2, contract, "mint", minted, sender="notary")
        assert (await nodes.final(NODE2, intent)).outcome is Outcome.CONFIRMED
        paid = {"to": f"{ALICE}@{NODE1}", "amount": 40, "data": "0x"}
        assert (await nodes.final(NODE3, await nodes.submit(NODE3, contract, "transfer", paid))).outcome is (
            Outcome.CONFIRMED
        )


@in_loop
async def test_what_existing_clients_send_to_deploy_a_token_is_answered_with_its_address(tmp_path: Path) -> None:
    constructor = {
        "type": "constructor",
        "inputs": [{"name": name, "type": "string"} for name in ("name", "symbol", "notary", "notaryMode")],
    }
    options = {"basic": {"restrictMint": True, "allowBurn": True, "allowLock": True}}
    wanted = {
        "type": "private",
        "domain": "noto",
        "abi": [constructor],
        "function": "",
        "from": f"a@{NODE1}",
        "data": {"notary": f"a@{NODE1}", "notaryMode": "basic", "name": "", "symbol": "", "options": options},
    }
    async with network(tmp_path, *ALL) as nodes, aiohttp.ClientSession() as session:
        await nodes.start(*ALL)

        async def ask(method: str, *parameters: object) -> Any:  # noqa: ANN401
            body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": list(parameters)}
            async with session.post(nodes.processes[NODE1].entrance.http_url, json=body) as response:
                return (await response.json())["result"]

        deployment = await ask("ptx_sendTransaction", wanted)
        while (receipt := await ask("ptx_getTransactionReceipt", deployment)) is None:
            await asyncio.sleep(0.01)
        assert (receipt["success"], receipt["domain"]) == (True, "noto")
        assert has(nodes, NODE1, receipt["contractAddress"])
        assert (await ask("ptx_getTransaction", deployment))["domain"] == "noto"
        assert (await ask("seq_explain", deployment))["state"] == "confirmed"


@pytest.mark.slow
@in_loop
async def test_many_contracts_are_deployed_at_once_from_all_nodes(tmp_path: Path) -> None:
    async with network(tmp_path, *ALL) as nodes:
        await nodes.start(*ALL)
        deployments = [(name, await nodes.deploy(name, "synthetic", SYNTHETIC)) for _ in range(4) for name in ALL]
        contracts = [await receipt_of(nodes, name, deployment) for name, deployment in deployments]
        assert len(set(contracts)) == len(deployments)
        assert all(has(nodes, name, contract) for contract in contracts for name in ALL)


# What is refused.


@in_loop
async def test_wrong_deployments_are_refused_before_they_have_an_id(tmp_path: Path) -> None:
    async with network(tmp_path, *ALL) as nodes:
        await nodes.start(NODE1)
        wrong: list[tuple[str, object, dict[str, object], str]] = [
            ("nothing", SYNTHETIC, {}, "domain"),
            ("synthetic", {"members": 7}, {}, "data.members"),
            ("synthetic", {"members": []}, {}, "data.members"),
            ("noto", {**NOTO, "notaryMode": "hooks"}, {}, "data.options.hooks.publicAddress"),
            ("noto", {**NOTO, "notaryMode": "own"}, {}, "data.notaryMode"),
            ("synthetic", SYNTHETIC, {"sender": "bob@node9"}, "from"),
            ("synthetic", SYNTHETIC, {"submit_mode": SubmitMode.EXTERNAL}, "submitMode"),
            ("noto", NOTO, {"sequencing": SequencingChoice(Mode.RING)}, "sequencing.mode"),
            ("noto", NOTO, {"sequencing": SequencingChoice(range_size=5)}, "sequencing.rangeSize"),
        ]
        for domain, arguments, more, field in wrong:
            with pytest.raises(Rejected) as caught:
                await nodes.deploy(NODE1, domain, arguments, **more)
            assert caught.value.field == field
        assert await nodes.processes[NODE1].running.adapters.store.unfinished_count() == 0


@in_loop
async def test_node_that_does_not_take_it_reverts_it_with_its_reason(tmp_path: Path) -> None:
    async with network(tmp_path, *ALL) as nodes:
        await nodes.start(*ALL)
        # A node without the domain, as if the package were not installed there.
        del nodes.processes[NODE3].running.contracts._domains["synthetic"]  # type: ignore[attr-defined]
        deployment = await nodes.deploy(NODE1, "synthetic", SYNTHETIC)
        receipt = await nodes.final(NODE1, deployment)
        assert receipt.outcome is Outcome.REVERTED
        assert receipt.reason.startswith("node3 does not take the contract: genesis: domain: must be one of")
        assert await find_deployment(nodes.client, nodes.factory, deployment) is None
        proposals = nodes.processes[NODE2].running.engine.core.deployments.proposals
        await nodes.until(lambda: not proposals.kept)


@in_loop
async def test_id_that_a_stranger_uses_on_the_chain_reverts_and_is_taken_in_by_nobody(tmp_path: Path) -> None:
    async with network(tmp_path, *ALL) as nodes:
        await nodes.start(NODE1, NODE2)
        deployment = await nodes.deploy(NODE1, "synthetic", SYNTHETIC)
        await until_told(nodes, NODE1, deployment, "Proposing")
        own = nodes.processes[NODE1].running.engine.core.deployments.own[deployment]
        # Somebody who knows id and genesis puts himself in the place of an endorser.
        strangers = tuple(ContractAddress(f"0x{number:040x}") for number in (1, 2, 3))
        call = deploy_endorsed(deployment, genesis_hash(own.intent.payload), strangers, 2)
        await send(nodes.client, {"to": nodes.factory, "data": data(call)})
        receipt = await nodes.final(NODE1, deployment)
        assert receipt.outcome is Outcome.REVERTED
        assert "somebody else has deployed" in receipt.reason
        found = await find_deployment(nodes.client, nodes.factory, deployment)
        assert found is not None
        assert not any(has(nodes, name, found.deployment.contract) for name in (NODE1, NODE2))


@pytest.mark.slow
@in_loop
async def test_deployment_without_funds_waits_and_says_whom_to_fund(tmp_path: Path) -> None:
    async with network(tmp_path, *ALL, is_registrar_funded=False) as nodes:
        await nodes.start(*ALL)
        deployment = await nodes.deploy(NODE1, "synthetic", SYNTHETIC)
        registrar = nodes.keys[NODE1].registrar
        told = await until_told(nodes, NODE1, deployment, "Calling")
        while registrar not in told.detail:
            await asyncio.sleep(0.01)
            told = await until_told(nodes, NODE1, deployment, "Calling")
        assert (told.waits_for, told.blocked_by) == ("the factory to deploy it", (NODE1,))
        with pytest.raises(Rejected, match="cannot be given up"):
            await nodes.processes[NODE1].facade.cancel(deployment)
        await fund(nodes)
        await receipt_of(nodes, NODE1, deployment)


# Who is away.


@pytest.mark.slow
@in_loop
async def test_member_that_is_away_is_waited_for_and_named(tmp_path: Path) -> None:
    async with network(tmp_path, *ALL) as nodes:
        await nodes.start(NODE1, NODE2)
        deployment = await nodes.deploy(NODE1, "synthetic", SYNTHETIC)
        told = await until_told(nodes, NODE1, deployment, "Proposing")
        while told.blocked_by != (NODE3,):
            await asyncio.sleep(0.01)
            told = await until_told(nodes, NODE1, deployment, "Proposing")
        await nodes.start(NODE3)
        contract = await receipt_of(nodes, NODE1, deployment)
        await nodes.until(lambda: has(nodes, NODE3, contract))
        await assert_confirmed(nodes, NODE3, contract)


@in_loop
async def test_user_may_give_up_what_waits_for_a_member(tmp_path: Path) -> None:
    async with network(tmp_path, *ALL) as nodes:
        await nodes.start(NODE1)
        deployment = await nodes.deploy(NODE1, "synthetic", SYNTHETIC)
        await nodes.processes[NODE1].facade.cancel(deployment)
        receipt = await nodes.final(NODE1, deployment)
        assert (receipt.outcome, receipt.reason) == (Outcome.REVERTED, "cancelled")


@pytest.mark.slow
@in_loop
async def test_member_that_is_away_when_it_is_deployed_takes_it_in_when_it_is_back(tmp_path: Path) -> None:
    async with network(tmp_path, *ALL, is_registrar_funded=False) as nodes:
        await nodes.start(*ALL)
        deployment = await nodes.deploy(NODE1, "synthetic", SYNTHETIC)
        await until_told(nodes, NODE1, deployment, "Calling")
        await nodes.kill(NODE3)
        await fund(nodes)
        contract = await receipt_of(nodes, NODE1, deployment)
        # A member that did not deploy it goes on when each endorser has confirmed it.
        with pytest.raises(Unavailable, match="node3 as endorsers, which have not confirmed"):
            await nodes.submit(NODE2, contract, "spend")
        await nodes.start(NODE3)
        await nodes.until(lambda: has(nodes, NODE3, contract))
        await assert_confirmed(nodes, NODE3, contract)
        await assert_confirmed(nodes, NODE2, contract)


# Who is killed.


STAGES = ("Proposing", "Agreeing", "Calling", "Deployed", "Ending")


async def reach(nodes: Network, deployment: IntentId, stage: str) -> None:
    """Let a deployment of node1, whose registrar has nothing, come so far."""
    own = nodes.processes[NODE1].running.engine.core.deployments.own[deployment]
    passed = (*STAGES[STAGES.index(stage) :], "Spreading", "Final")
    if stage in ("Deployed", "Ending"):
        await nodes.until(lambda: own.state.value == "Calling")
        await fund(nodes)
    if stage == "Ending":
        await nodes.until(lambda: own.state.value == "Deployed")
        await mine(nodes)
    await nodes.until(lambda: own.state.value in passed)


async def fund(nodes: Network) -> None:
    await send(nodes.client, {"to": nodes.keys[NODE1].registrar, "value": hex(10**18)})


async def mine(nodes: Network) -> None:
    """A block that concerns nobody."""
    await send(nodes.client, {"to": nodes.keys[NODE1].submitter, "value": "0x1"})


@pytest.mark.slow
@pytest.mark.parametrize("stage", STAGES)
def test_deployer_that_is_killed_goes_on_where_it_was(tmp_path: Path, stage: str) -> None:
    @in_loop
    async def play() -> None:
        async with network(tmp_path, *ALL, config=Config(confirmations=1), is_registrar_funded=False) as nodes:
            await nodes.start(*ALL)
            deployment = await nodes.deploy(NODE1, "synthetic", SYNTHETIC)
            await reach(nodes, deployment, stage)
            await nodes.kill(NODE1)
            await nodes.start(NODE1)
            if stage not in ("Deployed", "Ending"):
                await until_told(nodes, NODE1, deployment, "Calling")
                await fund(nodes)
            found = None
            while found is None:
                found = await find_deployment(nodes.client, nodes.factory, deployment)
            await mine(nodes)
            contract = await receipt_of(nodes, NODE1, deployment)
            assert found.deployment.contract == contract
            await nodes.until(lambda: all(has(nodes, name, contract) for name in ALL))

    play()


@pytest.mark.slow
@in_loop
async def test_member_that_restarts_between_its_answer_and_the_deployment_has_the_contract(tmp_path: Path) -> None:
    async with network(tmp_path, *ALL, is_registrar_funded=False) as nodes:
        await nodes.start(*ALL)
        deployment = await nodes.deploy(NODE1, "synthetic", SYNTHETIC)
        await until_told(nodes, NODE1, deployment, "Calling")
        await nodes.kill(NODE2)
        await nodes.start(NODE2)
        await fund(nodes)
        contract = await receipt_of(nodes, NODE1, deployment)
        await nodes.until(lambda: has(nodes, NODE2, contract))
        await nodes.kill(NODE2)
        await nodes.start(NODE2)
        await assert_confirmed(nodes, NODE2, contract)
