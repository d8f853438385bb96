"""What our own index has said of a contract: settled, committed, undone, and forgotten oldest first."""

from __future__ import annotations

from rota.model.blocks import LedgerOutcome, LedgerStatus
from rota.model.types import Digest, FlushPoint, IntentId, Leaf
from rota.sequencer.recent_outcomes import OUTCOMES_KEPT_MAX, RecentOutcomes

ROUND, OTHER_ROUND = Digest(b"round"), Digest(b"other")
LEAF, OTHER_LEAF = Leaf(b"leaf"), Leaf(b"other leaf")
INTENT = IntentId(b"intent".ljust(16))
POINT = FlushPoint(ROUND, INTENT)


def outcome(
    status: LedgerStatus = LedgerStatus.COMMITTED,
    *,
    intent: IntentId = INTENT,
    leaf: Leaf = LEAF,
    digest: Digest = ROUND,
) -> LedgerOutcome:
    return LedgerOutcome(intent, leaf, digest, status)


def noted(*outcomes: LedgerOutcome) -> RecentOutcomes:
    recent = RecentOutcomes()
    for each in outcomes:
        recent.note(each)
    return recent


def number(count: int) -> IntentId:
    return IntentId(count.to_bytes(16, "big"))


def test_nothing_is_settled_before_the_ledger_spoke() -> None:
    recent = RecentOutcomes()
    assert not recent.is_settled(POINT)
    assert not recent.is_committed(INTENT)


def test_committed_intent_is_settled_and_on_the_chain() -> None:
    recent = noted(outcome())
    assert recent.is_settled(POINT)
    assert recent.is_committed(INTENT)


def test_skip_settles_its_flush_point_but_commits_nothing() -> None:
    recent = noted(outcome(LedgerStatus.SKIPPED))
    assert recent.is_settled(POINT)
    assert not recent.is_committed(INTENT)


def test_skip_of_an_older_version_does_not_settle_a_newer_one() -> None:
    recent = noted(outcome(LedgerStatus.SKIPPED))
    assert not recent.is_settled(FlushPoint(OTHER_ROUND, INTENT))


def test_intent_that_was_committed_otherwise_settles_every_flush_point_of_it() -> None:
    recent = noted(outcome())
    assert recent.is_settled(FlushPoint(OTHER_ROUND, INTENT))
    assert not recent.is_settled(FlushPoint(ROUND, number(1)))


def test_undone_outcome_is_open_again() -> None:
    recent = noted(outcome())
    recent.undo(outcome())
    assert not recent.is_settled(POINT)
    assert not recent.is_committed(INTENT)


def test_undoing_a_skip_leaves_another_version_on_the_chain() -> None:
    skip = outcome(LedgerStatus.SKIPPED, leaf=OTHER_LEAF, digest=OTHER_ROUND)
    recent = noted(outcome(), skip)
    recent.undo(skip)
    assert recent.is_committed(INTENT)
    assert recent.is_settled(POINT)


def test_undoing_what_was_never_heard_changes_nothing() -> None:
    recent = noted(outcome(intent=number(1)))
    recent.undo(outcome())
    assert recent.is_committed(number(1))


def test_memory_is_bounded_and_forgets_the_oldest_first() -> None:
    recent = noted(*(outcome(intent=number(count)) for count in range(OUTCOMES_KEPT_MAX)))
    assert recent.is_committed(number(0))
    recent.note(outcome(intent=number(OUTCOMES_KEPT_MAX)))
    assert not recent.is_committed(number(0))
    assert not recent.is_settled(FlushPoint(ROUND, number(0)))
    assert recent.is_committed(number(1))
    assert recent.is_settled(FlushPoint(ROUND, number(OUTCOMES_KEPT_MAX)))


def test_skips_push_out_old_flush_points_but_no_commitments() -> None:
    recent = noted(outcome(intent=number(0)), outcome(LedgerStatus.SKIPPED, intent=number(1)))
    for count in range(2, OUTCOMES_KEPT_MAX + 2):
        recent.note(outcome(LedgerStatus.SKIPPED, intent=number(count)))
    assert not recent.is_settled(FlushPoint(ROUND, number(1)))
    assert recent.is_settled(FlushPoint(ROUND, number(2)))
    assert recent.is_committed(number(0))


def test_commit_is_final_when_its_own_block_is() -> None:
    recent = noted(outcome(LedgerStatus.SKIPPED), outcome())
    recent.note_final(outcome(LedgerStatus.SKIPPED))
    assert not recent.is_final(INTENT)
    recent.note_final(outcome())
    assert recent.is_final(INTENT)
    recent.undo(outcome())
    assert not recent.is_final(INTENT)


def test_outcome_that_was_indexed_twice_is_open_again_after_both_are_undone() -> None:
    skipped = outcome(LedgerStatus.SKIPPED)
    recent = noted(skipped, skipped)
    recent.undo(skipped)
    assert recent.is_settled(POINT)
    recent.undo(skipped)
    assert not recent.is_settled(POINT)
