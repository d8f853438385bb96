"""What being watched costs is told with bounds that can be wrong only as often as they say."""

from __future__ import annotations

import pytest

from rota.bench.dashboard import cost_of
from rota.bench.feed import measure_feed


def test_a_cost_is_the_median_of_its_pairs_with_the_bounds_that_coin_tosses_give() -> None:
    found = cost_of([number / 100 for number in range(24, 0, -1)])
    assert (found.median, found.low, found.high) == (0.125, 0.07, 0.18)
    assert found.confidence == pytest.approx(0.977, abs=0.001)
    found = cost_of([number / 100 for number in range(1, 13)])
    assert (found.low, found.high) == (0.03, 0.10)
    assert found.confidence == pytest.approx(0.961, abs=0.001)


def test_few_pairs_have_all_their_range_as_bounds_and_say_how_little_that_is() -> None:
    found = cost_of([0.02, -0.01, 0.05])
    assert (found.median, found.low, found.high, found.confidence) == (0.02, -0.01, 0.05, 0.75)


@pytest.mark.slow
def test_what_the_feed_takes_by_itself_is_counted_and_its_updates_do_not_grow_with_the_load() -> None:
    few, many = measure_feed(60, 20, interval_ms=1), measure_feed(240, 80, interval_ms=1)
    assert few.us_per_transaction > 0
    assert many.us_per_transaction > 0
    # Four times as many transactions in an update; room for one in ten of them.
    assert many.update_bytes < 2 * few.update_bytes
