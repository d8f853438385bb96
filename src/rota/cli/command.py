"""`rota command`: submit commands that happen exactly once, and look after their completions."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final

import click

from rota.cli.contract import Json, token_file_option
from rota.client import Client, Commands, Journal, Outcome, Patience, Verdict, bearer
from rota.client.commands import CommandFailed, RawCommands
from rota.client.journal import JournalTaken
from rota.keys.files import KeyFileError, read_private

EXIT_FAILED: Final = 1
EXIT_UNKNOWN: Final = 3
WAIT_MS_MAX: Final = 25_000
MILLISECONDS_PER_S: Final = 1_000

node_option = click.option(
    "--node", "url", required=True, metavar="URL", help="The JSON-RPC of the node; always the same one for a change."
)
application_option = click.option(
    "--application", default="", help="Who submits; where the node knows you by credentials it may be left out."
)
party_option = click.option(
    "--act-as", "parties", multiple=True, required=True, metavar="PARTY", help="A party; once for each."
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, one object a line.")


@click.group()
def command() -> None:
    """Submit commands that happen exactly once, and follow their completions."""


@command.command()
@node_option
@application_option
@party_option
@click.option("--command-id", required=True, help="Of the change: the same whenever the same change is meant.")
@click.option(
    "--transaction", type=Json(), required=True, metavar="JSON", help="As for ptx_sendTransaction; @FILE reads a file."
)
@click.option(
    "--journal",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    help="A file in which this programme remembers what it has begun, across its own crash.",
)
@click.option(
    "--within",
    "bound_s",
    type=click.FloatRange(0.001),
    help="Seconds that all of it takes at most; left out, no bound.",
)
@click.option("--attempts", type=click.IntRange(1), default=20, show_default=True, help="How often it is tried.")
@click.option(
    "--accept-weaker", is_flag=True, help="Take a shorter period than asked for: the change may then happen twice."
)
@token_file_option
@json_option
def submit(
    url: str,
    application: str,
    parties: tuple[str, ...],
    command_id: str,
    transaction: object,
    journal: Path,
    bound_s: float | None,
    attempts: int,
    accept_weaker: bool,
    token_file: Path | None,
    as_json: bool,
) -> None:
    """Have a change happen exactly once, and say how it ended.

    Run it again with the same journal and command id after whatever has happened: the change is not done twice.

    \b
    Example:
      rota command submit --node http://127.0.0.1:31548 --application payroll --act-as alice \\
        --command-id "salary 2026-05 carol" --journal payroll.journal \\
        --transaction '{"type": "private", "to": "0x...", "function": "transfer", "data": {"to": "carol", "amount": 5}}'

    Exit 0: it happened. 1: it did not happen and will not. 2: wrong use. 3: it is not known.
    """
    if not isinstance(transaction, dict):
        raise click.BadParameter("must be a JSON object", param_hint="--transaction")

    async def run(node: Client) -> Verdict:
        with Journal(journal) as opened:
            commands = Commands(
                node,
                opened,
                application_id=application,
                act_as=parties,
                patience=Patience(attempts_max=attempts),
                accept_weaker=accept_weaker,
            )
            if bound_s is None:
                return await commands.exactly_once(command_id, transaction, command_id=command_id)
            bound_ms = int(bound_s * MILLISECONDS_PER_S)
            return await commands.exactly_once_within(bound_ms, command_id, transaction, command_id=command_id)

    verdict = _done(url, token_file, run)
    _print_verdict(verdict, as_json)
    if verdict.outcome is not Outcome.SUCCEEDED:
        code = EXIT_FAILED if verdict.outcome is Outcome.FAILED else EXIT_UNKNOWN
        click.get_current_context().exit(code)


@command.command()
@node_option
@application_option
@party_option
@click.option("--after", type=click.IntRange(0), default=0, show_default=True, help="Begin after this offset.")
@click.option("--follow", is_flag=True, help="Go on with those that come, until Ctrl-C.")
@token_file_option
@json_option
def completions(
    url: str,
    application: str,
    parties: tuple[str, ...],
    after: int,
    follow: bool,
    token_file: Path | None,
    as_json: bool,
) -> None:
    """Print how commands ended, in the order in which they did."""

    async def run(node: Client) -> None:
        raw = RawCommands(node, application, parties)
        if follow:
            async for completion in raw.follow(after):
                _print_completion(completion, as_json)
            return
        begin, end = after, await raw.end()
        while begin < end:
            page = await raw.completions(begin, 500, 0)
            for completion in page["completions"]:
                _print_completion(completion, as_json)
            begin = page["checkpoint"]

    _done(url, token_file, run)


@command.command()
@node_option
@token_file_option
def end(url: str, token_file: Path | None) -> None:
    """Print where completions end now: the offset of the latest."""
    click.echo(_done(url, token_file, lambda node: RawCommands(node).end()))


@command.command()
@node_option
@click.option("--up-to", "offset", type=click.IntRange(0), required=True, help="The last offset to be forgotten.")
@token_file_option
def prune(url: str, offset: int, token_file: Path | None) -> None:
    """Have a node forget completions; needs the role `operate`.

    Within the maximum deduplication duration it is refused, and the offset up to which it would be safe is told.
    """
    pruned = _done(url, token_file, lambda node: RawCommands(node).prune(offset))
    click.echo(f"Completions up to offset {pruned} are forgotten.")


@command.command()
@node_option
@token_file_option
@json_option
def configuration(url: str, token_file: Path | None, as_json: bool) -> None:
    """Print the maximum deduplication duration, which is always supported."""
    found = _done(url, token_file, lambda node: RawCommands(node).configuration())
    click.echo(json.dumps(found) if as_json else f"maximum deduplication duration: {found['maxDeduplicationDuration']}")


def _done(url: str, token_file: Path | None, ask: Callable[[Client], Awaitable[Any]]) -> Any:  # noqa: ANN401
    """What was asked for; what cannot be had is told in a line."""

    async def run() -> Any:  # noqa: ANN401
        headers = bearer(read_private(token_file).reveal().decode().strip()) if token_file is not None else None
        async with Client(url, headers=headers) as node:
            return await ask(node)

    try:
        return asyncio.run(run())
    except CommandFailed as failed:
        about = "".join(f"\n  {key}: {value}" for key, value in failed.error.metadata.items())
        raise click.ClickException(f"{failed}{about}") from failed
    except (JournalTaken, KeyFileError, OSError) as error:
        raise click.ClickException(str(error)) from error


def _print_verdict(verdict: Verdict, as_json: bool) -> None:
    error = verdict.error
    if as_json:
        told: dict[str, object] = {"outcome": verdict.outcome.value, "completionOffset": verdict.completion_offset}
        if error is not None:
            told |= {"statusCode": error.code, "errorId": error.error_id, "message": error.message}
        click.echo(json.dumps(told))
    elif error is None:
        click.echo(f"{verdict.outcome.value}: it happened once, at offset {verdict.completion_offset}")
    else:
        click.echo(f"{verdict.outcome.value}: {error.code} / {error.error_id}: {error.message}", err=True)


def _print_completion(completion: Mapping[str, Any], as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(completion))
        return
    failure = completion.get("failure")
    ended = "OK" if failure is None else f"{failure['statusCode']} / {failure['errorId']}: {failure['message']}"
    click.echo(f"{completion['offset']:>8}  {completion['publishedAt']}  {completion['commandId']}  {ended}")
