"""Who is refused, with what reason, counted, and logged once."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import grpc.aio
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from structlog.testing import capture_logs

from rota.machine.events import ConnectionMade
from rota.model.types import NodeName
from rota.ports import Registration, Unavailable
from rota.transport import GrpcPeers, Reason, StaticRegistry, fingerprint_of
from rota.transport.endings import Ending
from rota.transport.parts import LIFE_BYTES, Goodbye, Hello, Ping, frame_bytes, goodbye_bytes, hello_bytes, pong_bytes
from rota.transport.settings import TransportSettings
from rota.wire import peer_pb2
from rota.wire.codec import encode_frame
from tests.transport.kit import (
    SETTINGS,
    Network,
    envelope,
    make_identity,
    network,
    play,
    register,
    rogue,
    served,
    until,
    until_counted,
)

LIFE = b"l" * LIFE_BYTES
Logs = list[MutableMapping[str, Any]]


@pytest.fixture
def logs() -> Iterator[Logs]:
    with capture_logs() as captured:
        yield captured


def logged(logs: Logs, event: str, peer: str, reason: str) -> int:
    return sum((line["event"], line.get("peer"), line.get("reason")) == (event, peer, reason) for line in logs)


def test_a_node_that_shows_another_certificate_than_the_registered_one_is_refused(logs: Logs) -> None:
    async def story() -> None:
        made = Network()
        one, two = await made.start("node1"), await made.start("node2")
        made.add(one)
        made.put({two.name: register(make_identity("node2"), two.peers.port)})
        await until_counted(one, Reason.STRANGER, 3)
        assert "is not registered" in one.peers.troubles()[two.name]
        assert not one.count(ConnectionMade, "node2")
        assert not two.count(ConnectionMade, "node1")
        await made.stop()

    play(story)
    assert logged(logs, "peer.refused", "node2", "stranger") == 1


def test_an_expired_certificate_is_refused(logs: Logs) -> None:
    async def story() -> None:
        made = Network()
        old = make_identity("node2", from_days=-20, for_days=10)
        one, two = await made.start("node1"), await made.start("node2", identity=old)
        made.add(one, two)
        await until_counted(one, Reason.EXPIRED, 3)
        assert "is not valid since" in one.peers.troubles()[two.name]
        await until_counted(two, Reason.UNREACHABLE, 3)
        assert not one.count(ConnectionMade, "node2")
        await made.stop()

    play(story)
    assert logged(logs, "peer.refused", "node2", "expired") == 1


def test_a_registered_certificate_that_is_made_out_to_another_node_is_refused() -> None:
    async def story() -> None:
        made = Network()
        one, two = await made.start("node1"), await made.start("node2", identity=make_identity("node1"))
        made.add(one, two)
        await until_counted(one, Reason.SWAPPED_NAME)
        assert "made out to another name" in one.peers.troubles()[two.name]
        await made.stop()

    play(story)


def test_a_registered_certificate_of_no_use_is_refused() -> None:
    async def story() -> None:
        made = Network()
        one = await made.start("node1")
        identity = make_identity("node2", usage=None)
        async with served(identity, [one.identity], None) as port:
            der = x509.load_pem_x509_certificate(identity.certificate_pem).public_bytes(Encoding.DER)
            made.put({NodeName("node2"): Registration(f"127.0.0.1:{port}", fingerprint_of(der))})
            made.add(one)
            await until_counted(one, Reason.STRANGER)
            assert "has a key usage" in one.peers.troubles()[NodeName("node2")]
            await made.stop()

    play(story)


def test_a_certificate_that_is_not_valid_yet_is_refused() -> None:
    async def story() -> None:
        made = Network()
        early = make_identity("node2", from_days=1)
        one, two = await made.start("node1"), await made.start("node2", identity=early)
        made.add(one, two)
        await until_counted(one, Reason.EXPIRED)
        assert "is not valid before" in one.peers.troubles()[two.name]
        await made.stop()

    play(story)


def test_a_certificate_that_expires_while_connected_ends_the_connection() -> None:
    async def story() -> None:
        made = Network()
        now = [datetime.now(UTC)]
        one = await made.start("node1", wall_clock=lambda: now[0])
        two = await made.start("node2", identity=make_identity("node2", for_days=5))
        made.add(one, two)
        await one.until_connected("node2")
        now[0] += timedelta(days=7)
        await one.until_lost("node2")
        await until_counted(one, Reason.EXPIRED)
        await made.stop()

    play(story)


def test_a_certificate_that_is_revoked_ends_the_connection_and_no_new_one_is_made(logs: Logs) -> None:
    async def story() -> None:
        async with network("node1", "node2", "node3") as made:
            one = made["node1"]
            made.alter("node2", fingerprint=make_identity("node2").certificate.fingerprint)
            await one.until_lost("node2")
            await until_counted(one, Reason.STRANGER, 3)
            assert one.is_connected("node3")
            assert one.count(ConnectionMade, "node2") == 1

    play(story)
    assert 1 <= logged(logs, "peer.refused", "node2", "stranger") <= 2  # Once at node1 and once at node3.
    assert sum(line["event"] == "peer.disconnected" and line["peer"] == "node2" for line in logs) <= 2


def test_a_stranger_is_refused_by_tls_and_counted(logs: Logs) -> None:
    async def story() -> None:
        async with network("node1", "node2") as made:
            one = made["node1"]
            stranger = await made.start("node9", registry=StaticRegistry(made.registry.registrations()))
            before = one.peers.handshakes_begun - one.peers.connections_identified
            await until_counted(stranger, Reason.UNREACHABLE, 6)
            assert one.peers.handshakes_begun - one.peers.connections_identified >= before + 2
            assert not one.count(ConnectionMade, "node9")
            assert one.is_connected("node2")
            assert "node9" not in {status.name for status in one.peers.status()}

    play(story)
    assert (
        logged(logs, "peer.refused", "node1", "unreachable") <= 2
    )  # Of node9, and perhaps of node2 while both started.


def test_a_swapped_name_is_refused(logs: Logs) -> None:
    async def story() -> None:
        async with network("node1", "node2") as made, rogue(made, "mallory") as mallory:
            one = made["node1"]
            await mallory.until_known(one)
            for _ in range(3):
                async with mallory.dial(one) as call:
                    await call.say_hello(node=NodeName("node2"))
                    goodbye = await call.read_until(Goodbye)
                assert goodbye.ending.reason is Reason.SWAPPED_NAME
                assert "'node2'" in goodbye.ending.text
                assert "'mallory'" in goodbye.ending.text
            assert one.peers.endings.counts[Reason.SWAPPED_NAME] == 3
            assert one.is_connected("node2")
            assert not one.messages("node2")

    play(story)
    assert logged(logs, "peer.refused", "mallory", "swapped name") == 1


def test_a_hello_for_another_node_is_refused() -> None:
    async def story() -> None:
        async with network("node1", "node2") as made, rogue(made, "mallory") as mallory:
            await mallory.until_known(made["node1"])
            async with mallory.dial(made["node1"]) as call:
                await call.say_hello(peer=NodeName("node2"))
                goodbye = await call.read_until(Goodbye)
            assert goodbye.ending.reason is Reason.SWAPPED_NAME
            assert "this is 'node1'" in goodbye.ending.text

    play(story)


def test_another_major_version_is_refused_with_both_versions(logs: Logs) -> None:
    async def story() -> None:
        async with network("node1") as made, rogue(made, "mallory") as mallory:
            one = made["node1"]
            await mallory.until_known(one)
            for _ in range(2):
                async with mallory.dial(one) as call:
                    await call.say_hello(version=(3, 5))
                    goodbye = await call.read_until(Goodbye)
                assert goodbye.ending.reason is Reason.VERSION
                assert "3.5" in goodbye.ending.text
                assert "2.0" in goodbye.ending.text
            assert one.peers.endings.counts[Reason.VERSION] == 2

    play(story)
    assert logged(logs, "peer.refused", "mallory", "version") == 1


def test_a_newer_minor_version_is_spoken_with_and_what_it_adds_is_skipped() -> None:
    async def story() -> None:
        async with network("node1") as made, rogue(made, "mallory") as mallory:
            one = made["node1"]
            await mallory.until_known(one)
            async with mallory.dial(one) as call:
                await call.say_hello(version=(2, 7))
                assert isinstance(await call.read(), Hello)
                await call.write(pong_bytes((await call.read_until(Ping)).number))
                frame = peer_pb2.Frame.FromString(encode_frame([envelope(3)]))
                frame.version_minor = 7
                frame.envelopes.add()
                await call.write(frame_bytes(frame.SerializeToString()))
                await one.until(lambda: one.numbers("mallory") == [3])
                (status,) = one.peers.status()
                assert status.version == (2, 7)

    play(story)


@pytest.mark.parametrize(
    ("answer", "reason", "shown"),
    [
        (goodbye_bytes(Ending(Reason.VERSION, "no such version")), Reason.VERSION, "it says: no such version"),
        (
            hello_bytes(Hello(NodeName("other"), NodeName("node1"), LIFE)),
            Reason.SWAPPED_NAME,
            "it calls itself 'other'",
        ),
        (hello_bytes(Hello(NodeName("node2"), NodeName("node1"), LIFE, version=(3, 1))), Reason.VERSION, "version 3.1"),
        (b"\xff", Reason.MALFORMED, "begins with a hello"),
        (None, Reason.CUT_OFF, "before it said hello"),
    ],
    ids=["goodbye", "other name", "other version", "garbage", "nothing"],
)
def test_a_node_that_is_dialed_and_answers_wrongly_is_refused(answer: bytes | None, reason: Reason, shown: str) -> None:
    async def story() -> None:
        made = Network()
        one = await made.start("node1")
        identity = make_identity("node2")
        async with served(identity, [one.identity], answer) as port:
            made.put({NodeName("node2"): register(identity, port)})
            made.add(one)
            await until_counted(one, reason)
            assert shown in one.peers.troubles()[NodeName("node2")]
            assert not one.count(ConnectionMade, "node2")
            await made.stop()

    play(story)


def test_a_node_that_another_does_not_know_says_so_of_it() -> None:
    async def story() -> None:
        made = Network()
        one, two = await made.start("node1"), await made.start("node2", registry=StaticRegistry({}))
        made.add(one, two)
        await until_counted(one, Reason.UNREACHABLE)
        assert one.peers.troubles()[two.name]
        assert not two.peers.troubles()
        await made.stop()

    play(story)


def test_a_hello_that_never_comes_is_not_waited_for() -> None:
    async def story() -> None:
        made = Network(replace(SETTINGS, connect_timeout_ms=100))
        one = await made.start("node1")
        made.add(one)
        async with rogue(made, "mallory") as mallory:
            await mallory.until_known(one)
            async with mallory.dial(one) as call:
                assert await call.read() is None
            assert one.peers.endings.counts[Reason.CUT_OFF] >= 1
        await made.stop()

    play(story)


def test_connections_that_say_no_hello_are_bounded() -> None:
    async def story() -> None:
        made = Network(replace(SETTINGS, connect_timeout_ms=10_000, hellos_max=2))
        one = await made.start("node1")
        made.add(one)
        async with rogue(made, "mallory") as mallory:
            await mallory.until_known(one)
            before = one.peers.connections_identified
            async with mallory.dial(one), mallory.dial(one):
                await until(lambda: one.peers.connections_identified == before + 2)
                async with mallory.dial(one) as third:
                    goodbye = await third.read()
            assert isinstance(goodbye, Goodbye)
            assert goodbye.ending.reason is Reason.BUSY
        await made.stop()

    play(story)


def test_whoever_shows_our_own_certificate_is_refused() -> None:
    async def story() -> None:
        async with network("node1") as made, rogue(made, "mallory") as mallory:
            one = made["node1"]
            async with mallory.dial(one, identity=one.identity) as call:
                await call.say_hello()
                goodbye = await call.read_until(Goodbye)
            assert goodbye.ending.reason is Reason.STRANGER

    play(story)


def test_without_a_certificate_nobody_gets_in() -> None:
    async def story() -> None:
        async with network("node1") as made:
            one = made["node1"]
            pinned = one.identity.certificate
            credentials = grpc.ssl_channel_credentials(pinned.pem)
            options = [("grpc.ssl_target_name_override", pinned.name)]
            async with grpc.aio.secure_channel(f"127.0.0.1:{one.peers.port}", credentials, options=options) as channel:
                call = channel.stream_stream("/rota.v1.Peer/Connect")()
                with pytest.raises(grpc.aio.AioRpcError):
                    await call.read()
            async with grpc.aio.insecure_channel(f"127.0.0.1:{one.peers.port}") as channel:
                call = channel.stream_stream("/rota.v1.Peer/Connect")()
                with pytest.raises(grpc.aio.AioRpcError):
                    await call.read()
            assert one.peers.connections_identified == 0

    play(story)


def test_a_port_that_is_taken_is_told() -> None:
    async def story() -> None:
        async with network("node1") as made:
            with pytest.raises(Unavailable, match=r"listen: cannot listen at 127\.0\.0\.1"):
                await made.start("node2", port=made["node1"].peers.port)

    play(story)


def test_a_certificate_that_grpc_cannot_use_is_refused_at_once() -> None:
    async def story() -> None:
        identity = replace(make_identity("node1"), certificate_pem=b"nonsense")
        with pytest.raises(ValueError, match="certificate_pem: must be one PEM certificate"):
            GrpcPeers(NodeName("node1"), identity, StaticRegistry({}), lambda _: None, listen="127.0.0.1:0")

    play(story)


@pytest.mark.parametrize(
    "part",
    [
        b"\xff\xff\xff",
        b"",
        frame_bytes(encode_frame([envelope(1)])),
        pong_bytes(1),
        hello_bytes(Hello(NodeName("mallory"), NodeName("node1"), b"short")),
    ],
    ids=["garbage", "empty", "frame", "pong", "short life"],
)
def test_a_connection_begins_with_a_hello(part: bytes) -> None:
    async def story() -> None:
        async with network("node1") as made, rogue(made, "mallory") as mallory:
            await mallory.until_known(made["node1"])
            async with mallory.dial(made["node1"]) as call:
                await call.write(part)
                goodbye = await call.read_until(Goodbye)
            assert goodbye.ending.reason is Reason.MALFORMED

    play(story)


def test_settings_that_cannot_be_are_refused_by_name() -> None:
    for field, value in {
        "heartbeat_ms": 0,
        "backoff_max_ms": 1,
        "queue_bytes_max": 5,
        "frame_bytes_wanted": 10**9,
    }.items():
        with pytest.raises(ValueError, match=f"{field}: must"):
            TransportSettings(**{field: value})  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="bytes_per_s_max: must let one frame pass"):
        TransportSettings(bytes_per_s_max=1)
