"""Changes one field of a message to another value of its type, as the table of claims classifies it (`node/claims.py`).

It walks all records, named tuples, lists and enumerations in a message by their type hints. It draws a field of the
table, preferring those changed least; then one of its places in the message; then a value. A *Verified* field gets a
value that was true in an earlier message, an id or name of another node, or random bytes: only its check can detect
them. A *Bounded* one gets a boundary value, or a list that is much longer or empty. A *Harmless* one gets any value. A
message that the codec cannot write or read is discarded and drawn again.

It counts the fields changed in messages that honest nodes received; a campaign should cover all fields.
"""

from __future__ import annotations

import types
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from random import Random
from typing import Any, NamedTuple, NewType, TypeAlias, Union, get_args, get_origin, get_type_hints

from rota.model.types import CONDITION_BYTES, ContractAddress, Digest, IntentId, Leaf, NodeName, Party, RequestId
from rota.node.claims import CLAIMS, Bounded, Claim, Verified
from rota.sim.frames import acceptable
from rota.sim.liars.notebook import Notebook
from rota.wire.messages import Envelope, Message

NUMBERS = (0, 1, 2, 255, 2**31, 2**62, 2**63 - 1)
TEXTS = ("", "x", "a text", "y" * 4_000)
REPEATED = 40
ATTEMPTS = 6
DEPTH_MAX = 8
# A change draws this many fields and takes the one changed least.
DRAWN = 4
TRUE_KEPT_MAX = 8
REPLAYED = 0.4
ON_ITS_WAY_MAX = 10_000
# The first messages of each kind, up to this many, are changed more often, so that rare kinds are covered.
RARE = 20
RARELY_SENT = 0.5
# Fields of unknown protocol versions are opaque; the version itself belongs to the transport.
OPAQUE = frozenset({"unknown", "protocol_version"})

# Values and types of any kind, inspected at run time.
Value: TypeAlias = Any
Hint: TypeAlias = Any
Path: TypeAlias = tuple[int | str, ...]


class Pair(NamedTuple):
    """A field in the table of claims: the name of its record, and its own name."""

    record: str
    field: str


class Place(NamedTuple):
    """A value inside a message: its path, its type, and the field of the table that holds it."""

    path: Path
    value: Value
    hint: Hint
    pair: Pair | None


class Mutator:
    """Changes messages at random, and identically for the same seed."""

    def __init__(self, random: Random, rate: float, names: tuple[NodeName, ...], notebook: Notebook) -> None:
        self.random = random
        self.rate = rate
        self.names = names
        self.book = notebook
        self.counts: Counter[Pair] = Counter()
        self.kinds: Counter[type[Message]] = Counter()
        self.reached: set[Pair] = set()
        self._true: dict[tuple[Pair, Hint], deque[Value]] = {}
        self._claim: Claim | None = None
        self._invented: set[Pair] = set()
        # The fields that may be changed, and those of the latest change: one field, and all fields of invented records.
        self.pairs = CHANGEABLE
        self.latest: frozenset[Pair] = frozenset()
        self._on_its_way: dict[tuple[NodeName, RequestId], frozenset[Pair]] = {}

    def mutate(self, peer: NodeName, envelope: Envelope) -> Envelope:
        """The message with one field changed, with probability `rate`; else the message itself."""
        kind = type(envelope.body)
        is_rare = self.rate > 0 and self.kinds[kind] < RARE
        if self.random.random() >= (max(self.rate, RARELY_SENT) if is_rare else self.rate):
            return envelope
        self.kinds[kind] += 1
        made = self.changed(envelope)
        if made is not envelope:
            key = (peer, made.message_id)
            self._on_its_way[key] = self.latest | self._on_its_way.get(key, frozenset())
            if len(self._on_its_way) > ON_ITS_WAY_MAX:
                del self._on_its_way[next(iter(self._on_its_way))]
        return made

    def arrived(self, peer: NodeName, envelope: Envelope) -> None:
        """Called when an honest node has received a message of this liar."""
        self.reached |= self._on_its_way.pop((peer, envelope.message_id), frozenset())

    def changed(self, envelope: Envelope) -> Envelope:
        """The message with one field changed; the message itself if the codec rejects every change tried."""
        by_pair: dict[Pair, list[Place]] = {}
        for place in (*_places((), envelope, Envelope), *_places(("body",), envelope.body, type(envelope.body))):
            if place.pair in self.pairs:
                by_pair.setdefault(place.pair, []).append(place)
        for _ in range(ATTEMPTS if by_pair else 0):
            pair = min(self.random.sample(tuple(by_pair), min(len(by_pair), DRAWN)), key=lambda each: self.counts[each])
            place = self.random.choice(by_pair[pair])
            # Counted before the codec accepts it, so that a field that cannot be written is not drawn again and again.
            self.counts[pair] += 1
            made = self._with_another(envelope, place, pair)
            if made is not None:
                return made
        return envelope

    def _with_another(self, envelope: Envelope, place: Place, pair: Pair) -> Envelope | None:
        self._claim, self._invented = CLAIM_OF[pair], {pair}
        true = self._true.setdefault((pair, place.hint), deque(maxlen=TRUE_KEPT_MAX))
        others = [each for each in true if each != place.value] if isinstance(self._claim, Verified) else []
        true.append(place.value)
        try:
            is_replayed = bool(others) and self.random.random() < REPLAYED
            value = self.random.choice(others) if is_replayed else self._another(place.value, place.hint)
            made: Envelope = _with(envelope, place.path, value)
        except (AssertionError, ValueError, TypeError):
            return None
        accepted = acceptable(made)
        if accepted is None or accepted == envelope:
            return None
        self.latest = frozenset(self._invented)
        return accepted

    # Values.

    def _another(self, value: Value, hint: Hint) -> Value:
        kinds = [kind for kind in _alternatives(hint) if kind is not type(None)]
        if len(kinds) < len(_alternatives(hint)) and value is not None and self.random.random() < 0.3:
            return None
        return self._of(self.random.choice(kinds) if kinds else hint, value)

    def _of(self, hint: Hint, value: Value) -> Value:
        """A value of a type, different from this one if that is easy."""
        made = _NEW_TYPES.get(hint)
        if made is not None:
            return made(self)
        if isinstance(hint, NewType):
            return self._of(hint.__supertype__, value)
        if _origin(hint) is tuple:
            return self._list(hint, value if isinstance(value, tuple) else ())
        if hint is bool:
            return not value
        if hint is int:
            number = value if isinstance(value, int) else 0
            if isinstance(self._claim, Bounded):
                return self.random.choice(NUMBERS)
            return self.random.choice((*NUMBERS, max(0, number - 1), number + 1))
        if hint is bytes:
            size = len(value) if isinstance(value, bytes) else CONDITION_BYTES
            return self.random.choice((self.random.randbytes(size), bytes(size), b""))
        if hint is str:
            return self.random.choice(TEXTS)
        if isinstance(hint, type) and issubclass(hint, Enum):
            return self.random.choice(tuple(hint))
        return self._record(hint, 0)

    def _list(self, hint: Hint, value: tuple[Value, ...]) -> tuple[Value, ...]:
        arguments = get_args(hint)
        if len(arguments) != 2 or arguments[1] is not Ellipsis:
            return tuple(self._of(kind, None) for kind in arguments)
        choice = self.random.randrange(6)
        place = self.random.randrange(len(value)) if value else 0
        if choice == 0 or not value:
            return (*value, self._of(arguments[0], None))
        if isinstance(self._claim, Bounded):
            return value * REPEATED if choice < 4 else ()
        if choice == 1:
            return value[:place] + value[place + 1 :]
        if choice == 2:
            return (*value, value[place])
        if choice == 3:
            return tuple(reversed(value))
        return () if choice == 4 else value * REPEATED

    def _record(self, hint: Hint, depth: int) -> Value:
        """A record of this type with arbitrary values in its fields."""
        assert depth < DEPTH_MAX, "records do not hold themselves"
        hints = _hints(hint)
        self._invented.update(Pair(hint.__name__, name) for name in hints)
        return hint(**{name: self._another(None, kind) for name, kind in hints.items() if name not in OPAQUE})

    # Names and ids.

    def node(self) -> NodeName:
        """A node of the world, or one that does not exist."""
        return self.random.choice((*self.names, NodeName("nowhere")))

    def party(self) -> Party:
        """A party at a node of the world, or at one that does not exist."""
        return Party(f"user@{self.node()}")

    def contract(self) -> ContractAddress:
        """A known contract, or a random address without one."""
        addresses = tuple(self.book.contracts)
        return self.random.choice((*addresses, ContractAddress("0x" + self.random.randbytes(20).hex())))

    def intent(self) -> IntentId:
        """A known intent, or a random id."""
        known = tuple(self.book.intents)[-20:]
        return self.random.choice((*known, IntentId(self.random.randbytes(16))))

    def leaf(self) -> Leaf:
        """The leaf of a known transition, or a random one."""
        known = tuple(self.book.transitions)[-20:]
        return self.random.choice((*known, Leaf(self.random.randbytes(32))))

    def digest(self) -> Digest:
        """The digest of a known round, or a random one."""
        known = tuple(self.book.rounds)[-20:]
        return self.random.choice((*known, Digest(self.random.randbytes(32))))


_NEW_TYPES: dict[Hint, Callable[[Mutator], Value]] = {
    NodeName: Mutator.node,
    Party: Mutator.party,
    ContractAddress: Mutator.contract,
    IntentId: Mutator.intent,
    Leaf: Mutator.leaf,
    Digest: Mutator.digest,
}


# Every field that a peer sends, with its claim.
CLAIM_OF: dict[Pair, Claim] = {
    Pair(record.__name__, name): claim for record, claims in CLAIMS.items() for name, claim in claims.items()
}
# The codec takes the contract of an intent from the envelope; the body is changed field by field.
_ELSEWHERE = (Pair("Envelope", "body"), Pair("Intent", "contract"))
LEFT_ALONE = frozenset(pair for pair in CLAIM_OF if pair.field in OPAQUE or pair in _ELSEWHERE)
# Contracts exist when a seed begins, and group messages and holdings bypass the core, so no seed sends these.
NOT_PLAYED = frozenset(
    pair
    for pair in CLAIM_OF
    if pair.record.startswith(("Deployment", "Contract", "Genesis", "GroupMessage", "Holding"))
)
CHANGEABLE = frozenset(CLAIM_OF) - LEFT_ALONE
PAIRS = CHANGEABLE - NOT_PLAYED

_HINTS: dict[type, dict[str, Hint]] = {}

# Places.


def _places(path: Path, value: Value, hint: Hint, pair: Pair | None = None) -> Iterator[Place]:
    """Every value inside a value; items of a list belong to the field that holds the list."""
    yield Place(path, value, hint, pair)
    if value is None or len(path) > DEPTH_MAX:
        return
    if _origin(hint) in (Union, types.UnionType):
        hint = next((kind for kind in get_args(hint) if _is_of(value, kind)), hint)
    if _origin(hint) is tuple:
        arguments = get_args(hint)
        is_list = len(arguments) == 2 and arguments[1] is Ellipsis
        for number, item in enumerate(value):
            yield from _places((*path, number), item, arguments[0] if is_list else arguments[number], pair)
    elif (
        (is_record(type(value)) and path != ("body",) and not isinstance(value, Envelope))
        or isinstance(value, Envelope)
        or path == ("body",)
    ):
        yield from _fields_of(path, value)


def _fields_of(path: Path, value: Value) -> Iterator[Place]:
    for name, kind in _hints(type(value)).items():
        if not (isinstance(value, Envelope) and name == "body"):
            yield from _places((*path, name), getattr(value, name), kind, Pair(type(value).__name__, name))


def _origin(hint: Hint) -> Hint:
    return get_origin(hint)


def is_record(kind: type) -> bool:
    """Whether a type is a dataclass or a named tuple."""
    return is_dataclass(kind) or (issubclass(kind, tuple) and hasattr(kind, "_fields"))


def _is_of(value: Value, kind: Hint) -> bool:
    while isinstance(kind, NewType):
        kind = kind.__supertype__
    plain = _origin(kind) or kind
    return isinstance(plain, type) and isinstance(value, plain)


def _alternatives(hint: Hint) -> tuple[Value, ...]:
    return get_args(hint) if _origin(hint) in (Union, types.UnionType) else (hint,)


def _hints(kind: type) -> dict[str, Hint]:
    """The fields of a record with their types; cached."""
    known = _HINTS.get(kind)
    if known is not None:
        return known
    hints = get_type_hints(kind)
    names = [field.name for field in fields(kind)] if is_dataclass(kind) else list(kind._fields)  # type: ignore[attr-defined]
    _HINTS[kind] = {name: hints[name] for name in names}
    return _HINTS[kind]


def _with(value: Value, path: Path, changed: Value) -> Value:
    """A copy of a value with the value at `path` replaced."""
    if not path:
        return changed
    step, *rest = path
    if isinstance(step, int):
        return (*value[:step], _with(value[step], tuple(rest), changed), *value[step + 1 :])
    inner = _with(getattr(value, step), tuple(rest), changed)
    if isinstance(value, tuple):
        return value._replace(**{step: inner})  # type: ignore[attr-defined]
    return replace(value, **{step: inner})
