"""What users write is encoded as Solidity expects it, and what contracts answer is shown as clients expect it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from eth_abi.abi import decode, encode
from hypothesis import given
from hypothesis import strategies as st

from rota.abi.codec import (
    ENTRIES_MAX,
    PANIC,
    TEXT_ERROR,
    Entry,
    Parameter,
    Style,
    decode_call,
    decode_event,
    decode_output,
    decode_values,
    definition_of,
    encode_call,
    encode_input,
    entries_of,
    entry_of,
    explain_revert,
    find_constructor,
    find_function,
    hash_of,
    read_entry,
    read_errors,
    summary_of,
)
from rota.abi.decoding import VALUES_MAX
from rota.model.types import Rejected

SIMPLE = {
    "uint256": st.integers(0, 2**256 - 1),
    "uint": st.integers(0, 2**256 - 1),
    "uint8": st.integers(0, 255),
    "int256": st.integers(-(2**255), 2**255 - 1),
    "int16": st.integers(-(2**15), 2**15 - 1),
    "bool": st.booleans(),
    "string": st.text(max_size=20),
    "bytes": st.binary(max_size=40).map(lambda value: "0x" + value.hex()),
    "bytes4": st.binary(min_size=4, max_size=4).map(lambda value: "0x" + value.hex()),
    "address": st.binary(min_size=20, max_size=20).map(lambda value: "0x" + value.hex()),
}
KINDS = st.sampled_from(sorted(SIMPLE))
NAMES = st.sampled_from(("alpha", "beta", "", "delta"))
SHAPES = st.sampled_from(("simple", "simple", "array", "fixed", "tuple"))
DEPTH_MAX = 2


def shown(kind: str, value: object) -> object:
    """As answers have it: numbers are decimal text."""
    return str(value) if kind.startswith(("uint", "int")) else value


@st.composite
def parameters(draw: st.DrawFn, depth: int = 0) -> tuple[Parameter, object, object]:
    """A parameter, a value as users write it, and the same as answers show it."""
    shape = draw(SHAPES) if depth < DEPTH_MAX else "simple"
    name = draw(NAMES)
    if shape == "simple":
        kind = draw(KINDS)
        value = draw(SIMPLE[kind])
        return Parameter(name, kind), value, shown(kind, value)
    inner, value, out = draw(parameters(depth + 1))
    if shape == "tuple":
        component = Parameter(inner.name or "only", inner.type, inner.components)
        return Parameter(name, "tuple", (component,)), {component.name: value, "junk": 1}, {component.name: out}
    count = draw(st.integers(0 if shape == "array" else 1, 3))
    size = str(count) if shape == "fixed" else ""
    return Parameter(name, f"{inner.type}[{size}]", inner.components), [value] * count, [out] * count


@given(parameters(), parameters())
def test_what_is_written_is_what_is_shown(
    first: tuple[Parameter, object, object], second: tuple[Parameter, object, object]
) -> None:
    one, other = first[0], Parameter("last", second[0].type, second[0].components)
    encoded = encode_input((one, other), json.dumps([first[1], second[1]]), "input")
    assert decode_output((one, other), encoded, "output") == {one.name or "0": first[2], "last": second[2]}


@given(st.binary(max_size=300), parameters())
def test_answer_that_is_nonsense_is_an_error_value(output: bytes, wanted: tuple[Parameter, object, object]) -> None:
    try:
        decode_output((wanted[0],), output, "output")
    except Rejected:
        return


@given(st.binary(max_size=200))
def test_every_revert_is_explained(output: bytes) -> None:
    errors = read_errors(json.dumps([{"type": "error", "name": "E", "inputs": [{"type": "string"}]}]), "errors")
    for selector in (b"", errors[0].selector, bytes.fromhex("08c379a0"), bytes.fromhex("4e487b71")):
        assert explain_revert(selector + output, errors)


def test_numbers_come_in_every_form() -> None:
    wanted = (Parameter("n", "uint256"),)
    forms = ('{"n": 16}', '{"n": "16"}', '{"n": "0x10"}', '["0X10"]', "[16]")
    assert {encode_input(wanted, form, "input") for form in forms} == {encode(["uint256"], [16])}
    below_zero = encode_input((Parameter("n", "int8"),), '["-5"]', "input")
    assert decode(["int8"], below_zero) == (-5,)


def test_unnamed_values_are_known_by_their_place() -> None:
    wanted = (Parameter("", "uint8"), Parameter("b", "bool"))
    assert encode_input(wanted, '{"0": 1, "b": "true"}', "input") == encode(["uint8", "bool"], [1, True])


@pytest.mark.parametrize(
    ("kind", "given", "field"),
    [
        ("uint8", 256, "input.x"),
        ("uint8", -1, "input.x"),
        ("int8", 128, "input.x"),
        ("uint256", True, "input.x"),
        ("uint256", "1.5", "input.x"),
        ("uint256", 1.5, "input.x"),
        ("bool", "yes", "input.x"),
        ("string", 5, "input.x"),
        ("bytes", "0x1", "input.x"),
        ("bytes4", "0x11", "input.x"),
        ("address", "0x11", "input.x"),
        ("uint8[]", 5, "input.x"),
        ("uint8[2]", [1], "input.x"),
        ("uint8[]", [1, 300], "input.x[1]"),
        ("fixed128x18", 1, "input.x"),
        ("tuple", {}, "input.x.inside"),
        ("tuple", 7, "input.x"),
    ],
)
def test_wrong_value_is_rejected_by_its_path(kind: str, given: object, field: str) -> None:
    wanted = Parameter("x", kind, (Parameter("inside", "uint8"),) if kind == "tuple" else ())
    with pytest.raises(Rejected) as rejected:
        encode_input((wanted,), json.dumps([given]), "input")
    assert rejected.value.field == field


@pytest.mark.parametrize("given", ["5", "[]", "nonsense", '{"type": 5}', '{"inputs": 5}', '{"inputs": [{"type": 5}]}'])
def test_what_is_no_entry_is_rejected(given: str) -> None:
    with pytest.raises(Rejected, match=r"^function"):
        read_entry(given, "function")


def test_entry_that_is_nested_without_end_is_rejected() -> None:
    nested: dict[str, Any] = {"type": "tuple", "components": []}
    for _ in range(40):
        nested = {"type": "tuple", "components": [nested]}
    with pytest.raises(Rejected, match="nested at most 16 deep"):
        read_entry(json.dumps({"name": "f", "inputs": [nested]}), "function")


def test_signature_spells_tuples_out() -> None:
    components = [{"name": "a", "type": "uint"}, {"name": "b", "type": "tuple[]", "components": [{"type": "bool"}]}]
    entry = read_entry(
        json.dumps({"name": "f", "inputs": [{"type": "tuple[2]", "components": components}]}), "function"
    )
    assert entry.signature == "f((uint256,(bool)[])[2])"


def test_errors_are_told_by_name_and_values() -> None:
    inputs = (Parameter("", "address"), Parameter("", "uint256[]"), Parameter("", "string"))
    error = Entry("error", "Refused", inputs, ())
    content = encode(["address", "uint256[]", "string"], [b"\x11" * 20, [1, 2], "no"])
    told = explain_revert(error.selector + content, (error,))
    assert told == f'Refused(0x{"11" * 20}, ["1","2"], "no")'
    assert explain_revert(error.selector + b"\x01", (error,)).endswith("which is badly encoded")


def test_panics_are_told_by_what_they_mean() -> None:
    panic = bytes.fromhex("4e487b71")
    assert explain_revert(panic + encode(["uint256"], [0x11]), ()) == "Panic(0x11): arithmetic overflow or underflow"
    assert explain_revert(panic + encode(["uint256"], [0x99]), ()) == "Panic(0x99): unknown panic"


def test_revert_with_an_empty_text_has_a_description() -> None:
    """A refusal may have this text, and a receipt of a failure without a message ends the listener that reads it."""
    assert explain_revert(TEXT_ERROR.selector + encode(["string"], [""]), ()) == explain_revert(b"", ()) != ""


@given(parameters(), parameters())
def test_entry_is_read_from_its_own_definition(
    first: tuple[Parameter, object, object], second: tuple[Parameter, object, object]
) -> None:
    function = Entry("function", "f", (first[0],), (second[0],), mutability="view")
    event = Entry("event", "E", (Parameter("a", "uint8", is_indexed=True), first[0]), is_anonymous=True)
    for entry in (function, event):
        assert entry_of(definition_of(entry), "entry") == entry
    assert hash_of((function, event)) == hash_of((event, function)) != hash_of((function,))


TRANSFER = entry_of(
    {
        "type": "event",
        "name": "Transfer",
        "inputs": [
            {"name": "from", "type": "address", "indexed": True},
            {"name": "memo", "type": "string", "indexed": True},
            {"name": "value", "type": "uint"},
        ],
    },
    "event",
)
ABI = entries_of(
    [
        {"type": "constructor", "inputs": [{"name": "x", "type": "uint256"}]},
        {"type": "function", "name": "get", "inputs": [], "outputs": [{"name": "", "type": "uint256"}]},
        {"type": "function", "name": "set", "inputs": [{"name": "x", "type": "uint"}]},
        {
            "type": "function",
            "name": "set",
            "inputs": [{"name": "x", "type": "uint8"}, {"name": "y", "type": "bool[]"}],
        },
        {
            "name": "put",
            "inputs": [{"type": "tuple[]", "components": [{"type": "uint256"}, {"type": "address"}]}, {"type": "bool"}],
        },
    ],
    "abi",
)


def test_solidity_signature_is_as_solidity_declares_it() -> None:
    assert TRANSFER.solidity_signature == "event Transfer(address indexed from, string indexed memo, uint256 value)"
    assert ABI[0].solidity_signature == "constructor(uint256 x)"
    struct = Parameter("p", "tuple[]", (Parameter("a", "bool"),), internal_type="struct Shop.Item[]")
    assert Entry("function", "f", (struct,)).solidity_signature == "function f(Item[] p)"
    assert Entry("error", "E", (Parameter("a", "uint"),)).solidity_signature == "error E(uint256 a)"


@pytest.mark.parametrize(
    ("wanted", "signature"),
    [
        ("get", "get()"),
        ("get()", "get()"),
        (" function get ( ) external view returns (uint256)", "get()"),
        ("set(uint256)", "set(uint256)"),
        ("function set(uint x)", "set(uint256)"),
        ("set(uint8 x, bool[] y)", "set(uint8,bool[])"),
        ("put((uint256,address)[],bool)", "put((uint256,address)[],bool)"),
        ("function put(tuple(uint a, address b)[] all, bool c)", "put((uint256,address)[],bool)"),
    ],
)
def test_function_is_found_by_name_or_signature(wanted: str, signature: str) -> None:
    assert find_function(ABI, wanted, "function").signature == signature


@pytest.mark.parametrize(
    ("wanted", "says"),
    [("set", r"set\(uint256\), set\(uint8,bool\[\]\)"), ("", "the ABI has 4"), ("gone", "gone"), ("get(bool)", "get")],
)
def test_function_that_is_not_clear_is_rejected(wanted: str, says: str) -> None:
    with pytest.raises(Rejected, match=rf"^function: must .*{says}"):
        find_function(ABI, wanted, "function")


@given(st.text(max_size=30))
def test_no_text_breaks_the_search_for_a_function(wanted: str) -> None:
    try:
        find_function(ABI, wanted, "function")
    except Rejected:
        return


def test_constructor_may_be_absent() -> None:
    assert find_constructor(ABI).inputs == (Parameter("x", "uint256"),)
    assert find_constructor(ABI[1:]).inputs == ()


def test_call_is_encoded_from_values_or_taken_as_hex() -> None:
    function = find_function(ABI, "set(uint256)", "function")
    written = encode_call(function, {"x": 5, "junk": None}, "data")
    assert written == function.selector + encode(["uint256"], [5])
    assert encode_call(function, "0x" + written.hex(), "data") == written
    assert decode_call(function, written, "data") == {"x": "5"}
    with pytest.raises(Rejected, match=r"selector of set\(uint256\)"):
        decode_call(function, b"\x00" * 36, "data")


def test_event_shows_what_topics_and_bytes_say() -> None:
    topics = (TRANSFER.topic, bytes(12) + b"\x11" * 20, b"\x22" * 32)
    shown = decode_event(TRANSFER, topics, encode(["uint256"], [7]), "event")
    assert shown == {"from": "0x" + "11" * 20, "memo": "0x" + "22" * 32, "value": "7"}
    anonymous = Entry("event", "", TRANSFER.inputs, is_anonymous=True)
    assert decode_event(anonymous, topics[1:], encode(["uint256"], [7]), "event") == shown


def test_event_with_other_topics_is_rejected() -> None:
    # Two standards have a Transfer of the same signature, with other values indexed.
    for topics in ((), (TRANSFER.topic,), (b"\x00" * 32, *(b"\x00" * 32,) * 2), (TRANSFER.topic, *(bytes(32),) * 3)):
        with pytest.raises(Rejected, match=r"^event: must "):
            decode_event(TRANSFER, topics, encode(["uint256"], [7]), "event")


STOCK = (Parameter("n", "int256"), Parameter("items", "tuple[]", (Parameter("id", "bytes4"), Parameter("", "address"))))


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        ("", {"n": "-300", "items": [{"id": "0xdeadbeef", "1": "0xb8f7764d413b518c49824fb5e6078b41b2549d4e"}]}),
        (
            "mode=object&number=hex&bytes=hex-plain&address=checksum",
            {"n": "-0x12c", "items": [{"id": "deadbeef", "1": "0xB8F7764d413B518c49824fb5E6078b41B2549d4e"}]},
        ),
        (
            "mode=array&number=json-number&bytes=base64&address=hex-plain",
            [-300, [["3q2+7w==", "b8f7764d413b518c49824fb5e6078b41b2549d4e"]]],
        ),
        (
            "mode=self-describing",
            [
                {"name": "n", "type": "int256", "value": "-300"},
                {
                    "name": "items",
                    "type": "(bytes4,address)[]",
                    "value": [
                        [
                            {"name": "id", "type": "bytes4", "value": "0xdeadbeef"},
                            {"name": "1", "type": "address", "value": "0xb8f7764d413b518c49824fb5e6078b41b2549d4e"},
                        ]
                    ],
                },
            ],
        ),
    ],
)
def test_values_are_shown_in_the_style_that_is_asked_for(options: str, shown: object) -> None:
    address = bytes.fromhex("b8f7764d413b518c49824fb5e6078b41b2549d4e")
    content = encode(["int256", "(bytes4,address)[]"], [-300, [(b"\xde\xad\xbe\xef", address)]])
    style = Style.parse(options, "dataFormat")
    assert decode_values(STOCK, content, "output", style) == shown
    assert json.loads(style.text(shown)) == shown


def test_numbers_of_any_length_are_written() -> None:
    style = Style.parse("number=number&pretty", "dataFormat")
    assert style.text({"n": 2**200}) == '{\n  "n": ' + str(2**200) + "\n}"


@pytest.mark.parametrize("options", ["mode=tree", "number=roman", "bytes=utf8", "address=ens"])
def test_style_that_is_not_known_is_rejected(options: str) -> None:
    with pytest.raises(Rejected, match=rf"^dataFormat: {options.partition('=')[0]} must be one of"):
        Style.parse(options, "dataFormat")


def test_error_is_summed_up_in_a_line() -> None:
    assert summary_of(TEXT_ERROR, encode(["string"], ["no"])) == 'Error("no")'
    assert summary_of(PANIC, encode(["uint256"], [17])) == "Panic(17)"


@pytest.mark.parametrize(
    "given", [5, "[]", [{}] * (ENTRIES_MAX + 1), [5], [{"type": "struct"}], [{"name": "n" * 2_000}]]
)
def test_what_is_no_abi_is_rejected(given: object) -> None:
    with pytest.raises(Rejected, match=r"^abi"):
        entries_of(given, "abi")


def test_values_that_are_encoded_at_once_are_bounded() -> None:
    numbers = entry_of({"type": "function", "name": "f", "inputs": [{"name": "x", "type": "uint256[]"}]}, "abi")
    most = list(range(VALUES_MAX))
    assert len(encode_call(numbers, [most], "data")) == 4 + 32 * (VALUES_MAX + 2)
    too_many: tuple[object, ...] = ([[*most, 1]], {"x": [*most, 1]}, [[[]] * (VALUES_MAX + 1)])
    for each in too_many:
        with pytest.raises(Rejected, match="must have at most 8192 values"):
            encode_call(numbers, each, "data")
    nested = entry_of({"type": "function", "name": "f", "inputs": [{"name": "x", "type": "uint256[2][]"}]}, "abi")
    with pytest.raises(Rejected, match="must have at most 8192 values"):
        encode_call(nested, [[[1, 2]] * (VALUES_MAX // 2 + 1)], "data")
