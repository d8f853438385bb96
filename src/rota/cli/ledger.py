"""`rota ledger`: the embedded chain alone, for wallets, explorers and other programmes to attach to.

Below it are the commands that put a network on a chain, whichever that is (`registering`).
"""

from __future__ import annotations

import asyncio
import json
import signal
from dataclasses import replace
from typing import Final

import click
from click.core import ParameterSource

from rota.cli.registering import deploy, fund, register_node
from rota.keys import secp256k1
from rota.ledger.embedded import ChainServer, EmbeddedChain, Settings
from rota.ledger.embedded.accounts import DEVELOPMENT_ACCOUNTS
from rota.ledger.embedded.settings import CHAIN_ID_DEFAULT, WEI_PER_ETHER

HOST_DEFAULT: Final = "127.0.0.1"
PORT_DEFAULT: Final = 8545
BLOCK_TIME_MS_MAX: Final = 24 * 3_600_000
CHAIN_ID_MAX: Final = 2**63 - 1
PORT_MAX: Final = 65_535


@click.group(name="ledger", invoke_without_command=True)
@click.option("--host", default=HOST_DEFAULT, show_default=True, help="The address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, PORT_MAX),
    default=PORT_DEFAULT,
    show_default=True,
    help="The port to listen on; 0 lets the system choose.",
)
@click.option(
    "--chain-id",
    type=click.IntRange(1, CHAIN_ID_MAX),
    default=CHAIN_ID_DEFAULT,
    show_default=True,
    help="The id of the chain, which wallets ask for.",
)
@click.option(
    "--block-time-ms",
    type=click.IntRange(1, BLOCK_TIME_MS_MAX),
    help="Make a block at this interval.  [default: none, a block as soon as transactions arrive]",
)
@click.option("--instant", is_flag=True, help="With --block-time-ms: a block as soon as transactions arrive, too.")
@click.option(
    "--accounts",
    type=click.IntRange(0, len(DEVELOPMENT_ACCOUNTS)),
    default=len(DEVELOPMENT_ACCOUNTS),
    show_default=True,
    help="How many accounts have ether to spend.",
)
@click.option("--free-gas", is_flag=True, help="Gas costs nothing, so that any account can send transactions.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, on one line, instead of a text.")
@click.pass_context
def command(
    context: click.Context,
    /,
    host: str,
    port: int,
    chain_id: int,
    block_time_ms: int | None,
    instant: bool,
    accounts: int,
    free_gas: bool,
    as_json: bool,
) -> None:
    """Run an Ethereum chain in this process, and serve its JSON-RPC until Ctrl-C.

    With a command, put a network on a chain instead: that of a node's configuration.

    HTTP and WebSocket are at one address. The chain lives in memory: when it stops, all is gone. Its accounts
    are those of every development chain, and their keys are public.

    \b
    Example:
      rota ledger
      rota ledger --port 0 --block-time-ms 1000 --json

    Exit 0: stopped by Ctrl-C or SIGTERM. 1: the address is not to be had. 2: wrong use.
    """
    if context.invoked_subcommand is not None:
        if any(context.get_parameter_source(name) is ParameterSource.COMMANDLINE for name in context.params):
            raise click.UsageError(f"Options of the chain are none of {context.invoked_subcommand}'s: leave them out.")
        return
    settings = Settings(
        chain_id=chain_id, account_count=accounts, block_time_ms=block_time_ms, instant=instant or block_time_ms is None
    )
    if free_gas:
        settings = replace(settings, base_fee_wei=0, base_fee_is_fixed=True, priority_fee_wei=0)
    asyncio.run(_serve(EmbeddedChain(settings, secp256k1), host, port, as_json))


for each in (deploy, register_node, fund):
    command.add_command(each)


async def _serve(chain: EmbeddedChain, host: str, port: int, as_json: bool) -> None:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    server = ChainServer(chain)
    try:
        await server.start(host, port)
    except OSError as error:
        raise click.ClickException(
            f"Cannot listen on {host} port {port}: {error.strerror or error}. Choose another with --host and --port."
        ) from error
    _print(chain, server, as_json)
    try:
        await stopped.wait()
    finally:
        await server.stop()


def _print(chain: EmbeddedChain, server: ChainServer, as_json: bool) -> None:
    settings = chain.settings
    if as_json:
        description = {
            "url": server.url,
            "chain_id": settings.chain_id,
            "instant": settings.instant,
            "block_time_ms": settings.block_time_ms,
            "accounts": [
                {"address": "0x" + each.address.hex(), "private_key": "0x" + each.secret.hex()}
                for each in chain.accounts
            ],
        }
        click.echo(json.dumps(description))
        return
    click.echo(f"Chain {settings.chain_id} listens on {server.url} (HTTP and WebSocket).")
    ways = ["as soon as transactions arrive"] if settings.instant else []
    ways += [] if settings.block_time_ms is None else [f"every {settings.block_time_ms} ms"]
    click.echo(f"Blocks come {' and '.join(ways)}.")
    if chain.accounts:
        ether = settings.account_balance_wei // WEI_PER_ETHER
        click.echo(f"\nAccounts, each with {ether:,} ether, and their keys, which are public:")
    for account in chain.accounts:
        click.echo(f"  0x{account.address.hex()}  0x{account.secret.hex()}")
    click.echo("\nCtrl-C stops it, and all is gone.")
