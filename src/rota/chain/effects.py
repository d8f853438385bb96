"""Effects and records of the index and the submitter."""

from __future__ import annotations

from typing import NamedTuple

from rota.machine.effects import DispatchRound, Effect, Record
from rota.model.blocks import ChainBlock
from rota.model.frozen import dataclass
from rota.model.types import SHARED_ACCOUNT, ContractAddress, Fees, IntentId, Leaf


@dataclass(frozen=True, slots=True)
class FetchBlocks(Effect):
    """Fetch these blocks from the chain, both ends included; `BlocksFetched` answers, or nothing.

    Included are the factory's deployments in them under the awaited ids, and the rounds of those contracts.
    """

    first: int
    last: int
    awaited: tuple[IntentId, ...] = ()


@dataclass(frozen=True, slots=True)
class SignDispatch(Effect):
    """Have the node's signer sign the base-ledger transaction of a round, with this account, nonce and fees."""

    round: DispatchRound
    signer: str
    nonce: int
    fees: Fees
    account: ContractAddress = SHARED_ACCOUNT


@dataclass(frozen=True, slots=True)
class SeeAccount(Effect):
    """Find the address of an account and its next nonce on the chain; `AccountSeen` answers."""

    account: ContractAddress


@dataclass(frozen=True, slots=True)
class RecallDispatches(Effect):
    """Find this node's dispatches with these nonces in the store; `DispatchesRecalled` answers, or nothing.

    The chain has taken back final blocks that used them, or knows fewer of the account's nonces than this node does.
    """

    nonces: tuple[int, ...]
    account: ContractAddress = SHARED_ACCOUNT


@dataclass(frozen=True, slots=True)
class SubmitTransaction(Effect):
    """Send a signed base-ledger transaction to the chain; sending it again has no effect."""

    dispatch: RoundDispatch


@dataclass(frozen=True, slots=True)
class RoundDispatch(Record):
    """The dispatch syncpoint: a round as a signed transaction with its nonce, its states, and the nodes concerned."""

    round: DispatchRound
    signer: str
    nonce: int
    fees: Fees = Fees(0, 0)
    transaction: bytes = b""
    hash: bytes = b""
    account: ContractAddress = SHARED_ACCOUNT

    @property
    def slot(self) -> tuple[ContractAddress, int]:
        """The account and its nonce: no two dispatches of a node have both in common."""
        return self.account, self.nonce


@dataclass(frozen=True, slots=True)
class DispatchRepriced(Record):
    """Re-priced: the same nonce and payload at a higher price; recorded before it is sent."""

    dispatch: RoundDispatch


@dataclass(frozen=True, slots=True)
class BlocksIndexed(Record):
    """Blocks indexed: these blocks replace those that the index has above `parted_at`."""

    parted_at: int
    blocks: tuple[ChainBlock, ...]

    @property
    def height(self) -> int:
        """The height of the index after it."""
        return self.blocks[-1].height if self.blocks else self.parted_at


class UndoneCommit(NamedTuple):
    """An effect of a final block that was taken back: a contract's leaf, or, without a leaf, a deployment."""

    height: int
    contract: ContractAddress
    intent: IntentId
    leaf: Leaf


@dataclass(frozen=True, slots=True)
class FinalityBroken(Record):
    """Finality broken: these receipts no longer hold. Before the `BlocksIndexed` that takes the blocks back."""

    parted_at: int
    final_height: int
    undone: tuple[UndoneCommit, ...]
