"""A genesis has one form, and the bytes of any other are refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.model.genesis import Genesis, MalformedGenesis, decode_genesis, encode_genesis, genesis_hash
from rota.model.types import ContractAddress, Mode, NodeName, Party, Rotation

ADDRESS = ContractAddress("0x" + "ab" * 20)
names = st.lists(st.text(min_size=1, max_size=8), min_size=1, max_size=5, unique=True)


@st.composite
def geneses(draw: st.DrawFn) -> Genesis:
    mode = draw(st.sampled_from(Mode))
    committee = draw(names)[: 1 if mode is Mode.STATIC else 5]
    endorsers = draw(names)
    return Genesis(
        draw(st.text(min_size=1, max_size=10)),
        draw(st.binary(max_size=40)),
        tuple(Party(name) for name in draw(names)),
        tuple(NodeName(name) for name in committee),
        tuple(NodeName(name) for name in endorsers),
        draw(st.integers(0, len(endorsers))),
        mode,
        draw(st.sampled_from(Rotation)),
        draw(st.integers(1, 10_000)),
        draw(st.integers(1, 10_000)),
        draw(st.integers(1, 2**64 - 1)),
        draw(st.binary(min_size=32, max_size=32)),
    )


@given(geneses())
def test_what_is_written_is_read_as_it_was(genesis: Genesis) -> None:
    encoded = encode_genesis(genesis)
    assert decode_genesis(encoded) == genesis
    assert genesis.contract(ADDRESS).endorsers == genesis.endorsers


@given(geneses(), geneses())
def test_two_geneses_have_one_hash_only_when_they_are_one(one: Genesis, other: Genesis) -> None:
    hashes = genesis_hash(encode_genesis(one)), genesis_hash(encode_genesis(other))
    assert (hashes[0] == hashes[1]) is (one == other)


@given(geneses(), st.data())
def test_bytes_that_were_changed_are_another_genesis_or_none(genesis: Genesis, data: st.DataObject) -> None:
    encoded = bytearray(encode_genesis(genesis))
    at = data.draw(st.integers(0, len(encoded) - 1))
    encoded[at] = data.draw(st.integers(0, 255).filter(lambda byte: byte != encoded[at]))
    try:
        other = decode_genesis(bytes(encoded))
    except MalformedGenesis:
        return
    assert other != genesis


@given(st.binary(max_size=200))
def test_junk_is_refused(junk: bytes) -> None:
    with pytest.raises(MalformedGenesis):
        decode_genesis(junk)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("version", 2),
        ("domain", ""),
        ("configuration", "0xABCD"),
        ("configuration", "zz"),
        ("committee", []),
        ("committee", ["a", "a"]),
        ("threshold", 9),
        ("mode", "dictator"),
        ("rotation", "never"),
        ("range_size", 0),
        ("virtual_nodes", 0),
        ("chain_id", 0),
        ("salt", "0x00"),
        ("more", 1),
    ],
)
def test_a_wrong_field_is_refused(field: str, value: object) -> None:
    written: dict[str, Any] = json.loads(encode_genesis(_ordinary()))
    written[field] = value
    with pytest.raises(MalformedGenesis):
        decode_genesis(json.dumps(written, separators=(",", ":")).encode())


def test_ledger_of_its_own_code_has_one_endorser() -> None:
    """The factory logs the address that the constructor took, and the code's hash."""
    written: dict[str, Any] = json.loads(encode_genesis(_ordinary()))
    written |= {"endorsers": ["node1"], "threshold": 1, "ledger": "0x" + "1e" * 32}
    found = decode_genesis(json.dumps(written, separators=(",", ":")).encode())
    assert (found.threshold, found.told_threshold) == (1, 0)
    written["endorsers"] = ["node1", "node2"]
    with pytest.raises(MalformedGenesis, match="endorsers: must be one with a ledger of its own code, not 2"):
        decode_genesis(json.dumps(written, separators=(",", ":")).encode())
    assert _ordinary().told_threshold == _ordinary().threshold


def test_another_way_to_write_it_is_refused() -> None:
    written = json.loads(encode_genesis(_ordinary()))
    assert decode_genesis(json.dumps(written, separators=(",", ":")).encode()) == _ordinary()
    for other in (json.dumps(written), json.dumps(dict(reversed(written.items())), separators=(",", ":"))):
        with pytest.raises(MalformedGenesis, match="canonically"):
            decode_genesis(other.encode())
    with pytest.raises(MalformedGenesis, match="at most"):
        decode_genesis(bytes(2_000_000))


def _ordinary() -> Genesis:
    node = NodeName("node1")
    return Genesis("noto", b"[]", (), (node,), (node,), 1, Mode.STATIC, Rotation.STICKY, 100, 8, 1337, bytes(32))
