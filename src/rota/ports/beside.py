"""Records of commands, automation and provers."""

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
    """A node's announcement of its automation: the account that it acts with, the triggers that it ranks."""

    node: NodeName
    account: ContractAddress
    ranked: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StoredTriggers:
    """Records of automation: paused triggers, tasks set aside (trigger, task, reason), and announcements of nodes."""

    paused: tuple[str, ...] = ()
    set_aside: tuple[tuple[str, str, str], ...] = ()
    announcements: tuple[StoredAnnouncement, ...] = ()


class TriggerBook(Protocol):
    """The records of automation. All methods: `Unavailable` when the store is away."""

    async def restore(self) -> StoredTriggers:
        """All records."""
        ...

    async def keep_pause(self, trigger: str, is_paused: bool) -> None:
        """Record that a trigger is paused, or not any more."""
        ...

    async def keep_set_aside(self, trigger: str, task: str, reason: str | None) -> None:
        """Record why a task is set aside; `None`: not any more."""
        ...

    async def keep_announcement(self, announced: StoredAnnouncement) -> None:
        """Record the latest announcement of a node."""
        ...


@dataclass(frozen=True, slots=True)
class StoredProof:
    """A proof for an intent: the leaf, its validity, and the proof."""

    intent: IntentId
    leaf: Leaf
    valid_until_s: int
    proof: bytes


class ProofBook(Protocol):
    """Proofs that may be needed again, one for an intent. All methods: `Unavailable` when the store is away."""

    async def restore(self) -> tuple[StoredProof, ...]:
        """The proofs of open intents; the others are deleted. For the start of a run."""
        ...

    async def keep(self, proof: StoredProof) -> None:
        """Record the latest proof of its intent."""
        ...

    async def forget(self, intent: IntentId) -> None:
        """Delete the proof of an intent that has ended."""
        ...


class CommandStore(Protocol):
    """The records of commands, in the store of their node. All methods: `Unavailable` when it is away.

    A write is one database transaction, durable on return. One that raised may have happened; it may be repeated and
    then changes nothing.
    """

    async def restore(self) -> tuple[Stream, tuple[InFlight, ...]]:
        """For the start of a run: the end of the stream of completions, and the submissions in flight."""
        ...

    async def write_in_flight(self, submission: InFlight) -> None:
        """Insert it if its change is absent."""
        ...

    async def remove_in_flight(self, submission: InFlight) -> None:
        """Delete a submission without effect."""
        ...

    async def latest_acceptances(self, changes: Sequence[ChangeId]) -> dict[ChangeId, Acceptance]:
        """The latest acceptance of each of these changes, if it has one."""
        ...

    async def write_completions(self, closings: Sequence[Closing]) -> None:
        """Write completions and acceptances, and delete their submissions in flight."""
        ...

    async def completions(self, wanted: CompletionFilter, after: int, end: int, limit: int) -> CompletionPage:
        """Completions after an offset and up to an end, in order, and the last offset that was read."""
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
        """Delete completions and acceptances up to this offset, and record that."""
        ...
