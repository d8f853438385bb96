"""A node as its users see it: transactions, what becomes of them, and who coordinates.

    async with NodeClient("http://127.0.0.1:31548") as node:
        sent = await node.send("alice", contract, "transfer", {...}, key="invoice 7")
        receipt = await node.receipt(sent)

Questions are repeated when no answer comes. A transaction is sent again only under an idempotency key: the node then
says that it has it already, and that is as good as an answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar
from uuid import UUID

import msgspec

from rota.client.errors import KEY_USED, Refused, Unreachable
from rota.client.jsonrpc import JsonRpc
from rota.types import ContractAddress, IntentId, NodeName, intent_text

Shape = TypeVar("Shape")


class TransactionReceipt(msgspec.Struct, frozen=True, rename="camel"):
    """How a transaction ended. One that failed has a message and need not be on the chain."""

    id: str
    sequence: int
    success: bool = False
    domain: str = ""
    failure_message: str = ""
    block_number: int | None = None
    transaction_hash: str | None = None
    source: str | None = None
    leaf: str | None = None


class Explanation(msgspec.Struct, frozen=True, rename="camel"):
    """Where a transaction is, what it waits for, and which nodes it waits for."""

    id: str
    role: str
    state: str
    waits_for: str = ""
    blocked_by: tuple[str, ...] = ()
    detail: str = ""


class ContractStatus(msgspec.Struct, frozen=True, rename="camel"):
    """How a contract stands, as one node sees it."""

    contract: str
    domain: str
    committee: tuple[str, ...]
    endorsers: tuple[str, ...]
    threshold: int
    height: int
    ranking: tuple[str, ...]
    active_coordinator: str | None
    coordinator_state: str
    sender_state: str
    sending: dict[str, int]
    coordinating: dict[str, int]
    silent: tuple[str, ...]


class NodeClient(JsonRpc):
    """One node."""

    # Transactions.

    async def send(
        self,
        sender: str,
        contract: ContractAddress,
        function: str,
        arguments: object = None,
        *,
        key: str = "",
        depends_on: tuple[IntentId, ...] = (),
    ) -> IntentId:
        """Have a private transaction accepted; its id, under which the node will not forget it.

        With `key` it is accepted once however often it is sent, and is sent again when no answer comes.
        """
        wanted: dict[str, object] = {
            "type": "private",
            "from": sender,
            "to": contract,
            "function": function,
            "data": arguments,
            "dependsOn": [intent_text(other) for other in depends_on],
        }
        if key:
            wanted["idempotencyKey"] = key
        try:
            answer = await self.call("ptx_sendTransaction", wanted, is_repeatable=bool(key))
        except Refused as refused:
            if not key or refused.code != KEY_USED:
                raise
            answer = refused.details.get("transactionId")
        return IntentId(UUID(_read(answer, str)).bytes)

    async def send_all(
        self, sender: str, contract: ContractAddress, calls: Sequence[tuple[str, object]]
    ) -> tuple[IntentId, ...]:
        """Have several accepted in one request, in their order; asked once, whatever happens."""
        wanted = [
            {"type": "private", "from": sender, "to": contract, "function": function, "data": arguments}
            for function, arguments in calls
        ]
        answer = await self.call("ptx_sendTransactions", wanted)
        return tuple(IntentId(UUID(each).bytes) for each in _read(answer, list[str]))

    async def receipt(self, intent: IntentId) -> TransactionReceipt | None:
        """How it ended; nothing while it has not."""
        answer = await self.call("ptx_getTransactionReceipt", intent_text(intent), is_repeatable=True)
        return None if answer is None else _read(answer, TransactionReceipt)

    # The sequencer.

    async def status(self, contract: ContractAddress) -> ContractStatus | None:
        """How a contract stands; nothing when the node does not have it."""
        answer = await self.call("seq_status", contract, is_repeatable=True)
        return None if answer is None else _read(answer, ContractStatus)

    async def explain(self, intent: IntentId) -> Explanation | None:
        """Where a transaction is; nothing when the node does not know it."""
        answer = await self.call("seq_explain", intent_text(intent), is_repeatable=True)
        return None if answer is None else _read(answer, Explanation)

    # Contracts.

    async def endorser_address(self, deployment: IntentId) -> ContractAddress:
        """With which address the node endorses in the contract that is deployed under this id."""
        answer = await self.call("seq_endorserAddress", intent_text(deployment), is_repeatable=True)
        return ContractAddress(_read(answer, str))

    async def add_contract(self, genesis: bytes, deployment: IntentId) -> ContractAddress:
        """Have the node take in a contract that was deployed; taken in a second time, nothing changes."""
        parameters = (f"0x{genesis.hex()}", intent_text(deployment))
        answer = await self.call("seq_addContract", *parameters, is_repeatable=True)
        return ContractAddress(_read(answer, str))

    # The node.

    async def name(self) -> NodeName:
        """What it is called in its network."""
        return NodeName(_read(await self.call("transport_nodeName", is_repeatable=True), str))


def bearer(token: str) -> Mapping[str, str]:
    """The headers with which a token is shown."""
    return {"Authorization": f"Bearer {token}"}


def _read(answer: object, shape: type[Shape]) -> Shape:
    """What a node of another version answers may be more than we know, and not less."""
    try:
        return msgspec.convert(answer, shape)
    except msgspec.ValidationError as error:
        raise Unreachable(f"the answer is not what it should be: {error}") from error
