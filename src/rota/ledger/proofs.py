"""The `auth` of a ledger whose transitions are proved: what each of them shows, one after the other.

    auth = per full leaf, in order: length u16 | validUntil u64 | per input: n u8, its maker's n coins | proof

A transition's proof stands where others have the signature of its party: it binds the leaf and the validity as a
signature does, and says that who made it may. The contract keeps a hash of the coins that each transition made, so it
is shown these again for every input: their commitments, which are the transition's info. What makes coins of nothing
shows no makers; its proof is the issuer's signature.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from rota.digests import WORD_BYTES, keccak
from rota.payload import Entry
from rota.types import Leaf, Transition

PROOF_BYTES: Final = 256

CoinsOf = Callable[[Leaf], bytes]


def encode_proofs(entries: tuple[Entry, ...], coins_of: CoinsOf) -> bytes:
    """What is shown for each transition that is given in full; `coins_of` has what the makers of inputs made."""
    shown = [_shown(entry, coins_of) for entry in entries if isinstance(entry, Transition)]
    return b"".join(len(each).to_bytes(2, "big") + each for each in shown)


def coins_in(transition: Transition) -> bytes:
    """The commitments of the coins that a transition makes, as the contract hashes them."""
    return b"".join(transition.info)


def binding_of(leaf: Leaf, valid_until_s: int) -> bytes:
    """What a proof binds, before it is reduced to the field; an issuer signs it as it is."""
    return keccak(leaf + valid_until_s.to_bytes(WORD_BYTES, "big"))


def _shown(transition: Transition, coins_of: CoinsOf) -> bytes:
    makers = [coins_of(state.leaf) for state in transition.inputs]
    return b"".join(
        (
            transition.valid_until_s.to_bytes(8, "big"),
            *(bytes((len(coins) // WORD_BYTES,)) + coins for coins in makers),
            transition.signature,
        )
    )
