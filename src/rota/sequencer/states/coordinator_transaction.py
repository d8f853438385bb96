"""Where an intent can be at its coordinator (protocol §4.2), and the groups that the rules speak of."""

from __future__ import annotations

from enum import Enum


class State(Enum):
    """Where an intent is at its coordinator (seed 2, and Prepared)."""

    INITIAL = "Initial"
    POOLED = "Pooled"
    PREASSEMBLY_BLOCKED = "PreAssembly_Blocked"
    ASSEMBLING = "Assembling"
    ENDORSEMENT_GATHERING = "Endorsement_Gathering"
    BLOCKED = "Blocked"
    CONFIRMING_DISPATCH = "Confirming_Dispatch"
    PREPARED = "Prepared"
    READY_FOR_DISPATCH = "Ready_For_Dispatch"
    DISPATCHED = "Dispatched"
    SUBMITTED = "Submitted"
    CONFIRMED = "Confirmed"
    REVERTED = "Reverted"
    FINAL = "Final"

    # One of each: its address tells it apart at once, where Enum would hash its name at every look into a table.
    __hash__ = object.__hash__


UNASSEMBLED = (State.POOLED, State.PREASSEMBLY_BLOCKED)
AWAITING_ASSEMBLY = (*UNASSEMBLED, State.ASSEMBLING)
ASSEMBLED = (State.ENDORSEMENT_GATHERING, State.BLOCKED, State.CONFIRMING_DISPATCH)
UNDISPATCHED = (*AWAITING_ASSEMBLY, *ASSEMBLED)
ON_THE_WAY = (State.READY_FOR_DISPATCH, State.DISPATCHED, State.SUBMITTED)
# Prepared is not under way: it has left its round and the graph, and is only to be given to its sender.
ENDORSED = (State.PREPARED, *ON_THE_WAY)
# What a coordinator that leaves has no more to do with; what is prepared is sent to its sender all the same.
DROPPABLE = (*UNDISPATCHED, State.PREPARED)
UNDER_WAY = (*UNDISPATCHED, *ON_THE_WAY)
# Who stands on it may look again: at its permission, or at being prepared.
READY = (State.READY_FOR_DISPATCH, State.DISPATCHED)
ENDED = (State.CONFIRMED, State.REVERTED)
GONE = (*ENDED, State.FINAL)
# Whatever waits there, waits with a timer of the slots, rounds or permissions, or for the ledger.
UNBLOCKED = (*AWAITING_ASSEMBLY, State.ENDORSEMENT_GATHERING, State.CONFIRMING_DISPATCH, *ENDORSED, *GONE)
