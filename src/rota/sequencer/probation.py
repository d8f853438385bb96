"""Probation: senders that share no round with others for a while (protocol §7).

Theory of operation. A round is signed as a whole and dispatched when all its members are permitted, so a member that
misbehaves costs the others time. A sender whose transition was faulty is therefore on probation: its transitions go in
rounds of its own, which count against no other sender, and nothing is built on them before they are dispatched. Until
it permits them, they lock nothing for senders in good standing: otherwise it could block a shared state repeatedly, by
withholding its permission. A sender on probation loses nothing else.

These are faults: to leave a request for permission unanswered, or to answer it late; to bring a transition that does
not match its leaf, or whose bound is short; to name a state that endorsers do not know; to be refused by endorsers; to
bring a transition that endorsers fail to judge, for example because its node does not give them its party's verifier. A
sender may refuse permission for some of its intents, as users cancel: only too many of them are a fault.

The first probation lasts `probation`. A fault during it restarts it; a fault after it makes the next one twice as
long, up to `probation_max`; each clean period of that length halves it again.

A sender whose transition was skipped by the chain for a state that was spent before the transition was assembled wastes
its coordinator's gas. It is on probation, and for the same time, counted separately, the coordinator neither asks it to
assemble nor opens rounds for it. For as long again it has one transition at a time under way. The same holds for a
sender whose calls fail on the chain repeatedly while transitions of others depend on its own: they are skipped too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from rota.machine.bounded import forget_oldest
from rota.model.types import NodeName
from rota.sequencer.context import Context

SENDERS_MAX: Final = 1_024
# One refused permission in so many is tolerated, and one besides.
PERMITTED_PER_REFUSED: Final = 8
PERMITTED_MAX: Final = 64


@dataclass(slots=True)
class _Standing:
    length_ms: int
    until_ms: int


@dataclass(slots=True)
class _Permitting:
    permitted: int = 0
    refused: int = 0


class _Failing(NamedTuple):
    times: int = 0
    last_ms: int = 0


class Probation:
    """The standing of the senders of one coordinator; senders without an entry are in good standing."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.standings: dict[NodeName, _Standing] = {}
        self.wasting: dict[NodeName, _Standing] = {}
        self.permitting: dict[NodeName, _Permitting] = {}
        self.failing: dict[NodeName, _Failing] = {}

    def has(self, sender: NodeName) -> bool:
        """Whether its transitions go in rounds of its own."""
        standing = self.standings.get(sender)
        return standing is not None and standing.until_ms > self.context.now_ms

    def note_fault(self, sender: NodeName) -> None:
        """Note an act of this sender that cost others time."""
        self._note(self.standings, sender)

    def note_waste(self, sender: NodeName) -> int:
        """Note that this node paid for an impossible transition; return until when its sender is paused."""
        return self._note(self.wasting, sender)

    def fails_others_too_often(self, sender: NodeName) -> bool:
        """Note a call that failed on the chain with transitions of others on top; return whether that is too often.

        An intent whose call fails permanently does so with each of its retries: as many are excused.
        """
        now_ms, config = self.context.now_ms, self.context.config
        failing = self.failing.pop(sender, None)
        if failing is None or now_ms - failing.last_ms > config.probation_max_ms:
            failing = _Failing()
        self.failing[sender] = _Failing(failing.times + 1, now_ms)
        forget_oldest(self.failing, SENDERS_MAX)
        return failing.times > config.revert_retry_max

    def is_paused(self, sender: NodeName) -> bool:
        """Whether the sender is paused now."""
        standing = self.wasting.get(sender)
        return standing is not None and standing.until_ms > self.context.now_ms

    def is_doubted(self, sender: NodeName) -> bool:
        """Whether it was paused lately, so that it has one transition at a time under way."""
        standing = self.wasting.get(sender)
        return standing is not None and standing.until_ms + standing.length_ms > self.context.now_ms

    def _note(self, standings: dict[NodeName, _Standing], sender: NodeName) -> int:
        now_ms, config = self.context.now_ms, self.context.config
        standing = standings.pop(sender, None)
        if standing is None:
            standing = _Standing(config.probation_ms, 0)
        elif standing.until_ms <= now_ms:
            standing.length_ms = min(2 * self._length_now_ms(standing), config.probation_max_ms)
        standing.until_ms = now_ms + standing.length_ms
        standings[sender] = standing
        forget_oldest(standings, SENDERS_MAX)
        return standing.until_ms

    def note_permitted(self, sender: NodeName) -> None:
        """Note that it permitted a transition."""
        permitting = self.permitting.get(sender)
        if permitting is not None:
            permitting.permitted += 1
            if permitting.permitted >= PERMITTED_MAX:
                del self.permitting[sender]

    def is_too_much(self, sender: NodeName) -> bool:
        """Note that it refused permission for a transition; return whether that happens too often."""
        permitting = self.permitting.setdefault(sender, _Permitting())
        permitting.refused += 1
        forget_oldest(self.permitting, SENDERS_MAX)
        return permitting.refused > 1 + permitting.permitted // PERMITTED_PER_REFUSED

    def _length_now_ms(self, standing: _Standing) -> int:
        """Return the length that the last probation counts as now: half as long for each clean period of its length."""
        clean_ms, length_ms = self.context.now_ms - standing.until_ms, standing.length_ms
        while clean_ms >= length_ms and length_ms * 2 > self.context.config.probation_ms:
            clean_ms -= length_ms
            length_ms //= 2
        return length_ms
