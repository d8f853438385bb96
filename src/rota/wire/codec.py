"""Conversion between frames and bytes (protocol §6).

Writing is deterministic: the same envelopes are the same bytes. Reading never raises, on any input: bytes that
cannot be read give a value, `Malformed`, with the reason. A frame is read whole or not at all, because a peer with one
envelope that no honest peer sends is not believed in the next; only additions of a newer minor version are
left out and counted.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field

from google.protobuf.message import DecodeError

import rota.wire.peer_pb2 as pb
from rota.model.frozen import dataclass
from rota.wire.limits import DEFAULT_LIMITS, Limits
from rota.wire.messages import PROTOCOL_VERSION, Envelope
from rota.wire.reading import READERS, Reader
from rota.wire.structure import FIELD_BYTES_MIN, structural_flaw
from rota.wire.values import Refused, UnknownValue, contract_address, number, request_id
from rota.wire.writing import write_envelope


@dataclass(frozen=True, slots=True)
class Frame:
    """The envelopes that a peer sent together; `skipped` counts those that only a newer version understands.

    `items` counts the items that were read (`Limits`); it is no part of the message.
    """

    protocol_version: tuple[int, int]
    envelopes: tuple[Envelope, ...]
    skipped: int = 0
    items: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Malformed:
    """Bytes that are no frame of this version within these limits. The reason contains none of their content."""

    reason: str


def encode_frame(envelopes: Iterable[Envelope]) -> bytes:
    """Return the bytes of a frame with these envelopes."""
    major, minor = PROTOCOL_VERSION
    frame = pb.Frame(version_major=major, version_minor=minor)
    for envelope in envelopes:
        assert envelope.protocol_version == PROTOCOL_VERSION, "we speak our own version"
        write_envelope(frame.envelopes.add(), envelope)
    return frame.SerializeToString(deterministic=True)


def decode_frame(data: bytes, limits: Limits = DEFAULT_LIMITS) -> Frame | Malformed:
    """Return the frame in these bytes, or why it cannot be read."""
    if len(data) > limits.frame_bytes_max:
        return Malformed(f"a frame has at most {limits.frame_bytes_max} bytes, not {len(data)}")
    if len(data) > FIELD_BYTES_MIN * limits.frame_fields_max and (
        flaw := structural_flaw(data, limits.frame_fields_max)
    ):
        return _version_flaw(data) or Malformed(f"the frame cannot be parsed: {flaw}")
    try:
        wire = pb.Frame.FromString(data)
    except DecodeError:
        return _version_flaw(data) or Malformed("the frame cannot be parsed")
    version = wire.version_major, wire.version_minor
    if version[0] != PROTOCOL_VERSION[0]:
        return _other_version(version)
    if len(wire.envelopes) > limits.frame_envelopes_max:
        return Malformed(f"a frame has at most {limits.frame_envelopes_max} envelopes, not {len(wire.envelopes)}")
    return _read_envelopes(wire, version, limits)


def _read_envelopes(wire: pb.Frame, version: tuple[int, int], limits: Limits) -> Frame | Malformed:
    envelopes: list[Envelope] = []
    reader = Reader(limits)
    for position, part in enumerate(wire.envelopes):
        kind = part.WhichOneof("body")
        if kind is None:
            continue
        try:
            envelopes.append(_read_envelope(reader, part, kind, version))
        except UnknownValue as unknown:
            # A known message may have a new value of an enumeration, whose meaning is not known here.
            if version <= PROTOCOL_VERSION:
                return Malformed(f"envelope {position}, {kind}: {unknown}")
        except Refused as refused:
            return Malformed(f"envelope {position}, {kind}: {refused}")
    return Frame(version, tuple(envelopes), len(wire.envelopes) - len(envelopes), reader.item_count)


def _read_envelope(reader: Reader, wire: pb.Envelope, kind: str, version: tuple[int, int]) -> Envelope:
    reader.contract = contract_address(wire.contract)
    return Envelope(
        reader.contract,
        request_id(wire.message_id),
        number(wire.incarnation),
        number(wire.height),
        READERS[kind](reader, getattr(wire, kind)),
        wire.no_ledger,
        request_id(wire.correlation_id) if wire.HasField("correlation_id") else None,
        version,
    )


def _version_flaw(data: bytes) -> Malformed | None:
    """Return the flaw if an unparsable frame is one of another major version, whose envelopes may differ."""
    try:
        wire = pb.FrameVersion.FromString(data)
    except DecodeError:
        return None
    if wire.version_major == PROTOCOL_VERSION[0]:
        return None
    return _other_version((wire.version_major, wire.version_minor))


def _other_version(version: tuple[int, int]) -> Malformed:
    theirs, ours = (".".join(map(str, numbers)) for numbers in (version, PROTOCOL_VERSION))
    return Malformed(f"the peer speaks protocol version {theirs}, which a node of version {ours} cannot read")
