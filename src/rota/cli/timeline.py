"""The state of a transaction, for people: what it waits for, which node blocks it, and its history."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from rota.client import Explanation
from rota.client.answers import HistoryLine


def lines_of(explanation: Explanation, now: datetime) -> Iterator[str]:
    """Everything that the node reports about it."""
    yield f"Transaction  {explanation.id}"
    meaning = f": {explanation.meaning}" if explanation.meaning else ""
    yield f"State        {explanation.state}{meaning}"
    yield f"Seen by      its {explanation.role}"
    if explanation.contract:
        yield f"Contract     {explanation.contract}"
    if explanation.since:
        since = time_of(explanation.since)
        yield f"Since        {clock(since)} UTC, {passed(since, now)}"
    if explanation.waits_for:
        yield f"Waits for    {explanation.waits_for}"
    if explanation.waits_for or explanation.blocked_by:
        yield f"Blocked by   {', '.join(explanation.blocked_by) or 'no node in particular'}"
    for lacked in explanation.missing:
        since = time_of(lacked.since)
        said = f"it answered {lacked.said}" if lacked.said else "it has not answered"
        words = f"{lacked.node} has not signed since {clock(since)} UTC, {passed(since, now)}; {said}"
        yield f"Missing      {words} (by the word of {lacked.told_by})"
    if explanation.detail:
        yield f"Detail       {explanation.detail}"
    if explanation.history:
        yield ""
        yield from moments(explanation.history)


def moments(history: Iterable[HistoryLine]) -> Iterator[str]:
    """A line for each, with the time since the first."""
    first: datetime | None = None
    for line in history:
        at = time_of(line.at)
        first = first or at
        yield moment(at, first, line.text)


def moment(at: datetime, first: datetime, text: str) -> str:
    """One line of a time line."""
    return f"{clock(at)}  {(at - first).total_seconds():>+9.3f} s  {text}"


def waits(explanation: Explanation) -> str:
    """What it waits for now, in a line; nothing when it waits for nothing."""
    if not explanation.waits_for:
        return ""
    blockers = f" (blocked by {', '.join(explanation.blocked_by)})" if explanation.blocked_by else ""
    return f"{explanation.state}: waits for {explanation.waits_for}{blockers}"


def time_of(text: str) -> datetime:
    """As nodes write it: RFC 3339, in UTC."""
    return datetime.fromisoformat(text)


def date_of(at_ms: int) -> str:
    """Date and time of day, to the second."""
    return f"{datetime.fromtimestamp(at_ms / 1_000, UTC):%Y-%m-%d %H:%M:%S} UTC"


def clock(at: datetime) -> str:
    """The time of day, to the millisecond."""
    return f"{at:%H:%M:%S}.{at.microsecond // 1_000:03}"


def passed(since: datetime, now: datetime) -> str:
    """How long ago, in the largest useful unit."""
    seconds = max(0.0, (now - since).total_seconds())
    for unit, length_s in (("days", 86_400), ("hours", 3_600), ("minutes", 60)):
        if seconds >= 2 * length_s:
            return f"{seconds // length_s:.0f} {unit} ago"
    return f"{seconds:.1f} s ago"
