"""WebSocket messages that begin and do not end: bounded in time, and in sum over all connections."""

from __future__ import annotations

import asyncio

from rota.server.masked_frames import MaskedFrames, PartialMessages
from tests.ledger.chains import in_loop

TEXT, CONTINUATION, PING = 0x1, 0x0, 0x9
FINAL = 0x80


class Taking:
    """A reader that takes everything."""

    def __init__(self) -> None:
        self.taken = 0

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        self.taken += len(data)
        return False, b""

    def feed_eof(self) -> None:
        return


class Caller:
    """A connection, and whether it was ended."""

    def __init__(self, partial: PartialMessages) -> None:
        self.has_ended = False
        self.frames = MaskedFrames(Taking(), partial, self._end)

    def send(self, first: int, size: int, cut: int = 0) -> None:
        """A frame masked with zeros, without its last bytes."""
        frame = bytes((first, 0x80 | 126)) + size.to_bytes(2, "big") + bytes(4 + size)
        self.frames.feed_data(frame[: len(frame) - cut])

    def _end(self) -> None:
        self.has_ended = True


@in_loop
async def test_fragments_of_all_connections_are_bounded_and_the_largest_message_is_ended() -> None:
    partial = PartialMessages(10_000, timeout_s=3_600)
    callers = [Caller(partial) for _ in range(4)]
    for number, caller in enumerate(callers[:3]):
        caller.send(TEXT, 2_000 + 100 * number)
    for _ in range(3):
        callers[2].send(CONTINUATION, 2_000)
        callers[2].send(FINAL | PING, 200)
    assert [caller.has_ended for caller in callers] == [False, False, True, False]
    assert partial.bytes_count < 10_000
    callers[3].send(FINAL | TEXT, 5_000)
    assert not callers[3].has_ended, "what came whole is no partial message"


@in_loop
async def test_message_that_ends_frees_its_room() -> None:
    partial = PartialMessages(10_000, timeout_s=3_600)
    caller = Caller(partial)
    for _ in range(10):
        caller.send(TEXT, 3_000)
        caller.send(FINAL | PING, 100)
        caller.send(CONTINUATION, 3_000)
        assert partial.bytes_count > 6_000
        caller.send(FINAL | CONTINUATION, 10)
        assert partial.bytes_count == 0
    caller.send(FINAL | TEXT, 3_000, cut=1)
    assert partial.bytes_count > 2_900, "a frame that has not come whole is one too"
    caller.frames.forget()
    assert partial.bytes_count == 0
    assert not caller.has_ended


@in_loop
async def test_message_that_does_not_end_in_time_ends_its_connection() -> None:
    partial = PartialMessages(10_000, timeout_s=0)
    slow, other = Caller(partial), Caller(partial)
    slow.send(TEXT, 10)
    other.send(TEXT, 10)
    other.send(FINAL | CONTINUATION, 10)
    while not slow.has_ended:
        await asyncio.sleep(0)
    assert not other.has_ended
    assert partial.bytes_count == 0
