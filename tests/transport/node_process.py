"""A node in a process of its own, for `test_processes.py`: it answers every message with one of the same number.

It says its port, reads its registry, and from then on prints what it is told, a line for each event.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from rota.machine.effects import SendMessage
from rota.machine.events import ConnectionLost, ConnectionMade, MessageReceived
from rota.machine.tables import Event
from rota.model.types import NodeName
from rota.transport import GrpcPeers, Identity, StaticRegistry, read_registry
from tests.transport.kit import HOST, SETTINGS, envelope


def say(line: str) -> None:
    print(line, flush=True)


async def main(name: str, folder: Path) -> None:
    identity = Identity((folder / f"{name}.pem").read_bytes(), (folder / f"{name}.key").read_bytes())
    registry = StaticRegistry({})

    def tell(event: Event) -> None:
        match event:
            case ConnectionMade(peer):
                say(f"made {peer}")
            case ConnectionLost(peer):
                say(f"lost {peer}")
            case MessageReceived(peer, received):
                peers.send(SendMessage(peer, envelope(received.message_id.counter)))
            case _:
                raise AssertionError(event)

    peers = GrpcPeers(NodeName(name), identity, registry, tell, listen=f"{HOST}:0", settings=SETTINGS)
    running = asyncio.create_task(peers.run())
    await peers.started.wait()
    say(f"port {peers.port}")
    path = await asyncio.to_thread(sys.stdin.readline)
    registry.change(read_registry(Path(path.strip())))
    await asyncio.to_thread(sys.stdin.read)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2])))
