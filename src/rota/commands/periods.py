"""Which submissions are duplicates, and what may be pruned.

Theory of operation. Completions have offsets and times, and both only grow: a completion is published at the node's
clock, or with the last one's time where the clock has stepped back. So only the latest acceptance of a change matters:
if it lies before the period, all do. A rejection is no acceptance and resets nothing.

    duration d   from max(own clock, last publication) minus d on, the boundary included
    offset o     from o on, o included

Pruning to q forgets completions up to q and acceptances before q. The acceptance at q stays, so that q itself, which an
error names as the earliest offset, can be judged. An acceptance that is still held makes a duplicate whatever else the
period covers. Otherwise a period that reaches into forgotten acceptances cannot be judged, and is refused: it is never
silently shortened. Pruning within the maximum duration is therefore refused too.

A submission without a period is never refused for that. If a clock that was ahead, or a maximum that has grown, makes
the maximum duration reach into what was pruned, the submission is judged by everything that is left.
"""

from __future__ import annotations

from dataclasses import dataclass

from rota.commands import errors
from rota.commands.acceptance import Acceptance
from rota.schema.commands import BEGIN_OFFSET, ChangeId, DeduplicationDuration, DeduplicationOffset, Failure, Period


@dataclass(frozen=True, slots=True)
class Stream:
    """The completions of a node at a moment: their end, and up to where they were pruned, each with its time."""

    end: int = BEGIN_OFFSET
    published_at_us: int = 0
    pruned: int = BEGIN_OFFSET
    pruned_at_us: int = 0

    def now_us(self, clock_us: int) -> int:
        """The time of the stream: it does not step back when the clock does."""
        return max(clock_us, self.published_at_us)


def effective_period(period: Period | None, maximum_us: int, stream: Stream, clock_us: int) -> Period:
    """The period by which a submission is judged: the requested one, or the part of the maximum that was not pruned."""
    if period is not None:
        return period
    longest_us = longest_duration_us(stream, clock_us)
    if longest_us is not None and maximum_us > longest_us:
        return DeduplicationOffset(stream.pruned)
    return DeduplicationDuration(maximum_us)


def flaw_of_period(period: Period, stream: Stream, clock_us: int) -> Failure | None:
    """Why a period cannot be judged now."""
    match period:
        case DeduplicationOffset(offset):
            if offset > stream.end:
                return errors.offset_beyond_end(offset, stream.end, stream.pruned)
            if offset < stream.pruned:
                return errors.pruned_accessed(offset, stream.pruned, stream.pruned_at_us)
        case DeduplicationDuration(duration_us):
            longest_us = longest_duration_us(stream, clock_us)
            if longest_us is not None and duration_us > longest_us:
                return errors.duration_too_long(duration_us, longest_us)
    return None


def longest_duration_us(stream: Stream, clock_us: int) -> int | None:
    """The longest duration that does not reach into the pruned part; `None` if nothing was pruned."""
    if stream.pruned == BEGIN_OFFSET:
        return None
    # The last pruned completion was published at this very millisecond, and the boundary is inside.
    return max(stream.now_us(clock_us) - stream.pruned_at_us - 1, 0)


def is_duplicate(period: Period, stream: Stream, clock_us: int, acceptance: Acceptance | None) -> bool:
    """Whether the change was accepted within the period."""
    if acceptance is None:
        return False
    match period:
        case DeduplicationOffset(offset):
            return acceptance.offset >= offset
        case DeduplicationDuration(duration_us):
            return acceptance.published_at_us >= stream.now_us(clock_us) - duration_us


def objection_to(
    change: ChangeId, period: Period, stream: Stream, clock_us: int, acceptance: Acceptance | None
) -> Failure | None:
    """Why a submission is not sent: it is a duplicate, or its period cannot be judged."""
    if is_duplicate(period, stream, clock_us, acceptance):
        assert acceptance is not None, "a duplicate is one of something"
        return errors.duplicate(change, acceptance)
    return flaw_of_period(period, stream, clock_us)


def pruning_horizon_us(stream: Stream, clock_us: int, maximum_us: int) -> int:
    """Completions before this time may be deleted: no supported period reaches back to it."""
    return stream.now_us(clock_us) - maximum_us


def flaw_of_subscription(begin_exclusive: int, stream: Stream) -> Failure | None:
    """Why a subscription cannot begin here."""
    if begin_exclusive > stream.end:
        return errors.stream_beyond_end(begin_exclusive, stream.end)
    if begin_exclusive < stream.pruned:
        return errors.pruned_accessed(begin_exclusive, stream.pruned, stream.pruned_at_us)
    return None
