"""Newer peers are understood as far as can be; others are told why not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from rota.model.types import IntentId, Leaf, State, Transition
from rota.wire import Frame, Limits, Malformed, decode_frame, encode_frame
from rota.wire import peer_pb2 as pb
from rota.wire.messages import (
    AssembleRequest,
    AssembleResponse,
    CoordinatorHeartbeat,
    DelegationCommand,
    DispatchConfirmationRequest,
    EndorsementRequest,
    Handover,
    Message,
    PreparedTransaction,
    Startup,
    StateDistribution,
)
from tests.wire.samples import MESSAGE_TYPES, UNKNOWN_FIELDS, full_envelope, full_value, lean_envelope

STARTUP = full_envelope(Startup)
DELEGATION = full_envelope(DelegationCommand)
FIRST_FIELDS = (IntentId(bytes(16)), Leaf(bytes(32)))


def message(number: int, content: bytes) -> bytes:
    """A field that holds a message, as it stands on the wire."""
    return varint(number << 3 | 2) + varint(len(content)) + content


def varint(value: int) -> bytes:
    content = bytearray()
    while value > 0x7F:
        content.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*content, value))


def frame(*envelopes: bytes, version: tuple[int, int] = (2, 0)) -> bytes:
    head = pb.Frame(version_major=version[0], version_minor=version[1]).SerializeToString()
    return head + b"".join(message(3, envelope) for envelope in envelopes)


def envelope_bytes(body: bytes) -> bytes:
    return message(1, b"\xc0" * 20) + body


@pytest.mark.parametrize("unknown", UNKNOWN_FIELDS, ids=["varint", "eight bytes", "bytes", "four bytes", "group"])
def test_an_unknown_field_is_ignored_wherever_it_stands(unknown: bytes) -> None:
    wire = pb.Frame.FromString(encode_frame([DELEGATION]))
    command = wire.envelopes[0].delegation_command
    for part in (command.delegations[0].intent, command.delegations[0], command, wire.envelopes[0], wire):
        part.MergeFromString(unknown)
    assert wire.SerializeToString().count(unknown) == 5
    assert decode_frame(wire.SerializeToString()) == Frame((2, 0), (DELEGATION,))
    # A frame that is big enough to be walked over first is read alike.
    assert decode_frame(wire.SerializeToString(), Limits(frame_fields_max=120)) == Frame((2, 0), (DELEGATION,))


# What is stored or passed on keeps what it does not understand: transitions, states, prepared transitions.
PASSED_ON: dict[str, tuple[type[Message], Callable[[Any], Any]]] = {
    "a transition that was assembled": (AssembleResponse, lambda body: body.results[0].transition),
    "a state that was assembled": (AssembleResponse, lambda body: body.results[0].transition.outputs[1]),
    "a state of a snapshot": (AssembleRequest, lambda body: body.snapshot.states[0]),
    "a transition of a round": (EndorsementRequest, lambda body: body.members[0].transition),
    "a transition for its sender": (DispatchConfirmationRequest, lambda body: body.items[0].transition),
    "a state that is handed over": (Handover, lambda body: body.points[0].transition.outputs[0]),
    "a transition that is distributed": (StateDistribution, lambda body: body.transitions[1]),
    "a state that is distributed": (StateDistribution, lambda body: body.transitions[0].outputs[0]),
    "a prepared transition": (PreparedTransaction, lambda body: body),
}


def with_unknown(kind: type[Message], find: Callable[[Any], Any], unknown: bytes) -> bytes:
    """A message of a newer version: one part of it has fields that we do not know."""
    envelope = lean_envelope(kind)
    if kind is AssembleResponse or kind is DispatchConfirmationRequest:
        envelope = full_envelope(kind)
    wire = pb.Frame.FromString(encode_frame([envelope]))
    kind_name = wire.envelopes[0].WhichOneof("body")
    assert kind_name is not None
    find(getattr(wire.envelopes[0], kind_name)).MergeFromString(unknown)
    return wire.SerializeToString(deterministic=True)


@pytest.mark.parametrize("part", PASSED_ON)
def test_what_is_passed_on_keeps_fields_that_are_not_known_here(part: str) -> None:
    said = with_unknown(*PASSED_ON[part], b"".join(UNKNOWN_FIELDS))
    heard = decode_frame(said)
    assert isinstance(heard, Frame)
    assert encode_frame(heard.envelopes) == said
    assert said.count(b"".join(UNKNOWN_FIELDS)) == 1


def test_what_is_not_known_of_a_value_has_its_number_of_bytes() -> None:
    said = with_unknown(*PASSED_ON["a state that is distributed"], UNKNOWN_FIELDS[2])
    size = len(UNKNOWN_FIELDS[2])
    assert isinstance(decode_frame(said, Limits(unknown_bytes_max=size)), Frame)
    assert decode_frame(said, Limits(unknown_bytes_max=size - 1)) == Malformed(
        f"envelope 0, state_distribution: what is not known of a value has at most {size - 1} bytes, not {size}"
    )


def test_a_version_that_knows_the_field_reads_what_an_older_one_stored() -> None:
    """What was not known when it came is a field like others once it is: `State` knows the number 4."""
    stored = replace(full_value(State), content=None, unknown=b"\x22\x05hello")
    distribution = replace(full_value(StateDistribution), transitions=(Transition(*FIRST_FIELDS, outputs=(stored,)),))
    heard = decode_frame(encode_frame([replace(STARTUP, body=distribution)]))
    assert isinstance(heard, Frame)
    body = heard.envelopes[0].body
    assert isinstance(body, StateDistribution)
    assert body.transitions[0].outputs == (replace(stored, content=b"hello", unknown=b""),)


@pytest.mark.parametrize("number", [56, 99, 1000, 2**29 - 1])
@pytest.mark.parametrize("version", [(2, 0), (2, 1)])
def test_an_unknown_kind_is_skipped_and_counted(number: int, version: tuple[int, int]) -> None:
    known = pb.Frame.FromString(encode_frame([STARTUP])).envelopes[0].SerializeToString()
    unknown = envelope_bytes(message(number, b"\x08\x01"))
    assert decode_frame(frame(unknown, known, unknown, version=version)) == Frame(
        version, (replace(STARTUP, protocol_version=version),), skipped=2
    )


def test_an_unknown_kind_may_have_no_contract() -> None:
    assert decode_frame(frame(message(56, b""), b"")) == Frame((2, 0), (), skipped=2)


def with_unknown_state(minor: int) -> bytes:
    wire = pb.Frame.FromString(encode_frame([STARTUP, full_envelope(CoordinatorHeartbeat)]))
    wire.version_minor = minor
    # The types know only what the schema has.
    setattr(wire.envelopes[1].coordinator_heartbeat, "state", 77)  # noqa: B010
    return wire.SerializeToString()


def test_an_unknown_value_of_a_newer_minor_version_is_skipped_with_its_message() -> None:
    expected = Frame((2, 1), (replace(STARTUP, protocol_version=(2, 1)),), skipped=1)
    assert decode_frame(with_unknown_state(minor=1)) == expected


def test_an_unknown_value_of_our_own_minor_version_is_malformed() -> None:
    assert decode_frame(with_unknown_state(minor=0)) == Malformed(
        "envelope 1, coordinator_heartbeat: no coordinator state has the number 77"
    )


@pytest.mark.parametrize("version", [(0, 0), (0, 9), (1, 0), (3, 0), (2**32 - 1, 2**32 - 1)])
def test_another_major_version_is_refused_by_name(version: tuple[int, int]) -> None:
    theirs = f"{version[0]}.{version[1]}"
    reason = f"the peer speaks protocol version {theirs}, which a node of version 2.0 cannot read"
    assert decode_frame(frame(version=version)) == Malformed(reason)


def test_another_major_version_is_refused_by_name_though_its_envelopes_are_not_ours() -> None:
    refused = decode_frame(frame(b"\xff", version=(3, 3)))
    assert isinstance(refused, Malformed)
    assert "version 3.3" in refused.reason
    assert decode_frame(frame(b"\xff" * 20, version=(3, 3)), Limits(frame_fields_max=1)) == refused


def test_bytes_without_a_version_are_refused() -> None:
    assert isinstance(decode_frame(b""), Malformed)


def test_the_numbers_of_the_kinds_never_change() -> None:
    kinds = pb.Envelope.DESCRIPTOR.oneofs_by_name["body"].fields
    assert {field.number: field.name for field in kinds} == {
        16: "delegation_command",
        17: "delegation_accepted",
        18: "delegation_rejected",
        19: "assemble_request",
        20: "assemble_response",
        21: "assemble_error",
        22: "endorsement_request",
        23: "endorsement_response",
        24: "endorsement_error",
        25: "dispatch_confirmation_request",
        26: "dispatch_confirmation_response",
        27: "dispatch_confirmation_error",
        28: "coordinator_heartbeat",
        29: "submitter_heartbeat",
        30: "startup",
        31: "startup_acknowledgement",
        32: "handover_request",
        33: "handover",
        34: "transaction_dispatched",
        35: "transaction_reverted",
        36: "state_distribution",
        37: "state_distribution_acknowledgement",
        38: "state_request",
        39: "prepared_transaction",
        40: "prepared_transaction_acknowledgement",
        41: "verifier_request",
        42: "verifier_response",
        43: "listing_request",
        44: "deployment_proposal",
        45: "deployment_answer",
        46: "contract_taken_in",
        47: "deployment_withdrawn",
        48: "contracts_request",
        49: "contracts_response",
        50: "genesis_request",
        51: "genesis_response",
        52: "group_message",
        53: "group_message_acknowledgement",
        54: "holdings_request",
        55: "holdings_response",
    }
    assert len(kinds) == len(MESSAGE_TYPES)
