"""A used idempotency key: the node says whether the first request under it asked for the same."""

from __future__ import annotations

from collections.abc import Awaitable
from pathlib import Path

import pytest

from rota.domains.noto.operations import lock_id_of
from rota.ledger.bindings import separator_of
from rota.model.types import (
    NOTHING_CHOSEN,
    ContractAddress,
    IntentId,
    NodeName,
    Outcome,
    Rotation,
    SequencingChoice,
    intent_text,
)
from rota.rpc.credentials import CALLER, EVERY_ROLE, Caller
from rota.rpc.errors import ErrorCode, Rejected, key_used
from rota.service.groups.interface import NewGroup
from rota.service.interface import GasOptions, JsonValue, NamedLeg, Submission, TransactionType
from tests.ledger.chains import in_loop
from tests.service.faults import install
from tests.service.kit import ALICE, CHAIN_ID, network

NODE1, NODE2 = NodeName("node1"), NodeName("node2")
NOTO = {
    "name": "Coin",
    "symbol": "COIN",
    "notary": f"notary@{NODE1}",
    "notaryMode": "basic",
    "options": {"publicLocks": False},
}
SHOP = ContractAddress("0x" + "99" * 20)
PAY_ABI: dict[str, JsonValue] = {"type": "function", "name": "pay", "inputs": [{"name": "amount", "type": "uint256"}]}


async def judged(repeated: Awaitable[object], first: IntentId) -> bool:
    """What the error says about a second request under the key of the first."""
    with pytest.raises(Rejected, match="PD012220") as caught:
        await repeated
    assert caught.value.code is ErrorCode.KEY_USED
    assert caught.value.details["transactionId"] == intent_text(first)
    is_same = caught.value.details["same"]
    assert isinstance(is_same, bool)
    assert ("asks for something else" in str(caught.value)) is not is_same
    return is_same


async def not_compared(repeated: Awaitable[object], first: IntentId) -> str:
    """Why the node cannot tell whether a second request under the key of the first asks for the same."""
    with pytest.raises(Rejected, match=r"PD012220.*cannot be told") as caught:
        await repeated
    assert caught.value.details["transactionId"] == intent_text(first)
    assert "same" not in caught.value.details
    assert "first" not in caught.value.details
    return str(caught.value.details["reason"])


@in_loop
async def test_private_request_under_a_used_key_is_compared_by_what_it_asks_for(tmp_path: Path) -> None:
    async with network(tmp_path, NODE1) as nodes:
        await nodes.start(NODE1)
        made = await nodes.final(NODE1, await nodes.deploy(NODE1, "noto", NOTO))
        assert made.contract is not None
        token = made.contract
        three = {"to": f"bob@{NODE1}", "amount": 3, "data": "0x"}
        notary = {"sender": "notary", "idempotency_key": "k2"}

        async def mint(arguments: object, **more: object) -> IntentId:
            return await nodes.submit(NODE1, token, "mint", arguments, **{**notary, **more})

        first = await mint(three)
        assert await judged(mint(three), first)
        assert await judged(mint({**three, "amount": "0x3"}), first), "written otherwise"
        assert await judged(mint([f"bob@{NODE1}", 3, "0x"]), first), "by position"
        assert await judged(mint(three, options=GasOptions(gas=500_000)), first)
        assert not await judged(mint({**three, "amount": 4}), first)
        assert not await judged(mint({**three, "to": f"eve@{NODE1}"}), first)
        assert not await judged(mint(three, sender="alice"), first)
        assert not await judged(mint(three, depends_on=(first,)), first)
        reason = await not_compared(mint({"to": 7}), first)
        assert reason.startswith("data.to: must be"), "the node or its domain may have been changed"
        second = await mint(three, idempotency_key="k4")
        third = await mint(three, idempotency_key="k5", depends_on=(first, second))
        assert await judged(mint(three, idempotency_key="k5", depends_on=(second, first, second)), third), "by content"
        await nodes.final(NODE1, first)
        await nodes.kill(NODE1)
        await nodes.start(NODE1)
        assert await judged(mint(three), first), "after a restart"
        with pytest.raises(Rejected) as caught:
            await mint({**three, "amount": 4})
        assert caught.value.details["first"] == {
            "from": f"notary@{NODE1}",
            "to": token,
            "function": "mint(string,uint256,bytes)",
            "data": three,
            "value": "0",
        }


HELD_TO_ALICE = Caller("shop", EVERY_ROLE, parties=("alice", "shop.*"))
HELD_TO_BOB = Caller("bobs", EVERY_ROLE, parties=("bob",))
FREE = Caller("treasury", EVERY_ROLE)


@in_loop
async def test_key_of_a_caller_that_is_held_to_parties_is_its_partys(tmp_path: Path) -> None:
    async with network(tmp_path, NODE1) as nodes:
        await nodes.start(NODE1)
        made = await nodes.final(NODE1, await nodes.deploy(NODE1, "noto", NOTO))
        assert made.contract is not None
        token = made.contract

        async def sent_privately(sender: str, caller: Caller, key: str) -> IntentId:
            CALLER.set(caller)
            arguments = {"to": f"carol@{NODE1}", "amount": 3, "data": "0x"}
            return await nodes.submit(NODE1, token, "transfer", arguments, sender=sender, idempotency_key=key)

        async def sent_publicly(sender: str, caller: Caller, key: str) -> IntentId:
            CALLER.set(caller)
            asked = Submission(TransactionType.PUBLIC, sender, to=SHOP, data="0x", idempotency_key=key)
            return await nodes.processes[NODE1].facade.submit(asked)

        async def found(caller: Caller, key: str) -> IntentId | None:
            CALLER.set(caller)
            view = await nodes.processes[NODE1].facade.following.with_key(key)
            return view.id if view is not None else None

        for kind, send in (("private", sent_privately), ("public", sent_publicly)):
            key = f"{kind} 1"
            bobs = await send("bob", HELD_TO_BOB, key)
            assert await found(HELD_TO_ALICE, key) is None
            alices = await send("alice", HELD_TO_ALICE, key)
            assert await judged(send("alice@node1", HELD_TO_ALICE, key), alices)
            assert await judged(send("bob", HELD_TO_BOB, key), bobs)
            assert await judged(send("alice", FREE, key), alices), "the same party by another credential"
            free = await send("notary", FREE, key)
            assert not await judged(send("carol", FREE, key), free), "such callers share their keys"
            seen = [await found(each, key) for each in (HELD_TO_BOB, HELD_TO_ALICE, FREE)]
            assert seen == [bobs, alices, free]
            below = await send("shop.one", HELD_TO_ALICE, f"{key} below")
            assert await found(HELD_TO_ALICE, f"{key} below") == below
            assert await found(HELD_TO_BOB, f"{key} below") is None
            before = await send("alice", FREE, f"{key} before it was held")
            assert await judged(send("alice", HELD_TO_ALICE, f"{key} before it was held"), before)
            await nodes.kill(NODE1)
            await nodes.start(NODE1)
            assert await judged(send("alice", HELD_TO_ALICE, key), alices), "after a restart"
            assert await judged(send("notary", FREE, key), free), "after a restart"


@in_loop
async def test_public_request_under_a_used_key_is_compared_by_what_it_asks_for(tmp_path: Path) -> None:
    async with network(tmp_path, NODE1) as nodes:
        await nodes.start(NODE1)

        async def pay(amount: int, abi: dict[str, JsonValue], value: int = 0, gas: int | None = None) -> IntentId:
            options = GasOptions(gas=gas, value_wei=value)
            submission = Submission(
                TransactionType.PUBLIC, ALICE, to=SHOP, function="pay", data=[amount], abi=(abi,), options=options,
                idempotency_key="k3",
            )  # fmt: skip
            return await nodes.processes[NODE1].facade.submit(submission)

        first = await pay(3, PAY_ABI)
        assert await judged(pay(3, PAY_ABI), first)
        assert await judged(pay(3, {**PAY_ABI, "stateMutability": "payable"}, gas=90_000), first)
        assert not await judged(pay(4, PAY_ABI), first)
        assert not await judged(pay(3, PAY_ABI, value=1), first)


@in_loop
async def test_deployment_and_group_under_a_used_key_are_compared_without_their_salts(tmp_path: Path) -> None:
    async with network(tmp_path, NODE1, NODE2) as nodes:
        await nodes.start(NODE1, NODE2)
        first = await nodes.deploy(NODE1, "noto", NOTO, idempotency_key="token")
        assert await judged(nodes.deploy(NODE1, "noto", NOTO, idempotency_key="token"), first)
        other = {**NOTO, "symbol": "CION"}
        assert not await judged(nodes.deploy(NODE1, "noto", other, idempotency_key="token"), first)

        groups = nodes.processes[NODE1].facade.groups
        members = (f"alice@{NODE1}", f"bob@{NODE2}")

        def wanted(name: str, sequencing: SequencingChoice = NOTHING_CHOSEN) -> NewGroup:
            return NewGroup("pente", members, name, {}, {}, idempotency_key="desk", sequencing=sequencing)

        made = await groups.create(wanted("desk"))
        group = made.deployment
        assert await judged(groups.create(wanted("desk")), group)
        assert not await judged(groups.create(wanted("bank")), group)
        assert not await judged(groups.create(wanted("desk", SequencingChoice(rotation=Rotation.STRICT))), group)
        assert await judged(groups.create(wanted("desk", SequencingChoice(rotation=Rotation.STICKY))), group)


@in_loop
async def test_draft_that_is_bound_under_a_used_key_is_compared_by_its_legs(tmp_path: Path) -> None:
    async with network(tmp_path, NODE1) as nodes:
        await nodes.start(NODE1)
        node = nodes.processes[NODE1].facade
        token = (await nodes.final(NODE1, await nodes.deploy(NODE1, "noto", NOTO))).contract
        assert token is not None
        bob = f"bob@{NODE1}"

        async def done(sender: str, function: str, *given: object) -> IntentId:
            intent = await nodes.submit(NODE1, token, function, list(given), sender=sender)
            assert (await nodes.final(NODE1, intent)).outcome is Outcome.CONFIRMED
            return intent

        await done("notary", "mint", ALICE, 5, "0x")
        locked = await done("alice", "createTransferLock", ALICE, [{"to": bob, "amount": 5}], "0x", "0x")
        lock = "0x" + lock_id_of(separator_of(CHAIN_ID, token), locked).hex()
        await done("alice", "delegateLock", lock, SHOP, "0x")
        spend = Submission(TransactionType.PRIVATE, "alice", to=token, function="spendLock", data={"lockId": lock})
        draft = await node.draft(spend, (bob,))
        own, other = NamedLeg(token, (draft.core,)), NamedLeg(SHOP, (bytes(32),))
        bound = await node.bind(draft.id, (own, other), "deal")
        assert await judged(node.bind(draft.id, (own, other), "deal"), bound)
        assert not await judged(node.bind(draft.id, (own,), "deal"), bound)
        assert not await judged(node.bind(draft.id, (other,), "deal"), bound), "not even one of the legs"


@in_loop
async def test_request_is_compared_when_its_payees_node_has_left_the_registry(tmp_path: Path) -> None:
    async with network(tmp_path, NODE1, NODE2) as nodes:
        await nodes.start(NODE1)
        token = (await nodes.final(NODE1, await nodes.deploy(NODE1, "noto", NOTO))).contract
        assert token is not None

        async def mint(amount: int, key: str = "salary") -> IntentId:
            arguments = {"to": f"bob@{NODE2}", "amount": amount, "data": "0x"}
            return await nodes.submit(NODE1, token, "mint", arguments, sender="notary", idempotency_key=key)

        first = await mint(3)
        await nodes.kill(NODE1)
        registry = tmp_path / "registry.toml"
        registry.write_text(registry.read_text().partition(f"[nodes.{NODE2}]")[0])
        await nodes.start(NODE1)
        with pytest.raises(Rejected, match="registered nodes"):
            await mint(3, "another")
        assert await judged(mint(3), first)
        assert not await judged(mint(4), first)


@in_loop
async def test_request_is_not_compared_while_the_store_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults = install(monkeypatch)
    async with network(tmp_path, NODE1) as nodes:
        await nodes.start(NODE1)
        node = nodes.processes[NODE1].facade
        submission = Submission(TransactionType.PUBLIC, ALICE, to=SHOP, data="0x", idempotency_key="k")
        first = await node.submit(submission)
        used = key_used("k", first)
        assert (await node.repeats.judged(submission, used)).details["same"] is True
        unknown = await node.repeats.judged(submission, key_used("k", IntentId(bytes(16))))
        assert unknown.details["reason"] == "the node does not have that transaction any more"
        faults.are_reads_failing = True
        away = await node.repeats.judged(submission, used)
        assert away.details == {"transactionId": intent_text(first), "reason": "the database is away"}
        faults.are_reads_failing = False
