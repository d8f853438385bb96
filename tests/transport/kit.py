"""Nodes on 127.0.0.1 with certificates made on the spot, a relay that can cut or freeze them, and rogues.

Nothing here waits for time to pass: `Node.until` returns in the turn in which what was waited for has been told.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any, Final

import grpc
import grpc.aio
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from rota.machine.effects import SendMessage
from rota.machine.events import ConnectionLost, ConnectionMade, MessageReceived
from rota.machine.tables import Event
from rota.model.types import ContractAddress, NodeName, RequestId
from rota.ports import Registration, Tell
from rota.transport import GrpcPeers, Identity, Reason, StaticRegistry, TransportSettings
from rota.transport.parts import LIFE_BYTES, FramePart, Hello, Part, Ping, hello_bytes, pong_bytes, read_part
from rota.transport.serving import METHOD
from rota.wire.codec import Frame, decode_frame
from rota.wire.messages import Envelope, Message, Startup
from tests import bounds

WAIT_S: Final = bounds.WAIT_S
HOST: Final = "127.0.0.1"
CLOSING_TURNS: Final = 20
CONTRACT: Final = ContractAddress("0x" + "c0" * 20)
SETTINGS: Final = TransportSettings(heartbeat_ms=200, backoff_ms=20, backoff_max_ms=200, registry_look_ms=20)


SERVER_AUTH: Final = ExtendedKeyUsageOID.SERVER_AUTH
CLIENT_AUTH: Final = ExtendedKeyUsageOID.CLIENT_AUTH
# A key that signs handshakes, and no other certificates.
SIGNS_ONLY: Final = x509.KeyUsage(
    digital_signature=True,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    key_cert_sign=False,
    crl_sign=False,
    encipher_only=False,
    decipher_only=False,
)

# gRPC is bound to the loops that it has met, closed ones too: all tests of a process share one.
_RUNNER: Final = asyncio.Runner()


def play(story: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a test's story to its end."""
    _RUNNER.run(_told_to_its_end(story))


async def _told_to_its_end(story: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """asyncio closes a socket some turns after it is told to."""
    await story()
    for _ in range(CLOSING_TURNS):
        await asyncio.sleep(0)


def make_identity(
    name: str, *, from_days: float = -1, for_days: float = 10, usage: x509.KeyUsage | None = SIGNS_ONLY
) -> Identity:
    """A self-signed certificate of this name and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    begin = datetime.now(UTC) + timedelta(days=from_days)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    builder = (
        x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(begin + timedelta(days=for_days))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([SERVER_AUTH, CLIENT_AUTH]), critical=False)
    )
    if usage is not None:
        builder = builder.add_extension(usage, critical=True)
    certificate = builder.sign(key, hashes.SHA256())
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return Identity(certificate.public_bytes(serialization.Encoding.PEM), private)


def envelope(number: int, body: Message | None = None) -> Envelope:
    """A message that is told from others by its number."""
    return Envelope(CONTRACT, RequestId(1, number), 1, 1, body or Startup(RequestId(1, number)))


def register(identity: Identity, port: int) -> Registration:
    return Registration(f"{HOST}:{port}", identity.certificate.fingerprint)


@dataclass
class Node:
    """One node's transport, and all that it told."""

    name: NodeName
    peers: GrpcPeers
    identity: Identity
    events: list[Event] = field(default_factory=list)
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None

    def tell(self, event: Event) -> None:
        self.events.append(event)
        self.changed.set()

    async def until(self, holds: Callable[[], object]) -> None:
        """Wait for something that comes with an event of this node."""
        async with asyncio.timeout(WAIT_S):
            while not holds():
                self.changed.clear()
                await self.changed.wait()

    async def until_heard(self, peer: str, numbers: list[int]) -> None:
        await self.until(lambda: self.numbers(peer) == numbers)

    async def until_connected(self, *names: str) -> None:
        await self.until(lambda: all(self.is_connected(name) for name in names))

    async def until_lost(self, name: str) -> None:
        await self.until(lambda: not self.is_connected(name))

    def is_connected(self, name: str) -> bool:
        told = [event for event in self.events if isinstance(event, ConnectionMade | ConnectionLost)]
        last = [event for event in told if event.peer == name][-1:]
        return bool(last) and isinstance(last[0], ConnectionMade)

    def send(self, peer: str, number: int, body: Message | None = None) -> None:
        self.peers.send(SendMessage(NodeName(peer), envelope(number, body)))

    def numbers(self, peer: str) -> list[int]:
        """Of the messages that came from this peer, in order."""
        return [event.envelope.message_id.counter for event in self.messages(peer)]

    def messages(self, peer: str) -> list[MessageReceived]:
        return [event for event in self.events if isinstance(event, MessageReceived) and event.peer == peer]

    def count(self, kind: type[Event], peer: str) -> int:
        return sum(isinstance(event, kind) and getattr(event, "peer", None) == peer for event in self.events)

    async def stop(self) -> None:
        assert self.task is not None
        self.task.cancel()
        with suppress(asyncio.CancelledError):
            await self.task


def assert_told_in_order(node: Node) -> None:
    """No message but between ConnectionMade and ConnectionLost, and these two in turn."""
    is_up: dict[NodeName, bool] = {}
    for event in node.events:
        match event:
            case ConnectionMade(peer):
                assert not is_up.get(peer, False), f"{peer} was made twice"
                is_up[peer] = True
            case ConnectionLost(peer):
                assert is_up.get(peer) is not False, f"{peer} was lost twice"
                is_up[peer] = False
            case MessageReceived(peer):
                assert is_up.get(peer), f"a message of {peer} while it is not connected"
            case _:
                raise AssertionError(f"the transport tells no {type(event).__name__}")


async def until(holds: Callable[[], object]) -> None:
    """Wait for something that comes without an event: it is looked at in each turn."""
    async with asyncio.timeout(WAIT_S):
        while not holds():
            await asyncio.sleep(0)


async def until_counted(node: Node, reason: Reason, least: int = 1) -> None:
    await until(lambda: node.peers.endings.counts.get(reason, 0) >= least)


class Network:
    """Nodes that share a registry."""

    def __init__(self, settings: TransportSettings = SETTINGS) -> None:
        self.registry = StaticRegistry({})
        self.settings = settings
        self.nodes: dict[str, Node] = {}
        self.starting: dict[str, Node] = {}

    def __getitem__(self, name: str) -> Node:
        return self.nodes[name]

    async def start(
        self,
        name: str,
        *,
        identity: Identity | None = None,
        settings: TransportSettings | None = None,
        registry: StaticRegistry | None = None,
        port: int = 0,
        tell: Tell | None = None,
        **options: Any,  # noqa: ANN401
    ) -> Node:
        """A node that runs; it has to be registered to be of use."""
        identity = identity or make_identity(name)
        node = Node(NodeName(name), None, identity)  # type: ignore[arg-type]
        node.peers = GrpcPeers(
            node.name,
            identity,
            registry or self.registry,
            tell or node.tell,
            listen=f"{HOST}:{port}",
            settings=settings or self.settings,
            **options,
        )
        self.starting[name] = node
        node.task = asyncio.create_task(node.peers.run())
        started = asyncio.create_task(node.peers.started.wait())
        await asyncio.wait([node.task, started], return_when=asyncio.FIRST_COMPLETED)
        started.cancel()
        if node.task.done():
            node.task.result()
        self.nodes[name] = node
        return node

    def add(self, *nodes: Node) -> None:
        """Register them where they listen."""
        self.put({node.name: register(node.identity, node.peers.port) for node in nodes})

    def put(self, some: dict[NodeName, Registration]) -> None:
        self.registry.change({**self.registry.registrations(), **some})

    def alter(self, name: str, **fields: Any) -> None:  # noqa: ANN401
        """Change one registration."""
        node = NodeName(name)
        self.put({node: replace(self.registry.registrations()[node], **fields)})

    async def stop(self) -> None:
        await asyncio.gather(*(node.stop() for node in self.nodes.values()))


@asynccontextmanager
async def network(*names: str, settings: TransportSettings = SETTINGS) -> AsyncIterator[Network]:
    """Nodes of these names, every one connected to every other."""
    made = Network(settings)
    try:
        made.add(*[await made.start(name) for name in names])
        for name in names:
            await made[name].until_connected(*(other for other in names if other != name))
        yield made
    finally:
        await made.stop()


class Relay:
    """Stands before a port and passes bytes on, until it is told to cut or to hold them."""

    def __init__(self, port: int) -> None:
        self.target_port = port
        self._server: asyncio.Server | None = None
        self._writers: Final[set[asyncio.StreamWriter]] = set()
        self._tasks: Final[set[asyncio.Task[None]]] = set()
        self.to_target: Final = asyncio.Event()
        self.from_target: Final = asyncio.Event()
        self.to_target.set()
        self.from_target.set()
        # All that came through, in both directions.
        self.passed: Final[list[bytes]] = []
        self.port = 0
        self.connections = 0

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, HOST, 0)
        self.port = self._server.sockets[0].getsockname()[1]

    def cut(self) -> None:
        """Break every connection, without a word to either side."""
        for writer in tuple(self._writers):
            writer.transport.abort()

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        self.cut()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        self._writers.add(writer)
        self.connections += 1
        try:
            onward_reader, onward_writer = await asyncio.open_connection(HOST, self.target_port)
        except OSError:
            self._writers.discard(writer)
            writer.transport.abort()
            return
        self._writers.add(onward_writer)
        ways = (
            self._pass_on(reader, onward_writer, self.to_target),
            self._pass_on(onward_reader, writer, self.from_target),
        )
        try:
            await asyncio.gather(*ways)
        finally:
            for each in (writer, onward_writer):
                self._writers.discard(each)
                each.transport.abort()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, may: asyncio.Event) -> None:
        with suppress(OSError):
            while content := await reader.read(65_536):
                await may.wait()
                self.passed.append(content)
                writer.write(content)
                await writer.drain()
        writer.transport.abort()


@asynccontextmanager
async def relayed(
    *names: str, settings: TransportSettings = SETTINGS
) -> AsyncIterator[tuple[Network, dict[str, Relay]]]:
    """The same network, with a relay before each node."""
    made = Network(settings)
    relays: dict[str, Relay] = {}
    try:
        for name in names:
            node = await made.start(name)
            relays[name] = Relay(node.peers.port)
            await relays[name].start()
        made.put({made[name].name: register(made[name].identity, relays[name].port) for name in names})
        for name in names:
            await made[name].until_connected(*(other for other in names if other != name))
        yield made, relays
    finally:
        await made.stop()
        for relay in relays.values():
            await relay.stop()


class Rogue:
    """A registered node that is driven by hand: it shows its certificate at its endpoint, and dials."""

    def __init__(self, name: str, identity: Identity) -> None:
        self.name: Final = name
        self.identity: Final = identity

    @asynccontextmanager
    async def dial(self, target: Node, identity: Identity | None = None) -> AsyncIterator[RogueCall]:
        shown = identity or self.identity
        pinned = target.identity.certificate
        credentials = grpc.ssl_channel_credentials(pinned.pem, shown.key_pem, shown.certificate_pem)
        options = [("grpc.ssl_target_name_override", pinned.name), ("grpc.use_local_subchannel_pool", 1)]
        endpoint = f"{HOST}:{target.peers.port}"
        async with grpc.aio.secure_channel(endpoint, credentials, options=options) as channel:
            yield RogueCall(channel.stream_stream(f"/{METHOD}")(), self.name, target.name)

    async def until_known(self, target: Node) -> None:
        """TLS lets it pass once the target has looked at its certificate."""
        async with asyncio.timeout(WAIT_S):
            while True:
                async with self.dial(target) as call:
                    with suppress(grpc.aio.AioRpcError):
                        await call.write(b"")
                        await call.read()
                        return


class RogueCall:
    """A stream on which anything can be said."""

    def __init__(self, call: Any, name: str, target: str) -> None:  # noqa: ANN401
        self._call: Final = call
        self._name: Final = name
        self._target: Final = target

    async def write(self, part: bytes) -> None:
        await self._call.write(part)

    async def read(self) -> Part | None:
        """The next part; nothing at the end."""
        async with asyncio.timeout(WAIT_S):
            part = await self._call.read()
        return None if part is grpc.aio.EOF else read_part(bytes(part))

    async def read_until(self, kind: type[Part]) -> Any:  # noqa: ANN401
        """The next part of this kind."""
        while True:
            part = await self.read()
            assert part is not None, f"the stream ended without a {kind.__name__}"
            if isinstance(part, kind):
                return part

    async def read_numbers(self) -> list[int]:
        """Of the messages in the next frame."""
        frame = decode_frame((await self.read_until(FramePart)).data)
        assert isinstance(frame, Frame)
        return [found.message_id.counter for found in frame.envelopes]

    async def say_hello(self, **fields: Any) -> None:  # noqa: ANN401
        hello = Hello(NodeName(self._name), NodeName(self._target), b"r" * LIFE_BYTES)
        await self.write(hello_bytes(replace(hello, **fields)))

    async def code(self) -> tuple[Any, str]:
        async with asyncio.timeout(WAIT_S):
            return await self._call.code(), str(await self._call.details())


@asynccontextmanager
async def rogue(made: Network, name: str) -> AsyncIterator[Rogue]:
    """A registered rogue. What listens for it shows its certificate, and trusts nobody."""
    identity = make_identity(name)
    async with served(identity, [identity], None) as port:
        made.put({NodeName(name): register(identity, port)})
        yield Rogue(name, identity)


@asynccontextmanager
async def greeted(made: Network, target: str) -> AsyncIterator[RogueCall]:
    """A rogue called mallory whose connection with this node is up."""
    node = made[target]
    async with rogue(made, "mallory") as mallory:
        await mallory.until_known(node)
        async with mallory.dial(node) as call:
            await call.say_hello()
            assert isinstance(await call.read(), Hello)
            await call.write(pong_bytes((await call.read_until(Ping)).number))
            await node.until_connected("mallory")
            yield call


@asynccontextmanager
async def served(identity: Identity, trusted: Iterable[Identity], answer: bytes | None) -> AsyncIterator[int]:
    """A server by hand at the port that it yields: to whatever is said first it says this, and ends the stream."""

    async def connect(_: object, context: Any) -> None:  # noqa: ANN401
        await context.read()
        if answer is not None:
            await context.write(answer)

    server = grpc.aio.server()
    handler = grpc.stream_stream_rpc_method_handler(connect)
    service, _, method = METHOD.partition("/")
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {method: handler}),))
    roots = b"".join(each.certificate_pem for each in trusted)
    pair = (identity.key_pem, identity.certificate_pem)
    credentials = grpc.ssl_server_credentials([pair], root_certificates=roots, require_client_auth=True)
    port = server.add_secure_port(f"{HOST}:0", credentials)
    await server.start()
    try:
        yield port
    finally:
        await server.stop(0)


def rising(numbers: Iterable[int]) -> bool:
    found = list(numbers)
    return all(one < other for one, other in pairwise(found))
