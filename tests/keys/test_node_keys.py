"""All key material of a node: made once, completed if it was cut short, never overwritten."""

import stat
from pathlib import Path

import pytest

from rota.keys.files import AlreadyThere, KeyFileError, NotThere, UnsafePermissions
from rota.keys.names import SUBMITTER
from rota.keys.node_keys import MadeKeys, make_node_keys, open_node_keys, read_password
from rota.keys.secret import Secret
from rota.keys.signers import write_key
from rota.keys.wallet import Wallet
from rota.model.types import NodeName
from tests.keys.kit import CHEAP, NODE, NOW_S, PASSWORD, WALLET


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "node1" / "keys"


def make(folder: Path, wallet: Wallet | None = None, node: NodeName = NODE) -> MadeKeys:
    return make_node_keys(folder, node, PASSWORD, NOW_S, wallet, CHEAP)


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_a_new_node_gets_a_wallet_a_certificate_and_words_to_write_down(folder: Path) -> None:
    made = make(folder)
    assert made.written == (folder / "wallet.json", folder / "transport" / "current.pem")
    assert sorted(contents(folder)) == sorted(made.written)
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in made.written)
    assert made.new_words is not None
    assert Wallet(made.new_words) == made.keys.wallet
    assert made.keys.certificate.node == NODE


def test_making_again_changes_nothing_and_shows_no_words(folder: Path) -> None:
    first, before = make(folder), contents(folder)
    again = make(folder)
    assert contents(folder) == before
    assert again.written == ()
    assert again.new_words is None
    assert again.keys.wallet == first.keys.wallet
    assert again.keys.certificate == first.keys.certificate
    assert again.keys.submitter == first.keys.submitter


@pytest.mark.parametrize("missing", ["wallet.json", "transport/current.pem"])
def test_what_is_missing_is_made_and_the_rest_stays(folder: Path, missing: str) -> None:
    make(folder, WALLET)
    before = contents(folder)
    (folder / missing).unlink()
    made = make(folder, WALLET)
    assert made.written == (folder / missing,)
    assert {path for path, content in contents(folder).items() if before[path] != content} == {folder / missing}


def test_a_node_is_restored_from_its_words(folder: Path) -> None:
    made = make(folder, WALLET)
    assert made.new_words is None
    assert made.keys.submitter == "0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266"


def test_other_words_another_password_or_another_node_are_refused_and_nothing_changes(folder: Path) -> None:
    make(folder)
    before = contents(folder)
    with pytest.raises(
        AlreadyThere, match=r"wallet\.json: it holds another wallet, whose submitter is 0x[0-9a-f]{40},"
    ):
        make(folder, WALLET)
    with pytest.raises(KeyFileError, match="the password is wrong"):
        make_node_keys(folder, NODE, Secret("another"), NOW_S, cost=CHEAP)
    with pytest.raises(KeyFileError, match="the certificate is that of node1, not of node2"):
        make(folder, node=NodeName("node2"))
    assert contents(folder) == before


def test_nothing_is_made_for_a_wrong_name_or_without_a_password(folder: Path) -> None:
    with pytest.raises(ValueError, match="node: 1 to 63"):
        make(folder, node=NodeName("Node 1"))
    with pytest.raises(ValueError, match="password: 1 to 1024 bytes"):
        make_node_keys(folder, NODE, Secret(""), NOW_S, cost=CHEAP)
    assert not folder.exists()


def test_what_was_made_is_opened(folder: Path) -> None:
    made = make(folder)
    opened = open_node_keys(folder, NODE, PASSWORD)
    assert opened.wallet == made.keys.wallet
    assert opened.submitter == made.keys.submitter
    assert opened.certificate == opened.transport.current().certificate == made.keys.certificate


def test_an_imported_submitter_is_used(folder: Path) -> None:
    make(folder)
    write_key(folder / "imported", SUBMITTER, Secret(b"\x46" * 32), PASSWORD, CHEAP)
    assert open_node_keys(folder, NODE, PASSWORD).submitter == "0x9d8a62f656a8d1615c1294fd71e9cfb3e4855a4f"
    assert make(folder).keys.submitter == "0x9d8a62f656a8d1615c1294fd71e9cfb3e4855a4f"


@pytest.mark.parametrize("missing", ["wallet.json", "transport/current.pem"])
def test_opening_makes_nothing(folder: Path, missing: str) -> None:
    make(folder)
    (folder / missing).unlink()
    with pytest.raises(NotThere, match=missing):
        open_node_keys(folder, NODE, PASSWORD)
    assert not (folder / missing).exists()


def test_a_folder_that_others_may_enter_is_refused(folder: Path) -> None:
    folder.mkdir(parents=True, mode=0o755)
    with pytest.raises(UnsafePermissions, match="chmod 700"):
        make(folder)


@pytest.mark.parametrize("content", [b"secret words", b"secret words\n", b"secret words\r\nmore"])
def test_a_password_is_the_first_line_of_its_file(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "password"
    path.touch(mode=0o600)
    path.write_bytes(content)
    assert read_password(path) == Secret("secret words")


def test_an_empty_or_open_password_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "password"
    path.touch(mode=0o600)
    with pytest.raises(KeyFileError, match="password: 1 to 1024 bytes"):
        read_password(path)
    path.chmod(0o640)
    with pytest.raises(UnsafePermissions):
        read_password(path)
