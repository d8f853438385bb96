"""A coordinator commits what is endorsed without asking its sender, distributes nothing, and makes endorsers forget.

The contents of what an honest party signed are on its own node's disk before the signature leaves, so that they cannot
be lost; the sender sends them to all on the lists when it sees such a commit; and nobody makes an endorser forget what
it has signed for another.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from rota.exchange.distribution import FOUND_PARTS_FROM
from rota.exchange.effects import StatesReceived
from rota.machine.effects import FindStates, Persist, SendMessage
from rota.machine.events import Tick
from rota.model.blocks import LedgerOutcome, LedgerStatus
from rota.model.consistency import Consistent
from rota.model.types import Digest, NodeName, RequestId, Transition
from rota.node import private_states
from rota.node.events import StatesFound
from rota.sequencer import seen as seen_module
from rota.sequencer.effects import DistributeStates, LeavesSigned, StoreStates
from rota.sequencer.events import AssemblyFinished, TransitionSigned
from rota.sequencer.seen import Seen
from rota.sequencer.sender_transaction import State
from rota.wire.messages import (
    AssembleResponse,
    AssemblyOutcome,
    StateDistribution,
    StateDistributionAcknowledgement,
    StateRequest,
)
from rota.wire.sizes import transition_bytes
from tests.node.node_bench import NodeBench
from tests.node.test_state_requests import states
from tests.sequencer import test_prepared as p
from tests.sequencer import test_sender_transaction as x
from tests.sequencer.kit import ADDRESS, A, B, Bench, C, contract, digest_of, transition, void_transition
from tests.sequencer.test_endorser import endorser, request


def committed(made: Transition) -> LedgerOutcome:
    return LedgerOutcome(made.intent, made.leaf, digest_of(made.leaf), LedgerStatus.COMMITTED)


# The sender.


def test_contents_of_what_a_party_signs_are_durable_before_the_signature_leaves() -> None:
    bench = x.assembling()
    bench.tell(AssemblyFinished(RequestId(1, 10), x.ID, AssemblyOutcome.ASSEMBLED, transition("A-1", signature=b"")))
    bench.forget()
    bench.tell(TransitionSigned(RequestId(1, 10), x.ID, b"signed"))
    write, *others = bench.effects
    assert isinstance(write, Persist), "nothing else of a step happens before its records are written"
    assert write.records == (LeavesSigned((transition("A-1"),)),)
    assert [type(each.envelope.body) for each in others if isinstance(each, SendMessage)] == [AssembleResponse]


def test_sender_distributes_what_was_committed_without_its_permission() -> None:
    bench = x.assembled()
    bench.block(x.HEIGHT + 1, committed(transition("A-1")))
    assert x.state(bench) is State.CONFIRMED
    assert bench.take(DistributeStates) == [DistributeStates(ADDRESS, transition("A-1").leaf)]


def test_sender_distributes_another_version_than_it_permitted() -> None:
    bench = x.prepared()
    other = transition("A-1", version=7)
    bench.signed(other)
    bench.block(x.HEIGHT + 1, committed(other))
    assert bench.take(DistributeStates) == [DistributeStates(ADDRESS, other.leaf)]


def test_sender_leaves_what_it_permitted_issued_or_voided_to_who_committed_it() -> None:
    permitted, issued, voided = x.prepared(), p.issued(), x.assembled()
    permitted.block(x.HEIGHT + 1, committed(transition("A-1")))
    issued.block(x.HEIGHT + 1, committed(p.MADE))
    voided.block(x.HEIGHT + 1, committed(void_transition("A-1")))
    for bench in (permitted, issued, voided):
        assert x.state(bench) is State.CONFIRMED
        assert bench.take(DistributeStates) == []


def node_with_unpermitted_commit(made: Transition) -> NodeBench:
    bench = NodeBench(contracts=(contract(A, B, C),))
    bench.submit("A-1")
    bench.sequencer().sender.transactions[x.ID].note_version(made.leaf, made.valid_until_s)
    bench.seen.clear()
    bench.block((ADDRESS, committed(made)))
    return bench


def test_everybody_on_a_list_is_sent_what_it_may_see_of_an_unpermitted_commit() -> None:
    made = states("A-1", (b"for B", (A, B)), (b"for C", (A, C)), (b"for A", (A,)))
    bench = node_with_unpermitted_commit(made)
    assert bench.all(FindStates) == [FindStates(ADDRESS, A, (made.leaf,))]
    found = StatesFound(ADDRESS, A, Digest(made.leaf), (made, transition("B-9")))
    bench.tell(found)
    for peer in (B, C):
        sent = StateDistribution(Digest(made.leaf), (made.as_seen_by(peer),), FOUND_PARTS_FROM)
        assert bench.said(StateDistribution, peer) == [sent]
    assert bench.said(StateDistribution, A) == []
    bench.tell(found)
    assert len(bench.said(StateDistribution, B)) == 1


def test_commits_that_wait_for_the_store_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(private_states, "UNPERMITTED_MAX", 1)
    made = transition("A-1")
    bench = node_with_unpermitted_commit(made)
    bench.node.states.distribute_own(ADDRESS, transition("A-2").leaf)
    assert bench.node.states.unpermitted == {(ADDRESS, transition("A-2").leaf): None}
    bench.tell(StatesFound(ADDRESS, A, Digest(made.leaf), (made,)))
    assert bench.said(StateDistribution, B) == []


# The endorser.


def remembered(bench: Bench, made: Transition) -> tuple[Transition, ...]:
    return bench.sequencer.endorser.seen.find((made.leaf,))


def endorse(bench: Bench, made: Transition, counter: int, signature: bytes = b"signature") -> None:
    """A has it endorsed; without a signature the domain has not judged it yet."""
    bench.hear(A, request(made, request_id=RequestId(1, counter)))
    if signature:
        bench.judge(A, RequestId(1, counter), signature)


def test_coordinator_that_makes_transitions_up_does_not_make_an_endorser_forget_what_it_signed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(seen_module, "SEEN_MAX", 4)
    bench, made = endorser(), transition("B-1")
    endorse(bench, made, 1)
    for number in range(2, 12):
        endorse(bench, transition("B-1", version=number), number, signature=b"")
    assert remembered(bench, made) == (made,)
    assert len(bench.sequencer.endorser.seen) == 4


def test_coordinator_that_floods_an_endorser_displaces_nobody_elses_transitions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Not even those that the endorser has not judged yet."""
    seen, made = seen_module.Seen(), transition("B-1")
    monkeypatch.setattr(seen_module, "SEEN_MAX", 4)
    seen.note(made, C)
    for number in range(10):
        seen.note(transition("B-1", version=number + 1), A)
    assert (len(seen), seen.find((made.leaf,))) == (4, (made,))
    monkeypatch.setattr(seen_module, "SEEN_BYTES_MAX", 2 * transition_bytes(made) + 1)
    seen.note(transition("B-2"), A)
    assert (len(seen), seen.find((made.leaf,))) == (2, (made,))


def test_sender_with_many_signed_transitions_displaces_only_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seen_module, "SEEN_MAX", 4)
    bench, made = endorser(), transition("B-1")
    endorse(bench, made, 1)
    for number in range(2, 12):
        endorse(bench, transition(f"A-{number}"), number)
    assert remembered(bench, made) == (made,)
    assert remembered(bench, transition("A-11")) == (transition("A-11"),)
    assert remembered(bench, transition("A-2")) == ()


def test_fields_that_no_leaf_binds_make_no_account_larger() -> None:
    made = Consistent(transition("B-1"))
    padded = Consistent(
        replace(made, unknown=b"u" * 60_000, outputs=tuple(replace(each, unknown=b"u") for each in made.outputs))
    )
    seen = Seen()
    seen.note(padded, A)
    seen.note_signed(padded, B)
    assert seen.find((made.leaf,)) == (made,)
    assert seen._bytes == transition_bytes(made)


def test_endorser_does_not_forget_what_was_skipped() -> None:
    """A coordinator that commits it too early, before what it spends, commits it again later."""
    bench, made = endorser(), transition("B-1")
    endorse(bench, made, 1)
    bench.block(1, replace(committed(made), status=LedgerStatus.SKIPPED))
    assert remembered(bench, made) == (made,)


def test_endorser_writes_what_it_signed_and_nobody_sent_it() -> None:
    """Seed 2312: a member committed its own transition, sent false contents, and the endorser that knew it crashed."""
    bench, made, other = endorser(), transition("B-1"), transition("B-2")
    endorse(bench, made, 1)
    endorse(bench, other, 2)
    bench.block(1, committed(made))
    bench.wait(1_000)
    bench.block(2, committed(other))
    assert bench.sequencer.is_busy, "it is not paged out before that"
    bench.wait(900)
    assert bench.take(StoreStates) == []
    bench.wait(200)
    assert bench.take(StoreStates) == [StoreStates(ADDRESS, made)]
    bench.wait(1_000)
    assert bench.take(StoreStates) == [StoreStates(ADDRESS, other)]


def test_endorser_writes_nothing_that_arrives_in_time_or_that_it_has_not_seen() -> None:
    bench, made = endorser(), transition("B-1")
    endorse(bench, made, 1)
    bench.block(1, committed(made), committed(transition("B-2")))
    bench.sequencer.endorser.states_stored((transition("B-3"), made))
    assert bench.sequencer.endorser.unsent == {}
    bench.wait(3_000)
    assert bench.take(StoreStates) == []


def test_transition_that_an_endorser_has_seen_is_recorded_once_and_acknowledged_to_no_peer() -> None:
    made = transition("B-1")
    bench = NodeBench(contracts=(contract(A, B, C),))
    bench.submit("A-1")
    bench.sequencer().endorser.seen.note_signed(made, B)
    bench.block((ADDRESS, committed(made)))
    assert bench.records(StatesReceived) == []
    bench.wait(3_000)
    recorded = [StatesReceived(Digest(made.leaf), (made,), private_states.SEEN_PART)]
    assert bench.records(StatesReceived) == recorded
    assert len(bench.sequencer().endorser.seen) == 0
    assert bench.said(StateDistributionAcknowledgement, A) == []
    bench.node.states.store_seen(ADDRESS, made)
    bench.tell(Tick())
    assert bench.records(StatesReceived) == recorded


def test_peer_that_sends_something_else_under_the_same_name_does_not_keep_an_endorser_from_recording_what_it_saw() -> (
    None
):
    made, other = transition("B-1"), states("B-2", (b"made up", (A, B)))
    bench = NodeBench(contracts=(contract(A, B, C),))
    bench.hear(B, StateDistribution(Digest(made.leaf), (other,)))
    assert [record.transitions for record in bench.records(StatesReceived)] == [(other,)]
    bench.node.states.store_seen(ADDRESS, made)
    bench.tell(Tick())
    assert [record.transitions for record in bench.records(StatesReceived)] == [(other,), (made,)]
    assert bench.node.distribution.is_received(ADDRESS, (made,))


def test_what_is_signed_goes_from_its_coordinators_account_to_its_senders() -> None:
    seen = seen_module.Seen()
    one, two, three = (transition(f"B-{number}") for number in (1, 2, 3))
    for made in (one, two, three):
        seen.note(made, A)
    for made in (one, two, two, three):
        seen.note_signed(made, B)
    (account,) = seen._accounts.values()
    assert (set(seen._accounts), list(account.leaves)) == ({(B, True)}, [one.leaf, two.leaf, three.leaf])
    assert account.size_bytes == seen._bytes == sum(map(transition_bytes, (one, two, three)))


def test_copy_with_fewer_contents_does_not_take_the_place_of_one_with_more() -> None:
    """A coordinator would show, or distribute, a copy of which it has left something out."""
    made = states("B-1", (b"one", (A, B, C)), (b"two", (A, B, C)))
    less = replace(made, outputs=(made.outputs[0], replace(made.outputs[1], content=None)))
    bench = endorser()
    endorse(bench, made, 1, signature=b"")
    seen = bench.sequencer.endorser.seen
    for by_sender in (False, True):
        seen.note(less, A)
        assert seen.find((made.leaf,)) == (made,)
        bench.sequencer.endorser.states_stored((less,))
        assert seen.find((made.leaf,)) == (made,)
        if not by_sender:
            seen.note_signed(less, B)
    assert seen.find((made.leaf,)) == (made,)
    bench.sequencer.endorser.states_stored((made,))
    assert len(seen) == 0


def test_copy_with_more_contents_takes_the_place_of_one_that_we_signed() -> None:
    made = states("B-1", (b"one", (A, B, C)), (b"two", (A, B, C)))
    less = replace(made, outputs=(made.outputs[0], replace(made.outputs[1], content=None)))
    seen = seen_module.Seen()
    seen.note_signed(less, B)
    seen.note(made, A)
    assert seen.find((made.leaf,)) == (made,)
    assert set(seen._accounts) == {(B, True)}


def test_endorser_gives_what_it_has_seen_of_an_unpermitted_commit() -> None:
    bench = NodeBench(contracts=(contract(A, B, C),))
    made = transition("B-1")
    bench.hear(B, request(made))
    bench.block((ADDRESS, committed(made)))
    bench.hear(C, StateRequest((made.leaf,)))
    assert [sent.transitions for sent in bench.said(StateDistribution, C)] == [(made,)]
    assert bench.records(StatesReceived) == []


# False lists: no leaf binds who may see a state, and whoever sends a transition may name anybody.


def with_lists(made: Consistent, *nodes: NodeName) -> Consistent:
    return Consistent(replace(made, outputs=tuple(replace(state, distribution=nodes) for state in made.outputs)))


def test_copy_with_false_lists_does_not_make_an_endorser_forget_what_it_signed() -> None:
    bench, made = endorser(), states("B-1", (b"for all", (A, B, C)))
    endorse(bench, made, 1)
    bench.sequencer.endorser.states_stored((with_lists(made, C),))
    assert remembered(bench, made) == (made,)
    bench.sequencer.endorser.states_stored((made,))
    assert remembered(bench, made) == ()


def test_copy_with_other_lists_takes_the_place_of_what_an_endorser_has_not_signed() -> None:
    """The lists of what it has not signed are the word of the coordinator that showed it."""
    bench, made = endorser(), states("B-1", (b"for all", (A, B, C)))
    endorse(bench, with_lists(made, A, C), 1, signature=b"")
    bench.sequencer.endorser.states_stored((made,))
    assert remembered(bench, made) == ()


@pytest.mark.parametrize("comes_first", [True, False])
def test_endorser_writes_what_it_signed_beside_a_copy_with_false_lists(comes_first: bool) -> None:
    """B commits its own transition, shows it to A alone, and tells A that nobody else may see it."""
    made = states("B-1", (b"for all", (A, B, C)))
    bench = NodeBench(contracts=(contract(A, B, C),))
    false = StateDistribution(digest_of(made.leaf), (with_lists(made, A),))
    if comes_first:
        bench.hear(B, false)
    bench.sequencer().endorser.seen.note_signed(made, B)
    if not comes_first:
        bench.hear(B, false)
    bench.block((ADDRESS, committed(made)))
    bench.wait(3_000)
    own = StatesReceived(Digest(made.leaf), (made,), private_states.SEEN_PART)
    assert own in bench.records(StatesReceived)
    assert len(bench.sequencer().endorser.seen) == 0


@pytest.mark.parametrize("change", [{"signature": b"false"}, {"valid_until_s": 1}])
def test_copy_with_a_false_signature_or_bound_does_not_make_an_endorser_forget_what_it_signed(
    change: dict[str, object],
) -> None:
    """A sender that lost its disk knows its own work by its party's signature of leaf and bound (trust rule 1)."""
    bench, made = endorser(), states("B-1", (b"for all", (A, B, C)))
    endorse(bench, made, 1)
    bench.sequencer.endorser.states_stored((Consistent(replace(made, **change)),))  # type: ignore[arg-type]
    assert remembered(bench, made) == (made,)
    bench.sequencer.endorser.states_stored((made,))
    assert remembered(bench, made) == ()


def test_sender_that_lost_its_disk_is_shown_its_own_signature_although_a_liar_sent_another_one_first() -> None:
    """B, which coordinates, sends everybody C's transition with a false signature; C then loses its disk."""
    made = states("C-1", (b"for all", (A, B, C)))
    bench = NodeBench(contracts=(contract(A, B, C),))
    bench.sequencer().endorser.seen.note_signed(made, C)
    bench.hear(B, StateDistribution(digest_of(made.leaf), (Consistent(replace(made, signature=b"false")),)))
    bench.block((ADDRESS, committed(made)))
    bench.wait(3_000)
    [(_, (shown,))] = bench.disk.find_states(ADDRESS, (made.leaf,), C)
    assert shown == made
