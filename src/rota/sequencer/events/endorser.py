"""What an endorser is told by its timer (protocol §5)."""

from __future__ import annotations

from rota.machine.tables import Event
from rota.model.frozen import dataclass


@dataclass(frozen=True, slots=True)
class StatesOverdue(Event):
    """What it has signed is on the chain, and nobody has sent it the states."""
