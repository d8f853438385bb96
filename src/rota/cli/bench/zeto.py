"""`rota bench zeto`: zero-knowledge proofs, circuit by circuit."""

from __future__ import annotations

from dataclasses import asdict
from typing import Final

import click
from rich.console import Console
from rich.table import Table

from rota.bench.zeto import PROOFS_DEFAULT, ZetoFigures, measure_zeto
from rota.bench.zeto_transfers import TRANSFERS_DEFAULT, TransferFigures, measure_transfers
from rota.cli.bench.printing import describe_machine, json_option, print_json, tell_progress
from rota.prover.curve import CurveMissing

PROOFS_MAX: Final = 1_000
TRANSFERS_MAX: Final = 10_000


@click.command()
@json_option
@click.option(
    "--proofs",
    type=click.IntRange(1, PROOFS_MAX),
    default=PROOFS_DEFAULT,
    show_default=True,
    help="How many proofs are made for each circuit; the least time counts.",
)
@click.option(
    "--transfers",
    type=click.IntRange(1, TRANSFERS_MAX),
    default=TRANSFERS_DEFAULT,
    show_default=True,
    help="How many transfers an owner makes of each kind of token.",
)
def command(as_json: bool, proofs: int, transfers: int) -> None:
    """How long zero-knowledge proofs take on one core, and how many transfers an owner makes a second.

    Needs the extra `zeto`.

    \b
    Example:
      rota bench zeto --json

    Exit 0: measured. 1: it could not be. 2: wrong use.
    """
    try:
        figures = measure_zeto(proofs, progress=tell_progress)
        paid = measure_transfers(transfers, progress=tell_progress)
    except CurveMissing as error:
        raise click.ClickException(str(error)) from error
    if as_json:
        print_json({"machine": describe_machine(), **_as_json(figures, paid)})
    else:
        _print(figures, paid)


def measure() -> dict[str, object]:
    """The figures of each circuit and of transfers; where the extra is not installed, that it is not."""
    try:
        return _as_json(measure_zeto(progress=tell_progress), measure_transfers(progress=tell_progress))
    except CurveMissing as error:
        return {"missing": str(error)}


def show() -> None:
    """A table."""
    try:
        _print(measure_zeto(progress=tell_progress), measure_transfers(progress=tell_progress))
    except CurveMissing as error:
        click.echo(str(error))


def _as_json(figures: ZetoFigures, paid: tuple[TransferFigures, ...]) -> dict[str, object]:
    return {**asdict(figures), "transfers": [asdict(each) for each in paid]}


def _print(figures: ZetoFigures, paid: tuple[TransferFigures, ...]) -> None:
    table = Table(title="Zero-knowledge proofs, seconds of one core", title_justify="left")
    for name in ("circuit", "constraints", "key", "read", "traced", "proved", "checked"):
        table.add_column(name, justify="left" if name == "circuit" else "right")
    for of in figures.circuits:
        seconds = (of.read_s, of.traced_s, of.proved_s, of.checked_s)
        table.add_row(
            of.circuit,
            f"{of.constraints:,}",
            f"{of.key_bytes / 1_000_000:.2f} MB",
            f"{seconds[0]:.1f}",
            *(f"{each:.3f}" for each in seconds[1:]),
        )
    console = Console()
    console.print(table)
    console.print(f"With all keys read the process had {figures.memory_mib:.0f} MiB.")
    sent, got = figures.encrypted_us, figures.decrypted_us
    console.print(f"A coin is encrypted to its owner in {sent:,.0f} µs, and decrypted in {got:,.0f} µs.")
    for each in paid:
        how = "gathered" if each.gathered else "at once"
        console.print(
            f"{each.token}, {how}: one owner made {each.transfers} transfers in {each.seconds:.1f} s, "
            f"{each.per_s:.2f} a second, with {each.processor_s:.2f} s of a core each, in {each.rounds} rounds, for "
            f"{each.gas:,.0f} gas each."
        )
