"""Public transactions that have not ended, as `service.public.transactions` holds them in memory."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field, replace
from typing import Final

from rota.chain.public_transaction import (
    TAKEN_MS_MIN,
    UPDATES_MAX,
    Mined,
    PublicTransaction,
    State,
    Version,
    cost_max_wei,
)
from rota.ledger.transaction import decode
from rota.model.types import ContractAddress
from rota.ports import Ask

HISTORY_MAX: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicLimits:
    """Intervals of looks at the chain, the time before a transaction is resent, and the maximum fee.

    `taken_ms` is how long a nonce must have been used by a foreign transaction before that counts.
    """

    look_ms: int = 100
    look_later_ms: int = 500
    hurry_ms: int = 3_000
    resend_ms: int = 2_000
    taken_ms: int = TAKEN_MS_MIN
    fee_max_wei: int = 500_000_000_000


@dataclass(frozen=True, slots=True)
class Activity:
    """A line in a transaction's history."""

    at_ms: int
    text: str


@dataclass(slots=True)
class Held:
    """A transaction that has not ended: its durable record, and its state in this run.

    `ask` is the request of its latest update, until that is durable. One that `is_restored` is from an earlier run.
    """

    transaction: PublicTransaction
    state: State
    since_ms: int
    waits_for: str = ""
    trouble: str = ""
    is_saved: bool = True
    is_restored: bool = False
    sent_at_ms: int = 0
    refusals: int = 0
    taken_looks: int = 0
    taken_since_ms: int = 0
    is_underpriced: bool = False
    mined: Mined | None = None
    ask: Ask | None = None
    update_trouble: str = ""
    updating: asyncio.Lock = field(default_factory=asyncio.Lock)
    history: deque[Activity] = field(default_factory=lambda: deque(maxlen=HISTORY_MAX))

    @property
    def has_nonce(self) -> bool:
        """Whether it has a nonce, and so may be on its way."""
        return self.transaction.nonce is not None

    @property
    def is_aside(self) -> bool:
        """Whether an operator has to decide about it first."""
        return bool(self.transaction.set_aside) and self.transaction.ending is None

    @property
    def unchangeable(self) -> str:
        """The reason why its user cannot change it any more; empty if that is possible.

        One that is set aside may have happened unchanged: an operator has to find it on the chain.
        """
        if self.mined is not None or self.transaction.ending is not None:
            return "it is in a block or has ended"
        if self.is_aside or self.transaction.given_up:
            return "it was cancelled or set aside"
        if self.transaction.updates >= UPDATES_MAX:
            return f"it was changed {UPDATES_MAX} times: cancel it, and send another"
        return ""


def as_mined(transaction: PublicTransaction, mined: Mined) -> PublicTransaction:
    """Return the transaction with the content of the mined version, which a later update may have replaced."""
    version = next(each for each in transaction.versions if each.hash == mined.hash)
    return transaction if version.is_withdrawal else as_in(transaction, version)


def as_in(transaction: PublicTransaction, version: Version) -> PublicTransaction:
    """Return the transaction with the content of this version, which may be from before an update."""
    to, data, value_wei = content_of(version)
    wish = transaction.wish if version.asked == transaction.asked else replace(transaction.wish, gas=version.gas)
    return replace(transaction, to=to, data=data, value_wei=value_wei, wish=wish, asked=version.asked)


def content_of(version: Version) -> tuple[ContractAddress | None, bytes, int]:
    """Return the content of a version: receiver, data, value."""
    done = decode(version.raw).transaction
    to = None if done.to is None else ContractAddress("0x" + done.to.hex())
    return to, done.data, done.value


def promised_wei(transaction: PublicTransaction) -> int:
    """Return the maximum cost of its present signed version."""
    latest = transaction.versions[-1]
    return cost_max_wei(latest.gas, latest.fees, transaction.value_wei)
