"""What is kept for prepared transitions: for whom, how long, and that it comes back when a block goes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rota.model.blocks import LedgerOutcome, LedgerStatus
from rota.model.types import IntentId, KeptStates, StateId
from rota.sequencer import kept as module
from rota.sequencer.kept import Kept
from tests.sequencer.kit import GENESIS_S, digest_of, intent_id, transition

ONE = StateId(transition("X-1").leaf, 0)
TWO = StateId(transition("X-2").leaf, 0)
VALID_UNTIL_S = GENESIS_S + 900


def kept_for(name: str, *inputs: StateId, version: int = 0, valid_until_s: int = VALID_UNTIL_S) -> KeptStates:
    made = transition(name, *inputs, version=version)
    return KeptStates(made.intent, made.leaf, made.inputs, valid_until_s)


def outcome(name: str, status: LedgerStatus = LedgerStatus.COMMITTED) -> LedgerOutcome:
    made = transition(name, version=9)
    return LedgerOutcome(made.intent, made.leaf, digest_of(made.leaf), status)


def is_free(kept: Kept, state: StateId = ONE) -> bool:
    return not kept.is_taken(transition("B-1", state))


def test_states_are_kept_from_other_intents_that_spend_or_read_them() -> None:
    kept = Kept()
    kept.keep(kept_for("A-1", ONE))
    spends = transition("B-1", ONE)
    reads = replace(transition("B-1"), reads=(ONE,))
    assert kept.is_taken(spends)
    assert kept.is_taken(reads)
    assert is_free(kept, TWO)


def test_other_versions_of_the_intent_may_have_them() -> None:
    kept = Kept()
    kept.sign(kept_for("A-1", ONE))
    another = transition("A-1", ONE, version=1)
    assert not kept.is_taken(another)
    assert not kept.signed_away(another)
    assert kept.locks((intent_id("A-1"),)) == ()
    assert kept.locks((intent_id("B-1"),)) == (ONE,)


def test_only_what_was_signed_is_signed_away() -> None:
    kept = Kept(signed=(kept_for("A-1", ONE),), others=(kept_for("A-2", TWO),))
    assert kept.signed_away(transition("B-1", ONE))
    assert not kept.signed_away(transition("B-1", TWO))
    assert kept.is_taken(transition("B-1", TWO))


@pytest.mark.parametrize("status", [LedgerStatus.SKIPPED, LedgerStatus.REVERTED])
def test_failure_on_the_ledger_releases_nothing(status: LedgerStatus) -> None:
    kept = Kept(signed=(kept_for("A-1", ONE),))
    kept.take_outcome(outcome("A-1", status))
    kept.outcome_final(outcome("A-1", status))
    assert not is_free(kept)


def test_success_of_any_version_releases_them_and_its_undoing_takes_them_back() -> None:
    kept = Kept(signed=(kept_for("A-1", ONE), kept_for("A-1", TWO, version=1)))
    kept.take_outcome(outcome("A-2"))
    assert not is_free(kept)
    kept.take_outcome(outcome("A-1"))
    assert is_free(kept)
    assert is_free(kept, TWO)
    kept.undo_outcome(outcome("A-1"))
    assert kept.signed_away(transition("B-1", ONE))
    assert kept.signed_away(transition("B-1", TWO))


def test_what_is_released_already_is_forgotten_without_harm() -> None:
    """A write that fails may be told after the ledger has had the last word."""
    kept, signed = Kept(others=(kept_for("A-2", TWO),)), kept_for("A-1", ONE)
    kept.sign(signed)
    kept.outcome_final(outcome("A-1"))
    kept.forget(signed.leaf)
    assert is_free(kept)
    assert not is_free(kept, TWO)


def test_final_success_releases_them_for_good() -> None:
    kept = Kept(signed=(kept_for("A-1", ONE),))
    kept.take_outcome(outcome("A-1"))
    kept.outcome_final(outcome("A-1"))
    kept.undo_outcome(outcome("A-1"))
    assert is_free(kept)
    assert kept.signed == {}


def test_they_are_kept_until_the_end_of_the_validity_has_passed() -> None:
    kept = Kept(signed=(kept_for("A-1", ONE),))
    kept.time_is_final(VALID_UNTIL_S)
    assert not is_free(kept)
    kept.time_is_final(VALID_UNTIL_S + 1)
    assert is_free(kept)


def test_each_is_kept_until_the_end_of_its_own_validity() -> None:
    kept = Kept()
    kept.keep(kept_for("A-1", ONE, valid_until_s=VALID_UNTIL_S))
    kept.keep(kept_for("A-2", TWO, valid_until_s=VALID_UNTIL_S + 20))
    kept.time_is_final(VALID_UNTIL_S + 1)
    assert (is_free(kept, ONE), is_free(kept, TWO)) == (True, False)
    kept.keep(kept_for("A-3", ONE, valid_until_s=VALID_UNTIL_S + 10))
    kept.time_is_final(VALID_UNTIL_S + 11)
    assert (is_free(kept, ONE), is_free(kept, TWO)) == (True, False)
    kept.time_is_final(VALID_UNTIL_S + 21)
    assert is_free(kept, TWO)


def test_longer_validity_of_the_same_leaf_counts() -> None:
    kept = Kept()
    for valid_until_s in (VALID_UNTIL_S, VALID_UNTIL_S + 100, VALID_UNTIL_S):
        kept.keep(kept_for("A-1", ONE, valid_until_s=valid_until_s))
    kept.time_is_final(VALID_UNTIL_S + 100)
    assert not is_free(kept)


def test_what_others_say_of_a_leaf_that_we_signed_keeps_its_states_no_longer() -> None:
    kept = Kept(signed=(kept_for("A-1", ONE),))
    kept.keep(kept_for("A-1", ONE, valid_until_s=VALID_UNTIL_S + 100))
    kept.time_is_final(VALID_UNTIL_S + 1)
    assert is_free(kept)


def test_state_is_free_when_the_last_that_it_is_kept_for_goes() -> None:
    kept = Kept(signed=(kept_for("A-1", ONE), kept_for("A-2", ONE)))
    kept.forget(kept_for("A-1", ONE).leaf)
    assert not is_free(kept)
    kept.forget(kept_for("A-2", ONE).leaf)
    assert is_free(kept)


def test_what_others_tell_is_bounded_and_what_was_signed_is_never_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KEPT_MAX", 2)
    kept = Kept()
    for number in range(2):
        kept.sign(kept_for(f"A-{number}", ONE))
    for number in range(5):
        kept.keep(kept_for(f"B-{number}", TWO))
    assert len(kept.standing) == 4
    assert len(kept.signed) == 2


def test_locks_of_a_snapshot_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SNAPSHOT_LOCKS_MAX", 1)
    kept = Kept(signed=(kept_for("A-1", ONE, TWO),))
    nobody: tuple[IntentId, ...] = ()
    assert kept.locks(nobody) == (ONE,)


def test_other_inputs_for_a_leaf_that_is_known_are_false_and_change_nothing() -> None:
    """Whoever named one leaf twice with different inputs made the node fail later, when it forgot the leaf."""
    one, other = (StateId(transition(f"X-{number}").leaf, 0) for number in (1, 2))
    first = KeptStates(intent_id("A-1"), transition("A-1").leaf, (one,), 100)
    second = first._replace(inputs=(other,), valid_until_s=200)
    book = Kept(others=(first, second))
    assert book.standing == {first.leaf: first}
    book.forget(first.leaf)
    assert not book.is_taken(transition("B-1", one))
    assert not book.is_taken(transition("B-1", other))


def test_what_we_sign_ourselves_replaces_what_was_falsely_said_of_it() -> None:
    one, other = (StateId(transition(f"X-{number}").leaf, 0) for number in (1, 2))
    said = KeptStates(intent_id("A-1"), transition("A-1").leaf, (one,), 200)
    signed = said._replace(inputs=(other,), valid_until_s=100)
    book = Kept(others=(said,))
    book.sign(signed)
    assert book.standing == {said.leaf: signed}
    assert not book.is_taken(transition("B-1", one))
    assert book.is_taken(transition("B-1", other))
