"""Signatures, against the examples that the improvement proposals publish."""

import pytest
import sha3
from hypothesis import given
from hypothesis import strategies as st

from rota.keys import secp256k1
from rota.keys.secp256k1 import ORDER, PrivateKey, from_compact, private_key, recover_address, to_compact

# The two examples of EIP-2098: what a wallet signed, and both forms of the signature.
EIP_2098_SECRET = bytes.fromhex("1234567890" * 6 + "1234")
EIP_2098 = [
    pytest.param(
        b"Hello World",
        "68a020a209d3d56c46f38cc50a33f704f4a9a10a59377f8dd762ac66910e9b90"
        "7e865ad05c4035ab5792787d4a0297a43617ae897930a6fe4d822b8faea5206400",
        "68a020a209d3d56c46f38cc50a33f704f4a9a10a59377f8dd762ac66910e9b90"
        "7e865ad05c4035ab5792787d4a0297a43617ae897930a6fe4d822b8faea52064",
        id="parity 0",
    ),
    pytest.param(
        b"It's a small(er) world",
        "9328da16089fcba9bececa81663203989f2df5fe1faa6291a45381c81bd17f76"
        "139c6d6b623b42da56557e5e734a43dc83345ddfadec52cbe24d0cc64f55079301",
        "9328da16089fcba9bececa81663203989f2df5fe1faa6291a45381c81bd17f76"
        "939c6d6b623b42da56557e5e734a43dc83345ddfadec52cbe24d0cc64f550793",
        id="parity 1",
    ),
]
KEY = PrivateKey(b"\x46" * 32)
DIGEST = bytes(range(32))
# Made by another implementation (eth-keys) with the same key and hash.
SIGNATURE = bytes.fromhex(
    "3b6f00ad3dacf70af9a50cdb2a20b0e8c7daa0d13c00e2cb295848c0135db4a8"
    "0db9600f7fa88e56099b0a6efdbcfb7b5f899a4718fd82d82f36814e2d83d46d00"
)


def wallet_hash(message: bytes) -> bytes:
    """What a wallet signs of a message (EIP-191)."""
    digest: bytes = sha3.keccak_256(b"\x19Ethereum Signed Message:\n%d%b" % (len(message), message)).digest()
    return digest


@pytest.mark.parametrize(("message", "signature", "compact"), EIP_2098)
def test_signatures_are_those_that_eip_2098_publishes(message: bytes, signature: str, compact: str) -> None:
    key = PrivateKey(EIP_2098_SECRET)
    assert key.sign(wallet_hash(message)).hex() == signature
    assert key.sign_compact(wallet_hash(message)).hex() == compact
    assert from_compact(bytes.fromhex(compact)).hex() == signature


def test_a_key_has_the_address_and_the_signature_that_others_compute() -> None:
    assert KEY.address.hex() == "9d8a62f656a8d1615c1294fd71e9cfb3e4855a4f"
    assert KEY.sign(DIGEST) == SIGNATURE


@given(st.integers(1, ORDER - 1), st.binary(min_size=32, max_size=32))
def test_whatever_a_key_signs_recovers_to_its_address_in_both_forms(secret: int, digest: bytes) -> None:
    key = PrivateKey(secret.to_bytes(32, "big"))
    signature = key.sign(digest)
    assert signature[64] in (0, 1)
    assert int.from_bytes(signature[32:64], "big") <= ORDER // 2
    assert recover_address(digest, signature) == key.address
    assert recover_address(digest, to_compact(signature)) == key.address
    assert recover_address(digest, signature[:64] + bytes([signature[64] + 27])) == key.address
    assert from_compact(to_compact(signature)) == signature


def test_the_twin_of_a_signature_with_a_high_s_is_refused() -> None:
    s = ORDER - int.from_bytes(SIGNATURE[32:64], "big")
    twin = SIGNATURE[:32] + s.to_bytes(32, "big") + bytes([1 - SIGNATURE[64]])
    with pytest.raises(ValueError, match="lower half"):
        recover_address(DIGEST, twin)


@pytest.mark.parametrize(
    ("digest", "signature", "flaw"),
    [
        (DIGEST[:-1], SIGNATURE, "a hash of 32 bytes, not 31"),
        (DIGEST, SIGNATURE[:-2], "65 bytes, or 64 when compact, not 63"),
        (DIGEST, SIGNATURE[:64] + b"\x02", "recovery id is 0, 1, 27 or 28, not 2"),
        (DIGEST, bytes(32) + SIGNATURE[32:], "r is not above 0"),
        (DIGEST, ORDER.to_bytes(32, "big") + SIGNATURE[32:], "r is not above 0"),
        (DIGEST, SIGNATURE[:32] + bytes(32) + SIGNATURE[64:], "s is not above 0"),
        (DIGEST, (5).to_bytes(32, "big") + SIGNATURE[32:], "no point of the curve"),
    ],
)
def test_a_signature_that_is_no_good_is_refused_with_what_is_wrong(digest: bytes, signature: bytes, flaw: str) -> None:
    with pytest.raises(ValueError, match=flaw):
        recover_address(digest, signature)


def test_a_compact_signature_of_another_size_is_refused() -> None:
    with pytest.raises(ValueError, match="64 bytes, not 65"):
        from_compact(SIGNATURE)


@pytest.mark.parametrize(
    ("secret", "flaw"),
    [
        (b"\x01" * 31, "32 bytes, not 31"),
        (bytes(32), "above 0 and below the order"),
        (ORDER.to_bytes(32, "big"), "above 0 and below the order"),
    ],
)
def test_bytes_that_are_no_private_key_are_refused_and_not_shown(secret: bytes, flaw: str) -> None:
    with pytest.raises(ValueError, match=flaw) as error:
        PrivateKey(secret)
    assert secret.hex() not in str(error.value)


def test_a_key_does_not_show_its_secret() -> None:
    assert repr(KEY) == "PrivateKey(of 0x9d8a62f656a8d1615c1294fd71e9cfb3e4855a4f)"


def test_a_key_object_is_made_once() -> None:
    assert private_key(b"\x46" * 32) is private_key(b"\x46" * 32)
    assert secp256k1.KEYS_KEPT_MAX > 0
