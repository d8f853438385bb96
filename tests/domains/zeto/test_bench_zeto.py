"""The benchmark of proofs, tiny: that it runs, and what it says where it cannot."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from rota.bench.zeto import ZetoFigures, measure_zeto
from rota.cli.bench import zeto as command_module
from rota.cli.main import main
from rota.domains.zeto.circuits import CIRCUITS


def little(*_: object, **__: object) -> ZetoFigures:
    return measure_zeto(1, CIRCUITS[:1])


def test_figures_are_printed_for_programs_and_for_people(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command_module, "measure_zeto", little)
    result = CliRunner().invoke(main, ("bench", "zeto", "--json"), prog_name="rota")
    assert result.exit_code == 0
    figures = json.loads(result.stdout)
    assert set(figures) == {"machine", "circuits", "memory_mib", "encrypted_us", "decrypted_us"}
    (only,) = figures["circuits"]
    assert (only["circuit"], only["constraints"]) == ("anon_2_2", 2617)
    assert only["proved_s"] > 0
    shown = CliRunner().invoke(main, ("bench", "zeto"), prog_name="rota")
    assert "anon_2_2" in shown.stdout


def test_without_the_extra_it_says_which(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rota.engines.proving.curve.importlib.util.find_spec", lambda _: None)
    result = CliRunner().invoke(main, ("bench", "zeto"), prog_name="rota")
    assert result.exit_code == 1
    assert "rota[zeto]" in result.stderr
    assert "rota[zeto]" in str(command_module.measure())
