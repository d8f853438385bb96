"""How a contract comes to its members."""

from __future__ import annotations

from typing import Protocol

from rota.model.types import ContractAddress, IntentId


class Contracts(Protocol):
    """How a contract comes to its members."""

    async def endorser_address(self, deployment: IntentId) -> ContractAddress:
        """The address with which this node endorses in the contract that this intent deploys."""
        ...

    async def take_in(self, genesis: bytes, deployment: IntentId) -> ContractAddress:
        """Have the contract from now on. `Rejected` when genesis and chain do not agree."""
        ...
