"""Nonces and submission: gapless, one write at a time, sent again on silence, listed until settled."""

from __future__ import annotations

import pytest

from rota.config import Config
from rota.core.effects import DispatchRound, RoundDispatch
from rota.core.events import LedgerOutcome, LedgerStatus
from rota.core.submitter import Submitter
from rota.messages import SubmittedIntent
from rota.types import ContractAddress, Digest, NodeName
from tests.core.kit import ADDRESS, GENESIS_S, A, B, C, digest_of, intent_id, transition

OTHER = ContractAddress("0x" + "22" * 20)
CONFIG = Config()


def order(*names: str, contract: ContractAddress = ADDRESS) -> DispatchRound:
    """A round of these intents, each of the node that its name begins with."""
    transitions = tuple(transition(name) for name in names)
    leaves = tuple(made.leaf for made in transitions)
    senders = tuple(NodeName(name[0]) for name in names)
    return DispatchRound(contract, digest_of(*leaves), leaves, transitions, senders, (), GENESIS_S + 600)


def outcome(
    name: str, of: DispatchRound, status: LedgerStatus = LedgerStatus.COMMITTED, digest: Digest | None = None
) -> LedgerOutcome:
    return LedgerOutcome(intent_id(name), transition(name).leaf, digest or of.digest, status)


def submitter(*dispatches: RoundDispatch, next_nonce: int = 0) -> Submitter:
    return Submitter("signer", CONFIG, dispatches, next_nonce)


def dispatched(*orders: DispatchRound) -> Submitter:
    """A submitter that has dispatched these rounds, with nonces from 0."""
    made = submitter()
    for each in orders:
        made.take(each)
        assert made.next_to_write() is not None
        made.written()
    return made


def waiting_to_be_sent(of: Submitter, now_ms: int) -> list[int]:
    return [dispatch.nonce for dispatch in of.unanswered(now_ms)]


# Nonces.


def test_round_gets_the_signer_and_the_next_nonce() -> None:
    made = submitter(next_nonce=7)
    made.take(order("A-1"))
    assert made.next_to_write() == RoundDispatch(order("A-1"), "signer", 7)


def test_nonces_follow_one_another_in_the_order_of_the_rounds() -> None:
    made = dispatched(order("A-1"), order("B-1", contract=OTHER), order("A-2"))
    assert [(nonce, each.dispatch.round) for nonce, each in made.submissions.items()] == [
        (0, order("A-1")),
        (1, order("B-1", contract=OTHER)),
        (2, order("A-2")),
    ]
    assert made.next_nonce == 3


def test_one_dispatch_is_written_at_a_time() -> None:
    made = submitter()
    made.take(order("A-1"))
    made.take(order("A-2"))
    assert made.next_to_write() is not None
    assert made.next_to_write() is None
    made.written()
    assert made.next_to_write() == RoundDispatch(order("A-2"), "signer", 1)


def test_without_a_round_nothing_is_to_be_written() -> None:
    assert submitter().next_to_write() is None


def test_nonce_of_a_write_that_failed_goes_to_the_next() -> None:
    made = submitter(next_nonce=3)
    made.take(order("A-1"))
    made.take(order("A-2"))
    made.next_to_write()
    assert made.not_written() == RoundDispatch(order("A-1"), "signer", 3)
    assert made.next_to_write() == RoundDispatch(order("A-2"), "signer", 3)
    made.written()
    assert list(made.submissions) == [3]
    assert made.next_nonce == 4


def test_round_whose_write_failed_is_left_to_its_coordinator() -> None:
    made = submitter()
    made.take(order("A-1"))
    made.next_to_write()
    made.not_written()
    assert made.next_to_write() is None
    assert made.unanswered(0) == ()


def test_round_that_is_being_written_is_neither_sent_nor_listed() -> None:
    made = submitter()
    made.take(order("A-1"))
    made.next_to_write()
    assert made.unanswered(60_000) == ()
    assert made.listed(0) == {}


@pytest.mark.parametrize("end", [Submitter.written, Submitter.not_written])
def test_end_of_a_write_that_was_never_begun_is_our_own_error(end: object) -> None:
    assert callable(end)
    with pytest.raises(AssertionError, match="one dispatch is written at a time"):
        end(submitter())


# Sending.


def test_dispatch_that_the_chain_has_not_taken_is_sent_every_time() -> None:
    made = dispatched(order("A-1"))
    assert waiting_to_be_sent(made, 0) == [0]
    assert waiting_to_be_sent(made, 1) == [0]


def test_dispatch_that_the_chain_took_is_sent_again_only_on_silence() -> None:
    made = dispatched(order("A-1"), order("A-2"))
    assert made.sent(1_000, 0) is made.submissions[0]
    assert waiting_to_be_sent(made, 1_000) == [1]
    assert waiting_to_be_sent(made, 1_000 + CONFIG.resubmit_ms - 1) == [1]
    assert waiting_to_be_sent(made, 1_000 + CONFIG.resubmit_ms) == [0, 1]


def test_each_sending_is_counted_and_starts_the_silence_anew() -> None:
    made = dispatched(order("A-1"))
    made.sent(1_000, 0)
    made.sent(6_000, 0)
    assert made.submissions[0].submission_count == 2
    assert waiting_to_be_sent(made, 1_000 + CONFIG.resubmit_ms) == []


def test_nonce_that_is_not_ours_is_not_noted() -> None:
    made = dispatched(order("A-1"))
    assert made.sent(1_000, 5) is None
    assert made.submissions[0].submission_count == 0


# Outcomes.


@pytest.mark.parametrize("status", LedgerStatus)
def test_dispatch_is_sent_until_each_of_its_transitions_has_an_outcome(status: LedgerStatus) -> None:
    both = order("A-1", "B-1")
    made = dispatched(both)
    made.settle(ADDRESS, outcome("A-1", both, status))
    assert waiting_to_be_sent(made, 0) == [0]
    made.settle(ADDRESS, outcome("B-1", both, status))
    assert waiting_to_be_sent(made, 0) == []


def test_dispatch_is_kept_until_each_of_its_outcomes_is_final() -> None:
    both = order("A-1", "B-1")
    made = dispatched(both)
    for name in ("A-1", "B-1"):
        made.settle(ADDRESS, outcome(name, both))
    made.finalise(ADDRESS, outcome("A-1", both))
    assert list(made.submissions) == [0]
    made.finalise(ADDRESS, outcome("B-1", both))
    assert made.submissions == {}


def test_dispatch_with_an_open_transition_is_kept_whatever_of_it_is_final() -> None:
    both = order("A-1", "B-1")
    made = dispatched(both)
    made.settle(ADDRESS, outcome("A-1", both))
    made.finalise(ADDRESS, outcome("A-1", both))
    assert waiting_to_be_sent(made, 0) == [0]
    assert list(made.listed(0)) == [(ADDRESS, B)]


def test_outcome_that_is_final_at_once_is_settled_too() -> None:
    made = dispatched(order("A-1"))
    made.finalise(ADDRESS, outcome("A-1", order("A-1")))
    assert made.submissions == {}


def test_dispatch_whose_outcome_a_reorganisation_took_is_sent_and_listed_again_with_its_nonce() -> None:
    made = dispatched(order("A-1"))
    made.sent(1_000, 0)
    made.settle(ADDRESS, outcome("A-1", order("A-1")))
    made.undo(ADDRESS, outcome("A-1", order("A-1")))
    assert waiting_to_be_sent(made, 1_000) == [0]
    assert [(listed.intent, listed.nonce) for listed in made.listed(1_000)[(ADDRESS, A)]] == [(intent_id("A-1"), 0)]
    made.settle(ADDRESS, outcome("A-1", order("A-1")))
    made.finalise(ADDRESS, outcome("A-1", order("A-1")))
    assert made.submissions == {}


def test_reorganisation_takes_back_only_what_it_names() -> None:
    made = dispatched(order("A-1"), order("A-2"))
    made.settle(ADDRESS, outcome("A-1", order("A-1")))
    made.settle(ADDRESS, outcome("A-2", order("A-2")))
    made.undo(OTHER, outcome("A-1", order("A-1")))
    made.undo(ADDRESS, outcome("A-2", order("A-2")))
    assert waiting_to_be_sent(made, 0) == [1]


def test_outcome_of_another_round_contract_or_intent_settles_nothing() -> None:
    made = dispatched(order("A-1"))
    made.settle(ADDRESS, outcome("A-1", order("A-1"), digest=Digest(b"another round")))
    made.settle(OTHER, outcome("A-1", order("A-1")))
    made.settle(ADDRESS, outcome("A-2", order("A-1")))
    assert waiting_to_be_sent(made, 0) == [0]


def test_outcome_settles_only_the_dispatch_that_it_is_of() -> None:
    made = dispatched(order("A-1"), order("A-2"))
    made.settle(ADDRESS, outcome("A-1", order("A-1")))
    assert waiting_to_be_sent(made, 0) == [1]


# Listing.


def test_each_sender_is_told_of_its_own_intents_with_signer_and_nonce() -> None:
    made = dispatched(order("A-1", "B-1", "A-2"), order("B-2", contract=OTHER))
    assert {key: [listed.intent for listed in told] for key, told in made.listed(0).items()} == {
        (ADDRESS, A): [intent_id("A-1"), intent_id("A-2")],
        (ADDRESS, B): [intent_id("B-1")],
        (OTHER, B): [intent_id("B-2")],
    }
    assert [(listed.signer, listed.nonce) for listed in made.listed(0)[(OTHER, B)]] == [("signer", 1)]


def test_listing_tells_how_often_and_how_long_ago_it_was_sent() -> None:
    made = dispatched(order("C-1"))
    made.sent(1_000, 0)
    made.sent(2_000, 0)
    listed = SubmittedIntent(intent_id("C-1"), transition("C-1").leaf, "signer", 0, 2, 300)
    assert made.listed(2_300) == {(ADDRESS, C): [listed]}


def test_intent_with_an_outcome_is_listed_no_longer() -> None:
    made = dispatched(order("A-1", "B-1"))
    made.settle(ADDRESS, outcome("A-1", order("A-1", "B-1")))
    assert list(made.listed(0)) == [(ADDRESS, B)]


# Restart.


def test_restored_dispatches_are_sent_and_listed_again_and_nonces_go_on() -> None:
    made = submitter(RoundDispatch(order("A-1"), "signer", 4), next_nonce=5)
    assert waiting_to_be_sent(made, 0) == [4]
    assert [listed.nonce for listed in made.listed(0)[(ADDRESS, A)]] == [4]
    made.take(order("A-2"))
    assert made.next_to_write() == RoundDispatch(order("A-2"), "signer", 5)
