"""The record of an accepted change."""

from __future__ import annotations

from dataclasses import dataclass

from rota.model.types import IntentId


@dataclass(frozen=True, slots=True)
class Acceptance:
    """The latest acceptance of a change. Its transaction is not known if an earlier release wrote it."""

    offset: int
    published_at_us: int
    submission_id: str
    transaction: IntentId | None = None
