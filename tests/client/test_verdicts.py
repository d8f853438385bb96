"""The client's verdicts at a real node: an attempt that arrives late, and an answer that is not definite."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from rota.client import Client, Journal, Outcome, Patience, Unreachable
from rota.model.types import NodeName
from tests.ledger.chains import in_loop
from tests.service.faults import Fault, Faults, install
from tests.service.kit import Network, network

pytestmark = pytest.mark.slow

NODE = NodeName("node1")


@pytest.fixture
def faults(monkeypatch: pytest.MonkeyPatch) -> Faults:
    return install(monkeypatch)


class LateNetwork(Client):
    """The first submission arrives and its answer is lost; the second is given up and arrives later."""

    submissions = 0
    late: asyncio.Task[Any]

    async def ask(self, method: str, *parameters: object, is_repeatable: bool = False) -> object:
        answer = super().ask(method, *parameters, is_repeatable=is_repeatable)
        if method != "cmd_submitAndWait":
            return await answer
        self.submissions += 1
        if self.submissions == 1:
            await answer
        else:
            self.late = asyncio.create_task(self._arrive_late(answer))
        raise Unreachable("no answer in time")

    async def _arrive_late(self, answer: Any) -> None:  # noqa: ANN401
        await asyncio.sleep(1.5)
        await asyncio.gather(answer, return_exceptions=True)


async def transactions(client: Client) -> int:
    found: Any = await client.ask("ptx_queryTransactions", {"limit": 100})
    return len(found)


def url_of(nodes: Network) -> str:
    return nodes.processes[NODE].entrance.http_url


@in_loop
async def test_attempt_that_arrives_after_the_bound_does_not_pay_again(tmp_path: Path) -> None:
    async with network(tmp_path, NODE) as nodes:
        await nodes.start(NODE)
        contract = await nodes.create(["alice@node1"])
        async with LateNetwork(url_of(nodes)) as client:
            before = await transactions(client)
            with Journal(tmp_path / "journal") as journal:
                commands = client.commands(
                    journal, application_id="shop", act_as=("alice",), patience=Patience(attempts_max=2)
                )
                wanted = {"type": "private", "to": contract, "function": "mint"}
                verdict = await commands.exactly_once_within(1_000, "pay carol", wanted)
            assert verdict.outcome is Outcome.UNKNOWN
            await client.late
            assert await transactions(client) == before + 1


@in_loop
async def test_failed_is_never_said_of_a_change_that_happens(tmp_path: Path, faults: Faults) -> None:
    async with network(tmp_path, NODE) as nodes:
        await nodes.start(NODE)
        contract = await nodes.create(["alice@node1"])
        async with Client(url_of(nodes)) as client:
            before = await transactions(client)
            # The command is written and nobody can tell; then the store is away, and then the node crashes.
            faults.arm("commands_in_flight", Fault.NO_ANSWER)
            failing = asyncio.create_task(_fail_writes(faults))
            with Journal(tmp_path / "journal") as journal:
                patience = Patience(attempts_max=1, timeout_ms=1_000)
                commands = client.commands(journal, application_id="shop", act_as=("alice",), patience=patience)
                wanted = {"type": "private", "to": contract, "function": "mint"}
                verdict = await commands.exactly_once("pay carol", wanted)
                assert verdict.outcome is Outcome.UNKNOWN
            await failing
            await nodes.kill(NODE)
            faults.are_writes_failing = False
            await nodes.start(NODE)
        async with Client(url_of(nodes)) as client:
            with Journal(tmp_path / "journal") as journal:
                commands = client.commands(journal, application_id="shop", act_as=("alice",))
                (verdict,) = await commands.resume()
                assert verdict.outcome is Outcome.SUCCEEDED
            assert await transactions(client) == before + 1


async def _fail_writes(faults: Faults) -> None:
    await faults.has_struck.wait()
    faults.are_writes_failing = True
