"""The automation of one node: `step(now, event) -> effects`, like the core's, over all its triggers.

`now_ms` is the node's own clock, in milliseconds of the Unix epoch, and never runs backwards; the ledger's time comes
with `LedgerTimeSeen`. `next_deadline_ms` is when a `Tick` is due.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from rota.automation.draws import Draws
from rota.automation.duty import Duty, DutySetup
from rota.automation.effects import Effect
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
from rota.automation.standing import LedgerClock
from rota.automation.triggers import TRIGGERS_MAX


class Automation:
    """All triggers of one node in one run. Its delays are drawn from `seed`."""

    def __init__(self, setups: Iterable[DutySetup], seed: bytes) -> None:
        self.clock: Final = LedgerClock()
        self.duties: Final = {
            setup.name: Duty(setup, Draws(seed + b"/" + setup.name.encode()), self.clock) for setup in setups
        }
        assert len(self.duties) <= TRIGGERS_MAX, f"a node has at most {TRIGGERS_MAX} triggers"
        self._now_ms = 0

    def step(self, now_ms: int, event: Event) -> tuple[Effect, ...]:
        """Handle an event; returns the effects."""
        self._now_ms = max(self._now_ms, now_ms)
        match event:
            case Tick():
                return tuple(effect for duty in self.duties.values() for effect in self._take(duty, event))
            case LedgerTimeSeen(ledger_ms):
                self.clock.seen(ledger_ms, self._now_ms)
                return ()
            case _:
                return self._take(self.duties[event.trigger], event)

    def next_deadline_ms(self) -> int | None:
        """When a `Tick` is due; `None` while nothing waits."""
        deadlines = (duty.next_deadline_ms() for duty in self.duties.values())
        return min((each for each in deadlines if each is not None), default=None)

    def _take(self, duty: Duty, event: Event) -> tuple[Effect, ...]:
        duty.now_ms = self._now_ms
        _tell(duty, event)
        effects = tuple(duty.effects)
        duty.effects.clear()
        return effects


def _tell(duty: Duty, event: Event) -> None:
    match event:
        case Tick():
            duty.tick()
        case MembersSeen(_, members, ranked):
            duty.members_seen(members, ranked)
        case LookWanted():
            duty.look_soon()
        case TasksListed(_, tasks):
            duty.tasks_listed(tasks)
        case ListingFailed(_, reason):
            duty.listing_failed(reason)
        case TasksFound(_, tasks):
            duty.tasks_found(tasks)
        case TaskDone(_, task, by):
            duty.task_done(task, by)
        case StalenessKnown(_, attempt, stale):
            duty.staleness_known(attempt, stale)
        case StalenessUnknown(_, attempt, reason):
            duty.staleness_unknown(attempt, reason)
        case Performed(_, attempt, done):
            duty.performed(attempt, done)
        case Refused(_, attempt, reason):
            duty.refused(attempt, reason)
        case NotPerformed(_, attempt, reason):
            duty.not_performed(attempt, reason)
        case PauseRequested():
            duty.pause()
        case ResumeRequested():
            duty.resume()
        case RunOnceRequested():
            duty.run_once()
        case LedgerTimeSeen():
            raise AssertionError("the ledger's time is all duties' affair")
