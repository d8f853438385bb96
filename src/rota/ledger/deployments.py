"""Finds a deployment's event of the factory on the chain, by the deployment's id."""

from __future__ import annotations

from dataclasses import dataclass

from rota.ledger.bindings import deployment_topics, read_deployment
from rota.ledger.client import RpcClient, RpcRefused
from rota.ledger.hexadecimal import data
from rota.ledger.reading import read_logs
from rota.model.blocks import FactoryDeployment
from rota.model.types import ContractAddress, IntentId
from rota.ports import Unavailable

TOPIC_BYTES = 32


@dataclass(frozen=True, slots=True)
class FoundDeployment:
    """The factory's event, and its height."""

    deployment: FactoryDeployment
    height: int


async def find_deployment(
    client: RpcClient, factory: ContractAddress, intent: IntentId, attempts_max: int = 3
) -> FoundDeployment | None:
    """Return the contract that this intent deployed, or None. `Unavailable` when the chain does not answer."""
    wanted = {
        "address": factory,
        "fromBlock": "0x0",
        "toBlock": "latest",
        "topics": [[data(topic) for topic in deployment_topics()], data(intent.ljust(TOPIC_BYTES, b"\0"))],
    }
    try:
        logs = read_logs(await client.call("eth_getLogs", wanted, attempts_max=attempts_max))
        return FoundDeployment(read_deployment(logs[0]), logs[0].height) if logs else None
    except (RpcRefused, ValueError) as error:
        raise Unavailable(f"the chain does not say what {intent.hex()} deployed: {error}") from error
