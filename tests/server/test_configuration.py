"""One TOML file and the environment: what they say, and what is refused with its line."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import fields
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.automation.settings import Strategy, TriggerSettings
from rota.directory.consent import Consent, ConsentMode
from rota.keys.files import KeyFileError, UnsafePermissions
from rota.keys.secret import Secret
from rota.ledger.client import ClientLimits
from rota.ledger.follower import FollowerLimits
from rota.model.config import Config
from rota.model.types import Contract, ContractAddress, NodeName, Rotation
from rota.server.configuration import (
    ConfigurationRejected,
    LedgerSection,
    LogFormat,
    LogLevel,
    NodeConfiguration,
    NodeSection,
    PostgresServer,
    SqliteFile,
    StoreSection,
    password_of,
    read_configuration,
)
from rota.server.configuring.keys import NOTHING, REQUIRED, Key
from rota.server.configuring.kinds import Whole
from rota.server.configuring.sections import DOMAINS, SECTIONS
from rota.server.configuring.writing import render_reference, with_setting, write_configuration
from rota.server.settings import Limits as RpcLimits
from rota.transport.settings import TransportSettings

REGISTRY = "0x" + "ab" * 20
LEAST = f"""\
[node]
name = "node1"
[ledger]
url = "http://localhost:8545"
chain_id = 1337
registry = "{REGISTRY}"
"""
NO_REGISTRY = 'ledger.registry: is missing: transport.registry is "chain", so that the Registry has to be known'
KEYS = [key for section in SECTIONS for key in section.keys]
NUMBERS = [key for key in KEYS if isinstance(key.kind, Whole)]


def read(folder: Path, text: str, domains: tuple[str, ...] = (), **environment: str) -> NodeConfiguration:
    file = folder / "config.toml"
    file.write_bytes(text.encode())
    return read_configuration(file, environment, domains)


def flaws(folder: Path, text: str, domains: tuple[str, ...] = (), **environment: str) -> list[str]:
    """What is told of a text, without the folder."""
    with pytest.raises(ConfigurationRejected) as rejected:
        read(folder, text, domains, **environment)
    assert str(rejected.value).splitlines() == [str(flaw) for flaw in rejected.value.flaws]
    return [str(flaw).removeprefix(f"{folder}/") for flaw in rejected.value.flaws]


# What is read.


def test_few_keys_are_needed_and_the_rest_have_defaults(tmp_path: Path) -> None:
    configuration = read(tmp_path, LEAST)
    assert configuration == NodeConfiguration(
        node=NodeSection(name=NodeName("node1"), keys=tmp_path / "keys"),
        ledger=LedgerSection(url="http://localhost:8545", chain_id=1337, registry=ContractAddress(REGISTRY)),
        store=StoreSection(url=SqliteFile(tmp_path / "rota.db")),
    )
    assert configuration.sequencer == Config()
    assert configuration.transport.settings == TransportSettings()
    # Nobody makes a node take part in a contract whose operator has set nothing.
    assert configuration.consent.policy == Consent(ConsentMode.ASK)


def test_consent_is_read_with_the_nodes_that_are_allowed(tmp_path: Path) -> None:
    text = LEAST + '[consent]\nproposals = "listed"\nallow = ["acme", "birch"]\n'
    policy = read(tmp_path, text).consent.policy
    assert policy == Consent(ConsentMode.LISTED, (NodeName("acme"), NodeName("birch")))
    wrong = LEAST + '[consent]\nproposals = "closed"\nallow = ["A B"]\n'
    assert [flaw.split(": ")[1] for flaw in flaws(tmp_path, wrong)] == ["consent.proposals", "consent.allow"]


def test_every_section_is_read_into_its_own_value(tmp_path: Path) -> None:
    text = f"""
        [node]
        name = "node1"
        keys = "/elsewhere"
        [ledger]
        url = "wss://ledger.example/x"
        chain_id = 1
        factory = "0x{"AB" * 20}"
        confirmations = 12
        poll_ms = 250
        timeout_ms = 7
        [store]
        url = "postgresql://rota@db:5433/rota?sslmode=require"
        password_file = "secrets/db"
        [transport]
        registry = "nodes.toml"
        peers_max = 3
        [rpc]
        host = "0.0.0.0"
        credentials_file = "users.toml"
        origins = ["https://app.example"]
        calls_max = 5
        [operations]
        port = 9100
        [sequencer]
        heartbeat_ms = 100
        [contracts]
        rotation = "strict"
        [domains.noto]
        limit = 3
        [log]
        level = "debug"
        format = "json"
        """
    configuration = read(tmp_path, text, domains=("noto",))
    assert configuration.node.keys == Path("/elsewhere")
    assert (configuration.ledger.factory, configuration.ledger.registry) == ("0x" + "ab" * 20, None)
    assert (configuration.ledger.following.poll_ms, configuration.ledger.client.timeout_ms) == (250, 7)
    assert configuration.store.url == PostgresServer("postgresql://rota@db:5433/rota?sslmode=require")
    assert configuration.store.password_file == tmp_path / "secrets/db"
    assert configuration.transport.registry == tmp_path / "nodes.toml"
    assert configuration.sequencer == Config(confirmations=12, heartbeat_ms=100)
    # Pings of the transport go with the heartbeats of the sequencer.
    assert configuration.transport.settings == TransportSettings(peers_max=3, heartbeat_ms=100)
    assert configuration.operations_address == ("0.0.0.0", 9100)
    assert configuration.rpc.origins == ("https://app.example",)
    assert configuration.rpc.limits == RpcLimits(calls_max=5)
    assert configuration.contracts.rotation is Rotation.STRICT
    assert (configuration.log.level, configuration.log.format) == (LogLevel.DEBUG, LogFormat.JSON)
    assert configuration.domains["noto"]["limit"] == 3


def test_metrics_are_served_with_the_rpc_unless_they_are_set_apart(tmp_path: Path) -> None:
    assert read(tmp_path, LEAST).operations_address == ("127.0.0.1", 31_548)
    assert read(tmp_path, LEAST + '[operations]\nhost = "::1"').operations_address == ("::1", 31_548)


def test_environment_stands_before_the_file(tmp_path: Path) -> None:
    configuration = read(
        tmp_path,
        LEAST,
        ROTA_NODE_NAME="node2",
        ROTA_LEDGER_CHAIN_ID="99",
        ROTA_SEQUENCER_HEARTBEAT_MS="50",
        ROTA_NODE_PASSWORD_FILE="there",
        ROTA_CONTRACTS_ROTATION="strict",
        ROTA_RPC_ORIGINS="https://a, http://b:1",
        ROTA_FORBID_SKIPS="1",
        PATH="/bin",
    )
    assert (configuration.node.name, configuration.ledger.chain_id) == ("node2", 99)
    assert configuration.sequencer.heartbeat_ms == configuration.transport.settings.heartbeat_ms == 50
    assert configuration.node.password_file == tmp_path / "there"
    assert configuration.rpc.origins == ("https://a", "http://b:1")
    assert configuration.contracts.rotation is Rotation.STRICT


def test_environment_alone_may_say_all_that_is_needed(tmp_path: Path) -> None:
    said = {
        "ROTA_NODE_NAME": "node1",
        "ROTA_LEDGER_URL": "http://localhost:8545",
        "ROTA_LEDGER_CHAIN_ID": "1337",
        "ROTA_LEDGER_REGISTRY": REGISTRY,
    }
    assert read(tmp_path, "", (), **said) == read(tmp_path, LEAST)


@pytest.mark.parametrize("url", ["postgresql://rota@db/rota", "postgres://rota@[::1]:1/rota?sslmode=require"])
def test_password_goes_into_the_connection_string_only_when_it_is_used(url: str) -> None:
    server = PostgresServer(url)
    assert server.with_password(None) == url
    assert server.with_password(Secret("p@ss/w:rd é")) == url.replace("rota@", "rota:p%40ss%2Fw%3Ard%20%C3%A9@")


# What is refused.


def test_all_flaws_are_told_at_once_each_with_its_line(tmp_path: Path) -> None:
    text = """\
[node]
name = "Node 1"
passwrod_file = "x"
[ledger]
url = "localhost:8545"

chain_id = "1337"
confirmation = 1
heartbeat_ms = 3
[log]
colour = true
[transpart]
listen = ":"
"""
    assert flaws(tmp_path, text, ROTA_RPC_PORT="70000", ROTA_LOG_LEVELS="info") == [
        "config.toml:2: node.name: must be a name of 1 to 63 of the characters a to z, 0 to 9, hyphen, dot and "
        'underscore, not "Node 1"',
        "config.toml:3: node.passwrod_file: is not known; did you mean password_file?",
        f"config.toml:4: {NO_REGISTRY}",
        "config.toml:5: ledger.url: must be an address that begins with http://, https://, ws:// or wss://, such as "
        'http://localhost:8545, not "localhost:8545"',
        'config.toml:7: ledger.chain_id: must be a whole number of at least 1, not "1337"',
        "config.toml:8: ledger.confirmation: is not known; did you mean confirmations?",
        "config.toml:9: ledger.heartbeat_ms: is not known; it belongs to [sequencer]",
        "config.toml:11: log.colour: is not known; there are level, format",
        "config.toml:12: transpart: is not known as a section; did you mean transport?",
        "ROTA_LOG_LEVELS: is not known; did you mean ROTA_LOG_LEVEL?",
        "ROTA_RPC_PORT: rpc.port: must be a whole number from 0 to 65535, not 70000",
    ]


def test_what_is_missing_is_told_with_what_it_must_be(tmp_path: Path) -> None:
    assert flaws(tmp_path, "\n[ledger]\nchain_id = 1") == [
        "config.toml: node.name: is missing; it must be a name of 1 to 63 of the characters a to z, 0 to 9, hyphen, "
        "dot and underscore",
        f"config.toml:2: {NO_REGISTRY}",
        "config.toml:2: ledger.url: is missing; it must be an address that begins with http://, https://, ws:// or "
        "wss://, such as http://localhost:8545",
    ]


@pytest.mark.parametrize(
    ("key", "wrong"),
    [
        ("node.name", ["''", "'a b'", "'A'", "'a/b'", "7", "[]", f"'{'a' * 64}'"]),
        ("node.keys", ["''", "3", r'"a\u0000b"']),
        ("ledger.url", ["''", "'ftp://a'", "'http://'", "'http://a:x'", "'http://a b'", "1", "['http://a']"]),
        ("ledger.chain_id", ["0", "-1", "1.0", "true", "'1'", "9223372036854775808"]),
        ("ledger.registry", ["''", "'0x12'", f"'{'ab' * 20}'", f"'0x{'zz' * 20}'"]),
        ("transport.listen", ["'9000'", "':9000'", "'a:b'", "'a:65536'", "'::1:9000'", "'[1.2.3.4]:1'", "'a b:1'"]),
        ("transport.endpoint", ["'a:0'", "'a'", f"'{'a' * 250}:31550'"]),
        ("transport.registry", ["''", "true"]),
        ("rpc.host", ["''", "'a b'", "'http://a'", "'[::1]'", "'-a'"]),
        ("rpc.port", ["-1", "65536", "'1'", "false"]),
        ("rpc.origins", ["'https://a'", "['a']", "['https://a/b']", "['https://a', 1]", "['ws://a']"]),
        ("contracts.rotation", ["'Sticky'", "''", "1"]),
        ("contracts.virtual_nodes", ["0", "65537"]),
        ("log.level", ["'loud'", "true"]),
        ("telemetry.endpoint", ["'ws://a'", "'a'"]),
        ("telemetry.sample_percent", ["101", "-1"]),
    ],
)
def test_wrong_value_is_refused_where_it_stands(tmp_path: Path, key: str, wrong: list[str]) -> None:
    section, name = key.split(".")
    for value in wrong:
        lines = [line for line in LEAST.splitlines() if not line.startswith(f"{name} =")]
        at = lines.index(f"[{section}]") + 1 if f"[{section}]" in lines else len(lines) + 1
        text = "\n".join(
            [*lines[:at], *([] if at <= len(lines) else [f"[{section}]"]), f"{name} = {value}", *lines[at:]]
        )
        told = flaws(tmp_path, text)
        assert len(told) == 1, (value, told)
        assert told[0].startswith(f"config.toml:{at + 1}: {key}: must be "), value
        assert ", not " in told[0]


@pytest.mark.parametrize("key", NUMBERS, ids=lambda key: key.path)
def test_numbers_have_a_least_and_name_themselves(tmp_path: Path, key: Key) -> None:
    assert isinstance(key.kind, Whole)
    (told,) = flaws(tmp_path, LEAST, (), **{key.variable: str(key.kind.least - 1)})
    assert told == f"{key.variable}: {key.path}: must be {key.kind.right}, not {key.kind.least - 1}"


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://rota:geheim@db/rota",
        "postgresql://rota@db/rota?password=geheim",
        "postgresql://rota:geheim@db:x/rota",
        "mysql://rota:geheim@db/rota",
        "sqlite://geheim",
        "sqlite:",
        "postgresql://db/rota",
        "postgresql://rota@db",
    ],
)
def test_password_in_a_connection_string_is_refused_and_not_shown(tmp_path: Path, url: str) -> None:
    for told in (flaws(tmp_path, LEAST + f"[store]\nurl = '{url}'"), flaws(tmp_path, LEAST, ROTA_STORE_URL=url)):
        assert len(told) == 1
        assert "must be sqlite:FILE, or postgresql://USER@HOST:PORT/DATABASE without a password" in told[0]
        assert "geheim" not in told[0]


def test_password_in_a_wrong_address_is_not_shown(tmp_path: Path) -> None:
    (told,) = flaws(tmp_path, LEAST, ROTA_LEDGER_URL="htp://me:geheim@ledger.example/x")
    assert told.endswith(', not "htp://...@ledger.example/x"')


@pytest.mark.parametrize("section", ["node", "store"])
def test_password_in_the_file_is_refused_and_not_shown(tmp_path: Path, section: str) -> None:
    text = LEAST.replace("[node]", '[node]\npassword = "geheim"') if section == "node" else (
        LEAST + '[store]\nurl = "postgresql://a@b/c"\npassword = "geheim"'
    )  # fmt: skip
    (told,) = flaws(tmp_path, text)
    assert f"{section}.password: must not stand in a file: use {section}.password_file, or the variable ROTA_" in told
    assert "geheim" not in told


def test_password_of_the_environment_shows_nowhere(tmp_path: Path) -> None:
    configuration = read(
        tmp_path,
        LEAST + '[store]\nurl = "postgresql://a@b/c"',
        ROTA_NODE_PASSWORD="geheim",
        ROTA_STORE_PASSWORD="geheim",
    )
    assert password_of(configuration.node) == password_of(configuration.store) == Secret("geheim")
    assert "geheim" not in repr(configuration)


def test_password_comes_from_a_private_file(tmp_path: Path) -> None:
    section = NodeSection(name=NodeName("a"), password_file=tmp_path / "password")
    assert password_of(NodeSection(name=NodeName("a"))) is None
    with pytest.raises(KeyFileError):
        password_of(section)
    (tmp_path / "password").write_text("geheim\n")
    (tmp_path / "password").chmod(0o644)
    with pytest.raises(UnsafePermissions):
        password_of(section)
    (tmp_path / "password").chmod(0o600)
    assert password_of(section) == Secret("geheim")


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (
            "[rpc]\nhost = '0.0.0.0'",
            "7: rpc.credentials_file: is missing: rpc.host is 0.0.0.0, and without it everybody may do everything",
        ),
        (
            "[operations]\nhost = 'ops'\nport = 9",
            ": rpc.credentials_file: is missing: operations.host is ops, and without it everybody may do everything",
        ),
        (
            "[rpc]\nbody_bytes_max = 100_000_000",
            "7: rpc.bodies_bytes_max: must be at least body_bytes_max, which is 100000000",
        ),
        (
            "[sequencer]\ntransition_bytes_max = 1000\nmessage_bytes_max = 500_000",
            "9: sequencer.message_bytes_max: must be at least intent_bytes_max, which is 1048576",
        ),
        (
            "[sequencer]\nintent_bytes_max = 2_000_000",
            "8: sequencer.intent_bytes_max: must be at most 1048576, the payload that a message may have, not 2000000",
        ),
        (
            "[sequencer]\nin_flight_max = 8193",
            "8: sequencer.in_flight_max: must be at most 8192, as many items as a message may have of a kind, not 8193",
        ),
        (
            "[sequencer]\nmessage_bytes_max = 4_000_000",
            "8: sequencer.message_bytes_max: must be at most 3145728, a frame without the room for ids, locks and the "
            "envelope, not 4000000",
        ),
        ("[rpc]\nport = 31549", "7: rpc.websocket_port: must be another port than rpc.port, which is 31549 too"),
        (
            "[transport]\nlisten = '0.0.0.0:31548'",
            "8: transport.listen: must be another port than rpc.port, which is 31548 too",
        ),
        (
            "[operations]\nport = 31549",
            "8: operations.port: must be another port than rpc.websocket_port, which is 31549 too",
        ),
        (
            "[store]\npassword_file = 'x'",
            "8: store.password_file: must be left out, as store.url is a SQLite file, which has no password",
        ),
        (
            "[sequencer]\nretry_backoff_ms = 20000",
            "7: sequencer.retry_backoff_max_ms: must be at least sequencer.retry_backoff_ms, which is 20000, not 10000",
        ),
        ("[transport]\nbackoff_max_ms = 1", "8: transport.backoff_max_ms: must be at least backoff_ms, which is 100"),
    ],
)
def test_contradiction_is_refused_where_it_can_be_mended(tmp_path: Path, more: str, told: str) -> None:
    assert flaws(tmp_path, LEAST + more) == [f"config.toml{':' * (not told.startswith(':'))}{told}"]


def test_window_that_is_shorter_than_the_confirmations_is_refused(tmp_path: Path) -> None:
    text = LEAST + "index_window_max = 5\nconfirmations = 5"
    told = "ledger.index_window_max: must be greater than confirmations, which is 5"
    assert flaws(tmp_path, text) == [f"config.toml:7: {told}"]
    assert flaws(tmp_path, LEAST + "confirmations = 300", ROTA_LEDGER_INDEX_WINDOW_MAX="300") == [
        f"ROTA_LEDGER_INDEX_WINDOW_MAX: {told}00".replace("is 500", "is 300")
    ]


def test_what_is_wrong_by_itself_is_not_told_again_as_a_contradiction(tmp_path: Path) -> None:
    (told,) = flaws(tmp_path, LEAST + "index_window_max = 0\nconfirmations = 300")
    assert "ledger.index_window_max: must be a whole number of at least 1, not 0" in told


def test_ports_that_the_system_chooses_do_not_clash(tmp_path: Path) -> None:
    text = LEAST + "[rpc]\nport = 0\nwebsocket_port = 0\n[transport]\nlisten = '127.0.0.1:0'\n[operations]\nport = 0"
    assert read(tmp_path, text).rpc.port == 0


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.8.8.8", "::1"])
def test_loopback_needs_no_credentials(tmp_path: Path, host: str) -> None:
    assert read(tmp_path, LEAST + f"[rpc]\nhost = '{host}'").rpc.host == host


def test_domains_are_tables_of_what_is_installed(tmp_path: Path) -> None:
    assert read(tmp_path, LEAST + "[domains]", ("noto",)).domains == {}
    assert flaws(tmp_path, LEAST + "[domains.nodo]\n[domains]\nnoto = 3", ("noto",), ROTA_DOMAINS_NOTO_X="1") == [
        "config.toml:7: domains.nodo: no such domain is installed; did you mean noto?",
        "config.toml:9: domains.noto: must be a table, [domains.noto], not 3",
        "ROTA_DOMAINS_NOTO_X: cannot be set here; domains are set in the file",
    ]
    assert flaws(tmp_path, LEAST + "[domains.x]") == [
        "config.toml:7: domains.x: no such domain is installed; there is none"
    ]


def test_key_outside_of_all_sections_and_a_section_that_is_none_are_refused(tmp_path: Path) -> None:
    assert flaws(tmp_path, "url = 1\nlog = 3\n" + LEAST) == [
        "config.toml:1: url: is not known as a key outside of all sections; there are node, ledger, store, transport, "
        "rpc, operations, commands, sequencer, contracts, consent, domains, automation, triggers, proving, log, "
        "telemetry",
        "config.toml:2: log: must be a section, [log], not 3",
    ]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"[node\n", "config.toml:1: is not TOML: "),
        (b"\n\na = 1\na = 2", "config.toml:4: is not TOML: "),
        (b"[node]\nname = 'a", "config.toml:2: is not TOML: "),
        (b"[node]\n\nname = '\xff'", "config.toml:3: must be UTF-8, and is not from here on"),
        (b"a = " + b"[" * 5_000 + b"]" * 5_000, "config.toml: is not for us: something in it is nested too deeply"),
        (b"#" * (1024 * 1024 + 1), "config.toml: must have at most 1048576 bytes"),
    ],
    ids=["header", "twice", "end", "utf-8", "deep", "long"],
)
def test_what_is_no_toml_is_refused_with_its_line(tmp_path: Path, content: bytes, told: str) -> None:
    (tmp_path / "config.toml").write_bytes(content)
    with pytest.raises(ConfigurationRejected) as rejected:
        read_configuration(tmp_path / "config.toml", {})
    assert str(rejected.value).removeprefix(f"{tmp_path}/").startswith(told)


def test_file_that_is_not_there_or_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationRejected, match=r"there is no such file; `rota init` makes"):
        read_configuration(tmp_path / "config.toml", {})
    with pytest.raises(ConfigurationRejected, match="cannot be read: Is a directory"):
        read_configuration(tmp_path, {})


@given(st.text(), st.text("abcdef_.[]='\"\n 1#", max_size=60))
def test_whatever_stands_in_a_file_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, odd: str, near: str
) -> None:
    file = tmp_path_factory.getbasetemp() / "odd.toml"
    for text in (odd, near, LEAST + near):
        file.write_bytes(text.encode(errors="replace"))
        with suppress(ConfigurationRejected):
            read_configuration(file, {}, ())


# The schema, the written file, the reference.


def test_every_timer_and_limit_can_be_set_in_one_place() -> None:
    names = [key.path for key in KEYS]
    assert len(names) == len(set(names))
    by_section = {section.name: {key.name for key in section.keys} for section in SECTIONS}
    for field in fields(Config):
        assert [name for name in ("sequencer", "ledger") if field.name in by_section[name]], field.name
    assert {field.name for field in fields(FollowerLimits)} <= by_section["ledger"]
    assert {field.name for field in fields(ClientLimits)} <= by_section["ledger"]
    assert {field.name for field in fields(RpcLimits)} <= by_section["rpc"]
    left_out = {"heartbeat_ms", "heartbeat_grace", "limits"}
    assert {field.name for field in fields(TransportSettings)} - by_section["transport"] == left_out


def test_every_key_says_what_it_is_for_and_those_with_a_unit_in_their_name_say_it() -> None:
    for key in KEYS:
        assert re.fullmatch(r"[A-Z`\"].*\.", key.text, re.DOTALL), key.path
        for ending, unit in (("_ms", "ms"), ("_wei", "wei"), ("_percent", "%"), ("_height", "height")):
            assert not key.name.endswith(ending) or key.unit == unit, key.path


def test_defaults_of_contracts_are_those_of_a_contract() -> None:
    contract = Contract(ContractAddress(REGISTRY), (NodeName("a"),), (), 0)
    section = read_defaults()
    assert (section.contracts.range_size, section.contracts.virtual_nodes) == (
        contract.range_size,
        contract.virtual_nodes,
    )
    assert section.contracts.rotation is contract.rotation


def read_defaults() -> NodeConfiguration:
    return NodeConfiguration(
        node=NodeSection(name=NodeName("a")), ledger=LedgerSection(url="http://localhost", chain_id=1)
    )


def test_written_file_says_what_it_was_given_and_is_read_back(tmp_path: Path) -> None:
    given_ = {
        "node.name": "node1",
        "ledger.url": "http://localhost:8545",
        "ledger.chain_id": 1337,
        "ledger.registry": REGISTRY,
    }
    assert read(tmp_path, write_configuration(given_)) == read(tmp_path, LEAST)


def test_written_file_has_every_key_and_its_comments_are_the_defaults(tmp_path: Path) -> None:
    text = write_configuration(
        {
            "node.name": "node1",
            "ledger.url": "http://localhost:8545",
            "ledger.chain_id": 1337,
            "ledger.registry": REGISTRY,
        }
    )
    plain = re.sub(r"^# (\w+ = .+)$", r"\1", text.replace("# key = value", ""), flags=re.MULTILINE)
    assert read(tmp_path, plain) == read(tmp_path, LEAST)
    for key in KEYS:
        assert (f"{key.name} =" in text) is not key.is_environment_only, key.path


@given(st.text(st.characters(codec="utf-8"), min_size=1).filter(lambda text: "\0" not in text))
def test_written_text_is_read_back_whatever_it_is(tmp_path_factory: pytest.TempPathFactory, odd: str) -> None:
    file = tmp_path_factory.getbasetemp() / "config.toml"
    said = {"node.name": "a", "ledger.url": "http://a", "ledger.chain_id": 1, "ledger.registry": REGISTRY}
    file.write_bytes(write_configuration(said | {"node.keys": odd}).encode())
    assert read_configuration(file, {}, ()).node.keys == file.parent / odd


def test_key_that_may_be_lacking_is_not_asked_for_and_a_wrong_one_is_still_refused(tmp_path: Path) -> None:
    lacking = LEAST.replace("registry", "# registry")
    (tmp_path / "config.toml").write_text(lacking)
    read_ = read_configuration(tmp_path / "config.toml", {}, may_lack=("ledger.registry",))
    assert read_.ledger.registry is None
    with pytest.raises(ConfigurationRejected, match="an address: 0x and 40 hex digits"):
        read_configuration(tmp_path / "config.toml", {"ROTA_LEDGER_REGISTRY": "0x1"}, may_lack=("ledger.registry",))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("[a]\n# b =\nc = 1\n", "[a]\nb = 7\nc = 1\n"),
        ("[a]\n# b = 3  # blocks\n[d]\n# b =\n", "[a]\nb = 7\n[d]\n# b =\n"),
        ("[d]\n# b =\n[ a ] # x\nc = 1", "[d]\n# b =\n[ a ] # x\nb = 7\nc = 1"),
        ("", "\n[a]\nb = 7\n"),
        ("x = 1\n", "x = 1\n\n[a]\nb = 7\n"),
        ("[[c]]\n[a]", "[[c]]\n[a]\nb = 7"),
    ],
)
def test_setting_takes_the_place_of_its_comment_or_begins_its_section(before: str, after: str) -> None:
    assert with_setting(before, "a.b", 7) == after


@pytest.mark.parametrize(
    "text", ["[a]\nb = 1", "a.b = 1", "a = {b = 1}", "a = {c = 1}", 'x = """\n[a]\n"""', "a.c = 1"]
)
def test_setting_that_is_there_or_has_no_plain_place_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"a\.b: (is set already, on line|cannot be set by a programme)"):
        with_setting(text, "a.b", 7)


def test_reference_has_every_key_with_its_default_and_unit() -> None:
    page = render_reference()
    for section in SECTIONS:
        assert f"## [{section.name}]\n" in page
    for key in KEYS:
        (row,) = [line for line in page.splitlines() if key.text in line and (key.name in line or key.variable in line)]
        assert key.unit in row
        assert ("required" in row) == (key.default is REQUIRED), row
        assert ("| none |" in row) == (key.default is NOTHING), row
    assert DOMAINS.text in page


# Automation.


def test_automation_is_set_for_all_triggers_and_for_one(tmp_path: Path) -> None:
    text = """
    [automation]
    load = ["company.triggers"]
    paused = ["close-auctions"]
    strategy = "rank"
    [triggers.close-auctions]
    contract = "0x11"
    polling_interval_ms = 7
    """
    found = read(tmp_path, LEAST + text)
    assert found.automation.load == ("company.triggers",)
    assert found.automation.paused == ("close-auctions",)
    assert found.automation.settings == TriggerSettings(strategy=Strategy.RANK)
    assert found.triggers == {"close-auctions": {"contract": "0x11", "polling_interval_ms": 7}}
    assert read(tmp_path, LEAST).automation.settings == TriggerSettings()


def test_a_trigger_is_set_in_the_environment_too(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        LEAST + '[triggers.close-auctions]\nstrategy = "random"\n',
        ROTA_AUTOMATION_PAUSED="close-auctions, other",
        ROTA_AUTOMATION_SPLICE_METRICS="true",
        ROTA_TRIGGERS_CLOSE_AUCTIONS_STRATEGY="rank",
        ROTA_TRIGGERS_CLOSE_AUCTIONS_EXPECTED_TASK_DURATION_MS="9",
        ROTA_TRIGGERS_OTHER_PARALLEL_TASKS="2",
    )
    assert found.automation.paused == ("close-auctions", "other")
    assert found.automation.splice_metrics
    assert found.triggers == {
        "close-auctions": {"strategy": "rank", "expected_task_duration_ms": 9},
        "other": {"parallel_tasks": 2},
    }


def test_what_is_wrong_about_automation_is_told(tmp_path: Path) -> None:
    text = '[automation]\nload = ["not a module"]\npaused = "x"\nsplice_metrics = 1\n[triggers]\nx = 3\n'
    assert flaws(tmp_path, LEAST + text, ROTA_TRIGGERS_X_SPEED="3") == [
        "config.toml:8: automation.load: must be a list of at most 256 names of Python modules, such as "
        "\"company.triggers\", not ['not a module']",
        'config.toml:9: automation.paused: must be a list of at most 256 names of triggers, not "x"',
        "config.toml:10: automation.splice_metrics: must be true or false, not 1",
        "config.toml:12: triggers.x: must be a table, [triggers.x], not 3",
        "ROTA_TRIGGERS_X_SPEED: is not known; of a trigger there can be set expected_task_duration_ms, "
        "polling_interval_ms, parallel_tasks, strategy",
    ]
