"""Keys by name, groups, their messages, and states for users; the same on both databases."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rota import host
from rota.chain.effects import BlocksIndexed
from rota.directory.effects import ContractTaken
from rota.domains.queries import Query
from rota.evm.groups import pente
from rota.exchange.effects import StatesReceived
from rota.machine.effects import IntentAccepted
from rota.model.blocks import ChainBlock, LedgerOutcome, LedgerStatus
from rota.model.genesis import decode_genesis, encode_genesis
from rota.model.types import (
    NO_CONTRACT,
    BlockHash,
    ContractAddress,
    Intent,
    KnownContract,
    NodeName,
    Party,
    Rejected,
    State,
    StateId,
)
from rota.node.node import OWN
from rota.ports import PartyNames, StateStatus, StoredKey, StoredMail, StoredMessage
from rota.store.mail import GROUP_MESSAGE
from tests.store.kit import (
    FIRST,
    NODE,
    NOW_MS,
    PEER,
    SECOND,
    Make,
    Opened,
    a_dispatch,
    a_transition,
    an_intent,
    digest,
    in_loop,
    intent_id,
    leaf,
)

ALICE = Party("alice@node1")
ADDRESS = ContractAddress("0x" + "77" * 20)
ALL = Query.parse({})


def where(field: str, value: object) -> Query:
    return Query.parse({"eq": [{"field": field, "value": value}]})


@in_loop
async def test_keys_are_found_by_path_by_address_and_by_their_parents(make: Make) -> None:
    opened = await Opened(await make()).start()
    names = opened.store.key_names
    try:
        assert (await names.at(("bank",)), await names.with_address(ADDRESS)) == ((), None)
        assert await names.next_place("") == 0
        carol = StoredKey("bank.carol", "bank", "carol", 0, ADDRESS, "m/1")
        await names.add((StoredKey("bank", "", "bank", 0), carol))
        assert await names.next_place("") == 1
        branch, found = await names.at(("bank", "bank.carol"))
        assert (branch.address, branch.has_children, found) == (None, True, carol)
        assert await names.with_address(ADDRESS) == carol
        # A branch may become a key; a key stays what it is.
        await names.add((StoredKey("bank", "", "bank", 9, FIRST, "m/2"), replace(carol, address=SECOND)))
        bank, same = await names.find(ALL)
        assert (bank.place, bank.address, same) == (0, FIRST, carol)
        assert await names.find(where("parent", "bank")) == (carol,)
        assert await names.find(where("isKey", False)) == ()
        with pytest.raises(Rejected, match=r"query\.field: must be one of path, parent, name, index"):
            await names.find(where("age", 1))
    finally:
        await opened.store.close()


def a_group(number: int, members: tuple[str, ...] = (ALICE, "bob@node2"), salt: bytes = b"") -> Intent:
    """An intent that deploys a group."""
    arguments = {"members": list(members), "name": f"group {number}", "salt": (salt or bytes([number]) * 32).hex()}
    domain = pente()
    wanted = host.deploy(domain, {**arguments, "properties": {"number": str(number)}}, ALICE)
    genesis = host.genesis_of(domain, wanted, host.ContractDefaults(1), bytes(32))
    return replace(an_intent(number, NO_CONTRACT), payload=encode_genesis(genesis))


def taken(intent: Intent, address: ContractAddress) -> KnownContract:
    """Its contract, as a node takes it in."""
    domain = pente()
    hosted = host.open_genesis({"pente": domain}, decode_genesis(intent.payload), address, bytes(32))
    return KnownContract(hosted.contract, intent.id, (address,) * len(hosted.contract.endorsers), intent.payload)


@in_loop
async def test_a_group_is_there_with_its_intent_and_has_its_contract_when_that_is_taken_in(make: Make) -> None:
    opened = await Opened(await make()).start()
    groups = opened.store.groups
    try:
        intent = a_group(1)
        await opened.write(NO_CONTRACT, IntentAccepted(intent))
        found = await groups.with_id("pente", b"\1" * 32)
        assert found is not None
        assert (found.group.name, found.group.members, found.group.properties) == (
            "group 1",
            (ALICE, "bob@node2"),
            {"number": "1"},
        )
        assert (found.deployment, found.contract, found.created_at_ms) == (intent.id, None, NOW_MS)
        await opened.write(OWN, ContractTaken(taken(intent, ADDRESS)))
        deployed = await groups.with_contract(ADDRESS)
        assert deployed == replace(found, contract=ADDRESS)
        # Somebody else who claims the same id is not believed.
        await opened.write(OWN, ContractTaken(taken(replace(a_group(1, (ALICE,)), id=intent_id(9)), SECOND)))
        assert await groups.with_id("pente", b"\1" * 32) == deployed
        assert await groups.with_id("noto", b"\1" * 32) is None
    finally:
        await opened.store.close()


@in_loop
async def test_groups_are_looked_for_by_fields_and_members(make: Make) -> None:
    opened = await Opened(await make()).start()
    groups = opened.store.groups
    try:
        for number, members in ((1, (ALICE, "bob@node2")), (2, (ALICE,)), (3, ("carol@node3",))):
            await opened.write(NO_CONTRACT, IntentAccepted(a_group(number, members)))
        assert [each.group.name for each in await groups.find(ALL)] == ["group 1", "group 2", "group 3"]
        assert [each.group.name for each in await groups.find(ALL, ALICE)] == ["group 1", "group 2"]
        assert [each.group.name for each in await groups.find(where("name", "group 2"), ALICE)] == ["group 2"]
        assert await groups.find(where("id", "0x" + "03" * 32), ALICE) == ()
        assert len(await groups.find(where("genesisTransaction", intent_id(3).hex()))) == 1
        assert len(await groups.find(Query.parse({"null": [{"field": "contractAddress"}], "limit": 2}))) == 2
    finally:
        await opened.store.close()


def a_message(number: int, node: NodeName = NODE) -> StoredMessage:
    return StoredMessage(bytes([number]) * 16, 0, "pente", b"\1" * 32, node, 5, 6, f"topic {number % 2}", b'{"n":1}')


@in_loop
async def test_messages_have_the_order_of_this_node_and_are_owed_until_they_are_acknowledged(make: Make) -> None:
    opened = await Opened(await make()).start()
    mail = opened.store.mail
    try:
        assert (await mail.latest_sequence(), await mail.open_counts()) == (0, {})
        for number in (1, 2, 3):
            message = a_message(number)
            owed = [
                StoredMail(bytes([number, place]) * 8, peer, GROUP_MESSAGE, FIRST, message.id, NOW_MS)
                for place, peer in enumerate((PEER, NodeName("node3")))
            ]
            await mail.add(message, owed)
            # What is said again changes nothing.
            await mail.add(message, owed)
        assert await mail.open_counts() == {PEER: 3, "node3": 3}
        assert await mail.latest_sequence() == 3
        await mail.acknowledge(PEER, a_message(1).id, 99)
        await mail.acknowledge(PEER, a_message(1).id, 100)
        (first, message_2), (_, message_3) = await mail.open_for(PEER, 10)
        assert (first.reference, message_2) == (a_message(2).id, replace(a_message(2), sequence=2))
        assert message_3 == await mail.message(a_message(3).id)
        assert len(await mail.open_for(NodeName("node3"), 2)) == 2
        assert [each.sequence for each in await mail.messages_after(1, 10)] == [2, 3]
        assert [each.sequence for each in await mail.messages(where("topic", "topic 1"))] == [1, 3]
        done = Query.parse({"null": [{"field": "acknowledged", "not": True}]})
        (acknowledged,) = await mail.sent(done)
        assert (acknowledged.peer, acknowledged.acknowledged_at_ms) == (PEER, 99)
        assert len(await mail.sent(where("node", "node3"))) == 3
    finally:
        await opened.store.close()


@in_loop
async def test_what_the_core_delivers_is_among_what_was_sent(make: Make) -> None:
    opened = await Opened(await make()).start()
    try:
        await opened.write(OWN, a_dispatch(1, 0, (a_transition(1),)))
        (sent,) = await opened.store.mail.sent(where("messageType", "state"))
        assert (sent.peer, sent.reference, sent.created_at_ms, len(sent.id)) == (PEER, digest(1), NOW_MS, 16)
        assert sent.acknowledged_at_ms is None
    finally:
        await opened.store.close()


@in_loop
async def test_states_are_shown_with_who_made_and_who_spent_them(make: Make) -> None:
    opened = await Opened(await make()).start()
    archive = opened.store.archive
    try:
        made, unseen = a_transition(1), a_transition(2)
        spending = LedgerOutcome(intent_id(7), leaf(7), digest(2), LedgerStatus.COMMITTED, inputs=(made.outputs[0].id,))
        outcome = LedgerOutcome(made.intent, made.leaf, digest(1), LedgerStatus.COMMITTED)
        blocks = (
            ChainBlock(1, BlockHash(b"1"), BlockHash(b"0"), 10, ((FIRST, outcome),)),
            ChainBlock(2, BlockHash(b"2"), BlockHash(b"1"), 11, ((FIRST, spending),)),
        )
        await opened.write(FIRST, StatesReceived(digest(1), (made, unseen)))
        await opened.write(OWN, BlocksIndexed(0, blocks))

        async def ids(status: StateStatus) -> list[StateId]:
            return [each.state.id for each in (await archive.page(FIRST, status, None, 10)).states]

        spent, kept = made.outputs[0].id, made.outputs[2].id
        assert await ids(StateStatus.SPENT) == [spent]
        assert await ids(StateStatus.AVAILABLE) == await ids(StateStatus.CONFIRMED) == [kept]
        assert await ids(StateStatus.UNCONFIRMED) == [unseen.outputs[0].id, unseen.outputs[2].id]
        (first,) = (await archive.page(FIRST, StateStatus.SPENT, None, 10)).states
        assert (first.made_by, first.spent_by, first.created_at_ms) == (made.intent, intent_id(7), NOW_MS)
        # Page by page, each once.
        paged: list[StateId] = []
        after: StateId | None = None
        while True:
            page = await archive.page(FIRST, StateStatus.ALL, after, 3)
            paged += [each.state.id for each in page.states]
            after = page.next_after
            if after is None:
                break
        assert paged == await ids(StateStatus.ALL)
        assert len(paged) == 4
        assert await archive.made_by(made.intent) == (made.leaf,)
        assert len(await archive.with_leaves(FIRST, (made.leaf,))) == 2
    finally:
        await opened.store.close()


@in_loop
async def test_what_is_kept_by_hand_is_kept_once_and_apart(make: Make) -> None:
    opened = await Opened(await make()).start()
    archive = opened.store.archive
    try:
        state = State(StateId(leaf(5), 0), b"\1" * 32, (NODE,), b"content")
        await archive.store_by_hand(FIRST, state, 1)
        await archive.store_by_hand(FIRST, state, 2)
        (found,) = await archive.by_hand(FIRST)
        assert (found.state, found.created_at_ms, found.is_committed) == (state, 1, False)
        assert (await archive.page(FIRST, StateStatus.ALL, None, 10)).states == ()
        assert await archive.schemas_seen((b"a", b"b"), 5) == {b"a": 5, b"b": 5}
        assert await archive.schemas_seen((b"a", b"c"), 6) == {b"a": 5, b"c": 6}
    finally:
        await opened.store.close()


@in_loop
async def test_groups_and_messages_are_found_for_parties_by_name_and_by_what_names_begin_with(make: Make) -> None:
    opened = await Opened(await make()).start()
    groups, mail = opened.store.groups, opened.store.mail
    members = {
        1: ("alice@node1", "x@node2"),
        2: ("alice@node2", "Alice@node1"),
        3: ("treasury.ops@node1", "x@node2"),
        4: ("treasury.ops@node2", "treasury@node1"),
        5: ("treasuryxops@node1", "%@node1"),
        6: ("treasury.eu.ops@node1", "alice@node1"),
    }
    try:
        for number, named in members.items():
            await opened.write(NO_CONTRACT, IntentAccepted(a_group(number, tuple(map(Party, named)))))
            await mail.add(replace(a_message(number), group=bytes([number]) * 32), ())
        many = tuple(f"p{number}.*" for number in range(1_000))
        for patterns, found in (
            (("alice",), [1, 6]),
            (("treasury.*",), [3, 6]),
            (("alice", "treasury.eu.*"), [1, 6]),
            (("treasury.eu.*", "treasury"), [4, 6]),
            (("al*", "%", "_lice"), [5]),
            ((*many, "alice"), [1, 6]),
            ((), []),
        ):
            names = PartyNames(patterns, NodeName("node1"))
            assert [each.group.id[0] for each in await groups.find(ALL, among=names)] == found, patterns
            assert [each.group[0] for each in await mail.messages(ALL, names)] == found, patterns
            assert [each for each, named in members.items() if names.has_any(named)] == found, patterns
        alice = PartyNames(("alice",), NodeName("node1"))
        assert [each.group.id[0] for each in await groups.find(ALL, Party("x@node2"), alice)] == [1]
        assert [each.group[0] for each in await mail.messages(where("topic", "topic 0"), alice)] == [6]
    finally:
        await opened.store.close()
