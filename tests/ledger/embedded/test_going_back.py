"""Reorganisations, snapshots, and the states of old blocks."""

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.ledger.embedded.blocks import Block
from rota.ledger.embedded.chain import BlockAdded, BlockRemoved, EmbeddedChain, Happening
from rota.ledger.embedded.errors import RpcError
from rota.ledger.embedded.evm import Message
from rota.ledger.embedded.history import LogFilter
from rota.ledger.transaction import created_address
from tests.ledger.embedded.client import ALICE, BOB, CAROL, GWEI, new_chain, payment, signed
from tests.ledger.embedded.contracts import KEEPER, creation, keep

KEEPER_ADDRESS = created_address(ALICE.address, 0)
ACCOUNTS = (ALICE, BOB, CAROL)
SLOTS = range(4)


def keeper_chain() -> EmbeddedChain:
    """A chain with one block, in which Alice created KEEPER."""
    chain = new_chain(base_fee_is_fixed=True)
    chain.submit(signed(payment(0, to=None, data=creation(KEEPER), gas_limit=200_000, value=0)))
    return chain


def keeping(chain: EmbeddedChain, sender: int, slot: int, value: int) -> bytes:
    account = ACCOUNTS[sender]
    nonce = chain.next_nonce(account.address)
    return signed(payment(nonce, to=KEEPER_ADDRESS, value=0, data=keep(slot, value), gas_limit=100_000), account.secret)


def picture(chain: EmbeddedChain) -> tuple[object, ...]:
    """All that can be seen of a chain, by the state and by the EVM; the first is what tells histories apart."""
    addresses = [account.address for account in ACCOUNTS] + [KEEPER_ADDRESS, bytes(20), b"\xee" * 20]
    return (
        chain.head.hash,
        [chain.state.account(address) for address in addresses],
        [chain.state.slot(KEEPER_ADDRESS, slot) for slot in SLOTS],
        [chain.call(balance_of(address)).output for address in addresses],
        [(chain.call(reading(slot)).output, chain.call(reading(slot)).gas_used) for slot in SLOTS],
        [placed.log for placed in chain.history.logs(LogFilter(), 0, chain.head.number, 10_000, None)],
    )


def reading(slot: int) -> Message:
    """What the EVM has in a slot: KEEPER returns what was there before."""
    return Message(ALICE.address, KEEPER_ADDRESS, keep(slot, 0), 0, 100_000, 0)


def balance_of(address: bytes) -> Message:
    """What the EVM has as a balance: a creation whose code is the answer."""
    return Message(ALICE.address, None, b"\x73" + address + bytes.fromhex("315f5260205ff3"), 0, 100_000, 0)


moves = st.lists(
    st.one_of(
        st.tuples(st.just("keep"), st.integers(0, 2), st.integers(0, 3), st.integers(0, 2)),
        st.tuples(st.just("pay"), st.integers(0, 2), st.just(0), st.integers(0, 10**18)),
        st.tuples(st.just("mine"), st.just(0), st.just(0), st.just(0)),
        st.tuples(st.just("set"), st.integers(0, 2), st.just(0), st.integers(10**20, 10**21)),
    ),
    max_size=12,
)
Move = tuple[str, int, int, int]


def make(chain: EmbeddedChain, move: Move) -> None:
    what, sender, slot, value = move
    account = ACCOUNTS[sender]
    if what == "keep":
        chain.submit(keeping(chain, sender, slot, value))
    elif what == "pay":
        chain.submit(signed(payment(chain.next_nonce(account.address), value=value), account.secret))
    elif what == "mine":
        chain.mine()
    else:
        chain.set_account(account.address, chain.state.account(account.address)._replace(balance=value))


@settings(max_examples=30, deadline=None)
@given(moves, moves)
def test_a_snapshot_is_gone_back_to_exactly(before: list[Move], after: list[Move]) -> None:
    chain = keeper_chain()
    for move in before:
        make(chain, move)
    expected = picture(chain)
    snapshot = chain.snapshot()
    for move in after:
        make(chain, move)
    assert chain.restore(snapshot)
    assert picture(chain) == expected
    assert not chain.restore(snapshot)


@settings(max_examples=30, deadline=None)
@given(moves, moves, moves)
def test_a_rolled_back_chain_goes_on_as_if_nothing_had_been(
    before: list[Move], undone: list[Move], after: list[Move]
) -> None:
    chain, other = keeper_chain(), keeper_chain()
    for move in [*before, ("mine", 0, 0, 0)]:
        make(chain, move)
        make(other, move)
    number = chain.head.number
    for move in [*undone, ("mine", 0, 0, 0)]:
        make(chain, move)
    chain.roll_back(chain.head.number - number)
    for move in after:
        make(chain, move)
        make(other, move)
    assert picture(chain)[1:] == picture(other)[1:]


@settings(max_examples=20, deadline=None)
@given(moves)
def test_an_old_block_is_seen_as_it_was(made: list[Move]) -> None:
    chain = keeper_chain()
    seen: dict[int, tuple[object, ...]] = {}
    for move in made:
        # What a test sets belongs to no block, so the block before it may be seen with it or without.
        if move[0] != "set":
            make(chain, move)
            seen[chain.head.number] = picture_at(chain, chain.head)
    for number, expected in seen.items():
        block = chain.history.by_number(number)
        assert block is not None
        assert picture_at(chain, block) == expected


def picture_at(chain: EmbeddedChain, block: Block) -> tuple[object, ...]:
    position = chain.state_position_of(block)
    return (
        [chain.state.account(account.address, position) for account in ACCOUNTS],
        [chain.state.slot(KEEPER_ADDRESS, slot, position) for slot in SLOTS],
        [chain.call(balance_of(account.address), block).output for account in ACCOUNTS],
        [chain.call(reading(slot), block).output for slot in SLOTS],
    )


def test_a_reorganisation_drops_transactions_as_anvil_does() -> None:
    chain = keeper_chain()
    for value in (1, 2, 3):
        chain.submit(keeping(chain, 0, 0, value))
    old = [chain.history.by_number(number) for number in range(5)]
    chain.reorganise(2)
    assert chain.head.number == 4
    assert chain.state.slot(KEEPER_ADDRESS, 0) == 1
    assert chain.next_nonce(ALICE.address) == 2
    new = [chain.history.by_number(number) for number in range(5)]
    assert old[:3] == new[:3]
    assert all(
        before is not None and after is not None and before.hash != after.hash
        for before, after in zip(old[3:], new[3:], strict=True)
    )
    assert old[4] is not None
    assert chain.history.by_hash(old[4].hash) is None
    assert chain.history.receipt(old[4].receipts[0].transaction.hash) is None


def test_a_reorganisation_can_return_transactions_to_the_pool() -> None:
    chain = keeper_chain()
    hashes = [chain.submit(keeping(chain, 0, 0, value)) for value in (1, 2, 3)]
    chain.reorganise(2, blocks=3, transactions_return=True)
    # Three empty blocks, and then what had been in the old ones.
    assert chain.head.number == 6
    assert [receipt.transaction.hash for receipt in chain.head.receipts] == hashes[1:]
    assert chain.state.slot(KEEPER_ADDRESS, 0) == 3


def test_a_reorganisation_can_hold_other_transactions_in_the_blocks_that_it_is_told() -> None:
    chain = keeper_chain()
    for value in (1, 2):
        chain.submit(keeping(chain, 0, 0, value))
    others = [
        (signed(payment(1, to=KEEPER_ADDRESS, value=0, data=keep(0, 8), gas_limit=100_000)), 0),
        (signed(payment(2, to=KEEPER_ADDRESS, value=0, data=keep(0, 9), gas_limit=100_000)), 1),
    ]
    chain.reorganise(2, transactions=others)
    assert chain.head.number == 3
    assert [len(block.receipts) for block in (chain.history.by_number(2), chain.head) if block] == [1, 1]
    assert chain.state.slot(KEEPER_ADDRESS, 0) == 9


def test_a_transaction_that_the_new_chain_refuses_is_told_when_the_chain_is_whole_again() -> None:
    chain = keeper_chain()
    chain.submit(keeping(chain, 0, 0, 1))
    with pytest.raises(RpcError, match=r"reorganised, but not every transaction was taken: nonce too low"):
        chain.reorganise(1, transactions=[(signed(payment(0, value=5)), 0)])
    assert chain.head.number == 2
    chain.submit(keeping(chain, 0, 0, 2))
    assert chain.state.slot(KEEPER_ADDRESS, 0) == 2


@pytest.mark.parametrize(
    ("order", "flaw"),
    [
        (lambda chain: chain.reorganise(0), "depth is at least 1, not 0"),
        (lambda chain: chain.reorganise(9), "depth is at most 3, the number of the latest block, not 9"),
        (lambda chain: chain.reorganise(1, blocks=100_000), "at most 10000 new blocks"),
        (lambda chain: chain.reorganise(1, transactions=[(b"", 0)]), "invalid transaction: a transaction is not empty"),
        (lambda chain: chain.reorganise(1, transactions=[(signed(payment(0)), 1)]), "one of the 1 new blocks"),
        (lambda chain: chain.roll_back(4), "depth is at most 3"),
    ],
)
def test_a_reorganisation_that_cannot_be_is_refused_and_changes_nothing(
    order: Callable[[EmbeddedChain], None], flaw: str
) -> None:
    chain = keeper_chain()
    for value in (1, 2):
        chain.submit(keeping(chain, 0, 0, value))
    head = chain.head
    with pytest.raises(RpcError, match=flaw):
        order(chain)
    assert chain.head is head


def test_listeners_are_told_what_goes_latest_first_and_then_what_comes() -> None:
    chain = keeper_chain()
    chain.mine(3)
    told: list[Happening] = []
    stop = chain.listen(told.append)
    chain.reorganise(2)
    assert [(type(each), each.block.number) for each in told if not hasattr(each, "waiting")] == [
        (BlockRemoved, 4),
        (BlockRemoved, 3),
        (BlockAdded, 3),
        (BlockAdded, 4),
    ]
    stop()
    chain.mine()
    assert len(told) == 4


def test_states_are_kept_as_far_back_as_was_asked_for() -> None:
    chain = new_chain(history_max=5)
    chain.submit(signed(payment(0)))
    snapshot = chain.snapshot()
    for nonce in range(1, 6):
        chain.submit(signed(payment(nonce)))
    block = chain.history.by_number(1)
    assert block is not None
    assert chain.call(Message(ALICE.address, BOB.address, b"", 0, 21_000, 0), block).succeeded
    chain.submit(signed(payment(6)))
    with pytest.raises(RpcError, match="missing trie node: the state of block 1 is no longer kept"):
        chain.call(Message(ALICE.address, BOB.address, b"", 0, 21_000, 0), block)
    with pytest.raises(RpcError, match="block 1 is out of reach: the states of the latest 5 blocks are kept"):
        chain.reorganise(6)
    with pytest.raises(RpcError, match="snapshot 0x1 is older than the latest 5 blocks"):
        chain.restore(snapshot)
    chain.reorganise(5)


def test_old_blocks_go_when_there_are_too_many() -> None:
    chain = new_chain(history_max=2, blocks_max=4)
    first = chain.submit(signed(payment(0)))
    chain.mine(3)
    assert chain.history.oldest_number == 1
    assert chain.history.receipt(first) is not None
    chain.mine()
    assert chain.history.oldest_number == 2
    assert chain.history.by_number(1) is None
    assert chain.history.receipt(first) is None


def test_old_blocks_go_when_there_are_too_many_transactions() -> None:
    chain = new_chain(history_max=2, transactions_max=3)
    for nonce in range(5):
        chain.submit(signed(payment(nonce)))
    assert chain.history.oldest_number == 3
    assert chain.head.number == 5


def test_a_snapshot_restores_the_pool_and_the_time() -> None:
    chain = new_chain(instant=False)
    kept = chain.submit(signed(payment(0)))
    snapshot = chain.snapshot()
    chain.clock.increase(1_000)
    chain.submit(signed(payment(1)))
    chain.mine()
    assert chain.restore(snapshot)
    assert [waiting.signed.hash for waiting in chain.pool.all()] == [kept]
    assert chain.clock.offset_s == 0


def test_a_snapshot_of_what_was_reorganised_away_is_not_restored() -> None:
    chain = keeper_chain()
    early = chain.snapshot()
    chain.submit(keeping(chain, 0, 0, 1))
    late = chain.snapshot()
    chain.reorganise(1)
    assert not chain.restore(late)
    assert chain.restore(early)


def test_the_oldest_snapshots_are_forgotten_when_there_are_too_many() -> None:
    chain = new_chain(snapshots_max=2)
    first, second, third = (chain.snapshot() for _ in range(3))
    assert not chain.restore(first)
    assert chain.restore(third)
    assert chain.restore(second)


def test_a_block_that_replaces_another_of_the_same_content_has_another_hash() -> None:
    chain = new_chain()
    chain.mine()
    before = chain.head.hash
    chain.reorganise(1)
    assert chain.head.hash != before


def test_gas_is_paid_to_the_wei() -> None:
    chain = new_chain(base_fee_wei=3 * GWEI, base_fee_is_fixed=True)
    chain.submit(signed(payment(0, value=5)))
    (receipt,) = chain.head.receipts
    assert receipt.effective_gas_price == 4 * GWEI
    assert chain.state.account(ALICE.address).balance == 10_000 * 10**18 - 5 - 21_000 * 4 * GWEI
    assert chain.state.account(b"\xee" * 20).balance == 5
    assert chain.state.account(bytes(20)).balance == 21_000 * GWEI  # the tip; the rest is burnt


def test_a_call_leaves_no_trace() -> None:
    chain = keeper_chain()
    before = picture(chain)
    assert chain.call(Message(ALICE.address, KEEPER_ADDRESS, keep(1, 2), 0, 100_000, 0)).succeeded
    assert picture(chain) == before
