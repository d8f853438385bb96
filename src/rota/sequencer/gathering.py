"""When the next round opens: at once while none is under way, otherwise when it has gathered company (protocol §7).

Theory of operation. A base-ledger transaction has a fixed price, which its transitions share. While the newest shared
round is under way, transitions that await a round gather until one of these holds:

- they fill a round;
- the newest round is confirmed, or has been given up;
- the bound has passed: `gather_max`, or earlier, in time for the next block.

A round that is opened just in time for a block is mined as early as one that was opened before, so gathering until then
costs no time. When a block is due follows from the blocks that this node has indexed: they come at the median of the
last intervals. How long a round takes from its opening to the ledger is measured on the rounds before. Where blocks
come as fast as that, or none are known, nothing gathers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from statistics import median_low
from typing import Final, Protocol

from rota.machine.tables import Event
from rota.sequencer.context import Context
from rota.sequencer.events import GatheringEnded

INTERVALS_KEPT: Final = 8
# Used before a round has been measured.
LEAD_FIRST_MS: Final = 200
# A larger round takes longer, and a block is there before it is indexed: most go twice as early, the last just in time.
LEADS: Final = (1, 2)
# The longest measured time from opening to ledger loses one part in so many with each shorter one.
LEAD_DECAY: Final = 32


class AwaitsRound(Protocol):
    """A transition that awaits a round."""

    @property
    def goes_alone(self) -> bool:
        """Whether endorsers could not agree on a round with it."""


class Gathering:
    """Gathering for the shared rounds of one coordinator. `ended` is called when the bound has passed."""

    def __init__(self, context: Context, ended: Callable[[], None]) -> None:
        self.context = context
        self.ended = ended
        self.newest: int | None = None
        self.due_ms: int | None = None
        self.lead_ms = LEAD_FIRST_MS
        self.block_at_ms: int | None = None
        self.intervals_ms: deque[int] = deque(maxlen=INTERVALS_KEPT)

    def handle(self, event: Event) -> None:
        """The bound has passed: call `ended`."""
        assert isinstance(event, GatheringEnded), "there is one timer"
        self.ended()

    def awaits_company(self, waiting: Sequence[AwaitsRound]) -> bool:
        """Whether the next round is not to open yet; a full round, or one whose first transition goes alone, opens."""
        if len(waiting) >= self.context.config.round_max or waiting[0].goes_alone:
            return False
        until_ms = self.until_ms()
        if until_ms is None:
            return False
        self.context.timers.set(self, "gathering", until_ms, GatheringEnded())
        return True

    def note_block(self) -> None:
        """Note that this node has indexed a block."""
        now_ms = self.context.now_ms
        if self.block_at_ms is not None:
            self.intervals_ms.append(now_ms - self.block_at_ms)
        self.block_at_ms = now_ms

    def note_opened(self, number: int) -> None:
        """Note that a round was opened with the gathered transitions."""
        self.newest, self.due_ms = number, None
        self.context.timers.cancel(self, "gathering")

    def note_closed(self, number: int) -> None:
        """Note that this round is confirmed or given up, so that the next need not wait for it."""
        if number == self.newest:
            self.newest = None

    def note_submitted(self, opened_at_ms: int) -> None:
        """Note the first submission of a round that was opened at that time."""
        passed_ms = self.context.now_ms - opened_at_ms
        self.lead_ms = max(passed_ms, self.lead_ms - self.lead_ms // LEAD_DECAY)

    def until_ms(self) -> int | None:
        """Until when the next round waits for company; None when it is to open now."""
        if self.newest is None:
            return None
        if self.due_ms is None:
            self.due_ms = self._bound_ms()
        return self.due_ms if self.due_ms > self.context.now_ms else None

    def _bound_ms(self) -> int:
        """Return the bound: in time for the next possible block, at most `gather_max`; now on a fast chain."""
        now_ms, interval_ms = self.context.now_ms, median_low(self.intervals_ms) if self.intervals_ms else 0
        if self.block_at_ms is None or interval_ms <= max(LEADS) * self.lead_ms:
            return now_ms
        since_ms = now_ms - self.block_at_ms
        waits_ms = ((-since_ms - lead * self.lead_ms) % interval_ms for lead in LEADS)
        return now_ms + min(self.context.config.gather_max_ms, *waits_ms)
