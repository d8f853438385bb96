"""Submitting transactions, and what their users may still do with them."""

from __future__ import annotations

from typing import Annotated, Any, Final, Protocol

import msgspec
from msgspec import Meta

from rota.model.types import IntentId, SubmitMode
from rota.ports import Unavailable
from rota.rpc.credentials import Role, shown_trouble
from rota.rpc.errors import ErrorCode, OutcomeUnknown, Overloaded, Rejected, invalid
from rota.rpc.formats import Uuid, uuid_of
from rota.rpc.methods import begun_in_order, method
from rota.service.interface import HasFollowing, Submission, Transactions, TransactionType
from rota.service.positions.interface import HasPositions, reach
from rota.service.submissions.formats import LATEST, TransactionCall, TransactionInput, require_latest, submission_of

TRANSACTIONS_MAX: Final = 1_000


class FollowingReads(HasFollowing, HasPositions, Protocol):
    """A node whose contracts can be called, at least at a given position."""


Id = Annotated[Uuid, Meta(description="The id that the transaction was accepted under")]


@method("ptx_sendTransaction", role=Role.SUBMIT, answers="transactionId", submits=True)
async def send_transaction(
    node: Transactions, transaction: Annotated[TransactionInput, Meta(description="What is to be done")]
) -> Annotated[Uuid, Meta(description="The id of the transaction, which is durable now")]:
    """Submit a transaction. Returns its id once it is stored durably; it does not wait for completion."""
    submission = submission_of(transaction, SubmitMode.AUTO, "transaction")
    try:
        return uuid_of(await node.submit(submission))
    except Rejected as error:
        raise error.within("transaction") from None


@method("ptx_sendTransactions", role=Role.SUBMIT, answers="transactionIds", submits=True)
async def send_transactions(
    node: Transactions,
    transactions: Annotated[list[TransactionInput], Meta(description="What is to be done, in this order")],
) -> Annotated[list[Uuid], Meta(description="The ids of the transactions, in the same order")]:
    """Submit several transactions, in order.

    The node accepts each independently. If it rejects one, the error data has the ids of the accepted ones.
    """
    _require_count(len(transactions))
    # All are checked before the first is accepted, so that an invalid one leaves no transaction behind.
    submissions = [
        submission_of(given, SubmitMode.AUTO, f"transactions[{place}]") for place, given in enumerate(transactions)
    ]
    return await _submit_all(node, submissions)


async def _submit_all(node: Transactions, submissions: list[Submission]) -> list[Uuid]:
    """Begin all in order without waiting for one another, so that they share a write.

    The event loop runs in between.
    """
    ended = [task.result() for task in await begun_in_order(_submitted(node, each) for each in submissions)]
    accepted = {place: uuid_of(end) for place, end in enumerate(ended) if not isinstance(end, Exception)}
    failed = [(place, end) for place, end in enumerate(ended) if isinstance(end, Exception)]
    if not failed:
        return list(accepted.values())
    for _, error in failed:
        if not isinstance(error, Rejected | Unavailable | OutcomeUnknown):
            raise error
    unsettled = {place: end.details.get("transactionId") for place, end in failed if isinstance(end, OutcomeUnknown)}
    if unsettled:
        ids = [accepted.get(place) or unsettled.get(place) for place in range(len(submissions))]
        raise OutcomeUnknown({"transactionIds": ids, "unsettled": list(unsettled)})
    place, first = failed[0]
    if isinstance(first, Overloaded) and not accepted:
        raise first
    if not isinstance(first, Rejected):
        text = f"the node cannot accept it now, try again: {shown_trouble(first)}"
        first = Rejected(ErrorCode.INTERNAL, "", text)
    where = f"transactions[{place}]"
    raise Rejected(
        first.code,
        first.within(where).field or where,
        f"{first.message}; {len(accepted)} of {len(submissions)} were accepted",
        {**first.details, "transactionIds": [accepted.get(place) for place in range(len(submissions))]},
    )


async def _submitted(node: Transactions, submission: Submission) -> IntentId | Exception:
    try:
        return await node.submit(submission)
    except Exception as error:
        return error


@method("ptx_prepareTransaction", role=Role.SUBMIT, answers="transactionId", submits=True)
async def prepare_transaction(
    node: Transactions, transaction: Annotated[TransactionInput, Meta(description="What is to be prepared")]
) -> Annotated[Uuid, Meta(description="The id of the transaction, which is durable now")]:
    """Prepare a private transaction that its user commits. ptx_getPreparedTransaction returns the call for that."""
    submission = _prepared(transaction, "transaction")
    try:
        return uuid_of(await node.submit(submission))
    except Rejected as error:
        raise error.within("transaction") from None


@method("ptx_prepareTransactions", role=Role.SUBMIT, answers="transactionIds", submits=True)
async def prepare_transactions(
    node: Transactions,
    transactions: Annotated[list[TransactionInput], Meta(description="What is to be prepared, in this order")],
) -> Annotated[list[Uuid], Meta(description="The ids of the transactions, in the same order")]:
    """Prepare several private transactions, each independently, as ptx_sendTransactions does."""
    _require_count(len(transactions))
    submissions = [_prepared(given, f"transactions[{place}]") for place, given in enumerate(transactions)]
    return await _submit_all(node, submissions)


def _prepared(given: TransactionInput, place: str) -> Submission:
    if given.type != TransactionType.PRIVATE.value:
        raise invalid(f"{place}.type", "must be private: a public transaction needs no endorsement")
    return submission_of(given, SubmitMode.EXTERNAL, place)


def _require_count(count: int) -> None:
    if not 1 <= count <= TRANSACTIONS_MAX:
        raise invalid("transactions", f"must be from 1 to {TRANSACTIONS_MAX}, not {count}")


@method("ptx_call", role=Role.READ, answers="result")
async def call(
    node: FollowingReads, transaction: Annotated[TransactionCall, Meta(description="What is asked, of which contract")]
) -> Annotated[Any, Meta(description="The function's outputs as an object; hex without a function")]:  # noqa: ANN401
    """Call a contract without a transaction: a private one on the states of this node, or one of the base ledger."""
    submission = submission_of(transaction, SubmitMode.AUTO, "transaction")
    if submission.type is TransactionType.PRIVATE:
        require_latest(transaction.block, "transaction.block")
    block = transaction.block if transaction.block is not None else LATEST
    await reach(node, transaction.at_least, "transaction.atLeast")
    try:
        answer = await node.following.call(submission, block.at, transaction.data_format or "")
    except Rejected as error:
        raise error.within("transaction") from None
    return msgspec.Raw(answer.encode("utf-8", "replace"))


@method("ptx_updateTransaction", role=Role.SUBMIT, answers="transactionId")
async def update_transaction(
    node: HasFollowing,
    transaction_id: Id,
    transaction: Annotated[TransactionInput, Meta(description="What it asks for from now on")],
) -> Annotated[Uuid, Meta(description="The same id")]:
    """Replace a public transaction that is not mined: its call, or its gas price."""
    submission = submission_of(transaction, SubmitMode.AUTO, "transaction")
    try:
        return uuid_of(await node.following.update(transaction_id.intent, submission))
    except Rejected as error:
        raise (error if error.field == "transactionId" else error.within("transaction")) from None


@method("ptx_resumeTransaction", role=Role.SUBMIT, answers="success")
async def resume_transaction(
    node: Transactions, transaction_id: Id
) -> Annotated[bool, Meta(description="True: it goes on")]:
    """Resume a parked transaction. The error shows the state of a transaction that is not parked."""
    await node.resume(transaction_id.intent)
    return True


@method("ptx_cancelTransaction", role=Role.SUBMIT, answers="success")
async def cancel_transaction(
    node: Transactions, transaction_id: Id
) -> Annotated[bool, Meta(description="True: it ends; its receipt says how")]:
    """Cancel a transaction. The error shows the state of a transaction that can no longer be cancelled."""
    await node.cancel(transaction_id.intent)
    return True


METHODS: Final = (
    send_transaction,
    send_transactions,
    prepare_transaction,
    prepare_transactions,
    call,
    update_transaction,
    resume_transaction,
    cancel_transaction,
)
