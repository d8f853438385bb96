"""Why connections end or are not made, counted, and logged once.

A peer that is refused tries again, for ever if it is let: its second refusal tells an operator nothing that the first
did not. So a reason is logged once for each peer, and again only after the peer has been connected in between. The
counters have them all.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

logger: Final = logging.getLogger("rota.transport")

LOGGED_MAX: Final = 1_024
TEXT_CHARACTERS_MAX: Final = 500


class Reason(Enum):
    """Why; the first part is what a Goodbye can say, as in transport.proto."""

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
    # The world's, which nobody can say goodbye for.
    CUT_OFF = "cut off"
    UNREACHABLE = "unreachable"


# Nobody is at fault: these go to the counters and not to the log.
QUIET: Final = frozenset({Reason.STOPPING, Reason.CROSSED, Reason.REPLACED, Reason.BUSY})
# Another connection stands where this one stood.
SUPERSEDED: Final = frozenset({Reason.CROSSED, Reason.REPLACED})
# A peer that does this is not heard for a while.
MISUSE: Final = frozenset({Reason.MALFORMED, Reason.FLOOD})


@dataclass(frozen=True, slots=True)
class Ending:
    """Why a connection ended; `is_theirs` when the peer said so."""

    reason: Reason
    text: str
    is_theirs: bool = False

    def __str__(self) -> str:
        return f"it says: {self.text or self.reason.value}" if self.is_theirs else self.text


class Refused(Exception):
    """A connection that is not made, and why."""

    def __init__(self, ending: Ending) -> None:
        super().__init__(str(ending))
        self.ending: Final = ending


def refused(reason: Reason, text: str) -> Refused:
    """To be raised by whoever finds the fault."""
    return Refused(Ending(reason, text))


class Endings:
    """The counters, and the memory of what is in the log."""

    def __init__(self) -> None:
        self._counts: Final[Counter[Reason]] = Counter()
        self._logged: Final[dict[tuple[str, Reason], None]] = {}

    @property
    def counts(self) -> Mapping[Reason, int]:
        """How often each reason was met."""
        return self._counts

    def note(self, who: str, ending: Ending) -> None:
        """Count it, and log it if this is news."""
        self._counts[ending.reason] += 1
        key = (who, ending.reason)
        if ending.reason in QUIET or key in self._logged:
            return
        if len(self._logged) >= LOGGED_MAX:
            del self._logged[next(iter(self._logged))]
        self._logged[key] = None
        logger.warning("%s: %s: %s", who, ending.reason.value, harmless(str(ending)))

    def forget(self, who: str) -> None:
        """It is connected: what happens from now on is news again."""
        for key in [key for key in self._logged if key[0] == who]:
            del self._logged[key]


def harmless(text: str) -> str:
    """What a peer said, fit for one line of a log."""
    return "".join(character if character.isprintable() else "?" for character in text[:TEXT_CHARACTERS_MAX])
