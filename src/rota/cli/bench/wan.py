"""`rota bench wan`: nodes far apart, with slots and rounds and without."""

from __future__ import annotations

from dataclasses import asdict
from typing import Final

import click
from rich.console import Console
from rich.table import Table

from rota.bench.wan import INTENTS_EACH_DEFAULT, WanFigures, measure_wan
from rota.cli.bench.printing import json_option, print_json, tell_progress

INTENTS_EACH_MAX: Final = 1_000

MEANINGS: Final = {
    "tx_per_s": "transactions a simulated second",
    "one_at_a_time_tx_per_s": "the same with slots and rounds of one",
    "ratio": "what slots and rounds gain",
    "messages_per_tx": "messages from node to node",
    "bytes_per_tx": "their bytes, each encoded alone",
    "signatures_per_tx": "endorsements of all five nodes together",
}


@click.command()
@json_option
@click.option(
    "--intents",
    type=click.IntRange(1, INTENTS_EACH_MAX),
    default=INTENTS_EACH_DEFAULT,
    show_default=True,
    help="How many intents each of the five nodes asks for.",
)
def command(as_json: bool, intents: int) -> None:
    """Five nodes, 100 ms round trips, one contract: throughput and what a transaction costs in messages.

    Simulated time and counts: the same on every machine.

    \b
    Example:
      rota bench wan --json

    Exit 0: measured. 1: it could not be. 2: wrong use.
    """
    if as_json:
        print_json(measure(intents))
    else:
        show(intents)


def measure(intents: int = INTENTS_EACH_DEFAULT) -> dict[str, object]:
    """The figures by name."""
    return asdict(_measured(intents))


def show(intents: int = INTENTS_EACH_DEFAULT) -> None:
    """A table with what each figure means."""
    table = Table(title=f"Five nodes, 100 ms round trips, {intents:,} intents of each", title_justify="left")
    table.add_column("")
    table.add_column("", justify="right")
    table.add_column("")
    for name, value in asdict(_measured(intents)).items():
        table.add_row(name, f"{value:,.2f}", MEANINGS[name])
    Console().print(table)


def _measured(intents: int) -> WanFigures:
    tell_progress(f"five nodes far apart, {intents:,} intents each, with slots and rounds and without")
    return measure_wan(intents)
