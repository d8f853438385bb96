"""QueryJSON as SQL: the queries of clients on a table, with the same answer on both databases.

A table names the columns that may be queried, each with its type; nothing else of a query becomes part of the SQL
text. Values are bound as parameters. A client's value is read as the column's type: a UUID or hex as bytes, a time as
milliseconds. A column without a value is null, and every statement about it is either true or false.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Final
from uuid import UUID

from rota.domains.queries import Query
from rota.domains.queries import Statement as Comparison
from rota.model.types import Rejected
from rota.ports.parties import ANY_BELOW, PartyNames
from rota.store.database import Statement, Value

ROWS_MAX: Final = 10_000
ROWS_DEFAULT: Final = 1_000
# SQLite takes 50,000 bytes.
PATTERN_LENGTH_MAX: Final = 4_096
ALTERNATIVES_A_PART: Final = 64
NUMBER_MAX: Final = 2**63 - 1

_HEX: Final = re.compile("(?:0x)?((?:[0-9a-fA-F]{2})*)")
_NUMBER: Final = re.compile("-?[0-9]{1,19}")
_HEX_NUMBER: Final = re.compile("0x[0-9a-fA-F]{1,16}")
_SIGNS: Final = {"eq": "=", "neq": "=", "in": "=", "nin": "=", "lt": "<", "lte": "<=", "gt": ">", "gte": ">="}
# Clients send numbers for times in different units; the size shows which one.
_SECONDS_BELOW: Final = 10**11
_MILLISECONDS_BELOW: Final = 10**15


class Kind(Enum):
    """The type of a column, which determines how its values are written in a query."""

    TEXT = "text"
    NUMBER = "a whole number"
    BOOLEAN = "true or false"
    BYTES = "hex digits in pairs"
    UUID = "a UUID"
    TIME = "a time, as RFC 3339 or as a number"


@dataclass(frozen=True, slots=True)
class Column:
    """A column, or an SQL expression of ours in its place."""

    sql: str
    kind: Kind


@dataclass(frozen=True, slots=True)
class Table:
    """A queryable source: its FROM clause, the columns by the names that clients use, and the default order."""

    source: str
    columns: Mapping[str, Column]
    order: str


def named_by(names: PartyNames, column: str) -> Statement:
    """A condition: the party in this column matches one of these. Both databases compare names byte by byte."""
    suffix = f"@{names.node}"
    exact = [stored_text(each + suffix) for each in names.patterns if not each.endswith(ANY_BELOW)]
    parts = [f"{column} IN ({', '.join('?' * len(exact))})"] if exact else []
    parameters: list[Value] = [*exact]
    # Databases limit the depth of an expression: the alternatives are grouped.
    below = [stored_text(each[:-1]) for each in names.patterns if each.endswith(ANY_BELOW)]
    for begin in range(0, len(below), ALTERNATIVES_A_PART):
        some = below[begin : begin + ALTERNATIVES_A_PART]
        begins = " OR ".join(
            [f"(SUBSTR({column}, 1, {len(each)}) = ? AND LENGTH({column}) > {len(each + suffix)})" for each in some]
        )
        parts.append(f"(SUBSTR({column}, LENGTH({column}) - {len(suffix) - 1}) = ? AND ({begins}))")
        parameters += [suffix, *some]
    return Statement(f"({' OR '.join(parts) or 'FALSE'})", tuple(parameters))


def selection(table: Table, selected: str, query: Query, path: str = "query", also: str = "TRUE") -> Statement:
    """The statement for a query, restricted by the condition `also`. `Rejected` names the fault.

    Without a limit it returns at most `ROWS_DEFAULT` rows.
    """
    where, parameters = _conditions(table, query, path)
    order = ", ".join(_order(table, name, is_descending, path) for name, is_descending in query.sort)
    limit = min(query.limit or ROWS_DEFAULT, ROWS_MAX)
    sql = (
        f"SELECT {selected} FROM {table.source} WHERE ({also}) AND ({where}) "
        f"ORDER BY {f'{order}, ' if order else ''}{table.order} LIMIT {limit}"
    )
    return Statement(sql, tuple(parameters))


def _conditions(table: Table, query: Query, path: str) -> tuple[str, list[Value]]:
    parts: list[str] = []
    parameters: list[Value] = []
    for comparison in query.statements:
        sql, values = _condition(_column(table, comparison.field, path), comparison, path)
        parts.append(f"NOT ({sql})" if comparison.is_negated else sql)
        parameters.extend(values)
    if query.alternatives:
        found = [_conditions(table, alternative, f"{path}.or") for alternative in query.alternatives]
        parts.append(" OR ".join(f"({sql})" for sql, _ in found))
        parameters.extend(value for _, values in found for value in values)
    return " AND ".join(f"({part})" for part in parts) or "TRUE", parameters


def _condition(column: Column, comparison: Comparison, path: str) -> tuple[str, list[Value]]:
    """A condition that is never unknown: null equals no value and differs from every value."""
    if comparison.operation == "null":
        return f"{column.sql} IS NULL", []
    where = f"{path}.{comparison.operation}.{comparison.field}"
    given = [each for each in comparison.values if each is not None]
    if comparison.operation == "like" and column.kind is not Kind.TEXT:
        raise Rejected(where, "must be a pattern, of a field that is text")
    values = [_bound(column.kind, each, where) for each in given]
    folds = comparison.ignores_case and column.kind is Kind.TEXT
    if comparison.operation == "like":
        return _like(column, values, folds, where)
    left, right = (f"LOWER({column.sql})", "LOWER(?)") if folds else (column.sql, "?")
    if comparison.operation in ("lt", "lte", "gt", "gte"):
        if not values:
            raise Rejected(where, f"must be {column.kind.value}")
        sign, ordered = _SIGNS[comparison.operation], ' COLLATE "C"' if column.kind is Kind.TEXT else ""
        return f"{column.sql} IS NOT NULL AND {left} {sign} {right}{ordered}", values
    among = f"{column.sql} IS NOT NULL AND {left} IN ({', '.join([right] * len(values))})" if values else "FALSE"
    if len(given) < len(comparison.values):
        among = f"{column.sql} IS NULL OR ({among})"
    return (f"NOT ({among})" if comparison.operation in ("neq", "nin") else among), values


def _like(column: Column, values: list[Value], folds: bool, where: str) -> tuple[str, list[Value]]:
    if not values:
        raise Rejected(where, "must be a pattern, of a field that is text")
    if len(str(values[0])) > PATTERN_LENGTH_MAX:
        raise Rejected(where, f"must be a pattern of at most {PATTERN_LENGTH_MAX} characters")
    pattern = str(values[0]).replace("\\", "\\\\")
    left, right = (f"LOWER({column.sql})", "LOWER(?)") if folds else (column.sql, "?")
    return f"{column.sql} IS NOT NULL AND {left} LIKE {right} ESCAPE '\\'", [pattern]


def _order(table: Table, name: str, is_descending: bool, path: str) -> str:
    column = _column(table, name, f"{path}.sort")
    collation = ' COLLATE "C"' if column.kind is Kind.TEXT else ""
    return f"{column.sql}{collation} {'DESC NULLS LAST' if is_descending else 'ASC NULLS FIRST'}"


def _column(table: Table, name: str, path: str) -> Column:
    found = table.columns.get(name)
    if found is None:
        raise Rejected(f"{path}.field", f"must be one of {', '.join(table.columns)}, not {name[:80]!r}")
    return found


def _bound(kind: Kind, given: object, where: str) -> Value:
    """A client's value as the column stores it; `Rejected` if it has another type."""
    read = {
        Kind.TEXT: _text,
        Kind.NUMBER: _number,
        Kind.BOOLEAN: _boolean,
        Kind.BYTES: _bytes,
        Kind.UUID: _uuid,
        Kind.TIME: _time_ms,
    }[kind](given)
    if read is None:
        raise Rejected(where, f"must be {kind.value}, not {str(given)[:80]!r}")
    return read


def stored_text(text: str) -> str:
    """The text as stored in a text column: without NUL, which PostgreSQL lacks, and without half surrogate pairs."""
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode("utf-8")


def _text(given: object) -> str | None:
    match given:
        case str():
            return stored_text(given)
        case bool():
            return "true" if given else "false"
        case int():
            return str(given)
        case _:
            return None


def _number(given: object) -> int | None:
    match given:
        case bool():
            return None
        case int():
            number = given
        case str() if _NUMBER.fullmatch(given):
            number = int(given)
        case str() if _HEX_NUMBER.fullmatch(given):
            number = int(given, 16)
        case _:
            return None
    return number if -NUMBER_MAX <= number <= NUMBER_MAX else None


def _boolean(given: object) -> int | None:
    match given:
        case bool():
            return int(given)
        case str() if given.lower() in ("true", "false"):
            return int(given.lower() == "true")
        case _:
            return None


def _bytes(given: object) -> bytes | None:
    match = _HEX.fullmatch(given) if isinstance(given, str) else None
    return bytes.fromhex(match[1]) if match is not None else None


def _uuid(given: object) -> bytes | None:
    try:
        return UUID(given).bytes if isinstance(given, str) else None
    except ValueError:
        return None


def _time_ms(given: object) -> int | None:
    number = _number(given)
    if number is not None:
        unit = 1_000 if number < _SECONDS_BELOW else 1
        time_ms = number * unit if number < _MILLISECONDS_BELOW else number // 1_000_000
        return time_ms if time_ms >= -NUMBER_MAX else None
    try:
        when = datetime.fromisoformat(given) if isinstance(given, str) else None
    except ValueError:
        return None
    return int(when.timestamp() * 1_000) if when is not None and when.tzinfo is not None else None
