"""Draws the state diagrams of the machines' pages as SVG, so that the site needs no script and nothing from elsewhere.

The pages have them as Mermaid, which forges draw and which a browser cannot without three megabytes of script. Here the
states stand in one column in the order of their definition, those of a superstate indented below it, and every state
that can be reached has one lane beside it: a dot on the lane says that the state of that line goes there, and holding
the pointer over the dot tells by which events. A junction, which several arrows share, stands in the column as a state
does. So a machine of fourteen states has fourteen lanes, however many its arrows are.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from html import escape
from typing import Final

ARROW: Final = re.compile(r"(?P<source>\w+|\[\*\]) --> (?P<target>\w+|\[\*\])(?:: (?P<events>.+))?")
GROUP: Final = re.compile(r"state (?P<name>\w+) \{")
JUNCTION: Final = re.compile(r"state (?P<name>\w+) <<choice>>")
STATE: Final = re.compile(r"\w+")
# Where the arrows of a superstate into itself begin.
ANY: Final = re.compile(r"any_(\w+)")
HEAD: Final = "stateDiagram-v2"
# Pixels, at the size of the page's own text.
LINE: Final = 44
BOX_HEIGHT: Final = 28
LANE: Final = 26
INDENT: Final = 16
MARGIN: Final = 12
CHARACTER: Final = 7.4
HUES: Final = 12


@dataclass(frozen=True, slots=True)
class Diagram:
    """States in their order, the events of each way from one to another, and where it begins and may end.

    Superstates and junctions are among the states. `depths` has what is in a superstate, and in how many.
    """

    states: tuple[str, ...]
    arrows: dict[tuple[str, str], tuple[str, ...]]
    initial: str
    ends: frozenset[str]
    depths: dict[str, int]
    kinds: dict[str, str]


def read_diagram(mermaid: str) -> Diagram:
    """What a Mermaid state diagram says, of those that the machines' pages have; `ValueError` for any other."""
    head, *lines = [line.strip() for line in mermaid.strip().splitlines()]
    if head != HEAD:
        raise ValueError(f"a diagram begins with {HEAD}, not with {head}")
    depths: dict[str, int] = {}
    kinds: dict[str, str] = {}
    depth = 0
    arrows: dict[tuple[str, str], tuple[str, ...]] = {}
    initial, ends = "", set()
    for line in lines:
        if line.startswith("direction ") or (ANY.match(line) and " --> " not in line):
            continue
        if line == "}":
            depth -= 1
            continue
        if declared := GROUP.fullmatch(line) or JUNCTION.fullmatch(line):
            depths[declared["name"]] = depth
            kinds[declared["name"]] = "group" if line.endswith("{") else "junction"
            depth += line.endswith("{")
            continue
        if STATE.fullmatch(line):
            depths[line] = depth
            continue
        match = ARROW.fullmatch(line)
        if match is None:
            raise ValueError(f"a line of a diagram is SOURCE --> TARGET: EVENTS, not {line}")
        source, target, events = ANY.sub(r"\1", match["source"]), match["target"], match["events"]
        if source == "[*]":
            initial = target
        elif target == "[*]":
            ends.add(source)
        else:
            arrows[source, target] = tuple(events.split("<br/>"))
        for state in (source, target):
            if state != "[*]":
                depths.setdefault(state, 0)
    return Diagram(tuple(depths), arrows, initial, frozenset(ends), depths, kinds)


def draw(diagram: Diagram) -> str:
    """The diagram as an SVG element whose colours follow the page's."""
    reached = [state for state in diagram.states if any(target == state for _, target in diagram.arrows)]
    right = MARGIN + _box_width(diagram)
    width = right + LANE * (len(reached) + 1) + MARGIN
    height = 2 * MARGIN + LINE * len(diagram.states)
    parts = [
        f'<svg class="machine" role="img" viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
        ' xmlns="http://www.w3.org/2000/svg">',
        f"<title>{len(diagram.states) - len(diagram.kinds)} states, {len(diagram.arrows)} ways between them</title>",
    ]
    for source in diagram.states:
        lanes = [reached.index(target) + 1 for start, target in diagram.arrows if start == source]
        if lanes:
            parts.append(f'<path class="out" d="M{right} {_middle(diagram, source) + 5}H{right + LANE * max(lanes)}"/>')
    for number, target in enumerate(reached):
        parts += _lane(diagram, target, right, right + LANE * (number + 1), f"lane{number % HUES}")
    for state in diagram.states:
        parts += _box(diagram, state)
    return "\n".join((*parts, "</svg>"))


def _lane(diagram: Diagram, target: str, right: int, x: int, lane: str) -> list[str]:
    """From every state that leads to the target, down or up to it: lines leave a box below its middle, enter above."""
    sources = [source for source, to in diagram.arrows if to == target]
    enters = _middle(diagram, target) - 5
    leaves = {source: _middle(diagram, source) + 5 for source in sources}
    top, bottom = min(enters, *leaves.values()), max(enters, *leaves.values())
    parts = [f'<g class="{lane}">', f'<path d="M{x} {top}V{bottom}M{x} {enters}H{right + 7}"/>']
    parts.append(f'<path class="head" d="M{right} {enters}l8 -4v8z"/>')
    for source, y in leaves.items():
        events = ", ".join(diagram.arrows[source, target])
        title = escape(f"{source} → {target}: {events}")
        parts.append(f'<circle cx="{x}" cy="{y}" r="4"><title>{title}</title></circle>')
    return [*parts, "</g>"]


def _box(diagram: Diagram, state: str) -> list[str]:
    y = _middle(diagram, state) - BOX_HEIGHT // 2
    kinds = [
        "state",
        *([diagram.kinds[state]] if state in diagram.kinds else []),
        *(["initial"] if state == diagram.initial else []),
        *(["end"] if state in diagram.ends else []),
    ]
    indent = INDENT * diagram.depths[state]
    x, width = MARGIN + indent, _box_width(diagram) - indent
    return [
        f'<rect class="{" ".join(kinds)}" x="{x}" y="{y}" width="{width}" height="{BOX_HEIGHT}" rx="6"/>',
        f'<text x="{x + 10}" y="{y + 19}">{escape(state)}</text>',
    ]


def _middle(diagram: Diagram, state: str) -> int:
    return MARGIN + LINE * diagram.states.index(state) + LINE // 2


def _box_width(diagram: Diagram) -> int:
    return max(int(len(state) * CHARACTER) + INDENT * depth for state, depth in diagram.depths.items()) + 20
