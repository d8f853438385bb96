"""`tools.mutate`: which small changes there are, what each makes of a module, and what is drawn."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tools.mutate import _draw, _first_failure, _play
from tools.mutate_operators import OPERATORS, mutated, sites_of

SOURCE = '''
def take(self, height):
    """Takes it."""
    assert height > 0, "a height"
    if height <= self.limit and self.is_open:
        self.timers.cancel("retry")
        self.note(height)
    return height + 1
'''


@pytest.mark.parametrize(
    ("operator", "before", "after"),
    [
        ("comparison", "height <= self.limit", "height < self.limit"),
        ("dropped-call", "self.note(height)", "pass"),
        ("dropped-guard", "self.timers.cancel('retry')", "pass"),
        ("always", "if height <= self.limit and self.is_open:", "if True:"),
        ("never", "if height <= self.limit and self.is_open:", "if False:"),
        ("dropped-operand", "height <= self.limit and self.is_open", "height <= self.limit"),
        ("off-by-one", "return height + 1", "return height + 1 + 1"),
    ],
)
def test_operator_makes_one_change(operator: str, before: str, after: str) -> None:
    (site,) = [site for site in sites_of("m.py", SOURCE) if site.operator == operator]
    usual = ast.unparse(ast.parse(SOURCE))
    assert mutated(SOURCE, site) == usual.replace(before, after)
    assert before in usual


def test_two_calls_are_swapped() -> None:
    (site,) = [site for site in sites_of("m.py", SOURCE) if site.operator == "swapped"]
    changed = mutated(SOURCE, site)
    assert changed.index("self.note") < changed.index("self.timers.cancel")


def test_assertions_are_left_alone() -> None:
    assert [site.line for site in sites_of("m.py", SOURCE) if site.operator == "comparison"] == [5]


def test_every_mutant_differs_from_the_module_and_can_be_parsed() -> None:
    for site in sites_of("m.py", SOURCE):
        assert ast.dump(ast.parse(mutated(SOURCE, site))) != ast.dump(ast.parse(SOURCE)), site.name


def test_sample_is_the_same_for_a_seed_and_operators_take_turns(tmp_path: Path) -> None:
    core = tmp_path / "src/rota/core"
    core.mkdir(parents=True)
    (core / "m.py").write_text(SOURCE)
    sample = _draw(tmp_path, 6, seed=1)
    assert sample == _draw(tmp_path, 6, seed=1)
    assert {site.operator for site in sample} == set(OPERATORS) - {"off-by-one", "swapped"}
    assert len(_draw(tmp_path, 100, seed=1)) == len(sites_of("src/rota/core/m.py", SOURCE))


@pytest.mark.slow
def test_first_test_that_fails_is_named(tmp_path: Path) -> None:
    (tmp_path / "test_m.py").write_text("def test_well(): pass\ndef test_ill(): assert False\n")
    assert _first_failure(tmp_path, ["test_m.py::test_well", "test_m.py::test_ill"]) == "test_m.py::test_ill"
    assert _first_failure(tmp_path, ["test_m.py::test_well"]) == ""
    assert _first_failure(tmp_path, []) == ""


@pytest.mark.slow
def test_seeds_that_were_played_before_the_time_was_over_count() -> None:
    root = Path(__file__).parents[1]
    played = _play(root, 2, 0.05, timeout_s=110)
    assert (played["invariant"], played["played"], len(played["digests"])) == (None, 2, 2)
    assert _play(root, 2, 0.05, timeout_s=0.01) == {"seed": None, "played": 0, "invariant": None, "digests": []}
