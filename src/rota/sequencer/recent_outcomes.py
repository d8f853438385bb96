"""The recent outcomes of one contract in this node's own chain index.

The ledger alone decides; its outcomes are kept here for as long as they may be needed: a hand-over may
name flush points that this node has seen confirmed already, and a sender may delegate an intent that is
on the chain. A coordinator also asks which states were spent, so that it pays for no transition that the chain skips,
and since when, so that it knows which sender is at fault for a skip. The memory is bounded; for a forgotten outcome the
ledger itself decides, which commits no intent twice.
"""

from __future__ import annotations

from collections.abc import Iterable

from rota.machine.bounded import forget_oldest
from rota.model.blocks import LedgerOutcome, LedgerStatus
from rota.model.types import FlushPoint, IntentId, Leaf, StateId

OUTCOMES_KEPT_MAX = 8_192
SPENT_KEPT_MAX = 65_536


class RecentOutcomes:
    """The latest outcomes of a contract, oldest forgotten first."""

    def __init__(self) -> None:
        self._points: dict[FlushPoint, int] = {}
        self._committed: dict[IntentId, Leaf] = {}
        # The intents whose block may still be taken back.
        self._unfinal: dict[IntentId, None] = {}
        # Each spent state, and the count of outcomes at that time.
        self._spent: dict[StateId, int] = {}
        self._doubtful_until = 0
        self.count = 0

    def note(self, outcome: LedgerOutcome) -> None:
        """Note an indexed outcome."""
        point = FlushPoint(outcome.digest, outcome.intent)
        self._points[point] = self._points.get(point, 0) + 1
        self.count += 1
        if outcome.status is LedgerStatus.COMMITTED:
            self._committed[outcome.intent] = outcome.leaf
            self._unfinal[outcome.intent] = None
            for state in outcome.inputs:
                self._spent[state] = self.count
            while len(self._spent) > SPENT_KEPT_MAX:
                self._doubtful_until = self._spent.pop(next(iter(self._spent)))
        forget_oldest(self._points, OUTCOMES_KEPT_MAX)
        if len(self._committed) > OUTCOMES_KEPT_MAX:
            forgotten = next(iter(self._committed))
            del self._committed[forgotten]
            self._unfinal.pop(forgotten, None)

    def note_final(self, outcome: LedgerOutcome) -> None:
        """Note that its block is final."""
        if outcome.status is LedgerStatus.COMMITTED:
            self._unfinal.pop(outcome.intent, None)

    def undo(self, outcome: LedgerOutcome) -> None:
        """Undo an outcome; another of the same round stands, as rounds may be submitted again."""
        point = FlushPoint(outcome.digest, outcome.intent)
        count = self._points.pop(point, 0)
        if count > 1:
            self._points[point] = count - 1
        if outcome.status is LedgerStatus.COMMITTED and self._committed.get(outcome.intent) == outcome.leaf:
            del self._committed[outcome.intent]
            self._unfinal.pop(outcome.intent, None)
        self.count += 1
        self._doubtful_until = self.count
        for state in outcome.inputs:
            self._spent.pop(state, None)

    def is_settled(self, point: FlushPoint) -> bool:
        """Whether the flush point has its outcome, skipped included, or its intent was committed otherwise."""
        return point in self._points or point.intent in self._committed

    def is_committed(self, intent: IntentId) -> bool:
        """Whether the intent is on the chain."""
        return intent in self._committed

    def is_final(self, intent: IntentId) -> bool:
        """Whether the intent is on the chain in a final block."""
        return intent in self._committed and intent not in self._unfinal

    def are_unspent(self, states: Iterable[StateId]) -> bool:
        """Whether none of these states was spent lately."""
        return not self._spent or all(state not in self._spent for state in states)

    def may_be_spent_since(self, states: Iterable[StateId], count: int) -> bool:
        """Whether one of these was spent after that count of outcomes, or may have been, since older ones are gone."""
        return self._doubtful_until > count or any(self._spent.get(state, 0) > count for state in states)

    def leaf_of(self, intent: IntentId) -> Leaf | None:
        """Return the leaf under which the chain has the intent's id, or None."""
        return self._committed.get(intent)
