"""Tokens whose coins only registered owners spend and get (KYC): owners of a transaction, and the call that registers.

The chain decides by the proof. A node that knows the roster tells beforehand who is not registered, before anything is
proved. The issuer registers owners by a public call of the contract, which its node signs only for a valid key.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from rota.domains.base import Assembly, Behind, Claim, Rejected
from rota.domains.zeto.babyjubjub import Point
from rota.domains.zeto.identities import Identities
from rota.domains.zeto.owners import point_of
from rota.domains.zeto.tree import Path
from rota.model.types import Party

_SELECTOR_BYTES: Final = 4
_WORD_BYTES: Final = 32
_REGISTER: Final = bytes.fromhex("e5857752")  # register(uint256[2],bytes)


def unregistered(work: Assembly[Any], parties: Iterable[Party]) -> str:
    """Who of these is not registered, and what to do; empty when all are, or the token has no such rule.

    A party without a key cannot be paid at all, which another error reports.
    """
    if work.roster is None:
        return ""
    assert isinstance(work.roster, Identities), "a token with registered owners has their identities"
    for party in dict.fromkeys(parties):
        key = work.verifiers.get(party, "")
        if key and not _is_in(work.roster, key):
            return (
                f"{party} is not registered with {work.contract.address}, whose coins only registered owners have: "
                f"{work.configuration.issuer} must register its key {key} first (register)"
            )
    return ""


def registers(call: bytes) -> bool:
    """Whether this call registers an owner. `Rejected` when what it registers is no key that an owner can have."""
    if not call.startswith(_REGISTER):
        return False
    x, y = (
        int.from_bytes(call[start : start + _WORD_BYTES], "big")
        for start in (_SELECTOR_BYTES, _SELECTOR_BYTES + _WORD_BYTES)
    )
    if not Point(x, y).is_key:
        text = "must be x and y of an owner's key on BabyJubJub, as ptx_resolveVerifier returns it compressed"
        raise Rejected("publicKey", text)
    return True


def path_of(claim: Claim[Any], key: Point) -> Path:
    """From an owner to the root of the roster. `Behind` when it is not there, or not any more."""
    assert isinstance(claim.roster, Identities), "a token with registered owners has their identities"
    path = claim.roster.path_of(key)
    if path is None:
        raise Behind("an owner is not registered on the chain, or not any more")
    return path


def _is_in(roster: Identities, key: str) -> bool:
    try:
        return roster.has(point_of(bytes.fromhex(key.removeprefix("0x"))))
    except ValueError:
        return False
