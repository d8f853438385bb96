"""Transitions that another private contract carries out, at the node that asks it (`ports.CarriedStore`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from rota.domains.queries import Query
from rota.machine.effects import TransitionPrepared
from rota.model.blocks import LedgerStatus
from rota.model.types import ContractAddress, IntentId, Leaf
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

    def __init__(self, door: Door, clock: Callable[[], int]) -> None:
        self._door: Final = door
        self._clock: Final = clock

    async def add(self, contract: ContractAddress, record: TransitionPrepared, key: str) -> None:
        """It is to be carried out, by the transaction that is submitted under this key; the first key stays."""
        prepared = record.prepared
        made = prepared.transition
        place = (key, record.sender, self._clock())
        values = (contract, made.intent, made.leaf, prepared.digest, encode(record), *place)
        await self._door.write([Statement(_ADD, values)])

    async def open(self, of_one: int, limit: int) -> tuple[StoredCarried, ...]:
        """Those that are not settled, of each sender's node at most so many in a contract.

        Senders and contracts take turns; of one sender the earliest come first.
        """
        return await self._door.read(_open(of_one, limit))

    async def is_on_chain(self, contract: ContractAddress, intent: IntentId, leaf: Leaf) -> bool:
        """Whether a block, final or not, has this leaf of an intent."""
        return await self._door.read(_is_on_chain(contract, intent, leaf))

    async def note_chained(self, carried: StoredCarried, chained: IntentId) -> None:
        """This transaction is to carry it out."""
        await self._door.write([Statement(_NOTE_CHAINED, (chained, *carried.key))])

    async def note_refused(self, carried: StoredCarried, reason: str) -> None:
        """It is not carried out: its sender gets the reason until its intent has ended."""
        await self._door.write([Statement(_NOTE_REFUSED, (encode_text(reason), *carried.key))])

    async def settle(self, carried: StoredCarried) -> None:
        """Its intent has ended, or this version of it has expired. What no transaction carries out is forgotten."""
        forget = Statement(f"DELETE FROM carried_transitions {_THIS} AND chained IS NULL", carried.key)
        await self._door.write([Statement(_SETTLE, (b"", *carried.key)), forget])

    async def find(self, query: Query) -> tuple[Chained, ...]:
        """Which transactions carry out which others, as a query looks for them."""
        return await self._door.read(_chained(selection(_CHAINED, "intent, chained", query)))

    async def with_intent(self, intent: IntentId) -> tuple[Chained, ...]:
        """Those that carry this one out, and those that this one carries out."""
        return await self._door.read(_chained(Statement(_WITH, (intent, intent))))


def _open(of_one: int, limit: int) -> Reading[tuple[StoredCarried, ...]]:
    rows: Any = yield Statement(_OPEN, (of_one, limit))
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


def _is_on_chain(contract: ContractAddress, intent: IntentId, leaf: Leaf) -> Reading[bool]:
    rows = yield Statement(_ON_CHAIN, (intent, contract, leaf))
    return bool(rows)


def _chained(query: Statement) -> Reading[tuple[Chained, ...]]:
    rows: Any = yield query
    return tuple(Chained(IntentId(intent), IntentId(chained)) for intent, chained in rows)


_ON_CHAIN: Final = f"""
SELECT 1 FROM outcomes
WHERE intent = ? AND contract || '' = ? AND leaf = ? AND status = '{LedgerStatus.COMMITTED.value}' LIMIT 1"""
_ADD: Final = """
INSERT INTO carried_transitions
    (contract, intent, leaf, digest, prepared, idempotency_key, sender, added_at_ms, is_open)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, 1) ON CONFLICT (contract, leaf, digest) DO NOTHING"""
_OPEN: Final = """
SELECT contract, prepared, idempotency_key, chained, refusal FROM (
    SELECT carried_transitions.*, ROW_NUMBER() OVER (PARTITION BY contract, sender ORDER BY added_at_ms, leaf) AS place
    FROM carried_transitions WHERE is_open = 1
) AS numbered WHERE place <= ? ORDER BY place, added_at_ms, leaf LIMIT ?"""
_WITH: Final = """
SELECT intent, chained FROM carried_transitions WHERE chained IS NOT NULL AND (intent = ? OR chained = ?)
ORDER BY intent, chained"""
_THIS: Final = "WHERE contract = ? AND leaf = ? AND digest = ?"
_NOTE_CHAINED: Final = f"UPDATE carried_transitions SET chained = ? {_THIS}"
_NOTE_REFUSED: Final = f"UPDATE carried_transitions SET refusal = ? {_THIS}"
_SETTLE: Final = f"UPDATE carried_transitions SET is_open = 0, prepared = ? {_THIS}"
