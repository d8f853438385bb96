"""Contracts that name this node as endorser or coordinator, and that its operator has to agree to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from rota.model.types import Contract, ContractAddress, IntentId, NodeName, Party


@dataclass(frozen=True, slots=True)
class ConsentQuestion:
    """One of them. Of long lists of names the first are shown; `contract` is set when the chain has it already.

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
    """What the operator is asked. `Rejected` where nothing is asked about an id; durable on return."""

    async def list(self) -> tuple[ConsentQuestion, ...]:
        """All open questions, the oldest first."""
        ...

    async def accept(self, proposer: NodeName, deployment: IntentId) -> None:
        """This node takes part in the contract."""
        ...

    async def refuse(self, proposer: NodeName, deployment: IntentId, reason: str) -> None:
        """It does not, and the proposer is told why."""
        ...


class HasConsents(Protocol):
    """A node with an operator."""

    @property
    def consents(self) -> Consents:
        """What the operator is asked."""
        ...
