"""`rota bench`: measures on this machine and explains each figure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

import click

from rota.cli.bench import (
    api,
    automation,
    commands,
    core,
    dashboard,
    failover,
    gas,
    ledger,
    load,
    node,
    overload,
    pente,
    wan,
    zeto,
)
from rota.cli.bench.printing import describe_machine, print_json


class Benchmark(NamedTuple):
    """One benchmark: its own command, and what `rota bench` alone runs and prints."""

    command: click.Command
    measure: Callable[[], dict[str, object]]
    show: Callable[[], None]


BENCHMARKS: Final = {
    "core": Benchmark(core.command, core.measure, core.show),
    "wan": Benchmark(wan.command, wan.measure, wan.show),
    "failover": Benchmark(failover.command, failover.measure, failover.show),
    "node": Benchmark(node.command, node.measure, node.show),
    "load": Benchmark(load.command, load.measure, load.show),
    "overload": Benchmark(overload.command, overload.measure, overload.show),
    "api": Benchmark(api.command, api.measure, api.show),
    "commands": Benchmark(commands.command, commands.measure, commands.show),
    "gas": Benchmark(gas.command, gas.measure, gas.show),
    "ledger": Benchmark(ledger.command, ledger.measure, ledger.show),
    "pente": Benchmark(pente.command, pente.measure, pente.show),
    "zeto": Benchmark(zeto.command, zeto.measure, zeto.show),
    "automation": Benchmark(automation.command, automation.measure, automation.show),
    "dashboard": Benchmark(dashboard.command, dashboard.measure, dashboard.show),
}


@click.group(invoke_without_command=True)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of tables.")
@click.pass_context
def command(context: click.Context, as_json: bool) -> None:
    """Measure on this machine; without a benchmark's name, run them all, which takes a few minutes.

    docs/performance.md explains the figures and the JSON.

    \b
    Example:
      rota bench
      rota bench core --json

    Exit 0: measured. 1: it could not be. 2: wrong use.
    """
    if context.invoked_subcommand is None:
        run_all(as_json)
    elif as_json:
        raise click.UsageError("Put --json behind the benchmark's name.")


def run_all(as_json: bool) -> None:
    """Every benchmark, one after the other."""
    if as_json:
        measured = {name: benchmark.measure() for name, benchmark in BENCHMARKS.items()}
        print_json({"machine": describe_machine(), **measured})
        return
    for benchmark in BENCHMARKS.values():
        benchmark.show()
        click.echo()


for name, benchmark in BENCHMARKS.items():
    command.add_command(benchmark.command, name)
