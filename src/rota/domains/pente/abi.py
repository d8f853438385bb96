"""Ethereum's ABI, from and to JSON: what users write for a private contract, and what it answers.

An entry is one object of a contract's ABI: a constructor, function, event or error. Users give its inputs as a list or
an object, in the lenient way of the client API: numbers as such or as decimal or 0x text, bytes as hex. Answers are
objects with decimal numbers and lower-case hex; a value without a name is known by its place.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from eth_abi.abi import decode, encode
from eth_abi.exceptions import DecodingError, EncodingError, InsufficientDataBytes, ParseError

from rota.digests import keccak
from rota.domains.records import Rejected

PARAMETERS_MAX: Final = 256
ITEMS_MAX: Final = 65_536
DEPTH_MAX: Final = 16
SELECTOR_BYTES: Final = 4
ENTRIES_MAX: Final = 1_024

_ARRAY: Final = re.compile(r"(.*)\[([0-9]{0,9})\]")
_INTEGER: Final = re.compile(r"(u?)int([0-9]{0,3})")
_FIXED_BYTES: Final = re.compile(r"bytes([0-9]{1,2})")
_NUMBER: Final = re.compile(r"-?(?:[0-9]{1,78}|0[xX][0-9a-fA-F]{1,64})")
_HEX: Final = re.compile(r"(?:0[xX])?([0-9a-fA-F]*)")

# Solidity's own errors, and what the number of a panic means.
_TEXT_ERROR: Final = keccak(b"Error(string)")[:SELECTOR_BYTES]
_PANIC: Final = keccak(b"Panic(uint256)")[:SELECTOR_BYTES]
_PANICS: Final = {
    0x00: "generic panic",
    0x01: "an assertion is false",
    0x11: "arithmetic overflow or underflow",
    0x12: "division by zero",
    0x21: "a value is not of its enum",
    0x22: "a stored byte array is badly encoded",
    0x31: "pop on an empty array",
    0x32: "an index is out of bounds",
    0x41: "too much memory",
    0x51: "a function that was not initialised is called",
}


@dataclass(frozen=True, slots=True)
class Parameter:
    """A value that an entry takes or gives. A tuple has components, also inside an array."""

    name: str
    type: str
    components: tuple[Parameter, ...] = ()

    @property
    def canonical(self) -> str:
        """The type with its components spelled out."""
        if not self.type.startswith("tuple"):
            return _ALIASES.get(self.type, self.type)
        inner = ",".join(component.canonical for component in self.components)
        return f"({inner}){self.type.removeprefix('tuple')}"


_ALIASES: Final = {"uint": "uint256", "int": "int256"}


@dataclass(frozen=True, slots=True)
class Entry:
    """A constructor, function, event or error."""

    kind: str
    name: str
    inputs: tuple[Parameter, ...]
    outputs: tuple[Parameter, ...]

    @property
    def signature(self) -> str:
        """Such as `transfer(address,uint256)`."""
        return f"{self.name}({','.join(each.canonical for each in self.inputs)})"

    @property
    def selector(self) -> bytes:
        """The four bytes by which it is known in call and revert data."""
        return keccak(self.signature.encode())[:SELECTOR_BYTES]


# Reading entries.


def read_entry(text: str, field: str) -> Entry:
    """One entry, as JSON. `Rejected` names what is wrong."""
    return _entry(_json(text, field), field)


def read_errors(text: str, field: str) -> tuple[Entry, ...]:
    """The errors among the entries of an ABI, as a JSON list."""
    given = _json(text, field) if text else []
    if not isinstance(given, list) or len(given) > ENTRIES_MAX:
        raise Rejected(field, f"must be a list of at most {ENTRIES_MAX} entries of an ABI")
    entries = (_entry(each, f"{field}[{n}]") for n, each in enumerate(given))
    return tuple(entry for entry in entries if entry.kind == "error")


def _json(text: str, field: str) -> object:
    try:
        return msgspec.json.decode(text.encode())
    except (msgspec.MsgspecError, RecursionError, UnicodeEncodeError) as error:
        raise Rejected(field, f"must be JSON: {error}") from None


def _entry(given: object, field: str) -> Entry:
    if not isinstance(given, Mapping):
        raise Rejected(field, "must be an entry of an ABI, which is an object")
    kind, name = given.get("type") or "function", given.get("name") or ""
    if not isinstance(kind, str) or not isinstance(name, str):
        raise Rejected(field, "must have a type and a name that are text")
    inputs = _parameters(given.get("inputs"), f"{field}.inputs", 0)
    return Entry(kind, name, inputs, _parameters(given.get("outputs"), f"{field}.outputs", 0))


def _parameters(given: object, field: str, depth: int) -> tuple[Parameter, ...]:
    listed = given if given is not None else []
    if not isinstance(listed, list) or len(listed) > PARAMETERS_MAX or depth > DEPTH_MAX:
        raise Rejected(field, f"must be a list of at most {PARAMETERS_MAX} parameters, nested at most {DEPTH_MAX} deep")
    return tuple(_parameter(each, f"{field}[{n}]", depth) for n, each in enumerate(listed))


def _parameter(given: object, field: str, depth: int) -> Parameter:
    kind = given.get("type") if isinstance(given, Mapping) else None
    if not isinstance(given, Mapping) or not isinstance(kind, str):
        raise Rejected(f"{field}.type", "must be the name of an ABI type")
    name = given.get("name")
    inner = _parameters(given.get("components"), f"{field}.components", depth + 1)
    return Parameter(name if isinstance(name, str) else "", kind, inner)


# Encoding what users write.


def encode_input(parameters: Sequence[Parameter], text: str, field: str) -> bytes:
    """The values that a user writes as JSON, encoded. `Rejected` names what is wrong."""
    given = _json(text, field) if text else None
    values = _values(parameters, given, field, 0)
    try:
        return encode([each.canonical for each in parameters], values)
    except (EncodingError, ParseError, ValueError, TypeError) as error:
        raise Rejected(field, str(error)) from None


def read_hex(text: str, field: str) -> bytes:
    """Bytes as hex text, with or without quotes of JSON."""
    match = _HEX.fullmatch(text.strip('"'))
    if match is None or len(match[1]) % 2:
        raise Rejected(field, "must be 0x and pairs of hex digits, or come with a function")
    return bytes.fromhex(match[1])


def _values(parameters: Sequence[Parameter], given: object, field: str, depth: int) -> tuple[object, ...]:
    if given is None and not parameters:
        return ()
    if isinstance(given, Mapping):
        # Fields that are not known are ignored, as those of tuples are (client API).
        missing = next((n for n, each in enumerate(parameters) if _key(each, n) not in given), None)
        if missing is not None:
            raise Rejected(f"{field}.{_key(parameters[missing], missing)}", "is missing")
        given = [given[_key(each, n)] for n, each in enumerate(parameters)]
    if not isinstance(given, list) or len(given) != len(parameters) or depth > DEPTH_MAX:
        raise Rejected(field, f"must be a list or an object of {len(parameters)} values")
    return tuple(
        _value(each, each.type, value, f"{field}.{_key(each, n)}", depth)
        for n, (each, value) in enumerate(zip(parameters, given, strict=True))
    )


def _key(parameter: Parameter, place: int) -> str:
    return parameter.name or str(place)


def _value(parameter: Parameter, kind: str, given: object, field: str, depth: int) -> object:
    if array := _ARRAY.fullmatch(kind):
        size = int(array[2]) if array[2] else None
        if not isinstance(given, list) or len(given) > ITEMS_MAX or (size is not None and len(given) != size):
            raise Rejected(field, f"must be a list of {ITEMS_MAX if size is None else size} values or fewer")
        return [_value(parameter, array[1], each, f"{field}[{n}]", depth + 1) for n, each in enumerate(given)]
    if kind == "tuple":
        return _values(parameter.components, given, field, depth + 1)
    if integer := _INTEGER.fullmatch(kind):
        return _whole_number(given, field, bits=int(integer[2] or 256), is_unsigned=bool(integer[1]))
    if kind == "bool":
        return _boolean(given, field)
    if kind == "string":
        if not isinstance(given, str):
            raise Rejected(field, "must be text")
        return given
    if kind == "address":
        return _bytes(given, field, 20)
    if kind == "bytes":
        return _bytes(given, field, None)
    if fixed := _FIXED_BYTES.fullmatch(kind):
        return _bytes(given, field, int(fixed[1]))
    raise Rejected(field, f"is of a type that is not known: {kind}")


def _whole_number(given: object, field: str, bits: int, is_unsigned: bool) -> int:
    if isinstance(given, bool) or not (
        isinstance(given, int) or (isinstance(given, str) and _NUMBER.fullmatch(given) is not None)
    ):
        raise Rejected(field, "must be a whole number, as such or as decimal or 0x text")
    number = int(given, 16 if "x" in given.lower() else 10) if isinstance(given, str) else given
    least, most = (0, 2**bits - 1) if is_unsigned else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    if not least <= number <= most:
        raise Rejected(field, f"must be a number of {bits} bits{'' if is_unsigned else ', signed'}")
    return number


def _boolean(given: object, field: str) -> bool:
    if isinstance(given, bool):
        return given
    if isinstance(given, str) and given.lower() in ("true", "false"):
        return given.lower() == "true"
    raise Rejected(field, "must be true or false")


def _bytes(given: object, field: str, size: int | None) -> bytes:
    match = _HEX.fullmatch(given) if isinstance(given, str) else None
    if match is None or len(match[1]) % 2 or (size is not None and len(match[1]) != 2 * size):
        raise Rejected(field, f"must be 0x and {'pairs of' if size is None else 2 * size} hex digits")
    return bytes.fromhex(match[1])


# Showing what contracts answer.


def decode_output(parameters: Sequence[Parameter], output: bytes, field: str) -> dict[str, object]:
    """What a function returned, by name or place. `Rejected` when it is not what the entry says."""
    return dict(zip(_keys(parameters), _shown_all(parameters, _decoded(parameters, output, field)), strict=True))


def explain_revert(output: bytes, errors: Sequence[Entry]) -> str:
    """What a contract said when it took a message back: Solidity's text, a panic, or an error of its own."""
    selector, content = output[:SELECTOR_BYTES], output[SELECTOR_BYTES:]
    if not output:
        return "reverted without a reason"
    try:
        if selector == _TEXT_ERROR:
            return str(decode(["string"], content)[0])
        if selector == _PANIC:
            code = decode(["uint256"], content)[0]
            return f"Panic(0x{code:02x}): {_PANICS.get(code, 'unknown panic')}"
        for error in errors:
            if error.selector == selector:
                return f"{error.name}({', '.join(_texts(error.inputs, content))})"
    except (DecodingError, InsufficientDataBytes, UnicodeDecodeError, OverflowError, Rejected):
        return f"reverted with 0x{output.hex()}, which is badly encoded"
    return f"reverted with 0x{output.hex()}"


def _texts(parameters: Sequence[Parameter], content: bytes) -> list[str]:
    shown = _shown_all(parameters, _decoded(parameters, content, "error"))
    return [
        f'"{each}"' if parameter.type == "string" else each if isinstance(each, str) else _json_text(each)
        for parameter, each in zip(parameters, shown, strict=True)
    ]


def _json_text(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _decoded(parameters: Sequence[Parameter], content: bytes, field: str) -> tuple[Any, ...]:
    try:
        return decode([each.canonical for each in parameters], content)
    except (DecodingError, InsufficientDataBytes, ParseError, UnicodeDecodeError, OverflowError, ValueError) as error:
        raise Rejected(field, f"is not what the function's outputs say: {error}") from None


def _keys(parameters: Sequence[Parameter]) -> list[str]:
    return [_key(each, n) for n, each in enumerate(parameters)]


def _shown_all(parameters: Sequence[Parameter], values: Sequence[Any]) -> list[object]:
    return [_shown(each, each.type, value) for each, value in zip(parameters, values, strict=True)]


def _shown(parameter: Parameter, kind: str, value: object) -> object:
    if array := _ARRAY.fullmatch(kind):
        assert isinstance(value, tuple | list), "arrays are decoded as such"
        return [_shown(parameter, array[1], each) for each in value]
    if kind == "tuple":
        assert isinstance(value, tuple), "tuples are decoded as such"
        return dict(zip(_keys(parameter.components), _shown_all(parameter.components, value), strict=True))
    match value:
        case bool():
            return value
        case bytes():
            return "0x" + value.hex()
        case _:
            return str(value)
