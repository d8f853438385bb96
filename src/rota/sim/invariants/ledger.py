"""Effects on the ledger: one per intent, no state spent twice, none without permission, no nonce used twice."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any, Final

from rota.chain.effects import BlocksIndexed, RoundDispatch
from rota.machine.effects import DispatchRound, IntentAccepted, IntentFinalised
from rota.model.digests import leaf_of_transition, round_digest
from rota.model.types import (
    ContractAddress,
    DelegationNumber,
    Digest,
    IntentId,
    Leaf,
    NodeName,
    Outcome,
    Receipt,
    StateId,
    Transition,
)
from rota.sequencer.effects import PermissionGranted, PreparedEndorsed
from rota.sim.facts import BlockMined, Committed, Recorded, Reorganised, Reported, Sent, Submitted, Undone
from rota.sim.invariants.judge import Handler, Invariant
from rota.wire.messages import AssembleResponse, DelegationCommand

# A core learns of blocks when they are durable; up to this many writes of blocks may be under way at once.
WRITTEN_AHEAD_MAX: Final = 8


class OneEffectAndOneOutcome(Invariant):
    """S1: an intent has at most one successful effect on the ledger, and its reported outcome never changes."""

    name = "S1"

    def hears(self) -> Mapping[type[Any], Handler]:
        """Handlers for ledger outcomes and receipts."""
        self.committed: dict[IntentId, Leaf] = {}
        self.reported: dict[IntentId, Receipt] = {}
        self.depth = 0
        return {
            Committed: self._committed,
            Undone: self._undone,
            Reorganised: self._reorganised,
            Reported: self._reported,
            Recorded: self._recorded,
        }

    def _committed(self, fact: Committed) -> None:
        """An empty transition has no effect: it voids its intent, which may then be reported as reverted."""
        intent, leaf = fact.transition.intent, fact.transition.leaf
        if fact.transition.is_empty:
            return
        self.judged += 1
        if intent in self.committed:
            self.accuse(f"{self.show(intent)} has two effects on the ledger")
        self.committed[intent] = leaf
        receipt = self.reported.get(intent)
        if receipt is not None and (receipt.outcome is Outcome.REVERTED or receipt.leaf != leaf):
            self.accuse(f"{self.show(intent)} was reported {receipt.outcome.value} and committed as another version")

    def _reorganised(self, fact: Reorganised) -> None:
        self.depth = fact.depth

    def _undone(self, fact: Undone) -> None:
        """A reorganisation deeper than `confirmations` is outside of the promise."""
        intent = fact.transition.intent
        self.committed.pop(intent, None)
        if intent not in self.reported:
            return
        if self.depth > self.terms.confirmations:
            del self.reported[intent]
        elif self.reported[intent].outcome is Outcome.CONFIRMED:
            self.accuse(f"{self.show(intent)} was reported confirmed before it was final")

    def _recorded(self, fact: Recorded) -> None:
        """A receipt on the disk may be read before it is reported."""
        if isinstance(fact.record, IntentFinalised):
            self._judge(fact.record.receipt)

    def _reported(self, fact: Reported) -> None:
        self._judge(fact.receipt)

    def _judge(self, receipt: Receipt) -> None:
        self.judged += 1
        self.chances += 1
        before = self.reported.setdefault(receipt.intent, receipt)
        if before.outcome is not receipt.outcome:
            words = f"{before.outcome.value} and then {receipt.outcome.value}"
            self.accuse(f"{self.show(receipt.intent)} was reported {words}")
        leaf = self.committed.get(receipt.intent)
        # A deployment makes a contract and no leaf: see `ContractsAreMadeOnce`.
        if receipt.outcome is Outcome.CONFIRMED and leaf != receipt.leaf and receipt.contract is None:
            self.accuse(f"{self.show(receipt.intent)} was reported confirmed by a version that is not on the ledger")
        if receipt.outcome is Outcome.REVERTED and leaf is not None:
            self.accuse(f"{self.show(receipt.intent)} was reported reverted and is on the ledger")


class NoStateIsSpentTwice(Invariant):
    """S2: no state is spent twice, none before it was created."""

    name = "S2"

    def hears(self) -> Mapping[type[Any], Handler]:
        """Handlers for ledger outcomes."""
        self.unspent: dict[ContractAddress, dict[StateId, None]] = {}
        return {Committed: self._committed, Undone: self._undone}

    def _committed(self, fact: Committed) -> None:
        unspent, transition = self.unspent.setdefault(fact.contract, {}), fact.transition
        for reference in (*transition.reads, *transition.inputs):
            self.judged += 1
            self.chances += 1
            if reference not in unspent:
                self.accuse(f"{self.show(transition.intent)} uses a state that is spent or was never made")
        for reference in transition.inputs:
            unspent.pop(reference, None)
        unspent.update(dict.fromkeys(made.id for made in transition.outputs))

    def _undone(self, fact: Undone) -> None:
        unspent = self.unspent[fact.contract]
        for made in fact.transition.outputs:
            unspent.pop(made.id, None)
        unspent.update(dict.fromkeys(fact.transition.inputs))


class DispatchedWithPermissionAndEndorsements(Invariant):
    """S5: no leaf is dispatched without its sender's permission for that very leaf and valid endorsements of a round.

    The round holds that leaf, and its digest is the one that was signed. The empty leaf of a prepared intent needs no
    permission if endorsers void it that have signed it, `prepared_hold` of chain time before or earlier.
    """

    name = "S5"

    def hears(self) -> Mapping[type[Any], Handler]:
        """Handlers for permissions, delegations, prepared transitions, blocks and dispatches."""
        self.permitted: dict[tuple[IntentId, Leaf], set[tuple[NodeName, NodeName, DelegationNumber]]] = {}
        self.owners: dict[IntentId, NodeName] = {}
        self.delegated: set[tuple[IntentId, DelegationNumber, NodeName]] = set()
        self.seen: set[tuple[str, int, Digest]] = set()
        self.prepared: dict[tuple[IntentId, NodeName], int] = {}
        # Each endorser counts from a block that its own index had reached: one of the latest on its disk.
        self.indexed_s: dict[NodeName, deque[int]] = {}
        self.time_s = 0
        return {
            BlockMined: self._mined,
            Recorded: self._recorded,
            Submitted: self._submitted,
            DelegationCommand: self._delegated,
            AssembleResponse: self._assembled,
        }

    def _recorded(self, fact: Recorded) -> None:
        record = fact.record
        if isinstance(record, PermissionGranted):
            given = (fact.node, record.delegate, record.number)
            self.permitted.setdefault((record.intent, record.leaf), set()).add(given)
        elif isinstance(record, IntentAccepted):
            self.owners[record.intent.id] = fact.node
        elif isinstance(record, PreparedEndorsed):
            for kept in record.kept:
                self.prepared.setdefault((kept.intent, fact.node), next(iter(self.indexed_s.get(fact.node, ())), 0))
        elif isinstance(record, BlocksIndexed) and record.blocks:
            indexed = self.indexed_s.setdefault(fact.node, deque(maxlen=WRITTEN_AHEAD_MAX))
            indexed.append(record.blocks[-1].time_s)

    def _mined(self, fact: BlockMined) -> None:
        self.time_s = max(self.time_s, fact.time_s)

    def _delegated(self, fact: Sent) -> None:
        body = fact.envelope.body
        assert isinstance(body, DelegationCommand)
        self.delegated.update((each.intent.id, each.number, fact.peer) for each in body.delegations)

    def _assembled(self, fact: Sent) -> None:
        """Each assembly has its own number under its delegation."""
        body = fact.envelope.body
        assert isinstance(body, AssembleResponse)
        self.delegated.update((each.intent, each.number, fact.peer) for each in body.results)

    def _submitted(self, fact: Submitted) -> None:
        order = fact.dispatch.round
        key = (fact.dispatch.signer, fact.dispatch.nonce, order.digest)
        if key in self.seen:
            return
        self.seen.add(key)
        if self._valid_count(order) < self.terms.contracts[order.contract].threshold:
            self.accuse(f"{fact.node} dispatched a round without enough endorsements")
        separator = self.terms.separator(order.contract)
        if round_digest(separator, order.leaves, order.valid_until_s) != order.digest:
            self.accuse(f"{fact.node} dispatched a round whose leaves are not those of its digest")
        for transition in order.transitions:
            # Permissions of liars are on no disk that counts.
            is_judged = not self.terms.liars or transition.intent in self.owners
            self.judged += 1
            self.chances += is_judged
            if is_judged and not self._is_permitted(transition, fact.node) and not self._is_voided(transition, order):
                self.accuse(f"{self.show(transition.intent)} was dispatched by {fact.node} without its permission")
            if transition.leaf not in order.leaves or leaf_of_transition(separator, transition) != transition.leaf:
                self.accuse(
                    f"{self.show(transition.intent)} was dispatched by {fact.node} with a leaf that was not endorsed"
                )

    def _is_permitted(self, transition: Transition, dispatcher: NodeName) -> bool:
        """Whether the sender's disk permits the leaf to this dispatcher, under a number delegated to it."""
        owner = self.owners.get(transition.intent)
        for node, delegate, number in self.permitted.get((transition.intent, transition.leaf), ()):
            was_delegated = node == dispatcher or (transition.intent, number, dispatcher) in self.delegated
            if node == owner and delegate == dispatcher and was_delegated:
                return True
        return False

    def _is_voided(self, transition: Transition, order: DispatchRound) -> bool:
        """Whether all honest endorsers that signed, at least one, had it on disk as prepared for long enough."""
        honest = [node for node, _ in order.signatures if node not in self.terms.liars]
        since = [self.prepared.get((transition.intent, node)) for node in honest]
        is_left = [
            at_s is not None and self.time_s - at_s > self.terms.config_of(node).prepared_hold_s
            for node, at_s in zip(honest, since, strict=True)
        ]
        return transition.is_empty and not transition.signature and bool(is_left) and all(is_left)

    def _valid_count(self, order: DispatchRound) -> int:
        endorsers = self.terms.contracts[order.contract].endorsers
        signatures = dict(order.signatures)
        return sum(
            endorser in signatures and self.terms.verify(endorser, order.digest, signatures[endorser])
            for endorser in endorsers
        )


class NoncesAreGapless(Invariant):
    """S7: nonces of a signer are gapless and a mined nonce has one payload."""

    name = "S7"

    def hears(self) -> Mapping[type[Any], Handler]:
        """Handlers for dispatches on disk and sent to the chain."""
        self.next_nonce: dict[str, int] = {}
        self.sent: dict[tuple[str, int], Digest] = {}
        return {Recorded: self._recorded, Submitted: self._submitted}

    def _recorded(self, fact: Recorded) -> None:
        record = fact.record
        if isinstance(record, RoundDispatch):
            expected = self.next_nonce.get(record.signer, 0)
            self.judged += 1
            self.chances += 1
            if record.nonce > expected:
                self.accuse(f"{record.signer} used nonce {record.nonce}, and {expected} was the next")
            if self.sent.get((record.signer, record.nonce), record.round.digest) != record.round.digest:
                self.accuse(f"{record.signer} used nonce {record.nonce} again after it had been sent")
            self.next_nonce[record.signer] = max(expected, record.nonce + 1)

    def _submitted(self, fact: Submitted) -> None:
        key, digest = (fact.dispatch.signer, fact.dispatch.nonce), fact.dispatch.round.digest
        self.judged += 1
        self.chances += key in self.sent
        if self.sent.setdefault(key, digest) != digest:
            self.accuse(f"{key[0]} sent two payloads with nonce {key[1]}")
        if key[1] >= self.next_nonce.get(key[0], 0):
            self.accuse(f"{key[0]} sent nonce {key[1]}, which is on no disk")
