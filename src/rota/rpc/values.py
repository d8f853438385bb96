"""Values of JSON, as methods take and give them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

JsonValue: TypeAlias = "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None"
AbiEntry: TypeAlias = Mapping[str, JsonValue]
