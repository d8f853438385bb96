"""Assembly slots: whose intents are assembled next (protocol §7).

Theory of operation. One sender at a time is asked to assemble: a slot holds several of its intents, which it
assembles one after the other on one snapshot. Senders take turns; the first assembly of one sender's
intents is in the order in which they were delegated. A slot's request is repeated until it is answered,
and only the answer to the current one counts. A sender that does not answer loses its turn and comes back
with backoff, so that it delays no other. One that answers slowly waits until the others may have had as much time.
Where any registered node may send, there may be any number of strangers; proven senders get every second slot.

Admission: the coordinator's checks of a transition before it joins a round. Every endorser would refuse a false
transition, and the round that it is in would be dissolved. So the coordinator makes the checks that it can make
alone: that the leaf is the transition's, that states are named after it, and that the bytes which it sees match their
commitments; the party's right to the id was checked when the intent was delegated. A sender that fails a check is on
probation. The party's signature needs the party's verifier and is verified by an effect, for senders that are not
yet trusted (`signers.py`). Endorsers verify every signature.

Existence of the inputs is not checked. Only a store knows all states, and a look-up of each input of each transition
would cost every honest sender as much as an assembly, and would not suffice: a state that exists may have a
content that no endorser has. Endorsers name the states that they lack, and a sender that names one which too many of
them do not find goes apart (`rounds.py`). So a sender delays a shared round once, for a little more than
`request_timeout`, and is then on probation.
"""

from __future__ import annotations

from bisect import insort
from dataclasses import dataclass, field

from rota.machine.tables import Event
from rota.model.consistency import consistent
from rota.model.types import IntentId, Leaf, Mode, NodeName, RequestId, Transition
from rota.sequencer.attestation import flaw_of_attesters
from rota.sequencer.coordinator_owner import OwningCoordinator
from rota.sequencer.coordinator_transaction_events import (
    AssembleErrorResponse,
    AssembleParkResponse,
    AssembleRequestSent,
    AssembleRevertResponse,
    AssembleSuccess,
    AssembleTimeout,
    Selected,
)
from rota.sequencer.events import LookAgain, SlotRepeatDue, SlotTimedOut
from rota.sequencer.held_intent import UNASSEMBLED, HeldIntent
from rota.wire.messages import (
    AssembleError,
    AssembleRequest,
    AssembleResponse,
    AssemblyOutcome,
    AssemblyResult,
    ErrorCode,
)
from rota.wire.sizes import planned_bytes

MANY = 1_000_000


@dataclass(slots=True)
class Slot:
    """One assemble request under way: its sender, the unanswered intents, and the leaves dropped since."""

    request: AssembleRequest
    sender: NodeName
    size: int
    unanswered: dict[IntentId, None]
    since_ms: int
    answered_bytes: int = 0
    gone: set[Leaf] = field(default_factory=set)


class Slots:
    """The assembly of one coordinator; slots are selected only while it is Active."""

    def __init__(self, coordinator: OwningCoordinator) -> None:
        self.coordinator = coordinator
        self.context = coordinator.context
        self.slot: Slot | None = None
        self.awaiting: dict[NodeName, list[tuple[int, IntentId]]] = {}
        self.turns: list[NodeName] = []
        self.last_sender: NodeName | None = None
        self.lost_turns: dict[NodeName, int] = {}
        self.sizes: dict[NodeName, int] = {}
        self.not_before_ms: dict[NodeName, int] = {}

    def handle(self, event: Event) -> None:
        """Handle the slot's timers."""
        match event:
            case SlotRepeatDue():
                self._repeat()
            case SlotTimedOut():
                self._lose_turn()
            case _:
                assert isinstance(event, LookAgain), "the slots know their timers"
        self.coordinator.something_changed()

    def await_assembly(self, transaction: HeldIntent, order: int) -> None:
        """Queue an intent for a slot, in the order of delegation."""
        queue = self.awaiting.setdefault(transaction.sender, [])
        insort(queue, (order, transaction.intent.id))
        if transaction.sender not in self.turns:
            self.turns.append(transaction.sender)

    def stop_awaiting_assembly(self, transaction: HeldIntent, order: int) -> None:
        """Remove an intent that is assembled or gone."""
        queue = self.awaiting[transaction.sender]
        queue.remove((order, transaction.intent.id))
        if not queue:
            del self.awaiting[transaction.sender]
            self.turns.remove(transaction.sender)

    def look_again_at(self, due_ms: int) -> None:
        """Set a timer for the end of a backoff."""
        self.context.timers.set(self, f"look {due_ms}", due_ms, LookAgain())

    def is_usable(self, transition: Transition) -> bool:
        """Whether it is valid and uses no state that is locked, spent, or was dropped during its assembly."""
        slot = self.slot
        assert slot is not None, "an assembled transition belongs to the slot"
        if transition.valid_until_s < self.context.chain_time_s:
            return False
        references = (*transition.inputs, *transition.reads)
        graph = self.coordinator.graph
        giving_way = self.coordinator.giving_way_to(slot.sender, graph.spenders_of(references))
        if graph.conflicts(transition, giving_way) or not self.coordinator.outcomes.are_unspent(references):
            return False
        return all(state.leaf not in slot.gone for state in references)

    def refuse_states_of(self, leaf: Leaf) -> None:
        """Reject other results of the open slot that use this leaf's states."""
        if self.slot is not None:
            self.slot.gone.add(leaf)

    def take_assembly(self, peer: NodeName, response: AssembleResponse) -> None:
        """Take the answer of the slot's sender to the current request; ignore any other."""
        if not self._is_current(peer, response.request_id):
            return
        assert self.slot is not None
        self.lost_turns.pop(peer, None)
        results = [result for result in response.results if result.intent in self.slot.unanswered]
        sizes = [planned_bytes(each.transition, each.attesters) if each.transition else 0 for each in results]
        self._note_pace(response.took_ms, sum(sizes))
        for result, size_bytes in zip(results, sizes, strict=True):
            transaction = self._answered(result.intent)
            if transaction is not None:
                transaction.handle(self._event_of(result, size_bytes, transaction))
        self._close_if_answered()

    def take_assembly_error(self, peer: NodeName, error: AssembleError) -> None:
        """Take errors for intents that the slot's sender does not assemble."""
        if not self._is_current(peer, error.request_id):
            return
        for failed in error.errors:
            transaction = self._answered(failed.intent)
            if transaction is not None:
                transaction.handle(AssembleErrorResponse(failed.code))
        self._close_if_answered()

    def close(self) -> None:
        """End the slot and its sender's turn; a late answer will have no effect."""
        if self.slot is not None and self.slot.sender in self.turns:
            self.turns.remove(self.slot.sender)
            self._pause_after(self.slot)
            self.turns.append(self.slot.sender)
        self.slot = None
        self.context.timers.cancel(self, "slot repeat")
        self.context.timers.cancel(self, "slot timeout")
        self.coordinator.something_changed()

    def _pause_after(self, slot: Slot) -> None:
        """Delay a slow sender until each of the others may have taken as long."""
        config = self.context.config
        took_ms = self.context.now_ms - slot.since_ms
        if took_ms > config.slot_ms_max and self.turns:
            due_ms = self.context.after(min(took_ms * len(self.turns), config.retry_backoff_max_ms))
            self.not_before_ms[slot.sender] = max(due_ms, self.not_before_ms.get(slot.sender, 0))
            self.look_again_at(due_ms)

    def select(self) -> None:
        """Open a slot for the next sender if none is open and all under way fits a snapshot."""
        if self.slot is not None or not self.turns or not self.coordinator.has_room_for_a_slot:
            return
        for sender in self._in_turn():
            chosen = self._choose(sender)
            if chosen:
                self._request_assembly(sender, chosen)
                return

    def _in_turn(self) -> list[NodeName]:
        """Outside `ring` mode, proven senders go before others after each slot of a stranger (`shares.py`)."""
        proven = self.context.proven.senders
        if self.context.contract.mode is Mode.RING or self.last_sender is None or self.last_sender in proven:
            return self.turns
        return sorted(self.turns, key=lambda sender: sender not in proven)

    def size_max(self, sender: NodeName) -> int:
        """Return how many intents this sender lately assembled in `slot_ms_max` and returned in one message.

        So a slow sender does not delay others for long, and large transitions do not come all at once.
        """
        return min(self.sizes.get(sender, MANY), self.context.config.assembly_slot_max)

    def _note_pace(self, took_ms: int, told_bytes: int) -> None:
        """Shorten the sender's next slot if it took or returned too much; double it if both were at most half."""
        slot, limit_ms, limit_bytes = self.slot, self.context.config.slot_ms_max, self.context.config.message_bytes_max
        assert slot is not None, "only a slot takes time"
        slot.answered_bytes += told_bytes
        if took_ms > limit_ms or slot.answered_bytes > limit_bytes:
            by_time = slot.size * limit_ms // max(limit_ms, took_ms)
            by_size = slot.size * limit_bytes // max(limit_bytes, slot.answered_bytes)
            self.sizes[slot.sender] = max(1, min(by_time, by_size))
        elif slot.sender in self.sizes and took_ms * 2 <= limit_ms and slot.answered_bytes * 2 <= limit_bytes:
            self.sizes[slot.sender] = self.size_max(slot.sender) * 2
            if self.sizes[slot.sender] >= self.context.config.assembly_slot_max:
                del self.sizes[slot.sender]

    def _choose(self, sender: NodeName) -> list[HeldIntent]:
        """Return the intents for the sender's slot; an intent that waits for others goes right behind them."""
        coordinator = self.coordinator
        is_paused = self.not_before_ms.get(sender, 0) > self.context.now_ms or coordinator.probation.is_paused(sender)
        has_turn = not is_paused and coordinator.quotas.may_assemble(sender) and not coordinator.gas.is_used_up(sender)
        if not has_turn or not coordinator.observer.is_reachable(sender):
            return []
        chosen: dict[IntentId, HeldIntent] = {}
        for _, intent in self.awaiting[sender]:
            transaction = self.coordinator.transactions[intent]
            is_free = transaction.state in UNASSEMBLED.states and transaction.not_before_ms <= self.context.now_ms
            if is_free and all(awaited in chosen for awaited in transaction.waits_for):
                chosen[intent] = transaction
                if len(chosen) == self.size_max(sender):
                    break
        return list(chosen.values())

    def _unseen_by(self, node: NodeName) -> list[Leaf]:
        """Return the leaves under way that this node was not asked to endorse."""
        transactions, placed = self.coordinator.transactions, self.coordinator.graph.placed
        under_way = ((leaf, transactions.get(each.intent)) for leaf, each in placed.items())
        return [leaf for leaf, transaction in under_way if transaction is None or node not in transaction.seen_by]

    def _request_assembly(self, sender: NodeName, chosen: list[HeldIntent]) -> None:
        request_id = self.context.next_id()
        intents = tuple(transaction.intent.id for transaction in chosen)
        self.coordinator.give_up_foreign(intents)
        bytes_max = self.context.config.message_bytes_max
        graph = self.coordinator.graph
        giving_way = self.coordinator.giving_way_to(sender, graph.placed)
        snapshot = graph.snapshot(sender, intents, self._unseen_by(sender), bytes_max, giving_way)
        request = AssembleRequest(request_id, intents, snapshot)
        self.slot = Slot(request, sender, len(intents), dict.fromkeys(intents), self.context.now_ms)
        self.last_sender = sender
        for transaction in chosen:
            transaction.handle(Selected(request_id))
        self.context.send(sender, request)
        for transaction in chosen:
            transaction.handle(AssembleRequestSent(request_id))
        config = self.context.config
        self.context.timers.set(self, "slot repeat", self.context.after(config.request_timeout_ms), SlotRepeatDue())
        self.context.timers.set(self, "slot timeout", self.context.after(config.assemble_timeout_ms), SlotTimedOut())

    def _repeat(self) -> None:
        slot = self.slot
        assert slot is not None, "a slot's timers end with it"
        self.context.send(slot.sender, slot.request)
        self.coordinator.tell_asked_again(slot.unanswered)
        self.context.timers.set(
            self, "slot repeat", self.context.after(self.context.config.request_timeout_ms), SlotRepeatDue()
        )

    def _lose_turn(self) -> None:
        """Delay a sender that did not answer, with backoff, so that it delays no other (protocol §4.2)."""
        slot = self.slot
        assert slot is not None, "a slot's timers end with it"
        lost = self.lost_turns[slot.sender] = self.lost_turns.get(slot.sender, 0) + 1
        self.sizes[slot.sender] = max(1, slot.size // 2)
        self.not_before_ms[slot.sender] = self.context.after(self.context.retry_delay_ms(lost - 1))
        self.look_again_at(self.not_before_ms[slot.sender])
        self.close()
        for intent in slot.unanswered:
            self.coordinator.transactions[intent].handle(AssembleTimeout())

    def _is_current(self, peer: NodeName, request_id: RequestId) -> bool:
        return self.slot is not None and self.slot.sender == peer and self.slot.request.request_id == request_id

    def _answered(self, intent: IntentId) -> HeldIntent | None:
        """Return the transaction of an intent of the slot that was unanswered until now, else None."""
        assert self.slot is not None
        if intent not in self.slot.unanswered:
            return None
        del self.slot.unanswered[intent]
        return self.coordinator.transactions[intent]

    def _event_of(self, result: AssemblyResult, size_bytes: int, transaction: HeldIntent) -> Event:
        """Return the event for one result of a slot; a transition that cannot join a round is an error."""
        transition = result.transition
        if result.outcome is AssemblyOutcome.REVERTED:
            return AssembleRevertResponse(result.reason)
        if result.outcome is AssemblyOutcome.PARKED:
            return AssembleParkResponse(result.reason)
        if transition is None or size_bytes > self.context.config.transition_bytes_max:
            return _ERROR
        is_planned_well = not flaw_of_attesters(self.context.contract, transaction.intent.sender, result.attesters)
        is_admitted = transition.intent == result.intent and consistent(self.context.separator, transition) is not None
        if not is_admitted or not is_planned_well:
            self.coordinator.isolate(transaction.sender)
            return _ERROR
        return AssembleSuccess(result.number, transition, size_bytes, result.attesters)

    def leave(self, transaction: HeldIntent) -> None:
        """Stop waiting for an intent that leaves while it is assembled."""
        if self.slot is not None and transaction.intent.id in self.slot.unanswered:
            del self.slot.unanswered[transaction.intent.id]
            self._close_if_answered()

    def _close_if_answered(self) -> None:
        if self.slot is not None and not self.slot.unanswered:
            self.close()


_ERROR = AssembleErrorResponse(ErrorCode.FAILED)
