"""`rota bench node`: a node's memory after many transactions, and its start with a long past."""

from __future__ import annotations

from dataclasses import asdict
from typing import Final

import click
from rich.console import Console
from rich.table import Table

from rota.bench.node import (
    CONTRACTS_DEFAULT,
    FINAL_DEFAULT,
    PENDING_DEFAULT,
    TRANSACTIONS_DEFAULT,
    MemoryFigures,
    StartFigures,
    measure_memory,
    measure_start,
)
from rota.cli.bench.printing import json_option, print_json, tell_progress
from rota.localnet.children import CannotStartProcess

COUNT_MAX: Final = 10_000_000
CONTRACTS_MAX: Final = 100_000
TRANSACTIONS_AMONG_OTHERS: Final = 10_000
FINAL_AMONG_OTHERS: Final = 10_000


@click.command()
@json_option
@click.option(
    "--transactions",
    type=click.IntRange(10, COUNT_MAX),
    default=TRANSACTIONS_DEFAULT,
    show_default=True,
    help="After how many memory is compared with that after a tenth of them.",
)
@click.option(
    "--contracts",
    type=click.IntRange(1, CONTRACTS_MAX),
    default=CONTRACTS_DEFAULT,
    show_default=True,
    help="How many contracts the node that is started has.",
)
@click.option(
    "--final",
    "final_count",
    type=click.IntRange(0, COUNT_MAX),
    default=FINAL_DEFAULT,
    show_default=True,
    help="How many final intents it has, over all contracts.",
)
@click.option(
    "--pending",
    type=click.IntRange(0, COUNT_MAX),
    default=PENDING_DEFAULT,
    show_default=True,
    help="How many pending ones it has.",
)
def command(as_json: bool, transactions: int, contracts: int, final_count: int, pending: int) -> None:
    """Memory after many transactions, and the start of a node with a long past; real processes, SQLite.

    \b
    Example:
      rota bench node --json

    Exit 0: measured. 1: a node could not be started. 2: wrong use.
    """
    memory, start = _measured(transactions, contracts, final_count, pending)
    if as_json:
        print_json(_as_json(memory, start))
    else:
        _print(memory, start)


def measure() -> dict[str, object]:
    """The figures of a shorter run."""
    return _as_json(*_measured(TRANSACTIONS_AMONG_OTHERS, CONTRACTS_DEFAULT, FINAL_AMONG_OTHERS, PENDING_DEFAULT))


def show() -> None:
    """Tables of a shorter run."""
    _print(*_measured(TRANSACTIONS_AMONG_OTHERS, CONTRACTS_DEFAULT, FINAL_AMONG_OTHERS, PENDING_DEFAULT))


def _measured(transactions: int, contracts: int, final_count: int, pending: int) -> tuple[MemoryFigures, StartFigures]:
    def tell(text: str) -> None:
        click.echo(f"  {text}", err=True)

    try:
        tell_progress(f"memory after {transactions:,} transactions")
        memory = measure_memory(transactions, tell)
        tell_progress(f"the start with {contracts:,} contracts, {final_count:,} final and {pending:,} pending intents")
        return memory, measure_start(contracts, final_count, pending, tell)
    except CannotStartProcess as error:
        raise click.ClickException(str(error)) from error


def _as_json(memory: MemoryFigures, start: StartFigures) -> dict[str, object]:
    return {"memory": asdict(memory), "start": asdict(start)}


def _print(memory: MemoryFigures, start: StartFigures) -> None:
    table = Table(title="MiB of each node, nothing under way", title_justify="left")
    for name in ("node", f"after {memory.early_transactions:,}", f"after {memory.transactions:,}"):
        table.add_column(name, justify="left" if name == "node" else "right")
    for name, early_mib in memory.early_mib.items():
        table.add_row(name, f"{early_mib:,.1f}", f"{memory.late_mib[name]:,.1f}")
    console = Console()
    console.print(table)
    console.print(f"growth {memory.growth:.3f} at worst; {memory.transactions_per_s:,.0f} transactions a second")
    console.print(
        f"A node with {start.contract_count:,} contracts, {start.final_count:,} final and {start.pending_count:,} "
        f"pending intents is ready after {start.ready_ms:,} ms, and has confirmed the pending ones after "
        f"{start.settled_ms:,} ms."
    )
