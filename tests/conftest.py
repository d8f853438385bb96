"""What holds for every test.

With ROTA_FORBID_SKIPS=1, as in CI, a skipped test is a failed one: a suite that quietly leaves out what it
could not run looks as green as one that ran it.

No test is timed, so that Hypothesis does not judge how fast examples are made either: on a busy machine that
would fail what is right. The gates draw the same examples in every run; with ROTA_EXPLORE=1, as in `make soak`, every
run draws new ones.

A traceback in a log is plain: the default one, with colours and the source, takes a third of a second of CPU.

ROTA_DURATIONS names the file in which a run records how long each test took (`tools/durations.py`).
"""

import os
import signal
from collections.abc import Generator
from pathlib import Path

import pytest
import structlog
from hypothesis import HealthCheck, settings

from tools.durations import Recorder

IS_EXPLORING = os.environ.get("ROTA_EXPLORE") == "1"

settings.register_profile(
    "rota",
    deadline=None,
    suppress_health_check=(HealthCheck.too_slow,),
    derandomize=not IS_EXPLORING,
    database=None,
    print_blob=IS_EXPLORING,
)
settings.load_profile("rota")

structlog.dev.ConsoleRenderer.get_active().exception_formatter = structlog.dev.plain_traceback


# A shell starts a job in the background with SIGINT ignored, which every process of a test would inherit.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config: pytest.Config) -> None:
    if "ROTA_DURATIONS" in os.environ:
        is_worker = hasattr(config, "workerinput")
        config.pluginmanager.register(Recorder(Path(os.environ["ROTA_DURATIONS"]), is_worker))


def skips_are_forbidden() -> bool:
    return os.environ.get("ROTA_FORBID_SKIPS") == "1"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    # An expected failure is reported as a skip too, but that test did run.
    if report.skipped and not hasattr(report, "wasxfail") and skips_are_forbidden():
        report.outcome = "failed"
        report.longrepr = forbidden_skip_message(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """A whole module may be skipped while it is collected, as `pytest.importorskip` does."""
    report = yield
    if report.skipped and skips_are_forbidden():
        report.outcome = "failed"
        report.longrepr = forbidden_skip_message(report)
    return report


def forbidden_skip_message(report: pytest.TestReport | pytest.CollectReport) -> str:
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longreprtext
    return f"ROTA_FORBID_SKIPS=1 and this was skipped. {reason}"
