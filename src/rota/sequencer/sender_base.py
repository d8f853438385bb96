"""Data of a sender in every state: intents, answers, and possible delegates.

Its rules are in `sender.py`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from rota.machine.effects import IntentAccepted, ReplyToUser
from rota.machine.events import IntentSubmitted
from rota.machine.pacing import VERIFIED_OF_PEER_MAX, VERIFIED_TIMES_MAX, Pacing
from rota.machine.tables import Machine
from rota.model.awaited import REVERTED
from rota.model.blocks import LedgerOutcome, LedgerStatus
from rota.model.consistency import Consistent
from rota.model.digests import refusal_digest
from rota.model.types import (
    NEVER_HEARD,
    AwaitedLeaf,
    Dependency,
    HeartbeatNumber,
    IntentId,
    NodeName,
    Outcome,
    RequestId,
    Rotation,
    Tried,
)
from rota.sequencer.assembly import Assembly
from rota.sequencer.context import Context
from rota.sequencer.coordinator_base import CoordinatorBase
from rota.sequencer.effects import Signed, VerifyEndorsers
from rota.sequencer.events import EndorsersVerified
from rota.sequencer.external_issue import HeldPrepared
from rota.sequencer.handover import endorsers_among
from rota.sequencer.id_inquiry import LeafShown
from rota.sequencer.observer import Observer
from rota.sequencer.parties import Parties
from rota.sequencer.progress import Progress
from rota.sequencer.sender_events import (
    BaseLedgerTransactionReverted,
    DispatchAnswersDue,
    TransactionConfirmed,
    TransactionCreated,
)
from rota.sequencer.sender_transaction import DELEGATED, PERMITTED, UNDER_WAY, WAITING, SenderTransaction
from rota.sequencer.sender_transaction import State as TransactionState
from rota.sequencer.sender_transaction_events import (
    ConfirmationFinal,
    ConfirmationUndone,
    ConfirmedReverted,
    ConfirmedSuccess,
    CoordinatorChanged,
    Created,
    DispatchConfirmationRequestReceived,
    Dispatched,
    Dropped,
    GivenUp,
    NonceAssigned,
    PreparedTransactionReceived,
    Submitted,
    SubmitterSilent,
    VersionsVoid,
    dependency_event,
)
from rota.sequencer.sent_intent import HeldRefusals, Restored
from rota.sequencer.turns import longest_rest_s
from rota.sequencer.versions import must_wait_to_sign
from rota.wire.messages import (
    CoordinatorState,
    DispatchConfirmationError,
    DispatchConfirmationRequest,
    DispatchConfirmationResponse,
    ErrorCode,
    IntentError,
    PreparedTransaction,
    PreparedTransactionAcknowledgement,
    SubmittedIntent,
    TransactionReverted,
)

LEAVING = (CoordinatorState.FLUSH, CoordinatorState.CLOSING)


@dataclass(slots=True)
class Command:
    """A delegation command that has not been answered."""

    command_id: RequestId
    intents: tuple[IntentId, ...]


# Within `delegation_timeout`.
REDIRECTS_AT_ONCE_MAX: Final = 8


@dataclass(slots=True)
class DispatchAnswer:
    """The answer of this step to one permission request."""

    permitted: list[IntentId] = field(default_factory=list)
    errors: list[IntentError] = field(default_factory=list)


class SenderBase(Machine):
    """The data and messages of a sender: one per contract and node."""

    def __init__(self, context: Context, observer: Observer, coordinator: CoordinatorBase) -> None:
        super().__init__()
        self.context = context
        self.observer = observer
        self.coordinator = coordinator
        self.transactions: dict[IntentId, SenderTransaction] = {}
        self.pending: dict[IntentId, SenderTransaction] = {}
        # The delegate to which all delegated intents were recalled, and whether any went elsewhere since.
        self.called_back_to: NodeName | None = None
        self.has_strays = False
        self.delegated: dict[IntentId, SenderTransaction] = {}
        self.permitted: dict[IntentId, SenderTransaction] = {}
        self.ending: dict[IntentId, SenderTransaction] = {}
        self.doubtful: dict[IntentId, SenderTransaction] = {}
        self.queues: dict[Enum, dict[IntentId, SenderTransaction]] = {
            TransactionState.PENDING: self.pending,
            **dict.fromkeys(DELEGATED.states, self.delegated),
            **dict.fromkeys(PERMITTED.states, self.permitted),
            TransactionState.ID_USED: self.doubtful,
        }
        self.final_time_s = self.latest_chain_time_s = context.chain_time_s
        self.delegate: NodeName | None = None
        # The number of its latest heartbeat when it was chosen.
        self.delegate_number = NEVER_HEARD
        self.command: Command | None = None
        self.is_full = False
        self.unavailable: dict[NodeName, int] = {}
        self.told: dict[NodeName, Tried] = {}
        # The times of the latest redirects that were followed.
        self.redirected_ms: deque[int] = deque(maxlen=REDIRECTS_AT_ONCE_MAX)
        self.progress = Progress(context, (self.pending, self.delegated, self.permitted))
        # Until then endorsers may refuse external intents because it is not this node's turn.
        self.rests_until_ms = 0
        self.awaited_range: int | None = None
        self.behind_since_ms: int | None = None
        self.attempt = 0
        self.work_posted = False
        self.end_posted = False
        self.why_waiting = ""
        self.dispatch_answers: dict[tuple[NodeName, RequestId], DispatchAnswer] = {}
        self.pacing = Pacing(context)
        self.assembly = Assembly(
            context, observer, self.pacing, coordinator.kept, self.transactions, self.refusal_to_assemble
        )
        self.parties = Parties(context, self.transactions)
        observer.has_intents_of_ours = self.has_intents_at

    def has_intents_at(self, node: NodeName) -> bool:
        """Whether this node has accepted intents of ours that have not ended and are not delegated to another one."""
        held = (each for each in self.transactions.values() if each.lease_ms is not None)
        return any(transaction.delegate == node for transaction in held)

    # From users.

    def take_intent(self, event: IntentSubmitted) -> None:
        """Record the intent, reply with its id, and begin it."""
        self.context.persist(IntentAccepted(event.intent))
        self.context.effects.append(ReplyToUser(event.reply_to, event.intent.id))
        self.begin(SenderTransaction(self, Restored(event.intent), is_new=True), dict(event.known_outcomes))

    def restore(self, restored: Restored, outcomes: dict[IntentId, Outcome]) -> None:
        """Take up an intent that was not final when the node stopped."""
        self.begin(SenderTransaction(self, restored, is_new=False), outcomes)

    def dependency_ended(self, dependency: Dependency, outcome: Outcome, reason: str = REVERTED) -> None:
        """Report to dependents of this transaction, of any contract, how it ended."""
        event = dependency_event(dependency, outcome, reason)
        for transaction in tuple(self.transactions.values()):
            if dependency in transaction.unmet:
                transaction.dependency_ended(event)

    def begin(self, transaction: SenderTransaction, outcomes: dict[IntentId, Outcome]) -> None:
        """Begin an intent, new or from before a restart: it waits for its dependencies and parties."""
        intent = transaction.intent
        self.transactions[intent.id] = transaction
        transaction.unmet = dict.fromkeys(intent.dependencies)
        for other in intent.depends_on:
            if other in self.transactions:
                self.transactions[other].has_dependents = True
        transaction.unresolved = self.parties.unresolved(intent.parties)
        transaction.handle(Created())
        for other in intent.depends_on:
            if other in outcomes and other in transaction.unmet:
                transaction.dependency_ended(dependency_event(other, outcomes[other]))
        leaf = self.coordinator.outcomes.leaf_of(intent.id)
        if leaf is not None and not transaction.is_ended:
            # A transition used the id before its party signed one: no version of ours can be committed under it.
            transaction.handle(ConfirmedSuccess(leaf))
            if self.coordinator.outcomes.is_final(intent.id):
                transaction.receiver.handle(ConfirmationFinal())
        self.parties.resolve_for(transaction)
        if intent.id in self.pending and not transaction.is_with_delegate:
            # The exact count follows with progress; until then a new intent must not slow the delegate's pace.
            self.progress.note_held_back(self.progress.held_back_count + 1)

    def shows_states_of(self, dependency: Dependency) -> bool:
        """Whether the coordinator shows its states to a dependent: it is with the same one, or on the chain."""
        other = None if isinstance(dependency, AwaitedLeaf) else self.transactions.get(dependency)
        if other is None or other.is_ending or other.intent.is_external:
            return False
        return other.is_confirmed or (other.is_assembled and other.delegate == self.delegate)

    # From the coordinator.

    def refusal_to_assemble(self, peer: NodeName, intent: IntentId) -> ErrorCode | None:
        """Return why this coordinator may not have this intent assembled, or None if it may."""
        transaction = self.transactions.get(intent)
        if transaction is None:
            return ErrorCode.UNKNOWN_INTENT
        if transaction.is_ended:
            return ErrorCode.FINAL_INTENT
        if transaction.state is TransactionState.ENDING:
            return ErrorCode.CANCELLED
        transaction.forget_expired_versions()
        if must_wait_to_sign(transaction, self.final_time_s):
            return ErrorCode.FAILED
        is_with_peer = transaction.delegate == peer and transaction.state not in WAITING
        return None if is_with_peer else ErrorCode.NOT_CURRENT_DELEGATE

    def take_permission_request(self, peer: NodeName, request: DispatchConfirmationRequest) -> None:
        """Have each intent decide on its leaf; the answers go out together."""
        for item in request.items:
            transaction = self.transactions.get(item.intent)
            if transaction is None:
                self.refuse_dispatch(peer, request.request_id, item.intent, ErrorCode.UNKNOWN_INTENT)
            else:
                transaction.receiver.handle(DispatchConfirmationRequestReceived(peer, request.request_id, item))

    def permit_dispatch(self, peer: NodeName, request_id: RequestId, intent: IntentId) -> None:
        """Permit one intent of a request."""
        self._dispatch_answer(peer, request_id).permitted.append(intent)

    def refuse_dispatch(self, peer: NodeName, request_id: RequestId, intent: IntentId, code: ErrorCode) -> None:
        """Refuse one intent of a request."""
        self._dispatch_answer(peer, request_id).errors.append(IntentError(intent, code))

    def send_dispatch_answers(self) -> None:
        """Send the permissions and refusals of this step, one message of each kind for a request."""
        answers, self.dispatch_answers = self.dispatch_answers, {}
        for (peer, request_id), answer in answers.items():
            if answer.permitted:
                self.context.send(peer, DispatchConfirmationResponse(request_id, tuple(answer.permitted)))
            if answer.errors:
                self.context.send(peer, DispatchConfirmationError(request_id, tuple(answer.errors)))

    def _dispatch_answer(self, peer: NodeName, request_id: RequestId) -> DispatchAnswer:
        if not self.dispatch_answers:
            self.context.post(self, DispatchAnswersDue())
        return self.dispatch_answers.setdefault((peer, request_id), DispatchAnswer())

    def take_prepared(self, peer: NodeName, prepared: PreparedTransaction) -> None:
        """Take an endorsed transition of an external intent; if that is unknown it has ended: acknowledge."""
        transition, contract = prepared.transition, self.context.contract
        transaction = self.transactions.get(transition.intent)
        if transaction is None:
            self.context.send(peer, PreparedTransactionAcknowledgement(transition.intent, transition.leaf))
            return
        signers = endorsers_among(contract, prepared.signatures)
        if transaction.is_undispatched and len(signers) == contract.threshold > 0:
            # Otherwise one that no node can commit would end the intent on expiry, by its coordinator's report.
            if not self.may_have_verified(peer, transition.intent, "prepared"):
                return
            signed = tuple(Signed(node, prepared.digest, signature) for node, signature in signers.items())
            request_id = self.context.next_id()
            transaction.doubted_prepared[peer] = HeldPrepared(peer, request_id, prepared)
            self.context.effects.append(VerifyEndorsers(contract.address, request_id, signed, transition.intent))
        elif not transaction.is_undispatched or not contract.threshold:
            self._give(transaction, peer, prepared)
        else:
            self._decline(peer, prepared)

    def _give(self, transaction: SenderTransaction, peer: NodeName, prepared: PreparedTransaction) -> None:
        if transaction.issue is None:
            self._decline(peer, prepared)
        else:
            transaction.issue.handle(PreparedTransactionReceived(peer, prepared))

    def _decline(self, peer: NodeName, prepared: PreparedTransaction) -> None:
        """Acknowledge one that is not needed or whose round is not endorsed: it need not be sent again."""
        transition = prepared.transition
        self.context.send(peer, PreparedTransactionAcknowledgement(transition.intent, transition.leaf))

    def take_dispatched(self, peer: NodeName, intents: Iterable[SubmittedIntent]) -> None:
        """Take a coordinator's or submitter's reports about dispatched intents, in any order (protocol §6)."""
        for listed in intents:
            transaction = self.transactions.get(listed.intent)
            permission = transaction.permission if transaction is not None else None
            if transaction is not None and permission is not None and permission.delegate == peer:
                transaction.handle(Dispatched(listed.leaf))
                transaction.handle(NonceAssigned(listed.leaf, listed.signer, listed.nonce))
                if listed.submission_count:
                    transaction.handle(Submitted(listed.leaf))

    def take_reverted(self, peer: NodeName, message: TransactionReverted) -> None:
        """Take the current delegate's report that it gave an intent up; only the endorsers' refusals can end it."""
        transaction = self.transactions.get(message.intent)
        if transaction is None or not _is_under_way(transaction, peer, message):
            return
        contract = self.context.contract
        refusals = {endorser: each for endorser, each in message.refusals if endorser in contract.endorsers}
        if transaction.is_voiding and not transaction.is_void(message.leaf):
            # Our index was ahead of the coordinator's: it can void the intent only now.
            transaction.handle(CoordinatorChanged("its coordinator had an older version of it"))
            return
        made = transaction.refusable(message.leaf)
        if made is None or not self._suffice(transaction, refusals):
            transaction.handle(Dropped(peer, message.reason))
            return
        if not self.may_have_verified(peer, message.intent, "refusals"):
            return
        digest = refusal_digest(self.context.separator, transaction.intent.sender, made, transaction.answered_attesters)
        signed = tuple(Signed(endorser, digest, signature) for endorser, signature in refusals.items())
        request_id = self.context.next_id()
        transaction.held_refusals = HeldRefusals(peer, request_id, message, tuple(refusals))
        self.context.effects.append(VerifyEndorsers(contract.address, request_id, signed, message.intent))

    def take_verified(self, event: EndorsersVerified, intent: IntentId) -> None:
        """Take the verdict on endorsers' signatures over a prepared transition or refusals of an intent of ours."""
        transaction = self.transactions.get(intent)
        if transaction is None:
            return
        doubted, refusals = transaction.doubted_prepared, transaction.held_refusals
        prepared = next((held for held in doubted.values() if held.request_id == event.request_id), None)
        if prepared is not None:
            del doubted[prepared.peer]
            if all(event.are_valid):
                self._give(transaction, prepared.peer, prepared.prepared)
            else:
                self._decline(prepared.peer, prepared.prepared)
        elif refusals is not None and refusals.request_id == event.request_id:
            transaction.held_refusals = None
            self._take_refusals(transaction, refusals, event)

    def may_have_verified(self, peer: NodeName, intent: IntentId, what: str) -> bool:
        """Whether the peer may have signatures about an intent verified: a possible coordinator, at a limited rate.

        It repeats its messages, and may name any number of intents, so it has an allowance for all together, too.
        """
        if not self.observer.may_coordinate(peer):
            return False
        interval_ms, is_due = self.context.config.request_timeout_ms, self.pacing.is_due
        return is_due((peer, intent, what), interval_ms, VERIFIED_TIMES_MAX) and is_due(
            ("verified", peer), interval_ms, VERIFIED_OF_PEER_MAX
        )

    def _take_refusals(self, transaction: SenderTransaction, held: HeldRefusals, event: EndorsersVerified) -> None:
        """End the intent if enough refusals of its current version are genuine; with fewer, only the delegate drops it.

        For a version assembled on the delegate's snapshot they prove nothing: the next version is assembled on our own
        states, and refusals of that count.
        """
        is_current = _is_under_way(transaction, held.peer, held.reverted)
        if not is_current or transaction.refusable(held.reverted.leaf) is None:
            return
        pairs = zip(held.endorsers, event.are_valid, strict=True)
        was_refused = self._suffice(transaction, [endorser for endorser, is_valid in pairs if is_valid])
        is_carried = transaction.is_issued_to_be_carried(held.reverted.leaf)
        if was_refused and (is_carried or transaction.is_on_own_states):
            transaction.receiver.handle(GivenUp(held.reverted.reason))
        else:
            transaction.handle(Dropped(held.peer, held.reverted.reason, was_refused))

    def _suffice(self, transaction: SenderTransaction, endorsers: Collection[NodeName]) -> bool:
        """Whether the refusals of these end the intent: more than n - k, or one of an endorser that its plan names."""
        required = transaction.answered_attesters.endorsers
        return len(endorsers) > self.context.contract.spare or any(node in required for node in endorsers)

    # Outcomes from the ledger.

    def take_outcome(self, outcome: LedgerOutcome) -> None:
        """Take an outcome from the own index."""
        transaction = self.transactions.get(outcome.intent)
        if transaction is None:
            return
        if outcome.status is LedgerStatus.COMMITTED:
            transaction.handle(ConfirmedSuccess(outcome.leaf))
        else:
            transaction.receiver.handle(ConfirmedReverted(outcome))

    def has_signed(self, outcome: LedgerOutcome) -> bool:
        """Whether it is a version that the party of an intent of ours signed."""
        transaction = self.transactions.get(outcome.intent)
        return transaction is not None and outcome.leaf in transaction.versions

    def take_shown(self, peer: NodeName, transitions: Iterable[Consistent]) -> None:
        """Take transitions that a member sent: one may be what the chain has under the id of an intent of ours."""
        for shown in transitions:
            transaction = self.doubtful.get(shown.intent)
            if transaction is not None and transaction.inquiry is not None:
                transaction.inquiry.handle(LeafShown(peer, shown))

    def undo_outcome(self, outcome: LedgerOutcome) -> None:
        """Take back an outcome after a reorganisation."""
        transaction = self.transactions.get(outcome.intent)
        if transaction is not None and outcome.status is LedgerStatus.COMMITTED:
            transaction.handle(ConfirmationUndone())

    def outcome_final(self, outcome: LedgerOutcome) -> None:
        """Note that an outcome has reached the final depth."""
        transaction = self.transactions.get(outcome.intent)
        if transaction is not None and outcome.status is LedgerStatus.COMMITTED:
            transaction.receiver.handle(ConfirmationFinal())

    def block_indexed(self) -> None:
        """The index has a new block: an early request may be due."""
        self.assembly.take_early_request()

    def time_is_final(self, chain_time_s: int) -> None:
        """Chain time is final up to this: versions past their bound are void (ledger) and no longer held."""
        self.final_time_s = chain_time_s
        for transaction in tuple(self.permitted.values()):
            permission = transaction.permission
            if permission is not None and chain_time_s > permission.valid_until_s:
                transaction.handle(SubmitterSilent("what was permitted is no longer valid", is_left=True))
        for transaction in tuple(self.ending.values()):
            if chain_time_s > transaction.void_after_s:
                transaction.receiver.handle(VersionsVoid())

    # Notifications from the transactions.

    def look_for_work(self) -> None:
        """Check for intents to delegate, once, after the present event."""
        if not self.work_posted:
            self.work_posted = True
            self.context.post(self, TransactionCreated())

    def transaction_came_further(self, transaction: SenderTransaction, stage: int) -> None:
        """Count progress: its delegate requests assembly or permission for the first time."""
        if transaction.delegate is not None and stage > transaction.stage:
            transaction.stage = stage
            self.progress.came_further(transaction.delegate)

    def transaction_ended(self, transaction: SenderTransaction) -> None:
        """Count an end. It is credited to the node that has the intent, even if another coordinates now."""
        permission = transaction.permission
        node = permission.delegate if permission is not None else transaction.delegate
        self.progress.ended(node)
        if transaction.has_left_states_unused:
            self.note_unused()
        if node is not None:
            self.observer.demotions.redeem(node)
        if not self.end_posted:
            self.end_posted = True
            self.context.post(self, TransactionConfirmed())

    def note_unused(self) -> None:
        """Note that states may have been reserved for an external intent in vain, so others may have their turn.

        Endorsers do not agree on how long (`turns.py`). Until the longest rest ends a delegate has more time for these.
        """
        self.rests_until_ms = self.context.after(1_000 * longest_rest_s(self.context.config))

    def ledger_reverted(self) -> None:
        """An intent continues after a failure on the ledger."""
        self.context.post(self, BaseLedgerTransactionReverted())

    def forget(self, transaction: SenderTransaction) -> None:
        """Remove a reported intent from memory."""
        self.context.timers.cancel_all(transaction)
        del self.transactions[transaction.intent.id]

    def transaction_changed(self, transaction: SenderTransaction) -> None:
        """Update the queues of pending, delegated, permitted and ending intents, which spare searches."""
        intent = transaction.intent.id
        if transaction.queue is not None:
            del transaction.queue[intent]
        transaction.queue = self.queues.get(transaction.state)
        if transaction.queue is not None:
            transaction.queue[intent] = transaction
        if transaction.queue is self.delegated and transaction.delegate != self.delegate:
            self.has_strays = True
        if transaction.has_dependents:
            # Its dependents may be delegated now.
            self.look_for_work()
        self.ending.pop(intent, None)
        ends_with_time = transaction.ending_reason is not None or transaction.state is TransactionState.ISSUED
        if ends_with_time and not transaction.is_ended:
            self.ending[intent] = transaction

    def possible_strays(self) -> tuple[SenderTransaction, ...]:
        """Return all delegated intents if one may be with another delegate than the present one; else none.

        Thousands may be delegated, and each message asks.
        """
        if self.called_back_to == self.delegate and not self.has_strays:
            return ()
        self.called_back_to, self.has_strays = self.delegate, False
        return tuple(self.delegated.values())

    def heard(self, node: NodeName) -> None:
        """A message from the node arrived: it is available again."""
        self.unavailable.pop(node, None)

    def latest_number_of(self, node: NodeName | None) -> HeartbeatNumber:
        """Return the number of a node's latest heartbeat."""
        return self.observer.peer(node).number if node is not None else NEVER_HEARD

    # Choice of the delegate.

    @property
    def is_sending(self) -> bool:
        """Whether an intent is not permitted yet, or may have to be delegated again."""
        return any(transaction.state in UNDER_WAY.states for transaction in self.transactions.values())

    def is_available(self, node: NodeName) -> bool:
        """Whether it is not silent, demoted or found unavailable lately; this node is not while it has stepped down."""
        if node == self.context.node and self.coordinator.paused_until_ms > self.context.now_ms:
            return False
        until_ms = self.unavailable.get(node, 0)
        return until_ms <= self.context.now_ms and not self.observer.is_passed_over(node)

    def choice(self) -> NodeName | None:
        """Sticky follows the accepted coordinator while it is live; else the ranking decides (protocol §3)."""
        if self.context.contract.rotation is Rotation.STICKY:
            accepted = self.observer.accepted
            if accepted is not None and self.observer.is_live(accepted) and self.is_available(accepted):
                return accepted
            kept = self._kept_or_successor()
            if kept is not None:
                return kept
        ranked = self.context.ranking(self.context.block_range)
        return next((node for node in ranked if self.is_available(node)), None)

    def may_follow_redirect(self, teller: NodeName, active: NodeName) -> bool:
        """Whether it names another member, at a limited rate: members may name one another in a circle."""
        if active not in self.context.contract.committee or active == teller:
            return False
        times, pause_ms = self.redirected_ms, self.context.config.delegation_timeout_ms
        return len(times) < REDIRECTS_AT_ONCE_MAX or self.context.now_ms - times[0] >= pause_ms

    def note_redirect(self, teller: NodeName, active: NodeName, number: HeartbeatNumber) -> None:
        """Note a redirect that is followed: the named node counts as available, by the teller's knowledge."""
        self.redirected_ms.append(self.context.now_ms)
        self.told[teller] = Tried(active, max(number, self.known_number_of(active, teller)))
        self.unavailable.pop(active, None)

    def _kept_or_successor(self) -> NodeName | None:
        """Return the present delegate, or the successor that it or the accepted coordinator names when it leaves."""
        for node in (self.observer.accepted, self.delegate):
            if node is not None and self._is_leaving(node) and not self.observer.is_demoted(node):
                successor = self._successor_of(node)
                if successor is not None:
                    return successor
        delegate = self.delegate
        if delegate is None or not self.is_available(delegate) or self._is_leaving(delegate):
            return None
        return delegate

    def _is_leaving(self, node: NodeName) -> bool:
        """Whether its latest heartbeat says so, and is not of a turn before the one for which it was chosen."""
        is_old = node == self.delegate and self.latest_number_of(node) <= self.delegate_number
        return self.observer.state_of(node) in LEAVING and not is_old

    def first_again(self) -> NodeName:
        """Restart the walk: return the first of the ranking, connected members before the others (protocol §4.3)."""
        ranked = self.context.ranking(self.context.block_range)
        return min(ranked, key=lambda node: not self.observer.peer(node).connected)

    def tried(self) -> tuple[Tried, ...]:
        """Return the members that could not be reached, with the latest heartbeat number known of each."""
        ranked = self.context.ranking(self.context.block_range)
        is_own = self.observer.demotions.is_own
        return tuple(
            Tried(node, self.known_number_of(node, self.delegate), is_own(node))
            for node in ranked
            if node != self.delegate and not self.is_available(node)
        )

    def known_number_of(self, node: NodeName, teller: NodeName | None) -> HeartbeatNumber:
        """Return the latest heartbeat number received, or reported by this peer; reports are not passed on."""
        told = self.told.get(teller) if teller is not None else None
        number = self.latest_number_of(node)
        return max(number, told.number) if told is not None and told.node == node else number

    def _successor_of(self, node: NodeName) -> NodeName | None:
        """Return the successor that its heartbeat names if that is a member, else None."""
        successor = self.observer.peer(node).successor
        if successor is None or successor not in self.context.contract.committee:
            return None
        return successor if self.is_available(successor) else None


def _is_under_way(transaction: SenderTransaction, peer: NodeName, message: TransactionReverted) -> bool:
    """Whether it is with its delegate, or to be carried out by the endorser's node, which has no delegation."""
    is_of_delegate = transaction.delegate == peer and message.number == transaction.number
    return is_of_delegate or transaction.is_issued_to_be_carried(message.leaf)
