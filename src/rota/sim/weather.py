"""Faults of messages and transactions on their way."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from rota.model.types import NodeName
from rota.wire.messages import Envelope, Message


@dataclass(slots=True)
class MessageRule:
    """Matches messages of a kind from a source to a target; `*` is any node."""

    kind: str
    source: NodeName
    target: NodeName

    def matches(self, source: NodeName, target: NodeName, envelope: Envelope) -> bool:
        """Whether the rule matches this message."""
        kind = type(envelope.body).__name__
        return self.kind == kind and self.source in (source, "*") and self.target in (target, "*")


@dataclass(slots=True)
class HoldRule(MessageRule):
    """Holds matching messages, and keeps them in `kept`."""

    kept: list[tuple[NodeName, NodeName, Envelope]] = field(default_factory=list)


class Passage(NamedTuple):
    """A transaction's way to the chain: its delay, None if it is lost, and whether its sender gets an answer."""

    delay_ms: int | None = 0
    is_answered: bool = True


GOOD_PASSAGE = Passage()


class Weather:
    """Faults of messages and transactions on their way; this base class delivers them once and soon."""

    # Whether messages may be delivered again: only then are earlier ones kept.
    has_echo = False

    def delays_ms(self, source: NodeName, target: NodeName, latency_ms: int) -> tuple[int, ...]:
        """The delay of each copy that arrives; none when it is lost."""
        return (latency_ms,)

    def echoed(self, heard_count: int) -> int | None:
        """The index of an earlier message to deliver again, or None."""
        return None

    def passage(self) -> Passage:
        """How a transaction reaches the chain."""
        return GOOD_PASSAGE

    def is_damaged(self) -> bool:
        """Whether this message arrives damaged."""
        return False

    def damage(self, data: bytes) -> bytes:
        """The bytes that arrive of a damaged frame."""
        return data

    def forged(self, source: NodeName, target: NodeName, envelope: Envelope) -> tuple[NodeName, Message] | None:
        """A forged answer to this message's author, and its sender; None if there is none."""
        return None
