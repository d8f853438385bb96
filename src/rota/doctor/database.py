"""Where a node remembers: reachable, this node's, of a version that we know, whole, and with room to grow."""

from __future__ import annotations

import asyncio
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Final

from rota.doctor.case import Case
from rota.doctor.findings import Finding, failed, ok, skipped, warning
from rota.keys.files import KeyFileError
from rota.ports import Unavailable
from rota.server.configuration import SqliteFile, password_of
from rota.server.number_file import NumberFile
from rota.store.inspecting import Inspected, damage_of_sqlite, inspect_postgres, inspect_sqlite

DATABASE: Final = "database"
INTEGRITY: Final = "integrity"
DISK: Final = "disk"
POSTGRES_TIMEOUT_S: Final = 5.0
INTEGRITY_LIMIT_S: Final = 10.0
MEBIBYTE: Final = 1024 * 1024
FREE_BYTES_MIN: Final = 100 * MEBIBYTE
FREE_BYTES_GOOD: Final = 1024 * MEBIBYTE


async def check_database(case: Case) -> list[Finding]:
    """It can be read, is ours, and is of a version that we know; a file is whole."""
    url = case.configuration.store.url
    if isinstance(url, SqliteFile):
        return await _check_file(case, url.path)
    try:
        password = password_of(case.configuration.store)
    except KeyFileError as error:
        return [failed(DATABASE, f"store.password_file: {error}", "Correct it, or set ROTA_STORE_PASSWORD.")]
    try:
        found = await inspect_postgres(url.with_password(password), POSTGRES_TIMEOUT_S)
    except Unavailable as error:
        mend = "Start the server, or correct store.url, its user, or the password."
        return [failed(DATABASE, str(error), mend)]
    return [_judged(case, "PostgreSQL", found), skipped(INTEGRITY, "a server looks after its own: see pg_amcheck")]


async def _check_file(case: Case, path: Path) -> list[Finding]:
    if not path.exists():
        if not path.parent.is_dir():
            return [failed(DATABASE, f"{path.parent}: there is no such folder", "Make it, or correct store.url.")]
        return [ok(DATABASE, f"{path.name}: is made when the node first starts")]
    try:
        found = await asyncio.to_thread(inspect_sqlite, path)
        damage = await asyncio.to_thread(damage_of_sqlite, path, INTEGRITY_LIMIT_S)
    except Unavailable as error:
        mend = "Restore the file from a backup, or correct store.url; look at who may read it."
        return [failed(DATABASE, str(error), mend)]
    size = f"{path.name}, {path.stat().st_size // MEBIBYTE:,} MiB"
    return [_judged(case, size, found), _wholeness(path, damage)]


def _judged(case: Case, what: str, found: Inspected) -> Finding:
    if found.version > found.versions_known:
        version = f"{what}: its schema has version {found.version}, and this Rota knows {found.versions_known}"
        return failed(DATABASE, version, "Run a Rota as new as the one that wrote it, or restore a backup of before.")
    if found.node and found.node != case.name:
        mend = "Correct store.url, or node.name: each node has a database of its own."
        return failed(DATABASE, f"{what}: it belongs to {found.node}, not to {case.name}", mend)
    kept = _kept_number(case)
    if found.written < kept:
        older = f"{what}: it was wound back: its write number is {found.written}, and {kept} was acknowledged before"
        mend = "Bring back the newest copy. Without one, open public transactions are set aside: see `rota tx aside`."
        return warning(DATABASE, older, mend)
    if not found.version:
        return ok(DATABASE, f"{what}: empty, its tables are made when the node first starts")
    if found.version < found.versions_known:
        older = f"{what}: its schema has version {found.version} of {found.versions_known}"
        return warning(DATABASE, older, "The node's next start brings it up to date: take a backup before.")
    return ok(DATABASE, f"{what}, schema version {found.version}")


def _kept_number(case: Case) -> int:
    """What the node keeps beside its keys; what cannot be read is told by the look at the keys."""
    with suppress(Unavailable):
        return NumberFile(case.configuration.node.keys).read()
    return 0


def _wholeness(path: Path, damage: str | None) -> Finding:
    if damage is None:
        mend = f"""While the node is stopped: sqlite3 {path} "PRAGMA integrity_check" tells."""
        return warning(INTEGRITY, f"{path.name} is too large to be looked through in {INTEGRITY_LIMIT_S:.0f} s", mend)
    if damage:
        mend = "Stop the node, keep a copy of the file, and restore a backup; see what is wrong with the disk."
        return failed(INTEGRITY, f"{path.name} is damaged: {damage}", mend)
    return ok(INTEGRITY, f"{path.name} is whole")


async def check_disk(case: Case) -> list[Finding]:
    """There is room where the node writes."""
    url = case.configuration.store.url
    folder = url.path.parent if isinstance(url, SqliteFile) and url.path.parent.is_dir() else case.folder
    free_bytes = shutil.disk_usage(folder).free
    found = f"{free_bytes // MEBIBYTE:,} MiB free in {folder}"
    if free_bytes < FREE_BYTES_MIN:
        return [failed(DISK, found, "Make room: a node that cannot write does nothing more.")]
    if free_bytes < FREE_BYTES_GOOD:
        return [warning(DISK, found, "Make room soon, or give the database a disk of its own.")]
    return [ok(DISK, found)]
