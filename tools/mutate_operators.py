"""Small semantic changes to a Python module, found by its syntax tree: where they may be made, and how.

A site is named by module, line and column, operator and how-manieth of its kind in the module, so that the same sample
is drawn as long as the source is the same.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from itertools import pairwise

OPPOSITES: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
# Calls without which something is not durable, or goes on although it should not.
GUARDING = ("persist", "cancel", "forget", "discard", "clear", "stop_hold")


@dataclass(frozen=True)
class Site:
    """One place where one operator applies."""

    module: str
    operator: str
    number: int
    line: int
    text: str

    @property
    def name(self) -> str:
        """What it is called in a report, and in a file of results."""
        return f"{self.module}:{self.line}:{self.operator}:{self.number}"


Change = Callable[[ast.AST], ast.AST | None]


def sites_of(module: str, source: str) -> list[Site]:
    """Every place in a module, by operator."""
    found: list[Site] = []
    lines = source.splitlines()
    for operator in OPERATORS:
        for number, node in enumerate(_candidates(ast.parse(source), operator)):
            line = getattr(node, "lineno", 1)
            found.append(Site(module, operator, number, line, lines[line - 1].strip()))
    return found


def mutated(source: str, site: Site) -> str:
    """The module with one change."""
    tree = ast.parse(source)
    target = list(_candidates(tree, site.operator))[site.number]
    changed = _Replace(target, OPERATORS[site.operator][1]).visit(tree)
    return ast.unparse(ast.fix_missing_locations(changed))


class _Replace(ast.NodeTransformer):
    """Replaces one node, by identity."""

    def __init__(self, target: ast.AST, change: Change) -> None:
        self.target, self.change = target, change

    def visit(self, node: ast.AST) -> ast.AST:
        """The changed node in the place of the target, everything else as it is."""
        if node is self.target:
            return self.change(deepcopy(node)) or ast.Pass()
        return self.generic_visit(node)


def _candidates(tree: ast.Module, operator: str) -> Iterator[ast.AST]:
    applies = OPERATORS[operator][0]
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef):
            for node in _inside(function):
                if applies(node):
                    yield node


def _inside(function: ast.FunctionDef) -> Iterator[ast.AST]:
    """The nodes of a function's own body: neither its docstring and annotations, nor functions in it."""
    waiting: list[ast.AST] = list(reversed(function.body))
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.Assert | ast.Raise):
            continue
        yield node
        waiting.extend(reversed(list(ast.iter_child_nodes(node))))


# What each operator applies to, and what it makes of it.


def _is_comparison(node: ast.AST) -> bool:
    return isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in OPPOSITES


def _turn_comparison(node: ast.AST) -> ast.AST:
    assert isinstance(node, ast.Compare)
    node.ops = [OPPOSITES[type(node.ops[0])]()]
    return node


def _is_call(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and not _is_guarding(node)


def _is_guarding(node: ast.AST) -> bool:
    if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)):
        return False
    called = node.value.func
    return isinstance(called, ast.Attribute) and called.attr in GUARDING


def _drop(_: ast.AST) -> None:
    return None


def _is_condition(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and not node.orelse


def _always(node: ast.AST) -> ast.AST:
    assert isinstance(node, ast.If)
    node.test = ast.Constant(value=True)
    return node


def _never(node: ast.AST) -> ast.AST:
    assert isinstance(node, ast.If)
    node.test = ast.Constant(value=False)
    return node


def _is_junction(node: ast.AST) -> bool:
    return isinstance(node, ast.BoolOp)


def _drop_last_operand(node: ast.AST) -> ast.AST:
    assert isinstance(node, ast.BoolOp)
    node.values = node.values[:-1]
    return node.values[0] if len(node.values) == 1 else node


def _is_sum(node: ast.AST) -> bool:
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub) and _has_number(node)


def _has_number(node: ast.BinOp) -> bool:
    return any(isinstance(each, ast.Constant) and isinstance(each.value, int) for each in (node.left, node.right))


def _one_more(node: ast.AST) -> ast.AST:
    assert isinstance(node, ast.BinOp)
    return ast.BinOp(left=node, op=ast.Add(), right=ast.Constant(value=1))


def _has_two_calls(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and _first_pair(node.body) is not None


def _first_pair(body: list[ast.stmt]) -> int | None:
    """Where two calls, or assignments to attributes, follow one another."""
    for at, (one, other) in enumerate(pairwise(body)):
        if all(isinstance(each, ast.Expr | ast.Assign) for each in (one, other)):
            return at
    return None


def _swap(node: ast.AST) -> ast.AST:
    assert isinstance(node, ast.If)
    at = _first_pair(node.body)
    assert at is not None, "it has two"
    node.body[at], node.body[at + 1] = node.body[at + 1], node.body[at]
    return node


OPERATORS: dict[str, tuple[Callable[[ast.AST], bool], Change]] = {
    "comparison": (_is_comparison, _turn_comparison),
    "dropped-call": (_is_call, _drop),
    "dropped-guard": (_is_guarding, _drop),
    "always": (_is_condition, _always),
    "never": (_is_condition, _never),
    "dropped-operand": (_is_junction, _drop_last_operand),
    "off-by-one": (_is_sum, _one_more),
    "swapped": (_has_two_calls, _swap),
}
