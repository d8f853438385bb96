"""Outcomes as clients read them: states, base-ledger transactions, prepared transactions, receipts."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from rota.rpc.formats import (
    Address,
    HexText,
    Quantity,
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
from rota.service.interface import (
    ActivityView,
    ChainedDispatchView,
    DispatchView,
    FullReceipt,
    FullTransaction,
    PreparedView,
    PublicView,
    ReceiptView,
    StateView,
    TransactionStates,
    TransactionView,
)
from rota.service.submissions.formats import (
    LeafDependency,
    Transaction,
    TransactionReceipt,
    shown_leaf,
    shown_receipt,
    shown_transaction,
)

DISPATCH: Final = "dispatch"


class PublicTxSubmission(msgspec.Struct, frozen=True, rename="camel"):
    """A signed version of a base-ledger transaction, with its gas price."""

    time: Timestamp
    transaction_hash: Word
    max_priority_fee_per_gas: Quantity
    max_fee_per_gas: Quantity


class ActivityRecord(msgspec.Struct, frozen=True):
    """An event in the history of a base-ledger transaction."""

    time: Timestamp
    message: str


class PublicTx(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A base-ledger transaction of this node."""

    local_id: int
    sender: Address = msgspec.field(name="from")
    created: Timestamp
    dispatcher: str
    to: Address | None = None
    data: HexText | None = None
    nonce: Quantity | None = None
    completed_at: Timestamp | None = None
    transaction_hash: Word | None = None
    success: bool | None = None
    revert_data: HexText | None = None
    submissions: list[PublicTxSubmission] = []
    activity: list[ActivityRecord] = []
    gas: Quantity | None = None
    value: Quantity | None = None
    max_priority_fee_per_gas: Quantity | None = None
    max_fee_per_gas: Quantity | None = None


class PublicTxWithBinding(PublicTx, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """A base-ledger transaction, and the transaction that it executes."""

    transaction: Uuid
    transaction_type: TransactionKind
    party: str = msgspec.field(name="sender")
    contract_address: str = ""


def _public_fields(view: PublicView) -> dict[str, Any]:
    return {
        "local_id": view.local_id,
        "sender": Address(view.account),
        "created": timestamp_of(view.created_at_ms),
        "dispatcher": view.dispatcher,
        "to": Address(view.to) if view.to is not None else None,
        "data": hex_of(view.data),
        "nonce": _quantity(view.nonce),
        "completed_at": timestamp_of(view.completed_at_ms) if view.completed_at_ms is not None else None,
        "transaction_hash": word_of(view.transaction_hash) if view.transaction_hash else None,
        "success": view.success,
        "revert_data": hex_of(view.revert_data) if view.revert_data else None,
        "submissions": [
            PublicTxSubmission(
                timestamp_of(each.at_ms), word_of(each.hash), quantity_of(each.tip_wei), quantity_of(each.fee_max_wei)
            )
            for each in view.submissions
        ],
        "activity": [ActivityRecord(timestamp_of(each.at_ms), each.text) for each in view.activity],
        "gas": _quantity(view.gas),
        "value": _quantity(view.value_wei or None),
        "max_priority_fee_per_gas": _quantity(view.tip_wei),
        "max_fee_per_gas": _quantity(view.fee_max_wei),
    }


def shown_public(view: PublicView) -> PublicTx:
    """Return a base-ledger transaction as clients read it."""
    return PublicTx(**_public_fields(view))


def shown_bound_public(view: PublicView) -> PublicTxWithBinding:
    """The same, with the transaction that it executes."""
    return PublicTxWithBinding(
        **_public_fields(view),
        transaction=uuid_of(view.transaction),
        transaction_type=TransactionKind(view.type.value),
        party=view.sender,
        contract_address=view.contract or "",
    )


def _quantity(number: int | None) -> Quantity | None:
    return quantity_of(number) if number is not None else None


# States.


class StateBase(msgspec.Struct, frozen=True, rename="camel"):
    """A private state."""

    id: HexText
    created: Timestamp
    domain: str
    schema: Word
    contract_address: Address
    data: Any


class UnavailableStates(msgspec.Struct, frozen=True, omit_defaults=True):
    """The ids of states that this node does not have."""

    confirmed: list[HexText] = []
    read: list[HexText] = []
    spent: list[HexText] = []
    info: list[HexText] = []


class States(msgspec.Struct, frozen=True, omit_defaults=True):
    """The states of a transaction. `none` is true when this node has none."""

    none: bool = False
    spent: list[StateBase] = []
    read: list[StateBase] = []
    confirmed: list[StateBase] = []
    info: list[StateBase] = []
    unavailable: UnavailableStates | None = None


def shown_states(states: TransactionStates) -> States:
    """Return the states of a transaction as clients read them."""
    missing = UnavailableStates(
        [hex_of(each) for each in states.missing_confirmed],
        [hex_of(each) for each in states.missing_read],
        [hex_of(each) for each in states.missing_spent],
    )
    has_missing = bool(missing.confirmed or missing.read or missing.spent)
    found = (states.spent, states.read, states.confirmed, states.info)
    return States(
        not has_missing and not any(found),
        [_shown_state(each) for each in states.spent],
        [_shown_state(each) for each in states.read],
        [_shown_state(each) for each in states.confirmed],
        [_shown_state(each) for each in states.info],
        missing if has_missing else None,
    )


def _shown_state(state: StateView) -> StateBase:
    return StateBase(
        hex_of(state.id),
        timestamp_of(state.created_at_ms),
        state.domain,
        word_of(state.schema),
        Address(state.contract),
        state.data,
    )


# Whole transactions and receipts.


class TransactionReceiptFull(TransactionReceipt, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """A receipt with all data that this node has about the transaction."""

    states: States | None = None
    domain_receipt: Any = None
    domain_receipt_error: str = ""
    public: list[PublicTx] = msgspec.field(default_factory=list)
    carried_by: list[Uuid] = msgspec.field(default_factory=list)
    carries: list[Uuid] = msgspec.field(default_factory=list)


def shown_full_receipt(full: FullReceipt) -> TransactionReceiptFull:
    """Return a full receipt as clients read it."""
    return TransactionReceiptFull(
        **_fields(shown_receipt(full.receipt)),
        states=shown_states(full.states) if full.states is not None else None,
        domain_receipt=full.domain_receipt,
        domain_receipt_error=full.domain_receipt_error,
        public=[shown_public(each) for each in full.public],
        carried_by=[uuid_of(each.chained) for each in full.chained if each.intent == full.receipt.id],
        carries=[uuid_of(each.intent) for each in full.chained if each.chained == full.receipt.id],
    )


class TransactionEnd(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The outcome of a transaction, as a part of that transaction."""

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
    revert_data: HexText | None = None
    contract_address: Address | None = None


class TransactionHistory(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A request that an update of a transaction replaced, and the time since which it applied."""

    created: Timestamp
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


class SequencerActivity(msgspec.Struct, frozen=True, rename="camel"):
    """An action of a coordinator on a private transaction: a dispatch; `subject` is its id for ptx_getDispatch."""

    subject_id: str
    timestamp: Timestamp
    activity_type: str
    sequencing_node: str


class TransactionFull(Transaction, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """A transaction with all data that this node has about it."""

    depends_on: list[Uuid] = msgspec.field(default_factory=list)
    depends_on_leaves: list[LeafDependency] = msgspec.field(default_factory=list)
    receipt: TransactionEnd | None = None
    public: list[PublicTx] = msgspec.field(default_factory=list)
    history: list[TransactionHistory] = msgspec.field(default_factory=list)
    sequencer_activity: list[SequencerActivity] = msgspec.field(default_factory=list)


def shown_full_transaction(full: FullTransaction) -> TransactionFull:
    """Return a full transaction as clients read it."""
    return TransactionFull(
        **_fields(shown_transaction(full.transaction)),
        depends_on=[uuid_of(other) for other in full.transaction.depends_on],
        depends_on_leaves=[shown_leaf(leaf) for leaf in full.transaction.awaits],
        receipt=_receipt_data(full.receipt) if full.receipt is not None else None,
        public=[shown_public(each) for each in full.public],
        history=[_shown_earlier(each) for each in full.history],
        sequencer_activity=[_shown_activity(each) for each in full.activity],
    )


def _shown_activity(view: ActivityView) -> SequencerActivity:
    return SequencerActivity(view.subject, timestamp_of(view.at_ms), DISPATCH, view.node)


def _shown_earlier(view: TransactionView) -> TransactionHistory:
    return TransactionHistory(**_fields_of(TransactionHistory, shown_transaction(view)))


def _receipt_data(view: ReceiptView) -> TransactionEnd:
    return TransactionEnd(**_fields_of(TransactionEnd, shown_receipt(view)))


def _fields(shown: msgspec.Struct) -> dict[str, Any]:
    return _fields_of(type(shown), shown)


def _fields_of(kind: type[msgspec.Struct], shown: msgspec.Struct) -> dict[str, Any]:
    """Return the fields of `shown` that `kind` has too."""
    return {name: getattr(shown, name) for name in kind.__struct_fields__}


# Prepared transactions, dependencies, dispatches.


class PreparedInput(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The public transaction that commits a prepared one; the user chooses its sender."""

    type: TransactionKind
    to: Address
    function: str
    abi: list[dict[str, Any]]
    abi_reference: Word
    data: Any


class PreparedTransaction(msgspec.Struct, frozen=True):
    """An external transaction that is endorsed: the transaction that commits it, and its effects."""

    id: Uuid
    domain: str
    to: Address
    transaction: PreparedInput
    metadata: Any
    states: States


def shown_prepared(view: PreparedView) -> PreparedTransaction:
    """Return a prepared transaction as clients read it."""
    commit = view.transaction
    return PreparedTransaction(
        uuid_of(view.id),
        view.domain,
        Address(view.to),
        PreparedInput(
            TransactionKind(commit.type.value),
            Address(view.to),
            commit.function,
            [dict(entry) for entry in commit.abi],
            word_of(view.abi),
            commit.data,
        ),
        view.metadata,
        shown_states(view.states),
    )


class Dependencies(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The dependencies of a transaction, and its dependents. `dependsOn` are transactions of this node."""

    depends_on: list[Uuid]
    prereq_of: list[Uuid]
    depends_on_leaves: list[LeafDependency] = msgspec.field(default_factory=list)


class Dispatch(msgspec.Struct, frozen=True):
    """A dispatch of a private transaction to the base ledger with a public one."""

    id: str
    transactionID: Uuid  # as clients have it
    publicTransactionID: int


class ChainedDispatch(msgspec.Struct, frozen=True):
    """A private transaction, and the one of another private contract that carries it out: both commit, or neither."""

    id: str
    transactionID: Uuid  # as clients have it
    chainedTransactionID: Uuid


def shown_dispatch(view: DispatchView) -> Dispatch:
    """Return a dispatch as clients read it."""
    return Dispatch(view.id, uuid_of(view.transaction), view.public_transaction)


def shown_chained_dispatch(view: ChainedDispatchView) -> ChainedDispatch:
    """Return a chained dispatch as clients read it."""
    return ChainedDispatch(view.id, uuid_of(view.transaction), uuid_of(view.chained))
