"""Privacy of states (S8)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rota.chain.effects import RoundDispatch
from rota.exchange.effects import StatesReceived
from rota.machine.effects import TransitionPrepared
from rota.model.types import Leaf, NodeName, State, StateId, Transition
from rota.sequencer.effects import LeavesSigned, TransitionIssued
from rota.sim.facts import Assembled, Recorded, Sent
from rota.sim.invariants.judge import Handler, Invariant
from rota.wire.messages import (
    AssembleRequest,
    AssembleResponse,
    DispatchConfirmationRequest,
    EndorsementRequest,
    Handover,
    Message,
    PreparedTransaction,
    StateDistribution,
)

# All messages in which private states travel.
CARRY_STATES: tuple[type[Message], ...] = (
    AssembleRequest,
    AssembleResponse,
    EndorsementRequest,
    DispatchConfirmationRequest,
    Handover,
    StateDistribution,
    PreparedTransaction,
)


class StatesStayWithTheirParties(Invariant):
    """S8: a private state's bytes reach no node outside its distribution list, on no wire and no disk."""

    name = "S8"
    hears_of_liars = (Assembled,)

    def hears(self) -> Mapping[type[Any], Handler]:
        """Handlers for messages and records that carry states.

        Its maker, not a forwarder, defines who may see a state.
        """
        self.lists: dict[StateId, tuple[NodeName, ...]] = {}
        self.by = {kind.__name__: 0 for kind in CARRY_STATES} | {"disk": 0}
        told: dict[type[Any], Handler] = {Assembled: self._assembled, Recorded: self._recorded}
        return told | dict.fromkeys(CARRY_STATES, self._sent)

    def _assembled(self, fact: Assembled) -> None:
        for state in fact.transition.outputs:
            self.lists[state.id] = state.distribution

    def _sent(self, fact: Sent) -> None:
        kind = type(fact.envelope.body).__name__
        for state in _states_in(fact.envelope.body):
            self.judged += 1
            if self._may_see(fact.peer, state):
                continue
            self.chances += 1
            self.by[kind] += 1
            if state.content is not None:
                self.accuse(f"{fact.node} sent {_name(state)} to {fact.peer}, who may not see it, in a {kind}")

    def _recorded(self, fact: Recorded) -> None:
        for transition in transitions_in(fact.record):
            for state in transition.outputs:
                self.judged += 1
                if self._may_see(fact.node, state):
                    continue
                self.chances += 1
                self.by["disk"] += 1
                if state.content is not None:
                    self.accuse(f"{fact.node} has written {_name(state)}, which it may not see")

    def _may_see(self, node: NodeName, state: State) -> bool:
        """Whether a node may see a state.

        A state that a liar may see or invented may be anywhere: only liars know its list.
        """
        listed = self.lists.get(state.id)
        if self.terms.liars and (listed is None or not self.terms.liars.isdisjoint(listed)):
            return True
        return node in (state.distribution if listed is None else listed)


def _states_in(body: object) -> Iterable[State]:
    match body:
        case AssembleRequest():
            return body.snapshot.states
        case Handover():
            return (state for handed in body.points for state in handed.transition.outputs)
        case AssembleResponse():
            made = (result.transition for result in body.results)
        case PreparedTransaction():
            return body.transition.outputs
        case DispatchConfirmationRequest():
            made = (item.transition for item in body.items)
        case EndorsementRequest():
            made = (transition for transition in (*body.transitions, *body.makers))
        case StateDistribution():
            made = (transition for transition in body.transitions)
        case _:
            raise AssertionError(f"no states are looked for in {type(body).__name__}")
    return (state for transition in made if transition is not None for state in transition.outputs)


def transitions_in(record: object) -> tuple[Transition, ...]:
    """The transitions whose states are in a record."""
    match record:
        case RoundDispatch():
            return record.round.transitions
        case StatesReceived():
            return record.transitions
        case LeavesSigned():
            return record.transitions
        case TransitionPrepared() | TransitionIssued():
            return (record.prepared.transition,)
        case _:
            return ()


def _name(state: State) -> str:
    leaf: Leaf = state.id.leaf
    return f"a state of leaf {leaf.hex()[:8]}"
