"""What a round of coins costs that go into a tree: never more than its bound, however deep and full the tree is."""

from __future__ import annotations

import pytest

from rota.calldata import COMMIT_GAS_MAX, AuthCost, encode_commit, encode_payload, fitting, gas_bound
from rota.calldata.rounds import NO_CONDITION
from rota.model.types import Transition
from tests.contracts.kit import VALID_UNTIL_S
from tests.contracts.test_nullified import NullifiedLedger, coin, nullifier

AUTH = AuthCost.of_proofs()
COLD_GAS = 2_000
# What a transaction looks at that it has not before: three nodes of each of 16 levels, and some words of its own. The
# EVM of these tests takes them all for known.
COLD_WORDS = 3 * 16 + 20


def grown_to(coins: int) -> NullifiedLedger:
    """A ledger whose tree has so many coins; of its edge nothing is kept, which costs as much to look at."""
    ledger = NullifiedLedger()
    ledger.commit(ledger.mint(0, coin("first")))
    counts = 1 | 1 << 64 | 1 << 128
    (slot,) = [place for place in range(32) if ledger.chain.evm.storage(ledger.address, place) == counts]
    ledger.chain.evm.insert_account_storage(ledger.address, slot, coins | 1 << 64 | 1 << 128)
    return ledger


@pytest.mark.parametrize("coins", [0, 1, 3, 4, 15, 4**8 - 1, 4**15 - 1, 4**15 + 5, 2**32 - 64])
@pytest.mark.parametrize("added", [(1,), (5,), (15, 15, 15)])
def test_coins_never_need_more_than_their_bound(coins: int, added: tuple[int, ...]) -> None:
    ledger = grown_to(coins)
    mints = tuple(
        ledger.mint(1 + number, *(coin(f"{number} {n}") for n in range(count))) for number, count in enumerate(added)
    )
    call = encode_commit(encode_payload(mints, VALID_UNTIL_S), ledger.auth(*mints), NO_CONDITION)
    bound = gas_bound(mints, VALID_UNTIL_S, AUTH)
    used = ledger.chain.send(ledger.address, call, gas=bound).gas + COLD_WORDS * COLD_GAS
    print(f"{sum(added)} coins into a tree of {coins}: {used} gas, bound {bound}")
    assert used <= bound


def test_round_of_transfers_fits_into_a_transaction_by_its_bound() -> None:
    ledger = NullifiedLedger()

    def transfer(number: int) -> Transition:
        spent = (nullifier(f"{number} a"), nullifier(f"{number} b"))
        return ledger.spend(number, spent, (coin(f"{number} c"), coin(f"{number} d")), 0)

    transfers = [transfer(number) for number in range(120)]
    count = fitting(transfers, AUTH)
    assert 40 < count < len(transfers)
    assert gas_bound(tuple(transfers[:count]), VALID_UNTIL_S, AUTH) <= COMMIT_GAS_MAX
