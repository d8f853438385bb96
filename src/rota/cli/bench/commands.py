"""`rota bench commands`: commands beside plain transactions, look-ups, and a late subscriber."""

from __future__ import annotations

from dataclasses import asdict
from typing import Final

import click
from rich.console import Console
from rich.table import Table

from rota.bench.commands import (
    COMPLETIONS_DEFAULT,
    FEW_CHANGES,
    MANY_CHANGES,
    TURN_DEFAULT,
    TURNS_DEFAULT,
    LookUpFigures,
    RateFigures,
    SubscriberFigures,
    measure_look_up,
    measure_rates,
    measure_subscriber,
)
from rota.cli.bench.printing import json_option, print_json, tell_progress
from rota.localnet.children import CannotStartProcess

COUNT_MAX: Final = 10_000_000
TURN_AMONG_OTHERS: Final = 300
CHANGES_AMONG_OTHERS: Final = 100_000
COMPLETIONS_AMONG_OTHERS: Final = 5_000

Figures = tuple[RateFigures, LookUpFigures, SubscriberFigures]


@click.command()
@json_option
@click.option(
    "--turn", type=click.IntRange(1, COUNT_MAX), default=TURN_DEFAULT, show_default=True, help="Submissions of a turn."
)
@click.option(
    "--turns", type=click.IntRange(1, 100), default=TURNS_DEFAULT, show_default=True, help="Turns of each kind."
)
@click.option(
    "--changes",
    type=click.IntRange(FEW_CHANGES, COUNT_MAX),
    default=MANY_CHANGES,
    show_default=True,
    help=f"How many remembered changes are compared with {FEW_CHANGES:,}.",
)
@click.option(
    "--completions",
    type=click.IntRange(1, COUNT_MAX),
    default=COMPLETIONS_DEFAULT,
    show_default=True,
    help="How many a late subscriber reads.",
)
def command(as_json: bool, turn: int, turns: int, changes: int, completions: int) -> None:
    """Commands: their rate beside plain transactions, look-ups among many, completions to a late subscriber.

    \b
    Example:
      rota bench commands --json

    Exit 0: measured. 1: a node could not be started. 2: wrong use.
    """
    figures = _measured(turn, turns, changes, completions)
    if as_json:
        print_json(_as_json(figures))
    else:
        _print(figures)


def measure() -> dict[str, object]:
    """The figures of a shorter run."""
    return _as_json(_measured(TURN_AMONG_OTHERS, 1, CHANGES_AMONG_OTHERS, COMPLETIONS_AMONG_OTHERS))


def show() -> None:
    """Tables of a shorter run."""
    _print(_measured(TURN_AMONG_OTHERS, 1, CHANGES_AMONG_OTHERS, COMPLETIONS_AMONG_OTHERS))


def _measured(turn: int, turns: int, changes: int, completions: int) -> Figures:
    def tell(text: str) -> None:
        click.echo(f"  {text}", err=True)

    try:
        tell_progress(f"{turns} turns of {turn:,} commands and of as many plain transactions")
        rates = measure_rates(turn, turns, tell)
        tell_progress(f"look-ups among {FEW_CHANGES:,} and {changes:,} changes")
        look_up = measure_look_up(FEW_CHANGES, changes, tell)
        tell_progress(f"{completions:,} completions to a late subscriber")
        return rates, look_up, measure_subscriber(completions, tell)
    except CannotStartProcess as error:
        raise click.ClickException(str(error)) from error


def _as_json(figures: Figures) -> dict[str, object]:
    rates, look_up, subscriber = figures
    return {"rates": asdict(rates), "look_up": asdict(look_up), "subscriber": asdict(subscriber)}


def _print(figures: Figures) -> None:
    rates, look_up, subscriber = figures
    table = Table(title="Commands", title_justify="left")
    table.add_column("figure")
    table.add_column("value", justify="right")
    table.add_row("plain transactions, a second", f"{rates.plain_median_per_s:.0f}")
    table.add_row("commands, a second", f"{rates.commands_median_per_s:.0f}")
    table.add_row("commands are slower by", f"{rates.apart_percent:.1f} %")
    table.add_row("processor time of a plain transaction", f"{rates.plain_processor_ms:.2f} ms")
    table.add_row("processor time of a command", f"{rates.commands_processor_ms:.2f} ms")
    table.add_row(f"look-up among {look_up.few:,} changes", f"{look_up.few_median_us:.0f} µs")
    table.add_row(f"look-up among {look_up.many:,} changes", f"{look_up.many_median_us:.0f} µs")
    table.add_row("that is times", f"{look_up.ratio:.2f}")
    table.add_row("completions to a late subscriber, a second", f"{subscriber.completions_per_s:.0f}")
    table.add_row("missing or repeated among them", f"{subscriber.gaps + subscriber.repeats}")
    Console().print(table)
