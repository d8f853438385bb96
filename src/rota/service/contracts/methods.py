"""Adding contracts to nodes: a member's endorser address, and adding the deployed contract."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from rota.rpc.credentials import Role
from rota.rpc.formats import Address, HexText, Timestamp, Uuid, timestamp_of
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


class ContractQuarantined(msgspec.Struct, frozen=True, rename="camel"):
    """A contract that no run of the node loads, because the database rejected its records."""

    contract: Address
    reason: str
    quarantined_at: Timestamp


@method("seq_quarantinedContracts", role=Role.OPERATE, answers="contracts")
async def quarantined_contracts(
    node: Contracts,
) -> Annotated[list[ContractQuarantined], Meta(description="The earliest first")]:
    """List the contracts that are quarantined: the database rejected their records, and no run loads them."""
    return [
        ContractQuarantined(
            contract=Address(each.contract), reason=each.reason, quarantined_at=timestamp_of(each.quarantined_at_ms)
        )
        for each in await node.quarantine.list()
    ]


@method("seq_releaseContract", role=Role.OPERATE, answers="success")
async def release_contract(
    node: Contracts, contract: Annotated[Address, Meta(description="A contract that is quarantined")]
) -> Annotated[bool, Meta(description="True: the next run loads it. False: it was not quarantined")]:
    """Release a quarantined contract. It takes effect when the node is started again."""
    is_quarantined = any(each.contract == contract.contract for each in await node.quarantine.list())
    if is_quarantined:
        await node.quarantine.release(contract.contract)
    return is_quarantined


METHODS: Final = (endorser_address, add_contract, quarantined_contracts, release_contract)
