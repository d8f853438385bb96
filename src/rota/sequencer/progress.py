"""Progress of the delegate: the sender's clocks (protocol §4.3).

Theory of operation. Only events at the sender itself count: a request to assemble an intent, a request
for permission, the end of an intent. An intent renews the clock once at each of these with one delegate; no other
message of a coordinator does. Time is counted by delegate and added up over its turns, so that a node cannot escape by
redirecting us and taking us back, or because its turn is short: an end counts for the node that had our permission,
and the time of a node with a permission continues after its turn. A delegate is overdue when no intent of ours came
further for the time-out (four times that while one has our permission, because then it may wait for the chain), or when
none ended for four times that. `pace.py` compares the speed of the delegate with others.

The time-out doubles when a walk through the ranking has brought nothing, and halves when an intent ends. The clocks
are read in steps, and count no more than two of them at once: a jump of our own clock, or a node that was suspended,
is no fault of the delegate.
"""

from __future__ import annotations

from collections.abc import Collection, Sized
from dataclasses import dataclass

from rota.model.types import NodeName
from rota.sequencer.context import Context
from rota.sequencer.pace import Pace

ENDING_FACTOR = 4
GROWTH_MAX = 16
STEPS = 8


@dataclass(slots=True)
class Waited:
    """The time waited at a node since an intent came further and since one ended."""

    further_ms: int = 0
    ended_ms: int = 0


class Progress:
    """The clocks of one sender."""

    def __init__(self, context: Context, open_intents: Collection[Sized] = ()) -> None:
        self.context = context
        # The collections of waiting intents, and how many of these do not wait for the delegate.
        self.open_intents = open_intents
        self.held_back_count = 0
        self.timeout_ms = context.config.progress_timeout_ms
        self.delegate: NodeName | None = None
        # Other nodes than the delegate that have a permission of ours.
        self.holders: frozenset[NodeName] = frozenset()
        self.is_running = False
        self.since_ms = context.now_ms
        self.waited: dict[NodeName, Waited] = {}
        self.pace = Pace(context)

    def begin(self) -> None:
        """Start the clock: the delegate has work for us."""
        if not self.is_running:
            self._count()
            self.is_running = True

    def stop(self) -> None:
        """Stop the clock: no intent waits for the delegate, or it is not to blame."""
        self._count()
        self.waited = {node: waited for node, waited in self.waited.items() if node in self.holders}
        self.is_running = False

    def note_held_back(self, count: int) -> None:
        """Set how many open intents no coordinator could bring further; the pace is measured without them."""
        self._count()
        self.held_back_count = count

    def wait_for(self, holders: frozenset[NodeName]) -> None:
        """Set the nodes with our permission that are not the delegate; their time continues."""
        self._count()
        self.holders = holders

    def late_holder(self) -> NodeName | None:
        """Return one of these that ended nothing for as long as a delegate with our permission may take, else None."""
        self._count()
        longest_ms = ENDING_FACTOR * self.timeout_ms
        late = (node for node, waited in self.waited.items() if waited.ended_ms >= longest_ms)
        return next((node for node in late if node in self.holders), None)

    def turn_to(self, delegate: NodeName) -> None:
        """Change the delegate; the time waited at the last one is kept."""
        self._count()
        if delegate != self.delegate:
            self.pace.turn_to(delegate)
        self.delegate = delegate

    def came_further(self, node: NodeName) -> None:
        """An intent of ours has reached a new stage at this node."""
        self._count()
        if node in self.waited:
            self.waited[node].further_ms = 0

    def ended(self, node: NodeName | None) -> None:
        """An intent of ours has ended through this node: its time restarts, that of others continues."""
        self._count()
        if node is not None:
            self.waited.pop(node, None)
            self.pace.ended(node)
        self.timeout_ms = max(self.timeout_ms // 2, self.context.config.progress_timeout_ms)

    def walked(self) -> None:
        """All members were tried and nothing ended: lengthen the time-out."""
        most_ms = GROWTH_MAX * self.context.config.progress_timeout_ms
        self.timeout_ms = min(2 * self.timeout_ms, most_ms)

    def forget(self, node: NodeName) -> None:
        """Forget the time of a node that was left; it starts over if it is chosen again."""
        self._count()
        self.waited.pop(node, None)

    @property
    def step_ms(self) -> int:
        """The interval between readings."""
        return max(1, self.timeout_ms // STEPS)

    def left_ms(self, is_on_its_way: bool) -> int:
        """Return the time that the delegate still has; not above zero when it is overdue."""
        self._count()
        waited = self.waited.get(self.delegate, Waited()) if self.delegate is not None else Waited()
        longest_ms = ENDING_FACTOR * self.timeout_ms
        patience_ms = longest_ms if is_on_its_way else self.timeout_ms
        return min(patience_ms - waited.further_ms, longest_ms - waited.ended_ms)

    def is_slow(self) -> bool:
        """Whether the delegate is to be left for its pace."""
        self._count()
        longest_ms = ENDING_FACTOR * self.timeout_ms
        return self.delegate is not None and self.pace.is_to_be_left(self.delegate, self.timeout_ms, longest_ms)

    def _count(self) -> None:
        """Charge the time since the last reading to the delegate."""
        now_ms = self.context.now_ms
        if now_ms == self.since_ms:
            return
        passed_ms = min(now_ms - self.since_ms, 2 * self.step_ms)
        self.since_ms = now_ms
        if self.is_running and self.delegate is not None:
            self._charge(self.delegate, passed_ms)
            count = sum(map(len, self.open_intents)) - self.held_back_count
            self.pace.charge(self.delegate, passed_ms, max(0, count))
        for node in sorted(self.holders - {self.delegate}):
            self._charge(node, passed_ms)

    def _charge(self, node: NodeName, passed_ms: int) -> None:
        waited = self.waited.setdefault(node, Waited())
        waited.further_ms += passed_ms
        waited.ended_ms += passed_ms
