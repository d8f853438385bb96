"""An intent at its sender: accepted → delegated → permitted → final.

Theory of operation. The sender persisted the intent before its user got the id, and stays responsible
until its own chain index says how it ended. Until then somebody must coordinate it: Pending means that
nobody does, as far as we know, and the sender machine looks for somebody. The coordinator asks us to
assemble (we sign the leaf with the answer) and later for permission to dispatch that very leaf. We give
one permission per delegation number, to the current delegate only, and persist it before it leaves: from
then on a base-ledger transaction may exist, and the intent is held for its submitter. Messages only make
us faster; what counts is the chain. A revert is reported only when no version can happen any more: until
then the intent is Ending (protocol §4.3).
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from rota.core.events.sender_transaction import (
    AssembleAndSignSuccess,
    Assembled,
    AssembleError,
    AssemblePark,
    AssembleRequestReceived,
    AssembleRevert,
    CancelDurable,
    CancelNotWritten,
    CancelRequested,
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
    HoldExpired,
    NonceAssigned,
    ParkDurable,
    ParkNotWritten,
    PartyResolved,
    PermissionDurable,
    PermissionNotWritten,
    ReceiptDurable,
    ReceiptNotWritten,
    Resumed,
    ResumeDurable,
    ResumeFailed,
    RetryDue,
    SignatureVerified,
    Submitted,
    SubmitterSilent,
    VersionsVoid,
)
from rota.core.machine import Ignored, Machine, Row, Table, in_states
from rota.messages import AssemblyResult
from rota.types import (
    DelegationNumber,
    HeartbeatNumber,
    IntentId,
    Leaf,
    NodeName,
    Outcome,
    Party,
    RequestId,
    Transition,
)

if TYPE_CHECKING:
    from rota.core.sender import Sender


from rota.core.rules import sender_transaction as rules
from rota.core.states.sender_transaction import (
    DELEGATED,
    ENDED,
    OPEN,
    PERMITTED,
    UNPERMITTED,
    HeldRequest,
    Permission,
    Restored,
    State,
)

_REFUSING_ASSEMBLY = "the sender machine answers for it with an error"
_LATE = "a late result changes nothing"

TABLE = Table(
    name="Sender's transaction",
    initial=State.INITIAL,
    events=(
        Created,
        DependencyConfirmed,
        DependencyReverted,
        PartyResolved,
        Delegated,
        CoordinatorChanged,
        AssembleRequestReceived,
        Assembled,
        AssembleAndSignSuccess,
        AssembleRevert,
        AssemblePark,
        AssembleError,
        DispatchConfirmationRequestReceived,
        SignatureVerified,
        HoldExpired,
        Dispatched,
        NonceAssigned,
        Submitted,
        SubmitterSilent,
        GivenUp,
        ConfirmedSuccess,
        ConfirmedReverted,
        ConfirmationUndone,
        ConfirmationFinal,
        VersionsVoid,
        PermissionDurable,
        CancelRequested,
        CancelDurable,
        CancelNotWritten,
        Resumed,
        ResumeDurable,
        ResumeFailed,
        ParkDurable,
        ParkNotWritten,
        PermissionNotWritten,
        ReceiptDurable,
        ReceiptNotWritten,
        RetryDue,
    ),
    rows=(
        Row(State.INITIAL, Created, when=rules.was_cancelled, then=State.ENDING, do=rules.restore_cancelled),
        Row(State.INITIAL, Created, when=rules.was_parked, then=State.PARKED, do=rules.restore_parked),
        Row(State.INITIAL, Created, then=State.PENDING),
        *in_states((State.PENDING, State.PARKED), DependencyConfirmed, do=rules.note_dependency),
        *in_states(
            (State.PENDING, State.PARKED),
            DependencyReverted,
            when=rules.something_may_be_endorsed,
            then=State.ENDING,
            do=rules.end_for_dependency,
        ),
        *in_states((State.PENDING, State.PARKED), DependencyReverted, then=State.REVERTED, do=rules.end_for_dependency),
        *in_states(
            (State.PENDING, State.PARKED),
            PartyResolved,
            when=rules.is_unknown_party_of_old,
            then=State.ENDING,
            do=rules.end_for_party,
        ),
        *in_states(
            (State.PENDING, State.PARKED),
            PartyResolved,
            when=rules.is_unknown_party,
            then=State.REVERTED,
            do=rules.end_for_party,
        ),
        *in_states((State.PENDING, State.PARKED), PartyResolved, do=rules.note_party),
        Row(State.PENDING, Delegated, then=State.DELEGATED, do=rules.begin_lease),
        *in_states(DELEGATED, Delegated, do=rules.begin_lease),
        *in_states(DELEGATED, CoordinatorChanged, then=State.PENDING, do=rules.lose_delegation),
        *in_states(
            (*UNPERMITTED, *PERMITTED),
            AssembleRequestReceived,
            when=rules.is_new_request,
            then=State.ASSEMBLING,
            do=rules.begin_assembly,
        ),
        Row(State.ASSEMBLING, Assembled, then=State.SIGNING, do=rules.sign),
        Row(State.SIGNING, AssembleAndSignSuccess, then=State.ENDORSEMENT_GATHERING, do=rules.answer_assembled),
        Row(
            State.ASSEMBLING,
            AssembleRevert,
            when=rules.something_may_be_endorsed,
            then=State.ENDING,
            do=rules.answer_revert,
        ),
        Row(State.ASSEMBLING, AssembleRevert, then=State.REVERTED, do=rules.answer_revert),
        Row(State.ASSEMBLING, AssemblePark, then=State.PARKED, do=rules.answer_park),
        *in_states((State.ASSEMBLING, State.SIGNING), AssembleError, then=State.PENDING, do=rules.answer_error),
        *in_states(
            DELEGATED,
            DispatchConfirmationRequestReceived,
            when=rules.asks_for_assembled_leaf,
            then=State.PREPARED,
            do=rules.grant,
        ),
        *in_states(
            DELEGATED, DispatchConfirmationRequestReceived, when=rules.asks_for_earlier_leaf, do=rules.verify_leaf
        ),
        *in_states(DELEGATED, DispatchConfirmationRequestReceived, do=rules.refuse_stale),
        Row(
            State.PENDING, DispatchConfirmationRequestReceived, when=rules.is_delegating_to_peer, do=rules.hold_request
        ),
        Row(State.PENDING, DispatchConfirmationRequestReceived, do=rules.refuse_stale),
        *in_states(PERMITTED, DispatchConfirmationRequestReceived, when=rules.is_being_written),
        *in_states(
            PERMITTED, DispatchConfirmationRequestReceived, when=rules.asks_for_permitted_leaf, do=rules.grant_again
        ),
        *in_states(PERMITTED, PermissionDurable, when=rules.is_that_permission, do=rules.answer_permitted),
        *in_states(PERMITTED, DispatchConfirmationRequestReceived, do=rules.refuse_stale),
        Row(State.PARKED, DispatchConfirmationRequestReceived, do=rules.refuse_parked),
        Row(State.ENDING, DispatchConfirmationRequestReceived, do=rules.refuse_cancelled),
        *in_states(ENDED, DispatchConfirmationRequestReceived, do=rules.refuse_final),
        *in_states(
            DELEGATED, SignatureVerified, when=rules.is_held_signature, then=State.PREPARED, do=rules.grant_held
        ),
        *in_states(DELEGATED, SignatureVerified, do=rules.refuse_held),
        Row(State.PENDING, HoldExpired, do=rules.forget_held),
        *in_states(
            (*UNPERMITTED, State.PREPARED),
            Dispatched,
            when=rules.is_permitted_leaf,
            then=State.DISPATCHED,
            do=rules.note_listed,
        ),
        *in_states(
            (State.DISPATCHED, State.SEQUENCED, State.SUBMITTED),
            Dispatched,
            when=rules.is_permitted_leaf,
            do=rules.note_listed,
        ),
        *in_states(
            (*UNPERMITTED, State.PREPARED, State.DISPATCHED),
            NonceAssigned,
            when=rules.is_permitted_leaf,
            then=State.SEQUENCED,
            do=rules.note_nonce,
        ),
        *in_states(
            (State.SEQUENCED, State.SUBMITTED), NonceAssigned, when=rules.is_permitted_leaf, do=rules.note_nonce
        ),
        *in_states(
            (*UNPERMITTED, *PERMITTED),
            Submitted,
            when=rules.is_permitted_leaf,
            then=State.SUBMITTED,
            do=rules.note_listed,
        ),
        *in_states(PERMITTED, SubmitterSilent, when=rules.index_has_caught_up, then=State.PENDING, do=rules.release),
        *in_states(PERMITTED, SubmitterSilent, do=rules.keep_hold),
        *in_states(
            (*UNPERMITTED, *PERMITTED),
            GivenUp,
            when=rules.something_may_be_endorsed,
            then=State.ENDING,
            do=rules.note_given_up,
        ),
        *in_states((*UNPERMITTED, *PERMITTED), GivenUp, then=State.REVERTED, do=rules.note_given_up),
        *in_states(OPEN, ConfirmedSuccess, then=State.CONFIRMED, do=rules.note_confirmed),
        *in_states(
            (*UNPERMITTED, *PERMITTED),
            ConfirmedReverted,
            when=rules.no_retry_is_left,
            then=State.ENDING,
            do=rules.give_up_on_ledger,
        ),
        *in_states(
            PERMITTED, ConfirmedReverted, when=rules.is_permitted_version, then=State.DELEGATED, do=rules.note_reverted
        ),
        *in_states(UNPERMITTED, ConfirmedReverted, when=rules.is_permitted_version, do=rules.count_revert),
        Row(State.CONFIRMED, ConfirmationUndone, when=rules.was_ending, then=State.ENDING),
        Row(State.CONFIRMED, ConfirmationUndone, then=State.SUBMITTED, do=rules.watch_again),
        Row(State.CONFIRMED, ConfirmationFinal, do=rules.report_confirmed),
        Row(State.ENDING, VersionsVoid, when=rules.may_end, then=State.REVERTED),
        *in_states(
            (*UNPERMITTED, State.PARKED),
            CancelRequested,
            when=rules.something_may_be_endorsed,
            then=State.ENDING,
            do=rules.accept_cancel,
        ),
        *in_states((*UNPERMITTED, State.PARKED), CancelRequested, then=State.REVERTED, do=rules.cancel_at_once),
        *in_states((*PERMITTED, *ENDED), CancelRequested, do=rules.refuse_cancel),
        Row(State.ENDING, CancelRequested, do=rules.write_cancel),
        *in_states((State.ENDING, *ENDED), CancelDurable, do=rules.tell_cancelled),
        Row(
            State.ENDING, CancelNotWritten, when=rules.ends_by_that_cancel, then=State.PENDING, do=rules.withdraw_cancel
        ),
        *in_states((State.ENDING, *ENDED), CancelNotWritten, do=rules.tell_not_cancelled),
        Row(State.PARKED, Resumed, do=rules.write_resume),
        *in_states((*UNPERMITTED, *PERMITTED, State.ENDING, *ENDED), Resumed, do=rules.refuse_resume),
        Row(State.PARKED, ResumeDurable, then=State.PENDING, do=rules.resume),
        Row(State.PARKED, ResumeFailed, do=rules.report_unresumed),
        Row(State.PARKED, ParkDurable, do=rules.answer_parked),
        Row(State.PARKED, ParkNotWritten, then=State.DELEGATED, do=rules.forget_assembly),
        *in_states(
            PERMITTED,
            PermissionNotWritten,
            when=rules.is_that_permission,
            then=State.ENDORSEMENT_GATHERING,
            do=rules.withdraw_permission,
        ),
        *in_states(UNPERMITTED, PermissionNotWritten, when=rules.is_that_permission, do=rules.forget_permission),
        Row(State.REVERTED, ReceiptDurable, do=rules.forget),
        Row(State.REVERTED, ReceiptNotWritten, do=rules.write_again),
        Row(State.REVERTED, RetryDue, do=rules.finalise_again),
        Row(State.PENDING, RetryDue, do=rules.look_for_work),
    ),
    ignored=(
        Ignored(Created, (*OPEN, *ENDED), "created once"),
        *(
            Ignored(
                event,
                (State.INITIAL, *DELEGATED, *PERMITTED, State.ENDING, *ENDED),
                "it waits for it only before it is delegated",
            )
            for event in (DependencyConfirmed, DependencyReverted, PartyResolved)
        ),
        Ignored(
            Delegated,
            (State.INITIAL, *PERMITTED, State.ENDING, State.PARKED, *ENDED),
            "it is held for its submitter, or nobody is to coordinate it",
        ),
        Ignored(
            CoordinatorChanged,
            (State.INITIAL, State.PENDING, *PERMITTED, State.ENDING, State.PARKED, *ENDED),
            "it is held for its submitter, whatever the coordinator, or is not delegated",
        ),
        Ignored(AssembleRequestReceived, (State.INITIAL, State.ENDING, State.PARKED, *ENDED), _REFUSING_ASSEMBLY),
        *(
            Ignored(event, tuple(state for state in State if state is not State.ASSEMBLING), _LATE)
            for event in (Assembled, AssembleRevert, AssemblePark)
        ),
        Ignored(AssembleAndSignSuccess, tuple(state for state in State if state is not State.SIGNING), _LATE),
        Ignored(
            AssembleError, tuple(state for state in State if state not in (State.ASSEMBLING, State.SIGNING)), _LATE
        ),
        Ignored(DispatchConfirmationRequestReceived, (State.INITIAL,), "it is not known yet"),
        Ignored(
            SignatureVerified, (State.INITIAL, State.PENDING, *PERMITTED, State.ENDING, State.PARKED, *ENDED), _LATE
        ),
        Ignored(
            HoldExpired,
            tuple(state for state in State if state is not State.PENDING),
            "what was held has been answered",
        ),
        *(
            Ignored(event, (State.INITIAL, State.ENDING, State.PARKED, *ENDED), "only the chain's word counts there")
            for event in (Dispatched, NonceAssigned, Submitted)
        ),
        Ignored(
            SubmitterSilent, (State.INITIAL, *UNPERMITTED, State.ENDING, State.PARKED, *ENDED), "no permission is out"
        ),
        Ignored(GivenUp, (State.INITIAL, State.ENDING, State.PARKED, *ENDED), "it has ended or waits here"),
        Ignored(ConfirmedSuccess, (State.INITIAL, *ENDED), "it has its outcome"),
        Ignored(
            ConfirmedReverted,
            (State.INITIAL, State.ENDING, State.PARKED, *ENDED),
            "a failure of a version that nobody waits for",
        ),
        *(
            Ignored(
                event,
                (State.INITIAL, *UNPERMITTED, *PERMITTED, State.ENDING, State.PARKED, State.REVERTED),
                "nothing was confirmed",
            )
            for event in (ConfirmationUndone, ConfirmationFinal)
        ),
        Ignored(VersionsVoid, (State.INITIAL, *UNPERMITTED, *PERMITTED, State.PARKED, *ENDED), "it is not ending"),
        Ignored(
            PermissionDurable,
            (State.INITIAL, *UNPERMITTED, State.ENDING, State.PARKED, *ENDED),
            "its coordinator has asked anew meanwhile, or it has ended",
        ),
        Ignored(CancelRequested, (State.INITIAL,), "it is not known yet"),
        *(
            Ignored(event, (State.INITIAL, *UNPERMITTED, *PERMITTED, State.PARKED), "nothing was cancelled")
            for event in (CancelDurable, CancelNotWritten)
        ),
        Ignored(Resumed, (State.INITIAL,), "it is not known yet"),
        *(
            Ignored(event, tuple(state for state in State if state is not State.PARKED), "it has ended meanwhile")
            for event in (ResumeDurable, ResumeFailed)
        ),
        *(
            Ignored(
                event, tuple(state for state in State if state is not State.PARKED), "it has ended or gone on meanwhile"
            )
            for event in (ParkDurable, ParkNotWritten)
        ),
        Ignored(
            PermissionNotWritten, (State.INITIAL, State.ENDING, State.PARKED, *ENDED), "nobody waits for it any more"
        ),
        *(
            Ignored(
                event, tuple(state for state in State if state is not State.REVERTED), "no receipt is being written"
            )
            for event in (ReceiptDurable, ReceiptNotWritten)
        ),
        Ignored(
            RetryDue,
            tuple(state for state in State if state not in (State.REVERTED, State.PENDING)),
            "it goes on without",
        ),
    ),
    entry={
        State.PENDING: rules.enter_pending,
        State.PREPARED: rules.enter_prepared,
        State.PARKED: rules.enter_parked,
        State.ENDING: rules.enter_ending,
        State.REVERTED: rules.enter_reverted,
    },
)


class SenderTransaction(Machine):
    """One intent of this node."""

    table = TABLE

    def __init__(self, sender: Sender, restored: Restored, is_new: bool) -> None:
        super().__init__()
        self.sender = sender
        self.context = sender.context
        self.intent = restored.intent
        self.parked_reason = restored.parked_reason
        self.is_cancelled = restored.is_cancelled
        self.is_ending = False
        self.ends_by_cancel = False
        self.cancels_open = 0
        self.permission = restored.permission
        self.earlier_permission: Permission | None = None
        self.is_permission_durable = restored.permission is not None
        self.number = DelegationNumber(self.context.incarnation, 0)
        self.delegate: NodeName | None = None
        self.delegate_incarnation = 0
        self.accepted_at = HeartbeatNumber(0, 0)
        self.lease_ms = 0
        self.request_id: RequestId | None = None
        self.transition: Transition | None = None
        self.result: AssemblyResult | None = None
        self.held: HeldRequest | None = None
        self.revert_count = 0
        self.failure_count = 0
        self.not_before_ms = 0
        self.skipped_leaf: Leaf | None = None
        self.confirmed_leaf: Leaf | None = None
        self.reason = ""
        self.reply_to = ""
        self.signer_and_nonce: tuple[str, int] | None = None
        self.since_ms = self.context.now_ms
        self.history: list[tuple[int, str]] = []
        # A restarted sender must assume that a version was endorsed just before it went (protocol §4.3).
        self.void_after_s = 0 if is_new else sender.latest_chain_time_s + self.context.config.validity_s
        self.unmet: dict[IntentId, None] = {}
        self.ended_dependencies: dict[IntentId, Outcome] = {}
        self.unresolved: dict[Party, None] = {}

    @property
    def is_ready(self) -> bool:
        """Nothing of our own keeps it from being delegated."""
        return not self.unmet and not self.unresolved and self.not_before_ms <= self.context.now_ms

    @property
    def is_undispatched(self) -> bool:
        """No permission is out: it follows the current coordinator."""
        return self.state in UNPERMITTED

    @property
    def is_ended(self) -> bool:
        """It has its outcome."""
        return self.state in ENDED

    def changed(self, previous: Enum) -> None:
        """Keep the sender's queues true to the states, and the history that `explain` shows."""
        self.sender.transaction_changed(self)
        self.since_ms = self.context.now_ms
        self.history.append((self.context.now_ms, str(self.state.value)))
        del self.history[: -self.context.config.history_max]
