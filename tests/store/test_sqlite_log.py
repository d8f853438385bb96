"""SQLite restarts its log although callers read all the time."""

from __future__ import annotations

import asyncio
from pathlib import Path

from rota.ports import FOR_CALLER
from rota.store import SqliteDatabase
from rota.store.database import Reading, Statement
from tests.store.kit import NODE, in_loop

LOG_BYTES_MAX = 1_048_576
WRITE_BYTES = 65_536
# The header has a number that changes when the log restarts.
SALT = slice(16, 24)


def _long_reading() -> Reading[None]:
    """Some hundred milliseconds within one moment of the database."""
    yield Statement(
        "WITH RECURSIVE c (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 500000) SELECT COUNT(*) FROM c, node"
    )


async def _read_without_a_gap(database: SqliteDatabase) -> None:
    FOR_CALLER.set(True)
    while True:
        await database.read(_long_reading())


@in_loop
async def test_callers_that_read_without_a_gap_do_not_keep_the_log_from_restarting(tmp_path: Path) -> None:
    database = SqliteDatabase(tmp_path / "node.db", NODE, log_bytes_max=LOG_BYTES_MAX)
    await database.open()
    log = tmp_path / "node.db-wal"
    readers = [asyncio.create_task(_read_without_a_gap(database)) for _ in range(2)]

    async def write(number: int) -> bytes:
        row = (number.to_bytes(32, "big"), 0, bytes(WRITE_BYTES))
        await database.write([Statement("INSERT INTO abis (hash, stored_at_ms, abi) VALUES (?, ?, ?)", row)], number)
        with log.open("rb") as file:
            return file.read(32)[SALT]

    number = 1
    while log.stat().st_size <= LOG_BYTES_MAX:
        await write(number)
        number += 1
    began = await write(number)
    while await write(number + 1) == began:
        number += 1
    for reader in readers:
        reader.cancel()
    await asyncio.gather(*readers, return_exceptions=True)
    await database.close()
