"""An intent at its sender: permission, hold, park, cancel, dependencies, and how it ends (protocol §4.3, §8).

In all of this A sends, and at height 400 B leads, C follows, and A itself comes last.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from rota.machine.effects import IntentAccepted, IntentFinalised, Persist, Record, ReplyToUser, ReportReceipt
from rota.machine.events import CancelRequested, ConnectionLost, IntentSubmitted, ResumeRequested, Tick
from rota.model.blocks import LedgerOutcome, LedgerStatus
from rota.model.config import Config
from rota.model.types import (
    CallFailure,
    CallVerdict,
    DelegationNumber,
    HeartbeatNumber,
    Leaf,
    NodeName,
    Outcome,
    Party,
    Receipt,
    RequestId,
    Transition,
)
from rota.sequencer import sender_transaction_events as events
from rota.sequencer.effects import (
    AssembleIntents,
    EndingDecided,
    IntentParked,
    IntentResumed,
    JudgeFailure,
    LeavesSigned,
    PermissionGranted,
    VerifySignature,
)
from rota.sequencer.events import (
    AssemblyFailed,
    AssemblyFinished,
    BlocksRemoved,
    FailureJudged,
    LedgerBack,
    LedgerLost,
    OutcomesFinal,
    SignatureVerified,
    TransitionSigned,
)
from rota.sequencer.sender import State as SenderState
from rota.sequencer.sender_transaction import PERMITTED, SenderTransaction, State
from rota.sequencer.sent_intent import Permission, Restored
from rota.sequencer.sequencer import StoredContract
from rota.wire.messages import (
    Answer,
    AssembleRequest,
    AssembleResponse,
    AssemblyOutcome,
    AssemblyResult,
    CoordinatorHeartbeat,
    CoordinatorState,
    DelegationAccepted,
    DelegationCommand,
    DispatchConfirmationError,
    DispatchConfirmationRequest,
    DispatchConfirmationResponse,
    DispatchItem,
    EndorserSignature,
    ErrorCode,
    IntentAnswer,
    ListedIntent,
    Snapshot,
    SubmittedIntent,
    SubmitterHeartbeat,
    TransactionDispatched,
    TransactionReverted,
)
from tests.sequencer.kit import (
    ADDRESS,
    GENESIS_S,
    A,
    B,
    Bench,
    C,
    digest_of,
    grant_of,
    intent,
    intent_id,
    permission_of,
    signed_leaf,
    transition,
)

HEIGHT = 400
ID = intent_id("A-1")
LEAF = transition("A-1").leaf
FIRST = DelegationNumber(1, 1)
SECOND = DelegationNumber(1, 2)


# The way of one intent, step by step.


def pending() -> Bench:
    """Its first command to B is not answered."""
    bench = Bench(height=HEIGHT)
    bench.submit("A-1")
    return bench


def delegated() -> Bench:
    """With B."""
    bench = pending()
    accept(bench)
    return bench


def assembling() -> Bench:
    """B has asked for its assembly."""
    bench = delegated()
    ask_assembly(bench, 10)
    return bench


def assembled() -> Bench:
    """B has the signed transition."""
    bench = assembling()
    finish_assembly(bench, 10)
    return bench


def prepared() -> Bench:
    """B has permission to dispatch the leaf."""
    bench = assembled()
    ask_permission(bench, 20)
    bench.take(Persist)
    return bench


def submitted() -> Bench:
    """B has sent it to the chain."""
    bench = prepared()
    list_dispatched(bench, submission_count=1)
    return bench


def parked() -> Bench:
    """The domain has parked it."""
    bench = assembling()
    bench.tell(AssemblyFinished(RequestId(1, 10), ID, AssemblyOutcome.PARKED, reason="not yet"))
    bench.take(Persist)
    return bench


def restarted(
    permission: Permission | None = None,
    *,
    parked_reason: str | None = None,
    ending_reason: str | None = None,
    versions: tuple[Transition, ...] = (),
) -> Bench:
    """The second life of a node that went down with the intent under way."""
    recorded = tuple(map(signed_leaf, versions))
    found = Restored(intent("A-1"), parked_reason, permission, ending_reason, versions=recorded)
    bench = Bench(height=HEIGHT, stored=StoredContract((found,)), incarnation=2)
    bench.tell(Tick())
    return bench


def machine(bench: Bench, name: str = "A-1") -> SenderTransaction:
    return bench.sequencer.sender.transactions[intent_id(name)]


def state(bench: Bench, name: str = "A-1") -> State:
    found = machine(bench, name).state
    assert isinstance(found, State)
    return found


def is_being_voided(bench: Bench) -> bool:
    """It was decided that the intent ends, and it is delegated as an empty transition."""
    found = machine(bench)
    assert found.is_ending_recorded == found.is_ending
    return found.state is State.PENDING and found.is_voiding


def is_pending_and_goes_on(bench: Bench) -> bool:
    """Nothing was decided of its end: what is delegated is the intent itself."""
    found = machine(bench)
    return found.state is State.PENDING and not (found.is_ending or found.is_voiding)


def is_known(bench: Bench, name: str = "A-1") -> bool:
    """The sender has the intent in memory: one that was reverted leaves it in the same step."""
    return intent_id(name) in bench.sequencer.sender.transactions


def doing(bench: Bench) -> SenderState:
    """What the sender as a whole is doing."""
    found = bench.sequencer.sender.state
    assert isinstance(found, SenderState)
    return found


def accept(bench: Bench, peer: NodeName = B, answer: Answer = Answer.ACCEPTED, reason: str = "") -> None:
    """A node answers our open command."""
    command = bench.sequencer.sender.command
    assert command is not None
    answers = tuple(IntentAnswer(one, answer, reason) for one in command.intents)
    bench.hear(peer, DelegationAccepted(command.command_id, answers, HeartbeatNumber(1, 1)), height=HEIGHT)


def beat(bench: Bench, peer: NodeName, sequence: int, *names: str) -> None:
    """A live coordinator's heartbeat, which lists these intents of ours."""
    listed = tuple(ListedIntent(intent_id(name), "Pooled") for name in names)
    number = HeartbeatNumber(1, sequence)
    bench.hear(peer, CoordinatorHeartbeat(number, CoordinatorState.ACTIVE, listed), height=HEIGHT)


def ask_assembly(bench: Bench, counter: int, peer: NodeName = B) -> None:
    bench.hear(peer, AssembleRequest(RequestId(1, counter), (ID,), Snapshot()), height=HEIGHT)


def finish_assembly(bench: Bench, counter: int, version: int = 0, valid_until_s: int = GENESIS_S + 600) -> None:
    """The domain has assembled it and the party has signed it."""
    made = transition("A-1", version=version, valid_until_s=valid_until_s, signature=b"")
    bench.tell(AssemblyFinished(RequestId(1, counter), ID, AssemblyOutcome.ASSEMBLED, made))
    bench.tell(TransitionSigned(RequestId(1, counter), ID, b"signed"))
    bench.take(Persist)


def ask_permission(
    bench: Bench,
    counter: int,
    *,
    peer: NodeName = B,
    number: DelegationNumber = FIRST,
    version: int = 0,
    with_states: bool = False,
) -> None:
    """A coordinator asks for permission to dispatch a leaf of the intent."""
    made = transition("A-1", version=version)
    states = made if with_states else None
    item = DispatchItem(ID, number, made.leaf, made.signature, made.valid_until_s, states)
    bench.hear(peer, DispatchConfirmationRequest(RequestId(1, counter), digest_of(made.leaf), (item,)), height=HEIGHT)


def verified(bench: Bench, counter: int, *, is_ours: bool = True) -> None:
    """The signer has looked at the signature of the leaf that was asked for under this id."""
    known = bench.sequencer.sender.transactions.get(ID)
    held = known.held if known is not None else None
    asked = held.verified_as if held is not None and held.request_id == RequestId(1, counter) else None
    bench.tell(SignatureVerified(asked or RequestId(1, counter), ID, is_ours))


def list_dispatched(
    bench: Bench, *, peer: NodeName = B, submission_count: int = 0, leaf: Leaf = LEAF, nonce: int = 7
) -> None:
    """The submitter lists it."""
    entry = SubmittedIntent(ID, leaf, "0xb", nonce, submission_count)
    bench.hear(peer, SubmitterHeartbeat(HeartbeatNumber(1, 1), (entry,)), height=HEIGHT)


def give_up(
    bench: Bench,
    number: DelegationNumber = FIRST,
    *,
    leaf: Leaf = LEAF,
    reason: str = "refused by all",
    endorsers: Sequence[NodeName] | None = None,
    signature: bytes = b"refused",
) -> None:
    """Its coordinator gives it up, with the refusals of these endorsers, or of all."""
    refusals = tuple(
        EndorserSignature(each, signature) for each in (bench.of.endorsers if endorsers is None else endorsers)
    )
    bench.hear(B, TransactionReverted(ID, number, leaf, reason, refusals), height=HEIGHT)


def fail_for_good(bench: Bench) -> None:
    """A call of the permitted version failed on our own index, and our own domain finds no retry worth it."""
    bench.block(HEIGHT, outcome(LedgerStatus.SKIPPED))
    (order,) = bench.take(JudgeFailure)
    bench.tell(FailureJudged(ID, order.leaf, is_worth_retrying=False))


def outcome(
    status: LedgerStatus = LedgerStatus.COMMITTED, *, version: int = 0, contention: bool = False
) -> LedgerOutcome:
    leaf = transition("A-1", version=version).leaf
    return LedgerOutcome(ID, leaf, digest_of(leaf), status, "input spent", contention)


def final_at(bench: Bench, height: int, time_s: int) -> None:
    """The chain is final up to this time."""
    bench.block(height, time_s=time_s)
    bench.tell(OutcomesFinal(time_s, ()))


def records(bench: Bench) -> list[Record]:
    """What is to be written."""
    return [record for effect in bench.effects if isinstance(effect, Persist) for record in effect.records]


def permitted(bench: Bench) -> list[tuple[RequestId, NodeName]]:
    """Which requests have been answered with permission."""
    return [
        (message.request_id, peer)
        for peer in (A, B, C)
        for message in bench.said(DispatchConfirmationResponse, peer)
        if ID in message.intents
    ]


def refusals(bench: Bench, peer: NodeName = B) -> list[ErrorCode]:
    """Why permission was refused, so far."""
    return [error.code for message in bench.said(DispatchConfirmationError, peer) for error in message.errors]


def numbers(bench: Bench, to: NodeName) -> list[DelegationNumber]:
    """The numbers with which the intent was delegated to a node."""
    return [
        delegation.number
        for command in bench.said(DelegationCommand, to)
        for delegation in command.delegations
        if delegation.intent.id == ID
    ]


def reverted(reason: str) -> Receipt:
    return Receipt(ID, Outcome.REVERTED, reason)


# Permission.


def test_permission_is_recorded_before_its_answer_in_the_same_step() -> None:
    bench = assembled()
    bench.forget()
    ask_permission(bench, 20)
    assert state(bench) is State.PREPARED
    assert bench.effects[0] == Persist(ADDRESS, (grant_of(FIRST, B, transition("A-1")),))
    assert records(bench) == [grant_of(FIRST, B, transition("A-1"))]
    assert permitted(bench) == [(RequestId(1, 20), B)]
    assert refusals(bench) == []


def test_repeated_request_for_the_permitted_leaf_gets_the_same_answer_and_nothing_is_written_again() -> None:
    bench = prepared()
    ask_permission(bench, 20)
    ask_permission(bench, 21)
    assert permitted(bench) == [(RequestId(1, 20), B)] * 2 + [(RequestId(1, 21), B)]
    assert records(bench) == []


def test_second_leaf_under_the_same_number_is_refused() -> None:
    bench = prepared()
    ask_permission(bench, 21, version=1)
    assert refusals(bench) == [ErrorCode.WRONG_LEAF]
    assert permitted(bench) == [(RequestId(1, 20), B)]


def test_second_leaf_is_refused_under_the_same_number_even_after_the_first_was_skipped() -> None:
    bench = prepared()
    bench.block(HEIGHT + 1, outcome(LedgerStatus.SKIPPED))
    machine(bench).result = None
    ask_permission(bench, 21, version=1, with_states=True)
    assert refusals(bench) == [ErrorCode.WRONG_LEAF]
    assert bench.take(VerifySignature) == []


def test_leaf_that_was_not_assembled_for_this_delegation_is_refused() -> None:
    bench = assembled()
    ask_permission(bench, 20, version=1)
    assert refusals(bench) == [ErrorCode.WRONG_LEAF]
    assert state(bench) is State.ENDORSEMENT_GATHERING


@pytest.mark.parametrize("way", [assembled, prepared])
def test_request_with_a_lower_number_is_stale(way: Callable[[], Bench]) -> None:
    bench = way()
    ask_permission(bench, 21, number=DelegationNumber(1, 0))
    assert refusals(bench) == [ErrorCode.STALE_DELEGATION]


@pytest.mark.parametrize("way", [assembled, prepared])
def test_request_of_another_than_the_delegate_is_refused(way: Callable[[], Bench]) -> None:
    bench = way()
    ask_permission(bench, 21, peer=C)
    assert refusals(bench, C) == [ErrorCode.NOT_CURRENT_DELEGATE]
    assert all(peer == B for _, peer in permitted(bench))


def test_permitted_leaf_is_permitted_to_nobody_else_even_after_it_was_skipped() -> None:
    bench = prepared()
    bench.block(HEIGHT + 1, outcome(LedgerStatus.SKIPPED))
    ask_permission(bench, 21, peer=C)
    assert refusals(bench, C) == [ErrorCode.NOT_CURRENT_DELEGATE]
    assert records(bench) == []


def test_nothing_is_permitted_that_a_reorganisation_has_brought_back_without_permission() -> None:
    bench = assembled()
    bench.block(HEIGHT + 1, outcome())
    bench.tell(BlocksRemoved(HEIGHT, (outcome(),)))
    assert state(bench) is State.SUBMITTED
    ask_permission(bench, 20)
    assert permitted(bench) == []
    assert refusals(bench) == [ErrorCode.WRONG_LEAF]


# The number of a delegation.


def test_number_grows_when_the_delegate_asks_to_assemble_what_it_has_permission_for() -> None:
    bench = prepared()
    ask_assembly(bench, 11)
    assert state(bench) is State.ASSEMBLING
    finish_assembly(bench, 11, version=1)
    assert bench.said(AssembleResponse, B)[-1].results[0].number == SECOND
    ask_permission(bench, 21, number=FIRST, version=1)
    assert refusals(bench) == [ErrorCode.STALE_DELEGATION]
    ask_permission(bench, 22, number=SECOND, version=1)
    assert permitted(bench)[-1] == (RequestId(1, 22), B)


def test_copy_of_the_permitted_leafs_assembly_request_changes_nothing() -> None:
    bench = prepared()
    ask_assembly(bench, 10)
    ask_assembly(bench, 9)
    assert state(bench) is State.PREPARED
    assert machine(bench).number == FIRST


def test_number_stays_when_nothing_was_permitted_under_it() -> None:
    bench = assembled()
    ask_assembly(bench, 11)
    finish_assembly(bench, 11)
    assert bench.said(AssembleResponse, B)[-1].results[0].number == FIRST


def test_number_grows_once_for_one_permission() -> None:
    bench = prepared()
    ask_assembly(bench, 11)
    ask_assembly(bench, 12)
    assert machine(bench).number == SECOND


def test_leaf_of_an_earlier_number_is_not_permitted_again_while_it_is_assembled_anew() -> None:
    bench = prepared()
    ask_assembly(bench, 11)
    ask_permission(bench, 21, number=FIRST)
    assert refusals(bench) == [ErrorCode.STALE_DELEGATION]
    assert bench.take(VerifySignature) == []


def granted_leaves(bench: Bench) -> dict[DelegationNumber, list[Leaf]]:
    """What was ever to be written as permission_of, by the number of its delegation."""
    found: dict[DelegationNumber, list[Leaf]] = {}
    for record in records(bench):
        if isinstance(record, PermissionGranted):
            found.setdefault(record.number, []).append(record.leaf)
    return found


def delegated_again_after_silence() -> Bench:
    """It is permitted, its submitter was silent, and B has it once more, under the same number."""
    bench = prepared()
    bench.wait(bench.config.submitter_grace_ms)
    accept(bench)
    assert (state(bench), machine(bench).number) == (State.DELEGATED, FIRST)
    return bench


def test_permission_under_the_current_number_is_given_again_without_a_second_record() -> None:
    bench = delegated_again_after_silence()
    bench.forget()
    ask_permission(bench, 30)
    assert records(bench) == []
    assert state(bench) is State.PREPARED
    assert permitted(bench) == [(RequestId(1, 30), B)]


def test_no_number_has_two_permissions_when_the_first_was_asked_for_again() -> None:
    """Seed 27 (S4): the sender forgot that it had permitted a leaf under that number."""
    bench = delegated_again_after_silence()
    ask_permission(bench, 30)
    ask_assembly(bench, 31)
    finish_assembly(bench, 31, version=1)
    assert bench.said(AssembleResponse, B)[-1].results[0].number == SECOND
    ask_permission(bench, 32, number=FIRST, version=1)
    assert refusals(bench) == [ErrorCode.STALE_DELEGATION]
    bench.forget()
    ask_permission(bench, 33, number=SECOND, version=1)
    assert granted_leaves(bench) == {SECOND: [transition("A-1", version=1).leaf]}
    assert permitted(bench) == [(RequestId(1, 33), B)]


def test_new_delegate_gets_a_greater_number_and_what_the_old_one_had_assembled_is_forgotten() -> None:
    bench = assembled()
    bench.tell(ConnectionLost(B))
    assert numbers(bench, C) == [SECOND]
    accept(bench, C)
    ask_permission(bench, 21, peer=C, number=SECOND)
    assert permitted(bench) == []
    assert len(bench.take(VerifySignature)) == 1


def test_delegating_again_to_the_same_delegate_keeps_the_number_and_what_was_assembled() -> None:
    bench = assembled()
    beat(bench, B, 2)
    assert is_pending_and_goes_on(bench)
    assert numbers(bench, B)[-1] == FIRST
    accept(bench, B, Answer.HELD)
    ask_permission(bench, 20)
    assert permitted(bench) == [(RequestId(1, 20), B)]


# After a restart of the sender.


def test_restarted_sender_has_the_signature_of_an_earlier_leaf_verified_and_grants_it() -> None:
    bench = restarted()
    accept(bench)
    ask_permission(bench, 20, with_states=True)
    made = transition("A-1")
    [asked] = bench.take(VerifySignature)
    own = asked.request_id
    assert own != RequestId(1, 20), "the verdict is matched by an id of our own"
    assert asked == VerifySignature(ADDRESS, own, ID, Party("a@A"), made.leaf, made.valid_until_s, made.signature)
    assert state(bench) is State.DELEGATED
    verified(bench, 20)
    assert state(bench) is State.PREPARED
    recorded = [LeavesSigned((made,)), grant_of(DelegationNumber(2, 1), B, made)]
    assert records(bench) == recorded, "its record may be lost"
    assert permitted(bench) == [(RequestId(1, 20), B)]
    assert bench.take(AssembleIntents) == []
    assert machine(bench).versions == {made.leaf: made.valid_until_s}


def test_restarted_sender_that_lost_the_states_asks_for_them() -> None:
    bench = restarted()
    accept(bench)
    ask_permission(bench, 20)
    verified(bench, 20)
    assert refusals(bench) == [ErrorCode.STATES_MISSING]
    assert state(bench) is State.DELEGATED
    ask_permission(bench, 21, with_states=True)
    verified(bench, 21)
    assert permitted(bench) == [(RequestId(1, 21), B)]


def test_restarted_sender_uses_the_states_that_it_kept() -> None:
    made = transition("A-1")
    bench = restarted(permission_of(FIRST, B, made), versions=(made,))
    accept(bench)
    ask_permission(bench, 20)
    verified(bench, 20)
    assert refusals(bench) == []
    assert records(bench) == [grant_of(DelegationNumber(2, 1), B, made)]
    assert permitted(bench) == [(RequestId(1, 20), B)]


def test_restarted_sender_permits_what_its_party_signed_without_being_shown_the_states() -> None:
    made = transition("A-1")
    bench = restarted(versions=(made,))
    accept(bench)
    ask_permission(bench, 20)
    verified(bench, 20)
    assert records(bench) == [grant_of(DelegationNumber(2, 1), B, made)]


def test_leaf_that_our_disk_has_until_an_earlier_time_is_recorded_anew_before_it_is_permitted() -> None:
    """Else the intent could be reported as reverted while this version may still be committed."""
    made = transition("A-1")
    bench = restarted(versions=(replace(made, valid_until_s=made.valid_until_s - 1),))
    accept(bench)
    ask_permission(bench, 20)
    verified(bench, 20)
    assert refusals(bench) == [ErrorCode.STATES_MISSING]
    ask_permission(bench, 21, with_states=True)
    verified(bench, 21)
    assert records(bench) == [LeavesSigned((made,)), grant_of(DelegationNumber(2, 1), B, made)]
    assert machine(bench).void_after_s == made.valid_until_s


def test_states_of_another_leaf_that_the_restarted_sender_kept_do_not_count() -> None:
    bench = restarted(permission_of(FIRST, B, transition("A-1", version=1)))
    accept(bench)
    ask_permission(bench, 20)
    verified(bench, 20)
    assert refusals(bench) == [ErrorCode.STATES_MISSING]


@pytest.mark.parametrize("with_states", [True, False])
def test_leaf_that_does_not_bear_our_signature_is_refused(with_states: bool) -> None:
    bench = restarted()
    accept(bench)
    ask_permission(bench, 20, with_states=with_states)
    verified(bench, 20, is_ours=False)
    assert refusals(bench) == [ErrorCode.WRONG_LEAF]
    assert state(bench) is State.DELEGATED


def test_second_verdict_on_one_request_changes_nothing() -> None:
    bench = restarted()
    accept(bench)
    ask_permission(bench, 20)
    verified(bench, 20)
    verified(bench, 20)
    assert refusals(bench) == [ErrorCode.STATES_MISSING]


def test_verdict_on_an_intent_that_has_gone_changes_nothing() -> None:
    bench = Bench(height=HEIGHT)
    verified(bench, 20)
    assert bench.effects == []


def test_request_that_reaches_a_restarted_sender_early_is_answered_when_its_delegation_is_accepted() -> None:
    bench = restarted()
    ask_permission(bench, 20, with_states=True)
    assert refusals(bench) == []
    assert bench.take(VerifySignature) == []
    bench.wait(999)
    accept(bench)
    assert len(bench.take(VerifySignature)) == 1
    verified(bench, 20)
    assert permitted(bench) == [(RequestId(1, 20), B)]


def test_request_is_held_no_longer_than_a_request_lasts() -> None:
    bench = restarted()
    bench.wait(500)
    ask_permission(bench, 20, with_states=True)
    bench.wait(499)
    accept(bench, answer=Answer.FULL)
    bench.wait(501)
    beat(bench, B, 2)
    accept(bench)
    assert state(bench) is State.DELEGATED
    assert bench.take(VerifySignature) == []
    assert refusals(bench) == []


def test_held_request_is_refused_when_the_intent_was_delegated_elsewhere() -> None:
    bench = restarted()
    ask_permission(bench, 20, with_states=True)
    bench.tell(ConnectionLost(B))
    accept(bench, C)
    assert refusals(bench) == [ErrorCode.NOT_CURRENT_DELEGATE]
    assert bench.take(VerifySignature) == []


def test_request_is_refused_at_once_when_the_intent_is_delegated_elsewhere() -> None:
    bench = pending()
    ask_permission(bench, 20, peer=C)
    assert refusals(bench, C) == [ErrorCode.NOT_CURRENT_DELEGATE]


def test_restarted_sender_remembers_what_it_permitted() -> None:
    bench = restarted(permission_of(FIRST, B, transition("A-1")))
    assert is_pending_and_goes_on(bench)
    list_dispatched(bench, submission_count=1)
    assert state(bench) is State.SUBMITTED
    ask_permission(bench, 20)
    assert permitted(bench) == [(RequestId(1, 20), B)]


# Dispatched, sequenced, submitted: held for the submitter.


def test_submitter_tells_how_far_it_is() -> None:
    bench = prepared()
    machine(bench).handle(events.Dispatched(LEAF))
    assert state(bench) is State.DISPATCHED
    list_dispatched(bench)
    assert state(bench) is State.SEQUENCED
    assert machine(bench).signer_and_nonce == ("0xb", 7)
    list_dispatched(bench, submission_count=1, nonce=8)
    assert state(bench) is State.SUBMITTED
    assert machine(bench).signer_and_nonce == ("0xb", 8)
    list_dispatched(bench)
    assert state(bench) is State.SUBMITTED


def test_submission_may_be_heard_of_before_everything_else() -> None:
    bench = prepared()
    machine(bench).handle(events.Submitted(LEAF))
    assert state(bench) is State.SUBMITTED
    machine(bench).handle(events.NonceAssigned(LEAF, "0xb", 7))
    machine(bench).handle(events.Dispatched(LEAF))
    assert state(bench) is State.SUBMITTED


def test_dispatch_of_another_leaf_does_not_count() -> None:
    bench = prepared()
    list_dispatched(bench, leaf=transition("A-1", version=1).leaf, submission_count=1)
    assert state(bench) is State.PREPARED


@pytest.mark.parametrize("way", [prepared, submitted])
def test_intent_is_delegated_anew_when_its_submitter_has_been_silent_for_its_grace(way: Callable[[], Bench]) -> None:
    bench = way()
    bench.forget()
    bench.wait(3_999)
    assert state(bench) in PERMITTED.states
    bench.wait(1)
    assert is_pending_and_goes_on(bench)
    assert numbers(bench, B)[0] == FIRST


def test_every_listing_prolongs_the_hold() -> None:
    bench = prepared()
    for _ in range(5):
        bench.wait(3_999)
        list_dispatched(bench)
    assert state(bench) is State.SEQUENCED
    bench.wait(3_999)
    list_dispatched(bench, submission_count=1)
    bench.wait(3_999)
    assert state(bench) is State.SUBMITTED


def test_intent_is_held_while_our_own_index_is_behind() -> None:
    bench = prepared()
    bench.tell(LedgerLost())
    bench.wait(11_999)
    assert state(bench) is State.PREPARED
    bench.tell(LedgerBack())
    bench.wait(1)
    assert is_pending_and_goes_on(bench)


def test_held_intent_stays_whatever_becomes_of_the_coordinator_or_the_range() -> None:
    bench = prepared()
    bench.forget()
    bench.tell(ConnectionLost(B))
    bench.block(700)
    beat(bench, C, 1)
    assert state(bench) is State.PREPARED
    assert bench.said(DelegationCommand) == []


def test_submitter_that_lists_an_intent_again_gets_it_back() -> None:
    bench = submitted()
    bench.wait(4_000)
    assert is_pending_and_goes_on(bench)
    list_dispatched(bench, submission_count=1)
    assert state(bench) is State.SUBMITTED


# The ledger's word.


@pytest.mark.parametrize("way", [pending, delegated, assembling, assembled, prepared, submitted, parked])
def test_confirmation_counts_in_any_state_and_is_reported_when_it_is_final(way: Callable[[], Bench]) -> None:
    bench = way()
    bench.signed(transition("A-1", version=3))
    bench.block(HEIGHT + 1, outcome(version=3))
    assert state(bench) is State.CONFIRMED
    assert bench.take(ReportReceipt) == []
    bench.tell(OutcomesFinal(GENESIS_S, (outcome(version=3),)))
    leaf = transition("A-1", version=3).leaf
    assert bench.take(ReportReceipt) == [ReportReceipt(Receipt(ID, Outcome.CONFIRMED, leaf=leaf))]
    assert bench.sequencer.sender.transactions == {}


def test_confirmed_intent_is_held_for_no_submitter() -> None:
    bench = submitted()
    bench.block(HEIGHT + 1, outcome())
    bench.wait(10_000)
    assert state(bench) is State.CONFIRMED


def test_reorganisation_makes_a_confirmed_intent_submitted_again_and_holds_it() -> None:
    bench = submitted()
    bench.block(HEIGHT + 1, outcome())
    bench.tell(BlocksRemoved(HEIGHT, (outcome(),)))
    assert state(bench) is State.SUBMITTED
    bench.forget()
    bench.wait(4_000)
    assert is_pending_and_goes_on(bench)
    assert bench.said(DelegationCommand, B) != []
    bench.signed(transition("A-1", version=1))
    bench.block(HEIGHT + 2, outcome(version=1))
    bench.tell(OutcomesFinal(GENESIS_S, (outcome(version=1),)))
    (report,) = bench.take(ReportReceipt)
    assert report.receipt.leaf == transition("A-1", version=1).leaf


@pytest.mark.parametrize("status", [LedgerStatus.SKIPPED, LedgerStatus.REVERTED])
def test_skip_makes_a_permitted_intent_delegated_again_even_when_the_dispatch_is_heard_of_later(
    status: LedgerStatus,
) -> None:
    bench = prepared()
    bench.block(HEIGHT + 1, outcome(status))
    assert state(bench) is State.DELEGATED
    entry = SubmittedIntent(ID, LEAF, "0xb", 7, 1)
    bench.hear(B, TransactionDispatched(digest_of(LEAF), (entry,)), height=HEIGHT)
    list_dispatched(bench, submission_count=2)
    assert state(bench) is State.DELEGATED
    bench.wait(600)
    assert machine(bench).number == FIRST


def test_skip_of_a_version_that_nobody_waits_for_changes_nothing() -> None:
    bench = prepared()
    bench.block(HEIGHT + 1, outcome(LedgerStatus.SKIPPED, version=1))
    assert state(bench) is State.PREPARED
    bench = assembled()
    bench.block(HEIGHT + 1, outcome(LedgerStatus.SKIPPED))
    assert state(bench) is State.ENDORSEMENT_GATHERING


def test_skipped_intent_begins_a_new_lease_at_its_coordinator() -> None:
    bench = prepared()
    for sequence in range(2, 7):
        bench.wait(700)
        beat(bench, B, sequence)
    bench.block(HEIGHT + 1, outcome(LedgerStatus.SKIPPED))
    bench.forget()
    bench.wait(700)
    assert state(bench) is State.DELEGATED
    assert bench.said(DelegationCommand) == []
    beat(bench, B, 7, "A-1")
    bench.wait(700)
    assert state(bench) is State.DELEGATED
    beat(bench, B, 8)
    assert is_pending_and_goes_on(bench)


def test_lease_moves_a_skipped_intent_whose_coordinator_is_gone() -> None:
    bench = prepared()
    beat(bench, B, 5)
    bench.block(HEIGHT + 1, outcome(LedgerStatus.SKIPPED))
    bench.forget()
    bench.wait(1_500)
    assert numbers(bench, C) == [SECOND]


def test_lease_moves_what_was_skipped_after_a_reorganisation() -> None:
    bench = submitted()
    bench.block(HEIGHT + 1, outcome())
    assert doing(bench) is SenderState.IDLE
    bench.tell(BlocksRemoved(HEIGHT, (outcome(),)))
    assert doing(bench) is SenderState.SENDING
    bench.block(HEIGHT + 1, outcome(LedgerStatus.SKIPPED))
    assert state(bench) is State.DELEGATED
    bench.forget()
    bench.tell(ConnectionLost(B))
    assert numbers(bench, C) == [SECOND]


def test_sender_that_rested_asks_its_silent_delegate_for_what_was_skipped_after_a_reorganisation() -> None:
    """`rota simulate --seed 122 --minutes 0.5 --domain noto`: nothing but a new intent made it look again."""
    bench = submitted()
    bench.block(HEIGHT + 1, outcome())
    bench.tell(BlocksRemoved(HEIGHT, (outcome(),)))
    bench.block(HEIGHT + 1, outcome(LedgerStatus.SKIPPED))
    bench.forget()
    bench.wait(Config().silence_ms)
    assert [command.delegations[0].intent.id for command in bench.said(DelegationCommand, B)][:1] == [ID]


def test_failure_that_our_domain_finds_not_worth_retrying_ends_the_intent() -> None:
    bench = submitted()
    fail_for_good(bench)
    assert is_being_voided(bench)
    assert records(bench) == [EndingDecided(ID, "input spent")]
    bench.take(Persist)
    final_at(bench, HEIGHT + 2, GENESIS_S + 601)
    assert records(bench) == [IntentFinalised(reverted("input spent"))]


def test_domain_is_asked_once_about_each_version_whose_call_failed_and_may_have_it_retried() -> None:
    bench = submitted()
    failure = CallFailure(1, None, CallVerdict.REFUSED, b"no")
    for _ in range(2):
        bench.block(HEIGHT + 1, replace(outcome(LedgerStatus.SKIPPED), failure=failure))
    (order,) = bench.take(JudgeFailure)
    assert (order.intent.id, order.leaf, order.failure) == (ID, LEAF, failure)
    bench.tell(FailureJudged(ID, LEAF, is_worth_retrying=True))
    assert state(bench) is State.DELEGATED


@pytest.mark.parametrize(
    "failed",
    [
        outcome(LedgerStatus.SKIPPED, contention=True),
        outcome(LedgerStatus.REVERTED),
        outcome(LedgerStatus.REVERTED, contention=True),
    ],
    ids=["contention", "whole transaction", "nonce taken"],
)
def test_domain_is_not_asked_about_contention_nor_about_reverts_of_whole_transactions(failed: LedgerOutcome) -> None:
    bench = submitted()
    bench.block(HEIGHT + 1, failed)
    assert bench.take(JudgeFailure) == []
    assert (state(bench), machine(bench).revert_count) == (State.DELEGATED, 0)
    bench.tell(FailureJudged(ID, transition("A-1", version=7).leaf, is_worth_retrying=False))
    assert state(bench) is State.DELEGATED, "a verdict on another version"


def test_verdict_on_an_intent_that_is_gone_or_ends_already_changes_nothing() -> None:
    bench = submitted()
    bench.tell(FailureJudged(intent_id("A-9"), LEAF, is_worth_retrying=False))
    fail_for_good(bench)
    bench.forget()
    bench.tell(FailureJudged(ID, LEAF, is_worth_retrying=False))
    assert is_being_voided(bench)
    assert records(bench) == []


def test_reverts_of_whole_transactions_never_end_an_intent() -> None:
    bench = prepared()
    for version in range(1, 9):
        bench.block(HEIGHT + version, outcome(LedgerStatus.REVERTED, version=version - 1))
        assert state(bench) is State.DELEGATED
        ask_assembly(bench, 10 + version)
        finish_assembly(bench, 10 + version, version=version)
        ask_permission(bench, 30 + version, number=DelegationNumber(1, 1 + version), version=version)
    assert machine(bench).revert_count == 0


def test_first_failed_call_ends_an_intent_whose_node_allows_no_retry() -> None:
    bench = submitted()
    bench.sequencer.context.config = Config(revert_retry_max=0)
    bench.block(HEIGHT + 1, outcome(LedgerStatus.SKIPPED))
    assert records(bench) == [EndingDecided(ID, "input spent")]
    assert is_being_voided(bench)
    assert bench.take(JudgeFailure) == []


def test_intent_ends_when_its_retries_are_used_up() -> None:
    bench = prepared()
    for version in range(1, 4):
        bench.block(HEIGHT + version, outcome(LedgerStatus.SKIPPED, version=version - 1))
        assert state(bench) is State.DELEGATED
        ask_assembly(bench, 10 + version)
        finish_assembly(bench, 10 + version, version=version)
        ask_permission(bench, 20 + version, number=DelegationNumber(1, 1 + version), version=version)
    bench.take(Persist)
    bench.block(HEIGHT + 4, outcome(LedgerStatus.SKIPPED, version=3, contention=True))
    assert state(bench) is State.DELEGATED
    bench.block(HEIGHT + 5, outcome(LedgerStatus.SKIPPED, version=3))
    assert is_being_voided(bench)
    assert records(bench) == [EndingDecided(ID, "input spent")]


def test_failure_whose_block_is_indexed_again_counts_once() -> None:
    bench = submitted()
    failed = outcome(LedgerStatus.SKIPPED)
    for _ in range(2):
        bench.block(HEIGHT + 1, failed)
        bench.tell(BlocksRemoved(HEIGHT, (failed,)))
    assert machine(bench).revert_count == 1


def test_revert_after_the_hold_was_released_is_counted_and_the_intent_goes_on_where_it_is() -> None:
    bench = submitted()
    bench.wait(4_000)
    bench.tell(ConnectionLost(B))
    accept(bench, C)
    bench.block(HEIGHT + 1, outcome(LedgerStatus.SKIPPED))
    assert state(bench) is State.DELEGATED
    assert machine(bench).delegate == C
    list_dispatched(bench, submission_count=1)
    assert state(bench) is State.DELEGATED, "what failed is not under way"
    bench.tell(ConnectionLost(C))
    (delegation,) = bench.said(DelegationCommand, B)[-1].delegations
    assert (delegation.number, delegation.revert_count) == (DelegationNumber(1, 3), 1)


def test_contention_after_the_hold_was_released_is_not_counted() -> None:
    bench = submitted()
    bench.wait(4_000)
    bench.block(HEIGHT + 1, outcome(LedgerStatus.SKIPPED, contention=True))
    assert is_pending_and_goes_on(bench)
    bench.forget()
    bench.tell(ConnectionLost(B))
    (command,) = bench.said(DelegationCommand, C)
    assert command.delegations[0].revert_count == 0


def test_revert_that_cannot_be_retried_ends_the_intent_even_after_the_hold_was_released() -> None:
    bench = submitted()
    bench.wait(4_000)
    assert is_pending_and_goes_on(bench)
    assert not is_being_voided(bench)
    fail_for_good(bench)
    assert is_being_voided(bench)
    assert records(bench) == [EndingDecided(ID, "input spent")]


def test_reverts_are_counted_and_travel_but_contention_does_not_count() -> None:
    bench = prepared()
    bench.block(HEIGHT + 1, outcome(LedgerStatus.SKIPPED, contention=True))
    ask_assembly(bench, 11)
    finish_assembly(bench, 11, version=1)
    ask_permission(bench, 21, number=SECOND, version=1)
    bench.block(HEIGHT + 2, outcome(LedgerStatus.SKIPPED, version=1))
    bench.tell(ConnectionLost(B))
    (command,) = bench.said(DelegationCommand, C)
    assert command.delegations[0].revert_count == 1


# Given up.


@pytest.mark.parametrize(
    ("way", "end", "reason"),
    [
        (assembled, give_up, "refused by all"),
        (prepared, fail_for_good, "input spent"),
        (submitted, fail_for_good, "input spent"),
    ],
)
def test_intent_that_may_be_endorsed_ends_only_when_every_version_is_void(
    way: Callable[[], Bench], end: Callable[[Bench], None], reason: str
) -> None:
    bench = way()
    end(bench)
    assert records(bench) == [EndingDecided(ID, reason)]
    bench.take(Persist)
    final_at(bench, HEIGHT + 1, GENESIS_S + 600)
    bench.block(HEIGHT + 2, time_s=GENESIS_S + 601)
    assert is_being_voided(bench), "what is not final may be taken back"
    assert records(bench) == []
    bench.tell(OutcomesFinal(GENESIS_S + 601, ()))
    assert records(bench) == [IntentFinalised(reverted(reason))]


def test_latest_version_decides_when_all_are_void() -> None:
    bench = assembling()
    finish_assembly(bench, 10, valid_until_s=GENESIS_S + 900)
    ask_assembly(bench, 11)
    finish_assembly(bench, 11, version=1, valid_until_s=GENESIS_S + 300)
    give_up(bench, leaf=transition("A-1", version=1).leaf)
    final_at(bench, HEIGHT + 1, GENESIS_S + 900)
    assert is_being_voided(bench)
    assert bench.take(ReportReceipt) == []
    final_at(bench, HEIGHT + 2, GENESIS_S + 901)
    assert bench.take(ReportReceipt) == [ReportReceipt(reverted("refused by all"))]
    assert not is_known(bench)


def test_what_is_void_already_is_reverted_at_once() -> None:
    bench = assembled()
    final_at(bench, HEIGHT + 1, GENESIS_S + 601)
    give_up(bench)
    assert records(bench) == [EndingDecided(ID, "refused by all"), IntentFinalised(reverted("refused by all"))]
    assert bench.take(ReportReceipt) == [ReportReceipt(reverted("refused by all"))]
    assert not is_known(bench)


def test_ending_intent_is_confirmed_when_a_version_lands_after_all() -> None:
    bench = submitted()
    fail_for_good(bench)
    bench.block(HEIGHT + 1, outcome())
    final_at(bench, HEIGHT + 2, GENESIS_S + 601)
    assert state(bench) is State.CONFIRMED
    assert records(bench) == [EndingDecided(ID, "input spent")]
    assert bench.take(ReportReceipt) == []


def test_ending_intent_gets_no_permission() -> None:
    bench = assembled()
    give_up(bench)
    ask_permission(bench, 20)
    assert refusals(bench) == [ErrorCode.CANCELLED]


def test_ended_intent_gets_no_permission() -> None:
    bench = submitted()
    bench.block(HEIGHT + 1, outcome())
    ask_permission(bench, 21)
    assert refusals(bench) == [ErrorCode.FINAL_INTENT]


# Assembly that did not succeed.


def test_intent_that_the_domain_finds_invalid_is_recorded_and_reported_with_its_reason_and_forgotten() -> None:
    bench = assembling()
    finished = AssemblyFinished(RequestId(1, 10), ID, AssemblyOutcome.REVERTED, reason="no funds")
    effects = bench.tell(finished)
    assert effects[0] == Persist(ADDRESS, (IntentFinalised(reverted("no funds")),))
    assert ReportReceipt(reverted("no funds")) in effects
    assert records(bench) == [IntentFinalised(reverted("no funds"))]
    assert bench.take(ReportReceipt) == [ReportReceipt(reverted("no funds"))]
    answer = AssemblyResult(ID, AssemblyOutcome.REVERTED, FIRST, None, "no funds")
    assert bench.said(AssembleResponse, B) == [AssembleResponse(RequestId(1, 10), (answer,))]
    assert not is_known(bench)


def test_intent_that_is_found_invalid_later_ends_when_its_earlier_version_is_void() -> None:
    bench = assembled()
    ask_assembly(bench, 11)
    bench.tell(AssemblyFinished(RequestId(1, 11), ID, AssemblyOutcome.REVERTED, reason="no funds", code="GONE"))
    assert is_being_voided(bench)
    assert records(bench) == [EndingDecided(ID, "no funds", "GONE")]
    bench.take(Persist)
    final_at(bench, HEIGHT + 1, GENESIS_S + 601)
    assert records(bench) == [IntentFinalised(replace(reverted("no funds"), code="GONE"))]


def test_code_of_an_ending_that_was_decided_before_a_restart_is_in_the_receipt() -> None:
    recorded = (signed_leaf(transition("A-1")),)
    found = Restored(intent("A-1"), ending_reason="no funds", versions=recorded, ending_code="GONE")
    bench = Bench(height=HEIGHT, stored=StoredContract((found,)), incarnation=2)
    final_at(bench, HEIGHT + 1, GENESIS_S + 601)
    assert records(bench) == [IntentFinalised(replace(reverted("no funds"), code="GONE"))]


@pytest.mark.parametrize("lacks_states", [True, False])
def test_backoff_for_want_of_a_state_is_cut_short_once_when_states_arrive(lacks_states: bool) -> None:
    bench = assembling()
    machine(bench).failure_count = 6
    bench.tell(AssemblyFailed(RequestId(1, 10), ID, "output 0 of 0x… is not here yet", lacks_states=lacks_states))
    assert machine(bench).not_before_ms > bench.now_ms + 5_000
    bench.forget()
    committed = LedgerOutcome(intent_id("C-1"), transition("C-1").leaf, digest_of(LEAF), LedgerStatus.COMMITTED)
    bench.block(HEIGHT + 1, committed)
    bench.wait(0)
    assert bool(bench.said(DelegationCommand, B)) is lacks_states
    assert bench.sequencer.sender.assembly.lacking == {}


def test_arrival_of_states_concerns_no_intent_that_has_ended_or_waits_no_longer() -> None:
    bench = assembling()
    bench.tell(AssemblyFailed(RequestId(1, 10), ID, "not here yet", lacks_states=True))
    bench.wait(1_000)
    bench.sequencer.sender.assembly.lacking[intent_id("A-9")] = None
    before_ms = machine(bench).not_before_ms
    bench.sequencer.sender.assembly.states_arrived()
    assert machine(bench).not_before_ms == before_ms


def test_failing_domain_makes_the_intent_delegated_again_after_a_pause() -> None:
    bench = assembling()
    bench.tell(AssemblyFailed(RequestId(1, 10), ID, "domain is down"))
    assert is_pending_and_goes_on(bench)
    bench.forget()
    bench.submit("A-2")
    accept(bench)
    bench.wait(187)
    assert numbers(bench, B) == []
    bench.wait(63)
    assert numbers(bench, B) == [FIRST]


def test_pause_that_ends_when_the_intent_has_ended_writes_nothing_twice() -> None:
    """Seed 239: cancelled in the moment in which its pause ended, it was finalised twice and forgotten twice."""
    bench = assembling()
    bench.tell(AssemblyFailed(RequestId(1, 10), ID, "domain is down"))
    bench.forget()
    bench.tell(CancelRequested("canceller", ID))
    bench.wait(250)
    assert records(bench) == [IntentFinalised(reverted("cancelled"))]
    assert ID not in bench.sequencer.sender.transactions


def test_pauses_grow_while_the_domain_fails_and_are_short_again_once_it_has_succeeded() -> None:
    bench = assembling()
    for counter, most in ((10, 250), (11, 500), (12, 1_000)):
        assert most * 3 // 4 <= pause_after_failure(bench, counter) <= most
        accept(bench)
        ask_assembly(bench, counter + 1)
    finish_assembly(bench, 13)
    ask_assembly(bench, 14)
    assert pause_after_failure(bench, 14) <= 250


def pause_after_failure(bench: Bench, counter: int) -> int:
    """The domain fails; B, which is there, is told of the intent again after so long."""
    bench.tell(AssemblyFailed(RequestId(1, counter), ID, "domain is down"))
    assert is_pending_and_goes_on(bench)
    bench.forget()
    since_ms = bench.now_ms
    while not numbers(bench, B):
        assert bench.now_ms - since_ms < 10_000
        bench.wait(1)
    assert numbers(bench, B) == [FIRST]
    return bench.now_ms - since_ms


# Park and resume.


def test_parked_intent_is_recorded_and_its_coordinator_answered_in_one_step() -> None:
    bench = assembling()
    effects = bench.tell(AssemblyFinished(RequestId(1, 10), ID, AssemblyOutcome.PARKED, reason="not yet"))
    assert effects[0] == Persist(ADDRESS, (IntentParked(ID, "not yet"),))
    assert records(bench) == [IntentParked(ID, "not yet")]
    assert state(bench) is State.PARKED
    answer = AssemblyResult(ID, AssemblyOutcome.PARKED, FIRST, None, "not yet")
    assert bench.said(AssembleResponse, B) == [AssembleResponse(RequestId(1, 10), (answer,))]


def test_sender_with_nothing_but_a_parked_intent_rests() -> None:
    assert doing(parked()) is SenderState.IDLE
    bench = assembling()
    beat(bench, B, 2, "A-1")
    bench.tell(AssemblyFinished(RequestId(1, 10), ID, AssemblyOutcome.PARKED, reason="not yet"))
    assert doing(bench) is SenderState.OBSERVING


def test_parked_intent_is_delegated_to_nobody_and_permitted_to_nobody() -> None:
    bench = parked()
    bench.forget()
    bench.wait(60_000)
    assert bench.said(DelegationCommand) == []
    ask_permission(bench, 20)
    assert refusals(bench) == [ErrorCode.NOT_CURRENT_DELEGATE]


def test_resumption_is_recorded_answered_and_the_intent_delegated_in_one_step() -> None:
    bench = parked()
    bench.forget()
    effects = bench.tell(ResumeRequested("user", ID))
    assert effects[0] == Persist(ADDRESS, (IntentResumed(ID),))
    assert records(bench) == [IntentResumed(ID)]
    assert bench.take(ReplyToUser) == [ReplyToUser("user", ID)]
    assert numbers(bench, B) == [FIRST]
    assert is_pending_and_goes_on(bench)
    assert machine(bench).parked_reason is None


@pytest.mark.parametrize("way", [pending, assembled, prepared])
def test_only_what_is_parked_can_be_resumed(way: Callable[[], Bench]) -> None:
    bench = way()
    bench.forget()
    bench.tell(ResumeRequested("user", ID))
    (reply,) = bench.take(ReplyToUser)
    assert reply.error == f"cannot be resumed: it is {state(bench).value}, not Parked"
    assert records(bench) == []


def test_parked_survives_a_restart() -> None:
    bench = restarted(parked_reason="not yet")
    assert state(bench) is State.PARKED
    assert machine(bench).reason == "not yet"
    assert bench.said(DelegationCommand) == []
    bench.tell(ResumeRequested("user", ID))
    assert numbers(bench, B) == [DelegationNumber(2, 1)]


# Cancel.


def test_cancel_is_final_at_once_when_no_version_was_ever_assembled() -> None:
    bench = delegated()
    bench.forget()
    effects = bench.tell(CancelRequested("canceller", ID))
    assert effects[0] == Persist(ADDRESS, (IntentFinalised(reverted("cancelled")),))
    assert records(bench) == [IntentFinalised(reverted("cancelled"))]
    assert bench.take(ReplyToUser) == [ReplyToUser("canceller", ID)]
    assert bench.take(ReportReceipt) == [ReportReceipt(reverted("cancelled"))]
    assert not is_known(bench)


@pytest.mark.parametrize("way", [assembling, parked])
def test_cancel_is_final_at_once_before_anything_was_signed(way: Callable[[], Bench]) -> None:
    bench = way()
    bench.forget()
    bench.tell(CancelRequested("canceller", ID))
    assert records(bench) == [IntentFinalised(reverted("cancelled"))]
    assert bench.take(ReportReceipt) == [ReportReceipt(reverted("cancelled"))]
    assert bench.take(ReplyToUser) == [ReplyToUser("canceller", ID)]
    assert not is_known(bench)


def test_cancel_is_recorded_before_its_answer_and_ends_when_all_versions_are_void() -> None:
    bench = assembled()
    bench.forget()
    effects = bench.tell(CancelRequested("canceller", ID))
    assert effects[0] == Persist(ADDRESS, (EndingDecided(ID, "cancelled"),))
    assert bench.take(ReplyToUser) == [ReplyToUser("canceller", ID)]
    assert is_being_voided(bench)
    final_at(bench, HEIGHT + 1, GENESIS_S + 601)
    assert records(bench) == [EndingDecided(ID, "cancelled"), IntentFinalised(reverted("cancelled"))]
    assert bench.take(ReportReceipt) == [ReportReceipt(reverted("cancelled"))]
    assert bench.take(ReplyToUser) == [], "the user has had the answer"


def test_cancel_of_an_intent_that_ends_already_is_answered_and_its_reason_stays() -> None:
    bench = assembled()
    give_up(bench)
    bench.tell(CancelRequested("canceller", ID))
    assert records(bench) == [EndingDecided(ID, "refused by all")], "it ends for the reason that it had first"
    assert ReplyToUser("canceller", ID) in bench.effects
    final_at(bench, HEIGHT + 1, GENESIS_S + 601)
    assert bench.take(ReportReceipt) == [ReportReceipt(reverted("refused by all"))]


def test_cancelled_intent_is_voided_after_a_reorganisation() -> None:
    bench = assembled()
    bench.tell(CancelRequested("canceller", ID))
    bench.block(HEIGHT + 1, outcome())
    assert state(bench) is State.CONFIRMED
    bench.tell(BlocksRemoved(HEIGHT, (outcome(),)))
    assert state(bench) is State.SUBMITTED, "the empty transition may be under way"
    bench.wait(4_000)
    assert is_being_voided(bench)
    final_at(bench, HEIGHT + 2, GENESIS_S + 601)
    assert records(bench) == [EndingDecided(ID, "cancelled"), IntentFinalised(reverted("cancelled"))]


def test_parked_intent_of_which_a_version_was_signed_ends_when_that_is_void() -> None:
    bench = assembled()
    ask_assembly(bench, 11)
    bench.tell(AssemblyFinished(RequestId(1, 11), ID, AssemblyOutcome.PARKED, reason="not yet"))
    bench.take(Persist)
    bench.tell(CancelRequested("canceller", ID))
    assert is_being_voided(bench)
    assert records(bench) == [EndingDecided(ID, "cancelled")]
    final_at(bench, HEIGHT + 1, GENESIS_S + 601)
    assert bench.take(ReportReceipt) == [ReportReceipt(reverted("cancelled"))]


@pytest.mark.parametrize("way", [prepared, submitted])
def test_cancel_is_refused_with_the_state_while_a_permission_is_out(way: Callable[[], Bench]) -> None:
    bench = way()
    bench.forget()
    before = state(bench)
    bench.tell(CancelRequested("canceller", ID))
    (reply,) = bench.take(ReplyToUser)
    assert reply.error == f"cannot be cancelled: it is {before.value}"
    assert state(bench) is before
    assert records(bench) == []


def test_cancel_is_refused_when_the_intent_has_ended() -> None:
    bench = submitted()
    bench.block(HEIGHT + 1, outcome())
    bench.forget()
    bench.tell(CancelRequested("canceller", ID))
    assert bench.take(ReplyToUser) == [ReplyToUser("canceller", ID, "cannot be cancelled: it is Confirmed")]


def test_second_cancel_is_answered_like_the_first_and_the_decision_is_recorded_once() -> None:
    bench = assembled()
    bench.forget()
    bench.tell(CancelRequested("canceller", ID))
    bench.tell(CancelRequested("again", ID))
    assert records(bench) == [EndingDecided(ID, "cancelled")]
    assert bench.take(ReplyToUser) == [ReplyToUser("canceller", ID), ReplyToUser("again", ID)]


def test_end_survives_a_restart_which_goes_by_the_bounds_that_were_recorded() -> None:
    bench = restarted(ending_reason="cancelled", versions=(transition("A-1"), transition("A-1", version=1)))
    assert is_being_voided(bench)
    assert bench.said(DelegationCommand)[-1].delegations[0].is_voiding
    ask_permission(bench, 20)
    assert refusals(bench) == [ErrorCode.CANCELLED]
    final_at(bench, HEIGHT + 1, GENESIS_S + 600)
    assert is_being_voided(bench)
    final_at(bench, HEIGHT + 2, GENESIS_S + 601)
    assert records(bench) == [IntentFinalised(reverted("cancelled"))]


def test_restarted_sender_goes_by_the_recorded_bound_whatever_its_configuration_says_now() -> None:
    longer = transition("A-1", valid_until_s=GENESIS_S + 900)
    found = Restored(intent("A-1"), ending_reason="cancelled", versions=(signed_leaf(longer),))
    stored = StoredContract((found,))
    bench = Bench(height=HEIGHT, stored=stored, incarnation=2, config=Config(validity_s=60))
    bench.tell(Tick())
    final_at(bench, HEIGHT + 1, GENESIS_S + 900)
    assert records(bench) == []
    final_at(bench, HEIGHT + 2, GENESIS_S + 901)
    assert records(bench) == [IntentFinalised(reverted("cancelled"))]


def test_restarted_sender_that_signed_nothing_ends_at_once() -> None:
    bench = restarted(ending_reason="cancelled")
    assert records(bench) == [IntentFinalised(reverted("cancelled"))]


def test_intent_of_a_release_that_recorded_no_leaves_counts_from_the_latest_chain_time_that_was_seen() -> None:
    """What was endorsed before a reorganisation is valid by the time of a block that is no longer there."""
    found = Restored(intent("A-1", nonce=b""), ending_reason="cancelled")
    bench = Bench(height=HEIGHT, stored=StoredContract((found,), latest_chain_time_s=GENESIS_S + 50), incarnation=2)
    bench.tell(Tick())
    final_at(bench, HEIGHT + 1, GENESIS_S + 650)
    assert records(bench) == []
    final_at(bench, HEIGHT + 2, GENESIS_S + 651)
    assert records(bench) == [IntentFinalised(reverted("cancelled"))]


def test_cancel_after_a_restart_waits_for_what_may_have_been_endorsed_before() -> None:
    bench = restarted(versions=(transition("A-1"),))
    bench.tell(CancelRequested("canceller", ID))
    assert is_being_voided(bench)
    assert records(bench) == [EndingDecided(ID, "cancelled")]


def test_cancel_and_resume_of_nothing_are_told_so() -> None:
    bench = Bench(height=HEIGHT)
    bench.tell(CancelRequested("canceller", ID))
    bench.tell(ResumeRequested("resumer", ID))
    error = "there is no such intent under way at this node"
    assert bench.take(ReplyToUser) == [ReplyToUser("canceller", ID, error), ReplyToUser("resumer", ID, error)]


# Dependencies.


def test_intent_waits_until_all_that_it_depends_on_is_confirmed() -> None:
    bench = Bench(height=HEIGHT)
    bench.submit("A-1", depends_on=(intent_id("X-1"), intent_id("X-2")))
    bench.submit("A-2")
    bench.sequencer.sender.dependency_ended(intent_id("X-1"), Outcome.CONFIRMED)
    bench.tell(Tick())
    assert numbers(bench, B) == []
    accept(bench)
    bench.sequencer.sender.dependency_ended(intent_id("X-2"), Outcome.CONFIRMED)
    bench.tell(Tick())
    assert numbers(bench, B) == [FIRST]


def test_intent_reverts_when_one_that_it_depends_on_does() -> None:
    bench = Bench(height=HEIGHT)
    bench.submit("A-1", depends_on=(intent_id("X-1"), intent_id("X-2")))
    bench.sequencer.sender.dependency_ended(intent_id("X-2"), Outcome.REVERTED)
    bench.tell(Tick())
    reason = f"depends on {intent_id('X-2').hex()}, which was reverted"
    assert records(bench) == [IntentFinalised(reverted(reason))]


def test_dependency_that_is_final_already_is_taken_into_account() -> None:
    bench = Bench(height=HEIGHT)
    first, second = intent_id("X-1"), intent_id("X-2")
    known = ((first, Outcome.CONFIRMED),)
    bench.tell(IntentSubmitted("user", intent("A-1", depends_on=(first,)), known))
    assert numbers(bench, B) == [FIRST]
    all_known = ((first, Outcome.CONFIRMED), (second, Outcome.REVERTED))
    bench.forget()
    submitted_intent = intent("A-3", depends_on=(first, second))
    bench.tell(IntentSubmitted("user", submitted_intent, all_known))
    receipt = Receipt(submitted_intent.id, Outcome.REVERTED, f"depends on {second.hex()}, which was reverted")
    assert records(bench) == [IntentAccepted(submitted_intent), IntentFinalised(receipt)]
    assert bench.take(ReplyToUser) == [ReplyToUser("user", submitted_intent.id)]
    assert bench.take(ReportReceipt) == [ReportReceipt(receipt)]
    assert not is_known(bench, "A-3")


@pytest.mark.parametrize("parked_reason", [None, "not yet"])
def test_failed_dependency_ends_a_restored_intent_when_no_version_can_be_valid(parked_reason: str | None) -> None:
    one = intent_id("X-1")
    recorded = (signed_leaf(transition("A-1")),)
    found = Restored(intent("A-1", depends_on=(one,)), parked_reason, versions=recorded)
    bench = Bench(height=HEIGHT, stored=StoredContract((found,), outcomes=((one, Outcome.REVERTED),)), incarnation=2)
    bench.tell(Tick())
    assert is_being_voided(bench)
    reason = f"depends on {one.hex()}, which was reverted"
    assert records(bench) == [EndingDecided(ID, reason)]
    bench.take(Persist)
    final_at(bench, HEIGHT + 1, GENESIS_S + 601)
    assert records(bench) == [IntentFinalised(reverted(reason))]


def test_parked_intent_hears_of_its_dependencies() -> None:
    one = intent_id("X-1")
    found = Restored(intent("A-1", depends_on=(one,)), "not yet")
    bench = Bench(height=HEIGHT, stored=StoredContract((found,)), incarnation=2)
    bench.tell(Tick())
    bench.sequencer.sender.dependency_ended(one, Outcome.CONFIRMED)
    bench.tell(ResumeRequested("user", ID))
    assert numbers(bench, B) == [DelegationNumber(2, 1)]


# What may be asked of it at any time.


def test_validity_is_that_of_the_signed_transition_and_of_no_unsigned_one() -> None:
    bench = assembling()
    made = transition("A-1", signature=b"")
    bench.tell(AssemblyFinished(RequestId(1, 10), ID, AssemblyOutcome.ASSEMBLED, made))
    assert machine(bench).void_after_s == 0
    bench.tell(TransitionSigned(RequestId(1, 10), ID, b"signed"))
    assert machine(bench).void_after_s == made.valid_until_s
    signed = machine(bench).transition
    assert signed == replace(made, signature=b"signed")
    assert isinstance(signed, Transition)


def test_history_is_kept_within_its_limit() -> None:
    bench = Bench(height=HEIGHT, config=Config(history_max=3))
    bench.submit("A-1")
    accept(bench)
    ask_assembly(bench, 10)
    bench.wait(5)
    finish_assembly(bench, 10)
    assert machine(bench).history == [(0, State.ASSEMBLING), (5, State.SIGNING), (5, State.ENDORSEMENT_GATHERING)]
    assert machine(bench).since_ms == 5


def test_intent_is_undispatched_until_permission_is_out_and_ended_when_it_has_its_outcome() -> None:
    assert machine(assembled()).is_undispatched
    assert not machine(prepared()).is_undispatched
    bench = submitted()
    assert not machine(bench).is_ended
    bench.block(HEIGHT + 1, outcome())
    assert machine(bench).is_ended


@pytest.mark.parametrize("ended_as", [Outcome.CONFIRMED, Outcome.REVERTED])
def test_dependency_that_ends_while_an_earlier_dispatch_is_watched_after_a_restart_is_not_forgotten(
    ended_as: Outcome,
) -> None:
    """Its outcome was no longer indexed at the restart, and the submitter lists the intent before it is again."""
    permission = permission_of(FIRST, C, transition("A-1"))
    recorded = (signed_leaf(transition("A-1")),)
    found = Restored(intent("A-1", depends_on=(intent_id("A-0"),)), permission=permission, versions=recorded)
    bench = Bench(height=HEIGHT, stored=StoredContract((found,)), incarnation=2)
    bench.tell(Tick())
    listed = SubmittedIntent(ID, LEAF, "C", 7, 1)
    bench.hear(C, SubmitterHeartbeat(HeartbeatNumber(1, 1), (listed,)), height=HEIGHT)
    assert state(bench) is State.SUBMITTED
    bench.sequencer.sender.dependency_ended(intent_id("A-0"), ended_as)
    bench.tell(Tick())
    assert state(bench) is State.SUBMITTED
    assert bench.said(DelegationCommand) == []
    bench.wait(4_000)
    assert state(bench) is State.PENDING
    has_failed = ended_as is Outcome.REVERTED
    assert is_being_voided(bench) is has_failed
    ending = EndingDecided(ID, f"depends on {intent_id('A-0').hex()}, which was reverted")
    assert records(bench) == ([ending] if has_failed else [])
    (delegation,) = bench.said(DelegationCommand)[0].delegations
    assert delegation.is_voiding is has_failed


# What it learns while it is past its waiting counts when it waits again.


def submitted_before_its_dependency_ended(outcome_of_other: Outcome) -> Bench:
    """A restarted sender's intent is with a submitter when what it depends on ends; then the ledger skips it."""
    permission, recorded = permission_of(FIRST, B, transition("A-1")), (signed_leaf(transition("A-1")),)
    found = Restored(intent("A-1", depends_on=(intent_id("A-2"),)), permission=permission, versions=recorded)
    bench = Bench(height=HEIGHT, stored=StoredContract((found,)), incarnation=2)
    bench.tell(Tick())
    list_dispatched(bench, submission_count=1)
    assert state(bench) is State.SUBMITTED
    bench.sequencer.sender.dependency_ended(intent_id("A-2"), outcome_of_other)
    bench.tell(Tick())
    assert state(bench) is State.SUBMITTED, "what is under way is not called back"
    bench.block(HEIGHT + 1, outcome(LedgerStatus.SKIPPED))
    return bench


def test_intent_that_fails_on_the_ledger_ends_if_its_dependency_was_reverted_meanwhile() -> None:
    bench = submitted_before_its_dependency_ended(Outcome.REVERTED)
    assert machine(bench).ending_reason is not None
    assert records(bench) == [EndingDecided(ID, machine(bench).ending_reason or "")]


def test_intent_that_fails_on_the_ledger_goes_on_if_its_dependency_was_confirmed_meanwhile() -> None:
    bench = submitted_before_its_dependency_ended(Outcome.CONFIRMED)
    assert machine(bench).unmet == {}
    assert machine(bench).ending_reason is None
    assert is_pending_and_goes_on(bench)
