"""Accepted once, paid once: callers that hang up, slow commits, commits without an answer, at real nodes over HTTP.

Every kind of acceptance is put through every fault of its write. An application does what applications do: it waits
for a moment, hangs up and asks again under the same key, until the answer is definite. Then the node is restarted,
and what was asked for is there once and was done once.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import structlog

from rota.api.errors import ErrorCode, OutcomeUnknown, Rejected
from rota.ledger.embedded import Settings
from rota.ports import Unavailable, WriteInDoubt
from rota.runtime import accepting
from rota.runtime.accepting import Acceptance, Acceptances, settled
from rota.store import SqliteDatabase
from rota.store.database import Answer, Reading, Statement
from rota.store.database import OutcomeUnknown as CommitUnknown
from rota.types import IntentId, NodeName, intent_text
from tests.ledger.chains import in_loop
from tests.runtime.callers import Caller, CallFailed
from tests.runtime.kit import CHAIN_ID, Network, network

NODE, OTHER = NodeName("node1"), NodeName("node2")
FREE = Settings(chain_id=CHAIN_ID, base_fee_wei=0, base_fee_is_fixed=True, priority_fee_wei=0)
SHOP = "0x" + "0a" * 20
HANG_UP_S = 0.2
COMMIT_S = 0.7
AWAY_S = 0.5
ASKED_MAX = 200


class Fault(Enum):
    """What becomes of a write, and of what follows it."""

    SLOW = "the commit takes longer than callers wait"
    NO_ANSWER = "the commit happens, and nobody can tell"
    NO_ANSWER_AND_LOST = "the commit does not happen, and nobody can tell"
    READ_FAILS = "the commit goes well, and nothing can be read after it"


@dataclass
class Faults:
    """Strikes the next write of rows into this table, once."""

    table: str = ""
    fault: Fault | None = None
    has_struck: asyncio.Event = field(default_factory=asyncio.Event)
    are_reads_failing: bool = False

    def arm(self, table: str, fault: Fault) -> None:
        self.table, self.fault = table, fault

    def take(self, statements: Sequence[Statement]) -> Fault | None:
        if self.fault is None or not any(f"INSERT INTO {self.table} " in each.sql for each in statements):
            return None
        fault, self.fault = self.fault, None
        self.has_struck.set()
        return fault

    def fail_reads(self) -> None:
        self.are_reads_failing = True
        asyncio.get_running_loop().call_later(AWAY_S, self.heal)

    def heal(self) -> None:
        self.are_reads_failing = False

    async def are_over(self) -> None:
        await self.has_struck.wait()
        while self.are_reads_failing:
            await asyncio.sleep(0.02)


class FaultySqlite(SqliteDatabase):
    """A real database with these faults."""

    faults: Faults

    async def write(self, statements: Sequence[Statement], written: int) -> None:
        fault = self.faults.take(statements)
        if fault is Fault.SLOW:
            await asyncio.sleep(COMMIT_S)
        if fault is not Fault.NO_ANSWER_AND_LOST:
            await super().write(statements, written)
        if fault in {Fault.NO_ANSWER, Fault.NO_ANSWER_AND_LOST}:
            self.faults.fail_reads()
            raise CommitUnknown("the answer was lost")
        if fault is Fault.READ_FAILS:
            self.faults.fail_reads()

    async def read(self, reading: Reading[Answer]) -> Answer:
        if self.faults.are_reads_failing:
            raise Unavailable("the database is away")
        return await super().read(reading)


@pytest.fixture
def faults(monkeypatch: pytest.MonkeyPatch) -> Faults:
    made = Faults()
    monkeypatch.setattr(FaultySqlite, "faults", made, raising=False)
    monkeypatch.setattr("rota.runtime.process.SqliteDatabase", FaultySqlite)
    return made


@dataclass
class Application:
    """Waits for a moment, hangs up, and asks again until the answer is definite."""

    session: aiohttp.ClientSession
    nodes: Network
    asked: int = 0
    errors: list[dict[str, Any]] = field(default_factory=list)

    def caller(self, node: NodeName = NODE) -> Caller:
        return Caller(self.session, self.nodes.processes[node].entrance.http_url)

    async def hang_up(self, method: str, *params: object) -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(HANG_UP_S):
                await self.caller().call(method, *params)

    async def until_definite(self, method: str, *params: object) -> Any:  # noqa: ANN401
        while self.asked < ASKED_MAX:
            self.asked += 1
            try:
                async with asyncio.timeout(HANG_UP_S):
                    return await self.caller().call(method, *params)
            except TimeoutError:
                continue
            except CallFailed as failed:
                about = failed.data
                self.errors.append(about)
                metadata = about.get("metadata", {})
                is_lost = failed.code in {ErrorCode.INTERNAL, ErrorCode.OUTCOME_UNKNOWN}
                if not is_lost and metadata.get("definite_answer", "true") == "true":
                    if about.get("statusCode") in {"UNAVAILABLE", "ABORTED"}:
                        await asyncio.sleep(0.02)
                        continue
                    return about or failed
            await asyncio.sleep(0.02)
        raise AssertionError("no definite answer")


@asynccontextmanager
async def one_node(home: Path, *names: NodeName) -> AsyncIterator[Application]:
    async with network(home, *(names or (NODE,)), chain_settings=FREE) as nodes, aiohttp.ClientSession() as session:
        await nodes.start(*nodes.names)
        yield Application(session, nodes)


async def used_nonces(nodes: Network, caller: Caller) -> int:
    account = await caller.call("ptx_resolveVerifier", "alice", "ecdsa:secp256k1", "eth_address")
    return int(str(await nodes.client.call("eth_getTransactionCount", account, "latest")), 16)


async def all_ended(caller: Caller, count: int) -> list[dict[str, Any]]:
    """The transactions of this node, when each has a receipt."""
    while True:
        sent = await caller.call("ptx_queryTransactions", {"limit": 100})
        receipts = [await caller.call("ptx_getTransactionReceipt", each["id"]) for each in sent]
        if len(sent) >= count and all(receipts):
            assert all(each["success"] for each in receipts)
            return list(sent)
        await asyncio.sleep(0.02)


every_fault = pytest.mark.parametrize("fault", list(Fault), ids=lambda each: each.name.lower())


@pytest.mark.slow
@every_fault
@in_loop
async def test_public_transaction_with_one_key_is_paid_once(tmp_path: Path, faults: Faults, fault: Fault) -> None:
    async with one_node(tmp_path) as application:
        nodes = application.nodes
        faults.arm("public_transactions", fault)
        wanted = {"type": "public", "from": "alice", "to": SHOP, "data": "0x", "idempotencyKey": "order 7"}
        await application.until_definite("ptx_sendTransaction", wanted)
        await faults.are_over()
        # Without a restart: what was accepted is sent.
        (paid,) = await all_ended(application.caller(), 1)
        assert await used_nonces(nodes, application.caller()) == 1
        await nodes.kill(NODE)
        await nodes.start(NODE)
        assert await application.until_definite("ptx_sendTransaction", wanted) == {"transactionId": paid["id"]}
        await asyncio.sleep(0.3)
        assert [each["id"] for each in await all_ended(application.caller(), 1)] == [paid["id"]]
        assert await used_nonces(nodes, application.caller()) == 1


@pytest.mark.slow
@every_fault
@in_loop
async def test_private_transaction_and_deployment_with_one_key_happen_once(
    tmp_path: Path, faults: Faults, fault: Fault
) -> None:
    async with one_node(tmp_path) as application:
        nodes = application.nodes
        arguments = {"members": ["alice@node1"], "threshold": 0, "mode": "ring"}
        deployment = {"type": "private", "domain": "synthetic", "from": "alice", "data": arguments}
        faults.arm("intents", fault)
        await application.until_definite("ptx_sendTransaction", {**deployment, "idempotencyKey": "contract"})
        await faults.are_over()
        (made,) = await all_ended(application.caller(), 1)
        receipt = await application.caller().receipt(made["id"])
        mint = {"type": "private", "from": "alice", "to": receipt["contractAddress"], "function": "mint"}
        faults.arm("intents", fault)
        await application.until_definite("ptx_sendTransaction", {**mint, "idempotencyKey": "coin"})
        await faults.are_over()
        sent = await all_ended(application.caller(), 2)
        await nodes.kill(NODE)
        await nodes.start(NODE)
        again = await application.until_definite("ptx_sendTransaction", {**mint, "idempotencyKey": "coin"})
        assert again == {"transactionId": sent[0]["id"]}
        # A key is one, whatever kind has it.
        public = {"type": "public", "from": "alice", "to": SHOP, "data": "0x", "idempotencyKey": "coin"}
        assert await application.until_definite("ptx_sendTransaction", public) == again
        assert await all_ended(application.caller(), 2) == sent
        assert sent[0]["function"].startswith("mint")


@pytest.mark.slow
@every_fault
@pytest.mark.parametrize("table", ["commands_in_flight", "intents", "public_transactions"])
@in_loop
async def test_command_with_one_id_happens_once(tmp_path: Path, faults: Faults, fault: Fault, table: str) -> None:
    async with one_node(tmp_path) as application:
        nodes = application.nodes
        contract = await nodes.create(["alice@node1"])
        transaction = {"type": "private", "to": contract, "function": "mint"}
        if table == "public_transactions":
            transaction = {"type": "public", "to": SHOP, "data": "0x"}
        command = {"commandId": "pay", "applicationId": "shop", "actAs": ["alice"], "transaction": transaction}
        faults.arm(table, fault)
        await application.until_definite("cmd_submitAndWait", command, 20_000)
        await faults.are_over()
        sent = await all_ended(application.caller(), 2)
        assert len(sent) == 2
        await nodes.kill(NODE)
        await nodes.start(NODE)
        again = await application.until_definite("cmd_submitAndWait", command, 20_000)
        assert again["errorId"] == "DUPLICATE_COMMAND"
        assert await all_ended(application.caller(), 2) == sent


@pytest.mark.slow
@pytest.mark.parametrize("fault", [Fault.SLOW, Fault.NO_ANSWER, Fault.NO_ANSWER_AND_LOST], ids=lambda each: each.name)
@in_loop
async def test_group_message_whose_author_hangs_up_is_sent_without_a_restart(
    tmp_path: Path, faults: Faults, fault: Fault
) -> None:
    async with one_node(tmp_path, NODE, OTHER) as application:
        await application.nodes.connected()
        one, two = application.caller(), application.caller(OTHER)
        members = ["alice@node1", "bob@node2"]
        group = await one.call("pgroup_createGroup", {"domain": "pente", "members": members})
        receipt = await one.receipt(group["genesisTransaction"])
        while await two.call("pgroup_getGroupByAddress", receipt["contractAddress"]) is None:
            await asyncio.sleep(0.02)
        faults.arm("group_messages", fault)
        message = {"domain": "pente", "group": group["id"], "topic": "greetings", "data": {"text": "hello"}}
        await application.hang_up("pgroup_sendMessage", message)
        await faults.are_over()
        while not await two.call("pgroup_queryMessages", {"limit": 10}):
            await asyncio.sleep(0.02)
        assert len(await one.call("pgroup_queryMessages", {"limit": 10})) == 1


@pytest.mark.slow
@every_fault
@in_loop
async def test_listener_whose_creator_hangs_up_is_there_once(tmp_path: Path, faults: Faults, fault: Fault) -> None:
    async with one_node(tmp_path) as application:
        faults.arm("listeners", fault)
        answer = await application.until_definite("ptx_createReceiptListener", {"name": "mine"})
        await faults.are_over()
        assert answer is True or answer["field"] == "listener.name"
        assert len(await application.caller().call("ptx_queryReceiptListeners", {"limit": 10})) == 1


@pytest.mark.slow
@in_loop
async def test_caller_who_waits_is_told_the_id_to_ask_with(tmp_path: Path, faults: Faults) -> None:
    async with one_node(tmp_path) as application:
        application.nodes.processes[NODE].running.acceptances.patience_s = 0.1
        faults.arm("public_transactions", Fault.SLOW)
        wanted = {"type": "public", "from": "alice", "to": SHOP, "data": "0x", "idempotencyKey": "order 7"}
        with pytest.raises(CallFailed) as unknown:
            await application.caller().call("ptx_sendTransaction", wanted)
        assert unknown.value.code == ErrorCode.OUTCOME_UNKNOWN
        assert unknown.value.data["definite"] is False
        assert unknown.value.data["idempotencyKey"] == "order 7"
        (paid,) = await all_ended(application.caller(), 1)
        assert unknown.value.data["transactionId"] == paid["id"]


@pytest.mark.slow
@in_loop
async def test_a_stopping_node_settles_what_it_is_accepting(tmp_path: Path, faults: Faults) -> None:
    async with one_node(tmp_path) as application:
        nodes = application.nodes
        faults.arm("public_transactions", Fault.SLOW)
        wanted = {"type": "public", "from": "alice", "to": SHOP, "data": "0x", "idempotencyKey": "order 7"}
        asking = asyncio.create_task(application.caller().call("ptx_sendTransaction", wanted))
        await faults.has_struck.wait()
        await nodes.stop(NODE)
        transaction = await asking
        await nodes.start(NODE)
        (paid,) = await all_ended(application.caller(), 1)
        assert paid["id"] == transaction


# The owner of acceptances by itself.


INTENT = IntentId(bytes(16))


def taking(write: Callable[[], Awaitable[object]], marks: list[str]) -> Callable[[Acceptance], Any]:
    async def work(acceptance: Acceptance) -> IntentId:
        acceptance.begin(INTENT)
        await write()
        marks.append("taken")
        return INTENT

    return work


@in_loop
async def test_an_acceptance_that_has_begun_outlives_its_caller_and_holds_its_key() -> None:
    acceptances, marks, gate = Acceptances(), list[str](), asyncio.Event()
    first = asyncio.create_task(acceptances.accept(taking(gate.wait, marks), "key"))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    assert len(acceptances) == 1
    second = asyncio.create_task(acceptances.accept(taking(gate.wait, marks), "key"))
    await asyncio.sleep(0)
    assert not second.done()
    gate.set()
    with pytest.raises(Rejected, match="PD012220"):
        await second
    assert (marks, len(acceptances)) == (["taken"], 0)


@in_loop
async def test_an_acceptance_that_has_not_begun_ends_with_its_caller() -> None:
    acceptances, gate = Acceptances(), asyncio.Event()

    async def look_first(_: Acceptance) -> None:
        await gate.wait()

    waiting = asyncio.create_task(acceptances.accept(look_first, "key"))
    await asyncio.sleep(0.01)
    other = asyncio.create_task(acceptances.accept(taking(gate.wait, []), "key"))
    await asyncio.sleep(0.01)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    gate.set()
    assert await other == INTENT
    acceptances.patience_s = 0.01
    gate.clear()
    with pytest.raises(Unavailable, match="not accepted within"):
        await acceptances.accept(look_first)
    await asyncio.sleep(0.01)
    assert len(acceptances) == 0


@in_loop
async def test_a_write_in_doubt_is_repeated_until_the_store_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accepting, "RETRY_S", 0.001)
    answers: list[Exception | None] = [WriteInDoubt("lost"), Unavailable("away"), OutcomeUnknown({}), None]

    async def write() -> None:
        answer = answers.pop(0)
        if answer is not None:
            raise answer

    await settled(write)
    assert answers == []
    answers.append(Unavailable("away"))
    with pytest.raises(Unavailable):
        await settled(write)


@in_loop
async def test_a_refusal_frees_the_key_and_an_error_of_ours_is_loud() -> None:
    acceptances = Acceptances()

    async def refuse() -> None:
        raise Unavailable("away")

    async def fail() -> None:
        raise AssertionError("our own fault")

    with pytest.raises(Unavailable):
        await acceptances.accept(taking(refuse, []), "key")
    with structlog.testing.capture_logs() as logged, pytest.raises(AssertionError):
        await acceptances.accept(taking(fail, []), "key")
    assert [(each["event"], each["transactionId"]) for each in logged] == [("acceptance failed", intent_text(INTENT))]
    await acceptances.close()
    with pytest.raises(Unavailable, match="stopping"):
        await acceptances.accept(taking(refuse, []), "key")


@in_loop
async def test_acceptances_under_way_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accepting, "ACCEPTING_MAX", 1)
    acceptances, gate = Acceptances(), asyncio.Event()
    first = asyncio.create_task(acceptances.accept(taking(gate.wait, [])))
    await asyncio.sleep(0.01)
    with pytest.raises(Unavailable, match="being accepted"):
        await acceptances.accept(taking(gate.wait, []))
    monkeypatch.setattr(accepting, "STOP_S", 0.01)
    await acceptances.close()
    with pytest.raises(OutcomeUnknown):
        await first
