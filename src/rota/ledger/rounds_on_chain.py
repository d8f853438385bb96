"""Reads the chain's height, independently of the index."""

from __future__ import annotations

from typing import Final

from rota.ledger.client import RpcClient, RpcRefused
from rota.ledger.hexadecimal import read_quantity
from rota.ports import Unavailable

ATTEMPTS_MAX: Final = 3


async def latest_height(client: RpcClient) -> int:
    """Return the number of the latest block. `Unavailable` when the chain does not answer."""
    try:
        return read_quantity(await client.call("eth_blockNumber", attempts_max=ATTEMPTS_MAX))
    except (RpcRefused, ValueError) as error:
        raise Unavailable(f"the chain does not say where it stands: {error}") from error
