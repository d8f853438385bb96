"""Invariants that hold when a chain undoes more blocks than `confirmations`, or a database loses commits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rota.model.types import INTENT_ID_USED, IntentId, Outcome
from rota.sim.facts import Committed, NonceRead, ReceiptRead, Reported, Undone
from rota.sim.invariants.judge import Handler, Invariant


class ReceiptsAreTrueOrMarked(Invariant):
    """F1: after lost blocks no receipt is confirmed without its intent on the chain, and nonces agree with the chain.

    At no time has an intent two effects.

    A receipt that no longer holds changes to reverted, and back to confirmed when the chain has its intent again. That
    every intent ends, marked or not, is L1.
    """

    name = "F1"

    def hears(self) -> Mapping[type[Any], Handler]:
        """Handlers for ledger outcomes and reports, and for receipts and nonces that nodes return at the end."""
        self.committed: set[IntentId] = set()
        self.reported: set[IntentId] = set()
        return {
            Reported: self._reported,
            Committed: self._committed,
            Undone: self._undone,
            ReceiptRead: self._read,
            NonceRead: self._nonce,
        }

    def _committed(self, fact: Committed) -> None:
        intent = fact.transition.intent
        self.judged += 1
        if intent in self.committed:
            self.accuse(f"{self.show(intent)} has two effects on the ledger")
        if not fact.transition.is_empty:
            self.committed.add(intent)

    def _undone(self, fact: Undone) -> None:
        self.committed.discard(fact.transition.intent)

    def _reported(self, fact: Reported) -> None:
        self.reported.add(fact.receipt.intent)

    def _read(self, fact: ReceiptRead) -> None:
        is_confirmed = fact.outcome is Outcome.CONFIRMED
        self.judged += 1
        self.chances += fact.intent in self.reported
        if is_confirmed and fact.intent not in self.committed:
            self.accuse(f"{fact.node} says that {self.show(fact.intent)} is confirmed, and the chain has lost it")
        elif not is_confirmed and fact.intent in self.committed:
            self.accuse(f"{fact.node} does not say that {self.show(fact.intent)} is confirmed, and the chain has it")
        elif fact.outcome is None and fact.intent in self.reported:
            self.accuse(f"{fact.node} had reported {self.show(fact.intent)}, and its receipt is gone without a mark")

    def _nonce(self, fact: NonceRead) -> None:
        self.judged += 1
        self.chances += 1
        if fact.own != fact.on_chain or fact.open_count:
            words = f"goes on with nonce {fact.own} and the chain with {fact.on_chain}"
            self.accuse(f"{fact.node} {words}; {fact.open_count} dispatches are open")


class ReceiptsAreTrueAfterFailover(ReceiptsAreTrueOrMarked):
    """F2: after databases lost commits no receipt is false, no intent has two effects, and nonces agree with the chain.

    A node whose disk lost a leaf that its party signed, and to which no member can show it, reports that the id was
    used and that an operator has to investigate: that is true as well.
    """

    name = "F2"

    def hears(self) -> Mapping[type[Any], Handler]:
        """The handlers of F1; also collects receipts that report a used id."""
        self.doubtful: set[IntentId] = set()
        return super().hears()

    def _reported(self, fact: Reported) -> None:
        super()._reported(fact)
        if fact.receipt.code == INTENT_ID_USED:
            self.doubtful.add(fact.receipt.intent)

    def _read(self, fact: ReceiptRead) -> None:
        if fact.intent not in self.doubtful or fact.outcome is not Outcome.REVERTED:
            super()._read(fact)
