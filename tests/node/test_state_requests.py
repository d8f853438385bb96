"""A node that lost its states asks for them by leaf, and gets what it may see and nothing else (S8)."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from rota.exchange.distribution import DELIVERY_BYTES_MAX, FOUND_PARTS_FROM, deliveries_of, parts_of
from rota.exchange.effects import StatesAcknowledged, StatesReceived
from rota.exchange.incomplete import INCOMPLETE_MAX, INCOMPLETE_OF_PEER_MAX, TIMES_MAX, Incomplete
from rota.machine.effects import DispatchRound, FindStates, SendMessage
from rota.machine.events import Tick
from rota.model.blocks import LedgerOutcome, LedgerStatus
from rota.model.consistency import Consistent
from rota.model.digests import core_of, leaf_of, state_commitment
from rota.model.types import Digest, Leaf, NodeName, State, StateId, Transition
from rota.node.effects import LoadContract
from rota.node.events import StatesFound, StatesWanted
from rota.node.stored import StoredNode
from rota.wire.messages import (
    STATE_REQUEST_LEAVES_MAX,
    StateDistribution,
    StateDistributionAcknowledgement,
    StateRequest,
)
from rota.wire.sizes import transition_bytes
from tests.node.node_bench import NOWHERE, START, NodeBench
from tests.sequencer.kit import ADDRESS, GENESIS_S, SEPARATOR, A, B, C, D, contract, digest_of, intent_id, transition

OF_THREE = contract(A, B, C)
MADE = transition("B-1")
DIGEST = digest_of(MADE.leaf)
HALF_BYTES = DELIVERY_BYTES_MAX // 2


def bench_of_three(stored: StoredNode | None = None) -> NodeBench:
    return NodeBench(contracts=(OF_THREE,), stored=stored or StoredNode(blocks=(START,)))


def states(name: str, *contents: tuple[bytes, tuple[NodeName, ...]]) -> Consistent:
    """A transition that makes states of these contents, each for those nodes; its leaf is right."""
    commitments = tuple(state_commitment(content) for content, _ in contents)
    leaf = leaf_of(core_of(SEPARATOR, intent_id(name), outputs=commitments))
    made = tuple(
        State(StateId(leaf, number), commitment, nodes, content)
        for number, (commitment, (content, nodes)) in enumerate(zip(commitments, contents, strict=True))
    )
    return Consistent(Transition(intent_id(name), leaf, (), (), made, (), GENESIS_S + 600, b"signed"))


def leaves(count: int) -> tuple[Leaf, ...]:
    return tuple(Leaf(number.to_bytes(32, "big")) for number in range(count))


# Asking.


def test_every_other_member_is_asked_for_states_that_are_wanted() -> None:
    bench = bench_of_three()
    bench.tell(StatesWanted(ADDRESS, (MADE.leaf,)))
    asked = [(sent.peer, sent.envelope.body) for sent in bench.all(SendMessage)]
    assert asked == [(B, StateRequest((MADE.leaf,))), (C, StateRequest((MADE.leaf,)))]


def test_endorser_that_is_no_member_is_asked_too() -> None:
    bench = NodeBench(contracts=(contract(A, B, endorsers=(D,), threshold=1),))
    bench.tell(StatesWanted(ADDRESS, (MADE.leaf,)))
    assert [sent.peer for sent in bench.all(SendMessage)] == [B, D]


def test_many_leaves_are_asked_for_in_several_requests() -> None:
    bench = bench_of_three()
    wanted = leaves(2 * STATE_REQUEST_LEAVES_MAX + 1)
    bench.tell(StatesWanted(ADDRESS, wanted))
    asked = bench.said(StateRequest, B)
    assert [len(request.leaves) for request in asked] == [STATE_REQUEST_LEAVES_MAX, STATE_REQUEST_LEAVES_MAX, 1]
    assert tuple(leaf for request in asked for leaf in request.leaves) == wanted


def test_nobody_is_asked_for_nothing_or_for_a_contract_that_is_not_in_memory() -> None:
    bench = bench_of_three()
    bench.tell(StatesWanted(ADDRESS, ()))
    bench.tell(StatesWanted(NOWHERE, leaves(1)))
    assert bench.all(SendMessage) == []


# Contents that were left out.


def partly(made: Consistent) -> Consistent:
    """The transition without the content of its second state, on whose list A is."""
    first, second = made.outputs
    return Consistent(replace(made, outputs=(first, replace(second, content=None))))


def committed(bench: NodeBench, made: Transition) -> None:
    outcome = LedgerOutcome(made.intent, made.leaf, DIGEST, LedgerStatus.COMMITTED)
    bench.block((ADDRESS, outcome))


WHOLE = states("B-1", (b"one", (A, B)), (b"two", (A, B)))


def test_contents_that_were_left_out_of_a_committed_transition_are_asked_for_until_they_come() -> None:
    bench = bench_of_three()
    bench.hear(B, StateDistribution(DIGEST, (partly(WHOLE),)))
    committed(bench, WHOLE)
    bench.wait(2_000)
    assert bench.said(StateRequest, B) == bench.said(StateRequest, C) == [StateRequest((WHOLE.leaf,))]
    bench.hear(C, StateDistribution(DIGEST, (WHOLE,), FOUND_PARTS_FROM))
    assert bench.records(StatesReceived)[-1].transitions == (WHOLE,)
    bench.wait(600_000)
    assert len(bench.said(StateRequest, C)) == 1
    assert bench.node.states.incomplete.look_at_ms is None


def test_contents_that_never_come_are_asked_for_a_number_of_times() -> None:
    bench = bench_of_three()
    bench.hear(B, StateDistribution(DIGEST, (partly(WHOLE),)))
    committed(bench, WHOLE)
    bench.wait(3_600_000)
    assert len(bench.said(StateRequest, C)) == TIMES_MAX
    assert bench.node.states.incomplete.look_at_ms is None


def test_contents_of_a_transition_that_is_not_on_the_chain_are_asked_of_nobody() -> None:
    bench = bench_of_three()
    bench.hear(B, StateDistribution(DIGEST, (partly(WHOLE),)))
    bench.wait(3_600_000)
    assert bench.said(StateRequest, C) == []


def test_contents_that_are_for_others_are_not_asked_for() -> None:
    bench = bench_of_three()
    made = partly(states("B-1", (b"one", (A, B)), (b"two", (B, C))))
    bench.hear(B, StateDistribution(DIGEST, (made,)))
    committed(bench, made)
    bench.wait(10_000)
    assert bench.said(StateRequest, C) == []


def test_contract_that_is_not_in_memory_is_loaded_to_ask_for_contents_that_were_left_out() -> None:
    bench = bench_of_three()
    bench.hear(B, StateDistribution(DIGEST, (partly(WHOLE),)))
    del bench.node.sequencers.loaded[ADDRESS]
    bench.silent = (LoadContract,)
    bench.wait(1_000)
    assert bench.all(LoadContract) == [LoadContract(ADDRESS)]


def test_incomplete_transitions_are_remembered_up_to_a_number_by_peer_and_in_total() -> None:
    incomplete = Incomplete(A, 1_000)
    for peer in range(10):
        for number in range(200):
            made = partly(states(f"B-{peer}-{number}", (b"one", (A, B)), (b"two", (A, B))))
            incomplete.note(0, NodeName(str(peer)), ADDRESS, made)
            incomplete.note(0, NodeName(str(peer)), ADDRESS, made)
    due = incomplete.take_due(1_000)
    assert len(due) == INCOMPLETE_MAX
    assert sum(each.peer == NodeName("0") for each in due) == INCOMPLETE_OF_PEER_MAX
    assert incomplete.take_due(1_999) == []
    for each in due:
        incomplete.forget(each)
    assert (incomplete.look_at_ms, incomplete.take_due(9_999)) == (None, [])


# Answering.


def test_store_is_asked_for_what_a_peer_asks_for() -> None:
    bench = bench_of_three()
    bench.hear(C, StateRequest((MADE.leaf,)))
    assert bench.all(FindStates) == [FindStates(ADDRESS, C, (MADE.leaf,))]


def test_peer_gets_what_an_endorser_has_seen_and_nobody_may_have_stored() -> None:
    seen = states("B-1", (b"for C", (A, C)), (b"for D", (A, D)))
    bench = bench_of_three()
    bench.sequencer().endorser.seen.note(seen, A)
    bench.hear(C, StateRequest((seen.leaf, MADE.leaf)))
    [sent] = bench.said(StateDistribution, C)
    assert [state.content for state in sent.transitions[0].outputs] == [b"for C", None]
    assert (sent.digest, sent.part) == (Digest(seen.leaf), FOUND_PARTS_FROM)
    assert bench.all(FindStates) == [FindStates(ADDRESS, C, (seen.leaf, MADE.leaf))]


def test_store_is_asked_of_a_contract_that_is_not_in_memory() -> None:
    bench = bench_of_three()
    bench.hear(C, StateRequest((MADE.leaf,)), NOWHERE)
    assert bench.all(FindStates) == [FindStates(NOWHERE, C, (MADE.leaf,))]


def test_peer_gets_the_bytes_that_are_for_it_and_no_others() -> None:
    found = states("B-1", (b"for C", (A, C)), (b"for D", (A, D)))
    bench = bench_of_three()
    bench.tell(StatesFound(ADDRESS, C, DIGEST, (found,)))
    [sent] = bench.said(StateDistribution, C)
    assert [state.content for state in sent.transitions[0].outputs] == [b"for C", None]
    assert sent.digest == DIGEST


def test_transition_of_which_a_peer_may_see_nothing_is_not_sent() -> None:
    of_others = states("B-1", (b"for D", (A, D)))
    bench = bench_of_three()
    bench.tell(StatesFound(ADDRESS, C, DIGEST, (of_others,)))
    assert bench.all(SendMessage) == []
    bench.tell(StatesFound(ADDRESS, C, DIGEST, (of_others, states("B-2", (b"for C", (C,))))))
    [sent] = bench.said(StateDistribution, C)
    assert [each.intent for each in sent.transitions] == [intent_id("B-2")]


def test_nothing_is_sent_when_nothing_is_found() -> None:
    bench = bench_of_three()
    bench.tell(StatesFound(ADDRESS, C, DIGEST, ()))
    assert bench.all(SendMessage) == []


def test_large_states_are_found_in_parts_of_one_name_each() -> None:
    large = [states(f"B-{number}", (bytes((number,)) * (HALF_BYTES + 1), (C,))) for number in range(3)]
    bench = bench_of_three()
    bench.tell(StatesFound(ADDRESS, C, DIGEST, tuple(large)))
    sent = bench.said(StateDistribution, C)
    assert [len(each.transitions) for each in sent] == [1, 1, 1]
    assert len({(each.digest, each.part) for each in sent}) == 3


def test_states_that_were_asked_for_are_taken_and_acknowledged_like_any_others() -> None:
    found = states("B-1", (b"for A", (A,)))
    bench = bench_of_three()
    bench.hear(B, StateDistribution(DIGEST, (found,), FOUND_PARTS_FROM))
    assert bench.records(StatesReceived) == [StatesReceived(DIGEST, (found,), FOUND_PARTS_FROM, B)]
    acknowledged = StateDistributionAcknowledgement(DIGEST, FOUND_PARTS_FROM)
    assert bench.said(StateDistributionAcknowledgement, B) == [acknowledged]


def test_acknowledgement_of_what_was_asked_for_ends_no_delivery_that_holds_more() -> None:
    wanted, other = states("B-1", (b"one", (C,))), states("B-2", (b"two", (C,)))
    round_ = (wanted, other)
    order = DispatchRound(ADDRESS, DIGEST, tuple(t.leaf for t in round_), round_, (B, B), (), GENESIS_S + 600)
    bench = bench_of_three(StoredNode(1, blocks=(START,)))
    bench.node.distribution.take(0, order)
    bench.tell(StatesFound(ADDRESS, C, DIGEST, (wanted,)))
    [found] = bench.said(StateDistribution, C)
    assert found.transitions == (wanted,)
    bench.hear(C, StateDistributionAcknowledgement(found.digest, found.part))
    assert bench.records(StatesAcknowledged) == []
    bench.tell(Tick())
    assert bench.said(StateDistribution, C)[-1].transitions == round_


# Parts.


def sized(name: str, size: int) -> Transition:
    """A transition of one state that takes so much of a message; what its content is does not matter here."""
    small = replace(MADE, intent=intent_id(name), outputs=(replace(MADE.outputs[0], content=b""),))
    content = bytes(max(0, size - transition_bytes(small)))
    return replace(small, outputs=(replace(MADE.outputs[0], content=content),))


def size_of(part: tuple[Transition, ...]) -> int:
    return sum(transition_bytes(each) for each in part)


def test_small_states_go_in_one_part() -> None:
    small = tuple(sized(f"B-{number}", 100) for number in range(64))
    assert parts_of(small) == (small,)


def test_nothing_has_no_parts() -> None:
    assert parts_of(()) == ()


def test_part_is_full_at_its_limit_and_not_beyond() -> None:
    one, other, third = sized("B-1", HALF_BYTES), sized("B-2", HALF_BYTES), sized("B-3", 1)
    assert parts_of((one, other, third)) == ((one, other), (third,))


sizes = st.lists(
    st.sampled_from([0, 1, HALF_BYTES - 1, HALF_BYTES, HALF_BYTES + 1, DELIVERY_BYTES_MAX + 1]), max_size=9
)


@settings(max_examples=50, deadline=None)
@given(sizes)
def test_parts_are_all_that_there_is_in_its_order_and_none_is_too_large_or_empty(given: list[int]) -> None:
    whole = tuple(sized(f"B-{number}", size) for number, size in enumerate(given))
    parts = parts_of(whole)
    assert tuple(each for part in parts for each in part) == whole
    assert all(parts)
    assert all(size_of(part) <= DELIVERY_BYTES_MAX or len(part) == 1 for part in parts)


def test_each_part_of_a_round_is_delivered_and_acknowledged_for_itself() -> None:
    round_ = tuple(states(f"B-{number}", (bytes((number,)) * (HALF_BYTES + 1), (C,))) for number in range(2))
    order = DispatchRound(ADDRESS, DIGEST, tuple(t.leaf for t in round_), round_, (B, B), (), GENESIS_S + 600)
    owed = deliveries_of(order, A)
    assert [(delivery.peer, delivery.part) for delivery in owed] == [(C, 0), (C, 1)]
    bench = bench_of_three(StoredNode(1, blocks=(START,)))
    bench.node.distribution.take(0, order)
    bench.tell(Tick())
    assert [sent.part for sent in bench.said(StateDistribution, C)] == [0, 1]
    bench.hear(C, StateDistributionAcknowledgement(DIGEST, 1))
    assert bench.records(StatesAcknowledged) == [StatesAcknowledged(DIGEST, C, 1)]
    assert bench.node.distribution.is_open(C, DIGEST, 0)
    assert not bench.node.distribution.is_open(C, DIGEST, 1)


def test_parts_of_one_round_are_received_side_by_side() -> None:
    bench = NodeBench(contracts=(OF_THREE,))
    one, other = states("B-1", (b"one", (A,))), states("B-2", (b"two", (A,)))
    bench.hear(B, StateDistribution(DIGEST, (one,), 0))
    bench.hear(B, StateDistribution(DIGEST, (other,), 1))
    assert [(record.part, record.transitions) for record in bench.records(StatesReceived)] == [
        (0, (one,)),
        (1, (other,)),
    ]
    assert bench.said(StateDistributionAcknowledgement, B) == [
        StateDistributionAcknowledgement(DIGEST, 0),
        StateDistributionAcknowledgement(DIGEST, 1),
    ]
