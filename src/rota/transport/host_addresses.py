"""The addresses of other nodes' hosts, looked up in threads of their own.

The owner of a registered name chooses its hosts, and the server of their names may never answer: a look-up then holds
its thread for longer than its caller waits. So these threads are separate from those of the rest of the node, each node
has one look-up at a time, and hosts that are addresses need none.
"""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from threading import Thread
from typing import Any, Final

from rota.model.types import NodeName
from rota.ports import Unavailable

# A look-up without an answer lasts for half a minute at most places, and nodes take turns meanwhile (`peers_max`).
LOOKUPS_MAX: Final = 1_024
PORTS: Final = 65_536

Found = list[tuple[Any, ...]]


class HostAddresses:
    """Look-ups of one event loop."""

    def __init__(self) -> None:
        self._under_way: Final[dict[NodeName, asyncio.Future[Found]]] = {}

    async def addresses_of(self, node: NodeName, endpoint: str) -> Found:
        """As `getaddrinfo` returns them. An `OSError` or `ValueError` without any; no timeout of its own."""
        host, _, written = endpoint.rpartition(":")
        host, port = host.strip("[]"), int(written)
        if not 0 < port < PORTS:
            # `getaddrinfo` fails in its own way where a number is long.
            raise ValueError(f"its port must be 1 to {PORTS - 1}")
        with suppress(socket.gaierror):
            return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
        while (earlier := self._under_way.get(node)) is not None:
            await asyncio.wait((earlier,))
        if len(self._under_way) >= LOOKUPS_MAX:
            raise Unavailable(f"{endpoint} cannot be reached: too many names of hosts are being looked up")
        # The look-up continues when its caller gives up, and its node gets no other one before it ends.
        return await asyncio.shield(self._begin(node, host, port))

    def _begin(self, node: NodeName, host: str, port: int) -> asyncio.Future[Found]:
        loop = asyncio.get_running_loop()
        lookup: asyncio.Future[Found] = loop.create_future()

        def end(found: Found | None, error: Exception | None) -> None:
            del self._under_way[node]
            if found is not None:
                lookup.set_result(found)
            elif error is not None:
                lookup.set_exception(error)
                lookup.exception()  # Its caller may have given up, which is no fault.

        def look_up() -> None:
            found, error = None, None
            try:
                found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            except Exception as problem:  # Its caller judges it.
                error = problem
            with suppress(RuntimeError):  # The loop has closed.
                loop.call_soon_threadsafe(end, found, error)

        self._under_way[node] = lookup
        # A daemon: the process does not wait for it when it ends.
        Thread(target=look_up, name=f"look up {host}"[:64], daemon=True).start()
        return lookup
