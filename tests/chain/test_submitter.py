"""Nonces and submission: gapless, signed and recorded first, sent until mined, for more when nobody takes it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.chain.effects import DispatchRepriced, RoundDispatch, SignDispatch
from rota.chain.events import AccountSeen, DispatchNotSigned, DispatchSigned, Objection, TransactionRefused
from rota.chain.submitter import NONCE_TAKEN, Submitter
from rota.machine.effects import DispatchRound
from rota.model.blocks import ChainBlock, LedgerOutcome, LedgerStatus, MinedStatus, MinedTransaction
from rota.model.config import Config
from rota.model.types import BlockHash, ContractAddress, Digest, Fees, NodeName
from rota.wire.messages import SubmittedIntent
from tests.sequencer.kit import ADDRESS, GENESIS_S, A, B, C, digest_of, intent_id, name_of, transition

OTHER = ContractAddress("0x" + "22" * 20)
CONFIG = Config(tip_wei=10, fee_max_wei=1_000)
HASH = BlockHash(bytes(32))


def order(*names: str, contract: ContractAddress = ADDRESS) -> DispatchRound:
    """A round of these intents, each of the node that its name begins with."""
    transitions = tuple(transition(name) for name in names)
    leaves = tuple(made.leaf for made in transitions)
    senders = tuple(NodeName(name[0]) for name in names)
    return DispatchRound(contract, digest_of(*leaves), leaves, transitions, senders, (), GENESIS_S + 600)


def part_of(whole: DispatchRound, *names: str) -> DispatchRound:
    """Some transitions of a round, as they are dispatched when the others are left out at first."""
    chosen = [place for place, made in enumerate(whole.transitions) if made.intent in map(intent_id, names)]
    transitions = tuple(whole.transitions[place] for place in chosen)
    return replace(whole, transitions=transitions, senders=tuple(whole.senders[place] for place in chosen))


def outcome(
    name: str, of: DispatchRound, status: LedgerStatus = LedgerStatus.COMMITTED, digest: Digest | None = None
) -> tuple[ContractAddress, LedgerOutcome]:
    return of.contract, LedgerOutcome(intent_id(name), transition(name).leaf, digest or of.digest, status)


def block(*outcomes: tuple[ContractAddress, LedgerOutcome], mined: Iterable[MinedTransaction | int] = ()) -> ChainBlock:
    used = (MinedTransaction(each, MinedStatus.SUCCEEDED) if isinstance(each, int) else each for each in mined)
    return ChainBlock(1, HASH, HASH, GENESIS_S, outcomes, tuple(used))


def submitter(*dispatches: RoundDispatch, next_nonce: int = 0, config: Config = CONFIG) -> Submitter:
    return Submitter("signer", config, dispatches, next_nonce)


def sign(of: Submitter, now_ms: int = 0, height: int = 0) -> RoundDispatch | DispatchRepriced | None:
    """Whatever is to be signed next is; what is to be recorded."""
    asked = of.next_to_sign(now_ms, height)
    return None if asked is None else of.take_signed(now_ms, signed(asked))


def signed(asked: SignDispatch | None, transaction: bytes = b"transaction") -> DispatchSigned:
    assert asked is not None
    return DispatchSigned(asked.nonce, asked.fees, transaction, b"hash", asked.round.digest)


def not_signed(asked: SignDispatch | None) -> DispatchNotSigned:
    assert asked is not None
    return DispatchNotSigned(asked.nonce, asked.fees, "no key", asked.round.digest)


def dispatched(*orders: DispatchRound, base_fee_wei: int = 0, config: Config = CONFIG) -> Submitter:
    """A submitter that has dispatched these rounds, with nonces from 0."""
    made = submitter(config=config)
    made.gas_price.base_fee_wei = base_fee_wei
    for each in orders:
        made.take(each)
        assert isinstance(sign(made), RoundDispatch)
    return made


def sent(*orders: DispatchRound, base_fee_wei: int = 0) -> Submitter:
    """One whose rounds the chain has taken into its pool, at height 0."""
    made = dispatched(*orders, base_fee_wei=base_fee_wei)
    for nonce in made.submissions:
        made.take_sent(0, 0, nonce)
    return made


def settle(of: Submitter, found: ChainBlock) -> None:
    of.settle(found, found.outcomes + of.failures_in(found))


def undo(of: Submitter, found: ChainBlock) -> None:
    of.undo(found, found.outcomes + of.failures_in(found))


def finalise(of: Submitter, found: ChainBlock) -> None:
    of.finalise(found, found.outcomes + of.failures_in(found))


def to_be_sent(of: Submitter, now_ms: int) -> list[int]:
    return [dispatch.nonce for dispatch in of.to_be_sent_again(now_ms)]


# Nonces.


def test_round_is_signed_with_the_next_nonce_and_then_recorded_with_what_was_signed() -> None:
    made = submitter(next_nonce=7)
    made.take(order("A-1"))
    asked = made.next_to_sign(0, 0)
    assert asked == SignDispatch(order("A-1"), "signer", 7, Fees(10, 10))
    assert made.take_signed(0, signed(asked)) == RoundDispatch(
        order("A-1"), "signer", 7, Fees(10, 10), b"transaction", b"hash"
    )


def test_nonces_follow_one_another_in_the_order_of_the_rounds() -> None:
    made = dispatched(order("A-1"), order("B-1", contract=OTHER), order("A-2"))
    assert [(nonce, each.dispatch.round) for nonce, each in made.submissions.items()] == [
        (0, order("A-1")),
        (1, order("B-1", contract=OTHER)),
        (2, order("A-2")),
    ]
    assert made.next_nonce == 3


def test_one_dispatch_is_signed_at_a_time() -> None:
    made = submitter()
    made.take(order("A-1"))
    made.take(order("A-2"))
    asked = made.next_to_sign(0, 0)
    assert made.next_to_sign(0, 0) is None
    assert made.take_signed(0, signed(asked)) is not None
    assert made.next_to_sign(0, 0) == SignDispatch(order("A-2"), "signer", 1, Fees(10, 10))


def test_nonce_is_used_when_its_dispatch_is_recorded() -> None:
    made = submitter(next_nonce=3)
    made.take(order("A-1"))
    asked = made.next_to_sign(0, 0)
    assert (made.next_nonce, list(made.submissions), made.listed(0)) == (3, [], {})
    dispatch = made.take_signed(2_000, signed(asked))
    assert (made.next_nonce, list(made.submissions), list(made.listed(2_000))) == (4, [3], [(ADDRESS, A)])
    assert made.submissions[3].dispatch is dispatch
    assert to_be_sent(made, 2_000) == []
    assert to_be_sent(made, 2_000 + CONFIG.heartbeat_ms) == [3]


def test_without_a_round_nothing_is_to_be_signed() -> None:
    made = submitter()
    assert made.next_to_sign(0, 0) is None
    assert not made.has_work


@pytest.mark.parametrize("stage", ["waiting", "signing", "sent"])
def test_there_is_work_as_long_as_something_is_on_its_way(stage: str) -> None:
    made = submitter()
    made.take(order("A-1"))
    asked = made.next_to_sign(0, 0) if stage != "waiting" else None
    if stage == "sent":
        made.take_signed(0, signed(asked))
    assert made.has_work


def test_signing_that_was_lost_is_asked_for_again_with_the_same_nonce() -> None:
    made = submitter()
    made.take(order("A-1"))
    asked = made.next_to_sign(0, 0)
    assert made.next_to_sign(CONFIG.request_timeout_ms - 1, 0) is None
    assert made.next_to_sign(CONFIG.request_timeout_ms, 5) is asked
    assert made.next_to_sign(CONFIG.request_timeout_ms + 1, 5) is None


@pytest.mark.parametrize(
    "wrong",
    [{"nonce": 1}, {"fees": Fees(11, 10)}, {"digest": order("A-2").digest}],
    ids=["another nonce", "another fee", "another round"],
)
def test_answer_to_another_question_changes_nothing(wrong: dict[str, Any]) -> None:
    made = submitter()
    made.take(order("A-1"))
    asked = made.next_to_sign(0, 0)
    assert made.take_signed(0, replace(signed(asked), **wrong)) is None
    assert made.take_unsigned(replace(not_signed(asked), **wrong)) is None
    assert made.take_signed(0, signed(asked)) is not None


def test_late_answer_for_a_round_that_went_back_is_not_taken_for_the_next_with_its_nonce() -> None:
    made = submitter()
    made.take(order("A-1"))
    made.take(order("A-2"))
    first = made.next_to_sign(0, 0)
    assert made.next_to_sign(CONFIG.request_timeout_ms, 0) is first
    assert made.take_unsigned(not_signed(first)) == order("A-1")
    second = made.next_to_sign(CONFIG.request_timeout_ms, 0)
    assert made.take_signed(0, signed(first)) is None
    record = made.take_signed(0, signed(second))
    assert isinstance(record, RoundDispatch)
    assert (record.round, record.nonce) == (order("A-2"), 0)


def test_answer_that_nobody_waits_for_changes_nothing() -> None:
    made = dispatched(order("A-1"))
    asked = SignDispatch(order("A-1"), "signer", 0, Fees(10, 10))
    assert made.take_signed(0, signed(asked)) is None
    assert made.take_unsigned(not_signed(asked)) is None


def test_round_that_could_not_be_signed_goes_back_and_its_nonce_to_the_next() -> None:
    made = submitter(next_nonce=3)
    made.take(order("A-1"))
    made.take(order("A-2"))
    assert made.take_unsigned(not_signed(made.next_to_sign(0, 0))) == order("A-1")
    assert made.next_to_sign(0, 0) == SignDispatch(order("A-2"), "signer", 3, Fees(10, 10))


def test_round_that_is_not_signed_is_neither_sent_nor_listed() -> None:
    made = submitter()
    made.take(order("A-1"))
    assert made.next_to_sign(0, 0) is not None
    assert to_be_sent(made, 60_000) == []
    assert made.listed(0) == {}


# The account on the chain.


def test_nonces_that_strangers_to_this_database_used_are_passed_over_at_the_start() -> None:
    made = submitter(next_nonce=3)
    made.take_account(AccountSeen(5))
    assert made.next_nonce == 5


def test_nonces_of_dispatches_that_the_database_lost_are_passed_over_beside_those_that_it_has() -> None:
    """A copy that lacks the last commits has open dispatches too."""
    (open_,) = (each.dispatch for each in dispatched(order("A-1")).submissions.values())
    made = submitter(open_, next_nonce=1)
    made.take_account(AccountSeen(5))
    assert made.next_nonce == 5


def test_account_that_is_behind_us_says_nothing() -> None:
    made = submitter(next_nonce=3)
    made.take_account(AccountSeen(1))
    assert made.next_nonce == 3


@pytest.mark.parametrize("stage", ["signing", "sent"])
def test_account_is_not_looked_at_once_a_nonce_was_given_out(stage: str) -> None:
    made = submitter()
    made.take(order("A-1"))
    asked = made.next_to_sign(0, 0)
    if stage == "sent":
        made.take_signed(0, signed(asked))
    before = made.next_nonce
    made.take_account(AccountSeen(9))
    assert made.next_nonce == before


# Sending.


def test_dispatch_that_the_chain_has_not_answered_is_sent_every_heartbeat() -> None:
    made = dispatched(order("A-1"))
    assert to_be_sent(made, CONFIG.heartbeat_ms - 1) == []
    assert to_be_sent(made, CONFIG.heartbeat_ms) == [0]
    assert to_be_sent(made, CONFIG.heartbeat_ms + 1) == [0]


def test_dispatch_that_the_chain_took_is_sent_again_only_on_silence() -> None:
    made = dispatched(order("A-1"), order("A-2"))
    assert made.take_sent(1_000, 0, 0) is made.submissions[0]
    assert to_be_sent(made, 1_000) == [1]
    assert to_be_sent(made, 1_000 + CONFIG.resubmit_ms - 1) == [1]
    assert to_be_sent(made, 1_000 + CONFIG.resubmit_ms) == [0, 1]


def test_each_sending_is_counted_and_starts_the_silence_anew() -> None:
    made = dispatched(order("A-1"))
    made.take_sent(1_000, 4, 0)
    made.take_sent(6_000, 9, 0)
    assert made.submissions[0].submission_count == 2
    assert made.submissions[0].submitted_at_height == 4
    assert to_be_sent(made, 1_000 + CONFIG.resubmit_ms) == []


def test_nonce_that_is_not_ours_is_not_noted() -> None:
    made = dispatched(order("A-1"))
    assert made.take_sent(1_000, 0, 5) is None
    made.take_refused(1_000, TransactionRefused(5, Objection.NO_FUNDS, ""))
    assert made.submissions[0].submission_count == 0
    assert made.trouble == ""


@pytest.mark.parametrize("objection", [Objection.NO_FUNDS, Objection.OTHER, Objection.UNDERPRICED])
def test_refusal_is_shown_and_the_transaction_sent_again_later(objection: Objection) -> None:
    made = dispatched(order("A-1"))
    made.take_refused(1_000, TransactionRefused(0, objection, "says the chain"))
    assert made.trouble == f"{objection.value}: says the chain"
    assert to_be_sent(made, 1_000 + CONFIG.resubmit_ms - 1) == []
    assert to_be_sent(made, 1_000 + CONFIG.resubmit_ms) == [0]
    made.take_sent(7_000, 0, 0)
    assert made.trouble == ""


def test_nonce_that_is_too_low_is_no_trouble_as_the_next_block_tells_what_used_it() -> None:
    made = dispatched(order("A-1"))
    made.take_refused(1_000, TransactionRefused(0, Objection.NONCE_TOO_LOW, "nonce too low"))
    assert made.trouble == ""
    assert to_be_sent(made, 1_000 + CONFIG.heartbeat_ms) == [0]


def test_trouble_of_what_is_mined_is_over() -> None:
    made = dispatched(order("A-1"))
    made.take_refused(1_000, TransactionRefused(0, Objection.OTHER, "already known"))
    settle(made, block(mined=[0]))
    assert made.trouble == ""


# Fees.


def test_usual_offer_is_twice_what_the_latest_block_asked_for_and_the_tip() -> None:
    made = submitter()
    made.gas_price.base_fee_wei = 100
    assert made.usual_fees() == Fees(210, 10)


def test_no_offer_is_above_the_limit() -> None:
    made = submitter(config=replace(CONFIG, fee_max_wei=150))
    made.gas_price.base_fee_wei = 100
    assert made.usual_fees() == Fees(150, 10)
    low = submitter(config=replace(CONFIG, fee_max_wei=5))
    assert low.usual_fees() == Fees(5, 5)


def test_transaction_that_blocks_pass_by_is_offered_for_more() -> None:
    made = sent(order("A-1"), base_fee_wei=20)
    assert made.next_to_sign(0, CONFIG.reprice_blocks - 1) is None
    record = sign(made, height=CONFIG.reprice_blocks)
    assert isinstance(record, DispatchRepriced)
    assert (record.dispatch.nonce, record.dispatch.round) == (0, order("A-1"))
    assert record.dispatch.fees == Fees(50 * 125 // 100 + 1, 10 * 125 // 100 + 1)
    assert made.next_nonce == 1


def test_offer_is_at_least_the_usual_one_when_blocks_have_become_dearer() -> None:
    made = sent(order("A-1"), base_fee_wei=20)
    made.gas_price.base_fee_wei = 200
    asked = made.next_to_sign(0, CONFIG.reprice_blocks)
    assert asked is not None
    assert asked.fees == Fees(410, 13)


def test_only_the_transaction_whose_nonce_is_next_is_offered_for_more() -> None:
    made = sent(order("A-1"), order("A-2"))
    record = sign(made, height=CONFIG.reprice_blocks)
    assert isinstance(record, DispatchRepriced)
    assert made.next_to_sign(0, CONFIG.reprice_blocks) is None
    settle(made, block(mined=[0]))
    asked = made.next_to_sign(0, CONFIG.reprice_blocks)
    assert asked is not None
    assert asked.nonce == 1


def test_transaction_that_the_chain_has_not_taken_is_not_passed_by() -> None:
    made = dispatched(order("A-1"))
    assert made.next_to_sign(0, 100) is None


def test_any_transaction_that_offers_less_than_a_block_asks_for_is_offered_for_more() -> None:
    made = sent(order("A-1"), order("A-2"), base_fee_wei=20)
    made.gas_price.base_fee_wei = 60
    nonces = []
    while (asked := made.next_to_sign(0, 0)) is not None:
        nonces.append(asked.nonce)
        made.take_signed(0, signed(asked))
    assert nonces == [0, 1]


def test_what_a_chain_finds_too_cheap_is_offered_for_more_at_once() -> None:
    made = dispatched(order("A-1"), order("A-2"))
    made.take_refused(0, TransactionRefused(1, Objection.UNDERPRICED, ""))
    asked = made.next_to_sign(0, 0)
    assert asked is not None
    assert asked.nonce == 1


def test_better_offer_goes_before_a_new_round() -> None:
    made = sent(order("A-1"))
    made.take(order("A-2"))
    asked = made.next_to_sign(0, CONFIG.reprice_blocks)
    assert asked is not None
    assert asked.nonce == 0


def test_better_offer_takes_the_place_of_the_earlier_one_and_waits_for_its_own_blocks() -> None:
    made = sent(order("A-1"))
    asked = made.next_to_sign(0, 3)
    assert made.submissions[0].dispatch.fees == Fees(10, 10)
    made.take_signed(9_000, signed(asked))
    assert made.submissions[0].dispatch.fees == Fees(13, 13)
    assert to_be_sent(made, 9_000) == []
    assert to_be_sent(made, 9_000 + CONFIG.heartbeat_ms) == [0]
    made.take_sent(9_500, 4, 0)
    assert made.next_to_sign(9_500, 6) is None
    assert made.next_to_sign(9_500, 7) is not None


def test_offers_end_at_the_limit_which_is_shown_and_looked_at_again_later() -> None:
    made = sent(order("A-1"), base_fee_wei=495)
    made.take(order("A-2"))
    asked = made.next_to_sign(0, 3)
    assert asked is not None
    assert asked.nonce == 1, "at the limit already: the new round goes on"
    assert made.trouble == "the limit of 1000 wei for a unit of gas is reached"


@pytest.mark.parametrize("why", ["passed by", "too cheap", "underpriced"])
def test_better_offer_that_came_to_nothing_is_made_again_at_the_next_block_and_not_before(why: str) -> None:
    made = sent(order("A-1"), base_fee_wei=20)
    if why == "too cheap":
        made.gas_price.base_fee_wei = 60
    elif why == "underpriced":
        made.take_refused(0, TransactionRefused(0, Objection.UNDERPRICED, ""))
    asked = made.next_to_sign(0, 7)
    assert made.take_unsigned(not_signed(asked)) is None
    assert made.next_to_sign(60_000, 7) is None
    assert made.next_to_sign(60_000, 8) == asked


def test_better_offer_for_what_is_mined_and_final_by_now_changes_no_nonce() -> None:
    made = sent(order("A-1"), order("A-2"))
    asked = made.next_to_sign(0, CONFIG.reprice_blocks)
    found = block(outcome("A-1", order("A-1")), mined=[0])
    settle(made, found)
    finalise(made, found)
    assert made.take_signed(0, signed(asked)) is None
    assert made.next_nonce == 2
    assert list(made.submissions) == [1]


def test_better_offer_that_cannot_be_signed_for_what_is_mined_by_now_is_no_failed_round() -> None:
    made = sent(order("A-1"))
    asked = made.next_to_sign(0, CONFIG.reprice_blocks)
    found = block(outcome("A-1", order("A-1")), mined=[0])
    settle(made, found)
    finalise(made, found)
    assert made.take_unsigned(not_signed(asked)) is None


# Outcomes.


def test_dispatch_is_sent_until_a_block_uses_its_nonce_though_its_transitions_have_outcomes() -> None:
    made = dispatched(order("A-1"))
    settle(made, block(outcome("A-1", order("A-1"))))
    assert made.listed(0) == {}
    assert to_be_sent(made, CONFIG.heartbeat_ms) == [0]
    settle(made, block(mined=[0]))
    assert to_be_sent(made, CONFIG.heartbeat_ms) == []


def test_nonce_of_another_that_a_block_used_touches_nobody() -> None:
    made = dispatched(order("A-1"))
    for tell in (settle, undo, finalise):
        tell(made, block(mined=[7]))
    assert to_be_sent(made, CONFIG.heartbeat_ms) == [0]


@pytest.mark.parametrize("status", LedgerStatus)
def test_dispatch_is_kept_until_its_nonce_is_used_and_each_of_its_outcomes_final(status: LedgerStatus) -> None:
    both = order("A-1", "B-1")
    made = dispatched(both)
    first = block(outcome("A-1", both, status), outcome("B-1", both, status))
    settle(made, first)
    finalise(made, first)
    assert list(made.submissions) == [0]
    second = block(mined=[0])
    settle(made, second)
    assert list(made.submissions) == [0]
    finalise(made, second)
    assert made.submissions == {}


def test_dispatch_is_kept_until_the_block_that_used_its_nonce_is_final_too() -> None:
    """Else a reorganisation would take the nonce back, and nobody would send it again."""
    made = sent(order("A-1"))
    committed, used = block(outcome("A-1", order("A-1"))), block(mined=[0])
    settle(made, committed)
    settle(made, used)
    finalise(made, committed)
    assert list(made.submissions) == [0]
    undo(made, used)
    assert to_be_sent(made, CONFIG.heartbeat_ms) == [0]
    settle(made, used)
    finalise(made, used)
    assert made.submissions == {}


def test_dispatch_with_an_open_transition_is_kept_whatever_of_it_is_final() -> None:
    both = order("A-1", "B-1")
    made = dispatched(both)
    found = block(outcome("A-1", both), mined=[0])
    settle(made, found)
    finalise(made, found)
    assert list(made.submissions) == [0]
    assert list(made.listed(0)) == [(ADDRESS, B)]


def test_outcome_of_another_round_contract_or_intent_settles_nothing() -> None:
    made = dispatched(order("A-1"))
    settle(made, block(outcome("A-1", order("A-1"), digest=Digest(b"another round"))))
    settle(made, block(outcome("A-1", order("A-1", contract=OTHER))))
    settle(made, block(outcome("A-2", order("A-1"))))
    assert list(made.listed(0)) == [(ADDRESS, A)]


def test_parts_of_one_round_have_nonces_and_outcomes_of_their_own() -> None:
    whole = order("A-1", "B-1")
    made = dispatched(part_of(whole, "A-1"), part_of(whole, "B-1"))
    found = block(outcome("A-1", whole), mined=[0])
    settle(made, found)
    assert list(made.listed(0)) == [(ADDRESS, B)]
    finalise(made, found)
    assert list(made.submissions) == [1]
    last = block(outcome("B-1", whole), mined=[1])
    settle(made, last)
    finalise(made, last)
    assert made.submissions == {}


# Transactions that fail as a whole.


def test_transaction_that_failed_says_so_of_each_of_its_transitions() -> None:
    both = order("A-1", "B-1")
    made = dispatched(both)
    failed = block(mined=[MinedTransaction(0, MinedStatus.FAILED, "expired")])
    told = made.failures_in(failed)
    assert [(address, each.intent, each.digest) for address, each in told] == [
        (ADDRESS, intent_id("A-1"), both.digest),
        (ADDRESS, intent_id("B-1"), both.digest),
    ]
    assert {(each.status, each.reason, each.is_contention) for _, each in told} == {
        (LedgerStatus.REVERTED, "expired", False)
    }


def test_nonce_that_a_stranger_took_is_contention_over_it() -> None:
    made = dispatched(order("A-1"))
    ((_, told),) = made.failures_in(block(mined=[MinedTransaction(0, MinedStatus.TAKEN)]))
    assert (told.status, told.reason, told.is_contention) == (LedgerStatus.REVERTED, NONCE_TAKEN, True)


def test_transaction_that_succeeded_or_is_not_known_did_not_fail() -> None:
    made = dispatched(order("A-1"))
    assert made.failures_in(block(mined=[0, MinedTransaction(7, MinedStatus.FAILED, "expired")])) == ()


def test_failed_transaction_is_done_when_its_block_is_final() -> None:
    made = dispatched(order("A-1"))
    failed = block(mined=[MinedTransaction(0, MinedStatus.FAILED, "expired")])
    settle(made, failed)
    assert made.listed(0) == {}
    assert to_be_sent(made, 60_000) == []
    finalise(made, failed)
    assert made.submissions == {}


# Reorganisations.


def test_dispatch_whose_block_a_reorganisation_took_is_sent_and_listed_again_with_its_nonce() -> None:
    made = sent(order("A-1"))
    found = block(outcome("A-1", order("A-1")), mined=[0])
    settle(made, found)
    undo(made, found)
    assert to_be_sent(made, CONFIG.heartbeat_ms) == [0]
    assert [(listed.intent, listed.nonce) for listed in made.listed(1_000)[(ADDRESS, A)]] == [(intent_id("A-1"), 0)]
    settle(made, found)
    finalise(made, found)
    assert made.submissions == {}


def test_reorganisation_takes_back_only_what_it_names() -> None:
    made = sent(order("A-1"), order("A-2"))
    first = block(outcome("A-1", order("A-1")), mined=[0])
    second = block(outcome("A-2", order("A-2")), mined=[1])
    settle(made, first)
    settle(made, second)
    undo(made, block(outcome("A-1", order("A-1", contract=OTHER))))
    undo(made, second)
    assert to_be_sent(made, CONFIG.heartbeat_ms) == [1]
    assert [listed.nonce for listed in made.listed(0)[(ADDRESS, A)]] == [1]


# Listing.


def test_each_sender_is_told_of_its_own_intents_with_signer_and_nonce() -> None:
    made = dispatched(order("A-1", "B-1", "A-2"), order("B-2", contract=OTHER))
    assert {key: [listed.intent for listed in told] for key, told in made.listed(0).items()} == {
        (ADDRESS, A): [intent_id("A-1"), intent_id("A-2")],
        (ADDRESS, B): [intent_id("B-1")],
        (OTHER, B): [intent_id("B-2")],
    }
    assert [(listed.signer, listed.nonce) for listed in made.listed(0)[(OTHER, B)]] == [("signer", 1)]


def test_listing_tells_how_often_and_how_long_ago_it_was_sent_and_for_how_much() -> None:
    made = dispatched(order("C-1"))
    made.take_sent(1_000, 0, 0)
    made.take_sent(2_000, 0, 0)
    listed = SubmittedIntent(intent_id("C-1"), transition("C-1").leaf, "signer", 0, 2, 300, "", b"hash", Fees(10, 10))
    assert made.listed(2_300) == {(ADDRESS, C): [listed]}


# Restart.


def test_restored_dispatches_are_sent_and_listed_again_and_nonces_go_on() -> None:
    made = submitter(RoundDispatch(order("A-1"), "signer", 4), next_nonce=5)
    assert to_be_sent(made, CONFIG.heartbeat_ms) == [4]
    assert [listed.nonce for listed in made.listed(0)[(ADDRESS, A)]] == [4]
    made.take(order("A-2"))
    asked = made.next_to_sign(0, 0)
    assert asked is not None
    assert asked.nonce == 5


# Whatever happens, nonces are gapless and each has one payload.


@dataclass
class Chain:
    """A chain that takes transactions in the order of their nonces, takes blocks back, and remembers payloads."""

    made: Submitter
    pool: dict[int, RoundDispatch] = field(default_factory=dict)
    durable: dict[int, RoundDispatch] = field(default_factory=dict)
    blocks: list[ChainBlock] = field(default_factory=list)
    final_count: int = 0
    payloads: dict[int, Digest] = field(default_factory=dict)

    @property
    def next_nonce(self) -> int:
        return sum(len(each.mined) for each in self.blocks)

    def write(self, record: RoundDispatch | DispatchRepriced | None) -> None:
        if record is not None:
            dispatch = record if isinstance(record, RoundDispatch) else record.dispatch
            known = self.payloads.setdefault(dispatch.nonce, dispatch.round.digest)
            assert known == dispatch.round.digest, "one payload for each nonce"
            self.durable[dispatch.nonce] = dispatch
            assert sorted(self.payloads) == list(range(len(self.payloads))), "no gap"

    def send(self, now_ms: int) -> None:
        for dispatch in self.made.to_be_sent_again(now_ms):
            if dispatch.nonce >= self.next_nonce:
                self.pool[dispatch.nonce] = dispatch
                self.made.take_sent(now_ms, len(self.blocks), dispatch.nonce)

    def mine(self, status: MinedStatus) -> None:
        dispatch = self.pool.pop(self.next_nonce, None)
        if dispatch is None:
            self.blocks.append(block())
        else:
            told = [outcome(f"A-{self.number_of(dispatch)}", dispatch.round)] if status is MinedStatus.SUCCEEDED else []
            self.blocks.append(block(*told, mined=[MinedTransaction(dispatch.nonce, status)]))
        settle(self.made, self.blocks[-1])

    def number_of(self, dispatch: RoundDispatch) -> str:
        return name_of(dispatch.round.transitions[0].intent).partition("-")[2]

    def take_back(self) -> None:
        if len(self.blocks) > self.final_count:
            undo(self.made, self.blocks.pop())

    def make_final(self) -> None:
        if len(self.blocks) > self.final_count:
            finalise(self.made, self.blocks[self.final_count])
            self.final_count += 1

    def restart(self) -> None:
        final = {each.nonce for found in self.blocks[: self.final_count] for each in found.mined}
        left = tuple(dispatch for nonce, dispatch in sorted(self.durable.items()) if nonce not in final)
        self.made = submitter(*left, next_nonce=len(self.durable))
        for found in self.blocks[self.final_count :]:
            settle(self.made, found)


TO_THE_CHAIN = ["take", "ask", "signed", "late", "unsigned", "send"]
ON_THE_CHAIN = ["mine", "mine", "fail", "taken", "empty", "back", "final", "dearer", "cheaper", "refused"]
STEPS = st.sampled_from([*TO_THE_CHAIN, *ON_THE_CHAIN, "restart"])


@given(st.lists(STEPS, max_size=120))
@settings(max_examples=300, deadline=None)
def test_nonces_are_gapless_each_has_one_payload_and_all_are_used_in_the_end(steps: list[str]) -> None:
    chain = Chain(submitter())
    asked: list[SignDispatch] = []
    statuses = {"mine": MinedStatus.SUCCEEDED, "fail": MinedStatus.FAILED, "taken": MinedStatus.TAKEN}
    for number, step in enumerate([*steps, "ask", "signed"]):
        made, now_ms = chain.made, number * 1_000
        match step:
            case "take":
                made.take(order(f"A-{number}"))
            case "ask":
                question = made.next_to_sign(now_ms, len(chain.blocks))
                asked.extend([question] if question is not None else [])
            case "signed" | "late" if asked:
                chain.write(made.take_signed(now_ms, signed(asked[-1] if step == "signed" else asked[0])))
            case "unsigned" if asked:
                made.take_unsigned(not_signed(asked[-1]))
            case "send":
                chain.send(now_ms)
            case "mine" | "fail" | "taken":
                chain.mine(statuses[step])
            case "empty":
                chain.pool.clear()
            case "back":
                chain.take_back()
            case "final":
                chain.make_final()
            case "restart":
                chain.restart()
            case "dearer" | "cheaper":
                made.gas_price.base_fee_wei = 400 if step == "dearer" else 10
            case "refused":
                made.take_refused(now_ms, TransactionRefused(chain.next_nonce, Objection.UNDERPRICED, ""))
            case _:
                pass
    use_all_nonces(chain, 1_000_000)
    assert chain.made.submissions == {}


def use_all_nonces(chain: Chain, now_ms: int) -> None:
    """Nothing goes wrong any more: what is durable is sent until blocks have used every nonce for good."""
    for turn in range(len(chain.payloads)):
        chain.send(now_ms + turn * CONFIG.resubmit_ms)
        chain.mine(MinedStatus.SUCCEEDED)
    assert chain.next_nonce == len(chain.payloads)
    while chain.final_count < len(chain.blocks):
        chain.make_final()


@pytest.mark.parametrize("objection", [each for each in Objection if each is not Objection.UNDERPRICED])
def test_transaction_that_is_refused_for_another_reason_than_its_price_is_not_offered_for_more(
    objection: Objection,
) -> None:
    made = dispatched(order("A-1"))
    made.take_refused(0, TransactionRefused(0, objection, ""))
    assert made.next_to_sign(0, 0) is None


def test_submission_that_is_done_leaves_nothing_in_memory() -> None:
    both = order("A-1")
    made = dispatched(both)
    found = block(outcome("A-1", both), mined=[0])
    settle(made, found)
    finalise(made, found)
    assert (made.submissions, made._nonces) == ({}, {})


def test_dispatch_is_kept_while_an_outcome_of_it_in_a_later_block_is_not_final() -> None:
    both = order("A-1", "B-1")
    made = dispatched(both)
    first, second = block(outcome("A-1", both), mined=[0]), block(outcome("B-1", both))
    settle(made, first)
    settle(made, second)
    finalise(made, first)
    assert list(made.submissions) == [0]
    finalise(made, second)
    assert made.submissions == {}
