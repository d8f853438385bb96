"""Recorded digests: the core behaves as it did when they were recorded."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import digests
from tools.digests import QUICK_RUNS, RUNS, Run, digest_of, read_recorded


@pytest.mark.parametrize("run", QUICK_RUNS, ids=lambda run: f"{run.seed}-{run.liars}")
def test_run_behaves_as_recorded(run: Run) -> None:
    assert digest_of(run) == read_recorded()[run], "behaviour has changed; if that is intended: make record-digests"


def test_file_holds_every_run() -> None:
    assert tuple(read_recorded()) == RUNS
    assert set(QUICK_RUNS) < set(RUNS)


def test_check_finds_the_run_that_differs_and_record_takes_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    played = {Run(0, 1): "aa", Run(0, 2): "bb"}
    monkeypatch.setattr(digests, "digest_of", lambda run: played[run])
    path = tmp_path / "digests.txt"
    assert digests.record(tuple(played), 1, path) == 2
    assert digests.check(tuple(played), 1, path) == []
    played[Run(0, 2)] = "cc"
    assert digests.check(tuple(played), 1, path) == [Run(0, 2)]
    assert digests.record(tuple(played), 1, path) == 1
    assert read_recorded(path) == played
