"""Follows a chain for the core's index: reports its latest block, and fetches the blocks that the core orders.

Theory of operation. The latest block is requested every `poll_ms` and reported, changed or not, because the core takes
silence for a lost ledger; over a WebSocket the node's own notifications are used too. The chain id is requested with
it: a node of another chain counts as none.

A range of blocks is fetched with `eth_getLogs`, and with the headers of its ends and of the blocks that have logs or
nonces of ours. All of that must be of one chain, though it may come from several nodes behind one address, of which one
lags and another is on a fork. So every request is in one exchange between two reads of the range's last block, which
must be equal; and a log must have the hash of the header at its height. Of a short range all headers are fetched, since
the bloom of each shows whether it may have logs that the node left out. Of a long range they are only fetched when the
node takes no batches, as then nothing else ties an answer to a chain. Inconsistent data is not reported, and the core
repeats its order.

A node that refuses a range as too large gets half of it, down to single blocks. The accepted size is remembered. Any
account can fill a block with logs that have the topics of rounds, and with many contracts a filter names none of them.
So a single block that is refused is requested for some contracts at a time, by name.

The commitments of proved transitions are stored before their blocks are reported: once the index has an outcome, its
commitments are stored too.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from rota.calldata import ROUND_TOPIC, SKIPPED_TOPIC
from rota.chain.events import BlocksFetched, HeadSeen
from rota.ledger.bindings import BlockOutcomes, FailedCall, deployment_topics, outcomes_of, read_deployment
from rota.ledger.client import Call, RpcClient, RpcRefused, TimedOut
from rota.ledger.consistency import Inconsistent, Patience
from rota.ledger.failed_calls import REASONS_A_RANGE_MAX, Asked, Reason, reasons_of
from rota.ledger.finality import hash_of, require_same_chain
from rota.ledger.hexadecimal import data, quantity, read_quantity
from rota.ledger.own_nonces import MinedHere, OwnNonces
from rota.ledger.reading import Header, Log, is_in_bloom, read_header, read_logs
from rota.ledger.transports import RpcFailure
from rota.model.blocks import ChainBlock, LedgerOutcome
from rota.model.types import BlockHash, CallFailure, ContractAddress, IntentId, Leaf, address_bytes
from rota.ports import Contracts, LeafCommitments, Tell, Unavailable

KeepCommitments = Callable[[Sequence[LeafCommitments]], Awaitable[None]]

LOGS_ATTEMPTS_MAX: Final = 2
TOPIC_BYTES: Final = 32
RANGES_TO_GROW: Final = 16
# Between two reads of block 0, which show whether the chain was replaced.
GENESIS_LOOK_S: Final = 10.0

_DEPLOYED: Final = deployment_topics()
_TOO_LARGE_CODE: Final = -32_005
_TOO_LARGE_TEXTS: Final = (
    "query returned more than",
    "more than 10000 results",
    "exceeds max results",
    "exceed maximum block range",
    "exceeds the range",
    "block range too large",
    "block range is too",
    "block range limit",
    "max block range",
    "maximum block range",
    "range is too large",
    "range too large",
    "range over limit",
    "ranges over",
    "limited to a",
    "logs are limited to",
    "up to a",
    "response size",
    "response too large",
    "response is too big",
    "too many blocks",
    "too many results",
    "query timeout",
    "query exceeds",
)
_LAGGING_TEXTS: Final = ("beyond current head", "extends beyond", "unknown block", "header not found")


async def keep_nothing(_commitments: Sequence[LeafCommitments]) -> None:
    """For a node that proves nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowerLimits:
    """How often the chain is polled, and how much is requested at once."""

    poll_ms: int = 500
    addresses_max: int = 100  # in one filter; with more contracts, logs are selected here
    linked_blocks_max: int = 16  # a range up to this is fetched with all its headers
    headers_together_max: int = 64

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: must be at least 1, not {getattr(self, name)}")


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The logs of interest of some contracts; `seconds` are the second topics, if not all are.

    Each block with something of interest has a log with one of the first topics `signs`. Of the contracts that are
    `awaited` only an id is known, which any account may have used.
    """

    addresses: tuple[ContractAddress, ...]
    topics: tuple[bytes, ...]
    signs: tuple[bytes, ...]
    seconds: tuple[bytes, ...] = ()
    awaited: tuple[ContractAddress, ...] = ()

    def parts(self, most: int) -> tuple[_Wanted, ...]:
        """Split into filters of fewer contracts, few enough to be named; several contracts give several parts."""
        count = len(self.addresses)
        size = most if count > most else max(1, count // 2)
        return tuple(replace(self, addresses=self.addresses[at : at + size]) for at in range(0, count, size))

    def filter(self, most: int) -> dict[str, object]:
        """Return the filter for a node; with too many contracts to name, `of` selects the logs instead."""
        topics = [[data(topic) for topic in self.topics]]
        if 0 < len(self.seconds) <= most:
            topics.append([data(topic) for topic in self.seconds])
        wanted: dict[str, object] = {"topics": topics}
        if len(self.addresses) <= most:
            wanted["address"] = list(self.addresses)
        return wanted

    def of(self, logs: Iterable[Log]) -> tuple[Log, ...]:
        """Return the logs that are wanted."""
        addresses, seconds = frozenset(self.addresses), frozenset(self.seconds)
        return tuple(
            log for log in logs if log.address in addresses and (not seconds or seconds.issuperset(log.topics[1:2]))
        )

    def may_be_in(self, header: Header) -> bool:
        """Return whether its bloom allows a wanted log."""
        return (
            any(is_in_bloom(header.bloom, sign) for sign in self.signs)
            and any(is_in_bloom(header.bloom, address_bytes(address)) for address in self.addresses)
            and (not self.seconds or any(is_in_bloom(header.bloom, second) for second in self.seconds))
        )


@dataclass(frozen=True, slots=True)
class _Logs:
    """The logs of a range, and whether each answer was tied to the chain of the range's last block."""

    logs: tuple[Log, ...]
    is_tied: bool


class Follower:
    """Follows one chain for one node."""

    def __init__(
        self,
        client: RpcClient,
        chain_id: int,
        contracts: Contracts,
        own: OwnNonces,
        tell: Tell,
        limits: FollowerLimits | None = None,
        patience: Patience | None = None,
        factory: ContractAddress | None = None,
        keep_commitments: KeepCommitments = keep_nothing,
    ) -> None:
        self.trouble = ""
        # The hash of block 0 in this node's database; a chain with another one is not followed.
        self.genesis: BlockHash | None = None
        self._genesis_due_s = 0.0
        self._height = 0
        # The latest header that was read, with the answer that it was read from.
        self._header_read: tuple[object, Header] | None = None
        self._keep_commitments: Final = keep_commitments
        self._factory: Final = factory
        self._patience: Final = patience or Patience()
        self._client: Final = client
        self._chain_id: Final = chain_id
        self._contracts: Final = contracts
        self._own: Final = own
        self._tell: Final = tell
        self._limits: Final = limits or FollowerLimits()
        self._is_right_chain = False
        self._range_max: int | None = None
        self._good_ranges = 0

    # The latest block.

    async def run(self) -> None:
        """Report the latest block until cancelled."""
        self._client.watch_heads(self._take_notification)
        while True:
            await self.poll()
            await self.pause()

    async def pause(self) -> None:
        """Wait for the interval between two polls."""
        await asyncio.sleep(self._limits.poll_ms / 1_000)

    async def poll(self) -> None:
        """Request the latest block, however long the node takes, and report it."""
        together = await self._client.call_together(
            Call("eth_chainId"), Call("eth_getBlockByNumber", ("latest", False))
        )
        chain_id, block = together.answers
        was_right_chain, self._is_right_chain = self._is_right_chain, False
        try:
            header = self._head_of(chain_id, block)
            if not was_right_chain or header.height < self._height or time.monotonic() >= self._genesis_due_s:
                await self._require_same_chain()
        except ValueError as error:
            self.trouble = f"the Ethereum node at {self._client.place} tells of its latest block: {error}"
        except Unavailable as error:
            self.trouble = str(error)
        else:
            self._is_right_chain, self._height = True, header.height
            self.trouble = ""
            self._tell(HeadSeen(header.height, header.hash, header.base_fee_wei))

    async def _require_same_chain(self) -> None:
        """Raise `Unavailable` if block 0 is not that of the database: the chain was replaced."""
        together = await self._client.call_together(Call("eth_getBlockByNumber", ("0x0", False)))
        require_same_chain(self._client.place, self.genesis, hash_of(together.answers[0]))
        self._genesis_due_s = time.monotonic() + GENESIS_LOOK_S

    def _read_header(self, answer: object) -> Header | None:
        """Read a header; one that equals the latest answer is not parsed again, as it is fetched several times."""
        if self._header_read is not None and answer == self._header_read[0]:
            return self._header_read[1]
        header = read_header(answer)
        if header is not None:
            self._header_read = answer, header
        return header

    def _head_of(self, chain_id: object, block: object) -> Header:
        for answer in (chain_id, block):
            if isinstance(answer, RpcFailure):
                raise ValueError(str(answer))
        if read_quantity(chain_id) != self._chain_id:
            raise ValueError(f"its chain id is {read_quantity(chain_id)}, and ours is {self._chain_id}")
        header = self._read_header(block)
        if header is None:
            raise ValueError("it has none")
        return header

    def _take_notification(self, told: object) -> None:
        """Report a new header from a node whose chain is ours; one that lowers the height is left to polling."""
        if not self._is_right_chain:
            return
        try:
            header = self._read_header(told)
        except ValueError:
            return
        # A chain that became shorter may be another one: polling checks that.
        if header is not None and header.height >= self._height:
            self._tell(HeadSeen(header.height, header.hash, header.base_fee_wei))

    # Blocks.

    async def fetch(self, first: int, last: int, awaited: tuple[IntentId, ...] = ()) -> BlocksFetched | None:
        """Return the relevant blocks of a range; None when the chain cannot answer now.

        They include the factory's deployments under the `awaited` ids, and the rounds of those contracts.
        """
        try:
            blocks = await self._blocks(first, last, awaited)
        except (Inconsistent, Unavailable, RpcRefused, ValueError) as error:
            self.trouble = f"blocks {first} to {last}: {error}"
            return None
        self._own.forget_old(last)
        self.trouble = ""
        return BlocksFetched(blocks)

    async def _blocks(self, first: int, last: int, awaited: tuple[IntentId, ...]) -> tuple[ChainBlock, ...]:
        ends = await self._headers((first, last))
        deployments = self._deployments_wanted(awaited)
        deployed = await self._logs(first, last, ends[last], deployments)
        rounds = self._rounds_wanted(deployed.logs)
        found = await self._logs(first, last, ends[last], rounds)
        logs = (*deployed.logs, *found.logs)
        is_tied = deployed.is_tied and found.is_tied
        mined = {each.header.height: each for each in await self._own.mined_in(first, ends[last])}
        is_linked = not is_tied or last - first < self._limits.linked_blocks_max
        wanted = range(first, last + 1) if is_linked else sorted({log.height for log in logs} | mined.keys())
        headers = ends | await self._headers(tuple(height for height in wanted if height not in ends))
        if is_linked:
            _require_links(headers)
            if await self._untold(deployed.logs, headers.values(), deployments):
                raise Inconsistent("the node did not tell of a deployment")
            logs += await self._untold(found.logs, headers.values(), rounds)
        _require_one_chain(headers, logs, mined.values())
        if await self._headers((first, last)) != ends:
            raise Inconsistent("the chain changed meanwhile")
        blocks, failed, commitments = self._concerning_us(ends, headers, logs, mined)
        await self._keep_commitments(commitments)
        return await self._with_reasons(blocks, failed)

    async def rounds_of(self, contract: ContractAddress, first: int, last: int) -> tuple[ChainBlock, ...]:
        """Return the outcomes of final blocks for one contract, independently of the index; else `Unavailable`."""
        try:
            ends = await self._headers((first, last))
            wanted = _Wanted((contract,), (ROUND_TOPIC, SKIPPED_TOPIC), (ROUND_TOPIC,))
            logs = (await self._logs(first, last, ends[last], wanted)).logs
            headers = await self._headers(tuple(sorted({log.height for log in logs})))
            _require_one_chain(headers, logs, ())
            blocks, failed, commitments = self._concerning_us({}, headers, logs, {})
        except (Inconsistent, RpcRefused, ValueError) as error:
            raise Unavailable(f"the chain does not tell the rounds of {contract}: {error}") from error
        await self._keep_commitments(commitments)
        return await self._with_reasons(blocks, failed)

    def _deployments_wanted(self, awaited: tuple[IntentId, ...]) -> _Wanted:
        ids = tuple(each.ljust(TOPIC_BYTES, b"\0") for each in awaited)
        addresses = (self._factory,) if self._factory is not None and ids else ()
        return _Wanted(addresses, _DEPLOYED, _DEPLOYED, ids)

    def _rounds_wanted(self, deployed: tuple[Log, ...]) -> _Wanted:
        """Return the filter for our contracts, and those deployed in these blocks, which may have rounds at once."""
        known = dict.fromkeys(self._contracts.addresses())
        awaited = dict.fromkeys(each for log in deployed if (each := read_deployment(log).contract) not in known)
        topics = (ROUND_TOPIC, SKIPPED_TOPIC)
        return _Wanted((*known, *awaited), topics, (ROUND_TOPIC,), awaited=tuple(awaited))

    def _concerning_us(
        self, ends: dict[int, Header], headers: dict[int, Header], logs: tuple[Log, ...], mined: dict[int, MinedHere]
    ) -> tuple[tuple[ChainBlock, ...], tuple[Asked, ...], tuple[LeafCommitments, ...]]:
        by_height: dict[int, list[Log]] = {}
        for log in logs:
            by_height.setdefault(log.height, []).append(log)
        blocks: list[ChainBlock] = []
        failed: list[Asked] = []
        commitments: list[LeafCommitments] = []
        for height in sorted(ends.keys() | by_height.keys() | mined.keys()):
            header = headers[height]
            logs_here = by_height.get(height, [])
            told = outcomes_of(logs_here, self._chain_id)
            self._require_readable(told)
            own = mined[height].mined if height in mined else ()
            deployed = tuple(read_deployment(log) for log in logs_here if log.topics and log.topics[0] in _DEPLOYED)
            blocks.append(ChainBlock(height, header.hash, header.parent, header.time_s, told.outcomes, own, deployed))
            failed += [Asked(each, height, self._is_proved(each.contract)) for each in told.failed_calls]
            commitments += told.commitments
        return tuple(blocks), tuple(failed), tuple(commitments)

    def _require_readable(self, told: BlockOutcomes) -> None:
        """Raise `ValueError` for an unreadable log of a contract that this node has taken in.

        The factory also deploys foreign code, under any id: a contract that is only awaited may write any log, and is
        then not the awaited one.
        """
        if told.unreadable:
            known = frozenset(self._contracts.addresses())
            for contract, reason in told.unreadable:
                if contract in known:
                    raise ValueError(f"the contracts are not ours: {reason}")

    def _is_proved(self, contract: ContractAddress) -> bool:
        policy = self._contracts.policy_of(contract)
        return policy is not None and policy.threshold == 0

    async def _with_reasons(self, blocks: tuple[ChainBlock, ...], failed: tuple[Asked, ...]) -> tuple[ChainBlock, ...]:
        """Return the blocks with the reasons of failed calls, as far as the chain answers."""
        asked = failed[:REASONS_A_RANGE_MAX]
        reasons = await reasons_of(self._client, asked)
        found = {
            (each.height, each.failed.leaf): (each.failed, reason) for each, reason in zip(asked, reasons, strict=True)
        }
        return tuple(_told_why(block, found) for block in blocks) if found else blocks

    async def _headers(self, heights: tuple[int, ...]) -> dict[int, Header]:
        found: dict[int, Header] = {}
        heights = tuple(dict.fromkeys(heights))
        for at in range(0, len(heights), self._limits.headers_together_max):
            chunk = heights[at : at + self._limits.headers_together_max]
            looks = [partial(self._header, height) for height in chunk]
            headers = await asyncio.gather(*map(self._patience.consistent, looks))
            found.update(zip(chunk, headers, strict=True))
        return found

    async def _header(self, height: int) -> Header:
        header = self._read_header(await self._client.call("eth_getBlockByNumber", quantity(height), False))
        if header is None:
            raise Inconsistent(f"the node does not have block {height}")
        if header.height != height:
            raise ValueError(f"number: asked for block {height}, got {header.height}")
        return header

    # Logs.

    async def _logs(self, first: int, last: int, anchor: Header, wanted: _Wanted) -> _Logs:
        """Return the logs of a range, in parts of the size that the node last accepted."""
        if not wanted.addresses:
            return _Logs((), True)
        size = min(self._range_max or last - first + 1, last - first + 1)
        parts = [(start, min(start + size - 1, last)) for start in range(first, last + 1, size)]
        asked = [partial(self._logs_of_part, part, wanted, anchor) for part in parts]
        found = await asyncio.gather(*map(self._patience.consistent, asked))
        self._note_good_ranges(len(parts))
        logs = wanted.of(log for part in found for log in part.logs)
        return _Logs(logs, all(part.is_tied for part in found))

    async def _logs_of_part(self, part: tuple[int, int], wanted: _Wanted, anchor: Header) -> _Logs:
        first, last = part
        look = Call("eth_getBlockByNumber", (quantity(anchor.height), False))
        asked = self._filter(wanted) | {"fromBlock": quantity(first), "toBlock": quantity(last)}
        try:
            together = await self._client.call_together(
                look, Call("eth_getLogs", (asked,)), look, attempts_max=LOGS_ATTEMPTS_MAX
            )
        except TimedOut:
            return await self._logs_of_halves(part, wanted, anchor, "it took too long")
        before, told, after = together.answers
        if isinstance(told, RpcFailure):
            if not is_range_too_large(told):
                raise Inconsistent(str(told)) if is_lagging(told) else RpcRefused(told)
            return await self._logs_of_halves(part, wanted, anchor, str(told))
        if any(isinstance(answer, RpcFailure) or self._read_header(answer) != anchor for answer in (before, after)):
            raise Inconsistent(f"the chain changed at block {anchor.height}")
        logs = read_logs(told)
        if not all(first <= log.height <= last for log in logs):
            raise ValueError(f"logs: asked for those of blocks {first} to {last}, got others")
        return _Logs(logs, together.is_one_exchange)

    async def _logs_of_halves(self, part: tuple[int, int], wanted: _Wanted, anchor: Header, reason: str) -> _Logs:
        first, last = part
        if first == last:
            refusal = f"the node refuses the logs of the single block {first}: {reason}"
            return await self._logs_of_some(wanted, lambda some: self._logs_of_part(part, some, anchor), refusal)
        middle = (first + last) // 2
        self._range_max = min(self._range_max or middle - first + 1, middle - first + 1)
        self._good_ranges = 0
        halves = ((first, middle), (middle + 1, last))
        asked = [partial(self._logs_of_part, half, wanted, anchor) for half in halves]
        found = [await self._patience.consistent(ask) for ask in asked]
        return _Logs(found[0].logs + found[1].logs, found[0].is_tied and found[1].is_tied)

    async def _logs_of_some(self, wanted: _Wanted, ask: Callable[[_Wanted], Awaitable[_Logs]], refusal: str) -> _Logs:
        """Request a refused block's logs for some contracts at a time, so that no stranger's logs are included.

        An awaited contract that has so many logs in one block is foreign code, and has no rounds.
        """
        if len(wanted.addresses) == 1:
            if wanted.addresses[0] in wanted.awaited:
                return _Logs((), is_tied=True)
            raise ValueError(refusal)
        parts = wanted.parts(self._limits.addresses_max)
        found = [await self._patience.consistent(partial(ask, each)) for each in parts]
        return _Logs(tuple(log for each in found for log in each.logs), all(each.is_tied for each in found))

    def _note_good_ranges(self, count: int) -> None:
        """Grow the range after enough successes, as a limit may have been temporary."""
        self._good_ranges += count
        if self._range_max is not None and self._good_ranges > RANGES_TO_GROW:
            self._range_max *= 2
            self._good_ranges = 0

    def _filter(self, wanted: _Wanted) -> dict[str, object]:
        return wanted.filter(self._limits.addresses_max)

    async def _untold(self, logs: tuple[Log, ...], headers: Iterable[Header], wanted: _Wanted) -> tuple[Log, ...]:
        """Return logs that the node left out although a header's bloom allows them, fetched by block hash."""
        told = {log.height for log in logs if log.topics and log.topics[0] in wanted.signs}
        doubtful = [each for each in headers if each.height not in told and wanted.may_be_in(each)]
        asked = [partial(self._logs_of_block, header, wanted) for header in doubtful]
        found = await asyncio.gather(*map(self._patience.consistent, asked))
        return wanted.of(log for block in found for log in block.logs)

    async def _logs_of_block(self, header: Header, wanted: _Wanted) -> _Logs:
        """Request by hash, which has only one answer; a node that lacks the block returns an error."""
        asked = self._filter(wanted) | {"blockHash": data(header.hash)}
        try:
            return _Logs(read_logs(await self._client.call("eth_getLogs", asked)), is_tied=True)
        except RpcRefused as refused:
            refusal = f"block {data(header.hash)}: {refused}"
            if not is_range_too_large(refused.failure):
                raise Inconsistent(refusal) from refused
        return await self._logs_of_some(wanted, partial(self._logs_of_block, header), refusal)


def _told_why(block: ChainBlock, found: Mapping[tuple[int, Leaf], tuple[FailedCall, Reason]]) -> ChainBlock:
    outcomes = tuple(
        (contract, _with_reason(outcome, *found[block.height, outcome.leaf]))
        if (block.height, outcome.leaf) in found
        else (contract, outcome)
        for contract, outcome in block.outcomes
    )
    return replace(block, outcomes=outcomes)


def _with_reason(outcome: LedgerOutcome, failed: FailedCall, reason: Reason) -> LedgerOutcome:
    text = f"{failed.text}: {reason.text}" if reason.text else outcome.reason
    failure = CallFailure(failed.number, failed.call.to, reason.verdict, reason.revert)
    return replace(outcome, reason=text, failure=failure)


def is_range_too_large(failure: RpcFailure) -> bool:
    """Return whether the node would answer for fewer blocks; false for blocks that it does not have yet."""
    if is_lagging(failure):
        return False
    text = failure.message.lower()
    return failure.code == _TOO_LARGE_CODE or any(each in text for each in _TOO_LARGE_TEXTS)


def is_lagging(failure: RpcFailure) -> bool:
    """Return whether the node does not have these blocks, or not yet."""
    text = failure.message.lower()
    return any(each in text for each in _LAGGING_TEXTS)


def _require_links(headers: dict[int, Header]) -> None:
    for height, header in headers.items():
        if height - 1 in headers and header.parent != headers[height - 1].hash:
            raise Inconsistent(f"block {height} does not follow block {height - 1}")


def _require_one_chain(headers: dict[int, Header], logs: tuple[Log, ...], mined: Iterable[MinedHere]) -> None:
    """Raise `Inconsistent` unless all data of a block belong to the header that was read."""
    for log in logs:
        if log.block_hash != headers[log.height].hash:
            raise Inconsistent(f"a log of block {log.height} is of another block than its header")
    for block in mined:
        if block.header != headers[block.header.height]:
            raise Inconsistent(f"block {block.header.height} changed meanwhile")
    if len({(log.height, log.number) for log in logs}) != len(logs):
        raise ValueError("logs: one was told twice")
