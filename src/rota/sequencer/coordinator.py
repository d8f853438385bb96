"""One node's coordinator for one contract: decides whose turn it is to order intents.

Theory of operation. There is no election: a node coordinates because a sender delegates to it and, by its own
knowledge, it may accept (protocol §5). While it acts it sends heartbeats; the nodes that receive them observe.
When a delegation reaches a node that outranks the active coordinator, or whose sender could not reach the active
one, that node requests a hand-over (Elect), waits until the old one's dispatches have outcomes
(Prepared), and takes over (Active). The old one drops intents that are not past the point of no return, flushes
the rest (Flush), announces its end for some heartbeats (Closing), and observes. A node that is preferred in a range
that its own index has not reached yet holds the delegated intents (Standby). An active one that does not answer
counts as gone. Two active at a time waste work but break nothing: the ledger guarantees that.

Rows follow protocol §4.1; where a row there has "as for a request", the row here leads to the
junction Yields: Flush when a flush point is open, else Closing.
"""

from __future__ import annotations

from typing import Final

from rota.machine.bounded import forget_oldest
from rota.machine.events import StopRequested
from rota.machine.tables import Event, Ignored, Junction, Row, Table, in_states, outside, superstate
from rota.model.digests import is_id_of, round_digest
from rota.model.types import NEVER_HEARD, HeartbeatNumber, Intent, Mode, NodeName, RequestId, Tried, node_of
from rota.sequencer.coordinator_base import ACTING, AWAITING_ROLE, LEAVING, CoordinatorBase
from rota.sequencer.coordinator_events import (
    EndorserFollowsAnother,
    FlushTimeout,
    HandoverReceived,
    HandoverRequestReceived,
    HandoverTimeout,
    HeartbeatInterval,
    HeartbeatReceived,
    NewBlock,
    PeerLost,
    RequestTimeoutInterval,
    TransactionConfirmed,
    TransactionDispatchConfirmed,
    TransactionsDelegated,
    TransactionStateTransition,
)
from rota.sequencer.coordinator_transaction import CoordinatorTransaction
from rota.sequencer.coordinator_transaction_events import Abandoned, Received
from rota.sequencer.coordinator_transaction_events import HeartbeatInterval as TransactionHeartbeatInterval
from rota.sequencer.dispatching import flush_point_of
from rota.sequencer.events import LedgerLost
from rota.sequencer.handover import handover_of
from rota.sequencer.held_intent import DROPPABLE, ON_THE_WAY
from rota.sequencer.observer import LIVE
from rota.wire.messages import (
    Answer,
    Delegation,
    DelegationAccepted,
    DelegationRejected,
    HandedOver,
    HandoverReason,
    HandoverRequest,
    IntentAnswer,
    Rejection,
)
from rota.wire.messages import CoordinatorState as State
from rota.wire.sizes import intent_bytes

REDIRECTS_MAX: Final = 1_024

FOLLOWING = superstate("Following", State.IDLE, State.OBSERVING)
WITHOUT_ROLE = superstate("WithoutRole", FOLLOWING, LEAVING)
EVERY = superstate("Every", *State)


# Guards, in the table's order.


def has_no_ledger(coordinator: Coordinator, event: Event) -> bool:
    """own index has not reached the ledger for `ledger_grace`, or this node is stopping"""
    return not coordinator.context.has_ledger or coordinator.is_stopping


def is_not_allowed(coordinator: Coordinator, event: TransactionsDelegated) -> bool:
    """peer is no member, or an intent is too large, not of the peer's party, or under an id that party did not draw"""
    contract = coordinator.context.contract
    if contract.mode is Mode.RING and event.peer not in contract.committee:
        return True
    if contract.mode is Mode.SENDER and event.peer != coordinator.context.node:
        return True
    intents = [delegation.intent for delegation in event.command.delegations]
    return not all(_is_its_own(coordinator, event.peer, intent) for intent in intents)


def is_acceptable(coordinator: Coordinator, event: TransactionsDelegated) -> bool:
    """acceptable (§5)"""
    return coordinator.rejection_of(event, coordinator.context.block_range) is None


def is_live_or_flushing(coordinator: Coordinator, event: HeartbeatReceived) -> bool:
    """live, or Flush; and not demoted"""
    is_live_or_flushing = event.heartbeat.state in LIVE or event.heartbeat.state is State.FLUSH
    return is_live_or_flushing and not coordinator.observer.is_demoted(event.peer)


def active_one_is_preferred(coordinator: Coordinator, event: TransactionsDelegated) -> bool:
    """active one is live and outranks us, or we yielded to it; and no believed sender has tried it since a redirect"""
    active = coordinator.active
    if active is None or not coordinator.observer.is_live(active) or coordinator.observer.is_silent(active):
        return False
    sender_range = coordinator.context.contract.range_at(event.height)
    latest = max(coordinator.observer.later_range(active, coordinator.context.node), sender_range)
    yielded = coordinator.yielded_to == active and coordinator.yielded_range == coordinator.context.block_range
    redirected = coordinator.redirects.get(event.peer, Tried(NodeName(""), NEVER_HEARD))
    tried = _tried_number(event, active)
    is_believed = coordinator.observer.demotions.is_believed_unreached(event.peer, active)
    was_tried_again = redirected.node == active and tried is not None and tried >= redirected.number and is_believed
    return (yielded or coordinator.is_outranked_by(active, latest)) and not was_tried_again


def we_lead_in_a_later_range(coordinator: Coordinator, event: TransactionsDelegated) -> bool:
    """the sender's range is ahead of ours, and we outrank there"""
    contract = coordinator.context.contract
    sender_range = contract.range_at(event.height)
    is_ahead = contract.mode is Mode.RING and sender_range > coordinator.context.block_range
    return is_ahead and coordinator.rejection_of(event, sender_range) is None


def ranges_differ(coordinator: Coordinator, event: TransactionsDelegated) -> bool:
    """ranges differ"""
    contract = coordinator.context.contract
    return contract.mode is Mode.RING and contract.range_at(event.height) != coordinator.context.block_range


def is_strict_and_not_acceptable(coordinator: Coordinator, event: TransactionsDelegated) -> bool:
    """strict, and not acceptable (§5)"""
    return coordinator.is_strict and not is_acceptable(coordinator, event)


def nobody_to_ask(coordinator: Coordinator, event: Event) -> bool:
    """active one is silent here, or demoted, or there is none"""
    return coordinator.active is None or coordinator.observer.is_passed_over(coordinator.active)


def may_be_elect(coordinator: Coordinator, event: TransactionsDelegated) -> bool:
    """we outrank; or the sender tried the active one and is believed; or it is in Flush or Closing"""
    active = coordinator.active
    assert active is not None, "the row before takes the case of none"
    if _tried_number(event, active) is not None:
        return _may_be_asked(coordinator, active) or coordinator.observer.demotions.is_believed_unreached(
            event.peer, active
        )
    return _may_be_asked(coordinator, active)


def active_one_is_quiet(coordinator: Coordinator, event: HeartbeatInterval) -> bool:
    """active one silent or demoted, or no heartbeat from it for more than heartbeat_grace"""
    active = coordinator.active
    if active is None or coordinator.observer.is_passed_over(active):
        return True
    return coordinator.observer.heartbeat_age_ms(active) >= coordinator.context.config.silence_ms


def range_is_reached_alone(coordinator: Coordinator, event: NewBlock) -> bool:
    """own range reached the delegation's, and the active one is silent here, or demoted, or there is none"""
    return range_is_reached(coordinator, event) and nobody_to_ask(coordinator, event)


def range_is_reached(coordinator: Coordinator, event: NewBlock) -> bool:
    """own range reached the delegation's"""
    return coordinator.context.block_range >= coordinator.standby_range


def active_one_is_silent_for_long(coordinator: Coordinator, event: HeartbeatInterval) -> bool:
    """active one silent for handover_timeout, or demoted"""
    active = coordinator.active
    if active is not None and coordinator.observer.is_demoted(active):
        return True
    silent_ms = coordinator.observer.silent_for_ms(active) if active is not None else coordinator.in_state_for_ms
    return silent_ms >= coordinator.context.config.handover_timeout_ms


def range_is_overdue(coordinator: Coordinator, event: HeartbeatInterval) -> bool:
    """own index has not reached the delegation's range for ledger_grace"""
    return coordinator.in_state_for_ms >= coordinator.context.config.ledger_grace_ms


def may_hold(coordinator: Coordinator, event: TransactionsDelegated) -> bool:
    """as Active; in Standby at the range it waits for"""
    in_standby = coordinator.state is State.STANDBY
    block_range = coordinator.standby_range if in_standby else coordinator.context.block_range
    return not coordinator.is_strict or coordinator.rejection_of(event, block_range) is None


def a_better_one_is_live(coordinator: Coordinator, event: HeartbeatReceived) -> bool:
    """live and outranks us (in Standby: at the delegation's range), unless our request to it has the reason `tried`"""
    return event.heartbeat.state in LIVE and _is_better(coordinator, event.peer)


def requester_is_better(coordinator: Coordinator, event: HandoverRequestReceived) -> bool:
    """requester outranks us (in Standby: at the delegation's range), unless our request to it has the reason `tried`"""
    return _is_better(coordinator, event.peer)


def has_flush_points(coordinator: Coordinator, event: Event) -> bool:
    """a flush point is open"""
    return coordinator.has_flush_points


def is_answer_with_flush_points(coordinator: Coordinator, event: HandoverReceived) -> bool:
    """has flush points without an outcome in our own index"""
    points = (handed.point for handed in event.handover.points)
    return is_answer(coordinator, event) and not all(coordinator.outcomes.is_settled(point) for point in points)


def is_answer(coordinator: Coordinator, event: HandoverReceived) -> bool:
    """from the node that we requested it from, and that node is not demoted"""
    is_asked = event.peer == coordinator.asked and event.handover.request_id == coordinator.asked_id
    return is_asked and not coordinator.observer.is_demoted(event.peer)


def old_one_is_gone(coordinator: Coordinator, event: Event) -> bool:
    """old one's connection is down or its heartbeats are missing"""
    assert coordinator.asked is not None, "Elect has asked somebody"
    return coordinator.observer.is_gone(coordinator.asked)


def it_refused_us(coordinator: Coordinator, event: HeartbeatReceived) -> bool:
    """live and not demoted, from the node that we requested it from, and names us as refused"""
    refused = event.heartbeat.refused == coordinator.context.node
    return refused and event.peer == coordinator.asked and coordinator.observer.is_live(event.peer)


def nothing_is_awaited(coordinator: Coordinator, event: Event) -> bool:
    """every flush point has an outcome, skipped included, in our own index"""
    return not coordinator.awaited


def flush_has_stalled(coordinator: Coordinator, event: HeartbeatInterval) -> bool:
    """old one silent or demoted, and no flush point of it indexed for request_timeout"""
    quiet_ms = coordinator.context.now_ms - coordinator.awaited_changed_ms
    assert coordinator.asked is not None, "Prepared has asked somebody"
    is_quiet = quiet_ms >= coordinator.context.config.request_timeout_ms
    return is_quiet and coordinator.observer.is_passed_over(coordinator.asked)


def is_sticky_or_acceptable(coordinator: Coordinator, event: TransactionsDelegated) -> bool:
    """sticky: always; strict: acceptable (§5)"""
    return not coordinator.is_strict or is_acceptable(coordinator, event)


def requester_may_take_over(coordinator: Coordinator, event: HandoverRequestReceived) -> bool:
    """requester outranks us; or sticky and `reason: tried`, and the requester is believed"""
    return coordinator.is_outranked_by(event.peer) or _is_believed_to_have_tried_us(coordinator, event)


def a_live_one_outranks_us(coordinator: Coordinator, event: HeartbeatReceived) -> bool:
    """live and outranks us, and we are not its `tried` successor"""
    took_from_it = coordinator.succeeded == event.peer
    return event.heartbeat.state in LIVE and coordinator.is_outranked_by(event.peer) and not took_from_it


def we_outrank_a_live_one(coordinator: Coordinator, event: HeartbeatReceived) -> bool:
    """live and we outrank it, and its heartbeat does not refuse our request"""
    refused = event.heartbeat.refused == coordinator.context.node
    return event.heartbeat.state in LIVE and not refused and not coordinator.is_outranked_by(event.peer)


def endorsers_follow_the_one_that_refuses_us(coordinator: Coordinator, event: HeartbeatReceived) -> bool:
    """live, refuses our request, and so many endorsers follow it that no round of ours can be endorsed"""
    if event.heartbeat.refused != coordinator.context.node or not coordinator.observer.is_live(event.peer):
        return False
    followers = sum(followed == event.peer for followed in coordinator.following_others.values())
    return followers > coordinator.context.contract.spare


def another_leads_the_new_range(coordinator: Coordinator, event: NewBlock) -> bool:
    """strict, the range changed, and another member that is neither silent nor demoted leads"""
    if not (coordinator.is_strict and event.range_changed):
        return False
    leader = coordinator.observer.preferred(coordinator.context.block_range)
    return leader is not None and leader != coordinator.context.node


def endorsers_follow_a_silent_one(coordinator: Coordinator, event: EndorserFollowsAnother) -> bool:
    """endorser follows a node that is silent here, and so many follow others that no round can be endorsed"""
    count = len(coordinator.following_others.keys() | {event.peer})
    return coordinator.observer.is_silent(event.accepted) and count > coordinator.context.contract.spare


def idle_for_long(coordinator: Coordinator, event: HeartbeatInterval) -> bool:
    """nothing in memory for idle_grace"""
    return not coordinator.transactions and coordinator.idle_heartbeats >= coordinator.context.config.idle_grace


def no_flush_point_is_open(coordinator: Coordinator, event: Event) -> bool:
    """no flush point is open"""
    return not coordinator.has_flush_points


def said_goodbye_to_a_live_one(coordinator: Coordinator, event: HeartbeatInterval) -> bool:
    """closing_heartbeats sent, and another is live"""
    active = coordinator.active
    return coordinator.closing_left == 0 and active is not None and coordinator.observer.is_live(active)


def said_goodbye(coordinator: Coordinator, event: HeartbeatInterval) -> bool:
    """closing_heartbeats sent"""
    return coordinator.closing_left == 0


def _is_its_own(coordinator: Coordinator, peer: NodeName, intent: Intent) -> bool:
    """Return whether the peer's own party drew the intent's id (the chain checks ids of proved contracts).

    A sender delegates without payload and parties; older versions send them, within the size limit of an intent.
    """
    contract = coordinator.context.contract
    has_more = intent.payload or intent.parties or intent.depends_on or intent.idempotency_key
    if has_more and intent_bytes(intent) > coordinator.context.config.intent_bytes_max:
        return False
    is_drawn = contract.threshold == 0 or is_id_of(intent.id, intent.sender, contract.address, intent.nonce)
    return node_of(intent.sender) == peer and is_drawn


def _is_better(coordinator: Coordinator, peer: NodeName) -> bool:
    if peer == coordinator.asked and coordinator.asked_because is HandoverReason.TRIED:
        return False
    block_range = coordinator.standby_range if coordinator.state is State.STANDBY else None
    return coordinator.is_outranked_by(peer, block_range)


def _may_be_asked(coordinator: Coordinator, active: NodeName) -> bool:
    """Whether the active one is leaving or outranked, so that no sender's report is needed."""
    is_leaving = coordinator.observer.state_of(active) in LEAVING.states
    return is_leaving or coordinator.observer.outranks(coordinator.context.node, active)


def _is_believed_to_have_tried_us(coordinator: Coordinator, event: HandoverRequestReceived) -> bool:
    was_tried = event.request.reason is HandoverReason.TRIED and not coordinator.is_strict
    return was_tried and coordinator.observer.demotions.may_depose(event.peer)


def _tried_number(event: TransactionsDelegated, node: NodeName) -> HeartbeatNumber | None:
    return next((entry.number for entry in event.command.tried if entry.node == node), None)


# Actions, in the table's order.


def reject_no_ledger(coordinator: Coordinator, event: TransactionsDelegated) -> None:
    """Reject: no ledger. The sender counts this node as tried."""
    _reject(coordinator, event, Rejection.NO_LEDGER)


def reject_not_allowed(coordinator: Coordinator, event: TransactionsDelegated) -> None:
    """Reject: the peer is no member, or the intent is not its own."""
    _reject(coordinator, event, Rejection.NOT_ALLOWED)


def accept(coordinator: Coordinator, event: TransactionsDelegated) -> None:
    """Hold the intents, answer for each, and believe the sender's `tried` list."""
    if event.peer != coordinator.context.node:
        coordinator.paused_until_ms = 0
    coordinator.observer.believe_tried(event.peer, event.command.tried)
    answers = tuple(_answer(coordinator, event, delegation) for delegation in event.command.delegations)
    accepted = DelegationAccepted(event.command.command_id, answers, coordinator.number)
    coordinator.context.send(event.peer, accepted)


def accept_alone(coordinator: Coordinator, event: TransactionsDelegated) -> None:
    """Accept without a hand-over: there is no node to request it from."""
    coordinator.asked, coordinator.asked_because = None, HandoverReason.OUTRANKS
    accept(coordinator, event)


def accept_for_later_range(coordinator: Coordinator, event: TransactionsDelegated) -> None:
    """Hold the intents until the own index reaches the sender's range."""
    coordinator.standby_for = event.peer
    coordinator.standby_range = coordinator.context.contract.range_at(event.height)
    accept(coordinator, event)


def accept_and_ask(coordinator: Coordinator, event: TransactionsDelegated) -> None:
    """Choose the node to ask before the sender's report makes it silent here; record a report that alone decided."""
    active = coordinator.active
    assert active is not None, "there is somebody to ask"
    is_decisive = not _may_be_asked(coordinator, active)
    _choose_whom_to_ask(coordinator)
    accept(coordinator, event)
    if is_decisive:
        coordinator.observer.demotions.note_deposed(event.peer)


def reject(coordinator: Coordinator, event: TransactionsDelegated) -> None:
    """Reject as not acceptable, with both heights, or with the preferred node."""
    rejection = coordinator.rejection_of(event, coordinator.context.block_range)
    _reject(coordinator, event, rejection or Rejection.NOT_PREFERRED_COORDINATOR)


def redirect(coordinator: Coordinator, event: TransactionsDelegated) -> None:
    """Reject and name the active one; record its heartbeat number as given to this sender."""
    _reject(coordinator, event, Rejection.NOT_PREFERRED_COORDINATOR)


def reject_height(coordinator: Coordinator, event: TransactionsDelegated) -> None:
    """Reject: the index of the sender or of this node is behind."""
    _reject(coordinator, event, Rejection.MISMATCHED_BLOCK_HEIGHT)


def observe(coordinator: Coordinator, event: HeartbeatReceived) -> None:
    """The observer has recorded the heartbeat; follow a coordinator in Flush until a live one appears."""
    if coordinator.observer.accepted is None:
        coordinator.observer.accept(event.peer)


def stop_observing(coordinator: Coordinator, event: HeartbeatInterval) -> None:
    """As far as this node knows, no coordinator is active."""
    coordinator.observer.accepted = None


def ask_for_handover(coordinator: Coordinator, event: Event) -> None:
    """The range is reached: request the hand-over from the active one."""
    _choose_whom_to_ask(coordinator)


def doubt_and_abandon(coordinator: Coordinator, event: HeartbeatInterval) -> None:
    """The range was not reached in time: distrust the sender's heights for a while, and drop the held intents."""
    assert coordinator.standby_for is not None, "somebody's height made us wait"
    coordinator.observer.doubt(coordinator.standby_for)
    _step_aside(coordinator, coordinator.active)


def abandon(coordinator: Coordinator, event: HeartbeatReceived) -> None:
    """A preferred coordinator is live: drop the held intents and name it as successor."""
    _step_aside(coordinator, event.peer)


def abandon_and_answer(coordinator: Coordinator, event: HandoverRequestReceived) -> None:
    """Yield before this node became active."""
    _step_aside(coordinator, event.peer)
    _answer_handover(coordinator, event.peer, event.request.request_id)


def repeat_request(coordinator: Coordinator, event: RequestTimeoutInterval) -> None:
    """Repeat the hand-over request until it is answered."""
    _request_handover(coordinator)


def import_handover(coordinator: Coordinator, event: HandoverReceived) -> None:
    """Respect the locks and states handed over; reset own undispatched transitions that conflict with them."""
    separator, rounds = coordinator.context.separator, event.handover.rounds
    valid_until_s = {round_digest(separator, r.leaves, r.valid_until_s): r.valid_until_s for r in rounds}
    for handed in event.handover.points:
        if coordinator.outcomes.is_settled(handed.point):
            continue
        coordinator.awaited[handed.point] = None
        coordinator.reset_spenders(handed.transition.inputs, handed.transition.leaf)
        coordinator.graph.place_foreign(handed, valid_until_s[handed.point.digest])
    coordinator.awaited_changed_ms = coordinator.context.now_ms


def stop_waiting(coordinator: Coordinator, event: Event) -> None:
    """Stop waiting for flush points of the old one that have no outcome; the ledger decides."""
    coordinator.awaited.clear()


def yield_to_requester(coordinator: Coordinator, event: HandoverRequestReceived) -> None:
    """Abandon intents before Ready_For_Dispatch, dispatch those that are in it, then answer."""
    if not coordinator.is_outranked_by(event.peer):
        coordinator.observer.demotions.note_deposed(event.peer)
    if event.request.reason is HandoverReason.TRIED:
        _note_yielded(coordinator, event.peer)
    _step_aside(coordinator, event.peer)
    _answer_handover(coordinator, event.peer, event.request.request_id)


def refuse_handover(coordinator: Coordinator, event: HandoverRequestReceived) -> None:
    """Refuse at once; the requester closes."""
    coordinator.refuse(event.peer)


def yield_to_better(coordinator: Coordinator, event: HeartbeatReceived) -> None:
    """After a partition, yield to the live coordinator that is preferred."""
    _step_aside(coordinator, event.peer)


def yield_to_followed(coordinator: Coordinator, event: HeartbeatReceived) -> None:
    """Yield to one that refuses us and has the endorsers: it may know of demotions that this node does not."""
    _note_yielded(coordinator, event.peer)
    _step_aside(coordinator, event.peer)


def ask_to_yield(coordinator: Coordinator, event: HeartbeatReceived) -> None:
    """Request a hand-over, as the preferred one after a partition, or from one that may not know its demotion."""
    is_demoted = coordinator.observer.is_demoted(event.peer)
    because = HandoverReason.TRIED if is_demoted else HandoverReason.OUTRANKS
    if coordinator.asked != event.peer or coordinator.asked_because is not because:
        _ask(coordinator, event.peer, because)
    _request_handover(coordinator)


def yield_to_leader(coordinator: Coordinator, event: Event) -> None:
    """Yield to the first other member of the ranking that is not silent."""
    ourselves = frozenset({coordinator.context.node})
    _step_aside(coordinator, coordinator.observer.preferred(coordinator.context.block_range, ourselves))


def stop_and_yield(coordinator: Coordinator, event: StopRequested) -> None:
    """The node stops: hand over first."""
    coordinator.is_stopping = True
    yield_to_leader(coordinator, event)


def drop_expired(coordinator: Coordinator, event: NewBlock) -> None:
    """Reassemble transitions that are no longer valid; build nothing on handed-over ones that have become void."""
    coordinator.rounds.expire()
    coordinator.give_up_expired()


def step_down(coordinator: Coordinator, event: EndorserFollowsAnother) -> None:
    """Endorsers follow a node that is silent here: pause, and leave the role to another member."""
    coordinator.paused_until_ms = coordinator.context.after(coordinator.context.config.step_down_pause_ms)
    yield_to_leader(coordinator, event)


def note_follower_of_another(coordinator: Coordinator, event: EndorserFollowsAnother) -> None:
    """Record it and ask the endorser again; it has no effect while enough others sign."""
    coordinator.following_others[event.peer] = event.accepted


def note_stopping(coordinator: Coordinator, event: StopRequested) -> None:
    """Accept no further delegations."""
    coordinator.is_stopping = True


def advance(coordinator: Coordinator, event: Event) -> None:
    """Select, open rounds, request permissions, dispatch: as far as possible now."""
    coordinator.change_posted = False
    coordinator.rounds.open_rounds()
    coordinator.slots.select()
    coordinator.confirm_and_dispatch()


def dispatch_ready(coordinator: Coordinator, event: Event) -> None:
    """A permission has arrived: its round may be complete."""
    coordinator.confirm_and_dispatch()


def finish_dispatching(coordinator: Coordinator, event: Event) -> None:
    """Dispatch what was ready; after those writes, answer the nodes that requested a hand-over."""
    coordinator.change_posted = False
    coordinator.confirm_and_dispatch()
    if not coordinator.dispatching.has_unwritten_dispatch():
        waiting, coordinator.unanswered = coordinator.unanswered, {}
        for peer, request_id in waiting.items():
            _answer_handover(coordinator, peer, request_id)


def note_change(coordinator: Coordinator, event: Event) -> None:
    """Clear the posted change: selection starts when the state is Active."""
    coordinator.change_posted = False


def answer_handover(coordinator: Coordinator, event: HandoverRequestReceived) -> None:
    """Answer with the open flush points, from memory or from the store."""
    _answer_handover(coordinator, event.peer, event.request.request_id)


def say_goodbye_and_rest(coordinator: Coordinator, event: HeartbeatInterval) -> None:
    """Send the last heartbeat, with state Closing."""
    coordinator.successor = None
    coordinator.send_heartbeats(State.CLOSING)
    if coordinator.observer.accepted == coordinator.context.node:
        coordinator.observer.accepted = None


def beat(coordinator: Coordinator, event: HeartbeatInterval) -> None:
    """Send a heartbeat, age intents that ended, and drop intents of a sender silent for `unavailable_ttl`."""
    _restart_heartbeat_timer(coordinator)
    coordinator.idle_heartbeats = 0 if coordinator.transactions else coordinator.idle_heartbeats + 1
    coordinator.closing_left = max(0, coordinator.closing_left - 1)
    _drop_intents_of_the_lost(coordinator)
    coordinator.send_heartbeats()
    for transaction in tuple(coordinator.transactions.values()):
        if transaction.is_gone:
            transaction.handle(TransactionHeartbeatInterval())


def watch(coordinator: Coordinator, event: HeartbeatInterval) -> None:
    """Check again at the next heartbeat."""
    _restart_heartbeat_timer(coordinator)


# Entry actions.


def enter_elect(coordinator: Coordinator) -> None:
    """Request the hand-over from the active one."""
    _request_handover(coordinator)
    due_ms = coordinator.context.after(coordinator.context.config.handover_timeout_ms)
    coordinator.context.timers.set(coordinator, "handover", due_ms, HandoverTimeout())


def enter_prepared(coordinator: Coordinator) -> None:
    """Wait for the flush points, at most for `flush_timeout`."""
    due_ms = coordinator.context.after(coordinator.context.config.flush_timeout_ms)
    coordinator.context.timers.set(coordinator, "flush", due_ms, FlushTimeout())


def enter_active(coordinator: Coordinator) -> None:
    """Load the node's unconfirmed dispatches of earlier runs, then start to select and dispatch."""
    coordinator.following_others.clear()
    coordinator.successor = coordinator.yielded_to = None
    coordinator.succeeded = coordinator.asked if coordinator.asked_because is HandoverReason.TRIED else None
    coordinator.idle_heartbeats = 0
    for handed in coordinator.restored.values():
        coordinator.graph.place_foreign(handed, coordinator.context.latest_valid_until_s(is_prepared=False))
    coordinator.something_changed()


def enter_flush(coordinator: Coordinator) -> None:
    """Check at once: the flush points may have gone together with the abandoned intents."""
    coordinator.context.post(coordinator, TransactionConfirmed())


def enter_closing(coordinator: Coordinator) -> None:
    """Send `closing_heartbeats` more heartbeats, so that every member learns the successor."""
    coordinator.closing_left = coordinator.context.config.closing_heartbeats


def _answer(coordinator: Coordinator, event: TransactionsDelegated, delegation: Delegation) -> IntentAnswer:
    """Answer for one intent of an accepted command (protocol §4.2)."""
    intent = delegation.intent
    held = coordinator.transactions.get(intent.id)
    if coordinator.outcomes.is_committed(intent.id):
        return IntentAnswer(intent.id, Answer.CONFIRMED)
    if held is not None:
        held.handle(Received(delegation))
        if held.is_gone:
            if held.reverted is not None:
                # The sender missed the report: it goes by the refusals in it, not by this answer.
                coordinator.context.send(event.peer, held.reverted)
            return IntentAnswer(intent.id, Answer.REJECTED, held.reason)
        is_dispatched = held.state in ON_THE_WAY
        return IntentAnswer(intent.id, Answer.DISPATCHED if is_dispatched else Answer.HELD)
    if any(handed.point.intent == intent.id for handed in coordinator.restored.values()):
        return IntentAnswer(intent.id, Answer.DISPATCHED)
    if not delegation.is_voiding and coordinator.issuing.is_open(intent.id):
        return IntentAnswer(intent.id, Answer.HELD)
    if not coordinator.quotas.has_place(event.peer):
        return IntentAnswer(intent.id, Answer.FULL)
    coordinator.received_count += 1
    transaction = CoordinatorTransaction(coordinator, delegation, coordinator.received_count)
    coordinator.transactions[intent.id] = transaction
    coordinator.quotas.places.take(event.peer, 1)
    transaction.handle(Received(delegation))
    return IntentAnswer(intent.id, Answer.ACCEPTED)


def _reject(coordinator: Coordinator, event: TransactionsDelegated, rejection: Rejection) -> None:
    active = coordinator.active
    if active is not None and coordinator.observer.is_demoted(active):
        active = None
    if rejection is Rejection.NOT_PREFERRED_COORDINATOR and active is None:
        tried = frozenset({entry.node for entry in event.command.tried} | {coordinator.context.node})
        active = coordinator.observer.preferred(coordinator.context.block_range, tried)
    known = coordinator.observer.peer(active) if active is not None else None
    number = known.number if known is not None else HeartbeatNumber(0, 0)
    if rejection is Rejection.NOT_PREFERRED_COORDINATOR and active is not None:
        coordinator.redirects.pop(event.peer, None)
        coordinator.redirects[event.peer] = Tried(active, number)
        forget_oldest(coordinator.redirects, REDIRECTS_MAX)
    rejected = DelegationRejected(
        event.command.command_id,
        rejection,
        event.height,
        coordinator.context.height,
        active if rejection is Rejection.NOT_PREFERRED_COORDINATOR else None,
        coordinator.observer.heartbeat_age_ms(active) if active is not None else 0,
        number,
    )
    coordinator.context.send(event.peer, rejected)


def _choose_whom_to_ask(coordinator: Coordinator) -> None:
    active = coordinator.active
    assert active is not None, "there is somebody to ask"
    outranked = coordinator.is_outranked_by(active)
    _ask(coordinator, active, HandoverReason.TRIED if outranked else HandoverReason.OUTRANKS)


def _ask(coordinator: Coordinator, node: NodeName, because: HandoverReason) -> None:
    """Start a request under one id; its repeats have the same id."""
    coordinator.asked, coordinator.asked_because = node, because
    coordinator.asked_id = coordinator.context.next_id()


def _request_handover(coordinator: Coordinator) -> None:
    assert coordinator.asked is not None, "there is somebody to ask"
    assert coordinator.asked_id is not None, "a request has an id"
    request = HandoverRequest(coordinator.asked_id, coordinator.asked_because)
    coordinator.context.send(coordinator.asked, request)
    due_ms = coordinator.context.after(coordinator.context.config.request_timeout_ms)
    coordinator.context.timers.set(coordinator, "request", due_ms, RequestTimeoutInterval())


def _note_yielded(coordinator: Coordinator, successor: NodeName) -> None:
    """Redirect delegations of this range to the successor, whatever the ranks are."""
    coordinator.yielded_to, coordinator.yielded_range = successor, coordinator.context.block_range


def _step_aside(coordinator: Coordinator, successor: NodeName | None) -> None:
    """Drop intents that are not past the point of no return, and follow the successor."""
    coordinator.successor = successor
    coordinator.observer.accepted = successor
    coordinator.slots.close()
    for _ in ("what we hold", "and what was ready, but stood on it"):
        for transaction in tuple(coordinator.transactions.values()):
            if transaction.state in DROPPABLE:
                transaction.handle(Abandoned())


def _answer_handover(coordinator: Coordinator, peer: NodeName, request_id: RequestId) -> None:
    """Answer at once, or after the write if a dispatch is being written."""
    if coordinator.dispatching.has_unwritten_dispatch():
        coordinator.unanswered[peer] = request_id
        return
    points: list[HandedOver] = []
    rounds = dict(coordinator.restored_rounds)
    for transaction in coordinator.dispatching.flush_points():
        assert transaction.endorsed is not None, "a flush point was endorsed in a round"
        point = flush_point_of(transaction)
        rounds[point.digest] = transaction.endorsed
        points.append(HandedOver(point, transaction.made.as_seen_by(peer)))
    for handed in coordinator.restored.values():
        points.append(HandedOver(handed.point, handed.transition.as_seen_by(peer)))
    bytes_max = coordinator.context.config.message_bytes_max
    coordinator.context.send(peer, handover_of(request_id, points, rounds, bytes_max))


def _restart_heartbeat_timer(coordinator: Coordinator) -> None:
    due_ms = coordinator.context.next_beat_ms()
    coordinator.context.timers.set(coordinator, "heartbeat", due_ms, HeartbeatInterval())


def _drop_intents_of_the_lost(coordinator: Coordinator) -> None:
    """Undispatched intents of a sender that is silent for `unavailable_ttl` are dropped (protocol §4.1)."""
    for sender in tuple(coordinator.quotas.places.held):
        if coordinator.observer.silent_for_ms(sender) < coordinator.context.config.unavailable_ttl_ms:
            continue
        for transaction in tuple(coordinator.transactions.values()):
            if transaction.sender == sender and transaction.state in DROPPABLE:
                transaction.handle(Abandoned())


YIELDS = Junction("Yields", ((has_flush_points, State.FLUSH), (None, State.CLOSING)))

TABLE = Table(
    name="Coordinator",
    initial=State.IDLE,
    written=(
        Row(EVERY, TransactionsDelegated, when=has_no_ledger, do=reject_no_ledger),
        Row(EVERY, TransactionsDelegated, when=is_not_allowed, do=reject_not_allowed),
        Row(State.IDLE, TransactionsDelegated, when=is_acceptable, then=State.ACTIVE, do=accept_alone),
        Row(State.IDLE, TransactionsDelegated, do=reject),
        Row(State.IDLE, HeartbeatReceived, when=is_live_or_flushing, then=State.OBSERVING, do=observe),
        Row(WITHOUT_ROLE, TransactionsDelegated, when=active_one_is_preferred, do=redirect),
        Row(
            WITHOUT_ROLE,
            TransactionsDelegated,
            when=we_lead_in_a_later_range,
            then=State.STANDBY,
            do=accept_for_later_range,
        ),
        Row(WITHOUT_ROLE, TransactionsDelegated, when=ranges_differ, do=reject_height),
        Row(WITHOUT_ROLE, TransactionsDelegated, when=is_strict_and_not_acceptable, do=reject),
        Row(WITHOUT_ROLE, TransactionsDelegated, when=nobody_to_ask, then=State.ACTIVE, do=accept_alone),
        Row(WITHOUT_ROLE, TransactionsDelegated, when=may_be_elect, then=State.ELECT, do=accept_and_ask),
        Row(WITHOUT_ROLE, TransactionsDelegated, do=redirect),
        Row(State.OBSERVING, HeartbeatInterval, when=active_one_is_quiet, then=State.IDLE, do=stop_observing),
        Row(State.OBSERVING, HeartbeatInterval, do=watch),
        Row(State.STANDBY, NewBlock, when=range_is_reached_alone, then=State.ACTIVE),
        Row(State.STANDBY, NewBlock, when=range_is_reached, then=State.ELECT, do=ask_for_handover),
        Row(State.STANDBY, HeartbeatInterval, when=active_one_is_silent_for_long, then=State.ACTIVE),
        Row(State.STANDBY, HeartbeatInterval, when=range_is_overdue, then=State.CLOSING, do=doubt_and_abandon),
        Row(AWAITING_ROLE, TransactionsDelegated, when=may_hold, do=accept),
        Row(AWAITING_ROLE, TransactionsDelegated, do=reject),
        Row(AWAITING_ROLE, HeartbeatReceived, when=a_better_one_is_live, then=State.CLOSING, do=abandon),
        Row(
            AWAITING_ROLE, HandoverRequestReceived, when=requester_is_better, then=State.CLOSING, do=abandon_and_answer
        ),
        Row(State.ELECT, RequestTimeoutInterval, do=repeat_request),
        Row(State.ELECT, HandoverReceived, when=is_answer_with_flush_points, then=State.PREPARED, do=import_handover),
        Row(State.ELECT, HandoverReceived, when=is_answer, then=State.ACTIVE, do=import_handover),
        Row(State.ELECT, HandoverTimeout, then=State.ACTIVE),
        Row(State.ELECT, HeartbeatInterval, when=old_one_is_gone, then=State.ACTIVE),
        Row(State.ELECT, PeerLost, when=old_one_is_gone, then=State.ACTIVE),
        Row(State.ELECT, HeartbeatReceived, when=it_refused_us, then=State.CLOSING, do=abandon),
        Row(State.PREPARED, TransactionConfirmed, when=nothing_is_awaited, then=State.ACTIVE),
        Row(State.PREPARED, FlushTimeout, then=State.ACTIVE, do=stop_waiting),
        Row(State.PREPARED, HeartbeatInterval, when=flush_has_stalled, then=State.ACTIVE, do=stop_waiting),
        Row(State.ACTIVE, TransactionsDelegated, when=is_sticky_or_acceptable, do=accept),
        Row(State.ACTIVE, TransactionsDelegated, do=reject),
        Row(State.ACTIVE, HandoverRequestReceived, when=requester_may_take_over, then=YIELDS, do=yield_to_requester),
        Row(State.ACTIVE, HandoverRequestReceived, do=refuse_handover),
        Row(State.ACTIVE, HandoverReceived, when=is_answer, do=import_handover),
        Row(State.ACTIVE, HeartbeatReceived, when=a_live_one_outranks_us, then=YIELDS, do=yield_to_better),
        Row(
            State.ACTIVE,
            HeartbeatReceived,
            when=endorsers_follow_the_one_that_refuses_us,
            then=YIELDS,
            do=yield_to_followed,
        ),
        Row(State.ACTIVE, HeartbeatReceived, when=we_outrank_a_live_one, do=ask_to_yield),
        Row(State.ACTIVE, NewBlock, when=another_leads_the_new_range, then=YIELDS, do=yield_to_leader),
        Row(State.ACTIVE, NewBlock, do=drop_expired),
        Row(State.ACTIVE, EndorserFollowsAnother, when=endorsers_follow_a_silent_one, then=YIELDS, do=step_down),
        Row(State.ACTIVE, EndorserFollowsAnother, do=note_follower_of_another),
        Row(ACTING, LedgerLost, then=YIELDS, do=yield_to_leader),
        Row(ACTING, StopRequested, then=YIELDS, do=stop_and_yield),
        Row(WITHOUT_ROLE, StopRequested, do=note_stopping),
        Row(State.ACTIVE, TransactionStateTransition, do=advance),
        *in_states((State.ACTIVE, State.FLUSH), TransactionDispatchConfirmed, do=dispatch_ready),
        Row(LEAVING, TransactionStateTransition, do=finish_dispatching),
        Row(EVERY, TransactionStateTransition, do=note_change),
        Row(State.ACTIVE, HeartbeatInterval, when=idle_for_long, then=State.IDLE, do=say_goodbye_and_rest),
        Row(WITHOUT_ROLE, HandoverRequestReceived, do=answer_handover),
        Row(State.FLUSH, TransactionConfirmed, when=no_flush_point_is_open, then=State.CLOSING),
        Row(State.CLOSING, HeartbeatInterval, when=said_goodbye_to_a_live_one, then=State.OBSERVING),
        Row(State.CLOSING, HeartbeatInterval, when=said_goodbye, then=State.IDLE),
        Row(EVERY, HeartbeatInterval, do=beat),
    ),
    ignored=(
        Ignored(TransactionConfirmed, outside(State.PREPARED, State.FLUSH), "the transactions themselves take it"),
        Ignored(TransactionDispatchConfirmed, outside(State.ACTIVE, State.FLUSH), "no permission is requested there"),
        Ignored(HeartbeatReceived, (State.OBSERVING, LEAVING), "the observer has recorded it"),
        Ignored(NewBlock, outside(State.STANDBY, State.ACTIVE), "it waits for other nodes, or has yielded"),
        Ignored(HandoverReceived, outside(State.ELECT, State.ACTIVE), "no request is open, or it has been answered"),
        Ignored(HeartbeatInterval, (State.IDLE,), "the timer stops when no heartbeats are sent"),
        Ignored(
            RequestTimeoutInterval,
            outside(State.ELECT),
            "only Elect repeats; Active asks at every heartbeat of the other",
        ),
        Ignored(HandoverTimeout, outside(State.ELECT), "only Elect waits for an answer"),
        Ignored(FlushTimeout, outside(State.PREPARED), "only Prepared waits for flush points"),
        Ignored(PeerLost, outside(State.ELECT), "the next heartbeat interval looks at who is silent"),
        Ignored(EndorserFollowsAnother, outside(State.ACTIVE), "only an Active gathers endorsements"),
        Ignored(LedgerLost, (WITHOUT_ROLE,), "there is no role to hand over"),
    ),
    entry={
        State.ELECT: enter_elect,
        State.PREPARED: enter_prepared,
        State.ACTIVE: enter_active,
        State.FLUSH: enter_flush,
        State.CLOSING: enter_closing,
    },
)


class Coordinator(CoordinatorBase):
    """The coordinator machine: one per contract and node."""

    table = TABLE
