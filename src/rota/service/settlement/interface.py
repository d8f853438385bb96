"""Transactions of several contracts that happen together or not at all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from rota.model.types import ContractAddress, IntentId
from rota.service.submissions.interface import Submission


@dataclass(frozen=True, slots=True)
class DraftView:
    """What a transaction would do, before it is submitted. `id` is set aside for it.

    `receipt` is what its receipt would tell, `openings` what other nodes are to be shown of it, in the order asked for.
    """

    id: IntentId
    contract: ContractAddress
    core: bytes
    receipt: Mapping[str, object]
    openings: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class ExaminedView:
    """Somebody's draft: its contract, its core as this node has worked it out, and what its receipt would tell us."""

    contract: ContractAddress
    core: bytes
    receipt: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class NamedLeg:
    """Prepared transitions of one contract by their cores: what legs are bound to one another by."""

    contract: ContractAddress
    cores: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class LegView:
    """An endorsed transition that waits for its committer, with all that it takes to commit it.

    `call` commits it alone, where that may be; nothing is left of it when `valid_until_s` has passed in chain time.
    """

    contract: ContractAddress
    core: bytes
    payload: bytes
    auth: bytes
    condition: bytes
    committer: ContractAddress | None
    valid_until_s: int
    call: bytes


class Settling(Protocol):
    """Transactions of several contracts that happen together or not at all."""

    async def draft(self, submission: Submission, readers: tuple[str, ...]) -> DraftView:
        """What it would do now. Its id is kept for `bind` while this process lives."""
        ...

    async def examine(self, opening: bytes) -> ExaminedView:
        """What a draft that a user of ours was shown would do."""
        ...

    async def bind(self, draft: IntentId, legs: tuple[NamedLeg, ...], idempotency_key: str) -> IntentId:
        """Submit what was drafted, held to all legs. It is reverted if it would no longer do what was drafted."""
        ...

    async def leg(self, intent: IntentId) -> LegView | None:
        """What was prepared of a transaction; nothing as long as it is not endorsed, and once it has ended."""
        ...
