"""Compares the code of two revisions and ignores their language. For commits that only change comments and texts.

Two modules have the same code when their syntax trees are equal without docstrings, comments, formatting and texts for
people. A text for people is a string constant with two words beside each other, such as `"no such contract"`, except

- SQL: its first word is a keyword of SQL in capitals;
- a key: an operand of a comparison, a key of a dictionary, an index, or a pattern of `match`. Code decides by those.

In an f-string with such a text the words are ignored and the values in it are compared, in any order. So a message may
be reworded, but not get other values, and a string that code reads may not change. Everything else counts, names too.
In `tests/` the name of a test and a text that is compared with are language as well.

Usage: python -m tools.same_code REVISION [REVISION]
Compares two revisions, or one with the working tree; prints the modules that differ; exits with 1 if there are any.
"""

from __future__ import annotations

import argparse
import ast
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

TEXT: Final = "<text>"
WORDS: Final = re.compile(r"[^\W\d_][,;:.!?…]? [^\W\d_]")
SQL: Final = re.compile(
    r"\s*(SELECT|INSERT|UPDATE|DELETE|CREATE|DROP|ALTER|WITH|BEGIN|PRAGMA|FROM|WHERE|AND|OR|ORDER|LIMIT|ON|SET|VALUES|"
    r"JOIN|LEFT|GROUP|UNION|RETURNING|LOCK|NOTIFY|LISTEN|EXPLAIN|VACUUM|TRUNCATE|REPLACE|CASE)\b"
)
Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def code_of(source: str, is_test: bool = False) -> str:
    """The module's syntax tree without docstrings and texts for people, written out."""
    tree = ast.parse(source)
    keys = _keys_in(tree, is_test)
    return ast.dump(_WithoutLanguage(keys, is_test).visit(tree))


def is_text(value: object) -> bool:
    """Whether a constant is a text for people."""
    return isinstance(value, str) and WORDS.search(value) is not None and SQL.match(value) is None


class _WithoutLanguage(ast.NodeTransformer):
    def __init__(self, keys: set[ast.Constant], is_test: bool) -> None:
        self._keys = keys
        self._is_test = is_test

    def visit(self, node: ast.AST) -> ast.AST:
        if isinstance(node, Documented):
            _drop_docstring(node)
        if self._is_test and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            node.name = "test_"
        return super().visit(node)  # type: ignore[no-any-return]

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if is_text(node.value) and node not in self._keys:
            return ast.Constant(TEXT)
        return ast.Constant(node.value)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        words = "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
        if SQL.match(words) or not _has_words(words):
            return self.generic_visit(node)
        values = [self.visit(part) for part in node.values if not isinstance(part, ast.Constant)]
        return ast.Call(ast.Name(TEXT), sorted(values, key=ast.dump), [])  # type: ignore[arg-type]


def _has_words(words: str) -> bool:
    """Whether an f-string, its values written as `{}`, is a text for people. A value may stand for a word."""
    return WORDS.search(words.replace("{}", "a")) is not None and re.search(r"[^\W\d_]{2}", words) is not None


def _drop_docstring(node: Documented) -> None:
    match node.body:
        case [ast.Expr(value=ast.Constant(value=str())), *rest]:
            node.body = rest
        case _:
            pass


def _keys_in(tree: ast.Module, is_test: bool) -> set[ast.Constant]:
    """The constants that code reads."""
    found: list[ast.expr | None] = []
    for node in ast.walk(tree):
        match node:
            case ast.Compare(left=left, comparators=others) if not is_test:
                found += [left, *others]
            case ast.Dict(keys=keys):
                found += keys
            case ast.Subscript(slice=index):
                found.append(index)
            case ast.MatchValue(value=value):
                found.append(value)
            case _:
                pass
    inside = [each for key in found if key is not None for each in _constants(key)]
    return set(inside)


def _constants(key: ast.expr) -> Iterable[ast.Constant]:
    """A constant itself, or those of a tuple, list or set of constants."""
    if isinstance(key, ast.Constant):
        return (key,)
    if isinstance(key, ast.Tuple | ast.List | ast.Set):
        return (each for each in key.elts if isinstance(each, ast.Constant))
    return ()


def differing(before: dict[str, str], after: dict[str, str]) -> list[str]:
    """What differs between two sets of modules, given as sources by path, one line for each module."""
    told = [f"{path}: removed" for path in before if path not in after]
    told += [f"{path}: added" for path in after if path not in before]
    for path in before.keys() & after.keys():
        is_test = path.startswith("tests/")
        if before[path] != after[path] and code_of(before[path], is_test) != code_of(after[path], is_test):
            told.append(f"{path}: other code")
    return sorted(told)


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], capture_output=True, text=True, check=True).stdout


def _changed(first: str, second: str | None) -> tuple[dict[str, str], dict[str, str]]:
    """The sources of the Python modules that differ, before and after."""
    revisions = [first] if second is None else [first, second]
    names = set(_git("diff", "--name-only", "--no-renames", *revisions, "--", "*.py").split())
    if second is None:
        names |= set(_git("ls-files", "--others", "--exclude-standard", "--", "*.py").split())
    return _sources(first, names), _sources(second, names)


def _sources(revision: str | None, names: set[str]) -> dict[str, str]:
    if revision is None:
        root = Path(_git("rev-parse", "--show-toplevel").strip())
        return {name: (root / name).read_text(encoding="utf-8") for name in names if (root / name).exists()}
    there = set(_git("ls-tree", "-r", "--name-only", "--full-tree", revision).split("\n"))
    return {name: _git("show", f"{revision}:{name}") for name in names & there}


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.same_code", description="Is only the language different?")
    parser.add_argument("first", metavar="REVISION")
    parser.add_argument("second", metavar="REVISION", nargs="?", help="default: the working tree")
    options = parser.parse_args(arguments)
    try:
        before, after = _changed(options.first, options.second)
    except subprocess.CalledProcessError as error:
        print(error.stderr.strip(), file=sys.stderr)
        return 2
    told = differing(before, after)
    for line in told:
        print(line)
    if not told:
        print(f"the same code: {len(before)} modules differ in language or formatting alone")
    return 1 if told else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
