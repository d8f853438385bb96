"""The table of claims has every field that a peer can send, and no other (trust rule 10)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any, get_args, get_type_hints

import pytest

from rota.node.claims import CLAIMS, Bounded, Claim, Harmless, Verified
from rota.transport.claims import HELLO_CLAIMS
from rota.transport.parts import Announcement, Hello
from rota.wire import messages
from tests.wire.samples import MESSAGE_TYPES


def nested(kind: Any) -> Iterator[type[Any]]:  # noqa: ANN401  # An annotation has no type.
    """The records in an annotation."""
    if is_dataclass(kind) or hasattr(kind, "_fields"):
        yield kind
    for part in get_args(kind):
        yield from nested(part)


def sent() -> dict[type[Any], None]:
    """All that travels between nodes: the envelope, every message, and what is nested in them."""
    found: dict[type[Any], None] = {}
    waiting: list[type[Any]] = [messages.Envelope, *MESSAGE_TYPES]
    while waiting:
        kind = waiting.pop()
        if kind not in found and kind is not messages.Message:
            found[kind] = None
            waiting += [part for name in names_of(kind) for part in nested(get_type_hints(kind)[name])]
    return dict.fromkeys(sorted(found, key=lambda kind: kind.__name__))


def names_of(kind: type[Any]) -> set[str]:
    return {field.name for field in fields(kind)} if is_dataclass(kind) else set(kind._fields)


@pytest.mark.parametrize("kind", sent(), ids=lambda kind: kind.__name__)
def test_every_field_of_every_message_has_a_claim(kind: type[Any]) -> None:
    assert set(CLAIMS[kind]) == names_of(kind)


def test_no_claim_is_of_something_that_is_not_sent() -> None:
    assert set(CLAIMS) == set(sent())


@pytest.mark.parametrize("kind", [Hello, Announcement], ids=lambda kind: kind.__name__)
def test_every_field_of_the_greeting_has_a_claim(kind: type[Any]) -> None:
    assert set(HELLO_CLAIMS[kind]) == names_of(kind)


@pytest.mark.parametrize(
    "claim", [claim for table in (CLAIMS, HELLO_CLAIMS) for of in table.values() for claim in of.values()]
)
def test_claim_names_a_check_of_ours_or_says_why_it_is_harmless(claim: Claim) -> None:
    if isinstance(claim, Verified | Bounded):
        assert claim.by.__module__.startswith("rota.")
    else:
        assert isinstance(claim, Harmless)
        assert claim.because
