"""What deployments, proposals and the search for contracts order, and their records."""

from __future__ import annotations

from rota.directory.consent import Decision
from rota.machine.effects import Effect, Record
from rota.model.frozen import dataclass
from rota.model.types import ContractAddress, IntentId, KnownContract, NodeName, RequestId


@dataclass(frozen=True, slots=True)
class JudgeProposal(Effect):
    """Would this node have this contract, and with which address would it endorse? Told as `ProposalJudged`.

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
    """Have the factory deploy this contract, unless it has used the id already; told as `FactoryCalled` or refused.

    Calling it again changes nothing: a deployment's id is used once. Of a `ledger` that is not the factory's own,
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
    """Which of our contracts are open to this peer, in the order of their addresses, after this one? `ContractsListed`.

    At most `CONTRACTS_LISTED_MAX`.
    """

    peer: NodeName
    request_id: RequestId
    after: ContractAddress


@dataclass(frozen=True, slots=True)
class SiftContracts(Effect):
    """Which of these contracts, that a peer says we may have, do we lack? Told as `ContractsSifted`."""

    peer: NodeName
    contracts: tuple[ContractAddress, ...]


@dataclass(frozen=True, slots=True)
class FindGenesis(Effect):
    """A peer wants to know what this contract is. Told as `GenesisFound` if we have it."""

    contract: ContractAddress
    peer: NodeName
    request_id: RequestId


@dataclass(frozen=True, slots=True)
class AcquireContract(Effect):
    """Have this contract from now on, if the chain says that it was deployed so. Told as `AcquisitionEnded`.

    Without `has_consent` it is only verified: our operator has not agreed to the part that it gives to this node.
    """

    contract: ContractAddress
    peer: NodeName
    deployment: IntentId
    genesis: bytes
    has_consent: bool = True


@dataclass(frozen=True, slots=True)
class ContractWanted(Effect):
    """Our operator has agreed to a contract of which this peer told us: to the node, which asks the peer again."""

    contract: ContractAddress
    peer: NodeName


@dataclass(frozen=True, slots=True)
class TakeInContract(Effect):
    """From now on this node has this contract, which is in its store: look for its rounds, and host it."""

    known: KnownContract


# Records of deployments.


@dataclass(frozen=True, slots=True)
class DeploymentAgreed(Record):
    """Agreed (deployer): all know who signs. Then the factory is called, with these addresses and no others."""

    deployment: IntentId
    signers: tuple[ContractAddress, ...]


@dataclass(frozen=True, slots=True)
class Proposal:
    """A contract that a peer wants us to have, and with which address we endorse in it, if we do.

    `request_id` is the latest by which it was proposed, `signers` are there when all endorsers have said theirs.
    `received_at_s` is chain time: it is forgotten by age. `decision` is what our operator said to it, who was asked at
    `asked_at_s` of chain time and may have given a reason. `contract` is set when it is on the chain already and the
    peer only told us of it. The endorser's address is told to nobody before the operator has agreed.
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
    """Proposed, or decided by the operator (member): then the answer leaves."""

    proposal: Proposal


@dataclass(frozen=True, slots=True)
class ProposalForgotten(Record):
    """Withdrawn by its proposer, or too old."""

    peer: NodeName
    deployment: IntentId


@dataclass(frozen=True, slots=True)
class ContractTaken(Record):
    """The chain has a contract that was proposed to us or by us: durable with the block that says so."""

    known: KnownContract
