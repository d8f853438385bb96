"""A pooler in transaction mode, as PgBouncer is one: a client has a server's session for a transaction only."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.store.servers import PostgresServer

Link = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def message(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    """Its kind, and all of its bytes."""
    head = await reader.readexactly(5)
    return head[:1], head + await reader.readexactly(int.from_bytes(head[1:], "big") - 4)


@dataclass
class Pooler:
    """One for all clients; the session that was used last is used next, or the one that was used first."""

    server_socket: Path
    idle: list[Link] = field(default_factory=list)
    greeting: bytes = b""
    is_round_robin: bool = False
    links: list[Link] = field(default_factory=list)
    serving: set[asyncio.Task[None]] = field(default_factory=set)

    def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.serving.add(asyncio.create_task(self.serve(reader, writer)))

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.links.append((reader, writer))
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            size = await reader.readexactly(4)
            startup = size + await reader.readexactly(int.from_bytes(size, "big") - 4)
            if not self.idle:
                self.idle.append(await self._connected(startup))
            writer.write(self.greeting)
            while True:
                kind, first = await message(reader)
                if kind == b"X":
                    break
                link = self.idle.pop(0 if self.is_round_robin else -1) if self.idle else await self._connected(startup)
                await self._transaction(link, (reader, writer), kind, first)
                self.idle.append(link)

    async def _transaction(self, link: Link, client: Link, kind: bytes, first: bytes) -> None:
        """Until the server says that it is in no transaction, and has answered all."""
        reader, writer = client
        asked = asyncio.Queue[bool]()

        async def pass_on() -> None:
            nonlocal kind, first
            while True:
                link[1].write(first)
                if kind in (b"Q", b"S"):
                    asked.put_nowait(True)
                kind, first = await message(reader)

        passing = asyncio.create_task(pass_on())
        try:
            while True:
                told, whole = await message(link[0])
                writer.write(whole)
                if told == b"Z":
                    asked.get_nowait()
                    if whole[-1:] == b"I" and asked.empty():
                        return
        finally:
            passing.cancel()
            await asyncio.wait((passing,))

    async def _connected(self, startup: bytes) -> Link:
        link = await asyncio.open_unix_connection(self.server_socket)
        self.links.append(link)
        link[1].write(startup)
        greeting = b""
        while True:
            kind, whole = await message(link[0])
            greeting += whole
            if kind == b"Z":
                self.greeting = greeting
                return link


@asynccontextmanager
async def pooler_to(server: PostgresServer, folder: Path) -> AsyncIterator[Pooler]:
    """Listens in this folder, under the name that the server's socket has in its own."""
    pooler = Pooler(server.socket)
    listening = await asyncio.start_unix_server(pooler.take, folder / server.socket.name)
    try:
        yield pooler
    finally:
        listening.close()
        for task in pooler.serving:
            task.cancel()
        await asyncio.gather(*pooler.serving, return_exceptions=True)
        for _, writer in pooler.links:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()
        await listening.wait_closed()
