"""The submitting accounts of a node, as its operator sees them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from rota.model.types import ContractAddress


@dataclass(frozen=True, slots=True)
class AccountView:
    """A submitting account: of one contract, or shared by the others.

    `rounds` is the number of the cheapest rounds that it can pay for at today's price, None where gas is free. A short
    account cannot pay for the next.
    """

    contract: ContractAddress | None
    address: ContractAddress
    balance_wei: int
    rounds: int | None
    rounds_open: int
    is_paying: bool
    is_short: bool


class Paying(Protocol):
    """The accounts that pay for rounds. `Unavailable` when the chain or the store does not answer."""

    async def list(self) -> tuple[AccountView, ...]:
        """Return the shared account, and those of contracts that have used one or for which one was chosen."""
        ...

    async def choose(self, contract: ContractAddress, is_own: bool | None) -> None:
        """Choose the account that pays for the next rounds of a contract; None restores the node's default.

        `Rejected` when this node does not have the contract; durable on return.
        """
        ...


class HasAccounts(Protocol):
    """A node that pays for rounds."""

    @property
    def accounts(self) -> Paying:
        """The accounts that pay for rounds."""
        ...
