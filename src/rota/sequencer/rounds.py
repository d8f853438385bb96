"""Rounds: transitions endorsed together, and the requests to their endorsers (protocol §7).

Theory of operation. A round takes the transitions that are assembled when it opens and is signed once as a whole. There
is no artificial delay: rounds grow under load. All endorsers of a round get a request, repeated until they answer, and
only the answer to the current request counts. Each endorser is shown the transitions whose states a round depends on,
unless it was asked about them before; one that has lost them reports that. Where the plan of its transactions names
endorsers, these first approve the round (`attestation.py`). Such a round is apart and delays no other.

Then each sender is asked for its permission (`permissions.py`), and the round is dispatched (`dispatching.py`).
The ledger gets members that leave an endorsed round as bare leaves: the signatures stay valid for the rest.
A round stays here until each of its members has its outcome. External transitions share no round with those to be
dispatched, and leave their round when they are prepared (`issuing.py`).
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable
from typing import Final

from rota.machine.tables import Event
from rota.model.digests import approval_digest, refusal_digest, round_digest
from rota.model.types import Digest, IntentId, Leaf, NodeName, RequestId
from rota.sequencer.coordinator_owner import OwningCoordinator
from rota.sequencer.coordinator_transaction_events import Endorsed, EndorsedRejected, ValidityEnded
from rota.sequencer.effects import Signed, VerifyEndorsement, VerifyEndorsers
from rota.sequencer.events import DispatchRetryDue, EndorsementVerified, EndorsersVerified, RoundRepeatDue
from rota.sequencer.gathering import Gathering
from rota.sequencer.handover import handed_round
from rota.sequencer.held_intent import Doubted, HeldIntent, Lack, Phase, Round
from rota.sequencer.kept_by_others import believed_of, names_any
from rota.sequencer.makers import Showing
from rota.sequencer.permissions import Permissions
from rota.sequencer.round import (
    STUCK_ROUNDS_MAX,
    attesters_of,
    is_short,
    kind_of,
    leaves_named,
    makers_of,
    members_of_next_round,
    stuck_rounds,
    unsigned,
)
from rota.sequencer.signers import Signers
from rota.sequencer.slots import Slots
from rota.sequencer.verifications import Verifications
from rota.wire.messages import (
    EndorsementError,
    EndorsementRequest,
    EndorsementResponse,
    EndorserSignature,
    Refusal,
    Rejection,
)

# The number of requests before an intent is given up without the signed refusals that its sender would believe.
EVIDENCE_ASKS_MAX: Final = 3
# An endorser that reports this many times in a row, a request apart, that it lacks a state does not find it.
LACKS_MAX: Final = 2


class Rounds:
    """The rounds of one coordinator; they are opened only while it is Active."""

    def __init__(self, coordinator: OwningCoordinator, slots: Slots, permissions: Permissions) -> None:
        self.coordinator = coordinator
        self.context = coordinator.context
        self.slots = slots
        self.permissions = permissions
        self.signers = Signers(coordinator, self.join, self.set_apart)
        self.unrounded: list[HeldIntent] = []
        self.apart: list[HeldIntent] = []
        self.filled_by: dict[NodeName, None] = {}
        self.rounds: dict[Digest, Round] = {}
        self.round_by_request: dict[RequestId, Round] = {}
        self.opened_count = 0
        self.gathering = Gathering(self.context, coordinator.something_changed)
        self.verifications = Verifications(self.context)

    def handle(self, event: Event) -> None:
        """Repeat requests to endorsers that have not answered, or retry a dispatch that failed."""
        assert isinstance(event, RoundRepeatDue | DispatchRetryDue), "the rounds know their timers"
        opened = self.rounds[event.digest]
        if isinstance(event, DispatchRetryDue):
            opened.phase = Phase.ENDORSED
        else:
            self._repeat(opened)
        self.coordinator.something_changed()

    def _repeat(self, opened: Round) -> None:
        if opened.is_approving:
            self.coordinator.unapproved.note(next(iter(opened.members.values())).sender)
        self._weigh_refusals(opened)
        if self.rounds.get(opened.digest) is opened:
            self._ask_missing(opened)

    def expire(self) -> None:
        """Reassemble transitions that are no longer valid in chain time and are not being written."""
        dispatching = (Phase.DISPATCHING, Phase.DISPATCHED)
        for transaction in tuple(self.coordinator.transactions.values()):
            transition, opened = transaction.transition, transaction.round
            if transition is None or (opened is not None and opened.phase in dispatching):
                continue
            valid_until_s = opened.valid_until_s if opened is not None else transition.valid_until_s
            if valid_until_s < self.context.chain_time_s:
                transaction.handle(ValidityEnded())

    def await_round(self, transaction: HeldIntent) -> None:
        """Queue an assembled transition for the next round, once its signature needs no verification."""
        if self.signers.must_verify(transaction):
            self.signers.hold(transaction)
            return
        (self.apart if transaction.is_apart else self.unrounded).append(transaction)

    def join(self, transaction: HeldIntent) -> None:
        """Its party's signature is verified: queue it for the next round, and let others build on it."""
        self._queue((transaction,))
        if not transaction.is_external:
            self.coordinator.quotas.show(transaction.sender, transaction.made)

    def leave(self, transaction: HeldIntent) -> None:
        """Given up: take it out of its round and let nothing be built on its states."""
        self.slots.refuse_states_of(transaction.leaf)
        self.settle(transaction)

    def set_apart(self, transaction: HeldIntent) -> None:
        """Move an unendorsed transition to rounds of its sender alone; transitions of others must not depend on it."""
        if transaction.is_apart or transaction.transition is None:
            return
        opened, transaction.is_apart = transaction.round, True
        self.slots.refuse_states_of(transaction.leaf)
        self.coordinator.reset_users_of(transaction.leaf, frozenset())
        self.coordinator.graph.hide(transaction.leaf)
        if opened is None:
            self._unqueue(transaction)
            self._queue((transaction,))
        elif transaction.round is opened:
            # Otherwise a dependent has left the round and dissolved it.
            self._ask_anew(opened)
        self.coordinator.something_changed()

    def settle(self, transaction: HeldIntent) -> None:
        """It has its outcome or was given up: its round no longer waits for it."""
        opened, transaction.round = transaction.round, None
        self.permissions.forget(transaction, opened)
        if opened is None:
            self._unqueue(transaction)
            return
        del opened.members[transaction.intent.id]
        if not opened.members:
            self._close_round(opened)
        elif opened.phase is Phase.ENDORSING:
            self._ask_anew(opened)
        self.coordinator.something_changed()

    def _unqueue(self, transaction: HeldIntent) -> None:
        """Remove it from the queues for a round and for verification."""
        self.signers.drop(transaction)
        for queue in (self.unrounded, self.apart):
            if transaction in queue:
                queue.remove(transaction)
                return

    def take_endorsement(self, peer: NodeName, response: EndorsementResponse) -> None:
        """Take a signature over the whole round, or an endorser's refusals of members."""
        opened = self._round_asked(peer, response.request_id)
        if opened is None or response.digest != opened.digest:
            return
        self.coordinator.following_others.pop(peer, None)
        if response.signature and not response.refusals:
            if peer == self.context.node:
                self._take_signature(opened, peer, response.signature)
            elif self.verifications.is_trusted(peer) and self.verifications.begin(opened, peer):
                address = self.context.contract.address
                order = VerifyEndorsement(address, peer, opened.wanted, response.signature)
                self.context.effects.append(order)
            return
        refused = {
            refusal.intent: refusal if refusal.leaf == opened.members[refusal.intent].leaf else unsigned(refusal)
            for refusal in response.refusals
            if refusal.intent in opened.members
        }
        if peer != self.context.node and not self.verifications.is_trusted(peer):
            refused = {intent: unsigned(refusal) for intent, refusal in refused.items()}
        signed = tuple(self._signed(opened, peer, refusal) for refusal in refused.values() if refusal.signature)
        if signed and peer != self.context.node:
            if self.verifications.begin(opened, peer):
                doubted = opened.doubted[peer] = Doubted(self.context.next_id(), refused)
                self.context.effects.append(VerifyEndorsers(self.context.contract.address, doubted.id, signed))
        elif refused:
            self._take_refusals(opened, peer, refused)

    def _signed(self, opened: Round, peer: NodeName, refusal: Refusal) -> Signed:
        member = opened.members[refusal.intent]
        digest = refusal_digest(self.context.separator, member.intent.sender, member.made, member.attesters)
        return Signed(peer, digest, refusal.signature)

    def take_refusals_verified(self, event: EndorsersVerified) -> None:
        """Take the verdict on refusals; one whose signature is false counts as unsigned and ends nothing."""
        doubts = ((opened, peer) for opened in self.rounds.values() for peer in opened.doubted)
        for opened, peer in tuple(doubts):
            if opened.doubted[peer].id == event.request_id:
                self._take_doubted(opened, peer, opened.doubted.pop(peer), event.are_valid)
                return

    def _take_doubted(self, opened: Round, peer: NodeName, doubted: Doubted, are_valid: tuple[bool, ...]) -> None:
        if not all(are_valid):
            self.verifications.note_false(opened, peer)
        if opened.phase is not Phase.ENDORSING or not opened.lacks(peer):
            return
        valid = iter(are_valid)
        found = {
            intent: refusal if refusal.signature and next(valid, False) else unsigned(refusal)
            for intent, refusal in doubted.refused.items()
        }
        self._take_refusals(opened, peer, found)

    def _take_refusals(self, opened: Round, peer: NodeName, refused: dict[IntentId, Refusal]) -> None:
        opened.showing.note_unseen(peer, opened.members.values())
        opened.refusals[peer] = refused
        self._weigh_refusals(opened)
        self.coordinator.something_changed()

    def take_verified(self, event: EndorsementVerified) -> None:
        """Count a signature that is the endorser's own; otherwise request it again."""
        found = (each for each in self.rounds.values() if each.wanted == event.digest)
        opened = self.rounds.get(event.digest) or next(found, None)
        is_wanted = opened is not None and opened.wanted == event.digest and opened.phase is Phase.ENDORSING
        if opened is None or not is_wanted or not opened.lacks(event.peer):
            return
        if event.is_valid:
            self._take_signature(opened, event.peer, event.signature)
        else:
            self.verifications.note_false(opened, event.peer)
            opened.rejections[event.peer] = "with a signature that is not its own"
            self._renew_request(opened, event.peer)

    def _take_signature(self, opened: Round, peer: NodeName, signature: bytes) -> None:
        opened.signatures[peer] = signature
        if len(opened.signatures) < opened.needed(self.context.contract):
            return
        if opened.is_approving:
            opened.approve(self.context.now_ms)
            self._expect(opened, self.context.contract.endorsers)
            self._ask_missing(opened)
            self.coordinator.something_changed()
        else:
            self._endorse(opened)

    def take_endorsement_error(self, peer: NodeName, error: EndorsementError) -> None:
        """Repeat the request under a new id; this is no refusal.

        By §5 the endorser cannot accept this coordinator now, or it lacks states, or its domain failed.
        """
        opened = self._round_asked(peer, error.request_id)
        if opened is None:
            return
        opened.rejections[peer] = error.rejection.value
        self._renew_request(opened, peer)
        if error.rejection is Rejection.MISSING_STATES:
            # The endorser requests the other states elsewhere and gets the request again later.
            if opened.showing.take_missing(peer, error.missing):
                self._request_endorsement(opened, peer)
            self._note_lack(opened, peer, error.missing)
        elif error.rejection is Rejection.UNAVAILABLE:
            self._note_unjudged(opened, peer, frozenset(error.unjudged))
        else:
            opened.showing.note_unseen(peer, opened.members.values())
            self.coordinator.endorser_follows(peer, error.accepted)

    def _note_unjudged(self, opened: Round, peer: NodeName, leaves: frozenset[Leaf]) -> None:
        """If too many fail to judge for the round to be endorsed, the members on which they fail go alone.

        If they judge other senders of the round, the senders of those members are on probation: a sender decides
        whether its transitions can be judged, for example by what its node reports to endorsers about its party.
        """
        for member in opened.members.values():
            if member.leaf in leaves:
                member.unjudged_by[peer] = member.unjudged_by.get(peer, 0) + 1
        unjudged = [member for member in opened.members.values() if member.unjudged_by]
        failing = {node for member in unjudged for node in member.unjudged_by} | opened.refusals.keys()
        if len(opened.members) > 1 and len(failing) > opened.spare(self.context.contract):
            senders = dict.fromkeys(member.sender for member in unjudged)
            others = {member.sender for member in opened.members.values()}.difference(senders)
            for member in unjudged:
                member.goes_alone = True
                self.set_apart(member)
            for sender in senders if others else ():
                self.coordinator.isolate(sender)

    def _note_lack(self, opened: Round, peer: NodeName, missing: tuple[Leaf, ...]) -> None:
        """Count reports of an endorser that lacks states this node cannot show; perhaps no node has them."""
        leaves = tuple(leaf for leaf in missing if leaf not in opened.showing.makers)
        before = opened.lacking.get(peer)
        opened.lacking[peer] = Lack(leaves, before.times + 1 if before is not None else 1)
        stuck = sum(lack.times >= LACKS_MAX and bool(lack.leaves) for lack in opened.lacking.values())
        if stuck > opened.spare(self.context.contract):
            self._separate(opened)

    def _separate(self, opened: Round) -> None:
        """Too many endorsers lack a state: isolate the senders that name it, or set every member apart."""
        lacked = {leaf for lack in opened.lacking.values() for leaf in lack.leaves}
        members = tuple(opened.members.values())
        naming = [member for member in members if not lacked.isdisjoint(leaves_named(member))]
        if opened.apart is not None:
            self._separate_within(opened, naming or list(members))
            return
        for sender in dict.fromkeys(member.sender for member in naming):
            self.coordinator.isolate(sender)
        for member in members if not naming else ():
            self.set_apart(member)

    def _separate_within(self, opened: Round, naming: list[HeldIntent]) -> None:
        """In a round of one sender they go alone; a single member is assembled again."""
        assert opened.apart is not None, "the round has one sender"
        self.coordinator.probation.note_fault(opened.apart)
        if len(opened.members) == 1:
            naming[0].handle(EndorsedRejected("endorsers lack a state that it needs", is_counted=False))
            return
        for member in naming:
            member.goes_alone = True
        self._ask_anew(opened)
        self.coordinator.something_changed()

    def _renew_request(self, opened: Round, peer: NodeName) -> None:
        """Give a retry after an error a new request id (protocol §4.2)."""
        opened.doubted.pop(peer, None)
        del self.round_by_request[opened.requests[peer]]
        opened.requests[peer] = self.context.next_id()
        self.round_by_request[opened.requests[peer]] = opened

    def open_rounds(self) -> None:
        """Open rounds of gathered transitions, up to `round_max` each, while not too many are under way."""
        config = self.context.config
        if self.signers.unasked:
            self.signers.ask()
        while (
            self.unrounded
            and self._endorsing_count() < config.rounds_open_max
            and self._ahead_count() < config.dispatch_ahead_max
            and not self.gathering.awaits_company(self.unrounded)
        ):
            waiting = self._whose_turn_it_is()
            taken = members_of_next_round(self.coordinator, waiting)
            expiring = [transaction for transaction in taken if is_short(self.context, transaction.made)]
            for transaction in expiring:
                self.set_apart(transaction)
            if not expiring:
                self._note_filled(taken, waiting)
                self._open_round(taken)
        if self.apart:
            self._open_rounds_apart()

    def _whose_turn_it_is(self) -> list[HeldIntent]:
        """Return those that await a round, without senders that filled one lately and without their dependents.

        A few transitions may take all the gas of a round: a sender that filled one waits until no other sender is left.
        """
        skipped: set[Leaf] = set()
        waiting: list[HeldIntent] = []
        for transaction in self.unrounded if self.filled_by else ():
            if transaction.sender in self.filled_by or not skipped.isdisjoint(leaves_named(transaction)):
                skipped.add(transaction.leaf)
            else:
                waiting.append(transaction)
        if not waiting:
            self.filled_by.clear()
        return waiting or self.unrounded

    def _note_filled(self, taken: list[HeldIntent], waiting: list[HeldIntent]) -> None:
        """Note a sender that has a round to itself while others wait."""
        sender = taken[0].sender
        if len(taken) < len(waiting) and all(transaction.sender == sender for transaction in taken):
            self.filled_by[sender] = None

    def _open_rounds_apart(self) -> None:
        for sender in dict.fromkeys(waiting.sender for waiting in self.apart):
            while self._may_open_apart(sender):
                taken = members_of_next_round(self.coordinator, self._waiting_apart(sender))
                if not taken:
                    break
                self._open_round(taken[:1] if self.coordinator.probation.is_doubted(sender) else taken, sender)

    def must_ride_apart(self, transaction: HeldIntent) -> bool:
        """Whether its sender is on probation, its bound is short, or it depends on an apart, undispatched one.

        Or its plan names endorsers, which may take their time to approve it.
        """
        if transaction.attesters.endorsers:
            return True
        if is_short(self.context, transaction.made):
            if transaction.is_external:
                return True  # A later version of an external intent is valid no longer than its first.
            self.coordinator.isolate(transaction.sender)
        if self.coordinator.probation.has(transaction.sender):
            return True
        makers = (self.coordinator.graph.placed.get(leaf) for leaf in leaves_named(transaction))
        found = (self.coordinator.transactions.get(maker.intent) for maker in makers if maker is not None)
        return any(each is not None and each.is_apart and each.is_assembled for each in found)

    def _ahead_count(self) -> int:
        """Rounds between opening and confirmation, including those from before the restart (protocol §7)."""
        return sum(opened.apart is None for opened in self.rounds.values()) + self._restored_count()

    def _restored_count(self) -> int:
        return len({handed.point.digest for handed in self.coordinator.restored.values()})

    def _may_open_apart(self, sender: NodeName) -> bool:
        """Whether the sender's own rounds are not too many; senders of rounds from before the restart are unknown."""
        probation = self.coordinator.probation
        most = 1 if probation.is_doubted(sender) else self.context.config.apart_rounds_max
        own, others = stuck_rounds(self.context, self.rounds.values(), sender)
        own_count = sum(opened.apart == sender for opened in self.rounds.values()) - min(len(own), STUCK_ROUNDS_MAX)
        if probation.is_paused(sender) or own_count >= most:
            return False
        return len(self.rounds) - len(own) - len(others) + self._restored_count() < self.all_max

    def _waiting_apart(self, sender: NodeName) -> list[HeldIntent]:
        """Return this sender's transitions that await an apart round, except those with the plan of a stuck round."""
        own, _ = stuck_rounds(self.context, self.rounds.values(), sender)
        stuck = {opened.required for opened in own}
        return [each for each in self.apart if each.sender == sender and each.attesters.endorsers not in stuck]

    @property
    def all_max(self) -> int:
        """The maximum number of rounds: shared ones and those of senders on probation."""
        config = self.context.config
        return config.dispatch_ahead_max + config.apart_rounds_max * self.coordinator.quotas.places.sender_count

    def _endorsing_count(self) -> int:
        """Rounds in endorsement, without those that wait longer than `state_timeout` (protocol §7)."""
        since_ms = self.context.now_ms - self.context.config.state_timeout_ms
        return sum(
            opened.phase is Phase.ENDORSING and opened.apart is None and opened.opened_at_ms > since_ms
            for opened in self.rounds.values()
        )

    def _open_round(self, taken: list[HeldIntent], apart: NodeName | None = None) -> None:
        members = {transaction.intent.id: transaction for transaction in taken}
        if apart is None:
            self.unrounded = [waiting for waiting in self.unrounded if waiting.intent.id not in members]
        else:
            self.apart = [waiting for waiting in self.apart if waiting.intent.id not in members]
        leaves = tuple(transaction.leaf for transaction in taken)
        config = self.context.config
        validity_s = config.prepared_validity_s if kind_of(taken[0]).is_prepared else config.validity_s
        valid_until_s = min(
            self.context.chain_time_s + validity_s, *(transaction.made.valid_until_s for transaction in taken)
        )
        digest = round_digest(self.context.separator, leaves, valid_until_s)
        self.opened_count += 1
        showing = Showing(makers_of(self.coordinator, taken))
        opened = Round(self.opened_count, digest, leaves, valid_until_s, members, self.context.now_ms, showing, apart)
        if apart is None:
            self.gathering.note_opened(self.opened_count)
        opened.required = taken[0].attesters.endorsers
        opened.wanted = approval_digest(self.context.separator, digest) if opened.required else digest
        self.rounds[digest] = opened
        for transaction in taken:
            transaction.round, transaction.digest = opened, digest
        self._expect(opened, opened.required or self.context.contract.endorsers)
        if self.context.contract.threshold == 0:
            self._endorse(opened)
        else:
            self._ask_missing(opened)

    def _expect(self, opened: Round, endorsers: Iterable[NodeName]) -> None:
        """Request from these endorsers from now on; only answers to these requests count."""
        self._forget_requests(opened)
        opened.requests = {endorser: self.context.next_id() for endorser in endorsers}
        self.round_by_request.update(dict.fromkeys(opened.requests.values(), opened))

    def _forget_requests(self, opened: Round) -> None:
        for request_id in opened.requests.values():
            del self.round_by_request[request_id]

    def _ask_missing(self, opened: Round) -> None:
        """Repeat the requests without answer; less often after `state_timeout`, but without end."""
        opened.showing.begin_anew()
        for endorser in opened.missing():
            self._request_endorsement(opened, endorser)
        if opened.ask_count:
            self.coordinator.tell_asked_again(opened.members)
        opened.ask_count += 1
        config = self.context.config
        delay_ms = config.request_timeout_ms
        late = opened.ask_count - config.state_timeout_ms // config.request_timeout_ms
        if late > 0:
            delay_ms = self.context.backoff_ms(late, config.request_timeout_ms, config.retry_backoff_max_ms)
        due_ms = self.context.after(delay_ms)
        self.context.timers.set(self, f"round {opened.number}", due_ms, RoundRepeatDue(opened.digest))

    def _request_endorsement(self, opened: Round, endorser: NodeName) -> None:
        transitions = tuple(member.made.as_seen_by(endorser) for member in opened.members.values())
        senders = tuple(member.intent.sender for member in opened.members.values())
        request = EndorsementRequest(
            opened.requests[endorser],
            opened.digest,
            transitions,
            senders,
            opened.valid_until_s,
            self.coordinator.observer.tried(),
            opened.showing.choose(endorser, self.context.config.message_bytes_max - opened.size_bytes),
            tuple(member.intent.nonce for member in opened.members.values()),
            attesters_of(opened),
            opened.approvals,
            opened.is_approving,
        )
        self.context.send(endorser, request)
        if self.coordinator.observer.is_reachable(endorser):
            opened.showing.note_seen(endorser, opened.members.values())

    def _round_asked(self, peer: NodeName, request_id: RequestId) -> Round | None:
        """Return the round that this answers, if the request is the current one for that endorser, else None."""
        opened = self.round_by_request.get(request_id)
        if opened is None or opened.phase is not Phase.ENDORSING or opened.requests.get(peer) != request_id:
            return None
        return opened if opened.lacks(peer) else None

    def _endorse(self, opened: Round) -> None:
        opened.phase = Phase.ENDORSED
        self.context.timers.cancel(self, f"round {opened.number}")
        endorsed = handed_round(opened.leaves, opened.valid_until_s, opened.signatures.items())
        for transaction in tuple(opened.members.values()):
            transaction.endorsed = endorsed
            self.signers.note_endorsed(transaction.sender)
            transaction.handle(Endorsed())
        self.coordinator.something_changed()

    def _weigh_refusals(self, opened: Round) -> None:
        """Continue without the endorser, or drop the refused members and ask again for the rest (protocol §4.2)."""
        spare = opened.spare(self.context.contract)
        by_intent: dict[IntentId, dict[NodeName, Refusal]] = {}
        for endorser, refusals in opened.refusals.items():
            for intent, refusal in refusals.items():
                by_intent.setdefault(intent, {})[endorser] = refusal
        refused = {intent: found for intent, found in by_intent.items() if len(found) > spare}
        if not refused and len(opened.refusals) <= spare:
            return
        rejected = [(opened.members[intent], found) for intent, found in refused.items()]
        if not rejected:
            for intent in by_intent:
                opened.members[intent].goes_alone = True
            self._ask_anew(opened)
        for transaction, found in rejected:
            self._reject(opened, transaction, found)

    def _reject(self, opened: Round, transaction: HeldIntent, refusals: dict[NodeName, Refusal]) -> None:
        """Drop a refused member; if its states are only reserved for others it is valid, and those are locked now."""
        if transaction.transition is None:
            return  # A dependency was refused too, and has reset it.
        spare, made = opened.spare(self.context.contract), transaction.made
        kept = believed_of(self.context.contract, self.coordinator.may_be_kept, made, refusals.values())
        is_counted = sum(not names_any(kept, refusal) for refusal in refusals.values()) > spare
        judged = {endorser: refusal for endorser, refusal in refusals.items() if refusal.signature}
        evidence = tuple(EndorserSignature(endorser, refusal.signature) for endorser, refusal in judged.items())
        reason = next(iter((judged or refusals).values())).reason
        rejected = EndorsedRejected(reason, is_counted, evidence if len(evidence) > spare else ())
        if is_counted and transaction.is_at_its_last_refusal and self._may_be_proved(opened, len(evidence)):
            return
        transaction.handle(rejected)
        for each in kept if not is_counted else ():
            self.coordinator.respect(each)
            if made.preparation is not None:
                self.coordinator.voids.want(each.intent, transaction.sender)

    def _may_be_proved(self, opened: Round, signed_count: int) -> bool:
        """Whether unanswered endorsers may still sign enough refusals, where some refusals are unsigned.

        Its sender ends it only by signed refusals: without them it would come back and be refused again, without end.
        """
        spare = opened.spare(self.context.contract)
        return signed_count <= spare < signed_count + len(opened.missing()) and opened.ask_count < EVIDENCE_ASKS_MAX

    def _ask_anew(self, opened: Round) -> None:
        """Dissolve a round that the endorsers cannot sign as it is; its members go into new ones."""
        members = list(opened.members.values())
        for transaction in members:
            transaction.round = None
        self._close_round(opened)
        self._queue(members)

    def _queue(self, some: Iterable[HeldIntent]) -> None:
        """Queue them for a round again, in the order of assembly, which both queues keep.

        Each is inserted in its place: thousands may come back one by one when their sender is put on probation.
        """
        placed = self.coordinator.graph.placed
        for transaction in some:
            queue = self.apart if transaction.is_apart else self.unrounded
            insort(queue, transaction, key=lambda waiting: placed[waiting.leaf].order)

    def _close_round(self, opened: Round) -> None:
        del self.rounds[opened.digest]
        self._forget_requests(opened)
        self.context.timers.cancel(self, f"round {opened.number}")
        self.context.timers.cancel(self, f"dispatch {opened.number}")
        self.gathering.note_closed(opened.number)
