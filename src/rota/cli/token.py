"""`rota token`: private tokens with a notary, from their deployment to their locks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import click
import msgspec

from rota.cli.asking import NodeAt, NotDone, asks_node, tell
from rota.cli.command import done, end_with
from rota.cli.parameters import AMOUNT, Address, HexText, Share, json_option
from rota.cli.sending import Sending, makes, pays, sends, waiting
from rota.client import Balance, BalanceUnknown, Client, Journal, Transaction, Verdict
from rota.client.tokens import EXACT
from rota.model.types import ContractAddress

ASKER: Final = "operator"
APPLICATION: Final = "rota"
NO_DATA: Final = "0x"

token_argument = click.argument("token", type=Address())
amount_argument = click.argument("amount", type=AMOUNT)
lock_argument = click.argument("lock", type=HexText())
to_argument = click.argument("to", metavar="PARTY")
data_option = click.option(
    "--data", type=HexText(), default=NO_DATA, help="A note in hex, for all who pay or get something to see."
)
owner_option = click.option("--owner", required=True, metavar="PARTY", help="Whose coins are in the lock.")
shares_option = click.option(
    "--share",
    "shares",
    type=Share(),
    multiple=True,
    required=True,
    metavar="PARTY=AMOUNT",
    help="A payee and its amount; once for each.",
)
asker_option = click.option(
    "--from", "asker", default=ASKER, show_default=True, metavar="PARTY", help="On whose behalf it is asked."
)


@click.group()
def command() -> None:
    """Issue private tokens, pay with them, and lock them.

    A token has a notary, whose node endorses every payment and knows every balance; the others see their own
    payments alone. An amount is a whole number of the token's smallest units; with a point it is a number of tokens:
    with 4 decimals 1.5 is 15000.

    \b
    Example:
      rota token deploy --from bank --name "Coin" --symbol C --notary bank@node1
    """


@command.command()
@click.option("--name", required=True, help="What it is called.")
@click.option("--symbol", required=True, help="Its short name.")
@click.option("--notary", required=True, metavar="PARTY", help="The endorser of every payment, such as bank@node1.")
@click.option("--anybody-mints", is_flag=True, help="Not the notary alone may make new coins.")
@click.option("--no-burn", is_flag=True, help="Holders cannot destroy their coins.")
@click.option("--no-lock", is_flag=True, help="Holders cannot lock their coins.")
@click.option("--private-locks", is_flag=True, help="Locks are private states, which settlements can use.")
@makes
def deploy(
    sending: Sending,
    name: str,
    symbol: str,
    notary: str,
    anybody_mints: bool,
    no_burn: bool,
    no_lock: bool,
    private_locks: bool,
) -> None:
    """Deploy a new token, and print its address when it can be used.

    \b
    Example:
      rota token deploy --from bank --name "Coin" --symbol C --notary bank@node1

    Exit 0: it is there. 1: it was refused, or failed. 2: wrong use. 3: it is not known; run it again with the same
    --key, and it is not deployed twice.
    """
    token = sending.make(
        lambda client: client.tokens.deploy(
            name=name,
            symbol=symbol,
            notary=notary,
            restrict_mint=not anybody_mints,
            allow_burn=not no_burn,
            allow_lock=not no_lock,
            public_locks=not private_locks,
            key=sending.key,
        ),
        f"the token {name}",
    )
    tell(sending.as_json, {"address": token.address}, lambda: token.address)


@command.command()
@token_argument
@asker_option
@asks_node
@json_option
def show(token: ContractAddress, asker: str, node: NodeAt, as_json: bool) -> None:
    """Show what a token is called.

    \b
    Example:
      rota token show 0x5fbdb2315678afecb367f032d93f642f64180aa3

    Exit 0: shown. 1: the node does not have it, or could not be reached. 2: wrong use.
    """

    async def ask(client: Client) -> dict[str, object]:
        found = client.tokens.at(token)
        return {
            "address": token,
            "name": await found.name(),
            "symbol": await found.symbol(),
            "decimals": await found.decimals(),
        }

    found = node.ask(ask, sender=asker)
    tell(as_json, found, lambda: "\n".join(f"{name.capitalize():<9} {value}" for name, value in found.items()))


@command.command()
@token_argument
@click.argument("account", metavar="PARTY")
@asker_option
@asks_node
@json_option
def balance(token: ContractAddress, account: str, asker: str, node: NodeAt, as_json: bool) -> None:
    """Print what a party has, in the token's smallest units.

    The notary's node knows every balance, a holder's node its own. Other balances a node does not know; it prints which
    nodes do.

    \b
    Example:
      rota token balance 0x5fbdb2315678afecb367f032d93f642f64180aa3 alice@node1

    Exit 0: printed. 1: the node does not know it, does not have the token, or could not be reached. 2: wrong use.
    """

    async def ask(client: Client) -> tuple[Balance, int]:
        there = client.tokens.at(token)
        return await there.balance_of(account), await there.decimals()

    try:
        found, decimals = node.ask(ask, sender=asker)
    except BalanceUnknown as unknown:
        if as_json:
            click.echo(json.dumps({"account": account, "unknown": True, "knownBy": list(unknown.known_by)}))
        raise NotDone(f"unknown: {unknown}") from None
    more = " or more: not all coins were counted" if found.overflow else ""
    counted = msgspec.to_builtins(found)
    told = {"account": account, **{name: counted[name] for name in ("totalBalance", "totalStates", "overflow")}}
    told["decimals"] = decimals
    shown = f" ({shown_units(found.total_balance, decimals)} with {decimals} decimals)" if decimals else ""
    tell(as_json, told, lambda: f"{found.total_balance}{shown}{more}")


def shown_units(units: int, decimals: int) -> str:
    """An amount as a number of tokens."""
    return f"{Decimal(units).scaleb(-decimals, EXACT):f}"


async def _units(client: Client, token: ContractAddress, amount: str) -> int:
    if "." not in amount:
        return int(amount)
    try:
        return await client.tokens.at(token).units(amount, sender=client.sender)
    except ValueError as flaw:
        raise click.UsageError(str(flaw)) from None


async def _divided(client: Client, token: ContractAddress, shares: tuple[tuple[str, str], ...]) -> dict[str, int]:
    return {party: await _units(client, token, amount) for party, amount in shares}


# Paying.


@command.command()
@token_argument
@to_argument
@amount_argument
@data_option
@pays
def mint(sending: Sending, token: ContractAddress, to: str, amount: str, data: str) -> None:
    """Mint coins for a party; most often the notary alone may.

    \b
    Example:
      rota token mint 0x5fbdb2315678afecb367f032d93f642f64180aa3 alice@node1 100 --from bank

    Exit 0: confirmed, or with --no-wait accepted. 1: it did not happen. 2: wrong use. 3: it is not known.
    """

    async def sent(client: Client) -> Transaction:
        units = await _units(client, token, amount)
        return await client.tokens.at(token).mint(to, units, data=data, key=sending.key)

    sending.send(sent)


@command.command()
@token_argument
@to_argument
@amount_argument
@click.option("--owner", metavar="PARTY", help="Pay with this party's coins; for the notary.")
@click.option(
    "--exactly-once",
    "command_id",
    metavar="ID",
    help="Pay once under this command id, however often and wherever this is run, as far back as the node remembers.",
)
@data_option
@pays
def transfer(
    sending: Sending, token: ContractAddress, to: str, amount: str, owner: str | None, command_id: str | None, data: str
) -> None:
    """Pay a party with the sender's coins.

    With --exactly-once the payment is a command: run again under the same id, at the same node, it says that it was
    done before, at which offset and when, and pays nothing. The same id for another payment is an error.

    \b
    Example:
      rota token transfer 0x5fbdb2315678afecb367f032d93f642f64180aa3 bob@node2 30 --from alice

    Exit 0: confirmed, or with --no-wait accepted. 1: it did not happen. 2: wrong use. 3: it is not known.
    """
    if command_id is not None:
        _pay_once(sending, token, to, amount, owner, command_id, data)
        return

    async def sent(client: Client) -> Transaction:
        units = await _units(client, token, amount)
        if owner is None:
            return await client.tokens.at(token).transfer(to, units, data=data, key=sending.key)
        return await client.tokens.at(token).transfer_from(owner, to, units, data=data, key=sending.key)

    sending.send(sent)


def _pay_once(
    sending: Sending, token: ContractAddress, to: str, amount: str, owner: str | None, command_id: str, data: str
) -> None:
    """A transfer as a command. The node remembers it, so that no journal has to outlive this process."""
    if sending.key or not sending.waits:
        raise click.UsageError("--exactly-once takes neither --key nor --no-wait: the command id is its key.")

    async def run(client: Client) -> Verdict:
        units = await _units(client, token, amount)
        arguments = {"to": to, "amount": str(units), "data": data}
        transaction = {
            "type": "private",
            "from": sending.sender,
            "to": token,
            "function": "transfer" if owner is None else "transferFrom",
            "data": arguments if owner is None else {"from": owner, **arguments},
        }
        with TemporaryDirectory(prefix="rota-") as folder, Journal(Path(folder) / "journal") as journal:
            commands = client.commands(
                journal,
                # Where the node knows its caller by credentials, these name the application.
                application_id="" if sending.node.headers else APPLICATION,
                act_as=(sending.sender,),
            )
            return await commands.exactly_once(command_id, transaction, command_id=command_id)

    with waiting(f"Waiting for {command_id}", sending.as_json):
        verdict: Verdict = done(sending.ask, run)
    end_with(verdict, sending.as_json)


@command.command()
@token_argument
@amount_argument
@click.option("--owner", metavar="PARTY", help="Destroy this party's coins; for the notary.")
@data_option
@sends
def burn(sending: Sending, token: ContractAddress, amount: str, owner: str | None, data: str) -> None:
    """Destroy coins of the sender.

    \b
    Example:
      rota token burn 0x5fbdb2315678afecb367f032d93f642f64180aa3 10 --from alice

    Exit 0: confirmed, or with --no-wait accepted. 1: it did not happen. 2: wrong use. 3: it is not known.
    """

    async def sent(client: Client) -> Transaction:
        units = await _units(client, token, amount)
        if owner is None:
            return await client.tokens.at(token).burn(units, data=data, key=sending.key)
        return await client.tokens.at(token).burn_from(owner, units, data=data, key=sending.key)

    sending.send(sent)


# Locks.


@command.command()
@token_argument
@amount_argument
@data_option
@sends
def lock(sending: Sending, token: ContractAddress, amount: str, data: str) -> None:
    """Lock coins of the sender, and print the id of the lock.

    Locked coins are paid out with `unlock`, or with `prepare-unlock` and then `spend-lock`, or given back with
    `cancel-lock`.

    \b
    Example:
      rota token lock 0x5fbdb2315678afecb367f032d93f642f64180aa3 20 --from alice

    Exit 0: confirmed, or with --no-wait accepted. 1: it did not happen. 2: wrong use. 3: it is not known.
    """

    async def made(client: Client, transaction_id: str) -> Mapping[str, str]:
        return {"lock": await client.tokens.at(token).lock_id(transaction_id)}

    async def sent(client: Client) -> Transaction:
        return await client.tokens.at(token).lock(await _units(client, token, amount), data=data, key=sending.key)

    sending.send(sent, made)


@command.command()
@token_argument
@lock_argument
@owner_option
@shares_option
@data_option
@pays
def unlock(
    sending: Sending, token: ContractAddress, lock: str, owner: str, shares: tuple[tuple[str, str], ...], data: str
) -> None:
    """Pay from a lock; the rest stays locked.

    \b
    Example:
      rota token unlock 0x5fbdb2315678afecb367f032d93f642f64180aa3 0x1234 --from alice \\
        --owner alice@node1 --share bob@node2=5

    Exit 0: confirmed, or with --no-wait accepted. 1: it did not happen. 2: wrong use. 3: it is not known.
    """

    async def sent(client: Client) -> Transaction:
        divided = await _divided(client, token, shares)
        return await client.tokens.at(token).unlock(lock, owner, divided, data=data, key=sending.key)

    sending.send(sent)


@command.command("prepare-unlock")
@token_argument
@lock_argument
@owner_option
@shares_option
@data_option
@pays
def prepare_unlock(
    sending: Sending, token: ContractAddress, lock: str, owner: str, shares: tuple[tuple[str, str], ...], data: str
) -> None:
    """Settle who gets what of a lock when it is spent.

    \b
    Example:
      rota token prepare-unlock 0x5fbdb2315678afecb367f032d93f642f64180aa3 0x1234 --from alice \\
        --owner alice@node1 --share bob@node2=20

    Exit 0: confirmed, or with --no-wait accepted. 1: it did not happen. 2: wrong use. 3: it is not known.
    """

    async def sent(client: Client) -> Transaction:
        divided = await _divided(client, token, shares)
        return await client.tokens.at(token).prepare_unlock(lock, owner, divided, data=data, key=sending.key)

    sending.send(sent)


@command.command("spend-lock")
@token_argument
@lock_argument
@data_option
@sends
def spend_lock(sending: Sending, token: ContractAddress, lock: str, data: str) -> None:
    """Carry out the `prepare-unlock` of a lock; its owner gets the rest.

    \b
    Example:
      rota token spend-lock 0x5fbdb2315678afecb367f032d93f642f64180aa3 0x1234 --from alice

    Exit 0: confirmed, or with --no-wait accepted. 1: it did not happen. 2: wrong use. 3: it is not known.
    """
    sending.send(lambda client: client.tokens.at(token).spend_lock(lock, data=data, key=sending.key))


@command.command("cancel-lock")
@token_argument
@lock_argument
@data_option
@sends
def cancel_lock(sending: Sending, token: ContractAddress, lock: str, data: str) -> None:
    """Give all of a lock back to its owner.

    \b
    Example:
      rota token cancel-lock 0x5fbdb2315678afecb367f032d93f642f64180aa3 0x1234 --from alice

    Exit 0: confirmed, or with --no-wait accepted. 1: it did not happen. 2: wrong use. 3: it is not known.
    """
    sending.send(lambda client: client.tokens.at(token).cancel_lock(lock, data=data, key=sending.key))


@command.command("delegate-lock")
@token_argument
@lock_argument
@click.argument("delegate", type=Address())
@data_option
@sends
def delegate_lock(sending: Sending, token: ContractAddress, lock: str, delegate: ContractAddress, data: str) -> None:
    """Let one address on the base ledger, and no party, end a lock.

    \b
    Example:
      rota token delegate-lock 0x5fbdb2315678afecb367f032d93f642f64180aa3 0x1234 \\
        0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266 --from alice

    Exit 0: confirmed, or with --no-wait accepted. 1: it did not happen. 2: wrong use. 3: it is not known.
    """
    sending.send(lambda client: client.tokens.at(token).delegate_lock(lock, delegate, data=data, key=sending.key))
