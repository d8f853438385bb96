"""Reads single blocks, transactions and events from the chain for users.

The index has only what the node's own contracts did; everything else is read from the chain. Every request is bounded,
and raises `Unavailable` if the node cannot or will not answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from rota.ledger.client import Call, RpcClient, RpcRefused
from rota.ledger.hexadecimal import data, quantity, read_quantity
from rota.ledger.reading import (
    CallReceipt,
    FullBlock,
    Header,
    Log,
    read_full_block,
    read_header,
    read_logs,
    read_receipt,
)
from rota.ledger.transports import RpcFailure
from rota.model.types import ContractAddress
from rota.ports import Unavailable

ATTEMPTS_MAX: Final = 3
TOGETHER_MAX: Final = 100


@dataclass(frozen=True, slots=True)
class FoundTransaction:
    """A transaction with its block, its position there, and its receipt."""

    block: FullBlock
    place: int
    receipt: CallReceipt


class LookingUp:
    """Reads from one chain."""

    def __init__(self, client: RpcClient) -> None:
        self._client: Final = client

    async def header(self, number: int) -> Header | None:
        """Return a block's header by its number, or None."""
        return read_header(await self._asked("eth_getBlockByNumber", quantity(number), False))

    async def headers(self, numbers: Sequence[int]) -> tuple[Header, ...]:
        """Return the headers of those of these blocks that exist."""
        calls = [Call("eth_getBlockByNumber", (quantity(number), False)) for number in numbers]
        return tuple(each for told in await self._together(calls) if (each := read_header(told)) is not None)

    async def block(self, number: int) -> FullBlock | None:
        """Return a block with its transactions, or None."""
        return read_full_block(await self._asked("eth_getBlockByNumber", quantity(number), True))

    async def receipts(self, block: FullBlock) -> tuple[CallReceipt, ...]:
        """Return the receipt of each transaction of a block. `Unavailable` when the block is no longer on the chain."""
        calls = [Call("eth_getTransactionReceipt", (data(call.hash),)) for call in block.calls]
        receipts = [read_receipt(told) for told in await self._together(calls)]
        found = tuple(each for each in receipts if each is not None and each.block_hash == block.header.hash)
        if len(found) != len(block.calls):
            raise Unavailable(f"block {block.header.height} is not on the chain any more")
        return found

    async def transaction(self, transaction_hash: bytes) -> FoundTransaction | None:
        """Return a mined transaction, or None. `Unavailable` while the chain takes it back."""
        told: Any = await self._asked("eth_getTransactionReceipt", data(transaction_hash))
        receipt = read_receipt(told)
        if receipt is None:
            return None
        block = await self.block(read_quantity(told.get("blockNumber")))
        places = [] if block is None else [n for n, call in enumerate(block.calls) if call.hash == transaction_hash]
        if block is None or block.header.hash != receipt.block_hash or not places:
            raise Unavailable(f"transaction {data(transaction_hash)} is being taken back by the chain")
        return FoundTransaction(block, places[0], receipt)

    async def transaction_with_nonce(self, sender: ContractAddress, nonce: int, last: int) -> FoundTransaction | None:
        """Return the transaction of this account and nonce in a block up to `last`, or None.

        The block in which the nonce was used is found by binary search.
        """
        if await self._count(sender, last) <= nonce:
            return None
        low, high = 0, last
        while low < high:
            middle = (low + high) // 2
            if await self._count(sender, middle) > nonce:
                high = middle
            else:
                low = middle + 1
        block = await self.block(low)
        for place, call in enumerate(block.calls if block is not None else ()):
            if (call.sender, call.nonce) == (sender, nonce):
                receipt = read_receipt(await self._asked("eth_getTransactionReceipt", data(call.hash)))
                if block is not None and receipt is not None:
                    return FoundTransaction(block, place, receipt)
        return None

    async def logs(self, first: int, last: int) -> tuple[Log, ...]:
        """Return all events of these blocks, both ends included."""
        wanted = {"fromBlock": quantity(first), "toBlock": quantity(last)}
        return read_logs(await self._asked("eth_getLogs", wanted))

    async def _count(self, sender: ContractAddress, height: int) -> int:
        return read_quantity(await self._asked("eth_getTransactionCount", sender, quantity(height)))

    async def _asked(self, method: str, *parameters: object) -> object:
        try:
            return await self._client.call(method, *parameters, attempts_max=ATTEMPTS_MAX)
        except (RpcRefused, ValueError) as error:
            raise Unavailable(f"the chain does not answer {method}: {error}") from error

    async def _together(self, calls: Sequence[Call]) -> list[object]:
        answers: list[object] = []
        for start in range(0, len(calls), TOGETHER_MAX):
            told = await self._client.call_together(*calls[start : start + TOGETHER_MAX], attempts_max=ATTEMPTS_MAX)
            answers += told.answers
            await asyncio.sleep(0)
        for answer in answers:
            if isinstance(answer, RpcFailure):
                raise Unavailable(f"the chain does not answer: {answer}")
        return answers
