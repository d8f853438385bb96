"""Carries a plan out on a tree of files: first in memory, then on disk."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from tools.move import text
from tools.move.imports import Rewriting
from tools.move.names import cut_out, put_in, relocations
from tools.move.plan import ROOTS, Plan, PlanError, module_at, path_of

# Files with text in them that may name modules; generated code and recorded data do not, and our own examples stay.
TEXTS: Final = (
    ".py",
    ".pyi",
    ".md",
    ".toml",
    ".txt",
    ".cfg",
    ".yml",
    ".yaml",
    ".proto",
    ".sh",
    ".in",
    "Makefile",
    "run",
)
LEFT_ALONE: Final = (
    "_pb2.py",
    "_pb2.pyi",
    "CHANGELOG.md",
    "requirements/",
    "tests/transcripts/",
    "tools/move/",
    "tests/tools/test_move.py",
)


@dataclass
class Changes:
    """What becomes of a tree, by paths relative to it."""

    written: dict[str, str] = field(default_factory=dict)
    moved: dict[str, str] = field(default_factory=dict)

    def told(self) -> list[str]:
        """One line for each file."""
        lines = [f"{old} -> {new}" for old, new in self.moved.items()]
        arrived = set(self.moved.values())
        lines += [f"{path}: rewritten" for path in self.written if path not in arrived]
        return sorted(lines)


def changes_of(root: Path, plan: Plan) -> Changes:
    """All that the plan changes in the tree; nothing is written."""
    files = _files(root)
    modules = {module for path in files if (module := module_at(path)) is not None}
    modules |= {".".join(module.split(".")[:end]) for module in modules for end in range(1, module.count(".") + 1)}
    _verify(plan, modules)
    changes = Changes()
    for path in files:
        module = module_at(path)
        target = _new_path(plan, path)
        if target != path:
            if target in files and target not in changes.moved:
                raise PlanError(f"{path} cannot go to {target}: there is one")
            changes.moved[path] = target
        if not path.endswith(TEXTS) or any(left in path for left in LEFT_ALONE):
            continue
        before = (root / path).read_text(encoding="utf-8")
        after = _rewritten(plan, modules, path, module, before)
        if after != before:
            changes.written[target] = after
    _relocate(root, plan, changes)
    _add_packages(plan, changes, files)
    for path, old, new in plan.replacements:
        before = changes.written.get(path) or (root / path).read_text(encoding="utf-8")
        if old not in before:
            raise PlanError(f"{path} has no {old!r} to replace")
        changes.written[path] = before.replace(old, new)
    return changes


def apply(root: Path, changes: Changes) -> None:
    """Writes and moves the files. What lay in a folder that is empty then goes with it."""
    for old, new in changes.moved.items():
        (root / new).parent.mkdir(parents=True, exist_ok=True)
        shutil.move(root / old, root / new)
    for path, content in changes.written.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(content, encoding="utf-8")
    for folder in sorted({(root / old).parent for old in changes.moved}, reverse=True):
        shutil.rmtree(folder / "__pycache__", ignore_errors=True)
        while folder != root and folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()
            folder = folder.parent


def tidy_up(root: Path, changes: Changes) -> None:
    """Format the written modules, sort their imports and remove unused ones."""
    written = [path for path in changes.written if path.endswith(".py")]
    ruff = str(Path(sys.executable).with_name("ruff"))
    if written:
        subprocess.run([ruff, "check", "--quiet", "--fix-only", "--select", "I,F401", *written], cwd=root, check=True)
        subprocess.run([ruff, "format", "--quiet", *written], cwd=root, check=True)


def _files(root: Path) -> list[str]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=root,
        capture_output=True,
        text=True,
        check=True,
    )
    return [path for path in sorted(set(listed.stdout.splitlines())) if (root / path).is_file()]


def _verify(plan: Plan, modules: set[str]) -> None:
    missing = [old for old in plan.modules if old not in modules]
    missing += [f"{old.module}:{old.name}" for old in plan.names if old.module not in modules]
    if missing:
        raise PlanError(f"there is no {', '.join(missing)}")


def _new_path(plan: Plan, path: str) -> str:
    """Files of any kind go with their package."""
    module = module_at(path)
    if module is not None:
        return path_of(plan.module(module), path.endswith("/__init__.py"))
    folder, _, name = path.rpartition("/")
    for root, above in ROOTS.items():
        if f"{folder}/".startswith(f"{above}{root}/"):
            new = plan.module(folder.removeprefix(above).replace("/", "."))
            return f"{above}{new.replace('.', '/')}/{name}"
    return path


def _rewritten(plan: Plan, modules: set[str], path: str, module: str | None, before: str) -> str:
    if path == text.ROWS:
        return text.rewrite_rows(plan, before)
    if path == "pyproject.toml" or path.startswith("distributions/"):
        return text.rewrite_project(plan, before)
    if module is None:
        return text.rewrite(plan, before)
    own = {old.name: new.name for old, new in plan.names.items() if old.module == module and old.name != new.name}
    if not any(word in before for word in _words_of(plan)):
        return before
    return Rewriting(plan, modules, partial(text.rewrite, plan), own).apply(before)


def _words_of(plan: Plan) -> set[str]:
    """A source without any of these words refers to nothing that moves."""
    return {old.rpartition(".")[2] for old in plan.modules} | {old.name for old in plan.names}


def _relocate(root: Path, plan: Plan, changes: Changes) -> None:
    """Definitions that go to another module. Imports name their new places by now."""
    homes = {new: old for old, new in changes.moved.items()}
    cuts = []
    moves = relocations(plan.names, plan.module)

    def read(path: str) -> str | None:
        if path in changes.written:
            return changes.written[path]
        there = root / homes.get(path, path)
        return there.read_text(encoding="utf-8") if there.is_file() else None

    def place(module: str) -> tuple[str, str | None]:
        package = path_of(module, is_package=True)
        content = read(package)
        return (package, content) if content is not None else (path_of(module), read(path_of(module)))

    for module, names in moves.items():
        path, content = place(module)
        if content is None:
            raise PlanError(f"there is no {module}")
        cut = cut_out(module, content, names)
        cuts.append(cut)
        changes.written[path] = cut.source
    for target in sorted({target for names in moves.values() for target in names.values()}):
        path, content = place(target)
        changes.written[path] = put_in(content, cuts, target)


def _add_packages(plan: Plan, changes: Changes, files: list[str]) -> None:
    """Add `__init__.py` to new packages under `src`, with the docstring of the plan."""
    there = (set(files) - set(changes.moved)) | set(changes.moved.values()) | set(changes.written)
    for path in sorted(there):
        if not path.startswith("src/") or not path.endswith(".py"):
            continue
        folder = path.rpartition("/")[0]
        while folder.startswith("src/"):
            init = f"{folder}/__init__.py"
            if init not in there and init not in changes.written:
                docstring = plan.packages.get(folder.removeprefix("src/").replace("/", "."))
                changes.written[init] = f'"""{docstring}"""\n' if docstring else ""
            folder = folder.rpartition("/")[0]
