"""No row of a table is without a moment in which it is taken."""

from __future__ import annotations

import pytest

from rota.machine.tables import Table
from rota.sim.coverage import TABLES, every_place
from tests.sequencer.moments import read_rows, takes

ADVICE = "write a test that takes it, then run `python -m tests.sequencer.write_rows`"


def test_every_row_has_a_moment() -> None:
    rows = read_rows()
    missing = [place for place in every_place() if place not in rows]
    assert not missing, f"{missing}: {ADVICE}"


def test_no_moment_is_written_down_for_a_row_that_is_gone() -> None:
    gone = sorted(set(read_rows()) - set(every_place()))
    assert not gone, f"{gone}: run `python -m tests.sequencer.write_rows`"


@pytest.mark.slow
@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_each_row_is_taken_in_its_moment(table: Table) -> None:
    rows = {place: witness for place, witness in read_rows().items() if place.machine == table.name}
    assert rows
    untaken = [place for place, witness in rows.items() if not takes(place, witness)]
    assert not untaken, f"{untaken}: {ADVICE}"
