"""Flows of existing TypeScript applications, run by Node.js against real nodes: HTTP, WebSocket, recorded requests."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
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
ATOM: Final = json.loads((HERE.parent / "contracts" / "artifacts" / "Atom.json").read_text())
GUARD: Final = HERE.parents[1] / "src" / "rota" / "ledger" / "artifacts" / "TokenGuard.json"
INSTALLED: Final = HERE / "node_modules" / ".package-lock.json"


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
            "ROTA_GUARD": str(GUARD),
            "ROTA_WAIT_MS": str(int(1_000 * bounds.WAIT_S)),
        }
        ran = subprocess.run(
            ["npm", "test", "--silent"],
            cwd=HERE,
            env=environment,
            capture_output=True,
            text=True,
            timeout=4 * bounds.WAIT_S,
            check=False,
        )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "# pass 11" in ran.stdout, ran.stdout
