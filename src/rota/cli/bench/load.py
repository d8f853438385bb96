"""`rota bench load`: real nodes under different loads."""

from __future__ import annotations

from dataclasses import asdict
from typing import Final

import click
from rich.console import Console
from rich.table import Table

from rota.bench.load import (
    PAUSE_S_DEFAULT,
    PER_S_DEFAULT,
    PHASES,
    SECONDS_DEFAULT,
    STORE_DEFAULT,
    LoadConditions,
    LoadPhase,
    NetworkFigures,
    measure_load,
)
from rota.bench.workloads import WORKLOADS
from rota.cli.bench.printing import json_option, print_json, tell_progress
from rota.localnet.children import CannotStartProcess

AMONG_OTHERS: Final = LoadConditions(seconds=10, pause_s=2)
BLOCK_MS_MAX: Final = 60_000


@click.command()
@json_option
@click.option(
    "--domain",
    "domains",
    type=click.Choice(tuple(WORKLOADS)),
    multiple=True,
    help="Whose transactions; may be given several times.  [default: all]",
)
@click.option(
    "--phase",
    "phases",
    type=click.Choice(PHASES),
    multiple=True,
    help="Which loads; may be given several times.  [default: all]",
)
@click.option(
    "--seconds",
    type=click.FloatRange(1, 3_600),
    default=SECONDS_DEFAULT,
    show_default=True,
    help="How long each steady load is measured.",
)
@click.option(
    "--rate",
    type=click.FloatRange(0.1, 10_000),
    default=PER_S_DEFAULT,
    show_default=True,
    help="Transactions a second of the moderate load.",
)
@click.option(
    "--pause",
    type=click.FloatRange(0, 3_600),
    default=PAUSE_S_DEFAULT,
    show_default=True,
    help="Seconds before each transaction of the paused load.",
)
@click.option(
    "--block-ms",
    type=click.IntRange(0, BLOCK_MS_MAX),
    default=0,
    show_default=True,
    help="Milliseconds between blocks; 0: a block with each transaction.",
)
@click.option(
    "--store",
    default=STORE_DEFAULT,
    show_default=True,
    help="Where nodes keep their data; {node} stands for a node's name, as in postgresql://rota@localhost/{node}.",
)
def command(
    as_json: bool,
    domains: tuple[str, ...],
    phases: tuple[str, ...],
    seconds: float,
    rate: float,
    pause: float,
    block_ms: int,
    store: str,
) -> None:
    """Real nodes under loads from one transaction to twice what they can do: rate, latency, processor time, gas.

    Three nodes in processes of their own, mutual TLS, an embedded chain.

    \b
    Example:
      rota bench load --domain noto --phase lone --phase paused --pause 60
      rota bench load --domain pente --phase moderate --block-ms 2000 --json

    Exit 0: measured. 1: a node could not be started. 2: wrong use.
    """
    _require_store(store)
    conditions = LoadConditions(seconds, rate, pause, block_ms, store)
    figures = _measured(domains or tuple(WORKLOADS), phases or PHASES, conditions)
    if as_json:
        print_json(asdict(figures))
    else:
        _print(figures)


def measure() -> dict[str, object]:
    """The figures of a shorter run."""
    return asdict(_measured(tuple(WORKLOADS), PHASES, AMONG_OTHERS))


def show() -> None:
    """Tables of a shorter run."""
    _print(_measured(tuple(WORKLOADS), PHASES, AMONG_OTHERS))


def _require_store(store: str) -> None:
    try:
        named = store.format(node="node1")
    except (IndexError, KeyError, ValueError):
        raise click.UsageError("--store: {node} is the only name that may stand in braces") from None
    if not named.startswith("sqlite:") and named == store:
        raise click.UsageError("--store: must contain {node}, because each node has a database of its own")


def _measured(domains: tuple[str, ...], phases: tuple[str, ...], conditions: LoadConditions) -> NetworkFigures:
    tell_progress(f"{', '.join(domains)} under the loads {', '.join(phases)}, {conditions.seconds:g} s each")
    try:
        return measure_load(domains, phases, conditions, lambda text: click.echo(f"  {text}", err=True))
    except CannotStartProcess as error:
        raise click.ClickException(str(error)) from error


def _print(figures: NetworkFigures) -> None:
    console = Console()
    for domain, phases in figures.domains.items():
        table = Table(title=f"{domain}: transactions, and microseconds of processor for each", title_justify="left")
        latencies, processor = ("p50 ms", "p95 ms", "p99 ms"), ("busiest node", "other nodes", "chain")
        for name in ("load", "a second", "refused", *latencies, *processor, "in a round", "gas"):
            table.add_column(name, justify="left" if name == "load" else "right")
        for phase, found in phases.items():
            table.add_row(phase, *_cells(found))
        console.print(table)


def _cells(found: LoadPhase) -> tuple[str, ...]:
    latencies = (found.p50_ms, found.p95_ms, found.p99_ms)
    processor = (found.busiest_us, found.other_us, found.chain_us)
    return (
        f"{found.per_s:,.1f}",
        f"{found.refused:,}",
        *("" if each is None else f"{each:,.0f}" for each in (*latencies, *processor)),
        "" if found.per_round is None else f"{found.per_round:.1f}",
        "" if found.gas is None else f"{found.gas:,.0f}",
    )
