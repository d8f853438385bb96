"""How many of a node's open transactions one caller may have: half of `intents_open_max`, as of other things.

Without this, one credential could take every place, and all others would be told that the node is busy. A transaction
counts for who submitted it until it has ended. What an earlier life accepted counts for nobody: the store does not know
whose it was.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container
from typing import Final

from rota.api.credentials import Caller, share_of
from rota.ports import Unavailable
from rota.types import IntentId

# To look who has ended costs as much as a caller has open; one that has its share is not looked at more often.
LOOK_S: Final = 1.0


class CallerShares:
    """Of one node. `open_intents` are those that have not ended."""

    def __init__(self, most: int, open_intents: Callable[[], Container[IntentId]], now_s: Callable[[], float]) -> None:
        self._most: Final = most
        self._open_intents: Final = open_intents
        self._now_s: Final = now_s
        self._of: Final[dict[str, dict[IntentId, None]]] = {}
        self._looked_s: Final[dict[str, float]] = {}

    def require_room(self, caller: Caller) -> None:
        """`Unavailable` when this caller has its share of open transactions."""
        share = share_of(caller, self._most)
        own = self._of.get(caller.name, {})
        if len(own) < share:
            return
        now_s = self._now_s()
        if now_s >= self._looked_s.get(caller.name, -math.inf) + LOOK_S:
            self._looked_s[caller.name] = now_s
            open_intents = self._open_intents()
            own = self._of[caller.name] = {intent: None for intent in own if intent in open_intents}
        if len(own) >= share:
            raise Unavailable(
                f"{len(own)} transactions of {caller.name} are under way, and a caller may have {share} of "
                f"{self._most}; try again later"
            )

    def note(self, caller: Caller, intent: IntentId) -> None:
        """This caller's transaction was accepted."""
        self._of.setdefault(caller.name, {})[intent] = None
