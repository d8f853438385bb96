"""One node's sender for one contract: decides which node to delegate intents to.

Theory of operation. The sender keeps all its undispatched intents with one node, its current delegate.
It takes one from the ranking when it has none, follows the accepted coordinator while that is live (sticky)
or the ranking of each range (strict), and leaves it when it is silent, unavailable, or
closing. Delegating is the only test of availability: a command is repeated until it is answered, and a node that
does not answer in time is unavailable for a while and listed as tried. An accepted intent holds a lease
that the delegate's heartbeats renew by listing it; a missing heartbeat is only a hint to delegate again.
Being listed is not enough: a delegate with which none of our intents comes further is demoted (`progress.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum
from itertools import chain, islice

from rota.machine.tables import Event, Ignored, Row, Table, superstate
from rota.model.types import DelegationNumber, NodeName, RequestId, Rotation
from rota.sequencer.observer import LIVE
from rota.sequencer.sender_base import LEAVING, Command, SenderBase
from rota.sequencer.sender_events import (
    BaseLedgerTransactionReverted,
    DelegationAnswered,
    DelegationRefused,
    DelegationRepeatDue,
    DelegationTimedOut,
    DispatchAnswersDue,
    HeartbeatInterval,
    HeartbeatReceived,
    NewBlock,
    PeerHeard,
    PeerLost,
    ProgressDue,
    RangeOverdue,
    RetryDue,
    TransactionConfirmed,
    TransactionCreated,
)
from rota.sequencer.sender_transaction import SenderTransaction
from rota.sequencer.sender_transaction_events import CoordinatorChanged, Delegated, Dispatched, Dropped, SubmitterSilent
from rota.wire.messages import Answer, Delegation, DelegationCommand, ListingRequest, Rejection
from rota.wire.sizes import delegation_bytes, fitting


class State(Enum):
    """State of a sender (seed 2)."""

    IDLE = "Idle"
    OBSERVING = "Observing"
    SENDING = "Sending"

    # Each state exists once, so its address identifies it; Enum would hash the name at every table look-up.
    __hash__ = object.__hash__


RESTING = superstate("Resting", State.IDLE, State.OBSERVING)
EVERY = superstate("Every", *State)


def is_live(sender: Sender, event: HeartbeatReceived) -> bool:
    """live"""
    return event.heartbeat.state in LIVE


def nobody_is_live(sender: Sender, event: HeartbeatInterval) -> bool:
    """the accepted coordinator is silent, quiet or no longer live"""
    observer = sender.observer
    accepted = observer.accepted
    if accepted is None or not observer.is_live(accepted):
        return True
    return observer.is_silent(accepted) or observer.is_quiet(accepted)


def nothing_left_and_observing(sender: Sender, event: TransactionConfirmed) -> bool:
    """nothing is left to send, and a coordinator is live"""
    accepted = sender.observer.accepted
    return nothing_left(sender, event) and accepted is not None and sender.observer.is_live(accepted)


def nothing_left(sender: Sender, event: TransactionConfirmed) -> bool:
    """nothing is left to send"""
    return not sender.is_sending


def is_from_delegate(sender: Sender, event: HeartbeatReceived) -> bool:
    """from the delegate, and not leaving"""
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
    ahead = _claimed_range(sender, event) > sender.context.block_range
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
    """NotPreferredCoordinator, rarely; the named node is available, or not demoted and named with a greater number"""
    active = event.rejected.active
    if active is None or not is_answer(sender, event) or not sender.may_follow_redirect(event.peer, active):
        return False
    is_news = event.rejected.active_number > sender.known_number_of(active, event.peer)
    return sender.is_available(active) or (is_news and not sender.observer.is_demoted(active))


def delegate_has_no_ledger(sender: Sender, event: DelegationRefused) -> bool:
    """NoLedger: the delegate counts as tried"""
    return is_answer(sender, event) and event.rejected.rejection is Rejection.NO_LEDGER


def delegate_does_nothing(sender: Sender, event: ProgressDue) -> bool:
    """no intent of ours came further for the progress time-out, or others are much faster; there is another member"""
    if not _is_waiting(sender) or len(sender.context.ranking(sender.context.block_range)) < 2:
        return False
    return sender.progress.left_ms(_deserves_patience(sender)) <= 0 or sender.progress.is_slow()


def holder_does_nothing(sender: Sender, event: ProgressDue) -> bool:
    """a node with our permission from an earlier turn ended none of our intents for four times the time-out"""
    return _could_see(sender) and sender.progress.late_holder() is not None


def is_delegate(sender: Sender, event: PeerLost) -> bool:
    """the delegate"""
    return event.peer == sender.delegate


def may_be_chosen(sender: Sender, event: PeerHeard) -> bool:
    """strict, or no delegate is available; otherwise a sticky contract keeps its delegate"""
    is_strict = sender.context.contract.rotation is Rotation.STRICT
    return is_strict or sender.delegate is None or not sender.is_available(sender.delegate)


def _is_open(sender: Sender, command_id: RequestId) -> bool:
    return sender.command is not None and sender.command.command_id == command_id


# Actions, in the table's order.


def answer_permission(sender: Sender, event: DispatchAnswersDue) -> None:
    """Send the answers to one request in one message."""
    sender.send_dispatch_answers()


def keep_watching(sender: Sender, event: Event) -> None:
    """A coordinator is active; check again when its heartbeats stop."""
    due_ms = sender.context.after(sender.context.config.silence_ms + 1)
    sender.context.timers.set(sender, "heartbeat", due_ms, HeartbeatInterval())


def delegate_ready(sender: Sender, event: Event) -> None:
    """Find a delegate if there is none, and delegate the intents that are ready."""
    sender.work_posted = False
    _reconsider(sender)


def take_heartbeat(sender: Sender, event: HeartbeatReceived) -> None:
    """Renew the leases of listed intents; delegate again those that it lost and those that it had no room for."""
    listing = sender.observer.peer(event.peer).listing
    if listing is None:
        sender.context.send(event.peer, ListingRequest(event.heartbeat.number))
    for transaction in tuple(sender.delegated.values()):
        if transaction.delegate != event.peer or listing is None:
            continue
        if transaction.intent.id in listing.states:
            transaction.lease_ms = sender.context.now_ms
        elif event.heartbeat.number > transaction.accepted_at:
            transaction.handle(CoordinatorChanged("its coordinator does not list it"))
    _expect_room(sender)
    _reconsider(sender)
    _watch_delegate(sender)


def follow_heartbeat(sender: Sender, event: HeartbeatReceived) -> None:
    """Another node is live, or the delegate closes: choose the delegate again."""
    _reconsider(sender)


def check_delegate(sender: Sender, event: HeartbeatInterval) -> None:
    """Delegate intents whose lease ran out; change a silent delegate, test an overdue one by delegating again."""
    config = sender.context.config
    for transaction in tuple(sender.delegated.values()):
        if transaction.lease_ms is None or sender.context.now_ms - transaction.lease_ms >= config.silence_ms:
            transaction.handle(CoordinatorChanged("its lease has run out"))
    _reconsider(sender)
    if _is_overdue(sender) and sender.command is None:
        _send_command(sender, _held_by_delegate(sender))
    _watch_delegate(sender)


def reconsider_for_range(sender: Sender, event: NewBlock) -> None:
    """Consult the ranking again."""
    if sender.awaited_range is not None:
        _stop_waiting(sender)
        sender.delegate = None
    _reconsider(sender)


def take_answers(sender: Sender, event: DelegationAnswered) -> None:
    """Take the answer for each intent: accepted or held, no room yet, dispatched already, or rejected."""
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
            transaction.handle(Dropped(event.peer, answer.reason))
        else:
            _note_full(sender)
            sender.why_waiting = f"{event.peer} has no room for more"
    _delegate_pending(sender)
    _watch_delegate(sender)


def wait_for_range(sender: Sender, event: DelegationRefused) -> None:
    """By the delegate's claim the own index is behind: wait for its range, at most for `ledger_grace`."""
    _close_command(sender)
    sender.awaited_range = _claimed_range(sender, event)
    sender.why_waiting = f"our index must reach height {event.rejected.observed_height}"
    due_ms = sender.context.after(sender.context.config.ledger_grace_ms)
    sender.context.timers.set(sender, "range", due_ms, RangeOverdue())


def give_up_on_laggard(sender: Sender, event: DelegationRefused) -> None:
    """Mark a delegate that stays behind as unavailable."""
    sender.behind_since_ms = None
    _mark_unavailable(sender, event.peer, "its index is behind")


def retry_later(sender: Sender, event: DelegationRefused) -> None:
    """The delegate is behind, or names no node that may be followed: retry after a backoff."""
    _close_command(sender)
    if event.rejected.rejection is Rejection.MISMATCHED_BLOCK_HEIGHT and sender.behind_since_ms is None:
        sender.behind_since_ms = sender.context.now_ms
    sender.why_waiting = f"{event.peer} answered {event.rejected.rejection.value}"
    _retry_after(sender, sender.context.config.delegation_repeat_ms)


def follow_redirect(sender: Sender, event: DelegationRefused) -> None:
    """Delegate to the named node; record which heartbeat of it the redirect knew."""
    active = event.rejected.active
    assert active is not None, "a redirect names somebody"
    sender.note_redirect(event.peer, active, event.rejected.active_number)
    _change_delegate(sender, active, f"{event.peer} names {active} as the coordinator")


def pass_over(sender: Sender, event: DelegationRefused) -> None:
    """The delegate has no ledger: take the next of the ranking."""
    _mark_unavailable(sender, event.peer, "it has no ledger")


def repeat_commands(sender: Sender, event: DelegationRepeatDue) -> None:
    """Repeat the command until it is accepted or rejected."""
    assert sender.command is not None, "a command's timers end with it"
    _send(sender, sender.command)


def find_unavailable(sender: Sender, event: DelegationTimedOut) -> None:
    """No answer in time: take the next of the ranking."""
    assert sender.delegate is not None, "a command has a delegate"
    _mark_unavailable(sender, sender.delegate, "it did not answer a delegation")


def stop_waiting_for_range(sender: Sender, event: RangeOverdue) -> None:
    """The own index did not reach the range that the delegate claims: mark it unavailable."""
    assert sender.delegate is not None, "who waits for a range was told so by a delegate"
    _stop_waiting(sender)
    sender.observer.doubt(sender.delegate)
    _mark_unavailable(sender, sender.delegate, "our index does not reach its height")


def demote_delegate(sender: Sender, event: ProgressDue) -> None:
    """The delegate does nothing for us: take another one, also for intents with our permission there."""
    assert sender.delegate is not None, "who does nothing was asked"
    if sender.progress.left_ms(_deserves_patience(sender)) > 0:
        sender.progress.pace.note_left()
    _demote(sender, sender.delegate)


def demote_holder(sender: Sender, event: ProgressDue) -> None:
    """A node does nothing with our permission, whichever node coordinates now: demote it."""
    node = sender.progress.late_holder()
    assert node is not None, "the guard has found it"
    _demote(sender, node)


def _demote(sender: Sender, node: NodeName) -> None:
    reason = f"{node} does nothing for us"
    sender.observer.demote(node)
    sender.progress.forget(node)
    _stop_waiting(sender)
    _close_command(sender)
    for transaction in _permitted_to(sender, node):
        transaction.handle(SubmitterSilent(reason, is_left=True))
    sender.why_waiting = reason
    _reconsider(sender)
    _watch_progress(sender)


def watch_progress(sender: Sender, event: ProgressDue) -> None:
    """Check again later. A delegate is not to blame while no intent waits for it or none could do better."""
    sender.progress.wait_for(_holders(sender) if _could_see(sender) else frozenset())
    sender.progress.note_held_back(_held_back_count(sender))
    if _is_waiting(sender):
        sender.progress.begin()
    else:
        sender.progress.stop()
    _watch_progress(sender)


def try_again(sender: Sender, event: RetryDue) -> None:
    """Restart the walk at the first of the ranking, or retry intents that were rejected or found no room."""
    _expect_room(sender)
    if sender.choice() is None:
        sender.unavailable.clear()
        sender.delegate = None
        if sender.observer.demotions.pardon():
            sender.progress.walked()
    if sender.choice() is None:
        _change_delegate(sender, sender.first_again(), "nobody answers; the walk starts again")
    else:
        _reconsider(sender)


def leave_delegate(sender: Sender, event: PeerLost) -> None:
    """The connection is lost: choose another delegate at once."""
    _reconsider(sender)


def note_heard(sender: Sender, event: PeerHeard) -> None:
    """The peer is available again."""
    sender.heard(event.peer)


def reconsider_for_peer(sender: Sender, event: PeerHeard) -> None:
    """The peer is available again: it may lead this range, or be the only reachable one."""
    sender.heard(event.peer)
    _reconsider(sender)


def rest(sender: Sender, event: Event) -> None:
    """No intent to send: no delegate, no timers."""
    sender.end_posted = False
    _close_command(sender)
    sender.delegate = None
    _expect_room(sender)
    _stop_waiting(sender)
    sender.progress.stop()
    for timer in ("heartbeat", "retry", "progress"):
        sender.context.timers.cancel(sender, timer)


def rest_and_watch(sender: Sender, event: Event) -> None:
    """No intent to send, but a coordinator to observe."""
    rest(sender, event)
    keep_watching(sender, event)


def note_end(sender: Sender, event: TransactionConfirmed) -> None:
    """Other intents are left."""
    sender.end_posted = False


def _reconsider(sender: Sender) -> None:
    """Keep the delegate or change to the one to be chosen now; then delegate the intents that are ready."""
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
    if sender.delegated and not sender.context.timers.is_set(sender, "heartbeat"):
        # After a reorganisation the delegate may regard an intent that it holds as finished, and send no heartbeats.
        _watch_delegate(sender)


def _change_delegate(sender: Sender, chosen: NodeName, reason: str) -> None:
    """Give every undispatched intent to the new delegate."""
    _close_command(sender)
    sender.context.timers.cancel(sender, "retry")
    sender.delegate, sender.delegate_number = chosen, sender.latest_number_of(chosen)
    sender.progress.turn_to(chosen)
    sender.progress.note_held_back(_held_back_count(sender))
    if not sender.context.timers.is_set(sender, "progress"):
        _watch_progress(sender)
    _expect_room(sender)
    sender.behind_since_ms = None
    _call_back_strays(sender, reason)
    _delegate_pending(sender)


def _call_back_strays(sender: Sender, reason: str) -> None:
    """Recall intents that are with another delegate, for example because the ledger skipped them there."""
    for transaction in sender.possible_strays():
        if transaction.delegate != sender.delegate:
            transaction.handle(CoordinatorChanged(reason))


def _delegate_pending(sender: Sender) -> None:
    """Delegate ready intents, one command at a time; those that arrive meanwhile make the next one bigger."""
    if not sender.pending or sender.command is not None or sender.is_full:
        return
    if sender.context.timers.is_set(sender, "retry"):
        return
    ready = (transaction for transaction in sender.pending.values() if transaction.is_ready)
    _send_command(sender, _batch_of(sender, ready))


def _send_command(sender: Sender, transactions: list[SenderTransaction]) -> None:
    """Send a new command; it is repeated until it is answered or times out."""
    if not transactions:
        return
    for transaction in transactions:
        _renumber(sender, transaction)
    sender.progress.begin()
    intents = tuple(transaction.intent.id for transaction in transactions)
    sender.command = Command(sender.context.next_id(), intents)
    due_ms = sender.context.after(sender.context.config.delegation_timeout_ms)
    sender.context.timers.set(sender, "timeout", due_ms, DelegationTimedOut())
    _send(sender, sender.command)


def _renumber(sender: Sender, transaction: SenderTransaction) -> None:
    """Increase the number when the delegate or its incarnation changes (protocol §4.3)."""
    assert sender.delegate is not None, "delegating needs a delegate"
    incarnation = sender.observer.peer(sender.delegate).incarnation
    is_same_life = transaction.delegate_incarnation in (0, incarnation)
    if transaction.delegate != sender.delegate:
        transaction.stage, transaction.lease_ms = 0, None
    if transaction.delegate != sender.delegate or not is_same_life:
        transaction.number = DelegationNumber(sender.context.incarnation, transaction.number.counter + 1)
        transaction.delegate = sender.delegate
        transaction.result = None
        transaction.request_id = transaction.order = None
    transaction.delegate_incarnation = incarnation


def _send(sender: Sender, command: Command) -> None:
    assert sender.delegate is not None, "delegating needs a delegate"
    transactions = [sender.transactions[intent] for intent in command.intents if intent in sender.transactions]
    delegations = tuple(
        Delegation(
            transaction.intent.as_delegated(), transaction.number, transaction.revert_count, transaction.is_voiding
        )
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


def _note_full(sender: Sender) -> None:
    """Wait for room: until its next heartbeat, or until a timer, as a node without intents of ours may send none."""
    sender.is_full = True
    due_ms = sender.context.after(sender.context.config.delegation_timeout_ms)
    sender.context.timers.set(sender, "room", due_ms, RetryDue())


def _expect_room(sender: Sender) -> None:
    sender.is_full = False
    sender.context.timers.cancel(sender, "room")


def _mark_unavailable(sender: Sender, node: NodeName, reason: str) -> None:
    sender.unavailable[node] = sender.context.after(sender.context.config.unavailable_ttl_ms)
    _close_command(sender)
    sender.why_waiting = f"{node}: {reason}"
    _reconsider(sender)


def _claimed_range(sender: Sender, event: DelegationRefused) -> int:
    """Return the range that it claims to be in, as far as that counts."""
    height = sender.observer.height_bound(event.peer, event.rejected.observed_height)
    return sender.context.contract.range_at(height)


def _stop_waiting(sender: Sender) -> None:
    sender.awaited_range = None
    sender.context.timers.cancel(sender, "range")


def _could_see(sender: Sender) -> bool:
    """Whether this node has a ledger and enough endorsers are there for any coordinator to make progress."""
    contract, delegate = sender.context.contract, sender.delegate
    if delegate is None or not sender.context.has_ledger:
        return False
    return sum(_is_there(sender, delegate, node) for node in contract.endorsers) >= contract.threshold


def _is_waiting(sender: Sender) -> bool:
    """Whether the delegate has work for us, and this node could see its results."""
    if not _could_see(sender):
        return False
    return any(True for _ in _asked(sender)) or _is_on_its_way(sender)


def _asked(sender: Sender) -> Iterator[SenderTransaction]:
    """Return the intents that the delegate is to bring further, by this node's knowledge."""
    ready = (transaction for transaction in sender.pending.values() if transaction.is_with_delegate)
    return (transaction for transaction in chain(sender.delegated.values(), ready) if not transaction.is_held_up)


def _deserves_patience(sender: Sender) -> bool:
    """Whether the delegate has a permission of ours, or only intents of ours that have to wait for others."""
    return _is_on_its_way(sender) or all(transaction.needs_more_time for transaction in _asked(sender))


def _held_back_count(sender: Sender) -> int:
    """Return how many open intents no coordinator could bring further, for example because of a dependency."""
    ready = [transaction for transaction in sender.pending.values() if transaction.is_with_delegate]
    at_delegate = chain(ready, sender.delegated.values())
    return len(sender.pending) - len(ready) + sum(_waits_for_others(transaction) for transaction in at_delegate)


def _waits_for_others(transaction: SenderTransaction) -> bool:
    """Whether, by this node's knowledge, no coordinator could get it endorsed at present."""
    return transaction.is_kept_away or transaction.needs_more_time


def _is_there(sender: Sender, delegate: NodeName, node: NodeName) -> bool:
    """Whether it is not silent. The delegate's `tried` list does not count: an idle delegate would list all others."""
    observer = sender.observer
    if not observer.is_silent(node):
        return True
    accuser = observer.demotions.accusers.get(delegate)
    is_listed = accuser is not None and node in accuser.listed
    return is_listed and observer.is_reachable(node) and not observer.is_gone(node)


def _is_on_its_way(sender: Sender) -> bool:
    """Whether the delegate has a permission of ours."""
    return sender.delegate is not None and bool(_permitted_to(sender, sender.delegate))


def _holders(sender: Sender) -> frozenset[NodeName]:
    """Return the nodes that have a permission of ours and are not the delegate any more."""
    holders = {transaction.delegate for transaction in sender.permitted.values()}
    return frozenset(node for node in holders if node not in (None, sender.delegate))


def _permitted_to(sender: Sender, node: NodeName) -> list[SenderTransaction]:
    return [transaction for transaction in sender.permitted.values() if transaction.delegate == node]


def _watch_progress(sender: Sender) -> None:
    left_ms = sender.progress.left_ms(_deserves_patience(sender))
    delay_ms = min(left_ms, sender.progress.step_ms) if left_ms > 0 else sender.progress.step_ms
    sender.context.timers.set(sender, "progress", sender.context.after(delay_ms), ProgressDue())


def _retry_after(sender: Sender, first_ms: int) -> None:
    """Retry after a delay that grows by half up to 2 s, jittered (protocol §4.3)."""
    most_ms = sender.context.config.delegation_backoff_max_ms
    delay_ms = sender.context.backoff_ms(sender.attempt, first_ms, most_ms, growth=1.5)
    sender.attempt += 1
    sender.context.timers.set(sender, "retry", sender.context.after(delay_ms), RetryDue())


def _held_by_delegate(sender: Sender) -> list[SenderTransaction]:
    held = (transaction for transaction in sender.delegated.values() if transaction.delegate == sender.delegate)
    return _batch_of(sender, held)


def _batch_of(sender: Sender, transactions: Iterable[SenderTransaction]) -> list[SenderTransaction]:
    """Return as many as fit one command, in number and in bytes."""
    config = sender.context.config
    some = islice(transactions, config.delegation_batch_max)
    return fitting(some, lambda transaction: delegation_bytes(transaction.intent), config.message_bytes_max)


def _last_sign_ms(sender: Sender) -> int:
    """Return when the delegate's last heartbeat or other message arrived."""
    if sender.delegate is None or sender.delegate == sender.context.node:
        return sender.context.now_ms
    return sender.observer.peer(sender.delegate).heard_at_ms


def _is_overdue(sender: Sender) -> bool:
    quiet_ms = sender.context.now_ms - _last_sign_ms(sender)
    return bool(sender.delegated) and quiet_ms >= sender.context.config.overdue_ms


def _watch_delegate(sender: Sender) -> None:
    """Check when the next heartbeat is overdue or, after the test, when the delegate counts as silent."""
    config = sender.context.config
    patience_ms = config.overdue_ms if sender.command is None else config.silence_ms
    due_ms = max(_last_sign_ms(sender) + patience_ms, sender.context.after(config.heartbeat_ms // 4))
    sender.context.timers.set(sender, "heartbeat", due_ms, HeartbeatInterval())


TABLE = Table(
    name="Sender",
    initial=State.IDLE,
    written=(
        Row(EVERY, DispatchAnswersDue, do=answer_permission),
        Row(State.IDLE, HeartbeatReceived, when=is_live, then=State.OBSERVING, do=keep_watching),
        Row(RESTING, TransactionCreated, then=State.SENDING, do=delegate_ready),
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
        Row(EVERY, TransactionConfirmed, do=note_end),
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
        Row(State.SENDING, RangeOverdue, do=stop_waiting_for_range),
        Row(State.SENDING, ProgressDue, when=delegate_does_nothing, do=demote_delegate),
        Row(State.SENDING, ProgressDue, when=holder_does_nothing, do=demote_holder),
        Row(State.SENDING, ProgressDue, do=watch_progress),
        Row(State.SENDING, RetryDue, do=try_again),
        Row(State.SENDING, PeerLost, when=is_delegate, do=leave_delegate),
        Row(State.SENDING, PeerHeard, when=may_be_chosen, do=reconsider_for_peer),
        Row(EVERY, PeerHeard, do=note_heard),
    ),
    ignored=(
        Ignored(HeartbeatInterval, (State.IDLE,), "no coordinator is observed"),
        *(
            Ignored(event, (RESTING,), "nothing is to be delegated")
            for event in (
                NewBlock,
                BaseLedgerTransactionReverted,
                DelegationAnswered,
                DelegationRefused,
                DelegationRepeatDue,
                DelegationTimedOut,
                RangeOverdue,
                ProgressDue,
                RetryDue,
                PeerLost,
            )
        ),
    ),
)


class Sender(SenderBase):
    """The sender machine: one per contract and node."""

    table = TABLE
