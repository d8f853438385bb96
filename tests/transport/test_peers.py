"""Nodes that mean well: they find one another, keep order, and part."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace

from structlog.testing import capture_logs

from rota.logs.trouble import LINES_MAX
from rota.machine.events import ConnectionLost, ConnectionMade
from rota.model.types import DelegationNumber, IntentId, Leaf
from rota.transport import Reason
from rota.transport.parts import Hello, Ping, pong_bytes
from rota.wire.limits import Limits
from rota.wire.messages import TransactionReverted
from tests.transport.kit import (
    HOST,
    SETTINGS,
    Network,
    assert_told_in_order,
    greeted,
    network,
    play,
    rogue,
    until_counted,
)


def test_three_nodes_connect_and_hear_one_another_in_order() -> None:
    async def story() -> None:
        async with network("node1", "node2", "node3") as made:
            for number in range(500):
                for name in ("node2", "node3"):
                    made["node1"].send(name, number)
                if number % 50 == 0:
                    await asyncio.sleep(0)
            for name in ("node2", "node3"):
                await made[name].until_heard("node1", list(range(500)))
            for node in made.nodes.values():
                assert_told_in_order(node)

    play(story)


def test_two_connections_that_cross_settle_on_one() -> None:
    async def story() -> None:
        for _ in range(10):
            async with network("node1", "node2") as made:
                one, two = made["node1"], made["node2"]
                one.send("node2", 1)
                two.send("node1", 2)
                await one.until_heard("node2", [2])
                await two.until_heard("node1", [1])
                for node, other in ((one, "node2"), (two, "node1")):
                    assert_told_in_order(node)
                    assert node.count(ConnectionMade, other) == 1
                    assert node.count(ConnectionLost, other) == 0

    play(story)


def test_a_node_that_was_never_reached_is_told_as_lost_once() -> None:
    async def story() -> None:
        made = Network()
        one, two = await made.start("node1"), await made.start("node2")
        await two.stop()
        made.add(one, two)
        await one.until(lambda: one.count(ConnectionLost, "node2"))
        assert "127.0.0.1" in one.peers.troubles()[two.name]
        again = await made.start("node2", identity=two.identity, port=two.peers.port)
        await one.until_connected("node2")
        await again.until_connected("node1")
        assert one.count(ConnectionLost, "node2") == 1
        assert one.peers.troubles() == {}
        await made.stop()

    play(story)


def test_a_node_that_restarts_is_lost_and_found_again() -> None:
    async def story() -> None:
        async with network("node1", "node2") as made:
            one, old = made["node1"], made["node2"]
            one.send("node2", 1)
            await old.until_heard("node1", [1])
            await old.stop()
            await one.until_lost("node2")
            assert one.peers.endings.counts[Reason.STOPPING] == 1
            new = await made.start("node2", identity=old.identity, port=old.peers.port)
            await one.until_connected("node2")
            await new.until_connected("node1")
            one.send("node2", 2)
            await new.until_heard("node1", [2])
            assert_told_in_order(one)

    play(story)


def test_node_is_dialed_at_the_place_of_its_endpoint_where_it_listens() -> None:
    async def story() -> None:
        made = Network()
        one, two, standby = [await made.start(name) for name in ("node1", "node2", "elsewhere")]
        first, second = two.peers.port, standby.peers.port
        await standby.stop()
        made.add(one, two)
        made.alter("node2", endpoint=f"{HOST}:{first},{HOST}:{second}")
        await one.until_connected("node2")
        await two.stop()
        await one.until_lost("node2")
        again = await made.start("node2", identity=two.identity, port=second)
        one.send("node2", 1)
        await again.until_heard("node1", [1])
        assert one.peers.troubles() == {}
        await made.stop()

    play(story)


def test_what_is_said_before_it_listens_does_not_keep_a_node_from_dialing() -> None:
    async def story() -> None:
        async with network("node1", "node2") as made:
            one, old = made["node1"], made["node2"]
            await old.stop()
            await one.until_lost("node2")
            starting = asyncio.create_task(made.start("node2", identity=old.identity, port=old.peers.port))
            # Its life has begun, and it does not listen yet.
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            made.starting["node2"].send("node1", 1)
            new = await starting
            await new.until_connected("node1")
            await one.until_heard("node2", [1])

    play(story)


def test_what_is_queued_when_a_node_stops_is_said_before_it_leaves() -> None:
    async def story() -> None:
        async with network("node1", "node2") as made:
            one, two = made["node1"], made["node2"]
            for number in range(2_000):
                one.send("node2", number)
            await one.stop()
            await two.until_lost("node1")
            assert two.numbers("node1") == list(range(2_000))

    play(story)


def test_a_node_taken_from_the_registry_is_let_go_and_one_that_is_added_is_found() -> None:
    async def story() -> None:
        async with network("node1", "node2") as made:
            one = made["node1"]
            three = await made.start("node3")
            made.add(three)
            await one.until_connected("node3")
            rest = {name: found for name, found in made.registry.registrations().items() if name != "node2"}
            made.registry.change(rest)
            await one.until_lost("node2")
            # The link may notice it before the node does.
            await one.until(lambda: "node2" not in {status.name for status in one.peers.status()})
            assert one.is_connected("node3")
            one.send("node2", 1)
            assert one.peers.dropped_unknown_peer == 1

    play(story)


def test_a_peer_beyond_the_most_that_there_may_be_is_not_connected_to() -> None:
    async def story() -> None:
        made = Network()
        one = await made.start("node1", settings=replace(SETTINGS, peers_max=1))
        two, three = await made.start("node2"), await made.start("node3")
        made.add(one, two)
        await one.until_connected("node2")
        made.add(three)
        await three.until_connected("node2")
        await three.until(lambda: three.count(ConnectionLost, "node1"))
        assert not one.is_connected("node3")
        await made.stop()

    play(story)


def test_a_fault_of_our_own_is_loud() -> None:
    async def story() -> None:
        async with network("node1", "node2") as made:
            one = made["node1"]

            def fail(_: object) -> None:
                raise AssertionError("our own error")

            broken = await made.start("node3", tell=fail)
            made.add(broken)
            assert broken.task is not None
            (fault,) = await asyncio.gather(broken.task, return_exceptions=True)
            assert isinstance(fault, BaseExceptionGroup)
            assert fault.subgroup(AssertionError) is not None
            await one.until_lost("node3")
            assert one.is_connected("node2")
            del made.nodes["node3"]

    play(story)


def test_message_that_no_frame_can_hold_is_not_sent_and_is_logged() -> None:
    async def story() -> None:
        small = replace(SETTINGS, limits=Limits(frame_bytes_max=2_000), frame_bytes_wanted=2_000)
        async with network("node1", "node2", settings=small) as made:
            one, two = made["node1"], made["node2"]
            body = TransactionReverted(IntentId(b"i" * 16), DelegationNumber(1, 1), Leaf(b"l" * 32), "r" * 3_000)
            one.send("node2", 1, body)
            one.send("node2", 2)
            await two.until_heard("node1", [2])
            (status,) = one.peers.status()
            assert status.dropped_too_large == 1

    with capture_logs() as logs:
        play(story)
    (line,) = (each for each in logs if each["event"] == "peer.message_not_sent")
    assert (line["peer"], line["message_type"]) == ("node2", "TransactionReverted")


def test_peer_that_goes_and_comes_back_is_logged_once_each_time() -> None:
    async def story() -> None:
        async with network("node1", "node2") as made:
            one, old = made["node1"], made["node2"]
            await old.stop()
            await one.until_lost("node2")
            await until_counted(one, Reason.UNREACHABLE, 4)
            await made.start("node2", identity=old.identity, port=old.peers.port)
            await one.until_connected("node2")

    with capture_logs() as logs:
        play(story)
    seen = [(each["event"], each["log_level"]) for each in logs if each.get("peer") == "node2"]
    # Before node2 listens for the first time it may be unreachable, and at the end both stop.
    first = seen.index(("peer.connected", "info"))
    assert seen[first : first + 4] == [
        ("peer.connected", "info"),
        ("peer.disconnected", "warning"),
        ("peer.refused", "warning"),
        ("peer.connected", "info"),
    ]


def test_peer_that_connects_and_leaves_in_turn_does_not_fill_the_log() -> None:
    turns = LINES_MAX + 3

    async def story() -> None:
        async with network("node1") as made, rogue(made, "mallory") as mallory:
            one = made["node1"]
            await mallory.until_known(one)
            for _ in range(turns):
                async with mallory.dial(one) as call:
                    await call.say_hello()
                    assert isinstance(await call.read(), Hello)
                    await call.write(pong_bytes((await call.read_until(Ping)).number))
                    await one.until_connected("mallory")
                await one.until_lost("mallory")

    with capture_logs() as logs:
        play(story)
    lines = Counter(each["event"] for each in logs if each.get("peer") == "mallory")
    assert lines["peer.connected"] == lines["peer.disconnected"] == LINES_MAX
    assert lines["peer.refused"] <= LINES_MAX


def test_a_node_that_stops_within_its_bound_leaves_even_a_peer_that_does_not_read() -> None:
    async def story() -> None:
        quick = replace(SETTINGS, heartbeat_ms=60_000, stop_timeout_ms=100, queue_age_max_ms=60_000)
        async with network("node1", settings=quick) as made, greeted(made, "node1"):
            one = made["node1"]
            body = TransactionReverted(IntentId(b"i" * 16), DelegationNumber(1, 1), Leaf(b"l" * 32), "r" * 4_000)
            for number in range(5_000):
                one.send("mallory", number, body)
            await one.stop()

    play(story)
