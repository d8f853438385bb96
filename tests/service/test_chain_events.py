"""Events asked of the chain: in order, resumable within a block, only what is confirmed, whatever the chain refuses."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from rota.abi import codec
from rota.ledger.client import Call, Together
from rota.ledger.transports import RpcFailure
from rota.model.types import ContractAddress
from rota.ports import ListenerPosition, Unavailable
from rota.rpc.errors import Rejected
from rota.service.interface import EventDefinition, EventSource
from rota.service.listeners.chain_events import BLOCKS_A_QUESTION_MAX, ChainEvents
from tests.store.kit import in_loop

ADDRESS = ContractAddress("0x" + "22" * 20)
OTHER = ContractAddress("0x" + "33" * 20)
CHANGED = {"type": "event", "name": "Changed", "inputs": [{"name": "x", "type": "uint256", "indexed": False}]}
INDEXED = {"type": "event", "name": "Changed", "inputs": [{"name": "x", "type": "uint256", "indexed": True}]}
NAMELESS = {"type": "event", "name": "Note", "anonymous": True, "inputs": [{"name": "n", "type": "uint256"}]}
TOPIC = codec.entry_of(CHANGED, "abi").topic


def log(height: int, index: int, value: int = 7, address: str = ADDRESS, topics: list[str] | None = None) -> Any:  # noqa: ANN401
    return {
        "address": address,
        "topics": ["0x" + TOPIC.hex()] if topics is None else topics,
        "data": f"0x{value:064x}",
        "blockNumber": hex(height),
        "blockHash": "0x" + "aa" * 32,
        "transactionHash": "0x" + "bb" * 32,
        "transactionIndex": "0x2",
        "logIndex": hex(index),
    }


@dataclass
class Chain:
    """Answers as an Ethereum node does, with these logs."""

    logs: list[Any] = field(default_factory=list)
    height: int = 100
    final: int = 100
    blocks_max: int = 10_000
    takes_batches: bool = True
    asked: list[dict[str, Any]] = field(default_factory=list)

    async def call_together(self, *calls: Call, attempts_max: int) -> Together:
        question: Any = calls[0].parameters[0]
        self.asked.append(question)
        first, last = int(question["fromBlock"], 16), int(question["toBlock"], 16)
        found = [each for each in self.logs if first <= int(each["blockNumber"], 16) <= last]
        told: object = found if last - first < self.blocks_max else RpcFailure(-32005, "too many results")
        block = {"number": hex(last)} if last <= self.height else None
        return Together((told, block), self.takes_batches)

    def events(self) -> ChainEvents:
        return ChainEvents(self, lambda: self.final)  # type: ignore[arg-type]


def wanting(*entries: Any, address: ContractAddress | None = ADDRESS, **more: Any) -> EventDefinition:  # noqa: ANN401
    return EventDefinition((EventSource(entries or (CHANGED,), address),), **more)


@in_loop
async def test_events_come_in_the_order_of_the_chain_and_a_batch_ends_within_a_block() -> None:
    chain = Chain([log(5, 3, 3), log(5, 1, 1), log(4, 0, 0)])
    events, wanted = chain.events(), wanting(batch_size=2)
    first = await events.read(wanted, ListenerPosition(0))
    assert [each.data for each in first.items] == [{"x": "0"}, {"x": "1"}]
    assert (first.position, first.is_all) == (ListenerPosition(5, 3), False)
    second = await events.read(wanted, first.position)
    assert [(each.block_number, each.log_index, each.transaction_index) for each in second.items] == [(5, 3, 2)]
    assert (second.position, second.is_all) == (ListenerPosition(101), True)
    assert second.items[0].solidity_signature == "event Changed(uint256 x)"
    assert second.items[0].signature == TOPIC


@in_loop
async def test_nothing_is_given_that_may_be_taken_back() -> None:
    chain = Chain([log(98, 0)], final=97)
    events = chain.events()
    found = await events.read(wanting(), ListenerPosition(90))
    assert (found.items, found.position, found.is_all) == ((), ListenerPosition(98), True)
    assert (await events.read(wanting(), found.position)).items == ()
    chain.final = 98
    assert len((await events.read(wanting(), found.position)).items) == 1


@in_loop
async def test_only_what_the_listener_asked_for_is_given() -> None:
    chain = Chain([log(1, 0, address=OTHER), log(2, 0, topics=["0x" + "cc" * 32]), log(3, 0), log(4, 0, topics=[])])
    found = await chain.events().read(wanting(), ListenerPosition(0))
    assert [each.block_number for each in found.items] == [3]
    assert chain.asked[0]["address"] == [ADDRESS]
    assert chain.asked[0]["topics"] == [["0x" + TOPIC.hex()]]
    anywhere = await chain.events().read(wanting(address=None), ListenerPosition(0))
    assert [each.block_number for each in anywhere.items] == [1, 3]
    assert "address" not in chain.asked[1]


@in_loop
async def test_events_of_one_name_are_told_apart_by_how_they_are_encoded() -> None:
    indexed = log(1, 0, topics=["0x" + TOPIC.hex(), f"0x{9:064x}"]) | {"data": "0x"}
    found = await Chain([indexed, log(2, 0)]).events().read(wanting(INDEXED, CHANGED), ListenerPosition(0))
    assert [each.data for each in found.items] == [{"x": "9"}, {"x": "7"}]
    assert found.items[0].solidity_signature == "event Changed(uint256 indexed x)"


@in_loop
async def test_anonymous_events_are_looked_for_without_a_topic() -> None:
    chain = Chain([log(1, 0, 5, topics=[])])
    found = await chain.events().read(wanting(NAMELESS), ListenerPosition(0))
    assert [each.data for each in found.items] == [{"n": "5"}]
    assert "topics" not in chain.asked[0]


@in_loop
async def test_a_range_that_is_refused_is_asked_for_in_smaller_ones() -> None:
    chain = Chain([log(3, 0)], height=5_000, final=5_000, blocks_max=BLOCKS_A_QUESTION_MAX // 4)
    events, position, refused = chain.events(), ListenerPosition(0), 0
    seen = 0
    while position.number <= chain.final:
        try:
            found = await events.read(wanting(), position)
        except Unavailable:
            refused += 1
            continue
        seen, position = seen + len(found.items), found.position
    assert refused
    assert seen == 1


@in_loop
async def test_a_node_that_lags_is_not_believed() -> None:
    chain = Chain([], height=50)
    with pytest.raises(Unavailable, match="may not have it yet"):
        await chain.events().read(wanting(), ListenerPosition(0))


@in_loop
async def test_a_node_without_batches_is_asked_twice() -> None:
    chain = Chain([log(1, 0)], takes_batches=False)
    assert len((await chain.events().read(wanting(), ListenerPosition(0))).items) == 1
    assert len(chain.asked) == 2


@in_loop
async def test_a_listener_begins_where_it_says() -> None:
    events = Chain(final=80).events()
    assert await events.first_position(wanting(from_block=7)) == ListenerPosition(7)
    assert await events.first_position(wanting(from_block=None)) == ListenerPosition(81)
    with pytest.raises(Rejected, match=r"listener.sources\[0\].abi"):
        await events.first_position(wanting({"type": "event", "inputs": [{}]}))


@in_loop
async def test_status_tells_how_far_it_is() -> None:
    events = Chain(final=80).events()
    behind, there = events.status_at(ListenerPosition(10, 3)), events.status_at(ListenerPosition(81))
    assert (behind.is_catching_up, behind.block_number) == (True, 9)
    assert (there.is_catching_up, there.block_number) == (False, 80)


def test_a_definition_is_kept_as_it_was() -> None:
    events = Chain().events()
    wanted = wanting(CHANGED, from_block=None, batch_size=3)
    assert events.decode(events.encode(wanted)) == wanted
