"""`rota bench gas`: what a transition costs on the chain."""

from __future__ import annotations

from collections.abc import Mapping

import click
from rich import box
from rich.console import Console
from rich.table import Table

from rota.bench import gas as gas_bench
from rota.bench.zeto_gas import MEANINGS, ZETO, ByLoad, measure_zeto_gas
from rota.cli.bench.printing import json_option, print_json, tell_progress
from rota.prover.curve import CurveMissing


@click.command()
@json_option
def command(as_json: bool) -> None:
    """What a transition costs on the chain, by the size of its round, beside Paladin's and Zeto's contracts.

    Zero-knowledge tokens need the extra `zeto`; their proofs take two minutes.

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
    """Gas per transition by kind and round size; of zero-knowledge tokens, or what they need."""
    figures = gas_bench.as_json(gas_bench.measure_gas(progress=tell_progress))
    try:
        found = measure_zeto_gas(progress=tell_progress)
    except CurveMissing as error:
        return {**figures, "zeto": {"missing": str(error)}}
    return {**figures, "zeto": {**_whole(found), "published": ZETO}}


def show() -> None:
    """Tables."""
    console = Console()
    show_gas(console, gas_bench.measure_gas(progress=tell_progress))
    try:
        show_zeto_gas(console, measure_zeto_gas(progress=tell_progress))
    except CurveMissing as error:
        click.echo(str(error))


def _whole(figures: Mapping[str, ByLoad]) -> dict[str, object]:
    return {
        token: {load: {str(size): round(gas) for size, gas in found.items()} for load, found in by_load.items()}
        for token, by_load in figures.items()
    }


def show_zeto_gas(console: Console, figures: Mapping[str, ByLoad]) -> None:
    """One row a load of each kind, one column a size, and Zeto's published figure beside transfers."""
    title = "Gas per transition of zero-knowledge tokens, by transitions in a round"
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 0, 0, 1))
    table.add_column("", no_wrap=True)
    sizes = sorted({size for by_load in figures.values() for found in by_load.values() for size in found})
    for name in (*map(str, sizes), "Zeto"):
        table.add_column(name, justify="right", no_wrap=True)
    for token, by_load in figures.items():
        for load, found in by_load.items():
            shown = [f"{found[size]:.0f}" if size in found else "" for size in sizes]
            table.add_row(f"{token} {load}", *shown, str(ZETO[token]) if load in ("transfer", "chained") else "")
    console.print(table)
    for name, meaning in MEANINGS.items():
        console.print(f"[bold]{name}[/bold]: {meaning}.")
    console.print("Whole transactions with real proofs. Zeto's figures are of 2 inputs and 2 outputs, alone.")


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
