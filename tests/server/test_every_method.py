"""Every method, called against three real nodes after real transactions, with an answer that is not empty.

Answers have the fields that clients know. A method that nobody calls here fails the test, and so does a field that no
answer ever has, unless it stands below with the reason.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import pytest

from rota.directory.consent import ConsentMode
from rota.model.types import ContractAddress, NodeName
from rota.server.number_file import FILE_NAME
from rota.server.table import TABLE
from rota.store.quarantine import quarantining
from tests.domains.zeto.prover import ThreadProver
from tests.server.client_types import METHODS, TYPES, UNPUBLISHED, Seen
from tests.server.examples import Examples, is_empty
from tests.server.storage import ABI, BYTECODE, CHANGED, CONSTRUCTOR, EVENT, RETRIEVE, STORE
from tests.server.three_nodes import Client, RpcFailed, Socket, ThreeNodes, three_nodes, until
from tests.service.kit import EPOCHS, FUNDS_WEI, Network, send, with_epochs

pytestmark = pytest.mark.slow

SECP256K1, ETH_ADDRESS = "ecdsa:secp256k1", "eth_address"
LIMIT: Final = {"limit": 50}
ONE: Final = {"limit": 1}
HOOK: Final = json.loads((Path(__file__).parents[1] / "contracts" / "artifacts" / "Hook.json").read_text())

# What is pushed, and not called.
PUSHED: Final = {"ptx_subscription"}
# What has no answer.
SILENT: Final = {"ptx_ack", "ptx_nack", "pgroup_ack", "pgroup_nack"}
# So long that no epoch ends meanwhile: blocks come when something is asked for.
EPOCH_S: Final = 3_600
INVALID_PARAMETERS: Final = -32602
REJECTED: Final = "value too long for type character varying(64)"


class World:
    """What the calls are about: a token, a group with a private contract, a public contract; and what was called."""

    def __init__(self, to: ThreeNodes) -> None:
        self.to: Final = to
        self.seen: Final = Seen()
        self.examples: Final = Examples(to.nodes.home)
        self.called: Final[dict[str, bool]] = {}
        self._make_token()
        self._make_unlinked_token()
        self._make_group()
        self._make_public()

    def ask(self, client: Client | Socket, method: str, *params: object) -> Any:  # noqa: ANN401  # whatever it answers
        """Call a method; its answer is recorded, and compared with what clients know."""
        answer = client.ask(method, *params)
        self._take(client, method, params, answer, self.examples.take)
        return answer

    def show(self, client: Client | Socket, method: str, *params: object) -> Any:  # noqa: ANN401  # whatever it answers
        """Call a method; this call is its example in the documents, instead of the first one."""
        answer = client.ask(method, *params)
        self._take(client, method, params, answer, self.examples.show)
        return answer

    def tell(self, socket: Socket, method: str, *params: object) -> None:
        """Call a method that has no answer."""
        socket.tell(method, *params)
        self.examples.take_silent(method, params)

    def pushed(self, socket: Socket, method: str) -> Any:  # noqa: ANN401  # whatever it sends
        """What a node sends next, because of this method."""
        message = socket.receive()
        self.examples.take_pushed(method, message)
        return message

    def ask_among_pushes(self, socket: Socket, method: str, *params: object) -> bool:
        """Call a method on a connection on which the node may be sending at this moment; whether the answer is true."""
        number = socket.tell(method, *params)
        while (received := socket.receive()).get("id") != number:
            assert "method" in received, received
        self._take(socket, method, params, received["result"], self.examples.take)
        return received["result"] is True

    def _take(
        self,
        client: Client | Socket,
        method: str,
        params: tuple[object, ...],
        answer: Any,  # noqa: ANN401  # whatever it answers
        take: Callable[[str, tuple[object, ...], object], None],
    ) -> None:
        self.called[method] = self.called.get(method, False) or not is_empty(answer)
        self.seen.take(method, answer)
        fewer = tuple({**each, **ONE} if isinstance(each, dict) and "limit" in each else each for each in params)
        # A page is shorter with one entry of a list, and the answer is the one to the request that it shows.
        take(method, fewer, answer if fewer == params else client.ask(method, *fewer))

    def send(self, client: Client, **transaction: object) -> str:
        """A transaction that succeeds; its id."""
        asked = {name.rstrip("_"): value for name, value in transaction.items()}
        sent = str(self.ask(client, "ptx_sendTransaction", asked))
        client.receipt(sent)
        return sent

    def _make_token(self) -> None:
        one, two, _ = self.to.clients
        data = {"name": "Coin", "symbol": "C", "notary": "bank@node1", "notaryMode": "basic"}
        deployed = self.send(one, type="private", domain="noto", from_="bank", data=data, idempotencyKey="the token")
        self.token = one.receipt(deployed)["contractAddress"]
        base: dict[str, Any] = {"type": "private", "to": self.token}
        mint = {"to": "alice@node2", "amount": 100, "data": "0x"}
        self.minted = self.send(one, **base, from_="bank", function="mint", data=mint)
        pay = {"to": "bob@node3", "amount": 30, "data": "0x"}
        self.paid = str(
            self.show(two, "ptx_sendTransaction", {**base, "from": "alice", "function": "transfer", "data": pay})
        )
        two.receipt(self.paid)
        self.overspent = str(
            two.ask(
                "ptx_sendTransaction", {**base, "from": "alice", "function": "transfer", "data": {**pay, "amount": 999}}
            )
        )
        self.prepared = str(
            self.ask(two, "ptx_prepareTransaction", {**base, "from": "alice", "function": "transfer", "data": pay})
        )

    def _make_unlinked_token(self) -> None:
        """One whose coins are spent by nullifiers, which their owner's node knows."""
        one = self.to.node1
        data = {"tokenName": "Zeto_AnonNullifier"}
        deployed = self.send(one, type="private", domain="zeto", from_="bank", data=data)
        self.unlinked = one.receipt(deployed)["contractAddress"]
        mints = {"mints": [{"to": "alice@node2", "amount": 5, "data": "0x"}]}
        self.send(one, type="private", to=self.unlinked, from_="bank", function="mint", data=mints)

    def _make_group(self) -> None:
        one, two, _ = self.to.clients
        spec = {
            "domain": "pente",
            "members": ["a@node1", "b@node2"],
            "name": "storage",
            "properties": {"purpose": "a test"},
            "configuration": {"evmVersion": "shanghai"},
        }
        self.group = self.ask(one, "pgroup_createGroup", spec)
        self.group_address = one.receipt(self.group["genesisTransaction"])["contractAddress"]
        until(lambda: two.ask("pgroup_getGroupByAddress", self.group_address))
        base = {"domain": "pente", "group": self.group["id"], "from": "a"}
        deployment = self.ask(one, "pgroup_sendTransaction", {**base, "bytecode": BYTECODE, "function": CONSTRUCTOR})
        self.private = one.receipt(deployment, is_full=True)["domainReceipt"]["receipt"]["contractAddress"]
        stored = one.ask("pgroup_sendTransaction", {**base, "to": self.private, "function": STORE, "input": [5]})
        one.receipt(stored)
        self.stored = stored

    def _make_public(self) -> None:
        one = self.to.node1
        # Whoever offers a price must be able to pay it.
        carol = one.ask("keymgr_resolveEthAddress", "carol")
        self.to.run(send(self.to.nodes.client, {"to": carol, "value": hex(FUNDS_WEI)}))
        self.public_deployment = self.send(one, type="public", from_="carol", abi=ABI, bytecode=BYTECODE)
        self.public = one.receipt(self.public_deployment)["contractAddress"]
        call = {"type": "public", "from_": "carol", "to": self.public, "abi": ABI, "function": "store"}
        prices = {"gas": 200_000, "maxFeePerGas": 10, "maxPriorityFeePerGas": 1}
        self.public_call = self.send(one, **call, **prices, data={"num": 8}, dependsOn=[self.public_deployment])
        self.gift = self.send(one, type="public", from_="carol", to="0x" + "77" * 20, data="0x", value=1)
        entry = {"type": "function", "name": "absent", "inputs": [], "outputs": []}
        self.reverted = str(
            one.ask(
                "ptx_sendTransaction",
                {
                    "type": "public",
                    "from": "carol",
                    "to": self.public,
                    "abi": [entry],
                    "function": "absent",
                    "gas": 90_000,
                },
            )
        )
        one.wait_for("ptx_getTransactionReceipt", self.reverted)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    home = tmp_path_factory.mktemp("every-method")
    with three_nodes(home, prepare) as running:
        yield World(running)


async def prepare(nodes: Network) -> None:
    """Automation with triggers, and a prover of zero-knowledge proofs."""
    nodes.prover = ThreadProver()
    await with_epochs(nodes, duration_s=EPOCH_S)


def test_every_method_that_clients_know_is_there() -> None:
    assert set(METHODS) | set(UNPUBLISHED) - PUSHED <= set(TABLE)
    for name, signature in METHODS.items():
        wanted = [each.split(":")[0] for each in signature[1 : signature.index(") ->")].split(", ") if ":" in each]
        parameters = TABLE[name].parameters
        assert [parameter.name for parameter in parameters][: len(wanted)] == wanted, name
        # What we add may be left out, and stands behind what clients know.
        added = parameters[len(wanted) :]
        assert {parameter.name for parameter in added} <= {"atLeast"}, name
        assert not any(parameter.is_required for parameter in added), name


def call_every_method(world: World) -> None:
    """Family by family."""
    for call in (
        _submit_and_follow,
        _types,
        _listen,
        _sequencing,
        _groups,
        _states,
        _keys,
        _transport,
        _registry_and_domains,
        _blocks,
        _ours,
        _consent,
        _set_aside,
    ):
        call(world, world.to.node1, world.to.node2)


def test_every_method_answers(world: World) -> None:
    call_every_method(world)
    uncalled = set(TABLE) - set(world.called) - SILENT
    assert uncalled == set(), "these were not called"
    empty = {method for method, has_answer in world.called.items() if not has_answer}
    assert empty == set(), "these have no answer"
    _assert_fields_are_there(world)
    assert world.examples.faults() == [], "record the examples with `make examples`, and read what changed"


@pytest.mark.parametrize(
    ("method", "given"),
    [
        ("ptx_createReceiptListener", {"name": "far", "filters": {"sequenceAbove": 2**63}}),
        ("ptx_queryTransactions", {"limit": 1, "lessThan": [{"field": "created", "value": -(2**63) - 1}]}),
        ("ptx_queryTransactions", {"limit": 1, "lessThan": [{"field": "created", "value": -(2**63) + 1}]}),
        ("ptx_queryTransactionReceipts", {"limit": 1, "equal": [{"field": "blockNumber", "value": 2**63}]}),
        ("ptx_queryTransactions", {"limit": 1, "equal": [{"field": "idempotencyKey", "value": "na\0me"}]}),
    ],
)
def test_a_value_out_of_range_is_the_callers_error_and_the_node_stays_ready(
    world: World, method: str, given: dict[str, object]
) -> None:
    """It once counted as a store in trouble: a node on a quiet chain refused whatever came, until a restart."""
    one = world.to.node1
    try:
        one.ask(method, given)
        code = INVALID_PARAMETERS
    except RpcFailed as refused:
        code = refused.code
    assert code == INVALID_PARAMETERS
    assert one.ask("node_status")["missing"] == []


# Families.


def _submit_and_follow(world: World, one: Client, two: Client) -> None:
    ask = world.ask
    transfer = {"type": "private", "to": world.token, "from": "alice", "function": "transfer"}
    data = {"to": "bob@node3", "amount": 1, "data": "0x"}
    sent = ask(two, "ptx_sendTransactions", [{**transfer, "data": data}] * 2)
    prepared = ask(two, "ptx_prepareTransactions", [{**transfer, "data": data}])
    assert len(sent + prepared) == 3
    balance = {"type": "private", "domain": "noto", "to": world.token, "from": "bank", "function": "balanceOf"}
    assert ask(one, "ptx_call", {**balance, "data": {"account": "bob@node3"}})["totalBalance"] != "0"
    assert ask(one, "ptx_call", {"type": "public", "to": world.public, "abi": ABI, "function": "retrieve"}) == {
        "value": "8"
    }
    failed = two.wait_for("ptx_getTransactionReceipt", world.overspent)
    assert "success" not in failed
    assert failed["failureMessage"].startswith("PD200005")
    for client, transaction in (
        (one, world.minted),
        (two, world.paid),
        (two, world.overspent),
        (one, world.stored),
        (one, world.group["genesisTransaction"]),
        (one, world.public_deployment),
        (one, world.public_call),
        (one, world.gift),
        (one, world.reverted),
    ):
        ask(client, "ptx_getTransaction", transaction)
        ask(client, "ptx_getTransactionFull", transaction)
        ask(client, "ptx_getTransactionReceipt", transaction)
        ask(client, "ptx_getTransactionReceiptFull", transaction)
    assert ask(one, "ptx_getTransactionByIdempotencyKey", "the token")["domain"] == "noto"
    for method in ("ptx_queryTransactions", "ptx_queryTransactionsFull", "ptx_queryTransactionReceipts"):
        ask(one, method, LIMIT)
    # A prepared transaction has not ended.
    ask(two, "ptx_queryPendingTransactions", LIMIT, False)
    assert ask(one, "ptx_getTransactionDependencies", world.public_call)["dependsOn"] == [world.public_deployment]
    ask(two, "ptx_getStateReceipt", world.paid)
    ask(one, "ptx_getDomainReceipt", "pente", world.stored)
    until(lambda: two.ask("ptx_getPreparedTransaction", world.prepared))
    prepared_as = ask(two, "ptx_getPreparedTransaction", world.prepared)["transaction"]
    assert two.ask("ptx_getStoredABI", prepared_as["abiReference"])["abi"] == prepared_as["abi"]
    ask(two, "ptx_queryPreparedTransactions", LIMIT)
    for transaction in (world.public_deployment, world.public_call, world.gift, world.reverted):
        (public, *_) = one.ask("ptx_getTransactionFull", transaction)["public"]
        found = ask(one, "ptx_getPublicTransaction", public["localId"])
        assert ask(one, "ptx_getPublicTransactionByNonce", found["from"], found["nonce"]) == found
        assert ask(one, "ptx_getPublicTransactionByHash", found["transactionHash"]) == found
    _public_queries(world, one, two)
    dispatches = until(lambda: one.ask("ptx_queryDispatches", LIMIT) or None)
    ask(one, "ptx_queryDispatches", LIMIT)
    ask(one, "ptx_getDispatch", dispatches[0]["id"])
    chained = _chained(world, one)
    assert ask(one, "ptx_getChainedDispatch", chained["id"]) == chained
    assert one.ask("ptx_getChainedDispatch", dispatches[0]["id"]) is None


def _public_queries(world: World, one: Client, two: Client) -> None:
    """Users' transactions and rounds, which the notary's node sends; another node's hash is none of ours."""
    ask = world.ask
    every = ask(one, "ptx_queryPublicTransactions", LIMIT)
    assert {each["transactionType"] for each in every} == {"public", "private"}
    of_mint = {**LIMIT, "eq": [{"field": "transaction", "value": world.minted}]}
    (round_,) = world.show(one, "ptx_queryPublicTransactions", of_mint)
    assert (round_["transaction"], round_["to"], round_["sender"]) == (world.minted, world.token, "bank@node1")
    by_hash = one.ask("ptx_getPublicTransactionByHash", round_["transactionHash"])
    assert by_hash["localId"] == round_["localId"]
    assert one.ask("ptx_getPublicTransactionByNonce", round_["from"], round_["nonce"]) == by_hash
    assert two.ask("ptx_getPublicTransactionByHash", round_["transactionHash"]) is None
    assert one.ask("ptx_getPublicTransactionByHash", "0x" + "77" * 32) is None
    # It offers a price that its account cannot pay.
    poor = {"type": "public", "from": "penniless", "to": world.public, "abi": ABI, "function": "store", "data": [3]}
    waiting = one.ask("ptx_sendTransaction", {**poor, "gas": 100_000, "maxFeePerGas": 10**18})
    (pending,) = ask(
        one, "ptx_queryPendingPublicTransactions", {**LIMIT, "eq": [{"field": "sender", "value": "penniless@node1"}]}
    )
    assert pending["transaction"] == waiting
    assert one.ask("ptx_cancelTransaction", waiting)


def _chained(world: World, one: Client) -> Any:  # noqa: ANN401  # whatever it answers
    """A token with a hook, in a group of the notary alone, which carries a payment out."""
    configuration = {"externalCallsEnabled": True}
    group = one.ask(
        "pgroup_createGroup", {"domain": "pente", "members": ["bank@node1"], "configuration": configuration}
    )
    ledger = one.receipt(group["genesisTransaction"])["contractAddress"]
    wanted = {"domain": "pente", "group": group["id"], "from": "bank", "bytecode": HOOK["bytecode"]}
    deployment = one.ask("pgroup_sendTransaction", {**wanted, "function": HOOK["abi"][0]})
    hook = one.receipt(deployment, is_full=True)["domainReceipt"]["receipt"]["contractAddress"]
    hooks = {"publicAddress": ledger, "privateAddress": hook}
    data = {"notary": "bank@node1", "notaryMode": "hooks", "options": {"hooks": hooks}}
    deployed = world.send(one, type="private", domain="noto", from_="bank", data=data)
    base = {"type": "private", "from_": "bank", "to": one.receipt(deployed)["contractAddress"]}
    minted = world.send(one, **base, function="mint", data={"to": "bank", "amount": 8, "data": "0x"})
    (found,) = world.ask(one, "ptx_queryChainedDispatches", LIMIT)
    assert found["transactionID"] == minted
    assert one.receipt(found["chainedTransactionID"])["success"]
    return found


def _types(world: World, one: Client, two: Client) -> None:
    ask = world.ask
    reference = ask(
        one, "ptx_storeABI", [*ABI, {"type": "error", "name": "Refused", "inputs": [{"name": "n", "type": "uint256"}]}]
    )
    ask(one, "ptx_getStoredABI", reference)
    ask(one, "ptx_queryStoredABIs", LIMIT)
    word = "0" * 63 + "5"
    assert ask(one, "ptx_decodeCall", "0x6057361d" + word, "")["data"] == {"num": "5"}
    assert ask(one, "ptx_decodeEvent", ["0x" + CHANGED.hex()], "0x" + word, "")["data"] == {"num": "5"}
    ask(one, "ptx_decodeError", "0x08c379a0" + "0" * 62 + "20" + "0" * 63 + "2" + "6e6f".ljust(64, "0"), "")
    assert ask(one, "ptx_resolveVerifier", "alice@node2", SECP256K1, ETH_ADDRESS)
    coins = ("alice@node2", "domain:zeto:snark:babyjubjub", "iden3_pubkey_babyjubjub_compressed_0x")
    assert one.ask("ptx_resolveVerifier", *coins) == two.ask("ptx_resolveVerifier", *coins)


def _listen(world: World, one: Client, _: Client) -> None:
    ask = world.ask
    kinds: dict[str, dict[str, Any]] = {
        "Receipt": {
            "name": "l1",
            "filters": {"sequenceAbove": 0, "type": "private", "domain": "noto"},
            "options": {"domainReceipts": True, "incompleteStateReceiptBehavior": "process"},
        },
        "BlockchainEvent": {
            "name": "l1",
            "sources": [{"abi": [EVENT], "address": world.public}],
            "options": {"batchSize": 10, "batchTimeout": "100ms", "fromBlock": "0x0"},
        },
    }
    for kind, definition in kinds.items():
        ask(one, f"ptx_create{kind}Listener", definition)
        ask(one, f"ptx_get{kind}Listener", "l1")
        ask(one, f"ptx_query{kind}Listeners", LIMIT)
        ask(one, f"ptx_stop{kind}Listener", "l1")
        ask(one, f"ptx_start{kind}Listener", "l1")
    socket = world.to.socket("node1")
    for feed, named in (("receipts", "receipts"), ("blockchainevents", "events")):
        subscription = ask(socket, "ptx_subscribe", feed, "l1")
        # Refused once, it comes again.
        assert world.pushed(socket, "ptx_subscribe")["params"]["result"][named]
        world.tell(socket, "ptx_nack", subscription)
        push = socket.receive()
        assert (push["params"]["subscription"], push["method"]) == (subscription, "ptx_subscription")
        world.tell(socket, "ptx_ack", subscription)
        assert world.ask_among_pushes(socket, "ptx_unsubscribe", subscription)
    socket.close()
    ask(one, "ptx_getBlockchainEventListenerStatus", "l1")
    for kind in kinds:
        ask(one, f"ptx_delete{kind}Listener", "l1")
        with pytest.raises(RpcFailed, match="there is no listener"):
            one.ask(f"ptx_delete{kind}Listener", "l1")


def _sequencing(world: World, one: Client, _: Client) -> None:
    ask = world.ask
    # A coordinator that has nothing to do becomes idle.
    gift = {"to": "carol@node2", "amount": 8, "data": "0x"}
    world.send(one, type="private", from_="bank", to=world.token, function="mint", data=gift)
    assert ask(one, "seq_status", world.token)["activeCoordinator"] == "node1"
    assert ask(one, "seq_explain", world.minted)["state"]
    ask(one, "seq_list", 10)
    assert ask(one, "seq_ring", world.token)
    # Of a group the coordinator changes; that of a token is its notary's node from the first heartbeat on.
    assert [each["leader"] for each in ask(one, "seq_leaders", world.token)] == ["node1"]
    assert ask(one, "node_status")["name"] == "node1"
    assert {each["path"] for each in ask(one, "node_configuration")} >= {"node.name", "rpc.port"}
    assert ask(one, "node_acknowledgeFinality") == 0
    assert ask(one, "seq_chooseAccount", world.token, "own") is True
    (own,) = (each for each in ask(one, "seq_accounts") if each.get("contract") == world.token)
    assert (own["paying"], own["short"]) == (True, False)
    assert ask(one, "seq_chooseAccount", world.token, "default") is True
    with pytest.raises(RpcFailed, match="contract: must be a contract of node1"):
        one.ask("seq_chooseAccount", "0x" + "5e" * 20, "own")
    socket = world.to.socket("node1")
    subscription = ask(socket, "seq_subscribe", 100)
    assert world.pushed(socket, "seq_subscribe")["params"]["subscription"] == subscription
    assert world.ask_among_pushes(socket, "seq_follow", subscription, [world.minted])
    assert world.ask_among_pushes(socket, "seq_unsubscribe", subscription)
    socket.close()


def _groups(world: World, one: Client, two: Client) -> None:
    ask = world.ask
    identity = world.group["id"]
    ask(two, "pgroup_getGroupById", "pente", identity)
    ask(two, "pgroup_getGroupByAddress", world.group_address)
    ask(two, "pgroup_queryGroups", LIMIT)
    ask(two, "pgroup_queryGroupsWithMember", "b@node2", LIMIT)
    base = {"domain": "pente", "group": identity}
    call = {**base, "from": "a", "to": world.private, "function": RETRIEVE, "input": []}
    assert ask(one, "pgroup_call", call) == {"value": "5"}
    question = {"to": world.private, "function": RETRIEVE, "input": []}
    assert ask(one, "pgroup_invokeRPC", "pente", identity, "pente_call", question) == {"value": "5"}
    assert two.ask("pgroup_invokeRPC", "pente", identity, "call", [{**question, "from": "b"}]) == {"value": "5"}
    with pytest.raises(RpcFailed, match=r"^method: must be one of pente_call for 0x"):
        one.ask("pgroup_invokeRPC", "pente", identity, "eth_call", [])
    with pytest.raises(RpcFailed, match=r"^params"):
        one.ask("pgroup_invokeRPC", "pente", identity, "call", {**question, "from": "carol"})
    first = one.ask("pgroup_sendMessage", {**base, "topic": "t", "data": {"n": 0}})
    sent = ask(one, "pgroup_sendMessage", {**base, "topic": "t", "data": {"n": 1}, "correlationId": first})
    two.wait_for("pgroup_getMessageById", sent)
    ask(two, "pgroup_getMessageById", sent)
    ask(two, "pgroup_queryMessages", LIMIT)
    filters = {"sequenceAbove": 0, "domain": "pente", "group": identity, "topic": "t"}
    definition = {"name": "m1", "filters": {**filters, "sequenceAbove": 1}, "options": {"excludeLocal": True}}
    ask(two, "pgroup_createMessageListener", definition)
    ask(two, "pgroup_getMessageListener", "m1")
    ask(two, "pgroup_queryMessageListeners", LIMIT)
    ask(two, "pgroup_stopMessageListener", "m1")
    ask(two, "pgroup_startMessageListener", "m1")
    socket = world.to.socket("node2")
    subscription = ask(socket, "pgroup_subscribe", "messages", "m1")
    assert world.pushed(socket, "pgroup_subscribe")["params"]["result"]["messages"]
    world.tell(socket, "pgroup_nack", subscription)
    assert socket.receive()["method"] == "pgroup_subscription"
    world.tell(socket, "pgroup_ack", subscription)
    assert world.ask_among_pushes(socket, "pgroup_unsubscribe", subscription)
    socket.close()
    ask(two, "pgroup_deleteMessageListener", "m1")


def _states(world: World, one: Client, two: Client) -> None:
    ask = world.ask
    schema = next(each["id"] for each in ask(two, "pstate_listSchemas", "noto") if "Coin" in each["signature"])
    assert ask(two, "pstate_getSchemaById", "noto", schema)["id"] == schema
    assert two.ask("pstate_getSchemaById", "noto", "0x" + "00" * 32) is None
    of_mint = {**LIMIT, "eq": [{"field": "amount", "value": 100}]}
    assert len(world.show(two, "pstate_queryStates", "noto", schema, of_mint, "all")) == 1
    assert len(world.show(two, "pstate_queryContractStates", "noto", world.token, schema, of_mint, "all")) == 1
    found = ask(two, "pstate_queryContractStates", "noto", world.token, schema, LIMIT, "all")
    coins = next(each["id"] for each in ask(two, "pstate_listSchemas", "zeto") if "Coin" in each["signature"])
    (coin,) = until(lambda: two.ask("pstate_queryNullifiers", "zeto", coins, LIMIT, "confirmed") or None)
    assert "spent" not in coin["nullifier"]
    assert ask(two, "pstate_queryNullifiers", "zeto", coins, LIMIT, "all") == [coin]
    assert ask(two, "pstate_queryContractNullifiers", "zeto", world.unlinked, coins, LIMIT, "all") == [coin]
    ask(two, "pstate_storeState", "noto", world.token, schema, {"owner": "alice@node2", "amount": 1})
    minted = next(each for each in found if each["data"]["amount"] == "100")
    ask(one, "pstate_transferPrivateState", "noto", minted["id"], "alice@node2")


def _keys(world: World, one: Client, _: Client) -> None:
    ask = world.ask
    ask(one, "keymgr_wallets")
    mapping = ask(one, "keymgr_resolveKey", "org.dave", SECP256K1, ETH_ADDRESS)
    ask(one, "keymgr_resolveEthAddress", "org.dave")
    ask(one, "keymgr_reverseKeyLookup", SECP256K1, ETH_ADDRESS, mapping["verifier"]["verifier"])
    ask(one, "keymgr_queryKeys", LIMIT)
    ask(one, "keymgr_sign", "org.dave", SECP256K1, ETH_ADDRESS, "opaque:rsv", "0x" + "11" * 32)


def _transport(world: World, one: Client, _: Client) -> None:
    ask = world.ask
    ask(one, "transport_nodeName")
    ask(one, "transport_localTransports")
    ask(one, "transport_localTransportDetails", "grpc")
    ask(one, "transport_peers")
    ask(one, "transport_peerInfo", "node2")
    ask(one, "transport_getPeer", "node2")
    ask(one, "transport_queryPeers", LIMIT)
    until(lambda: one.ask("transport_queryReliableMessageAcks", LIMIT) or None)
    ask(one, "transport_queryReliableMessages", LIMIT)
    ask(one, "transport_queryReliableMessageAcks", LIMIT)


def _registry_and_domains(world: World, one: Client, _: Client) -> None:
    ask = world.ask
    ask(one, "reg_registries")
    entries = ask(one, "reg_queryEntries", "registry", {}, "active")
    ask(one, "reg_queryEntriesWithProps", "registry", {}, "any")
    ask(one, "reg_getEntryProperties", "registry", entries[0]["id"], "active")
    ask(one, "domain_listDomains")
    ask(one, "domain_getDomain", "pente")
    ask(one, "domain_getDomainByAddress", world.token)
    of_token = {**LIMIT, "eq": [{"field": "address", "value": world.token}]}
    (found,) = world.show(one, "domain_querySmartContracts", of_token)
    assert found["domainName"] == "noto"
    ask(one, "domain_getSmartContractByAddress", world.group_address)
    params = {"account": "alice@node2"}
    balance = ask(one, "domain_invokeRPC", world.token, "noto_balanceOf", params)
    assert balance["totalBalance"] != "0"
    assert one.ask("domain_invokeRPC", world.token, "balanceOf", ["alice@node2"]) == balance
    assert one.ask("domain_invokeRPC", world.token, "", {"method": "balanceOf", "params": [params]}) == balance
    with pytest.raises(RpcFailed, match=r"^params\.account: "):
        one.ask("domain_invokeRPC", world.token, "balanceOf", {})
    with pytest.raises(RpcFailed, match=r"^contractAddress: must be a private contract of node1"):
        one.ask("domain_invokeRPC", world.public, "balanceOf", params)


def _blocks(world: World, one: Client, _: Client) -> None:
    ask = world.ask
    receipt = one.receipt(world.public_call)
    number, transaction = receipt["blockNumber"], receipt["transactionHash"]
    ask(one, "bidx_getConfirmedBlockHeight")
    ask(one, "bidx_getBlockByNumber", number)
    (found, *_) = ask(one, "bidx_getBlockTransactionsByNumber", number)
    ask(one, "bidx_getTransactionByHash", transaction)
    ask(one, "bidx_getTransactionByNonce", found["from"], found["nonce"])
    ask(one, "bidx_getTransactionEventsByHash", transaction)
    (event,) = ask(one, "bidx_decodeTransactionEvents", transaction, [EVENT], "")
    assert event["soliditySignature"].startswith("event Changed(uint256 ")
    assert (event["data"], event["address"]) == ({"num": "8"}, world.public)
    ask(one, "bidx_queryIndexedBlocks", LIMIT)
    ask(one, "bidx_queryIndexedTransactions", LIMIT)
    with_receipt = ask(one, "bidx_queryIndexedTransactionsWithReceipt", LIMIT)
    assert {transaction, one.receipt(world.minted)["transactionHash"]} <= {each["hash"] for each in with_receipt}
    assert one.receipt(world.group["genesisTransaction"])["transactionHash"] in {each["hash"] for each in with_receipt}
    # As clients page: transactions of an earlier block, or earlier in the same one.
    earlier = [
        {"lessThan": [{"field": "blockNumber", "value": number}]},
        {
            "equal": [{"field": "blockNumber", "value": number}],
            "lessThan": [{"field": "transactionIndex", "value": receipt["transactionIndex"]}],
        },
    ]
    page = one.ask("bidx_queryIndexedTransactionsWithReceipt", {**LIMIT, "or": earlier})
    places = [(each["blockNumber"], each["transactionIndex"]) for each in page]
    assert places == sorted(places, reverse=True)
    assert places[0] < (number, receipt["transactionIndex"])
    ask(one, "bidx_queryIndexedEvents", LIMIT)


def _ours(world: World, one: Client, two: Client) -> None:
    ask = world.ask
    document = ask(one, "rpc.discover")
    (name, schema), *_ = document["components"]["schemas"].items()
    first = {**document, "methods": document["methods"][:1], "components": {"schemas": {name: schema}}}
    world.examples.show("rpc.discover", (), first)
    store = world.to.nodes.processes[NodeName("node1")].running.adapters.store
    known = world.to.run(store.contract(ContractAddress(world.token)))
    assert known is not None
    deployment = str(UUID(bytes=known.deployment))
    assert ask(one, "seq_endorserAddress", deployment) == known.signers[0]
    assert ask(one, "seq_addContract", "0x" + known.genesis.hex(), deployment) == world.token
    assert one.ask("seq_quarantinedContracts") == []
    assert one.ask("seq_releaseContract", world.token) is False
    assert ask(two, "ptx_cancelTransaction", world.prepared) is True
    _update(world, one)
    _settle(world, one, two)
    _command(world, one)
    _park(world, one)
    _steer(world, one)
    ask(one, "debug_getTransactionStatus", world.token, world.minted)


def _park(world: World, one: Client) -> None:
    """What waits for its user goes on at its word, here to wait again; then it is given up."""
    data = {"members": ["dave@node1", "dave@node2"]}
    deployment = world.send(one, type="private", domain="synthetic", from_="dave", data=data)
    contract = one.receipt(deployment)["contractAddress"]
    parked = one.ask("ptx_sendTransaction", {"type": "private", "from": "dave", "to": contract, "function": "park"})
    until(lambda: one.ask("seq_explain", parked)["state"] == "Parked")
    assert world.ask(one, "ptx_resumeTransaction", parked) is True
    until(lambda: one.ask("seq_explain", parked)["state"] == "Parked")
    assert one.ask("ptx_cancelTransaction", parked) is True


def _steer(world: World, one: Client) -> None:
    assert EPOCHS in {each["name"] for each in world.ask(one, "trigger_list")}
    assert world.ask(one, "trigger_pause", EPOCHS) is True
    assert [each["paused"] for each in one.ask("trigger_list") if each["name"] == EPOCHS] == [True]
    ran = world.ask(one, "trigger_runOnce", EPOCHS)
    assert (ran["failed"], ran["trouble"]) == (0, "")
    assert world.ask(one, "trigger_resume", EPOCHS) is True


def _update(world: World, one: Client) -> None:
    """What offers a price that its account cannot pay waits, until it offers none."""
    poor = {"type": "public", "from": "eve", "to": world.public, "abi": ABI, "function": "store", "data": [3]}
    waiting = one.ask("ptx_sendTransaction", {**poor, "gas": 100_000, "maxFeePerGas": 10**9})
    assert world.ask(one, "ptx_updateTransaction", waiting, {**poor, "gas": 100_000, "maxFeePerGas": 0}) == waiting
    one.receipt(waiting)
    (before,) = world.ask(one, "ptx_getTransactionFull", waiting)["history"]
    assert (before["from"], before["maxFeePerGas"], before["data"]) == ("eve@node1", hex(10**9), [3])


def _consent(world: World, one: Client, _: Client) -> None:
    """A node whose operator is asked: nothing is deployed that names it before the operator agrees."""
    world.to.stop("node3")
    world.to.nodes.consent[NodeName("node3")] = ConsentMode.ASK
    world.to.start("node3")
    three = world.to.node3
    groups = [
        one.ask("pgroup_createGroup", {"domain": "pente", "members": ["a@node1", "c@node3"], "name": name})
        for name in ("wanted", "unwanted")
    ]
    until(lambda: len(three.ask("consent_list")) == 2)
    wanted, unwanted = (group["genesisTransaction"] for group in groups)
    found = {each["deployment"]: each for each in world.ask(three, "consent_list")}
    assert set(found) == {wanted, unwanted}
    assert (found[wanted]["proposer"], found[wanted]["parts"]) == ("node1", ["endorse", "coordinate"])
    assert found[wanted]["members"] == ["a@node1", "c@node3"]
    (asked,) = until(lambda: one.ask("seq_explain", wanted).get("operators"))
    assert asked == {"node": "node3", "since": found[wanted]["asked"]}
    world.show(one, "seq_explain", wanted)
    assert any("2 contracts wait for consent" in each for each in three.ask("node_status")["warnings"])
    assert world.ask(three, "consent_accept", "node1", wanted) is True
    one.receipt(wanted)
    assert world.ask(three, "consent_refuse", "node1", unwanted, "not now") is True
    failed = one.wait_for("ptx_getTransactionReceipt", unwanted)
    assert "its operator refuses: not now" in failed["failureMessage"]
    with pytest.raises(RpcFailed, match="is not asked about it"):
        three.ask("consent_accept", "node1", unwanted)


def _set_aside(world: World, one: Client, _: Client) -> None:
    """A node whose database is older than what it kept beside its keys: an operator decides about what is open."""
    poor = {"type": "public", "from": "mallory", "to": world.public, "abi": ABI, "function": "store"}
    dear = {"gas": 100_000, "maxFeePerGas": 10**9}
    first, second = (one.ask("ptx_sendTransaction", {**poor, "data": [number], **dear}) for number in (4, 5))
    world.to.stop("node1")
    kept = world.to.nodes.home / "node1" / "keys" / FILE_NAME
    kept.write_text(str(int(kept.read_text()) + 1_000))
    _quarantine(world, "node1")
    world.to.start("node1")
    one = world.to.node1
    (quarantined,) = world.ask(one, "seq_quarantinedContracts")
    assert (quarantined["contract"], quarantined["reason"]) == (world.unlinked, REJECTED)
    assert world.ask(one, "seq_releaseContract", world.unlinked) is True
    until(lambda: len(one.ask("ptx_querySetAside")) == 2)
    (aside, other) = world.ask(one, "ptx_querySetAside")
    assert (aside["id"], other["id"], aside["from"]) == (first, second, "mallory@node1")
    assert "the database was wound back" in aside["reason"]
    assert one.ask("seq_explain", first)["state"] == "SetAside"
    assert any("2 public transactions are set aside" in each for each in one.ask("node_status")["warnings"])
    cheaper = {**poor, "data": [5], "gas": 100_000, "maxFeePerGas": 0}
    with pytest.raises(RpcFailed, match="cannot be changed any more"):
        one.ask("ptx_updateTransaction", second, cheaper)
    assert world.ask(one, "ptx_dropSetAside", first) is True
    assert "dropped by an operator" in one.wait_for("ptx_getTransactionReceipt", first)["failureMessage"]
    assert world.ask(one, "ptx_releaseSetAside", second) is True
    # It waits for funds again, until it offers no price.
    assert one.ask("ptx_updateTransaction", second, cheaper) == second
    one.receipt(second)
    with pytest.raises(RpcFailed, match="is not set aside"):
        one.ask("ptx_releaseSetAside", second)


def _quarantine(world: World, name: str) -> None:
    """What a run of the node leaves in its database when the database rejects a contract's records."""
    statement = quarantining(ContractAddress(world.unlinked), REJECTED, 1_800_000_000_000)
    with closing(sqlite3.connect(world.to.nodes.home / name / "rota.db")) as database:
        database.execute(statement.sql, statement.parameters)
        database.commit()


def _settle(world: World, one: Client, two: Client) -> None:
    carol = one.ask("keymgr_resolveEthAddress", "carol")
    data = {"to": world.private, "function": STORE, "input": [6], "committer": carol}
    invoke = {"type": "private", "to": world.group_address, "from": "a", "function": "invoke", "data": data}
    draft = world.ask(one, "settle_draft", invoke, ["b@node2"])
    examined = world.ask(two, "settle_examine", draft["openings"]["b@node2"])
    assert examined["cores"] == draft["cores"]
    leg = {"ledger": draft["ledger"], "cores": draft["cores"]}
    bound = world.ask(one, "settle_bind", draft["id"], [leg])
    until(lambda: one.ask("settle_leg", bound))
    assert world.ask(one, "settle_leg", bound)["committer"] == carol


def _command(world: World, one: Client) -> None:
    mint = {"type": "private", "to": world.token, "function": "mint", "data": ["alice@node2", 1, "0x"]}
    command = {"applicationId": "shop", "actAs": ["bank"], "transaction": mint}
    world.ask(one, "cmd_submit", {**command, "commandId": "pay 1"})
    world.ask(one, "cmd_submitAndWait", {**command, "commandId": "pay 2"})
    until(lambda: len(one.ask("cmd_completions", ["bank"], 0, "shop")["completions"]) == 2)
    world.ask(one, "cmd_completions", ["bank"], 0, "shop")
    assert world.ask(one, "cmd_completionEnd") == 2
    world.ask(one, "cmd_configuration")
    # Who was here a moment ago may ask for a completion once more: it is too early to forget.
    with pytest.raises(RpcFailed, match="prune"):
        one.ask("cmd_prune", 1)
    assert world.ask(one, "cmd_prune", 0) == 0


# Fields that no answer on this network has, and why.
_ON_CHAIN: Final = "the nodes of this network are registered in a file"
_SELF_MADE: Final = "what commits a prepared transition is its user's to decide; the public transaction is given whole"
NEVER: Final[dict[str, str]] = {
    **{
        f"{entry}.{field}": _ON_CHAIN
        for entry in ("RegistryEntry", "RegistryEntryWithProperties", "RegistryProperty")
        for field in ("blockNumber", "transactionIndex", "logIndex")
    },
    "RegistryEntry.parentId": "nodes are registered without a tree",
    "RegistryEntryWithProperties.parentId": "nodes are registered without a tree",
    "ReliableMessageAck.error": "a peer acknowledges what it has, or says nothing",
    "ReliableMessageAckNoMsgID.error": "a peer acknowledges what it has, or says nothing",
    "State.read": "reads leave no mark on a state",
    "TransactionReceiptFull.domainReceiptError": "every domain receipt could be made",
    "TransactionStates.none": "every private transaction here has states",
    "TransactionStates.read": "no transaction here reads a state without spending it",
    "TransactionStates.unavailable": "each node has all states that it may see",
    **{
        f"TransactionInput.{field}": _SELF_MADE
        for field in (
            "bytecode",
            "dependsOn",
            "domain",
            "from",
            "gas",
            "idempotencyKey",
            "maxFeePerGas",
            "maxPriorityFeePerGas",
            "value",
        )
    },
}
# While peers connect, some tell why they have not.
SOMETIMES: Final = {"PeerInfo.outboundError"}


def _assert_fields_are_there(world: World) -> None:
    known = {f"{name}.{field}" for name in world.seen.fields for field in TYPES[name]}
    seen = {f"{name}.{field}" for name, fields in world.seen.fields.items() for field in fields}
    assert world.seen.strange == set(), "clients do not know these fields"
    assert sorted(known - seen - set(NEVER) - SOMETIMES) == [], "no answer has these fields"
    assert sorted(set(NEVER) & seen) == [], "answers have these fields by now"
