"""Transactions of users on the base ledger itself (`ports.PublicStore`)."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import msgspec

from rota.abi.codec import Entry
from rota.chain.public_transaction import Ending, PublicTransaction, Version, Wish
from rota.domains.queries import Query
from rota.model.blocks import MinedStatus
from rota.model.types import AwaitedLeaf, ContractAddress, IntentId, Outcome, Party
from rota.ports import BASE_LEDGER, Ask, EndedLeaves, PublicBinding, StoredSubmission
from rota.store.database import Door, Reading, Statement
from rota.store.finality import public_ended, reopening_public
from rota.store.leaves import leaf_outcomes
from rota.store.listening import public_due
from rota.store.queries import Column, Kind, Table, selection
from rota.store.reading import Asking
from rota.store.submissions import Submissions, changing_submission, noting_submission

# Fields of base-ledger transactions that queries may name. Of the numbers by which clients know public
# transactions, users' own transactions have the even ones and rounds the odd ones.
_KINDS: Final = {
    "localId": ("local_id", Kind.NUMBER),
    "transaction": ("transaction_id", Kind.UUID),
    "transactionType": ("transaction_type", Kind.TEXT),
    "sender": ("sender", Kind.TEXT),
    "from": ("account", Kind.TEXT),
    "to": ("recipient", Kind.TEXT),
    "created": ("created_at_ms", Kind.TIME),
    "nonce": ("nonce", Kind.NUMBER),
    "contractAddress": ("contract", Kind.TEXT),
    "success": ("has_succeeded", Kind.BOOLEAN),
}
_USERS: Final = {
    "local_id": "(2 * public_transactions.number)",
    "transaction_id": "public_transactions.id",
    "transaction_type": "'public'",
    "sender": "submissions.sender",
    "account": "public_transactions.account",
    "recipient": "public_transactions.recipient",
    "created_at_ms": "public_transactions.created_at_ms",
    "nonce": "public_transactions.nonce",
    "contract": "public_transactions.contract",
    "has_succeeded": "public_transactions.has_succeeded",
}
_USERS_SOURCE: Final = "public_transactions LEFT JOIN submissions ON submissions.id = public_transactions.id"
# The sender of an intent in a round is known only for this node's own: a dishonest node can reuse an id elsewhere.
_ROUNDS: Final = {
    "local_id": "(2 * dispatched_intents.number + 1)",
    "transaction_id": "dispatched_intents.intent",
    "transaction_type": "'private'",
    "sender": "submissions.sender",
    # Before rounds had accounts of their own, all of them used one account.
    "account": "COALESCE(dispatches.signer, '{account}')",
    "recipient": "dispatches.contract",
    "created_at_ms": "submissions.accepted_at_ms",
    "nonce": "dispatches.nonce",
    "contract": "CAST(NULL AS TEXT)",
    "has_succeeded": f"CASE WHEN mined.nonce IS NULL THEN NULL WHEN mined.status = '{MinedStatus.SUCCEEDED.value}' "
    "THEN 1 ELSE 0 END",
}
_ROUNDS_SOURCE: Final = """dispatched_intents JOIN dispatches ON dispatches.number = dispatched_intents.number
LEFT JOIN mined ON mined.account = dispatches.account AND mined.nonce = dispatches.nonce
LEFT JOIN intents ON intents.id = dispatched_intents.intent AND intents.contract = dispatches.contract
LEFT JOIN submissions ON submissions.id = intents.id"""
_ADDRESS: Final = re.compile("0x[0-9a-f]{40}")


class _Written(msgspec.Struct, frozen=True):
    """The fields that have no column of their own."""

    sender: str
    data: bytes
    wish: Wish
    depends_on: tuple[bytes, ...]
    versions: tuple[Version, ...]
    given_up: str
    ending: Ending | None
    set_aside: str = ""
    updates: int = 0
    asked: int = 0
    awaits: tuple[AwaitedLeaf, ...] = ()


_decode: Final = msgspec.msgpack.Decoder(_Written).decode


class PublicTransactions:
    """`ports.PublicStore` in a database. One node writes to it, so that numbers do not collide."""

    def __init__(
        self,
        door: Door,
        asking: Asking,
        submissions: Submissions,
        clock: Callable[[], int],
        keep_number: Callable[[], Awaitable[None]],
    ) -> None:
        self._submissions: Final = submissions
        self._keep_number: Final = keep_number
        self._door: Final = door
        self._asking: Final = asking
        self._clock: Final = clock

    async def accept(self, submission: StoredSubmission, transaction: PublicTransaction, abi: Sequence[Entry]) -> None:
        """Store it with the next number, durable on return. A repeated call changes nothing."""
        now_ms = self._clock()
        accepted = replace(transaction, created_at_ms=now_ms)
        row = (accepted.id, accepted.account, accepted.to, now_ms, str(accepted.value_wei), _encode(accepted))
        await self._door.write([*noting_submission(submission, abi, now_ms), Statement(_ACCEPT, row)])

    async def save(self, transactions: Sequence[PublicTransaction], asks: Sequence[Ask] = ()) -> None:
        """Store their current state and the changed submissions of updates in one write; durable on return."""
        ended = [each.id for each in transactions if each.ending is not None]
        statements = [saving(each) for each in transactions]
        for ask in asks:
            statements += changing_submission(ask.submission, ask.abi, self._clock())
        for intent in ended:
            statements += public_due(intent), public_ended(intent)
        await self._door.write(statements)
        if any(each.nonce is not None and each.ending is None for each in transactions):
            # The signed transaction is about to be sent: a database that loses this record must be recognised.
            await self._keep_number()

    async def submission(self, intent: IntentId) -> StoredSubmission | None:
        """The submission of its user; None if there is none."""
        return await self._submissions.get(intent)

    async def open(self) -> tuple[PublicTransaction, ...]:
        """The unfinished ones, in order of number."""
        return await self._door.read(self.opened())

    def opened(self) -> Reading[tuple[PublicTransaction, ...]]:
        """The unfinished ones, as a reading."""
        return _found(Statement(f"{_SELECT} WHERE is_final = 0 ORDER BY number"))

    async def accounts(self) -> tuple[ContractAddress, ...]:
        """The accounts with transactions that have nonces."""
        return await self._door.read(_accounts())

    async def reopen(self, account: ContractAddress, nonce: int) -> None:
        """Open transactions of this nonce and all later ones again: the chain took their ending back."""
        condition = "is_final = 1 AND account = ? AND nonce >= ?"
        await self._door.write(list(reopening_public(condition, (account, nonce), self._clock())))

    async def next_nonce(self, account: ContractAddress) -> int:
        """The nonce after all that this node ever gave to transactions of this account."""
        return await self._door.read(_next_nonce(account))

    async def get(self, intent: IntentId) -> PublicTransaction | None:
        """The transaction with this id; None if there is none."""
        found = await self._door.read(_found(Statement(f"{_SELECT} WHERE id = ?", (intent,))))
        return found[0] if found else None

    async def numbered(self, number: int) -> PublicTransaction | None:
        """The transaction with this number; None if there is none."""
        found = await self._door.read(_found(Statement(f"{_SELECT} WHERE number = ?", (number,))))
        return found[0] if found else None

    async def find(self, query: Query, account: ContractAddress, is_open: bool = False) -> tuple[PublicBinding, ...]:
        """Users' own transactions and rounds that match, the latest first if no order is given.

        `account` is the account of rounds that were written before rounds had accounts of their own.
        """
        return await self._door.read(_bindings(_finding(query, account, is_open)))

    async def outcomes(self, intents: Sequence[IntentId]) -> Mapping[IntentId, Outcome]:
        """The final outcomes of these transactions of this node, public or private; unfinished ones are absent."""
        return await self._door.read(self._asking.outcomes(intents))

    async def ended_leaves(self, leaves: Sequence[AwaitedLeaf]) -> EndedLeaves:
        """The outcomes of these leaves, whichever node's they are, and the latest final time."""
        return await self._door.read(self._ended_leaves(leaves))

    def _ended_leaves(self, leaves: Sequence[AwaitedLeaf]) -> Reading[EndedLeaves]:
        height = yield from self._asking.final_height()
        outcomes = yield from leaf_outcomes(leaves, self._asking.final_height())
        return EndedLeaves(dict(outcomes), (yield from self._asking.final_time_s(height)))


def saving(transaction: PublicTransaction) -> Statement:
    """The statement that stores its current state."""
    ending = transaction.ending
    mined = ending.mined if ending is not None else None
    return Statement(
        _SAVE,
        (
            transaction.to,
            transaction.nonce,
            mined.hash if mined is not None else None,
            mined.height if mined is not None else None,
            mined.contract if mined is not None else None,
            int(ending is not None),
            int(ending.has_succeeded) if ending is not None else None,
            str(transaction.value_wei),
            _encode(transaction),
            transaction.number,
        ),
        transaction.id,
    )


def _encode(transaction: PublicTransaction) -> bytes:
    return msgspec.msgpack.encode(
        _Written(
            transaction.sender,
            transaction.data,
            transaction.wish,
            transaction.depends_on,
            transaction.versions,
            transaction.given_up,
            transaction.ending,
            transaction.set_aside,
            transaction.updates,
            transaction.asked,
            transaction.awaits,
        )
    )


def _accounts() -> Reading[tuple[ContractAddress, ...]]:
    rows: Any = yield Statement("SELECT DISTINCT account FROM public_transactions WHERE nonce IS NOT NULL")
    return tuple(ContractAddress(account) for (account,) in rows)


def _next_nonce(account: ContractAddress) -> Reading[int]:
    rows: Any = yield Statement(
        "SELECT COALESCE(MAX(nonce), -1) + 1 FROM public_transactions WHERE account = ?", (account,)
    )
    return int(rows[0][0])


def _finding(query: Query, account: ContractAddress, is_open: bool) -> Statement:
    """Select the wanted number from each of the two tables by its own indexes; the first of these are the answer."""
    assert _ADDRESS.fullmatch(account), "it becomes part of the SQL text"
    rounds = {name: sql.replace("{account}", account) for name, sql in _ROUNDS.items()}
    users_open = "public_transactions.is_final = 0" if is_open else "TRUE"
    rounds_open = "mined.nonce IS NULL" if is_open else "TRUE"
    parts = (
        _part(query, _USERS_SOURCE, _USERS, "public_transactions.number DESC", users_open),
        _part(query, _ROUNDS_SOURCE, rounds, "dispatched_intents.number DESC, dispatched_intents.intent", rounds_open),
    )
    united = " UNION ALL ".join(f"SELECT * FROM ({part.sql}) AS part{n}" for n, part in enumerate(parts))
    columns = {name: Column(column, kind) for name, (column, kind) in _KINDS.items()}
    table = Table(f"({united}) AS united", columns, "local_id DESC, transaction_id")
    whole = selection(table, "local_id, transaction_id", query)
    return Statement(whole.sql, tuple(value for each in (*parts, whole) for value in each.parameters))


def _part(query: Query, source: str, expressions: Mapping[str, str], order: str, also: str) -> Statement:
    columns = {name: Column(expressions[column], kind) for name, (column, kind) in _KINDS.items()}
    selected = ", ".join(f"{sql} AS {column}" for column, sql in expressions.items())
    return selection(Table(source, columns, order), selected, query, also=also)


def _bindings(query: Statement) -> Reading[tuple[PublicBinding, ...]]:
    rows: Any = yield query
    return tuple(PublicBinding(local_id, IntentId(intent)) for local_id, intent in rows)


def _found(query: Statement) -> Reading[tuple[PublicTransaction, ...]]:
    rows: Any = yield query
    return tuple(_transaction(*row) for row in rows)


def _transaction(
    number: int,
    id_: bytes,
    account: str,
    recipient: str | None,
    created_at_ms: int,
    nonce: int | None,
    value_wei: str,
    record: bytes,
    is_final: int,
    was_final: bool,
) -> PublicTransaction:
    written = _decode(record)
    return PublicTransaction(
        number,
        IntentId(id_),
        Party(written.sender),
        ContractAddress(account),
        None if recipient is None else ContractAddress(recipient),
        written.data,
        int(value_wei),
        created_at_ms,
        written.wish,
        tuple(IntentId(other) for other in written.depends_on),
        nonce,
        written.versions,
        written.given_up,
        # One that was opened again still has its old ending in its record until it is written the next time.
        written.ending if is_final else None,
        written.set_aside,
        bool(was_final),
        written.updates,
        written.asked,
        written.awaits,
    )


_COLUMNS: Final = f"""number, id, account, recipient, created_at_ms, nonce, value_wei, record, is_final, EXISTS (
    SELECT 1 FROM receipts_undone
    WHERE receipts_undone.intent = public_transactions.id AND receipts_undone.contract = '{BASE_LEDGER}')"""
_SELECT: Final = f"SELECT {_COLUMNS} FROM public_transactions"

_ACCEPT: Final = """
INSERT INTO public_transactions (number, id, account, recipient, created_at_ms, is_final, value_wei, record)
VALUES ((SELECT COALESCE(MAX(others.number), 0) + 1 FROM public_transactions AS others), ?, ?, ?, ?, 0, ?, ?)
ON CONFLICT (id) DO NOTHING"""

_SAVE: Final = """
UPDATE public_transactions SET
    recipient = ?, nonce = ?, hash = ?, height = ?, contract = ?, is_final = ?, has_succeeded = ?, value_wei = ?,
    record = ?
WHERE number = ?"""
