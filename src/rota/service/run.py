"""One run of a node: the core with its adapters, from start to stop.

Theory of operation. The adapters perform the core's effects and report events to it; this module is the wiring between
them and decides nothing. A run begins when the store has returned the state that the previous run left. From then on
three things run until the node is asked to stop: the engine that steps the core, the chain follower, and the
connections to peers.

On the first request to stop, the core hands over its roles, and the node waits until no contract needs it, at most
`stop_timeout_ms`. Work that is still under way then is left to the next run, as after a crash.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

from rota.chain.effects import FetchBlocks, RecallDispatches, RoundDispatch, SeeAccount, SignDispatch, SubmitTransaction
from rota.chain.events import HeadSeen
from rota.chain.submitters import AccountChoice
from rota.directory.consent import Consent, Decision
from rota.directory.effects import (
    AcquireContract,
    CallFactory,
    DeploymentProposed,
    FindGenesis,
    JudgeProposal,
    ListContracts,
    SiftContracts,
    TakeInContract,
)
from rota.engine.accepting import Acceptances
from rota.engine.contracts import KnownContracts
from rota.engine.encryption import StateEncryption
from rota.engine.loop import Engine
from rota.engine.services import Services
from rota.engine.users import Users
from rota.engine.verifiers import Verifiers
from rota.exchange.effects import RecallDeliveries
from rota.host import Hosted, UserCall
from rota.ledger.public_chain import PublicChain
from rota.logs import catalogue
from rota.logs.trouble import Trouble
from rota.machine.effects import (
    Effect,
    FindStates,
    Persist,
    Record,
    ReplyToUser,
    ReportReceipt,
    ReportVerifier,
    SendMessage,
    TransitionPrepared,
)
from rota.machine.events import ConnectionMade, MessageReceived, StopRequested
from rota.machine.tables import Event
from rota.model.config import Config
from rota.model.sharing import holders_of
from rota.model.types import NO_CONTRACT, BlockHash, ContractAddress, IntentId, KnownContract, NodeName, intent_text
from rota.node.effects import LoadContract, LookUpIntents, ReportFinalityBroken
from rota.node.events import ContractLoaded, ContractMissing, RoundsMadeUp, StatesFound, StatesWanted
from rota.node.node import Node as Core
from rota.ports import Ledger, Peers, Store, StoredChain, Tell, Unavailable, Written
from rota.sequencer.effects import ReportPrepared
from rota.service.contracts.acquainting import Acquainting
from rota.service.contracts.arrears import Arrears, RoundsOf
from rota.service.contracts.asking_makers import Makers
from rota.service.contracts.confirming import Confirming
from rota.service.contracts.deploying import Deploying
from rota.service.explain.leaders import Leaders
from rota.service.groups.mail import GroupMail
from rota.service.public.transactions import PublicTransactions
from rota.service.receipts.holdings import Holdings
from rota.service.receipts.order import ReceiptOrder
from rota.service.submissions.announcing import Announcements
from rota.service.watch.feed import LiveFeed
from rota.wire.messages import CoordinatorState

STORE_RETRY_S: Final = 0.5
DRAIN_LOOK_S: Final = 0.02

# `mail` and `holdings` get these events before the core does, and consume some.
_MAY_BE_FOR_SERVICES: Final = (MessageReceived, StatesFound, ConnectionMade)
# A coordinator in one of these states has handed over its intents.
_LEFT: Final = (CoordinatorState.IDLE, CoordinatorState.OBSERVING, CoordinatorState.CLOSING)


class Watcher(Protocol):
    """Observe every event and effect of a node; for traces, and for tests that judge a node by its behaviour."""

    def saw_event(self, event: Event) -> None:
        """An event was given to the core."""
        ...

    def saw_effect(self, effect: Effect) -> None:
        """The core ordered an effect, which is about to be performed."""
        ...


# Takes the chain that earlier runs used; returns the confirmations that this run uses and the chain's block 0. Raises
# `Unavailable` when the chain does not answer or is a different one.
DecideChain = Callable[[StoredChain], Awaitable[tuple[int, BlockHash | None]]]


@dataclass(frozen=True, slots=True)
class ChainQuestions:
    """Queries to the chain beside the index: its height, and the rounds of one contract.

    `forget_tree` is called when the rounds of a contract have been backfilled.
    """

    latest_height: Callable[[], Awaitable[int]]
    rounds_of: RoundsOf
    forget_tree: Callable[[ContractAddress], None]


@dataclass(frozen=True, slots=True)
class Adapters:
    """The adapters of one node. All of them report events through the same callback."""

    store: Store
    ledger: Ledger
    peers: Peers
    services: Services
    verifiers: Verifiers
    announcements: Announcements
    chain: ChainQuestions
    deploying: Deploying
    acquainting: Acquainting
    public_chain: PublicChain
    public: PublicTransactions
    encryption: StateEncryption


class RunningNode:
    """One run of a node: see `run`. `adapters_for` gets the callback for events; `account` pays.

    Contracts are deployed through `factory`. `consent` decides which proposals to endorse or coordinate are accepted.
    """

    def __init__(
        self,
        name: NodeName,
        config: Config,
        contracts: KnownContracts,
        adapters_for: Callable[[Tell], Adapters],
        stop_timeout_ms: int,
        account: ContractAddress,
        watcher: Watcher | None = None,
        factory: ContractAddress | None = None,
        decide_chain: DecideChain | None = None,
        consent: Consent = Consent(),  # noqa: B008  # a frozen value
        accounts: AccountChoice = AccountChoice.AUTO,
    ) -> None:
        self.name: Final = name
        self.config = config
        self._decide_chain: Final = decide_chain
        self.consent: Final = consent
        self.accounts: Final = accounts
        self.waits_for = "the store: the node has not begun; see its log for what it waits for"
        self.contracts: Final = contracts
        contracts.is_complete = False
        self.users: Final = Users()
        self.acceptances: Final = Acceptances()
        self.is_stopping = False
        # Further tasks that run while the store is open; one that ends by itself has failed.
        self.beside: Final[list[Callable[[], Coroutine[Any, Any, None]]]] = []
        self.rounds_dispatched = 0
        self.submissions = 0
        self.factory: Final = factory
        self.account: Final = account
        self._stop_timeout_s: Final = stop_timeout_ms / 1_000
        self._watcher: Final = watcher
        self._ended: Final[asyncio.Future[None]] = asyncio.get_running_loop().create_future()
        self._stop: Final = asyncio.Event()
        self.started: Final = asyncio.Event()
        # The hash of the chain's block 0, if the chain reports it.
        self.genesis: BlockHash | None = None
        self.engine: Final = Engine(self._perform, self.fail, name=name)
        self.adapters: Final = adapters_for(self.tell)
        self.mail: Final = GroupMail(
            name,
            contracts,
            self.adapters.store,
            self.adapters.peers.send,
            self._author,
            self.engine.clock.now_ms,
            self.acceptances,
        )
        self._makers: Final = Makers(
            contracts, self.adapters.peers.send, self._author, lambda: self.engine.core.deployments.connected
        )
        self.holdings: Final = Holdings(
            name,
            contracts,
            self.adapters.store,
            self.adapters.peers.send,
            self._author,
            lambda: self.engine.core.deployments.connected,
            lambda height: self.engine.core.index.hash_at(height),
            lambda: self.engine.core.index.final_height,
            self._is_own,
            lambda: self.receipts.release(),
        )
        self.confirming: Final = Confirming(name, self.adapters.store, self.adapters.peers.send, self._author)
        self.receipts: Final = ReceiptOrder(self.adapters.store, contracts.domain_of, self.holdings.ready)
        self.feed: LiveFeed | None = None
        self.leaders: Leaders | None = None
        self._head_height = -1
        self._on_head: Final[list[Callable[[], None]]] = []
        self._closing_first: Final[list[Callable[[], Awaitable[None]]]] = []
        self._on_prepared: Final[list[Callable[[ContractAddress, TransitionPrepared], None]]] = []
        self.arrears: Final = Arrears(
            self.adapters.store,
            self.adapters.chain.rounds_of,
            lambda: self.engine.core.index.final_height,
            self._tell_of_arrears,
            self._are_holders_there,
            self.confirming.confirmed,
            note_rounds=self._note_rounds,
        )

    # The run.

    async def run(self) -> None:
        """Run until stopped, or until an internal error ends the run; that error is raised."""
        if not await self._patiently(self.adapters.store.start):
            return
        running: list[asyncio.Task[None]] = []
        try:
            if not await self._patiently(self._settle_chain, "the ledger"):
                return
            if not await self._patiently(self._begin):
                return
            lasting = (
                self.adapters.ledger.run(),
                self.adapters.peers.run(),
                self.adapters.public.run(),
                self.receipts.run(),
                self.confirming.run(),
                *(begin() for begin in self.beside),
            )
            running = [asyncio.create_task(each) for each in lasting]
            for task in running:
                task.add_done_callback(self._adapter_ended)
            self.mail.start()
            self.started.set()
            await self._until_stopped()
        finally:
            await self.acceptances.close()
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)
            for close in self._closing_first:
                await close()
            await self.arrears.close()
            await self.mail.close()
            await self.holdings.close()
            await self.confirming.close()
            await self.adapters.services.close()
            await self.adapters.deploying.close()
            await self.adapters.acquainting.close()
            self.engine.stop()
            self.users.close()
            await self.adapters.store.close()

    def stop(self) -> None:
        """Hand over, drain, and end; a second call ends the run at once."""
        if self.is_stopping and not self._ended.done():
            catalogue.NODE_STOPPING_AT_ONCE.log()
            self._ended.set_result(None)
        self.is_stopping = True
        self._stop.set()

    def fail(self, error: BaseException) -> None:
        """End this run with an internal error, which `run` raises."""
        if not self._ended.done():
            self._ended.set_exception(error)

    def tell(self, event: Event) -> None:
        """Pass an event to the services that handle it, and otherwise to the core."""
        if isinstance(event, MessageReceived) and self.confirming.take(event):
            return
        if isinstance(event, ContractLoaded) and not self._may_load(event.contract.address):
            event = ContractMissing(event.contract.address)
        elif isinstance(event, ContractMissing) and self._may_load(event.contract):
            # The contract was added after the store was asked.
            self.adapters.store.perform(LoadContract(event.contract))
            return
        if self._watcher is not None:
            self._watcher.saw_event(event)
        if self.feed is not None and self.feed.is_watched:
            self.feed.saw_event(event)
        if self.leaders is not None and isinstance(event, MessageReceived):
            self.leaders.heard(event.envelope)
        if isinstance(event, Written):
            self.engine.take_written(event.count)
            self.receipts.written(event.count)
            return
        if not isinstance(event, _MAY_BE_FOR_SERVICES) or not (self.mail.take(event) or self.holdings.take(event)):
            self.engine.tell(event)
        if isinstance(event, HeadSeen) and event.height != self._head_height:
            self._head_height = event.height
            for tell in self._on_head:
                tell()

    async def _settle_chain(self) -> None:
        """Check that the chain is the one of this database, and set the number of confirmations for a final block."""
        if self._decide_chain is None:
            return
        store = self.adapters.store
        decided, genesis = await self._decide_chain(await store.chain())
        await store.use_chain(decided, genesis)
        self.genesis = genesis
        self.adapters.ledger.expect_genesis(genesis)
        self.config = replace(self.config, confirmations=decided)
        self.adapters.public.confirmations = decided

    async def _patiently(self, begin: Callable[[], Awaitable[None]], what: str = "the store") -> bool:
        """Call `begin` until it succeeds: retry on `Unavailable`. Returns whether it succeeded before the node was
        stopped.

        Other errors, as of a store that belongs to another node, are raised.
        """
        repeated = Trouble()
        while not self.is_stopping:
            try:
                await begin()
                return True
            except Unavailable as trouble:
                if repeated.is_new(str(trouble)):
                    catalogue.NODE_WAITING.log(dependency=what.removeprefix("the "), reason=str(trouble))
                self.waits_for = f"{what}: {trouble}"
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._stop.wait(), STORE_RETRY_S)
        return False

    async def _begin(self) -> None:
        """Start the core of a new run from the store's state."""
        store = self.adapters.store
        await self.adapters.services.begin()
        every = await store.contracts()
        quarantined = {each.contract: each.reason for each in await store.quarantine.list()}
        self.contracts.quarantine(quarantined)
        stored = await store.restore([each for each in await store.contracts_with_work() if each not in quarantined])
        for known in every:
            self._have(known)
        self.contracts.is_complete = True
        for address, reason in self.contracts.unhosted.items():
            catalogue.CONTRACT_UNUSABLE.log(contract=address, reason=reason)
        # The database may be new, replacing a lost one, or an old copy. This run's incarnation must exceed all that
        # peers have seen, or they would ignore the node; a clock that was set back changes nothing.
        stored = replace(stored, incarnation=max(stored.incarnation, time.time_ns() // 1_000_000))
        contracts = tuple(known.contract for known in every if known.contract.address in stored.contracts)
        factory = self.factory or NO_CONTRACT
        core = Core(
            self.name,
            contracts,
            self.config,
            self.engine.clock.now_ms(),
            stored,
            self.account,
            factory,
            self.consent,
            self.accounts,
        )
        catalogue.NODE_STARTED.log(incarnation=core.incarnation, height=core.height, contracts=len(every))
        self.engine.start(core)
        for address, contract in stored.contracts.items():
            self._tell_of_prepared(address, contract.unacknowledged)
        for known in every:
            self.arrears.make_up_for(known)

    async def _until_stopped(self) -> None:
        asked = asyncio.create_task(self._stop.wait())
        awaited: list[asyncio.Future[Any]] = [asked, self._ended]
        try:
            await asyncio.wait(awaited, return_when=asyncio.FIRST_COMPLETED)
        finally:
            asked.cancel()
        if not self._ended.done():
            await self._drain()
        if self._ended.done():
            self._ended.result()

    async def _drain(self) -> None:
        """Wait until roles are handed over and all messages have left, or the stop timeout has passed."""
        catalogue.NODE_STOPPING.log()
        self.engine.tell(StopRequested())
        with suppress(TimeoutError):
            async with asyncio.timeout(self._stop_timeout_s):
                await asyncio.sleep(DRAIN_LOOK_S)
                while not self._ended.done() and not self._is_drained():
                    await asyncio.sleep(DRAIN_LOOK_S)
                return
        catalogue.NODE_STOP_TIMED_OUT.log(seconds=self._stop_timeout_s)

    def _is_drained(self) -> bool:
        loaded = self.engine.core.sequencers.loaded.values()
        has_left = all(sequencer.coordinator.state in _LEFT for sequencer in loaded)
        return has_left and not self.engine.waiting and not len(self.engine.outbox)

    def _adapter_ended(self, task: asyncio.Task[None]) -> None:
        """Fail the run when an adapter ends by itself: adapters run until they are cancelled."""
        if not task.cancelled():
            self.fail(task.exception() or AssertionError("an adapter ended by itself"))

    def final_height(self) -> int:
        """Return the latest block of the chain with enough confirmations; -1 when there is none."""
        return max(-1, self._head_height - self.config.confirmations)

    def when_head_moves(self, tell: Callable[[], None]) -> None:
        """Call this whenever the head of the chain changes."""
        self._on_head.append(tell)

    def when_prepared(self, tell: Callable[[ContractAddress, TransitionPrepared], None]) -> None:
        """Call this for each prepared transition, and after a restart for those that its sender did not acknowledge."""
        self._on_prepared.append(tell)

    def before_closing(self, close: Callable[[], Awaitable[None]]) -> None:
        """Call this before the store is closed."""
        self._closing_first.append(close)

    # Contracts.

    async def take_in(self, known: KnownContract) -> None:
        """Add a contract to this node durably, and backfill its earlier rounds."""
        address = known.contract.address
        is_new = self.contracts.known(address) is None
        asked_at = max(known.deployed_at, await self.adapters.chain.latest_height())
        async with self.confirming.turn:
            await self.adapters.store.add_contract(replace(known, taken_in_at=asked_at))
            if is_new:
                self.arrears.expect(address)
            self._have(known)
            # Every fetch from here on includes the contract; fetches under way go as far as the head of the index.
            head = self.engine.core.index.head
            complete = replace(known, taken_in_at=max(asked_at, head.height if head is not None else 0))
            with suppress(Unavailable):
                await self.adapters.store.add_contract(complete)
        if is_new:
            self.contracts.add(complete)
            self.arrears.make_up_for(complete)
            catalogue.CONTRACT_ADDED.log(contract=address, peer=known.source)

    async def _note_rounds(self, contract: ContractAddress) -> None:
        """Record that the store has all rounds of a contract.

        If this write fails, the next run looks for them again.
        """
        with suppress(Unavailable):
            async with self.confirming.turn:
                known = await self.adapters.store.contract(contract)
                if known is not None:
                    await self.adapters.store.add_contract(replace(known, has_rounds=True))

    def _have(self, known: KnownContract) -> None:
        self.confirming.add(known)
        self.contracts.add(known)

    def _may_load(self, contract: ContractAddress) -> bool:
        """Whether the contract may be loaded: its endorsers have confirmed it, and it is not quarantined.

        The store may have a contract a moment before this node knows whether its endorsers have confirmed it.
        """
        is_known = self.contracts.known(contract) is not None and not self.confirming.has(contract)
        return is_known and not self.contracts.is_quarantined(contract)

    async def call_private(self, hosted: Hosted, asked: UserCall) -> object:
        """Call a private contract. `Unavailable` when this node cannot write the blocks that may have changed it."""
        trouble = self.adapters.store.trouble
        if trouble and self.engine.core.index.is_lost:
            raise Unavailable(f"{self.name} does not follow the chain: the store: {trouble}")
        return await self.adapters.services.call(hosted, asked)

    def _tell_of_arrears(self, event: Event) -> None:
        """Report rounds behind the index that are durable now, or ask for missing states."""
        if isinstance(event, RoundsMadeUp):
            self.adapters.chain.forget_tree(event.contract)
            self.tell(event)
            self.receipts.look_soon()
        else:
            self.ask_for_states(event)

    def ask_for_states(self, wanted: Event) -> None:
        """Ask all nodes that may have states that this node lacks."""
        self.tell(wanted)
        if isinstance(wanted, StatesWanted):
            self._makers.ask(wanted)

    def _author(self) -> tuple[int, int]:
        """The incarnation and the height that this node puts into every message."""
        return self.engine.core.incarnation, self.engine.core.height

    def _is_own(self, intent: IntentId) -> bool:
        """Whether a user of this node submitted it, and it is under way or has just ended."""
        return intent in self.engine.core.intake.open or self.users.recent_receipt(intent) is not None

    def _are_holders_there(self, contract: ContractAddress) -> bool:
        """Whether all nodes that may have the contract's private states are connected."""
        known = self.contracts.known(contract)
        holders = holders_of(known.contract) if known is not None else ()
        connected = self.engine.core.deployments.connected
        return all(holder == self.name or holder in connected for holder in holders)

    # Effects.

    def send(self, message: SendMessage) -> None:
        """Send a message to a peer, or to this node itself."""
        if message.peer == self.name:
            self.tell(MessageReceived(self.name, message.envelope))
        else:
            self.adapters.peers.send(message)

    def _tell_of_prepared(self, contract: ContractAddress, records: Iterable[Record]) -> None:
        for record in records:
            if isinstance(record, TransitionPrepared):
                for tell in self._on_prepared:
                    tell(contract, record)

    def _perform(self, effect: Effect) -> None:
        """Pass an effect to the adapter that performs it; by default to the services."""
        if self._watcher is not None:
            self._watcher.saw_effect(effect)
        if self.feed is not None and self.feed.is_watched:
            self.feed.saw_effect(effect)
        if self.leaders is not None and isinstance(effect, SendMessage):
            self.leaders.heard(effect.envelope)
        match effect:
            case SendMessage():
                self.send(effect)
            case Persist():
                self.rounds_dispatched += sum(isinstance(record, RoundDispatch) for record in effect.records)
                _log_questions(effect.records)
                self.receipts.ordered(type(record) for record in effect.records)
                self.adapters.store.perform(effect)
                self._tell_of_prepared(effect.contract, effect.records)
            case RecallDispatches(nonces, account):
                catalogue.CHAIN_TRANSACTIONS_LOST.log(nonces=nonces, account=account)
                self.adapters.store.perform(effect)
            case LookUpIntents() | LoadContract() | FindStates() | RecallDeliveries():
                self.adapters.store.perform(effect)
            case SubmitTransaction():
                self.submissions += 1
                self.adapters.ledger.perform(effect)
            case FetchBlocks() | SignDispatch() | SeeAccount():
                self.adapters.ledger.perform(effect)
            case ReplyToUser():
                self.users.take_reply(effect)
            case ReportReceipt(receipt):
                self.users.take_receipt(receipt)
                self.adapters.services.ended(receipt.intent)
                self.receipts.look_soon()
            case ReportFinalityBroken():
                self.users.take_broken(effect)
                self.receipts.finality_broke()
                self.adapters.public.blocks_lost()
            case ReportPrepared():
                self.users.take_prepared(effect)
            case ReportVerifier():
                self.adapters.verifiers.take(effect)
            case JudgeProposal() | CallFactory():
                self.adapters.deploying.perform(effect)
            case ListContracts() | SiftContracts() | FindGenesis() | AcquireContract():
                self.adapters.acquainting.perform(effect, self.take_in)
            case TakeInContract(known):
                self._have(known)
                catalogue.CONTRACT_ADDED.log(contract=known.contract.address, peer=known.source)
            case _:
                self.adapters.services.perform(effect)


def _log_questions(records: tuple[Record, ...]) -> None:
    """Log deployments that need the operator's consent: nothing else of a node waits for an operator silently."""
    for proposal in (record.proposal for record in records if isinstance(record, DeploymentProposed)):
        if proposal.decision is Decision.ASKED:
            catalogue.CONTRACT_CONSENT_REQUIRED.log(
                contract=proposal.contract, deployment=intent_text(proposal.deployment), peer=proposal.peer
            )
