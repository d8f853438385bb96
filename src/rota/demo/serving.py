"""Three nodes for applications to try: on ports that clients know, running until the user stops them."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from rota.client import Client
from rota.localnet.local import LocalNetwork, Plan
from rota.localnet.namespaces import LOOPBACK
from rota.model.types import NodeName

NAMES: Final = tuple(NodeName(f"node{number}") for number in range(1, 4))
# Clients of such networks expect the first node here, and each further one 100 higher; WebSockets are one above.
FIRST_PORT: Final = 31_548
PORT_STEP: Final = 100
LOOK_S: Final = 0.05
CONNECTED_TIMEOUT_S: Final = 60.0

Addresses = Mapping[NodeName, Mapping[str, str]]


class PortInUse(Exception):
    """A port of a node is in use; the text names it and the fix."""


def ports_from(first: int, names: Sequence[NodeName] = NAMES) -> dict[NodeName, tuple[int, int]]:
    """The ports of JSON-RPC and of WebSockets for each node; with `first` 0, the kernel chooses all of them."""
    if not first:
        return {}
    return {name: (first + number * PORT_STEP, first + number * PORT_STEP + 1) for number, name in enumerate(names)}


def require_free(ports: Mapping[NodeName, tuple[int, int]]) -> None:
    """Raise `PortInUse` if a port is taken; called before anything is started."""
    for name, pair in ports.items():
        for port in pair:
            with socket.socket() as looking:
                # As the nodes do, take a port that another process has just released as free.
                looking.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    looking.bind((LOOPBACK, port))
                    looking.listen()
                except OSError as error:
                    raise PortInUse(
                        f"port {port} of {name} is not to be had: {error.strerror}. Another demonstration may be "
                        f"running; --port 0 takes ports that are free."
                    ) from error


async def serve(home: Path, first_port: int, tell: Callable[[Addresses], None]) -> None:
    """Run until cancelled; then stop the nodes as an operator stops them.

    Raises `PortInUse` and `CannotStartProcess` with a reason.
    """
    ports = ports_from(first_port)
    require_free(ports)
    async with LocalNetwork(Plan(home=home, names=NAMES, rpc_ports=ports)) as network:
        await network.start(*NAMES)
        await connected(network)
        tell({name: network.nodes[name].addresses for name in NAMES})
        try:
            await asyncio.Event().wait()
        finally:
            await network.stop()


async def connected(network: LocalNetwork) -> None:
    """Wait until each node is connected to the others, so that all of them learn of a contract deployed afterwards."""
    async with asyncio.timeout(CONNECTED_TIMEOUT_S):
        for node in network.nodes.values():
            while not await _has_peers(node.client, len(network.nodes) - 1):
                await asyncio.sleep(LOOK_S)


async def _has_peers(client: Client, count: int) -> bool:
    peers = await client.ask("transport_peers", is_repeatable=True)
    return isinstance(peers, list) and sum("activated" in peer for peer in peers) == count
