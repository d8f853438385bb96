"""A follower that waits for a deployment brings it with its block, and with it the rounds of the new contract."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from rota.calldata import ROUND_TOPIC
from rota.chain.events import BlocksFetched
from rota.ledger.bindings import deploy_proved, read_deployment, topic_of
from rota.ledger.client import RpcClient
from rota.ledger.consistency import Patience
from rota.ledger.follower import Follower, FollowerLimits
from rota.ledger.hexadecimal import data
from rota.ledger.own_nonces import OwnNonces
from rota.model.types import ContractAddress
from rota.sim.domain import intent_id
from tests.ledger.chains import CHAIN_ID, in_loop
from tests.ledger.fault_proxy import Answer, Ask, Request
from tests.ledger.participant import PAYER, OneContract, send
from tests.ledger.test_follower import KINDS, LIMITS, Scene, scene, without_logs_of_ranges

DEPLOYMENT = intent_id("genesis")
OTHER = ContractAddress("0x" + "99" * 20)


async def factory_of(made: Scene) -> ContractAddress:
    """The factory that deployed the scene's contract."""
    topics = [data(topic_of("Factory", "EndorsedDeployed"))]
    (log,) = await made.chain.rpc("eth_getLogs", {"fromBlock": "0x0", "topics": topics})
    return ContractAddress(log["address"])


@asynccontextmanager
async def stranger(made: Scene, factory: ContractAddress | None, **options: int) -> AsyncIterator[Follower]:
    """A follower that does not know the contract."""
    client = RpcClient(made.url, LIMITS)
    own = OwnNonces(client, 256, Patience(3, 1))
    contracts = OneContract(replace(made.contract, address=OTHER))
    limits = FollowerLimits(**options)
    try:
        yield Follower(client, CHAIN_ID, contracts, own, print, limits, Patience(3, 1), factory)
    finally:
        await client.close()


def outcomes(fetched: BlocksFetched | None) -> list[tuple[int, int]]:
    """How many outcomes the blocks have that have any."""
    assert fetched is not None
    return [(block.height, len(block.outcomes)) for block in fetched.blocks if block.outcomes]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("addresses_max", [100, 1])
@in_loop
async def test_deployment_that_is_awaited_comes_with_the_rounds_of_its_contract(
    kind: str, addresses_max: int, tmp_path: Path
) -> None:
    async with scene(kind, tmp_path) as made:
        truth = await made.truth()
        awaited = (intent_id("another"), DEPLOYMENT)
        async with stranger(made, await factory_of(made), addresses_max=addresses_max) as follower:
            fetched = await follower.fetch(0, made.last, awaited)
            assert fetched is not None
            found = [(block.height, each) for block in fetched.blocks for each in block.deployments]
            ((height, deployed),) = found
            assert (deployed.intent, deployed.contract, deployed.threshold) == (DEPLOYMENT, made.contract.address, 1)
            assert 0 < height < outcomes(truth)[0][0]
            assert outcomes(fetched) == outcomes(truth)


@in_loop
async def test_what_nobody_waits_for_is_not_told(tmp_path: Path) -> None:
    async with scene("embedded", tmp_path) as made:
        factory = await factory_of(made)
        for where, awaited in ((factory, ()), (factory, (intent_id("another"),)), (OTHER, (DEPLOYMENT,))):
            async with stranger(made, where) as follower:
                fetched = await follower.fetch(0, made.last, awaited)
                assert outcomes(fetched) == []
                assert fetched is not None
                assert not any(block.deployments for block in fetched.blocks)
        async with stranger(made, None) as follower:
            assert outcomes(await follower.fetch(0, made.last, (DEPLOYMENT,))) == []


@in_loop
async def test_deployment_that_the_node_does_not_tell_of_and_its_header_does_is_no_answer(tmp_path: Path) -> None:
    async with scene("embedded", tmp_path) as made:
        factory = await factory_of(made)
        made.proxy.view = without_logs_of_ranges
        async with stranger(made, factory) as follower:
            assert await follower.fetch(0, made.last, (DEPLOYMENT,)) is None
            assert "did not tell of a deployment" in follower.trouble


def silent_contract_that_logs_a_round() -> bytes:
    """Creation code of a contract whose constructor emits a log with the topic of a Round, and nothing of a round."""
    log = b"\x7f" + ROUND_TOPIC + bytes.fromhex("60006000a1")
    returned = bytes.fromhex("60016000f3")
    return log + returned


@in_loop
async def test_foreign_contract_under_an_awaited_id_does_not_stop_the_index(tmp_path: Path) -> None:
    """Any account that sees an id before it is used can have the factory create foreign code under it."""
    async with scene("embedded", tmp_path) as made:
        factory, taken = await factory_of(made), intent_id("awaited")
        call = deploy_proved(taken, bytes(32), ContractAddress(PAYER), silent_contract_that_logs_a_round(), b"")
        await send(made.chain, {"to": factory, "data": data(call)})
        last = await made.chain.height()
        async with stranger(made, factory) as follower:
            fetched = await follower.fetch(0, last, (taken, DEPLOYMENT))
            assert fetched is not None, follower.trouble
            found = [each.intent for block in fetched.blocks for each in block.deployments]
            assert found == [DEPLOYMENT, taken]
            assert len(outcomes(fetched)) == len(outcomes(await made.truth()))


@in_loop
async def test_unreadable_log_of_a_known_contract_is_no_answer(tmp_path: Path) -> None:
    async with scene("embedded", tmp_path) as made:
        factory, taken = await factory_of(made), intent_id("awaited")
        call = deploy_proved(taken, bytes(32), ContractAddress(PAYER), silent_contract_that_logs_a_round(), b"")
        receipt = await send(made.chain, {"to": factory, "data": data(call)})
        known = read_deployment(receipt.logs[-1]).contract
        async with made.follower(more=(known,)) as follower:
            assert await follower.fetch(0, await made.chain.height()) is None
            assert "the contracts are not ours" in follower.trouble


@in_loop
async def test_foreign_contract_with_more_logs_than_the_node_tells_does_not_stop_the_index(tmp_path: Path) -> None:
    async with scene("embedded", tmp_path) as made:
        factory, taken = await factory_of(made), intent_id("awaited")
        call = deploy_proved(taken, bytes(32), ContractAddress(PAYER), silent_contract_that_logs_a_round(), b"")
        receipt = await send(made.chain, {"to": factory, "data": data(call)})
        foreign = read_deployment(receipt.logs[-1]).contract

        async def view(request: Request, ask: Ask) -> Answer:
            """As a node that returns at most 10,000 logs, where the foreign contract has more."""
            wanted = request["params"][0] if request["method"] == "eth_getLogs" else {}
            if foreign in wanted.get("address", (foreign,) if wanted else ()):
                error = {"code": -32005, "message": "query returned more than 10000 results"}
                return {"jsonrpc": "2.0", "id": request["id"], "error": error}
            return await ask(request)

        last, truth = await made.chain.height(), await made.truth()
        made.proxy.view = view
        for addresses_max in (100, 1):
            async with stranger(made, factory, addresses_max=addresses_max) as follower:
                fetched = await follower.fetch(0, last, (taken, DEPLOYMENT))
                assert fetched is not None, follower.trouble
                assert outcomes(fetched) == outcomes(truth)
