"""The example is as good as it says."""

from importlib import import_module
from pathlib import Path

import pytest

from rota.automation.settings import TriggerSettings
from rota.service.automation.loading import load_triggers

EXAMPLE = Path(__file__).parents[2] / "examples" / "own-trigger"


def test_the_examples_own_tests_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(EXAMPLE)
    module = import_module("test_auctions")
    tests = [getattr(module, name) for name in dir(module) if name.startswith("test_")]
    assert len(tests) == 2
    for test in tests:
        test()


def test_a_node_loads_the_example(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(EXAMPLE)
    tables = {"close-auctions": {"contract": "0x" + "AB" * 20, "parallel_tasks": 2}}
    loaded = load_triggers(["auctions"], TriggerSettings(), tables, ["close-auctions"])
    (found,) = [each for each in loaded if each.name == "close-auctions"]
    assert found.is_paused
    assert found.settings.parallel_tasks == 2
