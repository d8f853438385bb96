"""What peers ask a node's store for: the states of transitions, which they may see.

To find, read and send them takes processor time, and the peer chooses how many it asks for. So these questions wait
apart from this node's own, which are answered first. Peers take turns, and each has so many places: a question that
finds none is dropped, and asked again. Each answer is charged to its peer, whose next question waits until the answer
was at most `SHARE` of the time that has passed. Questions wait and are not dropped for that: a peer asks for all that
it lacks, does not know which part of it the others hold, and would never be answered about the last ones.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from time import monotonic
from typing import Final

from rota.machine.effects import FindStates
from rota.model.types import Digest, NodeName, Transition

# Transitions by round.
Answer = Sequence[tuple[Digest, tuple[Transition, ...]]]

WAITING_MAX: Final = 2_048
WAITING_OF_PEER_MAX: Final = 256
RESTING_MAX: Final = 4_096
# Of the processor, for what one peer asks for.
SHARE: Final = 0.05
# Processor time to look for a leaf, and to read, choose, cut and send what is found of it.
LEAF_S: Final = 0.000_03
FOUND_S: Final = 0.000_28


class Findings:
    """The questions that wait, by peer."""

    def __init__(self, node: NodeName, clock_s: Callable[[], float] = monotonic) -> None:
        self._node: Final = node
        self._clock_s: Final = clock_s
        # The peer whose turn it was stands last.
        self._lines: Final[OrderedDict[NodeName, deque[FindStates]]] = OrderedDict()
        self._waiting: Final[set[FindStates]] = set()
        # Until when each peer has had its share.
        self._rests_until_s: Final[dict[NodeName, float]] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, question: FindStates) -> None:
        """At the end of the line of its peer, if there is a place and the same question does not wait there."""
        line = self._lines.get(question.peer, deque())
        if len(self) < WAITING_MAX and len(line) < WAITING_OF_PEER_MAX and question not in self._waiting:
            line.append(question)
            self._lines[question.peer] = line
            self._waiting.add(question)

    def take(self) -> FindStates | None:
        """The next one of a peer that does not rest."""
        now_s = self._clock_s()
        peer = next((each for each in self._lines if self._rests_until_s.get(each, now_s) <= now_s), None)
        if peer is None:
            return None
        line = self._lines[peer]
        question = line.popleft()
        self._waiting.remove(question)
        if line:
            self._lines.move_to_end(peer)
        else:
            del self._lines[peer]
        return question

    def charge(self, question: FindStates, answer: Answer) -> None:
        """Its peer rests after this answer; this node itself does not."""
        if question.peer == self._node:
            return
        found_count = sum(len(transitions) for _, transitions in answer)
        spent_s = LEAF_S * len(question.leaves) + FOUND_S * found_count
        self._rests_until_s[question.peer] = self._clock_s() + spent_s / SHARE
        if len(self._rests_until_s) > RESTING_MAX:
            del self._rests_until_s[min(self._rests_until_s, key=self._rests_until_s.__getitem__)]

    def wait_s(self) -> float | None:
        """How long until a question can be taken; nothing where none waits."""
        if not self._lines:
            return None
        now_s = self._clock_s()
        return max(0.0, min(self._rests_until_s.get(peer, now_s) for peer in self._lines) - now_s)

    async def wait(self, has_questions: asyncio.Event) -> None:
        """Until this is set, or a peer that asks has rested."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self.wait_s()):
                await has_questions.wait()
