"""States that a member makes up and sends to the others, and that nobody endorsed: they keep nobody from anything."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from rota.domains.available import known_in
from rota.domains.base import History
from rota.domains.contents import Content, seal
from rota.domains.pente.accounts import Accounts
from rota.domains.pente.evm import Message
from rota.domains.pente.records import AccountState
from rota.engine.held_states import HeldStates
from rota.exchange.effects import StatesReceived
from rota.host import learn
from rota.model.consistency import Consistent
from rota.model.digests import leaf_of_transition, state_commitment
from rota.model.types import (
    ContractAddress,
    Digest,
    IntentId,
    Leaf,
    NodeName,
    State,
    StateId,
    Transition,
    address_bytes,
)
from tests.domains.pente.members import ALICE, BOB, CAROL, Members, address_of, playground
from tests.store.kit import Opened, in_loop, new_sqlite

NODES = tuple(NodeName(f"node{n}") for n in (1, 2, 3))
SOME = ContractAddress("0x" + "77" * 20)


def account(address: ContractAddress = SOME, **changes: object) -> AccountState:
    first = AccountState(address, 0, b"", 1, b"\x60\x00", b"")
    return replace(first, **changes)  # type: ignore[arg-type]


def made_up(members: Members, record: AccountState) -> Transition:
    """A transition that agrees with itself and is on no chain: it costs its author nothing."""
    content = seal(Content(record, (), (ALICE, BOB, CAROL), bytes(32)))
    state = State(StateId(Leaf(bytes(32)), 0), state_commitment(content), NODES, content)
    bare = Transition(IntentId(bytes(16)), Leaf(bytes(32)), (), (), (state,), (), 1_000, b"signature")
    leaf = leaf_of_transition(members.hosted.separator, bare)
    return replace(bare, leaf=leaf, outputs=(replace(state, id=StateId(leaf, 0)),))


async def send_to_all(members: Members, transition: Transition, home: Path) -> None:
    """It is in the store of every member, and their domains are told what the store has."""
    for node, hosted in members.nodes.items():
        opened = await Opened(new_sqlite(home / node)).start((hosted.contract,))
        try:
            sent = StatesReceived(Digest(transition.leaf), (Consistent(transition),), 0, NodeName("node3"))
            await opened.write(hosted.contract.address, sent)
            await HeldStates(node, opened.store).of(hosted)
        finally:
            await opened.store.close()


FALSE = {
    "no predecessor": account(number=1),
    "half a predecessor": account(predecessor=b"\1"),
    "half a slot": account(slots=b"\1"),
    "code that comes late": account(number=1, predecessor=bytes(33), code=b"\1"),
    "the address of a party": account(ContractAddress(address_of(BOB))),
    "the address of a contract to come": account(ContractAddress(Members().deployed(BOB, playground(), [0]))),
}


@pytest.mark.parametrize("false", FALSE.values(), ids=FALSE)
def test_made_up_account_that_is_on_no_chain_stops_nothing_in_the_group(tmp_path: Path, false: AccountState) -> None:
    members = Members()
    for node in members.nodes:
        (tmp_path / node).mkdir()
    in_loop(send_to_all)(members, made_up(members, false), tmp_path)
    to = members.deployed(BOB, playground(), [0])
    members.done(BOB, to, playground(), "store", 5)


@pytest.mark.parametrize("false", [FALSE["no predecessor"], FALSE["half a slot"]])
def test_account_that_cannot_be_is_passed_over_whoever_endorsed_it(false: AccountState) -> None:
    members = Members()
    for node, hosted in members.nodes.items():
        learn(hosted, made_up(members, false).outputs, node)
    members.deployed(BOB, playground(), [0])


@pytest.mark.parametrize("false", [FALSE["the address of a party"], FALSE["the address of a contract to come"]])
def test_made_up_account_that_a_coordinator_shows_stops_nothing_afterwards(false: AccountState) -> None:
    members = Members()
    shown = made_up(members, false).outputs[0]
    known = known_in(members.hosted.known, shown)
    assert known is not None
    for hosted in members.nodes.values():
        memory = hosted.memory
        assert isinstance(memory, Accounts)
        heads = {address_bytes(false.address): known}
        memory.run(Message(bytes(20), None, b"", 1_000_000), heads, History(lambda _: None))  # type: ignore[arg-type]
    to = members.deployed(BOB, playground(), [0])
    members.done(BOB, to, playground(), "store", 5)
