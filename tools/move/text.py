"""What a plan changes outside Python's syntax: documents, strings, `rows.txt`, and `pyproject.toml`."""

from __future__ import annotations

import re
from typing import Final

from tools.move.plan import ROOTS, Plan, PlanError

_DOTTED: Final = re.compile(rf"(?<![\w./-])(?:{'|'.join(ROOTS)})(?:\.\w+)+")
_PATH: Final = re.compile(rf"(?<![\w.-])(?:{'|'.join(ROOTS)})(?:/\w+)+(?:\.py\b|/)?")
_LAYERS: Final = re.compile(r"^layers = \[\n(.*?)^\]", re.MULTILINE | re.DOTALL)
_PACKAGE_DATA: Final = re.compile(r"^\[tool\.setuptools\.package-data\]\n(.*?)(?=^\[)", re.MULTILINE | re.DOTALL)
ROWS: Final = "tests/sequencer/rows.txt"
# Columns of `rows.txt` that name classes and functions; the next one names a test.
_NAMING_COLUMNS: Final = 4


def rewrite(plan: Plan, text: str) -> str:
    """Dotted names and paths of what moves, in any text."""
    text = _DOTTED.sub(lambda found: plan.dotted(found[0]), text)
    return _PATH.sub(lambda found: _new_path(plan, found[0]), text)


def _new_path(plan: Plan, path: str) -> str:
    end = next((end for end in (".py", "/") if path.endswith(end)), "")
    dotted = path.removesuffix(end).replace("/", ".")
    new = plan.module(dotted.removesuffix(".__init__"))
    return path if new == dotted.removesuffix(".__init__") else new.replace(".", "/") + _init(dotted) + end


def _init(dotted: str) -> str:
    return "/__init__" if dotted.endswith(".__init__") else ""


def rewrite_rows(plan: Plan, text: str) -> str:
    """Machines, events and guards that are called otherwise, and tests whose module is."""
    stems = {old.rpartition(".")[2]: new.rpartition(".")[2] for old, new in plan.modules.items() if "test" in old}
    lines = []
    for line in text.splitlines(keepends=True):
        columns = line.split("|")
        if not line.startswith("#") and len(columns) > _NAMING_COLUMNS:
            for number in range(_NAMING_COLUMNS):
                columns[number] = re.sub(r"\w+", lambda word: plan.renamed.get(word[0], word[0]), columns[number])
            test, separator, rest = columns[_NAMING_COLUMNS].partition("::")
            columns[_NAMING_COLUMNS] = (
                test.replace(test.strip(), stems.get(test.strip(), test.strip())) + separator + rest
            )
        lines.append("|".join(columns))
    return "".join(lines)


def rewrite_project(plan: Plan, text: str) -> str:
    """Entry points, dotted names, package data, and the layers of import-linter."""
    text = re.sub(r'"((?:rota|tests|tools)[\w.]*):(\w+)"', lambda found: f'"{_entry(plan, found[1], found[2])}"', text)
    text = rewrite(plan, text)
    text = _PACKAGE_DATA.sub(lambda found: _new_data(plan, found[0]), text)
    return _LAYERS.sub(lambda found: f"layers = [\n{_new_layers(plan, found[1])}]", text)


def _entry(plan: Plan, module: str, name: str) -> str:
    for old, new in plan.names.items():
        if old == (module, name):
            return f"{new.module}:{new.name}"
    return f"{plan.module(module)}:{name}"


def _new_data(plan: Plan, section: str) -> str:
    """Folders of package data are written as paths below `rota`."""

    def moved(found: re.Match[str]) -> str:
        folder, _, name = found[1].rpartition("/")
        new = plan.module("rota." + folder.replace("/", "."))
        return f'"{new.removeprefix("rota.").replace(".", "/")}/{name}"'

    return re.sub(r'"([\w/]+/[^"/]+)"', moved, section)


def _new_layers(plan: Plan, inner: str) -> str:
    """Packages that moved as a whole, each at the lowest place of those that became one; then new packages."""
    moved = {old.split(".")[1]: new.split(".")[1] for old, new in plan.modules.items() if _is_package(old)}
    layers = [re.findall(r"\((\w+)\)", line) for line in inner.splitlines() if line.strip()]
    joints = [" : " if " : " in line else " | " for line in inner.splitlines() if line.strip()]
    renamed = [[moved.get(name, name) for name in names] for names in layers]
    seen: set[str] = set()
    for names in reversed(renamed):
        names[:] = [name for name in dict.fromkeys(names) if name not in seen]
        seen.update(names)
    if len(renamed) > 1 and all(joint == " | " for joint in joints):
        for name, where in plan.layers.items():
            joints = _place_layer(renamed, joints, name, where)
    quoted = [joint.join(f"({name})" for name in names) for names, joint in zip(renamed, joints, strict=True) if names]
    return "".join(f'    "{layer}",\n' for layer in quoted)


def _is_package(old: str) -> bool:
    return old.startswith("rota.") and old.count(".") == 1


def _place_layer(layers: list[list[str]], joints: list[str], name: str, where: str) -> list[str]:
    how, _, other = where.partition(" ")
    if how not in ("above", "below", "beside"):
        raise PlanError(f"layer {name}: {where} is neither above, below nor beside a layer")
    for names in layers:
        if name in names:
            names.remove(name)
    position = next((number for number, names in enumerate(layers) if other in names), None)
    if position is None:
        return joints
    if how == "beside":
        layers[position].append(name)
        return joints
    at = position if how == "above" else position + 1
    layers.insert(at, [name])
    return [*joints[:at], " | ", *joints[at:]]
