"""A member prepares transitions on shared states and never commits them: how much it can freeze, and for how long.

C endorses for the coordinator A; B sends, and D wants the same states.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from rota.machine.effects import Persist
from rota.model.blocks import LedgerOutcome, LedgerStatus
from rota.model.digests import void_leaf
from rota.model.types import Contract, KeptStates, Leaf, Mode, NodeName, RequestId, StateId, SubmitMode, Transition
from rota.node.explanation import explain_at_coordinator
from rota.sequencer import turns as module
from rota.sequencer.effects import AssembleIntents, CheckRound, PreparedEndorsed, SignTransition
from rota.sequencer.events import AssemblyFinished, BlockIndexed, OutcomesFinal, TransitionSigned
from rota.sequencer.held_intent import State
from rota.sequencer.sequencer import StoredContract
from rota.sequencer.turns import NOBODY, Turns
from rota.wire.messages import AssembleRequest, AssemblyOutcome, EndorsementRequest, EndorsementResponse, Refusal
from tests.sequencer.coordinator_bench import CoordinatorBench, active, endorsed_by_others
from tests.sequencer.kit import (
    GENESIS_S,
    PREPARATION,
    SEPARATOR,
    A,
    B,
    Bench,
    C,
    D,
    contract,
    digest_of,
    intent_id,
    transition,
    void_transition,
)
from tests.sequencer.test_endorser import request, responses

EXTERNAL = SubmitMode.EXTERNAL
VALIDITY_S, HOLD_S = 900, 300
STATES = tuple(StateId(transition(f"X-{number}").leaf, 0) for number in range(1, 9))
STATE, OTHER = STATES[:2]
OF_FOUR = contract(A, B, C, D)
EARLIER_VERSION = "states are kept for an earlier version of it until"
RESTS = "states were kept for its sender and not used"
TOO_MANY = "too many states are kept for its sender already"


@pytest.fixture(autouse=True)
def nobody_is_excused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each sender has left one unused already."""
    monkeypatch.setattr(module, "FIRST_EXCUSES", 0)


def prepared(name: str, *inputs: StateId, version: int = 0, at_s: int = GENESIS_S) -> Transition:
    """A transition that is prepared at this time, and valid as long as it may be."""
    return transition(name, *inputs, version=version, valid_until_s=at_s + VALIDITY_S, preparation=PREPARATION)


class Endorsing:
    """C, which is asked again and again and whose domain has nothing against anything."""

    def __init__(self, of: Contract = OF_FOUR, stored: StoredContract | None = None) -> None:
        self.bench = Bench(node=C, of=of, stored=stored)
        self.count = 0
        self.height = 0

    @property
    def now_s(self) -> int:
        return self.bench.sequencer.context.chain_time_s

    def ask(self, *made: Transition, until_s: int | None = None) -> None:
        """A has a round of these endorsed; the domain agrees."""
        self.count += 1
        until_s = until_s if until_s is not None else min(each.valid_until_s for each in made)
        self.bench.hear(A, request(*made, request_id=RequestId(1, self.count), valid_until_s=until_s))
        if self.bench.take(CheckRound):
            self.bench.judge(A, RequestId(1, self.count), b"signature")

    def refusal(self, *made: Transition, until_s: int | None = None) -> str:
        """Why a round of these is not signed; nothing if it is."""
        self.bench.forget()
        self.ask(*made, until_s=until_s)
        self.bench.take(Persist)
        [answer] = responses(self.bench)
        assert bool(answer.refusals) is not bool(answer.signature)
        return answer.refusals[0].reason if answer.refusals else ""

    def records(self) -> list[KeptStates]:
        records = [record for persist in self.bench.take(Persist) for record in persist.records]
        return [kept for record in records if isinstance(record, PreparedEndorsed) for kept in record.kept]

    def pass_time(self, seconds: int, *outcomes: LedgerOutcome) -> None:
        """A final block comes so much later."""
        self.height += 1
        time_s = self.now_s + seconds
        self.bench.now_ms += seconds * 1_000
        self.bench.tell(BlockIndexed(self.height, time_s, outcomes))
        self.bench.tell(OutcomesFinal(time_s, outcomes))

    def leave_unused(self, made: Transition) -> int:
        """It is prepared and expires; for how long it was kept."""
        assert self.refusal(made) == ""
        self.pass_time(VALIDITY_S + 1)
        return VALIDITY_S + 1

    def use(self, made: Transition) -> None:
        assert self.refusal(made) == ""
        self.pass_time(1, committed(made))


def committed(made: Transition) -> LedgerOutcome:
    return replace(outcome(made.intent, made.leaf), inputs=made.inputs)


def outcome(intent: object, leaf: Leaf, status: LedgerStatus = LedgerStatus.COMMITTED) -> LedgerOutcome:
    return LedgerOutcome(intent, leaf, digest_of(leaf), status)  # type: ignore[arg-type]


def voided(name: str) -> LedgerOutcome:
    return outcome(intent_id(name), void_leaf(SEPARATOR, intent_id(name)))


# A version does not extend a keep.


def test_member_that_renews_a_prepared_transition_by_new_versions_keeps_no_state_for_longer() -> None:
    endorsing = Endorsing()
    assert endorsing.refusal(prepared("B-1", STATE)) == ""
    endorsing.pass_time(VALIDITY_S // 2)
    later = prepared("B-1", STATE, version=1, at_s=endorsing.now_s)
    assert endorsing.refusal(later).startswith(EARLIER_VERSION)
    assert endorsing.refusal(replace(later, valid_until_s=GENESIS_S + VALIDITY_S)) == ""
    endorsing.pass_time(VALIDITY_S // 2 + 1)
    assert endorsing.refusal(transition("D-1", STATE, valid_until_s=endorsing.now_s + 600)) == ""


def test_member_that_moves_from_state_to_state_keeps_none_of_them_for_longer() -> None:
    endorsing = Endorsing()
    assert endorsing.refusal(prepared("B-1", STATE)) == ""
    assert endorsing.refusal(prepared("B-1", OTHER, version=1, at_s=GENESIS_S - 10)) == ""
    endorsing.pass_time(VALIDITY_S)
    assert "kept" in endorsing.refusal(prepared("D-1", OTHER, at_s=endorsing.now_s))
    endorsing.pass_time(1)
    assert endorsing.refusal(prepared("D-1", OTHER, at_s=endorsing.now_s)) == ""


def test_round_of_many_prepared_transitions_takes_no_more_than_the_share_of_its_sender(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each of them alone would fit: together they left nobody else anything."""
    monkeypatch.setattr(module, "STATES_MAX", 16)
    endorsing = Endorsing()
    many = [prepared(f"B-{number}", StateId(transition(f"X-{number}").leaf, 0)) for number in range(1, 33)]
    assert endorsing.refusal(*many) == TOO_MANY
    assert endorsing.bench.sequencer.turns.turns == {}, "nothing of it is signed"
    assert endorsing.refusal(*many[:10]) == ""
    assert endorsing.refusal(many[10]) == TOO_MANY
    assert endorsing.refusal(prepared("D-1", StateId(transition("X-99").leaf, 0))) == ""


def test_versions_of_one_intent_fill_neither_memory_nor_disk() -> None:
    endorsing = Endorsing()
    endorsing.ask(prepared("B-1", STATE))
    assert len(endorsing.records()) == 1
    endorsing = Endorsing()
    assert endorsing.refusal(prepared("B-1", STATE)) == ""
    for version in range(1, 30):
        endorsing.bench.forget()
        endorsing.ask(prepared("B-1", STATE, version=version))
        assert [answer.signature for answer in responses(endorsing.bench)] == [b"signature"]
        assert endorsing.records() == []
    assert len(endorsing.bench.sequencer.kept.standing) == 1


def test_endorser_keeps_states_until_the_bound_of_the_party_and_not_that_of_the_round() -> None:
    """Else a round that is valid for a shorter time would leave the next version no time at all."""
    endorsing = Endorsing()
    assert endorsing.refusal(prepared("B-1", STATE), until_s=GENESIS_S + 10) == ""
    assert endorsing.refusal(prepared("B-1", STATE, version=1)) == ""


def test_party_cannot_give_the_first_version_a_bound_beyond_the_limit() -> None:
    endorsing = Endorsing()
    endless = replace(prepared("B-1", STATE), valid_until_s=2**40)
    assert endorsing.refusal(endless, until_s=GENESIS_S + VALIDITY_S) == ""
    [kept] = endorsing.bench.sequencer.kept.standing.values()
    assert kept.valid_until_s <= GENESIS_S + VALIDITY_S + 60


# An endorser never signs two conflicting prepared transitions of different intents.


def test_states_are_signed_away_once_and_refused_to_another_intent_from_that_step_on() -> None:
    endorsing = Endorsing()
    for _ in range(2):
        endorsing.ask(prepared("B-1", STATE))
    endorsing.ask(prepared("D-1", STATE))
    assert [each.signature for each in responses(endorsing.bench)] == [b"signature", b"signature", b""]
    assert [each.intent for each in endorsing.records()] == [intent_id("B-1")]
    assert "kept" in endorsing.refusal(prepared("D-1", STATE))


def test_another_version_takes_nothing_from_the_first_one_of_its_intent() -> None:
    endorsing = Endorsing()
    assert endorsing.refusal(prepared("B-1", STATE)) == ""
    assert endorsing.refusal(prepared("B-1", OTHER, version=1)) == ""
    assert "kept" in endorsing.refusal(prepared("D-1", STATE))
    assert "kept" in endorsing.refusal(prepared("D-2", OTHER))


def test_outcome_on_the_ledger_frees_the_states_that_were_signed_away() -> None:
    endorsing = Endorsing()
    made = prepared("B-1", STATE)
    assert endorsing.refusal(made) == ""
    kept = endorsing.bench.sequencer.kept
    assert (list(kept.standing), list(kept.signed)) == ([made.leaf], [made.leaf])
    endorsing.pass_time(1, outcome(made.intent, made.leaf))
    assert (kept.standing, kept.signed) == ({}, {})


# What is not committed in time stands in nobody's way.


def test_prepared_transition_that_is_not_committed_in_time_keeps_no_ordinary_transition_away() -> None:
    endorsing = Endorsing()
    assert endorsing.refusal(prepared("B-1", STATE)) == ""
    endorsing.pass_time(HOLD_S)
    assert "kept" in endorsing.refusal(transition("D-1", STATE, valid_until_s=endorsing.now_s + 600))
    endorsing.pass_time(1)
    assert endorsing.refusal(transition("D-1", STATE, valid_until_s=endorsing.now_s + 600)) == ""
    assert "kept" in endorsing.refusal(prepared("D-2", STATE, at_s=endorsing.now_s))


def test_new_version_keeps_ordinary_transitions_away_no_longer_than_the_first() -> None:
    endorsing = Endorsing()
    assert endorsing.refusal(prepared("B-1", STATE)) == ""
    endorsing.pass_time(HOLD_S)
    assert endorsing.refusal(prepared("B-1", STATE, OTHER, version=1)) == ""
    endorsing.pass_time(1)
    for state in (STATE, OTHER):
        assert endorsing.refusal(transition("D-1", state, valid_until_s=endorsing.now_s + 600)) == ""


def test_coordinator_has_others_assembled_on_what_was_kept_for_too_long() -> None:
    bench = active()
    bench.delegate("B-1", submit_mode=EXTERNAL)
    bench.assemble(prepared("B-1", STATE))
    bench.sign()
    bench.delegate("C-1")
    [asked] = bench.said(AssembleRequest, C)
    assert asked.snapshot.locks == (STATE,)
    bench.block(1, time_s=GENESIS_S + HOLD_S + 1)
    bench.assemble(transition("C-1", STATE, valid_until_s=GENESIS_S + HOLD_S + 600))
    assert bench.state_of("C-1") is State.ENDORSEMENT_GATHERING
    bench.delegate("B-2")
    [asked] = bench.said(AssembleRequest, B)
    assert asked.snapshot.locks == (STATE,), "for what is under way now, and not twice"


# One sender fills only its own share.


def test_member_that_prepares_without_end_leaves_the_others_their_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "INTENTS_MAX", 8)
    endorsing = Endorsing()
    reasons = [endorsing.refusal(prepared(f"B-{number}", STATES[number % 8])) for number in range(8)]
    taken = reasons.count("")
    assert reasons[taken:] == [TOO_MANY] * (8 - taken)
    assert 1 < taken < 8
    for name in ("A-1", "C-1", "D-1"):
        assert endorsing.refusal(prepared(name)) == ""


def test_member_that_prepares_one_transition_on_many_states_leaves_the_others_their_shares(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "STATES_MAX", 8)
    endorsing = Endorsing()
    assert endorsing.refusal(prepared("B-1", *STATES)) == TOO_MANY
    assert endorsing.refusal(prepared("B-2", *STATES[:5])) == ""
    assert endorsing.refusal(prepared("B-2", *STATES[4:6], version=1)) == TOO_MANY
    assert endorsing.refusal(prepared("D-1", STATES[7])) == ""


def test_endorser_serves_many_where_each_sender_coordinates_for_itself() -> None:
    assert Turns(Bench(of=contract(A, B, mode=Mode.SENDER)).sequencer.context).intents.sender_count > 1


def test_restart_counts_what_is_kept_for_nobody_and_bounds_it_as_before() -> None:
    made = prepared("B-1", STATE)
    stored = StoredContract(endorsed=(KeptStates(made.intent, made.leaf, made.inputs, made.valid_until_s),))
    endorsing = Endorsing(stored=stored)
    assert endorsing.bench.sequencer.turns.intents.held == {NOBODY: 1}
    later = prepared("B-1", STATE, version=1, at_s=GENESIS_S + 10)
    assert endorsing.refusal(later).startswith(EARLIER_VERSION)
    endorsing.pass_time(VALIDITY_S + 1)
    assert endorsing.bench.sequencer.turns.intents.held == {}
    assert endorsing.refusal(prepared("B-2", STATE, at_s=endorsing.now_s)) == ""


def test_restored_intent_that_is_used_gives_nobody_credit() -> None:
    made = prepared("B-1", STATE)
    endorsing = Endorsing(stored=StoredContract(endorsed=(KeptStates(made.intent, made.leaf, (), made.valid_until_s),)))
    endorsing.pass_time(1, outcome(made.intent, made.leaf))
    assert endorsing.bench.sequencer.turns.standings == {}


def test_intent_for_which_nothing_is_kept_is_dropped_without_effect() -> None:
    turns = Endorsing().bench.sequencer.turns
    turns.drop(intent_id("B-1"))
    assert (turns.intents.total, turns.states.total) == (0, 0)


# Others have their turn.


def test_member_whose_prepared_transition_expired_does_not_get_the_states_kept_again_at_once() -> None:
    endorsing = Endorsing()
    kept_s = endorsing.leave_unused(prepared("B-1", STATE))
    again = prepared("B-2", STATE, at_s=endorsing.now_s)
    assert endorsing.refusal(again).startswith(RESTS)
    assert endorsing.refusal(prepared("D-1", OTHER, at_s=endorsing.now_s)) == ""
    assert endorsing.refusal(transition("D-2", STATE, valid_until_s=endorsing.now_s + 600)) == ""
    endorsing.pass_time(kept_s - 1)
    assert endorsing.refusal(prepared("B-2", STATE, at_s=endorsing.now_s)).startswith(RESTS)
    endorsing.pass_time(1)
    assert endorsing.refusal(prepared("B-2", STATE, at_s=endorsing.now_s)) == ""


def test_member_that_voids_and_prepares_anew_rests_as_long_as_it_kept_the_states() -> None:
    endorsing = Endorsing()
    assert endorsing.refusal(prepared("B-1", STATE)) == ""
    endorsing.pass_time(100, outcome(intent_id("B-1"), Leaf(b"s" * 32), LedgerStatus.SKIPPED))
    endorsing.pass_time(100, voided("B-1"))
    assert endorsing.refusal(prepared("B-2", STATE, at_s=endorsing.now_s)).startswith(RESTS)
    endorsing.pass_time(200)
    assert endorsing.refusal(prepared("B-2", STATE, at_s=endorsing.now_s)) == ""


def test_member_that_commits_a_version_without_the_kept_states_rests_as_long_as_it_kept_them() -> None:
    endorsing = Endorsing()
    assert endorsing.refusal(prepared("B-1", STATE)) == ""
    endorsing.pass_time(HOLD_S - 10)
    without = transition("B-1", version=1, valid_until_s=endorsing.now_s + 600)
    assert endorsing.refusal(without) == ""
    endorsing.pass_time(5, committed(without))
    assert endorsing.refusal(prepared("B-2", STATE, at_s=endorsing.now_s)).startswith(RESTS)
    endorsing.pass_time(HOLD_S - 5)
    assert endorsing.refusal(prepared("B-2", STATE, at_s=endorsing.now_s)) == ""


def test_sender_gets_credit_for_the_kept_states_that_it_used_and_no_others() -> None:
    """An earlier version may have stood on other states: that they were kept in vain is no fault either."""
    endorsing = Endorsing()
    assert endorsing.refusal(prepared("B-1", *STATES)) == ""
    with_one = prepared("B-1", STATE, version=1)
    assert endorsing.refusal(with_one) == ""
    endorsing.pass_time(5, committed(with_one))
    standing = endorsing.bench.sequencer.turns.standings[B]
    assert (standing.credit, standing.step) == (1, 0)


def test_member_that_freezes_the_next_state_each_time_rests_longer_and_longer() -> None:
    """In a privacy group each transaction makes the next state of the same account: its id is new each time."""
    endorsing = Endorsing()
    rested_s = []
    for number in range(6):
        kept_s = endorsing.leave_unused(prepared(f"B-{number}", STATES[number], at_s=endorsing.now_s))
        began_s, turns = endorsing.now_s, endorsing.bench.sequencer.turns
        while turns.flaw_of(B, intent_id("B-9"), (STATES[number + 1],), 0):
            endorsing.pass_time(kept_s // 2)
        rested_s.append(round((endorsing.now_s - began_s) / kept_s))
    assert rested_s == [1, 2, 4, 8, 8, 8]


def test_what_is_kept_at_the_same_time_and_not_used_counts_once() -> None:
    endorsing = Endorsing()
    assert endorsing.refusal(prepared("B-1", STATE), prepared("B-2", OTHER)) == ""
    endorsing.pass_time(VALIDITY_S + 1)
    assert endorsing.bench.sequencer.turns.standings[B].step == 1


def test_clean_time_shortens_the_next_rest() -> None:
    endorsing = Endorsing()
    for number in range(3):
        endorsing.leave_unused(prepared(f"B-{number}", STATES[number], at_s=endorsing.now_s))
        endorsing.pass_time(20 * VALIDITY_S)
    assert endorsing.bench.sequencer.turns.standings[B].step == 1


def test_sender_that_uses_most_of_what_is_kept_for_it_may_leave_some_unused() -> None:
    endorsing = Endorsing()
    for number in range(8):
        endorsing.use(prepared(f"B-{number}", STATES[number], at_s=endorsing.now_s))
    endorsing.leave_unused(prepared("B-8", STATE, at_s=endorsing.now_s))
    endorsing.leave_unused(prepared("B-9", STATE, at_s=endorsing.now_s))
    assert endorsing.refusal(prepared("B-10", STATE, at_s=endorsing.now_s)).startswith(RESTS)


def test_prepared_transitions_without_inputs_excuse_no_unused_state() -> None:
    endorsing = Endorsing()
    for number in range(8):
        endorsing.use(prepared(f"B-{number}", at_s=endorsing.now_s))
    endorsing.leave_unused(prepared("B-8", STATE, at_s=endorsing.now_s))
    assert endorsing.refusal(prepared("B-9", STATE, at_s=endorsing.now_s)).startswith(RESTS)
    assert endorsing.refusal(prepared("B-10", OTHER, at_s=endorsing.now_s)).startswith(RESTS)


def test_use_of_few_states_does_not_excuse_many_that_are_left_unused() -> None:
    endorsing = Endorsing()
    for number in range(8):
        endorsing.use(prepared(f"B-{number}", STATES[number], at_s=endorsing.now_s))
    endorsing.leave_unused(prepared("B-8", *STATES[:2], at_s=endorsing.now_s))
    assert endorsing.refusal(prepared("B-9", STATE, at_s=endorsing.now_s)).startswith(RESTS)


def test_prepared_transition_without_inputs_that_is_not_used_costs_nothing() -> None:
    endorsing = Endorsing()
    endorsing.leave_unused(prepared("B-1", at_s=endorsing.now_s))
    assert endorsing.refusal(prepared("B-2", STATE, at_s=endorsing.now_s)) == ""


@pytest.mark.parametrize("of", [contract(A, B, C, D), contract(A, mode=Mode.STATIC, endorsers=(C,))])
def test_settlement_that_fails_for_the_first_time_is_tried_again_at_once(
    of: Contract, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FIRST_EXCUSES", 1)
    endorsing = Endorsing(of=of)
    endorsing.leave_unused(prepared("B-1", STATE))
    endorsing.leave_unused(prepared("B-2", STATE, at_s=endorsing.now_s))
    assert endorsing.refusal(prepared("B-3", STATE, at_s=endorsing.now_s)).startswith(RESTS)


def test_party_of_a_token_that_leaves_a_leg_unused_does_not_hold_up_the_others_of_its_node() -> None:
    endorsing = Endorsing(of=contract(A, mode=Mode.STATIC, endorsers=(C,)))
    endorsing.leave_unused(prepared("B-1", STATE))
    assert endorsing.refusal(prepared("B-2", STATE, at_s=endorsing.now_s)).startswith(RESTS)
    assert endorsing.refusal(prepared("B-3", OTHER, at_s=endorsing.now_s)) == ""


def test_memory_of_who_rests_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RESTS_MAX", 3)
    monkeypatch.setattr(module, "SENDERS_MAX", 1)
    endorsing = Endorsing()
    assert endorsing.refusal(prepared("B-1", *STATES[:4]), prepared("D-1", STATES[4])) == ""
    endorsing.pass_time(VALIDITY_S + 1)
    turns = endorsing.bench.sequencer.turns
    assert len(turns.rests) == 3
    assert list(turns.standings) == [D]


# The same at a coordinator, for all that is external.


@pytest.mark.parametrize("preparation", [PREPARATION, None], ids=["prepared", "without a committer"])
def test_coordinator_takes_no_external_transition_of_a_sender_that_rests(preparation: object) -> None:
    bench = active()
    first = transition("B-1", STATE, preparation=preparation)  # type: ignore[arg-type]
    bench.delegate("B-1", submit_mode=EXTERNAL)
    bench.assemble(first)
    bench.sign()
    bench.tell(BlockIndexed(1, first.valid_until_s + 1))
    bench.tell(OutcomesFinal(first.valid_until_s + 1, ()))
    bench.delegate("B-2", submit_mode=EXTERNAL)
    until_s = first.valid_until_s + 601
    again = transition("B-2", STATE, preparation=preparation, valid_until_s=until_s)  # type: ignore[arg-type]
    for _ in range(2):
        bench.assemble(again)
    assert bench.transaction("B-2").transition is None
    assert bench.transaction("B-2").reason.startswith(RESTS)
    assert RESTS in str(explain_at_coordinator(bench.sequencer, intent_id("B-2")))
    bench.delegate("C-1")
    bench.assemble(transition("C-1", STATE, valid_until_s=until_s))
    assert bench.state_of("C-1") is State.ENDORSEMENT_GATHERING


def test_sender_that_coordinates_for_itself_has_its_turn_from_its_endorsers_alone() -> None:
    bench = CoordinatorBench(B, of=contract(B, mode=Mode.SENDER, endorsers=(C,)))
    bench.sequencer.turns.rests[B, STATE] = GENESIS_S + 600
    bench.submit("B-1", submit_mode=EXTERNAL)
    [order] = bench.take(AssembleIntents)
    made = replace(prepared("B-1", STATE), signature=b"")
    bench.tell(AssemblyFinished(order.request_id, made.intent, AssemblyOutcome.ASSEMBLED, made))
    [sign] = bench.take(SignTransition)
    bench.tell(TransitionSigned(sign.request_id, made.intent, b"signed"))
    bench.wait(bench.config.request_timeout_ms)
    assert bench.state_of("B-1") is State.ENDORSEMENT_GATHERING


def test_coordinator_of_a_sender_that_rests_still_voids_its_intents() -> None:
    bench = active()
    bench.coordinator.turns.standings[B] = module._Standing(step=1, until_s=GENESIS_S + 600)
    bench.delegate("B-1", submit_mode=EXTERNAL, is_voiding=True)
    bench.assemble(void_transition("B-1"))
    assert bench.state_of("B-1") is State.ENDORSEMENT_GATHERING


def test_later_version_whose_bound_is_short_rides_apart_and_is_no_fault_of_its_sender() -> None:
    bench = active()
    bench.block(1, time_s=GENESIS_S + 500)
    bench.delegate("B-1", submit_mode=EXTERNAL)
    bench.assemble(prepared("B-1", STATE))
    assert bench.transaction("B-1").is_apart
    assert not bench.coordinator.probation.has(B)


def test_sender_that_names_a_bound_without_end_does_not_escape_its_rest_at_a_coordinator() -> None:
    bench = active(of=endorsed_by_others())
    made = replace(prepared("B-1", STATE), valid_until_s=2**62)
    bench.delegate("B-1", submit_mode=EXTERNAL)
    bench.assemble(made)
    [opened] = bench.coordinator.rounds.rounds.values()
    for endorser in bench.of.endorsers[: bench.of.threshold]:
        bench.coordinator.rounds._take_signature(opened, endorser, b"signature")
    bench.tell(OutcomesFinal(GENESIS_S, ()))
    turns = bench.coordinator.turns
    assert list(turns.turns) == [made.intent]
    bench.block(1, time_s=GENESIS_S + VALIDITY_S + 61)
    bench.tell(OutcomesFinal(GENESIS_S + VALIDITY_S + 61, ()))
    assert turns.turns == {}
    assert turns.flaw_of(B, intent_id("B-2"), (OTHER,), GENESIS_S + 2 * VALIDITY_S).startswith(RESTS)


# What endorsers say they keep, when they signed different versions of an intent.


def refuse(bench: object, endorser: NodeName, made: Transition, *kept: KeptStates) -> None:
    [(_, asked)] = bench.asked(EndorsementRequest, endorser)  # type: ignore[attr-defined]
    refusal = Refusal(made.intent, "kept", kept, made.leaf)
    bench.hear(endorser, EndorsementResponse(asked.request_id, asked.digest, b"", (refusal,)))  # type: ignore[attr-defined]


def kept_of(made: Transition) -> KeptStates:
    return KeptStates(made.intent, made.leaf, made.inputs, made.valid_until_s)


def test_endorsers_that_signed_different_versions_of_an_intent_are_believed_about_the_states_of_both() -> None:
    bench = active(of=endorsed_by_others(endorsers=(A, B, C), threshold=2))
    made = transition("B-1", STATE)
    bench.bring(State.ENDORSEMENT_GATHERING, made)
    first = prepared("C-1", STATE, STATES[2])
    second = prepared("C-1", STATE, STATES[3], version=1, at_s=GENESIS_S - 100)
    refuse(bench, B, made, kept_of(first))
    refuse(bench, C, made, kept_of(second))
    [found] = bench.coordinator.kept.standing.values()
    assert found._replace(leaf=first.leaf) == KeptStates(first.intent, first.leaf, (STATE,), second.valid_until_s)
    assert bench.transaction("B-1").refused_count == 0


def test_longest_rest_is_that_of_the_last_step() -> None:
    config = Bench().sequencer.context.config
    assert module.longest_rest_s(config) == module.longest_keeping_s(config) * 2 ** (module.REST_STEPS_MAX - 1)


def turns_of_b(*states: StateId, until_s: int = 10**9) -> Turns:
    """An endorser keeps these states for an intent of B."""
    turns = Turns(Bench().sequencer.context)
    turns.take(B, KeptStates(intent_id("B-1"), transition("B-1").leaf, states, until_s))
    return turns


def test_later_version_on_a_state_for_which_its_sender_rests_is_not_kept() -> None:
    turns = turns_of_b(STATES[0])
    turns.rests[B, STATES[1]] = 10**9
    assert turns.flaw_of(B, intent_id("B-1"), STATES[:1], 10**9) == ""
    assert turns.flaw_of(B, intent_id("B-1"), STATES[:2], 10**9).startswith("states were kept for its sender")


def test_prepared_transition_without_inputs_that_is_not_used_takes_no_excuse() -> None:
    turns = turns_of_b()
    turns._standing_of(B).excuses = 1
    turns.time_is_final(10**9 + 1)
    assert turns.turns == {}
    assert turns._standing_of(B).excuses == 1
