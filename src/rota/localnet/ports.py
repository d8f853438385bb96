"""Ports that are known before a process listens on them, and that no other process gets meanwhile."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager

from rota.localnet.namespaces import LOOPBACK


@contextmanager
def held_port() -> Iterator[int]:
    """A port that the kernel chooses, held until the end: bound, but not listening.

    Its process may listen on it nevertheless, repeatedly, as both allow the address to be reused. A port that is only
    looked up and released may belong to another process when it is needed.
    """
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind((LOOPBACK, 0))
        port: int = holder.getsockname()[1]
        yield port
