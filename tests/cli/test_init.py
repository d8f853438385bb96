"""`rota init`: a node's folder is made once, as asked for, or it is said why not."""

from __future__ import annotations

import json
import stat
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner

from rota.cli.main import main
from rota.keys.keystore import ScryptCost
from rota.keys.node_keys import open_node_keys, read_password
from rota.model.types import NodeName
from rota.server.configuration import SECTIONS, SqliteFile, read_configuration
from tests.cli.kit import CHAIN_ID, chain_process, init, rota, told
from tests.keys.kit import WORDS

LACKING = ("ledger.registry",)


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_folder_has_configuration_keys_certificate_and_password(tmp_path: Path) -> None:
    made = init(tmp_path / "one")
    assert sorted(tree(tmp_path / "one")) == [
        "config.toml",
        "keys/transport/current.pem",
        "keys/wallet.json",
        "password",
    ]
    for path in (tmp_path / "one").rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600)
    keys = open_node_keys(tmp_path / "one/keys", NodeName("node1"), read_password(tmp_path / "one/password"))
    assert made == {
        "node": "node1",
        "configuration": str(tmp_path / "one/config.toml"),
        "submitter": keys.submitter,
        "registrar": keys.registrar,
        "fingerprint": keys.certificate.fingerprint.hex(),
        "words": keys.wallet.phrase.reveal().decode(),
        "written": [
            str(tmp_path / "one" / name)
            for name in ("password", "keys/wallet.json", "keys/transport/current.pem", "config.toml")
        ],
    }
    assert len(made["words"].split()) == 24


def test_configuration_has_every_key_and_what_was_asked_for(tmp_path: Path) -> None:
    registry = "0x" + "ab" * 20
    init(
        tmp_path / "one",
        *("--registry", registry, "--factory", registry, "--store", "sqlite:x.db"),
        *("--set", "rpc.port=31648", "--set", "contracts.rotation=strict"),
    )
    text = (tmp_path / "one/config.toml").read_text()
    assert tomllib.loads(text) == {
        "node": {"name": "node1", "password_file": "password"},
        "ledger": {"url": "http://127.0.0.1:1", "chain_id": CHAIN_ID, "registry": registry, "factory": registry},
        "store": {"url": "sqlite:x.db"},
        # The others are on this machine too, as the endpoint is.
        "transport": {"endpoint": "127.0.0.1:1", "local_endpoints": True},
        "rpc": {"port": 31_648},
        "operations": {},
        "commands": {},
        "sequencer": {},
        "contracts": {"rotation": "strict"},
        "consent": {"proposals": "ask"},
        "automation": {},
        "log": {},
        "telemetry": {},
        "proving": {},
    }
    for section in SECTIONS:
        for key in section.keys:
            assert key.is_environment_only or f"{key.name} =" in text
    configuration = read_configuration(tmp_path / "one/config.toml", {})
    assert configuration.store.url == SqliteFile(tmp_path / "one/x.db")


def test_second_run_changes_nothing_and_shows_no_words(tmp_path: Path) -> None:
    first = init(tmp_path / "one")
    before = tree(tmp_path / "one")
    assert init(tmp_path / "one") == first | {"words": None, "written": []}
    assert told("init", tmp_path / "one", "--node", "node1") == first | {"words": None, "written": []}
    assert tree(tmp_path / "one") == before


@pytest.mark.parametrize("missing", ["config.toml", "keys/transport/current.pem", "password", "keys/wallet.json"])
def test_run_that_was_cut_short_is_run_again(tmp_path: Path, missing: str) -> None:
    first = init(tmp_path / "one")
    (tmp_path / "one" / missing).unlink()
    if missing == "password":
        # A new password opens no old wallet.
        result = rota("init", tmp_path / "one", "--node", "node1", "--generate-password")
        assert result.exit_code == 1
        assert "wallet.json: " in result.output
        return
    again = init(tmp_path / "one")
    assert again["written"] == [str(tmp_path / "one" / missing)]
    assert (again["submitter"] == first["submitter"]) == (missing != "keys/wallet.json")
    assert (again["fingerprint"] == first["fingerprint"]) == (missing != "keys/transport/current.pem")
    assert (again["words"] is None) == (missing != "keys/wallet.json")


def test_what_is_there_is_not_taken_for_something_else(tmp_path: Path) -> None:
    init(tmp_path / "one")
    before = tree(tmp_path / "one")
    for arguments, message in (
        (("--node", "node2"), "node.name: 'node2' was asked for, and the file has 'node1'. It is not overwritten"),
        (("--node", "node1", "--chain-id", "5"), f"ledger.chain_id: 5 was asked for, and the file has {CHAIN_ID}"),
        (("--node", "node1", "--registry", "0x" + "1" * 40), "was asked for, and the file has none"),
        (("--node", "node1", "--set", "rpc.port=1"), "rpc.port: 1 was asked for, and the file has 31548"),
    ):
        result = rota("init", tmp_path / "one", *arguments)
        assert result.exit_code == 1
        assert message in result.output
    assert tree(tmp_path / "one") == before


def test_all_wrong_settings_are_told_and_nothing_is_made(tmp_path: Path) -> None:
    result = rota(
        *(
            "init",
            tmp_path / "one",
            "--node",
            "Node 1",
            "--ledger",
            "localhost",
            "--chain-id",
            "x",
            "--endpoint",
            "here",
        ),
        *("--store", "postgresql://a:geheim@b/c", "--set", "log.level=loud", "--generate-password"),
    )
    assert result.exit_code == 1
    for key in ("node.name", "ledger.url", "ledger.chain_id", "transport.endpoint", "store.url", "log.level"):
        assert f"{key}: must be " in result.output
    assert "geheim" not in result.output
    assert not (tmp_path / "one").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--node", "a", "--set", "rpc.prot=1"),
        ("--node", "a", "--set", "rpc.port"),
        ("--node", "a", "--set", "node.password=x"),
        ("--node", "a", "--set", "node.name=b"),
        ("--node", "a", "--generate-password", "--password-file", "x"),
        ("--node", "a", "--chain-id", "1"),  # and nobody to ask for a password
    ],
)
def test_wrong_use_exits_with_2_and_makes_no_keys(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    result = rota("init", tmp_path / "one", *arguments)
    assert result.exit_code == 2, result.output
    assert not (tmp_path / "one/keys").exists()


def test_password_comes_from_a_file_that_only_its_owner_reads(tmp_path: Path) -> None:
    password = tmp_path / "secret"
    password.write_text("correct horse\n")
    password.chmod(0o644)
    arguments = ("init", tmp_path / "one", "--node", "a", "--chain-id", 1, "--password-file", password)
    result = rota(*arguments)
    assert (result.exit_code, "chmod 600" in result.output) == (1, True)
    assert "correct horse" not in result.output
    password.chmod(0o600)
    assert rota(*arguments).exit_code == 0
    assert read_configuration(tmp_path / "one/config.toml", {}, may_lack=LACKING).node.password_file == password
    open_node_keys(tmp_path / "one/keys", NodeName("a"), read_password(password))


def test_password_comes_from_the_environment(tmp_path: Path) -> None:
    arguments = ("init", tmp_path / "one", "--node", "a", "--chain-id", 1)
    first = told(*arguments, ROTA_NODE_PASSWORD="correct horse")
    assert told(*arguments, ROTA_NODE_PASSWORD="correct horse")["submitter"] == first["submitter"]
    result = rota(*arguments, ROTA_NODE_PASSWORD="wrong horse")
    assert result.exit_code == 1
    assert "horse" not in result.output
    assert "password" not in tomllib.loads((tmp_path / "one/config.toml").read_text())["node"]


def test_wallet_is_restored_from_words_and_those_are_not_shown(tmp_path: Path) -> None:
    words = tmp_path / "words"
    words.write_text(WORDS + "\n")
    words.chmod(0o600)
    made = init(tmp_path / "one", "--words-file", words)
    assert made["words"] is None
    assert made["submitter"] == "0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266"
    assert made["registrar"] == "0x70997970c51812dc3a010c7d01b50e0d17dc79c8"
    words.write_text(WORDS.replace("junk", "test") + "\n")
    result = rota(
        "init", tmp_path / "two", "--node", "a", "--chain-id", 1, "--generate-password", "--words-file", words
    )
    assert result.exit_code == 1
    assert "the checksum is wrong" in result.output
    assert not (tmp_path / "two").exists()


@pytest.mark.slow
def test_chain_id_is_what_the_node_says(tmp_path: Path) -> None:
    with chain_process() as chain:
        told("init", tmp_path / "one", "--node", "a", "--ledger", chain.url, "--generate-password")
    assert tomllib.loads((tmp_path / "one/config.toml").read_text())["ledger"]["chain_id"] == CHAIN_ID
    result = rota("init", tmp_path / "two", "--node", "a", "--ledger", chain.url, "--generate-password")
    assert result.exit_code == 1
    assert f"The Ethereum node at {chain.url} does not report its chain: cannot be reached" in result.output
    assert not (tmp_path / "two").exists()


def test_person_is_told_words_addresses_and_what_comes_next(tmp_path: Path) -> None:
    result = rota("init", tmp_path / "one", "--node", "node1", "--chain-id", 1, "--generate-password")
    assert result.exit_code == 0
    keys = open_node_keys(tmp_path / "one/keys", NodeName("node1"), read_password(tmp_path / "one/password"))
    for number, word in enumerate(keys.wallet.phrase.reveal().decode().split(), 1):
        assert f"{number} {word}" in result.output
    for shown in (keys.submitter, keys.registrar, keys.certificate.fingerprint.hex()):
        assert shown in result.output
    assert f"rota ledger deploy {tmp_path / 'one'} --save" in result.output
    assert "Set endpoint in [transport]" in result.output
    assert f"rota ledger register {tmp_path / 'one'}" in result.output
    with_file = rota(
        *("init", tmp_path / "two", "--node", "a", "--chain-id", 1, "--generate-password"),
        *("--set", "transport.registry=nodes.toml"),
    )
    assert f"Put its endpoint and fingerprint into {tmp_path / 'two/nodes.toml'}." in with_file.output


def test_folder_that_others_may_enter_is_refused_with_what_mends_it(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir(mode=0o755)
    result = rota("init", tmp_path / "one", "--node", "a", "--chain-id", 1, "--generate-password")
    assert result.exit_code == 1
    assert f"chmod 700 {tmp_path / 'one'}" in result.output
    (tmp_path / "file").touch()
    assert rota("init", tmp_path / "file", "--node", "a", "--chain-id", 1).exit_code == 2


@pytest.mark.slow
def test_wallet_is_made_at_full_cost_unless_a_test_says_otherwise(tmp_path: Path) -> None:
    arguments = ["init", str(tmp_path / "one"), "--node", "a", "--chain-id", "1", "--generate-password"]
    assert CliRunner().invoke(main, arguments).exit_code == 0
    cost = json.loads((tmp_path / "one/keys/wallet.json").read_text())["crypto"]["kdfparams"]
    assert (cost["n"], cost["r"], cost["p"]) == (ScryptCost().n, ScryptCost().r, ScryptCost().p)
