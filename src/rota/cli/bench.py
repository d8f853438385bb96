"""`rota bench`: measures on this machine, and says what each figure means."""

import json
import platform
import sys
from collections.abc import Callable
from dataclasses import asdict
from os import cpu_count
from typing import Final

import click
from rich.console import Console
from rich.table import Table

from rota.bench import gas as gas_bench
from rota.bench.core import (
    INTENTS_DEFAULT,
    NODES_DEFAULT,
    REPEATS_DEFAULT,
    CoreFigures,
    LoadFigures,
    loads_of,
    measure_core,
)
from rota.bench.ledger import CALLS_DEFAULT, LedgerFigures, measure_ledger

CALLS_MAX: Final = 15_000  # as many of one sender as the pool holds with room to spare
INTENTS_MAX: Final = 5_000  # as many as one coordinator holds; more at once would measure how it refuses
NODES_MAX: Final = 9
REPEATS_MAX: Final = 100
SHARE_SHOWN_MIN: Final = 0.01
FIGURE_DIGITS: Final = 4

Row = tuple[str, Callable[[LoadFigures], str], str]

ROWS: Final[tuple[Row, ...]] = (
    ("intents a second", lambda of: f"{of.intents_per_s:,.0f}", "if one processor did the core's work of all nodes"),
    ("µs of core", lambda of: f"{of.core_us_per_intent:,.0f}", "per intent: inside Node.step, all nodes together"),
    ("µs of driver", lambda of: f"{of.driver_us_per_intent:,.0f}", "per intent: outside of it, so not the core's"),
    ("slowest/fastest", lambda of: f"{of.slowest_to_fastest:.2f}", "run of those timed: 1 when the machine is quiet"),
    ("steps", lambda of: f"{of.steps_per_intent:.2f}", "per intent: events that the nodes were told"),
    ("machine events", lambda of: f"{of.machine_events_per_intent:.1f}", "per intent: what their machines were told"),
    ("rows taken", lambda of: f"{of.rows_per_intent:.1f}", "per intent: of these, what was not ignored"),
    ("messages", lambda of: f"{of.messages_per_intent:.2f}", "per intent: from one node to another"),
    ("rounds", lambda of: f"{of.rounds:,}", "transactions on the base ledger"),
    ("mean round size", lambda of: f"{of.round_size_mean:.1f}", "intents in one of them"),
    ("blocks", lambda of: f"{of.blocks:,}", "mined, one whenever nothing else is left to do"),
    ("confirmed", lambda of: f"{of.confirmed:,}", "intents that ended well: all of them, or the figures mean nothing"),
)


@click.group(invoke_without_command=True)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of tables.")
@click.pass_context
def command(context: click.Context, as_json: bool) -> None:
    """Measure on this machine; without a benchmark's name, run them all.

    docs/performance.md says what the figures mean and how the JSON is made up.
    """
    if context.invoked_subcommand is None:
        run_core(INTENTS_DEFAULT, NODES_DEFAULT, REPEATS_DEFAULT, as_json)
    elif as_json:
        raise click.UsageError("Put --json behind the benchmark's name.")


@command.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of tables.")
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
def core(as_json: bool, intents: int, nodes: int, repeats: int) -> None:
    """What an intent costs in the pure core of all nodes: no network, no disk, no chain."""
    run_core(intents, nodes, repeats, as_json)


@command.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of a table.")
def gas(as_json: bool) -> None:
    """What a transition costs on the chain, by the size of its round, beside Paladin's contracts."""
    run_gas(as_json)


def run_gas(as_json: bool) -> None:
    """Measure the contracts and print what was found."""
    figures = gas_bench.measure_gas(progress=lambda text: click.echo(f"measuring {text} ...", err=True))
    if as_json:
        click.echo(json.dumps(gas_bench.as_json(figures), indent=2))
    else:
        show_gas(Console(), figures)


def show_gas(console: Console, figures: gas_bench.GasFigures) -> None:
    """One row a load, one column a size, and Paladin's figure beside it."""
    table = Table(title="Gas per transition, by transitions in a round", title_justify="left")
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


def run_core(intents: int, nodes: int, repeats: int, as_json: bool) -> None:
    """Measure the core and print what was found."""
    figures = measure_core(intents, nodes, repeats, lambda text: click.echo(f"measuring {text} ...", err=True))
    if as_json:
        click.echo(json.dumps(_rounded({"machine": describe_machine(), "core": asdict(figures)}), indent=2))
    else:
        show_core(Console(), figures, intents)
    if any(load.confirmed != load.intents for load in figures.loads.values()):
        raise click.ClickException("Not every intent was confirmed; the figures mean nothing.")


@command.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of a table.")
@click.option(
    "--calls",
    type=click.IntRange(1, CALLS_MAX),
    default=CALLS_DEFAULT,
    show_default=True,
    help="How many calls each chain takes.",
)
def ledger(as_json: bool, calls: int) -> None:
    """How many contract calls a second a chain takes from one account: embedded, over HTTP, and Anvil."""
    figures = measure_ledger(calls, lambda text: click.echo(f"measuring {text} ...", err=True))
    if as_json:
        click.echo(json.dumps(_rounded({"machine": describe_machine(), **asdict(figures)}), indent=2))
    else:
        Console().print(_ledger_table(figures))


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


def describe_machine() -> dict[str, object]:
    """What the figures depend on besides Rota."""
    return {
        "python": platform.python_version(),
        "implementation": sys.implementation.name,
        "system": f"{platform.system()} {platform.machine()}",
        "processors": cpu_count(),
    }


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
    """Modules by what they cost under load; what is below a hundredth everywhere is left out."""
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


def _rounded(value: object) -> object:
    """Four digits: more would be noise."""
    match value:
        case float():
            return float(f"{value:.{FIGURE_DIGITS}g}")
        case dict():
            return {key: _rounded(inner) for key, inner in value.items()}
        case _:
            return value
