"""`rota command`: submit commands that happen exactly once, and look after their completions."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final

import click

from rota.cli.asking import EXIT_FAILED, EXIT_UNKNOWN, NodeAt, asks_node, printable, tell
from rota.cli.parameters import Json, json_lines_option, json_option
from rota.cli.sending import new_party_option
from rota.cli.timeline import date_of
from rota.client import Client, Commands, Journal, Outcome, Patience, Verdict
from rota.client.commands import CommandFailed, RawCommands
from rota.client.journal import JournalDamaged, JournalTaken

MILLISECONDS_PER_S: Final = 1_000

application_option = click.option(
    "--application", default="", help="Who submits; where the node knows you by credentials it may be left out."
)
party_option = click.option(
    "--act-as", "parties", multiple=True, required=True, metavar="PARTY", help="A party; once for each."
)


@click.group()
def command() -> None:
    """Submit commands that happen exactly once, and follow their completions.

    \b
    Example:
      rota command completions --act-as alice --follow
    """


@command.command()
@asks_node
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
@new_party_option
@json_option
def submit(
    node: NodeAt,
    application: str,
    parties: tuple[str, ...],
    command_id: str,
    transaction: object,
    journal: Path,
    bound_s: float | None,
    attempts: int,
    accept_weaker: bool,
    new_party: bool,
    as_json: bool,
) -> None:
    """Have a change happen exactly once, and print the outcome.

    Run it again with the same journal and command id after any failure: the change is not done twice. With a
    new journal the node is asked whether it accepted this command id before, as far back as it remembers. Always ask
    the same node for one change: another one does not know this submission. A command id that was used for
    another transaction is an error.

    \b
    Example:
      rota command submit --application payroll --act-as alice \\
        --command-id "salary 2026-05 carol" --journal payroll.journal \\
        --transaction '{"type": "private", "to": "0x...", "function": "transfer", "data": {"to": "carol", "amount": 5}}'

    Exit 0: it happened. 1: it did not happen and will not. 2: wrong use. 3: it is not known.
    """
    if not isinstance(transaction, dict):
        raise click.BadParameter("must be a JSON object", param_hint="--transaction")

    async def run(client: Client) -> Verdict:
        with Journal(journal) as opened:
            commands = Commands(
                client,
                opened,
                application_id=application,
                act_as=parties,
                patience=Patience(attempts_max=attempts),
                accept_weaker=accept_weaker,
                payees="any" if new_party else "known",
            )
            if bound_s is None:
                return await commands.exactly_once(command_id, transaction, command_id=command_id)
            bound_ms = int(bound_s * MILLISECONDS_PER_S)
            return await commands.exactly_once_within(bound_ms, command_id, transaction, command_id=command_id)

    end_with(done(node.ask, run), as_json)


def end_with(verdict: Verdict, as_json: bool) -> None:
    """Print a verdict, and end the command with its exit code."""
    _print_verdict(verdict, as_json)
    if verdict.outcome is not Outcome.SUCCEEDED:
        code = EXIT_FAILED if verdict.outcome is Outcome.FAILED else EXIT_UNKNOWN
        click.get_current_context().exit(code)


@command.command()
@asks_node
@application_option
@party_option
@click.option("--after", type=click.IntRange(0), default=0, show_default=True, help="Begin after this offset.")
@click.option("--follow", is_flag=True, help="Go on with those that come, until Ctrl-C.")
@json_lines_option
def completions(
    node: NodeAt, application: str, parties: tuple[str, ...], after: int, follow: bool, as_json: bool
) -> None:
    """Print how commands ended, in the order in which they did.

    \b
    Example:
      rota command completions --application payroll --act-as alice --after 40 --json

    Exit 0: printed. 1: the node did not tell, or could not be reached. 2: wrong use. 130: ended by Ctrl-C.
    """

    async def run(client: Client) -> None:
        raw = RawCommands(client, application, parties)
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

    done(node.ask, run)


@command.command()
@asks_node
@json_option
def end(node: NodeAt, as_json: bool) -> None:
    """Print where completions end now: the offset of the latest.

    \b
    Example:
      rota command end

    Exit 0: printed. 1: the node did not tell, or could not be reached. 2: wrong use.
    """
    offset = done(node.ask, lambda client: RawCommands(client).end())
    tell(as_json, {"end": offset}, lambda: str(offset))


@command.command()
@asks_node
@click.option("--up-to", "offset", type=click.IntRange(0), required=True, help="The last offset to be forgotten.")
@json_option
def prune(node: NodeAt, offset: int, as_json: bool) -> None:
    """Have a node forget completions; needs the role `operate`.

    Within the maximum deduplication duration it is refused with the offset up to which pruning is safe.

    \b
    Example:
      rota command prune --up-to 1000

    Exit 0: forgotten. 1: it is refused, or the node could not be reached. 2: wrong use.
    """
    pruned = done(node.ask, lambda client: RawCommands(client).prune(offset))
    tell(as_json, {"prunedUpTo": pruned}, lambda: f"Completions up to offset {pruned} are forgotten.")


@command.command()
@asks_node
@json_option
def configuration(node: NodeAt, as_json: bool) -> None:
    """Print the maximum deduplication duration, which is always supported.

    \b
    Example:
      rota command configuration

    Exit 0: printed. 1: the node did not tell, or could not be reached. 2: wrong use.
    """
    found = done(node.ask, lambda client: RawCommands(client).configuration())
    tell(as_json, found, lambda: f"maximum deduplication duration: {found['maxDeduplicationDuration']}")


def done(ask: Callable[[Callable[[Client], Awaitable[Any]]], Any], question: Callable[[Client], Awaitable[Any]]) -> Any:  # noqa: ANN401
    """Return the result, or the error of the command as a message."""
    try:
        return ask(question)
    except CommandFailed as failed:
        about = "".join(f"\n  {key}: {value}" for key, value in failed.error.metadata.items())
        raise click.ClickException(f"{failed}{about}") from failed
    except (JournalDamaged, JournalTaken, OSError) as error:
        raise click.ClickException(str(error)) from error


def _print_verdict(verdict: Verdict, as_json: bool) -> None:
    error = verdict.error
    if as_json:
        told: dict[str, object] = {"outcome": verdict.outcome.value, "completionOffset": verdict.completion_offset}
        if verdict.done_before_ms is not None:
            told["doneBefore"] = date_of(verdict.done_before_ms)
        if verdict.not_since_ms is not None:
            told["notSince"] = date_of(verdict.not_since_ms)
        if error is not None:
            told |= {"statusCode": error.code, "errorId": error.error_id, "message": error.message}
        click.echo(json.dumps(told))
    elif error is None and verdict.done_before_ms is not None:
        when = f"at offset {verdict.completion_offset}, on {date_of(verdict.done_before_ms)}"
        click.echo(f"{verdict.outcome.value}: it was done before, {when}; nothing was done now")
    elif error is None:
        forgotten = ""
        if verdict.not_since_ms is not None:
            date = date_of(verdict.not_since_ms)
            forgotten = f"; it was not done since {date}, and what was done before that the node has forgotten"
        click.echo(f"{verdict.outcome.value}: it happened once, at offset {verdict.completion_offset}{forgotten}")
    else:
        reason = printable(error.message)
        click.echo(f"{verdict.outcome.value}: {error.code} / {error.error_id}: {reason}", err=True)


def _print_completion(completion: Mapping[str, Any], as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(completion))
        return
    failure = completion.get("failure")
    ended = "OK" if failure is None else f"{failure['statusCode']} / {failure['errorId']}: {failure['message']}"
    shown = printable(f"{completion['commandId']}  {ended}")
    click.echo(f"{completion['offset']:>8}  {completion['publishedAt']}  {shown}")
