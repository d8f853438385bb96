"""`rota doctor`: checks a node and suggests fixes."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import click
from rich.console import Console
from rich.markup import escape
from rich.status import Status as Spinner
from rich.table import Table

from rota.cli.node_folder import password_file_option
from rota.cli.parameters import json_option
from rota.doctor import Finding, Means, Report, Status, examine
from rota.doctor.case import BLOCK_WAIT_S
from rota.keys.node_keys import read_password
from rota.keys.secret import Secret
from rota.server.configuration import NodeSection, password_of

WAIT_S_MAX: Final = 300

# What a terminal without these signs shows instead.
SIGNS: Final[Mapping[Status, tuple[str, str, str]]] = {
    Status.OK: ("✓", "+", "green"),
    Status.WARNING: ("!", "!", "yellow"),
    Status.FAILED: ("✗", "x", "bold red"),
    Status.SKIPPED: ("·", "-", "dim"),
}


@click.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path), default=".")
@password_file_option
@click.option(
    "--wait-s",
    type=click.FloatRange(0, WAIT_S_MAX),
    default=BLOCK_WAIT_S,
    show_default=True,
    help="How long to wait for a new block before the chain counts as quiet.",
)
@json_option
def command(folder: Path, password_file: Path | None, wait_s: float, as_json: bool) -> None:
    """Look a node over: its settings, keys, database, ledger, peers, clock, funds and ports.

    FOLDER is the node's, as `rota init` made it; left out, the current one. Nothing is changed, and the node may run
    meanwhile. Each problem is printed with a fix. A failed check does not keep the others from running.

    With --json: {"checks": [{"name", "status": "ok|warning|failed|skipped", "found", "mend"}], "ok": true|false}.

    \b
    Example:
      rota doctor ./node1
      rota doctor ./node1 --json

    Exit 0: all is well, warnings apart. 1: something has failed. 2: wrong use.
    """

    def password_for(section: NodeSection) -> Secret | None:
        """As for `rota node`, but without a prompt: a check must also work without a password."""
        return read_password(password_file) if password_file is not None else password_of(section)

    means = Means(password_for=password_for, block_wait_s=wait_s)
    report = asyncio.run(_examined(folder, means, as_json))
    if as_json:
        click.echo(json.dumps({"checks": [_shown(each) for each in report.findings], "ok": report.is_well}))
    else:
        _print(report)
    if not report.is_well:
        click.get_current_context().exit(1)


async def _examined(folder: Path, means: Means, as_json: bool) -> Report:
    """Show the current check at the terminal."""
    console = Console(stderr=True)
    if as_json or not console.is_terminal:
        return await examine(folder, means)
    with Spinner("Looking", console=console) as spinner:
        return await examine(folder, means, lambda name: spinner.update(f"Looking at {name}"))


def _shown(finding: Finding) -> dict[str, str]:
    return {"name": finding.name, "status": finding.status.value, "found": finding.found, "mend": finding.mend}


def _print(report: Report) -> None:
    console = Console(soft_wrap=False)
    is_plain = "utf" not in (sys.stdout.encoding or "").lower()
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for each in report.findings:
        sign, plain_sign, style = SIGNS[each.status]
        lines = [escape(each.found if not is_plain else _plain(each.found))]
        if each.mend:
            lines.append(f"[bold]{'->' if is_plain else '→'} {escape(each.mend)}[/bold]")
        table.add_row(f"[{style}]{plain_sign if is_plain else sign}[/]", escape(each.name), "\n".join(lines))
    console.print(table)
    counted = ", ".join(f"{report.count(status)} {status.value}" for status in Status if report.count(status))
    console.print(f"\n{'All is well' if report.is_well else 'Something has failed'}: {counted}.")


def _plain(text: str) -> str:
    return text.encode("ascii", "replace").decode()
