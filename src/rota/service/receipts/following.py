"""Outcomes and effects of transactions: `service.interface.Following` on this node's store, chain and domains.

A transaction is shown as its user submitted it. Its receipt is the outcome that the chain or the sequencer reported;
its states are those that this node has. Everything is read from the store on demand: nothing is cached here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Final, TypeVar, cast

import msgspec

from rota import host
from rota.abi import codec
from rota.abi.codec import Entry
from rota.chain.effects import RoundDispatch
from rota.domains.addressed import parties_in, shown_with_addresses
from rota.domains.available import readable
from rota.domains.contents import Content, schema_of
from rota.domains.queries import Query
from rota.engine.accepting import Acceptance
from rota.host.proving import as_believed
from rota.ledger.artifacts import load_artifact
from rota.ledger.looking_up import LookingUp
from rota.ledger.reading import MinedCall
from rota.ledger.transaction import decode
from rota.model.state_ids import shown_state_id
from rota.model.types import ContractAddress, IntentId, Party, Rejected, State, StateId, Transition
from rota.ports import (
    Chained,
    Dispatched,
    NumberedReceipt,
    PartyNames,
    PublicBinding,
    Store,
    StoredSubmission,
    StoredTransaction,
)
from rota.rpc import errors
from rota.rpc.credentials import held_parties
from rota.service import interface
from rota.service.asking import read_query
from rota.service.interface import (
    ActivityView,
    ChainedDispatchView,
    DependenciesView,
    DispatchView,
    FullReceipt,
    FullTransaction,
    GasOptions,
    JsonValue,
    PreparedView,
    PublicView,
    ReceiptView,
    StateView,
    Submission,
    TransactionStates,
    TransactionType,
    TransactionView,
)
from rota.service.public.public import NUMBERS, Public
from rota.service.receipts.twins import without_twins
from rota.service.receipts.views import ReceiptViews
from rota.service.run import RunningNode
from rota.service.submissions.reading import Read, Submitting, as_abi, function_name, named_data

INTENTS_A_ROUND_MAX: Final = 1_000
# The maximum number of base-ledger transactions in one answer: each comes with its data, and rounds are decoded whole.
PUBLIC_ROWS_MAX: Final = 500
COMMIT: Final = "commit"
LEDGER: Final = "Endorsed"

Found = TypeVar("Found")
LegOf = Callable[[StoredTransaction], Awaitable[interface.LegView | None]]


class Following:
    """`service.interface.Following`."""

    def __init__(
        self,
        running: RunningNode,
        submitting: Submitting,
        public: Public,
        receipts: ReceiptViews,
        leg_of: LegOf,
        looking_up: LookingUp,
    ) -> None:
        self._running: Final = running
        self._submitting: Final = submitting
        self._public: Final = public
        self._receipts: Final = receipts
        self._leg_of: Final = leg_of
        self._looking_up: Final = looking_up

    @property
    def _store(self) -> Store:
        return self._running.adapters.store

    # Transactions.

    async def with_key(self, key: str) -> TransactionView | None:
        """Return the transaction that has this idempotency key, among those that the caller may see."""
        held = held_parties()
        parties = PartyNames(held, self._running.name) if held is not None else None
        found = await self._store.submissions.with_key(key, parties)
        submission = await self._store.submissions.get(found) if found is not None else None
        return transaction_view(submission) if submission is not None else None

    async def full(self, intent: IntentId) -> FullTransaction | None:
        """Return a transaction with all data that this node has about it."""
        submission = await self._store.submissions.get(intent)
        return await self._full(submission) if submission is not None else None

    async def query(self, query: JsonValue, is_open: bool = False) -> tuple[TransactionView, ...]:
        """Return the transactions that a QueryJSON matches; with `is_open` only those that have not ended."""
        return tuple(transaction_view(each) for each in await self._find(query, is_open))

    async def query_full(self, query: JsonValue, is_open: bool = False) -> tuple[FullTransaction, ...]:
        """Query the transactions of this node, with receipts and base-ledger transactions."""
        return tuple([await self._full(each) for each in await self._find(query, is_open)])

    async def dependencies(self, intent: IntentId) -> DependenciesView | None:
        """Return the dependencies of a transaction and its dependents."""
        submission = await self._store.submissions.get(intent)
        if submission is None:
            return None
        found = await self._store.submissions.dependencies(intent)
        return DependenciesView(found.depends_on, found.prerequisite_of, submission.awaits)

    async def _find(self, query: JsonValue, is_open: bool) -> tuple[StoredSubmission, ...]:
        return await asked(query, lambda read: self._store.submissions.find(read, is_open))

    async def _full(self, submission: StoredSubmission) -> FullTransaction:
        return FullTransaction(
            transaction_view(submission),
            await self._receipts.of(submission.id),
            await self._base_transactions(submission.id),
            tuple(transaction_view(each) for each in submission.earlier),
            await self._activity(submission.id),
        )

    async def _activity(self, intent: IntentId) -> tuple[ActivityView, ...]:
        """Return this node's actions as coordinator; other coordinators report their own."""
        rounds = await self._store.traces.dispatches(intent)
        return tuple(
            ActivityView(_dispatch_id(number, intent), self._opened_at_ms(dispatch), self._running.name)
            for number, dispatch in rounds
        )

    # Receipts.

    async def query_receipts(self, query: JsonValue) -> tuple[ReceiptView, ...]:
        """Return the receipts that a QueryJSON matches."""
        found = await asked(query, self._store.submissions.find_ended)
        receipts = [await self._receipts.at(each) for each in found]
        return tuple(receipt for receipt in receipts if receipt is not None)

    async def full_receipt(self, intent: IntentId) -> FullReceipt | None:
        """Return the receipt with all data that this node has about it."""
        receipt = await self._receipts.of(intent)
        return await self._full_receipt(receipt) if receipt is not None else None

    async def full_receipt_at(self, place: NumberedReceipt) -> FullReceipt | None:
        """Return the receipt with this place in the order, with all data that this node has about it."""
        receipt = await self._receipts.at(place)
        return await self._full_receipt(receipt) if receipt is not None else None

    async def _full_receipt(self, receipt: ReceiptView) -> FullReceipt:
        public = await self._base_transactions(receipt.id)
        chained = await self._store.carried.with_intent(receipt.id)
        settled = await self._settled(receipt)
        if settled is None:
            return FullReceipt(receipt, public=public, chained=chained)
        states = await self._states_of(*settled, receipt.indexed_at_ms)
        try:
            told = await self._domain_receipt(*settled)
        except Rejected as flaw:
            return FullReceipt(receipt, states, None, str(flaw), public, chained)
        return FullReceipt(receipt, states, told, "", public, chained)

    async def states(self, intent: IntentId) -> TransactionStates | None:
        """Return the private states of a transaction that is on the chain."""
        receipt = await self._receipts.of(intent)
        if receipt is None:
            return None
        settled = await self._settled(receipt)
        return await self._states_of(*settled, receipt.indexed_at_ms) if settled is not None else TransactionStates()

    async def domain_receipt(self, domain: str, intent: IntentId) -> JsonValue:
        """Return the receipt that the domain makes of a transaction; None when it is not on the chain."""
        receipt = await self._receipts.of(intent)
        settled = await self._settled(receipt) if receipt is not None else None
        if settled is None:
            return None
        hosted, transition = settled
        if domain != hosted.domain.name:
            raise errors.invalid("domain", f"must be {hosted.domain.name}, not {domain}")
        try:
            return await self._domain_receipt(hosted, transition)
        except Rejected as flaw:
            raise errors.invalid(flaw.field, flaw.message) from None

    async def _settled(self, receipt: ReceiptView) -> tuple[host.Hosted, Transition] | None:
        """Return this node's copy of a transition that is final on the chain."""
        if receipt.source is None or receipt.leaf is None:
            return None
        hosted = self._running.contracts.hosted(receipt.source)
        transition = await self._store.traces.transition(receipt.source, receipt.leaf)
        if hosted is None or transition is None:
            return None
        return hosted, await without_twins(self._store, hosted, transition)

    async def _domain_receipt(self, hosted: host.Hosted, transition: Transition) -> JsonValue:
        known = await self._held(hosted, (*transition.inputs, *transition.reads))
        stored = await self._store.transaction(transition.intent)
        is_own = stored is not None and stored.intent.contract == hosted.contract.address
        sender = self._public.account_of(stored.intent.sender) if stored is not None and is_own else ""
        addresses = await self._addresses_in(hosted, (*transition.outputs, *known.values()))
        return cast(JsonValue, host.receipt(hosted, transition, known, self._running.name, sender, addresses))

    async def _addresses_in(self, hosted: host.Hosted, states: Iterable[State]) -> dict[Party, str]:
        """Return the addresses of the parties for domains whose clients know parties by address."""
        contents = (self._content(hosted, state) for state in states)
        records = (content.record for content in contents if content is not None and content.record is not None)
        return await self._receipts.addresses.of(party for record in records for party in parties_in(record))

    async def _held(self, hosted: host.Hosted, states: Sequence[StateId]) -> host.Held:
        found = await self._store.states(hosted.contract.address, states)
        return host.shelved(hosted, found, self._running.name)

    async def _states_of(self, hosted: host.Hosted, transition: Transition, at_ms: int) -> TransactionStates:
        transition = as_believed(hosted, transition)
        referred = await self._held(hosted, (*transition.inputs, *transition.reads))

        addresses = await self._addresses_in(hosted, (*transition.outputs, *referred.values()))

        def seen(states: Sequence[State]) -> tuple[StateView, ...]:
            read = [(state, self._content(hosted, state)) for state in states]
            return tuple(
                _state_view(hosted, state.id, content, at_ms, addresses)
                for state, content in read
                if content is not None and content.record is not None
            )

        carried = [(state, self._content(hosted, state)) for state in transition.outputs]
        return TransactionStates(
            seen([referred[each] for each in transition.inputs if each in referred]),
            seen([referred[each] for each in transition.reads if each in referred]),
            seen(transition.outputs),
            _infos(hosted, [(state, content) for state, content in carried if content is not None], at_ms),
            tuple(shown_state_id(each) for each in transition.inputs if each not in referred),
            tuple(shown_state_id(each) for each in transition.reads if each not in referred),
            tuple(shown_state_id(state.id) for state, content in carried if content is None),
        )

    def _content(self, hosted: host.Hosted, state: State) -> Content | None:
        return readable(hosted.known, state.as_seen_by(self._running.name))

    # Prepared transactions.

    async def prepared(self, intent: IntentId) -> PreparedView | None:
        """Return an external transaction that can be committed."""
        stored = await self._store.transaction(intent)
        leg = await self._leg_of(stored) if stored is not None else None
        if stored is None or leg is None or stored.issued is None:
            return None
        hosted = self._running.contracts.hosted(stored.intent.contract)
        if hosted is None:
            return None
        transaction = Submission(
            TransactionType.PUBLIC,
            "",
            to=leg.contract,
            function=COMMIT,
            data={
                "payload": "0x" + leg.payload.hex(),
                "condition": "0x" + leg.condition.hex(),
                "auth": "0x" + leg.auth.hex(),
            },
            abi=as_abi(_commit_abi()),
        )
        metadata: JsonValue = {
            "core": "0x" + leg.core.hex(),
            "transitionHash": "0x" + stored.issued.transition.leaf.hex(),
            "validUntil": str(leg.valid_until_s),
            "committer": leg.committer,
            "encodedCall": "0x" + leg.call.hex(),
        }
        states = await self._states_of(hosted, stored.issued.transition, stored.accepted_at_ms)
        abi = await self._stored_commit_abi()
        return PreparedView(
            intent, hosted.domain.name, leg.contract, transaction, abi, metadata=metadata, states=states
        )

    async def _stored_commit_abi(self) -> bytes:
        """Return the hash of the ABI that commits prepared transitions, and store that ABI if needed."""
        abi = codec.hash_of(_commit_abi())
        if await self._store.abis.get(abi) is None:
            await self._store.abis.add(_commit_abi())
        return abi

    async def query_prepared(self, query: JsonValue) -> tuple[PreparedView, ...]:
        """Return the external transactions that can be committed; the query is over the fields of transactions."""
        found = await asked(query, lambda read: self._store.submissions.find(read, is_prepared=True))
        prepared = [await self.prepared(each.id) for each in found]
        return tuple(each for each in prepared if each is not None)

    # Asking contracts.

    async def call(self, submission: Submission, block: str | int, data_format: str) -> str:
        """Call a contract, private or public, without a transaction; returns the answer as JSON text."""
        read = await self._submitting.read(submission)
        if submission.type is TransactionType.PUBLIC:
            return await self._public.call(read, block, data_format)
        return await self._call_private(read, data_format)

    async def _call_private(self, read: Read, data_format: str) -> str:
        submission = read.submission
        hosted = self._running.contracts.hosted(submission.to) if submission.to is not None else None
        if hosted is None:
            raise errors.invalid("to", f"must be a contract of {self._running.name}")
        if submission.domain and submission.domain != hosted.domain.name:
            raise errors.invalid("domain", f"must be {hosted.domain.name}, not {submission.domain}")
        sender = self._submitting.party(submission.sender)
        parameters = read.function.inputs if read.function is not None else ()
        call = host.UserCall(sender, function_name(read), named_data(read, parameters))
        try:
            style = codec.Style.parse(data_format, "dataFormat")
            outputs = read.function.outputs if read.function is not None else ()
            if not style.is_plain and not outputs:
                raise Rejected("dataFormat", "must come with an ABI that has the outputs of the function, or be plain")
            answer = await self._running.call_private(hosted, call)
        except Rejected as flaw:
            raise errors.invalid(_field_of(flaw), flaw.message) from None
        return style.text(answer if style.is_plain else _written_as(answer, outputs, style))

    # The base ledger.

    async def update(self, intent: IntentId, submission: Submission) -> IntentId:
        """Replace the request of a public transaction that is under way."""
        return await self._running.acceptances.accept(partial(self._update, intent, submission))

    async def _update(self, intent: IntentId, submission: Submission, acceptance: Acceptance) -> IntentId:
        known = await self._store.submissions.get(intent)
        if known is None:
            raise errors.invalid("transactionId", f"must be a transaction of {self._running.name}")
        if not known.is_public or submission.type is not TransactionType.PUBLIC:
            raise errors.invalid("transactionId", "must be a public transaction: a private one cannot be changed")
        read = await self._submitting.read(submission)
        acceptance.begin(intent)
        await self._public.update(read, known)
        return intent

    async def public_transaction(self, local_id: int) -> PublicView | None:
        """Return a base-ledger transaction by its number: a user's own, or a round of private ones."""
        if local_id % NUMBERS == 0:
            return await self._public.numbered(local_id)
        number = local_id // NUMBERS
        dispatch = await self._store.traces.dispatch(number)
        return await self._shown_round(number, dispatch) if dispatch is not None else None

    async def query_public(self, query: JsonValue, is_open: bool = False) -> tuple[PublicView, ...]:
        """Return the base-ledger transactions that a QueryJSON matches; with `is_open` only those in no block yet."""
        account = self._running.account
        found = await asked(query, lambda read: self._store.public.find(_bounded(read), account, is_open))
        return await self._bound(found)

    async def public_with_nonce(self, account: ContractAddress, nonce: int) -> PublicView | None:
        """Return the base-ledger transaction with this nonce, if it is for a transaction that the caller may see."""
        return self._seen(await self._with_nonce(account, nonce))

    async def public_with_hash(self, transaction_hash: bytes) -> PublicView | None:
        """The same by hash. Open transactions are read from the store; for mined ones the chain returns the nonce."""
        own = self._public.under_way(transaction_hash)
        if own is not None:
            return self._seen((own,))
        waiting = await self._store.traces.waiting_dispatch(transaction_hash)
        if waiting is not None:
            return self._seen(await self._with_nonce(ContractAddress(waiting.signer), waiting.nonce))
        mined = await self._looking_up.transaction(transaction_hash)
        if mined is None:
            return None
        call = mined.block.calls[mined.place]
        found = await self._with_nonce(call.sender, call.nonce)
        return self._seen([each for each in found if _is_mined_as(each, call)])

    async def _with_nonce(self, account: ContractAddress, nonce: int) -> tuple[PublicView, ...]:
        """Return the views for a nonce: for a round, one for each transaction in it."""
        named: list[JsonValue] = [{"field": "from", "value": account}, {"field": "nonce", "value": nonce}]
        query = Query.parse({"eq": named, "limit": INTENTS_A_ROUND_MAX})
        return await self._bound(await self._store.public.find(query, self._running.account))

    def _seen(self, found: Sequence[PublicView]) -> PublicView | None:
        held = held_parties()
        names = PartyNames(held, self._running.name) if held is not None else None
        return next((each for each in found if names is None or names.has(each.sender)), None)

    async def _bound(self, found: Sequence[PublicBinding]) -> tuple[PublicView, ...]:
        """Return the view of each binding. A round, which may be long, is read once for all transactions in it."""
        views: list[PublicView] = []
        read: tuple[int, RoundDispatch | None] | None = None
        for local_id, intent in found:
            number, is_round = divmod(local_id, NUMBERS)
            if not is_round:
                view = await self._public.view(intent)
            else:
                if read is None or read[0] != number:
                    read = (number, await self._store.traces.dispatch(number))
                view = await self._shown_round(number, read[1], intent) if read[1] is not None else None
            if view is not None:
                views.append(view)
        return tuple(views)

    async def dispatch(self, dispatch_id: str) -> DispatchView | None:
        """Return a dispatch by its id."""
        number, _, intent = dispatch_id.partition("/")
        if not number.isdecimal() or len(number) > 18:
            return None
        query = Query.parse(
            {"eq": [{"field": "publicTransactionID", "value": NUMBERS * int(number) + 1}], "limit": INTENTS_A_ROUND_MAX}
        )
        found = await self._store.traces.find_dispatched(query)
        return next((_dispatch_view(each) for each in found if each.intent.hex() == intent), None)

    async def query_dispatches(self, query: JsonValue) -> tuple[DispatchView, ...]:
        """Return the private transactions that this node dispatched, with the public ones that carried them."""
        found = await asked(query, self._store.traces.find_dispatched)
        return tuple(_dispatch_view(each) for each in found)

    async def chained_dispatch(self, dispatch_id: str) -> ChainedDispatchView | None:
        """Return a chained dispatch by its id."""
        chained = dispatch_id.rpartition("/")[2]
        try:
            query = Query.parse({"eq": [{"field": "chainedTransactionID", "value": chained}]})
            found = await self._store.carried.find(query)
        except Rejected:
            return None
        return next((view for view in map(_chained_view, found) if view.id == dispatch_id), None)

    async def query_chained_dispatches(self, query: JsonValue) -> tuple[ChainedDispatchView, ...]:
        """Return the private transactions that carry out others which this node endorsed."""
        found = await asked(query, self._store.carried.find)
        return tuple(_chained_view(each) for each in found)

    async def _base_transactions(self, intent: IntentId) -> tuple[PublicView, ...]:
        """Return the base-ledger transactions of a transaction: a public one's own, or the rounds of a private one."""
        own = await self._public.view(intent)
        if own is not None:
            return (own,)
        rounds = await self._store.traces.dispatches(intent)
        return tuple([await self._shown_round(number, dispatch, intent) for number, dispatch in rounds])

    async def _shown_round(self, number: int, dispatch: RoundDispatch, intent: IntentId | None = None) -> PublicView:
        """Return the view of a round as a base-ledger transaction, for this intent or the first one in it."""
        order = dispatch.round
        first = intent if intent is not None else order.transitions[0].intent
        stored = await self._store.transaction(first)
        if stored is not None and stored.intent.contract != order.contract:
            # A malicious peer can send the id of an intent of this node in another contract.
            stored = None
        mined = await self._store.traces.mined(dispatch)
        sent = decode(dispatch.transaction).transaction
        return PublicView(
            NUMBERS * number + 1,
            first,
            TransactionType.PRIVATE,
            stored.intent.sender if stored is not None else "",
            ContractAddress(dispatch.signer),
            order.contract,
            sent.data,
            # The time of acceptance of another node's intent is not shown.
            stored.accepted_at_ms if stored is not None else self._opened_at_ms(dispatch),
            self._running.name,
            dispatch.nonce,
            0,
            sent.gas_limit,
            dispatch.fees.most_wei,
            dispatch.fees.tip_wei,
            1_000 * mined[1] if mined is not None and mined[1] is not None else None,
            (stored.transaction if stored is not None else b"") or dispatch.hash,
            mined[0] if mined is not None else None,
        )

    def _opened_at_ms(self, dispatch: RoundDispatch) -> int:
        """Return the opening time of a round: a fixed time before the end of its validity."""
        return 1_000 * (dispatch.round.valid_until_s - self._running.config.validity_s)


async def asked(query: JsonValue, find: Callable[[Query], Awaitable[Found]]) -> Found:
    """Return the results of a client's query. `errors.Rejected` names the field of the query that is wrong."""
    try:
        return await find(read_query(query))
    except Rejected as flaw:
        raise errors.invalid(flaw.field, flaw.message) from None


def _bounded(query: Query) -> Query:
    return replace(query, limit=min(query.limit or PUBLIC_ROWS_MAX, PUBLIC_ROWS_MAX))


def _is_mined_as(view: PublicView, call: MinedCall) -> bool:
    """Whether a block has this version of the transaction: another holder of the key may have used the nonce."""
    if view.type is TransactionType.PUBLIC:
        return any(each.hash == call.hash for each in view.submissions)
    return call.to == view.to and call.input == view.data


def transaction_view(submission: StoredSubmission) -> TransactionView:
    """Return a transaction as it was submitted."""
    return TransactionView(
        submission.id,
        submission.accepted_at_ms,
        TransactionType.PUBLIC if submission.is_public else TransactionType.PRIVATE,
        submission.sender,
        submission.submit_mode,
        submission.domain,
        submission.to,
        submission.function,
        msgspec.json.decode(submission.data),
        submission.abi,
        submission.idempotency_key,
        submission.depends_on,
        GasOptions(submission.gas, submission.value_wei, submission.fee_max_wei, submission.tip_wei),
        tuple(map(transaction_view, submission.late)),
        submission.awaits,
    )


def _state_view(
    hosted: host.Hosted, state: StateId, content: Content, at_ms: int, addresses: Mapping[Party, str]
) -> StateView:
    assert content.record is not None, "an info is shown by itself"
    data = {"salt": "0x" + content.salt.hex(), **shown_with_addresses(content.record, addresses)}
    return StateView(
        shown_state_id(state),
        at_ms,
        hosted.domain.name,
        schema_of(type(content.record)).id,
        hosted.contract.address,
        cast(JsonValue, data),
    )


def _infos(hosted: host.Hosted, contents: Sequence[tuple[State, Content]], at_ms: int) -> tuple[StateView, ...]:
    found = [
        (told.number, _state_view(hosted, state.id, Content(told.record, (), content.readers, content.salt), at_ms, {}))
        for state, content in contents
        for told in content.infos
    ]
    return tuple(view for _, view in sorted(found, key=lambda each: each[0]))


def _dispatch_view(found: Dispatched) -> DispatchView:
    return DispatchView(_dispatch_id(found.number, found.intent), found.intent, NUMBERS * found.number + 1)


def _chained_view(found: Chained) -> ChainedDispatchView:
    return ChainedDispatchView(f"{found.intent.hex()}/{found.chained.hex()}", found.intent, found.chained)


def _dispatch_id(number: int, intent: IntentId) -> str:
    return f"{number}/{intent.hex()}"


@cache
def _commit_abi() -> tuple[Entry, ...]:
    """Return the ABI that commits a prepared transition, with the errors that it may raise."""
    entries = codec.entries_of(load_artifact(LEDGER).abi, "abi")
    return tuple(each for each in entries if each.kind == "error" or each.name == COMMIT)


def _written_as(answer: object, outputs: Sequence[codec.Parameter], style: codec.Style) -> object:
    """Format a domain's plain answer in this style, with the types that the ABI's outputs give."""
    if isinstance(answer, dict):
        # Fields of the answer that the ABI does not have, such as a note that a balance is unknown here, have no type.
        answer = {each.name: answer[each.name] for each in outputs if each.name in answer} or answer
    try:
        return codec.decode_values(outputs, codec.encode_values(outputs, answer, "outputs"), "outputs", style)
    except Rejected as flaw:
        text = f"the outputs of the function in the ABI are not what it answers: {flaw}"
        raise errors.invalid("dataFormat", text) from None


def _field_of(flaw: Rejected) -> str:
    if flaw.field in ("", "function", "domain", "dataFormat"):
        return flaw.field or "data"
    return f"data.{flaw.field}"
