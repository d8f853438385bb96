"""The benchmark of the API, tiny: that it runs and keeps its names. Nothing here is timed."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from rota.bench.api import ApiFigures, PushFigures, RequestFigures, measure_api
from rota.cli.bench import api as command_module
from rota.cli.main import main

REQUESTS = RequestFigures(2, 8, 100.0, 1.5, 2.5, 700.0)
FIGURES = ApiFigures(REQUESTS, REQUESTS, PushFigures(3, 8, 3, 240.0, 9.5))


@pytest.mark.slow
def test_every_request_is_answered_and_every_receipt_reaches_every_subscriber() -> None:
    figures = measure_api(requests=8, connections=2, subscribers=3)
    assert (figures.receipt.requests, figures.submit.requests) == (8, 8)
    assert figures.receipt.p50_ms <= figures.receipt.p99_ms
    assert (figures.push.subscribers, figures.push.receipts) == (3, 8)
    assert figures.push.batches >= 3


def test_figures_are_printed_for_programs_and_for_people(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command_module, "measure_api", lambda *_: FIGURES)
    result = CliRunner().invoke(main, ("bench", "api", "--json"), prog_name="rota")
    assert result.exit_code == 0
    found = json.loads(result.stdout)
    assert set(found) == {"machine", "receipt", "submit", "push"}
    assert set(found["receipt"]) == {"connections", "requests", "per_s", "p50_ms", "p99_ms", "node_us"}
    assert set(found["push"]) == {"subscribers", "receipts", "batches", "per_s", "node_us"}
    shown = CliRunner().invoke(main, ("bench", "api"), prog_name="rota").stdout
    assert "ptx_sendTransaction" in shown
    assert "240 receipts pushed a second to 3 subscribers" in shown
