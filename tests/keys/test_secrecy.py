"""No secret shows: not in a `repr`, a message, a log, a copy, or a traceback with all its local variables.

Each test plants secrets that are easy to recognise, lets something go wrong, and searches everything that was told
for them, in each form in which bytes are usually written.
"""

import asyncio
import base64
import copy
import dataclasses
import logging
import pickle
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rota.keys.certificates import make_identity, read_identity
from rota.keys.derivation import master_key, read_extended_private_key
from rota.keys.files import FILE_BYTES_MAX, KeyFileError, read_private, write_new
from rota.keys.keystore import ScryptCost, decrypt, encrypt, parse
from rota.keys.mnemonics import read_phrase
from rota.keys.names import SUBMITTER
from rota.keys.node_keys import make_node_keys, open_node_keys, read_password
from rota.keys.secp256k1 import PrivateKey
from rota.keys.secret import Secret
from rota.keys.signers import FileSigner, FirstSigner, MemorySigner, WalletSigner, write_key
from rota.keys.wallet import Wallet, open_wallet, write_wallet
from rota.model.types import NodeName
from rota.ports import UnknownKey
from tests.keys.kit import CHEAP, NODE, NOW_S, WORDS

PASSWORD = "MARKER-of-the-password-0f1e2d3c"
PASSPHRASE = "MARKER-of-the-passphrase-4b5a6978"
KEY = b"MARKER-of-a-private-key-32-bytes"
WALLET = Wallet(Secret(WORDS), Secret(PASSPHRASE))
ROOT = master_key(Secret(KEY))
IDENTITY = make_identity(NODE, NOW_S)
MARKERS = [
    PASSWORD.encode(),
    PASSPHRASE.encode(),
    KEY,
    WORDS.encode(),
    b"junk",
    ROOT._key.reveal(),
    ROOT._chain_code.reveal(),
    ROOT.serialised().reveal(),
    WALLET.root._key.reveal(),
    IDENTITY.private_key.reveal().splitlines()[1],
]


def forms(marker: bytes) -> set[str]:
    return {
        marker.decode(errors="replace"),
        marker.hex(),
        marker.hex().upper(),
        repr(marker)[2:-1],
        base64.b64encode(marker).decode().rstrip("=")[:-1],
        str(int.from_bytes(marker, "big")),
        str(list(marker))[1:-1],
    }


def leaks(told: str) -> list[str]:
    return [form for marker in MARKERS for form in forms(marker) if form in told]


def told_by(error: BaseException) -> str:
    """All that a careless handler could print: message, fields, frames with their variables, and what came before."""
    summary = traceback.TracebackException.from_exception(error, capture_locals=True)
    # In the test's own frames the markers are of course to be seen.
    frames = [frame for frame in summary.stack if frame.filename != __file__]
    lines = [*traceback.StackSummary.from_list(frames).format(), str(error), repr(error.args), repr(vars(error))]
    return "\n".join(lines) + (told_by(error.__context__) if error.__context__ is not None else "")


SECRETIVE: list[Any] = [
    Secret(PASSWORD),
    PrivateKey(KEY),
    ROOT,
    ROOT.child(0),
    WALLET,
    IDENTITY,
    MemorySigner({SUBMITTER: PrivateKey(KEY)}),
    WalletSigner(WALLET),
    FirstSigner(MemorySigner({SUBMITTER: PrivateKey(KEY)}), WalletSigner(WALLET)),
]


def test_the_search_finds_what_it_is_to_find() -> None:
    for marker in MARKERS:
        assert leaks(f"a {marker!r} b")
        assert leaks(marker.hex())
        assert leaks(base64.b64encode(marker).decode())
        assert leaks(str(int.from_bytes(marker, "big")))
        assert leaks(str(bytearray(marker)))
        assert leaks(str(list(marker)))
    with pytest.raises(ValueError, match="invalid literal") as raised:
        int(PASSWORD)
    assert leaks(told_by(raised.value))
    with pytest.raises(ValueError, match="Incorrect padding") as of_a_frame:
        base64.b32decode(PASSWORD)
    assert leaks(told_by(of_a_frame.value))


def test_a_public_key_shows_where_it_stands_and_no_more() -> None:
    assert repr(ROOT.public) == f"ExtendedPublicKey(depth 0, fingerprint {ROOT.public.fingerprint.hex()})"
    assert not leaks(repr(ROOT.public))


@pytest.mark.parametrize("value", SECRETIVE, ids=lambda value: type(value).__name__)
def test_nothing_that_holds_a_secret_shows_it(value: object, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    logging.getLogger("rota").warning("a value: %s, %r, %s", value, value, {"in": [value]})
    told = [str(value), repr(value), f"{value}", f"{value!r:>50}", "%s" % value, repr((value,)), caplog.text]  # noqa: UP031
    assert not leaks("\n".join(told))
    assert "warning" in caplog.text.lower()


@pytest.mark.parametrize("value", SECRETIVE, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("dump", [pickle.dumps, copy.deepcopy, lambda value: copy.deepcopy([value])])
def test_nothing_that_holds_a_secret_is_copied_or_dumped(value: object, dump: Callable[[object], object]) -> None:
    with pytest.raises(TypeError, match=r"a secret is neither copied nor pickled|cannot pickle"):
        dump(value)


def test_a_dump_of_a_dataclass_holds_no_secret(tmp_path: Path) -> None:
    made = make_node_keys(tmp_path / "keys", NODE, Secret(PASSWORD), NOW_S, WALLET, CHEAP)
    with pytest.raises(TypeError, match="a secret is neither copied nor pickled"):
        dataclasses.asdict(made)
    assert not leaks(repr(made))
    assert "Wallet(not shown)" in repr(made)


def test_secrets_are_compared_and_formatted_without_telling() -> None:
    assert Secret(PASSWORD) == Secret(PASSWORD.encode())
    assert Secret(PASSWORD) != Secret(KEY)
    assert Secret(PASSWORD) != PASSWORD
    assert f"{Secret(PASSWORD):>100}" == "Secret(not shown)"
    with pytest.raises(TypeError, match="unhashable"):
        hash(Secret(PASSWORD))


@pytest.mark.parametrize("surrogate", [0xDCFF, 0xD800])
def test_text_that_is_no_unicode_is_boxed_all_the_same(surrogate: int) -> None:
    boxed = Secret(chr(surrogate) + PASSWORD)
    assert PASSWORD.encode() in boxed.reveal()
    assert not boxed.is_text()


def wrong_file(folder: Path, content: bytes) -> Path:
    write_new(folder / "file", Secret(content))
    return folder / "file"


def keystore(secret: bytes, **fields: object) -> bytes:
    return encrypt(Secret(secret), Secret(PASSWORD), CHEAP, fields)


def kept(kind: str) -> dict[str, str]:
    return {"kind": kind, "name": "x"}


def write_a_wallet_twice(folder: Path) -> None:
    write_wallet(folder / "wallet", WALLET, Secret(PASSWORD), CHEAP)
    write_wallet(folder / "wallet", WALLET, Secret(PASSWORD), CHEAP)


def read_a_folder_with_a_wrong_key(folder: Path) -> None:
    write_new(folder / "x.json", Secret(keystore(KEY + b"1", rota=kept("key"))))
    FileSigner(folder, Secret(PASSWORD))


def read_a_file_that_others_read(folder: Path) -> None:
    wrong_file(folder, KEY).chmod(0o644)
    read_private(folder / "file")


FAILURES: dict[str, Callable[[Path], object]] = {
    "wrong words": lambda _: read_phrase(Secret(WORDS.replace("junk", "test"))),
    "a word that is none": lambda _: read_phrase(Secret(WORDS + "MARKER-of-the-password-0f1e2d3c")),
    "too few words": lambda _: read_phrase(Secret("junk")),
    "too many words": lambda _: read_phrase(Secret(WORDS * 100)),
    "a passphrase that is no text": lambda _: Wallet(Secret(WORDS), Secret(b"\xff" + PASSPHRASE.encode())),
    "a passphrase that is too long": lambda _: Wallet(Secret(WORDS), Secret(PASSPHRASE * 99)),
    "a short seed": lambda _: master_key(Secret(KEY[:15])),
    "an extended key with a wrong checksum": lambda _: read_extended_private_key(
        Secret(ROOT.serialised().reveal()[:-1] + b"1")
    ),
    "an extended key with a wrong character": lambda _: read_extended_private_key(
        Secret(ROOT.serialised().reveal()[:-1] + b"0")
    ),
    "an extended key that is public": lambda _: read_extended_private_key(Secret(ROOT.public.serialised())),
    "a password that is too long": lambda _: encrypt(Secret(KEY), Secret(PASSWORD * 99), CHEAP, {}),
    "a wrong password": lambda _: decrypt(parse(Secret(keystore(KEY))), Secret(PASSWORD + "x")),
    "a cost that is too high": lambda _: ScryptCost(2**30),
    "a keystore that is none": lambda folder: open_wallet(wrong_file(folder, KEY), Secret(PASSWORD)),
    "a key in the clear": lambda folder: open_wallet(wrong_file(folder, b'"' + KEY.hex().encode() + b'"'), Secret("x")),
    "a key in the clear in an object": lambda folder: open_wallet(
        wrong_file(folder, b'{"key": "' + KEY.hex().encode() + b'"}'), Secret("x")
    ),
    "a wallet with wrong words": lambda folder: open_wallet(
        wrong_file(folder, keystore(WORDS.replace("junk", PASSPHRASE).encode(), rota=kept("wallet"))), Secret(PASSWORD)
    ),
    "a wallet that is a key": lambda folder: open_wallet(
        wrong_file(folder, keystore(KEY, rota=kept("key"))), Secret(PASSWORD)
    ),
    "a wallet with another address": lambda folder: open_wallet(
        wrong_file(folder, keystore(WORDS.encode(), rota=kept("wallet"), address="00" * 20)), Secret(PASSWORD)
    ),
    "a wallet that is there": write_a_wallet_twice,
    "a key that is too long": lambda folder: write_key(folder, "x", Secret(KEY + b"1"), Secret(PASSWORD), CHEAP),
    "a key that is there": lambda folder: [
        write_key(folder, "x", Secret(KEY), Secret(PASSWORD), CHEAP) for _ in range(2)
    ],
    "a folder of keys with a wrong one": read_a_folder_with_a_wrong_key,
    "no such key": lambda _: asyncio.run(MemorySigner({"x": PrivateKey(KEY)}).sign("y", bytes(32))),
    "no such name": lambda _: asyncio.run(WalletSigner(WALLET).sign("y", bytes(32))),
    "an identity that is cut short": lambda _: read_identity(Secret(IDENTITY.pem.reveal()[:-100])),
    "an identity whose key is damaged": lambda _: read_identity(
        Secret(IDENTITY.pem.reveal().replace(b"-----END PRIVATE KEY", b"x-----END PRIVATE KEY"))
    ),
    "an identity without a key": lambda _: read_identity(Secret(IDENTITY.certificate.pem)),
    "a file that others read": read_a_file_that_others_read,
    "a file that is there": lambda folder: [wrong_file(folder, KEY) for _ in range(2)],
    "a folder that is not there": lambda folder: wrong_file(folder / "x", KEY),
    "a file that is too large": lambda folder: read_private(wrong_file(folder, KEY * FILE_BYTES_MAX)),
    "a password file that is too long": lambda folder: read_password(wrong_file(folder, PASSWORD.encode() * 99)),
    "a node's keys under another password": lambda folder: [
        make_node_keys(folder / "keys", NODE, Secret(PASSWORD), NOW_S, WALLET, CHEAP),
        open_node_keys(folder / "keys", NODE, Secret(PASSWORD + "x")),
    ],
    "a node's keys from other words": lambda folder: [
        make_node_keys(folder / "keys", NODE, Secret(PASSWORD), NOW_S, WALLET, CHEAP),
        make_node_keys(folder / "keys", NODE, Secret(PASSWORD), NOW_S, Wallet(Secret(WORDS)), CHEAP),
    ],
    "a node's keys under another name": lambda folder: [
        make_node_keys(folder / "keys", NODE, Secret(PASSWORD), NOW_S, WALLET, CHEAP),
        open_node_keys(folder / "keys", NodeName("node2"), Secret(PASSWORD)),
    ],
}


@pytest.mark.parametrize("failure", FAILURES)
def test_no_failure_tells_a_secret_whatever_is_printed_of_it(
    failure: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    tmp_path.chmod(0o700)
    with pytest.raises((ValueError, KeyFileError, UnknownKey)) as raised:
        FAILURES[failure](tmp_path)
    logging.getLogger("rota").error("it failed: %s", raised.value)
    output = capfd.readouterr()
    assert str(raised.value)
    assert not leaks(told_by(raised.value) + output.out + output.err)
    assert not leaks("\n".join(record.getMessage() for record in caplog.records))
