"""Locks with a public side on real nodes: delegates that are parties and contracts, their failures, and their ends."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import pytest

from tests.server.three_nodes import Client, RpcFailed, ThreeNodes, three_nodes, until
from tests.service.kit import QUICK, Network

pytestmark = pytest.mark.slow

ABIS: Final = json.loads((Path(__file__).parents[1] / "server/clients/abis.json").read_text())
ATOM: Final = json.loads((Path(__file__).parents[1] / "contracts/artifacts/Atom.json").read_text())
CONSTRUCTOR: Final = {
    "type": "constructor",
    "inputs": [
        {"name": "name", "type": "string"},
        {"name": "symbol", "type": "string"},
        {"name": "notary", "type": "string"},
        {"name": "notaryMode", "type": "string"},
    ],
}


class Token:
    """A token of three nodes: the notary's, Alice's and Bob's."""

    def __init__(self, to: ThreeNodes, name: str) -> None:
        self.to: Final = to
        self.notary, self.alices, self.bobs = to.clients
        self.name: Final = name
        data = {"name": name, "symbol": "T", "notary": "notary@node1", "notaryMode": "basic"}
        made = {"type": "private", "domain": "noto", "from": "notary", "function": "", "abi": [CONSTRUCTOR]}
        receipt = self.notary.receipt(self.notary.ask("ptx_sendTransaction", {**made, "data": data}))
        self.address: Final = receipt["contractAddress"]

    def do(self, node: Client, sender: str, function: str, **data: Any) -> Any:  # noqa: ANN401
        """A private transaction that is to succeed, and what its receipt tells."""
        until(lambda: self.is_known(node))
        sent = node.ask("ptx_sendTransaction", self.request(sender, function, data))
        return node.receipt(sent, is_full=True)["domainReceipt"]

    def is_known(self, node: Client) -> bool:
        """The node has taken the token in."""
        try:
            node.ask("ptx_call", {**self.request("user", "name", {}), "type": "private"})
        except RpcFailed:
            return False
        return True

    def request(self, sender: str, function: str, data: object) -> dict[str, Any]:
        return {"type": "private", "from": sender, "to": self.address, "function": function, "data": data}

    def public(self, node: Client, sender: str, function: str, **data: Any) -> Any:  # noqa: ANN401
        """A public transaction of the token's contract, and its receipt."""
        call = {"type": "public", "abi": ABIS["INoto"], "function": function, "to": self.address}
        sent = node.ask("ptx_sendTransaction", {**call, "from": sender, "data": data})
        return node.wait_for("ptx_getTransactionReceipt", sent)

    def balance(self, node: Client, account: str) -> int:
        asked = self.request("user", "balanceOf", {"account": account})
        return int(node.ask("ptx_call", asked)["totalBalance"])

    def holds(self, node: Client, account: str, amount: int) -> None:
        """Its node's index may be a block behind."""
        until(lambda: self.balance(node, account) == amount)

    def lock(self, amount: int, **more: object) -> dict[str, Any]:
        """Coins of Alice that Bob is to get."""
        shares = [{"to": "bob@node3", "amount": amount}]
        data = {"from": "alice@node2", "recipients": shares, "unlockData": "0x", "data": "0x", **more}
        told = self.do(self.alices, "alice", "createTransferLock", **data)
        found: dict[str, Any] = told["lockInfo"]
        return found

    def delegate(self, lock: str, delegate: str) -> None:
        self.do(self.alices, "alice", "delegateLock", lockId=lock, delegate=delegate, data="0x")

    def address_of(self, node: Client, party: str) -> str:
        return str(node.ask("ptx_resolveVerifier", party, "ecdsa:secp256k1", "eth_address"))


async def quick(nodes: Network) -> None:
    """Automation looks often."""
    nodes.automation = QUICK


@pytest.fixture(scope="module")
def to(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreeNodes]:
    with three_nodes(tmp_path_factory.mktemp("locks"), quick) as running:
        yield running


@pytest.fixture(scope="module")
def gold(to: ThreeNodes) -> Token:
    token = Token(to, "Gold")
    token.do(token.notary, "notary", "mint", to="alice@node2", amount=1_000, data="0x")
    return token


def test_party_of_a_node_spends_a_lock_that_it_was_given(gold: Token) -> None:
    before = gold.balance(gold.bobs, "bob@node3")
    lock = gold.lock(40)
    gold.delegate(lock["lockId"], gold.address_of(gold.bobs, "bob"))
    receipt = gold.public(gold.bobs, "bob", lock["unlockFunction"], **lock["unlockParams"])
    assert receipt.get("success"), receipt
    gold.holds(gold.bobs, "bob@node3", before + 40)
    gold.holds(gold.notary, "bob@node3", before + 40)
    for node in (gold.alices, gold.bobs):
        # Both have a receipt of the end, under the id in the receipt of the preparation.
        ended = node.wait_for("ptx_getTransactionReceiptFull", str(UUID(lock["spendTxId"][2:34])))
        assert ended["domainReceipt"]["lockInfo"] == {"lockId": lock["lockId"]}
        assert [each["amount"] for each in ended["domainReceipt"]["transfers"]] == ["40"]
        assert ended["transactionHash"] == receipt["transactionHash"]
    told = gold.bobs.ask("ptx_sendTransaction", gold.request("bob", "transfer", _paid("alice@node2", 5)))
    gold.bobs.receipt(told)


def _paid(to: str, amount: int) -> dict[str, object]:
    return {"to": to, "amount": amount, "data": "0x"}


def test_failures_of_delegates_are_named(gold: Token) -> None:
    lock = gold.lock(3)
    spend = (lock["unlockFunction"], lock["unlockParams"])
    cancel = (lock["cancelFunction"], lock["cancelParams"])

    def failure(node: Client, sender: str, function: str, params: dict[str, Any]) -> str:
        receipt = gold.public(node, sender, function, **params)
        assert not receipt.get("success")
        return str(receipt["failureMessage"])

    assert "names one by the private function delegateLock" in failure(gold.bobs, "bob", *spend)
    gold.delegate(lock["lockId"], gold.address_of(gold.bobs, "bob"))
    assert "LockUnauthorized" in failure(gold.alices, "alice", *spend)
    assert "LockUnauthorized" in failure(gold.alices, "alice", *cancel)
    assert gold.public(gold.bobs, "bob", *cancel[:1], **cancel[1]).get("success")
    assert "LockNotActive" in failure(gold.bobs, "bob", *spend)
    assert "the lock was spent or cancelled" in failure(gold.bobs, "bob", *cancel)
    gold.holds(gold.alices, "alice@node2", gold.balance(gold.notary, "alice@node2"))
    asked = gold.request("alice", "cancelLock", {"lockId": lock["lockId"], "data": "0x"})
    found = gold.alices.wait_for("ptx_getTransactionReceipt", gold.alices.ask("ptx_sendTransaction", asked))
    assert "PD200028: Lock ID not found" in found["failureMessage"], "the record's end has spent what stood for it"


def test_wrong_arguments_of_a_delegate_are_named(gold: Token) -> None:
    """The other leaf's, those of another lock, and a lock that has expired."""
    first, second = gold.lock(2), gold.lock(3)
    bob = gold.address_of(gold.bobs, "bob")
    gold.delegate(first["lockId"], bob)
    for args in (first["cancelParams"]["cancelArgs"], second["unlockParams"]["spendArgs"]):
        told = gold.public(gold.bobs, "bob", "spendLock", lockId=first["lockId"], spendArgs=args, data="0x")
        assert "a lock permits only the spendArgs and cancelArgs" in told["failureMessage"]
    assert gold.public(gold.bobs, "bob", "cancelLock", **first["cancelParams"]).get("success")


def test_expired_lock_returns_to_its_owner_by_itself(gold: Token) -> None:
    """A node of the owner or the notary cancels it, and no delegate has to do anything."""
    held = gold.balance(gold.notary, "alice@node2")
    lock = gold.lock(11, expiresAt=int(time.time()) + 2)
    assert int(lock["expiresAt"]) > 0
    gold.delegate(lock["lockId"], "0x" + "dd" * 20)
    gold.holds(gold.alices, "alice@node2", held - 11)
    gold.holds(gold.alices, "alice@node2", held)
    gold.holds(gold.notary, "alice@node2", held)
    told = gold.public(gold.bobs, "bob", "spendLock", **lock["unlockParams"])
    assert "LockNotActive" in told["failureMessage"]


def test_recipient_that_was_away_has_its_coin_when_it_returns(to: ThreeNodes, gold: Token) -> None:
    """The record was set while its node was down, and ended while it was down."""
    before = gold.balance(gold.notary, "bob@node3")
    to.stop("node3")
    lock = gold.lock(6)
    gold.delegate(lock["lockId"], gold.address_of(gold.alices, "alice"))
    assert gold.public(gold.alices, "alice", "spendLock", **lock["unlockParams"]).get("success")
    gold.holds(gold.notary, "bob@node3", before + 6)
    to.start("node3")
    gold.bobs = to.node3
    gold.holds(gold.bobs, "bob@node3", before + 6)
    paid = gold.bobs.ask("ptx_sendTransaction", gold.request("bob", "transfer", _paid("alice@node2", before + 6)))
    gold.bobs.receipt(paid)


def test_reorganisation_takes_the_end_of_a_lock_back_until_the_chain_has_it_again(to: ThreeNodes, gold: Token) -> None:
    """The record exists again, and so does its counterpart. The node of the delegate sends its transaction again."""
    before = gold.balance(gold.bobs, "bob@node3")
    lock = gold.lock(8)
    gold.delegate(lock["lockId"], gold.address_of(gold.bobs, "bob"))
    first = gold.public(gold.bobs, "bob", "spendLock", **lock["unlockParams"])
    for node in (gold.notary, gold.bobs):
        gold.holds(node, "bob@node3", before + 8)
    to.run(to.nodes.client.call("anvil_reorg", hex(1), []))
    until(lambda: _block_of(to, first["transactionHash"]) not in (None, first["blockNumber"]))
    for node in (gold.notary, gold.bobs):
        gold.holds(node, "bob@node3", before + 8)

    def paid() -> str | None:
        for node in (gold.notary, gold.alices, gold.bobs):
            node.ask("node_acknowledgeFinality")  # They wait for no confirmations, so that the block was final.
        try:
            asked = gold.request("bob", "transfer", _paid("alice@node2", before + 8))
            return str(gold.bobs.ask("ptx_sendTransaction", asked))
        except RpcFailed:
            return None

    gold.bobs.receipt(until(paid))
    again = gold.public(gold.bobs, "bob", "spendLock", **lock["unlockParams"])
    assert "LockNotActive" in again["failureMessage"]


def _block_of(to: ThreeNodes, transaction: str) -> int | None:
    found: Any = to.run(to.nodes.client.call("eth_getTransactionReceipt", transaction))
    return int(found["blockNumber"], 16) if found is not None else None


def test_delegate_gives_the_lock_to_a_contract_that_swaps(to: ThreeNodes, gold: Token) -> None:
    """Prepare both unlocks, create the atom, delegate both locks, execute."""
    silver = Token(to, "Silver")
    silver.do(silver.notary, "notary", "mint", to="bob@node3", amount=100, data="0x")
    before = gold.balance(gold.notary, "bob@node3")
    leg = gold.lock(7)
    bobs = silver.do(silver.bobs, "bob", "lock", amount=9, data="0x")["lockInfo"]["lockId"]
    shares = [{"to": "alice@node2", "amount": 9}]
    data = {"lockId": bobs, "from": "bob@node3", "recipients": shares, "unlockData": "0x", "data": "0x"}
    other = silver.do(silver.bobs, "bob", "prepareUnlock", **data)["lockInfo"]
    operations = [[gold.address, leg["unlockCall"]], [silver.address, other["unlockCall"]]]
    node = gold.alices
    call = {"type": "public", "from": "alice", "abi": ATOM["abi"]}
    made = node.ask("ptx_sendTransaction", {**call, "bytecode": ATOM["bytecode"], "data": [operations, []]})
    atom = node.receipt(made)["contractAddress"]
    gold.delegate(leg["lockId"], atom)
    execute = {**call, "to": atom, "function": "execute", "data": []}
    failed = node.wait_for("ptx_getTransactionReceipt", node.ask("ptx_sendTransaction", execute))
    assert "LockUnauthorized" in failed["failureMessage"], "a leg that fails takes the others with it"
    assert gold.balance(gold.notary, "bob@node3") == before
    silver.do(silver.bobs, "bob", "delegateLock", lockId=bobs, delegate=atom, data="0x")
    node.receipt(node.ask("ptx_sendTransaction", execute))
    gold.holds(gold.bobs, "bob@node3", before + 7)
    silver.holds(silver.alices, "alice@node2", 9)
