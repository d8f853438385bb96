"""A node's disk in the simulated world: what it has made durable, and what a new life finds there."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum

from rota.core.distribution import deliveries_of
from rota.core.effects import (
    CancelAccepted,
    IntentAccepted,
    IntentFinalised,
    IntentParked,
    IntentResumed,
    NodeStarted,
    PermissionGranted,
    Record,
    RoundDispatch,
    StatesAcknowledged,
    StatesReceived,
)
from rota.core.events import LedgerStatus
from rota.core.node import StoredNode
from rota.core.sequencer import StoredContract
from rota.core.states.sender_transaction import Permission, Restored
from rota.sim.ledger import GENESIS_TIME_S, Block
from rota.types import Contract, ContractAddress, Digest, IntentId, NodeName, Outcome, State, StateId


class Fate(Enum):
    """What becomes of a write: it is done, it fails, or it is done and reported as a failure."""

    WORKS = "works"
    FAILS = "fails"
    LIES = "lies"


@dataclass(slots=True)
class Disk:
    """What a node has made durable, in order; `blocks` are those that it has indexed, on top of genesis."""

    records: list[tuple[ContractAddress, Record]] = field(default_factory=list)
    unspent: dict[ContractAddress, dict[StateId, State]] = field(default_factory=dict)
    blocks: list[Block] = field(default_factory=list)
    latest_chain_time_s: int = GENESIS_TIME_S
    fate: Fate = Fate.WORKS

    @property
    def is_failing(self) -> bool:
        """Nothing can be written."""
        return self.fate is Fate.FAILS

    @is_failing.setter
    def is_failing(self, is_failing: bool) -> None:
        self.fate = Fate.FAILS if is_failing else Fate.WORKS

    @property
    def height(self) -> int:
        """The height that the node's index has reached."""
        return self.blocks[-1].height if self.blocks else 0

    @property
    def chain_time_s(self) -> int:
        """The chain's time there."""
        return self.blocks[-1].time_s if self.blocks else GENESIS_TIME_S

    def restore(self, name: NodeName, contracts_known: tuple[Contract, ...]) -> StoredNode:
        """What a node finds on its disk when it starts."""
        incarnation, next_nonce = 0, 0
        contracts: dict[ContractAddress, dict[IntentId, Restored]] = {c.address: {} for c in contracts_known}
        by_nonce: dict[int, RoundDispatch] = {}
        outcomes: dict[IntentId, Outcome] = {}
        keys: dict[str, IntentId] = {}
        acknowledged: dict[tuple[Digest, NodeName], None] = {}
        for contract, record in self.records:
            match record:
                case StatesAcknowledged(digest, peer):
                    acknowledged[(digest, peer)] = None
                case StatesReceived():
                    pass
                case NodeStarted(number):
                    incarnation = number
                case RoundDispatch():
                    # A disk that reported a failure may hold a dispatch whose nonce went to another one.
                    by_nonce[record.nonce] = record
                    next_nonce = max(next_nonce, record.nonce + 1)
                case IntentAccepted(intent):
                    contracts[contract][intent.id] = Restored(intent)
                    if intent.idempotency_key:
                        keys[intent.idempotency_key] = intent.id
                case IntentFinalised(receipt):
                    outcomes[receipt.intent] = receipt.outcome
                case _:
                    _restore(contracts[contract], record)
        dispatches = list(by_nonce.values())
        settled = self._indexed_outcomes()
        outcomes.update({i: Outcome.CONFIRMED for i, done in settled.items() if done})
        stored = {
            address: StoredContract(tuple(r for i, r in intents.items() if i not in outcomes))
            for address, intents in contracts.items()
        }
        unsettled = self._unsettled(dispatches)
        undelivered = tuple(
            delivery
            for dispatch in dispatches
            for delivery in deliveries_of(dispatch.round, name)
            if (delivery.digest, delivery.peer) not in acknowledged
        )
        return StoredNode(
            incarnation,
            stored,
            unsettled,
            undelivered,
            next_nonce,
            outcomes,
            keys,
            self.height,
            self.chain_time_s,
            self.latest_chain_time_s,
        )

    def _unsettled(self, dispatches: list[RoundDispatch]) -> tuple[RoundDispatch, ...]:
        """The dispatches that are not mined, as far as this node knows, whatever became of their intents elsewhere."""
        mined = {(outcome.digest, outcome.intent) for block in self.blocks for _, outcome in block.outcomes}
        return tuple(
            dispatch
            for dispatch in dispatches
            if any((dispatch.round.digest, each.intent) not in mined for each in dispatch.round.transitions)
        )

    def _indexed_outcomes(self) -> dict[IntentId, bool]:
        """What this node's index has made durable: which intents have an outcome, and whether it is a success."""
        settled: dict[IntentId, bool] = {}
        for block in self.blocks:
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
