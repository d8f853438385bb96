"""Which triggers a node runs, and what of a configuration is refused."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from rota.automation.settings import Strategy, TriggerSettings
from rota.service.automation.loading import CannotLoad, load_triggers

CONTRACT: dict[str, object] = {"contract": "0x" + "11" * 20}
MODULE = """
from rota.automation import Trigger

class First(Trigger):
    name = "first"

class Second(First):
    name = "second"

class Base(Trigger):
    pass
"""


def load(*modules: str, paused: Sequence[str] = (), **tables: Any) -> dict[str, TriggerSettings]:  # noqa: ANN401
    named = {name.replace("_", "-"): table for name, table in tables.items()}
    return {each.name: each.settings for each in load_triggers(modules, TriggerSettings(), named, paused)}


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def test_what_needs_a_contract_runs_when_one_is_named() -> None:
    assert list(load()) == ["ask-for-states", "cancel-expired-locks"]
    assert list(load(advance_epochs=CONTRACT)) == ["advance-epochs", "ask-for-states", "cancel-expired-locks"]


def test_a_trigger_has_settings_of_its_own() -> None:
    found = load(advance_epochs={**CONTRACT, "strategy": "rank", "polling_interval_ms": 7})
    assert found["advance-epochs"] == TriggerSettings(strategy=Strategy.RANK, polling_interval_ms=7)
    assert found["ask-for-states"] == TriggerSettings()


def test_every_named_trigger_of_a_module_is_run(own: Path) -> None:
    (own / "own_one.py").write_text(MODULE)
    assert list(load("own_one")) == ["ask-for-states", "cancel-expired-locks", "first", "second"]


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("raise KeyError('x')", "cannot be loaded: KeyError"),
        ("", "has no class that is a Trigger"),
        ("from rota.automation import Trigger\nclass A(Trigger):\n    name = 'Bad Name'", "A: name: must be 1 to 63"),
        ("from rota.automation import Trigger\nclass A(Trigger):\n    name = 'ask-for-states'", "there is one already"),
    ],
)
def test_a_module_that_cannot_be_run_is_refused(own: Path, source: str, reason: str) -> None:
    name = f"own_{abs(hash(source))}"
    (own / f"{name}.py").write_text(source)
    with pytest.raises(CannotLoad, match=f"automation.load: {name}.*{reason}|automation.load: {name}.{reason}"):
        load(name)


def test_a_module_that_is_not_there_is_refused() -> None:
    with pytest.raises(CannotLoad, match="no_such_module cannot be loaded"):
        load("no_such_module")


@pytest.mark.parametrize(
    ("tables", "reason"),
    [
        ({"advance_epoch": CONTRACT}, "triggers.advance-epoch: there is no such trigger; did you mean advance-epochs?"),
        ({"advance_epochs": {}}, "triggers.advance-epochs.contract: must be an address"),
        ({"advance_epochs": {**CONTRACT, "strategy": "luck"}}, 'strategy: must be "random" or "rank", not .luck.'),
        ({"advance_epochs": {**CONTRACT, "parallel_tasks": 0}}, "parallel_tasks: must be at least 1"),
        ({"advance_epochs": {**CONTRACT, "parallel_tasks": "4"}}, "parallel_tasks: must be a whole number"),
        ({"ask_for_states": {"contract": "0x"}}, "triggers.ask-for-states.contract: is not known"),
    ],
)
def test_a_table_that_is_wrong_is_refused(tables: dict[str, Any], reason: str) -> None:
    with pytest.raises(CannotLoad, match=reason):
        load(**tables)


def test_a_pause_of_what_does_not_run_is_refused() -> None:
    with pytest.raises(CannotLoad, match="there is no trigger 'advance-epochs' here"):
        load(paused=("advance-epochs",))
    load(paused=("ask-for-states",))
