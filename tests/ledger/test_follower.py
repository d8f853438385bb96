"""What a follower brings: blocks of one chain, whole, or nothing."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from rota.chain.effects import SubmitTransaction
from rota.chain.events import BlocksFetched, HeadSeen
from rota.ledger.client import ClientLimits, RpcClient
from rota.ledger.consistency import Patience
from rota.ledger.follower import Follower, FollowerLimits, is_range_too_large
from rota.ledger.own_nonces import OwnNonces
from rota.ledger.transaction import decode
from rota.ledger.transports import RpcFailure
from rota.machine.tables import Event
from rota.model.blocks import MinedStatus, MinedTransaction
from rota.model.types import Contract, ContractAddress
from rota.ports import Unavailable
from rota.sim.domain import drawn_id
from tests.ledger.chains import CHAIN_ID, Chain, in_loop, running
from tests.ledger.fault_proxy import Answer, Ask, FaultProxy, Request, View, proxied
from tests.ledger.participant import PARTY, PAYER, OneContract, Participant, deploy, taking_part

KINDS = ("embedded", pytest.param("anvil", marks=pytest.mark.slow))
LIMITS = ClientLimits(timeout_ms=5_000, backoff_ms=1, backoff_max_ms=5)


@dataclass
class Scene:
    """A chain with rounds in some of its blocks, and what a follower that nobody disturbs says of them."""

    chain: Chain
    proxy: FaultProxy
    url: str
    contract: Contract
    participant: Participant
    last: int

    @asynccontextmanager
    async def follower(
        self,
        limits: ClientLimits = LIMITS,
        is_watching_nonces: bool = True,
        told: list[Event] | None = None,
        more: tuple[ContractAddress, ...] = (),
        **options: int,
    ) -> AsyncIterator[Follower]:
        """A new follower behind the proxy; it looks for the nonces that were used."""
        client = RpcClient(self.url, limits)
        own = OwnNonces(client, 256, Patience(3, 1))
        if is_watching_nonces:
            for nonce, call_data in enumerate(self.calls):
                own.note(ContractAddress(PAYER), nonce, self.contract.address, call_data)
        heard: list[Event] = [] if told is None else told
        contracts = OneContract(self.contract, more)
        try:
            yield Follower(client, CHAIN_ID, contracts, own, heard.append, FollowerLimits(**options), Patience(3, 1))
        finally:
            await client.close()

    @property
    def calls(self) -> list[bytes]:
        sent = [effect for effect in self.participant.effects if isinstance(effect, SubmitTransaction)]
        by_nonce = {each.dispatch.nonce: decode(each.dispatch.transaction).transaction.data for each in sent}
        return [by_nonce[nonce] for nonce in sorted(by_nonce)]

    async def truth(self) -> BlocksFetched:
        view, self.proxy.view = self.proxy.view, None
        async with self.follower() as follower:
            fetched = await follower.fetch(0, self.last)
        self.proxy.view = view
        assert fetched is not None
        return fetched


@asynccontextmanager
async def scene(kind: str, home: Path, rounds: int = 3, blocks_between: int = 2) -> AsyncIterator[Scene]:
    async with running(kind, home) as chain, proxied(chain.url) as (proxy, url):
        contract = await deploy(chain)
        async with taking_part(Participant(chain.url, contract)) as node:
            for number in range(rounds):
                await node.confirmed(node.submit(f"A-{number}", b"spend"))
                await chain.mine(blocks_between)
        yield Scene(chain, proxy, url, contract, node, await chain.height())


@pytest.mark.parametrize("kind", KINDS)
@in_loop
async def test_rounds_of_one_contract_are_those_that_the_index_brings(kind: str, tmp_path: Path) -> None:
    async with scene(kind, tmp_path) as made, made.follower(is_watching_nonces=False) as follower:
        indexed = {block.height: block.outcomes for block in (await made.truth()).blocks if block.outcomes}
        found = await follower.rounds_of(made.contract.address, 0, made.last)
        assert {block.height: block.outcomes for block in found} == indexed
        assert await follower.rounds_of(ContractAddress("0x" + "99" * 20), 0, made.last) == ()
        with pytest.raises(Unavailable, match="does not tell the rounds"):
            await follower.rounds_of(made.contract.address, 0, made.last + 9)


@pytest.mark.parametrize("kind", KINDS)
@in_loop
async def test_range_brings_its_ends_and_the_blocks_that_concern_us(kind: str, tmp_path: Path) -> None:
    async with scene(kind, tmp_path) as made, made.follower() as follower:
        fetched = await follower.fetch(0, made.last)
        assert fetched is not None
        concerning = [block for block in fetched.blocks if block.outcomes]
        assert [block.outcomes[0][1].intent for block in concerning] == [
            drawn_id(f"A-{n}", PARTY, made.contract.address) for n in range(3)
        ]
        assert [block.mined for block in concerning] == [
            (MinedTransaction(nonce, MinedStatus.SUCCEEDED),) for nonce in range(3)
        ]
        assert (fetched.blocks[0].height, fetched.blocks[-1].height) == (0, made.last)
        assert len(fetched.blocks) == 5
        for block in fetched.blocks:
            told = await made.chain.rpc("eth_getBlockByNumber", hex(block.height), False)
            assert ("0x" + block.hash.hex(), "0x" + block.parent.hex()) == (told["hash"], told["parentHash"])
            assert block.time_s == int(told["timestamp"], 16)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("code", "text"),
    [
        (-32005, "query returned more than 10000 results"),
        (-32602, "Query exceeds max results 20000, retry with the range 1-2"),
        (-32000, "exceed maximum block range: 5000"),
        (-32602, "Log response size exceeded. You can make eth_getLogs requests with up to a 2K block range"),
        (-32600, "eth_getLogs is limited to a 10,000 range"),
        (-32000, "block range is too wide"),
    ],
)
@in_loop
async def test_range_that_the_node_refuses_as_too_large_is_divided(
    kind: str, tmp_path: Path, code: int, text: str
) -> None:
    async with scene(kind, tmp_path) as made:
        truth = await made.truth()
        made.proxy.view = refusing_ranges_above(2, {"code": code, "message": text})
        async with made.follower() as follower:
            assert await follower.fetch(0, made.last) == truth
            made.proxy.methods.clear()
            assert await follower.fetch(0, made.last) == truth
            # The size that the node took is remembered: nothing is asked for in vain any more.
            assert made.proxy.methods["eth_getLogs"] == -(-(made.last + 1) // 2)


@in_loop
async def test_single_block_that_the_node_refuses_is_told_to_an_operator(tmp_path: Path) -> None:
    async with scene("embedded", tmp_path, rounds=1) as made:
        made.proxy.view = refusing_ranges_above(0, {"code": -32005, "message": "query returned more than 1 results"})
        async with made.follower() as follower:
            assert await follower.fetch(0, made.last) is None
            assert "the node refuses the logs of the single block 0: query returned more" in follower.trouble


@in_loop
async def test_range_whose_logs_are_longer_than_an_answer_may_be_is_divided(tmp_path: Path) -> None:
    async with scene("embedded", tmp_path, rounds=8, blocks_between=1) as made:
        truth = await made.truth()
        logs = await made.chain.rpc("eth_getLogs", {"fromBlock": "0x0", "address": made.contract.address})
        header = await made.chain.rpc("eth_getBlockByNumber", "latest", False)
        longest = max(len(json.dumps(each)) for each in (*logs, header)) + 200
        assert longest < len(json.dumps(logs)) // 2, "a single block fits, and all of them do not"
        limits = replace(LIMITS, answer_bytes_max=longest)
        async with made.follower(limits, is_watching_nonces=False) as follower:
            fetched = await follower.fetch(0, made.last)
            assert fetched is not None, follower.trouble
            assert [block.outcomes for block in fetched.blocks if block.outcomes] == [
                block.outcomes for block in truth.blocks if block.outcomes
            ]


@in_loop
async def test_flood_of_foreign_logs_in_a_block_does_not_stop_a_node_with_many_contracts(tmp_path: Path) -> None:
    """A node with more contracts than fit into a filter receives all logs with the topics of rounds."""
    async with scene("embedded", tmp_path) as made:
        truth = await made.truth()
        more = tuple(ContractAddress(f"0x{number:040x}") for number in range(1, 8))

        async def view(request: Request, ask: Ask) -> Answer:
            """As a node that returns at most 10,000 logs, where each block has more of a foreign contract."""
            if request["method"] == "eth_getLogs" and "address" not in request["params"][0]:
                error = {"code": -32005, "message": "query returned more than 10000 results"}
                return {"jsonrpc": "2.0", "id": request["id"], "error": error}
            return await ask(request)

        made.proxy.view = view
        async with made.follower(more=more, addresses_max=3) as follower:
            assert await follower.fetch(0, made.last) == truth, follower.trouble


@in_loop
async def test_flood_of_foreign_logs_that_the_bloom_promises_does_not_stop_a_node_with_many_contracts(
    tmp_path: Path,
) -> None:
    async with scene("embedded", tmp_path) as made:
        truth = await made.truth()
        more = tuple(ContractAddress(f"0x{number:040x}") for number in range(1, 8))

        async def view(request: Request, ask: Ask) -> Answer:
            """As a node that lags behind for ranges, and refuses a block that is asked for by its hash."""
            wanted = request["params"][0] if request["method"] == "eth_getLogs" else {}
            if "blockHash" in wanted and "address" not in wanted:
                error = {"code": -32005, "message": "query returned more than 10000 results"}
                return {"jsonrpc": "2.0", "id": request["id"], "error": error}
            return await without_logs_of_ranges(request, ask)

        made.proxy.view = view
        async with made.follower(more=more, addresses_max=3) as follower:
            assert await follower.fetch(0, made.last) == truth, follower.trouble


def test_range_that_the_node_does_not_have_yet_is_not_divided() -> None:
    assert not is_range_too_large(RpcFailure(-32602, "block range extends beyond current head block"))
    assert not is_range_too_large(RpcFailure(-32000, "header not found"))


@in_loop
async def test_block_that_the_node_does_not_have_is_no_answer(tmp_path: Path) -> None:
    async with scene("embedded", tmp_path, rounds=1) as made, made.follower() as follower:
        assert await follower.fetch(0, made.last + 1) is None
        assert follower.trouble == f"blocks 0 to {made.last + 1}: the node does not have block {made.last + 1}"


@in_loop
async def test_logs_that_a_lagging_node_left_out_are_found_by_the_bloom(tmp_path: Path) -> None:
    async with scene("embedded", tmp_path) as made:
        truth = await made.truth()
        made.proxy.view = without_logs_of_ranges
        async with made.follower() as follower:
            assert await follower.fetch(0, made.last) == truth


@in_loop
async def test_without_batches_every_header_is_looked_at(tmp_path: Path) -> None:
    async with scene("embedded", tmp_path) as made:
        truth = await made.truth()
        made.proxy.view = without_logs_of_ranges
        async with made.follower(ClientLimits(batch_max=1), linked_blocks_max=1) as follower:
            assert await follower.fetch(0, made.last) == truth


@in_loop
async def test_range_that_is_answered_from_another_chain_is_no_answer(tmp_path: Path) -> None:
    async with scene("embedded", tmp_path) as made, made.follower(linked_blocks_max=1) as follower:
        made.proxy.view = with_other("eth_getLogs", "blockHash", "0x" + "77" * 32)
        assert await follower.fetch(0, made.last) is None
        assert "is of another block than its header" in follower.trouble


@in_loop
async def test_chain_that_changes_while_it_is_asked_is_no_answer(tmp_path: Path) -> None:
    async with scene("embedded", tmp_path) as made, made.follower() as follower:

        async def view(request: Request, ask: Ask) -> Answer:
            if request["method"] == "eth_getLogs":
                await made.chain.reorganise(1)
            return await ask(request)

        made.proxy.view = view
        assert await follower.fetch(0, made.last) is None
        assert "the chain changed" in follower.trouble


@in_loop
async def test_nonce_that_is_visible_before_its_receipt_is_no_answer_yet(tmp_path: Path) -> None:
    async with scene("embedded", tmp_path) as made:
        truth = await made.truth()

        async def view(request: Request, ask: Ask) -> Answer:
            is_receipt = request["method"] == "eth_getTransactionReceipt"
            return {**request, "result": None} if is_receipt else await ask(request)

        made.proxy.view = view
        async with made.follower() as follower:
            assert await follower.fetch(0, made.last) is None
            assert "the receipt of 0x" in follower.trouble
            made.proxy.view = None
            assert await follower.fetch(0, made.last) == truth


@in_loop
async def test_node_that_has_no_old_states_is_searched_block_by_block(tmp_path: Path) -> None:
    async with scene("embedded", tmp_path) as made:
        truth = await made.truth()

        async def view(request: Request, ask: Ask) -> Answer:
            if request["method"] != "eth_getTransactionCount":
                return await ask(request)
            error = {"code": -32000, "message": "missing trie node 0x00 (path ) state is not available"}
            return {"jsonrpc": "2.0", "id": request["id"], "error": error}

        made.proxy.view = view
        async with made.follower() as follower:
            assert await follower.fetch(0, made.last) == truth


@in_loop
async def test_without_nonces_of_ours_no_block_is_looked_into(tmp_path: Path) -> None:
    async with scene("embedded", tmp_path) as made, made.follower(is_watching_nonces=False) as follower:
        made.proxy.methods.clear()
        await follower.fetch(0, made.last)
        assert "eth_getTransactionCount" not in made.proxy.methods


@in_loop
async def test_nonces_in_deep_blocks_are_forgotten(tmp_path: Path) -> None:
    async with scene("embedded", tmp_path) as made:
        client = RpcClient(made.url, LIMITS)
        own = OwnNonces(client, 4, Patience(3, 1))
        for nonce, call_data in enumerate([*made.calls, b"not mined yet"]):
            own.note(ContractAddress(PAYER), nonce, made.contract.address, call_data)
        follower = Follower(client, CHAIN_ID, OneContract(made.contract), own, print)
        assert await follower.fetch(0, made.last) is not None
        # Nonces 0 to 2 are in blocks 3, 6 and 9 of 11, and the last in none: two are within four blocks of the end.
        assert len(own) == 2
        await client.close()


@pytest.mark.slow
@in_loop
async def test_many_nonces_in_a_long_range_are_found(tmp_path: Path) -> None:
    async with scene("embedded", tmp_path, rounds=40, blocks_between=1) as made:
        truth = await made.truth()
        mined = [mined.nonce for block in truth.blocks for mined in block.mined]
        assert mined == list(range(40))


JUNK: tuple[Any, ...] = (None, 5, "", "0x", "0xzz", "word", [], {}, [None], {"code": 1}, True, -1, "0x" + "1" * 70)


@pytest.mark.slow
@in_loop
async def test_whatever_a_node_says_the_answer_is_true_or_none(tmp_path: Path) -> None:
    """Every field of every kind of answer is replaced by junk, one at a time, again and again."""
    async with scene("embedded", tmp_path, rounds=2, blocks_between=1) as made:
        truth = await made.truth()
        choice = Random(5)
        spoilt = 0
        for _ in range(150):
            spoiler = Spoiler(choice)
            made.proxy.view = spoiler.view
            async with made.follower(linked_blocks_max=choice.choice((1, 64))) as follower:
                fetched = await follower.fetch(0, made.last)
            assert fetched in (None, truth), spoiler.done
            spoilt += fetched is None
        assert spoilt > 30


class Spoiler:
    """Spoils a field of one answer, and from then on of all that have the same method."""

    def __init__(self, choice: Random) -> None:
        self.choice = choice
        self.done = ""
        methods = ("eth_getBlockByNumber", "eth_getLogs", "eth_getTransactionCount", "eth_getTransactionReceipt")
        self.method = choice.choice(methods)
        self.junk = choice.choice(JUNK)
        self.place = choice.random()

    async def view(self, request: Request, ask: Ask) -> Answer:
        answer = await ask(request)
        if request["method"] == self.method and "result" in answer:
            answer = copy.deepcopy(answer)
            self.spoil(answer)
        return answer

    def spoil(self, answer: Answer) -> None:
        holder: Any = answer
        key: Any = "result"
        while isinstance(holder[key], dict | list) and holder[key] and self.place > 0.05:
            holder = holder[key]
            keys = sorted(holder) if isinstance(holder, dict) else range(len(holder))
            key = list(keys)[int(self.place * len(holder)) % len(holder)]
        self.done = f"{self.method}: {key} is {self.junk!r}"
        holder[key] = self.junk


# Heads.


@in_loop
async def test_head_is_told_at_every_look_changed_or_not(tmp_path: Path) -> None:
    async with running("embedded", tmp_path) as chain:
        told: list[Event] = []
        client = RpcClient(chain.url, LIMITS)
        own = OwnNonces(client, 256, Patience())
        follower = Follower(client, CHAIN_ID, OneContract(await deploy(chain)), own, told.append)
        await follower.poll()
        await follower.poll()
        await chain.mine()
        await follower.poll()
        await client.close()
        heads = [event for event in told if isinstance(event, HeadSeen)]
        assert [head.height for head in heads] == [2, 2, 3]
        assert heads[0] == heads[1]
        assert heads[0].base_fee_wei > 0


@pytest.mark.parametrize(
    ("answers", "trouble"),
    [
        ({"eth_chainId": "0x1"}, "its chain id is 1, and ours is 31337"),
        ({"eth_chainId": "one"}, "expected 0x and hex digits without leading zeros, not 'one'"),
        ({"eth_getBlockByNumber": None}, "it has none"),
        ({"eth_getBlockByNumber": {}}, "number: expected a quantity such as 0x1f as a string, not None"),
        ({"eth_getBlockByNumber": RpcFailure(-32000, "syncing")}, "syncing (code -32000)"),
    ],
)
@in_loop
async def test_head_that_cannot_be_told_is_trouble_and_no_news(
    tmp_path: Path, answers: dict[str, Any], trouble: str
) -> None:
    async with scene("embedded", tmp_path, rounds=0) as made:
        made.proxy.view = answering(answers)
        told: list[Event] = []
        async with made.follower(told=told) as follower:
            await follower.poll()
            assert follower.trouble == f"the Ethereum node at {made.url} tells of its latest block: {trouble}"
            made.proxy.view = None
            await follower.poll()
            assert follower.trouble == ""
            assert len(told) == 1


@in_loop
async def test_logs_that_cannot_be_read_stop_the_index_loudly(tmp_path: Path) -> None:
    async with scene("embedded", tmp_path, rounds=1) as made, made.follower() as follower:
        made.proxy.view = with_other("eth_getLogs", "data", "0x" + "00" * 96)
        assert await follower.fetch(0, made.last) is None
        assert f"the contracts are not ours: log 0 of block 3, {made.contract.address}: " in follower.trouble


@in_loop
async def test_range_that_takes_too_long_is_divided(tmp_path: Path) -> None:
    async with scene("embedded", tmp_path) as made:
        truth = await made.truth()
        never = asyncio.Event()

        async def slow(request: Request, ask: Ask) -> Answer:
            wanted = request["params"][0] if request["method"] == "eth_getLogs" else {}
            if "fromBlock" in wanted and int(wanted["toBlock"], 16) - int(wanted["fromBlock"], 16) > 3:
                await never.wait()
            return await ask(request)

        made.proxy.view = slow
        async with made.follower(replace(LIMITS, timeout_ms=150)) as follower:
            assert await follower.fetch(0, made.last) == truth
        never.set()


@in_loop
async def test_with_many_contracts_logs_are_told_apart_here(tmp_path: Path) -> None:
    async with scene("embedded", tmp_path) as made:
        truth = await made.truth()
        filters: list[dict[str, Any]] = []

        async def look(request: Request, ask: Ask) -> Answer:
            if request["method"] == "eth_getLogs":
                filters.append(request["params"][0])
            return await ask(request)

        made.proxy.view = look
        other = ContractAddress("0x" + "55" * 20)
        async with made.follower(addresses_max=1, more=(other,)) as follower:
            assert await follower.fetch(0, made.last) == truth
        assert filters
        assert not any("address" in each for each in filters)


@in_loop
async def test_logs_of_contracts_that_are_not_ours_are_left_out(tmp_path: Path) -> None:
    async with scene("embedded", tmp_path, rounds=1) as made:
        made.contract = replace(made.contract, address=ContractAddress("0x" + "55" * 20))
        async with made.follower(addresses_max=1, more=(ContractAddress("0x" + "66" * 20),)) as follower:
            fetched = await follower.fetch(0, made.last)
            assert fetched is not None
            assert not any(block.outcomes for block in fetched.blocks)


def answering(answers: dict[str, Any]) -> View:
    """Answers some methods in the node's place."""

    async def view(request: Request, ask: Ask) -> Answer:
        if request["method"] not in answers:
            return await ask(request)
        answer = answers[request["method"]]
        if isinstance(answer, RpcFailure):
            error = {"code": answer.code, "message": answer.message}
            return {"jsonrpc": "2.0", "id": request["id"], "error": error}
        return {"jsonrpc": "2.0", "id": request["id"], "result": answer}

    return view


# Catching up.


@pytest.mark.slow
@in_loop
async def test_node_that_is_100000_blocks_behind_catches_up_by_ranges(tmp_path: Path) -> None:
    async with running("embedded", tmp_path) as chain:
        contract = await deploy(chain)
        async with taking_part(Participant(chain.url, contract)) as first:
            await first.confirmed(first.submit("A-1"))
        for _ in range(10):
            await chain.mine(10_000)
        async with taking_part(Participant(chain.url, contract)) as node:
            await node.until(lambda: node.disk.height == 100_003)
            assert [intent for _, intent in node.committed()] == [drawn_id("A-1", PARTY, contract.address)]
            fetches = len(node.saw(BlocksFetched))
            assert fetches <= 210
            assert node.client.request_count < 12 * fetches + 2 * len(node.saw(HeadSeen)) + 100


def refusing_ranges_above(most: int, error: dict[str, Any]) -> View:
    async def view(request: Request, ask: Ask) -> Answer:
        wanted = request["params"][0] if request["method"] == "eth_getLogs" else {}
        if "fromBlock" in wanted and int(wanted["toBlock"], 16) - int(wanted["fromBlock"], 16) + 1 > most:
            return {"jsonrpc": "2.0", "id": request["id"], "error": error}
        return await ask(request)

    return view


async def without_logs_of_ranges(request: Request, ask: Ask) -> Answer:
    """As a node that does not have the blocks of a range yet, but answers all the same."""
    is_range = request["method"] == "eth_getLogs" and "fromBlock" in request["params"][0]
    return {**request, "result": []} if is_range else await ask(request)


def with_other(method: str, name: str, value: str) -> View:
    async def view(request: Request, ask: Ask) -> Answer:
        answer = await ask(request)
        if request["method"] != method:
            return answer
        return {**answer, "result": [{**each, name: value} for each in answer["result"]]}

    return view
