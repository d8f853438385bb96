"""The commitments of proved contracts in the order of the chain: their trees are built from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from rota.model.frozen import dataclass
from rota.model.types import ContractAddress, Leaf

COMMITMENTS_A_PAGE: Final = 1_000


class LeafCommitments(NamedTuple):
    """The commitments of a transition, one word for each state that it makes. Its leaf binds them."""

    contract: ContractAddress
    leaf: Leaf
    words: tuple[bytes, ...]


class OutcomePlace(NamedTuple):
    """Where on the chain a transition was committed."""

    height: int
    place: int


BEFORE_ALL: Final = OutcomePlace(-1, 0)


class CommittedWords(NamedTuple):
    """The commitments of a committed transition."""

    at: OutcomePlace
    words: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class CommitmentPage:
    """The next committed transitions of a contract.

    If `parted_at` is set, a reorganisation removed all transitions after it before these were read. `as_of` is the
    latest reorganisation that is included; `is_complete` when no transition follows.
    """

    as_of: int
    parted_at: int | None
    transitions: tuple[CommittedWords, ...]
    is_complete: bool


class CommitmentStore(Protocol):
    """All methods: `Unavailable` when the store is away."""

    async def keep(self, commitments: Sequence[LeafCommitments]) -> None:
        """Store these permanently; the index knows whether and where their leaves are committed."""
        ...

    async def page(
        self, contract: ContractAddress, after: OutcomePlace, since: int, limit: int = COMMITMENTS_A_PAGE
    ) -> CommitmentPage:
        """What was committed behind this place, for whoever knows of all reorganisations up to `since`."""
        ...
