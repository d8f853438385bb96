"""One node's endorser for one contract: checks rounds, signs them, and records what it signed.

Theory of operation. An endorser signs for one coordinator at a time, the one that this node accepts
(protocol §5); it answers a request of another with the accepted coordinator and its own height, which is no
refusal. It recomputes every leaf from the full transition and never signs a digest with a leaf that it
has not checked (ledger). The domain's judgement is an effect; its answer comes back as an event. The domain gets
the transitions whose outputs are not on the chain yet: those that the coordinator shows, each recomputed too, and
those seen before (`seen.py`). A missing state is no refusal either: the coordinator is informed and
shows it, and all nodes that may have it are asked, because the coordinator need not have states that are on the chain.
Nor is a failure of the domain a refusal. Only the domain's own judgement of a leaf is signed. Nothing
survives a restart except the reservations of prepared transitions: a reservation is durable before the signature
leaves, and while it exists no transition of another intent that spends or reads its states is signed (`kept.py`).
`turns.py` limits how much is reserved for each sender, and how long. Where the plan of a transaction names endorsers,
these approve a round before any endorser signs it (`attestation.py`); an approval is no signature and reserves nothing.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import takewhile
from typing import NamedTuple

from rota.machine.tables import Event
from rota.model.blocks import LedgerOutcome, LedgerStatus
from rota.model.consistency import Consistent, consistent_for, flaw_of
from rota.model.digests import ROUND_LEAVES_MAX, is_id_of, round_digest
from rota.model.sharing import holders_of
from rota.model.types import (
    NEVER_HEARD,
    IntentId,
    KeptStates,
    Leaf,
    Mode,
    NodeName,
    Party,
    RequestId,
    Rotation,
    StateId,
    Transition,
    node_of,
)
from rota.sequencer.attestation import refusals_of_plan
from rota.sequencer.context import Context
from rota.sequencer.effects import CheckRound, PreparedEndorsed, StoreStates
from rota.sequencer.events import RoundChecked, StatesOverdue
from rota.sequencer.kept import Kept
from rota.sequencer.observer import Observer
from rota.sequencer.seen import Seen
from rota.sequencer.turns import Turns
from rota.wire.messages import (
    REFUSAL_KEPT_MAX,
    STATE_REQUEST_LEAVES_MAX,
    EndorsementError,
    EndorsementRequest,
    EndorsementResponse,
    Refusal,
    Rejection,
    StateRequest,
)
from rota.wire.sizes import transition_bytes

ANSWERS_KEPT_MAX = 256
CHECKS_OPEN_MAX = 1_024
# States on the chain arrive within so many time-outs, or no node sends them.
UNSENT_TIMEOUTS = 2
# More rounds than one coordinator may have under way.
CHECKS_OF_PEER_MAX = 256
# Transitions that a coordinator shows stay in memory until they are judged. A round takes 3 MiB at most.
CHECKS_BYTES_MAX = 67_108_864
CHECKS_BYTES_OF_PEER_MAX = 33_554_432


class Asking(NamedTuple):
    """When a coordinator that this node does not accept began to request signatures, and when it last did."""

    since_ms: int
    last_ms: int


class Check(NamedTuple):
    """A round that the domain is judging."""

    request: EndorsementRequest
    since_ms: int
    size_bytes: int = 0


class Endorser:
    """Answers endorsement requests; it has no states, so it is no table."""

    def __init__(
        self, context: Context, observer: Observer, kept: Kept | None = None, turns: Turns | None = None
    ) -> None:
        self.context = context
        self.observer = observer
        self.kept = kept or Kept()
        self.turns = turns or Turns(context)
        self.seen = Seen()
        # Leaves on the chain whose states no node has sent yet, and when this node stores the copies that it has seen.
        self.unsent: dict[Leaf, int] = {}
        self.checking: dict[tuple[NodeName, RequestId], Check] = {}
        self.answers: dict[tuple[NodeName, RequestId], EndorsementResponse] = {}
        self.asking: dict[NodeName, Asking] = {}
        self.accepted_ms = 0

    def take_request(self, peer: NodeName, height: int, request: EndorsementRequest) -> None:
        """Answer every copy of a request; check each request once."""
        rejection = self.rejection_of(peer, height, request)
        is_only_one = rejection is Rejection.NOT_PREFERRED_COORDINATOR and self._is_only_one_that_asks(peer)
        if rejection is not None and not is_only_one:
            accepted = self.observer.accepted
            number = self.observer.peer(accepted).number if accepted is not None else NEVER_HEARD
            error = EndorsementError(request.request_id, rejection, accepted, number)
            self.context.send(peer, error)
            return
        self.accepted_ms = self.context.now_ms
        if self.observer.has_observation:
            if not is_only_one:
                self._note_deposed(peer, request)
            self.observer.accept(peer)
            self.observer.believe_tried(peer, request.tried)
            self.observer.forget_tried(request.tried)
        key = (peer, request.request_id)
        answer = self.answers.get(key)
        # An answer is for one digest: a corrected request under the same id is no copy.
        if answer is not None and answer.digest == request.digest:
            self.context.send(peer, answer)
        elif self._is_to_be_checked(key, request):
            self._check(peer, request)

    def take_checked(self, event: RoundChecked) -> None:
        """Take the domain's judgement: sign or refuse, unless this node follows another coordinator by now (S6)."""
        key = (event.peer, event.request_id)
        check = self.checking.get(key)
        if check is None or check.request.digest != event.digest:
            return
        del self.checking[key]
        if self.observer.has_observation and self.observer.accepted != event.peer:
            return
        # States of these transitions may be reserved by now: a signature was given while the domain judged, or earlier
        # and this round is to void the prepared transition.
        late = self._refusals_of_kept(check.request) if self.kept.signed and event.signature else ()
        for transition in check.request.transitions if late else ():
            self.kept.note_wanted(transition)
        if event.refusals or late:
            self._answer(event.peer, check.request, b"", event.refusals or late)
        elif event.missing:
            self._ask_for_states(event.peer, check.request, event.missing)
        elif event.unjudged or not event.signature:
            # A failure here is no judgement: the coordinator repeats the request under another id.
            error = EndorsementError(event.request_id, Rejection.UNAVAILABLE, unjudged=event.unjudged)
            self.context.send(event.peer, error)
        else:
            self._sign(event.peer, check.request, event.signature)

    def _sign(self, peer: NodeName, request: EndorsementRequest, signature: bytes) -> None:
        """Sign the round, which may be committed from now on, whatever its coordinator does.

        An approved round may not be committed yet.
        """
        if request.asks_approval or _asks_for_void(request):
            self._answer(peer, request, signature, ())
            return
        for transition, sender in zip(request.transitions, request.senders, strict=True):
            self.seen.note_signed(Consistent(transition), node_of(sender))  # Inconsistent ones were refused.
        if any(transition.preparation is not None for transition in request.transitions):
            self._keep_and_sign(peer, request, signature)
        else:
            self._answer(peer, request, signature, ())

    def take_outcome(self, outcome: LedgerOutcome, is_ours: bool) -> None:
        """Forget a transition that this node sent or dispatched, since its store has it.

        Another node's commit may never be distributed: wait for its states for a while. A skipped one may still be
        committed until its bound.
        """
        if is_ours:
            self.seen.forget(outcome.leaf)
        elif outcome.status is LedgerStatus.COMMITTED and self.seen.find((outcome.leaf,)):
            self.unsent[outcome.leaf] = self.context.after(UNSENT_TIMEOUTS * self.context.config.request_timeout_ms)
            self._watch_unsent()

    def states_stored(self, transitions: tuple[Transition, ...]) -> None:
        """Note that these distributed transitions are durable."""
        for transition in transitions:
            self.seen.stored(transition)
            if self.unsent and not self.seen.find((transition.leaf,)):
                self.unsent.pop(transition.leaf, None)

    def _watch_unsent(self) -> None:
        if self.unsent and not self.context.timers.is_set(self, "unsent"):
            self.context.timers.set(self, "unsent", next(iter(self.unsent.values())), StatesOverdue())

    def _store_unsent(self) -> None:
        """Store overdue states seen here, as no other node may have them; they are distributed from here."""
        due = [leaf for leaf, due_ms in self.unsent.items() if due_ms <= self.context.now_ms]
        for leaf in due:
            del self.unsent[leaf]
        for transition in self.seen.find(due):
            self.context.effects.append(StoreStates(self.context.contract.address, transition))
        self._watch_unsent()

    def handle(self, event: Event) -> None:
        """Handle StatesOverdue."""
        assert isinstance(event, StatesOverdue), "the endorser knows its events"
        self._store_unsent()

    def rejection_of(self, peer: NodeName, height: int, request: EndorsementRequest) -> Rejection | None:
        """Return why this coordinator cannot be accepted now, or None if it can (protocol §5)."""
        contract = self.context.contract
        if not self.context.has_ledger:
            return Rejection.NO_LEDGER
        count = len(request.transitions)
        is_well_formed = 0 < count == len(request.senders) == len(request.nonces) <= ROUND_LEAVES_MAX
        is_well_formed = is_well_formed and len(request.attesters) in (0, count)
        # A refusal of one copy would count as one of the other, which may be shown as its party made it.
        is_well_formed = is_well_formed and len({each.intent for each in request.transitions}) == count
        # A node that does not endorse this contract records nothing of it: a stranger may create contracts of its own.
        endorses = self.context.node in contract.endorsers
        if not is_well_formed or not endorses or not self._may_coordinate(peer, request):
            return Rejection.NOT_ALLOWED
        if contract.mode is not Mode.RING:
            return None
        if self.observer.is_demoted(peer) and peer != self.context.node:
            return Rejection.NOT_PREFERRED_COORDINATOR
        is_strict = contract.rotation is Rotation.STRICT
        is_followed = self.observer.accepted == peer
        if (is_strict or not is_followed) and contract.range_at(height) != self.context.block_range:
            return Rejection.MISMATCHED_BLOCK_HEIGHT
        accepts = self._leads(peer, request) if is_strict else is_followed or self._may_replace(peer, request)
        return None if accepts else Rejection.NOT_PREFERRED_COORDINATOR

    def _may_coordinate(self, peer: NodeName, request: EndorsementRequest) -> bool:
        contract = self.context.contract
        if contract.mode is Mode.SENDER:
            return all(node_of(sender) == peer for sender in request.senders)
        return peer in contract.committee

    def _leads(self, peer: NodeName, request: EndorsementRequest) -> bool:
        """Strict: whether all members that outrank it are silent here, demoted, or believed to be tried."""
        return all(self.observer.is_tried_by(peer, request.tried, node) for node in self._better_than(peer))

    def _better_than(self, peer: NodeName) -> list[NodeName]:
        """Return the members that outrank it and are neither silent here nor demoted."""
        better = takewhile(lambda node: node != peer, self.context.ranking(self.context.block_range))
        return [node for node in better if not self.observer.is_passed_over(node)]

    def _may_replace(self, peer: NodeName, request: EndorsementRequest) -> bool:
        """Sticky: whether no coordinator is accepted, or it is silent, not live, believed tried or outranked."""
        accepted = self.observer.accepted
        if accepted is None or self.observer.is_silent(accepted) or not self.observer.is_live(accepted):
            return True
        was_tried = self.observer.is_tried_by(peer, request.tried, accepted)
        return was_tried or self.observer.outranks(peer, accepted)

    def _is_only_one_that_asks(self, peer: NodeName) -> bool:
        """Whether it has asked for half of `progress_timeout`, in which no accepted coordinator has asked for anything.

        So neither reports of others nor the rank of an idle coordinator stop this node from signing forever (protocol
        §5).
        """
        now_ms, config = self.context.now_ms, self.context.config
        asking = self.asking.get(peer, Asking(now_ms, now_ms))
        has_paused = now_ms - asking.last_ms > 2 * config.retry_backoff_max_ms
        since_ms = now_ms if has_paused or self.accepted_ms >= asking.since_ms else asking.since_ms
        self.asking[peer] = Asking(since_ms, now_ms)
        if now_ms - since_ms < config.progress_timeout_ms // 2 or self.observer.demotions.is_own(peer):
            return False
        self.observer.demotions.clear(peer)
        return True

    def _note_deposed(self, peer: NodeName, request: EndorsementRequest) -> None:
        """Record a report that alone makes this node leave a coordinator that is not silent (`demotion.py`)."""
        if self.context.contract.mode is not Mode.RING:
            return
        if self.context.contract.rotation is Rotation.STRICT:
            is_decisive = bool(self._better_than(peer))
        else:
            is_decisive = self.observer.accepted != peer and not self._may_replace(peer, replace(request, tried=()))
        if is_decisive:
            self.observer.demotions.note_deposed(peer)

    def _is_to_be_checked(self, key: tuple[NodeName, RequestId], request: EndorsementRequest) -> bool:
        """Whether it is new, or so old that its check was lost with a step whose records could not be written.

        Another round under the id of one that is being judged does not replace it.
        """
        check = self.checking.get(key)
        if check is None:
            return self._has_room_for(key[0], request)
        is_old = self.context.now_ms - check.since_ms >= self.context.config.request_timeout_ms
        is_same = check.request.digest == request.digest and check.request.asks_approval == request.asks_approval
        return is_old and is_same

    def _has_room_for(self, peer: NodeName, request: EndorsementRequest) -> bool:
        """Whether it fits the limits of rounds being judged, in number and bytes; a single one always does."""
        if not self.checking:
            return True
        if len(self.checking) >= CHECKS_OF_PEER_MAX:
            self._forget_lost_checks()
        of_peer = [check.size_bytes for (asking, _), check in self.checking.items() if asking == peer]
        if len(self.checking) >= CHECKS_OPEN_MAX or len(of_peer) >= CHECKS_OF_PEER_MAX:
            return False
        size_bytes = shown_bytes(request)
        all_bytes = sum(check.size_bytes for check in self.checking.values())
        return sum(of_peer) + size_bytes <= CHECKS_BYTES_OF_PEER_MAX and all_bytes + size_bytes <= CHECKS_BYTES_MAX

    def _forget_lost_checks(self) -> None:
        """Forget rounds that the domain has not judged for `unavailable_ttl`; their coordinators no longer wait."""
        before_ms = self.context.now_ms - self.context.config.unavailable_ttl_ms
        for key in [key for key, check in self.checking.items() if check.since_ms < before_ms]:
            del self.checking[key]

    def _keep_and_sign(self, peer: NodeName, request: EndorsementRequest, signature: bytes) -> None:
        """Reserve the inputs for their intents, durably, and sign; a reservation that exists already suffices."""
        latest_s = self.context.latest_valid_until_s(is_prepared=True)
        wanted = [
            (node_of(sender), self._kept_for(transition, request.valid_until_s, latest_s))
            for transition, sender in zip(request.transitions, request.senders, strict=True)
            if transition.preparation is not None
        ]
        kept = tuple(each for _, each in wanted if not self.kept.has_signed_for(each))
        if not kept:
            self._answer(peer, request, signature, ())
            return
        refusals = self._take_turns(wanted, request.valid_until_s)
        if refusals:
            self._answer(peer, request, b"", refusals)
            return
        for each in kept:
            self.kept.sign(each)
        self.context.persist(PreparedEndorsed(kept))
        self._answer(peer, request, signature, ())

    def _take_turns(self, wanted: list[tuple[NodeName, KeptStates]], until_s: int) -> tuple[Refusal, ...]:
        """Take turns in order, so that a round takes no more than its transitions could one by one; all or none."""
        refusals: list[Refusal] = []
        begun: list[IntentId] = []
        for sender, each in wanted:
            reason = self.turns.flaw_of(sender, each.intent, each.inputs, until_s)
            if reason:
                refusals.append(Refusal(each.intent, reason, leaf=each.leaf))
                continue
            if each.intent not in self.turns.turns:
                begun.append(each.intent)
            self.turns.take(sender, each)
        for intent in begun if refusals else ():
            self.turns.drop(intent)
        return tuple(refusals)

    def _kept_for(self, transition: Transition, until_s: int, latest_s: int) -> KeptStates:
        """Return the reservation for this version, until the bound of the first one; later ones are within it."""
        first_s = min(transition.valid_until_s, latest_s)
        until_s = max(until_s, self.turns.bound_of(transition.intent, first_s))
        return KeptStates(transition.intent, transition.leaf, transition.inputs, until_s)

    def _refusals_of_kept(self, request: EndorsementRequest) -> tuple[Refusal, ...]:
        authors = zip(request.transitions, request.senders, strict=True)
        found = (self._refusal_of_kept(transition, sender, request, is_judged=True) for transition, sender in authors)
        return tuple(refusal for refusal in found if refusal is not None)

    def _refusal_of_kept(
        self, transition: Transition, sender: Party, request: EndorsementRequest, is_judged: bool
    ) -> Refusal | None:
        """Return why this transition conflicts with prepared ones signed here, or None.

        One that conflicts only with abandoned prepared ones is judged first: it must be valid to void them.
        """
        kept, leaf = self.kept.signed_away(transition)[:REFUSAL_KEPT_MAX], transition.leaf
        if kept and (is_judged or not all(self.kept.is_left(each.intent) for each in kept)):
            return Refusal(transition.intent, "a state is kept for a prepared transition", kept, leaf)
        if transition.preparation is None:
            return None
        until_s = request.valid_until_s
        reason = self.turns.flaw_of(node_of(sender), transition.intent, transition.inputs, until_s)
        return Refusal(transition.intent, reason, leaf=leaf) if reason else None

    def _check(self, peer: NodeName, request: EndorsementRequest) -> None:
        """Check without the domain: leaves, digest, validity.

        All of these depend on what the coordinator shows and writes, so a refusal here is no judgement of the leaf:
        it is not signed, and no node can end an intent with it.
        """
        leaves = tuple(transition.leaf for transition in request.transitions)
        is_signed_over = request.digest == round_digest(self.context.separator, leaves, request.valid_until_s)
        if _asks_for_void(request) and self.kept.may_be_voided(request.transitions[0].intent):
            self._check_void(peer, request, is_signed_over)
            return
        makers, false = self._makers_of(peer, request)
        authors = tuple(zip(request.transitions, request.senders, request.nonces, strict=True))
        strangers = {
            transition.leaf: None
            for transition, sender, nonce in authors
            if not is_id_of(transition.intent, sender, self.context.contract.address, nonce)
        }
        found = (
            self._refusal_of(transition, sender, request, peer, is_signed_over, false, strangers)
            for transition, sender, _ in authors
        )
        refusals = tuple(refusal for refusal in found if refusal is not None)
        refusals = refusals or refusals_of_plan(self.context.contract, self.context.node, request)
        if refusals:
            self._answer(peer, request, b"", refusals)
            return
        size_bytes = sum(map(transition_bytes, request.makers))
        for transition in request.transitions:
            own_bytes = transition_bytes(transition)
            size_bytes += own_bytes
            self.seen.note(Consistent(transition), peer, own_bytes)  # Inconsistent ones were refused.
        self._order_check(peer, request, size_bytes, request, makers)

    def _check_void(self, peer: NodeName, request: EndorsementRequest, is_signed_over: bool) -> None:
        """Check the void of an intent recorded here as abandoned: it needs neither its party nor the domain."""
        [void] = request.transitions
        reason = self._flaw_of(void, request, peer, is_signed_over, is_void=True)
        if reason:
            self._answer(peer, request, b"", (Refusal(void.intent, reason, leaf=void.leaf),))
            return
        self._order_check(peer, request, 0, replace(request, transitions=(), senders=(), attesters=(), makers=()))

    def _order_check(
        self,
        peer: NodeName,
        request: EndorsementRequest,
        size_bytes: int,
        shown: EndorsementRequest,
        makers: tuple[Transition, ...] = (),
    ) -> None:
        """Have the domain judge the transitions shown to it, and sign the round if all of them are right."""
        self.checking[(peer, request.request_id)] = Check(request, self.context.now_ms, size_bytes)
        self.context.effects.append(
            CheckRound(
                self.context.contract.address,
                peer,
                request.request_id,
                request.digest,
                shown.transitions,
                shown.senders,
                request.valid_until_s,
                makers,
                shown.attesters,
                shown.approvals,
                shown.asks_approval,
            )
        )

    def _makers_of(
        self, peer: NodeName, request: EndorsementRequest
    ) -> tuple[tuple[Transition, ...], dict[Leaf, None]]:
        """Return the known transitions that made the round's outside states, and the shown ones that are false."""
        made_here = {transition.leaf for transition in request.transitions}
        needed = dict.fromkeys(
            reference.leaf
            for transition in request.transitions
            for reference in (*transition.inputs, *transition.reads)
            if reference.leaf not in made_here
        )
        false: dict[Leaf, None] = {}
        for maker in request.makers:
            if maker.leaf not in needed:
                continue
            known = consistent_for(self.context.separator, self.context.node, maker)
            if known is None:
                false[maker.leaf] = None
            else:
                self.seen.note(known, peer)
        return self.seen.find(needed), false

    def _refusal_of(
        self,
        transition: Transition,
        sender: Party,
        request: EndorsementRequest,
        peer: NodeName,
        is_signed_over: bool,
        false: dict[Leaf, None],
        strangers: dict[Leaf, None],
    ) -> Refusal | None:
        reason = self._flaw_of(transition, request, peer, is_signed_over)
        if transition.leaf in strangers:
            reason = reason or "the intent's id is not its party's"
        if false and any(reference.leaf in false for reference in (*transition.inputs, *transition.reads)):
            reason = reason or "what is said to have made a state did not make it"
        if reason:
            return Refusal(transition.intent, reason, (), transition.leaf)
        return self._refusal_of_kept(transition, sender, request, is_judged=False)

    def _flaw_of(
        self,
        transition: Transition,
        request: EndorsementRequest,
        peer: NodeName,
        is_signed_over: bool,
        is_void: bool = False,
    ) -> str:
        """Return why this transition cannot be signed, or "". A void needs no signature of its party."""
        latest_s = self.context.latest_valid_until_s(transition.preparation is not None)
        if not is_signed_over:
            return "the digest is not that of the round's leaves"
        if not transition.signature and not is_void:
            return "the sender's signature is missing"
        if request.valid_until_s > min(transition.valid_until_s, latest_s):
            return "the round is valid longer than its leaves allow"
        if request.valid_until_s < self.context.chain_time_s:
            return "the round is no longer valid"
        # This node's own coordinator admits only consistent ones (`slots.py`).
        return "" if peer == self.context.node else flaw_of(self.context.separator, transition)

    def _ask_for_states(self, peer: NodeName, request: EndorsementRequest, missing: tuple[StateId, ...]) -> None:
        """Request missing states: the coordinator shows those not on the chain; members' stores have the others."""
        leaves = tuple(dict.fromkeys(state.leaf for state in missing))
        self.context.send(peer, EndorsementError(request.request_id, Rejection.MISSING_STATES, missing=leaves))
        for start in range(0, len(leaves), STATE_REQUEST_LEAVES_MAX):
            for holder in dict.fromkeys((peer, *holders_of(self.context.contract))):
                if holder != self.context.node:
                    self.context.send(holder, StateRequest(leaves[start : start + STATE_REQUEST_LEAVES_MAX]))

    def _answer(
        self, peer: NodeName, request: EndorsementRequest, signature: bytes, refusals: tuple[Refusal, ...]
    ) -> None:
        response = EndorsementResponse(request.request_id, request.digest, signature, refusals)
        self.answers[(peer, request.request_id)] = response
        if len(self.answers) > ANSWERS_KEPT_MAX:
            del self.answers[next(iter(self.answers))]
        self.context.send(peer, response)


def shown_bytes(request: EndorsementRequest) -> int:
    """Return the size of the transitions shown in the request."""
    return sum(map(transition_bytes, (*request.transitions, *request.makers)))


def _asks_for_void(request: EndorsementRequest) -> bool:
    """Whether it voids an intent without its party: an empty transition without a signature, alone in its round."""
    first = request.transitions[0]
    return len(request.transitions) == 1 and first.is_empty and not first.signature
