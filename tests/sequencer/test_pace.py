"""A delegate that is much slower than others is left, and one that is as fast as the others is not (protocol §4.3)."""

from __future__ import annotations

from rota.machine.context import Ids
from rota.model.config import Config
from rota.model.types import NodeName, Rotation
from rota.sequencer.context import Context
from rota.sequencer.demotion import ACCUSATION_RANGES
from rota.sequencer.pace import ENDS_KEPT_MAX, FRESH_MS, SLACK, SLOW_FACTOR, Measured
from rota.sequencer.progress import ENDING_FACTOR, Progress
from tests.sequencer.kit import A, B, C, contract, intent_id
from tests.sequencer.test_progress import Delegate

TIMEOUT_MS = Config().progress_timeout_ms
TERM_MS = ENDING_FACTOR * TIMEOUT_MS


class Watch:
    """A's clocks, with so many intents under way."""

    def __init__(self, under_way: int = 1, rotation: Rotation = Rotation.STICKY) -> None:
        self.context = Context(A, Ids(1), contract(rotation=rotation), Config())
        self.open: list[int] = [0] * under_way
        self.progress = Progress(self.context, (self.open,))

    def turn_to(self, node: NodeName) -> None:
        self.node = node
        self.progress.turn_to(node)
        self.progress.begin()

    def run(self, for_ms: int, wait_ms: int) -> bool:
        """Each intent ends after such a wait, and another one follows; whether the delegate is left meanwhile."""
        end_ms, waited_ms = self.context.now_ms + for_ms, 0
        while self.context.now_ms < end_ms:
            self.context.now_ms += 1_000
            waited_ms += 1_000 * len(self.open)
            while waited_ms >= wait_ms:
                waited_ms -= wait_ms
                self.progress.ended(self.node)
            if self.progress.is_slow():
                return True
        return False

    def pass_ranges(self, count: int) -> None:
        self.context.height += count * self.context.contract.range_size


def watch_of_two(wait_ms: int, under_way: int = 1) -> Watch:
    """C was the delegate for a while, with such a wait, and was left; B is the delegate now."""
    watch = Watch(under_way)
    watch.turn_to(C)
    assert not watch.run(TIMEOUT_MS, wait_ms)
    watch.turn_to(B)
    return watch


def test_delegate_that_is_twice_as_slow_as_another_is_left() -> None:
    assert watch_of_two(2_000).run(TERM_MS, 5_000)


def test_delegate_that_is_as_slow_as_another_is_not_left() -> None:
    assert not watch_of_two(4_000).run(10 * TERM_MS, 7_000)


def test_delegate_has_the_progress_timeout_to_begin() -> None:
    assert not watch_of_two(1_000).run(TIMEOUT_MS - 1_000, TERM_MS)


def test_delegate_that_leaves_most_intents_lying_and_ends_some_at_once_is_left() -> None:
    watch = watch_of_two(2_000, under_way=10)
    assert watch.run(TERM_MS, 20_000)


def test_delegate_with_more_to_do_than_another_had_is_not_compared_with_it() -> None:
    watch = watch_of_two(2_000)
    watch.open.extend([0] * 9)
    assert not watch.run(TERM_MS, 20_000)


def test_delegate_is_left_after_a_term_when_no_other_was_measured() -> None:
    watch = Watch()
    watch.turn_to(B)
    assert not watch.run(TERM_MS - 1_000, 1_000)
    assert watch.run(1_000, 1_000)


def test_delegate_is_measured_again_when_the_measure_of_others_is_old() -> None:
    watch = watch_of_two(2_000)
    assert not watch.run(FRESH_MS - 1_000, 2_000)
    assert watch.run(TIMEOUT_MS, 2_000)


def test_few_ends_are_no_measure() -> None:
    watch = Watch()
    watch.turn_to(C)
    watch.run(7_000, 1_000)
    watch.turn_to(B)
    assert not watch.run(TERM_MS - 1_000, 10_000)


def test_delegate_is_left_for_its_pace_once_in_some_ranges() -> None:
    watch = watch_of_two(2_000)
    assert watch.run(TERM_MS, 10_000)
    watch.progress.pace.note_left()
    assert not watch.progress.is_slow()
    watch.pass_ranges(ACCUSATION_RANGES - 1)
    assert not watch.progress.is_slow()
    watch.pass_ranges(1)
    assert watch.progress.is_slow()


def test_delegate_is_not_left_for_its_pace_under_strict_rotation() -> None:
    watch = Watch(rotation=Rotation.STRICT)
    watch.turn_to(B)
    assert not watch.run(2 * TERM_MS, 10_000)


def test_nobody_is_slow_while_there_is_no_delegate() -> None:
    assert not Watch().progress.is_slow()


def test_measure_is_of_the_latest_ends() -> None:
    measured = Measured()
    for number in range(10 * ENDS_KEPT_MAX):
        measured.waited_ms += 100 if number < 5 * ENDS_KEPT_MAX else 1_000
        measured.note_end(number)
    assert measured.ends <= ENDS_KEPT_MAX
    assert 950 < measured.wait_ms < 1_050


def test_delegate_that_another_was_much_faster_than_is_demoted_and_its_leave_is_noted() -> None:
    delegate = Delegate("A-1", "A-2")
    pace = delegate.bench.sequencer.sender.progress.pace
    pace.measured[C] = Measured(2_000, 20, 1_000, delegate.bench.now_ms)
    delegate.live(5_000)
    delegate.ask_to_assemble("A-1")
    delegate.live(5_000)
    assert delegate.is_left()
    assert pace.left_range == delegate.bench.sequencer.context.block_range


def test_delegate_is_not_slow_because_intents_wait_for_a_dependency() -> None:
    """`rota simulate --seed 10 --minutes 0.5 --liars 0`: they were charged to the coordinator, and it was left."""
    delegate = Delegate("A-1")
    for number in range(2, 12):
        delegate.bench.submit(f"A-{number}", depends_on=(intent_id("X-1"),))
    pace = delegate.bench.sequencer.sender.progress.pace
    pace.measured[C] = Measured(8_000, 8, 1_000, delegate.bench.now_ms)
    delegate.live(5_000)
    delegate.ask_to_assemble("A-1")
    delegate.live(5_000)
    assert not delegate.is_left()
    assert 10_000 <= pace.measured[B].waited_ms < 2 * 10_000


def test_delegate_that_does_nothing_is_left_without_regard_to_its_pace() -> None:
    delegate = Delegate("A-1")
    delegate.live(10_000)
    assert delegate.is_left()
    assert delegate.bench.sequencer.sender.progress.pace.left_range is None


def test_delegate_that_is_exactly_as_slow_as_is_allowed_is_not_left() -> None:
    watch = watch_of_two(2_000)
    pace = watch.progress.pace
    pace.term_ms = TERM_MS
    other = pace.measured[C]
    allowed_ms = int(SLOW_FACTOR * other.wait_ms * SLACK)
    assert allowed_ms == SLOW_FACTOR * other.wait_ms * SLACK
    pace.measured[B] = Measured(waited_ms=allowed_ms, watched_ms=allowed_ms)
    assert not pace.is_to_be_left(B, TIMEOUT_MS, TERM_MS)
    pace.measured[B] = Measured(waited_ms=allowed_ms + 1, watched_ms=allowed_ms + 1)
    assert pace.is_to_be_left(B, TIMEOUT_MS, TERM_MS)


def test_end_that_no_node_brought_is_no_measure_of_any() -> None:
    watch = Watch()
    watch.progress.ended(None)
    assert watch.progress.pace.measured == {}
