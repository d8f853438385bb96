"""A node's disk in the simulated world: its durable records, and the state that a start restores from them."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TypeVar

from rota.chain.effects import BlocksIndexed, DispatchRepriced, FinalityBroken, RoundDispatch, UndoneCommit
from rota.chain.submitters import StoredAccount
from rota.directory.deployment_states import StoredDeployments
from rota.directory.effects import ContractTaken, DeploymentAgreed, DeploymentProposed, Proposal, ProposalForgotten
from rota.exchange.distribution import DeliveriesRecalled, Delivery, deliveries_of, delivery_bytes, fullest, order_of
from rota.exchange.effects import RecallDeliveries, StatesAcknowledged, StatesReceived
from rota.exchange.unconfirmed import SentTransition
from rota.machine.effects import IntentAccepted, IntentFinalised, Record, TransitionPrepared
from rota.model.awaited import outcomes_of
from rota.model.blocks import ChainBlock, LedgerOutcome, LedgerStatus, MinedStatus
from rota.model.digests import domain_separator, void_leaf
from rota.model.types import (
    NO_CONTRACT,
    Contract,
    ContractAddress,
    Digest,
    IntentId,
    KeptStates,
    KnownContract,
    Leaf,
    NodeName,
    Outcome,
    SignedLeaf,
    State,
    StateId,
    Transition,
)
from rota.node.effects import LookUpIntents, NodeStarted
from rota.node.events import IntentsLookedUp
from rota.node.private_states import SEEN_PART
from rota.node.stored import StoredNode
from rota.sequencer.effects import (
    EndingDecided,
    IntentParked,
    IntentResumed,
    LeavesSigned,
    PermissionGranted,
    PreparedAcknowledged,
    PreparedEndorsed,
    TransitionIssued,
)
from rota.sequencer.issuing import kept_for
from rota.sequencer.sent_intent import Permission, Restored
from rota.sequencer.sequencer import StoredContract
from rota.sim.contents import Contents
from rota.sim.ledger import GENESIS, GENESIS_TIME_S
from rota.wire.sizes import fitting, transition_bytes

Order = TypeVar("Order", tuple[ContractAddress, int], Leaf)


class Fate(Enum):
    """The result of a write: it succeeds, it fails, or it succeeds and its answer is lost."""

    WORKS = "works"
    FAILS = "fails"
    LIES = "lies"


@dataclass(slots=True)
class Prepared:
    """The transitions of one contract that a node prepared, or endorsed as prepared, and those acknowledged."""

    records: list[TransitionPrepared] = field(default_factory=list)
    acknowledged: dict[Leaf, None] = field(default_factory=dict)
    endorsed: list[KeptStates] = field(default_factory=list)

    def note(self, record: TransitionPrepared | PreparedAcknowledged | PreparedEndorsed) -> None:
        """Add one record."""
        match record:
            case TransitionPrepared():
                self.records.append(record)
            case PreparedAcknowledged(_, leaf):
                self.acknowledged[leaf] = None
            case PreparedEndorsed(kept):
                self.endorsed.extend(kept)

    def add_to(self, stored: StoredContract) -> StoredContract:
        """`stored` with the prepared transitions whose intents are not on the chain yet."""
        used = {outcome.intent for outcome in stored.indexed if outcome.status is LedgerStatus.COMMITTED}
        left = [record for record in self.records if record.prepared.transition.intent not in used]
        return replace(
            stored,
            unacknowledged=tuple(r for r in left if r.prepared.transition.leaf not in self.acknowledged),
            kept=tuple(kept_for(record.prepared) for record in left),
            endorsed=tuple(kept for kept in self.endorsed if kept.intent not in used),
        )


@dataclass(slots=True)
class Reading:
    """The state derived from the records so far. A disk only grows: each restart continues where the last one ended."""

    position: int = 0
    incarnation: int = 0
    intents: dict[ContractAddress, dict[IntentId, Restored]] = field(default_factory=dict)
    outcomes: dict[IntentId, Outcome] = field(default_factory=dict)
    by_nonce: dict[tuple[ContractAddress, int], RoundDispatch] = field(default_factory=dict)
    prepared: dict[ContractAddress, Prepared] = field(default_factory=dict)
    acknowledged: set[tuple[Digest, NodeName, int]] = field(default_factory=set)
    owed: dict[tuple[ContractAddress, int], tuple[Delivery, ...]] = field(default_factory=dict)
    owed_prepared: dict[Leaf, tuple[Delivery, ...]] = field(default_factory=dict)
    agreed: dict[IntentId, tuple[ContractAddress, ...]] = field(default_factory=dict)
    proposals: dict[tuple[NodeName, IntentId], Proposal] = field(default_factory=dict)
    taken_in: dict[ContractAddress, KnownContract] = field(default_factory=dict)
    # Transitions received from peers, by leaf.
    sent: dict[tuple[ContractAddress, Leaf], SentTransition] = field(default_factory=dict)

    def go_on(self, name: NodeName, records: list[tuple[ContractAddress, Record]]) -> None:
        """Read the records written since the last call."""
        for contract, record in records[self.position :]:
            self._take(name, contract, record)
        self.position = len(records)

    def undelivered(self) -> tuple[Delivery, ...]:
        """The deliveries of dispatches and prepared transitions that were not acknowledged."""
        self.owed = self._without_acknowledged(self.owed)
        self.owed_prepared = self._without_acknowledged(self.owed_prepared)
        every = (*self.owed.values(), *self.owed_prepared.values())
        return tuple(delivery for owed in every for delivery in owed)

    def _without_acknowledged(self, owed: dict[Order, tuple[Delivery, ...]]) -> dict[Order, tuple[Delivery, ...]]:
        left = {
            order: tuple(each for each in all_ if (each.digest, each.peer, each.part) not in self.acknowledged)
            for order, all_ in owed.items()
        }
        return {order: some for order, some in left.items() if some}

    def _take(self, name: NodeName, contract: ContractAddress, record: Record) -> None:
        match record:
            case StatesAcknowledged(digest, peer, part):
                self.acknowledged.add((digest, peer, part))
            case StatesReceived(_, transitions, _, peer) if peer is not None:
                for made in transitions:
                    kept = SentTransition(contract, made.leaf, peer, transition_bytes(made), made.valid_until_s)
                    self.sent[contract, made.leaf] = kept
            case StatesReceived() | BlocksIndexed() | FinalityBroken():
                pass
            case DeploymentAgreed() | DeploymentProposed() | ProposalForgotten() | ContractTaken():
                self._take_deployment(record)
            case DispatchRepriced(dispatch):
                self._take_dispatch(name, dispatch)
            case NodeStarted(number):
                self.incarnation = number
            case RoundDispatch():
                self._take_dispatch(name, record)
            case IntentAccepted(intent):
                self.intents.setdefault(contract, {})[intent.id] = Restored(intent)
            case IntentFinalised(receipt):
                self.outcomes[receipt.intent] = receipt.outcome
            case TransitionPrepared() | PreparedAcknowledged() | PreparedEndorsed():
                self.prepared.setdefault(contract, Prepared()).note(record)
                if isinstance(record, TransitionPrepared):
                    deliveries = deliveries_of(order_of(contract, record), name)
                    self.owed_prepared[record.prepared.transition.leaf] = deliveries
            case LeavesSigned(signed):
                self._take_signed(self.intents[contract], signed)
            case _:
                _restore(self.intents[contract], record)

    def _take_signed(self, intents: dict[IntentId, Restored], signed: tuple[Transition, ...]) -> None:
        for each in signed:
            known = {version.leaf: version for version in intents[each.intent].versions}
            if each.leaf not in known or known[each.leaf].valid_until_s < each.valid_until_s:
                known[each.leaf] = SignedLeaf(each.intent, each.leaf, each.valid_until_s)
            intents[each.intent] = replace(intents[each.intent], versions=tuple(sorted(known.values(), key=_by_bound)))

    def _take_deployment(
        self, record: DeploymentAgreed | DeploymentProposed | ProposalForgotten | ContractTaken
    ) -> None:
        match record:
            case DeploymentAgreed(deployment, signers):
                self.agreed[deployment] = signers
            case DeploymentProposed(proposal):
                self.proposals[proposal.peer, proposal.deployment] = proposal
            case ProposalForgotten(peer, deployment):
                self.proposals.pop((peer, deployment), None)
            case ContractTaken(known):
                self.taken_in[known.contract.address] = known
                for key in [key for key in self.proposals if key[1] == known.deployment]:
                    del self.proposals[key]

    def _take_dispatch(self, name: NodeName, dispatch: RoundDispatch) -> None:
        self.by_nonce[dispatch.slot] = dispatch
        self.owed[dispatch.slot] = deliveries_of(dispatch.round, name)


NOTHING_PREPARED = Prepared()


@dataclass(slots=True)
class Disk:
    """The durable records of a node, in order; `blocks` are those that it has indexed."""

    records: list[tuple[ContractAddress, Record]] = field(default_factory=list)
    # The number of records in each write.
    commits: list[int] = field(default_factory=list)
    # Stored beside the keys, outside the database: a run on an older copy of the database gets a higher number too.
    incarnation_kept: int = 0
    keys: dict[str, IntentId] = field(default_factory=dict)
    intents: dict[IntentId, Outcome | None] = field(default_factory=dict)
    unspent: dict[ContractAddress, dict[StateId, State]] = field(default_factory=dict)
    blocks: list[ChainBlock] = field(default_factory=lambda: [GENESIS])
    latest_chain_time_s: int = GENESIS_TIME_S
    taken_back_count: int = 0
    fate: Fate = Fate.WORKS
    contents: Contents = field(default_factory=Contents)
    accepted_for: dict[IntentId, ContractAddress] = field(default_factory=dict)
    # The leaves that parties of the node signed, by intent.
    signed: set[tuple[IntentId, Leaf]] = field(default_factory=set)
    # Intents whose receipt was undone with final blocks: reverted, unless the chain has them again.
    undone: set[IntentId] = field(default_factory=set)
    # For each change of the index, where it parted and its new height; the final blocks follow from these.
    reached: list[tuple[int, int]] = field(default_factory=list)
    _final_heights: dict[int, tuple[int, int]] = field(default_factory=dict)
    # Deployments without a receipt whose final blocks are gone: a receipt that confirms one is undone at once.
    lost: set[IntentId] = field(default_factory=set)
    # Intents that had ended when a node was restored; an index that goes back opens them again.
    over: set[IntentId] = field(default_factory=set)
    _read: Reading = field(default_factory=Reading)
    _transitions: dict[tuple[ContractAddress, Leaf], list[tuple[Digest, Transition]]] = field(default_factory=dict)
    _own_transitions: dict[tuple[ContractAddress, Leaf], list[tuple[Digest, Transition]]] = field(default_factory=dict)
    _transitions_read: int = 0
    _void_leaves: dict[tuple[ContractAddress, IntentId], Leaf] = field(default_factory=dict)

    @property
    def is_failing(self) -> bool:
        """Whether every write fails."""
        return self.fate is Fate.FAILS

    @is_failing.setter
    def is_failing(self, is_failing: bool) -> None:
        self.fate = Fate.FAILS if is_failing else Fate.WORKS

    @property
    def height(self) -> int:
        """The height that the node's index has reached."""
        return self.blocks[-1].height

    def write(self, contract: ContractAddress, records: tuple[Record, ...]) -> None:
        """Make records durable, and index them by key and id."""
        self.commits.append(len(records))
        for record in records:
            self.records.append((contract, record))
            self.contents.note(record)
            match record:
                case IntentAccepted(intent):
                    self.intents[intent.id] = None
                    self.accepted_for[intent.id] = intent.contract
                    if intent.idempotency_key:
                        self.keys[intent.idempotency_key] = intent.id
                case IntentFinalised(receipt):
                    self.intents[receipt.intent] = receipt.outcome
                    if receipt.intent in self.lost and receipt.outcome is Outcome.CONFIRMED:
                        self.undone.add(receipt.intent)
                    self.lost.discard(receipt.intent)
                case LeavesSigned(signed):
                    self.signed.update((each.intent, each.leaf) for each in signed)
                case BlocksIndexed(parted_at, blocks):
                    self.reached.append((parted_at, blocks[-1].height if blocks else parted_at))
                    returned = {made.intent for block in blocks for made in block.deployments}
                    self.undone -= returned
                    self.lost -= returned
                case FinalityBroken(undone=undone):
                    self.undone.update(each.intent for each in undone if self._has_ended_by(each))
                    self.lost.update(each.intent for each in undone if self._is_unfinished_deployment(each))
                case _:
                    pass

    def _has_ended_by(self, undone: UndoneCommit) -> bool:
        """Whether an intent of this node had its receipt when that block was final."""
        intent = undone.intent
        if self.accepted_for.get(intent) != undone.contract:
            return False
        return (intent, undone.leaf) in self.signed or self.intents[intent] is not None

    def _is_unfinished_deployment(self, undone: UndoneCommit) -> bool:
        """Whether it is a deployment of this node whose receipt may not be written yet."""
        is_own = self.accepted_for.get(undone.intent) == undone.contract == NO_CONTRACT
        return is_own and self.intents[undone.intent] is None

    def recall(self, name: NodeName, account: ContractAddress, nonces: tuple[int, ...]) -> tuple[RoundDispatch, ...]:
        """The dispatches of the node with these nonces of an account."""
        self._read.go_on(name, self.records)
        return tuple(each for each in self._read.by_nonce.values() if each.account == account and each.nonce in nonces)

    def undelivered(self, name: NodeName) -> tuple[Delivery, ...]:
        """The deliveries that were not acknowledged."""
        self._read.go_on(name, self.records)
        return self._read.undelivered()

    def deliveries_to(self, name: NodeName, recall: RecallDeliveries) -> DeliveriesRecalled:
        """The first unacknowledged deliveries to a peer, within the requested count and bytes."""
        owed = [each for each in self.undelivered(name) if each.peer == recall.peer]
        found = fitting(owed[: recall.count_max], delivery_bytes, recall.bytes_max)
        return DeliveriesRecalled(recall.peer, recall.number, tuple(found), len(found) == len(owed))

    def without_last(self, count: int, transitions: Mapping[Leaf, Transition]) -> Disk:
        """The disk of a server that took over without the last `count` writes."""
        older = Disk()
        records = iter(self.records)
        for size in self.commits[: max(0, len(self.commits) - count)]:
            written = [next(records) for _ in range(size)]
            older.write(written[0][0], tuple(record for _, record in written))
            for _, record in written:
                if isinstance(record, BlocksIndexed):
                    older.follow(record, transitions)
        started = [record.incarnation for _, record in self.records if isinstance(record, NodeStarted)]
        older.incarnation_kept = max((self.incarnation_kept, *started))
        return older

    def follow(self, record: BlocksIndexed, transitions: Mapping[Leaf, Transition]) -> None:
        """Update the blocks and the unspent states from a record of the index, also when the index goes back."""
        while self.height > record.parted_at:
            self.taken_back_count += 1
            self._take_back(self.blocks.pop(), transitions)
        for block in record.blocks:
            self.blocks.append(block)
            self.latest_chain_time_s = max(self.latest_chain_time_s, block.time_s)
            for contract, transition in _commits(block, transitions):
                unspent = self.unspent.setdefault(contract, {})
                for reference in transition.inputs:
                    unspent.pop(reference)
                self.contents.spent.update(transition.inputs)
                unspent.update({made.id: made for made in transition.outputs})

    def _take_back(self, block: ChainBlock, transitions: Mapping[Leaf, Transition]) -> None:
        """Undo the latest block's effect on the unspent states."""
        for contract, transition in reversed(_commits(block, transitions)):
            unspent = self.unspent[contract]
            for made in transition.outputs:
                del unspent[made.id]
            for reference in transition.inputs:
                unspent[reference] = transitions[reference.leaf].outputs[reference.output]
            self.contents.spent.difference_update(transition.inputs)

    def look_up(self, order: LookUpIntents, contracts: tuple[Contract, ...], confirmations: int) -> IntentsLookedUp:
        """The intent with the requested key, and the outcomes of those requested intents that are this node's own."""
        own = [intent for intent in order.intents if intent in self.intents]
        final = self._final(confirmations)
        confirmed: set[IntentId] = set()
        for contract in contracts if own else ():
            of_contract = [intent for intent in own if self.accepted_for[intent] == contract.address]
            committed = self._committed(final, contract, of_contract)
            confirmed.update(intent for intent, leaf in committed.items() if (intent, leaf) in self.signed)
        outcomes: list[tuple[IntentId, Outcome]] = []
        unfinished: list[IntentId] = []
        for intent in own:
            ended = Outcome.REVERTED if intent in self.undone else self.intents[intent]
            outcome = Outcome.CONFIRMED if intent in confirmed else ended
            if outcome is not None:
                outcomes.append((intent, outcome))
            else:
                unfinished.append(intent)
        leaves = outcomes_of(order.leaves, _committed_leaves(final) if order.leaves else {})
        return IntentsLookedUp(order.token, self.keys.get(order.key), tuple(outcomes), tuple(unfinished), leaves)

    def find_states(
        self, contract: ContractAddress, leaves: tuple[Leaf, ...], peer: NodeName | None = None
    ) -> tuple[tuple[Digest, tuple[Transition, ...]], ...]:
        """The transitions of these leaves that this node dispatched, signed, prepared or received, by round."""
        self._read_transitions()
        # The node's own copies come first.
        kinds = (self._own_transitions, self._transitions)
        found = [
            each for leaf in dict.fromkeys(leaves) for copies in kinds for each in copies.get((contract, leaf), ())
        ]
        return fullest(found, leaves, peer)

    def _read_transitions(self) -> None:
        """Index the transitions in records since the last call, by leaf."""
        digest: Digest | None
        transitions: tuple[Transition, ...]
        for written_for, record in self.records[self._transitions_read :]:
            is_own = True
            match record:
                case RoundDispatch(order):
                    written_for, digest, transitions = order.contract, order.digest, order.transitions
                case StatesReceived(digest, received, part):
                    transitions, is_own = received, part == SEEN_PART
                case LeavesSigned(signed):
                    digest, transitions = None, signed
                case TransitionPrepared(prepared=prepared):
                    digest, transitions = None, (prepared.transition,)
                case _:
                    continue
            for transition in transitions:
                found = digest or Digest(transition.leaf), transition
                copies = self._own_transitions if is_own else self._transitions
                copies.setdefault((written_for, transition.leaf), []).append(found)
        self._transitions_read = len(self.records)

    def unspent_states(self, contract: ContractAddress) -> tuple[State, ...]:
        """The states that the node holds and that are unspent on the chain, in the order of the chain."""
        held = self._held(contract)
        outcomes = [each for each in _indexed(self.blocks, contract) if each.status is LedgerStatus.COMMITTED]
        spent = {state for outcome in outcomes for state in outcome.inputs}
        of_leaf: dict[Leaf, list[State]] = {}
        for state in sorted(held.values(), key=lambda each: each.id.output):
            of_leaf.setdefault(state.id.leaf, []).append(state)
        made = [state for outcome in outcomes for state in of_leaf.get(outcome.leaf, ())]
        return tuple(state for state in made if state.id not in spent)

    def states(self, contract: ContractAddress, ids: Sequence[StateId]) -> tuple[State, ...]:
        """Those of the given states that the node holds."""
        held = self._held(contract)
        return tuple(held[each] for each in ids if each in held)

    def _held(self, contract: ContractAddress) -> dict[StateId, State]:
        """The states whose bytes are in a record, committed or not."""
        held: dict[StateId, State] = {}
        transitions: tuple[Transition, ...]
        for written_for, record in self.records:
            match record:
                case RoundDispatch(order):
                    written_for, transitions = order.contract, order.transitions
                case StatesReceived(_, received):
                    transitions = received
                case LeavesSigned(signed):
                    transitions = signed
                case TransitionPrepared(prepared=prepared):
                    transitions = (prepared.transition,)
                case _:
                    continue
            for transition in transitions if written_for == contract else ():
                for state in transition.outputs:
                    if state.content is not None:
                        held.setdefault(state.id, state)
        return held

    def restore(self, name: NodeName, contracts_known: tuple[Contract, ...], confirmations: int) -> StoredNode:
        """The stored state for a starting node or a loaded contract; blocks that are not final are reported again."""
        final, final_height = self._final(confirmations), self.final_height(confirmations)
        read = self._read
        read.go_on(name, self.records)
        outcomes = read.outcomes | dict.fromkeys(self.undone, Outcome.REVERTED)
        intents = {known.address: dict(read.intents.get(known.address, {})) for known in contracts_known}
        for known in contracts_known:
            self._settle(final, known, intents[known.address], outcomes)
        self.over.update(outcomes)
        stored = {
            address: read.prepared.get(address, NOTHING_PREPARED).add_to(
                StoredContract(
                    tuple(r for i, r in of_contract.items() if i not in outcomes),
                    outcomes=tuple(outcomes.items()),
                    indexed=_indexed(final, address),
                    latest_chain_time_s=self.latest_chain_time_s,
                    final_height=final_height,
                )
            )
            for address, of_contract in intents.items()
        }
        owed = tuple(sorted({delivery.peer for delivery in read.undelivered()}))
        unsettled = _unsettled(final, list(read.by_nonce.values()))
        deployments = self._deployments(final, outcomes)
        own = tuple(r for i, r in read.intents.get(NO_CONTRACT, {}).items() if i not in outcomes)
        if own:
            stored[NO_CONTRACT] = StoredContract(
                own,
                outcomes=tuple(outcomes.items()),
                latest_chain_time_s=self.latest_chain_time_s,
                final_height=final_height,
            )
        blocks = tuple(self.blocks)
        incarnation = max(read.incarnation, self.incarnation_kept)
        accounts = {account: StoredAccount(nonce + 1) for account, nonce in sorted(read.by_nonce)}
        own_state = (incarnation, stored, unsettled, owed, accounts, blocks, deployments)
        told = {(address, outcome.leaf) for block in blocks for address, outcome in block.outcomes}
        sent = tuple(each for key, each in read.sent.items() if key not in told)
        return StoredNode(*own_state, final_height if blocks else None, sent)

    def _deployments(self, final: list[ChainBlock], outcomes: Mapping[IntentId, Outcome]) -> StoredDeployments:
        """The agreements and final deployments of the node's own open intents, and the proposals of others."""
        read = self._read
        own = {intent: None for intent in read.intents.get(NO_CONTRACT, {}) if intent not in outcomes}
        return StoredDeployments(
            tuple((intent, read.agreed[intent]) for intent in own if intent in read.agreed),
            tuple(each for block in final for each in block.deployments if each.intent in own),
            tuple(read.proposals.values()),
            tuple(sorted(each for each in self.undone if self.accepted_for[each] == NO_CONTRACT)),
        )

    def contracts_taken_in(self, name: NodeName) -> tuple[KnownContract, ...]:
        """The contracts that the node learned of through the network."""
        self._read.go_on(name, self.records)
        return tuple(self._read.taken_in.values())

    def owed_count(self, name: NodeName) -> int:
        """The number of deliveries that this node has to make, by its records."""
        self._read.go_on(name, self.records)
        return len(self._read.undelivered())

    def final_height(self, confirmations: int) -> int:
        """The highest height that was ever final and was not removed since."""
        count, final_height = self._final_heights.get(confirmations, (0, -confirmations))
        for parted_at, top in self.reached[count:]:
            final_height = max(min(final_height, parted_at), top - confirmations)
        self._final_heights[confirmations] = len(self.reached), final_height
        return max(final_height, self.height - confirmations)

    def _final(self, confirmations: int) -> list[ChainBlock]:
        final_height = self.final_height(confirmations)
        return [block for block in self.blocks if block.height <= final_height]

    def _settle(
        self,
        final: list[ChainBlock],
        contract: Contract,
        intents: dict[IntentId, Restored],
        outcomes: dict[IntentId, Outcome],
    ) -> None:
        """Apply final blocks to `intents` and `outcomes`: only a leaf signed here confirms an intent (trust rule 1)."""
        for intent, leaf in self._committed(final, contract, intents).items():
            if leaf == self._void_leaf(contract, intent):
                intents[intent] = replace(intents[intent], was_voided=True)
            elif (intent, leaf) in self.signed:
                outcomes[intent] = Outcome.CONFIRMED
            else:
                intents[intent] = replace(intents[intent], used_leaf=leaf)

    def _committed(
        self, final: list[ChainBlock], contract: Contract, among: Container[IntentId]
    ) -> dict[IntentId, Leaf]:
        """The intents in `among` whose ids are used in final blocks of a contract, with the leaf that used them."""
        return {
            outcome.intent: outcome.leaf
            for outcome in _indexed(final, contract.address)
            if outcome.intent in among and outcome.status is LedgerStatus.COMMITTED
        }

    def _void_leaf(self, contract: Contract, intent: IntentId) -> Leaf:
        """The void leaf of an intent; cached, because every restart needs all of them."""
        known = self._void_leaves.get((contract.address, intent))
        if known is None:
            known = void_leaf(domain_separator(contract.chain_id, contract.address), intent)
            self._void_leaves[(contract.address, intent)] = known
        return known


def _commits(
    block: ChainBlock, transitions: Mapping[Leaf, Transition]
) -> tuple[tuple[ContractAddress, Transition], ...]:
    return tuple(
        (contract, transitions[outcome.leaf])
        for contract, outcome in block.outcomes
        if outcome.status is LedgerStatus.COMMITTED
    )


def _committed_leaves(final: list[ChainBlock]) -> dict[tuple[ContractAddress, IntentId], Leaf]:
    outcomes = ((contract, outcome) for block in final for contract, outcome in block.outcomes)
    return {(at, each.intent): each.leaf for at, each in outcomes if each.status is LedgerStatus.COMMITTED}


def _unsettled(final: list[ChainBlock], dispatches: list[RoundDispatch]) -> tuple[RoundDispatch, ...]:
    """The dispatches whose nonce is not used, or one of whose transitions has no outcome, in a final block."""
    used = {(mined.account, mined.nonce): mined.status for block in final for mined in block.mined}
    settled = {(outcome.digest, outcome.intent) for block in final for _, outcome in block.outcomes}
    return tuple(
        dispatch
        for dispatch in dispatches
        if dispatch.slot not in used
        or (
            used[dispatch.slot] is MinedStatus.SUCCEEDED
            and any((dispatch.round.digest, each.intent) not in settled for each in dispatch.round.transitions)
        )
    )


def _indexed(final: list[ChainBlock], contract: ContractAddress) -> tuple[LedgerOutcome, ...]:
    """All outcomes of a contract in these blocks, of any sender and version."""
    return tuple(outcome for block in final for address, outcome in block.outcomes if address == contract)


def _restore(intents: dict[IntentId, Restored], record: Record) -> None:
    """Apply a record to the restored state of its intent."""
    match record:
        case IntentParked(intent, reason):
            intents[intent] = replace(intents[intent], parked_reason=reason)
        case IntentResumed(intent):
            intents[intent] = replace(intents[intent], parked_reason=None)
        case EndingDecided(intent, reason, code):
            intents[intent] = replace(intents[intent], ending_reason=reason, ending_code=code)
        case TransitionIssued(prepared, void_after_s):
            intent = prepared.transition.intent
            intents[intent] = replace(intents[intent], issued=prepared, void_after_s=void_after_s)
        case PermissionGranted(intent, number, delegate, leaf, valid_until_s):
            intents[intent] = replace(intents[intent], permission=Permission(number, delegate, leaf, valid_until_s))
        case _:
            raise AssertionError(f"the disk does not know {type(record).__name__}")


def _by_bound(signed: SignedLeaf) -> tuple[int, Leaf]:
    """The order in which a database returns them."""
    return signed.valid_until_s, signed.leaf
