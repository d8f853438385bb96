"""Nobody ends an intent by its word: neither its coordinator, nor an endorser that fails, nor a snapshot."""

from __future__ import annotations

import pytest

from rota.machine.effects import ReportReceipt
from rota.model.config import Config
from rota.model.digests import refusal_digest
from rota.model.types import KeptStates, NodeName, Party, RequestId, StateId
from rota.sequencer import coordinator_base
from rota.sequencer.effects import AssembleIntents, VerifyEndorsers
from rota.sequencer.events import (
    AssemblyFailed,
    AssemblyFinished,
    EndorsementVerified,
    EndorsersVerified,
    OutcomesFinal,
)
from rota.sequencer.held_intent import State as Held
from rota.sequencer.sender_transaction import State
from rota.wire.messages import (
    Answer,
    AssembleError,
    AssembleRequest,
    AssembleResponse,
    AssemblyOutcome,
    DelegationCommand,
    EndorsementError,
    EndorsementRequest,
    EndorsementResponse,
    EndorserSignature,
    ErrorCode,
    IntentError,
    Refusal,
    Rejection,
    Snapshot,
    TransactionReverted,
)
from tests.sequencer.coordinator_bench import CoordinatorBench, active, endorsed_by_others, refusal_by
from tests.sequencer.kit import (
    FORGED,
    GENESIS_S,
    SEPARATOR,
    A,
    B,
    Bench,
    C,
    D,
    contract,
    intent_id,
    prepared_transition,
    transition,
)
from tests.sequencer.test_sender_transaction import (
    HEIGHT,
    ID,
    accept,
    ask_assembly,
    assembled,
    delegated,
    finish_assembly,
    give_up,
    is_being_voided,
    is_known,
    is_pending_and_goes_on,
    machine,
    prepared,
    reverted,
    state,
)

LOCKED = Snapshot(locks=(StateId(transition("X-1").leaf, 0),))


def two_of_three(**options: object) -> CoordinatorBench:
    """A coordinates, and two of the three endorsers B, C and D must sign."""
    return active(of=contract(A, B, C, endorsers=(B, C, D), threshold=2), **options)


def sender_of_two_of_three() -> Bench:
    """An intent of A is with B, assembled and signed; one of three endorsers may refuse."""
    bench = Bench(of=contract(threshold=2), height=HEIGHT)
    bench.submit("A-1")
    accept(bench)
    ask_assembly(bench, 10)
    finish_assembly(bench, 10)
    return bench


# A coordinator that says that it gave up.


def test_coordinator_that_reports_a_revert_without_refusals_ends_nothing() -> None:
    bench = assembled()
    give_up(bench, endorsers=())
    assert is_pending_and_goes_on(bench)
    assert machine(bench).reason == "B gave it up: refused by all"
    bench.wait(60_000)
    bench.tell(OutcomesFinal(GENESIS_S, ()))
    assert bench.take(ReportReceipt) == []


def test_coordinator_that_rejects_a_delegation_ends_nothing() -> None:
    bench = Bench(height=HEIGHT)
    bench.submit("A-1")
    accept(bench, answer=Answer.REJECTED, reason="refused by all")
    assert is_pending_and_goes_on(bench)


def test_intent_that_a_coordinator_drops_again_and_again_is_delegated_more_and_more_slowly() -> None:
    bench = delegated()
    pauses = []
    for counter in range(10, 13):
        ask_assembly(bench, counter)
        finish_assembly(bench, counter, version=counter)
        give_up(bench, endorsers=(), leaf=transition("A-1", version=counter).leaf)
        pauses.append(machine(bench).not_before_ms - bench.now_ms)
        bench.now_ms += pauses[-1]
        machine(bench).state = State.DELEGATED
    for pause, most in zip(pauses, (250, 500, 1_000), strict=True):
        assert most * 3 // 4 <= pause <= most


def test_coordinator_that_says_all_the_time_that_it_gave_up_does_not_make_an_intent_wait_longer() -> None:
    """Seed 190: each such message put the next delegation off."""
    bench = assembled()
    give_up(bench, endorsers=())
    due_ms = machine(bench).not_before_ms
    for _ in range(5):
        bench.now_ms += 10
        give_up(bench, endorsers=())
    assert machine(bench).not_before_ms == due_ms
    assert machine(bench).dropped_count == 1
    assert not machine(bench).is_ending
    give_up(bench)
    assert is_being_voided(bench), "refusals count also when its coordinator said so without them before"
    assert machine(bench).dropped_count == 1


def test_permission_forgets_what_was_held_against_the_coordinator() -> None:
    bench = prepared()
    assert machine(bench).dropped_count == 0


def test_coordinator_cannot_drop_what_it_was_permitted_to_dispatch() -> None:
    bench = prepared()
    give_up(bench)
    assert state(bench) is State.PREPARED


def test_enough_refusals_of_the_leaf_that_we_signed_end_the_intent() -> None:
    bench = sender_of_two_of_three()
    bench.verifies = False
    give_up(bench, endorsers=(B, C))
    [order] = bench.take(VerifyEndorsers)
    digest = refusal_digest(SEPARATOR, Party("a@A"), transition("A-1"))
    assert [(each.endorser, each.digest) for each in order.signed] == [(B, digest), (C, digest)]
    assert state(bench) is State.ENDORSEMENT_GATHERING, "not before they are verified"
    bench.tell(EndorsersVerified(order.request_id, (True, True), ID))
    assert is_being_voided(bench)
    assert machine(bench).ending_reason == "refused by all"


@pytest.mark.parametrize("endorsers", [(B,), (B, B), (B, NodeName("stranger"))], ids=["one", "one twice", "a stranger"])
def test_too_few_refusals_end_nothing(endorsers: tuple[NodeName, ...]) -> None:
    bench = sender_of_two_of_three()
    give_up(bench, endorsers=endorsers)
    assert is_pending_and_goes_on(bench)


def test_forged_refusals_end_nothing() -> None:
    bench = sender_of_two_of_three()
    give_up(bench, endorsers=(B, C), signature=FORGED)
    assert is_pending_and_goes_on(bench)


def test_refusals_of_a_leaf_that_we_did_not_sign_end_nothing() -> None:
    bench = assembled()
    give_up(bench, leaf=transition("A-1", version=9).leaf)
    assert is_pending_and_goes_on(bench)


def test_refusals_of_an_earlier_version_end_nothing() -> None:
    bench = assembled()
    ask_assembly(bench, 11)
    finish_assembly(bench, 11, version=1)
    give_up(bench)
    assert is_pending_and_goes_on(bench)
    assert bench.take(VerifyEndorsers) == []


def test_refusals_are_not_believed_once_the_intent_is_assembled_anew() -> None:
    bench = assembled()
    bench.verifies = False
    give_up(bench)
    [order] = bench.take(VerifyEndorsers)
    ask_assembly(bench, 11)
    bench.tell(EndorsersVerified(order.request_id, (True,) * 3, ID))
    assert state(bench) is State.ASSEMBLING


def test_late_or_unknown_verification_changes_nothing() -> None:
    bench = assembled()
    bench.tell(EndorsersVerified(RequestId(1, 999), (True,) * 3, ID))
    bench.tell(EndorsersVerified(RequestId(1, 999), (True,) * 3, intent_id("A-9")))
    assert state(bench) is State.ENDORSEMENT_GATHERING


# A snapshot that keeps an intent from being assembled.


def ask_on(bench: Bench, snapshot: Snapshot, counter: int = 10) -> None:
    bench.hear(B, AssembleRequest(RequestId(1, counter), (ID,), snapshot), height=HEIGHT)


def finish(bench: Bench, outcome: AssemblyOutcome, counter: int = 10) -> None:
    made = transition("A-1", signature=b"") if outcome is AssemblyOutcome.ASSEMBLED else None
    bench.tell(AssemblyFinished(RequestId(1, counter), ID, outcome, made, "no funds"))


@pytest.mark.parametrize("outcome", [AssemblyOutcome.REVERTED, AssemblyOutcome.PARKED])
def test_snapshot_that_locks_a_partys_coins_ends_and_parks_nothing(outcome: AssemblyOutcome) -> None:
    bench = delegated()
    ask_on(bench, LOCKED)
    bench.take(AssembleIntents)
    finish(bench, outcome)
    assert state(bench) is State.ASSEMBLING
    [again] = bench.take(AssembleIntents)
    assert ([each.id for each in again.intents], again.snapshot) == ([ID], Snapshot())
    finish(bench, AssemblyOutcome.ASSEMBLED)
    assert is_pending_and_goes_on(bench)
    [error] = bench.said(AssembleError, B)
    assert [each.code for each in error.errors] == [ErrorCode.CONTENTION]
    assert machine(bench).not_before_ms > bench.now_ms


@pytest.mark.parametrize("outcome", [AssemblyOutcome.REVERTED, AssemblyOutcome.PARKED])
def test_intent_that_is_invalid_on_our_own_states_ends_or_parks(outcome: AssemblyOutcome) -> None:
    bench = delegated()
    ask_on(bench, LOCKED)
    finish(bench, AssemblyOutcome.REVERTED)
    finish(bench, outcome)
    if outcome is AssemblyOutcome.PARKED:
        assert state(bench) is State.PARKED
        assert bench.take(ReportReceipt) == []
    else:
        assert bench.take(ReportReceipt) == [ReportReceipt(reverted("no funds"))]
        assert not is_known(bench)
    assert bench.said(AssembleError, B) == []
    [response] = bench.said(AssembleResponse, B)
    assert [each.outcome for each in response.results] == [outcome]


def test_domain_that_fails_on_our_own_states_is_tried_again() -> None:
    bench = delegated()
    ask_on(bench, LOCKED)
    finish(bench, AssemblyOutcome.REVERTED)
    bench.tell(AssemblyFailed(RequestId(1, 10), ID, "domain is down"))
    assert is_pending_and_goes_on(bench)


def test_coordinator_that_does_not_wait_for_a_slot_ends_nothing_by_its_snapshot() -> None:
    """It asks for another intent, so that the sender forgets on what the first one was assembled."""
    bench = Bench(height=HEIGHT)
    bench.submit("A-1")
    bench.submit("A-2")
    accept(bench)
    accept(bench)
    ask_on(bench, LOCKED)
    bench.hear(B, AssembleRequest(RequestId(1, 11), (intent_id("A-2"),), Snapshot()), height=HEIGHT)
    finish(bench, AssemblyOutcome.REVERTED)
    assert is_pending_and_goes_on(bench)
    assert machine(bench).reason == "its coordinator did not wait for it: no funds"


def refused_on_a_snapshot() -> Bench:
    """Honest endorsers refused what was assembled on a snapshot that its coordinator wrote."""
    bench = delegated()
    ask_on(bench, LOCKED)
    finish_assembly(bench, 10)
    give_up(bench)
    return bench


def test_refusals_of_what_was_assembled_on_a_coordinators_snapshot_end_nothing() -> None:
    bench = refused_on_a_snapshot()
    assert is_pending_and_goes_on(bench)
    bench.forget()
    bench.wait(3_900)
    assert bench.said(DelegationCommand) == [], "its coordinator would still reject it"
    bench.wait(200)
    assert bench.said(DelegationCommand) != []


@pytest.mark.parametrize("outcome", [AssemblyOutcome.ASSEMBLED, AssemblyOutcome.REVERTED])
def test_refused_intent_is_assembled_on_our_own_states_whatever_the_snapshot(outcome: AssemblyOutcome) -> None:
    bench = refused_on_a_snapshot()
    bench.wait(4_000)
    accept(bench)
    bench.submit("A-2")
    accept(bench)
    bench.take(AssembleIntents)
    both = (ID, intent_id("A-2"))
    bench.hear(B, AssembleRequest(RequestId(1, 11), both, LOCKED), height=HEIGHT)
    orders = [(order.intents[0].id, order.snapshot) for order in bench.take(AssembleIntents)]
    assert orders == [(ID, Snapshot()), (intent_id("A-2"), LOCKED)]
    finish(bench, outcome, 11)
    if outcome is AssemblyOutcome.ASSEMBLED:
        assert state(bench) is State.SIGNING
    else:
        assert is_being_voided(bench)
        assert machine(bench).ending_reason == "no funds"
    assert bench.take(AssembleIntents) == []


def test_refusals_of_what_was_assembled_on_our_own_states_end_the_intent() -> None:
    bench = refused_on_a_snapshot()
    bench.wait(4_000)
    accept(bench)
    ask_on(bench, LOCKED, 11)
    finish_assembly(bench, 11, version=1)
    give_up(bench, leaf=transition("A-1", version=1).leaf)
    assert is_being_voided(bench)
    assert machine(bench).ending_reason == "refused by all"


# States that are kept for a prepared transition: own knowledge, and nobody's fault.


def with_kept(bench: Bench) -> KeptStates:
    """This node, an endorser, has signed away a state to a prepared transition."""
    made = prepared_transition("X-9", StateId(transition("X-2").leaf, 0))
    kept = KeptStates(made.intent, made.leaf, made.inputs, made.valid_until_s)
    bench.sequencer.kept.sign(kept)
    return kept


def test_refused_intent_is_assembled_on_our_own_states_but_for_those_that_are_kept() -> None:
    bench = refused_on_a_snapshot()
    kept = with_kept(bench)
    bench.wait(4_000)
    accept(bench)
    bench.take(AssembleIntents)
    ask_on(bench, LOCKED, 11)
    [order] = bench.take(AssembleIntents)
    assert order.snapshot == Snapshot(locks=kept.inputs)
    finish(bench, AssemblyOutcome.ASSEMBLED, 11)
    assert state(bench) is State.SIGNING
    assert machine(bench).is_on_own_states


@pytest.mark.parametrize("first", [AssemblyOutcome.REVERTED, AssemblyOutcome.PARKED])
def test_intent_that_needs_what_is_kept_waits_and_its_coordinator_is_not_to_blame(first: AssemblyOutcome) -> None:
    bench = delegated()
    kept = with_kept(bench)
    ask_on(bench, LOCKED)
    bench.take(AssembleIntents)
    finish(bench, first)
    [own] = bench.take(AssembleIntents)
    assert own.snapshot == Snapshot(locks=kept.inputs)
    finish(bench, first)
    [bare] = bench.take(AssembleIntents)
    assert bare.snapshot == Snapshot()
    made = transition("A-1", *kept.inputs, signature=b"")
    bench.tell(AssemblyFinished(RequestId(1, 10), ID, AssemblyOutcome.ASSEMBLED, made))
    assert is_pending_and_goes_on(bench)
    [error] = bench.said(AssembleError, B)
    assert [each.code for each in error.errors] == [ErrorCode.CONTENTION]
    assert machine(bench).is_kept_away
    bench.sequencer.kept.forget(kept.leaf)
    assert not machine(bench).is_kept_away, "what it waited for is gone: from now on its delegate is to act"


def test_intent_that_is_invalid_even_with_what_is_kept_ends() -> None:
    bench = delegated()
    with_kept(bench)
    ask_on(bench, LOCKED)
    for _ in range(3):
        assert bench.take(ReportReceipt) == []
        finish(bench, AssemblyOutcome.REVERTED)
    assert bench.take(ReportReceipt) == [ReportReceipt(reverted("no funds"))]
    assert not is_known(bench)


def test_coordinator_whose_locks_leave_nothing_is_to_blame_although_a_state_is_kept() -> None:
    """On our own states without the kept one it can be assembled: what is kept is no excuse."""
    bench = delegated()
    with_kept(bench)
    ask_on(bench, LOCKED)
    finish(bench, AssemblyOutcome.REVERTED)
    finish(bench, AssemblyOutcome.ASSEMBLED)
    assert is_pending_and_goes_on(bench)
    assert not machine(bench).is_kept_away


# Endorsers that refuse.


def test_refusal_with_a_false_signature_leaves_the_coordinator_without_evidence() -> None:
    bench = active(of=endorsed_by_others(endorsers=(B,)))
    bench.delegate("B-1")
    for number in range(5):
        while not bench.said(AssembleRequest):
            bench.wait(50)
        bench.assemble(transition("B-1", version=number))
        bench.refuse(B, "B-1", signature=FORGED)
    assert bench.state_of("B-1") is Held.REVERTED
    assert [each.refusals for each in bench.said(TransactionReverted, B)] == [()]


def refused_once_and_dropped(name: str, bench: CoordinatorBench) -> None:
    """Its endorser refuses it, and its sender does not assemble it again: it gave it to another one."""
    bench.delegate(name)
    bench.assemble(transition(name))
    bench.refuse(B, name)
    while not (asked := bench.said(AssembleRequest)):
        bench.wait(50)
    error = IntentError(intent_id(name), ErrorCode.NOT_CURRENT_DELEGATE)
    bench.hear(NodeName(name[0]), AssembleError(asked[-1].request_id, (error,)))
    bench.forget()


def test_refusals_are_counted_although_the_sender_drops_the_intent_between_them() -> None:
    """Seed 2: a sender took the intent back between two refusals, and nobody ever gave it up."""
    bench = active(of=endorsed_by_others(endorsers=(B,)))
    refused_once_and_dropped("B-1", bench)
    assert intent_id("B-1") not in bench.coordinator.transactions
    bench.delegate("B-1")
    assert bench.transaction("B-1").refused_count == 1
    assert bench.coordinator.refused_before == {}


def test_count_of_refusals_that_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordinator_base, "REFUSED_INTENTS_MAX", 1)
    bench = active(of=endorsed_by_others(endorsers=(B,)))
    refused_once_and_dropped("B-1", bench)
    refused_once_and_dropped("B-2", bench)
    assert list(bench.coordinator.refused_before) == [intent_id("B-2")]


def answer(bench: CoordinatorBench, endorser: NodeName, *refusals: Refusal) -> None:
    """An endorser's answer to the first round, as it is."""
    [opened] = bench.coordinator.rounds.rounds.values()
    bench.hear(endorser, EndorsementResponse(opened.requests[endorser], opened.digest, b"", refusals))


def test_refusal_of_another_leaf_is_no_evidence() -> None:
    bench = active(of=endorsed_by_others(endorsers=(B,)), config=Config(endorse_retry_max=1))
    bench.bring(Held.ENDORSEMENT_GATHERING, transition("B-1"))
    answer(bench, B, Refusal(intent_id("B-1"), "no", (), transition("B-1", version=9).leaf, refusal_by(B)))
    assert [each.refusals for each in bench.said(TransactionReverted, B)] == [()]


def test_coordinator_verifies_refusals_before_it_counts_them() -> None:
    bench = active(of=endorsed_by_others(endorsers=(B,)))
    made = transition("B-1")
    bench.bring(Held.ENDORSEMENT_GATHERING, made)
    bench.verifies = False
    bench.refuse(B, "B-1")
    assert bench.state_of("B-1") is Held.ENDORSEMENT_GATHERING
    [order] = bench.take(VerifyEndorsers)
    digest = refusal_digest(SEPARATOR, Party("a@B"), made)
    assert [each[:2] for each in order.signed] == [(B, digest)]
    bench.tell(EndorsersVerified(order.request_id, (True,)))
    assert bench.transaction("B-1").refused_count == 1
    bench.tell(EndorsersVerified(order.request_id, (True,)))
    assert bench.transaction("B-1").refused_count == 1


def test_verification_counts_once_and_not_after_the_endorser_has_signed() -> None:
    bench = two_of_three()
    bench.bring(Held.ENDORSEMENT_GATHERING, transition("B-1"))
    bench.verifies = False
    requests = dict(bench.asked(EndorsementRequest))
    refusal = Refusal(intent_id("B-1"), "no", (), transition("B-1").leaf, refusal_by(B))
    answer(bench, B, refusal)
    [order] = bench.take(VerifyEndorsers)
    digest = requests[B].digest
    bench.tell(EndorsementVerified(B, digest, b"by B", is_valid=True))
    bench.tell(EndorsersVerified(order.request_id, (True,)))
    bench.tell(EndorsersVerified(order.request_id, (True,)))
    [opened] = bench.coordinator.rounds.rounds.values()
    assert opened.refusals == {}
    assert list(opened.signatures) == [B]


def test_evidence_is_told_again_to_a_sender_that_missed_it() -> None:
    bench = active(of=endorsed_by_others(endorsers=(B,)), config=Config(endorse_retry_max=1))
    bench.bring(Held.ENDORSEMENT_GATHERING, transition("B-1"))
    bench.refuse(B, "B-1")
    bench.delegate("B-1")
    first, second = bench.said(TransactionReverted, B)
    assert first == second
    assert first.refusals == (EndorserSignature(B, refusal_by(B)),)


def test_unsigned_refusals_are_no_evidence_beside_signed_ones() -> None:
    """Of three endorsers two must refuse by their signatures; one does, and another finds fault with the round."""
    bench = two_of_three(config=Config(endorse_retry_max=1))
    bench.bring(Held.ENDORSEMENT_GATHERING, transition("B-1"))
    bench.refuse(B, "B-1", signature=b"")
    bench.refuse(C, "B-1")
    bench.wait(2_500)
    assert bench.state_of("B-1") is Held.ENDORSEMENT_GATHERING, "the third may still refuse"
    bench.wait(1_000)
    assert bench.state_of("B-1") is Held.REVERTED
    [told] = bench.said(TransactionReverted, B)
    assert (told.refusals, told.reason) == ((), "C refuses B-1")


# Endorsers that fail.


def test_endorser_whose_domain_fails_refuses_nothing() -> None:
    bench = active(of=endorsed_by_others(endorsers=(B,)))
    bench.bring(Held.ENDORSEMENT_GATHERING, transition("B-1"))
    for count in range(1, 8):
        bench.fail_on(B, "B-1")
        assert bench.transaction("B-1").unjudged_by == {B: count}
        while not bench.said(EndorsementRequest, B):
            bench.wait(500)
    assert bench.state_of("B-1") is Held.ENDORSEMENT_GATHERING
    assert bench.transaction("B-1").refused_count == 0
    bench.sign()
    assert bench.state_of("B-1") is Held.CONFIRMING_DISPATCH


def test_endorser_that_fails_is_not_needed_where_others_sign() -> None:
    bench = two_of_three()
    bench.bring(Held.ENDORSEMENT_GATHERING, transition("B-1"), transition("B-2"))
    bench.fail_on(B, "B-1")
    assert bench.state_of("B-1") is bench.state_of("B-2") is Held.ENDORSEMENT_GATHERING
    bench.sign(C, D)
    assert bench.state_of("B-2") is Held.CONFIRMING_DISPATCH


def test_transition_that_breaks_the_endorsers_domains_does_not_hold_up_its_round() -> None:
    bench = two_of_three()
    bench.bring(Held.ENDORSEMENT_GATHERING, transition("B-1"), transition("B-2"))
    bench.fail_on(B, "B-1")
    bench.fail_on(C, "B-1")
    rounds = [list(opened.members) for opened in bench.coordinator.rounds.rounds.values()]
    assert sorted(rounds) == sorted([[intent_id("B-1")], [intent_id("B-2")]])
    assert bench.transaction("B-1").is_apart


# What endorsers say they keep.


def kept(name: str, *inputs: StateId) -> KeptStates:
    made = prepared_transition(name, *inputs)
    return KeptStates(made.intent, made.leaf, made.inputs, made.valid_until_s)


def test_endorser_that_lies_about_what_it_keeps_locks_nobodys_coins() -> None:
    """A second endorser refuses a bad transition, so that the lie of the first would be believed with it."""
    bench = two_of_three()
    own, victims = (StateId(transition(f"X-{number}").leaf, 0) for number in (1, 2))
    made = transition("B-1", own)
    bench.bring(Held.ENDORSEMENT_GATHERING, made)
    answer(bench, B, Refusal(made.intent, "kept", (kept("C-1", own, victims),), made.leaf))
    answer(bench, C, Refusal(made.intent, "no", (), made.leaf, refusal_by(C)))
    assert bench.coordinator.kept.standing == {}
    assert bench.transaction("B-1").refused_count == 1


def test_state_is_locked_when_so_many_keep_it_that_one_of_them_is_honest() -> None:
    bench = two_of_three()
    own = StateId(transition("X-1").leaf, 0)
    made, keeper = transition("B-1", own), kept("C-1", own)
    bench.bring(Held.ENDORSEMENT_GATHERING, made)
    for endorser in (B, C):
        answer(bench, endorser, Refusal(made.intent, "kept", (keeper, keeper), made.leaf))
    assert bench.coordinator.kept.standing == {keeper.leaf: keeper}
    assert bench.transaction("B-1").refused_count == 0


def test_endorser_that_names_a_kept_state_twice_does_not_stop_the_coordinator() -> None:
    """What it says is chosen for all, and is taken back when its time has passed."""
    bench = two_of_three()
    own = StateId(transition("X-1").leaf, 0)
    made, keeper = transition("B-1", own), kept("C-1", own)
    bench.bring(Held.ENDORSEMENT_GATHERING, made)
    answer(bench, B, Refusal(made.intent, "kept", (keeper._replace(inputs=(own, own)),), made.leaf))
    answer(bench, C, Refusal(made.intent, "kept", (keeper,), made.leaf))
    [found] = bench.coordinator.kept.standing.values()
    assert found.inputs == (own,)
    bench.tell(OutcomesFinal(keeper.valid_until_s + 1, ()))
    assert bench.coordinator.kept.standing == {}


def test_endorser_that_names_a_false_leaf_for_what_is_kept_does_not_unlock_it() -> None:
    """We have signed that leaf ourselves, and what others say of such a leaf changes nothing."""
    bench = two_of_three()
    own, other = (StateId(transition(f"X-{number}").leaf, 0) for number in (1, 2))
    made, keeper, signed = transition("B-1", own), kept("C-1", own), kept("C-2", other)
    bench.coordinator.kept.sign(signed)
    bench.bring(Held.ENDORSEMENT_GATHERING, made)
    answer(bench, B, Refusal(made.intent, "kept", (keeper._replace(leaf=signed.leaf),), made.leaf))
    answer(bench, C, Refusal(made.intent, "kept", (keeper,), made.leaf))
    assert own in bench.coordinator.kept.locks(())


@pytest.mark.parametrize("counts", [(1, 2), (2, 1)])
def test_endorser_that_answers_twice_with_other_refusals_neither_stops_the_coordinator_nor_swaps_them(
    counts: tuple[int, int],
) -> None:
    """The verdict on the signatures of the first answer is not spread over the refusals of the second."""
    bench = active()
    bench.bring(Held.ENDORSEMENT_GATHERING, transition("B-1"), transition("B-2"))
    request = dict(bench.asked(EndorsementRequest))[C]
    bench.verifies = False
    refusals = tuple(Refusal(made.intent, "no", (), made.leaf, refusal_by(C)) for made in request.transitions)
    for count in counts:
        bench.hear(C, EndorsementResponse(request.request_id, request.digest, b"", refusals[:count]))
        bench.wait(bench.config.request_timeout_ms)
    first, second = bench.take(VerifyEndorsers)
    assert (len(first.signed), len(second.signed)) == counts
    assert len({first.request_id, second.request_id, request.request_id}) == 3
    bench.tell(EndorsersVerified(first.request_id, (True,) * counts[0]))
    assert [bench.transaction(name).refused_count for name in ("B-1", "B-2")] == [0, 0]
    bench.tell(EndorsersVerified(second.request_id, (True,) * counts[1]))
    assert [bench.transaction(name).refused_count for name in ("B-1", "B-2")] == [1, int(counts[1] == 2)]


def test_refusals_that_are_being_verified_do_not_count_after_the_endorser_could_not_judge() -> None:
    bench = active(of=endorsed_by_others(endorsers=(B,)))
    bench.bring(Held.ENDORSEMENT_GATHERING, transition("B-1"))
    bench.verifies = False
    request = dict(bench.asked(EndorsementRequest))[B]
    refusal = Refusal(intent_id("B-1"), "no", (), transition("B-1").leaf, refusal_by(B))
    bench.hear(B, EndorsementResponse(request.request_id, request.digest, b"", (refusal,)))
    bench.hear(B, EndorsementError(request.request_id, Rejection.UNAVAILABLE))
    [order] = bench.take(VerifyEndorsers)
    bench.tell(EndorsersVerified(order.request_id, (True,)))
    assert bench.transaction("B-1").refused_count == 0


def refused_without_a_signature() -> CoordinatorBench:
    """Refused for the last time: by a liar that signs nothing, and by an honest endorser; the third is silent."""
    bench = two_of_three(config=Config(endorse_retry_max=1))
    bench.delegate("B-1")
    bench.assemble(transition("B-1"))
    bench.refuse(C, "B-1", signature=b"")
    bench.refuse(B, "B-1")
    return bench


def test_refusal_without_a_signature_does_not_keep_the_evidence_from_the_sender() -> None:
    """Seed 2434: it was given up without evidence, delegated again and refused so again, for ever."""
    bench = refused_without_a_signature()
    assert bench.state_of("B-1") is Held.ENDORSEMENT_GATHERING
    bench.refuse(D, "B-1")
    assert bench.state_of("B-1") is Held.REVERTED
    [reverted] = bench.said(TransactionReverted, B)
    assert [each.endorser for each in reverted.refusals] == [B, D]


def test_coordinator_does_not_wait_for_evidence_that_cannot_come() -> None:
    bench = refused_without_a_signature()
    bench.sign(D)
    bench.wait(1_000)
    assert bench.state_of("B-1") is Held.REVERTED
