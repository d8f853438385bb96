"""Start reading here: the pure machine of a whole node.

`step(now, event) -> effects`. The node owns one sequencer per contract, the submitter, and what its
users' intents have in common: idempotency keys and dependencies across contracts. It hands each event to
whom it concerns, keeps what sequencers ask of the submitter inside, and passes the rest on as effects.
Its first effect makes its new incarnation durable: nothing it says can be mistaken for an earlier life's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from heapq import heappop, heappush

from rota.config import Config
from rota.core.distribution import Delivery, Distribution, is_true, states_with_bytes
from rota.core.effects import (
    DispatchRound,
    Effect,
    IntentAccepted,
    NodeStarted,
    Persist,
    Record,
    ReplyToUser,
    ReportReceipt,
    RoundDispatch,
    SendMessage,
    StatesAcknowledged,
    StatesReceived,
    SubmitTransaction,
)
from rota.core.events import (
    BlockIndexed,
    BlocksRemoved,
    ChainBlockIndexed,
    ChainBlocksRemoved,
    ChainOutcomesFinal,
    ConnectionLost,
    ConnectionMade,
    ForContract,
    IntentSubmitted,
    LedgerBack,
    LedgerLost,
    LedgerOutcome,
    MessageReceived,
    OutcomesFinal,
    Persisted,
    PersistFailed,
    RoundDispatched,
    RoundDispatchFailed,
    RoundSubmitted,
    Tick,
    TransactionSent,
)
from rota.core.explanation import Explanation, explain_at_coordinator, explain_at_sender
from rota.core.machine import Event
from rota.core.sequencer import Sequencer, StoredContract
from rota.core.submitter import Submitter
from rota.messages import (
    Envelope,
    HandedOver,
    Message,
    StateDistribution,
    StateDistributionAcknowledgement,
    SubmitterHeartbeat,
)
from rota.types import (
    Contract,
    ContractAddress,
    Digest,
    FlushPoint,
    HeartbeatNumber,
    Intent,
    IntentId,
    NodeName,
    Outcome,
    Receipt,
)

SUBMITTER = ContractAddress("")

Outcomes = tuple[tuple[ContractAddress, LedgerOutcome], ...]


@dataclass(frozen=True, slots=True)
class StoredNode:
    """What the store remembers of a node across a restart."""

    incarnation: int = 0
    contracts: Mapping[ContractAddress, StoredContract] = field(default_factory=dict)
    dispatches: tuple[RoundDispatch, ...] = ()
    undelivered: tuple[Delivery, ...] = ()
    next_nonce: int = 0
    outcomes: Mapping[IntentId, Outcome] = field(default_factory=dict)
    keys: Mapping[str, IntentId] = field(default_factory=dict)
    height: int = 0
    chain_time_s: int = 0
    latest_chain_time_s: int = 0


class Node:
    """One running node. It is given everything; it looks up nothing."""

    def __init__(
        self, name: NodeName, contracts: tuple[Contract, ...], config: Config, now_ms: int, stored: StoredNode
    ) -> None:
        self.name = name
        self.config = config
        self.incarnation = stored.incarnation + 1
        self.now_ms = now_ms
        self.height = stored.height
        self.has_ledger = True
        self.outcomes = dict(stored.outcomes)
        self.keys = dict(stored.keys)
        self.unwritten: dict[IntentId, str] = {}
        self.receiving: dict[tuple[ContractAddress, Digest], NodeName] = {}
        self.submitter = Submitter(name, config, stored.dispatches, stored.next_nonce)
        self.distribution = Distribution(name, config, now_ms, stored.undelivered)
        self.heartbeat_count = 0
        self.next_heartbeat_ms: int | None = None
        self.token = 0
        self.writes: dict[int, tuple[ContractAddress, int, tuple[Record, ...]]] = {}
        self.effects: list[Effect] = []
        self.chain_time_s = self.final_time_s = stored.chain_time_s
        self.awake: dict[ContractAddress, None] = {}
        self.deadlines: dict[ContractAddress, int] = {}
        self.deadline_heap: list[tuple[int, ContractAddress]] = []
        self.dependents: dict[IntentId, dict[ContractAddress, None]] = {}
        self.sequencers = {
            contract.address: Sequencer(
                name,
                self.incarnation,
                contract,
                config,
                now_ms,
                stored.height,
                stored.chain_time_s,
                _with_dispatches(stored, contract.address),
            )
            for contract in contracts
        }

    def start(self) -> list[Effect]:
        """Begin a new life: its number first, then what the last one left to be done."""
        self._persist(SUBMITTER, 0, (NodeStarted(self.incarnation),))
        for submission in self.submitter.submissions.values():
            self.effects.append(SubmitTransaction(submission.dispatch))
            self._start_heartbeats()
        for contract, sequencer in self.sequencers.items():
            for open_ in sequencer.sender.transactions.values():
                self._note_dependencies(contract, open_.intent)
            self._tell(contract, Tick())
        return self._take_effects()

    def step(self, now_ms: int, event: Event) -> list[Effect]:
        """Be told one event at this time."""
        self.now_ms = now_ms
        match event:
            case ForContract(contract, inner):
                self._take_for_contract(contract, inner)
            case MessageReceived(peer, Envelope(contract, body=StateDistribution() as body)):
                self._take_states(peer, contract, body)
            case MessageReceived(peer, Envelope(contract, body=StateDistributionAcknowledgement(digest))):
                if self.distribution.is_open(peer, digest):
                    self._persist(contract, 0, (StatesAcknowledged(digest, peer),))
            case MessageReceived(_, envelope):
                self._tell(envelope.contract, event)
            case Persisted(token) | PersistFailed(token):
                self._take_written(token, event)
            case ChainBlockIndexed():
                self._take_block(event)
            case ChainBlocksRemoved(height, outcomes):
                self._take_removed(height, outcomes)
            case ChainOutcomesFinal(chain_time_s, outcomes):
                self._take_final(chain_time_s, outcomes)
            case TransactionSent(nonce):
                submission = self.submitter.sent(now_ms, nonce)
                if submission is not None:
                    order = submission.dispatch.round
                    self._tell(order.contract, RoundSubmitted(order.digest, submission.submission_count))
            case _:
                self._take_for_all(event)
        return self._take_effects()

    def next_deadline_ms(self) -> int | None:
        """When the next `Tick` is due."""
        first = self._first_deadline()
        deadlines = (first and first[0], self.next_heartbeat_ms, self.distribution.next_due_ms())
        return min((due_ms for due_ms in deadlines if due_ms is not None), default=None)

    def explain(self, intent: IntentId) -> Explanation:
        """Where an intent is, what it waits for and who is in the way: the coordinator's word, if it is here."""
        for sequencer in self.sequencers.values():
            held = sequencer.coordinator.transactions.get(intent)
            found = explain_at_sender(sequencer, intent)
            if held is not None and not held.is_gone:
                found = explain_at_coordinator(sequencer, intent)
            if found is not None:
                return found
        outcome = self.outcomes.get(intent)
        return Explanation(outcome.value if outcome is not None else "unknown")

    # Events.

    def _take_for_contract(self, contract: ContractAddress, event: Event) -> None:
        if isinstance(event, IntentSubmitted):
            self._take_intent(contract, event)
        else:
            self._tell(contract, event)

    def _take_intent(self, contract: ContractAddress, event: IntentSubmitted) -> None:
        """A repeated idempotency key gets the existing id; what cannot be accepted is refused before it gets one."""
        intent = event.intent
        known = self.keys.get(intent.idempotency_key)
        if known is not None:
            is_durable = known not in self.unwritten
            error = "" if is_durable else "idempotencyKey: an intent with this key is being accepted; try again"
            self.effects.append(ReplyToUser(event.reply_to, known, error))
            return
        error = self._flaw_of(contract, event)
        if error:
            self.effects.append(ReplyToUser(event.reply_to, intent.id, error))
            return
        if intent.idempotency_key:
            self.keys[intent.idempotency_key] = intent.id
            self.unwritten[intent.id] = intent.idempotency_key
        settled = tuple((other, self.outcomes[other]) for other in intent.depends_on if other in self.outcomes)
        self._tell(contract, IntentSubmitted(event.reply_to, intent, settled))

    def _flaw_of(self, contract: ContractAddress, event: IntentSubmitted) -> str:
        if contract not in self.sequencers:
            return f"contract: {contract} is not known to {self.name}"
        if not event.intent.sender.endswith(f"@{self.name}"):
            return f"from: {event.intent.sender} is not a party of {self.name}"
        for other in event.intent.depends_on:
            is_open = any(other in sequencer.sender.transactions for sequencer in self.sequencers.values())
            if not is_open and other not in self.outcomes:
                return f"dependsOn: {other.hex()} is not an intent of {self.name}"
        return ""

    def _take_written(self, token: int, event: Persisted | PersistFailed) -> None:
        contract, inner, records = self.writes.pop(token)
        succeeded = isinstance(event, Persisted)
        assert succeeded or not isinstance(records[0], NodeStarted), "a node without an incarnation must not run"
        for record in records:
            key = self.unwritten.pop(record.intent.id, None) if isinstance(record, IntentAccepted) else None
            if key is not None and not succeeded:
                del self.keys[key]
        match records[0]:
            case RoundDispatch():
                self._take_dispatch_written(succeeded)
            case StatesReceived(digest, transitions):
                peer = self.receiving.pop((contract, digest))
                if succeeded:
                    self.distribution.note_received(contract, transitions)
                    self._send(peer, contract, StateDistributionAcknowledgement(digest))
            case StatesAcknowledged(digest, peer):
                if succeeded:
                    self.distribution.acknowledged(peer, digest)
            case NodeStarted():
                pass
            case _:
                self._tell(contract, Persisted(inner) if succeeded else PersistFailed(inner, ""))
                self._tell_dependencies(records)

    def _take_states(self, peer: NodeName, contract: ContractAddress, body: StateDistribution) -> None:
        """Private states for us: checked against their leaves, durable first, then acknowledged; copies too."""
        sequencer = self.sequencers.get(contract)
        has_states = bool(states_with_bytes(body.transitions))
        if sequencer is None or not has_states or (contract, body.digest) in self.receiving:
            return
        if self.distribution.is_received(contract, body.transitions):
            self._send(peer, contract, StateDistributionAcknowledgement(body.digest))
        elif all(is_true(sequencer.context.separator, self.name, transition) for transition in body.transitions):
            self.receiving[(contract, body.digest)] = peer
            self._persist(contract, 0, (StatesReceived(body.digest, body.transitions),))

    def _deliver_states(self) -> None:
        for delivery in self.distribution.take_due(self.now_ms):
            body = StateDistribution(delivery.digest, delivery.transitions)
            self._send(delivery.peer, delivery.contract, body)

    def _take_dispatch_written(self, succeeded: bool) -> None:
        if succeeded:
            dispatch = self.submitter.written()
            self._start_heartbeats()
            self.distribution.take(self.now_ms, dispatch.round)
            self._deliver_states()
            self.effects.append(SubmitTransaction(dispatch))
            order = dispatch.round
            self._tell(order.contract, RoundDispatched(order.digest, dispatch.signer, dispatch.nonce))
        else:
            order = self.submitter.not_written().round
            self._tell(order.contract, RoundDispatchFailed(order.digest, "the dispatch was not written"))
        self._write_next_dispatch()

    def _take_block(self, event: ChainBlockIndexed) -> None:
        """Who is awake hears of the height, and whom it concerns of its outcomes; the others when they wake."""
        self.height, self.chain_time_s = event.height, event.chain_time_s
        for contract, outcome in event.outcomes:
            self.submitter.settle(contract, outcome)
        for contract in self._concerned(event.outcomes):
            own = _of(contract, event.outcomes)
            self._step(contract, BlockIndexed(event.height, event.chain_time_s, own))

    def _take_removed(self, height: int, outcomes: Outcomes) -> None:
        """A reorganisation: the height falls, and the submitter sends again what is gone."""
        self.height = height
        for contract, outcome in outcomes:
            self.submitter.undo(contract, outcome)
        for contract in self._concerned(outcomes):
            self._step(contract, BlocksRemoved(height, _of(contract, outcomes)))

    def _take_final(self, chain_time_s: int, outcomes: Outcomes) -> None:
        """A block is as deep as it must be: nothing in it is undone any more."""
        self.final_time_s = chain_time_s
        for contract, outcome in outcomes:
            self.submitter.finalise(contract, outcome)
        for contract in self._concerned(outcomes):
            self._step(contract, OutcomesFinal(chain_time_s, _of(contract, outcomes)))

    def _concerned(self, outcomes: Outcomes) -> tuple[ContractAddress, ...]:
        """Who is awake, and whose outcomes these are."""
        return tuple(dict.fromkeys((*self.awake, *(address for address, _ in outcomes))))

    def _take_for_all(self, event: Event) -> None:
        """Connections, the ledger, time: they concern every contract."""
        if isinstance(event, LedgerLost | LedgerBack):
            self.has_ledger = isinstance(event, LedgerBack)
        if isinstance(event, ConnectionLost | ConnectionMade):
            self.distribution.connection_changed(self.now_ms, event.peer, isinstance(event, ConnectionMade))
            self._deliver_states()
        if isinstance(event, Tick):
            self._run_timers()
            return
        for contract in tuple(self.sequencers):
            self._tell(contract, event)

    def _run_timers(self) -> None:
        """Only those whose time has come are told: an idle contract costs nothing."""
        if self.next_heartbeat_ms is not None and self.next_heartbeat_ms <= self.now_ms:
            self._send_heartbeats()
        self._deliver_states()
        while (first := self._first_deadline()) is not None and first[0] <= self.now_ms:
            del self.deadlines[first[1]]
            self._tell(first[1], Tick())

    def _first_deadline(self) -> tuple[int, ContractAddress] | None:
        heap = self.deadline_heap
        while heap and self.deadlines.get(heap[0][1]) != heap[0][0]:
            heappop(heap)
        return heap[0] if heap else None

    # Effects.

    def _tell(self, contract: ContractAddress, event: Event) -> None:
        """Tell a sequencer, if we have that contract; one that slept first hears where the chain stands."""
        sequencer = self.sequencers.get(contract)
        if sequencer is not None:
            standing = (self.height, self.chain_time_s)
            if (sequencer.context.height, sequencer.context.chain_time_s) != standing:
                self._step(contract, BlockIndexed(*standing))
            if sequencer.sender.final_time_s != self.final_time_s:
                self._step(contract, OutcomesFinal(self.final_time_s, ()))
            self._step(contract, event)

    def _step(self, contract: ContractAddress, event: Event) -> None:
        """One step of a sequencer."""
        sequencer = self.sequencers.get(contract)
        if sequencer is not None:
            self._perform(contract, sequencer.step(self.now_ms, event))
            self._note_wakefulness(contract, sequencer)

    def _note_wakefulness(self, contract: ContractAddress, sequencer: Sequencer) -> None:
        """Who has something under way is told of every block; everybody when its next timer is due."""
        if sequencer.is_awake:
            self.awake[contract] = None
        else:
            self.awake.pop(contract, None)
        due_ms = sequencer.next_deadline_ms()
        if due_ms is None:
            self.deadlines.pop(contract, None)
        elif self.deadlines.get(contract) != due_ms:
            self.deadlines[contract] = due_ms
            heappush(self.deadline_heap, (due_ms, contract))

    def _perform(self, contract: ContractAddress, effects: list[Effect]) -> None:
        """What a sequencer asks of the submitter stays inside; the rest is passed on."""
        for effect in effects:
            match effect:
                case DispatchRound():
                    self.submitter.take(effect)
                    self._write_next_dispatch()
                case Persist(_, inner, records):
                    self._persist(contract, inner, records)
                case ReportReceipt(receipt):
                    self.effects.append(effect)
                    self._note_outcome(receipt)
                case _:
                    self.effects.append(effect)

    def _note_outcome(self, receipt: Receipt) -> None:
        """Who depends on it, in whatever contract, goes on or ends."""
        self.outcomes[receipt.intent] = receipt.outcome
        self._tell_dependents(receipt.intent, receipt.outcome)

    def _note_dependencies(self, contract: ContractAddress, intent: Intent) -> None:
        for other in intent.depends_on:
            self.dependents.setdefault(other, {})[contract] = None

    def _tell_dependents(self, intent: IntentId, outcome: Outcome) -> None:
        for contract in self.dependents.pop(intent, {}):
            self.sequencers[contract].sender.dependency_ended(intent, outcome)
            self._tell(contract, Tick())

    def _tell_dependencies(self, records: tuple[Record, ...]) -> None:
        """What a new intent depends on may have ended while the intent was being written."""
        for intent in (record.intent for record in records if isinstance(record, IntentAccepted)):
            self._note_dependencies(intent.contract, intent)
            for other in intent.depends_on:
                if other in self.outcomes:
                    self._tell_dependents(other, self.outcomes[other])

    def _persist(self, contract: ContractAddress, inner: int, records: tuple[Record, ...]) -> None:
        self.token += 1
        self.writes[self.token] = (contract, inner, records)
        self.effects.append(Persist(contract, self.token, records))

    def _write_next_dispatch(self) -> None:
        dispatch = self.submitter.next_to_write()
        if dispatch is not None:
            self._persist(SUBMITTER, 1, (dispatch,))

    def _start_heartbeats(self) -> None:
        if self.next_heartbeat_ms is None:
            self.next_heartbeat_ms = self.now_ms + self.config.heartbeat_ms

    def _send_heartbeats(self) -> None:
        """Each sender hears of its dispatched intents; without a ledger nothing is listed (protocol §4.1)."""
        self.next_heartbeat_ms = None
        if not self.submitter.submissions:
            return
        self._start_heartbeats()
        if not self.has_ledger:
            return
        self.effects.extend(SubmitTransaction(dispatch) for dispatch in self.submitter.unanswered(self.now_ms))
        self.heartbeat_count += 1
        number = HeartbeatNumber(self.incarnation, self.heartbeat_count)
        for (contract, sender), intents in self.submitter.listed(self.now_ms).items():
            self._send(sender, contract, SubmitterHeartbeat(number, tuple(intents)))

    def _send(self, peer: NodeName, contract: ContractAddress, body: Message) -> None:
        """To a peer, or to ourselves without a wire; for a contract that we have."""
        sequencer = self.sequencers.get(contract)
        if sequencer is None:
            return
        envelope = Envelope(
            contract, sequencer.context.next_id(), self.incarnation, self.height, body, not self.has_ledger
        )
        if peer == self.name:
            self._tell(contract, MessageReceived(peer, envelope))
        else:
            self.effects.append(SendMessage(peer, envelope))

    def _take_effects(self) -> list[Effect]:
        effects, self.effects = self.effects, []
        return _with_receipts_before_writes(effects)


def _with_receipts_before_writes(effects: list[Effect]) -> list[Effect]:
    """A receipt rests on what is durable already and is told once: no write that fails may take it away."""
    first = next((place for place, effect in enumerate(effects) if isinstance(effect, Persist)), len(effects))
    receipts = [effect for effect in effects[first:] if isinstance(effect, ReportReceipt)]
    others = [effect for effect in effects[first:] if not isinstance(effect, ReportReceipt)]
    return [*effects[:first], *receipts, *others]


def _of(contract: ContractAddress, outcomes: Outcomes) -> tuple[LedgerOutcome, ...]:
    return tuple(outcome for address, outcome in outcomes if address == contract)


def _with_dispatches(stored: StoredNode, address: ContractAddress) -> StoredContract:
    """A contract's part of the store, with the node's own dispatches of it that have no outcome."""
    contract = stored.contracts.get(address, StoredContract())
    dispatched = tuple(
        HandedOver(
            FlushPoint(dispatch.round.digest, transition.intent), transition.leaf, transition.inputs, transition.outputs
        )
        for dispatch in stored.dispatches
        if dispatch.round.contract == address
        for transition in dispatch.round.transitions
    )
    outcomes = tuple(stored.outcomes.items())
    return StoredContract(contract.intents, dispatched, outcomes, stored.latest_chain_time_s)
