"""The chain of the demonstration: one of its own, or one that runs already and has an account that pays.

On a development chain, known by its id, an account pays whose key is public. On any other the caller provides a key;
each of the nodes' accounts gets funds for the work at today's price, and some more.
"""

from __future__ import annotations

from typing import Final

from rota.demo.programme import Programme
from rota.keys.secp256k1 import PrivateKey
from rota.ledger.client import RpcClient, RpcRefused
from rota.ledger.embedded.accounts import DEVELOPMENT_ACCOUNTS
from rota.ledger.embedded.settings import WEI_PER_ETHER
from rota.ledger.hexadecimal import data, read_quantity
from rota.localnet.chains import CHAIN_ID, RunningChain
from rota.ports import Unavailable

ATTEMPTS_MAX: Final = 3
# A round with one transfer costs less than this; prices may double during the run.
GAS_PER_TRANSFER: Final = 150_000
GAS_AT_LEAST: Final = 50_000_000
PRICE_FACTOR: Final = 2
ACCOUNTS_PER_NODE: Final = 2
# The gas for deploying the network's own contracts.
GAS_OF_DEPLOYMENTS: Final = 20_000_000


class UnusableLedger(Exception):
    """The chain cannot be used, or no account pays on it; the text names the fix."""


async def running_chain(url: str, payer: PrivateKey | None, programme: Programme) -> RunningChain:
    """A running chain with an account that can pay. `UnusableLedger` names the missing part."""
    client = RpcClient(url)
    try:
        chain_id = read_quantity(await client.call("eth_chainId", attempts_max=ATTEMPTS_MAX))
        price_wei = read_quantity(await client.call("eth_gasPrice", attempts_max=ATTEMPTS_MAX))
        if payer is None and chain_id != CHAIN_ID:
            raise UnusableLedger(
                f"chain {chain_id} at {client.place} is no development chain ({CHAIN_ID}): name a file with the "
                "private key of an account that pays with --key-file"
            )
        payer = payer or PrivateKey(DEVELOPMENT_ACCOUNTS[0].secret)
        address = data(payer.address)
        balance_wei = read_quantity(await client.call("eth_getBalance", address, "latest", attempts_max=ATTEMPTS_MAX))
    except Unavailable as error:
        raise UnusableLedger(f"{client.place}: {error}") from error
    except (RpcRefused, ValueError) as error:
        raise UnusableLedger(f"{client.place} does not answer as an Ethereum node: {error}") from error
    finally:
        await client.close()
    funds_wei, needed_wei = funds(programme, price_wei)
    if balance_wei < needed_wei:
        raise UnusableLedger(
            f"{address} has {ether(balance_wei)} ether, and the demonstration needs {ether(needed_wei)} at "
            "today's price of gas: send it funds, or name another account with --key-file"
        )
    return RunningChain(url, payer, funds_wei)


def funds(programme: Programme, price_wei: int) -> tuple[int, int]:
    """The funds for each account of a node, and the total for the payer; zero where gas is free."""
    transfers = int(programme.rate_per_s * programme.seconds) + programme.burst
    each_wei = PRICE_FACTOR * price_wei * max(GAS_AT_LEAST, transfers * GAS_PER_TRANSFER)
    accounts = ACCOUNTS_PER_NODE * programme.node_count
    return each_wei, each_wei * accounts + PRICE_FACTOR * price_wei * GAS_OF_DEPLOYMENTS


def ether(amount_wei: int) -> str:
    """The amount in ether, as text."""
    return f"{amount_wei / WEI_PER_ETHER:.4f}".rstrip("0").rstrip(".")
