"""Privacy groups in the simulator: members agree on every balance, and nobody else reads a byte."""

from __future__ import annotations

import json
import re
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field, replace

import pytest

from rota.domains.pente import Pente
from rota.domains.pente.addresses import deployment_address
from rota.engines.private_evm import PrivateEvm
from rota.hosting import Background, UserCall, call, learn
from rota.messages import PROTOCOL_VERSION, Envelope
from rota.sim.world import Recorder, World
from rota.testing import Ended, Scene, Workload, findings, simulate
from rota.testing.simulation import Holdings, Verifiers
from rota.types import IntentId, NodeName, Party, node_of
from rota.wire.codec import encode_frame
from tests.domains.pente.members import call_of, entry_of, errors_of, token

MEMBERS = tuple(Party(f"member@{node}") for node in "ABC")
VERIFIERS = Verifiers(Pente(PrivateEvm))
HOLDERS = (*(VERIFIERS[member] for member in MEMBERS), "0x" + "0e" * 20)
MARK = b"for members only"
# The name of a token, and an account that gets tokens, as they are and in hex.
MARKS = re.compile(MARK + b"|" + MARK.hex().encode() + b"|" + b"0e" * 20 + b"|" + b"\x0e" * 20)


class Listener(Recorder):
    """Reads every byte that is sent, and knows the world when it has ended."""

    def __init__(self) -> None:
        self.world: World | None = None
        self.found: list[str] = []
        self.marks_seen = 0

    def sent(self, world: World, source: NodeName, target: NodeName, envelope: Envelope, fate: str) -> None:
        self.world = world
        frame = encode_frame([replace(envelope, protocol_version=PROTOCOL_VERSION)])
        self.look(frame, target, f"{type(envelope.body).__name__} from {source}")

    def look(self, content: bytes, node: NodeName, where: str) -> None:
        if MARKS.search(content):
            self.marks_seen += 1
            if node == "D":
                self.found.append(f"{node} reads it in {where}")


@dataclass(slots=True)
class Town:
    """Members of A, B and C with a token; D has nothing to do with it."""

    listener: Listener
    threshold: int = 0
    minted: dict[IntentId, int] = field(default_factory=dict)
    tokens: list[str] = field(default_factory=list)

    def calls(self, scene: Scene) -> Generator[UserCall, IntentId | None, None]:
        """Tokens are deployed, minted and transferred by everybody; some do what cannot be done."""
        random = scene.random
        self.minted, self.tokens = {}, []
        issuer = MEMBERS[0]
        sender = bytes.fromhex(VERIFIERS[issuer][2:])
        while True:
            if len(self.tokens) < 2:
                intent = yield UserCall(issuer, "deploy", deployment(MARK.decode()))
                assert intent is not None, "nothing is wrong with this call"
                self.tokens.append("0x" + deployment_address(scene.hosted.separator, intent, sender).hex())
                continue
            member, amount = random.choice(MEMBERS), random.randint(1, 60)
            to = random.choice(self.tokens)
            match random.randint(0, 7):
                case 0 | 1 | 2:
                    intent = yield UserCall(issuer, "invoke", call_of(to, token(), "mint", VERIFIERS[member], amount))
                    if intent is not None:
                        self.minted[intent] = amount
                case 3 | 4 | 5 | 6:
                    receiver = random.choice(HOLDERS)
                    yield UserCall(member, "invoke", call_of(to, token(), "transfer", receiver, amount))
                case _:
                    yield random.choice(
                        (
                            UserCall(Party("stranger@D"), "invoke", call_of(to, token(), "transfer", HOLDERS[0], 1)),
                            UserCall(member, "invoke", call_of("0x" + "77" * 20, token(), "name")),
                            UserCall(MEMBERS[1], "invoke", call_of(to, token(), "mint", HOLDERS[1], 1)),
                        )
                    )

    def must_hold(self, ended: Ended) -> Iterator[str]:
        """Every member, from its disk alone, comes to the same balances, and they are what was minted."""
        assert self.listener.world is not None
        expected = sum(self.minted.get(intent, 0) for intent in ended.committed)
        for member in MEMBERS:
            found = sum(self.balances(ended, member, each) for each in self.tokens)
            if found != expected:
                yield f"{expected} was minted, and {member} finds {found}"

    def balances(self, ended: Ended, member: Party, to: str) -> int:
        """What all holders have, as a member's node knows it that has nothing but its disk."""
        assert self.listener.world is not None
        node = node_of(member)
        holdings = Holdings(self.listener.world.nodes[node].disk)
        hosted = ended.hosted.at_another_node()
        background = Background(holdings.written().get, VERIFIERS)
        # One half is told all that the disk has, the other finds it when it is needed.
        if to == self.tokens[0]:
            learn(hosted, holdings.written().values(), node)
        held = holdings.held(ended.hosted.contract.address)
        return sum(
            int(answer["balance"])
            for holder in HOLDERS
            if isinstance(
                answer := call(
                    hosted, UserCall(member, "call", call_of(to, token(), "balanceOf", holder)), held, node, background
                ),
                dict,
            )
        )

    def workload(self) -> Workload:
        """For the simulator."""
        configuration = {"evmVersion": "cancun", "endorsementThreshold": str(self.threshold)}
        arguments = {"members": list(MEMBERS), "configuration": configuration}
        return Workload(MEMBERS[0], arguments, self.calls, self.must_hold, node_count=4)


def deployment(name: str) -> dict[str, object]:
    """The arguments of a deployment of the token."""
    return {
        "bytecode": "0x" + token().bytecode.hex(),
        "function": json.dumps(entry_of(token(), "constructor")),
        "input": json.dumps([name, "T"]),
        "errors": errors_of(token()),
    }


def test_members_agree_on_every_balance_in_calm() -> None:
    listener = Listener()
    reports = simulate(
        Pente(PrivateEvm), Town(listener).workload(), seeds=range(1), minutes=0.05, faults=(), recorder=lambda: listener
    )
    assert findings(reports) == []
    assert reports[0].confirmed > 5
    assert reports[0].refused


@pytest.mark.slow
@pytest.mark.parametrize("threshold", [0, 2])
def test_members_agree_on_every_balance_under_faults_and_nobody_else_reads_a_byte(threshold: int) -> None:
    listener = Listener()
    confirmed = reverted = 0
    for seed in range(4):
        town = Town(listener, threshold)
        reports = simulate(Pente(PrivateEvm), town.workload(), (seed,), 0.3, recorder=lambda: listener)
        assert findings(reports) == []
        confirmed, reverted = confirmed + reports[0].confirmed, reverted + reports[0].reverted
        assert listener.world is not None
        for name, node in listener.world.nodes.items():
            listener.look(repr(node.disk.records).encode(), name, "its disk")
        assert listener.found == []
    assert confirmed > 40
    assert reverted > 5
    assert listener.marks_seen > 100
