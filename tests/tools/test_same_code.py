"""`tools.same_code`: which changes of a module are language, and which are code."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tools.same_code import code_of, differing, main

SOURCE = '''
"""A module."""

LIMIT = 3  # how many


def take(self, name):
    """Takes it."""
    if name == "the first one":
        raise ValueError(f"{name} is too long: {self.limit} at most")
    log.info("took it all", name=name)
    return rows("SELECT name FROM people", {"the key": 1})
'''


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('"""A module."""', '"""Something else."""'),
        ('    """Takes it."""\n', ""),
        ("LIMIT = 3  # how many", "# How many.\nLIMIT   =  3"),
        ('"took it all"', '"accepted everything"'),
        ("{name} is too long: {self.limit} at most", "at most {self.limit} characters, not {name}"),
    ],
)
def test_change_of_language_leaves_the_code_the_same(before: str, after: str) -> None:
    assert before in SOURCE
    assert code_of(SOURCE.replace(before, after)) == code_of(SOURCE)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("LIMIT = 3", "LIMIT = 4"),
        ("def take", "def give"),
        ('"the first one"', '"the last one"'),
        ("SELECT name FROM people", "SELECT name FROM everything"),
        ('"the key"', '"another key"'),
        ("{self.limit} at most", "{self.least} at most"),
        ("{name} is too long: {self.limit} at most", "too long"),
        ("name=name", "name=None"),
    ],
)
def test_change_of_code_is_found(before: str, after: str) -> None:
    assert before in SOURCE
    assert code_of(SOURCE.replace(before, after)) != code_of(SOURCE)


def test_name_and_compared_text_of_a_test_are_language() -> None:
    before = 'def test_it_is_told():\n    assert answer(2) == "it is told so"\n'
    after = 'def test_answer_is_reported():\n    assert answer(2) == "reported to you"\n'
    assert code_of(before, is_test=True) == code_of(after, is_test=True)
    assert code_of(before, is_test=True) != code_of(after.replace("2", "3"), is_test=True)
    assert code_of(before) != code_of(after)


def test_modules_that_come_and_go_are_named() -> None:
    before = {"a.py": "x = 1", "b.py": "x = 1", "c.py": "x = 1"}
    after = {"b.py": "x = 2", "c.py": "x = 1  # one", "d.py": ""}
    assert differing(before, after) == ["a.py: removed", "b.py: other code", "d.py: added"]


def test_command_compares_a_revision_with_the_working_tree(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def git(*arguments: str) -> None:
        subprocess.run(["git", "-C", str(tmp_path), *arguments], check=True, capture_output=True)

    git("init", "-q")
    module = tmp_path / "module.py"
    module.write_text(SOURCE)
    git("add", ".")
    git("-c", "user.name=N", "-c", "user.email=n@example.org", "commit", "-qm", "first")
    monkeypatch.chdir(tmp_path)
    module.write_text(SOURCE.replace("Takes it.", "Accepts it."))
    assert main(["HEAD"]) == 0
    assert "1 modules differ in language" in capsys.readouterr().out
    module.write_text(SOURCE.replace("LIMIT = 3", "LIMIT = 4"))
    assert main(["HEAD"]) == 1
    assert capsys.readouterr().out == "module.py: other code\n"
    assert main(["no-such-revision"]) == 2
