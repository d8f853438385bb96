"""`rota party`: the parties of a node."""

from __future__ import annotations

import click

from rota.cli.asking import NodeAt, asks_node, tell
from rota.cli.parameters import json_option
from rota.client import Client


@click.group()
def command() -> None:
    """Create parties of a node, so that others can pay them.

    \b
    Example:
      rota party create alice
    """


@command.command()
@click.argument("name", metavar="PARTY")
@asks_node
@json_option
def create(name: str, node: NodeAt, as_json: bool) -> None:
    """Create a party of the node, and print its name and its address.

    Every party has a key that follows from the node's wallet, whatever its name. From now on the node tells others that
    this party is in use, so that a payment to it is not taken for a slip of the pen. A party that has sent a
    transaction needs no creating; to create one twice changes nothing.

    \b
    Example:
      rota party create alice

    Exit 0: it is there. 1: it was refused, or the node could not be reached. 2: wrong use.
    """

    async def ask(client: Client) -> dict[str, str]:
        address = await client.create_party(name)
        party = name if "@" in name else f"{name}@{await client.name()}"
        return {"party": party, "address": address}

    found = node.ask(ask)
    tell(as_json, found, lambda: f"{found['party']}  {found['address']}")
