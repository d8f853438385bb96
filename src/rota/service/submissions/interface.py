"""Submitting transactions and following them: submissions, accepted transactions, receipts."""

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
    """The target of a transaction: a private contract, or the base ledger itself."""

    PRIVATE = "private"
    PUBLIC = "public"


class WhichPayees(Enum):
    """Which parties a transaction may name: known ones, or any."""

    KNOWN = "known"
    ANY = "any"


@dataclass(frozen=True, slots=True)
class GasOptions:
    """Gas options for the base-ledger transaction; the node decides those that are not given."""

    gas: int | None = None
    value_wei: int | None = None
    fee_max_wei: int | None = None
    tip_wei: int | None = None


@dataclass(frozen=True, slots=True)
class Submission:
    """A transaction as the user submitted it: only the types of its fields have been checked.

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
    """A transaction that this node accepted. `sender` includes the node (`alice@node1`), `function` is a signature.

    `late` are updates that came too late: the transaction has the effects shown, and none of these.
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
    """The final outcome of a transaction of this node; it changes only if the chain takes back final blocks.

    `sequence` orders the receipts of this node. `contract` is the address that a deployment created. The place on the
    chain is set if the transaction was committed; a failure always has a readable message. Its code is `INTENT_ID_USED`
    when another transition used the id on the chain: then the user must investigate before submitting it again. It is
    `FINALITY_BROKEN` when the chain took back the final block that had it, until the chain has it again. `late_updates`
    counts the updates of a public transaction that came too late: the block has a version from before them. `position`
    is set while the index keeps the block. The nodes of `unacknowledged` have not confirmed that they hold their states
    of the transaction.
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
        """Store a submission durably and return its id. `errors.key_used` when its idempotency key was used."""
        ...

    async def transaction(self, intent: IntentId) -> TransactionView | None:
        """Return the transaction accepted under this id, or None."""
        ...

    async def receipt(self, intent: IntentId) -> ReceiptView | None:
        """Return the receipt, or None while the transaction has none."""
        ...

    async def resume(self, intent: IntentId) -> None:
        """Resume a parked transaction. `Rejected` with its state when it is not parked."""
        ...

    async def cancel(self, intent: IntentId) -> None:
        """Cancel a transaction, which then ends. `Rejected` with its state when it cannot be cancelled."""
        ...

    def receipts(self, after_sequence: int) -> AsyncIterator[ReceiptView]:
        """Yield the receipts with greater numbers in order: the existing ones, then new ones as they come.

        A receipt is released only when this node holds the private states that belong to it.
        """
        ...
