"""The requests of users, as they made them (`ports.SubmissionStore`).

A private one is written with the core's acceptance of its intent, a public one with its transaction: every stored one
was accepted. A unique index limits each idempotency key to one submission, or to one of each party whose callers are
held to parties (`SubmissionKey`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

import msgspec

from rota.abi.codec import Entry
from rota.domains.queries import Query
from rota.model.types import NO_CONTRACT, AwaitedLeaf, ContractAddress, IntentId, Party, SubmitMode
from rota.ports import Dependencies, NumberedReceipt, PartyNames, StoredSubmission, SubmissionKey
from rota.ports.parties import bounds_of
from rota.store.abis import adding
from rota.store.database import Door, Reading, Statement, Value
from rota.store.encoding import encode_text
from rota.store.listening import RECEIPT_COLUMNS, receipts_found
from rota.store.queries import Column, Kind, Table, selection, stored_text

DEPENDANTS_MAX: Final = 10_000
PATTERNS_AT_ONCE_MAX: Final = 64
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


# For an intent that ended off the chain the leaf is its id. A deployment succeeded if the factory deployed it.
_HAS_SUCCEEDED: Final = f"""
CASE WHEN EXISTS (
    SELECT 1 FROM receipts_undone
    WHERE receipts_undone.intent = receipts.intent AND receipts_undone.contract = receipts.contract) THEN 0
WHEN receipts.type = '{PUBLIC}' THEN public_transactions.has_succeeded
WHEN receipts.leaf <> receipts.intent THEN 1
WHEN receipts.contract <> '{NO_CONTRACT}' THEN 0
WHEN EXISTS (SELECT 1 FROM deployed WHERE deployed.intent = receipts.intent) THEN 1 ELSE 0 END"""

# Only for this node's own transactions: a dishonest node can commit the id of one in another contract.
_SENDER_OF_RECEIPT: Final = f"""
SELECT submissions.sender FROM submissions
WHERE submissions.id = receipts.intent AND (receipts.type = '{PUBLIC}' OR intents.id IS NOT NULL)"""

_ENDED: Final = Table(
    "receipts LEFT JOIN public_transactions "
    f"ON public_transactions.id = receipts.intent AND receipts.type = '{PUBLIC}' "
    "LEFT JOIN intents ON intents.id = receipts.intent AND intents.contract = receipts.contract",
    {
        "id": Column("receipts.intent", Kind.UUID),
        "sequence": Column("receipts.sequence", Kind.NUMBER),
        "indexed": Column("receipts.numbered_at_ms", Kind.TIME),
        "domain": Column("receipts.domain", Kind.TEXT),
        "type": Column("receipts.type", Kind.TEXT),
        "from": Column(f"({_SENDER_OF_RECEIPT})", Kind.TEXT),
        "source": Column("receipts.contract", Kind.TEXT),
        "success": Column(f"({_HAS_SUCCEEDED})", Kind.BOOLEAN),
        "blockNumber": Column("COALESCE(intents.settled_at, public_transactions.height)", Kind.NUMBER),
        "transactionHash": Column("public_transactions.hash", Kind.BYTES),
        "contractAddress": Column("public_transactions.contract", Kind.TEXT),
    },
    "receipts.sequence DESC",
)


class _Earlier(msgspec.Struct, frozen=True, omit_defaults=True):
    """An earlier version of a changed submission: the fields that may change."""

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
    """The fields that are only shown. Numbers are text, as they may be longer than a stored number."""

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
    late: tuple[_Earlier, ...] = ()
    awaits: tuple[AwaitedLeaf, ...] = ()


_decode: Final = msgspec.msgpack.Decoder(_Written).decode


class Submissions:
    """`ports.SubmissionStore` in a database."""

    def __init__(self, door: Door, final_height: Callable[[], Reading[int]], clock: Callable[[], int]) -> None:
        self._door: Final = door
        self._final_height: Final = final_height
        self._clock: Final = clock
        self.accompanied: Final[dict[IntentId, list[Statement]]] = {}

    @contextmanager
    def accompanying(self, submission: StoredSubmission, abi: Sequence[Entry]) -> Iterator[None]:
        """In this context, the write that accepts this intent also stores its submission and the submitted ABI."""
        self.accompanied[submission.id] = noting_submission(submission, abi, self._clock())
        try:
            yield
        finally:
            del self.accompanied[submission.id]

    async def get(self, intent: IntentId) -> StoredSubmission | None:
        """The submission with this id; None if there is none."""
        sql = f"{_SELECT} WHERE submissions.id = ?"
        found = await self._door.read(_submissions(Statement(sql, (intent,))))
        return found[0] if found else None

    async def with_key(self, key: str, parties: PartyNames | None = None) -> IntentId | None:
        """The transaction with this idempotency key, the node's own first; with `parties`, only one of theirs."""
        return await self._door.read(_with_key(key, parties))

    async def using(self, key: SubmissionKey) -> IntentId | None:
        """The transaction that prevents a request from using this key; None if the key is free."""
        return await self._door.read(_using(key))

    async def find(
        self, query: Query, is_open: bool = False, is_prepared: bool = False
    ) -> tuple[StoredSubmission, ...]:
        """The submissions that match; perhaps only unfinished ones, or prepared ones that others are to commit."""
        return await self._door.read(self._find(query, is_open, is_prepared))

    def _find(self, query: Query, is_open: bool, is_prepared: bool) -> Reading[tuple[StoredSubmission, ...]]:
        if not is_open and not is_prepared:
            return (yield from _submissions(selection(_TABLE, _COLUMNS, query)))
        height = yield from self._final_height()
        among = (_PREPARED if is_prepared else _OPEN).format(height=int(height))
        # Few of all submissions are open: the query starts from those.
        table = replace(_TABLE, source=f"({among}) AS few CROSS JOIN submissions")
        return (yield from _submissions(selection(table, _COLUMNS, query, also="submissions.id = few.id")))

    async def find_ended(self, query: Query) -> tuple[NumberedReceipt, ...]:
        """The final receipts that match, also those of other nodes' transactions; the latest first."""
        return await self._door.read(_ended(query))

    async def dependencies(self, intent: IntentId) -> Dependencies:
        """The transactions that it depends on, and those that depend on it."""
        return await self._door.read(_dependencies(intent))


def _with_key(key: str, parties: PartyNames | None) -> Reading[IntentId | None]:
    common = yield from _with_common_key(key)
    if common is not None and (parties is None or parties.has(common.sender)):
        return common.id
    if parties is None:
        found = yield from _submissions(Statement(_WITH_ANY_PARTYS_KEY, (encode_text(key),)))
        return found[0].id if found else (yield from _older_with(key))
    # A credential may have very many parties: each is looked up, several in one statement.
    for at in range(0, len(parties.patterns), PATTERNS_AT_ONCE_MAX):
        ranges = [bounds_of(each, parties.node) for each in parties.patterns[at : at + PATTERNS_AT_ONCE_MAX]]
        values = [(encode_text(key), encode_text(least), encode_text(most)) for least, most in ranges]
        sql = " UNION ALL ".join([_WITH_KEY_BETWEEN] * len(values))
        found = yield from _submissions(Statement(sql, tuple(value for each in values for value in each)))
        if own := next((each.id for each in found if parties.has(each.sender)), None):
            return own
    return None


def _using(key: SubmissionKey) -> Reading[IntentId | None]:
    common = yield from _with_common_key(key.text)
    if common is not None and (not key.is_partys or common.sender == key.sender):
        return common.id
    wanted = (encode_text(key.text), encode_text(key.sender))
    found = yield from _submissions(Statement(_WITH_PARTYS_KEY, wanted))
    if found or not key.common:
        return found[0].id if found else None
    return (yield from _older_with(key.common))


def _older_with(key: str) -> Reading[IntentId | None]:
    rows: Any = yield Statement(_INTENT_WITH_KEY, (encode_text(key),))
    return IntentId(rows[0][0]) if rows else None


def _with_common_key(key: str) -> Reading[StoredSubmission | None]:
    """The submission with this key, if the key belongs to the node."""
    found = yield from _submissions(Statement(_WITH_COMMON_KEY, (encode_text(key),)))
    older = () if found else (yield from _submissions(Statement(_WITH_TEXT_KEY, (stored_text(key),))))
    return next((each for each in (*found, *older) if each.idempotency_key == key), None)


def _ended(query: Query) -> Reading[tuple[NumberedReceipt, ...]]:
    return (yield from receipts_found(selection(_ENDED, RECEIPT_COLUMNS, query)))


def noting_submission(submission: StoredSubmission, abi: Sequence[Entry], now_ms: int) -> list[Statement]:
    """The statements that store a submission, for the same write as its acceptance. Repeating them changes nothing."""
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
        encode_text(submission.idempotency_key) if submission.idempotency_key else None,
        encode_text(submission.key_owner) if submission.key_owner else None,
        msgspec.msgpack.encode(_written(submission)),
        submission.id,
    )
    statements = adding(abi, now_ms) if abi else []
    statements.append(Statement(_ADD, row, submission.id))
    for other in dict.fromkeys(submission.depends_on):
        statements.append(Statement(_DEPEND, (submission.id, other), submission.id))
    return statements


def changing_submission(submission: StoredSubmission, abi: Sequence[Entry], now_ms: int) -> list[Statement]:
    """The statements that change a submission's request; its number and time of acceptance stay."""
    row = (
        submission.to,
        stored_text(submission.function),
        submission.abi or None,
        msgspec.msgpack.encode(_written(submission)),
        submission.id,
    )
    return [*(adding(abi, now_ms) if abi else ()), Statement(_CHANGE, row)]


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
        tuple(_earlier(each) for each in submission.late),
        submission.awaits,
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
        awaits=written.awaits,
    )
    if not written.earlier and not written.late:
        return found
    return replace(
        found,
        earlier=tuple(_at_another_time(found, each) for each in written.earlier),
        late=tuple(_at_another_time(found, each) for each in written.late),
    )


def _at_another_time(submission: StoredSubmission, earlier: _Earlier) -> StoredSubmission:
    """The submission with the request of an earlier version."""
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

_WITH_COMMON_KEY: Final = f"{_SELECT} WHERE exact_key = ? AND key_owner IS NULL"
_WITH_TEXT_KEY: Final = f"{_SELECT} WHERE idempotency_key = ? AND exact_key IS NULL ORDER BY number DESC"
_WITH_PARTYS_KEY: Final = f"{_SELECT} WHERE exact_key = ? AND key_owner = ?"
# Older nodes stored the key with the intent.
_INTENT_WITH_KEY: Final = "SELECT id FROM intents WHERE idempotency_key = ? ORDER BY position DESC LIMIT 1"
_WITH_ANY_PARTYS_KEY: Final = f"{_SELECT} WHERE exact_key = ? AND key_owner IS NOT NULL ORDER BY key_owner LIMIT 1"
# Two rows, as `treasury.` itself is between the bounds of `treasury.*` and none of its parties.
_WITH_KEY_BETWEEN: Final = f"""
SELECT * FROM (
    {_SELECT} WHERE exact_key = ? AND key_owner >= ? AND key_owner <= ? ORDER BY key_owner LIMIT 2) AS found"""

_OPEN: Final = """
SELECT id FROM intents WHERE receipt IS NULL AND settled_at IS NULL
UNION ALL SELECT id FROM intents WHERE receipt IS NULL AND settled_at > {height}
UNION ALL SELECT id FROM public_transactions WHERE is_final = 0"""

_PREPARED: Final = """
SELECT id FROM intents WHERE issued IS NOT NULL AND receipt IS NULL AND voided_at IS NULL AND settled_at IS NULL
UNION ALL SELECT id FROM intents WHERE issued IS NOT NULL AND receipt IS NULL AND settled_at > {height}"""

# A write that was in doubt may have stored the same id; a key that another submission uses is an error.
_ADD: Final = """
INSERT INTO submissions (
    number, id, accepted_at_ms, type, submit_mode, sender, domain, recipient, function, abi, idempotency_key,
    exact_key, key_owner, submission)
SELECT (SELECT COALESCE(MAX(others.number), 0) + 1 FROM submissions AS others), ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?
WHERE NOT EXISTS (SELECT 1 FROM submissions AS own WHERE own.id = ?)"""

_CHANGE: Final = "UPDATE submissions SET recipient = ?, function = ?, abi = ?, submission = ? WHERE id = ?"
_DEPEND: Final = "INSERT INTO dependencies (id, depends_on) VALUES (?, ?) ON CONFLICT (id, depends_on) DO NOTHING"
