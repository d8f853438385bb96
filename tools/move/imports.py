"""Imports and uses of what a plan moves, in one module.

An import of a module or name that moves is rewritten in place, so that one under `TYPE_CHECKING` or in a function
stays there. A name that is called otherwise afterwards is renamed at its uses too, by scope: a parameter of the same
name is left alone. If the new name is taken in the module, the import keeps the old one with `as`. Strings and comments
with dotted names or paths in them are rewritten as documents are.
"""

from __future__ import annotations

import io
import tokenize
from collections.abc import Callable, Container
from dataclasses import dataclass, field

import libcst as cst
from libcst.helpers import get_full_name_for_node
from libcst.metadata import Assignment, ImportAssignment, MetadataWrapper, ScopeProvider

from tools.move.plan import Place, Plan


@dataclass
class Rewriting:
    """One module's tree with everything in it that refers to what moves."""

    plan: Plan
    modules: Container[str]
    rewrite_text: Callable[[str], str]
    # The definitions that this module has under its old name, and that are called otherwise afterwards.
    own_renamed: dict[str, str] = field(default_factory=dict)

    def apply(self, source: str) -> str:
        """The module's source afterwards."""
        tree = cst.parse_module(source)
        found = _Imports(self.plan, self.modules)
        tree.visit(found)
        renamed = {**found.renamed, **self.own_renamed}
        used = _words(source)
        taken = {old for old, new in found.renamed.items() if new in used}
        renamed = {old: new for old, new in renamed.items() if old not in taken}
        targets: set[cst.CSTNode] = set()
        if renamed:
            wrapper = MetadataWrapper(tree, unsafe_skip_copy=True)
            targets = _uses(wrapper, renamed)
            tree = wrapper.module
        changed = tree.visit(_Rewriter(self, found, renamed, taken, targets))
        changed = _with_imports(changed, found, used)
        return changed.code


class _Imports(cst.CSTVisitor):
    """What the imports of a module bind: which names change, and which names stand for modules."""

    def __init__(self, plan: Plan, modules: Container[str]) -> None:
        self.plan = plan
        self.modules = modules
        self.renamed: dict[str, str] = {}
        self.bound_modules: dict[str, str] = {}
        # New imports that uses through a module need: the name that is bound, and the module.
        self.wanted: dict[str, str] = {}

    def visit_ImportFrom(self, node: cst.ImportFrom) -> None:
        module = _module_of(node)
        if module is None or isinstance(node.names, cst.ImportStar):
            return
        for alias in node.names:
            name = alias.evaluated_name
            target = self.target_of(module, name)
            if target.name != name and alias.asname is None:
                self.renamed[name] = target.name
            if f"{module}.{name}" in self.modules:
                self.bound_modules[alias.evaluated_alias or name] = f"{module}.{name}"

    def target_of(self, module: str, name: str) -> Place:
        """Where an imported name is afterwards, which may be a module."""
        if f"{module}.{name}" in self.modules:
            parent, _, stem = self.plan.module(f"{module}.{name}").rpartition(".")
            return Place(parent, stem)
        return self.plan.name(Place(module, name))


class _Rewriter(cst.CSTTransformer):
    def __init__(
        self,
        rewriting: Rewriting,
        imports: _Imports,
        renamed: dict[str, str],
        taken: set[str],
        targets: set[cst.CSTNode],
    ) -> None:
        self._plan = rewriting.plan
        self._rewrite_text = rewriting.rewrite_text
        self._imports = imports
        self._renamed = renamed
        self._taken = taken
        self._targets = targets

    def leave_SimpleStatementLine(
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> cst.SimpleStatementLine | cst.FlattenSentinel[cst.SimpleStatementLine]:
        # The module of the original: that of the updated node may have its new name already.
        match original_node.body:
            case [cst.ImportFrom() as only]:
                made = self._rewritten(only)
                first = updated_node.with_changes(body=[made[0]])
                others = [cst.SimpleStatementLine([each]) for each in made[1:]]
                return cst.FlattenSentinel([first, *others]) if others else first
            case _:
                return updated_node

    def _rewritten(self, node: cst.ImportFrom) -> list[cst.ImportFrom]:
        """The import, divided where its names go to different modules."""
        module = _module_of(node)
        if module is None:
            return [node]
        if isinstance(node.names, cst.ImportStar):
            return [node.with_changes(module=_dotted_node(self._plan.module(module)))]
        groups: dict[str, list[cst.ImportAlias]] = {}
        for alias in node.names:
            target = self._imports.target_of(module, alias.evaluated_name)
            groups.setdefault(target.module, []).append(self._alias(alias, target.name))
        if list(groups) == [module] and groups[module] == list(node.names):
            return [node]
        if len(groups) == 1:
            ((target_module, aliases),) = groups.items()
            return [node.with_changes(module=_dotted_node(target_module), names=_listed(aliases))]
        return [
            cst.ImportFrom(module=_dotted_node(target_module), names=_listed(aliases))
            for target_module, aliases in groups.items()
        ]

    def _alias(self, alias: cst.ImportAlias, name: str) -> cst.ImportAlias:
        old = alias.evaluated_name
        if name == old:
            return alias
        if alias.asname is None and old in self._taken:
            return alias.with_changes(name=cst.Name(name), asname=cst.AsName(cst.Name(old)))
        if alias.asname is not None and alias.evaluated_alias == name:
            return alias.with_changes(name=cst.Name(name), asname=None)
        return alias.with_changes(name=cst.Name(name))

    def leave_Import(self, original_node: cst.Import, updated_node: cst.Import) -> cst.Import:
        def moved(alias: cst.ImportAlias) -> cst.ImportAlias:
            new = self._plan.module(alias.evaluated_name)
            return alias if new == alias.evaluated_name else alias.with_changes(name=_dotted_node(new))

        return updated_node.with_changes(names=[moved(alias) for alias in original_node.names])

    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> cst.Attribute | cst.Name:
        """`rota.x.y.Name`, or `module.Name` by way of an imported module."""
        if isinstance(original_node.value, cst.Name):
            module = self._imports.bound_modules.get(original_node.value.value)
            place = Place(module or "", original_node.attr.value)
            if module is not None and place in self._plan.names:
                target = self._plan.names[place]
                if target.module == self._plan.module(module):
                    return updated_node.with_changes(attr=cst.Name(target.name))
                local = target.module.rpartition(".")[2]
                self._imports.wanted[local] = target.module
                return updated_node.with_changes(value=cst.Name(local), attr=cst.Name(target.name))
        full = get_full_name_for_node(original_node)
        if full is not None and full.startswith("rota.") and full in self._imports.modules:
            new = self._plan.module(full)
            return updated_node if new == full else _attribute(new)
        return updated_node

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.Name:
        if original_node in self._targets:
            return updated_node.with_changes(value=self._renamed[original_node.value])
        return updated_node

    def leave_Assign(self, original_node: cst.Assign, updated_node: cst.Assign) -> cst.Assign:
        match updated_node:
            case cst.Assign(targets=[cst.AssignTarget(cst.Name("__all__"))], value=cst.List() as listed):
                exported = [self._exported(element) for element in listed.elements]
                return updated_node.with_changes(value=listed.with_changes(elements=exported))
            case _:
                return updated_node

    def _exported(self, element: cst.BaseElement) -> cst.BaseElement:
        value = element.value
        if isinstance(value, cst.SimpleString) and value.raw_value in self._renamed:
            return element.with_changes(value=cst.SimpleString(f'"{self._renamed[value.raw_value]}"'))
        return element

    def leave_SimpleString(self, original_node: cst.SimpleString, updated_node: cst.SimpleString) -> cst.SimpleString:
        text = self._rewrite_text(updated_node.value)
        return updated_node if text == updated_node.value else updated_node.with_changes(value=text)

    def leave_FormattedStringText(
        self, original_node: cst.FormattedStringText, updated_node: cst.FormattedStringText
    ) -> cst.FormattedStringText:
        return updated_node.with_changes(value=self._rewrite_text(updated_node.value))

    def leave_Comment(self, original_node: cst.Comment, updated_node: cst.Comment) -> cst.Comment:
        return updated_node.with_changes(value=self._rewrite_text(updated_node.value))


def _uses(wrapper: MetadataWrapper, renamed: dict[str, str]) -> set[cst.CSTNode]:
    """The nodes by which the module's own or imported names are defined and used."""
    scopes = {scope for scope in wrapper.resolve(ScopeProvider).values() if scope is not None}
    found: set[cst.CSTNode] = set()
    for scope in scopes:
        for old in renamed:
            for assignment in scope[old]:
                if not isinstance(assignment, Assignment) or assignment.scope is not scope:
                    continue
                is_global = assignment.scope is assignment.scope.globals
                if not is_global and not isinstance(assignment, ImportAssignment):
                    continue
                if is_global and not isinstance(assignment, ImportAssignment):
                    found |= _definition_names(assignment.node, old)
                found.update(access.node for access in assignment.references)
    return {node for node in found if isinstance(node, cst.Name)}


def _definition_names(node: cst.CSTNode, old: str) -> set[cst.CSTNode]:
    if isinstance(node, cst.ClassDef | cst.FunctionDef):
        return {node.name}
    return {node} if isinstance(node, cst.Name) and node.value == old else set()


def _with_imports(tree: cst.Module, imports: _Imports, used: set[str]) -> cst.Module:
    """Add the imports for names that are used through a module."""
    lines = []
    for local, module in imports.wanted.items():
        if local in used and imports.bound_modules.get(local) is None:
            raise ValueError(f"{local} is taken: import {module} by hand")
        parent, _, stem = module.rpartition(".")
        lines.append(f"from {parent} import {stem}\n")
    return add_lines(tree, lines)


def add_lines(tree: cst.Module, lines: list[str]) -> cst.Module:
    """Imports behind the docstring and `from __future__`; the formatter sorts them."""
    if not lines:
        return tree
    position = 0
    for number, statement in enumerate(tree.body):
        is_docstring = number == 0 and _is_docstring(statement)
        if is_docstring or _is_future(statement):
            position = number + 1
    made = [cst.parse_statement(line) for line in lines]
    return tree.with_changes(body=[*tree.body[:position], *made, *tree.body[position:]])


def _is_docstring(statement: cst.BaseStatement) -> bool:
    match statement:
        case cst.SimpleStatementLine(body=[cst.Expr(value=cst.SimpleString())]):
            return True
        case _:
            return False


def _is_future(statement: cst.BaseStatement) -> bool:
    match statement:
        case cst.SimpleStatementLine(body=[cst.ImportFrom() as node]):
            return _module_of(node) == "__future__"
        case _:
            return False


def _module_of(node: cst.ImportFrom) -> str | None:
    return None if node.relative or node.module is None else get_full_name_for_node(node.module)


def _dotted_node(dotted: str) -> cst.Name | cst.Attribute:
    return cst.Name(dotted) if "." not in dotted else _attribute(dotted)


def _attribute(dotted: str) -> cst.Attribute:
    value, _, attr = dotted.rpartition(".")
    return cst.Attribute(_dotted_node(value), cst.Name(attr))


def _listed(aliases: list[cst.ImportAlias]) -> list[cst.ImportAlias]:
    """With commas between them and none at the end."""
    last = len(aliases) - 1
    comma = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
    return [
        alias.with_changes(comma=comma if number < last else cst.MaybeSentinel.DEFAULT)
        for number, alias in enumerate(aliases)
    ]


def _words(source: str) -> set[str]:
    """Every name in the code, comments and strings left out."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return {token.string for token in tokens if token.type == tokenize.NAME}
