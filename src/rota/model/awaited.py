"""Leaves that transactions of this node depend on, whichever node they are of; one per node.

Theory of operation. A user names a private transaction of another node by contract, id and leaf (`dependsOn`). The
own chain index decides what becomes of it, by leaf (trust rule 1): it is confirmed when a final block commits that leaf
under the id, and reverted when a final block commits something else there, which leaves no place for the leaf. Neither
the other node nor a peer is asked. The store answers for the blocks that were final before the leaf was noted, and
later blocks come here, so that nothing falls between. After a restart the dependents note their leaves again.

A leaf that is never committed ends with its bound: when the store has answered and the final time of the chain is past
`valid_until_s`. A leaf whose dependents have all ended is forgotten.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Final, NamedTuple

from rota.model.blocks import LedgerOutcome, LedgerStatus
from rota.model.types import AwaitedLeaf, ContractAddress, Dependency, IntentId, Leaf, Outcome, intent_text

REVERTED: Final = "was reverted"
ID_USED: Final = "cannot be committed: another transition uses its id"
NOT_IN_TIME: Final = "was not committed in time"
NEVER_S: Final = 2**63


class Ended(NamedTuple):
    """What became of a leaf; `reason` is why it is not committed."""

    leaf: AwaitedLeaf
    outcome: Outcome
    reason: str


def outcomes_of(
    leaves: Iterable[AwaitedLeaf], committed: Mapping[tuple[ContractAddress, IntentId], Leaf]
) -> tuple[tuple[AwaitedLeaf, Outcome], ...]:
    """The outcomes of the leaves whose id a final block has used, for the leaf or for another one."""
    found = ((each, committed.get((each.contract, each.intent))) for each in leaves)
    return tuple(
        (each, Outcome.CONFIRMED if leaf == each.leaf else Outcome.REVERTED) for each, leaf in found if leaf is not None
    )


def with_bounds(leaves: Iterable[AwaitedLeaf], until_s: int) -> tuple[AwaitedLeaf, ...]:
    """A leaf that its user gave no bound is awaited until then."""
    return tuple(each if each.valid_until_s else replace(each, valid_until_s=until_s) for each in leaves)


class AwaitedLeaves:
    """The leaves that have not ended, by contract and id, with their dependents."""

    def __init__(self) -> None:
        self._open: dict[tuple[ContractAddress, IntentId], dict[AwaitedLeaf, dict[IntentId, None]]] = {}
        self._of_dependent: dict[IntentId, tuple[AwaitedLeaf, ...]] = {}
        # To be asked of the store at the end of the step.
        self.unasked: dict[AwaitedLeaf, None] = {}
        # The latest question about each that is not answered; none before it has left. Answers to earlier ones do not
        # count: the store may know more since.
        self._unanswered: dict[AwaitedLeaf, int | None] = {}
        self._final_time_s = 0
        # Until then no open leaf runs out of time.
        self._earliest_s = NEVER_S

    def note(self, dependent: IntentId, leaves: tuple[AwaitedLeaf, ...]) -> None:
        """An intent of ours waits for these."""
        self._of_dependent[dependent] = leaves
        for leaf in leaves:
            self._open.setdefault((leaf.contract, leaf.intent), {}).setdefault(leaf, {})[dependent] = None
            self.unasked[leaf] = self._unanswered[leaf] = None
            self._earliest_s = min(self._earliest_s, leaf.valid_until_s)

    def ask_again(self, contract: ContractAddress) -> None:
        """The store has more of this contract in earlier blocks than when it answered."""
        for (address, _), leaves in self._open.items():
            if address == contract:
                for leaf in leaves:
                    self.unasked[leaf] = self._unanswered[leaf] = None

    def ask(self, question: int) -> tuple[AwaitedLeaf, ...]:
        """The leaves that the store is asked about now, by the question with this number."""
        asked, self.unasked = tuple(self.unasked), {}
        self._unanswered.update(dict.fromkeys(asked, question))
        return asked

    def answered(
        self, question: int, asked: Collection[AwaitedLeaf], found: Iterable[tuple[AwaitedLeaf, Outcome]]
    ) -> list[Ended]:
        """The store has answered about these: some had ended before, and some have run out of time."""
        ended = [each for leaf, outcome in found for each in self._end(leaf, outcome, ID_USED)]
        for leaf in asked:
            if self._unanswered.get(leaf) == question:
                del self._unanswered[leaf]
        return ended + self._expired(asked)

    def block_final(self, time_s: int, outcomes: Iterable[tuple[ContractAddress, LedgerOutcome]]) -> list[Ended]:
        """A block is final: some leaves are in it or cannot be any more, and some have run out of time."""
        self._final_time_s = time_s
        if not self._open:
            return []
        ended: list[Ended] = []
        for contract, outcome in outcomes:
            if outcome.status is LedgerStatus.COMMITTED:
                for leaf in tuple(self._open.get((contract, outcome.intent), ())):
                    is_it = leaf.leaf == outcome.leaf
                    ended += self._end(leaf, Outcome.CONFIRMED if is_it else Outcome.REVERTED, ID_USED)
        if self._earliest_s < time_s:
            ended += self._expired([leaf for leaves in self._open.values() for leaf in leaves])
            bounds = (leaf.valid_until_s for leaves in self._open.values() for leaf in leaves)
            self._earliest_s = min(bounds, default=NEVER_S)
        return ended

    def dependent_ended(self, dependent: IntentId) -> list[AwaitedLeaf]:
        """It waits for nothing any more. Returns the leaves that nothing else waits for."""
        freed: list[AwaitedLeaf] = []
        for leaf in self._of_dependent.pop(dependent, ()):
            waiting = self._open.get((leaf.contract, leaf.intent), {}).get(leaf)
            # A leaf that had ended for this dependent may be awaited anew, by others.
            if waiting is not None and dependent in waiting:
                del waiting[dependent]
                if not waiting:
                    self._forget(leaf)
                    freed.append(leaf)
        return freed

    def _expired(self, leaves: Iterable[AwaitedLeaf]) -> list[Ended]:
        """End those of these whose time is over."""
        late = [leaf for leaf in leaves if leaf.valid_until_s < self._final_time_s and leaf not in self._unanswered]
        return [each for leaf in late for each in self._end(leaf, Outcome.REVERTED, NOT_IN_TIME)]

    def _end(self, leaf: AwaitedLeaf, outcome: Outcome, reason: str) -> list[Ended]:
        if leaf not in self._open.get((leaf.contract, leaf.intent), ()):
            return []
        self._forget(leaf)
        return [Ended(leaf, outcome, "" if outcome is Outcome.CONFIRMED else reason)]

    def _forget(self, leaf: AwaitedLeaf) -> None:
        place = leaf.contract, leaf.intent
        del self._open[place][leaf]
        if not self._open[place]:
            del self._open[place]
        self.unasked.pop(leaf, None)
        self._unanswered.pop(leaf, None)


def dependency_name(dependency: Dependency) -> str:
    """A dependency as users know it."""
    if not isinstance(dependency, AwaitedLeaf):
        return intent_text(dependency)
    until = f"until chain time {dependency.valid_until_s}"
    return f"{intent_text(dependency.intent)} in {dependency.contract} with leaf {dependency.leaf.hex()} ({until})"


def dependency_text(dependency: Dependency) -> str:
    """A dependency in the reason for which its dependent ends."""
    if isinstance(dependency, AwaitedLeaf):
        return f"{dependency.intent.hex()} in {dependency.contract} with leaf {dependency.leaf.hex()}"
    return dependency.hex()
