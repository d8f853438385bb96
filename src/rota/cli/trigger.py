"""`rota trigger`: a node's automation as its operator sees and steers it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click
from rich.console import Console
from rich.table import Table

from rota.cli.node_folder import json_option
from rota.client import Client, ClientError, bearer
from rota.keys.files import KeyFileError, read_private

COUNTS: Final = ("won", "lost", "skipped", "failed")

node_option = click.option("--node", "url", required=True, metavar="URL", help="The JSON-RPC of the node.")
token_file_option = click.option(
    "--token-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="A file of mode 600 with the token that the node asks for.",
)
name_argument = click.argument("name")


@click.group()
def command() -> None:
    """See and steer the tasks that every node attempts.

    \b
    Example:
      rota trigger list --node http://127.0.0.1:31548
      rota trigger pause advance-epochs --node http://127.0.0.1:31548

    Exit 0: done. 1: the node did not do it, or could not be reached. 2: wrong use.
    """


@command.command(name="list")
@node_option
@token_file_option
@json_option
def list_(url: str, token_file: Path | None, as_json: bool) -> None:
    """Show all triggers of a node, and how each stands."""
    found: list[dict[str, Any]] = _ask(url, token_file, "trigger_list")
    if as_json:
        click.echo(json.dumps(found))
        return
    # Narrow enough for a terminal of 80 columns.
    table = Table(box=None, pad_edge=False)
    for name in ("trigger", "state", "strategy", "waiting", *COUNTS, "aside"):
        is_word = name in ("trigger", "state", "strategy")
        table.add_column(name, justify="left" if is_word else "right", no_wrap=True)
    for each in found:
        numbers = (each["waiting"], *(each["attempted"][name] for name in COUNTS))
        cells = map(str, (*numbers, len(each["setAside"])))
        table.add_row(each["name"], _state(each), each["strategy"], *cells)
    console = Console()
    console.print(table)
    for each in found:
        for aside in each["setAside"]:
            console.print(f"{each['name']}: {aside['task']} is set aside: {aside['reason']}", markup=False)
        if each["trouble"]:
            console.print(f"{each['name']}: {each['trouble']}", markup=False)


def _state(trigger: dict[str, Any]) -> str:
    if trigger["paused"]:
        return "paused"
    if not trigger["isMember"]:
        return "not a member"
    return "runs" if trigger["breaker"] == "closed" else "rests"


@command.command()
@name_argument
@node_option
@token_file_option
@json_option
def pause(name: str, url: str, token_file: Path | None, as_json: bool) -> None:
    """Let a trigger begin nothing more, also after a restart."""
    _ask(url, token_file, "trigger_pause", name)
    _tell(as_json, {"name": name, "paused": True}, lambda: f"{name} is paused.")


@command.command()
@name_argument
@node_option
@token_file_option
@json_option
def resume(name: str, url: str, token_file: Path | None, as_json: bool) -> None:
    """Let a trigger run again, and try again what was set aside."""
    _ask(url, token_file, "trigger_resume", name)
    _tell(as_json, {"name": name, "paused": False}, lambda: f"{name} runs.")


@command.command(name="run-once")
@name_argument
@node_option
@token_file_option
@json_option
def run_once(name: str, url: str, token_file: Path | None, as_json: bool) -> None:
    """Attempt all tasks of a trigger that are ready, now and without delay, paused or not."""
    found: dict[str, Any] = _ask(url, token_file, "trigger_runOnce", name)
    counted = ", ".join(f"{found[each]} {each}" for each in COUNTS)
    trouble = f" {found['trouble']}" if found["trouble"] else ""
    _tell(as_json, {"name": name, **found}, lambda: f"{name}: {counted}.{trouble}")
    if found["trouble"]:
        click.get_current_context().exit(1)


def _tell(as_json: bool, found: dict[str, object], in_words: Callable[[], str]) -> None:
    click.echo(json.dumps(found) if as_json else in_words())


def _ask(url: str, token_file: Path | None, method: str, *parameters: object) -> Any:  # noqa: ANN401  # JSON
    async def ask() -> object:
        headers = dict(bearer(read_private(token_file).reveal().decode().strip())) if token_file is not None else {}
        async with Client(url, headers=headers) as node:
            return await node.ask(method, *parameters)

    try:
        return asyncio.run(ask())
    except (ClientError, KeyFileError) as error:
        raise click.ClickException(str(error)) from error
