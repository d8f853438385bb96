"""`rota ledger deploy`, `register`, `fund` and `rota keys`, on a chain in a process of its own."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import re
import subprocess
import threading
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from rota.cli.node_folder import open_folder
from rota.cli.registering import opened_network
from rota.keys.node_keys import open_node_keys, read_password
from rota.keys.transport_files import NEXT, TransportFolder
from rota.ledger.bindings import RegisteredNode, look_up_node, read_node
from rota.ledger.registering import announce
from rota.model.types import NodeName
from rota.ports import Registration
from rota.transport import GrpcPeers, Identity, StaticRegistry
from tests.cli.kit import CHAIN_ID, ROTA, WAIT_S, ChainProcess, chain_process, init, rota, told

NAME = NodeName("node1")


@pytest.fixture(scope="module")
def chain() -> Iterator[ChainProcess]:
    with chain_process() as process:
        yield process


@pytest.fixture
def folder(tmp_path: Path, chain: ChainProcess) -> Path:
    """A node with funds whose network has its contracts."""
    init(tmp_path / "one", url=chain.url)
    assert rota("ledger", "fund", tmp_path / "one").exit_code == 0
    told("ledger", "deploy", tmp_path / "one", "--save")
    return tmp_path / "one"


def registered(chain: ChainProcess, folder: Path, name: str = NAME) -> RegisteredNode | None:
    registry = tomllib.loads((folder / "config.toml").read_text())["ledger"]["registry"]
    call = {"to": registry, "data": "0x" + look_up_node(name).hex()}
    return read_node(bytes.fromhex(chain.rpc("eth_call", call, "latest")[2:]))


def transport(folder: Path) -> TransportFolder:
    return TransportFolder(folder / "keys/transport", NAME)


def fingerprint(folder: Path) -> bytes:
    return transport(folder).current().certificate.fingerprint


# Putting a network on a chain.


def test_both_addresses_of_a_node_get_funds_on_a_development_chain(tmp_path: Path, chain: ChainProcess) -> None:
    made = init(tmp_path / "one", url=chain.url)
    result = rota("ledger", "fund", tmp_path / "one", "--ether", "3", "--account", "4")
    assert result.exit_code == 0, result.output
    for address in (made["submitter"], made["registrar"]):
        assert chain.balance(address) == 3 * 10**18
        assert f"{address} got 3 ether." in result.output


def test_another_address_gets_funds_instead_of_those_of_the_node(tmp_path: Path, chain: ChainProcess) -> None:
    made, other = init(tmp_path / "one", url=chain.url), "0x" + "5e" * 20
    result = rota("ledger", "fund", tmp_path / "one", "--to", other, "--ether", "2", "--json")
    assert json.loads(result.output) == {"paid": [other], "ether": 2}
    assert (chain.balance(other), chain.balance(made["registrar"])) == (2 * 10**18, 0)


def test_accounts_of_contracts_are_funded_alone(tmp_path: Path, chain: ChainProcess) -> None:
    init(tmp_path / "one", url=chain.url)
    result = rota("ledger", "fund", tmp_path / "one", "--contracts")
    assert (result.exit_code, result.output) == (0, "No contract has an account of its own.\n")
    for wrong, why in (
        (("--contracts", "--to", "0x" + "5e" * 20), "--contracts finds the addresses itself: leave out --to"),
        (("--dry-run",), "--dry-run is for --contracts"),
        (("--ether", "0"), "0 is not in the range"),
    ):
        result = rota("ledger", "fund", tmp_path / "one", *wrong)
        assert result.exit_code == 2
        assert why in result.output


def test_contracts_are_deployed_and_told_as_settings(tmp_path: Path, chain: ChainProcess) -> None:
    init(tmp_path / "one", url=chain.url)
    assert rota("ledger", "fund", tmp_path / "one").exit_code == 0
    height = int(chain.rpc("eth_blockNumber"), 16)
    result = rota("ledger", "deploy", tmp_path / "one")
    assert result.exit_code == 0, result.output
    settings = tomllib.loads(result.output)["ledger"]
    assert settings["registry_from_height"] == height
    for name in ("factory", "registry"):
        assert len(chain.rpc("eth_getCode", settings[name], "latest")) > 100
    assert "registry" not in tomllib.loads((tmp_path / "one/config.toml").read_text())["ledger"]


def test_saved_addresses_stand_where_the_comments_stood_and_nothing_else_changes(folder: Path) -> None:
    text = (folder / "config.toml").read_text()
    settings = tomllib.loads(text)["ledger"]
    section = text.partition("\n[ledger]\n")[2].partition("\n[")[0]
    for name in ("factory", "registry", "registry_from_height"):
        assert f"\n# {name} =" not in section
        assert section.count(f"\n{name} = ") == 1
    assert settings["url"].startswith("http://127.0.0.1:")
    assert "# The network's Factory" in text
    assert [path.name for path in folder.iterdir() if path.name.startswith(".")] == []
    result = rota("ledger", "deploy", folder, "--save")
    assert result.exit_code == 1
    assert "ledger.registry is set already" in result.output
    assert (folder / "config.toml").read_text() == text


def test_account_without_funds_is_told_where_to_send_them(tmp_path: Path, chain: ChainProcess) -> None:
    made = init(tmp_path / "one", url=chain.url)
    result = rota("ledger", "deploy", tmp_path / "one")
    assert result.exit_code == 1
    assert f"{made['registrar']} has too little to pay for it: send it funds" in result.output


def test_node_is_registered_by_its_registrar_and_not_by_its_submitter(folder: Path, chain: ChainProcess) -> None:
    keys = open_node_keys(folder / "keys", NAME, read_password(folder / "password"))
    before = chain.rpc("eth_getTransactionCount", keys.submitter, "latest")
    assert told("ledger", "register", folder) == {
        "node": NAME,
        "endpoint": "127.0.0.1:1",
        "fingerprint": fingerprint(folder).hex(),
        "done": ["registered"],
    }
    assert registered(chain, folder) == RegisteredNode(keys.registrar, fingerprint(folder), None, "127.0.0.1:1")
    assert told("ledger", "register", folder)["done"] == []
    assert chain.rpc("eth_getTransactionCount", keys.submitter, "latest") == before


def test_registration_is_brought_up_to_date(folder: Path, chain: ChainProcess) -> None:
    told("ledger", "register", folder)
    assert told("ledger", "register", folder, ROTA_TRANSPORT_ENDPOINT="10.0.0.9:9")["done"] == ["moved"]
    (folder / "keys/transport/current.pem").unlink()
    told("init", folder, "--node", NAME)
    assert told("ledger", "register", folder)["done"] == ["announced", "rotated", "moved"]
    found = registered(chain, folder)
    assert found is not None
    assert (found.current_fingerprint, found.next_fingerprint, found.endpoint) == (
        fingerprint(folder),
        None,
        "127.0.0.1:1",
    )
    assert "was so already" in rota("ledger", "register", folder).output


def test_name_of_another_is_not_taken(folder: Path, tmp_path: Path, chain: ChainProcess) -> None:
    told("ledger", "register", folder)
    ledger = tomllib.loads((folder / "config.toml").read_text())["ledger"]
    init(tmp_path / "two", "--registry", ledger["registry"], url=chain.url)
    assert rota("ledger", "fund", tmp_path / "two").exit_code == 0
    result = rota("ledger", "register", tmp_path / "two")
    assert result.exit_code == 1
    assert "the name node1 belongs to 0x" in result.output


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"ROTA_LEDGER_CHAIN_ID": "5"}, f"ledger.chain_id: the node at http://127.0.0.1:{{}} is on chain {CHAIN_ID}"),
        ({"ROTA_LEDGER_URL": "http://127.0.0.1:1"}, "ledger.url: the Ethereum node at http://127.0.0.1:1 cannot be"),
        ({"ROTA_LEDGER_REGISTRY": "0x" + "11" * 20}, "ledger.registry: there is no contract at 0x1111"),
        ({"ROTA_TRANSPORT_REGISTRY": "nodes.toml"}, "transport.registry is a file: put the node in there."),
        ({"ROTA_NODE_KEYS": "elsewhere"}, "elsewhere/transport/current.pem: there is no such file"),
        ({"ROTA_LEDGER_POLL_MS": "0"}, "ROTA_LEDGER_POLL_MS: ledger.poll_ms: must be a whole number of at least 1"),
    ],
)
def test_what_is_wrong_is_told_plainly(folder: Path, environment: dict[str, str], message: str) -> None:
    result = rota("ledger", "register", folder, **environment)
    assert result.exit_code == 1
    start, _, end = message.partition("{}")
    assert start in result.output
    assert end in result.output
    assert "Traceback" not in result.output


def test_node_without_an_endpoint_is_not_registered(tmp_path: Path) -> None:
    arguments = ("--chain-id", 1, "--registry", "0x" + "11" * 20, "--generate-password")
    told("init", tmp_path / "one", "--node", NAME, *arguments)
    result = rota("ledger", "register", tmp_path / "one")
    assert result.exit_code == 1
    assert "transport.endpoint is missing; set the address for other nodes." in result.output


def test_options_of_the_chain_are_refused_before_a_command(tmp_path: Path) -> None:
    result = rota("ledger", "--port", "0", "deploy", tmp_path)
    assert result.exit_code == 2
    assert "Options of the chain are none of deploy's" in result.output


# Keys.


def test_keys_are_shown_and_the_words_only_when_asked_for(tmp_path: Path) -> None:
    made = init(tmp_path / "one")
    shown = told("keys", "show", tmp_path / "one")
    assert {name: shown[name] for name in ("node", "submitter", "registrar", "next_certificate")} == {
        "node": NAME,
        "submitter": made["submitter"],
        "registrar": made["registrar"],
        "next_certificate": None,
    }
    assert shown["certificate"]["fingerprint"] == made["fingerprint"]
    assert shown["certificate"]["valid_until_s"] - shown["certificate"]["valid_from_s"] == 365 * 86_400 + 3_600
    assert "words" not in shown
    assert told("keys", "show", tmp_path / "one", "--words")["words"] == made["words"]
    plain = rota("keys", "show", tmp_path / "one").output
    assert made["fingerprint"] in plain
    assert made["words"] not in plain
    assert made["words"] in rota("keys", "show", tmp_path / "one", "--words").output


def test_certificate_is_exchanged_in_one_go_while_the_node_does_not_run(folder: Path, chain: ChainProcess) -> None:
    told("ledger", "register", folder)
    old = fingerprint(folder)
    result = told("keys", "rotate-certificate", folder)
    assert result["steps"] == ["prepare", "announce", "promote", "rotate"]
    assert (result["is_done"], result["waits_for"]) == (True, "")
    assert result["fingerprint"] == fingerprint(folder).hex() != old.hex()
    found = registered(chain, folder)
    assert found is not None
    assert (found.current_fingerprint, found.next_fingerprint) == (fingerprint(folder), None)
    assert not (folder / "keys/transport" / NEXT).exists()
    # Asked for again, it is another exchange.
    assert rota("keys", "rotate-certificate", folder).output.splitlines()[-1].startswith("Done. The certificate is ")


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_exchange_that_was_cut_short_is_carried_on_with(folder: Path, chain: ChainProcess, steps: int) -> None:
    told("ledger", "register", folder)
    prepared = transport(folder).ensure_next(1_900_000_000)[0].certificate.fingerprint
    if steps >= 2:
        asyncio.run(announced(folder, prepared))
    if steps >= 3:
        transport(folder).promote()
    result = told("keys", "rotate-certificate", folder)
    assert result["steps"] == ["announce", "promote", "rotate"][steps - 1 :]
    assert fingerprint(folder) == prepared
    found = registered(chain, folder)
    assert found is not None
    assert found.current_fingerprint == prepared


async def announced(folder: Path, fingerprint: bytes) -> None:
    async with opened_network(open_folder(folder, None)) as network:
        assert network is not None
        await announce(network.account, network.registry, NAME, fingerprint)


def test_old_certificate_is_kept_while_a_running_node_shows_it(folder: Path, chain: ChainProcess) -> None:
    old = transport(folder).current()
    identity = Identity(old.certificate.pem, old.private_key.reveal())
    with listening(identity, old.certificate.fingerprint) as port:
        environment = {"ROTA_TRANSPORT_ENDPOINT": f"127.0.0.1:{port}"}
        told("ledger", "register", folder, **environment)
        result = told("keys", "rotate-certificate", folder, "--wait-s", "0", **environment)
        assert result["steps"] == ["prepare", "announce", "promote"]
        assert "still shows its old certificate" in result["waits_for"]
        again = told("keys", "rotate-certificate", folder, "--wait-s", "0", **environment)
        assert (again["steps"], again["is_done"]) == ([], False)
        found = registered(chain, folder)
        assert found is not None
        assert found.current_fingerprint == old.certificate.fingerprint
        assert found.next_fingerprint == fingerprint(folder)
    renewed = transport(folder).current()
    with listening(Identity(renewed.certificate.pem, renewed.private_key.reveal()), fingerprint(folder)) as port:
        environment = {"ROTA_TRANSPORT_ENDPOINT": f"127.0.0.1:{port}", "ROTA_TRANSPORT_CERTIFICATE_LOOK_MAX_MS": "1"}
        assert told("keys", "rotate-certificate", folder, **environment)["steps"] == ["rotate"]


@contextmanager
def listening(identity: Identity, shown: bytes) -> Iterator[int]:
    """A node of the real transport that shows this certificate, in an event loop of its own."""
    ports: list[int] = []
    started, stop = threading.Event(), threading.Event()

    async def serve() -> None:
        registry = StaticRegistry({NAME: Registration("127.0.0.1:1", shown)})
        peers = GrpcPeers(NAME, identity, registry, lambda _: None, listen="127.0.0.1:0")
        running = asyncio.create_task(peers.run())
        await peers.started.wait()
        ports.append(peers.port)
        started.set()
        await asyncio.to_thread(stop.wait)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    try:
        assert started.wait(WAIT_S)
        yield ports[0]
    finally:
        stop.set()
        thread.join(WAIT_S)


def test_exchange_of_an_unregistered_node_says_what_to_do_first(folder: Path) -> None:
    result = rota("keys", "rotate-certificate", folder)
    assert result.exit_code == 1
    assert f"The registry does not know the certificate that this node shows. `rota ledger register {folder}`" in (
        result.output
    )


def test_where_the_nodes_are_in_a_file_the_operator_is_told_what_to_write(tmp_path: Path) -> None:
    folder = tmp_path / "one"
    init(folder, "--set", "transport.registry=../nodes.toml")
    nodes = tmp_path / "nodes.toml"
    old = fingerprint(folder).hex()

    def rotate_with(**entry: str) -> Any:  # noqa: ANN401
        lines = [f'{name} = "{value}"' for name, value in {"endpoint": "127.0.0.1:1", **entry}.items()]
        nodes.write_text("\n".join(["[nodes.node1]", *lines]))
        return told("keys", "rotate-certificate", folder)

    first = rotate_with(fingerprint=old)
    assert first["steps"] == ["prepare"]
    assert f'next_fingerprint = "{first["fingerprint"]}"' in first["waits_for"]
    second = rotate_with(fingerprint=old, next_fingerprint=first["fingerprint"])
    assert (second["steps"], fingerprint(folder).hex()) == (["promote"], first["fingerprint"])
    assert "take its next_fingerprint out" in second["waits_for"]
    nodes.unlink()
    missing = rota("keys", "rotate-certificate", folder)
    assert (missing.exit_code, "nodes.toml" in missing.output) == (1, True)


# At a terminal.


@pytest.mark.slow
def test_password_is_asked_for_twice_and_not_shown(tmp_path: Path) -> None:
    arguments = ("init", str(tmp_path / "one"), "--node", "a", "--chain-id", "1", "--json")
    shown = at_a_terminal(*arguments, typed=b"correct horse\ncorrect horse\n")
    assert b"Password of the keys" in shown
    assert b"Repeat for confirmation" in shown
    assert b"correct horse" not in shown
    assert (tmp_path / "one/config.toml").exists()
    mistyped = at_a_terminal("init", str(tmp_path / "two"), *arguments[2:], typed=b"one\nother\nthird\nthird\n")
    assert b"do not match" in mistyped
    assert (tmp_path / "two/config.toml").exists()


def at_a_terminal(*arguments: str, typed: bytes) -> bytes:
    """All that a terminal shows while somebody types this."""
    terminal, process_side = pty.openpty()
    environment = {name: value for name, value in os.environ.items() if name != "ROTA_NODE_PASSWORD"}
    with subprocess.Popen(
        [*ROTA, *arguments],
        stdin=process_side,
        stdout=process_side,
        stderr=process_side,
        env=environment,
        start_new_session=True,
    ) as process:
        os.close(process_side)
        shown, asked = b"", 0
        lines = typed.splitlines(keepends=True)
        try:
            while piece := os.read(terminal, 4_096):
                shown += piece
                # What is typed before somebody is asked is thrown away.
                if lines and len(re.findall(rb"(?:keys|confirmation): ", shown)) > asked:
                    asked += 1
                    os.write(terminal, lines.pop(0))
        except OSError:
            pass  # A terminal whose last process has gone says so.
        finally:
            os.close(terminal)
        process.kill()
        process.wait(timeout=WAIT_S)
    return shown


def test_ethereum_port_given_as_node_is_recognised(chain: ChainProcess) -> None:
    result = rota("tx", "list", "--node", chain.url)
    assert result.exit_code == 1
    assert "is this the JSON-RPC of a Rota node? An Ethereum node answers like this" in result.stderr
