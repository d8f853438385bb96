"""Every choice and limit of an embedded chain, with its default and its unit."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from rota.ledger.embedded.accounts import DEVELOPMENT_ACCOUNTS

CHAIN_ID_DEFAULT: Final = 31_337
WEI_PER_ETHER: Final = 10**18
WEI_PER_GWEI: Final = 10**9


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of an embedded chain."""

    chain_id: int = CHAIN_ID_DEFAULT
    account_count: int = len(DEVELOPMENT_ACCOUNTS)
    account_balance_wei: int = 10_000 * WEI_PER_ETHER

    instant: bool = True  # a block as soon as transactions arrive
    block_time_ms: int | None = None  # a block at this interval, empty or not
    clock_s: Callable[[], int] = lambda: int(time.time())

    gas_limit: int = 60_000_000  # of a block
    base_fee_wei: int = WEI_PER_GWEI  # of the first block
    base_fee_is_fixed: bool = False
    priority_fee_wei: int = WEI_PER_GWEI  # what eth_maxPriorityFeePerGas suggests

    # Reorganisations, snapshots and calls at old blocks reach this many blocks back.
    history_max: int = 1_024
    # Older blocks are dropped, with their transactions, receipts and logs, when there are more than these.
    blocks_max: int = 200_000
    transactions_max: int = 500_000
    snapshots_max: int = 64

    pool_max: int = 50_000
    pool_per_sender_max: int = 20_000

    logs_range_max: int | None = None  # blocks that one eth_getLogs may ask for
    logs_max: int = 20_000  # logs that one eth_getLogs may answer with

    def __post_init__(self) -> None:
        """Raise `ValueError` for settings that cannot work, with valid ones."""
        positive = {
            "chain_id": self.chain_id,
            "gas_limit": self.gas_limit,
            "history_max": self.history_max,
            "blocks_max": self.blocks_max,
            "transactions_max": self.transactions_max,
            "snapshots_max": self.snapshots_max,
            "pool_max": self.pool_max,
            "pool_per_sender_max": self.pool_per_sender_max,
            "logs_max": self.logs_max,
        }
        for name, number in positive.items():
            if number < 1:
                raise ValueError(f"{name} is at least 1, not {number}")
        if not 0 <= self.account_count <= len(DEVELOPMENT_ACCOUNTS):
            raise ValueError(f"account_count is 0 to {len(DEVELOPMENT_ACCOUNTS)}, not {self.account_count}")
        if self.block_time_ms is not None and self.block_time_ms < 1:
            raise ValueError(f"block_time_ms is at least 1, or none for no timer, not {self.block_time_ms}")
        if self.blocks_max <= self.history_max:
            raise ValueError(f"blocks_max is above history_max, {self.history_max}, not {self.blocks_max}")
        if min(self.base_fee_wei, self.priority_fee_wei, self.account_balance_wei) < 0:
            raise ValueError("base_fee_wei, priority_fee_wei and account_balance_wei are not negative")
