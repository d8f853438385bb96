"""Campaigns of `rota simulate`: their progress, and how they end early."""

from __future__ import annotations

import os
import signal

import pytest

from rota.cli.campaign import Campaign


def double(number: int) -> int:
    return 2 * number


def double_and_interrupt(number: int) -> int:
    if number == 2:
        os.kill(os.getpid(), signal.SIGTERM)
    return double(number)


def interrupt_twice(number: int) -> int:
    os.kill(os.getpid(), signal.SIGINT)
    os.kill(os.getpid(), signal.SIGINT)
    return number


@pytest.mark.parametrize("jobs", [1, 2])
def test_results_come_in_order(jobs: int) -> None:
    campaign = Campaign[int, int](range(5), jobs, "numbers", quiet=True)
    assert list(campaign.play(double)) == [0, 2, 4, 6, 8]
    assert not campaign.was_stopped


def test_failure_is_printed_before_the_next_item_is_played(capsys: pytest.CaptureFixture[str]) -> None:
    results = Campaign[int, int](range(3), 1, "numbers", quiet=False).play(double, lambda result: f"{result} is even")
    assert next(results) == 0
    assert capsys.readouterr().err == "0 is even\n"


def test_file_gets_a_line_a_minute(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rota.cli.campaign.LINE_S", 0.0)
    list(Campaign[int, int](range(2), 1, "numbers", quiet=False).play(double))
    assert capsys.readouterr().err == "1 of 2 numbers, 0 failed\n2 of 2 numbers, 0 failed\n"


def test_signal_ends_a_campaign_after_the_item_under_way(capsys: pytest.CaptureFixture[str]) -> None:
    before = signal.getsignal(signal.SIGTERM)
    campaign = Campaign[int, int](range(1_000), 1, "numbers", quiet=False)
    assert list(campaign.play(double_and_interrupt)) == [0, 2, 4]
    assert campaign.was_stopped
    assert capsys.readouterr().err == "stopped after 3 of 1000 numbers\n"
    assert signal.getsignal(signal.SIGTERM) is before


def test_second_signal_ends_a_campaign_at_once() -> None:
    with pytest.raises(KeyboardInterrupt):
        list(Campaign[int, int](range(3), 1, "numbers", quiet=True).play(interrupt_twice))
