"""An intent at its sender: accepted → delegated → permitted → final.

Theory of operation. The sender persisted the intent before its user got the id, and stays responsible
until its own chain index says how it ended. Until then somebody must coordinate it: Pending means that
nobody does, as far as we know, and the sender machine looks for somebody. The coordinator asks us to
assemble (we sign the leaf with the answer) and later for permission to dispatch that very leaf. We give
one permission per delegation number, to the current delegate only, and record it: from then on a base-ledger
transaction may exist, and the intent is held for its submitter. Messages only make us faster; what counts is
the chain. A revert is reported only when no version can happen any more (protocol §4.3): an intent that is to end is
Ending, and its end is recorded.

Three machines of their own take part in what becomes of an intent. Each stands in front of this one and passes on what
it does not decide: an external intent has its prepared transition Issued (`external_issue.py`), one that ends is voided
by an empty transition (`voiding.py`), and one whose id the chain has under an unknown leaf is IdUsed while members are
asked (`id_inquiry.py`).

No answer, receipt or report leaves before the records of its step and of all earlier ones are durable
(`engine/outbox.py`), so no rule waits for a write.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from rota.machine.pacing import Pacing
from rota.machine.tables import Ignored, Junction, Machine, Row, Table, outside
from rota.model.blocks import LedgerOutcome
from rota.model.consistency import Authorised
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
from rota.sequencer.effects import VerifySignature
from rota.sequencer.events import FailureJudged
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
    GivenUp,
    HoldExpired,
    LeafClaimed,
    LeafUnclaimed,
    NonceAssigned,
    PartyResolved,
    PreparedIssued,
    Resumed,
    RetryDue,
    SignatureVerified,
    Submitted,
    SubmitterSilent,
    VersionsVoid,
    VoidingBegun,
)
from rota.sequencer.external_issue import ExternalIssue, HeldPrepared
from rota.sequencer.id_inquiry import IdInquiry
from rota.sequencer.versions import may_be_pipelined, must_wait_to_sign
from rota.sequencer.voiding import Voiding
from rota.wire.messages import AssemblyResult, ErrorCode

if TYPE_CHECKING:
    from rota.sequencer.sender import Sender


from rota.sequencer.rules import sender_transaction as rules
from rota.sequencer.states.sender_transaction import (
    BEING_ASSEMBLED,
    DELEGATED,
    ENDED,
    KNOWN,
    NUMBERED,
    OPEN,
    PERMITTED,
    REFUSABLE,
    SETTLED,
    UNDER_WAY,
    UNPERMITTED,
    HeldRefusals,
    HeldRequest,
    Restored,
    State,
)

ENDS = Junction("Ends", ((rules.something_may_be_endorsed, State.ENDING), (None, State.REVERTED)))

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
        PreparedIssued,
        Dispatched,
        NonceAssigned,
        Submitted,
        SubmitterSilent,
        GivenUp,
        Dropped,
        ConfirmedSuccess,
        ConfirmedReverted,
        ConfirmationUndone,
        ConfirmationFinal,
        LeafClaimed,
        LeafUnclaimed,
        VersionsVoid,
        VoidingBegun,
        CancelRequested,
        Resumed,
        RetryDue,
    ),
    written=(
        Row(State.INITIAL, Created, when=rules.was_voided, then=State.REVERTED, do=rules.restore_ending),
        Row(State.INITIAL, Created, when=rules.was_used, then=State.ID_USED, do=rules.restore_used),
        Row(State.INITIAL, Created, when=rules.was_ending, then=State.ENDING, do=rules.restore_ending),
        Row(State.INITIAL, Created, when=rules.was_issued, then=State.ISSUED, do=rules.restore_issued),
        Row(State.INITIAL, Created, when=rules.was_parked, then=State.PARKED, do=rules.restore_parked),
        Row(State.INITIAL, Created, then=State.PENDING),
        Row(OPEN, DependencyConfirmed, do=rules.look_for_work),
        Row(OPEN, DependencyReverted, then=ENDS, do=rules.end_for_dependency),
        Row(OPEN, PartyResolved, when=rules.is_unknown_party, then=ENDS, do=rules.end_for_party),
        Row(OPEN, PartyResolved, do=rules.look_for_work),
        Row(State.PENDING, Delegated, then=State.DELEGATED, do=rules.begin_lease),
        Row(DELEGATED, Delegated, do=rules.begin_lease),
        Row(DELEGATED, CoordinatorChanged, then=State.PENDING, do=rules.lose_delegation),
        Row(
            UNDER_WAY,
            AssembleRequestReceived,
            when=rules.is_new_request,
            then=State.ASSEMBLING,
            do=rules.begin_assembly,
        ),
        Row(State.ASSEMBLING, Assembled, then=State.SIGNING, do=rules.sign),
        Row(State.SIGNING, AssembleAndSignSuccess, then=State.ENDORSEMENT_GATHERING, do=rules.answer_assembled),
        Row(State.ASSEMBLING, AssembleRevert, then=ENDS, do=rules.answer_revert),
        Row(State.ASSEMBLING, AssemblePark, then=State.PARKED, do=rules.answer_park),
        Row(BEING_ASSEMBLED, AssembleError, then=State.PENDING, do=rules.answer_error),
        Row(
            DELEGATED,
            DispatchConfirmationRequestReceived,
            when=rules.was_permitted_before,
            then=State.PREPARED,
            do=rules.grant_again,
        ),
        Row(
            DELEGATED,
            DispatchConfirmationRequestReceived,
            when=rules.asks_for_assembled_leaf,
            then=State.PREPARED,
            do=rules.grant,
        ),
        Row(DELEGATED, DispatchConfirmationRequestReceived, when=rules.asks_for_earlier_leaf, do=rules.verify_leaf),
        Row(
            State.PENDING, DispatchConfirmationRequestReceived, when=rules.is_delegating_to_peer, do=rules.hold_request
        ),
        Row(PERMITTED, DispatchConfirmationRequestReceived, when=rules.asks_for_permitted_leaf, do=rules.grant_again),
        Row(KNOWN, DispatchConfirmationRequestReceived, do=rules.refuse),
        Row(DELEGATED, SignatureVerified, when=rules.is_held_signature, then=State.PREPARED, do=rules.grant_held),
        Row(DELEGATED, SignatureVerified, do=rules.refuse_held),
        Row(State.PENDING, HoldExpired, do=rules.forget_held),
        Row(UNPERMITTED, PreparedIssued, then=State.ISSUED),
        Row(UNDER_WAY, Dispatched, when=rules.is_permitted_leaf, then=State.DISPATCHED, do=rules.note_listed),
        Row(State.SUBMITTED, NonceAssigned, when=rules.is_permitted_leaf, do=rules.note_nonce),
        Row(UNDER_WAY, NonceAssigned, when=rules.is_permitted_leaf, then=State.SEQUENCED, do=rules.note_nonce),
        Row(UNDER_WAY, Submitted, when=rules.is_permitted_leaf, then=State.SUBMITTED, do=rules.note_listed),
        Row(PERMITTED, SubmitterSilent, when=rules.index_has_caught_up, then=State.PENDING, do=rules.release),
        Row(PERMITTED, SubmitterSilent, do=rules.keep_hold),
        Row(UNDER_WAY, GivenUp, then=State.ENDING, do=rules.note_given_up),
        Row(UNPERMITTED, Dropped, when=rules.is_to_back_off, then=State.PENDING, do=rules.delegate_later),
        Row(OPEN, ConfirmedSuccess, when=rules.is_by_another, then=State.ID_USED, do=rules.note_used),
        Row(OPEN, ConfirmedSuccess, then=State.CONFIRMED, do=rules.note_confirmed),
        Row(UNDER_WAY, ConfirmedReverted, when=rules.no_retry_is_left, then=State.ENDING, do=rules.give_up_on_ledger),
        Row(
            PERMITTED, ConfirmedReverted, when=rules.is_permitted_version, then=State.DELEGATED, do=rules.note_reverted
        ),
        Row(UNPERMITTED, ConfirmedReverted, when=rules.is_permitted_version, do=rules.count_revert),
        Row(
            SETTLED,
            ConfirmationUndone,
            when=rules.was_ending_passively,
            then=State.ENDING,
            do=rules.forget_confirmation,
        ),
        Row(
            SETTLED,
            ConfirmationUndone,
            when=rules.was_issued_and_goes_on,
            then=State.ISSUED,
            do=rules.forget_confirmation,
        ),
        Row(State.CONFIRMED, ConfirmationUndone, then=State.SUBMITTED, do=rules.watch_again),
        Row(State.ID_USED, ConfirmationUndone, then=State.PENDING, do=rules.forget_confirmation),
        Row(State.CONFIRMED, ConfirmationFinal, when=rules.is_voided, then=State.REVERTED, do=rules.note_voided),
        Row(State.CONFIRMED, ConfirmationFinal, do=rules.report_confirmed),
        Row(State.ID_USED, LeafClaimed, then=State.CONFIRMED, do=rules.close_inquiry),
        Row(State.ID_USED, LeafUnclaimed, then=State.REVERTED, do=rules.close_inquiry),
        Row(OPEN, VersionsVoid, then=State.REVERTED),
        Row(State.ENDING, VoidingBegun, then=State.PENDING, do=rules.begin_anew),
        Row(PERMITTED, CancelRequested, do=rules.refuse_cancel),
        Row(OPEN, CancelRequested, then=ENDS, do=rules.accept_cancel),
        Row(ENDED, CancelRequested, do=rules.refuse_cancel),
        Row(State.PARKED, Resumed, then=State.PENDING, do=rules.resume),
        Row(KNOWN, Resumed, do=rules.refuse_resume),
        Row(State.PENDING, RetryDue, do=rules.look_for_work),
    ),
    ignored=(
        Ignored(Created, (KNOWN,), "created once"),
        *(
            Ignored(
                event,
                outside(State.PENDING, State.PARKED),
                "it is not called back: the event counts when it is Pending again",
            )
            for event in (DependencyConfirmed, DependencyReverted, PartyResolved)
        ),
        Ignored(Delegated, outside(UNPERMITTED), "it is held for its submitter, or nobody is to coordinate it"),
        Ignored(
            CoordinatorChanged,
            outside(DELEGATED),
            "it is held for its submitter, whatever the coordinator, or is not delegated",
        ),
        Ignored(AssembleRequestReceived, outside(UNDER_WAY), "the sender machine answers for it with an error"),
        *(
            Ignored(event, outside(place), "a late result changes nothing")
            for event, place in (
                (Assembled, State.ASSEMBLING),
                (AssembleRevert, State.ASSEMBLING),
                (AssemblePark, State.ASSEMBLING),
                (AssembleAndSignSuccess, State.SIGNING),
                (AssembleError, BEING_ASSEMBLED),
                (SignatureVerified, DELEGATED),
            )
        ),
        *(
            Ignored(event, (State.INITIAL,), "it is not known yet")
            for event in (DispatchConfirmationRequestReceived, Resumed)
        ),
        Ignored(CancelRequested, (State.INITIAL, State.ENDING), "it is not known yet, or the voiding answers"),
        Ignored(HoldExpired, outside(State.PENDING), "what was held has been answered"),
        Ignored(PreparedIssued, outside(UNPERMITTED), "it is issued only where no permission is out"),
        Ignored(Dispatched, (*outside(UNDER_WAY), NUMBERED), "only the chain counts there, or the nonce comes with it"),
        *(
            Ignored(event, outside(UNDER_WAY), "only the chain's word counts there")
            for event in (NonceAssigned, Submitted)
        ),
        Ignored(SubmitterSilent, outside(PERMITTED), "no permission is out"),
        Ignored(GivenUp, outside(UNDER_WAY), "it waits, ends or has its outcome meanwhile"),
        Ignored(
            Dropped, outside(UNPERMITTED), "its submitter lists it or the hold ends, or it has ended or waits here"
        ),
        Ignored(ConfirmedSuccess, outside(OPEN), "it has its outcome"),
        Ignored(ConfirmedReverted, outside(UNDER_WAY), "a failure of a version that nobody waits for"),
        Ignored(ConfirmationUndone, outside(SETTLED), "nothing was confirmed"),
        Ignored(ConfirmationFinal, outside(State.CONFIRMED), "nothing was confirmed, or the inquiry takes it"),
        *(
            Ignored(event, outside(State.ID_USED), "the leaf on the chain is gone")
            for event in (LeafClaimed, LeafUnclaimed)
        ),
        Ignored(VersionsVoid, (State.INITIAL, State.PARKED, ENDED), "it is not ending, or has ended"),
        Ignored(VoidingBegun, outside(State.ENDING), "it has gone on meanwhile"),
        Ignored(RetryDue, outside(State.PENDING), "it goes on without"),
    ),
    entry={
        State.PENDING: rules.enter_pending,
        State.PREPARED: rules.enter_prepared,
        State.ISSUED: rules.enter_waiting,
        State.PARKED: rules.enter_waiting,
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
        # Why it ends, once that is decided; `reason` below is why it waits, or what failed last.
        self.ending_reason = restored.ending_reason
        self.is_ending_recorded = restored.ending_reason is not None
        self.is_voiding = False
        self.was_voided = restored.was_voided
        self.issued = restored.issued
        self.versions = {signed.leaf: signed.valid_until_s for signed in restored.versions}
        # The machine that takes its events: itself, or one in front of it.
        is_external = restored.intent.submit_mode is SubmitMode.EXTERNAL
        self.issue = ExternalIssue(self, self) if is_external else None
        self.receiver: Machine = self.issue or self
        self.voiding: Voiding | None = None
        self.inquiry: IdInquiry | None = None
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
        is_external = self.intent.submit_mode is SubmitMode.EXTERNAL
        return is_external and not self.is_voiding and self.context.now_ms < self.sender.rests_until_ms

    @property
    def has_left_states_unused(self) -> bool:
        """It is external, a version of it may have been endorsed, and none took effect."""
        if self.intent.submit_mode is not SubmitMode.EXTERNAL or not self.void_after_s:
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
        is_external = self.intent.submit_mode is SubmitMode.EXTERNAL
        return min(self.versions.values(), default=None) if is_external else None

    def forget_expired_versions(self) -> None:
        """The chain can commit no leaf whose bound has passed in final time (trust rule 3)."""
        final_time_s = self.sender.final_time_s
        for leaf, until_s in tuple(self.versions.items()):
            if until_s < final_time_s:
                del self.versions[leaf]
                if self.intent.submit_mode is SubmitMode.EXTERNAL:
                    self.sender.note_unused()

    def _latest_bound_s(self) -> int:
        """Until when a version may be committed that our party signed before the restart.

        Who accepted an intent before leaves were recorded, in an older release, must assume that one was signed last.
        """
        if self.intent.nonce or not self.context.contract.endorsers:
            return max(self.versions.values(), default=0)
        config = self.context.config
        is_external = self.intent.submit_mode is SubmitMode.EXTERNAL
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
        return self.state in UNPERMITTED.states

    def refusable(self, leaf: Leaf) -> Transition | None:
        """What we signed of this leaf for its delegate, which has not asked for more since, and did not permit."""
        made = self.assembled
        return made if self.state in REFUSABLE and made is not None and made.leaf == leaf else None

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
    def is_waiting_to_end(self) -> bool:
        """It is Ending: its versions are to expire, or it is to be voided."""
        return self.state is State.ENDING

    @property
    def is_under_way(self) -> bool:
        """It has no outcome, and somebody is to coordinate it."""
        return self.state in UNDER_WAY.states

    @property
    def may_be_endorsed(self) -> bool:
        """A version could have been endorsed and is not void yet."""
        return self.void_after_s > 0 and self.sender.final_time_s <= self.void_after_s

    @property
    def assembled(self) -> Transition | None:
        """What was assembled last."""
        return self.result.transition if self.result is not None else None

    @property
    def pacing(self) -> Pacing:
        """How often peers have us verify something."""
        return self.sender.pacing

    def has_no_retry_left(self, outcome: LedgerOutcome) -> bool:
        """A call of the permitted leaf failed, and `revert_retry_max` retries are used up (protocol §4.2)."""
        is_used_up = self.revert_count >= self.context.config.revert_retry_max
        return is_used_up and outcome.is_counted and self.is_permitted(outcome.leaf)

    def is_permitted(self, leaf: Leaf) -> bool:
        """This is the leaf that was permitted last."""
        return self.permission is not None and self.permission.leaf == leaf

    def take_verdict(self, event: FailureJudged) -> None:
        """Our domain judged the version that failed last on our index: not worth another attempt ends the intent."""
        is_latest = event.leaf == self.skipped_leaf
        if is_latest and not event.is_worth_retrying and not self.is_ending:
            self.handle(GivenUp(self.skipped_reason))

    def verify(self, leaf: Leaf, valid_until_s: int, signature: bytes) -> RequestId:
        """Order the verification of its party's signature, of before a restart or for another coordinator."""
        request_id, intent = self.context.next_id(), self.intent
        self.held = None
        self.context.effects.append(
            VerifySignature(intent.contract, request_id, intent.id, intent.sender, leaf, valid_until_s, signature)
        )
        return request_id

    def record(self, own: Authorised) -> None:
        """Record a transition of its own."""
        self.sender.assembly.record(self, own)

    def leave_assembly(self, code: ErrorCode) -> None:
        """What is being assembled is not awaited any more."""
        self.held = None
        if self.state in BEING_ASSEMBLED.states:
            self.sender.assembly.leave(self, code)

    def refuse(self, event: DispatchConfirmationRequestReceived, code: ErrorCode) -> None:
        """Refuse a permission."""
        self.sender.refuse_dispatch(event.peer, event.request_id, self.intent.id, code)

    @property
    def is_ended(self) -> bool:
        """It has its outcome."""
        return self.state in ENDED.states

    def changed(self, previous: Enum) -> None:
        """Keep the sender's queues true to the states, and the history that `explain` shows."""
        self.sender.transaction_changed(self)
        self.since_ms = self.context.now_ms
        self.history.append((self.context.now_ms, self.state))
        if len(self.history) > self.context.config.history_max:
            del self.history[0]
