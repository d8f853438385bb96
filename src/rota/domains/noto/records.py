"""What notary tokens are made of: the arguments of their functions, their configuration, and their states.

Names and parameters are those that clients of such tokens use already (client API).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from rota.domains.noto.hook_records import NO_HOOKS, HookOptions, Hooks
from rota.domains.records import Bytes32, Record, Uint64, Uint256
from rota.model.types import ContractAddress, Party

NO_CONDITION: Final = bytes(32)


# Deploying.


@dataclass(frozen=True, slots=True)
class BasicOptions(Record):
    """What holders may do by themselves."""

    restrict_mint: bool = True
    allow_burn: bool = True
    allow_lock: bool = True


@dataclass(frozen=True, slots=True)
class Options(Record):
    """The options of each notary mode, and where locks are: on the ledger, or private states (`locks.py`)."""

    basic: BasicOptions = BasicOptions()
    public_locks: bool = True
    hooks: HookOptions = HookOptions()


@dataclass(frozen=True, slots=True)
class Constructor(Record):
    """A new token."""

    notary: str
    name: str = ""
    symbol: str = ""
    notary_mode: str = "basic"
    options: Options = Options()


@dataclass(frozen=True, slots=True)
class Configuration(Record):
    """What a token is. Where it has hooks, they decide what holders may do.

    Configurations of earlier releases have neither `publicLocks` nor `hooks`.
    """

    later = ("publicLocks", "hooks")

    name: str
    symbol: str
    notary: Party
    options: BasicOptions
    public_locks: bool = False
    hooks: Hooks = NO_HOOKS


# Functions.


@dataclass(frozen=True, slots=True)
class Share(Record):
    """Who gets how much."""

    to: Party
    amount: Uint256


@dataclass(frozen=True, slots=True)
class Payment(Record):
    """Of `mint`, and of `transfer`, which pays with the sender's coins."""

    to: Party
    amount: Uint256
    data: bytes = b""


@dataclass(frozen=True, slots=True)
class TransferFrom(Record):
    """Pays with somebody's coins."""

    from_: Party
    to: Party
    amount: Uint256
    data: bytes = b""


@dataclass(frozen=True, slots=True)
class Amount(Record):
    """Of `burn`, `lock` and `createLock`, which take the sender's coins."""

    amount: Uint256
    data: bytes = b""


@dataclass(frozen=True, slots=True)
class BurnFrom(Record):
    """Takes somebody's coins."""

    from_: Party
    amount: Uint256
    data: bytes = b""


@dataclass(frozen=True, slots=True)
class CreateTransferLock(Record):
    """A lock that is for these recipients when it is spent."""

    later = ("expiresAt",)

    from_: Party
    recipients: tuple[Share, ...]
    unlock_data: bytes = b""
    data: bytes = b""
    expires_at: Uint64 = 0


@dataclass(frozen=True, slots=True)
class CreateBurnLock(Record):
    """A lock that is burned when it is spent."""

    later = ("expiresAt",)

    from_: Party
    amount: Uint256
    unlock_data: bytes = b""
    data: bytes = b""
    expires_at: Uint64 = 0


@dataclass(frozen=True, slots=True)
class CreateMintLock(Record):
    """A lock of nothing, from which recipients are minted coins when it is spent."""

    later = ("expiresAt",)

    recipients: tuple[Share, ...]
    unlock_data: bytes = b""
    data: bytes = b""
    expires_at: Uint64 = 0


@dataclass(frozen=True, slots=True)
class PrepareUnlock(Record):
    """Whom a lock is for when it is spent."""

    later = ("expiresAt",)

    lock_id: Bytes32
    from_: Party
    recipients: tuple[Share, ...]
    unlock_data: bytes = b""
    data: bytes = b""
    expires_at: Uint64 = 0


@dataclass(frozen=True, slots=True)
class PrepareBurnUnlock(Record):
    """A lock is burned when it is spent."""

    later = ("expiresAt",)

    lock_id: Bytes32
    from_: Party
    amount: Uint256
    unlock_data: bytes = b""
    data: bytes = b""
    expires_at: Uint64 = 0


@dataclass(frozen=True, slots=True)
class PrepareMintUnlock(Record):
    """Whom coins are minted for when a lock is spent."""

    later = ("expiresAt",)

    lock_id: Bytes32
    recipients: tuple[Share, ...]
    unlock_data: bytes = b""
    data: bytes = b""
    expires_at: Uint64 = 0


@dataclass(frozen=True, slots=True)
class DelegateLock(Record):
    """From now on this address alone may spend or cancel a lock."""

    lock_id: Bytes32
    delegate: ContractAddress
    data: bytes = b""


@dataclass(frozen=True, slots=True)
class Unlock(Record):
    """Pay from a lock; what is left stays locked."""

    lock_id: Bytes32
    from_: Party
    recipients: tuple[Share, ...]
    data: bytes = b""


@dataclass(frozen=True, slots=True)
class EndLock(Record):
    """Do what a lock was prepared for, or give it back. A delegate may bind it to a condition (ledger)."""

    lock_id: Bytes32
    data: bytes = b""
    condition: Bytes32 = NO_CONDITION


@dataclass(frozen=True, slots=True)
class Account(Record):
    """Whose balance."""

    account: Party


@dataclass(frozen=True, slots=True)
class Nothing(Record):
    """No arguments."""


# States.


@dataclass(frozen=True, slots=True)
class Coin(Record):
    """An amount that somebody owns."""

    schema_name = "NotoCoin"
    labels = ("owner", "amount")
    addressed = ("owner",)
    ranked_by = "amount"

    owner: Party
    amount: Uint256


@dataclass(frozen=True, slots=True)
class Lock(Record):
    """An amount that somebody owns and that one spender may spend: a party, or an address on the ledger.

    `is_prepared` when it is settled what becomes of it: the recipients get theirs, and the owner what is left, or
    nobody if it is burned. What a mint lock gives was not there before.
    """

    schema_name = "NotoLockedCoin"
    labels = ("lockId", "owner")
    addressed = ("owner",)

    lock_id: Bytes32
    owner: Party
    amount: Uint256
    spender: str
    is_mint: bool = False
    is_prepared: bool = False
    burned: Uint256 = 0
    recipients: tuple[Share, ...] = ()
    unlock_data: bytes = b""


@dataclass(frozen=True, slots=True)
class Requested(Record):
    """What was asked for, with arguments as JSON, told to the notary, who holds everything else against it."""

    schema_name = "NotoRequest"

    function: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Attached(Record):
    """What users attach to a transaction, told to all its parties."""

    schema_name = "TransactionData"

    data: bytes


@dataclass(frozen=True, slots=True)
class Promised(Record):
    """What a lock was prepared to give, told to who gets it."""

    schema_name = "NotoPreparedCoin"

    lock_id: Bytes32
    to: Party
    amount: Uint256


@dataclass(frozen=True, slots=True)
class RecordedLock(Record):
    """The private counterpart of a lock's record on the ledger: its owner and its outcome (`locks.py`).

    `spender` is the owner, or the address to which the owner gave the lock. `permit` is the word of the record's end.
    """

    schema_name = "NotoRecordedLock"
    labels = ("lockId", "owner")
    addressed = ("owner",)

    lock_id: Bytes32
    owner: Party
    amount: Uint256
    spender: str
    permit: Bytes32
    expires_at: Uint64
    is_mint: bool = False
    burned: Uint256 = 0
    recipients: tuple[Share, ...] = ()
    unlock_data: bytes = b""


@dataclass(frozen=True, slots=True)
class Released(Record):
    """That a delegate ended a lock, told to its owner and to each that got something from it."""

    schema_name = "NotoReleasedLock"

    lock_id: Bytes32
    from_: Party
    is_cancelled: bool
