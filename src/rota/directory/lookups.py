"""Look-ups of addresses of other nodes' parties, for users who ask before there is a contract; one per node.

A contract's parties are resolved by its sequencer (`sequencer/parties.py`), repeatedly until their node answers. Here a
user waits: the party's node is asked once per request, and a user whose request got no answer repeats it. Only the
party's own node is asked, and no other node's answer counts.
"""

from __future__ import annotations

from rota.machine.context import StepContext
from rota.machine.effects import LookUpVerifier, ReportVerifier
from rota.machine.events import VerifierLookedUp
from rota.model.types import NO_CONTRACT, NodeName, Party, RequestId, is_address, node_of
from rota.wire.messages import VerifierRequest, VerifierResponse

LOOKUPS_MAX = 10_000


class Lookups:
    """Requests to other nodes without an answer."""

    def __init__(self, context: StepContext) -> None:
        self.context = context
        self.open: dict[Party, RequestId] = {}

    def want(self, party: Party) -> None:
        """Ask the party's node; a forgotten request is made again when it is wanted again."""
        if party not in self.open:
            self.open[party] = self.context.next_id()
            if len(self.open) > LOOKUPS_MAX:
                del self.open[next(iter(self.open))]
        self.context.send(node_of(party), VerifierRequest(self.open[party], party))

    def take_request(self, peer: NodeName, request: VerifierRequest) -> None:
        """Look up a party of this node in the key store for the peer."""
        self.context.effects.append(LookUpVerifier(NO_CONTRACT, peer, request.request_id, request.party))

    def answer(self, found: VerifierLookedUp) -> None:
        """Answer with the key store's result. Only nodes that share a contract learn whether a party is in use."""
        self.context.send(found.peer, VerifierResponse(found.request_id, found.party, found.verifier))

    def take_response(self, peer: NodeName, response: VerifierResponse) -> None:
        """The party's own node reports its address, and no other node may.

        Users see the text in the place of the party: a node that reports the name of another party has none.
        """
        if self.open.get(response.party) == response.request_id and node_of(response.party) == peer:
            del self.open[response.party]
            address = response.verifier if is_address(response.verifier) else ""
            self.context.effects.append(ReportVerifier(NO_CONTRACT, response.party, address))
