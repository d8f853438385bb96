"""The throughput of a store, and the time that a node takes to start from it.

single     syncpoints one after another: each waits for the commit of the previous one
grouped    syncpoints of many contracts at a time, which share commits; each accepts an intent and grants its
           permission
start      from opening the database to having restored the node, with many final intents and some pending ones

The clock runs until the last syncpoint is reported durable. SQLite is measured in the given folder, and PostgreSQL
when its address is given: in the schema that it names, which must be empty.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Final

from rota.machine.effects import IntentAccepted, IntentFinalised, Persist, Record
from rota.machine.tables import Event
from rota.model.config import Config
from rota.model.consistency import Authorised, Consistent
from rota.model.types import (
    Contract,
    ContractAddress,
    DelegationNumber,
    Intent,
    IntentId,
    KnownContract,
    Leaf,
    NodeName,
    Outcome,
    Party,
    Receipt,
    State,
    StateId,
    Transition,
)
from rota.ports import Written
from rota.sequencer.effects import LeavesSigned, PermissionGranted
from rota.store import DatabaseStore, PostgresDatabase, SqliteDatabase

NODE: Final = NodeName("node1")
CONTRACT: Final = Contract(ContractAddress("0x" + "b0" * 20), (NODE,), (), 0)
SINGLE_COUNT_DEFAULT: Final = 1_000
GROUPED_COUNT_DEFAULT: Final = 20_000
# How many syncpoints are under way at a time.
GROUPED_OPEN: Final = 256
FINAL_COUNT_DEFAULT: Final = 100_000
PENDING_COUNT_DEFAULT: Final = 1_000
CONTENT: Final = bytes(200)
RECORDS_PER_SYNCPOINT: Final = 3


@dataclass(frozen=True, slots=True)
class StoreFigures:
    """The figures of one database."""

    database: str
    single_commits_per_s: float
    grouped_syncpoints_per_s: float
    grouped_rows_per_s: float
    start_ms: float
    final_count: int
    pending_count: int


def measure_store(
    folder: Path,
    postgres_url: str = "",
    single_count: int = SINGLE_COUNT_DEFAULT,
    grouped_count: int = GROUPED_COUNT_DEFAULT,
    final_count: int = FINAL_COUNT_DEFAULT,
    pending_count: int = PENDING_COUNT_DEFAULT,
) -> tuple[StoreFigures, ...]:
    """The figures of SQLite in this folder, and of PostgreSQL if it has an address."""
    kinds = ("sqlite", "postgres") if postgres_url else ("sqlite",)
    measured = []
    for kind in kinds:
        bench = _Bench(kind, folder, postgres_url)
        measured.append(asyncio.run(bench.measure(single_count, grouped_count, final_count, pending_count)))
    return tuple(measured)


class _Bench:
    def __init__(self, kind: str, folder: Path, postgres_url: str) -> None:
        self.kind = kind
        self.folder = folder
        self.postgres_url = postgres_url
        self.told: asyncio.Queue[Event] = asyncio.Queue()
        self.number = 0

    async def measure(
        self, single_count: int, grouped_count: int, final_count: int, pending_count: int
    ) -> StoreFigures:
        store = await self._opened()
        await store.add_contract(KnownContract(CONTRACT, IntentId(bytes(16)), ()))
        single_s = await self._write(store, (self._permitted() for _ in range(single_count)), 1)
        grouped_s = await self._write(store, (self._permitted() for _ in range(grouped_count)), GROUPED_OPEN)
        written = single_count + grouped_count
        ended = (self._finalised(number) for number in range(1, written + 1))
        await self._write(store, ended, GROUPED_OPEN)
        more = (self._final() for _ in range(final_count - written))
        await self._write(store, more, GROUPED_OPEN)
        await self._write(store, (self._permitted() for _ in range(pending_count)), GROUPED_OPEN)
        await store.close()
        start_s = await self._start(pending_count)
        return StoreFigures(
            self.kind,
            single_count / single_s,
            grouped_count / grouped_s,
            RECORDS_PER_SYNCPOINT * grouped_count / grouped_s,
            1_000 * start_s,
            max(final_count, written),
            pending_count,
        )

    async def _opened(self) -> DatabaseStore:
        if self.kind == "sqlite":
            database: SqliteDatabase | PostgresDatabase = SqliteDatabase(self.folder / "bench.db", NODE)
        else:
            database = PostgresDatabase(self.postgres_url, NODE)
        store = DatabaseStore(database, NODE, Config(), self.told.put_nowait)
        await store.start()
        return store

    async def _write(self, store: DatabaseStore, syncpoints: Iterable[tuple[Record, ...]], open_max: int) -> float:
        """Write syncpoints, `open_max` under way at a time; returns the seconds until all are durable."""
        begin = perf_counter()
        open_count = 0
        for records in syncpoints:
            if open_count == open_max:
                open_count -= await self._next_durable()
            store.perform(Persist(CONTRACT.address, records))
            open_count += 1
        while open_count:
            open_count -= await self._next_durable()
        return perf_counter() - begin

    async def _next_durable(self) -> int:
        event = await self.told.get()
        assert isinstance(event, Written), f"a benchmark's write is followed by {event}"
        return event.count

    async def _start(self, pending_count: int) -> float:
        begin = perf_counter()
        store = await self._opened()
        stored = await store.restore(await store.contracts_with_work())
        took_s = perf_counter() - begin
        assert len(stored.contracts[CONTRACT.address].intents) == pending_count, "what is pending is restored"
        await store.close()
        return took_s

    def _permitted(self) -> tuple[Record, ...]:
        intent = self._next_intent()
        leaf = Leaf(intent.id * 2)
        made = State(StateId(leaf, 0), bytes(32), (NODE,), CONTENT)
        transition = Authorised(Consistent(Transition(intent.id, leaf, outputs=(made,), signature=bytes(65))))
        granted = PermissionGranted(intent.id, DelegationNumber(1, self.number), NODE, leaf, 0)
        return IntentAccepted(intent), LeavesSigned((transition,)), granted

    def _final(self) -> tuple[Record, ...]:
        intent = self._next_intent()
        return IntentAccepted(intent), *self._finalised(self.number)

    def _finalised(self, number: int) -> tuple[Record, ...]:
        return (IntentFinalised(Receipt(_intent_id(number), Outcome.REVERTED, "measured")),)

    def _next_intent(self) -> Intent:
        self.number += 1
        key = f"key {self.number}"
        return Intent(_intent_id(self.number), CONTRACT.address, Party("alice@node1"), CONTENT, idempotency_key=key)


def _intent_id(number: int) -> IntentId:
    """An id spread as real ids are: neighbours in time are not neighbours in an index."""
    spread = number * 0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835 % 2**128
    return IntentId(spread.to_bytes(16, "big"))
