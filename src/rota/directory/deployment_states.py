"""What a deployment of this node's own can be (decision 61)."""

from __future__ import annotations

from enum import Enum

from rota.directory.effects import Proposal
from rota.model.blocks import FactoryDeployment
from rota.model.frozen import dataclass
from rota.model.types import ContractAddress, IntentId


class State(Enum):
    """How far a deployment is."""

    WAITING = "Waiting"
    PROPOSING = "Proposing"
    AGREEING = "Agreeing"
    CALLING = "Calling"
    DEPLOYED = "Deployed"
    SPREADING = "Spreading"
    FINAL = "Final"

    # One of each: its address tells it apart at once, where Enum would hash its name at every look into a table.
    __hash__ = object.__hash__


# Nothing of ours can be on the chain in these: it can still be given up.
UNAGREED = (State.WAITING, State.PROPOSING, State.AGREEING)
ASKING = (State.PROPOSING, State.AGREEING)


@dataclass(frozen=True, slots=True)
class StoredDeployments:
    """What the store remembers of deployments; those of our own users are unfinished intents of `NO_CONTRACT`.

    `agreed` has the signers of those for which the factory may have been called, `deployed` what final blocks have
    under the ids of unfinished ones, `proposals` what others want us to have, and `undone` those that had ended before
    the chain took back their final blocks.
    """

    agreed: tuple[tuple[IntentId, tuple[ContractAddress, ...]], ...] = ()
    deployed: tuple[FactoryDeployment, ...] = ()
    proposals: tuple[Proposal, ...] = ()
    undone: tuple[IntentId, ...] = ()
