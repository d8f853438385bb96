"""Stands between a store and its PostgreSQL server: cuts, loses and swallows what they say to each other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from tests.store.servers import PostgresServer

READ_BYTES = 65_536
# What a server says to a session that an operator ends: an ErrorResponse, and then it closes.
_FIELDS = b"SFATAL\0VFATAL\0C57P01\0Mterminating connection due to administrator command\0\0"
LAST_WORDS = b"E" + (len(_FIELDS) + 4).to_bytes(4, "big") + _FIELDS


class Fault(Enum):
    """What becomes of the next connection that commits."""

    NONE = "nothing"
    CUT_BEFORE = "it is cut before the server has the commit"
    CUT_AFTER = "it is cut when the commit has happened, and its answer is on its way"
    SILENT_BEFORE = "it stays open, and nothing gets through any more, the commit neither"
    SILENT_AFTER = "it stays open, and nothing comes back any more"


@dataclass(slots=True)
class Proxy:
    """One for all connections of a store."""

    server_socket: Path
    fault: Fault = Fault.NONE
    is_silent: bool = False
    serving: list[asyncio.Task[None]] = field(default_factory=list)
    writers: list[asyncio.StreamWriter] = field(default_factory=list)

    def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.append(writer)
        self.serving.append(asyncio.create_task(self.serve(reader, writer)))

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        behind_reader, behind_writer = await asyncio.open_unix_connection(self.server_socket)
        back = asyncio.create_task(self._pass_back(behind_reader, writer))
        # Either side may have gone already.
        with suppress(ConnectionError):
            while heard := await reader.read(READ_BYTES):
                if self.fault is not Fault.NONE and b"COMMIT" in heard:
                    back.cancel()
                    await asyncio.wait((back,))
                    await self._fail(heard, reader, behind_reader, behind_writer)
                    break
                if not self.is_silent:
                    behind_writer.write(heard)
        back.cancel()
        await asyncio.wait((back,))
        for each in (behind_writer, writer):
            each.close()
            with suppress(ConnectionError):
                await each.wait_closed()

    async def _fail(
        self,
        heard: bytes,
        reader: asyncio.StreamReader,
        behind_reader: asyncio.StreamReader,
        behind_writer: asyncio.StreamWriter,
    ) -> None:
        fault, self.fault = self.fault, Fault.NONE
        if fault in {Fault.CUT_AFTER, Fault.SILENT_AFTER}:
            behind_writer.write(heard)
            await behind_reader.read(READ_BYTES)
        if fault in {Fault.SILENT_BEFORE, Fault.SILENT_AFTER}:
            await reader.read()

    async def _pass_back(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while heard := await reader.read(READ_BYTES):
                if not self.is_silent:
                    writer.write(heard)
        writer.close()

    def speak_last_words(self) -> None:
        """Every session hears that it is ended, and its connection stays open."""
        for writer in self.writers:
            if not writer.is_closing():
                writer.write(LAST_WORDS)


@asynccontextmanager
async def proxy_to(server: PostgresServer, folder: Path) -> AsyncIterator[Proxy]:
    """Listens in this folder, under the name that the server's socket has in its own."""
    proxy = Proxy(server.socket)
    listening = await asyncio.start_unix_server(proxy.take, folder / server.socket.name)
    try:
        yield proxy
    finally:
        listening.close()
        await listening.wait_closed()
        await asyncio.gather(*proxy.serving)
