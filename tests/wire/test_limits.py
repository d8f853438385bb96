"""Each limit at its bound and one past it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import pytest
from google.protobuf.message import Message as ProtobufMessage

from rota.model import types
from rota.wire import DEFAULT_LIMITS, Frame, Limits, Malformed, decode_frame, encode_frame, messages
from rota.wire import peer_pb2 as pb
from rota.wire.messages import Message
from tests.wire.samples import full_envelope


def wire_of(kind: type[Message]) -> tuple[pb.Frame, Any]:
    """A frame with one full message, and that message, to be spoilt."""
    frame = pb.Frame.FromString(encode_frame([full_envelope(kind)]))
    envelope = frame.envelopes[0]
    name = envelope.WhichOneof("body")
    assert name is not None
    return frame, getattr(envelope, name)


def is_read(frame: pb.Frame, limits: Limits = DEFAULT_LIMITS) -> bool:
    return isinstance(decode_frame(frame.SerializeToString(), limits), Frame)


# The frame as a whole.


def test_a_frame_has_its_number_of_bytes() -> None:
    data = encode_frame([full_envelope(messages.Startup)])
    assert isinstance(decode_frame(data, Limits(frame_bytes_max=len(data))), Frame)
    assert decode_frame(data, Limits(frame_bytes_max=len(data) - 1)) == Malformed(
        f"a frame has at most {len(data) - 1} bytes, not {len(data)}"
    )


def test_a_frame_has_its_number_of_envelopes() -> None:
    data = encode_frame([full_envelope(messages.Startup)] * 3)
    assert isinstance(decode_frame(data, Limits(frame_envelopes_max=3)), Frame)
    assert decode_frame(data, Limits(frame_envelopes_max=2)) == Malformed("a frame has at most 2 envelopes, not 3")


def test_a_frame_has_its_number_of_fields() -> None:
    # The major version (a zero is not written); the envelope, its contract, its two ids with two numbers each, its
    # incarnation, height and lack of a ledger; the body, its id with two numbers.
    data = encode_frame([full_envelope(messages.Startup)])
    assert isinstance(decode_frame(data, Limits(frame_fields_max=16)), Frame)
    assert decode_frame(data, Limits(frame_fields_max=15)) == Malformed(
        "the frame cannot be parsed: more than 15 fields"
    )


def test_frame_has_its_number_of_items_in_all_its_messages_together() -> None:
    envelope = full_envelope(messages.StateDistribution)
    one, two = (decode_frame(encode_frame([envelope] * count)) for count in (1, 2))
    assert isinstance(one, Frame)
    assert isinstance(two, Frame)
    assert two.items == 2 * one.items > 0
    data = encode_frame([envelope] * 2)
    assert isinstance(decode_frame(data, Limits(frame_items_max=two.items)), Frame)
    assert decode_frame(data, Limits(frame_items_max=two.items - 1)) == Malformed(
        f"envelope 1, state_distribution: a frame has at most {two.items - 1} items"
    )


def test_items_are_counted_before_they_are_read() -> None:
    """So many elements that none is looked at: the first one would be refused for its name."""
    frame, body = wire_of(messages.DelegationCommand)
    del body.delegations[:], body.tried[:]
    body.tried.extend([pb.Tried()] * 9)
    refusal = decode_frame(frame.SerializeToString(), Limits(frame_items_max=8))
    assert refusal == Malformed("envelope 0, delegation_command: a frame has at most 8 items")
    assert decode_frame(frame.SerializeToString()) == Malformed("envelope 0, delegation_command: a name is empty")


def test_four_names_ids_or_hashes_are_an_item_and_so_are_unknown_fields() -> None:
    frame, body = wire_of(messages.DispatchConfirmationResponse)
    del body.intents[:]
    for count, items in ((3, 0), (1, 1), (8_184, 2_047)):
        body.intents.extend([b"i" * 16] * count)
        read = decode_frame(frame.SerializeToString())
        assert isinstance(read, Frame)
        assert read.items == items
    frame, body = wire_of(messages.StateDistribution)
    body.DiscardUnknownFields()
    known = decode_frame(frame.SerializeToString())
    body.transitions[0].MergeFromString(b"\xfa\x06\x00" * 5)
    changed = decode_frame(frame.SerializeToString())
    assert isinstance(known, Frame)
    assert isinstance(changed, Frame)
    assert changed.items == known.items + 1


def test_a_limit_is_at_least_one() -> None:
    for field in fields(Limits):
        with pytest.raises(ValueError, match=field.name):
            Limits(**{field.name: 0})


# Values whose bounds are configured: the field, set to a size.

SIZED_FIELDS: dict[str, tuple[str, type[Message], Callable[[Any, int], object]]] = {
    "payload": (
        "payload_bytes_max",
        messages.DelegationCommand,
        lambda body, size: setattr(body.delegations[1].intent, "payload", b"p" * size),
    ),
    "content": (
        "content_bytes_max",
        messages.AssembleRequest,
        lambda body, size: setattr(body.snapshot.states[1], "content", b"c" * size),
    ),
    "content that is distributed": (
        "content_bytes_max",
        messages.StateDistribution,
        lambda body, size: setattr(_distributed(body).outputs[1], "content", b"c" * size),
    ),
    "ascii text": (
        "text_bytes_max",
        messages.TransactionReverted,
        lambda body, size: setattr(body, "reason", "t" * size),
    ),
    "other text": (
        "text_bytes_max",
        messages.TransactionReverted,
        lambda body, size: setattr(body, "reason", "é" + "t" * (size - 2)),
    ),
    "idempotency key": (
        "text_bytes_max",
        messages.DelegationCommand,
        lambda body, size: setattr(body.delegations[0].intent, "idempotency_key", "k" * size),
    ),
    "ascii name": ("name_bytes_max", messages.VerifierRequest, lambda body, size: setattr(body, "party", "n" * size)),
    "other name": (
        "name_bytes_max",
        messages.VerifierRequest,
        lambda body, size: setattr(body, "party", "é" + "n" * (size - 2)),
    ),
    "signature": (
        "signature_bytes_max",
        messages.EndorsementResponse,
        lambda body, size: setattr(body, "signature", b"s" * size),
    ),
    "signature that is distributed": (
        "signature_bytes_max",
        messages.StateDistribution,
        lambda body, size: setattr(_distributed(body), "signature", b"s" * size),
    ),
    "list of a state that is distributed": (
        "field_items_max",
        messages.StateDistribution,
        lambda body, size: _distributed(body).outputs[1].distribution.extend(["node"] * (size - 2)),
    ),
    "items": (
        "field_items_max",
        messages.DispatchConfirmationResponse,
        lambda body, size: body.intents.extend([b"i" * 16] * (size - len(body.intents))),
    ),
}


@pytest.mark.parametrize(("limit", "kind", "spoil"), SIZED_FIELDS.values(), ids=list(SIZED_FIELDS))
def test_a_size_is_read_at_its_limit_and_refused_past_it(
    limit: str, kind: type[Message], spoil: Callable[[Any, int], object]
) -> None:
    limits = replace(DEFAULT_LIMITS, **{limit: 40})
    for size, is_fine in ((40, True), (41, False)):
        frame, body = wire_of(kind)
        spoil(body, size)
        assert is_read(frame, limits) is is_fine


OTHERWISE_LIMITED = ("rota.v1.PreparedTransaction.leaves", "rota.v1.EndorsementRequest.approvals")
REPEATED_FIELDS = [
    (kind, field.name)
    for kind in (
        messages.DelegationCommand,
        messages.DelegationAccepted,
        messages.AssembleRequest,
        messages.AssembleResponse,
        messages.AssembleError,
        messages.EndorsementRequest,
        messages.EndorsementResponse,
        messages.DispatchConfirmationRequest,
        messages.DispatchConfirmationResponse,
        messages.DispatchConfirmationError,
        messages.CoordinatorHeartbeat,
        messages.SubmitterHeartbeat,
        messages.Handover,
        messages.TransactionDispatched,
        messages.StateDistribution,
        messages.PreparedTransaction,
    )
    for field in pb.DESCRIPTOR.message_types_by_name[kind.__name__].fields
    if field.is_repeated and field.full_name not in OTHERWISE_LIMITED
]


@pytest.mark.parametrize(("kind", "name"), REPEATED_FIELDS, ids=[f"{k.__name__}.{n}" for k, n in REPEATED_FIELDS])
def test_every_repeated_field_has_its_number_of_items(kind: type[Message], name: str) -> None:
    frame, body = wire_of(kind)
    values = getattr(body, name)
    while len(values) < 4:
        values.append(values[0])
    assert is_read(frame, Limits(field_items_max=4))
    values.append(values[0])
    assert decode_frame(frame.SerializeToString(), Limits(field_items_max=4)) == Malformed(
        f"envelope 0, {frame.envelopes[0].WhichOneof('body')}: a field has at most 4 items, not 5"
    )


# Values whose bounds are the protocol's.


def _transition(body: pb.AssembleResponse) -> pb.Transition:
    return body.results[1].transition


def _distributed(body: pb.StateDistribution) -> pb.Transition:
    return body.transitions[1]


BYTES_FIELDS: dict[str, tuple[type[Message], int, Callable[[Any, bytes], object]]] = {
    "intent": (messages.TransactionReverted, 16, lambda body, value: setattr(body, "intent", value)),
    "intent of a list": (messages.AssembleRequest, 16, lambda body, value: body.intents.append(value)),
    "leaf": (messages.TransactionReverted, 32, lambda body, value: setattr(body, "leaf", value)),
    "digest": (messages.EndorsementResponse, 32, lambda body, value: setattr(body, "digest", value)),
    "leaf of a state": (
        messages.AssembleRequest,
        32,
        lambda body, value: setattr(body.snapshot.locks[1], "leaf", value),
    ),
    "commitment": (
        messages.AssembleRequest,
        32,
        lambda body, value: setattr(body.snapshot.states[1], "commitment", value),
    ),
    "info": (messages.AssembleResponse, 32, lambda body, value: _transition(body).info.append(value)),
    "condition": (
        messages.AssembleResponse,
        32,
        lambda body, value: setattr(_transition(body).preparation, "condition", value),
    ),
    "committer": (
        messages.AssembleResponse,
        20,
        lambda body, value: setattr(_transition(body).preparation, "committer", value),
    ),
    "id of a lock": (messages.AssembleResponse, 32, lambda body, value: setattr(_transition(body).lock, "lock", value)),
    "presumed delegate of a lock": (
        messages.AssembleResponse,
        20,
        lambda body, value: setattr(_transition(body).lock, "presumed", value),
    ),
    "delegate of a lock": (
        messages.AssembleResponse,
        20,
        lambda body, value: setattr(_transition(body).lock, "delegate", value),
    ),
    "leaf that spends a lock": (
        messages.AssembleResponse,
        32,
        lambda body, value: setattr(_transition(body).lock, "spends", value),
    ),
    "leaf that cancels a lock": (
        messages.AssembleResponse,
        32,
        lambda body, value: setattr(_transition(body).lock, "cancels", value),
    ),
    "target of a call": (
        messages.AssembleResponse,
        20,
        lambda body, value: setattr(_transition(body).calls[1], "to", value),
    ),
    "digest of a distribution": (messages.StateDistribution, 32, lambda body, value: setattr(body, "digest", value)),
    "leaf of a transition that is distributed": (
        messages.StateDistribution,
        32,
        lambda body, value: setattr(_distributed(body), "leaf", value),
    ),
    "leaf that is asked for": (messages.StateRequest, 32, lambda body, value: body.leaves.append(value)),
    "intent that is gone": (messages.CoordinatorHeartbeat, 16, lambda body, value: body.gone.append(value)),
    "digest of an acknowledgement": (
        messages.StateDistributionAcknowledgement,
        32,
        lambda body, value: setattr(body, "digest", value),
    ),
}


@pytest.mark.parametrize(("kind", "size", "spoil"), BYTES_FIELDS.values(), ids=list(BYTES_FIELDS))
def test_an_id_has_its_own_size_and_no_other(
    kind: type[Message], size: int, spoil: Callable[[Any, bytes], object]
) -> None:
    for given, is_fine in ((0, False), (size - 1, False), (size, True), (size + 1, False)):
        frame, body = wire_of(kind)
        spoil(body, b"x" * given)
        assert is_read(frame) is is_fine


def test_a_contract_has_twenty_bytes() -> None:
    for size, is_fine in ((0, False), (19, False), (20, True), (21, False)):
        frame, _ = wire_of(messages.Startup)
        frame.envelopes[0].contract = b"\xab" * size
        assert is_read(frame) is is_fine


@pytest.mark.parametrize("value", [2**63, 2**64 - 1])
@pytest.mark.parametrize(
    "kind",
    [
        messages.DelegationCommand,
        messages.CoordinatorHeartbeat,
        messages.SubmitterHeartbeat,
        messages.AssembleResponse,
        messages.StateDistribution,
        messages.StateDistributionAcknowledgement,
        messages.ListingRequest,
    ],
)
def test_every_number_is_below_two_to_the_63(kind: type[Message], value: int) -> None:
    frame, _ = wire_of(kind)
    spoilt = 0
    for part, name in numbers_in(frame.envelopes[0]):
        before = getattr(part, name)
        setattr(part, name, 2**63 - 1)
        assert is_read(frame), name
        setattr(part, name, value)
        assert not is_read(frame), name
        setattr(part, name, before)
        spoilt += 1
    assert spoilt >= 7


# A lock that never expires has 2^64 - 1, as on the contract.
BOUNDED_APART = ("rota.v1.Call.gas", "rota.v1.LockChange.expires_at_s")


def numbers_in(message: ProtobufMessage) -> list[tuple[Any, str]]:
    """Every u64 in a message and in what is in it, with the message that has it, but those with bounds of their own."""
    found: list[tuple[Any, str]] = []
    for field, value in message.ListFields():
        if field.type == field.TYPE_UINT64 and field.full_name not in BOUNDED_APART:
            found.append((message, field.name))
        elif field.type == field.TYPE_MESSAGE:
            for part in value if field.is_repeated else [value]:
                found.extend(numbers_in(part))
    return found


def test_an_outputs_number_is_one_byte() -> None:
    for output, is_fine in ((255, True), (256, False), (2**32 - 1, False)):
        frame, body = wire_of(messages.AssembleRequest)
        body.snapshot.locks[0].output = output
        assert is_read(frame) is is_fine


TRANSITIONS: list[tuple[type[Message], Callable[[Any], pb.Transition]]] = [
    (messages.AssembleResponse, _transition),
    (messages.StateDistribution, _distributed),
]


@pytest.mark.parametrize(("kind", "part"), TRANSITIONS, ids=[kind.__name__ for kind, _ in TRANSITIONS])
@pytest.mark.parametrize("name", ["inputs", "reads", "outputs", "info"])
def test_a_transition_has_at_most_fifteen_states_of_a_sort(
    kind: type[Message], part: Callable[[Any], pb.Transition], name: str
) -> None:
    frame, body = wire_of(kind)
    values = getattr(part(body), name)
    while len(values) < 15:
        values.append(values[0])
    assert is_read(frame)
    values.append(values[0])
    assert not is_read(frame)


def test_a_transition_has_at_most_255_calls() -> None:
    frame, body = wire_of(messages.AssembleResponse)
    calls = _transition(body).calls
    while len(calls) < 255:
        calls.append(calls[0])
    assert is_read(frame)
    calls.append(calls[0])
    assert not is_read(frame)


def test_a_call_has_at_most_65535_bytes() -> None:
    for size, is_fine in ((65_535, True), (65_536, False)):
        frame, body = wire_of(messages.AssembleResponse)
        _transition(body).calls[1].data = b"d" * size
        assert is_read(frame) is is_fine


def test_the_gas_of_a_call_is_below_two_to_the_32() -> None:
    for gas, is_fine in ((2**32 - 1, True), (2**32, False), (2**64 - 1, False)):
        frame, body = wire_of(messages.AssembleResponse)
        _transition(body).calls[1].gas = gas
        assert is_read(frame) is is_fine


@pytest.mark.parametrize(
    ("kind", "given", "is_fine"),
    [
        (0, {}, False),
        (1, {"delegate": 20, "spends": 32, "cancels": 32, "expires_at_s": 1}, True),
        (1, {"delegate": 20, "spends": 32}, False),
        (2, {"delegate": 20}, True),
        (2, {}, False),
        (2, {"delegate": 20, "spends": 32}, False),
        (2, {"delegate": 20, "cancels": 32}, False),
        (2, {"delegate": 20, "expires_at_s": 1}, False),
        (3, {}, True),
        (3, {"delegate": 20}, False),
        (4, {}, True),
        (4, {"expires_at_s": 1}, False),
        (5, {"delegate": 20, "expires_at_s": 1}, True),
        (5, {}, False),
        (5, {"delegate": 20, "spends": 32, "cancels": 32}, False),
        (6, {}, True),
        (6, {"delegate": 20}, False),
        (6, {"expires_at_s": 1}, False),
        (7, {}, False),
    ],
)
def test_change_of_a_lock_has_the_fields_of_its_kind(kind: int, given: dict[str, int], is_fine: bool) -> None:
    frame, body = wire_of(messages.AssembleResponse)
    lock = _transition(body).lock
    lock.Clear()
    lock.kind, lock.lock, lock.presumed = kind, b"l" * 32, b"p" * 20
    for name, value in given.items():
        setattr(lock, name, value if name == "expires_at_s" else b"x" * value)
    assert is_read(frame) is is_fine


def test_a_prepared_round_has_at_most_255_leaves() -> None:
    frame, body = wire_of(messages.PreparedTransaction)
    while len(body.leaves) < 255:
        body.leaves.append(body.leaves[0])
    assert is_read(frame)
    body.leaves.append(body.leaves[0])
    assert not is_read(frame)


def test_a_request_names_at_most_64_leaves() -> None:
    frame, body = wire_of(messages.StateRequest)
    while len(body.leaves) < messages.STATE_REQUEST_LEAVES_MAX:
        body.leaves.append(body.leaves[0])
    assert is_read(frame)
    body.leaves.append(body.leaves[0])
    assert decode_frame(frame.SerializeToString()) == Malformed(
        "envelope 0, state_request: a field has at most 64 items, not 65"
    )


def test_the_hash_of_a_transaction_has_32_bytes_or_there_is_none() -> None:
    for size, is_fine in ((0, True), (1, False), (31, False), (32, True), (33, False)):
        frame, body = wire_of(messages.SubmitterHeartbeat)
        body.intents[1].hash = b"h" * size
        assert is_read(frame) is is_fine


def test_a_refusal_tells_of_at_most_four_prepared_transitions() -> None:
    frame, body = wire_of(messages.EndorsementResponse)
    kept = body.refusals[0].kept
    while len(kept) < 4:
        kept.append(kept[0])
    assert is_read(frame)
    kept.append(kept[0])
    assert not is_read(frame)


def test_at_most_fifteen_states_are_kept_for_a_transition() -> None:
    frame, body = wire_of(messages.EndorsementResponse)
    inputs = body.refusals[1].kept[1].inputs
    while len(inputs) < 15:
        inputs.append(inputs[0])
    assert is_read(frame)
    inputs.append(inputs[0])
    assert not is_read(frame)


@pytest.mark.parametrize(
    "name", ["", "a\nb", "\x00", "\x7f", "a\x9b1m", "a\u202eb", "a\u200bb", "\ufeffnode1", "a\u2028b"]
)
def test_a_name_is_something_to_be_seen_on_one_line(name: str) -> None:
    for kind, field in (
        (messages.VerifierRequest, "party"),
        (messages.DelegationRejected, "active"),
        (messages.EndorsementError, "accepted"),
        (messages.CoordinatorHeartbeat, "successor"),
        (messages.CoordinatorHeartbeat, "refused"),
    ):
        frame, body = wire_of(kind)
        setattr(body, field, "Zoë von Müller@node 1")
        assert is_read(frame)
        setattr(body, field, name)
        assert not is_read(frame)


ENUMERATION_FIELDS: list[tuple[type[Message], str, Callable[[Any], Any]]] = [
    (messages.DelegationAccepted, "answer", lambda body: body.answers[0]),
    (messages.DelegationRejected, "rejection", lambda body: body),
    (messages.AssembleResponse, "outcome", lambda body: body.results[0]),
    (messages.AssembleError, "code", lambda body: body.errors[0]),
    (messages.EndorsementError, "rejection", lambda body: body),
    (messages.CoordinatorHeartbeat, "state", lambda body: body),
    (messages.HandoverRequest, "reason", lambda body: body),
    (messages.DelegationCommand, "submit_mode", lambda body: body.delegations[1].intent),
]


@pytest.mark.parametrize(("kind", "name", "part"), ENUMERATION_FIELDS)
@pytest.mark.parametrize("value", [0, 99, -1, 2**31 - 1])
def test_a_value_of_an_enumeration_is_one_that_is_known(
    kind: type[Message], name: str, part: Callable[[Any], Any], value: int
) -> None:
    frame, body = wire_of(kind)
    setattr(part(body), name, value)
    assert not is_read(frame)


@pytest.mark.parametrize(("name", "most"), [("signers", types.COSIGNERS_MAX), ("endorsers", types.REQUIRED_MAX)])
def test_plan_adds_at_most_so_many_signers_and_endorsers(name: str, most: int) -> None:
    frame, body = wire_of(messages.EndorsementRequest)
    some = getattr(body.members[0].attesters, name)
    some.extend([some[0]] * (most - len(some)))
    assert is_read(frame)
    some.append(some[0])
    assert not is_read(frame)


def test_round_has_at_most_sixteen_approvals() -> None:
    frame, body = wire_of(messages.EndorsementRequest)
    approvals = body.approvals
    approvals.extend([approvals[0]] * (types.REQUIRED_MAX - len(approvals)))
    assert is_read(frame)
    approvals.append(approvals[0])
    assert not is_read(frame)
