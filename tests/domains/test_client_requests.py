"""What an existing client library was recorded to send about tokens and privacy groups, and what comes of each.

The requests are those of the record: their fields, in their writing. Ids that a client has from an earlier answer stand
in braces. Beside them are the functions of the token's ABI that the record has no call of.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from rota.model.types import NodeName
from rota.testing.workloads.pente import entry_of
from tests.domains.pente.members import playground
from tests.ledger.chains import in_loop
from tests.service.kit import Network, network

NODE1, NODE2 = ALL = tuple(map(NodeName, ("node1", "node2")))
DELEGATE = "0x1111111111111111111111111111111111111111"
SHARE = {"to": "b@node2", "amount": 1}
FUNCTIONS = json.loads((Path(__file__).parent / "noto_functions.json").read_text())
NOTO_ABI = [{"type": "function", "name": name, "inputs": inputs, "outputs": []} for name, inputs in FUNCTIONS.items()]
SPEND_LOCK_ABI = [
    {
        "type": "function",
        "name": "spendLock",
        "inputs": [
            {"name": "lockId", "type": "bytes32"},
            {"name": "spendArgs", "type": "bytes"},
            {"name": "data", "type": "bytes"},
        ],
        "outputs": [],
    }
]
BASIC = {"restrictMint": True, "allowBurn": True, "allowLock": True}
HOOKS = {
    "publicAddress": DELEGATE,
    "privateAddress": DELEGATE,
    "privateGroup": {"salt": "0x" + "22" * 32, "members": ["a@node1"]},
}
DONE = "done"


@dataclass(frozen=True)
class Asked:
    """A private transaction of the notary `a@node1`: whether it is of the record, its function and data, its end.

    `makes` names the lock that it makes, so that later ones can speak of it; `balances` are those of a and b after it.
    """

    function: str
    data: dict[str, object]
    balances: tuple[int, int]
    makes: str = ""
    ends: str = DONE
    is_recorded: bool = True


ASKED = (
    Asked("mint", {"to": "b@node2", "amount": 100, "data": "0x"}, (0, 100)),
    Asked("mint", {"to": "a@node1", "amount": 100, "data": "0x"}, (100, 100), is_recorded=False),
    Asked("transfer", {"to": "b@node2", "amount": "10", "data": "0x"}, (90, 110)),
    Asked("transferFrom", {"from": "a@node1", "to": "b@node2", "amount": 1, "data": "0x"}, (89, 111)),
    Asked("burn", {"amount": 1, "data": "0x"}, (88, 111)),
    Asked("burnFrom", {"from": "b@node2", "amount": 1, "data": "0x"}, (88, 110), is_recorded=False),
    # A lock takes its amount out of the balance, and is told by its id.
    Asked("lock", {"amount": 1, "data": "0x"}, (87, 110), "lock"),
    Asked("createLock", {"amount": 5, "data": "0x"}, (82, 110), "other", is_recorded=False),
    Asked(
        "createTransferLock",
        {"from": "a@node1", "recipients": [SHARE], "unlockData": "0x", "data": "0x"},
        (81, 110),
        "transferLock",
    ),
    Asked("createMintLock", {"recipients": [SHARE], "unlockData": "0x", "data": "0x"}, (81, 110), "mintLock"),
    Asked(
        "createBurnLock",
        {"from": "a@node1", "amount": 2, "unlockData": "0x", "data": "0x"},
        (79, 110),
        "burnLock",
        is_recorded=False,
    ),
    # What becomes of it is settled, and then done by the notary where it was not given away.
    Asked(
        "prepareUnlock",
        {"lockId": "{lock}", "from": "a@node1", "recipients": [SHARE], "unlockData": "0x", "data": "0x"},
        (79, 110),
    ),
    Asked("delegateLock", {"lockId": "{lock}", "delegate": DELEGATE, "data": "0x"}, (79, 110)),
    Asked(
        "spendLock",
        {"lockId": "{lock}", "data": "0x"},
        (79, 110),
        ends=f"lockId: must be of a lock that was not delegated. This one was given to {DELEGATE}, and its delegate "
        "ends it or gives it away by the public functions spendLock, cancelLock and delegateLock of the token's "
        "contract",
        is_recorded=False,
    ),
    Asked(
        "unlock",
        {"lockId": "{other}", "from": "a@node1", "recipients": [SHARE], "data": "0x"},
        (79, 111),
        is_recorded=False,
    ),
    Asked(
        "prepareBurnUnlock",
        {"lockId": "{other}", "from": "a@node1", "amount": 1, "unlockData": "0x", "data": "0x"},
        (79, 111),
        is_recorded=False,
    ),
    Asked("cancelLock", {"lockId": "{other}", "data": "0x"}, (83, 111), is_recorded=False),
    Asked(
        "prepareMintUnlock",
        {"lockId": "{mintLock}", "recipients": [{**SHARE, "amount": 3}], "unlockData": "0x", "data": "0x"},
        (83, 111),
        ends="lockId: must be of a lock that is not prepared. End this one by spendLock or cancelLock",
        is_recorded=False,
    ),
    Asked("spendLock", {"lockId": "{mintLock}", "data": "0x"}, (83, 112), is_recorded=False),
    Asked("spendLock", {"lockId": "{transferLock}", "data": "0x"}, (83, 113), is_recorded=False),
    Asked("spendLock", {"lockId": "{burnLock}", "data": "0x"}, (83, 113), is_recorded=False),
)


@dataclass
class Client:
    """Speaks JSON-RPC to the first node, as the library does."""

    nodes: Network
    session: aiohttp.ClientSession
    token: str = ""
    locks: dict[str, str] = field(default_factory=dict)

    async def ask(self, method: str, *parameters: object) -> Any:  # noqa: ANN401
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": list(parameters)}
        async with self.session.post(self.nodes.processes[NODE1].entrance.http_url, json=body) as response:
            answer = await response.json()
        return answer["result"] if "result" in answer else answer["error"]

    async def receipt(self, transaction: str, method: str = "ptx_getTransactionReceiptFull") -> dict[str, Any]:
        """As the library waits for it; the test's own time limit bounds it."""
        while (receipt := await self.ask(method, transaction)) is None:
            await asyncio.sleep(0.01)
        assert isinstance(receipt, dict)
        return receipt

    async def deploy(self, mode: str, options: dict[str, object]) -> Any:  # noqa: ANN401
        inputs = [{"name": name, "type": "string"} for name in ("name", "symbol", "notary", "notaryMode")]
        data = {"notary": "a@node1", "notaryMode": mode, "name": "", "symbol": "", "options": options}
        wanted = {"type": "private", "domain": "noto", "abi": [{"type": "constructor", "inputs": inputs}]}
        return await self.ask("ptx_sendTransaction", {**wanted, "function": "", "from": "a@node1", "data": data})

    async def send(self, asked: Asked) -> dict[str, Any]:
        written = json.dumps(asked.data)
        for name, lock in self.locks.items():
            written = written.replace("{" + name + "}", lock)
        wanted = {"type": "private", "abi": NOTO_ABI, "function": asked.function, "to": self.token, "from": "a@node1"}
        abi = [] if asked.function not in FUNCTIONS else NOTO_ABI
        sent = await self.ask("ptx_sendTransaction", {**wanted, "abi": abi, "data": json.loads(written)})
        assert isinstance(sent, str), sent
        return await self.receipt(sent)

    async def balance(self, account: str) -> object:
        call = {"type": "private", "domain": "noto", "abi": NOTO_ABI, "function": "balanceOf", "to": self.token}
        return await self.ask("ptx_call", {**call, "from": "a@node1", "data": {"account": account}})

    async def view(self, name: str) -> object:
        call = {"type": "private", "domain": "noto", "abi": NOTO_ABI, "function": name, "to": self.token}
        return await self.ask("ptx_call", {**call, "from": "a@node1", "data": {}})


@pytest.mark.slow
@in_loop
async def test_what_clients_send_about_a_token_means_what_it_says(tmp_path: Path) -> None:
    async with network(tmp_path, *ALL) as nodes, aiohttp.ClientSession() as session:
        await nodes.start(*ALL)
        client = Client(nodes, session)
        hooks = await client.deploy("hooks", {"basic": BASIC, "hooks": HOOKS})
        assert (await client.receipt(hooks, "ptx_getTransactionReceipt"))["success"]
        deployed = await client.receipt(await client.deploy("basic", {"basic": BASIC}), "ptx_getTransactionReceipt")
        client.token = deployed["contractAddress"]
        for asked in ASKED:
            receipt = await client.send(asked)
            assert receipt.get("failureMessage", DONE) == asked.ends, asked
            assert receipt.get("success", False) is (asked.ends == DONE)
            if asked.makes:
                client.locks[asked.makes] = receipt["domainReceipt"]["lockInfo"]["lockId"]
            for account, expected in zip(("a@node1", "b@node2"), asked.balances, strict=True):
                told = await client.balance(account)
                assert isinstance(told, dict), told
                assert (told["totalBalance"], told["overflow"]) == (str(expected), False), asked
                assert int(told["totalStates"]) > 0 or expected == 0
        assert (await client.view("name"), await client.view("symbol")) == ({"0": ""}, {"0": ""})
        assert await client.view("decimals") == {"0": "4"}

        # The delegate alone ends the lock in public (`test_locks_network`), and this account is not the delegate.
        public = {
            "type": "public",
            "abi": SPEND_LOCK_ABI,
            "function": "spendLock",
            "to": client.token,
            "from": "a@node1",
            "data": {"lockId": client.locks["lock"], "spendArgs": "0x", "data": "0x"},
        }
        ended = await client.ask("ptx_sendTransaction", public)
        if isinstance(ended, str):
            ended = await client.receipt(ended, "ptx_getTransactionReceipt")
        assert "revert" in (ended.get("failureMessage") or ended["message"])


def test_every_function_of_the_clients_abi_is_asked_for() -> None:
    views = {"balanceOf", "name", "symbol", "decimals"}
    assert {asked.function for asked in ASKED} == (FUNCTIONS.keys() - views) | {"spendLock", "cancelLock"}


@pytest.mark.slow
@in_loop
async def test_what_clients_send_about_a_group_means_what_it_says(tmp_path: Path) -> None:
    async with network(tmp_path, *ALL) as nodes, aiohttp.ClientSession() as session:
        await nodes.start(*ALL)
        client = Client(nodes, session)
        configuration = {"evmVersion": "shanghai", "externalCallsEnabled": "true"}
        group = await client.ask(
            "pgroup_createGroup", {"domain": "pente", "members": ["a@node1", "b@node2"], "configuration": configuration}
        )
        assert (await client.receipt(group["genesisTransaction"], "ptx_getTransactionReceipt"))["success"] is True
        found = await client.ask("pgroup_getGroupById", "pente", group["id"])
        assert (found["id"], found["members"]) == (group["id"], ["a@node1", "b@node2"])
        wanted = {"domain": "pente", "group": group["id"], "from": "a@node1"}
        bytecode = "0x" + playground().bytecode.hex()
        constructor = entry_of(playground(), "constructor")
        deployment = await client.ask(
            "pgroup_sendTransaction", {**wanted, "bytecode": bytecode, "function": constructor, "input": [42]}
        )
        contract = (await client.receipt(deployment))["domainReceipt"]["receipt"]["contractAddress"]
        stored = await client.ask(
            "pgroup_sendTransaction",
            {**wanted, "to": contract, "input": {"num": 1}, "function": entry_of(playground(), "store")},
        )
        receipt = await client.receipt(stored)
        assert receipt["success"] is True
        assert all(set(log) >= {"address", "topics", "data"} for log in receipt["domainReceipt"]["receipt"]["logs"])
        called = {**wanted, "to": contract, "input": [], "function": entry_of(playground(), "retrieve")}
        assert await client.ask("pgroup_call", called) == {"value": "1"}
        address = await client.ask("ptx_resolveVerifier", "a@node1", "ecdsa:secp256k1", "eth_address")
        assert address == receipt["domainReceipt"]["receipt"]["from"]
        undecodable = await client.ask("ptx_decodeEvent", ["0x" + "22" * 32], "0x", "")
        assert "PD012229" in undecodable["message"]


@pytest.mark.parametrize("asked", [asked for asked in ASKED if asked.is_recorded], ids=lambda asked: asked.function)
def test_a_recorded_request_names_the_parameters_of_its_function(asked: Asked) -> None:
    assert list(asked.data) == [each["name"] for each in FUNCTIONS[asked.function]]
