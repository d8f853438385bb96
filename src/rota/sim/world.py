"""Several nodes of the real core on one virtual clock, with a network, disks and a ledger that faults can affect.

The world executes the core's effects and returns their results as events, as a runtime would. Effects are executed in
order, those behind a write when it is durable; all pending writes form one transaction. When a write takes longer than
`STALL_MS`, the node takes no step until the disk resumes. A killed node loses everything but its disk; nodes notice a
cut connection when pings stay unanswered. Nothing here decides anything about sequencing.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from heapq import heappop, heappush

from rota.chain.effects import FetchBlocks, RecallDispatches, RoundDispatch, SeeAccount, SignDispatch, SubmitTransaction
from rota.chain.events import DispatchesRecalled
from rota.chain.submitters import AccountChoice
from rota.directory.effects import (
    AcquireContract,
    CallFactory,
    FindGenesis,
    JudgeProposal,
    ListContracts,
    SiftContracts,
    TakeInContract,
)
from rota.exchange.effects import RecallDeliveries
from rota.machine.effects import Effect, FindStates, Persist, ReplyToUser, ReportReceipt, SendMessage
from rota.machine.events import CancelRequested, IntentSubmitted, MessageReceived, ResumeRequested, StopRequested, Tick
from rota.machine.tables import Event
from rota.model.config import Config
from rota.model.digests import leaf_of_transition
from rota.model.types import (
    NO_CONTRACT,
    Contract,
    ContractAddress,
    IntentId,
    Leaf,
    NodeName,
    Receipt,
    State,
    StateId,
    Transition,
)
from rota.node.effects import LoadContract, LookUpIntents, ReportFinalityBroken
from rota.node.events import ContractLoaded, ContractMissing, ForContract, StatesFound
from rota.node.node import Node
from rota.sequencer.effects import (
    AssembleIntents,
    CheckRound,
    PermissionGranted,
    ReportPrepared,
    SignTransition,
    VerifyEndorsement,
    VerifyEndorsers,
)
from rota.sequencer.events import RoundChecked
from rota.sim.chain import Chain
from rota.sim.disk_writes import DiskWrites
from rota.sim.factory import FACTORY, Factory
from rota.sim.facts import BrokenFinality, ContractReset, Hung, Reported, Resumed, Signed, Started, Stopped
from rota.sim.invariants import AMONG_LIARS, EVERY, Judge, Terms, judged_in
from rota.sim.invariants.judge import show
from rota.sim.ledger import Ledger
from rota.sim.liars.conspiracy import Conspiracy
from rota.sim.liars.rules import RoundRules, bound_part
from rota.sim.observation import remembered_by
from rota.sim.recorder import Recorder, shown_reply
from rota.sim.services import Services, sign, verify
from rota.sim.sim_node import SimNode
from rota.sim.weather import Weather
from rota.sim.wires import Wires
from rota.sim.witness import Witness
from rota.wire.messages import PROTOCOL_VERSION, CoordinatorHeartbeat, Envelope

__all__ = ["Recorder", "SimNode", "World", "sign"]

LIAR_RESTART_MS = 1_000


class World:
    """The virtual clock, the nodes, and their surroundings."""

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
        has_codec: bool = False,
        has_factory: bool = False,
        liars: frozenset[NodeName] = frozenset(),
        accounts: AccountChoice = AccountChoice.SHARED,
    ) -> None:
        self.contracts = contracts
        self.accounts = accounts
        self.contracts_of = dict.fromkeys(names, contracts) if contracts_of is None else contracts_of
        self.config = config
        self.recorder = recorder or Recorder()
        self.latency_ms = latency_ms
        self.disk_ms = disk_ms
        self.service_ms = service_ms
        self.now_ms = 0
        self.payloads: dict[IntentId, bytes] = {}
        self.ledger = Ledger(contracts, self.payloads)
        self.nodes = {name: SimNode(name, config) for name in names}
        self.by_address = {contract.address: contract for contract in contracts}
        self.services = Services(self.by_address, self.payloads, bool(liars))
        self.names: dict[IntentId, str] = {}
        self.liars = liars
        self.conspiracy: Conspiracy | None = None
        self.terms = terms = Terms(
            names, self.by_address, config.confirmations, verify, self.names, liars, self._config_of
        )
        self.judge = Judge(terms, judged_in(AMONG_LIARS if liars else EVERY, has_factory))
        if liars:
            self.ledger.flaw_of = RoundRules(self.by_address).flaw_of
        self.witness = Witness(self)
        self.disks = DiskWrites(self)
        self.wires = Wires(self, weather or Weather(), has_codec)
        self.chain = Chain(self, block_ms)
        self.factory = Factory(self, self.chain)
        self.factory_address = FACTORY if has_factory else NO_CONTRACT
        self.receipts: dict[IntentId, list[Receipt]] = {}
        self.replies: dict[str, list[ReplyToUser]] = {}
        self.submitted: dict[IntentId, NodeName] = {}
        self.assemblies: dict[IntentId, int] = {}
        self.permissions: list[PermissionGranted] = []
        self.dispatches: list[RoundDispatch] = []
        self.transitions: dict[Leaf, Transition] = {}
        self.prepared: dict[IntentId, ReportPrepared] = {}
        self.on_receipt: Callable[[Receipt], None] = lambda _: None
        self.on_prepared: Callable[[IntentId], None] = lambda _: None
        self.signature_count = 0
        self.event_count = 0
        self._schedule: list[tuple[int, int, Callable[[], None]]] = []
        self._order = 0

    @property
    def weather(self) -> Weather:
        """How long messages and transactions take, and which are lost."""
        return self.wires.weather

    # Time.

    def at(self, due_ms: int, action: Callable[[], None]) -> None:
        """Schedule an action."""
        self._order += 1
        heappush(self._schedule, (due_ms, self._order, action))

    def run_until(self, end_ms: int, is_done: Callable[[], bool] = lambda: False) -> bool:
        """Run scheduled actions until `end_ms`, or until `is_done()`; returns whether it is done."""
        schedule = self._schedule
        while not is_done():
            if not schedule or schedule[0][0] > end_ms:
                self.now_ms = end_ms
                return is_done()
            self.now_ms, _, action = heappop(schedule)
            action()
        return True

    # Nodes.

    def start(self, name: NodeName) -> None:
        """Start a node from its disk. A node whose disk fails does not start."""
        node = self.nodes[name]
        assert node.core is None, f"{name} is running"
        if node.disk.is_failing:
            self.recorder.noted(self, f"{name} cannot start: its disk is failing")
            return
        node.life += 1
        for known in node.disk.contracts_taken_in(name):
            self.take_in(node, known.contract)
        stored = node.disk.restore(name, self.contracts_of[name], node.config.confirmations)
        now_ms = node.clock.read(self.now_ms)
        begun = partial(Node, name, self.contracts_of[name], node.config, now_ms, stored)
        node.core = begun(factory=self.factory_address, accounts=self.accounts)
        node.is_hung, node.is_stopping, node.is_stalled, node.effects_to_live = False, False, False, None
        node.outbox.clear()
        node.ordered_count = node.writing_count = node.durable_count = 0
        node.is_committed = False
        node.inbox.clear()
        node.unanswered.clear()
        node.tick_at_ms = None
        self.judge.tell(Started(name, remembered_by(node.core)))
        self.recorder.started(self, node)
        self._perform(node, node.core.start())
        for other in self.nodes:
            if self.factory_address != NO_CONTRACT:
                # As with the real transport: a starting node sees each connection being made, and asks its peers for
                # contracts.
                self.wires.down.add((name, other))
            self.wires.connect(name, other)
        if node.disk.incarnation_kept:
            self.chain.show_account(node, node.life)
        self.chain.poll(node, node.life)

    def crash(self, name: NodeName) -> None:
        """Kill a node: it loses its memory, and its peers' connections break at once."""
        node = self.nodes[name]
        node.core = None
        node.life += 1
        node.effects_to_live = None
        while node.untold:
            self.disks.tell_recorded(node, node.untold[0])
        self.judge.tell(Stopped(name, self.now_ms))
        self.recorder.stopped(self, node)
        self.wires.lose_all(name)

    def crash_after(self, name: NodeName, effect_count: int) -> None:
        """Kill a node between two effects of a step: after this many more effects, writes included."""
        self.nodes[name].effects_to_live = effect_count

    def hang(self, name: NodeName, is_hung: bool) -> None:
        """Hang or resume a node. A hung node keeps its memory and its connections, and takes no step."""
        node = self.nodes[name]
        node.is_hung = is_hung
        if is_hung:
            self.judge.tell(Hung(name))
            return
        self.go_on(node)

    def go_on(self, node: SimNode) -> None:
        """Resume a node that hung or stalled: execute pending effects, then queued events, then timers."""
        if node.is_hung or node.is_stalled:
            return
        self.judge.tell(Resumed(node.name, self.now_ms))
        self.flush(node)
        while node.takes_steps and node.inbox:
            self.tell(node, node.inbox.popleft())
        self.tell(node, Tick())
        self.chain.show_head(node)

    def hang_domain(self, name: NodeName, is_hung: bool) -> None:
        """Hang or resume a node's domain. Requests to assemble wait meanwhile; the node continues."""
        node = self.nodes[name]
        node.is_domain_hung = is_hung
        waiting, node.unanswered = node.unanswered, []
        for effect in waiting:
            self._compute(node, effect)

    def hang_signer(self, name: NodeName, is_hung: bool) -> None:
        """Hang or resume a node's signer. Requests to sign wait meanwhile; the node continues."""
        node = self.nodes[name]
        node.is_signer_hung = is_hung
        self.hang_domain(name, node.is_domain_hung)

    def set_disk_delay(self, name: NodeName, delay_ms: int | None) -> None:
        """Delay the node's writes; with `None`, no write completes until the delay is set again."""
        self.nodes[name].disk_delay_ms = delay_ms

    def wake(self, name: NodeName) -> None:
        """Schedule the node's next deadline again, after a change of its clock."""
        node = self.nodes[name]
        node.tick_at_ms = None
        self.schedule_tick(node)

    def stop(self, name: NodeName) -> None:
        """Ask a node to stop; it hands its role over first."""
        self.nodes[name].is_stopping = True
        self.tell(self.nodes[name], StopRequested())

    def set_ledger(self, name: NodeName, has_ledger: bool) -> None:
        """Take the ledger from a node, or return it; the node notices after `ledger_grace`."""
        node = self.nodes[name]
        node.has_ledger = has_ledger
        self.chain.show_head(node)

    def lag(self, name: NodeName, lags: bool) -> None:
        """Freeze the chain that a node sees, as behind a lagging Ethereum node, or let it catch up."""
        node = self.nodes[name]
        node.lags_at = node.disk.height if lags else None
        self.chain.show_head(node)

    def submit(self, name: NodeName, contract: ContractAddress, event: Event) -> None:
        """Send a user's request to a node."""
        assert isinstance(event, IntentSubmitted | CancelRequested | ResumeRequested), "users ask for no more"
        self.witness.asks(self.nodes[name], event)
        self.tell(self.nodes[name], ForContract(contract, event))

    def add_contract(self, contract: Contract) -> None:
        """Register a contract that will be deployed with the judge and all domains."""
        self.by_address[contract.address] = contract
        self.services.add(contract)

    def take_in(self, node: SimNode, contract: Contract) -> None:
        """Add a contract to those of a node."""
        known = self.contracts_of[node.name]
        if contract not in known:
            self.contracts_of[node.name] = (*known, contract)
        if contract not in self.contracts:
            self.contracts = (*self.contracts, contract)

    # Events and effects.

    def tell(self, node: SimNode, event: Event) -> None:
        """Step a running node with an event; a hung or stalled node gets it when it resumes."""
        core = node.core
        if core is None:
            return
        if not node.takes_steps:
            node.inbox.append(event)
            return
        self.event_count += 1
        node.step_count += 1
        self.witness.hears(node, event)
        if node.name in self.liars:
            effects = self._step_of_liar(node, core, event)
        else:
            effects = core.step(node.clock.read(self.now_ms), event)
        self.recorder.stepped(self, node)
        self.witness.stepped(core, node, effects)
        self._perform(node, effects)

    def _step_of_liar(self, node: SimNode, core: Node, event: Event) -> list[Effect]:
        """Step a liar, whose core may fail on answers that no honest core expects; it is restarted then."""
        try:
            return core.step(node.clock.read(self.now_ms), event)
        except Exception as error:
            self.recorder.noted(self, f"{node.name} lies and dies: {type(error).__name__}: {error}")
            self.crash(node.name)
            self.at(self.now_ms + LIAR_RESTART_MS, partial(self._restart_liar, node, node.life))
            return []

    def _restart_liar(self, node: SimNode, life: int) -> None:
        if node.life == life and node.core is None:
            self.start(node.name)

    def _perform(self, node: SimNode, effects: list[Effect]) -> None:
        if effects:
            self._queue(node, effects)
        if not node.is_flushing:
            if node.outbox:
                self.flush(node)
            self.schedule_tick(node)

    def _queue(self, node: SimNode, effects: list[Effect]) -> None:
        """Append effects to the outbox, in the order of their steps."""
        for effect in effects:
            if isinstance(effect, Persist):
                node.ordered_count += 1
                self.witness.indexes(node, effect)
            elif isinstance(effect, SendMessage):
                self.witness.decides(node, effect)
            node.outbox.append(effect)

    def flush(self, node: SimNode) -> None:
        """Execute effects in order, up to the first write that is not durable. Effects that this causes are queued."""
        if node.is_flushing:
            return
        node.is_flushing = True
        while node.outbox and node.core is not None and not node.is_hung:
            effect = node.outbox[0]
            if isinstance(effect, Persist):
                if not node.durable_count:
                    break
                node.outbox.popleft()
                node.durable_count -= 1
                self.disks.tell_recorded(node, effect)
                continue
            node.outbox.popleft()
            if node.effects_to_live is not None and self.dies_now(node):
                break
            self._do(node, effect)
        node.is_flushing = False
        if node.ordered_count and not node.writing_count and node.core is not None:
            self.disks.begin(node)

    def dies_now(self, node: SimNode) -> bool:
        """Count an effect against `effects_to_live`; kills the node, and returns whether, when none is left."""
        if node.effects_to_live is None:
            return False
        node.effects_to_live -= 1
        if node.effects_to_live >= 0:
            return False
        self.recorder.noted(self, f"{node.name} dies between two effects")
        self.crash(node.name)
        return True

    def schedule_tick(self, node: SimNode) -> None:
        if node.core is None or not node.takes_steps:
            return
        local_ms = node.core.next_deadline_ms()
        if local_ms is None:
            return
        due_ms = node.clock.when(local_ms)
        if due_ms < self.now_ms:
            due_ms = self.now_ms
        if node.tick_at_ms is None or due_ms < node.tick_at_ms:
            node.tick_at_ms = due_ms
            self.at(due_ms, partial(self._tick, node, node.life))

    def _tick(self, node: SimNode, life: int) -> None:
        """Step the node at its deadline, unless an earlier one has replaced it."""
        if node.life != life or node.core is None or node.tick_at_ms != self.now_ms:
            return
        node.tick_at_ms = None
        due_ms = node.core.next_deadline_ms()
        if node.takes_steps and due_ms is not None and due_ms <= node.clock.read(self.now_ms):
            self.tell(node, Tick())
        else:
            self.schedule_tick(node)

    def _do(self, node: SimNode, effect: Effect) -> None:
        self.recorder.performed(self, node, effect)
        match effect:
            case SendMessage():
                self._send(node, effect.peer, effect.envelope)
            # The most frequent effects come first.
            case AssembleIntents() | SignTransition() | CheckRound() | VerifyEndorsement() | VerifyEndorsers():
                self._compute(node, effect)
            case ReplyToUser():
                self._reply(node, effect)
            case ReportReceipt(receipt):
                self.receipts.setdefault(receipt.intent, []).append(receipt)
                self.judge.tell(Reported(node.name, receipt))
                reason = f" ({receipt.reason})" if receipt.reason else ""
                self.recorder.noted(
                    self, f"{node.name} reports {self.show(receipt.intent)} {receipt.outcome.value}{reason}"
                )
                self.on_receipt(receipt)
            case ReportPrepared(_, prepared):
                intent = prepared.transition.intent
                self.prepared[intent] = effect
                self.recorder.noted(
                    self, f"{node.name} reports {self.show(intent)} prepared, valid until {prepared.valid_until_s}"
                )
                self.on_prepared(intent)
            case SubmitTransaction(dispatch):
                if self.conspiracy is None or self.conspiracy.submits(node.name, dispatch):
                    self.chain.submit(node, dispatch)
            case FetchBlocks():
                self.chain.answer_fetch(node, effect)
            case JudgeProposal():
                self.factory.judge(node, effect)
            case CallFactory():
                self.factory.call(node, effect)
            case ListContracts() | SiftContracts() | FindGenesis() | AcquireContract():
                self.factory.acquaint(node, effect)
            case TakeInContract(known):
                self.take_in(node, known.contract)
            case LookUpIntents():
                self.tell(node, node.disk.look_up(effect, self.contracts, node.config.confirmations))
            case LoadContract(contract):
                self._load(node, contract)
            case RecallDeliveries():
                self.tell(node, node.disk.deliveries_to(node.name, effect))
            case RecallDispatches(nonces, account):
                self.tell(node, DispatchesRecalled(nonces, node.disk.recall(node.name, account, nonces), account))
            case SeeAccount(account):
                self.chain.see_account(node, account)
            case ReportFinalityBroken():
                self._report_broken(node, effect)
            case FindStates(contract, peer, leaves):
                other = peer if peer != node.name else None
                for digest, transitions in node.disk.find_states(contract, leaves, other):
                    self.tell(node, StatesFound(contract, peer, digest, transitions))
            case _:
                self._compute(node, effect)

    def _report_broken(self, node: SimNode, report: ReportFinalityBroken) -> None:
        """Report that receipts of the node no longer hold."""
        self.judge.tell(BrokenFinality(node.name, report.intents))
        undone = ", ".join(self.show(intent) for intent in report.intents) or "nothing"
        self.recorder.noted(self, f"{node.name} reports that final blocks are gone, and with them {undone}")

    def _send(self, node: SimNode, peer: NodeName, envelope: Envelope) -> None:
        """Send a message over the wires, or to the node itself."""
        if peer == node.name:
            if node.name in self.liars and self.conspiracy is not None:
                self.conspiracy.book.note(peer, peer, envelope)
            self.tell(node, MessageReceived(peer, envelope))
            return
        body = envelope.body
        if isinstance(body, CoordinatorHeartbeat):
            self.witness.beats(node, envelope, body)
        if node.protocol_version != PROTOCOL_VERSION:
            envelope = envelope.of_version(node.protocol_version)
        if node.name in self.liars and self.conspiracy is not None:
            self.conspiracy.says(node.name, peer, envelope)
        else:
            self.wires.transmit(node.name, peer, envelope)

    def _reply(self, node: SimNode, reply: ReplyToUser) -> None:
        self.replies.setdefault(reply.reply_to, []).append(reply)
        self.witness.replies(node, reply)
        self.recorder.noted(self, f"{node.name} answers {reply.reply_to}: {shown_reply(reply)}")

    def _load(self, node: SimNode, address: ContractAddress) -> None:
        """Return the stored state of a contract that is not in memory."""
        known = self.contracts_of[node.name]
        contract = next((contract for contract in known if contract.address == address), None)
        if contract is None:
            self.tell(node, ContractMissing(address))
        else:
            stored = node.disk.restore(node.name, known, node.config.confirmations)
            self.judge.tell(ContractReset(node.name, address))
            self.tell(node, ContractLoaded(contract, stored.contracts[address]))

    def _compute(self, node: SimNode, effect: Effect) -> None:
        """Execute an effect of domain, signer or key store, at once or after `service_ms`, unless that one hangs."""
        unspent: dict[StateId, State] = {}
        is_signing = isinstance(effect, SignTransition | SignDispatch)
        if (node.is_signer_hung and is_signing) or (node.is_domain_hung and isinstance(effect, AssembleIntents)):
            node.unanswered.append(effect)
            return
        if isinstance(effect, AssembleIntents):
            unspent = node.disk.unspent.get(effect.contract, {})
            for intent in effect.intents:
                self.assemblies[intent.id] = self.assemblies.get(intent.id, 0) + 1
        elif isinstance(effect, CheckRound):
            unspent = node.disk.unspent.get(effect.contract, {})
        if self.liars and isinstance(effect, SignTransition):
            self.judge.tell(Signed(node.name, effect.contract, effect.intent, effect.leaf))
        for event in self.services.answer(node.name, effect, unspent, node.life, node.disk.contents):
            self.witness.computed(node, effect, event)
            if isinstance(event, ForContract) and isinstance(event.event, RoundChecked):
                self.signature_count += bool(event.event.signature)
            if self.service_ms:
                self.at(self.now_ms + self.service_ms, partial(self._answer, node, node.life, event))
            else:
                self.tell(node, event)

    def _answer(self, node: SimNode, life: int, event: Event) -> None:
        if node.life == life:
            self.tell(node, event)

    def learn(self, contract: ContractAddress, transition: Transition) -> None:
        """Record the transition of an unknown leaf; in worlds with liars, only the parts that the leaf binds."""
        if transition.leaf in self.transitions:
            return
        if not self.liars:
            self.transitions[transition.leaf] = transition
        elif leaf_of_transition(self.services.separators[contract], transition) == transition.leaf:
            self.transitions[transition.leaf] = bound_part(transition)

    def _config_of(self, node: NodeName) -> Config:
        return self.nodes[node].config

    # Names.

    def show(self, intent: IntentId) -> str:
        """The name of an intent; scenarios choose nonces that are names."""
        return show(intent, self.names)
