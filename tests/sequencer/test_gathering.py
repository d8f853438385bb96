"""While a round is under way, the next one waits for company, in time for the next block (protocol §7)."""

from __future__ import annotations

import pytest

from rota.machine.context import Ids
from rota.machine.events import ConnectionMade
from rota.model.config import Config
from rota.model.types import Transition
from rota.sequencer.context import Context
from rota.sequencer.events import RoundSubmitted
from rota.sequencer.gathering import LEAD_DECAY, LEAD_FIRST_MS, LEADS, Gathering
from rota.sequencer.held_intent import State
from rota.wire.messages import EndorsementRequest
from tests.sequencer.coordinator_bench import CoordinatorBench, active, name_of
from tests.sequencer.kit import A, C, contract, transition

BLOCK_MS = 2_000
# When most rounds open, and when those do that come after that.
EARLY_MS, LATE_MS = (BLOCK_MS - lead * LEAD_FIRST_MS for lead in sorted(LEADS, reverse=True))


def on_slow_chain(config: Config | None = None) -> CoordinatorBench:
    """Blocks have come every two seconds, the last one just now, and B-0 has opened a round since."""
    bench = active(config=config or Config())
    for _ in range(4):
        bench.wait(BLOCK_MS)
        bench.block(1)
    bench.bring(State.ENDORSEMENT_GATHERING, transition("B-0"))
    assert rounds_of(bench) == [["B-0"]]
    return bench


def rounds_of(bench: CoordinatorBench) -> list[list[str]]:
    """The rounds that an endorser has been asked about since the last look."""
    asked = bench.asked(EndorsementRequest, C)
    return [[name_of(step.intent) for step in request.transitions] for _, request in asked]


def opened(bench: CoordinatorBench, *made: str) -> list[str]:
    """Which of these are in a round."""
    return [name for name in made if bench.transaction(name).round is not None]


def bring(bench: CoordinatorBench, *names: str) -> None:
    bench.bring(State.ENDORSEMENT_GATHERING, *(transition(name) for name in names))


def test_transitions_gather_behind_a_round_under_way_until_shortly_before_the_next_block() -> None:
    bench = on_slow_chain(Config(gather_max_ms=BLOCK_MS))
    bring(bench, "B-1")
    bench.wait(EARLY_MS - 100)
    bring(bench, "C-1")
    assert opened(bench, "B-1", "C-1") == []
    bench.wait(100)
    assert opened(bench, "B-1", "C-1") == ["B-1", "C-1"]
    assert bench.transaction("B-1").round is bench.transaction("C-1").round


def test_late_ones_have_a_second_chance_before_the_block() -> None:
    bench = on_slow_chain(Config(gather_max_ms=BLOCK_MS))
    bench.wait(EARLY_MS + 1)
    bring(bench, "B-1")
    bench.wait(LATE_MS - EARLY_MS - 2)
    assert opened(bench, "B-1") == []
    bench.wait(1)
    assert opened(bench, "B-1") == ["B-1"]


def test_after_that_they_go_with_the_block_after_the_next() -> None:
    bench = on_slow_chain(Config(gather_max_ms=10 * BLOCK_MS))
    bench.wait(LATE_MS + 1)
    bring(bench, "B-1")
    bench.wait(BLOCK_MS - LATE_MS + EARLY_MS - 2)
    assert opened(bench, "B-1") == []
    bench.wait(1)
    assert opened(bench, "B-1") == ["B-1"]


def test_nothing_gathers_for_longer_than_its_bound() -> None:
    bench = on_slow_chain(Config(gather_max_ms=300))
    bring(bench, "B-1")
    bench.wait(299)
    assert opened(bench, "B-1") == []
    bench.wait(1)
    assert opened(bench, "B-1") == ["B-1"]


def test_without_a_bound_nothing_gathers() -> None:
    bench = on_slow_chain(Config(gather_max_ms=0))
    bring(bench, "B-1")
    assert opened(bench, "B-1") == ["B-1"]


def test_full_round_opens_at_once() -> None:
    bench = on_slow_chain(Config(round_max=3))
    bring(bench, "B-1", "B-2")
    assert opened(bench, "B-1", "B-2") == []
    bring(bench, "B-3")
    assert opened(bench, "B-1", "B-2", "B-3") == ["B-1", "B-2", "B-3"]


def test_round_opens_when_the_newest_is_confirmed() -> None:
    bench = on_slow_chain()
    bring(bench, "B-1")
    dispatch(bench, transition("B-0"))
    assert opened(bench, "B-1") == []
    bench.block(1, bench.outcome(transition("B-0")))
    assert opened(bench, "B-1") == ["B-1"]


def test_one_that_endorsers_could_not_agree_on_does_not_wait_for_company() -> None:
    bench = on_slow_chain(Config(rounds_open_max=3))
    bring(bench, "B-1")
    assert opened(bench, "B-1") == []
    bench.transaction("B-1").goes_alone = True
    bench.tell(ConnectionMade(C))
    assert opened(bench, "B-1") == ["B-1"]


def dispatch(bench: CoordinatorBench, made: Transition) -> None:
    bench.sign()
    bench.permit(name_of(made.intent))
    bench.write_rounds()


# Expected blocks.


def foretelling(*intervals_ms: int, gather_max_ms: int = 60_000) -> Gathering:
    """Blocks have come at these intervals, and a round is under way."""
    made = Gathering(Context(A, Ids(1), contract(), Config(gather_max_ms=gather_max_ms)), lambda: None)
    made.note_block()
    for interval_ms in intervals_ms:
        made.context.now_ms += interval_ms
        made.note_block()
    made.note_opened(1)
    return made


def waits_ms(gathering: Gathering) -> int:
    """For how long a transition that is assembled now waits."""
    until_ms = gathering.until_ms()
    return 0 if until_ms is None else until_ms - gathering.context.now_ms


def test_nothing_gathers_before_two_blocks_have_come() -> None:
    assert waits_ms(foretelling()) == 0


def test_nothing_gathers_where_blocks_come_as_fast_as_rounds() -> None:
    assert waits_ms(foretelling(max(LEADS) * LEAD_FIRST_MS)) == 0
    assert waits_ms(foretelling(max(LEADS) * LEAD_FIRST_MS + 10)) == 10


@pytest.mark.parametrize("odd_ms", [0, 10, 24_000])
def test_few_odd_intervals_do_not_change_when_the_next_block_is_due(odd_ms: int) -> None:
    gathering = foretelling(12_000, odd_ms, 12_000, 12_000)
    assert waits_ms(gathering) == 12_000 - max(LEADS) * LEAD_FIRST_MS


def test_block_that_is_late_is_expected_at_its_next_turn() -> None:
    gathering = foretelling(12_000, 12_000)
    gathering.context.now_ms += 13_000
    assert waits_ms(gathering) == 11_000 - max(LEADS) * LEAD_FIRST_MS


def test_time_that_rounds_take_to_the_ledger_is_measured() -> None:
    bench = on_slow_chain()
    gathering = bench.coordinator.rounds.gathering
    bench.wait(700)
    dispatch(bench, transition("B-0"))
    digest = bench.transaction("B-0").digest
    assert digest is not None
    bench.tell(RoundSubmitted(digest, 1))
    assert gathering.lead_ms == 700
    bench.tell(RoundSubmitted(digest, 2))
    assert gathering.lead_ms == 700, "it was sent for the second time"


def test_measure_follows_rounds_that_become_faster_slowly() -> None:
    bench = on_slow_chain()
    opened_round = bench.transaction("B-0").round
    assert opened_round is not None
    gathering = bench.coordinator.rounds.gathering
    bench.wait(60)
    gathering.note_submitted(opened_round.opened_at_ms)
    assert gathering.lead_ms == LEAD_FIRST_MS - LEAD_FIRST_MS // LEAD_DECAY
