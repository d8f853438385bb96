"""An intent that depends on another one of its contract is assembled on what that makes, or waits (protocol §4.3).

In all of this A sends, and at height 400 B leads. A-2 depends on A-1.
"""

from __future__ import annotations

import pytest

from rota.machine.effects import ReportReceipt
from rota.machine.events import CancelRequested, Tick
from rota.model.types import AwaitedLeaf, Outcome, Receipt, RequestId, StateId, SubmitMode, Transition
from rota.sequencer.effects import AssembleIntents, LeavesSigned, SignTransition
from rota.sequencer.events import AssemblyFinished, SignatureVerified, TransitionSigned
from rota.sequencer.sender_transaction import State
from rota.sequencer.sent_intent import Restored
from rota.sequencer.sequencer import StoredContract
from rota.wire.messages import AssembleError, AssembleRequest, AssemblyOutcome, DelegationCommand, ErrorCode, Snapshot
from tests.sequencer.kit import ADDRESS, GENESIS_S, B, Bench, intent, intent_id, signed_leaf, transition
from tests.sequencer.test_sender_transaction import (
    HEIGHT,
    accept,
    ask_permission,
    assembled,
    delegated,
    is_known,
    machine,
    outcome,
    prepared,
    records,
    state,
)

ONE, TWO = intent_id("A-1"), intent_id("A-2")
OUTPUT = StateId(transition("A-1").leaf, 0)


def is_delegated(bench: Bench, name: str = "A-2") -> bool:
    """B was asked to coordinate it since the last look."""
    sent = [each.intent.id for command in bench.said(DelegationCommand, B) for each in command.delegations]
    bench.forget()
    return intent_id(name) in sent


def ask(bench: Bench, counter: int, *names: str) -> None:
    """B asks for the assembly of these."""
    intents = tuple(intent_id(name) for name in names)
    bench.hear(B, AssembleRequest(RequestId(1, counter), intents, Snapshot()), height=HEIGHT)


def finish(bench: Bench, made: Transition) -> None:
    """The domain assembles an intent as this, under the order that it was given."""
    order = next(each.request_id for each in reversed(bench.effects) if isinstance(each, AssembleIntents))
    bench.tell(AssemblyFinished(order, made.intent, AssemblyOutcome.ASSEMBLED, made))


def sign(bench: Bench, name: str) -> None:
    """The party signs."""
    (order,) = [each for each in bench.take(SignTransition) if each.intent == intent_id(name)]
    bench.tell(TransitionSigned(order.request_id, order.intent, b"signed"))


def with_dependent() -> Bench:
    """A-1 is assembled, and B has accepted A-2, which depends on it."""
    bench = assembled()
    bench.submit("A-2", depends_on=(ONE,))
    accept(bench)
    bench.forget()
    return bench


def test_dependent_is_delegated_when_its_dependency_is_assembled_for_the_same_coordinator() -> None:
    bench = delegated()
    bench.submit("A-2", depends_on=(ONE,))
    assert not is_delegated(bench)
    ask(bench, 10, "A-1")
    finish(bench, transition("A-1", signature=b""))
    assert not is_delegated(bench)
    order = bench.sequencer.sender.transactions[ONE].order
    assert order is not None
    bench.tell(TransitionSigned(order, ONE, b"signed"))
    assert is_delegated(bench)


def test_version_that_spends_an_output_of_its_dependency_is_signed_before_that_is_confirmed() -> None:
    bench = with_dependent()
    ask(bench, 11, "A-2")
    finish(bench, transition("A-2", OUTPUT, signature=b""))
    sign(bench, "A-2")
    assert state(bench, "A-2") is State.ENDORSEMENT_GATHERING


def test_version_that_reads_an_output_of_its_dependency_is_signed_too() -> None:
    bench = with_dependent()
    ask(bench, 11, "A-2")
    made = transition("A-2", signature=b"")
    finish(bench, Transition(made.intent, made.leaf, (), (OUTPUT,), made.outputs, valid_until_s=made.valid_until_s))
    assert state(bench, "A-2") is State.SIGNING


def test_version_of_the_slot_in_which_its_dependency_is_assembled_is_signed() -> None:
    """Of A-1 no version is signed yet when the domain has assembled A-2 on it."""
    bench = with_dependent()
    ask(bench, 11, "A-1", "A-2")
    again = transition("A-1", version=1, signature=b"")
    finish(bench, again)
    assert again.leaf not in machine(bench).versions
    finish(bench, transition("A-2", StateId(again.leaf, 0), signature=b""))
    assert state(bench, "A-2") is State.SIGNING


@pytest.mark.parametrize("result", [AssemblyOutcome.ASSEMBLED, AssemblyOutcome.REVERTED, AssemblyOutcome.PARKED])
def test_version_that_reads_nothing_of_its_dependency_is_not_signed_and_waits(result: AssemblyOutcome) -> None:
    bench = with_dependent()
    ask(bench, 11, "A-2")
    order = next(each.request_id for each in reversed(bench.effects) if isinstance(each, AssembleIntents))
    made = transition("A-2", signature=b"") if result is AssemblyOutcome.ASSEMBLED else None
    bench.tell(AssemblyFinished(order, TWO, result, made, "insufficient funds"))
    assert state(bench, "A-2") is State.PENDING
    assert not bench.take(SignTransition)
    assert not [each for each in records(bench) if isinstance(each, LeavesSigned)]
    (error,) = bench.said(AssembleError, B)
    assert [(each.intent, each.code) for each in error.errors] == [(TWO, ErrorCode.FAILED)]
    bench.forget()
    bench.wait(500)
    assert not is_delegated(bench)
    bench.sequencer.sender.dependency_ended(ONE, Outcome.CONFIRMED)
    bench.tell(Tick())
    assert is_delegated(bench)


def test_dependent_of_two_reads_both_or_waits_and_is_tried_again_when_one_is_confirmed() -> None:
    bench = assembled()
    bench.submit("A-3")
    accept(bench)
    ask(bench, 11, "A-3")
    finish(bench, transition("A-3", signature=b""))
    sign(bench, "A-3")
    bench.submit("A-2", depends_on=(ONE, intent_id("A-3")))
    accept(bench)
    ask(bench, 12, "A-2")
    finish(bench, transition("A-2", OUTPUT, signature=b""))
    assert state(bench, "A-2") is State.PENDING
    bench.forget()
    bench.sequencer.sender.dependency_ended(intent_id("A-3"), Outcome.CONFIRMED)
    bench.tell(Tick())
    assert is_delegated(bench)
    accept(bench)
    ask(bench, 13, "A-2")
    finish(bench, transition("A-2", OUTPUT, signature=b""))
    assert state(bench, "A-2") is State.SIGNING


def test_dependent_follows_a_dependency_that_is_permitted_or_on_the_chain() -> None:
    bench = prepared()
    bench.submit("A-2", depends_on=(ONE,))
    assert is_delegated(bench)
    bench = prepared()
    bench.block(HEIGHT + 1, outcome())
    bench.forget()
    assert state(bench) is State.CONFIRMED
    bench.submit("A-2", depends_on=(ONE,))
    assert is_delegated(bench)


def test_dependent_waits_for_external_foreign_and_ending_dependencies() -> None:
    bench = assembled()
    leaf = AwaitedLeaf(ADDRESS, ONE, OUTPUT.leaf, GENESIS_S + 600)
    bench.submit("A-2", awaits=(leaf,))
    assert not is_delegated(bench)
    bench.submit("A-3", depends_on=(intent_id("X-1"),))
    assert not is_delegated(bench, "A-3")
    bench.submit("A-4", depends_on=(ONE,), submit_mode=SubmitMode.EXTERNAL)
    assert not is_delegated(bench, "A-4")
    bench.tell(CancelRequested("user", ONE))
    bench.submit("A-5", depends_on=(ONE,))
    assert not is_delegated(bench, "A-5")


def test_dependent_waits_while_its_dependency_is_with_another_coordinator() -> None:
    bench = assembled()
    bench.sequencer.sender.transactions[ONE].delegate = None
    bench.submit("A-2", depends_on=(ONE,))
    assert not is_delegated(bench)


def test_version_is_not_signed_when_its_dependency_has_ended_meanwhile() -> None:
    bench = with_dependent()
    ask(bench, 11, "A-2")
    bench.sequencer.sender.transactions.pop(ONE)
    finish(bench, transition("A-2", OUTPUT, signature=b""))
    assert state(bench, "A-2") is State.PENDING


def test_dependent_that_is_under_way_ends_with_its_dependency_when_it_is_pending_again() -> None:
    bench = with_dependent()
    ask(bench, 11, "A-2")
    bench.sequencer.sender.dependency_ended(ONE, Outcome.REVERTED)
    assert state(bench, "A-2") is State.ASSEMBLING
    finish(bench, transition("A-2", signature=b""))
    receipt = Receipt(intent_id("A-2"), Outcome.REVERTED, f"depends on {ONE.hex()}, which was reverted")
    assert bench.take(ReportReceipt) == [ReportReceipt(receipt)]
    assert not is_known(bench, "A-2")


def test_restored_dependent_goes_on_when_its_dependency_is_permitted_again() -> None:
    first, second = transition("A-1"), transition("A-2", OUTPUT)
    found = (
        Restored(intent("A-1"), versions=(signed_leaf(first),)),
        Restored(intent("A-2", depends_on=(ONE,)), versions=(signed_leaf(second),)),
    )
    bench = Bench(height=HEIGHT, stored=StoredContract(found), incarnation=2)
    bench.tell(Tick())
    assert not is_delegated(bench)
    accept(bench)
    ask_permission(bench, 20, number=machine(bench).number)
    assert not is_delegated(bench)
    held = machine(bench).held
    assert held is not None
    assert held.verified_as is not None
    bench.tell(SignatureVerified(held.verified_as, ONE, is_ours=True))
    assert state(bench) is State.PREPARED
    assert is_delegated(bench)
