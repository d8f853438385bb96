"""What a sender can be, and what it has under way (protocol §4.3)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from rota.machine.tables import superstate
from rota.model.types import IntentId, RequestId
from rota.wire.messages import CoordinatorState

LEAVING = (CoordinatorState.FLUSH, CoordinatorState.CLOSING)


class State(Enum):
    """What a sender is doing (seed 2)."""

    IDLE = "Idle"
    OBSERVING = "Observing"
    SENDING = "Sending"

    # One of each: its address tells it apart at once, where Enum would hash its name at every look into a table.
    __hash__ = object.__hash__


RESTING = superstate("Resting", State.IDLE, State.OBSERVING)
EVERY = superstate("Every", *State)


@dataclass(slots=True)
class Command:
    """A delegation command that has not been answered."""

    command_id: RequestId
    intents: tuple[IntentId, ...]
