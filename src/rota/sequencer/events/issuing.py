"""What the issuing of prepared transitions is told by its timers (protocol §4.2)."""

from __future__ import annotations

from rota.machine.tables import Event
from rota.model.frozen import dataclass
from rota.model.types import Leaf


@dataclass(frozen=True, slots=True)
class IssueRepeatDue(Event):
    """A prepared transition is to be sent again."""

    leaf: Leaf
