"""An intent at its sender: accepted → delegated → permitted → final.

Theory of operation. The sender persisted the intent before its user got the id, and stays responsible
until its own chain index says how it ended. Until then somebody must coordinate it: Pending means that
nobody does, as far as we know, and the sender machine looks for somebody. The coordinator asks us to
assemble (we sign the leaf with the answer) and later for permission to dispatch that very leaf. We give
one permission per delegation number, to the current delegate only, and record it: from then on a base-ledger
transaction may exist, and the intent is held for its submitter. Messages only make us faster; what counts is
the chain. A revert is reported only when no version can happen any more (protocol §4.3). So an intent that is
to end is Ending, and its end is recorded; then it is voided: Pending again, it travels the same way as an empty
transition, for which the domain is not asked. When that is on the chain for good the intent is reverted. Where
it cannot be had, the intent is Ending until all else has expired. An external intent gets no permission: its
endorsed transition is sent to us, recorded, and Issued to its user, who has it until the chain has it, its
validity ends, or the user cancels it (protocol §4.2). One that another contract is to carry out is Issued too: its
endorser refuses it when that contract does, and when its validity ends, it is Pending again.

No answer, receipt or report leaves before the records of its step and of all earlier ones are durable
(`engine/outbox.py`), so no rule waits for a write.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from rota.machine.tables import Ignored, Machine, Row, Table, in_states
from rota.model.consistency import Consistent
from rota.model.digests import void_leaf
from rota.model.types import (
    NO_ATTESTERS,
    Attesters,
    DelegationNumber,
    Dependency,
    HeartbeatNumber,
    IntentId,
    Leaf,
    NodeName,
    Party,
    RequestId,
    SubmitMode,
    Transition,
)
from rota.sequencer.events.sender_transaction import (
    AssembleAndSignSuccess,
    Assembled,
    AssembleError,
    AssemblePark,
    AssembleRequestReceived,
    AssembleRevert,
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
    Dropped,
    EndingBegun,
    FailureJudged,
    GivenUp,
    HoldExpired,
    InquiryDue,
    LeafShown,
    NonceAssigned,
    PartyResolved,
    PreparedTransactionReceived,
    Resumed,
    RetryDue,
    SignatureVerified,
    Submitted,
    SubmitterSilent,
    VersionsVoid,
)
from rota.sequencer.versions import may_be_pipelined, must_wait_to_sign
from rota.wire.messages import AssemblyResult

if TYPE_CHECKING:
    from rota.sequencer.sender import Sender


from rota.sequencer.rules import sender_transaction as rules
from rota.sequencer.rules import sender_transaction_ending as ending
from rota.sequencer.rules import sender_transaction_issued as issued
from rota.sequencer.rules import sender_transaction_used as used
from rota.sequencer.states.sender_transaction import (
    DELEGATED,
    ENDED,
    OPEN,
    PERMITTED,
    REFUSABLE,
    UNPERMITTED,
    WAITING,
    HeldPrepared,
    HeldRefusals,
    HeldRequest,
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
        PreparedTransactionReceived,
        Dispatched,
        NonceAssigned,
        Submitted,
        SubmitterSilent,
        GivenUp,
        Dropped,
        ConfirmedSuccess,
        ConfirmedReverted,
        FailureJudged,
        ConfirmationUndone,
        ConfirmationFinal,
        LeafShown,
        InquiryDue,
        VersionsVoid,
        CancelRequested,
        EndingBegun,
        Resumed,
        RetryDue,
    ),
    rows=(
        Row(State.INITIAL, Created, when=ending.was_voided, then=State.REVERTED, do=ending.restore_ending),
        Row(State.INITIAL, Created, when=used.was_used, then=State.ID_USED, do=used.restore_used),
        Row(State.INITIAL, Created, when=ending.was_ending, then=State.ENDING, do=ending.restore_ending),
        Row(State.INITIAL, Created, when=issued.was_issued, then=State.ISSUED, do=issued.restore_issued),
        Row(State.INITIAL, Created, when=rules.was_parked, then=State.PARKED, do=rules.restore_parked),
        Row(State.INITIAL, Created, then=State.PENDING),
        *in_states((State.PENDING, State.PARKED), DependencyConfirmed, do=rules.look_for_work),
        *in_states(
            (State.PENDING, State.PARKED),
            DependencyReverted,
            when=ending.something_may_be_endorsed,
            then=State.ENDING,
            do=ending.end_for_dependency,
        ),
        *in_states(
            (State.PENDING, State.PARKED), DependencyReverted, then=State.REVERTED, do=ending.end_for_dependency
        ),
        *in_states(
            (State.PENDING, State.PARKED),
            PartyResolved,
            when=ending.is_unknown_party_of_old,
            then=State.ENDING,
            do=ending.end_for_party,
        ),
        *in_states(
            (State.PENDING, State.PARKED),
            PartyResolved,
            when=rules.is_unknown_party,
            then=State.REVERTED,
            do=ending.end_for_party,
        ),
        *in_states((State.PENDING, State.PARKED), PartyResolved, do=rules.look_for_work),
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
            when=ending.something_may_be_endorsed,
            then=State.ENDING,
            do=ending.answer_revert,
        ),
        Row(State.ASSEMBLING, AssembleRevert, then=State.REVERTED, do=ending.answer_revert),
        Row(State.ASSEMBLING, AssemblePark, then=State.PARKED, do=rules.answer_park),
        *in_states((State.ASSEMBLING, State.SIGNING), AssembleError, then=State.PENDING, do=rules.answer_error),
        *in_states(
            DELEGATED,
            DispatchConfirmationRequestReceived,
            when=ending.asks_for_an_old_version,
            then=State.PENDING,
            do=ending.refuse_old_version,
        ),
        Row(
            State.PENDING,
            DispatchConfirmationRequestReceived,
            when=ending.asks_for_an_old_version,
            do=ending.refuse_cancelled,
        ),
        *in_states(
            UNPERMITTED, DispatchConfirmationRequestReceived, when=issued.is_external, do=issued.refuse_external
        ),
        *in_states(
            DELEGATED,
            DispatchConfirmationRequestReceived,
            when=rules.was_permitted_before,
            then=State.PREPARED,
            do=rules.grant_again,
        ),
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
        *in_states(
            PERMITTED, DispatchConfirmationRequestReceived, when=rules.asks_for_permitted_leaf, do=rules.grant_again
        ),
        *in_states(PERMITTED, DispatchConfirmationRequestReceived, do=rules.refuse_stale),
        *in_states((State.ISSUED, State.PARKED), DispatchConfirmationRequestReceived, do=rules.refuse_waiting),
        Row(State.ENDING, DispatchConfirmationRequestReceived, do=ending.refuse_cancelled),
        *in_states(ENDED, DispatchConfirmationRequestReceived, do=rules.refuse_final),
        *in_states(
            UNPERMITTED, SignatureVerified, when=issued.bears_our_signature, then=State.ISSUED, do=issued.issue_held
        ),
        *in_states(UNPERMITTED, SignatureVerified, when=issued.is_of_held_prepared, do=issued.decline_held),
        *in_states(
            DELEGATED, SignatureVerified, when=rules.is_held_signature, then=State.PREPARED, do=rules.grant_held
        ),
        *in_states(DELEGATED, SignatureVerified, do=rules.refuse_held),
        Row(State.PENDING, HoldExpired, do=rules.forget_held),
        *in_states(
            UNPERMITTED,
            PreparedTransactionReceived,
            when=issued.is_what_we_assembled,
            then=State.ISSUED,
            do=issued.issue,
        ),
        *in_states(UNPERMITTED, PreparedTransactionReceived, when=issued.may_be_ours, do=issued.verify),
        *in_states((*OPEN, *ENDED), PreparedTransactionReceived, do=issued.decline),
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
        *in_states(REFUSABLE, GivenUp, when=ending.is_voiding, then=State.ENDING, do=ending.stop_voiding),
        *in_states(REFUSABLE, GivenUp, then=State.ENDING, do=ending.note_given_up),
        Row(State.ISSUED, GivenUp, then=State.ENDING, do=ending.note_given_up),
        *in_states(DELEGATED, Dropped, then=State.PENDING, do=rules.delegate_later),
        Row(State.PENDING, Dropped, when=rules.backs_off),
        Row(State.PENDING, Dropped, do=rules.delegate_later),
        *in_states(OPEN, ConfirmedSuccess, when=used.is_by_another, then=State.ID_USED, do=used.note_used),
        *in_states(OPEN, ConfirmedSuccess, then=State.CONFIRMED, do=rules.note_confirmed),
        *in_states(
            (*UNPERMITTED, *PERMITTED),
            ConfirmedReverted,
            when=ending.void_has_failed,
            then=State.ENDING,
            do=ending.stop_voiding_on_ledger,
        ),
        *in_states(
            (*UNPERMITTED, *PERMITTED),
            ConfirmedReverted,
            when=rules.no_retry_is_left,
            then=State.ENDING,
            do=ending.give_up_on_ledger,
        ),
        *in_states(
            PERMITTED, ConfirmedReverted, when=rules.is_permitted_version, then=State.DELEGATED, do=rules.note_reverted
        ),
        *in_states(UNPERMITTED, ConfirmedReverted, when=rules.is_permitted_version, do=rules.count_revert),
        *in_states(
            (*UNPERMITTED, *PERMITTED),
            FailureJudged,
            when=ending.is_not_worth_retrying,
            then=State.ENDING,
            do=ending.give_up_on_verdict,
        ),
        Row(
            State.CONFIRMED,
            ConfirmationUndone,
            when=ending.was_ending_passively,
            then=State.ENDING,
            do=rules.forget_confirmation,
        ),
        Row(
            State.CONFIRMED,
            ConfirmationUndone,
            when=issued.was_issued_and_goes_on,
            then=State.ISSUED,
            do=rules.forget_confirmation,
        ),
        Row(State.CONFIRMED, ConfirmationUndone, then=State.SUBMITTED, do=rules.watch_again),
        Row(State.ID_USED, ConfirmationUndone, when=ending.was_ending_passively, then=State.ENDING, do=used.forget_use),
        Row(
            State.ID_USED, ConfirmationUndone, when=issued.was_issued_and_goes_on, then=State.ISSUED, do=used.forget_use
        ),
        Row(State.ID_USED, ConfirmationUndone, then=State.PENDING, do=used.forget_use),
        Row(State.CONFIRMED, ConfirmationFinal, when=ending.is_voided, then=State.REVERTED, do=ending.note_voided),
        Row(State.CONFIRMED, ConfirmationFinal, do=rules.report_confirmed),
        Row(State.ID_USED, ConfirmationFinal, do=used.note_final),
        Row(State.ID_USED, LeafShown, when=used.is_what_was_asked_for, do=used.verify_shown),
        Row(State.ID_USED, SignatureVerified, when=used.is_our_signature, then=State.CONFIRMED, do=used.record_shown),
        Row(State.ID_USED, SignatureVerified, do=used.forget_shown),
        Row(State.ID_USED, InquiryDue, when=used.has_been_asked_for_long, then=State.REVERTED, do=used.end_as_used),
        Row(State.ID_USED, InquiryDue, do=used.ask_members),
        Row(State.ENDING, VersionsVoid, then=State.REVERTED),
        *in_states((*UNPERMITTED, *PERMITTED), VersionsVoid, when=ending.is_voiding, then=State.REVERTED),
        Row(State.ISSUED, VersionsVoid, when=issued.is_carried, then=State.PENDING, do=issued.carry_anew),
        Row(State.ISSUED, VersionsVoid, then=State.REVERTED, do=issued.note_expired),
        *in_states(
            (*UNPERMITTED, *PERMITTED, State.CONFIRMED),
            CancelRequested,
            when=ending.ends_anyway,
            do=ending.agree_to_cancel,
        ),
        *in_states(
            (*UNPERMITTED, State.ISSUED, State.PARKED),
            CancelRequested,
            when=ending.something_may_be_endorsed,
            then=State.ENDING,
            do=ending.accept_cancel,
        ),
        *in_states(
            (*UNPERMITTED, State.ISSUED, State.PARKED), CancelRequested, then=State.REVERTED, do=ending.cancel_at_once
        ),
        *in_states((*PERMITTED, *ENDED), CancelRequested, do=ending.refuse_cancel),
        Row(State.ENDING, CancelRequested, do=ending.agree_to_cancel),
        Row(State.ENDING, EndingBegun, when=ending.versions_are_void, then=State.REVERTED),
        Row(State.ENDING, EndingBegun, when=ending.can_be_voided, then=State.PENDING, do=ending.begin_voiding),
        Row(State.PARKED, Resumed, then=State.PENDING, do=rules.resume),
        *in_states((*UNPERMITTED, *PERMITTED, State.ISSUED, State.ENDING, *ENDED), Resumed, do=rules.refuse_resume),
        Row(State.PENDING, RetryDue, do=rules.look_for_work),
    ),
    ignored=(
        Ignored(Created, (*OPEN, *ENDED), "created once"),
        *(
            Ignored(
                event,
                (State.INITIAL, *DELEGATED, *PERMITTED, State.ISSUED, State.ENDING, *ENDED),
                "it is not called back: the event counts when it is Pending again",
            )
            for event in (DependencyConfirmed, DependencyReverted, PartyResolved)
        ),
        Ignored(
            Delegated,
            (State.INITIAL, *PERMITTED, *WAITING, *ENDED),
            "it is held for its submitter, or nobody is to coordinate it",
        ),
        Ignored(
            CoordinatorChanged,
            (State.INITIAL, State.PENDING, *PERMITTED, *WAITING, *ENDED),
            "it is held for its submitter, whatever the coordinator, or is not delegated",
        ),
        Ignored(AssembleRequestReceived, (State.INITIAL, *WAITING, *ENDED), _REFUSING_ASSEMBLY),
        *(
            Ignored(event, tuple(state for state in State if state is not State.ASSEMBLING), _LATE)
            for event in (Assembled, AssembleRevert, AssemblePark)
        ),
        Ignored(AssembleAndSignSuccess, tuple(state for state in State if state is not State.SIGNING), _LATE),
        Ignored(
            AssembleError, tuple(state for state in State if state not in (State.ASSEMBLING, State.SIGNING)), _LATE
        ),
        Ignored(DispatchConfirmationRequestReceived, (State.INITIAL,), "it is not known yet"),
        Ignored(SignatureVerified, (State.INITIAL, *PERMITTED, *WAITING, State.CONFIRMED, State.REVERTED), _LATE),
        *(
            Ignored(
                event,
                tuple(state for state in State if state is not State.ID_USED),
                "nobody doubts whose the leaf on the chain is",
            )
            for event in (LeafShown, InquiryDue)
        ),
        Ignored(
            HoldExpired,
            tuple(state for state in State if state is not State.PENDING),
            "what was held has been answered",
        ),
        *(
            Ignored(event, (State.INITIAL, *WAITING, *ENDED), "only the chain's word counts there")
            for event in (Dispatched, NonceAssigned, Submitted)
        ),
        Ignored(SubmitterSilent, (State.INITIAL, *UNPERMITTED, *WAITING, *ENDED), "no permission is out"),
        Ignored(
            GivenUp,
            tuple(state for state in State if state not in (*REFUSABLE, State.ISSUED)),
            "it is being assembled anew, or permission is out, or it has ended or waits here",
        ),
        Ignored(
            Dropped,
            (State.INITIAL, *PERMITTED, *WAITING, *ENDED),
            "its submitter lists it or the hold ends, or it has ended or waits here",
        ),
        Ignored(ConfirmedSuccess, (State.INITIAL, *ENDED), "it has its outcome"),
        Ignored(ConfirmedReverted, (State.INITIAL, *WAITING, *ENDED), "a failure of a version that nobody waits for"),
        Ignored(FailureJudged, (State.INITIAL, *WAITING, *ENDED), "it waits, ends or has its outcome meanwhile"),
        *(
            Ignored(event, (State.INITIAL, *UNPERMITTED, *PERMITTED, *WAITING, State.REVERTED), "nothing was confirmed")
            for event in (ConfirmationUndone, ConfirmationFinal)
        ),
        Ignored(VersionsVoid, (State.INITIAL, State.PARKED, *ENDED), "it is not ending, or has ended"),
        Ignored(CancelRequested, (State.INITIAL,), "it is not known yet"),
        Ignored(PreparedTransactionReceived, (State.INITIAL,), "it is not known yet"),
        Ignored(EndingBegun, tuple(state for state in State if state is not State.ENDING), "it has ended meanwhile"),
        Ignored(Resumed, (State.INITIAL,), "it is not known yet"),
        Ignored(RetryDue, tuple(state for state in State if state is not State.PENDING), "it goes on without"),
    ),
    entry={
        State.PENDING: rules.enter_pending,
        State.PREPARED: rules.enter_prepared,
        State.ISSUED: issued.enter_issued,
        State.PARKED: rules.enter_parked,
        State.ENDING: ending.enter_ending,
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
        # Why it ends, once that is decided; `reason` below is why it waits, or what failed last.
        self.ending_reason = restored.ending_reason
        self.is_ending_recorded = restored.ending_reason is not None
        self.is_voiding = False
        self.has_failed_to_void = False
        self.was_voided = restored.was_voided
        self.issued = restored.issued
        self.held_prepared: HeldPrepared | None = None
        self.versions = {signed.leaf: signed.valid_until_s for signed in restored.versions}
        # Transitions of the leaf on the chain whose signatures are being verified, and who showed them.
        self.shown: dict[RequestId, tuple[NodeName, Consistent]] = {}
        self.used_for_good_ms: int | None = None
        # By who sent it: a copy of another's takes nobody's place.
        self.doubted_prepared: dict[NodeName, HeldPrepared] = {}
        self.permission = restored.permission
        self.number = DelegationNumber(self.context.incarnation, 0)
        self.delegate: NodeName | None = None
        self.delegate_incarnation = 0
        self.accepted_at = HeartbeatNumber(0, 0)
        self.lease_ms: int | None = None
        self.stage = 0
        # The coordinator's id, which is echoed; and ours of the latest order to domain or signer, which is matched.
        self.request_id: RequestId | None = None
        self.order: RequestId | None = None
        self.transition: Transition | None = None
        self.attesters = NO_ATTESTERS
        self.result: AssemblyResult | None = None
        self.held: HeldRequest | None = None
        self.held_refusals: HeldRefusals | None = None
        self.revert_count = 0
        self.failure_count = 0
        self.dropped_count = 0
        # Whether the latest version, or the next one, is assembled on what our own index says and nothing else.
        self.is_on_own_states = self.needs_own_states = False
        # What it would be, if its states were not kept for a prepared transition of another intent.
        self.kept_from: Transition | None = None
        self.not_before_ms = 0
        # Its delegate is the reason that it waits until then.
        self.is_put_off = False
        self.skipped_leaf: Leaf | None = None
        self.skipped_reason = ""
        self.left_leaf: Leaf | None = None
        self.confirmed_leaf = restored.used_leaf
        self.ending_code = restored.ending_code
        self.reason = ""
        self.signer_and_nonce: tuple[str, int] | None = None
        self.since_ms = self.context.now_ms
        self.history: list[tuple[int, Enum]] = []
        # The sender's queue that it is in, by its state.
        self.queue: dict[IntentId, SenderTransaction] | None = None
        self.void_after_s = 0 if is_new else max(restored.void_after_s, self._latest_bound_s())
        self.unmet: dict[Dependency, None] = {}
        self.unresolved: dict[Party, None] = {}
        self.reverted_dependency: DependencyReverted | None = None
        # An assembly read nothing of `unmet`: it is not delegated before one of these is confirmed.
        self.awaits_confirmation = False
        # Another intent of this contract may be assembled on it before it is confirmed.
        self.has_dependents = False
        self.unknown_party: Party | None = None

    @property
    def is_kept_away(self) -> bool:
        """As far as our own node knows, nobody could get it endorsed before a prepared transition has its end."""
        return self.kept_from is not None and self.sender.coordinator.kept.is_taken(self.kept_from)

    @property
    def awaits_approval(self) -> bool:
        """Its coordinator has a version of it that endorsers whom its plan names have to approve first."""
        return self.state is State.ENDORSEMENT_GATHERING and bool(self.attesters.endorsers)

    @property
    def is_held_up(self) -> bool:
        """As far as our node knows, its states are kept for others, or an endorser that its plan names is silent."""
        is_silent = self.sender.observer.is_silent
        return self.is_kept_away or (self.awaits_approval and any(map(is_silent, self.attesters.endorsers)))

    @property
    def needs_more_time(self) -> bool:
        """It has to wait for its turn, to be signed, or for endorsers that its plan names to approve it."""
        return self.may_wait_for_its_turn or must_wait_to_sign(self) or self.awaits_approval

    def begin_assembly(self) -> None:
        """Its domain and signer are asked again; earlier answers do not count."""
        self.order, self.result, self.attesters = None, None, NO_ATTESTERS

    @property
    def may_wait_for_its_turn(self) -> bool:
        """As far as our own node knows, endorsers may refuse it until others have had their turn (`turns.py`)."""
        is_external = self.intent.is_external
        return is_external and not self.is_voiding and self.context.now_ms < self.sender.rests_until_ms

    @property
    def has_left_states_unused(self) -> bool:
        """It is external, a version of it may have been endorsed, and none took effect."""
        if not self.intent.is_external or not self.void_after_s:
            return False
        leaf = self.confirmed_leaf
        return self.state is State.REVERTED or (leaf is not None and self.is_void(leaf))

    @property
    def open_dependencies(self) -> tuple[Dependency, ...]:
        """What it depends on and what has not ended."""
        reverted = self.reverted_dependency
        return tuple(other for other in self.unmet if reverted is None or other != reverted.dependency)

    def dependency_ended(self, event: DependencyConfirmed | DependencyReverted) -> None:
        """One that it depends on has ended. Whatever state it is in, it may have to wait for the others again."""
        if isinstance(event, DependencyConfirmed):
            del self.unmet[event.dependency]
            self.awaits_confirmation = False
        else:
            self.reverted_dependency = event
        self.handle(event)

    def note_party(self, party: Party, verifier: str) -> None:
        """A party is resolved, or there is none of that name; in whatever state."""
        if verifier:
            del self.unresolved[party]
        else:
            self.unknown_party = party

    def note_version(self, leaf: Leaf, until_s: int) -> None:
        """Our party signed this leaf; the same leaf may be signed again with a later bound."""
        self.versions[leaf] = max(until_s, self.versions.get(leaf, 0))

    @property
    def first_bound_s(self) -> int | None:
        """Until when the first of the versions that the chain may commit is valid, if states are kept for them."""
        is_external = self.intent.is_external
        return min(self.versions.values(), default=None) if is_external else None

    def forget_expired_versions(self) -> None:
        """The chain can commit no leaf whose bound has passed in final time (trust rule 3)."""
        final_time_s = self.sender.final_time_s
        for leaf, until_s in tuple(self.versions.items()):
            if until_s < final_time_s:
                del self.versions[leaf]
                if self.intent.is_external:
                    self.sender.note_unused()

    def _latest_bound_s(self) -> int:
        """Until when a version may be committed that our party signed before the restart.

        Who accepted an intent before leaves were recorded, in an older release, must assume that one was signed last.
        """
        if self.intent.nonce or not self.context.contract.endorsers:
            return max(self.versions.values(), default=0)
        config = self.context.config
        is_external = self.intent.is_external
        longest_s = max(config.validity_s, config.prepared_validity_s) if is_external else config.validity_s
        return self.sender.latest_chain_time_s + longest_s

    @property
    def is_ready(self) -> bool:
        """Nothing of our own keeps it from being delegated."""
        return self._may_go and self.not_before_ms <= self.context.now_ms

    @property
    def is_with_delegate(self) -> bool:
        """If it is not delegated, that is its delegate's doing, or will be its delegate's next."""
        return self.is_ready or (self._may_go and self.is_put_off)

    @property
    def _may_go(self) -> bool:
        return not self.unresolved and (not self.unmet or may_be_pipelined(self))

    @property
    def is_undispatched(self) -> bool:
        """No permission is out: it follows the current coordinator."""
        return self.state in UNPERMITTED

    def refusable(self, leaf: Leaf) -> Transition | None:
        """What we signed of this leaf for its delegate, which has not asked for more since, and did not permit.

        What another contract is to carry out can be refused as long as that is not done.
        """
        if self.is_issued_to_be_carried(leaf):
            assert self.issued is not None, "it is issued"
            return self.issued.transition
        made = self.result.transition if self.result is not None else None
        return made if self.state in REFUSABLE and made is not None and made.leaf == leaf else None

    def is_issued_to_be_carried(self, leaf: Leaf) -> bool:
        """The endorser's node has another contract decide about this leaf and carry it out."""
        is_issued = self.state is State.ISSUED and self.issued is not None
        is_carried = is_issued and self.intent.submit_mode is SubmitMode.CARRIED
        return is_carried and self.issued is not None and self.issued.transition.leaf == leaf

    @property
    def answered_attesters(self) -> Attesters:
        """Those that the plan of the version adds that its delegate was answered with last."""
        return self.result.attesters if self.result is not None else NO_ATTESTERS

    @property
    def is_ending(self) -> bool:
        """It is decided that it ends; what lands on the chain before that is so may overrule it."""
        return self.ending_reason is not None

    def is_void(self, leaf: Leaf) -> bool:
        """This is the leaf of the empty transition of its id: whoever commits it, no other version can be committed."""
        # No version that we note is empty, and that costs no hash.
        return leaf not in self.versions and leaf == void_leaf(self.context.separator, self.intent.id)

    @property
    def is_ended(self) -> bool:
        """It has its outcome."""
        return self.state in ENDED

    def changed(self, previous: Enum) -> None:
        """Keep the sender's queues true to the states, and the history that `explain` shows."""
        self.sender.transaction_changed(self)
        self.since_ms = self.context.now_ms
        self.history.append((self.context.now_ms, self.state))
        if len(self.history) > self.context.config.history_max:
            del self.history[0]
