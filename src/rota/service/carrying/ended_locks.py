"""Reporting locks that a delegate ended on the chain to their private contract, at the endorser's node.

A delegate ends a lock by a public call, which no private contract decides about. The contract that decides about all
other transitions is called afterwards (`Domain.notify`): by a transaction of this node's party, once for each lock.

Theory of operation. The ends are found in the order of receipts, behind a position that the store has from the time
before the first lock was set. The transaction is submitted under a key that follows from the lock and from random bytes
beside the position, so that a crash between the submission and the next position submits nothing twice, and no caller
can use the key first. A transaction that fails is not repeated: the lock has ended.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import Final, TypeVar

from rota import host
from rota.domains.base import Rejected as DomainRejected
from rota.engine.contracts import KnownContracts
from rota.host import Hosted
from rota.ledger.bindings import topic_of
from rota.ledger.looking_up import LookingUp
from rota.logs import catalogue
from rota.model.types import NO_DELEGATE, ContractAddress, LockKind, Transition
from rota.ports import ListenerPosition, NumberedReceipt, StoredListener, Unavailable
from rota.rpc import errors
from rota.service.interface import Submission, Transactions, TransactionType
from rota.service.run import RunningNode

KIND: Final = "ended locks"
NAME: Final = "hooks"
SECRET_BYTES: Final = 32
KEY_DIGITS: Final = 32
PAGE: Final = 100

T = TypeVar("T")
# Repeats a question until the adapters answer.
Patiently = Callable[[Callable[[], Awaitable[T]]], Awaitable[T]]


class EndedLocks:
    """The ended locks of one node. `patiently` repeats a question while an adapter is unavailable."""

    def __init__(
        self, running: RunningNode, node: Transactions, chain: LookingUp, patiently: Patiently[StoredListener | None]
    ) -> None:
        self._running: Final = running
        self._node: Final = node
        self._chain: Final = chain
        self._patiently: Final = patiently
        self._is_followed: Final = asyncio.Event()

    async def note(self, transition: Transition) -> None:
        """Follow ends of locks from now on if this transition sets one. `Unavailable` when the store is away."""
        if transition.lock is None or transition.lock.kind is not LockKind.SET or self._is_followed.is_set():
            return
        listening = self._running.adapters.store.listening
        latest = await listening.latest_receipts(1)
        position = ListenerPosition(latest[-1].sequence if latest else 0)
        await listening.add_listener(StoredListener(KIND, NAME, 0, True, secrets.token_bytes(SECRET_BYTES), position))
        self._is_followed.set()

    async def run(self) -> None:
        """Call private contracts about ended locks, permanently."""
        listening = self._running.adapters.store.listening
        stored = await self._patiently(lambda: listening.listener(KIND, NAME))
        if stored is None:
            await self._is_followed.wait()
            stored = await self._patiently(lambda: listening.listener(KIND, NAME))
        assert stored is not None, "it was recorded"
        self._is_followed.set()
        position = stored.acknowledged.number
        while True:
            rung = self._running.receipts.bell.rung
            found = await self._patiently(partial(self._look, stored.definition, position))
            if found is None:
                await self._running.receipts.bell.wait(rung)
            else:
                position = found.acknowledged.number

    async def _look(self, secret: bytes, position: int) -> StoredListener | None:
        """Return the position behind the next receipts; None if there are none. `Unavailable` for now."""
        listening = self._running.adapters.store.listening
        receipts = await listening.receipts_after(position, PAGE)
        if not receipts:
            return None
        for each in receipts:
            await self._notify(secret, each)
        reached = ListenerPosition(receipts[-1].sequence)
        await listening.note_acknowledged(KIND, NAME, reached)
        return StoredListener(KIND, NAME, 0, True, secret, reached)

    async def _notify(self, secret: bytes, receipt: NumberedReceipt) -> None:
        contracts: KnownContracts = self._running.contracts
        hosted = contracts.hosted(ContractAddress(receipt.contract))
        if hosted is None or hosted.carrier is None or self._running.name not in hosted.contract.endorsers:
            return
        made = await self._running.adapters.store.traces.transition(hosted.contract.address, receipt.leaf)
        commit = await self._running.adapters.store.listening.commit_of(receipt)
        if receipt.is_undone or made is None or commit is None:
            return
        try:
            submission = await self._submission_of(hosted, made, commit[1].transaction)
            if submission is None:
                return
            mark = hmac.digest(secret, bytes.fromhex(hosted.contract.address[2:]) + receipt.leaf, "sha256").hex()
            await self._node.submit(replace(submission, idempotency_key=f"ended-lock-{mark[:KEY_DIGITS]}"))
        except errors.KeyUsed:
            return
        except (errors.Rejected, DomainRejected) as flaw:
            catalogue.HOOK_NOT_TOLD.log(contract=hosted.contract.address, intent=receipt.intent, reason=str(flaw))

    async def _submission_of(self, hosted: Hosted, made: Transition, transaction: bytes) -> Submission | None:
        work = host.carrying_of(hosted, made, {}, self._running.name, b"")
        try:
            lock = hosted.domain.ended_lock(work)
            if lock is None:
                return None
            delegate = await self._delegate_of(hosted.contract.address, lock, transaction)
            parties = hosted.domain.parties_to_notify(work)
            addresses = await self._running.adapters.verifiers.of(hosted.contract.address, parties)
            asked = hosted.domain.notify(replace(work, addresses=addresses), delegate)
        except (DomainRejected, Unavailable):
            raise
        except Exception as error:
            # A domain is third-party code: its failure ends this call, and not the node.
            catalogue.DOMAIN_FAILED.log(
                contract=hosted.contract.address, intent=made.intent, operation="notify", error=error
            )
            raise DomainRejected("", f"the domain failed: {type(error).__name__}") from None
        assert hosted.carrier is not None, "it was asked for before"
        return Submission(
            TransactionType.PRIVATE,
            asked.sender,
            to=hosted.carrier.ledger,
            function=asked.function,
            data=dict(asked.arguments),  # type: ignore[arg-type]  # JSON of the domain's
        )

    async def _delegate_of(self, contract: ContractAddress, lock: bytes, transaction: bytes) -> ContractAddress:
        """Return the account that ended the lock, from the ledger's event; zero if the chain no longer has it."""
        found = await self._chain.transaction(transaction)
        topics = {topic_of("Lockable", "LockSpent"), topic_of("Lockable", "LockCancelled")}
        for log in found.receipt.logs if found is not None else ():
            if log.address == contract and len(log.topics) == 3 and log.topics[0] in topics and log.topics[1] == lock:
                return ContractAddress("0x" + log.topics[2][-20:].hex())
        return NO_DELEGATE
