"""An intent that ends is voided: it travels once more, as an empty transition (protocol §4.3).

At the sender A sends and B leads at height 400, as in `test_sender_transaction.py`; at the coordinator A leads.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rota.machine.effects import IntentFinalised, Persist, ReplyToUser, ReportReceipt
from rota.machine.events import CancelRequested, Tick
from rota.machine.pacing import VOIDED_TIMES_MAX
from rota.model.blocks import LedgerOutcome, LedgerStatus
from rota.model.config import Config
from rota.model.types import DelegationNumber, Outcome, Party, Receipt, RequestId
from rota.node.explanation import explain_at_sender
from rota.sequencer.effects import AssembleIntents, EndingDecided, JudgeFailure, SignTransition
from rota.sequencer.events import AssemblyFailed, AssemblyFinished, BlocksRemoved, OutcomesFinal, TransitionSigned
from rota.sequencer.held_intent import State as Held
from rota.sequencer.sender_transaction import State
from rota.sequencer.sender_transaction_events import ConfirmedSuccess, GivenUp
from rota.sequencer.sent_intent import Restored
from rota.sequencer.sequencer import StoredContract
from rota.wire.messages import (
    Answer,
    AssembleError,
    AssembleRequest,
    AssembleResponse,
    AssemblyOutcome,
    AssemblyResult,
    DelegationCommand,
    DispatchConfirmationRequest,
    DispatchItem,
    EndorsementRequest,
    ErrorCode,
    IntentError,
    Snapshot,
    TransactionReverted,
)
from tests.sequencer.coordinator_bench import active, answers, name_of
from tests.sequencer.kit import (
    ADDRESS,
    GENESIS_S,
    B,
    Bench,
    contract,
    digest_of,
    intent,
    intent_id,
    nonce_of,
    signed_leaf,
    transition,
    void_transition,
)
from tests.sequencer.test_sender_transaction import (
    FIRST,
    HEIGHT,
    ID,
    SECOND,
    accept,
    ask_assembly,
    ask_permission,
    assembled,
    assembling,
    beat,
    fail_for_good,
    final_at,
    finish_assembly,
    give_up,
    is_being_voided,
    is_known,
    list_dispatched,
    machine,
    numbers,
    outcome,
    permitted,
    prepared,
    records,
    refusals,
    restarted,
    reverted,
    state,
    submitted,
    verified,
)

VOID = void_transition("A-1").leaf


def voiding() -> Bench:
    """Cancelled after its assembly: it is to be delegated once more."""
    bench = assembled()
    bench.tell(CancelRequested("canceller", ID))
    bench.take(Persist)
    assert is_being_voided(bench)
    return bench


def void_delegated() -> Bench:
    """B has it, and knows that it is to be voided."""
    bench = voiding()
    accept(bench, answer=Answer.HELD)
    return bench


def void_assembled() -> Bench:
    """B has the empty transition, signed."""
    bench = void_delegated()
    ask_assembly(bench, 11)
    bench.tell(TransitionSigned(RequestId(1, 11), ID, b"signed"))
    return bench


def void_prepared() -> Bench:
    """B has permission to dispatch it."""
    bench = void_assembled()
    ask_void_permission(bench, 21)
    bench.take(Persist)
    return bench


def ask_void_permission(bench: Bench, counter: int, number: DelegationNumber = SECOND) -> None:
    item = DispatchItem(ID, number, VOID, b"signed", GENESIS_S + 600)
    bench.hear(B, DispatchConfirmationRequest(RequestId(1, counter), digest_of(VOID), (item,)), height=HEIGHT)


def void_outcome(status: LedgerStatus = LedgerStatus.COMMITTED) -> LedgerOutcome:
    return LedgerOutcome(ID, VOID, digest_of(VOID), status, "no gas")


def ending() -> Bench:
    """The endorsers refuse the empty transition: it waits until no version is valid any more."""
    bench = void_assembled()
    bench.forget()
    give_up(bench, SECOND, leaf=VOID, reason="against the rules")
    assert state(bench) is State.ENDING
    return bench


# At the sender.


def test_voiding_begins_a_delegation_of_its_own_and_says_so() -> None:
    bench = voiding()
    (delegation,) = bench.said(DelegationCommand, B)[-1].delegations
    assert (delegation.number, delegation.is_voiding, delegation.revert_count) == (SECOND, True, 0)


@pytest.mark.parametrize("way", [assembled, void_assembled])
def test_version_on_the_chain_in_the_step_that_ends_the_intent_leaves_nothing_to_void(way: Callable[[], Bench]) -> None:
    bench = way()
    found = machine(bench)
    found.receiver.handle(GivenUp("against the rules"))
    assert state(bench) is State.ENDING
    found.handle(ConfirmedSuccess(transition("A-1").leaf))
    bench.tell(Tick())
    assert (state(bench), found.is_voiding) == (State.CONFIRMED, False)


def test_empty_transition_is_assembled_without_the_domain_and_signed_by_the_party() -> None:
    bench = void_delegated()
    bench.forget()
    ask_assembly(bench, 11)
    assert bench.take(AssembleIntents) == []
    until_s = void_transition("A-1").valid_until_s
    order = bench.orders[RequestId(1, 11), ID]
    signing = SignTransition(ADDRESS, order, ID, Party("a@A"), VOID, until_s, nonce_of("A-1"))
    assert bench.take(SignTransition) == [signing]
    bench.tell(TransitionSigned(RequestId(1, 11), ID, b"signed"))
    made = AssemblyResult(ID, AssemblyOutcome.ASSEMBLED, SECOND, void_transition("A-1"))
    assert bench.said(AssembleResponse, B) == [AssembleResponse(RequestId(1, 11), (made,))]


def test_others_of_the_slot_are_assembled_by_the_domain() -> None:
    bench = void_delegated()
    bench.submit("A-2")
    accept(bench)
    bench.forget()
    slot = AssembleRequest(RequestId(1, 11), (ID, intent_id("A-2")), Snapshot())
    bench.hear(B, slot, height=HEIGHT)
    (order,) = bench.take(AssembleIntents)
    assert [one.id for one in order.intents] == [intent_id("A-2")]


def test_coordinator_that_asks_for_the_empty_transition_again_and_again_has_it_signed_a_few_times() -> None:
    bench = void_delegated()
    bench.forget()
    for counter in range(1_000, 1_020):
        ask_assembly(bench, counter)
        bench.tell(TransitionSigned(RequestId(1, counter), ID, b"signed"))
    assert len(bench.take(SignTransition)) == VOIDED_TIMES_MAX
    assert len(bench.said(AssembleResponse, B)) == VOIDED_TIMES_MAX
    refused = bench.said(AssembleError, B)
    assert [each.errors for each in refused] == [(IntentError(ID, ErrorCode.FAILED),)] * (20 - VOIDED_TIMES_MAX)
    bench.wait(bench.config.request_timeout_ms)
    bench.forget()
    ask_assembly(bench, 2_000)
    assert len(bench.take(SignTransition)) == 1


def test_empty_transition_is_no_version_that_the_end_waits_for() -> None:
    bench = void_delegated()
    bench.block(HEIGHT + 1, time_s=GENESIS_S + 500)
    ask_assembly(bench, 11)
    bench.tell(TransitionSigned(RequestId(1, 11), ID, b"signed"))
    assert machine(bench).void_after_s == GENESIS_S + 600


def test_only_the_empty_transition_is_permitted() -> None:
    bench = void_prepared()
    assert permitted(bench) == [(RequestId(1, 21), B)]
    assert state(bench) is State.PREPARED


def test_word_on_the_old_version_changes_nothing_before_the_voiding_is_delegated() -> None:
    bench = voiding()
    number = machine(bench).number
    bench.hear(B, TransactionReverted(ID, number, transition("A-1").leaf, "its input is gone"), height=HEIGHT)
    assert is_being_voided(bench)
    assert machine(bench).is_voiding


def test_coordinator_that_gives_up_the_old_version_does_not_end_the_voiding() -> None:
    bench = void_delegated()
    number = machine(bench).number
    bench.hear(B, TransactionReverted(ID, number, transition("A-1").leaf, "its input is gone"), height=HEIGHT)
    assert is_being_voided(bench)
    assert machine(bench).is_voiding


@pytest.mark.parametrize("way", [void_delegated, void_assembled])
def test_coordinator_that_asks_for_the_old_version_is_refused_and_delegated_to_anew(way: Callable[[], Bench]) -> None:
    bench = way()
    bench.forget()
    ask_permission(bench, 20, number=SECOND)
    assert refusals(bench) == [ErrorCode.CANCELLED]
    assert is_being_voided(bench)
    assert numbers(bench, B) == [SECOND]


def test_old_version_is_refused_before_the_delegation_is_accepted() -> None:
    bench = voiding()
    ask_permission(bench, 20)
    assert refusals(bench) == [ErrorCode.CANCELLED]
    assert machine(bench).held is None


def test_old_permission_is_forgotten_so_that_its_submitter_does_not_hold_the_intent() -> None:
    bench = prepared()
    fail_for_good(bench)
    accept(bench)
    list_dispatched(bench, submission_count=1)
    assert state(bench) is State.DELEGATED


def test_voided_intent_is_reverted_with_its_reason_when_that_is_final() -> None:
    bench = void_prepared()
    bench.block(HEIGHT + 1, void_outcome())
    assert state(bench) is State.CONFIRMED
    assert records(bench) == []
    bench.tell(OutcomesFinal(GENESIS_S, (void_outcome(),)))
    assert records(bench) == [IntentFinalised(reverted("cancelled"))]
    assert bench.take(ReportReceipt) == [ReportReceipt(reverted("cancelled"))]


def test_old_version_that_lands_first_confirms_the_intent() -> None:
    bench = void_prepared()
    bench.block(HEIGHT + 1, outcome())
    bench.tell(OutcomesFinal(GENESIS_S, (outcome(),)))
    confirmed = Receipt(ID, Outcome.CONFIRMED, leaf=transition("A-1").leaf)
    assert bench.take(ReportReceipt) == [ReportReceipt(confirmed)]


def test_void_that_a_reorganisation_takes_back_is_under_way_again() -> None:
    bench = void_prepared()
    bench.block(HEIGHT + 1, void_outcome())
    bench.tell(BlocksRemoved(HEIGHT, (void_outcome(),)))
    assert state(bench) is State.SUBMITTED
    bench.block(HEIGHT + 1, outcome())
    assert state(bench) is State.CONFIRMED


def test_void_that_failed_once_is_tried_again_with_the_same_leaf() -> None:
    bench = void_prepared()
    bench.block(HEIGHT + 1, void_outcome(LedgerStatus.SKIPPED))
    assert state(bench) is State.DELEGATED
    assert bench.take(JudgeFailure) == [], "a domain did not make it"
    ask_assembly(bench, 12)
    bench.tell(TransitionSigned(RequestId(1, 12), ID, b"signed"))
    ask_void_permission(bench, 22, DelegationNumber(1, 3))
    list_dispatched(bench, submission_count=1, leaf=VOID)
    assert state(bench) is State.SUBMITTED


def test_void_that_the_endorsers_refuse_is_given_up_and_the_intent_ends_with_its_validity() -> None:
    bench = void_assembled()
    give_up(bench, SECOND, leaf=VOID, reason="against the rules")
    bench.forget()
    assert state(bench) is State.ENDING
    bench.wait(60_000)
    assert bench.said(DelegationCommand) == []
    found = explain_at_sender(bench.sequencer, ID)
    assert found is not None
    assert found.waits_for.endswith("when no version of it is valid (it cannot be voided: against the rules)")
    assert found.detail == "ending: cancelled"
    final_at(bench, HEIGHT + 1, GENESIS_S + 601)
    assert records(bench) == [IntentFinalised(reverted("cancelled"))]


def test_void_that_fails_on_the_ledger_for_good_is_given_up() -> None:
    bench = void_prepared()
    machine(bench).revert_count = bench.sequencer.context.config.revert_retry_max
    bench.block(HEIGHT + 1, void_outcome(LedgerStatus.SKIPPED))
    assert state(bench) is State.ENDING
    assert machine(bench).reason == "no gas"
    bench.block(HEIGHT + 2, void_outcome())
    bench.tell(OutcomesFinal(GENESIS_S, (void_outcome(),)))
    assert bench.take(ReportReceipt) == [ReportReceipt(reverted("cancelled"))], "it landed after all"
    assert not is_known(bench)


@pytest.mark.parametrize("way", [voiding, void_delegated, void_assembled, void_prepared])
def test_intent_ends_in_whatever_state_when_all_other_versions_are_void_by_time(way: Callable[[], Bench]) -> None:
    bench = way()
    bench.forget()
    final_at(bench, HEIGHT + 1, GENESIS_S + 601)
    assert records(bench) == [IntentFinalised(reverted("cancelled"))]


def test_contract_whose_transitions_are_proved_voids_by_its_party_alone() -> None:
    """Nobody endorses there: the signature of the intent's key is all that an empty transition needs."""
    bench = Bench(of=contract(endorsers=(), threshold=0), height=HEIGHT)
    bench.submit("A-1")
    accept(bench)
    ask_assembly(bench, 10)
    finish_assembly(bench, 10)
    bench.tell(CancelRequested("canceller", ID))
    assert is_being_voided(bench)
    assert ReplyToUser("canceller", ID) in bench.effects
    final_at(bench, HEIGHT + 1, GENESIS_S + 601)
    assert bench.take(ReportReceipt) == [ReportReceipt(reverted("cancelled"))]
    assert not is_known(bench)


@pytest.mark.parametrize("way", [voiding, void_delegated, void_prepared])
def test_cancel_of_what_is_being_voided_is_agreed_to(way: Callable[[], Bench]) -> None:
    bench = way()
    bench.forget()
    bench.tell(CancelRequested("again", ID))
    assert bench.take(ReplyToUser) == [ReplyToUser("again", ID)]
    assert records(bench) == []


def test_cancel_is_agreed_to_while_the_void_is_not_final_and_refused_when_another_version_landed() -> None:
    for landed, error in ((void_outcome(), ""), (outcome(), "cannot be cancelled: it is Confirmed")):
        bench = void_prepared()
        bench.block(HEIGHT + 1, landed)
        bench.forget()
        bench.tell(CancelRequested("again", ID))
        assert bench.take(ReplyToUser) == [ReplyToUser("again", ID, error)]


def test_cancel_of_what_waits_in_ending_is_agreed_to() -> None:
    bench = void_assembled()
    give_up(bench, SECOND, leaf=VOID, reason="against the rules")
    bench.forget()
    bench.tell(CancelRequested("again", ID))
    assert bench.take(ReplyToUser) == [ReplyToUser("again", ID)]


def test_restarted_sender_finalises_what_was_voided_before_its_receipt_was_written() -> None:
    found = Restored(intent("A-1"), ending_reason="no funds", was_voided=True)
    bench = Bench(height=HEIGHT, stored=StoredContract((found,)), incarnation=2)
    bench.tell(Tick())
    assert records(bench) == [IntentFinalised(reverted("no funds"))]
    assert bench.take(ReportReceipt) == [ReportReceipt(reverted("no funds"))]


def test_restored_end_waits_neither_for_dependencies_nor_for_parties() -> None:
    one = intent_id("X-1")
    waiting = intent("A-1", depends_on=(one,), parties=(Party("bob@C"),))
    found = Restored(waiting, ending_reason="no funds", versions=(signed_leaf(transition("A-1")),))
    stored = StoredContract((found,), outcomes=((one, Outcome.REVERTED),))
    bench = Bench(height=HEIGHT, stored=stored, incarnation=2)
    bench.tell(Tick())
    assert numbers(bench, B) == [DelegationNumber(2, 2)]
    assert machine(bench).ending_reason == "no funds"


def test_restarted_sender_permits_the_empty_transition_of_before() -> None:
    bench = restarted(ending_reason="cancelled", versions=(transition("A-1"),))
    accept(bench)
    ask_void_permission(bench, 21, FIRST)
    made = void_transition("A-1")
    item = DispatchItem(ID, FIRST, VOID, b"signed", GENESIS_S + 600, made)
    bench.hear(B, DispatchConfirmationRequest(RequestId(1, 22), digest_of(VOID), (item,)), height=HEIGHT)
    verified(bench, 21)
    assert state(bench) is State.DELEGATED, "the verdict on an earlier request says nothing of this one"
    verified(bench, 22)
    assert permitted(bench) == [(RequestId(1, 22), B)]


def test_ending_is_recorded_once_though_the_void_fails_and_a_reorganisation_brings_the_intent_back() -> None:
    bench = assembled()
    bench.forget()
    bench.tell(CancelRequested("canceller", ID))
    accept(bench, answer=Answer.HELD)
    ask_assembly(bench, 11)
    bench.tell(TransitionSigned(RequestId(1, 11), ID, b"signed"))
    give_up(bench, SECOND, leaf=VOID, reason="against the rules")
    assert state(bench) is State.ENDING
    bench.block(HEIGHT + 1, outcome())
    assert state(bench) is State.CONFIRMED
    bench.tell(BlocksRemoved(HEIGHT, (outcome(),)))
    assert state(bench) is State.ENDING
    assert records(bench) == [EndingDecided(ID, "cancelled")]
    final_at(bench, HEIGHT + 2, GENESIS_S + 601)
    assert records(bench) == [EndingDecided(ID, "cancelled"), IntentFinalised(reverted("cancelled"))]


def test_intent_that_cannot_be_voided_is_neither_assembled_nor_permitted_nor_delegated() -> None:
    bench = ending()
    bench.forget()
    ask_assembly(bench, 12)
    ask_permission(bench, 22, number=SECOND)
    (error,) = bench.said(AssembleError, B)
    assert error.errors == (IntentError(ID, ErrorCode.CANCELLED),)
    assert refusals(bench) == [ErrorCode.CANCELLED]
    assert bench.take(AssembleIntents) == []
    assert bench.take(SignTransition) == []
    bench.wait(60_000)
    assert state(bench) is State.ENDING
    assert bench.said(DelegationCommand) == []


def test_voided_intent_that_an_earlier_version_confirmed_is_voided_again_after_a_reorganisation() -> None:
    bench = submitted()
    fail_for_good(bench)
    bench.block(HEIGHT + 1, outcome())
    assert state(bench) is State.CONFIRMED
    bench.tell(BlocksRemoved(HEIGHT, (outcome(),)))
    assert state(bench) is State.SUBMITTED, "the empty transition may be under way"
    bench.wait(4_000)
    assert is_being_voided(bench)
    assert records(bench) == [EndingDecided(ID, "input spent")]


def test_ending_is_recorded_once_though_an_older_pause_ends_meanwhile() -> None:
    bench = assembled()
    ask_assembly(bench, 11)
    bench.tell(AssemblyFailed(RequestId(1, 11), ID, "domain is down"))
    bench.tell(CancelRequested("canceller", ID))
    bench.wait(250)
    assert records(bench) == [EndingDecided(ID, "cancelled")]


def test_intent_that_ends_while_its_slot_is_assembled_lets_the_others_be_answered() -> None:
    bench = assembled()
    bench.submit("A-2")
    accept(bench)
    bench.forget()
    slot = AssembleRequest(RequestId(1, 11), (ID, intent_id("A-2")), Snapshot())
    bench.hear(B, slot, height=HEIGHT)
    made = transition("A-2", signature=b"")
    bench.tell(AssemblyFinished(RequestId(1, 11), intent_id("A-2"), AssemblyOutcome.ASSEMBLED, made))
    bench.tell(TransitionSigned(RequestId(1, 11), intent_id("A-2"), b"signed"))
    assert bench.said(AssembleResponse) == []
    bench.tell(CancelRequested("canceller", ID))
    (answered,) = bench.said(AssembleResponse, B)
    assert [result.intent for result in answered.results] == [intent_id("A-2")]
    assert bench.said(AssembleError, B) == [AssembleError(RequestId(1, 11), (IntentError(ID, ErrorCode.CANCELLED),))]


def test_heartbeat_that_lists_the_voided_intent_renews_its_lease() -> None:
    bench = void_delegated()
    bench.wait(1_000)
    beat(bench, B, 5, "A-1")
    assert machine(bench).lease_ms == bench.now_ms
    assert assembling().sequencer.sender.transactions[ID].lease_ms == 0


# At the coordinator.


def test_voided_intent_waits_for_no_earlier_one() -> None:
    bench = active()
    bench.delegate("B-1")
    bench.delegate("B-2", is_voiding=True)
    assert bench.state_of("B-2") is Held.POOLED


def test_intent_that_waits_is_pooled_when_its_sender_voids_it() -> None:
    bench = active()
    bench.delegate("B-1")
    bench.delegate("B-2")
    assert bench.state_of("B-2") is Held.PREASSEMBLY_BLOCKED
    bench.delegate("B-2", is_voiding=True, number=2)
    assert bench.state_of("B-2") is Held.POOLED


def test_slot_that_is_asked_goes_on_when_an_intent_of_it_is_voided() -> None:
    bench = active()
    bench.delegate("B-1")
    bench.delegate("B-1", is_voiding=True, number=2)
    assert bench.state_of("B-1") is Held.ASSEMBLING
    assert bench.transaction("B-1").is_voiding
    bench.assemble(void_transition("B-1"))
    assert bench.state_of("B-1") is Held.ENDORSEMENT_GATHERING


@pytest.mark.parametrize("to", [Held.ENDORSEMENT_GATHERING, Held.CONFIRMING_DISPATCH])
def test_old_version_is_dropped_when_its_sender_voids_it_and_what_stood_on_it_goes_on(to: Held) -> None:
    bench = active()
    first = transition("B-1")
    bench.bring(to, first, transition("B-2", first.outputs[0].id))
    bench.delegate("B-1", is_voiding=True, number=2)
    assert answers(bench, B) == [Answer.HELD]
    (asked,) = [request for _, request in bench.asked(AssembleRequest)]
    assert {name_of(one) for one in asked.intents} == {"B-1", "B-2"}
    assert first.leaf not in bench.coordinator.graph.placed


def test_delegation_under_a_lower_number_voids_nothing() -> None:
    bench = active()
    bench.delegate("B-1", number=3)
    bench.assemble()
    bench.delegate("B-1", is_voiding=True, number=2)
    assert bench.state_of("B-1") is Held.ENDORSEMENT_GATHERING


def test_intent_that_was_given_up_begins_anew_when_its_sender_voids_it() -> None:
    bench = active(config=Config(revert_retry_max=0))
    bench.bring(Held.DISPATCHED, transition("B-1"))
    bench.block(1, bench.outcome(transition("B-1"), LedgerStatus.SKIPPED))
    assert bench.state_of("B-1") is Held.REVERTED
    bench.delegate("B-1")
    assert answers(bench, B) == [Answer.REJECTED]
    bench.delegate("B-1", is_voiding=True, number=2)
    assert answers(bench, B) == [Answer.HELD]
    bench.assemble(void_transition("B-1"))
    bench.sign()
    bench.permit()
    assert [each.leaf for order in bench.write_rounds() for each in order.transitions] == [void_transition("B-1").leaf]


def test_void_that_was_given_up_is_not_begun_again() -> None:
    bench = active(of=contract(endorsers=(B,), threshold=1))
    bench.delegate("B-1", is_voiding=True)
    for _ in range(5):
        while not bench.said(AssembleRequest):
            bench.wait(50)
        bench.assemble(void_transition("B-1"))
        bench.refuse(B, "B-1")
    assert bench.state_of("B-1") is Held.REVERTED
    bench.delegate("B-1", is_voiding=True, number=2)
    assert answers(bench, B) == [Answer.REJECTED]


def test_what_is_dispatched_is_not_recalled() -> None:
    bench = active()
    bench.bring(Held.DISPATCHED, transition("B-1"))
    bench.delegate("B-1", is_voiding=True, number=2)
    assert answers(bench, B) == [Answer.DISPATCHED]
    assert bench.asked(EndorsementRequest) == []
