"""A whole Ethereum chain in this process: accounts, pool, blocks, and a real EVM.

Start reading here. Transactions are admitted (`admission`), wait (`pool`), run (`evm`) against the `state`, and end in
a block (`blocks`) of the `history`. Everything is one object that one thread uses, and every method completes its work
before it returns, so that no caller ever sees half a block.

Blocks are made *instantly*, as soon as an executable transaction has arrived, or by a *timer*, or when `mine` is
called; the first two can be on together. Transactions that arrive inside `together` share a block.

The chain can go back: `reorganise` replaces blocks by others, `restore` goes back to a `snapshot`. Both undo the
state's journal, which reaches `history_max` blocks back; so do calls at an old block. Listeners are notified of each
block added or removed, in that order.

This module has no elliptic curve, because the layer of keys is beside the ledger and not below it: `Curve` is passed
in, in practice `rota.keys.secp256k1`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final, Protocol

from rota.ledger.embedded.accounts import DEVELOPMENT_ACCOUNTS, DevelopmentAccount
from rota.ledger.embedded.admission import check_form, check_sender
from rota.ledger.embedded.blocks import NO_BLOOM, Block, Receipt, bloom_of, make_block
from rota.ledger.embedded.clock import ChainClock
from rota.ledger.embedded.errors import RpcError, rejected
from rota.ledger.embedded.evm import NO_ADDRESS, BlockContext, Evm, Message, Outcome
from rota.ledger.embedded.fees import effective_price, floor_gas, next_base_fee
from rota.ledger.embedded.history import History
from rota.ledger.embedded.pool import Pool, Waiting
from rota.ledger.embedded.settings import Settings
from rota.ledger.embedded.state import EMPTY_CODE_HASH, Account, AccountChange, Changes, SlotChange, State
from rota.ledger.embedded.timer import BlockTimer
from rota.ledger.transaction import (
    SignedTransaction,
    Transaction,
    created_address,
    decode,
    signing_hash,
    with_signature,
)
from rota.model.digests import keccak
from rota.revm import NotRunnable

BLOCKS_AT_ONCE_MAX: Final = 10_000
WORD_MAX: Final = 2**256 - 1  # A test may have made the block's maker as rich as can be.


class Signer(Protocol):
    """A key that signs a hash with 65 bytes."""

    def sign(self, digest: bytes) -> bytes: ...


class Curve(Protocol):
    """The operations on elliptic curves that a chain needs; the module `rota.keys.secp256k1` has them."""

    def private_key(self, secret: bytes) -> Signer: ...

    def recover_address(self, digest: bytes, signature: bytes) -> bytes: ...


@dataclass(frozen=True, slots=True)
class BlockAdded:
    block: Block


@dataclass(frozen=True, slots=True)
class BlockRemoved:
    block: Block


@dataclass(frozen=True, slots=True)
class TransactionPooled:
    waiting: Waiting


Happening = BlockAdded | BlockRemoved | TransactionPooled
Listener = Callable[[Happening], None]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state of the chain to go back to."""

    block: Block
    state_position: int
    pool: tuple[Waiting, ...]
    clock_offset_s: int


class EmbeddedChain:
    """The chain. Not thread-safe."""

    def __init__(self, settings: Settings, curve: Curve) -> None:
        self.settings: Final = settings
        self.curve: Final = curve
        self.accounts: Final[tuple[DevelopmentAccount, ...]] = DEVELOPMENT_ACCOUNTS[: settings.account_count]
        self.instant = settings.instant
        self.state: Final = State()
        self.pool: Final = Pool(settings.pool_max, settings.pool_per_sender_max)
        self.history: Final = History(settings.blocks_max, settings.transactions_max)
        self.clock: Final = ChainClock(settings.clock_s)
        self._timer: Final = BlockTimer(self.mine, settings.block_time_ms)
        self._evm: Final = Evm(settings.chain_id, settings.gas_limit, self.state)
        self._listeners: Final[list[Listener]] = []
        self._snapshots: Final[dict[int, Snapshot]] = {}
        self._snapshots_made = 0
        self._blocks_made = 0
        self._together_depth = 0
        self._next_base_fee_wei: int | None = None  # if a test wants another than the rule gives
        self._begin()

    @property
    def head(self) -> Block:
        return self.history.head

    @property
    def next_base_fee_wei(self) -> int:
        """The base fee of the next block."""
        if self._next_base_fee_wei is not None:
            return self._next_base_fee_wei
        header = self.head.header
        if self.settings.base_fee_is_fixed:
            return header.base_fee_wei
        return next_base_fee(header.base_fee_wei, header.gas_used, header.gas_limit)

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Call `listener` with every event from now on, until the returned function is called."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def start(self) -> None:
        """Start the timer, in the running event loop."""
        self._timer.start()

    def stop(self) -> None:
        """Stop the timer."""
        self._timer.stop()

    # Transactions

    def submit(self, raw: bytes) -> bytes:
        """Submit a signed transaction; return its hash, or raise `RpcError`."""
        try:
            signed = decode(raw)
            sender = signed.sender(self.curve.recover_address)
        except ValueError as error:
            raise rejected(f"invalid transaction: {error}") from error
        return self._admit(signed, sender)

    def sign_and_submit(self, account: DevelopmentAccount, transaction: Transaction) -> bytes:
        """Sign for one of the chain's own accounts, and submit the transaction; return its hash."""
        key = self.curve.private_key(account.secret)
        signed = with_signature(transaction, key.sign(signing_hash(transaction)))
        return self._admit(signed, account.address)

    def next_nonce(self, address: bytes) -> int:
        """Return the nonce of this account's next transaction, after all that wait without a gap."""
        return self.pool.next_nonce(address, self.state.account(address).nonce)

    @contextmanager
    def together(self) -> Iterator[None]:
        """Put transactions that arrive inside into one block, as far as they fit."""
        self._together_depth += 1
        try:
            yield
        finally:
            self._together_depth -= 1
            self._mine_if_instant()

    # Blocks

    @property
    def block_time_ms(self) -> int | None:
        """The interval of the timer, or None."""
        return self._timer.interval_ms

    def set_block_time(self, block_time_ms: int | None) -> None:
        """Set the interval of the timer; None stops it."""
        self._timer.set_interval(block_time_ms)

    def set_instant(self, instant: bool) -> None:
        """Set whether a block is made as soon as transactions arrive; if so, make those for waiting ones now."""
        self.instant = instant
        self._mine_if_instant()

    def mine(self, count: int = 1, interval_s: int = 0) -> None:
        """Make blocks of executable transactions, empty ones too; with an interval, that far apart in chain time."""
        if not 0 <= count <= BLOCKS_AT_ONCE_MAX:
            raise rejected(f"at most {BLOCKS_AT_ONCE_MAX} blocks are mined at once, not {count}")
        for place in range(count):
            if place and interval_s:
                self.clock.set_next(self.head.header.timestamp_s + interval_s)
            self._mine_block()

    def call(self, message: Message, block: Block | None = None) -> Outcome:
        """Run a message on the current state or on that after a block, without changing it.

        The machine runs nothing whose sender has code (EIP-3607), so a calling contract's code is removed during the
        call. Only code that calls it back would see a difference; a contract that calls itself is refused.
        """
        at = self.head if block is None else block
        position = self.state_position_of(at)
        header = at.header
        later = self.state.since(position)
        sender = self.state.account(message.sender, position)
        if sender.has_code and message.to == message.sender:
            raise rejected("from: this chain cannot call a contract in its own name; leave from out, or try Anvil")
        hidden = Changes({message.sender: AccountChange(sender, sender._replace(code_hash=EMPTY_CODE_HASH))})
        for changes in reversed(later):
            self._evm.write(changes.reversed())
        if sender.has_code:
            self._evm.write(hidden)
        try:
            self._evm.enter_block(BlockContext(header.number, header.timestamp_s, header.random))
            return self._evm.run(message)
        except NotRunnable as error:
            raise rejected(_why_not_runnable(str(error))) from error
        finally:
            if sender.has_code:
                self._evm.write(hidden.reversed())
            for changes in later:
                self._evm.write(changes)

    def state_position_of(self, block: Block) -> int:
        """Return the journal's position after this block; raise `RpcError` when that is no longer kept."""
        if block is self.head:
            return self.state.position
        if block.state_position < self.state.oldest_position:
            raise rejected(
                f"missing trie node: the state of block {block.number} is no longer kept, only that of the latest "
                f"{self.settings.history_max} blocks"
            )
        return block.state_position

    # Going back

    def reorganise(
        self,
        depth: int,
        *,
        blocks: int | None = None,
        transactions: Sequence[tuple[bytes, int]] = (),
        transactions_return: bool = False,
    ) -> None:
        """Replace the latest `depth` blocks by `blocks` others (as many by default).

        Transactions of the old blocks are dropped, or return to the pool. `transactions` are raw ones, each with the
        index of its new block; other new blocks are empty.
        """
        count = depth if blocks is None else blocks
        self._check_reorganisation(depth, count, transactions)
        removed = self._go_back_to(self._reachable(self.head.number - depth))
        refused: list[str] = []
        with self.together():
            if transactions_return:
                for receipt in (receipt for block in removed for receipt in block.receipts):
                    # A transaction without funds on the shorter chain is dropped, as in the pool of any node.
                    with suppress(RpcError):
                        self._admit(receipt.transaction, receipt.sender)
            for place in range(count):
                raws = [raw for raw, block_place in transactions if block_place == place]
                self._mine_block(self._submitted(raws, refused))
        if refused:
            raise rejected(f"the chain is reorganised, but not every transaction was taken: {'; '.join(refused)}")

    def roll_back(self, depth: int) -> None:
        """Remove the latest `depth` blocks, and their transactions with them."""
        self._check_reorganisation(depth, 0, ())
        self._go_back_to(self._reachable(self.head.number - depth))

    def snapshot(self) -> int:
        """Record the chain's state; return a number for `restore`. The oldest are dropped when there are too many."""
        self._snapshots_made += 1
        self._snapshots[self._snapshots_made] = Snapshot(
            self.head, self.state.position, self.pool.all(), self.clock.offset_s
        )
        while len(self._snapshots) > self.settings.snapshots_max:
            del self._snapshots[next(iter(self._snapshots))]
        return self._snapshots_made

    def restore(self, snapshot_number: int) -> bool:
        """Go back to a snapshot, which is used up with all later ones; return whether it existed."""
        snapshot = self._snapshots.get(snapshot_number)
        if snapshot is None:
            return False
        if snapshot.state_position < self.state.oldest_position:
            raise rejected(
                f"snapshot {snapshot_number:#x} is older than the latest {self.settings.history_max} blocks, "
                "and its state is no longer kept"
            )
        self._go_back_to(snapshot.block, snapshot.state_position)
        for number in [number for number in self._snapshots if number >= snapshot_number]:
            del self._snapshots[number]
        self.clock.offset_s = snapshot.clock_offset_s
        self.pool.clear()
        for waiting in snapshot.pool:
            self.pool.add(waiting.signed, waiting.sender)
        return True

    # Changes by tests.

    def set_account(self, address: bytes, account: Account) -> None:
        """Set an account."""
        self._apply(Changes({address: AccountChange(self.state.account(address), account)}))

    def set_slot(self, address: bytes, number: int, value: int) -> None:
        """Set a slot of an account's storage."""
        self._apply(Changes(slots={(address, number): SlotChange(self.state.slot(address, number), value)}))

    def set_next_base_fee(self, base_fee_wei: int) -> None:
        """Set the next block's base fee in place of the computed one."""
        self._next_base_fee_wei = base_fee_wei

    # Inside

    def _begin(self) -> None:
        funded = Account(balance=self.settings.account_balance_wei)
        self._apply(Changes({each.address: AccountChange(Account(), funded) for each in self.accounts}))
        self.history.append(
            make_block(
                None,
                (),
                self.state.since(0),
                gas_limit=self.settings.gas_limit,
                timestamp_s=self.clock.next_s(0),
                random=keccak(b"genesis"),
                base_fee_wei=self.settings.base_fee_wei,
                state_position=self.state.position,
            )
        )

    def _admit(self, signed: SignedTransaction, sender: bytes) -> bytes:
        transaction = signed.transaction
        check_form(transaction, self.settings.chain_id, self.settings.gas_limit)
        queued = self.pool.queued_cost(sender, transaction.nonce)
        check_sender(transaction, sender, self.state.account(sender), queued)
        self._tell(TransactionPooled(self.pool.add(signed, sender)))
        self._mine_if_instant()
        return signed.hash

    def _mine_if_instant(self) -> None:
        """Make as many blocks as executable transactions need; each takes at least one, so this ends."""
        while self.instant and not self._together_depth and self._has_executable():
            self._mine_block()

    def _has_executable(self) -> bool:
        return next(self.pool.executable(self._nonce_of, self.next_base_fee_wei), None) is not None

    def _nonce_of(self, sender: bytes) -> int:
        return self.state.account(sender).nonce

    def _mine_block(self, wanted: set[bytes] | None = None) -> Block:
        """Make a block of the executable transactions, or of those among them that are wanted."""
        parent = self.head
        base_fee_wei = self.next_base_fee_wei
        self._blocks_made += 1
        context = BlockContext(
            parent.number + 1,
            self.clock.next_s(parent.header.timestamp_s),
            # No two blocks have the same, so no two have the same hash, even when one replaces the other.
            keccak(parent.hash + self._blocks_made.to_bytes(8, "big")),
        )
        block = make_block(
            parent,
            self._run_transactions(context, base_fee_wei, wanted),
            self.state.since(parent.state_position),
            number=context.number,
            gas_limit=self.settings.gas_limit,
            timestamp_s=context.timestamp_s,
            random=context.random,
            base_fee_wei=base_fee_wei,
            state_position=self.state.position,
        )
        self._next_base_fee_wei = None
        self.history.append(block)
        oldest = self.history.by_number(block.number - self.settings.history_max)
        if oldest is not None:
            self.state.forget_before(oldest.state_position)
        self._tell(BlockAdded(block))
        return block

    def _run_transactions(self, context: BlockContext, base_fee_wei: int, wanted: set[bytes] | None) -> list[Receipt]:
        """Run executable transactions until the block is full; drop those that their sender can no longer send."""
        self._evm.enter_block(context)
        receipts: list[Receipt] = []
        gas_used = log_count = 0
        for waiting in self.pool.executable(self._nonce_of, base_fee_wei):
            transaction = waiting.signed.transaction
            if wanted is not None and waiting.signed.hash not in wanted:
                continue
            if transaction.gas_limit > self.settings.gas_limit - gas_used:
                continue
            self.pool.remove(waiting.signed.hash)
            price = effective_price(transaction, base_fee_wei)
            account = self.state.account(waiting.sender)
            if account.balance < transaction.gas_limit * price + transaction.value or account.has_code:
                continue
            outcome, gas = self._run_transaction(waiting, price, base_fee_wei)
            gas_used += gas
            receipts.append(
                Receipt(
                    waiting.signed,
                    waiting.sender,
                    context.number,
                    len(receipts),
                    outcome.succeeded,
                    gas,
                    gas_used,
                    price,
                    created_address(waiting.sender, transaction.nonce) if transaction.to is None else None,
                    outcome.logs,
                    log_count,
                    bloom_of(outcome.logs) if outcome.logs else NO_BLOOM,
                    outcome.output if outcome.reverted else b"",
                )
            )
            log_count += len(outcome.logs)
        return receipts

    def _run_transaction(self, waiting: Waiting, price: int, base_fee_wei: int) -> tuple[Outcome, int]:
        """Run a transaction, charge for it, and apply its changes; return the outcome and the gas charged."""
        transaction, sender = waiting.signed.transaction, waiting.sender
        message = Message(
            sender,
            transaction.to,
            transaction.data,
            transaction.value,
            transaction.gas_limit,
            price,
            getattr(transaction, "access_list", ()),
        )
        outcome = self._evm.run(message)
        gas = max(outcome.gas_used, floor_gas(transaction.data))
        accounts = dict(outcome.changes.accounts)
        before = self.state.account(sender)
        after = accounts[sender].after if sender in accounts else before
        accounts[sender] = AccountChange(
            before, after._replace(nonce=before.nonce + 1, balance=after.balance - gas * price)
        )
        # The base fee is burnt; the rest goes to the block's maker.
        tip = gas * (price - base_fee_wei)
        if tip:
            before = self.state.account(NO_ADDRESS)
            after = accounts[NO_ADDRESS].after if NO_ADDRESS in accounts else before
            accounts[NO_ADDRESS] = AccountChange(before, after._replace(balance=min(after.balance + tip, WORD_MAX)))
        self._apply(Changes(accounts, outcome.changes.slots))
        return outcome, gas

    def _apply(self, changes: Changes) -> None:
        self.state.apply(changes)
        self._evm.write(changes)

    def _check_reorganisation(self, depth: int, blocks: int, transactions: Sequence[tuple[bytes, int]]) -> None:
        """Raise `RpcError` for all errors that can be found before anything is removed."""
        if depth < 1:
            raise rejected(f"depth is at least 1, not {depth}")
        if depth > self.head.number:
            raise rejected(f"depth is at most {self.head.number}, the number of the latest block, not {depth}")
        if not 0 <= blocks <= BLOCKS_AT_ONCE_MAX:
            raise rejected(f"at most {BLOCKS_AT_ONCE_MAX} new blocks are mined, not {blocks}")
        for raw, place in transactions:
            if not 0 <= place < blocks:
                raise rejected(
                    f"a transaction goes into one of the {blocks} new blocks, counted from 0, not into {place}"
                )
            try:
                decode(raw).sender(self.curve.recover_address)
            except ValueError as error:
                raise rejected(f"invalid transaction: {error}") from error

    def _submitted(self, raws: list[bytes], refused: list[str]) -> set[bytes]:
        """Submit these transactions; return the hashes of accepted ones, and append the others' errors to `refused`."""
        hashes: set[bytes] = set()
        for raw in raws:
            try:
                hashes.add(self.submit(raw))
            except RpcError as error:
                refused.append(error.message)
        return hashes

    def _reachable(self, number: int) -> Block:
        block = self.history.by_number(number)
        if block is None or block.state_position < self.state.oldest_position:
            raise rejected(
                f"block {number} is out of reach: the states of the latest {self.settings.history_max} blocks are kept"
            )
        return block

    def _go_back_to(self, block: Block, state_position: int | None = None) -> list[Block]:
        """Remove all blocks above `block` and undo their changes; return the removed ones, oldest first."""
        position = block.state_position if state_position is None else state_position
        removed: list[Block] = []
        while self.head is not block:
            removed.append(self.history.pop())
        while self.state.position > position:
            self._evm.write(self.state.undo())
        # A snapshot of undone changes would lead to a wrong state.
        for number in [number for number, each in self._snapshots.items() if each.state_position > position]:
            del self._snapshots[number]
        for each in removed:
            self._tell(BlockRemoved(each))
        return removed[::-1]

    def _tell(self, happening: Happening) -> None:
        for listener in tuple(self._listeners):
            listener(happening)


def _why_not_runnable(text: str) -> str:
    if "LackOfFund" in text:
        return "insufficient funds for gas * price + value"
    if "GasCostMoreThanGasLimit" in text or "Initial gas spend" in text:
        return "intrinsic gas too low"
    if "CreateInitCodeSizeLimit" in text:
        return "max initcode size exceeded"
    return f"execution could not start: {text}"
