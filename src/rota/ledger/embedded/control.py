"""Methods for tests that control a chain: mine, go back, change the time and accounts.

The names and answers are Anvil's, because one test suite runs on both. Methods that Anvil does not have are `rota_*`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from rota.ledger.embedded.calling import complete
from rota.ledger.embedded.chain import EmbeddedChain
from rota.ledger.embedded.clock import TIME_S_MAX
from rota.ledger.embedded.errors import rejected
from rota.ledger.embedded.methods import Method
from rota.ledger.embedded.parameters import (
    Parameters,
    invalid,
    read_address,
    read_boolean,
    read_call,
    read_hash,
    read_number,
    read_slot_number,
)
from rota.ledger.hexadecimal import data, quantity, read_data
from rota.ledger.transaction import signing_hash, with_signature

REORGANISATION_TRANSACTIONS_MAX: Final = 1_000
MS_PER_S: Final = 1_000
INTERVAL_MS_MAX: Final = 24 * 3_600 * MS_PER_S


def _snapshot(chain: EmbeddedChain, _: Parameters) -> object:
    return quantity(chain.snapshot())


def _revert(chain: EmbeddedChain, parameters: Parameters) -> object:
    return chain.restore(parameters.read(0, "snapshot", read_number))


def _read_mine_options(written: object) -> tuple[int | None, int]:
    """Read a time, or an object with a time and a number of blocks: (time, blocks)."""
    if not isinstance(written, dict):
        return read_number(written), 1
    if set(written) - {"timestamp", "blocks"}:
        raise ValueError("expected a time, or an object with timestamp and blocks")
    time_s = written.get("timestamp")
    blocks = written.get("blocks")
    return None if time_s is None else read_number(time_s), 1 if blocks is None else read_number(blocks)


def _evm_mine(chain: EmbeddedChain, parameters: Parameters) -> object:
    as_usual: tuple[int | None, int] = (None, 1)
    timestamp_s, blocks = parameters.read_or(0, "options", _read_mine_options, as_usual)
    if timestamp_s is not None:
        _set_next_time(chain, timestamp_s)
    chain.mine(blocks)
    return "0x0"


def _anvil_mine(chain: EmbeddedChain, parameters: Parameters) -> object:
    chain.mine(parameters.read_or(0, "blocks", read_number, 1), parameters.read_or(1, "interval", read_number, 0))
    return None


def _increase_time(chain: EmbeddedChain, parameters: Parameters) -> object:
    return chain.clock.increase(parameters.read(0, "seconds", read_number))


def _set_next_block_timestamp(chain: EmbeddedChain, parameters: Parameters) -> object:
    _set_next_time(chain, parameters.read(0, "timestamp", read_number))
    return None


def _set_next_time(chain: EmbeddedChain, timestamp_s: int) -> None:
    latest_s = chain.head.header.timestamp_s
    if timestamp_s < latest_s:
        raise invalid("timestamp", f"{timestamp_s} is before the latest block's, {latest_s}")
    if timestamp_s > TIME_S_MAX:
        raise invalid("timestamp", f"{timestamp_s} is no time in seconds: at most {TIME_S_MAX}")
    chain.clock.set_next(timestamp_s)


def _set_automine(chain: EmbeddedChain, parameters: Parameters) -> object:
    chain.set_instant(parameters.read(0, "enabled", read_boolean))
    return None


def _get_automine(chain: EmbeddedChain, _: Parameters) -> object:
    return chain.instant


def _evm_set_interval(chain: EmbeddedChain, parameters: Parameters) -> object:
    """Set the interval in seconds, as Anvil does under both names."""
    _set_interval(chain, parameters.read(0, "seconds", read_number) * MS_PER_S)
    return None


def _rota_set_interval(chain: EmbeddedChain, parameters: Parameters) -> object:
    _set_interval(chain, parameters.read(0, "milliseconds", read_number))
    return None


def _set_interval(chain: EmbeddedChain, interval_ms: int) -> None:
    """Replace instant blocks by a timer, as Anvil does; 0 stops it."""
    if interval_ms > INTERVAL_MS_MAX:
        raise invalid("interval", f"at most {INTERVAL_MS_MAX} ms, not {interval_ms}")
    chain.set_instant(False)
    chain.set_block_time(interval_ms or None)


def _get_interval(chain: EmbeddedChain, _: Parameters) -> object:
    return None if chain.block_time_ms is None else chain.block_time_ms // MS_PER_S


def _drop_transaction(chain: EmbeddedChain, parameters: Parameters) -> object:
    wanted = parameters.read(0, "hash", read_hash)
    return data(wanted) if chain.pool.remove(wanted) else None


def _drop_all(chain: EmbeddedChain, _: Parameters) -> object:
    chain.pool.clear()
    return None


def _set_balance(chain: EmbeddedChain, parameters: Parameters) -> object:
    address = parameters.read(0, "address", read_address)
    account = chain.state.account(address)
    chain.set_account(address, account._replace(balance=parameters.read(1, "balance", read_number)))
    return None


def _set_code(chain: EmbeddedChain, parameters: Parameters) -> object:
    address = parameters.read(0, "address", read_address)
    code_hash = chain.state.add_code(parameters.read(1, "code", read_data))
    chain.set_account(address, chain.state.account(address)._replace(code_hash=code_hash))
    return None


def _set_storage(chain: EmbeddedChain, parameters: Parameters) -> object:
    address = parameters.read(0, "address", read_address)
    slot = parameters.read(1, "slot", read_slot_number)
    chain.set_slot(address, slot, int.from_bytes(parameters.read(2, "value", read_hash), "big"))
    return True


def _set_next_base_fee(chain: EmbeddedChain, parameters: Parameters) -> object:
    chain.set_next_base_fee(parameters.read(0, "baseFee", read_number))
    return None


def _reorg(chain: EmbeddedChain, parameters: Parameters) -> object:
    """[depth, [[transaction, place], …]]: transactions of the old blocks are dropped, as at Anvil."""
    depth = parameters.read(0, "depth", read_number)
    pairs: list[tuple[object, int]] = parameters.read_or(1, "transactions", _read_pairs, [])
    raws = [(_raw(chain, transaction), place) for transaction, place in pairs]
    chain.reorganise(depth, transactions=raws)
    return None


def _read_pairs(written: object) -> list[tuple[object, int]]:
    if not isinstance(written, list) or len(written) > REORGANISATION_TRANSACTIONS_MAX:
        raise ValueError(f"expected a list of at most {REORGANISATION_TRANSACTIONS_MAX} pairs of transaction and place")
    if any(not isinstance(pair, list) or len(pair) != 2 for pair in written):
        raise ValueError("expected pairs of a transaction, raw or as an object, and the place of its block")
    return [(transaction, read_number(place)) for transaction, place in written]


def _raw(chain: EmbeddedChain, transaction: object) -> bytes:
    """Return a transaction that is given raw, or as an object for one of the chain's own accounts."""
    if isinstance(transaction, str):
        return Parameters([transaction], 1).read(0, "transactions", read_data)
    wanted = Parameters([transaction], 1).read(0, "transactions", read_call)
    account = next((each for each in chain.accounts if each.address == wanted.sender), None)
    if account is None or wanted.sender is None:
        raise rejected("a transaction that is not signed is from one of eth_accounts")
    completed = complete(chain, wanted.sender, wanted)
    signature = chain.curve.private_key(account.secret).sign(signing_hash(completed))
    return with_signature(completed, signature).raw


def _rota_reorg(chain: EmbeddedChain, parameters: Parameters) -> object:
    """[depth, {"blocks": number of new blocks, "return": whether the old transactions return to the pool}]."""
    depth = parameters.read(0, "depth", read_number)
    as_usual: tuple[int | None, bool] = (None, True)
    blocks, transactions_return = parameters.read_or(1, "options", _read_reorg_options, as_usual)
    chain.reorganise(depth, blocks=blocks, transactions_return=transactions_return)
    return None


def _read_reorg_options(written: object) -> tuple[int | None, bool]:
    if not isinstance(written, dict) or set(written) - {"blocks", "return"}:
        raise ValueError("expected an object with blocks and return")
    blocks = written.get("blocks")
    return None if blocks is None else read_number(blocks), read_boolean(written.get("return", True))


def _rollback(chain: EmbeddedChain, parameters: Parameters) -> object:
    chain.roll_back(parameters.read_or(0, "depth", read_number, 1))
    return None


def _pool_status(chain: EmbeddedChain, _: Parameters) -> object:
    everything = chain.pool.all()
    pending = sum(1 for waiting in everything if waiting.nonce < chain.next_nonce(waiting.sender))
    return {"pending": quantity(pending), "queued": quantity(len(everything) - pending)}


CONTROL: Final[Mapping[str, Method]] = {
    "evm_snapshot": Method(_snapshot),
    "evm_revert": Method(_revert, 1),
    "evm_mine": Method(_evm_mine, 1),
    "evm_increaseTime": Method(_increase_time, 1),
    "evm_setNextBlockTimestamp": Method(_set_next_block_timestamp, 1),
    "evm_setAutomine": Method(_set_automine, 1),
    "evm_setIntervalMining": Method(_evm_set_interval, 1),
    "anvil_mine": Method(_anvil_mine, 2),
    "anvil_snapshot": Method(_snapshot),
    "anvil_revert": Method(_revert, 1),
    "anvil_increaseTime": Method(_increase_time, 1),
    "anvil_setNextBlockTimestamp": Method(_set_next_block_timestamp, 1),
    "anvil_getAutomine": Method(_get_automine),
    "anvil_setAutomine": Method(_set_automine, 1),
    "anvil_getIntervalMining": Method(_get_interval),
    "anvil_setIntervalMining": Method(_evm_set_interval, 1),
    "anvil_dropTransaction": Method(_drop_transaction, 1),
    "anvil_dropAllTransactions": Method(_drop_all),
    "anvil_setBalance": Method(_set_balance, 2),
    "anvil_setCode": Method(_set_code, 2),
    "anvil_setStorageAt": Method(_set_storage, 3),
    "anvil_setNextBlockBaseFeePerGas": Method(_set_next_base_fee, 1),
    "anvil_reorg": Method(_reorg, 2),
    "anvil_rollback": Method(_rollback, 1),
    "txpool_status": Method(_pool_status),
    "rota_reorg": Method(_rota_reorg, 2),
    "rota_setIntervalMining": Method(_rota_set_interval, 1),
}
