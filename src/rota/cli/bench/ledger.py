"""`rota bench ledger`: how many contract calls a chain takes."""

from __future__ import annotations

from dataclasses import asdict
from typing import Final

import click
from rich.console import Console
from rich.table import Table

from rota.bench.ledger import CALLS_DEFAULT, LedgerFigures, measure_ledger
from rota.cli.bench.printing import describe_machine, json_option, print_json, tell_progress

CALLS_MAX: Final = 15_000  # as many of one sender as the pool holds with room to spare


@click.command()
@json_option
@click.option(
    "--calls",
    type=click.IntRange(1, CALLS_MAX),
    default=CALLS_DEFAULT,
    show_default=True,
    help="How many calls each chain takes.",
)
def command(as_json: bool, calls: int) -> None:
    """How many contract calls a second a chain takes from one account: embedded, over HTTP, and Anvil.

    \b
    Example:
      rota bench ledger --json

    Exit 0: measured. 1: it could not be. 2: wrong use.
    """
    if as_json:
        print_json({"machine": describe_machine(), **measure(calls)})
    else:
        show(calls)


def measure(calls: int = CALLS_DEFAULT) -> dict[str, object]:
    """The figures by chain."""
    return asdict(measure_ledger(calls, tell_progress))


def show(calls: int = CALLS_DEFAULT) -> None:
    """A table."""
    Console().print(_ledger_table(measure_ledger(calls, tell_progress)))


def _ledger_table(figures: LedgerFigures) -> Table:
    table = Table(title="Contract calls that a chain takes from one account", title_justify="left")
    table.add_column("chain")
    for name in ("calls a second", "gas a call", "calls", "blocks"):
        table.add_column(name, justify="right")
    chains = {"embedded": figures.embedded, "embedded, HTTP": figures.embedded_http, "Anvil": figures.anvil}
    for name, of in chains.items():
        cells = (
            [f"{of.calls_per_s:,.0f}", f"{of.gas_per_call:,.0f}", f"{of.calls:,}", f"{of.blocks:,}"]
            if of
            else ["none"] * 4
        )
        table.add_row(name, *cells)
    return table
