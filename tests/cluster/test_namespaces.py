"""Hosts that can be cut from one another, in one direction or both, and leave no trace."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Iterator

import pytest

from rota.localnet import namespaces
from rota.localnet.namespaces import LOOPBACK, Namespaces
from tests.ledger.chains import in_loop

CONNECT_TIMEOUT_S = 0.3


@pytest.fixture
def hosts() -> Iterator[Namespaces]:
    if reason := namespaces.missing():
        pytest.skip(reason)
    made = Namespaces(("one", "two", "three"))
    yield made
    asyncio.run(made.close())


def listener_on(hosts: Namespaces, name: str, address: str) -> socket.socket:
    with namespaces._within(hosts[name].descriptor):
        server = socket.socket()
    server.bind((address, 0))
    server.listen()
    return server


def datagrams_arrive(hosts: Namespaces, sender: str, receiver: str) -> bool:
    """One way is enough for these."""
    with namespaces._within(hosts[receiver].descriptor):
        target = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with namespaces._within(hosts[sender].descriptor):
        source = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with target, source:
        target.bind((hosts[receiver].address, 0))
        target.settimeout(CONNECT_TIMEOUT_S)
        source.sendto(b"hello", target.getsockname())
        try:
            return target.recv(16) == b"hello"
        except TimeoutError:
            return False


def test_way_that_is_cut_is_cut_in_that_direction_alone_until_it_is_mended(hosts: Namespaces) -> None:
    assert datagrams_arrive(hosts, "one", "two")
    hosts.cut_way("one", "two")
    assert not datagrams_arrive(hosts, "one", "two")
    assert datagrams_arrive(hosts, "two", "one")
    assert datagrams_arrive(hosts, "one", "three")
    hosts.mend_way("one", "two")
    assert datagrams_arrive(hosts, "one", "two")


def test_thread_is_back_in_its_own_namespace_and_names_nothing(hosts: Namespaces) -> None:
    before = os.readlink("/proc/thread-self/ns/net")
    with namespaces._within(hosts["one"].descriptor):
        assert os.readlink("/proc/thread-self/ns/net") != before
    assert os.readlink("/proc/thread-self/ns/net") == before
    assert "plug1" not in {name for _, name in socket.if_nameindex()}


@in_loop
async def test_relay_leads_to_a_port_of_a_hosts_loopback_whatever_is_cut() -> None:
    if reason := namespaces.missing():
        pytest.skip(reason)
    hosts = Namespaces(("one", "two"))
    hosts.cut_way("one", "two")
    with listener_on(hosts, "one", LOOPBACK) as server:
        port = await hosts.relay("one", server.getsockname()[1])
        reader, writer = await asyncio.open_connection(LOOPBACK, port)
        loop = asyncio.get_running_loop()
        server.setblocking(False)
        accepted, _ = await loop.sock_accept(server)
        with accepted:
            writer.write(b"question")
            assert await loop.sock_recv(accepted, 16) == b"question"
            await loop.sock_sendall(accepted, b"answer")
        assert await reader.read() == b"answer"
        writer.close()
    await hosts.close()
