"""Addresses of parties for clients: asked for once, with a bounded wait for a silent node."""

from __future__ import annotations

import asyncio

import pytest

from rota.model.types import Party, Rejected
from rota.ports import Unavailable
from rota.service.keys import addresses
from rota.service.keys.addresses import ASKED_MAX, SILENT_S, PartyAddresses
from tests.ledger.chains import in_loop

BOB = Party("bob@node2")
CAROL = Party("carol@node2")
DAVE = Party("dave@node3")


class Nodes:
    """Answers for all nodes, and notes what it was asked."""

    def __init__(self) -> None:
        self.asked: list[Party] = []
        self.silent: set[Party] = set()
        self.now_s = 1_000.0
        self.late: dict[Party, str] = {}
        self.addresses = PartyAddresses(self.address_of, self.late.get, lambda: self.now_s)

    async def address_of(self, party: Party) -> str:
        self.asked.append(party)
        if party in self.silent:
            raise Unavailable("no answer")
        if party.startswith("stranger"):
            return ""
        if party.startswith("bad"):
            raise Rejected("keyIdentifier", "no key has such a name")
        return f"address of {party}"


@in_loop
async def test_address_is_asked_for_once() -> None:
    nodes = Nodes()
    for _ in range(2):
        assert await nodes.addresses.of((BOB, DAVE, BOB)) == {BOB: f"address of {BOB}", DAVE: f"address of {DAVE}"}
    assert nodes.asked == [BOB, DAVE]


@in_loop
async def test_strangers_and_names_without_a_key_have_none_and_are_asked_for_again() -> None:
    nodes = Nodes()
    some = (Party("stranger@node2"), Party("bad@node1"))
    for _ in range(2):
        assert await nodes.addresses.of(some) == {}
    assert nodes.asked == [*some, *some]


@in_loop
async def test_silent_node_is_not_waited_for_until_a_while_has_passed() -> None:
    nodes = Nodes()
    nodes.silent = {BOB}
    assert await nodes.addresses.of((BOB, DAVE)) == {DAVE: f"address of {DAVE}"}
    nodes.now_s += SILENT_S - 1
    nodes.silent.clear()
    assert await nodes.addresses.of((BOB, CAROL)) == {}
    assert nodes.asked == [BOB, DAVE]
    nodes.now_s += 1
    assert await nodes.addresses.of((BOB,)) == {BOB: f"address of {BOB}"}


@in_loop
async def test_answer_that_comes_too_late_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(addresses, "WAIT_S", 0)
    asked: list[Party] = []

    async def never(party: Party) -> str:
        asked.append(party)
        await asyncio.get_running_loop().create_future()
        raise AssertionError("nobody answers")

    late: dict[Party, str] = {}
    found = PartyAddresses(never, late.get, lambda: 0.0)
    assert await found.of((BOB,)) == {}
    assert await found.of((CAROL,)) == {}
    late[BOB] = "address of Bob"
    assert await found.of((BOB, CAROL)) == late
    assert asked == [BOB]


@in_loop
async def test_so_many_are_asked_for_at_once() -> None:
    nodes = Nodes()
    many = [Party(f"p{number}@node2") for number in range(ASKED_MAX + 5)]
    assert len(await nodes.addresses.of(many)) == ASKED_MAX
    assert len(await nodes.addresses.of(many)) == ASKED_MAX + 5


@in_loop
async def test_so_many_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(addresses, "KEPT_MAX", 2)
    nodes = Nodes()
    for party in (BOB, CAROL, DAVE):
        assert await nodes.addresses.of((party,)) == {party: f"address of {party}"}
    nodes.silent = {Party(f"x@node{number}") for number in range(4)}
    for party in sorted(nodes.silent):
        assert await nodes.addresses.of((party,)) == {}
    assert len(nodes.addresses._silent_until_s) <= 2
