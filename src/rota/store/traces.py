"""What the sequencer left of private transactions: transitions, rounds that went to the ledger, what was prepared.

`ports.TraceStore`. A transition may be here several times, as dispatched and as received, with the bytes of other
states each time: they are put together.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from rota.core.effects import RoundDispatch
from rota.core.events.chain import MinedStatus
from rota.domains.queries import Query
from rota.ports import Chained, Dispatched, LatestRound
from rota.store.database import Door, Reading, Statement
from rota.store.encoding import decode_dispatch, decode_prepared, decode_transition
from rota.store.queries import Column, Kind, Table, selection
from rota.types import ContractAddress, IntentId, Leaf, Transition

DISPATCHES_MAX: Final = 64

_DISPATCHES: Final = Table(
    "dispatched_intents",
    {
        "transactionID": Column("intent", Kind.UUID),
        # Rounds have the odd numbers among those that clients know public transactions by.
        "publicTransactionID": Column("(2 * nonce + 1)", Kind.NUMBER),
    },
    "nonce DESC, intent",
)
_CHAINED: Final = Table(
    "chained_intents",
    {"transactionID": Column("intent", Kind.UUID), "chainedTransactionID": Column("chained", Kind.UUID)},
    "nonce DESC, intent, chained",
)


class Traces:
    """`ports.TraceStore` in a database."""

    def __init__(self, door: Door) -> None:
        self._door: Final = door

    async def transition(self, contract: ContractAddress, leaf: Leaf) -> Transition | None:
        """What this node has of a transition: dispatched, received, or prepared for its user."""
        return await self._door.read(_transition(contract, leaf))

    async def dispatches(self, intent: IntentId) -> tuple[RoundDispatch, ...]:
        """The rounds of this node with a transition of this intent."""
        return await self._door.read(_dispatches(intent))

    async def dispatch(self, nonce: int) -> RoundDispatch | None:
        """The round that this node sent with this nonce."""
        return await self._door.read(_dispatch(nonce))

    async def mined(self, nonce: int) -> tuple[bool, int | None] | None:
        """Whether this node's transaction with this nonce succeeded; nothing while no block has it.

        With it comes the time of that block, as long as the node keeps it.
        """
        return await self._door.read(_mined(nonce))

    async def find_dispatched(self, query: Query) -> tuple[Dispatched, ...]:
        """Which intents went to the ledger with which nonces, as a query looks for them."""
        return await self._door.read(_dispatched(selection(_DISPATCHES, "nonce, intent", query)))

    async def find_chained(self, query: Query) -> tuple[Chained, ...]:
        """Which intents were built on which others in one round, as a query looks for them."""
        return await self._door.read(_chained(selection(_CHAINED, "nonce, intent, chained", query)))

    async def latest_rounds(self, limit: int) -> tuple[LatestRound, ...]:
        """The rounds that this node sent last, the oldest of them first."""
        return await self._door.read(_latest_rounds(limit))


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
    return first


def _dispatches(intent: IntentId) -> Reading[tuple[RoundDispatch, ...]]:
    rows: Any = yield Statement(_DISPATCHES_OF, (intent, DISPATCHES_MAX))
    return tuple(decode_dispatch(dispatch) for (dispatch,) in rows)


def _dispatch(nonce: int) -> Reading[RoundDispatch | None]:
    rows: Any = yield Statement("SELECT dispatch FROM dispatches WHERE nonce = ?", (nonce,))
    return decode_dispatch(rows[0][0]) if rows else None


def _mined(nonce: int) -> Reading[tuple[bool, int | None] | None]:
    sql = "SELECT status, time_s FROM mined LEFT JOIN blocks ON blocks.height = mined.height WHERE nonce = ?"
    rows: Any = yield Statement(sql, (nonce,))
    return (rows[0][0] == MinedStatus.SUCCEEDED.value, rows[0][1]) if rows else None


def _dispatched(query: Statement) -> Reading[tuple[Dispatched, ...]]:
    rows: Any = yield query
    return tuple(Dispatched(nonce, IntentId(intent)) for nonce, intent in rows)


def _chained(query: Statement) -> Reading[tuple[Chained, ...]]:
    rows: Any = yield query
    return tuple(Chained(nonce, IntentId(intent), IntentId(chained)) for nonce, intent, chained in rows)


def _latest_rounds(limit: int) -> Reading[tuple[LatestRound, ...]]:
    rows: Any = yield Statement(_LATEST_ROUNDS, (limit,))
    return tuple(
        LatestRound(nonce, contract, digest, count, MinedStatus(status) if status is not None else None, height, time_s)
        for nonce, contract, digest, count, status, height, time_s in reversed(rows)
    )


# A round is counted and not read: it holds the private states of all that is in it.
_LATEST_ROUNDS: Final = """
SELECT dispatches.nonce, contract, digest,
    (SELECT COUNT(*) FROM dispatched_intents WHERE dispatched_intents.nonce = dispatches.nonce),
    mined.status, mined.height, blocks.time_s
FROM dispatches LEFT JOIN mined ON mined.nonce = dispatches.nonce LEFT JOIN blocks ON blocks.height = mined.height
ORDER BY dispatches.nonce DESC LIMIT ?"""

_DISPATCHES_OF: Final = """
SELECT dispatch FROM dispatches WHERE nonce IN (SELECT nonce FROM dispatched_intents WHERE intent = ?)
ORDER BY nonce LIMIT ?"""
