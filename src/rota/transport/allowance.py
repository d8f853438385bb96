"""How much a peer may say before it is a flood.

Four meters, each of which fills at its rate and holds what may be said in `burst_s`. A peer that empties the meter of
frames, bytes or messages is closed rather than slowed down: to read a stream more slowly would hold back its pongs, and
honest peers stay an order of magnitude below these rates.

Items, the elements of lists, determine what a frame costs to read, and an honest coordinator may send many: each slot
has a snapshot of all that is under way. A peer that empties this meter is slowed down. Reading pauses until nothing is
owed, which takes less than half a second because the number of items in a frame is bounded.
"""

from __future__ import annotations

from typing import Final

from rota.transport.settings import TransportSettings

MILLISECONDS_PER_SECOND: Final = 1_000


class Meter:
    """What is left of one allowance, in thousandths so that whole milliseconds fill it exactly."""

    def __init__(self, per_s_max: int, burst_s: int) -> None:
        self._per_ms: Final = per_s_max
        self._full: Final = per_s_max * burst_s * MILLISECONDS_PER_SECOND
        self._left = self._full
        self._filled_at_ms: int | None = None

    def spend(self, now_ms: int, amount: int) -> bool:
        """Whether there was so much left."""
        passed_ms = 0 if self._filled_at_ms is None else max(0, now_ms - self._filled_at_ms)
        self._filled_at_ms = now_ms
        self._left = min(self._full, self._left + passed_ms * self._per_ms)
        self._left -= amount * MILLISECONDS_PER_SECOND
        return self._left >= 0

    @property
    def overdrawn_ms(self) -> int:
        """How long it takes until nothing is owed."""
        return max(0, -(self._left // self._per_ms))


class Allowance:
    """Of one peer, with what it has said so far. It outlives a connection, or dialing again would renew it."""

    def __init__(self, settings: TransportSettings) -> None:
        self._settings: Final = settings
        self._parts: Final = Meter(settings.frames_per_s_max, settings.burst_s)
        self._bytes: Final = Meter(settings.bytes_per_s_max, settings.burst_s)
        self._envelopes: Final = Meter(settings.envelopes_per_s_max, settings.burst_s)
        self._items: Final = Meter(settings.items_per_s_max, settings.burst_s)
        self.received_messages = 0
        self.received_bytes = 0
        self.received_at_ms: int | None = None

    def take_part(self, now_ms: int, size_bytes: int) -> str:
        """What a part goes beyond; nothing when it is allowed."""
        self.received_bytes += size_bytes
        if not self._parts.spend(now_ms, 1):
            return f"more than {self._settings.frames_per_s_max} frames a second"
        if not self._bytes.spend(now_ms, size_bytes):
            return f"more than {self._settings.bytes_per_s_max} bytes a second"
        return ""

    def take_frame(self, now_ms: int, envelopes: int) -> str:
        """The same, of the messages in a frame."""
        self.received_messages += envelopes
        self.received_at_ms = now_ms
        if not self._envelopes.spend(now_ms, envelopes):
            return f"more than {self._settings.envelopes_per_s_max} messages a second"
        return ""

    def pause_ms(self, now_ms: int, items: int) -> int:
        """How long to pause before the next frame is read, after one with so many items."""
        self._items.spend(now_ms, items)
        return self._items.overdrawn_ms
