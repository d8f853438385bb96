"""Every arrow of the source document's diagrams (seed 2) is a row of our tables, or a departure with its reason."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from rota.machine.tables import Machine
from rota.sequencer.coordinator import Coordinator
from rota.sequencer.coordinator_transaction import CoordinatorTransaction
from rota.sequencer.sender import Sender
from rota.sequencer.sender_transaction import SenderTransaction


class Arrow(NamedTuple):
    """From a state, by an event, to a state; where the source names no event, any event."""

    machine: type[Machine]
    before: str
    event: str
    after: str


# As the source writes them; `[*]` is Initial before, and Final after.
ARROWS: dict[type[Machine], str] = {
    SenderTransaction: """
        Initial Created Pending
        Pending Delegated Delegated
        Delegated AssembleRequestReceived Assembling
        Assembling AssembleAndSignSuccess EndorsementGathering
        Assembling AssembleRevert Reverted
        Assembling AssemblePark Parked
        Assembling CoordinatorChanged Delegated
        EndorsementGathering AssembleRequestReceived Assembling
        EndorsementGathering CoordinatorChanged Delegated
        EndorsementGathering DispatchConfirmationRequestReceived Prepared
        Prepared Dispatched Dispatched
        Prepared CoordinatorChanged Delegated
        Dispatched ConfirmedSuccess Confirmed
        Dispatched ConfirmedReverted Delegated
        Dispatched Submitted Submitted
        Dispatched CoordinatorChanged Delegated
        Dispatched NonceAssigned Sequenced
        Sequenced ConfirmedSuccess Confirmed
        Sequenced ConfirmedReverted Delegated
        Sequenced CoordinatorChanged Delegated
        Sequenced Submitted Submitted
        Submitted ConfirmedSuccess Confirmed
        Submitted ConfirmedReverted Delegated
        Submitted CoordinatorChanged Delegated
        Parked Resumed Pending
    """,
    Sender: """
        Idle HeartbeatReceived Observing
        Idle TransactionCreated Sending
        Observing HeartbeatInterval Idle
        Observing TransactionCreated Sending
        Sending TransactionConfirmed Observing
    """,
    CoordinatorTransaction: """
        Initial Received Pooled
        Initial Received PreAssembly_Blocked
        PreAssembly_Blocked * Pooled
        Pooled AssembleRequestSent Assembling
        Pooled DependencyReverted PreAssembly_Blocked
        Assembling AssembleSuccess Endorsement_Gathering
        Assembling RequestTimeoutInterval Assembling
        Assembling RequestTimeoutInterval Pooled
        Assembling AssembleRevertResponse Reverted
        Endorsement_Gathering Endorsed Confirming_Dispatch
        Endorsement_Gathering Endorsed Blocked
        Endorsement_Gathering EndorsedRejected Pooled
        Endorsement_Gathering RequestTimeoutInterval Endorsement_Gathering
        Blocked DependencyReady Confirming_Dispatch
        Confirming_Dispatch DispatchConfirmed Ready_For_Dispatch
        Confirming_Dispatch RequestTimeoutInterval Confirming_Dispatch
        Confirming_Dispatch DispatchConfirmationRejected Final
        Ready_For_Dispatch Collected Dispatched
        Dispatched Submitted Submitted
        Submitted Confirmed Confirmed
        Submitted Confirmed Pooled
        Reverted HeartbeatInterval Final
        Confirmed HeartbeatInterval Final
    """,
    Coordinator: """
        Idle TransactionsDelegated Active
        Idle HeartbeatReceived Observing
        Observing TransactionsDelegated Standby
        Observing TransactionsDelegated Elect
        Standby NewBlock Elect
        Elect HandoverReceived Prepared
        Prepared TransactionConfirmed Active
        Active TransactionConfirmed Idle
        Active HandoverRequestReceived Flush
        Flush TransactionConfirmed Closing
        Closing HeartbeatInterval Idle
    """,
}

# Protocol §11 has these departures in words.
PENDING_FIRST = "it is Pending until another coordinator has accepted it"
HELD = "what is permitted is held for its submitter, and Pending when that one is silent"
DEPARTURES: dict[Arrow, str] = {
    Arrow(
        SenderTransaction, "Assembling", "AssembleAndSignSuccess", "EndorsementGathering"
    ): "by way of Signing, which the source names as a state without arrows",
    Arrow(SenderTransaction, "Assembling", "CoordinatorChanged", "Delegated"): PENDING_FIRST,
    Arrow(SenderTransaction, "EndorsementGathering", "CoordinatorChanged", "Delegated"): PENDING_FIRST,
    Arrow(SenderTransaction, "Prepared", "CoordinatorChanged", "Delegated"): HELD,
    Arrow(SenderTransaction, "Dispatched", "CoordinatorChanged", "Delegated"): HELD,
    Arrow(SenderTransaction, "Sequenced", "CoordinatorChanged", "Delegated"): HELD,
    Arrow(SenderTransaction, "Submitted", "CoordinatorChanged", "Delegated"): HELD,
    Arrow(
        CoordinatorTransaction, "Pooled", "DependencyReverted", "PreAssembly_Blocked"
    ): "a pooled intent stands on nothing: what stood on a state that is reset waits for its maker instead",
    Arrow(
        CoordinatorTransaction, "Assembling", "RequestTimeoutInterval", "Pooled"
    ): "by AssembleTimeout, which the source names as an event without an arrow",
    Arrow(Coordinator, "Active", "TransactionConfirmed", "Idle"): "after `idle_grace` heartbeats: by HeartbeatInterval",
}

EVERY = [Arrow(machine, *line.split()) for machine, text in ARROWS.items() for line in text.strip().splitlines()]


def is_built(arrow: Arrow) -> bool:
    """A row leads there, or stays where it is if the arrow does."""
    return any(
        row.state.value == arrow.before
        and arrow.event in ("*", row.event.__name__)
        and getattr(row.state if row.then is None else row.then, "value", "") == arrow.after
        for row in arrow.machine.table.rows
    )


@pytest.mark.parametrize("arrow", EVERY, ids=lambda arrow: f"{arrow.before}-{arrow.event}-{arrow.after}")
def test_arrow_of_the_source_is_a_row_or_a_departure_with_its_reason(arrow: Arrow) -> None:
    assert is_built(arrow) != bool(DEPARTURES.get(arrow)), "either a row, or a departure with its reason"


def test_every_departure_is_from_an_arrow_of_the_source() -> None:
    assert [arrow for arrow in DEPARTURES if arrow not in EVERY] == []
