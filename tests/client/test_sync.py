"""The face without `await`: the same words as the other one, and the same answers from real nodes."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from rota.client import Client, ClientLimits, Closed, Failed, Journal, Outcome, SyncClient, sync
from rota.client.commands import Commands
from rota.client.feeds import Feed
from rota.client.groups import Group, GroupContract, Groups
from rota.client.ledger import Ledger, PublicContract
from rota.client.settlements import Draft, Settlements
from rota.client.tokens import Token, Tokens
from rota.client.transactions import Transaction
from rota.client.triggers import Triggers
from rota.ledger.artifacts import load_artifact
from tests.server.three_nodes import ThreeNodes, three_nodes, until

FACES = [
    (Client, SyncClient),
    (Commands, sync.SyncCommands),
    (Draft, sync.SyncDraft),
    (Feed, sync.SyncFeed),
    (Group, sync.SyncGroup),
    (GroupContract, sync.SyncGroupContract),
    (Groups, sync.SyncGroups),
    (Ledger, sync.SyncLedger),
    (PublicContract, sync.SyncPublicContract),
    (Settlements, sync.SyncSettlements),
    (Token, sync.SyncToken),
    (Tokens, sync.SyncTokens),
    (Transaction, sync.SyncTransaction),
    (Triggers, sync.SyncTriggers),
]
# What only one face has: sockets of an event loop, and what the methods that both have are made of.
ASYNC_ONLY = {"accepted", "connect", "disconnect", "looked_for", "aclose"}
SYNC_ONLY = {(sync.SyncFeed, "close")}


def attributes(face: type, instance: object) -> set[str]:
    """What users see of it: names of the class, and what an instance is given at its beginning."""
    found = {name for name in (*dir(face), *getattr(instance, "__dict__", ())) if not name.startswith("_")}
    return found - ASYNC_ONLY - {name for owner, name in SYNC_ONLY if owner is face}


def made(face: type) -> object:
    """An object of the asynchronous face, for the names that only its instances have."""
    node = Client("http://127.0.0.1:1")
    if face is Client:
        return node
    if face is Feed:
        return node.receipts("mine")
    parameters = [
        each for each in inspect.signature(face).parameters.values() if each.kind is each.POSITIONAL_OR_KEYWORD
    ]
    return face(node, *[()] * (len(parameters) - 1)) if face is not Commands else None


@pytest.mark.parametrize(("asynchronous", "synchronous"), FACES, ids=lambda face: str(face.__name__))
def test_both_faces_have_the_same_words(asynchronous: type, synchronous: type) -> None:
    there, here = attributes(asynchronous, made(asynchronous)), attributes(synchronous, None)
    assert here == there
    for name in there:
        asked, answered = getattr(asynchronous, name, None), getattr(synchronous, name)
        if inspect.isfunction(asked) and name != "close":
            assert inspect.signature(answered).parameters == inspect.signature(asked).parameters


def test_every_class_of_this_face_is_held_against_one_of_the_other() -> None:
    faces = {each for each in vars(sync).values() if inspect.isclass(each) and issubclass(each, sync.Facing)}
    assert faces - {sync.Facing} == {synchronous for _, synchronous in FACES}


def test_both_clients_are_made_alike_but_for_what_belongs_to_an_event_loop() -> None:
    there = dict(inspect.signature(Client).parameters)
    del there["connector"]
    assert dict(inspect.signature(SyncClient).parameters) == there


def test_a_client_that_was_closed_does_nothing_more_and_leaves_no_thread() -> None:
    before = threading.active_count()
    with SyncClient("http://127.0.0.1:1", ClientLimits(attempts_max=1)) as client:
        assert threading.active_count() == before + 1
    client.close()
    assert threading.active_count() == before
    with pytest.raises(Closed):
        client.name()


@pytest.fixture(scope="module")
def to(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreeNodes]:
    home: Path = tmp_path_factory.mktemp("sync")
    with three_nodes(home) as running:
        yield running


@pytest.mark.slow
def test_a_script_issues_a_token_and_follows_its_receipts(to: ThreeNodes, tmp_path: Path) -> None:
    with (
        SyncClient(to.node1.url, sender="bank", payees="any") as bank,
        SyncClient(to.node2.url, sender="alice") as alice,
    ):
        token = bank.tokens.deploy(name="Coin", symbol="C", notary="bank@node1")
        minted = token.mint("alice@node2", 10)
        assert minted.confirmed().success
        hers = alice.tokens.at(token.address)
        until(lambda: hers.balance_of("alice@node2").total_balance == 10)
        with pytest.raises(Failed, match="Insufficient funds"):
            hers.transfer("bank@node1", 11).confirmed()
        several = bank.send_all(token.address, [("mint", {"to": "bank@node1", "amount": 1, "data": "0x"})] * 5)
        wanted = {minted.id, *(each.id for each in several)}
        with bank.receipts("script") as feed:
            for receipt in feed:
                wanted.discard(receipt.id)
                if not wanted:
                    break
        with Journal(tmp_path / "journal") as journal:
            commands = bank.commands(journal, application_id="script")
            transfer = {"to": "alice@node2", "amount": 1, "data": "0x"}
            command = {"type": "private", "from": "bank", "to": token.address, "function": "transfer", "data": transfer}
            verdict = commands.exactly_once("one", command)
            assert (verdict.outcome, commands.resume()) == (Outcome.SUCCEEDED, [])
        status = bank.status(token.address)
        assert status is not None
        assert status.domain == "noto"


@pytest.mark.slow
def test_a_script_uses_a_group_and_its_private_contract(to: ThreeNodes) -> None:
    shares = load_artifact("PrivateToken")
    with SyncClient(to.node1.url, sender="alice") as alice, SyncClient(to.node2.url, sender="bob") as bob:
        group = alice.groups.create(members=["alice@node1", "bob@node2"], name="desk")
        token = group.deploy(shares.abi, "0x" + shares.bytecode.hex(), ["Shares", "S"])
        address = alice.address_of("bob@node2")
        token.send("mint", [address, 50]).confirmed()
        theirs = bob.groups.get(group.id)
        assert theirs is not None
        assert [each.id for each in bob.groups.find(name="desk")] == [theirs.id]
        contract = theirs.contract(token.address, shares.abi)
        until(lambda: contract.call("balanceOf", [address]) == {"balance": "50"})
        group.send_message("news", "hello")
        mail = bob.messages("mail", topic="news")
        assert next(mail).data == "hello"
        mail.close()
        assert list(mail) == []
