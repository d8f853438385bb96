"""O1 to O4, each by itself: facts that keep it, and facts that do not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rota.machine.effects import IntentAccepted
from rota.model.consistency import Authorised, Consistent
from rota.model.digests import core_of, domain_separator, leaf_of, round_digest
from rota.model.types import (
    AwaitedLeaf,
    ContractAddress,
    Digest,
    Intent,
    IntentId,
    Leaf,
    Outcome,
    Party,
    Receipt,
    RequestId,
    StateId,
    Transition,
)
from rota.sequencer.effects import IntentParked, TransitionIssued
from rota.sim.domain import PREPARATION
from rota.sim.facts import (
    Answered,
    Asked,
    BlockMined,
    Cause,
    Committed,
    Endorsed,
    Fact,
    Hung,
    Promised,
    Reported,
    Request,
    Resumed,
    RunEnded,
    Stopped,
    Undone,
    Wanted,
)
from rota.sim.invariants import EVERY, Judge, Terms
from rota.sim.invariants.outcomes import ANSWERED_WITHIN_MS
from rota.sim.services import verify
from rota.wire.messages import EndorsementRequest, Envelope
from tests.sim.test_invariants import ADDRESS, CONTRACT, ID, INTENT, MADE, PREPARED, A, B, C, Said, recorded
from tests.sim.test_invariants import transition as make

OTHER_ID = IntentId(b"A-2".ljust(16, b"\x00"))
DEPENDENT = Intent(OTHER_ID, ADDRESS, Party("user@A"), b"mint", (ID,))
LATE_MS = ANSWERED_WITHIN_MS + 1
SEPARATOR = domain_separator(CONTRACT.chain_id, ADDRESS)
STATE = StateId(make(b"A-0").leaf, 0)


def found(name: str, *facts: Fact | Said) -> tuple[bool, int]:
    """Whether these facts violate an invariant, and how many chances they were."""
    judge = Judge(Terms((A, B, C), {ADDRESS: CONTRACT}, 3, verify), EVERY)
    for fact in facts:
        if isinstance(fact, Said):
            judge.tell_sent(fact.node, fact.peer, Envelope(ADDRESS, RequestId(1, 1), 0, 0, fact.body))
        else:
            judge.tell(fact)
    judge.conclude()
    return name in {violation.invariant for violation in judge.found}, judge.counts()[name].chances


# Causes.


def wanted(*causes: Cause, intent: Intent = INTENT) -> tuple[Fact, ...]:
    return (
        Wanted(A, intent, frozenset(causes)),
        recorded(A, IntentAccepted(intent)),
        Promised(A, Request.SUBMIT, intent.id),
    )


def reverted(reason: str, intent: IntentId = ID) -> Reported:
    return Reported(A, Receipt(intent, Outcome.REVERTED, reason))


@pytest.mark.parametrize(
    ("reason", "cause"),
    [
        ("cancelled", Cause.CANCELLED),
        ("against the rules", Cause.REFUSED),
        ("not enough funds", Cause.FAILS_AT_ASSEMBLY),
        ("a call failed", Cause.FAILS_ON_LEDGER),
        ("unknown party nobody@A", Cause.UNKNOWN_PARTY),
        ("voided on the chain", Cause.CANCELLED),
    ],
)
def test_reverted_intent_names_a_cause_that_the_plan_injected(reason: str, cause: Cause) -> None:
    assert found("O1", *wanted(cause), reverted(reason)) == (False, 1)
    assert found("O1", *wanted(), reverted(reason))[0]
    others = [each for each in Cause if each is not cause]
    assert found("O1", *wanted(*others), reverted(reason))[0] is (reason != "voided on the chain")


def test_reason_that_the_world_does_not_know_is_no_cause() -> None:
    assert found("O1", *wanted(*Cause), reverted("it expired"))[0]
    assert found("O1", *wanted(*Cause), reverted(""))[0]


def test_prepared_transition_expires_only_in_the_hands_of_its_user() -> None:
    expired = reverted("the prepared transition has expired")
    issued = recorded(A, TransitionIssued(PREPARED, 900))
    assert found("O1", *wanted(Cause.MAY_EXPIRE), issued, expired) == (False, 1)
    assert found("O1", *wanted(Cause.MAY_EXPIRE), expired)[0]


def test_intent_ends_with_what_it_depends_on_only_if_that_was_reverted() -> None:
    reason = f"depends on {ID.hex()}, which was reverted"
    both = (*wanted(Cause.CANCELLED), *wanted(intent=DEPENDENT))
    assert found("O1", *both, reverted("cancelled"), reverted(reason, OTHER_ID)) == (False, 2)
    assert found("O1", *both, reverted(reason, OTHER_ID))[0]
    assert found("O1", *both, reverted("cancelled"), reverted("depends on another", OTHER_ID))[0]


def test_intent_without_a_cause_has_its_effect_at_the_end_unless_it_waits_for_its_user() -> None:
    committed = Committed(ADDRESS, 1, MADE)
    assert found("O1", *wanted(), committed) == (False, 1)
    assert found("O1", *wanted())[0]
    assert found("O1", *wanted(), committed, Undone(ADDRESS, 1, MADE))[0]
    assert found("O1", *wanted(), Committed(ADDRESS, 1, replace(MADE, outputs=())))[0], "it was voided"
    assert found("O1", *wanted(), recorded(A, IntentParked(ID, "later"))) == (False, 0)
    assert found("O1", *wanted(Cause.CANCELLED)) == (False, 0)


# Answers.


def test_request_is_answered_in_time_or_its_node_did_not_stay_up() -> None:
    asked = Asked(A, "1", 0)
    assert found("O2", asked, Answered(A, "1", ANSWERED_WITHIN_MS), RunEnded(2 * LATE_MS)) == (False, 1)
    assert found("O2", asked, Answered(A, "1", LATE_MS))[0]
    assert found("O2", asked, RunEnded(LATE_MS))[0]
    assert found("O2", asked, RunEnded(ANSWERED_WITHIN_MS)) == (False, 1)
    assert found("O2", asked, Stopped(A, 5), RunEnded(LATE_MS)) == (False, 1)
    assert found("O2", asked, Stopped(A, LATE_MS))[0], "it was up long enough before it stopped"
    assert found("O2", asked, Hung(A), Stopped(A, LATE_MS)) == (False, 1), "it hung when it stopped"
    assert found("O2", asked, Resumed(A, 5), Answered(A, "1", LATE_MS)) == (False, 1)


# Order.


def test_nothing_takes_effect_before_what_it_depends_on() -> None:
    accepted = (recorded(A, IntentAccepted(INTENT)), recorded(A, IntentAccepted(DEPENDENT)))
    first, second = Committed(ADDRESS, 1, MADE), Committed(ADDRESS, 1, make(b"A-2"))
    assert found("O3", *accepted, first, second) == (False, 1)
    assert found("O3", *accepted, second, first)[0]
    assert found("O3", *accepted, first, Undone(ADDRESS, 1, MADE), second)[0]
    assert found("O3", accepted[1], second) == (False, 0), "it depends on a deployment"


def test_nothing_takes_effect_before_the_leaf_that_it_depends_on() -> None:
    first, second = Committed(ADDRESS, 1, MADE), Committed(ADDRESS, 1, make(b"A-2"))
    right = AwaitedLeaf(ADDRESS, MADE.intent, MADE.leaf, 900)
    for leaf, is_violated in ((right, False), (replace(right, leaf=Leaf(b"l" * 32)), True)):
        accepted = recorded(A, IntentAccepted(replace(DEPENDENT, depends_on=(), awaits=(leaf,))))
        assert found("O3", accepted, first, second) == (is_violated, 1)
        assert found("O3", accepted, second, first)[0]
        assert found("O3", accepted, first, Undone(ADDRESS, 1, MADE), second)[0]


# Prepared transitions.


def prepared(name: bytes, *inputs: StateId, reads: tuple[StateId, ...] = ()) -> Transition:
    intent = IntentId(name.ljust(16, b"\x00"))
    leaf = leaf_of(core_of(SEPARATOR, intent, inputs=inputs, reads=reads), PREPARATION)
    made = Transition(intent, leaf, inputs, reads, (), preparation=PREPARATION)
    return Authorised(Consistent(made))


def signs(made: Transition, valid_until_s: int = 900) -> tuple[Said | Fact, ...]:
    """B asks A for a prepared transition, and A signs."""
    digest = Digest(round_digest(SEPARATOR, (made.leaf,), valid_until_s))
    request = EndorsementRequest(RequestId(1, 1), digest, (made,), (Party("user@A"),), valid_until_s)
    return Said(B, A, request), Endorsed(A, ADDRESS, B, RequestId(1, 1), digest)


def test_endorser_signs_one_of_two_conflicting_prepared_transitions() -> None:
    first = signs(prepared(b"A-1", STATE))
    assert found("O4", *first, *signs(prepared(b"A-2", STATE))) == (True, 1)
    assert found("O4", *first, *signs(prepared(b"A-2", reads=(STATE,)))) == (True, 1)
    assert found("O4", *first, signs(prepared(b"A-2", STATE))[0]) == (False, 1), "it was asked and did not sign"
    assert found("O4", *first, *signs(prepared(b"A-1", STATE, StateId(MADE.leaf, 0)))) == (False, 0)
    assert found("O4", *first, *signs(prepared(b"A-2", StateId(MADE.leaf, 0)))) == (False, 0)


def test_transition_that_a_liar_shows_under_the_digest_of_another_round_is_not_signed_with_it() -> None:
    """Seed 300176: a liar put the digest of another round into its request, and that round was signed later."""
    first, second = signs(prepared(b"A-1", STATE)), signs(prepared(b"A-2", StateId(MADE.leaf, 0)))
    asked, signed = second
    assert isinstance(asked, Said)
    assert isinstance(signed, Endorsed)
    request = EndorsementRequest(
        RequestId(1, 1), signed.digest, (prepared(b"A-2", STATE),), (Party("user@A"),), valid_until_s=900
    )
    assert not found("O4", *first, Said(B, C, request), asked, signed)[0]


def test_approval_of_a_round_is_no_signature_that_commits_it() -> None:
    """Seed 400623: a liar asked for approval of a prepared transition, which reserves nothing."""
    asked, approved = signs(prepared(b"A-1", STATE))
    assert isinstance(asked, Said)
    assert isinstance(asked.body, EndorsementRequest)
    for_approval = Said(B, A, replace(asked.body, asks_approval=True))
    other = signs(prepared(b"A-2", STATE))
    assert not found("O4", for_approval, approved, *other)[0]
    assert found("O4", for_approval, asked, approved, *other)[0], "it was asked for a signature under that number too"


def test_prepared_transition_that_expired_or_was_voided_binds_its_endorser_no_more() -> None:
    first, second = signs(prepared(b"A-1", STATE)), signs(prepared(b"A-2", STATE), 2_000)
    assert found("O4", *first, BlockMined(1, 900), *second)[0], "it is valid in that second"
    assert found("O4", *first, BlockMined(1, 901), *second) == (False, 0)
    voided = Committed(ADDRESS, 1, Transition(ID, prepared(b"A-1").leaf))
    assert found("O4", *first, voided, *second) == (False, 0)
    spent = Committed(ADDRESS, 1, make(b"A-3", STATE))
    assert found("O4", *first, spent, *second) == (False, 0)


def test_request_of_a_liar_for_a_contract_that_does_not_exist_is_passed_over() -> None:
    """Seed 20362: a mutator changed the contract of a round with a prepared transition, and the judge failed."""
    judge = Judge(Terms((A, B, C), {ADDRESS: CONTRACT}, 3, verify, liars=frozenset((C,))), EVERY)
    asked = EndorsementRequest(RequestId(1, 2), Digest(bytes(32)), (prepared(b"A-9", STATE),), (Party("user@C"),), 9)
    judge.tell_sent(C, A, Envelope(ContractAddress("0x" + "99" * 20), RequestId(1, 1), 0, 0, asked))
    assert not judge.found
