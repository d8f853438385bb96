"""Locks of a token with hooks on three real nodes: the hook decides about them, and knows when a delegate ended one."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any, Final

import pytest

from rota.model.types import IntentId, NodeName, Outcome
from rota.rpc.errors import OutcomeUnknown
from rota.service.carrying import ended_locks
from rota.service.facade import NodeFacade
from rota.service.interface import Submission, TransactionType
from tests.domains.test_hooks_network import ALICE, BOB, HOOK, NODE1, NODE2, NODE3, Gold, gold_on
from tests.ledger.chains import in_loop

pytestmark = pytest.mark.slow

NOTO: Final = json.loads((Path(__file__).parents[1] / "server/clients/abis.json").read_text())["INoto"]


async def lock_in(gold: Gold, node: NodeName, intent: IntentId) -> dict[str, Any]:
    """The lock in a receipt."""
    receipt = await gold.nodes.final(node, intent)
    assert receipt.outcome is Outcome.CONFIRMED, receipt.reason
    told: Any = await gold.nodes.processes[node].facade.following.domain_receipt("noto", intent)
    found: dict[str, Any] = told["lockInfo"]
    return found


async def prepared(gold: Gold) -> dict[str, Any]:
    """Coins of Alice that are locked, and then prepared for Bob."""
    locked = await lock_in(gold, NODE2, await gold.submit(NODE2, "lock", [40, "0x"]))
    shares = [{"to": BOB, "amount": 30}]
    asked = [locked["lockId"], ALICE, shares, "0x05", "0x"]
    return await lock_in(gold, NODE2, await gold.submit(NODE2, "prepareUnlock", asked))


async def ended_by_bob(gold: Gold, lock: dict[str, Any], how: str) -> str:
    """Bob becomes the delegate, and makes a public call. His address."""
    address = await delegated_to_bob(gold, NODE2, lock)
    await ended_in_public(gold, lock, how)
    return address


async def delegated_to_bob(gold: Gold, node: NodeName, lock: dict[str, Any]) -> str:
    """By the user of this node. Bob's address."""
    address = await _address_of_bob(gold)
    given = await gold.do(node, "delegateLock", [lock["lockId"], address, "0x"])
    assert given.outcome is Outcome.CONFIRMED, given.reason
    return address


async def delegated_of_bob(gold: Gold) -> dict[str, Any]:
    """A lock of Bob's coins for himself, which he alone ends."""
    locked = await lock_in(gold, NODE3, await gold.submit(NODE3, "lock", [20, "0x"]))
    asked = [locked["lockId"], BOB, [{"to": BOB, "amount": 15}], "0x", "0x"]
    lock = await lock_in(gold, NODE3, await gold.submit(NODE3, "prepareUnlock", asked))
    await delegated_to_bob(gold, NODE3, lock)
    return lock


async def ended_in_public(gold: Gold, lock: dict[str, Any], how: str) -> None:
    """Bob makes the call that the lock's receipt names."""
    facade = gold.nodes.processes[NODE3].facade
    function, data = lock[f"{how}Function"], lock[f"{how}Params"]
    call = Submission(TransactionType.PUBLIC, BOB, to=gold.token, function=function, data=data, abi=tuple(NOTO))
    sent = await facade.submit(call)
    while (receipt := await facade.receipt(sent)) is None:
        await asyncio.sleep(0.01)
    assert receipt.success, receipt.failure_message


async def _address_of_bob(gold: Gold) -> str:
    facade = gold.nodes.processes[NODE3].facade
    return await facade.types.resolve_verifier(BOB, "ecdsa:secp256k1", "eth_address")


async def number_told(gold: Gold, name: str, *arguments: object) -> int:
    told = await gold.group.ask(NODE1, gold.hook, HOOK, name, *arguments)
    assert isinstance(told, dict)
    (value,) = told.values()
    return int(str(value))


@in_loop
async def test_hook_decides_about_a_lock_and_gets_to_know_that_its_delegate_spent_it(tmp_path: Path) -> None:
    async with gold_on(tmp_path) as gold:
        await gold.mint(ALICE, 100)
        lock = await prepared(gold)
        assert "delegate" not in lock
        bob = await ended_by_bob(gold, lock, "unlock")
        await gold.balance_is(BOB, 30)
        await gold.balance_is(ALICE, 70)
        # Minting, locking, preparing, delegating; then the delegate's end, about which the hook did not decide.
        await gold.hook_has(runs=4, moved=100 + 40 + 30, delegateUnlocks=1)
        assert await gold.group.ask(NODE1, gold.hook, HOOK, "lastDelegate") == {"0": bob}
        assert await number_told(gold, "unlockedFor", bob) == 30


@in_loop
async def test_reason_of_a_hook_that_refuses_a_lock_reaches_its_user(tmp_path: Path) -> None:
    async with gold_on(tmp_path) as gold:
        await gold.mint(ALICE, 100)
        await gold.tell_hook("refuse", "no locks today")
        receipt = await gold.do(NODE2, "lock", [40, "0x"])
        assert (receipt.outcome, receipt.reason) == (Outcome.REVERTED, "no locks today")
        await gold.tell_hook("refuse", "")
        locked = await lock_in(gold, NODE2, await gold.submit(NODE2, "lock", [40, "0x"]))
        await gold.tell_hook("refuse", "the receiver is not on the list")
        receipt = await gold.do(NODE2, "unlock", [locked["lockId"], ALICE, [{"to": BOB, "amount": 30}], "0x"])
        assert receipt.reason == "the receiver is not on the list"
        await gold.tell_hook("refuse", "")
        # Its owner takes it back, about which the hook decides too.
        receipt = await gold.do(NODE2, "cancelLock", [locked["lockId"], "0x"])
        assert receipt.outcome is Outcome.CONFIRMED, receipt.reason
        await gold.balance_is(ALICE, 100)
        await gold.hook_has(runs=3, delegateUnlocks=0)


@in_loop
async def test_end_of_a_lock_reaches_its_hook_once_across_a_crash_of_the_notary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends between the transaction of the hook and the position behind the end."""
    async with gold_on(tmp_path) as gold:
        await gold.mint(ALICE, 100)
        lock = await prepared(gold)
        with monkeypatch.context() as patched:
            submitted = asyncio.Event()
            real = ended_locks.EndedLocks._submit

            async def stuck(self: ended_locks.EndedLocks, end: Any) -> None:  # noqa: ANN401
                await real(self, end)
                submitted.set()
                await asyncio.Event().wait()

            patched.setattr(ended_locks.EndedLocks, "_submit", stuck)
            await ended_by_bob(gold, lock, "cancel")
            await submitted.wait()
            await gold.hook_has(delegateUnlocks=1)
            await gold.nodes.kill(NODE1)
        await gold.nodes.start(NODE1)
        # A later end comes after it.
        again = await prepared(gold)
        await ended_by_bob(gold, again, "unlock")
        await gold.hook_has(delegateUnlocks=2)


@in_loop
async def test_end_whose_recipients_node_is_away_does_not_hold_up_that_of_another_lock(tmp_path: Path) -> None:
    """The notary's node has restarted, and knows no addresses; Alice's node does not answer."""
    async with gold_on(tmp_path) as gold:
        await gold.mint(ALICE, 100)
        await gold.mint(BOB, 50)
        of_alice = await prepared(gold)
        of_bob = await delegated_of_bob(gold)
        await delegated_to_bob(gold, NODE2, of_alice)
        await gold.nodes.kill(NODE2)
        await gold.nodes.kill(NODE1)
        await gold.nodes.start(NODE1)
        await ended_in_public(gold, of_alice, "cancel")
        await ended_in_public(gold, of_bob, "cancel")
        await gold.hook_has(delegateUnlocks=1)
        # The next start looks at both again.
        await gold.nodes.kill(NODE1)
        await gold.nodes.start(NODE1, NODE2)
        await gold.hook_has(delegateUnlocks=2)


@pytest.mark.parametrize(
    ("bounds", "told"),
    [
        ({"WAITING_MAX": 1, "STUCK_S": 0.0}, "it is the oldest of 1 calls that wait"),
        ({"GIVEN_UP_S": 0.5}, "what it needs was not there for 0.5 s"),
    ],
    ids=["no room", "too long"],
)
@in_loop
async def test_call_of_a_hook_does_not_wait_without_bounds(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    bounds: dict[str, float],
    told: str,
) -> None:
    """The node of an owner stays away: the call is given up with a warning, and later ones are made."""
    async with gold_on(tmp_path) as gold:
        await gold.mint(ALICE, 100)
        await gold.mint(BOB, 50)
        of_alice = await prepared(gold)
        of_bob = [await delegated_of_bob(gold) for _ in range(2)]
        await delegated_to_bob(gold, NODE2, of_alice)
        await gold.nodes.kill(NODE2)
        await gold.nodes.kill(NODE1)
        for name, value in bounds.items():
            monkeypatch.setattr(ended_locks, name, value)
        await gold.nodes.start(NODE1)
        # Bob's address is known by the time of the second one.
        await ended_in_public(gold, of_bob[0], "cancel")
        await gold.hook_has(delegateUnlocks=1)
        await ended_in_public(gold, of_alice, "cancel")
        await ended_in_public(gold, of_bob[1], "cancel")
        await gold.hook_has(delegateUnlocks=2)
        while told not in caplog.text:
            await asyncio.sleep(0.01)


@in_loop
async def test_slow_store_does_not_end_the_notary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each call of the hook is accepted, and the node has stopped waiting for that by then."""
    real = NodeFacade.submit

    async def late(self: NodeFacade, submission: Submission) -> IntentId:
        intent = await real(self, submission)
        if submission.idempotency_key.startswith(("carried-", "ended-lock-")):
            raise OutcomeUnknown({"transactionId": intent.hex()})
        return intent

    monkeypatch.setattr(NodeFacade, "submit", late)
    async with gold_on(tmp_path) as gold:
        await gold.mint(ALICE, 100)
        await ended_by_bob(gold, await prepared(gold), "unlock")
        await gold.hook_has(runs=4, delegateUnlocks=1)
