"""The client at three real nodes: tokens, groups, the ledger, settlements, and what errors say."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from rota.client import BalanceUnknown, Client, Failed, Payees, Refused, Token
from rota.ledger.artifacts import load_artifact
from tests import bounds
from tests.server.three_nodes import ThreeNodes, three_nodes

pytestmark = pytest.mark.slow

TOKEN, SETTLEMENT = load_artifact("PrivateToken"), load_artifact("Settlement")
STORY_TIMEOUT_S = bounds.WAIT_S
LOOK_S = 0.02


@pytest.fixture(scope="module")
def to(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreeNodes]:
    home: Path = tmp_path_factory.mktemp("client")
    with three_nodes(home) as running:
        yield running


@asynccontextmanager
async def clients(to: ThreeNodes, *senders: str, payees: Payees = "any") -> AsyncIterator[tuple[Client, ...]]:
    """One for each node, in their order, with its own party."""
    made = tuple(
        Client(each.url, sender=sender, payees=payees) for each, sender in zip(to.clients, senders, strict=True)
    )
    try:
        yield made
    finally:
        for each in made:
            await each.close()


def told(story: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """The nodes have a loop of their own, and so has the application."""

    async def bounded() -> None:
        async with asyncio.timeout(STORY_TIMEOUT_S):
            await story()

    asyncio.run(bounded())


async def until(look: Callable[[], Coroutine[Any, Any, object]], wanted: object) -> None:
    """What other nodes hold comes to them in its own time."""
    while await look() != wanted:
        await asyncio.sleep(LOOK_S)


def test_misspelt_payee_is_refused_and_a_known_one_is_paid(to: ThreeNodes) -> None:
    async def story() -> None:
        async with clients(to, "mint", "anna", "bert", payees="known") as (mint, anna, bert):
            token = await mint.tokens.deploy(name="Coin", symbol="C", notary="mint@node1")
            with pytest.raises(Refused, match="bret@node3 is not known: no user of node3 has used it") as unknown:
                await (await token.mint("bret@node3", 5))
            assert unknown.value.details == {"field": "transaction.payees", "party": "bret@node3", "checked": True}
            with pytest.raises(Refused, match="mnit@node1 is not known: no user of node1 has used it"):
                await (await token.mint("mnit", 5))
            with pytest.raises(Refused, match="must be a party, not an address, key or hash"):
                await (await token.mint("0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266@node3", 5))
            # Nobody has used it, and a payment does not announce it; its own user does.
            await (await token.mint("bert@node3", 5, new_party=True))
            await bert.create_party("bert")
            await bert.create_party("berta")
            await (await token.mint("berta@node3", 7))
            # A party that has sent something is known, and the payer's own node needs no answer of another.
            anna_address = await anna.create_party("anna")
            assert anna_address == await mint.address_of("anna@node2")
            await (await token.mint("anna@node2", 10))
            hers = anna.tokens.at(token.address)
            with pytest.raises(Refused, match="brta@node3 is not known"):
                await (await hers.transfer("brta@node3", 1))
            await (await hers.transfer("berta@node3", 1))
            with pytest.raises(BalanceUnknown, match="node1 and node3 would") as elsewhere:
                await hers.balance_of("berta@node3")
            assert elsewhere.value.known_by == ("node1", "node3")
            assert (await bert.tokens.at(token.address).balance_of("berta")).total_balance == 8
            assert await hers.units("1.5") == 15_000
            with pytest.raises(ValueError, match="at most 4 digits behind the point"):
                await hers.units("1.00001")
            answer = await anna.ask("ptx_call", {**BALANCE, "from": "anna", "to": token.address})
            assert answer == {"totalStates": "1", "totalBalance": "1", "overflow": False, **UNKNOWN}

    told(story)


BALANCE = {"type": "private", "function": "balanceOf", "data": {"account": "berta@node3"}}
UNKNOWN = {"unknown": True, "knownBy": ["node1", "node3"]}


def test_payee_of_a_node_that_is_away_cannot_be_checked(to: ThreeNodes) -> None:
    async def issued() -> str:
        async with clients(to, "mint", "anna", "bert", payees="known") as (mint, _, bert):
            token = await mint.tokens.deploy(name="Coin", symbol="C", notary="mint@node1")
            await bert.create_party("early")
            await (await token.mint("early@node3", 5))
            return token.address

    addresses: list[str] = []

    async def before() -> None:
        addresses.append(await issued())

    told(before)
    to.stop("node3")
    try:

        async def without() -> None:
            async with Client(to.node1.url, sender="mint") as mint:
                token = mint.tokens.at(addresses[0])
                with pytest.raises(Refused, match="cannot be checked now: node3 has not said") as open_:
                    await (await token.mint("late@node3", 5))
                assert open_.value.details["checked"] is False
                # What is known stays known.
                accepted = await token.mint("early@node3", 5)
                assert accepted.id

        told(without)
    finally:
        to.start("node3")


async def total_of(token: Token, account: str) -> int:
    return (await token.balance_of(account)).total_balance


def test_a_token_is_issued_transferred_locked_and_burned(to: ThreeNodes) -> None:
    async def story() -> None:
        async with clients(to, "bank", "alice", "bob") as (bank, alice, bob):
            token = await bank.tokens.deploy(name="Coin", symbol="C", notary="bank@node1")
            assert (await token.name(), await token.symbol(), await token.decimals()) == ("Coin", "C", 4)
            await (await token.mint("alice@node2", 10**30))
            hers = alice.tokens.at(token.address)
            await (await hers.transfer("bob@node3", 10**30 - 100))
            assert (await hers.balance_of("alice@node2")).total_balance == 100
            await (await hers.burn(10))
            locked = await hers.lock(30)
            lock = await hers.lock_id(locked.id)
            await (await hers.unlock(lock, "alice@node2", {"bob@node3": 5}))
            await (await hers.prepare_unlock(lock, "alice@node2", {"bob@node3": 20}))
            await (await hers.spend_lock(lock))
            his = bob.tokens.at(token.address)
            for seen in (token, his):
                await until(partial(total_of, seen, "bob@node3"), 10**30 - 100 + 25)
            await until(partial(total_of, token, "alice@node2"), 65)
            balance = await hers.balance_of("alice@node2")
            assert (balance.total_balance, balance.overflow) == (65, False)

            with pytest.raises(Failed, match="PD200005: Insufficient funds") as failed:
                await (await hers.transfer("bob@node3", 66))
            assert not failed.value.receipt.success
            with pytest.raises(Refused, match="must be a party of this node") as refused:
                _ = await hers.transfer("bob@node3", 1, sender="bob@node3")
            assert refused.value.field == "transaction.from"

    told(story)


def test_every_function_of_a_token_is_one_that_the_domain_has(to: ThreeNodes) -> None:
    async def story() -> None:
        async with clients(to, "bank", "alice", "bob") as (bank, _, _):
            token = await bank.tokens.deploy(name="Coin", symbol="C", notary="bank@node1", public_locks=False)
            me, them = "bank@node1", {"alice@node2": 1}
            await (await token.mint(me, 100))
            await (await token.transfer_from(me, "alice@node2", 1))
            await (await token.burn_from(me, 1))
            transfers = await token.create_transfer_lock(me, them)
            await (await token.cancel_lock(await token.lock_id(transfers.id)))
            burns = await token.create_burn_lock(me, 2)
            await (await token.spend_lock(await token.lock_id(burns.id)))
            mints = await token.create_mint_lock(them)
            await (await token.spend_lock(await token.lock_id(mints.id)))
            lock = await token.lock_id((await token.lock(3)).id)
            await (await token.prepare_burn_unlock(lock, me, 3))
            minting = await token.lock_id((await token.create_mint_lock(them)).id)
            await (await token.prepare_mint_unlock(minting, {"alice@node2": 5}))
            await (await token.spend_lock(minting))
            await (await token.delegate_lock(lock, await bank.address_of("keeper@node1")))
            spending = await bank.prepare(token.address, "spendLock", {"lockId": lock})
            prepared = await spending.prepared()
            await (await bank.ledger.commit(prepared.transaction, sender="keeper"))
            assert (await spending).success
            assert await total_of(token, "alice@node2") == 1 + 1 + 5
            assert await total_of(token, me) == 100 - 1 - 1 - 2 - 3

    told(story)


def test_a_group_has_a_private_token_and_its_members_write_to_each_other(to: ThreeNodes) -> None:
    async def story() -> None:
        async with clients(to, "alice", "bob", "eve") as (alice, bob, eve):
            members = ["alice@node1", "bob@node2"]
            group = await alice.groups.create(members=members, name="desk", configuration={"endorsementThreshold": 2})
            assert (group.name, group.members) == ("desk", tuple(members))
            assert group.address is not None
            token = await group.deploy(TOKEN.abi, "0x" + TOKEN.bytecode.hex(), ["Shares", "S"])
            bobs_address = await alice.address_of("bob@node2")
            minted = await token.send("mint", [bobs_address, 50])
            await minted
            theirs = await bob.groups.get(group.id)
            assert theirs is not None
            assert theirs.record == (await bob.groups.find(name="desk"))[0].record
            by_address = await bob.groups.get(group.address)
            assert by_address is not None
            assert [each.id for each in await bob.groups.find(member="alice@node1")] == [by_address.id]
            bobs = theirs.contract(token.address, TOKEN.abi)
            await until(lambda: bobs.call("balanceOf", [bobs_address]), {"balance": "50"})
            with pytest.raises(Failed, match=r"InsufficientBalance\(.*, 50, 51\)"):
                await (await bobs.send("transfer", {"to": await bob.address_of("alice@node1"), "value": 51}))
            assert await eve.groups.get(group.id) is None
            # The same creation again is the same group.
            again = await alice.groups.create(members=members, name="desk", key="a desk")
            assert (await alice.groups.create(members=members, name="desk", key="a desk")).id == again.id != group.id

            first = await group.send_message("news", {"text": "hello"})
            await group.send_message("other", 1, correlation_id=first)
            await until(lambda: counted(theirs.messages(topic="news")), 1)
            message = (await theirs.messages(topic="news"))[0]
            assert (message.id, message.data, message.node) == (first, {"text": "hello"}, "node1")
            await until(lambda: counted(theirs.messages(after=message.local_sequence)), 1)

    told(story)


async def counted(found: Coroutine[Any, Any, tuple[object, ...]]) -> int:
    return len(await found)


def test_delivery_and_payment_are_settled_together(to: ThreeNodes) -> None:
    async def story() -> None:
        async with clients(to, "bank", "buyer", "seller") as (bank, buyer, seller):
            settlement = await bank.ledger.deploy(SETTLEMENT.abi, "0x" + SETTLEMENT.bytecode.hex())
            gold = await bank.tokens.deploy(name="Gold", symbol="AU", notary="bank@node1", public_locks=False)
            await (await gold.mint("buyer@node2", 100))
            mine = buyer.tokens.at(gold.address)
            locked = await mine.create_transfer_lock("buyer@node2", {"seller@node3": 40})
            lock = await mine.lock_id(locked.id)
            await (await mine.delegate_lock(lock, settlement.address))
            group = await seller.groups.create(members=["buyer@node2", "seller@node3"])
            assert group.address is not None
            shares = await group.deploy(TOKEN.abi, "0x" + TOKEN.bytecode.hex(), ["Shares", "S"])
            await (await shares.send("mint", [await seller.address_of("seller@node3"), 50]))

            payment = await buyer.settlements.draft(
                gold.address, "spendLock", {"lockId": lock}, readers=["seller@node3"]
            )
            buyers_address = await seller.address_of("buyer@node2")
            transfer = shares.invocation("transfer", [buyers_address, 7], committer=settlement.address)
            delivery = await seller.settlements.draft(group.address, "invoke", transfer, readers=["buyer@node2"])
            paid = await seller.settlements.examine(payment.record.openings["seller@node3"])
            assert paid.domain_receipt["transfers"] == [{"to": "seller@node3", "amount": "40"}]
            assert (paid.ledger, paid.cores) == (payment.record.ledger, payment.record.cores)
            await buyer.settlements.examine(delivery.record.openings["buyer@node2"])
            legs = [payment.leg_name, delivery.leg_name]
            bound = [await payment.bind(legs, key="a deal"), await delivery.bind(legs)]
            assert (await payment.bind(legs, key="a deal")).id == bound[0].id
            endorsed = [await each.leg() for each in bound]
            await (await settlement.send("settle", {"legs": endorsed}))
            for each in bound:
                await each
            await until(lambda: shares.call("balanceOf", [buyers_address]), {"balance": "7"})
            await until(partial(total_of, gold, "seller@node3"), 40)

    told(story)


def test_a_contract_s_status_and_a_transaction_s_explanation_are_told(to: ThreeNodes) -> None:
    async def story() -> None:
        async with clients(to, "bank", "alice", "bob") as (bank, alice, _):
            token = await bank.tokens.deploy(name="Coin", symbol="C", notary="bank@node1")
            status = await alice.status(token.address)
            assert status is not None
            assert (status.domain, status.mode, status.committee) == ("noto", "static", ("node1",))
            assert await alice.status("0x" + "00" * 20) is None
            minted = await token.mint("bank@node1", 1)
            await minted
            explained = await minted.explain()
            assert explained is not None
            assert explained.history
            with pytest.raises(Refused):
                await minted.cancel()
            with pytest.raises(Refused):
                await minted.resume()

    told(story)


def test_triggers_are_listed_paused_run_and_resumed(to: ThreeNodes) -> None:
    async def story() -> None:
        async with clients(to, "bank", "alice", "bob") as (bank, _, _):
            shipped = "ask-for-states"
            found = [(each.name, each.paused) for each in await bank.triggers.list()]
            assert found == [(shipped, False), ("cancel-expired-locks", False)]
            await bank.triggers.pause(shipped)
            assert (await bank.triggers.list())[0].paused
            assert (await bank.triggers.run_once(shipped)).failed == 0
            await bank.triggers.resume(shipped)
            assert not (await bank.triggers.list())[0].paused
            with pytest.raises(Refused, match="no such trigger"):
                await bank.triggers.pause("no such trigger")

    told(story)
