"""The benchmark of proofs, tiny: that it runs, and what it says where it cannot."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from rota.bench.zeto import ZetoFigures, measure_zeto
from rota.bench.zeto_gas import measure_zeto_gas
from rota.bench.zeto_transfers import TransferFigures, measure_transfers
from rota.cli.bench import zeto as command_module
from rota.cli.main import main
from rota.domains.zeto.circuits import CIRCUITS


def little(*_: object, **__: object) -> ZetoFigures:
    return measure_zeto(1, CIRCUITS[:1])


def few(*_: object, **__: object) -> tuple[TransferFigures, ...]:
    return (TransferFigures("Zeto_Anon", True, 20, 5.0, 4.0, 0.25, 3, 150_000.0),)


@pytest.mark.slow
def test_figures_are_printed_for_programs_and_for_people(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command_module, "measure_zeto", little)
    monkeypatch.setattr(command_module, "measure_transfers", few)
    result = CliRunner().invoke(main, ("bench", "zeto", "--json"), prog_name="rota")
    assert result.exit_code == 0
    figures = json.loads(result.stdout)
    assert set(figures) == {"machine", "circuits", "memory_mib", "encrypted_us", "decrypted_us", "transfers"}
    assert [each["per_s"] for each in figures["transfers"]] == [4.0]
    (only,) = figures["circuits"]
    assert (only["circuit"], only["constraints"]) == ("anon_2_2", 2617)
    assert only["proved_s"] > 0
    shown = CliRunner().invoke(main, ("bench", "zeto"), prog_name="rota")
    assert "anon_2_2" in shown.stdout
    assert "20 transfers in 5.0 s, 4.00 a second" in " ".join(shown.stdout.split())


def test_without_the_extra_it_says_which(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rota.prover.curve.importlib.util.find_spec", lambda _: None)
    result = CliRunner().invoke(main, ("bench", "zeto"), prog_name="rota")
    assert result.exit_code == 1
    assert "rota[zeto]" in result.stderr
    assert "rota[zeto]" in str(command_module.measure())


@pytest.mark.nightly
@pytest.mark.slow
def test_every_kind_of_token_has_gas_for_every_load() -> None:
    loads = {"transfer": (1,), "chained": (1, 2), "mint": (1,), "deposit": (1,), "withdrawal": (1,)}
    for token, figures in measure_zeto_gas(loads=loads).items():
        assert {load: tuple(found) for load, found in figures.items()} == loads, token
        assert figures["chained"][2] < figures["chained"][1], "a round shares"
        assert figures["mint"][1] < figures["deposit"][1]


@pytest.mark.nightly
@pytest.mark.slow
def test_transfers_of_one_owner_are_counted_on_a_real_node() -> None:
    for figures in measure_transfers(2):
        assert figures.transfers == 2
        assert 1 <= figures.rounds <= 2
        assert figures.gas > 0
        assert figures.per_s > 0
        assert figures.processor_s > 0
