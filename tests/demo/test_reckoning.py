"""The audit of the demonstration judges: what is missing, done twice, or told otherwise than it is, is a sentence."""

from __future__ import annotations

from collections import Counter

from rota.client import TransactionReceipt
from rota.demo.payroll import RENT, rent_of
from rota.demo.programme import EACH_BEGINS_WITH, Asset, Programme, Transfer
from rota.demo.reckoning import balance_problems, epoch_problems, expected_balances, without_strangers
from rota.demo.show import Attempts
from rota.localnet.audit import promise_problems
from rota.localnet.chain_book import ChainBook
from rota.localnet.workload import Promise, Request
from rota.model.types import ContractAddress, IntentId, NodeName, Party

NODE1, NODE2, NODE3 = (NodeName(f"node{number}") for number in (1, 2, 3))
ALICE, BOB, CAROL = (Party(f"{person}@{node}") for person, node in (("alice", NODE1), ("bob", NODE2), ("carol", NODE3)))
LANDLORD = Party("landlord@node3")
FIRST, SECOND, COMMAND = (IntentId(bytes([number]) * 16) for number in (1, 2, 3))
PROMISES = {FIRST: Promise(NODE1, Request(0, "transfer"), 0.0), SECOND: Promise(NODE2, Request(1, "transfer"), 0.0)}


def receipt(intent: IntentId, *, success: bool = True) -> TransactionReceipt:
    return TransactionReceipt(
        id=intent.hex(), sequence=1, success=success, failure_message="" if success else "no funds"
    )


ENDED = {intent: receipt(intent) for intent in PROMISES}
ONCE = Counter({FIRST: 1, SECOND: 1, COMMAND: 1})


# Intents.


def test_what_is_confirmed_exactly_once_has_no_problems() -> None:
    assert promise_problems(PROMISES, ENDED, ONCE, (COMMAND,)) == []


def test_an_intent_that_is_missing_on_the_chain_is_a_problem() -> None:
    (problem,) = promise_problems(PROMISES, ENDED, ONCE - Counter([SECOND]), (COMMAND,))
    assert problem == "02020202-0202-0202-0202-020202020202 of node2 is confirmed, and 0 times on the chain"


def test_an_intent_that_is_twice_on_the_chain_is_a_problem() -> None:
    (problem,) = promise_problems(PROMISES, ENDED, ONCE + Counter([FIRST]), (COMMAND,))
    assert problem.endswith("of node1 is confirmed, and 2 times on the chain")


def test_an_intent_without_a_receipt_and_one_that_failed_are_problems() -> None:
    problems = promise_problems(PROMISES, {SECOND: receipt(SECOND, success=False)}, ONCE, (COMMAND,))
    assert [problem.partition(" ")[2] for problem in problems] == [
        "of node1 has not ended",
        "of node2 has failed: no funds",
    ]


def test_what_nobody_asked_for_is_a_problem() -> None:
    (problem,) = promise_problems(PROMISES, ENDED, ONCE)
    assert problem == "03030303-0303-0303-0303-030303030303 is on the chain, and nobody asked for it"


def test_a_command_that_happened_twice_or_not_at_all_is_a_problem() -> None:
    for times in (0, 2):
        committed = Counter({**ONCE, COMMAND: times})
        (problem,) = promise_problems(PROMISES, ENDED, committed, (COMMAND,))
        assert problem.endswith(f" is {times} times on the chain")


# Balances.


def test_balances_are_what_the_transfers_make_of_the_beginning_and_the_rent_is_paid_once() -> None:
    transfers = (Transfer(0, Asset.TOKEN, ALICE, BOB, 5), Transfer(1, Asset.ERC20, BOB, ALICE, 7))
    expected = expected_balances(Programme(), LANDLORD, (*transfers, rent_of(CAROL, LANDLORD)))
    begin = EACH_BEGINS_WITH
    assert expected[Asset.TOKEN] == {ALICE: begin - 5, BOB: begin + 5, CAROL: begin, LANDLORD: 0}
    assert expected[Asset.ERC20] == {ALICE: begin + 7, BOB: begin - 7, CAROL: begin - RENT, LANDLORD: RENT}


def test_a_node_that_says_something_else_is_told_with_what_it_says() -> None:
    expected = expected_balances(Programme(), LANDLORD, ())
    told = {asset: dict(amounts) for asset, amounts in expected.items()}
    assert balance_problems(NODE2, expected, told) == []
    told[Asset.ERC20][BOB] += 1
    del told[Asset.TOKEN][ALICE]
    assert balance_problems(NODE2, expected, told) == [
        "node2 says that alice@node1 has None of the token, and it must be 1000000",
        "node2 says that bob@node2 has 1000001 of the ERC-20, and it must be 1000000",
    ]


def test_of_the_token_a_holder_s_node_answers_for_its_own_coins_alone() -> None:
    expected = expected_balances(Programme(), LANDLORD, ())
    known = without_strangers(expected, BOB)
    assert list(known[Asset.TOKEN]) == [BOB]
    assert known[Asset.ERC20] == expected[Asset.ERC20]


# Epochs.


def test_epochs_that_began_once_and_are_counted_right_have_no_problems() -> None:
    begun = [(1, NODE1), (2, NODE2), (3, NODE1)]
    attempts = {NODE1: Attempts(won=2, lost=1), NODE2: Attempts(won=1), NODE3: Attempts(lost=3)}
    assert epoch_problems(begun, attempts, (NODE1, NODE2, NODE3)) == []


def test_an_epoch_that_is_left_out_begun_twice_or_by_a_stranger_is_a_problem() -> None:
    assert epoch_problems([], {}, ()) == ["no epoch has begun"]
    assert epoch_problems([(1, NODE1), (3, NODE1)], {}, ()) == ["epochs began in this order: [1, 3]"]
    assert epoch_problems([(1, NODE1), (1, NODE2)], {}, ()) == ["epochs began in this order: [1, 1]"]
    assert epoch_problems([(1, None)], {}, ()) == ["1 epochs were begun by nobody of the network"]


def test_a_node_that_counts_otherwise_than_the_chain_is_a_problem_unless_it_forgot_in_a_restart() -> None:
    attempts = {NODE1: Attempts(won=0)}
    (problem,) = epoch_problems([(1, NODE1)], attempts, (NODE1,))
    assert problem == "node1 counts 0 epochs as won, and the chain 1"
    assert epoch_problems([(1, NODE1)], attempts, ()) == []
    assert epoch_problems([(1, NODE1)], {NODE1: Attempts(won=2)}, ()) != []


# Gas.


def test_gas_of_rounds_is_shared_by_what_they_committed_and_one_in_vain_counts() -> None:
    token, group = ContractAddress("0x" + "11" * 20), ContractAddress("0x" + "22" * 20)
    book = ChainBook(ledger=None, chain_id=1, contracts=(token, group))  # type: ignore[arg-type]  # nobody is asked
    assert book.gas_per_transaction((token,)) is None
    book.transactions.update({(b"a", token): 3, (b"b", group): 1})
    book.transactions[b"c", token] += 0
    book.gas.update({b"a": 90, b"b": 70, b"c": 30})
    assert book.gas_per_transaction((token,)) == 40
    assert book.gas_per_transaction((group,)) == 70
    assert book.rounds == 3
