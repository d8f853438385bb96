"""Limits one caller's open transactions: half of `intents_open_max`, and an equal part while the node is overloaded.

Without the first limit one credential could take every place, without the second one credential's load would make the
node refuse all others. A transaction counts for the caller that submitted it until it ends. Transactions that an
earlier run accepted count for no caller: the store does not record who submitted them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container
from typing import Final

from rota.model.types import IntentId
from rota.ports import Unavailable
from rota.rpc.credentials import Caller, share_of

# Removing the ended ones costs as much as a caller has open, so it is done at most this often.
LOOK_S: Final = 1.0


class CallerShares:
    """The callers' shares at one node. `open_intents` are the intents that have not ended."""

    def __init__(self, most: int, open_intents: Callable[[], Container[IntentId]], now_s: Callable[[], float]) -> None:
        self._most: Final = most
        self._open_intents: Final = open_intents
        self._now_s: Final = now_s
        self._of: Final[dict[str, dict[IntentId, None]]] = {}
        self._looked_s = -math.inf

    def require_room(self, caller: Caller) -> None:
        """Raise `Unavailable` when this caller has its share of open transactions."""
        share = share_of(caller, self._most)
        if len(self._of.get(caller.name, ())) < share:
            return
        self._remove_ended()
        if (own := len(self._of.get(caller.name, ()))) >= share:
            raise Unavailable(
                f"{own} transactions of {caller.name} are under way, and a caller may have {share} of "
                f"{self._most}; try again later"
            )

    def is_below_equal_part(self, caller: Caller, room: float) -> bool:
        """Whether this caller has less than an equal part of `room`, divided among all callers with open ones."""
        self._remove_ended()
        return len(self._of.get(caller.name, ())) < room / len(self._of.keys() | {caller.name})

    def _remove_ended(self) -> None:
        now_s = self._now_s()
        if now_s < self._looked_s + LOOK_S:
            return
        self._looked_s = now_s
        open_intents = self._open_intents()
        for name, intents in list(self._of.items()):
            if left := {intent: None for intent in intents if intent in open_intents}:
                self._of[name] = left
            else:
                del self._of[name]

    def note(self, caller: Caller, intent: IntentId) -> None:
        """Record that this caller's transaction was accepted."""
        self._of.setdefault(caller.name, {})[intent] = None
