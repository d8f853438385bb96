"""Prepared transitions to their senders until acknowledged: one per contract and node (protocol §4.2).

Theory of operation. In submit mode `external` nobody asks for permission and nobody submits: an endorsed
transition is made durable here, with all that a committer needs, and sent to its sender until that has made
it durable too and says so. This goes on whatever becomes of the coordinator: after it stepped down, and after
a restart of the node. It ends when the acknowledgement is durable, or when the transition has expired in a
final block. A sender acknowledges also what it has no use for: that it has heard is all that we want to know.

What a prepared transition may stand on. Its committer may come at once, so that all that it spends or reads
must be on the chain or on its way there by a dispatch that is durable: what is merely ready may still be
dropped, with nobody left who would tell the user. Nothing may stand on a prepared transition before it is on
the chain: whether it ever gets there is for its user to decide, and may take a while. What it makes is therefore
offered to nobody, and what it spends is kept for it (`kept.py`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rota.machine.effects import TransitionPrepared
from rota.machine.tables import Event
from rota.model.types import IntentId, KeptStates, Leaf, NodeName
from rota.sequencer.coordinator_transaction import CoordinatorTransaction
from rota.sequencer.effects import PreparedAcknowledged
from rota.sequencer.events.coordinator_transaction import Issued, RequestTimeoutInterval
from rota.sequencer.events.issuing import (
    AcknowledgementDurable,
    AcknowledgementNotWritten,
    IssueRepeatDue,
    PreparedDurable,
    PreparedNotWritten,
    PreparedRetryDue,
)
from rota.sequencer.states.coordinator_transaction import State
from rota.wire.messages import EndorserSignature, PreparedTransaction, PreparedTransactionAcknowledgement

if TYPE_CHECKING:
    from rota.sequencer.coordinator import Coordinator


@dataclass(slots=True)
class Open:
    """A prepared transition that its sender has not acknowledged; how often it was sent, or not written."""

    record: TransitionPrepared
    is_durable: bool = False
    attempt: int = 0
    is_acknowledging: bool = False


class Issuing:
    """The prepared transitions of one coordinator that are on their way to their senders."""

    def __init__(self, coordinator: Coordinator, unacknowledged: Iterable[TransitionPrepared]) -> None:
        self.coordinator = coordinator
        self.context = coordinator.context
        self.kept = coordinator.kept
        self.open: dict[Leaf, Open] = {}
        for record in unacknowledged:
            leaf = record.prepared.transition.leaf
            self.open[leaf] = Open(record, is_durable=True)
            self.context.timers.set(self, _kind(leaf), self.context.now_ms, IssueRepeatDue(leaf))

    def handle(self, event: Event) -> None:
        """A write is done, or a timer of ours has run out."""
        match event:
            case PreparedDurable(leaf):
                self.open[leaf].is_durable, self.open[leaf].attempt = True, 0
                self._send(leaf)
            case PreparedNotWritten(leaf):
                self._back_off(leaf, self.context.config.retry_backoff_ms, PreparedRetryDue(leaf))
            case PreparedRetryDue(leaf):
                self._write_again(leaf)
            case IssueRepeatDue(leaf):
                self._send(leaf)
            case AcknowledgementDurable(leaf):
                self._close(leaf)
            case _:
                assert isinstance(event, AcknowledgementNotWritten), "the issuing knows its events"
                if event.leaf in self.open:
                    self.open[event.leaf].is_acknowledging = False

    def prepare(self, transaction: CoordinatorTransaction) -> None:
        """Durable first. It leaves its round and the graph: from now on its states are kept for it."""
        opened = transaction.round
        assert opened is not None, "what is prepared was endorsed in a round"
        signatures = tuple(EndorserSignature(*signed) for signed in opened.signatures.items())
        prepared = PreparedTransaction(opened.digest, opened.leaves, opened.valid_until_s, signatures, transaction.made)
        kept = kept_for(prepared)
        self.kept.keep(kept)
        # Its sender may name any bound, and no endorser signs beyond its own view of one.
        until_s = min(transaction.made.valid_until_s, self.context.latest_valid_until_s(is_prepared=True))
        self.coordinator.turns.take(transaction.sender, kept._replace(valid_until_s=until_s))
        self.coordinator.rounds.settle(transaction)
        self.coordinator.graph.remove(transaction.leaf)
        transaction.count_as_assembled(False)
        self.open[transaction.leaf] = Open(TransitionPrepared(transaction.sender, prepared))
        self._write(transaction.leaf)

    def take_acknowledgement(self, peer: NodeName, body: PreparedTransactionAcknowledgement) -> None:
        """Its sender has it, or has no use for it: durable, and then it is no longer sent."""
        open_ = self.open.get(body.leaf)
        if open_ is None or open_.record.sender != peer or not open_.is_durable or open_.is_acknowledging:
            return
        open_.is_acknowledging = True
        record = PreparedAcknowledged(body.intent, body.leaf)
        self.context.persist(record, self, AcknowledgementDurable(body.leaf), AcknowledgementNotWritten(body.leaf))

    def time_is_final(self, chain_time_s: int) -> None:
        """Nobody can use what has expired."""
        for leaf, open_ in tuple(self.open.items()):
            if open_.is_durable and open_.record.prepared.valid_until_s < chain_time_s:
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

    def _write(self, leaf: Leaf) -> None:
        self.context.persist(self.open[leaf].record, self, PreparedDurable(leaf), PreparedNotWritten(leaf))

    def _write_again(self, leaf: Leaf) -> None:
        """Unless nobody waits for it any more: then it never left this node."""
        if self._transaction(leaf) is not None:
            self._write(leaf)
        else:
            intent = self.open.pop(leaf).record.prepared.transition.intent
            if leaf not in self.kept.signed:
                self.kept.forget(leaf)
            if not self.kept.keeps_for(intent):
                self.coordinator.turns.drop(intent)

    def _send(self, leaf: Leaf) -> None:
        record = self.open[leaf].record
        transition = record.prepared.transition.as_seen_by(record.sender)
        self.context.send(record.sender, replace(record.prepared, transition=transition))
        transaction = self._transaction(leaf)
        if transaction is not None and self.open[leaf].attempt:
            transaction.handle(RequestTimeoutInterval())
        self._back_off(leaf, self.context.config.request_timeout_ms, IssueRepeatDue(leaf))

    def _back_off(self, leaf: Leaf, first_ms: int, event: Event) -> None:
        open_ = self.open[leaf]
        delay_ms = self.context.backoff_ms(open_.attempt, first_ms, self.context.config.retry_backoff_max_ms)
        open_.attempt += 1
        self.context.timers.set(self, _kind(leaf), self.context.after(delay_ms), event)

    def _close(self, leaf: Leaf) -> None:
        transaction = self._transaction(leaf)
        if self.open.pop(leaf, None) is not None:
            self.context.timers.cancel(self, _kind(leaf))
        if transaction is not None:
            transaction.handle(Issued())

    def _transaction(self, leaf: Leaf) -> CoordinatorTransaction | None:
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
