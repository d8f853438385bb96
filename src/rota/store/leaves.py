"""The outcomes of leaves that transactions of this node depend on, whichever node's they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from rota.model.awaited import outcomes_of
from rota.model.blocks import LedgerStatus
from rota.model.types import AwaitedLeaf, ContractAddress, IntentId, Leaf, Outcome
from rota.store.database import Reading, Statement

# A request names at most 256 leaves, but several requests are looked up together.
LEAVES_A_STATEMENT: Final = 500


def leaf_outcomes(
    leaves: Sequence[AwaitedLeaf], final_height: Reading[int]
) -> Reading[tuple[tuple[AwaitedLeaf, Outcome], ...]]:
    """The outcomes of these leaves in final blocks."""
    committed: dict[tuple[ContractAddress, IntentId], Leaf] = {}
    if leaves:
        height = yield from final_height
        ids = tuple(dict.fromkeys(each.intent for each in leaves))
        for start in range(0, len(ids), LEAVES_A_STATEMENT):
            some = ids[start : start + LEAVES_A_STATEMENT]
            rows: Any = yield Statement(f"{_COMMITTED} AND intent IN ({', '.join('?' * len(some))})", (height, *some))
            committed |= {(contract, IntentId(intent)): Leaf(leaf) for contract, intent, leaf in rows}
    return outcomes_of(leaves, committed)


_COMMITTED: Final = f"""
SELECT contract, intent, leaf FROM outcomes WHERE status = '{LedgerStatus.COMMITTED.value}' AND height <= ?"""
