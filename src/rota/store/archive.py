"""The private states that this node has, as users query them (`ports.Archive`).

The contents of a state are in its bytes, which only its domain can read. So states are read contract by contract, a
page at a time, and the caller selects from them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from rota.calldata import nullifier_reference
from rota.model.blocks import LedgerStatus
from rota.model.types import ContractAddress, IntentId, Leaf, State, StateId
from rota.ports import ArchivedState, ArchivePage, StateStatus
from rota.store.database import Read, Reading, Statement, Value, Write
from rota.store.encoding import decode_outcome, decode_permission, decode_prepared, decode_state, encode

PARAMETERS_MAX: Final = 500


class Archive:
    """`ports.Archive` on a database."""

    def __init__(self, read: Read, write: Write) -> None:
        self._read: Final = read
        self._write: Final = write

    async def page(
        self, contract: ContractAddress, status: StateStatus, after: StateId | None, limit: int
    ) -> ArchivePage:
        """The next states of a contract, in the order of their ids."""
        return await self._read(_page(contract, status, after, limit))

    async def made_by(self, intent: IntentId) -> tuple[Leaf, ...]:
        """The leaves that this node knows of a transaction."""
        return await self._read(_made_by(intent))

    async def with_leaves(self, contract: ContractAddress, leaves: Sequence[Leaf]) -> tuple[ArchivedState, ...]:
        """The states of these leaves that this node has."""
        return await self._read(_with_leaves(contract, leaves)) if leaves else ()

    async def by_hand(self, contract: ContractAddress) -> tuple[ArchivedState, ...]:
        """The states that users stored at this node."""
        return await self._read(_by_hand(contract))

    async def store_by_hand(self, contract: ContractAddress, state: State, now_ms: int) -> None:
        """Store a state that no contract made."""
        await self._write(Statement(_STORE_BY_HAND, (contract, state.id.leaf, now_ms, encode(state))))

    async def schemas_seen(self, schemas: Sequence[bytes], now_ms: int) -> Mapping[bytes, int]:
        """When each schema was first seen; for new ones this is `now_ms`, and is stored."""
        known = await self._read(_schemas())
        missing = [schema for schema in schemas if schema not in known]
        if missing:
            await self._write(*(Statement(_ADD_SCHEMA, (schema, now_ms)) for schema in missing))
        return {schema: known.get(schema, now_ms) for schema in schemas}


def _page(contract: ContractAddress, status: StateStatus, after: StateId | None, limit: int) -> Reading[ArchivePage]:
    behind = ""
    parameters: tuple[Value, ...] = ()
    if after is not None:
        behind, parameters = "AND (leaf > ? OR (leaf = ? AND output > ?))", (after.leaf, after.leaf, after.output)
    sql = f"{_STATES} AND {_CONDITIONS[status]} {behind} ORDER BY leaf, output LIMIT ?"
    found = yield from _archived(contract, Statement(sql, (contract, *parameters, limit)))
    return ArchivePage(found, found[-1].state.id if len(found) == limit else None)


def _with_leaves(contract: ContractAddress, leaves: Sequence[Leaf]) -> Reading[tuple[ArchivedState, ...]]:
    marks = ", ".join("?" * len(leaves))
    return (yield from _archived(contract, Statement(f"{_STATES} AND leaf IN ({marks})", (contract, *leaves))))


def _archived(contract: ContractAddress, query: Statement) -> Reading[tuple[ArchivedState, ...]]:
    rows: Any = yield query
    spent_at = {spent for *_, spent, _ in rows if spent is not None}
    spenders = yield from _spenders(contract, tuple(sorted(spent_at)))
    found: list[ArchivedState] = []
    for encoded, created_at_ms, made_by, committed_at, spent, nullifier in rows:
        state = decode_state(encoded)
        reference = state.id if nullifier is None else nullifier_reference(nullifier)
        found.append(
            ArchivedState(
                state,
                created_at_ms,
                committed_at is not None,
                IntentId(made_by) if committed_at is not None and made_by is not None else None,
                spent is not None,
                spenders.get(reference),
                nullifier,
            )
        )
    return tuple(found)


def _spenders(contract: ContractAddress, heights: Sequence[int]) -> Reading[dict[StateId, IntentId]]:
    """The transaction that spent each state that was spent in these blocks."""
    spenders: dict[StateId, IntentId] = {}
    for start in range(0, len(heights), PARAMETERS_MAX):
        some: tuple[Value, ...] = tuple(heights[start : start + PARAMETERS_MAX])
        marks = ", ".join("?" * len(some))
        rows: Any = yield Statement(f"{_OUTCOMES} AND height IN ({marks})", (contract, *some))
        for (encoded,) in rows:
            outcome = decode_outcome(encoded)
            spenders.update(dict.fromkeys(outcome.inputs, outcome.intent))
    return spenders


def _made_by(intent: IntentId) -> Reading[tuple[Leaf, ...]]:
    """The leaves on the chain, and those that this node has permitted or returned to its user."""
    rows: Any = yield Statement(_LEAVES, (intent,))
    leaves = [Leaf(leaf) for (leaf,) in rows]
    rows = yield Statement("SELECT permission, issued FROM intents WHERE id = ?", (intent,))
    for permission, issued in rows:
        if permission is not None:
            leaves.append(decode_permission(permission).leaf)
        if issued is not None:
            leaves.append(decode_prepared(issued).transition.leaf)
    return tuple(dict.fromkeys(leaves))


def _by_hand(contract: ContractAddress) -> Reading[tuple[ArchivedState, ...]]:
    rows: Any = yield Statement(_BY_HAND, (contract,))
    return tuple(
        ArchivedState(decode_state(state), created_at_ms, False, None, False, None) for state, created_at_ms in rows
    )


def _schemas() -> Reading[dict[bytes, int]]:
    rows: Any = yield Statement("SELECT id, created_at_ms FROM schemas")
    return {bytes(schema): created_at_ms for schema, created_at_ms in rows}


_COMMITTED: Final = f"'{LedgerStatus.COMMITTED.value}'"

# A committed state has its height and place, and so the outcome that made it.
_STATES: Final = """
SELECT state, created_at_ms, (
    SELECT intent FROM outcomes WHERE outcomes.height = states.committed_at AND outcomes.place = states.place),
    committed_at, spent_at, nullifier
FROM states WHERE state IS NOT NULL AND contract = ?"""

# A state of an abandoned assembly: its intent has ended, or the chain has another version of it.
_GIVEN_UP: Final = f"""committed_at IS NULL AND EXISTS (
    SELECT 1 FROM receipts_due WHERE receipts_due.contract = states.contract AND receipts_due.leaf = states.leaf AND (
        EXISTS (SELECT 1 FROM intents WHERE intents.id = receipts_due.intent AND intents.receipt IS NOT NULL)
        OR EXISTS (
            SELECT 1 FROM outcomes WHERE outcomes.intent = receipts_due.intent AND outcomes.status = {_COMMITTED}
            AND outcomes.leaf <> states.leaf)))"""

_CONDITIONS: Final = {
    StateStatus.AVAILABLE: "committed_at IS NOT NULL AND spent_at IS NULL",
    StateStatus.CONFIRMED: "committed_at IS NOT NULL AND spent_at IS NULL",
    StateStatus.UNCONFIRMED: f"committed_at IS NULL AND spent_at IS NULL AND NOT ({_GIVEN_UP})",
    StateStatus.SPENT: "spent_at IS NOT NULL",
    StateStatus.ALL: f"NOT ({_GIVEN_UP})",
}

_OUTCOMES: Final = f"SELECT outcome FROM outcomes WHERE contract = ? AND status = {_COMMITTED}"
_LEAVES: Final = f"SELECT leaf FROM outcomes WHERE intent = ? AND status = {_COMMITTED} ORDER BY height, place"
_BY_HAND: Final = "SELECT state, created_at_ms FROM stored_states WHERE contract = ? ORDER BY leaf"

_STORE_BY_HAND: Final = """
INSERT INTO stored_states (contract, leaf, created_at_ms, state) VALUES (?, ?, ?, ?)
ON CONFLICT (contract, leaf) DO NOTHING"""

_ADD_SCHEMA: Final = "INSERT INTO schemas (id, created_at_ms) VALUES (?, ?) ON CONFLICT (id) DO NOTHING"
