"""A node's disk in the simulated world: what it has made durable, and what a new life finds there."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from rota.core.distribution import deliveries_of
from rota.core.effects import (
    BlocksIndexed,
    CancelAccepted,
    DispatchRepriced,
    IntentAccepted,
    IntentFinalised,
    IntentParked,
    IntentResumed,
    LookUpIntents,
    NodeStarted,
    PermissionGranted,
    Record,
    RoundDispatch,
    StatesAcknowledged,
    StatesReceived,
)
from rota.core.events import IntentsLookedUp, LedgerStatus
from rota.core.events.chain import ChainBlock, MinedStatus
from rota.core.node import StoredNode
from rota.core.sequencer import StoredContract
from rota.core.states.sender_transaction import Permission, Restored
from rota.sim.ledger import GENESIS
from rota.types import Contract, ContractAddress, Digest, IntentId, NodeName, Outcome, State, StateId


@dataclass(slots=True)
class Disk:
    """What a node has made durable, in order; `blocks` are those that it has indexed."""

    records: list[tuple[ContractAddress, Record]] = field(default_factory=list)
    keys: dict[str, IntentId] = field(default_factory=dict)
    intents: dict[IntentId, Outcome | None] = field(default_factory=dict)
    unspent: dict[ContractAddress, dict[StateId, State]] = field(default_factory=dict)
    blocks: list[ChainBlock] = field(default_factory=lambda: [GENESIS])
    is_failing: bool = False

    @property
    def height(self) -> int:
        """The height that the node's index has reached."""
        return self.blocks[-1].height

    def write(self, contract: ContractAddress, records: tuple[Record, ...]) -> None:
        """Make records durable; what is looked up by key or id is kept at hand."""
        for record in records:
            self.records.append((contract, record))
            match record:
                case IntentAccepted(intent):
                    self.intents[intent.id] = None
                    if intent.idempotency_key:
                        self.keys[intent.idempotency_key] = intent.id
                case IntentFinalised(receipt):
                    self.intents[receipt.intent] = receipt.outcome
                case _:
                    pass

    def look_up(self, order: LookUpIntents, confirmations: int) -> IntentsLookedUp:
        """Which intent has this key, and what became of these."""
        confirmed = _indexed_outcomes(self._final(confirmations))
        outcomes: list[tuple[IntentId, Outcome]] = []
        unfinished: list[IntentId] = []
        for intent in order.intents:
            outcome = Outcome.CONFIRMED if confirmed.get(intent) else self.intents.get(intent)
            if outcome is not None:
                outcomes.append((intent, outcome))
            elif intent in self.intents:
                unfinished.append(intent)
        return IntentsLookedUp(order.token, self.keys.get(order.key), tuple(outcomes), tuple(unfinished))

    def _final(self, confirmations: int) -> list[ChainBlock]:
        return [block for block in self.blocks if block.height <= self.height - confirmations]

    def index(self, record: BlocksIndexed) -> None:
        """The index goes on, or back and on."""
        while self.blocks and self.blocks[-1].height > record.parted_at:
            self.blocks.pop()
        self.blocks.extend(record.blocks)

    def restore(self, name: NodeName, contracts_known: tuple[Contract, ...], confirmations: int) -> StoredNode:
        """What a node finds on its disk when it starts; outcomes that are not final yet are told to it again."""
        final = self._final(confirmations)
        incarnation, next_nonce = 0, 0
        contracts: dict[ContractAddress, dict[IntentId, Restored]] = {c.address: {} for c in contracts_known}
        dispatches: list[RoundDispatch] = []
        outcomes: dict[IntentId, Outcome] = {}
        acknowledged: dict[tuple[Digest, NodeName], None] = {}
        for contract, record in self.records:
            match record:
                case StatesAcknowledged(digest, peer):
                    acknowledged[(digest, peer)] = None
                case StatesReceived():
                    pass
                case BlocksIndexed():
                    pass
                case DispatchRepriced(dispatch):
                    dispatches[:] = [dispatch if old.nonce == dispatch.nonce else old for old in dispatches]
                case NodeStarted(number):
                    incarnation = number
                case RoundDispatch():
                    dispatches.append(record)
                    next_nonce = record.nonce + 1
                case IntentAccepted(intent):
                    contracts[contract][intent.id] = Restored(intent)
                case IntentFinalised(receipt):
                    outcomes[receipt.intent] = receipt.outcome
                case _:
                    _restore(contracts[contract], record)
        settled = _indexed_outcomes(final)
        outcomes.update({i: Outcome.CONFIRMED for i, done in settled.items() if done})
        stored = {
            address: StoredContract(
                tuple(r for i, r in intents.items() if i not in outcomes), (), tuple(outcomes.items())
            )
            for address, intents in contracts.items()
        }
        unsettled = _unsettled(final, dispatches)
        undelivered = tuple(
            delivery
            for dispatch in dispatches
            for delivery in deliveries_of(dispatch.round, name)
            if (delivery.digest, delivery.peer) not in acknowledged
        )
        return StoredNode(incarnation, stored, unsettled, undelivered, next_nonce, tuple(self.blocks))


def _unsettled(final: list[ChainBlock], dispatches: list[RoundDispatch]) -> tuple[RoundDispatch, ...]:
    """The dispatches whose nonce is not used, or one of whose transitions has no outcome, in a final block."""
    used = {mined.nonce: mined.status for block in final for mined in block.mined}
    settled = {(outcome.digest, outcome.intent) for block in final for _, outcome in block.outcomes}
    return tuple(
        dispatch
        for dispatch in dispatches
        if dispatch.nonce not in used
        or (
            used[dispatch.nonce] is MinedStatus.SUCCEEDED
            and any((dispatch.round.digest, each.intent) not in settled for each in dispatch.round.transitions)
        )
    )


def _unfinished(intents: dict[IntentId, Restored], outcomes: dict[IntentId, Outcome]) -> tuple[Restored, ...]:
    return tuple(restored for intent, restored in intents.items() if intent not in outcomes)


def _indexed_outcomes(final: list[ChainBlock]) -> dict[IntentId, bool]:
    """What this node's index has made durable: which intents have an outcome, and whether it is a success."""
    settled: dict[IntentId, bool] = {}
    for block in final:
        for _, outcome in block.outcomes:
            is_success = outcome.status is LedgerStatus.COMMITTED
            settled[outcome.intent] = settled.get(outcome.intent, False) or is_success
    return settled


def _restore(intents: dict[IntentId, Restored], record: Record) -> None:
    """What a record changes in what is remembered of its intent."""
    match record:
        case IntentParked(intent, reason):
            intents[intent] = replace(intents[intent], parked_reason=reason)
        case IntentResumed(intent):
            intents[intent] = replace(intents[intent], parked_reason=None)
        case CancelAccepted(intent):
            intents[intent] = replace(intents[intent], is_cancelled=True)
        case PermissionGranted(intent, number, delegate, transition):
            intents[intent] = replace(intents[intent], permission=Permission(number, delegate, transition))
        case _:
            raise AssertionError(f"the disk does not know {type(record).__name__}")
