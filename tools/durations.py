"""Durations of the last test runs, and their budgets.

`make check` and `make test` record each test's duration and CPU time in `build/durations`, one file for each part of
the suite. `make durations` compares the parts with their budgets and lists the longest tests, and the quick tests that
should be marked slow. No test fails for its duration: on a busy machine that would fail correct code. CPU time includes
that of the test's processes that have ended, and depends less on what else the machine does.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Generator
from pathlib import Path
from typing import Final, NamedTuple

import pytest

FOLDER: Final = Path("build/durations")

# Seconds on two idle cores. `make check` may take 75 s, static checks beside the tests; `make test` may take 720 s.
BUDGETS_S: Final = {"check": 75, "covered": 60, "quick": 60, "slow": 600}
QUICK_TEST_CPU_S: Final = 0.5
LISTED: Final = 10


class Took(NamedTuple):
    """What one test took, its fixtures included."""

    test: str
    elapsed_s: float
    cpu_s: float


class Part(NamedTuple):
    """One run of a part of the suite."""

    name: str
    elapsed_s: float
    tests: tuple[Took, ...]

    @property
    def cpu_s(self) -> float:
        return sum(each.cpu_s for each in self.tests)


def cpu_s() -> float:
    """CPU time of this process and of its children that have ended."""
    return sum(os.times()[:4])


class Recorder:
    """A pytest plugin that writes the durations of a run; a worker measures, the controller writes."""

    def __init__(self, path: Path, is_worker: bool) -> None:
        self._path = path
        self._is_worker = is_worker
        self._begun_s = time.monotonic()
        self._cpu_begun_s = 0.0
        self._took: dict[str, Took] = {}

    def pytest_runtest_logstart(self) -> None:
        self._cpu_begun_s = cpu_s()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        now_s = cpu_s()
        report.user_properties = [*report.user_properties, ("cpu_s", now_s - self._cpu_begun_s)]
        self._cpu_begun_s = now_s
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        before = self._took.get(report.nodeid, Took(report.nodeid, 0, 0))
        used_s = sum(value for name, value in report.user_properties if name == "cpu_s" and isinstance(value, float))
        after = Took(report.nodeid, before.elapsed_s + report.duration, before.cpu_s + used_s)
        self._took[report.nodeid] = after

    def pytest_sessionfinish(self) -> None:
        if not self._is_worker:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            write(self._path, time.monotonic() - self._begun_s, list(self._took.values()))


def write(path: Path, elapsed_s: float, tests: list[Took]) -> None:
    rows = [[each.test, round(each.elapsed_s, 3), round(each.cpu_s, 3)] for each in tests]
    text = ",\n".join(json.dumps(row) for row in sorted(rows))
    path.write_text(f'{{"elapsed_s": {elapsed_s:.1f}, "tests": [\n{text}\n]}}\n', encoding="utf-8")


def read(path: Path) -> Part:
    content = json.loads(path.read_text(encoding="utf-8"))
    return Part(path.stem, content["elapsed_s"], tuple(Took(*row) for row in content["tests"]))


def report_lines(parts: list[Part]) -> list[str]:
    lines = [f"{'part':<8}{'seconds':>9}{'budget':>8}{'CPU':>8}{'tests':>8}"]
    for part in parts:
        budget_s = BUDGETS_S.get(part.name, 0)
        over = "  over budget" if budget_s and part.elapsed_s > budget_s else ""
        lines.append(
            f"{part.name:<8}{part.elapsed_s:>9.0f}{budget_s or '-':>8}{part.cpu_s:>8.0f}{len(part.tests):>8}{over}"
        )
    tests = [each for part in parts for each in part.tests]
    lines += ["", "Longest tests: seconds, seconds of CPU"]
    lines += [_line(each) for each in sorted(tests, key=lambda each: -each.elapsed_s)[:LISTED]]
    lines += ["", "Most CPU: seconds, seconds of CPU"]
    lines += [_line(each) for each in sorted(tests, key=lambda each: -each.cpu_s)[:LISTED]]
    heavy = [each for part in parts if part.name != "slow" for each in part.tests if each.cpu_s > QUICK_TEST_CPU_S]
    lines += ["", f"Quick tests over {QUICK_TEST_CPU_S} s of CPU (mark them slow, or make them cheaper): {len(heavy)}"]
    lines += [_line(each) for each in sorted(set(heavy), key=lambda each: -each.cpu_s)]
    return lines


def _line(took: Took) -> str:
    return f"{took.elapsed_s:>8.1f}{took.cpu_s:>8.1f}  {took.test}"


def main(folder: Path = FOLDER) -> int:
    parts = [read(path) for path in sorted(folder.glob("*.json"))]
    if not parts:
        print(f"No durations are recorded in {folder}. Run `make check` or `make test` first.", file=sys.stderr)
        return 1
    print("\n".join(report_lines(parts)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
