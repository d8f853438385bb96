"""`rota group`: privacy groups, the private contracts in them, and messages among their members."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import click
import msgspec
from rich.table import Table
from rich.text import Text

from rota.cli.asking import NodeAt, NotDone, asks_node, printable, tell
from rota.cli.parameters import Address, GroupName, HexText, Json, json_option
from rota.cli.sending import Sending, chooses_sequencing, makes, sends, sequencing_text, waiting, within_option
from rota.cli.tables import table_console
from rota.cli.timeline import time_of
from rota.client import Client, Group, Transaction
from rota.client.groups import ADDRESS_CHARACTERS
from rota.model.types import ContractAddress

LIST_DEFAULT: Final = 100
LIST_MAX: Final = 1_000

group_argument = click.argument("group", type=GroupName())
contract_argument = click.argument("contract", type=Address())
function_argument = click.argument("function")
input_option = click.option(
    "--data", "arguments", type=Json(), default="[]", metavar="JSON", help="Arguments, a list or an object; @FILE."
)
abi_option = click.option(
    "--abi", type=Json(), required=True, metavar="JSON", help="The contract's ABI, or what a compiler wrote; @FILE."
)
limit_option = click.option(
    "--limit", type=click.IntRange(1, LIST_MAX), default=LIST_DEFAULT, show_default=True, help="How many at most."
)


@click.group()
def command() -> None:
    """Create privacy groups, and use private contracts in them.

    The members of a group run contracts for the EVM among themselves: no other node sees these, their calls or states.

    \b
    Example:
      rota group create --member alice@node1 --member bob@node2 --name desk
    """


# Groups.


@command.command()
@click.option(
    "--member", "members", multiple=True, required=True, metavar="PARTY", help="Such as alice@node1; once for each."
)
@click.option("--name", default="", help="What the members call it.")
@click.option("--configuration", type=Json(), default="{}", metavar="JSON", help="See docs/privacy-groups.md; @FILE.")
@click.option(
    "--forbid-prepared",
    is_flag=True,
    help="Endorsers sign no transaction that waits for its committer; the group takes part in no settlement.",
)
@click.option("--property", "properties", multiple=True, metavar="NAME=VALUE", help="A note that members see.")
@click.option("--key", default="", help="An idempotency key: asked for again under it, the group is made once.")
@chooses_sequencing
@within_option
@asks_node
@json_option
def create(
    members: tuple[str, ...],
    name: str,
    configuration: object,
    forbid_prepared: bool,
    properties: tuple[str, ...],
    key: str,
    sequencing: Mapping[str, object],
    within_s: float,
    node: NodeAt,
    as_json: bool,
) -> None:
    """Create a group, and print its id when its members' nodes have it.

    \b
    Example:
      rota group create --member alice@node1 --member bob@node2 --name desk
      rota group create --member alice@node1 --member bob@node2 --rotation strict --range-size 20

    Exit 0: it is there. 1: it was refused, or failed. 2: wrong use. 3: it is not known; run it again with the same
    --key, and it is not created twice.
    """
    if not isinstance(configuration, dict):
        raise click.BadParameter("must be a JSON object", param_hint="--configuration")
    if forbid_prepared:
        configuration = {**configuration, "preparedTransactionsEnabled": False}
    noted = {}
    for each in properties:
        note, equals, value = each.partition("=")
        if not note or not equals:
            raise click.BadParameter(f"must be NAME=VALUE, not {each!r}", param_hint="--property")
        noted[note] = value
    sending = Sending(node, "", key, within_s, as_json)
    group = sending.make(
        lambda client: client.groups.create(
            members=members, name=name, configuration=configuration, properties=noted, key=key, sequencing=sequencing
        ),
        f"the group {name}".strip(),
    )
    tell(as_json, msgspec.to_builtins(group.record), lambda: group.id)


@command.command()
@group_argument
@asks_node
@json_option
def show(group: str, node: NodeAt, as_json: bool) -> None:
    """Show a group, by its id or by the address of its contract.

    \b
    Example:
      rota group show 0x5fbdb2315678afecb367f032d93f642f64180aa3

    Exit 0: shown. 1: the node does not have it, or could not be reached. 2: wrong use.
    """
    found = node.ask(lambda client: _found(client, group)).record
    told = {
        "Group": found.id,
        "Name": found.name,
        "Members": ", ".join(found.members),
        "Contract": found.contract_address or "is not there yet",
        "Created": found.created,
        "Sequencing": sequencing_text(msgspec.to_builtins(found.sequencing)) if found.sequencing is not None else "",
        **{f"  {name}": value for name, value in found.configuration.items()},
    }
    lines = [f"{name:<12} {value}" for name, value in told.items() if value]
    tell(as_json, msgspec.to_builtins(found), lambda: "\n".join(lines))


async def _found(client: Client, group: str) -> Group:
    found = await client.groups.get(group)
    if found is None:
        raise NotDone(f"{client.url} has no group {group}")
    return found


@command.command(name="list")
@click.option("--name", default="", help="Only those of this name.")
@click.option("--member", default="", metavar="PARTY", help="Only those with this member.")
@limit_option
@asks_node
@json_option
def list_(name: str, member: str, limit: int, node: NodeAt, as_json: bool) -> None:
    """List the groups of a node.

    \b
    Example:
      rota group list --member alice@node1

    Exit 0: listed. 1: the node did not tell, or could not be reached. 2: wrong use.
    """
    found = [each.record for each in node.ask(lambda client: client.groups.find(name=name, member=member, limit=limit))]
    if as_json:
        click.echo(json.dumps(msgspec.to_builtins(found)))
        return
    if not found:
        click.echo("There is none.")
        return
    table = Table(box=None, pad_edge=False)
    table.add_column("name", overflow="fold")
    # An address is copied from here: it stays whole, and members go over several lines in a narrow terminal.
    table.add_column("contract", no_wrap=True, min_width=ADDRESS_CHARACTERS)
    table.add_column("rotation", no_wrap=True)
    table.add_column("members", overflow="fold")
    for each in found:
        terms = each.sequencing
        cells = (
            each.name or f"{each.id[:10]}…",
            each.contract_address or "not there yet",
            f"{terms.rotation}, {terms.range_size}" if terms is not None else "",
            ", ".join(each.members),
        )
        table.add_row(*map(Text, cells))
    table_console().print(table)


# Contracts in a group.


@command.command()
@group_argument
@abi_option
@click.option("--bytecode", type=HexText(), help="In hex; @FILE. Left out, that which --abi has with it.")
@input_option
@makes
def deploy(sending: Sending, group: str, abi: object, bytecode: str | None, arguments: object) -> None:
    """Deploy a private contract in a group, and print its address when it can be used.

    \b
    Example:
      rota group deploy 0x5fbdb2315678afecb367f032d93f642f64180aa3 --from alice --abi @Coin.json --data '["Coin", "C"]'

    Exit 0: it is there. 1: it was refused, or reverted. 2: wrong use. 3: it is not known.
    """
    entries, code = _abi_in(abi), bytecode or _bytecode_in(abi)
    given = _arguments(arguments)

    async def made(client: Client) -> str:
        found = await _found(client, group)
        return (await found.deploy(entries, code, given, key=sending.key)).address

    address = sending.make(made, "the contract")
    tell(sending.as_json, {"address": address}, lambda: address)


@command.command()
@group_argument
@contract_argument
@function_argument
@abi_option
@input_option
@sends
def send(
    sending: Sending, group: str, contract: ContractAddress, function: str, abi: object, arguments: object
) -> None:
    """Call a function of a private contract by a transaction.

    \b
    Example:
      rota group send 0x5fbdb2315678afecb367f032d93f642f64180aa3 0xe7f1725e7734ce288f8367e1bb143e90bb3f0512 \\
        transfer --from alice --abi @Coin.json --data '{"to": "0x...", "value": 5}'

    Exit 0: confirmed, or with --no-wait accepted. 1: it did not happen. 2: wrong use. 3: it is not known.
    """
    entries, given = _abi_in(abi), _arguments(arguments)

    async def sent(client: Client) -> Transaction:
        found = await _found(client, group)
        return await found.contract(contract, entries).send(function, given, key=sending.key)

    sending.send(sent)


@command.command()
@group_argument
@contract_argument
@function_argument
@abi_option
@input_option
@click.option("--from", "asker", required=True, metavar="PARTY", help="On whose behalf it is asked: a member.")
@asks_node
@json_option
def call(
    group: str,
    contract: ContractAddress,
    function: str,
    abi: object,
    arguments: object,
    asker: str,
    node: NodeAt,
    as_json: bool,
) -> None:
    """Ask a private contract, by what the node holds and without a transaction.

    \b
    Example:
      rota group call 0x5fbdb2315678afecb367f032d93f642f64180aa3 0xe7f1725e7734ce288f8367e1bb143e90bb3f0512 \\
        balanceOf --from alice --abi @Coin.json --data '["0x..."]'

    Exit 0: answered. 1: it reverts, the node does not have it, or could not be reached. 2: wrong use.
    """
    entries, given = _abi_in(abi), _arguments(arguments)

    async def ask(client: Client) -> object:
        return await (await _found(client, group)).contract(contract, entries).call(function, given)

    answer = node.ask(ask, sender=asker)
    tell(as_json, answer, lambda: "\n".join(_outputs(answer)))


def _outputs(answer: object) -> list[str]:
    if not isinstance(answer, dict):
        return [json.dumps(answer)]
    texts = {name: value if isinstance(value, str) else json.dumps(value) for name, value in answer.items()}
    # An output without a name has its place for one; alone it needs none.
    return list(texts.values()) if list(texts) == ["0"] else [f"{name} = {text}" for name, text in texts.items()]


def _abi_in(given: object) -> list[dict[str, Any]]:
    """The ABI itself, or what compilers write around it."""
    entries = given.get("abi") if isinstance(given, dict) else given
    if not isinstance(entries, list) or not all(isinstance(each, dict) for each in entries):
        raise click.BadParameter("must be a list of ABI entries, or an object with one as `abi`", param_hint="--abi")
    return entries


def _bytecode_in(given: object) -> str:
    code = given.get("bytecode") if isinstance(given, dict) else None
    code = code.get("object") if isinstance(code, dict) else code
    if not isinstance(code, str):
        raise click.UsageError("Give --bytecode: what --abi names has none with it.")
    return HexText().convert(code, None, None)


def _arguments(given: object) -> Sequence[object] | dict[str, object]:
    if not isinstance(given, list | dict):
        raise click.BadParameter("must be a JSON list or object", param_hint="--data")
    return given


# Messages.


@command.command()
@group_argument
@click.argument("data", type=Json())
@click.option("--topic", required=True, help="What it is about.")
@click.option("--correlation-id", type=click.UUID, help="The message that it answers.")
@asks_node
@json_option
def message(group: str, data: object, topic: str, correlation_id: object, node: NodeAt, as_json: bool) -> None:
    """Tell the nodes of all members something; it is no transaction, and nothing of it is on the chain.

    DATA is JSON, or @ and the name of a file with it. It is sent once: when no answer comes it may have been.

    \b
    Example:
      rota group message 0x5fbdb2315678afecb367f032d93f642f64180aa3 '{"hello": "bob"}' --topic greetings

    Exit 0: the node will not forget it; its id is printed. 1: it was refused, or no answer came. 2: wrong use.
    """

    async def say(client: Client) -> str:
        found = await _found(client, group)
        return await found.send_message(topic, data, correlation_id=str(correlation_id or ""))

    with waiting("Sending", as_json):
        sent = node.ask(say)
    tell(as_json, {"id": sent}, lambda: sent)


@command.command()
@group_argument
@click.option("--topic", default="", help="Only those of this topic.")
@click.option("--after", type=click.IntRange(0), help="Only those behind this number, the first column.")
@limit_option
@asks_node
@json_option
def messages(group: str, topic: str, after: int | None, limit: int, node: NodeAt, as_json: bool) -> None:
    """List the messages of a group that a node has, in its own order.

    \b
    Example:
      rota group messages 0x5fbdb2315678afecb367f032d93f642f64180aa3 --topic greetings

    Exit 0: listed. 1: the node does not have the group, or could not be reached. 2: wrong use.
    """

    async def ask(client: Client) -> list[dict[str, Any]]:
        found = await (await _found(client, group)).messages(topic=topic, after=after, limit=limit)
        return [msgspec.to_builtins(each) for each in found]

    found = node.ask(ask)
    if as_json:
        click.echo(json.dumps(found))
        return
    for each in found:
        at = f"{time_of(each['sent']):%m-%d %H:%M:%S}"
        topic = printable(each["topic"])
        click.echo(f"{each['localSequence']:>6}  {at}  {each['node']}  {topic}  {json.dumps(each['data'])}")
    if not found:
        click.echo("There is none.")
