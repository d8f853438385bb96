"""Tokens with hooks on three real nodes and a real chain: a private contract decides about each operation."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from rota.ledger.artifacts import Artifact, artifact_from_json
from rota.ledger.bindings import separator_of
from rota.model.config import Config
from rota.model.types import ContractAddress, IntentId, NodeName, Outcome, Party, Receipt
from rota.service.carrying import carrying as carrying_module
from rota.testing.workloads.pente import call_of
from tests.domains.pente.members import ARTIFACTS
from tests.domains.pente.test_network import Group
from tests.domains.test_noto_network import balance
from tests.ledger.chains import in_loop
from tests.service.kit import CHAIN_ID, Network, network

pytestmark = pytest.mark.slow

NODE1, NODE2, NODE3 = ALL = tuple(map(NodeName, ("node1", "node2", "node3")))
NOTARY, ALICE, BOB = Party("alice@node1"), Party("alice@node2"), Party("alice@node3")
HOOK = artifact_from_json((ARTIFACTS / "Hook.json").read_text(encoding="utf-8"))


@dataclass
class Gold:
    """A token whose notary is at node1, and its hook in a group of node1 and node3."""

    nodes: Network
    group: Group
    hook: str
    token: ContractAddress

    async def submit(self, node: NodeName, function: str, arguments: object) -> IntentId:
        return await self.nodes.submit(node, self.token, function, arguments)

    async def do(self, node: NodeName, function: str, arguments: object) -> Receipt:
        return await self.nodes.final(node, await self.submit(node, function, arguments))

    async def mint(self, to: Party, amount: int) -> None:
        receipt = await self.do(NODE1, "mint", [to, amount, "0x"])
        assert receipt.outcome is Outcome.CONFIRMED, receipt.reason

    async def tell_hook(self, name: str, *arguments: object, node: NodeName = NODE3) -> Receipt:
        return await self.group.invoke(node, self.hook, HOOK, name, *arguments)

    async def hook_has(self, **wanted: int) -> None:
        for name, value in wanted.items():
            for node in (NODE1, NODE3):
                await self.group.until_told({"0": str(value)}, node, self.hook, HOOK, name)

    async def balance_is(self, party: Party, amount: int) -> None:
        while await balance(self.nodes, self.token, party) != amount:
            await asyncio.sleep(0.01)

    async def chained(self, node: NodeName = NODE1) -> list[dict[str, Any]]:
        found = await self.nodes.processes[node].facade.following.query_chained_dispatches({"limit": 100})
        return [{"transaction": each.transaction, "chained": each.chained} for each in found]

    async def carried_calls(self) -> list[tuple[IntentId, bytes]]:
        """What the hook was given, by the transaction that ran it."""
        return [(each["chained"], b"") for each in await self.chained()]


async def opened(nodes: Network, hook: Artifact = HOOK, *arguments: object, **more: object) -> Gold:
    members = [NOTARY, BOB]
    configuration = {"evmVersion": "cancun", "externalCallsEnabled": True, **more}
    wanted = {"members": members, "configuration": configuration}
    created = await nodes.final(NODE1, await nodes.deploy(NODE1, "pente", wanted))
    assert created.contract is not None, created.reason
    group = Group(nodes, created.contract)
    running = nodes.processes[NODE3].running
    await nodes.until(lambda: running.contracts.hosted(group.contract) is not None)
    address = await group.deploy(NODE1, hook, *arguments)
    return Gold(nodes, group, address, await token_of(nodes, group.contract, address))


async def token_of(nodes: Network, ledger: str, hook: str) -> ContractAddress:
    hooks = {"publicAddress": ledger, "privateAddress": hook, "privateGroup": {"members": [NOTARY, BOB]}}
    asked = {"notary": NOTARY, "name": "Gold", "notaryMode": "hooks", "options": {"hooks": hooks}}
    receipt = await nodes.final(NODE1, await nodes.deploy(NODE1, "noto", asked))
    assert receipt.contract is not None, receipt.reason
    for name in ALL:
        await nodes.until(lambda name=name: nodes.processes[name].running.contracts.hosted(receipt.contract) is not None)
    return receipt.contract


@asynccontextmanager
async def gold_on(path: Path, config: Config | None = None, **more: object) -> AsyncIterator[Gold]:
    async with network(path, *ALL, **({"config": config} if config is not None else {})) as nodes:
        await nodes.start(*ALL)
        await nodes.connected()
        yield await opened(nodes, **more)


@in_loop
async def test_hook_carries_out_what_is_minted_paid_and_burned(tmp_path: Path) -> None:
    async with gold_on(tmp_path) as gold:
        await gold.mint(ALICE, 100)
        paid = await gold.submit(NODE2, "transfer", [BOB, 30, "0x01"])
        receipt = await gold.nodes.final(NODE2, paid)
        assert (receipt.outcome, receipt.reason) == (Outcome.CONFIRMED, "")
        burned = await gold.do(NODE3, "burn", [10, "0x"])
        assert burned.outcome is Outcome.CONFIRMED, burned.reason
        await gold.balance_is(ALICE, 70)
        await gold.balance_is(BOB, 20)
        await gold.hook_has(runs=3, moved=140)
        # Both are in one transaction of the chain, and the notary's node tells of both.
        chained = {each["transaction"]: each["chained"] for each in await gold.chained()}
        assert len(chained) == 3
        outer = await gold.nodes.processes[NODE1].facade.receipt(chained[paid])
        inner = await gold.nodes.processes[NODE2].facade.receipt(paid)
        assert outer is not None
        assert inner is not None
        assert outer.success
        assert (outer.transaction_hash, outer.block_number) == (inner.transaction_hash, inner.block_number)
        assert await gold.chained(NODE2) == []
