"""`rota bench api`: requests a second and their latency, and receipts pushed a second."""

from __future__ import annotations

from dataclasses import asdict
from typing import Final

import click
from rich.console import Console
from rich.table import Table

from rota.bench.api import CONNECTIONS_DEFAULT, REQUESTS_DEFAULT, SUBSCRIBERS_DEFAULT, ApiFigures, measure_api
from rota.cli.bench.printing import describe_machine, json_option, print_json, tell_progress
from rota.localnet.children import CannotStartProcess

REQUESTS_MAX: Final = 1_000_000
CONNECTIONS_MAX: Final = 256
SUBSCRIBERS_MAX: Final = 200
REQUESTS_AMONG_OTHERS: Final = 2_000


@click.command()
@json_option
@click.option(
    "--requests",
    type=click.IntRange(1, REQUESTS_MAX),
    default=REQUESTS_DEFAULT,
    show_default=True,
    help="How many of each kind; as many receipts are pushed to each subscriber.",
)
@click.option(
    "--connections",
    type=click.IntRange(1, CONNECTIONS_MAX),
    default=CONNECTIONS_DEFAULT,
    show_default=True,
    help="Over how many connections at once.",
)
@click.option(
    "--subscribers",
    type=click.IntRange(1, SUBSCRIBERS_MAX),
    default=SUBSCRIBERS_DEFAULT,
    show_default=True,
    help="How many listen, each with a listener and a WebSocket of its own.",
)
def command(as_json: bool, requests: int, connections: int, subscribers: int) -> None:
    """Requests for receipts, transactions accepted durably, receipts pushed; one node, SQLite.

    \b
    Example:
      rota bench api --json

    Exit 0: measured. 1: the node could not be started. 2: wrong use.
    """
    figures = _measured(requests, connections, subscribers)
    if as_json:
        print_json({"machine": describe_machine(), **asdict(figures)})
    else:
        _print(figures)


def measure() -> dict[str, object]:
    """The figures of a shorter run."""
    return asdict(_measured(REQUESTS_AMONG_OTHERS, CONNECTIONS_DEFAULT, SUBSCRIBERS_DEFAULT))


def show() -> None:
    """A table of a shorter run."""
    _print(_measured(REQUESTS_AMONG_OTHERS, CONNECTIONS_DEFAULT, SUBSCRIBERS_DEFAULT))


def _measured(requests: int, connections: int, subscribers: int) -> ApiFigures:
    tell_progress("the API of a node")
    try:
        return measure_api(requests, connections, subscribers, lambda text: click.echo(f"  {text}", err=True))
    except CannotStartProcess as error:
        raise click.ClickException(str(error)) from error


def _print(figures: ApiFigures) -> None:
    table = Table(title=f"{figures.receipt.connections} connections", title_justify="left")
    for name in ("method", "a second", "p50 ms", "p99 ms", "µs of the node"):
        table.add_column(name, justify="left" if name == "method" else "right")
    for name, each in (("ptx_getTransactionReceipt", figures.receipt), ("ptx_sendTransaction", figures.submit)):
        table.add_row(name, f"{each.per_s:,.0f}", f"{each.p50_ms:.1f}", f"{each.p99_ms:.1f}", f"{each.node_us:,.0f}")
    console = Console()
    console.print(table)
    push = figures.push
    console.print(
        f"{push.per_s:,.0f} receipts pushed a second to {push.subscribers} subscribers, {push.receipts:,} to each, "
        f"in {push.batches:,} batches; {push.node_us:,.1f} µs of the node for each."
    )
