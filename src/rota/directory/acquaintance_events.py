"""What a node is told about contracts that it lacks, or that others lack (decision 32); each says who raises it."""

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

    False is what the chain does not say, and so nobody who is honest; the rest is only not for this node. One that
    the chain has and that our operator has to agree to comes with the deployment's id and the genesis.
    """

    contract: ContractAddress
    peer: NodeName
    verdict: Verdict
    is_false: bool = False
    deployment: IntentId | None = None
    genesis: bytes = b""


@dataclass(frozen=True, slots=True)
class AnswerOverdue(Event):
    """Raised by a timer: nobody has told what this contract is."""

    contract: ContractAddress


@dataclass(frozen=True, slots=True)
class ListDue(Event):
    """Raised by a timer: a peer has not said which contracts it has for us."""

    peer: NodeName


@dataclass(frozen=True, slots=True)
class PauseEnded(Event):
    """Raised by a timer: the chain may be there again, and what is wanted of this peer is asked for."""

    peer: NodeName
