"""What a step asked for, in order, until it may leave: a write before all that it governs (protocol §8).

Theory of operation. Effects leave in the order in which they were asked for. A write is ordered of the store as soon
as it comes, so that all writes of a turn share one database transaction; what stands behind it waits here until it is
durable. When it fails, what it governs is dropped, up to the next write of its step, and the rest goes on. The core
is told of a write behind the effects that it governs, as in the simulator.

A store that is away holds everything up, and that is right: a node that cannot write has nothing to say that
it could keep. What piles up meanwhile is bounded: messages beyond `WAITING_MAX` are lost, as messages may be, and all
else is bounded by the core, which does not go on without its writes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from rota.machine.effects import Effect, Persist, SendMessage
from rota.machine.events import Persisted, PersistFailed

WAITING_MAX: Final = 65_536


class _Written(NamedTuple):
    """Stands behind the effects that a write governs: then the core is told that it is done."""

    token: int


class Outbox:
    """The effects of one node that have not left yet. `perform` does one; `tell` is the core's ear."""

    def __init__(self, perform: Callable[[Effect], None], tell: Callable[[Persisted | PersistFailed], None]) -> None:
        self._perform: Final = perform
        self._tell: Final = tell
        self._waiting: Final[deque[Effect | _Written]] = deque()
        self._results: Final[dict[int, Persisted | PersistFailed]] = {}
        self._is_leaving = False
        self.messages_dropped = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, effects: Iterable[Effect]) -> None:
        """The effects of one step: writes are ordered now, the rest leaves in its turn."""
        token: int | None = None
        for effect in effects:
            if type(effect) is Persist:
                if token is not None:
                    self._waiting.append(_Written(token))
                token = effect.token
                self._perform(effect)
            elif len(self._waiting) >= WAITING_MAX and isinstance(effect, SendMessage):
                self.messages_dropped += 1
                continue
            self._waiting.append(effect)
        if token is not None:
            self._waiting.append(_Written(token))
        self.leave()

    def take_result(self, result: Persisted | PersistFailed) -> None:
        """A write is durable, or it is not."""
        self._results[result.token] = result
        self.leave()

    def leave(self) -> None:
        """Let go what may go. What follows from an effect is put behind the others, so this does not run in itself."""
        if self._is_leaving:
            return
        self._is_leaving = True
        try:
            while self._waiting and self._may_leave(self._waiting[0]):
                self._let_go(self._waiting.popleft())
        finally:
            self._is_leaving = False

    def _may_leave(self, first: Effect | _Written) -> bool:
        return type(first) is not Persist or first.token in self._results

    def _let_go(self, effect: Effect | _Written) -> None:
        match effect:
            case Persist(_, token):
                if isinstance(self._results[token], PersistFailed):
                    self._drop_governed(token)
            case _Written(token):
                self._tell(self._results.pop(token))
            case _:
                self._perform(effect)

    def _drop_governed(self, token: int) -> None:
        while self._waiting[0] != _Written(token):
            self._waiting.popleft()
