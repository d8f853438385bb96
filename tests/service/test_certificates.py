"""A node's certificate is exchanged while it runs, and no peer is lost."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from rota.machine.effects import Effect
from rota.machine.events import ConnectionLost
from rota.machine.tables import Event
from rota.model.types import NodeName, Outcome
from rota.server import process as process_module
from tests.ledger.chains import in_loop
from tests.service.kit import ALICE, Network, network

pytestmark = pytest.mark.slow

NODE1, NODE2, NODE3 = ALL = tuple(map(NodeName, ("node1", "node2", "node3")))


class Losses:
    """Counts the connections that a node lost."""

    def __init__(self) -> None:
        self.count = 0

    def saw_event(self, event: Event) -> None:
        self.count += isinstance(event, ConnectionLost)

    def saw_effect(self, effect: Effect) -> None:
        pass


def write_registry(nodes: Network, current: dict[NodeName, bytes], following: dict[NodeName, bytes]) -> None:
    """The file in which all are registered, with a next certificate where there is one."""
    lines: list[str] = []
    for name in nodes.names:
        lines += [f"[nodes.{name}]", f'endpoint = "127.0.0.1:{nodes.ports[name]}"']
        lines += [f'fingerprint = "{current[name].hex()}"']
        lines += [f'next_fingerprint = "{following[name].hex()}"'] if name in following else []
    (nodes.home / "registry.toml").write_text("\n".join(lines))


@in_loop
async def test_certificate_is_exchanged_while_the_node_runs_and_no_peer_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_module, "FILES_LOOK_S", 0.05)
    async with network(tmp_path, *ALL) as nodes:
        losses = Losses()
        nodes.watchers[NODE1] = losses
        await nodes.start(*ALL)
        await nodes.connected()
        contract = await nodes.create([f"{ALICE}@{name}" for name in ALL])
        fingerprints = {name: nodes.keys[name].certificate.fingerprint for name in ALL}
        folder = nodes.keys[NODE2].transport
        following, _ = folder.ensure_next(int(time.time()))
        write_registry(nodes, fingerprints, {NODE2: following.certificate.fingerprint})
        folder.promote()
        peers = nodes.processes[NODE2].peers
        await nodes.until(lambda: peers.shown_fingerprint == following.certificate.fingerprint and peers.is_renewed())
        fingerprints[NODE2] = following.certificate.fingerprint
        write_registry(nodes, fingerprints, {})
        receipt = await nodes.final(NODE2, await nodes.submit(NODE2, contract, "spend"))
        assert receipt.outcome is Outcome.CONFIRMED
        assert losses.count == 0
