"""Whom a node asks for states that it lost, beside those whom the core asks."""

from __future__ import annotations

from rota import host
from rota.engine.contracts import KnownContracts
from rota.machine.effects import SendMessage
from rota.model.types import ContractAddress, Leaf, NodeName, Party
from rota.node.events import StatesWanted
from rota.service.contracts.asking_makers import Makers
from rota.wire.messages import STATE_REQUEST_LEAVES_MAX, StateRequest
from tests.domains.kit import known_by

TOKEN, RING, UNKNOWN = (ContractAddress("0x" + digits * 20) for digits in ("11", "22", "33"))
ISSUER = Party("issuer@node1")
NODES = tuple(map(NodeName, ("node1", "node2", "node3")))


def asked(contract: ContractAddress, leaves: int) -> list[SendMessage]:
    """What node4 says, which is connected to three others."""
    contracts = KnownContracts(NodeName("node4"), 1337, host.load_domains(), bytes(32))
    contracts.add(known_by("zeto", {"tokenName": "Zeto_Anon"}, ISSUER, TOKEN))
    contracts.add(known_by("synthetic", {"members": [ISSUER]}, ISSUER, RING))
    said: list[SendMessage] = []
    makers = Makers(contracts, said.append, lambda: (7, 9), lambda: NODES)
    makers.ask(StatesWanted(contract, tuple(Leaf(bytes([number]) * 32) for number in range(leaves))))
    return said


def test_every_connected_peer_is_asked_for_the_coins_that_a_node_lacks() -> None:
    said = asked(TOKEN, 2)
    assert [each.peer for each in said] == ["node2", "node3"], "the issuer is asked by the core"
    assert all(each.envelope.body == StateRequest((Leaf(bytes(32)), Leaf(b"\1" * 32))) for each in said)
    assert {(each.envelope.incarnation, each.envelope.height) for each in said} == {(7, 9)}
    assert len({each.envelope.message_id for each in said}) == 2


def test_no_request_has_more_leaves_than_a_peer_takes() -> None:
    bodies = [each.envelope.body for each in asked(TOKEN, STATE_REQUEST_LEAVES_MAX + 1)]
    sizes = [len(body.leaves) for body in bodies if isinstance(body, StateRequest)]
    assert sizes == [STATE_REQUEST_LEAVES_MAX] * 2 + [1] * 2


def test_contracts_with_members_are_the_core_s_to_ask() -> None:
    assert asked(RING, 2) == asked(UNKNOWN, 2) == []
