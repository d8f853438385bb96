"""Parties' signatures that a coordinator verifies before a transition shares a round (protocol §7, trust rule 9).

Theory of operation. Endorsers verify the signature of each party, and refuse a round with a false one, so that its
other members lose time. The coordinator therefore verifies a sender's signatures itself until `ENDORSED_ENOUGH`
transitions of that sender were endorsed: at least one honest endorser has verified those. A fault of the sender
(`probation.py`) makes the coordinator verify again, and after one false signature it does so for as long as it
remembers the sender. So the processor time of verification is spent on new senders and on liars.

Until the answer comes, the transition is in no round and its states are not offered. One with a false signature
puts its sender on probation and goes apart, and so does one whose party's verifier is not known in time, without a
fault: the endorsers judge it, because a coordinator's judgement ends nothing. Transitions of this node itself, and
contracts without endorsers, are not verified here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from rota.machine.bounded import forget_oldest
from rota.machine.tables import Event
from rota.model.types import Leaf, NodeName, RequestId
from rota.sequencer.coordinator_owner import OwningCoordinator
from rota.sequencer.effects import VerifyParties
from rota.sequencer.events import PartiesVerified, VerificationOverdue
from rota.sequencer.held_intent import HeldIntent

ENDORSED_ENOUGH: Final = 8
SENDERS_MAX: Final = 1_024

Kept = TypeVar("Kept")


class Signers:
    """The transitions of one coordinator that await verification, and the senders that need none."""

    def __init__(
        self,
        coordinator: OwningCoordinator,
        join: Callable[[HeldIntent], None],
        set_apart: Callable[[HeldIntent], None],
    ) -> None:
        self.coordinator = coordinator
        self.context = coordinator.context
        self._join = join
        self._set_apart = set_apart
        self.endorsed: dict[NodeName, int] = {}
        self.forgers: dict[NodeName, None] = {}
        self.waiting: dict[Leaf, HeldIntent] = {}
        self.asked: dict[RequestId, tuple[Leaf, ...]] = {}
        self.unasked: dict[Leaf, HeldIntent] = {}

    def handle(self, event: Event) -> None:
        """Handle a verification that is overdue because a verifier was not found."""
        assert isinstance(event, VerificationOverdue), "the signers know their timers"
        self.take_verified(PartiesVerified(event.request_id, (), self.asked.get(event.request_id, ())))

    def must_verify(self, transaction: HeldIntent) -> bool:
        """Whether its sender is new here, or brought a false signature, or was at fault lately."""
        sender = transaction.sender
        if transaction.is_apart or sender == self.context.node or not self.context.contract.threshold:
            return False
        return sender in self.forgers or self.endorsed.get(sender, 0) < ENDORSED_ENOUGH

    def hold(self, transaction: HeldIntent) -> None:
        """Hold it until its signature is verified; then it joins a round."""
        self.waiting[transaction.leaf] = self.unasked[transaction.leaf] = transaction

    def drop(self, transaction: HeldIntent) -> None:
        """Stop waiting for its verification, if it waits."""
        if self.waiting:
            self.waiting.pop(transaction.leaf, None)
            self.unasked.pop(transaction.leaf, None)

    def ask(self) -> None:
        """Order the verification of all that wait since the last time, in one order."""
        some, self.unasked = tuple(self.unasked.values()), {}
        request_id = self.context.next_id()
        self.asked[request_id] = tuple(each.leaf for each in some)
        transitions, senders = tuple(each.made for each in some), tuple(each.intent.sender for each in some)
        has_attesters = any(each.attesters.signers for each in some)
        attesters = tuple(each.attesters for each in some) if has_attesters else ()
        address = self.context.contract.address
        self.context.effects.append(VerifyParties(address, request_id, transitions, senders, attesters))
        due_ms = self.context.after(self.context.config.request_timeout_ms)
        self.context.timers.set(self, f"verify {request_id}", due_ms, VerificationOverdue(request_id))

    def take_verified(self, event: PartiesVerified) -> None:
        """Queue those with their party's signature for a round; the others go apart."""
        leaves = self.asked.pop(event.request_id, ())
        self.context.timers.cancel(self, f"verify {event.request_id}")
        for leaf in leaves:
            transaction = self.waiting.get(leaf)
            if transaction is None:
                continue
            if leaf in event.false:
                self._remember(self.forgers, transaction.sender, None)
                self.coordinator.isolate(transaction.sender)
            elif leaf in event.unknown:
                self._set_apart(transaction)
            else:
                self.drop(transaction)
                self._join(transaction)
        self.coordinator.something_changed()

    def note_endorsed(self, sender: NodeName) -> None:
        """Count an endorsement: so many endorsers signed its transition that one of them is honest."""
        count = self.endorsed.get(sender, 0)
        if count < ENDORSED_ENOUGH:
            self._remember(self.endorsed, sender, count + 1)

    def doubt(self, sender: NodeName) -> None:
        """Verify its signatures again after a fault."""
        self.endorsed.pop(sender, None)

    def _remember(self, known: dict[NodeName, Kept], sender: NodeName, value: Kept) -> None:
        known.pop(sender, None)
        known[sender] = value
        forget_oldest(known, SENDERS_MAX)
