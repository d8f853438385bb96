"""Consent to proposals to endorse or to coordinate: the operator's policy, and the operator's decisions.

A contract that names this node as an endorser or as a coordinator makes it work, sign and pay for others. So the
operator has to agree to it, in the configuration or case by case. A contract in which the node's parties only hold or
receive something needs nothing of the node, and its operator is never asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from rota.model.frozen import dataclass
from rota.model.types import IntentId, NodeName

# A question takes at least this much of the room for questions, which bounds their number too.
QUESTION_BYTES_MIN = 65_536
# One peer may use at most this fraction of that room.
PEER_SHARE = 16

Question = tuple[NodeName, IntentId]


class ConsentMode(Enum):
    """The treatment of a proposal from a node that is not on the list."""

    OPEN = "open"
    LISTED = "listed"
    ASK = "ask"


class Decision(Enum):
    """The operator's decision about one proposal."""

    GIVEN = "given"
    ASKED = "asked"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Consent:
    """An operator's policy. Proposals of the nodes in `allow` are taken without a question."""

    mode: ConsentMode = ConsentMode.ASK
    allow: tuple[NodeName, ...] = ()

    def to_proposal_of(self, peer: NodeName) -> Decision:
        """Return the policy's decision about a contract that this peer proposes, and in which this node has a part."""
        if self.mode is ConsentMode.OPEN or peer in self.allow:
            return Decision.GIVEN
        return Decision.ASKED if self.mode is ConsentMode.ASK else Decision.REFUSED


OPEN = Consent(ConsentMode.OPEN)


class NoRoom(Exception):
    """There is no room for one more question to the operator; the text names the limit."""


def displaced_by(asked: Mapping[Question, int], peer: NodeName, size: int, room: int) -> tuple[Question, ...]:
    """Return the questions displaced by one more of this peer; raise `NoRoom` if it gets no place in the room of bytes.

    `asked` has the size of each open question, the oldest first. When the room is full, a peer that has more of it than
    this peer will have loses its newest question, so that a few peers with many do not shut out the first of another.
    """
    costs = {question: max(size, QUESTION_BYTES_MIN) for question, size in asked.items()}
    cost = max(size, QUESTION_BYTES_MIN)
    held: dict[NodeName, int] = {}
    for (proposer, _), each in costs.items():
        held[proposer] = held.get(proposer, 0) + each
    own = held.get(peer, 0) + cost
    if own > max(room // PEER_SHARE, QUESTION_BYTES_MIN):
        raise NoRoom("of yours")
    displaced: list[Question] = []
    while sum(costs.values()) + cost > room:
        largest = max(held, key=lambda proposer: held[proposer], default=peer)
        if held.get(largest, 0) <= own:
            raise NoRoom("of all")
        newest = next(question for question in reversed(costs) if question[0] == largest)
        held[largest] -= costs.pop(newest)
        displaced.append(newest)
    return tuple(displaced)
