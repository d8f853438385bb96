"""Speed of each coordinator with our intents, and whether the delegate is much slower than others (protocol §4.3).

Theory of operation. Under sticky rotation a coordinator keeps its role while it is busy, so that one which ends a few
intents now and then would keep it forever. The sender measures for each coordinator how long an intent of ours waits
there: the time that all of them waited together, divided by the number that ended. No report of a coordinator counts,
and an intent that it neglects is included.

The delegate is left when it is more than twice as slow as another member was within the last hour that had at least
half as many intents of ours under way. If no other member was measured within the last hour, the delegate is left after
a term of four times `progress_timeout`, so that there is a comparison. The sender leaves a delegate for
these reasons at most once in eight ranges: a single accuser is believed as often (`demotion.py`), and two senders that
are fast with different members do not move the coordinator back and forth.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from rota.model.types import NodeName, Rotation
from rota.sequencer.context import Context
from rota.sequencer.demotion import ACCUSATION_RANGES

SLOW_FACTOR: Final = 2
# A coordinator may be so many ends behind the comparison.
SLACK: Final = 8
ENDS_MEASURED_MIN: Final = 8
ENDS_KEPT_MAX: Final = 64
FRESH_MS: Final = 3_600_000


@dataclass(slots=True)
class Measured:
    """For one coordinator: the total wait of our intents there, the number that ended, and the time measured."""

    waited_ms: int = 0
    ends: int = 0
    watched_ms: int = 0
    latest_ms: int = 0

    @property
    def wait_ms(self) -> float:
        """The average wait of an intent."""
        return self.waited_ms / max(1, self.ends)

    @property
    def under_way(self) -> float:
        """The average number of intents there at a time."""
        return self.waited_ms / max(1, self.watched_ms)

    def note_end(self, now_ms: int) -> None:
        self.ends, self.latest_ms = self.ends + 1, now_ms
        if self.ends > ENDS_KEPT_MAX:
            self.ends, self.waited_ms, self.watched_ms = self.ends // 2, self.waited_ms // 2, self.watched_ms // 2


class Pace:
    """The measurements of one sender."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.measured: dict[NodeName, Measured] = {}
        self.term_ms = 0
        self.left_range: int | None = None

    def turn_to(self, node: NodeName) -> None:
        """Start to measure a new delegate; its earlier measurement no longer counts."""
        self.measured[node] = Measured()
        self.term_ms = 0

    def charge(self, node: NodeName, passed_ms: int, count: int) -> None:
        """Note that so many intents waited at the delegate for so long."""
        measured = self.measured.setdefault(node, Measured())
        measured.waited_ms += passed_ms * count
        measured.watched_ms += passed_ms
        self.term_ms += passed_ms

    def ended(self, node: NodeName) -> None:
        """Note an end of an intent of ours through this node."""
        self.measured.setdefault(node, Measured()).note_end(self.context.now_ms)

    def is_to_be_left(self, delegate: NodeName, timeout_ms: int, term_max_ms: int) -> bool:
        """Whether the delegate is much slower than others, or there is no recent measurement to compare with."""
        if self.context.contract.rotation is not Rotation.STICKY or self.term_ms < timeout_ms or not self._may_leave():
            return False
        mine = self.measured.setdefault(delegate, Measured())
        others = [each for node, each in self.measured.items() if node != delegate and self._is_known(each)]
        if not others:
            return self.term_ms >= term_max_ms
        comparable = [each.wait_ms for each in others if mine.under_way <= 2 * each.under_way]
        return any(mine.waited_ms > SLOW_FACTOR * wait_ms * (mine.ends + SLACK) for wait_ms in comparable)

    def note_left(self) -> None:
        """Note that the delegate was left for its pace."""
        self.left_range = self.context.block_range

    def _is_known(self, measured: Measured) -> bool:
        is_fresh = self.context.now_ms - measured.latest_ms < FRESH_MS
        return measured.ends >= ENDS_MEASURED_MIN and is_fresh

    def _may_leave(self) -> bool:
        return self.left_range is None or self.context.block_range - self.left_range >= ACCUSATION_RANGES
