"""The states that an assembly may use: available, decoded, and found by their contents.

A node's states of a contract are on a `Shelf`: each is decoded once, when it arrives, and found by its labels without
examining the others, so that the cost of a query depends on its result and not on the number of states. `Available` is
a shelf as the coordinator sees it for one assembly: with the states under way added, and without those that other
transactions have locked. It changes while a slot is assembled; the shelf does not.

Transitions need not refer to a spent state by its id: where observers must not see which state it is, they use a
nullifier. A shelf knows the reference that spends each state, and finds and removes the state by it as by its id. So
lists of spent or locked states may use either, and this is the one place that handles both.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from heapq import merge
from typing import Final, Generic, NamedTuple, TypeAlias, TypeVar

from rota.domains.contents import Content, unseal
from rota.domains.queries import Query
from rota.domains.records import Record, Rejected, fields_of
from rota.model.frozen import dataclass
from rota.model.types import Party, State, StateId

R = TypeVar("R", bound=Record)
R_co = TypeVar("R_co", bound=Record, covariant=True)
Label: TypeAlias = tuple[type[Record], str, object]
# The negated rank and the id, so that ascending order is largest first and total.
Rank: TypeAlias = tuple[int, StateId]

# As many entries as there are record classes.
_LABELS: Final[dict[type[Record], tuple[str, ...]]] = {}


@dataclass(frozen=True, slots=True)
class Known(Generic[R_co]):
    """A state that this node can read."""

    id: StateId
    record: R_co
    salt: bytes
    readers: tuple[Party, ...]


class Total(NamedTuple):
    """A number of states, and the sum of their ranks."""

    states: int
    worth: int


SpentAs: TypeAlias = Callable[[Known[Record]], StateId | None]


def own_id(state: Known[Record]) -> StateId:
    """The reference that spends a state where all may see which state it is: its own id."""
    return state.id


class Shelf(Mapping[StateId, State]):
    """The states of a contract that a node holds, in order of arrival; unreadable ones are held, but not found.

    `spent_as` returns the reference that spends a state; a state without one is not found either.
    """

    def __init__(
        self, known: Mapping[str, type[Record]], states: Iterable[State] = (), spent_as: SpentAs = own_id
    ) -> None:
        self.known = known
        self.spent_as = spent_as
        # For states that are not spent by their ids; one reference may spend two of them, and then the first is found.
        self._references: dict[StateId, StateId] = {}
        self._by_reference: dict[StateId, dict[StateId, None]] = {}
        self._states: dict[StateId, State] = {}
        self._read: dict[StateId, Known[Record]] = {}
        self._by_type: dict[type[Record], dict[StateId, Known[Record]]] = {}
        self._by_label: dict[Label, dict[StateId, Known[Record]]] = {}
        self._by_rank: dict[Label, list[Rank]] = {}
        # For the same labels, the sum of the ranks.
        self._sums: dict[Label, int] = {}
        for state in states:
            self.put(state)

    def __getitem__(self, state: StateId) -> State:
        return self._states[self._spent_by(state)]

    def __iter__(self) -> Iterator[StateId]:
        return iter(self._states)

    def __len__(self) -> int:
        return len(self._states)

    def put(self, state: State, content_bytes_max: int | None = None) -> None:
        """Hold this state; without its bytes if they are longer than `content_bytes_max`: they are read when needed."""
        self.remove(state.id)
        is_long = content_bytes_max is not None and len(state.content or b"") > content_bytes_max
        self._states[state.id] = replace(state, content=None) if is_long else state
        read = known_in(self.known, state)
        reference = self.spent_as(read) if read is not None else None
        if read is not None and reference is not None:
            self._read[state.id] = read
            if reference != state.id:
                self._references[state.id] = reference
                self._by_reference.setdefault(reference, {})[state.id] = None
            self._by_type.setdefault(type(read.record), {})[state.id] = read
            for label in _labels_in(read.record):
                self._by_label.setdefault(label, {})[state.id] = read
            for label in _ranked_labels_in(read.record):
                insort(self._by_rank.setdefault(label, []), _rank_of(read))
                self._sums[label] = self._sums.get(label, 0) - _rank_of(read)[0]

    def remove(self, state: StateId) -> None:
        """Remove a state that is spent, or not confirmed after all; a nullifier removes all states that it spends."""
        for each in tuple(self._by_reference.get(state, (state,))):
            self._remove(each)

    def _remove(self, state: StateId) -> None:
        self._states.pop(state, None)
        read = self._read.pop(state, None)
        if read is None:
            return
        reference = self._references.pop(state, None)
        if reference is not None:
            del self._by_reference[reference][state]
            if not self._by_reference[reference]:
                del self._by_reference[reference]
        del self._by_type[type(read.record)][state]
        for label in _labels_in(read.record):
            del self._by_label[label][state]
            if not self._by_label[label]:
                # There may be as many values as there are states: an empty entry must not stay.
                del self._by_label[label]
        for label in _ranked_labels_in(read.record):
            ranks = self._by_rank[label]
            del ranks[bisect_left(ranks, _rank_of(read))]
            self._sums[label] += _rank_of(read)[0]
            if not ranks:
                del self._by_rank[label], self._sums[label]

    def read(self, state: StateId) -> Known[Record] | None:
        """The decoded state, if it is held and can be read."""
        return self._read.get(state)

    def reference(self, state: StateId) -> StateId | None:
        """The reference that spends the state, if it is held and the reference is not its own id."""
        return self._references.get(state)

    def spent_by(self, reference: StateId) -> tuple[StateId, ...]:
        """The states that a reference spends: the one with this id, or those of a nullifier."""
        return tuple(self._by_reference.get(reference, (reference,)))

    def _spent_by(self, reference: StateId) -> StateId:
        return next(iter(self._by_reference.get(reference, ())), reference)

    def find(self, record_type: type[R], labels: Mapping[str, object]) -> Iterator[Known[R]]:
        """The states of a kind with these values, found by the first label among them and filtered by the others."""
        first = next((name for name in labels if name in labels_of(record_type)), None)
        if first is None:
            found = self._by_type.get(record_type, {})
        else:
            found = self._by_label.get((record_type, first, labels[first]), {})
        for read in found.values():
            assert isinstance(read.record, record_type), "a shelf is sorted by type"
            if all(getattr(read.record, name) == value for name, value in labels.items()):
                yield Known(read.id, read.record, read.salt, read.readers)

    def ranks(self, label: Label) -> Sequence[Rank]:
        """The states with this label, largest first, if their kind is ranked."""
        return self._by_rank.get(label, ())

    def total(self, label: Label) -> Total:
        """How many states of a ranked kind have this label, and the sum of their ranks."""
        return Total(len(self.ranks(label)), self._sums.get(label, 0))


class Available:
    """A shelf without the locked states, and with those under way added."""

    def __init__(self, shelf: Shelf, locked: Iterable[StateId] = (), under_way: Iterable[State] = ()) -> None:
        self._shelf = shelf
        self._gone = set(locked)
        self._on_top = Shelf(shelf.known, under_way, shelf.spent_as)

    def add(self, state: State) -> None:
        """Add a state, if it can be read."""
        self._on_top.put(state)

    def remove(self, state: StateId) -> None:
        """Remove a spent state.

        The cost does not depend on how many are gone: a slot may have a long chain of states.
        """
        self._gone.add(state)
        self._on_top.remove(state)

    def get(self, state: StateId) -> Known[Record] | None:
        """The state with this id, if it is available."""
        return None if self._is_gone(state) else self._on_top.read(state) or self._shelf.read(state)

    def reference(self, state: StateId) -> StateId:
        """The reference by which a transition spends this state."""
        return self._on_top.reference(state) or self._shelf.reference(state) or state

    def is_confirmed(self, state: StateId) -> bool:
        """Whether the state is on the chain, and not only under way."""
        return self._shelf.read(state) is not None

    def _is_gone(self, state: StateId) -> bool:
        return state in self._gone or self.reference(state) in self._gone

    def where(
        self, record_type: type[R], holds: Callable[[R], bool] = lambda _: True, /, **labels: object
    ) -> tuple[Known[R], ...]:
        """All states of a kind with these values for which this holds: `where(Coin, owner=alice)`."""
        found = {state.id: state for shelf in (self._shelf, self._on_top) for state in shelf.find(record_type, labels)}
        return tuple(state for ref, state in found.items() if not self._is_gone(ref) and holds(state.record))

    def largest_first(self, record_type: type[R], label: str, value: object, /) -> Iterator[Known[R]]:
        """The states of a ranked kind with this label, largest first.

        The cost depends on the states that the caller takes and on the locked ones, not on all that are held.
        """
        wanted = (record_type, label, value)
        beneath = (rank for rank in self._shelf.ranks(wanted) if self._on_top.read(rank[1]) is None)
        for _, state in merge(self._on_top.ranks(wanted), beneath):
            read = self.get(state)
            if read is not None:
                assert isinstance(read.record, record_type), "a shelf is sorted by type"
                yield Known(read.id, read.record, read.salt, read.readers)

    def total(self, record_type: type[Record], label: str, value: object, /) -> Total:
        """How many states of a ranked kind with this label are available, and the sum of their ranks.

        The cost depends on the locked states and those under way, not on those held: an owner may have any number of
        coins.
        """
        wanted = (record_type, label, value)
        count, worth = self._shelf.total(wanted)
        hidden = {each for gone in self._gone for each in self._shelf.spent_by(gone)} | set(self._on_top)
        for state in hidden:
            read = self._shelf.read(state)
            if read is not None and wanted in _ranked_labels_in(read.record):
                count, worth = count - 1, worth + _rank_of(read)[0]
        for rank, state in self._on_top.ranks(wanted):
            if not self._is_gone(state):
                count, worth = count + 1, worth - rank
        return Total(count, worth)

    def is_withheld(self, record_type: type[Record], /, **labels: object) -> bool:
        """Whether such a state exists but another transaction is about to spend it; its successor is not there yet."""
        return any(self._is_gone(state.id) for state in self._shelf.find(record_type, labels))

    def query(self, record_type: type[R], query: Query) -> tuple[Known[R], ...]:
        """The states of a kind that match a client's query, in its order."""
        return query.select(self.where(record_type), lambda state: state.record)


def labels_of(record_type: type[Record]) -> tuple[str, ...]:
    """The attributes by which states of a kind are found."""
    known = _LABELS.get(record_type)
    if known is None:
        named = (field.attribute for field in fields_of(record_type) if field.name in record_type.labels)
        known = _LABELS[record_type] = tuple(named)
    return known


def _labels_in(record: Record) -> Iterator[Label]:
    kind = type(record)
    return ((kind, name, getattr(record, name)) for name in labels_of(kind))


def _ranked_labels_in(record: Record) -> Iterator[Label]:
    ranked_by = record.ranked_by
    return (label for label in _labels_in(record) if label[1] != ranked_by) if ranked_by else iter(())


def _rank_of(state: Known[Record]) -> Rank:
    worth = getattr(state.record, state.record.ranked_by)
    assert isinstance(worth, int), "states are ranked by a number"
    return -worth, state.id


def readable(known: Mapping[str, type[Record]], state: State) -> Content | None:
    """The content of a state; None when its bytes are not here or this domain cannot read them."""
    if state.content is None:
        return None
    try:
        return unseal(known, state.content)
    except Rejected:
        return None


def known_in(known: Mapping[str, type[Record]], state: State) -> Known[Record] | None:
    """The decoded state, if it can be read and is one; an output that only carries infos is none."""
    content = readable(known, state)
    if content is None or content.record is None:
        return None
    return Known(state.id, content.record, content.salt, content.readers)


@dataclass(frozen=True, slots=True)
class Selection(Generic[R_co]):
    """Coins that cover an amount, and the change."""

    coins: tuple[Known[R_co], ...]
    total: int
    change: int


def cover(coins: Iterable[Known[R]], amount: int, worth: Callable[[R], int], count_max: int) -> Selection[R] | None:
    """The fewest of these coins that cover an amount; None if `count_max` of them do not."""
    return cover_in_order(sorted(coins, key=lambda coin: (-worth(coin.record), coin.id)), amount, worth, count_max)


def cover_in_order(
    coins: Iterable[Known[R]], amount: int, worth: Callable[[R], int], count_max: int
) -> Selection[R] | None:
    """The first coins that cover an amount; None if `count_max` of them do not.

    With the largest first these are the fewest. The change of one transfer is likely to be the largest coin for the
    next, so that transfers in a row build on one another, which costs least on the ledger.
    """
    chosen: list[Known[R]] = []
    total = 0
    for coin in coins:
        if total >= amount or len(chosen) == count_max:
            break
        chosen.append(coin)
        total += worth(coin.record)
    return Selection(tuple(chosen), total, total - amount) if total >= amount else None
