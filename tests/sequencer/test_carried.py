"""What another contract is to carry out, at its sender: refused with a reason, or endorsed again when it expires."""

from __future__ import annotations

from rota.machine.effects import Persist
from rota.model.types import Leaf, NodeName, RequestId, SubmitMode
from rota.node.explanation import explain_at_sender
from rota.sequencer.effects import EndingDecided, VerifyEndorsers
from rota.sequencer.events import AssemblyFinished, EndorsersVerified, OutcomesFinal, TransitionSigned
from rota.sequencer.sender_transaction import State
from rota.sequencer.sent_intent import Restored
from rota.sequencer.sequencer import StoredContract
from rota.wire.messages import AssemblyOutcome, DelegationCommand, EndorserSignature, TransactionReverted
from tests.sequencer.kit import FORGED, A, B, Bench, C, intent, prepared_transition
from tests.sequencer.test_prepared import MADE, PREPARED_UNTIL_S, outcome, prepared
from tests.sequencer.test_sender_transaction import (
    HEIGHT,
    ID,
    accept,
    ask_assembly,
    final_at,
    is_being_voided,
    is_pending_and_goes_on,
    machine,
    records,
    state,
)

CARRIED = SubmitMode.CARRIED


def issued(mode: SubmitMode = CARRIED) -> Bench:
    """Endorsed; the endorser's node is asking the other contract."""
    bench = Bench(height=HEIGHT)
    bench.submit("A-1", submit_mode=mode)
    accept(bench)
    ask_assembly(bench, 10)
    made = prepared_transition("A-1", signature=b"")
    bench.tell(AssemblyFinished(RequestId(1, 10), ID, AssemblyOutcome.ASSEMBLED, made))
    bench.tell(TransitionSigned(RequestId(1, 10), ID, b"signed"))
    bench.hear(B, prepared(), height=HEIGHT)
    assert state(bench) is State.ISSUED
    bench.take(Persist)
    return bench


def refuse(
    bench: Bench, peer: NodeName = B, leaf: Leaf = MADE.leaf, signers: tuple[NodeName, ...] = (A, B, C), by: bytes = b""
) -> None:
    """The other contract refuses it: the endorsers sign that, who know of no delegation."""
    signed = tuple(EndorserSignature(name, by or f"by {name}".encode()) for name in signers)
    unknown = machine(bench).number._replace(counter=77)
    bench.hear(peer, TransactionReverted(ID, unknown, leaf, "not on the list", signed), height=HEIGHT)


def test_signed_refusal_of_an_issued_intent_ends_it_with_its_reason() -> None:
    """It was endorsed, so that it is voided first: no receipt has the outcome reverted before the chain has it."""
    bench = issued()
    refuse(bench)
    assert is_being_voided(bench)
    assert machine(bench).ending_reason == "not on the list"
    assert [record for record in records(bench) if isinstance(record, EndingDecided)] == [
        EndingDecided(ID, "not on the list", "")
    ]


def test_word_of_its_coordinator_alone_ends_nothing() -> None:
    bench = issued()
    refuse(bench, signers=())
    refuse(bench, signers=(B,), by=FORGED)
    assert state(bench) is State.ISSUED


def test_refusal_of_another_leaf_ends_nothing() -> None:
    bench = issued()
    refuse(bench, leaf=prepared_transition("A-1", version=3).leaf)
    assert state(bench) is State.ISSUED


def test_settlement_leg_cannot_be_refused_once_it_is_endorsed() -> None:
    """Its endorsers gave it away; only a contract that decides afterwards may refuse it."""
    bench = issued(SubmitMode.EXTERNAL)
    refuse(bench)
    assert state(bench) is State.ISSUED


def test_refusal_counts_that_is_verified_after_the_chain_has_it_only_as_the_chain_has_it() -> None:
    bench = issued()
    bench.verifies = False
    refuse(bench)
    (order,) = bench.take(VerifyEndorsers)
    bench.block(HEIGHT + 1, outcome())
    bench.tell(EndorsersVerified(order.request_id, (True,) * 3, ID))
    assert state(bench) is State.CONFIRMED


def expired() -> Bench:
    bench = issued()
    bench.block(HEIGHT + 1, time_s=PREPARED_UNTIL_S + 1)
    final_at(bench, HEIGHT + 2, PREPARED_UNTIL_S)
    assert state(bench) is State.ISSUED
    bench.forget()
    bench.tell(OutcomesFinal(PREPARED_UNTIL_S + 1, ()))
    return bench


def test_intent_that_expires_before_it_is_carried_out_is_endorsed_again() -> None:
    bench = expired()
    assert is_pending_and_goes_on(bench)
    assert machine(bench).issued is None
    bench.wait(1_000)
    assert bench.said(DelegationCommand), "it is delegated again"


def test_old_refusal_does_not_end_an_intent_that_is_endorsed_again() -> None:
    bench = expired()
    refuse(bench)
    assert is_pending_and_goes_on(bench)


def test_restart_with_an_intent_expired_meanwhile_endorses_it_again() -> None:
    found = Restored(intent("A-1", submit_mode=CARRIED), issued=prepared(), void_after_s=PREPARED_UNTIL_S)
    bench = Bench(height=HEIGHT, stored=StoredContract((found,)), incarnation=2)
    assert state(bench) is State.ISSUED
    bench.block(HEIGHT + 1, time_s=PREPARED_UNTIL_S + 1)
    bench.tell(OutcomesFinal(PREPARED_UNTIL_S + 1, ()))
    assert is_pending_and_goes_on(bench)


def test_refusal_counts_after_a_restart() -> None:
    found = Restored(intent("A-1", submit_mode=CARRIED), issued=prepared(), void_after_s=PREPARED_UNTIL_S)
    bench = Bench(height=HEIGHT, stored=StoredContract((found,)), incarnation=2)
    refuse(bench)
    assert is_being_voided(bench)
    assert machine(bench).ending_reason == "not on the list"


def test_explanation_names_the_other_contract() -> None:
    found = explain_at_sender(issued().sequencer, ID)
    assert found is not None
    text = "the contract that decides about it, which A, B, C asks, to carry it out"
    assert found.waits_for == f"{text} before chain time {PREPARED_UNTIL_S}"
    assert found.who == (A, B, C)
