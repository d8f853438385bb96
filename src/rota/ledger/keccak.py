"""Keccak-256, the hash of everything on an Ethereum chain."""

from __future__ import annotations

from typing import Final

import sha3

HASH_BYTES: Final = 32


def keccak(content: bytes) -> bytes:
    """The 32-byte hash of `content`."""
    digest: bytes = sha3.keccak_256(content).digest()
    return digest
