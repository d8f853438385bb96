"""`rota bench failover`: how long a contract stands still when its coordinator goes."""

from __future__ import annotations

from dataclasses import asdict
from typing import Final

import click
from rich.console import Console
from rich.table import Table

from rota.bench.failover import RUNS_DEFAULT, FaultFigures, measure_failover
from rota.cli.bench.printing import json_option, print_json, tell_progress

RUNS_MAX: Final = 1_000


@click.command()
@json_option
@click.option(
    "--runs",
    type=click.IntRange(1, RUNS_MAX),
    default=RUNS_DEFAULT,
    show_default=True,
    help="How often each fault happens, each time at another moment.",
)
def command(as_json: bool, runs: int) -> None:
    """From a kill, a hang or a cut of the coordinator to the next confirmed transaction, in simulated time."""
    if as_json:
        print_json(measure(runs))
    else:
        show(runs)


def measure(runs: int = RUNS_DEFAULT) -> dict[str, object]:
    """The figures by fault."""
    return {fault: asdict(figures) for fault, figures in _measured(runs).items()}


def show(runs: int = RUNS_DEFAULT) -> None:
    """A table."""
    table = Table(title="Simulated ms from the fault to the next confirmed transaction", title_justify="left")
    for name in ("coordinator", "runs", "p50", "p95"):
        table.add_column(name, justify="left" if name == "coordinator" else "right")
    for fault, figures in _measured(runs).items():
        table.add_row(fault, f"{figures.runs:,}", f"{figures.p50_ms:,}", f"{figures.p95_ms:,}")
    Console().print(table)


def _measured(runs: int) -> dict[str, FaultFigures]:
    tell_progress(f"fail-over, {runs:,} runs of each fault")
    return measure_failover(runs)
