"""Reservations of states for prepared transitions: one per contract and node (protocol §4.2, ledger).

Theory of operation. Any node may commit a prepared transition at any time until its validity
ends. So the states that it spends are reserved for it: a coordinator has nothing assembled on them, and an
endorser that has signed it signs no other intent's transition that spends or reads them. The endorser names the
reservation, so that a coordinator that did not know it can have the intent assembled on others. Another version of the
same intent does not conflict, because only one of the two can commit; it is recorded only if it takes further states.

For `prepared_hold` the reservation holds against every transition. After that it holds only against other prepared
ones: an uncommitted transition then competes with others that need the states, and the chain decides. An endorser that
has judged a prepared transition which has to wait for an overdue one, in a final block, agrees to void the latter
(`voids.py`). So no user of a prepared transition blocks others for long.

A reservation stands until the intent has an outcome in the own index, whatever the version, or until the end
of the validity has passed in a final block. An outcome that is not final may be undone, and until it is
final the reservation is only set aside. An endorser may forget none that it has signed: it refuses to sign more
instead, and `turns.py` limits how many it signs for each sender. A coordinator's copies of others' reservations only
save work, and further ones are ignored when there are too many.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TypeVar

from rota.model.blocks import LedgerOutcome, LedgerStatus
from rota.model.types import IntentId, KeptStates, Leaf, StateId, Transition

KEPT_MAX = 2_048
SNAPSHOT_LOCKS_MAX = 4_096
# After all times, for when there is no reservation.
NO_END_S = 2**63

Key = TypeVar("Key", StateId, IntentId)


class Kept:
    """The reservations by leaf; `signed` are the leaves that this endorser signed."""

    def __init__(
        self,
        signed: Iterable[KeptStates] = (),
        others: Iterable[KeptStates] = (),
        hold_s: int = NO_END_S,
        chain_time_s: int = 0,
    ) -> None:
        self.hold_s = hold_s
        self.chain_time_s = self.final_time_s = chain_time_s
        # Intents that are overdue in a final block and for which valid transitions of others wait.
        self.wanted: dict[IntentId, None] = {}
        self.standing: dict[Leaf, KeptStates] = {}
        self.signed: dict[Leaf, None] = {}
        self._set_aside: dict[Leaf, KeptStates] = {}
        self._leaves: dict[StateId, dict[Leaf, None]] = {}
        self._leaves_of_intent: dict[IntentId, dict[Leaf, None]] = {}
        self._since_s: dict[IntentId, int] = {}
        self._signed_since_s: dict[IntentId, int] = {}
        # Every reservation is valid until then, or longer.
        self._first_end_s = NO_END_S
        for kept in signed:
            self.sign(kept)
        for kept in others:
            self.keep(kept)

    # Reserving.

    def keep(self, kept: KeptStates) -> None:
        """Reserve these states, unless there are too many reservations: the endorsers enforce them then.

        A leaf binds its inputs: other inputs for a known leaf are false, and have no effect.
        """
        if kept.leaf in self.signed:
            return
        known = self.standing.get(kept.leaf)
        is_false = known is not None and frozenset(known.inputs) != frozenset(kept.inputs)
        if not is_false and (known is not None or len(self.standing) < KEPT_MAX + len(self.signed)):
            self._put(kept)

    def sign(self, kept: KeptStates) -> None:
        """Reserve these states for a transition being signed; the sender's right to them was checked before."""
        known = self.standing.get(kept.leaf)
        if known is not None and known.inputs != kept.inputs:
            self.forget(kept.leaf)
        self.signed[kept.leaf] = None
        self._signed_since_s.setdefault(kept.intent, self.chain_time_s)
        self._put(kept)

    def has_signed_for(self, kept: KeptStates) -> bool:
        """Whether all these states are reserved for versions of the same intent, for as long or longer."""
        leaves = self._leaves_of_intent.get(kept.intent, ())
        signed = [self.standing[leaf] for leaf in leaves if leaf in self.signed and leaf in self.standing]
        lasting = [each for each in signed if each.valid_until_s >= kept.valid_until_s]
        return bool(lasting) and {state for each in lasting for state in each.inputs}.issuperset(kept.inputs)

    def forget(self, leaf: Leaf) -> None:
        """Delete the reservation of this leaf."""
        self.signed.pop(leaf, None)
        set_aside = self._set_aside.pop(leaf, None)
        kept = self._remove(leaf) or set_aside
        if kept is not None:
            _take_out(self._leaves_of_intent, kept.intent, leaf)
            if kept.intent not in self._leaves_of_intent:
                del self._since_s[kept.intent]
                self._signed_since_s.pop(kept.intent, None)
                self.wanted.pop(kept.intent, None)

    # Queries.

    def is_taken(self, transition: Transition) -> bool:
        """Whether it spends or reads a state that is reserved for another intent."""
        return bool(self._leaves) and any(True for _ in self._keepers(transition))

    def is_blocked(self, transition: Transition) -> bool:
        """Whether it is taken by a prepared transition that may not be voided yet: endorsers would refuse it."""
        return bool(self._leaves) and any(
            not self.is_left(self.standing[leaf].intent) for leaf in self._keepers(transition)
        )

    def signed_away(self, transition: Transition) -> tuple[KeptStates, ...]:
        """Return the signed prepared transitions of other intents whose states it spends or reads."""
        if not self.signed:
            return ()
        keepers = dict.fromkeys(leaf for leaf in self._keepers(transition) if leaf in self.signed)
        return tuple(self.standing[leaf] for leaf in keepers)

    def locks(self, intents: Collection[IntentId]) -> tuple[StateId, ...]:
        """Return the states that these intents must not use; their own older versions do not count."""
        found = dict.fromkeys(
            state
            for kept in self.standing.values()
            if kept.intent not in intents and not self.is_overdue(kept.intent)
            for state in kept.inputs
        )
        return tuple(found)[:SNAPSHOT_LOCKS_MAX]

    def _keepers(self, transition: Transition) -> Iterable[Leaf]:
        for state in (*transition.inputs, *transition.reads):
            for leaf in self._leaves.get(state, ()):
                intent = self.standing[leaf].intent
                is_free = transition.preparation is None and self.is_overdue(intent)
                if intent != transition.intent and not is_free:
                    yield leaf

    def is_overdue(self, intent: IntentId) -> bool:
        """Whether it has a reservation and was not committed in `prepared_hold`."""
        return self.chain_time_s > self._since_s[intent] + self.hold_s

    # Voiding.

    def is_left(self, intent: IntentId) -> bool:
        """Whether it has a reservation and was not committed in `prepared_hold`, as a final block shows."""
        since_s = self._signed_since_s.get(intent, self._since_s.get(intent))
        return since_s is not None and self.final_time_s > since_s + self.hold_s

    def note_wanted(self, transition: Transition) -> None:
        """Note a valid transition that is not signed because of signed prepared ones."""
        for kept in self.signed_away(transition):
            if self.is_left(kept.intent):
                self.wanted[kept.intent] = None

    def may_be_voided(self, intent: IntentId) -> bool:
        """Whether, by own record, it was signed, has no outcome, is overdue, and a valid transition waits for it."""
        leaves = self._leaves_of_intent.get(intent, ())
        stands = any(leaf in self.signed and leaf in self.standing for leaf in leaves)
        return stands and intent in self.wanted and self.is_left(intent)

    # Outcomes from the ledger.

    def take_outcome(self, outcome: LedgerOutcome) -> None:
        """Set the intent's reservations aside: it is used, unless the outcome is undone."""
        for kept in self._versions(self.standing, outcome):
            self._remove(kept.leaf)
            self._set_aside[kept.leaf] = kept

    def undo_outcome(self, outcome: LedgerOutcome) -> None:
        """Restore the reservations after a reorganisation took the outcome back."""
        for kept in self._versions(self._set_aside, outcome):
            self._put(self._set_aside.pop(kept.leaf))

    def outcome_final(self, outcome: LedgerOutcome) -> None:
        """Delete the intent's reservations: the outcome is final."""
        for kept in (*self._versions(self.standing, outcome), *self._versions(self._set_aside, outcome)):
            self.forget(kept.leaf)

    def time_is_final(self, chain_time_s: int) -> None:
        """Delete reservations whose validity has passed in a final block."""
        self.final_time_s = chain_time_s
        if chain_time_s <= self._first_end_s:
            return
        self._first_end_s = NO_END_S
        for kept in (*self.standing.values(), *self._set_aside.values()):
            if kept.valid_until_s < chain_time_s:
                self.forget(kept.leaf)
            else:
                self._first_end_s = min(self._first_end_s, kept.valid_until_s)

    def _versions(self, among: dict[Leaf, KeptStates], outcome: LedgerOutcome) -> tuple[KeptStates, ...]:
        if not among or outcome.status is not LedgerStatus.COMMITTED:
            return ()
        return tuple(among[leaf] for leaf in self._leaves_of_intent.get(outcome.intent, ()) if leaf in among)

    def _put(self, kept: KeptStates) -> None:
        known = self.standing.get(kept.leaf)
        if known is None or known.valid_until_s < kept.valid_until_s:
            self.standing[kept.leaf] = kept
            self._first_end_s = min(self._first_end_s, kept.valid_until_s)
            self._leaves_of_intent.setdefault(kept.intent, {})[kept.leaf] = None
            self._since_s.setdefault(kept.intent, self.chain_time_s)
            for state in kept.inputs:
                self._leaves.setdefault(state, {})[kept.leaf] = None

    def _remove(self, leaf: Leaf) -> KeptStates | None:
        kept = self.standing.pop(leaf, None)
        for state in dict.fromkeys(kept.inputs) if kept is not None else ():
            _take_out(self._leaves, state, leaf)
        return kept


def _take_out(index: dict[Key, dict[Leaf, None]], key: Key, leaf: Leaf) -> None:
    leaves = index[key]
    leaves.pop(leaf, None)
    if not leaves:
        del index[key]
