"""What holds for the tables of all machines, whatever their rows: nothing forgotten, nothing dead."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any

import pytest

from rota.cli.machine_pages import arrows_of, rows_of
from rota.directory.deployment import Deployment
from rota.machine.tables import Event, Ignored, Machine, Place, Row, Table
from rota.sequencer.coordinator import Coordinator
from rota.sequencer.coordinator_transaction import CoordinatorTransaction
from rota.sequencer.external_issue import ExternalIssue
from rota.sequencer.id_inquiry import IdInquiry
from rota.sequencer.sender import Sender
from rota.sequencer.sender_transaction import SenderTransaction
from rota.sequencer.voiding import Voiding


@dataclass(frozen=True)
class Source:
    """What the source document (seed 2) calls the states and events of a machine, and where the machine ends."""

    machine: type[Machine]
    states: str
    events: str
    ends: tuple[str, ...] = ()


SOURCES = (
    Source(
        Sender,
        states="Idle Observing Sending",
        events="""
            HeartbeatInterval HeartbeatReceived TransactionCreated TransactionConfirmed NewBlock
            BaseLedgerTransactionReverted
        """,
    ),
    Source(
        SenderTransaction,
        states="""
            Initial Pending Delegated Assembling EndorsementGathering Signing Prepared Dispatched Sequenced
            Submitted Confirmed Reverted Parked
        """,
        events="""
            Created ConfirmedSuccess ConfirmedReverted Delegated AssembleRequestReceived AssembleAndSignSuccess
            AssembleRevert AssemblePark AssembleError Dispatched DispatchConfirmationRequestReceived Resumed
            NonceAssigned Submitted CoordinatorChanged
        """,
        ends=("Reverted",),
    ),
    # The source document has no states for these: they are what its Confirmed and Reverted take here.
    Source(ExternalIssue, states="", events=""),
    Source(Voiding, states="", events="", ends=("Ended",)),
    Source(IdInquiry, states="", events="", ends=("Over",)),
    Source(
        Coordinator,
        states="Idle Observing Elect Standby Prepared Active Flush Closing",
        events="""
            TransactionsDelegated TransactionConfirmed TransactionDispatchConfirmed HeartbeatReceived NewBlock
            HandoverRequestReceived HandoverReceived TransactionStateTransition
        """,
    ),
    Source(
        CoordinatorTransaction,
        states="""
            Pooled PreAssembly_Blocked Assembling Reverted Endorsement_Gathering Blocked Confirming_Dispatch
            Ready_For_Dispatch Dispatched Submitted Confirmed Final
        """,
        events="""
            Received Selected AssembleRequestSent AssembleSuccess AssembleRevertResponse Endorsed EndorsedRejected
            DependencyReady DependencyAssembled DependencyReverted DispatchConfirmed DispatchConfirmationRejected
            Collected NonceAllocated Submitted Confirmed RequestTimeoutInterval StateTransition AssembleTimeout
        """,
        ends=("Final",),
    ),
    # The source document does not speak of deployments.
    Source(Deployment, states="", events="", ends=("Final",)),
)

TABLES = [pytest.param(source.machine.table, id=source.machine.__name__) for source in SOURCES]
EVENTS = [
    pytest.param(event, id=f"{source.machine.__name__}-{event.__name__}")
    for source in SOURCES
    for event in source.machine.table.events
]

every_table = pytest.mark.parametrize("table", TABLES)
every_source = pytest.mark.parametrize("source", [pytest.param(one, id=one.machine.__name__) for one in SOURCES])


def undecided_pairs(table: Table) -> list[tuple[str, str]]:
    """Written apart from the table's own check, so that it would be missed if somebody took that away."""
    decided = {(row.state, row.event) for row in table.rows}
    decided |= {(state, decision.event) for decision in table.ignored for state in decision.states}
    return [
        (state.name, event.__name__)
        for state in table.states
        for event in table.events
        if (state, event) not in decided
    ]


def events_that_every_state_ignores(table: Table) -> list[str]:
    return [event.__name__ for event in table.events if not any(row.event is event for row in table.rows)]


def unreachable_states(table: Table) -> list[str]:
    reached = {table.initial}
    grows = True
    while grows:
        found = {row.then for row in table.rows if isinstance(row.then, Enum) and row.state in reached} - reached
        reached |= found
        grows = bool(found)
    return [state.name for state in table.states if state not in reached]


def states_without_a_way_out(table: Table) -> list[Enum]:
    left = {row.state for row in table.rows if row.then not in (None, row.state)}
    return [state for state in table.states if state not in left]


def rows_that_never_match(table: Table) -> list[Row]:
    """Those that stand behind a row of the same pair that always matches."""
    closed: set[tuple[Place, type[Event]]] = set()
    dead = []
    for row in table.rows:
        if (row.state, row.event) in closed:
            dead.append(row)
        elif row.when is None:
            closed.add((row.state, row.event))
    return dead


def functions_of(table: Table) -> Iterator[Callable[..., Any]]:
    for row in table.rows:
        yield from (function for function in (row.when, row.do) if function is not None)
    yield from table.entry.values()


# Decided, and alive.


@every_table
def test_every_pair_of_state_and_event_is_decided(table: Table) -> None:
    assert undecided_pairs(table) == []


@every_table
def test_no_pair_is_ignored_twice(table: Table) -> None:
    pairs = Counter((state.name, decision.event.__name__) for decision in table.ignored for state in decision.states)
    assert [pair for pair, count in pairs.items() if count > 1] == []


@every_table
def test_every_event_is_named_once(table: Table) -> None:
    assert len({event.__name__ for event in table.events}) == len(table.events)


@every_table
def test_no_event_is_ignored_by_every_state(table: Table) -> None:
    assert events_that_every_state_ignores(table) == []


@every_table
def test_every_row_can_match(table: Table) -> None:
    assert rows_that_never_match(table) == []


@every_table
def test_every_state_is_reachable_by_rows_from_the_initial_one(table: Table) -> None:
    assert unreachable_states(table) == []


@every_table
def test_rows_and_entry_actions_lead_to_states_of_this_machine(table: Table) -> None:
    targets = [row.then for row in table.rows if row.then is not None]
    assert all(state in table.states for state in (*targets, *table.entry))


@every_source
def test_every_state_but_the_final_ones_has_a_way_out(source: Source) -> None:
    assert tuple(state.value for state in states_without_a_way_out(source.machine.table)) == source.ends


# Short: a machine is read on one screen. These may only fall.


SIZES = {
    "Sender": (32, 6),
    "Sender's transaction": (60, 41),
    "External issue": (9, 7),
    "Voiding": (10, 6),
    "Id inquiry": (6, 5),
    "Coordinator": (60, 23),
    "Coordinator's transaction": (60, 38),
    "Deployment": (60, 16),
}


@every_table
def test_machine_has_no_more_written_rows_and_arrows_than_before(table: Table) -> None:
    assert (rows_of(table), arrows_of(table)) == SIZES[table.name]


# Documented: the pages under docs/machines quote these.


@pytest.mark.parametrize("event", EVENTS)
def test_every_event_says_who_raises_it(event: type[Event]) -> None:
    assert (event.__doc__ or "").startswith("Raised by"), event.__doc__


@every_table
def test_every_guard_and_action_has_a_docstring(table: Table) -> None:
    assert [function.__name__ for function in functions_of(table) if not function.__doc__] == []


@every_table
def test_every_ignored_pair_has_a_reason(table: Table) -> None:
    assert [decision.event.__name__ for decision in table.ignored if not decision.because] == []


# Faithful to the source document.


@every_source
def test_every_state_that_the_source_names_is_there(source: Source) -> None:
    assert set(source.states.split()) - {state.value for state in source.machine.table.states} == set()


@every_source
def test_every_event_that_the_source_names_is_there(source: Source) -> None:
    assert set(source.events.split()) - {event.__name__ for event in source.machine.table.events} == set()


# The checks themselves find what they look for.


class Door(Enum):
    OPEN = "Open"
    SHUT = "Shut"
    BRICKED_UP = "Bricked up"


class Pushed(Event):
    """Raised by whoever wants in."""


class Knocked(Event):
    """Raised by whoever waits outside."""


def is_locked(*_: object) -> bool:
    return False


FAULTY = Table(
    name="Door",
    initial=Door.OPEN,
    written=(
        Row(Door.OPEN, Pushed, then=Door.SHUT),
        Row(Door.OPEN, Pushed, when=is_locked),
        Row(Door.SHUT, Pushed, when=is_locked),
        Row(Door.SHUT, Pushed, then=Door.SHUT),
        Row(Door.BRICKED_UP, Pushed, then=Door.OPEN),
    ),
    ignored=(Ignored(Knocked, tuple(Door), "nobody listens"),),
)


def test_event_that_every_state_ignores_is_found() -> None:
    assert events_that_every_state_ignores(FAULTY) == ["Knocked"]


def test_unreachable_state_is_found() -> None:
    assert unreachable_states(FAULTY) == ["BRICKED_UP"]


def test_state_without_a_way_out_is_found() -> None:
    assert states_without_a_way_out(FAULTY) == [Door.SHUT]


def test_row_that_never_matches_is_found() -> None:
    assert rows_that_never_match(FAULTY) == [FAULTY.rows[1]]


def test_undecided_pair_is_found() -> None:
    # No such table can be built, so that one is taken apart.
    table = Table("Door", Door.OPEN, ())
    object.__setattr__(table, "written", (Row(Door.OPEN, Pushed),))
    assert undecided_pairs(table) == [("OPEN", "Pushed"), ("SHUT", "Pushed"), ("BRICKED_UP", "Pushed")]
