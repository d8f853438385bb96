"""Automation at work: the pure `Automation` in an event loop, its effects performed (docs/automation.md).

Theory of operation. Everything that happens is passed to the core as an event, and a step's effects are begun at once;
each is answered by an event. A separate task reads the ledger every `look_ms`: new blocks give the ledger's time,
events of contracts give tasks and outcomes. Less often it reads the list of members.

The clock is that of the process, which never jumps, set to the calendar once. A trigger is third-party code: any
exception of it is the trigger's own failure, logged and counted, and never the node's. State that must survive a
restart is written in order, and retried until it is written.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, Final

from rota.automation.automation import Automation
from rota.automation.duty import DutySetup
from rota.automation.effects import CheckStaleness, Effect, KeepPause, KeepSetAside, ListTasks, Perform, ReportRun, Warn
from rota.automation.events import (
    Event,
    LedgerTimeSeen,
    ListingFailed,
    LookWanted,
    MembersSeen,
    NotPerformed,
    PauseRequested,
    Performed,
    Refused,
    ResumeRequested,
    RunOnceRequested,
    StalenessKnown,
    StalenessUnknown,
    TaskDone,
    TasksFound,
    TasksListed,
    Tick,
)
from rota.automation.strategies import Member
from rota.automation.triggers import Here, LedgerEvent, Reverted, Task, Trigger
from rota.engine.clock import monotonic_ms
from rota.ledger.account import CallReverted, TransactionRejected, TransactionUndone
from rota.logs import catalogue
from rota.logs.trouble import Trouble
from rota.model.types import NodeName
from rota.ports import StoredAnnouncement, TriggerBook, Unanswerable, Unavailable
from rota.service.automation.desk import LedgerWatch, TriggerDesk, events_in
from rota.service.automation.loading import LoadedTrigger

QUESTIONS_TOGETHER_MAX: Final = 16
WRITES_WAITING_MAX: Final = 10_000
RETRY_S: Final = 1.0
MEMBERS_LOOK_MS: Final = 5_000

# Something to write, and the future of its caller, if any.
_Write = tuple[Callable[[], Awaitable[None]], asyncio.Future[None] | None]


class Automating:
    """The automation of one node.

    `nodes` returns the registered nodes, `heard` the announcements of peers in this run.
    """

    def __init__(
        self,
        node: NodeName,
        triggers: Sequence[LoadedTrigger],
        desk: TriggerDesk,
        watch: LedgerWatch,
        nodes: Callable[[], tuple[NodeName, ...]],
        heard: Callable[[], Mapping[NodeName, StoredAnnouncement]],
        seed: bytes,
        look_ms: int,
    ) -> None:
        self.node: Final = node
        self.triggers: Final = {loaded.name: loaded for loaded in triggers}
        self.desk: Final = desk
        self.ledger_transactions = 0
        self.trouble = ""
        self.core: Automation | None = None
        self._watch: Final = watch
        self._nodes: Final = nodes
        self._heard: Final = heard
        self._seed: Final = seed
        self._look_ms: Final = look_ms
        self._flaws: Final[defaultdict[tuple[str, str], Trouble]] = defaultdict(Trouble)
        self._announced: Final[dict[NodeName, StoredAnnouncement]] = {}
        self._seen_members: Final[dict[str, tuple[tuple[Member, ...], tuple[Member, ...]]]] = {}
        self._members_due_ms = 0
        self._runs: Final[dict[str, list[asyncio.Future[ReportRun]]]] = {}
        self._tasks: Final[set[asyncio.Task[None]]] = set()
        self._asking: Final = asyncio.Semaphore(QUESTIONS_TOGETHER_MAX)
        self._writes: Final[asyncio.Queue[_Write]] = asyncio.Queue(WRITES_WAITING_MAX)
        self._timer: asyncio.TimerHandle | None = None
        self._failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._book: TriggerBook | None = None
        self._epoch_ms: Final = time.time_ns() // 1_000_000 - monotonic_ms()

    @property
    def is_on_ledger(self) -> bool:
        """Whether any trigger concerns the ledger: triggers of the node itself need no reads of it."""
        return any(not each.trigger.is_local for each in self.triggers.values())

    # The run.

    async def run(self, book: TriggerBook) -> None:
        """Run until cancelled; an internal error is raised."""
        self._book = book
        await self._begin(book)
        self._spawn(self._write_on())
        if self.is_on_ledger:
            self._spawn(self._keep_looking())
        self._set_timer()
        try:
            await self._failed
        finally:
            if self._timer is not None:
                self._timer.cancel()
            tasks = tuple(self._tasks)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._end_waiting()

    async def _begin(self, book: TriggerBook) -> None:
        stored = await _until_done(book.restore)
        self._announced.update({each.node: each for each in stored.announcements})
        self.core = Automation(
            tuple(
                DutySetup(
                    name=name,
                    settings=loaded.settings,
                    member=loaded.trigger.member(self._here()),
                    is_local=loaded.trigger.is_local,
                    period_ms=loaded.trigger.period_ms,
                    has_endings=bool(loaded.trigger.watches),
                    is_paused=loaded.is_paused or name in stored.paused,
                    set_aside=tuple((task, reason) for of, task, reason in stored.set_aside if of == name),
                )
                for name, loaded in self.triggers.items()
            ),
            self._seed,
        )

    def _end_waiting(self) -> None:
        """Fail all open requests: the node is stopping."""
        stopping = Unavailable(f"{self.node} is stopping")
        for run in (each for runs in self._runs.values() for each in runs if not each.done()):
            run.set_exception(stopping)
        for _ in range(self._writes.qsize()):
            _, written = self._writes.get_nowait()
            if written is not None and not written.done():
                written.set_exception(stopping)

    # Operators.

    async def pause(self, trigger: str) -> None:
        """Pause a trigger; durable on return."""
        await self._tell_durably(PauseRequested(trigger))

    async def resume(self, trigger: str) -> None:
        """Resume a trigger; durable on return."""
        await self._tell_durably(ResumeRequested(trigger))

    async def run_once(self, trigger: str) -> ReportRun:
        """Attempt all ready tasks now; returns the result."""
        ended: asyncio.Future[ReportRun] = asyncio.get_running_loop().create_future()
        self._runs.setdefault(trigger, []).append(ended)
        self.tell(RunOnceRequested(trigger))
        return await ended

    async def _tell_durably(self, event: Event) -> None:
        """Step with an event and wait until its writes are durable: an empty write behind them marks the end."""
        written: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.tell(event)
        self._order_write(_nothing, written)
        await written

    # Steps.

    def now_ms(self) -> int:
        """Milliseconds of the Unix epoch, by a clock that never jumps."""
        return self._epoch_ms + monotonic_ms()

    def tell(self, event: Event) -> None:
        """Step with an event and begin the effects."""
        if self.core is None:
            raise Unavailable("automation has not begun")
        for effect in self.core.step(self.now_ms(), event):
            self._perform(effect)
        self._set_timer()

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        due_ms = self.core.next_deadline_ms() if self.core is not None else None
        if due_ms is not None and not self._failed.done():
            delay_s = max(0, due_ms - self.now_ms()) / 1_000
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._tick)

    def _tick(self) -> None:
        self._timer = None
        self.tell(Tick())

    def _perform(self, effect: Effect) -> None:
        match effect:
            case ListTasks(trigger):
                self._spawn(self._list(trigger))
            case CheckStaleness(trigger, attempt, tasks):
                self._spawn(self._check(trigger, attempt, tasks))
            case Perform(trigger, attempt, tasks):
                self._spawn(self._act(trigger, attempt, tasks))
            case KeepPause(trigger, is_paused):
                self._order_write(partial(self._the_book().keep_pause, trigger, is_paused))
            case KeepSetAside(trigger, task, reason):
                self._order_write(partial(self._the_book().keep_set_aside, trigger, task, reason))
            case ReportRun(trigger):
                for future in self._runs.pop(trigger, []):
                    if not future.done():
                        future.set_result(effect)
            case Warn(trigger, text):
                catalogue.TRIGGER_ATTENTION.log(trigger=trigger, reason=text)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None and not self._failed.done():
            self._failed.set_exception(error)

    # Questions and actions.

    async def _list(self, name: str) -> None:
        trigger = self.triggers[name].trigger
        try:
            async with self._asking:
                tasks = tuple(await self.desk.work(trigger.tasks(self._here())))
        except Exception as flaw:
            self.tell(ListingFailed(name, self._failure(name, "list", flaw)))
            return
        self._flaws[name, "list"].end()
        self.tell(TasksListed(name, tasks))

    async def _check(self, name: str, attempt: int, tasks: tuple[Task, ...]) -> None:
        trigger = self.triggers[name].trigger
        try:
            async with self._asking:
                stale = [task.id for task in tasks if await self.desk.work(trigger.is_stale(task, self._here()))]
        except Exception as flaw:
            self.tell(StalenessUnknown(name, attempt, self._failure(name, "check", flaw)))
            return
        self._flaws[name, "check"].end()
        self.tell(StalenessKnown(name, attempt, tuple(stale)))

    async def _act(self, name: str, attempt: int, tasks: tuple[Task, ...]) -> None:
        trigger, here = self.triggers[name].trigger, self._here()
        try:
            logs = await self.desk.act(trigger.action(tasks, here))
            done = trigger.done_in(tasks, events_in(logs, trigger.watches), here)
        except (CallReverted, TransactionUndone, Reverted) as refusal:
            self.tell(Refused(name, attempt, str(refusal)))
        except (Unavailable, TransactionRejected) as trouble:
            self.tell(NotPerformed(name, attempt, str(trouble)))
        except Exception as flaw:
            self.tell(Refused(name, attempt, self._failure(name, "act", flaw)))
        else:
            self._flaws[name, "act"].end()
            self.tell(Performed(name, attempt, done))

    def _failure(self, name: str, step: str, flaw: Exception) -> str:
        """Return the reason as text. Log a failure of the trigger's own code, once until the step succeeds."""
        if isinstance(flaw, Unavailable):
            return str(flaw)
        if self._flaws[name, step].is_new(f"{type(flaw).__name__}: {flaw}"):
            catalogue.TRIGGER_FAILED.log(trigger=name, error=flaw)
        return f"{type(flaw).__name__}: {flaw}"

    def _here(self) -> Here:
        now_ms = self.now_ms()
        ledger_ms = self.core.clock.ledger_ms(now_ms) if self.core is not None else now_ms
        return Here(self.node, self.desk.account.address, Member(self.node), ledger_ms)

    # The ledger.

    async def _keep_looking(self) -> None:
        while True:
            try:
                if self.now_ms() >= self._members_due_ms:
                    await self._look_for_members()
                await self._look()
                self.trouble = ""
            except Unavailable as trouble:
                if str(trouble) != self.trouble:
                    catalogue.AUTOMATION_LEDGER_UNAVAILABLE.log(reason=str(trouble))
                self.trouble = str(trouble)
            await asyncio.sleep(self._look_ms / 1_000)

    async def _look(self) -> None:
        looked = await self._watch.look()
        self.ledger_transactions += looked.transactions
        for time_ms in looked.times_ms:
            self.tell(LedgerTimeSeen(time_ms))
        for event in looked.events:
            for name, loaded in self.triggers.items():
                if any(
                    (watch.contract, watch.event) == (event.contract, event.event) for watch in loaded.trigger.watches
                ):
                    self._show(name, loaded.trigger, event)

    def _show(self, name: str, trigger: Trigger, event: LedgerEvent) -> None:
        try:
            sighting = trigger.seen(event, self._here())
        except Exception as flaw:
            self._failure(name, "seen", flaw)
            return
        self._flaws[name, "seen"].end()
        for ending in sighting.endings:
            self.tell(TaskDone(name, ending.task, ending.by))
        if sighting.tasks:
            self.tell(TasksFound(name, sighting.tasks))
        if sighting.is_look_wanted:
            self.tell(LookWanted(name))

    async def _look_for_members(self) -> None:
        self._hear()
        trouble: Unavailable | None = None
        for name, loaded in self.triggers.items():
            if loaded.trigger.is_local:
                continue
            try:
                members = await self.desk.work(loaded.trigger.members(self._here()))
            except Unavailable as away:
                trouble = away
                continue
            except Exception as flaw:
                self._failure(name, "members", flaw)
                continue
            self._flaws[name, "members"].end()
            found = tuple(Member(each) for each in self._nodes()) if members is None else members
            ranking = [
                known
                for each in self._announced.values()
                if name in each.ranked
                for known in (Member(each.node), Member(each.account))
            ]
            seen = found, tuple(member for member in found if member in ranking)
            if seen != self._seen_members.get(name):
                self._seen_members[name] = seen
                self.tell(MembersSeen(name, *seen))
        if trouble is not None:
            raise trouble
        self._members_due_ms = self.now_ms() + MEMBERS_LOOK_MS

    def _hear(self) -> None:
        """Remember the announcements of peers, so that a peer that is away remains a member."""
        for node, announced in self._heard().items():
            if self._announced.get(node) != announced:
                self._announced[node] = announced
                self._order_write(partial(self._the_book().keep_announcement, announced))

    # Writing.

    def _the_book(self) -> TriggerBook:
        assert self._book is not None, "it runs"
        return self._book

    def _order_write(self, write: Callable[[], Awaitable[None]], written: asyncio.Future[None] | None = None) -> None:
        try:
            self._writes.put_nowait((write, written))
        except asyncio.QueueFull:
            catalogue.AUTOMATION_QUEUE_FULL.log(waiting=WRITES_WAITING_MAX)
            if written is not None:
                written.set_exception(Unavailable("the store is away, and too much waits for it"))

    async def _write_on(self) -> None:
        while True:
            write, written = await self._writes.get()
            try:
                await _until_done(write)
            except Unanswerable as flaw:
                # A name or a text that no column can hold: retrying it would block all writes behind it.
                catalogue.AUTOMATION_WRITE_REJECTED.log(reason=str(flaw))
            if written is not None and not written.done():
                written.set_result(None)


async def _nothing() -> None:
    """Write nothing."""


async def _until_done(ask: Callable[[], Awaitable[Any]]) -> Any:  # noqa: ANN401  # Whatever it answers.
    repeated = Trouble()
    while True:
        try:
            return await ask()
        except Unanswerable:
            raise
        except Unavailable as trouble:
            if repeated.is_new(str(trouble)):
                catalogue.AUTOMATION_STORE_UNAVAILABLE.log(reason=str(trouble))
            await asyncio.sleep(RETRY_S)
