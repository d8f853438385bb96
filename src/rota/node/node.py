"""Start reading here: the pure machine of a whole node.

`step(now, event) -> effects`. The node owns one sequencer per contract, as far as they are in memory, and
their common parts: the intake of its users' intents, the block index, the submitters, the distribution
of private states, and contracts that are not deployed yet. It routes each event to the parts concerned, handles
sequencers' orders to the submitters itself, and passes the other effects on. The node's memory may be ahead of its
store; its messages are not, because effects leave after the records that they depend on. Its first effect makes its
new incarnation durable: none of its messages can be mistaken for one of an earlier run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from rota.chain.effects import BlocksIndexed, FetchBlocks, FinalityBroken
from rota.chain.events import (
    AccountChosen,
    AccountSeen,
    BlocksFetched,
    DispatchesRecalled,
    DispatchNotSigned,
    DispatchSigned,
    HeadSeen,
    TransactionRefused,
    TransactionSent,
)
from rota.chain.index import ChainIndex, IndexChange
from rota.chain.submitters import AccountChoice, Submitters
from rota.directory.acquaintance_events import AcquisitionEnded, ContractsListed, ContractsSifted, GenesisFound
from rota.directory.consent import OPEN, Consent
from rota.directory.deployment_events import FactoryCalled, FactoryRefused, ProposalDecided, ProposalJudged
from rota.directory.deployments import Deployments
from rota.directory.effects import ContractTaken, ContractWanted, Proposal, TakeInContract
from rota.exchange.distribution import DeliveriesRecalled, Distribution
from rota.machine.context import Ids
from rota.machine.effects import (
    DispatchRound,
    Effect,
    IntentAccepted,
    Persist,
    Record,
    ReplyToUser,
    ReportReceipt,
    SendMessage,
    TransitionPrepared,
)
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
from rota.machine.tables import Event
from rota.model.blocks import ChainBlock, LedgerOutcome, Outcomes
from rota.model.config import Config
from rota.model.consistency import Consistent
from rota.model.types import NO_CONTRACT, Contract, ContractAddress, Dependency, IntentId, NodeName
from rota.node.acquaintance import Acquaintance
from rota.node.dependencies import Dependencies
from rota.node.dispatches import Dispatches
from rota.node.effects import NodeStarted, ReportFinalityBroken
from rota.node.events import (
    ContractLoaded,
    ContractMissing,
    ForContract,
    IntentsLookedUp,
    PublicTransactionEnded,
    RoundsMadeUp,
    StatesFound,
    StatesWanted,
)
from rota.node.explanation import Explanation, explain_at_coordinator, explain_at_sender, explain_deployment
from rota.node.intake import Intake
from rota.node.paging import Sequencers
from rota.node.private_states import PrivateStates
from rota.node.stored import StoredNode, with_dispatches
from rota.node.verifier_requests import VerifierRequests
from rota.sequencer.effects import DistributeStates, StoreStates
from rota.sequencer.events import (
    BlockIndexed,
    BlocksRemoved,
    LedgerBack,
    LedgerLost,
    OutcomesFinal,
    PeerSpoke,
    TransitionsShown,
)
from rota.sequencer.sequencer import Sequencer, StoredContract
from rota.wire.messages import (
    ContractsRequest,
    ContractsResponse,
    ContractTakenIn,
    DeploymentAnswer,
    DeploymentProposal,
    DeploymentWithdrawn,
    Envelope,
    GenesisRequest,
    GenesisResponse,
    Message,
    Reply,
    StateDistribution,
    StateDistributionAcknowledgement,
    StateRequest,
    VerifierRequest,
    VerifierResponse,
)

# A node's own records, of its runs, its index and its nonces, belong to no contract.
OWN = ContractAddress("")
# Events that have a contract loaded from the store.
LOADING_EVENTS = (MessageReceived, IntentSubmitted, CancelRequested, ResumeRequested, VerifierWanted)
STATE_MESSAGES = (StateDistribution, StateDistributionAcknowledgement, StateRequest)
DEPLOYMENT_MESSAGES = (DeploymentProposal, DeploymentAnswer, ContractTakenIn, DeploymentWithdrawn)
ACQUAINTANCE_MESSAGES = (ContractsRequest, ContractsResponse, GenesisRequest, GenesisResponse)
NODE_MESSAGES: frozenset[type[Message]] = frozenset((*STATE_MESSAGES, *DEPLOYMENT_MESSAGES, *ACQUAINTANCE_MESSAGES))


class Node:
    """One running node. It gets everything as arguments; it looks up nothing. `signer` names the payer of its gas.

    Contracts are deployed through `factory`. `consent` is the policy for proposals to endorse or coordinate.
    """

    def __init__(
        self,
        name: NodeName,
        contracts: tuple[Contract, ...],
        config: Config,
        now_ms: int,
        stored: StoredNode,
        signer: str = "",
        factory: ContractAddress = NO_CONTRACT,
        consent: Consent = OPEN,
        accounts: AccountChoice = AccountChoice.SHARED,
    ) -> None:
        self.name = name
        self.config = config
        self.incarnation = stored.incarnation + 1
        self.ids = Ids(self.incarnation)
        self.now_ms = now_ms
        self.index = ChainIndex(config, now_ms, stored.blocks, stored.final_height)
        self.height, self.chain_time_s = self._standing_before(stored.blocks)
        self.final_time_s = self.chain_time_s
        self.has_ledger = not self.index.is_lost
        self.has_caught_up = False
        self.lost_peers: dict[NodeName, None] = {}
        self.returns: dict[NodeName, int] = {}
        self.return_count = 0
        self.without_ledger: dict[ContractAddress, None] = {}
        self.intake = Intake(name, config)
        self.submitters = Submitters(signer or name, config, accounts, stored.accounts, stored.dispatches)
        self.distribution = Distribution(name, config, now_ms, stored.owed)
        own = stored.contracts.get(NO_CONTRACT, StoredContract())
        standing = (self.height, self.chain_time_s)
        self.deployments = Deployments(
            name,
            self.ids,
            config,
            now_ms,
            standing,
            tuple(restored.intent for restored in own.intents),
            dict(own.outcomes),
            stored.deployments,
            factory,
            consent,
        )
        self.states: PrivateStates = PrivateStates(self, stored.sent)
        self.verifiers = VerifierRequests(self)
        self.acquaintance: Acquaintance = Acquaintance(self, factory)
        self.dispatches: Dispatches = Dispatches(self)
        self.effects: list[Effect] = []
        self.dependencies: Dependencies = Dependencies(self)
        self.sequencers = Sequencers(config)
        for contract in contracts:
            self._add(contract, stored.contracts.get(contract.address, StoredContract()))
        for deployment in self.deployments.own.values():
            self._note_open(deployment.intent.id, NO_CONTRACT, deployment.unmet)

    def start(self) -> list[Effect]:
        """Begin a new run: record its number, then continue the work of the last one.

        Blocks that were not final are processed again, because the memory that had their outcomes is gone. Contracts
        continue when the index has caught up: a delegation at a height long past would be refused (protocol §5).
        """
        self.persist_own(NodeStarted(self.incarnation))
        self.perform(NO_CONTRACT, self.deployments.start())
        for block in self.index.unfinal():
            self._take_block(block)
        self.dispatches.start()
        self.sequencers.make_room(0)
        return self._take_effects()

    def step(self, now_ms: int, event: Event) -> list[Effect]:
        """Handle one event at this time and return the effects."""
        self.now_ms = now_ms
        ROUTES.get(type(event), Node._take_for_all)(self, event)
        return self._take_effects()

    def next_deadline_ms(self) -> int | None:
        """Return when the next `Tick` is due."""
        earliest_ms = self.index.next_due_ms()
        for due_ms in (
            self.sequencers.next_due_ms(),
            self.dispatches.next_heartbeat_ms,
            self.distribution.next_due_ms(),
            self.states.incomplete.look_at_ms,
            self.deployments.timers.next_due_ms,
            self.acquaintance.timers.next_due_ms,
        ):
            if due_ms is not None and (earliest_ms is None or due_ms < earliest_ms):
                earliest_ms = due_ms
        return earliest_ms

    @property
    def questions(self) -> tuple[Proposal, ...]:
        """The contracts that name this node and await its operator's decision, the oldest first."""
        return self.deployments.proposals.questions

    def explain(self, intent: IntentId) -> Explanation:
        """Explain an intent's state and what it waits for, at which nodes; by the coordinator, if that is here."""
        for sequencer in self.sequencers.loaded.values():
            held = sequencer.coordinator.transactions.get(intent)
            found = explain_at_sender(sequencer, intent)
            if held is not None and not held.is_gone:
                found = explain_at_coordinator(sequencer, intent)
            if found is not None:
                return found
        deployment = self.deployments.own.get(intent)
        if deployment is not None:
            return explain_deployment(deployment)
        outcome = self.intake.outcomes.get(intent)
        return Explanation(outcome.value if outcome is not None else "unknown")

    # Peers.

    def _note_sign_of_life(self, contract: ContractAddress, event: MessageReceived) -> None:
        """Have the sequencer note a message, without a step if it is up to date and the peer is not silent."""
        sequencer = self.sequencers.loaded[contract]
        is_up_to_date = sequencer.context.height == self.height and sequencer.lost_peers == self.lost_peers
        if not (is_up_to_date and sequencer.hears_again(self.now_ms, event.peer, event.envelope)):
            self.tell(contract, PeerSpoke(event.peer, event.envelope))

    def _take_message(self, event: MessageReceived) -> None:
        """Take messages for the node; pass others to their contract, unless that is hidden from the peer."""
        contract, body = event.envelope.contract, event.envelope.body
        if self.acquaintance.is_hidden_from(event.peer, contract, body):
            self.acquaintance.note_unknown(event.peer, contract, is_decoy=True)
        elif type(body) in NODE_MESSAGES:
            self._take_for_node(contract, event)
        elif type(body) is VerifierRequest and not self.verifiers.must_look_up(event.peer, contract, body):
            return
        elif contract != NO_CONTRACT or isinstance(body, VerifierRequest | VerifierResponse):
            self.tell(contract, event)

    def _take_for_node(self, contract: ContractAddress, event: MessageReceived) -> None:
        body, is_loaded = event.envelope.body, contract in self.sequencers.loaded
        if is_loaded:
            self._note_sign_of_life(contract, event)
        if isinstance(body, STATE_MESSAGES) and (is_loaded or not isinstance(body, StateDistribution)):
            self.states.take(event.peer, contract, body)
        elif isinstance(body, StateDistribution):
            self._await_loading(contract, event)
        elif isinstance(body, DEPLOYMENT_MESSAGES):
            self.tell(NO_CONTRACT, event)
        else:
            assert isinstance(body, ACQUAINTANCE_MESSAGES), "every message for the node is of one of these kinds"
            self.acquaintance.take(event.peer, contract, body)

    def _take_for_deployments(self, event: Event) -> None:
        if isinstance(event, AcquisitionEnded):
            self.acquaintance.handle(event)
        self.tell(NO_CONTRACT, event)

    # Users.

    def _take_for_contract(self, contract: ContractAddress, event: Event) -> None:
        if isinstance(event, IntentSubmitted):
            self._take_intake(self.intake.take(self.intake.bounded(event, self.chain_time_s)))
            return
        if isinstance(event, VerifierLookedUp):
            event = self.verifiers.take_found(contract, event)
        self.tell(contract, event)

    def _take_intake(self, answer: IntentSubmitted | Effect | None) -> None:
        """Give an accepted intent to its sequencer, which stores it; else emit a reply or a question to the store."""
        if isinstance(answer, IntentSubmitted):
            self.tell(answer.intent.contract, answer)
        elif answer is not None:
            self.effects.append(answer)

    # The store.

    def _take_from_store(self, event: ContractLoaded | ContractMissing) -> None:
        """Load the contract and handle the events that waited for it; if it is missing, ask the peers that named it."""
        if isinstance(event, ContractLoaded):
            address = event.contract.address
            self._bring_in(event.contract, event.stored)
        else:
            address = event.contract
        for waited in self.sequencers.take_loaded(address):
            if isinstance(event, ContractMissing) and isinstance(waited, MessageReceived):
                self.acquaintance.note_unknown(waited.peer, address)
            elif isinstance(event, ContractMissing):
                self._refuse(waited, f"{address} is not known to {self.name}", field="to")
            elif isinstance(waited, MessageReceived):
                self._take_message(waited)
            else:
                self.tell(address, waited)

    def _bring_in(self, contract: Contract, stored: StoredContract) -> None:
        """Bring a contract into memory, in the place of an idle one; give it outcomes that are not in the store."""
        if contract.address not in self.sequencers.loaded:
            self.sequencers.make_room(1)
            self._add(contract, stored)
            self._replay(contract.address, stored.final_height)
            self.tell(contract.address, Tick())

    def _add(self, contract: Contract, stored: StoredContract) -> None:
        """Bring a contract into memory, with this node's dispatches of it that have no outcome."""
        dispatches = tuple(each.dispatch for each in self.submitters.submissions(contract.address))
        sequencer = Sequencer(
            self.name,
            self.ids,
            contract,
            self.config,
            self.now_ms,
            *self._standing_before(tuple(self.index.blocks)),
            with_dispatches(stored, dispatches, contract.address),
        )
        sequencer.return_count = self.return_count
        self.sequencers.add(contract.address, sequencer)
        for open_ in sequencer.sender.transactions.values():
            self._note_open(open_.intent.id, contract.address, open_.open_dependencies)

    def _note_open(self, intent: IntentId, contract: ContractAddress, dependencies: Iterable[Dependency]) -> None:
        """Register an intent that an earlier run accepted."""
        self.intake.open[intent] = contract
        self.dependencies.note(contract, intent, dependencies)

    def _replay(self, address: ContractAddress, final_height: int) -> None:
        """Give a contract that comes into memory its outcomes in blocks that are not final.

        The store counts from its latest block, this node from the highest that there was: after a reorganisation, and
        while the store is being read, more is final here than there. Those blocks are included, once.
        """
        replayed = self.index.above(min(final_height, self.index.final_height))
        for block in replayed:
            self._step(address, BlockIndexed(block.height, block.time_s, _of(address, self._outcomes_of(block))))
        for block in replayed:
            if block.height <= self.index.final_height:
                self._step(address, OutcomesFinal(block.time_s, _of(address, self._outcomes_of(block))))

    def _refuse(self, event: Event, error: str, is_temporary: bool = False, field: str = "") -> None:
        """Reply to a user. Peers repeat their messages."""
        if isinstance(event, IntentSubmitted):
            self.intake.take_refused(event.intent)
            self.effects.append(ReplyToUser(event.reply_to, event.intent.id, error, is_temporary, field))
        elif isinstance(event, CancelRequested | ResumeRequested):
            self.effects.append(ReplyToUser(event.reply_to, event.intent, error, is_temporary))

    def _take_looked_up(self, event: IntentsLookedUp) -> None:
        if not self.dependencies.take_looked_up(event):
            self._take_intake(self.intake.take_answer(event))

    def _take_made_up(self, event: RoundsMadeUp) -> None:
        self.states.take_made_up(event)
        self.dependencies.awaited.ask_again(event.contract)

    # The chain.

    def _take_from_chain(self, event: HeadSeen | BlocksFetched) -> None:
        if isinstance(event, HeadSeen):
            self.index.take_head(self.now_ms, event)
            self.submitters.gas_price.base_fee_wei = event.base_fee_wei
        else:
            change = self.index.take_blocks(self.now_ms, event)
            if change is not None:
                self._take_change(change)
        self._look_at_chain()

    def _take_change(self, change: IndexChange) -> None:
        """Undo removed blocks, latest first, and process added ones; then the ones that became final."""
        final_height, broken = self.index.final_height, self.index.broken_by(change)
        taking_in = self.deployments.known_in(change.added)
        taken = tuple(ContractTaken(known) for known in taking_in)
        indexed = BlocksIndexed(change.parted_at, change.added)
        self.persist_own(*((broken,) if broken is not None else ()), indexed, *taken)
        self.index.take_change(self.now_ms, change)
        if broken is not None:
            self._report_broken(broken)
        self.effects.extend(TakeInContract(known) for known in taking_in)
        self._take_removed(change.parted_at, change.removed, final_height)
        for block in change.added:
            self._take_block(block)
        self.perform(NO_CONTRACT, self.deployments.taken_in(taking_in))
        for block in self.index.take_final():
            self._take_final(block)

    def _report_broken(self, broken: FinalityBroken) -> None:
        """Report receipts that no longer hold; no new intent may depend on them."""
        undone = tuple(dict.fromkeys(each.intent for each in broken.undone))
        for intent in undone:
            self.intake.note_undone(intent)
        for each in broken.undone:
            if each.contract == NO_CONTRACT:
                self.deployments.note_undone(each.intent)
        self.effects.append(ReportFinalityBroken(broken.parted_at, broken.final_height, undone))

    def _look_at_chain(self) -> None:
        """Fetch missing blocks, and report when the ledger is lost or found again (protocol §4.1)."""
        fetch = self.index.next_fetch(self.now_ms)
        if fetch is not None:
            self.effects.append(FetchBlocks(fetch.first, fetch.last, self.deployments.awaited()))
        if not self.index.has_just_been_lost(self.now_ms):
            self.index.has_just_come_back(self.now_ms)
        has_ledger = not self.index.is_lost
        if has_ledger != self.has_ledger:
            self._take_for_all(LedgerBack() if has_ledger else LedgerLost())

    def _take_block(self, block: ChainBlock) -> None:
        """Notify sequencers with work of the new height, and affected ones of outcomes; idle ones catch up later."""
        self.height, self.chain_time_s = block.height, block.time_s
        outcomes = self._outcomes_of(block)
        self.submitters.settle(block, outcomes)
        self.states.take_outcomes(outcomes)
        self._stand()
        self.perform(NO_CONTRACT, self.deployments.block_indexed(block))
        for contract in self._concerned(outcomes):
            self._step(contract, BlockIndexed(block.height, block.time_s, _of(contract, outcomes)))

    def _take_removed(self, parted_at: int, blocks: tuple[ChainBlock, ...], final_height: int) -> None:
        """Undo removed blocks: the height falls, and the submitters send the affected transactions again."""
        if not blocks:
            return
        self.height = parted_at
        undone: list[tuple[ContractAddress, LedgerOutcome]] = []
        self._stand()
        self.perform(NO_CONTRACT, self.deployments.blocks_removed(blocks))
        for block in blocks:
            outcomes = self._outcomes_of(block)
            self.submitters.undo(block, outcomes, was_final=block.height <= final_height)
            undone.extend(reversed(outcomes))
        self.states.undo_outcomes(tuple(undone))
        self.dispatches.recall()
        for contract in self._concerned(tuple(undone)):
            self._step(contract, BlocksRemoved(parted_at, _of(contract, tuple(undone))))

    def _take_final(self, block: ChainBlock) -> None:
        """Note a final block: its outcomes are not undone any more."""
        self.final_time_s = block.time_s
        outcomes = self._outcomes_of(block)
        self.submitters.finalise(block, outcomes)
        self.states.time_is_final(block.time_s)
        if effects := self.deployments.block_final(block):
            self.perform(NO_CONTRACT, effects)
        for contract in self._concerned(outcomes):
            self._step(contract, OutcomesFinal(block.time_s, _of(contract, outcomes)))
        self.dependencies.block_final(block)

    def _outcomes_of(self, block: ChainBlock) -> Outcomes:
        """Return the outcomes that every node reads in the block, and failures of this node's own transactions."""
        return block.outcomes + self.submitters.failures_in(block)

    def _standing_before(self, blocks: tuple[ChainBlock, ...]) -> tuple[int, int]:
        """Return height and time of the latest final block, at which a new run begins."""
        final = [block for block in blocks if block.height <= self.index.final_height] or list(blocks[:1])
        return (final[-1].height, final[-1].time_s) if final else (0, 0)

    def _concerned(self, outcomes: Outcomes) -> tuple[ContractAddress, ...]:
        """Return the contracts that are awake, and those with outcomes."""
        return tuple(dict.fromkeys((*self.sequencers.awake, *(address for address, _ in outcomes))))

    # For all contracts.

    def _take_for_all(self, event: Event) -> None:
        """Take changes of connections, ledger and time; contracts that sleep catch up when they wake."""
        match event:
            case Tick():
                self._run_timers()
                self._look_at_chain()
            case StopRequested():
                for contract in tuple(self.sequencers.awake):
                    self.tell(contract, event)
            case ConnectionLost(peer) | ConnectionMade(peer):
                is_made = isinstance(event, ConnectionMade)
                self._note_connection(peer, is_made)
                self.distribution.connection_changed(self.now_ms, peer, is_made)
                self.states.deliver()
                self.acquaintance.connection_changed(peer, is_made)
                self.tell(NO_CONTRACT, event)
                self._wake_all()
            case _:
                assert isinstance(event, LedgerLost | LedgerBack), f"a node does not know {type(event).__name__}"
                self.has_ledger = isinstance(event, LedgerBack)
                self._wake_all()
                if self.has_ledger and not self.has_caught_up:
                    self._go_on()

    def _go_on(self) -> None:
        """Continue the work of the last run: the index has caught up for the first time in this one."""
        self.has_caught_up = True
        for contract in tuple(self.sequencers.loaded):
            self.tell(contract, Tick())
        self.sequencers.make_room(0)

    def _note_connection(self, peer: NodeName, is_made: bool) -> None:
        """Record a change of connection; returns are counted for contracts that sleep through a loss and a return."""
        if not is_made:
            self.lost_peers[peer] = None
        elif peer in self.lost_peers:
            del self.lost_peers[peer]
            self.return_count += 1
            self.returns[peer] = self.return_count

    def _wake_all(self) -> None:
        """Update the contracts that are awake, and those that have reported a lost ledger."""
        for contract in tuple(dict.fromkeys((*self.sequencers.awake, *self.without_ledger))):
            self._wake(contract, self.sequencers.loaded[contract])

    def _run_timers(self) -> None:
        """Run due timers only, so that an idle contract costs nothing."""
        beat_ms = self.dispatches.next_heartbeat_ms
        if beat_ms is not None and beat_ms <= self.now_ms:
            self.dispatches.beat()
        self.states.deliver()
        self.states.ask_for_incomplete()
        self.acquaintance.run_timers()
        due_ms = self.deployments.timers.next_due_ms
        if due_ms is not None and due_ms <= self.now_ms:
            self.tell(NO_CONTRACT, Tick())
        while (contract := self.sequencers.take_due(self.now_ms)) is not None:
            self.tell(contract, Tick())

    # Effects.

    def tell(self, contract: ContractAddress, event: Event) -> None:
        """Give an event to a sequencer; one that slept catches up first, one that is not in memory is loaded."""
        if contract == NO_CONTRACT:
            self._stand()
            self.perform(NO_CONTRACT, self.deployments.step(self.now_ms, event))
            return
        sequencer = self.sequencers.loaded.get(contract)
        if sequencer is None:
            self._await_loading(contract, event)
            return
        self._wake(contract, sequencer)
        if effects := sequencer.step(self.now_ms, event):
            self.perform(contract, effects)
        self.sequencers.note_step(contract, sequencer)

    def _stand(self) -> None:
        """Set height and ledger for the deployments, which have no sequencer."""
        self.deployments.stand_at(self.now_ms, self.height, self.chain_time_s, self.has_ledger)

    def _wake(self, contract: ContractAddress, sequencer: Sequencer) -> None:
        """Give a sequencer the missed height, connections and ledger status, if any."""
        context = sequencer.context
        if context.height != self.height or context.chain_time_s != self.chain_time_s:
            self._step(contract, BlockIndexed(self.height, self.chain_time_s))
        if sequencer.sender.final_time_s != self.final_time_s:
            self._step(contract, OutcomesFinal(self.final_time_s, ()))
        if sequencer.return_count != self.return_count:
            heard, sequencer.return_count = sequencer.return_count, self.return_count
            for peer in [peer for peer, number in self.returns.items() if number > heard]:
                self._step(contract, ConnectionMade(peer))
        if sequencer.lost_peers != self.lost_peers:
            for peer in [peer for peer in self.lost_peers if peer not in sequencer.lost_peers]:
                self._step(contract, ConnectionLost(peer))
        if context.has_ledger and not self.has_ledger:
            self.without_ledger[contract] = None
            self._step(contract, LedgerLost())
        elif self.has_ledger and not context.has_ledger:
            del self.without_ledger[contract]
            self._step(contract, LedgerBack())

    def _await_loading(self, contract: ContractAddress, event: Event) -> None:
        """Load a contract for a message or a user's request only, and queue the event meanwhile."""
        if not isinstance(event, LOADING_EVENTS):
            return
        is_overloaded = isinstance(event, IntentSubmitted) and self.sequencers.is_overloaded(contract)
        if not self.sequencers.may_wait(self.now_ms, event) or is_overloaded:
            self._refuse(event, f"{self.name} has no room for one more contract; try again later", is_temporary=True)
            return
        load = self.sequencers.await_loading(self.now_ms, contract, event)
        if load is not None:
            self.effects.append(load)

    def _step(self, contract: ContractAddress, event: Event) -> None:
        """Step a sequencer because of the chain; one that is not in memory is loaded if there is room."""
        sequencer = self.sequencers.loaded.get(contract)
        if sequencer is not None:
            if effects := sequencer.step(self.now_ms, event):
                self.perform(contract, effects)
            self.sequencers.note_step(contract, sequencer)
        else:
            self.load(contract)

    def load(self, contract: ContractAddress) -> None:
        """Bring a contract into memory without paging another out."""
        load = self.sequencers.load(self.now_ms, contract) if self.sequencers.has_room else None
        if load is not None:
            self.effects.append(load)

    def perform(self, contract: ContractAddress, effects: list[Effect]) -> None:
        """Handle a sequencer's effects for the node's own parts; pass on the others."""
        records: tuple[Record, ...] = ()
        for effect in effects:
            if type(effect) not in KEPT_INSIDE:
                self.effects.append(effect)
                continue
            match effect:
                case Persist():
                    records = effect.records
                    self.effects.append(effect)
                    for record in records:
                        if type(record) is IntentAccepted:
                            self.intake.take_accepted(record.intent)
                case DispatchRound():
                    self.dispatches.take_round(effect)
                case DistributeStates(_, leaf):
                    self.states.distribute_own(contract, leaf)
                case StoreStates(_, transition):
                    self.states.store_seen(contract, transition)
                case ContractWanted(wanted, peer):
                    self.acquaintance.want_again(peer, wanted)
                case _:
                    assert isinstance(effect, ReportReceipt), "all of `KEPT_INSIDE` are here"
                    self.effects.append(effect)
                    self.dependencies.note_outcome(effect.receipt.intent, effect.receipt.outcome)
        for record in records:
            if type(record) is IntentAccepted and record.intent.dependencies:
                self.dependencies.note_accepted(record.intent)
        if prepared := [record for record in records if type(record) is TransitionPrepared]:
            self.states.distribute_prepared(contract, prepared)

    def deliver_states(self) -> None:
        """Send the private states that are due."""
        self.states.deliver()

    def persist_own(self, *records: Record) -> None:
        """Have records of the node itself written."""
        self.persist(OWN, *records)

    def persist(self, contract: ContractAddress, *records: Record) -> None:
        """Have these records written."""
        self.effects.append(Persist(contract, records))

    def show(self, peer: NodeName, contract: ContractAddress, transitions: tuple[Consistent, ...]) -> None:
        """Show transitions to a sender that has an unknown leaf under an intent's id (trust rule 1)."""
        if self.sequencers.loaded[contract].sender.doubtful:
            self.tell(contract, TransitionsShown(peer, transitions))

    def send(self, peer: NodeName, contract: ContractAddress, body: Message) -> None:
        """Send a message to a peer; one to this node itself needs no transport."""
        answers = body.in_reply_to if isinstance(body, Reply) else None
        envelope = Envelope(
            contract, self.ids.next(), self.incarnation, self.height, body, not self.has_ledger, answers
        )
        if peer == self.name:
            self.tell(contract, MessageReceived(peer, envelope))
        else:
            self.effects.append(SendMessage(peer, envelope))

    def _take_effects(self) -> list[Effect]:
        """Return the effects of this step."""
        if self.dependencies.awaited.unasked:
            self.dependencies.ask_for_leaves()
        effects, self.effects = self.effects, []
        return effects


def _of(contract: ContractAddress, outcomes: Outcomes) -> tuple[LedgerOutcome, ...]:
    return tuple(outcome for address, outcome in outcomes if address == contract)


# Effects of a sequencer that the node itself handles.
KEPT_INSIDE: Final = frozenset((Persist, DispatchRound, DistributeStates, StoreStates, ContractWanted, ReportReceipt))
Route = Callable[[Node, Any], None]
_to_acquaintance: Final[Route] = lambda node, event: node.acquaintance.handle(event)  # noqa: E731
_to_dispatches: Final[Route] = lambda node, event: node.dispatches.take(event)  # noqa: E731
# The handler of an event, by its type. `_take_for_all` handles the other types.
ROUTES: Final[Mapping[type[Event], Route]] = {
    MessageReceived: Node._take_message,
    ForContract: lambda node, event: node._take_for_contract(event.contract, event.event),
    **dict.fromkeys((HeadSeen, BlocksFetched), Node._take_from_chain),
    **dict.fromkeys((DispatchSigned, DispatchNotSigned, TransactionSent, TransactionRefused), _to_dispatches),
    **dict.fromkeys((AccountSeen, DispatchesRecalled), _to_dispatches),
    AccountChosen: lambda node, event: node.submitters.take_chosen(event),
    RoundsMadeUp: Node._take_made_up,
    **dict.fromkeys((StatesWanted, StatesFound, DeliveriesRecalled), lambda node, event: node.states.take_own(event)),
    IntentsLookedUp: Node._take_looked_up,
    PublicTransactionEnded: lambda node, event: node.dependencies.note_outcome(event.intent, event.outcome),
    **dict.fromkeys((ContractLoaded, ContractMissing), Node._take_from_store),
    **dict.fromkeys((ProposalJudged, ProposalDecided, AcquisitionEnded), Node._take_for_deployments),
    **dict.fromkeys((FactoryCalled, FactoryRefused), Node._take_for_deployments),
    **dict.fromkeys((ContractsListed, ContractsSifted, GenesisFound), _to_acquaintance),
}
