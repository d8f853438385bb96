"""One-time keys: an intent's id belongs to a key that only its party can derive, and shows nothing of the party."""

from __future__ import annotations

import pytest

from rota.keys.names import coins_key
from rota.keys.one_time import OneTimeKeys, is_signed_by_intent
from rota.keys.secp256k1 import PrivateKey, recover_address
from rota.keys.signers import MemorySigner
from rota.model.digests import bound_hash, intent_of
from rota.model.types import ContractAddress, Leaf, NodeName, Party
from rota.ports import UnknownKey

NODE = NodeName("node1")
ALICE, BOB = Party("alice@node1"), Party("bob@node1")
SIGNER = MemorySigner({coins_key(party): PrivateKey(bytes([7]) * 31 + party[:1].encode()) for party in (ALICE, BOB)})
KEYS = OneTimeKeys(NODE, SIGNER)
CONTRACT, OTHER = ContractAddress("0x" + "11" * 20), ContractAddress("0x" + "22" * 20)
NONCE = bytes(range(16))
LEAF, VALID_UNTIL_S = Leaf(b"\x05" * 32), 1_000


def test_signature_is_by_the_key_of_the_id_and_survives_a_restart() -> None:
    intent, binding = KEYS.id_of(ALICE, CONTRACT, NONCE), bound_hash(LEAF, VALID_UNTIL_S)
    signature = KEYS.sign(ALICE, CONTRACT, NONCE, intent, binding)
    assert intent_of(recover_address(binding, signature)) == intent
    assert is_signed_by_intent(intent, LEAF, VALID_UNTIL_S, signature)
    assert OneTimeKeys(NODE, SIGNER).sign(ALICE, CONTRACT, NONCE, intent, binding) == signature


def test_ids_of_one_party_have_nothing_in_common() -> None:
    """Another nonce, contract or party gives another key, of which the public id shows only a hash."""
    nonces = [number.to_bytes(16, "big") for number in range(50)]
    ids = [
        KEYS.id_of(party, contract, nonce)
        for party in (ALICE, BOB)
        for contract in (CONTRACT, OTHER)
        for nonce in nonces
    ]
    assert len({intent[:4] for intent in ids}) == len(ids)


def test_stranger_that_knows_the_nonce_cannot_sign_for_the_id() -> None:
    intent, binding = KEYS.id_of(ALICE, CONTRACT, NONCE), bound_hash(LEAF, VALID_UNTIL_S)
    with pytest.raises(UnknownKey, match="is not an id of bob@node1"):
        KEYS.sign(BOB, CONTRACT, NONCE, intent, binding)
    for contract, nonce in ((OTHER, NONCE), (CONTRACT, bytes(16))):
        with pytest.raises(UnknownKey, match="is not an id of alice@node1"):
            KEYS.sign(ALICE, contract, nonce, intent, binding)
    with pytest.raises(UnknownKey, match="not one of node1"):
        KEYS.id_of(Party("alice@node2"), CONTRACT, NONCE)
    with pytest.raises(UnknownKey, match="16 bytes, not 0"):
        KEYS.sign(ALICE, CONTRACT, b"", intent, binding)


def test_signature_of_another_leaf_bound_or_id_is_not_ours() -> None:
    intent = KEYS.id_of(ALICE, CONTRACT, NONCE)
    signature = KEYS.sign(ALICE, CONTRACT, NONCE, intent, bound_hash(LEAF, VALID_UNTIL_S))
    assert is_signed_by_intent(intent, LEAF, VALID_UNTIL_S, signature + b"a proof")
    assert not is_signed_by_intent(intent, Leaf(b"\x06" * 32), VALID_UNTIL_S, signature)
    assert not is_signed_by_intent(intent, LEAF, VALID_UNTIL_S + 1, signature)
    assert not is_signed_by_intent(KEYS.id_of(BOB, CONTRACT, NONCE), LEAF, VALID_UNTIL_S, signature)
    for nonsense in (b"", signature[:63], bytes(64), b"\xff" * 64):
        assert not is_signed_by_intent(intent, LEAF, VALID_UNTIL_S, nonsense)
