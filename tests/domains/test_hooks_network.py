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
from rota.model.config import Config
from rota.model.types import ContractAddress, IntentId, NodeName, Outcome, Party, Receipt
from rota.service.carrying import carrying as carrying_module
from rota.service.carrying.rests import EXCUSED
from tests.domains.pente.members import ARTIFACTS
from tests.domains.pente.test_network import Group
from tests.domains.test_noto_network import balance
from tests.ledger.chains import Chain, in_loop, running
from tests.server.three_nodes import FREE
from tests.service.kit import Network, network

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


async def opened(nodes: Network, hook: Artifact = HOOK, *arguments: object, **more: object) -> Gold:
    members = [NOTARY, BOB]
    configuration = {"evmVersion": "cancun", "externalCallsEnabled": True, **more}
    wanted = {"members": members, "configuration": configuration}
    created = await nodes.final(NODE1, await nodes.deploy(NODE1, "pente", wanted))
    assert created.contract is not None, created.reason
    group = Group(nodes, created.contract)
    theirs = nodes.processes[NODE3].running
    await nodes.until(lambda: theirs.contracts.hosted(group.contract) is not None)
    address = await group.deploy(NODE1, hook, *arguments)
    return Gold(nodes, group, address, await token_of(nodes, group.contract, address))


async def token_of(nodes: Network, ledger: str, hook: str) -> ContractAddress:
    hooks = {"publicAddress": ledger, "privateAddress": hook, "privateGroup": {"members": [NOTARY, BOB]}}
    asked = {"notary": NOTARY, "name": "Gold", "notaryMode": "hooks", "options": {"hooks": hooks}}
    receipt = await nodes.final(NODE1, await nodes.deploy(NODE1, "noto", asked))
    assert receipt.contract is not None, receipt.reason
    for name in ALL:
        await nodes.until(
            lambda name=name: nodes.processes[name].running.contracts.hosted(receipt.contract) is not None
        )
    return receipt.contract


@asynccontextmanager
async def gold_on(path: Path, outside: Chain | None = None) -> AsyncIterator[Gold]:
    # Parties without funds make public calls on a chain without fees.
    async with network(path, *ALL, outside=outside, chain_settings=FREE) as nodes:
        await nodes.start(*ALL)
        await nodes.connected()
        yield await opened(nodes)


@pytest.mark.parametrize("kind", ["embedded", "anvil"])
@in_loop
async def test_hook_carries_out_minting_paying_and_burning(tmp_path: Path, kind: str) -> None:
    async with running(kind, tmp_path) as chain, gold_on(tmp_path, chain) as gold:
        await gold.mint(ALICE, 100)
        paid = await gold.submit(NODE2, "transfer", [BOB, 30, "0x01"])
        receipt = await gold.nodes.final(NODE2, paid)
        assert (receipt.outcome, receipt.reason) == (Outcome.CONFIRMED, "")
        burned = await gold.do(NODE3, "burn", [10, "0x"])
        assert burned.outcome is Outcome.CONFIRMED, burned.reason
        await gold.balance_is(ALICE, 70)
        await gold.balance_is(BOB, 20)
        await gold.hook_has(runs=3, moved=140)
        # Both are in one transaction of the chain, and the notary's node lists both.
        chained = {each["transaction"]: each["chained"] for each in await gold.chained()}
        assert len(chained) == 3
        outer = await gold.nodes.processes[NODE1].facade.receipt(chained[paid])
        inner = await gold.nodes.processes[NODE2].facade.receipt(paid)
        assert outer is not None
        assert inner is not None
        assert outer.success
        assert (outer.transaction_hash, outer.block_number) == (inner.transaction_hash, inner.block_number)
        assert await gold.chained(NODE2) == []


@in_loop
async def test_reason_of_a_hook_reaches_the_user_and_nothing_has_happened(tmp_path: Path) -> None:
    async with gold_on(tmp_path) as gold:
        await gold.mint(ALICE, 100)
        await gold.tell_hook("refuse", "bob is not on the list")
        receipt = await gold.do(NODE2, "transfer", [BOB, 30, "0x"])
        assert (receipt.outcome, receipt.reason) == (Outcome.REVERTED, "bob is not on the list")
        await gold.tell_hook("refuse", "")
        # The coins are free again.
        receipt = await gold.do(NODE2, "transfer", [BOB, 100, "0x"])
        assert receipt.outcome is Outcome.CONFIRMED, receipt.reason
        await gold.balance_is(BOB, 100)
        await gold.hook_has(runs=2, moved=200)


@in_loop
async def test_limit_holds_for_payments_at_the_same_time(tmp_path: Path) -> None:
    """Each is within the limit alone. The hook runs one after the other, and refuses what exceeds it."""
    async with gold_on(tmp_path) as gold:
        for _ in range(4):
            await gold.mint(ALICE, 10)
        await gold.tell_hook("setLimit", 40 + 25)
        intents = [await gold.submit(NODE2, "transfer", [BOB, 10, "0x"]) for _ in range(4)]
        receipts = [await gold.nodes.final(NODE2, intent) for intent in intents]
        reasons = sorted(receipt.reason for receipt in receipts)
        assert reasons == ["", "", "the limit is reached", "the limit is reached"]
        await gold.balance_is(BOB, 20)
        await gold.hook_has(moved=60, runs=6)


@in_loop
async def test_hook_that_calls_another_contract_moves_nothing(tmp_path: Path) -> None:
    """A call of its own group's ledger is refused, and with it the payment."""
    async with gold_on(tmp_path) as gold:
        await gold.mint(ALICE, 100)
        await gold.tell_hook("callInstead", gold.group.contract)
        receipt = await gold.do(NODE2, "transfer", [BOB, 30, "0x"])
        assert receipt.outcome is Outcome.REVERTED
        assert "calls the ledger" in receipt.reason
        await gold.hook_has(runs=1)
        await gold.balance_is(BOB, 0)


@in_loop
async def test_member_of_the_group_cannot_go_past_the_hook(tmp_path: Path) -> None:
    """It takes the call that the hook was given to a contract of its own in the same group, whose ledger may call."""
    async with gold_on(tmp_path) as gold:
        await gold.mint(ALICE, 100)
        own = await gold.group.deploy(NODE3, HOOK)
        told = await gold.group.ask(NODE3, gold.hook, HOOK, "lastCall")
        assert isinstance(told, dict)
        call = told["0"]
        past = await gold.group.invoke(NODE3, own, HOOK, "replay", gold.token, call)
        assert past.outcome is Outcome.REVERTED
        assert past.reason == "it carries out a transaction about which another contract of this group decides"
        # By the hook itself, which lets it pass: a committed transition is not committed again.
        again = await gold.tell_hook("replay", gold.token, call)
        assert again.outcome is Outcome.REVERTED
        assert "NotCommitted" in again.reason, again.reason
        await gold.hook_has(runs=1)
        await gold.balance_is(ALICE, 100)


@in_loop
async def test_cancelled_transaction_takes_the_run_of_its_hook_with_it(tmp_path: Path) -> None:
    """The hook's transaction is kept from the chain until the token's is void there."""
    async with gold_on(tmp_path) as gold:
        await gold.mint(ALICE, 100)
        await gold.nodes.stop(NODE3)
        paid = await gold.submit(NODE2, "transfer", [NOTARY, 30, "0x"])
        while len(await gold.chained()) < 2:
            await asyncio.sleep(0.01)
        await gold.nodes.processes[NODE2].facade.cancel(paid)
        receipt = await gold.nodes.final(NODE2, paid)
        assert (receipt.outcome, receipt.reason) == (Outcome.REVERTED, "cancelled")
        await gold.nodes.start(NODE3)
        (outer,) = [each["chained"] for each in await gold.chained() if each["transaction"] == paid]
        ended = await gold.nodes.final(NODE1, outer)
        assert ended.outcome is Outcome.REVERTED
        assert ended.reason == "cancelled", "the notary's node need not bring it to the chain"
        await gold.hook_has(runs=1)
        await gold.balance_is(ALICE, 100)


@in_loop
async def test_hook_runs_once_across_a_crash_of_the_notary(tmp_path: Path) -> None:
    async with gold_on(tmp_path) as gold:
        await gold.mint(ALICE, 100)
        await gold.nodes.stop(NODE3)
        paid = await gold.submit(NODE2, "transfer", [NOTARY, 30, "0x"])
        while len(await gold.chained()) < 2:
            await asyncio.sleep(0.01)
        before = await gold.chained()
        await gold.nodes.kill(NODE1)
        await gold.nodes.start(NODE1, NODE3)
        receipt = await gold.nodes.final(NODE2, paid)
        assert receipt.outcome is Outcome.CONFIRMED, receipt.reason
        assert await gold.chained() == before
        await gold.hook_has(runs=2, moved=130)
        await gold.balance_is(NOTARY, 30)


@in_loop
async def test_crash_of_the_notary_before_the_hook_is_asked_is_made_up_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with gold_on(tmp_path) as gold:
        await gold.mint(ALICE, 100)
        with monkeypatch.context() as patched:
            patched.setattr(carrying_module.CarryingDesk, "_submitted", _never)
            paid = await gold.submit(NODE2, "transfer", [BOB, 30, "0x"])
            book = gold.nodes.processes[NODE1].running.adapters.store.carried
            while not await book.open(10, 10):
                await asyncio.sleep(0.01)
            await gold.nodes.kill(NODE1)
        await gold.nodes.start(NODE1)
        receipt = await gold.nodes.final(NODE2, paid)
        assert receipt.outcome is Outcome.CONFIRMED, receipt.reason
        await gold.hook_has(runs=2)


@in_loop
async def test_what_expires_before_its_hook_ran_is_endorsed_again(tmp_path: Path) -> None:
    async with gold_on(tmp_path) as gold:
        await gold.mint(ALICE, 100)
        await gold.nodes.stop(NODE3)
        paid = await gold.submit(NODE2, "transfer", [NOTARY, 30, "0x"])
        while len(await gold.chained()) < 2:
            await asyncio.sleep(0.01)
        (first,) = [each["chained"] for each in await gold.chained() if each["transaction"] == paid]
        await gold.nodes.client.call("evm_increaseTime", Config().prepared_validity_s + 1)
        await gold.nodes.client.call("evm_mine")
        await gold.nodes.client.call("evm_mine")
        await gold.nodes.start(NODE3)
        receipt = await gold.nodes.final(NODE2, paid)
        assert receipt.outcome is Outcome.CONFIRMED, receipt.reason
        assert (await gold.nodes.final(NODE1, first)).outcome is Outcome.REVERTED
        await gold.hook_has(runs=2, moved=130)
        await gold.balance_is(NOTARY, 30)


@in_loop
async def test_hook_is_not_asked_for_a_while_for_a_node_that_voids_operations_being_carried_out(tmp_path: Path) -> None:
    """The call of a hook's transaction that is on its way fails on the chain then, and the group pays for it."""
    async with gold_on(tmp_path) as gold:
        for _ in range(EXCUSED + 2):
            await gold.mint(ALICE, 10)
        await gold.nodes.stop(NODE3)
        for number in range(1, EXCUSED + 2):
            paid = await gold.submit(NODE2, "transfer", [NOTARY, 10, "0x"])
            while len(await gold.chained()) < EXCUSED + 2 + number:
                await asyncio.sleep(0.01)
            await gold.nodes.processes[NODE2].facade.cancel(paid)
            assert (await gold.nodes.final(NODE2, paid)).outcome is Outcome.REVERTED
        await gold.nodes.start(NODE3)
        before = await gold.chained()
        book = gold.nodes.processes[NODE1].running.adapters.store.carried
        while await book.open(10, 10):
            await asyncio.sleep(0.01)
        await gold.submit(NODE2, "transfer", [NOTARY, 10, "0x"])
        while not any(each.chained is None for each in await book.open(10, 10)):
            await asyncio.sleep(0.01)
        await gold.submit(NODE1, "mint", [BOB, 5, "0x"])
        while len(await gold.chained()) == len(before):
            await asyncio.sleep(0.01)
        assert len(await gold.chained()) == len(before) + 1
        assert any(each.chained is None for each in await book.open(10, 10))


@in_loop
async def test_hook_is_not_asked_about_an_operation_that_expires_soon(tmp_path: Path) -> None:
    """A party names the bound of its transition. The call would fail on the chain, and the group would pay for it."""
    async with network(tmp_path, *ALL) as nodes:
        await nodes.start(*ALL)
        await nodes.connected()
        gold = await opened(nodes)
        await gold.mint(ALICE, 100)
        await nodes.stop(NODE2)
        whole, nodes.config = nodes.config, replace(nodes.config, prepared_validity_s=60)
        await nodes.start(NODE2)
        nodes.config = whole
        await gold.submit(NODE2, "transfer", [BOB, 30, "0x"])
        book = nodes.processes[NODE1].running.adapters.store.carried
        while not (found := await book.open(10, 10)):
            await asyncio.sleep(0.01)
        await nodes.client.call("evm_increaseTime", 100)
        while any(each.key == found[0].key for each in await book.open(10, 10)):
            await nodes.client.call("evm_mine")
            await asyncio.sleep(0.1)
        assert len(await gold.chained()) == 1, "for the mint alone"
        await gold.hook_has(runs=1)


async def _never(*_: object) -> IntentId:
    await asyncio.Event().wait()
    raise AssertionError("nobody wakes it")


@in_loop
async def test_token_of_a_group_without_external_calls_names_the_reason(tmp_path: Path) -> None:
    async with network(tmp_path, *ALL) as nodes:
        await nodes.start(*ALL)
        gold = await opened(nodes, externalCallsEnabled=False)
        receipt = await gold.do(NODE1, "mint", [ALICE, 5, "0x"])
        assert receipt.outcome is Outcome.REVERTED
        assert "external calls are not enabled in this group" in receipt.reason
        no_group = await token_of(nodes, "0x" + "77" * 20, gold.hook)
        other = replace(gold, token=no_group)
        receipt = await other.do(NODE1, "mint", [ALICE, 5, "0x"])
        assert receipt.outcome is Outcome.REVERTED
        assert f"must be a contract of {NODE1}" in receipt.reason
