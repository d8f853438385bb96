"""Small semantic changes to a Python module, found in its syntax tree.

A site is one place where one operator applies. Its name has the module, the function, the operator and a number within
the function, but no line: it stays the same when code elsewhere changes.
"""

from __future__ import annotations

import ast
from collections import Counter
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
    function: str
    operator: str
    number: int
    line: int
    text: str
    # The lines of the outermost function around it, decorators included.
    first_line: int
    last_line: int

    @property
    def name(self) -> str:
        """The key of the mutant in results and in the list of equivalent mutants."""
        return f"{self.module}:{self.function}:{self.operator}:{self.number}"


Change = Callable[[ast.AST], ast.AST | None]


def sites_of(module: str, source: str) -> list[Site]:
    """All sites of a module, by operator."""
    found: list[Site] = []
    lines = source.splitlines()
    functions = list(_functions(ast.parse(source)))
    for operator in OPERATORS:
        numbers: Counter[str] = Counter()
        for name, function, outermost in functions:
            first_line = min([outermost.lineno, *(each.lineno for each in outermost.decorator_list)])
            for node in _candidates(function, operator):
                line = getattr(node, "lineno", function.lineno)
                site = Site(
                    module=module,
                    function=name,
                    operator=operator,
                    number=numbers[name],
                    line=line,
                    text=lines[line - 1].strip(),
                    first_line=first_line,
                    last_line=outermost.end_lineno or line,
                )
                found.append(site)
                numbers[name] += 1
    return found


def mutated(source: str, site: Site) -> ast.Module:
    """The syntax tree of the module with one change. Line numbers stay those of the source."""
    tree = ast.parse(source)
    # Several functions may have one name, such as a property's getter and setter.
    functions = [function for name, function, _ in _functions(tree) if name == site.function]
    candidates = [node for function in functions for node in _candidates(function, site.operator)]
    _Replace(candidates[site.number], OPERATORS[site.operator][1]).visit(tree)
    return ast.fix_missing_locations(tree)


class _Replace(ast.NodeTransformer):
    """Replaces one node, by identity."""

    def __init__(self, target: ast.AST, change: Change) -> None:
        self.target, self.change = target, change

    def visit(self, node: ast.AST) -> ast.AST:
        """Return the changed node for the target, and every other node as it is."""
        if node is self.target:
            return ast.copy_location(self.change(deepcopy(node)) or ast.Pass(), node)
        return self.generic_visit(node)


def _functions(
    tree: ast.AST, prefix: str = "", outermost: ast.FunctionDef | None = None
) -> Iterator[tuple[str, ast.FunctionDef, ast.FunctionDef]]:
    """Every function with its qualified name, as Python writes it, and the outermost function around it."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef):
            yield prefix + node.name, node, outermost or node
            yield from _functions(node, f"{prefix}{node.name}.<locals>.", outermost or node)
        elif isinstance(node, ast.ClassDef):
            yield from _functions(node, f"{prefix}{node.name}.", outermost)
        else:
            yield from _functions(node, prefix, outermost)


def _candidates(function: ast.FunctionDef, operator: str) -> Iterator[ast.AST]:
    applies = OPERATORS[operator][0]
    return (node for node in _inside(function) if applies(node))


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


def _has_ordered_pair(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and _first_pair(node.body) is not None


def _first_pair(body: list[ast.stmt]) -> int | None:
    """Where two calls or assignments follow one another of which one may rest on the other."""
    for at, (one, other) in enumerate(pairwise(body)):
        if all(isinstance(each, ast.Expr | ast.Assign) for each in (one, other)) and _rests_on(one, other):
            return at
    return None


def _rests_on(one: ast.stmt, other: ast.stmt) -> bool:
    """One names what the other assigns, or calls a method of what it belongs to, or both call methods of one object."""
    called = [_called_by(each) for each in (one, other)]
    if "" not in called and called[0] == called[1]:
        return True
    for first, second in ((one, other), (other, one)):
        for target in first.targets if isinstance(first, ast.Assign) else ():
            path = ast.unparse(target)
            named = {ast.unparse(each) for each in ast.walk(second) if isinstance(each, ast.Name | ast.Attribute)}
            if path in named or path.rpartition(".")[0] == (_called_by(second) or None):
                return True
    return False


def _called_by(statement: ast.stmt) -> str:
    """The object whose method a statement calls, or nothing."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
        return ast.unparse(call.func.value)
    return ""


def _reorder(node: ast.AST) -> ast.AST:
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
    "reordered": (_has_ordered_pair, _reorder),
}
