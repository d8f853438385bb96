"""A chain that takes back more blocks than `confirmations`: resent, recorded, reported, and never taken for work."""

from __future__ import annotations

from dataclasses import replace

from rota.chain.effects import (
    BlocksIndexed,
    FinalityBroken,
    RecallDispatches,
    RoundDispatch,
    SignDispatch,
    UndoneCommit,
)
from rota.chain.events import AccountSeen, DispatchesRecalled, DispatchSigned
from rota.chain.index import FINAL_PATIENCE
from rota.chain.submitter import RECALLED_MAX
from rota.machine.effects import Persist
from rota.model.blocks import FactoryDeployment
from rota.model.types import NO_CONTRACT, NO_LEAF, ContractAddress, Outcome
from rota.node.effects import ReportFinalityBroken
from tests.chain.test_submitter import block as block_of
from tests.chain.test_submitter import order as round_of
from tests.chain.test_submitter import outcome as outcome_of
from tests.chain.test_submitter import sign, signed, submitter
from tests.node.node_bench import A1, A2, B1, CONFIG, OTHER, NodeBench, mined, order, outcome, restarted
from tests.sequencer.kit import ADDRESS

DEEP = replace(CONFIG, confirmations=2)


def confirmed() -> NodeBench:
    """A node without confirmations that has reported an intent as confirmed."""
    bench = NodeBench()
    bench.submit("A-1")
    bench.settle(A1)
    assert bench.receipts() == [(A1, Outcome.CONFIRMED)]
    return bench


# Sent again.


def test_dispatch_of_a_final_block_that_is_taken_back_is_sent_again_with_its_nonce() -> None:
    bench = confirmed()
    sent = bench.nonces_sent()
    bench.reorganise(1)
    assert bench.nonces_sent() == [*sent, 0]
    assert bench.node.submitters.shared.next_nonce == 1


def test_resent_dispatch_settles_when_a_block_has_it_again() -> None:
    bench = confirmed()
    bench.reorganise(1)
    bench.settle(A1)
    assert bench.node.submitters.shared.submissions == {}
    assert bench.receipts() == [(A1, Outcome.CONFIRMED)]


def test_dispatch_that_the_replacing_block_has_again_is_not_sent_again() -> None:
    bench = confirmed()
    sent = bench.nonces_sent()
    bench.chain.pop()
    bench.block((ADDRESS, outcome(A1)), mined=[mined(0)])
    assert bench.nonces_sent() == sent
    assert bench.node.submitters.shared.submissions == {}


def test_dispatch_that_is_in_an_unfinal_block_again_is_watched_until_it_is_final() -> None:
    bench = NodeBench(config=DEEP)
    bench.submit("A-1")
    bench.settle(A1)
    bench.block()
    bench.block()
    bench.silent = (RecallDispatches,)
    bench.chain = bench.chain[:1]
    for _ in range(3):
        bench.mine()
    bench.block((ADDRESS, outcome(A1)), mined=[mined(0)])
    recall = bench.all(RecallDispatches)[-1]
    sent = bench.nonces_sent()
    found = bench.disk.recall(bench.node.name, recall.account, recall.nonces)
    bench.tell(DispatchesRecalled(recall.nonces, found))
    assert bench.nonces_sent() == sent
    assert bench.node.submitters.shared.submissions[0].is_mined
    bench.block()
    bench.block()
    assert bench.node.submitters.shared.submissions == {}


def test_store_that_does_not_answer_is_asked_again_with_the_next_heartbeat() -> None:
    bench = confirmed()
    bench.silent = (RecallDispatches,)
    bench.reorganise(1)
    assert bench.all(RecallDispatches) == [RecallDispatches((0,))]
    bench.silent = ()
    bench.wait(CONFIG.heartbeat_ms)
    assert bench.all(RecallDispatches) == [RecallDispatches((0,))] * 2
    assert bench.nonces_sent()[-1] == 0


def test_node_that_crashed_before_it_resent_recalls_by_the_nonce_of_its_account() -> None:
    bench = confirmed()
    bench.silent = (RecallDispatches,)
    bench.reorganise(1)
    bench.silent = ()
    bench.restart()
    bench.tell(AccountSeen(0))
    assert 0 in bench.node.submitters.shared.submissions


def test_account_of_a_chain_node_that_lags_behind_resends_nothing() -> None:
    bench = confirmed()
    bench.restart()
    sent = bench.nonces_sent()
    bench.tell(AccountSeen(0))
    assert bench.nonces_sent() == sent
    assert bench.node.submitters.shared.submissions == {}
    assert bench.node.submitters.shared.free == []


def test_recalled_nonces_are_bounded() -> None:
    watched = submitter(next_nonce=5 * RECALLED_MAX)
    watched.take_account(AccountSeen(0))
    recall = watched.to_recall()
    assert recall is not None
    assert recall.nonces == tuple(range(4 * RECALLED_MAX, 5 * RECALLED_MAX))


# Nonces from the chain.


def test_nonce_that_the_store_has_nothing_for_goes_to_the_next_round() -> None:
    bench = restarted(next_nonce=2)
    bench.tell(AccountSeen(2))
    bench.block(mined=[mined(1)])
    bench.reorganise(1)
    bench.submit("A-1")
    bench.submit("A-2", OTHER)
    assert bench.nonces_sent() == [1, 2]
    assert bench.node.submitters.shared.next_nonce == 3


def test_block_that_uses_a_free_nonce_takes_it_from_the_round_that_was_to_have_it() -> None:
    free = submitter(next_nonce=2)
    free.recalling[1] = None
    free.take_recalled(DispatchesRecalled((1, 7), ()), (), 0)
    assert free.free == [1]
    free.take(round_of("A-1"))
    asked = free.next_to_sign(0, 0)
    assert asked is not None
    assert asked.nonce == 1
    free.settle(block_of(mined=[1]), ())
    assert free.take_signed(0, signed(asked)) is None
    again = free.next_to_sign(0, 0)
    assert again is not None
    assert again.nonce == 2
    assert again.round == asked.round


def test_free_nonce_is_used_by_another_block_while_nothing_waits() -> None:
    free = submitter(next_nonce=2)
    free.recalling[1] = None
    free.take_recalled(DispatchesRecalled((1,), ()), (), 0)
    free.settle(block_of(mined=[1]), ())
    assert free.free == []


def test_nonce_that_a_block_of_the_index_has_is_not_free() -> None:
    free = submitter(next_nonce=2)
    free.recalling[1] = None
    free.take_recalled(DispatchesRecalled((1,), ()), (block_of(mined=[1]),), 1)
    assert free.free == []


def test_unfinal_block_with_a_nonce_of_a_stranger_recalls_nothing() -> None:
    watched = submitter(next_nonce=2)
    watched.undo(block_of(mined=[1]), ())
    assert watched.to_recall() is None


def test_answer_that_comes_twice_resends_once() -> None:
    watched = submitter(next_nonce=1)
    dispatch = RoundDispatch(round_of("A-1"), "signer", 0)
    watched.recalling[0] = None
    assert watched.take_recalled(DispatchesRecalled((0,), (dispatch,)), (), 0) == (dispatch,)
    assert watched.take_recalled(DispatchesRecalled((0,), (dispatch,)), (), 0) == ()
    watched.settle(block_of(outcome_of("A-1", dispatch.round), mined=[0]), (outcome_of("A-1", dispatch.round),))
    assert watched.submissions[0].is_mined


# Recorded and reported.


def test_record_of_broken_finality_stands_before_the_blocks_and_names_what_was_final() -> None:
    bench = confirmed()
    leaf = outcome(A1).leaf
    bench.reorganise(1)
    broken = FinalityBroken(0, 1, (UndoneCommit(1, ADDRESS, A1, leaf),))
    assert bench.records(FinalityBroken) == [broken]
    assert [type(record) for _, record in bench.disk.records[-2:]] == [FinalityBroken, BlocksIndexed]
    assert bench.all(ReportFinalityBroken) == [ReportFinalityBroken(0, 1, (A1,))]


def test_finality_that_holds_is_not_reported() -> None:
    bench = NodeBench(config=DEEP)
    bench.submit("A-1")
    bench.settle(A1)
    bench.block()
    bench.reorganise(2)
    assert bench.all(ReportFinalityBroken) == []


def test_only_blocks_that_were_final_count_as_broken() -> None:
    bench = NodeBench(config=DEEP)
    bench.submit("A-1")
    bench.submit("A-2", OTHER)
    bench.settle(A1)
    bench.block()
    bench.settle(A2, of=OTHER)
    bench.reorganise(3)
    assert [report.intents for report in bench.all(ReportFinalityBroken)] == [(A1,)]


def test_broken_finality_is_reported_in_the_step_that_records_it_behind_the_record() -> None:
    bench = confirmed()
    bench.seen.clear()
    bench.reorganise(1)
    (step,) = [place for place, effect in enumerate(bench.seen) if isinstance(effect, Persist)]
    broken, indexed = bench.all(Persist)[0].records
    assert (type(broken), type(indexed)) == (FinalityBroken, BlocksIndexed)
    assert bench.seen[step + 1] == ReportFinalityBroken(0, 1, (A1,))


def test_finality_whose_breach_a_crash_kept_from_the_disk_is_reported_by_the_next_run() -> None:
    bench = confirmed()
    bench.crashes_before = (FinalityBroken,)
    bench.reorganise(1)
    assert bench.all(ReportFinalityBroken) == []
    bench.restart()
    assert [report.intents for report in bench.all(ReportFinalityBroken)] == [(A1,)]


def test_deployment_of_a_final_block_that_is_taken_back_is_named() -> None:
    bench = NodeBench()
    made = FactoryDeployment(B1, ContractAddress("0x" + "44" * 20), b"", (), 0)
    block = bench.mine()
    bench.chain[-1] = replace(block, deployments=(made,))
    bench.show_head()
    bench.reorganise(1)
    assert bench.records(FinalityBroken)[0].undone == (UndoneCommit(1, NO_CONTRACT, B1, NO_LEAF),)


def test_final_block_that_is_lost_after_a_restart_on_a_shorter_chain_is_reported() -> None:
    """The chain loses blocks that were not final, the node restarts, and then the chain loses a final one."""
    bench = NodeBench(config=replace(CONFIG, confirmations=1))
    bench.submit("A-1")
    bench.block((ADDRESS, outcome(A1)), mined=[mined(0)])
    bench.block()
    bench.block()
    assert bench.node.index.final_height == 2
    del bench.chain[-1]
    bench.show_head()
    bench.wait(20 * CONFIG.stale_head_ms)
    assert (bench.node.height, bench.node.index.final_height) == (2, 2)
    bench.restart()
    assert bench.node.index.final_height == 2
    bench.reorganise(1)
    assert [report.parted_at for report in bench.all(ReportFinalityBroken)] == [1]


# What is not done.


def test_intent_whose_receipt_was_undone_is_not_assembled_again_after_a_restart() -> None:
    bench = confirmed()
    bench.reorganise(1)
    bench.restart()
    bench.wait(10_000)
    assert A1 not in bench.sequencer().sender.transactions
    assert bench.disk.undone == {A1}
    assert bench.receipts() == [(A1, Outcome.CONFIRMED)]


def test_intent_that_depends_on_an_undone_receipt_ends() -> None:
    bench = confirmed()
    bench.reorganise(1)
    bench.submit("A-2", depends_on=(A1,))
    assert bench.receipts()[-1] == (A2, Outcome.REVERTED)


def test_round_is_signed_for_the_free_nonce_first() -> None:
    free = submitter(next_nonce=5)
    free.recalling.update({3: None, 4: None})
    free.take_recalled(DispatchesRecalled((3, 4), ()), (), 0)
    for name in ("A-1", "A-2", "B-1"):
        free.take(round_of(name))
    nonces = []
    for _ in range(3):
        written = sign(free)
        assert isinstance(written, RoundDispatch)
        nonces.append(written.nonce)
    assert nonces == [3, 4, 5]
    assert free.next_nonce == 6


def test_signer_that_is_late_for_a_free_nonce_changes_nothing() -> None:
    bench = restarted(next_nonce=1, silent=(SignDispatch,))
    bench.tell(AccountSeen(1))
    bench.block(mined=[mined(0)])
    bench.reorganise(1)
    bench.submit("A-1")
    asked = bench.all(SignDispatch)[-1]
    assert asked.nonce == 0
    bench.block(mined=[mined(0)])
    bench.tell(DispatchSigned(0, asked.fees, b"transaction", b"hash", order(A1).digest))
    assert bench.all(SignDispatch)[-1].nonce == 1


# A chain node that lags behind.


def test_chain_node_that_lags_behind_does_not_break_finality() -> None:
    bench = confirmed()
    lost = bench.chain.pop()
    bench.show_head()
    bench.wait((FINAL_PATIENCE - 1) * CONFIG.stale_head_ms)
    assert bench.node.height == 1
    bench.chain.append(lost)
    bench.show_head()
    assert bench.all(ReportFinalityBroken) == []


def test_chain_that_stays_shorter_than_its_final_blocks_is_believed_at_last() -> None:
    bench = confirmed()
    bench.chain.pop()
    bench.show_head()
    bench.wait((FINAL_PATIENCE + 1) * CONFIG.stale_head_ms)
    assert bench.node.height == 0
    assert [report.intents for report in bench.all(ReportFinalityBroken)] == [(A1,)]
    assert bench.nonces_sent()[-1] == 0


def test_shorter_chain_with_another_block_in_the_place_of_a_final_one_is_believed_soon() -> None:
    bench = confirmed()
    bench.block()
    bench.chain = bench.chain[:1]
    bench.mine()
    bench.show_head()
    bench.wait(2 * CONFIG.stale_head_ms)
    assert [report.intents for report in bench.all(ReportFinalityBroken)] == [(A1,)]


def test_shorter_chain_whose_latest_block_we_passed_over_is_waited_for() -> None:
    bench = NodeBench()
    bench.submit("A-1")
    bench.block((ADDRESS, outcome(A1)), height=5, mined=[mined(0)])
    bench.chain.pop()
    bench.mine(height=3)
    bench.show_head()
    bench.wait(3 * CONFIG.stale_head_ms)
    assert bench.node.height == 5
    assert bench.all(ReportFinalityBroken) == []


def test_final_blocks_that_did_nothing_for_us_are_reported_without_intents() -> None:
    """The index does not know of public transactions, which may have been in them."""
    bench = NodeBench()
    bench.block()
    bench.reorganise(1)
    assert [(each.parted_at, each.intents) for each in bench.all(ReportFinalityBroken)] == [(0, ())]
