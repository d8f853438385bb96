"""Private states to their parties: until acknowledged, across restarts, and never to a stranger."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rota.config import Config
from rota.core.consistency import consistent_for
from rota.core.distribution import RECEIVED_KEPT_MAX, Delivery, Distribution, deliveries_of, fullest
from rota.core.effects import DispatchRound, StatesAcknowledged, StatesReceived
from rota.core.events import ConnectionLost, ConnectionMade, Tick
from rota.core.node import StoredNode
from rota.core.private_states import RECEIVING_MAX
from rota.digests import domain_separator
from rota.messages import StateDistribution, StateDistributionAcknowledgement
from rota.types import NodeName, StateId, Transition
from tests.core.kit import ADDRESS, GENESIS_S, A, B, C, D, contract, digest_of, transition
from tests.core.node_bench import NOWHERE, START, NodeBench

CONFIG = Config()
SEPARATOR = domain_separator(contract().chain_id, ADDRESS)
MADE = transition("B-1")
DIGEST = digest_of(MADE.leaf)


def order(*transitions: Transition, sender: NodeName = B) -> DispatchRound:
    leaves = tuple(made.leaf for made in transitions)
    senders = tuple(sender for _ in transitions)
    return DispatchRound(ADDRESS, digest_of(*leaves), leaves, transitions, senders, (), GENESIS_S + 600)


def listed_for(*nodes: NodeName) -> Transition:
    """A transition whose one state is meant for these nodes."""
    return replace(MADE, outputs=(replace(MADE.outputs[0], distribution=nodes),))


# Who is owed what.


def test_everybody_on_the_list_but_the_dispatcher_and_the_sender_is_owed_the_states() -> None:
    owed = deliveries_of(order(listed_for(A, B, C, D)), A)
    assert [delivery.peer for delivery in owed] == [C, D]
    assert owed[0] == Delivery(ADDRESS, DIGEST, C, (listed_for(A, B, C, D),))


def test_one_message_holds_all_transitions_of_a_round_that_concern_a_node() -> None:
    other = transition("B-2")
    (to_c, _) = deliveries_of(order(MADE, other), A)
    assert [made.intent for made in to_c.transitions] == [MADE.intent, other.intent]


def test_bytes_go_only_to_nodes_on_that_states_list() -> None:
    secret = replace(MADE.outputs[0], distribution=(D,))
    shared = replace(MADE.outputs[0], distribution=(C, D))
    (to_c, to_d) = sorted(deliveries_of(order(replace(MADE, outputs=(secret, shared))), A), key=lambda d: d.peer)
    assert [state.content is None for state in to_c.transitions[0].outputs] == [True, False]
    assert [state.content is None for state in to_d.transitions[0].outputs] == [False, False]


def test_dispatcher_that_may_not_see_a_state_promises_it_to_nobody() -> None:
    unseen = replace(MADE.outputs[0], distribution=(C, D), content=None)
    assert deliveries_of(order(replace(MADE, outputs=(unseen,))), A) == ()


# Delivering.


def distribution(*undelivered: Delivery) -> Distribution:
    return Distribution(A, CONFIG, 0, undelivered)


def test_states_are_sent_again_less_and_less_often_until_acknowledged() -> None:
    sending = distribution()
    sending.take(0, order(listed_for(C)))
    times: list[int] = []
    for now_ms in range(0, 40_000, 100):
        times.extend(now_ms for _ in sending.take_due(now_ms))
    assert times == [0, 1_000, 3_000, 7_000, 15_000, 25_000, 35_000]
    sending.acknowledged(C, DIGEST, 0)
    assert sending.next_due_ms() is None
    sending.acknowledged(C, DIGEST, 0)


def test_nothing_is_sent_over_a_connection_that_is_down_and_at_once_when_it_is_back() -> None:
    sending = distribution(*deliveries_of(order(listed_for(C, D)), A))
    sending.connection_changed(0, C, connected=False)
    assert [delivery.peer for delivery in sending.take_due(0)] == [D]
    sending.acknowledged(D, DIGEST, 0)
    assert sending.next_due_ms() is None
    sending.connection_changed(7_777, C, connected=True)
    assert sending.next_due_ms() == 7_777


def test_memory_of_what_was_received_is_bounded() -> None:
    receiving = distribution()
    first = MADE.outputs[0]
    for number in range(RECEIVED_KEPT_MAX + 1):
        made = replace(MADE, outputs=(replace(first, id=StateId(MADE.leaf, number)),))
        receiving.note_received(ADDRESS, (made,))
    assert len(receiving.received) == RECEIVED_KEPT_MAX
    assert not receiving.is_received(ADDRESS, (MADE,))


# Is it what it claims to be?


def test_states_of_the_leaf_are_true() -> None:
    assert consistent_for(SEPARATOR, C, MADE) == MADE


@pytest.mark.parametrize(
    "false",
    [
        replace(MADE, leaf=transition("B-2").leaf),
        replace(MADE, outputs=(replace(MADE.outputs[0], content=b"other"),)),
        replace(MADE, outputs=(replace(MADE.outputs[0], id=StateId(MADE.leaf, 7)),)),
        listed_for(D),
    ],
    ids=["another leaf", "another content", "another number", "bytes that are not for us"],
)
def test_state_that_is_not_what_it_claims_to_be_is_false(false: Transition) -> None:
    assert consistent_for(SEPARATOR, C, false) is None


# In the node.


def test_received_states_are_durable_before_they_are_acknowledged() -> None:
    bench = NodeBench(slow=(StatesReceived,))
    bench.hear(B, StateDistribution(DIGEST, (MADE,)))
    bench.hear(B, StateDistribution(DIGEST, (MADE,)))
    assert len(bench.writes) == 1
    assert bench.said(StateDistributionAcknowledgement, B) == []
    bench.finish_write()
    assert bench.said(StateDistributionAcknowledgement, B) == [StateDistributionAcknowledgement(DIGEST)]


def test_every_copy_is_acknowledged_and_written_once() -> None:
    bench = NodeBench()
    for _ in range(3):
        bench.hear(B, StateDistribution(DIGEST, (MADE,)))
    assert len(bench.said(StateDistributionAcknowledgement, B)) == 3
    assert len(bench.records(StatesReceived)) == 1


def test_states_beyond_what_may_be_written_at_a_time_are_taken_when_they_come_again() -> None:
    bench = NodeBench(slow=(StatesReceived,))
    for part in range(RECEIVING_MAX + 1):
        bench.hear(B, StateDistribution(DIGEST, (MADE,), part))
    assert len(bench.writes) == len(bench.node.states.receiving) == RECEIVING_MAX
    bench.finish_write()
    other = transition("B-2")
    bench.hear(B, StateDistribution(digest_of(other.leaf), (other,)))
    assert len(bench.writes) == RECEIVING_MAX


def test_states_that_were_not_written_are_not_acknowledged() -> None:
    bench = NodeBench(failing=(StatesReceived,))
    bench.hear(B, StateDistribution(DIGEST, (MADE,)))
    assert bench.said(StateDistributionAcknowledgement, B) == []


@pytest.mark.parametrize("false", [replace(MADE, leaf=transition("B-2").leaf), listed_for(D)])
def test_false_states_are_neither_written_nor_acknowledged(false: Transition) -> None:
    bench = NodeBench()
    bench.hear(B, StateDistribution(DIGEST, (false,)))
    assert bench.records(StatesReceived) == []
    assert bench.said(StateDistributionAcknowledgement, B) == []


def test_states_cannot_be_suppressed_by_another_message_under_their_digest() -> None:
    bench = NodeBench()
    bench.hear(D, StateDistribution(DIGEST, ()))
    bench.hear(D, StateDistribution(DIGEST, (listed_for(D).as_seen_by(A),)))
    assert bench.said(StateDistributionAcknowledgement, D) == []
    bench.hear(B, StateDistribution(DIGEST, (MADE,)))
    assert bench.records(StatesReceived) == [StatesReceived(DIGEST, (MADE,))]


def test_states_of_a_contract_that_we_do_not_have_are_ignored() -> None:
    bench = NodeBench()
    bench.hear(B, StateDistribution(DIGEST, (MADE,)), of=NOWHERE)
    assert bench.records(StatesReceived) == []


def stored_with_delivery() -> StoredNode:
    return StoredNode(1, undelivered=deliveries_of(order(listed_for(C)), A), blocks=(START,))


def test_restarted_node_delivers_what_was_not_acknowledged() -> None:
    bench = NodeBench(stored=stored_with_delivery())
    assert bench.node.next_deadline_ms() == 0
    bench.tell(Tick())
    assert bench.said(StateDistribution, C) == [StateDistribution(DIGEST, (listed_for(C),))]


def test_acknowledgement_is_durable_before_delivery_stops() -> None:
    bench = NodeBench(stored=stored_with_delivery(), failing=(StatesAcknowledged,))
    bench.hear(C, StateDistributionAcknowledgement(DIGEST))
    assert bench.node.distribution.is_open(C, DIGEST, 0)
    bench.failing = ()
    bench.hear(C, StateDistributionAcknowledgement(DIGEST))
    bench.hear(C, StateDistributionAcknowledgement(DIGEST))
    assert not bench.node.distribution.is_open(C, DIGEST, 0)
    assert bench.records(StatesAcknowledged)[-1] == StatesAcknowledged(DIGEST, C)
    assert len(bench.records(StatesAcknowledged)) == 2


def test_delivery_waits_for_a_lost_connection() -> None:
    bench = NodeBench(stored=stored_with_delivery())
    bench.tell(ConnectionLost(C))
    bench.wait(60_000)
    assert bench.said(StateDistribution, C) == []
    bench.tell(ConnectionMade(C))
    assert len(bench.said(StateDistribution, C)) == 1


# Which copy is told.


def test_of_two_copies_of_a_leaf_the_one_with_more_states_is_told() -> None:
    bare = replace(MADE, outputs=tuple(replace(state, content=None) for state in MADE.outputs))
    other = digest_of(transition("B-2").leaf)
    assert fullest([(other, bare), (DIGEST, MADE)], (MADE.leaf,)) == ((DIGEST, (MADE,)),)
    assert fullest([(DIGEST, MADE), (other, bare)], (MADE.leaf,)) == ((DIGEST, (MADE,)),)
