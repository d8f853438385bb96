"""A prepared transition at its sender: sent by the coordinator, verified, given to the user.

Theory of operation. An intent of submit mode `external` gets no permission and has no submitter: its endorsed
transition is sent to its sender (protocol §4.2). This machine is in front of the sender's transaction of such an
intent. The transition assembled last is taken at once; one from an earlier run, or for another
coordinator, is Verifying until the signature of our own party is verified. It is recorded, acknowledged and
given to the user: Issued. Then no coordinator has the intent; the chain, its validity and the user decide. A transition
that is not needed is acknowledged too, so that it is not sent again. The prepared transition of a `carried` intent is
Issued too, and another contract decides about it: when its validity ends, it is Awaited again, and the transaction
starts over. Events that this machine does not handle go to the transaction.
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from typing import NamedTuple, Protocol

from rota.machine.tables import Event, Front, Ignored, Machine, Row, Table, outside, superstate
from rota.model.consistency import Authorised, Consistent, consistent, is_whole
from rota.model.digests import round_digest
from rota.model.types import Intent, Leaf, NodeName, RequestId, Transition
from rota.sequencer.context import Context
from rota.sequencer.effects import ReportPrepared, TransitionIssued
from rota.sequencer.sender_transaction_events import (
    BegunAnew,
    Created,
    DispatchConfirmationRequestReceived,
    PreparedIssued,
    PreparedTransactionReceived,
    SignatureVerified,
    VersionsVoid,
)
from rota.wire.messages import ErrorCode, PreparedTransaction, PreparedTransactionAcknowledgement


class IssueState(Enum):
    """State of the prepared transition of an intent."""

    AWAITED = "Awaited"
    VERIFYING = "Verifying"
    ISSUED = "Issued"

    __hash__ = object.__hash__


SOUGHT = superstate("Sought", IssueState.AWAITED, IssueState.VERIFYING)
EVERY = superstate("Every", SOUGHT, IssueState.ISSUED)


class HeldPrepared(NamedTuple):
    """A prepared transition that waits until its endorsers' signatures are verified, or its party's."""

    peer: NodeName
    request_id: RequestId
    prepared: PreparedTransaction


class Issuable(Protocol):
    """The parts of the transaction behind it that this machine uses."""

    intent: Intent
    is_voiding: bool
    ending_reason: str | None
    issued: PreparedTransaction | None
    void_after_s: int
    reason: str

    @property
    def context(self) -> Context:
        """The context of the step."""

    @property
    def is_undispatched(self) -> bool:
        """Whether no permission is out."""

    @property
    def assembled(self) -> Transition | None:
        """The transition assembled last."""

    @property
    def to_be_carried(self) -> Transition | None:
        """The transition that another contract is to carry out."""

    def verify(self, leaf: Leaf, valid_until_s: int, signature: bytes) -> RequestId:
        """Order the verification of its party's signature."""

    def record(self, own: Authorised) -> None:
        """Record a transition of its own."""

    def leave_assembly(self, code: ErrorCode) -> None:
        """Stop the assembly under way."""

    def refuse(self, event: DispatchConfirmationRequestReceived, code: ErrorCode) -> None:
        """Refuse a request for permission."""


# Guards, in the table's order.


def is_what_we_assembled(issue: ExternalIssue, event: PreparedTransactionReceived) -> bool:
    """sound, and the very leaf that we assembled last"""
    made = issue.transaction.assembled
    return made is not None and made.leaf == event.prepared.transition.leaf and _is_wanted(issue, event.prepared)


def may_be_ours(issue: ExternalIssue, event: PreparedTransactionReceived) -> bool:
    """sound, and not being voided: from an earlier run, or for another coordinator"""
    return _is_wanted(issue, event.prepared) and is_whole(event.prepared.transition)


def bears_our_signature(issue: ExternalIssue, event: SignatureVerified) -> bool:
    """the prepared transition received bears our party's signature"""
    return event.is_ours and is_of_held(issue, event)


def is_of_held(issue: ExternalIssue, event: SignatureVerified) -> bool:
    """the verdict is on the prepared transition received last"""
    transaction, held = issue.transaction, issue.held
    is_held = held is not None and held.request_id == event.request_id
    return is_held and transaction.is_undispatched and not transaction.is_voiding


def has_no_submitter(issue: ExternalIssue, event: DispatchConfirmationRequestReceived) -> bool:
    """it is not being voided: no submitter may have it"""
    return issue.transaction.is_undispatched and not issue.transaction.is_voiding


def is_carried(issue: ExternalIssue, event: VersionsVoid) -> bool:
    """another contract was to carry it out, and has not done so in time"""
    return issue.transaction.to_be_carried is not None and goes_on(issue, event)


def goes_on(issue: ExternalIssue, event: VersionsVoid) -> bool:
    """it was not to end before"""
    return issue.transaction.ending_reason is None


# Actions, in the table's order.


def report(issue: ExternalIssue, event: Event) -> None:
    """Report the issue again after a restart, because the report may have been lost in it."""
    transaction = issue.transaction
    assert transaction.issued is not None, "only an issued transition is reported"
    transaction.context.effects.append(ReportPrepared(transaction.intent.contract, transaction.issued))


def issue_assembled(issue: ExternalIssue, event: PreparedTransactionReceived) -> None:
    """Issue it with all the states made here: the copy received lacks those that its author may not see."""
    made = issue.transaction.assembled
    assert made is not None, "what we assembled is known"
    _issue(issue, event, replace(event.prepared, transition=made))


def verify(issue: ExternalIssue, event: PreparedTransactionReceived) -> None:
    """Verify whether our party signed that leaf, before the restart or for another coordinator."""
    made = event.prepared.transition
    request_id = issue.transaction.verify(made.leaf, made.valid_until_s, made.signature)
    issue.held = HeldPrepared(event.peer, request_id, event.prepared)


def decline(issue: ExternalIssue, event: PreparedTransactionReceived | HeldPrepared) -> None:
    """Acknowledge it: this node has it already, or does not need it, so it need not be sent again."""
    acknowledgement = PreparedTransactionAcknowledgement(issue.transaction.intent.id, event.prepared.transition.leaf)
    issue.transaction.context.send(event.peer, acknowledgement)


def issue_held(issue: ExternalIssue, event: SignatureVerified) -> None:
    """Issue a version of an earlier run, or for another coordinator, as it was received."""
    held, issue.held = issue.held, None
    assert held is not None, "the guard has looked"
    # It was found consistent, and its signature was verified.
    issue.transaction.record(Authorised(Consistent(held.prepared.transition)))
    _issue(issue, held, held.prepared)


def decline_held(issue: ExternalIssue, event: SignatureVerified) -> None:
    """Not our party's signature: this node does not need it."""
    held, issue.held = issue.held, None
    assert held is not None, "the guard has looked"
    decline(issue, held)


def refuse(issue: ExternalIssue, event: DispatchConfirmationRequestReceived) -> None:
    """Refuse permission; the coordinator drops the intent."""
    issue.transaction.refuse(event, ErrorCode.WRONG_LEAF)


def begin_anew(issue: ExternalIssue, event: VersionsVoid) -> None:
    """No version can be committed any more: assemble and endorse again, and ask the other contract again."""
    transaction = issue.transaction
    transaction.issued = issue.held = None
    issue.behind.handle(BegunAnew())
    transaction.reason = "it was not carried out in time"


def expire(issue: ExternalIssue, event: VersionsVoid) -> None:
    """It was not committed in time."""
    issue.transaction.ending_reason = "the prepared transition has expired"
    issue.behind.handle(event)


def _is_wanted(issue: ExternalIssue, prepared: PreparedTransaction) -> bool:
    """Whether it is sound, as far as this node can see, and the intent waits for a prepared transition."""
    transaction, transition = issue.transaction, prepared.transition
    context = transaction.context
    return (
        transaction.is_undispatched
        and not transaction.is_voiding
        and transition.leaf in prepared.leaves
        and transition.intent == transaction.intent.id
        and consistent(context.separator, transition) is not None
        and prepared.digest == round_digest(context.separator, prepared.leaves, prepared.valid_until_s)
        and prepared.valid_until_s <= transition.valid_until_s
        and _leaves_time(context.chain_time_s, prepared)
    )


def _leaves_time(now_s: int, prepared: PreparedTransaction) -> bool:
    """Whether half of the time that the party allows is left: once issued, it has no coordinator."""
    return 2 * (prepared.valid_until_s - now_s) >= prepared.transition.valid_until_s - now_s


def _issue(
    issue: ExternalIssue, source: PreparedTransactionReceived | HeldPrepared, prepared: PreparedTransaction
) -> None:
    """Record it, acknowledge it to its coordinator and give it to its user.

    A coordinator that waits for an assembly meanwhile gets an error instead.
    """
    transaction = issue.transaction
    transaction.leave_assembly(ErrorCode.NOT_CURRENT_DELEGATE)
    transaction.issued = prepared
    transaction.context.persist(TransitionIssued(prepared, transaction.void_after_s))
    decline(issue, source)
    report(issue, PreparedIssued())
    issue.behind.handle(PreparedIssued())


TABLE = Table(
    name="External issue",
    initial=IssueState.AWAITED,
    written=(
        Row(IssueState.AWAITED, Created, then=IssueState.ISSUED, do=report),
        Row(SOUGHT, PreparedTransactionReceived, when=is_what_we_assembled, then=IssueState.ISSUED, do=issue_assembled),
        Row(SOUGHT, PreparedTransactionReceived, when=may_be_ours, then=IssueState.VERIFYING, do=verify),
        Row(EVERY, PreparedTransactionReceived, do=decline),
        Row(IssueState.VERIFYING, SignatureVerified, when=bears_our_signature, then=IssueState.ISSUED, do=issue_held),
        Row(IssueState.VERIFYING, SignatureVerified, when=is_of_held, then=IssueState.AWAITED, do=decline_held),
        Row(EVERY, DispatchConfirmationRequestReceived, when=has_no_submitter, do=refuse),
        Row(IssueState.ISSUED, VersionsVoid, when=is_carried, then=IssueState.AWAITED, do=begin_anew),
        Row(IssueState.ISSUED, VersionsVoid, when=goes_on, do=expire),
    ),
    ignored=(
        Ignored(Created, outside(IssueState.AWAITED), "created once"),
        Ignored(SignatureVerified, outside(IssueState.VERIFYING), "the verdict is on something else"),
        Ignored(VersionsVoid, (SOUGHT,), "nothing was issued"),
    ),
)


class ExternalIssue(Front):
    """The external-issue machine: the prepared transition of one external intent of this node."""

    table = TABLE
    own = (Created, PreparedTransactionReceived)

    def __init__(self, transaction: Issuable, behind: Machine) -> None:
        super().__init__(behind)
        self.transaction = transaction
        self.held: HeldPrepared | None = None
