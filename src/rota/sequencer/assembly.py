"""A sender's side of assembly: the domain assembles, the party signs, the sender answers (protocol §7).

Theory of operation. The coordinator requests a slot of our intents; the sender has them assembled on its snapshot,
once the own index has reached the request's height, and answers when every intent has its result: in one message, or
in several when the results are large. Within a slot
one transition is signed while the next is assembled. Every copy of the current request is answered, an
older one has no effect, and a coordinator that does not have an intent gets an error for it. Signed versions
are durable before the answer leaves, one record a slot: only a recorded leaf confirms its intent (trust rule 1),
and a node that gets it endorsed may commit it without permission, when no other honest node may have its contents.
An intent that is being voided needs no domain: it is assembled here, as an empty transition (protocol §4.3).

The snapshot is only the coordinator's claim and ends nothing: an intent that the domain reverts or parks on it is
assembled again on our own confirmed states. If that succeeds it is contention: the coordinator gets that error, and the
intent is delegated again with backoff. An intent that endorsers have refused on such a snapshot is from then on
assembled on our own states alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from rota.calldata import COMMIT_GAS_MAX, PAYLOAD_BYTES_MAX, AuthCost, TooLarge, is_light, split_round
from rota.machine.pacing import ANSWERED_TIMES_MAX, ASSEMBLED_TIMES_MAX, VOIDED_TIMES_MAX, Pacing
from rota.machine.tables import Event
from rota.model.config import Config
from rota.model.consistency import Authorised, Consistent
from rota.model.digests import void_leaf
from rota.model.types import NO_ATTESTERS, Attesters, Contract, Intent, IntentId, NodeName, RequestId, Transition
from rota.sequencer.attestation import flaw_of_attesters
from rota.sequencer.context import Context
from rota.sequencer.effects import AssembleIntents, LeavesSigned
from rota.sequencer.events import AssemblyFailed, AssemblyFinished, TransitionSigned
from rota.sequencer.kept import Kept
from rota.sequencer.observer import Observer
from rota.sequencer.sender_transaction_events import (
    AssembleAndSignSuccess,
    Assembled,
    AssembleError,
    AssemblePark,
    AssembleRequestReceived,
    AssembleRevert,
    RetryDue,
)
from rota.sequencer.sent_intent import SentIntent
from rota.sequencer.versions import reads_all_dependencies
from rota.wire.messages import AssembleError as AssembleErrorMessage
from rota.wire.messages import (
    AssembleRequest,
    AssembleResponse,
    AssemblyOutcome,
    AssemblyResult,
    ErrorCode,
    IntentError,
    Snapshot,
)
from rota.wire.sizes import in_parts, planned_bytes, result_bytes

# The most expensive bound: a nonzero byte costs more gas, and the transition must fit with any bound.
LATEST_S = 2**64 - 1
NOT_READ: Final = "it reads nothing of what it depends on, which has to be confirmed first"


@dataclass(slots=True)
class Slot:
    """The assemble request under way, and its results so far."""

    request: AssembleRequest
    peer: NodeName
    intents: tuple[IntentId, ...]
    size: int
    since_ms: int
    results: dict[IntentId, AssemblyResult] = field(default_factory=dict)
    errors: dict[IntentId, IntentError] = field(default_factory=dict)
    is_recorded: bool = False
    # Intents that the domain assembles again, on our own states alone, and why.
    alone: dict[IntentId, str] = field(default_factory=dict)
    # Intents that are assembled on our own states from the start.
    own: dict[IntentId, None] = field(default_factory=dict)
    # Of both, those tried without states reserved for prepared transitions; and those then tried with them.
    without_kept: dict[IntentId, None] = field(default_factory=dict)
    with_kept: dict[IntentId, None] = field(default_factory=dict)


class Early(NamedTuple):
    """A request for a height that the own index has not reached, and when its coordinator gives it up."""

    height: int
    request: AssembleRequest
    due_ms: int


class Assembly:
    """The sender's slots, one for each coordinator that it has delegated to."""

    def __init__(
        self,
        context: Context,
        observer: Observer,
        pacing: Pacing,
        kept: Kept,
        transactions: Mapping[IntentId, SentIntent],
        refusal: Callable[[NodeName, IntentId], ErrorCode | None],
    ) -> None:
        self.context = context
        self.observer = observer
        self.pacing = pacing
        self.kept = kept
        self.transactions = transactions
        self._refusal = refusal
        self.slots: dict[NodeName, Slot] = {}
        self.early: dict[NodeName, Early] = {}
        # Intents whose last assembly lacked a state that is on its way to this node.
        self.lacking: dict[IntentId, None] = {}

    def take_request(self, peer: NodeName, height: int, request: AssembleRequest) -> None:
        """Assemble once the own index has reached the request's height; answer every copy.

        Only a coordinator that has an intent may make this node wait, with one request at a time; it repeats it.
        """
        self._drop_early(peer)
        height = self.observer.height_bound(peer, height)
        if height > self.context.height and any(self._refusal(peer, intent) is None for intent in request.intents):
            due_ms = self.context.after(self.context.config.assemble_timeout_ms)
            self.early[peer] = Early(height, request, due_ms)
            return
        slot = self.slots.get(peer)
        if slot is not None and request.request_id <= slot.request.request_id:
            if request.request_id == slot.request.request_id and self._may_answer_again(peer):
                self._answer_if_complete(slot)
            return
        if slot is not None and not self._may_replace(slot):
            return
        errors = {}
        intents = tuple(dict.fromkeys(request.intents))
        for intent in intents:
            code = self._refusal(peer, intent)
            if code is None and self._is_voided_too_often(peer, self.transactions[intent]):
                code = ErrorCode.FAILED
            if code is not None:
                errors[intent] = IntentError(intent, code)
        accepted = tuple(intent for intent in intents if intent not in errors)
        if not accepted:
            self.context.send(peer, AssembleErrorMessage(request.request_id, tuple(errors.values())))
            return
        slot = self.slots[peer] = Slot(request, peer, accepted, len(intents), self.context.now_ms, errors=errors)
        for intent in accepted:
            self.transactions[intent].handle(AssembleRequestReceived(peer, request.request_id))
        self._start(slot)
        self._answer_if_complete(slot)

    def _may_answer_again(self, peer: NodeName) -> bool:
        """Whether a copy may be answered now: it is short, and its answer may be as long as a message can be."""
        interval_ms = self.context.config.request_timeout_ms
        is_ours = peer == self.context.node
        return is_ours or self.pacing.is_due(("copy", peer), interval_ms, ANSWERED_TIMES_MAX)

    def _may_replace(self, slot: Slot) -> bool:
        """Whether a new request may replace this slot, an order in line at the domain: few may be abandoned."""
        if len(slot.results) + len(slot.errors) == slot.size:
            return True
        interval_ms = self.context.config.request_timeout_ms
        return self.pacing.is_due(("slot", slot.peer), interval_ms, ASSEMBLED_TIMES_MAX)

    def record(self, transaction: SentIntent, transition: Authorised) -> None:
        """Record a version that our party signed in an earlier run, as the store may have lost the record."""
        known_until_s = transaction.versions.get(transition.leaf)
        if transition.is_empty or (known_until_s is not None and known_until_s >= transition.valid_until_s):
            return
        transaction.void_after_s = max(transaction.void_after_s, transition.valid_until_s)
        transaction.note_version(transition.leaf, transition.valid_until_s)
        self.context.persist(LeavesSigned((transition,)))

    def finish(self, transaction: SentIntent, result: AssemblyResult) -> None:
        """Take one result of the slot."""
        slot = self._slot_of(transaction)
        if slot is not None:
            slot.results[transaction.intent.id] = result
            self._answer_if_complete(slot)

    def fail(self, transaction: SentIntent, reason: str, code: ErrorCode) -> None:
        """Note that domain or signer failed on one intent of the slot, or that it was contention."""
        slot = self._slot_of(transaction)
        if slot is not None:
            slot.errors[transaction.intent.id] = IntentError(transaction.intent.id, code, reason)
            self._answer_if_complete(slot)

    def leave(self, transaction: SentIntent, code: ErrorCode) -> None:
        """Note that an intent leaves while its slot is assembled, so that the others do not wait for it."""
        slot = self._slot_of(transaction)
        intent = transaction.intent.id
        if slot is not None and intent not in slot.results and intent not in slot.errors:
            slot.errors[intent] = IntentError(intent, code)
            self._answer_if_complete(slot)

    def _slot_of(self, transaction: SentIntent) -> Slot | None:
        """Return the transaction's slot, unless its coordinator has made a new request since."""
        slot = self.slots.get(transaction.delegate) if transaction.delegate is not None else None
        return slot if slot is not None and slot.request.request_id == transaction.request_id else None

    def take_finished(self, event: AssemblyFinished) -> None:
        """Take the domain's result, for the latest order only."""
        transaction = self._in_assembly(event.request_id, event.intent)
        if transaction is None:
            return
        slot = self._slot_of(transaction)
        told = self._told_by(transaction, event)
        needs_none = slot is not None and (slot.request.snapshot == Snapshot() or event.intent in slot.own)
        transaction.is_on_own_states = needs_none
        transaction.kept_from = None
        if transaction.unmet and not self._reads_all_dependencies(transaction, told):
            # A revert too: its dependencies may provide what it lacks.
            transaction.awaits_confirmation = True
            transaction.handle(AssembleError(NOT_READ, awaits_dependencies=True))
        elif slot is None and isinstance(told, AssembleRevert | AssemblePark):
            # Its coordinator went on to another slot; the snapshot of this one is not known any more.
            transaction.handle(AssembleError(f"its coordinator did not wait for it: {told.reason}"))
        elif slot is not None and isinstance(told, AssembleRevert | AssemblePark):
            self._take_invalid(slot, transaction, told, needs_none)
        elif slot is not None and isinstance(told, Assembled) and event.intent in slot.alone:
            if event.intent in slot.with_kept:
                transaction.kept_from = told.transition
            transaction.handle(AssembleError(f"contention: {slot.alone[event.intent]}", ErrorCode.CONTENTION))
        else:
            transaction.handle(told)

    def _take_invalid(
        self, slot: Slot, transaction: SentIntent, told: AssembleRevert | AssemblePark, needs_none: bool
    ) -> None:
        """Accept it if our own states were used, with those reserved for others; else try again on more states."""
        intent = transaction.intent.id
        if intent in slot.without_kept:
            del slot.without_kept[intent]
            slot.with_kept[intent] = None
            slot.alone[intent] = told.reason
            self._order((transaction.intent,), Snapshot())
        elif needs_none or intent in slot.alone:
            transaction.handle(told)
        else:
            # Others wrote the snapshot: try an intent that fails on it again on our own index.
            slot.alone[intent] = told.reason
            self._order_alone(slot, transaction)

    def _reads_all_dependencies(self, transaction: SentIntent, told: Event) -> bool:
        return isinstance(told, Assembled) and reads_all_dependencies(transaction, told.transition, self.transactions)

    def _told_by(self, transaction: SentIntent, event: AssemblyFinished) -> Event:
        if event.outcome is AssemblyOutcome.REVERTED:
            return AssembleRevert(event.reason, event.code)
        if event.outcome is AssemblyOutcome.PARKED:
            return AssemblePark(event.reason)
        assert event.transition is not None, "an assembled intent has a transition"
        contract, config, sender = self.context.contract, self.context.config, transaction.intent.sender
        flaw = flaw_of_attesters(contract, sender, event.attesters)
        flaw = flaw or flaw_of_size(event.transition, contract, config, event.attesters)
        bounded = _bounded(transaction, event.transition)
        return AssembleRevert(flaw) if flaw else _assembled(transaction, bounded, event.attesters)

    def take_failed(self, event: AssemblyFailed) -> None:
        """Take a failure of domain or signer, for the latest order only."""
        transaction = self._in_assembly(event.request_id, event.intent)
        if transaction is not None:
            transaction.handle(AssembleError(event.reason, lacks_states=event.lacks_states))

    def states_arrived(self) -> None:
        """Retry at once the intents that back off for want of a state: new ones are durable or committed here.

        Each failure is cut short once, so no peer can cause more attempts than states arrive.
        """
        lacking, self.lacking = self.lacking, {}
        for intent in lacking:
            transaction = self.transactions.get(intent)
            if transaction is not None and transaction.not_before_ms > self.context.now_ms:
                transaction.not_before_ms = self.context.now_ms
                self.context.timers.set(transaction, "retry", self.context.now_ms, RetryDue())

    def take_signed(self, event: TransitionSigned) -> None:
        """Take the signer's result, for the latest order only."""
        transaction = self._in_assembly(event.request_id, event.intent)
        if transaction is not None:
            transaction.handle(AssembleAndSignSuccess(event.signature, event.cosignatures))

    def _start(self, slot: Slot) -> None:
        valid_until_s = self.context.chain_time_s + self.context.config.validity_s
        transactions = [self.transactions[intent] for intent in slot.intents]
        for transaction in transactions:
            if transaction.is_voiding:
                intent = transaction.intent.id
                leaf = void_leaf(self.context.separator, intent)
                transaction.is_on_own_states = True
                transaction.handle(Assembled(Transition(intent, leaf, valid_until_s=valid_until_s)))
            elif transaction.needs_own_states:
                slot.own[transaction.intent.id] = None
                self._order_alone(slot, transaction)
        intents = tuple(each.intent for each in transactions if not (each.is_voiding or each.needs_own_states))
        if intents:
            self._order(intents, slot.request.snapshot)

    def _order_alone(self, slot: Slot, transaction: SentIntent) -> None:
        """Order assembly on our own states, without those known to be reserved: no endorser would sign."""
        intent = transaction.intent
        locks = self.kept.locks((intent.id,))
        if locks:
            slot.without_kept[intent.id] = None
        self._order((intent,), Snapshot(locks))

    def _order(self, intents: tuple[Intent, ...], snapshot: Snapshot) -> None:
        """Order assembly under an id drawn here: two coordinators may use one id, on different snapshots."""
        config, chain_time_s = self.context.config, self.context.chain_time_s
        order = self.context.next_id()
        for intent in intents:
            self.transactions[intent.id].order = order
        self.context.effects.append(
            AssembleIntents(
                self.context.contract.address,
                order,
                intents,
                snapshot,
                self.context.height,
                chain_time_s + config.validity_s,
                chain_time_s + config.prepared_validity_s,
            )
        )

    def _in_assembly(self, order: RequestId, intent: IntentId) -> SentIntent | None:
        transaction = self.transactions.get(intent)
        return transaction if transaction is not None and transaction.order == order else None

    def _is_voided_too_often(self, peer: NodeName, transaction: SentIntent) -> bool:
        """Whether it asks for too many empty transitions, which are no versions and would otherwise be unlimited."""
        if not transaction.is_voiding or peer == self.context.node:
            return False
        key, interval_ms = ("void", peer, transaction.intent.id), self.context.config.request_timeout_ms
        return not self.pacing.is_due(key, interval_ms, VOIDED_TIMES_MAX)

    def _record(self, slot: Slot) -> None:
        """Record the signed versions, with all contents."""
        slot.is_recorded = True
        made = (slot.results[intent].transition for intent in slot.intents if intent in slot.results)
        # Our domain made them, and our party signed them.
        signed = tuple(Authorised(Consistent(each)) for each in made if each is not None and not each.is_empty)
        if signed:
            self.context.persist(LeavesSigned(signed))

    def _answer_if_complete(self, slot: Slot) -> None:
        if len(slot.results) + len(slot.errors) < slot.size:
            return
        if not slot.is_recorded:
            self._record(slot)
        if slot.results:
            results = tuple(
                _as_seen_by(slot.peer, slot.results[intent]) for intent in slot.intents if intent in slot.results
            )
            took_ms = self.context.now_ms - slot.since_ms
            for part in in_parts(results, result_bytes, self.context.config.message_bytes_max):
                self.context.send(slot.peer, AssembleResponse(slot.request.request_id, part, took_ms))
        if slot.errors:
            errors = tuple(slot.errors.values())
            self.context.send(slot.peer, AssembleErrorMessage(slot.request.request_id, errors))

    def take_early_request(self) -> None:
        """The index has a new block: start early requests that are due; forget those that have expired."""
        for peer, early in tuple(self.early.items()):
            if early.due_ms <= self.context.now_ms:
                self._drop_early(peer)
            elif early.height <= self.context.height:
                self.take_request(peer, early.height, early.request)

    def _drop_early(self, peer: NodeName) -> None:
        """Stop waiting for a coordinator's early request whose height the own index did not reach in time."""
        early = self.early.pop(peer, None)
        if early is not None and early.due_ms <= self.context.now_ms and early.height > self.context.height:
            self.observer.doubt(peer)


def _bounded(transaction: SentIntent, transition: Transition) -> Transition:
    """Bound every version of an external intent by the first one's: states are reserved until then."""
    bound_s = transaction.first_bound_s
    if bound_s is None or bound_s >= transition.valid_until_s:
        return transition
    return replace(transition, valid_until_s=bound_s)


def _assembled(transaction: SentIntent, transition: Transition, attesters: Attesters) -> Event:
    """Only an external intent may be prepared; for others the chain would refuse the whole round."""
    if transition.preparation is not None and not transaction.intent.is_external:
        return AssembleError("the domain prepared a transition for another committer, and its intent is not external")
    return Assembled(transition, attesters)


def _as_seen_by(node: NodeName, result: AssemblyResult) -> AssemblyResult:
    """Remove bytes of states that the coordinator is not to see (S8)."""
    transition = result.transition
    seen = transition.as_seen_by(node) if transition is not None else None
    return result if seen is transition else replace(result, transition=seen)


def flaw_of_size(
    transition: Transition, contract: Contract, config: Config, attesters: Attesters = NO_ATTESTERS
) -> str:
    """Return why no message, or no base-ledger transaction (ledger), can hold it; "" when both can."""
    size_bytes = planned_bytes(transition, attesters)
    if size_bytes > config.transition_bytes_max:
        limit = f"a transition has at most {config.transition_bytes_max}"
        return f"too large: it takes {size_bytes} bytes with the states that it makes, and {limit}"
    if is_light(transition):
        return ""
    auth = AuthCost.of(contract)
    parts = split_round((transition,), LATEST_S, auth)
    if isinstance(parts, TooLarge):
        limits = f"{COMMIT_GAS_MAX} gas and {PAYLOAD_BYTES_MAX} bytes"
        return f"too large: it takes {parts.gas} gas and {parts.size_bytes} bytes, and a transaction holds {limits}"
    return ""
