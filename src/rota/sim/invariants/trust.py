"""The promises of an honest node to its users among nodes that lie (T1, T2); ids (R2) and plans (R3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rota.machine.effects import IntentAccepted, IntentFinalised
from rota.model.digests import state_commitment
from rota.model.types import (
    INTENT_ID_USED,
    NO_ATTESTERS,
    ContractAddress,
    IntentId,
    Leaf,
    NodeName,
    Outcome,
    Party,
    Receipt,
    StateId,
    Transition,
)
from rota.sim.domain import plan_of
from rota.sim.facts import (
    Approved,
    Assembled,
    Committed,
    Cosigned,
    Expected,
    Recorded,
    Reorganised,
    Reported,
    Signed,
    Undone,
)
from rota.sim.invariants.judge import Handler, Invariant
from rota.sim.invariants.privacy import transitions_in


class OutcomesAreTrue(Invariant):
    """T1: a reported outcome is true of the final chain and never changes.

    Confirmed: a leaf that the intent's own party signed is on the chain, and is not empty. Reverted: no such leaf ever
    is, so that a user who submits again does not pay twice; with `INTENT_ID_USED`, the leaf on the chain is another's.
    """

    name = "T1"

    def hears(self) -> Mapping[type[Any], Handler]:
        """Handlers for signatures of honest parties, ledger outcomes and receipts."""
        self.signed: set[tuple[IntentId, Leaf]] = set()
        # An id belongs to its contract: a transition under it in another contract is of no consequence.
        self.contracts: dict[IntentId, ContractAddress] = {}
        self.committed: dict[tuple[ContractAddress, IntentId], Transition] = {}
        self.reported: dict[IntentId, Receipt] = {}
        self.depth = 0
        return {
            Signed: self._signed,
            Committed: self._committed,
            Undone: self._undone,
            Reorganised: self._reorganised,
            Reported: self._reported,
            Recorded: self._recorded,
        }

    def _signed(self, fact: Signed) -> None:
        self.signed.add((fact.intent, fact.leaf))

    def _committed(self, fact: Committed) -> None:
        intent = fact.transition.intent
        if (fact.contract, intent) in self.committed:
            self.accuse(f"{self.show(intent)} is on the ledger twice")
        self.committed[fact.contract, intent] = fact.transition
        receipt = self.reported.get(intent)
        if receipt is not None:
            self._judge(receipt)

    def _reorganised(self, fact: Reorganised) -> None:
        self.depth = fact.depth

    def _undone(self, fact: Undone) -> None:
        """A reorganisation deeper than `confirmations` is outside of the promise."""
        intent = fact.transition.intent
        self.committed.pop((fact.contract, intent), None)
        if intent not in self.reported or self.contracts.get(intent) != fact.contract:
            return
        if self.depth > self.terms.confirmations:
            del self.reported[intent]
        elif self.reported[intent].outcome is Outcome.CONFIRMED:
            self.accuse(f"{self.show(intent)} was reported confirmed before it was final")

    def _recorded(self, fact: Recorded) -> None:
        """A receipt on the disk may be read before it is reported."""
        if isinstance(fact.record, IntentFinalised):
            self._take(fact.record.receipt)
        elif isinstance(fact.record, IntentAccepted):
            self.contracts[fact.record.intent.id] = fact.record.intent.contract

    def _reported(self, fact: Reported) -> None:
        self._take(fact.receipt)

    def _take(self, receipt: Receipt) -> None:
        before = self.reported.setdefault(receipt.intent, receipt)
        if before.outcome is not receipt.outcome:
            words = f"{before.outcome.value} and then {receipt.outcome.value}"
            self.accuse(f"{self.show(receipt.intent)} was reported {words}")
        self._judge(receipt)

    def _judge(self, receipt: Receipt) -> None:
        intent = receipt.intent
        contract = self.contracts.get(intent)
        found = self.committed.get((contract, intent)) if contract is not None else None
        if receipt.contract is not None:
            return
        self.judged += 1
        self.chances += 1
        is_own = found is not None and (intent, found.leaf) in self.signed
        if receipt.outcome is Outcome.REVERTED:
            if found is not None and is_own and not found.is_empty:
                self.accuse(
                    f"{self.show(intent)} was reported reverted ({receipt.reason}) and has its effect on the ledger"
                )
            if found is None and receipt.code == INTENT_ID_USED:
                self.accuse(f"{self.show(intent)} was reported as used by another, and nobody used it")
        elif found is None:
            self.accuse(f"{self.show(intent)} was reported confirmed and is not on the ledger")
        elif found.is_empty:
            self.accuse(f"{self.show(intent)} was reported confirmed and was voided")
        elif not is_own:
            self.accuse(f"{self.show(intent)} was reported confirmed by a leaf that its party never signed")
        elif found.leaf != receipt.leaf:
            self.accuse(f"{self.show(intent)} was reported confirmed by a version that is not on the ledger")

    def conclude(self) -> None:
        """Judge all receipts again: the liars have committed all their rounds by now."""
        for receipt in self.reported.values():
            self._judge(receipt)


class PlansAreKept(Invariant):
    """R3: no transition is committed without its plan's attesters: parties that signed it, endorsers that approved."""

    name = "R3"

    def hears(self) -> Mapping[type[Any], Handler]:
        """Handlers for approvals, signatures, assemblies and ledger outcomes."""
        self.transitions: dict[Leaf, tuple[NodeName, Transition]] = {}
        self.approved: dict[Leaf, set[NodeName]] = {}
        self.cosigned: dict[Leaf, tuple[Party, ...]] = {}
        return {
            Assembled: self._assembled,
            Approved: self._approved,
            Cosigned: self._cosigned,
            Committed: self._committed,
        }

    def _assembled(self, fact: Assembled) -> None:
        if plan_of(fact.transition, Party(f"user@{fact.node}")) != NO_ATTESTERS:
            self.transitions[fact.transition.leaf] = fact.node, fact.transition

    def _approved(self, fact: Approved) -> None:
        for leaf in fact.leaves:
            self.approved.setdefault(leaf, set()).add(fact.node)

    def _cosigned(self, fact: Cosigned) -> None:
        self.cosigned[fact.leaf] = fact.parties

    def _committed(self, fact: Committed) -> None:
        leaf = fact.transition.leaf
        if leaf not in self.transitions:
            return
        node, made = self.transitions[leaf]
        plan = plan_of(made, Party(f"user@{node}"))
        self.judged += 1
        self.chances += 1
        lacking = [name for name in plan.endorsers if name not in self.approved.get(leaf, ())]
        if lacking:
            self.accuse(f"{self.show(made.intent)} was committed without the approval of {', '.join(lacking)}")
        if any(signer.party not in self.cosigned.get(leaf, ()) for signer in plan.signers):
            self.accuse(f"{self.show(made.intent)} was committed without the signature of a party of its plan")


class IdsBelongToTheirParties(Invariant):
    """R2: only the party of an intent puts anything on the chain under its id."""

    name = "R2"

    def hears(self) -> Mapping[type[Any], Handler]:
        """Handlers for accepted intents, signatures and ledger outcomes."""
        self.accepted: set[tuple[ContractAddress, IntentId]] = set()
        self.signed: set[tuple[IntentId, Leaf]] = set()
        self.committed: set[tuple[ContractAddress, IntentId]] = set()
        return {Recorded: self._recorded, Signed: self._signed, Committed: self._committed, Undone: self._undone}

    def _recorded(self, fact: Recorded) -> None:
        if isinstance(fact.record, IntentAccepted):
            key = (fact.record.intent.contract, fact.record.intent.id)
            self.accepted.add(key)
            if key in self.committed:
                self.accuse(f"{self.show(key[1])} was on the ledger before its party asked for it")

    def _signed(self, fact: Signed) -> None:
        self.signed.add((fact.intent, fact.leaf))

    def _committed(self, fact: Committed) -> None:
        intent, leaf = fact.transition.intent, fact.transition.leaf
        self.committed.add((fact.contract, intent))
        self.judged += 1
        self.chances += (fact.contract, intent) in self.accepted
        if (fact.contract, intent) in self.accepted and (intent, leaf) not in self.signed:
            what = "voided" if fact.transition.is_empty else "used"
            self.accuse(f"{self.show(intent)} was {what} by a leaf that its party never signed")

    def _undone(self, fact: Undone) -> None:
        self.committed.discard((fact.contract, fact.transition.intent))


class ValidIntentsHappen(Invariant):
    """T3: every intent ends, with its effect if it is valid: no peer can make an honest node give it up."""

    name = "T3"

    def hears(self) -> Mapping[type[Any], Handler]:
        """Handlers for valid intents and receipts."""
        self.expected: set[IntentId] = set()
        return {Expected: self._expected, Reported: self._reported}

    def _expected(self, fact: Expected) -> None:
        self.expected.add(fact.intent)

    def _reported(self, fact: Reported) -> None:
        receipt = fact.receipt
        self.judged += 1
        self.chances += receipt.intent in self.expected
        if receipt.outcome is Outcome.REVERTED and receipt.intent in self.expected:
            self.accuse(f"{self.show(receipt.intent)} is valid, and was reported reverted: {receipt.reason}")


class ConfirmedStatesAreTrue(Invariant):
    """T2: a state held as confirmed is the one whose commitment is on the chain."""

    name = "T2"

    def hears(self) -> Mapping[type[Any], Handler]:
        """Handlers for states on disks and ledger outcomes."""
        self.held: dict[Leaf, dict[tuple[NodeName, StateId], bytes]] = {}
        self.made: dict[StateId, bytes] = {}
        return {Recorded: self._recorded, Committed: self._committed, Undone: self._undone}

    def _recorded(self, fact: Recorded) -> None:
        for transition in transitions_in(fact.record):
            for state in transition.outputs:
                if state.content is not None:
                    held = self.held.setdefault(state.id.leaf, {})
                    commitment = state_commitment(state.content)
                    if held.setdefault((fact.node, state.id), commitment) != commitment:
                        # The store may keep either of them, so a node must never write two different ones.
                        held[fact.node, state.id] = b"two contents"
                    self._judge(fact.node, state.id)

    def _committed(self, fact: Committed) -> None:
        for state in fact.transition.outputs:
            self.made[state.id] = state.commitment
            for node, held in self.held.get(state.id.leaf, {}):
                if held == state.id:
                    self._judge(node, held)

    def _undone(self, fact: Undone) -> None:
        for state in fact.transition.outputs:
            self.made.pop(state.id, None)

    def _judge(self, node: NodeName, state: StateId) -> None:
        commitment = self.made.get(state)
        self.judged += 1
        self.chances += commitment is not None
        if commitment is not None and self.held[state.leaf][node, state] != commitment:
            self.accuse(f"{node} holds a state of leaf {state.leaf.hex()[:8]} that is not the one on the ledger")
