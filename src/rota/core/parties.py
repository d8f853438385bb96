"""Who is who: parties are resolved to verifiers before their intent is delegated (protocol §4.3).

A party's own node is asked, again and again until it answers; nobody else's word counts. What is known is
kept. An unknown party reverts the intent, an unreachable node lets it wait, and no other intent waits.
An endorser has to know the party that signed, too: whoever checks for it wants a verifier, and is told.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.core.effects import LookUpVerifier, ReportVerifier
from rota.core.events.sender import VerifierRepeatDue
from rota.core.events.sender_transaction import PartyResolved
from rota.core.machine import Event
from rota.messages import VerifierRequest, VerifierResponse
from rota.types import Intent, NodeName, Party, RequestId, node_of

if TYPE_CHECKING:
    from rota.core.sender import Sender
    from rota.core.sender_transaction import SenderTransaction


VERIFIERS_KEPT_MAX = 10_000
VERIFIERS_WANTED_MAX = 10_000


class Parties:
    """The verifiers that this node knows, and those that it asks for."""

    def __init__(self, sender: Sender) -> None:
        self.sender = sender
        self.context = sender.context
        self.verifiers: dict[Party, str] = {}
        self.resolving: dict[Party, RequestId] = {}
        self.wanted: dict[Party, None] = {}

    def handle(self, event: Event) -> None:
        """A party's node has not answered: ask again, with the same id."""
        assert isinstance(event, VerifierRepeatDue), "the parties know their timers"
        if event.party in self.resolving:
            self._ask(event.party)

    def unresolved(self, intent: Intent) -> dict[Party, None]:
        """The parties of an intent whose verifiers are not known."""
        return {party: None for party in intent.parties if party not in self.verifiers}

    def want(self, party: Party) -> None:
        """Report this party's verifier, now or when its node has answered."""
        known = self.verifiers.get(party)
        if known is not None:
            self._report(party, known)
        elif len(self.wanted) < VERIFIERS_WANTED_MAX:
            self.wanted[party] = None
            self._resolve(party)

    def take_response(self, peer: NodeName, response: VerifierResponse) -> None:
        """The party's own node says who it is; nobody else may."""
        if self.resolving.get(response.party) != response.request_id or node_of(response.party) != peer:
            return
        del self.resolving[response.party]
        if response.verifier:
            self.verifiers[response.party] = response.verifier
            if len(self.verifiers) > VERIFIERS_KEPT_MAX:
                del self.verifiers[next(iter(self.verifiers))]
        if response.party in self.wanted:
            del self.wanted[response.party]
            self._report(response.party, response.verifier)
        for transaction in tuple(self.sender.transactions.values()):
            if response.party in transaction.unresolved:
                transaction.note_party(response.party, response.verifier)
                transaction.handle(PartyResolved(response.party, response.verifier))

    def take_request(self, peer: NodeName, request: VerifierRequest) -> None:
        """Somebody asks for a party of ours: the key store knows."""
        address = self.context.contract.address
        self.context.effects.append(LookUpVerifier(address, peer, request.request_id, request.party))

    def answer(self, peer: NodeName, request_id: RequestId, party: Party, verifier: str) -> None:
        """What the key store said."""
        self.context.send(peer, VerifierResponse(request_id, party, verifier))

    def resolve_for(self, transaction: SenderTransaction) -> None:
        """Ask for those parties of an intent that are not known, and are not being asked for."""
        transaction.unresolved = {party: None for party in transaction.unresolved if party not in self.verifiers}
        for party in transaction.unresolved:
            self._resolve(party)

    def _report(self, party: Party, verifier: str) -> None:
        self.context.effects.append(ReportVerifier(self.context.contract.address, party, verifier))

    def _resolve(self, party: Party) -> None:
        if party not in self.resolving:
            self.resolving[party] = self.context.next_id()
            self._ask(party)

    def _ask(self, party: Party) -> None:
        self.context.send(node_of(party), VerifierRequest(self.resolving[party], party))
        due_ms = self.context.after(self.context.config.request_timeout_ms)
        self.context.timers.set(self, f"verifier {party}", due_ms, VerifierRepeatDue(party))
