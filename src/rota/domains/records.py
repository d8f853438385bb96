"""Records: the typed values of a domain, each with a published schema.

Users' requests, contracts' configurations and the contents of private states are all records: frozen
dataclasses whose annotations name Ethereum's ABI types. The class alone determines its definition in the ABI, a lenient
reader of users' input, and one canonical form.

    accept(Coin, {"owner": "bob@node2", "amount": "0x64"})    what users write; unknown fields are ignored
    shown(coin)      {"owner": "bob@node2", "amount": "100"}  as the API shows it
    packed(coin)     ["bob@node2", "100"]                     canonical, in the order of the fields
    unpacked(Coin, ["bob@node2", "100"])                      its inverse, and it takes nothing else

A field with a default may be left out by users. In written records numbers are decimal text and bytes are lower-case
0x hex, so that one record has one form.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Annotated, Any, ClassVar, Final, Generic, NewType, TypeVar, get_args, get_origin, get_type_hints

import msgspec

from rota.model.digests import keccak
from rota.model.types import ContractAddress, Party
from rota.model.types import Rejected as Rejected

LIST_MAX: Final = 255
TEXT_BYTES_MAX: Final = 524_288
JSON_BYTES_MAX: Final = 524_288
OCTETS_MAX: Final = 131_072
DEPTH_MAX: Final = 8

Uint8 = Annotated[int, "uint8"]
Uint64 = Annotated[int, "uint64"]
Uint256 = Annotated[int, "uint256"]
Bytes32 = Annotated[bytes, "bytes32"]
# Any JSON from a user, kept as text: for values with a form of their own, such as an ABI.
Json = NewType("Json", str)

_DECIMAL: Final = re.compile("[0-9]{1,78}")
_HEX_NUMBER: Final = re.compile("0[xX][0-9a-fA-F]{1,64}")
_HEX: Final = re.compile("(?:0[xX])?([0-9a-fA-F]*)")


# As many entries as there are record classes.
_FIELDS: Final[dict[type[Record], tuple[Field, ...]]] = {}


class Record:
    """A frozen dataclass with ABI types as annotations; `lock_id` is `lockId` outside, and `from_` is `from`.

    `schema_name` is the name of its schema if that is not the class's own; queries find states by their `labels`.
    `ranked_by` names an integer attribute: states with the same label can then be taken largest first.
    `incidental` names fields that do not change the meaning of a request, such as a gas limit.
    `addressed` names fields with parties that clients know by address (`addressed.py`).
    `later` names the last fields, where a later version added them: the canonical form leaves them out while they have
    their defaults, so that records of an earlier version keep their form.
    """

    __slots__ = ()
    schema_name: ClassVar[str] = ""
    labels: ClassVar[tuple[str, ...]] = ()
    ranked_by: ClassVar[str] = ""
    incidental: ClassVar[tuple[str, ...]] = ()
    addressed: ClassVar[tuple[str, ...]] = ()
    later: ClassVar[tuple[str, ...]] = ()

    def derived(self) -> dict[str, object]:
        """What clients see of it besides its fields."""
        return {}


R = TypeVar("R", bound=Record)
V = TypeVar("V")


class Kind(Generic[V]):
    """How the values of one ABI type are read and written."""

    abi: str
    components: tuple[Field, ...] = ()

    def accept(self, path: str, given: object) -> V:
        """The value of a user's input. `Rejected` names the path."""
        raise NotImplementedError

    def shown(self, value: V) -> object:
        """The value as JSON, with names."""
        return value

    def packed(self, value: V) -> object:
        """The value as JSON, by position."""
        return self.shown(value)

    def unpacked(self, path: str, given: object) -> V:
        """The inverse of `packed`; `Rejected` for any other form."""
        value = self.accept(path, given)
        if self.shown(value) != given or type(given) is not type(self.shown(value)):
            raise Rejected(path, f"must be written as {self.shown(value)!r}")
        return value


@dataclass(frozen=True, slots=True)
class Field:
    """A named value of a record."""

    name: str
    attribute: str
    kind: Kind[Any]
    default: Any = MISSING

    def value_in(self, record: Record) -> object:
        """Its value in a record."""
        value: object = getattr(record, self.attribute)
        return value

    def definition(self) -> dict[str, object]:
        """The field in the form of the ABI."""
        written: dict[str, object] = {"name": self.name, "type": self.kind.abi}
        if self.kind.components:
            written["components"] = [component.definition() for component in self.kind.components]
        return written


@dataclass(frozen=True, slots=True)
class Schema:
    """The schema of a kind of states: its id is the hash of its signature (client API)."""

    name: str
    fields: tuple[Field, ...]
    labels: tuple[str, ...]

    @property
    def signature(self) -> str:
        """The text that identifies the schema."""
        named = ",".join(f"{canonical_type(field.kind)} {field.name}" for field in self.fields)
        return f"type={self.name}({named}),labels=[{','.join(self.labels)}]"

    @property
    def id(self) -> bytes:
        """The hash of the signature: 32 bytes."""
        return keccak(self.signature.encode())

    def definition(self) -> dict[str, object]:
        """The schema as a struct of the ABI; labels are marked as indexed."""
        components = [
            field.definition() | ({"indexed": True} if field.name in self.labels else {}) for field in self.fields
        ]
        return {"name": self.name, "type": "tuple", "internalType": f"struct {self.name}", "components": components}


def canonical_type(kind: Kind[Any]) -> str:
    """The ABI's name of a type with its components spelled out."""
    if not kind.components:
        return kind.abi
    inner = ",".join(canonical_type(component.kind) for component in kind.components)
    return f"({inner}){kind.abi.removeprefix('tuple')}"


# Reading and writing whole records.


def accept(record_type: type[R], given: object, path: str = "") -> R:
    """The record of a user's input: an object, or a list in the order of the fields. `Rejected` names the fault."""
    if given is None:
        given = {}
    if isinstance(given, Mapping):
        return _accept_named(record_type, given, path)
    if isinstance(given, Sequence) and not isinstance(given, str | bytes):
        known = fields_of(record_type)
        if len(given) > len(known):
            raise Rejected(path, f"must have at most {len(known)} values, not {len(given)}")
        return _accept_named(record_type, {field.name: value for field, value in zip(known, given, strict=False)}, path)
    raise Rejected(path, "must be an object or a list of values")


def shown(record: Record) -> dict[str, object]:
    """The record as the API shows it."""
    return {field.name: field.kind.shown(field.value_in(record)) for field in fields_of(type(record))}


def packed(record: Record) -> list[object]:
    """The values in the order of the fields: the canonical form."""
    known = fields_of(type(record))
    if record.later:
        while known[-1].name in record.later and known[-1].value_in(record) == known[-1].default:
            known = known[:-1]
    return [field.kind.packed(field.value_in(record)) for field in known]


def unpacked(record_type: type[R], given: object, path: str = "") -> R:
    """The record of this canonical form. `Rejected` when it is not one."""
    known = fields_of(record_type)
    if not isinstance(given, list) or not len(known) - len(record_type.later) <= len(given) <= len(known):
        raise Rejected(path, f"must be a list of {len(known)} values")
    known = known[: len(given)]
    values = (field.kind.unpacked(_join(path, field.name), each) for field, each in zip(known, given, strict=True))
    made = _made(record_type, dict(zip((field.attribute for field in known), values, strict=True)), path)
    if record_type.later and len(packed(made)) != len(given):
        raise Rejected(path, "must leave out later values that are the defaults")
    return made


def parameters(record_type: type[Record]) -> list[dict[str, object]]:
    """The list of parameters in the form of the ABI."""
    return [field.definition() for field in fields_of(record_type)]


def selector_text(name: str, record_type: type[Record]) -> str:
    """A function's signature, such as `transfer(string,uint256,bytes)`."""
    return f"{name}({','.join(canonical_type(field.kind) for field in fields_of(record_type))})"


def fields_of(record_type: type[Record]) -> tuple[Field, ...]:
    """The fields of a record class, derived from its annotations and cached."""
    known = _FIELDS.get(record_type)
    if known is None:
        hints = get_type_hints(record_type, include_extras=True)
        known = tuple(
            Field(name_outside(field.name), field.name, _kind_of(hints[field.name], 0), field.default)
            for field in fields(record_type)  # type: ignore[arg-type]
        )
        _FIELDS[record_type] = known
    return known


def name_outside(attribute: str) -> str:
    """The ABI's name of an attribute: without underscores, and with a capital after each."""
    first, *others = attribute.rstrip("_").split("_")
    return first + "".join(word.capitalize() for word in others)


def _accept_named(record_type: type[R], given: Mapping[str, object], path: str) -> R:
    values: dict[str, object] = {}
    for field in fields_of(record_type):
        value = given.get(field.name)
        where = _join(path, field.name)
        if value is not None:
            values[field.attribute] = field.kind.accept(where, value)
        elif field.default is MISSING:
            raise Rejected(where, "is missing")
    return _made(record_type, values, path)


def _made(record_type: type[R], values: dict[str, object], path: str) -> R:
    """A record may check rules of its own, and raise `ValueError`. Any exception means `Rejected`."""
    try:
        return record_type(**values)
    except Exception as error:
        raise Rejected(path, str(error)) from None


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


# The kinds of values.


class Boolean(Kind[bool]):
    """True or false; configurations may write it as text."""

    abi = "bool"

    def accept(self, path: str, given: object) -> bool:
        """A boolean, or its name."""
        if isinstance(given, bool):
            return given
        if isinstance(given, str) and given.lower() in ("true", "false"):
            return given.lower() == "true"
        raise Rejected(path, "must be true or false")


class Unsigned(Kind[int]):
    """A whole number of `bits` bits."""

    def __init__(self, bits: int) -> None:
        self.abi = f"uint{bits}"
        self.bits = bits

    def accept(self, path: str, given: object) -> int:
        """A number, or decimal or 0x text."""
        match given:
            case bool():
                raise Rejected(path, "must be a whole number, not true or false")
            case int():
                number = given
            case str() if _DECIMAL.fullmatch(given):
                number = int(given)
            case str() if _HEX_NUMBER.fullmatch(given):
                number = int(given, 16)
            case _:
                raise Rejected(path, "must be a whole number, as such or as decimal or 0x text")
        if not 0 <= number < 1 << self.bits:
            raise Rejected(path, f"must be from 0 to 2^{self.bits} - 1")
        return number

    def shown(self, value: int) -> str:
        """Decimal text, because JSON's numbers end at 53 bits."""
        return str(value)


class Octets(Kind[bytes]):
    """Bytes: `size` of them, or up to `OCTETS_MAX`."""

    def __init__(self, size: int | None) -> None:
        self.abi = "bytes" if size is None else f"bytes{size}"
        self.size = size

    def accept(self, path: str, given: object) -> bytes:
        """Hex digits, with or without 0x."""
        match = _HEX.fullmatch(given) if isinstance(given, str) and len(given) <= 2 * OCTETS_MAX + 2 else None
        if match is None or len(match[1]) % 2:
            raise Rejected(path, f"must be 0x and pairs of hex digits, at most {OCTETS_MAX} of them")
        content = bytes.fromhex(match[1])
        if self.size is not None and len(content) != self.size:
            raise Rejected(path, f"must be {self.size} bytes, not {len(content)}")
        return content

    def shown(self, value: bytes) -> str:
        """0x and lower-case digits."""
        return "0x" + value.hex()


class Text(Kind[str]):
    """Text of at most `TEXT_BYTES_MAX` bytes."""

    abi = "string"

    def accept(self, path: str, given: object) -> str:
        """Text that can be written in UTF-8."""
        if not isinstance(given, str):
            raise Rejected(path, "must be text")
        if len(given.encode(errors="surrogatepass")) > TEXT_BYTES_MAX:
            raise Rejected(path, f"must be at most {TEXT_BYTES_MAX} bytes of text")
        if not given.isascii() and any("\ud800" <= letter <= "\udfff" for letter in given):
            raise Rejected(path, "must be text without lone surrogates")
        return given


class JsonText(Kind[Json]):
    """JSON, as such or as text, of at most `JSON_BYTES_MAX` bytes. Whether text is JSON is for its reader to check."""

    abi = "string"

    def accept(self, path: str, given: object) -> Json:
        """Text, or a value that is encoded as JSON."""
        try:
            written = given if isinstance(given, str) else msgspec.json.encode(given).decode()
            size = len(written.encode())
        except (msgspec.MsgspecError, TypeError, ValueError, RecursionError, UnicodeError):
            raise Rejected(path, "must be JSON") from None
        if size > JSON_BYTES_MAX:
            raise Rejected(path, f"must be at most {JSON_BYTES_MAX} bytes of JSON")
        return Json(written)


class Address(Kind[ContractAddress]):
    """An Ethereum address, written in lower case."""

    abi = "address"

    def accept(self, path: str, given: object) -> ContractAddress:
        """0x and 40 hex digits, in any case."""
        match = _HEX.fullmatch(given) if isinstance(given, str) else None
        if match is None or len(match[1]) != 40:
            raise Rejected(path, "must be an address: 0x and 40 hex digits")
        return ContractAddress("0x" + match[1].lower())


class ListOf(Kind[tuple[Any, ...]]):
    """Several values of one kind, at most `LIST_MAX`."""

    def __init__(self, item: Kind[Any]) -> None:
        self.abi = item.abi + "[]"
        self.item = item
        self.components = item.components

    def accept(self, path: str, given: object) -> tuple[Any, ...]:
        """A list."""
        return tuple(self.item.accept(f"{path}[{n}]", each) for n, each in enumerate(self._items(path, given)))

    def shown(self, value: tuple[Any, ...]) -> list[object]:
        """The list of the shown items."""
        return [self.item.shown(each) for each in value]

    def packed(self, value: tuple[Any, ...]) -> list[object]:
        """A list of canonical forms."""
        return [self.item.packed(each) for each in value]

    def unpacked(self, path: str, given: object) -> tuple[Any, ...]:
        """The inverse of `packed`."""
        return tuple(self.item.unpacked(f"{path}[{n}]", each) for n, each in enumerate(self._items(path, given)))

    def _items(self, path: str, given: object) -> list[object]:
        if not isinstance(given, list) or len(given) > LIST_MAX:
            raise Rejected(path, f"must be a list of at most {LIST_MAX} values")
        return given


class TupleOf(Kind[Record]):
    """A record inside a record."""

    abi = "tuple"

    def __init__(self, record_type: type[Record]) -> None:
        self.record_type = record_type
        self.components = fields_of(record_type)

    def accept(self, path: str, given: object) -> Record:
        """An object or a list."""
        return accept(self.record_type, given, path)

    def shown(self, value: Record) -> dict[str, object]:
        """An object."""
        return shown(value)

    def packed(self, value: Record) -> list[object]:
        """A list."""
        return packed(value)

    def unpacked(self, path: str, given: object) -> Record:
        """The inverse of `packed`."""
        return unpacked(self.record_type, given, path)


_SIMPLE: Final[Mapping[object, Kind[Any]]] = {
    bool: Boolean(),
    str: Text(),
    Party: Text(),
    Json: JsonText(),
    bytes: Octets(None),
    ContractAddress: Address(),
}


def _kind_of(hint: object, depth: int) -> Kind[Any]:
    """The kind of an annotation; an annotation that is no ABI type is a programming error."""
    assert depth < DEPTH_MAX, f"records are nested at most {DEPTH_MAX} deep"
    if isinstance(hint, type) and issubclass(hint, Record):
        return TupleOf(hint)
    if get_origin(hint) is tuple:
        item, rest = get_args(hint)
        assert rest is Ellipsis, "a list is annotated as tuple[X, ...]"
        return ListOf(_kind_of(item, depth + 1))
    if get_origin(hint) is Annotated:
        base, abi = get_args(hint)[:2]
        return Unsigned(int(abi.removeprefix("uint"))) if base is int else Octets(int(abi.removeprefix("bytes")))
    kind = _SIMPLE.get(hint) if isinstance(hint, type | NewType) else None
    assert kind is not None, f"{hint!r} is not the type of a record's field"
    return kind
