"""The readings of a store, as SQL: the state that a node starts with, one contract, receipts, keys, states.

Theory of operation. At its start a node needs the state that has not ended: unfinished intents, dispatches without
a final outcome, states that are owed, prepared transitions that are still valid, the latest blocks. Each of these
is found by an index of its own, so that a start reads in proportion to open work and not to history. Final state is
looked up one by one.

A block is final when it lies `confirmations` below the latest block, or did before the chain became shorter. The node
reads later blocks again from the chain, so their outcomes do not count here yet.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final, TypeVar

from rota.calldata import is_nullifier, nullifier_reference
from rota.chain.effects import RecallDispatches, RoundDispatch
from rota.chain.submitters import StoredAccount
from rota.directory.deployment_states import StoredDeployments
from rota.exchange.distribution import DeliveriesRecalled, Delivery, deliveries_of, delivery_bytes, order_of
from rota.exchange.effects import RecallDeliveries
from rota.exchange.unconfirmed import SentTransition
from rota.machine.effects import DispatchRound
from rota.model.blocks import FactoryDeployment, LedgerOutcome, LedgerStatus
from rota.model.types import (
    NO_CONTRACT,
    NO_LEAF,
    Contract,
    ContractAddress,
    Digest,
    IntentId,
    KnownContract,
    Leaf,
    NodeName,
    Outcome,
    Receipt,
    SignedLeaf,
    State,
    StateId,
    Transition,
)
from rota.node.effects import LookUpIntents
from rota.node.events import IntentsLookedUp
from rota.node.stored import StoredNode
from rota.ports import NumberedReceipt, StoredTransaction
from rota.sequencer.issuing import kept_for
from rota.sequencer.recent_outcomes import OUTCOMES_KEPT_MAX
from rota.sequencer.sent_intent import Restored
from rota.sequencer.sequencer import StoredContract
from rota.store.database import Reading, Statement, Value
from rota.store.encoding import (
    decode_block,
    decode_contract,
    decode_deployed,
    decode_dispatch,
    decode_ending,
    decode_intent,
    decode_kept,
    decode_outcome,
    decode_permission,
    decode_prepared,
    decode_proposal,
    decode_receipt,
    decode_signers,
    decode_state,
    decode_text,
    decode_transition_prepared,
    encode_text,
)
from rota.store.leaves import leaf_outcomes
from rota.store.listening import places_of
from rota.store.state_pages import changes_page, nullified_states, page_since, unspent_page
from rota.store.transitions import transitions_found

# Both databases take as many parameters in one statement.
PARAMETERS_MAX: Final = 500

Item = TypeVar("Item", bound=Value)


class Asking:
    """Makes readings for one node."""

    def __init__(self, node: NodeName, confirmations: int) -> None:
        self.node = node
        self.confirmations = confirmations

    # Whole nodes and contracts.

    def node_of(self, contracts: Sequence[ContractAddress]) -> Reading[StoredNode]:
        """The state that a node starts with, including that of these contracts."""
        final_height = yield from self.final_height()
        found: Any = yield Statement("SELECT incarnation FROM node")
        ((incarnation,),) = found
        accounts = yield from self._accounts()
        stored: dict[ContractAddress, StoredContract] = {}
        for contract in contracts:
            stored[contract] = yield from self._contract(contract, final_height)
        dispatches = yield from self._unsettled(final_height)
        owed = yield from self._owed()
        rows: Any = yield Statement("SELECT block FROM blocks ORDER BY height")
        blocks = tuple(decode_block(block) for (block,) in rows)
        deployments = yield from self._deployments(final_height)
        known = final_height if blocks else None
        sent = yield from self._sent()
        return StoredNode(incarnation, stored, dispatches, owed, accounts, blocks, deployments, known, sent)

    def _accounts(self) -> Reading[dict[ContractAddress, StoredAccount]]:
        rows: Any = yield Statement("SELECT contract, next_nonce, is_own FROM accounts")
        return {
            contract: StoredAccount(next_nonce, None if is_own is None else bool(is_own))
            for contract, next_nonce, is_own in rows
        }

    def _sent(self) -> Reading[tuple[SentTransition, ...]]:
        rows: Any = yield Statement(_SENT)
        return tuple(SentTransition(contract, Leaf(leaf), *rest) for contract, leaf, *rest in rows)

    def _deployments(self, final_height: int) -> Reading[StoredDeployments]:
        """Own deployments that are agreed on or on the chain, the proposals of others, and undone own receipts."""
        rows: Any = yield Statement(_AGREED, (NO_CONTRACT,))
        agreed = tuple((IntentId(deployment), decode_signers(signers)) for deployment, signers in rows)
        rows = yield Statement(_DEPLOYED, (NO_CONTRACT, final_height))
        deployed = tuple(decode_deployed(deployment) for (deployment,) in rows)
        rows = yield Statement("SELECT proposal FROM proposals ORDER BY position, deployment")
        proposals = tuple(decode_proposal(proposal) for (proposal,) in rows)
        rows = yield Statement("SELECT intent FROM receipts_undone WHERE contract = ? ORDER BY intent", (NO_CONTRACT,))
        return StoredDeployments(agreed, deployed, proposals, tuple(IntentId(intent) for (intent,) in rows))

    def contract_of(self, address: ContractAddress) -> Reading[tuple[Contract, StoredContract] | None]:
        """A contract and its stored state; None if the node does not have the contract."""
        rows: Any = yield Statement("SELECT contract FROM contracts WHERE address = ?", (address,))
        if not rows:
            return None
        final_height = yield from self.final_height()
        stored = yield from self._contract(address, final_height)
        return decode_contract(rows[0][0]).contract, stored

    def _contract(self, address: ContractAddress, final_height: int) -> Reading[StoredContract]:
        intents = yield from self._unfinished(address, final_height)
        dependencies = dict.fromkeys(other for restored in intents for other in restored.intent.depends_on)
        outcomes = yield from self._outcomes(tuple(dependencies), final_height)
        indexed = yield from self._indexed(address, final_height)
        still_valid = (address, (yield from self.final_time_s(final_height)), final_height)
        rows: Any = yield Statement(_PREPARED, still_valid)
        prepared = [(decode_transition_prepared(record), is_acknowledged) for record, is_acknowledged in rows]
        rows = yield Statement(_ENDORSED, still_valid)
        latest: Any = yield Statement("SELECT latest_chain_time_s FROM node")
        return StoredContract(
            intents,
            outcomes=tuple(outcomes.items()),
            indexed=indexed,
            unacknowledged=tuple(record for record, is_acknowledged in prepared if not is_acknowledged),
            kept=tuple(kept_for(record.prepared) for record, _ in prepared),
            endorsed=tuple(decode_kept(kept) for (kept,) in rows),
            latest_chain_time_s=latest[0][0],
            final_height=final_height,
        )

    def _unfinished(self, address: ContractAddress, final_height: int) -> Reading[tuple[Restored, ...]]:
        rows: Any = yield Statement(_UNFINISHED, (address, address, final_height))
        versions: dict[IntentId, list[SignedLeaf]] = {}
        for some in _in_batches([IntentId(row[0]) for row in rows]):
            sql = f"SELECT intent, leaf, valid_until_s FROM signed_leaves WHERE intent IN ({_marks(some)})"
            signed: Any = yield Statement(f"{sql} ORDER BY intent, valid_until_s, leaf", some)
            for each in (SignedLeaf(IntentId(intent), Leaf(leaf), until_s) for intent, leaf, until_s in signed):
                versions.setdefault(each.intent, []).append(each)
        return tuple(_restored(row, versions.get(row[0], ()), final_height) for row in rows)

    def _indexed(self, address: ContractAddress, final_height: int) -> Reading[tuple[LedgerOutcome, ...]]:
        """The latest outcomes of the contract, oldest first: as many as the core keeps."""
        rows: Any = yield Statement(_INDEXED, (address, final_height, OUTCOMES_KEPT_MAX))
        return tuple(decode_outcome(outcome) for (outcome,) in reversed(rows))

    def _unsettled(self, final_height: int) -> Reading[tuple[RoundDispatch, ...]]:
        rows: Any = yield Statement(_UNSETTLED, (final_height,))
        return tuple(decode_dispatch(dispatch) for (dispatch,) in rows)

    def dispatches_with(self, recall: RecallDispatches) -> Reading[tuple[RoundDispatch, ...]]:
        """This node's dispatches with these nonces of an account, ordered by nonce."""
        found: list[RoundDispatch] = []
        for some in _in_batches(recall.nonces):
            sql = f"SELECT dispatch FROM dispatches WHERE account = ? AND nonce IN ({_marks(some)}) ORDER BY nonce"
            rows: Any = yield Statement(sql, (recall.account, *some))
            found += [decode_dispatch(dispatch) for (dispatch,) in rows]
        return tuple(found)

    def _owed(self) -> Reading[tuple[NodeName, ...]]:
        """The peers that have not acknowledged all deliveries."""
        rows: Any = yield Statement("SELECT DISTINCT peer FROM deliveries WHERE is_acknowledged = 0 ORDER BY peer")
        return tuple(NodeName(peer) for (peer,) in rows)

    def deliveries_to(self, recall: RecallDeliveries) -> Reading[DeliveriesRecalled]:
        """The first deliveries that this peer has not acknowledged.

        Rounds are read one by one because they may be large.
        """
        rows: Any = yield Statement(_OWED_TO, (recall.peer, recall.count_max + 1))
        owed = rows[: recall.count_max]
        found: list[Delivery] = []
        room = recall.bytes_max
        orders: dict[tuple[bytes, int | None], dict[int, Delivery]] = {}
        for digest, part, number in owed:
            if (digest, number) not in orders:
                orders = {(digest, number): (yield from self._deliveries_of(digest, number, recall.peer))}
            delivery = orders[digest, number].get(part)
            if delivery is None:
                continue
            room -= delivery_bytes(delivery)
            if room < 0 and found:
                return DeliveriesRecalled(recall.peer, recall.number, tuple(found), False)
            found.append(delivery)
        return DeliveriesRecalled(recall.peer, recall.number, tuple(found), len(rows) <= recall.count_max)

    def _deliveries_of(self, digest: bytes, number: int | None, peer: NodeName) -> Reading[dict[int, Delivery]]:
        """The deliveries of one dispatch, or of one prepared transition, to this peer, by part."""
        orders: list[DispatchRound] = []
        if number is not None:
            rows: Any = yield Statement("SELECT dispatch FROM dispatches WHERE number = ?", (number,))
            orders = [decode_dispatch(dispatch).round for (dispatch,) in rows]
        else:
            rows = yield Statement("SELECT contract, record FROM prepared WHERE leaf = ? ORDER BY position", (digest,))
            orders = [order_of(contract, decode_transition_prepared(record)) for contract, record in rows]
        deliveries = (delivery for order in orders for delivery in deliveries_of(order, self.node))
        return {each.part: each for each in deliveries if (each.digest, each.peer) == (digest, peer)}

    # Single items.

    def look_up(self, order: LookUpIntents) -> Reading[IntentsLookedUp]:
        """The intent with this key, and the state of these own transactions, private or public."""
        existing: IntentId | None = None
        if order.key:
            rows: Any = yield Statement(_BY_KEY, (encode_text(order.key),))
            existing = IntentId(rows[0][0]) if rows else None
        known: dict[IntentId, None] = {}
        for some in _in_batches(order.intents):
            for table in ("intents", "public_transactions"):
                rows = yield Statement(f"SELECT id FROM {table} WHERE id IN ({_marks(some)})", some)
                known.update({IntentId(intent): None for (intent,) in rows})
        own = tuple(intent for intent in order.intents if intent in known)
        outcomes: dict[IntentId, Outcome] = {}
        if own:
            outcomes = yield from self._outcomes(own, (yield from self.final_height()))
        return IntentsLookedUp(
            order.token,
            existing,
            tuple((intent, outcomes[intent]) for intent in own if intent in outcomes),
            tuple(intent for intent in own if intent not in outcomes),
            (yield from leaf_outcomes(order.leaves, self.final_height())),
        )

    def look_up_all(self, orders: Sequence[LookUpIntents]) -> Reading[list[IntentsLookedUp]]:
        """Answer several look-ups in one reading."""
        answers = []
        for order in orders:
            answers.append((yield from self.look_up(order)))
        return answers

    def receipt_of(self, intent: IntentId) -> Reading[Receipt | None]:
        """The final outcome of an intent of this node, if it has one.

        The chain takes precedence over a stored receipt.
        """
        committed = yield from self._committed((intent,), (yield from self.final_height()))
        if intent in committed:
            return Receipt(intent, Outcome.CONFIRMED, leaf=committed[intent])
        rows: Any = yield Statement("SELECT receipt FROM intents WHERE id = ? AND receipt IS NOT NULL", (intent,))
        return decode_receipt(rows[0][0]) if rows else None

    def transaction(self, intent: IntentId) -> Reading[StoredTransaction | None]:
        """An intent of this node and its outcome."""
        found = yield from self._transactions(Statement(f"{_TRANSACTIONS} WHERE id = ?", (intent,)))
        return found[0] if found else None

    def transactions(self, after: IntentId | None, limit: int) -> Reading[tuple[StoredTransaction, ...]]:
        """The intents of this node, latest first, starting behind `after` in that order."""
        if after is None:
            return (yield from self._transactions(Statement(_LATEST_TRANSACTIONS, (limit,))))
        return (yield from self._transactions(Statement(_TRANSACTIONS_AFTER, (after, limit))))

    def unfinished_count(self) -> Reading[int]:
        """How many intents of this node have no final outcome."""
        rows: Any = yield Statement(_UNFINISHED_COUNT, ((yield from self.final_height()),))
        ((count,),) = rows
        return int(count)

    def _transactions(self, query: Statement) -> Reading[tuple[StoredTransaction, ...]]:
        rows: Any = yield query
        final_height = yield from self.final_height()
        ids = [IntentId(row[0]) for row in rows]
        commits = yield from self._commits(ids)
        places: dict[IntentId, NumberedReceipt] = {}
        for some in _in_batches(ids):
            places |= yield from places_of(some)
        found = tuple(_transaction(row, commits.get(row[0]), final_height, places.get(row[0])) for row in rows)
        deployed = yield from self._deployed([each.intent.id for each in found if each.intent.contract == NO_CONTRACT])
        return tuple(_told_where(each, deployed.get(each.intent.id)) for each in found) if deployed else found

    def _deployed(self, intents: Sequence[IntentId]) -> Reading[dict[IntentId, FactoryDeployment]]:
        """The factory's deployments of these intents."""
        deployed: dict[IntentId, FactoryDeployment] = {}
        for some in _in_batches(intents):
            rows: Any = yield Statement(f"SELECT deployment FROM deployed WHERE intent IN ({_marks(some)})", some)
            deployed |= {each.intent: each for each in (decode_deployed(encoded) for (encoded,) in rows)}
        return deployed

    def _commits(self, intents: Sequence[IntentId]) -> Reading[dict[IntentId, tuple[int, LedgerOutcome]]]:
        """The height and outcome of each of these intents that a leaf of its party committed, final or not."""
        commits: dict[IntentId, tuple[int, LedgerOutcome]] = {}
        for some in _in_batches(intents):
            rows: Any = yield Statement(f"{_COMMITS} AND outcomes.intent IN ({_marks(some)})", some)
            for height, encoded in rows:
                outcome = decode_outcome(encoded)
                commits[outcome.intent] = height, outcome
        return commits

    def states_of(
        self,
        contract: ContractAddress,
        leaves: tuple[Leaf, ...],
        peer: NodeName | None = None,
        bytes_max: int | None = None,
    ) -> Reading[tuple[tuple[Digest, tuple[Transition, ...]], ...]]:
        """The transitions of these leaves that this node dispatched, signed, prepared or was sent, by round."""
        return transitions_found(contract, leaves, None if peer == self.node else peer, bytes_max)

    def heights_with_outcomes(self, contract: ContractAddress, first: int, last: int) -> Reading[frozenset[int]]:
        """The heights of this range at which the index has an outcome of the contract."""
        sql = "SELECT DISTINCT height FROM outcomes WHERE contract = ? AND height >= ? AND height <= ?"
        rows: Any = yield Statement(sql, (contract, first, last))
        return frozenset(height for (height,) in rows)

    def free_places(self, heights: Sequence[int]) -> Reading[dict[int, int]]:
        """The first free place behind the outcomes of each of these blocks; blocks without outcomes are absent."""
        free: dict[int, int] = {}
        for some in _in_batches(heights):
            sql = f"SELECT height, MAX(place) FROM outcomes WHERE height IN ({_marks(some)}) GROUP BY height"
            rows: Any = yield Statement(sql, some)
            free.update((height, place + 1) for height, place in rows)
        return free

    def leaves_without_states(
        self, contract: ContractAddress, last: int, limit: int, skip: int
    ) -> Reading[tuple[Leaf, ...]]:
        """The leaves committed up to height `last` of which this node holds no state, the earliest first."""
        rows: Any = yield Statement(_LEAVES_WITHOUT_STATES, (contract, last, limit, skip))
        return tuple(Leaf(leaf) for (leaf,) in rows)

    unspent_states: Final = staticmethod(unspent_page)
    state_changes: Final = staticmethod(changes_page)
    states_since: Final = staticmethod(page_since)
    standing_states: Final = staticmethod(nullified_states)

    def states(self, contract: ContractAddress, ids: Sequence[StateId]) -> Reading[tuple[State, ...]]:
        """Those of these states that this node holds, in the order of `ids`."""
        held: dict[StateId, State] = {}
        for leaves in _in_batches(tuple(dict.fromkeys(each.leaf for each in ids))):
            sql = f"SELECT state FROM states WHERE state IS NOT NULL AND contract = ? AND leaf IN ({_marks(leaves)})"
            rows: Any = yield Statement(sql, (contract, *leaves))
            states = [decode_state(state) for (state,) in rows]
            held.update({state.id: state for state in states})
        for nullifiers in _in_batches(tuple(dict.fromkeys(each.leaf for each in ids if is_nullifier(each)))):
            sql = f"{_BY_NULLIFIER} AND nullifier IN ({_marks(nullifiers)}) ORDER BY leaf, output"
            rows = yield Statement(sql, (contract, *nullifiers))
            for nullifier, state in rows:
                held.setdefault(nullifier_reference(nullifier), decode_state(state))
        return tuple(held[each] for each in ids if each in held)

    def contracts(self) -> Reading[tuple[KnownContract, ...]]:
        """All contracts of this node."""
        rows: Any = yield Statement("SELECT contract FROM contracts ORDER BY address")
        return tuple(decode_contract(contract) for (contract,) in rows)

    def contract(self, address: ContractAddress) -> Reading[KnownContract | None]:
        """The contract with this address, with its genesis; None if the node does not have it."""
        rows: Any = yield Statement("SELECT contract FROM contracts WHERE address = ?", (address,))
        return decode_contract(rows[0][0]) if rows else None

    def contracts_with_work(self) -> Reading[tuple[ContractAddress, ...]]:
        """The contracts with unfinished work: a node starts with them and loads the others on demand."""
        final_height = yield from self.final_height()
        final_time_s = yield from self.final_time_s(final_height)
        rows: Any = yield Statement(_WITH_WORK, (final_height, final_height, final_time_s, final_time_s))
        return tuple(ContractAddress(address) for (address,) in rows)

    # Parts of the answers.

    def _outcomes(self, intents: Sequence[IntentId], final_height: int) -> Reading[dict[IntentId, Outcome]]:
        """The final outcomes of these, private or public; the chain takes precedence over stored receipts."""
        outcomes: dict[IntentId, Outcome] = {}
        for some in _in_batches(intents):
            sql = f"SELECT receipt FROM intents WHERE receipt IS NOT NULL AND id IN ({_marks(some)})"
            rows: Any = yield Statement(sql, some)
            receipts = [decode_receipt(receipt) for (receipt,) in rows]
            outcomes.update({receipt.intent: receipt.outcome for receipt in receipts})
            sql = f"SELECT id, has_succeeded FROM public_transactions WHERE is_final = 1 AND id IN ({_marks(some)})"
            public: Any = yield Statement(sql, some)
            for intent, has_succeeded in public:
                outcomes[IntentId(intent)] = Outcome.CONFIRMED if has_succeeded else Outcome.REVERTED
        committed = yield from self._committed(intents, final_height)
        return outcomes | dict.fromkeys(committed, Outcome.CONFIRMED)

    def _committed(self, intents: Sequence[IntentId], final_height: int) -> Reading[dict[IntentId, Leaf]]:
        """The leaf, signed by its party, that committed each of these intents in a final block."""
        committed: dict[IntentId, Leaf] = {}
        for some in _in_batches(intents):
            sql = f"{_COMMITTED} AND outcomes.intent IN ({_marks(some)})"
            rows: Any = yield Statement(sql, (final_height, *some))
            committed.update({IntentId(intent): Leaf(leaf) for intent, leaf in rows})
        return committed

    def outcomes(self, intents: Sequence[IntentId]) -> Reading[dict[IntentId, Outcome]]:
        """The final outcomes of these transactions of this node, private or public; those without one are absent."""
        return (yield from self._outcomes(tuple(intents), (yield from self.final_height())))

    def final_height(self) -> Reading[int]:
        """The height of the latest block that is or was `confirmations` deep; below all heights if there is none."""
        rows: Any = yield Statement("SELECT MAX(height) FROM blocks")
        height = rows[0][0]
        if height is None:
            return -1
        rows = yield Statement("SELECT final_height FROM node")
        depth, known = height - self.confirmations, rows[0][0]
        return int(depth if known is None else max(depth, known))

    def final_time_s(self, final_height: int) -> Reading[int]:
        """The chain time of the latest block up to that height; 0 if the index has none."""
        sql = "SELECT time_s FROM blocks WHERE height <= ? ORDER BY height DESC LIMIT 1"
        rows: Any = yield Statement(sql, (final_height,))
        return rows[0][0] if rows else 0


def _restored(row: Sequence[Any], versions: Sequence[SignedLeaf], final_height: int) -> Restored:
    _, intent, parked_reason, permission, ending_reason, voided_at, issued, void_after_s, used_at, used_leaf = row
    reason, code = decode_ending(ending_reason)
    return Restored(
        decode_intent(intent),
        decode_text(parked_reason),
        None if permission is None else decode_permission(permission),
        reason,
        voided_at is not None and voided_at <= final_height,
        None if issued is None else decode_prepared(issued),
        void_after_s,
        tuple(versions),
        Leaf(used_leaf) if used_at is not None and used_at <= final_height else None,
        code,
    )


def _transaction(
    row: Sequence[Any], commit: tuple[int, LedgerOutcome] | None, final_height: int, place: NumberedReceipt | None
) -> StoredTransaction:
    _, intent, position, accepted_at_ms, parked_reason, ending_reason, issued, receipt = row
    height, outcome = commit if commit is not None else (None, None)
    decided = None if receipt is None else decode_receipt(receipt)
    if height is not None and outcome is not None and height <= final_height:
        # The chain takes precedence over a stored receipt.
        decided = Receipt(outcome.intent, Outcome.CONFIRMED, leaf=outcome.leaf)
    return StoredTransaction(
        decode_intent(intent),
        position,
        accepted_at_ms,
        decided,
        height,
        NO_LEAF if outcome is None else outcome.leaf,
        b"" if outcome is None else outcome.transaction,
        decode_text(parked_reason),
        decode_ending(ending_reason)[0],
        None if issued is None else decode_prepared(issued),
        place,
        None if outcome is None else outcome.transaction_index,
        None if outcome is None else outcome.log_index,
    )


def _told_where(stored: StoredTransaction, deployed: FactoryDeployment | None) -> StoredTransaction:
    if deployed is None:
        return stored
    return replace(
        stored,
        transaction=deployed.transaction,
        transaction_index=deployed.transaction_index,
        log_index=deployed.log_index,
    )


def _in_batches(items: Sequence[Item]) -> Iterator[tuple[Item, ...]]:
    for start in range(0, len(items), PARAMETERS_MAX):
        yield tuple(items[start : start + PARAMETERS_MAX])


def _marks(items: Sequence[object]) -> str:
    return ", ".join("?" * len(items))


_RESTORED: Final = (
    "id, intent, parked_reason, permission, ending_reason, voided_at, issued, void_after_s, used_at, used_leaf"
)

# Each half of the union has an index of its own: intents without an outcome, and intents whose outcome is not final.
_UNFINISHED: Final = f"""
SELECT {_RESTORED} FROM (
    SELECT position, {_RESTORED} FROM intents WHERE contract = ? AND receipt IS NULL AND settled_at IS NULL
    UNION ALL
    SELECT position, {_RESTORED} FROM intents WHERE contract = ? AND receipt IS NULL AND settled_at > ?) AS unfinished
ORDER BY position"""

_AGREED: Final = """
SELECT deployment, signers FROM agreements JOIN intents ON intents.id = agreements.deployment
WHERE intents.contract = ? AND receipt IS NULL AND settled_at IS NULL ORDER BY position"""

_DEPLOYED: Final = """
SELECT deployment FROM deployed JOIN intents ON intents.id = deployed.intent
WHERE intents.contract = ? AND receipt IS NULL AND settled_at IS NULL AND height <= ? ORDER BY height, position"""

_UNSETTLED: Final = """
SELECT dispatch FROM (
    SELECT account, nonce, dispatch FROM dispatches WHERE settled_at IS NULL
    UNION ALL
    SELECT account, nonce, dispatch FROM dispatches WHERE settled_at > ?) AS unsettled
ORDER BY account, nonce"""

_INDEXED: Final = """
SELECT outcome FROM outcomes WHERE contract = ? AND height <= ? ORDER BY height DESC, place DESC LIMIT ?"""

# A leaf that expired in a final block, or whose intent is on the chain, is not needed any more.
_STILL_VALID: Final = f"""
contract = ? AND valid_until_s >= ? AND NOT EXISTS (
    SELECT 1 FROM outcomes
    WHERE outcomes.intent = kept_for.intent AND outcomes.contract = kept_for.contract
    AND outcomes.status = '{LedgerStatus.COMMITTED.value}' AND outcomes.height <= ?)"""

# Every copy of a leaf counts as acknowledged when one is.
_PREPARED: Final = f"""
SELECT record, (
    SELECT MAX(copies.is_acknowledged) FROM prepared AS copies
    WHERE copies.leaf = kept_for.leaf AND copies.contract = kept_for.contract)
FROM prepared AS kept_for WHERE {_STILL_VALID} ORDER BY position"""

_ENDORSED: Final = f"SELECT kept FROM endorsed AS kept_for WHERE {_STILL_VALID} ORDER BY position, leaf"

# Leaves for which the chain has no outcome yet.
_SENT: Final = """
SELECT contract, leaf, peer, size_bytes, valid_until_s FROM receipts_due
WHERE peer IS NOT NULL AND is_final = 0 AND NOT EXISTS (
    SELECT 1 FROM setters WHERE setters.contract = receipts_due.contract AND setters.leaf = receipts_due.leaf)
AND NOT EXISTS (
    SELECT 1 FROM outcomes
    WHERE outcomes.intent = receipts_due.intent AND outcomes.contract = receipts_due.contract
    AND outcomes.leaf = receipts_due.leaf)
ORDER BY contract, leaf"""

_OWED_TO: Final = """
SELECT digest, part, number FROM deliveries WHERE peer = ? AND is_acknowledged = 0
ORDER BY created_at_ms, number, digest, part LIMIT ?"""

_TRANSACTIONS: Final = """
SELECT id, intent, position, accepted_at_ms, parked_reason, ending_reason, issued, receipt FROM intents"""
_LATEST_TRANSACTIONS: Final = f"{_TRANSACTIONS} ORDER BY position DESC LIMIT ?"
_TRANSACTIONS_AFTER: Final = f"""{_TRANSACTIONS}
WHERE position < (SELECT after.position FROM intents AS after WHERE after.id = ?) ORDER BY position DESC LIMIT ?"""

_UNFINISHED_COUNT: Final = """
SELECT COUNT(*) FROM (
    SELECT 1 FROM intents WHERE receipt IS NULL AND settled_at IS NULL
    UNION ALL
    SELECT 1 FROM intents WHERE receipt IS NULL AND settled_at > ?) AS unfinished"""

# An intent counts as on the chain only by a leaf that its party signed, in the intent's own contract (trust rule 1).
_ITS_OWN: Final = f"""
FROM outcomes JOIN intents ON intents.id = outcomes.intent AND intents.contract = outcomes.contract
WHERE status = '{LedgerStatus.COMMITTED.value}' AND intents.settled_at = outcomes.height"""
_COMMITS: Final = f"SELECT height, outcome {_ITS_OWN}"

_LEAVES_WITHOUT_STATES: Final = f"""
SELECT leaf FROM outcomes WHERE contract = ? AND height <= ? AND status = '{LedgerStatus.COMMITTED.value}'
AND NOT EXISTS (
    SELECT 1 FROM states
    WHERE states.contract = outcomes.contract AND states.leaf = outcomes.leaf AND states.state IS NOT NULL)
ORDER BY height, place LIMIT ? OFFSET ?"""

_BY_NULLIFIER: Final = "SELECT nullifier, state FROM states WHERE state IS NOT NULL AND contract = ?"

_BY_KEY: Final = "SELECT id FROM intents WHERE idempotency_key = ? ORDER BY position DESC LIMIT 1"

_COMMITTED: Final = f"SELECT outcomes.intent, leaf {_ITS_OWN} AND height <= ?"

_WITH_WORK: Final = """
SELECT contract FROM intents WHERE receipt IS NULL AND settled_at IS NULL
UNION SELECT contract FROM intents WHERE receipt IS NULL AND settled_at > ?
UNION SELECT contract FROM dispatches WHERE settled_at IS NULL
UNION SELECT contract FROM dispatches WHERE settled_at > ?
UNION SELECT contract FROM prepared WHERE valid_until_s >= ?
UNION SELECT contract FROM endorsed WHERE valid_until_s >= ?
ORDER BY contract"""
