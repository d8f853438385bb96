"""Events from the chain: its latest block, fetched blocks, and the results of this node's transactions."""

from __future__ import annotations

from enum import Enum

from rota.chain.effects import RoundDispatch
from rota.machine.tables import Event
from rota.model.blocks import ChainBlock
from rota.model.frozen import dataclass
from rota.model.types import SHARED_ACCOUNT, BlockHash, ContractAddress, Digest, Fees


@dataclass(frozen=True, slots=True)
class HeadSeen(Event):
    """The chain's latest block, reported at every new one and again at every poll, changed or not."""

    height: int
    hash: BlockHash
    base_fee_wei: int = 0


@dataclass(frozen=True, slots=True)
class BlocksFetched(Event):
    """The answer to `FetchBlocks`: blocks of one chain in ascending order.

    Omitted blocks did nothing that concerns this node; the first and last requested ones are always there.
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
    account: ContractAddress = SHARED_ACCOUNT


@dataclass(frozen=True, slots=True)
class DispatchNotSigned(Event):
    """The signer failed and is to be asked again later."""

    nonce: int
    fees: Fees
    reason: str
    digest: Digest
    account: ContractAddress = SHARED_ACCOUNT


@dataclass(frozen=True, slots=True)
class TransactionSent(Event):
    """The chain accepted a base-ledger transaction of this node into its pool, or has it already."""

    nonce: int
    account: ContractAddress = SHARED_ACCOUNT


class Objection(Enum):
    """The reason why a chain does not accept a transaction."""

    NONCE_TOO_LOW = "nonce too low"
    UNDERPRICED = "underpriced"
    NO_FUNDS = "insufficient funds"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class TransactionRefused(Event):
    """The chain did not accept a base-ledger transaction of this node."""

    nonce: int
    objection: Objection
    reason: str
    account: ContractAddress = SHARED_ACCOUNT


@dataclass(frozen=True, slots=True)
class AccountSeen(Event):
    """The next nonce of an account of this node, as the chain reports it.

    The shared account comes when the node starts, any other in answer to `SeeAccount`. `signer` is the address.
    Gas is free where the chain has no price for it.
    """

    next_nonce: int
    account: ContractAddress = SHARED_ACCOUNT
    signer: str = ""
    is_gas_free: bool = False


@dataclass(frozen=True, slots=True)
class AccountChosen(Event):
    """The operator's choice for a contract is durable: an account of its own, the shared one, or the node's default."""

    contract: ContractAddress
    is_own: bool | None


@dataclass(frozen=True, slots=True)
class DispatchesRecalled(Event):
    """The answer to `RecallDispatches`: this node's dispatches with these nonces, as far as the store has them."""

    nonces: tuple[int, ...]
    dispatches: tuple[RoundDispatch, ...]
    account: ContractAddress = SHARED_ACCOUNT
