"""What users write is encoded as Solidity expects it, and what contracts answer is shown as clients expect it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from eth_abi.abi import decode, encode
from hypothesis import given
from hypothesis import strategies as st

from rota.domains.base import Rejected
from rota.domains.pente.abi import (
    Entry,
    Parameter,
    decode_output,
    encode_input,
    explain_revert,
    read_entry,
    read_errors,
)

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
NAMES = ("alpha", "beta", "", "delta")


def shown(kind: str, value: object) -> object:
    """As answers have it: numbers are decimal text."""
    return str(value) if kind.startswith(("uint", "int")) else value


@st.composite
def parameters(draw: st.DrawFn, depth: int = 0) -> tuple[Parameter, object, object]:
    """A parameter, a value as users write it, and the same as answers show it."""
    shape = draw(st.sampled_from(("simple", "simple", "array", "fixed", "tuple") if depth < 2 else ("simple",)))
    name = draw(st.sampled_from(NAMES))
    if shape == "simple":
        kind = draw(st.sampled_from(sorted(SIMPLE)))
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
