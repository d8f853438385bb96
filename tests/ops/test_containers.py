"""Containerfile and compose.yaml, held against what they run as far as a machine without a container engine can.

Words are read: every command is one that `rota` has, every variable one that is read, every port, volume and service
one that is there. Then the same steps are run as plain processes: the chain, each organisation's `join`, its node, its
health check, its stop.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import tomllib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from fnmatch import fnmatch
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest
import yaml

from rota.server.configuration import SECTIONS
from tests import bounds
from tests.command_lines import flaws_of, rota_commands
from tests.organisations import PROGRAMMES, databases, development_chain, held_ports, running, until

ROOT = Path(__file__).parents[2]
COMPOSE = yaml.safe_load((ROOT / "ops" / "compose.yaml").read_text(encoding="utf-8"))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
CONTAINERFILE = (ROOT / "Containerfile").read_text(encoding="utf-8")
JOIN = ROOT / "ops" / "container" / "join"
ORGANISATIONS = ("acme", "birch", "cedar")
EXIT_OK = 0


def instructions() -> list[tuple[str, str]]:
    """Of the Containerfile: each with its words, comments left out and lines joined."""
    lines = [line for line in CONTAINERFILE.splitlines() if line and not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    return [(line.partition(" ")[0], line.partition(" ")[2]) for line in joined.splitlines()]


def last_stage() -> dict[str, str]:
    found = instructions()
    begins = max(number for number, (name, _) in enumerate(found) if name == "FROM")
    return dict(found[begins:])


def ours() -> dict[str, dict[str, Any]]:
    return {name: service for name, service in SERVICES.items() if service["image"] == "rota"}


def variables() -> set[str]:
    return {key.variable for section in SECTIONS for key in section.keys}


# The Containerfile.


def test_base_images_are_named_with_version_and_digest() -> None:
    bases = [words.split()[0] for name, words in instructions() if name == "FROM"]
    bases += [service["image"] for service in SERVICES.values() if service["image"] != "rota"]
    assert len(bases) >= 3
    assert [base for base in bases if not re.fullmatch(r"[a-z]+:\d[\w.-]*@sha256:[0-9a-f]{64}", base)] == []


def test_everything_that_is_installed_into_the_image_is_locked_by_hash() -> None:
    """What pip takes from an index is named with its hash, and what builds the wheel is not fetched beside it."""
    steps = [step for name, words in instructions() if name == "RUN" for step in words.split("&&")]
    asked = [step.split() for step in steps if "/pip " in step]
    assert len(asked) == 4
    for words in asked:
        assert {"--require-hashes", "--no-index", "--no-build-isolation"} & set(words), words
    locked = (ROOT / "requirements/run.txt").read_text()
    assert "\nzksnake==" in locked
    assert "\nsetuptools==" in (ROOT / "requirements/build.txt").read_text()


def test_evm_and_prover_are_pinned_exactly() -> None:
    """Another version of either could judge private code or proofs differently."""
    client, node = (
        tomllib.loads((ROOT / folder / "pyproject.toml").read_text())["project"]
        for folder in (".", "distributions/node")
    )
    wanted = [*node["dependencies"], *client["optional-dependencies"]["zeto"]]
    pinned = [each for each in wanted if re.fullmatch(r"(pyrevm|zksnake)==\d+\.\d+\.\d+", each)]
    assert len(pinned) == 2
    locked = (ROOT / "requirements/run.txt").read_text()
    assert [each for each in pinned if f"\n{each} " not in locked] == []


def test_audit_looks_every_lock_file_up() -> None:
    recipe = (ROOT / "Makefile").read_text().partition("\naudit:")[2].partition("\n\n")[0]
    audited = set(re.findall(r"for lock in ([a-z ]+);", recipe)[0].split())
    assert audited == {each.stem for each in (ROOT / "requirements").glob("*.txt")}
    # A package that cannot be looked up, or a version that is not the locked one, is an error.
    assert {"--strict", "--no-deps", "--disable-pip"} <= set(recipe.split())


def test_the_image_runs_as_nobody_special_and_has_nothing_to_build_with() -> None:
    stage = last_stage()
    user, group = stage["USER"].split(":")
    assert (int(user) >= 10_000, int(group) >= 10_000) == (True, True)
    copied = [words for name, words in instructions() if name == "COPY"]
    assert [words for words in copied if words.split()[-1] == "."] == [], "a whole folder would bring what is not meant"
    assert all("apt" not in words and "curl" not in words for _, words in instructions())
    assert {name for name, _ in instructions()} & {"ADD", "MAINTAINER"} == set()


def test_what_is_copied_is_there_and_not_left_out() -> None:
    patterns = [line for line in (ROOT / ".containerignore").read_text().splitlines() if line and line[0] != "#"]
    assert patterns[0] == "*"
    let_in = [pattern[1:] for pattern in patterns if pattern[0] == "!"]
    copied = [words.split() for name, words in instructions() if name == "COPY" and "--from" not in words]
    sources = [word for words in copied for word in words[:-1] if not word.startswith("--")]
    assert sources
    for source in sources:
        assert (ROOT / source).exists(), source
        assert any(fnmatch(source, pattern) or source.startswith(f"{pattern}/") for pattern in let_in), source


def test_what_the_image_starts_is_a_command_of_rota() -> None:
    stage = last_stage()
    assert json.loads(stage["ENTRYPOINT"]) == ["rota"]
    assert flaws_of(json.loads(stage["CMD"])) == []
    shown = [arguments for name, words in instructions() if name == "RUN" for arguments in rota_commands(words)]
    assert shown == [["--version"]]


def test_the_health_check_asks_where_the_node_answers() -> None:
    words = last_stage()["HEALTHCHECK"]
    assert "--start-period=" in words
    assert "http://127.0.0.1:31548/readyz" in json.loads(words.partition("CMD ")[2])[2]
    defaults = {key.path: key.default for section in SECTIONS for key in section.keys}
    exposed = [int(port) for port in last_stage()["EXPOSE"].split()]
    assert exposed[:2] == [defaults["rpc.port"], defaults["rpc.websocket_port"]]
    assert str(defaults["transport.listen"]).endswith(f":{exposed[2]}")


# compose.yaml.


def test_every_command_of_a_service_is_one_that_rota_has() -> None:
    commands = {name: service["command"] for name, service in ours().items() if "command" in service}
    assert set(commands) == {"chain", *ORGANISATIONS}
    assert {name: flaws for name, words in commands.items() if (flaws := flaws_of(words))} == {}


def test_every_variable_is_one_that_is_read() -> None:
    assert {name for name in SERVICES if name.endswith("-join")} == {f"{name}-join" for name in ORGANISATIONS}
    wanted = set(re.findall(r"\$\{?((?:NODE|NETWORK)_[A-Z]+)", JOIN.read_text())) - {"NODE_HOME"}
    for name, service in ours().items():
        given = set(service.get("environment", {}))
        if name.endswith("-join"):
            assert given == wanted, name
        else:
            assert given <= variables(), name
    assert "ROTA_STORE_PASSWORD" in SERVICES["acme"]["environment"]


def test_what_a_service_waits_for_and_keeps_is_there() -> None:
    for name, service in SERVICES.items():
        assert set(service.get("depends_on", {})) <= set(SERVICES), name
        for other, how in service.get("depends_on", {}).items():
            if how["condition"] == "service_healthy":
                assert "healthcheck" in SERVICES[other], f"{name} waits for {other}, which has no health check"
            else:
                assert other.endswith("-join"), f"{other} does not end by itself"
        assert {volume.partition(":")[0] for volume in service.get("volumes", [])} <= set(COMPOSE["volumes"]), name


def test_ports_of_the_machine_differ_and_lead_to_those_of_the_image() -> None:
    exposed = set(last_stage()["EXPOSE"].split())
    ports = [port.split(":") for service in SERVICES.values() for port in service.get("ports", [])]
    assert len(ports) == 6
    assert len({outside for _, outside, _ in ports}) == len(ports)
    assert {host for host, _, _ in ports} == {"127.0.0.1"}
    assert {inside for _, _, inside in ports} <= exposed
    for name in ORGANISATIONS:
        host, port = SERVICES[f"{name}-join"]["environment"]["NODE_ENDPOINT"].split(":")
        assert (host in SERVICES, port in exposed) == (True, True)
        database = SERVICES[f"{name}-join"]["environment"]["NODE_STORE"]
        assert re.fullmatch(rf"postgresql://rota@{name}-database:5432/rota\?sslmode=disable", database)


def test_one_organisation_founds_the_network() -> None:
    founders = [SERVICES[f"{name}-join"]["environment"]["NETWORK_FOUNDER"] for name in ORGANISATIONS]
    assert founders == ["yes", "no", "no"]


def test_nodes_are_given_time_to_hand_over() -> None:
    (stop_timeout_ms,) = (
        key.default for section in SECTIONS for key in section.keys if key.path == "node.stop_timeout_ms"
    )
    assert isinstance(stop_timeout_ms, int)
    for name in ORGANISATIONS:
        grace_s = int(SERVICES[name]["stop_grace_period"].removesuffix("s"))
        assert grace_s * 1000 > stop_timeout_ms


def test_every_command_of_join_is_one_that_rota_has() -> None:
    commands = [[word for word in words if word != "$@"] for words in rota_commands(JOIN.read_text(encoding="utf-8"))]
    assert [words[0] for words in commands] == ["init", "credentials", "ledger", "ledger", "ledger"]
    assert [flaw for words in commands for flaw in flaws_of(words)] == []


# The same, run.


def environment_of(service: str, replaced: dict[str, str], **more: str) -> dict[str, str]:
    given = {}
    for name, value in SERVICES[service]["environment"].items():
        for printed, real in replaced.items():
            value = value.replace(printed, real)
        given[name] = value
    path = os.pathsep.join((str(PROGRAMMES), os.environ["PATH"]))
    return {**os.environ, "PATH": path, **given, **more}


@contextmanager
def node_of(name: str, home: Path, peer_port: int, rpc_port: int, websocket_port: int) -> Iterator[int]:
    own = {
        "ROTA_RPC_HOST": "127.0.0.1",
        "ROTA_RPC_PORT": str(rpc_port),
        "ROTA_RPC_WEBSOCKET_PORT": str(websocket_port),
        "ROTA_TRANSPORT_LISTEN": f"127.0.0.1:{peer_port}",
    }
    arguments = [word.replace("/var/lib/rota", str(home)) for word in SERVICES[name]["command"]]
    environment = environment_of(name, {"${DATABASE_PASSWORD:?choose one}": "any"}, **own)
    with running([str(PROGRAMMES / "rota"), *arguments], home / "log", env=environment) as process:
        yield rpc_port
    assert process.returncode == EXIT_OK, (home / "log").read_text()[-2000:]


def is_healthy(port: int) -> bool:
    """By the image's own health check."""
    command = json.loads(last_stage()["HEALTHCHECK"].partition("CMD ")[2])
    words = [word.replace("31548", str(port)) for word in command]
    done = subprocess.run([PROGRAMMES / words[0], *words[1:]], capture_output=True, timeout=bounds.WAIT_S)
    return done.returncode == EXIT_OK


def peers_of(home: Path, port: int) -> list[Any]:
    token = json.loads((home / "node" / "operator.json").read_text())["token"]
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "transport_peers", "params": []}).encode()
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
    with urlopen(Request(f"http://127.0.0.1:{port}", body, headers), timeout=bounds.WAIT_S) as answer:
        found = json.load(answer)["result"]
    assert isinstance(found, list)
    return found


def join(name: str, home: Path, replaced: dict[str, str]) -> None:
    home.mkdir(exist_ok=True)
    environment = environment_of(f"{name}-join", replaced, NODE_HOME=str(home / "node"))
    done = subprocess.run([JOIN], env=environment, capture_output=True, text=True, timeout=bounds.WAIT_S)
    assert done.returncode == EXIT_OK, f"{name}: {done.stdout}{done.stderr}"


@pytest.mark.nightly
@pytest.mark.slow
def test_the_steps_of_the_containers_make_a_network(tmp_path: Path) -> None:
    options = [word for word in SERVICES["chain"]["command"][1:] if word not in ("--host", "0.0.0.0", "--port", "8545")]
    with ExitStack() as stack:
        ports = {name: stack.enter_context(held_ports(3)) for name in ORGANISATIONS}
        chain = stack.enter_context(development_chain(tmp_path, *options))
        stores = stack.enter_context(databases(*ORGANISATIONS))
        replaced = {"http://chain:8545": chain, "/network/contracts": str(tmp_path / "contracts")}
        replaced |= {f"{name}:31550": f"127.0.0.1:{own[0]}" for name, own in ports.items()}
        replaced |= {f"postgresql://rota@{name}-database:5432/rota": url for name, url in stores.items()}
        for name in ORGANISATIONS:
            join(name, tmp_path / name, replaced)
        registered = (tmp_path / "contracts").read_text()
        join("acme", tmp_path / "acme", replaced)
        assert (tmp_path / "contracts").read_text() == registered, "run again, it changes nothing"
        nodes = {n: stack.enter_context(node_of(n, tmp_path / n, *ports[n])) for n in ORGANISATIONS}
        until(lambda: all(map(is_healthy, nodes.values())), "that all nodes are healthy")
        until(lambda: all(len(peers_of(tmp_path / n, port)) == 2 for n, port in nodes.items()), "all peers")


def test_join_is_a_script_for_any_shell() -> None:
    assert JOIN.read_text().startswith("#!/bin/sh\n")
    assert os.access(JOIN, os.X_OK)
    subprocess.run(shlex.split(f"sh -n {shlex.quote(str(JOIN))}"), check=True, timeout=bounds.WAIT_S)
