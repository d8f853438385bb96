"""What is installed is what works here: no file of the package is left out of the wheel."""

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "rota"


def test_every_file_of_the_package_is_in_the_wheel() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
    listed = {path for pattern in settings["package-data"]["rota"] for path in PACKAGE.glob(pattern)}
    there = {path for path in PACKAGE.rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    assert {path for path in there if path.suffix != ".py"} == listed
    # Setuptools finds a package by its __init__.py, and leaves out what lies beside none.
    assert {path for path in there if not (path.parent / "__init__.py").exists()} == set()


def test_every_pattern_of_package_files_finds_something() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
    assert [pattern for pattern in settings["package-data"]["rota"] if not any(PACKAGE.glob(pattern))] == []
