"""The accounts of a node's contracts, from its settings, database and keys: for those who fund or check them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

from rota.chain.submitters import AccountChoice
from rota.keys.names import submitter_key
from rota.ledger.client import RpcClient
from rota.ledger.hexadecimal import read_quantity
from rota.model.types import ContractAddress
from rota.ports import Signer
from rota.server.configuration import NodeConfiguration, SqliteFile, password_of
from rota.store.inspecting import ContractAccount, accounts_in_postgres, accounts_in_sqlite

POSTGRES_TIMEOUT_S: Final = 5.0
ATTEMPTS_MAX: Final = 3


@dataclass(frozen=True, slots=True)
class FoundAccount:
    """The account of a contract, and what it has."""

    contract: ContractAddress
    address: ContractAddress
    balance_wei: int


async def accounts_of(configuration: NodeConfiguration, signer: Signer, client: RpcClient) -> tuple[FoundAccount, ...]:
    """Those of contracts that have used one or are to use one. `Unavailable` when database or chain do not answer.

    `KeyFileError` when the database's password cannot be read.
    """
    found = []
    for each in await _contracts_of(configuration):
        if each.has_account(configuration.ledger.accounts is AccountChoice.BY_CONTRACT):
            address = signer.address_of(submitter_key(each.contract))
            balance = await client.call("eth_getBalance", address, "latest", attempts_max=ATTEMPTS_MAX)
            found.append(FoundAccount(each.contract, address, read_quantity(balance)))
    return tuple(found)


async def _contracts_of(configuration: NodeConfiguration) -> tuple[ContractAccount, ...]:
    url = configuration.store.url
    if isinstance(url, SqliteFile):
        return await asyncio.to_thread(accounts_in_sqlite, url.path) if url.path.exists() else ()
    return await accounts_in_postgres(url.with_password(password_of(configuration.store)), POSTGRES_TIMEOUT_S)
