"""`rota bench core`: what an intent costs in the pure core of all nodes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Final

import click
from rich.console import Console
from rich.table import Table

from rota.bench.core import (
    INTENTS_DEFAULT,
    NODES_DEFAULT,
    REPEATS_DEFAULT,
    CoreFigures,
    LoadFigures,
    loads_of,
    measure_core,
)
from rota.bench.idle import CONTRACTS_DEFAULT, IdleFigures, measure_idle
from rota.cli.bench.printing import describe_machine, json_option, print_json, tell_progress

INTENTS_MAX: Final = 5_000  # as many as one coordinator holds; more at once would measure how it refuses
NODES_MAX: Final = 9
REPEATS_MAX: Final = 100
CONTRACTS_MAX: Final = 10_000  # as many as a node keeps in memory
SHARE_SHOWN_MIN: Final = 0.01

Row = tuple[str, Callable[[LoadFigures], str], str]

ROWS: Final[tuple[Row, ...]] = (
    ("intents a second", lambda of: f"{of.intents_per_s:,.0f}", "if one processor did the core's work of all nodes"),
    ("µs of core", lambda of: f"{of.core_us_per_intent:,.0f}", "per intent: inside Node.step, all nodes together"),
    ("µs of driver", lambda of: f"{of.driver_us_per_intent:,.0f}", "per intent: outside of it, so not the core's"),
    ("slowest/fastest", lambda of: f"{of.slowest_to_fastest:.2f}", "run of those timed: 1 when the machine is quiet"),
    ("steps", lambda of: f"{of.steps_per_intent:.2f}", "per intent: events of the nodes"),
    ("machine events", lambda of: f"{of.machine_events_per_intent:.1f}", "per intent: events of their machines"),
    ("rows taken", lambda of: f"{of.rows_per_intent:.1f}", "per intent: of these, the ones not ignored"),
    ("messages", lambda of: f"{of.messages_per_intent:.2f}", "per intent: from one node to another"),
    ("bytes", lambda of: f"{of.bytes_per_intent:,.0f}", "per intent: of these messages, each encoded alone"),
    ("rounds", lambda of: f"{of.rounds:,}", "transactions on the base ledger"),
    ("mean round size", lambda of: f"{of.round_size_mean:.1f}", "intents in one of them"),
    ("blocks", lambda of: f"{of.blocks:,}", "mined, one whenever nothing else is left to do"),
    ("confirmed", lambda of: f"{of.confirmed:,}", "intents that ended well: all of them, or the figures mean nothing"),
)


@click.command()
@json_option
@click.option(
    "--intents",
    type=click.IntRange(1, INTENTS_MAX),
    default=INTENTS_DEFAULT,
    show_default=True,
    help="How many intents a load consists of.",
)
@click.option(
    "--nodes", type=click.IntRange(1, NODES_MAX), default=NODES_DEFAULT, show_default=True, help="How many nodes."
)
@click.option(
    "--repeats",
    type=click.IntRange(1, REPEATS_MAX),
    default=REPEATS_DEFAULT,
    show_default=True,
    help="How many timed runs of each load; the fastest counts.",
)
@click.option(
    "--contracts",
    type=click.IntRange(1, CONTRACTS_MAX),
    default=CONTRACTS_DEFAULT,
    show_default=True,
    help="How many idle contracts a node holds.",
)
def command(as_json: bool, intents: int, nodes: int, repeats: int, contracts: int) -> None:
    """What an intent costs in the pure core of all nodes: no network, no disk, no chain.

    \b
    Example:
      rota bench core --json

    Exit 0: measured. 1: it could not be. 2: wrong use.
    """
    if as_json:
        print_json({"machine": describe_machine(), "core": measure(intents, nodes, repeats, contracts)})
    else:
        show(intents, nodes, repeats, contracts)


def measure(
    intents: int = INTENTS_DEFAULT,
    nodes: int = NODES_DEFAULT,
    repeats: int = REPEATS_DEFAULT,
    contracts: int = CONTRACTS_DEFAULT,
) -> dict[str, object]:
    """The figures by name, idle contracts among them."""
    figures = _measured(intents, nodes, repeats)
    return {**asdict(figures), "idle": asdict(_measured_idle(contracts))}


def show(
    intents: int = INTENTS_DEFAULT,
    nodes: int = NODES_DEFAULT,
    repeats: int = REPEATS_DEFAULT,
    contracts: int = CONTRACTS_DEFAULT,
) -> None:
    """Tables, and what each figure means."""
    show_core(Console(), _measured(intents, nodes, repeats), intents)
    idle = _measured_idle(contracts)
    tick, block, connection = (f"{us:,.1f} µs" for us in (idle.tick_us, idle.block_us, idle.connection_us))
    Console().print(
        f"[bold]{idle.contracts:,} idle contracts[/bold] in one node: {idle.mib:,.0f} MiB; a tick takes {tick}, "
        f"a block {block}, a connection lost or made {connection}."
    )


def _measured_idle(contracts: int) -> IdleFigures:
    tell_progress(f"{contracts:,} idle contracts")
    return measure_idle(contracts)


def _measured(intents: int, nodes: int, repeats: int) -> CoreFigures:
    figures = measure_core(intents, nodes, repeats, tell_progress)
    if any(load.confirmed != load.intents for load in figures.loads.values()):
        raise click.ClickException("Not every intent was confirmed; the figures mean nothing.")
    return figures


def show_core(console: Console, figures: CoreFigures, intents: int) -> None:
    """Tables, and what each figure means."""
    console.print(_load_table(figures))
    for load in loads_of(intents):
        console.print(f"[bold]{load.name}[/bold]: {load.intents:,} intents, {load.meaning}.")
    for title, _, meaning in ROWS:
        console.print(f"[bold]{title}[/bold]: {meaning}.")
    console.print(
        f"[bold]growth[/bold] {figures.growth:.2f}: an intent's cost in a flood, in units of its cost in a steady "
        "load. Near 1, the core does not mind how much is in flight; if it grows with --intents, something walks "
        "through all of them."
    )
    console.print(_part_table(figures))
    selection = figures.selection
    console.print(
        f"[bold]selection[/bold] of {selection.members} members: {selection.cold_us:,.0f} µs for a committee never "
        f"seen, {selection.new_range_us:,.1f} µs for a new block range of a known one, {selection.kept_us:,.2f} µs "
        "asked again."
    )


def _load_table(figures: CoreFigures) -> Table:
    table = Table(title=f"The core of {figures.nodes} nodes, best of {figures.repeats}", title_justify="left")
    table.add_column("")
    for name in figures.loads:
        table.add_column(name, justify="right")
    for title, show, _ in ROWS:
        table.add_row(title, *(show(load) for load in figures.loads.values()))
    return table


def _part_table(figures: CoreFigures) -> Table:
    """Modules by their cost under load, without those below a hundredth everywhere."""
    table = Table(title="µs per intent by module, and their share of the core's time", title_justify="left")
    table.add_column("module")
    loads = figures.loads
    for name in loads:
        table.add_column(name, justify="right")
    parts = dict.fromkeys(part for name in ("loaded", *loads) for part in loads[name].parts)
    for part in parts:
        found = [load.parts.get(part) for load in loads.values()]
        if any(each is not None and each.share >= SHARE_SHOWN_MIN for each in found):
            table.add_row(part, *("" if p is None else f"{p.us_per_intent:,.1f} {p.share:5.1%}" for p in found))
    return table
