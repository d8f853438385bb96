"""Accepted once, paid once: callers that hang up, slow commits, commits without an answer, at real nodes over HTTP.

Every kind of acceptance is put through every fault of its write. An application does what applications do: it waits
for a moment, hangs up and asks again under the same key, until the answer is definite. Then the node is restarted,
and what was asked for is there once and was done once.
"""

from __future__ import annotations

import asyncio
import gc
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import structlog

from rota.engine import accepting
from rota.engine.accepting import Acceptance, Acceptances, settled
from rota.ledger.embedded import Settings
from rota.model.types import IntentId, NodeName, Party, intent_text
from rota.ports import SubmissionKey, Unavailable, WriteInDoubt
from rota.rpc.errors import ErrorCode, OutcomeUnknown, Rejected
from tests.ledger.chains import in_loop
from tests.service.callers import Caller, CallFailed
from tests.service.faults import IN_ONE_LIFE, Fault, Faults, install
from tests.service.kit import CHAIN_ID, Network, network

NODE, OTHER = NodeName("node1"), NodeName("node2")
FREE = Settings(chain_id=CHAIN_ID, base_fee_wei=0, base_fee_is_fixed=True, priority_fee_wei=0)
SHOP = "0x" + "0a" * 20
HANG_UP_S = 0.2
ASKED_MAX = 200


@pytest.fixture
def faults(monkeypatch: pytest.MonkeyPatch) -> Faults:
    return install(monkeypatch)


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
        raise AssertionError(f"no definite answer: {self.errors[-3:]}")


@asynccontextmanager
async def one_node(home: Path, *names: NodeName) -> AsyncIterator[Application]:
    async with network(home, *(names or (NODE,)), chain_settings=FREE) as nodes, aiohttp.ClientSession() as session:
        await nodes.start(*nodes.names)
        yield Application(session, nodes)


async def used_nonces(nodes: Network, caller: Caller) -> int:
    account = await patiently(caller, "ptx_resolveVerifier", "alice", "ecdsa:secp256k1", "eth_address")
    return int(str(await nodes.client.call("eth_getTransactionCount", account, "latest")), 16)


async def patiently(caller: Caller, method: str, *params: object) -> Any:  # noqa: ANN401
    """What a node answers whose database may be away for a moment."""
    while True:
        try:
            return await caller.call(method, *params)
        except CallFailed as failed:
            if failed.code != ErrorCode.INTERNAL:
                raise
            await asyncio.sleep(0.02)


async def all_ended(caller: Caller, count: int) -> list[dict[str, Any]]:
    """The transactions of this node, when each has a receipt."""
    while True:
        sent = await patiently(caller, "ptx_queryTransactions", {"limit": 1_000})
        receipts = await patiently(caller, "ptx_queryTransactionReceipts", {"limit": 1_000})
        if len(sent) >= count and {each["id"] for each in sent} <= {each["id"] for each in receipts}:
            assert all(each["success"] for each in receipts)
            return list(sent)
        await asyncio.sleep(0.02)


every_fault = pytest.mark.parametrize("fault", IN_ONE_LIFE, ids=lambda each: each.name.lower())


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
        assert await application.until_definite("ptx_sendTransaction", wanted) == {
            "transactionId": paid["id"],
            "same": True,
        }
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
        assert again == {"transactionId": sent[0]["id"], "same": True}
        # A key is one, whatever kind has it.
        public = {"type": "public", "from": "alice", "to": SHOP, "data": "0x", "idempotencyKey": "coin"}
        used = await application.until_definite("ptx_sendTransaction", public)
        assert (used["transactionId"], used["same"]) == (sent[0]["id"], False)
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
@every_fault
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
        if fault is Fault.READ_FAILS:
            # Nothing is read behind the commit, so that the answer comes in time.
            await one.call("pgroup_sendMessage", message)
        else:
            await application.hang_up("pgroup_sendMessage", message)
        await faults.are_over()
        while not await patiently(two, "pgroup_queryMessages", {"limit": 10}):
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
async def test_command_that_is_not_settled_is_answered_so_and_happens_once(tmp_path: Path, faults: Faults) -> None:
    async with one_node(tmp_path) as application:
        contract = await application.nodes.create(["alice@node1"])
        application.nodes.processes[NODE].facade.commands.patience_s = 0.1
        transaction = {"type": "private", "to": contract, "function": "mint"}
        command = {"commandId": "pay", "applicationId": "shop", "actAs": ["alice"], "transaction": transaction}
        faults.arm("commands_in_flight", Fault.SLOW)
        with pytest.raises(CallFailed) as unknown:
            await application.caller().call("cmd_submit", {**command, "submissionId": "first"})
        about = unknown.value.data
        assert (about["statusCode"], about["errorId"]) == ("UNKNOWN", "OUTCOME_UNKNOWN")
        assert about["metadata"] == {"submission_id": "first", "definite_answer": "false"}
        await application.until_definite("cmd_submitAndWait", command, 20_000)
        assert len(await all_ended(application.caller(), 2)) == 2


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


# Every reading and writing of an acceptance, with every fault.


class Kind:
    """Something that is accepted: how it is asked for under a key, and how often it was done."""

    def __init__(self, application: Application, contract: str) -> None:
        self.application, self.contract = application, contract

    async def ask(self, key: str) -> Any:  # noqa: ANN401
        raise NotImplementedError

    async def count(self) -> int:
        """Of this node, when all have ended."""
        return len(await all_ended(self.application.caller(), 0))


class PublicKind(Kind):
    async def ask(self, key: str) -> Any:  # noqa: ANN401
        wanted = {"type": "public", "from": "alice", "to": SHOP, "data": "0x", "idempotencyKey": key}
        return await self.application.until_definite("ptx_sendTransaction", wanted)

    async def count(self) -> int:
        return (await super().count()) + await used_nonces(self.application.nodes, self.application.caller()) * 1_000


class PrivateKind(Kind):
    async def ask(self, key: str) -> Any:  # noqa: ANN401
        wanted = {"type": "private", "from": "alice", "to": self.contract, "function": "mint", "idempotencyKey": key}
        return await self.application.until_definite("ptx_sendTransaction", wanted)


class DeploymentKind(Kind):
    async def ask(self, key: str) -> Any:  # noqa: ANN401
        arguments = {"members": ["alice@node1"], "threshold": 0, "mode": "ring"}
        wanted = {"type": "private", "domain": "synthetic", "from": "alice", "data": arguments, "idempotencyKey": key}
        return await self.application.until_definite("ptx_sendTransaction", wanted)


class CommandKind(Kind):
    async def ask(self, key: str) -> Any:  # noqa: ANN401
        transaction = {"type": "private", "to": self.contract, "function": "mint"}
        command = {"commandId": key, "applicationId": "shop", "actAs": ["alice"], "transaction": transaction}
        return await self.application.until_definite("cmd_submitAndWait", command, 20_000)


class UpdateKind(Kind):
    """An update of a public transaction that waits for funds: what is shown and what is to be sent are one write."""

    async def ask(self, key: str) -> Any:  # noqa: ANN401
        wanted = {"type": "public", "from": "poor", "to": SHOP, "value": 5, "data": "0x"}
        answer = await self.application.until_definite("ptx_sendTransaction", {**wanted, "idempotencyKey": key})
        sent = answer if isinstance(answer, str) else answer["transactionId"]
        return await self.application.until_definite("ptx_updateTransaction", sent, {**wanted, "data": "0x01"})

    async def count(self) -> int:
        query = {"limit": 1_000, "eq": [{"field": "type", "value": "public"}]}
        found = await patiently(self.application.caller(), "ptx_queryTransactionsFull", query)
        shown = [(each["data"], each["public"][0]["data"]) for each in found]
        assert set(shown) <= {("0x01", "0x01")}
        return len(shown)


class ListenerKind(Kind):
    async def ask(self, key: str) -> Any:  # noqa: ANN401
        return await self.application.until_definite("ptx_createReceiptListener", {"name": key})

    async def count(self) -> int:
        return len(await patiently(self.application.caller(), "ptx_queryReceiptListeners", {"limit": 1_000}))


KINDS = {
    "public": (PublicKind, 1_001),
    "private": (PrivateKind, 1),
    "deployment": (DeploymentKind, 1),
    "command": (CommandKind, 1),
    "listener": (ListenerKind, 1),
    "update": (UpdateKind, 1),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=pytest.mark.nightly if kind == "command" else ()) for kind in KINDS]
)
def test_every_fault_at_every_moment_of_an_acceptance_leaves_it_done_once(
    tmp_path: Path, faults: Faults, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    struck, moments = asyncio.run(struck_everywhere(tmp_path, faults, *KINDS[kind]))
    assert struck >= moments
    with capsys.disabled():
        print(f"\nacceptance, {kind}: struck {struck} times at {moments} moments")


async def struck_everywhere(home: Path, faults: Faults, kind: type[Kind], each: int) -> tuple[int, int]:
    async with one_node(home) as application:
        nodes = application.nodes
        asked = kind(application, await nodes.create(["alice@node1"]))
        expected = await asked.count()
        faults.arm_at(0, None)
        await asked.ask("calm")
        moments, struck, expected = faults.count, 0, expected + each
        for at in range(1, moments + 1):
            for fault in Fault:
                application.asked = 0
                faults.arm_at(at, fault)
                asking = asyncio.create_task(asked.ask(f"{fault.name}-{at}"))
                crashed = asyncio.create_task(faults.has_crashed.wait())
                await asyncio.wait((asking, crashed), return_when=asyncio.FIRST_COMPLETED)
                if await faults.disarm():
                    asking.cancel()
                    await asyncio.gather(asking, return_exceptions=True)
                    await nodes.kill(NODE)
                    await nodes.start(NODE)
                    await asked.ask(f"{fault.name}-{at}")
                crashed.cancel()
                struck += faults.has_struck.is_set()
                while faults.are_reads_failing:
                    await asyncio.sleep(0.02)
                expected += each
                assert await asked.count() == expected, f"{fault.name} at {at}"
        await nodes.kill(NODE)
        await nodes.start(NODE)
        await asyncio.sleep(0.3)
        assert await asked.count() == expected
        return struck, moments


@pytest.mark.slow
@in_loop
async def test_every_fault_at_every_moment_of_a_group_message_leaves_it_at_most_once_and_its_id_true(
    tmp_path: Path, faults: Faults
) -> None:
    """A message has no key, so that nobody asks again: each is sent once, by a caller that waits for the answer."""
    async with one_node(tmp_path) as application:
        wanted = {"domain": "pente", "members": ["alice@node1"]}
        group = await application.caller().call("pgroup_createGroup", wanted)
        await application.caller().receipt(group["genesisTransaction"])
        faults.arm_at(0, None)
        message = {"domain": "pente", "group": group["id"], "data": {"text": "hello"}}
        await application.caller().call("pgroup_sendMessage", {**message, "topic": "calm"})
        moments, struck = faults.count, 0
        assert moments > 1
        sent: dict[str, str | None] = {}
        for at in range(1, moments + 1):
            for fault in Fault:
                topic = f"{fault.name}-{at}"
                faults.arm_at(at, fault)
                sent[topic] = await _sent(application, faults, {**message, "topic": topic})
                struck += faults.has_struck.is_set()
                while faults.are_reads_failing:
                    await asyncio.sleep(0.02)
        assert struck >= moments
        for _ in range(2):
            found = await patiently(application.caller(), "pgroup_queryMessages", {"limit": 1_000})
            ids = {topic: [each["id"] for each in found if each["topic"] == topic] for topic in sent}
            assert all(len(several) <= 1 for several in ids.values()), ids
            assert all(ids[topic] == [known] for topic, known in sent.items() if known is not None)
            await application.nodes.kill(NODE)
            await application.nodes.start(NODE)


async def _sent(application: Application, faults: Faults, message: dict[str, object]) -> str | None:
    """The id that the node answered with; none if it crashed, or answered that nothing was accepted."""
    sending = asyncio.create_task(application.caller().call("pgroup_sendMessage", message))
    crashed = asyncio.create_task(faults.has_crashed.wait())
    await asyncio.wait((sending, crashed), return_when=asyncio.FIRST_COMPLETED)
    crashed.cancel()
    if await faults.disarm():
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        await application.nodes.kill(NODE)
        await application.nodes.start(NODE)
        return None
    try:
        return str(await sending)
    except CallFailed:
        return None


# The owner of acceptances by itself.


INTENT = IntentId(bytes(16))
KEY = SubmissionKey("key", Party("alice@node1"))


def taking(write: Callable[[], Awaitable[object]], marks: list[str]) -> Callable[[Acceptance], Any]:
    async def work(acceptance: Acceptance) -> IntentId:
        acceptance.begin(INTENT)
        await write()
        marks.append("taken")
        return INTENT

    return work


@in_loop
async def test_key_that_another_party_is_using_keeps_no_held_caller_waiting() -> None:
    acceptances, gate = Acceptances(), asyncio.Event()
    bobs, alices = [SubmissionKey("key", Party(f"{name}@node1"), is_partys=True) for name in ("bob", "alice")]
    waiting = asyncio.create_task(acceptances.accept(taking(gate.wait, []), bobs))
    await asyncio.sleep(0)

    async def at_once() -> None:
        return None

    assert await acceptances.accept(taking(at_once, []), alices) == INTENT
    assert await acceptances.accept(taking(at_once, []), KEY) == INTENT, "of a caller that is not held, for alice"
    free = asyncio.create_task(acceptances.accept(taking(at_once, []), replace(bobs, is_partys=False)))
    await asyncio.sleep(0)
    assert not free.done(), "the same party"
    gate.set()
    with pytest.raises(Rejected, match="PD012220"):
        await free
    await waiting


@in_loop
async def test_an_acceptance_that_has_begun_outlives_its_caller_and_holds_its_key() -> None:
    acceptances, marks, gate = Acceptances(), list[str](), asyncio.Event()
    first = asyncio.create_task(acceptances.accept(taking(gate.wait, marks), KEY))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    assert len(acceptances) == 1
    second = asyncio.create_task(acceptances.accept(taking(gate.wait, marks), KEY))
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

    waiting = asyncio.create_task(acceptances.accept(look_first, KEY))
    await asyncio.sleep(0.01)
    other = asyncio.create_task(acceptances.accept(taking(gate.wait, []), KEY))
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
        await acceptances.accept(taking(refuse, []), KEY)
    with structlog.testing.capture_logs() as logged, pytest.raises(AssertionError):
        await acceptances.accept(taking(fail, []), KEY)
    assert [(each["event"], each["request"]["transactionId"]) for each in logged] == [
        ("submission.failed", intent_text(INTENT))
    ]
    await acceptances.close()
    with pytest.raises(Unavailable, match="stopping"):
        await acceptances.accept(taking(refuse, []), KEY)


def test_node_that_stops_leaves_no_acceptance_that_never_ran() -> None:
    async def work(_: Acceptance) -> None:
        raise AssertionError("it began")

    async def stop_before_it_begins() -> None:
        acceptances = Acceptances()
        asking = asyncio.create_task(acceptances.accept(work))
        await asyncio.sleep(0)
        await acceptances.close()
        with pytest.raises(Unavailable, match="the node is stopping"):
            await asking

    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        asyncio.run(stop_before_it_begins())
        gc.collect()
    assert [str(each.message) for each in warned] == []


@in_loop
async def test_acceptances_under_way_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accepting, "ACCEPTING_MAX", 1)
    acceptances, gate = Acceptances(), asyncio.Event()
    first = asyncio.create_task(acceptances.accept(taking(gate.wait, [])))
    await asyncio.sleep(0.01)
    with pytest.raises(Unavailable, match="being accepted"):
        await acceptances.accept(taking(gate.wait, []))
    acceptances.stop_s = 0.01
    await acceptances.close()
    with pytest.raises(OutcomeUnknown):
        await first
