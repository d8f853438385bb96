"""Shows a performance: in colour and at a pace on a terminal, as plain text elsewhere."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Final

from rich.console import Console
from rich.text import Text

from rota.demo.scenario import Performance, Played, Scene, abridged
from rota.model.types import Mode
from rota.sim.diagram import KILLED, STARTED, Row, columns, grouped
from rota.sim.invariants import SAFETY

NODE_COLOURS: Final = ("cyan", "magenta", "green", "yellow", "blue", "red")
WHO_WIDTH_MAX: Final = 16
DIAGRAM_LINES_MAX: Final = 60
INDENT: Final = "  "
READING_S: Final = 2.0  # for the explanation of a scene
ROW_S: Final = 0.085
DIAGRAM_ROW_S: Final = 0.05


@dataclass(slots=True)
class Pace:
    """The pace of the output: a reader's, or simulated time at a speed; 0 does not wait at all."""

    sleep: Callable[[float], None]
    speed: float | None = None
    shown_ms: int = 0

    def wait_for_reader(self, seconds: float) -> None:
        """Wait for a reader; simulated time does not."""
        if self.speed is None:
            self.sleep(seconds)

    def wait_until(self, at_ms: int) -> None:
        """Wait until the simulated time of the next line."""
        passed_ms, self.shown_ms = at_ms - self.shown_ms, at_ms
        if self.speed is None:
            self.sleep(ROW_S)
        elif self.speed > 0 and passed_ms > 0:
            self.sleep(passed_ms / 1000 / self.speed)


class Stage:
    """Shows a performance on a console."""

    def __init__(self, console: Console, pace: Pace, performance: Performance, has_steps: bool = False) -> None:
        self.console = console
        self.pace = pace
        self.performance = performance
        colours = len(NODE_COLOURS)
        self.colours: dict[str, str] = {name: NODE_COLOURS[i % colours] for i, name in enumerate(performance.nodes)}
        steps = [step for _, played in performance.scenes for step in played]
        self.rows = {
            step.command.line: grouped(step.happenings if has_steps else abridged(step.happenings)) for step in steps
        }
        widest = max((len(row.who) for rows in self.rows.values() for row in rows), default=1)
        self.who_width = min(widest, WHO_WIDTH_MAX)

    def show(self, next_steps: Sequence[tuple[str, str]]) -> None:
        """Show everything, from the headline to the next steps."""
        self._show_headline()
        self._show_ranking()
        for scene, played in self.performance.scenes:
            self._show_scene(scene, played)
        self._show_diagram()
        self._show_summary()
        self._title("Try next")
        self._pairs(next_steps)

    # The opening.

    def _show_headline(self) -> None:
        title, *more = self.performance.scenario.headline or ("A script of your own",)
        for line in wrap(f"Rota: {title}", self.console.width):
            self._print(Text(line, "bold"))
        self._prose(" ".join(more))
        self._prose(
            "Every node below runs Rota's real core; the clock, the network, the disks and the ledger are simulated, "
            "so that each run is the same. Times are simulated seconds; ◆ marks a change of a coordinator's state, ✗ a "
            "message that is lost."
        )
        self.pace.wait_for_reader(READING_S)

    def _show_ranking(self) -> None:
        self._title("Whose turn is it?")
        contract = self.performance.run.contract
        if contract.mode is Mode.SENDER:
            self._prose("This contract's mode is sender: each node coordinates its own intents.")
            return
        self._prose(
            f"For every range of {contract.range_size} blocks, each node computes the same ranking from the "
            "committee's names, the contract's address and the range's number. The first coordinates; if it is "
            "gone, the next does."
        )
        for number, ranking in self.performance.rankings:
            line = Text(f"{INDENT}range {number}:  ")
            for place, name in enumerate(ranking, 1):
                line.append(f"{place}. ").append(name, self._node_style(name)).append("   ")
            line.rstrip()
            self._print(line)
        self.pace.wait_for_reader(READING_S)

    # The scenes.

    def _show_scene(self, scene: Scene, played: Sequence[Played]) -> None:
        if scene.title:
            self._title(scene.title)
            self._prose(scene.explanation)
            self.pace.wait_for_reader(READING_S)
        self._print(Text())
        for step in played:
            self.pace.wait_until(step.at_ms)
            style = "bold red" if step.command.text.startswith("crash ") else "bold blue"
            self._print(Text(f"{INDENT}> {step.command.text}", style))
            for row in self.rows[step.command.line]:
                if row.text not in (KILLED, STARTED):
                    self.pace.wait_until(row.at_ms)
                    self._show_row(row)

    def _show_row(self, row: Row) -> None:
        """Show mark, time, actor and event; a long text continues below."""
        mark, style = _manner(row)
        line = Text().append(f"{mark} ", style)
        line.append(f"{row.at_ms / 1000:7.3f}  ", "dim").append(self._who(row)).append("  ")
        text = f"{row.text}, lost" if row.is_lost else row.text
        first, *others = wrap(text, max(20, self.console.width - len(line.plain))) or [""]
        indent = " " * len(line.plain)
        self._print(line.append(first, style))
        for other in others:
            self._print(Text(indent).append(other, style))

    def _who(self, row: Row) -> Text:
        who = Text()
        for word in re.split("( )", row.who):
            who.append(word, self._node_style(word) if word in self.colours else "dim")
        who.append(" " * (self.who_width - len(row.who)))
        return who

    # The diagram.

    def _show_diagram(self) -> None:
        performance = self.performance
        lines = columns(performance.story, performance.nodes, self.console.width - len(INDENT))
        killed = f"from the kill of {performance.killed[0][1]} to the next dispatch" if performance.killed else ""
        self._title(f"The fail-over, {killed}" if killed else "Who spoke to whom")
        self._prose("● sends, ► receives, ✗ is lost, ■ changes, † is killed, ┄ concerns all.")
        self._print(Text())
        for line in lines[:DIAGRAM_LINES_MAX]:
            self.pace.wait_for_reader(DIAGRAM_ROW_S)
            self._print(self._coloured(line))
        left_out = len(lines) - DIAGRAM_LINES_MAX
        if left_out > 0:
            self._prose(f"… and {left_out} more; --mermaid FILE writes all of them.")
        self.pace.wait_for_reader(READING_S)

    def _coloured(self, line: str) -> Text:
        text = Text(INDENT + line)
        text.highlight_regex("■|coordinator: .*", "bold")
        text.highlight_regex("coordinator: .*→ Active", "reverse")
        text.highlight_regex(r"✗|†|\S+ is killed", "bold red")
        text.highlight_regex("^ +[0-9]+[.][0-9]{3}", "dim")
        text.highlight_regex("[●►◄]", "bold cyan")
        return text

    # The end.

    def _show_summary(self) -> None:
        performance = self.performance
        summary = performance.summary()
        failover = performance.failover_ms
        lines = [
            ("intents", f"{summary['intents']} submitted, {summary['confirmed']} confirmed exactly once"),
            ("dispatches", f"{summary['dispatches']} transactions to the ledger"),
            ("messages", f"{summary['messages']} between nodes, every heartbeat and repetition among them"),
            ("coordinators", ", then ".join(performance.coordinators) or "none"),
        ]
        if performance.killed:
            took = (
                "no dispatch after the kill"
                if failover is None
                else f"{failover} simulated ms from the kill to the next dispatch"
            )
            lines.append(("fail-over", took))
        found = "; ".join(performance.violations)
        lines.append(("invariants", f"{' '.join(checked_invariants())} checked, {found or 'none violated'}"))
        self._title("Summary")
        self._pairs(lines)

    # Printing.

    def _title(self, text: str) -> None:
        self._print(Text())
        self._print(Text(text, "bold underline" if self.console.is_terminal else ""))
        if not self.console.is_terminal:
            self._print(Text("-" * min(len(text), self.console.width)))

    def _prose(self, text: str) -> None:
        for line in wrap(text, self.console.width - 2 * len(INDENT)):
            self._print(Text(INDENT + line))

    def _pairs(self, pairs: Sequence[tuple[str, str]]) -> None:
        print_pairs(self.console, pairs)

    def _print(self, text: Text) -> None:
        self.console.print(text, soft_wrap=True)

    def _node_style(self, name: str) -> str:
        return f"bold {self.colours[name]}"


def print_pairs(console: Console, pairs: Sequence[tuple[str, str]]) -> None:
    """Print two columns; a text that is too long for the first has a line of its own."""
    first = min(max((len(left) for left, _ in pairs), default=0), console.width // 2)
    for left, right in pairs:
        line = Text(INDENT).append(left, "bold cyan").append(" " * (first - len(left)))
        if len(left) > first:
            console.print(line, soft_wrap=True)
            line = Text(INDENT + " " * first)
        indent = " " * (len(INDENT) + first + 2)
        for number, part in enumerate(wrap(right, max(20, console.width - len(indent))) or [""]):
            console.print(line.append(f"  {part}") if number == 0 else Text(indent + part), soft_wrap=True)


def checked_invariants() -> list[str]:
    """The names of the safety invariants, from their checkers."""
    return list(dict.fromkeys(invariant.name for invariant in SAFETY))


def _manner(row: Row) -> tuple[str, str]:
    """The mark and style of a row: a coordinator's state stands out, an intent's steps are dimmed."""
    if row.text.startswith("coordinator: "):
        return "◆", "bold reverse" if row.text.endswith("→ Active") else "bold"
    if row.is_lost:
        return "✗", "red"
    if row.targets:
        return " ", ""
    if not row.sources:
        return " ", "bold green" if row.text.startswith("block ") or "reports" in row.text else ""
    return " ", "bold" if row.text.startswith("dispatches ") else "dim"
