"""Questions to a domain as values: a node may have them answered in another process.

Where users supply code (`Domain.runs_code`), that code determines how long an answer takes. A node has such questions
answered in another process (`Elsewhere`); simulations and tests answer them in place.
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
    """A slot to assemble, a round to judge or a user's question, with the node's background for it."""

    question: AssembleIntents | CheckRound | UserCall
    verifiers: Mapping[Party, str] = field(default_factory=dict)
    reserves: Mapping[Party, Reserve] = field(default_factory=dict)
    call_gas: CallGas = field(default_factory=dict)
    roster: Roster | None = None


def answering(
    hosted: Hosted, asked: Asked, held: Held, node: NodeName, recall: Callable[[StateId], State | None]
) -> Generator[None, None, object]:
    """The answer, in steps: one for each transition of a round, one for any other question."""
    background = Background(recall, asked.verifiers, asked.reserves, asked.call_gas, asked.roster)
    match asked.question:
        case AssembleIntents() as order:
            return assemble(hosted, order, held, node, background)
        case CheckRound() as order:
            return (yield from checking(hosted, order, held, node, background))
        case UserCall() as user_call:
            return call(hosted, user_call, held, node, background)


class Elsewhere(Protocol):
    """Answers in another process. All methods raise `ports.Unavailable` when that is not possible now."""

    @property
    def ended_count(self) -> int:
        """How many processes ended in the middle of an answer."""
        ...

    async def assemble(self, hosted: Hosted, asked: Asked) -> Assembled:
        """Assemble a slot of this node's own parties."""
        ...

    async def check(self, hosted: Hosted, asked: Asked) -> Checked:
        """Judge a round that a peer asks to endorse. Transitions over a budget are among the failures."""
        ...

    async def call(self, hosted: Hosted, asked: Asked) -> object:
        """Answer a question of this node's own users. `Rejected` names the field."""
        ...
