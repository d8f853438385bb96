"""`rota tx` and what all commands share that ask a node, at a node in memory behind the real entrance."""

from __future__ import annotations

import asyncio
import json
import signal
from asyncio.subprocess import PIPE
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

import pytest
from click import Command, Context
from click.exceptions import Exit
from click.testing import Result

from rota.cli.asking import LIMITS, NotDone, tell
from rota.cli.sending import tell_end
from rota.cli.timeline import moments, passed, time_of
from rota.client.answers import HistoryLine, TransactionReceipt
from rota.model.types import AwaitedLeaf, ContractAddress, IntentId, Leaf, Party
from rota.ports import Unavailable
from rota.rpc.credentials import Role, make_token
from rota.server.settings import Settings
from rota.service.interface import AsideView, ReceiptView
from tests.cli.kit import ROTA, rota
from tests.server.kit import LOCAL, TRANSFER, UNKNOWN_ID, Served, asynchronous, served
from tests.server.memory_node import CONTRACT, MemoryNode

LOOK_S = 0.01
UNUSED = "http://127.0.0.1:1"
SEND = ("tx", "send", "--from", "alice", "--to", CONTRACT, "--function", "transfer", "--data", '{"amount": 5}')


async def typed(to: Served, *arguments: object, **environment: str) -> Result:
    """A command, as somebody types it who has said once where the node is."""
    return await asyncio.to_thread(lambda: rota(*arguments, ROTA_NODE=to.entrance.http_url, **environment))


async def accepted(to: Served) -> str:
    return str(await to.call("ptx_sendTransaction", TRANSFER))


def intent(text: str) -> IntentId:
    return IntentId(UUID(text).bytes)


async def meanwhile(to: Served, happens: Callable[[IntentId], Awaitable[None]]) -> None:
    """As soon as a transaction is there."""
    while not to.node.kept:
        await asyncio.sleep(0)
    await happens(next(iter(to.node.kept)))


# Sending.


@asynchronous
async def test_a_transaction_is_sent_and_its_end_waited_for() -> None:
    async with served() as to:

        async def confirm(sent: IntentId) -> None:
            to.node.confirm(sent)

        result, _ = await asyncio.gather(typed(to, *SEND, "--key", "invoice 7"), meanwhile(to, confirm))
        (sent,) = to.node.kept.values()
        assert (result.exit_code, result.stderr) == (0, "")
        assert result.stdout == f"confirmed: {UUID(bytes=sent.view.id)}, block 12, contract {CONTRACT}\n"
        assert (sent.view.sender, sent.view.function, sent.view.data) == ("alice@node1", "transfer", {"amount": 5})
        again = await typed(to, *SEND, "--key", "invoice 7", "--json")
        receipt = json.loads(again.stdout)
        assert (receipt["id"], receipt["success"], receipt["blockNumber"]) == (str(UUID(bytes=sent.view.id)), True, 12)
        assert len(to.node.kept) == 1


@asynchronous
async def test_without_waiting_the_id_is_printed() -> None:
    async with served() as to:
        first, second = await typed(to, *SEND, "--no-wait"), await typed(to, *SEND, "--no-wait", "--json")
        ids = [str(UUID(bytes=each)) for each in to.node.kept]
        assert [first.stdout.strip(), json.loads(second.stdout)["id"]] == ids


def test_reason_of_a_contract_writes_no_control_sequence_to_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """It could erase the line that it stands in, and write that the transaction is confirmed."""
    reason = "\x1b[2K\x1b[1A\rconfirmed: it\nconfirmed: it\x9b2K"
    receipt = TransactionReceipt("an id", 1, failure_message=reason)
    with Context(Command("send")), pytest.raises(Exit):
        tell_end(receipt, as_json=False)
    tell(False, {}, lambda: f"Reason  {reason}")
    NotDone(f"failed: {reason}").show()
    written = capsys.readouterr()
    assert [each for each in written.out + written.err if not each.isprintable() and each != "\n"] == []
    assert written.err.count("\n") == 2, "a reason begins no line of its own"


@asynchronous
async def test_a_transaction_that_did_not_happen_ends_with_1_and_its_reason() -> None:
    async with served() as to:
        result, _ = await asyncio.gather(typed(to, *SEND), meanwhile(to, to.node.cancel))
        assert (result.exit_code, result.stdout) == (1, "")
        assert result.stderr.endswith(": cancelled\n")


@asynchronous
async def test_one_that_has_not_ended_in_time_ends_with_3_and_says_how_to_go_on() -> None:
    async with served() as to:
        result = await typed(to, *SEND, "--within", "0.05")
        (sent,) = to.node.kept
        assert result.exit_code == 3
        assert "has not ended after 50 ms" in result.stderr
        assert result.stderr.endswith(f"rota tx watch {UUID(bytes=sent)}\n")


@asynchronous
async def test_whoever_stops_waiting_is_told_that_it_goes_on() -> None:
    async with served() as to:
        command = (*ROTA, *SEND, "--node", to.entrance.http_url)
        process = await asyncio.create_subprocess_exec(*command, stdout=PIPE, stderr=PIPE)
        try:
            while not to.node.kept:
                await asyncio.sleep(LOOK_S)
            (sent,) = to.node.kept
            # It has asked for the end: from then on it waits.
            to.node.holding = asyncio.Event()
            while not to.node.waiting_count:
                await asyncio.sleep(LOOK_S)
            process.send_signal(signal.SIGINT)
            _, told = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
            to.node.holding = None
        assert process.returncode == 130
        first, second = told.decode().splitlines()
        assert first == f"{UUID(bytes=sent)} goes on. Follow it with: rota tx watch {UUID(bytes=sent)}"
        assert second == "Interrupted: stopped by Ctrl-C."


@asynchronous
async def test_what_the_node_refuses_is_told_with_its_field() -> None:
    async with served() as to:
        result = await typed(to, "tx", "send", "--from", "carol@elsewhere", "--to", CONTRACT, "--function", "transfer")
        assert (result.exit_code, result.stdout) == (1, "")
        assert result.stderr == f"Error: {to.entrance.http_url}: transaction.from: must be a party of node1\n"


@asynchronous
async def test_transaction_is_sent_with_what_it_depends_on_here_and_elsewhere() -> None:
    async with served() as to:
        first = await accepted(to)
        leaf = "0x" + "11" * 32
        elsewhere = ("--depends-on-leaf", CONTRACT, first, leaf)
        result = await typed(to, *SEND, "--depends-on", first, *elsewhere, "--no-wait", "--json")
        assert result.exit_code == 0
        view = to.node.kept[intent(json.loads(result.stdout)["id"])].view
        assert view.depends_on == (intent(first),)
        assert view.awaits == (AwaitedLeaf(ContractAddress(CONTRACT), intent(first), Leaf(bytes.fromhex(leaf[2:]))),)


# Looking.


@asynchronous
async def test_a_transaction_is_shown_with_how_it_ended() -> None:
    async with served() as to:
        sent = await accepted(to)
        assert "State        pending\n" in (await typed(to, "tx", "show", sent)).stdout
        to.node.confirm(intent(sent))
        shown = (await typed(to, "tx", "show", sent)).stdout
        for line in (f"Transaction  {sent}", "From         alice@node1", "State        confirmed", "Block        12"):
            assert f"{line}\n" in shown
        assert json.loads((await typed(to, "tx", "show", sent, "--json")).stdout)["receipt"]["success"] is True


@asynchronous
async def test_an_explanation_says_what_is_waited_for_since_when_and_who_is_in_the_way() -> None:
    async with served() as to:
        sent = await accepted(to)
        told = (await typed(to, "tx", "explain", sent)).stdout
        assert "Waits for    its delegation to be accepted\n" in told
        assert "Blocked by   node2\n" in told
        assert " ago\n" in told
        assert told.endswith("+0.000 s  accepted\n")
        explained = json.loads((await typed(to, "tx", "explain", sent, "--json")).stdout)
        assert (explained["blockedBy"], explained["history"][0]["text"]) == (["node2"], "accepted")


@asynchronous
async def test_transactions_are_listed() -> None:
    async with served() as to:
        assert (await typed(to, "tx", "list")).stdout == "There is none.\n"
        first, second = await accepted(to), await accepted(to)
        to.node.confirm(intent(first))
        listed = (await typed(to, "tx", "list")).stdout.splitlines()
        assert [line.split()[0] for line in listed] == ["id", first, second]
        assert ("confirmed" in listed[1], "pending" in listed[2]) == (True, True)
        # No terminal: nothing is cut.
        assert all(line.endswith(CONTRACT) for line in listed[1:])
        pending = json.loads((await typed(to, "tx", "list", "--pending", "--json")).stdout)
        assert [each["id"] for each in pending] == [second]


@asynchronous
async def test_a_transaction_is_cancelled_and_one_that_is_not_parked_is_not_resumed() -> None:
    async with served() as to:
        sent = await accepted(to)
        refused = await typed(to, "tx", "resume", sent)
        assert refused.exit_code == 1
        assert refused.stderr.endswith("transactionId: is Pending, not Parked\n")
        to.node.kept[intent(sent)].state = "Parked"
        assert (await typed(to, "tx", "resume", sent)).stdout == f"{sent} goes on.\n"
        assert json.loads((await typed(to, "tx", "cancel", sent, "--json")).stdout) == {"id": sent, "cancelled": True}
        assert (await typed(to, "tx", "cancel", sent)).exit_code == 1


class MemoryAside:
    """What was set aside, for an operator who types."""

    def __init__(self, *views: AsideView) -> None:
        self.views = list(views)
        self.decided: list[tuple[str, bytes]] = []

    def list(self) -> tuple[AsideView, ...]:
        return tuple(self.views)

    async def release(self, intent: IntentId) -> None:
        self._take("release", intent)

    async def drop(self, intent: IntentId) -> None:
        self._take("drop", intent)

    def _take(self, decision: str, intent: IntentId) -> None:
        self.views = [each for each in self.views if each.id != intent]
        self.decided.append((decision, intent))


@asynchronous
async def test_what_was_set_aside_is_shown_and_decided_about() -> None:
    one, two = (IntentId(bytes([number]) * 16) for number in (1, 2))
    account = ContractAddress("0x" + "ac" * 20)
    alice = Party("alice@node1")
    async with served() as to:
        to.node.aside = MemoryAside(
            AsideView(one, alice, account, account, 5, 0, None, "the database was wound back"),
            AsideView(two, alice, account, None, 0, 0, 7, "the chain has 8 transactions"),
        )
        shown = (await typed(to, "tx", "aside")).stdout
        assert f"alice@node1 ({account}, no nonce): 5 wei to {account}\n  the database was wound back" in shown
        assert "nonce 7): 0 wei to a new contract" in shown
        first, second = (each["id"] for each in json.loads((await typed(to, "tx", "aside", "--json")).stdout))
        assert (await typed(to, "tx", "release", first)).stdout == f"{first} goes on.\n"
        assert json.loads((await typed(to, "tx", "drop", second, "--json")).stdout) == {"id": second, "dropped": True}
        assert to.node.aside.decided == [("release", one), ("drop", two)]
        assert (await typed(to, "tx", "aside")).stdout == "Nothing is set aside.\n"


# Watching.


@asynchronous
async def test_watching_tells_each_thing_once_and_ends_as_the_transaction_does() -> None:
    async with served() as to:
        sent = await accepted(to)
        loop = asyncio.get_running_loop()
        watching = asyncio.create_task(typed(to, "tx", "watch", sent, "--look-ms", "10"))
        loop.call_later(0.2, to.node.confirm, intent(sent))
        result = await watching
        assert result.exit_code == 0
        first, waiting, *rest = result.stdout.splitlines()
        assert first.endswith("+0.000 s  accepted")
        assert waiting.strip().endswith(": waits for its delegation to be accepted (blocked by node2)")
        assert rest[-1].startswith(f"confirmed: {sent}")
        assert (
            sum("accepted" in line for line in result.stdout.splitlines())
            == 1 + sum("waits" in line for line in rest) + 1
        )


@asynchronous
async def test_watching_for_programmes_is_an_object_a_line() -> None:
    async with served() as to:
        sent = await accepted(to)
        await to.node.cancel(intent(sent))
        result = await typed(to, "tx", "watch", sent, "--json")
        assert result.exit_code == 1
        event, _, receipt = map(json.loads, result.stdout.splitlines())
        assert event["event"] == "accepted"
        assert (receipt["id"], receipt["success"], receipt["failureMessage"]) == (sent, False, "cancelled")


@asynchronous
async def test_watching_ends_with_3_when_the_end_is_not_known() -> None:
    async with served() as to:
        sent = await accepted(to)
        late = await typed(to, "tx", "watch", sent, "--within", "0.05", "--look-ms", "10")
        assert (late.exit_code, late.stderr) == (3, f"Error: {sent} has not ended within 0.05 s, and goes on\n")
        stranger = await typed(to, "tx", "watch", UNKNOWN_ID)
        assert stranger.exit_code == 3
        assert f"does not know a transaction {UNKNOWN_ID}" in stranger.stderr


@dataclass(slots=True)
class RestingNode(MemoryNode):
    """Answers the first look, is away for all attempts of the next, and then has the end."""

    looks: int = 0

    async def receipt(self, intent: IntentId) -> ReceiptView | None:
        self.looks += 1
        if 1 < self.looks <= 1 + LIMITS.attempts_max:
            raise Unavailable("the store is away")
        if self.looks > 1:
            self.confirm(intent)
        return await MemoryNode.receipt(self, intent)


@asynchronous
async def test_a_node_that_is_away_meanwhile_is_asked_again() -> None:
    async with served(RestingNode()) as to:
        result = await typed(to, "tx", "watch", await accepted(to), "--look-ms", "10")
        assert result.exit_code == 0, result.output
        assert "the node does not answer" in result.stdout


# Wrong use, of all commands that ask a node.


@pytest.mark.parametrize("command", ["show", "explain"])
def test_what_the_node_does_not_know_is_told_in_a_line(command: str) -> None:
    @asynchronous
    async def run() -> None:
        async with served() as to:
            result = await typed(to, "tx", command, UNKNOWN_ID)
            assert (result.exit_code, result.stdout) == (1, "")
            assert f"does not know a transaction {UNKNOWN_ID}" in result.stderr

    run()


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("tx", "list"), 1),
        (("tx", "explain", UNKNOWN_ID), 1),
        (("tx", "watch", UNKNOWN_ID), 3),
        (SEND, 3),
        (("token", "balance", CONTRACT, "alice@node1"), 1),
        (("group", "list"), 1),
        (("trigger", "list"), 1),
    ],
)
def test_a_node_that_is_not_there_is_one_line(arguments: tuple[str, ...], code: int) -> None:
    result = rota(*arguments, "--node", UNUSED)
    assert (result.exit_code, result.stdout) == (code, "")
    assert result.stderr.startswith(f"Error: {UNUSED}: ")
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize("url", ["nowhere", "ftp://127.0.0.1", "http://", "http://127.0.0.1:99999", "127.0.0.1:31548"])
def test_an_address_that_is_none_is_wrong_use(url: str) -> None:
    for result in (rota("tx", "list", "--node", url), rota("tx", "list", ROTA_NODE=url)):
        assert result.exit_code == 2
        assert f"must be the address of a node, such as http://127.0.0.1:31548, not {url!r}" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("tx", "show", "12"), "'12' is not a valid UUID"),
        (("tx", "send", "--from", "alice", "--to", "0x12"), "must be 0x and 40 hex digits"),
        (("tx", "send", "--from", "alice"), "Name the contract with --to"),
        (("tx", "send", "--to", CONTRACT), "Missing option '--from'"),
        ((*SEND[:-1], "{"), "must be JSON"),
        (("token", "mint", CONTRACT, "bob", "0", "--from", "a"), "must be a number above 0, such as 30 or 1.5"),
        (("token", "mint", CONTRACT, "bob", "1,5", "--from", "a"), "must be a number above 0, such as 30 or 1.5"),
        (("token", "unlock", CONTRACT, "0x12", "--owner", "a", "--share", "b", "--from", "a"), "PARTY=AMOUNT"),
        (("token", "spend-lock", CONTRACT, "lock", "--from", "a"), "must be hex digits"),
        (("group", "show", "desk"), "the id of a group, 0x and 64 hex digits"),
        (("group", "create", "--member", "a", "--property", "b"), "must be NAME=VALUE"),
        (("group", "deploy", CONTRACT, "--from", "a", "--abi", "[]"), "Give --bytecode"),
        (("group", "deploy", CONTRACT, "--from", "a", "--abi", "5"), "must be a list of ABI entries"),
    ],
)
def test_what_is_malformed_is_wrong_use(arguments: tuple[str, ...], told: str) -> None:
    result = rota(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert told in result.stderr.replace("\n", " ")


@asynchronous
async def test_a_token_is_shown_however_it_is_given_and_a_wrong_one_is_told_so(tmp_path: Path) -> None:
    token, credential = make_token("anna", frozenset({Role.READ}))
    file = tmp_path / "token"
    file.write_text(f"{token}\n")
    file.chmod(0o600)
    async with served(settings=Settings(http=LOCAL, websocket=LOCAL, credentials=(credential,))) as to:
        without = await typed(to, "tx", "list")
        assert without.exit_code == 1
        assert "credentials are needed" in without.stderr
        assert "(see --token, --token-file and ROTA_TOKEN)\n" in without.stderr
        assert "these credentials are not known here" in (await typed(to, "tx", "list", "--token", "wrong")).stderr
        for result in (
            await typed(to, "tx", "list", "--token", token),
            await typed(to, "tx", "list", ROTA_TOKEN=token),
            await typed(to, "tx", "list", "--token-file", file),
            await typed(to, "tx", "list", "--token-file", file, ROTA_TOKEN="wrong"),
        ):
            assert (result.exit_code, result.stdout) == (0, "There is none.\n")
        both = await typed(to, "tx", "list", "--token", token, "--token-file", file)
        assert (both.exit_code, "contradict each other" in both.stderr) == (2, True)
        refused = await typed(to, *SEND, "--token", token)
        assert (refused.exit_code, "needs the role 'submit'" in refused.stderr) == (1, True)
        file.chmod(0o644)
        unsafe = await typed(to, "tx", "list", "--token-file", file)
        assert (unsafe.exit_code, "chmod 600" in unsafe.stderr) == (1, True)


# Time lines.


def test_a_time_line_counts_from_its_first_moment() -> None:
    lines = moments((HistoryLine("2026-01-31T23:59:59.500Z", "accepted"), HistoryLine("2026-02-01T00:00:01.001Z", "x")))
    assert list(lines) == ["23:59:59.500     +0.000 s  accepted", "00:00:01.001     +1.501 s  x"]


@pytest.mark.parametrize(
    ("now", "told"),
    [
        ("2026-01-31T00:00:01.250Z", "1.2 s ago"),
        ("2026-01-31T00:03:00.000Z", "3 minutes ago"),
        ("2026-01-31T05:30:00.000Z", "5 hours ago"),
        ("2026-02-03T00:00:00.000Z", "3 days ago"),
        ("2026-01-30T00:00:00.000Z", "0.0 s ago"),
    ],
)
def test_how_long_ago_something_was(now: str, told: str) -> None:
    assert passed(time_of("2026-01-31T00:00:00.000Z"), time_of(now)) == told
