"""Traces of private transactions: transitions, rounds sent to the ledger, prepared transactions.

`ports.TraceStore`. A transition may be stored several times, as dispatched and as received, with the bytes of other
states each time: the copies are merged.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from rota.chain.effects import RoundDispatch
from rota.domains.queries import Query
from rota.model.blocks import MinedStatus
from rota.model.types import ContractAddress, IntentId, Leaf, State, StateId, Transition
from rota.ports import TWINS_MAX, Dispatched, LatestRound, NumberedDispatch
from rota.store.database import Door, Reading, Statement
from rota.store.encoding import decode_dispatch, decode_prepared, decode_state, decode_transition
from rota.store.queries import Column, Kind, Table, selection

DISPATCHES_MAX: Final = 64

_DISPATCHES: Final = Table(
    "dispatched_intents",
    {
        "transactionID": Column("intent", Kind.UUID),
        # Rounds have the odd numbers among those that clients know public transactions by.
        "publicTransactionID": Column("(2 * number + 1)", Kind.NUMBER),
    },
    "number DESC, intent",
)


class Traces:
    """`ports.TraceStore` in a database."""

    def __init__(self, door: Door) -> None:
        self._door: Final = door

    async def transition(self, contract: ContractAddress, leaf: Leaf) -> Transition | None:
        """The merged copies that this node has of a transition: dispatched, received, or prepared for its user."""
        return await self._door.read(_transition(contract, leaf))

    async def twins(self, contract: ContractAddress, leaf: Leaf) -> Mapping[StateId, tuple[State, ...]]:
        """For each state of a committed transition, the states known and on the chain before it that the nullifier of
        this state spends as well; at most `TWINS_MAX` of them.
        """
        return await self._door.read(_twins(contract, leaf))

    async def dispatches(self, intent: IntentId) -> tuple[NumberedDispatch, ...]:
        """The rounds of this node with a transition of this intent."""
        return await self._door.read(_dispatches(intent))

    async def dispatch(self, number: int) -> RoundDispatch | None:
        """The round that this node sent under this number; None if there is none."""
        return await self._door.read(_dispatch(number))

    async def mined(self, dispatch: RoundDispatch) -> tuple[bool, int | None] | None:
        """Whether a transaction of this node succeeded, and the time of its block while the node keeps that block.

        None while no block has the transaction.
        """
        return await self._door.read(_mined(dispatch))

    async def find_dispatched(self, query: Query) -> tuple[Dispatched, ...]:
        """The intents that match, each with the number of its round on the ledger."""
        return await self._door.read(_dispatched(selection(_DISPATCHES, "number, intent", query)))

    async def waiting_dispatch(self, transaction_hash: bytes) -> RoundDispatch | None:
        """The round that this node sent under this hash, while no block has it; None otherwise."""
        return await self._door.read(_waiting_dispatch(transaction_hash))

    async def latest_rounds(self, limit: int) -> tuple[LatestRound, ...]:
        """The latest rounds of this node, the oldest of them first."""
        return await self._door.read(_latest_rounds(limit))


def _twins(contract: ContractAddress, leaf: Leaf) -> Reading[dict[StateId, tuple[State, ...]]]:
    outputs: Any = yield Statement(_NULLIFIED_OUTPUTS, (contract, leaf))
    twins: dict[StateId, tuple[State, ...]] = {}
    for (output,) in outputs:
        rows: Any = yield Statement(_TWINS, (contract, leaf, output, TWINS_MAX))
        if rows:
            twins[StateId(leaf, output)] = tuple(decode_state(state) for (state,) in rows)
    return twins


def _transition(contract: ContractAddress, leaf: Leaf) -> Reading[Transition | None]:
    sql = "SELECT transition FROM transitions WHERE contract = ? AND leaf = ? ORDER BY is_own DESC, position"
    rows: Any = yield Statement(sql, (contract, leaf))
    found = [decode_transition(transition) for (transition,) in rows]
    sql = "SELECT issued FROM intents WHERE contract = ? AND issued IS NOT NULL AND id IN ("
    sql += "SELECT intent FROM outcomes WHERE contract = ? AND leaf = ?)"
    issued: Any = yield Statement(sql, (contract, contract, leaf))
    prepared = [decode_prepared(each).transition for (each,) in issued]
    found += [each for each in prepared if each.leaf == leaf]
    if not found:
        return None
    first, *others = found
    for other in others:
        outputs = tuple(
            mine if mine.content is not None or theirs.content is None else theirs
            for mine, theirs in zip(first.outputs, other.outputs, strict=True)
        )
        first = replace(first, outputs=outputs)
    if all(state.content is not None for state in first.outputs):
        return first
    # Only some of the copies that peers send are kept, but all states.
    sql = "SELECT state FROM states WHERE state IS NOT NULL AND contract = ? AND leaf = ?"
    rows = yield Statement(sql, (contract, leaf))
    held = {state.id: state for state in (decode_state(each) for (each,) in rows)}
    outputs = tuple(mine if mine.content is not None else held.get(mine.id, mine) for mine in first.outputs)
    return replace(first, outputs=outputs)


def _dispatches(intent: IntentId) -> Reading[tuple[NumberedDispatch, ...]]:
    rows: Any = yield Statement(_DISPATCHES_OF, (intent, DISPATCHES_MAX))
    return tuple(NumberedDispatch(number, decode_dispatch(dispatch)) for number, dispatch in rows)


def _dispatch(number: int) -> Reading[RoundDispatch | None]:
    rows: Any = yield Statement("SELECT dispatch FROM dispatches WHERE number = ?", (number,))
    return decode_dispatch(rows[0][0]) if rows else None


def _waiting_dispatch(transaction_hash: bytes) -> Reading[RoundDispatch | None]:
    rows: Any = yield Statement(_WAITING_DISPATCHES, (DISPATCHES_MAX,))
    found = (decode_dispatch(dispatch) for (dispatch,) in rows)
    return next((each for each in found if each.hash == transaction_hash), None)


def _mined(dispatch: RoundDispatch) -> Reading[tuple[bool, int | None] | None]:
    sql = "SELECT status, time_s FROM mined LEFT JOIN blocks ON blocks.height = mined.height"
    rows: Any = yield Statement(f"{sql} WHERE account = ? AND nonce = ?", dispatch.slot)
    return (rows[0][0] == MinedStatus.SUCCEEDED.value, rows[0][1]) if rows else None


def _dispatched(query: Statement) -> Reading[tuple[Dispatched, ...]]:
    rows: Any = yield query
    return tuple(Dispatched(number, IntentId(intent)) for number, intent in rows)


def _latest_rounds(limit: int) -> Reading[tuple[LatestRound, ...]]:
    rows: Any = yield Statement(_LATEST_ROUNDS, (limit,))
    return tuple(
        LatestRound(
            nonce, contract, digest, count, MinedStatus(status) if status is not None else None, height, time_s, account
        )
        for nonce, contract, digest, count, status, height, time_s, account in reversed(rows)
    )


# A round is counted and not read: it holds the private states of all its transitions.
_LATEST_ROUNDS: Final = """
SELECT dispatches.nonce, contract, digest,
    (SELECT COUNT(*) FROM dispatched_intents WHERE dispatched_intents.number = dispatches.number),
    mined.status, mined.height, blocks.time_s, dispatches.account
FROM dispatches LEFT JOIN mined ON mined.account = dispatches.account AND mined.nonce = dispatches.nonce
LEFT JOIN blocks ON blocks.height = mined.height
ORDER BY dispatches.number DESC LIMIT ?"""

_DISPATCHES_OF: Final = """
SELECT number, dispatch FROM dispatches
WHERE number IN (SELECT number FROM dispatched_intents WHERE intent = ?) ORDER BY number LIMIT ?"""

_WAITING_DISPATCHES: Final = """
SELECT dispatch FROM dispatches
WHERE settled_at IS NULL AND NOT EXISTS (
    SELECT 1 FROM mined WHERE mined.account = dispatches.account AND mined.nonce = dispatches.nonce)
ORDER BY number LIMIT ?"""

_NULLIFIED_OUTPUTS: Final = """
SELECT output FROM states WHERE contract = ? AND leaf = ? AND nullifier IS NOT NULL AND committed_at IS NOT NULL"""
_TWINS: Final = """
SELECT twin.state FROM states
JOIN states AS twin ON twin.contract = states.contract AND twin.nullifier = states.nullifier
WHERE states.contract = ? AND states.leaf = ? AND states.output = ?
    AND twin.state IS NOT NULL AND twin.committed_at IS NOT NULL
    AND (twin.known_at, twin.committed_at, twin.place, twin.output)
        < (states.known_at, states.committed_at, states.place, states.output)
ORDER BY twin.known_at, twin.committed_at, twin.place, twin.output LIMIT ?"""
