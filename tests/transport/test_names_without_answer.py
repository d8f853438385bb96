"""Names of hosts whose servers never answer: looking them up holds up nothing else."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from rota.model.types import NodeName
from rota.ports import Registration
from tests.bounds import WAIT_S
from tests.transport.kit import Network, play, until

TARPIT = "tarpit"
# As many as the threads that an event loop has for all of a process.
JUNK = min(32, (os.cpu_count() or 1) + 4)


class Resolver:
    """Answers for addresses, and for a name of the tarpit when it is released."""

    def __init__(self) -> None:
        self.released = threading.Event()
        self.asked: list[str] = []
        self._real = socket.getaddrinfo

    def __call__(self, host: Any, *arguments: Any, **named: Any) -> Any:  # noqa: ANN401  # as `getaddrinfo`
        name = host.decode() if isinstance(host, bytes) else str(host)
        if not name.startswith(TARPIT) or named.get("flags"):
            return self._real(host, *arguments, **named)
        self.asked.append(name)
        self.released.wait()
        raise OSError("no answer")


@pytest.fixture
def resolver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Resolver]:
    found = Resolver()
    monkeypatch.setattr(socket, "getaddrinfo", found)
    yield found
    found.released.set()


def junk(count: int) -> dict[NodeName, Registration]:
    """Each with four places, and a name of its own for each."""
    return {
        NodeName(f"junk{n}"): Registration(",".join(f"{TARPIT}{n}x{place}:1" for place in range(4)), n.to_bytes(32))
        for n in range(1, count + 1)
    }


def test_names_that_no_server_answers_for_hold_up_no_other_work_of_the_node(resolver: Resolver) -> None:
    async def story() -> None:
        made = Network()
        made.put(junk(JUNK))
        one = await made.start("node1")
        await until(lambda: len(resolver.asked) >= JUNK)
        # Long frames are read in such threads, and the number of a commit is noted before a transaction leaves.
        assert await asyncio.wait_for(asyncio.to_thread(lambda: 7), WAIT_S) == 7
        two = await made.start("node2")
        made.add(one, two)
        await one.until_connected("node2")
        await until(lambda: len(resolver.asked) >= 2 * JUNK)
        # Time in which a third would be looked up.
        await asyncio.sleep(1)
        assert len(resolver.asked) == 2 * JUNK, "both look up one name of a node at a time"
        resolver.released.set()
        await made.stop()

    play(story)
