"""Several accounts of one node: which one pays for a round, and that their nonces do not mix."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rota.chain.effects import RoundDispatch, SeeAccount
from rota.chain.events import AccountChosen, AccountSeen, DispatchSigned, Objection, TransactionRefused
from rota.chain.submitter import NONCE_TAKEN, Submitter
from rota.chain.submitters import AccountChoice, StoredAccount, Submitters
from rota.machine.effects import DispatchRound
from rota.model.blocks import ChainBlock, LedgerOutcome, LedgerStatus, MinedStatus, MinedTransaction
from rota.model.types import SHARED_ACCOUNT, BlockHash, ContractAddress, Fees
from tests.chain.test_submitter import CONFIG, HASH, order

ONE, TWO = ContractAddress("0x" + "11" * 20), ContractAddress("0x" + "22" * 20)
FREE, PRICED = AccountSeen(0, signer="shared", is_gas_free=True), AccountSeen(0, signer="shared")


def submitters(choice: AccountChoice = AccountChoice.BY_CONTRACT) -> Submitters:
    return Submitters("shared", CONFIG, choice, {}, ())


def round_of(name: str, contract: ContractAddress) -> DispatchRound:
    return replace(order(name), contract=contract)


def written(of: Submitter) -> RoundDispatch:
    """The next order is signed and recorded."""
    asked = of.next_to_sign(0, 0)
    assert asked is not None
    event = DispatchSigned(asked.nonce, asked.fees, b"raw", b"hash", asked.round.digest, asked.account)
    dispatch = of.take_signed(0, event)
    assert isinstance(dispatch, RoundDispatch)
    return dispatch


def dispatched(made: Submitters, name: str, contract: ContractAddress, next_nonce: int = 0) -> RoundDispatch:
    """A round of a contract, dispatched by the account that pays for it; one that is asked for has this nonce next."""
    submitter = made.take(round_of(name, contract))
    see = submitter.to_see(0)
    if see is not None:
        made.take_account(AccountSeen(next_nonce, see.account, f"account of {see.account}"))
    return written(submitter)


def used(*accounts: ContractAddress, status: MinedStatus = MinedStatus.SUCCEEDED) -> ChainBlock:
    """A block that uses nonce 0 of these accounts."""
    mined = tuple(MinedTransaction(0, status, account=account) for account in accounts)
    return ChainBlock(1, HASH, BlockHash(b"before"), 0, mined=mined)


@pytest.mark.parametrize(
    ("choice", "seen", "is_own"),
    [
        (AccountChoice.AUTO, FREE, True),
        (AccountChoice.AUTO, PRICED, False),
        (AccountChoice.SHARED, FREE, False),
        (AccountChoice.BY_CONTRACT, PRICED, True),
    ],
)
def test_account_that_pays_follows_from_the_choice_and_the_price_of_gas(
    choice: AccountChoice, seen: AccountSeen, is_own: bool
) -> None:
    made = submitters(choice)
    made.take_account(seen)
    assert made.has_own(ONE) is is_own
    assert made.take(round_of("A-1", ONE)).account == (ONE if is_own else SHARED_ACCOUNT)


def test_two_contracts_use_the_same_nonce_of_different_accounts() -> None:
    made = submitters()
    one, two = dispatched(made, "A-1", ONE), dispatched(made, "A-2", TWO)
    assert (one.nonce, two.nonce) == (0, 0)
    assert (one.account, one.signer, two.account) == (ONE, f"account of {ONE}", TWO)
    assert [each.dispatch for each in made.submissions()] == [one, two]
    assert [each.dispatch for each in made.submissions(ONE)] == [one]
    assert made.next_nonces() == {SHARED_ACCOUNT: 0, ONE: 1, TWO: 1}


def test_nonce_that_a_block_used_belongs_to_its_account_alone() -> None:
    made = submitters()
    one, two = dispatched(made, "A-1", ONE), dispatched(made, "A-2", TWO)
    taken = used(ONE, status=MinedStatus.TAKEN)
    failures = made.failures_in(taken)
    assert [(contract, each.intent, each.reason) for contract, each in failures] == [
        (ONE, one.round.transitions[0].intent, NONCE_TAKEN)
    ]
    made.settle(taken, failures)
    assert made.of(ONE).submissions[0].is_mined
    assert not made.of(TWO).submissions[0].is_mined
    made.finalise(taken, failures)
    assert [each.dispatch for each in made.submissions()] == [two]
    made.undo(taken, failures, was_final=True)
    recall = made.of(ONE).to_recall()
    assert recall is not None
    assert (recall.nonces, recall.account) == ((0,), ONE)
    assert made.of(TWO).to_recall() is None


def test_outcome_of_a_round_reaches_the_account_that_dispatched_it() -> None:
    made = submitters()
    one = dispatched(made, "A-1", ONE)
    member = one.round.transitions[0]
    outcome = LedgerOutcome(member.intent, member.leaf, one.round.digest, LedgerStatus.COMMITTED)
    made.settle(ChainBlock(1, HASH, HASH, 0, ((ONE, outcome), (TWO, outcome))), ((ONE, outcome), (TWO, outcome)))
    assert made.of(ONE).submissions[0].unsettled == {}
    assert list(made.by_account) == [SHARED_ACCOUNT, ONE]


def test_nothing_is_signed_for_an_account_before_its_next_nonce_is_known() -> None:
    made = submitters()
    submitter = made.take(round_of("A-1", ONE))
    assert submitter.to_see(0) == SeeAccount(ONE)
    assert submitter.next_to_sign(0, 0) is None
    assert submitter.has_work
    assert submitter.to_see(CONFIG.request_timeout_ms - 1) is None
    assert submitter.to_see(CONFIG.request_timeout_ms) == SeeAccount(ONE)
    made.take_account(AccountSeen(7, ONE, "address"))
    assert submitter.to_see(CONFIG.request_timeout_ms * 3) is None
    dispatch = written(submitter)
    assert (dispatch.nonce, dispatch.signer) == (7, "address")


def test_restored_dispatches_belong_to_their_accounts_after_another_choice() -> None:
    old = submitters()
    one = dispatched(old, "A-1", ONE, next_nonce=4)
    shared = RoundDispatch(round_of("A-2", ONE), "shared", 4)
    stored = {SHARED_ACCOUNT: StoredAccount(5), ONE: StoredAccount(5)}
    made = Submitters("shared", CONFIG, AccountChoice.SHARED, stored, (shared, one))
    assert [each.account for each in made.working()] == [SHARED_ACCOUNT, ONE]
    assert made.of(ONE).to_see(0) == SeeAccount(ONE)
    assert made.of(SHARED_ACCOUNT).to_see(0) is None
    next_one = made.take(round_of("A-3", ONE))
    assert next_one.account == SHARED_ACCOUNT
    assert written(next_one).nonce == 5


def test_account_that_the_store_knows_goes_on_where_it_stopped_and_recalls_what_the_chain_lost() -> None:
    made = Submitters("shared", CONFIG, AccountChoice.BY_CONTRACT, {ONE: StoredAccount(3)}, ())
    submitter = made.take(round_of("A-1", ONE))
    made.take_account(AccountSeen(2, ONE, "address"))
    recall = submitter.to_recall()
    assert recall is not None
    assert (recall.nonces, recall.account) == ((2,), ONE)
    assert written(submitter).nonce == 3


def test_choice_for_a_contract_stands_before_that_of_the_node_and_concerns_later_rounds_alone() -> None:
    made = Submitters("shared", CONFIG, AccountChoice.SHARED, {TWO: StoredAccount(0, is_own=True)}, ())
    assert made.has_own(TWO)
    assert made.take(round_of("A-1", ONE)).account == SHARED_ACCOUNT
    made.take_chosen(AccountChosen(ONE, is_own=True))
    assert made.take(round_of("A-2", ONE)).account == ONE
    assert [each.transitions for each in made.shared.waiting] == [round_of("A-1", ONE).transitions]
    made.take_chosen(AccountChosen(ONE, is_own=None))
    made.take_chosen(AccountChosen(TWO, is_own=None))
    assert not made.has_own(ONE)
    assert not made.has_own(TWO)


# Gas.


def test_nothing_is_offered_where_gas_is_free_and_waiting_makes_no_better_offer() -> None:
    made = submitters(AccountChoice.AUTO)
    made.take_account(FREE)
    one = dispatched(made, "A-1", ONE)
    assert one.fees == Fees(0, 0)
    submitter = made.of(ONE)
    submitter.take_sent(0, 0, 0)
    assert submitter.next_to_sign(0, 100 * CONFIG.reprice_blocks) is None


def test_chain_that_asks_for_gas_after_all_is_paid() -> None:
    made = submitters(AccountChoice.AUTO)
    made.take_account(FREE)
    dispatched(made, "A-1", ONE)
    made.gas_price.base_fee_wei = 100
    dearer = made.of(ONE).next_to_sign(0, 1)
    assert dearer is not None
    assert dearer.fees.most_wei >= 200


def test_chain_that_refuses_what_costs_nothing_is_offered_the_usual_tip() -> None:
    made = submitters(AccountChoice.AUTO)
    made.take_account(FREE)
    dispatched(made, "A-1", ONE)
    made.of(ONE).take_refused(0, TransactionRefused(0, Objection.UNDERPRICED, "gas price too low", ONE))
    dearer = made.of(ONE).next_to_sign(0, 1)
    assert dearer is not None
    assert dearer.fees == Fees(CONFIG.tip_wei, CONFIG.tip_wei)
    assert made.has_own(TWO), "the choice is made once in a run"


def test_trouble_of_any_account_is_shown() -> None:
    made = submitters()
    dispatched(made, "A-1", ONE)
    assert made.trouble == ""
    made.of(ONE).take_refused(0, TransactionRefused(0, Objection.NO_FUNDS, "balance 0", ONE))
    assert made.trouble == "insufficient funds: balance 0"
