"""When a sender may sign another version of an intent (protocol §4.3).

Every version that is signed and not expired may be committed, so each is recorded, and there are at most
`VERSIONS_MAX` of them (trust rule 1). Half of them may follow one another at once; the rest are spaced, so that a
coordinator that asks again and again leaves room for the next one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.types import SubmitMode

if TYPE_CHECKING:
    from rota.core.sender_transaction import SenderTransaction

VERSIONS_MAX = 32


def must_wait_to_sign(transaction: SenderTransaction) -> bool:
    """No coordinator can have the intent assembled at present: it has too many versions, or a version must expire."""
    is_external = transaction.intent.submit_mode is SubmitMode.EXTERNAL
    if transaction.is_voiding or not (is_external or len(transaction.versions) >= VERSIONS_MAX // 2):
        return False
    return _has_signed_too_often(transaction, is_external) or _must_expire_first(transaction)


def _has_signed_too_often(transaction: SenderTransaction, is_external: bool) -> bool:
    final_time_s = transaction.sender.final_time_s
    live = [until_s for until_s in transaction.versions.values() if until_s >= final_time_s]
    if len(live) < VERSIONS_MAX // 2:
        return False
    config = transaction.context.config
    validity_s = config.prepared_validity_s if is_external else config.validity_s
    last_signed_s = max(live) - validity_s
    is_early = transaction.context.chain_time_s < last_signed_s + validity_s // (VERSIONS_MAX // 2)
    return is_early or len(live) >= VERSIONS_MAX


def _must_expire_first(transaction: SenderTransaction) -> bool:
    """Another version would be valid no longer than the first: too short for whoever is to commit it."""
    bound_s = transaction.first_bound_s
    if bound_s is None:
        return False
    config = transaction.context.config
    least_s = min(config.validity_s, config.prepared_validity_s) // 2
    return bound_s - transaction.context.chain_time_s < least_s
