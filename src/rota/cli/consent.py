"""`rota consent`: contracts that name a node as endorser or coordinator, and its operator's decision about each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

import click

from rota.cli.asking import NodeAt, NotDone, asks_node, tell
from rota.cli.parameters import json_option
from rota.cli.sending import sequencing_text
from rota.client import Client

id_argument = click.argument("deployment", type=click.UUID, metavar="DEPLOYMENT")
from_option = click.option(
    "--from", "proposer", metavar="NODE", help="The node that proposed it; needed when several did under this id."
)


@click.group()
def command() -> None:
    """Decide in which contracts of others a node takes part.

    A contract that names a node as endorser or coordinator makes it sign, work and pay. Where `consent.proposals` is
    "ask", the default, the node takes part only when its operator agrees. It does not ask about contracts in which the
    node's parties only hold or receive something.

    \b
    Example:
      rota consent list
      rota consent accept 01234567-89ab-cdef-0123-456789abcdef
      rota consent refuse 01234567-89ab-cdef-0123-456789abcdef --reason "we do not know you"
    """


@command.command(name="list")
@asks_node
@json_option
def list_(node: NodeAt, as_json: bool) -> None:
    """Show the contracts that wait for the operator's decision, the oldest first.

    With --json as `consent_list` answers.

    \b
    Example:
      rota consent list

    Exit 0: shown. 1: the node did not answer, or could not be reached. 2: wrong use.
    """
    found = node.ask(_pending)
    tell(as_json, found, lambda: "\n".join(map(_described, found)) or "Nothing waits for consent.")


@command.command()
@id_argument
@from_option
@asks_node
@json_option
def accept(deployment: UUID, proposer: str | None, node: NodeAt, as_json: bool) -> None:
    """Let the node take part in a contract.

    \b
    Example:
      rota consent accept 01234567-89ab-cdef-0123-456789abcdef

    Exit 0: it takes part, and the proposer is notified. 1: nothing is asked about this id, or the node could not be
    reached. 2: wrong use.
    """
    chosen = _proposer(node, deployment, proposer)
    node.ask(lambda client: client.ask("consent_accept", chosen, str(deployment)))
    shown = {"deployment": str(deployment), "proposer": chosen, "accepted": True}
    tell(as_json, shown, lambda: f"The node takes part in {deployment} of {chosen}.")


@command.command()
@id_argument
@from_option
@click.option("--reason", default="", help="Why, for the proposer and its users; at most 500 characters.")
@asks_node
@json_option
def refuse(deployment: UUID, proposer: str | None, reason: str, node: NodeAt, as_json: bool) -> None:
    """Let the node take no part in a contract. The deployment ends with the reason.

    \b
    Example:
      rota consent refuse 01234567-89ab-cdef-0123-456789abcdef --reason "we do not know you"

    Exit 0: it is refused, and the proposer is notified. 1: nothing is asked about this id, or the node could not be
    reached. 2: wrong use.
    """
    chosen = _proposer(node, deployment, proposer)
    node.ask(lambda client: client.ask("consent_refuse", chosen, str(deployment), reason))
    shown = {"deployment": str(deployment), "proposer": chosen, "accepted": False}
    tell(as_json, shown, lambda: f"The node takes no part in {deployment} of {chosen}.")


async def _pending(client: Client) -> list[dict[str, Any]]:
    found = await client.ask("consent_list", is_repeatable=True)
    assert isinstance(found, list), "the method answers a list"
    return found


def _proposer(node: NodeAt, deployment: UUID, proposer: str | None) -> str:
    """The proposer: one node, unless the user has to name it."""
    if proposer is not None:
        return proposer
    proposers = [str(each["proposer"]) for each in node.ask(_pending) if each["deployment"] == str(deployment)]
    if not proposers:
        raise NotDone(f"{deployment}: the node is not asked about it; see `rota consent list`")
    if len(proposers) > 1:
        raise NotDone(f"{deployment}: {', '.join(proposers)} proposed it; choose one with --from")
    return proposers[0]


def _described(found: Mapping[str, Any]) -> str:
    place = f" at {found['contract']}, on the chain already" if found.get("contract") else ""
    return (
        f"{found['deployment']}  {found['domain']}, proposed by {found['proposer']}{place}\n"
        f"  this node would {' and '.join(found['parts'])}; {found['threshold']} of {found['endorserCount']} "
        f"endorsers sign: {_names(found['endorsers'], found['endorserCount'])}\n"
        f"  members: {_names(found['members'], found['memberCount'])}\n"
        f"  sequencing: {sequencing_text(found['sequencing'])}\n"
        f"  asked {found['asked']}, expires {found['expires']}"
    )


def _names(shown: list[str], count: int) -> str:
    more = f" and {count - len(shown)} more" if count > len(shown) else ""
    return (", ".join(shown) or "none") + more
