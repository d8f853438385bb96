"""Connections that break: what is told, what is lost, and what never happens."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rota.messages import TransactionReverted
from rota.transport import Reason
from rota.types import DelegationNumber, IntentId, Leaf, NodeName
from tests.transport.kit import SETTINGS, Node, assert_told_in_order, network, play, relayed, rising

QUICK = replace(SETTINGS, heartbeat_ms=50)


def big(number: int) -> TransactionReverted:
    """A message of about four kilobytes that is sent once and is no repeat of another."""
    return TransactionReverted(IntentId(b"i" * 16), DelegationNumber(1, number), Leaf(b"l" * 32), "r" * 4_000)


@pytest.mark.parametrize("way", ["to_target", "from_target"])
def test_a_connection_that_carries_one_way_only_is_lost_on_both_sides(way: str) -> None:
    async def story() -> None:
        async with relayed("node1", "node2", settings=QUICK) as (made, relays):
            for relay in relays.values():
                getattr(relay, way).clear()
            await asyncio.gather(made["node1"].until_lost("node2"), made["node2"].until_lost("node1"))
            for relay in relays.values():
                getattr(relay, way).set()
            await asyncio.gather(made["node1"].until_connected("node2"), made["node2"].until_connected("node1"))
            counts = [node.peers.endings.counts for node in made.nodes.values()]
            assert sum(count.get(Reason.NO_PONG, 0) for count in counts) >= 1
            for node in made.nodes.values():
                assert_told_in_order(node)

    play(story)


def test_a_connection_that_is_cut_is_told_at_once_and_made_again() -> None:
    async def story() -> None:
        async with relayed("node1", "node2", settings=replace(SETTINGS, heartbeat_ms=60_000)) as (made, relays):
            for relay in relays.values():
                relay.cut()
            await asyncio.gather(made["node1"].until_lost("node2"), made["node2"].until_lost("node1"))
            await asyncio.gather(made["node1"].until_connected("node2"), made["node2"].until_connected("node1"))
            made["node1"].send("node2", 5)
            await made["node2"].until_heard("node1", [5])

    play(story)


def test_a_peer_that_reads_nothing_fills_its_own_queue_and_holds_up_nobody() -> None:
    small = replace(SETTINGS, heartbeat_ms=60_000, queue_messages_max=500, queue_age_max_ms=60_000)

    async def story() -> None:
        async with relayed("node1", "node2", "node3", settings=small) as (made, relays):
            one, three = made["node1"], made["node3"]
            relays["node1"].to_target.clear()
            relays["node1"].from_target.clear()
            relays["node2"].to_target.clear()
            relays["node2"].from_target.clear()
            before = three.numbers("node1")
            relays["node3"].to_target.set()
            for number in range(3_000):
                one.send("node2", number, big(number))
                if number % 100 == 0:
                    await asyncio.sleep(0)
            status = {found.name: found for found in one.peers.status()}
            stuck = next(found for name, found in status.items() if name == "node2")
            assert stuck.queued_messages <= 500
            assert stuck.dropped_full > 0
            assert before == []
            relays["node1"].to_target.set()
            relays["node1"].from_target.set()
            one.send("node3", 1)
            await three.until_heard("node1", [1])

    play(story)


def test_all_that_is_said_in_one_turn_travels_in_one_frame() -> None:
    async def story() -> None:
        async with network("node1", "node2") as made:
            one, two = made["node1"], made["node2"]
            frames = counted_frames(one, "node2")
            for number in range(300):
                one.send("node2", number)
            await two.until_heard("node1", list(range(300)))
            assert len(frames) == 1

    play(story)


def counted_frames(node: Node, peer: str) -> list[int]:
    """The sizes of the frames that are taken from a queue, as they are taken."""
    outbox = node.peers._states[NodeName(peer)].outbox
    sizes: list[int] = []

    def take_frame(now_ms: int) -> bytes | None:
        frame = type(outbox).take_frame(outbox, now_ms)
        sizes.extend([len(frame)] if frame else [])
        return frame

    outbox.take_frame = take_frame  # type: ignore[method-assign]
    return sizes


SAY = st.tuples(st.sampled_from(["node1", "node2"]), st.integers(1, 40))
BREAK = st.sampled_from(["cut", "hold", "go on", "turn", "restart"])


@pytest.mark.slow
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(SAY | BREAK, min_size=3, max_size=25))
def test_random_disconnects_never_deliver_twice_or_out_of_order(steps: list[tuple[str, int] | str]) -> None:
    play(lambda: play_disconnects(steps))


def test_a_chosen_series_of_disconnects_never_delivers_twice_or_out_of_order() -> None:
    said: list[tuple[str, int] | str] = [("node1", 30), ("node2", 30), "turn"]
    steps = [*said, "cut", *said, "hold", *said, "go on", *said, "restart", *said, "cut"]
    play(lambda: play_disconnects(steps))


async def play_disconnects(steps: list[tuple[str, int] | str]) -> None:
    async with relayed("node1", "node2", settings=QUICK) as (made, relays):
        number = 0
        lives: list[Node] = [made["node1"], made["node2"]]
        for step in steps:
            match step:
                case "cut":
                    for relay in relays.values():
                        relay.cut()
                case "hold" | "go on":
                    for relay in relays.values():
                        (relay.to_target.set if step == "go on" else relay.to_target.clear)()
                case "restart":
                    old = made["node2"]
                    await old.stop()
                    again = await made.start("node2", identity=old.identity, port=old.peers.port)
                    lives.append(again)
                case "turn":
                    await asyncio.sleep(0.01)
                case str():
                    raise AssertionError(f"there is no step {step!r}")
                case (author, count):
                    for _ in range(count):
                        number += 1
                        made[author].send("node2" if author == "node1" else "node1", number)
        for relay in relays.values():
            relay.to_target.set()
        await asyncio.gather(made["node1"].until_connected("node2"), made["node2"].until_connected("node1"))
        await until_through(made["node1"], made["node2"], number + 1)
        for life in lives:
            assert_told_in_order(life)
            for peer in ("node1", "node2"):
                assert rising(life.numbers(peer)), f"{life.name} heard {life.numbers(peer)} of {peer}"


async def until_through(one: Node, two: Node, number: int) -> None:
    """Said until it arrives: a message may be lost with the connection that carries it."""
    async with asyncio.timeout(20):
        while not two.numbers("node1") or two.numbers("node1")[-1] < number:
            number += 1
            one.send("node2", number)
            await asyncio.sleep(0.02)
