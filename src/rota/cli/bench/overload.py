"""`rota bench overload`: throughput of a network that is asked for more than it can do."""

from __future__ import annotations

from dataclasses import asdict
from typing import Final

import click
from rich.console import Console
from rich.table import Table

from rota.bench.overload import FACTOR_DEFAULT, SECONDS_DEFAULT, OverloadFigures, measure_overload
from rota.cli.bench.printing import json_option, print_json, tell_progress
from rota.localnet.children import CannotStartProcess

SECONDS_AMONG_OTHERS: Final = 15.0


@click.command()
@json_option
@click.option(
    "--seconds",
    type=click.FloatRange(1, 3_600),
    default=SECONDS_DEFAULT,
    show_default=True,
    help="For how long each of the three phases is measured.",
)
@click.option(
    "--factor",
    type=click.FloatRange(1, 100),
    default=FACTOR_DEFAULT,
    show_default=True,
    help="How many times the saturated rate is asked for.",
)
def command(as_json: bool, seconds: float, factor: float) -> None:
    """Throughput at a multiple of saturation against that at saturation; three real nodes, SQLite.

    \b
    Example:
      rota bench overload --seconds 30 --json

    Exit 0: measured. 1: a node could not be started. 2: wrong use.
    """
    figures = _measured(seconds, factor)
    if as_json:
        print_json(asdict(figures))
    else:
        _print(figures)


def measure() -> dict[str, object]:
    """The figures of a shorter run."""
    return asdict(_measured(SECONDS_AMONG_OTHERS, FACTOR_DEFAULT))


def show() -> None:
    """A table of a shorter run."""
    _print(_measured(SECONDS_AMONG_OTHERS, FACTOR_DEFAULT))


def _measured(seconds: float, factor: float) -> OverloadFigures:
    tell_progress(f"throughput at {factor:g} times saturation, {seconds:g} s for each of three phases")
    try:
        return measure_overload(seconds, factor, lambda text: click.echo(f"  {text}", err=True))
    except CannotStartProcess as error:
        raise click.ClickException(str(error)) from error


def _print(figures: OverloadFigures) -> None:
    table = Table(title="Transactions a second", title_justify="left")
    for name in (
        "phase",
        "asked for",
        "accepted",
        "refused",
        "unanswered",
        "ended",
        "ms of processor each",
        "open at the end",
    ):
        table.add_column(name, justify="left" if name == "phase" else "right")
    phases = (
        ("saturated", figures.saturated),
        (f"{figures.factor:g} times as many", figures.overloaded),
        ("saturated again", figures.again),
    )
    for name, phase in phases:
        asked, answered = (phase.asked_per_s, phase.accepted_per_s), (phase.refused_per_s, phase.unanswered_per_s)
        rates = (*asked, *answered, phase.ended_per_s)
        rest = (f"{phase.processor_ms:.2f}", f"{phase.open_at_end:,}")
        table.add_row(name, *(f"{rate:,.0f}" for rate in rates), *rest)
    console = Console()
    console.print(table)
    console.print(
        f"{figures.ratio:.2f} of the peak end under overload, and {figures.processor_ratio:.2f} in the same processor "
        f"time; {figures.failovers} fail-overs. Afterwards the backlog "
        f"had ended after {figures.drained_s:.0f} s."
    )
