"""Selection of the transactions that a follower sees one by one, when there are more than a person can follow.

Theory of operation. A busy node has hundreds of transactions a second, and a person can follow some tens. So all are
counted by milestone, and some are followed: these with every milestone from the first that this node sees of them until
they end. Followed ones are found by id in a dictionary, so that the others cost no more than this lookup.

In an interval the budget limits how many journeys begin. Transactions that are seen at their beginning come first, as
they can be shown whole; the rest of the budget goes to those that were first seen later on their way. Two kinds are
beyond the budget: failed ones, with a budget of their own, and those that a user has opened. Noted milestones without
room in an update come in the next. If more are under way than can be followed, the one that began first is given up,
and this is reported, so that its last state is not mistaken for the present one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Final, NamedTuple

from rota.model.types import ContractAddress, IntentId
from rota.service.watch.milestones import Milestone, Sighting

STEPS_MAX: Final = 16
# Bounds of those under way, and of those on the ledger but not reported yet: other nodes' ones never are reported.
FOLLOWED_MAX: Final = 2_000
ENDING_MAX: Final = 1_000

BEGUN_A_SECOND: Final = 40
TOLD_A_SECOND: Final = 200
CONTRACTS_A_SECOND: Final = 400
# Bounds of the interval for which a budget is computed.
LONGEST_MS: Final = 5_000
SHORTEST_MS: Final = 100

# The contract of a report, which names none.
NOWHERE: Final = ContractAddress("")

_BEGINNINGS: Final = frozenset({Milestone.ACCEPTED, Milestone.DELEGATED})


class Budget(NamedTuple):
    """The room in one update."""

    begun: int
    told: int
    contracts: int


def budget_of(interval_ms: int) -> Budget:
    """Return a budget with the same cost per second whatever the interval, small beside a node's work."""
    counted_ms = min(max(interval_ms, SHORTEST_MS), LONGEST_MS)
    return Budget(
        BEGUN_A_SECOND * counted_ms // 1_000,
        TOLD_A_SECOND * counted_ms // 1_000,
        CONTRACTS_A_SECOND * counted_ms // 1_000,
    )


class Noted(NamedTuple):
    """A milestone and its time."""

    sighting: Sighting
    at_ms: int


@dataclass(frozen=True, slots=True)
class Journey:
    """The news of one transaction. A last one, when it is given up, may have no steps."""

    intent: IntentId
    contract: ContractAddress
    steps: tuple[Noted, ...]
    is_given_up: bool = False


class Journeys:
    """The transactions that one follower sees. `opened` are always followed; the caller may change it meanwhile."""

    def __init__(self, budget: Budget, opened: Container[IntentId] = ()) -> None:
        self.counts: Counter[Milestone] = Counter()
        self.omitted = 0
        self._budget: Final = budget
        self._opened: Final = opened
        self._noted: Final[dict[IntentId, list[Noted]]] = {}
        self._followed: Final[dict[IntentId, ContractAddress]] = {}
        self._ending: Final[dict[IntentId, ContractAddress]] = {}
        self._late: Final[dict[IntentId, ContractAddress]] = {}
        self._given_up: Final[dict[IntentId, ContractAddress]] = {}
        # All followed ones but those given up, and failed ones until they are reported.
        self._known: Final[set[IntentId]] = set()
        self._begun_count = 0
        self._failed_count = 0

    def follow(self, found: Iterable[tuple[IntentId, ContractAddress]]) -> None:
        """Follow these, which are under way and were shown, and no others; clear all notes and counts."""
        for part in (self._noted, self._followed, self._ending, self._late, self._given_up):
            part.clear()
        self.counts, self.omitted, self._begun_count, self._failed_count = Counter(), 0, 0, 0
        self._followed.update(found)
        self._known.clear()
        self._known.update(self._followed)

    @property
    def has_news(self) -> bool:
        """Whether something is noted that had no room yet."""
        return bool(self._noted)

    def saw(self, sighting: Sighting, at_ms: int) -> None:
        """Count a sighting; note it for the transactions that are followed."""
        self.counts[sighting.milestone] += len(sighting.intents)
        step, room, known, opened = Noted(sighting, at_ms), self._room(sighting), self._known, self._opened
        # Most transactions have no follower: these cost one lookup each, and nothing else.
        told = [intent for intent in sighting.intents if intent in known or intent in opened]
        if room and len(told) < len(sighting.intents):
            new = [intent for intent in sighting.intents if intent not in known and intent not in opened]
            for intent in new[:room]:
                self._begin(intent, sighting)
            told += new[:room]
        for intent in told:
            self._note(intent, step)
        if sighting.milestone is Milestone.CONFIRMED or sighting.has_failed:
            self.omitted += len(sighting.intents) - len(told)

    def _note(self, intent: IntentId, step: Noted) -> None:
        steps = self._noted.setdefault(intent, [])
        if len(steps) == STEPS_MAX:
            del steps[0]
        steps.append(step)

    def _room(self, sighting: Sighting) -> int:
        """Return how many transactions that are first seen here may be listed."""
        if sighting.has_failed:
            return self._budget.begun - self._failed_count
        if sighting.milestone in _BEGINNINGS:
            return self._budget.begun - self._begun_count
        if sighting.milestone is Milestone.REPORTED:
            # The ledger's milestone came before, and counted then.
            return 0
        return max(0, self._budget.begun - self._begun_count - len(self._late))

    def _begin(self, intent: IntentId, sighting: Sighting) -> None:
        """Follow a transaction: at once if seen at its beginning; otherwise if the interval ends with room for it."""
        self._known.add(intent)
        if sighting.has_failed:
            self._failed_count += 1
        elif sighting.milestone in _BEGINNINGS:
            self._begun_count += 1
            self._follow(intent, sighting.contract)
        else:
            self._late[intent] = sighting.contract

    def _follow(self, intent: IntentId, contract: ContractAddress) -> None:
        self._followed[intent] = contract
        if len(self._followed) > FOLLOWED_MAX:
            oldest = next(iter(self._followed))
            self._given_up[oldest] = self._followed.pop(oldest)
            self._known.discard(oldest)

    def take(self) -> tuple[Journey, ...]:
        """Return the journeys for this update, and begin the budget of the next interval."""
        self._choose_late()
        self._begun_count = self._failed_count = 0
        given_up = [
            Journey(intent, contract, tuple(self._noted.pop(intent, ())), is_given_up=True)
            for intent, contract in self._given_up.items()
        ]
        self._given_up.clear()
        told = list(islice(self._noted, max(0, self._budget.told - len(given_up))))
        return (*given_up, *(self._journey(intent) for intent in told))

    def _choose_late(self) -> None:
        """Follow the first of those seen late, as far as those seen at their beginning leave room; drop the others."""
        room = self._budget.begun - self._begun_count
        for place, (intent, contract) in enumerate(self._late.items()):
            if place < room:
                self._follow(intent, contract)
            else:
                self._known.discard(intent)
                steps = self._noted.pop(intent)
                self.omitted += any(step.sighting.milestone is Milestone.CONFIRMED for step in steps)
        self._late.clear()

    def _journey(self, intent: IntentId) -> Journey:
        steps = tuple(self._noted.pop(intent))
        known = self._followed.get(intent) or self._ending.get(intent) or NOWHERE
        contract = next((step.sighting.contract for step in reversed(steps) if step.sighting.contract), known)
        for step in steps:
            if step.sighting.milestone is Milestone.CONFIRMED and intent in self._followed:
                self._end(intent)
            elif step.sighting.milestone is Milestone.REPORTED:
                self._followed.pop(intent, None)
                self._ending.pop(intent, None)
                self._known.discard(intent)
        return Journey(intent, contract, steps)

    def _end(self, intent: IntentId) -> None:
        """Keep one that is on the ledger for its report: it may be a local user's, or the ledger may take it back."""
        self._ending[intent] = self._followed.pop(intent)
        if len(self._ending) > ENDING_MAX:
            oldest = next(iter(self._ending))
            del self._ending[oldest]
            self._known.discard(oldest)
