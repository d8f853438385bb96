"""Prepared transitions to their senders until acknowledged: one per contract and node (protocol §4.2).

Theory of operation. In submit mode `external` nobody asks for permission and nobody submits: an endorsed
transition is recorded here, with all that a committer needs, and sent to its sender until that has recorded it too and
says so. This goes on whatever becomes of the coordinator: after it stepped down, and after a restart of the node. It
ends with the acknowledgement, or when the transition has expired in a final block. A sender acknowledges also what it
has no use for: that it has heard is all that we want to know.

What a prepared transition may stand on. Its committer may come at once, so that all that it spends or reads
must be on the chain or on its way there by a dispatch that is durable: what is merely ready may still be
dropped, with nobody left who would tell the user. Nothing may stand on a prepared transition before it is on
the chain: whether it ever gets there is for its user to decide, and may take a while. What it makes is therefore
offered to nobody, and what it spends is kept for it (`kept.py`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from rota.machine.effects import TransitionPrepared
from rota.machine.tables import Event
from rota.model.types import IntentId, KeptStates, Leaf, NodeName, Transition
from rota.sequencer.coordinator_owner import OwningCoordinator
from rota.sequencer.coordinator_transaction_events import Issued, RequestTimeoutInterval
from rota.sequencer.effects import PreparedAcknowledged
from rota.sequencer.events import IssueRepeatDue
from rota.sequencer.held_intent import HeldIntent, State
from rota.sequencer.rounds import Rounds
from rota.wire.messages import EndorserSignature, PreparedTransaction, PreparedTransactionAcknowledgement


@dataclass(slots=True)
class Open:
    """A prepared transition that its sender has not acknowledged, and how often it was sent."""

    record: TransitionPrepared
    attempt: int = 0


class Issuing:
    """The prepared transitions of one coordinator that are on their way to their senders."""

    def __init__(
        self, coordinator: OwningCoordinator, rounds: Rounds, unacknowledged: Iterable[TransitionPrepared]
    ) -> None:
        self.coordinator = coordinator
        self.rounds = rounds
        self.context = coordinator.context
        self.kept = coordinator.kept
        self.open: dict[Leaf, Open] = {}
        for record in unacknowledged:
            leaf = record.prepared.transition.leaf
            self.open[leaf] = Open(record)
            self.context.timers.set(self, _kind(leaf), self.context.now_ms, IssueRepeatDue(leaf))

    def handle(self, event: Event) -> None:
        """A timer of ours has run out."""
        assert isinstance(event, IssueRepeatDue), "the issuing knows its events"
        self._send(event.leaf)

    def prepare(self, transaction: HeldIntent) -> None:
        """It leaves its round and the graph: from now on its states are kept for it."""
        opened = transaction.round
        assert opened is not None, "what is prepared was endorsed in a round"
        signatures = tuple(EndorserSignature(*signed) for signed in opened.signatures.items())
        prepared = PreparedTransaction(opened.digest, opened.leaves, opened.valid_until_s, signatures, transaction.made)
        kept = kept_for(prepared)
        self.kept.keep(kept)
        # Its sender may name any bound, and no endorser signs beyond its own view of one.
        until_s = min(transaction.made.valid_until_s, self.context.latest_valid_until_s(is_prepared=True))
        self.coordinator.turns.take(transaction.sender, kept._replace(valid_until_s=until_s))
        if self._is_carried(transaction.made):
            self.coordinator.gas.charge(transaction.sender, transaction.made)
        self.rounds.settle(transaction)
        self.coordinator.graph.remove(transaction.leaf)
        transaction.count_as_assembled(False)
        record = TransitionPrepared(transaction.sender, prepared, transaction.intent.sender)
        self.context.persist(record)
        self.open[transaction.leaf] = Open(record)
        self._send(transaction.leaf)

    def take_acknowledgement(self, peer: NodeName, body: PreparedTransactionAcknowledgement) -> None:
        """Its sender has it, or has no use for it: it is no longer sent."""
        open_ = self.open.get(body.leaf)
        if open_ is not None and open_.record.sender == peer:
            self.context.persist(PreparedAcknowledged(body.intent, body.leaf))
            self._close(body.leaf)

    def time_is_final(self, chain_time_s: int) -> None:
        """Nobody can use what has expired."""
        for leaf, open_ in tuple(self.open.items()):
            if open_.record.prepared.valid_until_s < chain_time_s:
                self._close(leaf)

    def is_open(self, intent: IntentId) -> bool:
        """A prepared transition of this intent is on its way to its sender."""
        return any(open_.record.prepared.transition.intent == intent for open_ in self.open.values())

    def listed(self) -> tuple[tuple[NodeName, IntentId], ...]:
        """Whose prepared transitions are on their way although no transaction of theirs is here any more."""
        return tuple(
            (open_.record.sender, open_.record.prepared.transition.intent)
            for open_ in self.open.values()
            if open_.record.prepared.transition.intent not in self.coordinator.transactions
        )

    def _is_carried(self, made: Transition) -> bool:
        """Its endorser has it committed, and its sender pays nothing; others are committed by their senders."""
        return made.preparation is not None and made.preparation.committer == self.context.contract.address

    def _send(self, leaf: Leaf) -> None:
        record = self.open[leaf].record
        transition = record.prepared.transition.as_seen_by(record.sender)
        self.context.send(record.sender, replace(record.prepared, transition=transition))
        transaction = self._transaction(leaf)
        if transaction is not None and self.open[leaf].attempt:
            transaction.handle(RequestTimeoutInterval())
        open_, config = self.open[leaf], self.context.config
        delay_ms = self.context.backoff_ms(open_.attempt, config.request_timeout_ms, config.retry_backoff_max_ms)
        open_.attempt += 1
        self.context.timers.set(self, _kind(leaf), self.context.after(delay_ms), IssueRepeatDue(leaf))

    def _close(self, leaf: Leaf) -> None:
        transaction = self._transaction(leaf)
        del self.open[leaf]
        self.context.timers.cancel(self, _kind(leaf))
        if transaction is not None:
            transaction.handle(Issued())

    def _transaction(self, leaf: Leaf) -> HeldIntent | None:
        """The transaction that waits for this acknowledgement, if it is still here."""
        open_ = self.open.get(leaf)
        found = self.coordinator.transactions.get(open_.record.prepared.transition.intent) if open_ else None
        is_waiting = found is not None and found.state is State.PREPARED and found.leaf == leaf
        return found if is_waiting else None


def kept_for(prepared: PreparedTransaction) -> KeptStates:
    """What has to be kept for a prepared transition."""
    transition = prepared.transition
    return KeptStates(transition.intent, transition.leaf, transition.inputs, prepared.valid_until_s)


def _kind(leaf: Leaf) -> str:
    return f"issue {leaf.hex()}"
