"""The catalogue of log events against the calls in the sources, and the page that is generated from it."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from rota.cli.event_pages import render_events
from rota.logs import catalogue
from rota.logs.catalogue import ALL
from rota.logs.declaration import Level, LogEvent
from rota.logs.fields import FIELDS

SOURCES = Path(__file__).parents[2] / "src" / "rota"
BY_NAME = {name: value for name, value in vars(catalogue).items() if isinstance(value, LogEvent)}
# The declaration writes lines, the server configures their form, and the client logs in its user's process.
MAY_USE_LOGGERS = {"logs/declaration.py", "server/observability.py", "client/unwatched.py"}


class Call(NamedTuple):
    """A call of an event: `catalogue.NAME.log(field=...)`."""

    place: str
    name: str
    fields: frozenset[str]
    is_plain: bool


def calls_in(source: str, place: str) -> Iterator[Call]:
    """Every call, also one whose fields cannot be read (`**fields`, or positional), which is not plain."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Call(ast.Attribute(ast.Attribute(ast.Name("catalogue"), name), "log"), positional, keywords):
                names = {each.arg for each in keywords}
                fields = frozenset(each for each in names if each is not None and each != "error")
                yield Call(f"{place}:{node.lineno}", name, fields, not positional and None not in names)
            case _:
                continue


def sources() -> Iterator[tuple[str, str]]:
    for path in sorted(SOURCES.rglob("*.py")):
        yield path.relative_to(SOURCES).as_posix(), path.read_text(encoding="utf-8")


CALLS = [call for place, source in sources() if "catalogue." in source for call in calls_in(source, place)]


def flaws(calls: list[Call]) -> list[str]:
    """One text for each wrong call."""
    found = []
    for call in calls:
        event = BY_NAME.get(call.name)
        if event is None:
            found.append(f"{call.place}: {call.name} is not declared")
        elif not call.is_plain:
            found.append(f"{call.place}: {call.name} must be called with its fields as keywords")
        elif call.fields != set(event.fields):
            found.append(f"{call.place}: {call.name} has the fields {sorted(event.fields)}, not {sorted(call.fields)}")
    return found


def test_every_call_uses_a_declared_event_with_its_fields() -> None:
    assert flaws(CALLS) == []


def test_every_declared_event_is_used() -> None:
    assert sorted(set(BY_NAME) - {call.name for call in CALLS}) == []


@pytest.mark.parametrize(
    "source",
    [
        "catalogue.NODE_GONE.log()",
        "catalogue.NODE_READY.log(reason='x')",
        "catalogue.NODE_NOT_READY.log()",
        "catalogue.NODE_NOT_READY.log(['x'])",
        "catalogue.NODE_NOT_READY.log(**given)",
    ],
    ids=["undeclared", "surplus field", "missing field", "positional", "unreadable"],
)
def test_wrong_call_is_found(source: str) -> None:
    assert len(flaws(list(calls_in(source, "here")))) == 1


def test_right_call_is_found_with_and_without_an_error() -> None:
    source = "catalogue.NODE_NOT_READY.log(missing=[])\ncatalogue.RPC_COMMAND_FAILED.log(error=error)\n"
    found = list(calls_in(source, "here"))
    assert [(call.name, set(call.fields)) for call in found] == [
        ("NODE_NOT_READY", {"missing"}),
        ("RPC_COMMAND_FAILED", set()),
    ]
    assert flaws(found) == []


def test_no_module_has_a_logger_of_its_own() -> None:
    using = {
        place for place, source in sources() if re.search(r"^\s*(import|from) (structlog|logging)\b", source, re.M)
    }
    assert using == MAY_USE_LOGGERS


def test_every_use_of_the_catalogue_is_a_call_or_a_test_of_the_level() -> None:
    """An event that is passed on as a value would escape the comparison of its fields."""
    for place, source in sources():
        if place.startswith(("logs/", "cli/event_pages")):
            continue
        assert not re.search(r"from rota\.logs\.(catalogue|declaration) import", source), place
        uses = re.findall(r"\bcatalogue\.[A-Z_]+(\.\w+)?", source)
        assert set(uses) <= {".log", ".is_enabled"}, place


# Declarations.


def test_codes_are_unique_and_well_formed() -> None:
    assert [code for code, count in Counter(event.code for event in ALL).items() if count > 1] == []
    assert [event.code for event in ALL if not re.fullmatch(r"[a-z_]+\.[a-z_]+", event.code)] == []
    assert len(ALL) == len(BY_NAME)


def test_fields_are_described_and_every_description_is_used() -> None:
    assert {field for event in ALL for field in event.fields} == set(FIELDS)


def test_errors_and_warnings_have_an_action_and_other_events_have_none() -> None:
    for event in ALL:
        assert bool(event.action) == (event.level in (Level.ERROR, Level.WARNING)), event.code
        assert event.text
        assert event.meaning.endswith("."), event.code
        assert not event.text.endswith("."), event.code


def test_flow_of_a_transaction_names_its_intent() -> None:
    flow = [event for event in ALL if event.code.startswith("transaction.") and event.level is Level.DEBUG]
    assert len(flow) >= 9
    assert [event.code for event in flow if "intent" not in event.fields] == []


# The page.


def test_page_has_every_event_with_its_fields() -> None:
    page = render_events()
    for event in ALL:
        fields = ", ".join(f"`{field}`" for field in event.fields)
        assert f"| `{event.code}` | {fields} | {event.text}. {event.meaning} |" in page
