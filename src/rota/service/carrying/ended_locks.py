"""Locks that a delegate has ended on the chain, as a private contract gets to know of them at the endorser's node.

A delegate ends a lock by a public call, which no private contract decides about. The contract that decides about all
other transitions is called afterwards (`Domain.notify`): by a transaction of this node's party, once for each lock.

Theory of operation. The ends are found in the order of receipts, behind a position that the store has from the time
before the first lock was set. The transaction is submitted under a key that follows from the lock and from random bytes
beside the position, so that a crash between the submission and the next position submits nothing twice, and no caller
can use the key first. A transaction that fails is not repeated: the lock has ended.

Any node can deploy a token that names a party of this node as its notary, with recipients at nodes that do not answer.
So each call waits by itself for what it needs, and the position stays before the first that waits. So many
wait at most; a call that waits too long, or the oldest of the token that has most when there is no room, is given up.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Final, Protocol, TypeVar

from rota import host
from rota.domains.base import Carrying
from rota.domains.base import Rejected as DomainRejected
from rota.domains.records import Record
from rota.host import Hosted
from rota.ledger.bindings import topic_of
from rota.ledger.looking_up import LookingUp
from rota.logs import catalogue
from rota.model.types import ContractAddress, LockKind, Transition
from rota.ports import ListenerPosition, NumberedReceipt, StoredListener, Unavailable
from rota.rpc import errors
from rota.service.interface import Submission, Transactions, TransactionType
from rota.service.run import RunningNode

KIND: Final = "ended locks"
NAME: Final = "hooks"
SECRET_BYTES: Final = 32
KEY_DIGITS: Final = 32
PAGE: Final = 100
# Calls that wait for a node, the chain or the store. One that has waited for `STUCK_S` makes room for others.
WAITING_MAX: Final = 256
STUCK_S: Final = 600.0
GIVEN_UP_S: Final = 86_400.0

T = TypeVar("T")


class Patiently(Protocol):
    """Repeats a question as long as an adapter is away."""

    async def __call__(self, ask: Callable[[], Awaitable[T]]) -> T: ...


@dataclass(frozen=True, slots=True)
class _End:
    """An ended lock of a contract: its receipt, what it was, and the transaction of the chain that ended it."""

    receipt: NumberedReceipt
    hosted: Hosted
    work: Carrying[Record]
    lock: bytes
    transaction: bytes
    key: str


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A call that is not submitted yet."""

    end: _End
    task: asyncio.Task[None]
    since_s: float


class EndedLocks:
    """Of one node."""

    def __init__(self, running: RunningNode, node: Transactions, chain: LookingUp, patiently: Patiently) -> None:
        self._running: Final = running
        self._node: Final = node
        self._chain: Final = chain
        self._patiently: Final = patiently
        self._is_followed: Final = asyncio.Event()
        # By the number of the receipt, in its order.
        self._waiting: Final[dict[int, _Waiting]] = {}
        self._read = 0
        self._acknowledging: Final = asyncio.Lock()

    async def note(self, transition: Transition) -> None:
        """It is to be carried out. If it sets a lock, ends are followed from now on. `Unavailable`: store away."""
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
        self._read = stored.acknowledged.number
        async with asyncio.TaskGroup() as calls:
            while True:
                rung = self._running.receipts.bell.rung
                receipts = await self._patiently(lambda: listening.receipts_after(self._read, PAGE))
                for each in receipts:
                    await self._look_at(stored, each, calls)
                if receipts:
                    await self._acknowledge()
                else:
                    await self._running.receipts.bell.wait(rung)

    async def _look_at(self, stored: StoredListener, receipt: NumberedReceipt, calls: asyncio.TaskGroup) -> None:
        end = await self._patiently(lambda: self._end_in(stored.definition, receipt))
        if end is not None:
            await self._make_room()
            task = calls.create_task(self._call(end))
            self._waiting[receipt.sequence] = _Waiting(end, task, _now_s())
        self._read = receipt.sequence

    async def _end_in(self, secret: bytes, receipt: NumberedReceipt) -> _End | None:
        """The ended lock that this receipt is of, if it is of one."""
        hosted = self._running.contracts.hosted(ContractAddress(receipt.contract))
        if hosted is None or hosted.carrier is None or self._running.name not in hosted.contract.endorsers:
            return None
        store = self._running.adapters.store
        made = await store.traces.transition(hosted.contract.address, receipt.leaf)
        commit = await store.listening.commit_of(receipt)
        if receipt.is_undone or made is None or commit is None:
            return None
        try:
            work = host.carrying_of(hosted, made, {}, self._running.name, b"")
            lock = hosted.domain.ended_lock(work)
        except Exception as error:
            _note_failure(hosted, receipt, error)
            return None
        mark = hmac.digest(secret, bytes.fromhex(hosted.contract.address[2:]) + receipt.leaf, "sha256").hex()
        key = f"ended-lock-{mark[:KEY_DIGITS]}"
        return _End(receipt, hosted, work, lock, commit[1].transaction, key) if lock is not None else None

    async def _make_room(self) -> None:
        """Below the most that may wait. Calls that do not wait for others end soon by themselves."""
        while len(self._waiting) >= WAITING_MAX:
            stuck = [each for each in self._waiting.values() if each.since_s + STUCK_S <= _now_s()]
            if stuck:
                ((most, _),) = Counter(each.end.receipt.contract for each in stuck).most_common(1)
                oldest = next(each for each in stuck if each.end.receipt.contract == most)
                del self._waiting[oldest.end.receipt.sequence]
                oldest.task.cancel()
                _note_untold(oldest.end, f"it is the oldest of {WAITING_MAX} calls that wait")
            else:
                tasks = [each.task for each in self._waiting.values()]
                await asyncio.wait(tasks, timeout=1.0, return_when=asyncio.FIRST_COMPLETED)

    async def _acknowledge(self) -> None:
        """All receipts before the first whose call waits."""
        async with self._acknowledging:
            position = ListenerPosition(min(self._waiting, default=self._read + 1) - 1)
            listening = self._running.adapters.store.listening
            await self._patiently(lambda: listening.note_acknowledged(KIND, NAME, position))

    async def _call(self, end: _End) -> None:
        try:
            async with asyncio.timeout(GIVEN_UP_S):
                await self._patiently(lambda: self._submit(end))
        except TimeoutError:
            _note_untold(end, f"what it needs was not there for {GIVEN_UP_S:g} s")
        except (errors.Rejected, DomainRejected) as flaw:
            _note_untold(end, str(flaw))
        del self._waiting[end.receipt.sequence]
        await self._acknowledge()

    async def _submit(self, end: _End) -> None:
        """Once. `Unavailable` for now."""
        if await self._running.adapters.store.submissions.with_key(end.key) is not None:
            return
        hosted = end.hosted
        try:
            parties = hosted.domain.parties_to_notify(end.work)
            addresses = await self._running.adapters.verifiers.of(hosted.contract.address, parties)
            delegate = await self._delegate_of(end)
            asked = hosted.domain.notify(replace(end.work, addresses=addresses), delegate)
        except (DomainRejected, Unavailable):
            raise
        except Exception as error:
            _note_failure(hosted, end.receipt, error)
            raise DomainRejected("", f"the domain failed: {type(error).__name__}") from None
        assert hosted.carrier is not None, "it was asked for before"
        submission = Submission(
            TransactionType.PRIVATE,
            asked.sender,
            to=hosted.carrier.ledger,
            function=asked.function,
            data=dict(asked.arguments),  # type: ignore[arg-type]  # JSON of the domain's
            idempotency_key=end.key,
        )
        try:
            await self._node.submit(submission)
        except errors.KeyUsed:
            return

    async def _delegate_of(self, end: _End) -> ContractAddress:
        """Who ended the lock, as the ledger's event names it. `Unavailable` if the chain does not have it now."""
        found = await self._chain.transaction(end.transaction)
        topics = {topic_of("Lockable", "LockSpent"), topic_of("Lockable", "LockCancelled")}
        contract = end.hosted.contract.address
        for log in found.receipt.logs if found is not None else ():
            is_of_lock = len(log.topics) == 3 and log.topics[0] in topics and log.topics[1] == end.lock
            if log.address == contract and is_of_lock:
                return ContractAddress("0x" + log.topics[2][-20:].hex())
        raise Unavailable(f"the chain does not have the event with which a lock of {contract} ended")


def _now_s() -> float:
    return asyncio.get_running_loop().time()


def _note_untold(end: _End, reason: str) -> None:
    catalogue.HOOK_NOT_TOLD.log(contract=end.hosted.contract.address, intent=end.receipt.intent, reason=reason)


def _note_failure(hosted: Hosted, receipt: NumberedReceipt, error: Exception) -> None:
    """A domain is another author's code: its failure ends this call, and not the node."""
    catalogue.DOMAIN_FAILED.log(
        contract=hosted.contract.address, intent=receipt.intent, operation="notify", error=error
    )
