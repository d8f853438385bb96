"""What transitions of proved contracts commit to, in the order of the chain: their trees are made of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from rota.model.frozen import dataclass
from rota.model.types import ContractAddress, Leaf

COMMITMENTS_A_PAGE: Final = 1_000


class LeafCommitments(NamedTuple):
    """What a transition of a contract commits to: a word for each state that it makes. Its leaf binds them."""

    contract: ContractAddress
    leaf: Leaf
    words: tuple[bytes, ...]


class OutcomePlace(NamedTuple):
    """Where on the chain a transition was committed."""

    height: int
    place: int


BEFORE_ALL: Final = OutcomePlace(-1, 0)


class CommittedWords(NamedTuple):
    """What a transition has made there."""

    at: OutcomePlace
    words: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class CommitmentPage:
    """The next transitions of a contract that were committed.

    All behind `parted_at`, if it is said, has been taken back before these came. `as_of` is the latest reorganisation
    that this knows of; `is_complete` when no transition is left.
    """

    as_of: int
    parted_at: int | None
    transitions: tuple[CommittedWords, ...]
    is_complete: bool


class CommitmentStore(Protocol):
    """All: `Unavailable` when the store is away."""

    async def keep(self, commitments: Sequence[LeafCommitments]) -> None:
        """Have these for good; whether and where their leaves are committed the index says."""
        ...

    async def page(
        self, contract: ContractAddress, after: OutcomePlace, since: int, limit: int = COMMITMENTS_A_PAGE
    ) -> CommitmentPage:
        """What was committed behind this place, for whoever knows of all reorganisations up to `since`."""
        ...
