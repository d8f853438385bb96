"""Put a mutant in the place of a module that is imported already.

Every function object that was made from the mutated function keeps its identity and gets the mutant's code. So the
mutant is in force wherever the function is held: in classes, in transition tables, under names that tests imported.
A function that ran while modules were imported has left its results behind: there a new process imports the mutant.
"""

from __future__ import annotations

import ast
import gc
import sys
from collections.abc import Iterator
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, FunctionType, ModuleType

from tools.mutate.operators import Site, mutated

Key = tuple[str, int]


class Swapper:
    """Knows all live functions of some packages; made once, before processes are forked."""

    def __init__(self, root: Path, packages: tuple[str, ...]) -> None:
        self.root = root
        self._functions: dict[str, list[FunctionType]] = {}
        folders = tuple(f"{root / package}/" for package in packages)
        for found in gc.get_objects():
            if isinstance(found, FunctionType) and found.__code__.co_filename.startswith(folders):
                self._functions.setdefault(found.__code__.co_filename, []).append(found)

    def swap(self, site: Site) -> bool:
        """Put the mutant in force in this process; false if no function was made from the mutated one."""
        path = str(self.root / site.module)
        tree = mutated((self.root / site.module).read_text(), site)
        inside = range(site.first_line, site.last_line + 1)
        functions = [each for each in self._functions.get(path, ()) if _line_of(each.__code__) in inside]
        for function in functions:
            _keep_free_variables(tree, function.__code__)
        codes: dict[Key, list[CodeType]] = {}
        for code in _codes(compile(tree, path, "exec", dont_inherit=True)):
            codes.setdefault(_key(code), []).append(code)
        for function in functions:
            # Two lambdas on one line have the same key; those that exist already stay as they are.
            found = codes.get(_key(function.__code__), [])
            if len(found) == 1:
                function.__code__ = found[0]
        return bool(functions)


def import_mutant(root: Path, site: Site) -> None:
    """Have this process import the mutant in the place of its module, which must not be imported yet."""
    path = str(root / site.module)
    code = compile(mutated((root / site.module).read_text(), site), path, "exec", dont_inherit=True)
    usual = SourceFileLoader.get_code

    def get_code(loader: SourceFileLoader, fullname: str) -> CodeType | None:
        return code if loader.path == path else usual(loader, fullname)

    assert not any(getattr(module, "__file__", None) == path for module in _modules()), f"{path} is imported already"
    SourceFileLoader.get_code = get_code  # type: ignore[assignment, method-assign]


def _modules() -> tuple[ModuleType, ...]:
    return tuple(sys.modules.values())


def _keep_free_variables(tree: ast.Module, code: CodeType) -> None:
    """A function keeps its closure: a mutant that no longer uses a variable of it names it where nothing runs."""
    if not code.co_freevars:
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and (node.name, _first_line(node)) == (code.co_name, _line_of(code)):
            names: list[ast.stmt] = [
                ast.Expr(ast.Name(id=name, ctx=ast.Load())) for name in code.co_freevars if name.isidentifier()
            ]
            never = ast.If(test=ast.Constant(value=False), body=names, orelse=[])
            node.body.append(ast.fix_missing_locations(ast.copy_location(never, node.body[-1])))


def _first_line(node: ast.FunctionDef) -> int:
    """Where a function's code begins: at its first decorator."""
    return min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])


def _key(code: CodeType) -> Key:
    return code.co_qualname, code.co_firstlineno


def _line_of(code: CodeType) -> int:
    return code.co_firstlineno


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)
