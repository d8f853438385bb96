"""`rota ledger deploy`, `register` and `fund`: what a network needs on its chain.

They sign with the node's registrar and never with its submitter: a running node gives the submitter's nonces by its own
book, and a transaction from elsewhere would take one of them away.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from secrets import token_hex
from typing import Final

import click

from rota.cli.node_folder import NodeFolder, directory_argument, open_folder, password_file_option, told_plainly
from rota.cli.parameters import Address, json_option
from rota.doctor.accounts import FoundAccount, accounts_of
from rota.keys.files import move, write_new
from rota.keys.names import REGISTRAR
from rota.keys.secp256k1 import PrivateKey
from rota.keys.secret import Secret
from rota.keys.signers import MemorySigner
from rota.ledger.account import Account, AccountLimits
from rota.ledger.checking import CHEAPEST_ROUND_GAS, CHECK_ATTEMPTS_MAX, ExpectedContract, check_ledger
from rota.ledger.client import RpcClient
from rota.ledger.embedded.accounts import DEVELOPMENT_ACCOUNTS
from rota.ledger.embedded.settings import WEI_PER_ETHER
from rota.ledger.hexadecimal import read_quantity
from rota.ledger.registering import NetworkContracts, deploy_contracts, register
from rota.model.types import ContractAddress
from rota.ports import Signer
from rota.server.configuration import CHAIN, FILE_NAME, NodeConfiguration, with_setting

ETHER_MAX: Final = 1_000_000
DEVELOPMENT_ETHER: Final = 10.0
# For so many of the cheapest rounds an account of a contract is funded.
ROUNDS_FUNDED: Final = 1_000
DEVELOPMENT: Final = "development"


@dataclass(frozen=True, slots=True)
class Network:
    """The network's Registry, and the account that speaks for the node there."""

    account: Account
    registry: ContractAddress


@click.command()
@directory_argument
@password_file_option
@click.option("--save", is_flag=True, help="Write the addresses into the node's configuration.")
@json_option
def deploy(directory: Path, password_file: Path | None, save: bool, as_json: bool) -> None:
    """Deploy a Factory and a Registry for a new network, signed by a node's registrar.

    All nodes of the network then have the same two addresses in [ledger].

    \b
    Example:
      rota ledger deploy ./node1 --save

    Exit 0: deployed. 1: it could not be, or could not be saved. 2: wrong use.
    """
    folder = open_folder(directory, password_file, may_lack=("ledger.registry",))
    file = directory / FILE_NAME
    if save and folder.configuration.ledger.registry is not None:
        raise click.ClickException(f"{file}: ledger.registry is set already; leave --save out, or take it out first.")
    with told_plainly():
        made = asyncio.run(_deploy(folder))
    settings = _settings_of(made)
    if save:
        _save(file, settings)
    if as_json:
        click.echo(json.dumps({name.partition(".")[2]: value for name, value in settings.items()}))
        return
    click.echo("[ledger]" if not save else f"{file} now has:")
    for name, value in settings.items():
        click.echo(f"{name.partition('.')[2]} = {json.dumps(value)}")


async def _deploy(folder: NodeFolder) -> NetworkContracts:
    async with _account_of(folder.configuration, folder.keys.signer, REGISTRAR) as account:
        return await deploy_contracts(account)


def _settings_of(made: NetworkContracts) -> dict[str, str | int]:
    return {
        "ledger.factory": made.factory,
        "ledger.registry": made.registry,
        "ledger.registry_from_height": made.registry_from_height,
    }


def _save(file: Path, settings: dict[str, str | int]) -> None:
    """Write all settings or none. They are printed in any case, because the contracts exist."""
    text = file.read_text(encoding="utf-8")
    try:
        for path, value in settings.items():
            text = with_setting(text, path, value)
    except ValueError as error:
        told = ", ".join(f"{path} = {json.dumps(value)}" for path, value in settings.items())
        raise click.ClickException(f"{file}: {error}. These are deployed and have to be set: {told}") from error
    with told_plainly():
        beside = file.with_name(f".{file.name}.{token_hex(8)}.new")
        write_new(beside, Secret(text))
        move(beside, file)


@click.command("register")
@directory_argument
@password_file_option
@json_option
def register_node(directory: Path, password_file: Path | None, as_json: bool) -> None:
    """Have the network's Registry know a node: its name, where it listens, its certificate.

    Whatever the Registry has of it already is brought up to date. The node may run meanwhile.

    \b
    Example:
      rota ledger register ./node1

    Exit 0: the Registry has it. 1: it does not. 2: wrong use.
    """
    folder = open_folder(directory, password_file)
    endpoint = folder.configuration.transport.endpoint
    if folder.configuration.transport.registry != CHAIN:
        raise click.ClickException(f"{directory / FILE_NAME}: transport.registry is a file: put the node in there.")
    if endpoint is None:
        raise click.ClickException(
            f"{directory / FILE_NAME}: transport.endpoint is missing; set the address for other nodes."
        )
    with told_plainly():
        done = asyncio.run(_register(folder, endpoint))
    keys = folder.keys
    if as_json:
        fingerprint = keys.certificate.fingerprint.hex()
        click.echo(json.dumps({"node": keys.node, "endpoint": endpoint, "fingerprint": fingerprint, "done": done}))
        return
    how = ", ".join(done) if done else "was so already"
    click.echo(f"{keys.node} at {endpoint} with certificate {keys.certificate.fingerprint.hex()}: {how}.")


async def _register(folder: NodeFolder, endpoint: str) -> list[str]:
    async with opened_network(folder) as network:
        assert network is not None, "the Registry is that of the chain"
        fingerprint = folder.keys.certificate.fingerprint
        done = await register(network.account, network.registry, folder.keys.node, fingerprint, endpoint)
    return [each.value for each in done]


@click.command()
@directory_argument
@password_file_option
@click.option(
    "--ether",
    type=click.FloatRange(0, ETHER_MAX, min_open=True),
    help="For each address; with --contracts what each is to have.  [default: 10; with --contracts 1000 rounds]",
)
@click.option(
    "--account",
    "number",
    type=click.IntRange(0, len(DEVELOPMENT_ACCOUNTS) - 1),
    help="Which of the development accounts pays.  [default: 0; with --contracts the node's registrar pays]",
)
@click.option(
    "--contracts",
    "tops_up",
    is_flag=True,
    help="List the accounts of contracts that have one of their own, and top up those that have too little.",
)
@click.option("--dry-run", is_flag=True, help="With --contracts: pay nothing, and show what each account lacks.")
@click.option(
    "--to",
    "given",
    type=Address(),
    multiple=True,
    help="Pay this address instead, such as that of a party that sends public transactions. Several times for several.",
)
@json_option
def fund(
    directory: Path,
    password_file: Path | None,
    ether: float | None,
    number: int | None,
    tops_up: bool,
    dry_run: bool,
    given: tuple[ContractAddress, ...],
    as_json: bool,
) -> None:
    """Give funds to a node's submitter and registrar, to other addresses, or to the accounts of its contracts.

    On a development chain they come from an account whose key is public, as `rota ledger` and Anvil have them.

    With --contracts the node's registrar tops up the accounts of contracts that have one of their own. The chain shows
    the payer: accounts that one account funded belong together. To avoid that, use --dry-run
    and fund each account from a source of its own.

    \b
    Example:
      rota ledger fund ./node1 --ether 5
      rota ledger fund ./node1 --to 0x70997970c51812dc3a010c7d01b50e0d17dc79c8
      rota ledger fund ./node1 --contracts --dry-run

    Exit 0: paid. 1: it could not be. 2: wrong use.
    """
    if tops_up and given:
        raise click.UsageError("--contracts finds the addresses itself: leave out --to")
    if dry_run and not tops_up:
        raise click.UsageError("--dry-run is for --contracts")
    folder = open_folder(directory, password_file, may_lack=("ledger.registry",))
    if tops_up:
        _show_topped_up(folder, ether, number, dry_run, as_json)
        return
    paid = given or (folder.keys.submitter, folder.keys.registrar)
    amount = DEVELOPMENT_ETHER if ether is None else ether
    with told_plainly():
        asyncio.run(_fund(folder, paid, _wei(amount), number or 0))
    if as_json:
        click.echo(json.dumps({"paid": paid, "ether": amount}))
        return
    for address in paid:
        click.echo(f"{address} got {amount:g} ether.")


async def _fund(folder: NodeFolder, paid: tuple[ContractAddress, ...], wei: int, number: int) -> None:
    async with _payer(folder, number) as account:
        for address in paid:
            await account.transact(address, value_wei=wei)


@dataclass(frozen=True, slots=True)
class ToppedUp:
    """The account of a contract, what it lacks to what it is to have, and whether it got that."""

    found: FoundAccount
    lacks_wei: int
    is_paid: bool


def _show_topped_up(folder: NodeFolder, ether: float | None, number: int | None, dry_run: bool, as_json: bool) -> None:
    with told_plainly():
        done = asyncio.run(_top_up(folder, ether, number, dry_run))
    if as_json:
        shown = [
            {
                "contract": each.found.contract,
                "address": each.found.address,
                "balanceWei": str(each.found.balance_wei),
                "lacksWei": str(each.lacks_wei),
                "paid": each.is_paid,
            }
            for each in done
        ]
        click.echo(json.dumps({"accounts": shown}))
        return
    for each in done:
        got = f", got {each.lacks_wei / WEI_PER_ETHER:.9f}" if each.is_paid else ""
        lacks = f", lacks {each.lacks_wei / WEI_PER_ETHER:.9f}" if each.lacks_wei and not each.is_paid else ""
        had = f"{each.found.balance_wei / WEI_PER_ETHER:.9f} ether"
        click.echo(f"{each.found.address} of contract {each.found.contract}: has {had}{got}{lacks}")
    if not done:
        click.echo("No contract has an account of its own.")


async def _top_up(folder: NodeFolder, ether: float | None, number: int | None, dry_run: bool) -> list[ToppedUp]:
    """Each account gets what it lacks. The price of a round is that of now."""
    async with _payer(folder, number) as account:
        client = account.client
        wanted_wei = _wei(ether) if ether is not None else ROUNDS_FUNDED * CHEAPEST_ROUND_GAS * await _gas_price(client)
        done = []
        for found in await accounts_of(folder.configuration, folder.keys.signer, client):
            lacks_wei = max(0, wanted_wei - found.balance_wei)
            if lacks_wei and not dry_run:
                await account.transact(found.address, value_wei=lacks_wei)
            done.append(ToppedUp(found, lacks_wei, bool(lacks_wei) and not dry_run))
        return done


async def _gas_price(client: RpcClient) -> int:
    return read_quantity(await client.call("eth_gasPrice", attempts_max=CHECK_ATTEMPTS_MAX))


def _wei(ether: float) -> int:
    return int(Decimal(str(ether)) * WEI_PER_ETHER)


@asynccontextmanager
async def _payer(folder: NodeFolder, number: int | None) -> AsyncIterator[Account]:
    """One of the development accounts, or without a number the node's registrar."""
    if number is None:
        async with _account_of(folder.configuration, folder.keys.signer, REGISTRAR) as account:
            yield account
        return
    signer = MemorySigner({DEVELOPMENT: PrivateKey(DEVELOPMENT_ACCOUNTS[number].secret)})
    async with _account_of(folder.configuration, signer, DEVELOPMENT) as account:
        yield account


# What they share.


@asynccontextmanager
async def opened_network(folder: NodeFolder) -> AsyncIterator[Network | None]:
    """The Registry of a node's network; nothing when its nodes are in a file. A wrong setting is an error."""
    registry = folder.configuration.ledger.registry
    if folder.configuration.transport.registry != CHAIN:
        yield None
        return
    assert registry is not None, "a configuration without it is refused"
    expected = ExpectedContract("ledger.registry", "Registry", registry)
    async with _account_of(folder.configuration, folder.keys.signer, REGISTRAR, expected) as account:
        yield Network(account, registry)


@asynccontextmanager
async def _account_of(
    configuration: NodeConfiguration, signer: Signer, signer_name: str, *expected: ExpectedContract
) -> AsyncIterator[Account]:
    """An account on the configured chain, once that is known to be the right one."""
    ledger = configuration.ledger
    client = RpcClient(ledger.url, ledger.client)
    try:
        limits = AccountLimits(fee_max_wei=configuration.sequencer.fee_max_wei)
        account = Account(client, ledger.chain_id, signer, signer_name, limits)
        flaws = await check_ledger(client, chain_id=ledger.chain_id, account=account.address, contracts=expected)
        if fatal := [flaw.text for flaw in flaws if flaw.is_fatal]:
            raise click.ClickException("\n".join(fatal))
        yield account
    finally:
        await client.close()
