"""The circuits as parameters of a test: all but the smallest take half a second of CPU to write down or to trace."""

from __future__ import annotations

from typing import Final

import pytest

from rota.domains.zeto.circuits import CIRCUITS, Kind

EACH_CIRCUIT: Final = [
    pytest.param(
        circuit,
        id=circuit.name,
        marks=() if circuit.kind is Kind.ANON and circuit.input_count == 2 else pytest.mark.slow,
    )
    for circuit in CIRCUITS
]
