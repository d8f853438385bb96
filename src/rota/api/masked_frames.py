"""Refuses WebSocket frames that are not masked, as RFC 6455 §5.1 requires of a server; aiohttp takes them.

The check follows the heads of frames and hands the bytes on. In place of an unmasked frame the reader behind it is
given one with a reserved opcode, so that it ends the connection with a protocol error in its usual way.
"""

from __future__ import annotations

from typing import Final, Protocol

MASKED: Final = 0x80
LENGTH: Final = 0x7F
HEAD_BYTES: Final = 2
# These lengths say that the length itself follows, in so many bytes.
LENGTH_BYTES: Final = {126: 2, 127: 8}
MASK_BYTES: Final = 4
# A final frame of the reserved opcode 3, masked and empty.
WRONG_FRAME: Final = bytes((0x83, MASKED, 0, 0, 0, 0))


class Reader(Protocol):
    """What reads frames."""

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        """Read these bytes; whether the stream has ended, and what is left of them."""
        ...

    def feed_eof(self) -> None:
        """There are no more."""
        ...


class MaskedFrames:
    """Stands before a reader of frames."""

    def __init__(self, reader: Reader) -> None:
        self._reader: Final = reader
        # The first byte of a frame whose second one has not come: that one tells whether it is masked.
        self._held = b""
        self._head = b""
        self._left = 0
        self._is_refused = False

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        """Hand the bytes on up to the first frame that is not masked."""
        if self._is_refused:
            return True, b""
        whole = self._held + data
        good, is_masked = self._follow(whole)
        answer = self._reader.feed_data(whole[:good])
        if is_masked:
            self._held = whole[good:]
            return answer
        self._is_refused = True
        return self._reader.feed_data(WRONG_FRAME)

    def feed_eof(self) -> None:
        """There are no more."""
        self._reader.feed_eof()

    def _follow(self, data: bytes) -> tuple[int, bool]:
        """How many of these bytes may be handed on now, and whether the frame that follows them is masked."""
        at, size = 0, len(data)
        while at < size:
            if self._left:
                step = min(self._left, size - at)
                self._left -= step
                at += step
                continue
            if not self._head:
                if size - at < HEAD_BYTES:
                    return at, True
                if not data[at + 1] & MASKED:
                    return at, False
                self._head = data[at : at + HEAD_BYTES]
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
