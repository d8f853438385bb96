"""The base ledger for users (`Chain`): blocks that this node's index has as confirmed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from rota.abi import codec
from rota.domains.queries import Query
from rota.domains.records import Bytes32, Record, Uint64
from rota.ledger.looking_up import FoundTransaction, LookingUp
from rota.ledger.reading import CallReceipt, FullBlock, Header, Log
from rota.model.types import ContractAddress, Rejected
from rota.rpc import errors
from rota.rpc.formats import Address, timestamp_of, word_of
from rota.rpc.values import AbiEntry, JsonValue
from rota.service.asking import read_query, selected
from rota.service.blocks.interface import DecodedEvent, IndexedBlock, IndexedEvent, IndexedTransaction

HEADERS_MAX: Final = 1_000
BLOCKS_MAX: Final = 100
ROWS_DEFAULT: Final = 1_000
NOBODY: Final = ContractAddress("0x" + "00" * 20)

Item = TypeVar("Item")
# Returns hashes by block, for the first and last block and the maximum number of blocks.
TransactionsWithReceipts = Callable[[int, int, int], Awaitable[Mapping[int, frozenset[bytes]]]]


class Chain:
    """`service.blocks.interface.Chain`. `confirmed` returns the height up to which blocks are shown."""

    def __init__(
        self, looking_up: LookingUp, confirmed: Callable[[], int], with_receipts: TransactionsWithReceipts
    ) -> None:
        self._looking_up: Final = looking_up
        self._confirmed: Final = confirmed
        self._with_receipts: Final = with_receipts

    def confirmed_height(self) -> int:
        """Return the latest confirmed block; 0 before there is one."""
        return max(0, self._confirmed())

    async def block(self, number: int) -> IndexedBlock | None:
        """Return a block by its number."""
        header = await self._looking_up.header(number) if number <= self.confirmed_height() else None
        return _block(header) if header is not None else None

    async def transactions_in(self, number: int) -> tuple[IndexedTransaction, ...]:
        """List the transactions of a block."""
        block = await self._looking_up.block(number) if number <= self.confirmed_height() else None
        return await self._transactions_of(block) if block is not None else ()

    async def transaction(self, transaction_hash: bytes) -> IndexedTransaction | None:
        """Return a transaction by its hash."""
        found = await self._found(transaction_hash)
        return _transaction(found.block, found.place, found.receipt) if found is not None else None

    async def transaction_with_nonce(self, sender: ContractAddress, nonce: int) -> IndexedTransaction | None:
        """Return a transaction by its account and nonce."""
        found = await self._looking_up.transaction_with_nonce(sender, nonce, self.confirmed_height())
        return _transaction(found.block, found.place, found.receipt) if found is not None else None

    async def events_of(self, transaction_hash: bytes) -> tuple[IndexedEvent, ...]:
        """Return the events of a transaction."""
        found = await self._found(transaction_hash)
        return _events(found) if found is not None else ()

    async def decoded_events(
        self, transaction_hash: bytes, entries: tuple[AbiEntry, ...], result_format: str
    ) -> tuple[DecodedEvent, ...]:
        """Return its events that an ABI matches, decoded."""
        try:
            known = [
                each for each in codec.entries_of([dict(entry) for entry in entries], "abi") if each.kind == "event"
            ]
            style = codec.Style.parse(result_format, "resultFormat")
        except Rejected as flaw:
            raise errors.invalid(flaw.field, flaw.message) from None
        found = await self._found(transaction_hash)
        if found is None:
            return ()
        shown = zip(found.receipt.logs, _events(found, with_all_logs=True), strict=True)
        decoded = (_decoded(log, event, known, style) for log, event in shown)
        return tuple(each for each in decoded if each is not None)

    # Queries.

    async def query_blocks(self, query: JsonValue) -> tuple[IndexedBlock, ...]:
        """Return the blocks that a query matches, of a bounded range."""
        wanted = read_query(query)
        first, last = self._range(wanted, "number", HEADERS_MAX)
        headers = await self._looking_up.headers(range(last, first - 1, -1))
        return await selected(wanted, [_block(header) for header in headers], BlockRow.of, ROWS_DEFAULT)

    async def query_transactions(self, query: JsonValue) -> tuple[IndexedTransaction, ...]:
        """Return the transactions that a query matches: of one hash, or of a bounded range of blocks."""
        wanted = read_query(query)
        named = _word_in(wanted, "hash")
        if named is not None:
            found = await self.transaction(named)
            return await selected(wanted, [found] if found is not None else [], TransactionRow.of, ROWS_DEFAULT)
        first, last = self._range(wanted, "blockNumber", BLOCKS_MAX)
        every: list[IndexedTransaction] = []
        for number in range(last, first - 1, -1):
            block = await self._looking_up.block(number)
            if block is not None and block.calls:
                every += reversed(await self._transactions_of(block))
        return await selected(wanted, every, TransactionRow.of, ROWS_DEFAULT)

    async def query_transactions_with_receipts(self, query: JsonValue) -> tuple[IndexedTransaction, ...]:
        """Return those of them that have a receipt at this node, in the latest blocks with such."""
        wanted = read_query(query)
        first, last = self._bounds(wanted, "blockNumber")
        found = await self._with_receipts(first, last, BLOCKS_MAX) if first <= last else {}
        every: list[IndexedTransaction] = []
        for number, hashes in found.items():
            every += [each for each in (await self.transactions_in(number))[::-1] if each.hash.content in hashes]
        return await selected(wanted, every, TransactionRow.of, ROWS_DEFAULT)

    async def query_events(self, query: JsonValue) -> tuple[IndexedEvent, ...]:
        """Return the events that a query matches: of one transaction, or of a bounded range of blocks."""
        wanted = read_query(query)
        named = _word_in(wanted, "transactionHash")
        if named is not None:
            return await selected(wanted, (await self.events_of(named))[::-1], EventRow.of, ROWS_DEFAULT)
        first, last = self._range(wanted, "blockNumber", HEADERS_MAX)
        logs = [log for log in await self._looking_up.logs(first, last) if log.topics] if first <= last else []
        places = await self._places(logs)
        every = [_event(log, places[log.transaction_hash]) for log in reversed(logs)]
        return await selected(wanted, every, EventRow.of, ROWS_DEFAULT)

    def _range(self, query: Query, name: str, most: int) -> tuple[int, int]:
        """Return the range of blocks to which a query is limited, cut to the latest `most`."""
        first, last = self._bounds(query, name)
        return max(first, last - most + 1), last

    def _bounds(self, query: Query, name: str) -> tuple[int, int]:
        """Return the first and last block to which the query's statements limit it."""
        first, last = 0, self.confirmed_height()
        if query.alternatives:
            # Clients that page through blocks put the bounds of the next page into alternatives.
            each = [self._bounds(alternative, name) for alternative in query.alternatives]
            first, last = min(lower for lower, _ in each), max(upper for _, upper in each)
        for statement in query.statements:
            if statement.field != name or statement.is_negated or not statement.values:
                continue
            number = _number(statement.values[0], name)
            if statement.operation in ("eq", "gt", "gte"):
                first = max(first, number + (statement.operation == "gt"))
            if statement.operation in ("eq", "lt", "lte"):
                last = min(last, number - (statement.operation == "lt"))
        return first, last

    # Parts of the answers.

    async def _found(self, transaction_hash: bytes) -> FoundTransaction | None:
        found = await self._looking_up.transaction(transaction_hash)
        is_confirmed = found is not None and found.block.header.height <= self.confirmed_height()
        return found if is_confirmed else None

    async def _transactions_of(self, block: FullBlock) -> tuple[IndexedTransaction, ...]:
        receipts = await self._looking_up.receipts(block)
        return tuple(_transaction(block, place, receipt) for place, receipt in enumerate(receipts))

    async def _places(self, logs: Iterable[Log]) -> dict[bytes, int]:
        """Return the indices of these logs' transactions in their blocks."""
        places: dict[bytes, int] = {}
        for height in dict.fromkeys(log.height for log in logs):
            block = await self._looking_up.block(height)
            places.update({call.hash: n for n, call in enumerate(block.calls)} if block is not None else {})
        return places


# Rows, as queries name their fields.


@dataclass(frozen=True, slots=True)
class BlockRow(Record):
    """A block."""

    number: Uint64
    hash: Bytes32
    timestamp: str

    @classmethod
    def of(cls, block: IndexedBlock) -> BlockRow:
        """Return the row of a block."""
        return cls(block.number, block.hash.content, block.timestamp)


@dataclass(frozen=True, slots=True)
class TransactionRow(Record):
    """A transaction."""

    hash: Bytes32
    block_number: Uint64
    transaction_index: Uint64
    from_: ContractAddress
    to: ContractAddress
    nonce: Uint64
    contract_address: ContractAddress
    result: str

    @classmethod
    def of(cls, shown: IndexedTransaction) -> TransactionRow:
        """Return the row of a transaction; a missing address is zero."""
        return cls(
            shown.hash.content,
            shown.block_number,
            shown.transaction_index,
            shown.sender.contract,
            shown.to.contract if shown.to is not None else NOBODY,
            shown.nonce,
            shown.contract_address.contract if shown.contract_address is not None else NOBODY,
            shown.result,
        )


@dataclass(frozen=True, slots=True)
class EventRow(Record):
    """An event."""

    block_number: Uint64
    transaction_index: Uint64
    log_index: Uint64
    transaction_hash: Bytes32
    signature: Bytes32

    @classmethod
    def of(cls, event: IndexedEvent) -> EventRow:
        """Return the row of an event."""
        return cls(
            event.block_number,
            event.transaction_index,
            event.log_index,
            event.transaction_hash.content,
            event.signature.content,
        )


def _number(given: object, name: str) -> int:
    match given:
        case bool():
            pass
        case int():
            return given
        case str() if given.isdecimal():
            return int(given)
        case str() if given.startswith("0x"):
            try:
                return int(given, 16)
            except ValueError:
                pass
    raise errors.invalid(f"query.{name}", "must be a whole number, as such or as decimal or 0x text")


def _word_in(query: Query, name: str) -> bytes | None:
    """Return the hash that a query names, if any."""
    for statement in query.statements:
        if (statement.field, statement.operation, statement.is_negated) == (name, "eq", False):
            text = str(statement.values[0]).removeprefix("0x")
            try:
                return bytes.fromhex(text).rjust(32, b"\0")
            except ValueError:
                raise errors.invalid(f"query.{name}", "must be 32 bytes as 64 hex digits") from None
    return None


# Conversion for clients.


def _block(header: Header) -> IndexedBlock:
    return IndexedBlock(header.height, word_of(header.hash), timestamp_of(header.time_s * 1_000))


def _transaction(block: FullBlock, place: int, receipt: CallReceipt) -> IndexedTransaction:
    call = block.calls[place]
    return IndexedTransaction(
        word_of(call.hash),
        block.header.height,
        place,
        Address(call.sender),
        call.nonce,
        "success" if receipt.has_succeeded else "failure",
        Address(call.to) if call.to is not None else None,
        Address(receipt.contract) if receipt.contract is not None else None,
        _block(block.header),
    )


def _events(found: FoundTransaction, with_all_logs: bool = False) -> tuple[IndexedEvent, ...]:
    transaction = _transaction(found.block, found.place, found.receipt)
    return tuple(_event(log, found.place, transaction) for log in found.receipt.logs if log.topics or with_all_logs)


def _event(log: Log, place: int, transaction: IndexedTransaction | None = None) -> IndexedEvent:
    """Return an event as clients read it; an anonymous one has no signature and is shown only if an ABI matches it."""
    return IndexedEvent(
        log.height,
        place,
        log.number,
        word_of(log.transaction_hash),
        word_of(log.topics[0] if log.topics else bytes(32)),
        transaction,
        transaction.block if transaction is not None else None,
    )


def _decoded(log: Log, event: IndexedEvent, known: list[codec.Entry], style: codec.Style) -> DecodedEvent | None:
    for entry in known:
        try:
            values = codec.decode_event(entry, log.topics, log.data, "data", style)
        except Rejected:
            continue
        return DecodedEvent(
            event.block_number,
            event.transaction_index,
            event.log_index,
            event.transaction_hash,
            event.signature,
            entry.solidity_signature,
            Address(log.address),
            values,
            event.transaction,
            event.block,
        )
    return None
