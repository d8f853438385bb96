"""The cost of intents until everything has ended, and the quiet of the network afterwards (L6, L7)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from rota.chain.effects import RoundDispatch
from rota.model.types import ContractAddress, Digest, IntentId, NodeName
from rota.sim.facts import (
    Assembled,
    CalmPassed,
    Committed,
    FaultsEnded,
    HeartbeatSeen,
    Quiet,
    Recorded,
    Sent,
    Skipped,
    Submitted,
    Wanted,
)
from rota.sim.invariants.judge import Handler, Invariant
from rota.wire.messages import CoordinatorHeartbeat, CoordinatorState, EndorsementRequest

# Messages that nodes may send when there is nothing to do.
SAID_AT_REST = (CoordinatorHeartbeat.__name__,)
# The most that one intent submitted after the faults may cost, and the most changes of coordinator in one range then.
BUDGETS = {"assemblies": 16, "rounds": 16, "dispatches": 12, "skips": 12}
CHANGES_IN_RANGE_MAX = 6


class NetworkComesToRest(Invariant):
    """L6: once the faults have stopped, an intent that waits for nothing ends without new intents and without time
    jumps.

    When everything has ended the network is quiet: no message but heartbeats.
    """

    name = "L6"

    def hears(self) -> Mapping[type[Any], Handler]:
        """Handlers for the intents left after the calm time, and the messages sent afterwards."""
        self.by = {"calm": 0, "quiet": 0}
        return {CalmPassed: self._calm, Quiet: self._quiet}

    def _calm(self, fact: CalmPassed) -> None:
        self._count("calm")
        for intent in fact.waiting:
            self.accuse(f"{self.show(intent)} waits for nothing, and has not ended in {fact.for_ms // 1000} s of calm")

    def _quiet(self, fact: Quiet) -> None:
        self._count("quiet")
        if not fact.is_at_rest:
            self.accuse(f"the network has not come to rest in {fact.after_ms // 1000} s without faults")
        for kind, count in fact.said.items():
            if kind not in SAID_AT_REST:
                self.accuse(f"nothing is left to do, and {count} {kind} were sent in {fact.for_ms // 1000} s")

    def _count(self, kind: str) -> None:
        self.judged += 1
        self.chances += 1
        self.by[kind] += 1


class WorkIsBounded(Invariant):
    """L7: without faults, the cost of one intent is bounded, and so are coordinator changes in a range."""

    name = "L7"

    def hears(self) -> Mapping[type[Any], Handler]:
        """Handlers for assemblies, rounds, dispatches, resubmissions and transitions that the ledger skipped."""
        self.work = Counter()
        self.spent: dict[IntentId, Counter[str]] = {}
        self.digests: set[Digest] = set()
        self.sent: set[tuple[str, int]] = set()
        self.active: dict[ContractAddress, set[NodeName]] = {}
        self.latest: dict[ContractAddress, NodeName] = {}
        self.changes: Counter[tuple[ContractAddress, int]] = Counter()
        self.is_calm = False
        return {
            FaultsEnded: self._ended,
            Wanted: self._wanted,
            Assembled: self._assembled,
            EndorsementRequest: self._requested,
            Recorded: self._recorded,
            Submitted: self._submitted,
            Skipped: self._skipped,
            Committed: self._committed,
            HeartbeatSeen: self._beats,
        }

    def _ended(self, _: FaultsEnded) -> None:
        self.is_calm = True

    def _wanted(self, fact: Wanted) -> None:
        if self.is_calm:
            self.spent[fact.intent.id] = Counter()

    def _spend(self, kind: str, intent: IntentId) -> None:
        self.work[kind] += 1
        spent = self.spent.get(intent)
        if spent is not None:
            spent[kind] += 1

    def _assembled(self, fact: Assembled) -> None:
        self._spend("assemblies", fact.transition.intent)

    def _requested(self, fact: Sent) -> None:
        body = fact.envelope.body
        assert isinstance(body, EndorsementRequest)
        if body.digest not in self.digests:
            self.digests.add(body.digest)
            for transition in body.transitions:
                self._spend("rounds", transition.intent)

    def _recorded(self, fact: Recorded) -> None:
        if isinstance(fact.record, RoundDispatch):
            for transition in fact.record.round.transitions:
                self._spend("dispatches", transition.intent)

    def _submitted(self, fact: Submitted) -> None:
        key = (fact.dispatch.signer, fact.dispatch.nonce)
        self.work["transactions"] += 1
        self.work["resends"] += key in self.sent
        self.sent.add(key)

    def _skipped(self, fact: Skipped) -> None:
        self._spend("skips", fact.intent)

    def _committed(self, _: Committed) -> None:
        self.work["commits"] += 1

    def _beats(self, fact: HeartbeatSeen) -> None:
        """A change is a node that becomes active after another one; two may be active for a while."""
        active = self.active.setdefault(fact.contract, set())
        if fact.state is not CoordinatorState.ACTIVE:
            active.discard(fact.node)
            return
        before = self.latest.get(fact.contract, fact.node)
        if self.is_calm and fact.node not in active and before != fact.node:
            self.changes[fact.contract, self.terms.contracts[fact.contract].range_at(fact.height)] += 1
        active.add(fact.node)
        self.latest[fact.contract] = fact.node

    def conclude(self) -> None:
        """Judge each intent submitted after the faults, and each range.

        Among liars, who waste work, nothing is judged.
        """
        if self.terms.liars:
            return
        for intent, spent in self.spent.items():
            self.judged += 1
            self.chances += bool(spent)
            for kind, most in BUDGETS.items():
                if spent[kind] > most:
                    self.accuse(f"{self.show(intent)} took {spent[kind]} {kind} without faults, of at most {most}")
        for (contract, block_range), count in self.changes.items():
            self.judged += 1
            self.chances += 1
            if count > CHANGES_IN_RANGE_MAX:
                self.accuse(f"range {block_range} of {contract[:8]} had {count} changes of its coordinator")
