"""Whom do I delegate to: one node's sender for one contract.

Theory of operation. The sender keeps all its undispatched intents with one node, its current delegate.
It asks the ranking for one when it has none, follows the accepted coordinator while that is live (sticky)
or the ranking of each range (strict), and leaves it when it is silent, unavailable, or says that it
closes. Delegating is the only test of availability: a command is repeated until it is answered, and who
does not answer in time is unavailable for a while and listed as tried. An accepted intent holds a lease
that the delegate's heartbeats renew by listing it; a missing heartbeat is only a hint to delegate again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from itertools import islice
from typing import TYPE_CHECKING

from rota.core.assembly import Assembly
from rota.core.context import Context
from rota.core.effects import IntentAccepted, ReplyToUser
from rota.core.events import IntentSubmitted, LedgerOutcome, LedgerStatus
from rota.core.events.sender import (
    BaseLedgerTransactionReverted,
    DelegationAnswered,
    DelegationRefused,
    DelegationRepeatDue,
    DelegationTimedOut,
    DispatchAnswersDue,
    HeartbeatInterval,
    HeartbeatReceived,
    IntentDurable,
    IntentNotWritten,
    NewBlock,
    PeerHeard,
    PeerLost,
    RetryDue,
    TransactionConfirmed,
    TransactionCreated,
)
from rota.core.events.sender_transaction import (
    ConfirmationFinal,
    ConfirmationUndone,
    ConfirmedReverted,
    ConfirmedSuccess,
    CoordinatorChanged,
    Created,
    Delegated,
    DependencyConfirmed,
    DependencyReverted,
    DispatchConfirmationRequestReceived,
    Dispatched,
    GivenUp,
    NonceAssigned,
    Submitted,
    VersionsVoid,
)
from rota.core.machine import Event, Ignored, Machine, Row, Table, in_states
from rota.core.observer import LIVE, Observer
from rota.core.parties import Parties
from rota.core.sender_transaction import DELEGATED, PERMITTED, Restored, SenderTransaction
from rota.core.sender_transaction import State as TransactionState
from rota.messages import (
    Answer,
    CoordinatorState,
    Delegation,
    DelegationCommand,
    DispatchConfirmationError,
    DispatchConfirmationRequest,
    DispatchConfirmationResponse,
    ErrorCode,
    IntentError,
    Rejection,
    SubmittedIntent,
    TransactionReverted,
)
from rota.types import (
    NEVER_HEARD,
    DelegationNumber,
    HeartbeatNumber,
    IntentId,
    NodeName,
    Outcome,
    RequestId,
    Rotation,
    Tried,
)

if TYPE_CHECKING:
    from rota.core.coordinator import Coordinator

LEAVING = (CoordinatorState.FLUSH, CoordinatorState.CLOSING)


class State(Enum):
    """What a sender is doing (seed 2)."""

    IDLE = "Idle"
    OBSERVING = "Observing"
    SENDING = "Sending"


@dataclass(slots=True)
class Command:
    """A delegation command that has not been answered."""

    command_id: RequestId
    intents: tuple[IntentId, ...]


@dataclass(slots=True)
class DispatchAnswer:
    """What this step answers to one permission request."""

    permitted: list[IntentId] = field(default_factory=list)
    errors: list[IntentError] = field(default_factory=list)


class Sender(Machine):
    """One per contract and node."""

    def __init__(self, context: Context, observer: Observer, coordinator: Coordinator) -> None:
        super().__init__()
        self.context = context
        self.observer = observer
        self.coordinator = coordinator
        self.transactions: dict[IntentId, SenderTransaction] = {}
        self.pending: dict[IntentId, SenderTransaction] = {}
        self.delegated: dict[IntentId, SenderTransaction] = {}
        self.delegate: NodeName | None = None
        self.command: Command | None = None
        self.is_full = False
        self.unavailable: dict[NodeName, int] = {}
        self.told: dict[NodeName, HeartbeatNumber] = {}
        self.awaited_range: int | None = None
        self.behind_since_ms: int | None = None
        self.attempt = 0
        self.work_posted = False
        self.end_posted = False
        self.why_waiting = ""
        self.dispatch_answers: dict[tuple[NodeName, RequestId], DispatchAnswer] = {}
        self.assembly = Assembly(self)
        self.parties = Parties(self)

    # From users.

    def take_intent(self, event: IntentSubmitted) -> None:
        """Durable first; then the user gets the id and the intent goes its way."""
        self.context.persist(
            IntentAccepted(event.intent), self, IntentDurable(event), IntentNotWritten(event.reply_to, event.intent.id)
        )
        self.context.effects.append(ReplyToUser(event.reply_to, event.intent.id))

    def restore(self, restored: Restored, outcomes: dict[IntentId, Outcome]) -> None:
        """An intent that was not final when the node stopped."""
        self._begin(SenderTransaction(self, restored, is_new=False), outcomes)

    def dependency_ended(self, intent: IntentId, outcome: Outcome) -> None:
        """An intent of this node, of whatever contract, is final: who depends on it is told."""
        event = DependencyConfirmed(intent) if outcome is Outcome.CONFIRMED else DependencyReverted(intent)
        for transaction in tuple(self.transactions.values()):
            if intent in transaction.unmet:
                transaction.handle(event)

    def _begin(self, transaction: SenderTransaction, outcomes: dict[IntentId, Outcome]) -> None:
        intent = transaction.intent
        self.transactions[intent.id] = transaction
        transaction.unmet = dict.fromkeys(intent.depends_on)
        transaction.unresolved = self.parties.unresolved(intent)
        transaction.handle(Created())
        for other in intent.depends_on:
            if other in outcomes:
                confirmed = outcomes[other] is Outcome.CONFIRMED
                transaction.handle(DependencyConfirmed(other) if confirmed else DependencyReverted(other))
        for party in tuple(transaction.unresolved):
            self.parties.resolve(party)

    # From the coordinator.

    def take_permission_request(self, peer: NodeName, request: DispatchConfirmationRequest) -> None:
        """May these leaves be dispatched? Each intent answers for itself; the answers travel together."""
        for item in request.items:
            transaction = self.transactions.get(item.intent)
            if transaction is None:
                self.refuse_dispatch(peer, request.request_id, item.intent, ErrorCode.UNKNOWN_INTENT)
            else:
                transaction.handle(DispatchConfirmationRequestReceived(peer, request.request_id, item))

    def permit_dispatch(self, peer: NodeName, request_id: RequestId, intent: IntentId) -> None:
        """Permission for one intent of a request."""
        self._dispatch_answer(peer, request_id).permitted.append(intent)

    def refuse_dispatch(self, peer: NodeName, request_id: RequestId, intent: IntentId, code: ErrorCode) -> None:
        """No permission for one intent of a request."""
        self._dispatch_answer(peer, request_id).errors.append(IntentError(intent, code))

    def send_dispatch_answers(self) -> None:
        """What was permitted and refused in this step, one message of each kind for a request."""
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

    def take_dispatched(self, peer: NodeName, intents: Iterable[SubmittedIntent]) -> None:
        """What coordinator or submitter say of dispatched intents; in any order (protocol §6)."""
        for listed in intents:
            transaction = self.transactions.get(listed.intent)
            permission = transaction.permission if transaction is not None else None
            if transaction is not None and permission is not None and permission.delegate == peer:
                transaction.handle(Dispatched(listed.leaf))
                transaction.handle(NonceAssigned(listed.leaf, listed.signer, listed.nonce))
                if listed.submission_count:
                    transaction.handle(Submitted(listed.leaf))

    def take_reverted(self, peer: NodeName, message: TransactionReverted) -> None:
        """The current delegate has given an intent up, under the current number."""
        transaction = self.transactions.get(message.intent)
        if transaction is not None and transaction.delegate == peer and message.number == transaction.number:
            transaction.handle(GivenUp(message.reason))

    # From the ledger.

    def take_outcome(self, outcome: LedgerOutcome) -> None:
        """An outcome on our own index: what counts."""
        transaction = self.transactions.get(outcome.intent)
        if transaction is None:
            return
        if outcome.status is LedgerStatus.COMMITTED:
            transaction.handle(ConfirmedSuccess(outcome.leaf))
        else:
            transaction.handle(ConfirmedReverted(outcome))

    def undo_outcome(self, outcome: LedgerOutcome) -> None:
        """A reorganisation took an outcome back."""
        transaction = self.transactions.get(outcome.intent)
        if transaction is not None and outcome.status is LedgerStatus.COMMITTED:
            transaction.handle(ConfirmationUndone())

    def outcome_final(self, outcome: LedgerOutcome) -> None:
        """An outcome is as deep as it must be."""
        transaction = self.transactions.get(outcome.intent)
        if transaction is not None and outcome.status is LedgerStatus.COMMITTED:
            transaction.handle(ConfirmationFinal())

    def block_indexed(self) -> None:
        """Time has passed on the chain: some versions may be void, and an early request may be due."""
        for transaction in tuple(self.transactions.values()):
            is_ending = transaction.state is TransactionState.ENDING
            if is_ending and self.context.chain_time_s > transaction.void_after_s:
                transaction.handle(VersionsVoid())
        self.assembly.take_early_request()

    # What the transactions tell.

    def look_for_work(self) -> None:
        """Something is to be delegated: look once, when the present event is dealt with."""
        if not self.work_posted:
            self.work_posted = True
            self.context.post(self, TransactionCreated())

    def transaction_ended(self) -> None:
        """One less to send."""
        if not self.end_posted:
            self.end_posted = True
            self.context.post(self, TransactionConfirmed())

    def ledger_reverted(self) -> None:
        """One goes on after a failure on the ledger."""
        self.context.post(self, BaseLedgerTransactionReverted())

    def forget(self, transaction: SenderTransaction) -> None:
        """Reported: out of memory."""
        self.context.timers.cancel_all(transaction)
        del self.transactions[transaction.intent.id]
        self.transaction_ended()

    def transaction_changed(self, transaction: SenderTransaction) -> None:
        """Which are to be delegated, and which are with a coordinator: kept, not searched for."""
        intent = transaction.intent.id
        self.pending.pop(intent, None)
        self.delegated.pop(intent, None)
        if transaction.state is TransactionState.PENDING:
            self.pending[intent] = transaction
        elif transaction.state in DELEGATED:
            self.delegated[intent] = transaction

    def heard(self, node: NodeName) -> None:
        """It has given a sign of life: it is not unavailable."""
        self.unavailable.pop(node, None)

    def latest_number_of(self, node: NodeName | None) -> HeartbeatNumber:
        """The number of a node's latest heartbeat."""
        return self.observer.peer(node).number if node is not None else NEVER_HEARD

    # Choosing.

    @property
    def is_sending(self) -> bool:
        """Something is not permitted yet, or may have to be delegated again."""
        return any(
            transaction.is_undispatched or transaction.state in PERMITTED for transaction in self.transactions.values()
        )

    def is_available(self, node: NodeName) -> bool:
        """Not silent, not found unavailable lately; ourselves not while we have stepped down."""
        if node == self.context.node and self.coordinator.paused_until_ms > self.context.now_ms:
            return False
        until_ms = self.unavailable.get(node, 0)
        return until_ms <= self.context.now_ms and not self.observer.is_silent(node)

    def choice(self) -> NodeName | None:
        """Sticky follows the accepted coordinator while it is live; else the ranking decides (protocol §3)."""
        accepted = self.observer.accepted
        if self.context.contract.rotation is Rotation.STICKY and accepted is not None:
            if self.observer.is_live(accepted) and self.is_available(accepted):
                return accepted
            if accepted == self.delegate and self.observer.state_of(accepted) in LEAVING:
                successor = self._successor_of(accepted)
                if successor is not None:
                    return successor
        ranked = self.context.ranking(self.context.block_range)
        return next((node for node in ranked if self.is_available(node)), None)

    def tried(self) -> tuple[Tried, ...]:
        """Whom we could not reach, with the latest sign of life that we know of."""
        ranked = self.context.ranking(self.context.block_range)
        return tuple(
            Tried(node, max(self.latest_number_of(node), self.told.get(node, NEVER_HEARD)))
            for node in ranked
            if node != self.delegate and not self.is_available(node)
        )

    def _successor_of(self, node: NodeName) -> NodeName | None:
        heartbeat = self.observer.peer(node).heartbeat
        successor = heartbeat.successor if heartbeat is not None else None
        return successor if successor is not None and self.is_available(successor) else None


# Guards, in the table's order.


def is_live(sender: Sender, event: HeartbeatReceived) -> bool:
    """live"""
    return event.heartbeat.state in LIVE


def nobody_is_live(sender: Sender, event: HeartbeatInterval) -> bool:
    """the accepted coordinator is silent or no longer live"""
    accepted = sender.observer.accepted
    return accepted is None or sender.observer.is_silent(accepted) or not sender.observer.is_live(accepted)


def nothing_left_and_observing(sender: Sender, event: TransactionConfirmed) -> bool:
    """nothing is left to send, and a coordinator is live"""
    accepted = sender.observer.accepted
    return nothing_left(sender, event) and accepted is not None and sender.observer.is_live(accepted)


def nothing_left(sender: Sender, event: TransactionConfirmed) -> bool:
    """nothing is left to send"""
    return not sender.is_sending


def is_from_delegate(sender: Sender, event: HeartbeatReceived) -> bool:
    """from the delegate, which goes on"""
    return event.peer == sender.delegate and event.heartbeat.state not in LEAVING


def range_asks_again(sender: Sender, event: NewBlock) -> bool:
    """strict and the range changed, or the awaited range is reached"""
    is_strict = sender.context.contract.rotation is Rotation.STRICT
    awaited = sender.awaited_range
    return (is_strict and event.range_changed) or (awaited is not None and sender.context.block_range >= awaited)


def answers_open_command(sender: Sender, event: DelegationAnswered) -> bool:
    """from the delegate, for a command that is open"""
    return event.peer == sender.delegate and _is_open(sender, event.accepted.command_id)


def is_answer(sender: Sender, event: DelegationRefused) -> bool:
    """from the delegate, for a command that is open"""
    return event.peer == sender.delegate and _is_open(sender, event.rejected.command_id)


def we_are_behind(sender: Sender, event: DelegationRefused) -> bool:
    """MismatchedBlockHeight, and our index is behind"""
    rejected = event.rejected
    is_height = rejected.rejection is Rejection.MISMATCHED_BLOCK_HEIGHT
    ahead = sender.context.contract.range_at(rejected.observed_height) > sender.context.block_range
    return is_answer(sender, event) and is_height and ahead


def delegate_is_behind_for_long(sender: Sender, event: DelegationRefused) -> bool:
    """MismatchedBlockHeight, and the delegate has been behind for twice delegation_timeout"""
    since_ms = sender.behind_since_ms
    if since_ms is None or not delegate_is_behind(sender, event):
        return False
    return sender.context.now_ms - since_ms >= 2 * sender.context.config.delegation_timeout_ms


def delegate_is_behind(sender: Sender, event: DelegationRefused) -> bool:
    """MismatchedBlockHeight, and the delegate is behind"""
    return is_answer(sender, event) and event.rejected.rejection is Rejection.MISMATCHED_BLOCK_HEIGHT


def redirect_may_be_followed(sender: Sender, event: DelegationRefused) -> bool:
    """NotPreferredCoordinator; the one named is available, or has a greater heartbeat number than ours for it"""
    active = event.rejected.active
    if not is_answer(sender, event) or active not in sender.context.contract.committee or active == event.peer:
        return False
    known = max(sender.latest_number_of(active), sender.told.get(active, NEVER_HEARD))
    return sender.is_available(active) or event.rejected.active_number > known


def delegate_has_no_ledger(sender: Sender, event: DelegationRefused) -> bool:
    """NoLedger: it counts as tried"""
    return is_answer(sender, event) and event.rejected.rejection is Rejection.NO_LEDGER


def is_delegate(sender: Sender, event: PeerLost) -> bool:
    """the delegate"""
    return event.peer == sender.delegate


def may_be_chosen(sender: Sender, event: PeerHeard) -> bool:
    """strict, or there is no delegate that is available; else under sticky nobody moves for that"""
    is_strict = sender.context.contract.rotation is Rotation.STRICT
    return is_strict or sender.delegate is None or not sender.is_available(sender.delegate)


def _is_open(sender: Sender, command_id: RequestId) -> bool:
    return sender.command is not None and sender.command.command_id == command_id


# Actions, in the table's order.


def begin_intent(sender: Sender, event: IntentDurable) -> None:
    """The intent is durable: it goes its way."""
    submitted = event.submitted
    transaction = SenderTransaction(sender, Restored(submitted.intent), is_new=True)
    sender._begin(transaction, dict(submitted.known_outcomes))


def report_unwritten(sender: Sender, event: IntentNotWritten) -> None:
    """Nothing was accepted; the user is told."""
    error = "the intent could not be written; try again"
    sender.context.effects.append(ReplyToUser(event.reply_to, event.intent, error))


def answer_permission(sender: Sender, event: DispatchAnswersDue) -> None:
    """The answers to one request travel together."""
    sender.send_dispatch_answers()


def start_watching(sender: Sender, event: HeartbeatReceived) -> None:
    """A coordinator is active; look again when its heartbeats stop."""
    due_ms = sender.context.after(sender.context.config.silence_ms + 1)
    sender.context.timers.set(sender, "heartbeat", due_ms, HeartbeatInterval())


def keep_watching(sender: Sender, event: Event) -> None:
    """The accepted coordinator goes on."""
    due_ms = sender.context.after(sender.context.config.silence_ms + 1)
    sender.context.timers.set(sender, "heartbeat", due_ms, HeartbeatInterval())


def delegate_ready(sender: Sender, event: Event) -> None:
    """Find a delegate if there is none, and delegate what is ready."""
    sender.work_posted = False
    _reconsider(sender)


def take_heartbeat(sender: Sender, event: HeartbeatReceived) -> None:
    """Renew the leases of what it lists; what it has forgotten is delegated again, and what it had no room for."""
    listed = {entry.intent for entry in event.heartbeat.intents}
    for transaction in tuple(sender.delegated.values()):
        if transaction.delegate != event.peer:
            continue
        if transaction.intent.id in listed:
            transaction.lease_ms = sender.context.now_ms
        elif event.heartbeat.number > transaction.accepted_at:
            transaction.handle(CoordinatorChanged("its coordinator does not list it"))
    sender.is_full = False
    _reconsider(sender)
    _watch_delegate(sender)


def follow_heartbeat(sender: Sender, event: HeartbeatReceived) -> None:
    """Somebody else is live, or the delegate closes: is another one preferred now?"""
    _reconsider(sender)


def check_delegate(sender: Sender, event: HeartbeatInterval) -> None:
    """Silent: another one. Overdue: delegate again at once, as a test. A lease that ran out: delegate again."""
    config = sender.context.config
    for transaction in tuple(sender.delegated.values()):
        if sender.context.now_ms - transaction.lease_ms >= config.silence_ms:
            transaction.handle(CoordinatorChanged("its lease has run out"))
    _reconsider(sender)
    if _is_overdue(sender) and sender.command is None:
        _send_command(sender, _held_by_delegate(sender))
    _watch_delegate(sender)


def reconsider_for_range(sender: Sender, event: NewBlock) -> None:
    """The ranking is asked again."""
    sender.awaited_range = None
    _reconsider(sender)


def take_answers(sender: Sender, event: DelegationAnswered) -> None:
    """Per intent: held from now on, or no room yet, or past our hands already."""
    _close_command(sender)
    sender.attempt = 0
    sender.why_waiting = ""
    sender.behind_since_ms = None
    for answer in event.accepted.answers:
        transaction = sender.transactions.get(answer.intent)
        if transaction is None or transaction.delegate != event.peer:
            continue
        if answer.answer in (Answer.ACCEPTED, Answer.HELD):
            transaction.handle(Delegated(event.peer, event.incarnation, event.accepted.heartbeat))
        elif answer.answer in (Answer.DISPATCHED, Answer.CONFIRMED):
            transaction.handle(Delegated(event.peer, event.incarnation, event.accepted.heartbeat))
            transaction.handle(Dispatched(None))
        elif answer.answer is Answer.REJECTED:
            transaction.handle(GivenUp(answer.reason))
        else:
            sender.is_full = True
            sender.why_waiting = f"{event.peer} has no room for more"
    _delegate_pending(sender)
    _watch_delegate(sender)


def wait_for_range(sender: Sender, event: DelegationRefused) -> None:
    """We are behind: wait until our own index is there."""
    _close_command(sender)
    sender.awaited_range = sender.context.contract.range_at(event.rejected.observed_height)
    sender.why_waiting = f"our index must reach height {event.rejected.observed_height}"


def give_up_on_laggard(sender: Sender, event: DelegationRefused) -> None:
    """A delegate that stays behind counts as tried."""
    sender.behind_since_ms = None
    _mark_unavailable(sender, event.peer, "its index is behind")


def retry_later(sender: Sender, event: DelegationRefused) -> None:
    """The delegate is behind, or names nobody that we can reach: again in a while."""
    _close_command(sender)
    if event.rejected.rejection is Rejection.MISMATCHED_BLOCK_HEIGHT and sender.behind_since_ms is None:
        sender.behind_since_ms = sender.context.now_ms
    sender.why_waiting = f"{event.peer} answered {event.rejected.rejection.value}"
    _retry_after(sender, sender.context.config.delegation_repeat_ms)


def follow_redirect(sender: Sender, event: DelegationRefused) -> None:
    """Delegate to the one that it names; remember how much it knew of it."""
    active = event.rejected.active
    assert active is not None, "a redirect names somebody"
    sender.told[active] = max(event.rejected.active_number, sender.told.get(active, NEVER_HEARD))
    sender.unavailable.pop(active, None)
    _change_delegate(sender, active, f"{event.peer} names {active} as the coordinator")


def pass_over(sender: Sender, event: DelegationRefused) -> None:
    """It has no ledger: the next of the ranking."""
    _mark_unavailable(sender, event.peer, "it has no ledger")


def repeat_commands(sender: Sender, event: DelegationRepeatDue) -> None:
    """Repeated until accepted or rejected."""
    assert sender.command is not None, "a command's timers end with it"
    _send(sender, sender.command)


def find_unavailable(sender: Sender, event: DelegationTimedOut) -> None:
    """No answer in time: the next of the ranking."""
    assert sender.delegate is not None, "a command has a delegate"
    _mark_unavailable(sender, sender.delegate, "it did not answer a delegation")


def try_again(sender: Sender, event: RetryDue) -> None:
    """The walk starts again from the first, or the rejected delegation is tried again."""
    if sender.choice() is None:
        sender.unavailable.clear()
    _reconsider(sender)


def leave_delegate(sender: Sender, event: PeerLost) -> None:
    """A lost connection: another one at once."""
    _reconsider(sender)


def note_heard(sender: Sender, event: PeerHeard) -> None:
    """It is available again."""
    sender.heard(event.peer)


def reconsider_for_peer(sender: Sender, event: PeerHeard) -> None:
    """It is available again, and may lead this range, or be the only one that we can reach."""
    sender.heard(event.peer)
    _reconsider(sender)


def rest(sender: Sender, event: Event) -> None:
    """Nothing to send: no delegate, no timers."""
    sender.end_posted = False
    _close_command(sender)
    sender.delegate = None
    sender.context.timers.cancel(sender, "heartbeat")
    sender.context.timers.cancel(sender, "retry")


def rest_and_watch(sender: Sender, event: Event) -> None:
    """Nothing to send, but a coordinator to observe."""
    rest(sender, event)
    keep_watching(sender, event)


def note_end(sender: Sender, event: TransactionConfirmed) -> None:
    """Others are left."""
    sender.end_posted = False


def _reconsider(sender: Sender) -> None:
    """Keep the delegate, or change to the one that is to be chosen now; then delegate what is ready."""
    if sender.awaited_range is not None and sender.context.block_range < sender.awaited_range:
        return
    chosen = sender.choice()
    if chosen is None:
        sender.why_waiting = "no member of the committee can be reached"
        if not sender.context.timers.is_set(sender, "retry"):
            _retry_after(sender, sender.context.config.delegation_timeout_ms)
    elif chosen != sender.delegate:
        _change_delegate(sender, chosen, f"{chosen} is the coordinator now")
    else:
        _call_back_strays(sender, f"{chosen} is the coordinator now")
        _delegate_pending(sender)


def _change_delegate(sender: Sender, chosen: NodeName, reason: str) -> None:
    """Every undispatched intent goes to the new one."""
    _close_command(sender)
    sender.context.timers.cancel(sender, "retry")
    sender.delegate = chosen
    sender.is_full = False
    sender.behind_since_ms = None
    _call_back_strays(sender, reason)
    _delegate_pending(sender)


def _call_back_strays(sender: Sender, reason: str) -> None:
    """What is with another delegate, for example because the ledger skipped it there, comes to the current one."""
    for transaction in tuple(sender.delegated.values()):
        if transaction.delegate != sender.delegate:
            transaction.handle(CoordinatorChanged(reason))


def _delegate_pending(sender: Sender) -> None:
    """Delegate what is ready, in one command at a time: what comes meanwhile makes the next one bigger."""
    if sender.command is not None or sender.is_full or sender.context.timers.is_set(sender, "retry"):
        return
    ready = (transaction for transaction in sender.pending.values() if transaction.is_ready)
    _send_command(sender, list(islice(ready, sender.context.config.delegation_batch_max)))


def _send_command(sender: Sender, transactions: list[SenderTransaction]) -> None:
    """A new command; it is repeated until it is answered or its time is up."""
    if not transactions:
        return
    for transaction in transactions:
        _renumber(sender, transaction)
    intents = tuple(transaction.intent.id for transaction in transactions)
    sender.command = Command(sender.context.next_id(), intents)
    due_ms = sender.context.after(sender.context.config.delegation_timeout_ms)
    sender.context.timers.set(sender, "timeout", due_ms, DelegationTimedOut())
    _send(sender, sender.command)


def _renumber(sender: Sender, transaction: SenderTransaction) -> None:
    """The number grows when the delegate or its incarnation changes (protocol §4.3)."""
    assert sender.delegate is not None, "delegating needs a delegate"
    incarnation = sender.observer.peer(sender.delegate).incarnation
    is_same_life = transaction.delegate_incarnation in (0, incarnation)
    if transaction.delegate != sender.delegate or not is_same_life:
        transaction.number = DelegationNumber(sender.context.incarnation, transaction.number.counter + 1)
        transaction.delegate = sender.delegate
        transaction.result = None
        transaction.request_id = None
    transaction.delegate_incarnation = incarnation


def _send(sender: Sender, command: Command) -> None:
    assert sender.delegate is not None, "delegating needs a delegate"
    transactions = [sender.transactions[intent] for intent in command.intents if intent in sender.transactions]
    delegations = tuple(
        Delegation(transaction.intent, transaction.number, transaction.revert_count)
        for transaction in transactions
        if transaction.is_undispatched
    )
    message = DelegationCommand(command.command_id, delegations, sender.tried())
    sender.context.send(sender.delegate, message)
    due_ms = sender.context.after(sender.context.config.delegation_repeat_ms)
    sender.context.timers.set(sender, "repeat", due_ms, DelegationRepeatDue())


def _close_command(sender: Sender) -> None:
    sender.command = None
    sender.context.timers.cancel(sender, "timeout")
    sender.context.timers.cancel(sender, "repeat")


def _mark_unavailable(sender: Sender, node: NodeName, reason: str) -> None:
    sender.unavailable[node] = sender.context.after(sender.context.config.unavailable_ttl_ms)
    _close_command(sender)
    sender.why_waiting = f"{node}: {reason}"
    _reconsider(sender)


def _retry_after(sender: Sender, first_ms: int) -> None:
    """Grow by half up to 2 s, jittered (protocol §4.3)."""
    most_ms = sender.context.config.delegation_backoff_max_ms
    delay_ms = sender.context.backoff_ms(sender.attempt, first_ms, most_ms, growth=1.5)
    sender.attempt += 1
    sender.context.timers.set(sender, "retry", sender.context.after(delay_ms), RetryDue())


def _held_by_delegate(sender: Sender) -> list[SenderTransaction]:
    held = (transaction for transaction in sender.delegated.values() if transaction.delegate == sender.delegate)
    return list(islice(held, sender.context.config.delegation_batch_max))


def _last_sign_ms(sender: Sender) -> int:
    """When the delegate last gave a sign of life: a heartbeat, or any other message."""
    if sender.delegate is None or sender.delegate == sender.context.node:
        return sender.context.now_ms
    return sender.observer.peer(sender.delegate).heard_at_ms


def _is_overdue(sender: Sender) -> bool:
    quiet_ms = sender.context.now_ms - _last_sign_ms(sender)
    return bool(sender.delegated) and quiet_ms >= sender.context.config.overdue_ms


def _watch_delegate(sender: Sender) -> None:
    """Look when the next heartbeat is overdue, or, once we have asked again, when it counts as silent."""
    config = sender.context.config
    patience_ms = config.overdue_ms if sender.command is None else config.silence_ms
    due_ms = max(_last_sign_ms(sender) + patience_ms, sender.context.after(config.heartbeat_ms // 4))
    sender.context.timers.set(sender, "heartbeat", due_ms, HeartbeatInterval())


Sender.table = Table(
    name="Sender",
    initial=State.IDLE,
    events=(
        IntentDurable,
        IntentNotWritten,
        DispatchAnswersDue,
        HeartbeatInterval,
        HeartbeatReceived,
        TransactionCreated,
        TransactionConfirmed,
        NewBlock,
        BaseLedgerTransactionReverted,
        DelegationAnswered,
        DelegationRefused,
        DelegationRepeatDue,
        DelegationTimedOut,
        RetryDue,
        PeerLost,
        PeerHeard,
    ),
    rows=(
        *in_states(State, IntentDurable, do=begin_intent),
        *in_states(State, IntentNotWritten, do=report_unwritten),
        *in_states(State, DispatchAnswersDue, do=answer_permission),
        Row(State.IDLE, HeartbeatReceived, when=is_live, then=State.OBSERVING, do=start_watching),
        *in_states((State.IDLE, State.OBSERVING), TransactionCreated, then=State.SENDING, do=delegate_ready),
        Row(State.OBSERVING, HeartbeatReceived, do=keep_watching),
        Row(State.OBSERVING, HeartbeatInterval, when=nobody_is_live, then=State.IDLE),
        Row(State.OBSERVING, HeartbeatInterval, do=keep_watching),
        Row(State.SENDING, TransactionCreated, do=delegate_ready),
        Row(
            State.SENDING,
            TransactionConfirmed,
            when=nothing_left_and_observing,
            then=State.OBSERVING,
            do=rest_and_watch,
        ),
        Row(State.SENDING, TransactionConfirmed, when=nothing_left, then=State.IDLE, do=rest),
        *in_states(State, TransactionConfirmed, do=note_end),
        Row(State.SENDING, HeartbeatReceived, when=is_from_delegate, do=take_heartbeat),
        Row(State.SENDING, HeartbeatReceived, do=follow_heartbeat),
        Row(State.SENDING, HeartbeatInterval, do=check_delegate),
        Row(State.SENDING, NewBlock, when=range_asks_again, do=reconsider_for_range),
        Row(State.SENDING, BaseLedgerTransactionReverted, do=delegate_ready),
        Row(State.SENDING, DelegationAnswered, when=answers_open_command, do=take_answers),
        Row(State.SENDING, DelegationRefused, when=we_are_behind, do=wait_for_range),
        Row(State.SENDING, DelegationRefused, when=delegate_is_behind_for_long, do=give_up_on_laggard),
        Row(State.SENDING, DelegationRefused, when=delegate_is_behind, do=retry_later),
        Row(State.SENDING, DelegationRefused, when=redirect_may_be_followed, do=follow_redirect),
        Row(State.SENDING, DelegationRefused, when=delegate_has_no_ledger, do=pass_over),
        Row(State.SENDING, DelegationRefused, when=is_answer, do=retry_later),
        Row(State.SENDING, DelegationRepeatDue, do=repeat_commands),
        Row(State.SENDING, DelegationTimedOut, do=find_unavailable),
        Row(State.SENDING, RetryDue, do=try_again),
        Row(State.SENDING, PeerLost, when=is_delegate, do=leave_delegate),
        Row(State.SENDING, PeerHeard, when=may_be_chosen, do=reconsider_for_peer),
        *in_states(State, PeerHeard, do=note_heard),
    ),
    ignored=(
        Ignored(HeartbeatInterval, (State.IDLE,), "nobody is watched"),
        *(
            Ignored(event, (State.IDLE, State.OBSERVING), "nothing is to be delegated")
            for event in (
                NewBlock,
                BaseLedgerTransactionReverted,
                DelegationAnswered,
                DelegationRefused,
                DelegationRepeatDue,
                DelegationTimedOut,
                RetryDue,
                PeerLost,
            )
        ),
    ),
)
