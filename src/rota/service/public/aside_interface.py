"""Public transactions that were set aside for an operator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from rota.model.types import ContractAddress, IntentId, Party


@dataclass(frozen=True, slots=True)
class AsideView:
    """A public transaction that is set aside, and the reason."""

    id: IntentId
    sender: Party
    account: ContractAddress
    to: ContractAddress | None
    value_wei: int
    created_at_ms: int
    nonce: int | None
    reason: str


class Aside(Protocol):
    """Public transactions with unknown outcome. `Rejected` for an id that is not set aside; durable on return."""

    def list(self) -> tuple[AsideView, ...]:
        """Return all of them, in the order of their acceptance."""
        ...

    async def release(self, intent: IntentId) -> None:
        """Continue with a transaction that has not happened."""
        ...

    async def drop(self, intent: IntentId) -> None:
        """End the transaction."""
        ...


class HasAside(Protocol):
    """A node with public transactions."""

    @property
    def aside(self) -> Aside:
        """The transactions that are set aside."""
        ...
