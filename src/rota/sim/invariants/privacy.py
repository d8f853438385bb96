"""Whom an endorser signs for, and who sees private states."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rota.core.effects import LeavesSigned, RoundDispatch, StatesReceived, TransitionIssued, TransitionPrepared
from rota.messages import (
    AssembleRequest,
    AssembleResponse,
    DispatchConfirmationRequest,
    EndorsementRequest,
    Handover,
    PreparedTransaction,
    StateDistribution,
)
from rota.sim.facts import Assembled, Endorsed, Recorded, Sent, Stopped
from rota.sim.invariants.judge import Handler, Invariant
from rota.types import ContractAddress, Digest, Leaf, Mode, NodeName, State, StateId, Transition


class OneCoordinatorAtATime(Invariant):
    """S6: an honest endorser, within one life of its process, signs for one coordinator at a time."""

    name = "S6"
    hears_of_liars = (EndorsementRequest,)

    def hears(self) -> Mapping[type[Any], Handler]:
        """What is to be endorsed, and what is signed."""
        self.inputs: dict[tuple[ContractAddress, Digest], tuple[StateId, ...]] = {}
        self.signed_away: dict[NodeName, dict[tuple[ContractAddress, StateId], NodeName]] = {}
        return {EndorsementRequest: self._requested, Endorsed: self._endorsed, Stopped: self._stopped}

    def _requested(self, fact: Sent) -> None:
        body = fact.envelope.body
        assert isinstance(body, EndorsementRequest)
        key = (fact.envelope.contract, body.digest)
        if key not in self.inputs:
            self.inputs[key] = tuple(state for transition in body.transitions for state in transition.inputs)

    def _stopped(self, fact: Stopped) -> None:
        self.signed_away.pop(fact.node, None)

    def _endorsed(self, fact: Endorsed) -> None:
        """It signs away for a second one a state that it signed away for the first only after accepting the second."""
        if self.terms.contracts[fact.contract].mode is Mode.SENDER:
            return
        signed_away = self.signed_away.setdefault(fact.node, {})
        has_accepted = fact.follows == fact.coordinator
        for state in self.inputs.get((fact.contract, fact.digest), ()):
            first = signed_away.setdefault((fact.contract, state), fact.coordinator)
            if first != fact.coordinator and not has_accepted:
                words = f"for {fact.coordinator} a state that it signed away for {first}, and follows {fact.follows}"
                self.accuse(f"{fact.node} signed away {words}")
            signed_away[(fact.contract, state)] = fact.coordinator
        if not has_accepted:
            self.accuse(f"{fact.node} signed for {fact.coordinator} while it followed {fact.follows}")


class StatesStayWithTheirParties(Invariant):
    """S8: a private state's bytes reach no node outside its distribution list, on no wire and no disk."""

    name = "S8"
    hears_of_liars = (Assembled,)

    def hears(self) -> Mapping[type[Any], Handler]:
        """Whatever carries states. Who may see a state is told by who made it, not by who passes it on."""
        self.lists: dict[StateId, tuple[NodeName, ...]] = {}
        return {
            Assembled: self._assembled,
            Recorded: self._recorded,
            AssembleRequest: self._sent,
            AssembleResponse: self._sent,
            EndorsementRequest: self._sent,
            DispatchConfirmationRequest: self._sent,
            Handover: self._sent,
            StateDistribution: self._sent,
            PreparedTransaction: self._sent,
        }

    def _assembled(self, fact: Assembled) -> None:
        for state in fact.transition.outputs:
            self.lists[state.id] = state.distribution

    def _sent(self, fact: Sent) -> None:
        for state in _states_in(fact.envelope.body):
            if state.content is not None and not self._may_see(fact.peer, state):
                kind = type(fact.envelope.body).__name__
                self.accuse(f"{fact.node} sent {_name(state)} to {fact.peer}, who may not see it, in a {kind}")

    def _recorded(self, fact: Recorded) -> None:
        for transition in transitions_in(fact.record):
            for state in transition.outputs:
                if state.content is not None and not self._may_see(fact.node, state):
                    self.accuse(f"{fact.node} has written {_name(state)}, which it may not see")

    def _may_see(self, node: NodeName, state: State) -> bool:
        """What a liar may see, or has made up, it may have given to anybody: no honest node can know the true list."""
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
        case EndorsementRequest() | StateDistribution():
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
