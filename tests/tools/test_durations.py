"""The record of durations, and its report."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import durations
from tools.durations import Part, Took

ROOT = Path(__file__).parents[2]

RECORDED = """
    from pathlib import Path
    import sys
    sys.path.insert(0, {root!r})
    from tools.durations import Recorder

    def pytest_configure(config):
        config.pluginmanager.register(Recorder(Path("part.json"), hasattr(config, "workerinput")))
"""

SUITE = """
    import os
    import pytest

    @pytest.fixture
    def busy():
        end_s = sum(os.times()[:2]) + 0.2
        while sum(os.times()[:2]) < end_s: pass
        yield

    def test_first(busy): pass
    def test_second(): assert False
"""


@pytest.mark.slow
@pytest.mark.parametrize("workers", ["0", "1"])
def test_run_records_the_time_of_each_test_with_its_fixtures(pytester: pytest.Pytester, workers: str) -> None:
    pytester.makeconftest(RECORDED.format(root=str(ROOT)))
    pytester.makepyfile(test_suite=SUITE)
    pytester.runpytest_subprocess("-p", "xdist", "--numprocesses", workers).assert_outcomes(passed=1, failed=1)
    part = durations.read(pytester.path / "part.json")
    assert part.name == "part"
    first, second = part.tests
    assert (first.test, second.test) == ("test_suite.py::test_first", "test_suite.py::test_second")
    assert first.cpu_s >= 0.15
    assert first.elapsed_s >= 0.15
    # The file has tenths of a second of the part, and thousandths of a test.
    assert part.elapsed_s >= round(first.elapsed_s, 1)


def test_report_names_a_part_over_its_budget_and_quick_tests_that_are_not_quick() -> None:
    parts = [
        Part("check", 76.0, (Took("a.py::test_a", 3.0, 0.6), Took("a.py::test_b", 3.0, 0.4))),
        Part("slow", 5.0, (Took("b.py::test_c", 4.0, 4.0),)),
    ]
    lines = durations.report_lines(parts)
    assert [line.split()[0] for line in lines if line.endswith("over budget")] == ["check"]
    heading = next(number for number, line in enumerate(lines) if line.startswith("Quick tests over"))
    assert [line.split() for line in lines[heading + 1 :]] == [["3.0", "0.6", "a.py::test_a"]]


def test_report_without_a_record_names_the_command_to_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert durations.main(tmp_path) == 1
    assert "Run `make check` or `make test` first." in capsys.readouterr().err
