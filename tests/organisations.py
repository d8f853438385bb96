"""What tests of several organisations on this machine share: processes, ports, databases, a chain."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from rota.localnet.ports import held_port
from tests import bounds
from tests.store.servers import PostgresServer, postgres_folder

PROGRAMMES = Path(sys.executable).parent
LOOKS_MAX = bounds.WAIT_S * 10
LOOK_S = 0.1


@contextmanager
def held_ports(count: int) -> Iterator[list[int]]:
    """Several at once."""
    with ExitStack() as stack:
        yield [stack.enter_context(held_port()) for _ in range(count)]


@contextmanager
def running(command: list[str], log: Path, **options: Any) -> Iterator[subprocess.Popen[str]]:  # noqa: ANN401
    with log.open("w") as file:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=file, text=True, **options)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.communicate(timeout=bounds.WAIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()


@contextmanager
def development_chain(home: Path, *options: str) -> Iterator[str]:
    """Where it answers."""
    command = [str(PROGRAMMES / "rota"), "ledger", "--port", "0", "--json", *options]
    with running(command, home / "chain.log", stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        yield str(json.loads(process.stdout.readline())["url"])


@contextmanager
def databases(*names: str) -> Iterator[dict[str, str]]:
    """One server stands for all of theirs; each has a database of its own."""
    folder = postgres_folder()
    if folder is None:
        pytest.skip("PostgreSQL is not installed here; run tools/install-test-tools")
    server = PostgresServer(folder)
    try:
        server.start()
        host = quote(str(server.socket.parent), safe="")
        for name in names:
            psql = [str(folder / "psql"), f"postgresql://rota@{host}/postgres", "--quiet", "--command"]
            subprocess.run([*psql, f"CREATE DATABASE {name}"], check=True, timeout=bounds.WAIT_S)
        yield {name: f"postgresql://rota@{host}/{name}" for name in names}
    finally:
        server.remove()


def until(condition: Callable[[], object], what: str) -> None:
    for _ in range(LOOKS_MAX):
        if condition():
            return
        time.sleep(LOOK_S)
    raise AssertionError(f"{what} did not come")
