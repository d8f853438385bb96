"""What tests order the chain to do, over HTTP, by Anvil's names."""

import asyncio
from typing import Any

import pytest

from rota.ledger.embedded import Settings
from tests.ledger.embedded.client import ALICE_HEX, BOB_HEX, NOW_S, Client, WallClock, payment, served, signed
from tests.ledger.embedded.contracts import KEEPER, keep, word

NOBODY = "0x" + "ee" * 20


def latest(client: Client) -> dict[str, Any]:
    block: dict[str, Any] = client("eth_getBlockByNumber", "latest", False)
    return block


def test_blocks_are_mined_on_request(idle: Client) -> None:
    idle.send(to=NOBODY)
    assert idle("eth_blockNumber") == "0x0"
    assert idle("evm_mine") == "0x0"
    assert len(latest(idle)["transactions"]) == 1
    assert idle("evm_mine", {"blocks": 3}) == "0x0"
    assert idle("anvil_mine", "0x2") is None
    assert idle("eth_blockNumber") == "0x6"


def test_time_is_the_wall_clocks_and_moves_on_request(idle: Client, clock: WallClock) -> None:
    idle("evm_mine")
    assert latest(idle)["timestamp"] == hex(NOW_S)
    clock.now_s += 5
    assert idle("evm_increaseTime", 100) == 100
    assert idle("evm_increaseTime", "0x64") == 200
    idle("evm_mine")
    assert latest(idle)["timestamp"] == hex(NOW_S + 205)
    idle("evm_setNextBlockTimestamp", NOW_S + 1_000)
    idle("evm_mine")
    assert latest(idle)["timestamp"] == hex(NOW_S + 1_000)
    clock.now_s += 7
    idle("evm_mine")
    assert latest(idle)["timestamp"] == hex(NOW_S + 1_007)
    idle("evm_mine", NOW_S + 2_000)
    assert latest(idle)["timestamp"] == hex(NOW_S + 2_000)
    idle("anvil_mine", 3, 10)
    assert latest(idle)["timestamp"] == hex(NOW_S + 2_020)


def test_a_block_is_never_before_its_parent(idle: Client, clock: WallClock) -> None:
    idle("evm_mine")
    clock.now_s -= 100
    idle("evm_mine")
    assert latest(idle)["timestamp"] == hex(NOW_S)
    assert "is before the latest block's" in idle.refusal("evm_setNextBlockTimestamp", NOW_S - 1).message


def test_instant_blocks_are_switched_off_and_on(client: Client) -> None:
    assert client("anvil_getAutomine") is True
    assert client("evm_setAutomine", False) is None
    client.send(to=NOBODY)
    assert client("eth_blockNumber") == "0x0"
    client("evm_setAutomine", True)
    assert client("eth_blockNumber") == "0x1"


def test_blocks_come_at_an_interval_until_it_is_stopped(client: Client) -> None:
    told: list[object] = []
    stop = client.chain.listen(told.append)
    client("rota_setIntervalMining", 1)

    async def three_blocks() -> None:
        while len(told) < 3:
            await asyncio.sleep(0)

    client.run(three_blocks())
    stop()
    assert client("anvil_getAutomine") is False
    assert client("anvil_setIntervalMining", 0) is None
    assert client("anvil_getIntervalMining") is None
    number = client("eth_blockNumber")
    client.send(to=NOBODY)
    assert client("eth_blockNumber") == number
    client("evm_setIntervalMining", 3_600)
    assert client("anvil_getIntervalMining") == 3_600


def test_timed_and_instant_blocks_go_together(clock: WallClock) -> None:
    with served(Settings(clock_s=clock, block_time_ms=3_600_000)) as client:
        client.send(to=NOBODY)
        assert client("eth_blockNumber") == "0x1"
        assert client("anvil_getIntervalMining") == 3_600


def test_a_snapshot_is_gone_back_to_once(client: Client) -> None:
    snapshot = client("evm_snapshot")
    client.send(to=NOBODY, value="0x5")
    assert client("eth_getBalance", NOBODY) == "0x5"
    assert client("evm_revert", snapshot) is True
    assert client("eth_getBalance", NOBODY) == "0x0"
    assert client("eth_blockNumber") == "0x0"
    assert client("evm_revert", snapshot) is False
    assert client("anvil_revert", "0x63") is False


def test_a_reorganisation_replaces_blocks_and_drops_their_transactions(client: Client) -> None:
    keeper = client.create(KEEPER)
    sent = [client.send(to=keeper, data="0x" + keep(0, value).hex()) for value in (1, 2, 3)]
    before = [client("eth_getBlockByNumber", hex(number), False)["hash"] for number in range(5)]
    assert client("anvil_reorg", 2) is None
    after = [client("eth_getBlockByNumber", hex(number), False)["hash"] for number in range(5)]
    assert after[:3] == before[:3]
    assert not set(after[3:]) & set(before[3:])
    assert client("eth_getTransactionReceipt", sent[0]) is not None
    assert client("eth_getTransactionReceipt", sent[1]) is None
    assert client("eth_getTransactionByHash", sent[2]) is None
    assert client("eth_getBlockByHash", before[4], False) is None
    assert client("eth_getStorageAt", keeper, "0x0") == "0x" + word(1).hex()
    assert [log["data"] for log in client("eth_getLogs", {"fromBlock": "0x0"})] == ["0x" + word(1).hex()]


def test_a_reorganisation_holds_the_transactions_that_it_is_given(client: Client) -> None:
    for _ in range(2):
        client.send(to=NOBODY, value="0x1")
    raw = "0x" + signed(payment(0, value=70)).hex()
    whole = {"from": BOB_HEX, "to": NOBODY, "value": "0x8"}
    client("anvil_reorg", 2, [[raw, 1], [whole, 0]])
    assert client("eth_blockNumber") == "0x2"
    assert [len(client("eth_getBlockByNumber", number, False)["transactions"]) for number in ("0x1", "0x2")] == [1, 1]
    assert client("eth_getBalance", NOBODY) == hex(78)


def test_a_reorganisation_can_return_transactions_to_the_pool(client: Client) -> None:
    sent = [client.send(to=NOBODY, value="0x1") for _ in range(2)]
    client("rota_reorg", 2, {"blocks": 3})
    assert client("eth_blockNumber") == "0x4"
    assert client("eth_getBlockByNumber", "latest", False)["transactions"] == sent
    client("rota_reorg", 1, {"return": False})
    assert client("eth_getTransactionReceipt", sent[0]) is None


def test_blocks_are_rolled_back(client: Client) -> None:
    client.send(to=NOBODY, value="0x1")
    client("evm_mine")
    client("anvil_rollback")
    assert client("eth_blockNumber") == "0x1"
    client("anvil_rollback", 1)
    assert client("eth_getBalance", NOBODY) == "0x0"


def test_the_pool_loses_what_it_is_told_to_lose(idle: Client) -> None:
    first, second = idle.send(to=NOBODY), idle.send(to=NOBODY)
    assert idle("txpool_status") == {"pending": "0x2", "queued": "0x0"}
    assert idle("anvil_dropTransaction", first) == first
    assert idle("anvil_dropTransaction", first) is None
    assert idle("txpool_status") == {"pending": "0x0", "queued": "0x1"}
    assert idle("anvil_dropAllTransactions") is None
    assert idle("eth_getTransactionByHash", second) is None
    idle("evm_mine")
    assert latest(idle)["transactions"] == []


def test_accounts_become_what_a_test_wants(client: Client) -> None:
    client("anvil_setBalance", NOBODY, "0x64")
    assert client("eth_getBalance", NOBODY) == "0x64"
    client("anvil_setCode", NOBODY, "0x" + KEEPER.hex())
    client("anvil_setStorageAt", NOBODY, "0x3", "0x" + word(9).hex())
    assert client("eth_call", {"to": NOBODY, "data": "0x" + keep(3, 1).hex()}) == "0x" + word(9).hex()
    client("anvil_setNextBlockBaseFeePerGas", "0x7")
    client("evm_mine")
    assert latest(client)["baseFeePerGas"] == "0x7"


def test_an_account_that_became_a_contract_cannot_send(idle: Client) -> None:
    waiting = idle.send(to=NOBODY)
    idle("anvil_setCode", ALICE_HEX, "0x" + KEEPER.hex())
    refusal = idle.refusal("eth_sendRawTransaction", "0x" + signed(payment(1)).hex())
    assert refusal.message.startswith("sender not an eoa: address 0xf39f")
    # To ask is no transaction, and leaves it a contract.
    assert idle("eth_call", {"from": ALICE_HEX, "to": NOBODY}) == "0x"
    assert idle("eth_getCode", ALICE_HEX) == "0x" + KEEPER.hex()
    assert idle("eth_call", {"to": ALICE_HEX, "data": "0x" + keep(3, 1).hex()}) == "0x" + word(0).hex()
    idle("evm_mine")
    assert idle("eth_getTransactionByHash", waiting) is None
    assert latest(idle)["transactions"] == []


def test_as_much_as_can_be_is_not_too_much(idle: Client) -> None:
    idle("anvil_setBalance", "0x" + "00" * 20, hex(2**256 - 1))
    sent = idle.send(to=NOBODY)
    idle("evm_setNextBlockTimestamp", 2**63 - 1)
    idle("evm_mine")
    assert idle("eth_getTransactionReceipt", sent)["status"] == "0x1"
    idle("evm_increaseTime", 10)
    idle("evm_mine")
    assert latest(idle)["timestamp"] == hex(2**63 - 1)
    refusal = idle.refusal("eth_sendRawTransaction", "0x" + signed(payment(1, value=2**256 - 1)).hex())
    assert refusal.message.startswith("insufficient funds")


def test_an_empty_account_cannot_send(client: Client) -> None:
    client("anvil_setBalance", ALICE_HEX, "0x0")
    refusal = client.refusal("eth_sendRawTransaction", "0x" + signed(payment(0)).hex())
    assert refusal.message.startswith("insufficient funds for gas * price + value: balance 0, tx cost 210000000000001")


@pytest.mark.parametrize(
    ("method", "parameters", "code", "text"),
    [
        ("evm_revert", [], -32_602, "required argument 0: snapshot"),
        ("evm_revert", ["first"], -32_602, "argument snapshot"),
        ("evm_mine", [{"count": 1}], -32_602, "argument options: expected a time, or an object"),
        ("evm_mine", [{"blocks": 10_001}], -32_000, "at most 10000 blocks are mined at once, not 10001"),
        ("evm_increaseTime", [-1], -32_602, "argument seconds: expected a number of 0 or more"),
        ("evm_increaseTime", [10**12], -32_000, "time moves forward, and by at most"),
        ("evm_setNextBlockTimestamp", [2**63], -32_602, "argument timestamp"),
        ("evm_setAutomine", [1], -32_602, "argument enabled: expected true or false"),
        ("evm_setIntervalMining", ["soon"], -32_602, "argument seconds"),
        ("evm_setIntervalMining", [10**9], -32_602, "argument interval: at most"),
        ("anvil_mine", [[]], -32_602, "argument blocks"),
        ("anvil_dropTransaction", ["0x"], -32_602, "argument hash: expected 32 bytes, not 0"),
        ("anvil_setBalance", [NOBODY], -32_602, "required argument 1: balance"),
        ("anvil_setBalance", [NOBODY, 2**256], -32_602, "argument balance"),
        ("anvil_setCode", [NOBODY, "0x1"], -32_602, "argument code"),
        ("anvil_setStorageAt", [NOBODY, "0x0", "0x1"], -32_602, "argument value: expected"),
        ("anvil_setNextBlockBaseFeePerGas", [True], -32_602, "argument baseFee"),
        ("anvil_reorg", [], -32_602, "required argument 0: depth"),
        ("anvil_reorg", [1], -32_000, "depth is at most 0"),
        ("anvil_reorg", [1, [["0x"]]], -32_602, "argument transactions: expected pairs"),
        ("anvil_reorg", [1, [["0x0", 0]]], -32_602, "argument transactions: expected bytes"),
        ("anvil_reorg", [1, [[{"from": NOBODY}, 0]]], -32_000, "is from one of eth_accounts"),
        ("rota_reorg", [1, {"depth": 1}], -32_602, "argument options: expected an object with blocks and return"),
        ("anvil_rollback", ["0x0"], -32_000, "depth is at least 1, not 0"),
    ],
)
def test_a_wrong_order_is_told_with_what_would_be_right(
    client: Client, method: str, parameters: list[object], code: int, text: str
) -> None:
    refusal = client.refusal(method, *parameters)
    assert refusal.code == code
    assert text in refusal.message
    assert client("eth_blockNumber") == "0x0"


def test_a_contract_that_was_reorganised_away_can_be_created_again(client: Client) -> None:
    first = client.create(KEEPER)
    client.send(to=first, data="0x" + keep(0, 5).hex())
    client("anvil_reorg", 2)
    assert client("eth_getCode", first) == "0x"
    assert client.create(KEEPER) == first
    assert client("eth_getStorageAt", first, "0x0") == "0x" + word(0).hex()
