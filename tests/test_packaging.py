"""What is installed is what works here: no file of the package is left out of the wheel, and none is added.

`make package` goes on from here: it installs the wheel in an empty environment and runs the demonstration there.
"""

import email
import os
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

from tools.package import MARK, Built, build, processes_with

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "rota"
INFORMATION = {"METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE", "top_level.txt"}


def package_files() -> set[str]:
    there = (path for path in PACKAGE.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(PACKAGE.parent).as_posix() for path in there}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    return build(tmp_path_factory.mktemp("dist"))


def test_every_file_of_the_package_is_in_the_wheel() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
    listed = {path for pattern in settings["package-data"]["rota"] for path in PACKAGE.glob(pattern)}
    there = {path for path in PACKAGE.rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    assert {path for path in there if path.suffix != ".py"} == listed
    # Setuptools finds a package by its __init__.py, and leaves out the modules that lie beside none; other files are
    # found by their pattern, wherever they lie.
    modules = {path for path in there if path.suffix == ".py"}
    assert {path for path in modules if not (path.parent / "__init__.py").exists()} == set()


def test_every_pattern_of_package_files_finds_something() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
    assert [pattern for pattern in settings["package-data"]["rota"] if not any(PACKAGE.glob(pattern))] == []


@pytest.mark.slow
def test_the_wheel_holds_the_package_its_licence_and_nothing_else(built: Built) -> None:
    with zipfile.ZipFile(built.wheel) as archive:
        names = set(archive.namelist())
    (folder,) = {name.partition("/")[0] for name in names if ".dist-info/" in name}
    assert names == package_files() | {f"{folder}/{name}" for name in INFORMATION}


@pytest.mark.slow
def test_the_source_distribution_holds_what_the_wheel_is_built_from_and_no_tests(built: Built) -> None:
    with tarfile.open(built.sdist) as archive:
        names = {member.name.partition("/")[2] for member in archive.getmembers() if member.isfile()}
    assert {f"src/{name}" for name in package_files()} <= names
    assert {"CHANGELOG.md", "LICENSE", "README.md", "pyproject.toml"} <= names
    assert {name for name in names if name.startswith(("tests/", "tools/", "docs/"))} == set()


@pytest.mark.slow
def test_the_wheel_says_what_it_is_and_what_it_needs(built: Built) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    with zipfile.ZipFile(built.wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        told = email.message_from_bytes(archive.read(name))
        scripts = archive.read(name.replace("METADATA", "entry_points.txt")).decode()
    assert (told["Name"], told["Version"], told["License-Expression"]) == ("rota", project["version"], "Apache-2.0")
    assert told["Requires-Python"] == "<3.13,>=3.11"
    assert {"Typing :: Typed", "Operating System :: POSIX :: Linux"} <= set(told.get_all("Classifier", []))
    assert told.get_all("Provides-Extra") == list(project["optional-dependencies"])
    assert len([line for line in told.get_all("Requires-Dist", []) if "extra ==" not in line]) == len(
        project["dependencies"]
    )
    assert "rota = rota.cli.entry:run" in scripts
    assert all(f"{domain} = " in scripts for domain in ("noto", "pente", "synthetic"))


def test_a_process_that_was_left_behind_is_found_by_its_mark() -> None:
    mark = f"found-{os.getpid()}"
    waiting = [sys.executable, "-c", "print(flush=True); input()"]
    assert processes_with(mark) == {}
    with subprocess.Popen(
        waiting, env={**os.environ, MARK: mark}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert processes_with(mark) == {process.pid: " ".join(waiting)}
        process.communicate(b"\n")
    assert processes_with(mark) == {}
