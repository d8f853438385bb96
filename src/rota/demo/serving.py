"""Three nodes for applications to try: on ports that clients know, left alone until somebody ends them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from rota.network.local import LocalNetwork, Plan
from rota.types import NodeName

NAMES: Final = tuple(NodeName(f"node{number}") for number in range(1, 4))
# Clients of such networks look for the first node here, for the next a hundred further on; WebSockets are beside.
FIRST_PORT: Final = 31_548
PORT_STEP: Final = 100
LOOK_S: Final = 0.05
CONNECTED_TIMEOUT_S: Final = 60.0

Addresses = Mapping[NodeName, Mapping[str, str]]


def ports_from(first: int) -> dict[NodeName, tuple[int, int]]:
    """The ports of JSON-RPC and of WebSockets for each node; 0 leaves all of them to the kernel."""
    if not first:
        return {}
    return {name: (first + number * PORT_STEP, first + number * PORT_STEP + 1) for number, name in enumerate(NAMES)}


async def serve(home: Path, first_port: int, tell: Callable[[Addresses], None]) -> None:
    """Until cancelled; then the nodes are stopped as an operator stops them. `CannotStartProcess` with a reason."""
    async with LocalNetwork(Plan(home=home, names=NAMES, rpc_ports=ports_from(first_port))) as network:
        await network.start(*NAMES)
        await _connected(network)
        tell({name: network.nodes[name].addresses for name in NAMES})
        try:
            await asyncio.Event().wait()
        finally:
            await network.stop()


async def _connected(network: LocalNetwork) -> None:
    """Until each node is connected to the others: a contract that is deployed then is known to all of them."""
    async with asyncio.timeout(CONNECTED_TIMEOUT_S):
        for name in NAMES:
            while not await _has_peers(network, name):
                await asyncio.sleep(LOOK_S)


async def _has_peers(network: LocalNetwork, name: NodeName) -> bool:
    peers = await network.nodes[name].client.ask("transport_peers", is_repeatable=True)
    return isinstance(peers, list) and sum("activated" in peer for peer in peers) == len(NAMES) - 1
