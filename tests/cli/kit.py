"""What the tests of commands share: a way to run one, a chain in a process of its own, a node's folder made cheaply."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from click.testing import CliRunner, Result

from rota.cli.main import main
from tests import bounds
from tests.keys.kit import CHEAP

ROTA = (sys.executable, "-c", "from rota.cli.main import main; main()")
WAIT_S = bounds.WAIT_S
CHAIN_ID = 77


def rota(*arguments: object, **environment: str) -> Result:
    """Run a command, with keys that cost nothing to make; the environment has nothing of ours but what is given."""
    none: dict[str, str | None] = dict.fromkeys(("ROTA_NODE_PASSWORD", "ROTA_STORE_PASSWORD"))
    return CliRunner(env={**none, **environment}).invoke(main, [str(each) for each in arguments], obj=CHEAP)


def told(*arguments: object, **environment: str) -> Any:  # noqa: ANN401  # Each command has an object of its own.
    """What a command says with --json, when it does well."""
    result = rota(*arguments, "--json", **environment)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def init(folder: Path, *arguments: object, name: str = "node1", url: str = "http://127.0.0.1:1") -> Any:  # noqa: ANN401
    """A node's folder, and what `rota init` says of it."""
    return told(
        *("init", folder, "--node", name, "--ledger", url, "--chain-id", CHAIN_ID),
        *("--endpoint", "127.0.0.1:1", "--generate-password", *arguments),
    )


class ChainProcess:
    """A chain of `rota ledger`, and a plain way to ask it."""

    def __init__(self, url: str) -> None:
        self.url = url

    def rpc(self, method: str, *parameters: object) -> Any:  # noqa: ANN401
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": parameters}).encode()
        with urlopen(Request(self.url, data=body), timeout=WAIT_S) as response:
            return json.load(response)["result"]

    def balance(self, address: str) -> int:
        return int(self.rpc("eth_getBalance", address, "latest"), 16)


@contextmanager
def chain_process() -> Iterator[ChainProcess]:
    with subprocess.Popen(
        [*ROTA, "ledger", "--port", "0", "--chain-id", str(CHAIN_ID), "--json"], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            yield ChainProcess(json.loads(process.stdout.readline())["url"])
        finally:
            process.terminate()
            process.wait(timeout=WAIT_S)
