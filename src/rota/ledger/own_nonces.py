"""Finds the nonces of our own accounts that the blocks of a range used, and for which calls.

A nonce that we used matters until its block is as deep as the index remembers. Our transaction is recognized by its
call and not by its hash: whichever version of it is mined, at whatever price, it is the same call. A block that uses
the nonce for another call took it from us. A stranger may have done so before we sent anything with it: then the
account is past the nonce where the range begins, although no block that we have read has it. The last block of the
range reports it as taken, so that it is undone and found again with that block.

The number of transactions that an account had sent at the end of a block shows whether a range used any of our nonces,
and binary search shows where. That needs a node that still has those states, and answers that are all of one chain.
Otherwise every block of the range is read instead, which is slow but correct. An account is queried while one of its
nonces has been seen in no block before the range: a node may have thousands of accounts, and the index waits.
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
from rota.model.types import SHARED_ACCOUNT, ContractAddress

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
    """The blocks above `below` up to `top`, and an account's nonces before and after them."""

    address: ContractAddress
    below: int
    nonce_before: int
    top: int
    nonce_after: int


@dataclass(slots=True)
class _Sent:
    """What we sent with a nonce: the account's name, the hash of the call, and the block it was last seen in."""

    account: ContractAddress
    call_hash: bytes
    height: int | None = None


@dataclass(frozen=True, slots=True)
class _Search:
    """The blocks where nonces of ours were used, and nonces used before the range in no block that we know."""

    heights: list[int]
    taken_before: tuple[MinedTransaction, ...] = ()


class OwnNonces:
    """The nonces that our accounts have used through us, by the address of each account."""

    def __init__(self, client: RpcClient, depth_max: int, patience: Patience) -> None:
        self._client: Final = client
        self._patience: Final = patience
        self._depth_max: Final = depth_max
        self._sent: Final[dict[ContractAddress, dict[int, _Sent]]] = {}

    def note(
        self,
        address: ContractAddress,
        nonce: int,
        to: ContractAddress,
        call_data: bytes,
        account: ContractAddress = SHARED_ACCOUNT,
    ) -> None:
        """Record that we send this call with a nonce of the account of this address and name, perhaps again."""
        self._sent.setdefault(address, {}).setdefault(nonce, _Sent(account, _call_hash(to, call_data)))

    def __len__(self) -> int:
        return sum(map(len, self._sent.values()))

    async def mined_in(self, first: int, last: Header) -> tuple[MinedHere, ...]:
        """Return the blocks from `first` to `last` that used nonces of ours, earliest first."""
        if not self._sent:
            return ()
        search = await self._search(first, last) or _Search(list(range(first, last.height + 1)))
        heights = search.heights
        found: list[MinedHere] = []
        for at in range(0, len(heights), SCANNED_TOGETHER_MAX):
            chunk = heights[at : at + SCANNED_TOGETHER_MAX]
            looks = [partial(self._look_into, height) for height in chunk]
            blocks = await asyncio.gather(*map(self._patience.consistent, looks))
            found += [block for block in blocks if block is not None]
        if search.taken_before:
            in_last = found.pop().mined if found and found[-1].header == last else ()
            found.append(MinedHere(last, (*search.taken_before, *in_last)))
        return tuple(found)

    def forget_old(self, height: int) -> None:
        """Forget nonces in blocks so far below this height that they cannot be taken back."""
        below = height - self._depth_max
        for address, own in tuple(self._sent.items()):
            kept = {n: sent for n, sent in own.items() if sent.height is None or sent.height >= below}
            if kept:
                self._sent[address] = kept
            else:
                del self._sent[address]

    # The blocks.

    async def _search(self, first: int, last: Header) -> _Search | None:
        """Return the blocks in which an account's nonce passed one of ours; None when that cannot be determined."""
        addresses = self._under_way(first)
        places = [(address, height) for address in addresses for height in (first - 1, last.height)]
        ends = await self._nonces_after(places, last)
        if ends is None:
            return None
        tracked = {address: sorted(self._sent[address]) for address in addresses}
        open_ = _with_ours(
            tracked,
            [
                _Segment(address, first - 1, before, last.height, after)
                for address, before, after in zip(addresses, ends[::2], ends[1::2], strict=True)
            ],
        )
        taken: list[MinedTransaction] = []
        for address, before in zip(addresses, ends[::2], strict=True):
            for nonce, sent in sorted(self._sent[address].items()):
                if nonce < before and sent.height is None:
                    sent.height = last.height
                    taken.append(MinedTransaction(nonce, MinedStatus.TAKEN, account=sent.account))
        heights: dict[int, None] = {}
        while open_:
            heights.update({segment.top: None for segment in open_ if segment.top - segment.below == 1})
            halved = [segment for segment in open_ if segment.top - segment.below > 1]
            if len(halved) > HALVED_TOGETHER_MAX * len(addresses):
                return None
            middles = [(segment.below + segment.top) // 2 for segment in halved]
            asked = [(segment.address, middle) for segment, middle in zip(halved, middles, strict=True)]
            nonces = await self._nonces_after(asked, last)
            if nonces is None:
                return None
            halves = [
                half
                for segment, middle, nonce in zip(halved, middles, nonces, strict=True)
                for half in (
                    _Segment(segment.address, segment.below, segment.nonce_before, middle, nonce),
                    _Segment(segment.address, middle, nonce, segment.top, segment.nonce_after),
                )
            ]
            open_ = _with_ours(tracked, halves)
        return _Search(sorted(heights), tuple(taken))

    def _under_way(self, first: int) -> tuple[ContractAddress, ...]:
        """Return the accounts with a nonce that no block up to this one has used.

        The index has this block and reads those after it, perhaps again: they may have changed.
        """
        for sent in (each for own in self._sent.values() for each in own.values()):
            if sent.height is not None and sent.height > first:
                sent.height = None
        return tuple(
            address for address, own in self._sent.items() if any(sent.height is None for sent in own.values())
        )

    async def _nonces_after(self, places: list[tuple[ContractAddress, int]], last: Header) -> list[int] | None:
        """Return each account's next nonce after each block, some at a time; None without one consistent answer."""
        found: list[int] = []
        for at in range(0, len(places), HALVED_TOGETHER_MAX):
            some = places[at : at + HALVED_TOGETHER_MAX]
            nonces = await self._patience.consistent(partial(self._some_nonces_after, some, last))
            if nonces is None:
                return None
            found += nonces
        return found

    async def _some_nonces_after(self, places: list[tuple[ContractAddress, int]], last: Header) -> list[int] | None:
        """Do the same in one exchange with a node that has the chain of `last`."""
        anchor = Call("eth_getBlockByNumber", (quantity(last.height), False))
        asked = [
            Call("eth_getTransactionCount", (address, quantity(height))) for address, height in places if height >= 0
        ]
        together = await self._client.call_together(anchor, *asked, anchor)
        before, *counts, after = together.answers
        for look in (before, after):
            if isinstance(look, RpcFailure) or read_header(look) != last:
                raise Inconsistent(f"the chain changed at block {last.height}")
        if not together.is_one_exchange or any(isinstance(count, RpcFailure) for count in counts):
            return None
        found = iter(counts)
        return [read_quantity(next(found)) if height >= 0 else 0 for _, height in places]

    # The calls.

    async def _look_into(self, height: int) -> MinedHere | None:
        block = read_full_block(await self._client.call("eth_getBlockByNumber", quantity(height), True))
        if block is None:
            raise Inconsistent(f"the node does not have block {height}")
        ours = [call for call in block.calls if call.nonce in self._sent.get(call.sender, ())]
        if not ours:
            return None
        mined = await asyncio.gather(*(self._what_became_of(block, call) for call in ours))
        return MinedHere(block.header, tuple(sorted(mined, key=lambda each: (each.account, each.nonce))))

    async def _what_became_of(self, block: FullBlock, call: MinedCall) -> MinedTransaction:
        sent = self._sent[call.sender][call.nonce]
        sent.height = block.header.height
        if call.to is None or _call_hash(call.to, call.input) != sent.call_hash:
            return MinedTransaction(call.nonce, MinedStatus.TAKEN, account=sent.account)
        receipt = read_receipt(await self._client.call("eth_getTransactionReceipt", data(call.hash)))
        if receipt is None:
            raise Inconsistent(f"the receipt of 0x{call.hash.hex()} is missing")
        if receipt.block_hash != block.header.hash:
            raise Inconsistent(f"the receipt of 0x{call.hash.hex()} is of another block than {block.header.height}")
        gas_used = receipt.gas_used
        if receipt.has_succeeded:
            return MinedTransaction(call.nonce, MinedStatus.SUCCEEDED, gas_used=gas_used, account=sent.account)
        if gas_used == call.gas_limit:
            reason = f"all of its {call.gas_limit} gas was used up"
        else:
            reason = await self._reason(block.header.height, call)
        return MinedTransaction(call.nonce, MinedStatus.FAILED, reason, gas_used, sent.account)

    async def _reason(self, height: int, call: MinedCall) -> str:
        """Return why it failed, by repeating the call on its block's state, as the receipt does not have the reason."""
        wanted = {"from": call.sender, "to": call.to, "data": data(call.input), "gas": quantity(call.gas_limit)}
        try:
            await self._client.call("eth_call", wanted, quantity(height))
        except RpcRefused as refused:
            output = revert_data(refused.failure.data)
            return revert_text(output) if output is not None else refused.failure.message
        return "it failed as a whole, and made again it does not"


def _with_ours(tracked: dict[ContractAddress, list[int]], segments: list[_Segment]) -> list[_Segment]:
    """Return the segments in which a nonce of ours was used."""
    found = []
    for segment in segments:
        if segment.nonce_after < segment.nonce_before:
            raise Inconsistent(f"the nonce falls between blocks {segment.below} and {segment.top}")
        ours = tracked[segment.address]
        place = bisect_left(ours, segment.nonce_before)
        if place < len(ours) and ours[place] < segment.nonce_after:
            found.append(segment)
    return found


def revert_data(told: object, depth: int = 0) -> bytes | None:
    """Return the bytes of a revert, which nodes return alone, after a prefix, or inside an object; or None."""
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
