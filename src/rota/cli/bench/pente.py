"""`rota bench pente`: private transfers in a privacy group, by the number of holders."""

from __future__ import annotations

from dataclasses import asdict
from typing import Final

import click
from rich.console import Console
from rich.table import Table

from rota.bench.pente import TRANSFERS_DEFAULT, PenteFigures, measure_pente
from rota.cli.bench.printing import describe_machine, json_option, print_json, tell_progress

TRANSFERS_MAX: Final = 1_000_000


@click.command()
@json_option
@click.option(
    "--transfers",
    type=click.IntRange(1, TRANSFERS_MAX),
    default=TRANSFERS_DEFAULT,
    show_default=True,
    help="How many transfers are measured for each number of holders.",
)
def command(as_json: bool, transfers: int) -> None:
    """How many private transfers a second a node assembles and endorses, with 10 and with 100,000 holders.

    \b
    Example:
      rota bench pente --json

    Exit 0: measured. 1: it could not be. 2: wrong use.
    """
    if as_json:
        print_json({"machine": describe_machine(), **measure(transfers)})
    else:
        show(transfers)


def measure(transfers: int = TRANSFERS_DEFAULT) -> dict[str, object]:
    """The figures by number of holders, and their ratios."""
    return asdict(measure_pente(transfers, progress=tell_progress))


def show(transfers: int = TRANSFERS_DEFAULT) -> None:
    """A table."""
    figures = measure_pente(transfers, progress=tell_progress)
    console = Console()
    console.print(_table(figures))
    console.print(
        f"With many holders {figures.rate_ratio:.2f} of the rate and {figures.bytes_ratio:.2f} of the bytes. "
        "Processor time of one core; no network, ledger or store."
    )


def _table(figures: PenteFigures) -> Table:
    table = Table(title="Private ERC-20 transfers a second, and bytes of each", title_justify="left")
    for name in ("holders", "assembled", "endorsed", "both", "bytes"):
        table.add_column(name, justify="right")
    for of in (figures.few, figures.many):
        rates = (of.assembled_per_s, of.endorsed_per_s, of.both_per_s)
        table.add_row(f"{of.holders:,}", *(f"{rate:,.0f}" for rate in rates), f"{of.bytes_per_transfer:,.0f}")
    return table
