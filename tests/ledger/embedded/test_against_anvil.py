"""The same transactions on this chain and on Anvil: the same addresses, statuses, gas and logs.

Anvil is the one that `rota bench ledger` finds; where there is none, these tests are skipped.
"""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from rota.ledger.embedded.fees import next_base_fee
from rota.ledger.transaction import AccessEntry, AccessListTransaction, LegacyTransaction, Transaction, created_address
from rota.localnet.chains import NO_ANVIL, find_anvil
from tests import bounds
from tests.ledger.embedded.client import ALICE, GWEI, Client, payment, signed
from tests.ledger.embedded.contracts import ENDLESS, INVALID, KEEPER, REVERTER, creation, error_string, keep, word
from tests.ledger.embedded.test_blocks import header_hash

pytestmark = pytest.mark.slow

LINES_MAX = 200
WAIT_S = bounds.WAIT_S
KEEPER_ADDRESS, REVERTER_ADDRESS, INVALID_ADDRESS, ENDLESS_ADDRESS = (
    created_address(ALICE.address, nonce) for nonce in range(4)
)


@pytest.fixture
def anvil(tmp_path: Path) -> Iterator[str]:
    """The address of an Anvil of our own."""
    programme = find_anvil()
    if programme is None:
        pytest.skip(f"There is no Anvil: {NO_ANVIL}.")
    arguments = ["--port", "0", "--hardfork", "prague", "--gas-limit", "60000000", "--no-mining"]
    environment = {**os.environ, "HOME": str(tmp_path)}
    with subprocess.Popen(
        [programme, *arguments], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
    ) as process:
        try:
            assert process.stdout is not None
            lines = (process.stdout.readline() for _ in range(LINES_MAX))
            yield "http://" + next(line for line in lines if "Listening on" in line).split()[-1]
        finally:
            process.kill()


def ask(url: str, method: str, *parameters: object) -> Any:  # noqa: ANN401
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": parameters}).encode()
    request = Request(url, data=body, headers={"Content-Type": "application/json"})
    with urlopen(request, timeout=WAIT_S) as response:
        answer = json.load(response)
    assert "error" not in answer, answer
    return answer["result"]


def calling(nonce: int, to: bytes, data: bytes, **choices: Any) -> Transaction:  # noqa: ANN401
    return payment(nonce, to=to, data=data, value=0, gas_limit=150_000, **choices)


TRANSACTIONS: list[Transaction] = [
    *(
        payment(nonce, to=None, value=0, data=creation(code), gas_limit=200_000)
        for nonce, code in enumerate((KEEPER, REVERTER, INVALID, ENDLESS))
    ),
    calling(4, KEEPER_ADDRESS, keep(1, 5)),
    calling(5, KEEPER_ADDRESS, keep(1, 6)),
    calling(6, KEEPER_ADDRESS, keep(1, 6)),
    calling(7, KEEPER_ADDRESS, keep(1, 0)),  # A slot that is cleared gives gas back.
    calling(8, KEEPER_ADDRESS, keep(2**256 - 1, 2**256 - 1)),
    calling(9, KEEPER_ADDRESS, keep(2, 2), access_list=(AccessEntry(KEEPER_ADDRESS, (word(2), word(3))),)),
    calling(10, KEEPER_ADDRESS, keep(2, 3)),
    calling(11, REVERTER_ADDRESS, error_string("no")),
    calling(12, INVALID_ADDRESS, b""),
    calling(13, ENDLESS_ADDRESS, b""),
    calling(14, b"\xee" * 20, b"\x01" * 2_000),  # The floor price of calldata.
    payment(15, to=None, value=9, data=bytes.fromhex("60015f5533ff"), gas_limit=200_000),
    payment(16, to=None, value=0, data=REVERTER, gas_limit=200_000),
    LegacyTransaction(nonce=17, gas_price=9 * GWEI, gas_limit=30_000, to=b"\xdd" * 20, value=4, chain_id=31_337),
    AccessListTransaction(
        chain_id=31_337,
        nonce=18,
        gas_price=9 * GWEI,
        gas_limit=100_000,
        to=KEEPER_ADDRESS,
        data=keep(2, 9),
        access_list=(AccessEntry(KEEPER_ADDRESS, (word(2),)),),
    ),
    payment(19, to=bytes(20), value=5),  # The block's maker.
]
COMPARED = ("transactionHash", "status", "gasUsed", "contractAddress", "from", "to", "type", "logsBloom")


def test_the_same_transactions_have_the_same_outcome_on_anvil(idle: Client, anvil: str) -> None:
    for transaction in TRANSACTIONS:
        raw = "0x" + signed(transaction).hex()
        receipts = []
        for chain in (idle, lambda method, *parameters: ask(anvil, method, *parameters)):
            transaction_hash = chain("eth_sendRawTransaction", raw)
            chain("evm_mine")
            receipts.append(chain("eth_getTransactionReceipt", transaction_hash))
        ours, theirs = receipts
        assert [ours[name] for name in COMPARED] == [theirs[name] for name in COMPARED], transaction
        assert [(log["address"], log["topics"], log["data"]) for log in ours["logs"]] == [
            (log["address"], log["topics"], log["data"]) for log in theirs["logs"]
        ]
        assert ours.keys() - {"revertReason"} <= theirs.keys()
        number = ours["blockNumber"]
        block = idle("eth_getBlockByNumber", number, False)
        their_block = ask(anvil, "eth_getBlockByNumber", number, False)
        for name in ("transactionsRoot", "receiptsRoot", "gasUsed", "logsBloom", "sha3Uncles", "withdrawalsRoot"):
            assert block[name] == their_block[name], name
        assert header_hash(their_block) == their_block["hash"]
    for slot in (1, 2, 2**256 - 1):
        place = "0x" + KEEPER_ADDRESS.hex()
        wanted = ("eth_getStorageAt", place, hex(slot), "latest")
        assert idle(*wanted) == ask(anvil, *wanted)
    for address in ("0x" + ALICE.address.hex(), "0x" + "dd" * 20):
        assert idle("eth_getTransactionCount", address) == ask(anvil, "eth_getTransactionCount", address, "latest")


def test_anvil_moves_the_base_fee_by_our_rule(anvil: str) -> None:
    for _ in range(10):
        ask(anvil, "evm_mine")
    fees = [int(fee, 16) for fee in ask(anvil, "eth_feeHistory", "0xa", "latest", [])["baseFeePerGas"]]
    assert len(fees) == 11
    assert fees[1:] == [next_base_fee(fee, 0, 60_000_000) for fee in fees[:-1]]
