"""Private states to their parties: until acknowledged, across restarts, and never to a stranger."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rota.chain.effects import RoundDispatch
from rota.exchange.distribution import (
    PEERS_OWED_MAX,
    RECEIVED_KEPT_MAX,
    DeliveriesRecalled,
    Delivery,
    Distribution,
    deliveries_of,
    delivery_bytes,
    fullest,
)
from rota.exchange.effects import RecallDeliveries, StatesAcknowledged, StatesReceived
from rota.machine.effects import DispatchRound, Persist, SendMessage, TransitionPrepared
from rota.machine.events import ConnectionLost, ConnectionMade, MessageReceived, Tick
from rota.model.config import Config
from rota.model.consistency import Consistent, consistent_for
from rota.model.digests import domain_separator
from rota.model.types import Digest, NodeName, RequestId, StateId, Transition
from rota.node.node import OWN
from rota.node.stored import StoredNode
from rota.sim.disk import Disk
from rota.wire.messages import (
    EndorserSignature,
    Envelope,
    PreparedTransaction,
    StateDistribution,
    StateDistributionAcknowledgement,
)
from tests.node.node_bench import NOWHERE, OURS, START, NodeBench
from tests.sequencer.kit import ADDRESS, GENESIS_S, A, B, C, D, contract, digest_of, transition

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


def distribution(*owed: NodeName, config: Config = CONFIG) -> Distribution:
    return Distribution(A, config, 0, owed)


def numbered(number: int, *nodes: NodeName, content: bytes | None = None) -> DispatchRound:
    """A round of one transition with one state for these nodes."""
    made = transition(f"B-{number}")
    content = content if content is not None else made.outputs[0].content
    return order(replace(made, outputs=(replace(made.outputs[0], distribution=nodes, content=content),)))


def sent(sending: Distribution, now_ms: int) -> list[Delivery]:
    return [due for due in sending.take_due(now_ms) if isinstance(due, Delivery)]


def recalled(sending: Distribution, now_ms: int) -> list[RecallDeliveries]:
    return [due for due in sending.take_due(now_ms) if isinstance(due, RecallDeliveries)]


def test_states_are_sent_again_less_and_less_often_until_acknowledged() -> None:
    sending = distribution()
    sending.take(0, order(listed_for(C)))
    times: list[int] = []
    for now_ms in range(0, 40_000, 100):
        times.extend(now_ms for _ in sending.take_due(now_ms))
    assert times == [0, 1_000, 3_000, 7_000, 15_000, 25_000, 35_000]
    sending.acknowledged(40_000, C, DIGEST, 0)
    assert sending.next_due_ms() is None
    sending.acknowledged(40_000, C, DIGEST, 0)
    assert (sending.open_count, sending.size, sending.owed) == (0, 0, ())


def test_nothing_is_sent_over_a_connection_that_is_down_and_at_once_when_it_is_back() -> None:
    sending = distribution()
    sending.take(0, order(listed_for(C, D)))
    sending.connection_changed(0, C, connected=False)
    assert [delivery.peer for delivery in sent(sending, 0)] == [D]
    sending.acknowledged(0, D, DIGEST, 0)
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


def test_received_states_are_recorded_and_acknowledged_in_one_step_with_the_record_first() -> None:
    bench = NodeBench()
    envelope = Envelope(ADDRESS, RequestId(1, 1), 1, 0, StateDistribution(DIGEST, (MADE,)))
    record, sent = bench.node.step(0, MessageReceived(B, envelope))
    assert record == Persist(ADDRESS, (StatesReceived(DIGEST, (MADE,), peer=B),))
    assert isinstance(sent, SendMessage)
    assert (sent.peer, sent.envelope.body) == (B, StateDistributionAcknowledgement(DIGEST))


def test_states_that_a_crash_kept_from_the_disk_were_not_acknowledged_and_are_written_when_they_come_again() -> None:
    bench = NodeBench(crashes_before=(StatesReceived,))
    bench.hear(B, StateDistribution(DIGEST, (MADE,)))
    assert bench.said(StateDistributionAcknowledgement, B) == []
    bench.restart()
    bench.hear(B, StateDistribution(DIGEST, (MADE,)))
    assert bench.records(StatesReceived) == [StatesReceived(DIGEST, (MADE,), peer=B)]
    assert bench.said(StateDistributionAcknowledgement, B) == [StateDistributionAcknowledgement(DIGEST)]


def test_every_copy_is_acknowledged_and_written_once() -> None:
    bench = NodeBench()
    for _ in range(3):
        bench.hear(B, StateDistribution(DIGEST, (MADE,)))
    assert len(bench.said(StateDistributionAcknowledgement, B)) == 3
    assert len(bench.records(StatesReceived)) == 1


def test_transition_that_is_recorded_is_not_written_again_beside_a_new_one() -> None:
    """A peer would store another copy of the same large transition with every small one."""
    bench, other, bare = NodeBench(), transition("B-2"), transition("B-3")
    bare = replace(bare, outputs=tuple(replace(state, content=None) for state in bare.outputs))
    bench.hear(B, StateDistribution(DIGEST, (MADE,)))
    bench.hear(B, StateDistribution(digest_of(other.leaf), (MADE, other, bare)))
    assert [record.transitions for record in bench.records(StatesReceived)] == [(MADE,), (other,)]
    assert len(bench.said(StateDistributionAcknowledgement, B)) == 2


@pytest.mark.parametrize("false", [replace(MADE, leaf=transition("B-2").leaf), listed_for(D)])
def test_false_states_are_neither_written_nor_acknowledged(false: Transition) -> None:
    bench = NodeBench()
    bench.hear(B, StateDistribution(DIGEST, (false,)))
    assert bench.records(StatesReceived) == []
    assert bench.said(StateDistributionAcknowledgement, B) == []


def altered(*, content: bytes) -> Transition:
    return replace(MADE, outputs=(replace(MADE.outputs[0], content=content),))


@pytest.mark.parametrize(
    ("seen", "sent", "is_taken"),
    [(MADE, MADE, True), (MADE, altered(content=b"other"), False), (listed_for(D), listed_for(D), False)],
    ids=["a copy of what the endorser saw", "another content", "bytes that are not for us"],
)
def test_copy_of_what_our_endorser_saw_is_taken_only_if_it_is_equal_and_for_us(
    seen: Transition, sent: Transition, is_taken: bool
) -> None:
    bench = NodeBench()
    bench.sequencer().endorser.seen.note(Consistent(seen), B)
    bench.hear(B, StateDistribution(DIGEST, (sent,)))
    assert bool(bench.records(StatesReceived)) is is_taken


def test_states_cannot_be_suppressed_by_another_message_under_their_digest() -> None:
    bench = NodeBench()
    bench.hear(D, StateDistribution(DIGEST, ()))
    bench.hear(D, StateDistribution(DIGEST, (listed_for(D).as_seen_by(A),)))
    assert bench.said(StateDistributionAcknowledgement, D) == []
    bench.hear(B, StateDistribution(DIGEST, (MADE,)))
    assert bench.records(StatesReceived) == [StatesReceived(DIGEST, (MADE,), peer=B)]


def test_states_of_a_contract_that_we_do_not_have_are_ignored() -> None:
    bench = NodeBench()
    bench.hear(B, StateDistribution(DIGEST, (MADE,)), of=NOWHERE)
    assert bench.records(StatesReceived) == []


def bench_that_owes(*rounds: DispatchRound, config: Config = CONFIG) -> NodeBench:
    """A node that starts from a disk on which these rounds are dispatched and nothing is acknowledged."""
    disk = Disk(blocks=[START])
    for nonce, each in enumerate(rounds):
        disk.write(OWN, (RoundDispatch(each, "A", nonce),))
    owed = disk.restore(A, (OURS,), 0).owed
    return NodeBench(stored=StoredNode(1, owed=owed, blocks=(START,)), disk=disk, config=config)


def test_restarted_node_delivers_what_was_not_acknowledged() -> None:
    bench = bench_that_owes(order(listed_for(C)))
    assert bench.node.next_deadline_ms() == 0
    bench.tell(Tick())
    assert bench.said(StateDistribution, C) == [StateDistribution(DIGEST, (listed_for(C),))]


def test_acknowledgement_is_recorded_once_and_ends_the_delivery() -> None:
    bench = bench_that_owes(order(listed_for(C)))
    bench.tell(Tick())
    assert bench.node.distribution.is_open(C, DIGEST, 0)
    for _ in range(10):
        bench.hear(C, StateDistributionAcknowledgement(DIGEST))
        assert not bench.node.distribution.is_open(C, DIGEST, 0)
    assert bench.records(StatesAcknowledged) == [StatesAcknowledged(DIGEST, C)]


def test_acknowledgement_that_a_crash_kept_from_the_disk_is_asked_for_again() -> None:
    bench = bench_that_owes(order(listed_for(C)))
    bench.tell(Tick())
    bench.crashes_before = (StatesAcknowledged,)
    bench.hear(C, StateDistributionAcknowledgement(DIGEST))
    bench.restart()
    bench.seen.clear()
    bench.tell(Tick())
    assert bench.said(StateDistribution, C) == [StateDistribution(DIGEST, (listed_for(C),))]
    bench.hear(C, StateDistributionAcknowledgement(DIGEST))
    assert not bench.node.distribution.is_open(C, DIGEST, 0)


def test_delivery_waits_for_a_lost_connection() -> None:
    bench = bench_that_owes(order(listed_for(C)))
    bench.tell(ConnectionLost(C))
    bench.wait(60_000)
    assert bench.said(StateDistribution, C) == []
    bench.tell(ConnectionMade(C))
    assert len(bench.said(StateDistribution, C)) == 1


def test_states_of_a_prepared_transition_are_delivered_under_its_leaf() -> None:
    bench = NodeBench()
    made = listed_for(A, B, C)
    prepared = PreparedTransaction(DIGEST, (made.leaf,), GENESIS_S + 600, (EndorserSignature(A, b"signed"),), made)
    bench.node.states.distribute_prepared(ADDRESS, ())
    assert bench.node.distribution.open_count == 0
    bench.node.states.distribute_prepared(ADDRESS, (TransitionPrepared(B, prepared),))
    assert bench.node.distribution.owed == (C,)
    assert bench.node.distribution.is_open(C, Digest(made.leaf), 0)


# Memory is bounded, and nothing is lost.

SMALL = Config(
    deliveries_peer_max=2, transition_bytes_max=1_000, deliveries_peer_bytes_max=4_000, deliveries_bytes_max=9_000
)


def acknowledge_all(bench: NodeBench, peer: NodeName) -> list[Digest]:
    """The peer acknowledges what it is sent, until it is sent nothing more."""
    got: list[Digest] = []
    while open_ := [
        each
        for each in bench.take_said(StateDistribution, peer)
        if bench.node.distribution.is_open(peer, each.digest, 0)
    ]:
        for delivery in open_:
            got.append(delivery.digest)
            bench.hear(peer, StateDistributionAcknowledgement(delivery.digest, delivery.part))
    return list(dict.fromkeys(got))


def test_peer_that_never_acknowledges_takes_no_more_memory_than_its_window_and_gets_everything_when_it_does() -> None:
    rounds = [numbered(number, C) for number in range(9)]
    bench = bench_that_owes(*rounds, config=SMALL)
    for _ in range(3):
        bench.wait(60_000)
        assert bench.node.distribution.open_count == 2
    assert acknowledge_all(bench, C) == [each.digest for each in rounds]
    assert bench.node.distribution.owed == ()
    assert bench.node.distribution.next_due_ms() is None


def test_restarted_node_goes_on_where_the_peer_acknowledged_last() -> None:
    rounds = [numbered(number, C) for number in range(5)]
    bench = bench_that_owes(*rounds, config=SMALL)
    bench.tell(Tick())
    bench.hear(C, StateDistributionAcknowledgement(rounds[0].digest))
    bench.restart()
    bench.take_said(StateDistribution, C)
    bench.tell(Tick())
    assert acknowledge_all(bench, C) == [each.digest for each in rounds[1:]]


def test_delivery_beyond_the_window_waits_in_the_store_behind_earlier_ones() -> None:
    sending = distribution(config=SMALL)
    for number in range(4):
        sending.take(0, numbered(number, C))
    assert [delivery.digest for delivery in sent(sending, 0)] == [numbered(0, C).digest, numbered(1, C).digest]
    sending.acknowledged(5, C, numbered(0, C).digest, 0)
    assert recalled(sending, 5) == []
    sending.acknowledged(6, C, numbered(1, C).digest, 0)
    assert sending.take_due(6) == [RecallDeliveries(C, 1, 2, 4_000)]


def test_window_is_bounded_in_bytes() -> None:
    sending = distribution(config=SMALL)
    sending.take(0, numbered(0, C, content=b"c" * 3_000))
    sending.take(0, numbered(1, C, content=b"c" * 3_000))
    assert sending.open_count == 1
    assert len(sent(sending, 0)) == 1


def test_round_that_is_dispatched_again_is_delivered_once() -> None:
    sending = distribution()
    sending.take(0, numbered(0, C))
    size = sending.size
    sending.take(0, numbered(0, C))
    assert (sending.open_count, sending.size) == (1, size)
    assert len(sent(sending, 0)) == 1


def test_store_that_does_not_answer_is_asked_again_under_the_same_number() -> None:
    sending = distribution(C)
    assert sending.take_due(0) == [RecallDeliveries(C, 1, 64, CONFIG.deliveries_peer_bytes_max)]
    assert sending.next_due_ms() == 1_000
    assert sending.take_due(1_000) == [RecallDeliveries(C, 1, 64, CONFIG.deliveries_peer_bytes_max)]
    due = deliveries_of(numbered(0, C), A)
    sending.take_recalled(1_500, DeliveriesRecalled(C, 1, due, is_all=True))
    assert sent(sending, 1_500) == list(due)
    sending.take_recalled(1_600, DeliveriesRecalled(C, 1, due, is_all=True))
    sending.take_recalled(1_600, DeliveriesRecalled(D, 1, due, is_all=True))
    assert (sending.open_count, sent(sending, 1_600)) == (1, [])


def test_delivery_that_becomes_durable_while_the_store_is_read_is_recalled_afterwards() -> None:
    sending = distribution(C)
    sending.take_due(0)
    sending.take(1, numbered(0, C))
    sending.take_recalled(2, DeliveriesRecalled(C, 1, (), is_all=True))
    assert sending.take_due(2) == [RecallDeliveries(C, 2, 64, CONFIG.deliveries_peer_bytes_max)]
    sending.take_recalled(3, DeliveriesRecalled(C, 2, deliveries_of(numbered(0, C), A), is_all=True))
    sending.acknowledged(4, C, numbered(0, C).digest, 0)
    assert (sending.owed, sending.next_due_ms()) == ((), None)


def test_peer_that_is_owed_nothing_according_to_the_store_is_forgotten() -> None:
    sending = distribution(C)
    sending.take_due(0)
    sending.take_recalled(1, DeliveriesRecalled(C, 1, (), is_all=True))
    assert (sending.owed, sending.next_due_ms()) == ((), None)


def test_window_of_the_peer_that_is_silent_for_the_longest_time_returns_to_the_store() -> None:
    sending, silent, other = distribution(config=SMALL), NodeName("S"), NodeName("O")
    large = b"c" * 2_000
    sending.take(0, numbered(0, silent, content=large))
    sending.take(1, numbered(1, other, content=large))
    sending.take(2, numbered(2, C, content=large))
    sent(sending, 2)
    sending.acknowledged(3, C, numbered(2, C).digest, 0)
    sending.take(3, numbered(3, C, content=large))
    sending.take(4, numbered(4, D, content=large))
    assert sending.size <= SMALL.deliveries_bytes_max
    assert [
        sending.is_open(peer, numbered(n, peer, content=large).digest, 0) for n, peer in ((0, silent), (1, other))
    ] == [False, True]
    # It is tried again, with one delivery, and another silent one makes room.
    assert recalled(sending, 1_004) == [RecallDeliveries(silent, 1, 1, 4_000)]
    again = deliveries_of(numbered(0, silent, content=large), A)
    sending.take_recalled(1_005, DeliveriesRecalled(silent, 1, again, is_all=False))
    assert again[0] in sent(sending, 1_005)
    assert not sending.is_open(other, numbered(1, other).digest, 0)
    sending.acknowledged(1_006, silent, again[0].digest, 0)
    assert RecallDeliveries(silent, 2, 2, 4_000) in sending.take_due(1_006)


def test_one_delivery_that_is_larger_than_all_memory_for_deliveries_is_sent() -> None:
    sending = distribution(config=SMALL)
    sending.take(0, numbered(0, C, content=b"c" * 10_000))
    assert len(sent(sending, 0)) == 1


def test_nodes_that_do_not_exist_take_bounded_memory_and_keep_no_states_from_others() -> None:
    sending = distribution()
    sending.take(0, numbered(0, C))
    for number in range(PEERS_OWED_MAX):
        sending.take(1, numbered(1, NodeName(f"nobody-{number}")))
    assert len(sending.owed) == PEERS_OWED_MAX
    assert C not in sending.owed
    sending.connection_changed(2, C, connected=True)
    assert C in [recall.peer for recall in recalled(sending, 2)]
    # The store may owe something to any peer that is new here.
    sending.take(3, numbered(2, D))
    assert [recall.peer for recall in recalled(sending, 3)] == [D]


def test_node_that_owes_more_peers_than_it_remembers_finds_the_others_when_they_connect() -> None:
    sending = distribution(*(NodeName(f"peer-{number}") for number in range(PEERS_OWED_MAX + 1)))
    assert len(sending.owed) == PEERS_OWED_MAX
    last = NodeName(f"peer-{PEERS_OWED_MAX}")
    sending.connection_changed(1, last, connected=True)
    assert last in [each.peer for each in recalled(sending, 1)]


def test_size_of_a_delivery_is_that_of_its_transitions() -> None:
    sending = distribution()
    sending.take(0, numbered(0, C))
    assert sending.size == delivery_bytes(deliveries_of(numbered(0, C), A)[0])


# Which copy is told.


def test_of_two_copies_of_a_leaf_the_one_with_more_states_is_told() -> None:
    bare = replace(MADE, outputs=tuple(replace(state, content=None) for state in MADE.outputs))
    other = digest_of(transition("B-2").leaf)
    assert fullest([(other, bare), (DIGEST, MADE)], (MADE.leaf,)) == ((DIGEST, (MADE,)),)
    assert fullest([(DIGEST, MADE), (other, bare)], (MADE.leaf,)) == ((DIGEST, (MADE,)),)


def test_of_two_copies_of_a_leaf_a_peer_is_told_the_one_with_more_that_it_may_see() -> None:
    """A liar's copy names us alone on its lists."""
    hidden = replace(MADE, outputs=tuple(replace(state, distribution=(A,)) for state in MADE.outputs))
    other = digest_of(transition("B-2").leaf)
    assert fullest([(other, hidden), (DIGEST, MADE)], (MADE.leaf,), C) == ((DIGEST, (MADE,)),)
    assert fullest([(other, hidden), (DIGEST, MADE)], (MADE.leaf,)) == ((other, (hidden,)),)
