"""Which private states a node of the simulated world can look into: those whose bytes are on its disk.

A node's index knows of every state that it is there, because the base ledger says so; what is in it only those know who
were told. What a node has dispatched, was sent, has signed or has prepared is on its disk.
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
    """The states whose bytes a disk holds, and those that the node's index knows as spent."""

    held: set[StateId] = field(default_factory=set)
    spent: set[StateId] = field(default_factory=set)

    def note(self, record: Record) -> None:
        """What is in a record that is durable now."""
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
        """What an endorser needs to judge the round, may see, and does not have; what is spent it need not judge."""
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
