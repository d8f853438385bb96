"""The lock in a receipt: its id, its delegate, and the calls that end it."""

from __future__ import annotations

from rota.calldata import encode_cancel_lock, encode_spend_lock
from rota.domains.base import Settled
from rota.domains.locking import SettledLock
from rota.domains.noto.records import Configuration, Lock, Promised, RecordedLock, Released
from rota.model.types import LOCK_EXPIRY_MAX, NAMING_DELEGATE, NO_DELEGATE, LockKind

WORD_BYTES = 32


def lock_info_of(settled: Settled[Configuration]) -> dict[str, object]:
    """As far as this node may see it; nothing where there is no lock.

    The calls are those of any later delegate: `unlockCall` is what `spendLock` of the token's contract
    is called with. They are known when the record is set, and stay what they are.
    """
    record = settled.lock
    records = [state.record for state in (*settled.made, *settled.spent)]
    locks = [each for each in records if isinstance(each, Lock | RecordedLock)]
    told = [each.record for each in settled.told if isinstance(each.record, Promised | Released)]
    lock_id = record.change.lock if record is not None else next((each.lock_id for each in (*locks, *told)), None)
    if lock_id is None:
        return {}
    info: dict[str, object] = {"lockId": _hex(lock_id)}
    if locks and locks[0].spender != locks[0].owner:
        info["delegate"] = locks[0].spender
    elif record is not None and record.change.kind in NAMING_DELEGATE and record.change.delegate != NO_DELEGATE:
        info["delegate"] = record.change.delegate
    if record is not None and record.change.kind is LockKind.SET:
        info |= _calls(record)
    return info


def _calls(record: SettledLock) -> dict[str, object]:
    change = record.change
    info: dict[str, object] = {"spendTxId": _hex(record.permitted.ljust(WORD_BYTES, b"\0"))}
    info |= {"spendCommitment": _hex(change.spends), "cancelCommitment": _hex(change.cancels)}
    if change.expires_at_s < LOCK_EXPIRY_MAX:
        info["expiresAt"] = str(change.expires_at_s)
    lock_id = _hex(change.lock)
    if record.spend_args is not None:
        info["unlockFunction"] = "spendLock"
        info["unlockParams"] = {"lockId": lock_id, "spendArgs": _hex(record.spend_args), "data": "0x"}
        info["unlockCall"] = _hex(encode_spend_lock(change.lock, record.spend_args))
    if record.cancel_args is not None:
        info["cancelFunction"] = "cancelLock"
        info["cancelParams"] = {"lockId": lock_id, "cancelArgs": _hex(record.cancel_args), "data": "0x"}
        info["cancelCall"] = _hex(encode_cancel_lock(change.lock, record.cancel_args))
    return info


def _hex(content: bytes) -> str:
    return "0x" + content.hex()
