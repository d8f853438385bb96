"""`rota trigger`: a node's automation as its operator sees and steers it."""

from __future__ import annotations

import json
from typing import Final

import click
import msgspec
from rich.table import Table

from rota.cli.asking import EXIT_FAILED, NodeAt, asks_node, tell
from rota.cli.parameters import json_option
from rota.cli.tables import table_console
from rota.client import TriggerStatus

COUNTS: Final = ("won", "lost", "skipped", "failed")

name_argument = click.argument("name")


@click.group()
def command() -> None:
    """See and steer the tasks that every node attempts.

    \b
    Example:
      rota trigger list
      rota trigger pause advance-epochs --node http://127.0.0.1:31648
    """


@command.command(name="list")
@asks_node
@json_option
def list_(node: NodeAt, as_json: bool) -> None:
    """Show all triggers of a node, and how each stands.

    \b
    Example:
      rota trigger list

    Exit 0: shown. 1: the node did not tell, or could not be reached. 2: wrong use.
    """
    found = node.ask(lambda client: client.triggers.list())
    if as_json:
        click.echo(json.dumps(msgspec.to_builtins(found)))
        return
    # Narrow enough for a terminal of 80 columns.
    table = Table(box=None, pad_edge=False)
    for name in ("trigger", "state", "strategy", "waiting", *COUNTS, "aside"):
        is_word = name in ("trigger", "state", "strategy")
        table.add_column(name, justify="left" if is_word else "right", no_wrap=True)
    for each in found:
        numbers = (each.waiting, *(getattr(each.attempted, name) for name in COUNTS), len(each.set_aside))
        table.add_row(each.name, _state(each), each.strategy, *map(str, numbers))
    console = table_console()
    console.print(table)
    for each in found:
        for aside in each.set_aside:
            console.print(f"{each.name}: {aside.task} is set aside: {aside.reason}", markup=False)
        if each.trouble:
            console.print(f"{each.name}: {each.trouble}", markup=False)


def _state(trigger: TriggerStatus) -> str:
    if trigger.paused:
        return "paused"
    if not trigger.is_member:
        return "not a member"
    return "runs" if trigger.breaker == "closed" else "rests"


@command.command()
@name_argument
@asks_node
@json_option
def pause(name: str, node: NodeAt, as_json: bool) -> None:
    """Let a trigger begin nothing more, also after a restart.

    \b
    Example:
      rota trigger pause advance-epochs

    Exit 0: it is paused. 1: the node did not do it, or could not be reached. 2: wrong use.
    """
    node.ask(lambda client: client.triggers.pause(name))
    tell(as_json, {"name": name, "paused": True}, lambda: f"{name} is paused.")


@command.command()
@name_argument
@asks_node
@json_option
def resume(name: str, node: NodeAt, as_json: bool) -> None:
    """Let a trigger run again, and retry the tasks that were set aside.

    \b
    Example:
      rota trigger resume advance-epochs

    Exit 0: it runs. 1: the node did not do it, or could not be reached. 2: wrong use.
    """
    node.ask(lambda client: client.triggers.resume(name))
    tell(as_json, {"name": name, "paused": False}, lambda: f"{name} runs.")


@command.command(name="run-once")
@name_argument
@asks_node
@json_option
def run_once(name: str, node: NodeAt, as_json: bool) -> None:
    """Attempt all tasks of a trigger that are ready, now and without delay, paused or not.

    \b
    Example:
      rota trigger run-once advance-epochs

    Exit 0: done. 1: a task failed, the node did not do it, or could not be reached. 2: wrong use.
    """
    found = node.ask(lambda client: client.triggers.run_once(name))
    counted = ", ".join(f"{getattr(found, each)} {each}" for each in COUNTS)
    trouble = f" {found.trouble}" if found.trouble else ""
    tell(as_json, {"name": name, **msgspec.to_builtins(found)}, lambda: f"{name}: {counted}.{trouble}")
    if found.trouble:
        click.get_current_context().exit(EXIT_FAILED)
