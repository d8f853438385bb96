"""Public transactions that have not ended, as `runtime.public_transactions` holds them in memory."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final

from rota.core.public_transaction import TAKEN_MS_MIN, Mined, PublicTransaction, State, cost_max_wei

HISTORY_MAX: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicLimits:
    """How often the chain is looked at, how long a sent transaction is left alone, the most paid for gas.

    `taken_ms` is how long a nonce must have been used by nothing of ours before that is believed.
    """

    look_ms: int = 100
    look_later_ms: int = 500
    hurry_ms: int = 3_000
    resend_ms: int = 2_000
    taken_ms: int = TAKEN_MS_MIN
    fee_max_wei: int = 500_000_000_000


@dataclass(frozen=True, slots=True)
class Activity:
    """A line of its history."""

    at_ms: int
    text: str


@dataclass(slots=True)
class Held:
    """A transaction that has not ended: what is durable of it, and what is only known in this life."""

    transaction: PublicTransaction
    state: State
    since_ms: int
    waits_for: str = ""
    trouble: str = ""
    is_saved: bool = True
    sent_at_ms: int = 0
    refusals: int = 0
    taken_looks: int = 0
    taken_since_ms: int = 0
    is_underpriced: bool = False
    mined: Mined | None = None
    history: deque[Activity] = field(default_factory=lambda: deque(maxlen=HISTORY_MAX))

    @property
    def has_nonce(self) -> bool:
        """It is on its way."""
        return self.transaction.nonce is not None

    @property
    def is_aside(self) -> bool:
        """An operator has to decide about it first."""
        return bool(self.transaction.set_aside) and self.transaction.ending is None


def promised_wei(transaction: PublicTransaction) -> int:
    """What it may cost as it is signed now."""
    latest = transaction.versions[-1]
    return cost_max_wei(latest.gas, latest.fees, transaction.value_wei)
