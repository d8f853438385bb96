"""A token against a private contract's action, on three real nodes and a real chain: both or neither."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from rota.domains.noto.operations import lock_id_of
from rota.ledger.bindings import creation_code, encode_call, revert_text, separator_of
from rota.ledger.client import RpcRefused
from rota.ledger.embedded.accounts import DEVELOPMENT_ACCOUNTS
from rota.ledger.hexadecimal import data, read_data
from rota.model.config import Config
from rota.model.types import ContractAddress, IntentId, NodeName, Outcome, Party, Receipt, SubmitMode
from rota.ports import Unavailable
from rota.rpc import errors
from rota.service.interface import DraftView, LegView, NamedLeg, Submission, TransactionType
from rota.testing.workloads.pente import call_of
from tests.domains.pente.members import token
from tests.domains.pente.test_network import Group, created
from tests.domains.test_noto_network import balance, deployed
from tests.ledger.chains import in_loop
from tests.service.kit import CHAIN_ID, Network, network, send

NODE1, NODE2, NODE3 = ALL = tuple(map(NodeName, ("node1", "node2", "node3")))
HOLDER, BUYER, SELLER = (Party(f"alice@{node}") for node in ALL)
PRICE, SHARES = 40, 7
HALF_S = Config().prepared_validity_s // 2


@dataclass
class Market:
    """Gold, which the buyer has locked for the seller, and private shares, which the seller has."""

    nodes: Network
    gold: ContractAddress
    group: Group
    shares: str
    settlement: ContractAddress
    lock_id: str = ""

    async def gold_draft(self) -> DraftView:
        """The buyer would have its lock spent."""
        return await self._draft(NODE2, self.gold, "spendLock", {"lockId": self.lock_id}, SELLER)

    async def shares_draft(self) -> DraftView:
        """The seller would transfer its shares."""
        buyer = await self.group.address(BUYER)
        wanted = {**call_of(self.shares, token(), "transfer", buyer, SHARES), "committer": self.settlement}
        return await self._draft(NODE3, self.group.contract, "invoke", wanted, BUYER)

    async def _draft(self, node: NodeName, to: ContractAddress, function: str, given: object, reader: str) -> DraftView:
        asked = Submission(TransactionType.PRIVATE, "alice", to=to, function=function, data=given)  # type: ignore[arg-type]
        while True:
            # The latest state may be on its way to this node.
            with suppress(Unavailable):
                return await self.nodes.processes[node].facade.draft(asked, (reader,))
            await asyncio.sleep(0.005)

    async def bind(self, node: NodeName, draft: DraftView, legs: tuple[NamedLeg, ...]) -> IntentId:
        """To both legs."""
        return await self.nodes.processes[node].facade.bind(draft.id, legs, "")

    async def leg(self, node: NodeName, intent: IntentId) -> LegView:
        """When it is endorsed; the test's own time limit bounds it."""
        while (found := await self.nodes.processes[node].facade.leg(intent)) is None:
            await asyncio.sleep(0.005)
        return found

    async def refusal(self, *legs: LegView) -> str:
        """Why the chain does not settle; nothing when it did."""
        call = encode_call("Settlement", "settle", [(leg.contract, [leg.core], leg.payload, leg.auth) for leg in legs])
        wanted = {"from": data(DEVELOPMENT_ACCOUNTS[0].address), "to": self.settlement, "data": data(call)}
        try:
            await self.nodes.client.call("eth_call", wanted, "latest")
        except RpcRefused as refused:
            return revert_text(read_data(refused.failure.data)).partition("(")[0]
        await send(self.nodes.client, {"to": self.settlement, "data": data(call)})
        return ""

    async def ended(self, node: NodeName, intent: IntentId) -> Receipt:
        return await self.nodes.final(node, intent)

    async def cancelled(self, node: NodeName, intent: IntentId) -> None:
        """By its user."""
        await self.nodes.processes[node].facade.cancel(intent)
        receipt = await self.ended(node, intent)
        assert (receipt.outcome, receipt.reason) == (Outcome.REVERTED, "cancelled")

    async def let_time_pass(self, seconds: int) -> None:
        """In the chain's time, and every node has seen it."""
        await self.nodes.client.call("evm_increaseTime", seconds)
        await self.nodes.client.call("evm_mine")
        height = int(str(await self.nodes.client.call("eth_blockNumber")), 16)
        running = [process.running for process in self.nodes.processes.values()]
        await self.nodes.until(lambda: all(each.engine.core.height >= height for each in running))

    async def holds(self, gold_paid: int, shares_given: int) -> None:
        """What both have in the end; a node's index may be a block behind."""
        while await balance(self.nodes, self.gold, SELLER) != gold_paid:
            await asyncio.sleep(0.005)
        buyer = await self.group.address(BUYER)
        for node in ALL:
            told = {"balance": str(shares_given)}
            await self.group.until_told(told, node, self.shares, token(), "balanceOf", buyer)


async def opened(nodes: Network, delegate: ContractAddress | None = None) -> Market:
    """Gold in a lock that only the settlement, or another delegate, may end; and shares."""
    settlement = (await send(nodes.client, {"data": data(creation_code("Settlement"))})).contract
    assert settlement is not None
    gold = await deployed(nodes)
    group = await created(nodes)
    shares = await group.deploy(NODE3, token(), "Shares", "S")
    market = Market(nodes, gold, group, shares, settlement)

    async def do(node: NodeName, function: str, arguments: object, sender: str = "alice") -> IntentId:
        intent = await nodes.submit(node, gold, function, arguments, sender=sender)
        receipt = await nodes.final(node, intent)
        assert receipt.outcome is Outcome.CONFIRMED, receipt.reason
        return intent

    assert (await group.invoke(NODE3, shares, token(), "mint", await group.address(SELLER), 50)).outcome is (
        Outcome.CONFIRMED
    )
    await do(NODE1, "mint", [BUYER, 100, "0x"], "notary")
    locked = await do(NODE2, "createTransferLock", [BUYER, [{"to": SELLER, "amount": PRICE}], "0x", "0x"])
    market.lock_id = "0x" + lock_id_of(separator_of(CHAIN_ID, gold), locked).hex()
    await do(NODE2, "delegateLock", [market.lock_id, delegate or settlement, "0x"])
    return market


def named(*drafts: DraftView) -> tuple[NamedLeg, ...]:
    return tuple(NamedLeg(draft.contract, (draft.core,)) for draft in drafts)


@pytest.mark.slow
@in_loop
async def test_gold_is_paid_for_private_shares_in_one_transaction(tmp_path: Path) -> None:
    async with network(tmp_path, *ALL) as nodes:
        await nodes.start(*ALL)
        market = await opened(nodes)
        gold, shares = await market.gold_draft(), await market.shares_draft()

        # Each looks at what the other offers, and takes no core on trust.
        offered = await nodes.processes[NODE2].facade.examine(shares.openings[0])
        assert (offered.contract, offered.core) == (market.group.contract, shares.core)
        assert offered.receipt == shares.receipt
        assert market.shares in str(offered.receipt)
        paid = await nodes.processes[NODE3].facade.examine(gold.openings[0])
        assert paid.core == gold.core
        assert paid.receipt["transfers"] == [{"to": SELLER, "amount": str(PRICE)}]

        legs = named(gold, shares)
        payment = await market.bind(NODE2, gold, legs)
        transfer = await market.bind(NODE3, shares, legs)
        assert (payment, transfer) == (gold.id, shares.id)
        both = await market.leg(NODE2, payment), await market.leg(NODE3, transfer)
        assert [(leg.core, leg.committer) for leg in both] == [
            (gold.core, market.settlement),
            (shares.core, market.settlement),
        ]
        assert await market.refusal(*both) == ""
        assert (await market.ended(NODE2, payment)).outcome is Outcome.CONFIRMED
        assert (await market.ended(NODE3, transfer)).outcome is Outcome.CONFIRMED
        await market.holds(PRICE, SHARES)
        assert await nodes.processes[NODE2].facade.leg(payment) is None


@pytest.mark.slow
@in_loop
async def test_where_one_side_fails_neither_happens_and_both_are_tried_again(tmp_path: Path) -> None:
    async with network(tmp_path, *ALL) as nodes:
        await nodes.start(*ALL)
        market = await opened(nodes)

        # What the shares stand on is spent by another before they are bound, and the gold is left without its partner.
        gold, shares = await market.gold_draft(), await market.shares_draft()
        holder = await market.group.address(HOLDER)
        moved = await market.group.invoke(NODE3, market.shares, token(), "mint", holder, 1)
        assert moved.outcome is Outcome.CONFIRMED
        legs = named(gold, shares)
        payment, transfer = await market.bind(NODE2, gold, legs), await market.bind(NODE3, shares, legs)
        failed = await market.ended(NODE3, transfer)
        assert failed.outcome is Outcome.REVERTED
        assert failed.reason.startswith("what it stands on has changed since it was drafted")
        lonely = await market.leg(NODE2, payment)
        assert await market.refusal(lonely) == "WrongCondition"
        await market.cancelled(NODE2, payment)

        # One side is spent by another when both are endorsed: its user has voided it.
        gold, shares = await market.gold_draft(), await market.shares_draft()
        legs = named(gold, shares)
        payment, transfer = await market.bind(NODE2, gold, legs), await market.bind(NODE3, shares, legs)
        both = await market.leg(NODE2, payment), await market.leg(NODE3, transfer)
        # What is promised to the committer is kept from everybody else, who wait: others' locks end nothing.
        other = await market.group.send(NODE1, "invoke", call_of(market.shares, token(), "approve", holder, 1))
        reason = f"contention: to: {market.shares} has a prepared transaction that waits for its committer"
        while (told := await nodes.processes[NODE1].facade.explain(other)) is None or reason not in told.waits_for:
            await asyncio.sleep(0.005)
        await market.cancelled(NODE2, payment)
        assert await market.refusal(*both) == "LegNotCommitted"
        await market.cancelled(NODE3, transfer)
        assert (await market.group.final(NODE1, other)).outcome is Outcome.CONFIRMED
        # What is drafted next stands on it: every node has seen it.
        await market.let_time_pass(1)

        # One side has expired, the other has not.
        gold, shares = await market.gold_draft(), await market.shares_draft()
        legs = named(gold, shares)
        payment = await market.bind(NODE2, gold, legs)
        first = await market.leg(NODE2, payment)
        await market.let_time_pass(HALF_S)
        transfer = await market.bind(NODE3, shares, legs)
        second = await market.leg(NODE3, transfer)
        await market.let_time_pass(HALF_S + 60)
        assert await market.refusal(first, second) == "Expired"
        expired = await market.ended(NODE2, payment)
        assert (expired.outcome, expired.reason) == (Outcome.REVERTED, "the prepared transition has expired")
        await market.cancelled(NODE3, transfer)
        await market.holds(0, 0)

        # Nothing of all that is in the way of the next.
        gold, shares = await market.gold_draft(), await market.shares_draft()
        legs = named(gold, shares)
        payment, transfer = await market.bind(NODE2, gold, legs), await market.bind(NODE3, shares, legs)
        assert await market.refusal(await market.leg(NODE2, payment), await market.leg(NODE3, transfer)) == ""
        for node, intent in ((NODE2, payment), (NODE3, transfer)):
            assert (await market.ended(node, intent)).outcome is Outcome.CONFIRMED
        await market.holds(PRICE, SHARES)


@pytest.mark.slow
@in_loop
async def test_a_draft_is_bound_once_and_only_as_one_of_the_legs(tmp_path: Path) -> None:
    async with network(tmp_path, *ALL) as nodes:
        await nodes.start(*ALL)
        market = await opened(nodes)
        gold = await market.gold_draft()
        with pytest.raises(errors.Rejected, match=f"legs: must have 0x{gold.core.hex()} of {market.gold}"):
            await market.bind(NODE2, gold, (NamedLeg(market.gold, (bytes(32),)),))
        payment = await market.bind(NODE2, gold, named(gold))
        with pytest.raises(errors.Rejected, match="draft it again"):
            await market.bind(NODE2, gold, named(gold))
        with pytest.raises(errors.Rejected, match="draft it again"):
            await market.bind(NODE3, gold, named(gold))
        # A settlement of one leg needs no partner.
        assert await market.refusal(await market.leg(NODE2, payment)) == ""
        assert (await market.ended(NODE2, payment)).outcome is Outcome.CONFIRMED
        with pytest.raises(errors.Rejected, match="PD200028: Lock ID not found"):
            await market.gold_draft()
        with pytest.raises(errors.Rejected, match="opening: must be one that a node made of a draft"):
            await nodes.processes[NODE2].facade.examine(b"something else")


@pytest.mark.slow
@in_loop
async def test_the_delegate_of_a_lock_ends_it_on_the_ledger_and_nobody_else_does(tmp_path: Path) -> None:
    delegate, stranger = (ContractAddress(data(each.address)) for each in DEVELOPMENT_ACCOUNTS[1:3])
    async with network(tmp_path, *ALL) as nodes:
        await nodes.start(*ALL)
        market = await opened(nodes, delegate)
        payment = await nodes.submit(
            NODE2, market.gold, "spendLock", {"lockId": market.lock_id}, submit_mode=SubmitMode.EXTERNAL
        )
        leg = await market.leg(NODE2, payment)
        assert leg.committer == delegate
        commit = {"to": market.gold, "data": data(leg.call)}
        with pytest.raises(RpcRefused, match="revert"):
            await nodes.client.call("eth_call", {"from": stranger, **commit}, "latest")
        await send(nodes.client, {"from": delegate, **commit})
        assert (await market.ended(NODE2, payment)).outcome is Outcome.CONFIRMED
        while await balance(nodes, market.gold, SELLER) != PRICE:
            await asyncio.sleep(0.005)


@pytest.mark.slow
@in_loop
async def test_leg_that_is_not_settled_is_voided_for_one_that_waits_for_its_states(tmp_path: Path) -> None:
    async with network(tmp_path, *ALL) as nodes:
        await nodes.start(*ALL)
        market = await opened(nodes)
        gold, shares = await market.gold_draft(), await market.shares_draft()
        legs = named(gold, shares)
        payment, transfer = await market.bind(NODE2, gold, legs), await market.bind(NODE3, shares, legs)
        both = await market.leg(NODE2, payment), await market.leg(NODE3, transfer)

        # Another member has a settlement of its own with the same private contract.
        await market.let_time_pass(Config().prepared_hold_s + 1)
        await market.let_time_pass(1)
        holder = await market.group.address(HOLDER)
        wanted = {**call_of(market.shares, token(), "approve", holder, 1), "committer": market.settlement}
        approval = await market._draft(NODE1, market.group.contract, "invoke", wanted, BUYER)
        waiting = await market.bind(NODE1, approval, named(approval))
        voided = await market.ended(NODE3, transfer)
        assert (voided.outcome, voided.reason) == (Outcome.REVERTED, "voided on the chain")
        assert await market.refusal(*both) == "LegNotCommitted"
        assert await market.refusal(await market.leg(NODE1, waiting)) == ""
        assert (await market.ended(NODE1, waiting)).outcome is Outcome.CONFIRMED

        # The other leg, which no transaction waits for, is its user's still.
        assert await nodes.processes[NODE2].facade.leg(payment) is not None
        await market.cancelled(NODE2, payment)
        await market.holds(0, 0)
