"""Automation on real nodes: real keys, connections, databases, a real chain with the real `Epochs` and `Proposals`."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from prometheus_client import CollectorRegistry, generate_latest

from rota.automation.settings import Strategy
from rota.automation.shipped import ADVANCE_GAS, AdvanceEpochs, ExecuteProposals
from rota.cli.main import main
from rota.keys.names import REGISTRAR
from rota.ledger.account import Account, AccountLimits, CallReverted
from rota.ledger.hexadecimal import data, quantity, read_quantity
from rota.ledger.reading import read_full_block, read_logs, read_receipt
from rota.ledger.signatures import decode_log, encode_signed_call
from rota.model.types import ContractAddress, NodeName
from rota.rpc.errors import Rejected
from rota.server.configuration import AutomationSection
from rota.server.metrics import NodeCollector
from rota.server.process import CannotStart
from rota.service.interface import TriggerView
from tests.ledger.chains import in_loop
from tests.service.kit import CHAIN_ID, EPOCHS, PROPOSALS, Network, network, with_epochs

NODES = tuple(map(NodeName, ("node1", "node2", "node3")))


async def events(net: Network, contract: ContractAddress, signature: str) -> list[tuple[Any, ...]]:
    """The ledger's own word."""
    wanted = {"address": contract, "fromBlock": "0x0", "toBlock": "latest"}
    logs = read_logs(await net.client.call("eth_getLogs", wanted))
    return [found for log in logs if (found := decode_log(signature, log)) is not None]


async def transactions_to(net: Network, contract: ContractAddress) -> dict[NodeName, tuple[int, int]]:
    """How many transactions of each node the contract took, and how many it undid."""
    counts = {name: [0, 0] for name in NODES}
    owners = {net.keys[name].registrar: name for name in NODES}
    for height in range(read_quantity(await net.client.call("eth_blockNumber")) + 1):
        block = read_full_block(await net.client.call("eth_getBlockByNumber", quantity(height), True))
        assert block is not None
        for call in block.calls:
            if call.to == contract and call.sender in owners:
                receipt = read_receipt(await net.client.call("eth_getTransactionReceipt", data(call.hash)))
                assert receipt is not None
                counts[owners[call.sender]][0 if receipt.has_succeeded else 1] += 1
    return {name: (taken, undone) for name, (taken, undone) in counts.items()}


def view(net: Network, name: NodeName, trigger: str = EPOCHS) -> TriggerView:
    return next(each for each in net.processes[name].facade.triggers.list() if each.name == trigger)


def account_of(net: Network, name: NodeName) -> Account:
    return Account(net.client, CHAIN_ID, net.keys[name].signer, REGISTRAR, AccountLimits(look_ms=2))


async def until_epoch(net: Network, epochs: ContractAddress, epoch: int) -> None:
    reached = 0
    while reached < epoch:
        await net.until(lambda: True)
        reached = len(await events(net, epochs, AdvanceEpochs.ADVANCED))


@pytest.mark.slow
@pytest.mark.parametrize("strategy", list(Strategy))
@in_loop
async def test_three_nodes_advance_each_epoch_once_and_one_may_be_down(strategy: Strategy, tmp_path: Path) -> None:
    async with network(tmp_path, *NODES) as net:
        epochs = await with_epochs(net)
        net.triggers[EPOCHS]["strategy"] = strategy.value
        await net.start(*NODES)
        await net.connected()
        await until_epoch(net, epochs, 5)
        await net.kill(NODES[0])
        won = view(net, NODES[0]).won
        await until_epoch(net, epochs, 8)
        for name in NODES[1:]:
            await net.processes[name].facade.triggers.pause(EPOCHS)
        # What was begun is ended.
        await net.until(lambda: sum(view(net, name).at_work for name in NODES[1:]) == 0)
        advanced = await events(net, epochs, AdvanceEpochs.ADVANCED)
        assert [epoch for epoch, _ in advanced] == list(range(1, len(advanced) + 1)), "each once, none left out"
        assert all(view(net, name).failed == 0 for name in NODES[1:])
        outcomes = await transactions_to(net, epochs)
        for name in NODES[1:]:
            taken, undone = outcomes[name]
            assert view(net, name).won == taken, "by the ledger's word"
            # On a busy machine epochs fall behind; one that comes too late for its own epoch may then begin the next.
            assert undone <= view(net, name).lost <= undone + taken
        assert outcomes[NODES[0]][0] - won in (0, 1), "the one that it did not live to hear of"


@pytest.mark.slow
@in_loop
async def test_rank_is_used_when_all_members_have_said_so_and_stays_when_one_goes(tmp_path: Path) -> None:
    async with network(tmp_path, *NODES) as net:
        await with_epochs(net)
        net.automation = AutomationSection(
            expected_task_duration_ms=100, polling_interval_ms=400, look_ms=40, strategy=Strategy.RANK
        )
        await net.start(*NODES[:2])
        await net.until(lambda: view(net, NODES[0]).members == 3)
        assert view(net, NODES[0]).strategy == "random", "node3 has not said anything yet"
        await net.start(NODES[2])
        await net.connected()
        await net.until(lambda: all(view(net, name).strategy == "rank" for name in NODES))
        await net.kill(NODES[2])
        await net.stop(NODES[0])
        await net.start(NODES[0])
        await net.until(lambda: view(net, NODES[0]).members == 3)
        await net.until(lambda: view(net, NODES[0]).strategy == "rank")


@pytest.mark.slow
@in_loop
async def test_a_proposal_with_its_votes_is_executed_once_by_any_member(tmp_path: Path) -> None:
    async with network(tmp_path, *NODES) as net:
        await with_epochs(net, duration_s=10_000)
        proposals = ContractAddress(str(net.triggers[PROPOSALS]["contract"]))
        newcomer = "0x" + "ee" * 20
        call = encode_signed_call("addMember(address)", (newcomer,))
        await account_of(net, NODES[0]).transact(
            proposals, encode_signed_call("propose(address,bytes)", (proposals, call))
        )
        await net.start(*NODES)
        await net.until(lambda: view(net, NODES[0], PROPOSALS).is_member)
        assert await events(net, proposals, ExecuteProposals.EXECUTED) == []
        # Each account is its node's own while the node runs, so that the vote comes from one that does not.
        await net.stop(NODES[2])
        await account_of(net, NODES[2]).transact(proposals, encode_signed_call("vote(uint256)", (0,)))
        while not (executed := await events(net, proposals, ExecuteProposals.EXECUTED)):
            await net.until(lambda: True)
        assert [number for number, _ in executed] == [0]
        await net.until(lambda: sum(view(net, name, PROPOSALS).won for name in NODES[:2]) == 1)
        await net.until(lambda: view(net, NODES[0], PROPOSALS).members == 4)


@pytest.mark.slow
@in_loop
async def test_a_pause_survives_a_restart_and_a_resume_does_not_outlive_the_configuration(tmp_path: Path) -> None:
    async with network(tmp_path, "node1") as net:
        epochs = await with_epochs(net, NODES[:1])
        await net.start(NODES[0])
        await until_epoch(net, epochs, 1)
        await net.processes[NODES[0]].facade.triggers.pause(EPOCHS)
        await net.stop(NODES[0])
        await net.start(NODES[0])
        await net.until(lambda: bool(net.processes[NODES[0]].facade.triggers.list()))
        assert view(net, NODES[0]).is_paused
        before = len(await events(net, epochs, AdvanceEpochs.ADVANCED))
        await net.until(lambda: view(net, NODES[0]).is_member)
        ended = await net.processes[NODES[0]].facade.triggers.run_once(EPOCHS)
        assert ended.won + ended.lost + ended.failed + ended.skipped <= 1
        assert len(await events(net, epochs, AdvanceEpochs.ADVANCED)) == before + ended.won
        await net.processes[NODES[0]].facade.triggers.resume(EPOCHS)
        await until_epoch(net, epochs, before + 2)
        await net.stop(NODES[0])
        net.automation = AutomationSection(
            expected_task_duration_ms=100, polling_interval_ms=400, look_ms=40, paused=(EPOCHS,)
        )
        for _ in range(2):
            await net.start(NODES[0])
            await net.until(lambda: bool(net.processes[NODES[0]].facade.triggers.list()))
            assert view(net, NODES[0]).is_paused
            await net.processes[NODES[0]].facade.triggers.resume(EPOCHS)
            assert not view(net, NODES[0]).is_paused
            await net.stop(NODES[0])


@pytest.mark.slow
@in_loop
async def test_operators_see_and_steer_triggers(tmp_path: Path) -> None:
    async with network(tmp_path, "node1") as net:
        epochs = await with_epochs(net, NODES[:1])
        await net.start(NODES[0])
        await until_epoch(net, epochs, 2)
        await net.until(lambda: view(net, NODES[0]).won >= 2)
        facade = net.processes[NODES[0]].facade
        with pytest.raises(Rejected, match="must be a trigger of this node, which are advance-epochs"):
            await facade.triggers.pause("advance-epoch")
        registry = CollectorRegistry()
        registry.register(NodeCollector(facade, has_splice_names=True))
        shown = generate_latest(registry).decode()
        won = view(net, NODES[0]).won
        for name in ("rota_trigger_attempted_total", "splice_trigger_attempted_total"):
            assert f'{name}{{contention="false",outcome="won",trigger="advance-epochs"}} {won:.1f}' in shown
        assert 'rota_trigger_breaker_open{trigger="advance-epochs"} 0.0' in shown
        assert 'rota_trigger_duration_seconds_count{trigger="advance-epochs"}' in shown
        assert "rota_automation_transactions_total" in shown
        assert "rota_automation_ledger_share" in shown


@pytest.mark.slow
@in_loop
async def test_the_command_line_shows_and_steers_triggers(tmp_path: Path) -> None:
    async with network(tmp_path, "node1") as net:
        epochs = await with_epochs(net, NODES[:1])
        await net.start(NODES[0])
        await until_epoch(net, epochs, 1)
        await net.until(lambda: view(net, NODES[0]).won >= 1)
        url = net.processes[NODES[0]].entrance.http_url

        async def run(*arguments: str) -> Result:
            command = ("trigger", *arguments, "--node", url)
            return await asyncio.to_thread(lambda: CliRunner().invoke(main, command, prog_name="rota"))

        paused = await run("pause", EPOCHS, "--json")
        assert json.loads(paused.stdout) == {"name": EPOCHS, "paused": True}
        listed = await run("list", "--json")
        found = {each["name"]: each for each in json.loads(listed.stdout)}
        assert list(found) == [EPOCHS, PROPOSALS, "ask-for-states", "cancel-expired-locks"]
        assert found[EPOCHS]["paused"]
        assert found[EPOCHS]["attempted"]["won"] >= 1
        shown = await run("list")
        assert "paused" in shown.stdout
        ran = await run("run-once", PROPOSALS)
        assert ran.stdout == f"{PROPOSALS}: 0 won, 0 lost, 0 skipped, 0 failed.\n"
        assert (await run("resume", EPOCHS)).stdout == f"{EPOCHS} runs.\n"
        assert not view(net, NODES[0]).is_paused
        wrong = await run("pause", "advance-epoch")
        assert wrong.exit_code == 1
        assert "must be a trigger of this node" in wrong.stderr


@in_loop
async def test_a_name_that_is_no_trigger_is_refused_at_start(tmp_path: Path) -> None:
    async with network(tmp_path, "node1") as net:
        net.automation = AutomationSection(paused=("advance-epoch",))
        net.triggers = {EPOCHS: {"contract": "0x" + "11" * 20}}
        with pytest.raises(CannotStart, match="there is no trigger 'advance-epoch' here; did you mean"):
            await net.start(NODES[0])


@in_loop
async def test_members_act_in_their_own_name_only_and_others_not_at_all(tmp_path: Path) -> None:
    async with network(tmp_path, *NODES) as net:
        epochs = await with_epochs(net, NODES[:2])
        member, other, stranger = (account_of(net, name) for name in NODES)
        with pytest.raises(CallReverted, match=rf"NotYourName\(caller {member.address}, member {other.address}\)"):
            await member.transact(epochs, encode_signed_call("advance(address)", (other.address,)))
        with pytest.raises(CallReverted, match=rf"NotMember\(caller {stranger.address}\)"):
            await stranger.transact(epochs, encode_signed_call("advance(address)", (stranger.address,)))
        with pytest.raises(CallReverted, match="NotMember"):
            await stranger.transact(epochs, encode_signed_call("advance(address)", (member.address,)))
        await net.client.call("evm_increaseTime", 10)
        call = encode_signed_call("advance(address)", (member.address,))
        receipt = await member.transact(epochs, call, gas_limit=ADVANCE_GAS)
        assert receipt.gas_used * 3 // 2 < ADVANCE_GAS
        assert [e for e, _ in await events(net, epochs, AdvanceEpochs.ADVANCED)] == [1]
