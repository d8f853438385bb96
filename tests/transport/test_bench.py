"""The benchmark measures what it says; in a process of its own, since gRPC does not like to change its event loop."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests import bounds

PROGRAMME = """
import json
from dataclasses import asdict
from rota.bench.transport import measure_transport
told = []
print(json.dumps({"figures": asdict(measure_transport(200, told.append)), "told": told}))
"""


@pytest.mark.slow
def test_the_benchmark_of_the_transport_measures_all_of_its_ways() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAMME], capture_output=True, check=True, timeout=bounds.WAIT_S)
    measured = json.loads(done.stdout)
    figures = measured["figures"]
    assert figures["one_per_frame"]["messages"] == figures["batched"]["messages"] == 200
    assert 0 < figures["round_trip_p50_us"] <= figures["round_trip_p95_us"]
    assert len(measured["told"]) == 3
