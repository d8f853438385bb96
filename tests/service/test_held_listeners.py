"""Listeners of credentials that are held to parties: their own, narrowed for good."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest

from rota.engine.accepting import Acceptances
from rota.model.types import IntentId, NodeName
from rota.ports import PartyNames, covers
from rota.rpc.errors import Rejected
from rota.service.interface import AnyReceipt, Batch, Listener, ReceiptDefinition, ReceiptView
from rota.service.listeners.held import LISTENERS_HELD_MAX
from rota.service.listeners.listeners import DurableListeners
from tests.ledger.chains import in_loop
from tests.server.memory_listeners import MemoryListening, MemorySource

Listeners = DurableListeners[ReceiptDefinition, AnyReceipt]


@pytest.mark.parametrize(
    ("wider", "narrower", "is_covered"),
    [
        (("alice",), ("alice",), True),
        (("alice", "bob"), ("bob",), True),
        (("alice",), ("alice", "bob"), False),
        (("treasury.*",), ("treasury.ops", "treasury.eu.*"), True),
        (("treasury.*",), ("treasury.*",), True),
        (("treasury.eu.*",), ("treasury.*",), False),
        (("treasury.ops",), ("treasury.*",), False),
        (("treasury.*",), ("treasury",), False),
        (("treasury.*",), ("treasuryx.*",), False),
        ((), ("alice",), False),
    ],
)
def test_patterns_cover_those_that_name_no_further_party(
    wider: tuple[str, ...], narrower: tuple[str, ...], is_covered: bool
) -> None:
    assert covers(wider, narrower) is is_covered


def whose(receipt: AnyReceipt) -> str:
    assert isinstance(receipt, ReceiptView)
    return receipt.domain


def source() -> MemorySource[ReceiptDefinition, AnyReceipt]:
    """The domain of a receipt stands for its party."""

    def passes(wanted: ReceiptDefinition, receipt: AnyReceipt) -> bool:
        return wanted.parties is None or PartyNames(wanted.parties, NodeName("node1")).has(whose(receipt))

    return MemorySource("receipts", ReceiptDefinition, passes)


def opened(store: MemoryListening, kept: MemorySource[ReceiptDefinition, AnyReceipt]) -> Listeners:
    return DurableListeners(kept, store, Acceptances())  # type: ignore[arg-type]


@dataclass
class Receiver:
    got: list[str] = field(default_factory=list)
    came: asyncio.Event = field(default_factory=asyncio.Event)

    async def take(self, batch: Batch[AnyReceipt]) -> bool:
        self.got += [whose(each) for each in batch.items]
        self.came.set()
        return True


def receipt(number: int, party: str) -> ReceiptView:
    return ReceiptView(IntentId(number.to_bytes(16, "big")), True, 1, number, party)


def names(found: tuple[Listener[ReceiptDefinition], ...]) -> list[str]:
    return [each.name for each in found]


@in_loop
async def test_credential_sees_and_changes_its_own_listeners_alone() -> None:
    every = opened(MemoryListening(), source())
    one, other = every.held_by("one", ("alice",)), every.held_by("other", ("alice",))
    await every.create("inbox", ReceiptDefinition(), True)
    await one.create("inbox", ReceiptDefinition(), True)
    # The name is not taken for another one, which learns of no listener but its own.
    await other.create("inbox", ReceiptDefinition(), False)
    await other.create("second", ReceiptDefinition(), True)
    assert names(await one.find({})) == ["inbox"]
    assert names(await other.find({"sort": ["name DESC"]})) == ["second", "inbox"]
    assert names(await other.find({"eq": [{"field": "started", "value": False}]})) == ["inbox"]
    assert names(await every.find({})) == ["inbox", "one/inbox", "other/inbox", "other/second"]
    with pytest.raises(Rejected, match="must be new: there is a listener 'inbox' already"):
        await one.create("inbox", ReceiptDefinition(), True)
    for name in ("second", "../inbox", "other/inbox", ""):
        assert await one.listener(name) is None
        for change in (one.start, one.stop, one.delete):
            with pytest.raises(Rejected, match="there is no listener"):
                await change(name)
        with pytest.raises(Rejected, match="there is no listener"):
            await one.attach(name, Receiver())
    await one.delete("inbox")
    assert names(await every.find({})) == ["inbox", "other/inbox", "other/second"]


@in_loop
async def test_listener_stays_narrowed_over_restarts_and_changes_of_its_credential() -> None:
    store, kept = MemoryListening(), source()
    first = opened(store, kept)
    await first.held_by("app", ("alice", "bob")).create("inbox", ReceiptDefinition(), True)
    kept.put(receipt(1, "alice"), receipt(2, "carol"), receipt(3, "bob"))
    await first.close()

    restarted = opened(store, kept)
    # A credential of this name that is held to fewer parties, or to others, has lost it.
    for parties in (("alice",), ("carol",), ("alice", "carol"), ("alice.*", "bob.*")):
        held = restarted.held_by("app", parties)
        assert (await held.listener("inbox"), await held.find({})) == (None, ())
        with pytest.raises(Rejected, match="there is no listener"):
            await held.attach("inbox", Receiver())
    # Held to more, or to no parties at all, it gets no more than before.
    for listeners, name in ((restarted.held_by("app", ("alice", "bob", "carol")), "inbox"), (restarted, "app/inbox")):
        receiver = Receiver()
        leave = await listeners.attach(name, receiver)
        await receiver.came.wait()
        leave()
        assert receiver.got == ["alice", "bob"]
        kept.put(receipt(4, "carol"), receipt(5, "alice"), receipt(6, "bob"))
    await restarted.close()


@in_loop
async def test_held_credential_names_no_number_of_the_nodes_own_order() -> None:
    held = opened(MemoryListening(), source()).held_by("app", ("alice",))
    with pytest.raises(Rejected, match=r"listener\.filters\.sequenceAbove: must be left out"):
        await held.create("inbox", ReceiptDefinition(sequence_above=5), True)


@in_loop
async def test_held_credential_has_a_bounded_number_of_listeners() -> None:
    every = opened(MemoryListening(), source())
    held = every.held_by("app", ("alice",))
    for number in range(LISTENERS_HELD_MAX):
        await held.create(f"l{number}", ReceiptDefinition(), True)
    with pytest.raises(Rejected, match=f"at most {LISTENERS_HELD_MAX} listeners"):
        await held.create("more", ReceiptDefinition(), True)
    # A narrower credential of the same name cannot make room by forgetting those that it no longer sees.
    with pytest.raises(Rejected, match=f"at most {LISTENERS_HELD_MAX} listeners"):
        await every.held_by("app", ("bob",)).create("more", ReceiptDefinition(), True)
    await every.held_by("app2", ("alice",)).create("more", ReceiptDefinition(), True)


@in_loop
async def test_listeners_that_are_created_at_once_are_bounded() -> None:
    every = opened(MemoryListening(), source())
    held = every.held_by("app", ("alice",))
    made = (held.create(f"l{number}", ReceiptDefinition(), True) for number in range(2 * LISTENERS_HELD_MAX))
    ended = await asyncio.gather(*made, return_exceptions=True)
    assert sum(each is None for each in ended) == len(await every.listeners()) == LISTENERS_HELD_MAX
    assert all(isinstance(each, Rejected) for each in ended if each is not None)
