"""Bringing a contract to its members: each says with which address it endorses, and takes the contract in."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta

from rota.rpc.credentials import Role
from rota.rpc.formats import Address, HexText, Uuid
from rota.rpc.methods import method
from rota.service.interface import Contracts

DEPLOYMENT: Final = "The id under which the contract is deployed through the factory"


@method("seq_endorserAddress", role=Role.OPERATE, answers="address")
async def endorser_address(
    node: Contracts, deployment: Annotated[Uuid, Meta(description=DEPLOYMENT)]
) -> Annotated[Address, Meta(description="To be given to the factory for this node")]:
    """Return this node's endorser address for the contract deployed under this id; every contract has another one."""
    return Address(await node.endorser_address(deployment.intent))


@method("seq_addContract", role=Role.OPERATE, answers="contract")
async def add_contract(
    node: Contracts,
    genesis: Annotated[HexText, Meta(description="The contract's genesis, whose hash stands on the chain")],
    deployment: Annotated[Uuid, Meta(description=DEPLOYMENT)],
) -> Annotated[Address, Meta(description="The contract's address")]:
    """Add a deployed contract. The node checks its genesis against the chain first."""
    return Address(await node.take_in(genesis.content, deployment.intent))


METHODS: Final = (endorser_address, add_contract)
