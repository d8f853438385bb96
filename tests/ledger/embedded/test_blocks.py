"""Headers, roots, blooms and fees, against what others compute."""

from typing import Any

import pytest

from rota.ledger import rlp
from rota.ledger.embedded.blocks import bloom_of, may_hold
from rota.ledger.embedded.fees import next_base_fee
from rota.ledger.embedded.trie import EMPTY_ROOT, root_of
from rota.model.digests import keccak
from rota.revm import Emitted
from tests.ledger.embedded.client import ALICE_HEX, Client
from tests.ledger.embedded.contracts import KEEPER, keep

# Made with py-trie from the same items.
ROOTS = {
    1: "c9dfd5716c2a899ea11597e920b7085cf7c41eafa27a7118ea11a5c4ca4d23ad",
    2: "6d63edb20940f1817c3f5476b574bbd3d7ce2e6d8a74a0cc42304d28d66483f7",
    16: "18a8b183b5f4a4907aca93d2f4705258d57690c6ff4411adb2b25006263c2930",
    17: "c4d408feac13c70229a42d15c2b08cccf41ef57d155de5e3f58a47ed7e5f856b",
    127: "8e1bac5e34b68214b80fdc871c92ac3022312baf9245a9222f37a8cbf536ccd5",
    128: "32120fd9c26ebbd5516c5a1f444d56828149bab33f7216515f260cb7bc3d2c8f",
    129: "1146a0a2c60539c1f2e653915ae370b9879e6269d7b7841a04e8b126fb5b1f0e",
    300: "c109efb8ca41168f8c1730aa95b5179d5b14546c28eab826e3d03ee4458e6a84",
}


@pytest.mark.parametrize(("count", "root"), list(ROOTS.items()))
def test_the_root_of_a_list_is_what_others_compute(count: int, root: str) -> None:
    assert root_of([b"item%d" % place * 3 for place in range(count)]).hex() == root


def test_the_root_of_nothing_is_the_well_known_one() -> None:
    assert root_of([]) == EMPTY_ROOT
    assert EMPTY_ROOT.hex() == "56e81f171bcc55a6ff8345e692c0f86e5b48e01b996cadc001622fb5e363b421"


def header_hash(block: dict[str, Any]) -> str:
    """The hash of a block, worked out from what JSON-RPC shows of it, in the order of the yellow paper."""

    def content(name: str) -> bytes:
        return bytes.fromhex(block[name][2:])

    def number(name: str) -> bytes:
        return rlp.encode_unsigned(int(block[name], 16))

    fields = [
        *(content(name) for name in ("parentHash", "sha3Uncles", "miner", "stateRoot", "transactionsRoot")),
        *(content(name) for name in ("receiptsRoot", "logsBloom")),
        *(number(name) for name in ("difficulty", "number", "gasLimit", "gasUsed", "timestamp")),
        *(content(name) for name in ("extraData", "mixHash", "nonce")),
        number("baseFeePerGas"),
        content("withdrawalsRoot"),
        *(number(name) for name in ("blobGasUsed", "excessBlobGas")),
        content("parentBeaconBlockRoot"),
        *([content("requestsHash")] if "requestsHash" in block else []),  # since Prague
    ]
    return "0x" + keccak(rlp.encode(fields)).hex()


def test_a_block_has_the_hash_of_its_header_and_stands_on_its_parent(client: Client) -> None:
    keeper = client.create(KEEPER)
    client.send(to=keeper, input="0x" + keep(1, 2).hex())
    blocks = [client("eth_getBlockByNumber", hex(number), False) for number in range(3)]
    assert [header_hash(block) for block in blocks] == [block["hash"] for block in blocks]
    assert [block["parentHash"] for block in blocks[1:]] == [block["hash"] for block in blocks[:-1]]
    assert len({block["stateRoot"] for block in blocks}) == 3


def test_a_blocks_roots_commit_to_its_transactions_and_receipts(client: Client) -> None:
    payments: list[object] = [{"from": ALICE_HEX, "to": ALICE_HEX}]
    client.batch(*[("eth_sendTransaction", payments)] * 3)
    block = client("eth_getBlockByNumber", "latest", True)
    receipts = client.chain.head.receipts
    assert len(receipts) == 3
    assert block["transactionsRoot"] == "0x" + root_of([each.transaction.raw for each in receipts]).hex()
    assert block["receiptsRoot"] == "0x" + root_of([each.encoded() for each in receipts]).hex()


def test_a_bloom_holds_what_was_logged() -> None:
    # The address and topic of the yellow paper's usual example, a transfer of a token.
    topic = keccak(b"Transfer(address,address,uint256)")
    log = Emitted(bytes.fromhex("dac17f958d2ee523a2206206994597c13d831ec7"), (topic,), b"")
    bloom = bloom_of([log])
    assert may_hold(bloom, log.address)
    assert may_hold(bloom, topic)
    assert not may_hold(bloom, keccak(b"another"))
    assert 1 <= int.from_bytes(bloom, "big").bit_count() <= 6


@pytest.mark.parametrize(
    ("base_fee", "used", "limit", "expected"),
    [
        (1_000_000_000, 15_000_000, 30_000_000, 1_000_000_000),
        (1_000_000_000, 30_000_000, 30_000_000, 1_125_000_000),
        (1_000_000_000, 0, 30_000_000, 875_000_000),
        (1_000_000_000, 20_000_000, 30_000_000, 1_041_666_666),
        (7, 0, 30_000_000, 7),
        (1, 30_000_000, 30_000_000, 2),
        (0, 30_000_000, 30_000_000, 1),
        (0, 0, 30_000_000, 0),
    ],
)
def test_the_base_fee_follows_its_rule(base_fee: int, used: int, limit: int, expected: int) -> None:
    assert next_base_fee(base_fee, used, limit) == expected
