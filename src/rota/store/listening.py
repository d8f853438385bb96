"""The order of receipts, and the listeners that follow it, as SQL.

Theory of operation. A receipt is numbered when it is final and complete: when the chain's word on it is as deep as it
must be, or it ended off the chain, and this node holds the states of it that it may see. Syncpoints note what is to
come in `receipts_due` (`transition_due`, `ending_due`): that costs one row beside the states themselves. Somebody
looks from time to time for what is due and numbers it (`Listening.due`, `Listening.number`); a crash in between loses
nothing, since what is not numbered is still due.

This node has receipts of its own users' transactions, and of others' whose states it was sent or that it dispatched.
Older releases noted leaves without what they hold (`is_whole` 0): such a one is complete when states of it come, and at
the latest when the time up to which it could be committed has passed.

What was sent and is not committed while it was valid, and for a while after it came, is forgotten when that time has
passed in a final block. The contents of what this node's own parties signed, and of what only peers sent, are deleted
then too. What this node dispatched, prepared or has seen as an endorser stays. A peer's word on a bound may be too
short: what it sends is kept for twice the longest validity whatever it says.

A receipt changes when the chain's word does: one that was marked (`store.finality`), one that is confirmed again, and
one of an intent that ended off the chain and was committed all the same. It gets a new number in place of the old one,
so that every listener is told, also one that is past the old number.

An id is unique within its contract only. A liar can commit the id of a foreign transaction in a contract of its own, so
receipts are unique by contract and intent: both are numbered, and a reader distinguishes them by their contract.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Protocol

from rota.model.blocks import LedgerOutcome, LedgerStatus
from rota.model.types import NO_CONTRACT, ContractAddress, IntentId, Leaf, NodeName, Receipt, Transition
from rota.ports import BASE_LEDGER, DueReceipt, ListenerPosition, NumberedReceipt, StoredListener, undone_leaf
from rota.store.database import Answer, Reading, Statement, Value, independent
from rota.store.encoding import decode_deployed, decode_intent, decode_outcome
from rota.store.finality import ACKNOWLEDGE, may_return, unacknowledged
from rota.wire.sizes import transition_bytes

FORGOTTEN_AT_ONCE_MAX: Final = 500
# Rows of receipts that are read for the blocks of one answer.
ROWS_WITH_RECEIPTS_MAX: Final = 10_000


# What syncpoints note.


def transition_due(contract: ContractAddress, transition: Transition) -> Statement:
    """This node has this transition: when it is on the chain for good, there will be a receipt of it."""
    return Statement(_DUE, _due_of(contract, transition), transition.leaf)


def sent_due(
    contract: ContractAddress, transition: Transition, least_s: int, peer: NodeName | None, size_bytes: int
) -> Statement:
    """A peer sent it. The bound is its word, and no leaf binds it: it may be committed for so long whatever it says."""
    return Statement(_SENT_DUE, (*_due_of(contract, transition), least_s, peer, size_bytes), transition.leaf)


def permitted_due(
    contract: ContractAddress, permitted: Transition, setting: Transition, least_s: int, peer: NodeName
) -> Iterator[Statement]:
    """The record that a transition sets permits it: it may be committed for as long as that record is on the chain."""
    bound = replace(permitted, valid_until_s=setting.valid_until_s)
    yield sent_due(contract, bound, least_s, peer, transition_bytes(permitted))
    yield Statement(_PERMITTED, (contract, permitted.leaf, setting.leaf, setting.intent), permitted.leaf)


def signed_due(contract: ContractAddress, transition: Transition) -> Statement:
    """A party of this node signed it; it may have signed it before, until another time."""
    return Statement(_SIGNED_DUE, _due_of(contract, transition), transition.leaf)


def transitions_committed(height: int, first_place: int, last_place: int) -> Statement:
    """A block committed these; the receipts of those that are due can be numbered when the block is final."""
    return Statement(_COMMITTED, (height, height, first_place, last_place))


def ending_due(contract: ContractAddress, receipt: Receipt) -> Statement:
    """It ended off the chain."""
    return Statement(_ENDING_DUE, (contract, receipt.intent, receipt.intent), receipt.intent)


def public_due(intent: IntentId) -> Statement:
    """A user's transaction on the base ledger itself has ended; for whoever writes that, in the same write."""
    return Statement(_ENDING_DUE, (BASE_LEDGER, intent, intent), intent)


class DatabaseAccess(Protocol):
    """How a store reads and writes beside its records."""

    async def read(self, reading: Reading[Answer]) -> Answer:
        """The reading's answer. `Unavailable` when the database is away."""
        ...

    async def write(self, statements: Sequence[Statement]) -> None:
        """One transaction, durable on return. `Unavailable` when it could not be written."""
        ...


class Listening:
    """`ports.ListeningStore` in a database. `final_height` and `final_time_s` are readings of the store."""

    def __init__(
        self,
        access: DatabaseAccess,
        final_height: Callable[[], Reading[int]],
        final_time_s: Callable[[int], Reading[int]],
        clock: Callable[[], int],
    ) -> None:
        self._access: Final = access
        self._final_height: Final = final_height
        self._final_time_s: Final = final_time_s
        self._clock: Final = clock
        self._numbering: Final = asyncio.Lock()
        # The latest number, while it is known.
        self._latest: int | None = None

    # Receipts.

    async def due(self, most: int) -> tuple[DueReceipt, ...]:
        """What is final and complete and has no number yet: at most so many, in the chain's order."""
        return await self._access.read(self._due(most))

    def _due(self, most: int) -> Reading[tuple[DueReceipt, ...]]:
        height = yield from self._final_height()
        time_s = yield from self._final_time_s(height)
        rows: Any = yield Statement(_COMMITTED_AND_DUE, (height, height, time_s, most))
        found = [
            DueReceipt(IntentId(intent), contract, Leaf(leaf), is_changed=before is not None)
            for intent, contract, leaf, before in rows
        ]
        room = most - len(found)
        rows = (yield Statement(_ENDED_AND_DUE, (room,))) if room else []
        for intent, contract, leaf, accepted, before in rows:
            deployment = decode_intent(accepted) if contract == NO_CONTRACT and accepted is not None else None
            found.append(DueReceipt(IntentId(intent), contract, Leaf(leaf), deployment, before is not None))
        room = most - len(found)
        rows = (yield Statement(_UNDONE_AND_DUE, (room,))) if room else []
        for intent, contract, accepted in rows:
            deployment = decode_intent(accepted) if contract == NO_CONTRACT and accepted is not None else None
            found.append(DueReceipt(IntentId(intent), contract, undone_leaf(IntentId(intent)), deployment, True))
        return tuple(found)

    async def number(self, receipts: Sequence[tuple[DueReceipt, str]]) -> None:
        """Give these the next numbers, in this order; with each comes its domain. Nothing has two numbers."""
        now_ms = self._clock()
        undone = [receipt for receipt, _ in receipts if receipt.leaf == undone_leaf(receipt.intent)]
        # Only this method gives numbers, one call at a time. The latest is read again after a write that raised.
        async with self._numbering:
            latest = self._latest if self._latest is not None else await self._access.read(_latest_number())
            self._latest = None
            numbered = enumerate(receipts, latest + 1)
            await self._access.write(
                [
                    *(_numbering(number, receipt, domain, now_ms) for number, (receipt, domain) in numbered),
                    *(Statement(_NO_LONGER_DUE, (receipt.contract, receipt.leaf)) for receipt, _ in receipts),
                    *(Statement(_PERMITTED_NO_LONGER, (receipt.contract, receipt.leaf)) for receipt, _ in receipts),
                    *(Statement(_UNDONE_TOLD, (receipt.intent, receipt.contract)) for receipt in undone),
                ]
            )
            self._latest = latest + len(receipts)

    async def forget_expired(self) -> None:
        """What could be committed up to a time that has passed, and was not, will have no receipt."""
        while expired := await self._access.read(self._expired()):
            await self._access.write([statement for each in expired for statement in _forgetting(*each)])

    def _expired(self) -> Reading[list[tuple[str, bytes, bytes, int]]]:
        height = yield from self._final_height()
        time_s = yield from self._final_time_s(height)
        rows: Any = yield Statement(_EXPIRED, (time_s, height, FORGOTTEN_AT_ONCE_MAX))
        return [(contract, leaf, intent, time_s) for contract, leaf, intent in rows]

    async def receipts_after(self, sequence: int, limit: int) -> tuple[NumberedReceipt, ...]:
        """Those with greater numbers, in order."""
        return await self._access.read(receipts_found(Statement(_RECEIPTS_AFTER, (sequence, limit))))

    async def latest_receipts(self, limit: int) -> tuple[NumberedReceipt, ...]:
        """Those with the greatest numbers, in order."""
        return (await self._access.read(receipts_found(Statement(_LATEST_RECEIPTS, (limit,)))))[::-1]

    async def receipt_number(self, contract: ContractAddress, intent: IntentId) -> NumberedReceipt | None:
        """The place in the order of the receipt of an intent of this contract, if it has one."""
        found = await self._access.read(receipts_found(Statement(_RECEIPT, (intent, contract))))
        return found[0] if found else None

    async def receipts_of(self, intent: IntentId) -> tuple[NumberedReceipt, ...]:
        """The receipts under this id in all contracts, in order."""
        return await self._access.read(receipts_found(Statement(_RECEIPTS_OF, (intent,))))

    async def commit_of(self, receipt: NumberedReceipt) -> tuple[int, LedgerOutcome] | None:
        """The block that committed it, and what was told of it there."""
        return await self._access.read(_commit_of(receipt))

    async def with_receipts(self, first: int, last: int, most: int) -> Mapping[int, frozenset[bytes]]:
        """Hashes of base-ledger transactions in these blocks that have a receipt here, by block: the latest so many."""
        return await self._access.read(_with_receipts(first, last, most))

    async def undone_count(self) -> int:
        """How many receipts no longer hold that no operator has acknowledged."""
        return await self._access.read(unacknowledged())

    async def may_return(self, intent: IntentId) -> bool:
        """Of a transaction of this node whose receipt no longer holds: whether the chain may still commit it."""
        return await self._access.read(self._may_return(intent))

    def _may_return(self, intent: IntentId) -> Reading[bool]:
        time_s = yield from self._final_time_s((yield from self._final_height()))
        return (yield from may_return(intent, time_s))

    async def acknowledge_undone(self) -> None:
        """An operator knows of them; they stay marked."""
        await self._access.write([ACKNOWLEDGE])

    # Listeners.

    async def add_listener(self, listener: StoredListener) -> None:
        """Have it from now on. One of its name that is there already stays as it is."""
        await self._access.write([_added(listener)])

    async def listener(self, kind: str, name: str) -> StoredListener | None:
        """The one of this name."""
        found = await self._access.read(_listeners(Statement(f"{_LISTENERS} AND name = ?", (kind, name))))
        return found[0] if found else None

    async def listeners(self, kind: str) -> tuple[StoredListener, ...]:
        """All of a kind, by name."""
        return await self._access.read(_listeners(Statement(f"{_LISTENERS} ORDER BY name", (kind,))))

    async def start_listener(self, kind: str, name: str, is_started: bool) -> None:
        """Whether it is given batches from now on."""
        await self._access.write([Statement(_START_LISTENER, (int(is_started), kind, name))])

    async def note_acknowledged(self, kind: str, name: str, position: ListenerPosition) -> None:
        """All up to there need not be sent again."""
        await self._access.write([Statement(_ACKNOWLEDGED, (*position, kind, name))])

    async def remove_listener(self, kind: str, name: str) -> None:
        """It is no more."""
        await self._access.write([Statement("DELETE FROM listeners WHERE kind = ? AND name = ?", (kind, name))])


def _due_of(contract: ContractAddress, transition: Transition) -> tuple[Value, ...]:
    """Its values, and those by which its commit is looked for."""
    leaf, intent = transition.leaf, transition.intent
    return contract, leaf, intent, intent, contract, leaf, transition.valid_until_s


def _forgetting(contract: str, leaf: bytes, intent: bytes, time_s: int) -> Iterator[Statement]:
    """What this node's own party signed goes with its contents, unless it has signed it once more since.

    So does what a peer sent, unless it was sent again since with a later bound.
    """
    for sql in _FORGET_CONTENTS:
        yield Statement(sql, (contract, leaf, intent, leaf, time_s))
    for sql in _FORGET_SENT:
        yield Statement(sql, (contract, leaf, contract, leaf, time_s))
    yield Statement(_FORGET_SIGNED, (intent, leaf, time_s))
    yield Statement(_FORGET_DUE, (contract, leaf, time_s))
    for sql in _FORGET_SETTERS:
        yield Statement(sql, (contract, leaf))


def _latest_number() -> Reading[int]:
    rows: Any = yield Statement("SELECT COALESCE(MAX(sequence), 0) FROM receipts")
    number: int = rows[0][0]
    return number


def _numbering(number: int, receipt: DueReceipt, domain: str, now_ms: int) -> Statement:
    """It has this number from now on, unless it has one already and has not changed."""
    type_ = "public" if receipt.contract == BASE_LEDGER else "private"
    return Statement(_NUMBER, (number, receipt.intent, receipt.contract, receipt.leaf, type_, domain, now_ms))


def places_of(intents: Sequence[IntentId]) -> Reading[dict[IntentId, NumberedReceipt]]:
    """The places of these intents of this node in the order, each in its own contract; at most one statement's."""
    marks = ", ".join("?" * len(intents))
    found = yield from receipts_found(Statement(f"{_OWN_RECEIPTS} AND receipts.intent IN ({marks})", tuple(intents)))
    return {each.intent: each for each in found}


def receipts_found(query: Statement) -> Reading[tuple[NumberedReceipt, ...]]:
    """The answer to a query of `RECEIPT_COLUMNS`."""
    rows: Any = yield query
    return tuple(
        NumberedReceipt(sequence, IntentId(intent), contract, Leaf(leaf), type_, domain, at_ms)
        for sequence, intent, contract, leaf, type_, domain, at_ms in rows
    )


def _commit_of(receipt: NumberedReceipt) -> Reading[tuple[int, LedgerOutcome] | None]:
    rows: Any = yield Statement(_COMMIT, (receipt.intent, receipt.contract, receipt.leaf))
    return (rows[0][0], decode_outcome(rows[0][1])) if rows else None


def _with_receipts(first: int, last: int, blocks_max: int) -> Reading[Mapping[int, frozenset[bytes]]]:
    heights: set[int] = set()
    for source in (_COMMITS_WITH_RECEIPTS, _ENDED_PUBLIC, _DEPLOYED_WITH_RECEIPTS):
        rows: Any = yield Statement(_HEIGHTS.format(source=source), (first, last, blocks_max))
        heights |= {height for (height,) in rows}
    latest = sorted(heights, reverse=True)[:blocks_max]
    if not latest:
        return {}
    within, found = (latest[-1], last, ROWS_WITH_RECEIPTS_MAX), defaultdict[int, set[bytes]](set)
    rows = yield Statement(_ROWS.format(column="outcomes.outcome", source=_COMMITS_WITH_RECEIPTS), within)
    for height, outcome in rows:
        found[height].add(decode_outcome(outcome).transaction)
    rows = yield Statement(_ROWS.format(column="hash", source=_ENDED_PUBLIC), within)
    for height, transaction_hash in rows:
        found[height].add(transaction_hash)
    rows = yield Statement(_ROWS.format(column="deployment", source=_DEPLOYED_WITH_RECEIPTS), within)
    for height, deployment in rows:
        found[height].add(decode_deployed(deployment).transaction)
    return {height: frozenset(found[height]) for height in latest}


def _listeners(query: Statement) -> Reading[tuple[StoredListener, ...]]:
    rows: Any = yield query
    return tuple(
        StoredListener(kind, name, created_at_ms, bool(is_started), definition, ListenerPosition(block, place))
        for kind, name, created_at_ms, is_started, definition, block, place in rows
    )


def _added(listener: StoredListener) -> Statement:
    return Statement(
        _ADD_LISTENER,
        (
            listener.kind,
            listener.name,
            listener.created_at_ms,
            int(listener.is_started),
            listener.definition,
            *listener.acknowledged,
        ),
    )


# Its states may come when it is on the chain already; otherwise the block that commits it notes its height
# (`transitions_committed`).
_COMMITTED_AT: Final = f"""(
    SELECT MIN(height) FROM outcomes WHERE intent = ? AND contract || '' = ? AND leaf = ?
    AND status = '{LedgerStatus.COMMITTED.value}')"""
COMMITTED_IN_BLOCK: Final = f"height = ? AND place BETWEEN ? AND ? AND status = '{LedgerStatus.COMMITTED.value}'"
_COMMITTED: Final = f"""
UPDATE receipts_due SET committed_at = ?
WHERE (contract, leaf) IN (SELECT contract, leaf FROM outcomes WHERE {COMMITTED_IN_BLOCK})"""
_DUE: Final = independent(
    f"""
INSERT INTO receipts_due (contract, leaf, intent, is_final, is_whole, committed_at, valid_until_s)
VALUES (?, ?, ?, 0, 1, {_COMMITTED_AT}, ?)
ON CONFLICT (contract, leaf) DO UPDATE SET is_whole = 1, peer = NULL""",
    row=(0, 1),
)

_LATER_BOUND: Final = """, valid_until_s = CASE
    WHEN receipts_due.valid_until_s < excluded.valid_until_s THEN excluded.valid_until_s
    ELSE receipts_due.valid_until_s END"""
_SIGNED_DUE: Final = independent(f"{_DUE}{_LATER_BOUND}", row=(0, 1))
_SENT_DUE: Final = independent(
    f"""
INSERT INTO receipts_due (contract, leaf, intent, is_final, is_whole, committed_at, valid_until_s, peer, size_bytes)
VALUES (?, ?, ?, 0, 1, {_COMMITTED_AT}, (
    SELECT MAX(bounds.until_s) FROM (
        SELECT CAST(? AS BIGINT) AS until_s UNION ALL SELECT latest_chain_time_s + CAST(? AS BIGINT) FROM node
    ) AS bounds), ?, ?)
ON CONFLICT (contract, leaf) DO UPDATE SET is_whole = 1, peer = CASE
    WHEN receipts_due.peer IS NOT NULL AND (
        receipts_due.valid_until_s < excluded.valid_until_s OR receipts_due.size_bytes < excluded.size_bytes)
        THEN excluded.peer
    ELSE receipts_due.peer END, size_bytes = CASE
    WHEN receipts_due.size_bytes < excluded.size_bytes THEN excluded.size_bytes
    ELSE receipts_due.size_bytes END{_LATER_BOUND}""",
    row=(0, 1),
)

_ENDING_DUE: Final = """
INSERT INTO receipts_due (contract, leaf, intent, is_final, is_whole, valid_until_s) VALUES (?, ?, ?, 1, 1, 0)
ON CONFLICT (contract, leaf) DO NOTHING"""

# Few that are due are on the chain: these are gone through, whatever order a planner of queries would like better. The
# contract is compared as an expression, so that no database goes through all outcomes of it for each that is due. Of an
# intent of this node only a leaf that its party signed has a receipt, in the intent's own contract (trust rule 1).
_COMMITTED_AND_DUE: Final = f"""
SELECT receipts_due.intent, receipts_due.contract, receipts_due.leaf, receipts.sequence
FROM receipts_due CROSS JOIN outcomes
LEFT JOIN receipts ON receipts.intent = receipts_due.intent AND receipts.contract = receipts_due.contract
WHERE receipts_due.committed_at <= ? AND receipts_due.is_final = 0 AND outcomes.intent = receipts_due.intent
AND outcomes.contract || '' = receipts_due.contract AND outcomes.leaf = receipts_due.leaf
AND outcomes.status = '{LedgerStatus.COMMITTED.value}' AND outcomes.height <= ?
AND (receipts_due.is_whole = 1 OR receipts_due.valid_until_s < ?)
AND NOT EXISTS (
    SELECT 1 FROM intents WHERE intents.id = receipts_due.intent AND (
        intents.contract <> receipts_due.contract OR intents.settled_at IS NULL
        OR intents.settled_at <> outcomes.height))
ORDER BY outcomes.height, outcomes.place LIMIT ?"""

_ENDED_AND_DUE: Final = """
SELECT receipts_due.intent, receipts_due.contract, receipts_due.leaf, intents.intent, receipts.sequence
FROM receipts_due LEFT JOIN intents ON intents.id = receipts_due.intent AND intents.contract = receipts_due.contract
LEFT JOIN receipts ON receipts.intent = receipts_due.intent AND receipts.contract = receipts_due.contract
WHERE receipts_due.is_final = 1 ORDER BY intents.position LIMIT ?"""

_SETTER_COMMITTED: Final = f"""EXISTS (
    SELECT 1 FROM setters CROSS JOIN outcomes
    WHERE setters.contract = receipts_due.contract AND setters.leaf = receipts_due.leaf
    AND outcomes.intent = setters.set_intent AND outcomes.contract || '' = setters.contract
    AND outcomes.leaf = setters.set_leaf
    AND outcomes.status = '{LedgerStatus.COMMITTED.value}')"""
# Versions of one intent may permit the same leaf, and a peer may make some up. The version that the chain has counts.
_PERMITTED: Final = """
INSERT INTO setters (contract, leaf, set_leaf, set_intent) VALUES (?, ?, ?, ?)
ON CONFLICT (contract, leaf, set_leaf) DO NOTHING"""

# What a record permits stays while the record does: until a final block has a transition with the id of both.
_EXPIRED: Final = f"""
SELECT contract, leaf, intent FROM receipts_due
WHERE is_final = 0 AND valid_until_s > 0 AND valid_until_s < ? AND NOT EXISTS (
    SELECT 1 FROM outcomes
    WHERE outcomes.intent = receipts_due.intent AND outcomes.contract = receipts_due.contract
    AND outcomes.leaf = receipts_due.leaf AND outcomes.status = '{LedgerStatus.COMMITTED.value}')
AND (NOT {_SETTER_COMMITTED} OR EXISTS (
    SELECT 1 FROM outcomes
    WHERE outcomes.intent = receipts_due.intent AND outcomes.contract = receipts_due.contract
    AND outcomes.status = '{LedgerStatus.COMMITTED.value}' AND outcomes.height <= ?))
LIMIT ?"""

# Nothing else in the place of a leaf has this length.
_UNDONE_BYTES: Final = len(undone_leaf(IntentId(bytes(16))))
_NUMBER: Final = independent(
    f"""
INSERT INTO receipts (sequence, intent, contract, leaf, type, domain, numbered_at_ms) VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (intent, contract) DO UPDATE SET
    sequence = excluded.sequence, leaf = excluded.leaf, numbered_at_ms = excluded.numbered_at_ms
WHERE receipts.leaf <> excluded.leaf
AND (excluded.leaf <> excluded.intent OR LENGTH(receipts.leaf) = {_UNDONE_BYTES})""",
    row=(1, 2),
)

_UNDONE_AND_DUE: Final = """
SELECT receipts_undone.intent, receipts_undone.contract, intents.intent
FROM receipts_undone
LEFT JOIN intents ON intents.id = receipts_undone.intent AND intents.contract = receipts_undone.contract
WHERE receipts_undone.is_told = 0 ORDER BY receipts_undone.height, receipts_undone.intent LIMIT ?"""
_UNDONE_TOLD: Final = "UPDATE receipts_undone SET is_told = 1 WHERE intent = ? AND contract = ?"

_EXPIRED_AND_SIGNED: Final = """
contract = ? AND leaf = ? AND EXISTS (
    SELECT 1 FROM signed_leaves WHERE signed_leaves.intent = ? AND signed_leaves.leaf = ? AND valid_until_s < ?)"""
_FORGET_CONTENTS: Final = (
    f"DELETE FROM transitions WHERE {_EXPIRED_AND_SIGNED}",
    f"DELETE FROM states WHERE committed_at IS NULL AND spent_at IS NULL AND {_EXPIRED_AND_SIGNED}",
)
_EXPIRED_AND_SENT: Final = """
contract = ? AND leaf = ? AND EXISTS (
    SELECT 1 FROM receipts_due
    WHERE receipts_due.contract = ? AND receipts_due.leaf = ? AND peer IS NOT NULL AND is_final = 0
    AND valid_until_s > 0 AND valid_until_s < ?)"""
_FORGET_SENT: Final = (
    f"DELETE FROM transitions WHERE {_EXPIRED_AND_SENT}",
    f"DELETE FROM states WHERE committed_at IS NULL AND spent_at IS NULL AND {_EXPIRED_AND_SENT}",
)
_FORGET_SIGNED: Final = "DELETE FROM signed_leaves WHERE intent = ? AND leaf = ? AND valid_until_s < ?"
_FORGET_DUE: Final = "DELETE FROM receipts_due WHERE contract = ? AND leaf = ? AND is_final = 0 AND valid_until_s < ?"
_NO_LONGER_DUE: Final = independent("DELETE FROM receipts_due\nWHERE contract = ? AND leaf = ?")
_PERMITTED_NO_LONGER: Final = independent("DELETE FROM setters\nWHERE contract = ? AND leaf = ?")
# When their rows of receipts_due are gone: permitted leaves, and versions that permit them.
_FORGET_SETTERS: Final = tuple(
    f"DELETE FROM setters WHERE contract = ? AND {column} = ? AND NOT EXISTS (SELECT 1 FROM receipts_due "
    f"WHERE receipts_due.contract = setters.contract AND receipts_due.leaf = setters.{column})"
    for column in ("leaf", "set_leaf")
)

RECEIPT_COLUMNS: Final = ", ".join(
    f"receipts.{name}" for name in ("sequence", "intent", "contract", "leaf", "type", "domain", "numbered_at_ms")
)
_RECEIPTS: Final = f"SELECT {RECEIPT_COLUMNS} FROM receipts"
_RECEIPTS_AFTER: Final = f"{_RECEIPTS} WHERE sequence > ? ORDER BY sequence LIMIT ?"
_LATEST_RECEIPTS: Final = f"{_RECEIPTS} ORDER BY sequence DESC LIMIT ?"
_RECEIPT: Final = f"{_RECEIPTS} WHERE intent = ? AND contract = ?"
_RECEIPTS_OF: Final = f"{_RECEIPTS} WHERE intent = ? ORDER BY sequence"
_OWN_RECEIPTS: Final = f"""{_RECEIPTS}
JOIN intents ON intents.id = receipts.intent AND intents.contract = receipts.contract WHERE 1 = 1"""

_COMMITS_WITH_RECEIPTS: Final = f"""outcomes JOIN receipts ON receipts.intent = outcomes.intent
    AND receipts.contract = outcomes.contract AND receipts.leaf = outcomes.leaf
WHERE outcomes.status = '{LedgerStatus.COMMITTED.value}' AND height BETWEEN ? AND ?"""
_ENDED_PUBLIC: Final = "public_transactions WHERE is_final = 1 AND hash IS NOT NULL AND height BETWEEN ? AND ?"
_DEPLOYED_WITH_RECEIPTS: Final = f"""deployed JOIN receipts ON receipts.intent = deployed.intent
    AND receipts.contract = '{NO_CONTRACT}'
WHERE height BETWEEN ? AND ?"""
_HEIGHTS: Final = "SELECT DISTINCT height FROM {source} ORDER BY height DESC LIMIT ?"
_ROWS: Final = "SELECT height, {column} FROM {source} ORDER BY height DESC LIMIT ?"

_COMMIT: Final = f"""
SELECT height, outcome FROM outcomes
WHERE intent = ? AND contract = ? AND leaf = ? AND status = '{LedgerStatus.COMMITTED.value}'"""

_LISTENERS: Final = """
SELECT kind, name, created_at_ms, is_started, definition, acknowledged, acknowledged_place
FROM listeners WHERE kind = ?"""

_ADD_LISTENER: Final = """
INSERT INTO listeners (kind, name, created_at_ms, is_started, definition, acknowledged, acknowledged_place)
VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (kind, name) DO NOTHING"""

_START_LISTENER: Final = "UPDATE listeners SET is_started = ? WHERE kind = ? AND name = ?"
_ACKNOWLEDGED: Final = "UPDATE listeners SET acknowledged = ?, acknowledged_place = ? WHERE kind = ? AND name = ?"
