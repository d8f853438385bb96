"""Which of our own nonces the blocks of a range used, and for what.

A nonce that we used is of interest until the block that has it is as deep as the index remembers. What we sent with
it is known by its call and not by its hash: whichever version of it is mined, at whatever price, it is the same call.
A block that uses the nonce for another call took it from us.

How many transactions an account had sent when a block ended tells whether a range used any of our nonces, and by
halving where. That needs a node that still has those states, and answers that are all of one chain. Where either is
lacking, every block of the range is looked through instead: that is slow, and right.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from dataclasses import dataclass
from functools import partial
from typing import Final

from rota.ledger.bindings import revert_text
from rota.ledger.client import Call, RpcClient, RpcRefused
from rota.ledger.consistency import Inconsistent, Patience
from rota.ledger.hexadecimal import data, quantity, read_data, read_quantity
from rota.ledger.reading import FullBlock, Header, MinedCall, read_full_block, read_header, read_receipt
from rota.ledger.transports import RpcFailure
from rota.model.blocks import MinedStatus, MinedTransaction
from rota.model.digests import keccak
from rota.model.types import ContractAddress

SCANNED_TOGETHER_MAX: Final = 16
HALVED_TOGETHER_MAX: Final = 32
REVERT_DEPTH_MAX: Final = 4


@dataclass(frozen=True, slots=True)
class MinedHere:
    """A block that used nonces of ours."""

    header: Header
    mined: tuple[MinedTransaction, ...]


@dataclass(frozen=True, slots=True)
class _Segment:
    """The blocks above `below` up to `top`, and the account's nonces before and after them."""

    below: int
    nonce_before: int
    top: int
    nonce_after: int


@dataclass(slots=True)
class _Sent:
    """What we sent with a nonce: the hash of the call, and where it was last seen in a block."""

    call_hash: bytes
    height: int | None = None


class OwnNonces:
    """The nonces that one account has used through us."""

    def __init__(self, client: RpcClient, account: ContractAddress, depth_max: int, patience: Patience) -> None:
        self._client: Final = client
        self._patience: Final = patience
        self._account: Final = account
        self._depth_max: Final = depth_max
        self._sent: Final[dict[int, _Sent]] = {}

    def note(self, nonce: int, to: ContractAddress, call_data: bytes) -> None:
        """We send this with this nonce, perhaps again."""
        self._sent.setdefault(nonce, _Sent(_call_hash(to, call_data)))

    def __len__(self) -> int:
        return len(self._sent)

    async def mined_in(self, first: int, last: Header) -> tuple[MinedHere, ...]:
        """The blocks from `first` to `last` that used nonces of ours, earliest first."""
        if not self._sent:
            return ()
        heights = await self._heights_by_halving(first, last)
        if heights is None:
            heights = list(range(first, last.height + 1))
        found: list[MinedHere] = []
        for at in range(0, len(heights), SCANNED_TOGETHER_MAX):
            chunk = heights[at : at + SCANNED_TOGETHER_MAX]
            looks = [partial(self._look_into, height) for height in chunk]
            blocks = await asyncio.gather(*map(self._patience.consistent, looks))
            found += [block for block in blocks if block is not None]
        return tuple(found)

    def forget_old(self, height: int) -> None:
        """Blocks so far below this height are not taken back any more."""
        below = height - self._depth_max
        old = [nonce for nonce, sent in self._sent.items() if sent.height is not None and sent.height < below]
        for nonce in old:
            del self._sent[nonce]

    # Where.

    async def _heights_by_halving(self, first: int, last: Header) -> list[int] | None:
        """The blocks in which the account's nonce went past one of ours; nothing when this cannot be told."""
        ends = await self._patience.consistent(lambda: self._nonces_after([first - 1, last.height], last))
        if ends is None:
            return None
        tracked = sorted(self._sent)
        open_ = _with_ours(tracked, [_Segment(first - 1, ends[0], last.height, ends[1])])
        heights: list[int] = []
        while open_:
            heights += [segment.top for segment in open_ if segment.top - segment.below == 1]
            halved = [segment for segment in open_ if segment.top - segment.below > 1]
            if len(halved) > HALVED_TOGETHER_MAX:
                return None
            middles = [(segment.below + segment.top) // 2 for segment in halved]
            nonces = await self._patience.consistent(partial(self._nonces_after, middles, last))
            if nonces is None:
                return None
            halves = [
                half
                for segment, middle, nonce in zip(halved, middles, nonces, strict=True)
                for half in (
                    _Segment(segment.below, segment.nonce_before, middle, nonce),
                    _Segment(middle, nonce, segment.top, segment.nonce_after),
                )
            ]
            open_ = _with_ours(tracked, halves)
        return sorted(heights)

    async def _nonces_after(self, heights: list[int], last: Header) -> list[int] | None:
        """The account's next nonce after each block, by one node that has the chain of `last`."""
        if not heights:
            return []
        anchor = Call("eth_getBlockByNumber", (quantity(last.height), False))
        asked = [
            Call("eth_getTransactionCount", (self._account, quantity(height))) for height in heights if height >= 0
        ]
        together = await self._client.call_together(anchor, *asked, anchor)
        before, *counts, after = together.answers
        for look in (before, after):
            if isinstance(look, RpcFailure) or read_header(look) != last:
                raise Inconsistent(f"the chain changed at block {last.height}")
        if not together.is_one_exchange or any(isinstance(count, RpcFailure) for count in counts):
            return None
        found = iter(counts)
        return [read_quantity(next(found)) if height >= 0 else 0 for height in heights]

    # What.

    async def _look_into(self, height: int) -> MinedHere | None:
        block = read_full_block(await self._client.call("eth_getBlockByNumber", quantity(height), True))
        if block is None:
            raise Inconsistent(f"the node does not have block {height}")
        ours = [call for call in block.calls if call.sender == self._account and call.nonce in self._sent]
        if not ours:
            return None
        mined = await asyncio.gather(*(self._what_became_of(block, call) for call in ours))
        return MinedHere(block.header, tuple(sorted(mined, key=lambda each: each.nonce)))

    async def _what_became_of(self, block: FullBlock, call: MinedCall) -> MinedTransaction:
        sent = self._sent[call.nonce]
        sent.height = block.header.height
        if call.to is None or _call_hash(call.to, call.input) != sent.call_hash:
            return MinedTransaction(call.nonce, MinedStatus.TAKEN)
        receipt = read_receipt(await self._client.call("eth_getTransactionReceipt", data(call.hash)))
        if receipt is None:
            raise Inconsistent(f"the receipt of 0x{call.hash.hex()} is missing")
        if receipt.block_hash != block.header.hash:
            raise Inconsistent(f"the receipt of 0x{call.hash.hex()} is of another block than {block.header.height}")
        gas_used = receipt.gas_used
        if receipt.has_succeeded:
            return MinedTransaction(call.nonce, MinedStatus.SUCCEEDED, gas_used=gas_used)
        if gas_used == call.gas_limit:
            reason = f"all of its {call.gas_limit} gas was used up"
        else:
            reason = await self._reason(block.header.height, call)
        return MinedTransaction(call.nonce, MinedStatus.FAILED, reason, gas_used)

    async def _reason(self, height: int, call: MinedCall) -> str:
        """Why it failed, by making the call again on what its block left; the receipt does not tell."""
        wanted = {"from": call.sender, "to": call.to, "data": data(call.input), "gas": quantity(call.gas_limit)}
        try:
            await self._client.call("eth_call", wanted, quantity(height))
        except RpcRefused as refused:
            output = revert_data(refused.failure.data)
            return revert_text(output) if output is not None else refused.failure.message
        return "it failed as a whole, and made again it does not"


def _with_ours(tracked: list[int], segments: list[_Segment]) -> list[_Segment]:
    """Those in which a nonce of ours was used."""
    found = []
    for segment in segments:
        if segment.nonce_after < segment.nonce_before:
            raise Inconsistent(f"the nonce falls between blocks {segment.below} and {segment.top}")
        place = bisect_left(tracked, segment.nonce_before)
        if place < len(tracked) and tracked[place] < segment.nonce_after:
            found.append(segment)
    return found


def revert_data(told: object, depth: int = 0) -> bytes | None:
    """The bytes of a revert, which nodes tell bare, behind a word, or inside an object."""
    if isinstance(told, dict) and depth < REVERT_DEPTH_MAX:
        return revert_data(told.get("data", told.get("result")), depth + 1)
    if isinstance(told, str) and "0x" in told:
        try:
            return read_data(told[told.index("0x") :])
        except ValueError:
            return None
    return None


def _call_hash(to: ContractAddress, call_data: bytes) -> bytes:
    return keccak(to.encode() + call_data)
