"""Requests of peers for the verifiers of this node's parties, and the limits on answers (trust rule 10).

Theory of operation. To derive the verifier of a party takes up to two milliseconds, and a peer can make up any number
of names. So recent answers are cached for `ANSWER_MS`, also those for unknown parties; not for longer, because an
operator may import a key. Other names are looked up within an allowance: each peer always has
`LOOKUPS_LEAST` in an interval, and up to `LOOKUPS_OF_PEER_MAX` as long as all peers together stay within `LOOKUPS_MAX`.
A request beyond that is dropped; its author repeats it.

An answer also reports whether users of this node have used the party, so that a payer notices a mistyped name. Only
nodes that share the contract get that, and for `ANNOUNCED_OF_PEER_MAX` names an hour.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, NamedTuple

from rota.machine.events import VerifierLookedUp
from rota.machine.pacing import Pacing
from rota.model.sharing import may_distribute
from rota.model.types import NO_CONTRACT, ContractAddress, NodeName, Party
from rota.node.owner import Owner
from rota.wire.messages import VerifierRequest, VerifierResponse

ANSWERS_MAX: Final = 4_096
ANSWER_MS: Final = 60_000
LOOKUPS_LEAST: Final = 8
LOOKUPS_OF_PEER_MAX: Final = 64
LOOKUPS_MAX: Final = 128
# Each answer shows whether a name is in use; beyond the limit, answers of the hour have the verifier only.
HOUR_MS: Final = 3_600_000
ANNOUNCED_OF_PEER_MAX: Final = 256


class _Answer(NamedTuple):
    verifier: str
    is_announced: bool
    until_ms: int


class VerifierRequests:
    """The recent answers of one node, and the allowances of its peers."""

    def __init__(self, node: Owner) -> None:
        self.node = node
        self.pacing = Pacing(node)
        self.answers: dict[tuple[ContractAddress, Party], _Answer] = {}
        self.dropped_count = 0

    def must_look_up(self, peer: NodeName, contract: ContractAddress, request: VerifierRequest) -> bool:
        """Whether to ask the key store; otherwise the request has been answered or dropped here."""
        if peer == self.node.name:
            return True
        # Whether the peer is a stranger to the contract is known once that is in memory (`acquaintance.py`).
        is_known = contract == NO_CONTRACT or contract in self.node.sequencers.loaded
        answer = self.answers.get((contract, request.party)) if is_known else None
        is_fresh = answer is not None and answer.until_ms > self.node.now_ms
        if answer is not None and is_fresh and (answer.is_announced or not request.asks_announced):
            announced = True if request.asks_announced and self.may_tell_announced(peer, contract) else None
            response = VerifierResponse(request.request_id, request.party, answer.verifier, announced)
            self.node.send(peer, contract, response)
            return False
        if self._has_allowance(peer):
            return True
        self.dropped_count += 1
        return False

    def take_found(self, contract: ContractAddress, found: VerifierLookedUp) -> VerifierLookedUp:
        """Take the key store's answer and return what the peer gets of it.

        The answer is cached, and the oldest is forgotten first. "Not announced" is not cached: that may change at any
        moment.
        """
        key = (contract, found.party)
        self.answers.pop(key, None)
        self.answers[key] = _Answer(found.verifier, found.announced is True, self.node.now_ms + ANSWER_MS)
        if len(self.answers) > ANSWERS_MAX:
            del self.answers[next(iter(self.answers))]
        if found.announced is None or self.may_tell_announced(found.peer, contract):
            return found
        return replace(found, announced=None)

    def may_tell_announced(self, peer: NodeName, contract: ContractAddress) -> bool:
        """Whether the peer shares the contract and asks too rarely to try all possible names."""
        if peer == self.node.name:
            return True
        sequencer = self.node.sequencers.loaded.get(contract)
        if sequencer is None or not may_distribute(sequencer.context.contract, peer):
            return False
        return self.pacing.is_due(("announced", peer), HOUR_MS, ANNOUNCED_OF_PEER_MAX)

    def _has_allowance(self, peer: NodeName) -> bool:
        interval_ms = self.node.config.request_timeout_ms
        if self.pacing.is_due(("least", peer), interval_ms, LOOKUPS_LEAST):
            return True
        is_in_share = self.pacing.is_due(("most", peer), interval_ms, LOOKUPS_OF_PEER_MAX - LOOKUPS_LEAST)
        return is_in_share and self.pacing.is_due("all", interval_ms, LOOKUPS_MAX)
