"""What triggers ask of the world, on a real chain; and triggers that fail by their own fault."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from rota.automation.settings import TriggerSettings
from rota.automation.triggers import Action, Ask, Call, Here, Read, Reverted, Task, Trigger, Watch, Work
from rota.ledger.account import Account, AccountLimits, CallReverted
from rota.ledger.bindings import creation_code
from rota.ledger.client import ClientLimits, RpcClient
from rota.model.types import ContractAddress, NodeName
from rota.ports import StoredAnnouncement, StoredTriggers, Unanswerable, Unavailable
from rota.service.automation.automation import Automating
from rota.service.automation.desk import LedgerWatch, Service, TooManyQuestions, TriggerDesk
from rota.service.automation.loading import LoadedTrigger
from tests.ledger.chains import CHAIN_ID, Chain, in_loop, running
from tests.ledger.participant import PAYER, OneKey

NODE = NodeName("node1")
NOWHERE = ContractAddress("0x" + "77" * 20)
PROPOSED = "Proposed(uint256 indexed, address indexed, address, bytes)"


@dataclass
class Office:
    """A desk on a chain, and a contract of which this account is the only member."""

    chain: Chain
    client: RpcClient
    desk: TriggerDesk
    proposals: ContractAddress

    async def propose(self) -> None:
        await self.desk.act(Call(self.proposals, "propose(address,bytes)", (self.proposals, b"")))


@asynccontextmanager
async def office(home: Path, **services: Service) -> AsyncIterator[Office]:
    async with running("embedded", home) as chain:
        client = RpcClient(chain.url, ClientLimits(backoff_ms=1, backoff_max_ms=5))
        account = Account(client, CHAIN_ID, OneKey(), "registrar", AccountLimits(look_ms=1))
        try:
            made = (await account.transact(None, creation_code("Proposals", [PAYER]))).contract
            assert made is not None
            yield Office(chain, client, TriggerDesk(account, services), made)
        finally:
            await client.close()


async def answered(given: int) -> int:
    return given + 1


@in_loop
async def test_questions_are_answered_one_after_the_other(tmp_path: Path) -> None:
    async with office(tmp_path, more=answered) as made:

        def asking() -> Work[list[object]]:
            found: list[object] = [(yield Read(made.proposals, "members()", returns=("address[]",)))]
            found.append((yield Read(made.proposals, "isMember(address)", (PAYER,), ("bool",))))
            found.append((yield Ask("more", (1,))))
            try:
                yield Read(made.proposals, "proposalOf(uint256)", (7,), ("address", "bytes", "uint256", "bool"))
            except Reverted as reverted:
                found.append(str(reverted))
            return found

        assert await made.desk.work(asking()) == [(PAYER,), True, 2, "UnknownProposal(id 7)"]


@in_loop
async def test_what_the_world_cannot_say_ends_the_work(tmp_path: Path) -> None:
    async with office(tmp_path) as made:

        def asking(question: Read | Ask) -> Work[object]:
            return (yield question)

        for question in (Read(NOWHERE, "epoch()", returns=("uint256",)), Ask("nothing")):
            with pytest.raises(Unavailable):
                await made.desk.work(asking(question))


@in_loop
async def test_a_trigger_that_asks_without_end_is_stopped(tmp_path: Path) -> None:
    async with office(tmp_path, more=answered) as made:

        def asking() -> Work[None]:
            while True:
                yield Ask("more", (1,))

        with pytest.raises(TooManyQuestions):
            await made.desk.work(asking())


@in_loop
async def test_several_transactions_are_under_way_at_a_time(tmp_path: Path) -> None:
    async with office(tmp_path) as made:
        await asyncio.gather(*(made.propose() for _ in range(5)))
        assert made.desk.transactions_mined == 5
        with pytest.raises(CallReverted, match="NoTarget"):
            await made.desk.act(Call(made.proposals, "propose(address,bytes)", (NOWHERE, b"")))


@in_loop
async def test_a_look_shows_events_times_and_transactions_since_the_last(tmp_path: Path) -> None:
    async with office(tmp_path) as made:
        watch = LedgerWatch(made.client, (Watch(made.proposals, PROPOSED), Watch(NOWHERE, PROPOSED)))
        await made.propose()
        assert (await watch.look()).events == (), "it begins with the latest block"
        for _ in range(3):
            await made.propose()
        looked = await watch.look()
        assert [event.arguments[0] for event in looked.events] == [1, 2, 3]
        assert all(event.arguments[1] == PAYER and event.ledger_ms for event in looked.events)
        assert looked.transactions == 3
        assert len(looked.times_ms) == 1
        assert (await watch.look()).times_ms == (), "nothing is new"


# Triggers that fail by their own fault.


@dataclass
class MemoryBook:
    """A `TriggerBook` that forgets nothing while the test lasts."""

    kept: StoredTriggers = StoredTriggers()
    paused: set[str] = field(default_factory=set)
    away: int = 0

    async def restore(self) -> StoredTriggers:
        return self.kept

    async def keep_pause(self, trigger: str, is_paused: bool) -> None:
        if self.away:
            self.away -= 1
            raise Unavailable("the store is away")
        (self.paused.add if is_paused else self.paused.discard)(trigger)

    async def keep_set_aside(self, trigger: str, task: str, reason: str | None) -> None:
        """It is asked of the duty."""

    async def keep_announcement(self, announced: StoredAnnouncement) -> None:
        """Nobody announces anything here."""


class Faulty(Trigger):
    """Fails where it is told to."""

    name = "faulty"
    is_local = True

    def __init__(self, place: str = "") -> None:
        self.place = place
        self.done = False

    def tasks(self, here: Here) -> Work[tuple[Task, ...]]:
        yield from ()
        if self.place == "tasks":
            raise KeyError("oops")
        return () if self.done else (Task("one"),)

    def is_stale(self, task: Task, here: Here) -> Work[bool]:
        yield from ()
        if self.place == "is_stale":
            raise KeyError("oops")
        return self.done

    def action(self, tasks: tuple[Task, ...], here: Here) -> Action:
        if self.place == "action":
            raise KeyError("oops")
        return Ask("do")


@asynccontextmanager
async def automating(home: Path, trigger: Faulty, book: MemoryBook) -> AsyncIterator[Automating]:
    async def do() -> None:
        trigger.done = True

    async with office(home, do=do) as made:
        nobody: Callable[[], Mapping[NodeName, StoredAnnouncement]] = dict
        running_ = Automating(
            NODE,
            (LoadedTrigger(trigger, TriggerSettings(polling_interval_ms=10_000)),),
            made.desk,
            LedgerWatch(made.client, ()),
            lambda: (NODE,),
            nobody,
            b"seed",
            look_ms=20,
        )
        life = asyncio.create_task(running_.run(book))
        while running_.core is None:
            await asyncio.sleep(0)
        try:
            yield running_
        finally:
            life.cancel()
            await asyncio.gather(life, return_exceptions=True)


@pytest.mark.parametrize("place", ["tasks", "is_stale", "action"])
@in_loop
async def test_a_fault_of_a_trigger_is_its_own_failure_and_not_the_nodes(place: str, tmp_path: Path) -> None:
    trigger = Faulty(place)
    async with automating(tmp_path, trigger, MemoryBook()) as made:
        assert made.core is not None
        duty = made.core.duties["faulty"]
        while "KeyError: 'oops'" not in duty.trouble:
            await asyncio.sleep(0.002)
        trigger.place = ""
        ended = await made.run_once("faulty")
        assert (ended.won, ended.failed) == (1, 0)
        assert trigger.done


@in_loop
async def test_a_pause_is_durable_when_it_is_answered(tmp_path: Path) -> None:
    book = MemoryBook()
    async with automating(tmp_path, Faulty(), book) as made:
        await made.pause("faulty")
        assert book.paused == {"faulty"}
        await made.resume("faulty")
        assert book.paused == set()


@in_loop
async def test_a_write_that_no_column_can_hold_does_not_hold_up_those_behind_it(tmp_path: Path) -> None:
    book = MemoryBook()

    async def refuse() -> None:
        raise Unanswerable("a NUL in a name")

    async with automating(tmp_path, Faulty(), book) as made:
        made._order_write(refuse)
        await made.pause("faulty")
        assert book.paused == {"faulty"}


@in_loop
async def test_whoever_waits_when_the_node_stops_is_told(tmp_path: Path) -> None:
    book = MemoryBook(away=1_000_000)
    async with automating(tmp_path, Faulty(), book) as made:
        pausing = asyncio.create_task(made.pause("faulty"))
        await asyncio.sleep(0.01)
    with pytest.raises(Unavailable, match="is stopping"):
        await pausing


@in_loop
async def test_nobody_steers_what_has_not_begun(tmp_path: Path) -> None:
    async with office(tmp_path) as made:
        idle = Automating(NODE, (), made.desk, LedgerWatch(made.client, ()), lambda: (), dict, b"", look_ms=20)
        with pytest.raises(Unavailable, match="has not begun"):
            await idle.pause("faulty")
