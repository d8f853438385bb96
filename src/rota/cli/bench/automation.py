"""`rota bench automation`: what it costs that every node attempts every task."""

from __future__ import annotations

from dataclasses import asdict
from typing import Final

import click
from rich.console import Console
from rich.table import Table

from rota.bench.automation import TASKS_DEFAULT, AutomationFigures, measure_automation
from rota.cli.bench.printing import json_option, print_json, tell_progress

TASKS_LEAST: Final = 1
TASKS_MAX: Final = 10_000


@click.command()
@json_option
@click.option(
    "--tasks",
    type=click.IntRange(TASKS_LEAST, TASKS_MAX),
    default=TASKS_DEFAULT,
    show_default=True,
    help="How many tasks are measured for each size of a network.",
)
def command(as_json: bool, tasks: int) -> None:
    """Duplicate attempts and time to completion, by strategy, nodes, nodes down and duration; and a backlog.

    Simulated time and counts: the same on every machine.

    \b
    Example:
      rota bench automation --json

    Exit 0: measured. 1: it could not be. 2: wrong use.
    """
    if as_json:
        print_json(measure(tasks))
    else:
        show(tasks)


def measure(tasks: int = TASKS_DEFAULT) -> dict[str, object]:
    """The figures by name."""
    figures = _measured(tasks)
    return {"cells": [asdict(each) for each in figures.cells], "backlog": [asdict(each) for each in figures.backlog]}


def show(tasks: int = TASKS_DEFAULT) -> None:
    """Two tables."""
    figures = _measured(tasks)
    console = Console()
    cells = Table(title=f"{tasks:,} tasks one by one: duplicate attempts and seconds for each", title_justify="left")
    for name in ("strategy", "nodes", "down", "task s", "duplicates", "mean s", "p99 s"):
        cells.add_column(name, justify="left" if name == "strategy" else "right")
    for cell in figures.cells:
        numbers = (f"{cell.task_s:g}", f"{cell.duplicates:.3f}", f"{cell.mean_s:.2f}", f"{cell.p99_s:.2f}")
        cells.add_row(cell.strategy, f"{cell.nodes}", f"{cell.down}", *numbers)
    console.print(cells)
    backlogs = Table(title="Tasks that are there at once: seconds until all are done", title_justify="left")
    for name in ("strategy", "nodes", "tasks", "makespan s"):
        backlogs.add_column(name, justify="left" if name == "strategy" else "right")
    for each in figures.backlog:
        backlogs.add_row(each.strategy, f"{each.nodes}", f"{each.tasks}", f"{each.makespan_s:.1f}")
    console.print(backlogs)


def _measured(tasks: int) -> AutomationFigures:
    tell_progress(f"automation without a leader, {tasks:,} tasks in each of 48 networks, and backlogs")
    return measure_automation(tasks)
