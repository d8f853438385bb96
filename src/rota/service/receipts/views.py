"""Receipts of a running node as its users see them.

A receipt is identified by contract and id, because any account can commit the id of a foreign transaction in its own
contract. Listeners and queries get each receipt by its place in the order (`at`). A caller that has only an id (`of`)
gets the receipt of this node's own transaction; for transactions of other nodes the only one, or an error that names
the contracts.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from rota.domains.available import readable
from rota.host.proving import as_believed
from rota.model.genesis import decode_genesis
from rota.model.types import NO_CONTRACT, ContractAddress, Intent, IntentId, Leaf, NodeName, Outcome, intent_text
from rota.ports import BASE_LEDGER, NumberedReceipt, PartyNames, Store, StoredTransaction
from rota.rpc import errors
from rota.service import interface
from rota.service.keys.addresses import PartyAddresses
from rota.service.public.public import Public
from rota.service.receipts.failures import failure_of
from rota.service.receipts.holdings import readers_of
from rota.service.receipts.order import Relation, undone_view
from rota.service.run import RunningNode


class ReceiptViews:
    """The receipts of one node."""

    def __init__(self, running: RunningNode, public: Public, addresses: PartyAddresses) -> None:
        self.addresses: Final = addresses
        self._running: Final = running
        self._public: Final = public

    @property
    def _store(self) -> Store:
        return self._running.adapters.store

    async def of(self, intent: IntentId) -> interface.ReceiptView | None:
        """Return the receipt of the transaction with this id, or None."""
        if self._is_under_way(intent):
            return None
        stored = await self._store.transaction(intent)
        if stored is not None:
            return await self._own(stored)
        public = await self._public_one(intent)
        if public is not None:
            return public
        place = await self.place_of_another(intent)
        return await self._anothers(place) if place is not None else None

    async def at(self, place: NumberedReceipt) -> interface.ReceiptView | None:
        """Return the receipt with this place in the order; its place may have changed meanwhile."""
        if place.contract == BASE_LEDGER:
            return await self._public_one(place.intent)
        stored = await self._store.transaction(place.intent)
        if stored is not None and stored.intent.contract == place.contract:
            return await self._own(stored)
        latest = await self._store.listening.receipt_number(place.contract, place.intent)
        return await self._anothers(latest or place)

    async def relation(self, place: NumberedReceipt, parties: tuple[str, ...]) -> Relation | None:
        """Return the relation of parties of this node to the transaction; None when they have none."""
        names = PartyNames(parties, self._running.name)
        if place.contract == BASE_LEDGER:
            submission = await self._store.submissions.get(place.intent)
            return Relation.SENT if submission is not None and names.has(submission.sender) else None
        stored = await self._store.transaction(place.intent)
        if stored is not None and stored.intent.contract == place.contract and names.has(stored.intent.sender):
            return Relation.SENT
        hosted = self._running.contracts.hosted(place.contract)
        made = await self._store.traces.transition(place.contract, place.leaf)
        if hosted is None or made is None:
            return None
        seen = [state.as_seen_by(self._running.name) for state in as_believed(hosted, made).outputs]
        contents = [readable(hosted.known, state) for state in seen]
        is_reader = any(content is not None and names.has_any(content.readers) for content in contents)
        return Relation.RECEIVED if is_reader else None

    async def place_of_another(self, intent: IntentId) -> NumberedReceipt | None:
        """Return the place of the receipt of another node's transaction.

        `Rejected` when several contracts have this id.
        """
        places = await self._store.listening.receipts_of(intent)
        if len(places) > 1:
            contracts = ", ".join(each.contract for each in places)
            text = (
                f"must be an id that one contract has: {intent_text(intent)} was committed in {contracts}; "
                "use ptx_queryTransactionReceipts with the fields id and source"
            )
            raise errors.invalid("transactionId", text)
        return places[0] if places else None

    async def _own(self, stored: StoredTransaction) -> interface.ReceiptView | None:
        # Read the store alone: a receipt that was reported after this read would lack its place on the chain.
        intent, receipt, place = stored.intent, stored.receipt, stored.place
        if receipt is not None and place is None:
            place = await self._running.receipts.place_of_final(intent.contract, intent.id)
        if receipt is None or place is None:
            return None
        made = self._running.contracts.known(receipt.contract) if receipt.contract is not None else None
        failure_message, revert_data = await failure_of(self._running, intent, receipt)
        leaf = receipt.leaf if receipt.outcome is Outcome.CONFIRMED else None
        position = await self._position(stored.height, stored.log_index, intent.contract, leaf or None)
        return interface.ReceiptView(
            intent.id,
            receipt.outcome is Outcome.CONFIRMED,
            place.numbered_at_ms,
            place.sequence,
            self.domain_of(intent),
            receipt.leaf or None,
            receipt.contract,
            failure_message=failure_message,
            failure_code=receipt.code,
            revert_data=revert_data,
            block_number=made.deployed_at if made is not None else stored.height,
            transaction_hash=stored.transaction or None,
            transaction_index=stored.transaction_index,
            log_index=stored.log_index,
            source=intent.contract if intent.contract != NO_CONTRACT else self._running.factory,
            position=position,
            unacknowledged=self._unacknowledged(position),
        )

    def _is_under_way(self, intent: IntentId) -> bool:
        """Whether the core has it open: true for most receipts that users ask for, and saves a read of the store."""
        running = self._running
        return (
            running.started.is_set()
            and intent in running.engine.core.intake.open
            and running.users.recent_receipt(intent) is None
        )

    async def _public_one(self, intent: IntentId) -> interface.ReceiptView | None:
        receipt = await self._public.receipt(intent)
        if receipt is None:
            # The transaction may be open again, because the chain took back its block.
            place = await self._store.listening.receipt_number(BASE_LEDGER, intent)
            return undone_view(place) if place is not None and place.is_undone else None
        place = await self._running.receipts.place_of_final(BASE_LEDGER, intent)
        if place is None:
            return None
        position = await self._position(receipt.block_number, receipt.log_index)
        return replace(receipt, sequence=place.sequence, indexed_at_ms=place.numbered_at_ms, position=position)

    async def _anothers(self, place: NumberedReceipt) -> interface.ReceiptView | None:
        """Return the receipt of another node's transaction of which this node has states."""
        commit = await self._store.listening.commit_of(place)
        if commit is None:
            return undone_view(place) if place.is_undone else None
        height, outcome = commit
        return interface.ReceiptView(
            place.intent,
            True,
            place.numbered_at_ms,
            place.sequence,
            place.domain,
            place.leaf,
            block_number=height,
            transaction_hash=outcome.transaction or None,
            transaction_index=outcome.transaction_index,
            log_index=outcome.log_index,
            source=place.contract,
            position=await self._position(height, outcome.log_index, place.contract, place.leaf),
        )

    async def _position(
        self,
        height: int | None,
        log_index: int | None,
        contract: ContractAddress = NO_CONTRACT,
        leaf: Leaf | None = None,
    ) -> interface.PositionView | None:
        """Return the position on the chain while the index keeps the block, with the nodes that hold states of it."""
        running = self._running
        if height is None or not running.started.is_set():
            return None
        block_hash = running.engine.core.index.hash_at(height)
        if block_hash is None:
            return None
        place = interface.PositionView(height, block_hash, log_index or 0, running.genesis)
        if leaf is None or contract == NO_CONTRACT:
            return place
        made = await self._store.transitions_of(contract, (leaf,))
        return replace(place, contract=contract, leaf=leaf, nodes=readers_of(leaf, made))

    def _unacknowledged(self, position: interface.PositionView | None) -> tuple[NodeName, ...]:
        """Return the nodes that have not acknowledged its states; empty for transactions that ended long ago."""
        if position is None or position.contract is None or position.leaf is None:
            return ()
        holders = self._running.holdings.acknowledged(position.contract, position.leaf)
        if holders is None:
            return ()
        return tuple(each for each in position.nodes if each != self._running.name and each not in holders)

    def domain_of(self, intent: Intent) -> str:
        """Return the domain of the intent's contract; for a deployment that of the contract to be deployed."""
        if intent.contract == NO_CONTRACT:
            return decode_genesis(intent.payload).domain
        return self._running.contracts.domain_of(intent.contract)
