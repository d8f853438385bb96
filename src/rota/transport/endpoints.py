"""Where other nodes may be dialed.

The owner of a registered name chooses its endpoint, and every node of the network dials it. A registered name must not
make a node connect to its own machine, or to its link: services there often trust any client that reaches them. Private
networks are usual, and allowed.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Collection

from rota.model.types import NodeName
from rota.ports import Unavailable
from rota.transport.host_addresses import HostAddresses


async def require_dialable(
    node: NodeName, endpoint: str, own: Collection[str], allows_local: bool, timeout_ms: int, hosts: HostAddresses
) -> None:
    """`Unavailable` when no node should be dialed there. A host name is judged by all its present addresses."""
    if endpoint in own:
        raise Unavailable(f"its registered endpoint {endpoint} is our own")
    if allows_local:
        return
    try:
        async with asyncio.timeout(timeout_ms / 1_000):
            found = await hosts.addresses_of(node, endpoint)
    except (TimeoutError, OSError, ValueError) as error:
        raise Unavailable(f"{endpoint} cannot be reached: {error}") from error
    for *_, address in found:
        if is_local(str(address[0])):
            text = f"its registered endpoint {endpoint} is on this machine or its link, and is not dialed"
            raise Unavailable(f"{text}; transport.local_endpoints allows it")


def is_local(address: str) -> bool:
    """Whether an address is loopback, link-local, multicast or unspecified."""
    known = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(known, ipaddress.IPv6Address) and known.ipv4_mapped is not None:
        known = known.ipv4_mapped
    return known.is_loopback or known.is_link_local or known.is_multicast or known.is_unspecified
