"""Ethereum's ABI, from and to JSON: users' values for a contract, and a contract's outputs, events and errors.

An entry is one object of a contract's ABI: a constructor, function, event or error. Users give its inputs as a list or
an object, in the lenient way of the client API: numbers as such or as decimal or 0x text, bytes as hex, unknown fields
ignored. Answers are objects with decimal numbers and lower-case hex; the key of a value without a name is its
position. A `Style` shows the same values in another notation.

The encoding itself is done by eth-abi. Faults are `Rejected` with the path of the value.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import parse_qsl

import msgspec
from eth_abi.abi import encode
from eth_abi.exceptions import EncodingError, ParseError

from rota.abi.decoding import Undecodable, decode, require_few
from rota.model.digests import keccak
from rota.model.json_text import NotJson, read_json
from rota.model.types import Rejected

PARAMETERS_MAX: Final = 256
ITEMS_MAX: Final = 65_536
DEPTH_MAX: Final = 16
SELECTOR_BYTES: Final = 4
TOPIC_BYTES: Final = 32
ENTRIES_MAX: Final = 4_096
TYPE_CHARACTERS_MAX: Final = 64
NAME_CHARACTERS_MAX: Final = 1_024
KINDS: Final = ("function", "constructor", "event", "error", "fallback", "receive")

_ARRAY: Final = re.compile(r"(.*)\[([0-9]{0,9})\]")
_INTEGER: Final = re.compile(r"(u?)int([0-9]{0,3})")
_FIXED_BYTES: Final = re.compile(r"bytes([0-9]{1,2})")
_SHORT_INTEGER: Final = re.compile(r"(u?int)(?=\[|$)")
_NUMBER: Final = re.compile(r"-?(?:[0-9]{1,78}|0[xX][0-9a-fA-F]{1,64})")
_HEX: Final = re.compile(r"(?:0[xX])?([0-9a-fA-F]*)")
_STRUCT: Final = re.compile(r"struct (?:[\w$]+\.)*([\w$]+)(?:\[[0-9]*\])*")
_SIGNATURE_HEAD: Final = re.compile(r"(?:function\s+)?([\w$]+)\s*\(")


# The meaning of the number of a panic.
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
    """A value that an entry takes or returns. A tuple has components, also inside an array."""

    name: str
    type: str
    components: tuple[Parameter, ...] = ()
    is_indexed: bool = False
    internal_type: str = ""

    @property
    def canonical(self) -> str:
        """The type with its components spelled out."""
        if not self.type.startswith("tuple"):
            return _SHORT_INTEGER.sub(r"\g<1>256", self.type)
        inner = ",".join(component.canonical for component in self.components)
        return f"({inner}){self.type.removeprefix('tuple')}"

    @property
    def solidity(self) -> str:
        """As Solidity declares it, such as `address indexed from`; a struct by its name where that is known."""
        struct = _STRUCT.fullmatch(self.internal_type)
        if struct is not None and self.type.startswith("tuple"):
            kind = struct[1] + self.type.removeprefix("tuple")
        else:
            kind = self.canonical
        return " ".join(word for word in (kind, "indexed" if self.is_indexed else "", self.name) if word)


@dataclass(frozen=True, slots=True)
class Entry:
    """A constructor, function, event or error."""

    kind: str
    name: str
    inputs: tuple[Parameter, ...]
    outputs: tuple[Parameter, ...] = ()
    is_anonymous: bool = False
    mutability: str = ""

    @property
    def signature(self) -> str:
        """Such as `transfer(address,uint256)`."""
        return f"{self.name}({','.join(each.canonical for each in self.inputs)})"

    @property
    def solidity_signature(self) -> str:
        """Such as `event Transfer(address indexed from, address indexed to, uint256 value)`."""
        head = f"{self.kind} {self.name}" if self.name else self.kind
        return f"{head}({', '.join(each.solidity for each in self.inputs)})"

    @property
    def topic(self) -> bytes:
        """The 32 bytes that identify an event that is not anonymous."""
        return keccak(self.signature.encode())

    @property
    def selector(self) -> bytes:
        """The four bytes that identify it in call and revert data."""
        return self.topic[:SELECTOR_BYTES]


# Solidity's own errors.
TEXT_ERROR: Final = Entry("error", "Error", (Parameter("message", "string"),))
PANIC: Final = Entry("error", "Panic", (Parameter("code", "uint256"),))


# Reading entries.


def read_entry(text: str, field: str) -> Entry:
    """One entry, as JSON. `Rejected` names the fault."""
    return entry_of(_json(text, field), field)


def read_errors(text: str, field: str) -> tuple[Entry, ...]:
    """The errors among the entries of an ABI, as a JSON list."""
    entries = entries_of(_json(text, field) if text else [], field)
    return tuple(entry for entry in entries if entry.kind == "error")


def entries_of(given: object, field: str) -> tuple[Entry, ...]:
    """A whole ABI, as JSON values."""
    if not isinstance(given, Sequence) or isinstance(given, str | bytes) or len(given) > ENTRIES_MAX:
        raise Rejected(field, f"must be a list of at most {ENTRIES_MAX} entries of an ABI")
    return tuple(entry_of(each, f"{field}[{n}]") for n, each in enumerate(given))


def entry_of(given: object, field: str) -> Entry:
    """One entry, as JSON values."""
    if not isinstance(given, Mapping):
        raise Rejected(field, "must be an entry of an ABI, which is an object")
    kind, name = given.get("type") or "function", given.get("name") or ""
    if not isinstance(kind, str) or not isinstance(name, str) or len(name) > NAME_CHARACTERS_MAX:
        raise Rejected(field, f"must have a type and a name that are text, of at most {NAME_CHARACTERS_MAX} characters")
    if kind not in KINDS:
        raise Rejected(f"{field}.type", f"must be one of {', '.join(KINDS)}, not {kind[:NAME_CHARACTERS_MAX]!r}")
    inputs = _parameters(given.get("inputs"), f"{field}.inputs", 0)
    outputs = _parameters(given.get("outputs"), f"{field}.outputs", 0)
    mutability = given.get("stateMutability")
    return Entry(
        kind,
        name,
        inputs,
        outputs,
        given.get("anonymous") is True,
        mutability if isinstance(mutability, str) and len(mutability) <= TYPE_CHARACTERS_MAX else "",
    )


def definition_of(entry: Entry) -> dict[str, object]:
    """The entry in the form of the ABI. Reading this form gives the same entry."""
    written: dict[str, object] = {"type": entry.kind}
    if entry.name:
        written["name"] = entry.name
    if entry.mutability:
        written["stateMutability"] = entry.mutability
    if entry.is_anonymous:
        written["anonymous"] = True
    written["inputs"] = [_definition(each, is_event=entry.kind == "event") for each in entry.inputs]
    if entry.kind == "function":
        written["outputs"] = [_definition(each, is_event=False) for each in entry.outputs]
    return written


def hash_of(entries: Sequence[Entry]) -> bytes:
    """The 32 bytes that identify an ABI: the same for the same entries in any order and notation."""
    written = sorted(msgspec.json.encode(definition_of(entry)) for entry in entries)
    return keccak(b"[" + b",".join(written) + b"]")


def find_function(entries: Sequence[Entry], wanted: str, field: str) -> Entry:
    """The function with this name or signature; with an empty text, the only function. `Rejected` otherwise."""
    functions = [entry for entry in entries if entry.kind == "function"]
    if not wanted.strip():
        if len(functions) != 1:
            raise Rejected(field, f"must be given, by its name or its signature: the ABI has {len(functions)}")
        return functions[0]
    signature = _canonical_signature(wanted.strip())
    name = wanted.strip().removeprefix("function ").strip()
    found = [entry for entry in functions if entry.signature == signature or (not signature and entry.name == name)]
    distinct = {entry.signature: entry for entry in found}
    if len(distinct) > 1:
        raise Rejected(field, f"must be a signature, as the name is not enough: {', '.join(sorted(distinct))}")
    if not distinct:
        raise Rejected(field, f"must be a function of the ABI, not {wanted[:NAME_CHARACTERS_MAX]!r}")
    return next(iter(distinct.values()))


def find_constructor(entries: Sequence[Entry]) -> Entry:
    """The constructor; an ABI without one gets one without parameters."""
    return next((entry for entry in entries if entry.kind == "constructor"), Entry("constructor", "", ()))


def _canonical_signature(written: str) -> str:
    """A signature without parameter names and anything behind it; empty when it is only a name."""
    head = _SIGNATURE_HEAD.match(written)
    if head is None:
        return ""
    depth = 1
    for end in range(head.end(), len(written)):
        depth += (written[end] == "(") - (written[end] == ")")
        if depth == 0:
            return f"{head[1]}({','.join(_types_of(written[head.end() : end]))})"
    return ""


def _types_of(written: str) -> list[str]:
    """The types in a list of parameters that may have names."""
    types, depth, begun = [], 0, ""
    for letter in written:
        depth += (letter == "(") - (letter == ")")
        if letter == "," and depth == 0:
            types.append(begun)
            begun = ""
        else:
            begun += letter
    listed = [*types, begun] if begun.strip() or types else []
    return [_SHORT_INTEGER.sub(r"\g<1>256", _type_of(each)) for each in listed]


def _type_of(written: str) -> str:
    text = written.strip().removeprefix("tuple")
    if not text.startswith("(") or ")" not in text:
        return text.split()[0] if text else ""
    end = text.rindex(")")
    inner = ",".join(_types_of(text[1:end]))
    rest = text[end + 1 :].split()
    return f"({inner}){rest[0] if rest and rest[0].startswith('[') else ''}"


def _json(text: str, field: str) -> object:
    try:
        return read_json(text)
    except NotJson as error:
        raise Rejected(field, f"must be JSON: {error}") from None


def _parameters(given: object, field: str, depth: int) -> tuple[Parameter, ...]:
    listed = given if given is not None else []
    if not isinstance(listed, list) or len(listed) > PARAMETERS_MAX or depth > DEPTH_MAX:
        raise Rejected(field, f"must be a list of at most {PARAMETERS_MAX} parameters, nested at most {DEPTH_MAX} deep")
    return tuple(_parameter(each, f"{field}[{n}]", depth) for n, each in enumerate(listed))


def _parameter(given: object, field: str, depth: int) -> Parameter:
    kind = given.get("type") if isinstance(given, Mapping) else None
    if not isinstance(given, Mapping) or not isinstance(kind, str) or len(kind) > TYPE_CHARACTERS_MAX:
        raise Rejected(f"{field}.type", f"must be the name of an ABI type, of at most {TYPE_CHARACTERS_MAX} characters")
    inner = _parameters(given.get("components"), f"{field}.components", depth + 1)
    name, internal_type = _short(given.get("name")), _short(given.get("internalType"))
    return Parameter(name, kind, inner, given.get("indexed") is True, internal_type)


def _short(given: object) -> str:
    return given if isinstance(given, str) and len(given) <= NAME_CHARACTERS_MAX else ""


def _definition(parameter: Parameter, is_event: bool) -> dict[str, object]:
    written: dict[str, object] = {"name": parameter.name, "type": parameter.type}
    if parameter.internal_type:
        written["internalType"] = parameter.internal_type
    if is_event:
        written["indexed"] = parameter.is_indexed
    if parameter.components:
        written["components"] = [_definition(each, is_event=False) for each in parameter.components]
    return written


# Encoding users' values.


def encode_input(parameters: Sequence[Parameter], text: str, field: str) -> bytes:
    """Encode a user's values, given as JSON. `Rejected` names the fault."""
    return encode_values(parameters, _json(text, field) if text else None, field)


def encode_values(parameters: Sequence[Parameter], given: object, field: str) -> bytes:
    """Encode a user's values, given as a list or an object."""
    require_few(given, field)
    try:
        return encode([each.canonical for each in parameters], _values(parameters, given, field, 0))
    except (EncodingError, ParseError, ValueError, TypeError) as error:
        raise Rejected(field, str(error)) from None


def encode_call(function: Entry, given: object, field: str) -> bytes:
    """The data of a call: the function's selector and its values; hex text is the call data itself."""
    if isinstance(given, str):
        return read_hex(given, field)
    return function.selector + encode_values(function.inputs, given, field)


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
        # Unknown fields are ignored, as those of tuples are (client API).
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
        isinstance(given, int)
        or (isinstance(given, float) and given.is_integer())
        or (isinstance(given, str) and _NUMBER.fullmatch(given) is not None)
    ):
        raise Rejected(field, "must be a whole number, as such or as decimal or 0x text")
    number = int(given, 16 if "x" in given.lower() else 10) if isinstance(given, str) else int(given)
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


# Showing contracts' answers.


@dataclass(frozen=True, slots=True)
class Style:
    """The notation of decoded values, in the words of the client API."""

    mode: str = "object"
    number: str = "string"
    bytes: str = "hex"
    address: str = "hex"
    is_pretty: bool = False

    @classmethod
    def parse(cls, text: str, field: str) -> Style:
        """Options as in a URL query, such as `mode=array&number=hex`. `Rejected` names the fault."""
        given = dict(parse_qsl(text.removeprefix("?"), keep_blank_values=True))
        chosen = {name: _option(name, given.get(name) or options[0], field) for name, options in _OPTIONS.items()}
        is_pretty = given.get("pretty", "false").lower() in ("", "true")
        return cls(chosen["mode"], chosen["number"], chosen["bytes"], chosen["address"], is_pretty)

    @property
    def is_plain(self) -> bool:
        """Whether values have the default notation; only the layout may differ."""
        is_hex = self.bytes in _HEX_STYLES and self.address in _HEX_STYLES
        return self.mode == "object" and self.number == "string" and is_hex

    def text(self, shown: object) -> str:
        """Decoded values as JSON text; numbers may be longer than most JSON writers accept."""
        if self.is_pretty:
            return json.dumps(shown, ensure_ascii=False, indent=2)
        return json.dumps(shown, ensure_ascii=False, separators=(",", ":"))


_OPTIONS: Final = {
    "mode": ("object", "array", "self-describing"),
    "number": ("string", "hex", "hex-0x", "number", "json-number"),
    "bytes": ("hex", "hex-0x", "hex-plain", "base64"),
    "address": ("hex", "hex-0x", "hex-plain", "checksum"),
}
_HEX_STYLES: Final = ("hex", "hex-0x")
PLAIN: Final = Style()


def _option(name: str, given: str, field: str) -> str:
    if given not in _OPTIONS[name]:
        raise Rejected(field, f"{name} must be one of {', '.join(_OPTIONS[name])}, not {given[:80]!r}")
    return given


def decode_values(parameters: Sequence[Parameter], content: bytes, field: str, style: Style = PLAIN) -> object:
    """Encoded values as JSON. `Rejected` when they do not match the parameters."""
    return _shown_all(parameters, _decoded(parameters, content, field), style)


def decode_output(parameters: Sequence[Parameter], output: bytes, field: str) -> dict[str, object]:
    """A function's output, by name or position. `Rejected` when it does not match the entry."""
    shown = decode_values(parameters, output, field)
    assert isinstance(shown, dict), "that is the plain style"
    return shown


def decode_call(function: Entry, content: bytes, field: str, style: Style = PLAIN) -> object:
    """The values of a call, or of an error: the bytes behind the selector. `Rejected` for another selector."""
    if content[:SELECTOR_BYTES] != function.selector:
        raise Rejected(field, f"must begin with 0x{function.selector.hex()}, the selector of {function.signature}")
    return decode_values(function.inputs, content[SELECTOR_BYTES:], field, style)


def decode_event(
    event: Entry, topics: Sequence[bytes], content: bytes, field: str, style: Style = PLAIN
) -> dict[str, object] | list[object]:
    """The values of an event. Indexed values are in topics; of those longer than a word a topic has only the hash."""
    indexed = [each for each in event.inputs if each.is_indexed]
    in_topics = list(topics)
    if not event.is_anonymous and (not in_topics or in_topics.pop(0) != event.topic):
        raise Rejected(field, f"must begin with 0x{event.topic.hex()}, the topic of {event.signature}")
    if len(in_topics) != len(indexed):
        raise Rejected(field, f"must have {len(indexed)} indexed values for {event.solidity_signature}")
    words = iter(in_topics)
    rest = iter(_decoded([each for each in event.inputs if not each.is_indexed], content, field))
    values: list[object] = []
    parameters: list[Parameter] = []
    for each in event.inputs:
        shown_as = each if not each.is_indexed or _is_word(each) else Parameter(each.name, "bytes32")
        parameters.append(shown_as)
        values.append(_decoded((shown_as,), next(words), field)[0] if each.is_indexed else next(rest))
    shown = _shown_all(parameters, values, style)
    assert isinstance(shown, dict | list), "several values are an object or a list"
    return shown


def explain_revert(output: bytes, errors: Iterable[Entry]) -> str:
    """The reason of a revert: a text, a panic, or an error of the contract's own; never empty."""
    if not output:
        return "reverted without a reason"
    selector, content = output[:SELECTOR_BYTES], output[SELECTOR_BYTES:]
    try:
        if selector == TEXT_ERROR.selector:
            return str(decode(["string"], content)[0]) or explain_revert(b"", ())
        if selector == PANIC.selector:
            code = decode(["uint256"], content)[0]
            return f"Panic(0x{code:02x}): {_PANICS.get(code, 'unknown panic')}"
        for error in errors:
            if error.selector == selector:
                return summary_of(error, content)
    except (Undecodable, Rejected):
        return f"reverted with 0x{output.hex()}, which is badly encoded"
    return f"reverted with 0x{output.hex()}"


def summary_of(entry: Entry, content: bytes) -> str:
    """An error or a call with its values, in one line. `Rejected` when they do not match the entry."""
    shown = _listed(entry.inputs, _decoded(entry.inputs, content, entry.kind), PLAIN)
    texts = [
        f'"{each}"' if parameter.type == "string" else each if isinstance(each, str) else PLAIN.text(each)
        for parameter, each in zip(entry.inputs, shown, strict=True)
    ]
    return f"{entry.name}({', '.join(texts)})"


def _is_word(parameter: Parameter) -> bool:
    return parameter.type in ("bool", "address") or bool(
        _INTEGER.fullmatch(parameter.type) or _FIXED_BYTES.fullmatch(parameter.type)
    )


def _decoded(parameters: Sequence[Parameter], content: bytes, field: str) -> tuple[Any, ...]:
    try:
        return decode([each.canonical for each in parameters], content)
    except Undecodable as error:
        raise Rejected(field, f"is not what the ABI says: {error}") from None


def _shown_all(parameters: Sequence[Parameter], values: Sequence[Any], style: Style) -> object:
    listed = _listed(parameters, values, style)
    match style.mode:
        case "array":
            return listed
        case "self-describing":
            return [
                {"name": _key(each, n), "type": each.canonical, "value": value}
                for n, (each, value) in enumerate(zip(parameters, listed, strict=True))
            ]
        case _:
            return {_key(each, n): value for n, (each, value) in enumerate(zip(parameters, listed, strict=True))}


def _listed(parameters: Sequence[Parameter], values: Sequence[Any], style: Style) -> list[object]:
    return [_shown(each, each.type, value, style) for each, value in zip(parameters, values, strict=True)]


def _shown(parameter: Parameter, kind: str, value: object, style: Style) -> object:
    if array := _ARRAY.fullmatch(kind):
        assert isinstance(value, tuple | list), "arrays are decoded as such"
        return [_shown(parameter, array[1], each, style) for each in value]
    if kind == "tuple":
        assert isinstance(value, tuple), "tuples are decoded as such"
        return _shown_all(parameter.components, value, style)
    match value:
        case bool():
            return value
        case int():
            return _shown_number(value, style)
        case bytes():
            return _shown_bytes(value, style)
        case str() if kind == "address":
            return _shown_address(value, style)
        case _:
            return str(value)


def _shown_number(value: int, style: Style) -> object:
    match style.number:
        case "hex" | "hex-0x":
            return hex(value)
        case "number" | "json-number":
            return value
        case _:
            return str(value)


def _shown_bytes(value: bytes, style: Style) -> str:
    match style.bytes:
        case "hex-plain":
            return value.hex()
        case "base64":
            return base64.b64encode(value).decode()
        case _:
            return "0x" + value.hex()


def _shown_address(value: str, style: Style) -> str:
    plain = value.lower().removeprefix("0x")
    match style.address:
        case "hex-plain":
            return plain
        case "checksum":
            return with_checksum(plain)
        case _:
            return "0x" + plain


def with_checksum(address: str) -> str:
    """An address with the checksum of EIP-55: a letter is a capital where the hash has a digit above 7."""
    plain = address.removeprefix("0x")
    digits = keccak(plain.encode()).hex()
    return "0x" + "".join(a.upper() if int(b, 16) > 7 else a for a, b in zip(plain, digits, strict=False))
