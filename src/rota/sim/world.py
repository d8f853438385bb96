"""Several nodes of the real core on one virtual clock, with a network, disks and a ledger that can be hurt.

The world performs what the core orders and tells it what happened, as a runtime would: the effects of a
step with records leave when the write is done; a killed node loses everything but its disk; a cut
connection is noticed when pings stay unanswered. Nothing here decides anything about sequencing.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from heapq import heappop, heappush

from rota.config import Config
from rota.core.distribution import order_of
from rota.core.effects import (
    AssembleIntents,
    CheckRound,
    Effect,
    LookUpVerifier,
    PermissionGranted,
    Persist,
    Record,
    ReplyToUser,
    ReportPrepared,
    ReportReceipt,
    RoundDispatch,
    SendMessage,
    SignTransition,
    SubmitTransaction,
    TransitionPrepared,
    VerifySignature,
)
from rota.core.events import (
    AssemblyFailed,
    AssemblyFinished,
    ChainBlockIndexed,
    ChainBlocksRemoved,
    ChainOutcomesFinal,
    ConnectionLost,
    ConnectionMade,
    ForContract,
    LedgerBack,
    LedgerLost,
    LedgerOutcome,
    LedgerStatus,
    MessageReceived,
    Persisted,
    PersistFailed,
    RoundChecked,
    SignatureVerified,
    StopRequested,
    Tick,
    TransactionSent,
    TransitionSigned,
    VerifierLookedUp,
)
from rota.core.machine import Event
from rota.core.node import Node
from rota.digests import domain_separator
from rota.messages import CoordinatorHeartbeat, CoordinatorState, Envelope, HandoverReason, HandoverRequest, Message
from rota.sim import domain
from rota.sim.disk import Disk
from rota.sim.ledger import GENESIS_TIME_S, Block, Ledger
from rota.types import (
    Contract,
    ContractAddress,
    HeartbeatNumber,
    IntentId,
    Leaf,
    NodeName,
    Party,
    Receipt,
    RequestId,
    State,
    StateId,
    Transition,
)

Outcomes = tuple[tuple[ContractAddress, LedgerOutcome], ...]

# What a forger says lies above all that was said before.
FORGED_NUMBER = 1_000_000
COPY_DELAY_MS = 30


@dataclass(slots=True)
class SimNode:
    """One node of the world: its core while it runs, its disk, and what it is waiting to be told."""

    name: NodeName
    disk: Disk = field(default_factory=Disk)
    core: Node | None = None
    is_hung: bool = False
    lags: bool = False
    has_ledger: bool = True
    inbox: deque[Event] = field(default_factory=deque)
    outbox: deque[list[Effect]] = field(default_factory=deque)
    is_writing: bool = False
    is_flushing: bool = False
    life: int = 0
    tick_at_ms: int | None = None


@dataclass(slots=True)
class MessageRule:
    """Messages of a kind on one way; `*` is anybody."""

    kind: str
    source: NodeName
    target: NodeName

    def matches(self, source: NodeName, target: NodeName, envelope: Envelope) -> bool:
        """This message is one of them."""
        kind = type(envelope.body).__name__
        return self.kind == kind and self.source in (source, "*") and self.target in (target, "*")


@dataclass(slots=True)
class HoldRule(MessageRule):
    """Such messages are kept back, and these wait."""

    kept: list[tuple[NodeName, NodeName, Envelope]] = field(default_factory=list)


class Weather:
    """What the network does to a message on its way; good weather delivers it once, after the latency."""

    def delays_ms(self, latency_ms: int) -> tuple[int, ...]:
        """The delay of each copy that arrives; none when it is lost."""
        return (latency_ms,)


class Recorder:
    """Hears of everything that happens; the transcript is one."""

    def sent(self, world: World, source: NodeName, target: NodeName, envelope: Envelope, fate: str) -> None:
        """A message left a node; its fate is `delivered`, `lost`, `held` or `twice`."""

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
        confirmations: int = 0,
    ) -> None:
        self.contracts = contracts
        self.config = config
        self.recorder = recorder or Recorder()
        self.latency_ms = latency_ms
        self.block_ms = block_ms
        self.disk_ms = disk_ms
        self.weather = weather or Weather()
        self.now_ms = 0
        self.confirmations = confirmations
        self.payloads: dict[IntentId, bytes] = {}
        self.ledger = Ledger(contracts, self.payloads)
        self.nodes = {name: SimNode(name) for name in names}
        self.cut: set[tuple[NodeName, NodeName]] = set()
        self.down: set[tuple[NodeName, NodeName]] = set()
        self.holds: list[HoldRule] = []
        self.duplicates: list[MessageRule] = []
        self.is_mining = True
        self.mining_due = False
        self.chain_ahead_s = 0
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
        self.event_count = 0
        self._schedule: list[tuple[int, int, Callable[[], None]]] = []
        self._order = 0
        self._separators = {c.address: domain_separator(c.chain_id, c.address) for c in contracts}

    # Time.

    def at(self, due_ms: int, action: Callable[[], None]) -> None:
        """Do something at a time."""
        self._order += 1
        heappush(self._schedule, (due_ms, self._order, action))

    def run_until(self, end_ms: int, is_done: Callable[[], bool] = lambda: False) -> bool:
        """Let time pass until the end or until it is done."""
        while not is_done():
            due_ms = self._schedule[0][0] if self._schedule else None
            if due_ms is None or due_ms > end_ms:
                self.now_ms = end_ms
                return is_done()
            due_ms, _, action = heappop(self._schedule)
            self.now_ms = due_ms
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
        # What is not final yet is indexed again: its receipts have not been reported.
        final_height = node.disk.height - self.confirmations
        while node.disk.blocks and node.disk.height > final_height:
            self._unindex(node)
        node.core = Node(name, self.contracts, self.config, self.now_ms, node.disk.restore(name, self.contracts))
        node.is_hung, node.is_writing = False, False
        node.outbox.clear()
        node.inbox.clear()
        self._perform(node, node.core.start())
        for other in self.nodes.values():
            if other.name != name and other.core is not None:
                self._connect(name, other.name)
        self._index(node)

    def crash(self, name: NodeName) -> None:
        """Kill a node: its memory is gone, and its peers' connections break at once."""
        node = self.nodes[name]
        node.core = None
        node.life += 1
        for other in self.nodes.values():
            if other.name != name:
                self.down.add((other.name, name))
                self._tell(other, ConnectionLost(name))

    def hang(self, name: NodeName, is_hung: bool) -> None:
        """A hung node keeps its memory and its connections, and does nothing until it goes on."""
        node = self.nodes[name]
        node.is_hung = is_hung
        while not node.is_hung and node.inbox:
            self._tell(node, node.inbox.popleft())
        if not is_hung:
            self._tell(node, Tick())
            self._index(node)

    def stop(self, name: NodeName) -> None:
        """Ask a node to stop: it hands its role over."""
        self._tell(self.nodes[name], StopRequested())

    def set_ledger(self, name: NodeName, has_ledger: bool) -> None:
        """Take the ledger from a node, or give it back; the node notices after `ledger_grace`."""
        node = self.nodes[name]
        node.has_ledger = has_ledger
        if has_ledger:
            self._tell(node, LedgerBack())
            self._index(node)
        else:
            self.at(self.now_ms + self.config.ledger_grace_ms, lambda: self._lose_ledger(node))

    def lag(self, name: NodeName, lags: bool) -> None:
        """Keep a node's index from going on, or let it catch up."""
        node = self.nodes[name]
        node.lags = lags
        if not lags:
            self._index(node)

    def submit(self, name: NodeName, contract: ContractAddress, event: Event) -> None:
        """A user's request."""
        self._tell(self.nodes[name], ForContract(contract, event))

    # Network.

    def cut_way(self, source: NodeName, target: NodeName) -> None:
        """Nothing gets from source to target; both notice when pings stay unanswered."""
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

    def _connect(self, one: NodeName, other: NodeName) -> None:
        if (one, other) in self.cut or (other, one) in self.cut:
            return
        for source, target in ((one, other), (other, one)):
            if (source, target) in self.down:
                self.down.discard((source, target))
                self._tell(self.nodes[source], ConnectionMade(target))

    def _transmit(self, source: NodeName, target: NodeName, envelope: Envelope) -> None:
        self.message_count += 1
        rule = next((rule for rule in self.holds if rule.matches(source, target, envelope)), None)
        if (source, target) in self.cut or (source, target) in self.down:
            self.recorder.sent(self, source, target, envelope, "lost")
        elif rule is not None:
            rule.kept.append((source, target, envelope))
            self.recorder.sent(self, source, target, envelope, "held")
        elif any(copied.matches(source, target, envelope) for copied in self.duplicates):
            self.recorder.sent(self, source, target, envelope, "twice")
            self._deliver_later(source, target, envelope)
            self._deliver_later(source, target, envelope, COPY_DELAY_MS)
        else:
            self.recorder.sent(self, source, target, envelope, "delivered")
            self._deliver_later(source, target, envelope)

    def release(self) -> None:
        """Deliver what was held back, and hold nothing any more."""
        rules, self.holds = self.holds, []
        for rule in rules:
            for source, target, envelope in rule.kept:
                self._deliver_later(source, target, envelope)

    def forge_heartbeat(self, source: NodeName, state: CoordinatorState) -> None:
        """A node claims a role that its own machine does not have: every other node is told."""
        for contract in self.contracts:
            for target in self.nodes:
                number = HeartbeatNumber(FORGED_NUMBER, 1)
                self._forge(contract, source, target, CoordinatorHeartbeat(number, state))

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
        for delay_ms in self.weather.delays_ms(self.latency_ms):
            lives = (self.nodes[source].life, node.life)
            self.at(self.now_ms + delay_ms + late_ms, partial(self._deliver, lives, source, node, envelope))

    def _deliver(self, lives: tuple[int, int], source: NodeName, node: SimNode, envelope: Envelope) -> None:
        """A connection that was lost since delivers nothing more."""
        same_lives = lives == (self.nodes[source].life, node.life)
        if same_lives and (source, node.name) not in self.cut and (node.name, source) not in self.down:
            self._tell(node, MessageReceived(source, envelope))

    # The ledger.

    def mine(self, is_empty: bool = False) -> None:
        """One block, and everybody whose index follows hears of it; an empty one leaves the pool as it is."""
        self.mining_due = self.mining_due and is_empty
        block = self.ledger.mine(self.chain_time_s, is_empty)
        self.recorder.noted(self, f"block {block.height}: {_show_outcomes(self, block.outcomes)}")
        self._index_later()

    def let_chain_time_pass(self, seconds: int) -> None:
        """The chain's clock goes ahead of ours; the next block says so."""
        self.chain_ahead_s += seconds
        self.mine()

    def reorganise(self, count: int, keeps_transactions: bool = True) -> None:
        """The latest blocks are taken back; whose index follows undoes them."""
        removed = self.ledger.take_back(count, keeps_transactions)
        names = ", ".join(str(block.height) for block in removed)
        self.recorder.noted(self, f"block {names} is gone")
        self._index_later()
        if self.ledger.has_work():
            self._mine_soon()

    def _index_later(self) -> None:
        for node in self.nodes.values():
            self.at(self.now_ms + self.latency_ms, partial(self._index, node))

    def _mine_soon(self) -> None:
        if self.is_mining and not self.mining_due:
            self.mining_due = True
            self.at(self.now_ms + self.block_ms, self._mine_if_due)

    def _mine_if_due(self) -> None:
        if self.mining_due and self.is_mining:
            self.mine()

    def _index(self, node: SimNode) -> None:
        """Tell a node of the blocks that it has not indexed; each is durable before it is told."""
        while node.core is not None and not node.is_hung and not node.lags and node.has_ledger:
            self._undo_removed(node)
            if node.disk.height >= self.ledger.height:
                return
            block = self.ledger.blocks[node.disk.height + 1]
            node.disk.blocks.append(block)
            self._note_commits(node.disk, block.outcomes)
            self._tell(node, ChainBlockIndexed(block.height, block.time_s, block.outcomes))
            if block.height > self.confirmations:
                final = node.disk.blocks[-1 - self.confirmations]
                self._tell(node, ChainOutcomesFinal(final.time_s, final.outcomes))

    def _undo_removed(self, node: SimNode) -> None:
        """Go back to the latest block that node and chain have in common."""
        gone: list[Block] = []
        while node.disk.blocks and not self._is_on_chain(node.disk.blocks[-1]):
            gone.append(self._unindex(node))
        if gone:
            outcomes = tuple(outcome for block in gone for outcome in reversed(block.outcomes))
            self._tell(node, ChainBlocksRemoved(node.disk.height, outcomes))

    def _is_on_chain(self, block: Block) -> bool:
        return block.height <= self.ledger.height and self.ledger.blocks[block.height] is block

    def _unindex(self, node: SimNode) -> Block:
        """The node's latest block is no longer in its index: the unspent states are worked out anew."""
        block = node.disk.blocks.pop()
        node.disk.unspent.clear()
        for kept in node.disk.blocks:
            self._note_commits(node.disk, kept.outcomes)
        return block

    def _lose_ledger(self, node: SimNode) -> None:
        if not node.has_ledger:
            self._tell(node, LedgerLost())

    def _note_commits(self, disk: Disk, outcomes: Outcomes) -> None:
        """A node's own index: which states are unspent at the height that it has reached."""
        for contract, outcome in outcomes:
            if outcome.status is LedgerStatus.COMMITTED:
                unspent = disk.unspent.setdefault(contract, {})
                transition = self.transitions[outcome.leaf]
                for reference in transition.inputs:
                    unspent.pop(reference)
                unspent.update({made.id: made for made in transition.outputs})

    # Telling and performing.

    def _tell(self, node: SimNode, event: Event) -> None:
        if node.core is None:
            return
        if node.is_hung:
            node.inbox.append(event)
            return
        self.event_count += 1
        effects = node.core.step(self.now_ms, event)
        self.recorder.stepped(self, node)
        self._perform(node, effects)

    def _perform(self, node: SimNode, effects: list[Effect]) -> None:
        node.outbox.extend(_by_write(effects))
        self._flush(node)
        self._schedule_tick(node)

    def _flush(self, node: SimNode) -> None:
        """Steps leave in order; one with records when they are durable. What follows from one waits its turn."""
        if node.is_flushing:
            return
        node.is_flushing = True
        while node.outbox and not node.is_writing and node.core is not None:
            effects = node.outbox[0]
            if any(isinstance(effect, Persist) for effect in effects):
                node.is_writing = True
                self.at(self.now_ms + self.disk_ms, partial(self._write, node, node.life))
                break
            node.outbox.popleft()
            for effect in effects:
                self._do(node, effect)
        node.is_flushing = False

    def _write(self, node: SimNode, life: int) -> None:
        if node.life != life or node.core is None:
            return
        effects = node.outbox.popleft()
        node.is_writing = False
        writes = [effect for effect in effects if isinstance(effect, Persist)]
        if node.disk.is_failing:
            for write in writes:
                self._tell(node, PersistFailed(write.token, "the disk is failing"))
        else:
            for write in writes:
                node.disk.records.extend((write.contract, record) for record in write.records)
                self._note_records(write.records)
            for effect in effects:
                self._do(node, effect)
            for write in writes:
                self._tell(node, Persisted(write.token))
        self._flush(node)

    def _schedule_tick(self, node: SimNode) -> None:
        if node.core is None or node.is_hung:
            return
        due_ms = node.core.next_deadline_ms()
        if due_ms is not None and (node.tick_at_ms is None or due_ms < node.tick_at_ms):
            node.tick_at_ms = due_ms
            self.at(max(due_ms, self.now_ms), lambda: self._tick(node))

    def _tick(self, node: SimNode) -> None:
        node.tick_at_ms = None
        due_ms = node.core.next_deadline_ms() if node.core is not None else None
        if node.core is not None and not node.is_hung and due_ms is not None and due_ms <= self.now_ms:
            self._tell(node, Tick())
        self._schedule_tick(node)

    def _do(self, node: SimNode, effect: Effect) -> None:
        match effect:
            case SendMessage(peer, envelope) if peer == node.name:
                self._tell(node, MessageReceived(peer, envelope))
            case SendMessage(peer, envelope):
                self._transmit(node.name, peer, envelope)
            case ReplyToUser(reply_to):
                self.replies.setdefault(reply_to, []).append(effect)
                answer = f"refused: {effect.error}" if effect.error else "accepted"
                self.recorder.noted(self, f"{node.name} answers {reply_to}: {answer}")
            case ReportReceipt(receipt):
                self.receipts.setdefault(receipt.intent, []).append(receipt)
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
            case Persist():
                pass
            case _:
                self._compute(node, effect)

    def _submit(self, node: SimNode, dispatch: RoundDispatch) -> None:
        if node.has_ledger:
            self.ledger.send(dispatch)
            self._tell(node, TransactionSent(dispatch.nonce))
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
        """What domain, signer and key store do, at once."""
        match effect:
            case AssembleIntents(contract):
                for intent in effect.intents:
                    self.assemblies[intent.id] = self.assemblies.get(intent.id, 0) + 1
                chosen = next(c for c in self.contracts if c.address == contract)
                known = node.disk.unspent.get(contract, {})
                for result in self._assemble(chosen, effect, known, node.life):
                    self._tell(node, ForContract(contract, result))
            case SignTransition(contract, request_id, intent, party, leaf):
                self._tell(node, ForContract(contract, TransitionSigned(request_id, intent, sign(party, leaf))))
            case VerifySignature(contract, request_id, intent, party, leaf, signature):
                verified = SignatureVerified(request_id, intent, signature == sign(party, leaf))
                self._tell(node, ForContract(contract, verified))
            case CheckRound(contract, peer, request_id, digest):
                refusals = domain.check(effect, self.payloads, node.name)
                signature = b"" if refusals else sign(Party(node.name), Leaf(digest))
                self._tell(node, ForContract(contract, RoundChecked(peer, request_id, signature, refusals)))
            case LookUpVerifier(contract, peer, request_id, party):
                verifier = "" if party.startswith("nobody") else f"key of {party}"
                self._tell(node, ForContract(contract, VerifierLookedUp(peer, request_id, party, verifier)))
            case _:
                raise AssertionError(f"the world does not know {type(effect).__name__}")

    def _assemble(
        self, contract: Contract, order: AssembleIntents, unspent: dict[StateId, State], life: int
    ) -> list[AssemblyFinished | AssemblyFailed]:
        separator = self._separators[contract.address]
        return domain.assemble(contract, separator, order, unspent, life, self.payloads)

    # Disk.

    def _note_records(self, records: tuple[Record, ...]) -> None:
        for record in records:
            if isinstance(record, PermissionGranted):
                self.permissions.append(record)
            elif isinstance(record, RoundDispatch):
                self.dispatches.append(record)
                self.transitions.update({t.leaf: t for t in record.round.transitions})

    # Names.

    def show(self, intent: IntentId) -> str:
        """An intent's name: scenarios choose ids that are names."""
        return intent.rstrip(b"\x00").decode(errors="replace")


def _by_write(effects: list[Effect]) -> list[list[Effect]]:
    """Each write with the effects that it governs; what stands before the first waits for none."""
    parts: list[list[Effect]] = [[]]
    for effect in effects:
        if isinstance(effect, Persist):
            parts.append([])
        parts[-1].append(effect)
    return parts


def sign(party: Party, leaf: Leaf) -> bytes:
    """The world's signature scheme: nobody in it forges."""
    return hashlib.sha256(party.encode() + leaf).digest()


def _show_outcomes(world: World, outcomes: Outcomes) -> str:
    shown = [f"{world.show(outcome.intent)} {outcome.status.value}" for _, outcome in outcomes]
    return ", ".join(shown) or "empty"
