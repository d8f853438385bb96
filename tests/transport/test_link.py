"""The order in which a link writes its parts."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

from rota.model.types import NodeName
from rota.transport.allowance import Allowance
from rota.transport.certificates import Certificate
from rota.transport.endings import Ending, Reason, Refused
from rota.transport.link import Link
from rota.transport.outbox import Outbox
from rota.transport.parts import FramePart, Hello, Part, Ping, Pong, ping_bytes, pong_bytes, read_part
from rota.wire.messages import Envelope
from tests.transport.kit import SETTINGS, envelope, play, until

OURS, THEIRS = NodeName("ours"), NodeName("theirs")
THEIR_CERTIFICATE = Certificate(
    bytes(32), b"", THEIRS, datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
)


class ScriptedStream:
    """A peer that sends the parts of a test; nothing is written to it before `may_write` is set."""

    def __init__(self, *parts: bytes) -> None:
        self.unread: asyncio.Queue[bytes] = asyncio.Queue()
        for part in parts:
            self.unread.put_nowait(part)
        self.may_write = asyncio.Event()
        self.written: list[Part] = []

    async def read(self) -> bytes | None:
        return await self.unread.get()

    async def write(self, part: bytes) -> None:
        await self.may_write.wait()
        read = read_part(part)
        assert read is not None
        self.written.append(read)

    async def close(self) -> None:
        pass


class Ignored:
    """Takes the events of a link and does nothing."""

    def link_up(self, link: Link) -> None:
        pass

    def link_said(self, link: Link, envelope: Envelope) -> None:
        pass

    def link_ended(self, link: Link, ending: Ending) -> None:
        pass

    def link_is_behind(self, link: Link) -> bool:
        return False

    def link_flaw(self, link: Link) -> Refused | None:
        return None


def test_first_ping_is_written_before_the_pong_to_the_peer_and_that_pong_before_frames() -> None:
    """Otherwise the peer is up, and sends a frame, before it has read our ping: a fault that closes the connection."""

    async def story() -> None:
        outbox = Outbox(SETTINGS)
        outbox.put(int(asyncio.get_running_loop().time() * 1_000), envelope(1))
        stream = ScriptedStream(ping_bytes(1))
        link = Link(
            THEIRS,
            stream,
            is_dialed=True,
            hello=Hello(THEIRS, OURS, b"life"),
            certificate=THEIR_CERTIFICATE,
            generation=1,
            outbox=outbox,
            allowance=Allowance(SETTINGS),
            settings=SETTINGS,
            events=Ignored(),
        )
        running = asyncio.create_task(link.run(Hello(OURS, THEIRS, b"life")))
        # The link reads the peer's ping while it is still writing its hello.
        await until(stream.unread.empty)
        stream.may_write.set()
        await until(lambda: len(stream.written) >= 3)
        stream.unread.put_nowait(pong_bytes(1))
        await until(lambda: len(stream.written) >= 4)
        link.end(Ending(Reason.STOPPING, "the test ends"))
        await running
        assert [type(part) for part in stream.written[:4]] == [Hello, Ping, Pong, FramePart]

    play(story)
