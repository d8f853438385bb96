"""What commands, automation and provers remember."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from rota.commands.acceptance import Acceptance
from rota.commands.effects import Closing, InFlight
from rota.commands.events import Contradicted
from rota.commands.periods import Stream
from rota.model.types import ContractAddress, IntentId, Leaf, NodeName
from rota.schema.commands import ChangeId, CompletionFilter, CompletionPage


@dataclass(frozen=True, slots=True)
class StoredAnnouncement:
    """How a node said that it takes part in automation: the account that it acts with, the triggers that it ranks."""

    node: NodeName
    account: ContractAddress
    ranked: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StoredTriggers:
    """What automation left: paused triggers, tasks set aside (trigger, task, reason), and what nodes announced."""

    paused: tuple[str, ...] = ()
    set_aside: tuple[tuple[str, str, str], ...] = ()
    announcements: tuple[StoredAnnouncement, ...] = ()


class TriggerBook(Protocol):
    """What automation remembers. All: `Unavailable` when the store is away."""

    async def restore(self) -> StoredTriggers:
        """All of it."""
        ...

    async def keep_pause(self, trigger: str, is_paused: bool) -> None:
        """Paused, or not any more."""
        ...

    async def keep_set_aside(self, trigger: str, task: str, reason: str | None) -> None:
        """Set aside for a reason, or not any more."""
        ...

    async def keep_announcement(self, announced: StoredAnnouncement) -> None:
        """What a node last said of itself."""
        ...


@dataclass(frozen=True, slots=True)
class StoredProof:
    """What was proved of an intent: the leaf that it became, until when it is valid, and the proof."""

    intent: IntentId
    leaf: Leaf
    valid_until_s: int
    proof: bytes


class ProofBook(Protocol):
    """Proofs that were made and may be wanted again, one an intent. All: `Unavailable` when the store is away."""

    async def restore(self) -> tuple[StoredProof, ...]:
        """Those of intents that are open; the others are forgotten. For a life that begins."""
        ...

    async def keep(self, proof: StoredProof) -> None:
        """The latest of its intent."""
        ...

    async def forget(self, intent: IntentId) -> None:
        """It has ended."""
        ...


class CommandStore(Protocol):
    """What commands need remembered, in the store of their node. Each raises `Unavailable` when it is away.

    A write is one database transaction, durable on return. One that raised may have happened; written again in the same
    words it changes nothing.
    """

    async def restore(self) -> tuple[Stream, tuple[InFlight, ...]]:
        """What a new life finds: where the stream of completions stands, and what is in flight."""
        ...

    async def write_in_flight(self, submission: InFlight) -> None:
        """Insert it if its change is absent."""
        ...

    async def remove_in_flight(self, submission: InFlight) -> None:
        """Nothing came of it."""
        ...

    async def latest_acceptances(self, changes: Sequence[ChangeId]) -> dict[ChangeId, Acceptance]:
        """The latest acceptance of each of these changes that has one."""
        ...

    async def write_completions(self, closings: Sequence[Closing]) -> None:
        """Completions, the acceptances among them, and their submissions no longer in flight."""
        ...

    async def completions(self, wanted: CompletionFilter, after: int, end: int, limit: int) -> CompletionPage:
        """Those after an offset and up to an end, in their order, and how far they were read."""
        ...

    async def contradicted(self, limit: int) -> tuple[Contradicted, ...]:
        """Completions that the chain contradicts and that are not corrected, at most so many.

        Successes whose transactions are no longer on the chain for good, and failures whose transactions are.
        """
        ...

    async def pruning_point(self, offset: int, horizon_us: int) -> tuple[int, int]:
        """When the completion at this offset was published, and the latest that was before the horizon."""
        ...

    async def prune(self, offset: int, published_at_us: int) -> None:
        """Forget completions and acceptances up to this offset, and note that."""
        ...
