"""Privacy groups on real nodes and a real chain: keys, connections, databases, contracts."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from dataclasses import dataclass
from pathlib import Path

import pytest
from eth_abi.abi import encode

from rota import host
from rota.chain.effects import RoundDispatch
from rota.domains.base import Behind, Lacking, Rejected
from rota.domains.pente.addresses import deployment_address
from rota.engine.held_states import HeldStates
from rota.engine.private_code import PrivateCode
from rota.evm.groups import pente
from rota.host import Background, UserCall
from rota.ledger.artifacts import Artifact, artifact_from_json
from rota.ledger.bindings import deploy_endorsed
from rota.ledger.hexadecimal import data
from rota.model.digests import keccak
from rota.model.genesis import encode_genesis, genesis_hash
from rota.model.types import ContractAddress, IntentId, NodeName, Outcome, Party, Receipt
from rota.testing.workloads.pente import call_of, entry_of, errors_of
from tests.domains.pente.members import ARTIFACTS, playground, token
from tests.ledger.chains import in_loop
from tests.service.kit import CHAIN_ID, Network, network, send

NODE1, NODE2, NODE3 = ALL = tuple(map(NodeName, ("node1", "node2", "node3")))
MEMBERS = tuple(Party(f"alice@{node}") for node in ALL)
TARGET = artifact_from_json((ARTIFACTS / "Target.json").read_text(encoding="utf-8"))
UNREAD = "(send the contract's ABI along, or store it, to read this)"
TOUCH, FAIL, COUNT = "0xa55526db", "0xa9cc4718", "0x06661abd"


@dataclass
class Group:
    """A group of all nodes, on a network that runs."""

    nodes: Network
    contract: ContractAddress

    async def send(self, node: NodeName, function: str, arguments: object) -> IntentId:
        return await self.nodes.submit(node, self.contract, function, arguments)

    async def final(self, node: NodeName, intent: IntentId) -> Receipt:
        return await self.nodes.final(node, intent)

    async def invoke(self, node: NodeName, to: str, artifact: Artifact, name: str, *arguments: object) -> Receipt:
        return await self.final(node, await self.send(node, "invoke", call_of(to, artifact, name, *arguments)))

    async def deploy(self, node: NodeName, artifact: Artifact, *arguments: object) -> str:
        asked = {
            "bytecode": "0x" + artifact.bytecode.hex(),
            "function": json.dumps(entry_of(artifact, "constructor")),
            "input": json.dumps(list(arguments)),
            "errors": errors_of(artifact),
        }
        intent = await self.send(node, "deploy", asked)
        receipt = await self.final(node, intent)
        assert receipt.outcome is Outcome.CONFIRMED, receipt.reason
        hosted = self.nodes.processes[node].running.contracts.hosted(self.contract)
        assert hosted is not None
        sender = bytes.fromhex((await self.address(Party(f"alice@{node}")))[2:])
        return "0x" + deployment_address(hosted.separator, intent, sender).hex()

    async def address(self, party: Party) -> str:
        verifiers = self.nodes.processes[NODE1].running.adapters.verifiers
        return (await verifiers.of(self.contract, [party]))[party]

    async def ask(self, node: NodeName, to: str, artifact: Artifact, name: str, *arguments: object) -> object:
        """As a node's user asks, from a memory that has nothing but the node's store."""
        running = self.nodes.processes[node].running
        hosted = running.contracts.hosted(self.contract)
        assert hosted is not None
        fresh, asker = hosted.at_another_node(), Party(f"alice@{node}")
        held = await HeldStates(node, running.adapters.store).of(fresh)
        background = Background(verifiers={asker: await self.address(asker)})
        asked = UserCall(asker, "call", call_of(to, artifact, name, *arguments))
        return host.call(fresh, asked, held, node, background)

    async def until_told(
        self, expected: object, node: NodeName, to: str, artifact: Artifact, name: str, *arguments: object
    ) -> None:
        """A node's index may be a block behind the one that told of a receipt; the test's own time limit bounds it."""
        while True:
            try:
                if await self.ask(node, to, artifact, name, *arguments) == expected:
                    return
            except (Behind, Lacking, Rejected):
                pass
            await asyncio.sleep(0.005)


def encode_error(signature: str, value: object) -> bytes:
    """What Solidity reverts with."""
    kind = signature.partition("(")[2].removesuffix(")")
    return keccak(signature.encode())[:4] + encode([kind], [value])


def fail_with(reason: bytes) -> str:
    """A call that the target reverts with this."""
    return data(keccak(b"failWith(bytes)")[:4] + encode(["bytes"], [reason]))


async def created(nodes: Network, **configuration: object) -> Group:
    """A group of all nodes, known to all of them."""
    domain = pente()
    written = {"evmVersion": "cancun", **configuration}
    wanted = host.deploy(domain, {"members": list(MEMBERS), "configuration": written}, MEMBERS[0])
    genesis = host.genesis_of(domain, wanted, host.ContractDefaults(CHAIN_ID), bytes(32))
    encoded, intent = nodes.deployed = encode_genesis(genesis), IntentId(b"a group.........")
    signers = tuple([await nodes.processes[node].facade.endorser_address(intent) for node in genesis.endorsers])
    call = deploy_endorsed(intent, genesis_hash(encoded), signers, genesis.threshold)
    await send(nodes.client, {"to": nodes.factory, "data": data(call)})
    addresses = [await nodes.take_in(name) for name in ALL]
    return Group(nodes, addresses[0])


@pytest.mark.slow
@in_loop
async def test_members_transfer_concurrently_and_a_member_that_lost_all_builds_it_again(tmp_path: Path) -> None:
    async with network(tmp_path, *ALL) as nodes:
        await nodes.start(*ALL)
        group = await created(nodes)
        coins = await group.deploy(NODE1, token(), "Coin", "C")
        first, second, third = [await group.address(party) for party in MEMBERS]
        for holder in (first, second, third):
            assert (await group.invoke(NODE1, coins, token(), "mint", holder, 100)).outcome is Outcome.CONFIRMED

        sent = [
            (node, await group.send(node, "invoke", call_of(coins, token(), "transfer", to, 7)))
            for _ in range(3)
            for node, to in ((NODE1, second), (NODE2, third), (NODE3, first))
        ]
        assert [(await group.final(node, intent)).outcome for node, intent in sent] == [Outcome.CONFIRMED] * 9
        over = await group.invoke(NODE2, coins, token(), "transfer", first, 101)
        assert (over.outcome, over.reason) == (Outcome.REVERTED, f"InsufficientBalance({second}, 100, 101)")

        await nodes.stop(NODE3)
        for file in (tmp_path / NODE3).glob("rota.db*"):
            file.unlink()
        await nodes.start(NODE3)
        begun = nodes.processes[NODE3]
        await nodes.take_in(NODE3)
        # It has blocks without the group's rounds, and fetches these.
        await nodes.until(lambda: not nodes.processes[NODE3].facade.readiness())
        for node in ALL:
            await group.until_told({"balance": "100"}, node, coins, token(), "balanceOf", first)
            await group.until_told({"0": "300"}, node, coins, token(), "totalSupply")
        assert (await group.invoke(NODE3, coins, token(), "transfer", first, 1)).outcome is Outcome.CONFIRMED
        await group.until_told({"balance": "101"}, NODE1, coins, token(), "balanceOf", first)
        assert nodes.processes[NODE3] is begun


@pytest.mark.slow
@in_loop
async def test_processes_that_run_private_code_are_killed_and_the_group_goes_on(tmp_path: Path) -> None:
    """Their successors get what the nodes hold from the store: transactions stand on what came before."""
    async with network(tmp_path, *ALL) as nodes:
        await nodes.start(*ALL)
        group = await created(nodes)
        coins = await group.deploy(NODE1, token(), "Coin", "C")
        first = await group.address(MEMBERS[0])
        codes = [nodes.processes[node].running.adapters.services._elsewhere for node in ALL]
        killed: set[int] = set()
        for _ in range(2):
            assert (await group.invoke(NODE1, coins, token(), "mint", first, 100)).outcome is Outcome.CONFIRMED
            for code in codes:
                assert isinstance(code, PrivateCode)
                for pid in (*code.own.processes.pids, *code.peers.processes.pids):
                    assert pid not in killed
                    os.kill(pid, signal.SIGKILL)
                    killed.add(pid)
        # The node that assembles has a process for its own users, and each has one for its peers.
        assert len(killed) == 2 * (len(ALL) + 1)
        assert (await group.invoke(NODE1, coins, token(), "mint", first, 100)).outcome is Outcome.CONFIRMED
        for node in ALL:
            await group.until_told({"balance": "300"}, node, coins, token(), "balanceOf", first)


@pytest.mark.slow
@in_loop
async def test_private_contract_has_a_public_one_called(tmp_path: Path) -> None:
    async with network(tmp_path, *ALL) as nodes:
        await nodes.start(*ALL)
        group = await created(nodes, externalCallsEnabled="true")
        target = (await send(nodes.client, {"data": data(TARGET.bytecode)})).contract
        place = await group.deploy(NODE1, playground(), 42)

        done = await group.invoke(NODE2, place, playground(), "callOutside", target, TOUCH, 2)
        assert done.outcome is Outcome.CONFIRMED, done.reason
        counted = await nodes.client.call("eth_call", {"to": target, "data": COUNT}, "latest")
        assert int(str(counted), 16) == 2
        await group.until_told({"value": "2"}, NODE3, place, playground(), "retrieve")


@pytest.mark.slow
@in_loop
async def test_gas_of_a_public_call_is_estimated_within_the_bounds_of_group_and_transaction(tmp_path: Path) -> None:
    async with network(tmp_path, *ALL) as nodes:
        await nodes.start(*ALL)
        group = await created(nodes, externalCallsEnabled="true", externalCallGasMax="60000")
        target = (await send(nodes.client, {"data": data(TARGET.bytecode)})).contract
        place = await group.deploy(NODE1, playground(), 42)
        touched = call_of(place, playground(), "callOutside", target, TOUCH, 1)
        assert (await group.final(NODE2, await group.send(NODE2, "invoke", touched))).outcome is Outcome.CONFIRMED
        used = await gas_of_calls(nodes)
        assert 20_000 < used < 60_000, "it has what it needs, and not all that it may have"
        spent = await nonces_used(nodes)
        short = await group.final(NODE2, await group.send(NODE2, "invoke", touched | {"externalCallGas": 3_000}))
        assert (short.outcome, "and 3000 is the most: externalCallGas of" in short.reason) == (Outcome.REVERTED, True)
        assert await nonces_used(nodes) == spent, "nothing was sent"


async def gas_of_calls(nodes: Network) -> int:
    """The gas of the calls in the rounds that the nodes sent."""
    found = [
        call.gas
        for node in ALL
        for latest in await nodes.processes[node].running.adapters.store.traces.latest_rounds(50)
        for transition in (await dispatched(nodes, node, latest.nonce)).round.transitions
        for call in transition.calls
    ]
    (gas,) = found
    return gas


async def dispatched(nodes: Network, node: NodeName, nonce: int) -> RoundDispatch:
    found = await nodes.processes[node].running.adapters.store.traces.dispatch(nonce)
    assert found is not None
    return found


async def nonces_used(nodes: Network) -> int:
    """How many transactions of all nodes the chain has."""
    accounts = [nodes.keys[node].submitter for node in ALL]
    counts = [await nodes.client.call("eth_getTransactionCount", account, "latest") for account in accounts]
    return sum(int(str(count), 16) for count in counts)


@pytest.mark.slow
@in_loop
async def test_transaction_whose_public_call_fails_ends_with_the_reason(tmp_path: Path) -> None:
    async with network(tmp_path, *ALL) as nodes:
        await nodes.start(*ALL)
        group = await created(nodes, externalCallsEnabled="true")
        target = (await send(nodes.client, {"data": data(TARGET.bytecode)})).contract
        place = await group.deploy(NODE1, playground(), 42)
        refused = keccak(b"Refused()")[:4]
        facade = nodes.processes[NODE2].facade
        nobody = "0x" + "ab" * 20
        for to, content, errors, reason in (
            (
                target,
                FAIL,
                playground(),
                f"{FAIL} of {target} with 500000 gas: reverted with 0x{refused.hex()} {UNREAD}",
            ),
            (target, FAIL, TARGET, f"{FAIL} of {target} with 500000 gas: Refused()"),
            (target, fail_with(encode_error("Error(string)", "not today")), playground(), "not today"),
            (
                target,
                fail_with(encode_error("Panic(uint256)", 0x11)),
                playground(),
                "Panic(0x11): arithmetic overflow or underflow",
            ),
            (nobody, FAIL, playground(), "gas: there is no contract"),
        ):
            asked = call_of(place, playground(), "callOutside", to, content, 1) | {"errors": errors_of(errors)}
            spent = await nonces_used(nodes)
            intent = await group.send(NODE2, "invoke", asked)
            assert (await group.final(NODE2, intent)).outcome is Outcome.REVERTED
            assert await nonces_used(nodes) - spent == 2, "one attempt, and the empty transition that voids it"
            told = await facade.receipt(intent)
            assert told is not None
            assert told.failure_message.startswith("call 0 failed: 0x")
            assert told.failure_message.endswith(reason)
        # An ABI that was stored since tells it too.
        unknown = await group.send(NODE2, "invoke", call_of(place, playground(), "callOutside", target, FAIL, 1))
        await group.final(NODE2, unknown)
        told = await facade.receipt(unknown)
        assert told is not None
        assert told.revert_data == refused
        assert told.failure_message.endswith(f"reverted with 0x{refused.hex()} {UNREAD}")
        await facade.types.store_abi(list(TARGET.abi))
        told = await facade.receipt(unknown)
        assert told is not None
        assert told.failure_message == f"call 0 failed: fail() of {target} with 500000 gas: Refused()"
        await group.until_told({"value": "42"}, NODE3, place, playground(), "retrieve")
        assert (await group.invoke(NODE3, place, playground(), "store", 7)).outcome is Outcome.CONFIRMED
