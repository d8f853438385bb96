"""Advice for callers on the errors of a lock's public functions (`Lockable.sol`)."""

from __future__ import annotations

from typing import Final

from rota.model.digests import keccak

_SELECTOR_BYTES: Final = 4
_ADVICE: Final = {
    keccak(signature.encode())[:_SELECTOR_BYTES]: advice
    for signature, advice in {
        "LockNotActive(bytes32)": (
            "the lock was spent or cancelled, or no prepared lock has this id; the receipt of its preparation and "
            "the token's events LockSpent and LockCancelled show it"
        ),
        "LockUnauthorized(bytes32,address,address)": (
            "only the delegate in the second value may do this; with the zero address the lock has none, and its owner "
            "names one by the private function delegateLock"
        ),
        "LockExpired(bytes32,uint256,uint256)": (
            "the lock can only be cancelled now: every account may call cancelLock, and the owner gets it back"
        ),
        "NotCommitted(uint8,bytes32,uint8)": "the permitted transition was committed before, or an input is missing",
        "TooFewSignatures(uint256,uint256)": (
            "a lock permits only the spendArgs and cancelArgs in the receipt of its preparation, and each only for its "
            "own function"
        ),
    }.items()
}


def advice_for(output: bytes) -> str:
    """Return the advice, or an empty text if the call was not refused because of a lock."""
    return _ADVICE.get(output[:_SELECTOR_BYTES], "")
