"""Heartbeats tell what changed: both sides agree on the list, or the receiver notices and asks (protocol §6)."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.machine.context import Ids
from rota.model.config import Config
from rota.model.types import HeartbeatNumber, IntentId, Mode, NodeName
from rota.sequencer.context import Context
from rota.sequencer.listing import Listing
from rota.sequencer.observer import Observer
from rota.wire.messages import (
    Answer,
    CoordinatorHeartbeat,
    CoordinatorState,
    DelegationAccepted,
    DelegationCommand,
    IntentAnswer,
    ListedIntent,
    ListingRequest,
)
from tests.sequencer.coordinator_bench import CoordinatorBench, active, parked
from tests.sequencer.kit import A, B, Bench, C, D, contract, intent_id, transition
from tests.sequencer.test_slots import answer

A1, A2, A3 = (intent_id(name) for name in ("A-1", "A-2", "A-3"))


# One side alone.


def test_first_time_everything_is_new() -> None:
    listing = Listing()
    assert listing.changes({A1: "Pooled", A2: "Pooled"}) == (
        (ListedIntent(A1, "Pooled"), ListedIntent(A2, "Pooled")),
        (),
    )
    assert listing.count == 2


def test_only_what_changed_and_what_is_gone_is_told() -> None:
    listing = Listing()
    listing.changes({A1: "Pooled", A2: "Pooled"})
    assert listing.changes({A2: "Assembling", A3: "Pooled"}) == (
        (ListedIntent(A2, "Assembling"), ListedIntent(A3, "Pooled")),
        (A1,),
    )
    assert listing.changes({A2: "Assembling", A3: "Pooled"}) == ((), ())


def test_digest_is_that_of_the_list_however_it_came_to_be() -> None:
    one, other = Listing(), Listing()
    one.changes({A1: "Pooled", A2: "Pooled"})
    one.changes({A2: "Assembling"})
    other.apply([ListedIntent(A2, "Assembling")], [A3])
    assert (one.count, one.digest) == (other.count, other.digest)
    other.apply([], [A2])
    assert (other.count, other.digest) == (0, 0)


def test_same_intents_in_other_states_have_another_digest() -> None:
    one, other = Listing(), Listing()
    one.changes({A1: "Pooled", A2: "Assembling"})
    other.changes({A1: "Assembling", A2: "Pooled"})
    assert one.count == other.count
    assert one.digest != other.digest


# Both sides: whatever is lost, late, repeated or restarted.


class Fate(Enum):
    """What becomes of a heartbeat, or who restarts before it."""

    ARRIVES = "arrives"
    IS_LOST = "is lost"
    IS_LATE = "is late"
    ARRIVES_TWICE = "arrives twice"
    TELLER_RESTARTS = "teller restarts"
    HEARER_RESTARTS = "hearer restarts"


@dataclass
class Pair:
    """A coordinator B that tells A of its intents, and A's observer; the wire between them does what it wants."""

    told: Listing | None = None
    incarnation: int = 1
    sequence: int = 0
    lists: dict[HeartbeatNumber, dict[IntentId, str]] = field(default_factory=dict)
    late: list[CoordinatorHeartbeat] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.restart_hearer()

    def restart_hearer(self) -> None:
        self.observer = Observer(Context(A, Ids(1), contract(), Config()))

    def restart_teller(self) -> None:
        self.incarnation, self.sequence, self.told = self.incarnation + 1, 0, None

    def beat(self, now: dict[IntentId, str]) -> CoordinatorHeartbeat:
        is_whole = self.told is None
        self.told = self.told or Listing()
        changed, gone = self.told.changes(now)
        self.sequence += 1
        number = HeartbeatNumber(self.incarnation, self.sequence)
        self.lists[number] = dict(now)
        count, digest = self.told.count, self.told.digest
        return CoordinatorHeartbeat(
            number, CoordinatorState.ACTIVE, changed, is_whole=is_whole, gone=gone, count=count, digest=digest
        )

    def hear(self, heartbeat: CoordinatorHeartbeat, is_request_lost: bool = False) -> None:
        """What A knows is what B said last, or A knows that it knows nothing and asks for the whole."""
        self.observer.hear_heartbeat(B, heartbeat)
        listing, number = self.observer.peer(B).listing, self.observer.peer(B).number
        assert listing is None or listing.states == self.lists[number]
        if listing is None and not is_request_lost:
            self.told = None

    def take(self, now: dict[IntentId, str], fate: Fate, is_request_lost: bool) -> None:
        if fate is Fate.TELLER_RESTARTS:
            self.restart_teller()
        if fate is Fate.HEARER_RESTARTS:
            self.restart_hearer()
        heartbeat = self.beat(now)
        if fate is Fate.IS_LATE:
            self.late.append(heartbeat)
        elif fate is not Fate.IS_LOST:
            self.hear(heartbeat, is_request_lost)
            while self.late:
                self.hear(self.late.pop(), is_request_lost)
        if fate is Fate.ARRIVES_TWICE:
            self.hear(heartbeat, is_request_lost)


lists = st.dictionaries(st.sampled_from([A1, A2, A3]), st.sampled_from(["Pooled", "Assembling", "Dispatched"]))
steps = st.lists(st.tuples(lists, st.sampled_from(Fate), st.booleans()), max_size=12)


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(steps, lists)
def test_both_sides_agree_or_the_receiver_notices_and_soon_they_agree(
    told: list[tuple[dict[IntentId, str], Fate, bool]], last: dict[IntentId, str]
) -> None:
    pair = Pair()
    for now, fate, is_request_lost in told:
        pair.take(now, fate, is_request_lost)
    for _ in range(2):
        pair.take(last, Fate.ARRIVES, is_request_lost=False)
    listing = pair.observer.peer(B).listing
    assert listing is not None
    assert listing.states == last


def test_whole_list_is_believed_as_it_is() -> None:
    observer = Pair().observer
    odd = CoordinatorHeartbeat(
        HeartbeatNumber(1, 1), CoordinatorState.ACTIVE, (ListedIntent(A1, "Pooled"),), count=7, digest=7
    )
    observer.hear_heartbeat(B, odd)
    listing = observer.peer(B).listing
    assert listing is not None
    assert listing.states == {A1: "Pooled"}


# The coordinator.


def heartbeats(bench: Bench, to: NodeName) -> list[CoordinatorHeartbeat]:
    """What a node was told so far."""
    return bench.said(CoordinatorHeartbeat, to)


def static() -> CoordinatorBench:
    """A alone coordinates, whoever sends; it is Active."""
    return active(of=contract(A, mode=Mode.STATIC, endorsers=(B, C)))


def told_of_two() -> CoordinatorBench:
    """A has two intents of D, and D has heard of both."""
    bench = static()
    bench.delegate("D-1", "D-2")
    bench.wait(500)
    assert [heartbeat.count for heartbeat in heartbeats(bench, D)] == [2]
    return bench


def test_node_is_told_its_whole_list_the_first_time_and_then_what_changed() -> None:
    bench = static()
    bench.delegate("D-1")
    bench.wait(500)
    bench.assemble(transition("D-1"))
    bench.wait(500)
    bench.wait(500)
    first, second, third = heartbeats(bench, D)
    assert (first.is_whole, first.intents) == (True, (ListedIntent(intent_id("D-1"), "Assembling"),))
    assert (second.is_whole, second.intents) == (False, (ListedIntent(intent_id("D-1"), "Endorsement_Gathering"),))
    assert (third.is_whole, third.intents, third.gone) == (False, (), ())
    assert (second.count, second.digest) == (third.count, third.digest)
    assert first.digest != second.digest


def test_what_is_no_longer_held_is_told_as_gone() -> None:
    bench = told_of_two()
    answer(bench, parked("D-1"))
    bench.wait(500)
    last = heartbeats(bench, D)[-1]
    assert (last.is_whole, last.gone, last.count) == (False, (intent_id("D-1"),), 1)


def test_who_missed_something_gets_the_whole_list_at_once() -> None:
    bench = told_of_two()
    bench.forget()
    number = bench.coordinator.number
    bench.hear(D, ListingRequest(number))
    [whole] = heartbeats(bench, D)
    assert whole.number > number
    assert (whole.is_whole, [entry.intent for entry in whole.intents]) == (True, [intent_id("D-1"), intent_id("D-2")])
    assert len(bench.said(CoordinatorHeartbeat)) == 1, "it is nobody else's business"


def test_stranger_is_told_nothing_when_it_asks() -> None:
    bench = told_of_two()
    bench.hear(NodeName("E"), ListingRequest(bench.coordinator.number))
    assert heartbeats(bench, NodeName("E")) == []


def test_node_that_does_not_coordinate_answers_no_request_for_a_list() -> None:
    bench = Bench()
    bench.hear(B, ListingRequest(HeartbeatNumber(1, 1)))
    assert heartbeats(bench, B) == []


def test_node_that_was_not_told_for_a_while_hears_the_whole_list_again() -> None:
    bench = told_of_two()
    answer(bench, parked("D-1"), parked("D-2"))
    bench.wait(500)
    assert D not in bench.coordinator.told
    bench.forget()
    bench.delegate("D-3")
    bench.wait(500)
    assert [heartbeat.is_whole for heartbeat in heartbeats(bench, D)] == [True]


def test_coordinator_that_has_rested_tells_whole_lists_again() -> None:
    bench = told_of_two()
    answer(bench, parked("D-1"), parked("D-2"))
    bench.delegate("B-1")
    bench.wait(500)
    answer(bench, parked("B-1"))
    bench.wait(10_000)
    assert bench.state() is CoordinatorState.IDLE
    assert bench.coordinator.told == {}


# The sender.


def with_b() -> Bench:
    """Two intents of A are with B, which has listed both."""
    bench = Bench(height=400)
    for name in ("A-1", "A-2"):
        bench.submit(name)
        command = bench.said(DelegationCommand, B)[-1]
        answers = tuple(IntentAnswer(each.intent.id, Answer.ACCEPTED) for each in command.delegations)
        bench.hear(B, DelegationAccepted(command.command_id, answers, HeartbeatNumber(1, 0)), height=400)
    tell(bench, 1, (A1, A2))
    bench.forget()
    return bench


def tell(
    bench: Bench,
    sequence: int,
    changed: tuple[IntentId, ...] = (),
    gone: tuple[IntentId, ...] = (),
    *,
    is_whole: bool = True,
    listed: tuple[IntentId, ...] | None = None,
    life: int = 1,
) -> None:
    """A heartbeat of B; `listed` is what its list has by then."""
    now = Listing()
    now.changes(dict.fromkeys(changed if listed is None else listed, "Pooled"))
    entries = tuple(ListedIntent(each, "Pooled") for each in changed)
    heartbeat = CoordinatorHeartbeat(
        HeartbeatNumber(life, sequence),
        CoordinatorState.ACTIVE,
        entries,
        is_whole=is_whole,
        gone=gone,
        count=now.count,
        digest=now.digest,
    )
    bench.hear(B, heartbeat, height=400, life=life)


def delegated_again(bench: Bench) -> list[IntentId]:
    return [each.intent.id for command in bench.said(DelegationCommand, B) for each in command.delegations]


def test_heartbeat_without_changes_renews_the_leases_of_all_that_are_listed() -> None:
    bench = with_b()
    for sequence in range(2, 10):
        bench.wait(500)
        tell(bench, sequence, is_whole=False, listed=(A1, A2))
    assert delegated_again(bench) == []
    assert bench.said(ListingRequest) == []


def test_what_is_told_as_gone_is_delegated_again() -> None:
    bench = with_b()
    bench.wait(500)
    tell(bench, 2, gone=(A1,), is_whole=False, listed=(A2,))
    assert delegated_again(bench) == [A1]


def test_sender_that_missed_a_heartbeat_asks_for_the_whole_list_and_loses_nothing_meanwhile() -> None:
    bench = with_b()
    bench.wait(500)
    tell(bench, 3, is_whole=False, listed=(A1, A2, A3))
    assert bench.said(ListingRequest, B) == [ListingRequest(HeartbeatNumber(1, 3))]
    assert delegated_again(bench) == []
    tell(bench, 4, (A1, A2, A3))
    tell(bench, 5, is_whole=False, listed=(A1, A2, A3))
    assert len(bench.said(ListingRequest, B)) == 1
    assert delegated_again(bench) == []


def test_request_for_the_whole_list_is_repeated_at_every_heartbeat_until_it_comes() -> None:
    bench = with_b()
    for sequence in (3, 4, 5):
        tell(bench, sequence, is_whole=False, listed=(A1,))
    assert [request.number.sequence for request in bench.said(ListingRequest, B)] == [3, 4, 5]


def test_heartbeat_that_comes_late_changes_nothing() -> None:
    bench = with_b()
    tell(bench, 3, is_whole=False, listed=(A1, A2))
    tell(bench, 2, gone=(A1, A2), is_whole=False, listed=())
    assert delegated_again(bench) == []
    assert bench.said(ListingRequest) == []


def test_list_of_a_restarted_coordinator_takes_the_place_of_the_old_one() -> None:
    bench = with_b()
    tell(bench, 1, (A2,), life=2)
    assert delegated_again(bench) == [A1]
    assert bench.said(ListingRequest) == []
