"""Which submissions are duplicates, which periods can be judged, and what is answered otherwise."""

from __future__ import annotations

import pytest

from rota.commands.acceptance import Acceptance
from rota.commands.changes import DURATION_US_MAX, OFFSET_MAX, change_of, command_of, parties_of
from rota.commands.outcomes import failure_of
from rota.commands.periods import Stream, effective_period, flaw_of_subscription, is_duplicate, objection_to
from rota.model.types import NodeName, Party
from rota.schema.commands import (
    ChangeId,
    Command,
    CommandRejected,
    DeduplicationDuration,
    DeduplicationOffset,
    Period,
    StatusCode,
    duration_text,
)

NODE = NodeName("node1")
CHANGE = ChangeId(b"\x01" * 32)
NOW_US = 1_000_000_000
WEEK_US = 7 * 86_400_000_000


def command(**fields: object) -> Command:
    """A submission of alice's."""
    given: dict[str, object] = {
        "application_id": "shop",
        "command_id": "order 7",
        "party": "",
        "act_as": ("alice",),
        "submission_id": "first",
        "period": None,
    }
    return command_of(NODE, **{**given, **fields})  # type: ignore[arg-type]


# Changes.


@pytest.mark.parametrize(
    "fields",
    [
        {"act_as": ("alice@node1",)},
        {"party": "alice", "act_as": ()},
        {"party": "alice", "act_as": ("alice", "alice@node1")},
        {"submission_id": "second"},
        {"period": DeduplicationOffset(3)},
    ],
)
def test_the_same_parties_application_and_command_id_are_one_change(fields: dict[str, object]) -> None:
    assert change_of(command(**fields)) == change_of(command())


def test_order_and_repetition_of_parties_do_not_matter() -> None:
    several = [("bob", "alice", "carol"), ("carol", "bob", "alice", "bob"), ("alice@node1", "carol", "bob")]
    assert len({change_of(command(act_as=parties)) for parties in several}) == 1


@pytest.mark.parametrize(
    "fields",
    [
        {"application_id": "bank"},
        {"command_id": "order 8"},
        {"act_as": ("bob",)},
        {"act_as": ("alice", "bob")},
        {"party": "bob"},
        {"application_id": "shopo", "command_id": "rder 7"},
    ],
)
def test_another_user_party_superset_or_id_is_another_change(fields: dict[str, object]) -> None:
    assert change_of(command(**fields)) != change_of(command())


@pytest.mark.parametrize(
    ("fields", "error_id", "field"),
    [
        ({"application_id": ""}, "MISSING_FIELD", "application_id"),
        ({"command_id": ""}, "MISSING_FIELD", "command_id"),
        ({"act_as": ()}, "MISSING_FIELD", "act_as"),
        ({"act_as": ("alice@node2",)}, "INVALID_FIELD", "act_as[0]"),
        ({"act_as": ("@node1",)}, "INVALID_FIELD", "act_as[0]"),
        ({"act_as": tuple(f"party{number}" for number in range(101))}, "INVALID_FIELD", "act_as"),
        ({"command_id": "x" * 256}, "INVALID_FIELD", "command_id"),
        ({"submission_id": "a\0b"}, "INVALID_FIELD", "submission_id"),
        ({"period": DeduplicationDuration(-1)}, "INVALID_FIELD", "deduplication_duration"),
        ({"period": DeduplicationDuration(DURATION_US_MAX + 1)}, "INVALID_FIELD", "deduplication_duration"),
        ({"period": DeduplicationOffset(-1)}, "INVALID_FIELD", "deduplication_offset"),
        ({"period": DeduplicationOffset(OFFSET_MAX + 1)}, "INVALID_FIELD", "deduplication_offset"),
    ],
)
def test_what_cannot_be_meant_is_an_invalid_argument_that_names_its_field(
    fields: dict[str, object], error_id: str, field: str
) -> None:
    with pytest.raises(CommandRejected) as rejected:
        command(**fields)
    failure = rejected.value.failure
    assert (failure.code, failure.error_id, dict(failure.metadata)) == (
        StatusCode.INVALID_ARGUMENT,
        error_id,
        {"field": field},
    )


def test_parties_are_whole_sorted_and_each_there_once() -> None:
    named = [("act_as[0]", "bob"), ("act_as[1]", "alice@node1"), ("act_as[2]", "alice")]
    assert parties_of(NODE, named) == (Party("alice@node1"), Party("bob@node1"))


# Windows.


@pytest.mark.parametrize(
    ("period", "acceptance", "expected"),
    [
        # A duration reaches back from now, the boundary included.
        (DeduplicationDuration(100), Acceptance(5, NOW_US - 99, "s"), True),
        (DeduplicationDuration(100), Acceptance(5, NOW_US - 100, "s"), True),
        (DeduplicationDuration(100), Acceptance(5, NOW_US - 101, "s"), False),
        # Zero is this very millisecond.
        (DeduplicationDuration(0), Acceptance(5, NOW_US, "s"), True),
        (DeduplicationDuration(0), Acceptance(5, NOW_US - 1, "s"), False),
        # As long as time can be written.
        (DeduplicationDuration(DURATION_US_MAX), Acceptance(1, 1, "s"), True),
        # An offset is inclusive.
        (DeduplicationOffset(4), Acceptance(5, 0, "s"), True),
        (DeduplicationOffset(5), Acceptance(5, 0, "s"), True),
        (DeduplicationOffset(6), Acceptance(5, NOW_US, "s"), False),
        (DeduplicationOffset(0), Acceptance(1, 0, "s"), True),
        (DeduplicationOffset(0), None, False),
        (DeduplicationDuration(WEEK_US), None, False),
    ],
)
def test_an_acceptance_within_the_period_makes_a_duplicate(
    period: Period, acceptance: Acceptance | None, expected: bool
) -> None:
    stream = Stream(end=10, published_at_us=NOW_US - 1)
    assert is_duplicate(period, stream, NOW_US, acceptance) is expected
    objection = objection_to(CHANGE, period, stream, NOW_US, acceptance)
    assert (objection is not None) is expected
    if objection is not None and acceptance is not None:
        assert (objection.code, objection.error_id) == (StatusCode.ALREADY_EXISTS, "DUPLICATE_COMMAND")
        assert dict(objection.metadata) == {
            "completion_offset": str(acceptance.offset),
            "existing_submission_id": "s",
            "change_id": CHANGE.hex(),
            "accepted_at_ms": str(acceptance.published_at_us // 1_000),
        }


def test_a_clock_that_steps_back_does_not_move_the_window() -> None:
    stream = Stream(end=10, published_at_us=NOW_US)
    acceptance = Acceptance(9, NOW_US - 101, "s")
    assert not is_duplicate(DeduplicationDuration(100), stream, NOW_US, acceptance)
    assert not is_duplicate(DeduplicationDuration(100), stream, NOW_US - 50_000, acceptance)
    assert is_duplicate(DeduplicationDuration(100), stream, NOW_US - 50_000, Acceptance(9, NOW_US - 100, "s"))


def test_an_omitted_period_is_the_maximum_duration() -> None:
    assert effective_period(None, WEEK_US, Stream(), NOW_US) == DeduplicationDuration(WEEK_US)
    assert effective_period(DeduplicationOffset(3), WEEK_US, Stream(), NOW_US) == DeduplicationOffset(3)


# Pruned data, and what has not come yet.

PRUNED = Stream(end=10, published_at_us=NOW_US, pruned=4, pruned_at_us=NOW_US - 1_000)
EARLIEST = {"earliest_offset": "4", "earliest_at_ms": str((NOW_US - 1_000) // 1_000)}


@pytest.mark.parametrize(
    ("period", "error_id", "metadata"),
    [
        (DeduplicationDuration(999), None, {}),
        (DeduplicationDuration(1_000), "INVALID_DEDUPLICATION_PERIOD", {"longest_duration": "0.000999s"}),
        (DeduplicationDuration(DURATION_US_MAX), "INVALID_DEDUPLICATION_PERIOD", {"longest_duration": "0.000999s"}),
        (DeduplicationOffset(3), "PARTICIPANT_PRUNED_DATA_ACCESSED", EARLIEST),
        (DeduplicationOffset(0), "PARTICIPANT_PRUNED_DATA_ACCESSED", EARLIEST),
        (DeduplicationOffset(4), None, {}),
        (DeduplicationOffset(10), None, {}),
        (DeduplicationOffset(11), "INVALID_DEDUPLICATION_PERIOD", {"earliest_offset": "4"}),
        (DeduplicationOffset(OFFSET_MAX), "INVALID_DEDUPLICATION_PERIOD", {"earliest_offset": "4"}),
    ],
)
def test_a_period_that_reaches_into_pruned_data_or_beyond_the_end_is_refused(
    period: Period, error_id: str | None, metadata: dict[str, str]
) -> None:
    objection = objection_to(CHANGE, period, PRUNED, NOW_US, None)
    if error_id is None:
        assert objection is None
    else:
        assert objection is not None
        assert objection.code is StatusCode.FAILED_PRECONDITION
        assert (objection.error_id, dict(objection.metadata)) == (error_id, metadata)


def test_omitted_period_after_a_pruning_by_a_clock_that_was_ahead_covers_what_is_left() -> None:
    ahead = Stream(end=10, published_at_us=NOW_US + WEEK_US, pruned=4, pruned_at_us=NOW_US + WEEK_US - 1_000)
    period = effective_period(None, WEEK_US, ahead, NOW_US)
    assert period == DeduplicationOffset(4)
    assert objection_to(CHANGE, period, ahead, NOW_US, None) is None
    assert objection_to(CHANGE, period, ahead, NOW_US, Acceptance(4, NOW_US, "s")) is not None
    long_ago = Stream(end=10, published_at_us=NOW_US, pruned=4, pruned_at_us=NOW_US - WEEK_US - 1)
    assert effective_period(None, WEEK_US, long_ago, NOW_US) == DeduplicationDuration(WEEK_US)


@pytest.mark.parametrize("period", [DeduplicationOffset(1), DeduplicationDuration(WEEK_US)])
def test_duplicate_that_is_still_known_is_answered_although_its_period_reaches_too_far_back(period: Period) -> None:
    objection = objection_to(CHANGE, period, PRUNED, NOW_US, Acceptance(7, NOW_US - 5, "s"))
    assert objection is not None
    assert objection.error_id == "DUPLICATE_COMMAND"
    refused = objection_to(CHANGE, period, PRUNED, NOW_US, None)
    assert refused is not None
    assert refused.error_id != "DUPLICATE_COMMAND"


def test_what_the_error_names_as_usable_is_usable() -> None:
    assert objection_to(CHANGE, DeduplicationOffset(4), PRUNED, NOW_US, None) is None
    assert objection_to(CHANGE, DeduplicationDuration(999), PRUNED, NOW_US, None) is None


def test_the_longest_duration_grows_with_time_and_not_with_a_clock_that_steps_back() -> None:
    later = objection_to(CHANGE, DeduplicationDuration(10_000), PRUNED, NOW_US + 5_000, None)
    earlier = objection_to(CHANGE, DeduplicationDuration(10_000), PRUNED, NOW_US - 5_000, None)
    assert later is not None
    assert earlier is not None
    assert dict(later.metadata) == {"longest_duration": "0.005999s"}
    assert dict(earlier.metadata) == {"longest_duration": "0.000999s"}


def test_without_pruning_every_duration_is_supported() -> None:
    assert objection_to(CHANGE, DeduplicationDuration(DURATION_US_MAX), Stream(), NOW_US, None) is None


@pytest.mark.parametrize(
    ("begin", "code", "error_id", "metadata"),
    [
        (3, StatusCode.FAILED_PRECONDITION, "PARTICIPANT_PRUNED_DATA_ACCESSED", EARLIEST),
        (11, StatusCode.OUT_OF_RANGE, "OFFSET_AFTER_LEDGER_END", {"end_offset": "10"}),
    ],
)
def test_subscribers_below_the_pruned_offset_or_beyond_the_end_are_told_so(
    begin: int, code: StatusCode, error_id: str, metadata: dict[str, str]
) -> None:
    flaw = flaw_of_subscription(begin, PRUNED)
    assert flaw is not None
    assert (flaw.code, flaw.error_id, dict(flaw.metadata)) == (code, error_id, metadata)
    assert flaw_of_subscription(4, PRUNED) is None
    assert flaw_of_subscription(10, PRUNED) is None


# Outcomes.


@pytest.mark.parametrize(
    ("reason", "told", "code", "error_id"),
    [
        ("any words", "CONTRACT_NOT_ACTIVE", StatusCode.NOT_FOUND, "CONTRACT_NOT_ACTIVE"),
        ("any words", "INTENT_ID_USED", StatusCode.FAILED_PRECONDITION, "INTENT_ID_USED"),
        ("cancelled", "", StatusCode.CANCELLED, "TRANSACTION_CANCELLED"),
        ("PD200028: Lock ID not found", "", StatusCode.FAILED_PRECONDITION, "TRANSACTION_REVERTED"),
        ("an input is not available", "OTHER", StatusCode.FAILED_PRECONDITION, "TRANSACTION_REVERTED"),
    ],
)
def test_failed_transaction_is_classified_by_its_code_and_not_by_its_words(
    reason: str, told: str, code: StatusCode, error_id: str
) -> None:
    failure = failure_of(reason, told)
    assert (failure.code, failure.error_id, failure.message) == (code, error_id, reason)


def test_durations_are_written_as_protobuf_writes_them() -> None:
    written = ["0s", "0.000001s", "0.001s", "1.500s", "1.500001s", "604800s"]
    assert [duration_text(each) for each in (0, 1, 1_000, 1_500_000, 1_500_001, WEEK_US)] == written
