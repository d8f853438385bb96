"""Keystores, against those that other tools published, and files that were damaged or made to hurt."""

import copy
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.keys.keystore import (
    DamagedKeystore,
    Keystore,
    ScryptCost,
    WrongPassword,
    decrypt,
    encrypt,
    parse,
    require_address,
    require_kind,
    require_password,
)
from rota.keys.secret import Secret
from tests.keys.kit import CHEAP, PASSWORD, vectors

PUBLISHED = vectors("keystore")
READABLE = [vector for vector in PUBLISHED if vector["name"] != "the definition, scrypt"]
WRITTEN: dict[str, Any] = json.loads(encrypt(Secret(b"\7" * 32), PASSWORD, CHEAP, {"address": "ab" * 20}))


def changed(*way: str, to: object) -> Keystore:
    """The keystore above with one field changed, or taken away."""
    keystore = Keystore(copy.deepcopy(WRITTEN))
    section: dict[str, Any] = keystore
    for name in way[:-1]:
        section = section[name]
    if to is None:
        section.pop(way[-1], None)
    else:
        section[way[-1]] = to
    return keystore


@pytest.mark.parametrize("vector", READABLE, ids=lambda vector: vector["name"])
def test_published_keystores_are_read(vector: dict[str, Any]) -> None:
    keystore = parse(Secret(json.dumps(vector["file"])))
    assert decrypt(keystore, Secret(vector["password"])).reveal().hex() == vector["secret"]


@pytest.mark.parametrize("vector", READABLE, ids=lambda vector: vector["name"])
def test_published_keystores_do_not_open_with_another_password(vector: dict[str, Any]) -> None:
    with pytest.raises(WrongPassword, match="the password is wrong, or the file has been changed"):
        decrypt(parse(Secret(json.dumps(vector["file"]))), Secret(vector["password"] + " "))


def test_the_one_published_keystore_that_scrypt_s_own_definition_forbids_is_refused_with_the_reason() -> None:
    (vector,) = (vector for vector in PUBLISHED if vector not in READABLE)
    with pytest.raises(DamagedKeystore, match=r"n is below 2\^\(16 r\), as RFC 7914 has it"):
        decrypt(parse(Secret(json.dumps(vector["file"]))), Secret(vector["password"]))


@settings(deadline=None)
@given(st.binary(min_size=1, max_size=300), st.text(min_size=1, max_size=50))
def test_what_is_written_is_read_with_its_password_alone(secret: bytes, password: str) -> None:
    content = encrypt(Secret(secret), Secret(password), CHEAP, {})
    assert decrypt(parse(Secret(content)), Secret(password)).reveal() == secret
    with pytest.raises(WrongPassword):
        decrypt(parse(Secret(content)), Secret(password + "x"))


def test_nothing_of_the_secret_is_in_what_is_written_and_no_two_are_alike() -> None:
    first, second = (encrypt(Secret(b"marker" * 5), PASSWORD, CHEAP, {}) for _ in range(2))
    assert b"marker" not in first
    assert b"marker".hex().encode() not in first
    assert json.loads(first)["crypto"]["ciphertext"] != json.loads(second)["crypto"]["ciphertext"]


def test_the_default_cost_is_that_of_the_format_s_tools() -> None:
    assert (ScryptCost().n, ScryptCost().r, ScryptCost().p) == (262_144, 8, 1)


@pytest.mark.slow
def test_the_default_cost_works() -> None:
    content = encrypt(Secret(b"\7" * 32), PASSWORD, ScryptCost(), {})
    assert decrypt(parse(Secret(content)), PASSWORD).reveal() == b"\7" * 32


@settings(deadline=None)
@given(st.sampled_from(["ciphertext", "mac"]), st.integers(0, 31), st.integers(1, 255))
def test_a_changed_byte_is_noticed(field: str, place: int, change: int) -> None:
    content = bytearray.fromhex(WRITTEN["crypto"][field])
    content[place] ^= change
    with pytest.raises(WrongPassword):
        decrypt(changed("crypto", field, to=content.hex()), PASSWORD)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"3", b"null", b"\xff", b"[" * 60_000, b'{"version": 3', b"nan"])
def test_what_is_no_json_object_is_refused(content: bytes) -> None:
    with pytest.raises(DamagedKeystore, match="a keystore is a JSON object"):
        parse(Secret(content))


@pytest.mark.parametrize("version", [1, 4, "3", True, [3], {}])
def test_another_version_is_refused(version: object) -> None:
    with pytest.raises(DamagedKeystore, match="version: must be 3"):
        parse(Secret(json.dumps({"version": version})))


@pytest.mark.parametrize(
    ("way", "to", "wrong"),
    [
        (("crypto",), None, "crypto: must be an object"),
        (("crypto",), "x", "crypto: must be an object"),
        (("crypto", "cipher"), "aes-128-cbc", "crypto.cipher: must be aes-128-ctr"),
        (("crypto", "cipher"), 7, "crypto.cipher: must be text"),
        (("crypto", "cipherparams"), None, "crypto.cipherparams: must be an object"),
        (("crypto", "cipherparams", "iv"), "00" * 15, "crypto.cipherparams.iv: must be 16 to 16 bytes in hex"),
        (("crypto", "cipherparams", "iv"), "zz" * 16, "crypto.cipherparams.iv: must be 16 to 16 bytes in hex"),
        (("crypto", "ciphertext"), "", "crypto.ciphertext: must be 1 to 4096 bytes in hex"),
        (("crypto", "ciphertext"), "00" * 4097, "crypto.ciphertext: must be 1 to 4096 bytes in hex"),
        (("crypto", "mac"), "00", "crypto.mac: must be 32 to 32 bytes in hex"),
        (("crypto", "kdf"), "argon2", "crypto.kdf: must be scrypt or pbkdf2"),
        (("crypto", "kdf"), None, "crypto.kdf: must be text"),
        (("crypto", "kdf"), "pbkdf2", "crypto.kdfparams.prf: must be text"),
        (("crypto", "kdfparams"), [], "crypto.kdfparams: must be an object"),
        (("crypto", "kdfparams", "salt"), "00" * 65, "crypto.kdfparams.salt: must be 1 to 64 bytes in hex"),
        (("crypto", "kdfparams", "dklen"), 16, "crypto.kdfparams.dklen: must be 32"),
        (("crypto", "kdfparams", "dklen"), 2**40, "crypto.kdfparams.dklen: must be a number from 1 to 32"),
        (("crypto", "kdfparams", "n"), 3, "n is a power of two"),
        (("crypto", "kdfparams", "n"), 1, "n is a power of two"),
        (("crypto", "kdfparams", "n"), True, "crypto.kdfparams.n: must be a number"),
        (("crypto", "kdfparams", "n"), 2.0, "crypto.kdfparams.n: must be a number"),
        (("crypto", "kdfparams", "n"), 2**24, "128 n r is at most"),
        (("crypto", "kdfparams", "n"), 2**60, "crypto.kdfparams.n: must be a number from 1 to 16777216"),
        (("crypto", "kdfparams", "r"), 0, "crypto.kdfparams.r: must be a number"),
        (("crypto", "kdfparams", "p"), 2**24, "n r p at most"),
    ],
)
def test_a_wrong_field_is_named_before_any_work_is_done_for_it(way: tuple[str, ...], to: object, wrong: str) -> None:
    with pytest.raises(DamagedKeystore, match=wrong):
        decrypt(changed(*way, to=to), PASSWORD)


@pytest.mark.parametrize(("prf", "rounds"), [("hmac-sha512", 1), ("hmac-sha256", 10_000_001), ("hmac-sha256", 0)])
def test_what_pbkdf2_is_asked_for_is_bounded(prf: str, rounds: int) -> None:
    keystore = changed("crypto", "kdf", to="pbkdf2")
    keystore["crypto"]["kdfparams"] = {"prf": prf, "c": rounds, "dklen": 32, "salt": "00"}
    with pytest.raises(DamagedKeystore, match=r"kdfparams\.(prf|c): must be"):
        decrypt(keystore, PASSWORD)


_JSON = st.recursive(
    # Numbers between are honest orders for work, up to the bounds, and take as long as they ask for.
    st.none() | st.booleans() | st.integers(-100, 100) | st.integers(1 << 25) | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
_WAYS = [("crypto",), ("address",), ("rota",)] + [
    ("crypto", *rest)
    for rest in [("cipher",), ("cipherparams",), ("cipherparams", "iv"), ("ciphertext",), ("mac",), ("kdf",)]
    + [("kdfparams", name) for name in ("salt", "dklen", "n", "r", "p")]
]


@settings(deadline=None)
@given(st.sampled_from(_WAYS), _JSON)
def test_whatever_a_field_holds_the_answer_is_one_of_ours(way: tuple[str, ...], to: object) -> None:
    keystore = changed(*way, to=to)
    try:
        decrypt(keystore, PASSWORD)
        require_address(keystore, b"\xab" * 20)
        require_kind(keystore, "key")
    except (DamagedKeystore, WrongPassword):
        pass


def test_the_address_in_the_clear_must_be_the_key_s() -> None:
    require_address(Keystore(address="0x" + "AB" * 20), b"\xab" * 20)
    require_address(Keystore(), b"\xab" * 20)
    with pytest.raises(DamagedKeystore, match="address: must be that of the key within"):
        require_address(Keystore(address="ab" * 20), b"\xac" * 20)


@pytest.mark.parametrize("size_bytes", [0, 1025])
def test_a_password_is_not_empty_and_not_endless(size_bytes: int) -> None:
    with pytest.raises(ValueError, match="password: 1 to 1024 bytes"):
        require_password(Secret(bytes(size_bytes)))
