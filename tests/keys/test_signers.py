"""Wallets in files and the three signers."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.keys import signers
from rota.keys.files import AlreadyThere, KeyFileError, NotThere, UnsafePermissions
from rota.keys.keystore import encrypt
from rota.keys.names import SUBMITTER, endorser_key, party_key
from rota.keys.secp256k1 import ORDER, PrivateKey, recover_address
from rota.keys.secret import Secret
from rota.keys.signers import FileSigner, FirstSigner, MemorySigner, WalletSigner, read_key, write_key
from rota.keys.wallet import Wallet, open_wallet, write_wallet
from rota.model.types import ContractAddress, IntentId, NodeName, Party
from rota.ports import Signer, UnknownKey
from tests.keys.kit import ALICE, CHEAP, DEPLOYMENT, NODE, PASSWORD, WALLET, WORDS

KEY = Secret(b"\x46" * 32)
ADDRESS = ContractAddress("0x9d8a62f656a8d1615c1294fd71e9cfb3e4855a4f")
DIGEST = bytes(range(32))


def address_of_signature(signer: Signer, name: str, digest: bytes) -> str:
    signature = asyncio.run(signer.sign(name, digest))
    assert len(signature) == 65
    return "0x" + recover_address(digest, signature).hex()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "imported"


def test_a_wallet_is_read_as_it_was_written(tmp_path: Path) -> None:
    for number, wallet in enumerate((WALLET, Wallet(Secret(WORDS), Secret("Straße\nname")))):
        path = tmp_path / str(number)
        write_wallet(path, wallet, PASSWORD, CHEAP)
        opened = open_wallet(path, PASSWORD)
        assert opened == wallet
        assert opened.passphrase == wallet.passphrase
        assert json.loads(path.read_text())["address"] == wallet.submitter_address.hex()


def test_a_passphrase_makes_another_wallet() -> None:
    assert Wallet(Secret(WORDS), Secret("a")) != WALLET
    assert Wallet(Secret(WORDS), Secret("a")) != Wallet(Secret(WORDS), Secret("b"))


@pytest.mark.parametrize(
    ("passphrase", "wrong"), [(b"", "1 to 1024"), (b"x" * 1025, "1 to 1024"), (b"\xff", "must be UTF-8")]
)
def test_a_passphrase_is_text_of_a_usual_size_or_not_there(passphrase: bytes, wrong: str) -> None:
    with pytest.raises(ValueError, match=f"passphrase: .*{wrong}"):
        Wallet(Secret(WORDS), Secret(passphrase))


def test_a_wallet_does_not_open_with_another_password(tmp_path: Path) -> None:
    write_wallet(tmp_path / "wallet.json", WALLET, PASSWORD, CHEAP)
    with pytest.raises(KeyFileError, match=r"wallet\.json: the password is wrong, or the file has been changed"):
        open_wallet(tmp_path / "wallet.json", Secret("another"))


def test_a_key_is_not_taken_for_a_wallet_nor_a_wallet_for_a_key(tmp_path: Path, folder: Path) -> None:
    path = write_key(folder, SUBMITTER, KEY, PASSWORD, CHEAP)
    with pytest.raises(KeyFileError, match=r"rota\.kind: must be wallet"):
        open_wallet(path, PASSWORD)
    write_wallet(tmp_path / "wallet.json", WALLET, PASSWORD, CHEAP)
    with pytest.raises(KeyFileError, match=r"rota\.kind: must be key"):
        read_key(tmp_path / "wallet.json", PASSWORD)


@pytest.mark.parametrize("content", ["", "test " * 12, "no words at all"])
def test_a_wallet_without_proper_words_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "wallet.json"
    path.touch(mode=0o600)
    path.write_bytes(encrypt(Secret(content + "\n"), PASSWORD, CHEAP, {"rota": {"kind": "wallet"}}))
    with pytest.raises(KeyFileError, match="mnemonic: "):
        open_wallet(path, PASSWORD)


def test_a_wallet_whose_address_was_changed_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "wallet.json"
    write_wallet(path, WALLET, PASSWORD, CHEAP)
    keystore = json.loads(path.read_text())
    keystore["address"] = "00" * 20
    path.write_text(json.dumps(keystore))
    with pytest.raises(KeyFileError, match="address: must be that of the key within"):
        open_wallet(path, PASSWORD)


@settings(deadline=None)
@given(st.binary(min_size=32, max_size=32))
def test_whatever_a_signer_signs_recovers_to_the_address_that_it_tells(digest: bytes) -> None:
    memory = MemorySigner({SUBMITTER: PrivateKey(KEY.reveal())})
    assert address_of_signature(memory, SUBMITTER, digest) == memory.address_of(SUBMITTER) == ADDRESS
    wallet = WalletSigner(WALLET)
    for name in (SUBMITTER, party_key(ALICE), endorser_key(NODE, DEPLOYMENT)):
        assert address_of_signature(wallet, name, digest) == wallet.address_of(name)


@settings(deadline=None)
@given(st.lists(st.text(min_size=1, max_size=20), unique=True, max_size=8))
def test_no_two_parties_show_the_same_address(parties: list[str]) -> None:
    signer = WalletSigner(WALLET)
    assert len({signer.address_of(party_key(Party(party))) for party in parties}) == len(parties)


@settings(deadline=None)
@given(st.lists(st.binary(min_size=16, max_size=16), unique=True, max_size=8))
def test_no_two_contracts_show_the_same_endorser(deployments: list[bytes]) -> None:
    signer = WalletSigner(WALLET)
    names = [endorser_key(NODE, IntentId(deployment)) for deployment in deployments]
    assert len({signer.address_of(name) for name in names}) == len(names)


def test_two_nodes_with_one_wallet_still_have_keys_of_their_own() -> None:
    signer = WalletSigner(WALLET)
    names = [endorser_key(NodeName(node), DEPLOYMENT) for node in ("node1", "node2")]
    assert signer.address_of(names[0]) != signer.address_of(names[1])


def test_a_wallet_keeps_the_keys_that_were_used_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signers, "DERIVED_KEYS_MAX", 2)
    signer = WalletSigner(WALLET)
    names = [party_key(Party(f"p{number}@node1")) for number in range(3)]
    addresses = [signer.address_of(name) for name in (names[0], names[1], names[0], names[2], names[1])]
    assert list(signer._kept) == [names[2], names[1]]
    assert addresses[1] == addresses[4]
    assert addresses[0] == addresses[2]


@pytest.mark.parametrize("signer", [MemorySigner({}), WalletSigner(WALLET), FirstSigner(MemorySigner({}))], ids=repr)
def test_a_signer_without_the_key_says_so(signer: Signer) -> None:
    with pytest.raises(UnknownKey, match="nobody"):
        signer.address_of("nobody")
    with pytest.raises(UnknownKey, match="nobody"):
        asyncio.run(signer.sign("nobody", DIGEST))


def test_a_file_signer_has_the_keys_of_its_folder(folder: Path) -> None:
    write_key(folder, SUBMITTER, KEY, PASSWORD, CHEAP)
    write_key(folder, party_key(ALICE), Secret(b"\x47" * 32), PASSWORD, CHEAP)
    signer = FileSigner(folder, PASSWORD)
    assert signer.address_of(SUBMITTER) == ADDRESS
    assert address_of_signature(signer, SUBMITTER, DIGEST) == ADDRESS
    assert signer.address_of(party_key(ALICE)) != ADDRESS


def test_an_imported_key_stands_before_the_derived_one(folder: Path) -> None:
    write_key(folder, SUBMITTER, KEY, PASSWORD, CHEAP)
    signer = FirstSigner(FileSigner(folder, PASSWORD), WalletSigner(WALLET))
    assert signer.address_of(SUBMITTER) == address_of_signature(signer, SUBMITTER, DIGEST) == ADDRESS
    assert signer.address_of(party_key(ALICE)) == WalletSigner(WALLET).address_of(party_key(ALICE))


def test_a_key_is_not_overwritten(folder: Path) -> None:
    write_key(folder, SUBMITTER, KEY, PASSWORD, CHEAP)
    with pytest.raises(AlreadyThere):
        write_key(folder, SUBMITTER, Secret(b"\x47" * 32), PASSWORD, CHEAP)


@pytest.mark.parametrize("secret", [b"", bytes(32), ORDER.to_bytes(32, "big"), b"\1" * 33])
def test_what_is_no_key_is_neither_written_nor_read(folder: Path, secret: bytes) -> None:
    with pytest.raises(ValueError, match="the secret must be a private key of secp256k1"):
        write_key(folder, SUBMITTER, Secret(secret), PASSWORD, CHEAP)
    if secret:
        path = folder.with_suffix(".json")
        path.touch(mode=0o600)
        path.write_bytes(encrypt(Secret(secret), PASSWORD, CHEAP, {"rota": {"kind": "key", "name": "x"}}))
        with pytest.raises(KeyFileError, match="the secret must be a private key of secp256k1"):
            read_key(path, PASSWORD)


@pytest.mark.parametrize("name", [None, "", 7])
def test_a_key_file_without_a_name_is_refused(tmp_path: Path, name: object) -> None:
    path = tmp_path / "key.json"
    path.touch(mode=0o600)
    fields: dict[str, Any] = {"rota": {"kind": "key", "name": name}}
    path.write_bytes(encrypt(KEY, PASSWORD, CHEAP, fields))
    with pytest.raises(KeyFileError, match=r"rota\.name: must be the name of the key"):
        read_key(path, PASSWORD)


def test_a_key_without_its_leading_zeros_is_read(tmp_path: Path) -> None:
    path = tmp_path / "key.json"
    path.touch(mode=0o600)
    short = Secret(bytes.fromhex("81c29e8142bb6a81bef5a92bda7a8328a5c85bb2f9542e76f9b0f94fc018"))
    path.write_bytes(encrypt(short, PASSWORD, CHEAP, {"rota": {"kind": "key", "name": "x"}}))
    assert read_key(path, PASSWORD)[1].address.hex() == "31e9d1e6d844bd3a536800ef8d8be6a9975db509"


def test_a_folder_that_is_not_ours_alone_is_refused(folder: Path) -> None:
    with pytest.raises(NotThere):
        FileSigner(folder, PASSWORD)
    folder.mkdir(mode=0o755)
    with pytest.raises(UnsafePermissions):
        FileSigner(folder, PASSWORD)


def test_two_files_with_one_name_are_refused(folder: Path) -> None:
    path = write_key(folder, SUBMITTER, KEY, PASSWORD, CHEAP)
    copied = path.with_name("copy.json")
    copied.touch(mode=0o600)
    copied.write_bytes(path.read_bytes())
    with pytest.raises(KeyFileError, match=r"rota\.name: another file has the name submitter too"):
        FileSigner(folder, PASSWORD)


def test_a_folder_with_too_many_keys_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signers, "FILES_MAX", 1)
    write_key(folder, "a", KEY, PASSWORD, CHEAP)
    write_key(folder, "b", KEY, PASSWORD, CHEAP)
    with pytest.raises(KeyFileError, match="at most 1 keys, not 2"):
        FileSigner(folder, PASSWORD)
