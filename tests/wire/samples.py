"""Messages made from their types: random ones, and full ones in which no field has its default.

Both are built from the annotations in messages.py and types.py, so that a message or a field that is added there
and not to the codec fails the round trip.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from itertools import count
from types import NoneType, UnionType
from typing import Any, Final, TypeAlias, Union, get_args, get_origin, get_type_hints

from hypothesis import strategies as st

from rota.model import types
from rota.wire import messages
from rota.wire.messages import PROTOCOL_VERSION, Envelope, Message

# What stands behind a colon in a class, and what is made from it: no narrower type fits all of them.
Annotation: TypeAlias = Any
Value: TypeAlias = Any

UNIONS: Final = (Union, UnionType)
CONTRACT: Final = types.ContractAddress("0x" + "c0" * 20)
NUMBER_MAX: Final = 2**63 - 1

# The module is asked, and not `Message.__subclasses__()`: a slotted dataclass is a second class of the same name.
MESSAGE_TYPES: Final[tuple[type[Message], ...]] = tuple(
    value
    for _, value in inspect.getmembers(messages, inspect.isclass)
    if issubclass(value, Message) and value not in {Message, messages.Reply}
)

# Fields whose annotation says less than the protocol does.
WORD_FIELDS: Final = {
    (types.State, "commitment"),
    (types.Transition, "info"),
    (types.Preparation, "condition"),
    (messages.SubmittedIntent, "hash"),
}

# Fields that no version has, one of each wire type: number 1000 and a group of number 1001.
UNKNOWN_FIELDS: Final = (
    b"\xc0\x3e\x2a",
    b"\xc1\x3e" + b"12345678",
    b"\xc2\x3e\x05hello",
    b"\xc5\x3e" + b"1234",
    b"\xcb\x3e\x08\x01\xcc\x3e",
)
NAME_FIELDS: Final = {(messages.ListedIntent, "state"), (messages.SubmittedIntent, "signer")}


class Word(bytes):
    """Stands for 32 bytes in place of an annotation."""


class Nonce(bytes):
    """Stands for a nonce in place of an annotation."""


class Unknown(bytes):
    """Stands for fields that no version has in place of an annotation."""


class Name(str):
    """Stands for a name in place of an annotation."""


@cache
def fields_of(kind: type) -> Mapping[str, Any]:
    """The fields of a dataclass or named tuple, with the annotations that they would have if types said it all."""
    hints = get_type_hints(kind)
    if is_dataclass(kind):
        # What belongs to the class, such as the name of the id that a reply answers, is no field and does not travel.
        hints = {field.name: hints[field.name] for field in fields(kind)}
    for owner, name in WORD_FIELDS:
        if owner is kind:
            hints[name] = tuple[Word, ...] if origin_of(hints[name]) is tuple else Word
    if "nonce" in hints and kind is types.Intent:
        hints["nonce"] = Nonce
    if "nonces" in hints:
        hints["nonces"] = tuple[Nonce, ...]
    if "unknown" in hints:
        hints["unknown"] = Unknown
    for owner, name in NAME_FIELDS:
        if owner is kind:
            hints[name] = Name
    return hints


def origin_of(kind: Annotation) -> object:
    return get_origin(kind)


def is_record(kind: object) -> bool:
    return is_dataclass(kind) or hasattr(kind, "_fields")


# Random ones.

# Letters of one to four bytes: to draw from all of Unicode costs seconds, and finds nothing more.
NAMES: Final = st.text("aZ09@.-_ éß漢😀", min_size=1, max_size=12)
NUMBERS: Final = st.integers(0, NUMBER_MAX)
STRATEGIES: Final[Mapping[object, st.SearchStrategy[Any]]] = {
    int: NUMBERS,
    bool: st.booleans(),
    str: st.text("aZ09 \n\0éß漢😀", max_size=12),
    bytes: st.binary(max_size=40),
    Word: st.binary(min_size=32, max_size=32),
    Nonce: st.binary(max_size=16),
    Unknown: st.lists(st.sampled_from(UNKNOWN_FIELDS), max_size=3).map(b"".join),
    Name: NAMES,
    types.NodeName: NAMES,
    types.Party: NAMES,
    types.ContractAddress: st.just(CONTRACT),
    types.IntentId: st.binary(min_size=16, max_size=16),
    types.Leaf: st.binary(min_size=32, max_size=32),
    types.Digest: st.binary(min_size=32, max_size=32),
    types.BlockHash: st.binary(min_size=32, max_size=32),
    types.StateId: st.builds(types.StateId, st.binary(min_size=32, max_size=32), st.integers(0, 255)),
    types.Call: st.builds(types.Call, st.just(CONTRACT), st.integers(0, types.CALL_GAS_MAX), st.binary(max_size=40)),
}


# What a change of a lock has depends on its kind.
_LOCK_WORDS: Final = st.binary(min_size=32, max_size=32)
LOCK_CHANGES: Final = st.one_of(
    st.builds(
        types.LockChange,
        kind=st.just(types.LockKind.SET),
        lock=_LOCK_WORDS,
        presumed=st.just(CONTRACT),
        delegate=st.just(CONTRACT),
        expires_at_s=st.integers(0, types.LOCK_EXPIRY_MAX),
        spends=_LOCK_WORDS,
        cancels=_LOCK_WORDS,
    ),
    st.builds(
        types.LockChange,
        kind=st.just(types.LockKind.DELEGATE),
        lock=_LOCK_WORDS,
        presumed=st.just(CONTRACT),
        delegate=st.just(CONTRACT),
    ),
    st.builds(
        types.LockChange,
        kind=st.sampled_from((types.LockKind.SPENT, types.LockKind.CANCELLED, types.LockKind.RELEASE)),
        lock=_LOCK_WORDS,
        presumed=st.just(CONTRACT),
    ),
    st.builds(
        types.LockChange,
        kind=st.just(types.LockKind.HOLD),
        lock=_LOCK_WORDS,
        presumed=st.just(CONTRACT),
        delegate=st.just(CONTRACT),
        expires_at_s=st.integers(0, types.LOCK_EXPIRY_MAX),
    ),
)


def random_values(kind: Annotation) -> st.SearchStrategy[Any]:
    """Any value that an honest node may send of this type."""
    return _random_values(kind)


@cache
def _random_values(kind: Annotation) -> st.SearchStrategy[Any]:
    """Made once: to make a strategy costs more than to draw."""
    if kind in STRATEGIES:
        return STRATEGIES[kind]
    if kind is types.LockChange:
        return LOCK_CHANGES
    if origin_of(kind) in UNIONS:
        return st.one_of(*(st.none() if part is NoneType else random_values(part) for part in get_args(kind)))
    if origin_of(kind) is tuple:
        return st.lists(random_values(get_args(kind)[0]), max_size=2).map(tuple)
    if issubclass(kind, Enum):
        return st.sampled_from(list(kind))
    if kind is messages.EndorsementRequest:
        return st.one_of(*map(_random_rounds, range(3)))
    return st.builds(kind, **{name: random_values(part) for name, part in fields_of(kind).items()})


@cache
def _random_rounds(size: int) -> st.SearchStrategy[Any]:
    """Rounds of so many members."""
    fields = {name: random_values(part) for name, part in fields_of(messages.EndorsementRequest).items()}
    for name, part in (("senders", types.Party), ("transitions", types.Transition), ("nonces", Nonce)):
        fields[name] = st.lists(random_values(part), min_size=size, max_size=size).map(tuple)
    attesters = st.lists(random_values(types.Attesters), min_size=size, max_size=size).map(tuple)
    # Where no member has attesters, there are none of the round.
    fields["attesters"] = attesters.map(lambda some: some if any(each != types.NO_ATTESTERS for each in some) else ())
    return st.builds(messages.EndorsementRequest, **fields)


@cache
def random_envelopes(bodies: st.SearchStrategy[Message]) -> st.SearchStrategy[Envelope]:
    """Envelopes of our own version for one contract."""
    ids = random_values(types.RequestId)
    return st.builds(
        Envelope,
        contract=st.just(CONTRACT),
        message_id=ids,
        incarnation=NUMBERS,
        height=NUMBERS,
        body=bodies,
        no_ledger=st.booleans(),
        correlation_id=st.none() | ids,
        protocol_version=st.just(PROTOCOL_VERSION),
    )


# Full ones.


def full_value(kind: Annotation) -> Value:
    """A value of this type in which every field is there, is not its default, and is unlike the others."""
    return _made(kind, count(1), is_full=True)


def lean_value(kind: Annotation) -> Value:
    """The same, without all that may be missing."""
    return _made(kind, count(1), is_full=False)


def _made(kind: Annotation, numbers: Iterator[int], *, is_full: bool) -> Value:
    if kind is Unknown and not is_full:
        return b""
    if kind in _FULL:
        return _FULL[kind](next(numbers))
    if origin_of(kind) in UNIONS:
        there = next(part for part in get_args(kind) if part is not NoneType)
        return _made(there, numbers, is_full=is_full) if is_full else None
    if origin_of(kind) is tuple:
        return tuple(_made(get_args(kind)[0], numbers, is_full=is_full) for _ in range(2))
    if issubclass(kind, Enum):
        return list(kind)[-1]
    assert is_record(kind), f"tests/wire/samples.py does not know how to make a {kind}"
    return kind(**{name: _made(part, numbers, is_full=is_full) for name, part in fields_of(kind).items()})


def full_envelope(kind: type[Message]) -> Envelope:
    """A full message in a full envelope."""
    first, second = types.RequestId(7, 8), types.RequestId(9, 10)
    return Envelope(CONTRACT, first, 11, 12, full_value(kind), True, second)


def lean_envelope(kind: type[Message]) -> Envelope:
    """A message and an envelope without all that may be missing."""
    return Envelope(CONTRACT, types.RequestId(7, 8), 11, 12, lean_value(kind))


_FULL: Final[Mapping[object, Callable[[int], Any]]] = {
    int: lambda number: number,
    bool: lambda _: True,
    str: lambda number: f"text {number}",
    bytes: lambda number: b"bytes %d" % number,
    Word: lambda number: number.to_bytes(32, "big"),
    Nonce: lambda number: bytes([number]) * 16,
    Unknown: lambda number: UNKNOWN_FIELDS[number % len(UNKNOWN_FIELDS)],
    Name: lambda number: f"name{number}",
    types.NodeName: lambda number: f"node{number}",
    types.Party: lambda number: f"party@node{number}",
    types.ContractAddress: lambda _: CONTRACT,
    types.IntentId: lambda number: number.to_bytes(16, "big"),
    types.Leaf: lambda number: number.to_bytes(32, "big"),
    types.Digest: lambda number: number.to_bytes(32, "big"),
    types.BlockHash: lambda number: number.to_bytes(32, "big"),
    types.LockChange: lambda number: types.LockChange(
        kind=types.LockKind.SET,
        lock=number.to_bytes(32, "big"),
        presumed=types.ContractAddress("0x" + "d0" * 20),
        delegate=CONTRACT,
        expires_at_s=number,
        spends=types.Leaf((number + 1).to_bytes(32, "big")),
        cancels=types.Leaf((number + 2).to_bytes(32, "big")),
    ),
}
