"""Events of the base ledger, for listeners: asked of the chain itself, in its order, decoded by the listener's ABI.

Theory of operation. A listener's position is the block and the place in it that come next. What is asked for begins
there and ends at the latest block that is as deep as the node's confirmations ask for: a reorganisation takes nothing
back that was given. Blocks are asked for in ranges, smaller ones after a chain has refused a range as too large. A
range may have more than fits in a batch; then the rest is asked for again, and nothing but one answer is held.

What has an event's topic and is not encoded as its ABI says is another contract's event of the same name: it is not
what the listener asked for.
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
    """One source, its entries read."""

    address: ContractAddress | None
    events: tuple[codec.Entry, ...]


class ChainEvents:
    """A `Source`. `final_height` is the latest block that nothing is taken back of, -1 if none is."""

    kind: Final = "blockchainevents"

    def __init__(self, client: RpcClient, final_height: Callable[[], int]) -> None:
        self.bell: Final = Bell()
        self._client: Final = client
        self._final_height: Final = final_height
        self._range = BLOCKS_A_QUESTION_MAX

    def encode(self, definition: EventDefinition) -> bytes:
        """As JSON."""
        return msgspec.json.encode(definition)

    def decode(self, kept: bytes) -> EventDefinition:
        """What was kept."""
        return msgspec.json.decode(kept, type=EventDefinition)

    async def first_position(self, definition: EventDefinition) -> ListenerPosition:
        """The block that the listener begins with. `Rejected` when its ABI cannot be read."""
        list(_wanted(definition.sources))
        first = definition.from_block if definition.from_block is not None else self._final_height() + 1
        return ListenerPosition(max(0, first))

    async def read(self, definition: EventDefinition, position: ListenerPosition) -> Found[EventView]:
        """What is in the next range of blocks, as much as fits in a batch."""
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
        """How far a listener is that has this position."""
        return EventListenerStatus(position.number <= self._final_height(), position.number - 1)

    async def _logs(self, wanted: tuple[_Wanted, ...], first: int, last: int) -> list[tuple[Log, int]]:
        question = {**_filter_of(wanted), "fromBlock": quantity(first), "toBlock": quantity(last)}
        calls = (Call("eth_getLogs", (question,)), Call("eth_getBlockByNumber", (quantity(last), False)))
        told = await self._client.call_together(*calls, attempts_max=ATTEMPTS_MAX)
        events, block = told.answers
        is_sure = told.is_one_exchange
        if not is_sure:
            # Of a node that takes no batches, two answers that agree are as much as can be had.
            is_sure = (await self._client.call_together(*calls, attempts_max=ATTEMPTS_MAX)).answers == told.answers
        if isinstance(events, RpcFailure):
            # Chains bound how much they answer at once, each in its own way.
            self._range = max(1, self._range // 2)
            raise Unavailable(f"the chain does not tell the events of blocks {first} to {last}: {events}")
        if not is_sure or not isinstance(block, dict):
            # What stands behind one address may be several nodes, and one that lags has no events to tell.
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
    """What every source has in common; the rest is looked at here."""
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
