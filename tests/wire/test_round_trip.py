"""What is written is what is read: every message, every field, every value of every enumeration."""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from inspect import getmembers, isclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.model import types
from rota.wire import Frame, decode_frame, encode_frame, enumerations, messages
from rota.wire import peer_pb2 as pb
from rota.wire.messages import PROTOCOL_VERSION, Envelope, Message
from rota.wire.reading import READERS
from rota.wire.writing import TEXT_BYTES_MAX, WRITERS
from tests.wire.samples import (
    CONTRACT,
    MESSAGE_TYPES,
    fields_of,
    full_envelope,
    full_value,
    is_record,
    lean_envelope,
    random_envelopes,
    random_values,
)

# Fields of ours that the schema has under another name, or that something else stands for.
ELSEWHERE = {
    (Envelope, "body"): "a oneof",
    (Envelope, "protocol_version"): "the frame's",
    (messages.EndorsementRequest, "transitions"): "in `members`",
    (messages.EndorsementRequest, "senders"): "in `members`",
    (messages.EndorsementRequest, "nonces"): "in `members`",
    (messages.EndorsementRequest, "attesters"): "in `members`",
    (types.Intent, "contract"): "the envelope's",
    (messages.SubmittedIntent, "fees"): "its fields one by one",
}
NOT_OF_OURS = {
    "EndorsementRequest": {"members"},
    "Envelope": {kind for kind, _ in WRITERS.values()},
    "SubmittedIntent": set(fields_of(types.Fees)),
}

NOT_ON_THE_WIRE = {
    types.CallFailure,
    types.Contract,
    types.Fees,
    types.KnownContract,
    types.Receipt,
    types.SequencingChoice,
    types.SignedLeaf,
}
RECORDS = tuple(
    value
    for module in (messages, types)
    for _, value in getmembers(module, isclass)
    if is_record(value) and value.__module__ == module.__name__ and value not in NOT_ON_THE_WIRE
)
ENUMERATIONS = tuple(value for value in vars(enumerations).values() if isinstance(value, enumerations.Enumeration))


def round_trip(*envelopes: Envelope) -> Frame:
    frame = decode_frame(encode_frame(envelopes))
    assert isinstance(frame, Frame), frame
    return frame


def test_every_message_has_a_kind_a_writer_and_a_reader() -> None:
    fields = pb.Envelope.DESCRIPTOR.oneofs_by_name["body"].fields
    kinds = {field.name: field.message_type.name for field in fields if field.message_type is not None}
    assert set(WRITERS) == set(MESSAGE_TYPES)
    assert {kind: message.__name__ for message, (kind, _) in WRITERS.items()} == kinds
    assert set(READERS) == set(kinds)


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.__name__)
def test_every_field_is_in_the_schema(record: type) -> None:
    ours = {name for name in fields_of(record) if (record, name) not in ELSEWHERE} - {"unknown"}
    theirs = {field.name for field in pb.DESCRIPTOR.message_types_by_name[record.__name__].fields}
    assert ours == theirs - NOT_OF_OURS.get(record.__name__, set())


def test_what_is_offered_for_gas_is_in_the_schema_field_by_field() -> None:
    theirs = {field.name for field in pb.DESCRIPTOR.message_types_by_name["SubmittedIntent"].fields}
    assert set(fields_of(types.Fees)) <= theirs


@pytest.mark.parametrize("kind", MESSAGE_TYPES, ids=lambda kind: kind.__name__)
def test_every_field_of_a_message_travels(kind: type[Message]) -> None:
    envelope = full_envelope(kind)
    assert round_trip(envelope) == Frame(PROTOCOL_VERSION, (envelope,))


@pytest.mark.parametrize("kind", MESSAGE_TYPES, ids=lambda kind: kind.__name__)
def test_what_is_missing_is_missing_on_the_other_side(kind: type[Message]) -> None:
    envelope = lean_envelope(kind)
    assert round_trip(envelope) == Frame(PROTOCOL_VERSION, (envelope,))


@pytest.mark.parametrize("kind", MESSAGE_TYPES, ids=lambda kind: kind.__name__)
@settings(max_examples=20, deadline=None)
@given(drawn=st.data())
def test_every_message_is_read_as_it_was_written(kind: type[Message], drawn: st.DataObject) -> None:
    envelope = drawn.draw(random_envelopes(random_values(kind)))
    assert round_trip(envelope).envelopes == (envelope,)
    assert encode_frame([envelope]) == encode_frame([envelope])


@settings(max_examples=20, deadline=None)
@given(st.lists(random_envelopes(st.one_of(*map(random_values, MESSAGE_TYPES))), max_size=5))
def test_a_frame_keeps_the_order_of_its_envelopes(envelopes: list[Envelope]) -> None:
    assert round_trip(*envelopes).envelopes == tuple(envelopes)


@pytest.mark.parametrize("enumeration", ENUMERATIONS, ids=lambda enumeration: enumeration.name)
def test_every_value_of_an_enumeration_has_a_number_of_its_own(
    enumeration: enumerations.Enumeration[Enum, int],
) -> None:
    kind = type(next(iter(enumeration.numbers)))
    prefix = "".join("_" + letter if letter.isupper() else letter for letter in kind.__name__).upper()[1:]
    schema = pb.DESCRIPTOR.enum_types_by_name[kind.__name__].values_by_name
    assert {f"{prefix}_{member.name}": number for member, number in enumeration.numbers.items()} == {
        name: value.number for name, value in schema.items() if value.number != 0
    }
    assert list(enumeration.numbers) == list(kind)


def test_every_enumeration_of_the_messages_is_known() -> None:
    ours = {value for _, value in getmembers(messages, isclass) if issubclass(value, Enum) and value is not Enum}
    assert {type(next(iter(enumeration.numbers))) for enumeration in ENUMERATIONS} == ours | {types.SubmitMode}


def test_an_empty_content_is_not_the_same_as_none() -> None:
    state = full_value(types.State)
    states = (replace(state, content=b""), replace(state, content=None))
    body = messages.AssembleRequest(types.RequestId(1, 2), (), messages.Snapshot((), states))
    read = round_trip(replace(full_envelope(messages.Startup), body=body)).envelopes[0].body
    assert isinstance(read, messages.AssembleRequest)
    assert [part.content for part in read.snapshot.states] == [b"", None]


@pytest.mark.parametrize("digest", [0, 2**63 - 1, 2**63, 2**64 - 1])
def test_the_digest_of_a_list_has_all_its_64_bits(digest: int) -> None:
    heartbeat = replace(full_value(messages.CoordinatorHeartbeat), digest=digest)
    envelope = replace(full_envelope(messages.Startup), body=heartbeat)
    assert round_trip(envelope).envelopes == (envelope,)


def test_a_heartbeat_is_of_what_changed_unless_it_says_that_it_is_whole() -> None:
    for is_whole in (True, False):
        heartbeat = replace(full_value(messages.CoordinatorHeartbeat), is_whole=is_whole)
        envelope = replace(full_envelope(messages.Startup), body=heartbeat)
        assert round_trip(envelope).envelopes == (envelope,)


def test_a_state_is_distributed_as_its_receiver_may_see_it() -> None:
    state = full_value(types.State)
    mine = replace(state, distribution=(types.NodeName("node1"), types.NodeName("node2")), content=b"for both")
    other = replace(state, distribution=(types.NodeName("node2"),), content=b"not for the first")
    transition = replace(full_value(types.Transition), outputs=(mine, other))
    seen = transition.as_seen_by(types.NodeName("node1"))
    body = messages.StateDistribution(types.Digest(b"d" * 32), (seen,))
    envelope = replace(full_envelope(messages.Startup), body=body)
    assert other.content not in encode_frame([envelope])
    read = round_trip(envelope).envelopes[0].body
    assert isinstance(read, messages.StateDistribution)
    assert read.transitions[0].outputs == (mine, replace(other, content=None, unknown=b""))


def test_a_frame_may_be_empty() -> None:
    assert round_trip() == Frame(PROTOCOL_VERSION, ())


@pytest.mark.parametrize(
    ("text", "cut"),
    [
        ("x" * TEXT_BYTES_MAX, "x" * TEXT_BYTES_MAX),
        ("x" * (TEXT_BYTES_MAX + 1), "x" * TEXT_BYTES_MAX),
        ("é" * TEXT_BYTES_MAX, "é" * (TEXT_BYTES_MAX // 2)),
        ("x" + "é" * TEXT_BYTES_MAX, "x" + "é" * (TEXT_BYTES_MAX // 2 - 1)),
        ("a \ud800 b", "a ? b"),
    ],
    ids=["at the bound", "past it", "two bytes each", "within a character", "half a pair"],
)
def test_a_text_that_no_peer_would_accept_is_cut(text: str, cut: str) -> None:
    reverted = full_value(messages.TransactionReverted)
    envelope = replace(full_envelope(messages.Startup), body=replace(reverted, reason=text))
    assert round_trip(envelope).envelopes[0].body == replace(reverted, reason=cut)


# What we would say wrongly is our own error, and loud.


def test_an_intent_of_another_contract_is_not_written() -> None:
    other = types.ContractAddress("0x" + "c1" * 20)
    with pytest.raises(AssertionError, match="an envelope of its own contract"):
        encode_frame([replace(full_envelope(messages.DelegationCommand), contract=other)])


@pytest.mark.parametrize("address", [CONTRACT.upper(), CONTRACT.removeprefix("0x"), "0xC" + CONTRACT[3:]])
def test_an_address_that_would_not_read_back_is_not_written(address: str) -> None:
    with pytest.raises((AssertionError, ValueError)):
        encode_frame([replace(full_envelope(messages.Startup), contract=types.ContractAddress(address))])


def test_a_negative_number_is_not_written() -> None:
    with pytest.raises(ValueError, match="out of range"):
        encode_frame([replace(full_envelope(messages.Startup), message_id=types.RequestId(1, -1))])


def test_a_round_with_fewer_senders_than_transitions_is_not_written() -> None:
    request = replace(full_value(messages.EndorsementRequest), senders=())
    with pytest.raises(ValueError, match="shorter"):
        encode_frame([replace(full_envelope(messages.Startup), body=request)])


def test_another_version_than_ours_is_not_written() -> None:
    with pytest.raises(AssertionError, match="our own version"):
        encode_frame([replace(full_envelope(messages.Startup), protocol_version=(1, 1))])


def test_envelope_of_another_version_differs_in_its_version_alone() -> None:
    envelope = full_envelope(messages.Startup)
    assert envelope.of_version((1, 1)) == replace(envelope, protocol_version=(1, 1))
