"""Zero-knowledge tokens on real nodes, asked for as client libraries ask: real proofs, checked by the chain."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import aiohttp

from rota.domains.zeto.babyjubjub import Point, decompress
from rota.domains.zeto.domain import KINDS
from rota.model.types import NodeName
from tests.domains.zeto.prover import ThreadProver
from tests.service.callers import BALANCE_OF, Caller, CallFailed, callers
from tests.service.kit import Network

NODE1, NODE2, NODE3 = NAMES = tuple(map(NodeName, ("node1", "node2", "node3")))
LOOK_S = 0.05
PAYMENT = {
    "type": "tuple[]",
    "components": [
        {"name": "to", "type": "string"},
        {"name": "amount", "type": "uint256"},
        {"name": "data", "type": "bytes"},
    ],
}
TOKEN_ABI: list[dict[str, Any]] = [
    {"type": "function", "name": "mint", "inputs": [{"name": "mints", **PAYMENT}], "outputs": []},
    {"type": "function", "name": "transfer", "inputs": [{"name": "transfers", **PAYMENT}], "outputs": []},
    BALANCE_OF,
]


async def begun(net: Network) -> ThreadProver:
    """All nodes run and are connected, and one prover is for all."""
    prover = net.prover = ThreadProver()
    await net.start(*net.names)
    await net.connected()
    return prover


# A token.


async def token(issuer: Caller, kind: str = "Zeto_Anon") -> str:
    """A new one that a@node1 issues."""
    constructor = {"type": "constructor", "inputs": [{"name": "tokenName", "type": "string"}]}
    receipt = await issuer.succeed(
        type="private", domain="zeto", abi=[constructor], function="", from_="a@node1", data={"tokenName": kind}
    )
    address: str = receipt["contractAddress"]
    return address


REGISTER_ABI = [
    {
        "type": "function",
        "name": "register",
        "inputs": [{"name": "publicKey", "type": "uint256[2]"}, {"name": "data", "type": "bytes"}],
        "outputs": [],
    }
]
COINS_KEY = ("domain:zeto:snark:babyjubjub", "iden3_pubkey_babyjubjub_compressed_0x")


async def coins_key(caller: Caller, party: str) -> Point:
    """The point that owns a party's coins, as a node returns it."""
    told: str = await caller.call("ptx_resolveVerifier", party, *COINS_KEY)
    return decompress(bytes.fromhex(told.removeprefix("0x")))


async def register(issuer: Caller, contract: str, key: Point, sender: str = "a@node1") -> dict[str, Any]:
    """The public call that registers an owner, as it ended."""
    return await issuer.do(
        type="public",
        to=contract,
        abi=REGISTER_ABI,
        function="register",
        from_=sender,
        data={"publicKey": [str(key.x), str(key.y)], "data": "0x"},
    )


async def registered(issuer: Caller, contract: str, kind: str, **parties: Caller) -> None:
    """The parties of these nodes are registered where their kind of token wants that: `b_node2=two`."""
    if not KINDS[kind].has_identities:
        return
    for name, caller in parties.items():
        done = await register(issuer, contract, await coins_key(caller, name.replace("_", "@")))
        assert done["success"], done


def pay(to: str, amount: int, data: bytes = b"") -> dict[str, object]:
    return {"to": to, "amount": amount, "data": "0x" + data.hex()}


async def mint(issuer: Caller, contract: str, *payments: dict[str, object]) -> None:
    await issuer.succeed(
        type="private", to=contract, from_="a@node1", function="mint", data={"mints": [*payments]}, abi=TOKEN_ABI
    )


async def transfer(caller: Caller, contract: str, sender: str, *payments: dict[str, object]) -> dict[str, Any]:
    return await caller.succeed(
        type="private", to=contract, from_=sender, function="transfer", data={"transfers": [*payments]}, abi=TOKEN_ABI
    )


async def balance(caller: Caller, contract: str, account: str) -> int:
    asked = {"type": "private", "domain": "zeto", "abi": TOKEN_ABI, "function": "balanceOf", "to": contract}
    told = await caller.call("ptx_call", {**asked, "from": account, "data": {"account": account}})
    return int(told["totalBalance"])


async def until_balance(caller: Caller, contract: str, account: str, amount: int) -> None:
    """A coin counts when its bytes have arrived; the test's own time limit bounds it."""
    while await balance(caller, contract, account) != amount:
        await asyncio.sleep(LOOK_S)


# Nodes that die, or lose what they had.


async def die_while_proving(net: Network, session: aiohttp.ClientSession, prover: ThreadProver) -> Caller:
    """The second node is killed when a proof has been begun, and starts again; an application of its next life."""
    await net.until(lambda: prover.statements)
    await net.kill(NODE2)
    await net.start(NODE2)
    return callers(session, net)[1]


async def lose_database(net: Network, node: NodeName) -> None:
    """The node is stopped, and nothing is left of what it stored."""
    await net.stop(node)
    for file in (net.home / node).glob("rota.db*"):
        file.unlink()


async def recovered(net: Network, session: aiohttp.ClientSession, contract: str, account: str, amount: int) -> Caller:
    """An application of an account's node when that has the contract again, with these coins.

    It makes up for what it lacks, and begins another life on the way. The test's own time limit bounds it.
    """
    place = net.names.index(NodeName(account.partition("@")[2]))
    while True:
        caller = callers(session, net)[place]
        with suppress(CallFailed, aiohttp.ClientError):
            if await balance(caller, contract, account) == amount:
                return caller
        await asyncio.sleep(LOOK_S)
