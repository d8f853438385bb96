"""States of a deployment of this node's own (decision 61)."""

from __future__ import annotations

from enum import Enum

from rota.directory.effects import Proposal
from rota.model.blocks import FactoryDeployment
from rota.model.frozen import dataclass
from rota.model.types import ContractAddress, IntentId


class State(Enum):
    """The progress of a deployment."""

    WAITING = "Waiting"
    PROPOSING = "Proposing"
    AGREEING = "Agreeing"
    CALLING = "Calling"
    DEPLOYED = "Deployed"
    SPREADING = "Spreading"
    FINAL = "Final"

    # Each state exists once, so its address identifies it; Enum would hash the name at every table look-up.
    __hash__ = object.__hash__


# In these states nothing can be on the chain: the user can still cancel.
UNAGREED = (State.WAITING, State.PROPOSING, State.AGREEING)
ASKING = (State.PROPOSING, State.AGREEING)


@dataclass(frozen=True, slots=True)
class StoredDeployments:
    """The stored facts about deployments; those of our own users are unfinished intents of `NO_CONTRACT`.

    `agreed` has the signers of those for which the factory may have been called, `deployed` the deployments in final
    blocks under the ids of unfinished ones, `proposals` the contracts that others propose, and `undone` those that had
    ended before the chain took back their final blocks.
    """

    agreed: tuple[tuple[IntentId, tuple[ContractAddress, ...]], ...] = ()
    deployed: tuple[FactoryDeployment, ...] = ()
    proposals: tuple[Proposal, ...] = ()
    undone: tuple[IntentId, ...] = ()
