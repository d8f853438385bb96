"""One duty in a test's hands: told things, and asked what it orders."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar

from rota.automation.automation import Automation
from rota.automation.duty import Duty, DutySetup
from rota.automation.effects import CheckStaleness, Effect, Perform
from rota.automation.events import (
    Event,
    MembersSeen,
    NotPerformed,
    Performed,
    Refused,
    StalenessKnown,
    TaskDone,
    TasksFound,
    TasksListed,
    Tick,
)
from rota.automation.settings import Strategy, TriggerSettings
from rota.automation.strategies import Member
from rota.automation.tallies import Outcome
from rota.automation.triggers import Task

NAME = "chores"
ME, OTHER = Member("me"), Member("other")
BEGIN_MS = 1_000_000
Kind = TypeVar("Kind", bound=Effect)


@dataclass
class Bench:
    """A node with one trigger whose members are `ME` and `OTHER`."""

    settings: TriggerSettings = field(default_factory=TriggerSettings)
    members: tuple[Member, ...] = (ME, OTHER)
    period_ms: int | None = None
    is_paused: bool = False
    is_local: bool = False
    has_endings: bool = True
    set_aside: tuple[tuple[str, str], ...] = ()
    now_ms: int = BEGIN_MS
    effects: list[Effect] = field(default_factory=list)

    def __post_init__(self) -> None:
        setup = DutySetup(
            name=NAME,
            settings=self.settings,
            member=ME,
            is_local=self.is_local,
            period_ms=self.period_ms,
            has_endings=self.has_endings,
            is_paused=self.is_paused,
            set_aside=self.set_aside,
        )
        self.automation = Automation((setup,), b"seed")
        if self.members and not self.is_local:
            ranked = self.members if self.settings.strategy is Strategy.RANK else ()
            self.tell(MembersSeen(NAME, self.members, ranked))

    @property
    def duty(self) -> Duty:
        return self.automation.duties[NAME]

    def tell(self, event: Event) -> None:
        self.effects += self.automation.step(self.now_ms, event)

    def take(self, kind: type[Kind]) -> list[Kind]:
        """What was ordered of this kind since it was last asked."""
        found: list[Kind] = [each for each in self.effects if isinstance(each, kind)]
        self.effects = [each for each in self.effects if not isinstance(each, kind)]
        return found

    def one(self, kind: type[Kind]) -> Kind:
        (found,) = self.take(kind)
        return found

    def pass_ms(self, time_ms: int) -> None:
        """Every deadline until then is kept."""
        until_ms = self.now_ms + time_ms
        while (due_ms := self.automation.next_deadline_ms()) is not None and due_ms <= until_ms:
            self.now_ms = max(self.now_ms, due_ms)
            self.tell(Tick())
        self.now_ms = until_ms

    def find(self, *tasks: Task | str) -> None:
        """The ledger tells of tasks."""
        made = tuple(Task(each, self.now_ms) if isinstance(each, str) else each for each in tasks)
        self.tell(TasksFound(NAME, made))

    def listed(self, *tasks: Task | str) -> None:
        made = tuple(Task(each, self.now_ms) if isinstance(each, str) else each for each in tasks)
        self.tell(TasksListed(NAME, made))

    def fresh(self) -> None:
        """None of what is checked is done."""
        for check in self.take(CheckStaleness):
            self.tell(StalenessKnown(NAME, check.attempt))

    def stale(self, *tasks: str) -> None:
        """Of what is checked these are done."""
        for check in self.take(CheckStaleness):
            self.tell(StalenessKnown(NAME, check.attempt, tuple(t.id for t in check.tasks if t.id in tasks)))

    def until_performing(self) -> Perform:
        """The delay is over and nothing is done: the one action that is ordered."""
        self.fresh()
        self.pass_ms(200_000)
        self.fresh()
        return self.one(Perform)

    def done(self, task: str, by: Member | None = OTHER) -> None:
        self.tell(TaskDone(NAME, task, by))

    def succeeded(self, order: Perform, *done: str) -> None:
        self.tell(Performed(NAME, order.attempt, done or tuple(task.id for task in order.tasks)))

    def refused(self, order: Perform, reason: str = "no") -> None:
        self.tell(Refused(NAME, order.attempt, reason))

    def away(self, order: Perform) -> None:
        self.tell(NotPerformed(NAME, order.attempt, "the ledger is away"))

    def counts(self) -> dict[str, int]:
        """What was counted, without zeros."""
        return {outcome.value: count for outcome, count in self.duty.tally.outcomes.items() if count}

    def count(self, outcome: Outcome) -> int:
        return self.duty.tally.outcomes[outcome]


def ids(order: Perform | CheckStaleness) -> tuple[str, ...]:
    return tuple(task.id for task in order.tasks)
