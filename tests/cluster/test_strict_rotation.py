"""Strict rotation on real nodes: coordinators change with the blocks, in contracts of all kinds, and nothing is lost.

One network of three processes has a contract that two of three endorse, one that all endorse, and a privacy group that
all endorse. All of them rotate strictly in short ranges.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from rota.client import Client, Group, GroupContract
from rota.ledger.artifacts import load_artifact
from rota.localnet.chains import ChainKind
from rota.localnet.local import LocalNetwork, Plan
from rota.localnet.workload import Workload
from rota.model.types import ContractAddress, NodeName, Rotation, SequencingChoice
from tests.bounds import WAIT_S
from tests.cluster.kit import ALICE, chosen

NAMES = tuple(NodeName(f"node{number}") for number in (1, 2, 3))
MEMBERS = [f"{ALICE}@{name}" for name in NAMES]
RANGE_SIZE = 10
STRICT = SequencingChoice(rotation=Rotation.STRICT, range_size=RANGE_SIZE)
TERMS = {"rotation": "strict", "rangeSize": RANGE_SIZE}
INTERVAL_MS = 200
LOOK_S = 0.05
ARTIFACT = load_artifact("PrivateToken")


async def coordinators_of(clients: Iterable[Client], contract: ContractAddress) -> set[str]:
    """The coordinators of a contract by the answers of these nodes."""
    found = [await client.status(contract) for client in clients]
    return {str(each.active_coordinator) for each in found if each is not None and each.active_coordinator is not None}


async def until_coordinated_by_two(clients: dict[NodeName, Client], contracts: Iterable[ContractAddress]) -> None:
    """Until each of the contracts has had two coordinators; all nodes run, so that no fault is the reason."""
    seen: dict[ContractAddress, set[str]] = {contract: set() for contract in contracts}
    async with asyncio.timeout(WAIT_S):
        while any(len(each) < 2 for each in seen.values()):
            for contract, each in seen.items():
                each |= await coordinators_of(clients.values(), contract)
            await asyncio.sleep(LOOK_S)


async def until_confirmed(workload: Workload, count: int) -> None:
    """Until so many more are confirmed than before."""
    wanted = sum(receipt.success for receipt in workload.receipts.values()) + count
    async with asyncio.timeout(WAIT_S):
        while sum(receipt.success for receipt in workload.receipts.values()) < wanted:
            await workload.look()
            await asyncio.sleep(LOOK_S)


async def private_token(client: Client) -> tuple[Group, GroupContract, str]:
    """A group that rotates strictly, a private token in it, and the address of the first member there."""
    group = await client.groups.create(members=MEMBERS, name="strict", sequencing=TERMS)
    bytecode = f"0x{ARTIFACT.bytecode.hex()}"
    token = await group.deploy(ARTIFACT.abi, bytecode, ["Shares", "S"], sender=MEMBERS[0])
    return group, token, await client.address_of(MEMBERS[0])


async def play(home: Path) -> None:
    plan = Plan(home=home, names=NAMES, chain=ChainKind.EMBEDDED)
    async with AsyncExitStack() as stack:
        network = await stack.enter_async_context(LocalNetwork(plan))
        await network.start(*NAMES)
        clients = {name: network.nodes[name].client for name in NAMES}
        some = await network.create_contract("synthetic", {"members": MEMBERS, "threshold": 2}, STRICT)
        every = await network.create_contract("synthetic", {"members": MEMBERS, "threshold": 3}, STRICT)
        group, token, address = await private_token(clients[NAMES[0]])
        assert group.address is not None
        contracts = (some.address, every.address, ContractAddress(group.address))
        for client in clients.values():
            for contract in contracts:
                status = await client.status(contract)
                assert status is not None
                assert (status.mode, status.rotation, status.range_size) == ("ring", "strict", RANGE_SIZE)
        loads = [
            await stack.enter_async_context(Workload(network, each, ALICE, INTERVAL_MS, chosen(NAMES)))
            for each in contracts[:2]
        ]
        minted = 0
        minting = asyncio.create_task(until_coordinated_by_two(clients, contracts))
        try:
            while not minting.done():
                await (await token.send("mint", [address, 1], sender=MEMBERS[0]))
                minted += 1
            await minting
        finally:
            minting.cancel()

        # A coordinator is killed in the middle. Where all endorse nothing is confirmed until it is back.
        (victim, *_) = await coordinators_of(clients.values(), every.address)
        await network.nodes[NodeName(victim)].kill()
        await until_confirmed(loads[0], 3)
        await network.start(NodeName(victim))
        await until_confirmed(loads[1], 3)
        token = await _at(network.nodes[NAMES[0]].client, group.id, token.address)
        await (await token.send("mint", [address, 1], sender=MEMBERS[0]))
        minted += 1

        for load in loads:
            await load.end()
            assert await load.until_final(WAIT_S) == {}
            assert load.refusals == []
            for intent, promise in load.promises.items():
                assert load.receipts[intent].success is (promise.request.function != "revert"), promise
        for name, member in zip(NAMES, MEMBERS, strict=True):
            theirs = await _at(network.nodes[name].client, group.id, token.address)
            async with asyncio.timeout(WAIT_S):
                while (await theirs.call("balanceOf", [address], sender=member)) != {"balance": str(minted)}:
                    await asyncio.sleep(LOOK_S)
        assert set((await network.stop()).values()) == {0}


async def _at(client: Client, group: str, contract: str) -> GroupContract:
    found = await client.groups.get(group)
    assert found is not None
    return found.contract(contract, ARTIFACT.abi)


@pytest.mark.nightly
@pytest.mark.slow
def test_contracts_of_all_kinds_rotate_and_lose_nothing_when_a_coordinator_is_killed(tmp_path: Path) -> None:
    asyncio.run(play(tmp_path / "network"))
