"""Another node's private transactions as dependencies: decided by leaf, bounded, and by the own index alone."""

from __future__ import annotations

from collections.abc import ValuesView
from dataclasses import replace

import pytest

from rota.chain.public_transaction import PublicTransaction, failed_dependency
from rota.machine.effects import IntentAccepted, ReportReceipt
from rota.machine.events import CancelRequested
from rota.model.awaited import AwaitedLeaves, dependency_name
from rota.model.blocks import LedgerOutcome, LedgerStatus
from rota.model.digests import domain_separator, void_leaf
from rota.model.types import AwaitedLeaf, ContractAddress, IntentId, Leaf, Outcome, Party
from rota.node.effects import LoadContract, LookUpIntents
from rota.node.events import ForContract, IntentsLookedUp, RoundsMadeUp
from rota.sequencer.sender_transaction import State
from tests.directory.deployment_bench import ID, DeploymentBench
from tests.node.node_bench import A1, A2, B1, CONFIG, OTHER, OURS, THEIRS, NodeBench, outcome, transition
from tests.sequencer.kit import ADDRESS, GENESIS_S, B, contract

UNTIL_S = GENESIS_S + 100
OF_B = AwaitedLeaf(ADDRESS, B1, transition(B1).leaf, UNTIL_S)
STRANGE = Leaf(b"l" * 32)
DEEP = replace(CONFIG, confirmations=2)


def reason(bench: NodeBench) -> str:
    return bench.all(ReportReceipt)[-1].receipt.reason


def another(status: LedgerStatus = LedgerStatus.COMMITTED, leaf: Leaf = STRANGE) -> LedgerOutcome:
    """The outcome of another leaf under the same id."""
    return replace(outcome(B1), leaf=leaf, status=status)


def waiting(awaited: AwaitedLeaf = OF_B, bench: NodeBench | None = None) -> NodeBench:
    """A-2 of the other contract waits for an intent of node B."""
    bench = bench or NodeBench()
    bench.submit("A-2", OTHER, awaits=(awaited,))
    return bench


def test_intent_waits_for_another_nodes_leaf_and_goes_when_that_is_committed() -> None:
    bench = waiting()
    assert bench.sender_state(A2, OTHER) is State.PENDING
    assert bench.nonces_sent() == []
    bench.block((ADDRESS, outcome(B1)))
    assert bench.nonces_sent() == [0]
    assert bench.node.dependencies.dependents == {}


def test_leaf_that_was_committed_before_holds_nothing_up() -> None:
    bench = NodeBench()
    bench.block((ADDRESS, outcome(B1)))
    waiting(bench=bench)
    assert bench.nonces_sent() == [0]


def test_leaf_that_is_committed_while_the_contract_of_its_dependent_is_loaded_holds_nothing_up() -> None:
    bench = waiting(bench=NodeBench(contracts=(OURS,), known=(THEIRS,), silent=(LoadContract,)))
    bench.block((ADDRESS, outcome(B1)))
    assert bench.accepted() == []
    bench.tell(bench.loaded(OTHER))
    assert bench.nonces_sent() == [0]


def test_leaf_that_is_committed_while_the_store_answers_counts_once() -> None:
    bench = waiting(bench=NodeBench(silent=(LookUpIntents,)))
    (question,) = bench.all(LookUpIntents)
    bench.block((ADDRESS, outcome(B1)))
    assert bench.nonces_sent() == [0]
    bench.tell(IntentsLookedUp(question.token, leaves=((OF_B, Outcome.CONFIRMED),)))
    assert bench.nonces_sent() == [0]


def test_leaf_in_a_block_that_the_index_had_passed_counts_when_its_round_is_made_up_for() -> None:
    bench = waiting()
    assert bench.nonces_sent() == []
    asked = len(bench.all(LookUpIntents))
    bench.silent = (LookUpIntents,)
    bench.tell(RoundsMadeUp(OTHER, (outcome(B1),)))
    assert len(bench.all(LookUpIntents)) == asked
    bench.tell(RoundsMadeUp(ADDRESS, (outcome(B1),)))
    question = bench.all(LookUpIntents)[-1]
    assert question.leaves == (OF_B,)
    bench.tell(IntentsLookedUp(question.token, leaves=((OF_B, Outcome.CONFIRMED),)))
    assert bench.nonces_sent() == [0]


def test_coordinator_knows_rounds_that_are_made_up_for_as_final() -> None:
    bench = NodeBench()
    bench.tell(RoundsMadeUp(ADDRESS, (outcome(B1),)))
    assert bench.node.sequencers.loaded[ADDRESS].coordinator.outcomes.is_final(B1)
    bench.tell(RoundsMadeUp(ContractAddress("0x" + "99" * 20), (outcome(B1),)))


def test_leaf_counts_when_its_block_is_final() -> None:
    bench = waiting(bench=NodeBench(config=DEEP))
    bench.block((ADDRESS, outcome(B1)))
    bench.block()
    assert bench.nonces_sent() == []
    bench.block()
    assert bench.nonces_sent() == [0]


@pytest.mark.parametrize("other", [STRANGE, void_leaf(domain_separator(OURS.chain_id, ADDRESS), B1)])
def test_another_leaf_under_the_id_reverts_the_dependent(other: Leaf) -> None:
    """A liar that commits something else under the id, or voids it, has not done what the user waits for."""
    bench = waiting()
    bench.block((ADDRESS, another(leaf=other)))
    assert bench.receipts() == [(A2, Outcome.REVERTED)]
    assert bench.nonces_sent() == []
    assert reason(bench) == (
        f"depends on {B1.hex()} in {ADDRESS} with leaf {OF_B.leaf.hex()}, "
        "which cannot be committed: another transition uses its id"
    )


def test_another_leaf_that_was_committed_before_reverts_the_dependent() -> None:
    bench = NodeBench()
    bench.block((ADDRESS, another()))
    waiting(bench=bench)
    assert bench.receipts() == [(A2, Outcome.REVERTED)]


def test_same_leaf_in_another_contract_and_a_skip_do_not_count() -> None:
    bench = waiting()
    bench.block((OTHER, outcome(B1)), (ADDRESS, another(LedgerStatus.SKIPPED)))
    assert bench.sender_state(A2, OTHER) is State.PENDING
    assert bench.nonces_sent() == []


def test_leaf_that_is_not_committed_in_time_reverts_its_dependent() -> None:
    bench = waiting()
    bench.block(time_s=UNTIL_S)
    assert bench.sender_state(A2, OTHER) is State.PENDING
    bench.block(time_s=UNTIL_S + 1)
    assert bench.receipts() == [(A2, Outcome.REVERTED)]
    assert reason(bench).endswith("which was not committed in time")
    assert bench.nonces_sent() == []


def test_time_of_a_leaf_ends_only_when_the_store_has_answered() -> None:
    bench = waiting(bench=NodeBench(silent=(LookUpIntents,)))
    (question,) = bench.all(LookUpIntents)
    bench.block(time_s=UNTIL_S + 1)
    assert bench.sender_state(A2, OTHER) is State.PENDING
    bench.tell(IntentsLookedUp(question.token))
    assert bench.receipts() == [(A2, Outcome.REVERTED)]


def test_leaf_that_is_asked_for_again_waits_for_the_latest_answer() -> None:
    bench = waiting(bench=NodeBench(silent=(LookUpIntents,)))
    (first,) = bench.all(LookUpIntents)
    awaited = bench.node.dependencies.awaited
    awaited.note(A1, (OF_B,))
    assert awaited.answered(first.token, first.leaves, ()) == []
    assert awaited.block_final(UNTIL_S + 1, ()) == [], "the second question is not answered yet"
    assert awaited.ask(99) == (OF_B,)
    (ended,) = awaited.answered(99, (OF_B,), ())
    assert (ended.leaf, ended.outcome) == (OF_B, Outcome.REVERTED)


def test_late_answer_to_an_earlier_question_does_not_end_a_leaf_that_a_later_one_finds() -> None:
    """The store knew nothing of the leaf when it was first asked, and has made up for its rounds since."""
    awaited = AwaitedLeaves()
    awaited.note(A2, (OF_B,))
    assert awaited.ask(1) == (OF_B,)
    awaited.ask_again(OF_B.contract)
    assert awaited.ask(2) == (OF_B,)
    assert awaited.answered(1, (OF_B,), ()) == []
    assert awaited.block_final(UNTIL_S + 1, ()) == [], "the second question is not answered yet"
    (ended,) = awaited.answered(2, (OF_B,), ((OF_B, Outcome.CONFIRMED),))
    assert (ended.leaf, ended.outcome) == (OF_B, Outcome.CONFIRMED)


def test_leaf_without_a_bound_is_awaited_for_the_configured_time() -> None:
    bench = waiting(replace(OF_B, valid_until_s=0), NodeBench(config=replace(CONFIG, dependency_wait_s=7)))
    (accepted,) = bench.records(IntentAccepted)
    assert accepted.intent.awaits == (replace(OF_B, valid_until_s=GENESIS_S + 7),)
    bench.block(time_s=GENESIS_S + 8)
    assert bench.receipts() == [(A2, Outcome.REVERTED)]


def test_dependent_waits_for_its_leaf_after_a_restart() -> None:
    bench = waiting()
    bench.restart()
    assert bench.nonces_sent() == []
    bench.block((ADDRESS, outcome(B1)))
    assert bench.nonces_sent() == [0]


def test_leaf_that_was_committed_before_the_restart_holds_nothing_up_after_it() -> None:
    bench = waiting(bench=NodeBench(config=DEEP))
    bench.block((ADDRESS, outcome(B1)))
    bench.restart()
    bench.block()
    assert bench.nonces_sent() == []
    bench.block()
    assert bench.nonces_sent() == [0]


def test_intent_waits_for_all_leaves_and_own_transactions() -> None:
    bench = NodeBench()
    bench.submit("A-1")
    bench.submit("A-2", OTHER, depends_on=(A1,), awaits=(OF_B,))
    bench.block((ADDRESS, outcome(B1)))
    assert bench.nonces_sent() == [0]
    bench.settle(A1)
    assert bench.nonces_sent() == [0, 1]


def test_own_intent_by_its_leaf_counts_by_leaf_only() -> None:
    bench = NodeBench()
    bench.submit("A-1")
    bench.submit("A-2", OTHER, awaits=(AwaitedLeaf(ADDRESS, A1, STRANGE, UNTIL_S),))
    bench.settle(A1)
    assert bench.receipts() == [(A1, Outcome.CONFIRMED), (A2, Outcome.REVERTED)]


def test_leaf_is_forgotten_with_its_last_dependent() -> None:
    bench = NodeBench(contracts=(contract(B), replace(contract(B), address=OTHER)))
    waiting(bench=bench)
    bench.submit("A-1", awaits=(OF_B,))
    bench.tell(ForContract(OTHER, CancelRequested("user", A2)))
    assert list(bench.node.dependencies.dependents) == [OF_B]
    bench.tell(ForContract(ADDRESS, CancelRequested("user", A1)))
    assert bench.node.dependencies.dependents == {}
    bench.block((ADDRESS, outcome(B1)))
    assert bench.receipts() == [(A2, Outcome.REVERTED), (A1, Outcome.REVERTED)]


def test_dependent_that_ends_leaves_a_later_one_its_wait_for_the_same_leaf() -> None:
    """The leaf had ended for the first dependent, and is awaited again until the store answers about the second."""
    bench = NodeBench()
    bench.block((ADDRESS, outcome(B1)))
    waiting(bench=bench)
    bench.silent = (LookUpIntents,)
    bench.submit("A-1", awaits=(OF_B,))
    bench.settle(A2, of=OTHER)
    assert bench.receipts() == [(A2, Outcome.CONFIRMED)]
    assert bench.sender_state(A1) is State.PENDING
    bench.tell(IntentsLookedUp(bench.all(LookUpIntents)[-1].token, leaves=((OF_B, Outcome.CONFIRMED),)))
    assert bench.nonces_sent() == [0, 1]


class Walked(dict[tuple[ContractAddress, IntentId], dict[AwaitedLeaf, dict[IntentId, None]]]):
    """A table that counts walks through it."""

    walks = 0

    def values(self) -> ValuesView[dict[AwaitedLeaf, dict[IntentId, None]]]:  # type: ignore[override]
        self.walks += 1
        return super().values()


def test_answers_and_blocks_that_end_no_wait_walk_through_no_other_leaves() -> None:
    """Thousands may wait: each new dependent, and each block, would cost as much as all of them."""
    awaited = AwaitedLeaves()
    walked = awaited._open = Walked()
    for number in range(1, 4):
        leaf = replace(OF_B, intent=IntentId(bytes(15) + bytes([number])), valid_until_s=UNTIL_S + number)
        awaited.note(A1, (leaf,))
        assert awaited.answered(number, awaited.ask(number), ()) == []
        assert awaited.block_final(UNTIL_S, ()) == []
    assert walked.walks == 0
    (first,) = awaited.block_final(UNTIL_S + 2, ())
    assert first.leaf.valid_until_s == UNTIL_S + 1
    walked.walks = 0
    assert awaited.block_final(UNTIL_S + 2, ()) == []
    assert walked.walks == 0
    assert [each.leaf.valid_until_s for each in awaited.block_final(UNTIL_S + 9, ())] == [UNTIL_S + 2, UNTIL_S + 3]


def test_leaf_that_runs_out_of_time_ends_no_other_under_the_same_id() -> None:
    bench = waiting()
    bench.submit("A-1", awaits=(replace(OF_B, valid_until_s=UNTIL_S - 50),))
    bench.block(time_s=UNTIL_S - 49)
    assert bench.receipts() == [(A1, Outcome.REVERTED)]
    bench.block((ADDRESS, outcome(B1)), time_s=UNTIL_S)
    assert bench.nonces_sent() == [0]


def test_explanation_names_the_leaf_and_until_when() -> None:
    bench = waiting()
    waits = bench.node.explain(A2).waits_for
    assert OF_B.leaf.hex() in waits
    assert f"until chain time {UNTIL_S}" in waits
    assert dependency_name(OF_B) in waits


def test_public_transaction_waits_for_leaves_too() -> None:
    address = ContractAddress("0x" + "11" * 20)
    waits = PublicTransaction(1, A1, Party("a@A"), address, None, b"", 0, 0, depends_on=(A2,), awaits=(OF_B,))
    assert failed_dependency(waits, {}, {}, UNTIL_S) == (None, (A2, OF_B))
    assert failed_dependency(waits, {A2: Outcome.CONFIRMED}, {OF_B: Outcome.CONFIRMED}, UNTIL_S + 1) == (None, ())
    assert failed_dependency(waits, {}, {OF_B: Outcome.REVERTED}, 0)[0] == OF_B
    assert failed_dependency(waits, {A2: Outcome.CONFIRMED}, {}, UNTIL_S + 1)[0] == OF_B, "it is too late"


def test_deployment_waits_for_leaves_too() -> None:
    for ended, state in ((outcome(B1), "Proposing"), (another(), None)):
        bench = DeploymentBench(contracts=(OURS,))
        bench.deploy(awaits=(OF_B,))
        assert bench.state() == "Waiting"
        assert OF_B.leaf.hex() in bench.node.explain(ID).waits_for
        bench.block((ADDRESS, ended))
        assert bench.receipts() == ([] if state else [(ID, Outcome.REVERTED)])
        assert ID not in bench.node.deployments.own or bench.state() == state
