"""The core's index and submitter on real chains: rounds committed and indexed, whatever the chain does meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from aiohttp import web

from rota.chain.events import BlocksFetched, HeadSeen, TransactionSent
from rota.ledger.follower import FollowerLimits
from rota.model.blocks import MinedStatus
from rota.model.types import IntentId
from tests.ledger.chains import Chain, in_loop, running
from tests.ledger.fault_proxy import Answer, Ask, Fault, Request, View, drop, proxied, with_status
from tests.ledger.participant import CONFIG, DEPLOYER, PAYER, Participant, deploy, taking_part

KINDS = ("embedded", pytest.param("anvil", marks=pytest.mark.slow))

pytestmark = pytest.mark.parametrize("kind", KINDS)


@asynccontextmanager
async def first_confirmed(kind: str, home: Path) -> AsyncIterator[tuple[Chain, Participant]]:
    """A chain of this kind and a node that follows it, of which an intent, A-1, is confirmed."""
    async with running(kind, home) as chain:
        contract = await deploy(chain)
        async with taking_part(Participant(chain.url, contract)) as node:
            await node.confirmed(node.submit("A-1"))
            yield chain, node


async def mine_and_confirm(chain: Chain, node: Participant, intent: IntentId) -> None:
    """Blocks are made by themselves again, and one at once."""
    await chain.rpc("evm_setAutomine", True)
    await chain.mine()
    await node.confirmed(intent)


@in_loop
async def test_round_is_committed_and_indexed(kind: str, tmp_path: Path) -> None:
    async with running(kind, tmp_path) as chain:
        contract = await deploy(chain)
        async with taking_part(Participant(chain.url, contract)) as node:
            intents = [node.submit(f"A-{number}") for number in range(5)]
            await node.confirmed(*intents)
            assert sorted(intent for _, intent in node.committed()) == sorted(intents)


@in_loop
async def test_intents_that_stand_on_one_another_are_committed_in_order(kind: str, tmp_path: Path) -> None:
    async with running(kind, tmp_path) as chain:
        contract = await deploy(chain)
        async with taking_part(Participant(chain.url, contract)) as node:
            intents = [node.submit(f"A-{number}", b"spend") for number in range(20)]
            await node.confirmed(*intents)
            assert [intent for _, intent in node.committed()] == intents


@in_loop
async def test_over_a_websocket_heads_come_by_subscription_too(kind: str, tmp_path: Path) -> None:
    async with running(kind, tmp_path) as chain:
        contract = await deploy(chain)
        slow = FollowerLimits(poll_ms=3_600_000)
        async with taking_part(Participant(chain.websocket_url, contract, limits=slow)) as node:
            await node.until(lambda: bool(node.disk.blocks))
            await chain.mine()
            await node.confirmed(node.submit("A-1"))
            assert len(node.saw(HeadSeen)) > 1


@in_loop
async def test_chain_that_is_killed_and_comes_back_is_followed_on(kind: str, tmp_path: Path) -> None:
    async with first_confirmed(kind, tmp_path) as (chain, node):
        await chain.kill()
        await node.until(lambda: not node.core.has_ledger)
        assert node.driver.trouble.startswith(f"the Ethereum node at {chain.url} cannot be reached: ")
        waiting = node.submit("A-2")
        await chain.restart()
        await node.confirmed(waiting)
        assert node.core.has_ledger
        assert node.driver.trouble == ""
        assert len(node.committed()) == 2


@in_loop
async def test_websocket_that_is_lost_is_made_anew(kind: str, tmp_path: Path) -> None:
    async with running(kind, tmp_path) as chain:
        contract = await deploy(chain)
        async with taking_part(Participant(chain.websocket_url, contract)) as node:
            await node.confirmed(node.submit("A-1"))
            await chain.kill()
            waiting = node.submit("A-2")
            await chain.restart()
            await node.confirmed(waiting)


@in_loop
async def test_another_chain_at_the_same_address_is_reported_and_not_believed(kind: str, tmp_path: Path) -> None:
    async with first_confirmed(kind, tmp_path) as (chain, node):
        await chain.kill()
        await chain.restart(is_fresh=True)
        await node.until(lambda: node.core.index.is_forked and not node.core.has_ledger)
        assert len(node.committed()) == 1


@in_loop
async def test_node_that_restarts_sends_what_it_had_not_sent(kind: str, tmp_path: Path) -> None:
    async with running(kind, tmp_path) as chain:
        contract = await deploy(chain)
        await chain.rpc("evm_setAutomine", False)
        async with taking_part(Participant(chain.url, contract)) as first:
            intent = first.submit("A-1")
            await first.until(lambda: bool(first.saw(TransactionSent)))
        await chain.rpc("anvil_dropAllTransactions")
        await chain.rpc("evm_setAutomine", True)
        second = Participant(chain.url, contract, first.disk, transitions=first.transitions)
        async with taking_part(second):
            await second.confirmed(intent)


@in_loop
async def test_while_mining_stalls_the_transaction_waits(kind: str, tmp_path: Path) -> None:
    async with first_confirmed(kind, tmp_path) as (chain, node):
        await chain.rpc("evm_setAutomine", False)
        intent = node.submit("A-2")
        await node.until(lambda: len(node.saw(TransactionSent)) >= 3)
        assert intent not in node.receipts
        assert node.core.has_ledger
        await mine_and_confirm(chain, node, intent)


@in_loop
async def test_transaction_that_the_pool_lost_is_sent_again(kind: str, tmp_path: Path) -> None:
    async with first_confirmed(kind, tmp_path) as (chain, node):
        await chain.rpc("evm_setAutomine", False)
        intent = node.submit("A-2")
        before = len(node.saw(TransactionSent))
        await node.until(lambda: len(node.saw(TransactionSent)) > before)
        await chain.rpc("anvil_dropAllTransactions")
        again = len(node.saw(TransactionSent))
        await node.until(lambda: len(node.saw(TransactionSent)) > again)
        await mine_and_confirm(chain, node, intent)


@pytest.mark.parametrize("depth", [1, 2, 3])
@in_loop
async def test_reorganisation_is_undone_and_its_rounds_are_committed_anew(
    kind: str, tmp_path: Path, depth: int
) -> None:
    async with running(kind, tmp_path) as chain:
        contract = await deploy(chain)
        config = replace(CONFIG, confirmations=3)
        async with taking_part(Participant(chain.url, contract, config=config)) as node:
            intent = node.submit("A-1")
            await node.until(lambda: bool(node.committed()))
            ((height, _),) = node.committed()
            await chain.mine(height + depth - 1 - await chain.height())
            await node.until(lambda: node.disk.height == height + depth - 1)
            await chain.reorganise(depth)
            await node.until(lambda: node.committed() not in ([], [(height, intent)]))
            assert intent not in node.receipts
            ((again, _),) = node.committed()
            assert again > height
            await chain.mine(3)
            await node.confirmed(intent)
            assert node.core.submitters.shared.submissions == {}


@in_loop
async def test_transaction_that_is_stuck_at_its_price_is_offered_for_more(kind: str, tmp_path: Path) -> None:
    async with first_confirmed(kind, tmp_path) as (chain, node):
        await chain.rpc("evm_setAutomine", False)
        intent = node.submit("A-2")
        await node.until(lambda: 1 in node.core.submitters.shared.submissions)
        offered = node.core.submitters.shared.submissions[1].dispatch.fees
        await node.until(lambda: node.core.submitters.shared.submissions[1].submission_count > 0)
        await chain.rpc("anvil_setNextBlockBaseFeePerGas", hex(4 * offered.most_wei))
        await chain.mine()
        await node.until(lambda: node.core.submitters.shared.submissions[1].dispatch.fees.most_wei > offered.most_wei)
        await node.until(lambda: node.core.submitters.shared.submissions[1].submission_count > 0)
        await mine_and_confirm(chain, node, intent)


@in_loop
async def test_account_without_funds_is_seen_by_an_operator_and_mended(kind: str, tmp_path: Path) -> None:
    async with running(kind, tmp_path) as chain:
        contract = await deploy(chain)
        await chain.rpc("anvil_setBalance", PAYER, "0x0")
        async with taking_part(Participant(chain.url, contract)) as node:
            intent = node.submit("A-1")
            await node.until(lambda: node.core.submitters.shared.trouble.startswith("insufficient funds: "))
            assert intent not in node.receipts
            await chain.rpc("anvil_setBalance", PAYER, hex(10**20))
            await node.confirmed(intent)
            assert node.core.submitters.shared.trouble == ""


@in_loop
async def test_nonce_that_a_stranger_took_gives_the_round_another(kind: str, tmp_path: Path) -> None:
    async with first_confirmed(kind, tmp_path) as (chain, node):
        await chain.rpc("evm_setAutomine", False)
        intent = node.submit("A-2")
        await node.until(lambda: 1 in node.core.submitters.shared.submissions)
        await node.until(lambda: node.core.submitters.shared.submissions[1].submission_count > 0)
        await chain.rpc("anvil_dropAllTransactions")
        stranger = {"from": PAYER, "to": DEPLOYER, "nonce": "0x1", "gas": "0x5208", "gasPrice": hex(10**12)}
        await chain.rpc("eth_sendTransaction", stranger)
        await mine_and_confirm(chain, node, intent)
        taken = [mined for block in node.disk.blocks for mined in block.mined if mined.nonce == 1]
        assert [mined.status for mined in taken] == [MinedStatus.TAKEN]


@in_loop
async def test_nonce_that_a_stranger_used_before_the_round_had_it_gives_the_round_another(
    kind: str, tmp_path: Path
) -> None:
    """The index has passed the block that used it, and no later block has it."""
    async with first_confirmed(kind, tmp_path) as (chain, node):
        stranger = {"from": PAYER, "to": DEPLOYER, "nonce": "0x1", "gas": "0x5208", "gasPrice": hex(10**12)}
        await chain.rpc("eth_sendTransaction", stranger)
        await chain.mine(2)
        height = int(await chain.rpc("eth_blockNumber"), 16)
        await node.until(lambda: node.core.height >= height)
        intent = node.submit("A-2")
        await node.until(lambda: 1 in node.core.submitters.shared.submissions)
        await mine_and_confirm(chain, node, intent)
        taken = [mined for block in node.disk.blocks for mined in block.mined if mined.nonce == 1]
        assert [mined.status for mined in taken] == [MinedStatus.TAKEN]


@in_loop
async def test_round_that_fails_as_a_whole_is_told_with_the_contracts_own_reason(kind: str, tmp_path: Path) -> None:
    async with first_confirmed(kind, tmp_path) as (chain, node):
        await chain.rpc("evm_setAutomine", False)
        node.submit("A-2")
        await node.until(lambda: 1 in node.core.submitters.shared.submissions)
        await node.until(lambda: node.core.submitters.shared.submissions[1].submission_count > 0)
        await chain.rpc("evm_increaseTime", 3_600)
        await chain.mine()
        await node.until(lambda: any(block.mined and block.mined[0].nonce == 1 for block in node.disk.blocks))
        mined = [mined for block in node.disk.blocks for mined in block.mined if mined.nonce == 1]
        assert [each.status for each in mined] == [MinedStatus.FAILED]
        assert mined[0].reason.startswith("Expired(")


@in_loop
async def test_node_of_another_chain_is_not_believed(kind: str, tmp_path: Path) -> None:
    async with running(kind, tmp_path) as chain, proxied(chain.url) as (proxy, url):
        contract = await deploy(chain)
        asked_again = asyncio.Event()
        proxy.view = with_chain_id("0x1", asked_again)
        async with taking_part(Participant(url, contract), is_reached=False) as node:
            await asked_again.wait()
            assert node.driver.trouble.endswith("its chain id is 1, and ours is 31337")
            assert not node.core.has_ledger
            assert node.saw(HeadSeen) == []
            proxy.view = None
            await node.until(lambda: bool(node.disk.blocks))
            await node.confirmed(node.submit("A-1"))


@in_loop
async def test_rate_limits_dropped_connections_and_overload_are_lived_with(kind: str, tmp_path: Path) -> None:
    async with running(kind, tmp_path) as chain, proxied(chain.url) as (proxy, url):
        contract = await deploy(chain)
        proxy.fault = now_and_then(Random(7), drop, with_status(429, Retry_After="0"), with_status(503), delay)
        async with taking_part(Participant(url, contract)) as node:
            intents = [node.submit(f"A-{number}", b"spend") for number in range(10)]
            await node.confirmed(*intents)
            assert [intent for _, intent in node.committed()] == intents


@pytest.mark.slow
@in_loop
async def test_behind_nodes_of_which_some_lag_nothing_is_missed(kind: str, tmp_path: Path) -> None:
    async with running(kind, tmp_path) as chain, proxied(chain.url) as (proxy, url):
        contract = await deploy(chain)
        balancer = LoadBalancer(Random(11), chain)
        proxy.fault, proxy.view = balancer.choose, balancer.view
        async with taking_part(Participant(url, contract)) as node:
            for number in range(8):
                await node.confirmed(node.submit(f"A-{number}", b"spend"))
                await chain.mine(2)
            await node.until(lambda: node.core.index.head is not None and node.disk.height >= 16)
            told = {
                block for event in node.saw(BlocksFetched) for block in event.blocks if block.height <= node.disk.height
            }
        async with taking_part(Participant(chain.url, contract)) as other:
            await other.until(lambda: other.disk.height >= node.disk.height)
            truth = {block.hash: block.outcomes for block in other.disk.blocks}
            assert {block.hash: block.outcomes for block in told if block.outcomes} == {
                each: outcomes for each, outcomes in truth.items() if outcomes
            }


def now_and_then(choice: Random, *faults: Fault) -> Fault:
    """One of these faults for every second exchange or so."""

    async def fault(request: web.Request, requests: list[Request]) -> web.StreamResponse | None:
        return await choice.choice(faults)(request, requests) if choice.random() < 0.4 else None

    return fault


async def delay(_: web.Request, __: list[Request]) -> web.StreamResponse | None:
    """Others go first."""
    for _turn in range(20):
        await asyncio.sleep(0)
    return None


class LoadBalancer:
    """Every exchange goes to a node that may be up to three blocks behind, and some that overlap to several."""

    def __init__(self, choice: Random, chain: Chain) -> None:
        self.choice = choice
        self.chain = chain
        self.lag = 0

    async def choose(self, _: web.Request, __: list[Request]) -> web.StreamResponse | None:
        self.lag = self.choice.choice((0, 0, 1, 3))
        return None

    async def view(self, request: Request, ask: Ask) -> Answer:
        head = max(0, await self.chain.height() - self.lag)
        method, parameters = request["method"], request["params"]
        if method == "eth_getBlockByNumber":
            if parameters[0] == "latest":
                return await ask({**request, "params": [hex(head), parameters[1]]})
            return {**request, "result": None} if int(parameters[0], 16) > head else await ask(request)
        if method == "eth_getLogs" and "fromBlock" in parameters[0]:
            first, last = (int(parameters[0][name], 16) for name in ("fromBlock", "toBlock"))
            if first > head:
                return {**request, "result": []}
            return await ask({**request, "params": [{**parameters[0], "toBlock": hex(min(last, head))}]})
        if method == "eth_getTransactionCount" and parameters[1].startswith("0x"):
            return await ask({**request, "params": [parameters[0], hex(min(int(parameters[1], 16), head))]})
        if method == "eth_getTransactionReceipt" and self.lag:
            return {**request, "result": None}
        return await ask(request)


def with_chain_id(chain_id: str, asked_again: asyncio.Event) -> View:
    """A node that tells another chain's id; who asks a second time has read the first answer."""
    asked_count = 0

    async def view(request: Request, ask: Ask) -> Answer:
        nonlocal asked_count
        answer = await ask(request)
        if request["method"] != "eth_chainId":
            return answer
        asked_count += 1
        if asked_count > 1:
            asked_again.set()
        return {**answer, "result": chain_id}

    return view
