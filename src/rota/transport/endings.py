"""Reasons why connections end or are refused: counters, and log lines that do not repeat.

A refused peer retries without end. A reason is logged once for each peer, and again only after the peer has been
connected in between. Log lines of a peer are limited in each minute, also for one that connects and leaves in turn. The
counters count every ending.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from rota.logs import catalogue
from rota.logs.trouble import PeerLines
from rota.model.types import NodeName

LOGGED_MAX: Final = 1_024
TEXT_CHARACTERS_MAX: Final = 500


class Reason(Enum):
    """A reason; the first group can be in a Goodbye, as in transport.proto."""

    UNSPECIFIED = "unspecified"
    STOPPING = "stopping"
    CROSSED = "crossed"
    REPLACED = "replaced"
    NO_PONG = "no pong"
    STRANGER = "stranger"
    EXPIRED = "expired"
    SWAPPED_NAME = "swapped name"
    VERSION = "version"
    MALFORMED = "malformed"
    FLOOD = "flood"
    BUSY = "busy"
    # Caused by the network: no goodbye is possible.
    CUT_OFF = "cut off"
    UNREACHABLE = "unreachable"


# No side is at fault: counted and not logged.
QUIET: Final = frozenset({Reason.STOPPING, Reason.CROSSED, Reason.REPLACED, Reason.BUSY})
# Another connection has replaced this one.
SUPERSEDED: Final = frozenset({Reason.CROSSED, Reason.REPLACED})
# The node ignores a peer that does this for a while.
MISUSE: Final = frozenset({Reason.MALFORMED, Reason.FLOOD})


@dataclass(frozen=True, slots=True)
class Ending:
    """Why a connection ended; `is_theirs` when the peer gave the reason."""

    reason: Reason
    text: str
    is_theirs: bool = False

    def __str__(self) -> str:
        return f"it says: {self.text or self.reason.value}" if self.is_theirs else self.text


class Refused(Exception):
    """A connection is refused, with the reason."""

    def __init__(self, ending: Ending) -> None:
        super().__init__(str(ending))
        self.ending: Final = ending


def refused(reason: Reason, text: str) -> Refused:
    """The error to raise."""
    return Refused(Ending(reason, text))


class Endings:
    """The counters, and the reasons that are in the log."""

    def __init__(self) -> None:
        self._counts: Final[Counter[Reason]] = Counter()
        self._logged: Final[dict[tuple[str, Reason], None]] = {}
        self._connected: Final = PeerLines()
        self._disconnected: Final = PeerLines()
        self._refused: Final = PeerLines()

    @property
    def counts(self) -> Mapping[Reason, int]:
        """How often each reason occurred."""
        return self._counts

    def note(self, who: str, ending: Ending) -> None:
        """Count a refused connection, and log the reason if it is new."""
        self.count(ending)
        key = (who, ending.reason)
        if ending.reason in QUIET or key in self._logged or not self._refused.is_due(who):
            return
        if len(self._logged) >= LOGGED_MAX:
            del self._logged[next(iter(self._logged))]
        self._logged[key] = None
        catalogue.PEER_REFUSED.log(peer=who, reason=ending.reason.value, detail=harmless(str(ending)))

    def count(self, ending: Ending) -> None:
        """Count an ending."""
        self._counts[ending.reason] += 1

    def log_connected(self, peer: NodeName) -> None:
        """Log that messages reach a peer again."""
        if self._connected.is_due(peer):
            catalogue.PEER_CONNECTED.log(peer=peer)

    def log_disconnected(self, peer: NodeName, ending: Ending) -> None:
        """Log that a connected peer has become unreachable."""
        if self._disconnected.is_due(peer):
            catalogue.PEER_DISCONNECTED.log(peer=peer, reason=ending.reason.value, detail=harmless(str(ending)))

    def forget(self, who: str) -> None:
        """The peer is connected: log its next failures again."""
        for key in [key for key in self._logged if key[0] == who]:
            del self._logged[key]


def harmless(text: str) -> str:
    """A text from a peer, fit for one line of a log."""
    return "".join(character if character.isprintable() else "?" for character in text[:TEXT_CHARACTERS_MAX])
