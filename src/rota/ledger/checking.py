"""Checks that this is the configured ledger, for commands that write to it and for `rota doctor`.

Each flaw names the setting, the value found, the one expected, and the fix. A fatal one means that nothing may be
written: it would be on the wrong chain, or in the wrong contracts. The others an operator can fix while a node runs. A
running node checks its chain with every head (`follower`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from rota.ledger.artifacts import load_artifact
from rota.ledger.client import RpcClient, RpcRefused
from rota.ledger.hexadecimal import read_data, read_quantity
from rota.ledger.transports import FailureKind
from rota.model.types import ContractAddress
from rota.ports import Unavailable

CHECK_ATTEMPTS_MAX: Final = 3
CHEAPEST_ROUND_GAS: Final = 80_000

_KINDS_OF_STRANGERS: Final = (FailureKind.NOT_JSON_RPC, FailureKind.REFUSED)


@dataclass(frozen=True, slots=True)
class Flaw:
    """An error of a setting, and how to fix it."""

    setting: str
    found: str
    mend: str
    is_fatal: bool = True

    @property
    def text(self) -> str:
        """The flaw in one line."""
        return f"{self.setting}: {self.found}. {self.mend}"


@dataclass(frozen=True, slots=True)
class ExpectedContract:
    """A contract that a setting names, and the artifact that it must be."""

    setting: str
    artifact: str
    address: ContractAddress


async def check_ledger(
    client: RpcClient, *, chain_id: int, account: ContractAddress, contracts: tuple[ExpectedContract, ...] = ()
) -> tuple[Flaw, ...]:
    """Return all flaws that can be found now; only one if the node cannot be asked or is on another chain."""
    try:
        if other := await _chain_flaw(client, chain_id):
            return (other,)
        flaws = [await _contract_flaw(client, chain_id, expected) for expected in contracts]
        flaws.append(await _account_flaw(client, chain_id, account))
    except (Unavailable, RpcRefused, ValueError) as error:
        return (_unanswered(client, error),)
    return tuple(flaw for flaw in flaws if flaw is not None)


async def check_chain(client: RpcClient, chain_id: int) -> Flaw | None:
    """Return the flaw of the node itself: it does not answer, is no Ethereum node, or is on another chain."""
    try:
        return await _chain_flaw(client, chain_id)
    except (Unavailable, RpcRefused, ValueError) as error:
        return _unanswered(client, error)


async def check_contract(client: RpcClient, chain_id: int, expected: ExpectedContract) -> Flaw | None:
    """Return the flaw of a contract that a setting names, or None."""
    try:
        return await _contract_flaw(client, chain_id, expected)
    except (Unavailable, RpcRefused, ValueError) as error:
        return _unanswered(client, error)


async def _chain_flaw(client: RpcClient, chain_id: int) -> Flaw | None:
    found = read_quantity(await client.call("eth_chainId", attempts_max=CHECK_ATTEMPTS_MAX))
    return _other_chain(client.place, found, chain_id) if found != chain_id else None


async def _contract_flaw(client: RpcClient, chain_id: int, expected: ExpectedContract) -> Flaw | None:
    told = await client.call("eth_getCode", expected.address, "latest", attempts_max=CHECK_ATTEMPTS_MAX)
    code = read_data(told)
    if not code:
        return Flaw(
            expected.setting,
            f"there is no contract at {expected.address} on chain {chain_id}",
            f"Deploy {expected.artifact} there, or correct the address.",
        )
    if not is_deployment_of(expected.artifact, code):
        return Flaw(
            expected.setting,
            f"the contract at {expected.address} is not the {expected.artifact} of this version of Rota",
            "Correct the address, deploy this version's, or run the version that deployed it.",
        )
    return None


def is_deployment_of(artifact: str, code: bytes) -> bool:
    """Return whether this code is the artifact's.

    Where the artifact has a zero byte, a deployment may have any value.
    """
    expected = load_artifact(artifact).deployed_bytecode
    return len(code) == len(expected) and all(ours in (0, theirs) for ours, theirs in zip(expected, code, strict=True))


async def _account_flaw(client: RpcClient, chain_id: int, account: ContractAddress) -> Flaw | None:
    """Return a flaw if the account cannot pay for a round; where gas is free, it needs no funds."""
    balance = read_quantity(await client.call("eth_getBalance", account, "latest", attempts_max=CHECK_ATTEMPTS_MAX))
    price = read_quantity(await client.call("eth_gasPrice", attempts_max=CHECK_ATTEMPTS_MAX))
    needed = price * CHEAPEST_ROUND_GAS
    if balance >= needed:
        return None
    return Flaw(
        "node.keys",
        f"the submitter {account} has {balance} wei on chain {chain_id}, and the cheapest round costs about {needed}",
        "Send it funds; until then rounds wait.",
        is_fatal=False,
    )


def _other_chain(url: str, found: int, expected: int) -> Flaw:
    return Flaw(
        "ledger.chain_id",
        f"the node at {url} is on chain {found}, and {expected} is configured",
        f"Give the address of a node of chain {expected}, or correct the chain id.",
    )


def _unanswered(client: RpcClient, error: Exception) -> Flaw:
    if not isinstance(error, Unavailable):
        return _stranger(client.place, str(error))
    failure = client.failure
    if failure is not None and failure.kind in _KINDS_OF_STRANGERS:
        return _stranger(client.place, failure.detail)
    is_down = failure is None or failure.kind is FailureKind.UNREACHABLE
    advice = "Start it, or correct the address." if is_down else "See what is wrong with it, or name another node."
    return Flaw("ledger.url", f"the Ethereum node at {client.place} {failure or 'does not answer'}", advice)


def _stranger(url: str, found: str) -> Flaw:
    return Flaw(
        "ledger.url",
        f"what answers at {url} is no Ethereum node: {found}",
        "Give the address of a node's JSON-RPC, such as http://localhost:8545.",
    )
