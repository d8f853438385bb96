"""A node's disk in the simulated world: what it has made durable, and what a new life finds there."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from rota.core.distribution import deliveries_of, order_of
from rota.core.effects import (
    EndingDecided,
    IntentAccepted,
    IntentFinalised,
    IntentParked,
    IntentResumed,
    NodeStarted,
    PermissionGranted,
    PreparedAcknowledged,
    PreparedEndorsed,
    Record,
    RoundDispatch,
    StatesAcknowledged,
    StatesReceived,
    TransitionIssued,
    TransitionPrepared,
)
from rota.core.events import LedgerOutcome, LedgerStatus
from rota.core.issuing import kept_for
from rota.core.node import StoredNode
from rota.core.sequencer import StoredContract
from rota.core.states.sender_transaction import Permission, Restored
from rota.digests import domain_separator, void_leaf
from rota.sim.ledger import GENESIS_TIME_S, Block
from rota.types import Contract, ContractAddress, Digest, IntentId, KeptStates, Leaf, NodeName, Outcome, State, StateId


@dataclass(slots=True)
class Prepared:
    """What a node has prepared and endorsed as prepared of one contract, and which of it was acknowledged."""

    records: list[TransitionPrepared] = field(default_factory=list)
    acknowledged: dict[Leaf, None] = field(default_factory=dict)
    endorsed: list[KeptStates] = field(default_factory=list)

    def note(self, record: TransitionPrepared | PreparedAcknowledged | PreparedEndorsed) -> None:
        """One record of it."""
        match record:
            case TransitionPrepared():
                self.records.append(record)
            case PreparedAcknowledged(_, leaf):
                self.acknowledged[leaf] = None
            case PreparedEndorsed(kept):
                self.endorsed.extend(kept)

    def add_to(self, stored: StoredContract) -> StoredContract:
        """What is left of it, beside those whose intents are on the chain."""
        used = {outcome.intent for outcome in stored.indexed if outcome.status is LedgerStatus.COMMITTED}
        left = [record for record in self.records if record.prepared.transition.intent not in used]
        return replace(
            stored,
            unacknowledged=tuple(r for r in left if r.prepared.transition.leaf not in self.acknowledged),
            kept=tuple(kept_for(record.prepared) for record in left),
            endorsed=tuple(kept for kept in self.endorsed if kept.intent not in used),
        )


@dataclass(slots=True)
class Disk:
    """What a node has made durable, in order; `blocks` are those that it has indexed, on top of genesis."""

    records: list[tuple[ContractAddress, Record]] = field(default_factory=list)
    unspent: dict[ContractAddress, dict[StateId, State]] = field(default_factory=dict)
    blocks: list[Block] = field(default_factory=list)
    is_failing: bool = False

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
        dispatches: list[RoundDispatch] = []
        outcomes: dict[IntentId, Outcome] = {}
        keys: dict[str, IntentId] = {}
        acknowledged: dict[tuple[Digest, NodeName], None] = {}
        prepared: dict[ContractAddress, Prepared] = {c.address: Prepared() for c in contracts_known}
        for contract, record in self.records:
            match record:
                case StatesAcknowledged(digest, peer):
                    acknowledged[(digest, peer)] = None
                case StatesReceived():
                    pass
                case NodeStarted(number):
                    incarnation = number
                case RoundDispatch():
                    dispatches.append(record)
                    next_nonce = record.nonce + 1
                case IntentAccepted(intent):
                    contracts[contract][intent.id] = Restored(intent)
                    if intent.idempotency_key:
                        keys[intent.idempotency_key] = intent.id
                case IntentFinalised(receipt):
                    outcomes[receipt.intent] = receipt.outcome
                case TransitionPrepared() | PreparedAcknowledged() | PreparedEndorsed():
                    prepared[contract].note(record)
                case _:
                    _restore(contracts[contract], record)
        for known in contracts_known:
            self._settle(known, contracts[known.address], outcomes)
        stored = {
            address: prepared[address].add_to(
                StoredContract(
                    tuple(r for i, r in intents.items() if i not in outcomes), indexed=self._indexed(address)
                )
            )
            for address, intents in contracts.items()
        }
        unsettled = self._unsettled(dispatches)
        undelivered = tuple(
            delivery
            for order in (
                *(dispatch.round for dispatch in dispatches),
                *(order_of(address, record) for address, kept in prepared.items() for record in kept.records),
            )
            for delivery in deliveries_of(order, name)
            if (delivery.digest, delivery.peer) not in acknowledged
        )
        return StoredNode(
            incarnation, stored, unsettled, undelivered, next_nonce, outcomes, keys, self.height, self.chain_time_s
        )

    def _indexed(self, contract: ContractAddress) -> tuple[LedgerOutcome, ...]:
        """What the index has said of a contract, whoever sent it and in whatever version."""
        return tuple(outcome for block in self.blocks for address, outcome in block.outcomes if address == contract)

    def _unsettled(self, dispatches: list[RoundDispatch]) -> tuple[RoundDispatch, ...]:
        """The dispatches that are not mined, as far as this node knows, whatever became of their intents elsewhere."""
        mined = {(outcome.digest, outcome.intent) for block in self.blocks for _, outcome in block.outcomes}
        return tuple(
            dispatch
            for dispatch in dispatches
            if any((dispatch.round.digest, each.intent) not in mined for each in dispatch.round.transitions)
        )

    def _settle(self, contract: Contract, intents: dict[IntentId, Restored], outcomes: dict[IntentId, Outcome]) -> None:
        """What the index has made durable: an intent on the chain is confirmed, but by its empty transition voided."""
        separator = domain_separator(contract.chain_id, contract.address)
        for block in self.blocks:
            for address, outcome in block.outcomes:
                intent = outcome.intent
                if address != contract.address or intent not in intents or outcome.status is not LedgerStatus.COMMITTED:
                    continue
                if outcome.leaf == void_leaf(separator, intent):
                    intents[intent] = replace(intents[intent], was_voided=True)
                else:
                    outcomes[intent] = Outcome.CONFIRMED


def _restore(intents: dict[IntentId, Restored], record: Record) -> None:
    """What a record changes in what is remembered of its intent."""
    match record:
        case IntentParked(intent, reason):
            intents[intent] = replace(intents[intent], parked_reason=reason)
        case IntentResumed(intent):
            intents[intent] = replace(intents[intent], parked_reason=None)
        case EndingDecided(intent, reason):
            intents[intent] = replace(intents[intent], ending_reason=reason)
        case TransitionIssued(prepared, void_after_s):
            intent = prepared.transition.intent
            intents[intent] = replace(intents[intent], issued=prepared, void_after_s=void_after_s)
        case PermissionGranted(intent, number, delegate, transition):
            intents[intent] = replace(intents[intent], permission=Permission(number, delegate, transition))
        case _:
            raise AssertionError(f"the disk does not know {type(record).__name__}")
