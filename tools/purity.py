"""Checks two rules of the house that no off-the-shelf linter knows; `make check` runs it.

Purity: the packages that decide get time, ids and bytes as values. A clock, a random number, a thread or a
file in there would make a replayed transcript differ from the run that it was recorded from, so their modules
may not even import what could give them one. `hash` is among the forbidden names because Python salts it anew
in each process, and an order that rests on it differs from node to node.

Names: a module or class whose name ends in a word such as "utils" has not yet found out what it is about.

Usage: python -m tools.purity [SOURCE_FOLDER]
"""

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

PURE_PACKAGES: Final = frozenset(
    {
        "model",
        "schema",
        "abi",
        "calldata",
        "wire",
        "machine",
        "sequencer",
        "chain",
        "exchange",
        "directory",
        "node",
        "domains",
        "commands",
        "automation",
    }
)
IMPURE_MODULES: Final = frozenset(
    {
        "asyncio",
        "datetime",
        "io",
        "logging",
        "os",
        "pathlib",
        "random",
        "secrets",
        "socket",
        "subprocess",
        "threading",
        "time",
        "uuid",
    }
)
IMPURE_BUILTINS: Final = frozenset({"hash", "open", "print"})
EMPTY_WORDS: Final = frozenset({"utils", "helpers", "manager", "common", "data"})


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    path: Path
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.message}"


def main(arguments: list[str]) -> int:
    source = Path(arguments[0]) if arguments else Path("src/rota")
    modules = sorted(source.rglob("*.py"))
    if not modules:
        # A check that looks at nothing would be green for ever after somebody moves the sources.
        print(f"{source}: no Python modules found", file=sys.stderr)
        return 2
    findings = [finding for module in modules for finding in check_module(source, module)]
    for finding in findings:
        print(finding)
    return 1 if findings else 0


def check_module(source: Path, module: Path) -> list[Finding]:
    """All that is wrong with one module of the package that lies in the folder `source`."""
    tree = ast.parse(module.read_text(encoding="utf-8"), filename=str(module))
    return check_nodes(source, module, list(ast.walk(tree)))


def check_nodes(source: Path, module: Path, nodes: list[ast.AST]) -> list[Finding]:
    """The same of a module whose syntax tree is walked already."""
    remarks = list(empty_module_names(source, module)) + list(empty_class_names(nodes))
    if is_pure(source, module):
        remarks += impurities(nodes)
    return sorted(Finding(module, line, message) for line, message in remarks)


def is_pure(source: Path, module: Path) -> bool:
    return module.relative_to(source).with_suffix("").parts[0] in PURE_PACKAGES


def empty_module_names(source: Path, module: Path) -> Iterator[tuple[int, str]]:
    """A folder is judged with its `__init__.py`, so that each bad name is told once."""
    name = module.parent.name if module.stem == "__init__" and module.parent != source else module.stem
    if name.lower().split("_")[-1] in EMPTY_WORDS:
        yield 1, f"module {name} has a name that says nothing"


def empty_class_names(nodes: list[ast.AST]) -> Iterator[tuple[int, str]]:
    for node in nodes:
        if isinstance(node, ast.ClassDef) and last_word(node.name) in EMPTY_WORDS:
            yield node.lineno, f"class {node.name} has a name that says nothing"


def last_word(class_name: str) -> str:
    return re.split(r"_|(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", class_name)[-1].lower()


def impurities(nodes: list[ast.AST]) -> Iterator[tuple[int, str]]:
    for node in nodes:
        match node:
            case ast.Import(names=names):
                for alias in names:
                    yield from impure_import(node, alias.name)
            case ast.ImportFrom(module=str(name), level=0):
                yield from impure_import(node, name)
            case ast.AsyncFunctionDef(name=name):
                yield node.lineno, f"pure code has no `async def` ({name})"
            case ast.Await():
                yield node.lineno, "pure code does not `await`"
            case ast.Name(id=name, ctx=ast.Load()) if name in IMPURE_BUILTINS:
                # The bare name is enough: sorted(..., key=hash) is as bad as a call.
                yield node.lineno, f"pure code does not use `{name}`"
            case _:
                pass


def impure_import(node: ast.stmt, name: str) -> Iterator[tuple[int, str]]:
    if name.partition(".")[0] in IMPURE_MODULES:
        yield node.lineno, f"pure code does not import `{name}`"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
