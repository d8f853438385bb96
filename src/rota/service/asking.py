"""Queries by clients: parsing, selecting, and errors, shared by all features."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Final, TypeVar

from rota.domains.base import Rejected as DomainRejected
from rota.domains.queries import Query
from rota.domains.records import Record
from rota.rpc import errors
from rota.rpc.values import JsonValue

# Between two turns of the event loop; a comparison takes a microsecond.
COMPARED_AT_ONCE: Final = 8_192
COMPARISONS_AT_ONCE_MAX: Final = 64

Item = TypeVar("Item")


def read_query(given: JsonValue) -> Query:
    """Parse a client's QueryJSON. `Rejected` names the field that is wrong."""
    try:
        return Query.parse(given if given is not None else {})
    except DomainRejected as flaw:
        raise errors.invalid(flaw.field, flaw.message) from None


async def selected(
    query: Query, items: Iterable[Item], record_of: Callable[[Item], Record], most: int | None = None
) -> tuple[Item, ...]:
    """Return the items that a query matches, in its order. Yields to the event loop between comparisons.

    `Rejected` names the field of the query that is wrong.
    """
    found: list[Item] = []
    test, compared = None, 0
    try:
        for item in items:
            record = record_of(item)
            test = test or query.test_of(type(record))
            if test(record):
                found.append(item)
            compared += 1 + query.size
            if compared >= COMPARED_AT_ONCE:
                compared = 0
                await asyncio.sleep(0)
        return query.ordered(found, record_of)[:most]
    except DomainRejected as flaw:
        raise of_query(flaw) from None


def selected_at_once(given: JsonValue, items: Iterable[Item], record_of: Callable[[Item], Record]) -> tuple[Item, ...]:
    """Return the items that a short query matches, of a few in memory. `Rejected` names the field that is wrong."""
    query = read_query(given)
    if query.size > COMPARISONS_AT_ONCE_MAX:
        raise errors.invalid("query", f"must have at most {COMPARISONS_AT_ONCE_MAX} comparisons here, not {query.size}")
    try:
        return query.select(items, record_of)
    except DomainRejected as flaw:
        raise of_query(flaw) from None


def of_query(flaw: DomainRejected) -> errors.Rejected:
    """Return the error for a query that names a field which does not exist or cannot be compared."""
    return errors.invalid(flaw.field if flaw.field.startswith("query") else f"query.{flaw.field}", flaw.message)
