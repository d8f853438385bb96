"""A node's triggers as operators see them (`service.interface.Triggers`)."""

from __future__ import annotations

from typing import Final

from rota.automation.attempts import AT_WORK
from rota.automation.duty import Duty
from rota.automation.tallies import SECONDS, Outcome
from rota.automation.tallies import Spread as TalliedSpread
from rota.rpc import errors
from rota.service.automation.automation import Automating
from rota.service.interface import SetAside, Spread, TriggerRun, TriggerView


class Triggers:
    """`service.interface.Triggers` on a node's automation."""

    def __init__(self, automating: Automating) -> None:
        self._automating: Final = automating

    def list(self) -> tuple[TriggerView, ...]:
        """Return all triggers; none before the node has begun."""
        core = self._automating.core
        if core is None:
            return ()
        now_ms = self._automating.now_ms()
        return tuple(_view(duty, now_ms) for duty in core.duties.values())

    async def pause(self, name: str) -> None:
        """Pause a trigger."""
        await self._automating.pause(self._known(name))

    async def resume(self, name: str) -> None:
        """Resume a trigger."""
        await self._automating.resume(self._known(name))

    async def run_once(self, name: str) -> TriggerRun:
        """Attempt all ready tasks of a trigger now."""
        ended = await self._automating.run_once(self._known(name))
        return TriggerRun(ended.won, ended.lost, ended.skipped, ended.failed, ended.trouble)

    @property
    def transactions(self) -> int:
        """The number of transactions of all triggers that were mined in this run."""
        return self._automating.desk.transactions_mined

    @property
    def ledger_transactions(self) -> int | None:
        """The number of all transactions in the blocks of this run; None if no trigger concerns the ledger."""
        return self._automating.ledger_transactions if self._automating.is_on_ledger else None

    def _known(self, name: str) -> str:
        if name not in self._automating.triggers:
            there = ", ".join(self._automating.triggers)
            raise errors.invalid("name", f"must be a trigger of this node, which are {there}; not {name!r}")
        return name


def _view(duty: Duty, now_ms: int) -> TriggerView:
    counts = duty.tally.outcomes
    attempts = duty.attempts.by_number.values()
    return TriggerView(
        name=duty.name,
        strategy=duty.strategy.value,
        wanted_strategy=duty.settings.strategy.value,
        is_paused=duty.is_paused,
        is_member=duty.member in duty.members,
        members=len(duty.members),
        waiting=sum(len(each.tasks) for each in attempts if each.phase not in AT_WORK),
        at_work=duty.attempts.at_work,
        won=counts[Outcome.WON],
        lost=counts[Outcome.LOST],
        skipped=counts[Outcome.SKIPPED],
        failed=counts[Outcome.FAILED],
        breaker=duty.breaker.state(now_ms).value,
        breaker_opened_total=duty.breaker.opened,
        expected_task_duration_ms=duty.settings.expected_task_duration_ms,
        polling_interval_ms=duty.settings.polling_interval_ms,
        parallel_tasks=duty.settings.parallel_tasks,
        slot_ms=duty.slot_ms,
        durations=_spread(duty.tally.durations),
        waits=_spread(duty.tally.waits),
        trouble=duty.trouble,
        set_aside=tuple(SetAside(task, reason) for task, reason in duty.set_aside.items()),
    )


def _spread(tallied: TalliedSpread) -> Spread:
    return Spread(SECONDS, tuple(tallied.counts), tallied.sum_ms / 1_000)
