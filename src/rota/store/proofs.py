"""Proofs of transitions whose intents have not ended (`ports.ProofBook`).

There is one proof for an intent, so that there are no more than open intents, which the core bounds. Proofs that were
not deleted at their intent's end, because the process ended before, are deleted at the next start.
"""

from __future__ import annotations

from typing import Any, Final

from rota.model.types import IntentId, Leaf
from rota.ports import StoredProof
from rota.store.database import Door, Reading, Statement


class ProofBook:
    """`ports.ProofBook` on a database."""

    def __init__(self, door: Door) -> None:
        self._door: Final = door

    async def restore(self) -> tuple[StoredProof, ...]:
        """The proofs of open intents; deletes the others."""
        await self._door.write([Statement(_SWEEP)])
        return await self._door.read(_all())

    async def keep(self, proof: StoredProof) -> None:
        """Store the latest proof of its intent."""
        row = (proof.intent, proof.leaf, proof.valid_until_s, proof.proof)
        await self._door.write([Statement(_KEEP, row, proof.intent)])

    async def forget(self, intent: IntentId) -> None:
        """Delete the proof of an intent that has ended."""
        await self._door.write([Statement("DELETE FROM proofs WHERE intent = ?", (intent,), intent)])


def _all() -> Reading[tuple[StoredProof, ...]]:
    rows: Any = yield Statement("SELECT intent, leaf, valid_until_s, proof FROM proofs ORDER BY valid_until_s, intent")
    return tuple(
        StoredProof(IntentId(intent), Leaf(leaf), valid_until_s, proof) for intent, leaf, valid_until_s, proof in rows
    )


_KEEP: Final = """
INSERT INTO proofs (intent, leaf, valid_until_s, proof) VALUES (?, ?, ?, ?)
ON CONFLICT (intent) DO UPDATE
SET leaf = excluded.leaf, valid_until_s = excluded.valid_until_s, proof = excluded.proof"""

_SWEEP: Final = """
DELETE FROM proofs WHERE NOT EXISTS (
    SELECT 1 FROM intents WHERE intents.id = proofs.intent AND receipt IS NULL AND settled_at IS NULL)"""
