"""The pieces of a stream, to bytes and back. Reading never raises: unreadable bytes are `None`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

from google.protobuf.message import DecodeError

from rota.model.types import NodeName
from rota.transport.endings import TEXT_CHARACTERS_MAX, Ending, Reason
from rota.wire import transport_pb2 as pb
from rota.wire.messages import PROTOCOL_VERSION

LIFE_BYTES: Final = 8
ACCOUNT_BYTES: Final = 20
RANKED_TRIGGERS_MAX: Final = 256
TRIGGER_CHARACTERS_MAX: Final = 63


@dataclass(frozen=True, slots=True)
class Announcement:
    """How a node takes part in automation: the address that it acts with, and the triggers that it ranks."""

    account: bytes = b""
    ranked_triggers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Hello:
    """The first part of both sides."""

    node: NodeName
    peer: NodeName
    life: bytes
    is_renewal: bool = False
    version: tuple[int, int] = PROTOCOL_VERSION
    shown_fingerprint: bytes = b""
    announcement: Announcement = Announcement()


@dataclass(frozen=True, slots=True)
class FramePart:
    """All messages of one turn, as bytes of the codec."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Ping:
    """Asks for a pong of the same number."""

    number: int


@dataclass(frozen=True, slots=True)
class Pong:
    """The answer to a ping."""

    number: int


@dataclass(frozen=True, slots=True)
class Goodbye:
    """The last part."""

    ending: Ending


Part: TypeAlias = Hello | FramePart | Ping | Pong | Goodbye

_REASONS: Final = {
    Reason.STOPPING: pb.REASON_STOPPING,
    Reason.CROSSED: pb.REASON_CROSSED,
    Reason.REPLACED: pb.REASON_REPLACED,
    Reason.NO_PONG: pb.REASON_NO_PONG,
    Reason.STRANGER: pb.REASON_STRANGER,
    Reason.EXPIRED: pb.REASON_EXPIRED,
    Reason.SWAPPED_NAME: pb.REASON_SWAPPED_NAME,
    Reason.VERSION: pb.REASON_VERSION,
    Reason.MALFORMED: pb.REASON_MALFORMED,
    Reason.FLOOD: pb.REASON_FLOOD,
    Reason.BUSY: pb.REASON_BUSY,
}
_REASON_OF_NUMBER: Final = {number: reason for reason, number in _REASONS.items()}


def hello_bytes(hello: Hello) -> bytes:
    """As bytes."""
    part = pb.Part()
    part.hello.version_major, part.hello.version_minor = hello.version
    part.hello.node = hello.node
    part.hello.peer = hello.peer
    part.hello.life = hello.life
    part.hello.is_renewal = hello.is_renewal
    part.hello.shown_fingerprint = hello.shown_fingerprint
    part.hello.automation_account = hello.announcement.account
    part.hello.ranked_triggers.extend(hello.announcement.ranked_triggers)
    return part.SerializeToString()


def frame_bytes(frame: bytes) -> bytes:
    """As bytes of a part."""
    return pb.Part(frame=frame).SerializeToString()


def ping_bytes(number: int) -> bytes:
    """As bytes."""
    return pb.Part(ping=number).SerializeToString()


def pong_bytes(number: int) -> bytes:
    """As bytes."""
    return pb.Part(pong=number).SerializeToString()


def goodbye_bytes(ending: Ending) -> bytes:
    """As bytes."""
    reason = _REASONS.get(ending.reason, pb.REASON_UNSPECIFIED)
    part = pb.Part(goodbye=pb.Goodbye(reason=reason, text=ending.text[:TEXT_CHARACTERS_MAX]))
    return part.SerializeToString()


def read_part(data: bytes) -> Part | None:
    """The part that a peer sent; `None` when it is no part of any version."""
    try:
        part = pb.Part.FromString(data)
    except DecodeError:
        return None
    match part.WhichOneof("kind"):
        case "hello":
            hello = part.hello
            version = hello.version_major, hello.version_minor
            names = NodeName(hello.node), NodeName(hello.peer)
            named = (name for name in hello.ranked_triggers if len(name) <= TRIGGER_CHARACTERS_MAX)
            ranked = [name for name in named if name.isprintable()]
            announced = Announcement(hello.automation_account, tuple(ranked[:RANKED_TRIGGERS_MAX]))
            return Hello(*names, hello.life, hello.is_renewal, version, hello.shown_fingerprint, announced)
        case "frame":
            return FramePart(part.frame)
        case "ping":
            return Ping(part.ping)
        case "pong":
            return Pong(part.pong)
        case "goodbye":
            reason = _REASON_OF_NUMBER.get(part.goodbye.reason, Reason.UNSPECIFIED)
            return Goodbye(Ending(reason, part.goodbye.text[:TEXT_CHARACTERS_MAX], is_theirs=True))
        case _:
            return None
