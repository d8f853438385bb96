"""Transitions that this node received with fewer contents than their lists grant it: one per node, for all contracts.

Theory of operation. The node that distributes a transition may leave out the content of a state whose list names this
node. When the transition is on the chain, this node asks the members and endorsers for it by leaf, less and less often,
until it has all contents or has asked `TIMES_MAX` times. It does not ask for a transition that is not on the chain: a
peer can make up any number of them. No leaf binds the lists, so a distributor that also takes this node off the list is
not noticed here.
"""

from __future__ import annotations

from typing import Final

from rota.model.frozen import dataclass
from rota.model.types import ContractAddress, IntentId, Leaf, NodeName, StateId, Transition

INCOMPLETE_MAX: Final = 1_024
INCOMPLETE_OF_PEER_MAX: Final = 128
TIMES_MAX: Final = 8


@dataclass(slots=True)
class Lacking:
    """The states of one transition whose contents this node may see and did not get. A peer showed it."""

    peer: NodeName
    contract: ContractAddress
    intent: IntentId
    leaf: Leaf
    states: tuple[StateId, ...]
    due_ms: int
    attempt: int = 0


class Incomplete:
    """The incomplete transitions, and when to check them again."""

    def __init__(self, node: NodeName, interval_ms: int) -> None:
        self.node = node
        self.interval_ms = interval_ms
        self.look_at_ms: int | None = None
        self._lacking: dict[tuple[ContractAddress, Leaf], Lacking] = {}
        self._of_peer: dict[NodeName, int] = {}

    def note(self, now_ms: int, peer: NodeName, contract: ContractAddress, transition: Transition) -> None:
        """Note an incomplete transition from a peer, which has a bounded number of places for them."""
        listed = [state for state in transition.outputs if state.content is None and self.node in state.distribution]
        key, count = (contract, transition.leaf), self._of_peer.get(peer, 0)
        if not listed or key in self._lacking:
            return
        if count < INCOMPLETE_OF_PEER_MAX and len(self._lacking) < INCOMPLETE_MAX:
            self._of_peer[peer] = count + 1
            states = tuple(state.id for state in listed)
            due_ms = now_ms + self.interval_ms
            self._lacking[key] = Lacking(peer, contract, transition.intent, transition.leaf, states, due_ms)
            self.look_at_ms = self.look_at_ms if self.look_at_ms is not None else due_ms

    def take_due(self, now_ms: int) -> list[Lacking]:
        """Return those that are due now; the next time follows with a growing backoff."""
        if self.look_at_ms is None or self.look_at_ms > now_ms:
            return []
        due = [each for each in self._lacking.values() if each.due_ms <= now_ms]
        for each in due:
            each.attempt += 1
            each.due_ms = now_ms + (self.interval_ms << each.attempt)
        self.look_at_ms = now_ms + self.interval_ms
        return due

    def forget(self, lacking: Lacking) -> None:
        """Remove one that is complete, or no longer asked for."""
        del self._lacking[lacking.contract, lacking.leaf]
        self._of_peer[lacking.peer] -= 1
        if not self._of_peer[lacking.peer]:
            del self._of_peer[lacking.peer]
        if not self._lacking:
            self.look_at_ms = None
