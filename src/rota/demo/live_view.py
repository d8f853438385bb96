"""Shows the live demonstration: a table that changes on a terminal, a line for each happening anywhere else."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from rota.client import ContractStatus
from rota.demo.live import NAMES, Happening, Show

REFRESH_PER_S: Final = 8
GONE: Final = "gone"
STARTING: Final = "starting"


class LiveView:
    """`entered` shows; `refresh` and `tell` are what the show calls."""

    def __init__(self, console: Console) -> None:
        self._console: Final = console
        self._live: Live | None = None
        self.show: Final = Show(self.tell)

    @contextmanager
    def entered(self) -> Iterator[None]:
        """The table is on the terminal until this is left, and its last state stays there."""
        if not self._console.is_terminal:
            yield
            return
        with Live(console=self._console, refresh_per_second=REFRESH_PER_S) as self._live:
            yield
        self._live = None

    def refresh(self) -> None:
        """The show has changed."""
        if self._live is not None:
            self._live.update(self._drawn())

    async def keep_fresh(self) -> None:
        """Show that time passes, also while nothing happens; until cancelled."""
        while True:
            self.refresh()
            await asyncio.sleep(1 / REFRESH_PER_S)

    def tell(self, happening: Happening) -> None:
        """On a terminal it stands below the table."""
        if self._console.is_terminal:
            self.refresh()
        else:
            self._console.print(_line(happening), soft_wrap=True)

    def sum_up(self) -> None:
        """What came of it, at the end."""
        show = self.show
        audited = show.audited
        self._console.print(Text("\nSummary", "bold"))
        rows = [
            (
                "intents",
                f"{sum(show.sent.values())} asked for, {audited.confirmed if audited else 0} confirmed exactly once",
            ),
            ("rounds", f"{audited.rounds if audited else 0} transactions on the chain"),
            ("coordinators", ", then ".join(show.coordinators) or "none"),
        ]
        for each in show.take_overs:
            successor = each.successor or "itself, when it was back"
            rows.append(
                ("take-over", f"{each.killed} killed, {successor} next: {each.stood_ms} ms to the next receipt")
            )
        if audited is not None and not audited.problems:
            rows.append(
                ("agreement", f"all nodes stand at block {audited.height}, and every receipt is as the chain says")
            )
        for name, text in rows:
            self._console.print(Text(f"  {name:<14}", "bold cyan").append(text, ""), soft_wrap=True)

    def _drawn(self) -> Group:
        show = self.show
        table = Table(title=f"Rota: three nodes, one contract. {show.phase}.", title_justify="left")
        for name in ("node", "process", "is", "asked", "confirmed", "its own under way", "coordinates"):
            table.add_column(name, justify="right" if name in ("process", "asked", "confirmed") else "left")
        for name in NAMES:
            status = show.statuses.get(name)
            pid = show.pids.get(name)
            table.add_row(
                Text(name, "bold"),
                str(pid) if pid is not None and status is not None else "",
                _role(status, is_known=pid is not None or name in show.statuses),
                f"{show.sent[name]:,}",
                f"{show.confirmed[name]:,}",
                _counted(status.sending if status is not None else {}),
                _counted(status.coordinating if status is not None else {}),
            )
        rate = Text(f"{show.confirmed_per_s:5.1f} confirmed a second, {show.now_s:5.1f} s since the start", "green")
        return Group(table, rate, *map(_line, show.happenings))


def _role(status: ContractStatus | None, *, is_known: bool) -> Text:
    if status is None:
        return Text(GONE, "bold red") if is_known else Text(STARTING, "dim")
    style = "bold green" if status.coordinator_state == "Active" else "dim"
    return Text(status.coordinator_state, style)


def _counted(states: dict[str, int]) -> str:
    return "  ".join(f"{state} {count}" for state, count in states.items())


def _line(happening: Happening) -> Text:
    line = Text(f"{happening.at_s:7.2f}  ", "dim")
    return line.append(happening.text, "bold red" if happening.is_fault else "")
