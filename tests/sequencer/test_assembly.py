"""The sender's side of assembly: a slot at a time, every copy answered, nothing for strangers (protocol §4.3, §7)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rota.calldata import COMMIT_GAS_MAX, AuthCost, gas_bound
from rota.machine.events import ConnectionLost, Tick
from rota.model.blocks import LedgerOutcome, LedgerStatus
from rota.model.config import Config
from rota.model.types import Call, DelegationNumber, HeartbeatNumber, NodeName, Party, RequestId, StateId, Transition
from rota.sequencer.assembly import flaw_of_size
from rota.sequencer.effects import AssembleIntents, SignTransition, VerifySignature
from rota.sequencer.events import AssemblyFailed, AssemblyFinished, SignatureVerified, TransitionSigned
from rota.sequencer.sender_transaction import SenderTransaction, State
from rota.sequencer.sent_intent import Restored
from rota.sequencer.sequencer import StoredContract
from rota.wire.messages import (
    Answer,
    AssembleError,
    AssembleRequest,
    AssembleResponse,
    AssemblyOutcome,
    AssemblyResult,
    DelegationAccepted,
    DispatchConfirmationRequest,
    DispatchItem,
    ErrorCode,
    IntentAnswer,
    IntentError,
    Snapshot,
)
from tests.sequencer.kit import (
    ADDRESS,
    GENESIS_S,
    A,
    B,
    Bench,
    C,
    D,
    contract,
    digest_of,
    intent,
    intent_id,
    nonce_of,
    transition,
)

HEIGHT = 400
FIRST = DelegationNumber(1, 1)
NOTHING_LOCKED = Snapshot()


def accept(bench: Bench, peer: NodeName) -> None:
    """A node accepts our open command."""
    command = bench.sequencer.sender.command
    assert command is not None
    answers = tuple(IntentAnswer(one, Answer.ACCEPTED) for one in command.intents)
    bench.hear(peer, DelegationAccepted(command.command_id, answers, HeartbeatNumber(1, 1)), height=HEIGHT)


def bench_with(*names: str) -> Bench:
    """These intents of ours are with B."""
    bench = Bench(height=HEIGHT)
    for name in names:
        bench.submit(name)
        accept(bench, B)
    bench.forget()
    return bench


def ask(
    bench: Bench, peer: NodeName, counter: int, *names: str, height: int = HEIGHT, snapshot: Snapshot = NOTHING_LOCKED
) -> None:
    """A coordinator asks to assemble these intents."""
    intents = tuple(intent_id(name) for name in names)
    bench.hear(peer, AssembleRequest(RequestId(1, counter), intents, snapshot), height=height)


def assemble(bench: Bench, counter: int, name: str, version: int = 0) -> None:
    """The domain has assembled it."""
    made = transition(name, version=version, signature=b"")
    request_id = RequestId(1, counter)
    bench.tell(AssemblyFinished(request_id, intent_id(name), AssemblyOutcome.ASSEMBLED, made))


def sign(bench: Bench, counter: int, name: str) -> None:
    """The party has signed it."""
    bench.tell(TransitionSigned(RequestId(1, counter), intent_id(name), b"signed"))


def result(name: str, number: DelegationNumber = FIRST) -> AssemblyResult:
    return AssemblyResult(intent_id(name), AssemblyOutcome.ASSEMBLED, number, transition(name))


def machine(bench: Bench, name: str) -> SenderTransaction:
    return bench.sequencer.sender.transactions[intent_id(name)]


def bench_with_two_delegates() -> Bench:
    """After a restart A-1, permitted, is still with B, which was lost; A-2 is with C."""
    bench = Bench(height=HEIGHT, stored=StoredContract((Restored(intent("A-1")),)), incarnation=2)
    bench.tell(Tick())
    accept(bench, B)
    made = transition("A-1")
    item = DispatchItem(made.intent, DelegationNumber(1, 1), made.leaf, made.signature, made.valid_until_s, made)
    bench.hear(B, DispatchConfirmationRequest(RequestId(1, 1), digest_of(made.leaf), (item,)), height=HEIGHT)
    [asked] = bench.take(VerifySignature)
    bench.tell(SignatureVerified(asked.request_id, asked.intent, is_ours=True))
    bench.tell(ConnectionLost(B))
    bench.submit("A-2")
    accept(bench, C)
    bench.forget()
    return bench


# The way of a slot.


def test_domain_is_asked_for_all_intents_of_a_slot_on_its_snapshot_at_our_height() -> None:
    bench = bench_with("A-1", "A-2")
    snapshot = Snapshot(locks=(StateId(transition("B-1").leaf, 0),), states=transition("B-1").outputs)
    ask(bench, B, 10, "A-2", "A-1", snapshot=snapshot)
    order, until_s = bench.orders[RequestId(1, 10), intent_id("A-1")], GENESIS_S + 600
    intents = (intent("A-2"), intent("A-1"))
    asked = AssembleIntents(ADDRESS, order, intents, snapshot, HEIGHT, until_s, GENESIS_S + 900)
    assert bench.take(AssembleIntents) == [asked]
    assert machine(bench, "A-1").state is State.ASSEMBLING


def test_one_transition_is_signed_while_the_next_is_assembled() -> None:
    bench = bench_with("A-1", "A-2")
    ask(bench, B, 10, "A-1", "A-2")
    assemble(bench, 10, "A-1")
    made = transition("A-1")
    until_s, nonce = made.valid_until_s, nonce_of("A-1")
    order = bench.orders[RequestId(1, 10), made.intent]
    signing = SignTransition(ADDRESS, order, made.intent, Party("a@A"), made.leaf, until_s, nonce)
    assert bench.take(SignTransition) == [signing]
    assert (machine(bench, "A-1").state, machine(bench, "A-2").state) == (State.SIGNING, State.ASSEMBLING)


def test_slot_is_answered_once_all_its_intents_have_their_results_and_in_its_order() -> None:
    bench = bench_with("A-1", "A-2")
    ask(bench, B, 10, "A-1", "A-2")
    for name in ("A-2", "A-1"):
        assert bench.said(AssembleResponse) == []
        assemble(bench, 10, name)
        sign(bench, 10, name)
    assert bench.said(AssembleResponse, B) == [AssembleResponse(RequestId(1, 10), (result("A-1"), result("A-2")))]
    assert bench.said(AssembleError) == []


def test_failing_domain_or_signer_is_an_error_and_the_other_results_are_told() -> None:
    bench = bench_with("A-1", "A-2", "A-3")
    ask(bench, B, 10, "A-1", "A-2", "A-3")
    bench.tell(AssemblyFailed(RequestId(1, 10), intent_id("A-1"), "domain is down"))
    assemble(bench, 10, "A-2")
    bench.tell(AssemblyFailed(RequestId(1, 10), intent_id("A-2"), "no key"))
    assemble(bench, 10, "A-3")
    assert bench.said(AssembleError) == []
    sign(bench, 10, "A-3")
    errors = (
        IntentError(intent_id("A-1"), ErrorCode.FAILED, "domain is down"),
        IntentError(intent_id("A-2"), ErrorCode.FAILED, "no key"),
    )
    assert bench.said(AssembleResponse, B) == [AssembleResponse(RequestId(1, 10), (result("A-3"),))]
    assert bench.said(AssembleError, B) == [AssembleError(RequestId(1, 10), errors)]


def test_slot_in_which_all_fail_is_answered_with_errors_alone() -> None:
    bench = bench_with("A-1")
    ask(bench, B, 10, "A-1")
    bench.tell(AssemblyFailed(RequestId(1, 10), intent_id("A-1"), "domain is down"))
    assert bench.said(AssembleResponse) == []
    assert len(bench.said(AssembleError, B)) == 1


@pytest.mark.parametrize("outcome", [AssemblyOutcome.REVERTED, AssemblyOutcome.PARKED])
def test_what_was_not_assembled_is_told_with_its_reason(outcome: AssemblyOutcome) -> None:
    bench = bench_with("A-1")
    ask(bench, B, 10, "A-1")
    bench.tell(AssemblyFinished(RequestId(1, 10), intent_id("A-1"), outcome, reason="no funds"))
    told = AssemblyResult(intent_id("A-1"), outcome, FIRST, None, "no funds")
    assert bench.said(AssembleResponse, B) == [AssembleResponse(RequestId(1, 10), (told,))]


def test_coordinator_does_not_see_the_bytes_of_states_that_are_not_for_it() -> None:
    bench = bench_with("A-1")
    ask(bench, B, 10, "A-1")
    made = transition("A-1", signature=b"")
    private = replace(made, outputs=tuple(replace(state, distribution=(A, C)) for state in made.outputs))
    bench.tell(AssemblyFinished(RequestId(1, 10), intent_id("A-1"), AssemblyOutcome.ASSEMBLED, private))
    sign(bench, 10, "A-1")
    (response,) = bench.said(AssembleResponse, B)
    seen = response.results[0].transition
    assert seen is not None
    assert [state.content for state in seen.outputs] == [None]
    assert [state.commitment for state in seen.outputs] == [state.commitment for state in made.outputs]
    kept = machine(bench, "A-1").transition
    assert kept is not None
    assert kept.outputs == private.outputs


# Heights.


def test_request_of_a_later_height_waits_for_our_index() -> None:
    bench = bench_with("A-1")
    ask(bench, B, 10, "A-1", height=HEIGHT + 2)
    bench.block(HEIGHT + 1)
    assert bench.take(AssembleIntents) == []
    assert machine(bench, "A-1").state is State.DELEGATED
    bench.block(HEIGHT + 2)
    (asked,) = bench.take(AssembleIntents)
    assert asked.height == HEIGHT + 2
    bench.block(HEIGHT + 3)
    assert bench.take(AssembleIntents) == []


# Copies and older requests.


def test_every_copy_of_a_request_that_is_done_is_answered_and_nothing_is_assembled_again() -> None:
    bench = bench_with("A-1")
    ask(bench, B, 10, "A-1")
    assemble(bench, 10, "A-1")
    sign(bench, 10, "A-1")
    ask(bench, B, 10, "A-1")
    first, second = bench.said(AssembleResponse, B)
    assert first == second
    assert len(bench.take(AssembleIntents)) == 1


def test_copy_of_a_request_that_is_under_way_changes_nothing() -> None:
    bench = bench_with("A-1")
    ask(bench, B, 10, "A-1")
    ask(bench, B, 10, "A-1")
    assert len(bench.take(AssembleIntents)) == 1
    assert bench.said(AssembleResponse) == []


def test_older_request_of_the_same_coordinator_changes_nothing() -> None:
    bench = bench_with("A-1", "A-2")
    ask(bench, B, 10, "A-1")
    assemble(bench, 10, "A-1")
    sign(bench, 10, "A-1")
    bench.forget()
    ask(bench, B, 9, "A-1", "A-2")
    assert bench.effects == []
    assert machine(bench, "A-1").state is State.ENDORSEMENT_GATHERING
    assert machine(bench, "A-2").state is State.DELEGATED


def test_newer_request_takes_the_place_of_the_older_one_whose_results_no_longer_count() -> None:
    bench = bench_with("A-1")
    ask(bench, B, 10, "A-1")
    ask(bench, B, 11, "A-1")
    first, second = (asked.request_id for asked in bench.take(AssembleIntents))
    assert first < second
    assemble(bench, 10, "A-1", version=1)
    bench.tell(AssemblyFailed(RequestId(1, 10), intent_id("A-1"), "late"))
    assert machine(bench, "A-1").state is State.ASSEMBLING
    assemble(bench, 11, "A-1")
    bench.tell(TransitionSigned(RequestId(1, 10), intent_id("A-1"), b"late"))
    assert machine(bench, "A-1").state is State.SIGNING
    sign(bench, 11, "A-1")
    assert bench.said(AssembleResponse, B) == [AssembleResponse(RequestId(1, 11), (result("A-1"),))]


def test_results_for_an_intent_that_has_gone_change_nothing() -> None:
    bench = bench_with()
    assemble(bench, 10, "A-9")
    sign(bench, 10, "A-9")
    bench.tell(AssemblyFailed(RequestId(1, 10), intent_id("A-9"), "late"))
    assert bench.effects == []


def test_slots_of_two_delegates_are_answered_to_each_of_them() -> None:
    bench = bench_with_two_delegates()
    ask(bench, B, 10, "A-1")
    ask(bench, C, 5, "A-2")
    assemble(bench, 10, "A-1")
    sign(bench, 10, "A-1")
    number = DelegationNumber(2, 2)
    assert bench.said(AssembleResponse, B) == [AssembleResponse(RequestId(1, 10), (result("A-1", number),))]
    assert bench.said(AssembleResponse, C) == []
    assemble(bench, 5, "A-2")
    sign(bench, 5, "A-2")
    number = DelegationNumber(2, 1)
    assert bench.said(AssembleResponse, C) == [AssembleResponse(RequestId(1, 5), (result("A-2", number),))]
    assert len(bench.said(AssembleResponse, B)) == 1


def test_failure_is_told_to_the_delegate_whose_slot_it_is_in() -> None:
    bench = bench_with_two_delegates()
    ask(bench, B, 10, "A-1")
    ask(bench, C, 5, "A-2")
    bench.tell(AssemblyFailed(RequestId(1, 10), intent_id("A-1"), "domain is down"))
    error = IntentError(intent_id("A-1"), ErrorCode.FAILED, "domain is down")
    assert bench.said(AssembleError, B) == [AssembleError(RequestId(1, 10), (error,))]
    assert bench.said(AssembleError, C) == []
    assert machine(bench, "A-1").state is State.PENDING
    assert machine(bench, "A-2").state is State.ASSEMBLING


def test_copy_of_a_request_leaves_the_slot_of_another_delegate_alone() -> None:
    bench = bench_with_two_delegates()
    ask(bench, B, 10, "A-1")
    ask(bench, C, 5, "A-2")
    bench.forget()
    ask(bench, B, 10, "A-1")
    assert bench.effects == []
    assemble(bench, 5, "A-2")
    sign(bench, 5, "A-2")
    (response,) = bench.said(AssembleResponse, C)
    assert [one.intent for one in response.results] == [intent_id("A-2")]
    assemble(bench, 10, "A-1")
    sign(bench, 10, "A-1")
    ask(bench, B, 10, "A-1")
    first, second = bench.said(AssembleResponse, B)
    assert first == second
    assert len(bench.said(AssembleResponse, C)) == 1


def test_result_in_a_slot_that_its_coordinator_has_replaced_is_not_told() -> None:
    bench = bench_with("A-1", "A-2", "A-3")
    ask(bench, B, 10, "A-1", "A-2")
    ask(bench, B, 11, "A-3")
    assemble(bench, 10, "A-1")
    sign(bench, 10, "A-1")
    bench.tell(AssemblyFailed(RequestId(1, 10), intent_id("A-2"), "domain is down"))
    assert bench.said(AssembleResponse) == []
    assert bench.said(AssembleError) == []
    assert (machine(bench, "A-1").state, machine(bench, "A-2").state) == (State.ENDORSEMENT_GATHERING, State.PENDING)
    assemble(bench, 11, "A-3")
    sign(bench, 11, "A-3")
    assert bench.said(AssembleResponse, B) == [AssembleResponse(RequestId(1, 11), (result("A-3"),))]


def test_older_request_has_nothing_assembled_even_after_another_delegate_has_asked() -> None:
    bench = bench_with_two_delegates()
    ask(bench, B, 10, "A-1")
    ask(bench, C, 5, "A-2")
    bench.forget()
    ask(bench, B, 9, "A-1")
    assert bench.effects == []
    assert machine(bench, "A-1").request_id == RequestId(1, 10)


# Refusals.


def test_coordinator_that_an_intent_is_not_with_gets_an_error_for_it() -> None:
    bench = bench_with("A-1")
    ask(bench, C, 10, "A-1")
    error = IntentError(intent_id("A-1"), ErrorCode.NOT_CURRENT_DELEGATE)
    assert bench.said(AssembleError, C) == [AssembleError(RequestId(1, 10), (error,))]
    assert bench.take(AssembleIntents) == []
    assert machine(bench, "A-1").state is State.DELEGATED


def test_intent_of_nobody_is_an_unknown_intent() -> None:
    bench = bench_with()
    ask(bench, D, 10, "A-9")
    error = IntentError(intent_id("A-9"), ErrorCode.UNKNOWN_INTENT)
    assert bench.said(AssembleError, D) == [AssembleError(RequestId(1, 10), (error,))]


def test_confirmed_intent_is_final() -> None:
    bench = bench_with("A-1")
    leaf = transition("A-1").leaf
    bench.signed(transition("A-1"))
    bench.block(HEIGHT + 1, LedgerOutcome(intent_id("A-1"), leaf, digest_of(leaf), LedgerStatus.COMMITTED))
    ask(bench, B, 10, "A-1")
    (error,) = bench.said(AssembleError, B)
    assert error.errors == (IntentError(intent_id("A-1"), ErrorCode.FINAL_INTENT),)


def test_parked_intent_is_with_nobody() -> None:
    bench = bench_with("A-1")
    ask(bench, B, 10, "A-1")
    parked = AssemblyOutcome.PARKED
    bench.tell(AssemblyFinished(RequestId(1, 10), intent_id("A-1"), parked, reason="not yet"))
    bench.forget()
    ask(bench, B, 11, "A-1")
    (error,) = bench.said(AssembleError, B)
    assert error.errors == (IntentError(intent_id("A-1"), ErrorCode.NOT_CURRENT_DELEGATE),)


def test_intents_that_are_refused_do_not_keep_the_others_of_the_slot_from_their_answer() -> None:
    bench = bench_with("A-1")
    ask(bench, B, 10, "A-9", "A-1")
    (asked,) = bench.take(AssembleIntents)
    assert asked.intents == (intent("A-1"),)
    assert bench.said(AssembleError) == []
    assemble(bench, 10, "A-1")
    sign(bench, 10, "A-1")
    assert bench.said(AssembleResponse, B) == [AssembleResponse(RequestId(1, 10), (result("A-1"),))]
    error = IntentError(intent_id("A-9"), ErrorCode.UNKNOWN_INTENT)
    assert bench.said(AssembleError, B) == [AssembleError(RequestId(1, 10), (error,))]


def test_request_that_was_refused_leaves_the_slot_of_another_alone() -> None:
    bench = bench_with("A-1")
    ask(bench, B, 10, "A-1")
    ask(bench, C, 50, "A-1")
    assemble(bench, 10, "A-1")
    sign(bench, 10, "A-1")
    assert bench.said(AssembleResponse, B) == [AssembleResponse(RequestId(1, 10), (result("A-1"),))]


def test_asking_for_assembly_is_accepting() -> None:
    bench = Bench(height=HEIGHT)
    bench.submit("A-1")
    ask(bench, B, 10, "A-1")
    assert machine(bench, "A-1").state is State.ASSEMBLING


# What no base-ledger transaction holds.


def calling(name: str, gas: int, data: bytes = b"") -> Transition:
    """A transition that calls a contract."""
    return replace(transition(name, signature=b""), calls=(Call(ADDRESS, gas, data),))


def test_transition_that_no_transaction_holds_is_reverted_with_its_reason() -> None:
    bench = bench_with("A-1")
    ask(bench, B, 10, "A-1")
    huge = calling("A-1", gas=COMMIT_GAS_MAX)
    bench.tell(AssemblyFinished(RequestId(1, 10), intent_id("A-1"), AssemblyOutcome.ASSEMBLED, huge))
    [response] = bench.said(AssembleResponse, B)
    [reverted] = response.results
    assert (reverted.outcome, reverted.transition) == (AssemblyOutcome.REVERTED, None)
    assert reverted.reason.startswith("too large: it takes 16")
    assert reverted.reason.endswith("and a transaction holds 16000000 gas and 122880 bytes")
    assert bench.take(SignTransition) == []


def test_transition_is_too_large_by_its_bytes_as_well() -> None:
    long = replace(calling("A-1", 0), calls=(Call(ADDRESS, 0, bytes(65_535)), Call(ADDRESS, 0, bytes(65_535))))
    assert flaw_of_size(long, contract(), Config()).startswith("too large: it takes ")


def test_transition_that_just_fits_is_signed() -> None:
    bench = bench_with("A-1")
    ask(bench, B, 10, "A-1")
    bench.tell(AssemblyFinished(RequestId(1, 10), intent_id("A-1"), AssemblyOutcome.ASSEMBLED, calling("A-1", 10**7)))
    assert len(bench.take(SignTransition)) == 1


def test_transition_without_a_flaw_of_size_fits_however_long_it_is_valid() -> None:
    auth = AuthCost.of_signatures(3, 3)
    low, high = 0, COMMIT_GAS_MAX
    while low < high:
        gas = (low + high + 1) // 2
        low, high = (low, gas - 1) if flaw_of_size(calling("A-1", gas), contract(), Config()) else (gas, high)
    for valid_until_s in (0, GENESIS_S, 1_763_000_000, 2**64 - 1):
        assert gas_bound((calling("A-1", low),), valid_until_s, auth) <= COMMIT_GAS_MAX


def test_light_transition_has_no_flaw_of_size_whoever_endorses() -> None:
    assert flaw_of_size(transition("A-1"), contract(), Config()) == ""
    assert flaw_of_size(transition("A-1"), contract(A, endorsers=(), threshold=0), Config()) == ""
