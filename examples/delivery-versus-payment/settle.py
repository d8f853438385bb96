"""Shares for money, both or neither: a private contract's shares against a notary token, in one ledger transaction.

    rota demo --serve          # in another terminal: three nodes
    python settle.py
    python settle.py URL URL URL

First the seller backs out after both have signed, and nothing happens. Then both go through with it.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Any, TypeVar

from rota.client import Client, ClientError, Failed, Group, GroupContract, PublicContract, Token, Transaction
from rota.ledger.artifacts import load_artifact

NODES = ("http://127.0.0.1:31548", "http://127.0.0.1:31648", "http://127.0.0.1:31748")
# contracts/PrivateToken.sol and contracts/Settlement.sol as the compiler made them.
SHARES, SETTLEMENT = load_artifact("PrivateToken"), load_artifact("Settlement")
T = TypeVar("T")
MONEY, PRICE, HELD, SOLD = 1_000, 400, 50, 7


@dataclass(frozen=True, slots=True)
class Deal:
    """Who trades what: `money` is the buyer's view of the token, `shares` the seller's of the private contract."""

    buyer: Client
    seller: Client
    the_buyer: str
    the_seller: str
    money: Token
    group: Group
    shares: GroupContract
    settlement: PublicContract


async def paid_for(node: Client, party: str, work: Awaitable[T]) -> T:
    """What the party has done on the ledger; where gas costs something, say at once that it has no ether to pay."""
    done = asyncio.ensure_future(work)
    open_ones = {"limit": 10, "eq": [{"field": "from", "value": party}]}
    has_spoken = False
    while not (await asyncio.wait([done], timeout=0.5))[0]:
        pending = await node.ask("ptx_queryPendingTransactions", open_ones, True, is_repeatable=True)
        for each in pending if isinstance(pending, list) else ():
            found = await node.explain(each["id"])
            if found is not None and found.waits_for.startswith("funds:") and not has_spoken:
                has_spoken = True
                address = await node.address_of(party)
                print(f"{party} cannot pay for gas: {found.waits_for}", file=sys.stderr, flush=True)
                print("On a development chain this pays it, with the folder of any node:", file=sys.stderr)
                print(f"  rota ledger fund ./node1 --to {address}", file=sys.stderr, flush=True)
    return await done


async def prepared(bank: Client, buyer: Client, seller: Client) -> Deal:
    """Money for the buyer, shares for the seller, and a settlement contract: it owns nothing, and one serves all."""
    the_bank = f"bank@{await bank.name()}"
    the_buyer, the_seller = f"buyer@{await buyer.name()}", f"seller@{await seller.name()}"
    deployed = bank.ledger.deploy(SETTLEMENT.abi, "0x" + SETTLEMENT.bytecode.hex())
    settlement = await paid_for(bank, the_bank, deployed)
    await buyer.create_party("buyer")
    await seller.create_party("seller")
    issued = await bank.tokens.deploy(name="Money", symbol="M", notary=the_bank, public_locks=False)
    await (await issued.mint(the_buyer, MONEY))
    group = await seller.groups.create(members=[the_seller, the_buyer], name="shareholders")
    shares = await group.deploy(SHARES.abi, "0x" + SHARES.bytecode.hex(), ["Shares", "SHR"])
    await (await shares.send("mint", [await seller.address_of(the_seller), HELD]))
    money = buyer.tokens.at(issued.address)
    return Deal(buyer, seller, the_buyer, the_seller, money, group, shares, settlement)


async def locked(deal: Deal) -> str:
    """The price, set aside for the seller; from now on the settlement contract alone can end the lock."""
    made = await deal.money.create_transfer_lock(deal.the_buyer, {deal.the_seller: PRICE})
    lock = await deal.money.lock_id(made.id)
    await (await deal.money.delegate_lock(lock, deal.settlement.address))
    return lock


async def bound(deal: Deal, lock: str) -> tuple[Transaction, Transaction]:
    """Payment and delivery, each submitted by its own side and only for both together."""
    payment = await deal.buyer.settlements.draft(
        deal.money.address, "spendLock", {"lockId": lock}, readers=[deal.the_seller]
    )
    assert deal.group.address is not None, "the group is deployed"
    transfer = deal.shares.invocation(
        "transfer", [await deal.seller.address_of(deal.the_buyer), SOLD], committer=deal.settlement.address
    )
    delivery = await deal.seller.settlements.draft(deal.group.address, "invoke", transfer, readers=[deal.the_buyer])

    # Each has its own node look at what the other offers, before it is bound to it.
    offered = await deal.seller.settlements.examine(payment.record.openings[deal.the_seller])
    assert offered.cores == payment.record.cores
    assert offered.domain_receipt["transfers"] == [{"to": deal.the_seller, "amount": str(PRICE)}]
    promised = await deal.buyer.settlements.examine(delivery.record.openings[deal.the_buyer])
    assert promised.cores == delivery.record.cores
    print(f"{deal.the_seller} sees {PRICE} coming, {deal.the_buyer} sees the delivery", flush=True)

    legs = [payment.leg_name, delivery.leg_name]
    return await payment.bind(legs), await delivery.bind(legs)


async def settled(deal: Deal, legs: list[Any]) -> None:
    """Both legs are brought to the settlement contract, which the buyer pays for."""
    await (await deal.settlement.send("settle", {"legs": legs}, sender="buyer"))


async def show(deal: Deal) -> None:
    """What both have now, each as its owner's node has it."""
    money = await deal.money.balance_of(deal.the_buyer)
    earned = await deal.seller.tokens.at(deal.money.address).balance_of(deal.the_seller)
    held = [
        (await deal.shares.call("balanceOf", [await deal.seller.address_of(who)]))["balance"]
        for who in (deal.the_buyer, deal.the_seller)
    ]
    print(f"{deal.the_buyer} has {money.total_balance} of the money and {held[0]} shares", flush=True)
    print(f"{deal.the_seller} has {earned.total_balance} of the money and {held[1]} shares", flush=True)


async def trade(bank: Client, buyer: Client, seller: Client) -> None:
    """A trade that one side leaves, and one that both go through with."""
    deal = await prepared(bank, buyer, seller)
    lock = await locked(deal)
    print(f"{deal.the_buyer} has locked {PRICE} for {deal.the_seller}", flush=True)

    payment, delivery = await bound(deal, lock)
    legs = [await payment.leg(), await delivery.leg()]
    await delivery.cancel()
    await delivery.ended()
    try:
        await paid_for(deal.buyer, deal.the_buyer, settled(deal, legs))
    except Failed as failed:
        print(f"{deal.the_seller} has backed out, and nothing is settled: {failed}", flush=True)
    await payment.cancel()
    await payment.ended()
    await show(deal)

    payment, delivery = await bound(deal, lock)
    legs = [await payment.leg(), await delivery.leg()]
    await paid_for(deal.buyer, deal.the_buyer, settled(deal, legs))
    for side, leg in ((deal.buyer, payment), (deal.seller, delivery)):
        # Each side hears of both: its own leg, and the other's as soon as its node holds what it got by it.
        receipt = await side.transaction(leg.id)
        print(f"{await side.name()}: settled in block {receipt.block_number}", flush=True)
    await deal.seller.transaction(payment.id)
    await show(deal)


async def main(nodes: list[str]) -> int:
    """Exit 0: all of it happened. 1: something did not, and why."""
    try:
        async with (
            Client(nodes[0], sender="bank") as bank,
            Client(nodes[1], sender="buyer") as buyer,
            Client(nodes[2], sender="seller") as seller,
        ):
            await trade(bank, buyer, seller)
    except ClientError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Settle a delivery of shares against a payment: both or neither.")
    parser.add_argument("nodes", nargs="*", default=NODES, help="the bank's node, the buyer's, the seller's")
    given = parser.parse_args()
    if len(given.nodes) != len(NODES):
        parser.error(f"nodes: must be {len(NODES)} URLs, not {len(given.nodes)}")
    sys.exit(asyncio.run(main(list(given.nodes))))
