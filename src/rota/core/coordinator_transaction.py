"""An intent at its coordinator: pooled → assembled → endorsed → permitted → dispatched.

Theory of operation. The coordinator holds each delegated intent in memory only; its sender stays
responsible for it and delegates it again when this node forgets it. An intent waits in the pool for its
sender's turn, is assembled by its sender on our snapshot, is endorsed with others in a round, and is
dispatched when its sender permits that very leaf and everything it stands on is dispatched too.
Ready_For_Dispatch is the point of no return: until then it may be dropped at any time, afterwards only
the ledger decides. Whatever is dropped after it made states first resets what stands on those states.
What the ledger says of an intent is heard in every state that is not final (protocol §4.2).
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, cast

from rota.core.events import LedgerStatus
from rota.core.events.coordinator_transaction import (
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
    NonceAllocated,
    Received,
    RequestTimeoutInterval,
    Selected,
    StateTimeout,
    StateTransition,
    Submitted,
    ValidityEnded,
)
from rota.core.machine import Event, Ignored, Machine, Row, Table, in_states
from rota.messages import Delegation, ErrorCode, TransactionReverted
from rota.types import IntentId, Leaf, NodeName, RequestId, Transition, node_of

if TYPE_CHECKING:
    from rota.core.coordinator import Coordinator
    from rota.core.rounds import Round


class State(Enum):
    """Where an intent is at its coordinator (seed 2)."""

    INITIAL = "Initial"
    POOLED = "Pooled"
    PREASSEMBLY_BLOCKED = "PreAssembly_Blocked"
    ASSEMBLING = "Assembling"
    ENDORSEMENT_GATHERING = "Endorsement_Gathering"
    BLOCKED = "Blocked"
    CONFIRMING_DISPATCH = "Confirming_Dispatch"
    READY_FOR_DISPATCH = "Ready_For_Dispatch"
    DISPATCHED = "Dispatched"
    SUBMITTED = "Submitted"
    CONFIRMED = "Confirmed"
    REVERTED = "Reverted"
    FINAL = "Final"


UNASSEMBLED = (State.POOLED, State.PREASSEMBLY_BLOCKED)
ASSEMBLED = (State.ENDORSEMENT_GATHERING, State.BLOCKED, State.CONFIRMING_DISPATCH)
UNDISPATCHED = (*UNASSEMBLED, State.ASSEMBLING, *ASSEMBLED)
ON_THE_WAY = (State.READY_FOR_DISPATCH, State.DISPATCHED, State.SUBMITTED)
UNDER_WAY = (*UNDISPATCHED, *ON_THE_WAY)
ENDED = (State.CONFIRMED, State.REVERTED)
GONE = (*ENDED, State.FINAL)


class CoordinatorTransaction(Machine):
    """One delegated intent."""

    def __init__(self, coordinator: Coordinator, delegation: Delegation, order: int) -> None:
        super().__init__()
        self.coordinator = coordinator
        self.order = order
        self.awaits_assembly = False
        self.was_assembled = False
        self.intent = delegation.intent
        self.sender: NodeName = node_of(delegation.intent.sender)
        self.number = delegation.number
        self.revert_count = delegation.revert_count
        self.refused_count = 0
        self.request_count = 0
        self.request_id: RequestId | None = None
        self.transition: Transition | None = None
        self.round: Round | None = None
        self.waits_for: tuple[IntentId, ...] = ()
        self.not_before_ms = 0
        self.unusable_count = 0
        self.goes_alone = False
        self.sends_states = False
        self.reason = ""
        self.since_ms = coordinator.context.now_ms

    @property
    def leaf(self) -> Leaf:
        """The leaf of the version that is under way."""
        assert self.transition is not None, "only an assembled transaction has a leaf"
        return self.transition.leaf

    @property
    def is_gone(self) -> bool:
        """It has ended here and only waits to be forgotten."""
        return self.state in GONE

    @property
    def is_flush_point(self) -> bool:
        """Past the point of no return and without an outcome (protocol §4.1)."""
        return self.state in ON_THE_WAY

    def changed(self, previous: Enum) -> None:
        """Every change of state starts the new state's clock and is told to the coordinator."""
        self.since_ms = self.coordinator.context.now_ms
        self.request_count = 0
        self.handle(StateTransition())
        self.coordinator.transaction_changed(self, cast(State, previous))


# Guards.


def awaits_others(transaction: CoordinatorTransaction, event: Received) -> bool:
    """an earlier intent of that sender awaits its first assembly"""
    transaction.waits_for = transaction.coordinator.unassembled_before(transaction)
    return bool(transaction.waits_for)


def is_usable(transaction: CoordinatorTransaction, event: AssembleSuccess) -> bool:
    """assembled on what still stands, and spends nothing that is locked"""
    return transaction.coordinator.slots.is_usable(event.transition)


def still_waits(transaction: CoordinatorTransaction, event: Event) -> bool:
    """something that it waits for is not assembled yet"""
    return bool(transaction.waits_for)


def nothing_else_awaited(transaction: CoordinatorTransaction, event: DependencyAssembled | DependencyReverted) -> bool:
    """it waited for nothing else"""
    return all(intent == event.dependency for intent in transaction.waits_for)


def its_makers_come_back(transaction: CoordinatorTransaction, event: DependencyReverted) -> bool:
    """what it stands on will be assembled again"""
    return bool(_makers_coming_back(transaction, event))


def is_undispatched_and_its_makers_come_back(transaction: CoordinatorTransaction, event: DependencyReverted) -> bool:
    """its round is not on its way to the disk, and what it stands on will be assembled again"""
    return is_undispatched(transaction, event) and its_makers_come_back(transaction, event)


def is_undispatched(transaction: CoordinatorTransaction, event: Event) -> bool:
    """its round is not on its way to the disk"""
    return transaction.coordinator.rounds.is_undispatched(transaction)


def dependencies_are_ready(transaction: CoordinatorTransaction, event: Event) -> bool:
    """all that it stands on, outside its round, is ready for dispatch"""
    return transaction.coordinator.rounds.dependencies_ready(transaction)


def refused_too_often(transaction: CoordinatorTransaction, event: EndorsedRejected) -> bool:
    """refused `endorse_retry_max` times on fresh snapshots"""
    return transaction.refused_count + 1 >= transaction.coordinator.context.config.endorse_retry_max


def lacks_states(transaction: CoordinatorTransaction, event: DispatchConfirmationRejected) -> bool:
    """the sender lost the states in a restart and asks for them"""
    return event.code is ErrorCode.STATES_MISSING


def sender_is_silent(transaction: CoordinatorTransaction, event: Event) -> bool:
    """its sender is silent"""
    return transaction.coordinator.observer.is_silent(transaction.sender)


def succeeded(transaction: CoordinatorTransaction, event: Confirmed) -> bool:
    """committed, in whatever version"""
    return event.outcome.status is LedgerStatus.COMMITTED


def another_version_failed(transaction: CoordinatorTransaction, event: Confirmed) -> bool:
    """a failure of a version that is not the one under way"""
    return transaction.transition is None or event.outcome.leaf != transaction.transition.leaf


def lost_to_contention(transaction: CoordinatorTransaction, event: Confirmed) -> bool:
    """skipped because somebody else was first: not counted"""
    return event.outcome.is_contention


def may_be_retried(transaction: CoordinatorTransaction, event: Confirmed) -> bool:
    """the domain says that it can be retried, at most `revert_retry_max` times"""
    retries_left = transaction.revert_count < transaction.coordinator.context.config.revert_retry_max
    return event.outcome.is_retryable and retries_left


def was_our_version(transaction: CoordinatorTransaction, event: ConfirmationUndone) -> bool:
    """the version that we dispatched"""
    return transaction.transition is not None and event.leaf == transaction.transition.leaf


# Actions, in the table's order.


def take_over_number(transaction: CoordinatorTransaction, event: Received) -> None:
    """Delegated again: take over the number and go on where it was; a lower number changes nothing."""
    if event.delegation.number > transaction.number:
        transaction.number = event.delegation.number
        transaction.revert_count = max(transaction.revert_count, event.delegation.revert_count)


def join_slot(transaction: CoordinatorTransaction, event: Selected) -> None:
    """Only the answer to this request counts."""
    transaction.request_id = event.request_id


def place_transition(transaction: CoordinatorTransaction, event: AssembleSuccess) -> None:
    """Lock what it spends, offer what it makes, and queue for a round; who waited for it may go."""
    transaction.number = max(transaction.number, event.number)
    transaction.transition = event.transition
    transaction.was_assembled = True
    transaction.waits_for = ()
    transaction.unusable_count = 0
    transaction.goes_alone = False
    transaction.coordinator.graph.place(event.transition)
    transaction.coordinator.rounds.await_round(transaction)
    transaction.coordinator.release_waiters(transaction, DependencyAssembled(transaction.intent.id))


def note_unusable(transaction: CoordinatorTransaction, event: AssembleSuccess) -> None:
    """What it was assembled on has gone meanwhile; its states must not be built upon.

    Once is an accident and is mended at once; if it goes on, it goes on more and more slowly.
    """
    transaction.coordinator.slots.refuse_states_of(event.transition.leaf)
    if transaction.unusable_count:
        _back_off(transaction, transaction.unusable_count)
    transaction.unusable_count += 1


def keep_reason(transaction: CoordinatorTransaction, event: AssembleRevertResponse) -> None:
    """The sender finalises it; we only name the reason until it is forgotten."""
    transaction.reason = event.reason


def stop_waiting_for(transaction: CoordinatorTransaction, event: DependencyAssembled | DependencyReverted) -> None:
    """One reason less to wait."""
    transaction.waits_for = tuple(intent for intent in transaction.waits_for if intent != event.dependency)


def give_up_transition(transaction: CoordinatorTransaction, event: Event) -> None:
    """Leave the round and the graph; what stands on it has been reset before."""
    if transaction.transition is not None:
        transaction.coordinator.rounds.leave(transaction)
        transaction.coordinator.graph.remove(transaction.leaf)
        transaction.transition = None


def wait_for_makers(transaction: CoordinatorTransaction, event: DependencyReverted) -> None:
    """Wait until what it stood on is assembled again."""
    transaction.waits_for = _makers_coming_back(transaction, event)
    transaction.coordinator.wait(transaction)
    give_up_transition(transaction, event)


def reset_dependents_and_count(transaction: CoordinatorTransaction, event: EndorsedRejected) -> None:
    """A refusal: to be assembled on a fresh snapshot."""
    transaction.refused_count += 1
    transaction.reason = event.reason
    _drop_transition(transaction, comes_back=True)


def reset_dependents(transaction: CoordinatorTransaction, event: Event) -> None:
    """To be assembled again; what stands on it goes first and waits for it."""
    _drop_transition(transaction, comes_back=True)


def give_up_with_reason(transaction: CoordinatorTransaction, event: EndorsedRejected) -> None:
    """Back to its sender, who finalises it with the reason."""
    _tell_reverted(transaction, event.reason)
    _drop_transition(transaction, comes_back=False)


def drop_for_good(transaction: CoordinatorTransaction, event: Event) -> None:
    """It leaves this coordinator; what stands on it is reset first."""
    _drop_transition(transaction, comes_back=False)


def ask_with_states(transaction: CoordinatorTransaction, event: DispatchConfirmationRejected) -> None:
    """The request is repeated with the states."""
    transaction.coordinator.rounds.ask_permission_with_states(transaction)


def note_request(transaction: CoordinatorTransaction, event: Event) -> None:
    """For `explain`: how often it was asked."""
    transaction.request_count += 1


def settle(transaction: CoordinatorTransaction, event: Confirmed) -> None:
    """On the chain: what it made is no longer speculative. Another version voids ours and what stands on it."""
    if transaction.transition is None:
        return
    if event.outcome.leaf == transaction.leaf:
        transaction.coordinator.rounds.settle(transaction)
        transaction.coordinator.graph.remove(transaction.leaf)
    else:
        _drop_transition(transaction, comes_back=False)


def count_and_back_off(transaction: CoordinatorTransaction, event: Confirmed) -> None:
    """A failure that may be retried, later each time."""
    _back_off(transaction, transaction.revert_count)
    transaction.revert_count += 1
    transaction.reason = event.outcome.reason
    _drop_transition(transaction, comes_back=True)


def back_off(transaction: CoordinatorTransaction, event: Confirmed) -> None:
    """Contention: assemble anew on what is there now."""
    transaction.reason = event.outcome.reason
    _drop_transition(transaction, comes_back=True)


def give_up_on_ledger(transaction: CoordinatorTransaction, event: Confirmed) -> None:
    """No retry is left: its sender finalises it with the ledger's reason."""
    _tell_reverted(transaction, event.outcome.reason)
    _drop_transition(transaction, comes_back=False)


def watch_again(transaction: CoordinatorTransaction, event: ConfirmationUndone) -> None:
    """Its block is gone: it is under way again, and what was assembled on its states is reset."""
    assert transaction.transition is not None
    transaction.coordinator.graph.place(transaction.transition)
    transaction.coordinator.reset_users_of(transaction.leaf, frozenset())


def start_state_timer(transaction: CoordinatorTransaction, event: Event) -> None:
    """Every waiting state has a timer (protocol §4.2)."""
    context = transaction.coordinator.context
    due_ms = context.after(context.config.state_timeout_ms)
    context.timers.set(transaction, "state", due_ms, StateTimeout())


def stop_state_timer(transaction: CoordinatorTransaction, event: Event) -> None:
    """Nothing of ours is awaited in this state."""
    transaction.coordinator.context.timers.cancel(transaction, "state")


def forget(transaction: CoordinatorTransaction) -> None:
    """Final: it leaves the memory; who waited for it may go."""
    transaction.coordinator.forget(transaction)


def _makers_coming_back(transaction: CoordinatorTransaction, event: DependencyReverted) -> tuple[IntentId, ...]:
    makers = transaction.coordinator.graph.dependencies(transaction.leaf)
    return tuple(placed.intent for placed in makers if placed.intent in event.coming_back)


def _drop_transition(transaction: CoordinatorTransaction, comes_back: bool) -> None:
    """Reset: first everything that stands on its states, last to first, then its own locks and states."""
    if transaction.transition is None:
        return
    itself = frozenset({transaction.intent.id} if comes_back else ())
    transaction.coordinator.reset_users_of(transaction.leaf, itself)
    give_up_transition(transaction, StateTransition())


def _back_off(transaction: CoordinatorTransaction, attempt: int) -> None:
    context = transaction.coordinator.context
    config = context.config
    delay_ms = context.backoff_ms(attempt, config.retry_backoff_ms, config.retry_backoff_max_ms)
    transaction.not_before_ms = context.after(delay_ms)
    transaction.coordinator.slots.look_again_at(transaction.not_before_ms)


def _tell_reverted(transaction: CoordinatorTransaction, reason: str) -> None:
    transaction.reason = reason
    transaction.coordinator.context.send(
        transaction.sender, TransactionReverted(transaction.intent.id, transaction.number, transaction.leaf, reason)
    )


CoordinatorTransaction.table = Table(
    name="Coordinator's transaction",
    initial=State.INITIAL,
    events=(
        Received,
        Selected,
        AssembleRequestSent,
        AssembleSuccess,
        AssembleRevertResponse,
        AssembleParkResponse,
        AssembleErrorResponse,
        AssembleTimeout,
        Endorsed,
        EndorsedRejected,
        DependencyReady,
        DependencyAssembled,
        DependencyReverted,
        DispatchConfirmed,
        DispatchConfirmationRejected,
        Collected,
        NonceAllocated,
        Submitted,
        Confirmed,
        ConfirmationUndone,
        RequestTimeoutInterval,
        StateTimeout,
        StateTransition,
        HeartbeatInterval,
        ValidityEnded,
        Abandoned,
    ),
    rows=(
        Row(State.INITIAL, Received, when=awaits_others, then=State.PREASSEMBLY_BLOCKED),
        Row(State.INITIAL, Received, then=State.POOLED),
        *in_states(UNDER_WAY, Received, do=take_over_number),
        *in_states(UNASSEMBLED, Selected, do=join_slot),
        *in_states(UNASSEMBLED, AssembleRequestSent, then=State.ASSEMBLING),
        Row(State.ASSEMBLING, AssembleSuccess, when=is_usable, then=State.ENDORSEMENT_GATHERING, do=place_transition),
        Row(State.ASSEMBLING, AssembleSuccess, when=still_waits, then=State.PREASSEMBLY_BLOCKED, do=note_unusable),
        Row(State.ASSEMBLING, AssembleSuccess, then=State.POOLED, do=note_unusable),
        Row(State.ASSEMBLING, AssembleRevertResponse, then=State.REVERTED, do=keep_reason),
        Row(State.ASSEMBLING, AssembleParkResponse, then=State.FINAL),
        Row(State.ASSEMBLING, AssembleErrorResponse, then=State.FINAL),
        Row(State.ASSEMBLING, AssembleTimeout, when=still_waits, then=State.PREASSEMBLY_BLOCKED),
        Row(State.ASSEMBLING, AssembleTimeout, then=State.POOLED),
        Row(State.ENDORSEMENT_GATHERING, Endorsed, when=dependencies_are_ready, then=State.CONFIRMING_DISPATCH),
        Row(State.ENDORSEMENT_GATHERING, Endorsed, then=State.BLOCKED),
        Row(
            State.ENDORSEMENT_GATHERING,
            EndorsedRejected,
            when=refused_too_often,
            then=State.REVERTED,
            do=give_up_with_reason,
        ),
        Row(State.ENDORSEMENT_GATHERING, EndorsedRejected, then=State.POOLED, do=reset_dependents_and_count),
        Row(State.BLOCKED, DependencyReady, when=dependencies_are_ready, then=State.CONFIRMING_DISPATCH),
        Row(
            State.PREASSEMBLY_BLOCKED,
            DependencyAssembled,
            when=nothing_else_awaited,
            then=State.POOLED,
            do=stop_waiting_for,
        ),
        *in_states((State.PREASSEMBLY_BLOCKED, State.ASSEMBLING), DependencyAssembled, do=stop_waiting_for),
        Row(
            State.PREASSEMBLY_BLOCKED,
            DependencyReverted,
            when=nothing_else_awaited,
            then=State.POOLED,
            do=stop_waiting_for,
        ),
        *in_states((State.PREASSEMBLY_BLOCKED, State.ASSEMBLING), DependencyReverted, do=stop_waiting_for),
        *in_states(
            ASSEMBLED, DependencyReverted, when=its_makers_come_back, then=State.PREASSEMBLY_BLOCKED, do=wait_for_makers
        ),
        *in_states(ASSEMBLED, DependencyReverted, then=State.POOLED, do=give_up_transition),
        Row(
            State.READY_FOR_DISPATCH,
            DependencyReverted,
            when=is_undispatched_and_its_makers_come_back,
            then=State.PREASSEMBLY_BLOCKED,
            do=wait_for_makers,
        ),
        Row(
            State.READY_FOR_DISPATCH, DependencyReverted, when=is_undispatched, then=State.POOLED, do=give_up_transition
        ),
        Row(State.CONFIRMING_DISPATCH, DispatchConfirmed, then=State.READY_FOR_DISPATCH),
        Row(State.CONFIRMING_DISPATCH, DispatchConfirmationRejected, when=lacks_states, do=ask_with_states),
        Row(State.CONFIRMING_DISPATCH, DispatchConfirmationRejected, then=State.FINAL, do=drop_for_good),
        Row(State.READY_FOR_DISPATCH, Collected, then=State.DISPATCHED),
        Row(State.DISPATCHED, NonceAllocated, do=note_request),
        *in_states((State.DISPATCHED, State.SUBMITTED), Submitted, then=State.SUBMITTED, do=note_request),
        *in_states(UNDER_WAY, Confirmed, when=succeeded, then=State.CONFIRMED, do=settle),
        *in_states(UNDER_WAY, Confirmed, when=another_version_failed),
        *in_states(UNDER_WAY, Confirmed, when=lost_to_contention, then=State.POOLED, do=back_off),
        *in_states(UNDER_WAY, Confirmed, when=may_be_retried, then=State.POOLED, do=count_and_back_off),
        *in_states(UNDER_WAY, Confirmed, then=State.REVERTED, do=give_up_on_ledger),
        Row(State.CONFIRMED, ConfirmationUndone, when=was_our_version, then=State.SUBMITTED, do=watch_again),
        Row(State.CONFIRMED, ConfirmationUndone, then=State.FINAL),
        *in_states(
            (State.ASSEMBLING, State.ENDORSEMENT_GATHERING, State.CONFIRMING_DISPATCH),
            RequestTimeoutInterval,
            do=note_request,
        ),
        Row(State.BLOCKED, StateTimeout, when=dependencies_are_ready, then=State.CONFIRMING_DISPATCH),
        Row(State.CONFIRMING_DISPATCH, StateTimeout, when=sender_is_silent, then=State.POOLED, do=reset_dependents),
        *in_states((State.BLOCKED, State.CONFIRMING_DISPATCH), StateTimeout, do=start_state_timer),
        *in_states(ASSEMBLED, StateTransition, do=start_state_timer),
        *in_states((*UNASSEMBLED, State.ASSEMBLING, *ON_THE_WAY, *GONE), StateTransition, do=stop_state_timer),
        *in_states(ENDED, HeartbeatInterval, then=State.FINAL),
        *in_states(ASSEMBLED, ValidityEnded, then=State.POOLED, do=reset_dependents),
        Row(State.READY_FOR_DISPATCH, ValidityEnded, when=is_undispatched, then=State.POOLED, do=reset_dependents),
        *in_states(UNDISPATCHED, Abandoned, then=State.FINAL, do=drop_for_good),
    ),
    ignored=(
        Ignored(Received, GONE, "it has ended here; the coordinator answers for it"),
        Ignored(
            Selected,
            (State.INITIAL, State.ASSEMBLING, *ASSEMBLED, *ON_THE_WAY, *GONE),
            "only the unassembled are selected",
        ),
        Ignored(
            AssembleRequestSent,
            (State.INITIAL, State.ASSEMBLING, *ASSEMBLED, *ON_THE_WAY, *GONE),
            "only the unassembled are selected",
        ),
        *(
            Ignored(
                event, (State.INITIAL, *UNASSEMBLED, *ASSEMBLED, *ON_THE_WAY, *GONE), "a late answer changes nothing"
            )
            for event in (
                AssembleSuccess,
                AssembleRevertResponse,
                AssembleParkResponse,
                AssembleErrorResponse,
                AssembleTimeout,
            )
        ),
        *(
            Ignored(
                event,
                (
                    State.INITIAL,
                    *UNASSEMBLED,
                    State.ASSEMBLING,
                    State.BLOCKED,
                    State.CONFIRMING_DISPATCH,
                    *ON_THE_WAY,
                    *GONE,
                ),
                "a late answer changes nothing",
            )
            for event in (Endorsed, EndorsedRejected)
        ),
        Ignored(
            DependencyReady,
            (
                State.INITIAL,
                *UNASSEMBLED,
                State.ASSEMBLING,
                State.ENDORSEMENT_GATHERING,
                State.CONFIRMING_DISPATCH,
                *ON_THE_WAY,
                *GONE,
            ),
            "only Blocked waits for it; others look when they get there",
        ),
        Ignored(
            DependencyAssembled,
            (State.INITIAL, State.POOLED, *ASSEMBLED, *ON_THE_WAY, *GONE),
            "it waits for nobody's assembly",
        ),
        Ignored(
            DependencyReverted,
            (State.INITIAL, State.POOLED, State.DISPATCHED, State.SUBMITTED, *GONE),
            "it stands on nothing yet, or only the ledger decides now",
        ),
        *(
            Ignored(
                event,
                (
                    State.INITIAL,
                    *UNASSEMBLED,
                    State.ASSEMBLING,
                    State.ENDORSEMENT_GATHERING,
                    State.BLOCKED,
                    *ON_THE_WAY,
                    *GONE,
                ),
                "a late answer changes nothing",
            )
            for event in (DispatchConfirmed, DispatchConfirmationRejected)
        ),
        Ignored(Collected, (State.INITIAL, *UNDISPATCHED, State.DISPATCHED, State.SUBMITTED, *GONE), "collected once"),
        Ignored(
            NonceAllocated,
            (State.INITIAL, *UNDISPATCHED, State.READY_FOR_DISPATCH, State.SUBMITTED, *GONE),
            "it follows Collected",
        ),
        Ignored(
            Submitted, (State.INITIAL, *UNDISPATCHED, State.READY_FOR_DISPATCH, *GONE), "it ended before it was told"
        ),
        Ignored(Confirmed, (State.INITIAL, *GONE), "it has its outcome"),
        Ignored(
            ConfirmationUndone, (State.INITIAL, *UNDER_WAY, State.REVERTED, State.FINAL), "nothing was confirmed here"
        ),
        Ignored(
            RequestTimeoutInterval,
            (State.INITIAL, *UNASSEMBLED, State.BLOCKED, *ON_THE_WAY, *GONE),
            "no request is open",
        ),
        Ignored(
            StateTimeout,
            (State.INITIAL, *UNASSEMBLED, State.ASSEMBLING, State.ENDORSEMENT_GATHERING, *ON_THE_WAY, *GONE),
            "the rounds ask the missing again; the rest waits for its turn or for the ledger",
        ),
        Ignored(StateTransition, (State.INITIAL,), "nothing leads back there"),
        Ignored(HeartbeatInterval, (State.INITIAL, *UNDER_WAY, State.FINAL), "it has not ended"),
        Ignored(
            ValidityEnded,
            (State.INITIAL, *UNASSEMBLED, State.ASSEMBLING, State.DISPATCHED, State.SUBMITTED, *GONE),
            "no version is under way, or only the ledger decides now",
        ),
        Ignored(Abandoned, (State.INITIAL, *ON_THE_WAY, *GONE), "past the point of no return, or ended"),
    ),
    entry={State.FINAL: forget},
)
