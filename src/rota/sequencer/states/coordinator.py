"""What a coordinator can be (protocol §4.1), and the groups that the rules speak of."""

from __future__ import annotations

from rota.wire.messages import CoordinatorState as State

AWAITING_ROLE = (State.STANDBY, State.ELECT, State.PREPARED)
ACTING = (*AWAITING_ROLE, State.ACTIVE)
LEAVING = (State.FLUSH, State.CLOSING)
YIELDING = (State.OBSERVING, *LEAVING)
FOLLOWING = (State.IDLE, State.OBSERVING)
HEARTBEATING = (*ACTING, *LEAVING)
EVERY = tuple(State)
