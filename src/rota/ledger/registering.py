"""Deploys a network's contracts, and maintains a node's entry in the Registry: the writing side of `registry`.

Each function brings the chain to the wanted state and does nothing if it has it already, so that an interrupted one can
simply be repeated. Only a name's owner, the account that registered it, can change its entry.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from rota.ledger.account import Account, TransactionRejected
from rota.ledger.bindings import RegisteredNode, creation_code, encode_call, look_up_node, read_node
from rota.model.types import ContractAddress, NodeName


class Done(Enum):
    """A change that was written to the Registry."""

    REGISTERED = "registered"
    MOVED = "moved"
    ANNOUNCED = "announced"
    ROTATED = "rotated"


@dataclass(frozen=True, slots=True)
class NetworkContracts:
    """The two contracts that a network needs, and the first block with events of the Registry."""

    factory: ContractAddress
    registry: ContractAddress
    registry_from_height: int


async def deploy_contracts(account: Account) -> NetworkContracts:
    """Deploy a Factory and a Registry. Not idempotent: a second run deploys another pair."""
    height = await account.height()
    factory = (await account.transact(None, creation_code("Factory"))).contract
    registry = (await account.transact(None, creation_code("Registry"))).contract
    if factory is None or registry is None:
        raise TransactionRejected("the receipt of a deployment names no contract")
    return NetworkContracts(factory, registry, height)


async def look_up(account: Account, registry: ContractAddress, name: NodeName) -> RegisteredNode | None:
    """Return the Registry's current entry for a node, or None."""
    try:
        return read_node(await account.read(registry, look_up_node(name)))
    except ValueError as error:
        raise TransactionRejected(f"there is no Registry at {registry}: {error}") from error


async def register(
    account: Account, registry: ContractAddress, name: NodeName, fingerprint: bytes, endpoint: str
) -> tuple[Done, ...]:
    """Register a node with this certificate and endpoint, or update its entry.

    A certificate that the entry does not have replaces the current one, and any announced one.
    """
    found = await look_up(account, registry, name)
    if found is None:
        await _write(account, registry, "register", name, fingerprint, endpoint)
        return (Done.REGISTERED,)
    require_owner(account, name, found)
    done: list[Done] = []
    if found.current_fingerprint != fingerprint:
        if found.next_fingerprint != fingerprint:
            await announce(account, registry, name, fingerprint)
            done.append(Done.ANNOUNCED)
        await rotate(account, registry, name)
        done.append(Done.ROTATED)
    if found.endpoint != endpoint:
        await move(account, registry, name, endpoint)
        done.append(Done.MOVED)
    return tuple(done)


async def announce(account: Account, registry: ContractAddress, name: NodeName, fingerprint: bytes) -> None:
    """Make the next certificate valid too; 32 zeros revoke the announcement."""
    await _write(account, registry, "announce", name, fingerprint)


async def rotate(account: Account, registry: ContractAddress, name: NodeName) -> None:
    """Replace the old certificate, which becomes invalid, by the announced one."""
    await _write(account, registry, "rotate", name)


async def move(account: Account, registry: ContractAddress, name: NodeName, endpoint: str) -> None:
    """Change the node's endpoint."""
    await _write(account, registry, "move", name, endpoint)


def require_owner(account: Account, name: NodeName, found: RegisteredNode) -> None:
    """Raise `TransactionRejected` when another account owns the name."""
    if found.owner != account.address:
        raise TransactionRejected(
            f"the name {name} belongs to {found.owner}, and we are {account.address}: choose another name, or have its "
            "owner give it to us"
        )


async def _write(account: Account, registry: ContractAddress, function: str, *arguments: object) -> None:
    await account.transact(registry, encode_call("Registry", function, *arguments))
