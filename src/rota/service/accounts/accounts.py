"""`service.interface.Paying`: the balances of a running node's accounts, and those that cannot pay.

Balances are read every few seconds for accounts that have something to pay for, and for all when an operator asks. An
account is short when it cannot pay for the cheapest round, or when the chain refused a transaction of it for lack of
funds. Where gas is free, none is short.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from rota.chain.events import AccountChosen, Objection
from rota.chain.submitter import Submitter
from rota.keys.names import account_key
from rota.ledger.checking import CHEAPEST_ROUND_GAS
from rota.ledger.client import Call, RpcClient
from rota.ledger.hexadecimal import read_quantity
from rota.ledger.transports import RpcFailure
from rota.logs import catalogue
from rota.model.types import SHARED_ACCOUNT, ContractAddress
from rota.ports import Signer, Unavailable
from rota.rpc import errors
from rota.service.accounts.interface import AccountView
from rota.service.run import RunningNode

LOOK_S: Final = 10.0
# The number of accounts whose balances are read, and the number of short ones that a warning names.
LOOKED_MAX: Final = 1_000
NAMED_MAX: Final = 8
COMMAND: Final = "`rota ledger fund FOLDER --contracts`"


class PayingAccounts:
    """The accounts of one node. `client` queries its chain."""

    def __init__(self, running: RunningNode, signer: Signer, client: RpcClient) -> None:
        self._running: Final = running
        self._signer: Final = signer
        self._client: Final = client
        self._short: tuple[AccountView, ...] = ()
        running.beside.append(self.run)

    async def run(self) -> None:
        """Check the balances periodically until cancelled."""
        while True:
            try:
                await self._look()
            except (Unavailable, ValueError) as error:
                catalogue.ACCOUNT_BALANCES_UNKNOWN.log(reason=str(error))
            await asyncio.sleep(LOOK_S)

    async def list(self) -> tuple[AccountView, ...]:
        """Return the shared account, and those of contracts that have used one or for which one was chosen."""
        core = self._running.engine.core.submitters
        chosen = [contract for contract, is_own in core.chosen.items() if is_own]
        return await self._views(list(dict.fromkeys((SHARED_ACCOUNT, *core.next_nonces(), *chosen))))

    async def choose(self, contract: ContractAddress, is_own: bool | None) -> None:
        """Choose the account that pays for the next rounds of a contract; durable on return."""
        if self._running.contracts.known(contract) is None:
            raise errors.invalid("contract", f"must be a contract of {self._running.name}, not {contract}")
        await self._running.adapters.store.accounts.choose(contract, is_own)
        self._running.tell(AccountChosen(contract, is_own))

    @property
    def short_count(self) -> int:
        """The number of accounts that cannot pay."""
        return len(self._short)

    def warnings(self) -> tuple[str, ...]:
        """Return one text for the operator that names the short accounts; shown beside readiness."""
        if not self._short:
            return ()
        named = ", ".join(map(_named, self._short[:NAMED_MAX]))
        more = f" and {len(self._short) - NAMED_MAX} more" if len(self._short) > NAMED_MAX else ""
        return (f"funds: accounts that cannot pay for a round: {named}{more}; {COMMAND} tops them up",)

    async def _look(self) -> None:
        core = self._running.engine.core.submitters
        paying = [account for account, each in core.by_account.items() if each.has_work or self._is_paying(account)]
        before = {each.address for each in self._short}
        self._short = tuple(each for each in await self._views(paying) if each.is_short)
        for each in self._short:
            if each.address not in before:
                catalogue.ACCOUNT_SHORT.log(account=_named(each), command=COMMAND)

    def _is_paying(self, account: ContractAddress) -> bool:
        """Whether it pays for the next rounds: of its contract, or of contracts without an account of their own."""
        core = self._running.engine.core.submitters
        return not core.is_own_usual if account == SHARED_ACCOUNT else core.has_own(account)

    async def _views(self, accounts: Sequence[ContractAddress]) -> tuple[AccountView, ...]:
        some = accounts[:LOOKED_MAX]
        addresses = [self._signer.address_of(account_key(account)) for account in some]
        calls = [Call("eth_getBalance", (address, "latest")) for address in addresses]
        price, *balances = (await self._client.call_together(Call("eth_gasPrice"), *calls)).answers
        for answer in (price, *balances):
            if isinstance(answer, RpcFailure):
                raise Unavailable(f"the ledger: {answer}")
        cost_wei = read_quantity(price) * CHEAPEST_ROUND_GAS
        return tuple(
            self._view(account, address, read_quantity(balance), cost_wei)
            for account, address, balance in zip(some, addresses, balances, strict=True)
        )

    def _view(self, account: ContractAddress, address: ContractAddress, balance_wei: int, cost_wei: int) -> AccountView:
        submitter = self._running.engine.core.submitters.by_account.get(account)
        is_refused = submitter is not None and _lacks_funds(submitter)
        return AccountView(
            contract=account or None,
            address=address,
            balance_wei=balance_wei,
            rounds=balance_wei // cost_wei if cost_wei else None,
            rounds_open=len(submitter.submissions) if submitter is not None else 0,
            is_paying=self._is_paying(account),
            is_short=is_refused or balance_wei < cost_wei,
        )


def _lacks_funds(submitter: Submitter) -> bool:
    return submitter.trouble.startswith(Objection.NO_FUNDS.value)


def _named(account: AccountView) -> str:
    whose = "the submitter" if account.contract is None else f"the account of {account.contract}"
    return f"{account.address} ({whose}, {account.balance_wei} wei)"
