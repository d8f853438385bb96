"""Receipts that no longer hold, as SQL: the chain took back blocks that were final.

Theory of operation. The record `FinalityBroken` names what those blocks committed, and is written in one transaction
with the blocks that take their place. An intent of this node among them gets a receipt with the code
`FINALITY_BROKEN` in its row. Where the chain has the intent again, its word counts before that receipt, as always
(`store.reading`). The receipt of a deployment or of a voided intent stands in the row itself: it is kept aside and
put back when a block has it again.

What is marked is listed in `receipts_undone` until a block has it again. The order of receipts (`store.listening`)
gives it a new number, so that listeners are told, and another one when its commit is final again. An operator
acknowledges what does not return.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from rota.core.effects import FinalityBroken, UndoneCommit
from rota.core.events import LedgerStatus
from rota.store.database import Reading, Statement
from rota.store.encoding import encode
from rota.types import FINALITY_BROKEN, FINALITY_BROKEN_REASON, NO_CONTRACT, ContractAddress, IntentId, Outcome, Receipt

# In the place of a contract, of what is done on the base ledger itself.
_PUBLIC: Final = ContractAddress("")


def broken_receipt(undone: UndoneCommit) -> Receipt:
    """What users are told in the place of the receipt that they had."""
    return Receipt(undone.intent, Outcome.REVERTED, FINALITY_BROKEN_REASON, undone.leaf, code=FINALITY_BROKEN)


def marking(record: FinalityBroken, now_ms: int) -> Iterator[Statement]:
    """Before the blocks go: these receipts no longer hold."""
    for each in record.undone:
        height, contract, intent, leaf = each
        if contract == NO_CONTRACT:
            yield Statement(_DEPLOYMENT_UNDONE, (leaf, height, now_ms, intent, contract))
        else:
            yield Statement(_OWN_UNDONE, (leaf, height, now_ms, intent, contract, height, height, height))
            yield Statement(_OTHERS_UNDONE, (height, now_ms, intent, contract, leaf))
            yield Statement(_DUE_ON_RETURN, (intent, leaf))
        yield Statement(_MARK, (encode(broken_receipt(each)), intent, contract, leaf))
    yield Statement(_PUBLIC_UNDONE, (_PUBLIC, b"", now_ms, record.parted_at))


def returning() -> Statement:
    """Behind the blocks that came: what they have again is no longer listed."""
    return Statement(_RETURNED)


def restoring(intent: IntentId) -> Iterator[Statement]:
    """The deployment, or what voids the intent, is on the chain: a receipt that was kept aside holds again."""
    yield Statement(_RESTORED_DUE, (intent,), intent)
    yield Statement(_RESTORE, (intent,), intent)


def unacknowledged() -> Reading[int]:
    """How many receipts no longer hold that no operator has acknowledged."""
    rows: Any = yield Statement("SELECT COUNT(*) FROM receipts_undone WHERE is_acknowledged = 0")
    return int(rows[0][0])


ACKNOWLEDGE: Final = Statement("UPDATE receipts_undone SET is_acknowledged = 1 WHERE is_acknowledged = 0")

_INTO: Final = "INSERT INTO receipts_undone (intent, contract, leaf, height, undone_at_ms, is_told, is_acknowledged)"

# Of an intent of this node: its commit by a leaf of its party, or, when it had ended by that, what used its id.
_OWN_UNDONE: Final = f"""{_INTO}
SELECT id, contract, ?, ?, ?, 0, 0 FROM intents WHERE id = ? AND contract = ?
AND (settled_at = ? OR (receipt IS NOT NULL AND (voided_at = ? OR used_at = ?)))
ON CONFLICT (intent) DO NOTHING"""

_DEPLOYMENT_UNDONE: Final = f"""{_INTO}
SELECT id, contract, ?, ?, ?, 0, 0 FROM intents WHERE id = ? AND contract = ? AND receipt IS NOT NULL
ON CONFLICT (intent) DO NOTHING"""

_OTHERS_UNDONE: Final = f"""{_INTO}
SELECT intent, contract, leaf, ?, ?, 0, 0 FROM receipts WHERE intent = ? AND contract = ? AND leaf = ?
ON CONFLICT (intent) DO NOTHING"""

# They follow the chain by themselves: one may be final of which this index does not know that it is.
_PUBLIC_UNDONE: Final = f"""{_INTO}
SELECT id, ?, ?, height, ?, 0, 0 FROM public_transactions WHERE is_final = 1 AND height > ?
ON CONFLICT (intent) DO NOTHING"""

_IS_LISTED: Final = "EXISTS (SELECT 1 FROM receipts_undone WHERE receipts_undone.intent = intents.id AND leaf = ?)"
_MARK: Final = f"""
UPDATE intents SET receipt_before = COALESCE(receipt_before, receipt), receipt = ?
WHERE id = ? AND contract = ? AND {_IS_LISTED}"""

_DUE: Final = "INSERT INTO receipts_due (contract, leaf, intent, is_final, is_whole, valid_until_s)"
_DUE_ON_RETURN: Final = f"""{_DUE}
SELECT contract, leaf, intent, 0, 1, 0 FROM receipts_undone WHERE intent = ? AND leaf = ?
ON CONFLICT (contract, leaf) DO NOTHING"""
_RESTORED_DUE: Final = f"""{_DUE}
SELECT contract, id, id, 1, 1, 0 FROM intents WHERE id = ? AND receipt_before IS NOT NULL
ON CONFLICT (contract, leaf) DO NOTHING"""

_RESTORE: Final = """
UPDATE intents SET receipt = receipt_before, receipt_before = NULL WHERE id = ? AND receipt_before IS NOT NULL"""

_RETURNED: Final = f"""
DELETE FROM receipts_undone
WHERE EXISTS (
    SELECT 1 FROM outcomes
    WHERE outcomes.intent = receipts_undone.intent AND outcomes.contract = receipts_undone.contract
    AND outcomes.leaf = receipts_undone.leaf AND outcomes.status = '{LedgerStatus.COMMITTED.value}')
OR EXISTS (SELECT 1 FROM deployed WHERE deployed.intent = receipts_undone.intent)"""
