"""Transactions: sending them, and following them to their end.

    transaction = await client.send(contract, "transfer", {...}, sender="alice")
    receipt = await transaction            # `Failed` when it did not succeed
    receipt = await transaction.ended()    # however it ended

Theory of operation. Every transaction goes out under an idempotency key, the caller's or one that is made for it. So it
is sent again when no answer comes: the node answers that it already has it. A key of
the caller's own lets another process go on with the same transaction.

Waiting is asking again: after a pause that doubles, until there is an answer or the time for it is over. A node that
is away meanwhile, as during a restart, is asked again like one that has nothing to tell yet. Where many are waited for
the pause is longer, so that the node is asked no more often for all of them. When the time is over the waiting ends
and not the transaction, and the error names the reason of the wait.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from typing import Any, Final, TypeVar
from uuid import UUID, uuid4

import aiohttp

from rota.client.answers import Explanation, FullReceipt, Leg, PreparedTransaction, TransactionReceipt
from rota.client.dependencies import Dependency, as_json
from rota.client.errors import KEY_USED, Closed, Failed, Pending, Refused, Unreachable, Unsettled
from rota.client.jsonrpc import ClientLimits, JsonRpc, Payees, read, read_if_any
from rota.client.positions import SHARED, Positions, seen_by
from rota.client.unwatched import Unwatched
from rota.model.types import IntentId

# A caller that has waited long enough does not want to wait for the reason as well.
EXPLAIN_S: Final = 5.0

Found = TypeVar("Found")
Receipt = TypeVar("Receipt", bound=TransactionReceipt)


class TransactionClient(JsonRpc):
    """One node, as a sender of transactions sees it. `sender` is the default sender.

    `positions` are those that reads must have seen; those of all clients of this process, unless others are given.
    With `payees` `known` the node refuses to pay a party that is not known; with `any` it pays whatever name is given.
    """

    def __init__(
        self,
        url: str,
        limits: ClientLimits | None = None,
        headers: Mapping[str, str] | None = None,
        connector: aiohttp.BaseConnector | None = None,
        *,
        sender: str = "",
        tls: ssl.SSLContext | None = None,
        positions: Positions = SHARED,
        payees: Payees = "known",
    ) -> None:
        super().__init__(url, limits, headers, connector, tls)
        self.sender: Final = sender
        self.positions: Final = positions
        self.payees: Final = payees
        self._waiting = 0
        self._node: str | None = None
        self._unwatched: Final = Unwatched(self.receipt, url)

    async def send(
        self,
        contract: str,
        function: str,
        arguments: object = None,
        *,
        sender: str = "",
        key: str = "",
        depends_on: Sequence[Dependency] = (),
        new_party: bool = False,
    ) -> Transaction:
        """Have a private transaction accepted; from then on the node will not forget it.

        With a `key` of its own it is accepted once however often it is sent. `depends_on` are transactions that must
        succeed first: ids of this node's, or a `LeafDependency` for another node's. With `new_party` it may name
        parties that are not known.
        """
        wanted = self._private(sender, function, arguments, contract=contract, depends_on=depends_on)
        wanted["payees"] = "any" if new_party else self.payees
        return await self.submit("ptx_sendTransaction", wanted, key)

    async def send_all(
        self, contract: str, calls: Sequence[tuple[str, object]], *, sender: str = "", is_keyed: bool = True
    ) -> tuple[Transaction, ...]:
        """Have several accepted in one request, in their order; a function and its arguments each.

        Without keys they are asked for once, and without an answer it is unknown whether they were accepted.
        """
        wanted = [self._private(sender, function, arguments, contract=contract) for function, arguments in calls]
        for each in wanted:
            each["payees"] = self.payees
        keys = [str(uuid4()) if is_keyed else "" for _ in wanted]
        for transaction, key in zip(wanted, keys, strict=True):
            if key:
                transaction["idempotencyKey"] = key
        try:
            answer = await self.ask("ptx_sendTransactions", wanted, is_repeatable=is_keyed)
        except Refused as refused:
            if refused.code != KEY_USED or not is_keyed:
                raise
            # The node received the first request, and its answer was lost.
            answer = [await self._keyed(key) for key in keys]
            if None in answer:
                raise
        return tuple(self._sent(each) for each in read(answer, list[str]))

    async def prepare(
        self,
        contract: str,
        function: str,
        arguments: object = None,
        *,
        sender: str = "",
        key: str = "",
        depends_on: Sequence[Dependency] = (),
    ) -> Transaction:
        """Have a private transaction endorsed but not dispatched: `prepared` returns the call that commits it."""
        wanted = self._private(sender, function, arguments, contract=contract, depends_on=depends_on)
        wanted["payees"] = self.payees
        return await self.submit("ptx_prepareTransaction", wanted, key)

    async def deploy(
        self,
        domain: str,
        arguments: object,
        *,
        sender: str = "",
        key: str = "",
        sequencing: Mapping[str, object] | None = None,
    ) -> Transaction:
        """Have a private contract of a domain deployed; the receipt has its address.

        `sequencing` are terms that the domain or the node's configuration would set otherwise: `mode`, `rotation`,
        `rangeSize`.
        """
        wanted = self._private(sender, "", arguments, domain=domain)
        if sequencing:
            wanted["sequencing"] = dict(sequencing)
        return await self.submit("ptx_sendTransaction", wanted, key)

    async def call(self, contract: str, function: str, arguments: object = None, *, sender: str = "") -> Any:  # noqa: ANN401
        """What a private contract answers now, by what this node holds and without a transaction."""
        wanted = self._private(sender, function, arguments, contract=contract)
        return await self.ask_at_least("ptx_call", wanted, contract)

    async def ask_at_least(self, method: str, question: Mapping[str, object], contract: str) -> object:
        """What a contract answers, as of the latest receipts that clients of this process have read.

        `Behind` when the node has not seen them in time, `Refused` once when its chain has other blocks than those. A
        position of another chain, where a contract has the same address, is forgotten.
        """
        seen = self.positions.of(contract)
        if not seen:
            return await self.ask(method, question, is_repeatable=True)
        node = await self._own_node()
        told = [seen_by(node, each) for each in seen]
        try:
            return await self.ask(method, {**question, "atLeast": told}, is_repeatable=True)
        except Refused as refused:
            if ".atLeast." in f".{refused.field}":
                self.positions.forget(contract, seen)
            if not refused.field.endswith("atLeast.chain"):
                raise
            return await self.ask(method, question, is_repeatable=True)

    async def _own_node(self) -> str:
        """What the node is called; nothing where these credentials may not ask for that: then blocks alone count."""
        if self._node is None:
            try:
                self._node = read(await self.ask("transport_nodeName", is_repeatable=True), str)
            except Refused:
                self._node = ""
        return self._node

    def _noted(self, receipt: Receipt | None) -> Receipt | None:
        """The position of a public contract's receipt names no private contract."""
        if receipt is not None and receipt.position:
            for contract in {receipt.position.get("contract"), receipt.source, receipt.contract_address} - {None}:
                self.positions.note(str(contract), receipt.position)
        return receipt

    def transaction(self, transaction_id: str) -> Transaction:
        """One that was sent before, here or elsewhere, by its id."""
        return Transaction(self, transaction_id)

    async def receipt(self, transaction_id: str) -> TransactionReceipt | None:
        """How a transaction ended; nothing while it has not."""
        answer = await self.ask("ptx_getTransactionReceipt", transaction_id, is_repeatable=True)
        return self._noted(read_if_any(answer, TransactionReceipt))

    async def full_receipt(self, transaction_id: str) -> FullReceipt | None:
        """The same with its states and what its domain makes of it."""
        answer = await self.ask("ptx_getTransactionReceiptFull", transaction_id, is_repeatable=True)
        return self._noted(read_if_any(answer, FullReceipt))

    async def explain(self, transaction_id: str) -> Explanation | None:
        """Where a transaction is, what it waits for, and who is in the way; nothing when the node does not know it."""
        answer = await self.ask("seq_explain", transaction_id, is_repeatable=True)
        return read_if_any(answer, Explanation)

    async def submit(self, method: str, wanted: Mapping[str, object], key: str = "") -> Transaction:
        """A transaction as JSON-RPC writes it, by the method that takes it; under a key, so that it is sent again."""
        keyed = {**wanted, "idempotencyKey": key or str(uuid4())}
        return self._sent(await self.accepted(method, keyed, is_own_key=not key))

    def _sent(self, transaction_id: str) -> Transaction:
        """A transaction that was sent now: the program should track its outcome."""
        self._unwatched.sent(transaction_id)
        return Transaction(self, transaction_id)

    async def close(self) -> None:
        """Close the connections for good; transactions that were never awaited are logged."""
        await self._unwatched.close()
        await super().close()

    async def accepted(self, method: str, *parameters: object, is_own_key: bool = False) -> str:
        """The id under which something with an idempotency key was accepted, now or when it was asked before.

        A key that this client made (`is_own_key`) has nothing but this request, whatever the node could compare.
        """
        try:
            answer = await self.ask(method, *parameters, is_repeatable=True)
        except Refused as refused:
            answer = refused.keyed_transaction if is_own_key else refused.same_transaction
            if answer is None and refused.is_not_compared:
                raise Unsettled(str(refused), refused.details) from None
            if answer is None:
                raise
        return read(answer, str)

    async def looked_for(self, look: Callable[[], Awaitable[Found | None]], bound_ms: int) -> Found | None:
        """Return the value, or nothing if there is none in time. `Unreachable` if the node was away then."""
        pause_ms = self.limits.look_ms
        lost: Unreachable | None = None
        self._waiting += 1
        try:
            async with asyncio.timeout(bound_ms / 1_000):
                while True:
                    try:
                        found, lost = await look(), None
                    except Closed:
                        raise
                    except Unreachable as error:
                        found, lost = None, error
                    if found is not None:
                        return found
                    # With a thousand transactions, each is asked about more rarely, and the node as often as before.
                    await asyncio.sleep(max(pause_ms, self._waiting * self.limits.look_apart_ms) / 1_000)
                    pause_ms = min(pause_ms * 2, self.limits.look_max_ms)
        except TimeoutError:
            if lost is not None:
                raise lost from None
            return None
        finally:
            self._waiting -= 1

    async def _keyed(self, key: str) -> object:
        found = await self.ask("ptx_getTransactionByIdempotencyKey", key, is_repeatable=True)
        return found.get("id") if isinstance(found, dict) else None

    def _private(
        self,
        sender: str,
        function: str,
        arguments: object,
        *,
        contract: str = "",
        domain: str = "",
        depends_on: Sequence[Dependency] = (),
    ) -> dict[str, object]:
        wanted: dict[str, object] = {"type": "private", "from": sender or self.sender, "data": arguments}
        optional = {"to": contract, "domain": domain, "function": function, "dependsOn": as_json(depends_on)}
        return wanted | {name: value for name, value in optional.items() if value}


class Transaction:
    """A transaction that a node accepted. Awaiting it gives its receipt, or `Failed`."""

    __slots__ = ("__weakref__", "_client", "id")

    def __init__(self, client: TransactionClient, transaction_id: str) -> None:
        self.id: Final = transaction_id
        self._client: Final = client

    def __del__(self) -> None:
        """Its client tracks a transaction that was never awaited."""
        self._client._unwatched.dropped(self.id)

    def detach(self) -> None:
        """The program tracks its outcome elsewhere: the client does not log a failure."""
        self._client._unwatched.forget(self.id)

    def __repr__(self) -> str:
        return f"Transaction({self.id!r})"

    def __await__(self) -> Generator[Any, None, TransactionReceipt]:
        return self.confirmed().__await__()

    @property
    def intent(self) -> IntentId:
        """Its id as the protocol has it: 16 bytes."""
        return IntentId(UUID(self.id).bytes)

    async def confirmed(self, timeout_ms: int | None = None) -> TransactionReceipt:
        """Its receipt, once it has succeeded. `Failed` when it has not, `Pending` when it takes longer than that."""
        receipt = await self.ended(timeout_ms)
        if not receipt.success:
            raise Failed(receipt)
        return receipt

    async def ended(self, timeout_ms: int | None = None) -> TransactionReceipt:
        """Its receipt, however it ended. `Pending` when it takes longer than `timeout_ms`, or the limits' `wait_ms`."""
        return await self._until(self.receipt, timeout_ms)

    async def receipt(self) -> TransactionReceipt | None:
        """How it ended; nothing while it has not."""
        self.detach()
        return await self._client.receipt(self.id)

    async def full_receipt(self, timeout_ms: int | None = None) -> FullReceipt:
        """Its receipt with all that belongs to it, once it has succeeded."""
        await self.confirmed(timeout_ms)
        return await self._until(lambda: self._client.full_receipt(self.id), timeout_ms)

    async def explain(self) -> Explanation | None:
        """Where it is, what it waits for, and who is in the way."""
        self.detach()
        return await self._client.explain(self.id)

    async def cancel(self) -> None:
        """Give it up. `Refused` when it is too late for that."""
        await self._client.ask("ptx_cancelTransaction", self.id)

    async def resume(self) -> None:
        """Let it go on after it was parked. `Refused` when it is not parked."""
        await self._client.ask("ptx_resumeTransaction", self.id)

    async def prepared(self, timeout_ms: int | None = None) -> PreparedTransaction:
        """What commits it, once it is endorsed; of one that was only prepared. `Failed` when it comes to nothing."""
        return await self._until_endorsed("ptx_getPreparedTransaction", PreparedTransaction, timeout_ms)

    async def leg(self, timeout_ms: int | None = None) -> Leg:
        """What a settlement takes of it, once it is endorsed. `Failed` when it comes to nothing."""
        return await self._until_endorsed("settle_leg", Leg, timeout_ms)

    async def _until_endorsed(self, method: str, shape: type[Found], timeout_ms: int | None) -> Found:
        self.detach()

        async def look() -> Found | None:
            found = read_if_any(await self._client.ask(method, self.id, is_repeatable=True), shape)
            receipt = await self.receipt() if found is None else None
            if receipt is not None and not receipt.success:
                raise Failed(receipt)
            return found

        return await self._until(look, timeout_ms)

    async def _until(self, look: Callable[[], Awaitable[Found | None]], timeout_ms: int | None) -> Found:
        bound_ms = self._client.limits.wait_ms if timeout_ms is None else timeout_ms
        found = await self._client.looked_for(look, bound_ms)
        if found is None:
            raise await self._pending(bound_ms)
        return found

    async def _pending(self, waited_ms: int) -> Pending:
        try:
            async with asyncio.timeout(EXPLAIN_S):
                explanation = await self.explain()
        except TimeoutError:
            raise Unreachable(f"{self._client.url}: does not answer in time why {self.id} has not ended") from None
        if explanation is None:
            return Pending(f"{self._client.url} does not know a transaction {self.id}", None)
        return Pending(f"{self.id} has not ended after {waited_ms} ms: {explanation.text}", explanation)
