"""Data of a coordinator in every state: intents, rounds, hand-overs, heartbeats.

Its rules are in `coordinator.py`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from enum import Enum
from itertools import takewhile
from typing import cast

from rota.machine.bounded import forget_oldest
from rota.machine.effects import TransitionPrepared
from rota.machine.pacing import VERIFIED_TIMES_MAX, Pacing
from rota.machine.tables import Event, Machine, superstate
from rota.model.blocks import LedgerOutcome, LedgerStatus
from rota.model.digests import round_digest
from rota.model.types import (
    FlushPoint,
    HeartbeatNumber,
    IntentId,
    KeptStates,
    Leaf,
    Mode,
    NodeName,
    RequestId,
    Rotation,
    StateId,
    Transition,
    Tried,
)
from rota.sequencer.attestation import Unapproved
from rota.sequencer.context import Context
from rota.sequencer.coordinator_events import (
    EndorserFollowsAnother,
    HandoverReceived,
    HeartbeatInterval,
    TransactionConfirmed,
    TransactionDispatchConfirmed,
    TransactionsDelegated,
    TransactionStateTransition,
)
from rota.sequencer.coordinator_transaction_events import (
    Abandoned,
    ConfirmationUndone,
    Confirmed,
    DependencyReady,
    DependencyReverted,
    PermissionWithheld,
)
from rota.sequencer.coordinator_transaction_events import RequestTimeoutInterval as TransactionRequestTimeoutInterval
from rota.sequencer.dispatching import Dispatching
from rota.sequencer.effects import VerifyEndorsers
from rota.sequencer.empties import Empties
from rota.sequencer.events import EndorsersVerified
from rota.sequencer.gas_allowances import GasAllowances
from rota.sequencer.graph import Graph, Placed
from rota.sequencer.handover import Claims, claims_of
from rota.sequencer.held_intent import ASSEMBLED, AWAITING_ASSEMBLY, ON_THE_WAY, READY, UNDISPATCHED, HeldIntent
from rota.sequencer.held_intent import State as TransactionState
from rota.sequencer.issuing import Issuing
from rota.sequencer.kept import Kept
from rota.sequencer.listing import Listing
from rota.sequencer.observer import Observer
from rota.sequencer.permissions import Permissions
from rota.sequencer.probation import Probation
from rota.sequencer.quotas import Quotas
from rota.sequencer.recent_outcomes import RecentOutcomes
from rota.sequencer.round import endorsers_missing
from rota.sequencer.rounds import Rounds
from rota.sequencer.selection import ranking
from rota.sequencer.slots import Slots
from rota.sequencer.turns import Turns
from rota.sequencer.voids import Voids
from rota.wire.messages import CoordinatorHeartbeat, HandedOver, HandedRound, Handover, HandoverReason, Rejection
from rota.wire.messages import CoordinatorState as State

AWAITING_ROLE = superstate("AwaitingRole", State.STANDBY, State.ELECT, State.PREPARED)
ACTING = superstate("Acting", AWAITING_ROLE, State.ACTIVE)
LEAVING = superstate("Leaving", State.FLUSH, State.CLOSING)
HEARTBEATING = (*ACTING.states, *LEAVING.states)


# Intents that were refused, and dropped before they were given up.
REFUSED_INTENTS_MAX = 1_024


class CoordinatorBase(Machine):
    """What the coordinator machine acts on: one per contract and node."""

    def __init__(
        self,
        context: Context,
        observer: Observer,
        dispatched: Iterable[HandedOver] = (),
        kept: Kept | None = None,
        unacknowledged: Iterable[TransitionPrepared] = (),
        rounds: Iterable[HandedRound] = (),
        turns: Turns | None = None,
    ) -> None:
        super().__init__()
        self.context = context
        self.observer = observer
        self.outcomes = RecentOutcomes()
        self.transactions: dict[IntentId, HeldIntent] = {}
        self.kept = kept or Kept()
        self.turns = turns or Turns(context)
        self.probation = Probation(context)
        self.unapproved = Unapproved(context)
        self.graph = Graph(self.kept)
        self.slots = Slots(self)
        self.permissions = Permissions(self)
        self.rounds = Rounds(self, self.slots, self.permissions)
        self.signers = self.rounds.signers
        self.dispatching = Dispatching(self, self.rounds)
        self.issuing = Issuing(self, self.rounds, unacknowledged)
        self.waiters: dict[IntentId, dict[IntentId, None]] = {}
        self.quotas = Quotas(context, self.graph)
        self.empties = Empties(context)
        self.voids = Voids(context, observer, self.kept, self.empties, self._may_void)
        self.gas = GasAllowances(context, self.slots.look_again_at)
        self.pacing = Pacing(context)
        self.told: dict[NodeName, Listing] = {}
        self.restored: dict[Leaf, HandedOver] = {handed.transition.leaf: handed for handed in dispatched}
        self.restored_rounds = {round_digest(context.separator, r.leaves, r.valid_until_s): r for r in rounds}
        self.claims: dict[RequestId, Claims] = {}
        self.received_count = 0
        self.heartbeat_count = 0
        self.change_posted = False
        self.is_stopping = False
        self.successor: NodeName | None = None
        self.asked: NodeName | None = None
        self.asked_because = HandoverReason.OUTRANKS
        self.asked_id: RequestId | None = None
        self.succeeded: NodeName | None = None
        self.awaited: dict[FlushPoint, None] = {}
        self.awaited_changed_ms = 0
        self.standby_range = 0
        self.standby_for: NodeName | None = None
        # The endorsers that do not accept this coordinator, and the node that each follows.
        self.following_others: dict[NodeName, NodeName] = {}
        self.yielded_to: NodeName | None = None
        self.yielded_range = 0
        self.redirects: dict[NodeName, Tried] = {}
        self.refused_before: dict[IntentId, int] = {}
        self.unanswered: dict[NodeName, RequestId] = {}
        self.closing_left = 0
        self.idle_heartbeats = 0
        self.paused_until_ms = 0
        self.since_ms = context.now_ms

    # Queries.

    @property
    def active(self) -> NodeName | None:
        """The other node that this one takes for the active coordinator."""
        return self.observer.active

    @property
    def number(self) -> HeartbeatNumber:
        """The number of our latest heartbeat."""
        return HeartbeatNumber(self.context.incarnation, self.heartbeat_count)

    @property
    def in_state_for_ms(self) -> int:
        """Time in the present state."""
        return self.context.now_ms - self.since_ms

    @property
    def is_strict(self) -> bool:
        """Whether the contract rotates at every range boundary."""
        return self.context.contract.rotation is Rotation.STRICT

    @property
    def has_flush_points(self) -> bool:
        """Whether a dispatch of ours is past the point of no return and has no outcome."""
        return bool(self.restored) or bool(self.dispatching.flush_points())

    @property
    def has_room_for_a_slot(self) -> bool:
        """Whether all transitions under way fit the snapshot that a slot is assembled on."""
        return self.graph.fits_snapshot(self.context.config.message_bytes_max)

    def _may_void(self) -> bool:
        return self.state is State.ACTIVE

    def is_outranked_by(self, node: NodeName, block_range: int | None = None) -> bool:
        """Whether the node outranks this one by §2, at the later of their ranges unless a range is given."""
        return self.observer.outranks(node, self.context.node, block_range)

    def rejection_of(self, event: TransactionsDelegated, block_range: int) -> Rejection | None:
        """Return why a delegation is not acceptable, or None if it is (protocol §5)."""
        contract = self.context.contract
        if contract.mode is Mode.RING and contract.range_at(event.height) != block_range:
            return Rejection.MISMATCHED_BLOCK_HEIGHT
        order = ranking(contract, block_range, event.peer)
        tried = {entry.node for entry in event.command.tried}
        better = takewhile(lambda node: node != self.context.node, order)
        leads = self.context.node in order and all(n in tried or self.observer.is_passed_over(n) for n in better)
        return None if leads else Rejection.NOT_PREFERRED_COORDINATOR

    def confirm_and_dispatch(self) -> None:
        """Request permissions and dispatch ready rounds; in Flush the coordinator still does this."""
        if self.permissions.to_confirm:
            self.permissions.ask()
        if self.rounds.rounds:
            self.dispatching.dispatch_ready()

    # Notifications from transactions and rounds.

    def something_changed(self) -> None:
        """After the present event, check once what is possible now."""
        if not self.change_posted:
            self.change_posted = True
            self.context.post(self, TransactionStateTransition())

    def transaction_changed(self, transaction: HeldIntent, previous: TransactionState) -> None:
        """Update the queues by state, and notify the transactions that wait for this one."""
        state = transaction.state
        if previous is TransactionState.ASSEMBLING:
            self.slots.leave(transaction)
        awaits = state in AWAITING_ASSEMBLY.states
        if awaits != transaction.awaits_assembly:
            move = self.slots.await_assembly if awaits else self.slots.stop_awaiting_assembly
            move(transaction, transaction.order)
            transaction.awaits_assembly = awaits
        if state is TransactionState.PREASSEMBLY_BLOCKED:
            self.wait(transaction)
        elif state is TransactionState.CONFIRMING_DISPATCH:
            self.permissions.await_answer(transaction)
        elif state is TransactionState.READY_FOR_DISPATCH:
            self.context.post(self, TransactionDispatchConfirmed())
        elif state is TransactionState.DISPATCHED and transaction.is_apart:
            self.quotas.show(transaction.sender, transaction.made)
        if state in READY:
            self._tell_users_of(transaction.leaf)
        if transaction.is_gone:
            self.release_waiters(transaction, DependencyReverted(transaction.intent.id))
        self.something_changed()

    def _tell_users_of(self, leaf: Leaf) -> None:
        """Notify direct dependents: one goes on to permission when it is ready, to its user when it is dispatched."""
        for placed in self.graph.direct_users(leaf):
            user = self.transactions.get(placed.intent)
            if user is not None:
                self.context.post(user, DependencyReady())

    def tell_asked_again(self, intents: Iterable[IntentId]) -> None:
        """Report to these intents that the request they wait for was repeated."""
        for intent in tuple(intents):
            self.transactions[intent].handle(TransactionRequestTimeoutInterval())

    def unassembled_before(self, transaction: HeldIntent) -> tuple[IntentId, ...]:
        """Return the latest earlier intent of that sender that awaits its first assembly (protocol §4.2)."""
        for _, intent in reversed(self.slots.awaiting.get(transaction.sender, ())):
            if not self.transactions[intent].was_assembled:
                return (intent,)
        return ()

    def isolate(self, sender: NodeName, withholds: bool = False) -> None:
        """Probation: unendorsed intents of the sender go apart; withheld ones leave their rounds as bare leaves."""
        self.probation.note_fault(sender)
        self.signers.doubt(sender)
        for transaction in tuple(self.transactions.values()):
            if transaction.sender == sender and transaction.state is TransactionState.ENDORSEMENT_GATHERING:
                self.rounds.set_apart(transaction)
            elif transaction.sender == sender and withholds:
                transaction.handle(PermissionWithheld())

    def giving_way_to(self, sender: NodeName, leaves: Iterable[Leaf]) -> frozenset[Leaf]:
        """Return the leaves that lock nothing for this sender: not permitted ones of senders on probation.

        Those whose plan's endorsers have not approved them in time are included.
        """
        probation, unapproved = self.probation, self.unapproved
        if not (probation.standings or unapproved.senders) or probation.has(sender) or unapproved.has(sender):
            return frozenset()
        some = ((leaf, self.transactions.get(self.graph.placed[leaf].intent)) for leaf in leaves)
        return frozenset(
            leaf
            for leaf, holder in some
            if holder is not None
            and holder.is_apart
            and holder.state in ASSEMBLED.states
            and holder.leaf == leaf
            and (probation.has(holder.sender) or (holder.is_unapproved and unapproved.has(holder.sender)))
        )

    def reset_givers(self, sender: NodeName, transition: Transition) -> None:
        """Reset the transitions that give way to this one."""
        references = (*transition.inputs, *transition.reads)
        self._reset_undispatched(self.giving_way_to(sender, self.graph.spenders_of(references)))

    def note_waste(self, sender: NodeName) -> None:
        """Delay the sender: this node paid for transitions of it that the chain skipped or reverted."""
        self.isolate(sender)
        self.slots.look_again_at(self.probation.note_waste(sender))

    def note_failed_call(self, transaction: HeldIntent) -> None:
        """Note that its call failed, so that its dependents lose their round, at this node's cost.

        A sender with repeated failures could keep a shared state from the other members, so it is delayed.
        """
        sender = transaction.sender
        users = self.graph.dependents_last_first(transaction.leaf)
        if any(user.sender != sender for user in users) and self.probation.fails_others_too_often(sender):
            self.note_waste(sender)

    def was_spent_before(self, transaction: HeldIntent) -> bool:
        """Whether only its sender explains the skip: not an earlier spender, its dependencies, or this node."""
        made = transaction.made
        references = (*made.inputs, *made.reads)
        if not references or self.outcomes.may_be_spent_since(references, transaction.placed_at):
            return False
        return all(self.outcomes.leaf_of(intent) == leaf for intent, leaf in transaction.makers)

    def wait(self, transaction: HeldIntent) -> None:
        """Register the transaction to be notified when its dependencies are assembled or gone."""
        for awaited in transaction.waits_for:
            self.waiters.setdefault(awaited, {})[transaction.intent.id] = None

    def release_waiters(self, transaction: HeldIntent, event: Event) -> None:
        """Notify the transactions that wait for this one: it is assembled, or gone."""
        for waiter in self.waiters.pop(transaction.intent.id, {}):
            waiting = self.transactions.get(waiter)
            if waiting is not None and transaction.intent.id in waiting.waits_for:
                waiting.handle(event)

    def reset_users_of(self, leaf: Leaf, coming_back: frozenset[IntentId]) -> None:
        """Reset all dependents of a leaf, last to first; those coming back do so after it (protocol §4.2)."""
        users = self.graph.dependents_last_first(leaf)
        back = coming_back | {placed.intent for placed in users}
        for placed in users:
            user = self.transactions.get(placed.intent)
            if user is not None:
                user.handle(DependencyReverted(placed.intent, back))
            if placed.leaf in self.graph.placed:
                self.graph.withdraw(placed.leaf)

    def may_be_kept(self, kept: KeptStates) -> bool:
        """Whether its validity is within that of a prepared transition, and its intent is not used."""
        latest_s = self.context.latest_valid_until_s(is_prepared=True)
        return kept.valid_until_s <= latest_s and not self.outcomes.is_committed(kept.intent)

    def respect(self, kept: KeptStates) -> None:
        """Reserve these states for a prepared transition, and reset undispatched transitions here that spend them."""
        self.kept.keep(kept)
        self.reset_spenders(kept.inputs, kept.leaf, kept.intent)

    def reset_spenders(self, locks: tuple[StateId, ...], but: Leaf, but_of: IntentId | None = None) -> None:
        """Reset undispatched transitions here that spend or read these states."""
        self._reset_undispatched(self.graph.spenders_among(locks, but=but), but_of)

    def _reset_undispatched(self, leaves: Iterable[Leaf], but_of: IntentId | None = None) -> None:
        for leaf in leaves:
            placed = self.graph.placed.get(leaf)
            # A dependent of another of these was reset with it.
            transaction = self.transactions.get(placed.intent) if placed is not None else None
            if transaction is None or transaction.intent.id == but_of or transaction.state not in UNDISPATCHED:
                continue
            self.reset_users_of(leaf, frozenset())
            transaction.handle(DependencyReverted(transaction.intent.id))

    def take_handover(self, peer: NodeName, handover: Handover) -> None:
        """Take the answer to our request, as far as endorsers have signed its contents."""
        if peer != self.asked or handover.request_id != self.asked_id:
            return
        claims = claims_of(self.context, peer, handover)
        key, interval_ms = ("hand-over", peer), self.context.config.request_timeout_ms
        if claims.signed and not self.pacing.is_due(key, interval_ms, VERIFIED_TIMES_MAX):
            return
        if claims.signed:
            # Verified under an id drawn here: the verdict is on these claims, whatever else the peer answers meanwhile.
            order = VerifyEndorsers(self.context.contract.address, self.context.next_id(), claims.signed)
            self.claims = {order.request_id: claims}
            self.context.effects.append(order)
        else:
            self.handle(HandoverReceived(peer, claims.believed(())))

    def take_handover_verified(self, event: EndorsersVerified) -> None:
        """Take the verdict on the signatures of the latest hand-over."""
        claims = self.claims.pop(event.request_id)
        self.handle(HandoverReceived(claims.peer, claims.believed(event.are_valid)))

    def forget(self, transaction: HeldIntent) -> None:
        """Forget a final transaction; keep its refusal count if its sender may have dropped it only for a while."""
        self.context.timers.cancel_all(transaction)
        del self.transactions[transaction.intent.id]
        if transaction.refused_count and transaction.reverted is None:
            self.refused_before[transaction.intent.id] = transaction.refused_count
            forget_oldest(self.refused_before, REFUSED_INTENTS_MAX)
        transaction.let_go()
        self.quotas.places.give_back(transaction.sender, 1)
        self.release_waiters(transaction, DependencyReverted(transaction.intent.id))
        self.something_changed()

    def endorser_follows(self, peer: NodeName, accepted: NodeName | None) -> None:
        """Note that an endorser does not accept this coordinator."""
        if accepted is not None and accepted != self.context.node:
            self.context.post(self, EndorserFollowsAnother(peer, accepted))

    # Outcomes from the ledger.

    def take_outcome(self, outcome: LedgerOutcome) -> None:
        """Take an outcome from the own index, of any node's dispatch."""
        self.outcomes.note(outcome)
        self.voids.take_outcome(outcome)
        self._settle_foreign(outcome)
        doubtful = self.graph.foreign_makers(outcome.leaf) if outcome.is_contention else ()
        transaction = self.transactions.get(outcome.intent)
        if transaction is not None:
            transaction.handle(Confirmed(outcome))
            if self.state not in ACTING.states and transaction.state in UNDISPATCHED:
                transaction.handle(Abandoned())
        self._give_up_all(doubtful)
        if outcome.inputs:
            # Transitions that spend the same cannot be committed any more; dispatching them would waste gas.
            self._reset_undispatched(self.graph.spenders_of(outcome.inputs))
        settled = [point for point in self.awaited if self.outcomes.is_settled(point)]
        for point in settled:
            del self.awaited[point]
            self.awaited_changed_ms = self.context.now_ms
        self.context.post(self, TransactionConfirmed())

    def has_dispatched(self, outcome: LedgerOutcome) -> bool:
        """Whether this version is a dispatch of ours, which the store has with its outputs."""
        transaction = self.transactions.get(outcome.intent)
        is_ours = transaction is not None and transaction.is_flush_point and transaction.leaf == outcome.leaf
        return is_ours or outcome.leaf in self.restored

    def undo_outcome(self, outcome: LedgerOutcome) -> None:
        """A reorganisation took an outcome back: reset the transitions assembled on its states."""
        self.outcomes.undo(outcome)
        transaction = self.transactions.get(outcome.intent)
        if transaction is not None and outcome.status is LedgerStatus.COMMITTED:
            transaction.handle(ConfirmationUndone(outcome.leaf))
        self.reset_users_of(outcome.leaf, frozenset())

    def _settle_foreign(self, outcome: LedgerOutcome) -> None:
        """Settle flush points of a hand-over, and dispatches from before the restart, by their outcome."""
        is_committed = outcome.status is LedgerStatus.COMMITTED
        for leaf in [leaf for leaf, handed in self.restored.items() if handed.point.intent == outcome.intent]:
            if is_committed or leaf == outcome.leaf:
                del self.restored[leaf]
                self.something_changed()
        for placed in self.graph.foreign():
            if placed.intent != outcome.intent or not (is_committed or placed.leaf == outcome.leaf):
                continue
            if is_committed and placed.leaf == outcome.leaf:
                self.graph.remove(placed.leaf)
                self.something_changed()
            else:
                self._give_up(placed)

    def give_up_foreign(self, intents: Collection[IntentId]) -> None:
        """Give up handed-over versions of these intents, of which this node makes its own: nothing may depend on them.

        Such a version may never have an outcome in the index, since only its submitter knows of a dropped one. For the
        same reason nothing is built on one that the ledger lacked when a dependent of it got there, nor on one that the
        ledger no longer takes.
        """
        self._give_up_all(placed for placed in self.graph.foreign() if placed.intent in intents)

    def give_up_expired(self) -> None:
        """Give up handed-over transitions and voids that expired without outcome; no report would come."""
        self.voids.expire()
        now_s = self.context.chain_time_s
        self._give_up_all(placed for placed in self.graph.foreign() if placed.valid_until_s < now_s)

    def _give_up_all(self, some: Iterable[Placed]) -> None:
        for placed in some:
            self._give_up(placed)

    def _give_up(self, placed: Placed) -> None:
        self.slots.refuse_states_of(placed.leaf)
        self.reset_users_of(placed.leaf, frozenset())
        self.graph.remove(placed.leaf)
        self.something_changed()

    # Heartbeats.

    def send_heartbeats(self, state: State | None = None) -> None:
        """Send a heartbeat to every member, every node with an intent here, and the own sender and observer."""
        state = state or cast(State, self.state)
        successor = self.successor if state in LEAVING.states else None
        self.heartbeat_count += 1
        listed = self._listed()
        listeners = self._listeners()
        for node in listeners:
            self._send_heartbeat(node, state, listed.get(node, {}), successor)
        for node in [node for node in self.told if node not in listeners]:
            del self.told[node]

    def refuse(self, node: NodeName) -> None:
        """Refuse a hand-over request by a heartbeat."""
        self.heartbeat_count += 1
        self._send_heartbeat(node, cast(State, self.state), self._listed().get(node, {}), refused=node)

    def tell_whole_list(self, node: NodeName) -> None:
        """Send the whole list to a sender that missed a heartbeat, at most once in each interval as lists are long."""
        key, interval_ms = ("list", node), self.context.config.heartbeat_ms
        if node in self.told and self.state in HEARTBEATING and self.pacing.is_due(key, interval_ms):
            del self.told[node]
            self.heartbeat_count += 1
            state = cast(State, self.state)
            successor = self.successor if state in LEAVING.states else None
            self._send_heartbeat(node, state, self._listed().get(node, {}), successor)

    def _send_heartbeat(
        self,
        node: NodeName,
        state: State,
        listed: dict[IntentId, str],
        successor: NodeName | None = None,
        refused: NodeName | None = None,
    ) -> None:
        """Send what changed for the node since the last heartbeat, or everything in the first one (protocol §6)."""
        told = self.told.get(node)
        is_whole = told is None
        if told is None:
            told = self.told[node] = Listing()
        changed, gone = told.changes(listed)
        rounds, now_ms, patience_ms = self.rounds.rounds, self.context.now_ms, self.context.config.request_timeout_ms
        missing = endorsers_missing(rounds.values(), node, now_ms, patience_ms) if rounds and listed else ()
        heartbeat = CoordinatorHeartbeat(
            number=self.number,
            state=state,
            intents=changed,
            successor=successor,
            refused=refused,
            is_whole=is_whole,
            gone=gone,
            count=told.count,
            digest=told.digest,
            missing=missing,
        )
        self.context.send(node, heartbeat)

    def _listed(self) -> dict[NodeName, dict[IntentId, str]]:
        """Return the intents that each sender's heartbeat lists, with their states."""
        listed: dict[NodeName, dict[IntentId, str]] = {}
        for transaction in self.transactions.values():
            if self._may_list(transaction):
                listed.setdefault(transaction.sender, {})[transaction.intent.id] = transaction.state.value
        for sender, intent in self.issuing.listed():
            listed.setdefault(sender, {})[intent] = TransactionState.PREPARED.value
        return listed

    def _may_list(self, transaction: HeldIntent) -> bool:
        """Whether to list it; without a ledger no dispatched one is, as senders must go elsewhere (protocol §4.1)."""
        if transaction.is_gone:
            return transaction.state is TransactionState.CONFIRMED
        return self.context.has_ledger or transaction.state not in ON_THE_WAY

    def _listeners(self) -> tuple[NodeName, ...]:
        members = self.context.contract.committee if self.observer.has_observation else ()
        return tuple(dict.fromkeys((*members, *self.quotas.places.held, self.context.node)))

    def changed(self, previous: Enum) -> None:
        """Send a heartbeat at once on every change of state; stop them in Idle."""
        self.since_ms = self.context.now_ms
        timers = self.context.timers
        if self.state is State.IDLE:
            timers.cancel(self, "heartbeat")
            self.told.clear()
        elif not timers.is_set(self, "heartbeat"):
            timers.set(self, "heartbeat", self.context.next_beat_ms(), HeartbeatInterval())
        if self.state is not State.ELECT:
            timers.cancel(self, "request")
            timers.cancel(self, "handover")
        if self.state is not State.PREPARED:
            timers.cancel(self, "flush")
        if self.state in HEARTBEATING:
            self.send_heartbeats()
