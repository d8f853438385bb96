"""Sequence diagrams of happenings: for a terminal, and for Mermaid.

Everything here is a function of happenings: nothing is printed, and only happenings of nodes that the caller did not
ask for are omitted. For a shorter diagram pass fewer happenings.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from rota.sim.transcript import Happening

# The texts of happenings that end and begin a node's lifeline.
KILLED: Final = "is killed"
STARTED: Final = "is started"

ELLIPSIS: Final = "…"
GUTTER: Final = 9  # columns for the time and a gap
PITCH_LEAST: Final = 3  # columns from one lifeline to the next: a line, an arrow's head, a lifeline
PITCH_MOST: Final = 12
NAME_LONGEST: Final = 8  # longer names are cut
TEXT_WANTED: Final = 38  # lifelines move apart only when the text has this much
TEXT_LEAST: Final = 14  # with less than this for the text, no lifelines are drawn

LOST: Final = "  [lost]"
HELD: Final = "  [held]"


class Row(NamedTuple):
    """Happenings of one instant that are shown as one: one sender to many targets, or many to one."""

    at_ms: int
    sources: tuple[str, ...]
    targets: tuple[str, ...]
    text: str
    is_lost: bool = False

    @property
    def who(self) -> str:
        """The participants as text: `A`, `A → B C`, or empty."""
        return " ".join(self.sources) + (f" → {' '.join(self.targets)}" if self.targets else "")


def grouped(happenings: Iterable[Happening]) -> list[Row]:
    """Happenings as rows: the same message to or from several nodes, and consecutive steps of a node, are joined."""
    rows: list[Row] = []
    instant = 0
    for happening in happenings:
        row = _row(happening)
        if rows and rows[-1].at_ms != row.at_ms:
            instant = len(rows)
        for place in range(instant, len(rows)):
            joined = _joined(rows[place], row)
            if joined is not None:
                rows[place] = joined
                break
        else:
            rows.append(row)
    return rows


def _row(happening: Happening) -> Row:
    sources = (happening.source,) if happening.source else ()
    targets = (happening.target,) if happening.target else ()
    text = happening.text.removesuffix(LOST)
    return Row(happening.at_ms, sources, targets, text, is_lost=text != happening.text)


def _joined(row: Row, new: Row) -> Row | None:
    """Both rows as one, if the joined row shows nothing that did not happen; else None."""
    if not new.targets:
        return _continued(row, new)
    if not row.targets or (row.text, row.is_lost) != (new.text, new.is_lost):
        return None
    if row.sources == new.sources and new.targets[0] not in row.targets:
        return row._replace(targets=row.targets + new.targets)
    if row.targets == new.targets and new.sources[0] not in row.sources:
        return row._replace(sources=row.sources + new.sources)
    return None


def _continued(row: Row, new: Row) -> Row | None:
    """Join `A-1: Pending → Delegated` with a following `A-1: Delegated → Assembling`; None if they do not fit."""
    subject, _, change = new.text.partition(": ")
    before, arrow, after = change.partition(" → ")
    goes_on = row.text.startswith(f"{subject}: ") and row.text.endswith(f" → {before}")
    if row.sources != new.sources or row.targets or not arrow or not goes_on:
        return None
    return row._replace(text=f"{row.text} → {after}")


# For a terminal.


def columns(happenings: Iterable[Happening], nodes: Sequence[str], width: int) -> list[str]:
    """A diagram with a lifeline for each node from top to bottom, arrows between them, and texts on the right.

    No line is wider than `width`; if lifelines do not fit, the rows are listed as text.
    """
    rows = grouped(_among(happenings, nodes))
    pitch = _pitch(nodes, width)
    if pitch is None:
        return [_cut(f"{_time(row)} {row.who:9} {row.text}{_fate(row)}".rstrip(), width) for row in rows]
    lanes = _Lanes(tuple(nodes), pitch, _dead_at_first(rows))
    lines = [_cut(" " * GUTTER + lanes.heading(), width)]
    shown_ms: int | None = None
    for row in rows:
        time = _time(row) if row.at_ms != shown_ms else ""
        shown_ms = row.at_ms
        text = f"{row.who} {row.text}" if row.sources and not row.targets else row.text
        room = width - GUTTER - lanes.width - 1
        lines.append(f"{time:{GUTTER}}{lanes.drawn(row)} {_cut(text, room)}".rstrip())
    return lines


def _pitch(nodes: Sequence[str], width: int) -> int | None:
    """The distance of lifelines, as far as the text permits; None if they do not fit."""
    if not nodes:
        return None
    room = width - GUTTER - 1
    longest = min(max(len(name) for name in nodes), NAME_LONGEST)
    least = max(PITCH_LEAST, longest + 1)
    pitch = max(least, min(PITCH_MOST, (room - TEXT_WANTED) // len(nodes)))
    return pitch if len(nodes) * pitch + TEXT_LEAST <= room else None


class _Lanes:
    """The part of a line that has the lifelines."""

    def __init__(self, nodes: tuple[str, ...], pitch: int, dead: frozenset[str]) -> None:
        self.pitch = pitch
        self.width = len(nodes) * pitch
        self.places = {name: index * pitch + pitch // 2 for index, name in enumerate(nodes)}
        self.dead = dead

    def heading(self) -> str:
        return "".join(_centred(name, self.pitch) for name in self.places).rstrip()

    def drawn(self, row: Row) -> str:
        line = [" "] * self.width
        for name, place in self.places.items():
            line[place] = " " if name in self.dead else "│"
        if not row.sources:
            self._draw_rule(line)
        elif not row.targets or row.sources == row.targets:
            self._draw_mark(line, row)
        else:
            self._draw_arrows(line, row)
        return "".join(line)

    def _draw_rule(self, line: list[str]) -> None:
        """A happening without a node is drawn across all lifelines."""
        places = list(self.places.values())
        for place in range(places[0], places[-1] + 1):
            line[place] = "┄" if line[place] == " " else "┼"

    def _draw_mark(self, line: list[str], row: Row) -> None:
        name = row.sources[0]
        line[self.places[name]] = {KILLED: "†", STARTED: "○"}.get(row.text, "■")
        if row.text == KILLED:
            self.dead |= {name}
        elif row.text == STARTED:
            self.dead -= {name}

    def _draw_arrows(self, line: list[str], row: Row) -> None:
        ways = [(self.places[source], self.places[target]) for source in row.sources for target in row.targets]
        for start, end in ways:
            low, high = min(start, end), max(start, end)
            for place in range(low + 1, high):
                line[place] = "┼" if line[place] in "│┼" else "─"
        for start, end in ways:
            head = "✗" if row.is_lost else "►" if start < end else "◄"
            line[end - 1 if start < end else end + 1] = head
            line[start] = "●"


def _dead_at_first(rows: Iterable[Row]) -> frozenset[str]:
    """Nodes whose first happening is their start."""
    first: dict[str, str] = {}
    for row in rows:
        if not row.targets and row.text in (KILLED, STARTED):
            first.setdefault(row.sources[0], row.text)
    return frozenset(name for name, text in first.items() if text == STARTED)


def _centred(name: str, pitch: int) -> str:
    """The name, with its middle above its lifeline."""
    shown = _cut(name, pitch - 1)
    before = max(0, pitch // 2 - (len(shown) - 1) // 2)
    return f"{' ' * before}{shown}".ljust(pitch)


def _cut(text: str, room: int) -> str:
    return text if len(text) <= room else text[: max(0, room - 1)] + ELLIPSIS


def _time(row: Row) -> str:
    return f"{row.at_ms / 1000:7.3f}"


def _fate(row: Row) -> str:
    return LOST if row.is_lost else ""


# For Mermaid.


def mermaid(happenings: Iterable[Happening], nodes: Sequence[str]) -> str:
    """A `sequenceDiagram`: an arrow for each message, crossed if lost, and a note for every other happening."""
    ids = _mermaid_ids(nodes)
    lines = ["sequenceDiagram"]
    for name in nodes:
        alias = "" if ids[name] == name else f" as {_escaped(name)}"
        lines.append(f"    participant {ids[name]}{alias}")
    everybody = ",".join(dict.fromkeys((ids[nodes[0]], ids[nodes[-1]]))) if nodes else ""
    for happening in _among(happenings, nodes):
        text = _escaped(happening.text.removesuffix(LOST))
        if happening.target:
            arrow = _mermaid_arrow(happening.text)
            lines.append(f"    {ids[happening.source]}{arrow}{ids[happening.target]}: {text}")
        elif happening.source or everybody:
            over = ids[happening.source] if happening.source else everybody
            lines.append(f"    Note over {over}: {text}")
    return "\n".join(lines) + "\n"


def _mermaid_arrow(text: str) -> str:
    """Lost messages end in a cross; held ones are dotted."""
    if text.endswith(LOST):
        return "-x"
    return "-->>" if text.endswith(HELD) else "->>"


def _mermaid_ids(nodes: Sequence[str]) -> dict[str, str]:
    """Participant ids: the names if Mermaid is sure to accept all of them, else numbers.

    Mermaid reserves some forty words wherever they stand, so few names are sure.
    """
    if all(re.fullmatch(r"[A-Za-z]|node[0-9]+", name) for name in nodes):
        return {name: name for name in nodes}
    return {name: f"node{number}" for number, name in enumerate(nodes, 1)}


def _escaped(text: str) -> str:
    """Mermaid ends a statement at `;`, begins an entity at `#` and a directive at `%`, and shows text as HTML."""
    escaped = re.sub(r"[#;%<>]", lambda match: f"#{ord(match.group())};", text)
    # A lone "end" closes a block wherever it stands; written as an entity it is only a word.
    escaped = re.sub(r"\bend\b", "#101;nd", escaped)
    return "<br/>".join(line.strip() for line in escaped.splitlines()) or " "


def _among(happenings: Iterable[Happening], nodes: Sequence[str]) -> list[Happening]:
    """The happenings between these nodes, and those without a node."""
    known = {"", *nodes}
    return [happening for happening in happenings if happening.source in known and happening.target in known]
