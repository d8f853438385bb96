"""Delivery of prepared transitions to their senders: one per contract and node (protocol §4.2).

Theory of operation. In submit mode `external` there is neither permission nor submitter: an endorsed
transition is recorded here, with all that a committer needs, and sent to its sender until that has recorded and
acknowledged it. The delivery does not depend on the coordinator's state, nor on a restart of the node. It
ends with the acknowledgement, or when the transition has expired in a final block. A sender also acknowledges a
transition that it does not need: only its receipt counts.

Dependencies of a prepared transition. Its committer may come at once, so all states that it spends or reads
must be on the chain or on their way there by a durable dispatch: a maker that is only ready may still be
dropped, with no node left to notify the user. No transition may depend on a prepared one before that is on
the chain: its user decides whether it ever gets there, and that may take a while. So its outputs are
not offered, and its inputs are reserved for it (`kept.py`).
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
    """A prepared transition that its sender has not acknowledged, and the number of attempts to send it."""

    record: TransitionPrepared
    attempt: int = 0


class Issuing:
    """The prepared transitions of one coordinator that are to be delivered to their senders."""

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
        """Send the prepared transition again."""
        assert isinstance(event, IssueRepeatDue), "the issuing knows its events"
        self._send(event.leaf)

    def prepare(self, transaction: HeldIntent) -> None:
        """Record and send an endorsed transition; it leaves its round and the graph, and its states are reserved."""
        opened = transaction.round
        assert opened is not None, "what is prepared was endorsed in a round"
        signatures = tuple(EndorserSignature(*signed) for signed in opened.signatures.items())
        prepared = PreparedTransaction(opened.digest, opened.leaves, opened.valid_until_s, signatures, transaction.made)
        kept = kept_for(prepared)
        self.kept.keep(kept)
        # Its sender may name any bound, but an endorser signs none beyond its own limit.
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
        """Stop sending it: its sender has it, or does not need it."""
        open_ = self.open.get(body.leaf)
        if open_ is not None and open_.record.sender == peer:
            self.context.persist(PreparedAcknowledged(body.intent, body.leaf))
            self._close(body.leaf)

    def time_is_final(self, chain_time_s: int) -> None:
        """Stop sending transitions that have expired."""
        for leaf, open_ in tuple(self.open.items()):
            if open_.record.prepared.valid_until_s < chain_time_s:
                self._close(leaf)

    def is_open(self, intent: IntentId) -> bool:
        """Whether a prepared transition of this intent is being delivered."""
        return any(open_.record.prepared.transition.intent == intent for open_ in self.open.values())

    def listed(self) -> tuple[tuple[NodeName, IntentId], ...]:
        """Return sender and intent of deliveries whose transaction is not here any more."""
        return tuple(
            (open_.record.sender, open_.record.prepared.transition.intent)
            for open_ in self.open.values()
            if open_.record.prepared.transition.intent not in self.coordinator.transactions
        )

    def _is_carried(self, made: Transition) -> bool:
        """Whether an endorser has it committed at no cost to its sender; other senders commit theirs themselves."""
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
        """Return the transaction that waits for this acknowledgement, if it is still here."""
        open_ = self.open.get(leaf)
        found = self.coordinator.transactions.get(open_.record.prepared.transition.intent) if open_ else None
        is_waiting = found is not None and found.state is State.PREPARED and found.leaf == leaf
        return found if is_waiting else None


def kept_for(prepared: PreparedTransaction) -> KeptStates:
    """Return the reservation for a prepared transition."""
    transition = prepared.transition
    return KeptStates(transition.intent, transition.leaf, transition.inputs, prepared.valid_until_s)


def _kind(leaf: Leaf) -> str:
    return f"issue {leaf.hex()}"
