"""The benchmark measures what it says."""

from __future__ import annotations

from rota.bench.transport import measure_transport


def test_the_benchmark_of_the_transport_measures_all_of_its_ways() -> None:
    told: list[str] = []
    figures = measure_transport(200, told.append)
    assert figures.one_per_frame.messages == figures.batched.messages == 200
    assert 0 < figures.round_trip_p50_us <= figures.round_trip_p95_us
    assert len(told) == 3
