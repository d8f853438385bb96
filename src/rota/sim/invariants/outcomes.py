"""What users get: an effect or a cause for its absence, an answer in time, and the order that they asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rota.machine.effects import IntentAccepted, IntentFinalised
from rota.model.digests import leaf_of_transition, round_digest
from rota.model.types import (
    AwaitedLeaf,
    ContractAddress,
    Dependency,
    Digest,
    Intent,
    IntentId,
    Leaf,
    NodeName,
    Outcome,
    Receipt,
    RequestId,
    StateId,
    Transition,
)
from rota.sequencer.effects import IntentParked, IntentResumed, TransitionIssued
from rota.sim.facts import (
    Answered,
    Asked,
    BlockMined,
    Cause,
    Committed,
    Deployed,
    DomainSaid,
    Endorsed,
    Hung,
    Promised,
    Recorded,
    Reported,
    Request,
    Resumed,
    RunEnded,
    Sent,
    Stopped,
    Undone,
    Wanted,
)
from rota.sim.invariants.judge import Handler, Invariant
from rota.wire.messages import EndorsementRequest

# A running node answers its user within this time, whatever the state of its disk, peers and ledger.
ANSWERED_WITHIN_MS = 10_000
# The reasons that the synthetic domain, the model of the ledger and the core give for a reverted intent.
CAUSE_BY_REASON = {
    "cancelled": Cause.CANCELLED,
    "against the rules": Cause.REFUSED,
    "not enough funds": Cause.FAILS_AT_ASSEMBLY,
    "a call failed": Cause.FAILS_ON_LEDGER,
    "the prepared transition has expired": Cause.MAY_EXPIRE,
}
VOIDED = "voided on the chain"
UNKNOWN_PARTY = "unknown party "
DEPENDS_ON = "depends on"
# Parts of the core's reasons for deployments that ended without a contract.
CAUSE_BY_WORDS = {
    "does not take the contract": Cause.NODE_REFUSES,
    "the factory does not deploy it": Cause.FACTORY_REFUSES,
    "somebody else has deployed": Cause.ID_TAKEN,
}


class OutcomesHaveCauses(Invariant):
    """O1: a reverted receipt names a cause that exists in the world; an intent without such a cause has its effect.

    That a version expired, was skipped or was refused once is not a cause.
    """

    name = "O1"

    def hears(self) -> Mapping[type[Any], Handler]:
        """Handlers for submissions with their causes of failure, receipts, and ledger outcomes."""
        self.wanted: dict[IntentId, Wanted] = {}
        self.promised: dict[IntentId, None] = {}
        self.parked: set[IntentId] = set()
        self.issued: set[IntentId] = set()
        self.reverted: dict[IntentId, Receipt] = {}
        self.effective: set[IntentId] = set()
        self.said: dict[IntentId, set[str]] = {}
        return {
            Wanted: self._wanted,
            DomainSaid: self._said,
            Promised: self._promised,
            Recorded: self._recorded,
            Reported: self._reported,
            Committed: self._committed,
            Undone: self._undone,
            Deployed: self._deployed,
        }

    def _wanted(self, fact: Wanted) -> None:
        self.wanted[fact.intent.id] = fact

    def _said(self, fact: DomainSaid) -> None:
        self.said.setdefault(fact.intent, set()).add(fact.reason)

    def _promised(self, fact: Promised) -> None:
        if fact.request is Request.SUBMIT:
            self.promised[fact.intent] = None

    def _recorded(self, fact: Recorded) -> None:
        match fact.record:
            case IntentParked(intent):
                self.parked.add(intent)
            case IntentResumed(intent):
                self.parked.discard(intent)
            case TransitionIssued(prepared):
                self.issued.add(prepared.transition.intent)
            case IntentFinalised(receipt):
                # A receipt on the disk may be read before it is reported.
                self._take(receipt)
            case _:
                pass

    def _committed(self, fact: Committed) -> None:
        if not fact.transition.is_empty:
            self.effective.add(fact.transition.intent)

    def _undone(self, fact: Undone) -> None:
        self.effective.discard(fact.transition.intent)

    def _deployed(self, fact: Deployed) -> None:
        note_deployed(self.effective, fact)

    def _reported(self, fact: Reported) -> None:
        self._take(fact.receipt)

    def _take(self, receipt: Receipt) -> None:
        wanted = self.wanted.get(receipt.intent)
        is_known = self.reverted.get(receipt.intent) == receipt
        if wanted is None or receipt.outcome is not Outcome.REVERTED or is_known:
            return
        self.reverted[receipt.intent] = receipt
        self.judged += 1
        self.chances += 1
        if not self._has_cause(wanted, receipt):
            self.accuse(
                f"{self.show(receipt.intent)} was reported reverted ({receipt.reason or 'no reason'}), "
                f"and nothing in the world says so"
            )

    def _has_cause(self, wanted: Wanted, receipt: Receipt) -> bool:
        reason = receipt.reason
        if reason == VOIDED:
            return bool(wanted.causes)
        if reason.startswith(UNKNOWN_PARTY):
            return Cause.UNKNOWN_PARTY in wanted.causes
        if DEPENDS_ON in reason:
            named = [each for each in wanted.intent.depends_on if each.hex() in reason]
            return any(each in self.reverted and each not in self.effective for each in named)
        if Cause.DOMAIN in wanted.causes and reason in self.said.get(receipt.intent, ()):
            return True
        cause = CAUSE_BY_REASON.get(reason)
        if cause is None:
            cause = next((each for words, each in CAUSE_BY_WORDS.items() if words in reason), None)
        # A prepared transition that was never given to its user cannot have expired in the user's hands.
        is_found = cause is not Cause.MAY_EXPIRE or receipt.intent in self.issued
        return cause in wanted.causes and is_found

    def conclude(self) -> None:
        """An intent without a cause to fail has its effect, unless it waits for a user."""
        for intent in self.promised:
            wanted = self.wanted.get(intent)
            if wanted is None or wanted.causes or self._may_end_or_wait(wanted.intent):
                continue
            self.judged += 1
            self.chances += 1
            if intent not in self.effective:
                self.accuse(f"nothing stands against {self.show(intent)}, and it has no effect on the ledger")

    def _may_end_or_wait(self, intent: Intent) -> bool:
        """Whether it is parked, or an intent that it depends on has no effect."""
        return intent.id in self.parked or any(each not in self.effective for each in intent.depends_on)


def note_deployed(effective: set[IntentId], fact: Deployed) -> None:
    """A deployment has its effect while its contract is on the chain; a stranger's contract does not count."""
    if fact.is_undone or fact.is_strange:
        effective.discard(fact.deployment)
    else:
        effective.add(fact.deployment)


class UsersAreAnswered(Invariant):
    """O2: a request to a node that stays up is answered within a bound, definitely or as unavailable."""

    name = "O2"

    def hears(self) -> Mapping[type[Any], Handler]:
        """Handlers for requests, answers, and times at which nodes hang or stop."""
        self.open: dict[NodeName, dict[str, int]] = {}
        self.hung: set[NodeName] = set()
        return {
            Asked: self._asked,
            Answered: self._answered,
            Hung: self._hangs,
            Resumed: self._resumed,
            Stopped: self._stopped,
            RunEnded: self._ended,
        }

    def _asked(self, fact: Asked) -> None:
        self.judged += 1
        self.chances += 1
        self.open.setdefault(fact.node, {})[fact.reply_to] = fact.at_ms

    def _answered(self, fact: Answered) -> None:
        asked_ms = self.open.get(fact.node, {}).pop(fact.reply_to, fact.at_ms)
        if fact.at_ms - asked_ms > ANSWERED_WITHIN_MS:
            self.accuse(f"{fact.node} answered {fact.reply_to} after {fact.at_ms - asked_ms} ms")

    def _hangs(self, fact: Hung) -> None:
        self.hung.add(fact.node)

    def _resumed(self, fact: Resumed) -> None:
        """A hung node was not up: the time limit of its open requests starts again."""
        self.hung.discard(fact.node)
        open_ = self.open.get(fact.node, {})
        open_.update(dict.fromkeys(open_, fact.at_ms))

    def _stopped(self, fact: Stopped) -> None:
        if fact.node not in self.hung:
            self._judge(fact.node, fact.at_ms)
        self.hung.discard(fact.node)
        self.open.pop(fact.node, None)

    def _ended(self, fact: RunEnded) -> None:
        for node in self.open:
            self._judge(node, fact.at_ms)

    def _judge(self, node: NodeName, now_ms: int) -> None:
        for reply_to, asked_ms in self.open.get(node, {}).items():
            if now_ms - asked_ms > ANSWERED_WITHIN_MS:
                self.accuse(f"{node} has not answered {reply_to} for {now_ms - asked_ms} ms, and was up")


class DependenciesComeFirst(Invariant):
    """O3: nothing takes effect before what it depends on has taken effect."""

    name = "O3"

    def hears(self) -> Mapping[type[Any], Handler]:
        """Handlers for dependencies and ledger outcomes."""
        self.depends_on: dict[IntentId, tuple[Dependency, ...]] = {}
        self.known: set[IntentId] = set()
        self.leaves: set[tuple[ContractAddress, IntentId, Leaf]] = set()
        self.effective: set[IntentId] = set()
        return {Recorded: self._recorded, Committed: self._committed, Undone: self._undone, Deployed: self._deployed}

    def _recorded(self, fact: Recorded) -> None:
        if isinstance(fact.record, IntentAccepted):
            intent = fact.record.intent
            self.known.add(intent.id)
            if intent.dependencies:
                self.depends_on[intent.id] = intent.dependencies

    def _committed(self, fact: Committed) -> None:
        intent = fact.transition.intent
        if fact.transition.is_empty:
            return
        self.effective.add(intent)
        self.leaves.add((fact.contract, intent, fact.transition.leaf))
        self._judge(intent)

    def _judge(self, intent: IntentId) -> None:
        for other in self.depends_on.get(intent, ()):
            is_leaf = isinstance(other, AwaitedLeaf)
            name = other.intent if isinstance(other, AwaitedLeaf) else other
            # A world without a factory reports no deployments.
            if is_leaf or name in self.known:
                self.judged += 1
                self.chances += 1
                if not self._has_effect(other):
                    self.accuse(f"{self.show(intent)} took effect without {self.show(name)}, on which it depends")

    def _has_effect(self, dependency: Dependency) -> bool:
        """Whether a dependency took effect; of an awaited leaf, only that very leaf counts."""
        if isinstance(dependency, AwaitedLeaf):
            return (dependency.contract, dependency.intent, dependency.leaf) in self.leaves
        return dependency in self.effective

    def _undone(self, fact: Undone) -> None:
        self.effective.discard(fact.transition.intent)
        self.leaves.discard((fact.contract, fact.transition.intent, fact.transition.leaf))

    def _deployed(self, fact: Deployed) -> None:
        note_deployed(self.effective, fact)
        if fact.deployment in self.effective:
            self._judge(fact.deployment)


class Prepared:
    """A prepared transition that an endorser has signed, and the time until which it may be committed."""

    __slots__ = ("intent", "leaf", "spends", "uses", "valid_until_s")

    def __init__(self, transition: Transition, valid_until_s: int) -> None:
        self.intent, self.leaf = transition.intent, transition.leaf
        self.spends = frozenset(transition.inputs)
        self.uses = self.spends | frozenset(transition.reads)
        self.valid_until_s = valid_until_s

    def conflicts_with(self, other: Prepared) -> bool:
        """Whether only one of the two can be committed, although they are not versions of one intent."""
        is_taken = not self.spends.isdisjoint(other.uses) or not other.spends.isdisjoint(self.uses)
        return self.intent != other.intent and is_taken


class PreparedDoNotConflict(Invariant):
    """O4: of two conflicting prepared transitions, neither expired nor voided, an honest endorser signs at most one.

    Signatures outlive restarts, so every signature counts, from whichever run.
    """

    name = "O4"
    hears_of_liars = (EndorsementRequest,)

    def hears(self) -> Mapping[type[Any], Handler]:
        """Handlers for endorsement requests, signatures, and ledger outcomes."""
        self.asked: dict[tuple[ContractAddress, Digest], tuple[Prepared, ...]] = {}
        # Requests for approval alone: endorser, coordinator, request and digest. An approval commits no round.
        self.approvals: dict[tuple[NodeName, NodeName, RequestId, Digest], bool] = {}
        self.standing: dict[tuple[NodeName, ContractAddress], dict[Leaf, Prepared]] = {}
        self.over: set[IntentId] = set()
        self.spent: set[StateId] = set()
        self.time_s = 0
        return {
            EndorsementRequest: self._requested,
            Endorsed: self._endorsed,
            Committed: self._committed,
            BlockMined: self._mined,
        }

    def _requested(self, fact: Sent) -> None:
        body, contract = fact.envelope.body, fact.envelope.contract
        assert isinstance(body, EndorsementRequest)
        prepared = [each for each in body.transitions if each.preparation is not None]
        if not prepared:
            return
        request = fact.peer, fact.node, body.request_id, body.digest
        self.approvals[request] = body.asks_approval and self.approvals.get(request, True)
        if (contract, body.digest) not in self.asked:
            separator = self.terms.separator(contract)
            leaves = tuple(each.leaf for each in body.transitions)
            is_of_digest = round_digest(separator, leaves, body.valid_until_s) == body.digest
            # A liar may show under a digest what is not in it.
            if is_of_digest and all(leaf_of_transition(separator, each) == each.leaf for each in prepared):
                signed = tuple(Prepared(each, body.valid_until_s) for each in prepared)
                self.asked[contract, body.digest] = signed
        for asked in self.asked.get((contract, body.digest), ()):
            standing = self.standing.get((fact.peer, contract), {}).values()
            self.chances += any(asked.conflicts_with(each) and self._stands(each) for each in standing)

    def _committed(self, fact: Committed) -> None:
        """An intent with an outcome no longer binds an endorser, even if a reorganisation undoes the outcome."""
        self.over.add(fact.transition.intent)
        self.spent.update(fact.transition.inputs)

    def _mined(self, fact: BlockMined) -> None:
        self.time_s = max(self.time_s, fact.time_s)

    def _endorsed(self, fact: Endorsed) -> None:
        if self.approvals.get((fact.node, fact.coordinator, fact.request_id, fact.digest), False):
            return
        for signed in self.asked.get((fact.contract, fact.digest), ()):
            standing = self.standing.setdefault((fact.node, fact.contract), {})
            for leaf in [leaf for leaf, each in standing.items() if not self._stands(each)]:
                del standing[leaf]
            self.judged += 1
            for other in standing.values():
                if signed.conflicts_with(other) and self._stands(signed):
                    words = f"{self.show(signed.intent)} prepared, which conflicts with {self.show(other.intent)}"
                    self.accuse(f"{fact.node} signed {words}, which it has signed too")
            standing[signed.leaf] = signed

    def _stands(self, signed: Prepared) -> bool:
        is_void = signed.intent in self.over or not self.spent.isdisjoint(signed.uses)
        return not is_void and signed.valid_until_s >= self.time_s
