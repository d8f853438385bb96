"""The submitting accounts of a node, and which of them pays for a contract."""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from rota.rpc.credentials import Role
from rota.rpc.formats import Address
from rota.rpc.methods import method
from rota.service.interface import HasAccounts

CHOICES: Final = {"own": True, "shared": False, "default": None}
Choice = Annotated[
    Literal["own", "shared", "default"],
    Meta(description="An account of the contract's own, the node's submitter, or the default of ledger.accounts"),
]


class AccountShown(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A submitting account. Without `contract` it is the submitter, which other contracts share.

    `rounds` is the number of the cheapest rounds for which it lasts at today's price; it is left out where gas is free.
    A `paying` account pays for the next rounds; a `short` one cannot pay for the next.
    """

    address: Address
    balance_wei: str
    rounds_open: int
    paying: bool
    short: bool
    contract: Address | None = None
    rounds: int | None = None


@method("seq_accounts", role=Role.OPERATE, answers="accounts")
async def accounts(node: HasAccounts) -> Annotated[list[AccountShown], Meta(description="The shared one first")]:
    """List the accounts that pay for rounds: the submitter's, and those of contracts with an account of their own."""
    return [
        AccountShown(
            address=Address(each.address),
            balance_wei=str(each.balance_wei),
            rounds_open=each.rounds_open,
            paying=each.is_paying,
            short=each.is_short,
            contract=Address(each.contract) if each.contract is not None else None,
            rounds=each.rounds,
        )
        for each in await node.accounts.list()
    ]


@method("seq_chooseAccount", role=Role.OPERATE, answers="success")
async def choose_account(
    node: HasAccounts, contract: Annotated[Address, Meta(description="A contract of this node")], account: Choice
) -> Annotated[bool, Meta(description="True: this is durable")]:
    """Choose the account that pays for the next rounds of a contract. Rounds in flight keep theirs."""
    await node.accounts.choose(contract.contract, CHOICES[account])
    return True


METHODS: Final = (accounts, choose_account)
