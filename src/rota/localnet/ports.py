"""Ports that are known before anybody listens at them, and that nobody else is given meanwhile."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager

from rota.localnet.namespaces import LOOPBACK


@contextmanager
def held_port() -> Iterator[int]:
    """A port of the kernel's choice, held until the end: bound, but not listened at.

    Whoever it is for may listen at it all the same, again and again, as both let the address be used again. A port that
    is only looked up and let go may be somebody else's by the time that it is wanted.
    """
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind((LOOPBACK, 0))
        port: int = holder.getsockname()[1]
        yield port
