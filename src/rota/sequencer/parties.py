"""Verifiers of parties: each party is resolved to one before its intent is delegated (protocol §4.3).

Only the party's own node is asked, repeatedly until it answers; no other node's answer counts. Results are
cached. An unknown party reverts the intent, an unreachable node makes it wait, and no other intent waits.
A check by an endorser or coordinator may need a verifier too; it gets a report.

A coordinator, or a sender, chooses which parties a check needs, and their nodes may never answer. So a verifier
that only a check wants is requested during `unavailable_ttl` and then forgotten; the next check requests it again.
One node has at most `WANTED_OF_NODE_MAX` wanted parties, and where all places are taken, the node that has the most of
them loses one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from rota.machine.bounded import forget_oldest
from rota.machine.effects import LookUpVerifier, ReportVerifier
from rota.machine.events import VerifierLookedUp
from rota.machine.tables import Event
from rota.model.types import IntentId, NodeName, Party, RequestId, node_of
from rota.sequencer.context import Context
from rota.sequencer.sender_events import VerifierRepeatDue
from rota.sequencer.sender_transaction_events import PartyResolved
from rota.sequencer.sent_intent import SentIntent
from rota.wire.messages import VerifierRequest, VerifierResponse

VERIFIERS_KEPT_MAX: Final = 10_000
VERIFIERS_WANTED_MAX: Final = 4_096
WANTED_OF_NODE_MAX: Final = 512
# An address, or a key of a proved token, is much shorter.
VERIFIER_CHARACTERS_MAX: Final = 512


class Want(NamedTuple):
    """A verifier to report: when it is given up, and whether the request asks if the party is announced."""

    due_ms: int
    asks_announced: bool


class Parties:
    """The verifiers that this node knows, and those that it requests."""

    def __init__(self, context: Context, transactions: Mapping[IntentId, SentIntent]) -> None:
        self.context = context
        self.transactions = transactions
        self.verifiers: dict[Party, str] = {}
        self.resolving: dict[Party, RequestId] = {}
        # Parties that intents of this node need, and those that checks want, by node.
        self.needed: dict[Party, None] = {}
        self.wanted: dict[NodeName, dict[Party, Want]] = {}
        self.wanted_count = 0

    def handle(self, event: Event) -> None:
        """A party's node has not answered: repeat the request, under the same id, while it is needed or wanted."""
        assert isinstance(event, VerifierRepeatDue), "the parties know their timers"
        party = event.party
        want = self._want_of(party)
        if want is not None and want.due_ms <= self.context.now_ms:
            self._give_up(party)
        if party in self.resolving:
            self._ask(party)

    def unresolved(self, parties: Iterable[Party]) -> dict[Party, None]:
        """Return the parties whose verifiers are not known."""
        return {party: None for party in parties if party not in self.verifiers}

    def want(self, party: Party, *, asks_announced: bool = False) -> None:
        """Report this party's verifier now or on its node's answer; on an answer also whether it is announced."""
        known = self.verifiers.get(party)
        if known is not None and not asks_announced:
            self._report(party, known)
            return
        node = node_of(party)
        of_node = self.wanted.get(node, {})
        before = of_node.get(party)
        if before is not None and (before.asks_announced or not asks_announced):
            return
        if before is None:
            if len(of_node) >= WANTED_OF_NODE_MAX:
                return
            if self.wanted_count >= VERIFIERS_WANTED_MAX:
                most = max(self.wanted.values(), key=len)
                self._give_up(next(iter(most)))
            self.wanted_count += 1
        due_ms = self.context.after(self.context.config.unavailable_ttl_ms)
        self.wanted.setdefault(node, {})[party] = Want(due_ms, asks_announced)
        if asks_announced:
            # An answer to the earlier request would not include it.
            self.resolving.pop(party, None)
        self._resolve(party)

    def take_response(self, peer: NodeName, response: VerifierResponse) -> None:
        """Take an answer from the party's own node; ignore others."""
        if not self.is_awaited(peer, response):
            return
        if len(response.verifier) > VERIFIER_CHARACTERS_MAX:
            return
        del self.resolving[response.party]
        self.needed.pop(response.party, None)
        if response.verifier:
            self.verifiers[response.party] = response.verifier
            forget_oldest(self.verifiers, VERIFIERS_KEPT_MAX)
        if self._is_no_longer_wanted(response.party):
            self._report(response.party, response.verifier, response.announced)
        for transaction in tuple(self.transactions.values()):
            if response.party in transaction.unresolved:
                transaction.note_party(response.party, response.verifier)
                transaction.handle(PartyResolved(response.party, response.verifier))

    def is_awaited(self, peer: NodeName, response: VerifierResponse) -> bool:
        """Whether it answers a request sent to this peer."""
        return self.resolving.get(response.party) == response.request_id and node_of(response.party) == peer

    def take_request(self, peer: NodeName, request: VerifierRequest) -> None:
        """Look up a party of this node in the key store for the peer."""
        address = self.context.contract.address
        look_up = LookUpVerifier(address, peer, request.request_id, request.party, request.asks_announced)
        self.context.effects.append(look_up)

    def answer(self, found: VerifierLookedUp) -> None:
        """Answer the peer with the result from the key store."""
        response = VerifierResponse(found.request_id, found.party, found.verifier, found.announced)
        self.context.send(found.peer, response)

    def resolve_for(self, transaction: SentIntent) -> None:
        """Request the verifiers that an intent needs, except those known or requested already."""
        transaction.unresolved = self.unresolved(transaction.unresolved)
        for party in transaction.unresolved:
            self.needed[party] = None
            self._resolve(party)

    def _give_up(self, party: Party) -> None:
        """Its node does not answer: stop the requests, unless an intent of this node needs the party."""
        self._is_no_longer_wanted(party)
        if party not in self.needed:
            del self.resolving[party]
            self.context.timers.cancel(self, _kind(party))

    def _is_no_longer_wanted(self, party: Party) -> bool:
        """Remove it from the wanted parties and return whether it was one."""
        of_node = self.wanted.get(node_of(party), {})
        if of_node.pop(party, None) is None:
            return False
        self.wanted_count -= 1
        if not of_node:
            del self.wanted[node_of(party)]
        return True

    def _want_of(self, party: Party) -> Want | None:
        return self.wanted.get(node_of(party), {}).get(party)

    def _report(self, party: Party, verifier: str, announced: bool | None = None) -> None:
        self.context.effects.append(ReportVerifier(self.context.contract.address, party, verifier, announced))

    def _resolve(self, party: Party) -> None:
        if party not in self.resolving:
            self.resolving[party] = self.context.next_id()
            self._ask(party)

    def _ask(self, party: Party) -> None:
        want = self._want_of(party)
        asks_announced = want is not None and want.asks_announced
        self.context.send(node_of(party), VerifierRequest(self.resolving[party], party, asks_announced))
        due_ms = self.context.after(self.context.config.request_timeout_ms)
        self.context.timers.set(self, _kind(party), due_ms, VerifierRepeatDue(party))


def _kind(party: Party) -> str:
    return f"verifier {party}"
