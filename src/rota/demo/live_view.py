"""Shows the live demonstration: a changing picture on a terminal, a line for each event elsewhere."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from rota.demo.programme import Asset
from rota.demo.show import STAGES, Attempts, BurstTold, Happening, Show
from rota.demo.stage import print_pairs
from rota.model.types import NodeName

REFRESH_PER_S: Final = 8
GONE: Final = "gone"
STARTING: Final = "starting"
NUMBERS: Final = frozenset({"process", "asked", "confirmed", "epochs won", "lost", *STAGES, "per s", "gas each"})


class LiveView:
    """The view: `entered` shows it, `refresh` updates it, and `tell` shows an event."""

    def __init__(self, console: Console) -> None:
        self._console: Final = console
        self._live: Live | None = None
        self._show: Show | None = None

    @contextmanager
    def entered(self, show: Show) -> Iterator[None]:
        """Keep the picture on the terminal within the context; its last state stays there."""
        self._show = show
        if not self._console.is_terminal:
            yield
            return
        with Live(console=self._console, refresh_per_second=REFRESH_PER_S) as self._live:
            yield
        self._live = None

    def refresh(self) -> None:
        """Show the changed state."""
        if self._live is not None and self._show is not None:
            self._live.update(picture(self._show))

    async def keep_fresh(self) -> None:
        """Update the picture periodically, also without events; until cancelled."""
        while True:
            self.refresh()
            await asyncio.sleep(1 / REFRESH_PER_S)

    def tell(self, happening: Happening) -> None:
        """Show an event: on a terminal in the picture, below the tables; else as a line."""
        if self._console.is_terminal:
            self.refresh()
        else:
            self._console.print(_line(happening), soft_wrap=True)


def picture(show: Show) -> Group:
    """The nodes, the contracts that they share, and the latest events."""
    title = Text(f"Rota  {show.now_s:5.1f} s  ", "bold").append(show.phase, "bold yellow")
    contracts: list[RenderableType] = [Text(), _contracts(show)] if show.contracts else []
    return Group(title, Text(), _nodes(show), *contracts, Text(), *map(_line, show.happenings))


def _nodes(show: Show) -> Table:
    table = _table("node", "process", "asked", "confirmed", "epochs won", "lost", "is")
    for name in show.programme.names:
        attempts = show.attempts.get(name, Attempts())
        pid = show.pids.get(name)
        table.add_row(
            Text(name, "bold"),
            str(pid) if pid is not None else "",
            f"{show.sent[name]:,}",
            f"{show.confirmed[name]:,}",
            str(attempts.won),
            str(attempts.lost),
            _role(show, name),
        )
    return table


def _role(show: Show, name: NodeName) -> Text:
    if name not in show.pids:
        return Text(GONE, "bold red") if show.pids else Text(STARTING, "dim")
    led = [asset for asset in Asset if show.coordinator_of(asset) == name]
    if not led:
        return Text("member", "dim")
    return Text("leads " + " and ".join(asset.value for asset in led), "bold green")


def _contracts(show: Show) -> Table:
    table = _table("contract", "led by", *STAGES, "per s", "gas each")
    for asset in show.contracts:
        figures, stages = show.figures[asset], show.stages_of(asset)
        gas = figures.gas_per_transaction
        table.add_row(
            Text(asset.value, "bold"),
            show.coordinator_of(asset) or Text("nobody", "bold red"),
            *(str(count) for count in stages.values()),
            f"{figures.confirmed_per_s:.1f}",
            f"{gas:,.0f}" if gas is not None else "",
        )
    return table


def _table(*columns: str) -> Table:
    """A table for 80 columns; in fewer, cells are cut and lines are not broken."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in columns:
        head = Text(column, "dim")
        table.add_column(head, justify="right" if column in NUMBERS else "left", no_wrap=True, overflow="ellipsis")
    return table


def sum_up(console: Console, show: Show) -> None:
    """Print the result, at the end."""
    audited = show.audited
    console.print(Text("\nSummary", "bold"))
    rows = [
        (
            "intents",
            f"{sum(show.sent.values())} asked for, {audited.confirmed if audited else 0} confirmed exactly once",
        ),
        ("rounds", f"{audited.rounds if audited else 0} transactions on the chain"),
        ("gas", ", ".join(f"{_gas(show, asset)} for a transfer of the {asset.value}" for asset in Asset)),
        *(("in a burst", _burst(asset, told)) for asset in Asset if (told := show.figures[asset].burst) is not None),
        ("coordinators", f"{', then '.join(show.coordinators) or 'none'}, of the group"),
    ]
    for each in show.take_overs:
        successor = each.successor or "itself, when it was back"
        rows.append(
            (
                "take-over",
                f"{each.killed} killed, {successor} next: {each.stood_ms} ms to the next receipt; "
                f"back, {each.killed} needed {each.caught_up_ms} ms to its own",
            )
        )
    if show.attempts:
        counted = ", ".join(f"{name} {count}" for name, count in show.epochs_by_node.items())
        rows.append(("automation", f"{show.epochs} epochs, each started once, by the chain: {counted}"))
    if show.command is not None:
        rows.append(("command", f"submitted {show.command.submissions} times, happened once"))
    if audited is not None and not audited.problems:
        rows.append(
            ("agreement", f"all nodes stand at block {audited.height}; receipts and balances are as the chain says")
        )
    rows += [("problem", problem) for problem in show.problems]
    rows.append(("seconds", ", ".join(f"{phase} {took_s:.1f}" for phase, took_s in show.phases_s.items())))
    print_pairs(console, rows)


def _burst(asset: Asset, told: BurstTold) -> str:
    return (
        f"{told.gas_per_transaction:,.0f} for a transfer of the {asset.value}: "
        f"{told.transfers} at once took {told.rounds} transactions on the chain"
    )


def _gas(show: Show, asset: Asset) -> str:
    gas = show.figures[asset].gas_per_transaction
    return f"{gas:,.0f}" if gas is not None else "?"


def _line(happening: Happening) -> Text:
    style = "bold red" if happening.is_fault else ""
    return Text.assemble((f"{happening.at_s:7.2f}  ", "dim"), (happening.text, style))
