"""Receipts that no longer hold, as SQL: the chain took back blocks that were final.

Theory of operation. The record `FinalityBroken` names the commits of those blocks, and is written in one transaction
with the blocks that replace them. An intent of this node among them gets a receipt with the code
`FINALITY_BROKEN` in its row. Where the chain has the intent again, the chain takes precedence over that receipt, as
always (`store.reading`). The receipt of a deployment or of a voided intent is stored in the row itself: it is kept
aside and restored when a block has it again.

Marked receipts are listed in `receipts_undone` until a block has their commit again. The order of receipts
(`store.listening`) gives such a receipt a new number, so that listeners receive it, and another one when its commit is
final again. An operator acknowledges those that do not return.

A receipt of a deployment, or of an intent that a transition voided, may be about to be written when its block is taken
back. So the ending of an intent without a receipt is noted in `endings_lost`, and a receipt that is written later and
rests on it is marked at once (`marking_late`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from rota.chain.effects import FinalityBroken, UndoneCommit
from rota.model.blocks import LedgerStatus
from rota.model.types import (
    FINALITY_BROKEN,
    FINALITY_BROKEN_REASON,
    NO_CONTRACT,
    ContractAddress,
    IntentId,
    Outcome,
    Receipt,
)
from rota.ports import BASE_LEDGER
from rota.store.database import Reading, Statement, Value
from rota.store.encoding import encode


def broken_receipt(undone: UndoneCommit) -> Receipt:
    """The receipt that users get in place of the one that no longer holds."""
    return Receipt(undone.intent, Outcome.REVERTED, FINALITY_BROKEN_REASON, undone.leaf, code=FINALITY_BROKEN)


def marking(record: FinalityBroken, now_ms: int) -> Iterator[Statement]:
    """Mark the receipts of these commits as no longer valid; executed before the blocks are removed."""
    for each in record.undone:
        height, contract, intent, leaf = each
        if contract == NO_CONTRACT:
            yield Statement(_DEPLOYMENT_UNDONE, (leaf, height, now_ms, intent, contract))
            yield Statement(_DEPLOYMENT_LOST, (leaf, height, intent, contract))
        else:
            yield Statement(_ENDING_LOST, (leaf, height, intent, contract, height, height))
            yield Statement(_OWN_UNDONE, (leaf, height, now_ms, intent, contract, height, height, height))
            yield Statement(_OTHERS_UNDONE, (height, now_ms, intent, contract, leaf))
            yield Statement(_DUE_ON_RETURN, (intent, contract, leaf))
        yield Statement(_MARK, (encode(broken_receipt(each)), intent, contract, leaf))
    yield from reopening_public("is_final = 1 AND height > ?", (record.parted_at,), now_ms)


def reopening_public(condition: str, parameters: tuple[Value, ...], now_ms: int) -> Iterator[Statement]:
    """Mark these public transactions, whose ending no longer holds, and open them again."""
    marked = (BASE_LEDGER, b"", now_ms, *parameters)
    yield Statement(_PUBLIC_UNDONE.format(condition=condition), marked)
    yield Statement(_PUBLIC_REOPENED.format(condition=condition), parameters)


def public_ended(intent: IntentId) -> Statement:
    """A public transaction has ended, perhaps again: its receipt holds, so it is no longer listed."""
    return Statement(_PUBLIC_ENDED, (intent,), intent)


def marking_late(contract: ContractAddress, receipt: Receipt, now_ms: int) -> Iterator[Statement]:
    """After writing a receipt: mark it if the block that it rests on was taken back in the meantime.

    A confirmed deployment rests on its block. A reverted intent rests on the transition that voided it, as long as its
    party's leaves can still be committed; afterwards it is reverted whatever the chain does.
    """
    intent = receipt.intent
    if contract == NO_CONTRACT and receipt.outcome is not Outcome.CONFIRMED:
        return
    live = "" if contract == NO_CONTRACT else _IS_LIVE
    broken = encode(Receipt(intent, Outcome.REVERTED, FINALITY_BROKEN_REASON, code=FINALITY_BROKEN))
    yield Statement(
        f"{_LATE_UNDONE}{live} ON CONFLICT (intent, contract) DO NOTHING", (now_ms, intent, contract), intent
    )
    yield Statement(f"{_LATE_MARK}{live})", (broken, intent, contract), intent)
    yield Statement("DELETE FROM endings_lost WHERE intent = ? AND contract = ?", (intent, contract), intent)


def returning() -> Iterator[Statement]:
    """After adding blocks: remove receipts from the list whose commits the chain has again."""
    for listed in _LISTS:
        yield Statement(_RETURNED.format(listed=listed))


def deployment_returned(intent: IntentId) -> Iterator[Statement]:
    """Remove a deployment from the list: the chain has its contract again."""
    for listed in _LISTS:
        yield Statement(f"DELETE FROM {listed} WHERE intent = ? AND contract = ?", (intent, NO_CONTRACT), intent)


def restoring(contract: ContractAddress, intent: IntentId) -> Iterator[Statement]:
    """Restore a receipt that was kept aside: the deployment, or the voiding of the intent, is on the chain.

    An id is unique within its contract only: any account can use it in another one.
    """
    yield Statement(_RESTORED_DUE, (intent, contract), intent)
    yield Statement(_RESTORE, (intent, contract), intent)


def unacknowledged() -> Reading[int]:
    """How many receipts no longer hold and have not been acknowledged by an operator."""
    rows: Any = yield Statement("SELECT COUNT(*) FROM receipts_undone WHERE is_acknowledged = 0")
    return int(rows[0][0])


def may_return(intent: IntentId, final_time_s: int) -> Reading[bool]:
    """Whether the chain may still commit it: not once all leaves that its party signed have expired in final time.

    That holds for private transactions; deployments and public transactions may return at any time.
    """
    rows: Any = yield Statement(_CANNOT_RETURN, (intent, NO_CONTRACT, final_time_s))
    return not rows


_LISTS: Final = ("receipts_undone", "endings_lost")
ACKNOWLEDGE: Final = Statement("UPDATE receipts_undone SET is_acknowledged = 1 WHERE is_acknowledged = 0")

_INTO: Final = "INSERT INTO receipts_undone (intent, contract, leaf, height, undone_at_ms, is_told, is_acknowledged)"

# Of an intent of this node: its commit by a leaf of its party, or, if it had ended by another use of its id, that use.
_OWN_UNDONE: Final = f"""{_INTO}
SELECT id, contract, ?, ?, ?, 0, 0 FROM intents WHERE id = ? AND contract = ?
AND (settled_at = ? OR (receipt IS NOT NULL AND (voided_at = ? OR used_at = ?)))
ON CONFLICT (intent, contract) DO NOTHING"""

_DEPLOYMENT_UNDONE: Final = f"""{_INTO}
SELECT id, contract, ?, ?, ?, 0, 0 FROM intents WHERE id = ? AND contract = ? AND receipt IS NOT NULL
ON CONFLICT (intent, contract) DO NOTHING"""

_LOST: Final = "INSERT INTO endings_lost (intent, contract, leaf, height)"
_DEPLOYMENT_LOST: Final = f"""{_LOST}
SELECT id, contract, ?, ? FROM intents WHERE id = ? AND contract = ? AND receipt IS NULL
ON CONFLICT (intent, contract) DO NOTHING"""
_ENDING_LOST: Final = f"""{_LOST}
SELECT id, contract, ?, ? FROM intents
WHERE id = ? AND contract = ? AND receipt IS NULL AND settled_at IS NULL AND (voided_at = ? OR used_at = ?)
ON CONFLICT (intent, contract) DO NOTHING"""

_LATE_UNDONE: Final = f"""{_INTO}
SELECT intent, contract, leaf, height, ?, 0, 0 FROM endings_lost WHERE intent = ? AND contract = ?"""
_LATE_MARK: Final = """
UPDATE intents SET receipt_before = receipt, receipt = ? WHERE id = ? AND contract = ? AND EXISTS (
    SELECT 1 FROM endings_lost WHERE endings_lost.intent = intents.id AND endings_lost.contract = intents.contract"""
_IS_LIVE: Final = """
AND EXISTS (
    SELECT 1 FROM signed_leaves WHERE signed_leaves.intent = endings_lost.intent
    AND signed_leaves.valid_until_s >= (SELECT latest_chain_time_s FROM node))"""

_OTHERS_UNDONE: Final = f"""{_INTO}
SELECT intent, contract, leaf, ?, ?, 0, 0 FROM receipts WHERE intent = ? AND contract = ? AND leaf = ?
ON CONFLICT (intent, contract) DO NOTHING"""

# Public transactions follow the chain by themselves: one may be final before this index knows it.
_PUBLIC_UNDONE: Final = f"""{_INTO}
SELECT id, ?, ?, COALESCE(height, 0), ?, 0, 0 FROM public_transactions WHERE {{condition}}
ON CONFLICT (intent, contract) DO NOTHING"""
_PUBLIC_REOPENED: Final = """
UPDATE public_transactions SET is_final = 0, has_succeeded = NULL WHERE {condition}"""
_PUBLIC_ENDED: Final = f"DELETE FROM receipts_undone WHERE intent = ? AND contract = '{BASE_LEDGER}'"

_CANNOT_RETURN: Final = """
SELECT 1 FROM intents WHERE id = ? AND contract <> ? AND settled_at IS NULL AND NOT EXISTS (
    SELECT 1 FROM signed_leaves WHERE signed_leaves.intent = intents.id AND signed_leaves.valid_until_s >= ?)"""

_IS_LISTED: Final = """EXISTS (
    SELECT 1 FROM receipts_undone
    WHERE receipts_undone.intent = intents.id AND receipts_undone.contract = intents.contract AND leaf = ?)"""
_MARK: Final = f"""
UPDATE intents SET receipt_before = COALESCE(receipt_before, receipt), receipt = ?
WHERE id = ? AND contract = ? AND {_IS_LISTED}"""

_DUE: Final = "INSERT INTO receipts_due (contract, leaf, intent, is_final, is_whole, valid_until_s)"
_DUE_ON_RETURN: Final = f"""{_DUE}
SELECT contract, leaf, intent, 0, 1, 0 FROM receipts_undone WHERE intent = ? AND contract = ? AND leaf = ?
ON CONFLICT (contract, leaf) DO NOTHING"""
_RESTORED_DUE: Final = f"""{_DUE}
SELECT contract, id, id, 1, 1, 0 FROM intents WHERE id = ? AND contract = ? AND receipt_before IS NOT NULL
ON CONFLICT (contract, leaf) DO NOTHING"""

_RESTORE: Final = """
UPDATE intents SET receipt = receipt_before, receipt_before = NULL
WHERE id = ? AND contract = ? AND receipt_before IS NOT NULL"""

_RETURNED: Final = f"""
DELETE FROM {{listed}}
WHERE EXISTS (
    SELECT 1 FROM outcomes
    WHERE outcomes.intent = {{listed}}.intent AND outcomes.contract = {{listed}}.contract
    AND outcomes.leaf = {{listed}}.leaf AND outcomes.status = '{LedgerStatus.COMMITTED.value}')"""
