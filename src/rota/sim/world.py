"""Several nodes of the real core on one virtual clock, with a network, disks and a ledger that can be hurt.

The world performs what the core orders and tells it what happened, as a runtime would: the effects of a
step with records leave when the write is done; a killed node loses everything but its disk; a cut
connection is noticed when pings stay unanswered. Nothing here decides anything about sequencing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from heapq import heappop, heappush
from typing import TypeVar

from rota.config import Config
from rota.core.distribution import order_of
from rota.core.effects import (
    AssembleIntents,
    BlocksIndexed,
    CheckRound,
    Effect,
    FetchBlocks,
    FindStates,
    LoadContract,
    LookUpIntents,
    NodeStarted,
    PermissionGranted,
    Persist,
    ReplyToUser,
    ReportPrepared,
    ReportReceipt,
    RoundDispatch,
    SendMessage,
    SubmitTransaction,
    TransitionPrepared,
)
from rota.core.events import (
    AssemblyFinished,
    CancelRequested,
    ConnectionLost,
    ConnectionMade,
    ForContract,
    IntentSubmitted,
    LedgerStatus,
    MessageReceived,
    Persisted,
    PersistFailed,
    ResumeRequested,
    RoundChecked,
    StatesFound,
    StopRequested,
    Tick,
)
from rota.core.events.chain import BlocksFetched, ChainBlock, HeadSeen, Outcomes, TransactionSent
from rota.core.events.store import ContractLoaded, ContractMissing
from rota.core.machine import Event
from rota.core.node import Node
from rota.messages import (
    PROTOCOL_VERSION,
    CoordinatorHeartbeat,
    CoordinatorState,
    EndorsementResponse,
    Envelope,
    HandoverReason,
    HandoverRequest,
    Message,
)
from rota.sim.disk import Disk, Fate
from rota.sim.facts import (
    Assembled,
    Committed,
    Endorsed,
    HeartbeatSeen,
    Promised,
    Recorded,
    Reorganised,
    Reported,
    Request,
    Started,
    Stopped,
    Submitted,
    Undone,
)
from rota.sim.forgery import Forgery
from rota.sim.invariants import EVERY, Judge, Terms
from rota.sim.ledger import GENESIS_TIME_S, Ledger
from rota.sim.observation import queues_of, remembered_by
from rota.sim.services import Services, sign, verify
from rota.sim.sim_node import SimNode, Written
from rota.sim.weather import HoldRule, MessageRule, Weather
from rota.types import (
    Contract,
    ContractAddress,
    HeartbeatNumber,
    IntentId,
    Leaf,
    NodeName,
    Receipt,
    RequestId,
    State,
    StateId,
    Transition,
)

__all__ = ["Recorder", "SimNode", "World", "sign"]

Rule = TypeVar("Rule", bound=MessageRule)

# What a forger says lies above all that was said before.
FORGED_NUMBER = 1_000_000
COPY_DELAY_MS = 30
# How often a node asks where the chain stands, whether or not it hears of a new block.
POLL_MS = 1_000
BASE_FEE_WEI = 1_000_000_000
# Queues are measured once in so many steps of a node.
STEPS_BETWEEN_MEASUREMENTS = 64

REQUESTS: dict[type[Event], Request] = {
    IntentSubmitted: Request.SUBMIT,
    CancelRequested: Request.CANCEL,
    ResumeRequested: Request.RESUME,
}


class Recorder:
    """Hears of everything that happens; the transcript is one."""

    def sent(self, world: World, source: NodeName, target: NodeName, envelope: Envelope, fate: str) -> None:
        """A message left a node; its fate is `delivered`, `lost`, `held`, `twice`, or how it lies."""

    def stepped(self, world: World, node: SimNode) -> None:
        """A node was told something."""

    def noted(self, world: World, text: str) -> None:
        """Something else happened."""


class World:
    """The clock, and everything on it."""

    def __init__(
        self,
        names: tuple[NodeName, ...],
        contracts: tuple[Contract, ...],
        config: Config,
        recorder: Recorder | None = None,
        latency_ms: int = 50,
        block_ms: int = 200,
        disk_ms: int = 1,
        weather: Weather | None = None,
        contracts_of: dict[NodeName, tuple[Contract, ...]] | None = None,
        service_ms: int = 0,
    ) -> None:
        self.contracts = contracts
        self.contracts_of = dict.fromkeys(names, contracts) if contracts_of is None else contracts_of
        self.config = config
        self.recorder = recorder or Recorder()
        self.latency_ms = latency_ms
        self.block_ms = block_ms
        self.disk_ms = disk_ms
        self.service_ms = service_ms
        self.weather = weather or Weather()
        self.now_ms = 0
        self.payloads: dict[IntentId, bytes] = {}
        self.ledger = Ledger(contracts, self.payloads)
        self.nodes = {name: SimNode(name, config) for name in names}
        by_address = {contract.address: contract for contract in contracts}
        self.services = Services(by_address, self.payloads)
        self.judge = Judge(Terms(names, by_address, config.confirmations, verify), EVERY)
        self.requests: dict[str, Request] = {}
        self.cut: set[tuple[NodeName, NodeName]] = set()
        self.down: set[tuple[NodeName, NodeName]] = set()
        self.holds: list[HoldRule] = []
        self.duplicates: list[MessageRule] = []
        self.forgeries: list[Forgery] = []
        self.forged_count = 0
        self.is_mining = True
        self.mining_due = False
        self.chain_ahead_s = 0
        self.highest = 0
        self.receipts: dict[IntentId, list[Receipt]] = {}
        self.replies: dict[str, list[ReplyToUser]] = {}
        self.submitted: dict[IntentId, NodeName] = {}
        self.assemblies: dict[IntentId, int] = {}
        self.permissions: list[PermissionGranted] = []
        self.dispatches: list[RoundDispatch] = []
        self.transitions: dict[Leaf, Transition] = {}
        self.prepared: dict[IntentId, ReportPrepared] = {}
        self.on_prepared: Callable[[IntentId], None] = lambda _: None
        self.message_count = 0
        self.signature_count = 0
        self.coordinator_changes = 0
        self._active: dict[ContractAddress, NodeName] = {}
        self.event_count = 0
        self._schedule: list[tuple[int, int, Callable[[], None]]] = []
        self._order = 0

    # Time.

    def at(self, due_ms: int, action: Callable[[], None]) -> None:
        """Do something at a time."""
        self._order += 1
        heappush(self._schedule, (due_ms, self._order, action))

    def run_until(self, end_ms: int, is_done: Callable[[], bool] = lambda: False) -> bool:
        """Let time pass until the end or until it is done."""
        schedule = self._schedule
        while not is_done():
            if not schedule or schedule[0][0] > end_ms:
                self.now_ms = end_ms
                return is_done()
            self.now_ms, _, action = heappop(schedule)
            action()
        return True

    @property
    def chain_time_s(self) -> int:
        """The chain's clock."""
        return GENESIS_TIME_S + self.now_ms // 1000 + self.chain_ahead_s

    # Nodes.

    def start(self, name: NodeName) -> None:
        """Start a node from its disk."""
        node = self.nodes[name]
        assert node.core is None, f"{name} is running"
        if node.disk.is_failing:
            self.recorder.noted(self, f"{name} cannot start: its disk is failing")
            return
        node.life += 1
        stored = node.disk.restore(name, self.contracts_of[name], node.config.confirmations)
        node.core = Node(name, self.contracts_of[name], node.config, node.clock.read(self.now_ms), stored)
        node.is_hung, node.is_stopping, node.is_writing, node.effects_to_live = False, False, False, None
        node.outbox.clear()
        node.inbox.clear()
        node.unanswered.clear()
        node.tick_at_ms = None
        self.judge.tell(Started(name, remembered_by(node.core)))
        self._perform(node, node.core.start())
        for other in self.nodes.values():
            if other.name != name and other.core is not None:
                self._connect(name, other.name)
        self._poll(node, node.life)

    def crash(self, name: NodeName) -> None:
        """Kill a node: its memory is gone, and its peers' connections break at once."""
        node = self.nodes[name]
        node.core = None
        node.life += 1
        node.effects_to_live = None
        self.judge.tell(Stopped(name))
        for other in self.nodes.values():
            if other.name != name:
                self.down.add((other.name, name))
                self._tell(other, ConnectionLost(name))

    def crash_after(self, name: NodeName, effect_count: int) -> None:
        """Kill a node between two effects of a step: when it has performed so many more, writes among them."""
        self.nodes[name].effects_to_live = effect_count

    def hang(self, name: NodeName, is_hung: bool) -> None:
        """A hung node keeps its memory and its connections, and does nothing until it goes on."""
        node = self.nodes[name]
        node.is_hung = is_hung
        if is_hung:
            return
        self._flush(node)
        while not node.is_hung and node.inbox:
            self._tell(node, node.inbox.popleft())
        self._tell(node, Tick())
        self.show_head(node)

    def hang_domain(self, name: NodeName, is_hung: bool) -> None:
        """A domain that hangs answers nothing that it is asked to assemble until it goes on; the node does not wait."""
        node = self.nodes[name]
        node.is_domain_hung = is_hung
        while not node.is_domain_hung and node.unanswered:
            self._compute(node, node.unanswered.pop(0))

    def wake(self, name: NodeName) -> None:
        """Its clock was changed: its next deadline comes at another time."""
        node = self.nodes[name]
        node.tick_at_ms = None
        self._schedule_tick(node)

    def stop(self, name: NodeName) -> None:
        """Ask a node to stop: it hands its role over."""
        self.nodes[name].is_stopping = True
        self._tell(self.nodes[name], StopRequested())

    def set_ledger(self, name: NodeName, has_ledger: bool) -> None:
        """Take the ledger from a node, or give it back; the node notices after `ledger_grace`."""
        node = self.nodes[name]
        node.has_ledger = has_ledger
        self.show_head(node)

    def lag(self, name: NodeName, lags: bool) -> None:
        """Let a node see an old chain only, as behind a node of the chain that lags, or let it catch up."""
        node = self.nodes[name]
        node.lags_at = node.disk.height if lags else None
        self.show_head(node)

    def submit(self, name: NodeName, contract: ContractAddress, event: Event) -> None:
        """A user's request."""
        assert isinstance(event, IntentSubmitted | CancelRequested | ResumeRequested), "users ask for no more"
        self.requests[event.reply_to] = REQUESTS[type(event)]
        self._tell(self.nodes[name], ForContract(contract, event))

    # Network.

    def cut_way(self, source: NodeName, target: NodeName) -> None:
        """Nothing gets from source to target; both notice when pings stay unanswered."""
        if source == target:
            return
        self.cut.add((source, target))
        due_ms = self.now_ms + self.config.silence_ms
        self.at(due_ms, lambda: self._notice_cut(source, target))

    def heal(self) -> None:
        """All ways are open again."""
        healed = sorted(self.cut)
        self.cut.clear()
        for source, target in healed:
            self._connect(source, target)

    def _notice_cut(self, source: NodeName, target: NodeName) -> None:
        if (source, target) not in self.cut:
            return
        for one, other in ((source, target), (target, source)):
            if (one, other) not in self.down:
                self.down.add((one, other))
                self._tell(self.nodes[one], ConnectionLost(other))

    def reconnect(self, one: NodeName, other: NodeName) -> None:
        """The connection breaks and is made again at once; what was under way on it is lost."""
        for source, target in ((one, other), (other, one)):
            if (source, target) not in self.down:
                self.down.add((source, target))
                self._tell(self.nodes[source], ConnectionLost(target))
        self._connect(one, other)

    def restore_connection(self, one: NodeName, other: NodeName) -> None:
        """Two nodes that run, and that nothing separates, find each other again."""
        if one != other:
            self._connect(one, other)

    def _connect(self, one: NodeName, other: NodeName) -> None:
        if self.nodes[one].core is None or self.nodes[other].core is None:
            return
        if (one, other) in self.cut or (other, one) in self.cut:
            return
        for source, target in ((one, other), (other, one)):
            if (source, target) in self.down:
                self.down.discard((source, target))
                self._tell(self.nodes[source], ConnectionMade(target))

    def _transmit(self, source: NodeName, target: NodeName, envelope: Envelope) -> None:
        self.message_count += 1
        fate = "delivered"
        if self.forgeries:
            envelope, fate = self._told(source, target, envelope)
        self.judge.tell_sent(source, target, envelope)
        forged = self.weather.forged(source, target, envelope)
        if forged is not None:
            forger, body = forged
            self._deliver_later(forger, source, replace(envelope, body=body))
        rule = _matching(self.holds, source, target, envelope)
        if (source, target) in self.cut or (source, target) in self.down:
            self.recorder.sent(self, source, target, envelope, "lost")
        elif rule is not None:
            rule.kept.append((source, target, envelope))
            self.recorder.sent(self, source, target, envelope, "held")
        elif _matching(self.duplicates, source, target, envelope) is not None:
            self.recorder.sent(self, source, target, envelope, "twice")
            self._deliver_later(source, target, envelope)
            self._deliver_later(source, target, envelope, COPY_DELAY_MS)
        else:
            self.recorder.sent(self, source, target, envelope, fate)
            self._deliver_later(source, target, envelope)

    def _told(self, source: NodeName, target: NodeName, envelope: Envelope) -> tuple[Envelope, str]:
        """The message as it leaves its node, which may lie once, and what becomes of it if nothing is in its way."""
        forgery = _matching(self.forgeries, source, target, envelope)
        if forgery is None:
            return envelope, "delivered"
        self.forgeries.remove(forgery)
        contract = next(contract for contract in self.contracts if contract.address == envelope.contract)
        return forgery.apply(contract, envelope), forgery.lie.value

    def release(self, is_reversed: bool = False, is_twice: bool = False) -> None:
        """Deliver what was held back, the last first or each twice if so said, and hold nothing any more."""
        rules, self.holds = self.holds, []
        kept = [held for rule in rules for held in rule.kept]
        for source, target, envelope in reversed(kept) if is_reversed else kept:
            self._deliver_later(source, target, envelope)
            if is_twice:
                self._deliver_later(source, target, envelope, COPY_DELAY_MS)

    def forge_heartbeat(self, source: NodeName, state: CoordinatorState, successor: NodeName | None = None) -> None:
        """A node claims a role that its own machine does not have: every other node is told.

        The lie has the number that is next: the node's own heartbeats are heard again soon.
        """
        core = self.nodes[source].core
        assert core is not None, f"{source} must run to say anything"
        self.forged_count += 1
        for contract in self.contracts:
            sequencer = core.sequencers.loaded.get(contract.address)
            said = sequencer.coordinator.heartbeat_count if sequencer is not None else 0
            number = HeartbeatNumber(core.incarnation, said + self.forged_count)
            for target in self.nodes:
                self._forge(contract, source, target, CoordinatorHeartbeat(number, state, successor=successor))

    def forge_request(self, source: NodeName, target: NodeName, reason: HandoverReason) -> None:
        """A node asks another to yield, which its own machine would not."""
        for contract in self.contracts:
            self._forge(contract, source, target, HandoverRequest(RequestId(FORGED_NUMBER, 1), reason))

    def _forge(self, contract: Contract, source: NodeName, target: NodeName, body: Message) -> None:
        if source != target:
            number = RequestId(FORGED_NUMBER, 1)
            self._transmit(source, target, Envelope(contract.address, number, 1, self.ledger.height, body))

    def _deliver_later(self, source: NodeName, target: NodeName, envelope: Envelope, late_ms: int = 0) -> None:
        node = self.nodes[target]
        for delay_ms in self.weather.delays_ms(source, target, self.latency_ms):
            lives = (self.nodes[source].life, node.life)
            self.at(self.now_ms + delay_ms + late_ms, partial(self._deliver, lives, source, node, envelope))

    def _deliver(self, lives: tuple[int, int], source: NodeName, node: SimNode, envelope: Envelope) -> None:
        """A connection that was lost since delivers nothing more."""
        same_lives = lives == (self.nodes[source].life, node.life)
        if same_lives and (source, node.name) not in self.cut and (node.name, source) not in self.down:
            self._tell(node, MessageReceived(source, envelope))

    # The ledger.

    def mine(self, is_empty: bool = False) -> None:
        """One block, and everybody who sees the chain hears of it; an empty one leaves the pool as it is."""
        self.mining_due = self.mining_due and is_empty
        block = self.ledger.mine(self.chain_time_s, is_empty)
        self.highest = max(self.highest, block.height)
        for contract, outcome in block.outcomes:
            if outcome.status is LedgerStatus.COMMITTED:
                self.judge.tell(Committed(contract, block.height, self.transitions[outcome.leaf]))
        self.recorder.noted(self, f"block {block.height}: {self._show_block(block)}")
        self._show_head_later()

    def let_chain_time_pass(self, seconds: int) -> None:
        """The chain's clock goes ahead of ours; the next block says so."""
        self.chain_ahead_s += seconds
        self.mine()

    def depth_left(self, most: int) -> int:
        """How many blocks may be taken back without going deeper than so far below the highest that ever was."""
        return self.ledger.height - max(0, self.highest - most)

    def reorganise(self, count: int, keeps_transactions: bool = True) -> None:
        """The latest blocks are taken back; who sees the chain finds out."""
        removed = self.ledger.take_back(count, keeps_transactions)
        self.judge.tell(Reorganised(len(removed)))
        for block in removed:
            for contract, outcome in reversed(block.outcomes):
                if outcome.status is LedgerStatus.COMMITTED:
                    self.judge.tell(Undone(contract, block.height, self.transitions[outcome.leaf]))
        names = ", ".join(str(block.height) for block in removed)
        self.recorder.noted(self, f"block {names} is gone")
        self._show_head_later()
        if self.ledger.has_work():
            self._mine_soon()

    def _show_head_later(self) -> None:
        for node in self.nodes.values():
            delay_ms = self.latency_ms if node.index_delay_ms is None else node.index_delay_ms
            self.at(self.now_ms + delay_ms, partial(self.show_head, node))

    def _poll(self, node: SimNode, life: int) -> None:
        """A node asks for the latest block now and again; a new life asks for itself."""
        if node.life == life:
            self.show_head(node)
            self.at(self.now_ms + POLL_MS, partial(self._poll, node, life))

    def show_head(self, node: SimNode) -> None:
        """Tell a node where the chain stands, if it sees the chain."""
        if node.core is not None and not node.is_hung and node.has_ledger:
            height = self._height_seen_by(node)
            self._tell(node, HeadSeen(height, self.ledger.blocks[height].hash, BASE_FEE_WEI))

    def _height_seen_by(self, node: SimNode) -> int:
        height = self.ledger.height if node.lags_at is None else min(node.lags_at, self.ledger.height)
        return max(0, height - node.blocks_behind)

    def _answer_fetch(self, node: SimNode, first: int, last: int) -> None:
        """The blocks that a node asks for, as far as it sees the chain."""
        if node.has_ledger:
            seen = self.ledger.blocks[first : min(last, self._height_seen_by(node)) + 1]
            blocks = tuple(self.ledger.as_seen_by(node.name, block) for block in seen)
            self._tell(node, BlocksFetched(blocks))

    def _mine_soon(self) -> None:
        if self.is_mining and not self.mining_due:
            self.mining_due = True
            self.at(self.now_ms + self.block_ms, self._mine_if_due)

    def _mine_if_due(self) -> None:
        if self.mining_due and self.is_mining:
            self.mine()

    def _index(self, disk: Disk, record: BlocksIndexed) -> None:
        """The unspent states that a node knows follow its index, also when it goes back."""
        while disk.height > record.parted_at:
            self._unindex(disk, disk.blocks.pop())
        for block in record.blocks:
            disk.blocks.append(block)
            disk.latest_chain_time_s = max(disk.latest_chain_time_s, block.time_s)
            self._note_commits(disk, block.outcomes)

    def _unindex(self, disk: Disk, block: ChainBlock) -> None:
        """The node's latest block is no longer in its index, nor what it did to the unspent states."""
        for contract, outcome in reversed(block.outcomes):
            if outcome.status is LedgerStatus.COMMITTED:
                unspent = disk.unspent[contract]
                transition = self.transitions[outcome.leaf]
                for made in transition.outputs:
                    del unspent[made.id]
                unspent.update({reference: self._state(reference) for reference in transition.inputs})
                disk.contents.spent.difference_update(transition.inputs)

    def _state(self, reference: StateId) -> State:
        return self.transitions[reference.leaf].outputs[reference.output]

    def _note_commits(self, disk: Disk, outcomes: Outcomes) -> None:
        """A node's own index: which states are unspent at the height that it has reached."""
        for contract, outcome in outcomes:
            if outcome.status is LedgerStatus.COMMITTED:
                unspent = disk.unspent.setdefault(contract, {})
                transition = self.transitions[outcome.leaf]
                for reference in transition.inputs:
                    unspent.pop(reference)
                disk.contents.spent.update(transition.inputs)
                unspent.update({made.id: made for made in transition.outputs})

    # Telling and performing.

    def _tell(self, node: SimNode, event: Event) -> None:
        if node.core is None:
            return
        if node.is_hung:
            node.inbox.append(event)
            return
        self.event_count += 1
        node.step_count += 1
        effects = node.core.step(node.clock.read(self.now_ms), event)
        self.recorder.stepped(self, node)
        if node.step_count % STEPS_BETWEEN_MEASUREMENTS == 0:
            for measured in queues_of(node.core, len(self.nodes)):
                self.judge.tell(measured)
        self._perform(node, effects)

    def _perform(self, node: SimNode, effects: list[Effect]) -> None:
        if effects:
            self._queue(node, effects)
        if not node.is_flushing:
            self._flush(node)
            self._schedule_tick(node)

    def _queue(self, node: SimNode, effects: list[Effect]) -> None:
        """In the order of their steps; a write is told as done behind the effects that it governs."""
        token: int | None = None
        for effect in effects:
            if isinstance(effect, Persist):
                if token is not None:
                    node.outbox.append(Written(token))
                token = effect.token
            elif isinstance(effect, SendMessage) and isinstance(effect.envelope.body, EndorsementResponse):
                self._note_endorsement(node, effect)
            node.outbox.append(effect)
        if token is not None:
            node.outbox.append(Written(token))

    def _flush(self, node: SimNode) -> None:
        """Effects leave in order; those that a write governs when it is done. What follows from one waits its turn."""
        if node.is_flushing:
            return
        node.is_flushing = True
        while node.outbox and node.core is not None and not node.is_writing and not node.is_hung:
            effect = node.outbox[0]
            if isinstance(effect, Persist):
                node.is_writing = True
                self.at(self.now_ms + self.disk_ms, partial(self._write, node, node.life))
                break
            node.outbox.popleft()
            if node.effects_to_live is not None and self._dies_now(node):
                break
            if isinstance(effect, Written):
                self._tell(node, Persisted(effect.token))
            else:
                self._do(node, effect)
        node.is_flushing = False

    def _dies_now(self, node: SimNode) -> bool:
        """It was to live for so many effects more, and this is the last."""
        if node.effects_to_live is None:
            return False
        node.effects_to_live -= 1
        if node.effects_to_live >= 0:
            return False
        self.recorder.noted(self, f"{node.name} dies between two effects")
        self.crash(node.name)
        return True

    def _write(self, node: SimNode, life: int) -> None:
        """One database transaction. A disk may fail, or do it and report a failure all the same."""
        if node.life != life or self._dies_now(node):
            return
        node.is_writing = False
        write = node.outbox.popleft()
        assert isinstance(write, Persist), "what is written stands first"
        if node.disk.fate is not Fate.FAILS:
            self._store(node, write, is_told=node.disk.fate is Fate.WORKS)
        if node.disk.fate is not Fate.WORKS:
            while not isinstance(node.outbox.popleft(), Written):
                pass
            if isinstance(write.records[0], NodeStarted):
                self.crash(node.name)
                return
            self._tell(node, PersistFailed(write.token, "the disk is failing"))
        self._flush(node)
        self._schedule_tick(node)

    def _store(self, node: SimNode, write: Persist, is_told: bool) -> None:
        node.disk.write(write.contract, write.records)
        for record in write.records:
            self.judge.tell(Recorded(node.name, write.contract, record, is_told))
            if isinstance(record, PermissionGranted):
                self.permissions.append(record)
            elif isinstance(record, RoundDispatch):
                self.dispatches.append(record)
                for transition in record.round.transitions:
                    self.transitions.setdefault(transition.leaf, transition)
            elif isinstance(record, BlocksIndexed):
                self._index(node.disk, record)

    def _schedule_tick(self, node: SimNode) -> None:
        if node.core is None or node.is_hung:
            return
        local_ms = node.core.next_deadline_ms()
        if local_ms is None:
            return
        due_ms = max(node.clock.when(local_ms), self.now_ms)
        if node.tick_at_ms is None or due_ms < node.tick_at_ms:
            node.tick_at_ms = due_ms
            self.at(due_ms, partial(self._tick, node, node.life))

    def _tick(self, node: SimNode, life: int) -> None:
        """A deadline, unless an earlier one has taken its place since."""
        if node.life != life or node.core is None or node.tick_at_ms != self.now_ms:
            return
        node.tick_at_ms = None
        due_ms = node.core.next_deadline_ms()
        if not node.is_hung and due_ms is not None and due_ms <= node.clock.read(self.now_ms):
            self._tell(node, Tick())
        else:
            self._schedule_tick(node)

    def _do(self, node: SimNode, effect: Effect) -> None:
        match effect:
            case SendMessage(peer, envelope) if peer == node.name:
                self._tell(node, MessageReceived(peer, envelope))
            case SendMessage(peer, envelope):
                self._send(node, peer, envelope)
            case ReplyToUser():
                self._reply(node, effect)
            case ReportReceipt(receipt):
                self.receipts.setdefault(receipt.intent, []).append(receipt)
                self.judge.tell(Reported(node.name, receipt))
                reason = f" ({receipt.reason})" if receipt.reason else ""
                self.recorder.noted(
                    self, f"{node.name} reports {self.show(receipt.intent)} {receipt.outcome.value}{reason}"
                )
            case ReportPrepared(_, prepared):
                intent = prepared.transition.intent
                self.prepared[intent] = effect
                self.recorder.noted(
                    self, f"{node.name} reports {self.show(intent)} prepared, valid until {prepared.valid_until_s}"
                )
                self.on_prepared(intent)
            case SubmitTransaction(dispatch):
                self._submit(node, dispatch)
            case FetchBlocks(first, last):
                self._answer_fetch(node, first, last)
            case LookUpIntents():
                self._tell(node, node.disk.look_up(effect, self.contracts, node.config.confirmations))
            case LoadContract(contract):
                self._load(node, contract)
            case FindStates(contract, peer, leaves):
                for digest, transitions in node.disk.find_states(contract, leaves):
                    self._tell(node, StatesFound(contract, peer, digest, transitions))
            case _:
                self._compute(node, effect)

    def _send(self, node: SimNode, peer: NodeName, envelope: Envelope) -> None:
        body = envelope.body
        if isinstance(body, CoordinatorHeartbeat) and node.heartbeats_seen.get(envelope.contract) != body.number:
            node.heartbeats_seen[envelope.contract] = body.number
            if body.state is CoordinatorState.ACTIVE:
                self._note_active(node.name, envelope.contract)
            seen = HeartbeatSeen(node.name, envelope.contract, body.state, envelope.height, self.now_ms)
            self.judge.tell(seen)
        if node.protocol_version != PROTOCOL_VERSION:
            envelope = replace(envelope, protocol_version=node.protocol_version)
        self._transmit(node.name, peer, envelope)

    def _reply(self, node: SimNode, reply: ReplyToUser) -> None:
        self.replies.setdefault(reply.reply_to, []).append(reply)
        if not reply.error:
            self.judge.tell(Promised(node.name, self.requests[reply.reply_to], reply.intent))
        answer = f"refused: {reply.error}" if reply.error else "accepted"
        self.recorder.noted(self, f"{node.name} answers {reply.reply_to}: {answer}")

    def _load(self, node: SimNode, address: ContractAddress) -> None:
        """What a node's store knows of a contract that it has not in memory."""
        known = self.contracts_of[node.name]
        contract = next((contract for contract in known if contract.address == address), None)
        if contract is None:
            self._tell(node, ContractMissing(address))
        else:
            stored = node.disk.restore(node.name, known, node.config.confirmations)
            self._tell(node, ContractLoaded(contract, stored.contracts[address]))

    def _submit(self, node: SimNode, dispatch: RoundDispatch) -> None:
        self.judge.tell(Submitted(node.name, dispatch))
        if not node.has_ledger:
            return
        passage = self.weather.passage()
        if passage.delay_ms == 0:
            self._arrive(dispatch)
        elif passage.delay_ms is not None:
            self.at(self.now_ms + passage.delay_ms, partial(self._arrive, dispatch))
        if passage.is_answered:
            self._tell(node, TransactionSent(dispatch.nonce))

    def _arrive(self, dispatch: RoundDispatch) -> None:
        self.ledger.send(dispatch)
        if self.ledger.has_work():
            self._mine_soon()

    def commit_prepared(self, intent: IntentId) -> None:
        """A user has the prepared transition of an intent committed, by whom it is for."""
        contract, prepared = self.prepared[intent].contract, self.prepared[intent].prepared
        transition = prepared.transition
        signer = transition.preparation.committer if transition.preparation is not None else "somebody"
        pooled = sum(pooled_by == signer for pooled_by, _ in self.ledger.pool)
        order = order_of(contract, TransitionPrepared(NodeName(""), prepared))
        nonce = self.ledger.next_nonce.get(signer, 0) + pooled
        self.transitions[transition.leaf] = transition
        self.ledger.send(RoundDispatch(replace(order, digest=prepared.digest), signer, nonce))
        self._mine_soon()

    def _compute(self, node: SimNode, effect: Effect) -> None:
        """What domain, signer and key store do, at once or after a while, unless the domain hangs."""
        if node.is_domain_hung and isinstance(effect, AssembleIntents):
            node.unanswered.append(effect)
            return
        unspent: dict[StateId, State] = {}
        if isinstance(effect, AssembleIntents | CheckRound):
            unspent = node.disk.unspent.get(effect.contract, {})
        if isinstance(effect, AssembleIntents):
            for intent in effect.intents:
                self.assemblies[intent.id] = self.assemblies.get(intent.id, 0) + 1
        for event in self.services.answer(node.name, effect, unspent, node.life, node.disk.contents):
            if isinstance(event, ForContract) and isinstance(event.event, AssemblyFinished):
                self._note_assembled(node, event.contract, event.event.transition)
            elif isinstance(event, ForContract) and isinstance(event.event, RoundChecked):
                self.signature_count += bool(event.event.signature)
            if self.service_ms:
                self.at(self.now_ms + self.service_ms, partial(self._answer, node, node.life, event))
            else:
                self._tell(node, event)

    def _answer(self, node: SimNode, life: int, event: Event) -> None:
        if node.life == life:
            self._tell(node, event)

    # What the judge is told.

    def _note_assembled(self, node: SimNode, contract: ContractAddress, transition: Transition | None) -> None:
        if transition is not None:
            self.transitions[transition.leaf] = transition
            self.judge.tell(Assembled(node.name, contract, transition))

    def _note_active(self, node: NodeName, contract: ContractAddress) -> None:
        self.coordinator_changes += self._active.get(contract, node) != node
        self._active[contract] = node

    def _note_endorsement(self, node: SimNode, effect: SendMessage) -> None:
        """Told when it is decided: whom the endorser follows may have changed when the message leaves."""
        envelope = effect.envelope
        body = envelope.body
        if node.core is not None and isinstance(body, EndorsementResponse) and body.signature:
            follows = node.core.sequencers.loaded[envelope.contract].observer.accepted
            fact = Endorsed(node.name, envelope.contract, effect.peer, body.request_id, body.digest, follows)
            self.judge.tell(fact)

    # Names.

    def show(self, intent: IntentId) -> str:
        """An intent's name: scenarios choose ids that are names."""
        return intent.rstrip(b"\x00").decode(errors="replace")

    def _show_block(self, block: ChainBlock) -> str:
        shown = [f"{self.show(outcome.intent)} {outcome.status.value}" for _, outcome in block.outcomes]
        shown += [
            f"the transaction of {self._show_members(dispatch)} failed"
            for dispatch, failure in self.ledger.mined_in(block)
            if failure
        ]
        return ", ".join(shown) or "empty"

    def _show_members(self, dispatch: RoundDispatch) -> str:
        return ", ".join(self.show(transition.intent) for transition in dispatch.round.transitions)


def _matching(rules: list[Rule], source: NodeName, target: NodeName, envelope: Envelope) -> Rule | None:
    """The first rule that this message is under."""
    for rule in rules:
        if rule.matches(source, target, envelope):
            return rule
    return None
