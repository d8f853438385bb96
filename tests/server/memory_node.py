"""A node in memory that behaves: it keeps what it accepts, refuses what it must, and ends what it is told to end."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Container, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from rota.domains.queries import Query
from rota.domains.records import Record, Uint64
from rota.engine.accepting import Acceptances
from rota.keys.signers import WalletSigner
from rota.model.types import NO_CONTRACT, Contract, ContractAddress, IntentId, Leaf, Mode, NodeName, Party, Rotation
from rota.ports import StoredKey, Unavailable
from rota.rpc.errors import ErrorCode, Rejected, invalid, key_used
from rota.schema.commands import (
    Checkpoint,
    CommandRejected,
    Completion,
    CompletionFilter,
    CompletionPage,
    Failure,
    StatusCode,
)
from rota.service.abis.types import Types
from rota.service.explain.ring import LeaderChange, Loss, RingView
from rota.service.interface import (
    Acknowledgement,
    AnyReceipt,
    CommandConfiguration,
    CommandSubmission,
    ConsentQuestion,
    ContractStatus,
    ContractSummary,
    DraftView,
    EventDefinition,
    EventListenerStatus,
    EventView,
    ExaminedView,
    Explanation,
    FeedUpdate,
    LegView,
    Measurements,
    Moment,
    NamedLeg,
    PeerMeasurements,
    ReceiptDefinition,
    ReceiptView,
    SequencerRole,
    StateCount,
    Submission,
    TransactionChange,
    TransactionView,
)
from rota.service.keys.keys import Keys
from rota.service.listeners.listeners import DurableListeners
from tests.keys.kit import WALLET
from tests.server.memory_following import MemoryFollowing
from tests.server.memory_listeners import MemoryListening, MemorySource
from tests.server.memory_types import memory_types

CONTRACT = ContractAddress("0x" + "11" * 20)
BEGAN_MS = 1_760_000_000_123


@dataclass(slots=True)
class Kept:
    """What the node remembers of a transaction."""

    view: TransactionView
    state: str = "Pending"
    receipt: ReceiptView | None = None


def _receipt_source() -> MemorySource[ReceiptDefinition, AnyReceipt]:
    def passes(wanted: ReceiptDefinition, receipt: AnyReceipt) -> bool:
        shown = receipt if isinstance(receipt, ReceiptView) else receipt.receipt
        return wanted.domain is None or wanted.domain == shown.domain

    return MemorySource("receipts", ReceiptDefinition, passes)


def _event_source() -> MemorySource[EventDefinition, EventView]:
    return MemorySource("blockchainevents", EventDefinition, lambda _, __: True)


class ClosedOffice:
    """Takes no commands: those of a real node are tested with it (tests/service/test_commands.py)."""

    def __init__(self) -> None:
        failure = Failure(StatusCode.UNAVAILABLE, "PARTICIPANT_UNAVAILABLE", "no commands are taken here")
        self.closed = CommandRejected(failure)

    async def submit(self, submission: CommandSubmission) -> Acknowledgement:
        raise self.closed

    async def submit_and_wait(self, submission: CommandSubmission) -> Completion:
        raise self.closed

    def subscription(self, application_id: str, parties: Sequence[str], begin_exclusive: int) -> CompletionFilter:
        raise self.closed

    async def completions(self, wanted: CompletionFilter, after: int, limit: int) -> CompletionPage:
        raise self.closed

    async def published(self, after: int) -> None:
        raise self.closed

    async def end(self) -> Checkpoint:
        raise self.closed

    async def prune(self, offset: int) -> int:
        raise self.closed

    def configuration(self) -> CommandConfiguration:
        return CommandConfiguration(1_000)

    async def configurations(self) -> AsyncIterator[CommandConfiguration]:
        yield self.configuration()


@dataclass(frozen=True, slots=True)
class KeyRow(Record):
    """A key as queries name its fields."""

    path: str
    parent: str
    name: str
    index: Uint64

    @classmethod
    def of(cls, key: StoredKey) -> "KeyRow":
        return cls(key.path, key.parent, key.name, key.place)


class MemoryKeyNames:
    """`ports.KeyNames` without a database."""

    def __init__(self) -> None:
        self.kept: dict[str, StoredKey] = {}

    async def at(self, paths: Sequence[str]) -> tuple[StoredKey, ...]:
        return tuple(self._shown(self.kept[path]) for path in paths if path in self.kept)

    async def with_address(self, address: ContractAddress) -> StoredKey | None:
        return next((self._shown(key) for key in self.kept.values() if key.address == address), None)

    async def next_place(self, parent: str) -> int:
        return sum(key.parent == parent for key in self.kept.values())

    async def add(self, keys: Sequence[StoredKey]) -> None:
        for key in keys:
            there = self.kept.get(key.path)
            self.kept[key.path] = key if there is None or there.address is None else there

    async def find(self, query: Query) -> tuple[StoredKey, ...]:
        return query.select([self._shown(self.kept[path]) for path in sorted(self.kept)], KeyRow.of)

    def _shown(self, key: StoredKey) -> StoredKey:
        return replace(key, has_children=any(each.parent == key.path for each in self.kept.values()))


class Elsewhere:
    """A family that is tried on real nodes: here it refuses whatever is asked."""

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  # whatever is asked for
        raise invalid("", f"the node in memory has no {name}")


# A contract about which an operator is asked.
QUESTION = ConsentQuestion(
    proposer=NodeName("node2"),
    deployment=IntentId(bytes(16)),
    contract=None,
    domain="pente",
    is_endorser=True,
    is_coordinator=True,
    members=(Party("a@node1"), Party("b@node2")),
    member_count=3,
    endorsers=(NodeName("node1"), NodeName("node2")),
    endorser_count=2,
    threshold=2,
    genesis_hash=bytes(32),
    asked_at_s=1_700_000_000,
    expires_at_s=1_700_604_800,
    terms=Contract(NO_CONTRACT, (NodeName("node1"), NodeName("node2")), (), 0),
)


@dataclass
class MemoryConsents:
    """`service.interface.Consents` over a list."""

    open: list[ConsentQuestion] = field(default_factory=list)
    decided: list[tuple[str, IntentId, str | None]] = field(default_factory=list)

    async def list(self) -> tuple[ConsentQuestion, ...]:
        return tuple(self.open)

    async def accept(self, proposer: NodeName, deployment: IntentId) -> None:
        self._decide(proposer, deployment, None)

    async def refuse(self, proposer: NodeName, deployment: IntentId, reason: str) -> None:
        self._decide(proposer, deployment, reason)

    def _decide(self, proposer: NodeName, deployment: IntentId, reason: str | None) -> None:
        found = [each for each in self.open if (each.proposer, each.deployment) == (proposer, deployment)]
        if not found:
            raise invalid("deployment", "this node's operator is not asked about it")
        self.open.remove(found[0])
        self.decided.append((proposer, deployment, reason))


@dataclass(slots=True)
class MemoryNode:
    """Answers at once, unless it is told to be away or to hold its answers."""

    name: NodeName = NodeName("node1")
    missing: tuple[str, ...] = ()
    warned: tuple[str, ...] = ()
    is_away: bool = False
    knows_all: bool = False
    kept: dict[IntentId, Kept] = field(default_factory=dict)
    known: tuple[ContractAddress, ...] = (CONTRACT,)
    bound: dict[IntentId, tuple[tuple[NamedLeg, ...], str]] = field(default_factory=dict)
    holding: asyncio.Event | None = None
    moved: asyncio.Event = field(default_factory=asyncio.Event)
    watchers_max: int = 1
    opened: Container[IntentId] = ()
    waiting_count: int = 0
    waiting_most: int = 0
    listening: MemoryListening = field(default_factory=MemoryListening)
    ended: MemorySource[ReceiptDefinition, AnyReceipt] = field(default_factory=_receipt_source)
    happened: MemorySource[EventDefinition, EventView] = field(default_factory=_event_source)
    receipt_listeners: DurableListeners[ReceiptDefinition, AnyReceipt] = field(init=False)
    event_listeners: DurableListeners[EventDefinition, EventView] = field(init=False)
    commands: ClosedOffice = field(default_factory=lambda: ClosedOffice())
    types: Types = field(default_factory=memory_types)
    following: MemoryFollowing = field(init=False)
    keys: Keys = field(default_factory=lambda: Keys(NodeName("node1"), WalletSigner(WALLET), MemoryKeyNames()))

    groups: Any = field(default_factory=Elsewhere)
    aside: Any = field(default_factory=Elsewhere)
    accounts: Any = field(default_factory=Elsewhere)
    quarantine: Any = field(default_factory=Elsewhere)
    consents: MemoryConsents = field(default_factory=MemoryConsents)
    triggers: Any = field(default_factory=Elsewhere)
    states: Any = field(default_factory=Elsewhere)
    positions: Any = field(default_factory=Elsewhere)
    neighbours: Any = field(default_factory=Elsewhere)
    registries: Any = field(default_factory=Elsewhere)
    domains: Any = field(default_factory=Elsewhere)
    questions: Any = field(default_factory=Elsewhere)
    itself: Any = field(default_factory=Elsewhere)
    chain: Any = field(default_factory=Elsewhere)
    message_listeners: Any = field(default_factory=Elsewhere)
    acceptances: Acceptances = field(default_factory=Acceptances)

    def __post_init__(self) -> None:
        self.receipt_listeners = DurableListeners(self.ended, self.listening, self.acceptances)  # type: ignore[arg-type]
        self.event_listeners = DurableListeners(self.happened, self.listening, self.acceptances)  # type: ignore[arg-type]
        self.following = MemoryFollowing(lambda: self.kept)

    # Transactions.

    async def submit(self, submission: Submission) -> IntentId:
        party, _, node = submission.sender.partition("@")
        if node not in ("", self.name):
            raise invalid("from", f"must be a party of {self.name}")
        for place, other in enumerate(submission.depends_on):
            if other not in self.kept:
                raise invalid(f"dependsOn[{place}]", f"must be a transaction of {self.name}")
        for kept in self.kept.values():
            if submission.idempotency_key and kept.view.idempotency_key == submission.idempotency_key:
                used = key_used(submission.idempotency_key, kept.view.id)
                asked = (submission.function, submission.data)
                raise used.compared(asked == (kept.view.function, kept.view.data), {"data": kept.view.data})
        intent = IntentId(hashlib.sha256(f"{len(self.kept)}".encode()).digest()[:16])
        self.kept[intent] = Kept(
            TransactionView(
                id=intent,
                accepted_at_ms=BEGAN_MS + len(self.kept),
                type=submission.type,
                sender=Party(f"{party}@{self.name}"),
                submit_mode=submission.submit_mode,
                domain=submission.domain,
                to=submission.to,
                function=submission.function,
                data=submission.data,
                idempotency_key=submission.idempotency_key,
                depends_on=submission.depends_on,
                awaits=submission.awaits,
                options=submission.options,
            )
        )
        # The place in the order is taken; now it is made durable.
        try:
            await self._wait()
        except Unavailable:
            del self.kept[intent]
            raise
        return intent

    async def transaction(self, intent: IntentId) -> TransactionView | None:
        await self._wait()
        kept = self.kept.get(intent)
        return kept.view if kept is not None else None

    async def receipt(self, intent: IntentId) -> ReceiptView | None:
        await self._wait()
        kept = self.kept.get(intent)
        return kept.receipt if kept is not None else None

    async def resume(self, intent: IntentId) -> None:
        kept = self._under_way(intent)
        if kept.state != "Parked":
            raise Rejected(ErrorCode.INVALID_PARAMETERS, "transactionId", f"is {kept.state}, not Parked")
        kept.state = "Pending"

    async def cancel(self, intent: IntentId) -> None:
        kept = self._under_way(intent)
        kept.state = "Reverted"
        kept.receipt = ReceiptView(intent, False, BEGAN_MS, 1, failure_message="cancelled")

    async def receipts(self, after_sequence: int) -> AsyncIterator[ReceiptView]:
        for kept in self.kept.values():
            if kept.receipt is not None and kept.receipt.sequence > after_sequence:
                yield kept.receipt

    def confirm(self, intent: IntentId) -> None:
        """The ledger has it."""
        self.kept[intent].state = "Confirmed"
        self.kept[intent].receipt = ReceiptView(
            id=intent,
            success=True,
            indexed_at_ms=BEGAN_MS + 1_000,
            sequence=7,
            domain="noto",
            leaf=Leaf(b"\x01" * 32),
            contract=CONTRACT,
            block_number=12,
            transaction_hash=b"\x02" * 32,
            transaction_index=0,
            log_index=3,
            source=CONTRACT,
        )

    async def event_listener_status(self, name: str) -> EventListenerStatus | None:
        position = await self.event_listeners.position(name)
        return EventListenerStatus(False, position.number - 1) if position is not None else None

    # Settlements.

    async def draft(self, submission: Submission, readers: tuple[str, ...]) -> DraftView:
        drafted = await self.submit(submission)
        openings = tuple(reader.encode() for reader in readers)
        return DraftView(drafted, CONTRACT, b"\x03" * 32, {"data": "0x"}, openings)

    async def examine(self, opening: bytes) -> ExaminedView:
        if not opening:
            raise invalid("opening", "must be one that a node made of a draft")
        return ExaminedView(CONTRACT, b"\x03" * 32, {"data": "0x"})

    async def bind(self, draft: IntentId, legs: tuple[NamedLeg, ...], idempotency_key: str) -> IntentId:
        if draft not in self.kept:
            raise invalid("draft", "must be the id of a draft that this node has; draft it again")
        self.bound = {**self.bound, draft: (legs, idempotency_key)}
        return draft

    async def leg(self, intent: IntentId) -> LegView | None:
        if intent not in self.bound:
            return None
        return LegView(CONTRACT, b"\x03" * 32, b"\x04", b"\x05", b"\x06" * 32, CONTRACT, BEGAN_MS // 1_000, b"\x07")

    # The sequencer.

    async def explain(self, intent: IntentId) -> Explanation | None:
        kept = self.kept.get(intent)
        if kept is None:
            return None
        return Explanation(
            id=intent,
            role=SequencerRole.SENDER,
            state=kept.state,
            contract=kept.view.to,
            since_ms=BEGAN_MS,
            waits_for="its delegation to be accepted",
            blocked_by=(NodeName("node2"),),
            history=(Moment(BEGAN_MS, "accepted"),),
        )

    async def status(self, contract: ContractAddress) -> ContractStatus | None:
        if contract not in self.known:
            return None
        nodes = (NodeName("node1"), NodeName("node2"))
        return ContractStatus(
            contract=contract,
            domain="noto",
            mode=Mode.RING,
            rotation=Rotation.STICKY,
            committee=nodes,
            endorsers=nodes,
            threshold=2,
            height=250,
            block_range=2,
            range_size=100,
            ranking=nodes[::-1],
            active_coordinator=nodes[1],
            active_since_ms=BEGAN_MS,
            coordinator_state="Observing",
            coordinator_since_ms=BEGAN_MS,
            sender_state="Sending",
            sending=self._counts(),
            silent=(),
        )

    async def contracts(self, after: ContractAddress | None, limit: int) -> tuple[ContractSummary, ...]:
        found = [each for each in sorted(self.known) if after is None or each > after]
        return tuple(ContractSummary(each, "noto", Mode.RING, is_loaded=False) for each in found[:limit])

    async def ring(self, contract: ContractAddress) -> RingView | None:
        return RingView(contract, 1_024) if contract in self.known else None

    async def leaders(self, contract: ContractAddress) -> tuple[LeaderChange, ...]:
        one, two, three = (NodeName(f"node{number}") for number in (1, 2, 3))
        return (
            LeaderChange(contract, BEGAN_MS, None, two),
            LeaderChange(contract, BEGAN_MS, two, three),
            LeaderChange(contract, BEGAN_MS, three, one, Loss.HEARTBEATS),
        )

    async def watch(
        self, interval_ms: int, opened: Container[IntentId] = ()
    ) -> AsyncIterator[FeedUpdate]:  # it tells when told
        if not self.watchers_max:
            raise invalid("", "too many watch this node already")
        self.opened = opened
        number = 1
        yield FeedUpdate(number, BEGAN_MS, 250, is_snapshot=True, contracts=await self.contracts(None, 10))
        while True:
            await self.moved.wait()
            self.moved.clear()
            number += 1
            changes = tuple(TransactionChange(each, BEGAN_MS, CONTRACT, "accepted") for each in self.kept)
            yield FeedUpdate(number, BEGAN_MS, 251, transactions=changes)

    # Contracts.

    async def endorser_address(self, deployment: IntentId) -> ContractAddress:
        return ContractAddress("0x" + hashlib.sha256(self.name.encode() + deployment).digest()[:20].hex())

    async def take_in(self, genesis: bytes, deployment: IntentId) -> ContractAddress:
        if genesis != b"genesis of " + deployment:
            raise invalid("genesis", "is not the one whose hash stands on the chain")
        address = ContractAddress("0x" + hashlib.sha256(deployment).digest()[:20].hex())
        self.known = (*self.known, address)
        return address

    # Operators.

    def readiness(self) -> tuple[str, ...]:
        return self.missing

    async def acknowledge_finality(self) -> int:
        """Two receipts no longer hold."""
        return 2

    def warnings(self) -> tuple[str, ...]:
        return self.warned

    def measurements(self) -> Measurements:
        known = Measurements(
            index_height=250,
            is_ledger_lost=False,
            contracts=len(self.known),
            intents_open=sum(kept.receipt is None for kept in self.kept.values()),
            intents_accepted_total=len(self.kept),
            sending=self._counts(),
            peers=(PeerMeasurements(NodeName("node2"), True, 3, 1),),
        )
        unknown: list[str] = [each.name for each in fields(known) if getattr(known, each.name) is None]
        everything: dict[str, Any] = dict.fromkeys(unknown, 1)
        return replace(known, **everything) if self.knows_all else known

    # Its own.

    def _under_way(self, intent: IntentId) -> Kept:
        kept = self.kept.get(intent)
        if kept is None or kept.receipt is not None:
            raise invalid("transactionId", "is not under way at this node")
        return kept

    def _counts(self) -> tuple[StateCount, ...]:
        counts: dict[str, int] = {}
        for kept in self.kept.values():
            counts[kept.state] = counts.get(kept.state, 0) + 1
        return tuple(StateCount(state, count) for state, count in counts.items())

    async def _wait(self) -> None:
        if self.is_away:
            raise Unavailable("the store is away")
        if self.holding is not None:
            self.waiting_count += 1
            self.waiting_most = max(self.waiting_most, self.waiting_count)
            try:
                await self.holding.wait()
            finally:
                self.waiting_count -= 1
