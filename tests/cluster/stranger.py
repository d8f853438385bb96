"""A registered stranger and hostile callers, each in a process of its own: they ask a network for all that anybody can.

    python -m tests.cluster.stranger FILE peer|caller

FILE is JSON (`Targets`). The stranger has the keys and the registration of a node that is member of nothing. It speaks
to the honest nodes over the real transport and floods them with what any registered node may say, opens connections
that say nothing or nonsense, and registers junk names. The callers do the same at the doors of the API. What was done
is counted in the file `counts-ROLE` beside FILE, when SIGTERM ends it.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Final

import msgspec

from rota.keys.names import REGISTRAR
from rota.keys.node_keys import open_node_keys, read_password
from rota.ledger.account import Account, AccountLimits
from rota.ledger.client import RpcClient
from rota.ledger.registering import register
from rota.machine.effects import SendMessage
from rota.model.types import (
    NO_CONTRACT,
    ContractAddress,
    DelegationNumber,
    Digest,
    HeartbeatNumber,
    Intent,
    IntentId,
    Leaf,
    NodeName,
    Party,
    RequestId,
    State,
    StateId,
    Transition,
)
from rota.ports import Registration
from rota.server.watched_files import identity_of
from rota.transport.peers import GrpcPeers
from rota.transport.registry import StaticRegistry
from rota.wire.messages import (
    ContractsRequest,
    CoordinatorHeartbeat,
    CoordinatorState,
    Delegation,
    DelegationCommand,
    DeploymentProposal,
    Envelope,
    GenesisRequest,
    HandoverReason,
    HandoverRequest,
    ListedIntent,
    Message,
    StateDistribution,
    StateRequest,
    VerifierRequest,
)

COUNTS: Final = "counts"
PEER, CALLER = ROLES = ("peer", "caller")
# It stands for machines of others, which do not take the processor from those that they attack; here they share it.
NICENESS: Final = 5
IDLE_OF_NODE: Final = 200
JUNK_NAMES_MAX: Final = 400
LARGE: Final = 262_144
HUGE_BODY: Final = 8 * 1024 * 1024
LISTED: Final = 8_192
SOCKET_TIMEOUT_S: Final = 5.0


class Target(msgspec.Struct):
    """An honest node: where peers and callers reach it."""

    name: str
    endpoint: str
    fingerprint: str
    rpc_port: int
    websocket_port: int


class Targets(msgspec.Struct):
    """The network, and the stranger's own part in it."""

    name: str
    folder: str
    listen: str
    endpoint: str
    nodes: list[Target]
    contract: str
    ledger_url: str
    chain_id: int
    registry: str
    factory: str


class Stranger:
    """All attacks, until it is told to end."""

    def __init__(self, targets: Targets) -> None:
        self.targets: Final = targets
        self.counts: Final[Counter[str]] = Counter()
        self._numbers: Final = count(1)
        name, folder = NodeName(targets.name), Path(targets.folder)
        self._keys: Final = open_node_keys(folder / "keys", name, read_password(folder / "password"))
        nodes = {
            NodeName(node.name): Registration(node.endpoint, bytes.fromhex(node.fingerprint)) for node in targets.nodes
        }
        nodes[name] = Registration(targets.endpoint, self._keys.certificate.fingerprint)
        self.peers: Final = GrpcPeers(
            name, identity_of(self._keys.transport), StaticRegistry(nodes), self._hear, listen=targets.listen
        )

    async def attack(self) -> None:
        """All that a peer does, at once."""
        says: tuple[tuple[Callable[[int, str], Message], float], ...] = (
            (self._verifier, 0.0005),
            (self._delegation, 0.05),
            (self._heartbeat, 0.1),
            (self._states, 0.02),
            (self._proposal, 0.1),
            (lambda n, _: GenesisRequest(RequestId(1, n)), 0.002),
            (lambda n, _: ContractsRequest(RequestId(1, n), NO_CONTRACT), 0.002),
            (lambda _n, _: StateRequest(tuple(Leaf(os.urandom(32)) for _ in range(64))), 0.002),
            (lambda n, _: HandoverRequest(RequestId(1, n), HandoverReason.OUTRANKS), 0.005),
        )
        async with asyncio.TaskGroup() as group:
            group.create_task(self.peers.run())
            for body, pause_s in says:
                group.create_task(self._say(body, pause_s))
            group.create_task(self._register_junk())
            for node in self.targets.nodes:
                host, _, port = node.endpoint.rpartition(":")
                group.create_task(self._hold_open(host, int(port), b"", "idle connections of peers"))
                group.create_task(self._hold_open(host, int(port), os.urandom(64), "junk connections of peers"))

    async def call(self) -> None:
        """All that callers do."""
        async with asyncio.TaskGroup() as group:
            for node in self.targets.nodes:
                host = node.endpoint.rpartition(":")[0]
                group.create_task(self._hold_open(host, node.rpc_port, b"POST / HT", "idle callers"))
                group.create_task(self._hold_open(host, node.websocket_port, b"", "idle sockets"))
                group.create_task(self._call(host, node.rpc_port))

    # What a peer says.

    async def _say(self, body: Callable[[int, str], Message], pause_s: float) -> None:
        while True:
            for node in self.targets.nodes:
                number = next(self._numbers)
                made = body(number, node.name)
                contract = self._contract_of(made, number)
                envelope = Envelope(contract, RequestId(1, number), 1, 10**6, made)
                self.peers.send(SendMessage(NodeName(node.name), envelope))
                self.counts[type(made).__name__] += 1
            await asyncio.sleep(pause_s)

    def _contract_of(self, body: Message, number: int) -> ContractAddress:
        """The network's own, or one that does not exist."""
        if isinstance(body, DeploymentProposal):
            return NO_CONTRACT
        is_real = number % 2 or isinstance(body, DelegationCommand)
        return ContractAddress(self.targets.contract if is_real else "0x" + os.urandom(20).hex())

    def _verifier(self, number: int, node: str) -> Message:
        return VerifierRequest(RequestId(1, number), Party(f"p{number}@{node}"))

    def _delegation(self, number: int, _: str) -> Message:
        party, contract = Party(f"m@{self.targets.name}"), ContractAddress(self.targets.contract)
        intents = [Intent(IntentId(os.urandom(16)), contract, party, bytes(LARGE // 4)) for _ in range(4)]
        numbers = DelegationNumber(1, number)
        return DelegationCommand(RequestId(1, number), tuple(Delegation(each, numbers) for each in intents))

    def _heartbeat(self, number: int, _: str) -> Message:
        listed = tuple(ListedIntent(IntentId(os.urandom(16)), "Pooled") for _ in range(LISTED))
        return CoordinatorHeartbeat(HeartbeatNumber(1, number), CoordinatorState.ACTIVE, listed, count=len(listed))

    def _states(self, number: int, node: str) -> Message:
        leaf = Leaf(os.urandom(32))
        state = State(StateId(leaf, 0), os.urandom(32), (NodeName(node),), bytes(LARGE // 16))
        return StateDistribution(
            Digest(os.urandom(32)), (Transition(IntentId(os.urandom(16)), leaf, outputs=(state,)),)
        )

    def _proposal(self, number: int, _: str) -> Message:
        factory = ContractAddress(self.targets.factory)
        return DeploymentProposal(RequestId(1, number), IntentId(os.urandom(16)), os.urandom(LARGE // 8), factory)

    def _hear(self, event: object) -> None:
        self.counts[f"heard {type(event).__name__}"] += 1

    # The registry.

    async def _register_junk(self) -> None:
        client = RpcClient(self.targets.ledger_url)
        limits = AccountLimits(look_ms=100, looks_max=600)
        account = Account(client, self.targets.chain_id, self._keys.signer, REGISTRAR, limits)
        for number in range(JUNK_NAMES_MAX):
            # Some name an honest node's certificate, some a place where nobody listens.
            node = self.targets.nodes[number % len(self.targets.nodes)]
            fingerprint = bytes.fromhex(node.fingerprint) if number % 2 else os.urandom(32)
            registry = ContractAddress(self.targets.registry)
            await register(account, registry, NodeName(f"junk{number}"), fingerprint, "127.0.0.1:9")
            self.counts["junk names"] += 1
            await asyncio.sleep(0.5)

    # Connections and callers.

    async def _hold_open(self, host: str, port: int, first: bytes, what: str) -> None:
        """As many connections as are let in; those that are ended are opened again."""

        async def hold() -> None:
            while True:
                with suppress(OSError, asyncio.IncompleteReadError):
                    reader, writer = await asyncio.open_connection(host, port)
                    self.counts[what] += 1
                    try:
                        writer.write(first)
                        await reader.read()
                    finally:
                        writer.close()
                await asyncio.sleep(1.0)

        await asyncio.gather(*(hold() for _ in range(IDLE_OF_NODE // 4)))

    async def _call(self, host: str, port: int) -> None:
        """Bodies that are too long, no JSON, nested without end, or ask for more than there is to be answered."""
        calls = b'{"jsonrpc":"2.0","id":1,"method":"rpc.discover"}'
        bodies = {
            "huge bodies": b"[" + b"0," * (HUGE_BODY // 2) + b"0]",
            "broken bodies": b'{"jsonrpc":"2.0","id":1,"method":"\xff\xfe',
            "nested bodies": b"[" * 60_000 + b"]" * 60_000,
            "batches": b"[" + b",".join([calls] * 1_000) + b"]",
            "numbers": b'{"jsonrpc":"2.0","id":1e999,"method":"node_status","params":[NaN]}',
            "empty objects": b"{}",
        }
        while True:
            for what, body in bodies.items():
                with suppress(OSError, TimeoutError, asyncio.IncompleteReadError):
                    async with asyncio.timeout(SOCKET_TIMEOUT_S):
                        await _post(host, port, body)
                self.counts[what] += 1
                await asyncio.sleep(0.1)


async def _post(host: str, port: int, body: bytes) -> None:
    reader, writer = await asyncio.open_connection(host, port)
    try:
        head = f"POST / HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Type: application/json\r\n"
        writer.write(f"{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body)
        await writer.drain()
        while await reader.read(65_536):
            pass
    finally:
        writer.close()


async def main(file: Path, role: str) -> None:
    """Attack until SIGTERM."""
    os.nice(NICENESS)
    stranger = Stranger(msgspec.json.decode(file.read_bytes(), type=Targets))
    attacking = asyncio.ensure_future(stranger.attack() if role == PEER else stranger.call())
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, attacking.cancel)
    print('{"attacking": true}', flush=True)
    try:
        with suppress(asyncio.CancelledError):
            await attacking
    finally:
        (file.parent / f"{COUNTS}-{role}").write_text(json.dumps(stranger.counts, sort_keys=True))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
