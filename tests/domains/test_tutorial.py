"""The tutorial's code runs as it is printed."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "domains.md"


def blocks() -> list[str]:
    return re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


def test_the_domain_has_fifty_lines_at_most() -> None:
    assert len(blocks()[0].splitlines()) <= 50


@pytest.mark.slow
def test_the_domain_of_the_tutorial_holds_under_faults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = imported(tmp_path, monkeypatch)
    reports = module.reports
    assert len(reports) == 3
    assert all(report.confirmed > 10 for report in reports)


def imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    path = tmp_path / "deeds.py"
    path.write_text("\n".join(blocks()), encoding="utf-8")
    spec = importlib.util.spec_from_file_location("deeds", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "deeds", module)
    spec.loader.exec_module(module)
    return module
