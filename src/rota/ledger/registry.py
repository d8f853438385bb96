"""The nodes of a network from the chain's Registry, cached in memory (`ports.Registry`).

Theory of operation. The Registry emits every change as an event with the whole entry of a node, so that the latest
event of a name is its registration. All events are read once, range by range, and from then on those of new blocks. The
published entries are always those as of one block: half a history could show a certificate as valid that was dropped
since. Until the first read is complete there are no nodes at all.

The chain may take blocks back. The last block of each range read is kept as a *mark*. At every poll the latest mark
must still be on the chain; if it is not, changes are undone down to the latest mark that is, and read again from there;
if none is, everything is read again. A chain that is shorter than the latest mark counts as a lagging node, until it
has been so for several polls in a row. Only the latest marks are kept, and changes older than all of them are settled
and no longer undone one by one.

While the chain cannot be read, the known entries stay, and `trouble` has the error.

Behind one address there may be several nodes. So every range is requested in one exchange together with the mark that
it follows, and between two reads of its last block, which must be equal. From a node that takes no batches all headers
of the range are requested too: each must follow the previous one, and their blooms show whether an event was left out.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from types import MappingProxyType
from typing import Final, NamedTuple

from rota.abi.decoding import Undecodable
from rota.abi.decoding import decode as abi_decode
from rota.ledger.bindings import RegisteredNode, topic_of
from rota.ledger.client import Call, RpcClient, RpcRefused, TimedOut
from rota.ledger.consistency import Inconsistent, Patience
from rota.ledger.follower import is_lagging, is_range_too_large
from rota.ledger.hexadecimal import data, quantity, read_quantity
from rota.ledger.reading import Header, Log, is_in_bloom, read_header, read_logs
from rota.ledger.transports import RpcFailure
from rota.model.types import BlockHash, ContractAddress, NodeName, address_bytes
from rota.ports import Registration, Unavailable

NODE_CHANGED: Final = topic_of("Registry", "NodeChanged")
MARKS_MAX: Final = 64
SHORTER_LOOKS_MAX: Final = 5
LOOK_ATTEMPTS_MAX: Final = 2
RANGES_TO_GROW: Final = 16

_TOPICS: Final = 3  # of a NodeChanged: the event, the name's hash, the owner
# The name, both fingerprints and the endpoint: the contract takes any bytes, which are encoded as a text is.
_CONTENT: Final = ("string", "bytes32", "bytes32", "bytes")


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryLimits:
    """The limits of following the Registry.

    from_height     the first block whose events are read; none is older
    poll_ms         interval of polls
    range_max       blocks whose events are requested at once
    headers_max     the same for a node that takes no batches, from which all headers are requested
    nodes_max       names beyond these are ignored: any account can register any number at its cost
    """

    from_height: int = 0
    poll_ms: int = 1_000
    range_max: int = 2_000
    headers_max: int = 64
    nodes_max: int = 10_000

    def __post_init__(self) -> None:
        for name in self.__slots__:
            least = 0 if name == "from_height" else 1
            if getattr(self, name) < least:
                raise ValueError(f"{name}: must be at least {least}, not {getattr(self, name)}")


class Change(NamedTuple):
    """An event: from this block on this entry is valid; None if the owner wrote an unusable one."""

    height: int
    name: NodeName
    node: RegisteredNode | None


class Mark(NamedTuple):
    """A block up to which all events were read."""

    height: int
    hash: BlockHash


class ChainRegistry:
    """Follows one Registry on one chain."""

    def __init__(
        self,
        client: RpcClient,
        registry: ContractAddress,
        chain_id: int,
        limits: RegistryLimits | None = None,
        patience: Patience | None = None,
    ) -> None:
        self.trouble = "the Registry has not been read yet"
        self.is_read = asyncio.Event()
        self._client: Final = client
        self._registry: Final = registry
        self._chain_id: Final = chain_id
        self._limits: Final = limits or RegistryLimits()
        self._patience: Final = patience or Patience()
        self._range_max = self._limits.range_max
        self._good_ranges = 0
        self._shorter_looks = 0
        self._origin: Mark | None = None
        self._marks: Final[deque[Mark]] = deque()
        self._settled: Final[dict[NodeName, RegisteredNode | None]] = {}
        self._changes: Final[list[Change]] = []
        self._nodes: Mapping[NodeName, RegisteredNode] = MappingProxyType({})
        self._registrations: Mapping[NodeName, Registration] = MappingProxyType({})

    # Entries.

    def registrations(self) -> Mapping[NodeName, Registration]:
        """Return all nodes, in the order in which they were registered."""
        return self._registrations

    def nodes(self) -> Mapping[NodeName, RegisteredNode]:
        """Return the same nodes, with their owners."""
        return self._nodes

    # Following.

    async def run(self) -> None:
        """Poll the chain until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(self._limits.poll_ms / 1_000)

    async def look(self) -> None:
        """Read new events. An error is set in `trouble`, and the known entries stay."""
        try:
            head = await self._head()
            if await self._is_worth_reading(head):
                await self._read_to(head)
                self._publish()
        except (Inconsistent, Unavailable, RpcRefused, ValueError) as error:
            known = f"; {len(self._nodes)} nodes are known from before" if self.is_read.is_set() else ""
            self.trouble = f"the Registry at {self._registry} cannot be read: {error}{known}"
            return
        self.trouble = ""
        self.is_read.set()

    async def _head(self) -> Header:
        together = await self._client.call_together(
            Call("eth_chainId"), Call("eth_getBlockByNumber", ("latest", False)), attempts_max=LOOK_ATTEMPTS_MAX
        )
        for answer in together.answers:
            if isinstance(answer, RpcFailure):
                raise RpcRefused(answer)
        chain_id, told = together.answers
        if read_quantity(chain_id) != self._chain_id:
            raise ValueError(f"the node's chain id is {read_quantity(chain_id)}, and ours is {self._chain_id}")
        head = read_header(told)
        if head is None:
            raise Inconsistent("the node has no latest block")
        return head

    async def _is_worth_reading(self, head: Header) -> bool:
        """Undo what the chain took back; return whether there is anything new up to this block."""
        if not self._marks:
            return True
        latest = self._marks[-1]
        if head.height < latest.height and await self._is_only_lagging(head):
            return False
        self._shorter_looks = 0
        if Mark(head.height, head.hash) == latest:
            return False
        while self._marks and not await self._is_on_chain(self._marks[-1], head):
            self._marks.pop()
        self._undo()
        return True

    async def _is_only_lagging(self, head: Header) -> bool:
        """Return false for a shorter chain that was seen often enough, or whose first block differs: it is believed."""
        self._shorter_looks += 1
        assert self._origin is not None, "whatever was read began somewhere"
        if self._shorter_looks >= SHORTER_LOOKS_MAX:
            return False
        return head.height < self._origin.height or await self._is_on_chain(self._origin, head)

    async def _is_on_chain(self, mark: Mark, head: Header) -> bool:
        if mark.height > head.height:
            return False
        return (await self._header(mark.height)).hash == mark.hash

    def _undo(self) -> None:
        """Drop changes above the latest remaining mark; without any, drop everything."""
        if not self._marks:
            self._origin = None
            self._settled.clear()
            self._changes.clear()
            return
        last = self._marks[-1].height
        while self._changes and self._changes[-1].height > last:
            self._changes.pop()

    # Reading.

    async def _read_to(self, head: Header) -> None:
        if self._origin is None:
            first = self._limits.from_height
            if first > head.height:
                raise Inconsistent(f"it is read from block {first} on, and the chain is at block {head.height}")
            beginning = await self._patience.consistent(partial(self._header, first))
            self._origin = Mark(first, beginning.hash)
        while not self._marks or self._marks[-1].height < head.height:
            await self._read_range(head)

    async def _read_range(self, head: Header) -> None:
        """Read the next range; if the node accepts only fewer blocks, halve the next range."""
        first = self._marks[-1].height + 1 if self._marks else self._limits.from_height
        last = min(first + self._range_max - 1, head.height)
        try:
            end, logs = await self._patience.consistent(partial(self._logs, first, last))
        except _TooLarge as too_large:
            if first == last:
                raise ValueError(f"the node refuses the events of the single block {first}: {too_large}") from None
            self._range_max = (last - first + 1) // 2
            self._good_ranges = 0
            return
        self._changes.extend(map(read_change, logs))
        self._marks.append(Mark(last, end.hash))
        self._settle()
        self._note_good_range()

    def _note_good_range(self) -> None:
        """Grow the range after enough successes, as a limit may have been temporary."""
        self._good_ranges += 1
        if self._range_max < self._limits.range_max and self._good_ranges > RANGES_TO_GROW:
            self._range_max = min(2 * self._range_max, self._limits.range_max)
            self._good_ranges = 0

    async def _logs(self, first: int, last: int) -> tuple[Header, tuple[Log, ...]]:
        """Return the events of a range and its last block, checked to be on the chain of the latest mark."""
        base = self._marks[-1] if self._marks else self._origin
        assert base is not None, "reading begins somewhere"
        look = Call("eth_getBlockByNumber", (quantity(last), False))
        look_back = Call("eth_getBlockByNumber", (quantity(base.height), False))
        wanted = self._filter() | {"fromBlock": quantity(first), "toBlock": quantity(last)}
        try:
            together = await self._client.call_together(
                look_back, look, Call("eth_getLogs", (wanted,)), look, attempts_max=LOOK_ATTEMPTS_MAX
            )
        except TimedOut as error:
            raise _TooLarge("it took too long") from error
        behind, before, told, after = together.answers
        for answer in (behind, before, after):
            if isinstance(answer, RpcFailure):
                raise RpcRefused(answer)
        if isinstance(told, RpcFailure):
            if is_range_too_large(told):
                raise _TooLarge(str(told))
            raise Inconsistent(str(told)) if is_lagging(told) else RpcRefused(told)
        start, end = read_header(behind), read_header(before)
        if start is None or Mark(start.height, start.hash) != base:
            raise Inconsistent(f"the chain changed at block {base.height}, or the node does not have it")
        if end is None or end.height != last or end != read_header(after):
            raise Inconsistent(f"the chain changed at block {last}, or the node does not have it")
        logs = self._ours(told, first, last)
        if not together.is_one_exchange:
            logs = await self._with_headers(start, end, logs)
        return end, logs

    async def _with_headers(self, start: Header, end: Header, logs: tuple[Log, ...]) -> tuple[Log, ...]:
        """Check answers of separate exchanges, maybe of several nodes: headers must be linked and fit the logs."""
        if end.height - start.height > self._limits.headers_max:
            raise _TooLarge("it takes no batches")
        between = await asyncio.gather(*map(self._header, range(start.height + 1, end.height)))
        headers = [start, *between, *([end] if end != start else [])]
        for header, following in pairwise(headers):
            if following.parent != header.hash:
                raise Inconsistent(f"block {following.height} does not follow block {header.height}")
        by_height = {header.height: header for header in headers}
        if any(log.block_hash != by_height[log.height].hash for log in logs):
            raise Inconsistent("an event is of another block than its header")
        told = {log.height for log in logs}
        asked = headers[1:] if self._marks else headers  # A mark was read; the very first block was not.
        doubtful = [header for header in asked if header.height not in told and self._may_have_event(header)]
        more = await asyncio.gather(*map(self._logs_of_block, doubtful))
        return tuple(sorted((*logs, *(log for block in more for log in block)), key=_place))

    async def _logs_of_block(self, header: Header) -> tuple[Log, ...]:
        """Request by hash, which has only one answer; a node that lacks the block returns an error."""
        try:
            wanted = self._filter() | {"blockHash": data(header.hash)}
            told = await self._client.call("eth_getLogs", wanted, attempts_max=LOOK_ATTEMPTS_MAX)
        except RpcRefused as refused:
            raise Inconsistent(f"block {header.height}: {refused}") from refused
        return self._ours(told, header.height, header.height)

    async def _header(self, height: int) -> Header:
        told = await self._client.call("eth_getBlockByNumber", quantity(height), False, attempts_max=LOOK_ATTEMPTS_MAX)
        header = read_header(told)
        if header is None or header.height != height:
            raise Inconsistent(f"the node does not have block {height}")
        return header

    def _ours(self, told: object, first: int, last: int) -> tuple[Log, ...]:
        logs = read_logs(told)
        if not all(first <= log.height <= last for log in logs):
            raise ValueError(f"logs: asked for those of blocks {first} to {last}, got others")
        ours = (log for log in logs if log.address == self._registry and log.topics[:1] == (NODE_CHANGED,))
        return tuple(sorted(ours, key=_place))

    def _filter(self) -> dict[str, object]:
        return {"address": self._registry, "topics": [data(NODE_CHANGED)]}

    def _may_have_event(self, header: Header) -> bool:
        return is_in_bloom(header.bloom, NODE_CHANGED) and is_in_bloom(header.bloom, address_bytes(self._registry))

    # Publishing.

    def _settle(self) -> None:
        """Drop the oldest marks, and settle the changes up to the oldest remaining one, which are no longer undone."""
        while len(self._marks) > MARKS_MAX:
            self._marks.popleft()
        oldest = self._marks[0].height
        count = next((at for at, change in enumerate(self._changes) if change.height > oldest), len(self._changes))
        _apply(self._settled, self._changes[:count], self._limits.nodes_max)
        del self._changes[:count]

    def _publish(self) -> None:
        """Publish all entries at once, as immutable values, since readers may be iterating over the old ones."""
        latest = dict(self._settled)
        _apply(latest, self._changes, self._limits.nodes_max)
        nodes = {name: node for name, node in latest.items() if node is not None}
        self._nodes = MappingProxyType(nodes)
        self._registrations = MappingProxyType({name: registration_of(node) for name, node in nodes.items()})


class _TooLarge(Exception):
    """The node would answer for fewer blocks."""


def registration_of(node: RegisteredNode) -> Registration:
    """Return the part of an entry that the transport needs."""
    return Registration(node.endpoint, node.current_fingerprint, node.next_fingerprint or b"")


def read_change(log: Log) -> Change:
    """Read an event of the Registry; `ValueError` for any other log."""
    if len(log.topics) != _TOPICS or log.topics[0] != NODE_CHANGED:
        raise ValueError("topics: not those of a NodeChanged")
    try:
        name, current, following, written = abi_decode(_CONTENT, log.data)
    except Undecodable as error:
        raise ValueError(f"data: must be what is registered of a node: {error}") from error
    try:
        endpoint = written.decode()
    except UnicodeDecodeError:
        # The contract checks names only. This owner wrote an invalid endpoint, and the node is left out.
        return Change(log.height, NodeName(name), None)
    owner = ContractAddress("0x" + log.topics[2][-20:].hex())
    node = RegisteredNode(owner, current, following if any(following) else None, endpoint, log)
    return Change(log.height, NodeName(name), node)


def _apply(nodes: dict[NodeName, RegisteredNode | None], changes: list[Change], nodes_max: int) -> None:
    for change in changes:
        if change.name in nodes or len(nodes) < nodes_max:
            nodes[change.name] = change.node


def _place(log: Log) -> tuple[int, int]:
    return log.height, log.number
