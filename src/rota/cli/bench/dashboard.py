"""`rota bench dashboard`: what being watched costs a node."""

from __future__ import annotations

from dataclasses import asdict
from typing import Final

import click
from rich.console import Console
from rich.table import Table

from rota.bench.dashboard import PAIRS_DEFAULT, TRANSACTIONS_DEFAULT, WatchingFigures, measure_watching
from rota.cli.bench.printing import json_option, print_json, tell_progress
from rota.localnet.children import CannotStartProcess

PAIRS_MAX: Final = 100
COUNT_MAX: Final = 1_000_000
PAIRS_AMONG_OTHERS: Final = 6


@click.command()
@json_option
@click.option(
    "--pairs",
    type=click.IntRange(1, PAIRS_MAX),
    default=PAIRS_DEFAULT,
    show_default=True,
    help="How often a watched window is held against an unwatched one.",
)
@click.option(
    "--transactions",
    type=click.IntRange(100, COUNT_MAX),
    default=TRANSACTIONS_DEFAULT,
    show_default=True,
    help="In each window.",
)
def command(as_json: bool, pairs: int, transactions: int) -> None:
    """Processor time and throughput of three nodes, with and without a dashboard at each; real processes, SQLite.

    \b
    Example:
      rota bench dashboard --json

    Exit 0: measured. 1: a node could not be started. 2: wrong use.
    """
    figures = _measured(pairs, transactions)
    if as_json:
        print_json(asdict(figures))
    else:
        _print(figures)


def measure() -> dict[str, object]:
    """The figures of a shorter run."""
    return asdict(_measured(PAIRS_AMONG_OTHERS, TRANSACTIONS_DEFAULT))


def show() -> None:
    """The table of a shorter run."""
    _print(_measured(PAIRS_AMONG_OTHERS, TRANSACTIONS_DEFAULT))


def _measured(pairs: int, transactions: int) -> WatchingFigures:
    tell_progress(f"{2 * pairs} windows of {transactions:,} transactions, watched and not")
    try:
        return measure_watching(pairs, transactions, lambda text: click.echo(f"  {text}", err=True))
    except CannotStartProcess as error:
        raise click.ClickException(str(error)) from error


def _print(figures: WatchingFigures) -> None:
    table = Table(title="Medians of the windows", title_justify="left")
    for name in ("", "unwatched", "watched", "cost", "between"):
        table.add_column(name, justify="left" if not name else "right")
    for name, unwatched, watched, cost in (
        (
            "processor ms a transaction",
            f"{figures.unwatched_processor_ms:.2f}",
            f"{figures.watched_processor_ms:.2f}",
            figures.processor_cost,
        ),
        (
            "transactions a second",
            f"{figures.unwatched_per_s:,.0f}",
            f"{figures.watched_per_s:,.0f}",
            figures.throughput_cost,
        ),
    ):
        table.add_row(name, unwatched, watched, f"{cost.median:.1%}", f"{cost.low:.1%} and {cost.high:.1%}")
    console = Console()
    console.print(table)
    console.print(f"The bounds hold with {figures.processor_cost.confidence:.0%}; go by the processor's.")
    console.print(f"The feeds told {figures.updates:,} updates, {figures.size_bytes / 1e6:,.1f} MB.")
    console.print(
        f"By themselves they take {figures.feed.us_per_transaction:.0f} µs for a transaction at all three nodes: "
        f"{figures.feed_cost:.1%} of what it takes unwatched."
    )
