"""A contract that keeps a number, written by hand in the machine's own language; public or private."""

from __future__ import annotations

from typing import Any, Final

from rota.model.digests import keccak

CHANGED: Final = keccak(b"Changed(uint256)")
# By this error it refuses what it does not know.
REFUSED: Final = keccak(b"Refused()")[:4]


def _selector(signature: str) -> bytes:
    return keccak(signature.encode())[:4]


def _creation(runtime: bytes) -> bytes:
    """Copy what follows, and return it."""
    head = bytes.fromhex("61") + len(runtime).to_bytes(2, "big") + bytes.fromhex("80600c6000396000f3")
    assert len(head) == 12
    return head + runtime


_STORE_AT, _RETRIEVE_AT = 0x30, 0x68
_DISPATCH: Final = (
    bytes.fromhex("60003560e01c")
    + b"\x80\x63"
    + _selector("store(uint256)")
    + bytes([0x14, 0x60, _STORE_AT, 0x57, 0x63])
    + _selector("retrieve()")
    + bytes([0x14, 0x60, _RETRIEVE_AT, 0x57])
)
# The value becomes slot 0 and the data of an event.
_STORE: Final = bytes.fromhex("5b600435806000556000527f") + CHANGED + bytes.fromhex("60206000a1") + b"\x00"
_RETRIEVE: Final = bytes.fromhex("5b60005460005260206000f3")
_RUNTIME: Final = (
    (_DISPATCH + bytes.fromhex("63") + REFUSED + bytes.fromhex("6000526004601cfd")).ljust(_STORE_AT, b"\xfe")
    + _STORE.ljust(_RETRIEVE_AT - _STORE_AT, b"\xfe")
    + _RETRIEVE
)

BYTECODE: Final = "0x" + _creation(_RUNTIME).hex()
CONSTRUCTOR: Final[dict[str, Any]] = {"type": "constructor", "inputs": []}
STORE: Final[dict[str, Any]] = {
    "type": "function",
    "name": "store",
    "inputs": [{"name": "num", "type": "uint256"}],
    "outputs": [],
    "stateMutability": "nonpayable",
}
RETRIEVE: Final[dict[str, Any]] = {
    "type": "function",
    "name": "retrieve",
    "inputs": [],
    "outputs": [{"name": "value", "type": "uint256"}],
    "stateMutability": "view",
}
EVENT: Final[dict[str, Any]] = {"type": "event", "name": "Changed", "inputs": [{"name": "num", "type": "uint256"}]}
ERROR: Final[dict[str, Any]] = {"type": "error", "name": "Refused", "inputs": []}
ABI: Final = [CONSTRUCTOR, STORE, RETRIEVE, EVENT, ERROR]
