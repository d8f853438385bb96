"""Coverage of table rows by a swarm.

A row is identified by its place: machine, state, event, and guard. Counting wraps the one function that picks rows; the
core knows nothing of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from rota.directory.deployment import TABLE as DEPLOYMENT
from rota.machine.tables import Event, Machine, Row, Table
from rota.sequencer.coordinator import TABLE as COORDINATOR
from rota.sequencer.coordinator_transaction import TABLE as COORDINATOR_TRANSACTION
from rota.sequencer.external_issue import TABLE as EXTERNAL_ISSUE
from rota.sequencer.id_inquiry import TABLE as ID_INQUIRY
from rota.sequencer.sender import TABLE as SENDER
from rota.sequencer.sender_transaction import TABLE as SENDER_TRANSACTION
from rota.sequencer.voiding import TABLE as VOIDING

TABLES = (
    SENDER,
    SENDER_TRANSACTION,
    EXTERNAL_ISSUE,
    VOIDING,
    ID_INQUIRY,
    COORDINATOR,
    COORDINATOR_TRANSACTION,
    DEPLOYMENT,
)


class Place(NamedTuple):
    """The place of a row: machine, state, event, and the guard that distinguishes it from its neighbours."""

    machine: str
    state: str
    event: str
    guard: str


def place_of(table: Table, row: Row) -> Place:
    """The place of a row."""
    guard = row.when.__name__ if row.when is not None else ""
    return Place(table.name, str(row.state.value), row.event.__name__, guard)


def every_place() -> tuple[Place, ...]:
    """The places of all rows, in the order of the tables."""
    return tuple(place_of(table, row) for table in TABLES for row in table.rows)


@contextmanager
def counting(taken: Counter[Place]) -> Iterator[None]:
    """Count every row that a machine takes within the context."""
    original = Machine.handle
    places = {id(row): place_of(table, row) for table in TABLES for row in table.rows}

    def handle(machine: Machine, event: Event) -> Row | None:
        row = original(machine, event)
        place = places.get(id(row))
        if place is not None:
            taken[place] += 1
        return row

    setattr(Machine, "handle", handle)  # noqa: B010  -- assigned only for counting
    try:
        yield
    finally:
        setattr(Machine, "handle", original)  # noqa: B010


def untaken(taken: Counter[Place]) -> tuple[Place, ...]:
    """The rows that were never taken."""
    return tuple(place for place in every_place() if not taken[place])
