"""What users asked for, as they asked for it (`ports.SubmissionStore`).

A private one is noted beside its intent, which the core accepts; one without an intent was refused, and is not shown.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

import msgspec

from rota.abi import Entry
from rota.domains.queries import Query
from rota.ports import Dependencies, StoredSubmission
from rota.store.abis import adding
from rota.store.database import Door, Reading, Statement, Value
from rota.store.queries import Column, Kind, Table, selection, stored_text
from rota.types import ContractAddress, IntentId, Party, SubmitMode

DEPENDANTS_MAX: Final = 10_000
# What was being accepted when a process ended is among its latest; there is never room for so many at a time.
LATEST_LOOKED_AT: Final = 10_000
PUBLIC: Final = "public"
PRIVATE: Final = "private"

_TABLE: Final = Table(
    "submissions",
    {
        "id": Column("submissions.id", Kind.UUID),
        "created": Column("accepted_at_ms", Kind.TIME),
        "submitMode": Column("submit_mode", Kind.TEXT),
        "idempotencyKey": Column("idempotency_key", Kind.TEXT),
        "type": Column("type", Kind.TEXT),
        "domain": Column("domain", Kind.TEXT),
        "function": Column("function", Kind.TEXT),
        "abiReference": Column("abi", Kind.BYTES),
        "from": Column("sender", Kind.TEXT),
        "to": Column("recipient", Kind.TEXT),
        "sequence": Column("submissions.number", Kind.NUMBER),
    },
    "submissions.number DESC",
)


# Of what ended off the chain, the place of the leaf has the intent's id; a deployment is seen from what it deployed.
_HAS_SUCCEEDED: Final = f"""
CASE WHEN EXISTS (SELECT 1 FROM receipts_undone WHERE receipts_undone.intent = receipts.intent) THEN 0
WHEN receipts.type = '{PUBLIC}' THEN public_transactions.has_succeeded
WHEN receipts.leaf <> receipts.intent THEN 1
WHEN EXISTS (SELECT 1 FROM deployed WHERE deployed.intent = receipts.intent) THEN 1 ELSE 0 END"""

_ENDED: Final = Table(
    "receipts LEFT JOIN public_transactions ON public_transactions.id = receipts.intent "
    "LEFT JOIN intents ON intents.id = receipts.intent",
    {
        "id": Column("receipts.intent", Kind.UUID),
        "sequence": Column("receipts.sequence", Kind.NUMBER),
        "indexed": Column("receipts.numbered_at_ms", Kind.TIME),
        "domain": Column("receipts.domain", Kind.TEXT),
        "type": Column("receipts.type", Kind.TEXT),
        "success": Column(f"({_HAS_SUCCEEDED})", Kind.BOOLEAN),
        "blockNumber": Column("COALESCE(intents.settled_at, public_transactions.height)", Kind.NUMBER),
        "transactionHash": Column("public_transactions.hash", Kind.BYTES),
        "contractAddress": Column("public_transactions.contract", Kind.TEXT),
    },
    "receipts.sequence DESC",
)


class _Earlier(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one that was changed asked for before, as far as that may change."""

    asked_at_ms: int
    data: bytes
    recipient: str | None = None
    function: str = ""
    abi: bytes = b""
    gas: str | None = None
    value_wei: str | None = None
    fee_max_wei: str | None = None
    tip_wei: str | None = None


class _Written(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is only shown. Numbers are text, as they may be longer than a stored number."""

    data: bytes
    sender: str
    domain: str = ""
    function: str = ""
    idempotency_key: str = ""
    depends_on: tuple[bytes, ...] = ()
    gas: str | None = None
    value_wei: str | None = None
    fee_max_wei: str | None = None
    tip_wei: str | None = None
    changed_at_ms: int | None = None
    earlier: tuple[_Earlier, ...] = ()


_decode: Final = msgspec.msgpack.Decoder(_Written).decode


class Submissions:
    """`ports.SubmissionStore` in a database."""

    def __init__(self, door: Door, final_height: Callable[[], Reading[int]], clock: Callable[[], int]) -> None:
        self._door: Final = door
        self._final_height: Final = final_height
        self._clock: Final = clock

    async def add(self, submission: StoredSubmission, abi: Sequence[Entry]) -> None:
        """Note what a private transaction asks for; and the ABI that came with it."""
        await self._door.write(noting_submission(submission, abi, self._clock()))

    async def change(self, submission: StoredSubmission, abi: Sequence[Entry]) -> None:
        """It asks for something else now, and has what it asked for before; number and time of acceptance stay."""
        submission = replace(submission, changed_at_ms=self._clock())
        row = (
            submission.to,
            stored_text(submission.function),
            submission.abi or None,
            msgspec.msgpack.encode(_written(submission)),
            submission.id,
        )
        await self._door.write([*(adding(abi, self._clock()) if abi else ()), Statement(_CHANGE, row)])

    async def forget(self, intent: IntentId) -> None:
        """It was not accepted."""
        await self._door.write(_forgetting(intent))

    async def forget_unaccepted(self) -> int:
        """What was noted and not accepted, since a process ended in between, goes; how many. For a node that begins."""
        found = await self._door.read(_unaccepted())
        if found:
            await self._door.write([statement for intent in found for statement in _forgetting(intent)])
        return len(found)

    async def get(self, intent: IntentId) -> StoredSubmission | None:
        """What was asked for under this id, and accepted."""
        sql = f"{_SELECT} WHERE submissions.id = ? AND ({_IS_ACCEPTED})"
        found = await self._door.read(_submissions(Statement(sql, (intent,))))
        return found[0] if found else None

    async def public_with_key(self, key: str) -> IntentId | None:
        """The public transaction that has this idempotency key."""
        return await self._with_key(key, f"type = '{PUBLIC}'")

    async def with_key(self, key: str) -> IntentId | None:
        """The transaction that has this idempotency key."""
        return await self._with_key(key, _IS_ACCEPTED)

    async def _with_key(self, key: str, also: str) -> IntentId | None:
        sql = f"{_SELECT} WHERE idempotency_key = ? AND ({also}) ORDER BY number DESC"
        found = await self._door.read(_submissions(Statement(sql, (stored_text(key),))))
        return next((each.id for each in found if each.idempotency_key == key), None)

    async def find(
        self, query: Query, is_open: bool = False, is_prepared: bool = False
    ) -> tuple[StoredSubmission, ...]:
        """Those that are looked for; perhaps only such as have not ended, or that wait for who commits them."""
        return await self._door.read(self._find(query, is_open, is_prepared))

    def _find(self, query: Query, is_open: bool, is_prepared: bool) -> Reading[tuple[StoredSubmission, ...]]:
        if not is_open and not is_prepared:
            return (yield from _submissions(selection(_TABLE, _COLUMNS, query, also=_IS_ACCEPTED)))
        height = yield from self._final_height()
        among = (_PREPARED if is_prepared else _OPEN).format(height=int(height))
        # Few are open of the many that ever were: these few are gone through, not the many.
        table = replace(_TABLE, source=f"({among}) AS few CROSS JOIN submissions")
        return (yield from _submissions(selection(table, _COLUMNS, query, also="submissions.id = few.id")))

    async def find_ended(self, query: Query) -> tuple[IntentId, ...]:
        """Those that have ended for good, also others', and whose receipts are looked for; the latest first."""
        return await self._door.read(_ended(query))

    async def dependencies(self, intent: IntentId) -> Dependencies:
        """What it depends on, and what depends on it."""
        return await self._door.read(_dependencies(intent))


def _forgetting(intent: IntentId) -> list[Statement]:
    return [
        Statement("DELETE FROM submissions WHERE id = ?", (intent,)),
        Statement("DELETE FROM dependencies WHERE id = ?", (intent,)),
    ]


def _unaccepted() -> Reading[tuple[IntentId, ...]]:
    rows: Any = yield Statement(_UNACCEPTED, (LATEST_LOOKED_AT,))
    return tuple(IntentId(id_) for (id_,) in rows)


def _ended(query: Query) -> Reading[tuple[IntentId, ...]]:
    rows: Any = yield selection(_ENDED, "receipts.intent", query)
    return tuple(IntentId(id_) for (id_,) in rows)


def noting_submission(submission: StoredSubmission, abi: Sequence[Entry], now_ms: int) -> list[Statement]:
    """What notes a submission; for whoever accepts it in the same write."""
    row: tuple[Value, ...] = (
        submission.id,
        now_ms,
        PUBLIC if submission.is_public else PRIVATE,
        submission.submit_mode.value,
        stored_text(submission.sender),
        stored_text(submission.domain),
        submission.to,
        stored_text(submission.function),
        submission.abi or None,
        stored_text(submission.idempotency_key) or None,
        msgspec.msgpack.encode(_written(submission)),
    )
    statements = adding(abi, now_ms) if abi else []
    statements.append(Statement(_ADD, row))
    for other in dict.fromkeys(submission.depends_on):
        statements.append(Statement(_DEPEND, (submission.id, other)))
    return statements


def _written(submission: StoredSubmission) -> _Written:
    return _Written(
        submission.data,
        submission.sender,
        submission.domain,
        submission.function,
        submission.idempotency_key,
        submission.depends_on,
        _text(submission.gas),
        _text(submission.value_wei),
        _text(submission.fee_max_wei),
        _text(submission.tip_wei),
        submission.changed_at_ms,
        tuple(_earlier(each) for each in submission.earlier),
    )


def _earlier(submission: StoredSubmission) -> _Earlier:
    return _Earlier(
        submission.accepted_at_ms,
        submission.data,
        submission.to,
        submission.function,
        submission.abi,
        _text(submission.gas),
        _text(submission.value_wei),
        _text(submission.fee_max_wei),
        _text(submission.tip_wei),
    )


def _submissions(query: Statement) -> Reading[tuple[StoredSubmission, ...]]:
    rows: Any = yield query
    return tuple(_submission(*row) for row in rows)


def _submission(
    id_: bytes,
    number: int,
    accepted_at_ms: int,
    kind: str,
    submit_mode: str,
    recipient: str | None,
    abi: bytes | None,
    content: bytes,
) -> StoredSubmission:
    written = _decode(content)
    found = StoredSubmission(
        IntentId(id_),
        accepted_at_ms,
        kind == PUBLIC,
        SubmitMode(submit_mode),
        Party(written.sender),
        written.domain,
        None if recipient is None else ContractAddress(recipient),
        written.function,
        written.data,
        abi or b"",
        written.idempotency_key,
        tuple(IntentId(other) for other in written.depends_on),
        _number(written.gas),
        _number(written.value_wei),
        _number(written.fee_max_wei),
        _number(written.tip_wei),
        number,
        written.changed_at_ms,
    )
    return replace(found, earlier=tuple(_before(found, each) for each in written.earlier)) if written.earlier else found


def _before(submission: StoredSubmission, earlier: _Earlier) -> StoredSubmission:
    """The same with what it asked for then."""
    return replace(
        submission,
        accepted_at_ms=earlier.asked_at_ms,
        to=ContractAddress(earlier.recipient) if earlier.recipient is not None else None,
        function=earlier.function,
        data=earlier.data,
        abi=earlier.abi,
        gas=_number(earlier.gas),
        value_wei=_number(earlier.value_wei),
        fee_max_wei=_number(earlier.fee_max_wei),
        tip_wei=_number(earlier.tip_wei),
        changed_at_ms=None,
    )


def _dependencies(intent: IntentId) -> Reading[Dependencies]:
    sql = "SELECT {found} FROM dependencies WHERE {known} = ? ORDER BY {found} LIMIT ?"
    found: Any = yield Statement(sql.format(found="depends_on", known="id"), (intent, DEPENDANTS_MAX))
    others: Any = yield Statement(sql.format(found="id", known="depends_on"), (intent, DEPENDANTS_MAX))
    return Dependencies(tuple(IntentId(each) for (each,) in found), tuple(IntentId(each) for (each,) in others))


def _text(number: int | None) -> str | None:
    return None if number is None else str(number)


def _number(text: str | None) -> int | None:
    return None if text is None else int(text)


_COLUMNS: Final = (
    "submissions.id, submissions.number, accepted_at_ms, type, submit_mode, submissions.recipient, abi, submission"
)
_SELECT: Final = f"SELECT {_COLUMNS} FROM submissions"

_IS_ACCEPTED: Final = f"""
type = '{PUBLIC}' OR EXISTS (SELECT 1 FROM intents WHERE intents.id = submissions.id)"""

_UNACCEPTED: Final = f"""
SELECT id FROM submissions
WHERE number > (SELECT COALESCE(MAX(latest.number), 0) FROM submissions AS latest) - ? AND NOT ({_IS_ACCEPTED})"""

_OPEN: Final = """
SELECT id FROM intents WHERE receipt IS NULL AND settled_at IS NULL
UNION ALL SELECT id FROM intents WHERE receipt IS NULL AND settled_at > {height}
UNION ALL SELECT id FROM public_transactions WHERE is_final = 0"""

_PREPARED: Final = """
SELECT id FROM intents WHERE issued IS NOT NULL AND receipt IS NULL AND voided_at IS NULL AND settled_at IS NULL
UNION ALL SELECT id FROM intents WHERE issued IS NOT NULL AND receipt IS NULL AND settled_at > {height}"""

_ADD: Final = """
INSERT INTO submissions (
    number, id, accepted_at_ms, type, submit_mode, sender, domain, recipient, function, abi, idempotency_key,
    submission)
VALUES ((SELECT COALESCE(MAX(others.number), 0) + 1 FROM submissions AS others), ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (id) DO NOTHING"""

_CHANGE: Final = "UPDATE submissions SET recipient = ?, function = ?, abi = ?, submission = ? WHERE id = ?"
_DEPEND: Final = "INSERT INTO dependencies (id, depends_on) VALUES (?, ?) ON CONFLICT (id, depends_on) DO NOTHING"
