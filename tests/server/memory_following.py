"""What became of transactions, at a node in memory: the same words as a real one's, from a dictionary."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from rota.model.types import ContractAddress, IntentId
from rota.rpc.errors import invalid
from rota.service.interface import (
    ChainedDispatchView,
    DependenciesView,
    DispatchView,
    FullReceipt,
    FullTransaction,
    JsonValue,
    Moment,
    PreparedView,
    PublicSubmission,
    PublicView,
    ReceiptView,
    StateView,
    Submission,
    TransactionStates,
    TransactionType,
    TransactionView,
)

ADDRESS = ContractAddress("0x" + "11" * 20)
STATE = StateView(b"\x05" * 33, 1_760_000_000_123, "noto", b"\x06" * 32, ADDRESS, {"amount": "5"})
STATES = TransactionStates((), (), (STATE,), (), (b"\x07" * 33,))
SUBMITTED = PublicSubmission(1_760_000_000_500, b"\x02" * 32, 20, 2)


@dataclass(slots=True)
class MemoryFollowing:
    """`service.interface.Following`. `kept` is asked for what the node has now."""

    kept: Callable[[], Mapping[IntentId, Any]]
    updates: list[tuple[IntentId, Submission]] = field(default_factory=list)

    async def full(self, intent: IntentId) -> FullTransaction | None:
        kept = self.kept().get(intent)
        return FullTransaction(kept.view, kept.receipt, (self._public(intent),)) if kept is not None else None

    async def with_key(self, key: str) -> TransactionView | None:
        return next((kept.view for kept in self.kept().values() if kept.view.idempotency_key == key), None)

    async def query(self, query: JsonValue, is_open: bool = False) -> tuple[TransactionView, ...]:
        assert isinstance(query, dict)
        limit = query.get("limit")
        assert limit is None or isinstance(limit, int)
        found = [kept.view for kept in self.kept().values() if not is_open or kept.receipt is None]
        return tuple(found[:limit])

    async def query_full(self, query: JsonValue, is_open: bool = False) -> tuple[FullTransaction, ...]:
        fulls = [await self.full(each.id) for each in await self.query(query, is_open)]
        return tuple(full for full in fulls if full is not None)

    async def query_receipts(self, query: JsonValue) -> tuple[ReceiptView, ...]:
        return tuple(kept.receipt for kept in self.kept().values() if kept.receipt is not None)

    async def full_receipt(self, intent: IntentId) -> FullReceipt | None:
        kept = self.kept().get(intent)
        if kept is None or kept.receipt is None:
            return None
        return FullReceipt(kept.receipt, STATES, {"transfers": []}, "", (self._public(intent),))

    async def states(self, intent: IntentId) -> TransactionStates | None:
        kept = self.kept().get(intent)
        return STATES if kept is not None and kept.receipt is not None else None

    async def domain_receipt(self, domain: str, intent: IntentId) -> JsonValue:
        full = await self.full_receipt(intent)
        if full is not None and domain != "noto":
            raise invalid("domain", f"must be noto, not {domain}")
        return full.domain_receipt if full is not None else None

    async def prepared(self, intent: IntentId) -> PreparedView | None:
        kept = self.kept().get(intent)
        if kept is None or kept.receipt is not None or kept.view.submit_mode.value != "external":
            return None
        commit = Submission(
            TransactionType.PUBLIC, "", to=ADDRESS, function="commit", data={"payload": "0x"}, abi=({"name": "commit"},)
        )
        return PreparedView(intent, "noto", ADDRESS, commit, bytes(32), metadata={"validUntil": "5"}, states=STATES)

    async def query_prepared(self, query: JsonValue) -> tuple[PreparedView, ...]:
        found = [await self.prepared(intent) for intent in self.kept()]
        return tuple(each for each in found if each is not None)

    async def dependencies(self, intent: IntentId) -> DependenciesView | None:
        kept = self.kept().get(intent)
        others = tuple(id_ for id_, other in self.kept().items() if intent in other.view.depends_on)
        return DependenciesView(kept.view.depends_on, others, kept.view.awaits) if kept is not None else None

    async def call(self, submission: Submission, block: str | int, data_format: str) -> str:
        if submission.function != "get":
            raise invalid("function", "must be get")
        return f'{{"block":"{block}","format":"{data_format}","from":"{submission.sender}"}}'

    async def update(self, intent: IntentId, submission: Submission) -> IntentId:
        if intent not in self.kept():
            raise invalid("transactionId", "must be a transaction of node1")
        if submission.to is None:
            raise invalid("to", "must be an address")
        self.updates.append((intent, submission))
        return intent

    async def public_transaction(self, local_id: int) -> PublicView | None:
        intent = next(iter(self.kept()), None)
        return replace(self._public(intent), local_id=local_id) if intent is not None and local_id < 10 else None

    async def query_public(self, query: JsonValue, is_open: bool = False) -> tuple[PublicView, ...]:
        return tuple(self._public(each.id) for each in await self.query(query, is_open))

    async def public_with_nonce(self, account: ContractAddress, nonce: int) -> PublicView | None:
        found = await self.query_public({})
        return next((each for each in found if (each.account, each.nonce) == (account, nonce)), None)

    async def public_with_hash(self, transaction_hash: bytes) -> PublicView | None:
        return next((each for each in await self.query_public({}) if each.transaction_hash == transaction_hash), None)

    async def dispatch(self, dispatch_id: str) -> DispatchView | None:
        return next((each for each in await self.query_dispatches({}) if each.id == dispatch_id), None)

    async def chained_dispatch(self, dispatch_id: str) -> ChainedDispatchView | None:
        return next((each for each in await self.query_chained_dispatches({}) if each.id == dispatch_id), None)

    async def query_chained_dispatches(self, query: JsonValue) -> tuple[ChainedDispatchView, ...]:
        kept = tuple(self.kept())
        return tuple(
            ChainedDispatchView(f"3/{first.hex()}/{second.hex()}", first, second) for first, second in pairwise(kept)
        )

    async def query_dispatches(self, query: JsonValue) -> tuple[DispatchView, ...]:
        return tuple(DispatchView(f"3/{intent.hex()}", intent, 7) for intent in self.kept())

    def _public(self, intent: IntentId) -> PublicView:
        return PublicView(
            local_id=2,
            transaction=intent,
            type=TransactionType.PUBLIC,
            sender="alice@node1",
            account=ADDRESS,
            to=None,
            data=b"\x01",
            created_at_ms=1_760_000_000_123,
            dispatcher="node1",
            nonce=4,
            value_wei=2**100,
            gas=21_000,
            fee_max_wei=20,
            tip_wei=2,
            completed_at_ms=1_760_000_001_000,
            transaction_hash=b"\x02" * 32,
            success=True,
            revert_data=b"\x03",
            submissions=(SUBMITTED,),
            activity=(Moment(1_760_000_000_123, "accepted"),),
            contract=ADDRESS,
        )
