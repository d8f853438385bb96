"""Slow simulations run without coverage: tracing takes four fifths of their time, and tests/core covers the core."""

from __future__ import annotations

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "/tests/sim/" in item.path.as_posix() and item.get_closest_marker("slow"):
            item.add_marker("no_cover")
