"""Every row of the tables has a moment of its own, whether or not a seed of the swarm takes it.

Many rows say for one state what others say for another, and a test takes one of them. A moment is a test, played up to
the event, if need be with the machine put into the row's own state: so guard, action and change of state run on what a
machine really holds. `rows.txt` names the moment of each row, and is written by `python -m tests.sequencer.write_rows`.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import Enum
from functools import partial
from pathlib import Path
from typing import NamedTuple

from _pytest.mark.structures import ParameterSet

from rota.machine.tables import Event, Machine, Row, Table
from rota.sim.coverage import TABLES, Place, place_of

ROWS = Path(__file__).with_name("rows.txt")
TESTS = Path(__file__).parents[1]
# The folders of `tests` whose tests take rows.
FOLDERS = ("machine", "sequencer", "chain", "exchange", "directory", "node")
HEAD = "# Machine | state | event | guard | test, with the number of its parameters | its state there, if another\n"


class Taken(Exception):
    """The row was taken: the rest of the test is of no interest."""


class Witness(NamedTuple):
    """A test that takes a row, or a row like it in another state."""

    test: str
    instead_of: str = ""


def read_rows() -> dict[Place, Witness]:
    """What is written down."""
    rows: dict[Place, Witness] = {}
    for line in ROWS.read_text().splitlines():
        if not line.startswith("#"):
            machine, state, event, guard, test, instead_of = (word.strip() for word in line.split("|"))
            rows[Place(machine, state, event, guard)] = Witness(test, instead_of)
    return rows


def write_rows(rows: dict[Place, Witness]) -> None:
    """Write it down."""
    lines = [" | ".join((*place, *witness)).rstrip() + "\n" for place, witness in rows.items()]
    ROWS.write_text(HEAD + "".join(lines))


def tests_of(module_name: str) -> Iterator[tuple[str, Callable[[], object]]]:
    """The tests of a module that need no fixture; one with parameters is one test for each set of them."""
    folder = next(each for each in FOLDERS if (TESTS / each / f"{module_name}.py").exists())
    module = importlib.import_module(f"tests.{folder}.{module_name}")
    for name, function in vars(module).items():
        if name.startswith("test_") and inspect.isfunction(function):
            for number, arguments in enumerate(_arguments_of(function)):
                yield f"{module_name}::{name}::{number}", partial(function, **arguments)


def _arguments_of(function: Callable[..., object]) -> list[dict[str, object]]:
    """Every set of arguments, or none at all when it wants something else than parameters."""
    found: list[dict[str, object]] = [{}]
    for mark in getattr(function, "pytestmark", ()):
        if mark.name != "parametrize":
            return []
        is_one = isinstance(mark.args[0], str) and "," not in mark.args[0]
        names = [name.strip() for name in mark.args[0].split(",")] if isinstance(mark.args[0], str) else mark.args[0]
        sets = [dict(zip(names, _values_of(given, is_one), strict=True)) for given in mark.args[1]]
        found = [{**before, **chosen} for before in found for chosen in sets]
    return found if set(inspect.signature(function).parameters) == set(found[0] if found else ()) else []


def _values_of(given: object, is_one: bool) -> Sequence[object]:
    if isinstance(given, ParameterSet):
        return given.values
    assert is_one or isinstance(given, Sequence), "several parameters have several values"
    return (given,) if is_one else given  # type: ignore[return-value]


def _test_named(name: str) -> Callable[[], object]:
    """A test by its name in `rows.txt`."""
    return dict(tests_of(name.partition("::")[0]))[name]


def row_at(place: Place) -> tuple[Table, Row]:
    """The row of a place."""
    for table in TABLES:
        for row in table.rows:
            if place_of(table, row) == place:
                return table, row
    raise AssertionError(f"there is no row {place}")


def takes(place: Place, witness: Witness) -> bool:
    """Whether the witness takes the row: the test is played up to that moment."""
    table, row = row_at(place)
    like = place._replace(state=witness.instead_of) if witness.instead_of else place
    _, beside = row_at(like)
    with _until_taken(table, row, beside):
        try:
            _test_named(witness.test)()
        except Taken:
            return True
    return False


@contextmanager
def _until_taken(table: Table, row: Row, beside: Row) -> Iterator[None]:
    """A machine that takes the row beside is put into our row's state, and the test ends when ours is taken."""
    original = Machine.handle

    def handle(machine: Machine, event: Event) -> Row | None:
        if machine.table is table and machine.state is beside.state and table.row_for(machine, event) is beside:
            assert isinstance(row.state, Enum)
            assert isinstance(beside.state, Enum)
            machine.state = row.state
            if table.row_for(machine, event) is row:
                original(machine, event)
                raise Taken
            machine.state = beside.state
        return original(machine, event)

    setattr(Machine, "handle", handle)  # noqa: B010
    try:
        yield
    finally:
        setattr(Machine, "handle", original)  # noqa: B010
