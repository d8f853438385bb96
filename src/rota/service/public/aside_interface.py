"""Public transactions that were set aside for an operator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from rota.model.types import ContractAddress, IntentId, Party


@dataclass(frozen=True, slots=True)
class AsideView:
    """One of them, and why."""

    id: IntentId
    sender: Party
    account: ContractAddress
    to: ContractAddress | None
    value_wei: int
    created_at_ms: int
    nonce: int | None
    reason: str


class Aside(Protocol):
    """What nobody knows whether it happened. `Rejected` where an id is not set aside; durable on return."""

    def list(self) -> tuple[AsideView, ...]:
        """All of them, in the order of their acceptance."""
        ...

    async def release(self, intent: IntentId) -> None:
        """It has not happened: it goes on."""
        ...

    async def drop(self, intent: IntentId) -> None:
        """It ends."""
        ...


class HasAside(Protocol):
    """A node with public transactions."""

    @property
    def aside(self) -> Aside:
        """Those that were set aside."""
        ...
