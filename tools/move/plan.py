"""A plan: a TOML file that maps old to new.

[modules]
"rota.types" = "rota.model.types"        # a module, or a package with all that is in it
"tests.test_types" = "tests.model.test_types"

[names]
"rota.core.machine:Event" = "rota.machine.events:Event"    # a class, function or constant; its new name may differ

[packages]
"rota.model" = "Values that every other package shares."   # the docstring of a package that is new

[layers]
chain = "above machine"                  # where a new package stands in import-linter's layers: above, below or beside

[[replace]]                              # what no rule covers; it must occur
path = "tools/purity.py"
old = '"types",'
new = '"model",'
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

# The folder that each root package lies in.
ROOTS: Final = {"rota": "src/", "tests": "", "tools": "", "examples": ""}


class PlanError(Exception):
    """The plan cannot be carried out."""


class Place(NamedTuple):
    """A name at the top of a module."""

    module: str
    name: str


class Replacement(NamedTuple):
    """One text for another in one file."""

    path: str
    old: str
    new: str


@dataclass(frozen=True)
class Plan:
    """Where everything goes."""

    modules: dict[str, str] = field(default_factory=dict)
    names: dict[Place, Place] = field(default_factory=dict)
    packages: dict[str, str] = field(default_factory=dict)
    layers: dict[str, str] = field(default_factory=dict)
    replacements: tuple[Replacement, ...] = ()

    def module(self, old: str) -> str:
        """Where a module goes; what no line of the plan covers stays where it is."""
        prefix = old
        while prefix:
            if prefix in self.modules:
                return self.modules[prefix] + old[len(prefix) :]
            prefix = prefix.rpartition(".")[0]
        return old

    def name(self, place: Place) -> Place:
        """Where a name goes: by itself, or with its module."""
        return self.names.get(place) or Place(self.module(place.module), place.name)

    def dotted(self, old: str) -> str:
        """A dotted name of a module, or of something in a module."""
        parts = old.split(".")
        for end in range(len(parts) - 1, 0, -1):
            place = Place(".".join(parts[:end]), parts[end])
            if place in self.names:
                return ".".join([*self.names[place], *parts[end + 1 :]])
        return self.module(old)

    @property
    def renamed(self) -> dict[str, str]:
        """Names that are called otherwise afterwards."""
        return {old.name: new.name for old, new in self.names.items() if old.name != new.name}


def read_plan(path: Path) -> Plan:
    """The plan in a file."""
    content = tomllib.loads(path.read_text(encoding="utf-8"))
    unknown = content.keys() - {"modules", "names", "packages", "layers", "replace"}
    if unknown:
        raise PlanError(f"{path}: unknown tables: {', '.join(sorted(unknown))}")
    modules: dict[str, str] = content.get("modules", {})
    for dotted in (*modules, *modules.values()):
        if dotted.partition(".")[0] not in ROOTS or ":" in dotted:
            raise PlanError(f"{path}: {dotted} is no module of {', '.join(ROOTS)}")
    return Plan(
        modules,
        {_place(path, old): _place(path, new) for old, new in content.get("names", {}).items()},
        content.get("packages", {}),
        content.get("layers", {}),
        tuple(Replacement(each["path"], each["old"], each["new"]) for each in content.get("replace", [])),
    )


def _place(path: Path, text: str) -> Place:
    module, colon, name = text.partition(":")
    if not colon or not name.isidentifier() or module.partition(".")[0] not in ROOTS:
        raise PlanError(f"{path}: {text} is not of the form package.module:Name")
    return Place(module, name)


def path_of(module: str, is_package: bool = False) -> str:
    """The file of a module."""
    folder = ROOTS[module.partition(".")[0]] + module.replace(".", "/")
    return f"{folder}/__init__.py" if is_package else f"{folder}.py"


def module_at(path: str) -> str | None:
    """The module of a file, if it is one."""
    if not path.endswith(".py"):
        return None
    for root, folder in ROOTS.items():
        if path.startswith(f"{folder}{root}/"):
            dotted = path.removeprefix(folder).removesuffix(".py").replace("/", ".")
            return dotted.removesuffix(".__init__")
    return None
