"""Notary tokens on real nodes and a real chain: keys, connections, databases, contracts."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from rota import host
from rota.domains.noto import Noto
from rota.engine.held_states import HeldStates
from rota.host import UserCall
from rota.ledger.bindings import deploy_endorsed
from rota.ledger.hexadecimal import data
from rota.model.genesis import encode_genesis, genesis_hash
from rota.model.types import ContractAddress, IntentId, NodeName, Outcome, Party
from tests.ledger.chains import in_loop
from tests.service.kit import CHAIN_ID, Network, network, send

NODE1, NODE2, NODE3 = ALL = tuple(map(NodeName, ("node1", "node2", "node3")))
NOTARY = Party("notary@node1")


async def deployed(nodes: Network) -> ContractAddress:
    """A token whose notary is at node1, known to all."""
    domain = Noto()
    wanted = host.deploy(domain, {"notary": NOTARY, "name": "Gold", "options": {"publicLocks": False}}, NOTARY)
    genesis = host.genesis_of(domain, wanted, host.ContractDefaults(CHAIN_ID), bytes(32))
    encoded, intent = nodes.deployed = encode_genesis(genesis), IntentId(b"a token.........")
    signer = await nodes.processes[NODE1].facade.endorser_address(intent)
    call = deploy_endorsed(intent, genesis_hash(encoded), (signer,), 1)
    await send(nodes.client, {"to": nodes.factory, "data": data(call)})
    addresses = [await nodes.take_in(name) for name in ALL]
    return addresses[0]


async def balance(nodes: Network, contract: ContractAddress, account: str, asked: NodeName = NODE1) -> int:
    """As a node's user asks for it."""
    running = nodes.processes[asked].running
    hosted = running.contracts.hosted(contract)
    assert hosted is not None
    held = await HeldStates(asked, running.adapters.store).of(hosted)
    told = host.call(hosted, UserCall(Party(f"user@{asked}"), "balanceOf", [account]), held, asked)
    assert isinstance(told, dict)
    return int(told["totalBalance"])


@pytest.mark.slow
@in_loop
async def test_coins_go_from_node_to_node_and_nobody_overspends(tmp_path: Path) -> None:
    async with network(tmp_path, *ALL) as nodes:
        await nodes.start(*ALL)
        contract = await deployed(nodes)

        async def do(node: NodeName, function: str, arguments: object, sender: str = "alice") -> Outcome:
            intent = await nodes.submit(node, contract, function, arguments, sender=sender)
            return (await nodes.final(node, intent)).outcome

        assert await do(NODE1, "mint", ["alice@node2", 100, "0x"], "notary") is Outcome.CONFIRMED
        spends = [await nodes.submit(NODE2, contract, "transfer", ["bob@node3", 60, "0x"]) for _ in range(3)]
        receipts = [await nodes.final(NODE2, intent) for intent in spends]
        assert sorted(receipt.outcome.value for receipt in receipts) == ["confirmed", "reverted", "reverted"]
        reasons = {receipt.reason for receipt in receipts if receipt.reason}
        assert reasons == {"PD200005: Insufficient funds (available=40)"}
        assert await do(NODE2, "burn", [10, "0x"]) is Outcome.CONFIRMED
        assert await do(NODE3, "transfer", ["alice@node2", 25, "0x"], "bob") is Outcome.CONFIRMED
        for account, expected in (("alice@node2", 55), ("bob@node3", 35)):
            # The notary's index may be a block behind the one that told of the receipt.
            while await balance(nodes, contract, account) != expected:
                await asyncio.sleep(0.005)


@pytest.mark.slow
@in_loop
async def test_parked_transfer_is_resumed_when_there_are_funds_also_after_a_restart(tmp_path: Path) -> None:
    async with network(tmp_path, *ALL) as nodes:
        nodes.domains["noto"] = {"park_transfers": True}
        await nodes.start(*ALL)
        contract = await deployed(nodes)
        waiting = await nodes.submit(NODE2, contract, "transfer", ["bob@node3", 60, "0x"])

        async def until_parked() -> str:
            while (found := await nodes.processes[NODE2].facade.explain(waiting)) is None or found.state != "Parked":
                await asyncio.sleep(0.005)
            return found.waits_for

        assert "PD200005: Insufficient funds (available=0); resume it when there are funds" in await until_parked()
        minted = await nodes.submit(NODE1, contract, "mint", ["alice@node2", 100, "0x"], sender="notary")
        assert (await nodes.final(NODE1, minted)).outcome is Outcome.CONFIRMED
        await nodes.kill(NODE2)
        await nodes.start(NODE2)
        await until_parked()
        while await balance(nodes, contract, "alice@node2", NODE2) != 100:
            await asyncio.sleep(0.005)
        await nodes.processes[NODE2].facade.resume(waiting)
        assert (await nodes.final(NODE2, waiting)).outcome is Outcome.CONFIRMED
        while await balance(nodes, contract, "bob@node3") != 60:
            await asyncio.sleep(0.005)
