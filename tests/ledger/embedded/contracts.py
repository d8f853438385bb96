"""Contracts that are small enough to assemble by hand."""

from __future__ import annotations

from typing import Final

# Stores the second word of calldata in the slot of the first, logs it, and returns what was there before.
KEEPER: Final = bytes.fromhex("6020355f3580545f528181558160205260206020a260205ff3")
# Reverts with what it was called with.
REVERTER: Final = bytes.fromhex("365f5f37365ffd")
# Breaks a rule of the EVM; runs until the gas is gone.
INVALID: Final = bytes.fromhex("fe")
ENDLESS: Final = bytes.fromhex("5b5f56")


def creation(code: bytes) -> bytes:
    """What a transaction carries to create this contract."""
    assert len(code) < 256
    return bytes.fromhex(f"60{len(code):02x}80600a5f395ff3fe") + code


def word(number: int) -> bytes:
    return number.to_bytes(32, "big")


def keep(slot: int, value: int) -> bytes:
    """Calldata for KEEPER."""
    return word(slot) + word(value)


def error_string(text: str) -> bytes:
    """What `revert("text")` returns."""
    content = text.encode()
    padded = content + bytes(-len(content) % 32)
    return bytes.fromhex("08c379a0") + word(32) + word(len(content)) + padded


def panic(code: int) -> bytes:
    return bytes.fromhex("4e487b71") + word(code)
