"""The states that an assembly may use: available, decoded, and found by what they hold.

They are seen through the coordinator's eyes: what is confirmed and what is under way on top of it, without what others
have locked. `query` takes the client API's QueryJSON, `where` a predicate; `cover` selects coins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from rota.domains.contents import Content, Role, is_info, unseal
from rota.domains.queries import Query
from rota.domains.records import Record, Rejected
from rota.types import Party, State, StateId

R = TypeVar("R", bound=Record)
R_co = TypeVar("R_co", bound=Record, covariant=True)


@dataclass(frozen=True, slots=True)
class Known(Generic[R_co]):
    """A state that we can read."""

    id: StateId
    record: R_co
    salt: bytes
    readers: tuple[Party, ...]


@dataclass(slots=True)
class Available:
    """States by id, in the order in which they became known. What has no bytes here, or cannot be read, is not."""

    known: Mapping[str, type[Record]]
    _states: dict[StateId, Known[Record]] = field(default_factory=dict)

    def add(self, state: State) -> None:
        """It is there from now on, if we can read it and it is no mere info."""
        if state.content is None or is_info(state.content):
            return
        content = readable(self.known, state)
        if content is not None and content.role is Role.STATE:
            self._states[state.id] = Known(state.id, content.record, content.salt, content.readers)

    def remove(self, state: StateId) -> None:
        """It is spent."""
        self._states.pop(state, None)

    def get(self, state: StateId) -> Known[Record] | None:
        """The state of this id, if it is available."""
        return self._states.get(state)

    def where(self, record_type: type[R], holds: Callable[[R], bool] = lambda _: True) -> tuple[Known[R], ...]:
        """All states of a kind for which this holds."""
        return tuple(
            Known(state.id, state.record, state.salt, state.readers)
            for state in self._states.values()
            if isinstance(state.record, record_type) and holds(state.record)
        )

    def query(self, record_type: type[R], query: Query) -> tuple[Known[R], ...]:
        """The states of a kind that a query finds, in its order."""
        return query.select(self.where(record_type), lambda state: state.record)


def readable(known: Mapping[str, type[Record]], state: State) -> Content | None:
    """What a state holds; nothing when its bytes are not here or say nothing to this domain."""
    if state.content is None:
        return None
    try:
        return unseal(known, state.content)
    except Rejected:
        return None


@dataclass(frozen=True, slots=True)
class Selection(Generic[R_co]):
    """Coins that cover an amount, and what is left over."""

    coins: tuple[Known[R_co], ...]
    total: int
    change: int


def cover(coins: Iterable[Known[R]], amount: int, worth: Callable[[R], int], count_max: int) -> Selection[R] | None:
    """The fewest coins that cover an amount: the largest first. Nothing when `count_max` of them do not.

    The change of one transfer is likely to be the largest coin for the next, so that transfers in a row stand on one
    another, which is what costs least on the ledger.
    """
    chosen: list[Known[R]] = []
    total = 0
    for coin in sorted(coins, key=lambda coin: (-worth(coin.record), coin.id)):
        if total >= amount or len(chosen) == count_max:
            break
        chosen.append(coin)
        total += worth(coin.record)
    return Selection(tuple(chosen), total, total - amount) if total >= amount else None
