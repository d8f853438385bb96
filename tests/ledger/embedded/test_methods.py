"""The methods of any Ethereum node, over HTTP."""

from typing import Any

import pytest

from rota.ledger.embedded import Settings
from rota.ledger.transaction import AccessEntry, AccessListTransaction, LegacyTransaction
from tests.ledger.embedded.client import ALICE_HEX, BOB_HEX, GWEI, NOW_S, Client, WallClock, payment, served, signed
from tests.ledger.embedded.contracts import (
    ENDLESS,
    INVALID,
    KEEPER,
    REVERTER,
    creation,
    error_string,
    keep,
    panic,
    word,
)

NOBODY = "0x" + "ee" * 20
NO_HASH = "0x" + "ab" * 32


def hexed(content: bytes) -> str:
    return "0x" + content.hex()


def test_the_chain_introduces_itself(client: Client) -> None:
    assert client("eth_chainId") == "0x7a69"
    assert client("net_version") == "31337"
    assert client("net_listening") is True
    assert client("net_peerCount") == "0x0"
    assert client("eth_syncing") is False
    assert client("web3_clientVersion").startswith("rota/")
    assert client("web3_sha3", "0x") == "0xc5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470"
    assert client("eth_blockNumber") == "0x0"


def test_the_accounts_are_those_that_everybody_knows_and_have_ether(client: Client) -> None:
    accounts = client("eth_accounts")
    assert len(accounts) == 10
    assert accounts[0] == "0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266"
    assert accounts[9] == "0xa0ee7a142d267c1f36714e4a8f75612f20a79720"
    assert {client("eth_getBalance", account) for account in accounts} == {hex(10_000 * 10**18)}


def test_a_payment_is_mined_at_once_and_seen_from_all_sides(client: Client) -> None:
    transaction_hash = client("eth_sendRawTransaction", hexed(signed(payment(0, value=7))))
    block = client("eth_getBlockByNumber", "latest", False)
    assert block["number"] == "0x1"
    assert block["timestamp"] == hex(NOW_S)
    assert block["transactions"] == [transaction_hash]
    assert client("eth_getBlockByHash", block["hash"], False) == block
    transaction = client("eth_getTransactionByHash", transaction_hash)
    assert transaction["from"] == ALICE_HEX
    assert transaction["to"] == NOBODY
    assert transaction["value"] == "0x7"
    assert transaction["blockHash"] == block["hash"]
    assert transaction["gasPrice"] == hex(GWEI + int(block["baseFeePerGas"], 16))
    assert client("eth_getBlockByNumber", "0x1", True)["transactions"] == [transaction]
    assert client("eth_getTransactionByBlockNumberAndIndex", "0x1", "0x0") == transaction
    assert client("eth_getTransactionByBlockHashAndIndex", block["hash"], "0x0") == transaction
    assert client("eth_getBlockTransactionCountByNumber", "0x1") == "0x1"
    receipt = client("eth_getTransactionReceipt", transaction_hash)
    assert receipt["status"] == "0x1"
    assert receipt["gasUsed"] == receipt["cumulativeGasUsed"] == "0x5208"
    assert receipt["effectiveGasPrice"] == transaction["gasPrice"]
    assert receipt["contractAddress"] is None
    assert "revertReason" not in receipt
    assert client("eth_getBlockReceipts", "latest") == [receipt]
    assert client("eth_getBalance", NOBODY, "latest") == "0x7"
    assert client("eth_getTransactionCount", ALICE_HEX, "latest") == "0x1"


@pytest.mark.parametrize(
    ("transaction", "kind", "field", "value"),
    [
        (
            LegacyTransaction(nonce=0, gas_price=2 * GWEI, gas_limit=21_000, to=b"\xee" * 20),
            "0x0",
            "v",
            {"0x1b", "0x1c"},
        ),
        (
            LegacyTransaction(nonce=0, gas_price=2 * GWEI, gas_limit=21_000, to=b"\xee" * 20, chain_id=31_337),
            "0x0",
            "v",
            {hex(2 * 31_337 + 35), hex(2 * 31_337 + 36)},
        ),
        (
            AccessListTransaction(
                chain_id=31_337,
                nonce=0,
                gas_price=2 * GWEI,
                gas_limit=30_000,
                to=b"\xee" * 20,
                access_list=(AccessEntry(b"\x22" * 20, (word(1),)),),
            ),
            "0x1",
            "yParity",
            {"0x0", "0x1"},
        ),
        (payment(0), "0x2", "maxFeePerGas", {hex(10 * GWEI)}),
    ],
)
def test_every_kind_of_transaction_is_taken(
    client: Client, transaction: LegacyTransaction, kind: str, field: str, value: set[str]
) -> None:
    transaction_hash = client("eth_sendRawTransaction", hexed(signed(transaction)))
    shown = client("eth_getTransactionByHash", transaction_hash)
    assert shown["type"] == kind
    assert shown[field] in value
    assert shown["from"] == ALICE_HEX
    receipt = client("eth_getTransactionReceipt", transaction_hash)
    assert (receipt["status"], receipt["type"]) == ("0x1", kind)
    assert receipt["gasUsed"] == hex(21_000 + (4_300 if kind == "0x1" else 0))


def test_a_contract_is_created_called_and_read(client: Client) -> None:
    keeper = client.create(KEEPER)
    assert client("eth_getCode", keeper) == hexed(KEEPER)
    assert client("eth_getCode", ALICE_HEX) == "0x"
    client.send(to=keeper, data=hexed(keep(3, 9)))
    assert client("eth_getStorageAt", keeper, "0x3") == hexed(word(9))
    assert client("eth_getStorageAt", keeper, hexed(word(3)), "latest") == hexed(word(9))
    assert client("eth_getStorageAt", keeper, "0x3", "0x1") == hexed(word(0))
    assert client("eth_call", {"to": keeper, "input": hexed(keep(3, 1))}) == hexed(word(9))
    assert client("eth_call", {"to": keeper, "input": hexed(keep(3, 1))}, "0x1") == hexed(word(0))
    head = client("eth_getBlockByNumber", "latest", False)["hash"]
    assert client("eth_call", {"to": keeper, "input": hexed(keep(3, 1))}, {"blockHash": head}) == hexed(word(9))
    assert client("eth_call", {"to": keeper, "input": hexed(keep(3, 1))}, {"blockNumber": "0x1"}) == hexed(word(0))
    assert client("eth_call", {"to": keeper, "input": hexed(keep(3, 1))}, head) == hexed(word(9))
    assert client("eth_call", {"input": hexed(creation(KEEPER))}) == hexed(KEEPER)


def test_an_object_becomes_the_kind_of_transaction_that_it_says(client: Client) -> None:
    access = [{"address": NOBODY, "storageKeys": [hexed(word(1))]}]
    legacy = client.send(to=NOBODY, gasPrice=hex(2 * GWEI))
    listed = client.send(to=NOBODY, gasPrice=hex(2 * GWEI), accessList=access)
    dynamic = client.send(to=NOBODY, maxFeePerGas=hex(GWEI), accessList=access, nonce="0x2", gas="0x186a0")
    shown = [client("eth_getTransactionByHash", each) for each in (legacy, listed, dynamic)]
    assert [each["type"] for each in shown] == ["0x0", "0x1", "0x2"]
    assert [each.get("accessList") for each in shown] == [None, access, access]
    assert shown[2]["maxPriorityFeePerGas"] == hex(GWEI)
    assert shown[2]["gas"] == "0x186a0"


def test_a_waiting_transaction_is_seen_without_a_block(idle: Client) -> None:
    transaction_hash = idle("eth_sendRawTransaction", hexed(signed(payment(0))))
    transaction = idle("eth_getTransactionByHash", transaction_hash)
    assert transaction["blockHash"] is transaction["blockNumber"] is transaction["transactionIndex"] is None
    assert idle("eth_getTransactionReceipt", transaction_hash) is None
    assert idle("eth_getTransactionCount", ALICE_HEX, "latest") == "0x0"
    assert idle("eth_getTransactionCount", ALICE_HEX, "pending") == "0x1"
    assert idle("txpool_status") == {"pending": "0x1", "queued": "0x0"}


def test_a_reverted_transaction_is_mined_and_says_why(client: Client) -> None:
    reverter = client.create(REVERTER)
    transaction_hash = client.send(to=reverter, data=hexed(error_string("not yours")), gas="0x186a0")
    receipt = client("eth_getTransactionReceipt", transaction_hash)
    assert receipt["status"] == "0x0"
    assert receipt["revertReason"] == hexed(error_string("not yours"))
    assert receipt["logs"] == []


@pytest.mark.parametrize("method", ["eth_call", "eth_estimateGas"])
@pytest.mark.parametrize(
    ("output", "message"),
    [
        (error_string("not yours"), "execution reverted: not yours"),
        (panic(0x11), "execution reverted: arithmetic underflow or overflow (0x11)"),
        (panic(0x77), "execution reverted: unknown panic code (0x77)"),
        (b"", "execution reverted"),
        (b"\xde\xad\xbe\xef", "execution reverted"),
        (error_string("x")[:40], "execution reverted"),
        (bytes.fromhex("08c379a0") + word(32) + word(2**255), "execution reverted"),
    ],
)
def test_a_reverted_call_is_error_3_with_its_data(client: Client, method: str, output: bytes, message: str) -> None:
    reverter = client.create(REVERTER)
    refusal = client.refusal(method, {"to": reverter, "data": hexed(output)})
    assert (refusal.code, refusal.message, refusal.data) == (3, message, hexed(output))


@pytest.mark.parametrize(("code", "message"), [(INVALID, "execution failed: InvalidFEOpcode"), (ENDLESS, "out of gas")])
def test_a_call_that_breaks_a_rule_says_which(client: Client, code: bytes, message: str) -> None:
    contract = client.create(code)
    refusal = client.refusal("eth_call", {"to": contract, "gas": "0x186a0"})
    assert (refusal.code, refusal.message, refusal.data) == (-32_000, message, None)


@pytest.mark.parametrize("method", ["eth_call", "eth_estimateGas"])
def test_a_contract_asks_others_in_its_name_but_not_itself(client: Client, method: str) -> None:
    keeper, other = client.create(KEEPER), client.create(KEEPER)
    client.send(to=other, data=hexed(keep(3, 9)))
    assert client(method, {"from": keeper, "to": other, "input": hexed(keep(3, 1))})
    refusal = client.refusal(method, {"from": keeper, "to": keeper, "input": hexed(keep(3, 1))})
    assert refusal.message.startswith("from: this chain cannot call a contract in its own name")
    assert client("eth_getCode", keeper) == hexed(KEEPER)


def test_a_call_that_its_sender_cannot_pay_for_is_refused(client: Client) -> None:
    refusal = client.refusal("eth_call", {"from": NOBODY, "to": BOB_HEX, "value": "0x1"})
    assert refusal.message == "insufficient funds for gas * price + value"
    assert client.refusal("eth_call", {"to": BOB_HEX, "gas": "0x1"}).message == "intrinsic gas too low"


def test_an_estimate_is_the_least_that_does(client: Client) -> None:
    assert client("eth_estimateGas", {"from": ALICE_HEX, "to": NOBODY, "value": "0x1"}) == "0x5208"
    keeper = client.create(KEEPER)
    call = {"from": ALICE_HEX, "to": keeper, "data": hexed(keep(1, 5))}
    estimate = int(client("eth_estimateGas", call), 16)
    assert client("eth_call", {**call, "gas": hex(estimate)})
    assert client.refusal("eth_call", {**call, "gas": hex(estimate - 1)}).message == "out of gas"
    receipt = client("eth_getTransactionReceipt", client.send(to=keeper, data=hexed(keep(1, 5)), gas=hex(estimate)))
    assert receipt["status"] == "0x1"


def test_calldata_has_a_floor_price(client: Client) -> None:
    transaction_hash = client.send(to=NOBODY, data="0x" + "01" * 1_000)
    receipt = client("eth_getTransactionReceipt", transaction_hash)
    assert int(receipt["gasUsed"], 16) == 21_000 + 40 * 1_000  # EIP-7623; without it 16 a byte
    assert client("eth_getTransactionByHash", transaction_hash)["gas"] == receipt["gasUsed"]


def test_the_suggested_fees_are_enough_for_the_next_block(client: Client) -> None:
    tip = int(client("eth_maxPriorityFeePerGas"), 16)
    price = int(client("eth_gasPrice"), 16)
    base_fee = int(client("eth_feeHistory", "0x1", "latest")["baseFeePerGas"][-1], 16)
    assert price == base_fee + tip
    transaction_hash = client.send(to=NOBODY, gasPrice=hex(price))
    receipt = client("eth_getTransactionReceipt", transaction_hash)
    assert int(receipt["effectiveGasPrice"], 16) == price


def test_the_fee_history_has_a_fee_for_each_block_and_the_next(client: Client) -> None:
    client.send(to=NOBODY, maxPriorityFeePerGas=hex(3 * GWEI), maxFeePerGas=hex(9 * GWEI))
    history = client("eth_feeHistory", 5, "latest", [0, 50, 100])
    assert history["oldestBlock"] == "0x0"
    assert len(history["baseFeePerGas"]) == 3
    assert history["gasUsedRatio"] == [0.0, 21_000 / 60_000_000]
    assert history["reward"] == [["0x0"] * 3, [hex(3 * GWEI)] * 3]
    assert client("eth_feeHistory", "0x1", "0x0")["baseFeePerGas"] == history["baseFeePerGas"][:2]
    assert "reward" not in client("eth_feeHistory", "0x1", "latest")


def test_the_base_fee_may_be_fixed() -> None:
    with served(Settings(base_fee_wei=0, base_fee_is_fixed=True)) as client:
        client.send(to=NOBODY, gasPrice="0x0")
        client("evm_mine")
        assert client("eth_getBlockByNumber", "latest", False)["baseFeePerGas"] == "0x0"


@pytest.mark.parametrize(
    ("method", "parameters", "answer"),
    [
        ("eth_getBlockByNumber", ["0x63", False], None),
        ("eth_getBlockByHash", [NO_HASH, True], None),
        ("eth_getBlockReceipts", ["0x63"], None),
        ("eth_getBlockTransactionCountByNumber", ["0x63"], None),
        ("eth_getTransactionByHash", [NO_HASH], None),
        ("eth_getTransactionByBlockNumberAndIndex", ["0x0", "0x0"], None),
        ("eth_getTransactionReceipt", [NO_HASH], None),
        ("eth_getBalance", [NOBODY], "0x0"),
        ("eth_getTransactionCount", [NOBODY], "0x0"),
        ("eth_getCode", [NOBODY], "0x"),
        ("eth_getStorageAt", [NOBODY, "0x0"], hexed(word(0))),
        ("eth_call", [{"to": NOBODY}], "0x"),
    ],
)
def test_what_is_not_there_is_nothing_and_no_error(
    client: Client, method: str, parameters: list[object], answer: object
) -> None:
    assert client(method, *parameters) == answer


WRONG: list[tuple[str, list[Any], str]] = [
    ("eth_getBlockByNumber", [], "missing value for required argument 0: block"),
    (
        "eth_getBlockByNumber",
        ["newest"],
        "argument block: expected a block number such as 0x1f, a block hash or one of",
    ),
    ("eth_getBlockByNumber", ["0x01"], "argument block: expected 0x and hex digits without leading zeros"),
    ("eth_getBlockByNumber", [1], "argument block: expected a quantity such as 0x1f as a string, not 1"),
    ("eth_getBlockByNumber", ["latest", "yes"], "argument full: expected true or false"),
    ("eth_getBlockByNumber", ["latest", True, 1], "too many arguments, want at most 2, not 3"),
    ("eth_getBlockByHash", ["0x12"], "argument hash: expected 32 bytes, not 1"),
    ("eth_getBlockReceipts", [{}], "argument block: expected an object with blockHash or blockNumber"),
    ("eth_getTransactionByHash", ["ab"], "argument hash: expected 32 bytes as 0x and two hex digits each, not 'ab'"),
    ("eth_getTransactionByBlockNumberAndIndex", ["0x0"], "required argument 1: index"),
    ("eth_getTransactionReceipt", [None], "missing value for required argument 0: hash"),
    ("eth_getTransactionCount", ["0x1234"], "argument address: expected 20 bytes, not 2"),
    ("eth_getTransactionCount", [NOBODY, "soon"], "argument block"),
    ("eth_getBalance", [NOBODY + "00"], "argument address: expected 20 bytes, not 21"),
    ("eth_getCode", [7], "argument address: expected 20 bytes as a string"),
    ("eth_getStorageAt", [NOBODY, "first"], "argument slot"),
    ("eth_getStorageAt", [NOBODY], "required argument 1: slot"),
    ("eth_call", [], "required argument 0: transaction"),
    ("eth_call", ["0x"], "argument transaction: expected an object"),
    ("eth_call", [{"to": "0x12"}], "argument transaction: to: expected 20 bytes, not 1"),
    ("eth_call", [{"recipient": NOBODY}], "argument transaction: unknown field 'recipient'"),
    ("eth_call", [{"value": "1"}], "argument transaction: value: expected 0x"),
    ("eth_call", [{"data": "0x1"}], "argument transaction: data: expected bytes as 0x and two hex digits"),
    ("eth_call", [{"data": "0x11", "input": "0x12"}], "both data and input are given"),
    ("eth_call", [{"gasPrice": "0x1", "maxFeePerGas": "0x1"}], "both gasPrice and"),
    ("eth_call", [{}, {"blockNumber": 1}], "argument block: expected a quantity"),
    ("eth_call", [{"accessList": [NOBODY]}], "accessList: expected a list of {address, storageKeys}"),
    ("eth_call", [{"type": "two"}], "argument transaction: type: expected 0x"),
    ("eth_call", [{"accessList": {}}], "accessList: expected a list of"),
    ("eth_call", [{"accessList": [{"address": NOBODY, "storageKeys": ["0x1"]}]}], "accessList: expected 32 bytes"),
    ("eth_call", [{}, "latest", {NOBODY: {}}], "argument overrides: this chain has no state or block overrides"),
    ("eth_call", [{}, {"blockHash": NO_HASH, "blockNumber": "0x0"}], "expected blockHash or blockNumber, not both"),
    ("eth_estimateGas", [{"gas": -1}], "argument transaction: gas"),
    ("eth_feeHistory", ["0x1"], "required argument 1: newestBlock"),
    ("eth_feeHistory", ["0x401", "latest"], "argument blockCount: at most 1024 blocks, not 1025"),
    ("eth_feeHistory", ["0x1", "latest", [50, 10]], "argument rewardPercentiles: expected numbers from 0 to 100"),
    ("eth_feeHistory", ["0x1", "latest", 5], "argument rewardPercentiles: expected a list"),
    ("eth_sendRawTransaction", [], "required argument 0: transaction"),
    ("eth_sendRawTransaction", ["0xabc"], "argument transaction: expected bytes"),
    ("eth_sendTransaction", [[]], "argument transaction: expected an object"),
    ("eth_getLogs", [], "required argument 0: filter"),
    ("eth_getLogs", ["latest"], "argument filter: expected an object"),
    ("eth_getLogs", [{"from": "0x1"}], "argument filter: unknown field 'from'"),
    ("eth_getLogs", [{"fromBlock": "0x5", "toBlock": "0x1"}], "argument filter: fromBlock 5 is above toBlock 1"),
    ("eth_getLogs", [{"blockHash": NO_HASH, "toBlock": "0x1"}], "cannot specify both blockHash and fromBlock/toBlock"),
    ("eth_getLogs", [{"address": ["0x"]}], "argument filter: address: expected 20 bytes, not 0"),
    ("eth_getLogs", [{"topics": [None] * 5}], "argument filter: topics: expected a list of at most 4 topics"),
    ("eth_getLogs", [{"topics": ["0x12"]}], "argument filter: topics: expected 32 bytes, not 1"),
    ("eth_getLogs", [{"address": [NOBODY] * 1_001}], "expected at most 1000 alternatives, not 1001"),
    ("web3_sha3", [1], "argument data"),
    ("eth_chainId", [1], "too many arguments, want at most 0, not 1"),
]


@pytest.mark.parametrize(("method", "parameters", "text"), WRONG)
def test_a_wrong_parameter_is_told_by_its_name(client: Client, method: str, parameters: list[Any], text: str) -> None:
    refusal = client.refusal(method, *parameters)
    assert refusal.code == -32_602
    assert text in refusal.message


@pytest.mark.parametrize(
    ("method", "parameters", "message"),
    [
        ("eth_getBalance", [NOBODY, "0x63"], "header not found"),
        ("eth_call", [{}, "0x63"], "header not found"),
        ("eth_call", [{}, {"blockHash": NO_HASH}], "header for hash not found"),
        ("eth_getLogs", [{"blockHash": NO_HASH}], "header for hash not found"),
        ("eth_sendRawTransaction", ["0x"], "invalid transaction: a transaction is not empty"),
        ("eth_sendTransaction", [{"to": NOBODY}], "from is missing: eth_accounts lists the accounts"),
        ("eth_sendTransaction", [{"from": NOBODY}], f"unknown account {NOBODY}: eth_accounts lists those"),
    ],
)
def test_what_cannot_be_done_is_told(client: Client, method: str, parameters: list[Any], message: str) -> None:
    refusal = client.refusal(method, *parameters)
    assert refusal.code == -32_000
    assert refusal.message.startswith(message)


def log_values(client: Client, **wanted: object) -> list[int]:
    return [int(log["data"], 16) for log in client("eth_getLogs", {"fromBlock": "earliest", **wanted})]


def test_logs_are_found_by_range_address_and_topics(client: Client) -> None:
    first, second = client.create(KEEPER), client.create(KEEPER)
    for contract, slot, value in [(first, 1, 10), (second, 1, 11), (first, 2, 12), (second, 2, 13)]:
        client.send(to=contract, data=hexed(keep(slot, value)))
    one, two = hexed(word(1)), hexed(word(2))
    assert log_values(client) == [10, 11, 12, 13]
    assert log_values(client, toBlock="0x4") == [10, 11]
    assert log_values(client, fromBlock="0x5", toBlock="0x500") == [12, 13]
    assert log_values(client, fromBlock="0x500") == []
    assert log_values(client, fromBlock="latest") == [13]
    assert log_values(client, address=first) == [10, 12]
    assert log_values(client, address=[first, second]) == [10, 11, 12, 13]
    assert log_values(client, address=NOBODY) == []
    assert log_values(client, topics=[one]) == [10, 11]
    assert log_values(client, topics=[[one, two], hexed(word(13))]) == [13]
    assert log_values(client, topics=[None, hexed(word(11))]) == [11]
    assert log_values(client, topics=[None, None, None]) == []
    assert log_values(client, address=first, topics=[two]) == [12]
    block = client("eth_getBlockByNumber", "0x4", False)["hash"]
    (log,) = client("eth_getLogs", {"blockHash": block})
    assert log["blockNumber"] == "0x4"
    assert log["topics"] == [one, hexed(word(11))]
    assert (log["logIndex"], log["transactionIndex"], log["removed"]) == ("0x0", "0x0", False)


def test_logs_of_one_block_are_numbered_through(client: Client) -> None:
    keeper = client.create(KEEPER)
    client.batch(
        *[
            ("eth_sendTransaction", [{"from": ALICE_HEX, "to": keeper, "data": hexed(keep(0, n)), "gas": "0x186a0"}])
            for n in range(3)
        ]
    )
    logs = client("eth_getLogs", {})
    assert [(log["logIndex"], log["transactionIndex"]) for log in logs] == [
        ("0x0", "0x0"),
        ("0x1", "0x1"),
        ("0x2", "0x2"),
    ]
    assert [receipt["logs"] for receipt in client("eth_getBlockReceipts", "latest")] == [[log] for log in logs]


def test_too_many_blocks_or_logs_are_refused_with_the_usual_code(clock: WallClock) -> None:
    with served(Settings(clock_s=clock, logs_range_max=4, logs_max=2)) as client:
        keeper = client.create(KEEPER)
        for value in range(3):
            client.send(to=keeper, data=hexed(keep(0, value)))
        refusal = client.refusal("eth_getLogs", {"fromBlock": "0x0", "toBlock": "latest"})
        assert (refusal.code, refusal.message) == (-32_005, "query exceeds max block range 4: it has 5")
        refusal = client.refusal("eth_getLogs", {"fromBlock": "0x1", "toBlock": "latest"})
        assert (refusal.code, refusal.message) == (-32_005, "query returned more than 2 results")
        assert len(client("eth_getLogs", {"fromBlock": "0x1", "toBlock": "0x3"})) == 2


def test_logs_of_blocks_that_are_gone_are_refused(clock: WallClock) -> None:
    with served(Settings(clock_s=clock, history_max=2, blocks_max=3)) as client:
        client("anvil_mine", 5)
        assert client.refusal("eth_getLogs", {"fromBlock": "0x0"}).message.startswith("pruned history unavailable")
        assert client("eth_getLogs", {"fromBlock": "0x3"}) == []
        assert client("eth_getBlockByNumber", "earliest", False) is None


def test_what_comes_in_one_batch_comes_into_one_block(client: Client) -> None:
    raws = [hexed(signed(payment(nonce))) for nonce in range(5)]
    answers = client.batch(*[("eth_sendRawTransaction", [raw]) for raw in raws])
    assert client("eth_blockNumber") == "0x1"
    assert client("eth_getBlockByNumber", "0x1", False)["transactions"] == [each["result"] for each in answers]
