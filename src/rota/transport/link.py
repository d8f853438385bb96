"""One connection from hello to goodbye.

Three loops: one reads, one writes, one pings. The connection is up with the first pong, when it is known to carry both
ways, and frames travel only then. Each side sends its first ping before any pong, so a peer's first pong is on its
way before its first frame: a frame that comes sooner is a fault. A ping goes out every heartbeat, ahead of the frames
that wait; when more than `heartbeat_grace` of them are unanswered and the next is due, the connection is closed
(protocol §4.1). Pings are counted, not timed, so a node whose own loop was held up does not blame its peers.

An ending takes effect at once: from that moment the core receives nothing that was read from the connection. A goodbye
with the reason follows, and its time is bounded.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final, Protocol

from rota.model.types import NodeName
from rota.ports import Unavailable
from rota.transport.allowance import PAUSE_MAX_MS, Allowance
from rota.transport.certificates import Certificate
from rota.transport.endings import Ending, Reason, Refused
from rota.transport.outbox import Outbox
from rota.transport.parts import (
    FramePart,
    Goodbye,
    Hello,
    Ping,
    Pong,
    frame_bytes,
    goodbye_bytes,
    hello_bytes,
    ping_bytes,
    pong_bytes,
    read_part,
)
from rota.transport.settings import TransportSettings
from rota.wire.codec import Frame, Malformed, decode_frame
from rota.wire.limits import Limits
from rota.wire.messages import Envelope

PARTING_MS: Final = 250
# A frame of no more than this takes at most about 45 ms to read.
AT_ONCE_BYTES_MAX: Final = 262_144
AT_ONCE_ITEMS_MAX: Final = 4_096
NANOSECONDS_PER_MICROSECOND: Final = 1_000
BEHIND_LOOK_S: Final = 0.01


class Stream(Protocol):
    """Both directions of parts, as gRPC gives them to the dialing and to the dialed side."""

    async def read(self) -> bytes | None:
        """The next part; `None` at the end."""
        ...

    async def write(self, part: bytes) -> None:
        """Return when there is room for another part; `Unavailable` when the stream is broken."""
        ...

    async def close(self) -> None:
        """Release the stream, once the written parts have had a chance to arrive."""
        ...


class Events(Protocol):
    """The events of a connection, delivered in the same turn of the event loop."""

    def link_up(self, link: Link) -> None:
        """It works in both directions."""
        ...

    def link_said(self, link: Link, envelope: Envelope) -> None:
        """The peer sent this message."""
        ...

    def link_ended(self, link: Link, ending: Ending) -> None:
        """It has ended."""
        ...

    def link_is_behind(self, link: Link) -> bool:
        """Whether many messages of the peer wait for the core."""
        ...

    def link_flaw(self, link: Link) -> Refused | None:
        """Why it may not continue; checked every heartbeat."""
        ...


class Link:
    """A connection on which both sides have sent a hello, or are about to."""

    def __init__(
        self,
        peer: NodeName,
        stream: Stream,
        *,
        is_dialed: bool,
        hello: Hello,
        certificate: Certificate,
        generation: int,
        outbox: Outbox,
        allowance: Allowance,
        settings: TransportSettings,
        events: Events,
    ) -> None:
        self.peer: Final = peer
        self.is_dialed: Final = is_dialed
        self.their_hello: Final = hello
        self.certificate: Final = certificate
        # Which of our own certificates it was made under.
        self.generation: Final = generation
        self._stream: Final = stream
        self._outbox: Final = outbox
        self._allowance: Final = allowance
        self._settings: Final = settings
        limits = settings.limits
        items_max = min(limits.frame_items_max, AT_ONCE_ITEMS_MAX)
        self._limits_at_once: Final = replace(limits, frame_items_max=items_max)
        self._events: Final = events
        self._loop: Final = asyncio.get_running_loop()
        self._ended: Final[asyncio.Future[Ending]] = self._loop.create_future()
        self._something_to_write: Final = asyncio.Event()
        self._fault: Exception | None = None
        self._is_writing = False
        self._pings_sent = 0
        self._pings_answered = 0
        self._ping_due: int | None = None
        self._pong_due: int | None = None
        self.is_up = False
        self.skipped_count = 0

    @property
    def is_open(self) -> bool:
        """It has not ended."""
        return not self._ended.done()

    @property
    def is_drained(self) -> bool:
        """All of the queue has been handed to the network, or never will be."""
        return not self.is_open or not self.is_up or (not self._outbox and not self._is_writing)

    def wake(self) -> None:
        """The queue has messages. They are written in the next turn, with all that this turn adds."""
        self._something_to_write.set()

    def end(self, ending: Ending) -> None:
        """End it at once."""
        if self.is_open:
            self._ended.set_result(ending)
            self.wake()
            self._events.link_ended(self, ending)

    async def run(self, first: Hello | None = None) -> None:
        """Send a hello if that is still to do; then read, write and ping until it ends; then part."""
        writing = asyncio.create_task(self._guarded(lambda: self._keep_writing(first)))
        reading = asyncio.create_task(self._guarded(self._keep_reading))
        pinging = asyncio.create_task(self._guarded(self._keep_pinging))
        try:
            # Shielded, because a task that is cancelled cancels what it awaits.
            await asyncio.shield(self._ended)
            await self._part(writing, reading)
        except asyncio.CancelledError:
            self.end(Ending(Reason.STOPPING, "the node stops"))
            raise
        finally:
            await self._stream.close()
            for task in (writing, reading, pinging):
                task.cancel()
            await asyncio.gather(writing, reading, pinging, return_exceptions=True)
        if self._fault is not None:
            raise self._fault

    async def _guarded(self, loop: Callable[[], Awaitable[None]]) -> None:
        """Errors of the stream end the connection; our own errors end it too, and propagate."""
        try:
            await loop()
        except Unavailable as error:
            self.end(Ending(Reason.CUT_OFF, str(error)))
        except Exception as fault:
            self._fault = fault
            self.end(Ending(Reason.UNSPECIFIED, "a fault of this node"))

    async def _part(self, writing: asyncio.Task[None], reading: asyncio.Task[None]) -> None:
        """Let the goodbye leave, and the peer read it, for a moment.

        gRPC takes the end of a reader or writer for the end of the stream, so they go on until then; and a peer that
        writes to a stream that we have ended gets an error in place of the goodbye, so we wait for it to end its side.
        """
        await asyncio.wait([writing], timeout=PARTING_MS / 1_000)
        if not self.is_dialed and not self._ended.result().is_theirs:
            await asyncio.wait([reading], timeout=PARTING_MS / 1_000)

    # Writing.

    async def _keep_writing(self, first: Hello | None) -> None:
        if first is not None:
            await self._stream.write(hello_bytes(first))
        while self.is_open:
            await self._something_to_write.wait()
            self._something_to_write.clear()
            while part := self._next_part():
                self._is_writing = True
                await self._stream.write(part)
                self._is_writing = False
        ending = self._ended.result()
        if not ending.is_theirs and ending.reason is not Reason.CUT_OFF:
            await self._stream.write(goodbye_bytes(ending))

    def _next_part(self) -> bytes | None:
        """Pings, then pongs, then frames: our first ping precedes our first pong, and neither waits behind a queue."""
        if not self.is_open:
            return None
        if self._ping_due is not None:
            number, self._ping_due = self._ping_due, None
            return ping_bytes(number)
        if self._pong_due is not None:
            number, self._pong_due = self._pong_due, None
            return pong_bytes(number)
        frame = self._outbox.take_frame(self._now_ms()) if self.is_up else None
        return None if frame is None else frame_bytes(frame)

    # Reading.

    async def _keep_reading(self) -> None:
        while True:
            part = await self._stream.read()
            if part is None:
                self.end(Ending(Reason.CUT_OFF, "the connection ended without a goodbye"))
                return
            if not self.is_open:
                continue
            if excess := self._allowance.take_part(self._now_ms(), len(part)):
                self.end(Ending(Reason.FLOOD, excess))
            else:
                await self._take(part)

    async def _take(self, data: bytes) -> None:
        match read_part(data):
            case Ping(number):
                self._pong_due = number
                self.wake()
            case Pong(number):
                self._take_pong(number)
            case FramePart(frame):
                await self._take_frame(frame)
            case Goodbye(ending):
                self.end(ending)
            case _:
                self.end(Ending(Reason.MALFORMED, "a part that is neither frame, ping, pong nor goodbye"))

    def _take_pong(self, number: int) -> None:
        if not self._pings_answered < number <= self._pings_sent:
            self.end(Ending(Reason.MALFORMED, "a pong that answers no ping"))
            return
        self._pings_answered = number
        if not self.is_up:
            self.is_up = True
            self._events.link_up(self)
            self.wake()

    async def _take_frame(self, data: bytes) -> None:
        if not self.is_up:
            self.end(Ending(Reason.MALFORMED, "a frame before the first pong"))
            return
        frame, reading_us = await self._decode(data)
        if self._ended.done():
            return
        if isinstance(frame, Malformed):
            self.end(Ending(Reason.MALFORMED, frame.reason))
            return
        self.skipped_count += frame.skipped
        began_ns = time.thread_time_ns()
        for envelope in frame.envelopes:
            # The receiver may have ended the connection.
            if not self.is_open:
                return
            self._events.link_said(self, envelope)
        reading_us += (time.thread_time_ns() - began_ns) // NANOSECONDS_PER_MICROSECOND
        messages = len(frame.envelopes) + frame.skipped
        await self._rest(self._allowance.pause_ms(self._now_ms(), messages, frame.items, reading_us))

    async def _rest(self, pause_ms: int) -> None:
        """Pause reading for this time, and until the core has stepped most messages of the peer.

        Its pongs wait as well, and so for `PAUSE_MAX_MS` at most.
        """
        until_ms = self._now_ms() + PAUSE_MAX_MS
        if pause_ms:
            await asyncio.sleep(pause_ms / 1_000)
        while self.is_open and self._events.link_is_behind(self) and self._now_ms() < until_ms:
            await asyncio.sleep(BEHIND_LOOK_S)

    async def _decode(self, data: bytes) -> tuple[Frame | Malformed, int]:
        """The frame, and the microseconds of processor time that reading it took.

        A frame that takes long is read in a thread, so that the event loop goes on meanwhile.

        Ordinary ones are read at once: the connection may break while a thread reads, and then the frame is lost.
        """
        if len(data) <= AT_ONCE_BYTES_MAX:
            frame, reading_us = _timed(data, self._limits_at_once)
            if isinstance(frame, Frame):
                return frame, reading_us
        return await asyncio.to_thread(_timed, data, self._settings.limits)

    # Pinging.

    async def _keep_pinging(self) -> None:
        while True:
            if self._pings_sent - self._pings_answered > self._settings.heartbeat_grace:
                unanswered = self._pings_sent - self._pings_answered
                self.end(Ending(Reason.NO_PONG, f"{unanswered} pings went without a pong"))
                return
            if flaw := self._events.link_flaw(self):
                self.end(flaw.ending)
                return
            self._pings_sent += 1
            self._ping_due = self._pings_sent
            self.wake()
            await asyncio.sleep(self._settings.heartbeat_ms / 1_000)

    def _now_ms(self) -> int:
        return int(self._loop.time() * 1_000)


def _timed(data: bytes, limits: Limits) -> tuple[Frame | Malformed, int]:
    """A frame, and the microseconds of processor time that this thread took to read it."""
    began_ns = time.thread_time_ns()
    frame = decode_frame(data, limits)
    return frame, (time.thread_time_ns() - began_ns) // NANOSECONDS_PER_MICROSECOND
