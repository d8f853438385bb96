"""An intent at its coordinator: pooled → assembled → endorsed → permitted → dispatched.

Theory of operation. The coordinator holds each delegated intent in memory only; its sender stays
responsible for it and delegates it again when this node forgets it. An intent waits in the pool for its
sender's turn, is assembled by its sender on our snapshot, is endorsed with others in a round, and is
dispatched when its sender permits that very leaf and everything it stands on is dispatched too.
Ready_For_Dispatch is the point of no return: until then it may be dropped at any time, afterwards only
the ledger decides. Whatever is dropped after it made states first resets what stands on those states.
What the ledger says of an intent is heard in every state that is not final (protocol §4.2). An intent that
its sender voids begins anew in the pool, and is not waited for nor waits for others. An external intent is not
dispatched: once it is endorsed and what it stands on is dispatched it is Prepared, stored here and sent to its
sender until that acknowledges it (`issuing.py`).
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, cast

from rota.machine.tables import Ignored, Machine, Row, Table, in_states
from rota.model.types import NO_ATTESTERS, Attesters, Digest, IntentId, Leaf, NodeName, RequestId, Transition, node_of
from rota.sequencer.events.coordinator_transaction import (
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
from rota.wire.messages import Delegation, HandedRound, TransactionReverted

if TYPE_CHECKING:
    from rota.sequencer.coordinator import Coordinator
    from rota.sequencer.round import Round


from rota.sequencer.rules import coordinator_transaction as rules
from rota.sequencer.states.coordinator_transaction import (
    ASSEMBLED,
    ENDED,
    ENDORSED,
    GONE,
    ON_THE_WAY,
    UNASSEMBLED,
    UNBLOCKED,
    UNDER_WAY,
    UNDISPATCHED,
    State,
)

TABLE = Table(
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
        PermissionWithheld,
        Issued,
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
        Row(
            State.INITIAL,
            Received,
            when=rules.awaits_others,
            then=State.PREASSEMBLY_BLOCKED,
            do=rules.go_on_backing_off,
        ),
        Row(State.INITIAL, Received, then=State.POOLED, do=rules.go_on_backing_off),
        *in_states(UNASSEMBLED, Received, when=rules.is_to_be_voided, then=State.POOLED, do=rules.begin_voiding),
        Row(State.ASSEMBLING, Received, when=rules.is_to_be_voided, do=rules.begin_voiding),
        *in_states(
            ASSEMBLED, Received, when=rules.is_to_be_voided, then=State.POOLED, do=rules.drop_version_and_begin_voiding
        ),
        Row(State.REVERTED, Received, when=rules.is_to_be_voided, then=State.POOLED, do=rules.begin_voiding),
        Row(
            State.PREPARED, Received, when=rules.is_to_be_voided, then=State.POOLED, do=rules.leave_it_and_begin_voiding
        ),
        *in_states((*UNDER_WAY, State.PREPARED), Received, do=rules.take_over_number),
        *in_states(UNASSEMBLED, Selected, do=rules.join_slot),
        *in_states(UNASSEMBLED, AssembleRequestSent, then=State.ASSEMBLING),
        Row(
            State.ASSEMBLING,
            AssembleSuccess,
            when=rules.is_usable,
            then=State.ENDORSEMENT_GATHERING,
            do=rules.place_transition,
        ),
        Row(
            State.ASSEMBLING,
            AssembleSuccess,
            when=rules.still_waits,
            then=State.PREASSEMBLY_BLOCKED,
            do=rules.note_unusable,
        ),
        Row(State.ASSEMBLING, AssembleSuccess, then=State.POOLED, do=rules.note_unusable),
        Row(State.ASSEMBLING, AssembleRevertResponse, then=State.REVERTED, do=rules.keep_reason),
        Row(State.ASSEMBLING, AssembleParkResponse, then=State.FINAL),
        Row(
            State.ASSEMBLING,
            AssembleErrorResponse,
            when=rules.was_refused_and_is_not_assembled_again,
            then=State.REVERTED,
            do=rules.give_up_as_refused,
        ),
        Row(State.ASSEMBLING, AssembleErrorResponse, then=State.FINAL),
        Row(State.ASSEMBLING, AssembleTimeout, when=rules.still_waits, then=State.PREASSEMBLY_BLOCKED),
        Row(State.ASSEMBLING, AssembleTimeout, then=State.POOLED),
        Row(State.ENDORSEMENT_GATHERING, Endorsed, when=rules.may_be_prepared, then=State.PREPARED),
        Row(State.ENDORSEMENT_GATHERING, Endorsed, when=rules.dependencies_are_ready, then=State.CONFIRMING_DISPATCH),
        Row(State.ENDORSEMENT_GATHERING, Endorsed, then=State.BLOCKED),
        Row(
            State.ENDORSEMENT_GATHERING,
            EndorsedRejected,
            when=rules.its_states_are_kept,
            then=State.POOLED,
            do=rules.reset_dependents_and_leave_the_states,
        ),
        Row(
            State.ENDORSEMENT_GATHERING,
            EndorsedRejected,
            when=rules.refused_too_often,
            then=State.REVERTED,
            do=rules.give_up_with_reason,
        ),
        Row(State.ENDORSEMENT_GATHERING, EndorsedRejected, then=State.POOLED, do=rules.reset_dependents_and_count),
        Row(State.BLOCKED, DependencyReady, when=rules.may_be_prepared, then=State.PREPARED),
        Row(State.BLOCKED, DependencyReady, when=rules.dependencies_are_ready, then=State.CONFIRMING_DISPATCH),
        Row(
            State.PREASSEMBLY_BLOCKED,
            DependencyAssembled,
            when=rules.nothing_else_awaited,
            then=State.POOLED,
            do=rules.stop_waiting_for,
        ),
        *in_states((State.PREASSEMBLY_BLOCKED, State.ASSEMBLING), DependencyAssembled, do=rules.stop_waiting_for),
        Row(
            State.PREASSEMBLY_BLOCKED,
            DependencyReverted,
            when=rules.nothing_else_awaited,
            then=State.POOLED,
            do=rules.stop_waiting_for,
        ),
        *in_states((State.PREASSEMBLY_BLOCKED, State.ASSEMBLING), DependencyReverted, do=rules.stop_waiting_for),
        *in_states(
            ASSEMBLED,
            DependencyReverted,
            when=rules.its_makers_come_back,
            then=State.PREASSEMBLY_BLOCKED,
            do=rules.wait_for_makers,
        ),
        *in_states(ASSEMBLED, DependencyReverted, then=State.POOLED, do=rules.give_up_transition),
        Row(
            State.READY_FOR_DISPATCH,
            DependencyReverted,
            when=rules.is_undispatched_and_its_makers_come_back,
            then=State.PREASSEMBLY_BLOCKED,
            do=rules.wait_for_makers,
        ),
        Row(
            State.READY_FOR_DISPATCH,
            DependencyReverted,
            when=rules.is_undispatched,
            then=State.POOLED,
            do=rules.give_up_transition,
        ),
        Row(State.CONFIRMING_DISPATCH, DispatchConfirmed, then=State.READY_FOR_DISPATCH),
        Row(State.CONFIRMING_DISPATCH, DispatchConfirmationRejected, when=rules.lacks_states, do=rules.ask_with_states),
        Row(State.CONFIRMING_DISPATCH, DispatchConfirmationRejected, then=State.FINAL, do=rules.drop_for_good),
        Row(State.PREPARED, Issued, then=State.FINAL),
        Row(State.READY_FOR_DISPATCH, Collected, then=State.DISPATCHED),
        Row(State.DISPATCHED, NonceAllocated, do=rules.note_nonce),
        *in_states((State.DISPATCHED, State.SUBMITTED), Submitted, then=State.SUBMITTED, do=rules.note_submission),
        *in_states(UNDER_WAY, Confirmed, when=rules.succeeded, then=State.CONFIRMED, do=rules.settle),
        Row(State.PREPARED, Confirmed, when=rules.succeeded, then=State.CONFIRMED),
        *in_states(UNDER_WAY, Confirmed, when=rules.another_version_failed),
        *in_states(UNDER_WAY, Confirmed, when=rules.lost_to_contention, then=State.POOLED, do=rules.back_off),
        *in_states(UNDER_WAY, Confirmed, when=rules.may_be_retried, then=State.POOLED, do=rules.count_and_back_off),
        *in_states(UNDER_WAY, Confirmed, then=State.REVERTED, do=rules.give_up_on_ledger),
        Row(
            State.CONFIRMED, ConfirmationUndone, when=rules.was_our_version, then=State.SUBMITTED, do=rules.watch_again
        ),
        Row(State.CONFIRMED, ConfirmationUndone, then=State.FINAL),
        *in_states(
            (State.ASSEMBLING, State.ENDORSEMENT_GATHERING, State.CONFIRMING_DISPATCH, State.PREPARED),
            RequestTimeoutInterval,
            do=rules.note_request,
        ),
        Row(State.BLOCKED, StateTimeout, when=rules.may_be_prepared, then=State.PREPARED),
        Row(State.BLOCKED, StateTimeout, when=rules.dependencies_are_ready, then=State.CONFIRMING_DISPATCH),
        *in_states(
            (State.BLOCKED, State.CONFIRMING_DISPATCH), PermissionWithheld, then=State.POOLED, do=rules.drop_for_good
        ),
        Row(State.BLOCKED, StateTimeout, do=rules.start_state_timer),
        Row(State.BLOCKED, StateTransition, do=rules.start_state_timer),
        *in_states(UNBLOCKED, StateTransition, do=rules.stop_state_timer),
        Row(State.REVERTED, HeartbeatInterval, when=rules.its_sender_may_ask, do=rules.count_heartbeat),
        *in_states(ENDED, HeartbeatInterval, then=State.FINAL),
        *in_states(ASSEMBLED, ValidityEnded, then=State.POOLED, do=rules.reset_dependents),
        Row(
            State.READY_FOR_DISPATCH,
            ValidityEnded,
            when=rules.is_undispatched,
            then=State.POOLED,
            do=rules.reset_dependents,
        ),
        *in_states(UNDISPATCHED, Abandoned, then=State.FINAL, do=rules.drop_for_good),
        Row(State.PREPARED, Abandoned, then=State.FINAL),
    ),
    ignored=(
        Ignored(Received, (State.CONFIRMED, State.FINAL), "it has ended here; the coordinator answers for it"),
        Ignored(
            Selected,
            (State.INITIAL, State.ASSEMBLING, *ASSEMBLED, *ENDORSED, *GONE),
            "only the unassembled are selected",
        ),
        Ignored(
            AssembleRequestSent,
            (State.INITIAL, State.ASSEMBLING, *ASSEMBLED, *ENDORSED, *GONE),
            "only the unassembled are selected",
        ),
        *(
            Ignored(event, (State.INITIAL, *UNASSEMBLED, *ASSEMBLED, *ENDORSED, *GONE), "a late answer changes nothing")
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
                    *ENDORSED,
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
                *ENDORSED,
                *GONE,
            ),
            "only Blocked waits for it; others look when they get there",
        ),
        Ignored(
            DependencyAssembled,
            (State.INITIAL, State.POOLED, *ASSEMBLED, *ENDORSED, *GONE),
            "it waits for nobody's assembly",
        ),
        Ignored(
            DependencyReverted,
            (State.INITIAL, State.POOLED, State.PREPARED, State.DISPATCHED, State.SUBMITTED, *GONE),
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
                    *ENDORSED,
                    *GONE,
                ),
                "a late answer changes nothing",
            )
            for event in (DispatchConfirmed, DispatchConfirmationRejected)
        ),
        Ignored(
            Issued,
            (State.INITIAL, *UNDISPATCHED, *ON_THE_WAY, *GONE),
            "its sender voids it, or it has its outcome, or it has ended here",
        ),
        Ignored(
            Collected,
            (State.INITIAL, *UNDISPATCHED, State.PREPARED, State.DISPATCHED, State.SUBMITTED, *GONE),
            "collected once",
        ),
        Ignored(
            NonceAllocated,
            (State.INITIAL, *UNDISPATCHED, State.PREPARED, State.READY_FOR_DISPATCH, State.SUBMITTED, *GONE),
            "it follows Collected",
        ),
        Ignored(
            Submitted,
            (State.INITIAL, *UNDISPATCHED, State.PREPARED, State.READY_FOR_DISPATCH, *GONE),
            "it ended before it was told",
        ),
        Ignored(Confirmed, (State.INITIAL, *GONE), "it has its outcome"),
        Ignored(
            ConfirmationUndone,
            (State.INITIAL, *UNDER_WAY, State.PREPARED, State.REVERTED, State.FINAL),
            "nothing was confirmed here",
        ),
        Ignored(
            RequestTimeoutInterval,
            (State.INITIAL, *UNASSEMBLED, State.BLOCKED, *ON_THE_WAY, *GONE),
            "no request is open",
        ),
        Ignored(StateTimeout, (State.INITIAL, *UNBLOCKED), "only Blocked has this timer"),
        Ignored(
            PermissionWithheld,
            (State.INITIAL, *UNASSEMBLED, State.ASSEMBLING, State.ENDORSEMENT_GATHERING, *ENDORSED, *GONE),
            "its permission is not awaited",
        ),
        Ignored(StateTransition, (State.INITIAL,), "nothing leads back there"),
        Ignored(HeartbeatInterval, (State.INITIAL, *UNDER_WAY, State.PREPARED, State.FINAL), "it has not ended"),
        Ignored(
            ValidityEnded,
            (State.INITIAL, *UNASSEMBLED, State.ASSEMBLING, State.PREPARED, State.DISPATCHED, State.SUBMITTED, *GONE),
            "no version is under way, or only the ledger decides now, or the issuing sees to it",
        ),
        Ignored(Abandoned, (State.INITIAL, *ON_THE_WAY, *GONE), "past the point of no return, or ended"),
    ),
    entry={State.PREPARED: rules.enter_prepared, State.FINAL: rules.forget},
)


class CoordinatorTransaction(Machine):
    """One delegated intent."""

    table = TABLE

    def __init__(self, coordinator: Coordinator, delegation: Delegation, order: int) -> None:
        super().__init__()
        self.coordinator = coordinator
        self.order = order
        self.awaits_assembly = False
        self.was_assembled = False
        self.intent = delegation.intent.as_delegated()
        self.sender: NodeName = node_of(delegation.intent.sender)
        self.number = delegation.number
        self.is_voiding = delegation.is_voiding
        self.revert_count = delegation.revert_count
        refused_before = coordinator.refused_before.pop(delegation.intent.id, 0)
        self.refused_count = 0 if delegation.is_voiding else refused_before
        self.request_count = 0
        self.submission_count = 0
        self.signer_and_nonce: tuple[str, int] | None = None
        self.request_id: RequestId | None = None
        self.transition: Transition | None = None
        self.attesters = NO_ATTESTERS
        self.size_bytes = 0
        self.seen_by: dict[NodeName, None] = {}
        self.round: Round | None = None
        self.digest: Digest | None = None
        # The round of that digest, to be shown to a successor.
        self.endorsed: HandedRound | None = None
        self.waits_for: tuple[IntentId, ...] = ()
        self.not_before_ms = 0
        self.unusable_count = 0
        # What its sender is told when it is given up for the refusals of its last version.
        self.refused: TransactionReverted | None = None
        self.kept_away_count = 0
        self.contended_count = 0
        self.whole_revert_count = 0
        # How many outcomes our index had noted when the version under way was placed, and what it stands on.
        self.placed_at = 0
        self.makers: tuple[tuple[IntentId, Leaf], ...] = ()
        self.told_count = 0
        # How often which endorser failed to judge the version under way: a fault of the endorser, or of the transition.
        self.unjudged_by: dict[NodeName, int] = {}
        self.reverted: TransactionReverted | None = None
        self.goes_alone = False
        self.is_apart = False
        self.sends_states = False
        self.is_counted = False
        self.reason = ""
        self.since_ms = coordinator.context.now_ms
        self.history: list[tuple[int, Enum]] = []

    def hold(self, transition: Transition, size_bytes: int, attesters: Attesters = NO_ATTESTERS) -> None:
        """A version is under way; it counts against its sender's shares of memory and of assembled transitions."""
        self.let_go()
        self.transition, self.size_bytes, self.attesters = transition, size_bytes, attesters
        self.coordinator.quotas.held_bytes.take(self.sender, size_bytes)
        self.count_as_assembled(True)

    def let_go(self) -> None:
        """No version is under way."""
        if self.transition is not None:
            self.coordinator.quotas.held_bytes.give_back(self.sender, self.size_bytes)
        self.transition, self.size_bytes, self.attesters = None, 0, NO_ATTESTERS
        self.count_as_assembled(False)

    def count_as_assembled(self, is_counted: bool) -> None:
        """Whether its locks and states are in snapshots, of which its sender has a share."""
        if is_counted and not self.is_counted:
            self.coordinator.quotas.assembled.take(self.sender, 1)
        elif self.is_counted and not is_counted:
            self.coordinator.quotas.assembled.give_back(self.sender, 1)
        self.is_counted = is_counted

    @property
    def made(self) -> Transition:
        """The version that is under way."""
        assert self.transition is not None, "only an assembled transaction has a transition"
        return self.transition

    @property
    def leaf(self) -> Leaf:
        """The leaf of the version that is under way."""
        assert self.transition is not None, "only an assembled transaction has a leaf"
        return self.transition.leaf

    @property
    def is_external(self) -> bool:
        """The version under way is for its user to have committed; an empty one is dispatched like any other."""
        version = self.transition
        return self.intent.is_external and version is not None and not version.is_empty

    @property
    def is_unapproved(self) -> bool:
        """Endorsers that its plan names have not approved the version under way."""
        return bool(self.attesters.endorsers) and (self.round is None or self.round.is_approving)

    @property
    def is_gone(self) -> bool:
        """It has ended here and only waits to be forgotten."""
        return self.state in GONE

    @property
    def is_flush_point(self) -> bool:
        """Past the point of no return and without an outcome (protocol §4.1)."""
        return self.state in ON_THE_WAY

    def changed(self, previous: Enum) -> None:
        """Every change of state starts the new state's clock, is remembered, and is told to the coordinator."""
        context = self.coordinator.context
        self.since_ms = context.now_ms
        self.history.append((context.now_ms, self.state))
        if len(self.history) > context.config.history_max:
            del self.history[0]
        self.request_count = 0
        self.handle(StateTransition())
        self.coordinator.transaction_changed(self, cast(State, previous))
