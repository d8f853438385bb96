"""Dispatch: an endorsed and permitted round goes to the submitter (protocol §7).

Theory of operation. A round is dispatched when every remaining member is permitted and all their
dependencies are dispatched. The ledger gets members that left an endorsed round as bare leaves: the signatures
stay valid for the rest. If the signer fails, the dispatch is retried with backoff.
"""

from __future__ import annotations

from rota.machine.effects import DispatchRound
from rota.model.types import FlushPoint, NodeName
from rota.sequencer.coordinator_owner import OwningCoordinator
from rota.sequencer.coordinator_transaction_events import Collected, NonceAllocated, Submitted
from rota.sequencer.events import DispatchRetryDue, RoundDispatched, RoundDispatchFailed, RoundSubmitted
from rota.sequencer.held_intent import ON_THE_WAY, HeldIntent, Phase, Round, State
from rota.sequencer.rounds import Rounds
from rota.wire.messages import SubmittedIntent, TransactionDispatched


class Dispatching:
    """The dispatches of one coordinator."""

    def __init__(self, coordinator: OwningCoordinator, rounds: Rounds) -> None:
        self.coordinator = coordinator
        self.context = coordinator.context
        self.rounds = rounds

    def dispatch_ready(self) -> None:
        """Dispatch the rounds that are ready."""
        for opened in tuple(self.rounds.rounds.values()):
            self._dispatch_if_ready(opened)

    def dependencies_ready(self, transaction: HeldIntent) -> bool:
        """Whether its dependencies are in its own round, or ready for dispatch, or another coordinator's dispatches."""
        for placed in self.coordinator.graph.dependencies(transaction.leaf):
            maker = self.coordinator.transactions.get(placed.intent)
            if placed.point is not None or maker is None or maker.round is transaction.round:
                continue
            if maker.state not in ON_THE_WAY:
                return False
        return True

    def dependencies_dispatched(self, transaction: HeldIntent) -> bool:
        """Whether its dependencies are on the chain, or on their way there by a durable dispatch."""
        makers = (
            self.coordinator.transactions.get(placed.intent)
            for placed in self.coordinator.graph.dependencies(transaction.leaf)
            if placed.point is None
        )
        return all(maker is None or maker.state in (State.DISPATCHED, State.SUBMITTED) for maker in makers)

    def is_undispatched(self, transaction: HeldIntent) -> bool:
        """Whether its round has not been given to the submitter."""
        return transaction.round is not None and transaction.round.phase is Phase.ENDORSED

    def take_dispatched(self, event: RoundDispatched) -> None:
        """The dispatch is durable: notify the senders."""
        opened = self.rounds.rounds.get(event.digest)
        if opened is None:
            return
        opened.phase = Phase.DISPATCHED
        told: dict[NodeName, list[SubmittedIntent]] = {}
        for transaction in tuple(opened.members.values()):
            transaction.handle(Collected())
            transaction.handle(NonceAllocated(event.signer, event.nonce))
            submitted = SubmittedIntent(transaction.intent.id, transaction.leaf, event.signer, event.nonce, 0)
            told.setdefault(transaction.sender, []).append(submitted)
        for sender, intents in told.items():
            self.context.send(sender, TransactionDispatched(event.digest, tuple(intents)))

    def take_failure(self, event: RoundDispatchFailed) -> None:
        """The signer failed: retry with backoff, without effect on other rounds."""
        opened = self.rounds.rounds.get(event.digest)
        if opened is None:
            self.coordinator.voids.take_failure(event.digest)
            return
        due_ms = self.context.after(self.context.retry_delay_ms(opened.dispatch_attempts))
        opened.dispatch_attempts += 1
        self.context.timers.set(self.rounds, f"dispatch {opened.number}", due_ms, DispatchRetryDue(event.digest))

    def take_submitted(self, event: RoundSubmitted) -> None:
        """Note that the round's base-ledger transaction was sent to the chain."""
        opened = self.rounds.rounds.get(event.digest)
        if opened is None:
            return
        if event.submission_count == 1:
            self.rounds.gathering.note_submitted(opened.opened_at_ms)
        for transaction in tuple(opened.members.values()):
            transaction.handle(Submitted(event.submission_count))

    def flush_points(self) -> tuple[HeldIntent, ...]:
        """Return the transactions past the point of no return and without an outcome."""
        return tuple(t for t in self.coordinator.transactions.values() if t.is_flush_point)

    def has_unwritten_dispatch(self) -> bool:
        """Whether a transaction is ready for dispatch but its dispatch not yet durable."""
        return any(transaction.state is State.READY_FOR_DISPATCH for transaction in self.flush_points())

    def _dispatch_if_ready(self, opened: Round) -> None:
        if opened.phase is not Phase.ENDORSED:
            return
        members = opened.members.values()
        for member in members:
            if member.state is not State.READY_FOR_DISPATCH:
                return
        if not all(self._makers_are_dispatched(member, opened) for member in members):
            return
        opened.phase = Phase.DISPATCHING
        for member in members:
            self.coordinator.gas.charge(member.sender, member.made)
        self.context.effects.append(
            DispatchRound(
                self.context.contract.address,
                opened.digest,
                opened.leaves,
                tuple(member.made for member in members),
                tuple(member.sender for member in members),
                tuple(opened.signatures.items()),
                opened.valid_until_s,
            )
        )

    def _makers_are_dispatched(self, member: HeldIntent, opened: Round) -> bool:
        for placed in self.coordinator.graph.dependencies(member.leaf):
            maker = self.coordinator.transactions.get(placed.intent)
            makers_round = maker.round if maker is not None else None
            if makers_round not in (None, opened) and makers_round.phase is not Phase.DISPATCHED:
                return False
        return True


def flush_point_of(transaction: HeldIntent) -> FlushPoint:
    """A flush point is (round digest, intent id): a skip of an older version does not count."""
    assert transaction.digest is not None, "a flush point was endorsed in a round"
    return FlushPoint(transaction.digest, transaction.intent.id)
