"""The graph against a naive model: locks, offers and dependents are what a look at everything placed would say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.model.types import Digest, FlushPoint, IntentId, Leaf, NodeName, State, StateId, Transition
from rota.sequencer import graph as graph_module
from rota.sequencer.graph import Graph
from rota.wire.messages import HandedOver
from rota.wire.sizes import state_bytes
from tests.sequencer.kit import A, B

LEAVES = 8
OUTPUTS = 2
GROUND = Leaf(b"on the chain")

Reference = tuple[int, int]


def leaf(index: int) -> Leaf:
    """The leaf of the transition with this number; those below zero are on the chain."""
    return Leaf(f"leaf {index}".encode()) if index >= 0 else GROUND


def made(index: int, output: int) -> State:
    """A state that only A may see."""
    return State(StateId(leaf(index), output), b"commitment", (A,), b"bytes")


def step_of(index: int, inputs: Sequence[Reference] = (), reads: Sequence[Reference] = ()) -> Transition:
    """A transition that spends and reads these outputs of earlier ones, and makes two states."""
    return Transition(
        IntentId(f"intent {index}".encode()),
        leaf(index),
        tuple(StateId(leaf(maker), output) for maker, output in inputs),
        tuple(StateId(leaf(maker), output) for maker, output in reads),
        tuple(made(index, output) for output in range(OUTPUTS)),
    )


def foreign(step: Transition) -> HandedOver:
    """The same as another coordinator hands it over."""
    return HandedOver(FlushPoint(Digest(b"round"), step.intent), step)


@dataclass
class Model:
    """All that was placed, in order; every question is answered by looking at all of it."""

    steps: dict[Leaf, Transition] = field(default_factory=dict)
    spender: dict[StateId, Leaf] = field(default_factory=dict)
    withdrawn: set[Leaf] = field(default_factory=set)

    def place(self, step: Transition) -> None:
        self.steps[step.leaf] = step
        for state in step.inputs:
            self.spender.setdefault(state, step.leaf)

    def remove(self, gone: Leaf) -> None:
        del self.steps[gone]
        self.withdrawn.discard(gone)
        self.spender = {state: by for state, by in self.spender.items() if by != gone}

    def users(self, of: Leaf) -> set[Leaf]:
        return {
            step.leaf for step in self.steps.values() if of in {state.leaf for state in (*step.inputs, *step.reads)}
        }

    def dependents(self, of: Leaf) -> set[Leaf]:
        found = self.users(of)
        while (grown := found.union(*(self.users(each) for each in found))) != found:
            found = grown
        return found

    def offered(self) -> set[StateId]:
        return {
            state.id
            for step in self.steps.values()
            if step.leaf not in self.withdrawn
            for state in step.outputs
            if state.id not in self.spender
        }


def check(graph: Graph, model: Model) -> None:
    """The graph answers every question as the model does."""
    assert list(graph.placed) == list(model.steps)
    snapshot = graph.snapshot(A)
    assert sorted(snapshot.locks) == sorted(model.spender)
    assert {state.id for state in snapshot.states} == model.offered()
    size = sum(state_bytes(state) for state in snapshot.states)
    assert graph.fits_snapshot(size)
    assert not graph.fits_snapshot(size - 1)
    order = list(model.steps)
    for each in (*model.steps, GROUND):
        assert {placed.leaf for placed in graph.direct_users(each)} == model.users(each)
        found = [placed.leaf for placed in graph.dependents_last_first(each)]
        assert set(found) == model.dependents(each)
        assert found == sorted(found, key=order.index, reverse=True)
    for each, step in model.steps.items():
        makers = {state.leaf for state in (*step.inputs, *step.reads)} & model.steps.keys()
        assert {placed.leaf for placed in graph.dependencies(each)} == makers


references = st.lists(st.tuples(st.integers(-1, LEAVES), st.integers(0, OUTPUTS - 1)), max_size=3, unique=True)
actions: st.SearchStrategy[tuple[str, object, object]] = st.one_of(
    st.tuples(st.just("place"), references, references),
    st.tuples(st.just("foreign"), references, st.just([])),
    st.tuples(st.just("remove"), st.integers(0, LEAVES), st.none()),
)


@given(st.lists(actions, max_size=24))
def test_graph_answers_as_a_look_at_everything_would(script: list[tuple[str, object, object]]) -> None:
    graph, model, next_index = Graph(), Model(), 0
    for kind, one, other in script:
        if kind == "remove":
            assert isinstance(one, int)
            if model.steps:
                gone = list(model.steps)[one % len(model.steps)]
                for user in graph.dependents_last_first(gone):
                    graph.remove(user.leaf)
                    model.remove(user.leaf)
                graph.remove(gone)
                model.remove(gone)
        else:
            assert isinstance(one, list)
            assert isinstance(other, list)
            inputs = [reference for reference in one if reference[0] < next_index]
            reads = [reference for reference in other if reference[0] < next_index]
            step = step_of(next_index, inputs, reads)
            next_index += 1
            if kind == "foreign":
                graph.place_foreign(foreign(step), 900)
            elif not graph.conflicts(step):
                graph.place(step)
            else:
                continue
            model.place(step)
        check(graph, model)


@given(references, references)
def test_conflict_is_spending_or_reading_what_is_spent(inputs: list[Reference], reads: list[Reference]) -> None:
    graph = Graph()
    graph.place(step_of(0))
    graph.place(step_of(1, [(0, 0), (-1, 0)]))
    spent = {(0, 0), (-1, 0)}
    candidate = step_of(LEAVES + 1, inputs, reads)
    assert graph.conflicts(candidate) == bool(spent & {*inputs, *reads})


def test_transition_that_spends_one_state_twice_conflicts_with_itself() -> None:
    graph = Graph()
    assert graph.conflicts(step_of(1, [(-1, 0), (-1, 0)]))
    assert not graph.conflicts(step_of(1, [(-1, 0), (-1, 1)]))


def test_transition_that_is_placed_already_conflicts() -> None:
    graph = Graph()
    graph.place(step_of(1))
    assert graph.conflicts(step_of(1))


def test_reading_does_not_lock() -> None:
    graph = Graph()
    graph.place(step_of(1, reads=[(-1, 0)]))
    assert graph.snapshot(A).locks == ()
    assert not graph.conflicts(step_of(2, inputs=[(-1, 0)]))


def test_leaf_is_placed_once() -> None:
    graph = Graph()
    graph.place(step_of(1))
    with pytest.raises(AssertionError, match="placed once"):
        graph.place(step_of(1))


def test_foreign_transition_that_is_known_already_is_not_placed_again() -> None:
    graph = Graph()
    graph.place(step_of(1))
    graph.place_foreign(foreign(step_of(1)), 900)
    assert graph.foreign() == ()
    assert graph.placed[leaf(1)].point is None


def test_foreign_transition_is_known_by_its_flush_point_until_it_is_removed() -> None:
    graph = Graph()
    handed = foreign(step_of(1, [(-1, 0)]))
    graph.place_foreign(handed, 900)
    assert [placed.point for placed in graph.foreign()] == [handed.point]
    graph.remove(handed.transition.leaf)
    assert graph.foreign() == ()
    assert graph.snapshot(A).locks == ()


def test_state_is_offered_again_when_its_spender_goes() -> None:
    graph = Graph()
    graph.place(step_of(0))
    graph.place(step_of(1, [(0, 1)]))
    assert made(0, 1) not in graph.snapshot(A).states
    graph.remove(leaf(1))
    assert graph.snapshot(A).states == (made(0, 0), made(0, 1))


def test_state_whose_maker_is_gone_is_not_offered_when_its_spender_goes() -> None:
    graph = Graph()
    graph.place(step_of(0))
    graph.place(step_of(1, [(0, 0)]))
    graph.remove(leaf(0))
    graph.remove(leaf(1))
    assert graph.snapshot(A).states == ()


def test_lock_of_a_state_that_two_spend_goes_with_the_first_alone() -> None:
    graph = Graph()
    graph.place_foreign(foreign(step_of(1, [(-1, 0)])), 900)
    graph.place_foreign(foreign(step_of(2, [(-1, 0)])), 900)
    graph.remove(leaf(2))
    assert graph.snapshot(A).locks == (StateId(GROUND, 0),)
    graph.remove(leaf(1))
    assert graph.snapshot(A).locks == ()


def test_state_that_was_spent_before_its_maker_was_handed_over_is_not_offered() -> None:
    graph = Graph()
    graph.place_foreign(foreign(step_of(2, [(1, 0)])), 900)
    graph.place_foreign(foreign(step_of(1)), 900)
    assert graph.snapshot(A).states == (*step_of(2).outputs, made(1, 1))


def test_one_that_spends_and_reads_of_one_maker_leaves_no_edge_behind() -> None:
    graph = Graph()
    graph.place(step_of(0))
    graph.place(step_of(1, [(0, 0)], [(0, 1)]))
    graph.remove(leaf(1))
    assert graph.direct_users(leaf(0)) == ()
    assert graph.dependents_last_first(leaf(0)) == ()


def test_dependents_come_in_reset_order_the_last_assembled_first() -> None:
    graph = Graph()
    graph.place(step_of(0))
    graph.place(step_of(1, [(0, 0)]))
    graph.place(step_of(2, [(0, 1)]))
    graph.place(step_of(3, [(1, 0)], [(2, 0)]))
    graph.place(step_of(4))
    assert [placed.leaf for placed in graph.dependents_last_first(leaf(0))] == [leaf(3), leaf(2), leaf(1)]


def test_withdrawn_transition_keeps_its_locks_but_offers_nothing() -> None:
    graph = Graph()
    graph.place(step_of(0, [(-1, 0)]))
    graph.withdraw(leaf(0))
    assert graph.snapshot(A).states == ()
    assert graph.snapshot(A).locks == (StateId(GROUND, 0),)


def test_snapshot_shows_a_states_bytes_only_to_nodes_on_its_list() -> None:
    graph = Graph()
    graph.place(step_of(0))
    assert all(state.content == b"bytes" for state in graph.snapshot(A).states)
    assert [state.content for state in graph.snapshot(B).states] == [None, None]
    assert [state.id for state in graph.snapshot(B).states] == [state.id for state in graph.snapshot(A).states]


def test_snapshot_has_what_was_spent_since_and_not_seen_as_far_as_there_is_room() -> None:
    graph = Graph()
    for each in (step_of(0), step_of(1, [(0, 0)]), step_of(2, [(1, 0)])):
        graph.place(each)
    offered = graph.snapshot(A).states
    room = sum(state_bytes(state) for state in (*offered, made(0, 0), made(1, 0)))
    unseen = (leaf(0), leaf(1))
    assert graph.snapshot(A, unseen=unseen, bytes_max=room).states == (*offered, made(0, 0), made(1, 0))
    assert graph.snapshot(A, unseen=unseen, bytes_max=room - 1).states == (*offered, made(0, 0))
    assert graph.snapshot(A, unseen=(leaf(1),), bytes_max=room).states == (*offered, made(1, 0))
    assert graph.snapshot(A, unseen=unseen, bytes_max=room).locks == graph.snapshot(A).locks
    # Whoever may not see it has no use for it.
    assert graph.snapshot(B, unseen=unseen, bytes_max=room).states == graph.snapshot(B).states


def test_spenders_of_handed_over_locks_are_found_readers_included_but_not_the_transition_itself() -> None:
    graph = Graph()
    graph.place(step_of(0, [(-1, 0)]))
    graph.place(step_of(1, reads=[(-1, 1)]))
    graph.place(step_of(2, [(0, 0)]))
    locks = (StateId(GROUND, 0), StateId(GROUND, 1))
    assert graph.spenders_among(locks, but=leaf(9)) == (leaf(0), leaf(1))
    assert graph.spenders_among(locks, but=leaf(0)) == (leaf(1),)


def test_placed_transition_remembers_what_was_placed() -> None:
    graph = Graph()
    step = replace(step_of(3, [(-1, 0)], [(-1, 1)]), info=(b"told",))
    graph.place(step)
    placed = graph.placed[step.leaf]
    assert (placed.intent, placed.inputs, placed.reads, placed.outputs) == (
        step.intent,
        step.inputs,
        step.reads,
        step.outputs,
    )


def test_node_that_is_on_no_list_still_learns_every_lock() -> None:
    graph = Graph()
    graph.place(step_of(0, [(-1, 0)]))
    assert graph.snapshot(NodeName("stranger")).locks == graph.snapshot(A).locks


def test_snapshot_has_no_more_spent_states_than_one_message_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = Graph()
    for each in (step_of(0), step_of(1, [(0, 0)]), step_of(2, [(1, 0)])):
        graph.place(each)
    unseen, offered = (leaf(0), leaf(1)), graph.snapshot(A).states
    whole = graph.snapshot(A, unseen=unseen, bytes_max=1_000_000).states
    assert len(whole) == len(offered) + 2
    monkeypatch.setattr(graph_module, "SNAPSHOT_STATES_MAX", len(offered) + 1)
    assert graph.snapshot(A, unseen=unseen, bytes_max=1_000_000).states == whole[:-1]
