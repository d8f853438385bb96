"""States that peers make up: a peer has a quota for what is not on the chain, and nothing beyond it is acknowledged."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rota.exchange import unconfirmed
from rota.exchange.effects import StatesReceived
from rota.exchange.unconfirmed import AHEAD_LEAST_S, AHEAD_VALIDITIES, LOOK_EVERY_S, Room, Unconfirmed
from rota.machine.pacing import WRITTEN_AGAIN_TIMES_MAX
from rota.model.blocks import LedgerOutcome, LedgerStatus
from rota.model.config import Config
from rota.model.types import Mode, NodeName, Transition
from rota.node import private_states
from rota.node.events import StatesWanted
from rota.wire.messages import StateDistribution, StateDistributionAcknowledgement, StateRequest
from rota.wire.sizes import transition_bytes
from tests.node.node_bench import NodeBench
from tests.sequencer.kit import ADDRESS, GENESIS_S, A, B, C, D, contract, digest_of, transition

RING = contract(A, B, mode=Mode.RING)
CONFIG = Config()
LIAR = NodeName("liar")


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Room for two transitions of each peer, for four of one, and for three beyond that of all."""
    monkeypatch.setattr(unconfirmed, "LEAST", Room(2, 1_048_576))
    monkeypatch.setattr(unconfirmed, "MOST", Room(4, 1_048_576))
    monkeypatch.setattr(unconfirmed, "COMMON", Room(3, 1_048_576))
    monkeypatch.setattr(unconfirmed, "PEERS_MAX", 3)


def made(number: int) -> Transition:
    return transition(f"B-{number}")


def send(bench: NodeBench, peer: NodeName, *transitions: Transition) -> int:
    """A peer sends states; how many acknowledgements it got."""
    before = len(bench.said(StateDistributionAcknowledgement, peer))
    bench.hear(peer, StateDistribution(digest_of(*(each.leaf for each in transitions)), transitions))
    return len(bench.said(StateDistributionAcknowledgement, peer)) - before


def stored(bench: NodeBench) -> int:
    return sum(len(record.transitions) for record in bench.records(StatesReceived))


def outcome(of: Transition, status: LedgerStatus = LedgerStatus.COMMITTED) -> LedgerOutcome:
    return LedgerOutcome(of.intent, of.leaf, digest_of(of.leaf), status)


# Who may send.


def test_node_that_is_no_member_of_a_group_has_no_states_stored() -> None:
    bench = NodeBench(contracts=(RING,))
    assert send(bench, D, made(1)) == 0
    assert stored(bench) == 0
    assert send(bench, B, made(1)) == 1
    assert stored(bench) == 1


# How much.


def test_states_beyond_a_peers_quota_are_neither_stored_nor_acknowledged() -> None:
    bench = NodeBench()
    assert [send(bench, B, made(number)) for number in range(6)] == [1, 1, 1, 1, 0, 0]
    assert stored(bench) == 4
    assert bench.node.states.unconfirmed.refused_count == 2
    assert send(bench, B, made(0)) == 1, "a copy of what is recorded needs no room"


def test_states_of_one_message_are_taken_together_or_not_at_all() -> None:
    bench = NodeBench()
    assert send(bench, B, made(1), made(2), made(3)) == 1
    assert send(bench, B, made(4), made(5)) == 0
    assert stored(bench) == 3


def test_copy_that_comes_beside_something_new_takes_no_second_place() -> None:
    bench = NodeBench()
    assert send(bench, B, made(1)) == 1
    assert send(bench, B, made(1), made(2)) == 1
    assert [record.transitions for record in bench.records(StatesReceived)] == [(made(1),), (made(2),)]
    assert bench.node.states.unconfirmed.usage[B].count == 2


def test_peers_that_collude_leave_another_one_its_least() -> None:
    bench = NodeBench()
    assert [send(bench, LIAR, made(number)) for number in range(5)] == [1, 1, 1, 1, 0]
    assert [send(bench, B, made(number)) for number in range(10, 14)] == [1, 1, 1, 0]
    assert [send(bench, C, made(number)) for number in range(20, 23)] == [1, 1, 0]
    assert send(bench, D, made(30)) == 0, "peers are bounded too"


def test_room_is_bounded_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    size_bytes = transition_bytes(made(1))
    monkeypatch.setattr(unconfirmed, "LEAST", Room(9, size_bytes))
    monkeypatch.setattr(unconfirmed, "MOST", Room(9, 3 * size_bytes))
    monkeypatch.setattr(unconfirmed, "COMMON", Room(9, 3 * size_bytes))
    bench = NodeBench()
    assert [send(bench, B, made(number)) for number in range(4)] == [1, 1, 1, 0]
    assert [send(bench, C, made(number)) for number in range(5, 8)] == [1, 1, 0]


def test_large_transitions_of_a_foreign_contract_are_stored_up_to_a_bound_although_a_block_has_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    size_bytes = transition_bytes(made(1))
    monkeypatch.setattr(private_states, "SMALL_BYTES", size_bytes - 1)
    monkeypatch.setattr(private_states, "LARGE_BYTES_MAX", 2 * size_bytes)
    monkeypatch.setattr(private_states, "LARGE_INTERVAL_MS", 10_000)
    foreign = contract(C, mode=Mode.STATIC)
    bench = NodeBench(contracts=(foreign,))

    def commit_and_send(peer: NodeName, number: int) -> int:
        bench.block((ADDRESS, outcome(made(number))))
        return send(bench, peer, made(number))

    assert [commit_and_send(LIAR, number) for number in range(3)] == [1, 1, 0]
    assert commit_and_send(B, 10) == 1, "others have theirs"
    monkeypatch.setattr(private_states, "SMALL_BYTES", size_bytes)
    assert commit_and_send(LIAR, 3) == 1, "a payment is small"
    monkeypatch.setattr(private_states, "SMALL_BYTES", size_bytes - 1)
    assert send(bench, LIAR, made(2)) == 0
    bench.wait(private_states.LARGE_INTERVAL_MS // 2)
    assert send(bench, LIAR, made(2)) == 1, "it is sent again until there is room"


def test_large_transitions_are_not_bounded_where_this_node_has_a_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(private_states, "SMALL_BYTES", 1)
    monkeypatch.setattr(private_states, "LARGE_BYTES_MAX", 1)
    bench = NodeBench()
    assert [send(bench, B, made(number)) for number in range(2)] == [1, 1]


def test_quota_survives_a_restart() -> None:
    bench = NodeBench()
    for number in range(4):
        assert send(bench, B, made(number)) == 1
    bench.block((ADDRESS, outcome(made(0))))
    bench.restart()
    assert [send(bench, B, made(number)) for number in (10, 11)] == [1, 0]


def test_peer_that_sends_a_transition_with_later_and_later_bounds_has_it_written_a_bounded_number_of_times() -> None:
    bench = NodeBench()
    first = made(1)
    for later_s in range(10 * WRITTEN_AGAIN_TIMES_MAX):
        until_s = GENESIS_S + 100_000 + later_s
        bench.hear(B, StateDistribution(digest_of(first.leaf), (replace(first, valid_until_s=until_s),), later_s))
    assert stored(bench) == 1 + WRITTEN_AGAIN_TIMES_MAX
    assert send(bench, C, made(2)) == 1, "others have their states written"
    bench.wait(CONFIG.request_timeout_ms)
    assert send(bench, B, replace(first, valid_until_s=GENESIS_S + 200_000)) == 1


# Until when.


@pytest.mark.parametrize("status", [LedgerStatus.COMMITTED, LedgerStatus.SKIPPED])
def test_transition_that_a_block_has_takes_no_room(status: LedgerStatus) -> None:
    bench = NodeBench()
    assert [send(bench, B, made(number)) for number in range(5)] == [1, 1, 1, 1, 0]
    bench.block((ADDRESS, outcome(made(0), status)), (ADDRESS, outcome(made(9))))
    assert [send(bench, B, made(4)), send(bench, B, made(5))] == [1, 0]


def test_transition_that_expired_in_final_time_takes_no_room_and_is_written_again() -> None:
    bench = NodeBench()
    assert [send(bench, B, made(number)) for number in range(5)] == [1, 1, 1, 1, 0]
    longest_s = max(CONFIG.validity_s, CONFIG.prepared_validity_s)
    bench.block(time_s=GENESIS_S + 2 * longest_s)
    bench.block(height=99)
    assert send(bench, B, made(4)) == 0, "the bound that its sender gave may be too short"
    bench.block(time_s=GENESIS_S + 2 * longest_s + LOOK_EVERY_S + 1)
    bench.block(height=199)
    count = stored(bench)
    assert send(bench, B, made(0)) == 1
    assert stored(bench) == count + 1, "the store has deleted it"


def test_transition_that_is_sent_again_with_a_later_bound_is_written_again() -> None:
    bench = NodeBench()
    assert send(bench, B, made(1)) == 1
    later = replace(made(1), valid_until_s=GENESIS_S + 4 * CONFIG.prepared_validity_s)
    assert send(bench, B, later) == 1
    assert stored(bench) == 2
    assert send(bench, B, later) == 1
    assert stored(bench) == 2
    assert bench.node.states.unconfirmed.usage[B].count == 1


def test_later_bound_is_not_acknowledged_before_it_is_recorded() -> None:
    bench = NodeBench()
    assert send(bench, B, made(1)) == 1
    later = replace(made(1), valid_until_s=GENESIS_S + 4 * CONFIG.prepared_validity_s)
    bench.crashes_before = (StatesReceived,)
    assert send(bench, B, later) == 0
    bench.restart()
    assert send(bench, B, later) == 1
    assert bench.records(StatesReceived)[-1].transitions == (later,)
    assert bench.node.states.unconfirmed.usage[B].count == 1


def test_transition_that_was_skipped_or_undone_is_written_again() -> None:
    bench = NodeBench()
    assert send(bench, B, made(1)) == 1
    assert send(bench, B, made(2)) == 1
    bench.block((ADDRESS, outcome(made(1), LedgerStatus.SKIPPED)), (ADDRESS, outcome(made(2))))
    assert send(bench, B, made(1)) == 1
    assert send(bench, B, made(2)) == 1
    assert stored(bench) == 3
    bench.node.states.undo_outcomes(((ADDRESS, outcome(made(2))),))
    assert send(bench, B, made(2)) == 1
    assert stored(bench) == 4


def test_bound_far_ahead_of_the_chain_is_not_taken() -> None:
    """It would take room for ever."""
    bench = NodeBench()
    most_s = GENESIS_S + AHEAD_LEAST_S
    bench.block()
    assert send(bench, B, replace(made(1), valid_until_s=most_s + 1)) == 0
    assert send(bench, B, replace(made(1), valid_until_s=most_s)) == 1


def test_bound_may_be_as_far_ahead_as_long_validities_allow() -> None:
    known = Unconfirmed(Config(validity_s=AHEAD_LEAST_S))
    assert known.ahead_s == AHEAD_VALIDITIES * AHEAD_LEAST_S


def test_bound_counts_as_it_is_when_no_block_is_known() -> None:
    assert Unconfirmed(CONFIG).take(B, ADDRESS, (made(1),), 0)


# What is on the chain.


def test_states_that_this_node_asked_for_need_no_room() -> None:
    bench = NodeBench(contracts=(RING,))
    wanted = [made(number) for number in range(6)]
    bench.tell(StatesWanted(ADDRESS, tuple(each.leaf for each in wanted)))
    assert len(bench.said(StateRequest, B)) == 1
    assert [send(bench, B, each) for each in wanted] == [1] * 6
    assert bench.node.states.unconfirmed.usage == {}


def test_states_of_what_was_committed_lately_need_no_room() -> None:
    bench = NodeBench()
    for number in range(6):
        bench.block((ADDRESS, outcome(made(number))))
    assert [send(bench, B, made(number)) for number in range(6)] == [1] * 6
    assert bench.node.states.unconfirmed.usage == {}


def test_what_was_asked_for_is_remembered_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unconfirmed, "ASKED_MAX", 2)
    known = Unconfirmed(CONFIG)
    known.note_asked(ADDRESS, [made(number).leaf for number in range(3)])
    assert list(known.asked) == [(ADDRESS, made(number).leaf) for number in (1, 2)]


def test_later_bound_is_on_the_account_of_the_peer_that_sends_it() -> None:
    """Else a peer could hold another one's quota by copies of its transitions with later and later bounds."""
    bench = NodeBench()
    bench.block()
    first, second = (replace(made(1), valid_until_s=bench.node.chain_time_s + days * 86_400) for days in (1, 2))
    assert send(bench, B, first) == 1
    assert send(bench, C, second) == 1
    usage = bench.node.states.unconfirmed.usage
    assert B not in usage
    assert usage[C].count == 1
    for number in range(2, 5):
        assert send(bench, C, made(number)) == 1
    third = replace(made(9), valid_until_s=bench.node.chain_time_s + 86_400)
    assert send(bench, B, third) == 1
    assert send(bench, C, replace(third, valid_until_s=third.valid_until_s + 86_400)) == 0, "C has no room for it"
    assert usage[B].count == 1


def test_transition_that_one_message_holds_twice_takes_one_place() -> None:
    bench = NodeBench()
    send(bench, B, made(1), made(1))
    usage = bench.node.states.unconfirmed.usage
    assert B not in usage or usage[B].count == 1


def test_copy_in_the_same_message_has_no_bound_or_size_of_its_own() -> None:
    """Else the disk would keep it when it has left its quota, and more of it than was counted."""
    bench = NodeBench()
    bench.block()
    known, first = bench.node.states.unconfirmed, made(1)
    latest_s = bench.node.chain_time_s + known.ahead_s
    assert send(bench, B, first, replace(first, valid_until_s=latest_s + 1)) == 0
    assert stored(bench) == 0
    assert send(bench, B, first, replace(first, valid_until_s=latest_s)) == 1
    assert known.sent[ADDRESS, first.leaf][2] == latest_s
    assert known.usage[B].count == 1


def test_larger_copy_is_on_the_account_of_the_peer_that_sends_it() -> None:
    known, small = Unconfirmed(CONFIG), made(1)
    [state] = small.outputs
    large = replace(small, outputs=(replace(state, content=bytes(10_000)),))
    other = replace(small, outputs=(replace(state, content=bytes(2_000_000)),))
    assert known.take(B, ADDRESS, (small,), GENESIS_S)
    assert known.take(B, ADDRESS, (small, large, small), GENESIS_S)
    assert (known.usage[B].count, known.usage[B].size_bytes) == (1, transition_bytes(large))
    assert not known.take(B, ADDRESS, (other,), GENESIS_S), "it has no room for so much"
    assert not known.take(C, ADDRESS, (other,), GENESIS_S)
    assert known.usage[B].size_bytes == transition_bytes(large)
    assert known.take(C, ADDRESS, (replace(large, outputs=(replace(state, content=bytes(20_000)),)),), GENESIS_S)
    assert B not in known.usage
    assert known.usage[C].count == 1
    known.release(((ADDRESS, small.leaf),))
    assert (known.usage, known.common_count, known.common_bytes) == ({}, 0, 0)


def test_states_that_this_node_did_not_ask_for_need_room_although_it_asked_for_others() -> None:
    known = Unconfirmed(CONFIG)
    known.note_asked(ADDRESS, [made(0).leaf])
    assert known.take(B, ADDRESS, (made(0), made(1)), 0)
    assert list(known.sent) == [(ADDRESS, made(1).leaf)]


def test_expired_transitions_are_looked_for_once_in_a_while() -> None:
    known = Unconfirmed(CONFIG)
    assert known.take_expired(GENESIS_S) == []
    assert known.take(B, ADDRESS, (made(0),), 0)
    (bound_s,) = (sent[2] for sent in known.sent.values())
    assert known.take_expired(bound_s) == []
    assert known.take_expired(bound_s + LOOK_EVERY_S - 1) == []
    assert known.take_expired(bound_s + LOOK_EVERY_S) == [(ADDRESS, made(0).leaf)]
