"""A coin on its way: the formula of its encryption, by a fixed vector; and everything that must not open it."""

from __future__ import annotations

import hmac
from dataclasses import replace

import pytest
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.domains.base import ENTROPY_BYTES, Recipient, Rejected
from rota.domains.contents import Content, Told, seal
from rota.domains.zeto import encryption
from rota.domains.zeto.babyjubjub import ZERO, Point, add, compress, key_of
from rota.domains.zeto.domain import Zeto
from rota.domains.zeto.encryption import FILLED_BYTES, decrypt, encrypt
from rota.domains.zeto.field import ORDER
from rota.domains.zeto.records import ZetoCoin, ZetoMemo
from rota.model.types import ContractAddress, Leaf, Party, StateId

OWNER = 0x11F6A0F1C9D33B7A54E8813C2B0E6F9A7D40C5B8E21936FA07D4EC8B1325976
ONCE = 0x37E151628AED2A6ABF7158809CF4F3C762E7160F38B4DA56A784D9045190CFE
CONTENT = b"a coin of 7231904585517"
ABOUT = b"where it goes"
ENCRYPTED = bytes.fromhex(
    "ae2bb391e686af80761b3c6f6fdec6f762a2a16a0c9b77722be5590327aa51b0"
    "093f4f99141a081690979a591f7c8b5b5b5b3aab4f2337bde7e928361c726fb3"
    "ee81ba6bddb434dbdd3dd978fb4774af14c6373aa3506165b0e8675151a8de88"
    "d1489fccc8c1bb984c602a5279449a6d0037aa512a4029a23837ae1c2b3e8bcd"
    "5cbc1c984b9c08495332a69bbede73ef354ba843e2c3e9f7c3a3058df24acdac"
    "ff6c294de9e531cba2c3773dc647430e"
)

SECRET = bytes(range(48))
ENTROPY = bytes(range(100, 100 + ENTROPY_BYTES))
BOB = Party("bob@node2")
RECIPIENT = Recipient(BOB, ContractAddress("0x" + "c0" * 20), StateId(Leaf(bytes([7]) * 32), 1))


def by_hand(scalar: int, point: Point) -> Point:
    """A multiple by the plainest of ways."""
    result = ZERO
    for bit in reversed(range(scalar.bit_length())):
        result = add(result, result)
        if scalar >> bit & 1:
            result = add(result, point)
    return result


def test_coin_is_encrypted_as_the_fixed_vector_has_it() -> None:
    assert encrypt(CONTENT, key_of(OWNER), ONCE, ABOUT) == ENCRYPTED
    assert decrypt(ENCRYPTED, OWNER, ABOUT) == CONTENT


def test_fixed_vector_follows_from_the_formula() -> None:
    point, key = compress(key_of(ONCE)), compress(key_of(OWNER))
    shared = compress(by_hand(8 * OWNER, key_of(ONCE)))
    extracted = hmac.digest(bytes(32), shared, "sha256")
    expanded = hmac.digest(extracted, b"rota zeto coin" + point + key + b"\x01", "sha256")
    filled = CONTENT + b"\x80" + bytes(128 - 1 - len(CONTENT))
    assert point + ChaCha20Poly1305(expanded).encrypt(bytes(12), filled, ABOUT) == ENCRYPTED


def test_each_flipped_bit_is_refused() -> None:
    for place in range(len(ENCRYPTED)):
        flipped = bytearray(ENCRYPTED)
        flipped[place] ^= 1 << place % 8
        with pytest.raises(Rejected):
            decrypt(bytes(flipped), OWNER, ABOUT)


@pytest.mark.parametrize("size", [0, 31, 32, 47, 48, len(ENCRYPTED) - 1])
def test_what_is_cut_short_is_refused(size: int) -> None:
    with pytest.raises(Rejected, match="state"):
        decrypt(ENCRYPTED[:size], OWNER, ABOUT)


def test_nobody_else_opens_it_and_nowhere_else() -> None:
    for scalar, about in ((OWNER + 1, ABOUT), (ONCE, ABOUT), (OWNER, ABOUT + b"."), (OWNER, b"")):
        with pytest.raises(Rejected, match="encrypted to the owner's key, for this place"):
            decrypt(ENCRYPTED, scalar, about)


@pytest.mark.parametrize("point", [ZERO, Point(0, ORDER - 1)], ids=["zero", "of a small group"])
def test_point_of_a_small_group_tells_nothing_of_the_owner(point: Point) -> None:
    with pytest.raises(Rejected, match="large group"):
        decrypt(compress(point) + bytes(64), OWNER, ABOUT)


def test_point_has_one_form_only() -> None:
    y = int.from_bytes(ENCRYPTED[:32], "little") & ((1 << 255) - 1)
    assert y + ORDER < 1 << 255, "the vector was chosen so that there is another way to write it"
    written = (y + ORDER | int.from_bytes(ENCRYPTED[:32], "little") >> 255 << 255).to_bytes(32, "little")
    with pytest.raises(Rejected, match="in the field"):
        decrypt(written + ENCRYPTED[32:], OWNER, ABOUT)


@pytest.mark.parametrize(
    "filled",
    [
        b"",
        bytes(FILLED_BYTES),
        b"a\x80" + bytes(FILLED_BYTES - 1),
        b"a\x80" + bytes(2 * FILLED_BYTES - 2),
        b"a\x80" + bytes(FILLED_BYTES - 3) + b"\x01",
    ],
    ids=["nothing", "no end", "one too long", "a block too long", "no zeros"],
)
def test_filling_has_one_form_only(filled: bytes) -> None:
    point = compress(key_of(ONCE))
    cipher = encryption._cipher(by_hand(8 * ONCE, key_of(OWNER)), point, key_of(OWNER))
    with pytest.raises(Rejected, match="filled up to the next multiple of 128"):
        decrypt(point + cipher.encrypt(bytes(12), filled, ABOUT), OWNER, ABOUT)


def test_length_does_not_tell_how_much_a_coin_is_worth() -> None:
    sizes = {len(encrypt(coin_of(BOB, amount).content, key_of(OWNER), ONCE, ABOUT)) for amount in (1, 10**29)}
    assert len(sizes) == 1


@settings(max_examples=20, deadline=None)
@given(st.binary(max_size=3 * FILLED_BYTES), st.integers(1, (1 << 250) - 1))
def test_any_content_comes_out_as_it_went_in(content: bytes, scalar: int) -> None:
    assert decrypt(encrypt(content, key_of(OWNER), scalar, ABOUT), OWNER, ABOUT) == content


# The domain.


class Written:
    """A coin, and its bytes."""

    def __init__(self, record: ZetoCoin, readers: tuple[Party, ...]) -> None:
        self.record = record
        self.content = seal(Content(record, (Told(0, ZetoMemo(b"for the rent")),), readers, bytes(32)))


def coin_of(owner: Party, amount: int) -> Written:
    key = bytes.fromhex(Zeto().verifier_of(SECRET).removeprefix("0x"))
    return Written(ZetoCoin(amount, owner, key), (owner,))


def test_owner_reads_its_coin_and_what_was_said_with_it() -> None:
    coin = coin_of(BOB, 100)
    encrypted = Zeto().encrypt(coin.content, coin.record, RECIPIENT, ENTROPY)
    assert b"bob" not in encrypted
    assert Zeto().decrypt(encrypted, RECIPIENT, SECRET) == coin.content


@pytest.mark.parametrize(
    "other",
    [
        replace(RECIPIENT, party=Party("bob@node3")),
        replace(RECIPIENT, contract=ContractAddress("0x" + "c1" * 20)),
        replace(RECIPIENT, state=StateId(Leaf(bytes([8]) * 32), 1)),
        replace(RECIPIENT, state=StateId(Leaf(bytes([7]) * 32), 2)),
    ],
    ids=["party", "contract", "leaf", "output"],
)
def test_what_is_encrypted_for_one_place_is_nothing_at_another(other: Recipient) -> None:
    coin = coin_of(BOB, 100)
    encrypted = Zeto().encrypt(coin.content, coin.record, RECIPIENT, ENTROPY)
    with pytest.raises(Rejected, match="for this place"):
        Zeto().decrypt(encrypted, other, SECRET)


def test_only_a_coin_of_its_reader_has_a_key_to_encrypt_to() -> None:
    coin = coin_of(BOB, 100)
    nobody = replace(coin.record, owner_key=compress(Point(0, ORDER - 1)))
    for record, recipient, why in (
        (None, RECIPIENT, "must be a coin of bob@node2"),
        (ZetoMemo(b""), RECIPIENT, "must be a coin of bob@node2"),
        (coin.record, replace(RECIPIENT, party=Party("carol@node2")), "must be a coin of carol@node2"),
        (nobody, RECIPIENT, "must have the key of bob@node2"),
    ):
        with pytest.raises(Rejected, match=why):
            Zeto().encrypt(coin.content, record, recipient, ENTROPY)
