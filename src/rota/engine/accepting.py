"""Acceptance: how a node takes on a user's request exactly once.

Theory of operation. Each thing that a user submits for storage (a transaction, a deployment, a command's transaction, a
message, a listener) is accepted in a task of its own. Until the point at which it may be written (`begin`), its caller
can cancel it by disconnecting. After that it cannot be cancelled: the caller stops waiting, and the acceptance
continues.

An idempotency key is held from the first lookup in the store until the acceptance is settled, so that another request
with the same key waits for the outcome of the first. From then on the store has the key, under a unique index.
`SubmissionKey` defines which keys are the same: parties whose callers are restricted to them do not share keys.

An acceptance has two outcomes, and both are definite: it is durable and the node acts on it, or nothing of it is
stored. A write whose outcome is unknown is repeated until the store answers (`settled`). A caller whose wait times out
gets `OutcomeUnknown`, with the id and the key to query with.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, TypeVar

from rota.logs import catalogue
from rota.model.types import IntentId, intent_text
from rota.ports import FOR_CALLER, NO_KEY, SubmissionKey, Unavailable, WriteInDoubt
from rota.rpc.errors import OutcomeUnknown, Rejected, key_used

ACCEPTING_MAX: Final = 8_192
PATIENCE_S: Final = 10.0
RETRY_S: Final = 0.25
STOP_S: Final = 5.0

T = TypeVar("T")


async def settled(write: Callable[[], Awaitable[T]]) -> T:
    """Repeat a write until its outcome is known. `Unavailable` means that nothing was written.

    The write must be idempotent: it uses the same ids, and repeating it has no effect.
    """
    is_doubtful = False
    while True:
        try:
            return await write()
        except (WriteInDoubt, OutcomeUnknown) as doubt:
            if not is_doubtful:
                catalogue.SUBMISSION_UNCERTAIN.log(reason=str(doubt))
            is_doubtful = True
        except Unavailable:
            if not is_doubtful:
                raise
        await asyncio.sleep(RETRY_S)


async def answered(read: Callable[[], Awaitable[T]]) -> T:
    """Repeat a read until the store answers, because work that depends on it is already durable."""
    while True:
        try:
            return await read()
        except Unavailable:
            await asyncio.sleep(RETRY_S)


async def _apart(work: Callable[[Acceptance], Coroutine[Any, Any, T]], acceptance: Acceptance) -> T:
    """Run the work without its caller's short timeout, since its outcome depends on its reads."""
    FOR_CALLER.set(False)
    return await work(acceptance)


class Acceptance:
    """One acceptance that is in progress."""

    def __init__(self, key: SubmissionKey) -> None:
        self.keys: Final = key.names
        self.ask_with: Final[dict[str, str]] = {"idempotencyKey": key.text} if key.text else {}
        self.intent: IntentId | None = None
        self.has_begun = False
        self.task: asyncio.Task[Any]

    def begin(self, intent: IntentId | None = None, **ask_with: str) -> None:
        """Mark that something may be stored from now on, so that it cannot be cancelled; record what to query with."""
        self.has_begun = True
        if intent is not None:
            self.intent = intent
            self.ask_with["transactionId"] = intent_text(intent)
        self.ask_with.update(ask_with)

    @property
    def is_taken(self) -> bool:
        """Whether it is settled and durable."""
        return self.task.done() and not self.task.cancelled() and self.task.exception() is None


class Acceptances:
    """All acceptances of one node."""

    def __init__(self, patience_s: float = PATIENCE_S, stop_s: float = STOP_S) -> None:
        self.patience_s = patience_s
        self.stop_s = stop_s
        self._under_way: Final[set[Acceptance]] = set()
        self._keys: Final[dict[tuple[str, str], Acceptance]] = {}
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._under_way)

    async def accept(self, work: Callable[[Acceptance], Coroutine[Any, Any, T]], key: SubmissionKey = NO_KEY) -> T:
        """Run the work and return its result, or raise its rejection; both are definite.

        Raises `KeyUsed` if another request has used the key, `Unavailable` if nothing was stored because the node is
        stopping, busy or slow, and `OutcomeUnknown` if it is not settled within `patience_s`.
        """
        while (other := self._with_key(key)) is not None:
            await self._wait_for(other)
            if other.is_taken and other.intent is not None:
                raise key_used(key.text, other.intent)
        if self._is_closed:
            raise Unavailable("the node is stopping")
        if len(self._under_way) >= ACCEPTING_MAX:
            raise Unavailable(f"{ACCEPTING_MAX} requests are being accepted; try again later")
        acceptance = Acceptance(key)
        self._under_way.add(acceptance)
        self._keys.update(dict.fromkeys(acceptance.keys, acceptance))
        task: asyncio.Task[T] = asyncio.create_task(_apart(work, acceptance))
        acceptance.task = task
        task.add_done_callback(lambda _: self._ended(acceptance))
        try:
            await self._wait_for(acceptance)
        except BaseException:
            if not acceptance.has_begun:
                task.cancel()
            raise
        if not task.cancelled():
            return task.result()
        raise OutcomeUnknown(acceptance.ask_with) if acceptance.has_begun else Unavailable("the node is stopping")

    def _with_key(self, key: SubmissionKey) -> Acceptance | None:
        return next((self._keys[name] for name in key.names if name in self._keys), None)

    async def _wait_for(self, acceptance: Acceptance) -> None:
        done, _ = await asyncio.wait((acceptance.task,), timeout=self.patience_s)
        if not done and not acceptance.has_begun:
            raise Unavailable(f"not accepted within {self.patience_s:g} s")
        if not done:
            raise OutcomeUnknown(acceptance.ask_with)

    def _ended(self, acceptance: Acceptance) -> None:
        self._under_way.discard(acceptance)
        for name in acceptance.keys:
            del self._keys[name]
        if acceptance.task.cancelled():
            return
        error = acceptance.task.exception()
        if error is not None and not isinstance(error, Rejected | Unavailable):
            # Logged even if the caller has disconnected: something may be stored that the node does not act on.
            catalogue.SUBMISSION_FAILED.log(has_begun=acceptance.has_begun, request=acceptance.ask_with, error=error)

    async def close(self) -> None:
        """Cancel acceptances that have not begun; wait `stop_s` for the others.

        The next run finds those in the store that are durable.
        """
        self._is_closed = True
        tasks = [each.task for each in self._under_way]
        for each in self._under_way:
            if not each.has_begun:
                each.task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=self.stop_s)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
