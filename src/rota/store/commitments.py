"""Commitments of proved contracts, by leaf, and their order on the chain (`ports.CommitmentStore`).

A leaf binds its commitments, so these are written once, before the index has their block, and never taken back. A leaf
without a row commits to nothing: it voids its intent, or withdraws all that it spends. The index's own outcomes
determine which leaves are on the chain and in which order; the table of reorganisations determines where the chain was
cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from rota.model.blocks import LedgerStatus
from rota.model.digests import WORD_BYTES
from rota.model.types import ContractAddress
from rota.ports.commitments import COMMITMENTS_A_PAGE, CommitmentPage, CommittedWords, LeafCommitments, OutcomePlace
from rota.store.database import Door, Reading, Statement

# Above all places of a block.
_LAST_PLACE: Final = 2**62


class Commitments:
    """`ports.CommitmentStore` on a database."""

    def __init__(self, door: Door) -> None:
        self._door: Final = door

    async def keep(self, commitments: Sequence[LeafCommitments]) -> None:
        """Store these; existing ones stay."""
        if commitments:
            await self._door.write(
                [Statement(_KEEP, (each.contract, each.leaf, b"".join(each.words)), each.leaf) for each in commitments]
            )

    async def page(
        self, contract: ContractAddress, after: OutcomePlace, since: int, limit: int = COMMITMENTS_A_PAGE
    ) -> CommitmentPage:
        """The commitments behind this place, for a reader that has all reorganisations up to `since`."""
        return await self._door.read(self._page(contract, after, since, limit))

    def _page(self, contract: ContractAddress, after: OutcomePlace, since: int, limit: int) -> Reading[CommitmentPage]:
        rows: Any = yield Statement(_PARTED, (since,))
        parted_at, latest = rows[0]
        if parted_at is not None and parted_at < after.height:
            after = OutcomePlace(parted_at, _LAST_PLACE)
        rows = yield Statement(_COMMITTED, (contract, *after, limit))
        transitions = tuple(
            CommittedWords(OutcomePlace(height, place), _words(words or b"")) for height, place, words in rows
        )
        return CommitmentPage(latest or since, parted_at, transitions, len(rows) < limit)


def _words(joined: bytes) -> tuple[bytes, ...]:
    return tuple(joined[start : start + WORD_BYTES] for start in range(0, len(joined), WORD_BYTES))


_KEEP: Final = """
INSERT INTO commitments (contract, leaf, words) VALUES (?, ?, ?) ON CONFLICT (contract, leaf) DO NOTHING"""

_PARTED: Final = "SELECT MIN(parted_at), MAX(position) FROM reorganisations WHERE position > ?"

_COMMITTED: Final = f"""
SELECT outcomes.height, outcomes.place, commitments.words
FROM outcomes LEFT JOIN commitments
    ON commitments.contract = outcomes.contract AND commitments.leaf = outcomes.leaf
WHERE outcomes.contract = ? AND outcomes.status = '{LedgerStatus.COMMITTED.value}'
    AND (outcomes.height, outcomes.place) > (?, ?)
ORDER BY outcomes.height, outcomes.place LIMIT ?"""
