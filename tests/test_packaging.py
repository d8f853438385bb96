"""The distributions together hold each file of the package once, and the client needs nothing of the others.

`make package` goes on from here: it installs them in empty environments and uses them there.
"""

import ast
import email
import json
import os
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections import Counter
from collections.abc import Collection
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from rota import extras
from tests import bounds
from tools.package import CLIENT, FOLDERS, MARK, Built, build, processes_with

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "rota"
INFORMATION = {"METADATA", "RECORD", "WHEEL", "licenses/LICENSE", "top_level.txt"}
# What the client has of `rota`; `PACKAGES` of `rota.extras` are the others.
CLIENT_PARTS = {"__init__", "__main__", "extras", "client", "model"}
# Hides all that is neither of the client, nor of its dependencies, nor of the standard library.
ALONE = """
import json, sys
from importlib.metadata import packages_distributions

ours, wanted = map(set, json.loads(sys.argv[1]))
owners = packages_distributions()

def is_hidden(name):
    top, _, rest = name.partition(".")
    if top == "rota":
        return bool(rest) and rest.partition(".")[0] not in ours
    return top in owners and not {each.lower().replace("_", "-") for each in owners[top]} & wanted

class Hiding:
    def __init__(self, finder):
        self.finder = finder

    def find_spec(self, name, path=None, target=None):
        return None if is_hidden(name) else self.finder.find_spec(name, path, target)

sys.meta_path[:] = [Hiding(each) for each in sys.meta_path]
"""
IMPORT_ALL = """
import pkgutil, rota.client, rota.model
for package in (rota.client, rota.model):
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        __import__(module.name)
"""


def project(folder: Path) -> dict[str, Any]:
    return tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))


def package_files() -> set[str]:
    there = (path for path in PACKAGE.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(PACKAGE.parent).as_posix() for path in there}


def locked(lock: str) -> set[str]:
    lines = (ROOT / "requirements" / lock).read_text(encoding="utf-8").splitlines()
    return {line.partition("==")[0] for line in lines if "==" in line and line[0].isalpha()}


def run_alone(
    statements: str, parts: Collection[str] = CLIENT_PARTS, packages: Collection[str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Python with these parts of Rota and these packages alone; without any, with those that the client locks."""
    installed = json.dumps([sorted(parts), sorted(locked("client.txt") if packages is None else packages)])
    return subprocess.run(
        [sys.executable, "-c", ALONE + statements, installed],
        capture_output=True,
        text=True,
        timeout=bounds.WAIT_S,
        check=False,
    )


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Built]:
    return build(tmp_path_factory.mktemp("dist"))


def test_all_distributions_have_one_version_and_need_one_another_in_it() -> None:
    version = project(ROOT)["project"]["version"]
    for name, folder in FOLDERS.items():
        about = project(folder)["project"]
        assert (about["name"], about["version"]) == (name, version)
        needed = [*about.get("dependencies", []), *chain.from_iterable(about.get("optional-dependencies", {}).values())]
        ours = [each for each in needed if each.partition("==")[0] in FOLDERS]
        assert [each for each in ours if each.partition("==")[2] != version] == []
    assert list(project(ROOT)["project"]["optional-dependencies"]) == ["node", "demo", "zeto", "otel"]


def test_every_part_of_the_package_comes_with_one_extra_or_the_client() -> None:
    parts = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert Counter([*CLIENT_PARTS, *(part for parts in extras.PACKAGES.values() for part in parts)]) == Counter(parts)
    # Setuptools takes modules beside no __init__.py along as of another kind of package: none of ours is one.
    modules = {path for path in PACKAGE.rglob("*.py") if "__pycache__" not in path.parts}
    assert {path for path in modules if not (path.parent / "__init__.py").exists()} == set()


def test_the_client_imports_only_what_its_lock_has() -> None:
    alone = run_alone(IMPORT_ALL)
    assert alone.returncode == 0, alone.stderr


@pytest.mark.slow
@pytest.mark.parametrize("name", ["aiohttp", "msgspec", "safe-pysha3"])
def test_the_client_needs_each_of_its_dependencies(name: str) -> None:
    assert "ModuleNotFoundError" in run_alone(IMPORT_ALL, packages=locked("client.txt") - {name}).stderr


def test_the_client_declares_what_it_imports() -> None:
    found = set()
    for part in CLIENT_PARTS:
        for path in (PACKAGE / part).rglob("*.py") if (PACKAGE / part).is_dir() else [PACKAGE / f"{part}.py"]:
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                names = [each.name for each in node.names] if isinstance(node, ast.Import) else []
                names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
                found |= {name.partition(".")[0] for name in names}
    outside = found - set(sys.stdlib_module_names) - {"rota"}
    declared = {each.partition(">=")[0] for each in project(ROOT)["project"]["dependencies"]}
    assert {"safe-pysha3" if each == "sha3" else each for each in outside} == declared


@pytest.mark.parametrize(
    ("statement", "hint"),
    [
        ("import rota.server", "rota.server needs the extra `node`: pip install 'rota[node]'"),
        (
            "from rota.testing.synthetic import Synthetic",
            "rota.testing needs the extra `demo`: pip install 'rota[demo]'",
        ),
        ("from rota import cli", "rota.cli needs the extra `node`: pip install 'rota[node]'"),
    ],
)
def test_import_of_a_part_that_is_not_installed_names_its_extra(statement: str, hint: str) -> None:
    told = run_alone(statement)
    assert told.stderr.rstrip().endswith(f"rota.extras.NotInstalled: {hint}")


def test_import_of_a_misspelt_part_names_no_extra() -> None:
    told = run_alone("import rota.sever")
    assert told.stderr.rstrip().endswith("ModuleNotFoundError: No module named 'rota.sever'")


def test_command_without_the_node_names_its_extra_without_a_traceback() -> None:
    told = run_alone("from rota.__main__ import run; run()")
    assert (told.returncode, told.stdout) == (1, "")
    assert told.stderr == "rota: rota.cli needs the extra `node`: pip install 'rota[node]'\n"


@pytest.mark.nightly
@pytest.mark.slow
def test_each_file_of_the_package_is_in_one_wheel(built: dict[str, Built]) -> None:
    names: list[str] = []
    for each in built.values():
        with zipfile.ZipFile(each.wheel) as archive:
            names += archive.namelist()
    information = {name for name in names if ".dist-info/" in name}
    assert {name.partition("/")[2] for name in information} == INFORMATION | {"entry_points.txt"}
    keys = {name for name in names if name.startswith("rota_zeto_keys/")}
    assert Counter(set(names) - information - keys) == Counter(package_files())
    assert len(names) == len(set(names))
    there = ROOT / "distributions" / "zeto-keys" / "src"
    assert keys == {path.relative_to(there).as_posix() for path in there.rglob("*.*") if path.suffix in (".py", ".key")}


@pytest.mark.nightly
@pytest.mark.slow
def test_source_distributions_hold_no_tests_and_what_their_wheels_are_built_from(built: dict[str, Built]) -> None:
    for name, each in built.items():
        with tarfile.open(each.sdist) as archive:
            names = {member.name.partition("/")[2] for member in archive.getmembers() if member.isfile()}
        with zipfile.ZipFile(each.wheel) as archive:
            packed = {f"src/{file}" for file in archive.namelist() if ".dist-info/" not in file}
        assert packed <= names
        assert {"LICENSE", "README.md", "pyproject.toml"} <= names
        assert ("CHANGELOG.md" in names) == (name == CLIENT)
        assert {name for name in names if name.startswith(("tests/", "tools/", "docs/"))} == set()


@pytest.mark.nightly
@pytest.mark.slow
def test_wheels_say_what_they_are_and_need(built: dict[str, Built]) -> None:
    scripts = ""
    for name, each in built.items():
        about = project(FOLDERS[name])["project"]
        with zipfile.ZipFile(each.wheel) as archive:
            (metadata,) = (file for file in archive.namelist() if file.endswith(".dist-info/METADATA"))
            told = email.message_from_bytes(archive.read(metadata))
            points = metadata.replace("METADATA", "entry_points.txt")
            scripts += archive.read(points).decode() if points in archive.namelist() else ""
        assert (told["Name"], told["Version"], told["License-Expression"]) == (name, about["version"], "Apache-2.0")
        assert set(told["Requires-Python"].split(",")) == set(about["requires-python"].split(","))
        assert told.get_all("Provides-Extra", []) == list(about.get("optional-dependencies", {}))
        assert len([line for line in told.get_all("Requires-Dist", []) if "extra ==" not in line]) == len(
            about.get("dependencies", [])
        )
        assert name == "rota-zeto-keys" or "Operating System :: POSIX :: Linux" in told.get_all("Classifier", [])
    assert scripts.count("rota = rota.__main__:run") == 1
    assert all(f"{domain} = " in scripts for domain in ("noto", "pente", "synthetic", "zeto"))


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
