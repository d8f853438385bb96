"""A registered node that means ill, and garbage from anywhere: their own connections end, and nobody else's."""

from __future__ import annotations

import asyncio
import os
import resource
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace

import grpc
import grpc.aio
import pytest

from rota.machine.events import ConnectionLost
from rota.model.types import HeartbeatNumber, NodeName, RequestId, Tried
from rota.transport import Reason, TransportSettings, link
from rota.transport.parts import Goodbye, Pong, frame_bytes, ping_bytes, pong_bytes
from rota.wire import Frame, Limits, Malformed, decode_frame, encode_frame, peer_pb2
from rota.wire.messages import DelegationCommand
from tests.transport.kit import (
    HOST,
    SETTINGS,
    WAIT_S,
    Network,
    Relay,
    RogueCall,
    envelope,
    greeted,
    network,
    play,
    rogue,
    until,
    until_counted,
)
from tests.transport.test_rotation import until_renewed

MEBIBYTE = 1024 * 1024
# Field 100 of a frame, 200,000 bytes long, as a newer minor version might have it.
UNKNOWN_FIELD = b"\xa2\x06\xc0\x9a\x0c" + b"\0" * 200_000
# Short elements of lists, each of which costs as much to read as a long one.
DENSE_ITEMS = 8_192
DENSE_FRAME = encode_frame(
    [envelope(1, DelegationCommand(RequestId(1, 1), (), (Tried(NodeName("n"), HeartbeatNumber(0, 0)),) * DENSE_ITEMS))]
)
# Rogues answer the first ping and no other one. No test here may depend on how long that is tolerated.
UNHURRIED = replace(SETTINGS, heartbeat_ms=120_000)


@asynccontextmanager
async def hostile(settings: TransportSettings = UNHURRIED) -> AsyncIterator[tuple[Network, RogueCall]]:
    """node1 and node2 connected, and mallory connected to node1."""
    async with network("node1", "node2", settings=settings) as made, greeted(made, "node1") as call:
        yield made, call


async def assert_others_did_not_notice(made: Network) -> None:
    one, two = made["node1"], made["node2"]
    two.send("node1", 77)
    await one.until(lambda: one.numbers("node2") == [77])
    assert one.count(ConnectionLost, "node2") == 0
    assert two.count(ConnectionLost, "node1") == 0


MALFORMED = {
    "garbage": b"\xff" * 100,
    "nothing": b"",
    "a second hello": None,
    "a pong that answers nothing": pong_bytes(99),
    "a frame that does not parse": frame_bytes(b"\xff" * 100),
    "a frame of another major version": frame_bytes(peer_pb2.Frame(version_major=9).SerializeToString()),
    "a frame beyond its limit": frame_bytes(b"\0" * (4 * MEBIBYTE + 1)),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_what_no_honest_peer_says_closes_the_connection_with_a_reason(name: str) -> None:
    async def story() -> None:
        async with hostile() as (made, call):
            one = made["node1"]
            part = MALFORMED[name]
            await (call.say_hello() if part is None else call.write(part))
            goodbye = await call.read_until(Goodbye)
            assert goodbye.ending.reason is Reason.MALFORMED
            assert goodbye.ending.text
            assert await call.read() is None
            await one.until_lost("mallory")
            assert one.peers.endings.counts[Reason.MALFORMED] == 2  # The first was when it was waited to be known.
            await assert_others_did_not_notice(made)

    play(story)


def test_a_frame_before_the_first_pong_closes_the_connection() -> None:
    async def story() -> None:
        async with network("node1") as made, rogue(made, "mallory") as mallory:
            await mallory.until_known(made["node1"])
            async with mallory.dial(made["node1"]) as call:
                await call.say_hello()
                await call.write(frame_bytes(encode_frame([envelope(1)])))
                goodbye = await call.read_until(Goodbye)
                assert goodbye.ending.reason is Reason.MALFORMED
            assert not made["node1"].messages("mallory")

    play(story)


def test_a_peer_that_misbehaved_is_not_heard_for_a_while() -> None:
    async def story() -> None:
        async with network("node1") as made, rogue(made, "mallory") as mallory:
            one = made["node1"]
            await mallory.until_known(one)
            async with mallory.dial(one) as call:
                await call.say_hello()
                await call.write(b"\xff")
                await call.read_until(Goodbye)
            async with mallory.dial(one) as call:
                await call.say_hello()
                assert (await call.read_until(Goodbye)).ending.reason is Reason.BUSY

    play(story)


def test_a_call_of_ours_that_fails_late_does_not_hide_why_a_peer_is_not_heard() -> None:
    async def story() -> None:
        async with (
            network("node1", settings=replace(UNHURRIED, connect_timeout_ms=60_000)) as made,
            rogue(made, "mallory") as mallory,
        ):
            one, name = made["node1"], NodeName("mallory")
            relay = Relay(int(made.registry.registrations()[name].endpoint.rpartition(":")[2]))
            await relay.start()
            made.alter(name, endpoint=f"{HOST}:{relay.port}")
            await mallory.until_known(one)
            relay.from_target.clear()
            before = relay.connections
            relay.cut()
            # The next call of ours is kept waiting for an answer until it is cut. It may come before the cut has ended.
            await until(lambda: relay.connections > before)
            async with mallory.dial(one) as call:
                await call.say_hello()
                await call.write(b"\xff")
                await call.read_until(Goodbye)
            await until_counted(one, Reason.MALFORMED, 2)
            why, failed = one.peers.troubles()[name], one.peers.endings.counts[Reason.UNREACHABLE]
            relay.cut()
            await until_counted(one, Reason.UNREACHABLE, failed + 1)
            assert one.peers.troubles()[name] == why
            assert "part" in why
            await relay.stop()

    play(story)


def test_a_part_of_64_mebibytes_is_refused_before_it_is_in_memory() -> None:
    async def story() -> None:
        async with hostile() as (made, call):
            part = frame_bytes(b"\0" * (64 * MEBIBYTE))
            before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            with suppress(grpc.aio.AioRpcError):
                await call.write(part)
                while await call.read() is not None:
                    pass
            code, details = await call.code()
            assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
            assert "larger than max" in details
            await made["node1"].until_lost("mallory")
            # What it costs is the sender's copies, which are in this process too, and not the receiver's.
            assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib < 200 * 1024
            await assert_others_did_not_notice(made)

    play(story)


@pytest.mark.parametrize(
    ("limit", "part"),
    [("frames_per_s_max", ping_bytes(1)), ("bytes_per_s_max", frame_bytes(encode_frame([]) + UNKNOWN_FIELD))],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_flood_closes_the_connection_with_a_reason(limit: str, part: bytes) -> None:
    settings = replace(UNHURRIED, frames_per_s_max=100, bytes_per_s_max=2 * MEBIBYTE)

    async def flood(call: RogueCall) -> None:
        for _ in range(2_000):
            await call.write(part)

    async def story() -> None:
        async with hostile(settings) as (made, call):
            one = made["node1"]
            flooding = asyncio.create_task(flood(call))
            await one.until_lost("mallory")
            assert one.peers.endings.counts[Reason.FLOOD] == 1
            assert f"more than {getattr(settings, limit)} " in one.peers.troubles()[NodeName("mallory")]
            await assert_others_did_not_notice(made)
            await asyncio.gather(flooding, return_exceptions=True)

    play(story)


@pytest.mark.slow
def test_peer_that_sends_too_many_items_is_read_at_the_rate_allowed() -> None:
    frames, rate = 30, 20
    settings = replace(
        UNHURRIED, items_per_s_max=rate * DENSE_ITEMS, burst_s=1, limits=Limits(frame_items_max=DENSE_ITEMS)
    )

    async def story() -> None:
        async with hostile(settings) as (made, call):
            one, loop = made["node1"], asyncio.get_running_loop()
            begun_s = loop.time()
            for _ in range(frames):
                await call.write(frame_bytes(DENSE_FRAME))
            await one.until(lambda: len(one.messages("mallory")) == frames)
            # All but the last are paid for: the first ones by the burst, the others by time.
            assert loop.time() - begun_s >= (frames - 2 - rate) / rate
            assert one.peers.endings.counts[Reason.FLOOD] == 0
            await assert_others_did_not_notice(made)

    play(story)


def test_no_more_is_read_of_a_peer_that_sends_more_than_the_node_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link, "PAUSE_MAX_MS", 10**9)

    async def story() -> None:
        async with hostile() as (made, call):
            one, is_behind = made["node1"], True
            one.peers.is_behind = lambda peer: is_behind and peer == "mallory" and len(one.messages("mallory")) >= 3
            for number in range(1, 7):
                await call.write(frame_bytes(encode_frame([envelope(number)])))
            await one.until(lambda: len(one.messages("mallory")) == 3)
            await assert_others_did_not_notice(made)
            assert one.numbers("mallory") == [1, 2, 3]
            is_behind = False
            await one.until(lambda: one.numbers("mallory") == [*range(1, 7)])

    play(story)


def test_long_frame_is_read_outside_the_event_loop_and_messages_keep_their_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read_in: list[tuple[bytes, bool]] = []

    def decode(data: bytes, limits: Limits) -> Frame | Malformed:
        read_in.append((data, threading.current_thread() is threading.main_thread()))
        return decode_frame(data, limits)

    monkeypatch.setattr(link, "decode_frame", decode)
    ordinary = encode_frame([envelope(2)] * 3_000)
    long = encode_frame([envelope(1)]) + UNKNOWN_FIELD * 2
    assert len(ordinary) <= link.AT_ONCE_BYTES_MAX < len(long)
    assert len(DENSE_FRAME) <= link.AT_ONCE_BYTES_MAX
    assert link.AT_ONCE_ITEMS_MAX < DENSE_ITEMS

    async def story() -> None:
        async with hostile() as (made, call):
            one = made["node1"]
            for data in (long, ordinary, DENSE_FRAME):
                await call.write(frame_bytes(data))
            await one.until(lambda: len(one.messages("mallory")) == 3_002)
            assert one.numbers("mallory") == [1] + [2] * 3_000 + [1]
            reads = [each for each in read_in if each[0] in (long, ordinary, DENSE_FRAME)]
            # The densest one is given up at once when it has too many items, and then read in a thread.
            assert reads == [(long, False), (ordinary, True), (DENSE_FRAME, True), (DENSE_FRAME, False)]

    play(story)


def test_pings_are_answered_with_the_latest_number_and_pongs_do_not_pile_up() -> None:
    async def story() -> None:
        async with hostile() as (made, call):
            for number in range(1, 200):
                await call.write(ping_bytes(number))
            seen = 0
            while seen < 199:
                seen = (await call.read_until(Pong)).number
            await assert_others_did_not_notice(made)

    play(story)


def test_garbage_on_the_port_is_closed_and_nobody_notices() -> None:
    async def story() -> None:
        async with network("node1", "node2", settings=UNHURRIED) as made:
            port = made["node1"].peers.port
            for content in (os.urandom(4_096), b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\xff\xff" + os.urandom(70_000)):
                reader, writer = await asyncio.open_connection(HOST, port)
                writer.write(content)
                async with asyncio.timeout(WAIT_S):
                    while await reader.read(65_536):
                        pass
                writer.transport.abort()
            await assert_others_did_not_notice(made)

    play(story)


def test_a_connection_that_says_nothing_is_closed() -> None:
    async def story() -> None:
        async with network("node1", "node2", settings=replace(UNHURRIED, connect_timeout_ms=200)) as made:
            opened = [await asyncio.open_connection(HOST, made["node1"].peers.port) for _ in range(50)]
            async with asyncio.timeout(WAIT_S):
                for reader, writer in opened:
                    while await reader.read(65_536):
                        pass
                    writer.transport.abort()
            await assert_others_did_not_notice(made)

    play(story)


@pytest.mark.slow
def test_a_storm_of_handshakes_while_the_trust_changes_harms_nobody() -> None:
    async def story() -> None:
        async with network("node1", "node2", settings=replace(SETTINGS, heartbeat_ms=60_000)) as made:
            one = made["node1"]
            for _ in range(40):
                # As when a certificate is learned. gRPC once crashed here, in a handshake that began at that moment.
                one.peers.use(one.identity)
                opened = [await asyncio.open_connection(HOST, one.peers.port) for _ in range(40)]
                for _, writer in opened:
                    writer.write(b"\x16\x03\x01\x00\x05hello")
                    writer.transport.abort()
            await until_renewed(one)
            await assert_others_did_not_notice(made)

    play(story)
