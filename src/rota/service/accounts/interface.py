"""The submitting accounts of a node, as its operator sees them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from rota.model.types import ContractAddress


@dataclass(frozen=True, slots=True)
class AccountView:
    """An account: of a contract, or the one that the others share.

    `rounds` is the number of the cheapest rounds for which it lasts at today's price, none where gas is free. A short
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
        """The shared one, and those of contracts that have used one or for which one was chosen."""
        ...

    async def choose(self, contract: ContractAddress, is_own: bool | None) -> None:
        """Which account pays for the next rounds of a contract; without a choice the node's default does.

        `Rejected` when the contract is none of this node's; durable on return.
        """
        ...


class HasAccounts(Protocol):
    """A node that pays."""

    @property
    def accounts(self) -> Paying:
        """The accounts that pay for rounds."""
        ...
