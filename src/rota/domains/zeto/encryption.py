"""Coins on their way to their owners: encrypted to the key that owns them, so that only its scalar opens them.

    shared  = 8 · scalar of this one message · key of the owner  =  8 · scalar of the owner · point of this message
    key     = HKDF-SHA-256 of `shared`, with the point and the owner's key as its information
    bytes   = point of this message | ChaCha20-Poly1305 of the content and its filling | tag

Every message has a scalar of its own, so that no key is used twice, and the nonce may be zero. The factor 8 takes away
what a point outside the group of BASE would tell of the owner's scalar. The content is filled up to a multiple of
`FILLED_BYTES`: how long a coin is would tell how many digits its amount has.

There is one way to write each part, and any other is refused: a point in its canonical form, a filling that is as short
as it can be. What else is bound is `about`, which both sides know.
"""

from __future__ import annotations

from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from rota.domains.base import Rejected
from rota.domains.zeto.babyjubjub import POINT_BYTES, ZERO, Point, compress, decompress, key_of, times

FILLED_BYTES: Final = 128
PURPOSE: Final = b"rota zeto coin"
COFACTOR: Final = 8

_KEY_BYTES: Final = 32
_NONCE: Final = bytes(12)
# The content ends before the last of these; zeros follow.
_END: Final = b"\x80"


def encrypt(content: bytes, key: Point, scalar: int, about: bytes) -> bytes:
    """The content for the owner of a key. `scalar` is drawn for this once."""
    point = compress(key_of(scalar))
    filled = content + _END
    filled += bytes(-len(filled) % FILLED_BYTES)
    return point + _cipher(times(COFACTOR * scalar, key), point, key).encrypt(_NONCE, filled, about)


def decrypt(encrypted: bytes, scalar: int, about: bytes) -> bytes:
    """What was encrypted to the key of this scalar. `Rejected` when it was not, or is not as it was."""
    point = encrypted[:POINT_BYTES]
    try:
        shared = times(COFACTOR * scalar, decompress(point))
    except ValueError as error:
        raise Rejected("state", f"must begin with the point that it is encrypted with: {error}") from None
    if shared == ZERO:
        raise Rejected("state", "must begin with a point of the large group")
    try:
        filled = _cipher(shared, point, key_of(scalar)).decrypt(_NONCE, encrypted[POINT_BYTES:], about)
    except InvalidTag:
        raise Rejected("state", "must be encrypted to the owner's key, for this place, and be whole") from None
    content, end, filling = filled.rpartition(_END)
    if not end or any(filling) or len(filling) >= FILLED_BYTES or len(filled) % FILLED_BYTES:
        raise Rejected("state", f"must be filled up to the next multiple of {FILLED_BYTES} bytes")
    return content


def _cipher(shared: Point, point: bytes, key: Point) -> ChaCha20Poly1305:
    expanded = HKDF(SHA256(), _KEY_BYTES, None, PURPOSE + point + compress(key)).derive(compress(shared))
    return ChaCha20Poly1305(expanded)
