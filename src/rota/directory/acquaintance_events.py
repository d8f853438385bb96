"""Events about contracts that this node, or another one, lacks (decision 32); each names its source."""

from __future__ import annotations

from rota.machine.tables import Event
from rota.model.frozen import dataclass
from rota.model.types import ContractAddress, IntentId, KnownContract, NodeName, RequestId
from rota.wire.messages import Verdict


@dataclass(frozen=True, slots=True)
class ContractsListed(Event):
    """The runtime's answer to `ListContracts`."""

    peer: NodeName
    request_id: RequestId
    contracts: tuple[ContractAddress, ...]


@dataclass(frozen=True, slots=True)
class ContractsSifted(Event):
    """The runtime's answer to `SiftContracts`: those that this node does not have."""

    peer: NodeName
    contracts: tuple[ContractAddress, ...]


@dataclass(frozen=True, slots=True)
class GenesisFound(Event):
    """The runtime's answer to `FindGenesis`, when the node has the contract."""

    peer: NodeName
    request_id: RequestId
    known: KnownContract


@dataclass(frozen=True, slots=True)
class AcquisitionEnded(Event):
    """The runtime's answer to `AcquireContract`: the node has it, or will not have it, or cannot find out now.

    `is_false`: the chain contradicts the answer, so the peer is not honest; otherwise the contract is only not for this
    node. One that the chain has and that needs our operator's consent comes with the deployment's id and the genesis.
    """

    contract: ContractAddress
    peer: NodeName
    verdict: Verdict
    is_false: bool = False
    deployment: IntentId | None = None
    genesis: bytes = b""


@dataclass(frozen=True, slots=True)
class AnswerOverdue(Event):
    """Raised by a timer: the peer has not answered the request for this genesis."""

    contract: ContractAddress


@dataclass(frozen=True, slots=True)
class ListDue(Event):
    """Raised by a timer: a peer has not answered the request for its list."""

    peer: NodeName


@dataclass(frozen=True, slots=True)
class PauseEnded(Event):
    """Raised by a timer: a pause of requests to this peer is over, and the chain may be there again."""

    peer: NodeName
