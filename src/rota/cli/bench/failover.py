"""`rota bench failover`: how long a contract stands still when its coordinator goes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Final

import click
from rich.console import Console
from rich.table import Table

from rota.bench import failover, simulated_failover
from rota.bench.failover import RUNS_DEFAULT as RUNS
from rota.bench.failover import Fault, FaultFigures, NotMeasured
from rota.bench.simulated_failover import RUNS_DEFAULT as SIMULATED_RUNS
from rota.cli.bench.printing import json_option, print_json, tell_progress
from rota.localnet.children import CannotStartProcess

RUNS_MAX: Final = 1_000
RUNS_AMONG_OTHERS: Final = 5

Measured = Mapping[str, FaultFigures | NotMeasured]


@click.command()
@json_option
@click.option("--simulated", is_flag=True, help="The core in simulated time, with 100 ms round trips between nodes.")
@click.option(
    "--runs",
    type=click.IntRange(1, RUNS_MAX),
    help=f"How often each fault happens.  [default: {RUNS}, simulated {SIMULATED_RUNS}]",
)
@click.option(
    "--fault",
    "faults",
    type=click.Choice([fault.value for fault in Fault]),
    multiple=True,
    help="Only this one; may be given several times.",
)
def command(as_json: bool, simulated: bool, runs: int | None, faults: tuple[str, ...]) -> None:
    """From a kill, a hang or a cut of the coordinator to the next confirmed transaction.

    Five nodes in processes of their own, three of whose endorsements are needed, on a chain that mines at once. A run
    takes some seconds. The cut needs root, for network namespaces; without it, the measurement is skipped with a note.

    \b
    Example:
      rota bench failover --json

    Exit 0: measured, as far as possible. 1: the network could not be started. 2: wrong use.
    """
    wanted = tuple(fault for fault in Fault if not faults or fault.value in faults)
    measured = _simulated(runs, wanted) if simulated else _real(runs or RUNS, wanted)
    if as_json:
        print_json(_as_json(measured))
    else:
        _print(measured, "Simulated ms" if simulated else "ms")


def measure() -> dict[str, object]:
    """The figures by fault, of a few runs."""
    return _as_json(_real(RUNS_AMONG_OTHERS, tuple(Fault)))


def show() -> None:
    """A table, of a few runs."""
    _print(_real(RUNS_AMONG_OTHERS, tuple(Fault)), "ms")


def _real(runs: int, faults: tuple[Fault, ...]) -> Measured:
    tell_progress(f"fail-over, {runs:,} runs of each fault")
    try:
        return failover.measure_failover(runs, faults, lambda text: click.echo(f"  {text}", err=True))
    except CannotStartProcess as error:
        raise click.ClickException(str(error)) from error


def _simulated(runs: int | None, faults: tuple[Fault, ...]) -> Measured:
    runs = runs or SIMULATED_RUNS
    tell_progress(f"fail-over in simulated time, {runs:,} runs of each fault")
    return simulated_failover.measure_failover(runs, faults)


def _as_json(measured: Measured) -> dict[str, object]:
    return {fault: asdict(figures) for fault, figures in measured.items()}


def _print(measured: Measured, unit: str) -> None:
    table = Table(title=f"{unit} from the fault to the next confirmed transaction", title_justify="left")
    for name in ("coordinator", "runs", "p50", "p95", "longest"):
        table.add_column(name, justify="left" if name == "coordinator" else "right")
    for fault, figures in measured.items():
        match figures:
            case FaultFigures(runs, p50_ms, p95_ms, max_ms):
                table.add_row(fault, f"{runs:,}", f"{p50_ms:,}", f"{p95_ms:,}", f"{max_ms:,}")
            case NotMeasured(error):
                table.add_row(fault, error)
    Console().print(table)
