"""The chain's Registry: what is written there, and what a node that follows it knows of it, on real chains."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from eth_abi.abi import encode as abi_encode

from rota.keys.secp256k1 import PrivateKey
from rota.keys.signers import MemorySigner
from rota.ledger.account import Account, AccountLimits, TransactionRejected
from rota.ledger.bindings import RegisteredNode, encode_call
from rota.ledger.client import ClientLimits, RpcClient
from rota.ledger.consistency import Patience
from rota.ledger.embedded.accounts import DEVELOPMENT_ACCOUNTS
from rota.ledger.reading import Log
from rota.ledger.registering import Done, NetworkContracts, announce, deploy_contracts, look_up, move, register, rotate
from rota.ledger.registry import (
    MARKS_MAX,
    NODE_CHANGED,
    SHORTER_LOOKS_MAX,
    ChainRegistry,
    RegistryLimits,
    read_change,
    registration_of,
)
from rota.model.types import BlockHash, ContractAddress, NodeName
from rota.ports import Registration, Unavailable
from tests.ledger.chains import CHAIN_ID, Chain, in_loop, running
from tests.ledger.fault_proxy import Answer, Ask, FaultProxy, Request, drop, proxied, with_status

KINDS = ("embedded", pytest.param("anvil", marks=pytest.mark.slow))
CLIENT = ClientLimits(timeout_ms=5_000, backoff_ms=1, backoff_max_ms=5)
HURRIED = AccountLimits(look_ms=1)
SIGNER = MemorySigner({str(number): PrivateKey(each.secret) for number, each in enumerate(DEVELOPMENT_ACCOUNTS[:3])})
ONE, TWO, THREE = (NodeName(f"node{number}") for number in (1, 2, 3))
OLD, NEW, OTHER = (bytes([number]) * 32 for number in (1, 2, 3))


@dataclass
class Scene:
    """A chain with a Registry, behind a proxy that only readers go through."""

    chain: Chain
    proxy: FaultProxy
    url: str
    client: RpcClient
    contracts: NetworkContracts

    def account(self, number: int = 0) -> Account:
        return Account(self.client, CHAIN_ID, SIGNER, str(number), HURRIED)

    async def register(self, name: NodeName, fingerprint: bytes = OLD, endpoint: str = "10.0.0.1:1") -> None:
        await register(self.account(), self.contracts.registry, name, fingerprint, endpoint)

    @asynccontextmanager
    async def reader(self, **limits: int) -> AsyncIterator[ChainRegistry]:
        client = RpcClient(self.url, CLIENT)
        try:
            yield ChainRegistry(
                client,
                self.contracts.registry,
                CHAIN_ID,
                RegistryLimits(**limits),
                Patience(attempts_max=2, pause_ms=1),
            )
        finally:
            await client.close()


@asynccontextmanager
async def scene(kind: str, home: Path, **settings: Any) -> AsyncIterator[Scene]:  # noqa: ANN401
    async with running(kind, home, **settings) as chain, proxied(chain.url) as (proxy, url):
        client = RpcClient(chain.url, CLIENT)
        try:
            contracts = await deploy_contracts(Account(client, CHAIN_ID, SIGNER, "0", HURRIED))
            yield Scene(chain, proxy, url, client, contracts)
        finally:
            await client.close()


# Writing.


@pytest.mark.parametrize("kind", KINDS)
@in_loop
async def test_a_node_is_registered_moved_and_given_another_certificate(kind: str, tmp_path: Path) -> None:
    async with scene(kind, tmp_path) as made:
        account, registry = made.account(), made.contracts.registry
        assert await look_up(account, registry, ONE) is None
        assert await register(account, registry, ONE, OLD, "a:1") == (Done.REGISTERED,)
        assert await look_up(account, registry, ONE) == RegisteredNode(account.address, OLD, None, "a:1")
        assert await register(account, registry, ONE, OLD, "a:1") == ()
        assert await register(account, registry, ONE, OLD, "b:2") == (Done.MOVED,)
        await announce(account, registry, ONE, NEW)
        assert await look_up(account, registry, ONE) == RegisteredNode(account.address, OLD, NEW, "b:2")
        assert await register(account, registry, ONE, OLD, "b:2") == ()
        await rotate(account, registry, ONE)
        assert await look_up(account, registry, ONE) == RegisteredNode(account.address, NEW, None, "b:2")
        assert await register(account, registry, ONE, OTHER, "c:3") == (Done.ANNOUNCED, Done.ROTATED, Done.MOVED)
        assert await look_up(account, registry, ONE) == RegisteredNode(account.address, OTHER, None, "c:3")


@pytest.mark.parametrize("kind", KINDS)
@in_loop
async def test_what_the_registry_refuses_is_told_in_its_own_words(kind: str, tmp_path: Path) -> None:
    async with scene(kind, tmp_path) as made:
        registry = made.contracts.registry
        await made.register(ONE)
        with pytest.raises(
            TransactionRejected, match=f"the name node1 belongs to {made.account().address}, and we are "
        ):
            await register(made.account(1), registry, ONE, NEW, "a:1")
        with pytest.raises(TransactionRejected, match=r"NotOwner\(name node1, owner 0xf39f"):
            await move(made.account(1), registry, ONE, "a:1")
        with pytest.raises(TransactionRejected, match=r"NothingAnnounced\(name node1\)"):
            await rotate(made.account(), registry, ONE)
        with pytest.raises(TransactionRejected, match=r"WrongName\(name Node\)"):
            await made.register(NodeName("Node"))
        with pytest.raises(TransactionRejected, match="there is no Registry at 0x0000"):
            await register(made.account(), ContractAddress("0x" + "00" * 19 + "ff"), ONE, OLD, "a:1")


@pytest.mark.parametrize("kind", KINDS)
@in_loop
async def test_account_without_funds_is_told_where_to_send_them(kind: str, tmp_path: Path) -> None:
    async with scene(kind, tmp_path) as made:
        poor = PrivateKey(bytes(31) + b"\x09")
        account = Account(made.client, CHAIN_ID, MemorySigner({"poor": poor}), "poor", HURRIED)
        with pytest.raises(TransactionRejected, match=f"{account.address} has too little to pay for it: send it funds"):
            await register(account, made.contracts.registry, ONE, OLD, "a:1")


@in_loop
async def test_account_refuses_another_chain_and_gives_up_on_what_is_not_mined(tmp_path: Path) -> None:
    async with scene("embedded", tmp_path) as made:
        elsewhere = Account(made.client, CHAIN_ID + 1, SIGNER, "0", HURRIED)
        with pytest.raises(TransactionRejected, match="the node's chain id is 31337, and ours is 31338"):
            await elsewhere.transact(made.contracts.registry)
        await made.chain.rpc("evm_setAutomine", False)
        impatient = Account(made.client, CHAIN_ID, SIGNER, "0", AccountLimits(looks_max=3, look_ms=1))
        with pytest.raises(Unavailable, match=r"transaction 0x[0-9a-f]{64} is not mined after 0 s, and may still be"):
            await impatient.transact(elsewhere.address, value_wei=1)


@in_loop
async def test_account_offers_more_for_the_nonce_of_what_is_not_mined(tmp_path: Path) -> None:
    async with scene("embedded", tmp_path) as made:
        await made.chain.rpc("evm_setAutomine", False)
        impatient = Account(made.client, CHAIN_ID, SIGNER, "0", AccountLimits(looks_max=1, look_ms=1))
        for _ in range(2):
            with pytest.raises(Unavailable):
                await impatient.transact(impatient.address, value_wei=1)
        await made.chain.mine()
        count = await made.chain.rpc("eth_getTransactionCount", impatient.address, "latest")
        assert int(count, 16) == 3, "the two deployments of before, and one of the two"


@pytest.mark.parametrize("kind", KINDS)
@in_loop
async def test_deployment_says_from_which_block_on_the_registry_has_events(kind: str, tmp_path: Path) -> None:
    async with running(kind, tmp_path) as chain:
        client = RpcClient(chain.url, CLIENT)
        await chain.mine(5)
        made = await deploy_contracts(Account(client, CHAIN_ID, SIGNER, "0", HURRIED))
        assert made.registry_from_height == 5
        for address in (made.factory, made.registry):
            assert await chain.rpc("eth_getCode", address, "latest") != "0x"
        await client.close()


# Reading.


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("range_max", [1, 2, 1_000])
@in_loop
async def test_reader_knows_what_is_registered_and_follows_every_change(
    kind: str, range_max: int, tmp_path: Path
) -> None:
    async with scene(kind, tmp_path) as made, made.reader(range_max=range_max) as reader:
        assert (reader.registrations(), reader.is_read.is_set()) == ({}, False)
        assert reader.trouble == "the Registry has not been read yet"
        await made.register(TWO)
        await made.register(ONE, NEW, "10.0.0.2:2")
        await reader.look()
        assert (reader.trouble, reader.is_read.is_set()) == ("", True)
        assert list(reader.registrations().items()) == [
            (TWO, Registration("10.0.0.1:1", OLD)),
            (ONE, Registration("10.0.0.2:2", NEW)),
        ]
        await announce(made.account(), made.contracts.registry, TWO, OTHER)
        await made.register(THREE)
        await reader.look()
        assert reader.registrations()[TWO] == Registration("10.0.0.1:1", OLD, OTHER)
        assert list(reader.registrations()) == [TWO, ONE, THREE]
        await rotate(made.account(), made.contracts.registry, TWO)
        await move(made.account(), made.contracts.registry, TWO, "10.9.9.9:9")
        await reader.look()
        assert reader.registrations()[TWO] == Registration("10.9.9.9:9", OTHER)
        assert reader.nodes()[TWO].owner == made.account().address
        assert await look_up(made.account(), made.contracts.registry, TWO) == reader.nodes()[TWO]


@in_loop
async def test_look_at_a_chain_without_new_blocks_asks_for_its_head_alone(tmp_path: Path) -> None:
    async with scene("embedded", tmp_path) as made, made.reader() as reader:
        await reader.look()
        made.proxy.methods.clear()
        await reader.look()
        assert made.proxy.methods == {"eth_chainId": 1, "eth_getBlockByNumber": 1}


@in_loop
async def test_values_that_were_handed_out_do_not_change(tmp_path: Path) -> None:
    async with scene("embedded", tmp_path) as made, made.reader() as reader:
        await made.register(ONE)
        await reader.look()
        before = reader.registrations()
        await made.register(TWO)
        await reader.look()
        assert list(before) == [ONE]
        with pytest.raises(TypeError):
            before[TWO] = before[ONE]  # type: ignore[index]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("depth", [1, 2, 5])
@in_loop
async def test_what_the_chain_takes_back_is_forgotten(kind: str, depth: int, tmp_path: Path) -> None:
    async with scene(kind, tmp_path) as made, made.reader() as reader:
        await made.chain.mine(3)
        await made.register(ONE)
        await reader.look()
        await made.chain.mine(4)
        await reader.look()
        await made.register(TWO)  # the latest block
        await reader.look()
        assert list(reader.registrations()) == [ONE, TWO]
        await made.chain.reorganise(depth)
        await reader.look()
        assert list(reader.registrations()) == [ONE]
        await made.register(THREE, NEW)
        await reader.look()
        assert list(reader.registrations()) == [ONE, THREE]
        assert reader.trouble == ""


@pytest.mark.parametrize("kind", KINDS)
@in_loop
async def test_other_registration_in_the_place_of_one_that_was_taken_back_is_the_one_that_counts(
    kind: str, tmp_path: Path
) -> None:
    async with scene(kind, tmp_path) as made, made.reader() as reader:
        await made.register(ONE)
        await announce(made.account(), made.contracts.registry, ONE, NEW)
        await reader.look()
        await made.chain.reorganise(1)
        await announce(made.account(), made.contracts.registry, ONE, OTHER)
        await reader.look()
        assert reader.registrations()[ONE] == Registration("10.0.0.1:1", OLD, OTHER)


@in_loop
async def test_reorganisation_deeper_than_what_is_remembered_reads_everything_anew(tmp_path: Path) -> None:
    async with scene("embedded", tmp_path) as made, made.reader() as reader:
        await made.register(ONE)
        await made.register(TWO)
        for _ in range(MARKS_MAX + 5):
            await made.chain.mine()
            await reader.look()
        await made.chain.reorganise(MARKS_MAX + 6)  # down to TWO, which it takes back
        await reader.look()
        assert list(reader.registrations()) == [ONE]


@in_loop
async def test_shorter_chain_is_a_node_that_lags_until_it_was_seen_often(tmp_path: Path) -> None:
    async with scene("embedded", tmp_path) as made, made.reader() as reader:
        await made.register(ONE)
        await reader.look()
        await made.register(TWO)
        await reader.look()
        await made.chain.rpc("anvil_rollback", 1)
        for _ in range(SHORTER_LOOKS_MAX - 1):
            await reader.look()
            assert list(reader.registrations()) == [ONE, TWO]
        await reader.look()
        assert list(reader.registrations()) == [ONE]


@pytest.mark.parametrize("kind", KINDS)
@in_loop
async def test_other_chain_with_the_same_id_is_read_from_its_beginning(kind: str, tmp_path: Path) -> None:
    async with scene(kind, tmp_path) as made, made.reader() as reader:
        await made.register(ONE)
        await made.chain.mine(10)
        await reader.look()
        assert list(reader.registrations()) == [ONE]
        await made.chain.kill()
        await made.chain.restart(is_fresh=True)
        await reader.look()
        assert reader.registrations() == {}
        # The same account deploys to the same address on the new chain.
        assert await deploy_contracts(made.account()) == made.contracts
        await made.register(TWO)
        await reader.look()
        assert list(reader.registrations()) == [TWO]


@pytest.mark.parametrize("kind", KINDS)
@in_loop
async def test_what_is_known_stays_known_while_the_chain_is_away(kind: str, tmp_path: Path) -> None:
    async with scene(kind, tmp_path) as made, made.reader() as reader:
        await made.register(ONE)
        await reader.look()
        made.proxy.fault = drop
        await made.register(TWO)
        await reader.look()
        assert list(reader.registrations()) == [ONE]
        assert "cannot be read: " in reader.trouble
        assert reader.trouble.endswith("; 1 nodes are known from before")
        made.proxy.fault = with_status(500)
        await reader.look()
        assert reader.trouble
        made.proxy.fault = None
        await reader.look()
        assert (list(reader.registrations()), reader.trouble) == ([ONE, TWO], "")


@in_loop
async def test_nothing_is_known_of_a_history_that_was_read_in_part(tmp_path: Path) -> None:
    async with scene("embedded", tmp_path) as made, made.reader(range_max=1) as reader:
        await made.register(ONE)
        await made.chain.mine(3)
        last = hex(await made.chain.height())

        async def end_is_missing(request: Request, ask: Ask) -> Answer:
            if request["method"] == "eth_getLogs" and request["params"][0]["toBlock"] == last:
                return {"jsonrpc": "2.0", "id": request["id"], "error": {"code": -32000, "message": "broken"}}
            return await ask(request)

        made.proxy.view = end_is_missing
        await reader.look()
        assert (reader.registrations(), reader.is_read.is_set()) == ({}, False)
        assert "broken" in reader.trouble
        made.proxy.view = None
        await reader.look()
        assert list(reader.registrations()) == [ONE]


@in_loop
async def test_node_that_takes_small_ranges_only_gets_them(tmp_path: Path) -> None:
    async with scene("embedded", tmp_path, logs_range_max=3) as made, made.reader() as reader:
        await made.register(ONE)
        await made.chain.mine(40)
        await made.register(TWO)
        await reader.look()
        assert list(reader.registrations()) == [ONE, TWO]
        await made.chain.mine(60)
        await made.register(THREE)
        await reader.look()
        assert list(reader.registrations()) == [ONE, TWO, THREE]


@in_loop
async def test_node_that_refuses_every_range_is_told_of(tmp_path: Path) -> None:
    async with scene("embedded", tmp_path) as made, made.reader() as reader:

        async def refuse(request: Request, ask: Ask) -> Answer:
            if request["method"] == "eth_getLogs":
                return {"jsonrpc": "2.0", "id": request["id"], "error": {"code": -32005, "message": "too many results"}}
            return await ask(request)

        made.proxy.view = refuse
        await reader.look()
        assert "the node refuses the events of the single block 0: too many results" in reader.trouble


@in_loop
async def test_node_that_takes_no_batches_is_read_with_all_headers(tmp_path: Path) -> None:
    async with scene("embedded", tmp_path) as made, made.reader(headers_max=4) as reader:
        made.proxy.fault = single_requests_only
        await made.register(ONE)
        await made.chain.mine(10)
        await reader.look()
        assert (list(reader.registrations()), reader.trouble) == ([ONE], "")
        await made.register(TWO)
        await made.chain.mine(1)
        await reader.look()
        assert list(reader.registrations()) == [ONE, TWO]


@in_loop
async def test_event_that_a_lagging_node_leaves_out_is_found_by_the_bloom(tmp_path: Path) -> None:
    async with scene("embedded", tmp_path) as made, made.reader() as reader:
        made.proxy.fault = single_requests_only
        await made.register(ONE)

        async def forget(request: Request, ask: Ask) -> Answer:
            if request["method"] == "eth_getLogs" and "fromBlock" in request["params"][0]:
                return {"jsonrpc": "2.0", "id": request["id"], "result": []}
            return await ask(request)

        made.proxy.view = forget
        await reader.look()
        assert list(reader.registrations()) == [ONE]


async def single_requests_only(request: Any, requests: list[Request]) -> Any:  # noqa: ANN401
    """As nodes answer that know no batches."""
    return await with_status(400, "no batches")(request, requests) if len(requests) > 1 else None


@pytest.mark.parametrize("is_within", [True, False], ids=["within a range", "between two ranges"])
@in_loop
async def test_chain_that_changes_while_it_is_read_is_read_again(is_within: bool, tmp_path: Path) -> None:
    async with scene("embedded", tmp_path) as made, made.reader(range_max=2) as reader:
        await made.register(ONE)
        await made.register(TWO)
        await made.chain.mine(2)
        two_at = 4
        reorganised = False

        async def reorganise_once(requests: list[Request], first: int) -> None:
            nonlocal reorganised
            wanted = [each["params"][0] for each in requests if each["method"] == "eth_getLogs"]
            if not reorganised and any(int(each["fromBlock"], 16) == first for each in wanted):
                reorganised = True
                await made.chain.reorganise(3)  # TWO goes

        async def after_the_logs(request: Request, ask: Ask) -> Answer:
            answer = await ask(request)
            await reorganise_once([request], two_at)
            return answer

        async def before_the_next_range(_: object, requests: list[Request]) -> None:
            await reorganise_once(requests, two_at + 2)

        made.proxy.view = after_the_logs if is_within else None
        made.proxy.fault = None if is_within else before_the_next_range
        await reader.look()
        assert reorganised
        await reader.look()
        assert (list(reader.registrations()), reader.trouble) == ([ONE], "")


@in_loop
async def test_node_of_another_chain_is_not_believed(tmp_path: Path) -> None:
    async with scene("embedded", tmp_path) as made:
        client = RpcClient(made.url, CLIENT)
        reader = ChainRegistry(client, made.contracts.registry, CHAIN_ID + 1)
        await reader.look()
        assert "the node's chain id is 31337, and ours is 31338" in reader.trouble
        assert not reader.is_read.is_set()
        await client.close()


@in_loop
async def test_registry_that_begins_later_than_the_chain_is_not_read(tmp_path: Path) -> None:
    async with scene("embedded", tmp_path) as made, made.reader(from_height=10) as reader:
        await reader.look()
        assert "it is read from block 10 on, and the chain is at block 2" in reader.trouble
        await made.register(ONE)
        await made.chain.mine(10)
        await made.register(TWO)
        await reader.look()
        assert list(reader.registrations()) == [TWO]


@in_loop
async def test_events_of_other_contracts_are_none_of_ours(tmp_path: Path) -> None:
    async with scene("embedded", tmp_path) as made, made.reader() as reader:
        second = await deploy_contracts(made.account())
        await register(made.account(), second.registry, ONE, OLD, "a:1")
        await reader.look()
        assert (reader.registrations(), reader.trouble) == ({}, "")


@in_loop
async def test_endpoint_that_is_no_text_leaves_out_its_node_alone(tmp_path: Path) -> None:
    async with scene("embedded", tmp_path) as made, made.reader() as reader:
        await made.register(ONE)
        await made.register(TWO)
        await reader.look()
        call = encode_call("Registry", "move", ONE, "a:1").replace(b"a:1", b"\xff:1")
        await made.account().transact(made.contracts.registry, call)
        await reader.look()
        assert (list(reader.registrations()), reader.trouble) == ([TWO], "")
        await move(made.account(), made.contracts.registry, ONE, "a:1")
        await reader.look()
        assert list(reader.registrations()) == [ONE, TWO]


@in_loop
async def test_more_nodes_than_there_may_be_are_not_taken_notice_of(tmp_path: Path) -> None:
    async with scene("embedded", tmp_path) as made, made.reader(nodes_max=2) as reader:
        for name in (ONE, TWO, THREE):
            await made.register(name)
        await reader.look()
        assert list(reader.registrations()) == [ONE, TWO]
        await move(made.account(), made.contracts.registry, ONE, "b:1")
        await reader.look()
        assert reader.registrations()[ONE].endpoint == "b:1"


def log(topics: tuple[bytes, ...], content: bytes) -> Log:
    return Log(ContractAddress("0x" + "aa" * 20), topics, content, 1, BlockHash(bytes(32)), bytes(32), 0)


def test_log_that_is_no_change_of_a_node_is_refused_by_name() -> None:
    content = abi_encode(("string", "bytes32", "bytes32", "string"), ("a", OLD, bytes(32), "b:1"))
    topics = (NODE_CHANGED, bytes(32), bytes(12) + b"\x01" * 20)
    change = read_change(log(topics, content))
    assert change.node is not None
    assert registration_of(change.node) == Registration("b:1", OLD)
    with pytest.raises(ValueError, match="topics: not those of a NodeChanged"):
        read_change(log(topics[:2], content))
    with pytest.raises(ValueError, match="data: must be what is registered of a node"):
        read_change(log(topics, content[:40]))


@pytest.mark.parametrize("name", ["poll_ms", "range_max", "headers_max", "nodes_max"])
def test_wrong_limit_is_refused_by_name(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name}: must be at least 1, not 0"):
        RegistryLimits(**{name: 0})
    with pytest.raises(ValueError, match="look_ms: must be at least 1, not 0"):
        AccountLimits(look_ms=0)
