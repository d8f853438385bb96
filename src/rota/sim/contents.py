"""The private states that a simulated node can read: those whose bytes are on its disk.

A node's index has every state that the base ledger reports; only nodes that received a state know its content. States
that a node dispatched, received, signed or prepared are on its disk.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from rota.chain.effects import RoundDispatch
from rota.exchange.effects import StatesReceived
from rota.machine.effects import Record, TransitionPrepared
from rota.model.types import NodeName, State, StateId, Transition
from rota.sequencer.effects import CheckRound, LeavesSigned


@dataclass(slots=True)
class Contents:
    """The states whose bytes a disk holds, and those that the node's index has as spent."""

    held: set[StateId] = field(default_factory=set)
    spent: set[StateId] = field(default_factory=set)

    def note(self, record: Record) -> None:
        """Add the states in a durable record."""
        match record:
            case RoundDispatch(order):
                self._hold(order.transitions)
            case StatesReceived(transitions=transitions):
                self._hold(transitions)
            case LeavesSigned(transitions=transitions):
                self._hold(transitions)
            case TransitionPrepared(prepared=prepared):
                self._hold((prepared.transition,))
            case _:
                pass

    def lacked_by(self, node: NodeName, order: CheckRound, unspent: Mapping[StateId, State]) -> tuple[StateId, ...]:
        """The states that an endorser needs for a round, may see, and lacks; spent ones need no judgement."""
        needed = dict.fromkeys(state for each in order.transitions for state in (*each.inputs, *each.reads))
        if not needed:
            return ()
        shown = {state.id for each in (*order.transitions, *order.makers) for state in each.outputs}
        return tuple(
            state
            for state in needed
            if state not in shown
            and state not in self.held
            and state not in self.spent
            and (state not in unspent or node in unspent[state].distribution)
        )

    def _hold(self, transitions: Iterable[Transition]) -> None:
        self.held.update(state.id for each in transitions for state in each.outputs if state.content is not None)
