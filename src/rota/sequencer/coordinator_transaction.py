"""An intent at its coordinator: pooled → assembled → endorsed → permitted → dispatched.

Theory of operation. The coordinator holds each delegated intent in memory only; its sender stays
responsible for it and delegates it again if this node loses it. An intent waits in the pool for its
sender's turn, is assembled by its sender on our snapshot, is endorsed with others in a round, and is
dispatched when its sender permits that very leaf and all its dependencies are dispatched too.
Ready_For_Dispatch is the point of no return: before it the intent may be dropped at any time, after it only
the ledger decides. Dropping a transition first resets the transitions that depend on its states.
Every state that is not final takes the ledger's outcomes (protocol §4.2). An intent that
its sender voids starts over in the pool; it waits for no other intent and none waits for it. An external intent is not
dispatched: once it is endorsed and its dependencies are dispatched it is Prepared, stored here and sent to its
sender until that acknowledges it (`issuing.py`).
"""

from __future__ import annotations

from enum import Enum
from typing import cast

from rota.machine.tables import Event, Ignored, Junction, Row, Table, outside
from rota.model.blocks import LedgerStatus
from rota.model.types import IntentId, Mode
from rota.sequencer.coordinator_base import CoordinatorBase
from rota.sequencer.coordinator_transaction_events import (
    Abandoned,
    AssembleErrorResponse,
    AssembleParkResponse,
    AssembleRequestSent,
    AssembleRevertResponse,
    AssembleSuccess,
    AssembleTimeout,
    Collected,
    ConfirmationUndone,
    Confirmed,
    DependencyAssembled,
    DependencyReady,
    DependencyReverted,
    DispatchConfirmationRejected,
    DispatchConfirmed,
    Endorsed,
    EndorsedRejected,
    HeartbeatInterval,
    Issued,
    NonceAllocated,
    PermissionWithheld,
    Received,
    RequestTimeoutInterval,
    Selected,
    StateTimeout,
    StateTransition,
    Submitted,
    ValidityEnded,
)
from rota.sequencer.held_intent import (
    ASSEMBLED,
    AWAITING_ASSEMBLY,
    ENDED,
    GONE,
    HELD,
    KNOWN,
    ON_THE_WAY,
    RECALLABLE,
    SENT,
    UNASSEMBLED,
    UNDER_WAY,
    HeldIntent,
    State,
)
from rota.wire.messages import Delegation, EndorserSignature, ErrorCode, TransactionReverted


def awaits_others(transaction: CoordinatorTransaction, event: Received) -> bool:
    """an earlier intent of that sender awaits its first assembly"""
    if not event.delegation.is_voiding:
        transaction.waits_for = transaction.coordinator.unassembled_before(transaction)
    return bool(transaction.waits_for)


def is_to_be_voided(transaction: CoordinatorTransaction, event: Received) -> bool:
    """its sender voids it, and this is new here"""
    is_news = event.delegation.is_voiding and not transaction.is_voiding
    return is_news and event.delegation.number >= transaction.number


def is_usable(transaction: CoordinatorTransaction, event: AssembleSuccess) -> bool:
    """assembled on states that still exist, spends no locked state, is within its sender's share, names another
    submitter only if its intent is external, and its states may be reserved; an empty one is within its allowance"""
    is_for_another = event.transition.preparation is not None
    may_be_prepared = transaction.intent.is_external
    if is_for_another and not may_be_prepared:
        return False
    coordinator = transaction.coordinator
    if event.transition.is_empty and not coordinator.empties.may_take(transaction.sender):
        return False
    has_room = coordinator.quotas.has_room(transaction.sender, event.transition, event.size_bytes)
    return has_room and coordinator.slots.is_usable(event.transition) and not _flaw_of_keeping(transaction, event)


def still_waits(transaction: CoordinatorTransaction, event: Event) -> bool:
    """a dependency is not assembled yet"""
    return bool(transaction.waits_for)


def nothing_else_awaited(transaction: CoordinatorTransaction, event: DependencyAssembled | DependencyReverted) -> bool:
    """it has no other dependency to wait for"""
    return all(intent == event.dependency for intent in transaction.waits_for)


def its_makers_come_back(transaction: CoordinatorTransaction, event: DependencyReverted) -> bool:
    """a transition it depends on will be assembled again"""
    return bool(_makers_coming_back(transaction, event))


def is_being_dispatched(transaction: CoordinatorTransaction, event: Event) -> bool:
    """its round is being written"""
    return not transaction.coordinator.dispatching.is_undispatched(transaction)


def dependencies_are_ready(transaction: CoordinatorTransaction, event: Event) -> bool:
    """its dependencies outside its round are ready for dispatch, and it is to be dispatched itself"""
    return not transaction.is_external and transaction.coordinator.dispatching.dependencies_ready(transaction)


def may_be_prepared(transaction: CoordinatorTransaction, event: Event) -> bool:
    """it is external, and all its dependencies are dispatched"""
    return transaction.is_external and transaction.coordinator.dispatching.dependencies_dispatched(transaction)


def its_states_are_kept(transaction: CoordinatorTransaction, event: EndorsedRejected) -> bool:
    """endorsers have its states reserved for prepared transitions, or lack them, and nothing is wrong with it"""
    return not event.is_counted


def refused_too_often(transaction: CoordinatorTransaction, event: EndorsedRejected) -> bool:
    """refused `endorse_retry_max` times on fresh snapshots"""
    return transaction.is_at_its_last_refusal


def was_refused_and_is_not_assembled_again(transaction: CoordinatorTransaction, event: AssembleErrorResponse) -> bool:
    """its last version was refused, and its sender signs no other one now"""
    refused = transaction.refused
    return event.code is ErrorCode.FAILED and refused is not None and refused.number == transaction.number


def lacks_states(transaction: CoordinatorTransaction, event: DispatchConfirmationRejected) -> bool:
    """the sender lost the states in a restart and requests them, once"""
    return event.code is ErrorCode.STATES_MISSING and not transaction.sends_states


def succeeded(transaction: CoordinatorTransaction, event: Confirmed) -> bool:
    """committed, in any version"""
    return event.outcome.status is LedgerStatus.COMMITTED


def another_version_failed(transaction: CoordinatorTransaction, event: Confirmed) -> bool:
    """failure of a version that is not the current one"""
    return transaction.transition is None or event.outcome.leaf != transaction.transition.leaf


def lost_to_contention(transaction: CoordinatorTransaction, event: Confirmed) -> bool:
    """skipped because another was first, or its whole transaction reverted: not counted"""
    return not event.outcome.is_counted


def may_be_retried(transaction: CoordinatorTransaction, event: Confirmed) -> bool:
    """a call of it failed: retried at most `revert_retry_max` times, unless its sender ends it"""
    return transaction.revert_count < transaction.coordinator.context.config.revert_retry_max


def its_sender_may_ask(transaction: CoordinatorTransaction, event: HeartbeatInterval) -> bool:
    """given up here, and its sender may have missed the report and delegate it again"""
    was_told = transaction.told_count > 0
    return was_told and transaction.told_count <= transaction.coordinator.context.config.closing_heartbeats


def was_our_version(transaction: CoordinatorTransaction, event: ConfirmationUndone) -> bool:
    """the version dispatched here"""
    is_under_way = transaction.transition is not None and event.leaf == transaction.transition.leaf
    return is_under_way and not transaction.is_external


# Actions, in the table's order.


def go_on_backing_off(transaction: CoordinatorTransaction, event: Received) -> None:
    """Delay the intent by the failures that it had at another coordinator."""
    if transaction.revert_count:
        _back_off(transaction, transaction.revert_count - 1)


def take_over_number(transaction: CoordinatorTransaction, event: Received) -> None:
    """Take over a higher delegation number without a change of state; ignore a lower one."""
    if event.delegation.number > transaction.number:
        transaction.number = event.delegation.number
        transaction.revert_count = max(transaction.revert_count, event.delegation.revert_count)


def begin_voiding(transaction: CoordinatorTransaction, event: Received) -> None:
    """From now on assemble an empty transition, which depends on nothing and has its own retry counts."""
    transaction.is_voiding = True
    transaction.number = event.delegation.number
    transaction.revert_count = event.delegation.revert_count
    transaction.refused_count = transaction.unusable_count = transaction.told_count = 0
    transaction.reverted = None
    transaction.kept_away_count = 0
    transaction.not_before_ms = 0
    transaction.waits_for = ()
    transaction.reason = ""
    transaction.coordinator.something_changed()


def drop_version_and_begin_voiding(transaction: CoordinatorTransaction, event: Received) -> None:
    """Reset the current version, which will get no permission, after the transitions that depend on it."""
    _drop_transition(transaction, comes_back=False)
    begin_voiding(transaction, event)


def leave_it_and_begin_voiding(transaction: CoordinatorTransaction, event: Received) -> None:
    """Leave the prepared version: its states stay reserved until the empty one is on the chain."""
    transaction.let_go()
    begin_voiding(transaction, event)


def join_slot(transaction: CoordinatorTransaction, event: Selected) -> None:
    """Record the request id: only the answer to this request counts."""
    transaction.request_id = event.request_id


def place_transition(transaction: CoordinatorTransaction, event: AssembleSuccess) -> None:
    """Lock its inputs, offer its outputs, queue it for a round, and release the intents that wait for it."""
    transaction.coordinator.reset_givers(transaction.sender, event.transition)
    transaction.number = max(transaction.number, event.number)
    transaction.hold(event.transition, event.size_bytes, event.attesters)
    transaction.seen_by = {}
    transaction.unjudged_by = {}
    transaction.was_assembled = True
    transaction.waits_for = ()
    transaction.unusable_count = 0
    transaction.goes_alone = transaction.sends_states = False
    transaction.is_apart = transaction.coordinator.rounds.must_ride_apart(transaction)
    coordinator = transaction.coordinator
    if event.transition.is_empty:
        coordinator.empties.take(transaction.sender)
    is_hidden = transaction.is_external or transaction.is_apart or coordinator.signers.must_verify(transaction)
    offers_states = not is_hidden and coordinator.quotas.may_offer(transaction.sender, event.transition)
    coordinator.graph.place(event.transition, offers_states, transaction.sender)
    transaction.placed_at = coordinator.outcomes.count
    makers = coordinator.graph.dependencies(event.transition.leaf)
    transaction.makers = tuple((maker.intent, maker.leaf) for maker in makers)
    if transaction.is_external or transaction.attesters.endorsers:
        # Its user or its approvers decide whether it ever commits: nothing may be built on its states now.
        transaction.coordinator.slots.refuse_states_of(event.transition.leaf)
    transaction.coordinator.rounds.await_round(transaction)
    transaction.coordinator.release_waiters(transaction, DependencyAssembled(transaction.intent.id))


def note_unusable(transaction: CoordinatorTransaction, event: AssembleSuccess) -> None:
    """Discard a transition whose inputs are no longer usable; nothing may be built on its states.

    The first time the intent is assembled again at once, later times with a growing backoff.
    """
    transaction.coordinator.slots.refuse_states_of(event.transition.leaf)
    transaction.reason = _flaw_of_keeping(transaction, event)
    if transaction.unusable_count:
        _back_off(transaction, transaction.unusable_count)
    transaction.unusable_count += 1


def keep_reason(transaction: CoordinatorTransaction, event: AssembleRevertResponse) -> None:
    """Keep the reason until the intent is forgotten; the sender finalises it."""
    transaction.reason = event.reason


def stop_waiting_for(transaction: CoordinatorTransaction, event: DependencyAssembled | DependencyReverted) -> None:
    """Remove the dependency from those it waits for."""
    transaction.waits_for = tuple(intent for intent in transaction.waits_for if intent != event.dependency)


def give_up_transition(transaction: CoordinatorTransaction, event: Event) -> None:
    """Leave the round and the graph; the dependents have been reset already."""
    transaction.coordinator.rounds.leave(transaction)
    transaction.coordinator.graph.remove(transaction.leaf)
    transaction.let_go()


def wait_for_makers(transaction: CoordinatorTransaction, event: DependencyReverted) -> None:
    """Wait until its dependencies are assembled again."""
    transaction.waits_for = _makers_coming_back(transaction, event)
    transaction.coordinator.wait(transaction)
    give_up_transition(transaction, event)


def reset_dependents_and_leave_the_states(transaction: CoordinatorTransaction, event: EndorsedRejected) -> None:
    """Assemble again without the reserved states: at once the first time, then with a growing backoff."""
    if transaction.kept_away_count:
        _back_off(transaction, transaction.kept_away_count)
    transaction.kept_away_count += 1
    transaction.reason = event.reason
    _drop_transition(transaction, comes_back=True)


def reset_dependents_and_count(transaction: CoordinatorTransaction, event: EndorsedRejected) -> None:
    """Count a refusal and assemble on a fresh snapshot, with a growing backoff."""
    _back_off(transaction, transaction.refused_count)
    transaction.refused_count += 1
    transaction.reason = event.reason
    transaction.refused = _reverted(transaction, event.reason, event.refusals) if event.refusals else None
    _drop_transition(transaction, comes_back=True)
    transaction.coordinator.isolate(transaction.sender)


def give_up_as_refused(transaction: CoordinatorTransaction, event: AssembleErrorResponse) -> None:
    """Return it to its sender with the refusals of the last version: the sender waits before it signs another one."""
    assert transaction.refused is not None, "the guard has found it"
    _tell(transaction, transaction.refused)


def reset_dependents(transaction: CoordinatorTransaction, event: Event) -> None:
    """Assemble again; its dependents are reset first and wait for it."""
    _drop_transition(transaction, comes_back=True)


def give_up_with_reason(transaction: CoordinatorTransaction, event: EndorsedRejected) -> None:
    """Return it to its sender with the refusals by which the sender ends it."""
    _tell(transaction, _reverted(transaction, event.reason, event.refusals))
    _drop_transition(transaction, comes_back=False)
    transaction.coordinator.isolate(transaction.sender)


def drop_for_good(transaction: CoordinatorTransaction, event: Event) -> None:
    """Drop it; its dependents are reset first and do not wait for it."""
    _drop_transition(transaction, comes_back=False)


def ask_with_states(transaction: CoordinatorTransaction, event: DispatchConfirmationRejected) -> None:
    """Repeat the request with the states."""
    transaction.coordinator.permissions.ask_with_states(transaction)


def note_nonce(transaction: CoordinatorTransaction, event: NonceAllocated) -> None:
    """Record signer and nonce, for `explain`."""
    transaction.signer_and_nonce = (event.signer, event.nonce)


def note_submission(transaction: CoordinatorTransaction, event: Submitted) -> None:
    """Record the number of submissions, for `explain`."""
    transaction.submission_count = event.submission_count


def note_request(transaction: CoordinatorTransaction, event: Event) -> None:
    """Count repeated requests, for `explain`."""
    transaction.request_count += 1


def settle(transaction: CoordinatorTransaction, event: Confirmed) -> None:
    """Its outputs are on the chain and no longer speculative. Another version voids ours and its dependents."""
    if transaction.transition is None:
        return
    if event.outcome.leaf == transaction.leaf:
        transaction.coordinator.rounds.settle(transaction)
        transaction.coordinator.graph.remove(transaction.leaf)
        transaction.count_as_assembled(False)
        if not transaction.made.is_empty:
            transaction.coordinator.context.proven.note(transaction.sender)
            transaction.coordinator.empties.earn(transaction.sender)
    else:
        _drop_transition(transaction, comes_back=False)


def count_and_back_off(transaction: CoordinatorTransaction, event: Confirmed) -> None:
    """Count a failure that may be retried, with a growing backoff."""
    transaction.coordinator.note_failed_call(transaction)
    _back_off(transaction, transaction.revert_count)
    transaction.revert_count += 1
    transaction.reason = event.outcome.reason
    _drop_transition(transaction, comes_back=True)


def back_off(transaction: CoordinatorTransaction, event: Confirmed) -> None:
    """Contention: assemble again on the present states, at once and then with a growing backoff.

    A state spent before the assembly is the sender's fault, not contention. The reason why a whole transaction
    reverted is unknown: it is delayed from the first time, and from the second time on its sender is paused.
    """
    coordinator, outcome = transaction.coordinator, event.outcome
    if outcome.status is LedgerStatus.SKIPPED:
        is_waste = coordinator.was_spent_before(transaction)
    else:
        is_waste = transaction.whole_revert_count > 0 and not outcome.is_contention
        transaction.whole_revert_count += not outcome.is_contention
    if transaction.contended_count or transaction.whole_revert_count:
        _back_off(transaction, transaction.contended_count)
    transaction.contended_count += 1
    transaction.reason = event.outcome.reason
    _drop_transition(transaction, comes_back=True)
    if is_waste:
        coordinator.note_waste(transaction.sender)


def give_up_on_ledger(transaction: CoordinatorTransaction, event: Confirmed) -> None:
    """No retry is left: report it to its sender, which decides by its own index."""
    transaction.coordinator.note_failed_call(transaction)
    _tell(transaction, _reverted(transaction, event.outcome.reason))
    _drop_transition(transaction, comes_back=False)


def count_heartbeat(transaction: CoordinatorTransaction, event: HeartbeatInterval) -> None:
    """Keep it for some heartbeats more, to answer a repeated delegation with the reason."""
    transaction.told_count += 1


def watch_again(transaction: CoordinatorTransaction, event: ConfirmationUndone) -> None:
    """Its block was reorganised away: it is under way again, and transitions assembled on its states are reset."""
    assert transaction.transition is not None
    transaction.coordinator.graph.place(transaction.transition, sender=transaction.sender)
    transaction.count_as_assembled(True)
    transaction.coordinator.reset_users_of(transaction.leaf, frozenset())


def start_state_timer(transaction: CoordinatorTransaction, event: Event) -> None:
    """Start the timer that every waiting state has (protocol §4.2)."""
    context = transaction.coordinator.context
    due_ms = context.after(context.config.state_timeout_ms)
    context.timers.set(transaction, "state", due_ms, StateTimeout())


def stop_state_timer(transaction: CoordinatorTransaction, event: Event) -> None:
    """Cancel it: this state awaits no answer."""
    transaction.coordinator.context.timers.cancel(transaction, "state")


def enter_prepared(transaction: CoordinatorTransaction) -> None:
    """Store it, then send it to its sender until acknowledged."""
    transaction.coordinator.issuing.prepare(transaction)


def forget(transaction: CoordinatorTransaction) -> None:
    """Final: remove it from memory and release the intents that wait for it."""
    transaction.coordinator.forget(transaction)


def _flaw_of_keeping(transaction: CoordinatorTransaction, event: AssembleSuccess) -> str:
    """Return why an external intent's states cannot be reserved, or ""; in `sender` mode no other node is affected."""
    made, mode = event.transition, transaction.coordinator.context.contract.mode
    if not transaction.intent.is_external or made.is_empty or mode is Mode.SENDER:
        return ""
    return transaction.coordinator.turns.flaw_of(transaction.sender, made.intent, made.inputs, made.valid_until_s)


def _makers_coming_back(transaction: CoordinatorTransaction, event: DependencyReverted) -> tuple[IntentId, ...]:
    """Return the intents that are assembled again here; versions of other coordinators and earlier runs are not."""
    makers = transaction.coordinator.graph.dependencies(transaction.leaf)
    return tuple(placed.intent for placed in makers if placed.point is None and placed.intent in event.coming_back)


def _drop_transition(transaction: CoordinatorTransaction, comes_back: bool) -> None:
    """Reset: first all dependents, last to first, then its own locks and states."""
    if transaction.transition is None:
        return
    itself = frozenset({transaction.intent.id} if comes_back else ())
    transaction.coordinator.reset_users_of(transaction.leaf, itself)
    give_up_transition(transaction, StateTransition())


def _back_off(transaction: CoordinatorTransaction, attempt: int) -> None:
    context = transaction.coordinator.context
    transaction.not_before_ms = context.after(context.retry_delay_ms(attempt))
    transaction.coordinator.slots.look_again_at(transaction.not_before_ms)


def _reverted(
    transaction: CoordinatorTransaction, reason: str, refusals: tuple[EndorserSignature, ...] = ()
) -> TransactionReverted:
    """Return the report to its sender when the current version is given up."""
    return TransactionReverted(transaction.intent.id, transaction.number, transaction.leaf, reason, refusals)


def _tell(transaction: CoordinatorTransaction, reverted: TransactionReverted) -> None:
    transaction.reason, transaction.reverted, transaction.told_count = reverted.reason, reverted, 1
    transaction.coordinator.context.send(transaction.sender, reverted)


BACK = Junction("Back", ((still_waits, State.PREASSEMBLY_BLOCKED), (None, State.POOLED)))
NEXT = Junction(
    "Next",
    ((may_be_prepared, State.PREPARED), (dependencies_are_ready, State.CONFIRMING_DISPATCH), (None, State.BLOCKED)),
)

TABLE = Table(
    name="Coordinator's transaction",
    initial=State.INITIAL,
    written=(
        Row(State.INITIAL, Received, when=awaits_others, then=State.PREASSEMBLY_BLOCKED, do=go_on_backing_off),
        Row(State.INITIAL, Received, then=State.POOLED, do=go_on_backing_off),
        Row(UNASSEMBLED, Received, when=is_to_be_voided, then=State.POOLED, do=begin_voiding),
        Row(State.ASSEMBLING, Received, when=is_to_be_voided, do=begin_voiding),
        Row(ASSEMBLED, Received, when=is_to_be_voided, then=State.POOLED, do=drop_version_and_begin_voiding),
        Row(State.REVERTED, Received, when=is_to_be_voided, then=State.POOLED, do=begin_voiding),
        Row(State.PREPARED, Received, when=is_to_be_voided, then=State.POOLED, do=leave_it_and_begin_voiding),
        Row(HELD, Received, do=take_over_number),
        Row(UNASSEMBLED, Selected, do=join_slot),
        Row(UNASSEMBLED, AssembleRequestSent, then=State.ASSEMBLING),
        Row(State.ASSEMBLING, AssembleSuccess, when=is_usable, then=State.ENDORSEMENT_GATHERING, do=place_transition),
        Row(State.ASSEMBLING, AssembleSuccess, then=BACK, do=note_unusable),
        Row(State.ASSEMBLING, AssembleRevertResponse, then=State.REVERTED, do=keep_reason),
        Row(State.ASSEMBLING, AssembleParkResponse, then=State.FINAL),
        Row(
            State.ASSEMBLING,
            AssembleErrorResponse,
            when=was_refused_and_is_not_assembled_again,
            then=State.REVERTED,
            do=give_up_as_refused,
        ),
        Row(State.ASSEMBLING, AssembleErrorResponse, then=State.FINAL),
        Row(State.ASSEMBLING, AssembleTimeout, then=BACK),
        Row(State.ENDORSEMENT_GATHERING, Endorsed, then=NEXT),
        Row(
            State.ENDORSEMENT_GATHERING,
            EndorsedRejected,
            when=its_states_are_kept,
            then=State.POOLED,
            do=reset_dependents_and_leave_the_states,
        ),
        Row(
            State.ENDORSEMENT_GATHERING,
            EndorsedRejected,
            when=refused_too_often,
            then=State.REVERTED,
            do=give_up_with_reason,
        ),
        Row(State.ENDORSEMENT_GATHERING, EndorsedRejected, then=State.POOLED, do=reset_dependents_and_count),
        Row(State.BLOCKED, DependencyReady, then=NEXT),
        Row(
            State.PREASSEMBLY_BLOCKED,
            DependencyAssembled,
            when=nothing_else_awaited,
            then=State.POOLED,
            do=stop_waiting_for,
        ),
        Row(AWAITING_ASSEMBLY, DependencyAssembled, do=stop_waiting_for),
        Row(
            State.PREASSEMBLY_BLOCKED,
            DependencyReverted,
            when=nothing_else_awaited,
            then=State.POOLED,
            do=stop_waiting_for,
        ),
        Row(AWAITING_ASSEMBLY, DependencyReverted, do=stop_waiting_for),
        Row(State.READY_FOR_DISPATCH, DependencyReverted, when=is_being_dispatched),
        Row(
            RECALLABLE,
            DependencyReverted,
            when=its_makers_come_back,
            then=State.PREASSEMBLY_BLOCKED,
            do=wait_for_makers,
        ),
        Row(RECALLABLE, DependencyReverted, then=State.POOLED, do=give_up_transition),
        Row(State.CONFIRMING_DISPATCH, DispatchConfirmed, then=State.READY_FOR_DISPATCH),
        Row(State.CONFIRMING_DISPATCH, DispatchConfirmationRejected, when=lacks_states, do=ask_with_states),
        Row(State.CONFIRMING_DISPATCH, DispatchConfirmationRejected, then=State.FINAL, do=drop_for_good),
        Row(State.PREPARED, Issued, then=State.FINAL),
        Row(State.READY_FOR_DISPATCH, Collected, then=State.DISPATCHED),
        Row(State.DISPATCHED, NonceAllocated, do=note_nonce),
        Row(SENT, Submitted, then=State.SUBMITTED, do=note_submission),
        Row(UNDER_WAY, Confirmed, when=succeeded, then=State.CONFIRMED, do=settle),
        Row(State.PREPARED, Confirmed, when=succeeded, then=State.CONFIRMED),
        Row(UNDER_WAY, Confirmed, when=another_version_failed),
        Row(UNDER_WAY, Confirmed, when=lost_to_contention, then=State.POOLED, do=back_off),
        Row(UNDER_WAY, Confirmed, when=may_be_retried, then=State.POOLED, do=count_and_back_off),
        Row(UNDER_WAY, Confirmed, then=State.REVERTED, do=give_up_on_ledger),
        Row(State.CONFIRMED, ConfirmationUndone, when=was_our_version, then=State.SUBMITTED, do=watch_again),
        Row(State.CONFIRMED, ConfirmationUndone, then=State.FINAL),
        Row(HELD, RequestTimeoutInterval, do=note_request),
        Row(State.BLOCKED, StateTimeout, then=NEXT, do=start_state_timer),
        Row(ASSEMBLED, PermissionWithheld, then=State.POOLED, do=drop_for_good),
        Row(State.BLOCKED, StateTransition, do=start_state_timer),
        Row(KNOWN, StateTransition, do=stop_state_timer),
        Row(State.REVERTED, HeartbeatInterval, when=its_sender_may_ask, do=count_heartbeat),
        Row(ENDED, HeartbeatInterval, then=State.FINAL),
        Row(State.READY_FOR_DISPATCH, ValidityEnded, when=is_being_dispatched),
        Row(RECALLABLE, ValidityEnded, then=State.POOLED, do=reset_dependents),
        Row(State.PREPARED, Abandoned, then=State.FINAL),
        Row(UNDER_WAY, Abandoned, then=State.FINAL, do=drop_for_good),
    ),
    ignored=(
        Ignored(Received, (State.CONFIRMED, State.FINAL), "it has ended here; the coordinator answers for it"),
        *(
            Ignored(event, outside(UNASSEMBLED), "only the unassembled are selected")
            for event in (Selected, AssembleRequestSent)
        ),
        *(
            Ignored(event, outside(place), "a late answer changes nothing")
            for place, events in (
                (
                    State.ASSEMBLING,
                    (
                        AssembleSuccess,
                        AssembleRevertResponse,
                        AssembleParkResponse,
                        AssembleErrorResponse,
                        AssembleTimeout,
                    ),
                ),
                (State.ENDORSEMENT_GATHERING, (Endorsed, EndorsedRejected)),
                (State.CONFIRMING_DISPATCH, (DispatchConfirmed, DispatchConfirmationRejected)),
            )
            for event in events
        ),
        Ignored(DependencyReady, outside(State.BLOCKED), "only Blocked waits for it; others look when they get there"),
        Ignored(DependencyAssembled, outside(State.PREASSEMBLY_BLOCKED, State.ASSEMBLING), "it waits for no assembly"),
        Ignored(
            DependencyReverted,
            outside(State.PREASSEMBLY_BLOCKED, State.ASSEMBLING, RECALLABLE),
            "it depends on nothing yet, or only the ledger decides now",
        ),
        Ignored(Issued, outside(State.PREPARED), "its sender voids it, or it has its outcome, or it has ended here"),
        Ignored(Collected, outside(State.READY_FOR_DISPATCH), "collected once"),
        Ignored(NonceAllocated, outside(State.DISPATCHED), "it follows Collected"),
        Ignored(Submitted, outside(SENT), "it ended before the report"),
        Ignored(Confirmed, outside(HELD), "it has its outcome"),
        Ignored(ConfirmationUndone, outside(State.CONFIRMED), "nothing was confirmed here"),
        Ignored(
            RequestTimeoutInterval,
            outside(State.ASSEMBLING, State.ENDORSEMENT_GATHERING, State.CONFIRMING_DISPATCH, State.PREPARED),
            "no request is open",
        ),
        Ignored(StateTimeout, outside(State.BLOCKED), "only Blocked has this timer"),
        Ignored(PermissionWithheld, outside(State.BLOCKED, State.CONFIRMING_DISPATCH), "its permission is not awaited"),
        Ignored(StateTransition, (State.INITIAL,), "nothing leads back there"),
        Ignored(HeartbeatInterval, outside(ENDED), "it has not ended"),
        Ignored(
            ValidityEnded,
            outside(RECALLABLE),
            "no version is under way, or only the ledger decides now, or the issuing handles it",
        ),
        Ignored(Abandoned, (State.INITIAL, *ON_THE_WAY, GONE), "past the point of no return, or ended"),
    ),
    entry={State.PREPARED: enter_prepared, State.FINAL: forget},
)


class CoordinatorTransaction(HeldIntent):
    """One delegated intent."""

    table = TABLE

    def __init__(self, coordinator: CoordinatorBase, delegation: Delegation, order: int) -> None:
        refused_before = coordinator.refused_before.pop(delegation.intent.id, 0)
        super().__init__(coordinator.context, coordinator.quotas, delegation, order, refused_before)
        self.coordinator = coordinator

    def changed(self, previous: Enum) -> None:
        """On every change of state start the state's clock, record it in the history, and notify the coordinator."""
        context = self.coordinator.context
        self.since_ms = context.now_ms
        self.history.append((context.now_ms, self.state))
        if len(self.history) > context.config.history_max:
            del self.history[0]
        self.request_count = 0
        self.handle(StateTransition())
        self.coordinator.transaction_changed(self, cast(State, previous))
