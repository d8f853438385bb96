"""What a coordinator can be (protocol §4.1), and the groups that the rules speak of."""

from __future__ import annotations

from rota.machine.tables import superstate
from rota.wire.messages import CoordinatorState as State

AWAITING_ROLE = superstate("AwaitingRole", State.STANDBY, State.ELECT, State.PREPARED)
ACTING = superstate("Acting", AWAITING_ROLE, State.ACTIVE)
LEAVING = superstate("Leaving", State.FLUSH, State.CLOSING)
FOLLOWING = superstate("Following", State.IDLE, State.OBSERVING)
WITHOUT_ROLE = superstate("WithoutRole", FOLLOWING, LEAVING)
HEARTBEATING = (*ACTING.states, *LEAVING.states)
EVERY = superstate("Every", *State)
