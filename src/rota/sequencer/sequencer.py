"""One per contract and node: routes each event to sender, coordinator and endorser, and collects effects.

Messages to this node itself are taken at once, unless records of this contract are
being written; then they wait for the write like every other message (protocol §7, §8).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from rota.machine.context import Ids
from rota.machine.effects import Effect, ReplyToUser, SendMessage, TransitionPrepared
from rota.machine.events import (
    CancelRequested,
    ConnectionLost,
    ConnectionMade,
    IntentSubmitted,
    MessageReceived,
    ResumeRequested,
    StopRequested,
    Tick,
    VerifierLookedUp,
    VerifierWanted,
)
from rota.machine.pacing import ANSWERED_TIMES_MAX, HEARTBEATS_TIMES_MAX, Pacing
from rota.machine.tables import Event
from rota.model.blocks import LedgerOutcome
from rota.model.config import Config
from rota.model.frozen import dataclass
from rota.model.types import Contract, IntentId, KeptStates, NodeName, Outcome
from rota.sequencer import coordinator_events as coordinator_events
from rota.sequencer import sender_events as sender_events
from rota.sequencer import sender_transaction_events as sender_transaction_events
from rota.sequencer.context import Context
from rota.sequencer.coordinator import Coordinator
from rota.sequencer.endorser import Endorser
from rota.sequencer.events import (
    AssemblyFailed,
    AssemblyFinished,
    BlockIndexed,
    BlocksRemoved,
    EndorsementVerified,
    EndorsersVerified,
    FailureJudged,
    LedgerBack,
    LedgerLost,
    OutcomesFinal,
    PartiesVerified,
    PeerSpoke,
    RoundChecked,
    RoundDispatched,
    RoundDispatchFailed,
    RoundSubmitted,
    SignatureVerified,
    TransitionSigned,
    TransitionsShown,
)
from rota.sequencer.kept import Kept
from rota.sequencer.observer import Observer
from rota.sequencer.sender import Sender
from rota.sequencer.sent_intent import Restored
from rota.sequencer.startup import StartupNotices
from rota.sequencer.turns import Turns
from rota.wire.messages import (
    AssembleError,
    AssembleRequest,
    AssembleResponse,
    CoordinatorHeartbeat,
    CoordinatorState,
    DelegationAccepted,
    DelegationCommand,
    DelegationRejected,
    DispatchConfirmationError,
    DispatchConfirmationRequest,
    DispatchConfirmationResponse,
    EndorsementError,
    EndorsementRequest,
    EndorsementResponse,
    Envelope,
    HandedOver,
    HandedRound,
    Handover,
    HandoverRequest,
    ListingRequest,
    Message,
    PreparedTransaction,
    PreparedTransactionAcknowledgement,
    Startup,
    StartupAcknowledgement,
    SubmitterHeartbeat,
    TransactionDispatched,
    TransactionReverted,
    VerifierRequest,
    VerifierResponse,
)

# Above every height: the store has the whole chain.
WHOLE_CHAIN = 2**63


@dataclass(frozen=True, slots=True)
class StoredContract:
    """The stored facts about a contract: unfinished intents, dispatches without an outcome, prepared transitions.

    `rounds` are those of the dispatches.

    `indexed` are recent outcomes of the contract in the own index. For prepared transitions without an outcome
    there are those to send to their senders, and the reservations for all that this node has prepared (`kept`) and
    endorsed (`endorsed`).
    `latest_chain_time_s` is the greatest ever indexed, also in a block that is gone: until then, and
    `validity` longer, a transition endorsed before the restart may be valid.
    `final_height` is the height up to which the chain counted as final in all this.
    """

    intents: tuple[Restored, ...] = ()
    dispatched: tuple[HandedOver, ...] = ()
    rounds: tuple[HandedRound, ...] = ()
    outcomes: tuple[tuple[IntentId, Outcome], ...] = ()
    indexed: tuple[LedgerOutcome, ...] = ()
    unacknowledged: tuple[TransitionPrepared, ...] = ()
    kept: tuple[KeptStates, ...] = ()
    endorsed: tuple[KeptStates, ...] = ()
    latest_chain_time_s: int = 0
    final_height: int = WHOLE_CHAIN


class Sequencer:
    """`step(now, event) -> effects` for one contract."""

    def __init__(
        self,
        node: NodeName,
        ids: Ids,
        contract: Contract,
        config: Config,
        now_ms: int = 0,
        height: int = 0,
        chain_time_s: int = 0,
        stored: StoredContract | None = None,
    ) -> None:
        stored = stored or StoredContract()
        self.context = Context(node, ids, contract, config, now_ms, height, chain_time_s)
        self.observer = Observer(self.context)
        self.kept = Kept(stored.endorsed, stored.kept, config.prepared_hold_s, chain_time_s)
        self.turns = Turns(self.context, (*stored.endorsed, *stored.kept))
        self.coordinator = Coordinator(
            self.context, self.observer, stored.dispatched, self.kept, stored.unacknowledged, stored.rounds, self.turns
        )
        # A hand-over may name flush points that were settled before the restart.
        self.note_final_outcomes(stored.indexed)
        self.sender = Sender(self.context, self.observer, self.coordinator)
        self.endorser = Endorser(self.context, self.observer, self.kept, self.turns)
        self.startup = StartupNotices(self.context, self.observer, lambda: bool(self.sender.transactions))
        self.pacing = Pacing(self.context)
        self.lost_peers: dict[NodeName, None] = {}
        self.return_count = 0
        self.sender.latest_chain_time_s = max(chain_time_s, stored.latest_chain_time_s)
        for restored in stored.intents:
            self.sender.restore(restored, dict(stored.outcomes))

    def step(self, now_ms: int, event: Event) -> list[Effect]:
        """Handle one event at this time, with all its consequences, and return the effects."""
        context = self.context
        assert now_ms >= context.now_ms, "time does not run backwards within a node"
        context.now_ms = now_ms
        self._take(event)
        if context.posted or context.speaks_to_itself:
            self._settle()
        return context.take_effects()

    def hears_again(self, now_ms: int, peer: NodeName, envelope: Envelope) -> bool:
        """Note a message of a peer that is not silent; return False, and note nothing, if it is."""
        self.context.now_ms = now_ms
        if self.observer.is_silent(peer):
            return False
        self.observer.hear(peer, envelope)
        return True

    @property
    def is_awake(self) -> bool:
        """Whether work is under way here, so that every block matters."""
        if self.sender.transactions or self.coordinator.state is not CoordinatorState.IDLE:
            return True
        return bool(self.coordinator.issuing.open)

    @property
    def is_busy(self) -> bool:
        """Whether it cannot be paged out: work is under way, to be stored, or dispatched and without an outcome."""
        return self.is_awake or bool(self.endorser.unsent) or bool(self.coordinator.restored)

    def next_deadline_ms(self) -> int | None:
        """Return when the next `Tick` is due."""
        return self.context.timers.next_due_ms

    # Routing.

    def _take(self, event: Event) -> None:
        route = ROUTES.get(type(event))
        assert route is not None, f"the sequencer does not know {type(event).__name__}"
        route(self, event)

    def _take_sign_of_life(self, event: PeerSpoke) -> None:
        if self.observer.hear(event.peer, event.envelope):
            self.coordinator.something_changed()

    def _ledger_lost(self, event: LedgerLost) -> None:
        self.context.has_ledger = False
        self.coordinator.handle(event)

    def _ledger_back(self, _: LedgerBack) -> None:
        self.context.has_ledger = True
        self.startup.send()
        self.sender.handle(sender_events.PeerHeard(self.context.node))

    def _take_user(self, event: IntentSubmitted | ResumeRequested | CancelRequested) -> None:
        if isinstance(event, IntentSubmitted):
            self.sender.take_intent(event)
            return
        transaction = self.sender.transactions.get(event.intent)
        if transaction is None:
            error = "there is no such intent under way at this node"
            self.context.effects.append(ReplyToUser(event.reply_to, event.intent, error))
        elif isinstance(event, ResumeRequested):
            transaction.handle(sender_transaction_events.Resumed(event.reply_to))
        else:
            transaction.receiver.handle(sender_transaction_events.CancelRequested(event.reply_to))

    def _take_submitter(self, event: RoundDispatched | RoundDispatchFailed | RoundSubmitted) -> None:
        if isinstance(event, RoundDispatched):
            self.coordinator.dispatching.take_dispatched(event)
        elif isinstance(event, RoundDispatchFailed):
            self.coordinator.dispatching.take_failure(event)
        else:
            self.coordinator.dispatching.take_submitted(event)

    def _take_signature_verified(self, event: SignatureVerified) -> None:
        transaction = self.sender.transactions.get(event.intent)
        if transaction is not None:
            transaction.receiver.handle(sender_transaction_events.SignatureVerified(event.request_id, event.is_ours))

    def _take_failure_judged(self, event: FailureJudged) -> None:
        transaction = self.sender.transactions.get(event.intent)
        if transaction is not None:
            transaction.take_verdict(event)

    def _take_endorsement_verified(self, event: EndorsementVerified) -> None:
        self.coordinator.rounds.take_verified(event)
        self.coordinator.voids.take_verified(event)

    def _take_verified(self, event: EndorsersVerified) -> None:
        """Pass on a verdict on endorsers' signatures to the sender or the coordinator."""
        if event.intent is not None:
            self.sender.take_verified(event, event.intent)
        elif event.request_id in self.coordinator.claims:
            self.coordinator.take_handover_verified(event)
        else:
            self.coordinator.rounds.take_refusals_verified(event)

    def _take_message(self, peer: NodeName, envelope: Envelope) -> None:
        """Take a message; its author is the peer, whatever the payload claims."""
        if self.observer.hear(peer, envelope):
            self.coordinator.something_changed()
        body = envelope.body
        self.startup.notice(body)
        take = TRANSACTION_MESSAGES.get(type(body))
        if take is not None:
            take(self, peer, body, envelope.height)
            return
        match body:
            case DelegationCommand():
                self.observer.weigh(peer, body.tried, is_first_hand=True)
                height = self.observer.height_bound(peer, envelope.height)
                self.coordinator.handle(coordinator_events.TransactionsDelegated(peer, height, body))
            case DelegationAccepted():
                self.sender.heard(peer)
                self.sender.handle(sender_events.DelegationAnswered(peer, envelope.incarnation, body))
            case DelegationRejected():
                self.sender.handle(sender_events.DelegationRefused(peer, body))
            case CoordinatorHeartbeat():
                self._take_heartbeat(peer, body)
            case HandoverRequest():
                if self.observer.may_coordinate(peer) and self._is_due("hand-over", peer, ANSWERED_TIMES_MAX):
                    self.coordinator.handle(coordinator_events.HandoverRequestReceived(peer, body))
            case Handover():
                self.coordinator.take_handover(peer, body)
            case Startup():
                self.startup.acknowledge(peer, body)
                self.sender.handle(sender_events.PeerHeard(peer))
            case ListingRequest():
                self.coordinator.tell_whole_list(peer)
            case StartupAcknowledgement():
                self.startup.take_acknowledgement(peer, body)
            case _:
                raise AssertionError(f"the sequencer does not know {type(body).__name__}")

    def _take_endorsement_request(self, peer: NodeName, body: EndorsementRequest, height: int) -> None:
        self.observer.weigh(peer, body.tried, is_first_hand=False)
        self.endorser.take_request(peer, height, body)

    def _take_endorsement(self, peer: NodeName, body: EndorsementResponse, _: int) -> None:
        self.coordinator.rounds.take_endorsement(peer, body)
        self.coordinator.voids.take_endorsement(peer, body)

    def _take_heartbeat(self, peer: NodeName, heartbeat: CoordinatorHeartbeat) -> None:
        """Take a heartbeat; one from a stranger, an old or a repeated one has no effect."""
        if not self.context.has_part and not self.sender.transactions:
            # This node has no part there: heartbeats of strangers in their own contracts must not fill its memory.
            return
        if not self.observer.may_coordinate(peer) or not self.observer.hear_heartbeat(peer, heartbeat):
            return
        config = self.context.config
        times_max = HEARTBEATS_TIMES_MAX + 2 * config.request_timeout_ms // config.heartbeat_ms
        if not self._is_due("heartbeat", peer, times_max):
            # The observer has the latest; sender and coordinator, which go through all intents, act on the next one.
            return
        self.sender.heard(peer)
        if peer != self.context.node:
            self.coordinator.handle(coordinator_events.HeartbeatReceived(peer, heartbeat))
        self.sender.handle(sender_events.HeartbeatReceived(peer, heartbeat))

    def _is_due(self, what: str, peer: NodeName, times_max: int) -> bool:
        """Limit the rate at which a peer makes this node go through all its intents; the node itself is not limited."""
        interval_ms = self.context.config.request_timeout_ms
        return peer == self.context.node or self.pacing.is_due((what, peer), interval_ms, times_max)

    def _connection_lost(self, peer: NodeName) -> None:
        self.lost_peers[peer] = None
        self.observer.connection_changed(peer, connected=False)
        self.coordinator.handle(coordinator_events.PeerLost(peer))
        self.sender.handle(sender_events.PeerLost(peer))

    def _connection_made(self, peer: NodeName) -> None:
        """After a reconnection with nothing in flight, answer the next activity with Startup (§4.4)."""
        self.lost_peers.pop(peer, None)
        self.observer.connection_changed(peer, connected=True)
        self.coordinator.something_changed()
        if not self.sender.transactions and not self.coordinator.transactions:
            self.startup.arm()
        self.startup.repeat_to(peer)
        self.sender.handle(sender_events.PeerHeard(peer))

    def _block_indexed(self, event: BlockIndexed) -> None:
        """Take the outcomes first, then act on the new height."""
        range_before = self.context.block_range
        self.context.height, self.context.chain_time_s = event.height, event.chain_time_s
        self.kept.chain_time_s = event.chain_time_s
        self.coordinator.rounds.gathering.note_block()
        if event.outcomes:
            self.startup.notice(None)
        for outcome in event.outcomes:
            self.sender.take_outcome(outcome)
            self.kept.take_outcome(outcome)
            if self.turns.turns:
                self.turns.take_outcome(outcome)
            is_ours = self.sender.has_signed(outcome) or self.coordinator.has_dispatched(outcome)
            self.endorser.take_outcome(outcome, is_ours)
            self.coordinator.take_outcome(outcome)
        if event.outcomes:
            self.sender.assembly.states_arrived()
        changed = self.context.block_range != range_before
        self.coordinator.handle(coordinator_events.NewBlock(changed))
        self.sender.handle(sender_events.NewBlock(changed))
        self.sender.block_indexed()

    def note_final_outcomes(self, outcomes: tuple[LedgerOutcome, ...]) -> None:
        """Note outcomes of final earlier blocks; nothing here waits for them."""
        for outcome in outcomes:
            self.coordinator.outcomes.note(outcome)
            self.coordinator.outcomes.note_final(outcome)

    def _outcomes_final(self, event: OutcomesFinal) -> None:
        """Note that the outcomes in these blocks are final."""
        for outcome in event.outcomes:
            self.coordinator.outcomes.note_final(outcome)
            self.sender.outcome_final(outcome)
            self.kept.outcome_final(outcome)
            if self.turns.turns:
                self.turns.outcome_final(outcome)
        self.sender.time_is_final(event.chain_time_s)
        self.coordinator.issuing.time_is_final(event.chain_time_s)
        self.kept.time_is_final(event.chain_time_s)
        self.turns.time_is_final(event.chain_time_s)

    def _blocks_removed(self, event: BlocksRemoved) -> None:
        self.context.height = event.height
        for outcome in event.outcomes:
            self.sender.undo_outcome(outcome)
            self.kept.undo_outcome(outcome)
            self.coordinator.undo_outcome(outcome)

    def _run_timers(self) -> None:
        """Run due timers, each with all its consequences before the next one."""
        while (due := self.context.timers.pop_due(self.context.now_ms)) is not None:
            due.machine.handle(due.event)
            self._settle()

    def _settle(self) -> None:
        """Handle posted events, then messages to the node itself, until none is left."""
        context = self.context
        while True:
            while context.posted:
                machine, event = context.posted.popleft()
                machine.handle(event)
            if not context.speaks_to_itself:
                return
            context.speaks_to_itself = False
            effects, node = context.effects, context.node
            to_ourselves = [each.envelope for each in effects if isinstance(each, SendMessage) and each.peer == node]
            context.effects = [each for each in effects if not isinstance(each, SendMessage) or each.peer != node]
            for envelope in to_ourselves:
                self._take_message(node, envelope)


# The handler of an event, by its type; from `AssemblyFinished` on, answers of the domain, the signer and the key store.
ROUTES: Final[Mapping[type[Event], Callable[[Sequencer, Any], object]]] = {
    MessageReceived: lambda self, event: self._take_message(event.peer, event.envelope),
    BlockIndexed: Sequencer._block_indexed,
    OutcomesFinal: Sequencer._outcomes_final,
    BlocksRemoved: Sequencer._blocks_removed,
    Tick: lambda self, _: self._run_timers(),
    PeerSpoke: Sequencer._take_sign_of_life,
    ConnectionLost: lambda self, event: self._connection_lost(event.peer),
    ConnectionMade: lambda self, event: self._connection_made(event.peer),
    LedgerLost: Sequencer._ledger_lost,
    LedgerBack: Sequencer._ledger_back,
    StopRequested: lambda self, event: self.coordinator.handle(event),
    IntentSubmitted: Sequencer._take_user,
    ResumeRequested: Sequencer._take_user,
    CancelRequested: Sequencer._take_user,
    RoundDispatched: Sequencer._take_submitter,
    RoundDispatchFailed: Sequencer._take_submitter,
    RoundSubmitted: Sequencer._take_submitter,
    TransitionsShown: lambda self, event: self.sender.take_shown(event.peer, event.transitions),
    AssemblyFinished: lambda self, event: self.sender.assembly.take_finished(event),
    AssemblyFailed: lambda self, event: self.sender.assembly.take_failed(event),
    TransitionSigned: lambda self, event: self.sender.assembly.take_signed(event),
    SignatureVerified: Sequencer._take_signature_verified,
    FailureJudged: Sequencer._take_failure_judged,
    RoundChecked: lambda self, event: self.endorser.take_checked(event),
    EndorsementVerified: Sequencer._take_endorsement_verified,
    PartiesVerified: lambda self, event: self.coordinator.signers.take_verified(event),
    EndorsersVerified: Sequencer._take_verified,
    VerifierLookedUp: lambda self, event: self.sender.parties.answer(event),
    VerifierWanted: lambda self, event: self.sender.parties.want(event.party, asks_announced=event.asks_announced),
}

# The handler of a message about single transactions, by its type; other messages concern coordinators.
TRANSACTION_MESSAGES: Final[Mapping[type[Message], Callable[[Sequencer, NodeName, Any, int], None]]] = {
    VerifierRequest: lambda self, peer, body, _: self.sender.parties.take_request(peer, body),
    VerifierResponse: lambda self, peer, body, _: self.sender.parties.take_response(peer, body),
    AssembleRequest: lambda self, peer, body, height: self.sender.assembly.take_request(peer, height, body),
    AssembleResponse: lambda self, peer, body, _: self.coordinator.slots.take_assembly(peer, body),
    AssembleError: lambda self, peer, body, _: self.coordinator.slots.take_assembly_error(peer, body),
    EndorsementRequest: Sequencer._take_endorsement_request,
    EndorsementResponse: Sequencer._take_endorsement,
    EndorsementError: lambda self, peer, body, _: self.coordinator.rounds.take_endorsement_error(peer, body),
    DispatchConfirmationRequest: lambda self, peer, body, _: self.sender.take_permission_request(peer, body),
    DispatchConfirmationResponse: lambda self, peer, body, _: self.coordinator.permissions.take(peer, body),
    DispatchConfirmationError: lambda self, peer, body, _: self.coordinator.permissions.take_error(peer, body),
    TransactionDispatched: lambda self, peer, body, _: self.sender.take_dispatched(peer, body.intents),
    SubmitterHeartbeat: lambda self, peer, body, _: self.sender.take_dispatched(peer, body.intents),
    TransactionReverted: lambda self, peer, body, _: self.sender.take_reverted(peer, body),
    PreparedTransaction: lambda self, peer, body, _: self.sender.take_prepared(peer, body),
    PreparedTransactionAcknowledgement: lambda self, peer, body, _: self.coordinator.issuing.take_acknowledgement(
        peer, body
    ),
}
