"""Events of a deployment at the node whose user requested it (decision 61); each names its source."""

from __future__ import annotations

from rota.machine.tables import Event
from rota.model.awaited import REVERTED
from rota.model.blocks import FactoryDeployment
from rota.model.frozen import dataclass
from rota.model.types import ContractAddress, Dependency, IntentId, NodeName, Outcome, RequestId
from rota.wire.messages import Verdict


@dataclass(frozen=True, slots=True)
class Begun(Event):
    """Raised by the node's deployments when this one is durable, or was loaded after a restart."""


@dataclass(frozen=True, slots=True)
class DependencyEnded(Event):
    """Raised by the node when a transaction that this one depends on has its outcome."""

    dependency: Dependency
    outcome: Outcome
    reason: str = REVERTED


@dataclass(frozen=True, slots=True)
class AnswerReceived(Event):
    """Raised by the node's deployments when a node, our own included, answers whether it will have the contract."""

    peer: NodeName
    request_id: RequestId
    verdict: Verdict
    endorser: ContractAddress | None = None
    reason: str = ""
    asked_since_s: int = 0


@dataclass(frozen=True, slots=True)
class RepeatDue(Event):
    """Raised by a timer: nodes that have not answered are asked again."""


@dataclass(frozen=True, slots=True)
class InvitationsEnded(Event):
    """Raised by a timer: invited nodes that have not answered are no longer waited for."""


@dataclass(frozen=True, slots=True)
class PeerBack(Event):
    """Raised by the node's deployments when a connection is made."""

    peer: NodeName


@dataclass(frozen=True, slots=True)
class PeerGone(Event):
    """Raised by the node's deployments when a connection is lost."""

    peer: NodeName


@dataclass(frozen=True, slots=True)
class AllAgreed(Event):
    """Raised by Agreeing itself: no other node needs the signers."""


@dataclass(frozen=True, slots=True)
class FactoryCalled(Event):
    """Raised by `service.contracts.deploying` when a call of the factory is mined, or failed before (`trouble`)."""

    deployment: IntentId
    trouble: str = ""


@dataclass(frozen=True, slots=True)
class FactoryRefused(Event):
    """Raised by `service.contracts.deploying` when the factory will never accept the call from any caller."""

    deployment: IntentId
    reason: str


@dataclass(frozen=True, slots=True)
class CallDue(Event):
    """Raised by a timer: the factory is called again."""


@dataclass(frozen=True, slots=True)
class DeploymentSeen(Event):
    """Raised by the node when its index has a deployment under this id, ours or not."""

    deployed: FactoryDeployment


@dataclass(frozen=True, slots=True)
class DeploymentUndone(Event):
    """Raised by the node when a reorganisation took a deployment under this id from its index."""

    deployed: FactoryDeployment


@dataclass(frozen=True, slots=True)
class DeploymentFinal(Event):
    """Raised by the node when a deployment under this id is in a final block, or was when the node started."""

    deployed: FactoryDeployment


@dataclass(frozen=True, slots=True)
class TakenInReceived(Event):
    """Raised by the node's deployments when a node reports that it has the contract."""

    peer: NodeName


@dataclass(frozen=True, slots=True)
class SpreadEnded(Event):
    """Raised by a timer: the other nodes are no longer waited for."""


@dataclass(frozen=True, slots=True)
class CancelAsked(Event):
    """Raised by the user."""

    reply_to: str


@dataclass(frozen=True, slots=True)
class ProposalJudged(Event):
    """The answer to `JudgeProposal`."""

    peer: NodeName
    request_id: RequestId
    deployment: IntentId
    verdict: Verdict
    endorser: ContractAddress | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ProposalDecided(Event):
    """Our operator accepts or refuses a peer's proposal, with an optional reason; answered by `ReplyToUser`."""

    reply_to: str
    peer: NodeName
    deployment: IntentId
    is_given: bool
    reason: str = ""
