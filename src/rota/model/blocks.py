"""Blocks of the base ledger as far as they concern a node, and the outcomes of transitions in them."""

from __future__ import annotations

from dataclasses import field
from enum import Enum

from rota.model.frozen import dataclass
from rota.model.types import SHARED_ACCOUNT, BlockHash, CallFailure, ContractAddress, Digest, IntentId, Leaf, StateId

# From the node's chain index.


class LedgerStatus(Enum):
    """What the ledger made of one transition of a base-ledger transaction."""

    COMMITTED = "committed"
    SKIPPED = "skipped"
    REVERTED = "reverted"


@dataclass(frozen=True, slots=True)
class LedgerOutcome:
    """One transition's outcome as indexed. `is_contention` classifies a failure (§4.2); `failure` names a failed call.

    `inputs` are the states that a committed one has spent; `transaction` is the hash of the base-ledger transaction
    that it was in, when that is known. Where in its block the ledger told of it is only shown.
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
        """A call of the transition failed: nobody else was first, and its transaction did not revert as a whole."""
        return self.status is LedgerStatus.SKIPPED and not self.is_contention


Outcomes = tuple[tuple[ContractAddress, LedgerOutcome], ...]


class MinedStatus(Enum):
    """What became of one of our nonces."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    TAKEN = "taken"


@dataclass(frozen=True, slots=True)
class MinedTransaction:
    """A nonce of an account of this node that a block used: for our transaction, or, when it is taken, a stranger's.

    What our transaction cost is told where the ledger tells it; nothing is decided by it.
    """

    nonce: int
    status: MinedStatus
    reason: str = ""
    gas_used: int | None = field(default=None, compare=False)
    account: ContractAddress = SHARED_ACCOUNT


@dataclass(frozen=True, slots=True)
class FactoryDeployment:
    """A contract as the factory told of it; `genesis` is the hash of it.

    Where transitions are proved, the one endorser is the issuer, the threshold is 0 and `ledger` says which code it is.
    Where on the chain it was told is only shown.
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
    """A block as far as it concerns us: its place, what it did to our contracts, and our own nonces in it.

    `deployments` are those under the ids that we asked for with its `FetchBlocks`.
    """

    height: int
    hash: BlockHash
    parent: BlockHash
    time_s: int
    outcomes: Outcomes = ()
    mined: tuple[MinedTransaction, ...] = ()
    deployments: tuple[FactoryDeployment, ...] = ()
