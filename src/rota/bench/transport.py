"""Messages a second between two nodes over gRPC with mutual TLS, both in this process and on 127.0.0.1.

Both ends share one event loop, so the figures are for the work of both sides together; two processes on two cores do
more. A message is a heartbeat without intents, about the smallest there is.

one_per_frame   every message has a frame of its own, which is the cost of a lone message
batched         as many to a frame as the queue holds, as under load
round_trip      one message there and one back, with nothing else under way
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from time import perf_counter, process_time
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from rota.machine.effects import SendMessage
from rota.machine.events import ConnectionMade, MessageReceived
from rota.machine.tables import Event
from rota.model.types import ContractAddress, HeartbeatNumber, NodeName, RequestId
from rota.ports import Registration
from rota.transport import GrpcPeers, Identity, StaticRegistry, TransportSettings
from rota.wire.limits import Limits
from rota.wire.messages import CoordinatorHeartbeat, CoordinatorState, Envelope

MESSAGES_DEFAULT: Final = 20_000
ROUND_TRIPS: Final = 500
TURN: Final = 64
RUN_TIMEOUT_S: Final = 300.0
CONTRACT: Final = ContractAddress("0x" + "c0" * 20)
NAMES: Final = NodeName("node1"), NodeName("node2")
# No rate limits and no dropped messages, because speed is measured.
UNBOUNDED: Final = 10**9
SETTINGS: Final = TransportSettings(
    frames_per_s_max=UNBOUNDED,
    envelopes_per_s_max=UNBOUNDED,
    items_per_s_max=UNBOUNDED,
    reading_ms_per_s_max=UNBOUNDED,
    bytes_per_s_max=UNBOUNDED,
    queue_messages_max=UNBOUNDED,
    queue_age_max_ms=UNBOUNDED,
)


@dataclass(frozen=True, slots=True)
class Rate:
    """Messages in one direction; the processor time is that of both sides."""

    messages: int
    seconds: float
    messages_per_s: float
    cpu_us_per_message: float


@dataclass(frozen=True, slots=True)
class TransportFigures:
    """The figures of this benchmark."""

    one_per_frame: Rate
    batched: Rate
    round_trip_p50_us: float
    round_trip_p95_us: float


def measure_transport(
    messages: int = MESSAGES_DEFAULT, progress: Callable[[str], None] = lambda _: None
) -> TransportFigures:
    """Run everything; `progress` gets the name of each part before it starts."""
    return asyncio.run(_measure(messages, progress))


async def _measure(messages: int, progress: Callable[[str], None]) -> TransportFigures:
    single = replace(SETTINGS, limits=replace(Limits(), frame_envelopes_max=1))
    async with asyncio.timeout(RUN_TIMEOUT_S):
        progress(f"one message a frame: {messages:,} messages")
        async with _pair(single) as (sender, receiver):
            one_per_frame = await _rate(sender, receiver, messages)
        progress(f"batched: {messages:,} messages")
        async with _pair(SETTINGS) as (sender, receiver):
            batched = await _rate(sender, receiver, messages)
            progress(f"round trips: {ROUND_TRIPS:,}")
            trips_us = sorted([await _round_trip_us(sender, receiver) for _ in range(ROUND_TRIPS)])
    return TransportFigures(one_per_frame, batched, trips_us[ROUND_TRIPS // 2], trips_us[ROUND_TRIPS * 95 // 100])


@dataclass
class _End:
    name: NodeName
    received: int = 0
    is_connected: bool = False
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    peers: GrpcPeers | None = None

    def tell(self, event: Event) -> None:
        self.received += isinstance(event, MessageReceived)
        self.is_connected = self.is_connected or isinstance(event, ConnectionMade)
        self.changed.set()

    def send(self, other: _End, number: int) -> None:
        assert self.peers is not None
        body = CoordinatorHeartbeat(HeartbeatNumber(1, number), CoordinatorState.ACTIVE)
        self.peers.send(SendMessage(other.name, Envelope(CONTRACT, RequestId(1, number), 1, 1, body)))

    async def until(self, holds: Callable[[], bool]) -> None:
        while not holds():
            self.changed.clear()
            await self.changed.wait()


async def _rate(sender: _End, receiver: _End, messages: int) -> Rate:
    receiver.received = 0
    started_s, cpu_s = perf_counter(), process_time()
    for number in range(messages):
        sender.send(receiver, number)
        if number % TURN == TURN - 1:
            await asyncio.sleep(0)
    await receiver.until(lambda: receiver.received >= messages)
    seconds, cpu_s = perf_counter() - started_s, process_time() - cpu_s
    return Rate(messages, seconds, messages / seconds, cpu_s / messages * 1e6)


async def _round_trip_us(sender: _End, receiver: _End) -> float:
    there, back = receiver.received + 1, sender.received + 1
    started_s = perf_counter()
    sender.send(receiver, there)
    await receiver.until(lambda: receiver.received >= there)
    receiver.send(sender, back)
    await sender.until(lambda: sender.received >= back)
    return (perf_counter() - started_s) * 1e6


@asynccontextmanager
async def _pair(settings: TransportSettings) -> AsyncIterator[tuple[_End, _End]]:
    """Two connected nodes."""
    registry = StaticRegistry({})
    nodes: dict[NodeName, Registration] = {}
    ends = _End(NAMES[0]), _End(NAMES[1])
    tasks = []
    for end in ends:
        identity = _identity(end.name)
        end.peers = GrpcPeers(end.name, identity, registry, end.tell, listen="127.0.0.1:0", settings=settings)
        tasks.append(asyncio.create_task(end.peers.run()))
        await end.peers.started.wait()
        nodes[end.name] = Registration(f"127.0.0.1:{end.peers.port}", identity.certificate.fingerprint)
    registry.change(nodes)
    try:
        for end in ends:
            await end.until(lambda end=end: end.is_connected)  # type: ignore[misc]
        yield ends
    finally:
        for task in tasks:
            task.cancel()
        for task in tasks:
            with suppress(asyncio.CancelledError):
                await task


def _identity(name: NodeName) -> Identity:
    """An identity with a certificate for a day."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    usage = x509.KeyUsage(
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
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(usage, critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return Identity(certificate.public_bytes(serialization.Encoding.PEM), private)
