"""In which blocks a contract has rounds, asked of the chain: what an index is held against."""

from __future__ import annotations

from typing import Final

from rota.calldata import ROUND_TOPIC
from rota.ledger.client import RpcClient, RpcRefused
from rota.ledger.hexadecimal import data, quantity, read_quantity
from rota.ledger.reading import read_logs
from rota.model.types import ContractAddress
from rota.ports import Unavailable

ATTEMPTS_MAX: Final = 3
BLOCKS_A_QUESTION: Final = 2_000


async def latest_height(client: RpcClient) -> int:
    """Where the chain stands. `Unavailable` when it does not say."""
    try:
        return read_quantity(await client.call("eth_blockNumber", attempts_max=ATTEMPTS_MAX))
    except (RpcRefused, ValueError) as error:
        raise Unavailable(f"the chain does not say where it stands: {error}") from error


async def heights_of_rounds(client: RpcClient, contract: ContractAddress, first: int, last: int) -> frozenset[int]:
    """The blocks of this range, both ends included, that have a round of this contract."""
    found: set[int] = set()
    try:
        for start in range(first, last + 1, BLOCKS_A_QUESTION):
            wanted = {
                "address": contract,
                "topics": [data(ROUND_TOPIC)],
                "fromBlock": quantity(start),
                "toBlock": quantity(min(last, start + BLOCKS_A_QUESTION - 1)),
            }
            logs = read_logs(await client.call("eth_getLogs", wanted, attempts_max=ATTEMPTS_MAX))
            found.update(log.height for log in logs)
    except (RpcRefused, ValueError) as error:
        raise Unavailable(f"the chain does not say which rounds {contract} has: {error}") from error
    return frozenset(found)
