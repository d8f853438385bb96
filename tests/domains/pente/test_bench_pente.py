"""The benchmark of private transfers, tiny: that it runs, and that bytes do not grow with holders."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from click.testing import CliRunner

from rota.bench.pente import PenteFigures, measure_pente
from rota.cli.bench import pente as command_module
from rota.cli.main import main


def test_a_transfer_is_as_large_with_many_holders_as_with_few() -> None:
    figures = measure_pente(transfers=8, holder_counts=(10, 1_500))
    assert (figures.few.holders, figures.many.holders) == (10, 1_500)
    assert figures.bytes_ratio <= 1.05
    assert figures.few.both_per_s > 0


def test_figures_are_printed_for_programs_and_for_people(monkeypatch: pytest.MonkeyPatch) -> None:
    def measure_little(transfers: int, progress: Callable[[str], None]) -> PenteFigures:
        return measure_pente(transfers, (10, 20), progress)

    monkeypatch.setattr(command_module, "measure_pente", measure_little)
    result = CliRunner().invoke(main, ("bench", "pente", "--json", "--transfers", "2"), prog_name="rota")
    assert result.exit_code == 0
    figures = json.loads(result.stdout)
    assert set(figures) == {"machine", "few", "many", "rate_ratio", "bytes_ratio"}
    assert figures["few"]["transfers"] == 2
    shown = CliRunner().invoke(main, ("bench", "pente", "--transfers", "2"), prog_name="rota")
    assert "assembled" in shown.stdout
    assert "With many holders" in shown.stdout
