"""Reads JSON from others, with one error for all of its flaws."""

from __future__ import annotations

from typing import Any, TypeVar, overload

import msgspec

V = TypeVar("V")


class NotJson(ValueError):
    """The text is no JSON, or not of the expected type."""


@overload
def read_json(content: bytes | str) -> Any: ...  # noqa: ANN401


@overload
def read_json(content: bytes | str, kind: type[V]) -> V: ...


def read_json(content: bytes | str, kind: Any = Any) -> Any:
    """Return the value of this type; raise `NotJson`, and nothing else, when there is none.

    The library raises errors of several families: for the syntax, for the type, for text that is no UTF-8, and for
    lists that are nested too deep.
    """
    try:
        return msgspec.json.decode(content, type=kind)
    except Exception as error:
        raise NotJson(str(error)) from None
