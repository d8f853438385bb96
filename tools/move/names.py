"""Definitions that go from one module to another.

A class, function or constant is cut out with the comment above it and put at the end of its new module. What it uses
of its old module comes with it as imports; what the old module still uses of it is imported back. Nothing here knows
whether the modules now import one another: import-linter and the tests do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

import libcst as cst
from libcst.helpers import get_full_name_for_node

from tools.move.imports import add_lines
from tools.move.plan import Place, PlanError

NEW_MODULE: Final = "from __future__ import annotations\n"


@dataclass
class Cut:
    """Definitions cut out of a module, with the imports that they need in their new one."""

    source: str
    statements: dict[str, list[cst.BaseStatement]] = field(default_factory=dict)
    imports: dict[str, list[str]] = field(default_factory=dict)
    typing_imports: dict[str, list[str]] = field(default_factory=dict)


@dataclass
class _Bindings:
    """The names that the top of a module binds, and by which import."""

    imports: dict[str, str] = field(default_factory=dict)
    typing_imports: dict[str, str] = field(default_factory=dict)
    definitions: set[str] = field(default_factory=set)


def cut_out(module: str, source: str, moves: dict[str, str]) -> Cut:
    """Takes definitions out of a module; `moves` maps each to its new module. Names stay as they are here."""
    tree = cst.parse_module(source)
    bindings = _bindings_of(tree)
    missing = moves.keys() - bindings.definitions
    if missing:
        raise PlanError(f"{module} does not define {', '.join(sorted(missing))}")
    staying: list[cst.BaseStatement] = []
    cut = Cut("")
    for statement in tree.body:
        names = _defined_by(statement) & moves.keys()
        if not names:
            staying.append(statement)
            continue
        (target,) = {moves[name] for name in names}
        cut.statements.setdefault(target, []).append(statement)
        for used in _names_in([statement]) - names:
            if used in bindings.imports:
                cut.imports.setdefault(target, []).append(bindings.imports[used])
            elif used in bindings.typing_imports:
                cut.typing_imports.setdefault(target, []).append(bindings.typing_imports[used])
            elif used in bindings.definitions and moves.get(used) != target:
                home = moves.get(used, module)
                cut.imports.setdefault(target, []).append(f"from {home} import {used}\n")
    back = [f"from {moves[used]} import {used}\n" for used in sorted(_names_in(staying) & moves.keys())]
    left = tree.with_changes(body=[_without_export(each, moves) for each in staying])
    cut.source = add_lines(left, back).code
    return cut


def put_in(source: str | None, cuts: Iterable[Cut], module: str) -> str:
    """Puts definitions at the end of a module, which may be new."""
    tree = cst.parse_module(source if source is not None else NEW_MODULE)
    imports, typing_imports, statements = [], [], []
    for cut in cuts:
        imports += cut.imports.get(module, [])
        typing_imports += cut.typing_imports.get(module, [])
        statements += cut.statements.get(module, [])
    known = _bindings_of(tree)
    own = {name for statement in statements for name in _defined_by(statement)}
    clash = own & known.definitions
    if clash:
        raise PlanError(f"{module} has its own {', '.join(sorted(clash))}")
    body = [each for each in tree.body if not _imports_only(each, own)]
    tree = tree.with_changes(body=[*body, *statements])
    # What the module defines itself, or imports already, it need not import again.
    lines = [line for line in dict.fromkeys(imports) if not _is_from(line, module)]
    if typing_imports:
        lines.append("from typing import TYPE_CHECKING\n")
        lines.append("if TYPE_CHECKING:\n" + "".join(f"    {line}" for line in dict.fromkeys(typing_imports)))
    return add_lines(tree, lines).code


def _is_from(line: str, module: str) -> bool:
    return line.startswith(f"from {module} import ")


def _imports_only(statement: cst.BaseStatement, own: set[str]) -> bool:
    """An import, until now from elsewhere, of nothing but names that the module is about to define."""
    match statement:
        case cst.SimpleStatementLine(body=[cst.ImportFrom(names=names)]) if not isinstance(names, cst.ImportStar):
            return {alias.evaluated_alias or alias.evaluated_name for alias in names} <= own
        case _:
            return False


def _bindings_of(tree: cst.Module) -> _Bindings:
    found = _Bindings()
    for statement in tree.body:
        match statement:
            case cst.SimpleStatementLine(body=[cst.ImportFrom() | cst.Import() as node]):
                found.imports.update(_lines_of(node))
            case cst.If(test=cst.Name("TYPE_CHECKING"), body=cst.IndentedBlock(body=inner)):
                for each in inner:
                    match each:
                        case cst.SimpleStatementLine(body=[cst.ImportFrom() | cst.Import() as node]):
                            found.typing_imports.update(_lines_of(node))
                        case _:
                            pass
            case _:
                found.definitions |= _defined_by(statement)
    return found


def _lines_of(node: cst.ImportFrom | cst.Import) -> dict[str, str]:
    """For each name that an import binds, an import of that name alone."""
    if isinstance(node.names, cst.ImportStar):
        return {}
    lines: dict[str, str] = {}
    for alias in node.names:
        name, asname = alias.evaluated_name, alias.evaluated_alias
        renamed = f" as {asname}" if asname else ""
        if isinstance(node, cst.ImportFrom):
            module = get_full_name_for_node(node.module) if node.module is not None else None
            if module is None or node.relative:
                raise PlanError("relative imports cannot be moved")
            lines[asname or name] = f"from {module} import {name}{renamed}\n"
        else:
            lines[asname or name.partition(".")[0]] = f"import {name}{renamed}\n"
    return lines


def _defined_by(statement: cst.BaseStatement) -> set[str]:
    match statement:
        case cst.ClassDef(name=name) | cst.FunctionDef(name=name):
            return {name.value}
        case cst.SimpleStatementLine(body=[cst.Assign(targets=targets)]):
            return {each.target.value for each in targets if isinstance(each.target, cst.Name)}
        case cst.SimpleStatementLine(body=[cst.AnnAssign(target=cst.Name(value=value))]):
            return {value}
        case cst.SimpleStatementLine(body=[cst.TypeAlias(name=cst.Name(value=value))]):
            return {value}
        case _:
            return set()


class _Names(cst.CSTVisitor):
    def __init__(self) -> None:
        self.found: set[str] = set()

    def visit_Name(self, node: cst.Name) -> None:
        self.found.add(node.value)

    def visit_Attribute(self, node: cst.Attribute) -> bool:
        node.value.visit(self)
        return False

    def visit_Arg(self, node: cst.Arg) -> bool:
        node.value.visit(self)
        return False


def _names_in(statements: Iterable[cst.BaseStatement]) -> set[str]:
    """Names that statements use, or define: attributes and keywords of calls left out."""
    names = _Names()
    for statement in statements:
        statement.visit(names)
    return names.found


def _without_export(statement: cst.BaseStatement, moves: dict[str, str]) -> cst.BaseStatement:
    """`__all__` without the moved names."""
    match statement:
        case cst.SimpleStatementLine(
            body=[cst.Assign(targets=[cst.AssignTarget(cst.Name("__all__"))], value=cst.List() as listed) as assign]
        ):
            kept = [each for each in listed.elements if not _is_one_of(each.value, moves)]
            return statement.with_changes(body=[assign.with_changes(value=listed.with_changes(elements=kept))])
        case _:
            return statement


def _is_one_of(value: cst.BaseExpression, names: dict[str, str]) -> bool:
    return isinstance(value, cst.SimpleString) and value.evaluated_value in names


def relocations(names: dict[Place, Place], module: Callable[[str], str]) -> dict[str, dict[str, str]]:
    """For each module, under its new name: which of its definitions go to which other module."""
    found: dict[str, dict[str, str]] = {}
    for old, new in names.items():
        home = module(old.module)
        if home != new.module:
            found.setdefault(home, {})[new.name] = new.module
    return found
