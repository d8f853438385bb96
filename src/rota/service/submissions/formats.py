"""Transactions and receipts as clients write and read them; conversion to and from the values of `interface.py`.

Names and shapes are those of the existing client libraries. Unknown fields of clients are ignored; optional fields may
also be null. Fields at their defaults are left out of answers: `success` is absent when it is false.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from rota.model.types import (
    NOTHING_CHOSEN,
    RANGE_SIZE_MAX,
    AwaitedLeaf,
    Contract,
    ContractAddress,
    IntentId,
    Leaf,
    Mode,
    Rotation,
    SequencingChoice,
    SubmitMode,
)
from rota.rpc.errors import invalid
from rota.rpc.formats import (
    Address,
    BlockName,
    HexText,
    ModeName,
    PayeesName,
    Quantity,
    RotationName,
    SubmitModeName,
    Timestamp,
    TransactionKind,
    Uuid,
    Word,
    hex_of,
    quantity_of,
    timestamp_of,
    uuid_of,
    word_of,
)
from rota.service.interface import GasOptions, ReceiptView, Submission, TransactionType, TransactionView, WhichPayees
from rota.service.positions.interface import AtLeast, LedgerPosition, shown_position

DEPENDENCIES_MAX: Final = 256
TEXT_CHARACTERS_MAX: Final = 1_024
# The maximum that both databases and the ledger contract can hold.
CHAIN_TIME_MAX_S: Final = 2**63 - 1
ABI_ENTRIES_MAX: Final = 4_096
LATEST: Final = BlockName("latest")

Text = Annotated[str, Meta(max_length=TEXT_CHARACTERS_MAX)]
Abi = Annotated[list[dict[str, Any]], Meta(max_length=ABI_ENTRIES_MAX)]


class LeafDependency(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A private transaction of any node, by the leaf that its contract has to commit under its id.

    `leaf` is the `transitionHash` of a prepared transaction, or the `leaf` of a receipt's position. Without
    `validUntil`, in seconds of chain time, this node waits for `sequencer.dependency_wait_s`.
    """

    contract: Address
    id: Uuid
    leaf: Word
    valid_until: Quantity | None = None


# A `Uuid` cannot be in a union: the text is read below.
_UuidText = Annotated[str, Meta(max_length=TEXT_CHARACTERS_MAX, extra_json_schema={"pattern": f"^{Uuid.pattern}$"})]
Dependencies = Annotated[list[_UuidText | LeafDependency], Meta(max_length=DEPENDENCIES_MAX)]


class SequencingInput(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Terms of sequencing of a contract that is to be deployed. They are part of its genesis and never change.

    The domain decides which modes exist; `rotation` and `rangeSize`, in blocks, apply to the mode `ring`. The node's
    configuration has the defaults.
    """

    mode: ModeName | None = None
    rotation: RotationName | None = None
    range_size: Annotated[int, Meta(ge=1, le=RANGE_SIZE_MAX)] | None = None


class SequencingTerms(msgspec.Struct, frozen=True, rename="camel"):
    """The terms of sequencing of a contract, as its genesis has them."""

    mode: str
    rotation: str
    range_size: int


def shown_terms(contract: Contract) -> SequencingTerms:
    """Return the terms of a contract as clients read them."""
    return SequencingTerms(contract.mode.value, contract.rotation.value, contract.range_size)


def sequencing_of(given: SequencingInput | None) -> SequencingChoice:
    """Return the terms that a deployment requests."""
    if given is None:
        return NOTHING_CHOSEN
    return SequencingChoice(
        Mode(given.mode) if given.mode is not None else None,
        Rotation(given.rotation) if given.rotation is not None else None,
        given.range_size,
    )


class TransactionInput(msgspec.Struct, frozen=True, rename="camel"):
    """A transaction to submit. Without `to` it is a deployment.

    `from` is a party of this node, with or without its name. `function` is a name, a signature or one ABI entry.
    `data` is a list or an object of parameters, or hex text. With `payees` `known` a private transaction that names an
    unknown party is refused; without it, any party may be named. `sequencing` applies to the deployment of a private
    contract.
    """

    type: TransactionKind
    sender: Text = msgspec.field(name="from")
    domain: Text | None = None
    to: Address | None = None
    function: Text | dict[str, Any] | None = None
    data: Any = None
    abi: Abi | None = None
    abi_reference: Word | None = None
    bytecode: HexText | None = None
    idempotency_key: Text | None = None
    depends_on: Dependencies | None = None
    gas: Quantity | None = None
    value: Quantity | None = None
    max_fee_per_gas: Quantity | None = None
    max_priority_fee_per_gas: Quantity | None = None
    payees: PayeesName | None = None
    sequencing: SequencingInput | None = None


class TransactionCall(TransactionInput, frozen=True, rename="camel", kw_only=True):
    """A call of a contract. A contract of the base ledger can be called at any `block`, a private one at the latest.

    With `atLeast`, the position of a receipt, the answer is never older than that position.
    """

    sender: Text = msgspec.field(name="from", default="")
    block: BlockName | None = None
    data_format: Text | None = None
    at_least: AtLeast = None


def require_latest(block: BlockName | None, place: str) -> None:
    """Require the latest block: a node holds only the present states of a private contract."""
    if block is not None and block != LATEST:
        raise invalid(place, "must be latest: a private contract is answered for from what this node holds now")


def _dependencies(given: TransactionInput, place: str) -> tuple[tuple[IntentId, ...], tuple[AwaitedLeaf, ...]]:
    """Return the dependencies: transactions of this node, and leaves of any node."""
    own: list[IntentId] = []
    leaves: dict[tuple[ContractAddress, IntentId], AwaitedLeaf] = {}
    for number, other in enumerate(given.depends_on or ()):
        field = f"{place}.dependsOn[{number}]"
        if isinstance(other, LeafDependency):
            until_s = other.valid_until.number if other.valid_until is not None else 0
            if other.valid_until is not None and not 0 < until_s <= CHAIN_TIME_MAX_S:
                raise invalid(f"{field}.validUntil", f"must be chain time in seconds, from 1 to {CHAIN_TIME_MAX_S}")
            leaf = AwaitedLeaf(other.contract.contract, other.id.intent, Leaf(other.leaf.content), until_s)
            if leaves.setdefault((leaf.contract, leaf.intent), leaf) is not leaf:
                raise invalid(field, "must not name the same transaction twice: at most one leaf can be committed")
        elif (text := Uuid.canonical(other)) is not None:
            own.append(Uuid(text).intent)
        else:
            raise invalid(field, f"must be a UUID, or an object with contract, id and leaf, not {other!r}")
    return tuple(own), tuple(leaves.values())


def shown_leaf(leaf: AwaitedLeaf) -> LeafDependency:
    """Return a leaf that a transaction depends on as clients write it."""
    until = quantity_of(leaf.valid_until_s) if leaf.valid_until_s else None
    return LeafDependency(Address(leaf.contract), uuid_of(leaf.intent), word_of(leaf.leaf), until)


def submission_of(given: TransactionInput, submit_mode: SubmitMode, place: str) -> Submission:
    """Convert the input to a `Submission`; `place` is the name of the transaction in errors."""
    if not given.sender and not (isinstance(given, TransactionCall) and given.type == "public"):
        raise invalid(f"{place}.from", "must be a party of this node, such as 'alice'")
    function, abi = _function_and_abi(given, place)
    depends_on, awaits = _dependencies(given, place)
    kind = TransactionType(given.type)
    if kind is TransactionType.PRIVATE and given.to is None and not given.domain:
        raise invalid(f"{place}.to", "must be the contract's address, or domain the name of the domain to deploy in")
    if given.sequencing is not None and (kind is TransactionType.PUBLIC or given.to is not None):
        raise invalid(f"{place}.sequencing", "must be left out: only the deployment of a private contract has it")
    return Submission(
        type=kind,
        sender=given.sender,
        domain=given.domain or "",
        to=given.to.contract if given.to is not None else None,
        function=function,
        data=given.data,
        abi=abi,
        abi_reference=given.abi_reference.content if given.abi_reference is not None else b"",
        bytecode=given.bytecode.content if given.bytecode is not None else b"",
        idempotency_key=given.idempotency_key or "",
        depends_on=depends_on,
        awaits=awaits,
        submit_mode=submit_mode,
        options=GasOptions(
            gas=_number(given.gas),
            value_wei=_number(given.value),
            fee_max_wei=_number(given.max_fee_per_gas),
            tip_wei=_number(given.max_priority_fee_per_gas),
        ),
        payees=WhichPayees(given.payees) if given.payees is not None else WhichPayees.ANY,
        sequencing=sequencing_of(given.sequencing),
    )


def _function_and_abi(given: TransactionInput, place: str) -> tuple[str, tuple[dict[str, Any], ...]]:
    """Return the function and the ABI; a function that is given as an ABI entry is the whole ABI."""
    if not isinstance(given.function, dict):
        return given.function or "", tuple(given.abi or ())
    name = given.function.get("name", "")
    if not isinstance(name, str):
        raise invalid(f"{place}.function.name", "must be text")
    return name, (given.function,)


def _number(given: Quantity | None) -> int | None:
    return given.number if given is not None else None


class Transaction(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A transaction that this node accepted. `lateUpdates` came too late and had no effect."""

    id: Uuid
    created: Timestamp
    submit_mode: SubmitModeName
    type: TransactionKind
    sender: str = msgspec.field(name="from")
    idempotency_key: str = ""
    domain: str = ""
    function: str = ""
    abi_reference: Word | None = None
    to: Address | None = None
    data: Any = None
    gas: Quantity | None = None
    value: Quantity | None = None
    max_priority_fee_per_gas: Quantity | None = None
    max_fee_per_gas: Quantity | None = None
    late_updates: list[Transaction] = msgspec.field(default_factory=list)


def shown_transaction(view: TransactionView) -> Transaction:
    """Return a transaction as clients read it."""
    options = view.options
    return Transaction(
        id=uuid_of(view.id),
        created=timestamp_of(view.accepted_at_ms),
        submit_mode=SubmitModeName(view.submit_mode.value),
        type=TransactionKind(view.type.value),
        sender=view.sender,
        idempotency_key=view.idempotency_key,
        domain=view.domain,
        function=view.function,
        abi_reference=word_of(view.abi_reference) if view.abi_reference else None,
        to=Address(view.to) if view.to is not None else None,
        data=view.data,
        gas=_quantity(options.gas),
        value=_quantity(options.value_wei),
        max_priority_fee_per_gas=_quantity(options.tip_wei),
        max_fee_per_gas=_quantity(options.fee_max_wei),
        late_updates=[shown_transaction(each) for each in view.late],
    )


def _quantity(number: int | None) -> Quantity | None:
    return quantity_of(number) if number is not None else None


class TransactionReceipt(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The outcome of a transaction. `success` is left out when false; `failureMessage` is set then.

    `failureCode` is `INTENT_ID_USED` when another transition used the transaction's id on the chain: do not submit it
    again before you know what that transition did. It is `FINALITY_BROKEN` when the chain took back the final block
    that had it: an earlier receipt of it no longer holds, and the transaction may return to the chain. `lateUpdates` is
    the number of updates that came too late: the block has a version of the transaction from before them. `position`
    can be given to reads at any node as `atLeast`. `unacknowledged` are nodes that receive states of the transaction
    and have not acknowledged them yet: a read there without `atLeast` may give an older value.
    """

    id: Uuid
    indexed: Timestamp
    sequence: int
    domain: str = ""
    success: bool = False
    transaction_hash: Word | None = None
    block_number: int | None = None
    transaction_index: int | None = None
    log_index: int | None = None
    source: Address | None = None
    failure_message: str = ""
    failure_code: str = ""
    revert_data: HexText | None = None
    contract_address: Address | None = None
    late_updates: int = 0
    position: LedgerPosition | None = None
    unacknowledged: list[str] = []  # msgspec copies it


def shown_receipt(view: ReceiptView) -> TransactionReceipt:
    """Return a receipt as clients read it."""
    return TransactionReceipt(
        id=uuid_of(view.id),
        indexed=timestamp_of(view.indexed_at_ms),
        sequence=view.sequence,
        domain=view.domain,
        success=view.success,
        transaction_hash=word_of(view.transaction_hash) if view.transaction_hash else None,
        block_number=view.block_number,
        transaction_index=view.transaction_index,
        log_index=view.log_index,
        source=Address(view.source) if view.source is not None else None,
        failure_message=view.failure_message,
        failure_code=view.failure_code,
        revert_data=hex_of(view.revert_data) if view.revert_data else None,
        contract_address=Address(view.contract) if view.contract is not None else None,
        late_updates=view.late_updates,
        position=shown_position(view.position) if view.position is not None else None,
        unacknowledged=[*view.unacknowledged],
    )
