"""Names that somebody registers to harm others: many of them, copied fingerprints, endpoints of the dialing machine."""

from __future__ import annotations

import asyncio
import base64
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from rota.model.types import NodeName
from rota.ports import Registration, Unavailable
from rota.transport.certificates import read_certificate
from rota.transport.endings import Refused
from rota.transport.endpoints import is_local, require_dialable
from rota.transport.handshake import identify, shown_fingerprint
from rota.transport.host_addresses import HostAddresses
from tests.transport.kit import SETTINGS, Network, make_identity, play, register, until

NOWHERE = "127.0.0.1:1"


def junk(count: int) -> dict[NodeName, Registration]:
    return {NodeName(f"junk{n}"): Registration(NOWHERE, n.to_bytes(32)) for n in range(1, count + 1)}


def test_junk_names_shut_out_no_node_that_we_speak_to() -> None:
    async def story() -> None:
        made = Network()
        made.put(junk(10))
        one = await made.start("node1", settings=replace(SETTINGS, peers_max=4))
        two = await made.start("node2")
        made.add(one, two)
        await until(lambda: len(one.peers.status()) == 4)
        one.send("node2", 1)
        await two.until_heard("node1", [1])
        assert len(one.peers.status()) == 4
        await made.stop()

    play(story)


def test_newcomer_that_dials_takes_the_place_of_a_junk_name() -> None:
    async def story() -> None:
        made = Network()
        made.put(junk(10))
        one = await made.start("node1", settings=replace(SETTINGS, peers_max=4))
        await until(lambda: len(one.peers.status()) == 4)
        two = await made.start("node2")
        made.add(one, two)
        await one.until_connected("node2")
        assert len(one.peers.status()) == 4
        await made.stop()

    play(story)


def test_strangers_that_are_connected_make_room_for_a_node_that_we_speak_to_and_for_no_other() -> None:
    async def story() -> None:
        made = Network()
        one = await made.start("node1", settings=replace(SETTINGS, peers_max=1))
        stranger, two = await made.start("stranger"), await made.start("node2")
        made.add(one, stranger)
        await one.until_connected("stranger")
        made.add(two)
        await two.until_connected("stranger")
        assert not one.is_connected("node2")
        one.send("node2", 1)
        await two.until_heard("node1", [1])
        assert [each.name for each in one.peers.status()] == ["node2"]
        # Now it is one that we speak to, and stays.
        one.send("stranger", 2)
        assert one.peers.dropped_unknown_peer == 1
        await made.stop()

    play(story)


def test_copied_fingerprint_takes_no_place_of_the_node_that_has_the_certificate() -> None:
    shown = make_identity("node2")
    # The thief was registered first.
    found = {name: register(shown, 1) for name in (NodeName("mallory"), NodeName("node2"))}
    name, certificate = identify(shown.certificate.pem, found, datetime.now(UTC))
    assert (name, certificate.fingerprint) == ("node2", shown.certificate.fingerprint)
    with pytest.raises(Refused, match="made out to another name"):
        identify(shown.certificate.pem, {NodeName("mallory"): register(shown, 1)}, datetime.now(UTC))


def test_endpoint_on_the_own_machine_is_not_dialed_unless_allowed() -> None:
    async def story() -> None:
        made = Network()
        careful = await made.start("node1", allows_local=False)
        other = await made.start("node2", allows_local=False)
        made.add(careful, other)
        await until(lambda: "is not dialed" in careful.peers.troubles().get(other.name, ""))
        assert other.peers.handshakes_begun == 0
        assert not careful.is_connected("node2")
        await made.stop()

    play(story)


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("169.254.169.254", True),
        ("fe80::1%eth0", True),
        ("0.0.0.0", True),
        ("::", True),
        ("224.0.0.1", True),
        ("ff02::1", True),
        ("10.0.0.1", False),
        ("192.168.1.1", False),
        ("fd00::1", False),
        ("203.0.113.7", False),
        ("2001:db8::1", False),
    ],
)
def test_local_addresses_are_told_from_those_of_networks(address: str, expected: bool) -> None:
    assert is_local(address) is expected


@pytest.mark.parametrize("endpoint", ["localhost:5", "[::1]:5", "127.0.0.1:5", "0.0.0.0:5", "[fe80::1]:5", "x:y"])
def test_endpoint_is_judged_by_its_addresses(endpoint: str) -> None:
    with pytest.raises(Unavailable):
        asyncio.run(require_dialable(NodeName("node2"), endpoint, (), False, 5_000, HostAddresses()))


def test_own_endpoint_is_never_dialed_and_private_networks_are() -> None:
    with pytest.raises(Unavailable, match="is our own"):
        asyncio.run(
            require_dialable(
                NodeName("node2"), "10.0.0.1:5", ("10.0.0.2:5", "10.0.0.1:5"), True, 5_000, HostAddresses()
            )
        )
    asyncio.run(require_dialable(NodeName("node2"), "10.0.0.1:5", ("10.0.0.2:5",), False, 5_000, HostAddresses()))


@pytest.mark.parametrize("port", ["9" * 30, "65536", "-1", "", "5\0", "x"])
def test_port_that_is_none_ends_no_node(port: str) -> None:
    async def story() -> None:
        made = Network()
        made.put({NodeName("mallory"): Registration(f"127.0.0.1:{port}", bytes(32))})
        one, two = await made.start("node1"), await made.start("node2")
        await until(lambda: "cannot be reached" in one.peers.troubles().get(NodeName("mallory"), ""))
        made.add(one, two)
        await one.until_connected("node2")
        await made.stop()

    play(story)


def test_certificate_that_the_library_cannot_read_is_refused_like_any_other() -> None:
    """Its writer may put two extensions of one type in it, which the library has an error of its own for."""
    der = x509.load_pem_x509_certificate(make_identity("mallory").certificate_pem).public_bytes(Encoding.DER)
    usage, names = b"\x06\x03\x55\x1d\x0f", b"\x06\x03\x55\x1d\x11"
    twice = der.replace(usage, names)
    assert twice != der
    with pytest.raises(ValueError, match="must be readable"):
        read_certificate(twice)
    newer = der.replace(b"\xa0\x03\x02\x01\x02", b"\xa0\x03\x02\x01\x07", 1)
    assert newer != der
    with pytest.raises(ValueError, match="must be readable"):
        read_certificate(newer)


def test_shown_certificate_of_a_version_that_the_library_does_not_know_is_nobodys() -> None:
    der = x509.load_pem_x509_certificate(make_identity("node2").certificate_pem).public_bytes(Encoding.DER)
    other = der.replace(b"\xa0\x03\x02\x01\x02", b"\xa0\x03\x02\x01\x63", 1)
    assert other != der
    pem = b"-----BEGIN CERTIFICATE-----\n" + base64.encodebytes(other) + b"-----END CERTIFICATE-----\n"
    with pytest.raises(Refused, match="of no use"):
        identify(pem, {}, datetime.now(UTC))
    assert shown_fingerprint(pem) == "a stranger"
