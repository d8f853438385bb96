"""Transactions of several contracts that happen together or not at all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from rota.model.types import ContractAddress, IntentId
from rota.service.submissions.interface import Submission


@dataclass(frozen=True, slots=True)
class DraftView:
    """The effects of a transaction before it is submitted, under a reserved id.

    `receipt` is its receipt as it would be, `openings` disclose it to other nodes, in the order requested.
    """

    id: IntentId
    contract: ContractAddress
    core: bytes
    receipt: Mapping[str, object]
    openings: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class ExaminedView:
    """Another party's draft: contract, core as computed by this node, and receipt as this node would see it."""

    contract: ContractAddress
    core: bytes
    receipt: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class NamedLeg:
    """Prepared transitions of one contract by their cores: the values by which legs are bound to one another."""

    contract: ContractAddress
    cores: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class LegView:
    """An endorsed transition that waits for its committer, with all data needed to commit it.

    `call` commits it alone, where that is allowed; it can no longer be committed after `valid_until_s` in chain time.
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
        """Return its effects as of now. Its id is kept for `bind` in this run of the process."""
        ...

    async def examine(self, opening: bytes) -> ExaminedView:
        """Show the effects of a draft that was disclosed to a user of this node."""
        ...

    async def bind(self, draft: IntentId, legs: tuple[NamedLeg, ...], idempotency_key: str) -> IntentId:
        """Submit a draft, bound to all legs. It is reverted if its effects would no longer be those of the draft."""
        ...

    async def leg(self, intent: IntentId) -> LegView | None:
        """Return the prepared transition of a transaction; None until it is endorsed, and once it has ended."""
        ...
