"""Functions and events of any contract by their signatures: `advance(address)`, `Advanced(uint256 indexed, address)`.

For contracts without a known ABI: a caller that names a function or an event writes its types. Structures are written
as tuples. A `ValueError` names the unreadable part.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from eth_abi.abi import encode as abi_encode
from eth_abi.abi import is_encodable_type
from eth_abi.exceptions import EncodingError

from rota.abi.decoding import Undecodable
from rota.abi.decoding import decode as abi_decode
from rota.ledger.reading import Log
from rota.model.digests import keccak

SIGNATURES_KEPT: Final = 4_096
SELECTOR_BYTES: Final = 4
INDEXED: Final = "indexed"

_SIGNATURE: Final = re.compile(r"([A-Za-z_$][A-Za-z0-9_$]*)\((.*)\)")
# For an indexed argument of such a type the log has only a hash.
_HASHED: Final = re.compile(r"string|bytes|.*[\])]")


@dataclass(frozen=True, slots=True)
class Signature:
    """A name, the types of its arguments, and which of them are indexed."""

    name: str
    types: tuple[str, ...]
    is_indexed: tuple[bool, ...]

    @property
    def hash(self) -> bytes:
        """The first topic of an event; a function's selector is its beginning."""
        return keccak(f"{self.name}({','.join(self.types)})".encode())


@lru_cache(maxsize=SIGNATURES_KEPT)
def read_signature(text: str) -> Signature:
    """Parse a signature. `ValueError` when it is malformed."""
    found = _SIGNATURE.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"signature: must be a name and types, such as advance(address), not {text!r}")
    words = [part.split() for part in _parts(found[2])]
    types = tuple("".join(word for word in part if word != INDEXED) for part in words)
    for kind in types:
        if not is_encodable_type(kind):
            raise ValueError(f"signature: {kind!r} in {text!r} is no type of the ABI")
    return Signature(found[1], types, tuple(INDEXED in part for part in words))


def encode_signed_call(signature: str, arguments: tuple[object, ...]) -> bytes:
    """Return the call data of a function. `ValueError` when the arguments do not fit."""
    found = read_signature(signature)
    try:
        return found.hash[:SELECTOR_BYTES] + abi_encode(found.types, arguments)
    except (EncodingError, TypeError, ValueError) as error:
        raise ValueError(f"{signature}: cannot be called with {arguments!r}: {error}") from error


def decode_values(types: tuple[str, ...], answer: bytes) -> tuple[Any, ...]:
    """Decode a function's answer. `ValueError` when it does not fit the types."""
    try:
        return tuple(abi_decode(types, answer))
    except Undecodable as error:
        raise ValueError(f"the answer is not {', '.join(types)}: {error}") from error


def decode_log(signature: str, log: Log) -> tuple[Any, ...] | None:
    """Return the arguments of an event in their order; None when the log is of another one.

    For an indexed argument of which the log has only a hash, the hash is returned.
    """
    found = read_signature(signature)
    if not log.topics or log.topics[0] != found.hash or len(log.topics) != 1 + sum(found.is_indexed):
        return None
    plain = [kind for kind, is_indexed in zip(found.types, found.is_indexed, strict=True) if not is_indexed]
    topics = iter(log.topics[1:])
    try:
        values = iter(abi_decode(plain, log.data))
        return tuple(
            _topic_value(kind, next(topics)) if is_indexed else next(values)
            for kind, is_indexed in zip(found.types, found.is_indexed, strict=True)
        )
    except Undecodable:
        return None


def _topic_value(kind: str, topic: bytes) -> object:
    if _HASHED.fullmatch(kind):
        return topic
    (value,) = abi_decode([kind], topic)
    return value


def _parts(text: str) -> list[str]:
    """Split at the commas outside of tuples."""
    parts, depth = [""], 0
    for character in text:
        depth += (character == "(") - (character == ")")
        if character == "," and not depth:
            parts.append("")
        else:
            parts[-1] += character
    return parts if text.strip() else []
