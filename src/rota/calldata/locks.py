"""Calls of the public functions of a lock, by which its delegate commits without a signature (`Locks.sol`).

`args` are the transition that a lock permits, as a payload of this one leaf that never expires.
"""

from __future__ import annotations

from typing import Final

from rota.calldata.rounds import encode_payload
from rota.model.digests import WORD_BYTES, keccak
from rota.model.types import ContractAddress, Transition, address_bytes

PERMITTED_UNTIL_S: Final = 2**64 - 1

_SPEND_SELECTOR: Final[bytes] = keccak(b"spendLock(bytes32,bytes,bytes)")[:4]
_CANCEL_SELECTOR: Final[bytes] = keccak(b"cancelLock(bytes32,bytes,bytes)")[:4]
_DELEGATE_SELECTOR: Final[bytes] = keccak(b"delegateLock(bytes32,bytes,address,bytes)")[:4]


def permitted_payload(transition: Transition) -> bytes:
    """The argument with which a delegate has this transition committed; known as soon as the transition is."""
    return encode_payload((transition,), PERMITTED_UNTIL_S)


def encode_spend_lock(lock: bytes, args: bytes, data: bytes = b"") -> bytes:
    """The call data of `spendLock(lockId, spendArgs, data)`."""
    return _SPEND_SELECTOR + _words_and_bytes((lock,), args, (), data)


def encode_cancel_lock(lock: bytes, args: bytes, data: bytes = b"") -> bytes:
    """The call data of `cancelLock(lockId, cancelArgs, data)`."""
    return _CANCEL_SELECTOR + _words_and_bytes((lock,), args, (), data)


def encode_delegate_lock(lock: bytes, delegate: ContractAddress, data: bytes = b"") -> bytes:
    """The call data of `delegateLock(lockId, delegateArgs, newSpender, data)`; the ledger ignores `delegateArgs`."""
    word = address_bytes(delegate).rjust(WORD_BYTES, b"\0")
    return _DELEGATE_SELECTOR + _words_and_bytes((lock,), b"", (word,), data)


def _words_and_bytes(before: tuple[bytes, ...], first: bytes, between: tuple[bytes, ...], second: bytes) -> bytes:
    """ABI encoding of words, bytes, words, bytes, in this order."""
    head_bytes = WORD_BYTES * (len(before) + len(between) + 2)
    tail = _bytes(first)
    head = (*before, _number(head_bytes), *between, _number(head_bytes + len(tail)))
    assert all(len(word) == WORD_BYTES for word in head), f"a word is {WORD_BYTES} bytes"
    return b"".join(head) + tail + _bytes(second)


def _bytes(content: bytes) -> bytes:
    return _number(len(content)) + content + bytes(-len(content) % WORD_BYTES)


def _number(number: int) -> bytes:
    return number.to_bytes(WORD_BYTES, "big")
