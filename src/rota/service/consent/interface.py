"""Contracts that name this node as endorser or coordinator and need its operator's consent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from rota.model.types import Contract, ContractAddress, IntentId, NodeName, Party


@dataclass(frozen=True, slots=True)
class ConsentQuestion:
    """A question for the operator. Long lists of names are cut; `contract` is set when the chain has it already.

    `terms` has the terms of sequencing.
    """

    proposer: NodeName
    deployment: IntentId
    contract: ContractAddress | None
    domain: str
    is_endorser: bool
    is_coordinator: bool
    members: tuple[Party, ...]
    member_count: int
    endorsers: tuple[NodeName, ...]
    endorser_count: int
    threshold: int
    genesis_hash: bytes
    asked_at_s: int
    expires_at_s: int
    terms: Contract


class Consents(Protocol):
    """The questions for the operator. `Rejected` for an id without a question; durable on return."""

    async def list(self) -> tuple[ConsentQuestion, ...]:
        """Return all open questions, the oldest first."""
        ...

    async def accept(self, proposer: NodeName, deployment: IntentId) -> None:
        """Agree that this node takes part in the contract."""
        ...

    async def refuse(self, proposer: NodeName, deployment: IntentId, reason: str) -> None:
        """Refuse to take part; the proposer receives the reason."""
        ...


class HasConsents(Protocol):
    """A node whose operator decides about contracts."""

    @property
    def consents(self) -> Consents:
        """The questions for the operator."""
        ...
