"""A certificate is exchanged without a restart and without losing a peer."""

from __future__ import annotations

import asyncio

import pytest

from rota.machine.events import ConnectionLost
from rota.model.types import NodeName
from rota.transport import Reason
from rota.transport.certificates import look_at_certificate, utc_now
from tests.transport.kit import WAIT_S, Network, Node, make_identity, network, play, until


async def until_renewed(node: Node) -> None:
    await until(node.peers.is_renewed)


async def rotate(made: Network, name: str) -> None:
    """As an operator would: announce, use, drop the old one."""
    node = made[name]
    following = make_identity(name)
    made.alter(name, next_fingerprint=following.certificate.fingerprint)
    node.peers.use(following)
    await until_renewed(node)
    node.identity = following
    made.alter(name, fingerprint=following.certificate.fingerprint, next_fingerprint=b"")


@pytest.mark.parametrize("name", ["node1", "node3"])
def test_a_certificate_is_exchanged_while_messages_flow_and_no_peer_is_lost(name: str) -> None:
    async def story() -> None:
        async with network("node1", "node2", "node3") as made:
            for _ in range(2):
                await rotate(made, name)
            node = made[name]
            others = [other for other in made.nodes.values() if other is not node]
            for other in others:
                node.send(other.name, 1)
                other.send(name, 2)
                await other.until_heard(name, [1])
                await node.until_heard(other.name, [2])
                assert other.count(ConnectionLost, name) == 0
                assert node.count(ConnectionLost, other.name) == 0
            registration = made.registry.registrations()[NodeName(name)]
            shown = await look_at_certificate(NodeName(name), registration, utc_now(), 5_000)
            assert shown.fingerprint == node.identity.certificate.fingerprint

    play(story)


def test_two_nodes_that_exchange_their_certificates_at_once_do_not_lose_one_another() -> None:
    async def story() -> None:
        for _ in range(3):
            async with network("node1", "node2") as made:
                await asyncio.gather(rotate(made, "node1"), rotate(made, "node2"))
                made["node1"].send("node2", 1)
                await made["node2"].until_heard("node1", [1])
                assert made["node1"].count(ConnectionLost, "node2") == 0
                assert made["node2"].count(ConnectionLost, "node1") == 0

    play(story)


def test_after_the_exchange_the_old_certificate_is_refused() -> None:
    async def story() -> None:
        async with network("node1", "node2") as made:
            one, two = made["node1"], made["node2"]
            old = two.identity
            await rotate(made, "node2")
            await two.stop()
            await one.until_lost("node2")
            again = await made.start("node2", identity=old, port=two.peers.port)
            await one.until(lambda: one.count(ConnectionLost, "node2") == 1)
            async with asyncio.timeout(WAIT_S):
                while one.peers.endings.counts.get(Reason.STRANGER, 0) < 2:
                    await asyncio.sleep(0)
            assert not again.is_connected("node1")
            assert not one.is_connected("node2")

    play(story)


def test_a_node_that_restarts_with_its_announced_certificate_is_found() -> None:
    async def story() -> None:
        async with network("node1", "node2") as made:
            one, two = made["node1"], made["node2"]
            following = make_identity("node2")
            made.alter("node2", next_fingerprint=following.certificate.fingerprint)
            await two.stop()
            await one.until_lost("node2")
            again = await made.start("node2", identity=following, port=two.peers.port)
            await one.until_connected("node2")
            await again.until_connected("node1")

    play(story)
