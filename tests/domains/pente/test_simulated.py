"""Privacy groups in the simulator: members agree on every balance, and nobody else reads a byte."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from rota.domains.pente import Pente
from rota.evm.private_evm import PrivateEvm
from rota.model.types import NodeName
from rota.sim.recorder import OwningWorld
from rota.sim.world import Recorder
from rota.testing import findings, simulate
from rota.testing.workloads.pente import GroupMembers, PenteKit
from rota.wire.codec import encode_frame
from rota.wire.messages import PROTOCOL_VERSION, Envelope
from tests.domains.pente.members import token

KIT = PenteKit(PrivateEvm, token())
MARK = b"for members only"
# The name of a token, and an account that gets tokens, as they are and in hex.
MARKS = re.compile(MARK + b"|" + MARK.hex().encode() + b"|" + b"0e" * 20 + b"|" + b"\x0e" * 20)


class Listener(Recorder):
    """Reads every byte that is sent, and knows the world when it has ended."""

    def __init__(self) -> None:
        self.world: OwningWorld | None = None
        self.found: list[str] = []
        self.marks_seen = 0

    def sent(self, world: OwningWorld, source: NodeName, target: NodeName, envelope: Envelope, fate: str) -> None:
        self.world = world
        frame = encode_frame([replace(envelope, protocol_version=PROTOCOL_VERSION)])
        self.look(frame, target, f"{type(envelope.body).__name__} from {source}")

    def look(self, content: bytes, node: NodeName, where: str) -> None:
        if MARKS.search(content):
            self.marks_seen += 1
            if node == "D":
                self.found.append(f"{node} reads it in {where}")


def test_members_agree_on_every_balance_in_calm() -> None:
    workload = GroupMembers(KIT).workload()
    reports = simulate(Pente(PrivateEvm), workload, seeds=range(1), minutes=0.05, faults=())
    assert findings(reports) == []
    assert reports[0].confirmed > 5
    assert reports[0].refused


@pytest.mark.slow
@pytest.mark.parametrize("threshold", [0, 2])
def test_members_agree_on_every_balance_under_faults_and_nobody_else_reads_a_byte(threshold: int) -> None:
    listener = Listener()
    confirmed = reverted = 0
    for seed in range(4):
        members = GroupMembers(KIT, threshold, MARK.decode())
        reports = simulate(Pente(PrivateEvm), members.workload(), (seed,), 0.3, recorder=lambda: listener)
        assert findings(reports) == []
        confirmed, reverted = confirmed + reports[0].confirmed, reverted + reports[0].reverted
        assert listener.world is not None
        for name, node in listener.world.nodes.items():
            listener.look(repr(node.disk.records).encode(), name, "its disk")
        assert listener.found == []
    assert confirmed > 40
    assert reverted > 5
    assert listener.marks_seen > 100
