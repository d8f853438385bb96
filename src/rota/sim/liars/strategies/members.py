"""Lies that any member or stranger can tell, and transactions that liars send to the chain."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

from rota.chain.effects import RoundDispatch
from rota.model.types import HeartbeatNumber, Leaf, NodeName, Party, RequestId, Tried
from rota.sim.liars.liar import Strategy, with_body
from rota.sim.liars.notebook import KnownRound
from rota.wire.messages import (
    CoordinatorHeartbeat,
    DelegationCommand,
    DispatchConfirmationRequest,
    EndorsementRequest,
    Envelope,
    HandoverReason,
    HandoverRequest,
    ListingRequest,
    Message,
    Startup,
    StateRequest,
    VerifierRequest,
)

FAR = 2**62
REPEATED = 60
VALID_ENOUGH_S = 5


class ClaimsRanges(Strategy):
    """Claims in every envelope that the chain is elsewhere: far ahead, a range ahead or behind, at the beginning."""

    name = "claims-ranges"

    def says(self, peer: NodeName, envelope: Envelope) -> Envelope | None:
        """Replace the height."""
        if not self.strikes():
            return envelope
        contract = self.liar.contract(envelope.contract)
        size = contract.range_size if contract is not None else 1
        offset = self.random.choice((-size, size, 3 * size, 50 * size))
        height = self.random.choice((FAR, 0, max(0, envelope.height + offset)))
        return replace(envelope, height=height)


class ClaimsNoLedger(Strategy):
    """Claims in every envelope that it has no ledger, or is another incarnation."""

    name = "claims-no-ledger"

    def says(self, peer: NodeName, envelope: Envelope) -> Envelope | None:
        """Replace the ledger flag, or the incarnation and the message id."""
        if not self.strikes():
            return envelope
        if self.random.random() < 0.5:
            return replace(envelope, no_ledger=not envelope.no_ledger)
        incarnation = self.random.choice((0, envelope.incarnation + 1, FAR))
        return replace(envelope, incarnation=incarnation, message_id=RequestId(incarnation, FAR))


class Replays(Strategy):
    """Repeats earlier messages, also in other contracts, to other nodes, and as its own."""

    name = "replays"

    def acts(self) -> None:
        """Repeat three of the messages that liars noted."""
        if not self.liar.book.messages or not self.strikes():
            return
        for _ in range(3):
            message = self.random.choice(self.liar.book.messages)
            contract = self.random.choice(self.liar.contracts).address
            envelope = message.envelope
            if self.random.random() < 0.3:
                envelope = replace(envelope, contract=contract)
            peer = self.random.choice((message.target, message.source, *self.liar.victims))
            if peer not in self.liar.book.liars:
                self.liar.pass_on(peer, envelope)


class Accuses(Strategy):
    """Claims in delegations and endorsement requests that it tried every other member in vain, or demoted it."""

    name = "accuses"

    def says(self, peer: NodeName, envelope: Envelope) -> Envelope | None:
        """List all other members as tried, with the highest heartbeat number."""
        body = envelope.body
        contract = self.liar.contract(envelope.contract)
        if not isinstance(body, DelegationCommand | EndorsementRequest) or contract is None or not self.strikes():
            return envelope
        number = HeartbeatNumber(FAR, FAR)
        others = [node for node in contract.committee if node not in (peer, self.liar.name)]
        tried = tuple(Tried(node, number, self.random.random() < 0.7) for node in others)
        return with_body(envelope, replace(body, tried=tried))


class AsksToYield(Strategy):
    """Asks every coordinator to hand over, whatever its rank."""

    name = "asks-to-yield"

    def acts(self) -> None:
        """Ask every honest node, for a random reason."""
        for contract in self.liar.contracts:
            for peer in self.liar.victims:
                if self.strikes() and self.liar.core is not None:
                    reason = self.random.choice(tuple(HandoverReason))
                    self.liar.send(peer, contract.address, HandoverRequest(self.liar.next_id(), reason))


class RepeatsItems(Strategy):
    """Repeats the items in the lists of its messages many times."""

    name = "repeats-items"

    def says(self, peer: NodeName, envelope: Envelope) -> Envelope | None:
        """Repeat the items of one list of the message."""
        body: Any = envelope.body
        if not self.strikes():
            return envelope
        values = {field.name: getattr(body, field.name) for field in fields(body)}
        # A named tuple is not a list.
        filled = [name for name, value in values.items() if type(value) is tuple and value]
        if not filled:
            return envelope
        chosen = self.random.choice(filled)
        count = self.random.choice((2, REPEATED))
        changed: Message = replace(body, **{chosen: getattr(body, chosen) * count})
        return with_body(envelope, changed)


class AsksTooMuch(Strategy):
    """Sends every node requests for states, listings and verifiers, and start announcements, again and again."""

    name = "asks-too-much"

    def acts(self) -> None:
        """Send each honest node one random request for each contract."""
        requests: tuple[Callable[[], Message], ...] = (
            lambda: StateRequest(tuple(Leaf(self.random.randbytes(32)) for _ in range(64))),
            lambda: ListingRequest(HeartbeatNumber(FAR, FAR)),
            lambda: Startup(self.liar.next_id()),
            lambda: VerifierRequest(self.liar.next_id(), Party(f"{self.random.random()}@{peer}")),
        )
        for contract in self.liar.contracts:
            for peer in self.liar.victims:
                if self.strikes() and self.liar.core is not None:
                    self.liar.send(peer, contract.address, self.random.choice(requests)())


class BeatsBackwards(Strategy):
    """Numbers its heartbeats so that the next ones of its core are old."""

    name = "beats-backwards"

    def says(self, peer: NodeName, envelope: Envelope) -> Envelope | None:
        """Replace the number with the highest, the lowest or its own, and the count with 0 or a huge one."""
        body = envelope.body
        if not isinstance(body, CoordinatorHeartbeat) or not self.strikes():
            return envelope
        number = self.random.choice((HeartbeatNumber(FAR, FAR), HeartbeatNumber(0, 0), body.number))
        return with_body(envelope, replace(body, number=number, count=self.random.choice((0, FAR))))


class Revives(Strategy):
    """Holds transitions back until they expire, has them endorsed again with a longer validity, and commits them."""

    name = "revives"

    def says(self, peer: NodeName, envelope: Envelope) -> Envelope | None:
        """Drop requests for permission."""
        is_kept = isinstance(envelope.body, DispatchConfirmationRequest) and self.strikes()
        return None if is_kept else envelope

    def acts(self) -> None:
        """Have expired transitions, which their users may know as reverted, endorsed again, and commit them."""
        liar = self.liar
        old = [
            known
            for known in liar.book.transitions.values()
            if known.transition.valid_until_s + VALID_ENOUGH_S < liar.time_s
            and known.contract in liar.world.ledger.states
            and known.transition.intent not in liar.world.ledger.states[known.contract].used
        ]
        for known in self.random.sample(old, min(len(old), 4)):
            contract = liar.contract(known.contract)
            if contract is None:
                continue
            until_s = liar.time_s + liar.world.config.validity_s // 2
            # A longer bound in the transition, which its signature does not cover, or in the round alone.
            is_said = self.random.random() < 0.5
            revived = replace(known.transition, valid_until_s=until_s) if is_said else known.transition
            liar.ask_to_endorse(contract, (revived,), (known.sender,), until_s)
        for known_round, signatures in liar.book.complete():
            if known_round.valid_until_s >= liar.time_s:
                liar.account.commit(known_round, signatures)


class CommitsAnything(Strategy):
    """Commits every round whose signatures it holds, whole or in part, in any order."""

    name = "commits-anything"

    def acts(self) -> None:
        """Commit a random part of some of the rounds."""
        for known, signatures in self.liar.book.complete():
            if self.strikes():
                size = self.random.randint(1, len(known.transitions))
                part = tuple(self.random.sample(known.transitions, size))
                self.liar.account.commit(known, signatures, part)

    def submits(self, dispatch: RoundDispatch) -> bool:
        """Drop some of the core's transactions."""
        return not self.strikes()


class FrontRuns(Strategy):
    """Copies transactions of other signers from the pool and has parts of them mined before the whole."""

    name = "front-runs"

    def acts(self) -> None:
        """Commit a random part of each pooled round of another signer."""
        for dispatch in tuple(self.liar.world.ledger.pool.values()):
            order = dispatch.round
            if dispatch.signer == self.liar.account.signer or not self.strikes():
                continue
            known = KnownRound(order.contract, order.digest, order.leaves, order.transitions, (), order.valid_until_s)
            part = tuple(each for each in order.transitions if self.random.random() < 0.6)
            self.liar.account.commit(known, dict(order.signatures), part)


MEMBERS: tuple[type[Strategy], ...] = (
    ClaimsRanges,
    ClaimsNoLedger,
    Replays,
    Accuses,
    AsksToYield,
    RepeatsItems,
    AsksTooMuch,
    BeatsBackwards,
    Revives,
    CommitsAnything,
    FrontRuns,
)
