"""What users look up beside their transactions, on three real nodes: states, peers, registries, domains, blocks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.server.three_nodes import Client, RpcFailed, ThreeNodes, three_nodes, until

pytestmark = pytest.mark.slow

ETHEREUM = ("ecdsa:secp256k1", "eth_address")


@pytest.fixture(scope="module")
def to(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreeNodes]:
    with three_nodes(tmp_path_factory.mktemp("families")) as running:
        yield running


@pytest.fixture(scope="module")
def token(to: ThreeNodes) -> dict[str, Any]:
    """A token whose notary is at node1, with which something was done."""
    asked = {"name": "Coin", "symbol": "COIN", "notary": "bank@node1", "notaryMode": "basic"}
    sent = to.node1.ask("ptx_sendTransaction", {"type": "private", "domain": "noto", "from": "bank", "data": asked})
    deployed: dict[str, Any] = to.node1.receipt(sent)
    mint = {"type": "private", "to": deployed["contractAddress"], "from": "bank", "function": "mint"}
    minted = to.node1.ask("ptx_sendTransaction", {**mint, "data": ["alice@node2", 100, "0x"]})
    to.node1.receipt(minted)
    spend = {**mint, "from": "alice", "function": "transfer", "data": ["bob@node3", 30, "0x"]}
    paid = to.node2.ask("ptx_sendTransaction", spend)
    to.node2.receipt(paid)
    return {"address": deployed["contractAddress"], "minted": minted, "paid": paid, "deployed": deployed}


def coin_schema(node: Client) -> dict[str, Any]:
    schemas = node.ask("pstate_listSchemas", "noto")
    assert all(each["type"] == "abi" and each["domain"] == "noto" for each in schemas)
    found: dict[str, Any] = next(each for each in schemas if "Coin" in each["signature"])
    return found


def test_states_are_found_by_their_fields_and_status(to: ThreeNodes, token: dict[str, Any]) -> None:
    schema = coin_schema(to.node2)
    assert schema["labels"]
    place = ("noto", token["address"], schema["id"])

    def states(query: dict[str, Any], qualifier: str, node: Client = to.node2) -> Any:  # noqa: ANN401
        return node.ask("pstate_queryContractStates", *place, query, qualifier)

    until(lambda: len(states({}, "confirmed")) == 2)
    mine = {"eq": [{"field": "owner", "value": "alice@node2"}]}
    (change,) = states(mine, "available")
    assert change["data"]["amount"] == "70"
    assert change["confirmed"] == {"transaction": token["paid"]}
    assert "spent" not in change
    (first,) = states(mine, "spent")
    assert (first["data"]["amount"], first["spent"]["transaction"]) == ("100", token["paid"])
    assert first["confirmed"]["transaction"] == token["minted"]
    assert {each["id"] for each in states({}, "all")} >= {first["id"], change["id"]}
    assert [each["data"]["amount"] for each in states({"sort": ["-amount"]}, token["paid"])] == ["70", "30"]
    assert [each["id"] for each in states({"sort": [".created"], "limit": 1}, "all")] == [first["id"]]
    assert to.node2.ask("pstate_queryStates", "noto", schema["id"], mine, "available") == [change]
    assert to.node2.ask("pstate_queryNullifiers", "noto", schema["id"], {}, "all") == []
    assert to.node2.ask("pstate_queryContractNullifiers", *place, {}, "all") == []
    assert states({}, "unconfirmed") == []


def test_a_state_may_be_kept_by_hand_and_is_never_used(to: ThreeNodes, token: dict[str, Any]) -> None:
    schema = coin_schema(to.node3)
    held = {"owner": "carol@node3", "amount": 7}
    stored = to.node3.ask("pstate_storeState", "noto", token["address"], schema["id"], held)
    assert (stored["data"]["amount"], "confirmed" in stored) == ("7", False)
    place = ("noto", token["address"], schema["id"])
    assert to.node3.ask("pstate_queryContractStates", *place, {}, "unconfirmed") == [stored]
    assert stored["id"] not in {
        each["id"] for each in to.node3.ask("pstate_queryContractStates", *place, {}, "available")
    }


def test_a_state_is_sent_again_only_to_those_who_may_see_it(to: ThreeNodes, token: dict[str, Any]) -> None:
    schema = coin_schema(to.node1)
    place = ("noto", token["address"], schema["id"])
    bobs = {"eq": [{"field": "owner", "value": "bob@node3"}]}
    (coin,) = until(lambda: to.node1.ask("pstate_queryContractStates", *place, bobs, "all") or None)
    sent = to.node1.ask("pstate_transferPrivateState", "noto", coin["id"], "bob@node3")
    query = {"eq": [{"field": "id", "value": sent}], "null": [{"field": "acknowledged", "not": True}]}
    (message,) = until(lambda: to.node1.ask("transport_queryReliableMessages", query) or None)
    assert (message["node"], message["messageType"]) == ("node3", "state")
    assert message["ack"]["time"] >= message["created"]
    (ack,) = to.node1.ask("transport_queryReliableMessageAcks", {"eq": [{"field": "messageId", "value": sent}]})
    assert ack["messageId"] == sent
    (mints,) = to.node1.ask("pstate_queryContractStates", *place, {"eq": [{"field": "amount", "value": 100}]}, "spent")
    with pytest.raises(RpcFailed, match="recipient: must be a party of a node that may see this state"):
        to.node1.ask("pstate_transferPrivateState", "noto", mints["id"], "bob@node3")


def test_a_node_knows_its_peers_and_how_they_are_reached(to: ThreeNodes, token: dict[str, Any]) -> None:
    assert token["address"]
    assert to.node1.ask("transport_nodeName") == "node1"
    assert to.node1.ask("transport_localTransports") == ["grpc"]
    own = json.loads(to.node1.ask("transport_localTransportDetails", "grpc"))
    assert set(own) == {"endpoint", "fingerprint"}
    peers = to.node1.ask("transport_peers")
    assert sorted(each["name"] for each in peers) == ["node2", "node3"]
    assert all(each["stats"]["sentMsgs"] > 0 and each["stats"]["receivedBytes"] > 0 for each in peers)
    assert all(each["activated"] and each["outbound"]["endpoint"] for each in peers)
    assert to.node1.ask("transport_peerInfo", "node2")["name"] == "node2"
    assert to.node1.ask("transport_getPeer", "node9") is None
    (found,) = to.node1.ask("transport_queryPeers", {"eq": [{"field": "name", "value": "node3"}]})
    assert found["name"] == "node3"
    assert to.node1.ask("transport_queryReliableMessages", {"limit": 1})


def test_requests_of_many_clients_that_bear_the_same_ids_get_their_own_answers(to: ThreeNodes) -> None:
    names = [f"party{number}" for number in range(24)]
    with ThreadPoolExecutor(len(names)) as pool:
        # Each counts its requests from 1, as the SDK does.
        answers = [*pool.map(lambda name: Client(to.node1.url).ask("keymgr_resolveKey", name, *ETHEREUM), names)]
    assert [each["identifier"] for each in answers] == names
    assert len({each["verifier"]["verifier"] for each in answers}) == len(names)
    assert [each["path"][0]["index"] for each in answers] == [
        each["path"][0]["index"] for each in (to.node1.ask("keymgr_resolveKey", name, *ETHEREUM) for name in names)
    ]
    assert len({each["path"][0]["index"] for each in answers}) == len(names)


def test_keys_are_known_after_a_restart(to: ThreeNodes) -> None:
    before = to.node3.ask("keymgr_resolveKey", "org.dave", *ETHEREUM)
    to.restart("node3")
    address = before["verifier"]["verifier"]
    assert to.node3.ask("keymgr_reverseKeyLookup", *ETHEREUM, address) == before
    assert to.node3.ask("keymgr_queryKeys", {"eq": [{"field": "parent", "value": "org"}]})[0]["name"] == "dave"


def test_registered_nodes_are_shown_with_what_is_registered_of_them(to: ThreeNodes) -> None:
    assert to.node2.ask("reg_registries") == ["registry"]
    entries = to.node2.ask("reg_queryEntries", "registry", {}, "active")
    assert [each["name"] for each in entries] == ["node1", "node2", "node3"]
    (entry,) = to.node2.ask(
        "reg_queryEntriesWithProps", "registry", {"eq": [{"field": "name", "value": "node1"}]}, "any"
    )
    own = to.node1.ask("transport_localTransportDetails", "grpc")
    assert entry["properties"] == {"transport.grpc": own}
    (only,) = to.node2.ask("reg_getEntryProperties", "registry", entry["id"], "active")
    assert (only["name"], only["value"]) == ("transport.grpc", own)
    assert to.node2.ask("reg_queryEntries", "registry", {}, "inactive") == []


def test_domains_and_their_contracts_are_listed(to: ThreeNodes, token: dict[str, Any]) -> None:
    assert {"noto", "pente"} <= set(to.node1.ask("domain_listDomains"))
    domain = to.node1.ask("domain_getDomain", "noto")
    assert domain == {"name": "noto", "registryAddress": to.nodes.factory}
    assert to.node1.ask("domain_getDomainByAddress", token["address"]) == domain
    assert to.node1.ask("domain_getDomainByAddress", to.nodes.factory)["registryAddress"] == to.nodes.factory
    contract = to.node1.ask("domain_getSmartContractByAddress", token["address"])
    assert contract["domainName"] == "noto"
    assert contract["config"]["notary"] == "bank@node1"
    of_noto = {"eq": [{"field": "domainName", "value": "noto"}]}
    assert contract in to.node1.ask("domain_querySmartContracts", of_noto)


def test_blocks_transactions_and_events_of_the_base_ledger_are_shown(to: ThreeNodes, token: dict[str, Any]) -> None:
    deployed = to.node1.ask("ptx_getTransactionReceipt", token["paid"]) or to.node2.receipt(token["paid"])
    number, transaction_hash = deployed["blockNumber"], deployed["transactionHash"]
    height = until(lambda: int(to.node1.ask("bidx_getConfirmedBlockHeight"), 16) >= number and number)
    block = to.node1.ask("bidx_getBlockByNumber", height)
    assert block["number"] == number
    assert to.node1.ask("bidx_getBlockByNumber", 10**9) is None
    transaction = to.node1.ask("bidx_getTransactionByHash", transaction_hash)
    assert (transaction["result"], transaction["blockNumber"], transaction["to"]) == (
        "success",
        number,
        token["address"],
    )
    assert transaction in to.node1.ask("bidx_getBlockTransactionsByNumber", hex(number))
    same = to.node1.ask("bidx_getTransactionByNonce", transaction["from"], transaction["nonce"])
    assert same == transaction
    assert to.node1.ask("bidx_getTransactionByNonce", transaction["from"], 10**6) is None
    events = to.node1.ask("bidx_getTransactionEventsByHash", transaction_hash)
    assert events
    assert events[0]["transactionHash"] == transaction_hash
    of_block = {"eq": [{"field": "blockNumber", "value": number}]}
    assert {each["signature"] for each in to.node1.ask("bidx_queryIndexedEvents", of_block)} >= {events[0]["signature"]}
    assert transaction in to.node1.ask("bidx_queryIndexedTransactions", of_block)
    by_hash = {"eq": [{"field": "hash", "value": transaction_hash}]}
    assert to.node1.ask("bidx_queryIndexedTransactions", by_hash) == [transaction]
    assert to.node1.ask("bidx_queryIndexedBlocks", {"limit": 2, "sort": ["-number"]})[0]["number"] >= number
    with pytest.raises(RpcFailed, match=r"^query\.field|^query\.when"):
        to.node1.ask("bidx_queryIndexedBlocks", {"eq": [{"field": "when", "value": 1}]})
