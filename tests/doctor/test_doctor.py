"""`rota doctor` on a node's folder in which one thing after the other is broken for real."""

from __future__ import annotations

import asyncio
import json
import shutil
import socket
import sqlite3
import ssl
import time
import tomllib
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest

from rota.doctor import Finding, Means, Report, Status, examine
from rota.keys.certificates import Identity, make_identity
from rota.keys.names import submitter_key
from rota.keys.node_keys import open_node_keys, read_password
from rota.localnet.ports import held_port
from rota.model.types import ContractAddress, NodeName
from rota.server.number_file import NumberFile
from rota.store import SqliteDatabase
from tests.cli.kit import CHAIN_ID, ChainProcess, chain_process, init, rota, told

NAME = NodeName("node1")
OTHER = NodeName("node2")


@pytest.fixture
def unused_port() -> Iterator[int]:
    """Where nobody listens."""
    with held_port() as port:
        yield port


@pytest.fixture(scope="module")
def chain() -> Iterator[ChainProcess]:
    with chain_process() as process:
        yield process


@pytest.fixture(scope="module")
def model(chain: ChainProcess, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A node whose network has its contracts, with funds and a registration."""
    folder = tmp_path_factory.mktemp("model") / "one"
    init(
        folder,
        "--set",
        "rpc.port=0",
        "--set",
        "rpc.websocket_port=0",
        "--set",
        "transport.listen=127.0.0.1:0",
        url=chain.url,
    )
    paid = told("ledger", "fund", folder)
    assert (len(paid["paid"]), paid["ether"]) == (2, 10)
    told("ledger", "deploy", folder, "--save")
    told("ledger", "register", folder)
    return folder


@pytest.fixture
def folder(model: Path, tmp_path: Path) -> Path:
    """The same, for one test to break."""
    return Path(shutil.copytree(model, tmp_path / "one"))


def edit(folder: Path, *changes: tuple[str, str]) -> None:
    file = folder / "config.toml"
    text = file.read_text()
    for before, after in changes:
        assert before in text, before
        text = text.replace(before, after, 1)
    file.write_text(text)


def set_key(folder: Path, path: str, value: object) -> None:
    """Another value for a key that the file has, or one for a key that stands in it as a comment."""
    file = folder / "config.toml"
    section, _, key = path.partition(".")
    before, head, rest = file.read_text().partition(f"\n[{section}]\n")
    body, bracket, after = rest.partition("\n[")
    lines = body.splitlines()
    (at,) = [at for at, line in enumerate(lines) if line.split(" =")[0] in (key, f"# {key}")]
    lines[at] = f"{key} = {json.dumps(value)}"
    file.write_text(before + head + "\n".join(lines) + bracket + after)


def looked(folder: Path, *arguments: object, code: int = 0) -> dict[str, dict[str, str]]:
    """What the doctor says, by the names of its checks."""
    result = rota("doctor", folder, "--wait-s", 0, "--json", *arguments)
    assert result.exit_code == code, result.output
    report = json.loads(result.stdout)
    assert report.keys() == {"checks", "ok"}
    assert report["ok"] is (code == 0)
    for check in report["checks"]:
        assert check.keys() == {"name", "status", "found", "mend"}
        assert bool(check["mend"]) == (check["status"] in ("warning", "failed"))
    return {check["name"]: check for check in report["checks"]}


def statuses(checks: dict[str, dict[str, str]], status: str) -> set[str]:
    return {name for name, check in checks.items() if check["status"] == status}


# All is well.


def test_a_node_that_is_well_has_nothing_failed_and_nothing_to_warn_of(folder: Path) -> None:
    checks = looked(folder)
    assert statuses(checks, "failed") == statuses(checks, "warning") == set()
    assert statuses(checks, "skipped") == {"node", "endpoint"}
    assert checks["ledger"]["found"].startswith(f"chain {CHAIN_ID} at http://127.0.0.1:")
    assert checks["registration"]["found"] == "node1 at 127.0.0.1:1"
    assert "for about" in checks["funds of the submitter"]["found"]
    assert "is made when the node first starts" in checks["database"]["found"]
    assert checks["clock"]["found"] == "as that of the ledger's server"


def test_development_keys_are_a_warning_where_the_operator_allows_them(folder: Path) -> None:
    assert "no token is deployed" in looked(folder)["proving keys"]["found"]
    set_key(folder, "proving.allow_development_keys", True)
    checks = looked(folder)
    assert statuses(checks, "warning") == {"proving keys"}
    assert "can forge" in checks["proving keys"]["found"]


def test_people_get_signs_and_a_sum(folder: Path) -> None:
    result = rota("doctor", folder, "--wait-s", 0)
    assert result.exit_code == 0
    assert result.output.split()[:2] == ["✓", "configuration"]
    assert result.output.splitlines()[-1].startswith("All is well: ")
    (folder / "keys/transport/current.pem").unlink()
    result = rota("doctor", folder, "--wait-s", 0)
    assert result.exit_code == 1
    assert any(line.split()[:2] == ["✗", "certificate"] for line in result.output.splitlines())
    assert "→ `rota init" in result.output
    assert result.output.splitlines()[-1].startswith("Something has failed: ")


def test_nothing_in_the_folder_is_changed_by_a_look(folder: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    looked(folder)
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before


def test_a_folder_that_is_not_there_is_wrong_use(tmp_path: Path) -> None:
    result = rota("doctor", tmp_path / "nowhere")
    assert result.exit_code == 2
    assert "does not exist" in result.output


# Configuration.


def test_without_a_configuration_everything_else_is_skipped(tmp_path: Path) -> None:
    checks = looked(tmp_path, code=1)
    assert statuses(checks, "failed") == {"configuration"}
    assert "there is no such file" in checks["configuration"]["found"]
    assert {each["found"] for each in checks.values() if each["status"] == "skipped"} == {
        "the configuration cannot be read (see configuration)"
    }


def test_a_wrong_key_is_told_with_its_line_and_all_the_rest_is_looked_at(folder: Path) -> None:
    edit(folder, ("[ledger]\n", "[ledger]\ncolour = 3\n"))
    checks = looked(folder, code=1)
    assert statuses(checks, "failed") == {"configuration"}
    assert "ledger.colour: is not known" in checks["configuration"]["found"]
    assert "config.toml:" in checks["configuration"]["found"]
    assert statuses(checks, "skipped") == {"node", "endpoint"}


def test_checks_that_rely_on_a_wrong_setting_are_skipped_and_say_so(folder: Path) -> None:
    set_key(folder, "ledger.chain_id", "seventy")
    checks = looked(folder, code=1)
    assert "ledger.chain_id: must be" in checks["configuration"]["found"]
    assert checks["ledger"]["found"] == "ledger.chain_id is wrong (see configuration)"
    for name in ("blocks", "clock", "registration", "funds of the submitter"):
        assert checks[name]["found"] == "the ledger cannot be asked (see ledger)"
    assert statuses(checks, "ok") >= {"certificate", "keys", "database", "disk"}


def test_a_file_that_is_no_toml_is_told_with_its_line(folder: Path) -> None:
    edit(folder, ("[ledger]\n", "[ledger\n"))
    checks = looked(folder, code=1)
    assert "is not TOML" in checks["configuration"]["found"]


# Keys and certificates.


def test_missing_certificate(folder: Path) -> None:
    (folder / "keys/transport/current.pem").unlink()
    checks = looked(folder, code=1)
    assert statuses(checks, "failed") == {"certificate"}
    assert "there is no such file" in checks["certificate"]["found"]
    assert f"`rota init {folder} --node node1` makes another" in checks["certificate"]["mend"]
    assert f"`rota ledger register {folder}`" in checks["certificate"]["mend"]


def replace_certificate(folder: Path, name: NodeName, now_s: float, validity_s: int) -> None:
    file = folder / "keys/transport/current.pem"
    file.write_bytes(make_identity(name, int(now_s), validity_s).pem.reveal())


@pytest.mark.parametrize(
    ("made_s", "validity_s", "status", "found"),
    [
        (-7_200, 3_600, "failed", "it has ended on"),
        (86_400, 86_400, "failed", "it is not valid before"),
        (0, 5 * 86_400 + 60, "warning", "it ends in 5 days"),
    ],
)
def test_certificate_at_the_wrong_time(folder: Path, made_s: int, validity_s: int, status: str, found: str) -> None:
    replace_certificate(folder, NAME, time.time() + made_s, validity_s)
    checks = looked(folder, code=1)
    assert (checks["certificate"]["status"], checks["certificate"]["found"].startswith(found)) == (status, True)
    assert "rota keys rotate-certificate" in checks["certificate"]["mend"]
    # It is not the registered one either.
    assert "is not the one that is registered" in checks["registration"]["found"]
    assert checks["registration"]["mend"] == f"`rota ledger register {folder}` puts it right."


def test_certificate_of_another_node(folder: Path) -> None:
    replace_certificate(folder, OTHER, time.time(), 86_400)
    assert "the certificate is that of node2, not of node1" in looked(folder, code=1)["certificate"]["found"]


def test_certificate_with_another_key(folder: Path) -> None:
    file = folder / "keys/transport/current.pem"
    key = file.read_bytes().partition(b"-----BEGIN CERTIFICATE")[0]
    other = make_identity(NAME, int(time.time())).pem.reveal()
    file.write_bytes(key + b"".join(other.partition(b"-----BEGIN CERTIFICATE")[1:]))
    assert "is not that of the private key" in looked(folder, code=1)["certificate"]["found"]


def test_wrong_password(folder: Path) -> None:
    (folder / "password").write_text("this is not the password\n")
    checks = looked(folder, code=1)
    assert statuses(checks, "failed") == {"keys"}
    assert checks["funds of the submitter"]["found"] == "its address is not known without the keys (see keys)"


def test_missing_wallet(folder: Path) -> None:
    (folder / "keys/wallet.json").unlink()
    checks = looked(folder, code=1)
    assert statuses(checks, "failed") == {"keys"}
    assert "--words-file" in checks["keys"]["mend"]


def test_keys_that_others_may_read(folder: Path) -> None:
    (folder / "keys/wallet.json").chmod(0o644)
    assert "chmod 600" in looked(folder, code=1)["keys"]["found"]


def test_without_a_password_the_keys_are_skipped(folder: Path) -> None:
    edit(folder, ('password_file = "password"', "# password_file ="))
    checks = looked(folder)
    assert checks["keys"]["status"] == "skipped"
    assert looked(folder, "--password-file", folder / "password")["keys"]["status"] == "ok"


def test_missing_credentials_file(folder: Path) -> None:
    set_key(folder, "rpc.credentials_file", "credentials.toml")
    checks = looked(folder, code=1)
    assert "there is no such file" in checks["credentials"]["found"]
    assert f"rota credentials add {folder}" in checks["credentials"]["mend"]
    told("credentials", "add", folder, "anna", "--role", "read")
    assert looked(folder)["credentials"]["found"] == "credentials.toml: 1 who may call"


def test_trigger_that_cannot_be_loaded(folder: Path) -> None:
    set_key(folder, "automation.load", ["no.such.module"])
    assert "no.such.module" in looked(folder, code=1)["automation"]["found"]


# Database.


def made_database(folder: Path, name: NodeName = NAME) -> Path:
    async def make() -> None:
        database = SqliteDatabase(folder / "rota.db", name)
        await database.open()
        await database.close()

    asyncio.run(make())
    return folder / "rota.db"


def test_database_of_this_version_is_whole(folder: Path) -> None:
    made_database(folder)
    checks = looked(folder)
    assert "schema version" in checks["database"]["found"]
    assert checks["integrity"]["found"] == "rota.db is whole"


def test_damaged_database(folder: Path) -> None:
    file = made_database(folder)
    content = bytearray(file.read_bytes())
    content[4096 * 2 : 4096 * 4] = bytes(4096 * 2)
    file.write_bytes(content)
    checks = looked(folder, code=1)
    assert {"integrity", "database"} & statuses(checks, "failed")
    assert "backup" in checks.get("integrity", checks["database"])["mend"]


def test_file_that_is_no_database(folder: Path) -> None:
    (folder / "rota.db").write_text("these are notes, and no database at all\n" * 100)
    assert "file is not a database" in looked(folder, code=1)["database"]["found"]


def test_database_of_a_newer_version(folder: Path) -> None:
    with closing(sqlite3.connect(made_database(folder))) as connection, connection:
        connection.execute("INSERT INTO schema_version VALUES (9999)")
    checks = looked(folder, code=1)
    assert "has version 9999" in checks["database"]["found"]
    assert "Run a Rota as new" in checks["database"]["mend"]


def test_database_of_an_older_version_is_a_warning(folder: Path) -> None:
    with closing(sqlite3.connect(made_database(folder))) as connection, connection:
        connection.execute("DELETE FROM schema_version WHERE version > 1")
    assert "take a backup before" in looked(folder)["database"]["mend"]


def test_database_that_was_wound_back_is_a_warning(folder: Path) -> None:
    made_database(folder)
    NumberFile(folder / "keys").write(7)
    checks = looked(folder)
    assert "its write number is 0, and 7 was acknowledged" in checks["database"]["found"]
    assert "rota tx aside" in checks["database"]["mend"]


def test_database_of_another_node(folder: Path) -> None:
    made_database(folder, OTHER)
    assert "it belongs to node2, not to node1" in looked(folder, code=1)["database"]["found"]


def test_folder_of_the_database_is_missing(folder: Path) -> None:
    set_key(folder, "store.url", "sqlite:elsewhere/rota.db")
    assert "elsewhere: there is no such folder" in looked(folder, code=1)["database"]["found"]


def test_dead_database_server(folder: Path, unused_port: int) -> None:
    set_key(folder, "store.url", f"postgresql://rota@127.0.0.1:{unused_port}/rota")
    checks = looked(folder, code=1)
    assert checks["database"]["found"].startswith("PostgreSQL: ")
    assert "Start the server" in checks["database"]["mend"]


# Ledger.


def test_dead_ledger(folder: Path, unused_port: int) -> None:
    set_key(folder, "ledger.url", f"http://127.0.0.1:{unused_port}")
    checks = looked(folder, code=1)
    assert statuses(checks, "failed") == {"ledger"}
    assert f"the Ethereum node at http://127.0.0.1:{unused_port} cannot be reached" in checks["ledger"]["found"]
    assert checks["ledger"]["mend"] == "Start it, or correct the address."


def test_ledger_of_another_chain(folder: Path) -> None:
    set_key(folder, "ledger.chain_id", 5)
    checks = looked(folder, code=1)
    assert f"is on chain {CHAIN_ID}, and 5 is configured" in checks["ledger"]["found"]


def test_contract_that_is_not_there(folder: Path) -> None:
    set_key(folder, "ledger.factory", "0x" + "99" * 20)
    checks = looked(folder, code=1)
    assert statuses(checks, "failed") == {"ledger.factory"}
    assert checks["ledger.factory"]["mend"] == "Deploy Factory there, or correct the address."


def test_confirmations_are_those_of_the_chain(folder: Path) -> None:
    found = looked(folder)["confirmations"]
    assert (found["status"], found["found"].partition(":")[0]) == ("ok", "0, as the chain is")


@pytest.mark.parametrize(
    ("confirmations", "accepts", "status"), [(0, False, "failed"), (0, True, "warning"), (3, False, "warning")]
)
def test_too_few_confirmations_for_a_chain_that_loses_blocks(
    folder: Path, monkeypatch: pytest.MonkeyPatch, confirmations: int, accepts: bool, status: str
) -> None:
    monkeypatch.setattr("rota.ledger.finality.DEVELOPMENT", ())
    set_key(folder, "ledger.confirmations", confirmations)
    set_key(folder, "ledger.accept_lost_blocks", accepts)
    found = looked(folder, code=int(status == "failed"))["confirmations"]
    assert found["status"] == status
    assert found["mend"] == "Leave ledger.confirmations out, or set it to 64."


def test_contract_of_another_kind(folder: Path) -> None:
    text = (folder / "config.toml").read_text()
    (factory,) = [line.split('"')[1] for line in text.splitlines() if line.startswith("factory = ")]
    set_key(folder, "ledger.registry", factory)
    assert "is not the Registry" in looked(folder, code=1)["ledger.registry"]["found"]


def test_quiet_chain_is_a_warning_and_its_next_block_mends_it(folder: Path, chain: ChainProcess) -> None:
    async def look() -> Report:
        return await examine(folder, Means(now_s=lambda: time.time() + 3_600, block_wait_s=0))

    finding = named(asyncio.run(look()), "blocks")
    assert finding.status is Status.WARNING
    assert "See whether the chain has stopped" in finding.mend
    chain.rpc("evm_mine")
    assert looked(folder)["blocks"]["status"] == "ok"


@pytest.mark.parametrize(("off_by_s", "status"), [(30, Status.WARNING), (3_600, Status.FAILED)])
def test_clock_that_is_ahead(folder: Path, off_by_s: int, status: Status) -> None:
    report = asyncio.run(examine(folder, Means(now_s=lambda: time.time() + off_by_s, block_wait_s=0)))
    finding = named(report, "clock")
    assert finding.status is status
    assert finding.found.endswith("s ahead of the ledger's server")
    assert "timedatectl" in finding.mend


def test_clock_that_is_behind_the_latest_block(folder: Path, chain: ChainProcess) -> None:
    chain.rpc("evm_mine")
    report = asyncio.run(examine(folder, Means(now_s=lambda: time.time() - 600, block_wait_s=0)))
    finding = named(report, "clock")
    assert (finding.status, finding.found.endswith("s ahead of this machine's clock")) == (Status.FAILED, True)


def named(report: Report, name: str) -> Finding:
    (finding,) = [each for each in report.findings if each.name == name]
    return finding


def set_balance(chain: ChainProcess, folder: Path, key: str, wei: int) -> str:
    keys = open_node_keys(folder / "keys", NAME, read_password(folder / "password"))
    address: str = getattr(keys, key)
    chain.rpc("anvil_setBalance", address, hex(wei))
    return address


@pytest.fixture
def restored(chain: ChainProcess, model: Path) -> Iterator[None]:
    """Both have their funds again: the chain is that of all tests here."""
    yield
    for key in ("submitter", "registrar"):
        set_balance(chain, model, key, 10 * 10**18)


@pytest.mark.usefixtures("restored")
def test_empty_account(folder: Path, chain: ChainProcess) -> None:
    submitter = set_balance(chain, folder, "submitter", 0)
    registrar = set_balance(chain, folder, "registrar", 0)
    checks = looked(folder, code=1)
    assert statuses(checks, "failed") == {"funds of the submitter"}
    assert checks["funds of the submitter"]["found"].startswith(f"{submitter} has 0.000000 ether: for about 0 rounds")
    assert checks["funds of the submitter"]["mend"].startswith(f"Send funds to {submitter}")
    assert checks["funds of the registrar"]["status"] == "warning"
    assert registrar in checks["funds of the registrar"]["mend"]


def test_account_of_a_contract_that_cannot_pay_fails(folder: Path, chain: ChainProcess) -> None:
    assert looked(folder)["funds of the contracts"]["found"] == "no contract has an account of its own"
    contract = ContractAddress("0x" + "c0" * 20)
    with closing(sqlite3.connect(folder / "rota.db")) as connection, connection:
        connection.execute("CREATE TABLE contracts (address TEXT)")
        connection.execute("CREATE TABLE accounts (contract TEXT, next_nonce BIGINT, is_own BIGINT)")
        connection.execute("INSERT INTO contracts VALUES (?)", (contract,))
    edit(folder, ('# accounts = "auto"', 'accounts = "by contract"'))
    keys = open_node_keys(folder / "keys", NAME, read_password(folder / "password"))
    address = keys.signer.address_of(submitter_key(contract))
    found = looked(folder, code=1)["funds of the contracts"]
    assert f"1 of 1 accounts of contracts cannot pay for a round: {address} of {contract}" in found["found"]
    assert "rota ledger fund FOLDER --contracts" in found["mend"]
    chain.rpc("anvil_setBalance", address, hex(10**18))
    assert "each can pay for a round" in looked(folder)["funds of the contracts"]["found"]


@pytest.mark.usefixtures("restored")
def test_account_that_will_be_empty_soon_is_a_warning(folder: Path, chain: ChainProcess) -> None:
    price_wei = int(chain.rpc("eth_gasPrice"), 16)
    set_balance(chain, folder, "submitter", 20 * 80_000 * price_wei)
    found = looked(folder)["funds of the submitter"]
    assert found["status"] == "warning"


# The network.


def test_node_that_is_not_registered(folder: Path) -> None:
    set_key(folder, "ledger.registry", told("ledger", "deploy", folder)["registry"])
    checks = looked(folder, code=1)
    assert statuses(checks, "failed") == {"registration"}
    assert checks["registration"]["found"] == "node1 is not registered: nobody lets it in"
    assert checks["registration"]["mend"] == f"`rota ledger register {folder}` puts it right."


def test_name_that_belongs_to_another(folder: Path, tmp_path: Path, chain: ChainProcess) -> None:
    settings = tomllib.loads((folder / "config.toml").read_text())["ledger"]
    init(tmp_path / "thief", "--factory", settings["factory"], "--registry", settings["registry"], url=chain.url)
    found = looked(tmp_path / "thief", code=1)["registration"]
    assert "the name node1 belongs to 0x" in found["found"]
    assert "restore the keys" in found["mend"]


def test_node_that_is_registered_elsewhere(folder: Path) -> None:
    set_key(folder, "transport.endpoint", "10.0.0.1:31550")
    found = looked(folder, code=1)["registration"]["found"]
    assert found == "others look for this node at 127.0.0.1:1, and transport.endpoint is 10.0.0.1:31550"


def test_registered_endpoint_that_is_not_where_the_node_listens_is_a_warning(folder: Path) -> None:
    set_key(folder, "transport.listen", "127.0.0.1:31999")
    found = looked(folder)["endpoint"]
    assert found["status"] == "warning"
    assert found["found"] == "others look for this node at 127.0.0.1:1, and it will listen at 127.0.0.1:31999"


@asynccontextmanager
async def shown(identity: Identity, folder: Path) -> AsyncIterator[int]:
    """A server that shows a certificate, as a node does."""
    file = folder / "shown.pem"
    file.write_bytes(identity.pem.reveal())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    context.set_alpn_protocols(["h2"])

    async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    server = await asyncio.start_server(hang_up, "127.0.0.1", 0, ssl=context)
    async with server:
        yield server.sockets[0].getsockname()[1]


def with_peers(folder: Path, peers: dict[str, tuple[int, bytes]]) -> None:
    """The nodes are in a file: ourselves, and these."""
    own = open_node_keys(folder / "keys", NAME, read_password(folder / "password")).certificate.fingerprint
    entries = {NAME: (1, own), **peers}
    lines = [
        f'[nodes.{name}]\nendpoint = "127.0.0.1:{port}"\nfingerprint = "{fingerprint.hex()}"\n'
        for name, (port, fingerprint) in entries.items()
    ]
    (folder / "nodes.toml").write_text("\n".join(lines))
    set_key(folder, "transport.registry", "nodes.toml")


def peers_of(
    folder: Path, judge: Callable[[int, Identity], dict[str, tuple[int, bytes]]], identity: Identity
) -> Report:
    async def look() -> Report:
        async with shown(identity, folder) as port:
            with_peers(folder, judge(port, identity))
            return await examine(folder, Means(block_wait_s=0))

    return asyncio.run(look())


def test_peers_are_looked_at_where_the_registry_says(folder: Path, unused_port: int) -> None:
    report = peers_of(
        folder,
        lambda port, identity: {
            "node2": (port, identity.certificate.fingerprint),
            "node3": (unused_port, bytes(32)),
            "node4": (port, bytes(32)),
        },
        make_identity(OTHER, int(time.time())),
    )
    assert named(report, "peer node2").status is Status.OK
    away = named(report, "peer node3")
    assert (away.status, f"127.0.0.1:{unused_port} cannot be reached" in away.found) == (Status.WARNING, True)
    other = named(report, "peer node4")
    assert (other.status, "which is not registered" in other.found) == (Status.FAILED, True)
    assert "rota doctor" in other.mend


def test_certificate_of_a_peer_that_has_ended(folder: Path) -> None:
    identity = make_identity(OTHER, int(time.time()) - 7_200, 3_600)
    report = peers_of(folder, lambda port, shown: {"node2": (port, shown.certificate.fingerprint)}, identity)
    assert "is not valid since" in named(report, "peer node2").found


def test_when_no_peer_can_be_reached_it_is_this_machine(folder: Path, unused_port: int) -> None:
    with_peers(folder, {"node2": (unused_port, bytes(32)), "node3": (unused_port, bytes(32))})
    checks = looked(folder, code=1)
    assert statuses(checks, "failed") == {"peer node2", "peer node3"}
    assert "this machine's network" in checks["peer node2"]["mend"]


def test_registry_file_that_is_wrong(folder: Path) -> None:
    with_peers(folder, {})
    (folder / "nodes.toml").write_text("[nodes.node1]\nendpoint = 5\n")
    checks = looked(folder, code=1)
    assert "nodes.node1.endpoint: must be a host and a port" in checks["registration"]["found"]
    assert checks["peers"]["status"] == "skipped"


# Ports.


def test_port_that_somebody_has_taken(folder: Path, unused_port: int) -> None:
    set_key(folder, "rpc.port", unused_port)
    with socket.create_server(("127.0.0.1", unused_port)):
        checks = looked(folder, code=1)
    assert statuses(checks, "failed") == {"rpc.port"}
    assert "Address already in use" in checks["rpc.port"]["found"]
    assert checks["rpc.port"]["mend"].endswith("or change rpc.port.")
    assert checks["node"]["found"].startswith("it does not run")
    assert looked(folder)["rpc.port"]["status"] == "ok"


def test_what_is_not_foreseen_is_a_finding_too(folder: Path) -> None:
    def password_for(_: Any) -> None:  # noqa: ANN401
        raise RuntimeError("this was not foreseen")

    report = asyncio.run(examine(folder, Means(password_for=password_for, block_wait_s=0)))
    assert named(report, "keys").found == "RuntimeError: this was not foreseen"
    assert "a defect of Rota" in named(report, "keys").mend
    assert named(report, "ledger").status is Status.OK
