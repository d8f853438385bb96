"""Deploying a network's contracts, and keeping a node's entry in the Registry: the writing side of `registry`.

Each function brings the chain to what is wanted and does nothing where it is so already, so that whatever was cut short
is simply done again. Only a name's owner changes its entry: the account that registered it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from rota.ledger.account import Account, TransactionRejected
from rota.ledger.bindings import RegisteredNode, creation_code, encode_call, look_up_node, read_node
from rota.model.types import ContractAddress, NodeName


class Done(Enum):
    """What was written to the Registry."""

    REGISTERED = "registered"
    MOVED = "moved"
    ANNOUNCED = "announced"
    ROTATED = "rotated"


@dataclass(frozen=True, slots=True)
class NetworkContracts:
    """The two contracts that a network needs, and the block from which on the Registry has events."""

    factory: ContractAddress
    registry: ContractAddress
    registry_from_height: int


async def deploy_contracts(account: Account) -> NetworkContracts:
    """Make a Factory and a Registry. Done twice, there are two of each: nobody can say which is meant."""
    height = await account.height()
    factory = (await account.transact(None, creation_code("Factory"))).contract
    registry = (await account.transact(None, creation_code("Registry"))).contract
    if factory is None or registry is None:
        raise TransactionRejected("the receipt of a deployment names no contract")
    return NetworkContracts(factory, registry, height)


async def look_up(account: Account, registry: ContractAddress, name: NodeName) -> RegisteredNode | None:
    """What the Registry has of a node now."""
    try:
        return read_node(await account.read(registry, look_up_node(name)))
    except ValueError as error:
        raise TransactionRejected(f"there is no Registry at {registry}: {error}") from error


async def register(
    account: Account, registry: ContractAddress, name: NodeName, fingerprint: bytes, endpoint: str
) -> tuple[Done, ...]:
    """Have the Registry know a node by this certificate at this place.

    A certificate that it does not know takes the place of the one that it has, and of one that was announced.
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
    """From now on the next certificate is good too; 32 zeros take the announcement back."""
    await _write(account, registry, "announce", name, fingerprint)


async def rotate(account: Account, registry: ContractAddress, name: NodeName) -> None:
    """The announced certificate takes the place of the old one, which is good no longer."""
    await _write(account, registry, "rotate", name)


async def move(account: Account, registry: ContractAddress, name: NodeName, endpoint: str) -> None:
    """The node listens elsewhere."""
    await _write(account, registry, "move", name, endpoint)


def require_owner(account: Account, name: NodeName, found: RegisteredNode) -> None:
    """`TransactionRejected` when the name is somebody else's."""
    if found.owner != account.address:
        raise TransactionRejected(
            f"the name {name} belongs to {found.owner}, and we are {account.address}: choose another name, or have its "
            "owner give it to us"
        )


async def _write(account: Account, registry: ContractAddress, function: str, *arguments: object) -> None:
    await account.transact(registry, encode_call("Registry", function, *arguments))
