"""Leaves that transactions of this node depend on, of any node; one per node.

Theory of operation. A user names a private transaction of another node by contract, id and leaf (`dependsOn`). The
own chain index decides its outcome by leaf (trust rule 1): it is confirmed when a final block commits that leaf
under the id, and reverted when a final block commits another leaf there, which excludes this one. Neither
the other node nor a peer is asked. The store answers for the blocks that were final before the leaf was noted, and
later blocks come here, so that none is missed. After a restart the dependents note their leaves again.

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
    """The outcome of a leaf; `reason` is why it is not committed."""

    leaf: AwaitedLeaf
    outcome: Outcome
    reason: str


def outcomes_of(
    leaves: Iterable[AwaitedLeaf], committed: Mapping[tuple[ContractAddress, IntentId], Leaf]
) -> tuple[tuple[AwaitedLeaf, Outcome], ...]:
    """Return the outcomes of the leaves whose id a final block has used, for the leaf or for another one."""
    found = ((each, committed.get((each.contract, each.intent))) for each in leaves)
    return tuple(
        (each, Outcome.CONFIRMED if leaf == each.leaf else Outcome.REVERTED) for each, leaf in found if leaf is not None
    )


def with_bounds(leaves: Iterable[AwaitedLeaf], until_s: int) -> tuple[AwaitedLeaf, ...]:
    """Return the leaves, with this bound for those that their user gave none."""
    return tuple(each if each.valid_until_s else replace(each, valid_until_s=until_s) for each in leaves)


class AwaitedLeaves:
    """The leaves that have not ended, by contract and id, with their dependents."""

    def __init__(self) -> None:
        self._open: dict[tuple[ContractAddress, IntentId], dict[AwaitedLeaf, dict[IntentId, None]]] = {}
        self._of_dependent: dict[IntentId, tuple[AwaitedLeaf, ...]] = {}
        # To be requested from the store at the end of the step.
        self.unasked: dict[AwaitedLeaf, None] = {}
        # The latest question about each that is not answered; None before it has left. Answers to earlier ones do not
        # count: the store may have more since.
        self._unanswered: dict[AwaitedLeaf, int | None] = {}
        self._final_time_s = 0
        # Until then no open leaf expires.
        self._earliest_s = NEVER_S

    def note(self, dependent: IntentId, leaves: tuple[AwaitedLeaf, ...]) -> None:
        """Note the leaves that an intent of ours waits for."""
        self._of_dependent[dependent] = leaves
        for leaf in leaves:
            self._open.setdefault((leaf.contract, leaf.intent), {}).setdefault(leaf, {})[dependent] = None
            self.unasked[leaf] = self._unanswered[leaf] = None
            self._earliest_s = min(self._earliest_s, leaf.valid_until_s)

    def ask_again(self, contract: ContractAddress) -> None:
        """Ask again: the store has more of this contract in earlier blocks than when it answered."""
        for (address, _), leaves in self._open.items():
            if address == contract:
                for leaf in leaves:
                    self.unasked[leaf] = self._unanswered[leaf] = None

    def ask(self, question: int) -> tuple[AwaitedLeaf, ...]:
        """Return the leaves to ask the store about now, by the question with this number."""
        asked, self.unasked = tuple(self.unasked), {}
        self._unanswered.update(dict.fromkeys(asked, question))
        return asked

    def answered(
        self, question: int, asked: Collection[AwaitedLeaf], found: Iterable[tuple[AwaitedLeaf, Outcome]]
    ) -> list[Ended]:
        """Take the store's answer about these: some had ended before, and some have expired."""
        ended = [each for leaf, outcome in found for each in self._end(leaf, outcome, ID_USED)]
        for leaf in asked:
            if self._unanswered.get(leaf) == question:
                del self._unanswered[leaf]
        return ended + self._expired(asked)

    def block_final(self, time_s: int, outcomes: Iterable[tuple[ContractAddress, LedgerOutcome]]) -> list[Ended]:
        """Take a final block: some leaves are in it or excluded by it, and some have expired."""
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
        """The dependent waits no longer. Return the leaves without another dependent."""
        freed: list[AwaitedLeaf] = []
        for leaf in self._of_dependent.pop(dependent, ()):
            waiting = self._open.get((leaf.contract, leaf.intent), {}).get(leaf)
            # A leaf that had ended for this dependent may be awaited again, by others.
            if waiting is not None and dependent in waiting:
                del waiting[dependent]
                if not waiting:
                    self._forget(leaf)
                    freed.append(leaf)
        return freed

    def _expired(self, leaves: Iterable[AwaitedLeaf]) -> list[Ended]:
        """End those of these whose bound has passed."""
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
    """Return a dependency in the form that users know."""
    if not isinstance(dependency, AwaitedLeaf):
        return intent_text(dependency)
    until = f"until chain time {dependency.valid_until_s}"
    return f"{intent_text(dependency.intent)} in {dependency.contract} with leaf {dependency.leaf.hex()} ({until})"


def dependency_text(dependency: Dependency) -> str:
    """Return the text for a dependency in its dependent's reason."""
    if isinstance(dependency, AwaitedLeaf):
        return f"{dependency.intent.hex()} in {dependency.contract} with leaf {dependency.leaf.hex()}"
    return dependency.hex()
