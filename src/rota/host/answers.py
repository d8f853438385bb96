"""What a domain is asked, as values: a node may have it answered in another process.

A domain whose users bring code of their own (`Domain.runs_code`) decides by what that code does how long an answer
takes. A node has such questions answered elsewhere (`Elsewhere`); simulations and tests answer them in place.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import field
from typing import Protocol, TypeAlias

from rota.domains.base import Reserve, Roster
from rota.host import UserCall, assemble, call
from rota.host.checking import Checked, checking
from rota.host.contracts import Background, CallGas, Held, Hosted
from rota.model.frozen import dataclass
from rota.model.types import NodeName, Party, State, StateId
from rota.sequencer.effects import AssembleIntents, CheckRound
from rota.sequencer.events import AssemblyFailed, AssemblyFinished

Assembled: TypeAlias = list[AssemblyFinished | AssemblyFailed]


@dataclass(frozen=True, slots=True)
class Asked:
    """A slot to assemble, a round to judge or a user's question, with what the node knows for it."""

    question: AssembleIntents | CheckRound | UserCall
    verifiers: Mapping[Party, str] = field(default_factory=dict)
    reserves: Mapping[Party, Reserve] = field(default_factory=dict)
    call_gas: CallGas = field(default_factory=dict)
    roster: Roster | None = None


def answering(
    hosted: Hosted, asked: Asked, held: Held, node: NodeName, recall: Callable[[StateId], State | None]
) -> Generator[None, None, object]:
    """The answer, in steps: one for each transition of a round, one for anything else."""
    background = Background(recall, asked.verifiers, asked.reserves, asked.call_gas, asked.roster)
    match asked.question:
        case AssembleIntents() as order:
            return assemble(hosted, order, held, node, background)
        case CheckRound() as order:
            return (yield from checking(hosted, order, held, node, background))
        case UserCall() as user_call:
            return call(hosted, user_call, held, node, background)


class Elsewhere(Protocol):
    """Answers in another process. All: `ports.Unavailable` when it cannot now."""

    @property
    def ended_count(self) -> int:
        """How many processes ended in the middle of an answer."""
        ...

    async def assemble(self, hosted: Hosted, asked: Asked) -> Assembled:
        """A slot of this node's own parties."""
        ...

    async def check(self, hosted: Hosted, asked: Asked) -> Checked:
        """A round that a peer asks to endorse. What is over a budget is among the failures."""
        ...

    async def call(self, hosted: Hosted, asked: Asked) -> object:
        """A question of this node's own users. `Rejected` names the field."""
        ...
