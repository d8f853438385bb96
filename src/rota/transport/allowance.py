"""Rate limits of a peer: beyond them it is a flood, or is slowed down.

Meters, each of which fills at its rate and holds the allowance of `burst_s`. A peer that empties the meter of
frames or bytes is closed rather than slowed down: to read a stream more slowly would hold back its pongs, and honest
peers stay an order of magnitude below these rates.

A peer that empties one of the others is slowed down: reading pauses until nothing is owed, for `PAUSE_MAX_MS` at most,
and a debt that is left counts after the next frame. Each message costs time also after it was read. Items, the
elements of lists, determine what a frame costs to read, and an honest coordinator may send many: each slot has a
snapshot of all that is under way. All peers share the processor: a peer is slowed down that has used its part of it, or
that has used much while all together have used theirs.
"""

from __future__ import annotations

from typing import Final

from rota.transport.settings import TransportSettings

MILLISECONDS_PER_SECOND: Final = 1_000
MICROSECONDS_PER_MILLISECOND: Final = 1_000
# Its pongs wait for as long: less than the silence after which a connection is closed.
PAUSE_MAX_MS: Final = 500
# Of what one peer may use, in hundredths.
OF_ALL_PERCENT: Final = 150


class Meter:
    """The rest of one allowance, in thousandths so that whole milliseconds fill it exactly."""

    def __init__(self, per_s_max: int, burst_s: int) -> None:
        self._per_ms: Final = per_s_max
        self._full: Final = per_s_max * burst_s * MILLISECONDS_PER_SECOND
        self._left = self._full
        self._filled_at_ms: int | None = None

    def spend(self, now_ms: int, amount: int) -> bool:
        """Take an amount; whether so much was left."""
        passed_ms = 0 if self._filled_at_ms is None else max(0, now_ms - self._filled_at_ms)
        self._filled_at_ms = now_ms
        self._left = min(self._full, self._left + passed_ms * self._per_ms)
        self._left -= amount * MILLISECONDS_PER_SECOND
        return self._left >= 0

    @property
    def is_half_full(self) -> bool:
        """Whether little was spent lately."""
        return 2 * self._left >= self._full

    @property
    def overdrawn_ms(self) -> int:
        """How long it takes until the debt is gone."""
        return max(0, -(self._left // self._per_ms))


def reading_of_all(settings: TransportSettings) -> Meter:
    """The processor time, in microseconds, that reading messages of all peers may take."""
    one = settings.reading_ms_per_s_max * MICROSECONDS_PER_MILLISECOND
    return Meter(one * OF_ALL_PERCENT // 100, settings.burst_s)


class Allowance:
    """The meters of one peer. They outlive a connection, or dialing again would renew them."""

    def __init__(self, settings: TransportSettings, reading: Meter | None = None) -> None:
        self._settings: Final = settings
        self._parts: Final = Meter(settings.frames_per_s_max, settings.burst_s)
        self._bytes: Final = Meter(settings.bytes_per_s_max, settings.burst_s)
        self._envelopes: Final = Meter(settings.envelopes_per_s_max, settings.burst_s)
        self._items: Final = Meter(settings.items_per_s_max, settings.burst_s)
        reading_us_per_s = settings.reading_ms_per_s_max * MICROSECONDS_PER_MILLISECOND
        self._reading: Final = Meter(reading_us_per_s, settings.burst_s)
        self._reading_of_all: Final = reading if reading is not None else reading_of_all(settings)
        self.received_messages = 0
        self.received_bytes = 0
        self.received_at_ms: int | None = None

    def take_part(self, now_ms: int, size_bytes: int) -> str:
        """The limit that a part exceeds; empty when it is allowed."""
        self.received_bytes += size_bytes
        if not self._parts.spend(now_ms, 1):
            return f"more than {self._settings.frames_per_s_max} frames a second"
        if not self._bytes.spend(now_ms, size_bytes):
            return f"more than {self._settings.bytes_per_s_max} bytes a second"
        return ""

    def pause_ms(self, now_ms: int, messages: int, items: int, reading_us: int) -> int:
        """How long to pause before the next frame is read, after one with so many items that took so long to read."""
        self.received_messages += messages
        self.received_at_ms = now_ms
        self._envelopes.spend(now_ms, messages)
        self._items.spend(now_ms, items)
        self._reading.spend(now_ms, reading_us)
        self._reading_of_all.spend(now_ms, reading_us)
        of_all_ms = 0 if self._reading.is_half_full else self._reading_of_all.overdrawn_ms
        counted = max(self._envelopes.overdrawn_ms, self._items.overdrawn_ms)
        return min(PAUSE_MAX_MS, max(counted, self._reading.overdrawn_ms, of_all_ms))
