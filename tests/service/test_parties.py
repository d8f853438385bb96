"""Callers whose credentials are held to parties: what they may do, and what they see."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, closing
from typing import Any
from uuid import UUID

import pytest

from rota.domains.queries import Query
from rota.model.types import ContractAddress, IntentId, NodeName, Party
from rota.rpc.credentials import EVERY_ROLE, Caller, token_credential
from rota.rpc.errors import Rejected
from rota.rpc.formats import Uuid
from rota.server import commands_pb2
from rota.server.credentials_file import PARTIES_MAX
from rota.server.settings import Settings
from rota.server.table import TABLE
from rota.service.explain.methods import Explained
from rota.service.groups.interface import GroupView, MessageView
from rota.service.interface import FullReceipt, PublicView, ReceiptView, TransactionType
from rota.service.parties import RULES, may_act, require_allowed, without_numbers
from rota.service.receipts.formats import shown_full_receipt
from rota.store.queries import Column, Kind, Table, selection
from tests.server.kit import LOCAL, TRANSFER, UNKNOWN_ID, Served, asynchronous, served
from tests.server.memory_node import CONTRACT, MemoryNode
from tests.server.test_command_inputs import TAKEN, code_of, request_with
from tests.service.test_listeners import CHANGED, Client, receipt

HELD = ("alice", "treasury.*")
SETTINGS = Settings(
    http=LOCAL,
    websocket=LOCAL,
    commands=LOCAL,
    credentials=(
        token_credential("held", EVERY_ROLE, "held", parties=HELD),
        token_credential("free", EVERY_ROLE, "free"),
    ),
)
HELD_HEADER = {"Authorization": "Bearer held"}
FREE_HEADER = {"Authorization": "Bearer free"}
NOT_AUTHORISED = -32_000


@pytest.mark.parametrize(
    ("party", "is_allowed"),
    [
        ("alice", True),
        ("alice@node1", True),
        ("alice@node2", False),
        ("alice2", False),
        ("Alice", False),
        ("", False),
        ("@node1", False),
        ("alice@x@node1", False),
        ("treasury.ops", True),
        ("treasury.ops.eu@node1", True),
        ("treasury", False),
        ("treasury.", False),
        ("treasuryxops", False),
        ("bob", False),
        ("*", False),
    ],
)
def test_parties_are_matched_by_name_and_by_what_they_begin_with(party: str, is_allowed: bool) -> None:
    assert may_act(Caller("x", EVERY_ROLE, parties=HELD), party, NodeName("node1")) is is_allowed


def test_every_rule_is_of_a_method() -> None:
    assert set(RULES) <= set(TABLE)


async def sent_by(to: Served, party: str, header: Mapping[str, str], **more: object) -> Any:  # noqa: ANN401
    return await to.call("ptx_sendTransaction", {**TRANSFER, "from": party, **more}, **header)


@asynchronous
async def test_held_caller_submits_for_its_parties_alone() -> None:
    async with served(settings=SETTINGS) as to:
        for party in ("alice", "alice@node1", "treasury.ops"):
            assert isinstance(await sent_by(to, party, HELD_HEADER), str)
        count = len(to.node.kept)
        for party in ("bob", "alice@node2", "treasury"):
            error = await sent_by(to, party, HELD_HEADER)
            assert (error["code"], party in error["message"]) == (NOT_AUTHORISED, True)
        several = [{**TRANSFER, "from": "alice"}, {**TRANSFER, "from": "bob"}]
        for method in ("ptx_sendTransactions", "ptx_prepareTransactions"):
            assert (await to.call(method, several, **HELD_HEADER))["code"] == NOT_AUTHORISED
        assert len(to.node.kept) == count


@asynchronous
async def test_held_caller_sees_transactions_of_its_parties_alone() -> None:
    async with served(settings=SETTINGS) as to:
        own = await sent_by(to, "alice", FREE_HEADER, idempotencyKey="own")
        other = await sent_by(to, "bob", FREE_HEADER, idempotencyKey="other")
        assert (await to.call("ptx_getTransaction", own, **HELD_HEADER))["id"] == own
        assert await to.call("ptx_getTransactionReceipt", own, **HELD_HEADER) is None
        by_id = [name for name, rule in RULES.items() if rule is RULES["ptx_getTransaction"]]
        assert len(by_id) > 8
        for method in by_id:
            leading = {"ptx_getDomainReceipt": ("noto",), "debug_getTransactionStatus": (CONTRACT,)}.get(method, ())
            refused = [await to.call(method, *leading, each, **HELD_HEADER) for each in (other, UNKNOWN_ID)]
            assert [each["code"] for each in refused] == [NOT_AUTHORISED] * 2
            # Nobody can tell another party's transaction from one that does not exist.
            assert refused[0]["message"].replace(other, "") == refused[1]["message"].replace(UNKNOWN_ID, "")


@asynchronous
async def test_query_of_a_held_caller_is_narrowed_to_its_parties() -> None:
    senders = ("alice@node1", "alicia@node1", "Treasury.x@node1", "treasury.ops@node1", "treasury@node1", "bob@node1")
    held = Caller("held", EVERY_ROLE, parties=HELD)
    for method, field in (
        ("ptx_queryTransactions", "from"),
        ("ptx_queryTransactionsFull", "from"),
        ("ptx_queryPendingTransactions", "from"),
        ("ptx_queryPublicTransactions", "sender"),
        ("ptx_queryPendingPublicTransactions", "sender"),
    ):
        arguments: dict[str, Any] = {"query": {"neq": [{"field": field, "value": "nobody"}]}}
        await require_allowed(TABLE[method], arguments, MemoryNode(), held)
        table = Table("sent", {field: Column("sender", Kind.TEXT)}, "sender")
        # SQLite has no collation of this name; its own order is the same.
        sql, parameters, _ = selection(table, "sender", Query.parse(arguments["query"]))
        with closing(sqlite3.connect(":memory:")) as database:
            database.execute("CREATE TABLE sent (sender TEXT)")
            database.executemany("INSERT INTO sent VALUES (?)", [(each,) for each in senders])
            database.create_collation("C", lambda one, other: (one > other) - (one < other))
            found = [sender for (sender,) in database.execute(sql, parameters)]
        assert found == ["alice@node1", "treasury.ops@node1"]
        with pytest.raises(Rejected, match=r"query\.or"):
            await require_allowed(TABLE[method], {"query": {"or": [{"eq": []}]}}, MemoryNode(), held)


@asynchronous
async def test_query_of_a_caller_that_is_held_to_very_many_parties_is_taken() -> None:
    held = Caller("held", EVERY_ROLE, parties=tuple(f"party{n}" for n in range(PARTIES_MAX)))
    arguments: dict[str, Any] = {"query": {"limit": 1}}
    await require_allowed(TABLE["ptx_queryTransactions"], arguments, MemoryNode(), held)
    query = Query.parse(arguments["query"])
    assert sum(len(each.alternatives) for each in query.alternatives) == PARTIES_MAX


@asynchronous
async def test_query_of_a_caller_that_is_held_to_no_party_finds_nothing() -> None:
    arguments: dict[str, Any] = {"query": {"limit": 1}}
    await require_allowed(TABLE["ptx_queryTransactions"], arguments, MemoryNode(), Caller("x", EVERY_ROLE, parties=()))
    (only,) = Query.parse(arguments["query"]).alternatives
    assert only.alternatives


@asynchronous
async def test_figures_of_the_node_are_not_for_held_callers() -> None:
    async with served(settings=SETTINGS) as to:
        assert (await to.get("/metrics", **HELD_HEADER))[0] == 403
        assert (await to.get("/metrics", **FREE_HEADER))[0] == 200


@asynchronous
async def test_private_call_of_a_held_caller_is_for_its_own_balance_alone() -> None:
    async with served(settings=SETTINGS) as to:
        call = {"type": "private", "to": CONTRACT, "from": "alice", "function": "balanceOf"}
        answer = await to.call("ptx_call", {**call, "data": {"account": "alice"}}, **HELD_HEADER)
        assert not (isinstance(answer, dict) and answer.get("code") == NOT_AUTHORISED)
        for wrong in (
            {"data": {"account": "bob"}},
            {"data": {"account": "alice@node2"}},
            {"data": ["alice"]},
            {"function": "name", "data": {"account": "alice"}},
            {"from": "bob", "data": {"account": "alice"}},
        ):
            assert (await to.call("ptx_call", {**call, **wrong}, **HELD_HEADER))["code"] == NOT_AUTHORISED


class Answers:
    """Answers every question."""

    async def ask(self, *_: object) -> object:
        return "answered"


@asynchronous
async def test_question_of_a_held_caller_is_for_its_own_balance_and_its_own_groups_alone() -> None:
    node = MemoryNode(groups=TwoGroups(), questions=Answers())
    token, own, foreign = "0x" + "09" * 20, "0x" + "01" * 20, "0x" + "02" * 20
    async with served(node, settings=SETTINGS) as to:

        async def answer(*params: object) -> Any:  # noqa: ANN401
            return await to.call("domain_invokeRPC", *params, **HELD_HEADER)

        allowed: tuple[tuple[object, ...], ...] = (
            (token, "noto_balanceOf", {"account": "alice"}),
            (token, "balanceOf", [{"account": "treasury.x", "from": "alice"}]),
            (token, "available", {"method": "balanceOf", "params": {"account": "alice"}}),
            (own, "pente_call", {"to": token}),
        )
        for asked in allowed:
            assert await answer(*asked) == "answered"
        refused: tuple[tuple[object, ...], ...] = (
            (token, "noto_balanceOf", {"account": "bob"}),
            (token, "noto_balanceOf", {"account": "alice", "from": "bob"}),
            (token, "noto_name", {"account": "alice"}),
            (token, "", {"method": "balanceOf", "params": {"account": "bob"}}),
            (token, "balanceOf", ["alice"]),
            (own, "pente_call", {"to": token, "from": "bob"}),
            (foreign, "pente_call", {"to": token}),
        )
        for asked in refused:
            assert (await answer(*asked))["code"] == NOT_AUTHORISED, asked


class TwoGroups:
    """A group of alice's and one of bob's; the second byte of an id is a message's group."""

    async def with_id(self, domain: str, group: bytes) -> GroupView | None:
        member = {1: "alice@node1", 2: "bob@node1"}.get(group[0])
        if member is None:
            return None
        members = (Party(member), Party("alice@node2"))
        return GroupView(group, domain, 0, "", members, {}, {}, bytes(32), IntentId(bytes(16)), ContractAddress("0x"))

    async def with_address(self, contract: ContractAddress) -> GroupView | None:
        return await self.with_id("pente", bytes.fromhex(contract[2:]))

    async def message(self, message: bytes) -> MessageView | None:
        return (
            MessageView(message, 1, 0, 0, NodeName("node2"), "pente", message[:1] * 32, "", {}) if message[0] else None
        )

    async def send_message(self, _: object) -> bytes:
        return bytes(16)

    async def call(self, _: object) -> object:
        return "0x"


@asynchronous
async def test_held_caller_has_the_groups_of_its_parties_alone() -> None:
    node = MemoryNode(groups=TwoGroups(), questions=Answers())
    async with served(node, settings=SETTINGS) as to:

        async def answers(number: int, sender: str) -> list[Any]:
            group, address = "0x" + f"{number:02x}" * 32, "0x" + f"{number:02x}" * 20
            message = {"domain": "pente", "group": group, "topic": "t", "data": {}}
            return [
                await to.call("pgroup_getGroupById", "pente", group, **HELD_HEADER),
                await to.call("pgroup_getGroupByAddress", address, **HELD_HEADER),
                await to.call("pgroup_getMessageById", str(UUID(bytes=bytes([number]) * 16)), **HELD_HEADER),
                await to.call("pgroup_sendMessage", message, **HELD_HEADER),
                await to.call("pgroup_call", {"domain": "pente", "group": group, "from": sender}, **HELD_HEADER),
                await to.call("pgroup_invokeRPC", "pente", group, "call", {"from": sender}, **HELD_HEADER),
                await to.call("pgroup_invokeRPC", "pente", group, "call", **HELD_HEADER),
            ]

        def codes(answered: list[Any]) -> list[object]:
            return [each.get("code") if isinstance(each, dict) else None for each in answered]

        assert codes(await answers(1, "alice")) == [None] * 7
        refused = await answers(2, "bob")
        assert codes(refused) == [NOT_AUTHORISED] * 7
        assert refused[:4] == (await answers(3, "bob"))[:4], "there is no difference to a group that does not exist"
        assert (await answers(2, "alice"))[4] == (await answers(3, "alice"))[4]
        assert codes(await answers(1, "alice@node2"))[4] == NOT_AUTHORISED


@asynchronous
async def test_method_without_a_rule_is_refused_to_held_callers() -> None:
    async with served(settings=SETTINGS) as to:
        for method, *params in (
            ("node_status",),
            ("ptx_queryDispatches", {"limit": 1}),
            ("ptx_queryStoredABIs", {"limit": 1}),
            ("seq_list",),
            ("keymgr_queryKeys", {"limit": 1}),
            ("trigger_list",),
        ):
            error = await to.call(method, *params, **HELD_HEADER)
            assert error["code"] == NOT_AUTHORISED, method
            assert "not for credentials that are held to parties" in error["message"]
        assert await to.call("transport_nodeName", **HELD_HEADER) == "node1"


@asynchronous
async def test_pruning_over_grpc_is_refused_to_held_callers() -> None:
    async with served(settings=SETTINGS) as to:
        path = "/rota.v1.PruningService/Prune"
        request = commands_pb2.PruneRequest(prune_up_to=1).SerializeToString()
        assert await code_of(to, request, path, authorization="Bearer held") == "PERMISSION_DENIED"
        assert await code_of(to, request, path, authorization="Bearer free") == TAKEN


@asynchronous
async def test_held_caller_depends_on_transactions_of_its_parties_alone() -> None:
    async with served(settings=SETTINGS) as to:
        own = await sent_by(to, "treasury.ops", FREE_HEADER)
        other = await sent_by(to, "bob", FREE_HEADER)
        assert isinstance(await sent_by(to, "alice", HELD_HEADER, dependsOn=[own]), str)
        for several in ([other], [own, other.upper()], [UNKNOWN_ID]):
            refused = await sent_by(to, "alice", HELD_HEADER, dependsOn=several)
            text = f"dependsOn: there is no transaction {several[-1].lower()} of your parties"
            assert (refused["code"], refused["message"]) == (NOT_AUTHORISED, text)
            transaction = {"type": "private", "to": CONTRACT, "function": "transfer", "dependsOn": several}
            command = {"commandId": "1", "actAs": ["alice"], "transaction": transaction}
            assert (await to.call("cmd_submit", command, **HELD_HEADER))["code"] == NOT_AUTHORISED
            request = request_with({"depends_on": several})
            assert await code_of(to, request, authorization="Bearer held") == "PERMISSION_DENIED"
            assert await code_of(to, request, authorization="Bearer free") == TAKEN
        assert await code_of(to, request_with({"depends_on": [own]}), authorization="Bearer held") == TAKEN


@asynchronous
async def test_commands_of_a_held_caller_are_for_its_parties_over_both_apis() -> None:
    async with served(settings=SETTINGS) as to:
        transaction = {"type": "private", "to": CONTRACT, "function": "transfer"}
        for parties, is_allowed in (
            ({"act_as": ["alice"]}, True),
            ({"act_as": ["alice", "treasury.x"], "from": "alice"}, True),
            ({"act_as": ["bob"]}, False),
            ({"act_as": ["alice", "bob"], "from": "alice"}, False),
            ({"act_as": ["alice"], "party": "bob", "from": "alice"}, False),
            ({"act_as": ["alice"], "from": "bob"}, False),
            ({"act_as": ["alice"], "read_as": ["bob"]}, False),
        ):
            given = dict(parties)
            sender = given.pop("from", "")
            request = request_with({"data_json": "{}", "from": sender}, **given)
            code = await code_of(to, request, authorization="Bearer held")
            assert code == (TAKEN if is_allowed else "PERMISSION_DENIED"), parties
            command = {
                "commandId": "1",
                "actAs": given.get("act_as"),
                "readAs": given.get("read_as"),
                "party": given.get("party"),
                "transaction": {**transaction, "from": sender},
            }
            error = await to.call("cmd_submit", command, **HELD_HEADER)
            assert error["code"] == (-32_002 if is_allowed else NOT_AUTHORISED), parties
        stream = "/rota.v1.CommandCompletionService/CompletionStream"
        for party, expected in (("alice", TAKEN), ("bob", "PERMISSION_DENIED")):
            request = commands_pb2.CompletionStreamRequest(parties=[party]).SerializeToString()
            assert await code_of(to, request, stream, authorization="Bearer held") == expected


@asynchronous
async def test_keys_of_a_held_caller_are_those_of_its_parties() -> None:
    async with served(settings=SETTINGS) as to:
        assert (await to.call("keymgr_resolveEthAddress", "bob", **HELD_HEADER))["code"] == NOT_AUTHORISED
        error = await to.call("keymgr_resolveKey", "bob", "ecdsa:secp256k1", "eth_address", **HELD_HEADER)
        assert error["code"] == NOT_AUTHORISED
        signed = ("bob", "ecdsa:secp256k1", "eth_address", "opaque:rsv", "0x" + "11" * 32)
        assert (await to.call("keymgr_sign", *signed, **HELD_HEADER))["code"] == NOT_AUTHORISED


@asynchronous
async def test_numbers_of_the_nodes_own_order_are_hidden_from_held_callers() -> None:
    async with served(settings=SETTINGS) as to:
        own = await sent_by(to, "alice", FREE_HEADER)
        to.node.confirm(IntentId(UUID(own).bytes))
        for method, *params in (
            ("ptx_getTransactionReceipt", own),
            ("ptx_getTransactionReceiptFull", own),
            ("ptx_queryTransactionReceipts", {"limit": 1}),
            ("ptx_getTransactionFull", own),
        ):
            free, held = [await to.call(method, *params, **each) for each in (FREE_HEADER, HELD_HEADER)]
            shown = [each[0] if isinstance(each, list) else each for each in (free, held)]
            assert [each.get("receipt", each)["sequence"] for each in shown] == [7, 0]
            public = [[each["localId"] for each in one.get("public", ())] for one in shown]
            assert public[1] == [0] * len(public[0])
            numbered = {"sequence": 0, "receipt": 0, "public": 0}
            assert {**shown[0], **numbered} == {**shown[1], **numbered}
        # Nor can they be found by asking whether one is greater than another.
        for method, field in (
            ("ptx_queryTransactionReceipts", "sequence"),
            ("ptx_queryTransactions", "sequence"),
            ("ptx_queryPreparedTransactions", "sequence"),
            ("pgroup_queryMessages", "localSequence"),
        ):
            for query in ({"gt": [{"field": field, "value": 3}]}, {"null": [{"field": field}]}):
                error = await to.call(method, {**query, "limit": 1}, **HELD_HEADER)
                assert (error["code"], field in error["message"]) == (NOT_AUTHORISED, True)
        nested = {"or": [{"or": [{"lt": [{"field": "localSequence", "value": 3}]}]}]}
        assert (await to.call("pgroup_queryMessages", nested, **HELD_HEADER))["code"] == NOT_AUTHORISED


def test_numbers_of_base_ledger_transactions_are_hidden_from_held_callers() -> None:
    view = PublicView(
        14, IntentId(bytes(16)), TransactionType.PUBLIC, "alice@node1", ContractAddress(CONTRACT), None, b"", 0, "node1"
    )
    full = shown_full_receipt(FullReceipt(ReceiptView(IntentId(bytes(16)), True, 1, 7), public=(view,)))
    hidden: Any = without_numbers(full)
    assert (full.sequence, full.public[0].local_id) == (7, 14)
    assert (hidden.sequence, hidden.public[0].local_id) == (0, 0)


@asynchronous
async def test_explanation_names_no_transaction_of_other_parties_to_held_callers() -> None:
    held, node = Caller("held", EVERY_ROLE, parties=HELD), MemoryNode()
    async with served(node, settings=SETTINGS) as to:
        first = await sent_by(to, "alice", FREE_HEADER)
        own = await sent_by(to, "alice", FREE_HEADER, dependsOn=[first])
    narrow = await require_allowed(TABLE["seq_explain"], {"transaction_id": Uuid(own)}, node, held)
    assert narrow is not None
    waits_for = f"the assembly of {UNKNOWN_ID}, {first}"
    shown = narrow(Explained(Uuid(own), "coordinator", "pooled", waits_for, [], [], detail=f"{own} and {UNKNOWN_ID}"))
    assert isinstance(shown, Explained)
    assert shown.waits_for == f"the assembly of another transaction, {first}"
    assert shown.detail == f"{own} and another transaction"
    assert narrow(None) is None


@asynchronous
async def test_idempotency_key_of_another_party_looks_unused_to_held_callers() -> None:
    async with served(settings=SETTINGS) as to:
        own = await sent_by(to, "alice", FREE_HEADER, idempotencyKey="own")
        await sent_by(to, "bob", FREE_HEADER, idempotencyKey="other")
        found = [
            await to.call("ptx_getTransactionByIdempotencyKey", key, **HELD_HEADER) for key in ("own", "other", "none")
        ]
        assert [each and each["id"] for each in found] == [own, None, None]


@asynchronous
async def test_dependants_of_other_parties_are_hidden_from_held_callers() -> None:
    async with served(settings=SETTINGS) as to:
        first = await sent_by(to, "alice", FREE_HEADER)
        own = await sent_by(to, "treasury.ops", FREE_HEADER, dependsOn=[first])
        other = await sent_by(to, "bob", FREE_HEADER, dependsOn=[first])
        free, held = [
            await to.call("ptx_getTransactionDependencies", first, **each) for each in (FREE_HEADER, HELD_HEADER)
        ]
        assert sorted(free["prereqOf"]) == sorted([own, other])
        assert held["prereqOf"] == [own]


@asynchronous
async def test_held_caller_creates_groups_of_its_own_parties_alone() -> None:
    held = Caller("held", EVERY_ROLE, parties=HELD)
    create = TABLE["pgroup_createGroup"]

    def spec(*members: str) -> dict[str, Any]:
        return create.read(json.dumps([{"domain": "pente", "members": members}]).encode())

    for members in (("alice", "bob@node2"), ("alice@node1", "treasury.x"), ("eve@node2",)):
        assert await require_allowed(create, spec(*members), MemoryNode(), held) is None
    for members in (("alice", "bob"), ("bob@node1", "alice"), ("bob",)):
        with pytest.raises(Rejected, match="your credentials are not for the party 'bob"):
            await require_allowed(create, spec(*members), MemoryNode(), held)


@asynchronous
async def test_held_caller_deploys_no_group_with_other_parties_of_the_node() -> None:
    async with served(settings=SETTINGS) as to:
        deployment = {"type": "private", "domain": "pente", "from": "alice"}
        taken: tuple[Any, ...] = ({"members": ["alice", "bob@node2"]}, {"name": "token", "notary": "alice"}, None)
        for data in taken:
            assert isinstance(await to.call("ptx_sendTransaction", {**deployment, "data": data}, **HELD_HEADER), str)
        for data in ({"members": ["alice", "bob"]}, {"members": ["bob@node1"]}, [["alice", "bob"]], "0x00"):
            refused = await to.call("ptx_sendTransaction", {**deployment, "data": data}, **HELD_HEADER)
            assert refused["code"] == NOT_AUTHORISED, data


class Noted:
    """Notes with which parties it was asked."""

    def __init__(self) -> None:
        self.parties: list[object] = []

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  # any method
        async def asked(*arguments: object, **named: object) -> tuple[()]:
            self.parties.append(named.get("parties", arguments[-1]))
            return ()

        return asked


@asynchronous
async def test_states_groups_and_messages_are_asked_for_with_the_parties_of_a_held_caller() -> None:
    states, groups = Noted(), Noted()
    async with served(MemoryNode(states=states, groups=groups), settings=SETTINGS) as to:
        contract, schema = "0x" + "11" * 20, "0x" + "22" * 32
        for header in (HELD_HEADER, FREE_HEADER):
            for family in ("States", "Nullifiers"):
                assert await to.call(f"pstate_query{family}", "noto", schema, {}, "all", **header) == []
                found = await to.call(f"pstate_queryContract{family}", "noto", contract, schema, {}, "all", **header)
                assert found == []
            assert await to.call("pgroup_queryGroups", {}, **header) == []
            assert await to.call("pgroup_queryMessages", {}, **header) == []
        assert states.parties == [HELD] * 4 + [None] * 4
        assert groups.parties == [HELD] * 2 + [None] * 2


@asynchronous
async def test_held_caller_has_listeners_of_its_own_over_websockets() -> None:
    async with served(settings=SETTINGS) as to, connected_as(to, "free") as free, connected_as(to, "held") as held:
        await free.call("ptx_createReceiptListener", {"name": "theirs"})
        await free.call("ptx_createBlockchainEventListener", {"name": "theirs", "sources": [{"abi": [CHANGED]}]})
        assert await held.call("ptx_createReceiptListener", {"name": "inbox"}) is True
        events = {"name": "theirs", "sources": [{"abi": [CHANGED]}]}
        assert await held.call("ptx_createBlockchainEventListener", events) is True
        assert [each["name"] for each in await held.call("ptx_queryReceiptListeners", {})] == ["inbox"]
        assert [each["name"] for each in await free.call("ptx_queryReceiptListeners", {})] == ["held/inbox", "theirs"]
        for method in ("ptx_startReceiptListener", "ptx_stopReceiptListener", "ptx_deleteReceiptListener"):
            answers = [await held.call(method, name) for name in ("theirs", "none")]
            assert answers[0]["message"].replace("theirs", "none") == answers[1]["message"]
        assert await held.call("ptx_getReceiptListener", "theirs") is None
        assert (await held.call("ptx_subscribe", "receipts", "theirs"))["code"] == -32_602
        assert await held.call("ptx_getBlockchainEventListenerStatus", "none") is None
        assert (await held.call("ptx_getBlockchainEventListenerStatus", "theirs"))["catchup"] is False
        stored = to.node.listening.kept["receipts", "held/inbox"]
        assert json.loads(stored.definition)["parties"] == list(HELD)
        subscription = await held.call("ptx_subscribe", "receipts", "inbox")
        to.node.ended.put(receipt(1))
        assert await held.sequences() == [1]
        await held.acknowledge(subscription)
        assert await held.call("ptx_unsubscribe", subscription) is True
        assert await held.call("ptx_deleteReceiptListener", "inbox") is True
        assert [each["name"] for each in await free.call("ptx_queryReceiptListeners", {})] == ["theirs"]


@asynchronous
async def test_feed_of_a_held_caller_has_the_transactions_that_it_follows_alone() -> None:
    async with served(settings=SETTINGS) as to:
        own = await sent_by(to, "alice", FREE_HEADER)
        other = await sent_by(to, "bob", FREE_HEADER)
        async with connected_as(to, "held") as held:
            subscription = await held.call("seq_subscribe")
            first = json.loads(await held.socket.receive_str())["params"]["result"]
            assert (first["number"], first["contracts"], first["transactions"], first["counts"]) == (1, [], [], {})
            for ids in ([other], [own, other], [UNKNOWN_ID]):
                assert (await held.call("seq_follow", subscription, ids))["code"] == NOT_AUTHORISED
            # Of what others do it is sent no update, so that it cannot count them.
            to.node.moved.set()
            assert await held.is_silent()
            assert await held.call("seq_follow", subscription, [own]) is True
            to.node.moved.set()
            update = json.loads(await held.socket.receive_str())["params"]["result"]
            assert (update["number"], [each["id"] for each in update["transactions"]]) == (2, [own])
            assert await held.call("seq_unsubscribe", subscription) is True


@asynccontextmanager
async def connected_as(to: Served, token: str) -> AsyncIterator[Client]:
    headers = {"Authorization": f"Bearer {token}"}
    async with to.session.ws_connect(to.entrance.websocket_url, headers=headers) as socket:
        yield Client(socket)
