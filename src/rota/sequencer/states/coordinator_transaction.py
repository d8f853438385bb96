"""Where an intent can be at its coordinator (protocol §4.2), and the groups that the rules speak of."""

from __future__ import annotations

from enum import Enum

from rota.machine.tables import superstate


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


UNASSEMBLED = superstate("Unassembled", State.POOLED, State.PREASSEMBLY_BLOCKED)
AWAITING_ASSEMBLY = superstate("AwaitingAssembly", UNASSEMBLED, State.ASSEMBLING)
ASSEMBLED = superstate("Assembled", State.ENDORSEMENT_GATHERING, State.BLOCKED, State.CONFIRMING_DISPATCH)
# Until its dispatch is on its way to the disk.
RECALLABLE = superstate("Recallable", ASSEMBLED, State.READY_FOR_DISPATCH)
SENT = superstate("Sent", State.DISPATCHED, State.SUBMITTED)
# Prepared is not under way: it has left its round and the graph, and is only to be given to its sender.
UNDER_WAY = superstate("UnderWay", AWAITING_ASSEMBLY, RECALLABLE, SENT)
HELD = superstate("Held", UNDER_WAY, State.PREPARED)
ENDED = superstate("Ended", State.CONFIRMED, State.REVERTED)
GONE = superstate("Gone", ENDED, State.FINAL)
KNOWN = superstate("Known", HELD, GONE)
UNDISPATCHED = (*AWAITING_ASSEMBLY.states, *ASSEMBLED.states)
ON_THE_WAY = (State.READY_FOR_DISPATCH, *SENT.states)
# What a coordinator that leaves has no more to do with; what is prepared is sent to its sender all the same.
DROPPABLE = (*UNDISPATCHED, State.PREPARED)
# Who stands on it may look again: at its permission, or at being prepared.
READY = (State.READY_FOR_DISPATCH, State.DISPATCHED)
