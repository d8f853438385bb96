"""What the index and the submitter order, and their records."""

from __future__ import annotations

from typing import NamedTuple

from rota.machine.effects import DispatchRound, Effect, Record
from rota.model.blocks import ChainBlock
from rota.model.frozen import dataclass
from rota.model.types import SHARED_ACCOUNT, ContractAddress, Fees, IntentId, Leaf


@dataclass(frozen=True, slots=True)
class FetchBlocks(Effect):
    """Ask the chain for these blocks, both ends included; told as `BlocksFetched`, or not at all.

    With what the factory deployed in them under the ids that are awaited, and with the rounds of those contracts.
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
    """Find in the store what this node dispatched with these nonces. Told as `DispatchesRecalled`, or not at all.

    The chain has taken back final blocks that used them, or knows less of the account's nonces than we do.
    """

    nonces: tuple[int, ...]
    account: ContractAddress = SHARED_ACCOUNT


@dataclass(frozen=True, slots=True)
class SubmitTransaction(Effect):
    """Send a signed base-ledger transaction to the chain; sending it again changes nothing."""

    dispatch: RoundDispatch


@dataclass(frozen=True, slots=True)
class RoundDispatch(Record):
    """The dispatch syncpoint: a round as a signed transaction with its nonce, its states, and whom they concern."""

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
    """Re-priced: the same nonce and payload for more; then it is sent."""

    dispatch: RoundDispatch


@dataclass(frozen=True, slots=True)
class BlocksIndexed(Record):
    """Block indexed: what the index has above `parted_at` goes, and these blocks come in its place."""

    parted_at: int
    blocks: tuple[ChainBlock, ...]

    @property
    def height(self) -> int:
        """Where the index stands after it."""
        return self.blocks[-1].height if self.blocks else self.parted_at


class UndoneCommit(NamedTuple):
    """What a final block did that was taken back: a contract's leaf, or, without a leaf, a deployment."""

    height: int
    contract: ContractAddress
    intent: IntentId
    leaf: Leaf


@dataclass(frozen=True, slots=True)
class FinalityBroken(Record):
    """Finality broken: the receipts of these no longer hold. Before the `BlocksIndexed` that takes the blocks back."""

    parted_at: int
    final_height: int
    undone: tuple[UndoneCommit, ...]
