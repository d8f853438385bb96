"""Events that several pure packages share: time, messages, connections, users, and writes that ended."""

from __future__ import annotations

from rota.machine.tables import Event
from rota.model.frozen import dataclass
from rota.model.types import Intent, IntentId, NodeName, Outcome, Party, RequestId
from rota.wire.messages import Envelope


@dataclass(frozen=True, slots=True)
class Tick(Event):
    """Time has passed; a deadline may have come."""


# From the network.


@dataclass(frozen=True, slots=True)
class MessageReceived(Event):
    """A message from the authenticated node at the other end of a connection."""

    peer: NodeName
    envelope: Envelope


@dataclass(frozen=True, slots=True)
class ConnectionLost(Event):
    """The connection no longer works in both directions (protocol §4.1)."""

    peer: NodeName


@dataclass(frozen=True, slots=True)
class ConnectionMade(Event):
    """The connection works in both directions again."""

    peer: NodeName


# From users and operators.


@dataclass(frozen=True, slots=True)
class IntentSubmitted(Event):
    """A user submits a private transaction; the reply goes to `reply_to` once it is persisted.

    The node adds the known outcomes of its dependencies.
    """

    reply_to: str
    intent: Intent
    known_outcomes: tuple[tuple[IntentId, Outcome], ...] = ()


@dataclass(frozen=True, slots=True)
class ResumeRequested(Event):
    """A user resumes a parked intent."""

    reply_to: str
    intent: IntentId


@dataclass(frozen=True, slots=True)
class CancelRequested(Event):
    """A user cancels an intent."""

    reply_to: str
    intent: IntentId


@dataclass(frozen=True, slots=True)
class StopRequested(Event):
    """Raised by an operator: the node is to stop; it hands its role over first."""


# Results of effects.


class Result(Event):
    """The result of an effect, from the domain, the signer or the key store."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class VerifierLookedUp(Result):
    """The key store's answer for a party of this node; empty when there is none.

    `announced` is whether users of this node have used the party, None when that is not known now.
    """

    peer: NodeName
    request_id: RequestId
    party: Party
    verifier: str
    announced: bool | None = None


@dataclass(frozen=True, slots=True)
class VerifierWanted(Result):
    """The check of a signature, or an assembly, needs the verifier of this party in the contract.

    With `asks_announced` its node is asked, even if the verifier is known, whether its users have used the party.
    """

    party: Party
    asks_announced: bool = False
