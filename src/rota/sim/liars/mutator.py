"""Changes one field of a message to another value of its type.

It is generic: it walks whatever records, named tuples, lists and enumerations a message is made of, by their type
hints. A field may become a boundary value, an id or a name of another, random bytes, or, if it is a list, shorter,
longer or in another order. What the codec would not write or read is drawn again.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from random import Random
from typing import Any, NamedTuple, NewType, TypeAlias, Union, get_args, get_origin, get_type_hints

from rota.messages import Envelope
from rota.sim.frames import acceptable
from rota.sim.liars.notebook import Notebook
from rota.types import CONDITION_BYTES, ContractAddress, Digest, IntentId, Leaf, NodeName, Party

NUMBERS = (0, 1, 2, 255, 2**31, 2**62, 2**63 - 1)
TEXTS = ("", "x", "a text", "y" * 4_000)
REPEATED = 40
ATTEMPTS = 6
DEPTH_MAX = 8
# What other versions have said is opaque; the version is the transport's.
LEFT_ALONE = frozenset({"unknown", "protocol_version"})

# Values and types of all kinds: what they are is found out here.
Value: TypeAlias = Any
Hint: TypeAlias = Any
Path: TypeAlias = tuple[int | str, ...]


class Place(NamedTuple):
    """A value inside a message: how to get to it, and of which type it is."""

    path: Path
    value: Value
    hint: Hint


class Mutator:
    """Changes messages by chance, the same for the same seed."""

    def __init__(self, random: Random, rate: float, names: tuple[NodeName, ...], notebook: Notebook) -> None:
        self.random = random
        self.rate = rate
        self.names = names
        self.book = notebook

    def mutate(self, envelope: Envelope) -> Envelope:
        """The message with one field changed, by chance; else the message itself."""
        if self.random.random() >= self.rate:
            return envelope
        return self.changed(envelope)

    def changed(self, envelope: Envelope) -> Envelope:
        """The message with one field changed; the message itself if no change was found that a codec reads."""
        places = [*_places((), envelope, Envelope), *_places(("body",), envelope.body, type(envelope.body))]
        places = [place for place in places if place.path and place.path != ("body",)]
        for _ in range(ATTEMPTS):
            place = self.random.choice(places)
            try:
                made: Envelope = _with(envelope, place.path, self._another(place.value, place.hint))
            except (AssertionError, ValueError, TypeError):
                continue
            accepted = acceptable(made)
            if accepted is not None and accepted != envelope:
                return accepted
        return envelope

    # Values.

    def _another(self, value: Value, hint: Hint) -> Value:
        kinds = [kind for kind in _alternatives(hint) if kind is not type(None)]
        if len(kinds) < len(_alternatives(hint)) and value is not None and self.random.random() < 0.3:
            return None
        return self._of(self.random.choice(kinds) if kinds else hint, value)

    def _of(self, hint: Hint, value: Value) -> Value:
        """A value of a type, other than this one if that is easy."""
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
        if choice == 1:
            return value[:place] + value[place + 1 :]
        if choice == 2:
            return (*value, value[place])
        if choice == 3:
            return tuple(reversed(value))
        return () if choice == 4 else value * REPEATED

    def _record(self, hint: Hint, depth: int) -> Value:
        """A record of this type with whatever in its fields."""
        assert depth < DEPTH_MAX, "records do not hold themselves"
        hints = _hints(hint)
        return hint(**{name: self._another(None, kind) for name, kind in hints.items() if name not in LEFT_ALONE})

    # Names and ids.

    def node(self) -> NodeName:
        """Somebody, or nobody."""
        return self.random.choice((*self.names, NodeName("nowhere")))

    def party(self) -> Party:
        """A party of somebody."""
        return Party(f"user@{self.node()}")

    def contract(self) -> ContractAddress:
        """Another contract, or an address without one."""
        addresses = tuple(self.book.contracts)
        return self.random.choice((*addresses, ContractAddress("0x" + self.random.randbytes(20).hex())))

    def intent(self) -> IntentId:
        """An intent of somebody, or one that nobody has."""
        known = tuple(self.book.intents)[-20:]
        return self.random.choice((*known, IntentId(self.random.randbytes(16))))

    def leaf(self) -> Leaf:
        """A leaf that somebody made, or nobody."""
        known = tuple(self.book.transitions)[-20:]
        return self.random.choice((*known, Leaf(self.random.randbytes(32))))

    def digest(self) -> Digest:
        """A round that is known, or none."""
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


_HINTS: dict[type, dict[str, Hint]] = {}

# Places.


def _places(path: Path, value: Value, hint: Hint) -> Iterator[Place]:
    """Every value inside a value."""
    yield Place(path, value, hint)
    if value is None or len(path) > DEPTH_MAX:
        return
    if _origin(hint) in (Union, types.UnionType):
        hint = next((kind for kind in get_args(hint) if _is_of(value, kind)), hint)
    if _origin(hint) is tuple:
        arguments = get_args(hint)
        is_list = len(arguments) == 2 and arguments[1] is Ellipsis
        for number, item in enumerate(value):
            yield from _places((*path, number), item, arguments[0] if is_list else arguments[number])
    elif (
        (is_record(type(value)) and path != ("body",) and not isinstance(value, Envelope))
        or isinstance(value, Envelope)
        or path == ("body",)
    ):
        yield from _fields_of(path, value)


def _fields_of(path: Path, value: Value) -> Iterator[Place]:
    for name, kind in _hints(type(value)).items():
        if name not in LEFT_ALONE and not (isinstance(value, Envelope) and name == "body"):
            yield from _places((*path, name), getattr(value, name), kind)


def _origin(hint: Hint) -> Hint:
    return get_origin(hint)


def is_record(kind: type) -> bool:
    """A dataclass or a named tuple."""
    return is_dataclass(kind) or (issubclass(kind, tuple) and hasattr(kind, "_fields"))


def _is_of(value: Value, kind: Hint) -> bool:
    while isinstance(kind, NewType):
        kind = kind.__supertype__
    plain = _origin(kind) or kind
    return isinstance(plain, type) and isinstance(value, plain)


def _alternatives(hint: Hint) -> tuple[Value, ...]:
    return get_args(hint) if _origin(hint) in (Union, types.UnionType) else (hint,)


def _hints(kind: type) -> dict[str, Hint]:
    """The fields of a record with their types, worked out once."""
    known = _HINTS.get(kind)
    if known is not None:
        return known
    hints = get_type_hints(kind)
    names = [field.name for field in fields(kind)] if is_dataclass(kind) else list(kind._fields)  # type: ignore[attr-defined]
    _HINTS[kind] = {name: hints[name] for name in names}
    return _HINTS[kind]


def _with(value: Value, path: Path, changed: Value) -> Value:
    """A value with another one at that place in it."""
    if not path:
        return changed
    step, *rest = path
    if isinstance(step, int):
        return (*value[:step], _with(value[step], tuple(rest), changed), *value[step + 1 :])
    inner = _with(getattr(value, step), tuple(rest), changed)
    if isinstance(value, tuple):
        return value._replace(**{step: inner})  # type: ignore[attr-defined]
    return replace(value, **{step: inner})
