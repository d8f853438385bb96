"""What became of our own nonces, as a scripted node tells it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from rota.ledger.client import RpcClient
from rota.ledger.consistency import Inconsistent, Patience
from rota.ledger.own_nonces import OwnNonces
from rota.ledger.reading import Header
from rota.model.blocks import MinedStatus, MinedTransaction
from rota.model.types import BlockHash, ContractAddress
from tests.ledger.chains import in_loop
from tests.ledger.fault_proxy import Answer, Ask, Request, View, proxied

ACCOUNT = ContractAddress("0x" + "aa" * 20)
CONTRACT = ContractAddress("0x" + "cc" * 20)
OTHER = ContractAddress("0x" + "bb" * 20)
CALL = b"commit"
GAS = 100_000


def hash_at(height: int) -> str:
    return f"0x{height + 1:064x}"


def block_at(height: int) -> dict[str, Any]:
    return {
        "number": hex(height),
        "hash": hash_at(height),
        "parentHash": hash_at(height - 1) if height else "0x" + "00" * 32,
        "timestamp": hex(1_000 + height),
        "baseFeePerGas": "0x1",
        "logsBloom": "0x" + "00" * 256,
    }


LAST = Header(
    4, BlockHash(bytes.fromhex(hash_at(4)[2:])), BlockHash(bytes.fromhex(hash_at(3)[2:])), 1_004, 1, bytes(256)
)


def node(*, used: dict[int, int], failure: dict[str, Any] | None = None, gas_used: int = 1, to: str = CONTRACT) -> View:
    """A chain in which `used` maps a block to the nonce that it uses; the call failed, and made again it does this."""

    async def view(request: Request, _: Ask) -> Answer:
        method, parameters = request["method"], request["params"]
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": request["id"]}
        if method == "eth_getTransactionCount":
            return answer | {"result": hex(sum(height <= int(parameters[1], 16) for height in used))}
        if method == "eth_getTransactionReceipt":
            height = int(parameters[0], 16)
            return answer | {
                "result": {"blockHash": hash_at(height), "status": "0x0", "gasUsed": hex(gas_used), "logs": []}
            }
        if method == "eth_call":
            return answer | ({"error": failure} if failure is not None else {"result": "0x"})
        height = int(parameters[0], 16)
        calls = [
            {
                "hash": f"0x{height:064x}",
                "from": ACCOUNT,
                "nonce": hex(used.get(height, 0)),
                "to": to,
                "input": "0x" + CALL.hex(),
                "gas": hex(GAS),
            }
        ]
        return answer | {"result": block_at(height) | {"transactions": calls if height in used else []}}

    return view


@asynccontextmanager
async def own_nonces(view: View, *sent: tuple[Any, ...]) -> AsyncIterator[OwnNonces]:
    """`sent` has an address, a nonce, and for an own account its contract."""
    async with proxied("") as (proxy, url):
        proxy.view = view
        client = RpcClient(url)
        own = OwnNonces(client, 256, Patience(2, 1))
        for address, nonce, *account in sent:
            own.note(address, nonce, CONTRACT, CALL, *account)
        try:
            yield own
        finally:
            await client.close()


async def mined(view: View, *nonces: int) -> list[tuple[int, MinedTransaction]]:
    async with own_nonces(view, *((ACCOUNT, nonce) for nonce in nonces)) as own:
        found = await own.mined_in(1, LAST)
    return [(block.header.height, each) for block in found for each in block.mined]


def failed(reason: str) -> list[tuple[int, MinedTransaction]]:
    return [(3, MinedTransaction(0, MinedStatus.FAILED, reason))]


@in_loop
async def test_call_that_used_up_its_gas_says_so() -> None:
    assert await mined(node(used={3: 0}, gas_used=GAS), 0) == failed("all of its 100000 gas was used up")


PANIC = "0x4e487b71" + f"{0x11:064x}"


@pytest.mark.parametrize("told", [PANIC, f"Reverted {PANIC}", {"data": PANIC}, {"data": {"result": PANIC}}])
@in_loop
async def test_reason_is_found_wherever_a_node_puts_it(told: object) -> None:
    error = {"code": 3, "message": "execution reverted", "data": told}
    assert await mined(node(used={3: 0}, failure=error), 0) == failed("panic 0x11")


@pytest.mark.parametrize("told", [None, 7, "word", "0xzz", {"data": None}])
@in_loop
async def test_without_a_reason_the_nodes_own_words_are_told(told: object) -> None:
    error = {"code": -32000, "message": "out of luck", "data": told}
    assert await mined(node(used={3: 0}, failure=error), 0) == failed("out of luck")


@in_loop
async def test_call_that_would_succeed_now_is_told_as_such() -> None:
    assert await mined(node(used={3: 0}), 0) == failed("it failed as a whole, and made again it does not")


@in_loop
async def test_nonce_that_was_used_for_another_call_is_taken() -> None:
    view = node(used={3: 0}, to="0x" + "dd" * 20)
    assert await mined(view, 0) == [(3, MinedTransaction(0, MinedStatus.TAKEN))]


@in_loop
async def test_nonce_that_a_stranger_used_before_the_range_is_taken_with_its_last_block() -> None:
    """The block was indexed before anything was sent with the nonce: no later block has it."""
    taken = MinedTransaction(0, MinedStatus.TAKEN)
    async with own_nonces(node(used={1: 0}), (ACCOUNT, 0)) as own:
        for _ in range(2):
            assert [(each.header, each.mined) for each in await own.mined_in(3, LAST)] == [(LAST, (taken,))]
        assert await own.mined_in(4, LAST) == (), "the index goes on from the block that has it"
    async with own_nonces(node(used={1: 0, 4: 1}, gas_used=GAS), (ACCOUNT, 0), (ACCOUNT, 1)) as own:
        (block,) = await own.mined_in(3, LAST)
        assert [each.nonce for each in block.mined] == [0, 1]
    async with own_nonces(node(used={1: 0, 3: 1}, gas_used=GAS), (ACCOUNT, 0), (ACCOUNT, 1)) as own:
        assert [each.header.height for each in await own.mined_in(3, LAST)] == [3, 4]


@in_loop
async def test_nonce_that_a_block_showed_is_not_taken_by_a_later_range() -> None:
    async with own_nonces(node(used={1: 0}, gas_used=GAS), (ACCOUNT, 0)) as own:
        assert len(await own.mined_in(1, LAST)) == 1
        assert await own.mined_in(3, LAST) == ()


@in_loop
async def test_account_is_asked_about_while_a_nonce_of_it_was_seen_in_no_block_before() -> None:
    """A node may have thousands of accounts."""
    asked: list[str] = []
    chain = node(used={2: 0}, gas_used=GAS)

    async def view(request: Request, ask: Ask) -> Answer:
        if request["method"] == "eth_getTransactionCount":
            asked.append(request["params"][0])
        return await chain(request, ask)

    async with own_nonces(view, (ACCOUNT, 0)) as own:
        (block,) = await own.mined_in(1, LAST)
        assert asked.count(ACCOUNT) >= 2
        asked.clear()
        assert await own.mined_in(2, LAST) == ()
        assert asked == []
        # A block in its place may not have it.
        assert await own.mined_in(1, LAST) == (block,)
        own.note(ACCOUNT, 1, CONTRACT, CALL)
        asked.clear()
        assert await own.mined_in(3, LAST) == ()
        assert asked.count(ACCOUNT) == 2, "one that waits for a block is asked about"


@in_loop
async def test_nonces_of_several_accounts_do_not_mix() -> None:
    """Only one of the accounts used its nonce 0."""
    heard: list[str] = []
    chain = node(used={3: 0}, gas_used=GAS)

    async def view(request: Request, ask: Ask) -> Answer:
        heard.append(request["method"])
        if request["method"] == "eth_getTransactionCount" and request["params"][0] != ACCOUNT:
            return {"jsonrpc": "2.0", "id": request["id"], "result": "0x0"}
        return await chain(request, ask)

    async with own_nonces(view, (OTHER, 0), (ACCOUNT, 0, CONTRACT)) as own:
        (block,) = await own.mined_in(1, LAST)
        assert [(each.nonce, each.account) for each in block.mined] == [(0, CONTRACT)]
        # Two ends of two accounts, and two middles of the one that went on.
        assert heard.count("eth_getTransactionCount") == 2 * 2 + 2
        own.forget_old(block.header.height + 257)
        assert len(own) == 1


@in_loop
async def test_nonces_that_are_not_ours_are_left_out() -> None:
    assert await mined(node(used={1: 0, 2: 1, 3: 2}), 5) == []
    assert [height for height, _ in await mined(node(used={1: 0, 2: 1, 3: 2}), 1)] == [2]


@in_loop
async def test_nonce_that_falls_is_no_answer() -> None:
    async def view(request: Request, ask: Ask) -> Answer:
        if request["method"] == "eth_getTransactionCount":
            count = 5 - int(request["params"][1], 16)
            return {"jsonrpc": "2.0", "id": request["id"], "result": hex(count)}
        return await node(used={})(request, ask)

    with pytest.raises(Inconsistent, match="the nonce falls between blocks 0 and 4"):
        await mined(view, 0)


@in_loop
async def test_receipt_of_another_block_is_no_answer() -> None:
    async def view(request: Request, ask: Ask) -> Answer:
        answer = await node(used={3: 0})(request, ask)
        if request["method"] == "eth_getTransactionReceipt":
            answer["result"]["blockHash"] = hash_at(9)
        return answer

    with pytest.raises(Inconsistent, match="is of another block than 3"):
        await mined(view, 0)
