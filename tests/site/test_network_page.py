"""docs/network.md, typed as it is printed: three organisations, PostgreSQL, an existing chain; loopback for machines.

What a block is run as stands in a comment above it: an organisation, or each. Only what the page itself calls the
reader's own is put in its place: addresses, folders and ports.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from tests import bounds
from tests.organisations import PROGRAMMES, databases, development_chain, held_ports, running, until
from tests.store.servers import postgres_folder
from tools.site.markdown import blocks_of

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "network.md"
UNIT = ROOT / "ops" / "systemd" / "rota.service"
MACHINES = {"acme": "10.0.0.11", "birch": "10.0.0.12", "cedar": "10.0.0.13"}

pytestmark = pytest.mark.slow


@dataclass
class Machine:
    """One organisation's: its folder stands for /var/lib/rota, its ports for those of the page."""

    name: str
    home: Path
    replaced: dict[str, str]
    variables: dict[str, str]

    def typed(self, text: str) -> str:
        for printed, real in self.replaced.items():
            text = text.replace(printed, real)
        return text

    def run(self, text: str) -> str:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", self.typed(text)],
            env=self.environment, cwd=self.home, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=bounds.WAIT_S,
        )  # fmt: skip
        assert done.returncode == 0, f"{self.name}: {self.typed(text)}\n{done.stdout}{done.stderr}"
        return done.stdout

    @property
    def environment(self) -> dict[str, str]:
        paths = os.pathsep.join((str(PROGRAMMES), *([str(f)] if (f := postgres_folder()) else []), os.environ["PATH"]))
        return {**os.environ, **self.variables, "PATH": paths, "HOME": str(self.home)}

    def ask(self, method: str, *parameters: object) -> Any:  # noqa: ANN401  # Whatever a node answers.
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": parameters}).encode()
        request = Request(self.typed("http://127.0.0.1:31548"), body, {"Content-Type": "application/json"})
        with urlopen(request, timeout=bounds.WAIT_S) as answer:
            return json.load(answer)["result"]


def machines_on(home: Path, chain: str, stores: dict[str, str], ports: list[int]) -> dict[str, Machine]:
    machines = {}
    of_each = iter(ports)
    peers = {f"{address}:31550": f"127.0.0.1:{next(of_each)}" for address in MACHINES.values()}
    for name in MACHINES:
        folder = home / name
        folder.mkdir()
        rpc, websocket = next(of_each), next(of_each)
        variables = {"ROTA_RPC_PORT": str(rpc), "ROTA_RPC_WEBSOCKET_PORT": str(websocket)}
        replaced = {
            "/var/lib/rota": str(folder),
            "http://127.0.0.1:8545": chain,
            "postgresql://rota@127.0.0.1:5432/rota": stores[name],
            "http://127.0.0.1:31548": f"http://127.0.0.1:{rpc}",
            **peers,
        }
        machines[name] = Machine(name, folder, replaced, variables)
    return machines


def steps() -> list[tuple[str, str]]:
    """Who types what, in the order of the page."""
    found = []
    for block in blocks_of(PAGE):
        assert block.language == "sh"
        match = re.fullmatch(r"run: (\w+)", block.comment)
        assert match or block.comment.startswith("not run: "), f"{PAGE}:{block.line}: who runs this block?"
        if match:
            found.append((match[1], block.text))
    return found


def unit_command() -> list[str]:
    (line,) = (line for line in UNIT.read_text(encoding="utf-8").splitlines() if line.startswith("ExecStart="))
    return shlex.split(line.partition("=")[2])


def is_ready(machine: Machine) -> bool:
    try:
        with urlopen(machine.typed("http://127.0.0.1:31548/readyz"), timeout=bounds.WAIT_S) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


@pytest.mark.nightly
def test_every_command_of_the_page_does_what_it_says(tmp_path: Path) -> None:
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed here; run tools/install-test-tools")
    # Where the page looks whether a node is ready, it takes the nodes to run.
    running_from = next(number for number, (_, text) in enumerate(steps()) if "/readyz" in text)
    before, after = steps()[:running_from], steps()[running_from:]
    with (
        development_chain(tmp_path, "--block-time-ms", "200") as chain,
        databases(*MACHINES) as stores,
        held_ports(3 * len(MACHINES)) as ports,
    ):
        machines = machines_on(tmp_path, chain, stores, ports)
        for who, text in before:
            for machine in machines.values() if who == "each" else [machines[who]]:
                machine.run(text)
            if "ledger deploy" in text:
                tell_the_others(machines)
        with nodes(machines):
            until(lambda: all(map(is_ready, machines.values())), "that all nodes are ready")
            until(lambda: all(len(each.ask("transport_peers")) == 2 for each in machines.values()), "all peers")
            told = [
                machine.run(text)
                for who, text in after
                for machine in (machines.values() if who == "each" else [machines[who]])
            ]
            (address,) = (each.strip() for each in told if re.fullmatch(r"0x[0-9a-f]{40}\n", each))
            assert machines["birch"].ask("domain_getSmartContractByAddress", address)["address"] == address
    assert (tmp_path / "birch" / "archive.dump").stat().st_size > 0


def tell_the_others(machines: dict[str, Machine]) -> None:
    """What acme reads from its own file and sends to them."""
    text = (machines["acme"].home / "node" / "config.toml").read_text(encoding="utf-8")
    for name, key in (("FACTORY", "factory"), ("REGISTRY", "registry"), ("HEIGHT", "registry_from_height")):
        found = re.search(rf'^{key} = "?([^"\n]+)"?$', text, re.MULTILINE)
        assert found, key
        for machine in machines.values():
            machine.variables[name] = found[1]


@contextmanager
def nodes(machines: dict[str, Machine]) -> Iterator[None]:
    """All of them, run as the systemd unit runs them, and stopped as it stops them."""
    with ExitStack() as stack:
        processes = []
        for machine in machines.values():
            programme, *arguments = [machine.typed(word) for word in unit_command()]
            assert programme == "/opt/rota/bin/rota"
            command = [str(PROGRAMMES / "rota"), *arguments]
            processes.append(stack.enter_context(running(command, machine.home / "log", env=machine.environment)))
        yield
    assert [process.returncode for process in processes] == [0, 0, 0]
