"""The test stage: which test notices a mutant first.

pytest collects the tests once, in the process that forks; each mutant is tried in a copy of that process.
"""

from __future__ import annotations

import gc
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import pytest

from tools.mutate.operators import Site
from tools.mutate.pool import Ended, Finding, Tell, allow_cpu_s, run_forked
from tools.mutate.swap import Swapper
from tools.mutate.tracing import PYTEST, TestMap

# So much processor time a test may use, beyond ten times what it needs without a mutant.
CPU_LEAST_S = 10.0
CPU_TIMES = 10
ALONE_TIMEOUT_S = 900


@dataclass(frozen=True)
class Killed:
    """How the tests took a mutant: `by` is the first test that fails, or nothing."""

    site: Site
    by: str
    # `failed`, `out of time`, `crashed`, or, when it was imported in a process of its own, `failed alone`.
    how: str
    covering: int
    run: int

    def as_result(self) -> Finding:
        """The fields of a result."""
        return {"killed_by": self.by, "how": self.how, "covering": self.covering, "run": self.run}


@dataclass(frozen=True)
class TestStage:
    """All that the stage needs."""

    # pytest must not collect it.
    __test__ = False

    root: Path
    packages: tuple[str, ...]
    tests: tuple[str, ...]
    covering: TestMap
    jobs: int
    cpu_s: float


def kill_all(stage: TestStage, sites: list[Site], take: Callable[[Killed], bool]) -> None:
    """Try every site; `take` receives the results as they come, and returns false to stop."""
    if not sites:
        return
    plugin = _Killing(stage, sites, take)
    paths = (str(stage.root / test) for test in stage.tests)
    code = pytest.main([*PYTEST, "--rootdir", str(stage.root), *paths], plugins=[plugin])
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        raise SystemExit(f"pytest ended with {code!r}")


class _Killing:
    """A pytest plugin: in the place of running all tests it tries all mutants."""

    def __init__(self, stage: TestStage, sites: list[Site], take: Callable[[Killed], bool]) -> None:
        self.stage, self.sites, self.take = stage, sites, take
        self.failed: list[str] = []
        self.items: dict[str, pytest.Item] = {}

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Try the mutants in copies of this process."""
        self.items = {item.nodeid: item for item in session.items}
        self.swapper = Swapper(self.stage.root, self.stage.packages)
        gc.collect()
        gc.freeze()
        for ended in run_forked(self.sites, self.stage.jobs, self._try):
            if not self.take(_killed(ended)):
                break
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note the failure; only copies of the process run tests."""
        if report.failed:
            self.failed.append(report.nodeid)

    def _try(self, site: Site, tell: Tell) -> None:
        covering = self.stage.covering
        tests = [test for test in covering.tests_of(site) if test in self.items]
        tell({"covering": len(tests)})
        if not self.swapper.swap(site) or covering.is_imported(site):
            if failed := _first_failure_alone(self.stage, site, tests):
                tell({"test": failed, "failed": "failed alone"})
            return
        used_s = 0.0
        for test in tests:
            if used_s > self.stage.cpu_s:
                return
            usual_s = covering.seconds[test]
            used_s += usual_s
            tell({"test": test})
            allow_cpu_s(max(CPU_LEAST_S, CPU_TIMES * usual_s))
            item = self.items[test]
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
            if self.failed:
                tell({"test": self.failed[0], "failed": "failed"})
                return


def _killed(ended: Ended[Site]) -> Killed:
    tried = [str(finding["test"]) for finding in ended.findings if "test" in finding]
    run = len(set(tried))
    covering = next((int(str(each["covering"])) for each in ended.findings if "covering" in each), 0)
    last = ended.findings[-1] if ended.findings else {}
    if "failed" in last:
        return Killed(ended.task, str(last["test"]), str(last["failed"]), covering, run)
    if not ended.has_failed:
        return Killed(ended.task, "", "", covering, run)
    if not tried:
        raise SystemExit(f"{ended.task.name} could not be tried: {last.get('error', 'its process died')}")
    return Killed(ended.task, tried[-1], "out of time" if ended.is_out_of_time else "crashed", covering, run)


def _first_failure_alone(stage: TestStage, site: Site, tests: list[str]) -> str:
    """The first test that fails in a process that imports the mutant, or what else went wrong there."""
    if not tests:
        return ""
    command = [sys.executable, "-m", "tools.mutate.alone", str(stage.root), json.dumps(asdict(site)), "tests", *tests]
    allow_cpu_s(0)
    try:
        ran = subprocess.run(command, capture_output=True, text=True, timeout=ALONE_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        return "out of time"
    return _named_failure(ran.stdout.splitlines()) or ("" if ran.returncode == 0 else "import or collection")


def _named_failure(lines: list[str]) -> str:
    named: Iterator[str] = (line.split()[1] for line in lines if line.startswith(("FAILED ", "ERROR ")))
    return next(named, "")
