"""What a transition that is proved shows the ledger: its root, the makers of what it names, and its proof."""

from __future__ import annotations

import random

import pytest

from rota.calldata import nullifier_reference
from rota.domains.base import Roots
from rota.domains.zeto.field import ORDER
from rota.ledger.proofs import BASE_FIELD, PROOF_BYTES, encode_proofs, rooted, roots_and_proof, signature_and_rest
from rota.model.digests import keccak
from rota.model.types import IntentId, Leaf, StateId, Transition
from rota.wire.limits import DEFAULT_LIMITS

ROOT, ROSTER = [(int.from_bytes(keccak(text), "big") % ORDER).to_bytes(32, "big") for text in (b"root", b"roster")]
ALL_ROOTS = (Roots(ROOT), Roots(roster=ROSTER), Roots(ROOT, ROSTER), Roots(bytes(32), ROSTER))
MAKER, COINS = Leaf(keccak(b"maker")), keccak(b"one coin") + keccak(b"another")


def word(number: int) -> bytes:
    return number.to_bytes(32, "big")


def point(chance: random.Random) -> bytes:
    """One of the curve y² = x³ + 3."""
    while True:
        x = chance.randrange(BASE_FIELD)
        y = pow(x**3 + 3, (BASE_FIELD + 1) // 4, BASE_FIELD)
        if y * y % BASE_FIELD == (x**3 + 3) % BASE_FIELD:
            return word(x) + word(chance.choice((y, BASE_FIELD - y)))


def proof(chance: random.Random) -> bytes:
    return point(chance) + chance.randbytes(128) + point(chance)


@pytest.mark.parametrize("roots", ALL_ROOTS)
def test_roots_and_proof_go_where_a_signature_has_room_and_come_back(roots: Roots) -> None:
    chance = random.Random(1)
    for _ in range(50):
        made = proof(chance)
        intent = chance.randbytes(64)
        shown = rooted(roots, made)
        assert len(intent + intent + shown) <= DEFAULT_LIMITS.signature_bytes_max
        assert signature_and_rest(intent + shown) == (intent, shown)
        assert roots_and_proof(shown) == (roots, made)
        depositor = chance.randbytes(64)
        assert roots_and_proof(depositor + shown) == (roots, depositor + made)
        assert rooted(Roots(), made) == made
        for without_root in (made, depositor, depositor + made):
            assert roots_and_proof(without_root) == (Roots(), without_root)


@pytest.mark.parametrize("roots", ALL_ROOTS)
def test_bytes_that_are_no_proof_are_written_out_as_some_that_no_ledger_takes(roots: Roots) -> None:
    _, written = roots_and_proof(b"\xff" * len(rooted(roots, proof(random.Random(2)))))
    assert len(written) == PROOF_BYTES


def test_makers_are_shown_of_what_is_spent_by_name_and_of_what_is_read_beside_nullifiers() -> None:
    state, nullifier = StateId(MAKER, 1), nullifier_reference(keccak(b"nullifier"))
    made = proof(random.Random(3))
    validity = (7).to_bytes(8, "big")

    def shown(inputs: tuple[StateId, ...], reads: tuple[StateId, ...], signature: bytes) -> bytes:
        own = b"\7" * 64
        transition = Transition(IntentId(bytes(16)), Leaf(bytes(32)), inputs, reads, (), (), 7, own + signature)
        auth = encode_proofs((transition,), {MAKER: COINS}.__getitem__)
        assert int.from_bytes(auth[:2], "big") == len(auth) - 2
        assert auth[10 : 10 + 64] == own
        return auth[2:10] + auth[10 + 64 :]

    assert shown((state,), (), made) == validity + b"\x02" + COINS + made
    assert shown((nullifier,), (), rooted(Roots(ROOT), made)) == validity + ROOT + made
    assert shown((nullifier,), (state,), rooted(Roots(ROOT), made)) == validity + ROOT + b"\x02" + COINS + made
    assert shown((), (), rooted(Roots(bytes(32)), made)) == validity + bytes(32) + made
    assert shown((state,), (), rooted(Roots(b"", ROSTER), made)) == validity + b"\x02" + COINS + ROSTER + made
    both, depositor = rooted(Roots(ROOT, ROSTER), made), b"\5" * 64
    assert shown((nullifier,), (), both) == validity + ROOT + ROSTER + made
    assert shown((nullifier,), (state,), both) == validity + ROOT + b"\x02" + COINS + ROSTER + made
    assert shown((), (), depositor + both) == validity + ROOT + depositor + ROSTER + made
    assert shown((), (), b"") == validity, "an empty transition shows nothing else"
