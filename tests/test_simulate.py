"""`rota simulate` as a person and as a program uses it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from rota.cli.simulate import command
from rota.core.effects import RoundDispatch
from rota.core.submitter import Submitter


def simulate(*arguments: str) -> Result:
    return CliRunner().invoke(command, arguments)


def test_clean_seeds_exit_0_and_say_so() -> None:
    result = simulate("--seeds", "0..2", "--minutes", "0.1")
    assert result.exit_code == 0
    assert "2 seeds:" in result.stdout
    assert "no invariant was violated" in result.stdout


def test_json_is_one_object_of_the_named_shape() -> None:
    summary = json.loads(simulate("--seed", "3", "--minutes", "0.1", "--json").stdout)
    assert list(summary) == ["seeds", "events", "simulated_seconds", "faults", "intents", "violations"]
    assert summary["seeds"] == 1
    assert summary["intents"] > 0
    assert summary["violations"] == []


def test_trace_tells_what_happened_and_the_diagram_draws_it(tmp_path: Path) -> None:
    drawing = tmp_path / "seed.mmd"
    result = simulate("--seed", "3", "--minutes", "0.1", "--trace", "--diagram", str(drawing))
    assert "EndorsementRequest" in result.stdout
    assert "sequenceDiagram" in drawing.read_text()


def test_core_that_reuses_a_nonce_exits_1_with_the_command_that_replays_it(monkeypatch: pytest.MonkeyPatch) -> None:
    take_written = Submitter.take_written

    def written_without_using_the_nonce(submitter: Submitter, now_ms: int, succeeded: bool) -> RoundDispatch:
        nonce = submitter.next_nonce
        dispatch = take_written(submitter, now_ms, succeeded)
        submitter.next_nonce = nonce
        return dispatch

    monkeypatch.setattr(Submitter, "take_written", written_without_using_the_nonce)
    result = simulate("--seed", "3", "--minutes", "0.1", "--faults", "none", "--nodes", "3")
    assert result.exit_code == 1
    assert "seed 3: S7:" in result.stdout
    assert "rota simulate --seed 3 --minutes 0.1 --nodes 3 --faults none --trace" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--seeds", "5..5"), "holds no seed"),
        (("--seeds", "many"), "neither a number nor a range"),
        (("--faults", "fire"), "there is no fault fire; there are crash"),
        (("--seed", "1", "--seeds", "0..2"), "exclude each other"),
        (("--trace",), "go with --seed"),
        (("--nodes", "0"), "1<=x<=26"),
    ],
)
def test_wrong_use_exits_2_and_says_what_would_be_right(arguments: tuple[str, ...], complaint: str) -> None:
    result = simulate(*arguments)
    assert result.exit_code == 2
    assert complaint in result.stderr


def test_core_that_crashes_is_told_with_its_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    def trip(_: Submitter, __: int, succeeded: bool) -> RoundDispatch:
        raise AssertionError(f"one dispatch is written at a time, {succeeded}")

    monkeypatch.setattr(Submitter, "take_written", trip)
    result = simulate("--seeds", "3..4", "--minutes", "0.1", "--faults", "none", "--json")
    assert result.exit_code == 1
    (violation,) = json.loads(result.stdout)["violations"]
    assert violation["invariant"] == "crash: AssertionError: one dispatch is written at a time, True"
    assert violation["replay"].startswith("rota simulate --seed 3")
