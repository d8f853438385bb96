"""Ports that are known before a process listens at them, and that no other process gets meanwhile."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager

from rota.localnet.namespaces import LOOPBACK


@contextmanager
def held_port() -> Iterator[int]:
    """A port of the kernel's choice, held until the end: bound, but not listened at.

    Its process may listen at it all the same, again and again, as both let the address be used again. A port that
    is only looked up and released may belong to another process when it is needed.
    """
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind((LOOPBACK, 0))
        port: int = holder.getsockname()[1]
        yield port
