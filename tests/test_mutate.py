"""`tools.mutate`: operators, the sample, swapped code, forked tasks, results."""

from __future__ import annotations

import ast
import json
import os
import signal
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

from tools.mutate.__main__ import draw
from tools.mutate.operators import OPERATORS, Site, mutated, sites_of
from tools.mutate.pool import Ended, Tell, allow_cpu_s, run_forked
from tools.mutate.report import Result, Results, read_equivalents, summary_of
from tools.mutate.swap import Swapper

SOURCE = '''
def take(self, height):
    """Takes it."""
    assert height > 0, "a height"
    if height <= self.limit and self.is_open:
        self.timers.cancel("retry")
        self.note(height)
    return height + 1
'''
TOY = """
LIMIT = 3


def doubled(number):
    return number + number


TABLE = {number: doubled(number) for number in range(4)}


class Counter:
    def __init__(self, count):
        self.count = count

    @property
    def is_full(self):
        return self.count > LIMIT

    def adder(self, step):
        def add():
            self.count = self.count + 1
            if step > 1:
                self.count = self.count + step - 1
            return self.count

        return add


def listed(number):
    if number in TABLE:
        return TABLE[number]
    return 0


def build(number):
    if number > 100:
        return 1
    return number


BUILT = build(7)
"""
TESTS_OF_TOY = """
from toy import BUILT, Counter, listed


def test_counter_adds_one():
    assert Counter(0).adder(1)() == 1


def test_counter_adds_more():
    assert Counter(0).adder(3)() == 3


def test_counter_is_full():
    assert Counter(4).is_full
    assert not Counter(3).is_full


def test_number_is_listed():
    assert listed(2) == 4
    assert listed(9) == 0


def test_number_is_built():
    assert BUILT == 7
"""


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
    assert ast.unparse(mutated(SOURCE, site)) == usual.replace(before, after)
    assert before in usual


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("self.height = height", "self.note(height)"),
        ("self.height = height", "self.log.append(self.height)"),
        ("self.log.append(1)", "self.log.append(2)"),
        ("delay = height", "self.timers.start(delay)"),
    ],
)
def test_statements_of_which_one_may_rest_on_the_other_are_reordered(one: str, other: str) -> None:
    source = f"def take(self, height):\n    if height:\n        {one}\n        {other}\n"
    (site,) = [site for site in sites_of("m.py", source) if site.operator == "reordered"]
    changed = ast.unparse(mutated(source, site))
    assert changed.index(other) < changed.index(one)


@pytest.mark.parametrize(
    ("one", "other"),
    [("self.height = height", "self.limit = height"), ("self.waiting.pop(height)", "self.unasked.pop(height)")],
)
def test_statements_that_have_nothing_to_do_with_each_other_stay(one: str, other: str) -> None:
    source = f"def take(self, height):\n    if height:\n        {one}\n        {other}\n"
    assert not [site for site in sites_of("m.py", source) if site.operator == "reordered"]


def test_assertions_are_left_alone() -> None:
    assert [site.line for site in sites_of("m.py", SOURCE) if site.operator == "comparison"] == [5]


def test_every_mutant_differs_from_the_module() -> None:
    for site in sites_of("m.py", SOURCE):
        assert ast.dump(mutated(SOURCE, site)) != ast.dump(ast.parse(SOURCE)), site.name


def test_site_keeps_its_name_when_other_lines_change() -> None:
    later = "\n\nNEW = 1\n" + SOURCE
    assert [site.name for site in sites_of("m.py", later)] == [site.name for site in sites_of("m.py", SOURCE)]


def test_getter_and_setter_have_sites_of_their_own() -> None:
    source = """
class Box:
    @property
    def size(self):
        return self.room + 1
    @size.setter
    def size(self, size):
        self.room = size - 1
"""
    sites = sites_of("m.py", source)
    assert [(site.name, site.line) for site in sites] == [
        ("m.py:Box.size:off-by-one:0", 5),
        ("m.py:Box.size:off-by-one:1", 8),
    ]
    assert "size - 1 + 1" in ast.unparse(mutated(source, sites[1]))


def test_sample_is_the_same_for_a_seed_and_operators_take_turns(tmp_path: Path) -> None:
    core = tmp_path / "src/rota/sequencer"
    core.mkdir(parents=True)
    (core / "m.py").write_text(SOURCE)
    sample = draw(tmp_path, ("src/rota/sequencer",), 6, seed=1)
    assert sample == draw(tmp_path, ("src/rota/sequencer",), 6, seed=1)
    assert {site.operator for site in sample} == set(OPERATORS) - {"off-by-one", "reordered"}
    assert len(draw(tmp_path, ("src/rota/sequencer",), 100, seed=1)) == len(sites_of("src/rota/sequencer/m.py", SOURCE))


def _toy(tmp_path: Path) -> tuple[ModuleType, Swapper]:
    (tmp_path / "toy.py").write_text(TOY)
    spec = spec_from_file_location("toy_of_test_mutate", tmp_path / "toy.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module, Swapper(tmp_path, ("",))


def _site(name: str) -> Site:
    (site,) = [site for site in sites_of("toy.py", TOY) if site.name == f"toy.py:{name}"]
    return site


def test_swapped_mutant_is_in_force_wherever_the_function_is_held(tmp_path: Path) -> None:
    toy, swapper = _toy(tmp_path)
    held, counter = toy.listed, toy.Counter(3)
    assert swapper.swap(_site("listed:comparison:0"))
    assert held(2) == 0
    assert not counter.is_full
    assert swapper.swap(_site("Counter.is_full:comparison:0"))
    assert counter.is_full


@pytest.mark.slow
def test_closure_of_a_swapped_function_stays_when_the_mutant_needs_less_of_it(tmp_path: Path) -> None:
    toy, swapper = _toy(tmp_path)
    adder = toy.Counter(0).adder(3)
    swapper = Swapper(tmp_path, ("",))
    assert swapper.swap(_site("Counter.adder.<locals>.add:never:0"))
    assert adder() == 1
    assert toy.Counter(0).adder(3)() == 1


def test_forked_tasks_report_and_end_in_distinct_ways() -> None:
    def act(task: str, tell: Tell) -> None:
        tell({"task": task})
        allow_cpu_s(0.05)
        if task == "raises":
            raise ValueError(task)
        while task == "loops":
            pass
        if task == "dies":
            os.kill(os.getpid(), signal.SIGTERM)

    ended = {each.task: each for each in run_forked(["well", "raises", "loops", "dies"], 2, act)}
    assert ended["well"] == Ended("well", [{"task": "well"}])
    assert ended["raises"].has_failed
    assert "ValueError: raises" in str(ended["raises"].findings[-1]["error"])
    assert (ended["loops"].has_failed, ended["loops"].is_out_of_time) == (True, True)
    assert (ended["dies"].has_failed, ended["dies"].is_out_of_time) == (True, False)


@pytest.mark.slow
def test_toy_package_is_mutated_from_end_to_end(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src/toy.py").write_text(TOY)
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/test_toy.py").write_text(TESTS_OF_TOY)
    (tmp_path / "pytest.ini").write_text("[pytest]\npythonpath = src\n")
    (tmp_path / "equivalent.txt").write_text(
        "# Those that are.\nsrc/toy.py:build:never:0 | only small numbers are built\n"
    )
    root = Path(__file__).parents[1]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    flags = ("--package", "src", "--tests", "tests", "--equivalents", "equivalent.txt", "--json")
    command = [sys.executable, "-m", "tools.mutate", *flags]
    ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    summary = json.loads(ran.stdout.splitlines()[-1])
    survivors = {each["mutant"].removeprefix("src/toy.py:") for each in summary["survivors"]}
    # `> 100` may become `>= 100` without harm to 7, and `> 1` may become `>= 1` because one less is added then.
    assert survivors == {
        "build:comparison:0",
        "Counter.adder.<locals>.add:comparison:0",
        "Counter.adder.<locals>.add:always:0",
    }
    assert list(summary["equivalent"]) == ["src/toy.py:build:never:0"]
    assert summary["by_operator"]["all"]["killed"] == summary["by_operator"]["all"]["tested"] - 4
    # `build` runs while it is imported: its mutant is imported in a process of its own.
    results = Results(tmp_path / ".mutate_cache/results.jsonl")
    lines = [json.loads(line) for line in results.path.read_text().splitlines()]
    (built,) = [line for line in lines if line["mutant"] == "src/toy.py:build:always:0"]
    assert (built["killed_by"], built["how"]) == ("tests/test_toy.py::test_number_is_built", "failed alone")
    again = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    assert json.loads(again.stdout.splitlines()[-1]) == summary
    assert len(results.path.read_text().splitlines()) == len(lines)


def test_results_of_both_stages_add_up_and_end_with_the_function(tmp_path: Path) -> None:
    site = _site("listed:comparison:0")
    results = Results(tmp_path / "results.jsonl")
    results.add(site, "digest", {"killed_by": "", "how": "", "covering": 1, "run": 1})
    results.add(site, "digest", {"simulator": "S1", "seed": 4, "played": 5, "differs": True})
    read = Results(tmp_path / "results.jsonl")
    result = read.of(site, "digest")
    assert result is not None
    assert (result.is_tested, result.killed_by, result.simulator, result.seed, result.played) == (True, "", "S1", 4, 5)
    assert read.of(site, "digest of another version") is None


def test_equivalent_mutant_needs_a_reason(tmp_path: Path) -> None:
    listed = tmp_path / "equivalent.txt"
    listed.write_text("# A comment.\n\nm.py:f:never:0 | it never happens\n")
    assert read_equivalents(listed) == {"m.py:f:never:0": "it never happens"}
    listed.write_text("m.py:f:never:0\n")
    with pytest.raises(SystemExit, match=r"gives no reason"):
        read_equivalents(listed)


def test_mutant_that_a_test_kills_is_not_counted_as_equivalent() -> None:
    killed = Result("m.py:f:never:0", "never", 1, "", is_tested=True, killed_by="test_m.py::test_f", how="failed")
    summary = summary_of([killed], {killed.mutant: "it never happens"})
    assert summary["killed_although_equivalent"] == [killed.mutant]
    assert (summary["by_operator"]["all"]["killed"], summary["by_operator"]["all"]["equivalent"]) == (1, 0)


def test_equivalent_mutants_on_the_committed_list_exist() -> None:
    root = Path(__file__).parents[1]
    for name in read_equivalents(root / "tests/equivalent_mutants.txt"):
        module = name.partition(":")[0]
        assert name in {site.name for site in sites_of(module, (root / module).read_text())}, name
