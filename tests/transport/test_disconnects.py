"""Connections that break: what is told, what is lost, and what never happens."""

from __future__ import annotations

import asyncio
import itertools
from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rota.model.types import DelegationNumber, IntentId, Leaf
from rota.transport import Reason
from rota.wire.messages import TransactionReverted
from tests.transport.kit import SETTINGS, WAIT_S, Node, assert_told_in_order, greeted, network, play, relayed, rising

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
        async with network("node1", "node2", settings=small) as made, greeted(made, "node1") as call:
            one, two = made["node1"], made["node2"]
            for number in range(5_000):
                one.send("mallory", number, big(number))
                if number % 100 == 0:
                    one.send("node2", number)
                    await two.until(lambda number=number: two.numbers("node1")[-1:] == [number])  # type: ignore[misc]
            stuck = next(status for status in one.peers.status() if status.name == "mallory")
            assert stuck.queued_messages <= 500
            assert stuck.dropped_full > 0
            # When it reads again it gets, in order, what was not dropped.
            heard: list[int] = []
            while heard[-1:] != [4_999]:
                heard += await call.read_numbers()
            assert rising(heard)

    play(story)


def test_all_that_is_said_in_one_turn_travels_in_one_frame() -> None:
    async def story() -> None:
        async with network("node1") as made, greeted(made, "node1") as call:
            for turn in range(5):
                numbers = list(range(turn * 300, turn * 300 + 300))
                for number in numbers:
                    made["node1"].send("mallory", number)
                assert await call.read_numbers() == numbers

    play(story)


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
                    for _ in range(20):
                        await asyncio.sleep(0)
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
    async with asyncio.timeout(WAIT_S):
        for said in itertools.count(number):
            one.send("node2", said)
            with suppress(TimeoutError):
                async with asyncio.timeout(0.1):
                    await two.until(lambda: max(two.numbers("node1"), default=0) >= number)
                    return
