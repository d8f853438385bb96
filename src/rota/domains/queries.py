"""QueryJSON: clients' queries for states (client API), as far as states need it.

    {"eq": [{"field": "owner", "value": "bob@node2"}], "gte": [{"field": "amount", "value": 10}],
     "or": [{...}, {...}], "sort": ["amount DESC"], "limit": 10}

All statements of an object must hold; of the objects in `or` one is enough. Numbers are compared as numbers, text as
text, bytes as bytes. `like` knows % and _. A missing field is null.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeAlias, TypeVar

from rota.domains.contents import name_of
from rota.domains.records import Field, Record, Rejected, fields_of

LIMIT_MAX: Final = 10_000
STATEMENTS_MAX: Final = 64
DEPTH_MAX: Final = 4
SORTS_MAX: Final = 8
VALUES_MAX: Final = 1_000
# In all statements together, nested ones too: a database takes seconds to plan a query of some ten thousand.
COMPARISONS_MAX: Final = 2_560
# A pattern is searched in any text; one with _ costs its length for each letter of it.
LIKE_COST_MAX: Final = 4_194_304

Item = TypeVar("Item")
Test: TypeAlias = Callable[[Record], bool]

_NAMES: Final = {
    "equal": "eq",
    "lessThan": "lt",
    "lessThanOrEqual": "lte",
    "greaterThan": "gt",
    "greaterThanOrEqual": "gte",
}
_SINGLE: Final = ("eq", "neq", "like", "lt", "lte", "gt", "gte")
_SEVERAL: Final = ("in", "nin")
_ORDERS: Final[Mapping[str, Callable[[int], bool]]] = {
    "lt": lambda order: order < 0,
    "lte": lambda order: order <= 0,
    "gt": lambda order: order > 0,
    "gte": lambda order: order >= 0,
}


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
    """Statements that must all hold, alternatives of which one must hold, the order, and the maximal number."""

    statements: tuple[Statement, ...] = ()
    alternatives: tuple[Query, ...] = ()
    sort: tuple[tuple[str, bool], ...] = ()
    limit: int | None = None

    @classmethod
    def parse(cls, given: object, path: str = "query") -> Query:
        """A query as a client writes it. `Rejected` names the fault."""
        return _parsed(given, path, 0, _Room(COMPARISONS_MAX))

    @property
    def size(self) -> int:
        """How many comparisons are needed to test one record."""
        own = sum(max(1, len(statement.values)) for statement in self.statements)
        return own + sum(alternative.size for alternative in self.alternatives)

    def holds(self, record: Record) -> bool:
        """Whether a record matches. `Rejected` when it has no such field."""
        return self.test_of(type(record))(record)

    def test_of(self, record_type: type[Record]) -> Test:
        """A test for records of one kind: the query's values are read once, however many records follow.

        `Rejected` when the kind has no such field.
        """
        tests = tuple(_test_of(statement, record_type) for statement in self.statements)
        others = tuple(alternative.test_of(record_type) for alternative in self.alternatives)

        def is_wanted(record: Record) -> bool:
            return all(test(record) for test in tests) and (not others or any(test(record) for test in others))

        return is_wanted

    def select(self, items: Iterable[Item], record_of: Callable[[Item], Record]) -> tuple[Item, ...]:
        """The items that match, in the query's order, at most `limit`."""
        tests: dict[type[Record], Test] = {}
        found: list[Item] = []
        for item in items:
            record = record_of(item)
            kind = type(record)
            test = tests[kind] = tests.get(kind) or self.test_of(kind)
            if test(record):
                found.append(item)
        return self.ordered(found, record_of)

    def ordered(self, found: Iterable[Item], record_of: Callable[[Item], Record]) -> tuple[Item, ...]:
        """These items in the query's order, at most `limit`."""
        ordered = list(found)
        for name, is_descending in reversed(self.sort):
            ordered.sort(key=partial(_rank, record_of, name), reverse=is_descending)
        return tuple(ordered[: self.limit])


class _Room:
    """How many comparisons a query may still have."""

    def __init__(self, left: int) -> None:
        self._left = left

    def take(self, path: str, count: int) -> None:
        """Take so many comparisons. `Rejected` when there are not enough left."""
        self._left -= count
        if self._left < 0:
            raise Rejected(path, f"must leave no more than {COMPARISONS_MAX} comparisons in the whole query")


def _parsed(given: object, path: str, depth: int, room: _Room) -> Query:
    if not isinstance(given, Mapping):
        raise Rejected(path, "must be an object")
    if depth > DEPTH_MAX:
        raise Rejected(path, f"must nest at most {DEPTH_MAX} deep")
    statements: list[Statement] = []
    for key, entries in given.items():
        operation = _NAMES.get(str(key), str(key))
        if operation in (*_SINGLE, *_SEVERAL, "null"):
            where = f"{path}.{key}"
            for number, each in enumerate(_list(where, entries)):
                found = _statement(operation, f"{where}[{number}]", each)
                room.take(where, max(1, len(found.values)))
                statements.append(found)
        elif operation not in ("or", "sort", "limit"):
            raise Rejected(f"{path}.{key}", "is no operation: eq neq like lt lte gt gte in nin null or sort limit")
    nested = _list(f"{path}.or", given.get("or") or [])
    room.take(f"{path}.or", len(nested))
    alternatives = tuple(_parsed(each, f"{path}.or[{n}]", depth + 1, room) for n, each in enumerate(nested))
    return Query(tuple(statements), alternatives, _sort(path, given.get("sort")), _limit(path, given.get("limit")))


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
    for number, each in enumerate(_list(f"{path}.sort", given or [], SORTS_MAX)):
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
    # Clients write 0 for all.
    return given or None


def _test_of(statement: Statement, record_type: type[Record]) -> Test:
    is_so, field = _comparison(statement, record_type), _field(record_type, statement.field)
    ignores_case = statement.ignores_case and statement.operation != "null"

    def test(record: Record) -> bool:
        value = field.value_in(record)
        return is_so(_folded(value) if ignores_case else value) is not statement.is_negated

    return test


def _comparison(statement: Statement, record_type: type[Record]) -> Callable[[object], bool]:
    """The comparison of a statement; a client's values are read as the field's own type."""
    if statement.operation == "null":
        return lambda value: value is None
    kind = _field(record_type, statement.field).kind
    read = (kind.accept(statement.field, each) for each in statement.values)
    wanted = tuple(_folded(each) for each in read) if statement.ignores_case else tuple(read)
    match statement.operation:
        case "eq" | "in":
            return frozenset(wanted).__contains__
        case "neq" | "nin":
            unwanted = frozenset(wanted)
            return lambda value: value not in unwanted
        case "like":
            return lambda value: isinstance(value, str) and _is_like(value, str(wanted[0]))
        case _:
            holds = _ORDERS[statement.operation]
            return lambda value: holds(_order(value, wanted[0]))


def _field(record_type: type[Record], name: str) -> Field:
    found = next((field for field in fields_of(record_type) if field.name == name), None)
    if found is None:
        raise Rejected(name, f"is no field of {name_of(record_type)}")
    return found


def _rank(record_of: Callable[[Item], Record], name: str, item: Item) -> Any:  # noqa: ANN401
    """The sort key of an item; all items have a value of the field's type."""
    record = record_of(item)
    value = _field(type(record), name).value_in(record)
    _ = _order(value, value)
    return value


def _folded(value: object) -> object:
    return value.casefold() if isinstance(value, str) else value


def _is_like(value: str, pattern: str) -> bool:
    """Whether a text matches a pattern. Each part between two % is searched behind its predecessor.

    `Rejected` when a part with _ is too long for a text of this length.
    """
    first, *others = pattern.split("%")
    if not others:
        return len(value) == len(first) and _fits(value, first, 0)
    if not _fits(value, first, 0):
        return False
    *between, last = others
    at = len(first)
    for part in between:
        at = _found(value, part, at)
        if at < 0:
            return False
    return len(value) - len(last) >= at and _fits(value, last, len(value) - len(last))


def _fits(value: str, part: str, at: int) -> bool:
    """Whether the text has this part at a place."""
    if "_" not in part:
        return value.startswith(part, at)
    given = value[at : at + len(part)]
    return len(given) == len(part) and all(one in ("_", other) for one, other in zip(part, given, strict=True))


def _found(value: str, part: str, at: int) -> int:
    """The end of the first occurrence of the part from there on; -1 when there is none."""
    if "_" not in part:
        place = value.find(part, at)
        return place + len(part) if place >= 0 else -1
    if len(part) > len(value) - at:
        return -1
    if len(part) * (len(value) - at) > LIKE_COST_MAX:
        raise Rejected("like", "must be a shorter pattern: a part with _ is looked for at every letter of a long text")
    match = re.compile(re.escape(part).replace("_", "."), re.DOTALL).search(value, at)
    return match.end() if match is not None else -1


def _order(one: object, other: object) -> int:
    match one, other:
        case (int(), int()) | (str(), str()) | (bytes(), bytes()):
            return int(one > other) - int(one < other)  # type: ignore[operator]
        case _:
            raise Rejected("query", "numbers, text and bytes have an order, lists and tuples have none")
