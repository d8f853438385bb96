"""The standard Ethereum methods of this chain: `eth_*`, `net_*`, `web3_*`.

Each is a function of the chain and its parameters. Methods that only tests use are in `control`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.metadata import version
from typing import Final, NamedTuple

from rota.ledger.embedded.blocks import Block
from rota.ledger.embedded.calling import estimate_gas, run_call, send
from rota.ledger.embedded.chain import EmbeddedChain
from rota.ledger.embedded.errors import rejected
from rota.ledger.embedded.history import logs_of
from rota.ledger.embedded.parameters import (
    BlockWanted,
    Parameters,
    invalid,
    read_address,
    read_block_wanted,
    read_boolean,
    read_call,
    read_hash,
    read_logs_wanted,
    read_number,
    read_slot_number,
)
from rota.ledger.embedded.shown import shown_block, shown_log, shown_mined, shown_receipt, shown_waiting
from rota.ledger.hexadecimal import data, quantity, read_data
from rota.model.digests import keccak

FEE_HISTORY_MAX: Final = 1_024
PERCENTILES_MAX: Final = 100


class Method(NamedTuple):
    """A method's function, and its maximum number of parameters."""

    run: Callable[[EmbeddedChain, Parameters], object]
    parameters_max: int = 0


def client_version() -> str:
    """Return the name and version of the chain."""
    return f"rota/{version('rota')}/embedded"


def find_block(chain: EmbeddedChain, wanted: BlockWanted) -> Block | None:
    """Return the block, or None. No block here is unsafe, so the safe block is the latest."""
    if wanted.hash is not None:
        return chain.history.by_hash(wanted.hash)
    if wanted.number is not None:
        return chain.history.by_number(wanted.number)
    if wanted.tag == "earliest":
        return chain.history.by_number(0)
    return chain.head


def existing_block(chain: EmbeddedChain, wanted: BlockWanted) -> Block:
    block = find_block(chain, wanted)
    if block is None:
        raise rejected("header not found" if wanted.hash is None else "header for hash not found")
    return block


def _block_at(chain: EmbeddedChain, parameters: Parameters, place: int) -> Block:
    return existing_block(chain, parameters.read_or(place, "block", read_block_wanted, BlockWanted()))


def _position_at(chain: EmbeddedChain, parameters: Parameters, place: int) -> int:
    return chain.state_position_of(_block_at(chain, parameters, place))


def _get_block_by_number(chain: EmbeddedChain, parameters: Parameters) -> object:
    block = find_block(chain, parameters.read(0, "block", read_block_wanted))
    full = parameters.read_or(1, "full", read_boolean, False)
    return None if block is None else shown_block(block, full)


def _get_block_by_hash(chain: EmbeddedChain, parameters: Parameters) -> object:
    block = chain.history.by_hash(parameters.read(0, "hash", read_hash))
    full = parameters.read_or(1, "full", read_boolean, False)
    return None if block is None else shown_block(block, full)


def _get_block_receipts(chain: EmbeddedChain, parameters: Parameters) -> object:
    block = find_block(chain, parameters.read(0, "block", read_block_wanted))
    return None if block is None else [shown_receipt(receipt, block) for receipt in block.receipts]


def _count_by_number(chain: EmbeddedChain, parameters: Parameters) -> object:
    block = find_block(chain, parameters.read(0, "block", read_block_wanted))
    return None if block is None else quantity(len(block.receipts))


def _get_transaction(chain: EmbeddedChain, parameters: Parameters) -> object:
    wanted = parameters.read(0, "hash", read_hash)
    receipt = chain.history.receipt(wanted)
    if receipt is not None:
        return shown_mined(receipt, existing_block(chain, BlockWanted(number=receipt.block_number)))
    waiting = chain.pool.get(wanted)
    return None if waiting is None else shown_waiting(waiting, chain.next_base_fee_wei)


def _get_transaction_in_block(chain: EmbeddedChain, parameters: Parameters) -> object:
    block = find_block(chain, parameters.read(0, "block", read_block_wanted))
    place = parameters.read(1, "index", read_number)
    if block is None or place >= len(block.receipts):
        return None
    return shown_mined(block.receipts[place], block)


def _get_receipt(chain: EmbeddedChain, parameters: Parameters) -> object:
    receipt = chain.history.receipt(parameters.read(0, "hash", read_hash))
    if receipt is None:
        return None
    return shown_receipt(receipt, existing_block(chain, BlockWanted(number=receipt.block_number)))


def _get_transaction_count(chain: EmbeddedChain, parameters: Parameters) -> object:
    address = parameters.read(0, "address", read_address)
    if parameters.read_or(1, "block", read_block_wanted, BlockWanted()).tag == "pending":
        return quantity(chain.next_nonce(address))
    return quantity(chain.state.account(address, _position_at(chain, parameters, 1)).nonce)


def _get_balance(chain: EmbeddedChain, parameters: Parameters) -> object:
    address = parameters.read(0, "address", read_address)
    return quantity(chain.state.account(address, _position_at(chain, parameters, 1)).balance)


def _get_code(chain: EmbeddedChain, parameters: Parameters) -> object:
    address = parameters.read(0, "address", read_address)
    return data(chain.state.code(chain.state.account(address, _position_at(chain, parameters, 1)).code_hash))


def _get_storage(chain: EmbeddedChain, parameters: Parameters) -> object:
    address = parameters.read(0, "address", read_address)
    slot = parameters.read(1, "slot", read_slot_number)
    return data(chain.state.slot(address, slot, _position_at(chain, parameters, 2)).to_bytes(32, "big"))


def _refuse_overrides(parameters: Parameters, places: range) -> None:
    """Refuse overrides, which would otherwise be silently ignored."""
    if any(parameters.has(place) for place in places):
        raise invalid("overrides", "this chain has no state or block overrides; leave them out")


def _call(chain: EmbeddedChain, parameters: Parameters) -> object:
    wanted = parameters.read(0, "transaction", read_call)
    _refuse_overrides(parameters, range(2, 4))
    return data(run_call(chain, wanted, _block_at(chain, parameters, 1)))


def _estimate_gas(chain: EmbeddedChain, parameters: Parameters) -> object:
    wanted = parameters.read(0, "transaction", read_call)
    _refuse_overrides(parameters, range(2, 4))
    return quantity(estimate_gas(chain, wanted, _block_at(chain, parameters, 1)))


def _gas_price(chain: EmbeddedChain, _: Parameters) -> object:
    return quantity(chain.next_base_fee_wei + chain.settings.priority_fee_wei)


def _send_raw_transaction(chain: EmbeddedChain, parameters: Parameters) -> object:
    return data(chain.submit(parameters.read(0, "transaction", read_data)))


def _send_transaction(chain: EmbeddedChain, parameters: Parameters) -> object:
    return data(send(chain, parameters.read(0, "transaction", read_call)))


def _get_logs(chain: EmbeddedChain, parameters: Parameters) -> object:
    wanted = parameters.read(0, "filter", read_logs_wanted)
    if wanted.block_hash is not None:
        block = existing_block(chain, BlockWanted(hash=wanted.block_hash))
        return [shown_log(placed) for placed in logs_of(block, wanted.filter)]
    first, last = _bound(chain, wanted.first), _bound(chain, wanted.last)
    if last < first and wanted.last.number is not None:
        raise invalid("filter", f"fromBlock {first} is above toBlock {last}")
    last = min(last, chain.head.number)
    if first < chain.history.oldest_number:
        raise rejected(f"pruned history unavailable: the oldest block is {chain.history.oldest_number}, not {first}")
    if first > last:
        return []
    settings = chain.settings
    found = chain.history.logs(wanted.filter, first, last, settings.logs_max, settings.logs_range_max)
    return [shown_log(placed) for placed in found]


def _bound(chain: EmbeddedChain, wanted: BlockWanted) -> int:
    """Return the height of a range's end, which may be above the latest block."""
    return wanted.number if wanted.number is not None else existing_block(chain, wanted).number


def _read_percentiles(written: object) -> list[float]:
    if not isinstance(written, list) or len(written) > PERCENTILES_MAX:
        raise ValueError(f"expected a list of at most {PERCENTILES_MAX} numbers")
    numbers = [each for each in written if isinstance(each, int | float) and not isinstance(each, bool)]
    if len(numbers) != len(written) or sorted(numbers) != numbers or any(not 0 <= each <= 100 for each in numbers):
        raise ValueError("expected numbers from 0 to 100 in ascending order")
    return numbers


def _fee_history(chain: EmbeddedChain, parameters: Parameters) -> object:
    count = parameters.read(0, "blockCount", read_number)
    newest = existing_block(chain, parameters.read(1, "newestBlock", read_block_wanted)).number
    percentiles: list[float] = parameters.read_or(2, "rewardPercentiles", _read_percentiles, [])
    if count > FEE_HISTORY_MAX:
        raise invalid("blockCount", f"at most {FEE_HISTORY_MAX} blocks, not {count}")
    oldest = max(newest - count + 1, chain.history.oldest_number)
    blocks = [existing_block(chain, BlockWanted(number=number)) for number in range(oldest, newest + 1)]
    after = chain.history.by_number(newest + 1)
    last_fee = chain.next_base_fee_wei if after is None else after.header.base_fee_wei
    answer: dict[str, object] = {
        "oldestBlock": quantity(oldest),
        "baseFeePerGas": [quantity(block.header.base_fee_wei) for block in blocks] + [quantity(last_fee)],
        "gasUsedRatio": [block.header.gas_used / block.header.gas_limit for block in blocks],
    }
    if percentiles:
        answer["reward"] = [[quantity(tip) for tip in _tips_at(block, percentiles)] for block in blocks]
    return answer


def _tips_at(block: Block, percentiles: list[float]) -> list[int]:
    """Return the tips at these shares of the block's gas, the cheapest transactions first."""
    paid = sorted((each.effective_gas_price - block.header.base_fee_wei, each.gas_used) for each in block.receipts)
    tips: list[int] = []
    for percentile in percentiles:
        sought, used, tip = block.header.gas_used * percentile / 100, 0, 0
        for tip, gas in paid:  # noqa: B007 - the tip at which the sum is reached is wanted
            used += gas
            if used >= sought:
                break
        tips.append(tip)
    return tips


METHODS: Final[Mapping[str, Method]] = {
    "web3_clientVersion": Method(lambda *_: client_version()),
    "web3_sha3": Method(lambda _, parameters: data(keccak(parameters.read(0, "data", read_data))), 1),
    "net_version": Method(lambda chain, _: str(chain.settings.chain_id)),
    "net_listening": Method(lambda *_: True),
    "net_peerCount": Method(lambda *_: "0x0"),
    "eth_chainId": Method(lambda chain, _: quantity(chain.settings.chain_id)),
    "eth_syncing": Method(lambda *_: False),
    "eth_accounts": Method(lambda chain, _: [data(account.address) for account in chain.accounts]),
    "eth_blockNumber": Method(lambda chain, _: quantity(chain.head.number)),
    "eth_getBlockByNumber": Method(_get_block_by_number, 2),
    "eth_getBlockByHash": Method(_get_block_by_hash, 2),
    "eth_getBlockReceipts": Method(_get_block_receipts, 1),
    "eth_getBlockTransactionCountByNumber": Method(_count_by_number, 1),
    "eth_getBlockTransactionCountByHash": Method(_count_by_number, 1),
    "eth_getTransactionByHash": Method(_get_transaction, 1),
    "eth_getTransactionByBlockNumberAndIndex": Method(_get_transaction_in_block, 2),
    "eth_getTransactionByBlockHashAndIndex": Method(_get_transaction_in_block, 2),
    "eth_getTransactionReceipt": Method(_get_receipt, 1),
    "eth_getTransactionCount": Method(_get_transaction_count, 2),
    "eth_getBalance": Method(_get_balance, 2),
    "eth_getCode": Method(_get_code, 2),
    "eth_getStorageAt": Method(_get_storage, 3),
    "eth_call": Method(_call, 4),
    "eth_estimateGas": Method(_estimate_gas, 4),
    "eth_gasPrice": Method(_gas_price),
    "eth_maxPriorityFeePerGas": Method(lambda chain, _: quantity(chain.settings.priority_fee_wei)),
    "eth_feeHistory": Method(_fee_history, 3),
    "eth_sendRawTransaction": Method(_send_raw_transaction, 1),
    "eth_sendTransaction": Method(_send_transaction, 1),
    "eth_getLogs": Method(_get_logs, 1),
}
