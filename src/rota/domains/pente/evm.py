"""What privacy groups need of an EVM, as a protocol, and the values that pass between the two.

An `Evm` is a machine with a copy of accounts. Whoever owns it decides which accounts exist and what they hold; it runs
one message on them, tells what that did and takes it back. So the same accounts and the same message have the same
outcome on every node: there is no clock, no fee, no ether, and no block but what the message says.

`Execution.touched` names what the message looked at, except for what an inner call looked at that was taken back: the
engine forgets that. A domain that must know has the message run among fewer accounts and compares (`worlds.py`).
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

    In all of them a contract that destroys itself goes on to exist, unless the same message made it (EIP-6780): what
    is on the ledger of a group is there to stay.
    """

    LONDON = "london"
    PARIS = "paris"
    SHANGHAI = "shanghai"
    CANCUN = "cancun"


@dataclass(frozen=True, slots=True)
class Account:
    """A contract's account, whole. A slot that is not there is zero."""

    nonce: int
    code: bytes
    slots: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Message:
    """A transaction or a question. Without `to` it deploys; the sender's `nonce` then decides about the address."""

    sender: Address
    to: Address | None
    input: bytes
    gas: int
    number: int = 0
    timestamp_s: int = 0
    nonce: int = 0


@dataclass(frozen=True, slots=True)
class Log:
    """What a contract told."""

    address: Address
    topics: tuple[bytes, ...]
    content: bytes


@dataclass(frozen=True, slots=True)
class Change:
    """What becomes of an account: its nonce, its code if that is new, and the slots that get another value."""

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
    """What a message did. Only one that is done has logs, changes and, if it deploys, an address that was `created`.

    `reason` is the machine's word for how it ended; `touched` are the accounts that it looked at, with their slots, but
    for the sender's.
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
        """From now on there is this account, and it holds this."""
        ...

    def change(self, address: Address, nonce: int, slots: Mapping[int, int]) -> None:
        """An account that is there gets this nonce and these slots."""
        ...

    def hide(self, address: Address) -> None:
        """The account does not exist until it is shown; what it holds stays."""
        ...

    def show(self, address: Address) -> None:
        """A hidden account exists again."""
        ...

    def drop(self, address: Address) -> None:
        """The account is gone with all that it holds."""
        ...

    def run(self, message: Message) -> Execution:
        """Run a message, and take it back."""
        ...


class MakeEvm(Protocol):
    """Makes a machine without accounts."""

    def __call__(self, version: EvmVersion, chain_id: int) -> Evm:
        """One for these rules."""
        ...
