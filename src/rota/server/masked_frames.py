"""Refuses unmasked WebSocket frames, as RFC 6455 §5.1 requires of a server; aiohttp accepts them.

It also bounds incomplete messages, which aiohttp keeps while the connection is open: each has a timeout, and all of a
listener a limit in bytes. Beyond that the connection with the largest one is ended.

The check parses the heads of frames and passes the bytes on. In place of an unmasked frame, the reader behind it gets
one with a reserved opcode, so that it ends the connection with a protocol error in its usual way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

FINAL: Final = 0x80
CONTROL: Final = 0x08
MASKED: Final = 0x80
LENGTH: Final = 0x7F
HEAD_BYTES: Final = 2
# These lengths mean that the length itself follows, in so many bytes.
LENGTH_BYTES: Final = {126: 2, 127: 8}
MASK_BYTES: Final = 4
# A final frame of the reserved opcode 3, masked and empty.
WRONG_FRAME: Final = bytes((0x83, MASKED, 0, 0, 0, 0))


class Reader(Protocol):
    """Reads frames."""

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        """Read these bytes; return whether the stream has ended, and the bytes not read."""
        ...

    def feed_eof(self) -> None:
        """Handle the end of the stream."""
        ...


class PartialMessages:
    """The incomplete messages of a listener's connections."""

    def __init__(self, bytes_max: int, timeout_s: float) -> None:
        self._bytes_max: Final = bytes_max
        self._timeout_s: Final = timeout_s
        self._of: Final[dict[MaskedFrames, int]] = {}
        self._timers: Final[dict[MaskedFrames, asyncio.TimerHandle]] = {}

    @property
    def bytes_count(self) -> int:
        """The size of all of them."""
        return sum(self._of.values())

    def note(self, connection: MaskedFrames, bytes_count: int) -> None:
        """Record how many bytes of an incomplete message have arrived; 0 when it is complete or there is none."""
        if not bytes_count:
            self._of.pop(connection, None)
            if (timer := self._timers.pop(connection, None)) is not None:
                timer.cancel()
            return
        self._of[connection] = bytes_count
        if connection not in self._timers:
            loop = asyncio.get_running_loop()
            self._timers[connection] = loop.call_later(self._timeout_s, self._end, connection)
        while self.bytes_count > self._bytes_max:
            self._end(max(self._of, key=self._of.__getitem__))

    def _end(self, connection: MaskedFrames) -> None:
        self.note(connection, 0)
        connection.end()


class MaskedFrames:
    """Checks frames before passing them to a reader. `end` ends the connection."""

    def __init__(self, reader: Reader, partial: PartialMessages, end: Callable[[], None]) -> None:
        self._reader: Final = reader
        self._partial: Final = partial
        self.end: Final = end
        # The bytes of the incomplete message's frames. A control frame may come between two of them.
        self._message_bytes = 0
        self._is_final = True
        self._is_control = False
        # The first byte of a frame whose second one, which has the mask bit, has not arrived.
        self._held = b""
        self._head = b""
        self._left = 0
        self._is_refused = False

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        """Pass the bytes on up to the first unmasked frame."""
        if self._is_refused:
            return True, b""
        whole = self._held + data
        good, is_masked = self._follow(whole)
        answer = self._reader.feed_data(whole[:good])
        self._partial.note(self, self._message_bytes)
        if is_masked:
            self._held = whole[good:]
            return answer
        self._is_refused = True
        return self._reader.feed_data(WRONG_FRAME)

    def feed_eof(self) -> None:
        """Handle the end of the stream."""
        self.forget()
        self._reader.feed_eof()

    def forget(self) -> None:
        """Stop counting the message: the connection has ended."""
        self._partial.note(self, 0)

    def _follow(self, data: bytes) -> tuple[int, bool]:
        """Return how many of these bytes may be passed on now, and whether the frame that follows them is masked."""
        at, size = 0, len(data)
        while at < size:
            if self._left:
                step = min(self._left, size - at)
                self._left -= step
                at += step
                self._count(step)
                continue
            if not self._head:
                if size - at < HEAD_BYTES:
                    return at, True
                if not data[at + 1] & MASKED:
                    return at, False
                self._head = data[at : at + HEAD_BYTES]
                self._is_final, self._is_control = bool(data[at] & FINAL), bool(data[at] & CONTROL)
                at += HEAD_BYTES
            # The rest of the head may be cut at any place.
            length = self._head[1] & LENGTH
            wanted = HEAD_BYTES + LENGTH_BYTES.get(length, 0)
            more = data[at : at + wanted - len(self._head)]
            self._head += more
            at += len(more)
            if len(self._head) == wanted:
                self._left = MASK_BYTES + (int.from_bytes(self._head[HEAD_BYTES:]) if wanted > HEAD_BYTES else length)
                self._head = b""
        return size, True

    def _count(self, step: int) -> None:
        """Count bytes of a frame; 0 when the message is complete."""
        if self._is_control:
            return
        self._message_bytes = 0 if self._is_final and not self._left else self._message_bytes + step
