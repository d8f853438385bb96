"""The page of each machine, drawn from its table, so that page and code agree.

A page adds nothing. Its words are the docstrings of the machine's module, guards, actions and
events, and its order is the table's, so that the same code gives the same bytes on every machine.
"""

import inspect
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from itertools import groupby
from typing import Any, Final

from rota.directory.deployment import Deployment
from rota.machine.tables import Event, Junction, Machine, Place, Row, Superstate, Table, states_of
from rota.sequencer.coordinator import Coordinator
from rota.sequencer.coordinator_transaction import CoordinatorTransaction
from rota.sequencer.external_issue import ExternalIssue
from rota.sequencer.id_inquiry import IdInquiry
from rota.sequencer.sender import Sender
from rota.sequencer.sender_transaction import SenderTransaction
from rota.sequencer.voiding import Voiding

MACHINES: Final[tuple[type[Machine], ...]] = (
    Sender,
    SenderTransaction,
    ExternalIssue,
    Voiding,
    IdInquiry,
    Coordinator,
    CoordinatorTransaction,
    Deployment,
)
GENERATED: Final = "This file is generated from the code by `make docs`; change the code, not the file."
PROTOCOL: Final = "[the protocol](../protocol.md)"
THEORY: Final = "Theory of operation. "
ANY: Final = "any_"


class UndocumentedError(Exception):
    """Something that a page must quote has no docstring."""


def render_pages(machines: Sequence[type[Machine]] = MACHINES) -> Mapping[str, str]:
    """The text of every page by its file name, the index first."""
    pages = {"README.md": _index(machines)}
    for machine in machines:
        pages[_file_name(machine)] = _page(machine, machines)
    return pages


def _index(machines: Sequence[type[Machine]]) -> str:
    return _document(
        "# The machines",
        GENERATED,
        f"Each machine is one table of rows. What the rows mean together is in {PROTOCOL}; how each of them is "
        "decided is on its page.",
        _markdown_table(
            ("Machine", "What it decides", "States", "Events", "Rows", "Arrows"),
            (
                (_link(machine), _summary_and_theory(machine)[0], *map(str, _sizes(machine.table)))
                for machine in machines
            ),
        ),
    )


def _page(machine: type[Machine], machines: Sequence[type[Machine]]) -> str:
    table = machine.table
    summary, theory = _summary_and_theory(machine)
    others = ", ".join(_link(other) for other in machines if other is not machine)
    source = machine.__module__.replace(".", "/") + ".py"
    return _document(
        f"# {table.name}",
        GENERATED,
        f"See also: {', '.join(filter(None, (others, '[all machines](README.md)', PROTOCOL)))}. "
        f"Source: [`{source}`](../../src/{source}).",
        summary,
        "## Theory of operation",
        theory,
        "## Diagram",
        "An arrow bears the events that may lead along it; the rows state when.",
        _diagram(table),
        "## Rows",
        "The first row that matches decides. A row without a guard always matches; one without a next state "
        "stays. The action runs before the state changes, the new state's entry action after. A row of a superstate "
        "does not apply to a state that ignores the event, nor where an earlier row of that state always matches or "
        "has the same guard.",
        _rows(table),
        *(("## Superstates", _superstates(table)) if table.superstates else ()),
        *(
            (
                "## Junctions",
                "A row that leads to a junction leads to the state of its first branch that holds before the action.",
                _junctions(table),
            )
            if table.junctions
            else ()
        ),
        "## Entry actions",
        _entry_actions(table),
        "## Events",
        _events(table),
        "## Ignored",
        "These pairs of state and event have no row, on purpose.",
        _ignored(table),
        "## States",
        _states(table),
    )


def _diagram(table: Table) -> str:
    """Only what changes the state is drawn: one arrow from a place to where it leads. What nothing leaves is an end.

    An arrow from a superstate into itself starts at a node of its own: Mermaid draws none from a group to its member.
    """
    arrows = _arrows(table)
    drawn = [each for each in table.superstates if any(each is source for source, _ in arrows)]
    left = {state for source, _ in arrows for state in states_of(source)}
    inner = [source for source, then in arrows if isinstance(source, Superstate) and then in source.states]
    lines = [f"    [*] --> {_state(table.initial)}", *_group(table.states, drawn, inner, "    ")]
    lines += [f"    state {junction.name} <<choice>>" for junction in table.junctions]
    for (source, then), events in arrows.items():
        start = f"{ANY}{source.value}" if source in inner and then in states_of(source) else str(source.value)
        lines.append(f"    {start} --> {_target(then)}: {'<br/>'.join(events)}")
    for junction in table.junctions:
        for guard, then in junction.branches:
            condition = guard.__name__.replace("_", " ") if guard is not None else "else"
            lines.append(f"    {junction.name} --> {_state(then)}: {condition}")
    lines += [f"    {_state(state)} --> [*]" for state in table.states if state not in left]
    return "\n".join(("```mermaid", "stateDiagram-v2", "    direction LR", *lines, "```"))


def _arrows(table: Table) -> dict[tuple[Place, Enum | Junction], dict[str, None]]:
    """The events of each way from a place to a state or junction, by the order of the states."""
    arrows: dict[tuple[Place, Enum | Junction], dict[str, None]] = {}
    for row in table.written:
        if row.then is not None and row.then is not row.state:
            arrows.setdefault((row.state, row.then), {})[row.event.__name__] = None
    return dict(sorted(arrows.items(), key=lambda arrow: _rank(table, arrow[0][0])))


def _rank(table: Table, place: Place) -> tuple[int, int]:
    states = states_of(place)
    return table.states.index(states[0]), -len(states)


def _group(
    states: Sequence[Enum], superstates: Sequence[Superstate], inner: Sequence[Place], indent: str
) -> Iterator[str]:
    """These states in their order, those of a superstate within it."""
    rest = list(states)
    while rest:
        found = next((each for each in superstates if rest[0] in each.states and set(each.states) <= set(rest)), None)
        if found is None:
            yield f"{indent}{_state(rest.pop(0))}"
            continue
        yield f"{indent}state {found.name} {{"
        if found in inner:
            yield f"{indent}    {ANY}{found.name}: any"
        within = [each for each in superstates if each is not found]
        yield from _group(found.states, within, inner, f"{indent}    ")
        yield f"{indent}}}"
        rest = [state for state in rest if state not in found.states]


def _target(then: Enum | Junction) -> str:
    return then.name if isinstance(then, Junction) else _state(then)


def _rows(table: Table) -> str:
    """Neighbours that differ only in their state share a line."""

    def rule(row: Row) -> tuple[object, ...]:
        return row.event, row.when, row.then, row.do

    lines = []
    for _, neighbours in groupby(table.written, key=rule):
        rows = list(neighbours)
        first = rows[0]
        lines.append(
            (
                _place_list(table, [row.state for row in rows]),
                _code(first.event.__name__),
                _first_line(first.when) if first.when is not None else "",
                _target(first.then) if first.then is not None else "",
                _first_sentence(first.do) if first.do is not None else "",
            )
        )
    return _markdown_table(("State", "Event", "Guard", "Next state", "Action"), lines)


def _superstates(table: Table) -> str:
    return _markdown_table(
        ("Superstate", "States"),
        (
            (each.name, ", ".join(_state(state) for state in each.states))
            for each in sorted(table.superstates, key=lambda each: _rank(table, each))
        ),
    )


def _junctions(table: Table) -> str:
    return _markdown_table(
        ("Junction", "If", "Next state"),
        (
            (junction.name, _first_line(guard) if guard is not None else "else", _state(then))
            for junction in table.junctions
            for guard, then in junction.branches
        ),
    )


def _entry_actions(table: Table) -> str:
    entered = (state for state in table.states if state in table.entry)
    return _markdown_table(
        ("State", "On entry"), ((_state(state), _first_sentence(table.entry[state])) for state in entered)
    )


def _events(table: Table) -> str:
    return _markdown_table(
        ("Event", "Raised by"), ((_code(event.__name__), _first_sentence(event)) for event in table.events)
    )


def _ignored(table: Table) -> str:
    return _markdown_table(
        ("Event", "States", "Because"),
        (
            (_code(decision.event.__name__), _place_list(table, decision.places), decision.because)
            for decision in table.ignored
        ),
    )


def _states(table: Table) -> str:
    return "\n".join(
        f"- `{state.name}`: {_state(state)}{' (the initial one)' if state is table.initial else ''}"
        for state in table.states
    )


def _place_list(table: Table, places: Sequence[Place]) -> str:
    """In the order of definition, superstates by their names; by the missing ones where that is shorter."""
    listed = _named(table, states_of(*places))
    missing = _named(table, [state for state in table.states if state not in states_of(*places)])
    if not missing:
        return "every state"
    if len(missing) < len(listed) and len(listed) > 2:
        return f"every state but {', '.join(missing)}"
    return ", ".join(listed)


def _named(table: Table, states: Sequence[Enum]) -> list[str]:
    """The names of these states, with one name for all of a superstate."""
    rest = set(states)
    found: list[Place] = []
    places: list[Place] = [*table.superstates, *table.states]
    for place in places:
        members = set(states_of(place))
        if members <= rest:
            rest -= members
            found.append(place)
    return [str(place.value) for place in sorted(found, key=lambda place: _rank(table, place))]


def _state(state: Enum) -> str:
    return str(state.value)


def _sizes(table: Table) -> tuple[int, int, int, int]:
    return len(table.states), len(table.events), rows_of(table), arrows_of(table)


def rows_of(table: Table) -> int:
    """How many rows are written for a machine, each branch of a junction among them."""
    return len(table.written) + sum(len(junction.branches) for junction in table.junctions)


def arrows_of(table: Table) -> int:
    """How many arrows its diagram has, those of its beginning and of its ends among them."""
    return _diagram(table).count(" --> ")


def _summary_and_theory(machine: type[Machine]) -> tuple[str, str]:
    """The two parts of a machine's module docstring: its first line, and the rest."""
    text = sys.modules[machine.__module__].__doc__
    if not text:
        raise UndocumentedError(f"{machine.__module__} has no docstring")
    summary, _, theory = inspect.cleandoc(text).partition("\n\n")
    return summary, theory.removeprefix(THEORY)


def _first_line(guard: Callable[..., Any]) -> str:
    return _docstring(guard).strip().splitlines()[0]


def _first_sentence(quoted: Callable[..., Any] | type[Event]) -> str:
    """Of the first paragraph: up to a full stop that a new sentence follows."""
    paragraph = " ".join(inspect.cleandoc(_docstring(quoted)).partition("\n\n")[0].split())
    return re.split(r"(?<=[.!?])\s+(?=[A-Z])", paragraph, maxsplit=1)[0]


def _docstring(quoted: object) -> str:
    text = (quoted.__doc__ or "").strip()
    name = getattr(quoted, "__name__", type(quoted).__name__)
    # A dataclass without a docstring gets its signature for one.
    if not text or text.startswith(f"{name}("):
        raise UndocumentedError(f"{quoted.__module__}.{name} has no docstring")
    return text


def _file_name(machine: type[Machine]) -> str:
    return machine.__module__.rpartition(".")[2].replace("_", "-") + ".md"


def _link(machine: type[Machine]) -> str:
    return f"[{machine.table.name}]({_file_name(machine)})"


def _code(text: str) -> str:
    return f"`{text}`"


def _markdown_table(headings: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    body = [_line(line) for line in lines]
    if not body:
        return "None."
    return "\n".join((_line(headings), _line(["---"] * len(headings)), *body))


def _line(cells: Iterable[str]) -> str:
    """A bar inside a cell would end it."""
    return "|" + "|".join(f" {cell} ".replace("|", "\\|") if cell else " " for cell in cells) + "|"


def _document(*blocks: str) -> str:
    return "\n\n".join(filter(None, blocks)) + "\n"
