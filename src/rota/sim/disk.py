"""A node's disk in the simulated world: what it has made durable, and what a new life finds there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

from rota.core.distribution import deliveries_of, order_of
from rota.core.effects import (
    BlocksIndexed,
    DispatchRepriced,
    EndingDecided,
    IntentAccepted,
    IntentFinalised,
    IntentParked,
    IntentResumed,
    LookUpIntents,
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
from rota.core.events import IntentsLookedUp, LedgerOutcome, LedgerStatus
from rota.core.events.chain import ChainBlock, MinedStatus
from rota.core.issuing import kept_for
from rota.core.node import StoredNode
from rota.core.sequencer import StoredContract
from rota.core.states.sender_transaction import Permission, Restored
from rota.digests import domain_separator, void_leaf
from rota.sim.ledger import GENESIS, GENESIS_TIME_S
from rota.types import (
    Contract,
    ContractAddress,
    Digest,
    IntentId,
    KeptStates,
    Leaf,
    NodeName,
    Outcome,
    State,
    StateId,
    Transition,
)


class Fate(Enum):
    """What becomes of a write: it is done, it fails, or it is done and reported as a failure."""

    WORKS = "works"
    FAILS = "fails"
    LIES = "lies"


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
    """What a node has made durable, in order; `blocks` are those that it has indexed."""

    records: list[tuple[ContractAddress, Record]] = field(default_factory=list)
    keys: dict[str, IntentId] = field(default_factory=dict)
    intents: dict[IntentId, Outcome | None] = field(default_factory=dict)
    unspent: dict[ContractAddress, dict[StateId, State]] = field(default_factory=dict)
    blocks: list[ChainBlock] = field(default_factory=lambda: [GENESIS])
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

    def look_up(self, order: LookUpIntents, contracts: tuple[Contract, ...], confirmations: int) -> IntentsLookedUp:
        """Which intent has this key, and what became of these."""
        final = self._final(confirmations)
        committed: dict[IntentId, bool] = {}
        for contract in contracts if order.intents else ():
            committed.update(_committed(final, contract))
        outcomes: list[tuple[IntentId, Outcome]] = []
        unfinished: list[IntentId] = []
        for intent in order.intents:
            is_confirmed = committed.get(intent) is False
            outcome = Outcome.CONFIRMED if is_confirmed else self.intents.get(intent)
            if outcome is not None:
                outcomes.append((intent, outcome))
            elif intent in self.intents:
                unfinished.append(intent)
        return IntentsLookedUp(order.token, self.keys.get(order.key), tuple(outcomes), tuple(unfinished))

    def find_states(
        self, contract: ContractAddress, leaves: tuple[Leaf, ...]
    ) -> tuple[tuple[Digest, tuple[Transition, ...]], ...]:
        """The transitions of these leaves that this node dispatched or was sent, by round."""
        found: dict[Digest, tuple[Transition, ...]] = {}
        for written_for, record in self.records:
            match record:
                case RoundDispatch(order) if order.contract == contract:
                    digest, transitions = order.digest, order.transitions
                case StatesReceived(digest, transitions) if written_for == contract:
                    pass
                case _:
                    continue
            wanted = tuple(transition for transition in transitions if transition.leaf in leaves)
            if wanted:
                found.setdefault(digest, wanted)
        return tuple(found.items())

    def unspent_states(self, contract: ContractAddress) -> tuple[State, ...]:
        """What the node holds of what is on the chain and unspent, in the order of the chain."""
        held = self._held(contract)
        outcomes = [each for each in _indexed(self.blocks, contract) if each.status is LedgerStatus.COMMITTED]
        spent = {state for outcome in outcomes for state in outcome.inputs}
        of_leaf: dict[Leaf, list[State]] = {}
        for state in sorted(held.values(), key=lambda each: each.id.output):
            of_leaf.setdefault(state.id.leaf, []).append(state)
        made = [state for outcome in outcomes for state in of_leaf.get(outcome.leaf, ())]
        return tuple(state for state in made if state.id not in spent)

    def states(self, contract: ContractAddress, ids: Sequence[StateId]) -> tuple[State, ...]:
        """Those of these that the node holds."""
        held = self._held(contract)
        return tuple(held[each] for each in ids if each in held)

    def _held(self, contract: ContractAddress) -> dict[StateId, State]:
        """The states whose bytes are in a record, whatever became of them."""
        held: dict[StateId, State] = {}
        for written_for, record in self.records:
            match record:
                case RoundDispatch(order):
                    written_for, transitions = order.contract, order.transitions
                case StatesReceived(_, transitions):
                    pass
                case PermissionGranted(transition=transition):
                    transitions = (transition,)
                case TransitionPrepared(prepared=prepared) | TransitionIssued(prepared=prepared):
                    transitions = (prepared.transition,)
                case _:
                    continue
            for transition in transitions if written_for == contract else ():
                for state in transition.outputs:
                    if state.content is not None:
                        held.setdefault(state.id, state)
        return held

    def _final(self, confirmations: int) -> list[ChainBlock]:
        return [block for block in self.blocks if block.height <= self.height - confirmations]

    def restore(self, name: NodeName, contracts_known: tuple[Contract, ...], confirmations: int) -> StoredNode:
        """What a node finds on its disk when it starts; outcomes that are not final yet are told to it again."""
        final = self._final(confirmations)
        incarnation, next_nonce = 0, 0
        contracts: dict[ContractAddress, dict[IntentId, Restored]] = {c.address: {} for c in contracts_known}
        by_nonce: dict[int, RoundDispatch] = {}
        outcomes: dict[IntentId, Outcome] = {}
        acknowledged: dict[tuple[Digest, NodeName, int], None] = {}
        prepared: dict[ContractAddress, Prepared] = {c.address: Prepared() for c in contracts_known}
        for contract, record in self.records:
            match record:
                case StatesAcknowledged(digest, peer, part):
                    acknowledged[(digest, peer, part)] = None
                case StatesReceived():
                    pass
                case BlocksIndexed():
                    pass
                case DispatchRepriced(dispatch):
                    by_nonce[dispatch.nonce] = dispatch
                case NodeStarted(number):
                    incarnation = number
                case RoundDispatch():
                    # A disk that reported a failure may hold a dispatch whose nonce went to another one.
                    by_nonce[record.nonce] = record
                    next_nonce = max(next_nonce, record.nonce + 1)
                case IntentAccepted(intent):
                    contracts[contract][intent.id] = Restored(intent)
                case IntentFinalised(receipt):
                    outcomes[receipt.intent] = receipt.outcome
                case TransitionPrepared() | PreparedAcknowledged() | PreparedEndorsed():
                    prepared[contract].note(record)
                case _:
                    _restore(contracts[contract], record)
        dispatches = list(by_nonce.values())
        for known in contracts_known:
            _settle(final, known, contracts[known.address], outcomes)
        stored = {
            address: prepared[address].add_to(
                StoredContract(
                    tuple(r for i, r in intents.items() if i not in outcomes),
                    outcomes=tuple(outcomes.items()),
                    indexed=_indexed(final, address),
                    latest_chain_time_s=self.latest_chain_time_s,
                )
            )
            for address, intents in contracts.items()
        }
        unsettled = _unsettled(final, dispatches)
        undelivered = tuple(
            delivery
            for order in (
                *(dispatch.round for dispatch in dispatches),
                *(order_of(address, record) for address, kept in prepared.items() for record in kept.records),
            )
            for delivery in deliveries_of(order, name)
            if (delivery.digest, delivery.peer, delivery.part) not in acknowledged
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


def _indexed(final: list[ChainBlock], contract: ContractAddress) -> tuple[LedgerOutcome, ...]:
    """What the index has said of a contract, whoever sent it and in whatever version."""
    return tuple(outcome for block in final for address, outcome in block.outcomes if address == contract)


def _settle(
    final: list[ChainBlock], contract: Contract, intents: dict[IntentId, Restored], outcomes: dict[IntentId, Outcome]
) -> None:
    """What the index has made durable: an intent on the chain is confirmed, but by its empty transition voided."""
    for intent, is_void in _committed(final, contract).items():
        if intent in intents:
            if is_void:
                intents[intent] = replace(intents[intent], was_voided=True)
            else:
                outcomes[intent] = Outcome.CONFIRMED


def _committed(final: list[ChainBlock], contract: Contract) -> dict[IntentId, bool]:
    """The intents of a contract that are on the chain, and whether they were voided there."""
    separator = domain_separator(contract.chain_id, contract.address)
    return {
        outcome.intent: outcome.leaf == void_leaf(separator, outcome.intent)
        for outcome in _indexed(final, contract.address)
        if outcome.status is LedgerStatus.COMMITTED
    }


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
