"""The tidy ratchet: what it counts, and that no count of this tree differs from the recorded one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import tidy
from tools.ratchet import Item, Ratchet


def test_tree_is_as_tidy_as_recorded() -> None:
    told = tidy.RATCHET.check(tidy.measure())
    assert not told, "\n".join(told)


def counts_of(root: Path, **modules: str) -> dict[Item, int]:
    for name, text in modules.items():
        path = root / "src/rota" / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tidy.measure(root)


@pytest.mark.parametrize(("head", "most"), [("", 600), ("TABLE = 1\n", 1_000)])
def test_module_is_long_from_its_limit_on(tmp_path: Path, head: str, most: int) -> None:
    padding = "x = 1\n" * (most - head.count("\n"))
    assert counts_of(tmp_path, one=head + padding) == {}
    assert counts_of(tmp_path, one=head + padding + "y = 1\n") == {Item("src/rota/one.py", "long-module"): most + 1}


def test_function_is_long_from_61_lines_on(tmp_path: Path) -> None:
    just = "def f():\n" + "    x = 1\n" * 59
    assert counts_of(tmp_path, one=just) == {}
    assert counts_of(tmp_path, one=just + "    y = 1\n") == {Item("src/rota/one.py", "long-functions"): 1}


def test_constructor_with_seven_positional_values_counts(tmp_path: Path) -> None:
    text = "A(1, 2, 3, 4, 5, 6)\nm.Block(1, 2, 3, 4, 5, 6, 7)\nfunction(1, 2, 3, 4, 5, 6, 7)\n"
    assert counts_of(tmp_path, one=text) == {Item("src/rota/one.py", "positional-values"): 1}


def test_public_class_name_defined_twice_counts_and_its_modules_are_named(tmp_path: Path) -> None:
    text = "class State: ...\nclass _Hidden: ...\n"
    assert counts_of(tmp_path, one=text) == {}
    item = Item("State", "class-name")
    assert counts_of(tmp_path, two=text) == {item: 2}
    assert "src/rota/one.py, src/rota/two.py" in tidy.advice(item, tmp_path)


def test_modules_of_an_import_cycle_count(tmp_path: Path) -> None:
    counts = counts_of(
        tmp_path,
        sequencer__one="from rota.sequencer import two\n",
        sequencer__two="import rota.sequencer.three\n",
        sequencer__three="if TYPE_CHECKING:\n    from rota.sequencer.one import One\n",
        sequencer__four="from rota.sequencer.one import One\n",
    )
    assert {item.where for item in counts} == {f"src/rota/sequencer/{name}.py" for name in ("one", "two", "three")}
    assert {item.measure for item in counts} == {"import-cycle"}


def test_impure_module_counts(tmp_path: Path) -> None:
    assert counts_of(tmp_path, sequencer__one="import time\n") == {Item("src/rota/sequencer/one.py", "impurities"): 1}


def test_every_measure_has_advice() -> None:
    measures = {tidy.LONG_MODULE, tidy.LONG_FUNCTIONS, tidy.POSITIONAL, tidy.CYCLE, tidy.IMPURE, tidy.CLASS_NAME}
    assert set(tidy.ADVICE) == measures


# The ratchet itself.

ONE, TWO = Item("one.py", "long"), Item("two.py", "long")


@pytest.fixture
def ratchet(tmp_path: Path) -> Ratchet:
    made = Ratchet(tmp_path / "counts.txt", "python -m tools.some", lambda item: f"Shorten {item.where}.")
    made.record({ONE: 3}, accepts_rises=True)
    return made


def test_recorded_count_passes(ratchet: Ratchet) -> None:
    assert ratchet.check({ONE: 3}) == []


def test_higher_count_fails_and_names_the_module_and_the_remedy(ratchet: Ratchet) -> None:
    (told,) = ratchet.check({ONE: 4})
    assert told.startswith("one.py: long 4, at most 3 recorded. Shorten one.py.")
    assert "python -m tools.some record --accept-rises" in told


def test_count_of_a_new_file_fails(ratchet: Ratchet) -> None:
    (told,) = ratchet.check({ONE: 3, TWO: 1})
    assert told.startswith("two.py: long 1, at most 0 recorded.")


@pytest.mark.parametrize("counts", [{ONE: 2}, {}])
def test_lower_count_fails_until_it_is_recorded(ratchet: Ratchet, counts: dict[Item, int]) -> None:
    (told,) = ratchet.check(counts)
    assert told == "fewer than recorded: one.py (long). Record the lower counts: python -m tools.some record"
    assert ratchet.record(counts) == []
    assert ratchet.check(counts) == []


def test_record_writes_lower_counts_and_refuses_higher_ones(ratchet: Ratchet) -> None:
    (told,) = ratchet.record({ONE: 2, TWO: 1})
    assert told.startswith("two.py: long 1, at most 0 recorded.")
    assert ratchet.read() == {ONE: 2}
    assert ratchet.record({ONE: 2, TWO: 1}, accepts_rises=True) == []
    assert ratchet.read() == {ONE: 2, TWO: 1}


def test_command_exits_with_1_for_a_rise(ratchet: Ratchet, capsys: pytest.CaptureFixture[str]) -> None:
    assert ratchet.main({ONE: 4}, []) == 1
    assert ratchet.main({ONE: 4}, ["record"]) == 1
    assert "one.py: long 4" in capsys.readouterr().out
    assert ratchet.main({ONE: 4}, ["record", "--accept-rises"]) == 0
    assert ratchet.main({ONE: 4}, ["check"]) == 0
