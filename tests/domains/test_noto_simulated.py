"""Notary tokens in the simulator: money is neither made nor lost, and nobody reads what is not for it."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field, replace

import pytest

from rota.domains.noto import Noto
from rota.domains.noto.operations import lock_id_of
from rota.domains.noto.records import Coin, Lock
from rota.hosting import UserCall
from rota.messages import PROTOCOL_VERSION, Envelope
from rota.sim.world import Recorder, World
from rota.testing import Ended, Scene, Workload, findings, simulate
from rota.types import IntentId, NodeName, Outcome, Party, SubmitMode, node_of
from rota.wire.codec import encode_frame

NOTARY = Party("notary@A")
USERS = tuple(Party(f"user@{node}") for node in "BCD")
DELEGATE = "0x" + "de" * 20
TOKEN = {"notary": NOTARY, "name": "Gold"}


@dataclass(slots=True)
class Town:
    """What its users do, and what it comes to."""

    minted: dict[IntentId, int] = field(default_factory=dict)
    burned: dict[IntentId, int] = field(default_factory=dict)
    unknown: list[IntentId] = field(default_factory=list)

    def calls(self, scene: Scene) -> Generator[UserCall, IntentId | None, None]:
        """Everything that a token can do, at random; locks that were asked for are used later, or by the wrong one."""
        random = scene.random
        self.minted, self.burned, self.unknown = {}, {}, []
        locks = [b"\x07" * 32]
        promised: dict[bytes, int] = {}
        while True:
            user, other = random.choice(USERS), random.choice((*USERS, NOTARY))
            amount, lock = random.randint(1, 60), random.choice(locks[-8:])
            lock_id, shares = "0x" + lock.hex(), [{"to": other, "amount": amount}]
            match random.randint(0, 14):
                case 0 | 1 | 2:
                    intent = yield UserCall(NOTARY, "mint", [user, amount])
                    self._note(self.minted, intent, amount)
                case 3 | 4 | 5:
                    yield UserCall(user, "transfer", [other, amount])
                case 6:
                    intent = yield UserCall(user, "burn", [amount])
                    self._note(self.burned, intent, amount)
                case 7:
                    sender = random.choice((user, NOTARY))
                    yield UserCall(sender, "transferFrom", [user, other, amount])
                case 8:
                    intent = yield UserCall(user, "lock", [amount])
                    self._note_lock(scene, locks, intent)
                case 9:
                    intent = yield UserCall(user, "createTransferLock", [user, shares])
                    self._note_lock(scene, locks, intent)
                case 10:
                    intent = yield UserCall(NOTARY, "createMintLock", [shares])
                    self._note_lock(scene, locks, intent)
                    promised[locks[-1]] = amount
                case 11:
                    intent = yield UserCall(random.choice((user, NOTARY)), "spendLock", [lock_id])
                    self._note(self.minted, intent, promised.get(lock, 0))
                case 12:
                    yield UserCall(user, "transfer", [other, amount], SubmitMode.EXTERNAL)
                case 13:
                    # A lock that was just asked for is delegated, and ended by who has it then.
                    yield UserCall(user, "delegateLock", ["0x" + locks[-1].hex(), DELEGATE])
                    ending = random.choice(("spendLock", "cancelLock"))
                    yield UserCall(user, ending, ["0x" + locks[-1].hex()], SubmitMode.EXTERNAL)
                case _:
                    ending = random.choice(("cancelLock", "unlock", "unknown"))
                    if ending == "unknown":
                        intent = yield UserCall(user, "transfer", [f"nobody@{random.choice('ABCD')}", amount])
                        self.unknown += [intent] if intent is not None else []
                    elif ending == "unlock":
                        yield UserCall(user, "unlock", [lock_id, user, shares])
                    else:
                        yield UserCall(user, "cancelLock", [lock_id])

    def must_hold(self, ended: Ended) -> Iterator[str]:
        """What was minted and not burned is there, and an unknown receiver gets nothing."""
        expected = sum(self.minted.get(intent, 0) - self.burned.get(intent, 0) for intent in ended.committed)
        held = sum(state.record.amount for state in ended.unspent if isinstance(state.record, Coin | Lock))
        if held != expected:
            yield f"{expected} was minted and not burned, and {held} is there"
        yield from (f"{intent!r} has paid an unknown receiver" for intent in self.unknown if intent in ended.committed)
        for state in ended.unspent:
            for node in {node_of(reader) for reader in state.readers}:
                if state.id not in ended.held[node]:
                    yield f"{node} may see a state of {state.record} and does not hold it"

    def _note(self, amounts: dict[IntentId, int], intent: IntentId | None, amount: int) -> None:
        if intent is not None:
            amounts[intent] = amount

    def _note_lock(self, scene: Scene, locks: list[bytes], intent: IntentId | None) -> None:
        assert intent is not None, "nothing is wrong with this call"
        locks.append(lock_id_of(scene.hosted.separator, intent))

    def workload(self) -> Workload:
        """For the simulator."""
        return Workload(NOTARY, TOKEN, self.calls, self.must_hold, node_count=4)


@pytest.mark.slow
def test_money_is_neither_made_nor_lost_under_faults() -> None:
    reports = simulate(Noto(), Town().workload(), seeds=range(6), minutes=0.3)
    assert findings(reports) == []
    assert sum(report.confirmed for report in reports) > 200
    assert sum(report.reverted for report in reports) > 50


def test_money_is_neither_made_nor_lost_in_calm() -> None:
    reports = simulate(Noto(), Town().workload(), seeds=range(1), minutes=0.1, faults=())
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
        self.world: World | None = None

    def sent(self, world: World, source: NodeName, target: NodeName, envelope: Envelope, fate: str) -> None:
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
