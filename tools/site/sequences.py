"""Draws Mermaid sequence diagrams as SVG, as `diagrams` does with state diagrams: without a script.

It reads what the pages use: `participant`, messages with `->>`, `-->>` and `-x` (which is lost), and `Note over`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from html import escape
from itertools import accumulate
from typing import Final

HEAD: Final = "sequenceDiagram"
PARTICIPANT: Final = re.compile(r"participant (?P<name>\w+)(?: as (?P<label>.+))?")
MESSAGE: Final = re.compile(r"(?P<source>\w+)\s*(?P<arrow>-->>|->>|-x)\s*(?P<target>\w+): (?P<text>.+)")
NOTE: Final = re.compile(r"Note over (?P<source>\w+)(?:,\s*(?P<target>\w+))?: (?P<text>.+)")
# Pixels, at the size of the page's own text.
COLUMN: Final = 178
TEXT: Final = 16
GAP: Final = 18
BOX: Final = 44
MARGIN: Final = 12


@dataclass(frozen=True, slots=True)
class Line:
    """A message from one participant to another, or a note over one or several."""

    source: str
    target: str
    arrow: str
    text: tuple[str, ...]

    @property
    def height(self) -> int:
        """With the room above it."""
        return TEXT * len(self.text) + GAP + (8 if self.arrow == "note" else 4)


@dataclass(frozen=True, slots=True)
class Sequence:
    """Participants by name, and the steps in their order."""

    participants: dict[str, tuple[str, ...]]
    lines: tuple[Line, ...]


def read_sequence(mermaid: str) -> Sequence:
    """The sequence of a diagram; `ValueError` for a line that this tool does not draw."""
    head, *rest = [line.strip() for line in mermaid.splitlines() if line.strip()]
    if head != HEAD:
        raise ValueError(f"a sequence diagram begins with {HEAD}, not with {head}")
    participants: dict[str, tuple[str, ...]] = {}
    lines = []
    for line in rest:
        if match := PARTICIPANT.fullmatch(line):
            participants[match["name"]] = tuple((match["label"] or match["name"]).split("<br/>"))
            continue
        found = MESSAGE.fullmatch(line) or NOTE.fullmatch(line)
        if found is None:
            raise ValueError(f"a line of a sequence diagram is a participant, a message or a note, not {line}")
        parts = found.groupdict()
        target, arrow = parts["target"] or parts["source"], parts.get("arrow") or "note"
        if unknown := {parts["source"], target} - set(participants):
            raise ValueError(f"{', '.join(sorted(unknown))} must be a participant before {line}")
        lines.append(Line(parts["source"], target, arrow, tuple(parts["text"].split("<br/>"))))
    return Sequence(participants, tuple(lines))


def draw_sequence(sequence: Sequence) -> str:
    """The diagram as an SVG element whose colours follow the page's."""
    centres = {name: MARGIN + COLUMN * place + COLUMN // 2 for place, name in enumerate(sequence.participants)}
    ends = list(accumulate((line.height for line in sequence.lines), initial=MARGIN + BOX))
    width, height = 2 * MARGIN + COLUMN * len(centres), ends[-1] + GAP + MARGIN
    parts = [
        f'<svg class="machine sequence" role="img" viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
        ' xmlns="http://www.w3.org/2000/svg">',
        f"<title>A sequence of {len(sequence.lines)} steps between {len(centres)} participants</title>",
    ]
    for name, label in sequence.participants.items():
        x = centres[name]
        parts.append(f'<path class="out" d="M{x} {MARGIN + BOX}V{height - MARGIN}"/>')
        parts.append(
            f'<rect class="state" x="{x - COLUMN // 2 + 8}" y="{MARGIN}" width="{COLUMN - 16}" height="{BOX}" rx="6"/>'
        )
        parts += _text(x, MARGIN + BOX // 2 + 5 - TEXT * (len(label) - 1) // 2, label)
    for line, end in zip(sequence.lines, ends[1:], strict=True):
        left, right = sorted((centres[line.source], centres[line.target]))
        if line.arrow == "note":
            parts += _note(left, right, end, line)
        else:
            parts += _message(centres[line.source], centres[line.target], end, line)
    return "\n".join((*parts, "</svg>"))


def _note(left: int, right: int, end: int, line: Line) -> list[str]:
    room = COLUMN // 2 - 8
    top = end - TEXT * len(line.text) - 8
    size = f'width="{right - left + 2 * room}" height="{end - top}"'
    box = f'<rect class="note" x="{left - room}" y="{top}" {size} rx="4"/>'
    return [box, *_text((left + right) // 2, top + TEXT, line.text)]


def _message(start: int, stop: int, end: int, line: Line) -> list[str]:
    way = 1 if stop > start else -1
    kind = "answer" if line.arrow == "-->>" else "message"
    tip = stop if line.arrow != "-x" else (start + stop) // 2
    parts = [f'<path class="{kind}" d="M{start} {end}H{tip - 8 * way}"/>']
    if line.arrow == "-x":
        parts.append(f'<path class="lost" d="M{tip - 6} {end - 6}l12 12m0 -12l-12 12"/>')
    else:
        parts.append(f'<path class="head" d="M{tip} {end}l{-9 * way} -4v8z"/>')
    return [*parts, *_text((start + stop) // 2, end - 6 - TEXT * (len(line.text) - 1), line.text)]


def _text(x: int, y: int, lines: tuple[str, ...]) -> list[str]:
    return [
        f'<text x="{x}" y="{y + TEXT * number}" text-anchor="middle">{escape(line)}</text>'
        for number, line in enumerate(lines)
    ]
