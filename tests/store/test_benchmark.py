"""The benchmark of the store measures what it says; its figures are not for a test to judge."""

from __future__ import annotations

from pathlib import Path

import pytest

from rota.bench.store import measure_store


def test_the_benchmark_writes_and_restores_what_it_counts(tmp_path: Path) -> None:
    (figures,) = measure_store(tmp_path, single_count=5, grouped_count=20, final_count=30, pending_count=3)
    assert figures.database == "sqlite"
    assert (figures.final_count, figures.pending_count) == (30, 3)
    assert figures.grouped_rows_per_s == pytest.approx(3 * figures.grouped_syncpoints_per_s)
    assert min(figures.single_commits_per_s, figures.start_ms) > 0
