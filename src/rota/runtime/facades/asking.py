"""What users' questions have in common, whatever they ask for."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from rota.api import errors
from rota.api.values import JsonValue
from rota.domains.base import Rejected as DomainRejected
from rota.domains.queries import Query
from rota.domains.records import Record

Item = TypeVar("Item")


def read_query(given: JsonValue) -> Query:
    """QueryJSON as a client wrote it. `Rejected` names what is wrong."""
    try:
        return Query.parse(given if given is not None else {})
    except DomainRejected as flaw:
        raise errors.invalid(flaw.field, flaw.message) from None


def selected(given: JsonValue, items: Iterable[Item], record_of: Callable[[Item], Record]) -> tuple[Item, ...]:
    """Those of a few that a client looks for. `Rejected` names what is wrong with the query."""
    query = read_query(given)
    try:
        return query.select(items, record_of)
    except DomainRejected as flaw:
        raise of_query(flaw) from None


def of_query(flaw: DomainRejected) -> errors.Rejected:
    """A field that is not there, or cannot be compared, is the query's fault."""
    return errors.invalid(flaw.field if flaw.field.startswith("query") else f"query.{flaw.field}", flaw.message)
