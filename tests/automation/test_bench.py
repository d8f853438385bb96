"""The benchmark, tiny: that it runs and keeps its names; and its targets, which are counts and simulated time."""

import json

import pytest
from click.testing import CliRunner

from rota.automation.settings import Strategy
from rota.bench.automation import measure_backlog, measure_cell
from rota.cli.main import main


@pytest.mark.slow
def test_json_has_the_names_and_all_sizes() -> None:
    result = CliRunner().invoke(main, ("bench", "automation", "--tasks", "2", "--json"), prog_name="rota")
    assert result.exit_code == 0
    found = json.loads(result.stdout)
    assert set(found) == {"cells", "backlog"}
    names = {"strategy", "nodes", "down", "task_s", "duplicates", "mean_s", "p99_s"}
    assert all(set(cell) == names for cell in found["cells"])
    keys = [(cell["strategy"], cell["nodes"], cell["down"], cell["task_s"]) for cell in found["cells"]]
    assert len(keys) == len(set(keys)) == 48
    assert {key[1:3] for key in keys} == {(4, 0), (4, 1), (13, 0), (13, 4), (25, 0), (25, 8), (50, 0), (50, 16)}
    assert {key[3] for key in keys} == {0.5, 2, 5}
    assert all(set(each) == {"strategy", "nodes", "tasks", "makespan_s"} for each in found["backlog"])


@pytest.mark.slow
def test_a_backlog_of_200_is_done_within_20_s() -> None:
    assert measure_backlog(Strategy.RANK, 13).makespan_s <= 20


@pytest.mark.slow
@pytest.mark.parametrize(("nodes", "down"), [(13, 12), (25, 20), (50, 40)])
def test_with_many_down_rank_is_no_worse_than_random(nodes: int, down: int) -> None:
    by_rank = measure_cell(Strategy.RANK, nodes, down, 2_000, 200)
    assert by_rank.p99_s <= measure_cell(Strategy.RANDOM, nodes, down, 2_000, 200).p99_s
