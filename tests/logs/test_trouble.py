"""Repeated failures are logged once, and a peer causes few lines."""

from __future__ import annotations

from rota.logs.trouble import INTERVAL_MS, LINES_MAX, REASONS_MAX, PeerLines, Trouble


def test_failure_is_new_once_until_the_task_succeeds() -> None:
    trouble = Trouble()
    assert [trouble.is_new("away") for _ in range(3)] == [True, False, False]
    assert trouble.is_new("full")
    assert not trouble.is_new("away")
    trouble.end()
    assert trouble.is_new("away")


def test_reasons_that_all_differ_are_bounded() -> None:
    trouble = Trouble()
    assert sum(trouble.is_new(f"port {number}") for number in range(1_000)) == REASONS_MAX


def test_peer_causes_few_lines_in_an_interval() -> None:
    now_ms = 0
    lines = PeerLines(lambda: now_ms)
    assert sum(lines.is_due("node2") for _ in range(100)) == LINES_MAX
    assert lines.is_due("node3")
    now_ms += INTERVAL_MS
    assert lines.is_due("node2")
