"""A user's own trigger at many members, against contracts that are models in Python.

Theory of operation. Every node has its own instance of the trigger, made by the same function, and queries the models
as it would query a chain. Reads are answered at once from the ledger's state; a transaction takes `task_ms` until it is
in a block, and is reverted as a whole if the model refuses it. Events reach each node with a delay of its own. The
result of every task in every transaction is recorded, as the trigger itself reads it from the events.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final, TypeVar

from rota.automation.duty import DutySetup
from rota.automation.events import LookWanted, TaskDone, TasksFound
from rota.automation.settings import Strategy, TriggerSettings
from rota.automation.triggers import (
    Action,
    Ask,
    Call,
    Here,
    LedgerEvent,
    Question,
    Read,
    Reverted,
    Task,
    Trigger,
    Watch,
    Work,
)
from rota.model.types import ContractAddress, NodeName
from rota.sim.automation import BLOCK_MS, AutomationWorld, Conditions, MemberNode, Record, Verdict

Answer = TypeVar("Answer")
Service = Callable[..., object]


class ModelContract:
    """A contract in Python: its functions are methods of the same names, and it raises `Reverted` to refuse.

    In a method, `self.sender` is the caller, `self.time_s` the time of the block, and `self.emit` logs an event under
    the signature that triggers watch.
    """

    sender: ContractAddress = ContractAddress("0x" + "00" * 20)
    time_s: int = 0

    def emit(self, event: str, *arguments: object) -> None:
        """Log an event with its arguments."""
        self.__dict__.setdefault("_emitted", []).append((event, arguments))

    def take_emitted(self) -> list[tuple[str, tuple[Any, ...]]]:
        """The events logged since the last call."""
        found: list[tuple[str, tuple[Any, ...]]] = self.__dict__.pop("_emitted", [])
        return found


def account_of(name: str) -> ContractAddress:
    """The account of a simulated node."""
    return ContractAddress("0x" + name.encode().hex().rjust(40, "0")[-40:])


class TriggerWorld(AutomationWorld):
    """Members that run one trigger of a user."""

    def __init__(
        self,
        seed: int,
        names: Iterable[str],
        strategy: Strategy,
        conditions: Conditions,
        make_trigger: Callable[[], Trigger],
        contracts: Mapping[ContractAddress, ModelContract],
        services: Mapping[str, Service] | None = None,
    ) -> None:
        super().__init__(seed, names, strategy, conditions)
        self.contracts: Final = dict(contracts)
        self.triggers: Final = {name: make_trigger() for name in self.nodes}
        self.trigger_name = next(iter(self.triggers.values())).name
        self._services: Final = dict(services or {})
        # The members by the names that the trigger uses, which may be accounts.
        self.known_as: Final = {name: self.triggers[name].member(self.here(node)) for name, node in self.nodes.items()}

    def here(self, node: MemberNode) -> Here:
        """The node's identity and time, for its trigger."""
        return Here(NodeName(node.name), account_of(node.name), node.name, self.now_ms)

    def ledger_call(self, contract: ContractAddress, sender: ContractAddress, function: str, *arguments: object) -> Any:  # noqa: ANN401
        """Execute a transaction of any account now; returns the function's result, raises `Reverted` when undone."""
        before = copy.deepcopy(self.contracts)
        try:
            returned = self._invoke(contract, sender, function, arguments)
        except Reverted:
            self.contracts.update(before)
            raise
        self._spread(self._take_events())
        return returned

    # Queries of nodes.

    def setup_of(self, node: MemberNode, settings: TriggerSettings) -> DutySetup:
        """The setup of a node's duty, from its trigger."""
        trigger = self.triggers[node.name]
        members = self.work(node, trigger.members(self.here(node)))
        node.members = tuple(self.known_as.values()) if members is None else members
        node.ranked = node.members if node.strategy is Strategy.RANK else ()
        return DutySetup(
            name=trigger.name,
            settings=settings,
            member=self.known_as[node.name],
            is_local=trigger.is_local,
            period_ms=trigger.period_ms,
            has_endings=bool(trigger.watches),
            is_paused=node.is_paused,
            set_aside=tuple(node.set_aside.items()),
        )

    def listed_by(self, node: MemberNode) -> tuple[Task, ...]:
        """The tasks that a node's trigger lists."""
        found = tuple(self.work(node, self.triggers[node.name].tasks(self.here(node))))
        self.board.tasks.update({task.id: task for task in found})
        return found

    def stale_to(self, node: MemberNode, tasks: tuple[Task, ...]) -> tuple[str, ...]:
        """Those of the tasks that a node's trigger takes as done."""
        trigger, here = self.triggers[node.name], self.here(node)
        return tuple(task.id for task in tasks if self.work(node, trigger.is_stale(task, here)))

    def work(self, node: MemberNode, asking: Work[Answer]) -> Answer:
        """Run a trigger's generator, answering all its questions at once."""
        answer: Any = None
        refusal: Reverted | None = None
        while True:
            try:
                question = asking.send(answer) if refusal is None else asking.throw(refusal)
            except StopIteration as end:
                found: Answer = end.value
                return found
            answer = refusal = None
            try:
                answer = self._answer(node, question)
            except Reverted as reverted:
                refusal = reverted

    def _answer(self, node: MemberNode, question: Question) -> object:
        if isinstance(question, Read):
            return self._invoke(question.contract, account_of(node.name), question.function, question.arguments)
        return self._ask(question)

    def _ask(self, question: Ask) -> object:
        return self._services[question.service](*question.arguments)

    def _invoke(self, contract: ContractAddress, sender: ContractAddress, function: str, arguments: Any) -> Any:  # noqa: ANN401
        model = self.contracts.get(contract)
        if model is None:
            raise Reverted(f"there is no contract at {contract}")
        model.sender, model.time_s = sender, self.now_ms // BLOCK_MS
        return getattr(model, function.partition("(")[0])(*arguments)

    # Transactions.

    def apply(self, node: MemberNode, tasks: tuple[Task, ...], *, is_heard: bool) -> tuple[str, ...] | None:
        """Execute the trigger's own action as a whole; returns the tasks done, or None when it is reverted."""
        trigger, here = self.triggers[node.name], self.here(node)
        late = self.stale_to(node, tasks)
        before = copy.deepcopy(self.contracts)
        try:
            self._act(node, trigger.action(tasks, here))
        except Reverted:
            self.contracts.update(before)
            for task in tasks:
                verdict = Verdict.TOO_LATE if task.id in late else Verdict.REFUSED
                self.board.records.append(Record(self.now_ms, task.id, node.name, verdict, is_heard))
            return None
        events = self._take_events()
        watched = tuple(event for event in events if Watch(event.contract, event.event) in trigger.watches)
        done = trigger.done_in(tasks, watched, here)
        for task_id in done:
            self.board.records.append(Record(self.now_ms, task_id, node.name, Verdict.PERFORMED, is_heard))
            self.board.done[task_id] = (self.now_ms, node.name)
        for task in tasks:
            if task.id not in done:
                verdict = Verdict.TOO_LATE if task.id in late else Verdict.REFUSED
                self.board.records.append(Record(self.now_ms, task.id, node.name, verdict, is_heard))
        self._spread(events)
        return done

    def _act(self, node: MemberNode, action: Action) -> None:
        if isinstance(action, Call):
            self._invoke(action.contract, account_of(node.name), action.function, action.arguments)
        else:
            self._ask(action)

    def _take_events(self) -> tuple[LedgerEvent, ...]:
        return tuple(
            LedgerEvent(address, event, arguments, ledger_ms=self.now_ms)
            for address, model in self.contracts.items()
            for event, arguments in model.take_emitted()
        )

    def _spread(self, events: tuple[LedgerEvent, ...]) -> None:
        for node in self.nodes.values():
            for event in events:
                self.after(self.seen_ms(), partial(self._see_event, node, event))

    def _see_event(self, node: MemberNode, event: LedgerEvent) -> None:
        trigger = self.triggers[node.name]
        if node.core is None or Watch(event.contract, event.event) not in trigger.watches:
            return
        sighting = trigger.seen(event, self.here(node))
        for ending in sighting.endings:
            self.tell(node, TaskDone(self.trigger_name, ending.task, ending.by))
        if sighting.tasks:
            self.board.tasks.update({task.id: task for task in sighting.tasks})
            self.tell(node, TasksFound(self.trigger_name, sighting.tasks))
        if sighting.is_look_wanted:
            self.tell(node, LookWanted(self.trigger_name))

    # Results.

    def still_open(self) -> tuple[str, ...]:
        """The ready tasks that a node with a current view would still perform."""
        node = next(iter(self.nodes.values()))
        tasks = self.listed_by(node)
        stale = self.stale_to(node, tasks)
        return tuple(task.id for task in tasks if task.id not in stale and task.ready_ms <= self.now_ms)
