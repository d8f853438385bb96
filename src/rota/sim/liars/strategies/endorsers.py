"""Lies of an endorser."""

from __future__ import annotations

from dataclasses import replace

from rota.model.digests import refusal_digest
from rota.model.types import NO_ATTESTERS, HeartbeatNumber, KeptStates, Leaf, NodeName
from rota.sim.liars.liar import Strategy, with_body
from rota.sim.services import sign
from rota.wire.messages import EndorsementError, EndorsementRequest, EndorsementResponse, Envelope, Refusal, Rejection

FAR = 2**62


class RefusesAll(Strategy):
    """Refuses every transition of every round, and signs that."""

    name = "refuses-all"

    def hears(self, peer: NodeName, envelope: Envelope) -> bool:
        """Send signed refusals at once; the core does not receive the request."""
        body = envelope.body
        if not isinstance(body, EndorsementRequest) or not self.strikes():
            return True
        separator = self.liar.separator(envelope.contract)
        shown = body.attesters or (NO_ATTESTERS,) * len(body.transitions)
        refusals = tuple(
            Refusal(
                each.intent,
                "against my rules",
                leaf=each.leaf,
                signature=sign(self.liar.name, refusal_digest(separator, sender, each, attesters)),
            )
            for each, sender, attesters in zip(body.transitions, body.senders, shown, strict=False)
        )
        self.liar.send(peer, envelope.contract, EndorsementResponse(body.request_id, body.digest, b"", refusals))
        return False


class RefusesWithKept(Strategy):
    """Refuses because of invented prepared transitions that reserve all the states."""

    name = "refuses-with-kept"

    def hears(self, peer: NodeName, envelope: Envelope) -> bool:
        """Refuse each transition because its inputs and other unspent states are reserved, practically without end."""
        body = envelope.body
        if not isinstance(body, EndorsementRequest) or not self.strikes():
            return True
        state = self.liar.world.ledger.states.get(envelope.contract)
        locks = tuple(state.unspent)[-100:] if state is not None else ()
        refusals = tuple(
            Refusal(
                each.intent,
                "a state is kept",
                (KeptStates(each.intent, Leaf(self.random.randbytes(32)), (*each.inputs, *locks), FAR),),
            )
            for each in body.transitions
        )
        self.liar.send(peer, envelope.contract, EndorsementResponse(body.request_id, body.digest, b"", refusals))
        return False


class StaysSilent(Strategy):
    """Answers no request for endorsement."""

    name = "endorses-never"

    def says(self, peer: NodeName, envelope: Envelope) -> Envelope | None:
        """Drop answers to requests for endorsement."""
        return None if isinstance(envelope.body, EndorsementResponse | EndorsementError) else envelope


class SignsFalsely(Strategy):
    """Signs with random bytes, which are no signature."""

    name = "signs-falsely"

    def says(self, peer: NodeName, envelope: Envelope) -> Envelope | None:
        """Replace the signature."""
        body = envelope.body
        if not isinstance(body, EndorsementResponse) or not body.signature or not self.strikes():
            return envelope
        return with_body(envelope, replace(body, signature=self.random.randbytes(len(body.signature))))


class SignsAnything(Strategy):
    """Signs every digest at once, for any node, without checking the round."""

    name = "signs-anything"

    def hears(self, peer: NodeName, envelope: Envelope) -> bool:
        """Send the signature at once; the core does not receive the request."""
        body = envelope.body
        if not isinstance(body, EndorsementRequest) or not self.strikes():
            return True
        response = EndorsementResponse(body.request_id, body.digest, sign(self.liar.name, body.digest))
        self.liar.send(peer, envelope.contract, response)
        return False


class NamesOthers(Strategy):
    """Rejects every coordinator because it follows another, lacks invented states, or fails."""

    name = "names-others"

    def hears(self, peer: NodeName, envelope: Envelope) -> bool:
        """Send the error at once; the core does not receive the request."""
        body = envelope.body
        if not isinstance(body, EndorsementRequest) or not self.strikes():
            return True
        accepted = self.random.choice((*self.liar.world.nodes, NodeName("nowhere")))
        number = HeartbeatNumber(self.random.choice((0, FAR)), FAR)
        missing = (Leaf(self.random.randbytes(32)),)
        error = self.random.choice(
            (
                EndorsementError(body.request_id, Rejection.NOT_PREFERRED_COORDINATOR, accepted, number),
                EndorsementError(body.request_id, Rejection.MISSING_STATES, missing=missing),
                EndorsementError(body.request_id, Rejection.MISMATCHED_BLOCK_HEIGHT, accepted, number),
                EndorsementError(body.request_id, Rejection.NOT_ALLOWED),
                EndorsementError(
                    body.request_id, Rejection.UNAVAILABLE, unjudged=tuple(each.leaf for each in body.transitions)
                ),
            )
        )
        self.liar.send(peer, envelope.contract, error)
        return False


ENDORSERS: tuple[type[Strategy], ...] = (
    RefusesAll,
    RefusesWithKept,
    StaysSilent,
    SignsFalsely,
    SignsAnything,
    NamesOthers,
)
