"""The EVM that privacy groups need, as a protocol, and its values.

An `Evm` is a machine with a copy of accounts. Its owner decides which accounts exist and what they hold; it runs one
message on them, returns the effect and reverts it. So the same accounts and the same message have the same outcome
on every node: there is no clock, no fee, no ether, and no block but the values in the message.

`Execution.touched` names the accounts that the message looked at, except for those that a reverted inner call looked
at: the engine forgets them. A domain that must know them runs the message among fewer accounts and compares
(`worlds.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

Address = bytes
ADDRESS_BYTES = 20


class EvmVersion(Enum):
    """The rules of a hard fork, as clients and compilers call it.

    In all of them a contract that destroys itself continues to exist, unless the same message made it (EIP-6780):
    accounts on the ledger of a group are permanent.
    """

    LONDON = "london"
    PARIS = "paris"
    SHANGHAI = "shanghai"
    CANCUN = "cancun"


@dataclass(frozen=True, slots=True)
class Account:
    """A contract's account, whole. Missing slots are zero."""

    nonce: int
    code: bytes
    slots: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Message:
    """A transaction or a question. Without `to` it deploys; the sender's `nonce` then determines the address."""

    sender: Address
    to: Address | None
    input: bytes
    gas: int
    number: int = 0
    timestamp_s: int = 0
    nonce: int = 0


@dataclass(frozen=True, slots=True)
class Log:
    """An event of a contract."""

    address: Address
    topics: tuple[bytes, ...]
    content: bytes


@dataclass(frozen=True, slots=True)
class Change:
    """The changes to an account: its nonce, its code if that is new, and the slots that get another value."""

    nonce: int
    code: bytes | None
    slots: Mapping[int, int]


class Ending(Enum):
    """How a message ended."""

    DONE = "done"
    REVERTED = "reverted"
    HALTED = "halted"


@dataclass(frozen=True, slots=True)
class Execution:
    """The effect of a message. Only one that is done has logs, changes and, if it deploys, a `created` address.

    `reason` is the machine's word for how it ended; `touched` are the accounts that it looked at, with their slots,
    except for the sender's.
    """

    ending: Ending
    reason: str
    output: bytes
    gas_used: int
    logs: tuple[Log, ...]
    created: Address | None
    changes: Mapping[Address, Change]
    touched: Mapping[Address, tuple[int, ...]]


class Evm(Protocol):
    """A machine with a copy of accounts; an account that was not put there does not exist."""

    def put(self, address: Address, account: Account) -> None:
        """Add or replace an account."""
        ...

    def change(self, address: Address, nonce: int, slots: Mapping[int, int]) -> None:
        """Give an existing account this nonce and these slots."""
        ...

    def hide(self, address: Address) -> None:
        """Make the account not exist until it is shown; its contents stay."""
        ...

    def show(self, address: Address) -> None:
        """Make a hidden account exist again."""
        ...

    def drop(self, address: Address) -> None:
        """Remove the account and its contents."""
        ...

    def run(self, message: Message) -> Execution:
        """Run a message, and revert it. Returns its effect."""
        ...


class MakeEvm(Protocol):
    """Makes a machine without accounts."""

    def __call__(self, version: EvmVersion, chain_id: int) -> Evm:
        """A machine for these rules and this chain."""
        ...
