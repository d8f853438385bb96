"""The root of an ordered list, as block headers commit to their transactions and receipts.

It is the root of a Merkle-Patricia trie whose keys are the RLP of the positions 0, 1, 2 … and whose values are the
encoded items. The whole list is known, so the trie is never built: its nodes are hashed from the leaves up.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rota.ledger import rlp
from rota.model.digests import WORD_BYTES, keccak

EMPTY_ROOT: Final = keccak(rlp.encode(b""))

_BRANCHES: Final = 16
_LEAF_FLAG: Final = 2


def root_of(items: Sequence[bytes]) -> bytes:
    """Return the root that commits to these items in this order."""
    if not items:
        return EMPTY_ROOT
    pairs = sorted((_nibbles(rlp.encode(rlp.encode_unsigned(position))), item) for position, item in enumerate(items))
    return keccak(rlp.encode(_node(pairs, 0)))


def _node(pairs: list[tuple[bytes, bytes]], depth: int) -> rlp.Item:
    """Return the node over pairs, sorted by key, whose keys are the same up to `depth`."""
    first, last = pairs[0][0], pairs[-1][0]
    if len(pairs) == 1:
        return (_packed_path(first[depth:], _LEAF_FLAG), pairs[0][1])
    shared = depth
    while first[shared] == last[shared]:
        shared += 1
    if shared > depth:
        return (_packed_path(first[depth:shared], 0), _reference(_node(pairs, shared)))
    # No key of a position is a prefix of another, so a branch has no value of its own.
    branches: list[rlp.Item] = [b""] * (_BRANCHES + 1)
    start = 0
    while start < len(pairs):
        nibble = pairs[start][0][depth]
        end = start
        while end < len(pairs) and pairs[end][0][depth] == nibble:
            end += 1
        branches[nibble] = _reference(_node(pairs[start:end], depth + 1))
        start = end
    return branches


def _reference(node: rlp.Item) -> rlp.Item:
    """Return the node itself, embedded in its parent, if it is shorter than a hash, else its hash."""
    encoded = rlp.encode(node)
    return node if len(encoded) < WORD_BYTES else keccak(encoded)


def _nibbles(key: bytes) -> bytes:
    return bytes(nibble for byte in key for nibble in (byte >> 4, byte & 0xF))


def _packed_path(nibbles: bytes, flag: int) -> bytes:
    """Pack two nibbles a byte, after one that marks whether the node is a leaf and whether the count is odd."""
    head = bytes([flag + 1]) if len(nibbles) % 2 else bytes([flag, 0])
    full = head + nibbles
    return bytes(full[place] << 4 | full[place + 1] for place in range(0, len(full), 2))
