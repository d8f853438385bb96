"""The state of one registered peer: its queue, its connection if there is one, and when to dial."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from rota.logs.trouble import Trouble
from rota.model.types import NodeName
from rota.transport.allowance import Allowance, Meter
from rota.transport.endings import MISUSE, Ending, Reason
from rota.transport.link import Link
from rota.transport.outbox import Outbox
from rota.transport.parts import Announcement
from rota.transport.settings import TransportSettings

# A retry soon after one of these is pointless: an operator has to fix something first.
LASTING: Final = MISUSE | {Reason.STRANGER, Reason.EXPIRED, Reason.SWAPPED_NAME, Reason.VERSION}


@dataclass(frozen=True, slots=True)
class Traffic:
    """Messages in both directions since this process knows the peer. Times are of the event loop, in milliseconds."""

    known_since_ms: int
    connected_since_ms: int | None
    sent_messages: int
    sent_bytes: int
    sent_at_ms: int | None
    received_messages: int
    received_bytes: int
    received_at_ms: int | None


@dataclass(frozen=True, slots=True)
class PeerStatus:
    """One peer as an operator sees it."""

    name: NodeName
    is_connected: bool
    trouble: str
    version: tuple[int, int] | None
    queued_messages: int
    queued_bytes: int
    dropped_full: int
    dropped_stale: int
    dropped_too_large: int
    traffic: Traffic


class PeerState:
    """One registered node."""

    def __init__(self, name: NodeName, settings: TransportSettings, now_s: float, reading: Meter) -> None:
        self.name: Final = name
        self.outbox: Final = Outbox(settings)
        self.allowance: Final = Allowance(settings, reading)
        self.link: Link | None = None
        # Whether this node has ever had a message for it.
        self.is_wanted = False
        # The automation part of its latest hello.
        self.announced: Announcement | None = None
        # None until the core was notified of either.
        self.is_told_up: bool | None = None
        self.up_since_s: float | None = None
        self.since_s: Final = now_s
        self.trouble = "it has not been reached yet"
        self.hellos = 0
        # Done when our own hello, which is under way, has been answered.
        self.greeting: asyncio.Future[None] | None = None
        self.dialing: asyncio.Task[None] | None = None
        # Of the certificate that it was last seen with; empty when the node must look at it again.
        self.seen_fingerprint = b""
        self.certificate_trouble: Final = Trouble()
        self.looking: asyncio.Task[None] | None = None
        # The place of its endpoint that was dialed last.
        self.place = ""
        self._settings: Final = settings
        self._changed: Final = asyncio.Event()
        self._failures = 0
        self._dial_at_s = now_s
        self._dialed_at_s = 0.0
        self._paused_until_s = now_s
        self._looks = 0
        self._look_at_s = now_s

    @property
    def is_failing(self) -> bool:
        """It was dialed, and is not connected."""
        return self.link is None and self._failures > 0

    # When to dial.

    def wake(self) -> None:
        """Something has changed that concerns dialing."""
        self._changed.set()

    async def wait_for_change(self) -> None:
        """Return when woken."""
        await self._changed.wait()
        self._changed.clear()

    async def wait_for_turn(self, now_s: float) -> bool:
        """Wait until it may be dialed, or something has changed; whether it may be dialed."""
        if now_s < self._dial_at_s:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._dial_at_s - now_s):
                    await self._changed.wait()
                    self._changed.clear()
                    return False
        self._dialed_at_s = now_s
        return True

    def failed(self, now_s: float, ending: Ending) -> None:
        """Back off, twice as long as the last time, with jitter so that not all nodes dial a returning one at once."""
        self.trouble = str(ending)
        settings = self._settings
        if ending.reason in LASTING:
            pause_ms = settings.backoff_max_ms
        else:
            pause_ms = min(settings.backoff_max_ms, settings.backoff_ms << min(self._failures, 16))
        self._failures += 1
        if ending.reason in MISUSE and not ending.is_theirs:
            self._paused_until_s = now_s + settings.misuse_pause_ms / 1_000
        self._dial_at_s = max(self._paused_until_s, now_s + pause_ms / 1_000 * random.uniform(0.5, 1.0))

    def succeeded(self) -> None:
        """It is connected."""
        self._failures = 0
        self._looks = 0
        self.trouble = ""

    def hurry(self, now_s: float) -> None:
        """An unknown peer connects: perhaps this one has come back. At most once in `backoff_ms`."""
        if now_s - self._dialed_at_s >= self._settings.backoff_ms / 1_000 and not self.is_paused(now_s):
            self._dial_at_s = min(self._dial_at_s, now_s)
            self._look_at_s = min(self._look_at_s, now_s)
            self._dialed_at_s = now_s
            self.wake()

    def is_paused(self, now_s: float) -> bool:
        """It has misbehaved, and is ignored for now."""
        return now_s < self._paused_until_s

    # When to look for an announced certificate.

    def may_look(self, now_s: float) -> bool:
        """Whether a look is due; if so, the next one is later."""
        if now_s < self._look_at_s or self.looking is not None:
            return False
        pause_ms = min(self._settings.certificate_look_max_ms, self._settings.backoff_ms << min(self._looks, 16))
        self._looks += 1
        self._look_at_s = now_s + pause_ms / 1_000
        return True

    def status(self) -> PeerStatus:
        """As of now."""
        return PeerStatus(
            self.name,
            self.is_told_up is True,
            self.trouble,
            self.link.their_hello.version if self.link is not None else None,
            len(self.outbox),
            self.outbox.size_bytes,
            self.outbox.dropped_full,
            self.outbox.dropped_stale,
            self.outbox.dropped_too_large,
            Traffic(
                int(self.since_s * 1_000),
                int(self.up_since_s * 1_000) if self.up_since_s is not None else None,
                self.outbox.sent_messages,
                self.outbox.sent_bytes,
                self.outbox.sent_at_ms,
                self.allowance.received_messages,
                self.allowance.received_bytes,
                self.allowance.received_at_ms,
            ),
        )
