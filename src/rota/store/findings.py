"""What peers ask a node's store for: the states of transitions, which they may see.

To find and read them takes milliseconds a question, and whoever asks chooses how many questions that are. So they wait
apart from what this node itself wants to know, which is answered first. Peers take turns, and each has so many places:
what finds none is dropped, and asked for again.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import Final

from rota.core.effects import FindStates
from rota.types import NodeName

WAITING_MAX: Final = 2_048
WAITING_OF_PEER_MAX: Final = 256


class Findings:
    """The questions that wait, by peer."""

    def __init__(self) -> None:
        # Whose turn it was stands last.
        self._lines: Final[OrderedDict[NodeName, deque[FindStates]]] = OrderedDict()
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def put(self, question: FindStates) -> None:
        """At the end of the line of its peer, if there is a place."""
        line = self._lines.get(question.peer, deque())
        if self._count < WAITING_MAX and len(line) < WAITING_OF_PEER_MAX:
            line.append(question)
            self._lines[question.peer] = line
            self._count += 1

    def take(self) -> FindStates:
        """The next one."""
        peer, line = next(iter(self._lines.items()))
        question = line.popleft()
        self._count -= 1
        if line:
            self._lines.move_to_end(peer)
        else:
            del self._lines[peer]
        return question
