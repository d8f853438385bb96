"""Runs a transition table; knows nothing of sequencing.

A machine is one table. Each row says: in this state, when told this, if the guard holds, do that and
go there. The first matching row wins. A pair of state and event without a row must be listed as
ignored, with the reason; a table that forgets one cannot be built. Every change of state runs the
new state's entry action, if it has one. The published diagrams are drawn from these tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from enum import Enum
from typing import Any, ClassVar, Protocol

from rota.model.frozen import dataclass

Guard = Callable[[Any, Any], bool]
Action = Callable[[Any, Any], None]
Entry = Callable[[Any], None]


class Event:
    """Something that has happened; its fields say what."""

    __slots__ = ()


class Handler(Protocol):
    """Whoever can be told an event."""

    def handle(self, event: Event) -> object:
        """Be told an event."""


@dataclass(frozen=True, slots=True)
class Row:
    """One rule of a machine. No `when` always matches; no `then` stays."""

    state: Enum
    event: type[Event]
    when: Guard | None = None
    then: Enum | None = None
    do: Action | None = None


@dataclass(frozen=True, slots=True)
class Ignored:
    """A decision: these states have nothing to do when they are told this."""

    event: type[Event]
    states: tuple[Enum, ...]
    because: str


@dataclass(frozen=True)
class Table:
    """All rules of a machine, checked to cover every pair of state and event."""

    name: str
    initial: Enum
    events: tuple[type[Event], ...]
    rows: tuple[Row, ...]
    ignored: tuple[Ignored, ...] = ()
    entry: Mapping[Enum, Entry] = field(default_factory=dict)
    rows_by_pair: dict[tuple[Enum, type[Event]], tuple[Row, ...]] = field(init=False)

    def __post_init__(self) -> None:
        by_pair: dict[tuple[Enum, type[Event]], tuple[Row, ...]] = {}
        for row in self.rows:
            pair = (row.state, row.event)
            by_pair[pair] = (*by_pair.get(pair, ()), row)
        object.__setattr__(self, "rows_by_pair", by_pair)
        ignored = {(state, entry.event): () for entry in self.ignored for state in entry.states}
        every = {(state, event) for state in self.states for event in self.events}
        both = ignored.keys() & by_pair.keys()
        assert not both, f"{self.name}: both ruled and ignored: {both}"
        # What is ignored has no row; a pair that is not in here is unknown.
        by_pair.update(ignored)
        missing = every - by_pair.keys()
        assert not missing, f"{self.name}: undecided: {sorted((s.name, e.__name__) for s, e in missing)}"
        assert by_pair.keys() <= every, f"{self.name}: a row for an event or state that it does not have"

    @property
    def states(self) -> tuple[Enum, ...]:
        """The states in the order of their definition."""
        return tuple(type(self.initial))

    def row_for(self, machine: Machine, event: Event) -> Row | None:
        """The first row that matches, or none where nothing is to be done."""
        rows = self.rows_by_pair.get((machine.state, type(event)))
        assert rows is not None, f"{self.name} does not know {type(event).__name__}"
        for row in rows:
            if row.when is None or row.when(machine, event):
                return row
        return None


class Machine:
    """Something with a state and a table."""

    table: ClassVar[Table]

    def __init__(self) -> None:
        self.state: Enum = self.table.initial

    def handle(self, event: Event) -> Row | None:
        """Be told an event: do what the first matching row says, then change state, then enter it.

        The row is that of `Table.row_for`, found without a further call: nothing is done as often as this.
        """
        rows = self.table.rows_by_pair.get((self.state, type(event)))
        assert rows is not None, f"{self.table.name} does not know {type(event).__name__}"
        for row in rows:
            when = row.when
            if when is None or when(self, event):
                break
        else:
            return None
        do, then = row.do, row.then
        if do is not None:
            do(self, event)
        if then is not None and then is not self.state:
            self.enter(then)
        return row

    def enter(self, state: Enum) -> None:
        """Change state; the new state's entry action runs last."""
        previous, self.state = self.state, state
        self.changed(previous)
        action = self.table.entry.get(state)
        if action is not None:
            action(self)

    def changed(self, previous: Enum) -> None:
        """Called on every change of state, before the entry action."""


def in_states(
    states: Iterable[Enum],
    event: type[Event],
    when: Guard | None = None,
    then: Enum | None = None,
    do: Action | None = None,
) -> tuple[Row, ...]:
    """The same rule for several states."""
    return tuple(Row(state, event, when, then, do) for state in states)
