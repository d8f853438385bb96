"""The page of each machine, drawn from its table, so that page and code agree.

A page adds nothing. Its words are the docstrings of the machine's module, guards, actions and
events, and its order is the table's, so that the same code gives the same bytes on every machine.
"""

import inspect
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from itertools import groupby
from typing import Any, Final

from rota.directory.deployment import Deployment
from rota.machine.tables import Event, Machine, Row, Table
from rota.sequencer.coordinator import Coordinator
from rota.sequencer.coordinator_transaction import CoordinatorTransaction
from rota.sequencer.sender import Sender
from rota.sequencer.sender_transaction import SenderTransaction

MACHINES: Final[tuple[type[Machine], ...]] = (
    Sender,
    SenderTransaction,
    Coordinator,
    CoordinatorTransaction,
    Deployment,
)
GENERATED: Final = "This file is generated from the code by `make docs`; change the code, not the file."
PROTOCOL: Final = "[the protocol](../protocol.md)"
THEORY: Final = "Theory of operation. "


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
            ("Machine", "What it decides", "States", "Events", "Rows"),
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
        "stays. The action runs before the state changes, the new state's entry action after.",
        _rows(table),
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
    """Only what changes the state is drawn; a state that nothing leaves is an end."""
    arrows: dict[tuple[Enum, Enum], dict[str, None]] = {}
    for row in table.rows:
        if row.then is not None and row.then is not row.state:
            arrows.setdefault((row.state, row.then), {})[row.event.__name__] = None
    lines = ["stateDiagram-v2", "    direction LR", f"    [*] --> {_state(table.initial)}"]
    for state in table.states:
        targets = [target for target in table.states if (state, target) in arrows]
        for target in targets:
            lines.append(f"    {_state(state)} --> {_state(target)}: {'<br/>'.join(arrows[state, target])}")
        if not targets:
            lines.append(f"    {_state(state)} --> [*]")
    return "\n".join(("```mermaid", *lines, "```"))


def _rows(table: Table) -> str:
    """Neighbours that differ only in their state share a line."""

    def rule(row: Row) -> tuple[object, ...]:
        return row.event, row.when, row.then, row.do

    lines = []
    for _, neighbours in groupby(table.rows, key=rule):
        rows = list(neighbours)
        first = rows[0]
        lines.append(
            (
                _state_list(table, (row.state for row in rows)),
                _code(first.event.__name__),
                _first_line(first.when) if first.when is not None else "",
                _state(first.then) if first.then is not None else "",
                _first_sentence(first.do) if first.do is not None else "",
            )
        )
    return _markdown_table(("State", "Event", "Guard", "Next state", "Action"), lines)


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
            (_code(decision.event.__name__), _state_list(table, decision.states), decision.because)
            for decision in table.ignored
        ),
    )


def _states(table: Table) -> str:
    return "\n".join(
        f"- `{state.name}`: {_state(state)}{' (the initial one)' if state is table.initial else ''}"
        for state in table.states
    )


def _state_list(table: Table, states: Iterable[Enum]) -> str:
    """In the order of definition; by the missing ones where that is much shorter."""
    listed = frozenset(states)
    missing = [_state(state) for state in table.states if state not in listed]
    if not missing:
        return "every state"
    if 4 * len(missing) <= len(table.states):
        return f"every state but {', '.join(missing)}"
    return ", ".join(_state(state) for state in table.states if state in listed)


def _state(state: Enum) -> str:
    return str(state.value)


def _sizes(table: Table) -> tuple[int, int, int]:
    return len(table.states), len(table.events), len(table.rows)


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
