"""What is asked of a store, as SQL: what a node starts with, one contract, receipts, keys, states.

Theory of operation. What a node needs at its start is what has not ended: unfinished intents, dispatches without
a final outcome, states that are owed, prepared transitions that are still valid, the latest blocks. Each of these
is found by an index of its own, so that a start reads as much as is open and not as much as has ever been. What
is final is looked up one by one.

Final is what lies `confirmations` below the latest block. What a later block says is told to the node again, from
the blocks themselves, and is therefore not yet true here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

from rota.core.distribution import Delivery, deliveries_of, order_of
from rota.core.effects import DispatchRound, LookUpIntents, RoundDispatch
from rota.core.events import IntentsLookedUp, LedgerOutcome, LedgerStatus
from rota.core.issuing import kept_for
from rota.core.node import StoredNode
from rota.core.recent_outcomes import OUTCOMES_KEPT_MAX
from rota.core.sequencer import StoredContract
from rota.core.states.sender_transaction import Restored
from rota.digests import void_leaf
from rota.ports import KnownContract, StateChanges, StoredTransaction
from rota.store.database import Reading, Statement, Value
from rota.store.encoding import (
    decode_block,
    decode_contract,
    decode_dispatch,
    decode_intent,
    decode_kept,
    decode_outcome,
    decode_permission,
    decode_prepared,
    decode_receipt,
    decode_text,
    decode_transition,
    decode_transition_prepared,
    encode_text,
)
from rota.types import (
    Contract,
    ContractAddress,
    Digest,
    IntentId,
    Leaf,
    NodeName,
    Outcome,
    Receipt,
    State,
    StateId,
    Transition,
)

# Both databases take as many parameters in one statement.
PARAMETERS_MAX: Final = 500

Item = TypeVar("Item", bound=Value)
Separators = Mapping[ContractAddress, bytes]


class Asking:
    """Makes readings for one node. `separators` are those of the contracts that it has."""

    def __init__(self, node: NodeName, separators: Separators, confirmations: int) -> None:
        self.node = node
        self.separators = separators
        self.confirmations = confirmations

    # Whole nodes and contracts.

    def node_of(self, contracts: Sequence[ContractAddress]) -> Reading[StoredNode]:
        """What a node starts with, and of its contracts these."""
        final_height = yield from self._final_height()
        found: Any = yield Statement("SELECT incarnation, next_nonce FROM node")
        (incarnation, next_nonce), *_ = found
        stored: dict[ContractAddress, StoredContract] = {}
        for contract in contracts:
            stored[contract] = yield from self._contract(contract, final_height)
        dispatches = yield from self._unsettled(final_height)
        undelivered = yield from self._undelivered()
        rows: Any = yield Statement("SELECT block FROM blocks ORDER BY height")
        blocks = tuple(decode_block(block) for (block,) in rows)
        return StoredNode(incarnation, stored, dispatches, undelivered, next_nonce, blocks)

    def contract_of(self, address: ContractAddress) -> Reading[tuple[Contract, StoredContract] | None]:
        """A contract and what is remembered of it, if the node has it."""
        rows: Any = yield Statement("SELECT contract FROM contracts WHERE address = ?", (address,))
        if not rows:
            return None
        final_height = yield from self._final_height()
        stored = yield from self._contract(address, final_height)
        return decode_contract(rows[0][0]).contract, stored

    def _contract(self, address: ContractAddress, final_height: int) -> Reading[StoredContract]:
        intents = yield from self._unfinished(address, final_height)
        dependencies = dict.fromkeys(other for restored in intents for other in restored.intent.depends_on)
        outcomes = yield from self._outcomes(tuple(dependencies), final_height)
        indexed = yield from self._indexed(address, final_height)
        still_valid = (address, (yield from self._final_time_s(final_height)), final_height)
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
        )

    def _unfinished(self, address: ContractAddress, final_height: int) -> Reading[tuple[Restored, ...]]:
        rows: Any = yield Statement(_UNFINISHED, (address, address, final_height))
        return tuple(_restored(row, final_height) for row in rows)

    def _indexed(self, address: ContractAddress, final_height: int) -> Reading[tuple[LedgerOutcome, ...]]:
        """As many as the core remembers, the latest, in their order."""
        rows: Any = yield Statement(_INDEXED, (address, final_height, OUTCOMES_KEPT_MAX))
        return tuple(decode_outcome(outcome) for (outcome,) in reversed(rows))

    def _unsettled(self, final_height: int) -> Reading[tuple[RoundDispatch, ...]]:
        rows: Any = yield Statement(_UNSETTLED, (final_height,))
        return tuple(decode_dispatch(dispatch) for (dispatch,) in rows)

    def _undelivered(self) -> Reading[tuple[Delivery, ...]]:
        """What is owed of each dispatch and each prepared transition of which anything is owed."""
        rows: Any = yield Statement("SELECT digest, peer, part FROM deliveries WHERE is_acknowledged = 0")
        owed = {(digest, peer, part) for digest, peer, part in rows}
        rows = yield Statement(_OWED_DISPATCHES)
        orders: list[DispatchRound] = [decode_dispatch(dispatch).round for (dispatch,) in rows]
        rows = yield Statement(_OWED_PREPARED)
        orders += [order_of(contract, decode_transition_prepared(record)) for contract, record in rows]
        deliveries = (delivery for order in orders for delivery in deliveries_of(order, self.node))
        return tuple(each for each in deliveries if (each.digest, each.peer, each.part) in owed)

    # Single ones.

    def look_up(self, order: LookUpIntents) -> Reading[IntentsLookedUp]:
        """Which intent has this key, and what became of these, as far as they are this node's own."""
        existing: IntentId | None = None
        if order.key:
            rows: Any = yield Statement(_BY_KEY, (encode_text(order.key),))
            existing = IntentId(rows[0][0]) if rows else None
        known: dict[IntentId, None] = {}
        for some in _in_batches(order.intents):
            rows = yield Statement(f"SELECT id FROM intents WHERE id IN ({_marks(some)})", some)
            known.update({IntentId(intent): None for (intent,) in rows})
        own = tuple(intent for intent in order.intents if intent in known)
        outcomes = yield from self._outcomes(own, (yield from self._final_height()))
        return IntentsLookedUp(
            order.token,
            existing,
            tuple((intent, outcomes[intent]) for intent in own if intent in outcomes),
            tuple(intent for intent in own if intent not in outcomes),
        )

    def receipt_of(self, intent: IntentId) -> Reading[Receipt | None]:
        """The final outcome of an intent of this node, if it has one. The chain's word counts before ours."""
        committed = yield from self._committed((intent,), (yield from self._final_height()))
        if intent in committed:
            return Receipt(intent, Outcome.CONFIRMED, leaf=committed[intent])
        rows: Any = yield Statement("SELECT receipt FROM intents WHERE id = ? AND receipt IS NOT NULL", (intent,))
        return decode_receipt(rows[0][0]) if rows else None

    def state_changes(self, contract: ContractAddress, since: int, as_of: int) -> Reading[StateChanges]:
        """Interim: all of it, always."""
        rows: Any = yield Statement(
            "SELECT t.transition FROM outcomes o JOIN transitions t ON t.leaf = o.leaf AND t.contract = o.contract"
            " WHERE o.contract = ? AND o.status = 'committed' ORDER BY o.height, o.place",
            (contract,),
        )
        unspent: dict[StateId, State] = {}
        gone: dict[StateId, None] = {}
        for (encoded,) in rows:
            transition = decode_transition(encoded)
            for state in transition.outputs:
                if state.content is not None:
                    unspent[state.id] = state
            for spent in transition.inputs:
                gone[spent] = None
                unspent.pop(spent, None)
        return StateChanges(max(as_of, since + 1), tuple(unspent.values()), tuple(gone))

    def transaction(self, intent: IntentId) -> Reading[StoredTransaction | None]:
        """Interim."""
        rows: Any = yield Statement("SELECT intent, position, settled_at FROM intents WHERE id = ?", (intent,))
        if not rows:
            return None
        receipt = yield from self.receipt_of(intent)
        encoded, position, height = rows[0]
        return StoredTransaction(decode_intent(encoded), position, 0, receipt, height)

    def states_of(
        self, contract: ContractAddress, leaves: tuple[Leaf, ...]
    ) -> Reading[tuple[tuple[Digest, tuple[Transition, ...]], ...]]:
        """The transitions of these leaves that this node dispatched or was sent, by round."""
        found: dict[Digest, list[tuple[int, Transition]]] = {}
        for some in _in_batches(leaves):
            sql = (
                f"SELECT digest, position, transition FROM transitions WHERE contract = ? AND leaf IN ({_marks(some)})"
            )
            rows: Any = yield Statement(sql, (contract, *some))
            for digest, position, transition in rows:
                found.setdefault(Digest(digest), []).append((position, decode_transition(transition)))
        rounds = sorted(found.items(), key=lambda item: min(position for position, _ in item[1]))
        places = {leaf: place for place, leaf in enumerate(leaves)}
        return tuple(
            (digest, tuple(sorted((each for _, each in of_round), key=lambda each: places[each.leaf])))
            for digest, of_round in rounds
        )

    def contracts(self) -> Reading[tuple[KnownContract, ...]]:
        """All contracts of this node."""
        rows: Any = yield Statement("SELECT contract FROM contracts ORDER BY address")
        return tuple(decode_contract(contract) for (contract,) in rows)

    def contracts_with_work(self) -> Reading[tuple[ContractAddress, ...]]:
        """Those of which something is unfinished: a node begins with them and loads the others when asked."""
        final_height = yield from self._final_height()
        final_time_s = yield from self._final_time_s(final_height)
        rows: Any = yield Statement(_WITH_WORK, (final_height, final_height, final_time_s, final_time_s))
        return tuple(ContractAddress(address) for (address,) in rows)

    # Parts of the answers.

    def _outcomes(self, intents: Sequence[IntentId], final_height: int) -> Reading[dict[IntentId, Outcome]]:
        """The final outcomes of these: the chain's word counts before ours."""
        outcomes: dict[IntentId, Outcome] = {}
        for some in _in_batches(intents):
            sql = f"SELECT receipt FROM intents WHERE receipt IS NOT NULL AND id IN ({_marks(some)})"
            rows: Any = yield Statement(sql, some)
            receipts = [decode_receipt(receipt) for (receipt,) in rows]
            outcomes.update({receipt.intent: receipt.outcome for receipt in receipts})
        committed = yield from self._committed(intents, final_height)
        return outcomes | dict.fromkeys(committed, Outcome.CONFIRMED)

    def _committed(self, intents: Sequence[IntentId], final_height: int) -> Reading[dict[IntentId, Leaf]]:
        """Which of these are on the chain, in a block that is final, and not by their empty transition."""
        committed: dict[IntentId, Leaf] = {}
        for some in _in_batches(intents):
            sql = f"{_COMMITTED} AND intent IN ({_marks(some)})"
            rows: Any = yield Statement(sql, (final_height, *some))
            for intent, contract, leaf in rows:
                separator = self.separators.get(contract)
                if separator is not None and leaf != void_leaf(separator, intent):
                    committed[intent] = leaf
        return committed

    def _final_height(self) -> Reading[int]:
        """The height of the latest block that is as deep as it must be; below all heights if there is none."""
        rows: Any = yield Statement("SELECT MAX(height) FROM blocks")
        height = rows[0][0]
        return -1 if height is None else height - self.confirmations

    def _final_time_s(self, final_height: int) -> Reading[int]:
        sql = "SELECT time_s FROM blocks WHERE height <= ? ORDER BY height DESC LIMIT 1"
        rows: Any = yield Statement(sql, (final_height,))
        return rows[0][0] if rows else 0


def _restored(row: Sequence[Any], final_height: int) -> Restored:
    intent, parked_reason, permission, ending_reason, voided_at, issued, void_after_s = row
    return Restored(
        decode_intent(intent),
        decode_text(parked_reason),
        None if permission is None else decode_permission(permission),
        decode_text(ending_reason),
        voided_at is not None and voided_at <= final_height,
        None if issued is None else decode_prepared(issued),
        void_after_s,
    )


def _in_batches(items: Sequence[Item]) -> Iterator[tuple[Item, ...]]:
    for start in range(0, len(items), PARAMETERS_MAX):
        yield tuple(items[start : start + PARAMETERS_MAX])


def _marks(items: Sequence[object]) -> str:
    return ", ".join("?" * len(items))


_RESTORED: Final = "intent, parked_reason, permission, ending_reason, voided_at, issued, void_after_s"

# The two halves each have an index of their own: what has no outcome, and what has one that is not final.
_UNFINISHED: Final = f"""
SELECT {_RESTORED} FROM (
    SELECT position, {_RESTORED} FROM intents WHERE contract = ? AND receipt IS NULL AND settled_at IS NULL
    UNION ALL
    SELECT position, {_RESTORED} FROM intents WHERE contract = ? AND receipt IS NULL AND settled_at > ?) AS unfinished
ORDER BY position"""

_UNSETTLED: Final = """
SELECT dispatch FROM (
    SELECT nonce, dispatch FROM dispatches WHERE settled_at IS NULL
    UNION ALL
    SELECT nonce, dispatch FROM dispatches WHERE settled_at > ?) AS unsettled
ORDER BY nonce"""

_INDEXED: Final = """
SELECT outcome FROM outcomes WHERE contract = ? AND height <= ? ORDER BY height DESC, place DESC LIMIT ?"""

# What has expired in a final block is of no use to anybody, and what is on the chain has no use any more.
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

_OWED_DISPATCHES: Final = """
SELECT dispatch FROM dispatches
WHERE nonce IN (SELECT nonce FROM deliveries WHERE is_acknowledged = 0 AND nonce IS NOT NULL) ORDER BY nonce"""

_OWED_PREPARED: Final = """
SELECT contract, record FROM prepared
WHERE leaf IN (SELECT digest FROM deliveries WHERE is_acknowledged = 0 AND nonce IS NULL) ORDER BY position"""

_BY_KEY: Final = "SELECT id FROM intents WHERE idempotency_key = ? ORDER BY position DESC LIMIT 1"

_COMMITTED: Final = f"""
SELECT intent, contract, leaf FROM outcomes
WHERE status = '{LedgerStatus.COMMITTED.value}' AND height <= ?"""

_WITH_WORK: Final = """
SELECT contract FROM intents WHERE receipt IS NULL AND settled_at IS NULL
UNION SELECT contract FROM intents WHERE receipt IS NULL AND settled_at > ?
UNION SELECT contract FROM dispatches WHERE settled_at IS NULL
UNION SELECT contract FROM dispatches WHERE settled_at > ?
UNION SELECT contract FROM prepared WHERE valid_until_s >= ?
UNION SELECT contract FROM endorsed WHERE valid_until_s >= ?
ORDER BY contract"""
