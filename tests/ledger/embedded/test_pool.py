"""What waits for a block, and in which order it is mined."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.ledger.embedded.accounts import DEVELOPMENT_ACCOUNTS
from rota.ledger.embedded.errors import RpcError
from rota.ledger.embedded.fees import effective_price
from rota.ledger.transaction import LegacyTransaction
from tests.ledger.embedded.client import ALICE, BOB, GWEI, new_chain, payment, signed


def test_a_transaction_behind_a_gap_waits_for_what_is_missing() -> None:
    chain = new_chain()
    second = chain.submit(signed(payment(1)))
    assert chain.head.number == 0
    assert chain.next_nonce(ALICE.address) == 0
    first = chain.submit(signed(payment(0)))
    assert [receipt.transaction.hash for receipt in chain.head.receipts] == [first, second]
    assert chain.next_nonce(ALICE.address) == 2
    assert len(chain.pool) == 0


@pytest.mark.parametrize(
    ("fee", "tip", "is_taken"),
    [(110, 11, True), (109, 11, False), (110, 10, False), (200, 10, False), (100, 100, False)],
)
def test_a_replacement_pays_a_tenth_more_in_both_fees(fee: int, tip: int, is_taken: bool) -> None:
    chain = new_chain(instant=False)
    old = chain.submit(signed(payment(0, max_fee_per_gas=100 * GWEI, max_priority_fee_per_gas=10 * GWEI)))
    raw = signed(payment(0, max_fee_per_gas=fee * GWEI, max_priority_fee_per_gas=tip * GWEI, value=2))
    if is_taken:
        new = chain.submit(raw)
        assert chain.pool.get(old) is None
        chain.mine()
        assert [receipt.transaction.hash for receipt in chain.head.receipts] == [new]
    else:
        with pytest.raises(RpcError, match=r"^replacement transaction underpriced$"):
            chain.submit(raw)
        assert chain.pool.get(old) is not None


REFUSED = [
    pytest.param(payment(0, chain_id=1), "invalid chain id for signer: have 1 want 31337", id="chain id"),
    pytest.param(
        LegacyTransaction(nonce=0, gas_price=GWEI, gas_limit=21_000, to=b"\xee" * 20, chain_id=5),
        "invalid chain id for signer: have 5 want 31337",
        id="legacy chain id",
    ),
    pytest.param(
        payment(0, gas_limit=20_999), "intrinsic gas too low: gas 20999, minimum needed 21000", id="intrinsic"
    ),
    pytest.param(
        payment(0, data=b"\x01" * 100, gas_limit=24_000),
        "insufficient gas for floor data gas cost: gas 24000, minimum needed 25000",
        id="floor",
    ),
    pytest.param(payment(0, gas_limit=60_000_001), "exceeds block gas limit", id="block gas limit"),
    pytest.param(
        payment(0, max_priority_fee_per_gas=11 * GWEI),
        "max priority fee per gas higher than max fee per gas",
        id="tip above fee",
    ),
    pytest.param(payment(0, value=10**22), "insufficient funds for gas \\* price \\+ value: balance", id="funds"),
    pytest.param(
        payment(0, to=None, data=bytes(49_153), gas_limit=10**7), "max initcode size exceeded", id="init code"
    ),
    pytest.param(payment(2**64 - 1), "nonce has max value", id="nonce"),
]


@pytest.mark.parametrize(("transaction", "text"), REFUSED)
def test_what_cannot_be_mined_is_refused_in_the_words_of_geth(transaction: LegacyTransaction, text: str) -> None:
    chain = new_chain()
    with pytest.raises(RpcError, match=text) as error:
        chain.submit(signed(transaction))
    assert error.value.code == -32_000
    assert chain.head.number == 0
    assert len(chain.pool) == 0


def test_a_used_nonce_and_a_known_transaction_are_refused_in_the_words_of_geth() -> None:
    chain = new_chain(instant=False)
    raw = signed(payment(0))
    chain.submit(raw)
    with pytest.raises(RpcError, match=r"^already known$"):
        chain.submit(raw)
    chain.mine()
    for mined_or_not in (raw, signed(payment(0, value=7))):
        with pytest.raises(RpcError, match=r"^nonce too low: next nonce 1, tx nonce 0$"):
            chain.submit(mined_or_not)


def test_bytes_that_are_no_transaction_are_refused_with_what_is_wrong() -> None:
    chain = new_chain()
    with pytest.raises(RpcError, match="invalid transaction: transaction type 5 is not supported"):
        chain.submit(b"\x05\xc0")


def test_all_that_a_sender_has_queued_must_be_paid_for() -> None:
    chain = new_chain(instant=False)
    chain.submit(signed(payment(0, value=6_000 * 10**18)))
    with pytest.raises(RpcError, match=r"insufficient funds .* queued cost"):
        chain.submit(signed(payment(1, value=6_000 * 10**18)))
    # The one that it replaces does not count twice.
    chain.submit(signed(payment(0, value=7_000 * 10**18, max_fee_per_gas=11 * GWEI, max_priority_fee_per_gas=2 * GWEI)))


def test_the_pool_is_bounded_as_a_whole_and_for_each_sender() -> None:
    chain = new_chain(instant=False, pool_max=3, pool_per_sender_max=2)
    chain.submit(signed(payment(0)))
    chain.submit(signed(payment(1)))
    with pytest.raises(RpcError, match="txpool is full"):
        chain.submit(signed(payment(2)))
    chain.submit(signed(payment(0), BOB.secret))
    with pytest.raises(RpcError, match="txpool is full"):
        chain.submit(signed(payment(1), BOB.secret))


def test_a_fee_below_the_base_fee_waits_until_the_base_fee_has_fallen() -> None:
    chain = new_chain(instant=False)
    poor = chain.submit(signed(payment(0, max_fee_per_gas=GWEI // 2, max_priority_fee_per_gas=1)))
    chain.mine()
    assert not chain.head.receipts
    while chain.next_base_fee_wei > GWEI // 2:
        chain.mine()
    chain.mine()
    assert [receipt.transaction.hash for receipt in chain.head.receipts] == [poor]


def test_what_its_sender_can_no_longer_pay_for_is_dropped() -> None:
    chain = new_chain(instant=False)
    chain.submit(signed(payment(0, value=9_000 * 10**18)))
    chain.set_account(ALICE.address, chain.state.account(ALICE.address)._replace(balance=10**18))
    chain.mine()
    assert not chain.head.receipts
    assert len(chain.pool) == 0


def test_a_block_takes_no_more_than_its_gas() -> None:
    chain = new_chain(instant=False, gas_limit=50_000)
    for nonce in range(3):
        chain.submit(signed(payment(nonce)))
    chain.mine()
    assert len(chain.head.receipts) == 2
    assert chain.head.header.gas_used == 42_000
    chain.mine()
    assert len(chain.head.receipts) == 1


arrivals = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 4), st.integers(1, 5), st.integers(2, 12)), min_size=1, max_size=20
)


@settings(max_examples=40, deadline=None)
@given(arrivals)
def test_blocks_hold_what_is_executable_best_paid_first_and_in_order_of_nonces(
    wanted: list[tuple[int, int, int, int]],
) -> None:
    chain = new_chain(instant=False, base_fee_is_fixed=True, base_fee_wei=5 * GWEI)
    for sender, nonce, tip, fee in wanted:
        transaction = payment(nonce, max_priority_fee_per_gas=min(tip, fee) * GWEI, max_fee_per_gas=fee * GWEI)
        try:
            chain.submit(signed(transaction, DEVELOPMENT_ACCOUNTS[sender].secret))
        except RpcError as error:
            assert error.message in ("already known", "replacement transaction underpriced")  # noqa: PT017
    left = {(waiting.sender, waiting.nonce): waiting for waiting in chain.pool.all()}
    chain.mine()

    next_nonces = {account.address: 0 for account in DEVELOPMENT_ACCOUNTS[:3]}
    for receipt in chain.head.receipts:
        heads = [left[each, nonce] for each, nonce in next_nonces.items() if (each, nonce) in left]
        best = min(
            (waiting for waiting in heads if waiting.signed.transaction.max_fee_per_gas >= 5 * GWEI),  # type: ignore[union-attr]
            key=lambda waiting: (-effective_price(waiting.signed.transaction, 5 * GWEI), waiting.arrival),
        )
        assert receipt.transaction == best.signed
        next_nonces[best.sender] += 1
    blocked = [left[each, nonce] for each, nonce in next_nonces.items() if (each, nonce) in left]
    assert all(waiting.signed.transaction.max_fee_per_gas < 5 * GWEI for waiting in blocked)  # type: ignore[union-attr]
    assert {each: chain.state.account(each).nonce for each in next_nonces} == next_nonces
