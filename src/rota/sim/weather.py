"""What happens to messages and transactions on their way."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from rota.model.types import NodeName
from rota.wire.messages import Envelope, Message


@dataclass(slots=True)
class MessageRule:
    """Messages of a kind on one way; `*` is anybody."""

    kind: str
    source: NodeName
    target: NodeName

    def matches(self, source: NodeName, target: NodeName, envelope: Envelope) -> bool:
        """This message is one of them."""
        kind = type(envelope.body).__name__
        return self.kind == kind and self.source in (source, "*") and self.target in (target, "*")


@dataclass(slots=True)
class HoldRule(MessageRule):
    """Such messages are kept back, and these wait."""

    kept: list[tuple[NodeName, NodeName, Envelope]] = field(default_factory=list)


class Passage(NamedTuple):
    """What becomes of a transaction on its way to the chain: when it gets there, if ever, and whether we hear so."""

    delay_ms: int | None = 0
    is_answered: bool = True


GOOD_PASSAGE = Passage()


class Weather:
    """What the world does to messages and transactions on their way; good weather delivers them once and soon."""

    # Whether anything is ever heard again: only then is it remembered.
    has_echo = False

    def delays_ms(self, source: NodeName, target: NodeName, latency_ms: int) -> tuple[int, ...]:
        """The delay of each copy that arrives; none when it is lost."""
        return (latency_ms,)

    def echoed(self, heard_count: int) -> int | None:
        """Which of the latest messages is heard once more, if any."""
        return None

    def passage(self) -> Passage:
        """What becomes of a transaction on its way to the chain."""
        return GOOD_PASSAGE

    def is_damaged(self) -> bool:
        """This message does not arrive as it was sent."""
        return False

    def damage(self, data: bytes) -> bytes:
        """What arrives of a frame that is damaged on the way."""
        return data

    def forged(self, source: NodeName, target: NodeName, envelope: Envelope) -> tuple[NodeName, Message] | None:
        """What somebody who overheard this message says to its author, and who."""
        return None
