"""Runs a transition table; does not depend on sequencing.

A machine is one table. A row states: in this place, on this event, if the guard holds, do that and go there. A place is
a state or a superstate: a named group of states that share rows. A row may lead to a junction, whose branches several
rows share. The first matching row wins.

When a table is built, each row is expanded: one row for each state of its superstate and each branch of its junction.
Within a superstate the narrower place decides, as in a statechart: the row of a superstate does not apply to a state
that ignores the event, nor where an earlier row of that state always matches or has the same guard. A pair of state and
event without a row must be listed as ignored, with the reason; a table that forgets one cannot be built, nor one with a
row that applies nowhere. Every change of state runs the new state's entry action, if it has one. The published diagrams
are drawn from the rows as they are written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field
from enum import Enum
from functools import cache
from itertools import combinations
from typing import Any, ClassVar, Protocol

from rota.model.frozen import dataclass

Guard = Callable[[Any, Any], bool]
Action = Callable[[Any, Any], None]
Entry = Callable[[Any], None]


class Event:
    """An occurrence, described by its fields."""

    __slots__ = ()


class Handler(Protocol):
    """An object that takes events."""

    def handle(self, event: Event) -> object:
        """Take an event."""


@dataclass(frozen=True, slots=True)
class Superstate:
    """A named group of states that share rows. The superstates of a table nest or have no state in common."""

    name: str
    # Members of one enumeration.
    states: tuple[Any, ...]

    @property
    def value(self) -> str:
        """Its name, as a state has one."""
        return self.name


Place = Enum | Superstate


@dataclass(frozen=True, slots=True)
class Junction:
    """The target of several rows: the state of the first branch whose guard holds. The last branch has no guard.

    The guards are evaluated before the row's action.
    """

    name: str
    branches: tuple[tuple[Guard | None, Enum], ...]


@dataclass(frozen=True, slots=True)
class Row:
    """One rule of a machine. No `when` always matches; no `then` stays.

    A table is written in rows of states and superstates; what a machine runs are rows of states that lead to states.
    """

    state: Place
    event: type[Event]
    when: Guard | None = None
    then: Enum | Junction | None = None
    do: Action | None = None


@dataclass(frozen=True, slots=True)
class Ignored:
    """A decision: an event changes nothing in these states."""

    event: type[Event]
    places: tuple[Place, ...]
    because: str

    @property
    def states(self) -> tuple[Enum, ...]:
        """The states of its places."""
        return states_of(*self.places)


@dataclass(frozen=True)
class Table:
    """All rows of a machine as they are `written`, and expanded; checked to cover every pair of state and event."""

    name: str
    initial: Enum
    written: tuple[Row, ...]
    ignored: tuple[Ignored, ...] = ()
    entry: Mapping[Enum, Entry] = field(default_factory=dict)
    rows: tuple[Row, ...] = field(init=False)
    rows_by_pair: dict[tuple[Enum, type[Event]], tuple[Row, ...]] = field(init=False)

    def __post_init__(self) -> None:
        ignored: dict[tuple[Enum, type[Event]], tuple[Row, ...]] = {
            (state, each.event): () for each in self.ignored for state in each.states
        }
        by_pair: dict[tuple[Enum, type[Event]], tuple[Row, ...]] = {}
        rows: list[Row] = []
        for row in self.written:
            pairs = [(state, row.event) for state in states_of(row.state)]
            if isinstance(row.state, Superstate):
                pairs = [pair for pair in pairs if pair not in ignored and not _is_overruled(row, by_pair.get(pair))]
            assert pairs, f"{self.name}: the row of {row.state.value} for {row.event.__name__} applies nowhere"
            for pair in pairs:
                expanded = tuple(_expand(row, pair[0]))
                by_pair[pair] = (*by_pair.get(pair, ()), *expanded)
                rows += expanded
        every = {(state, event) for state in self.states for event in self.events}
        both = ignored.keys() & by_pair.keys()
        assert not both, f"{self.name}: both ruled and ignored: {both}"
        object.__setattr__(self, "rows", tuple(rows))
        # Ignored pairs have no row; a pair that is missing here is unknown.
        by_pair.update(ignored)
        object.__setattr__(self, "rows_by_pair", by_pair)
        missing = every - by_pair.keys()
        assert not missing, f"{self.name}: undecided: {sorted((s.name, e.__name__) for s, e in missing)}"
        assert by_pair.keys() <= every, f"{self.name}: a row for a state that it does not have"
        groups = [frozenset(each.states) for each in self.superstates]
        nest = all(inner <= outer or inner.isdisjoint(outer) for outer, inner in combinations(groups, 2))
        assert nest, f"{self.name}: superstates overlap"

    @property
    def events(self) -> tuple[type[Event], ...]:
        """The events that rows and decisions name, in their order."""
        return tuple(dict.fromkeys((*(row.event for row in self.written), *(each.event for each in self.ignored))))

    @property
    def states(self) -> tuple[Enum, ...]:
        """The states in the order of their definition."""
        return tuple(type(self.initial))

    @property
    def superstates(self) -> tuple[Superstate, ...]:
        """The superstates that rows and decisions name, the larger ones first."""
        places = (*(row.state for row in self.written), *(place for each in self.ignored for place in each.places))
        found = dict.fromkeys(place for place in places if isinstance(place, Superstate))
        return tuple(sorted(found, key=lambda each: -len(each.states)))

    @property
    def junctions(self) -> tuple[Junction, ...]:
        """The junctions that rows lead to."""
        return tuple(dict.fromkeys(row.then for row in self.written if isinstance(row.then, Junction)))

    def row_for(self, machine: Machine, event: Event) -> Row | None:
        """Return the first row that matches, or None where there is none."""
        rows = self.rows_by_pair.get((machine.state, type(event)))
        assert rows is not None, f"{self.name} does not know {type(event).__name__}"
        for row in rows:
            if row.when is None or row.when(machine, event):
                return row
        return None


class Machine:
    """An object with a state and a table."""

    table: ClassVar[Table]

    def __init__(self) -> None:
        self.state: Enum = self.table.initial

    def handle(self, event: Event) -> Row | None:
        """Take an event: do what the first matching row states, then change state, then enter it.

        The row is that of `Table.row_for`, found without a further call, because this is the most frequent operation.
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
            self.enter(then)  # type: ignore[arg-type]  # the junctions are resolved
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


class Front(Machine):
    """A machine in front of another one: it passes on events that it does not handle, except those of its `own`."""

    own: ClassVar[tuple[type[Event], ...]]

    def __init__(self, behind: Machine) -> None:
        super().__init__()
        self.behind = behind

    def handle(self, event: Event) -> Row | None:
        """Take an event, or have the machine behind take it."""
        row = super().handle(event) if (self.state, type(event)) in self.table.rows_by_pair else None
        return row if row is not None or type(event) in self.own else self.behind.handle(event)


def superstate(name: str, *members: Place) -> Superstate:
    """Return these states, and those of these superstates, as one superstate."""
    return Superstate(name, states_of(*members))


def states_of(*places: Place) -> tuple[Enum, ...]:
    """The states of these places."""
    return tuple(state for place in places for state in (place.states if isinstance(place, Superstate) else (place,)))


def outside(*places: Place) -> tuple[Enum, ...]:
    """Every other state of their machine."""
    inside = states_of(*places)
    return tuple(state for state in type(inside[0]) if state not in inside)


def in_states(
    places: Iterable[Place],
    event: type[Event],
    when: Guard | None = None,
    then: Enum | Junction | None = None,
    do: Action | None = None,
) -> tuple[Row, ...]:
    """Return the same rule for several places: one row each."""
    return tuple(Row(place, event, when, then, do) for place in places)


def _is_overruled(row: Row, rows: tuple[Row, ...] | None) -> bool:
    """Whether an earlier row of that pair always matches, or matches whenever this one does."""
    return any(each.when is None or each.when is row.when for each in rows or ())


def _expand(row: Row, state: Enum) -> Iterator[Row]:
    if not isinstance(row.then, Junction):
        yield row if row.state is state else Row(state, row.event, row.when, row.then, row.do)
        return
    for guard, then in row.then.branches:
        yield Row(state, row.event, _both(row.when, guard), then, row.do)


@cache
def _both(first: Guard | None, second: Guard | None) -> Guard | None:
    if first is None or second is None:
        return first or second

    def both(machine: Machine, event: Event) -> bool:
        return first(machine, event) and second(machine, event)

    both.__name__ = f"{first.__name__}_and_{second.__name__}"
    both.__doc__ = f"{first.__doc__}; and {second.__doc__}"
    return both
