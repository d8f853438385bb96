"""A node and the chain: who hears of blocks, what a reorganisation undoes, and when the ledger is lost."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from rota.chain.effects import BlocksIndexed, FetchBlocks
from rota.chain.events import BlocksFetched, TransactionSent
from rota.machine.effects import Persist, ReportReceipt
from rota.model.blocks import LedgerOutcome, LedgerStatus, MinedStatus
from rota.model.types import ContractAddress, Outcome
from rota.node.node import OWN, Node
from rota.node.stored import StoredNode
from rota.sequencer.sender_transaction import State as SenderSide
from rota.wire.messages import Startup, SubmitterHeartbeat
from tests.node.node_bench import (
    A1,
    A2,
    B1,
    CONFIG,
    NOWHERE,
    OTHER,
    OURS,
    START,
    NodeBench,
    dispatch_of_b,
    mined,
    outcome,
)
from tests.sequencer.kit import ADDRESS, GENESIS_S, A, B, contract

DEEP = replace(CONFIG, confirmations=2)


def both() -> tuple[tuple[ContractAddress, LedgerOutcome], ...]:
    return ((ADDRESS, outcome(A1)), (OTHER, outcome(A2, OTHER)))


# Blocks.


def test_blocks_are_reported_in_the_step_that_records_them() -> None:
    bench = NodeBench()
    bench.submit("A-1")
    bench.silent = (FetchBlocks,)
    bench.settle(A1)
    assert (bench.node.height, bench.receipts()) == (0, [])
    record, *others = bench.node.step(0, BlocksFetched(tuple(bench.chain)))
    assert record == Persist(OWN, (BlocksIndexed(0, (bench.chain[-1],)),))
    assert bench.node.height == 1
    receipts = [effect.receipt for effect in others if isinstance(effect, ReportReceipt)]
    assert [(receipt.intent, receipt.outcome) for receipt in receipts] == [(A1, Outcome.CONFIRMED)]


def test_blocks_that_a_crash_kept_from_the_disk_were_not_reported_and_are_asked_for_again() -> None:
    bench = NodeBench(crashes_before=(BlocksIndexed,))
    bench.submit("A-1")
    bench.settle(A1)
    assert bench.receipts() == []
    bench.restart()
    assert bench.receipts() == [(A1, Outcome.CONFIRMED)]


def test_every_contract_hears_of_the_height_and_only_its_own_outcomes() -> None:
    bench = NodeBench(config=DEEP)
    bench.submit("A-1")
    bench.submit("A-2", OTHER)
    bench.block((OTHER, outcome(A2, OTHER)), height=9, time_s=GENESIS_S + 5)
    contexts = [sequencer.context for sequencer in bench.node.sequencers.loaded.values()]
    assert [(context.height, context.chain_time_s) for context in contexts] == [(9, GENESIS_S + 5)] * 2
    assert bench.sender_state(A1) is SenderSide.SEQUENCED
    assert bench.sender_state(A2, OTHER) is SenderSide.CONFIRMED
    assert not bench.sequencer().coordinator.outcomes.is_committed(A2)


def test_outcome_of_a_contract_that_is_not_ours_is_ignored() -> None:
    bench = NodeBench()
    bench.submit("A-1")
    bench.block((NOWHERE, outcome(A1)))
    assert bench.sender_state(A1) is SenderSide.SEQUENCED
    assert bench.loaded_contracts() == [ADDRESS, OTHER]


def test_idle_contract_hears_where_the_chain_stands_when_something_concerns_it() -> None:
    bench = NodeBench()
    bench.submit("A-1")
    bench.block(height=9, time_s=GENESIS_S + 5)
    busy, idle = (bench.sequencer(address).context for address in (ADDRESS, OTHER))
    assert (busy.height, idle.height) == (9, 0)
    bench.submit("A-2", OTHER)
    assert (idle.height, idle.chain_time_s) == (9, GENESIS_S + 5)


def test_idle_contracts_have_no_deadline_and_busy_ones_their_own() -> None:
    bench = NodeBench()
    assert bench.node.sequencers.next_due_ms() is None
    bench.submit("A-1")
    own = bench.sequencer().next_deadline_ms()
    assert own is not None
    assert bench.node.sequencers.next_due_ms() == own


def test_time_of_a_final_block_reaches_who_is_awake_and_the_others_when_they_wake() -> None:
    bench = NodeBench()
    bench.submit("A-1")
    bench.block(time_s=GENESIS_S + 9)
    awake, asleep = bench.sequencer().sender, bench.sequencer(OTHER).sender
    assert (awake.final_time_s, asleep.final_time_s) == (GENESIS_S + 9, GENESIS_S)
    bench.submit("A-2", OTHER)
    assert asleep.final_time_s == GENESIS_S + 9


def test_receipts_are_reported_only_for_the_outcomes_that_are_final() -> None:
    bench = NodeBench(config=DEEP)
    bench.submit("A-1")
    bench.submit("A-2", OTHER)
    first, second = both()
    bench.block(second)
    bench.block(first)
    assert bench.receipts() == []
    bench.block()
    assert bench.receipts() == [(A2, Outcome.CONFIRMED)]
    bench.block()
    assert bench.receipts() == [(A2, Outcome.CONFIRMED), (A1, Outcome.CONFIRMED)]


# Reorganisations.


def test_reorganisation_reaches_the_contract_whose_outcome_it_took() -> None:
    bench = NodeBench(config=DEEP)
    bench.submit("A-1")
    bench.submit("A-2", OTHER)
    bench.block(*both())
    bench.reorganise(1, both()[1:])
    assert bench.sender_state(A1) is SenderSide.SUBMITTED
    assert bench.sender_state(A2, OTHER) is SenderSide.CONFIRMED


def test_reorganisation_is_one_record_that_says_where_the_chains_part() -> None:
    bench = NodeBench(config=DEEP)
    bench.block()
    bench.block()
    bench.reorganise(1)
    record = bench.records(BlocksIndexed)[-1]
    assert (record.parted_at, record.blocks) == (1, (bench.chain[-1],))


def test_what_a_reorganisation_took_is_undone_in_the_step_that_records_it() -> None:
    bench = NodeBench(config=DEEP)
    bench.submit("A-1")
    bench.block((ADDRESS, outcome(A1)))
    bench.silent = (FetchBlocks,)
    bench.reorganise(1)
    bench.node.step(0, BlocksFetched(tuple(bench.chain[1:])))
    assert bench.sender_state(A1) is SenderSide.CONFIRMED
    record, *_ = bench.node.step(0, BlocksFetched(tuple(bench.chain)))
    assert record == Persist(OWN, (BlocksIndexed(0, (bench.chain[-1],)),))
    assert bench.sender_state(A1) is SenderSide.SUBMITTED


@pytest.mark.parametrize("taken", [(), ((ADDRESS, outcome(A1)),)], ids=["empty block", "an outcome of one contract"])
def test_height_that_a_shorter_chain_leaves_reaches_who_is_awake_and_the_others_when_they_wake(
    taken: tuple[tuple[ContractAddress, LedgerOutcome], ...],
) -> None:
    bench = NodeBench(config=DEEP)
    bench.submit("A-2", OTHER)
    bench.block(height=8)
    bench.block(*taken)
    bench.shorten(1)
    assert bench.node.height == 8
    assert bench.sequencer(OTHER).context.height == 8
    bench.submit("A-1")
    assert bench.sequencer().context.height == 8


def test_dispatch_whose_outcome_a_reorganisation_took_is_sent_and_listed_again() -> None:
    bench = NodeBench(config=DEEP)
    dispatch_of_b(bench)
    bench.tell(TransactionSent(0))
    bench.settle(B1)
    bench.wait(2 * CONFIG.heartbeat_ms)
    assert bench.said(SubmitterHeartbeat, B) == []
    bench.reorganise(1)
    bench.wait(CONFIG.heartbeat_ms)
    assert len(bench.said(SubmitterHeartbeat, B)) == 1
    assert bench.nonces_sent() == [0, 0]


def test_reorganisation_of_a_contract_that_is_not_ours_touches_nobody() -> None:
    bench = NodeBench(config=DEEP)
    bench.submit("A-1")
    bench.block((ADDRESS, outcome(A1)))
    bench.block((NOWHERE, outcome(A1)))
    bench.reorganise(1)
    assert bench.sender_state(A1) is SenderSide.CONFIRMED


@pytest.mark.parametrize(
    "again",
    [
        {"outcomes": ((ADDRESS, outcome(A1, status=LedgerStatus.SKIPPED)),)},
        {"mined": (mined(0, MinedStatus.FAILED, "expired"),)},
    ],
    ids=["skipped the second time", "failed the second time"],
)
def test_intent_stays_committed_when_only_the_second_submission_of_its_round_is_taken_back(
    again: dict[str, Any],
) -> None:
    """Anybody may submit a round again: its intent is used by then, and that is all that the block says."""
    bench = NodeBench(config=DEEP)
    bench.submit("A-1")
    bench.block((ADDRESS, outcome(A1)))
    bench.block(*again.get("outcomes", ()), mined=again.get("mined", ()))
    bench.reorganise(1)
    assert bench.sender_state(A1) is SenderSide.CONFIRMED
    assert bench.sequencer().coordinator.outcomes.is_committed(A1)
    bench.block()
    assert bench.receipts() == [(A1, Outcome.CONFIRMED)]


# A new life.


def test_restarted_node_goes_through_unfinal_blocks_again() -> None:
    bench = NodeBench(config=DEEP)
    bench.submit("A-1")
    bench.block((ADDRESS, outcome(A1)))
    bench.restart()
    assert bench.node.height == 1
    assert bench.sender_state(A1) is SenderSide.CONFIRMED
    bench.block()
    bench.block()
    assert bench.receipts() == [(A1, Outcome.CONFIRMED)]


def test_restarted_node_begins_at_its_last_final_block() -> None:
    blocks = tuple(replace(START, height=height, time_s=GENESIS_S + height) for height in range(5))
    node = Node(A, (OURS,), DEEP, 0, StoredNode(blocks=blocks))
    assert (node.height, node.chain_time_s) == (2, GENESIS_S + 2)
    node.start()
    assert (node.height, node.chain_time_s) == (4, GENESIS_S + 4)


def test_node_without_a_block_begins_at_nothing_and_asks_for_the_first() -> None:
    bench = NodeBench(stored=StoredNode())
    assert (bench.node.height, bench.node.chain_time_s) == (0, 0)
    bench.disk.blocks.clear()
    bench.mine()
    bench.disk.blocks.append(START)
    bench.show_head()
    assert bench.all(FetchBlocks) == [FetchBlocks(0, 1)]
    assert bench.node.height == 1


# The ledger is lost and found.


def ledger_of(bench: NodeBench) -> tuple[bool, bool]:
    """Have the node and its contract a ledger?"""
    return bench.node.has_ledger, bench.sequencer().context.has_ledger


def test_ledger_that_is_not_reached_for_its_grace_is_lost_and_found_again_with_a_startup() -> None:
    bench = NodeBench(contracts=(contract(B),))
    bench.submit("A-1")
    bench.has_chain = False
    bench.wait(CONFIG.ledger_grace_ms - 1)
    assert ledger_of(bench) == (True, True)
    bench.wait(1)
    assert ledger_of(bench) == (False, False)
    bench.has_chain = True
    bench.show_head()
    assert ledger_of(bench) == (True, True)
    assert bench.said(Startup, B)


def test_chain_that_repeats_its_latest_block_is_not_lost() -> None:
    bench = NodeBench()
    bench.wait(10 * CONFIG.ledger_grace_ms)
    assert bench.node.has_ledger


def test_index_that_cannot_keep_up_with_the_chain_has_no_ledger() -> None:
    bench = NodeBench(silent=(FetchBlocks,))
    bench.mine()
    bench.wait(CONFIG.ledger_grace_ms)
    assert ledger_of(bench)[0] is False
    bench.silent = ()
    bench.wait(CONFIG.request_timeout_ms)
    assert ledger_of(bench)[0] is True
