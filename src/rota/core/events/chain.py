"""What a node is told of the chain: where it stands, its blocks, and what becomes of our transactions there."""

from __future__ import annotations

from dataclasses import field
from enum import Enum

from rota.core.events import LedgerOutcome
from rota.core.machine import Event
from rota.frozen import dataclass
from rota.types import BlockHash, ContractAddress, Digest, Fees, IntentId

Outcomes = tuple[tuple[ContractAddress, LedgerOutcome], ...]


class MinedStatus(Enum):
    """What became of one of our nonces."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    TAKEN = "taken"


@dataclass(frozen=True, slots=True)
class MinedTransaction:
    """A nonce of this node's own that a block used: for our transaction, or, when it is taken, for a stranger's.

    What our transaction cost is told where the ledger tells it; nothing is decided by it.
    """

    nonce: int
    status: MinedStatus
    reason: str = ""
    gas_used: int | None = field(default=None, compare=False)


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


@dataclass(frozen=True, slots=True)
class HeadSeen(Event):
    """The chain's latest block, told at every new one and again at every poll, changed or not."""

    height: int
    hash: BlockHash
    base_fee_wei: int = 0


@dataclass(frozen=True, slots=True)
class BlocksFetched(Event):
    """The answer to `FetchBlocks`: blocks of one chain in ascending order.

    Those between two of them did nothing that concerns us; the first asked for and the last are always there.
    """

    blocks: tuple[ChainBlock, ...]


@dataclass(frozen=True, slots=True)
class DispatchSigned(Event):
    """The base-ledger transaction of this round was signed for this nonce, at these fees."""

    nonce: int
    fees: Fees
    transaction: bytes
    hash: bytes
    digest: Digest


@dataclass(frozen=True, slots=True)
class DispatchNotSigned(Event):
    """The signer failed; it is asked again later."""

    nonce: int
    fees: Fees
    reason: str
    digest: Digest


@dataclass(frozen=True, slots=True)
class TransactionSent(Event):
    """The chain took a base-ledger transaction of ours into its pool, or has it already."""

    nonce: int


class Objection(Enum):
    """Why a chain does not take a transaction."""

    NONCE_TOO_LOW = "nonce too low"
    UNDERPRICED = "underpriced"
    NO_FUNDS = "insufficient funds"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class TransactionRefused(Event):
    """The chain did not take a base-ledger transaction of ours."""

    nonce: int
    objection: Objection
    reason: str


@dataclass(frozen=True, slots=True)
class AccountSeen(Event):
    """The next nonce of our signing address, by the chain's word, when this node started."""

    next_nonce: int
