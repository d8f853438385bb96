"""Records: one class, one schema, one canonical form."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.domains.contents import Content, Told, is_info, schema_of, schemas_of, seal, unseal
from rota.domains.records import (
    LIST_MAX,
    OCTETS_MAX,
    Bytes32,
    Record,
    Rejected,
    Uint8,
    Uint256,
    accept,
    packed,
    parameters,
    selector_text,
    shown,
    unpacked,
)
from rota.model.types import ContractAddress, Party


@dataclass(frozen=True, slots=True)
class Leg(Record):
    """Inside another."""

    to: Party
    amount: Uint256


@dataclass(frozen=True, slots=True)
class Journey(Record):
    """One of everything."""

    labels = ("lockId",)

    from_: Party
    lock_id: Bytes32
    target: ContractAddress
    count: Uint8
    is_open: bool
    data: bytes
    legs: tuple[Leg, ...]
    note: str = "none"


KNOWN = {"Journey": Journey}
texts = st.text(max_size=20).filter(lambda text: not any("\ud800" <= letter <= "\udfff" for letter in text))
legs = st.builds(Leg, texts.map(Party), st.integers(0, 2**256 - 1))
journeys = st.builds(
    Journey,
    texts.map(Party),
    st.binary(min_size=32, max_size=32),
    st.binary(min_size=20, max_size=20).map(lambda address: ContractAddress("0x" + address.hex())),
    st.integers(0, 255),
    st.booleans(),
    st.binary(max_size=40),
    st.lists(legs, max_size=3).map(tuple),
    texts,
)
contents = st.builds(
    Content,
    st.none() | journeys,
    st.lists(st.builds(Told, st.integers(0, 9), journeys), max_size=2).map(tuple),
    st.lists(texts.map(Party), max_size=4).map(tuple),
    st.binary(min_size=32, max_size=32),
)
ORDINARY = {
    "from": "alice@node1",
    "lockId": "0x" + "AB" * 32,
    "target": "0x" + "Cd" * 20,
    "count": "0x10",
    "isOpen": "true",
    "data": "",
    "legs": [["bob", 1], {"to": "carol", "amount": "2", "junk": None}],
}


@given(journeys)
def test_a_record_is_read_as_it_was_written(journey: Journey) -> None:
    assert unpacked(Journey, packed(journey)) == journey
    assert accept(Journey, shown(journey)) == journey
    assert accept(Journey, packed(journey)) == journey
    assert json.loads(json.dumps(shown(journey))) == shown(journey)


@given(contents)
def test_the_bytes_of_a_state_are_read_as_they_were_written(content: Content) -> None:
    sealed = seal(content)
    assert unseal(KNOWN, sealed) == content
    assert is_info(sealed) is (content.record is None)


@given(contents)
def test_what_is_remembered_of_bytes_is_what_they_say_to_this_domain(content: Content) -> None:
    schemas, others = schemas_of((Journey,)), schemas_of((Leg,))
    sealed = seal(content)
    assert unseal(schemas, sealed) == unseal(schemas, bytes(bytearray(sealed))) == content
    assert schemas_of((Journey,)) is schemas
    if content.record is not None:
        with pytest.raises(Rejected, match="Journey"):
            unseal(others, sealed)


@given(contents, st.data())
def test_bytes_that_were_changed_are_another_state_or_none(content: Content, data: st.DataObject) -> None:
    sealed = bytearray(seal(content))
    at = data.draw(st.integers(0, len(sealed) - 1))
    sealed[at] = data.draw(st.integers(0, 255).filter(lambda byte: byte != sealed[at]))
    try:
        other = unseal(KNOWN, bytes(sealed))
    except Rejected:
        return
    assert other != content
    assert seal(other) == bytes(sealed)


@given(st.binary(max_size=100))
def test_junk_is_no_state(junk: bytes) -> None:
    with pytest.raises(Rejected):
        unseal(KNOWN, junk)


def test_deep_and_unknown_content_is_no_state() -> None:
    salt = "0x" + "00" * 32
    for junk in (
        b"[" * 100_000,
        json.dumps([["Unknown", []], [], [], salt]).encode(),
        json.dumps([["Journey", []], [], [], salt]).encode(),
        json.dumps([None, [[0, "Unknown", []]], [], salt]).encode(),
        json.dumps([None, [], [], "0x00"], separators=(",", ":")).encode(),
        json.dumps([None, [], [], "zz"], separators=(",", ":")).encode(),
        json.dumps([None, [], ["a"] * 65, salt], separators=(",", ":")).encode(),
        b" " * 1_100_000,
    ):
        with pytest.raises(Rejected):
            unseal(KNOWN, junk)


def test_users_may_write_it_in_several_ways() -> None:
    journey = accept(Journey, ORDINARY)
    assert journey == Journey(
        Party("alice@node1"),
        b"\xab" * 32,
        ContractAddress("0x" + "cd" * 20),
        16,
        True,
        b"",
        (Leg(Party("bob"), 1), Leg(Party("carol"), 2)),
    )
    assert accept(Journey, list(ORDINARY.values())) == journey
    assert shown(journey)["lockId"] == "0x" + "ab" * 32


@pytest.mark.parametrize(
    ("field", "value", "path"),
    [
        ("from", 7, "from"),
        ("from", "\ud800", "from"),
        ("from", None, "from"),
        ("from", "x" * 600_000, "from"),
        ("lockId", "0x00", "lockId"),
        ("lockId", 5, "lockId"),
        ("target", "0x12", "target"),
        ("target", "bob@node1", "target"),
        ("count", 256, "count"),
        ("count", -1, "count"),
        ("count", True, "count"),
        ("count", 1.5, "count"),
        ("count", "1e3", "count"),
        ("count", "", "count"),
        ("count", "9" * 5_000, "count"),
        ("isOpen", "perhaps", "isOpen"),
        ("isOpen", 1, "isOpen"),
        ("data", "0x1", "data"),
        ("data", "0xzz", "data"),
        ("data", "00" * (OCTETS_MAX + 2), "data"),
        ("legs", {}, "legs"),
        ("legs", [["a", 1]] * (LIST_MAX + 1), "legs"),
        ("legs", [["a", 1], ["b", "x"]], "legs[1].amount"),
        ("legs", [5], "legs[0]"),
        ("legs", [["a", 1, 2]], "legs[0]"),
    ],
)
def test_what_is_wrong_is_named(field: str, value: object, path: str) -> None:
    with pytest.raises(Rejected) as caught:
        accept(Journey, {**ORDINARY, field: value})
    assert caught.value.field == path
    assert caught.value.message


def test_only_the_canonical_form_is_read_back() -> None:
    journey = accept(Journey, ORDINARY)
    for position, value in (
        (0, 5),
        (1, "0x" + "AB" * 32),
        (3, "016"),
        (3, 16),
        (4, "true"),
        (5, ""),
        (6, [["bob", 1]]),
    ):
        written = packed(journey)
        written[position] = value
        with pytest.raises(Rejected):
            unpacked(Journey, written)
    with pytest.raises(Rejected):
        unpacked(Journey, packed(journey)[:-1])
    with pytest.raises(Rejected):
        unpacked(Journey, {})


def test_the_abi_and_the_schema_follow_from_the_class() -> None:
    legs_type = {"name": "legs", "type": "tuple[]", "components": parameters(Leg)}
    assert parameters(Journey)[6] == legs_type
    assert parameters(Leg) == [{"name": "to", "type": "string"}, {"name": "amount", "type": "uint256"}]
    types = "string,bytes32,address,uint8,bool,bytes,(string,uint256)[],string"
    assert selector_text("travel", Journey) == f"travel({types})"
    schema = schema_of(Journey)
    assert schema.signature.startswith("type=Journey(bytes32 salt,string from,bytes32 lockId,address target,")
    assert schema.signature.endswith("(string,uint256)[] legs,string note),labels=[lockId]")
    assert len(schema.id) == 32


def test_a_record_may_have_rules_of_its_own() -> None:
    with pytest.raises(Rejected, match="must be even"):
        accept(Even, {"number": 3})
    assert accept(Even, [4]) == Even(4)


@dataclass(frozen=True, slots=True)
class Even(Record):
    """Of even numbers."""

    number: Uint256

    def __post_init__(self) -> None:
        if self.number % 2:
            raise ValueError("number: must be even")
