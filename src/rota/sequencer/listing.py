"""The list of a sender's intents in heartbeats: changes, and a check of the whole (protocol §6).

Theory of operation. Both sides keep the list as sent last. A heartbeat carries the entries that are
new or changed, the intents that are gone, and count and digest of the list as it is now; so a contract
costs only its changes. When a heartbeat was lost, the receiver's list no longer has that digest, and it
requests the whole list. The digest is the exclusive or of the entries' hashes: one change is one step.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from functools import lru_cache

from rota.model.types import IntentId
from rota.wire.messages import ListedIntent

HASHES_KEPT_MAX = 16_384


class Listing:
    """The intents of one sender at one coordinator, with their states there, as sent last."""

    def __init__(self) -> None:
        self.states: dict[IntentId, str] = {}
        self.digest = 0

    @property
    def count(self) -> int:
        """The number of listed intents."""
        return len(self.states)

    def changes(self, now: Mapping[IntentId, str]) -> tuple[tuple[ListedIntent, ...], tuple[IntentId, ...]]:
        """Return the new or changed entries and those that are gone, and take them as sent."""
        if now == self.states:
            return (), ()
        changed = tuple(ListedIntent(i, state) for i, state in now.items() if self.states.get(i) != state)
        gone = tuple(intent for intent in self.states if intent not in now)
        self.apply(changed, gone)
        return changed, gone

    def apply(self, changed: Iterable[ListedIntent], gone: Iterable[IntentId]) -> None:
        """Apply the changes received."""
        for intent in gone:
            self._take_out(intent)
        for entry in changed:
            self._take_out(entry.intent)
            self.states[entry.intent] = entry.state
            self.digest ^= _hash(entry.intent, entry.state)

    def _take_out(self, intent: IntentId) -> None:
        state = self.states.pop(intent, None)
        if state is not None:
            self.digest ^= _hash(intent, state)


@lru_cache(maxsize=HASHES_KEPT_MAX)
def _hash(intent: IntentId, state: str) -> int:
    """Return the hash of an entry; cached, because an entry is removed again."""
    return int.from_bytes(hashlib.sha256(intent + state.encode()).digest()[:8], "big")
