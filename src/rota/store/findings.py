"""Questions of peers to a node's store: the states of transitions, which they may see.

Finding, reading and sending states takes processor time, and the peer chooses how many it asks for. So these questions
wait apart from this node's own, which are answered first. Peers take turns, and each has a bounded queue: a question
that does not fit is dropped, and the peer asks again. Each answer is charged to its peer, whose next question waits
until the answer was at most `SHARE` of the time that has passed. Such a question waits and is not dropped: a peer asks
for all that it lacks, does not know which part of it the others hold, and would never get the last answers.
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
# The share of the processor for the questions of one peer.
SHARE: Final = 0.05
# Processor time to look for a leaf, and to read, choose, cut and send each transition found.
LEAF_S: Final = 0.000_03
FOUND_S: Final = 0.000_28


class Findings:
    """The waiting questions, by peer."""

    def __init__(self, node: NodeName, clock_s: Callable[[], float] = monotonic) -> None:
        self._node: Final = node
        self._clock_s: Final = clock_s
        # The peer that was served last is at the end.
        self._lines: Final[OrderedDict[NodeName, deque[FindStates]]] = OrderedDict()
        self._waiting: Final[set[FindStates]] = set()
        # The time until which each peer has used its share.
        self._rests_until_s: Final[dict[NodeName, float]] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, question: FindStates) -> None:
        """Append it to the queue of its peer, unless the queue is full or has the same question."""
        line = self._lines.get(question.peer, deque())
        if len(self) < WAITING_MAX and len(line) < WAITING_OF_PEER_MAX and question not in self._waiting:
            line.append(question)
            self._lines[question.peer] = line
            self._waiting.add(question)

    def take(self) -> FindStates | None:
        """The next question of a peer that has not used its share; None if there is none."""
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
        """Delay the peer's next question according to the cost of this answer; the node itself is not delayed."""
        if question.peer == self._node:
            return
        found_count = sum(len(transitions) for _, transitions in answer)
        spent_s = LEAF_S * len(question.leaves) + FOUND_S * found_count
        self._rests_until_s[question.peer] = self._clock_s() + spent_s / SHARE
        if len(self._rests_until_s) > RESTING_MAX:
            del self._rests_until_s[min(self._rests_until_s, key=self._rests_until_s.__getitem__)]

    def wait_s(self) -> float | None:
        """How long until a question can be taken; None when no question waits."""
        if not self._lines:
            return None
        now_s = self._clock_s()
        return max(0.0, min(self._rests_until_s.get(peer, now_s) for peer in self._lines) - now_s)

    async def wait(self, has_questions: asyncio.Event) -> None:
        """Wait until this is set, or until a waiting question can be taken."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self.wait_s()):
                await has_questions.wait()
