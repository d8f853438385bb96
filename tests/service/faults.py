"""A real database of a real node whose readings and writings go wrong in the ways in which databases do."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum

import pytest

from rota.ports import Unavailable
from rota.store import SqliteDatabase
from rota.store.database import Answer, OutcomeUnknown, Reading, Statement

COMMIT_S = 0.4
AWAY_S = 0.3


class Fault(Enum):
    """What becomes of a write or a read, and of what follows it."""

    SLOW = "it takes longer than callers wait"
    NO_ANSWER = "the commit happens, and nobody can tell; a reading fails"
    NO_ANSWER_AND_LOST = "the commit does not happen, and nobody can tell; a reading fails"
    READ_FAILS = "the commit goes well, and nothing can be read after it"
    CRASH_BEFORE = "the process is gone before it"
    CRASH_AFTER = "the process is gone after it"


CRASHES = frozenset({Fault.CRASH_BEFORE, Fault.CRASH_AFTER})
IN_ONE_LIFE = (Fault.SLOW, Fault.NO_ANSWER, Fault.NO_ANSWER_AND_LOST, Fault.READ_FAILS)


@dataclass
class Faults:
    """Strikes once: the next write of rows into a table, or the n-th reading or writing from now on."""

    fault: Fault | None = None
    table: str = ""
    at: int = 0
    count: int = 0
    taken: Fault | None = None
    has_struck: asyncio.Event = field(default_factory=asyncio.Event)
    has_crashed: asyncio.Event = field(default_factory=asyncio.Event)
    are_reads_failing: bool = False
    are_writes_failing: bool = False

    def arm(self, table: str, fault: Fault) -> None:
        self.table, self.fault, self.at = table, fault, 0
        self.has_struck.clear()

    def arm_at(self, at: int, fault: Fault | None) -> None:
        """Count from now on, and strike at this moment."""
        self.table, self.fault, self.taken, self.at, self.count = "", fault, None, at, 0
        self.has_struck.clear()
        self.has_crashed.clear()

    def take(self, statements: Sequence[Statement] = ()) -> Fault | None:
        self.count += 1
        is_its_table = self.table and any(f"INSERT INTO {self.table} " in each.sql for each in statements)
        if self.fault is None or not (is_its_table or self.count == self.at):
            return None
        self.taken, self.fault = self.fault, None
        self.has_struck.set()
        return self.taken

    async def disarm(self) -> bool:
        """Strike no more; true if the process has crashed.

        A crash that struck a write which nobody waits for may still be on its way: without waiting for it, the test
        would ask a node for ever that dies a moment later.
        """
        self.fault = None
        if self.taken in CRASHES:
            await self.has_crashed.wait()
        return self.has_crashed.is_set()

    def fail_reads(self) -> None:
        self.are_reads_failing = True
        asyncio.get_running_loop().call_later(AWAY_S, self.heal)

    def heal(self) -> None:
        self.are_reads_failing = False

    async def are_over(self) -> None:
        await self.has_struck.wait()
        while self.are_reads_failing:
            await asyncio.sleep(0.02)


class FaultySqlite(SqliteDatabase):
    """A real database with these faults. One whose process has crashed does nothing any more."""

    faults: Faults
    is_dead = False

    async def write(self, statements: Sequence[Statement], written: int) -> None:
        self._live()
        if self.faults.are_writes_failing:
            raise Unavailable("the disk is failing")
        fault = self.faults.take(statements)
        if fault is Fault.SLOW:
            await asyncio.sleep(COMMIT_S)
        if fault is Fault.CRASH_BEFORE:
            self._crash()
        if fault is not Fault.NO_ANSWER_AND_LOST:
            await super().write(statements, written)
        if fault is Fault.CRASH_AFTER:
            self._crash()
        if fault in {Fault.NO_ANSWER, Fault.NO_ANSWER_AND_LOST}:
            self.faults.fail_reads()
            raise OutcomeUnknown("the answer was lost")
        if fault is Fault.READ_FAILS:
            self.faults.fail_reads()

    async def read(self, reading: Reading[Answer]) -> Answer:
        self._live()
        if self.faults.are_reads_failing:
            raise Unavailable("the database is away")
        fault = self.faults.take()
        if fault is Fault.SLOW:
            await asyncio.sleep(COMMIT_S)
        elif fault in CRASHES:
            self._crash()
        elif fault is not None:
            self.faults.fail_reads()
            raise Unavailable("the database is away")
        return await super().read(reading)

    def _crash(self) -> None:
        self.is_dead = True
        self.faults.has_crashed.set()
        self._live()

    def _live(self) -> None:
        if self.is_dead:
            raise Unavailable("the process has crashed")


def install(monkeypatch: pytest.MonkeyPatch) -> Faults:
    """Those of the nodes that a test starts."""
    made = Faults()
    monkeypatch.setattr(FaultySqlite, "faults", made, raising=False)
    monkeypatch.setattr("rota.server.process.SqliteDatabase", FaultySqlite)
    return made
