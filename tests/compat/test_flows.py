"""Flows of existing TypeScript applications, run by Node.js against real nodes: HTTP, WebSocket, recorded requests."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from rota.model.types import NodeName
from tests import bounds
from tests.domains.zeto.prover import ThreadProver
from tests.server.storage import BYTECODE
from tests.server.three_nodes import three_nodes
from tests.service.kit import Network

HERE: Final = Path(__file__).parent
RECORDED: Final = HERE.parent / "server" / "clients"
ERC20: Final = HERE.parent / "contracts" / "artifacts" / "TestToken.json"
# Calls that succeed together, as applications deploy it.
ARTIFACTS: Final = HERE.parent / "contracts" / "artifacts"
ATOM: Final = json.loads((ARTIFACTS / "Atom.json").read_text())
BOND: Final = ("BondTracker", "BondSubscription", "AtomFactory", "Atom")
GUARD: Final = HERE.parents[1] / "src" / "rota" / "ledger" / "artifacts" / "TokenGuard.json"
INSTALLED: Final = HERE / "node_modules" / ".package-lock.json"


# How often all flows run in a row, and how many busy loops run beside them (`make compat`).
REPEATS: Final = "ROTA_COMPAT_REPEATS"
BUSY: Final = "ROTA_COMPAT_BUSY"


@contextmanager
def busy_loops(count: int) -> Iterator[None]:
    """Processes that do nothing but use a core each."""
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed here: install Node.js 20 or later")
@pytest.mark.skipif(not INSTALLED.exists(), reason="TypeScript is not installed here; run tools/install-test-tools")
def test_flows_of_existing_applications_succeed(tmp_path: Path) -> None:
    async def share_prover(nodes: Network) -> None:
        nodes.prover = ThreadProver()

    with three_nodes(tmp_path, share_prover) as to:
        environment = {
            **os.environ,
            "ROTA_NODE1": to.node1.url,
            "ROTA_NODE2": to.node2.url,
            "ROTA_SOCKET1": to.nodes.processes[NodeName("node1")].entrance.websocket_url,
            "ROTA_RECORDED": str(RECORDED),
            "ROTA_BYTECODE": BYTECODE,
            "ROTA_ERC20": ERC20.read_text(encoding="utf-8"),
            "ROTA_ATOM": json.dumps({name: ATOM[name] for name in ("abi", "bytecode")}),
            "ROTA_BOND": json.dumps({name: json.loads((ARTIFACTS / f"{name}.json").read_text()) for name in BOND}),
            "ROTA_GUARD": str(GUARD),
            "ROTA_WAIT_MS": str(int(1_000 * bounds.WAIT_S)),
        }
        with busy_loops(int(os.environ.get(BUSY, "0"))):
            for number in range(int(os.environ.get(REPEATS, "1"))):
                ran = subprocess.run(
                    ["npm", "test", "--silent"],
                    cwd=HERE,
                    env=environment,
                    capture_output=True,
                    text=True,
                    timeout=4 * bounds.WAIT_S,
                    check=False,
                )
                assert ran.returncode == 0, f"run {number + 1}: {ran.stdout}{ran.stderr}"
                assert "# pass 12" in ran.stdout, ran.stdout
