"""The transactions of some contracts by a chain's own logs: intents committed, how often, and in which rounds.

Reading continues where it stopped, so that it may be called every second. After the chain has removed blocks, the
book is out of date: create a new one.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final

from rota.ledger.bindings import outcomes_of
from rota.ledger.client import RpcClient
from rota.ledger.hexadecimal import data, quantity, read_quantity
from rota.ledger.reading import read_logs, read_receipt
from rota.model.blocks import LedgerStatus
from rota.model.types import ContractAddress, IntentId

BLOCKS_TOGETHER_MAX: Final = 1_000
RECEIPTS_TOGETHER_MAX: Final = 100
ATTEMPTS_MAX: Final = 5


@dataclass(slots=True)
class ChainBook:
    """`next_height` is the first block that is not read yet. `committed` counts how often each intent took effect.

    `transactions` is how many intents each base-ledger transaction committed, by its hash and its contract; one that
    came too late has committed none, and has cost gas all the same.
    """

    ledger: RpcClient
    chain_id: int
    contracts: tuple[ContractAddress, ...]
    next_height: int = 0
    committed: Counter[IntentId] = field(default_factory=Counter)
    transactions: Counter[tuple[bytes, ContractAddress]] = field(default_factory=Counter)
    gas: dict[bytes, int] = field(default_factory=dict)

    @property
    def height(self) -> int:
        """The last block that was read."""
        return self.next_height - 1

    @property
    def rounds(self) -> int:
        """The number of base-ledger transactions that carried rounds."""
        return len({found for found, _ in self.transactions})

    def gas_per_transaction(self, contracts: Collection[ContractAddress]) -> float | None:
        """The gas of all rounds of these contracts per committed intent; None before the first one."""
        counted = {key: count for key, count in self.transactions.items() if key[0] in self.gas and key[1] in contracts}
        committed = sum(counted.values())
        return sum(self.gas[found] for found, _ in counted) / committed if committed else None

    async def read_on(self, to_height: int | None = None) -> None:
        """Read all new blocks, up to this height if one is given."""
        head = read_quantity(await self.ledger.call("eth_blockNumber", attempts_max=ATTEMPTS_MAX))
        end = head if to_height is None else min(head, to_height)
        while self.next_height <= end:
            last = min(self.next_height + BLOCKS_TOGETHER_MAX - 1, end)
            await self._read(self.next_height, last)
            self.next_height = last + 1

    async def read_gas(self) -> None:
        """Read the gas of the rounds in the book; a receipt that does not exist yet is read the next time."""
        unknown = list(dict.fromkeys(found for found, _ in self.transactions if found not in self.gas))
        for at in range(0, len(unknown), RECEIPTS_TOGETHER_MAX):
            await asyncio.gather(*map(self._read_gas_of, unknown[at : at + RECEIPTS_TOGETHER_MAX]))

    async def _read_gas_of(self, transaction: bytes) -> None:
        told = await self.ledger.call("eth_getTransactionReceipt", data(transaction), attempts_max=ATTEMPTS_MAX)
        receipt = read_receipt(told)
        if receipt is not None:
            self.gas[transaction] = receipt.gas_used

    async def _read(self, first: int, last: int) -> None:
        wanted = {"address": list(self.contracts), "fromBlock": quantity(first), "toBlock": quantity(last)}
        logs = read_logs(await self.ledger.call("eth_getLogs", wanted, attempts_max=ATTEMPTS_MAX))
        in_order = sorted(logs, key=lambda log: (log.height, log.number))
        for _, block in groupby(in_order, key=lambda log: log.height):
            for contract, outcome in outcomes_of(block, self.chain_id).outcomes:
                is_committed = outcome.status is LedgerStatus.COMMITTED
                self.transactions[outcome.transaction, contract] += is_committed
                if is_committed:
                    self.committed[outcome.intent] += 1
