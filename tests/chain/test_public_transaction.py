"""What is decided about a user's own transaction on the base ledger: nonces, prices, and when an end is believed."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.chain.public_transaction import (
    CANCELLED,
    REPLACEMENT_PERCENT,
    REPRICE_MS,
    TAKEN_LOOKS_MIN,
    TAKEN_MS_MIN,
    VERSIONS_MAX,
    Ending,
    Look,
    Market,
    Mined,
    PublicTransaction,
    Verdict,
    Version,
    Wish,
    cost_max_wei,
    dearer,
    ending_of,
    failed_dependency,
    fees_for,
    gas_for,
    is_repricing_due,
    is_taken_for_good,
    is_update_unsigned,
    late_updates,
    next_nonce,
    verdict_of,
    version_to_send,
)
from rota.model.types import ContractAddress, Fees, IntentId, Outcome, Party

ACCOUNT = ContractAddress("0x" + "aa" * 20)
FEE_MAX_WEI = 1_000
FIRST = Version(Fees(20, 2), 21_000, b"raw", b"1" * 32, 0)
SECOND = replace(FIRST, hash=b"2" * 32, fees=Fees(30, 3))
WAITING = PublicTransaction(1, IntentId(b"i" * 16), Party("a@A"), ACCOUNT, ACCOUNT, b"", 0, 0)
SENT = replace(WAITING, nonce=7, versions=(FIRST, SECOND))
FREE = Market(0, 0)
DEAR = Market(100, 110)


def mined(version: Version = FIRST, height: int = 10, has_succeeded: bool = True) -> Mined:
    return Mined(version.hash, height, b"b" * 32, 0, has_succeeded)


@pytest.mark.parametrize(
    ("height", "used_for_good", "receipts", "verdict"),
    [
        (10, 7, (), Verdict.UNSEEN),
        (10, 8, (), Verdict.TAKEN),
        (11, 7, (FIRST,), Verdict.MINED),
        (12, 7, (FIRST,), Verdict.FINAL),
        (12, 8, (SECOND,), Verdict.FINAL),
    ],
)
def test_end_is_believed_when_it_is_deep_enough(
    height: int, used_for_good: int, receipts: tuple[Version, ...], verdict: Verdict
) -> None:
    look = Look(height, 8, used_for_good, {each.hash: mined(each) for each in receipts})
    found, where = verdict_of(SENT, look, 2)
    assert found is verdict
    assert (where is not None) is bool(receipts)


def test_stranger_is_believed_after_several_looks_and_some_time() -> None:
    assert not is_taken_for_good(TAKEN_LOOKS_MIN - 1, 0, TAKEN_MS_MIN)
    assert not is_taken_for_good(TAKEN_LOOKS_MIN, 0, TAKEN_MS_MIN - 1)
    assert is_taken_for_good(TAKEN_LOOKS_MIN, 0, TAKEN_MS_MIN)


def test_nonces_follow_what_the_chain_knows_and_what_we_gave() -> None:
    assert next_nonce(3, ()) == 3
    assert next_nonce(3, (SENT, WAITING)) == 8
    assert next_nonce(9, (SENT,)) == 9


def test_chain_without_fees_is_offered_nothing() -> None:
    assert fees_for(FREE, Wish(), None, FEE_MAX_WEI) == Fees(0, 0)
    assert cost_max_wei(50_000, Fees(0, 0), 5) == 5


def test_offer_has_room_for_the_base_fee_to_rise_and_ends_at_the_limit() -> None:
    assert fees_for(DEAR, Wish(), None, FEE_MAX_WEI) == Fees(210, 10)
    assert fees_for(DEAR, Wish(), None, 150) == Fees(150, 10)


def test_users_wish_counts_before_ours() -> None:
    assert fees_for(DEAR, Wish(fee_max_wei=5_000, tip_wei=7), None, FEE_MAX_WEI) == Fees(5_000, 7)
    assert fees_for(DEAR, Wish(tip_wei=400), None, FEE_MAX_WEI) == Fees(400, 400)
    assert fees_for(DEAR, Wish(fee_max_wei=4), None, FEE_MAX_WEI) == Fees(4, 4)


@given(st.integers(1, 2**60), st.integers(0, 2**60), st.integers(0, 2**60), st.integers(0, 2**60))
def test_replacement_offers_what_nodes_ask_for(most: int, tip: int, base: int, price: int) -> None:
    before = Fees(most, min(tip, most))
    after = fees_for(Market(base, price), Wish(), before, 2**80)
    assert after.most_wei * 100 >= before.most_wei * (100 + 10)
    assert after.tip_wei * 100 >= before.tip_wei * (100 + 10)
    assert after.tip_wei <= after.most_wei
    assert dearer(0) == 0
    assert REPLACEMENT_PERCENT >= 10


def test_what_is_passed_by_is_offered_for_more() -> None:
    sent = replace(SENT, versions=(FIRST,))
    calm = Market(5, 5)
    assert not is_repricing_due(sent, calm, FEE_MAX_WEI, REPRICE_MS - 1)
    assert is_repricing_due(sent, calm, FEE_MAX_WEI, REPRICE_MS)
    assert is_repricing_due(sent, Market(21, 21), FEE_MAX_WEI, 0)


def test_nothing_more_is_offered_when_nothing_more_can_be() -> None:
    sent = replace(SENT, versions=(FIRST,))
    assert not is_repricing_due(sent, DEAR, FIRST.fees.most_wei, REPRICE_MS)
    assert not is_repricing_due(replace(sent, wish=Wish(fee_max_wei=20)), DEAR, FEE_MAX_WEI, REPRICE_MS)
    assert not is_repricing_due(replace(sent, versions=(FIRST,) * VERSIONS_MAX), DEAR, FEE_MAX_WEI, REPRICE_MS)
    free = replace(sent, versions=(replace(FIRST, fees=Fees(0, 0)),))
    assert not is_repricing_due(free, FREE, FEE_MAX_WEI, REPRICE_MS)


def test_gas_has_some_to_spare_as_far_as_a_block_has_room() -> None:
    assert gas_for(40_000, 10**6) == 85_000
    assert gas_for(40_000, 50_000) == 50_000
    assert gas_for(40_000, 30_000) == 40_000


def test_dependencies_end_well_before_it_begins() -> None:
    one, other = IntentId(b"1" * 16), IntentId(b"2" * 16)
    waiting = replace(WAITING, depends_on=(one, other))
    assert failed_dependency(waiting, {}, {}, 0) == (None, (one, other))
    assert failed_dependency(waiting, {one: Outcome.CONFIRMED}, {}, 0) == (None, (other,))
    assert failed_dependency(waiting, {other: Outcome.REVERTED}, {}, 0) == (other, (one,))


def test_end_tells_what_the_block_says() -> None:
    good = ending_of(SENT, mined(), 5, "", b"")
    assert (good.has_succeeded, good.reason, good.mined, good.ended_at_ms) == (True, "", mined(), 5)
    bad = ending_of(SENT, mined(has_succeeded=False), 5, "no", b"\1")
    assert (bad.has_succeeded, bad.reason, bad.revert_data) == (False, "no", b"\1")
    assert ending_of(SENT, mined(has_succeeded=False), 5, "", b"").reason == "the transaction failed"


def test_withdrawal_ends_what_was_given_up() -> None:
    withdrawal = replace(SECOND, is_withdrawal=True)
    given_up = replace(SENT, versions=(FIRST, withdrawal), given_up="too dear")
    assert ending_of(given_up, mined(withdrawal), 5, "", b"").reason == "too dear"
    assert ending_of(replace(given_up, given_up=""), mined(withdrawal), 5, "", b"").reason == CANCELLED
    # The first version was faster.
    assert ending_of(given_up, mined(FIRST), 5, "", b"").has_succeeded


def test_update_is_late_when_a_block_has_a_version_from_before_it() -> None:
    updated = replace(SENT, updates=2, asked=2)
    assert late_updates(updated) == 0
    assert late_updates(replace(updated, ending=Ending(False, 0, CANCELLED))) == 0
    assert late_updates(replace(updated, ending=Ending(True, 0, mined=mined()))) == 0
    assert late_updates(replace(updated, asked=0, ending=Ending(True, 0, mined=mined()))) == 2


def test_version_that_does_what_is_asked_for_is_sent() -> None:
    update = replace(SECOND, asked=1)
    assert version_to_send(SENT) == SECOND
    unsigned = replace(SENT, updates=1, asked=1)
    assert (version_to_send(unsigned), is_update_unsigned(unsigned)) == (SECOND, True)
    signed = replace(unsigned, versions=(FIRST, update))
    assert (version_to_send(signed), is_update_unsigned(signed)) == (update, False)
    assert version_to_send(replace(signed, asked=0)) == FIRST, "the update came too late"
    withdrawn = replace(unsigned, versions=(FIRST, replace(SECOND, is_withdrawal=True)))
    assert (version_to_send(withdrawn).is_withdrawal, is_update_unsigned(withdrawn)) == (True, False)
    assert not is_update_unsigned(replace(WAITING, updates=1, asked=1))


def test_replacement_offers_no_more_than_one_wei_above_the_percentage() -> None:
    assert dearer(1_000) == 1_000 * (100 + REPLACEMENT_PERCENT) // 100 + 1
