"""The tidy ratchet: counts per module that may only fall.

long-module         lines of a module of more than 600; of a machine, which has a `TABLE`, more than 1,000
long-functions      functions of more than 60 lines
positional-values   calls of a class with seven or more positional arguments
import-cycle        1 for a module that imports itself by way of others
impurities          findings of `tools.purity`
class-name          how often a public class name is defined, if more than once; recorded for the name

Usage: python -m tools.tidy [check | record [--accept-rises]]
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from tools.purity import check_nodes
from tools.ratchet import Item, Ratchet

ROOT: Final = Path(__file__).parent.parent
MODULE_LINES_MAX: Final = 600
MACHINE_LINES_MAX: Final = 1_000
FUNCTION_LINES_MAX: Final = 60
POSITIONAL_MAX: Final = 6
GENERATED: Final = "_pb2.py"

LONG_MODULE, LONG_FUNCTIONS, POSITIONAL = "long-module", "long-functions", "positional-values"
CYCLE, IMPURE, CLASS_NAME = "import-cycle", "impurities", "class-name"
ADVICE: Final = {
    LONG_MODULE: f"Split it: a module has at most {MODULE_LINES_MAX} lines, a machine {MACHINE_LINES_MAX}.",
    LONG_FUNCTIONS: f"Split the function: it has at most {FUNCTION_LINES_MAX} lines.",
    POSITIONAL: f"Pass values by keyword: a class takes at most {POSITIONAL_MAX} by position.",
    CYCLE: "Break the cycle: the lower module must not import the upper one.",
    IMPURE: "python -m tools.purity names the lines.",
    CLASS_NAME: "Give the new class a name of its own: one word, one meaning.",
}


class Module(NamedTuple):
    """What matters of one module."""

    path: str
    name: str
    counts: dict[str, int]
    classes: list[str]
    imports: set[tuple[str, str]]


def measure(root: Path = ROOT) -> dict[Item, int]:
    """All counts of the tree; those that are 0 are left out."""
    modules = list(_modules(root))
    counts = dict(_class_names(modules))
    for module in modules:
        counts.update({Item(module.path, name): count for name, count in module.counts.items()})
    for module in _in_cycles(modules):
        counts[Item(module.path, CYCLE)] = 1
    return {item: count for item, count in counts.items() if count}


def _modules(root: Path) -> Iterator[Module]:
    for folder, prefix in (("src", "src/"), ("tools", "")):
        for path in sorted((root / folder).rglob("*.py")):
            if not path.name.endswith(GENERATED):
                relative = path.relative_to(root).as_posix()
                name = relative.removeprefix(prefix).removesuffix(".py").replace("/", ".").removesuffix(".__init__")
                yield _module(root, path, relative, name)


def _module(root: Path, path: Path, relative: str, name: str) -> Module:
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text, filename=relative)
    nodes = list(_walk(tree))
    counts = dict(_counts(tree, nodes, text.count("\n")))
    classes: list[str] = []
    if relative.startswith("src/rota/"):
        counts[IMPURE] = len(check_nodes(root / "src/rota", path, nodes))
        classes = [each.name for each in tree.body if isinstance(each, ast.ClassDef) and each.name[0] != "_"]
    return Module(relative, name, counts, classes, set(_imports(nodes)))


def _walk(tree: ast.Module) -> Iterator[ast.AST]:
    """Like `ast.walk` without the contexts of names, and twice as fast."""
    rest: list[ast.AST] = [tree]
    while rest:
        node = rest.pop()
        yield node
        for name in node._fields:
            value = getattr(node, name, None)
            if isinstance(value, list):
                rest += [each for each in value if isinstance(each, ast.AST)]
            elif isinstance(value, ast.AST) and name != "ctx":
                rest.append(value)


def _counts(tree: ast.Module, nodes: list[ast.AST], lines: int) -> Iterator[tuple[str, int]]:
    is_machine = any(isinstance(each, ast.Assign | ast.AnnAssign) and _is_table(each) for each in tree.body)
    if lines > (MACHINE_LINES_MAX if is_machine else MODULE_LINES_MAX):
        yield LONG_MODULE, lines
    functions = positional = 0
    for node in nodes:
        if isinstance(node, ast.Call):
            positional += len(node.args) > POSITIONAL_MAX and _is_class_name(node.func)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            functions += (node.end_lineno or node.lineno) - node.lineno + 1 > FUNCTION_LINES_MAX
    yield LONG_FUNCTIONS, functions
    yield POSITIONAL, positional


def _is_table(node: ast.Assign | ast.AnnAssign) -> bool:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return any(isinstance(target, ast.Name) and target.id == "TABLE" for target in targets)


def _is_class_name(function: ast.expr) -> bool:
    name = function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")
    return name[:1].isupper() and not name.isupper()


def _class_names(modules: list[Module]) -> Iterator[tuple[Item, int]]:
    counted = Counter(name for module in modules for name in module.classes)
    yield from ((Item(name, CLASS_NAME), count) for name, count in counted.items() if count > 1)


def _in_cycles(modules: list[Module]) -> list[Module]:
    """The modules that reach themselves by imports, those under `TYPE_CHECKING` included."""
    known = {module.name for module in modules}
    imports = {module.name: _imported(module, known) - {module.name} for module in modules}
    cyclic = {name for group in _groups(imports) if len(group) > 1 for name in group}
    return [module for module in modules if module.name in cyclic]


def _imported(module: Module, known: set[str]) -> set[str]:
    """A name imported from a package may be a module in it."""
    found = {f"{source}.{name}" if f"{source}.{name}" in known else source for source, name in module.imports}
    return found & known


def _imports(nodes: list[ast.AST]) -> Iterator[tuple[str, str]]:
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield from ((node.module, alias.name) for alias in node.names)


def _groups(imports: dict[str, set[str]]) -> list[list[str]]:
    """Strongly connected components (Tarjan), without recursion."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    groups: list[list[str]] = []
    for root in imports:
        work = [(root, iter(sorted(imports[root])))] if root not in index else []
        while work:
            node, targets = work[-1]
            if node not in index:
                index[node] = low[node] = len(index)
                stack.append(node)
            for target in targets:
                if target not in index:
                    work.append((target, iter(sorted(imports[target]))))
                    break
                if target in stack:
                    low[node] = min(low[node], index[target])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    position = stack.index(node)
                    groups.append(stack[position:])
                    del stack[position:]
    return groups


def advice(item: Item, root: Path = ROOT) -> str:
    """What to do about a count that has risen."""
    if item.measure != CLASS_NAME:
        return ADVICE[item.measure]
    return f"It is in {', '.join(_homes(root)[item.where])}. {ADVICE[CLASS_NAME]}"


@cache
def _homes(root: Path) -> dict[str, list[str]]:
    homes: dict[str, list[str]] = {}
    for module in _modules(root):
        for name in module.classes:
            homes.setdefault(name, []).append(module.path)
    return homes


RATCHET: Final = Ratchet(ROOT / "tests/tidy.txt", "python -m tools.tidy", advice)

if __name__ == "__main__":
    sys.exit(RATCHET.main(measure(), sys.argv[1:]))
