"""The node as users and operators see it: `service.interface.Node` on a running node."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Container, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from rota import host
from rota.engine.accepting import Acceptance, settled
from rota.engine.clock import monotonic_ms
from rota.engine.contracts import ContractRefused
from rota.keys.names import endorser_key
from rota.keys.one_time import OneTimeKeys
from rota.ledger.bindings import RegisteredNode
from rota.ledger.client import RpcClient
from rota.ledger.looking_up import LookingUp
from rota.machine.events import CancelRequested, IntentSubmitted, ResumeRequested
from rota.machine.tables import Event
from rota.model.types import NO_CONTRACT, ContractAddress, Intent, IntentId, NodeName, Receipt, SubmitMode, intent_text
from rota.node.events import ForContract
from rota.ports import KeyHolder, QuarantineBook, Registry, SubmissionKey, Unavailable
from rota.rpc import errors
from rota.rpc.credentials import CALLER
from rota.sequencer.held_intent import State as CoordinatorSide
from rota.sequencer.sender_transaction import State as SenderSide
from rota.sequencer.sequencer import Sequencer
from rota.service import interface
from rota.service.abis.types import Types
from rota.service.accounts.accounts import PayingAccounts
from rota.service.automation.automation import Automating
from rota.service.automation.triggers import Triggers
from rota.service.blocks.blocks import Chain
from rota.service.commands.commands import CommandOffice
from rota.service.consent.consents import Consents
from rota.service.contracts.acquainting import FindDeployment
from rota.service.contracts.questions import Questions
from rota.service.explain.explaining import Explaining
from rota.service.explain.interface import counts_of
from rota.service.explain.leading import leaders_of
from rota.service.explain.ring import LeaderChange, RingView
from rota.service.explain.rings import ring_of
from rota.service.groups.groups import Groups
from rota.service.groups.interface import MessageDefinition, MessageView
from rota.service.interface import ContractStatus, ContractSummary, Measurements
from rota.service.keys.keys import Keys
from rota.service.keys.verifiers import PartyVerifiers
from rota.service.listeners.listeners import DurableListeners
from rota.service.listeners.messages import MessageSource
from rota.service.listeners.sources import NodeListeners
from rota.service.operations.self_view import Itself
from rota.service.positions.waiting import read_positions
from rota.service.public.aside import Aside
from rota.service.public.public import Public
from rota.service.receipts.following import Following, transaction_view
from rota.service.receipts.views import ReceiptViews
from rota.service.registry.expiry import CertificateExpiry
from rota.service.registry.network import Domains, Neighbours, Registries
from rota.service.run import RunningNode
from rota.service.settlement.settling import Settlements
from rota.service.states.states import States
from rota.service.submissions.awaited_leaves import bounded, require_followed
from rota.service.submissions.backlog import backlog_of
from rota.service.submissions.caller_shares import CallerShares
from rota.service.submissions.intents import Intents
from rota.service.submissions.payees import Payees
from rota.service.submissions.reading import Read, Submitting, noted, shown_function
from rota.service.submissions.repeating import Repeats
from rota.service.watch.watching import feed_of
from rota.transport.peer_state import PeerStatus
from rota.wire.messages import CoordinatorState

ReadPeers = Callable[[], tuple[interface.PeerMeasurements, ...]]


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Adapters and limits from outside the running node: chain lookups, registry, peers, certificate, longest wait."""

    looking_up: LookingUp
    registry: Registry
    read_peers: Callable[[], tuple[PeerStatus, ...]]
    read_registered: Callable[[], Mapping[NodeName, RegisteredNode]]
    expiry: CertificateExpiry
    wait_max_s: float


class NodeFacade:
    """Implement `service.interface.Node`. The creator sets `commands` and `itself`."""

    commands: CommandOffice
    itself: Itself

    def __init__(
        self,
        running: RunningNode,
        signer: KeyHolder,
        find_deployment: FindDeployment,
        read_peers: ReadPeers,
        defaults: host.ContractDefaults,
        surroundings: Surroundings,
        client: RpcClient,
        automating: Automating,
    ) -> None:
        self._running: Final = running
        self._backlog: Final = backlog_of(running, surroundings.wait_max_s)
        self._shares: Final = CallerShares(
            running.config.intents_open_max, lambda: running.engine.core.intake.open, time.monotonic
        )
        self.expiry: Final = surroundings.expiry
        self._signer: Final = signer
        self._find_deployment: Final = find_deployment
        self._read_peers: Final = read_peers
        store = running.adapters.store
        name = running.name
        self.keys: Final = Keys(name, signer, store.key_names)
        verifiers = PartyVerifiers(name, signer, running.contracts, running.adapters.verifiers)
        self.types: Final = Types(running.name, store.abis, verifiers, self.keys.note)
        self.groups: Final = Groups(name, running.contracts, store, running.mail, self.submit, running.call_private)
        self.message_listeners: Final[DurableListeners[MessageDefinition, MessageView]] = DurableListeners(
            MessageSource(running.name, store.mail, running.mail, store.groups), store, running.acceptances
        )
        running.before_closing(self.message_listeners.close)
        self.states: Final = States(running.name, running.contracts, store, running.mail, verifiers.addresses)
        self.neighbours: Final = Neighbours(
            running.name, surroundings.registry, surroundings.read_peers, store.mail, running.mail.highest_said
        )
        self.registries: Final = Registries(surroundings.registry, surroundings.read_registered)
        self.domains: Final = Domains(running.contracts, running.factory)
        self.positions: Final = read_positions(running, surroundings.looking_up)
        self.chain: Final = Chain(surroundings.looking_up, self._confirmed_height, store.listening.with_receipts)
        self.questions: Final = Questions(running.name, running.contracts, self.groups.members_of, running.call_private)
        self.triggers: Final = Triggers(automating)
        self._settlements: Final = Settlements(running, defaults.chain_id)
        self._submitting: Final = Submitting(running.name, store.abis, store.submissions, running.confirming.require)
        self._intents: Final = Intents(
            running.name,
            running.contracts,
            running.factory,
            defaults,
            surroundings.registry.registrations,
            self._submitting,
            OneTimeKeys(running.name, signer),
        )
        self.public: Final = Public(
            running.name,
            running.adapters.public_chain,
            running.adapters.public,
            store.public,
            store.abis,
            signer,
            self._submitting,
            running.adapters.services.countersigned,
        )
        adapted = running.adapters
        self._payees: Final = Payees(name, store, adapted.announcements, adapted.verifiers, adapted.services.call)
        self.repeats: Final = Repeats(store, self._submitting, self._intents, self.public, running.contracts)
        self.aside: Final = Aside(running.adapters.public, running.acceptances)
        self.consents: Final = Consents(running, self._ask)
        self.accounts: Final = PayingAccounts(running, signer, client)
        self._receipts: Final = ReceiptViews(running, self.public, verifiers.addresses)
        self.following: Final = Following(
            running, self._submitting, self.public, self._receipts, self._settlements.leg, surroundings.looking_up
        )
        self._listeners: Final = NodeListeners(
            running, client, self._receipts.at, self.following.full_receipt_at, self._receipts.relation
        )
        # The core's clock starts at an arbitrary value; this is the Unix time of its zero.
        self._epoch_ms: Final = time.time_ns() // 1_000_000 - monotonic_ms()
        self._explaining: Final = Explaining(running, self._at, self.public, self._receipts)
        self.leaders_seen: Final = leaders_of(running, self._now_ms, read_peers)
        self._feed: Final = feed_of(running, self._at, self._now_ms, self._summary, read_peers)

    @property
    def name(self) -> NodeName:
        """The node's name."""
        return self._running.name

    def _confirmed_height(self) -> int:
        running = self._running
        return running.engine.core.height - running.config.confirmations if running.started.is_set() else 0

    # Transactions.

    async def submit(self, submission: interface.Submission) -> IntentId:
        """Have the domain validate the submission, store it durably and return its id."""
        key = self._submitting.key_of(submission.idempotency_key, submission.sender)
        accept = partial(self._submit, submission, key)
        try:
            return await self._running.acceptances.accept(accept, key)
        except errors.KeyUsed as used:
            raise await self.repeats.judged(submission, used) from None

    async def _submit(self, submission: interface.Submission, key: SubmissionKey, acceptance: Acceptance) -> IntentId:
        if submission.awaits:
            submission = bounded(self._running, submission)
        read = await self._submitting.read(submission)
        sender = self._submitting.party(submission.sender)
        await self._submitting.require_unused(key)
        if missing := self.readiness():
            raise Unavailable(f"{self.name} is not ready: {missing[0]}")
        if submission.awaits:
            require_followed(self._running, submission)
        if submission.type is interface.TransactionType.PUBLIC:
            intent = await self.public.submit(read, acceptance)
        else:
            self._backlog.require_room(submission.to, partial(self._shares.is_below_equal_part, CALLER.get()))
            self._shares.require_room(CALLER.get())
            wanted = self._intents.of(read)
            await self._require_payees(submission, wanted)
            intent = await self._accept(acceptance, read, wanted)
            self._shares.note(CALLER.get(), intent)
        # The transaction is accepted already; a party that cannot be recorded now is recorded by its next transaction.
        with suppress(Unavailable):
            await self.keys.note(sender)
        return intent

    async def _require_payees(self, submission: interface.Submission, intent: Intent) -> None:
        hosted = self._running.contracts.hosted(intent.contract)
        if submission.payees is interface.WhichPayees.KNOWN and hosted is not None:
            await self._payees.require_known(hosted, intent)

    async def _accept(self, acceptance: Acceptance, read: Read, intent: Intent) -> IntentId:
        """Give the intent to the core; the submission record joins the same write."""
        function, domain = "", read.submission.domain
        if read.submission.to is not None:
            hosted = self._running.contracts.hosted(read.submission.to)
            assert hosted is not None, "it took the request"
            function, domain = shown_function(read, hosted.domain.functions), hosted.domain.name
        asked = noted(read, intent.id, intent.sender, domain, function)
        acceptance.begin(intent.id)
        with self._running.adapters.store.submissions.accompanying(asked, self._submitting.unwritten(read)):
            await self._ask(lambda reply_to: ForContract(intent.contract, IntentSubmitted(reply_to, intent)))
        self._submitting.note_written(read)
        return intent.id

    async def transaction(self, intent: IntentId) -> interface.TransactionView | None:
        """Return the transaction accepted under this id, or None."""
        store = self._running.adapters.store
        submission = await store.submissions.get(intent)
        if submission is not None and submission.is_public:
            return transaction_view(submission)
        stored = await store.transaction(intent)
        if stored is None:
            return None
        if submission is not None:
            return transaction_view(submission)
        accepted = stored.intent
        return interface.TransactionView(
            accepted.id,
            stored.accepted_at_ms,
            interface.TransactionType.PRIVATE,
            accepted.sender,
            SubmitMode.EXTERNAL if accepted.submit_mode is SubmitMode.EXTERNAL else SubmitMode.AUTO,
            self._receipts.domain_of(accepted),
            accepted.contract if accepted.contract != NO_CONTRACT else None,
            idempotency_key=accepted.idempotency_key,
            depends_on=accepted.depends_on,
            awaits=accepted.awaits,
        )

    async def receipt(self, intent: IntentId) -> interface.ReceiptView | None:
        """Return the receipt, or None while the transaction has none."""
        return await self._receipts.of(intent)

    async def final(self, intent: IntentId) -> Receipt:
        """Wait for the receipt and return it; for callers in this process."""
        return await self._running.users.expect_receipt(intent)

    async def resume(self, intent: IntentId) -> None:
        """Resume a parked transaction."""
        contract = await self._contract_of(intent)
        await self._ask(lambda reply_to: ForContract(contract, ResumeRequested(reply_to, intent)))

    async def cancel(self, intent: IntentId) -> None:
        """Cancel a transaction."""
        is_public = self._running.adapters.public.held(intent) is not None
        if is_public and await self._running.acceptances.accept(partial(self._cancel_public, intent)):
            return
        contract = await self._contract_of(intent)
        await self._ask(lambda reply_to: ForContract(contract, CancelRequested(reply_to, intent)))

    async def _cancel_public(self, intent: IntentId, acceptance: Acceptance) -> bool:
        acceptance.begin(intent)
        return await self.public.cancel(intent)

    # Listeners.

    def receipts(self, after_sequence: int) -> AsyncIterator[interface.ReceiptView]:
        """Yield receipts with greater numbers in order: the existing ones, then new ones as they come."""
        return self._listeners.receipts(after_sequence)

    @property
    def receipt_listeners(self) -> interface.Listeners[interface.ReceiptDefinition, interface.AnyReceipt]:
        """The listeners that receive receipts."""
        return self._listeners.receipt_listeners

    @property
    def event_listeners(self) -> interface.Listeners[interface.EventDefinition, interface.EventView]:
        """The listeners that receive events of the base ledger."""
        return self._listeners.event_listeners

    async def event_listener_status(self, name: str) -> interface.EventListenerStatus | None:
        """Return the progress of an event listener."""
        return await self._listeners.event_listener_status(name)

    async def _contract_of(self, intent: IntentId) -> ContractAddress:
        open_ = self._running.engine.core.intake.open.get(intent)
        if open_ is not None:
            return open_
        if self._running.adapters.public.held(intent) is not None:
            raise errors.invalid("transactionId", "must be a private transaction: a public one is never parked")
        if await self.transaction(intent) is None:
            raise errors.invalid("transactionId", f"{intent_text(intent)} is not a transaction of {self.name}")
        raise errors.invalid("transactionId", f"{intent_text(intent)} has ended")

    async def _ask(self, event_for: Callable[[str], Event]) -> None:
        """Give the core an event and wait for its reply; the core's error is raised as `Rejected` or `Unavailable`."""
        if self._running.is_stopping:
            raise Unavailable(f"{self.name} is stopping; ask another time")
        if self._running.engine.outbox.is_stalled:
            raise Unavailable(f"the database takes no writes: {self._running.adapters.store.trouble or 'no answer'}")
        reply_to, awaited = self._running.users.expect_reply()
        self._running.tell(event_for(reply_to))
        reply = await awaited
        if reply.is_temporary:
            raise Unavailable(reply.error)
        if reply.error:
            raise errors.invalid(reply.field, reply.error)

    # Settlements.

    async def draft(self, submission: interface.Submission, readers: tuple[str, ...]) -> interface.DraftView:
        """Compute the effects that an external transaction would have now, and reserve its id."""
        if submission.to is None:
            raise errors.invalid("to", "must be a contract's address: a deployment cannot be prepared")
        read = await self._submitting.read(replace(submission, submit_mode=SubmitMode.EXTERNAL))
        if missing := self.readiness():
            raise Unavailable(f"{self.name} is not ready: {missing[0]}")
        intent = self._intents.of(read)
        await self._require_payees(submission, intent)
        nodes = tuple(NodeName(reader.rpartition("@")[2]) for reader in readers)
        return await self._settlements.draft(read, intent, nodes)

    async def examine(self, opening: bytes) -> interface.ExaminedView:
        """Show the effects of a draft that was disclosed to a user of this node."""
        return await self._settlements.examine(opening)

    async def bind(self, draft: IntentId, legs: tuple[interface.NamedLeg, ...], idempotency_key: str) -> IntentId:
        """Submit a draft, bound to all legs."""
        key = self._submitting.key_of(idempotency_key, self._settlements.sender_of(draft))
        accept = partial(self._bind, draft, legs, key)
        try:
            return await self._running.acceptances.accept(accept, key)
        except errors.KeyUsed as used:
            raise await self._settlements.judged(draft, legs, used) from None

    async def _bind(
        self, draft: IntentId, legs: tuple[interface.NamedLeg, ...], key: SubmissionKey, acceptance: Acceptance
    ) -> IntentId:
        drafted = self._settlements.take_out(draft)
        if drafted is None:
            # A client that repeats the request because the answer was lost has used the key already.
            await self._submitting.require_unused(key)
            raise errors.invalid("draft", "must be the id of a draft that this node has; draft it again")
        submission = replace(drafted.read.submission, idempotency_key=key.text)
        try:
            intent = self._settlements.bound(drafted, legs)
            await self._submitting.require_unused(key)
            return await self._accept(acceptance, replace(drafted.read, submission=submission), intent)
        except BaseException as error:
            if not acceptance.has_begun or isinstance(error, errors.Rejected | Unavailable):
                self._settlements.put_back(drafted)
            raise

    async def leg(self, intent: IntentId) -> interface.LegView | None:
        """Return the prepared transition of a transaction, for its committer."""
        stored = await self._running.adapters.store.transaction(intent)
        return await self._settlements.leg(stored) if stored is not None else None

    # The sequencer.

    async def explain(self, intent: IntentId) -> interface.Explanation | None:
        """Explain where a transaction is, also when it has ended."""
        return await self._explaining.explain(intent)

    async def status(self, contract: ContractAddress) -> ContractStatus | None:
        """Return the status of a contract, or None if this node does not have it."""
        known = self._running.contracts.known(contract)
        if known is None:
            return None
        core = self._running.engine.core
        sequencer = core.sequencers.loaded.get(contract)
        block_range = known.contract.range_at(core.height)
        sleeping = Sequencer(core.name, core.ids, known.contract, core.config, core.now_ms, core.height)
        shown = sequencer or sleeping
        accepted = shown.observer.active
        return ContractStatus(
            contract,
            self._running.contracts.domain_of(contract),
            known.contract.mode,
            known.contract.rotation,
            known.contract.committee,
            known.contract.endorsers,
            known.contract.threshold,
            core.height,
            block_range,
            known.contract.range_size,
            shown.context.ranking(block_range),
            self.name if shown.coordinator.state is CoordinatorState.ACTIVE else accepted,
            self._at(shown.coordinator.since_ms) if shown.coordinator.state is CoordinatorState.ACTIVE else None,
            shown.coordinator.state.value,
            self._at(shown.coordinator.since_ms),
            shown.sender.state.value,
            counts_of(SenderSide, (each.state for each in shown.sender.transactions.values())),
            counts_of(CoordinatorSide, (each.state for each in shown.coordinator.transactions.values())),
            tuple(node for node in known.contract.committee if node != self.name and shown.observer.is_silent(node)),
        )

    async def contracts(self, after: ContractAddress | None, limit: int) -> tuple[ContractSummary, ...]:
        """Return this node's contracts by address."""
        addresses = sorted(each for each in self._running.contracts.addresses() if after is None or each > after)
        return tuple(self._summary(address) for address in addresses[:limit])

    async def ring(self, contract: ContractAddress) -> RingView | None:
        """Return the committee's position in the ring and its schedule of leaders."""
        known = self._running.contracts.known(contract)
        return ring_of(known.contract, self._running.engine.core.height) if known is not None else None

    async def leaders(self, contract: ContractAddress) -> tuple[LeaderChange, ...]:
        """Return the changes of the contract's coordinator in this run of the node."""
        return self.leaders_seen.of(contract)

    def _summary(self, address: ContractAddress) -> ContractSummary:
        known = self._running.contracts.known(address)
        assert known is not None, "it is one of ours"
        sequencer = self._running.engine.core.sequencers.loaded.get(address)
        domain = self._running.contracts.domain_of(address)
        if sequencer is None:
            return ContractSummary(address, domain, known.contract.mode, is_loaded=False)
        is_active = sequencer.coordinator.state is CoordinatorState.ACTIVE
        return ContractSummary(
            address,
            domain,
            known.contract.mode,
            is_loaded=True,
            coordinator_state=sequencer.coordinator.state.value,
            sender_state=sequencer.sender.state.value,
            active_coordinator=self.name if is_active else sequencer.observer.active,
            sending_count=len(sequencer.sender.transactions),
            coordinating_count=len(sequencer.coordinator.transactions),
        )

    def watch(self, interval_ms: int, opened: Container[IntentId] = ()) -> AsyncIterator[interface.FeedUpdate]:
        """Yield a snapshot, then changes, at most once per interval."""
        return self._feed.watch(interval_ms, opened)

    def _at(self, core_ms: int) -> int:
        # `lost_ms` is the total time for which the core's clock stood still; most times that are shown are recent.
        return self._epoch_ms + self._running.engine.clock.lost_ms + core_ms

    def _now_ms(self) -> int:
        return self._epoch_ms + monotonic_ms()

    # Contracts.

    @property
    def quarantine(self) -> QuarantineBook:
        """The contracts that no run loads."""
        return self._running.adapters.store.quarantine

    async def endorser_address(self, deployment: IntentId) -> ContractAddress:
        """Return the address with which this node would endorse in the contract that this intent deploys."""
        return self._signer.address_of(endorser_key(self.name, deployment))

    async def take_in(self, genesis: bytes, deployment: IntentId) -> ContractAddress:
        """Add the contract that was deployed with this genesis under this id to the node."""
        found = await self._find_deployment(deployment)
        if found is None:
            raise errors.invalid("deployment", f"no contract was deployed as {intent_text(deployment)} on this chain")
        try:
            known = self._running.contracts.judge(genesis, found.deployment, self._signer)
        except ContractRefused as flaw:
            raise errors.invalid(flaw.field, flaw.message) from None
        taken = replace(known, deployed_at=found.height)

        async def accept(acceptance: Acceptance) -> None:
            acceptance.begin(deployment)
            await settled(lambda: self._running.take_in(taken))

        await self._running.acceptances.accept(accept)
        return known.contract.address

    # Operators.

    def readiness(self) -> tuple[str, ...]:
        """Return the reasons why this node cannot serve yet; empty when it is ready."""
        running = self._running
        if not running.started.is_set():
            return (running.waits_for,)
        missing = []
        if running.is_stopping:
            missing.append("the node is stopping")
        store_trouble, ledger_trouble = running.adapters.store.trouble, running.adapters.ledger.trouble
        if store_trouble:
            missing.append(f"the store: {store_trouble}")
        index = running.engine.core.index
        if index.is_forked:
            missing.append(
                f"the ledger: it has other blocks than this node's index from block {index.blocks[0].height} on, the "
                "earliest that the index keeps (index_window_max); see docs/ledger.md#a-fork-below-the-index"
            )
        # An index whose blocks cannot be written does not advance; that is the store's trouble and not the ledger's.
        if not running.engine.core.has_caught_up and (ledger_trouble or not store_trouble):
            missing.append(f"the ledger: {ledger_trouble or 'its index has not caught up with the chain'}")
        elif index.is_lost and (ledger_trouble or not store_trouble):
            missing.append(f"the ledger: {ledger_trouble or 'it has not been reached lately'}")
        if running.receipts.undone_open:
            missing.append(
                f"the ledger: it took back final blocks, and {running.receipts.undone_open} receipts no longer hold; "
                "see docs/alerts.md#rotafinalitybroken, then call node_acknowledgeFinality"
            )
        if not self.commands.has_begun:
            missing.append("the store: it has not said yet which commands are in flight")
        return tuple(missing)

    async def acknowledge_finality(self) -> int:
        """Acknowledge the receipts that no longer hold; return their number. They no longer make the node unready."""
        return await self._running.receipts.acknowledge_undone()

    def warnings(self) -> tuple[str, ...]:
        """Return the problems that will keep this node from serving later, though not now."""
        own = self.aside.warnings(self._running.adapters.store.wound_back) + self.consents.warnings()
        return self.expiry.warnings + own + self._running.contracts.warnings + self.accounts.warnings()

    def measurements(self) -> Measurements:
        """Return the current measurements."""
        running = self._running
        if not running.started.is_set():
            return Measurements()
        core = running.engine.core
        loaded = core.sequencers.loaded.values()
        return Measurements(
            index_height=core.height,
            ledger_height=core.index.head.height if core.index.head is not None else None,
            is_ledger_lost=core.index.is_lost,
            contracts=len(running.contracts.addresses()),
            contracts_loaded=len(core.sequencers.loaded),
            coordinators_active=sum(each.coordinator.state is CoordinatorState.ACTIVE for each in loaded),
            intents_open=len(core.intake.open),
            sending=counts_of(SenderSide, (t.state for each in loaded for t in each.sender.transactions.values())),
            coordinating=counts_of(
                CoordinatorSide, (t.state for each in loaded for t in each.coordinator.transactions.values())
            ),
            intents_accepted_total=running.users.accepted,
            receipts_confirmed_total=running.users.confirmed,
            receipts_reverted_total=running.users.reverted,
            intent_ids_used_total=running.users.ids_used,
            finality_broken_total=running.users.finality_broken,
            receipts_undone=running.receipts.undone_open,
            public_set_aside=len(self.aside.list()),
            consents_pending=self.consents.open_count,
            accounts_short=self.accounts.short_count,
            rounds_dispatched_total=running.rounds_dispatched,
            rounds_unconfirmed=sum(1 for _ in core.submitters.submissions()),
            submissions_total=running.submissions,
            deliveries_open=core.distribution.open_count,
            writes_open=running.engine.outbox.writes_open,
            writes_failed_total=running.adapters.store.writes_failed,
            steps_total=running.engine.steps,
            commands_in_flight=len(self.commands.desk.entries) if self.commands.has_begun else None,
            commands_accepted_total=self.commands.counts["accepted"],
            commands_rejected_total=self.commands.counts["refused"],
            commands_duplicate_total=self.commands.counts["duplicate"],
            completions_end=self.commands.desk.stream.end if self.commands.has_begun else None,
            contracts_learned_total=core.acquaintance.acquired_count,
            contracts_refused_total=core.acquaintance.refused_count,
            geneses_asked_total=core.acquaintance.asked_count,
            geneses_given_total=core.acquaintance.given_count,
            states_unconfirmed=len(core.states.unconfirmed.sent),
            states_refused_total=core.states.unconfirmed.refused_count,
            verifier_requests_dropped_total=core.verifiers.dropped_count,
            messages_dropped_total=running.engine.dropped,
            code_over_budget_total=running.adapters.services.over_budget_count,
            code_processes_ended_total=running.adapters.services.processes_ended_count,
            certificate_valid_until_s=self.expiry.valid_until_s,
            contracts_in_arrears=running.arrears.open_count,
            peers=self._read_peers(),
            triggers=self.triggers.list(),
            automation_transactions_total=self.triggers.transactions,
            ledger_transactions_total=self.triggers.ledger_transactions,
        )
