"""One node on a test bench, with a chain, a disk, a domain and a signer; what it asks for can stay unanswered."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TypeVar

from rota.chain.effects import (
    BlocksIndexed,
    FetchBlocks,
    RecallDispatches,
    RoundDispatch,
    SeeAccount,
    SignDispatch,
    SubmitTransaction,
)
from rota.chain.events import AccountSeen, BlocksFetched, DispatchesRecalled, DispatchSigned, HeadSeen
from rota.chain.submitters import AccountChoice, StoredAccount
from rota.directory.consent import OPEN, Consent
from rota.exchange.effects import RecallDeliveries
from rota.machine.effects import (
    DispatchRound,
    Effect,
    IntentAccepted,
    Persist,
    Record,
    ReplyToUser,
    ReportReceipt,
    SendMessage,
)
from rota.machine.events import IntentSubmitted, MessageReceived, Tick
from rota.machine.tables import Event
from rota.model.blocks import ChainBlock, LedgerOutcome, LedgerStatus, MinedStatus, MinedTransaction, Outcomes
from rota.model.config import Config
from rota.model.digests import core_of, domain_separator, leaf_of, round_digest, state_commitment
from rota.model.types import (
    NO_CONTRACT,
    SHARED_ACCOUNT,
    AwaitedLeaf,
    BlockHash,
    Contract,
    ContractAddress,
    DelegationNumber,
    Intent,
    IntentId,
    Mode,
    NodeName,
    Outcome,
    Party,
    RequestId,
    State,
    StateId,
    Transition,
)
from rota.node.effects import LoadContract, LookUpIntents
from rota.node.events import ContractLoaded, ContractMissing, ForContract
from rota.node.node import Node
from rota.node.stored import StoredNode
from rota.sequencer.effects import AssembleIntents, CheckRound, SignTransition, VerifyEndorsement, VerifyParties
from rota.sequencer.events import AssemblyFinished, EndorsementVerified, PartiesVerified, RoundChecked, TransitionSigned
from rota.sequencer.sequencer import Sequencer
from rota.sim.disk import Disk
from rota.wire.messages import (
    AssembleRequest,
    AssembleResponse,
    AssemblyOutcome,
    AssemblyResult,
    Delegation,
    DelegationCommand,
    DispatchConfirmationRequest,
    DispatchConfirmationResponse,
    Envelope,
    Message,
)
from tests.sequencer.kit import ADDRESS, GENESIS_S, A, B, contract, intent_id, nonce_of

OTHER = ContractAddress("0x" + "22" * 20)
NOWHERE = ContractAddress("0x" + "33" * 20)
OURS = replace(contract(A, mode=Mode.STATIC), address=ADDRESS)
# Without endorsers: the ids of the kit are drawn for the other contract, and here no endorser asks whose they are.
THEIRS = replace(OURS, address=OTHER, endorsers=(), threshold=0)
A1, A2, B1 = intent_id("A-1"), intent_id("A-2"), intent_id("B-1")
CONFIG = Config()
POLL_MS = 1_000
START = ChainBlock(0, BlockHash(bytes(32)), BlockHash(bytes(32)), GENESIS_S)

EffectType = TypeVar("EffectType", bound=Effect)
MessageType = TypeVar("MessageType", bound=Message)
RecordType = TypeVar("RecordType", bound=Record)


def intent(
    name: str,
    of: ContractAddress = ADDRESS,
    *,
    key: str = "",
    depends_on: tuple[IntentId, ...] = (),
    awaits: tuple[AwaitedLeaf, ...] = (),
) -> Intent:
    """An intent of a@ the node that its name begins with."""
    party = Party(f"a@{name[0]}")
    return Intent(intent_id(name), of, party, b"", depends_on, idempotency_key=key, nonce=nonce_of(name), awaits=awaits)


def transition(intent: IntentId, of: ContractAddress = ADDRESS) -> Transition:
    """What the domain makes of an intent: nothing spent, one state that nobody is to see."""
    commitment = state_commitment(intent)
    leaf = leaf_of(core_of(domain_separator(OURS.chain_id, of), intent, outputs=(commitment,)))
    made = State(StateId(leaf, 0), commitment, ())
    return Transition(intent, leaf, outputs=(made,), valid_until_s=GENESIS_S + CONFIG.validity_s)


def order(*intents: IntentId, of: ContractAddress = ADDRESS, sender: NodeName = A) -> DispatchRound:
    """A round of these intents as the store would remember it."""
    members = tuple(transition(each, of) for each in intents)
    leaves = tuple(member.leaf for member in members)
    digest = round_digest(domain_separator(OURS.chain_id, of), leaves, GENESIS_S + CONFIG.validity_s)
    return DispatchRound(of, digest, leaves, members, tuple(sender for _ in intents), (), GENESIS_S + CONFIG.validity_s)


def outcome(
    of: IntentId, address: ContractAddress = ADDRESS, status: LedgerStatus = LedgerStatus.COMMITTED
) -> LedgerOutcome:
    """What the chain says of an intent that was dispatched in a round of its own."""
    return LedgerOutcome(of, transition(of, address).leaf, order(of, of=address).digest, status)


def mined(
    nonce: int, status: MinedStatus = MinedStatus.SUCCEEDED, reason: str = "", account: ContractAddress = SHARED_ACCOUNT
) -> MinedTransaction:
    """A nonce of ours that a block used."""
    return MinedTransaction(nonce, status, reason, account=account)


@dataclass
class NodeBench:
    """One node A; its chain begins with one empty block, and all it asks for is answered at once unless told."""

    contracts: tuple[Contract, ...] = (OURS, THEIRS)
    stored: StoredNode = field(default_factory=lambda: StoredNode(blocks=(START,)))
    config: Config = CONFIG
    now_ms: int = 0
    known: tuple[Contract, ...] = ()
    silent: tuple[type[Effect], ...] = ()
    crashes_before: tuple[type[Record], ...] = ()
    seen: list[Effect] = field(default_factory=list)
    disk: Disk = field(default_factory=lambda: Disk(blocks=[START]))
    factory: ContractAddress = NO_CONTRACT
    consent: Consent = OPEN
    accounts: AccountChoice = AccountChoice.SHARED

    def __post_init__(self) -> None:
        self.chain = list(self.stored.blocks) or [START]
        self.block_count = 0
        self.has_chain = True
        self.polled_at_ms = self.now_ms
        self.message_count = 0
        self.has_crashed = False
        self.begin()

    def begin(self) -> None:
        """The node starts from what is stored, and the chain is where the bench says."""
        self.node = Node(
            A,
            self.contracts,
            self.config,
            self.now_ms,
            self.stored,
            factory=self.factory,
            consent=self.consent,
            accounts=self.accounts,
        )
        self.perform(self.node.start())
        if self.stored.blocks and self.has_chain:
            self.tell(HeadSeen(self.chain[-1].height, self.chain[-1].hash))

    def restart(self) -> None:
        """Its memory is gone; its disk is not."""
        self.stored = self.disk.restore(A, (*self.contracts, *self.known), self.config.confirmations)
        self.has_crashed, self.crashes_before = False, ()
        self.begin()

    # Telling and performing.

    def tell(self, event: Event) -> None:
        """One step of the node, and all that follows from it."""
        if not self.has_crashed:
            self.perform(self.node.step(self.now_ms, event))

    def perform(self, effects: list[Effect]) -> None:
        """In this order; a node that crashes before a record is durable does nothing that stands behind it."""
        for effect in effects:
            if isinstance(effect, Persist) and any(isinstance(each, self.crashes_before) for each in effect.records):
                self.has_crashed = True
            if self.has_crashed:
                return
            self.seen.append(effect)
            if not isinstance(effect, self.silent):
                for event in self.results_of(effect):
                    self.tell(event)

    def results_of(self, effect: Effect) -> list[Event]:
        match effect:
            case Persist():
                self.write(effect)
                return []
            case SendMessage(peer, envelope) if peer == A:
                return [MessageReceived(A, envelope)]
            case FetchBlocks(first, last):
                found = tuple(block for block in self.chain if first <= block.height <= last)
                return [BlocksFetched(found)] if self.has_chain else []
            case SignDispatch(round_, _, nonce, fees, account):
                return [DispatchSigned(nonce, fees, b"transaction", b"hash", round_.digest, account)]
            case SeeAccount(account):
                return [AccountSeen(0, account, f"A/{account}")]
            case LookUpIntents():
                return [self.disk.look_up(effect, (*self.contracts, *self.known), self.config.confirmations)]
            case LoadContract(address):
                return [self.loaded(address)]
            case RecallDeliveries():
                return [self.disk.deliveries_to(A, effect)]
            case RecallDispatches(nonces, account):
                return [DispatchesRecalled(nonces, self.disk.recall(A, account, nonces), account)]
            case _:
                return self.computed(effect)

    def computed(self, effect: Effect) -> list[Event]:
        """What domain and key store answer."""
        match effect:
            case AssembleIntents(of, request_id, intents):
                made = AssemblyOutcome.ASSEMBLED
                return [
                    ForContract(of, AssemblyFinished(request_id, each.id, made, transition(each.id, of)))
                    for each in intents
                ]
            case SignTransition(of, request_id, each):
                return [ForContract(of, TransitionSigned(request_id, each, b"signed"))]
            case CheckRound(of, peer, request_id, digest):
                return [ForContract(of, RoundChecked(peer, request_id, b"signature", digest=digest))]
            case VerifyParties(of, request_id):
                return [ForContract(of, PartiesVerified(request_id))]
            case VerifyEndorsement(of, peer, digest, signature):
                return [ForContract(of, EndorsementVerified(peer, digest, signature, is_valid=True))]
            case _:
                return []

    def write(self, write: Persist) -> None:
        self.disk.write(write.contract, write.records)
        for record in write.records:
            if isinstance(record, BlocksIndexed):
                self.index(record)

    def index(self, record: BlocksIndexed) -> None:
        """What is above where the chains part goes, and the new blocks come."""
        kept = [block for block in self.disk.blocks if block.height <= record.parted_at]
        self.disk.blocks = [*kept, *record.blocks]
        times_s = (self.disk.latest_chain_time_s, *(block.time_s for block in record.blocks))
        self.disk.latest_chain_time_s = max(times_s)

    def loaded(self, address: ContractAddress) -> Event:
        """What the store answers when it is asked for a contract."""
        known = (*self.contracts, *self.known)
        found = next((each for each in known if each.address == address), None)
        if found is None:
            return ContractMissing(address)
        stored = self.disk.restore(A, known, self.config.confirmations)
        return ContractLoaded(found, stored.contracts[address])

    def wait(self, ms: int) -> None:
        """Let time pass: timers run when they are due, and the chain is looked at once a second."""
        end_ms = self.now_ms + ms
        while True:
            poll_ms = self.polled_at_ms + POLL_MS
            due_ms = self.node.next_deadline_ms()
            next_ms = poll_ms if due_ms is None else min(due_ms, poll_ms)
            if next_ms > end_ms:
                break
            self.now_ms = max(self.now_ms, next_ms)
            if next_ms == poll_ms:
                self.show_head()
            else:
                self.tell(Tick())
        self.now_ms = end_ms

    # Users and peers.

    def submit(self, name: str, of: ContractAddress = ADDRESS, **options: object) -> list[ReplyToUser]:
        """A user's intent; what the user was told at once."""
        known = len(self.all(ReplyToUser))
        self.tell(ForContract(of, IntentSubmitted(name, intent(name, of, **options))))  # type: ignore[arg-type]
        return self.all(ReplyToUser)[known:]

    def hear(self, peer: NodeName, body: Message, of: ContractAddress = ADDRESS) -> None:
        self.message_count += 1
        self.tell(MessageReceived(peer, Envelope(of, RequestId(1, self.message_count), 1, 0, body)))

    # The chain.

    def show_head(self) -> None:
        """The node hears where the chain stands, if it can."""
        self.polled_at_ms = self.now_ms
        if self.has_chain:
            self.tell(HeadSeen(self.chain[-1].height, self.chain[-1].hash))

    def mine(
        self,
        *outcomes: tuple[ContractAddress, LedgerOutcome],
        height: int | None = None,
        time_s: int = GENESIS_S,
        mined: Iterable[MinedTransaction] = (),
    ) -> ChainBlock:
        """A block that nobody has heard of yet; those between it and the last did nothing."""
        parent = self.chain[-1]
        self.block_count += 1
        block_hash = BlockHash(self.block_count.to_bytes(32, "big"))
        above = parent.height + 1 if height is None else height
        block = ChainBlock(above, block_hash, parent.hash, time_s, outcomes, tuple(mined))
        self.chain.append(block)
        return block

    def block(
        self,
        *outcomes: tuple[ContractAddress, LedgerOutcome],
        height: int | None = None,
        time_s: int = GENESIS_S,
        mined: Iterable[MinedTransaction] = (),
    ) -> None:
        """A block that the node hears of, fetches and indexes."""
        self.mine(*outcomes, height=height, time_s=time_s, mined=mined)
        self.show_head()

    def settle(
        self, *intents: IntentId, of: ContractAddress = ADDRESS, status: LedgerStatus = LedgerStatus.COMMITTED
    ) -> None:
        """The next block holds these intents, each in a round of its own, with the transactions that brought them."""
        used = [
            mined(nonce)
            for nonce, submission in self.node.submitters.shared.submissions.items()
            if any(each.intent in intents for each in submission.dispatch.round.transitions)
        ]
        self.block(*((of, outcome(each, of, status)) for each in intents), mined=used)

    def reorganise(self, count: int, *outcomes: Outcomes) -> None:
        """The latest blocks are replaced by as many with these outcomes, or by empty ones, and the node finds out."""
        del self.chain[-count:]
        for number in range(count):
            self.mine(*(outcomes[number] if number < len(outcomes) else ()))
        self.show_head()

    def shorten(self, count: int) -> None:
        """The latest blocks are gone and nothing comes instead, until the node believes it."""
        del self.chain[-count:]
        self.show_head()
        self.wait(self.config.stale_head_ms)

    # What happened.

    def all(self, kind: type[EffectType]) -> list[EffectType]:
        return [effect for effect in self.seen if isinstance(effect, kind)]

    def records(self, kind: type[RecordType]) -> list[RecordType]:
        return [record for write in self.all(Persist) for record in write.records if isinstance(record, kind)]

    def accepted(self) -> list[IntentId]:
        return [record.intent.id for record in self.records(IntentAccepted)]

    def said(self, kind: type[MessageType], to: NodeName) -> list[MessageType]:
        return [
            sent.envelope.body
            for sent in self.all(SendMessage)
            if sent.peer == to and isinstance(sent.envelope.body, kind)
        ]

    def take_said(self, kind: type[MessageType], to: NodeName) -> list[MessageType]:
        """The same, and forget all effects so far."""
        said = self.said(kind, to)
        self.seen.clear()
        return said

    def nonces_sent(self) -> list[int]:
        return [submit.dispatch.nonce for submit in self.all(SubmitTransaction)]

    def rounds_sent(self) -> list[tuple[ContractAddress, int]]:
        return [(submit.dispatch.round.contract, submit.dispatch.nonce) for submit in self.all(SubmitTransaction)]

    def sequencer(self, address: ContractAddress = ADDRESS) -> Sequencer:
        return self.node.sequencers.loaded[address]

    def loaded_contracts(self) -> list[ContractAddress]:
        return list(self.node.sequencers.loaded)

    def sender_state(self, of: IntentId, address: ContractAddress = ADDRESS) -> object:
        return self.sequencer(address).sender.transactions[of].state

    def receipts(self) -> list[tuple[IntentId, Outcome]]:
        return [(report.receipt.intent, report.receipt.outcome) for report in self.all(ReportReceipt)]


def restarted(*dispatches: RoundDispatch, next_nonce: int = 0, **options: object) -> NodeBench:
    """A node in its second life, whose first left these dispatches."""
    stored = StoredNode(1, dispatches=dispatches, accounts={SHARED_ACCOUNT: StoredAccount(next_nonce)}, blocks=(START,))
    return NodeBench(stored=stored, **options)  # type: ignore[arg-type]


def dispatch_of_b(bench: NodeBench) -> None:
    """B's intent goes all its way to a dispatch of this node."""
    bench.hear(B, DelegationCommand(RequestId(1, 1), (Delegation(intent("B-1"), DelegationNumber(1, 1)),)))
    assembly = bench.said(AssembleRequest, B)[-1]
    signed = replace(transition(B1), signature=b"signed")
    result = AssemblyResult(B1, AssemblyOutcome.ASSEMBLED, DelegationNumber(1, 1), signed)
    bench.hear(B, AssembleResponse(assembly.request_id, (result,)))
    permission = bench.said(DispatchConfirmationRequest, B)[-1]
    bench.hear(B, DispatchConfirmationResponse(permission.request_id, (B1,)))
