"""examples/own-domain: its own tests, and the domain as an installed package on three real nodes."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from rota.client import Client, Failed, Refused
from rota.localnet.local import LocalNetwork, Plan
from rota.model.types import NodeName
from tests import bounds
from tools.site.markdown import blocks_of

EXAMPLE = Path(__file__).parents[2] / "examples" / "own-domain"
NODES = tuple(NodeName(f"node{number}") for number in (1, 2, 3))

pytestmark = pytest.mark.slow


def test_the_examples_own_tests_pass() -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_consents.py"]
    done = subprocess.run(command, cwd=EXAMPLE, capture_output=True, text=True, timeout=bounds.WAIT_S)
    assert done.returncode == 0, done.stdout


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The package in a folder of its own, where the nodes' Python finds it."""
    folder = tmp_path / "packages"
    source = tmp_path / "source"
    source.mkdir()
    for name in ("consents.py", "pyproject.toml"):
        (source / name).write_bytes((EXAMPLE / name).read_bytes())
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*pip, "--target", folder, source], check=True, timeout=bounds.WAIT_S)
    monkeypatch.setenv("PYTHONPATH", str(folder))


def by(network: LocalNetwork, node: str, party: str) -> Client:
    return Client(network.nodes[NodeName(node)].client.url, sender=party)


@pytest.mark.usefixtures("installed")
def test_three_nodes_grant_use_up_and_withdraw_consents(tmp_path: Path) -> None:
    async def story() -> None:
        async with LocalNetwork(Plan(home=tmp_path / "network", names=NODES)) as network:
            await network.start(*NODES)
            async with (
                by(network, "node1", "clinic") as clinic,
                by(network, "node2", "laboratory") as laboratory,
                by(network, "node3", "registry") as registry,
            ):
                contract = await printed(clinic)
                use = {"subject": "record 7", "holder": "clinic@node1", "purpose": "study"}
                for left in (2, 1, 0):
                    await (await laboratory.send(contract, "use", use))
                    (consent,) = await laboratory.call(contract, "consents", {"subject": "record 7"})
                    assert (consent["granted"], consent["left"]) == ("3", str(left))
                with pytest.raises(Failed, match=r"has not let laboratory@node2 use record 7 for study, or no longer"):
                    await (await laboratory.send(contract, "use", use))
                with pytest.raises(Refused, match="must be a member"):
                    await (await registry.send(contract, "grant", GRANT, sender="visitor"))
                await (await clinic.send(contract, "grant", {**GRANT, "subject": "record 8"}))
                withdraw = {"subject": "record 8", "recipient": "laboratory@node2", "purpose": "study"}
                await (await clinic.send(contract, "withdraw", withdraw))
                with pytest.raises(Failed, match="nothing left to withdraw"):
                    await (await clinic.send(contract, "withdraw", withdraw))

    asyncio.run(story())


GRANT = {"subject": "record 7", "recipient": "laboratory@node2", "purpose": "study", "uses": 3}


async def printed(clinic: Client) -> str:
    """What the README prints, with our nodes in the place of its own; the contract that it makes."""
    (block,) = (block for block in blocks_of(EXAMPLE / "README.md") if block.language == "python")
    body = block.text.partition("as clinic:\n")[2]
    lines = ["async def main(clinic):", *body.splitlines(), "    return contract"]
    names: dict[str, object] = {}
    exec("\n".join(lines), names)
    main = names["main"]
    assert callable(main)
    contract = await main(clinic)
    assert isinstance(contract, str)
    return contract
