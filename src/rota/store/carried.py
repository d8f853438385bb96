"""Transitions that another private contract carries out, at the node that asks it (`ports.CarriedStore`)."""

from __future__ import annotations

from typing import Any, Final

from rota.domains.queries import Query
from rota.machine.effects import TransitionPrepared
from rota.model.types import ContractAddress, IntentId
from rota.ports import Chained, StoredCarried
from rota.store.database import Door, Reading, Statement
from rota.store.encoding import decode_transition_prepared, encode, encode_text
from rota.store.queries import Column, Kind, Table, selection

_CHAINED: Final = Table(
    "(SELECT intent, chained FROM carried_transitions WHERE chained IS NOT NULL) AS chained_transitions",
    {"transactionID": Column("intent", Kind.UUID), "chainedTransactionID": Column("chained", Kind.UUID)},
    "intent DESC, chained",
)


class CarriedTransitions:
    """`ports.CarriedStore` in a database."""

    def __init__(self, door: Door) -> None:
        self._door: Final = door

    async def add(self, contract: ContractAddress, record: TransitionPrepared, key: str) -> None:
        """It is to be carried out, by the transaction that is submitted under this key; the first key stays."""
        prepared = record.prepared
        made = prepared.transition
        values = (contract, made.intent, made.leaf, prepared.digest, encode(record), key)
        await self._door.write([Statement(_ADD, values)])

    async def open(self, limit: int) -> tuple[StoredCarried, ...]:
        """Those that are not settled, in the order of contracts and leaves."""
        return await self._door.read(_open(limit))

    async def note_chained(self, carried: StoredCarried, chained: IntentId) -> None:
        """This transaction is to carry it out."""
        await self._door.write([Statement(_NOTE_CHAINED, (chained, *carried.key))])

    async def note_refused(self, carried: StoredCarried, reason: str) -> None:
        """It is not carried out: its sender is told of the reason until its intent has ended."""
        await self._door.write([Statement(_NOTE_REFUSED, (encode_text(reason), *carried.key))])

    async def settle(self, carried: StoredCarried) -> None:
        """Its intent has ended, or this version of it has expired: there is nothing left to do."""
        await self._door.write([Statement(_SETTLE, (b"", *carried.key))])

    async def find(self, query: Query) -> tuple[Chained, ...]:
        """Which transactions carry out which others, as a query looks for them."""
        return await self._door.read(_chained(selection(_CHAINED, "intent, chained", query)))

    async def with_intent(self, intent: IntentId) -> tuple[Chained, ...]:
        """Those that carry this one out, and those that this one carries out."""
        return await self._door.read(_chained(Statement(_WITH, (intent, intent))))


def _open(limit: int) -> Reading[tuple[StoredCarried, ...]]:
    rows: Any = yield Statement(_OPEN, (limit,))
    return tuple(
        StoredCarried(
            ContractAddress(contract),
            decode_transition_prepared(prepared),
            key,
            IntentId(chained) if chained is not None else None,
            refusal.decode() if refusal is not None else None,
        )
        for contract, prepared, key, chained, refusal in rows
    )


def _chained(query: Statement) -> Reading[tuple[Chained, ...]]:
    rows: Any = yield query
    return tuple(Chained(IntentId(intent), IntentId(chained)) for intent, chained in rows)


_ADD: Final = """
INSERT INTO carried_transitions (contract, intent, leaf, digest, prepared, idempotency_key, is_open)
VALUES (?, ?, ?, ?, ?, ?, 1) ON CONFLICT (contract, leaf, digest) DO NOTHING"""
_OPEN: Final = """
SELECT contract, prepared, idempotency_key, chained, refusal FROM carried_transitions WHERE is_open = 1
ORDER BY contract, leaf LIMIT ?"""
_WITH: Final = """
SELECT intent, chained FROM carried_transitions WHERE chained IS NOT NULL AND (intent = ? OR chained = ?)
ORDER BY intent, chained"""
_THIS: Final = "WHERE contract = ? AND leaf = ? AND digest = ?"
_NOTE_CHAINED: Final = f"UPDATE carried_transitions SET chained = ? {_THIS}"
_NOTE_REFUSED: Final = f"UPDATE carried_transitions SET refusal = ? {_THIS}"
_SETTLE: Final = f"UPDATE carried_transitions SET is_open = 0, prepared = ? {_THIS}"
