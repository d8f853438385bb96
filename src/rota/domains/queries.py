"""QueryJSON: how clients look for states (client API), as far as states need it.

    {"eq": [{"field": "owner", "value": "bob@node2"}], "gte": [{"field": "amount", "value": 10}],
     "or": [{...}, {...}], "sort": ["amount DESC"], "limit": 10}

All statements of an object must hold; of the objects in `or` one is enough. Numbers are compared as numbers, text as
text, bytes as bytes. `like` knows % and _. A field that is not there is null.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cmp_to_key, partial
from typing import Final, TypeVar

from rota.domains.contents import name_of
from rota.domains.records import Field, Record, Rejected, fields_of

LIMIT_MAX: Final = 10_000
STATEMENTS_MAX: Final = 64
DEPTH_MAX: Final = 4
VALUES_MAX: Final = 1_000

Item = TypeVar("Item")

_NAMES: Final = {
    "equal": "eq",
    "lessThan": "lt",
    "lessThanOrEqual": "lte",
    "greaterThan": "gt",
    "greaterThanOrEqual": "gte",
}
_SINGLE: Final = ("eq", "neq", "like", "lt", "lte", "gt", "gte")
_SEVERAL: Final = ("in", "nin")


@dataclass(frozen=True, slots=True)
class Statement:
    """One comparison of a field."""

    operation: str
    field: str
    values: tuple[object, ...]
    is_negated: bool
    ignores_case: bool


@dataclass(frozen=True, slots=True)
class Query:
    """Statements that must all hold, alternatives of which one must, and how much is wanted in which order."""

    statements: tuple[Statement, ...] = ()
    alternatives: tuple[Query, ...] = ()
    sort: tuple[tuple[str, bool], ...] = ()
    limit: int | None = None

    @classmethod
    def parse(cls, given: object, path: str = "query", depth: int = 0) -> Query:
        """A query as a client writes it. `Rejected` names what is wrong."""
        if not isinstance(given, Mapping):
            raise Rejected(path, "must be an object")
        if depth > DEPTH_MAX:
            raise Rejected(path, f"must nest at most {DEPTH_MAX} deep")
        statements: list[Statement] = []
        for key, entries in given.items():
            operation = _NAMES.get(str(key), str(key))
            if operation in (*_SINGLE, *_SEVERAL, "null"):
                where = f"{path}.{key}"
                found = [_statement(operation, f"{where}[{n}]", each) for n, each in enumerate(_list(where, entries))]
                statements.extend(found)
            elif operation not in ("or", "sort", "limit"):
                raise Rejected(f"{path}.{key}", "is no operation: eq neq like lt lte gt gte in nin null or sort limit")
        nested = _list(f"{path}.or", given.get("or") or [])
        alternatives = tuple(cls.parse(each, f"{path}.or[{n}]", depth + 1) for n, each in enumerate(nested))
        return cls(tuple(statements), alternatives, _sort(path, given.get("sort")), _limit(path, given.get("limit")))

    def holds(self, record: Record) -> bool:
        """Whether a record is what is looked for. `Rejected` when it has no such field."""
        if not all(_holds(statement, record) for statement in self.statements):
            return False
        return not self.alternatives or any(alternative.holds(record) for alternative in self.alternatives)

    def select(self, items: Iterable[Item], record_of: Callable[[Item], Record]) -> tuple[Item, ...]:
        """Those that are looked for, in order, as many as are wanted."""
        found = [item for item in items if self.holds(record_of(item))]
        for name, is_descending in reversed(self.sort):
            found.sort(key=cmp_to_key(partial(_compared, record_of, name)), reverse=is_descending)
        return tuple(found[: self.limit])


def _statement(operation: str, path: str, given: object) -> Statement:
    if not isinstance(given, Mapping) or not isinstance(given.get("field"), str):
        raise Rejected(f"{path}.field", "must be the name of a field")
    if operation in _SEVERAL:
        values = tuple(_list(f"{path}.values", given.get("values"), VALUES_MAX))
    else:
        values = () if operation == "null" else (given.get("value"),)
    return Statement(operation, given["field"], values, given.get("not") is True, given.get("caseInsensitive") is True)


def _list(path: str, given: object, most: int = STATEMENTS_MAX) -> list[object]:
    if not isinstance(given, list) or len(given) > most:
        raise Rejected(path, f"must be a list of at most {most}")
    return given


def _sort(path: str, given: object) -> tuple[tuple[str, bool], ...]:
    wanted: list[tuple[str, bool]] = []
    for number, each in enumerate(_list(f"{path}.sort", given or [])):
        words = each.split() if isinstance(each, str) else []
        name = words[0].removeprefix("-") if words else ""
        if not name or len(words) > 2 or (len(words) == 2 and words[1].upper() not in ("ASC", "DESC")):
            raise Rejected(f"{path}.sort[{number}]", "must be a field, with ASC or DESC behind it or - before it")
        wanted.append((name, words[0].startswith("-") or words[-1].upper() == "DESC"))
    return tuple(wanted)


def _limit(path: str, given: object) -> int | None:
    if given is None:
        return None
    if not isinstance(given, int) or isinstance(given, bool) or not 0 <= given <= LIMIT_MAX:
        raise Rejected(f"{path}.limit", f"must be a whole number of at most {LIMIT_MAX}")
    # Clients say 0 when they mean all.
    return given or None


def _holds(statement: Statement, record: Record) -> bool:
    value = _value(record, statement.field)
    return _compares(statement, record, value) is not statement.is_negated


def _compares(statement: Statement, record: Record, value: object) -> bool:
    if statement.operation == "null":
        return value is None
    wanted = [_meant(record, statement.field, each) for each in statement.values]
    if statement.ignores_case:
        value, wanted = _folded(value), [_folded(each) for each in wanted]
    match statement.operation:
        case "eq" | "in":
            return value in wanted
        case "neq" | "nin":
            return value not in wanted
        case "like":
            return isinstance(value, str) and _is_like(value, str(wanted[0]))
        case _:
            order = _order(value, wanted[0])
            return {"lt": order < 0, "lte": order <= 0, "gt": order > 0, "gte": order >= 0}[statement.operation]


def _field(record: Record, name: str) -> Field:
    found = next((field for field in fields_of(type(record)) if field.name == name), None)
    if found is None:
        raise Rejected(name, f"is no field of {name_of(type(record))}")
    return found


def _value(record: Record, name: str) -> object:
    return _field(record, name).value_in(record)


def _compared(record_of: Callable[[Item], Record], name: str, one: Item, other: Item) -> int:
    return _order(_value(record_of(one), name), _value(record_of(other), name))


def _meant(record: Record, name: str, given: object) -> object:
    """What a client writes is read as the field's own type."""
    return _field(record, name).kind.accept(name, given)


def _folded(value: object) -> object:
    return value.casefold() if isinstance(value, str) else value


def _is_like(value: str, pattern: str) -> bool:
    """Goes back to the last % alone when a letter does not fit: no pattern takes more than length times length."""
    at, letter, mark, resume = 0, 0, -1, 0
    while at < len(value):
        if letter < len(pattern) and pattern[letter] == "%":
            mark, resume = letter, at
            letter += 1
        elif letter < len(pattern) and pattern[letter] in (value[at], "_"):
            at, letter = at + 1, letter + 1
        elif mark >= 0:
            resume += 1
            at, letter = resume, mark + 1
        else:
            return False
    return all(rest == "%" for rest in pattern[letter:])


def _order(one: object, other: object) -> int:
    match one, other:
        case (int(), int()) | (str(), str()) | (bytes(), bytes()):
            return int(one > other) - int(one < other)  # type: ignore[operator]
        case _:
            raise Rejected("query", "numbers, text and bytes have an order, lists and tuples have none")
