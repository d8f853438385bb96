"""Effects and records of deployments, proposals and contract discovery."""

from __future__ import annotations

from rota.directory.consent import Decision
from rota.machine.effects import Effect, Record
from rota.model.frozen import dataclass
from rota.model.types import ContractAddress, IntentId, KnownContract, NodeName, RequestId


@dataclass(frozen=True, slots=True)
class JudgeProposal(Effect):
    """Have the domain judge this contract and name the endorsement address; `ProposalJudged` answers.

    `peer` proposes it; it may be our own node. With `signers` it is to be judged with those of all endorsers.
    """

    peer: NodeName
    request_id: RequestId
    deployment: IntentId
    genesis: bytes
    factory: ContractAddress
    signers: tuple[ContractAddress, ...] = ()


@dataclass(frozen=True, slots=True)
class CallFactory(Effect):
    """Have the factory deploy this contract, unless it has used the id already. See `FactoryCalled`, `FactoryRefused`.

    Calling it again changes nothing: a deployment's id is used once. For a `ledger` that is not the factory's own,
    `domain` and `configuration` lead to its code.
    """

    deployment: IntentId
    genesis: bytes
    signers: tuple[ContractAddress, ...]
    threshold: int
    ledger: bytes = b""
    domain: str = ""
    configuration: bytes = b""


@dataclass(frozen=True, slots=True)
class ListContracts(Effect):
    """List our contracts that are open to this peer, in the order of addresses, after this one. See `ContractsListed`.

    At most `CONTRACTS_LISTED_MAX`.
    """

    peer: NodeName
    request_id: RequestId
    after: ContractAddress


@dataclass(frozen=True, slots=True)
class SiftContracts(Effect):
    """Find those of a peer's listed contracts that this node lacks; `ContractsSifted` answers."""

    peer: NodeName
    contracts: tuple[ContractAddress, ...]


@dataclass(frozen=True, slots=True)
class FindGenesis(Effect):
    """Find the genesis of this contract for a peer; `GenesisFound` answers if this node has it."""

    contract: ContractAddress
    peer: NodeName
    request_id: RequestId


@dataclass(frozen=True, slots=True)
class AcquireContract(Effect):
    """Take this contract in if the chain has it deployed in this way; `AcquisitionEnded` answers.

    Without `has_consent` it is only verified: our operator has not agreed to the part that it gives to this node.
    """

    contract: ContractAddress
    peer: NodeName
    deployment: IntentId
    genesis: bytes
    has_consent: bool = True


@dataclass(frozen=True, slots=True)
class ContractWanted(Effect):
    """Our operator has agreed to a contract that this peer reported: the node asks the peer again."""

    contract: ContractAddress
    peer: NodeName


@dataclass(frozen=True, slots=True)
class TakeInContract(Effect):
    """This node has this contract, which is in its store, from now on: look for its rounds, and host it."""

    known: KnownContract


# Records of deployments.


@dataclass(frozen=True, slots=True)
class DeploymentAgreed(Record):
    """Agreed (deployer): all have the signers. The factory is called after that, with these addresses and no others."""

    deployment: IntentId
    signers: tuple[ContractAddress, ...]


@dataclass(frozen=True, slots=True)
class Proposal:
    """A contract that a peer proposes, with our endorsement address if we endorse in it.

    `request_id` is that of its latest request, `signers` are set when all endorsers have named theirs.
    `received_at_s` is chain time, from which it expires. `decision` is our operator's, who was asked at
    `asked_at_s` of chain time and may have given a reason. `contract` is set when it is on the chain already and the
    peer only reported it. The endorser's address is given to no peer before the operator has agreed.
    """

    peer: NodeName
    deployment: IntentId
    genesis: bytes
    request_id: RequestId
    received_at_s: int
    endorser: ContractAddress | None = None
    signers: tuple[ContractAddress, ...] = ()
    decision: Decision = Decision.GIVEN
    asked_at_s: int = 0
    reason: str = ""
    contract: ContractAddress | None = None


@dataclass(frozen=True, slots=True)
class DeploymentProposed(Record):
    """Proposed, or decided by the operator (member): recorded before the answer leaves."""

    proposal: Proposal


@dataclass(frozen=True, slots=True)
class ProposalForgotten(Record):
    """Withdrawn by its proposer, or too old."""

    peer: NodeName
    deployment: IntentId


@dataclass(frozen=True, slots=True)
class ContractTaken(Record):
    """The chain has a contract that was proposed to us or by us: durable with the block that has it."""

    known: KnownContract
