"""The `auth` of a ledger whose transitions are proved: the data of each transition, one after the other.

    auth = per full leaf: length u16 | validUntil u64 | signature of the intent's key 64 | [root 32]
           | per state: n u8, its maker's n coins | [signature of a depositor 64] | [root of the roster 32] | proof

Where other ledgers have the signature of a party, a transition has the signature of its intent's key (`keys.one_time`),
then its proof. Both bind the leaf and the validity. The signature proves that the id is its sender's, the proof that
its maker may spend its inputs. An empty transition has no proof. The contract keeps a hash of the coins that each
transition made, so it gets these again for every state that a proof names: their commitments, which are the
transition's info. A transition that makes coins of nothing has no makers; its proof is the issuer's signature.

Where the spent coin is hidden, a proof is for a root of the tree of all coins, which precedes it. Where only registered
owners have coins, it is for a root of their roster too. In a transition both precede the proof, of which then two
points are compressed; for the contract they are decompressed. The number of roots follows from the length, and the
highest bit of the first one, which no root has, marks that the last one is that of the roster.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from rota.calldata import Entry, shown_states
from rota.domains.base import Roots
from rota.model.digests import WORD_BYTES, bound_hash
from rota.model.types import Leaf, Transition

PROOF_BYTES: Final = 256
SIGNATURE_BYTES: Final = 64
# A's x | B | C's x; a point's second number has one of two values, of which the highest bit marks the odd one.
COMPRESSED_BYTES: Final = 6 * WORD_BYTES
ROOTS_MAX: Final = 2
POINT_BYTES: Final = 2 * WORD_BYTES
BASE_FIELD: Final = 21888242871839275222246405745257275088696311157297823662689037894645226208583
CURVE_CONSTANT: Final = 3
ODD: Final = 1 << 255
ROSTER: Final = 0x80

CoinsOf = Callable[[Leaf], bytes]


def encode_proofs(entries: tuple[Entry, ...], coins_of: CoinsOf) -> bytes:
    """Return the data of each transition that is given in full; `coins_of` returns the coins of an input's maker."""
    shown = [_shown(entry, coins_of) for entry in entries if isinstance(entry, Transition)]
    return b"".join(len(each).to_bytes(2, "big") + each for each in shown)


def coins_in(transition: Transition) -> bytes:
    """Return the commitments of the coins that a transition makes, as the contract hashes them."""
    return b"".join(transition.info)


def binding_of(leaf: Leaf, valid_until_s: int) -> bytes:
    """Return the hash that a proof binds, before reduction to the field; an intent's key and an issuer sign it."""
    return bound_hash(leaf, valid_until_s)


def signature_and_rest(signature: bytes) -> tuple[bytes, bytes]:
    """Split into the signature of the intent's key, and the proof after it."""
    return signature[:SIGNATURE_BYTES], signature[SIGNATURE_BYTES:]


def rooted(roots: Roots, proof: bytes) -> bytes:
    """Return a proof with its roots, in the form that follows the signature of the intent's key."""
    assert len(proof) == PROOF_BYTES, f"a proof is {PROOF_BYTES} bytes, not {len(proof)}"
    shown = bytearray(roots.commitments + roots.roster)
    if not shown:
        return proof
    assert {len(roots.commitments), len(roots.roster)} <= {0, WORD_BYTES}, f"a root is {WORD_BYTES} bytes"
    assert not shown[0] & ROSTER, "a root is a number of the field"
    shown[0] |= ROSTER if roots.roster else 0
    first, last = proof[:POINT_BYTES], proof[-POINT_BYTES:]
    return bytes(shown) + _compressed(first) + proof[POINT_BYTES:-POINT_BYTES] + _compressed(last)


def roots_and_proof(proof: bytes) -> tuple[Roots, bytes]:
    """Undo `rooted`; without a root, return no roots and all of it. A depositor's signature stays before the proof."""
    for count in range(1, ROOTS_MAX + 1):
        size = COMPRESSED_BYTES + WORD_BYTES * count
        head, rest = proof[:-size], proof[-size:]
        if len(proof) - size not in (0, SIGNATURE_BYTES):
            continue
        has_roster = bool(rest[0] & ROSTER)
        if count == ROOTS_MAX and not has_roster:
            break
        shown = bytes((rest[0] & ~ROSTER,)) + rest[1 : WORD_BYTES * count]
        roster = shown[-WORD_BYTES:] if has_roster else b""
        points = rest[WORD_BYTES * count :]
        first, last = points[:WORD_BYTES], points[-WORD_BYTES:]
        written = _written_out(first) + points[WORD_BYTES:-WORD_BYTES] + _written_out(last)
        return Roots(shown[: len(shown) - len(roster)], roster), head + written
    return Roots(), proof


def _shown(transition: Transition, coins_of: CoinsOf) -> bytes:
    makers = [coins_of(state.leaf) for state in shown_states(transition)]
    signature, rest = signature_and_rest(transition.signature)
    roots, proof = roots_and_proof(rest)
    return b"".join(
        (
            transition.valid_until_s.to_bytes(8, "big"),
            signature,
            roots.commitments,
            *(bytes((len(coins) // WORD_BYTES,)) + coins for coins in makers),
            proof[:-PROOF_BYTES],
            roots.roster,
            proof[-PROOF_BYTES:],
        )
    )


def _compressed(point: bytes) -> bytes:
    x, y = (int.from_bytes(point[start : start + WORD_BYTES], "big") for start in (0, WORD_BYTES))
    return (x | (ODD if y & 1 else 0)).to_bytes(WORD_BYTES, "big")


def _written_out(compressed: bytes) -> bytes:
    """Return the uncompressed point; for an invalid one, bytes that no verifier accepts."""
    number = int.from_bytes(compressed, "big")
    x = number & ~ODD
    # The order of this field is 3 mod 4: this power is a square root, if there is one.
    y = pow(x**3 + CURVE_CONSTANT, (BASE_FIELD + 1) // 4, BASE_FIELD)
    if y & 1 != number >> 255:
        y = BASE_FIELD - y
    return x.to_bytes(WORD_BYTES, "big") + y.to_bytes(WORD_BYTES, "big")
