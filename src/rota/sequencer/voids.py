"""Voids of overdue prepared transitions for which others wait (protocol §4.2, trust rule 2).

Theory of operation. States are reserved for a prepared transition until its bound; after `prepared_hold` ordinary
transitions may use them all the same, and other prepared ones may not, because an endorser signs no two prepared
transitions that conflict. So that one that is never committed does not delay them, k endorsers may void its
intent: they sign its empty transition, which has no signature of its party.

A coordinator requests that when endorsers refuse a prepared transition because of one that is overdue by its index.
Each endorser decides by its own record (`Kept.may_be_voided`): it has signed the overdue transition, `prepared_hold`
has passed since then in a final block, and it has judged a valid transition of another intent that needs the same
states. It relies on no claim of the coordinator. The chain uses an intent once, so that the prepared transition and its
void are never both committed; whichever is first, its sender learns it from the chain.

It needs no sender's permission, and no transition depends on a void, so it is no round of `rounds.py`. It is requested
a few times; if too few endorsers sign, the next refusal starts again. The coordinator pays, and the void counts as an
empty transition of the sender that waits (`empties.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from rota.machine.effects import DispatchRound
from rota.machine.tables import Event
from rota.model.blocks import LedgerOutcome, LedgerStatus
from rota.model.digests import round_digest, void_leaf
from rota.model.types import Digest, IntentId, NodeName, Party, RequestId, Transition
from rota.sequencer.context import Context
from rota.sequencer.effects import VerifyEndorsement
from rota.sequencer.empties import Empties
from rota.sequencer.events import EndorsementVerified, VoidRepeatDue
from rota.sequencer.kept import Kept
from rota.sequencer.observer import Observer
from rota.wire.messages import EndorsementRequest, EndorsementResponse

ASKS_MAX: Final = 4
OPEN_MAX: Final = 64


@dataclass(slots=True)
class Void:
    """The empty transition of a prepared intent, in a round of its own, and its signatures."""

    transition: Transition
    digest: Digest
    requests: dict[RequestId, NodeName] = field(default_factory=dict)
    signatures: dict[NodeName, bytes] = field(default_factory=dict)
    asks: int = 0
    is_dispatched: bool = False


class Voids:
    """The voids that one coordinator requests of its endorsers; only while it is Active."""

    def __init__(
        self, context: Context, observer: Observer, kept: Kept, empties: Empties, is_active: Callable[[], bool]
    ) -> None:
        self.context = context
        self.observer = observer
        self.kept = kept
        self.empties = empties
        self.is_active = is_active
        self.open: dict[IntentId, Void] = {}

    def handle(self, event: Event) -> None:
        """Repeat the request to endorsers that have not answered, or do not agree yet."""
        assert isinstance(event, VoidRepeatDue), "the voids know their timers"
        void = self.open[event.intent]
        if void.asks < ASKS_MAX and self.is_active():
            self._ask(void)
        else:
            self._drop(event.intent)

    def want(self, intent: IntentId, sender: NodeName) -> None:
        """Request a void: because of this intent, endorsers refuse a prepared transition of this sender."""
        is_wanted = self.is_active() and intent not in self.open and self.kept.is_left(intent)
        if not is_wanted or len(self.open) >= OPEN_MAX or not self.empties.may_take(sender):
            return
        self.empties.take(sender)
        leaf = void_leaf(self.context.separator, intent)
        until_s = self.context.chain_time_s + self.context.config.validity_s
        void = Void(
            Transition(intent, leaf, valid_until_s=until_s), round_digest(self.context.separator, (leaf,), until_s)
        )
        self.open[intent] = void
        self._ask(void)

    def take_endorsement(self, peer: NodeName, response: EndorsementResponse) -> None:
        """Take an endorser's signature or refusal. A request is answered once."""
        asked = (void for void in self.open.values() if void.requests.get(response.request_id) == peer)
        void = next(asked, None)
        if void is None:
            return
        del void.requests[response.request_id]
        if response.digest != void.digest or not response.signature:
            return
        if peer == self.context.node:
            self._take_signature(void, peer, response.signature)
        else:
            address = self.context.contract.address
            self.context.effects.append(VerifyEndorsement(address, peer, void.digest, response.signature))

    def take_verified(self, event: EndorsementVerified) -> None:
        """Count a signature that is the endorser's own."""
        void = self._with_digest(event.digest)
        if void is not None and event.is_valid and not void.is_dispatched:
            self._take_signature(void, event.peer, event.signature)

    def take_failure(self, digest: Digest) -> None:
        """Drop a void whose dispatch was not written: the next refusal starts again."""
        void = self._with_digest(digest)
        if void is not None:
            self._drop(void.transition.intent)

    def take_outcome(self, outcome: LedgerOutcome) -> None:
        """Drop the void of an intent that is used, or that was skipped."""
        void = self.open.get(outcome.intent)
        if void is not None and (outcome.status is LedgerStatus.COMMITTED or outcome.leaf == void.transition.leaf):
            self._drop(outcome.intent)

    def expire(self) -> None:
        """Drop voids whose validity has passed: they cannot be committed any more."""
        for intent, void in tuple(self.open.items()):
            if void.transition.valid_until_s < self.context.chain_time_s:
                self._drop(intent)

    def _ask(self, void: Void) -> None:
        """Ask under new ids: an endorser answers every copy of a request as it did the first."""
        context = self.context
        missing = [endorser for endorser in context.contract.endorsers if endorser not in void.signatures]
        void.requests = {context.next_id(): endorser for endorser in missing}
        void.asks += 1
        # Endorsers know whose intent it is; no nonce shows it.
        author = Party(f"@{context.node}")
        for request_id, endorser in tuple(void.requests.items()):
            request = EndorsementRequest(
                request_id=request_id,
                digest=void.digest,
                transitions=(void.transition,),
                senders=(author,),
                valid_until_s=void.transition.valid_until_s,
                tried=self.observer.tried(),
                nonces=(b"",),
            )
            context.send(endorser, request)
        intent = void.transition.intent
        due_ms = context.after(context.config.request_timeout_ms)
        context.timers.set(self, _kind(intent), due_ms, VoidRepeatDue(intent))

    def _take_signature(self, void: Void, peer: NodeName, signature: bytes) -> None:
        void.signatures[peer] = signature
        if len(void.signatures) < self.context.contract.threshold or not self.is_active():
            return
        void.is_dispatched = True
        void.requests.clear()
        self.context.timers.cancel(self, _kind(void.transition.intent))
        self.context.effects.append(
            DispatchRound(
                contract=self.context.contract.address,
                digest=void.digest,
                leaves=(void.transition.leaf,),
                transitions=(void.transition,),
                senders=(self.context.node,),
                signatures=tuple(void.signatures.items()),
                valid_until_s=void.transition.valid_until_s,
            )
        )

    def _with_digest(self, digest: Digest) -> Void | None:
        return next((void for void in self.open.values() if void.digest == digest), None)

    def _drop(self, intent: IntentId) -> None:
        del self.open[intent]
        self.context.timers.cancel(self, _kind(intent))


def _kind(intent: IntentId) -> str:
    return f"void {intent.hex()}"
