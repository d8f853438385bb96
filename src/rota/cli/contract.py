"""`rota contract`: a new contract brought to the nodes that are to have it, and to one that comes later."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import click

from rota.cli.asking import NodeAt, asks_node, shows_token, tell, trusts_ca
from rota.cli.parameters import Address, Json, NodeUrl, json_option
from rota.client import Client, ClientError
from rota.domains.base import Rejected
from rota.host import ContractDefaults
from rota.keys.files import KeyFileError, read_private
from rota.keys.secp256k1 import PrivateKey
from rota.keys.signers import MemorySigner
from rota.ledger.account import Account, TransactionRejected
from rota.ledger.client import RpcClient, RpcRefused
from rota.ledger.hexadecimal import read_quantity
from rota.localnet.creating import CreatedContract, NodesMissing, create_contract, genesis_for, hand_out, named
from rota.model.genesis import MalformedGenesis, decode_genesis
from rota.model.types import RANGE_SIZE_MAX, ContractAddress, IntentId, NodeName, Party, Rotation, intent_text
from rota.ports import Unavailable

CHAIN_ATTEMPTS_MAX: Final = 3
PAYER: Final = "payer"
HEX_DIGITS: Final = 64

node_option = click.option(
    "--node",
    "urls",
    type=NodeUrl(),
    multiple=True,
    required=True,
    metavar="URL",
    help="The JSON-RPC of a node; once for each.",
)


@click.group()
def command() -> None:
    """Create private contracts, and bring them to nodes.

    For operators: users deploy with `rota token deploy`, `rota group create` or `rota tx send`, and the nodes learn of
    it by themselves.

    \b
    Example:
      rota contract add --deployment 01234567-89ab-cdef-0123-456789abcdef --genesis 0x1234 --node http://127.0.0.1:31648
    """


@command.command()
@click.argument("contract", type=Address(), required=False)
@click.argument("choice", type=click.Choice(["own", "shared", "default"]), required=False)
@asks_node
@json_option
def account(contract: ContractAddress | None, choice: str | None, node: NodeAt, as_json: bool) -> None:
    """Show the accounts that pay for rounds, or choose which one pays for a contract.

    A chain shows who pays: an account of its own keeps the traffic of a contract apart from that of others. The next
    rounds have the account that is chosen; rounds on their way keep theirs. "default" follows ledger.accounts.

    \b
    Example:
      rota contract account
      rota contract account 0xc0ffeec0ffeec0ffeec0ffeec0ffeec0ffeec0ff own

    Exit 0: shown, or chosen. 1: the node refuses it, or could not be reached. 2: wrong use.
    """
    if contract is not None and choice is not None:
        node.ask(lambda client: client.ask("seq_chooseAccount", contract, choice))
    found = [each for each in node.ask(_accounts) if contract is None or each.get("contract") == contract]
    tell(as_json, found, lambda: "\n".join(map(_described_account, found)) or "It has no account of its own.")


async def _accounts(client: Client) -> list[dict[str, Any]]:
    found = await client.ask("seq_accounts", is_repeatable=True)
    assert isinstance(found, list), "the method answers a list"
    return found


@command.command()
@asks_node
@json_option
def quarantined(node: NodeAt, as_json: bool) -> None:
    """List the contracts that the node has quarantined.

    The database rejected their records, and the node ended. It loads them again when they are released.

    \b
    Example:
      rota contract quarantined

    Exit 0: listed. 1: the node refuses it, or could not be reached. 2: wrong use.
    """
    found = node.ask(_quarantined)
    tell(as_json, found, lambda: "\n".join(map(_described_quarantined, found)) or "No contract is quarantined.")


async def _quarantined(client: Client) -> list[dict[str, Any]]:
    found = await client.ask("seq_quarantinedContracts", is_repeatable=True)
    assert isinstance(found, list), "the method answers a list"
    return found


def _described_quarantined(contract: Mapping[str, Any]) -> str:
    return f"{contract['contract']}  since {contract['quarantinedAt']}: {contract['reason']}"


@command.command()
@click.argument("contract", type=Address())
@asks_node
@json_option
def release(contract: ContractAddress, node: NodeAt, as_json: bool) -> None:
    """Release a contract that the node has quarantined; restart the node to load it.

    \b
    Example:
      rota contract release 0xc0ffeec0ffeec0ffeec0ffeec0ffeec0ffeec0ff

    Exit 0: released. 1: it was not quarantined, or the node could not be reached. 2: wrong use.
    """
    if not node.ask(lambda client: client.ask("seq_releaseContract", contract)):
        raise click.ClickException(f"{contract} is not quarantined. rota contract quarantined lists those that are.")
    tell(as_json, {"contract": contract, "released": True}, lambda: "Released. Restart the node to load it.")


def _described_account(account: Mapping[str, Any]) -> str:
    whose = f"contract {account['contract']}" if "contract" in account else "the submitter"
    lasts = f"for about {account['rounds']:,} rounds" if "rounds" in account else "gas is free"
    standing = "" if account["paying"] else ", pays for no more"
    short = ", CANNOT PAY" if account["short"] else ""
    return f"{account['address']}  {whose}: {account['balanceWei']} wei, {lasts}{standing}{short}"


@command.command()
@click.option("--domain", required=True, help="What kind of contract: noto, pente, zeto, or another that is installed.")
@click.option("--constructor", type=Json(), required=True, metavar="JSON", help="Its arguments; @FILE reads a file.")
@node_option
@click.option("--ledger", "ledger_url", required=True, metavar="URL", help="The JSON-RPC of an Ethereum node.")
@click.option("--factory", type=Address(), required=True, help="The network's Factory.")
@click.option(
    "--key-file",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    help="A file of mode 600 with the private key, in hex, of the account that pays for the deployment.",
)
@click.option("--from", "sender", help="The creator, such as alice@node1.  [default: operator at the first node]")
@click.option(
    "--rotation",
    type=click.Choice([each.value for each in Rotation]),
    default=Rotation.STICKY.value,
    show_default=True,
    help="Whether a coordinator stays until it fails, or leaves with its range of blocks.",
)
@click.option(
    "--range-size",
    type=click.IntRange(1, RANGE_SIZE_MAX),
    default=100,
    show_default=True,
    help="Of a range, in blocks.",
)
@shows_token
@trusts_ca
@json_option
def create(
    domain: str,
    constructor: object,
    urls: tuple[str, ...],
    ledger_url: str,
    factory: ContractAddress,
    key_file: Path,
    sender: str | None,
    rotation: str,
    range_size: int,
    headers: Mapping[str, str],
    tls: ssl.SSLContext | None,
    as_json: bool,
) -> None:
    """Deploy a contract, and have every node take it in.

    Each endorser's node is asked for the address with which it signs in this contract alone. The contract is then
    deployed through the Factory, and each node holds what it is given against the chain.

    \b
    Example:
      rota contract create --domain noto --constructor '{"notary": "bank@node1"}' \\
        --node http://127.0.0.1:31548 --node http://127.0.0.1:32548 \\
        --ledger http://127.0.0.1:8545 --factory 0x5fbdb2315678afecb367f032d93f642f64180aa3 --key-file payer.key

    Exit 0: every node has it. 1: it was not deployed, or not every node has it. 2: wrong use.
    """

    async def run() -> CreatedContract:
        async with _nodes(urls, headers, tls) as nodes, _paying(ledger_url, key_file) as (account, chain_id):
            party = Party(sender or f"operator@{next(iter(nodes))}")
            defaults = ContractDefaults(chain_id, Rotation(rotation), range_size)
            genesis = genesis_for(domain, constructor, party, defaults, factory)
            return await create_contract(genesis, nodes, factory, account)

    with _told_plainly():
        created = asyncio.run(run())
    _print(created, as_json)


@command.command()
@click.option("--deployment", type=click.UUID, required=True, help="The id under which it was deployed.")
@click.option("--genesis", required=True, metavar="HEX", help="Its genesis, as `rota contract create` printed it.")
@node_option
@shows_token
@trusts_ca
@json_option
def add(
    deployment: UUID,
    genesis: str,
    urls: tuple[str, ...],
    headers: Mapping[str, str],
    tls: ssl.SSLContext | None,
    as_json: bool,
) -> None:
    """Have nodes take in a contract that is on the chain already.

    \b
    Example:
      rota contract add --deployment 01234567-89ab-cdef-0123-456789abcdef --genesis 0x1234 --node http://127.0.0.1:31648

    Exit 0: every node has it. 1: not every node has it. 2: wrong use.
    """
    try:
        encoded = bytes.fromhex(genesis.removeprefix("0x"))
        opened = decode_genesis(encoded)
    except (ValueError, MalformedGenesis) as error:
        raise click.BadParameter(str(error), param_hint="--genesis") from error

    async def run() -> CreatedContract:
        async with _nodes(urls, headers, tls) as nodes:
            return await hand_out(opened, encoded, IntentId(deployment.bytes), nodes)

    with _told_plainly():
        created = asyncio.run(run())
    _print(created, as_json)


# What they share.


@contextmanager
def _told_plainly() -> Iterator[None]:
    try:
        yield
    except Rejected as flaw:
        raise click.ClickException(
            f"--constructor: {flaw.field}: {flaw.message}" if flaw.field else flaw.message
        ) from flaw
    except NodesMissing as flaw:
        raise click.ClickException(f"{flaw}: give its URL with --node.") from flaw
    except (ClientError, TransactionRejected, Unavailable, KeyFileError) as error:
        raise click.ClickException(str(error)) from error


@asynccontextmanager
async def _nodes(
    urls: tuple[str, ...], headers: Mapping[str, str], tls: ssl.SSLContext | None
) -> AsyncIterator[dict[NodeName, Client]]:
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(Client(url, headers=headers, tls=tls)) for url in urls]
        yield await named(tuple(clients))


@asynccontextmanager
async def _paying(url: str, key_file: Path) -> AsyncIterator[tuple[Account, int]]:
    """The account that pays, and the chain that it is on."""
    try:
        client = RpcClient(url)
    except ValueError as error:
        raise click.BadParameter(f"must be an http or ws address, not {url!r}", param_hint="--ledger") from error
    try:
        chain_id = read_quantity(await client.call("eth_chainId", attempts_max=CHAIN_ATTEMPTS_MAX))
        yield Account(client, chain_id, MemorySigner({PAYER: key_in(key_file)}), PAYER), chain_id
    except RpcRefused as error:
        raise click.ClickException(f"{url}: {error}") from error
    finally:
        await client.close()


def key_in(file: Path) -> PrivateKey:
    """The private key in a file of mode 600; `KeyFileError` when the file is not as it should be."""
    text = read_private(file).reveal().decode(errors="replace").strip().removeprefix("0x")
    try:
        if len(text) != HEX_DIGITS:
            raise ValueError
        return PrivateKey(bytes.fromhex(text))
    except ValueError:
        # Neither the text nor the cause is shown: it may be a key all the same.
        raise click.ClickException(f"{file}: must hold a private key as {HEX_DIGITS} hex digits") from None


def _print(created: CreatedContract, as_json: bool) -> None:
    deployment = intent_text(created.deployment)
    if as_json:
        click.echo(
            json.dumps(
                {
                    "contract": created.address,
                    "domain": created.genesis.domain,
                    "deployment": deployment,
                    "genesis": f"0x{created.encoded.hex()}",
                    "nodes": list(created.taken_in),
                    "missing": dict(created.untaken),
                }
            )
        )
    else:
        click.echo(f"Contract    {created.address}")
        click.echo(f"Domain      {created.genesis.domain}")
        click.echo(f"Deployment  {deployment}")
        click.echo(f"Taken in    by {', '.join(created.taken_in)}")
        click.echo(f"Genesis     0x{created.encoded.hex()}")
    for node, reason in created.untaken.items():
        click.echo(f"Error: {node} does not have it: {reason}. `rota contract add` brings it there later.", err=True)
    if created.untaken:
        click.get_current_context().exit(1)
