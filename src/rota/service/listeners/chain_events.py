"""Events of the base ledger for listeners: read from the chain, in its order, decoded by the listener's ABI.

Theory of operation. A listener's position is the block and the place in it that come next. A read begins there and ends
at the latest block with the node's number of confirmations, so that a reorganisation takes back no delivered event.
Blocks are read in ranges, smaller ones after a chain has refused a range as too large. A range may have more events
than fit in a batch; then the rest is read again, and no more than one answer is held in memory.

A log that has an event's topic but is not encoded as the listener's ABI requires is another contract's event of the
same name, and is skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import msgspec

from rota.abi import codec
from rota.ledger.client import Call, RpcClient
from rota.ledger.hexadecimal import data, quantity, read_quantity
from rota.ledger.reading import Log, read_log
from rota.ledger.transports import RpcFailure
from rota.model.types import ContractAddress, Rejected
from rota.ports import ListenerPosition, Unavailable
from rota.rpc.errors import invalid
from rota.service.interface import EventDefinition, EventListenerStatus, EventSource, EventView, JsonValue
from rota.service.listeners.listeners import Bell, Found

BLOCKS_A_QUESTION_MAX: Final = 2_000
ATTEMPTS_MAX: Final = 3


@dataclass(frozen=True, slots=True)
class _Wanted:
    """One source, its ABI entries parsed."""

    address: ContractAddress | None
    events: tuple[codec.Entry, ...]


class ChainEvents:
    """A `Source`. `final_height` returns the latest final block, -1 if there is none."""

    kind: Final = "blockchainevents"

    def __init__(self, client: RpcClient, final_height: Callable[[], int]) -> None:
        self.bell: Final = Bell()
        self._client: Final = client
        self._final_height: Final = final_height
        self._range = BLOCKS_A_QUESTION_MAX

    def encode(self, definition: EventDefinition) -> bytes:
        """Encode a definition as JSON."""
        return msgspec.json.encode(definition)

    def decode(self, kept: bytes) -> EventDefinition:
        """Decode a stored definition."""
        return msgspec.json.decode(kept, type=EventDefinition)

    async def first_position(self, definition: EventDefinition) -> ListenerPosition:
        """Return the first block of the listener. `Rejected` when its ABI cannot be read."""
        list(_wanted(definition.sources))
        first = definition.from_block if definition.from_block is not None else self._final_height() + 1
        return ListenerPosition(max(0, first))

    async def read(self, definition: EventDefinition, position: ListenerPosition) -> Found[EventView]:
        """Return the events of the next range of blocks, as many as fit in a batch."""
        final = self._final_height()
        last = min(final, position.number + self._range - 1)
        if last < position.number:
            return Found((), position, is_all=True)
        wanted = tuple(_wanted(definition.sources))
        found: list[EventView] = []
        for log, transaction_index in await self._logs(wanted, position.number, last):
            if (log.height, log.number) < position:
                continue
            view = _decoded(wanted, log, transaction_index)
            if view is None:
                continue
            if len(found) == definition.batch_size:
                return Found(tuple(found), ListenerPosition(log.height, log.number), is_all=False)
            found.append(view)
        return Found(tuple(found), ListenerPosition(last + 1), is_all=last == final)

    def status_at(self, position: ListenerPosition) -> EventListenerStatus:
        """Return the progress of a listener with this position."""
        return EventListenerStatus(position.number <= self._final_height(), position.number - 1)

    async def _logs(self, wanted: tuple[_Wanted, ...], first: int, last: int) -> list[tuple[Log, int]]:
        question = {**_filter_of(wanted), "fromBlock": quantity(first), "toBlock": quantity(last)}
        calls = (Call("eth_getLogs", (question,)), Call("eth_getBlockByNumber", (quantity(last), False)))
        told = await self._client.call_together(*calls, attempts_max=ATTEMPTS_MAX)
        events, block = told.answers
        is_sure = told.is_one_exchange
        if not is_sure:
            # From a node without batches, two equal answers are the best evidence available.
            is_sure = (await self._client.call_together(*calls, attempts_max=ATTEMPTS_MAX)).answers == told.answers
        if isinstance(events, RpcFailure):
            # Chains limit the size of their answers, each in its own way.
            self._range = max(1, self._range // 2)
            raise Unavailable(f"the chain does not tell the events of blocks {first} to {last}: {events}")
        if not is_sure or not isinstance(block, dict):
            # One address may stand for several nodes, and a lagging one returns no events.
            raise Unavailable(f"the node that was asked for the events of block {last} may not have it yet")
        try:
            logs = [(read_log(each), _transaction_index(each)) for each in _listed(events)]
        except ValueError as error:
            raise Unavailable(f"the chain tells events of blocks {first} to {last} badly: {error}") from error
        self._range = min(BLOCKS_A_QUESTION_MAX, 2 * self._range)
        return sorted(logs, key=lambda each: (each[0].height, each[0].number))


def _listed(told: object) -> list[object]:
    if not isinstance(told, list):
        raise ValueError("logs: must be a list")
    return told


def _transaction_index(log: object) -> int:
    return read_quantity(log.get("transactionIndex")) if isinstance(log, dict) else -1


def _wanted(sources: Iterable[EventSource]) -> Iterator[_Wanted]:
    for place, source in enumerate(sources):
        try:
            events = codec.entries_of(source.abi, "abi")
        except Rejected as flaw:
            raise invalid(f"listener.sources[{place}].{flaw.field}", flaw.message) from None
        yield _Wanted(source.address, events)


def _filter_of(wanted: tuple[_Wanted, ...]) -> dict[str, object]:
    """Return the filter that covers all sources; their differences are checked here."""
    asked: dict[str, object] = {}
    addresses = [each.address for each in wanted]
    if None not in addresses:
        asked["address"] = list(dict.fromkeys(addresses))
    entries = [entry for each in wanted for entry in each.events]
    if not any(entry.is_anonymous for entry in entries):
        asked["topics"] = [[data(topic) for topic in dict.fromkeys(entry.topic for entry in entries)]]
    return asked


def _decoded(wanted: tuple[_Wanted, ...], log: Log, transaction_index: int) -> EventView | None:
    for source in wanted:
        if source.address is not None and source.address != log.address:
            continue
        for entry in source.events:
            if not entry.is_anonymous and (not log.topics or log.topics[0] != entry.topic):
                continue
            try:
                values: JsonValue = codec.decode_event(entry, log.topics, log.data, "data")  # type: ignore[assignment]
            except Rejected:
                continue
            return EventView(
                log.height,
                transaction_index,
                log.number,
                log.transaction_hash,
                entry.topic,
                entry.solidity_signature,
                log.address,
                values,
            )
    return None
