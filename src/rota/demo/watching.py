"""Keeps the show up to date: polls every node's status, and the chain's logs and gas."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from rota.client import ClientError, ContractStatus
from rota.demo.programme import Asset
from rota.demo.reckoning import attempts_of
from rota.demo.show import Show
from rota.demo.staging import Staged
from rota.ledger.client import RpcRefused
from rota.localnet.chain_book import ChainBook
from rota.localnet.local import LocalNetwork
from rota.localnet.workload import Workload
from rota.model.types import ContractAddress, NodeName
from rota.ports import Unavailable

LOOK_S: Final = 0.2
# The interval of more expensive queries, whose results change less often.
CHAIN_LOOK_S: Final = 1.0


async def watch(
    show: Show, network: LocalNetwork, staged: Staged, workload: Workload, from_height: int, refresh: Callable[[], None]
) -> None:
    """Poll until cancelled."""
    book = ChainBook(network.ledger, network.chain_id, tuple(staged.contracts.values()), from_height)
    looked_s = 0.0
    while True:
        for asset, contract in staged.contracts.items():
            for name in network.nodes:
                show.statuses[asset, name] = await _status(network, name, contract)
        await workload.look()
        show.count(workload)
        if time.monotonic() - looked_s >= CHAIN_LOOK_S:
            looked_s = time.monotonic()
            await _look_at_chain(show, book, staged)
            await _look_at_triggers(show, network)
        coordinator = show.coordinator_of(Asset.ERC20)
        if coordinator is not None and coordinator not in show.coordinators[-1:]:
            show.coordinators.append(coordinator)
            show.happen(f"{coordinator} coordinates the group")
        refresh()
        await asyncio.sleep(LOOK_S)


async def _look_at_chain(show: Show, book: ChainBook, staged: Staged) -> None:
    # Only for display: a chain that does not answer for a moment is no error.
    with suppress(Unavailable, RpcRefused):
        await book.read_on(show.last_lone_height)
        await book.read_gas()
    for asset, contract in staged.contracts.items():
        show.figures[asset].gas_per_transaction = book.gas_per_transaction((contract,))


async def _look_at_triggers(show: Show, network: LocalNetwork) -> None:
    for name, node in network.nodes.items():
        if node.is_running:
            with suppress(ClientError):
                show.attempts[name], _ = await attempts_of(network, name)


async def _status(network: LocalNetwork, name: NodeName, contract: ContractAddress) -> ContractStatus | None:
    node = network.nodes[name]
    if not node.is_running:
        return None
    try:
        return await node.client.status(contract)
    except ClientError:
        return None
