"""Submitting transactions and following them: what is asked for, what was accepted, how it ended."""

from __future__ import annotations

from collections.abc import AsyncIterator
from enum import Enum
from typing import Protocol

from rota.model.frozen import dataclass
from rota.model.types import (
    NOTHING_CHOSEN,
    AwaitedLeaf,
    ContractAddress,
    IntentId,
    Leaf,
    NodeName,
    Party,
    SequencingChoice,
    SubmitMode,
)
from rota.rpc.values import AbiEntry, JsonValue
from rota.service.positions.interface import PositionView


class TransactionType(Enum):
    """What a transaction is for: a private contract, or the base ledger itself."""

    PRIVATE = "private"
    PUBLIC = "public"


class WhichPayees(Enum):
    """Whom a transaction may name: parties that are known, or any."""

    KNOWN = "known"
    ANY = "any"


@dataclass(frozen=True, slots=True)
class GasOptions:
    """What a user wants of the base-ledger transaction; what is not given the node decides."""

    gas: int | None = None
    value_wei: int | None = None
    fee_max_wei: int | None = None
    tip_wei: int | None = None


@dataclass(frozen=True, slots=True)
class Submission:
    """What a user asks for, as it was asked: only the types of its fields have been looked at.

    `sender` is a party's text, `alice` or `alice@node1`. Without `to` it is a deployment: of a private contract in
    `domain`, or of `bytecode`. `function` is a name, a signature or empty, and is looked up in `abi`, or in the ABI
    that `abi_reference` names. `data` is a list or an object of the function's parameters, hex text of the call data,
    or None. `sequencing` is of the deployment of a private contract.
    """

    type: TransactionType
    sender: str
    domain: str = ""
    to: ContractAddress | None = None
    function: str = ""
    data: JsonValue = None
    abi: tuple[AbiEntry, ...] = ()
    abi_reference: bytes = b""
    bytecode: bytes = b""
    idempotency_key: str = ""
    depends_on: tuple[IntentId, ...] = ()
    submit_mode: SubmitMode = SubmitMode.AUTO
    options: GasOptions = GasOptions()
    payees: WhichPayees = WhichPayees.ANY
    sequencing: SequencingChoice = NOTHING_CHOSEN
    awaits: tuple[AwaitedLeaf, ...] = ()


@dataclass(frozen=True, slots=True)
class TransactionView:
    """A transaction that this node accepted. `sender` is whole (`alice@node1`), `function` is a signature.

    `late` are updates that came too late: the transaction did what is shown, and nothing of these.
    """

    id: IntentId
    accepted_at_ms: int
    type: TransactionType
    sender: Party
    submit_mode: SubmitMode
    domain: str = ""
    to: ContractAddress | None = None
    function: str = ""
    data: JsonValue = None
    abi_reference: bytes = b""
    idempotency_key: str = ""
    depends_on: tuple[IntentId, ...] = ()
    options: GasOptions = GasOptions()
    late: tuple[TransactionView, ...] = ()
    awaits: tuple[AwaitedLeaf, ...] = ()


@dataclass(frozen=True, slots=True)
class ReceiptView:
    """The final outcome of a transaction of this node; once shown it never changes, unless the chain's word does.

    `sequence` orders the receipts of this node. `contract` is the address that a deployment made. Where on the chain it
    was committed is there when it was; a failure always has a readable message. Its code is `INTENT_ID_USED` when
    another transition used the id on the chain: then somebody has to look before it is submitted again. It is
    `FINALITY_BROKEN` when the chain took back the final block that had it, until the chain has it again. So many
    updates of a public transaction came too late (`late_updates`): the block has a version from before them.
    `position` is there while the index keeps the block. The nodes of `unacknowledged` have not said that they hold the
    states that are for them.
    """

    id: IntentId
    success: bool
    indexed_at_ms: int
    sequence: int
    domain: str = ""
    leaf: Leaf | None = None
    contract: ContractAddress | None = None
    failure_message: str = ""
    failure_code: str = ""
    revert_data: bytes = b""
    block_number: int | None = None
    transaction_hash: bytes | None = None
    transaction_index: int | None = None
    log_index: int | None = None
    source: ContractAddress | None = None
    late_updates: int = 0
    position: PositionView | None = None
    unacknowledged: tuple[NodeName, ...] = ()

    def __post_init__(self) -> None:
        assert self.success != bool(self.failure_message), "a failure has a message, a success has none"


class Transactions(Protocol):
    """Submitting transactions and following them."""

    async def submit(self, submission: Submission) -> IntentId:
        """Accept it: the id is given when it is durable. An idempotency key that was used is `errors.key_used`."""
        ...

    async def transaction(self, intent: IntentId) -> TransactionView | None:
        """What was accepted under this id."""
        ...

    async def receipt(self, intent: IntentId) -> ReceiptView | None:
        """How it ended."""
        ...

    async def resume(self, intent: IntentId) -> None:
        """Let a parked transaction go on. `Rejected` with its state when it is not parked."""
        ...

    async def cancel(self, intent: IntentId) -> None:
        """Give a transaction up: from now on it ends. `Rejected` with its state when it cannot be given up."""
        ...

    def receipts(self, after_sequence: int) -> AsyncIterator[ReceiptView]:
        """All receipts with a greater sequence number, in order: those that are there, then those that come.

        One is released only when this node holds the private states that belong to it.
        """
        ...
