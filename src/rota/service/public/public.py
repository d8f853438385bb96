"""Users' transactions on the base ledger, and calls of its contracts: submitting, views, explanations."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable
from typing import Final

from rota.abi import codec
from rota.abi.codec import Style
from rota.chain.public_transaction import UPDATE_LATE, PublicTransaction, State, Wish, late_updates, version_to_send
from rota.engine.accepting import Acceptance
from rota.keys.names import party_key
from rota.ledger.public_chain import PublicChain, Refusal, Reverted
from rota.model.digests import INTENT_BYTES
from rota.model.types import ContractAddress, IntentId, NodeName, Outcome, Party, Rejected
from rota.node.explanation import MEANINGS
from rota.ports import AbiStore, PublicStore, Signer, StoredSubmission, UnknownKey
from rota.rpc import errors
from rota.service import interface
from rota.service.interface import Moment, PublicView, ReceiptView, SequencerRole, Submission
from rota.service.public.costs import explained
from rota.service.public.held import Held
from rota.service.public.transactions import PublicTransactions
from rota.service.submissions.reading import Read, Submitting, noted, require_prices

# The maximum size of a signed transaction leaves this much for its data.
DATA_BYTES_MAX: Final = 120_000
# Of the numbers by which clients know public transactions, even ones are users', odd ones are rounds'.
NUMBERS: Final = 2
LATEST: Final = "latest"

Countersigned = Callable[[Party, ContractAddress | None, bytes], Awaitable[bytes]]


class Public:
    """Public transactions at one node."""

    def __init__(
        self,
        node: NodeName,
        chain: PublicChain,
        transactions: PublicTransactions,
        store: PublicStore,
        abis: AbiStore,
        signer: Signer,
        submitting: Submitting,
        countersigned: Countersigned,
    ) -> None:
        self._node: Final = node
        self._chain: Final = chain
        self._transactions: Final = transactions
        self._store: Final = store
        self._abis: Final = abis
        self._signer: Final = signer
        self._submitting: Final = submitting
        self._countersigned: Final = countersigned

    # Submitting.

    async def submit(self, read: Read, acceptance: Acceptance) -> IntentId:
        """Store a public transaction durably and return its id."""
        sender = self._submitting.party(read.submission.sender)
        intent = IntentId(secrets.token_bytes(INTENT_BYTES))
        transaction = await self._transaction(read, intent, sender)
        await self._require_dependencies(read.submission)
        unwritten = self._submitting.unwritten(read)
        acceptance.begin(intent)
        await self._transactions.accept(self._noted(read, intent, sender), transaction, unwritten)
        self._submitting.note_written(read)
        return intent

    async def update(self, read: Read, submission: StoredSubmission) -> None:
        """Replace the request of a transaction that is under way. `Rejected` when it is too late."""
        if self._submitting.party(read.submission.sender) != submission.sender:
            raise errors.invalid("from", f"must be {submission.sender}, as it was")
        changed = await self._transaction(read, submission.id, submission.sender)
        asked = self._noted(read, submission.id, submission.sender)
        if flaw := await self._transactions.update(changed, asked, self._submitting.unwritten(read)):
            raise errors.invalid("transactionId", f"cannot be changed any more: {flaw}")
        self._submitting.note_written(read)

    async def cancel(self, intent: IntentId) -> bool:
        """Cancel a transaction durably; returns False if it is not under way."""
        return await self._transactions.give_up(intent)

    async def wanted(self, read: Read) -> PublicTransaction:
        """Return the transaction that a submission requests, without accepting it; it has a placeholder id."""
        return await self._transaction(
            read, IntentId(bytes(INTENT_BYTES)), self._submitting.party(read.submission.sender)
        )

    async def _transaction(self, read: Read, intent: IntentId, sender: Party) -> PublicTransaction:
        submission, options = read.submission, read.submission.options
        require_prices(options)
        try:
            data = await self._countersigned(sender, submission.to, _call_data(read))
        except Rejected as flaw:
            raise errors.invalid(f"data.{flaw.field}", flaw.message) from None
        if len(data) > DATA_BYTES_MAX:
            raise errors.invalid("data", f"must be at most {DATA_BYTES_MAX} bytes with its bytecode, not {len(data)}")
        return PublicTransaction(
            0,
            intent,
            sender,
            self.account_of(sender),
            submission.to,
            data,
            options.value_wei or 0,
            0,
            Wish(options.gas, options.fee_max_wei, options.tip_wei),
            submission.depends_on,
            awaits=submission.awaits,
        )

    def _noted(self, read: Read, intent: IntentId, sender: Party) -> StoredSubmission:
        return noted(read, intent, sender, "", read.function.signature if read.function is not None else "")

    def account_of(self, sender: Party) -> ContractAddress:
        """Return the address of a party of this node. `errors.Rejected` when it has no key."""
        try:
            return self._signer.address_of(party_key(sender))
        except (UnknownKey, ValueError) as flaw:
            raise errors.invalid("from", str(flaw)) from None

    async def _require_dependencies(self, submission: Submission) -> None:
        if not submission.depends_on:
            return
        ended = await self._store.outcomes(submission.depends_on)
        for place, other in enumerate(submission.depends_on):
            if other not in ended and not await self._submitting.is_known(other):
                raise errors.invalid(f"dependsOn[{place}]", f"must be a transaction of {self._node}")

    # Calling.

    async def call(self, read: Read, block: str | int, data_format: str) -> str:
        """Return a contract's answer as JSON text: decoded by the function's outputs, or as hex without one."""
        submission = read.submission
        if submission.to is None:
            raise errors.invalid("to", "must be the address of a contract")
        account = self.account_of(self._submitting.party(submission.sender)) if submission.sender else None
        answer = await self._chain.call(
            account, submission.to, _call_data(read), submission.options.value_wei or 0, block
        )
        if isinstance(answer, Reverted):
            why = await explained(self._abis, submission.to, _call_data(read), answer, read.function)
            raise errors.invalid("", f"the call reverted: {why}")
        if isinstance(answer, Refusal):
            raise errors.invalid("", answer.message)
        try:
            style = Style.parse(data_format, "dataFormat")
            if read.function is None:
                return style.text("0x" + answer.hex())
            if read.function.outputs and not answer:
                text = (
                    f"must be a contract with the function {read.function.signature}: {submission.to} answers nothing"
                )
                raise errors.invalid("to", text)
            return style.text(codec.decode_values(read.function.outputs, answer, "data", style))
        except Rejected as flaw:
            raise errors.invalid(flaw.field, flaw.message) from None

    # Showing.

    async def receipt(self, intent: IntentId) -> ReceiptView | None:
        """Return the receipt, or None while there is none."""
        found = await self._store.get(intent)
        return receipt_view(found) if found is not None and found.ending is not None else None

    async def view(self, intent: IntentId) -> PublicView | None:
        """Return its base-ledger transaction."""
        found = await self._store.get(intent)
        return self.shown(found) if found is not None else None

    async def numbered(self, number: int) -> PublicView | None:
        """Return the transaction that clients know by this number."""
        found = await self._store.numbered(number // NUMBERS)
        return self.shown(found) if found is not None else None

    def under_way(self, transaction_hash: bytes) -> PublicView | None:
        """Return the transaction under way of which a version, the latest or an earlier one, has this hash."""
        # From memory: reading thousands with their data from the store would be expensive for one query.
        every = (held.transaction for held in self._transactions.open())
        found = (each for each in every if any(version.hash == transaction_hash for version in each.versions))
        return next(map(self.shown, found), None)

    def shown(self, transaction: PublicTransaction) -> PublicView:
        """Return a transaction as clients read it."""
        ending, held = transaction.ending, self._transactions.held(transaction.id)
        latest = version_to_send(transaction) if transaction.versions else None
        mined = ending.mined if ending is not None else None
        return PublicView(
            transaction.number * NUMBERS,
            transaction.id,
            interface.TransactionType.PUBLIC,
            transaction.sender,
            transaction.account,
            transaction.to,
            transaction.data,
            transaction.created_at_ms,
            self._node,
            transaction.nonce,
            transaction.value_wei,
            latest.gas if latest is not None else transaction.wish.gas,
            latest.fees.most_wei if latest is not None else transaction.wish.fee_max_wei,
            latest.fees.tip_wei if latest is not None else transaction.wish.tip_wei,
            ending.ended_at_ms if ending is not None else None,
            mined.hash if mined is not None else None,
            ending.has_succeeded if ending is not None else None,
            ending.revert_data if ending is not None else b"",
            tuple(interface.PublicSubmission(v.signed_at_ms, v.hash, *v.fees) for v in transaction.versions),
            _history_of(transaction, held),
            mined.contract if mined is not None else None,
        )

    def explain(self, intent: IntentId) -> interface.Explanation | None:
        """Explain where it is, while it has not ended."""
        held = self._transactions.held(intent)
        return _explained(held, self._transactions.trouble) if held is not None else None

    async def explain_ended(self, intent: IntentId) -> interface.Explanation | None:
        """Explain a transaction that has ended."""
        found = await self._store.get(intent)
        if found is None or found.ending is None:
            return None
        outcome = Outcome.CONFIRMED if found.ending.has_succeeded else Outcome.REVERTED
        return interface.Explanation(
            intent,
            SequencerRole.SENDER,
            outcome.value,
            found.to or (found.ending.mined.contract if found.ending.mined is not None else None),
            found.ending.ended_at_ms,
            detail=found.ending.reason or (UPDATE_LATE if late_updates(found) else ""),
            history=_history_of(found, None),
            meaning=MEANINGS[outcome],
        )


def receipt_view(transaction: PublicTransaction) -> ReceiptView:
    """Return the receipt of a public transaction."""
    ending = transaction.ending
    assert ending is not None, "it has ended"
    mined = ending.mined
    return ReceiptView(
        transaction.id,
        ending.has_succeeded,
        ending.ended_at_ms,
        0,
        contract=mined.contract if mined is not None and ending.has_succeeded else None,
        failure_message=ending.reason,
        revert_data=ending.revert_data,
        block_number=mined.height if mined is not None else None,
        transaction_hash=mined.hash if mined is not None else None,
        transaction_index=mined.place if mined is not None else None,
        late_updates=late_updates(transaction),
    )


def _history_of(transaction: PublicTransaction, held: Held | None) -> tuple[Moment, ...]:
    """Return its history; if it has ended or is from an earlier run, only the stored part."""
    if held is not None:
        return tuple(Moment(each.at_ms, each.text) for each in held.history)
    moments = [Moment(transaction.created_at_ms, "accepted")]
    for version in transaction.versions:
        moments.append(Moment(version.signed_at_ms, f"signed with nonce {transaction.nonce}"))
    if transaction.ending is not None:
        if late_updates(transaction):
            moments.append(Moment(transaction.ending.ended_at_ms, UPDATE_LATE))
        moments.append(Moment(transaction.ending.ended_at_ms, transaction.ending.reason or "done"))
    return tuple(moments)


def _explained(held: Held, trouble: str) -> interface.Explanation:
    waits_for = held.waits_for or ("the chain" if held.state is not State.ENDED else "")
    if held.is_aside:
        waits_for = f"an operator: {held.transaction.set_aside}"
    return interface.Explanation(
        held.transaction.id,
        SequencerRole.SENDER,
        held.state.value,
        held.transaction.to,
        held.since_ms,
        waits_for,
        (),
        trouble or held.trouble or held.update_trouble,
        _history_of(held.transaction, held),
        MEANINGS[held.state],
    )


def _call_data(read: Read) -> bytes:
    """Return the call data: bytecode with the constructor's values, a function with its values, or bare bytes."""
    submission = read.submission
    try:
        if submission.to is None:
            if not submission.bytecode:
                raise Rejected("to", "must be an address, or bytecode what is to be deployed")
            if isinstance(submission.data, str):
                return submission.bytecode + codec.read_hex(submission.data, "data")
            constructor = codec.find_constructor(read.entries)
            return submission.bytecode + codec.encode_values(constructor.inputs, submission.data, "data")
        if submission.bytecode:
            raise Rejected("bytecode", "must be left out where to is given")
        if read.function is not None:
            return codec.encode_call(read.function, submission.data, "data")
        if submission.function:
            raise Rejected("abi", f"must have the function {submission.function!r}, or abiReference name one that has")
        if submission.data is None or isinstance(submission.data, str):
            return codec.read_hex(submission.data or "", "data")
        raise Rejected("data", "must be hex, or come with an ABI and a function")
    except Rejected as flaw:
        raise errors.invalid(flaw.field, flaw.message) from None
