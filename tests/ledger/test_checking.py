"""What an operator is told of a ledger that is not the one that was configured."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from rota.ledger.checking import ExpectedContract, check_ledger
from rota.ledger.client import ClientLimits, RpcClient
from rota.localnet.ports import held_port
from rota.model.types import ContractAddress
from tests.ledger.chains import CHAIN_ID, Chain, in_loop, running
from tests.ledger.fault_proxy import Answer, Ask, Request, proxied, with_status
from tests.ledger.participant import PAYER, deploy, deploy_contract

KINDS = ("embedded", pytest.param("anvil", marks=pytest.mark.slow))
NOBODY = ContractAddress("0x" + "99" * 20)
LIMITS = ClientLimits(timeout_ms=2_000, backoff_ms=1, backoff_max_ms=2)


class Told(NamedTuple):
    """A flaw as an operator is told of it."""

    text: str
    is_fatal: bool = True


async def flaws_at(
    url: str,
    *contracts: ExpectedContract,
    chain_id: int = CHAIN_ID,
    account: ContractAddress = ContractAddress(PAYER),  # noqa: B008
) -> tuple[Told, ...]:
    client = RpcClient(url, LIMITS)
    try:
        flaws = await check_ledger(client, chain_id=chain_id, account=account, contracts=contracts)
        return tuple(Told(flaw.text, flaw.is_fatal) for flaw in flaws)
    finally:
        await client.close()


@pytest.mark.parametrize("kind", KINDS)
@in_loop
async def test_ledger_as_configured_has_no_flaw(kind: str, tmp_path: Path) -> None:
    async with running(kind, tmp_path) as chain:
        contracts = [
            ExpectedContract("ledger.factory", "Factory", await deploy_contract(chain, "Factory")),
            ExpectedContract("ledger.registry", "Registry", await deploy_contract(chain, "Registry")),
            ExpectedContract("contract", "Endorsed", (await deploy(chain)).address),
        ]
        assert await flaws_at(chain.url, *contracts) == ()
        assert await flaws_at(chain.websocket_url, *contracts) == ()


@in_loop
async def test_address_where_nothing_listens() -> None:
    with held_port() as port:
        flaws = await flaws_at(f"http://127.0.0.1:{port}")
    assert flaws == (
        Told(
            f"ledger.url: the Ethereum node at http://127.0.0.1:{port} cannot be reached: "
            f"Connect call failed ('127.0.0.1', {port}). Start it, or correct the address."
        ),
    )


@pytest.mark.parametrize(
    ("status", "body", "found"),
    [
        (200, "<html>It works!</html>", "its answer is not JSON but '<html>It works!</html>'"),
        (200, "", "its answer is not JSON but ''"),
        (200, '{"status": "ok"}', "its answer has neither result nor error: {'status': 'ok'}"),
        (200, "[1, 2]", "its batch answers nothing that was asked"),
        (404, "not here", "HTTP 404 Not Found"),
        (401, "who are you?", "HTTP 401 Unauthorized"),
    ],
)
@in_loop
async def test_address_of_something_else(status: int, body: str, found: str) -> None:
    async with proxied("") as (other, url):
        other.fault = with_status(status, body)
        assert await flaws_at(url) == (
            Told(
                f"ledger.url: what answers at {url} is no Ethereum node: {found}. "
                "Give the address of a node's JSON-RPC, such as http://localhost:8545."
            ),
        )


@in_loop
async def test_json_rpc_that_is_not_ethereums() -> None:
    async def view(request: Request, _: Ask) -> Answer:
        return {"jsonrpc": "2.0", "id": request["id"], "error": {"code": -32601, "message": "Method not found"}}

    async with proxied("") as (other, url):
        other.view = view
        assert await flaws_at(url) == (
            Told(
                f"ledger.url: what answers at {url} is no Ethereum node: Method not found (code -32601). "
                "Give the address of a node's JSON-RPC, such as http://localhost:8545."
            ),
        )


@in_loop
async def test_node_that_is_overloaded() -> None:
    async with proxied("") as (node, url):
        node.fault = with_status(503)
        assert await flaws_at(url) == (
            Told(
                f"ledger.url: the Ethereum node at {url} is overloaded: HTTP 503 Service Unavailable. "
                "See what is wrong with it, or name another node."
            ),
        )


@in_loop
async def test_web_server_where_a_websocket_is_expected() -> None:
    async with proxied("") as (_, url):
        address = url.replace("http", "ws")
        assert await flaws_at(address) == (
            Told(
                f"ledger.url: what answers at {address} is no Ethereum node: HTTP 405 where a WebSocket was expected. "
                "Give the address of a node's JSON-RPC, such as http://localhost:8545."
            ),
        )


@pytest.mark.parametrize("kind", KINDS)
@in_loop
async def test_node_of_another_chain(kind: str, tmp_path: Path) -> None:
    async with running(kind, tmp_path) as chain:
        assert await flaws_at(chain.url, chain_id=1) == (
            Told(
                f"ledger.chain_id: the node at {chain.url} is on chain 31337, and 1 is configured. "
                "Give the address of a node of chain 1, or correct the chain id."
            ),
        )


@pytest.mark.parametrize("kind", KINDS)
@in_loop
async def test_address_without_code(kind: str, tmp_path: Path) -> None:
    async with running(kind, tmp_path) as chain:
        assert await flaws_at(chain.url, ExpectedContract("ledger.factory", "Factory", NOBODY)) == (
            Told(
                f"ledger.factory: there is no contract at {NOBODY} on chain 31337. "
                "Deploy Factory there, or correct the address."
            ),
        )


@pytest.mark.parametrize("kind", KINDS)
@in_loop
async def test_contract_of_another_kind_or_version(kind: str, tmp_path: Path) -> None:
    async with running(kind, tmp_path) as chain:
        registry = await deploy_contract(chain, "Registry")
        other_version = await with_one_byte_changed(chain, registry)
        found = await flaws_at(
            chain.url,
            ExpectedContract("ledger.factory", "Factory", registry),
            ExpectedContract("ledger.registry", "Registry", other_version),
        )
        wrong = (
            "of this version of Rota. Correct the address, deploy this version's, or run the version that deployed it."
        )
        assert found == (
            Told(f"ledger.factory: the contract at {registry} is not the Factory {wrong}"),
            Told(f"ledger.registry: the contract at {other_version} is not the Registry {wrong}"),
        )


async def with_one_byte_changed(chain: Chain, contract: ContractAddress) -> ContractAddress:
    code = bytearray.fromhex((await chain.rpc("eth_getCode", contract, "latest"))[2:])
    code[1] ^= 1
    await chain.rpc("anvil_setCode", NOBODY, "0x" + code.hex())
    return NOBODY


@pytest.mark.parametrize("kind", KINDS)
@in_loop
async def test_account_without_funds_is_reported_and_not_refused(kind: str, tmp_path: Path) -> None:
    async with running(kind, tmp_path) as chain:
        needed = 80_000 * int(await chain.rpc("eth_gasPrice"), 16)
        assert await flaws_at(chain.url, account=NOBODY) == (
            Told(
                f"node.keys: the submitter {NOBODY} has 0 wei on chain 31337, "
                f"and the cheapest round costs about {needed}. "
                "Send it funds; until then rounds wait.",
                is_fatal=False,
            ),
        )


@in_loop
async def test_chain_that_asks_nothing_for_gas_needs_no_funds(tmp_path: Path) -> None:
    async with running("embedded", tmp_path, base_fee_wei=0, base_fee_is_fixed=True, priority_fee_wei=0) as chain:
        assert await flaws_at(chain.url, account=NOBODY) == ()
