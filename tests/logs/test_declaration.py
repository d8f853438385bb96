"""A log event writes its code, text and declared fields at its level."""

from __future__ import annotations

import subprocess
import sys

import pytest
from structlog.testing import capture_logs

from rota.logs.declaration import Level, LogEvent

EVENT = LogEvent(
    code="peer.gone", level=Level.WARNING, text="A peer is gone", fields=("peer",), meaning="It is.", action="Look."
)


def test_line_has_code_text_level_and_fields() -> None:
    with capture_logs() as logs:
        EVENT.log(peer="node2")
    assert logs == [{"event": "peer.gone", "message": "A peer is gone", "log_level": "warning", "peer": "node2"}]


def test_line_has_the_traceback_of_an_error() -> None:
    error = ValueError("out of order")
    with capture_logs() as logs:
        EVENT.log(peer="node2", error=error)
    assert logs[0]["exc_info"] is error


@pytest.mark.parametrize("fields", [{}, {"peer": "node2", "reason": "x"}, {"node": "node2"}])
def test_other_fields_than_the_declared_ones_are_refused(fields: dict[str, str]) -> None:
    with pytest.raises(AssertionError, match=r"peer\.gone: the fields are"):
        EVENT.log(**fields)  # type: ignore[arg-type]


@pytest.mark.parametrize("level", list(Level))
def test_event_is_enabled_from_its_level_on(level: Level, caplog: pytest.LogCaptureFixture) -> None:
    event = LogEvent(code="peer.x", level=level, text="x", fields=(), meaning="x.", action="")
    caplog.set_level(level.number, "rota.peer")
    assert event.is_enabled
    caplog.set_level(level.number + 1, "rota.peer")
    assert not event.is_enabled


PROGRAM = """
from rota.logs.declaration import Level, LogEvent
for level in (Level.INFO, Level.WARNING):
    event = LogEvent(code="peer.gone", level=level, text="A peer is gone", fields=("peer",), meaning="", action="")
    event.log(peer="node2")
"""


def test_program_without_configured_logs_keeps_its_standard_output_and_sees_warnings() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "A peer is gone [peer.gone] peer=node2\n")
