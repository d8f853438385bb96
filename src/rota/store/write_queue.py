"""One queue for all writes of a node, and the task that commits them.

Theory of operation. The task takes all waiting writes, which are all that one turn of the event loop has ordered, or
all that came while the last transaction was being committed, and writes them as one transaction: a commit costs the
same for one as for hundreds. The orders of the core are written in the order in which they were given, and each is
repeated until it is done: while the database is unavailable, full or read-only, the task tries again every `RETRY_S`,
and the node is held (`engine/outbox.py`). The write of a feature is not repeated: it raises `Unavailable` at once.

A commit that is not answered may have happened. Each transaction writes its number to the database, so the task gives
the same number again: if it is there, the write is done. A feature gets `WriteInDoubt`.

When the database rejects a transaction for its contents, each write is tried in a transaction of its own. A rejected
write of a feature is that feature's error. A rejected order of the core ends the run (`RecordRejected`), because the
core has already continued: nothing that was ordered behind it is written. Its contract is quarantined durably
(`quarantine.py`), so that the next run does not load it and other contracts are not affected. A database that another
process changed (`FenceBroken`) and one that reports an I/O error (`DatabaseBroken`) end the run too.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Final

from rota.logs import catalogue
from rota.model.frozen import dataclass
from rota.model.types import NO_CONTRACT, ContractAddress
from rota.node.node import OWN
from rota.ports import Unanswerable, Unavailable, WriteInDoubt
from rota.store.database import Database, NotWritten, OutcomeUnknown, Refused, Statement
from rota.store.kept_number import KeptNumber
from rota.store.quarantine import quarantining
from rota.store.records import Clock

WRITES_WAITING_MAX: Final = 65_536
GROUP_WRITES_MAX: Final = 1_024
RETRY_S: Final = 0.25


class _GivenUp(Exception):
    """The queue closes while the database takes no writes: the writes that wait are dropped."""


class RecordRejected(Refused):
    """The database rejects records of the core for their contents. The run ends: memory is ahead of the database."""


@dataclass(frozen=True, slots=True)
class _Write:
    """An order of the core for a contract, or the write of a feature that waits for it.

    `flaw` is the reason why an order has no statements.
    """

    contract: ContractAddress
    statements: tuple[Statement, ...]
    waiting: asyncio.Future[None] | None = None
    flaw: str = ""


class WriteQueue:
    """The writes of one node. `written` is called with the number of orders of the core that are durable."""

    def __init__(self, database: Database, kept: KeptNumber, clock: Clock, written: Callable[[int], None]) -> None:
        self._database: Final = database
        self._kept: Final = kept
        self._clock: Final = clock
        self._tell_written: Final = written
        # The greatest number that was given to a transaction, or to a change in one.
        self.number = 0
        self.trouble = ""
        self.failed_count = 0
        # Called when the database does not take a write.
        self.in_trouble: Callable[[], None] = lambda: None
        # Called with the problem that ends the run, before the waiting features get their errors.
        self.ended: Callable[[Refused], None] = lambda _: None
        self._waiting: deque[_Write] = deque()
        self._has_some: Final = asyncio.Event()
        self._is_closing = False

    def next_number(self) -> int:
        """A number greater than any in the database, whether or not that transaction succeeded."""
        self.number += 1
        return self.number

    def order(self, contract: ContractAddress, statements: Sequence[Statement], flaw: str = "") -> None:
        """Write this for the core; an order with a flaw cannot be written, and ends the run when its turn comes."""
        self._waiting.append(_Write(contract, tuple(statements), flaw=flaw))
        self._has_some.set()

    async def write(self, statements: Sequence[Statement]) -> None:
        """Write this for a feature.

        Durable on return; else `Unavailable`, or `WriteInDoubt` when the outcome is unknown.
        """
        if self._is_closing:
            raise Unavailable("the store is closing")
        if len(self._waiting) >= WRITES_WAITING_MAX:
            raise Unavailable(f"{WRITES_WAITING_MAX} writes are waiting for the database")
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Write(NO_CONTRACT, tuple(statements), waiting))
        self._has_some.set()
        await waiting

    def close(self) -> None:
        """Let `run` end when all waiting writes are done, or when the first of them cannot be written now."""
        self._is_closing = True
        self._has_some.set()

    async def run(self) -> None:
        """Write until the queue is closed. Raises `Refused` when the run must end."""
        try:
            while not self._is_closing or self._waiting:
                await self._has_some.wait()
                self._has_some.clear()
                while self._waiting:
                    count = min(len(self._waiting), GROUP_WRITES_MAX)
                    await self._write_group([self._waiting.popleft() for _ in range(count)])
        except _GivenUp:
            # Later orders are dropped too: the durable records are a prefix of the ordered ones.
            self._refuse_features(self._waiting, Unavailable("the store is closing"))
            self._waiting.clear()
        except Refused as problem:
            self._end(self._waiting, problem, Unavailable)
            raise

    async def _write_group(self, group: list[_Write]) -> None:
        """Write all in one transaction; when that is rejected, each in one of its own."""
        try:
            if any(write.flaw for write in group):
                raise NotWritten(next(write.flaw for write in group if write.flaw))
            await self._write_together(group)
        except NotWritten as problem:
            if len(group) == 1:
                await self._take_rejected(group[0], problem)
            else:
                await self._write_each(group)

    async def _write_each(self, group: list[_Write]) -> None:
        for place, write in enumerate(group):
            try:
                await self._write_group([write])
            except Refused as problem:
                self._end(group[place + 1 :], problem, Unavailable)
                raise
            except _GivenUp:
                self._refuse_features(group[place + 1 :], Unavailable("the store is closing"))
                raise

    async def _write_together(self, group: list[_Write]) -> None:
        """Write one transaction, repeated until it is done. Only the orders of the core are tried again."""
        number = self.next_number()
        while group:
            try:
                await self._commit([each for write in group for each in write.statements], number)
            except (Unavailable, OutcomeUnknown) as problem:
                group = self._note_trouble(group, problem)
                if self._is_closing and group:
                    raise _GivenUp from problem
                await asyncio.sleep(RETRY_S if group else 0)
            except Refused as problem:
                self._end(group, problem, WriteInDoubt)
                raise
            else:
                self.trouble = ""
                self._release(group)
                return

    async def _commit(self, statements: Sequence[Statement], number: int) -> None:
        await self._database.write(statements, number)
        self._kept.acknowledged = max(self._kept.acknowledged, number)

    def _release(self, group: Iterable[_Write]) -> None:
        count = 0
        for write in group:
            if write.waiting is None:
                count += 1
            elif not write.waiting.done():
                write.waiting.set_result(None)
        if count:
            self._tell_written(count)

    def _note_trouble(self, group: list[_Write], problem: Exception) -> list[_Write]:
        """Note that nothing was written, or that this is unknown.

        Returns the orders of the core, which are tried again.
        """
        self.failed_count += 1
        if self.trouble != str(problem):
            catalogue.STORE_WRITE_FAILED.log(reason=str(problem))
        self.trouble = str(problem)
        self.in_trouble()
        is_unknown = isinstance(problem, OutcomeUnknown)
        self._refuse_features(group, WriteInDoubt(str(problem)) if is_unknown else Unavailable(str(problem)))
        # An empty write probes whether the database takes writes: its failure does not concern the other writes.
        if any(write.statements for write in group):
            self._refuse_features(self._waiting, Unavailable(str(problem)))
            self._waiting = deque(write for write in self._waiting if write.waiting is None)
        return [write for write in group if write.waiting is None]

    async def _take_rejected(self, write: _Write, problem: NotWritten) -> None:
        """Reject a feature's write with its error.

        For an order of the core: quarantine its contract and end the run.
        """
        if write.waiting is not None:
            self._refuse_features([write], Unanswerable(str(problem)))
            return
        if write.contract in (OWN, NO_CONTRACT):
            raise RecordRejected(f"the database rejects records of the node itself: {problem}")
        with suppress(Unavailable, OutcomeUnknown, NotWritten, Refused):
            await self._commit([quarantining(write.contract, str(problem), self._clock())], self.next_number())
        raise RecordRejected(
            f"the database rejects records of contract {write.contract}: {problem}. The contract is quarantined: no "
            "run loads it before an operator releases it (`rota contract release`)"
        )

    def _end(self, writes: Iterable[_Write], problem: Refused, error: type[Unavailable]) -> None:
        self.ended(problem)
        self._refuse_features(writes, error(f"the store has stopped: {problem}"))

    @staticmethod
    def _refuse_features(writes: Iterable[_Write], problem: Unavailable) -> None:
        for write in writes:
            if write.waiting is not None and not write.waiting.done():
                write.waiting.set_exception(problem)
