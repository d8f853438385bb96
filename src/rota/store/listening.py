"""The order of receipts, and the listeners that follow it, as SQL.

Theory of operation. A receipt is numbered when it is final and complete: when its outcome on the chain has enough
confirmations, or it ended off the chain, and this node holds those of its states that it may see. Syncpoints note
receipts to come in `receipts_due` (`transition_due`, `ending_due`), which costs one row beside the states themselves. A
periodic task reads the due receipts and numbers them (`Listening.due`, `Listening.number`); a crash in between loses
nothing, since a receipt without a number is still due.

This node has receipts of its own users' transactions, and of others' whose states it was sent or that it dispatched.
Older releases noted leaves without their contents (`is_whole` 0): such a leaf is complete when states of it arrive,
and at the latest when the time up to which it could be committed has passed.

A transition that was sent and not committed by its time bound, or by a minimal time after it arrived, is forgotten once
that time has passed in a final block. The contents that this node's own parties signed, and those that only peers sent,
are deleted then too. Transitions that this node dispatched, prepared or saw as an endorser stay. The bound that a peer
sends may be too short: its transitions are kept for twice the longest validity, whatever the bound.

A receipt changes when its outcome on the chain does: one that was marked (`store.finality`), one that is confirmed
again, and one of an intent that ended off the chain and was committed all the same. It gets a new number in place of
the old one, so that every listener receives it again, also one that is past the old number.

An id is unique within its contract only. A dishonest node can commit the id of a foreign transaction in a contract of
its own, so receipts are unique by contract and intent: both are numbered, and readers distinguish them by contract.
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


# Written by syncpoints.


def transition_due(contract: ContractAddress, transition: Transition) -> Statement:
    """Note that this node has this transition: its receipt is due when its commit is final."""
    return Statement(_DUE, _due_of(contract, transition), transition.leaf)


def sent_due(
    contract: ContractAddress, transition: Transition, least_s: int, peer: NodeName | None, size_bytes: int
) -> Statement:
    """Note a transition that a peer sent. No leaf binds its bound: it may be committed for `least_s` whatever it is."""
    return Statement(_SENT_DUE, (*_due_of(contract, transition), least_s, peer, size_bytes), transition.leaf)


def permitted_due(
    contract: ContractAddress, permitted: Transition, setting: Transition, least_s: int, peer: NodeName
) -> Iterator[Statement]:
    """Note a transition that a set record permits: it may be committed for as long as that record is on the chain."""
    bound = replace(permitted, valid_until_s=setting.valid_until_s)
    yield sent_due(contract, bound, least_s, peer, transition_bytes(permitted))
    yield Statement(_PERMITTED, (contract, permitted.leaf, setting.leaf, setting.intent), permitted.leaf)


def signed_due(contract: ContractAddress, transition: Transition) -> Statement:
    """Note a transition that a party of this node signed, perhaps again and with another bound."""
    return Statement(_SIGNED_DUE, _due_of(contract, transition), transition.leaf)


def transitions_committed(height: int, first_place: int, last_place: int) -> Statement:
    """Note the commits of a block; receipts of due ones can be numbered when the block is final."""
    return Statement(_COMMITTED, (height, height, first_place, last_place))


def ending_due(contract: ContractAddress, receipt: Receipt) -> Statement:
    """Note that an intent ended off the chain: its receipt is due."""
    return Statement(_ENDING_DUE, (contract, receipt.intent, receipt.intent), receipt.intent)


def public_due(intent: IntentId) -> Statement:
    """Note that a user's transaction on the base ledger ended; goes into the same write as that ending."""
    return Statement(_ENDING_DUE, (BASE_LEDGER, intent, intent), intent)


class DatabaseAccess(Protocol):
    """Reads and writes the database beside a store's records."""

    async def read(self, reading: Reading[Answer]) -> Answer:
        """The reading's answer. `Unavailable` when the database does not respond."""
        ...

    async def write(self, statements: Sequence[Statement]) -> None:
        """Write one transaction, durable on return. `Unavailable` when it could not be written."""
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
        # The latest number; None while it is not known.
        self._latest: int | None = None

    # Receipts.

    async def due(self, most: int) -> tuple[DueReceipt, ...]:
        """At most `most` receipts that are final and complete and have no number yet, in the chain's order."""
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
        """Give these receipts, each with its domain, the next numbers in this order. None gets two numbers."""
        now_ms = self._clock()
        undone = [receipt for receipt, _ in receipts if receipt.leaf == undone_leaf(receipt.intent)]
        # Only this method assigns numbers, one call at a time. The latest is read again after a write that raised.
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
        """Delete due receipts whose time bound has passed without a commit: they can have no receipt any more."""
        while expired := await self._access.read(self._expired()):
            await self._access.write([statement for each in expired for statement in _forgetting(*each)])

    def _expired(self) -> Reading[list[tuple[str, bytes, bytes, int]]]:
        height = yield from self._final_height()
        time_s = yield from self._final_time_s(height)
        rows: Any = yield Statement(_EXPIRED, (time_s, height, FORGOTTEN_AT_ONCE_MAX))
        return [(contract, leaf, intent, time_s) for contract, leaf, intent in rows]

    async def receipts_after(self, sequence: int, limit: int) -> tuple[NumberedReceipt, ...]:
        """The receipts with greater numbers, in order."""
        return await self._access.read(receipts_found(Statement(_RECEIPTS_AFTER, (sequence, limit))))

    async def latest_receipts(self, limit: int) -> tuple[NumberedReceipt, ...]:
        """The receipts with the greatest numbers, in order."""
        return (await self._access.read(receipts_found(Statement(_LATEST_RECEIPTS, (limit,)))))[::-1]

    async def receipt_number(self, contract: ContractAddress, intent: IntentId) -> NumberedReceipt | None:
        """The numbered receipt of an intent of this contract; None if it has none."""
        found = await self._access.read(receipts_found(Statement(_RECEIPT, (intent, contract))))
        return found[0] if found else None

    async def receipts_of(self, intent: IntentId) -> tuple[NumberedReceipt, ...]:
        """The receipts under this id in all contracts, in order."""
        return await self._access.read(receipts_found(Statement(_RECEIPTS_OF, (intent,))))

    async def commit_of(self, receipt: NumberedReceipt) -> tuple[int, LedgerOutcome] | None:
        """The height and outcome of the receipt's commit; None if the chain has none."""
        return await self._access.read(_commit_of(receipt))

    async def with_receipts(self, first: int, last: int, most: int) -> Mapping[int, frozenset[bytes]]:
        """Hashes of base-ledger transactions with a receipt here, by block, for the latest `most` of these blocks."""
        return await self._access.read(_with_receipts(first, last, most))

    async def undone_count(self) -> int:
        """How many receipts no longer hold and have not been acknowledged by an operator."""
        return await self._access.read(unacknowledged())

    async def may_return(self, intent: IntentId) -> bool:
        """Whether the chain may still commit a transaction of this node whose receipt no longer holds."""
        return await self._access.read(self._may_return(intent))

    def _may_return(self, intent: IntentId) -> Reading[bool]:
        time_s = yield from self._final_time_s((yield from self._final_height()))
        return (yield from may_return(intent, time_s))

    async def acknowledge_undone(self) -> None:
        """Acknowledge, for an operator, all receipts that no longer hold; they stay marked."""
        await self._access.write([ACKNOWLEDGE])

    # Listeners.

    async def add_listener(self, listener: StoredListener) -> None:
        """Add a listener; an existing one of the same name stays as it is."""
        await self._access.write([_added(listener)])

    async def listener(self, kind: str, name: str) -> StoredListener | None:
        """The listener of this kind and name; None if there is none."""
        found = await self._access.read(_listeners(Statement(f"{_LISTENERS} AND name = ?", (kind, name))))
        return found[0] if found else None

    async def listeners(self, kind: str) -> tuple[StoredListener, ...]:
        """All listeners of a kind, by name."""
        return await self._access.read(_listeners(Statement(f"{_LISTENERS} ORDER BY name", (kind,))))

    async def start_listener(self, kind: str, name: str, is_started: bool) -> None:
        """Start or stop delivering batches to a listener."""
        await self._access.write([Statement(_START_LISTENER, (int(is_started), kind, name))])

    async def note_acknowledged(self, kind: str, name: str, position: ListenerPosition) -> None:
        """Note that a listener acknowledged everything up to this position."""
        await self._access.write([Statement(_ACKNOWLEDGED, (*position, kind, name))])

    async def remove_listener(self, kind: str, name: str) -> None:
        """Remove a listener."""
        await self._access.write([Statement("DELETE FROM listeners WHERE kind = ? AND name = ?", (kind, name))])


def _due_of(contract: ContractAddress, transition: Transition) -> tuple[Value, ...]:
    """The values of a due receipt, and those by which its commit is found."""
    leaf, intent = transition.leaf, transition.intent
    return contract, leaf, intent, intent, contract, leaf, transition.valid_until_s


def _forgetting(contract: str, leaf: bytes, intent: bytes, time_s: int) -> Iterator[Statement]:
    """Delete contents that this node's own party signed, unless it signed them again since with a later bound.

    The same goes for contents from a peer, unless it sent them again since with a later bound.
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
    """Give a receipt this number, unless it has one already and has not changed."""
    type_ = "public" if receipt.contract == BASE_LEDGER else "private"
    return Statement(_NUMBER, (number, receipt.intent, receipt.contract, receipt.leaf, type_, domain, now_ms))


def places_of(intents: Sequence[IntentId]) -> Reading[dict[IntentId, NumberedReceipt]]:
    """The numbered receipts of these intents of this node, each in its own contract; one statement's worth at most."""
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


# The states may arrive after the commit; otherwise the block that commits the leaf notes its height
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

# Few due receipts are on the chain: the query starts from them, whatever order a query planner prefers. The contract is
# compared as an expression, so that no database scans all outcomes of it for each due receipt. An intent of this node
# has a receipt only by a leaf that its party signed, in the intent's own contract (trust rule 1).
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
# Versions of one intent may permit the same leaf, and a peer may make some up. The version on the chain counts.
_PERMITTED: Final = """
INSERT INTO setters (contract, leaf, set_leaf, set_intent) VALUES (?, ?, ?, ?)
ON CONFLICT (contract, leaf, set_leaf) DO NOTHING"""

# A permitted leaf stays while the record that permits it does: until a final block has a transition with both ids.
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

# No other value in the place of a leaf has this length.
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
# For permitted leaves, and versions that permit them, whose rows of receipts_due are deleted.
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
