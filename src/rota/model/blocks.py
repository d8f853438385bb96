"""Blocks of the base ledger, as far as they concern a node, and the outcomes of transitions in them."""

from __future__ import annotations

from dataclasses import field
from enum import Enum

from rota.model.frozen import dataclass
from rota.model.types import SHARED_ACCOUNT, BlockHash, CallFailure, ContractAddress, Digest, IntentId, Leaf, StateId

# From the node's chain index.


class LedgerStatus(Enum):
    """The ledger's result for one transition of a base-ledger transaction."""

    COMMITTED = "committed"
    SKIPPED = "skipped"
    REVERTED = "reverted"


@dataclass(frozen=True, slots=True)
class LedgerOutcome:
    """One transition's outcome as indexed. `is_contention` classifies a failure (§4.2); `failure` names a failed call.

    `inputs` are the states that a committed one has spent; `transaction` is the hash of the base-ledger transaction
    that it was in, when that is known. The place of its event in the block is only shown.
    """

    intent: IntentId
    leaf: Leaf
    digest: Digest
    status: LedgerStatus
    reason: str = ""
    is_contention: bool = False
    inputs: tuple[StateId, ...] = ()
    transaction: bytes = b""
    transaction_index: int | None = field(default=None, compare=False)
    log_index: int | None = field(default=None, compare=False)
    failure: CallFailure | None = None

    @property
    def is_counted(self) -> bool:
        """Whether a call of it failed, without contention and without a revert of its whole transaction."""
        return self.status is LedgerStatus.SKIPPED and not self.is_contention


Outcomes = tuple[tuple[ContractAddress, LedgerOutcome], ...]


class MinedStatus(Enum):
    """The use of one of this node's nonces."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    TAKEN = "taken"


@dataclass(frozen=True, slots=True)
class MinedTransaction:
    """A nonce of an account of this node that a block used: for our transaction or, when taken, for another one.

    The cost of our transaction is set where the ledger reports it; nothing is decided by it.
    """

    nonce: int
    status: MinedStatus
    reason: str = ""
    gas_used: int | None = field(default=None, compare=False)
    account: ContractAddress = SHARED_ACCOUNT


@dataclass(frozen=True, slots=True)
class FactoryDeployment:
    """A contract as the factory's event shows it; `genesis` is the hash of it.

    Where transitions are proved, the one endorser is the issuer, the threshold is 0 and `ledger` identifies the code.
    The place of the event on the chain is only shown.
    """

    intent: IntentId
    contract: ContractAddress
    genesis: bytes
    endorsers: tuple[ContractAddress, ...]
    threshold: int
    transaction: bytes = field(default=b"", compare=False)
    transaction_index: int | None = field(default=None, compare=False)
    log_index: int | None = field(default=None, compare=False)
    ledger: bytes = b""


@dataclass(frozen=True, slots=True)
class ChainBlock:
    """A block as far as it concerns this node: its place, its effects on our contracts, and our own nonces in it.

    `deployments` are those under the ids that were requested with its `FetchBlocks`.
    """

    height: int
    hash: BlockHash
    parent: BlockHash
    time_s: int
    outcomes: Outcomes = ()
    mined: tuple[MinedTransaction, ...] = ()
    deployments: tuple[FactoryDeployment, ...] = ()
