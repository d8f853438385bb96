"""Notary tokens in the simulator: money is neither made nor lost, and nobody reads what is not for it."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from dataclasses import replace

import pytest

from rota.domains.noto import Noto
from rota.host import UserCall
from rota.model.types import IntentId, NodeName, Outcome, node_of
from rota.sim.recorder import OwningWorld
from rota.sim.world import Recorder
from rota.testing import Ended, Scene, Workload, findings, simulate
from rota.testing.workloads.noto import NOTARY, TOKEN, USERS, TokenUsers
from rota.wire.codec import encode_frame
from rota.wire.messages import PROTOCOL_VERSION, Envelope


@pytest.mark.slow
def test_money_is_neither_made_nor_lost_under_faults() -> None:
    reports = simulate(Noto(), TokenUsers().workload(), seeds=range(6), minutes=0.3)
    assert findings(reports) == []
    assert sum(report.confirmed for report in reports) > 200
    assert sum(report.reverted for report in reports) > 50


def test_money_is_neither_made_nor_lost_in_calm() -> None:
    reports = simulate(Noto(), TokenUsers().workload(), seeds=range(1), minutes=0.1, faults=())
    assert findings(reports) == []
    assert reports[0].confirmed > 20


def test_of_concurrent_overspends_one_succeeds() -> None:
    spends: list[IntentId] = []

    def calls(scene: Scene) -> Generator[UserCall, IntentId | None, None]:
        spends.clear()
        yield UserCall(NOTARY, "mint", [USERS[0], 100])
        for _ in range(60):
            yield UserCall(NOTARY, "mint", [NOTARY, 1])
        for _ in range(5):
            intent = yield UserCall(USERS[0], "transfer", [scene.random.choice(USERS[1:]), 60])
            spends.extend([intent] if intent is not None else [])

    def must_hold(ended: Ended) -> Iterator[str]:
        receipts = [ended.receipts[intent] for intent in spends]
        confirmed = [receipt for receipt in receipts if receipt.outcome is Outcome.CONFIRMED]
        reverted = {receipt.reason for receipt in receipts if receipt.outcome is Outcome.REVERTED}
        if len(confirmed) != 1 or reverted != {"PD200005: Insufficient funds (available=40)"}:
            yield f"{len(confirmed)} of {len(receipts)} were confirmed; {reverted}"

    reports = simulate(Noto(), Workload(NOTARY, TOKEN, calls, must_hold, 4), seeds=(1, 2), minutes=0.6, faults=())
    assert findings(reports) == []


class Listener(Recorder):
    """Reads every byte that is sent, and finds marks in it: `mark7of` a transfer between the nodes of number 7."""

    MARK = re.compile(rb"mark(\d+)of|6d61726b((?:3\d)+)6f66")

    def __init__(self, allowed: dict[int, set[NodeName]]) -> None:
        self.allowed = allowed
        self.found: list[str] = []
        self.marks_seen = 0
        self.world: OwningWorld | None = None

    def sent(self, world: OwningWorld, source: NodeName, target: NodeName, envelope: Envelope, fate: str) -> None:
        self.world = world
        frame = encode_frame([replace(envelope, protocol_version=PROTOCOL_VERSION)])
        self.look(frame, target, f"{type(envelope.body).__name__} from {source}")

    def look(self, content: bytes, node: NodeName, where: str) -> None:
        for name, data in self.MARK.findall(content):
            number = int(name or bytes.fromhex(data.decode()))
            self.marks_seen += 1
            if node not in self.allowed[number]:
                self.found.append(f"{node} reads {number} in {where}")


@pytest.mark.slow
def test_no_byte_of_a_private_state_reaches_a_node_that_may_not_see_it() -> None:
    allowed: dict[int, set[NodeName]] = {}
    listener = Listener(allowed)

    def calls(scene: Scene) -> Generator[UserCall, IntentId | None, None]:
        for number in range(1_000_000):
            payer, payee = scene.random.choice((NOTARY, *USERS)), scene.random.choice(USERS)
            receiver = f"mark{number}of@{node_of(payee)}"
            allowed[number] = {node_of(NOTARY), node_of(payer), node_of(payee)}
            data = "0x" + f"mark{number}of".encode().hex()
            if number % 3 == 0:
                allowed[number] = {node_of(NOTARY), node_of(payee)}
                yield UserCall(NOTARY, "mint", [payee, 50, data])
            elif number % 3 == 1:
                yield UserCall(payer, "transfer", [receiver, 5, data])
            else:
                shares = [{"to": receiver, "amount": 5}]
                yield UserCall(payer, "createTransferLock", [payer, shares, data])

    for seed in range(3):
        allowed.clear()
        reports = simulate(
            Noto(), Workload(NOTARY, TOKEN, calls, node_count=4), (seed,), 0.3, recorder=lambda: listener
        )
        assert findings(reports) == []
        assert reports[0].confirmed > 30
        assert listener.world is not None
        for name, node in listener.world.nodes.items():
            listener.look(repr(node.disk.records).encode(), name, "its disk")
        assert listener.found == []
    assert listener.marks_seen > 1_000
