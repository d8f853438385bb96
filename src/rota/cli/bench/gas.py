"""`rota bench gas`: what a transition costs on the chain."""

from __future__ import annotations

import click
from rich import box
from rich.console import Console
from rich.table import Table

from rota.bench import gas as gas_bench
from rota.cli.bench.printing import json_option, print_json, tell_progress


@click.command()
@json_option
def command(as_json: bool) -> None:
    """What a transition costs on the chain, by the size of its round, beside Paladin's contracts.

    \b
    Example:
      rota bench gas --json

    Exit 0: measured. 1: it could not be. 2: wrong use.
    """
    if as_json:
        print_json(measure())
    else:
        show()


def measure() -> dict[str, object]:
    """Gas per transition by kind and round size."""
    return gas_bench.as_json(gas_bench.measure_gas(progress=tell_progress))


def show() -> None:
    """Tables."""
    show_gas(Console(), gas_bench.measure_gas(progress=tell_progress))


def show_gas(console: Console, figures: gas_bench.GasFigures) -> None:
    """One row a load, one column a size, and Paladin's figure beside it."""
    title = "Gas per transition, by transitions in a round"
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 0, 0, 1))
    table.add_column("", no_wrap=True)
    for size in figures.mint:
        table.add_column(str(size), justify="right", no_wrap=True)
    table.add_column("Paladin", justify="right", no_wrap=True)
    for name, found, paladin in gas_bench.rows_of(figures):
        table.add_row(name, *(f"{gas:.0f}" for gas in found.values()), str(paladin))
    console.print(table)
    for name, meaning in gas_bench.MEANINGS.items():
        console.print(f"[bold]{name}[/bold]: {meaning}.")
    console.print(
        "Whole transactions of a contract in steady state: 21,000 gas, call data, execution and logs, less refunds. "
        "Paladin's contracts take one transition a transaction."
    )
