"""Messages as a peer reads them: encoded and decoded by the codec.

A node of a newer minor version writes frames that such a version may write: with its own number, and with a field and a
kind of message that this version does not know.
"""

from __future__ import annotations

from dataclasses import replace

from rota.model.types import NO_ATTESTERS
from rota.wire import peer_pb2 as pb
from rota.wire.codec import Frame, decode_frame, encode_frame
from rota.wire.messages import (
    PROTOCOL_VERSION,
    AssembleResponse,
    CoordinatorHeartbeat,
    DeploymentAnswer,
    EndorsementRequest,
    Envelope,
    HoldingsRequest,
    HoldingsResponse,
    Message,
    VerifierRequest,
    VerifierResponse,
)

# Field 900 of a frame, and of an envelope that has no body: one byte, 1.
UNKNOWN_FIELD = b"\xa0\x38\x01"


def over_the_wire(envelope: Envelope) -> Envelope:
    """The message after encoding and decoding; a failure of either is a defect of the codec."""
    frame = decode_frame(frame_of(envelope))
    assert isinstance(frame, Frame), f"{type(envelope.body).__name__} cannot be read: {frame}"
    (read,) = frame.envelopes
    assert read == envelope, f"{type(envelope.body).__name__} is read as another one"
    return read


def frame_of(envelope: Envelope) -> bytes:
    """The frame in which the message's node sends it."""
    if envelope.protocol_version == PROTOCOL_VERSION:
        return encode_frame((envelope,))
    return _as_of(envelope.protocol_version, encode_frame((envelope.of_version(PROTOCOL_VERSION),)))


def arrives_whole(envelope: Envelope, data: bytes) -> bool:
    """Whether these bytes decode to this message.

    The codec decodes any bytes without harm, and channels are authenticated: bytes that decode to another message are
    dropped like bytes that do not decode.
    """
    frame = decode_frame(data)
    return isinstance(frame, Frame) and frame.envelopes == (envelope,)


def acceptable(envelope: Envelope) -> Envelope | None:
    """The message that a peer decodes from a liar's message; None if the codec cannot write or read it."""
    try:
        data = encode_frame((envelope.of_version(PROTOCOL_VERSION),))
    except (AssertionError, ValueError, TypeError, OverflowError):
        return None
    frame = decode_frame(data)
    if not isinstance(frame, Frame) or len(frame.envelopes) != 1:
        return None
    return frame.envelopes[0].of_version(envelope.protocol_version)


def as_before(body: Message) -> Message | None:
    """The message as the previous build sends or reads it: without the newest fields, or None if it is unknown."""
    match body:
        case CoordinatorHeartbeat():
            return replace(body, missing=()) if body.missing else body
        case AssembleResponse():
            return replace(body, results=tuple(replace(each, attesters=NO_ATTESTERS) for each in body.results))
        case EndorsementRequest():
            return replace(body, attesters=(), approvals=(), asks_approval=False)
        case VerifierRequest():
            return replace(body, asks_announced=False)
        case VerifierResponse():
            return replace(body, announced=None)
        case DeploymentAnswer():
            return replace(body, asked_since_s=0)
        case HoldingsRequest() | HoldingsResponse():
            return None
        case _:
            return body


def _as_of(version: tuple[int, int], data: bytes) -> bytes:
    frame = pb.Frame.FromString(data)
    frame.version_major, frame.version_minor = version
    frame.envelopes.add().MergeFromString(UNKNOWN_FIELD)
    return frame.SerializeToString(deterministic=True) + UNKNOWN_FIELD
