"""Requests of peers for the verifiers of this node's parties: how many are answered (trust rule 10).

Theory of operation. To derive the verifier of a party takes up to two milliseconds, and a peer can make up any number
of names. So recent answers are kept for `ANSWER_MS`, also those that there is no such party; not for longer, because an
operator may import a key. What is not among them is looked up within an allowance: each peer always has
`LOOKUPS_LEAST` in an interval, and up to `LOOKUPS_OF_PEER_MAX` as long as all peers together stay within `LOOKUPS_MAX`.
A request beyond that is dropped; its author repeats it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from rota.core.pacing import Pacing
from rota.messages import VerifierRequest, VerifierResponse
from rota.types import ContractAddress, NodeName, Party

if TYPE_CHECKING:
    from rota.core.node import Node

ANSWERS_MAX: Final = 4_096
ANSWER_MS: Final = 60_000
LOOKUPS_LEAST: Final = 8
LOOKUPS_OF_PEER_MAX: Final = 64
LOOKUPS_MAX: Final = 128


class _Answer(NamedTuple):
    verifier: str
    until_ms: int


class VerifierRequests:
    """The recent answers of one node, and the allowances of its peers."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.pacing = Pacing(node)
        self.answers: dict[tuple[ContractAddress, Party], _Answer] = {}
        self.dropped_count = 0

    def must_look_up(self, peer: NodeName, contract: ContractAddress, request: VerifierRequest) -> bool:
        """Whether the key store is to be asked; else the request has been answered or dropped here."""
        if peer == self.node.name:
            return True
        answer = self.answers.get((contract, request.party))
        if answer is not None and answer.until_ms > self.node.now_ms:
            self.node.send(peer, contract, VerifierResponse(request.request_id, request.party, answer.verifier))
            return False
        if self._has_allowance(peer):
            return True
        self.dropped_count += 1
        return False

    def note(self, contract: ContractAddress, party: Party, verifier: str) -> None:
        """The key store has answered; the oldest answer is forgotten first."""
        self.answers.pop((contract, party), None)
        self.answers[contract, party] = _Answer(verifier, self.node.now_ms + ANSWER_MS)
        if len(self.answers) > ANSWERS_MAX:
            del self.answers[next(iter(self.answers))]

    def _has_allowance(self, peer: NodeName) -> bool:
        interval_ms = self.node.config.request_timeout_ms
        if self.pacing.is_due(("least", peer), interval_ms, LOOKUPS_LEAST):
            return True
        is_in_share = self.pacing.is_due(("most", peer), interval_ms, LOOKUPS_OF_PEER_MAX - LOOKUPS_LEAST)
        return is_in_share and self.pacing.is_due("all", interval_ms, LOOKUPS_MAX)
