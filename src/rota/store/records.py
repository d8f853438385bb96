"""The changes that each record of a syncpoint makes, as SQL.

Theory of operation. A record becomes statements without reading anything first, so that a group of syncpoints is one
batch. Every statement may be carried out twice: a syncpoint whose commit was reported as a failure although it had
happened is written again by its own rule (protocol §8), and must change nothing then.

An intent, a dispatch and a nonce have an outcome at a height; a state is committed and spent at one. A reorganisation
removes everything above the height at which the chains part, and nothing else has to be undone. Where it takes back
final blocks, it also marks receipts (`store.finality`).

The nullifier of a state is stored with the state, together with its spending if it is on the chain already. From then
on, a spending of the nullifier spends the state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from rota.calldata import NULLIFIER_OUTPUT, is_nullifier
from rota.chain.effects import BlocksIndexed, DispatchRepriced, FinalityBroken, RoundDispatch
from rota.directory.effects import ContractTaken, DeploymentAgreed, DeploymentProposed, ProposalForgotten
from rota.domains.locking import permitted_by
from rota.exchange.distribution import deliveries_of, order_of, states_with_bytes
from rota.exchange.effects import StatesAcknowledged, StatesReceived
from rota.machine.effects import DispatchRound, IntentAccepted, IntentFinalised, Record, TransitionPrepared
from rota.model.blocks import ChainBlock, LedgerStatus
from rota.model.config import Config
from rota.model.consistency import is_whole
from rota.model.digests import keccak, void_leaf
from rota.model.types import (
    NO_CONTRACT,
    ContractAddress,
    Digest,
    Intent,
    IntentId,
    KeptStates,
    KnownContract,
    Leaf,
    NodeName,
    State,
    Transition,
)
from rota.node.effects import NodeStarted
from rota.node.private_states import SEEN_PART
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
from rota.sequencer.sent_intent import Permission
from rota.store.database import Statement, independent
from rota.store.encoding import encode, encode_ending, encode_text
from rota.store.finality import deployment_returned, marking, marking_late, restoring, returning
from rota.store.groups import group_of_contract, group_of_deployment
from rota.store.listening import (
    COMMITTED_IN_BLOCK,
    ending_due,
    permitted_due,
    sent_due,
    signed_due,
    transition_due,
    transitions_committed,
)
from rota.store.transitions import known_alone, known_transition, sent_transition
from rota.wire.sizes import transition_bytes

# Milliseconds of this node's own time.
Clock: TypeAlias = Callable[[], int]
# The nullifier that spends a state of a contract in place of its id, if there is one and this node can compute it.
NullifierOf: TypeAlias = Callable[[ContractAddress, State], bytes | None]


def spent_by_id(_contract: ContractAddress, _state: State) -> bytes | None:
    """No nullifier: for a node all of whose contracts name the states that they spend."""
    return None


class Writing:
    """Turns records into statements for one node. `separators` are the domain separators of its contracts."""

    def __init__(
        self,
        node: NodeName,
        separators: Mapping[ContractAddress, bytes],
        config: Config,
        clock: Clock,
        nullifier_of: NullifierOf = spent_by_id,
        accompanied: Mapping[IntentId, Sequence[Statement]] | None = None,
    ) -> None:
        self.node = node
        self.separators = separators
        self.index_window_max = config.index_window_max
        self.confirmations = config.confirmations
        # Longer than any transition that is sent now can be valid.
        self.sent_due_s = 2 * max(config.validity_s, config.prepared_validity_s)
        self.clock = clock
        self.nullifier_of = nullifier_of
        # The latest block that this run indexed: the database has nothing above it. None before the first one.
        self._top: int | None = None
        # Statements that are written with the acceptance of an intent.
        self.accompanied = accompanied if accompanied is not None else {}

    def statements(self, contract: ContractAddress, record: Record, position: int) -> Iterator[Statement]:
        """The statements of one record of a syncpoint of this contract; `position` is greater than all earlier ones."""
        match record:
            case NodeStarted(incarnation):
                yield Statement("UPDATE node SET incarnation = ?", (incarnation,))
            case IntentAccepted() | IntentFinalised() | IntentParked() | IntentResumed() | EndingDecided():
                yield self._of_intent(contract, record, position)
                if isinstance(record, IntentFinalised):
                    yield ending_due(contract, record.receipt)
                    yield from marking_late(contract, record.receipt, self.clock())
                if isinstance(record, IntentAccepted):
                    yield from self.accompanied.get(record.intent.id, ())
                    yield from group_of_deployment(record.intent, self.clock()) if contract == NO_CONTRACT else ()
            case LeavesSigned(transitions):
                yield from self._signed(contract, transitions, position)
            case PermissionGranted(intent, number, delegate, leaf, valid_until_s):
                permission = encode(Permission(number, delegate, leaf, valid_until_s))
                yield Statement(_PERMIT, (permission, intent), intent)
            case TransitionIssued(prepared, void_after_s):
                intent = prepared.transition.intent
                yield Statement(_ISSUE, (encode(prepared), void_after_s, intent), intent)
            case RoundDispatch():
                yield from self._dispatch(record)
                yield from self._transitions(record.round.contract, record.round, position)
                yield Statement(_NEXT_NONCE, (record.account, record.nonce + 1))
            case DispatchRepriced(dispatch):
                yield from self._dispatch(dispatch)
            case StatesReceived():
                yield from self._transitions(contract, record, position)
            case StatesAcknowledged(digest, peer, part):
                yield Statement(_ACKNOWLEDGE, (digest, peer, part, self.clock()), digest)
            case TransitionPrepared():
                yield from self._prepared(contract, record, position)
            case PreparedAcknowledged(_, leaf):
                yield Statement(
                    "UPDATE prepared SET is_acknowledged = 1 WHERE contract = ? AND leaf = ?", (contract, leaf)
                )
            case PreparedEndorsed(kept):
                for each in kept:
                    yield self._endorsed(contract, each, position)
            case BlocksIndexed():
                yield from self._blocks(record, position)
            case FinalityBroken():
                yield from marking(record, self.clock())
            case DeploymentAgreed() | DeploymentProposed() | ProposalForgotten() | ContractTaken():
                yield from _of_deployment(record, position)
                if isinstance(record, ContractTaken):
                    yield from group_of_contract(record.known, self.clock())
            case _:
                raise AssertionError(f"the store does not know {type(record).__name__}")

    def _of_intent(
        self,
        contract: ContractAddress,
        record: IntentAccepted | IntentFinalised | IntentParked | IntentResumed | EndingDecided,
        position: int,
    ) -> Statement:
        match record:
            case IntentAccepted(intent):
                accepted = (intent.id, contract, position, _key_of(intent), encode(intent), self.clock())
                return Statement(_ACCEPT, accepted, intent.id)
            case IntentFinalised(receipt):
                return Statement(_FINALISE, (encode(receipt), receipt.intent), receipt.intent)
            case IntentParked(intent_id, reason):
                return Statement(_PARK, (encode_text(reason), intent_id), intent_id)
            case IntentResumed(intent_id):
                return Statement(_PARK, (None, intent_id), intent_id)
            case EndingDecided(intent_id, reason, code):
                return Statement(_END, (encode_ending(reason, code), intent_id), intent_id)

    def _signed(
        self, contract: ContractAddress, transitions: Sequence[Transition], position: int
    ) -> Iterator[Statement]:
        """Note the signed leaves and the states that they make: any holder of the signatures may commit them."""
        for made in transitions:
            yield Statement(_SIGN, (made.intent, made.leaf, made.valid_until_s), made.intent)
            yield signed_due(contract, made)
            yield from known_alone(contract, made, position)
            yield from self._states(contract, made, position)
        # Only a leaf whose first record was lost can be on the chain already; it is recorded again by itself.
        if len(transitions) == 1:
            intent, leaf = transitions[0].intent, transitions[0].leaf
            yield Statement(_RECOGNISE, (intent, leaf), intent)

    # Dispatches and states.

    def _dispatch(self, dispatch: RoundDispatch) -> Iterator[Statement]:
        """Write a dispatch. The last one written uses the nonce: an earlier one was given up when its write failed."""
        order, slot = dispatch.round, dispatch.slot
        yield Statement(_DISPATCH, (*slot, order.contract, order.digest, encode(dispatch), dispatch.signer))
        yield Statement(f"DELETE FROM dispatched_intents WHERE number = {_NUMBER}", slot)
        for intent in dict.fromkeys(transition.intent for transition in order.transitions):
            yield Statement(_DISPATCH_INTENT, (*slot, intent))
        yield Statement(f"DELETE FROM deliveries WHERE number = {_NUMBER} AND is_acknowledged = 0", slot)
        yield from self._deliveries(order, slot)
        yield Statement(_SETTLE_DISPATCHES + " AND account = ? AND nonce = ?", slot)

    def _transitions(
        self, contract: ContractAddress, source: DispatchRound | StatesReceived, position: int
    ) -> Iterator[Statement]:
        sent = source if isinstance(source, StatesReceived) else None
        is_seen = sent is not None and sent.part == SEEN_PART
        for transition in source.transitions:
            if sent is not None and not is_seen:
                yield sent_transition(contract, source.digest, transition, position)
            elif is_seen:
                yield known_transition(contract, source.digest, transition, position, is_own=is_whole(transition))
            else:
                yield known_transition(contract, source.digest, transition, position, is_own=True)
            yield from self._held(contract, transition, position, sent)

    def _held(
        self, contract: ContractAddress, transition: Transition, position: int, sent: StatesReceived | None = None
    ) -> Iterator[Statement]:
        """Store the known parts of a transition, and expect a receipt unless it is empty and voids its intent."""
        if not transition.is_empty or not self._voids(contract, transition.intent, transition.leaf):
            if sent is None:
                yield transition_due(contract, transition)
            else:
                size_bytes = transition_bytes(transition)
                yield sent_due(contract, transition, self.sent_due_s, sent.peer, size_bytes)
        yield from self._states(contract, transition, position, sent.peer if sent is not None else None)

    def _permitted(
        self, contract: ContractAddress, setting: Transition, position: int, peer: NodeName
    ) -> Iterator[Statement]:
        """Store the transitions that a lock's record permits, as far as they are known, as if a peer had sent them."""
        for made in permitted_by(self.separators[contract], setting) if setting.lock is not None else ():
            if made is not None and states_with_bytes((made,)):
                digest = Digest(keccak(encode(made)))
                yield sent_transition(contract, digest, made, position)
                yield from permitted_due(contract, made, setting, self.sent_due_s, peer)
                yield from _held(contract, made, position, self.clock())

    def _states(
        self, contract: ContractAddress, transition: Transition, position: int, peer: NodeName | None = None
    ) -> Iterator[Statement]:
        yield from _held(contract, transition, position, self.clock())
        yield from self._permitted(contract, transition, position, peer or self.node)
        for state in transition.outputs:
            nullifier = self.nullifier_of(contract, state) if state.content is not None else None
            if nullifier is not None:
                yield Statement(_NULLIFIED_BY, (nullifier, position, contract, nullifier, contract, *state.id))

    def _deliveries(self, order: DispatchRound, slot: tuple[ContractAddress | None, int | None]) -> Iterator[Statement]:
        """The deliveries of the dispatch with this account and nonce; a prepared transition has neither."""
        for delivery in deliveries_of(order, self.node):
            yield Statement(_DELIVER, (delivery.digest, delivery.peer, delivery.part, *slot, self.clock()))

    # Prepared transitions.

    def _prepared(self, contract: ContractAddress, record: TransitionPrepared, position: int) -> Iterator[Statement]:
        prepared = record.prepared
        transition = prepared.transition
        yield Statement(
            _PREPARE,
            (
                contract,
                transition.leaf,
                prepared.digest,
                position,
                transition.intent,
                prepared.valid_until_s,
                encode(record),
            ),
        )
        yield from self._deliveries(order_of(contract, record), (None, None))
        yield from known_alone(contract, transition, position)
        yield from self._held(contract, transition, position)

    def _endorsed(self, contract: ContractAddress, kept: KeptStates, position: int) -> Statement:
        return Statement(_ENDORSE, (contract, kept.leaf, kept.valid_until_s, position, kept.intent, encode(kept)))

    # The chain.

    def _blocks(self, record: BlocksIndexed, position: int) -> Iterator[Statement]:
        """Remove everything above `parted_at`, add these blocks, and delete the blocks that are too old."""
        undoes = self._top is None or record.parted_at < self._top
        self._top = record.blocks[-1].height if record.blocks else record.parted_at
        if undoes:
            yield Statement(_PARTED, (position, record.parted_at, record.parted_at))
            for sql in _UNDO:
                yield Statement(sql, (record.parted_at,))
            for sql in _UNDO_STATES:
                yield Statement(sql, (position, record.parted_at))
        for block in record.blocks:
            yield Statement(
                "INSERT INTO blocks (height, time_s, block) VALUES (?, ?, ?)",
                (block.height, block.time_s, encode(block)),
            )
            yield Statement(_LATEST_TIME, (block.time_s, block.time_s))
            yield from self._contents(block, position)
        yield from returning()
        yield Statement(_SETTLE_DISPATCHES)
        yield Statement(_FORGET_BLOCKS, (self.index_window_max,))
        if undoes:
            yield Statement(_FINAL_NO_LONGER, (record.parted_at, record.parted_at))
        depth = (record.blocks[-1].height if record.blocks else record.parted_at) - self.confirmations
        yield Statement(_FINAL, (depth, depth))

    def made_up(self, blocks: Sequence[ChainBlock], free: Mapping[int, int], position: int) -> Iterator[Statement]:
        """The outcomes that the index skipped in these blocks; `free` has the first free place of each height."""
        for block in blocks:
            yield from self._contents(block, position, free.get(block.height, 0))

    def _contents(self, block: ChainBlock, position: int, first_place: int = 0) -> Iterator[Statement]:
        """The outcomes first, then their consequences, most of them by one statement for all outcomes of the block.

        A block also has outcomes of contracts that any account deployed under an id that this node awaits. Outcomes of
        a contract that this node does not have are left out.
        """
        own = (each for each in block.outcomes if each[0] in self.separators)
        placed = tuple(enumerate(own, first_place))
        for place, (contract, outcome) in placed:
            identity = (contract, outcome.intent, outcome.leaf, outcome.digest)
            yield Statement(_OUTCOME, (block.height, place, *identity, outcome.status.value, encode(outcome)))
        committed = [each for each in placed if each[1][1].status is LedgerStatus.COMMITTED]
        for _, (contract, outcome) in committed:
            if self._voids(contract, outcome.intent, outcome.leaf):
                yield Statement(_VOIDED, (block.height, outcome.intent, contract))
                yield from restoring(contract, outcome.intent)
        if committed:
            places = (block.height, committed[0][0], committed[-1][0])
            yield Statement(_SETTLED, (block.height, *places, block.height))
            yield Statement(_USED, (block.height, block.height, *places, block.height, block.height))
            yield transitions_committed(*places)
            yield Statement(_STATES_COMMITTED, (block.height, position, position, *places))
        for _, (contract, outcome) in committed:
            for spent in outcome.inputs:
                yield Statement(_SPENT, (contract, spent.leaf, spent.output, block.height, position))
                if is_nullifier(spent):
                    yield Statement(_SPENT_BY_NULLIFIER, (block.height, position, contract, spent.leaf))
        for deployed in block.deployments:
            yield Statement(_DEPLOYED, (deployed.intent, block.height, encode(deployed)))
            # Any account may deploy another contract under the id; this node does not have that one.
            if deployed.contract in self.separators:
                yield from restoring(NO_CONTRACT, deployed.intent)
                yield from deployment_returned(deployed.intent)
        for mined in block.mined:
            yield Statement(_MINED, (mined.account, mined.nonce, block.height, mined.status.value))

    def _voids(self, contract: ContractAddress, intent: IntentId, leaf: Leaf) -> bool:
        assert contract in self.separators, f"a contract is added before anything of it is written: {contract}"
        return leaf == void_leaf(self.separators[contract], intent)


def _of_deployment(
    record: DeploymentAgreed | DeploymentProposed | ProposalForgotten | ContractTaken, position: int
) -> Iterator[Statement]:
    match record:
        case DeploymentAgreed(deployment, signers):
            yield Statement(_AGREE, (deployment, encode(signers)), deployment)
        case DeploymentProposed(proposal):
            yield Statement(_PROPOSE, (proposal.peer, proposal.deployment, position, encode(proposal)))
        case ProposalForgotten(peer, deployment):
            yield Statement("DELETE FROM proposals WHERE peer = ? AND deployment = ?", (peer, deployment))
        case ContractTaken(known):
            yield add_contract(known)
            yield Statement("DELETE FROM proposals WHERE deployment = ?", (known.deployment,))


def add_contract(known: KnownContract) -> Statement:
    """The statement that adds this contract, or replaces its stored value."""
    return Statement(_ADD_CONTRACT, (known.contract.address, encode(known)))


def _key_of(intent: Intent) -> bytes | None:
    return encode_text(intent.idempotency_key) if intent.idempotency_key else None


def _held(contract: ContractAddress, transition: Transition, position: int, now_ms: int) -> Iterator[Statement]:
    """The states of a transition whose bytes this node has; the leaf may be on the chain already."""
    leaf = transition.leaf
    on_chain = (contract, leaf, transition.intent)
    for state in transition.outputs:
        if state.content is not None:
            held = (contract, leaf, state.id.output, encode(state), position, now_ms)
            yield Statement(_HOLD, (*held, *on_chain, *on_chain), leaf)


_ACCEPT: Final = independent(
    """
INSERT INTO intents (id, contract, position, idempotency_key, intent, accepted_at_ms) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (id) DO NOTHING""",
    row=(0,),
)

_ADD_CONTRACT: Final = """
INSERT INTO contracts (address, contract) VALUES (?, ?)
ON CONFLICT (address) DO UPDATE SET contract = excluded.contract"""

_AGREE: Final = """
INSERT INTO agreements (deployment, signers) VALUES (?, ?)
ON CONFLICT (deployment) DO UPDATE SET signers = excluded.signers"""

_PROPOSE: Final = """
INSERT INTO proposals (peer, deployment, position, proposal) VALUES (?, ?, ?, ?)
ON CONFLICT (peer, deployment) DO UPDATE SET proposal = excluded.proposal"""

# The factory uses an id once. But a deployed contract whose constructor deploys under the same id makes it emit two
# events, that of the constructor first: the first one counts, in memory too.
_DEPLOYED: Final = """
INSERT INTO deployed (intent, height, deployment) VALUES (?, ?, ?) ON CONFLICT (intent, height) DO NOTHING"""

_PERMIT: Final = independent("UPDATE intents SET permission = ?\nWHERE id = ?", row=(1,))
_ISSUE: Final = "UPDATE intents SET issued = ?, void_after_s = ? WHERE id = ?"
_FINAL_NO_LONGER: Final = "UPDATE node SET final_height = ? WHERE final_height > ?"
_FINAL: Final = "UPDATE node SET final_height = ? WHERE final_height IS NULL OR final_height < ?"

_FINALISE: Final = "UPDATE intents SET receipt = ? WHERE id = ?"
_END: Final = "UPDATE intents SET ending_reason = ? WHERE id = ?"
_PARK: Final = "UPDATE intents SET parked_reason = ? WHERE id = ?"

_NEXT_NONCE: Final = """
INSERT INTO accounts (contract, next_nonce) VALUES (?, ?)
ON CONFLICT (contract) DO UPDATE SET next_nonce = excluded.next_nonce WHERE accounts.next_nonce < excluded.next_nonce"""

# Other tables name a dispatch by its number; it is known by its account and nonce.
_NUMBER: Final = "(SELECT number FROM dispatches WHERE account = ? AND nonce = ?)"
_DISPATCH_INTENT: Final = independent(f"INSERT INTO dispatched_intents (number, intent) VALUES ({_NUMBER}, ?)")
_DISPATCH: Final = """
INSERT INTO dispatches (number, account, nonce, contract, digest, dispatch, signer)
VALUES ((SELECT COALESCE(MAX(number) + 1, 0) FROM dispatches), ?, ?, ?, ?, ?, ?)
ON CONFLICT (account, nonce) DO UPDATE SET contract = excluded.contract, digest = excluded.digest,
    dispatch = excluded.dispatch, signer = excluded.signer, settled_at = NULL"""

# A leaf is committed once. The condition uses an index for the intent alone, so that no database chooses another index.
_IS_COMMITTED: Final = f"contract = ? AND leaf = ? AND status = '{LedgerStatus.COMMITTED.value}'"

_HOLD: Final = independent(
    f"""
INSERT INTO states (contract, leaf, output, state, changed, created_at_ms, committed_at, place)
VALUES (
    ?, ?, ?, ?, ?, ?,
    (SELECT MIN(CASE WHEN {_IS_COMMITTED} THEN height END) FROM outcomes WHERE intent = ?),
    (SELECT MIN(CASE WHEN {_IS_COMMITTED} THEN place END) FROM outcomes WHERE intent = ?))
ON CONFLICT (contract, leaf, output) DO UPDATE SET
    state = excluded.state, changed = excluded.changed, created_at_ms = excluded.created_at_ms,
    committed_at = excluded.committed_at, place = excluded.place
WHERE states.state IS NULL""",
    row=(0, 1, 2),
)

_STATES_COMMITTED: Final = f"""
UPDATE states SET committed_at = ?, place = maker.place, changed = ?, known_at = ?
FROM (SELECT contract, leaf, place FROM outcomes WHERE {COMMITTED_IN_BLOCK}) AS maker
WHERE states.contract = maker.contract AND states.leaf = maker.leaf"""

_SPENT: Final = independent(
    """
INSERT INTO states (contract, leaf, output, spent_at, changed) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (contract, leaf, output) DO UPDATE SET spent_at = excluded.spent_at, changed = excluded.changed
WHERE states.spent_at IS NULL""",
    row=(0, 1, 2),
)

# One nullifier may belong to two states: it spends both.
_SPENT_BY_NULLIFIER: Final = """
UPDATE states SET spent_at = ?, changed = ? WHERE contract = ? AND nullifier = ? AND spent_at IS NULL"""

_NULLIFIED_BY: Final = f"""
UPDATE states SET nullifier = ?, known_at = ?, spent_at = (
    SELECT mark.spent_at FROM states AS mark
    WHERE mark.contract = ? AND mark.leaf = ? AND mark.output = {NULLIFIER_OUTPUT})
WHERE contract = ? AND leaf = ? AND output = ? AND nullifier IS NULL"""

_PARTED: Final = """
INSERT INTO reorganisations (position, parted_at)
SELECT CAST(? AS BIGINT), CAST(? AS BIGINT) WHERE EXISTS (SELECT 1 FROM outcomes WHERE height > ?)
ON CONFLICT (position) DO NOTHING"""

_DELIVER: Final = f"""
INSERT INTO deliveries (digest, peer, part, number, is_acknowledged, created_at_ms) VALUES (?, ?, ?, {_NUMBER}, 0, ?)
ON CONFLICT (digest, peer, part) DO NOTHING"""

_ACKNOWLEDGE: Final = """
INSERT INTO deliveries (digest, peer, part, is_acknowledged, acknowledged_at_ms) VALUES (?, ?, ?, 1, ?)
ON CONFLICT (digest, peer, part) DO UPDATE SET is_acknowledged = 1, acknowledged_at_ms = excluded.acknowledged_at_ms
WHERE deliveries.is_acknowledged = 0"""

_PREPARE: Final = """
INSERT INTO prepared (contract, leaf, digest, position, intent, valid_until_s, record, is_acknowledged)
VALUES (?, ?, ?, ?, ?, ?, ?, 0)
ON CONFLICT (leaf, digest, contract) DO NOTHING"""

_ENDORSE: Final = """
INSERT INTO endorsed (contract, leaf, valid_until_s, position, intent, kept) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (contract, valid_until_s, leaf) DO NOTHING"""

_UNDO: Final = (
    "DELETE FROM blocks WHERE height > ?",
    "DELETE FROM outcomes WHERE height > ?",
    "DELETE FROM mined WHERE height > ?",
    "DELETE FROM deployed WHERE height > ?",
    "UPDATE receipts_due SET committed_at = NULL WHERE committed_at > ?",
    "UPDATE intents SET settled_at = NULL WHERE settled_at > ?",
    "UPDATE intents SET voided_at = NULL WHERE voided_at > ?",
    "UPDATE intents SET used_at = NULL, used_leaf = NULL WHERE used_at > ?",
    "UPDATE dispatches SET settled_at = NULL WHERE settled_at > ?",
    "DELETE FROM states WHERE spent_at > ? AND state IS NULL",
)

_UNDO_STATES: Final = (
    "UPDATE states SET committed_at = NULL, changed = ? WHERE committed_at > ?",
    "UPDATE states SET spent_at = NULL, changed = ? WHERE spent_at > ?",
)

_LATEST_TIME: Final = """
UPDATE node SET latest_chain_time_s = CASE WHEN latest_chain_time_s < ? THEN ? ELSE latest_chain_time_s END"""

_OUTCOME: Final = independent(
    """
INSERT INTO outcomes (height, place, contract, intent, leaf, digest, status, outcome) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"""
)

# Few of the intents that a block committed are this node's own, and each is found by its id. Contract and height are
# computed, so that no database takes their index and goes through the whole block for each intent.
_THIS_OUTCOME: Final = f"""outcomes.intent = intents.id AND outcomes.contract || '' = intents.contract
    AND outcomes.height + 0 = ? AND outcomes.status = '{LedgerStatus.COMMITTED.value}'"""
_SETTLED: Final = f"""
UPDATE intents SET settled_at = ? WHERE id IN (SELECT intent FROM outcomes WHERE {COMMITTED_IN_BLOCK})
AND EXISTS (
    SELECT 1 FROM outcomes, signed_leaves WHERE {_THIS_OUTCOME}
    AND signed_leaves.intent = outcomes.intent AND signed_leaves.leaf = outcomes.leaf)"""
# Only the contract's separator shows whether a leaf voids the intent: such an intent is marked before.
_USED: Final = f"""
UPDATE intents SET used_at = ?, used_leaf = (
    SELECT leaf FROM outcomes WHERE {_THIS_OUTCOME} ORDER BY place DESC LIMIT 1)
WHERE id IN (SELECT intent FROM outcomes WHERE {COMMITTED_IN_BLOCK})
AND EXISTS (SELECT 1 FROM outcomes WHERE {_THIS_OUTCOME})
AND settled_at IS NULL AND (voided_at IS NULL OR voided_at <> ?)"""
_SIGN: Final = independent(
    """
INSERT INTO signed_leaves (intent, leaf, valid_until_s) VALUES (?, ?, ?)
ON CONFLICT (intent, leaf) DO UPDATE SET valid_until_s = excluded.valid_until_s
WHERE signed_leaves.valid_until_s < excluded.valid_until_s""",
    row=(0, 1),
)
_RECOGNISE: Final = """
UPDATE intents SET settled_at = used_at, used_at = NULL, used_leaf = NULL
WHERE id = ? AND used_leaf = ? AND receipt IS NULL"""
_VOIDED: Final = "UPDATE intents SET voided_at = ? WHERE id = ? AND contract = ?"

_MINED: Final = """
INSERT INTO mined (account, nonce, height, status) VALUES (?, ?, ?, ?)
ON CONFLICT (account, nonce) DO UPDATE SET height = excluded.height, status = excluded.status"""

# A transaction that failed as a whole has no outcomes; one that succeeded has one for each transition, perhaps
# from another transaction with the same round, which any account may send. Few dispatches are unsettled at a time.
_SETTLE_DISPATCHES: Final = """
UPDATE dispatches SET settled_at = (
    SELECT CASE
        WHEN mined.status <> 'succeeded' THEN mined.height
        WHEN EXISTS (
            SELECT 1 FROM dispatched_intents AS own WHERE own.number = dispatches.number AND NOT EXISTS (
                SELECT 1 FROM outcomes WHERE outcomes.intent = own.intent AND outcomes.digest = dispatches.digest))
        THEN NULL
        ELSE (
            SELECT MAX(settled.height) FROM (
                SELECT mined.height AS height
                UNION ALL
                SELECT MIN(outcomes.height) AS height
                FROM dispatched_intents AS own JOIN outcomes ON outcomes.intent = own.intent
                WHERE own.number = dispatches.number AND outcomes.digest = dispatches.digest
                GROUP BY own.intent) AS settled)
        END
    FROM mined WHERE mined.account = dispatches.account AND mined.nonce = dispatches.nonce)
WHERE settled_at IS NULL AND EXISTS (
    SELECT 1 FROM mined WHERE mined.account = dispatches.account AND mined.nonce = dispatches.nonce)"""

_FORGET_BLOCKS: Final = """
DELETE FROM blocks WHERE height < (
    SELECT MIN(latest.height) FROM (SELECT height FROM blocks ORDER BY height DESC LIMIT ?) AS latest)"""
